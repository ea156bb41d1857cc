/**
 * @file test_request.c
 * Requesters: what is on the wire, whose reply is whose, plain servers, many requests.
 */
#include "asker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack.h>

#include <evzmq/msgpack.h>

static void a_request_gets_its_reply_over_every_transport(void **state)
{
    struct fixture *const f = *state;

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct asker a = {0};
        struct heard heard;
        void *server = NULL;

        asker_open(f, &a, (enum transport)transport, ZMQ_ROUTER, &server, NULL);
        for (int i = 1; i <= 10; i++) {
            assert_int_equal(ask(&a, "question", 30000), i);
            hear(f, server, &heard);
            assert_string_equal(heard_text(&heard), "question");
            answer(server, &heard, "reply");
            run_until(f, a.replied == (size_t)i);
            assert_int_equal(a.number, i);
            assert_string_equal(a.text, "reply");
        }
        assert_int_equal(asker_stats(&a).replies, 10);
        asker_close(&a);
    }
}

static void on_the_wire_a_request_is_an_id_an_empty_part_and_the_body(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct asker other = {0};
    struct heard first;
    struct heard second;
    void *server = NULL;
    void *other_server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_DEALER, &server, NULL);
    (void)ask(&a, "one", -1);
    (void)ask(&a, "two", -1);
    hear(f, server, &first);
    hear(f, server, &second);
    assert_int_equal(first.count, 3);
    assert_int_equal(first.size[0], EVZMQ_REQUEST_ID_BYTES);
    assert_int_equal(first.size[1], 0);
    assert_string_equal(heard_text(&first), "one");
    assert_memory_equal(first.part[0], second.part[0], 8);
    assert_memory_equal(first.part[0] + 8, "\0\0\0\0\0\0\0\1", 8);
    assert_memory_equal(second.part[0] + 8, "\0\0\0\0\0\0\0\2", 8);
    asker_open(f, &other, TRANSPORT_INPROC, ZMQ_DEALER, &other_server, NULL);
    (void)ask(&other, "one", -1);
    hear(f, other_server, &second);
    assert_memory_not_equal(first.part[0], second.part[0], 8); /* Another requester. */
    asker_close(&other);
    asker_close(&a);
}

/* REP keeps everything up to the empty part and sends it back. */
static void a_plain_rep_server_answers_what_is_queued_for_it(void **state)
{
    struct fixture *const f = *state;

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct asker a = {0};
        struct heard heard;
        void *server = NULL;
        char text[16];

        asker_open(f, &a, (enum transport)transport, ZMQ_REP, &server, NULL);
        for (int i = 1; i <= 100; i++) {
            (void)snprintf(text, sizeof text, "%d", i);
            (void)ask(&a, text, 30000);
        }
        for (int i = 1; i <= 100; i++) {
            hear(f, server, &heard);
            assert_int_equal(heard.count, 1); /* It sees the body alone. */
            assert_int_equal(atoi(heard_text(&heard)), i);
            answer(server, &heard, heard_text(&heard));
        }
        run_until(f, a.replied == 100);
        assert_memory_equal(a.log, "1=1 2=2 3=3 4=4 ", 16);
        asker_close(&a);
    }
}

static void check_own_reply(struct asker *a, int64_t number, int error, struct evzmq_message *reply)
{
    (void)reply;
    assert_int_equal(error, 0);
    assert_int_equal(atoll(a->text), number * 3);
}

static void replies_in_any_order_find_their_requests(void **state)
{
    enum { MANY = 900 }; /* Below the high water mark: the server reads none before all are out. */
    static struct heard heard[MANY];
    struct fixture *const f = *state;

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct asker a = {.on_end = check_own_reply};
        void *server = NULL;
        char text[32];

        asker_open(f, &a, (enum transport)transport, ZMQ_ROUTER, &server, NULL);
        for (int i = 1; i <= MANY; i++) {
            (void)snprintf(text, sizeof text, "%d", i * 3);
            assert_int_equal(ask(&a, text, 60000), i);
        }
        for (size_t i = 0; i < MANY; i++) {
            hear(f, server, &heard[i]);
        }
        assert_int_equal(a.ended, 0);
        assert_int_equal(asker_stats(&a).outstanding, MANY);
        for (size_t i = 0; i < MANY; i++) { /* 7 and 900 have no common divisor. */
            const struct heard *const one = &heard[(MANY - i * 7 % MANY) % MANY];

            answer(server, one, heard_text(one));
        }
        run_until(f, a.replied == MANY);
        asker_close(&a);
    }
}

static void allow_any_number(void *peer)
{
    peer_set_int(peer, ZMQ_SNDHWM, 0);
    peer_set_int(peer, ZMQ_RCVHWM, 0);
}

/* One block for each request, most of which are given back when they have ended. */
static void a_hundred_thousand_outstanding_requests_cost_a_block_each(void **state)
{
    enum { MANY = 100000, REST = 64 };
    struct fixture *const f = *state;
    struct asker a = {0};
    void *const dealer = asker_peer(f, ZMQ_DEALER);
    void *const server = asker_peer(f, ZMQ_DEALER);
    char endpoint[ENDPOINT_SIZE];
    long before = 0;

    allow_any_number(dealer);
    allow_any_number(server);
    peer_bind(f, server, TRANSPORT_INPROC, endpoint);
    peer_connect(dealer, endpoint);
    asker_attach(f, &a, dealer, NULL);
    before = allocations_live();
    for (int i = 0; i < MANY; i++) {
        (void)ask(&a, "q", i % 2 == 0 ? -1 : 60000);
    }
    assert_true(allocations_live() - before <= MANY + REST);
    errno = 0;
    assert_int_equal(evzmq_request_bytes(a.requester, "q", 1, -1, asker_note, &a), -1);
    assert_int_equal(errno, EAGAIN); /* The limit by default. */
    assert_int_equal(asker_stats(&a).waiting, 0);
    for (int i = 0; i < MANY; i++) {
        struct heard heard;

        hear(f, server, &heard);
        answer(server, &heard, "r");
    }
    run_until(f, a.replied == MANY);
    assert_int_equal(asker_stats(&a).outstanding_peak, MANY);
    assert_true(allocations_live() - before <= 1024 + REST);
    asker_close(&a);
}

static void ask_and_answer(struct asker *a, void *server)
{
    const size_t before = a->replied;
    struct heard heard;

    (void)ask(a, "q", 60000);
    hear(a->f, server, &heard);
    answer(server, &heard, "r");
    run_until(a->f, a->replied == before + 1);
}

static void requests_allocate_nothing_once_there_were_some(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    void *server = NULL;
    long made = 0;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, NULL);
    for (int i = 0; i < 10; i++) {
        ask_and_answer(&a, server);
    }
    made = allocations_made();
    for (int i = 0; i < 200; i++) {
        ask_and_answer(&a, server);
    }
    assert_int_equal(allocations_made(), made);
    asker_close(&a);
}

static void ask_again(struct asker *a, int64_t number, int error, struct evzmq_message *reply)
{
    (void)error;
    (void)reply;
    if (number < 500) {
        assert_int_equal(ask(a, "again", 60000), number + 1);
    }
}

static void a_reply_callback_may_ask_again(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {.on_end = ask_again};
    struct heard heard;
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_REP, &server, NULL);
    (void)ask(&a, "first", 60000);
    for (int i = 0; i < 500; i++) {
        hear(f, server, &heard);
        answer(server, &heard, "r");
    }
    run_until(f, a.replied == 500);
    asker_close(&a);
}

static void receive_elsewhere(struct asker *a, int64_t number, int error,
                              struct evzmq_message *reply)
{
    const struct probe *const p = a->arg;
    struct evzmq_message *message = NULL;

    (void)number;
    (void)error;
    (void)reply;
    assert_errno(evzmq_socket_recv(p->socket, NULL, &message), EDEADLK);
}

static void a_callback_cannot_run_the_loop_but_who_comes_after_it_can(void **state)
{
    const struct timeval patience = {10, 0};
    struct fixture *const f = *state;
    struct probe p = {0};
    struct asker a = {.on_end = receive_elsewhere, .arg = &p};
    struct heard heard;
    struct evzmq_message *message = NULL;
    void *server = NULL;
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, NULL);
    (void)ask(&a, "too late", 0);
    run_until(f, a.ended == 1);
    hear(f, server, &heard);
    (void)ask(&a, "in time", 60000);
    hear(f, server, &heard);
    answer(server, &heard, "reply");
    run_until(f, a.ended == 2);
    assert_string_equal(a.log, "1!timeout 2=reply");
    peer_send(push, "now", 3);
    f->dispatching = 1;
    assert_ok(evzmq_socket_recv(p.socket, &patience, &message));
    f->dispatching = 0;
    evzmq_message_free(message);
    asker_close(&a);
    probe_free(&p);
}

static void check_number_seven(struct asker *a, int64_t number, int error,
                               struct evzmq_message *reply)
{
    const msgpack_object *const value = evzmq_msgpack_value(reply);

    (void)a;
    (void)number;
    assert_int_equal(error, 0);
    assert_non_null(value);
    assert_int_equal(value->type, MSGPACK_OBJECT_POSITIVE_INTEGER);
    assert_int_equal(value->via.u64, 7);
}

static void values_are_encoded_and_decoded_with_the_sockets_codec(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {.on_end = check_number_seven};
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    const msgpack_object six = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = 6};
    struct heard heard;
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_REP, &server, NULL);
    assert_ok(evzmq_socket_set_codec(a.socket, codec));
    assert_int_equal(evzmq_request(a.requester, &six, 60000, asker_note, &a), 1);
    hear(f, server, &heard);
    assert_string_equal(heard_text(&heard), "\x06");
    answer(server, &heard, "\x07");
    run_until(f, a.replied == 1);
    asker_close(&a);
    evzmq_codec_free(codec);
}

static void check_empty(struct asker *a, int64_t number, int error, struct evzmq_message *reply)
{
    (void)a;
    (void)number;
    assert_int_equal(error, 0);
    assert_null(evzmq_message_get_value(reply));
    assert_int_equal(evzmq_message_get_part_count(reply), 3);
}

static void an_empty_reply_is_a_reply_without_a_value(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {.on_end = check_empty};
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct heard heard;
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, NULL);
    assert_ok(evzmq_socket_set_codec(a.socket, codec));
    (void)ask(&a, "", 60000); /* An empty request as well. */
    hear(f, server, &heard);
    assert_int_equal(heard.count, 4);
    assert_int_equal(heard.size[3], 0);
    answer(server, &heard, "");
    run_until(f, a.replied == 1);
    asker_close(&a);
    evzmq_codec_free(codec);
}

static void check_parts(struct asker *a, int64_t number, int error, struct evzmq_message *reply)
{
    (void)number;
    assert_int_equal(error, 0);
    assert_string_equal(a->text, "a||c");
    assert_part(reply, 4, "c", 1);
}

static void requests_and_replies_may_have_many_parts(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {.on_end = check_parts};
    struct evzmq_message *const message = evzmq_message_new();
    struct heard heard;
    struct heard reply = {0};
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, NULL);
    for (int i = 0; i < 4; i++) { /* More than fit into the message itself, with the head. */
        assert_ok(evzmq_message_add(message, "part", (size_t)i));
    }
    assert_int_equal(evzmq_request_message(a.requester, message, 60000, asker_note, &a), 1);
    hear(f, server, &heard);
    assert_int_equal(heard.count, 7);
    assert_int_equal(heard.size[2], 0); /* The delimiter, */
    assert_int_equal(heard.size[3], 0); /* and the first part. */
    assert_int_equal(heard.size[6], 3);
    for (size_t i = 0; i < 3; i++) {
        add_part(&reply, heard.part[i], heard.size[i]);
    }
    add_part(&reply, "a", 1);
    add_part(&reply, "", 0);
    add_part(&reply, "c", 1);
    send_parts(server, &reply);
    run_until(f, a.replied == 1);
    asker_close(&a);
}

static void a_refused_message_stays_the_callers_unchanged(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_requester_options one = {.size = sizeof one, .outstanding_max = 1};
    struct asker a = {0};
    struct evzmq_message *const message = evzmq_message_new();
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, &one);
    assert_errno((int)evzmq_request_message(a.requester, message, -1, asker_note, &a), EINVAL);
    assert_ok(evzmq_message_add(message, "a", 1));
    assert_ok(evzmq_message_add(message, "b", 1));
    (void)ask(&a, "q", -1);
    assert_errno((int)evzmq_request_message(a.requester, message, -1, asker_note, &a), EAGAIN);
    assert_int_equal(evzmq_message_get_part_count(message), 2);
    assert_part(message, 0, "a", 1);
    assert_part(message, 1, "b", 1);
    evzmq_message_free(message);
    asker_close(&a);
}

static void a_refused_message_keeps_its_bytes_and_its_value_where_they_were(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_requester_options options = {.size = sizeof(options), .held_bytes_max = 1};
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);

    /* Of any number of parts, so that the head finds room before them and does not. */
    for (size_t parts = 1; parts <= 20; parts++) {
        struct asker a = {0};
        struct evzmq_message *const message = evzmq_message_new();
        void *const dealer = asker_peer(f, ZMQ_DEALER);
        asker_attach(f, &a, dealer, &options);
        (void)ask(&a, "with the socket", -1);
        (void)ask(&a, "held", -1);
        for (size_t i = 1; i < parts; i++) {
            assert_ok(evzmq_message_add(message, "x", 1));
        }
        assert_ok(evzmq_message_add(message, "\xa5hello", 6));
        assert_ok(evzmq_message_decode(message, codec, NULL));
        const void *const bytes = evzmq_message_get_part(message, parts - 1, NULL);
        const msgpack_object *const value = evzmq_msgpack_value(message);

        assert_errno((int)evzmq_request_message(a.requester, message, -1, asker_note, &a), EAGAIN);
        assert_int_equal(evzmq_message_get_part_count(message), parts);
        assert_int_equal(evzmq_message_get_size(message), parts + 5);
        assert_ptr_equal(evzmq_message_get_part(message, parts - 1, NULL), bytes);
        assert_ptr_equal(evzmq_msgpack_value(message), value);
        assert_memory_equal(value->via.str.ptr, "hello", 5);
        evzmq_message_free(message);
        asker_close(&a);
    }
    evzmq_codec_free(codec);
}

static void several_servers_are_asked_in_turn(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    void *servers[2] = {NULL, NULL};
    char endpoint[ENDPOINT_SIZE];
    struct heard heard;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_REP, &servers[0], NULL);
    servers[1] = asker_peer(f, ZMQ_REP);
    peer_bind(f, servers[1], TRANSPORT_INPROC, endpoint);
    peer_connect(evzmq_socket_get_zmq_socket(a.socket), endpoint);
    assert_ok(evzmq_socket_touch(a.socket));
    for (int i = 0; i < 20; i++) {
        (void)ask(&a, "q", 60000);
    }
    for (int i = 0; i < 10; i++) {
        for (size_t k = 0; k < 2; k++) {
            hear(f, servers[k], &heard);
            answer(servers[k], &heard, "r");
        }
    }
    run_until(f, a.replied == 20);
    asker_close(&a);
}

static void bad_arguments_are_refused(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    const struct evzmq_requester_options odd = {.size = 1};
    const struct timeval negative = {-1, 0};
    struct evzmq_requester_stats stats = {.size = 0};
    struct probe other = {0};
    void *server = NULL;

    errno = 0;
    assert_null(evzmq_requester_new(NULL, NULL));
    assert_int_equal(errno, EINVAL);
    probe_attach(f, &other, peer_new(f, ZMQ_REQ), 0);
    assert_null(evzmq_requester_new(other.socket, NULL));
    assert_int_equal(errno, ENOTSUP);
    probe_free(&other);
    probe_attach(f, &other, peer_new(f, ZMQ_DEALER), 0);
    assert_null(evzmq_requester_new(other.socket, &odd));
    assert_int_equal(errno, EINVAL);
    probe_free(&other);
    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, NULL);
    assert_null(evzmq_requester_new(a.socket, NULL));
    assert_int_equal(errno, EBUSY);
    assert_errno((int)evzmq_request_bytes(NULL, "q", 1, -1, asker_note, &a), EINVAL);
    assert_errno((int)evzmq_request_bytes(a.requester, NULL, 1, -1, asker_note, &a), EINVAL);
    assert_errno((int)evzmq_request_bytes(a.requester, "q", 1, -2, asker_note, &a), EINVAL);
    assert_errno((int)evzmq_request_bytes(a.requester, "q", 1, -1, NULL, &a), EINVAL);
    assert_errno((int)evzmq_request(a.requester, NULL, -1, asker_note, &a), EINVAL);
    assert_errno((int)evzmq_request_message(a.requester, NULL, -1, asker_note, &a), EINVAL);
    assert_errno(evzmq_request_cancel(NULL, 1), EINVAL);
    assert_errno(evzmq_request_cancel(a.requester, 0), ENOENT);
    assert_errno(evzmq_request_cancel(a.requester, -1), ENOENT);
    assert_errno(evzmq_request_cancel(a.requester, 1), ENOENT);
    assert_errno(evzmq_requester_shutdown(a.requester, &negative, NULL, NULL), EINVAL);
    assert_errno(evzmq_requester_get_stats(a.requester, &stats), EINVAL);
    assert_errno(evzmq_requester_get_stats(a.requester, NULL), EINVAL);
    assert_int_equal(asker_stats(&a).requests, 0);
    assert_ptr_equal(evzmq_requester_get_socket(a.requester), a.socket);
    assert_null(evzmq_requester_get_socket(NULL));
    evzmq_requester_setcb(NULL, NULL, NULL, NULL);
    evzmq_requester_free(NULL);
    fixture_glance(f);
    asker_close(&a);
}

static void a_freed_requester_leaves_a_plain_dealer(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct probe p = {.f = f};
    evzmq_read_cb read_cb = NULL;
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_DEALER, &server, NULL);
    (void)ask(&a, "q", 0);
    asker_free_requester(&a);
    evzmq_socket_getcb(a.socket, &read_cb, NULL, NULL, NULL);
    assert_null(read_cb);
    assert_int_equal(evzmq_socket_get_enabled(a.socket) & EV_READ, 0);
    peer_send_text(server, "no id");
    fixture_run_for(f, 20);
    p.socket = a.socket;
    probe_setcb(&p);
    probe_enable(&p, EV_READ);
    run_until(f, p.reads == 1);
    assert_string_equal(p.log, "no id");
    /* And it can have another one. */
    a.requester = evzmq_requester_new(a.socket, NULL);
    assert_non_null(a.requester);
    asker_close(&a);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_request_gets_its_reply_over_every_transport),
        claim(on_the_wire_a_request_is_an_id_an_empty_part_and_the_body),
        claim(a_plain_rep_server_answers_what_is_queued_for_it),
        claim(replies_in_any_order_find_their_requests),
        claim(a_hundred_thousand_outstanding_requests_cost_a_block_each),
        claim(requests_allocate_nothing_once_there_were_some),
        claim(a_reply_callback_may_ask_again),
        claim(a_callback_cannot_run_the_loop_but_who_comes_after_it_can),
        claim(values_are_encoded_and_decoded_with_the_sockets_codec),
        claim(an_empty_reply_is_a_reply_without_a_value),
        claim(requests_and_replies_may_have_many_parts),
        claim(a_refused_message_stays_the_callers_unchanged),
        claim(a_refused_message_keeps_its_bytes_and_its_value_where_they_were),
        claim(several_servers_are_asked_in_turn),
        claim(bad_arguments_are_refused),
        claim(a_freed_requester_leaves_a_plain_dealer),
    };

    return run_claims(tests);
}
