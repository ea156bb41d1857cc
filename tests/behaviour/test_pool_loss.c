/**
 * @file test_pool_loss.c
 * Whatever way a worker is lost, it costs one event with its identity, the reason and the number of
 * unanswered requests, its process is reaped, and what comes next is as the options say.
 */
#include "crew.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

/* Opens a pool whose losses show soon. */
static void open_keen(struct fixture *f, struct crew *crew, unsigned n_workers, const char *kind,
                      unsigned restarts)
{
    struct evzmq_pool_options options = crew_options(kind);

    options.heartbeat_ms = 50;
    options.restarts_max = restarts;
    options.restart_delay_ms = 20;
    crew_open(f, crew, n_workers, &options);
}

static void run_until_lost(struct crew *crew, size_t losses)
{
    run_until(crew->f, crew->events[EVZMQ_POOL_EVENT_LOST] == losses);
    fixture_run_for(crew->f, 10);
    assert_int_equal(crew->events[EVZMQ_POOL_EVENT_LOST], losses);
}

static void a_worker_that_exits_is_one_event_with_its_status(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {0};

    open_keen(f, &crew, 2, "echo", 0);
    crew_wait_ready(&crew);
    crew_send(&crew, 1, "a");
    run_until(f, crew.answers == 1); /* An exit that is not orderly may take answers with it. */
    crew_send(&crew, 1, "mute");
    crew_send(&crew, 1, "exit 3");
    run_until_lost(&crew, 1);
    assert_int_equal(crew.last_loss.worker, 1);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_EXITED);
    assert_int_equal(crew.last_loss.status, 3);
    assert_int_equal(crew.last_loss.unanswered, 2);
    assert_int_equal(crew.last_loss.queued, 0);
    assert_false(crew.last_loss.restarting);
    assert_int_equal(crew_worker_stats(&crew, 1).state, EVZMQ_POOL_LOST);
    assert_int_equal(crew_pid(&crew, 1), 0);
    assert_errno(evzmq_pool_send(crew.pool, 1, "x", 1), EHOSTUNREACH);
    /* The other one works on. */
    assert_int_equal(crew_send(&crew, EVZMQ_POOL_NEXT, "x"), 0);
    run_until(f, crew.answers_of[0] == 1);
    crew_close(&crew);
}

static void
a_worker_that_is_killed_is_one_event_with_its_signal_and_unanswered_requests(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {0};

    open_keen(f, &crew, 1, "echo", 0);
    crew_wait_ready(&crew);
    for (int i = 0; i < 10; i++) {
        crew_send(&crew, 0, "x");
    }
    crew_send(&crew, 0, "kill");
    for (int i = 0; i < 5; i++) {
        crew_send(&crew, 0, "never read");
    }
    run_until_lost(&crew, 1);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_KILLED);
    assert_int_equal(crew.last_loss.status, SIGKILL);
    /* Every request was answered, was unanswered, or waits: none is unaccounted for. The answers of
     * a killed process that did not leave it are among the unanswered. */
    assert_int_equal(crew.answers + crew.last_loss.unanswered + crew.last_loss.queued, 16);
    assert_true(crew.last_loss.unanswered + crew.last_loss.queued >= 6);
    assert_errno(evzmq_pool_send(crew.pool, EVZMQ_POOL_NEXT, "x", 1), EHOSTUNREACH);
    crew_close(&crew);
}

static void a_stopped_worker_is_silent_and_killed_and_one_event(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};
    pid_t pid = 0;

    options.heartbeat_ms = 50;
    options.silence_ms = 1000;
    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    pid = crew_pid(&crew, 0);
    crew_send(&crew, 0, "mute");
    crew_send(&crew, 0, "stop");
    crew_send(&crew, 0, "x");
    run_until_lost(&crew, 1);
    assert_int_equal(crew.last_loss.worker, 0);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_SILENT);
    assert_int_equal(crew.last_loss.unanswered, 3);
    assert_false(crew_process_lives(pid));
    crew_close(&crew);
}

/* ZeroMQ's own heartbeats come from a thread of ZeroMQ, and say nothing of the program. */
static void
a_worker_that_does_not_return_to_its_loop_is_silent_though_its_connection_lives(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    options.endpoint = "tcp://127.0.0.1:*";
    options.heartbeat_ms = 50;
    options.silence_ms = 1000;
    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    crew_send(&crew, 1, "busy 20");
    run_until(f, crew.answers == 1);
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_LOST], 0);
    crew_send(&crew, 0, "busy 60000");
    run_until_lost(&crew, 1);
    assert_int_equal(crew.last_loss.worker, 0);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_SILENT);
    assert_int_equal(crew.last_loss.unanswered, 1);
    crew_send(&crew, 1, "x");
    run_until(f, crew.answers == 2);
    crew_close(&crew);
}

static void workers_are_not_silent_because_the_main_loop_stood_still(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};
    const long long until = crew_now_ms() + 2500;

    options.heartbeat_ms = 50;
    options.silence_ms = 1000;
    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    while (crew_now_ms() < until) { /* The main process is what stands still. */
    }
    fixture_run_for(f, 1500);
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_LOST], 0);
    crew_close(&crew);
}

static void a_worker_that_never_connects_is_one_event(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("asleep");
    struct crew crew = {0};

    options.ready_ms = 200;
    crew_open(f, &crew, 1, &options);
    crew_send(&crew, 0, "waits");
    run_until_lost(&crew, 1);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_NEVER_READY);
    assert_int_equal(crew.last_loss.queued, 1);
    assert_int_equal(crew.last_loss.unanswered, 0);
    crew_assert_no_child();
    crew_close(&crew);
}

static void a_worker_that_exits_before_it_is_ready_ends_the_ready_check_at_once(void **state)
{
    struct fixture *const f = *state;
    const struct timeval timeout = {30, 0};
    struct crew crew = {0};

    open_keen(f, &crew, 2, "fail", 0);
    assert_ok(evzmq_pool_check_ready(crew.pool, &timeout, crew_note_ready, &crew));
    run_until(f, crew.ready_done);
    assert_int_equal(crew.ready_error, EHOSTUNREACH);
    assert_int_equal(crew.ready_count, 0);
    run_until_lost(&crew, 2);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_EXITED);
    assert_int_equal(crew.last_loss.status, 1);
    crew_close(&crew);
}

static void a_lost_worker_is_started_again_with_its_identity_and_its_queue(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {0};
    long first = 0;
    long second = 0;

    open_keen(f, &crew, 2, "echo", 1);
    crew_wait_ready(&crew);
    crew_send(&crew, 1, "pid");
    run_until(f, crew.answers == 1);
    first = strtol(crew.answer, NULL, 10);
    crew_send(&crew, 1, "kill");
    run_until_lost(&crew, 1);
    assert_true(crew.last_loss.restarting);
    assert_int_equal(crew.last_loss.restart_delay_ms, 20);
    crew_send(&crew, 1, "pid");
    run_until(f, crew.answers == 2 && crew.events[EVZMQ_POOL_EVENT_READY] == 3);
    second = strtol(crew.answer, NULL, 10);
    assert_int_equal(crew.answer_worker, 1);
    assert_int_not_equal(first, second);
    assert_int_equal(crew_worker_stats(&crew, 1).restarts, 1);
    assert_int_equal(crew_worker_stats(&crew, 1).unanswered, 0);
    /* Once means once. */
    crew_send(&crew, 1, "kill");
    run_until_lost(&crew, 2);
    assert_false(crew.last_loss.restarting);
    assert_int_equal(crew.last_loss.unanswered, 1);
    crew_close(&crew);
}

static void a_worker_that_crashes_at_every_start_is_started_ever_more_slowly(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("fail");
    struct crew crew = {0};
    unsigned delay = 0;

    options.restarts_max = UINT_MAX;
    options.restart_delay_ms = 10;
    options.restart_delay_max_ms = 100;
    crew_open(f, &crew, 1, &options);
    for (size_t losses = 1; losses <= 6; losses++) {
        run_until(f, crew.events[EVZMQ_POOL_EVENT_LOST] == losses);
        assert_true(crew.last_loss.restarting);
        assert_int_equal(crew.last_loss.restart_delay_ms,
                         delay == 0 ? 10 : (delay > 50 ? 100 : delay * 2));
        delay = crew.last_loss.restart_delay_ms;
    }
    assert_int_equal(delay, 100);
    crew_close(&crew);
}

static void kill_when_ready(struct crew *crew, const struct evzmq_pool_event *event)
{
    if (event->type == EVZMQ_POOL_EVENT_READY) {
        assert_int_equal(kill(crew_pid(crew, event->worker), SIGKILL), 0);
    }
}

/* On a busy machine one may live for as long as the delay, which begins anew then. */
static void a_worker_that_crashes_as_soon_as_it_is_ready_is_started_ever_more_slowly(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {.on_event = kill_when_ready};

    open_keen(f, &crew, 1, "echo", UINT_MAX);
    run_until(f, crew.last_loss.restart_delay_ms >= 80);
    crew_close(&crew);
}

static void a_worker_that_cannot_be_started_again_is_one_event_with_the_error(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    char link[256];
    const char *argv[4] = {link, options.worker_argv[1], options.worker_argv[2], NULL};
    struct crew crew = {0};

    crew_open_context(f, &crew);
    (void)snprintf(link, sizeof link, "%s/worker", crew.directory);
    assert_ok(symlink(options.worker_argv[0], link));
    options.worker_argv = argv;
    options.restarts_max = 2;
    options.restart_delay_ms = 10;
    crew_open(f, &crew, 1, &options);
    crew_wait_ready(&crew);
    assert_ok(unlink(link));
    crew_send(&crew, 0, "kill");
    run_until(f, crew.events[EVZMQ_POOL_EVENT_LOST] == 3);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_NOT_STARTED);
    assert_int_equal(crew.last_loss.error, ENOENT);
    assert_false(crew.last_loss.restarting);
    crew_close(&crew);
}

static void have_no_memory(struct crew *crew, const struct evzmq_pool_event *event)
{
    (void)crew;
    if (event->type == EVZMQ_POOL_EVENT_LOST && event->loss == EVZMQ_POOL_LOSS_KILLED) {
        allocations_fail_at(1);
    }
}

static void requests_are_told_lost_once_also_when_there_is_no_memory_to_start_again(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {.on_event = have_no_memory};

    open_keen(f, &crew, 1, "echo", 2);
    crew_wait_ready(&crew);
    crew_send(&crew, 0, "kill");
    run_until(f, crew.events[EVZMQ_POOL_EVENT_LOST] == 1);
    assert_int_equal(crew.last_loss.unanswered, 1);
    run_until(f, crew.events[EVZMQ_POOL_EVENT_LOST] == 2);
    allocations_fail_at(0);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_NOT_STARTED);
    assert_int_equal(crew.last_loss.error, ENOMEM);
    assert_int_equal(crew.last_loss.unanswered, 0);
    run_until(f, crew_stats(&crew).up == 1); /* The second restart. */
    crew_close(&crew);
}

static volatile sig_atomic_t signals_seen;

static void on_sigchld(int number)
{
    (void)number;
    signals_seen++;
}

static void sigchld_and_other_children_are_left_alone(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {0};
    struct sigaction before;
    struct sigaction after;
    int status = 0;
    pid_t child = 0;

    (void)signal(SIGCHLD, on_sigchld);
    assert_int_equal(sigaction(SIGCHLD, NULL, &before), 0);
    child = quiet_fork();
    if (child == 0) {
        _exit(5);
    }
    open_keen(f, &crew, 1, "echo", 0);
    crew_wait_ready(&crew);
    crew_send(&crew, 0, "exit 3");
    run_until_lost(&crew, 1);
    assert_int_equal(sigaction(SIGCHLD, NULL, &after), 0);
    assert_ptr_equal(before.sa_handler, after.sa_handler);
    assert_true(signals_seen > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 5);
    (void)signal(SIGCHLD, SIG_DFL);
    crew_close(&crew);
}

static void a_program_that_ignores_sigchld_learns_of_the_loss_without_a_status(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {0};

    (void)signal(SIGCHLD, SIG_IGN);
    open_keen(f, &crew, 1, "echo", 0);
    crew_wait_ready(&crew);
    crew_send(&crew, 0, "exit 3");
    run_until_lost(&crew, 1);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_EXITED);
    assert_int_equal(crew.last_loss.status, -1);
    (void)signal(SIGCHLD, SIG_DFL);
    crew_close(&crew);
}

static void answers_of_a_worker_that_exits_are_not_counted_as_lost(void **state)
{
    struct fixture *const f = *state;
    struct crew crew = {0};

    open_keen(f, &crew, 1, "echo", 0);
    crew_wait_ready(&crew);
    for (int i = 0; i < 20; i++) {
        crew_send(&crew, 0, "big 100000");
    }
    run_until(f, crew.answers == 20);
    crew_send(&crew, 0, "exit 0");
    run_until_lost(&crew, 1);
    assert_int_equal(crew.last_loss.unanswered, 1);
    crew_close(&crew);
}

static void losses_do_not_stop_a_pool_that_is_fed_all_the_time(void **state)
{
    enum { KILLS = 10 };
    struct fixture *const f = *state;
    struct crew crew = {0};
    uint64_t lost = 0;
    uint64_t sent = 0;

    open_keen(f, &crew, 3, "echo", UINT_MAX);
    crew_wait_ready(&crew);
    for (size_t kills = 0; kills < KILLS; kills++) {
        const unsigned victim = (unsigned)(kills % 3);
        const size_t answers = crew.answers;

        run_until(f, crew_stats(&crew).up == 3);
        for (int i = 0; i < 20; i++) {
            sent += evzmq_pool_send(crew.pool, EVZMQ_POOL_NEXT, "x", 1) >= 0;
        }
        assert_int_equal(kill(crew_pid(&crew, victim), SIGKILL), 0);
        run_until(f, crew.events[EVZMQ_POOL_EVENT_LOST] == kills + 1);
        assert_int_equal(crew.last_loss.worker, victim);
        lost += crew.last_loss.unanswered;
        run_until(f, crew.answers >= answers + 10);
    }
    run_until(f, crew.answers + lost >= sent);
    assert_int_equal(crew.answers + lost, sent);
    crew_close(&crew);
}

/* Starts a worker as somebody else would. */
static pid_t start_stranger(const struct crew *crew, unsigned worker)
{
    const struct evzmq_pool_options options = crew_options("echo");
    const char *const connection = evzmq_pool_get_connection(crew->pool, worker);
    const pid_t child = quiet_fork();

    assert_true(child >= 0);
    if (child == 0) {
        (void)execl(options.worker_argv[0], options.worker_argv[0], "--worker", "echo", connection,
                    (char *)NULL);
        _exit(127);
    }
    return child;
}

/* Keeps what a reconnection may have cost. */
static void keep_unanswered(struct crew *crew, const struct evzmq_pool_event *event)
{
    if (event->type == EVZMQ_POOL_EVENT_RECONNECTED) {
        *(uint64_t *)crew->arg += event->unanswered;
    }
}

static void
a_worker_that_is_replaced_before_it_is_missed_is_told_and_gets_its_credit_back(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = {
        .size = sizeof options, .silence_ms = UINT_MAX, .unanswered_max = 2};
    uint64_t unanswered = 0;
    struct crew crew = {.on_event = keep_unanswered, .arg = &unanswered};
    pid_t child = 0;
    int status = 0;

    crew_open(f, &crew, 1, &options);
    child = start_stranger(&crew, 0);
    crew_wait_ready(&crew);
    crew_send(&crew, 0, "mute");
    crew_send(&crew, 0, "mute");
    assert_errno(evzmq_pool_send(crew.pool, 0, "x", 1), EAGAIN);
    crew_hand_over(&crew);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    child = start_stranger(&crew, 0);
    run_until(f, crew.events[EVZMQ_POOL_EVENT_RECONNECTED] == 1);
    assert_int_equal(unanswered, 2);
    run_until(f, crew.events[EVZMQ_POOL_EVENT_WRITABLE] == 1);
    crew_send(&crew, 0, "x");
    run_until(f, crew.answers == 1);
    crew_shutdown(&crew, 20000);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    crew_close(&crew);
}

static pid_t forked; /* 0 in the child, -1 before. */

static void fork_once(struct crew *crew, const struct evzmq_pool_event *event)
{
    if (event->type == EVZMQ_POOL_EVENT_WRITABLE && crew->events[EVZMQ_POOL_EVENT_WRITABLE] == 1) {
        forked = child_fork();
    }
}

static void a_child_forked_in_an_event_callback_gets_no_further_event(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {.on_event = fork_once};
    int answers = 0;

    forked = -1;
    options.unanswered_max = 1;
    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    assert_ok(evzmq_pool_disable(crew.pool));
    for (unsigned i = 0; i < 2; i++) {
        crew_send(&crew, i, "x");
        assert_errno(evzmq_pool_send(crew.pool, i, "y", 1), EAGAIN);
    }
    crew_hand_over(&crew);
    /* Without the loop, so that it has an event of both to tell of in one go. */
    while (answers < 2) {
        struct evzmq_message *message = NULL;

        if (evzmq_pool_try_recv(crew.pool, NULL, &message) == 0) {
            evzmq_message_free(message);
            answers++;
        }
    }
    run_until(f, forked == 0 || crew.events[EVZMQ_POOL_EVENT_WRITABLE] == 2);
    if (forked == 0) {
        _exit(crew.events[EVZMQ_POOL_EVENT_WRITABLE] == 1 ? 0 : 1);
    }
    assert_true(forked > 0);
    assert_int_equal(child_wait(forked), 0);
    crew_close(&crew);
}

int main(int argc, char **argv)
{
    crew_main(argc, argv);
    const struct CMUnitTest tests[] = {
        claim(a_worker_that_exits_is_one_event_with_its_status),
        claim(a_worker_that_is_killed_is_one_event_with_its_signal_and_unanswered_requests),
        claim(a_stopped_worker_is_silent_and_killed_and_one_event),
        claim(a_worker_that_does_not_return_to_its_loop_is_silent_though_its_connection_lives),
        claim(workers_are_not_silent_because_the_main_loop_stood_still),
        claim(a_worker_that_never_connects_is_one_event),
        claim(a_worker_that_exits_before_it_is_ready_ends_the_ready_check_at_once),
        claim(a_lost_worker_is_started_again_with_its_identity_and_its_queue),
        claim(a_worker_that_crashes_at_every_start_is_started_ever_more_slowly),
        claim(a_worker_that_crashes_as_soon_as_it_is_ready_is_started_ever_more_slowly),
        claim(a_worker_that_cannot_be_started_again_is_one_event_with_the_error),
        claim(requests_are_told_lost_once_also_when_there_is_no_memory_to_start_again),
        claim(sigchld_and_other_children_are_left_alone),
        claim(a_program_that_ignores_sigchld_learns_of_the_loss_without_a_status),
        claim(answers_of_a_worker_that_exits_are_not_counted_as_lost),
        claim(losses_do_not_stop_a_pool_that_is_fed_all_the_time),
        claim(a_worker_that_is_replaced_before_it_is_missed_is_told_and_gets_its_credit_back),
        claim(a_child_forked_in_an_event_callback_gets_no_further_event),
    };

    return run_claims(tests);
}
