/**
 * @file test_pool_end.c
 * Every end of a pool: orderly, by deadline, by force, from callbacks, and by the death of the main
 * process. None leaves a process, a file or a directory.
 */
#include "crew.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

static void shutdown_lets_workers_answer_what_they_were_asked(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    crew_open(f, &crew, 2, &options);
    for (int i = 0; i < 500; i++) {
        crew_send(&crew, (unsigned)i % 2, "x"); /* Before anybody is there. */
    }
    crew_shutdown(&crew, 20000);
    assert_int_equal(crew.answers, 500);
    assert_int_equal(crew.report.size, sizeof crew.report);
    assert_int_equal(crew.report.undelivered, 0);
    assert_int_equal(crew.report.unanswered, 0);
    assert_int_equal(crew.report.exited, 2);
    assert_int_equal(crew.report.terminated + crew.report.killed + crew.report.left, 0);
    crew_assert_no_child();
    crew_close(&crew);
}

static void answers_given_at_the_end_still_arrive(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("late");
    struct crew crew = {0};

    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    for (int i = 0; i < 20; i++) {
        crew_send(&crew, EVZMQ_POOL_NEXT, "x");
    }
    crew_shutdown(&crew, 20000);
    assert_int_equal(crew.answers, 20);
    assert_int_equal(crew.report.unanswered, 0);
    crew_close(&crew);
}

static void after_shutdown_sends_fail_and_are_counted(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    const struct timeval deadline = {20, 0};
    struct crew crew = {0};

    crew_open(f, &crew, 1, &options);
    crew_wait_ready(&crew);
    assert_ok(evzmq_pool_shutdown(crew.pool, &deadline, crew_note_end, &crew));
    assert_errno(evzmq_pool_send(crew.pool, 0, "x", 1), ESHUTDOWN);
    assert_errno(evzmq_pool_send(crew.pool, EVZMQ_POOL_NEXT, "x", 1), ESHUTDOWN);
    assert_errno(evzmq_pool_check_ready(crew.pool, NULL, crew_note_ready, &crew), ESHUTDOWN);
    /* Again is nothing, with whatever arguments. */
    assert_ok(evzmq_pool_shutdown(crew.pool, NULL, NULL, NULL));
    assert_int_equal(crew.ended, 0);
    run_until(f, crew.ended);
    assert_ok(evzmq_pool_shutdown(crew.pool, &deadline, crew_note_end, &crew));
    fixture_run_for(f, 50);
    assert_int_equal(crew.ended, 1);
    assert_int_equal(crew_stats(&crew).sends_after_shutdown, 2);
    assert_int_equal(crew_worker_stats(&crew, 0).state, EVZMQ_POOL_ENDED);
    crew_close(&crew);
}

static void a_deaf_worker_is_killed_at_the_deadline(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("deaf");
    const long long begin = crew_now_ms();
    struct crew crew = {0};

    crew_open(f, &crew, 1, &options);
    crew_wait_ready(&crew);
    crew_send(&crew, 0, "mute");
    crew_hand_over(&crew);
    crew_shutdown(&crew, 200);
    assert_int_equal(crew.report.killed, 1);
    assert_int_equal(crew.report.unanswered, 1);
    assert_true(crew_now_ms() - begin >= 200);
    crew_close(&crew);
}

static void
a_worker_that_never_connected_is_ended_by_sigterm_and_its_requests_are_undelivered(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("asleep");
    struct crew crew = {0};

    crew_open(f, &crew, 1, &options);
    for (int i = 0; i < 7; i++) {
        crew_send(&crew, 0, "x");
    }
    /* SIGTERM comes a second before the deadline: the loop is never that late. */
    crew_shutdown(&crew, 4000);
    assert_int_equal(crew.report.terminated, 1);
    assert_int_equal(crew.report.undelivered, 7);
    assert_int_equal(crew.report.unanswered, 0);
    crew_close(&crew);
}

static void a_worker_that_waits_to_be_started_again_is_not_started_by_a_shutdown(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    options.restarts_max = UINT_MAX;
    options.restart_delay_ms = 100000;
    options.restart_delay_max_ms = 100000;
    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    crew_send(&crew, 0, "kill");
    run_until(f, crew.events[EVZMQ_POOL_EVENT_LOST] == 1);
    crew_shutdown(&crew, 20000);
    assert_int_equal(crew.report.exited, 1);
    assert_int_equal(crew_worker_stats(&crew, 0).restarts, 0);
    crew_close(&crew);
}

static void shut_down_in_answer(struct crew *crew, unsigned worker, struct evzmq_message *message)
{
    const struct timeval deadline = {20, 0};

    (void)worker;
    (void)message;
    assert_ok(evzmq_pool_shutdown(crew->pool, &deadline, crew_note_end, crew));
}

static void shut_down_in_event(struct crew *crew, const struct evzmq_pool_event *event)
{
    const struct timeval deadline = {20, 0};

    (void)event;
    assert_ok(evzmq_pool_shutdown(crew->pool, &deadline, crew_note_end, crew));
}

static void shutdown_may_be_called_in_every_callback(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew in_answer = {.on_answer = shut_down_in_answer};
    struct crew in_event = {.on_event = shut_down_in_event};

    crew_open(f, &in_answer, 2, &options);
    crew_send(&in_answer, 0, "x");
    crew_send(&in_answer, 1, "x");
    run_until(f, in_answer.ended);
    assert_int_equal(in_answer.answers, 2);
    crew_close(&in_answer);
    crew_open(f, &in_event, 2, &options);
    run_until(f, in_event.ended);
    crew_close(&in_event);
}

static void free_at_end(struct evzmq_pool *pool, const struct evzmq_pool_report *report, void *arg)
{
    struct crew *const crew = arg;

    crew->report = *report;
    crew->ended++;
    evzmq_pool_free(pool);
    crew->pool = NULL;
}

static void a_pool_may_be_freed_when_its_shutdown_is_done_and_dispatch_ends(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    const struct timeval deadline = {20, 0};
    struct crew crew = {0};

    crew_open(f, &crew, 2, &options);
    assert_ok(evzmq_pool_shutdown(crew.pool, &deadline, free_at_end, &crew));
    assert_int_equal(fixture_loop(f, 0), 1); /* Nothing is left on the base. */
    assert_int_equal(crew.ended, 1);
    crew_close(&crew);
}

static void free_during_a_shutdown_cancels_its_callback_and_kills(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("deaf");
    const struct timeval deadline = {20, 0};
    struct crew crew = {0};

    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    assert_ok(evzmq_pool_shutdown(crew.pool, &deadline, crew_note_end, &crew));
    fixture_run_for(f, 20);
    crew_close(&crew);
    assert_int_equal(crew.ended, 0);
}

static void a_shutdown_with_a_deadline_beyond_the_clock_kills_nobody(void **state)
{
    struct fixture *const f = *state;
    const struct timeval never = {(time_t)((UINT64_C(1) << (sizeof(time_t) * 8 - 1)) - 1), 999999};
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    assert_ok(evzmq_pool_shutdown(crew.pool, &never, crew_note_end, &crew));
    run_until(f, crew.ended);
    assert_int_equal(crew.report.exited, 2);
    crew_close(&crew);
}

static void a_ready_check_is_cancelled_by_a_shutdown(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("asleep");
    struct crew crew = {0};

    crew_open(f, &crew, 1, &options);
    assert_ok(evzmq_pool_check_ready(crew.pool, NULL, crew_note_ready, &crew));
    crew_shutdown(&crew, 50);
    assert_int_equal(crew.ready_done, 1);
    assert_int_equal(crew.ready_error, ECANCELED);
    crew_close(&crew);
}

/* How often the loop turns until a while has passed. */
static int count_turns(struct fixture *f, int window_ms)
{
    const long long end = crew_now_ms() + window_ms;
    int turns = 0;

    while (crew_now_ms() < end) {
        const struct timeval rest = {0, 20000};
        assert_int_equal(event_base_loopexit(f->base, &rest), 0);
        fixture_turn(f);
        turns++;
    }
    return turns;
}

/* A pool whose only worker, a plain socket, is lost and has a request waiting, and whose shutdown
 * has nobody left to wait for; then the worker is heard of again. Returns whether it came in time.
 */
static int come_back(struct fixture *f, struct crew *crew, void *ready)
{
    const struct evzmq_pool_options options = {
        .size = sizeof options, .heartbeat_ms = 20, .silence_ms = 50};
    char endpoint[ENDPOINT_SIZE];

    *crew = (struct crew){0};
    crew_open(f, crew, 1, &options);
    crew_endpoint(crew, 0, "ready", endpoint);
    peer_connect(ready, endpoint);
    peer_send(ready, "", 1); /* A 0. */
    (void)crew_send(crew, 0, "work");
    run_until(f, crew->events[EVZMQ_POOL_EVENT_LOST] == 1);
    assert_ok(evzmq_pool_shutdown(crew->pool, NULL, crew_note_end, crew));
    fixture_turn(f);
    peer_send(ready, "", 1);
    run_until_others(f, crew->ended || crew_worker_stats(crew, 0).state == EVZMQ_POOL_UP);
    return !crew->ended;
}

static void a_worker_that_comes_back_when_a_shutdown_was_all_but_over_is_told_to_end(void **state)
{
    struct fixture *const f = *state;
    char endpoint[ENDPOINT_SIZE];
    char text[64];
    struct crew crew;
    void *const requests = peer_new(f, ZMQ_PULL);
    void *ready = peer_new(f, ZMQ_PUSH);

    while (!come_back(f, &crew, ready)) {
        crew_close(&crew);
        peer_close(f, ready);
        ready = peer_new(f, ZMQ_PUSH);
    }
    assert_true(count_turns(f, 200) < 100);
    crew_endpoint(&crew, 0, "requests", endpoint);
    peer_connect(requests, endpoint);
    pump_recv_text(f, requests, text, sizeof text);
    assert_memory_equal(text, "\0|work", 7);
    pump_recv_text(f, requests, text, sizeof text);
    assert_memory_equal(text, "\0\0\2|", 5);
    run_until(f, crew.ended);
    assert_int_equal(crew.report.undelivered, 0);
    crew_close(&crew);
}

/* A main process of its own, which says who its workers are and then waits for its death. */
static void be_a_main_process(const char *directory, int pipe_fd)
{
    const struct evzmq_pool_options options = crew_options("echo");
    struct event_base *const base = event_base_new();
    struct evzmq_context *const context = evzmq_context_new(1, directory);
    struct evzmq_pool *const pool = evzmq_pool_new(base, context, 3, &options);
    struct evzmq_pool_stats stats = {.size = sizeof stats};
    pid_t pids[3];

    if (pool == NULL) {
        _exit(1);
    }
    while (stats.up < 3) {
        (void)event_base_loop(base, EVLOOP_ONCE);
        (void)evzmq_pool_get_stats(pool, &stats);
    }
    for (unsigned i = 0; i < 3; i++) {
        struct evzmq_pool_worker_stats worker = {.size = sizeof worker};

        (void)evzmq_pool_get_worker_stats(pool, i, &worker);
        pids[i] = (pid_t)worker.pid;
    }
    if (write(pipe_fd, pids, sizeof pids) != (ssize_t)sizeof pids) {
        _exit(2);
    }
    (void)event_base_dispatch(base);
    _exit(3);
}

static void
when_the_main_process_is_killed_its_workers_end_within_a_second_and_the_next_works(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};
    pid_t pids[3];
    int fds[2];
    int status = 0;
    int alive = 3;
    pid_t child = 0;
    long long begin = 0;

    crew_open_context(f, &crew);
    assert_int_equal(pipe(fds), 0);
    child = quiet_fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(fds[0]);
        be_a_main_process(crew.directory, fds[1]);
    }
    (void)close(fds[1]);
    assert_int_equal(read(fds[0], pids, sizeof pids), sizeof pids);
    (void)close(fds[0]);
    /* Its orphans come to this process, so that none is reaped behind our back. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    begin = crew_now_ms();
    for (; alive > 0; alive--) {
        assert_true(waitpid(-1, &status, 0) > 0);
    }
    assert_true(crew_now_ms() - begin <= 1000);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0), 0);
    assert_true(crew_count_entries(crew.directory) > 0); /* The leftovers of the dead. */
    crew_open(f, &crew, 3, &options);
    crew_wait_ready(&crew);
    crew_send(&crew, 2, "x");
    run_until(f, crew.answers == 1);
    crew_shutdown(&crew, 20000);
    crew_close(&crew); /* Nor are the leftovers there any more. */
}

int main(int argc, char **argv)
{
    crew_main(argc, argv);
    const struct CMUnitTest tests[] = {
        claim(shutdown_lets_workers_answer_what_they_were_asked),
        claim(answers_given_at_the_end_still_arrive),
        claim(after_shutdown_sends_fail_and_are_counted),
        claim(a_deaf_worker_is_killed_at_the_deadline),
        claim(a_worker_that_never_connected_is_ended_by_sigterm_and_its_requests_are_undelivered),
        claim(a_worker_that_waits_to_be_started_again_is_not_started_by_a_shutdown),
        claim(shutdown_may_be_called_in_every_callback),
        claim(a_pool_may_be_freed_when_its_shutdown_is_done_and_dispatch_ends),
        claim(free_during_a_shutdown_cancels_its_callback_and_kills),
        claim(a_shutdown_with_a_deadline_beyond_the_clock_kills_nobody),
        claim(a_ready_check_is_cancelled_by_a_shutdown),
        claim(a_worker_that_comes_back_when_a_shutdown_was_all_but_over_is_told_to_end),
        claim(when_the_main_process_is_killed_its_workers_end_within_a_second_and_the_next_works),
    };

    return run_claims(tests);
}
