/**
 * @file test_reply.c
 * Requests and replies: REP, ROUTER and STREAM, at once and later, and REQ on the other side.
 */
#include "support.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void open_server(struct fixture *f, struct probe *p, int type, char endpoint[ENDPOINT_SIZE])
{
    void *const server = peer_new(f, type);

    peer_bind(f, server, TRANSPORT_INPROC, endpoint);
    probe_attach(f, p, server, 0);
    probe_enable(p, EV_READ);
}

static void *join(struct fixture *f, int type, const char *endpoint)
{
    void *const peer = peer_new(f, type);

    peer_connect(peer, endpoint);
    return peer;
}

/* Sends back the last part behind the envelope. */
static void reply_echo(struct probe *p, struct evzmq_message *message)
{
    size_t size = 0;
    const size_t last = evzmq_message_get_part_count(message) - 1;
    const void *const data = evzmq_message_get_part(message, last, &size);

    assert_ok(evzmq_socket_reply(p->socket, evzmq_message_get_envelope(message), data, size));
}

static void expect_echo(struct fixture *f, void *peer, const char *request, const char *expected)
{
    char text[256];

    peer_send_text(peer, request);
    pump_recv_text(f, peer, text, sizeof text);
    assert_string_equal(text, expected);
}

static void rep_replies_from_its_read_callback(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = reply_echo};
    char endpoint[ENDPOINT_SIZE];
    void *req = NULL;

    open_server(f, &p, ZMQ_REP, endpoint);
    req = join(f, ZMQ_REQ, endpoint);
    for (int i = 0; i < 100; i++) {
        expect_echo(f, req, "ping", "ping");
    }
    probe_free(&p);
}

static void check_empty_envelope(struct probe *p, struct evzmq_message *message)
{
    (void)p;
    assert_non_null(evzmq_message_get_envelope(message));
    assert_int_equal(evzmq_envelope_get_part_count(evzmq_message_get_envelope(message)), 0);
}

static void rep_replies_later_and_gets_the_next_request_only_then(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = check_empty_envelope};
    char endpoint[ENDPOINT_SIZE];
    char text[32];
    void *first = NULL;
    void *second = NULL;

    open_server(f, &p, ZMQ_REP, endpoint);
    first = join(f, ZMQ_REQ, endpoint);
    second = join(f, ZMQ_REQ, endpoint);
    peer_send_text(first, "1");
    peer_send_text(second, "2");
    run_until(f, p.reads == 1);
    fixture_run_for(f, 20);
    assert_int_equal(p.reads, 1);
    assert_ok(evzmq_socket_reply(p.socket, NULL, "one", 3));
    pump_recv_text(f, first, text, sizeof text);
    assert_string_equal(text, "one");
    run_until(f, p.reads == 2); /* The reply made the second request readable: no new traffic. */
    assert_ok(evzmq_socket_write(p.socket, "two", 3)); /* A plain write replies too. */
    pump_recv_text(f, second, text, sizeof text);
    assert_string_equal(text, "two");
    probe_free(&p);
}

static void a_rep_that_waits_for_its_reply_costs_no_wakeups(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    uint64_t before = 0;

    open_server(f, &p, ZMQ_REP, endpoint);
    peer_send_text(join(f, ZMQ_REQ, endpoint), "1");
    peer_send_text(join(f, ZMQ_REQ, endpoint), "2");
    run_until(f, p.reads == 1);
    fixture_run_for(f, 20);
    before = probe_wakeups(&p);
    fixture_run_for(f, 300);
    assert_true(probe_wakeups(&p) - before <= 2);
    probe_free(&p);
}

static void a_reply_without_a_request_is_efsm(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_server(f, &p, ZMQ_REP, endpoint);
    assert_errno(evzmq_socket_reply(p.socket, NULL, "x", 1), EFSM);
    assert_errno(evzmq_socket_write(p.socket, "x", 1), EFSM);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
    fixture_glance(f);
    probe_free(&p);
}

static void check_req_envelope(struct probe *p, struct evzmq_message *message)
{
    const struct evzmq_envelope *const envelope = evzmq_message_get_envelope(message);
    size_t size = 1;

    assert_int_equal(evzmq_envelope_get_part_count(envelope), 2);
    assert_non_null(evzmq_envelope_get_part(envelope, 0, &size));
    assert_int_equal(size, 5); /* The routing id that libzmq makes up. */
    assert_non_null(evzmq_envelope_get_part(envelope, 1, &size));
    assert_int_equal(size, 0);
    errno = 0;
    assert_null(evzmq_envelope_get_part(envelope, 2, &size));
    assert_int_equal(errno, EINVAL);
    reply_echo(p, message);
}

static void router_replies_to_req_through_its_delimiter(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = check_req_envelope};
    char endpoint[ENDPOINT_SIZE];
    void *req = NULL;

    open_server(f, &p, ZMQ_ROUTER, endpoint);
    req = join(f, ZMQ_REQ, endpoint);
    for (int i = 0; i < 100; i++) {
        expect_echo(f, req, "ping", "ping");
    }
    probe_free(&p);
}

static void router_replies_to_a_bare_dealer_with_the_routing_id_alone(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = reply_echo};
    char endpoint[ENDPOINT_SIZE];
    void *dealer = NULL;

    open_server(f, &p, ZMQ_ROUTER, endpoint);
    dealer = join(f, ZMQ_DEALER, endpoint);
    expect_echo(f, dealer, "bare", "bare");
    expect_echo(f, dealer, "head|body", "body"); /* No empty part: the id alone is envelope. */
    expect_echo(f, dealer, "|body", "|body");
    expect_echo(f, dealer, "hop|hop2||body", "hop|hop2||body");
    probe_free(&p);
}

#define CLIENTS 20

static struct evzmq_envelope *late[CLIENTS];

static void keep_envelope(struct probe *p, struct evzmq_message *message)
{
    const unsigned char *const data =
        evzmq_message_get_part(message, evzmq_message_get_part_count(message) - 1, NULL);

    (void)p;
    assert_true(data[0] < CLIENTS);
    late[data[0]] = evzmq_envelope_dup(evzmq_message_get_envelope(message));
    assert_non_null(late[data[0]]);
}

/* Answers what has a delimiter. */
static void reply_to_requests(struct probe *p, struct evzmq_message *message)
{
    if (evzmq_message_get_part_count(message) > 2) {
        reply_echo(p, message);
    }
}

/* REP of libzmq 4.3.4 would lose the answer. */
static void a_router_answers_when_a_peer_sent_no_delimiter_and_left(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = reply_to_requests};
    char endpoint[ENDPOINT_SIZE];

    open_server(f, &p, ZMQ_ROUTER, endpoint);
    for (size_t i = 0; i < 10; i++) {
        void *const stranger = join(f, ZMQ_DEALER, endpoint);
        void *const req = join(f, ZMQ_REQ, endpoint);

        peer_send_text(stranger, "no delimiter");
        peer_close(f, stranger);
        expect_echo(f, req, "ping", "ping");
        peer_close(f, req);
        run_until(f, p.reads == 2 * (i + 1));
    }
    probe_free(&p);
}

static void router_replies_later_in_any_order(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = keep_envelope};
    char endpoint[ENDPOINT_SIZE];
    char text[32];
    void *clients[CLIENTS];

    open_server(f, &p, ZMQ_ROUTER, endpoint);
    for (unsigned char i = 0; i < CLIENTS; i++) {
        clients[i] = join(f, i % 2 == 0 ? ZMQ_REQ : ZMQ_DEALER, endpoint);
        peer_send(clients[i], &i, 1);
    }
    run_until(f, p.reads == CLIENTS);
    for (int i = CLIENTS - 1; i >= 0; i--) {
        char reply[16];
        const int size = snprintf(reply, sizeof reply, "for %d", i);

        assert_ok(evzmq_socket_reply(p.socket, late[i], reply, (size_t)size));
        pump_recv_text(f, clients[i], text, sizeof text);
        assert_string_equal(text, reply);
        evzmq_envelope_free(late[i]);
    }
    probe_free(&p);
}

static void reply_needs_an_envelope_except_on_rep(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};

    probe_attach(f, &p, peer_new(f, ZMQ_ROUTER), 0);
    assert_errno(evzmq_socket_reply(p.socket, NULL, "x", 1), EINVAL);
    assert_errno(evzmq_socket_reply_value(p.socket, NULL, "x"), EINVAL);
    errno = 0;
    assert_null(evzmq_envelope_dup(NULL));
    assert_int_equal(errno, EINVAL);
    probe_free(&p);
}

static void check_no_envelope(struct probe *p, struct evzmq_message *message)
{
    (void)p;
    assert_null(evzmq_message_get_envelope(message));
}

static void other_types_have_no_envelope(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = check_no_envelope};
    char endpoint[ENDPOINT_SIZE];

    open_server(f, &p, ZMQ_DEALER, endpoint);
    peer_send_text(join(f, ZMQ_DEALER, endpoint), "a||b");
    run_until(f, p.reads == 1);
    probe_free(&p);
}

static void a_second_request_in_flight_is_efsm_and_the_first_is_still_answered(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char text[32];
    void *rep = NULL;
    void *req = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_REP, &rep, ZMQ_REQ, &req);
    probe_attach(f, &p, req, 0);
    probe_enable(&p, EV_READ);
    for (size_t i = 0; i < 10; i++) {
        assert_ok(evzmq_socket_write(p.socket, "ask", 3));
        assert_errno(evzmq_socket_write(p.socket, "again", 5), EFSM);
        assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
        pump_recv_text(f, rep, text, sizeof text);
        assert_string_equal(text, "ask");
        peer_send_text(rep, "answer");
        run_until(f, p.reads == i + 1);
    }
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

static void ask_again(struct probe *p, struct evzmq_message *message)
{
    (void)message;
    if (p->reads < 1000) {
        assert_ok(evzmq_socket_write(p->socket, "ask", 3));
    }
}

static void req_may_ask_again_from_the_callback_of_the_answer(void **state)
{
    struct fixture *const f = *state;
    struct probe client = {.on_read = ask_again};
    struct probe server = {.on_read = reply_echo};
    char endpoint[ENDPOINT_SIZE];

    open_server(f, &server, ZMQ_REP, endpoint);
    probe_attach(f, &client, join(f, ZMQ_REQ, endpoint), 0);
    probe_enable(&client, EV_READ);
    assert_ok(evzmq_socket_write(client.socket, "ask", 3));
    run_until(f, client.reads == 1000);
    probe_free(&client);
    probe_free(&server);
}

static void a_request_queued_before_its_peer_exists_is_sent_and_answered(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    char text[32];
    void *const req = peer_new(f, ZMQ_REQ);
    void *rep = NULL;

    peer_bind(f, req, TRANSPORT_INPROC, endpoint); /* No pipe: EAGAIN at first. */
    probe_attach(f, &p, req, 0);
    probe_enable(&p, EV_READ);
    assert_ok(evzmq_socket_write(p.socket, "ask", 3));
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 1);
    assert_errno(evzmq_socket_write(p.socket, "again", 5), EFSM);
    rep = join(f, ZMQ_REP, endpoint);
    pump_recv_text(f, rep, text, sizeof text);
    assert_string_equal(text, "ask");
    peer_send_text(rep, "answer");
    run_until(f, p.reads == 1);
    probe_free(&p);
}

static void read_stream(struct probe *p, struct evzmq_message *message)
{
    assert_int_equal(evzmq_message_get_part_count(message), 2);
    assert_int_equal(evzmq_envelope_get_part_count(evzmq_message_get_envelope(message)), 1);
    if (p->reads == 1) {
        assert_part(message, 1, "", 0); /* The connect notification. */
        assert_null(evzmq_message_get_value(message));
    } else if (p->reads == 2) {
        reply_echo(p, message);
    }
}

/* A STREAM and a plain TCP client that has connected. Returns the client. */
static int open_stream(struct fixture *f, struct probe *p)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    void *const stream = peer_new(f, ZMQ_STREAM);
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    char endpoint[ENDPOINT_SIZE];

    peer_bind(f, stream, TRANSPORT_TCP, endpoint);
    address.sin_port = htons((uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    probe_attach(f, p, stream, 0);
    probe_enable(p, EV_READ);
    assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof address), 0);
    run_until(f, p->reads == 1);
    return client;
}

static void stream_answers_a_plain_tcp_client(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_stream};
    const int client = open_stream(f, &p);
    char bytes[8] = {0};

    assert_int_equal(send(client, "hello", 5, 0), 5);
    run_until(f, p.reads == 2);
    assert_int_equal(recv(client, bytes, 5, MSG_WAITALL), 5);
    assert_string_equal(bytes, "hello");
    assert_int_equal(close(client), 0);
    run_until(f, p.reads == 3); /* The disconnect notification. */
    probe_free(&p);
}

static void a_second_reply_to_a_request_is_efsm_also_while_the_first_is_queued(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    char text[32];
    void *req = NULL;

    open_server(f, &p, ZMQ_REP, endpoint);
    req = join(f, ZMQ_REQ, endpoint);
    peer_send_text(req, "1");
    run_until(f, p.reads == 1);
    assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
    assert_ok(evzmq_socket_write(p.socket, "one", 3));
    assert_errno(evzmq_socket_write(p.socket, "again", 5), EFSM);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 1);
    probe_enable(&p, EV_WRITE);
    pump_recv_text(f, req, text, sizeof text);
    assert_string_equal(text, "one");
    assert_int_equal(p.events[EVZMQ_EVENT_UNDELIVERABLE], 0);
    probe_free(&p);
}

static void keep_routing_id(struct probe *p, struct evzmq_message *message)
{
    struct evzmq_bytes *const id = p->arg;
    static char bytes[256];
    const void *const part = evzmq_message_get_part(message, 0, &id->size);

    assert_true(id->size <= sizeof bytes);
    memcpy(bytes, part, id->size);
    id->data = bytes;
}

/* libzmq would take the parts after it for parts of other messages from then on. */
static void a_stream_refuses_all_but_a_routing_id_and_one_part_and_goes_on(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_bytes parts[3] = {{NULL, 0}, {"hello", 5}, {"more", 4}};
    struct probe p = {.on_read = keep_routing_id, .arg = &parts[0]};
    const int client = open_stream(f, &p);
    char bytes[8] = {0};

    assert_errno(evzmq_socket_write(p.socket, parts[0].data, parts[0].size), EINVAL);
    assert_errno(evzmq_socket_write_parts(p.socket, parts, 1), EINVAL);
    assert_errno(evzmq_socket_write_parts(p.socket, parts, 3), EINVAL);
    assert_ok(evzmq_socket_write_parts(p.socket, parts, 2));
    fixture_run_for(f, 1);
    assert_int_equal(recv(client, bytes, 5, MSG_WAITALL), 5);
    assert_string_equal(bytes, "hello");
    assert_int_equal(close(client), 0);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(rep_replies_from_its_read_callback),
        claim(rep_replies_later_and_gets_the_next_request_only_then),
        claim(a_rep_that_waits_for_its_reply_costs_no_wakeups),
        claim(a_reply_without_a_request_is_efsm),
        claim(router_replies_to_req_through_its_delimiter),
        claim(router_replies_to_a_bare_dealer_with_the_routing_id_alone),
        claim(a_router_answers_when_a_peer_sent_no_delimiter_and_left),
        claim(router_replies_later_in_any_order),
        claim(reply_needs_an_envelope_except_on_rep),
        claim(other_types_have_no_envelope),
        claim(a_second_request_in_flight_is_efsm_and_the_first_is_still_answered),
        claim(req_may_ask_again_from_the_callback_of_the_answer),
        claim(a_request_queued_before_its_peer_exists_is_sent_and_answered),
        claim(stream_answers_a_plain_tcp_client),
        claim(a_second_reply_to_a_request_is_efsm_also_while_the_first_is_queued),
        claim(a_stream_refuses_all_but_a_routing_id_and_one_part_and_goes_on),
    };

    return run_claims(tests);
}
