/**
 * @file test_ready.c
 * The ready check, against workers that are plain libzmq sockets and say what they like.
 */
#include "crew.h"

#include <string.h>

/* A pool whose workers are somebody else's, and a socket to send ready signals with. */
static void *open_for_signals(struct fixture *f, struct crew *crew, unsigned n_workers)
{
    const struct evzmq_pool_options options = {.size = sizeof options, .silence_ms = UINT_MAX};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);

    crew_open(f, crew, n_workers, &options);
    crew_endpoint(crew, 0, "ready", endpoint);
    peer_connect(push, endpoint);
    return push;
}

/* The peer goes first, so that the context can remove its files under nobody. */
static void close_for_signals(struct crew *crew, void *push)
{
    peer_close(crew->f, push);
    crew_close(crew);
}

static void check(struct crew *crew, int timeout_ms)
{
    const struct timeval timeout = {timeout_ms / 1000, (timeout_ms % 1000) * 1000};

    crew->ready_done = 0;
    assert_ok(evzmq_pool_check_ready(crew->pool, &timeout, crew_note_ready, crew));
}

static void run_until_signals(struct crew *crew, uint64_t signals)
{
    run_until(crew->f, crew_stats(crew).ready_signals == signals);
}

static void all_identities_end_the_check_at_once(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {0};
    void *const push = open_for_signals(f, &crew, 3);

    check(&crew, 30000);
    peer_send(push, "\x02", 1);
    peer_send(push, "\x00", 1);
    run_until_signals(&crew, 2);
    fixture_run_for(f, 10);
    assert_int_equal(crew.ready_done, 0);
    peer_send(push, "\xcc\x01", 2); /* Not the shortest form, and right. */
    run_until(f, crew.ready_done);
    assert_int_equal(crew.ready_error, 0);
    assert_int_equal(crew.ready_count, 3);
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_READY], 3);
    close_for_signals(&crew, push);
}

static void duplicates_do_not_count(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {0};
    void *const push = open_for_signals(f, &crew, 3);

    check(&crew, 100);
    for (int i = 0; i < 10; i++) {
        peer_send(push, "\x01", 1);
    }
    run_until(f, crew.ready_done);
    assert_int_equal(crew.ready_error, ETIMEDOUT);
    assert_int_equal(crew.ready_count, 1);
    assert_int_equal(crew_stats(&crew).ready_duplicates, 9);
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_READY], 1);
    close_for_signals(&crew, push);
}

static void identities_out_of_range_and_what_is_none_are_rejected_and_counted(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {0};
    void *const push = open_for_signals(f, &crew, 2);

    check(&crew, 30000);
    peer_send(push, "\x02", 1); /* n */
    peer_send(push, "\xff", 1); /* -1 */
    peer_send(push, "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9);
    peer_send(push, "\xd3\x80\x00\x00\x00\x00\x00\x00\x00", 9);
    run_until_signals(&crew, 4);
    assert_int_equal(crew_stats(&crew).ready_out_of_range, 4);
    peer_send(push, "", 0);
    peer_send(push, "\xa1\x31", 2);
    peer_send(push, "\x00\x01", 2);
    peer_send(push, "\xcd\x00", 2);
    peer_send_text(push, "two|parts");
    peer_send(push, "a message that is far too long to be an integer", 47);
    peer_send(push, "\x00", 1);
    run_until_signals(&crew, 11);
    assert_int_equal(crew_stats(&crew).ready_malformed, 6);
    assert_int_equal(crew_stats(&crew).up, 1);
    assert_int_equal(crew.ready_done, 0);
    peer_send(push, "\x01", 1);
    run_until(f, crew.ready_done);
    assert_int_equal(crew.ready_error, 0);
    close_for_signals(&crew, push);
}

static void there_is_one_deadline_for_all_however_many_report(void **state)
{
    enum { WORKERS = 50, TIMEOUT_MS = 200 };
    struct fixture *const f = *state;
    struct crew crew = {0};
    void *const push = open_for_signals(f, &crew, WORKERS);
    const long long begin = crew_now_ms();
    unsigned char identity = 0;

    check(&crew, TIMEOUT_MS);
    while (!crew.ready_done) { /* One every few milliseconds: each would prolong a deadline each. */
        fixture_run_for(f, 10);
        if (identity + 1 < WORKERS) {
            peer_send(push, &identity, 1);
            identity++;
        }
    }
    assert_int_equal(crew.ready_error, ETIMEDOUT);
    assert_true(crew_now_ms() - begin >= TIMEOUT_MS);
    assert_true(crew.ready_count < WORKERS);
    close_for_signals(&crew, push);
}

static void a_retry_after_a_timeout_remembers_who_has_reported(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {0};
    void *const push = open_for_signals(f, &crew, 3);

    peer_send(push, "\x00", 1); /* Before any check. */
    check(&crew, 50);
    peer_send(push, "\x01", 1);
    run_until(f, crew.ready_done);
    assert_int_equal(crew.ready_error, ETIMEDOUT);
    run_until_signals(&crew, 2);
    check(&crew, 30000);
    peer_send(push, "\x02", 1);
    run_until(f, crew.ready_done);
    assert_int_equal(crew.ready_error, 0);
    assert_int_equal(crew.ready_count, 3);
    /* With all there, a check is done in the next turn of the loop. */
    check(&crew, 0);
    assert_int_equal(crew.ready_done, 0);
    run_until(f, crew.ready_done);
    assert_int_equal(crew.ready_error, 0);
    close_for_signals(&crew, push);
}

static void a_deadline_beyond_the_clock_is_not_reached_at_once(void **state)
{
    struct fixture *const f = *state;
    const struct timeval never = {(time_t)((UINT64_C(1) << (sizeof(time_t) * 8 - 1)) - 1), 999999};
    struct crew crew = {0};
    void *const push = open_for_signals(f, &crew, 1);

    assert_ok(evzmq_pool_check_ready(crew.pool, &never, crew_note_ready, &crew));
    fixture_run_for(f, 20);
    assert_false(crew.ready_done);
    peer_send(push, "\x00", 1);
    run_until(f, crew.ready_done);
    assert_int_equal(crew.ready_error, 0);
    close_for_signals(&crew, push);
}

static void one_check_at_a_time_and_free_cancels_it(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {0};
    void *const push = open_for_signals(f, &crew, 1);
    const struct timeval bad = {0, 1000000};

    assert_errno(evzmq_pool_check_ready(crew.pool, &bad, crew_note_ready, &crew), EINVAL);
    assert_errno(evzmq_pool_check_ready(crew.pool, NULL, NULL, &crew), EINVAL);
    check(&crew, 10);
    assert_errno(evzmq_pool_check_ready(crew.pool, NULL, crew_note_ready, &crew), EBUSY);
    close_for_signals(&crew, push);
    fixture_run_for(f, 30);
    assert_int_equal(crew.ready_done, 0);
}

static void a_worker_of_somebody_else_that_is_silent_is_lost_and_may_come_back(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = {
        .size = sizeof options, .heartbeat_ms = 20, .silence_ms = 400, .ready_ms = 1000};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    struct crew crew = {0};

    crew_open(f, &crew, 2, &options);
    crew_endpoint(&crew, 0, "ready", endpoint);
    peer_connect(push, endpoint);
    peer_send(push, "\x00", 1);
    run_until(f, crew.events[EVZMQ_POOL_EVENT_LOST] == 2);
    assert_int_equal(crew_stats(&crew).up, 0);
    assert_int_equal(crew_worker_stats(&crew, 0).state, EVZMQ_POOL_LOST);
    assert_errno(evzmq_pool_send(crew.pool, EVZMQ_POOL_NEXT, "x", 1), EHOSTUNREACH);
    peer_send(push, "\x00", 1);
    run_until(f, crew_stats(&crew).up == 1);
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_READY], 2);
    assert_int_equal(crew_send(&crew, EVZMQ_POOL_NEXT, "x"), 0);
    close_for_signals(&crew, push);
}

static void answers_without_a_proper_header_are_told_and_counted_and_hide_no_other(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = {.size = sizeof options, .silence_ms = UINT_MAX};
    static const char *const bad[] = {"x", "x|y", "|y", "\xcc|y"};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    struct evzmq_message *message = NULL;
    unsigned worker = 99;
    struct crew crew = {0};

    crew_open(f, &crew, 2, &options);
    crew_endpoint(&crew, 0, "responses", endpoint);
    peer_connect(push, endpoint);
    for (size_t i = 0; i < 4; i++) {
        peer_send_text(push, bad[i]);
        peer_send_text(push, "\x01|good");
    }
    run_until(f, crew.answers == 4);
    assert_int_equal(crew.answers_of[1], 4);
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_BAD_ANSWER], 4);
    assert_int_equal(crew_stats(&crew).bad_answers, 4);
    assert_ok(evzmq_pool_disable(crew.pool));
    peer_send_text(push, "x|y");
    peer_send_text(push, "\x01|good");
    f->dispatching = 1;
    assert_ok(evzmq_pool_recv(crew.pool, NULL, &worker, &message));
    f->dispatching = 0;
    assert_int_equal(worker, 1);
    assert_part(message, 1, "good", 4);
    evzmq_message_free(message);
    close_for_signals(&crew, push);
}

static void answers_to_nothing_do_not_hide_requests_without_an_answer(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = {
        .size = sizeof options, .silence_ms = UINT_MAX, .unanswered_max = 2};
    char endpoint[ENDPOINT_SIZE];
    struct crew crew = {0};
    void *const ready = peer_new(f, ZMQ_PUSH);
    void *const answers = peer_new(f, ZMQ_PUSH);
    void *const requests = peer_new(f, ZMQ_PULL);

    crew_open(f, &crew, 1, &options);
    crew_endpoint(&crew, 0, "requests", endpoint);
    peer_connect(requests, endpoint);
    crew_endpoint(&crew, 0, "responses", endpoint);
    peer_connect(answers, endpoint);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(zmq_send(answers, "\x00", 1, ZMQ_SNDMORE), 1);
        assert_int_equal(zmq_send(answers, "x", 1, 0), 1);
    }
    run_until(f, crew.answers == 3);
    crew_endpoint(&crew, 0, "ready", endpoint);
    peer_connect(ready, endpoint);
    peer_send(ready, "\x00", 1);
    run_until(f, crew_stats(&crew).up == 1);
    crew_send(&crew, 0, "a");
    crew_send(&crew, 0, "b");
    run_until(f, crew_worker_stats(&crew, 0).queued == 0);
    assert_int_equal(crew_worker_stats(&crew, 0).unanswered, 2);
    assert_errno(evzmq_pool_send(crew.pool, 0, "c", 1), EAGAIN); /* Nor do they give credit. */
    peer_close(f, ready);
    peer_close(f, answers);
    peer_close(f, requests);
    crew_close(&crew);
}

static void
a_worker_is_not_said_to_take_more_while_its_queue_is_full_nor_when_it_is_lost(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = {
        .size = sizeof options, .ready_ms = 50, .output_messages = 1};
    struct crew crew = {0};

    crew_open(f, &crew, 1, &options);
    crew_send(&crew, 0, "waits, since nobody is there");
    assert_errno(evzmq_pool_send(crew.pool, 0, "x", 1), EAGAIN);
    check(&crew, 1);
    run_until(f, crew.ready_done);
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_WRITABLE], 0);
    assert_errno(evzmq_pool_send(crew.pool, 0, "x", 1), EAGAIN);
    run_until(f, crew.events[EVZMQ_POOL_EVENT_LOST] == 1);
    fixture_run_for(f, 20);
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_WRITABLE], 0);
    crew_close(&crew);
}

static void a_flood_of_rubbish_does_not_hold_a_receiver_beyond_its_time(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = {.size = sizeof options, .silence_ms = UINT_MAX};
    const struct timeval at_once = {0, 0};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    struct evzmq_message *message = NULL;
    struct crew crew = {0};
    uint64_t sent = 0;
    uint64_t dropped = 0;

    crew_open(f, &crew, 1, &options);
    assert_ok(evzmq_pool_disable(crew.pool));
    crew_endpoint(&crew, 0, "responses", endpoint);
    peer_set_int(push, ZMQ_SNDHWM, 0);
    peer_connect(push, endpoint);
    for (; sent < 20000; sent++) {
        assert_int_equal(zmq_send(push, "rubbish", 7, 0), 7);
    }
    while (dropped < sent) {
        const uint64_t before = dropped;

        f->dispatching = 1;
        assert_errno(evzmq_pool_recv(crew.pool, &at_once, NULL, &message), ETIMEDOUT);
        f->dispatching = 0;
        dropped = crew_stats(&crew).bad_answers;
        assert_true(dropped - before <= 2000);
    }
    close_for_signals(&crew, push);
}

int main(int argc, char **argv)
{
    crew_main(argc, argv);
    const struct CMUnitTest tests[] = {
        claim(all_identities_end_the_check_at_once),
        claim(duplicates_do_not_count),
        claim(identities_out_of_range_and_what_is_none_are_rejected_and_counted),
        claim(there_is_one_deadline_for_all_however_many_report),
        claim(a_retry_after_a_timeout_remembers_who_has_reported),
        claim(a_deadline_beyond_the_clock_is_not_reached_at_once),
        claim(one_check_at_a_time_and_free_cancels_it),
        claim(a_worker_of_somebody_else_that_is_silent_is_lost_and_may_come_back),
        claim(answers_without_a_proper_header_are_told_and_counted_and_hide_no_other),
        claim(answers_to_nothing_do_not_hide_requests_without_an_answer),
        claim(a_worker_is_not_said_to_take_more_while_its_queue_is_full_nor_when_it_is_lost),
        claim(a_flood_of_rubbish_does_not_hold_a_receiver_beyond_its_time),
    };

    return run_claims(tests);
}
