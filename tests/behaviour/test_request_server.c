/**
 * @file test_request_server.c
 * The server's side, which is a plain ROUTER or REP adapter: requesters and peers that know nothing
 * of this library, answered later and in any order by kept envelopes.
 */
#include "asker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <evzmq/msgpack.h>

enum { KEPT_MAX = 64 };

/** A server whose answers come later. */
struct clerk {
    struct probe p;
    char endpoint[ENDPOINT_SIZE];
    struct evzmq_envelope *kept[KEPT_MAX];
    char text[KEPT_MAX][32];
    size_t count;
};

static void keep(struct probe *p, struct evzmq_message *message)
{
    struct clerk *const clerk = (struct clerk *)p;
    size_t size = 0;
    const size_t last = evzmq_message_get_part_count(message) - 1;
    const void *const body = evzmq_message_get_part(message, last, &size);

    assert_true(clerk->count < KEPT_MAX && size < sizeof clerk->text[0]);
    memcpy(clerk->text[clerk->count], body, size);
    clerk->kept[clerk->count] = evzmq_envelope_dup(evzmq_message_get_envelope(message));
    assert_non_null(clerk->kept[clerk->count]);
    clerk->count++;
}

static void open_clerk(struct fixture *f, struct clerk *clerk, enum transport transport, int type)
{
    void *const socket = asker_peer(f, type);

    *clerk = (struct clerk){.p = {.on_read = keep}};
    peer_bind(f, socket, transport, clerk->endpoint);
    probe_attach(f, &clerk->p, socket, 0);
    probe_enable(&clerk->p, EV_READ);
}

/* Answers what was asked, and forgets it. */
static int answer_kept(struct clerk *clerk, size_t i)
{
    const int result =
        evzmq_socket_reply(clerk->p.socket, clerk->kept[i], clerk->text[i], strlen(clerk->text[i]));

    evzmq_envelope_free(clerk->kept[i]);
    clerk->kept[i] = NULL;
    return result;
}

static void open_client(struct fixture *f, struct asker *a, const struct clerk *clerk)
{
    void *const dealer = asker_peer(f, ZMQ_DEALER);

    peer_connect(dealer, clerk->endpoint);
    asker_attach(f, a, dealer, NULL);
}

static void check_echo(struct asker *a, int64_t number, int error, struct evzmq_message *reply)
{
    (void)reply;
    assert_int_equal(error, 0);
    assert_int_equal(atoll(a->text), number);
}

static void requesters_and_req_peers_are_answered_later_in_any_order(void **state)
{
    enum { REQUESTS = 20 };
    struct fixture *const f = *state;

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct clerk clerk;
        struct asker a = {.on_end = check_echo};
        struct asker b = {.on_end = check_echo};
        void *reqs[3];
        char text[64];

        open_clerk(f, &clerk, (enum transport)transport, ZMQ_ROUTER);
        open_client(f, &a, &clerk);
        open_client(f, &b, &clerk);
        for (int i = 0; i < 3; i++) {
            reqs[i] = asker_peer(f, ZMQ_REQ);
            if (i == 1) { /* It adds a number of its own, before the delimiter. */
                peer_set_int(reqs[i], ZMQ_REQ_CORRELATE, 1);
            }
            peer_connect(reqs[i], clerk.endpoint);
            (void)snprintf(text, sizeof text, "req %d", i);
            peer_send_text(reqs[i], text);
        }
        for (int i = 1; i <= REQUESTS; i++) {
            (void)snprintf(text, sizeof text, "%d", i);
            (void)ask(&a, text, 60000);
            (void)ask(&b, text, 60000);
        }
        run_until(f, clerk.count == 2 * REQUESTS + 3);
        while (clerk.count > 0) {
            assert_ok(answer_kept(&clerk, --clerk.count));
        }
        run_until(f, a.replied == REQUESTS && b.replied == REQUESTS);
        for (int i = 0; i < 3; i++) {
            char expected[16];

            pump_recv_text(f, reqs[i], text, sizeof text);
            (void)snprintf(expected, sizeof expected, "req %d", i);
            assert_string_equal(text, expected);
            peer_close(f, reqs[i]);
        }
        asker_close(&a);
        asker_close(&b);
        probe_free(&clerk.p);
    }
}

/* It may ask again before it was answered, and takes the answer to its latest request only. */
static void a_relaxed_req_gets_the_answer_to_its_latest_request(void **state)
{
    struct fixture *const f = *state;
    struct clerk clerk;
    void *const req = asker_peer(f, ZMQ_REQ);
    char text[64];

    open_clerk(f, &clerk, TRANSPORT_INPROC, ZMQ_ROUTER);
    peer_set_int(req, ZMQ_REQ_CORRELATE, 1);
    peer_set_int(req, ZMQ_REQ_RELAXED, 1);
    peer_connect(req, clerk.endpoint);
    peer_send_text(req, "first");
    run_until(f, clerk.count == 1);
    peer_send_text(req, "second"); /* Which ends the connection, and makes another one. */
    run_until(f, clerk.count == 2);
    if (answer_kept(&clerk, 0) < 0) {
        assert_int_equal(errno, EHOSTUNREACH);
    }
    assert_ok(answer_kept(&clerk, 1));
    pump_recv_text(f, req, text, sizeof text);
    assert_string_equal(text, "second");
    probe_free(&clerk.p);
}

static void an_answer_to_a_client_that_is_gone_is_ehostunreach_and_others_get_theirs(void **state)
{
    struct fixture *const f = *state;
    struct clerk clerk;
    struct asker gone = {0};
    struct asker a = {0};
    void *dealer = NULL;

    open_clerk(f, &clerk, TRANSPORT_INPROC, ZMQ_ROUTER);
    open_client(f, &gone, &clerk);
    (void)ask(&gone, "1", 60000);
    run_until(f, clerk.count == 1);
    dealer = evzmq_socket_get_zmq_socket(gone.socket);
    asker_close(&gone);
    peer_close(f, dealer);
    open_client(f, &a, &clerk);
    (void)ask(&a, "1", 60000);
    run_until(f, clerk.count == 2);
    /* Until ROUTER has noticed it takes answers for the peer that is gone, and drops them. */
    while (evzmq_socket_reply(clerk.p.socket, clerk.kept[0], "1", 1) == 0) {
        fixture_glance(f);
    }
    assert_int_equal(errno, EHOSTUNREACH);
    evzmq_envelope_free(clerk.kept[0]);
    assert_ok(answer_kept(&clerk, 1));
    run_until(f, a.replied == 1);
    asker_close(&a);
    probe_free(&clerk.p);
}

static void a_rep_adapter_answers_one_request_after_the_other(void **state)
{
    struct fixture *const f = *state;

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct clerk clerk;
        struct asker a = {.on_end = check_echo};
        char text[16];

        open_clerk(f, &clerk, (enum transport)transport, ZMQ_REP);
        open_client(f, &a, &clerk);
        for (int i = 1; i <= 20; i++) {
            (void)snprintf(text, sizeof text, "%d", i);
            (void)ask(&a, text, 60000);
        }
        for (size_t i = 0; i < 20; i++) {
            run_until(f, clerk.count == i + 1);
            assert_ok(answer_kept(&clerk, i));
        }
        run_until(f, a.replied == 20);
        asker_close(&a);
        probe_free(&clerk.p);
    }
}

/* The empty reply by which a REP adapter lives on is a reply without a value. */
static void a_request_that_rep_cannot_decode_gets_an_empty_reply(void **state)
{
    struct fixture *const f = *state;
    struct clerk clerk;
    struct asker a = {0};
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);

    open_clerk(f, &clerk, TRANSPORT_INPROC, ZMQ_REP);
    assert_ok(evzmq_socket_set_codec(clerk.p.socket, codec));
    open_client(f, &a, &clerk);
    (void)ask(&a, "\xc1", 60000);
    run_until(f, a.ended == 1);
    assert_string_equal(a.log, "1=");
    asker_close(&a);
    probe_free(&clerk.p);
    evzmq_codec_free(codec);
}

/* A proxy of plain sockets adds routing ids before the id, and takes them off again. */
static void a_requester_works_through_a_proxy(void **state)
{
    struct fixture *const f = *state;
    struct clerk clerk;
    struct asker a = {.on_end = check_echo};
    void *const front = asker_peer(f, ZMQ_ROUTER);
    void *const back = asker_peer(f, ZMQ_DEALER);
    void *const dealer = asker_peer(f, ZMQ_DEALER);
    char endpoint[ENDPOINT_SIZE];
    struct heard passing;

    open_clerk(f, &clerk, TRANSPORT_INPROC, ZMQ_ROUTER);
    peer_connect(back, clerk.endpoint);
    peer_bind(f, front, TRANSPORT_INPROC, endpoint);
    peer_connect(dealer, endpoint);
    asker_attach(f, &a, dealer, NULL);
    (void)ask(&a, "1", 60000);
    (void)ask(&a, "2", 60000);
    for (int i = 0; i < 2; i++) {
        hear(f, front, &passing);
        send_parts(back, &passing);
    }
    run_until(f, clerk.count == 2);
    for (size_t i = 2; i > 0; i--) {
        assert_ok(answer_kept(&clerk, i - 1));
        hear(f, back, &passing);
        send_parts(front, &passing);
    }
    run_until(f, a.replied == 2);
    assert_string_equal(a.log, "2=2 1=1");
    asker_close(&a);
    probe_free(&clerk.p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(requesters_and_req_peers_are_answered_later_in_any_order),
        claim(a_relaxed_req_gets_the_answer_to_its_latest_request),
        claim(an_answer_to_a_client_that_is_gone_is_ehostunreach_and_others_get_theirs),
        claim(a_rep_adapter_answers_one_request_after_the_other),
        claim(a_request_that_rep_cannot_decode_gets_an_empty_reply),
        claim(a_requester_works_through_a_proxy),
    };

    return run_claims(tests);
}
