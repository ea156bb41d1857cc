/**
 * @file test_request_ends.c
 * How requests end without a reply, and how requesters and their sockets do: deadlines, cancel,
 * free, limits.
 */
#include "asker.h"

static void open_asker(struct fixture *f, struct asker *a, void **out_server)
{
    asker_open(f, a, TRANSPORT_INPROC, ZMQ_ROUTER, out_server, NULL);
}

static void a_late_reply_is_dropped_and_counted(void **state)
{
    struct fixture *const f = *state;

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct asker a = {0};
        struct heard heard;
        void *server = NULL;

        asker_open(f, &a, (enum transport)transport, ZMQ_ROUTER, &server, NULL);
        (void)ask(&a, "slow", 10);
        hear(f, server, &heard);
        run_until(f, a.ended == 1);
        assert_int_equal(a.error, ETIMEDOUT);
        answer(server, &heard, "late");
        run_until(f, asker_stats(&a).late == 1);
        (void)ask(&a, "quick", 60000);
        hear(f, server, &heard);
        answer(server, &heard, "in time");
        run_until(f, a.ended == 2);
        assert_string_equal(a.log, "1!timeout 2=in time");
        assert_int_equal(asker_stats(&a).timed_out, 1);
        asker_close(&a);
    }
}

static void a_second_reply_is_dropped_and_counted(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct heard heard;
    void *server = NULL;

    open_asker(f, &a, &server);
    (void)ask(&a, "q", 60000);
    hear(f, server, &heard);
    answer(server, &heard, "one");
    answer(server, &heard, "two");
    answer(server, &heard, "three");
    run_until(f, asker_stats(&a).late == 2);
    assert_string_equal(a.log, "1=one");
    asker_close(&a);
}

static void requests_time_out_in_the_order_of_their_deadlines(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    void *server = NULL;

    open_asker(f, &a, &server);
    (void)ask(&a, "1", 900); /* Far apart: a machine may take its time between two requests. */
    (void)ask(&a, "2", 300);
    (void)ask(&a, "3", -1);
    (void)ask(&a, "4", 600);
    (void)ask(&a, "5", 0);
    run_until(f, a.ended == 4);
    assert_string_equal(a.log, "5!timeout 2!timeout 4!timeout 1!timeout");
    assert_int_equal(asker_stats(&a).outstanding, 1); /* The third waits for ever. */
    asker_close(&a);
}

static size_t since_turn;

/* A timer without a delay, which has every turn of the loop. */
static void note_turn(evutil_socket_t fd, short what, void *arg)
{
    const struct timeval at_once = {0, 0};

    (void)fd;
    (void)what;
    since_turn = 0;
    assert_int_equal(event_add(*(struct event **)arg, &at_once), 0);
}

static void count_since_turn(struct asker *a, int64_t number, int error,
                             struct evzmq_message *reply)
{
    (void)a;
    (void)number;
    (void)reply;
    assert_int_equal(error, ETIMEDOUT);
    assert_true(++since_turn <= 512); /* Two ticks, where the other timer came between. */
}

static void many_deadlines_at_once_leave_turns_for_other_events(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {.on_end = count_since_turn};
    struct event *other = NULL;
    void *server = NULL;

    other = event_new(f->base, -1, 0, note_turn, &other);
    note_turn(-1, 0, &other);
    since_turn = 0;
    open_asker(f, &a, &server);
    for (int i = 0; i < 5000; i++) {
        (void)ask(&a, "q", 0);
    }
    run_until(f, a.ended == 5000);
    event_free(other);
    asker_close(&a);
}

static void a_cancelled_request_has_no_callback(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct heard heard;
    void *server = NULL;

    open_asker(f, &a, &server);
    (void)ask(&a, "1", 60000);
    (void)ask(&a, "2", 20);
    (void)ask(&a, "3", 60000);
    assert_ok(evzmq_request_cancel(a.requester, 1));
    assert_ok(evzmq_request_cancel(a.requester, 2));
    assert_errno(evzmq_request_cancel(a.requester, 1), ENOENT);
    for (int i = 0; i < 3; i++) {
        hear(f, server, &heard);
        answer(server, &heard, "r");
    }
    run_until(f, a.ended == 1);
    fixture_run_for(f, 40);
    assert_string_equal(a.log, "3=r");
    assert_int_equal(asker_stats(&a).late, 2);
    assert_int_equal(asker_stats(&a).cancelled, 2);
    assert_errno(evzmq_request_cancel(a.requester, 3), ENOENT);
    asker_close(&a);
}

/* Whatever ended first cancels all others, which are due in the same turn. */
static void cancel_all_others(struct asker *a, int64_t number, int error,
                              struct evzmq_message *reply)
{
    (void)error;
    (void)reply;
    assert_errno(evzmq_request_cancel(a->requester, number), ENOENT); /* It is over. */
    for (int64_t other = 1; other <= 10; other++) {
        if (other != number) {
            assert_ok(evzmq_request_cancel(a->requester, other));
        }
    }
}

static void a_callback_may_cancel_other_requests(void **state)
{
    struct fixture *const f = *state;

    for (int answered = 0; answered < 2; answered++) {
        struct asker a = {.on_end = cancel_all_others};
        struct heard heard[10];
        void *server = NULL;

        open_asker(f, &a, &server);
        for (int i = 0; i < 10; i++) {
            (void)ask(&a, "q", answered ? 60000 : 0);
        }
        for (int i = 0; answered && i < 10; i++) {
            assert_true(try_hear(server, &heard[i]));
            answer(server, &heard[i], "r");
        }
        run_until(f, a.ended == 1);
        fixture_run_for(f, 20);
        assert_int_equal(a.ended, 1);
        assert_int_equal(asker_stats(&a).cancelled, 9);
        asker_close(&a);
    }
}

static void free_both(struct asker *a, int64_t number, int error, struct evzmq_message *reply)
{
    (void)number;
    (void)error;
    (void)reply;
    asker_free_requester(a);
    asker_free_socket(a);
}

static void free_socket_first(struct asker *a, int64_t number, int error,
                              struct evzmq_message *reply)
{
    (void)number;
    (void)error;
    (void)reply;
    asker_free_socket(a);
    asker_free_requester(a);
}

static void free_requester_only(struct asker *a, int64_t number, int error,
                                struct evzmq_message *reply)
{
    (void)number;
    (void)error;
    (void)reply;
    asker_free_requester(a);
}

/* In the callback of a reply, of an undecodable reply and of a timeout, with others outstanding. */
static void a_free_in_a_reply_callback_is_the_last_of_all_callbacks(void **state)
{
    static void (*const frees[])(struct asker *, int64_t, int, struct evzmq_message *) = {
        free_both, free_socket_first, free_requester_only};
    struct fixture *const f = *state;

    for (size_t i = 0; i < 3; i++) {
        for (int how = 0; how < 2; how++) {
            struct asker a = {.on_end = frees[i]};
            struct heard heard[10];
            void *server = NULL;

            open_asker(f, &a, &server);
            for (int k = 0; k < 10; k++) {
                (void)ask(&a, "q", how == 0 ? 0 : 60000);
            }
            for (int k = 0; how == 1 && k < 10; k++) {
                assert_true(try_hear(server, &heard[k]));
                answer(server, &heard[k], "r");
            }
            run_until(f, a.ended == 1);
            if (a.socket != NULL) {
                fixture_run_for(f, 10);
            }
            assert_int_equal(a.ended, 1);
            asker_close(&a);
        }
    }
}

static void a_free_forgets_what_is_outstanding_and_what_waits(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    void *server = NULL;

    open_asker(f, &a, &server);
    assert_ok(evzmq_socket_disable(a.socket, EV_WRITE));
    for (int i = 0; i < 10; i++) {
        (void)ask(&a, "q", 0);
    }
    assert_int_equal(evzmq_socket_get_queued(a.socket, NULL), 1);
    assert_int_equal(asker_stats(&a).waiting, 9);
    asker_free_requester(&a);
    assert_int_equal(evzmq_socket_get_queued(a.socket, NULL), 1);
    fixture_run_for(f, 10);
    assert_int_equal(a.ended, 0);
    asker_close(&a);
}

static void freeing_the_socket_ends_its_requests_with_eshutdown(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    void *server = NULL;

    open_asker(f, &a, &server);
    assert_ok(evzmq_socket_disable(a.socket, EV_WRITE)); /* So that some wait. */
    for (int i = 0; i < 3; i++) {
        (void)ask(&a, "q", -1);
    }
    asker_free_socket(&a);
    assert_int_equal(a.ended, 0); /* Not inside the call. */
    assert_null(evzmq_requester_get_socket(a.requester));
    assert_errno((int)evzmq_request_bytes(a.requester, "q", 1, -1, asker_note, &a), ESHUTDOWN);
    assert_ok(evzmq_request_cancel(a.requester, 2));
    run_until(f, a.ended == 2);
    assert_int_equal(a.error, ESHUTDOWN);
    assert_int_equal(asker_stats(&a).refused_after_end, 1);
    assert_int_equal(asker_stats(&a).failed, 2);
    asker_close(&a);
}

/* The deadline of a request that has its reply is nothing to wait for. */
static void a_requester_whose_socket_was_freed_does_not_keep_dispatch_running(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    void *server = NULL;
    struct heard heard;

    open_asker(f, &a, &server);
    (void)ask(&a, "q", 3600000);
    hear(f, server, &heard);
    answer(server, &heard, "a");
    run_until(f, a.ended == 1);
    asker_free_socket(&a);
    assert_int_equal(fixture_loop(f, 0), 1); /* No event is pending. */
    asker_close(&a);
}

static void note_handed_over(struct evzmq_socket *socket, uint64_t handed_over,
                             uint64_t not_handed_over, void *arg)
{
    (void)socket;
    (void)handed_over;
    (void)not_handed_over;
    *(int *)arg = 1;
}

static void shutting_the_socket_down_ends_its_requests_with_eshutdown(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    void *server = NULL;
    int done = 0;

    open_asker(f, &a, &server);
    (void)ask(&a, "q", -1);
    assert_ok(evzmq_socket_shutdown(a.socket, NULL, note_handed_over, &done));
    run_until(f, a.ended == 1 && done);
    assert_int_equal(a.error, ESHUTDOWN);
    errno = 0;
    assert_null(evzmq_requester_new(a.socket, NULL));
    assert_int_equal(errno, ESHUTDOWN);
    asker_free_socket(&a); /* The requester must not look at it any more. */
    asker_close(&a);
}

static void *shut_context(void *context)
{
    (void)zmq_ctx_shutdown(context);
    return NULL;
}

static void a_terminated_context_ends_requests_with_eterm(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    void *server = NULL;

    open_asker(f, &a, &server);
    (void)ask(&a, "1", -1);
    (void)ask(&a, "2", 60000);
    (void)shut_context(f->context);
    run_until(f, a.ended == 2);
    assert_int_equal(a.events[EVZMQ_EVENT_TERMINATED], 1);
    assert_string_equal(a.log[1] == '!' ? a.log + 2 : "",
                        a.log[0] == '1' ? "term 2!term" : "term 1!term");
    assert_errno((int)evzmq_request_bytes(a.requester, "q", 1, -1, asker_note, &a), ETERM);
    asker_close(&a);
}

static void free_on_event(struct asker *a, const struct evzmq_event *event)
{
    assert_int_equal(event->type, EVZMQ_EVENT_TERMINATED);
    asker_free_requester(a);
    asker_free_socket(a);
}

static void a_requester_may_be_freed_when_the_context_is_terminated(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {.on_event = free_on_event};
    void *server = NULL;

    open_asker(f, &a, &server);
    (void)ask(&a, "1", -1);
    (void)shut_context(f->context);
    run_until(f, a.requester == NULL);
    assert_int_equal(a.ended, 0);
    asker_close(&a);
}

static void fill_up(struct asker *a)
{
    while (evzmq_request_bytes(a->requester, "more", 4, -1, asker_note, a) > 0) {
    }
    assert_int_equal(errno, EAGAIN);
}

static void a_limit_of_requests_refuses_and_tells_when_there_is_room(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_requester_options three = {.size = sizeof three, .outstanding_max = 3};
    struct asker a = {.on_room = fill_up};
    struct heard heard;
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_REP, &server, &three);
    fill_up(&a);
    assert_int_equal(asker_stats(&a).outstanding, 3);
    assert_int_equal(asker_stats(&a).refused, 1);
    fixture_run_for(f, 10);
    assert_int_equal(a.rooms, 0);
    for (size_t i = 1; i <= 20; i++) {
        hear(f, server, &heard);
        answer(server, &heard, "r");
        run_until(f, a.replied == i && a.rooms == i);
    }
    a.on_room = NULL;
    assert_ok(evzmq_request_cancel(a.requester, 21)); /* Room by a cancel, */
    assert_int_equal(a.rooms, 20); /* told by the loop. */
    run_until(f, a.rooms == 21);
    assert_ok(evzmq_request_cancel(a.requester, 22)); /* Nothing was refused since. */
    fixture_run_for(f, 10);
    assert_int_equal(a.rooms, 21);
    asker_close(&a);
}

static void free_all(struct asker *a)
{
    asker_free_requester(a);
    asker_free_socket(a);
}

static void a_requester_may_be_freed_when_there_is_room_again(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_requester_options two = {.size = sizeof two, .outstanding_max = 2};
    struct asker a = {.on_room = free_all};
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, &two);
    fill_up(&a);
    assert_ok(evzmq_request_cancel(a.requester, 1));
    run_until(f, a.requester == NULL);
    assert_int_equal(a.rooms, 1);
    assert_int_equal(a.ended, 0);
    asker_close(&a);
}

static void a_limit_of_bytes_counts_what_waits_and_what_may_be_sent_again(void **state)
{
    static const char big[60] = {0};
    struct fixture *const f = *state;

    for (unsigned retries = 0; retries < 2; retries++) {
        const struct evzmq_requester_options hundred = {
            .size = sizeof hundred, .held_bytes_max = 150, .retries_max = retries};
        struct asker a = {0};
        struct heard heard;
        void *server = NULL;

        asker_open(f, &a, TRANSPORT_INPROC, ZMQ_REP, &server, &hundred);
        assert_ok(evzmq_socket_disable(a.socket, EV_WRITE));
        if (retries == 0) {
            (void)ask(&a, "in the socket's queue", -1);
        }
        assert_true(evzmq_request_bytes(a.requester, big, 60, -1, asker_note, &a) > 0);
        assert_int_equal(asker_stats(&a).held_bytes, 76);
        assert_errno((int)evzmq_request_bytes(a.requester, big, 60, -1, asker_note, &a), EAGAIN);
        (void)ask(&a, "small", -1);
        assert_int_equal(a.rooms, 0);
        assert_ok(evzmq_socket_enable(a.socket, EV_WRITE));
        if (retries == 0) {
            run_until(f, a.rooms == 1); /* ZeroMQ has taken them; none was answered. */
        }
        while (a.replied < 3 - retries) {
            hear(f, server, &heard);
            answer(server, &heard, "r");
            fixture_glance(f);
        }
        run_until(f, a.rooms == 1);
        assert_int_equal(asker_stats(&a).held_bytes, 0);
        asker_close(&a);
    }
}

/* The server is away for longer than any deadline, and gets only what is still wanted. */
static void what_timed_out_or_was_cancelled_while_it_waited_is_not_sent(void **state)
{
    struct fixture *const f = *state;

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        void *const dealer = asker_peer(f, ZMQ_DEALER);
        void *const server = asker_peer(f, ZMQ_ROUTER);
        char endpoint[ENDPOINT_SIZE];
        struct asker a = {0};
        struct heard heard;

        peer_set_int(dealer, ZMQ_IMMEDIATE, 1);
        peer_bind(f, dealer, (enum transport)transport, endpoint);
        asker_attach(f, &a, dealer, NULL);
        (void)ask(&a, "in the socket's queue", 60000);
        for (int i = 0; i < 50; i++) {
            (void)ask(&a, "unwanted", i % 2 == 0 ? 1 : -1);
        }
        (void)ask(&a, "wanted", 60000);
        assert_int_equal(asker_stats(&a).waiting, 51);
        for (int64_t number = 3; number <= 51; number += 2) {
            assert_ok(evzmq_request_cancel(a.requester, number));
        }
        run_until(f, asker_stats(&a).timed_out == 25);
        assert_int_equal(asker_stats(&a).waiting, 1);
        peer_connect(server, endpoint);
        for (size_t i = 1; i <= 2; i++) {
            hear(f, server, &heard);
            answer(server, &heard, heard_text(&heard));
            run_until(f, a.replied == i);
        }
        assert_string_equal(a.text, "wanted");
        assert_false(try_hear(server, &heard));
        asker_close(&a);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_late_reply_is_dropped_and_counted),
        claim(a_second_reply_is_dropped_and_counted),
        claim(requests_time_out_in_the_order_of_their_deadlines),
        claim(many_deadlines_at_once_leave_turns_for_other_events),
        claim(a_cancelled_request_has_no_callback),
        claim(a_callback_may_cancel_other_requests),
        claim(a_free_in_a_reply_callback_is_the_last_of_all_callbacks),
        claim(a_free_forgets_what_is_outstanding_and_what_waits),
        claim(freeing_the_socket_ends_its_requests_with_eshutdown),
        claim(a_requester_whose_socket_was_freed_does_not_keep_dispatch_running),
        claim(shutting_the_socket_down_ends_its_requests_with_eshutdown),
        claim(a_terminated_context_ends_requests_with_eterm),
        claim(a_requester_may_be_freed_when_the_context_is_terminated),
        claim(a_limit_of_requests_refuses_and_tells_when_there_is_room),
        claim(a_requester_may_be_freed_when_there_is_room_again),
        claim(a_limit_of_bytes_counts_what_waits_and_what_may_be_sent_again),
        claim(what_timed_out_or_was_cancelled_while_it_waited_is_not_sent),
    };

    return run_claims(tests);
}
