/**
 * @file test_request_retry.c
 * Requests that are sent again: to a server that is mute, dead and back, or not there yet.
 */
#include "asker.h"

#include <string.h>

static const struct evzmq_requester_options two_retries = {
    .size = sizeof two_retries, .retries_max = 2, .retry_ms = 5, .retry_max_ms = 8};
static const struct evzmq_requester_options many_retries = {
    .size = sizeof many_retries, .retries_max = 10000, .retry_ms = 5, .retry_max_ms = 20};

static void a_mute_server_hears_a_request_as_often_as_the_retries_say(void **state)
{
    struct fixture *const f = *state;

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct asker a = {0};
        struct heard first;
        struct heard again;
        void *server = NULL;

        asker_open(f, &a, (enum transport)transport, ZMQ_ROUTER, &server, &two_retries);
        (void)ask(&a, "q", -1);
        hear(f, server, &first);
        for (int i = 0; i < 2; i++) {
            hear(f, server, &again);
            assert_memory_equal(&first, &again, sizeof first); /* The same id, all of it. */
        }
        fixture_run_for(f, 50);
        assert_false(try_hear(server, &again));
        assert_int_equal(a.ended, 0); /* It has no deadline. */
        assert_int_equal(asker_stats(&a).retries, 2);
        assert_int_equal(asker_stats(&a).held_bytes, 0); /* It cannot be sent again. */
        answer(server, &first, "late, and welcome");
        run_until(f, a.replied == 1);
        asker_close(&a);
    }
}

static void a_deadline_ends_retries(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct heard heard;
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, &many_retries);
    (void)ask(&a, "q", 60);
    run_until(f, a.ended == 1);
    assert_string_equal(a.log, "1!timeout");
    assert_int_equal(asker_stats(&a).held_bytes, 0);
    while (try_hear(server, &heard)) {
    }
    fixture_run_for(f, 30);
    assert_false(try_hear(server, &heard));
    asker_close(&a);
}

static void a_server_that_answers_each_copy_costs_one_callback(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct heard heard[3];
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, &two_retries);
    (void)ask(&a, "q", -1);
    for (int i = 0; i < 3; i++) {
        hear(f, server, &heard[i]);
    }
    for (int i = 0; i < 3; i++) {
        answer(server, &heard[i], "r");
    }
    run_until(f, asker_stats(&a).late == 2);
    assert_string_equal(a.log, "1=r");
    asker_close(&a);
}

/* What the dead server had taken is lost with it; the retry goes to its successor. */
static void a_request_survives_the_death_of_the_server_that_had_it(void **state)
{
    struct fixture *const f = *state;
    const enum transport transports[] = {TRANSPORT_IPC, TRANSPORT_TCP};

    for (size_t i = 0; i < 2; i++) {
        void *const dealer = asker_peer(f, ZMQ_DEALER);
        void *server = asker_peer(f, ZMQ_REP);
        char endpoint[ENDPOINT_SIZE];
        struct asker a = {0};
        struct heard heard;

        peer_set_int(dealer, ZMQ_RECONNECT_IVL, 10);
        peer_bind(f, server, transports[i], endpoint);
        peer_connect(dealer, endpoint);
        asker_attach(f, &a, dealer, &many_retries);
        (void)ask(&a, "q", 60000);
        hear(f, server, &heard);
        peer_close(f, server);
        server = asker_peer(f, ZMQ_REP);
        while (zmq_bind(server, endpoint) != 0) { /* The port is free in a moment. */
            assert_int_equal(errno, EADDRINUSE);
            fixture_glance(f);
        }
        hear(f, server, &heard);
        assert_string_equal(heard_text(&heard), "q");
        answer(server, &heard, "from the successor");
        run_until(f, a.ended == 1);
        assert_string_equal(a.log, "1=from the successor");
        assert_true(asker_stats(&a).retries >= 1);
        asker_close(&a);
        peer_close(f, server);
    }
}

static void without_retries_a_request_dies_with_its_server_and_the_next_one_does_not(void **state)
{
    struct fixture *const f = *state;
    void *const dealer = asker_peer(f, ZMQ_DEALER);
    void *server = asker_peer(f, ZMQ_REP);
    char endpoint[ENDPOINT_SIZE];
    struct asker a = {0};
    struct heard heard;

    peer_set_int(dealer, ZMQ_RECONNECT_IVL, 10);
    peer_bind(f, server, TRANSPORT_IPC, endpoint);
    peer_connect(dealer, endpoint);
    asker_attach(f, &a, dealer, NULL);
    (void)ask(&a, "lost", 200);
    hear(f, server, &heard);
    peer_close(f, server);
    server = asker_peer(f, ZMQ_REP);
    assert_int_equal(zmq_bind(server, endpoint), 0);
    run_until(f, a.ended == 1);
    (void)ask(&a, "next", 60000);
    hear(f, server, &heard);
    assert_string_equal(heard_text(&heard), "next");
    answer(server, &heard, "r");
    run_until(f, a.ended == 2);
    assert_string_equal(a.log, "1!timeout 2=r");
    asker_close(&a);
}

/* While a request waits for ZeroMQ its retries have nothing to repeat. */
static void a_server_that_comes_late_hears_a_waiting_request_once(void **state)
{
    struct fixture *const f = *state;
    void *const dealer = asker_peer(f, ZMQ_DEALER);
    void *const server = asker_peer(f, ZMQ_ROUTER);
    char endpoint[ENDPOINT_SIZE];
    struct asker a = {0};
    struct heard heard;

    peer_bind(f, dealer, TRANSPORT_INPROC, endpoint); /* Bound: nothing is sent without a peer. */
    asker_attach(f, &a, dealer, &two_retries);
    (void)ask(&a, "in the socket's queue", -1);
    (void)ask(&a, "waiting", -1);
    fixture_run_for(f, 60);
    assert_int_equal(evzmq_socket_get_queued(a.socket, NULL), 1);
    /* The first is with the socket, as far as can be told it was sent: a retry of it waits behind
     * the second request, and no other is made while it does. */
    assert_int_equal(asker_stats(&a).retries, 1);
    assert_int_equal(asker_stats(&a).waiting, 2);
    peer_connect(server, endpoint);
    hear(f, server, &heard);
    assert_string_equal(heard_text(&heard), "in the socket's queue");
    hear(f, server, &heard);
    assert_string_equal(heard_text(&heard), "waiting");
    answer(server, &heard, "r");
    run_until(f, a.replied == 1);
    assert_int_equal(a.number, 2);
    asker_close(&a);
}

static void a_cancelled_request_is_not_sent_again(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct heard heard;
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, &many_retries);
    (void)ask(&a, "q", -1);
    hear(f, server, &heard);
    assert_ok(evzmq_request_cancel(a.requester, 1));
    while (try_hear(server, &heard)) {
    }
    fixture_run_for(f, 40);
    assert_false(try_hear(server, &heard));
    asker_close(&a);
}

static void large_requests_are_sent_again_whole(void **state)
{
    enum { LARGE = 100000 };
    static unsigned char sent[LARGE];
    static unsigned char got[LARGE];
    struct fixture *const f = *state;
    struct asker a = {0};
    struct evzmq_message *const message = evzmq_message_new();
    struct heard request;
    void *server = NULL;

    fill_pattern(sent, LARGE, 3);
    asker_open(f, &a, TRANSPORT_TCP, ZMQ_ROUTER, &server, &two_retries);
    assert_ok(evzmq_message_add(message, "head", 4));
    assert_ok(evzmq_message_add_reference(message, sent, LARGE, NULL, NULL));
    assert_true(evzmq_request_message(a.requester, message, -1, asker_note, &a) > 0);
    for (int i = 0; i < 3; i++) {
        zmq_pollitem_t item = {server, 0, ZMQ_POLLIN, 0};

        while (zmq_poll(&item, 1, 1) == 0) {
            fixture_glance(f);
        }
        request = (struct heard){0};
        for (int part = 0; part < 4; part++) { /* Routing id, id, delimiter, head. */
            unsigned char bytes[HEARD_SIZE];

            add_part(&request, bytes, (size_t)zmq_recv(server, bytes, HEARD_SIZE - 1, 0));
        }
        assert_string_equal(heard_text(&request), "head");
        assert_int_equal(zmq_recv(server, got, LARGE, 0), LARGE);
        assert_pattern(got, LARGE, 3);
    }
    answer(server, &request, "r");
    run_until(f, a.replied == 1);
    asker_close(&a);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_mute_server_hears_a_request_as_often_as_the_retries_say),
        claim(a_deadline_ends_retries),
        claim(a_server_that_answers_each_copy_costs_one_callback),
        claim(a_request_survives_the_death_of_the_server_that_had_it),
        claim(without_retries_a_request_dies_with_its_server_and_the_next_one_does_not),
        claim(a_server_that_comes_late_hears_a_waiting_request_once),
        claim(a_cancelled_request_is_not_sent_again),
        claim(large_requests_are_sent_again_whole),
    };

    return run_claims(tests);
}
