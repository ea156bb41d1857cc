/**
 * @file test_pool.c
 * A pool that works: requests to a worker or to the next, answers by callback and by calls,
 * counters, limits.
 */
#include "crew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <evzmq/msgpack.h>

#include "child.h"

static void a_request_to_a_worker_is_answered_by_that_worker(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    crew_open(f, &crew, 3, &options);
    crew_wait_ready(&crew);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(crew_send(&crew, i, "pid"), i);
        run_until(f, crew.answers == i + 1);
        assert_int_equal(crew.answer_worker, i);
        assert_int_equal(strtol(crew.answer, NULL, 10), crew_pid(&crew, i));
    }
    crew_shutdown(&crew, 10000);
    assert_int_equal(crew.report.exited, 3);
    assert_int_equal(crew.report.undelivered + crew.report.unanswered, 0);
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_LOST], 0);
    crew_close(&crew);
}

static void requests_to_the_next_worker_go_round(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    crew_open(f, &crew, 3, &options);
    crew_wait_ready(&crew);
    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(crew_send(&crew, EVZMQ_POOL_NEXT, "x"), i % 3);
    }
    run_until(f, crew.answers == 30);
    for (unsigned i = 0; i < 3; i++) {
        const struct evzmq_pool_worker_stats stats = crew_worker_stats(&crew, i);

        assert_int_equal(crew.answers_of[i], 10);
        assert_int_equal(stats.sent, 10);
        assert_int_equal(stats.answered, 10);
        assert_int_equal(stats.unanswered, 0);
        assert_true(stats.last_seen_ms >= 0);
    }
    assert_int_equal(crew_stats(&crew).sent, 30);
    assert_int_equal(crew_stats(&crew).answered, 30);
    crew_close(&crew);
}

static void before_a_worker_is_up_its_requests_wait_and_the_next_is_nobody(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    crew_open(f, &crew, 1, &options);
    assert_errno(evzmq_pool_send(crew.pool, EVZMQ_POOL_NEXT, "x", 1), EAGAIN);
    assert_int_equal(crew_send(&crew, 0, "early"), 0);
    run_until(f, crew.answers == 1);
    assert_string_equal(crew.answer, "early");
    assert_int_equal(crew_stats(&crew).sends_refused, 1);
    crew_close(&crew);
}

static void requests_and_answers_may_have_parts_and_may_be_empty(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    const struct evzmq_bytes parts[] = {{"one", 3}, {NULL, 0}, {"three", 5}};
    struct crew crew = {0};
    struct evzmq_message *message = NULL;

    crew_open(f, &crew, 1, &options);
    crew_wait_ready(&crew);
    assert_int_equal(evzmq_pool_send_parts(crew.pool, 0, parts, 3), 0);
    run_until(f, crew.answers == 1);
    assert_string_equal(crew.answer, "one||three");
    assert_int_equal(evzmq_pool_send(crew.pool, 0, NULL, 0), 0);
    run_until(f, crew.answers == 2);
    assert_string_equal(crew.answer, "");
    message = evzmq_message_new();
    assert_non_null(message);
    for (int i = 0; i < 12; i++) {
        assert_ok(evzmq_message_add(message, &"abcdefghijkl"[i], 1));
    }
    assert_int_equal(evzmq_pool_send_message(crew.pool, 0, message), 0);
    run_until(f, crew.answers == 3);
    assert_string_equal(crew.answer, "a|b|c|d|e|f|g|h|i|j|k|l");
    crew_send(&crew, 0, "parts");
    run_until(f, crew.answers == 4);
    assert_string_equal(crew.answer, "a|b");
    crew_close(&crew);
}

static void a_refused_message_stays_the_callers_unchanged(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("asleep");
    struct crew crew = {0};
    struct evzmq_message *message = NULL;

    options.output_messages = 1;
    crew_open(f, &crew, 1, &options);
    crew_send(&crew, 0, "fills the queue");
    message = evzmq_message_new();
    assert_ok(evzmq_message_add(message, "a", 1));
    assert_ok(evzmq_message_add(message, "bc", 2));
    assert_errno(evzmq_pool_send_message(crew.pool, 0, message), EAGAIN);
    assert_int_equal(evzmq_message_get_part_count(message), 2);
    assert_part(message, 0, "a", 1);
    assert_part(message, 1, "bc", 2);
    evzmq_message_free(message);
    crew_close(&crew);
}

static void values_go_through_the_codec_in_both_directions(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct evzmq_message *message = NULL;
    struct crew crew = {0};
    unsigned worker = 99;
    msgpack_object number = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER};

    assert_non_null(codec);
    number.via.u64 = 4711;
    options.codec = codec;
    crew_open(f, &crew, 1, &options);
    evzmq_codec_free(codec);
    assert_ok(evzmq_pool_disable(crew.pool));
    crew_wait_ready(&crew);
    assert_int_equal(evzmq_pool_send_value(crew.pool, 0, &number), 0);
    assert_ok(evzmq_pool_recv(crew.pool, NULL, &worker, &message));
    assert_int_equal(worker, 0);
    assert_non_null(evzmq_msgpack_value(message));
    assert_int_equal(evzmq_msgpack_value(message)->via.u64, 4711);
    evzmq_message_free(message);
    /* What cannot be decoded is an event with its worker, and an answer all the same. */
    assert_ok(evzmq_pool_enable(crew.pool));
    assert_int_equal(evzmq_pool_send(crew.pool, 0, "\xc1", 1), 0);
    run_until(f, crew.events[EVZMQ_POOL_EVENT_BAD_ANSWER] == 1);
    assert_int_equal(crew.last.worker, 0);
    assert_int_equal(crew.last.error, EBADMSG);
    assert_int_equal(crew_worker_stats(&crew, 0).unanswered, 0);
    crew_close(&crew);
}

static void answers_can_be_received_without_callbacks(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    const struct timeval soon = {0, 10000};
    struct evzmq_message *messages[10] = {NULL};
    unsigned workers[10];
    struct crew crew = {0};
    int count = 0;

    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    assert_errno(evzmq_pool_try_recv(crew.pool, NULL, &messages[0]), EBUSY);
    assert_ok(evzmq_pool_disable(crew.pool));
    assert_errno(evzmq_pool_try_recv(crew.pool, NULL, &messages[0]), EAGAIN);
    assert_errno(evzmq_pool_recv(crew.pool, &soon, NULL, &messages[0]), ETIMEDOUT);
    crew_send(&crew, 1, "first");
    f->dispatching = 1; /* recv runs the loop. */
    assert_ok(evzmq_pool_recv(crew.pool, NULL, &workers[0], &messages[0]));
    f->dispatching = 0;
    assert_int_equal(workers[0], 1);
    assert_part(messages[0], 1, "first", 5);
    evzmq_message_free(messages[0]);
    for (unsigned i = 0; i < 10; i++) {
        crew_send(&crew, i % 2, "x");
    }
    while (count < 10) {
        const int got = evzmq_pool_recv_many(crew.pool, workers, messages, 10 - count);

        assert_return_code(got, errno);
        for (int i = 0; i < got; i++) {
            assert_true(workers[i] < 2);
            evzmq_message_free(messages[i]);
        }
        count += got;
        fixture_run_for(f, 1);
    }
    assert_int_equal(crew.answers, 0);
    assert_int_equal(crew_stats(&crew).answered, 11);
    crew_close(&crew);
}

static void an_answer_of_several_messages_counts_as_one(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    crew_open(f, &crew, 1, &options);
    crew_wait_ready(&crew);
    crew_send(&crew, 0, "twice");
    crew_send(&crew, 0, "twice");
    run_until(f, crew.answers == 4);
    assert_int_equal(crew_worker_stats(&crew, 0).answers, 4);
    assert_int_equal(crew_worker_stats(&crew, 0).answered, 2);
    assert_int_equal(crew_worker_stats(&crew, 0).unanswered, 0);
    crew_close(&crew);
}

static void
a_worker_gets_no_more_than_its_credit_and_writable_tells_when_it_takes_more(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    options.unanswered_max = 2;
    crew_open(f, &crew, 1, &options);
    crew_wait_ready(&crew);
    crew_send(&crew, 0, "mute");
    crew_send(&crew, 0, "x");
    assert_errno(evzmq_pool_send(crew.pool, EVZMQ_POOL_NEXT, "y", 1), EAGAIN);
    run_until(f, crew.events[EVZMQ_POOL_EVENT_WRITABLE] == 1);
    assert_int_equal(crew.last.worker, 0);
    crew_send(&crew, EVZMQ_POOL_NEXT, "z");
    run_until(f, crew.answers == 2);
    fixture_run_for(f, 20);
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_WRITABLE], 1);
    crew_close(&crew);
}

static void a_heartbeat_no_shorter_than_what_counts_as_silence_is_refused(void **state)
{
    struct fixture *const f = *state;
    const unsigned bad[][2] = {
        {50, 50}, {UINT_MAX, 1}, {EVZMQ_POOL_SILENCE_MS, 0}, {0, EVZMQ_POOL_HEARTBEAT_MS}};
    const unsigned good[][2] = {{49, 50}, {UINT_MAX, UINT_MAX}, {0, UINT_MAX}, {0, 0}};
    struct crew crew = {0};

    crew_open_context(f, &crew);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct evzmq_pool_options options = {
            .size = sizeof options, .heartbeat_ms = bad[i][0], .silence_ms = bad[i][1]};
        errno = 0;
        assert_null(evzmq_pool_new(f->base, crew.context, 1, &options));
        assert_int_equal(errno, EINVAL);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        const struct evzmq_pool_options options = {
            .size = sizeof options, .heartbeat_ms = good[i][0], .silence_ms = good[i][1]};
        struct evzmq_pool *const pool = evzmq_pool_new(f->base, crew.context, 1, &options);
        assert_non_null(pool);
        evzmq_pool_free(pool);
    }
    crew_close(&crew);
}

static void writable_is_told_whatever_the_low_watermark_of_the_request_socket(void **state)
{
    enum { LARGE = 200000, MANY = 10 };
    static char large[LARGE];
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = {
        .size = sizeof options, .ready_ms = 3600000, .request_hwm = 1, .output_messages = MANY};
    char endpoint[ENDPOINT_SIZE];
    struct crew crew = {0};
    void *const pull = peer_new(f, ZMQ_PULL);

    crew_open(f, &crew, 1, &options);
    struct evzmq_socket *const requests = evzmq_pool_get_request_socket(crew.pool, 0);
    assert_ok(evzmq_socket_set_output_watermark(requests, (MANY / 2) * LARGE, 0));
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(evzmq_pool_send(crew.pool, 0, large, LARGE), 0);
    }
    assert_errno(evzmq_pool_send(crew.pool, 0, large, LARGE), EAGAIN);
    crew_endpoint(&crew, 0, "requests", endpoint);
    peer_set_int(pull, ZMQ_RCVHWM, 1);
    peer_connect(pull, endpoint);
    for (int parts = 0; parts < 2 * MANY; parts++) { /* A header before each. */
        while (zmq_recv(pull, large, LARGE, ZMQ_DONTWAIT) < 0) {
            assert_int_equal(errno, EAGAIN);
            fixture_run_for(f, 1);
        }
    }
    run_until(f, crew.events[EVZMQ_POOL_EVENT_WRITABLE] == 1);
    assert_int_equal(evzmq_socket_get_queued(requests, NULL), 0);
    crew_close(&crew);
}

static void a_stopped_worker_takes_no_more_than_its_limits_and_others_flow(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};
    unsigned to_others = 0;

    options.unanswered_max = 8;
    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    crew_send(&crew, 0, "stop");
    while (to_others < 1000) {
        const int sent = evzmq_pool_send(crew.pool, EVZMQ_POOL_NEXT, "x", 1);

        if (sent < 0) {
            assert_int_equal(errno, EAGAIN);
            fixture_turn(f);
        } else {
            to_others += sent == 1;
        }
    }
    run_until(f, crew.answers_of[1] == 1000);
    assert_int_equal(crew_worker_stats(&crew, 0).sent, 8);
    crew_close(&crew);
}

static void bad_arguments_are_refused(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct evzmq_pool_stats stats = {.size = 0};
    struct crew crew = {0};
    const char *const missing[] = {"/nonexistent/worker", NULL};
    const char *const none[] = {NULL};

    crew_open_context(f, &crew);
    assert_null(evzmq_pool_new(NULL, crew.context, 1, &options));
    assert_null(evzmq_pool_new(f->base, NULL, 1, &options));
    assert_null(evzmq_pool_new(f->base, crew.context, 0, &options));
    assert_null(evzmq_pool_new(f->base, crew.context, EVZMQ_POOL_WORKERS_MAX + 1, &options));
    assert_int_equal(errno, EINVAL);
    options.size = 1;
    assert_null(evzmq_pool_new(f->base, crew.context, 1, &options));
    options.size = sizeof options;
    options.worker_argv = none;
    assert_null(evzmq_pool_new(f->base, crew.context, 1, &options));
    options.endpoint = "udp://127.0.0.1:1";
    options.worker_argv = NULL;
    assert_null(evzmq_pool_new(f->base, crew.context, 1, &options));
    assert_int_equal(errno, EINVAL);
    options.endpoint = NULL;
    options.worker_argv = missing;
    assert_null(evzmq_pool_new(f->base, crew.context, 3, &options));
    assert_int_equal(errno, ENOENT);
    crew_assert_no_child();
    options = crew_options("asleep");
    crew_open(f, &crew, 2, &options);
    assert_errno(evzmq_pool_send(crew.pool, 2, "x", 1), EINVAL);
    assert_errno(evzmq_pool_send(crew.pool, 0, NULL, 1), EINVAL);
    assert_errno(evzmq_pool_send_parts(crew.pool, 0, NULL, 1), EINVAL);
    assert_errno(evzmq_pool_send_message(crew.pool, 0, NULL), EINVAL);
    assert_errno(evzmq_pool_get_stats(crew.pool, &stats), EINVAL);
    assert_null(evzmq_pool_get_connection(crew.pool, 2));
    assert_null(evzmq_pool_get_request_socket(crew.pool, 2));
    assert_string_equal(evzmq_pool_loss_name(EVZMQ_POOL_LOSS_KILLED), "killed");
    assert_string_equal(evzmq_pool_loss_name((enum evzmq_pool_loss)77), "unknown");
    crew_close(&crew);
}

static void every_allocation_of_new_may_fail_and_nothing_is_left(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("asleep");
    struct crew crew = {0};
    struct evzmq_pool *pool = NULL;
    long failures = 0;

    crew_open_context(f, &crew);
    assert_non_null(evzmq_context_get_directory(crew.context));
    for (long n = 1; pool == NULL; n++) {
        const long live = allocations_live();

        allocations_fail_at(n);
        pool = evzmq_pool_new(f->base, crew.context, 2, &options);
        allocations_fail_at(0);
        if (pool == NULL) {
            assert_int_equal(errno, ENOMEM);
            assert_int_equal(allocations_live(), live);
            crew_assert_no_child();
            failures++;
        }
    }
    assert_true(failures > 10);
    evzmq_pool_free(pool);
    crew_close(&crew);
}

static void two_pools_work_side_by_side_on_one_context(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew first = {0};
    struct crew second = {.context = NULL};

    crew_open(f, &first, 2, &options);
    second.f = f;
    second.context = first.context;
    crew_open(f, &second, 2, &options);
    crew_wait_ready(&first);
    crew_wait_ready(&second);
    for (unsigned i = 0; i < 100; i++) {
        crew_send(&first, i % 2, "first");
        crew_send(&second, i % 2, "second");
    }
    run_until(f, first.answers == 100 && second.answers == 100);
    assert_string_equal(first.answer, "first");
    assert_string_equal(second.answer, "second");
    assert_errno(evzmq_context_close(first.context), EBUSY);
    evzmq_pool_free(second.pool);
    crew_close(&first);
}

static void free_in_the_answer_callback(struct crew *crew, unsigned worker,
                                        struct evzmq_message *message)
{
    (void)worker;
    (void)message;
    evzmq_pool_free(crew->pool);
    crew->pool = NULL;
}

static void a_pool_may_be_freed_in_its_answer_callback(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {.on_answer = free_in_the_answer_callback};

    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    for (int i = 0; i < 10; i++) {
        crew_send(&crew, 0, "x");
    }
    run_until(f, crew.answers == 1);
    assert_null(crew.pool);
    crew_close(&crew);
    assert_int_equal(crew.answers, 1);
}

static void free_in_the_event_callback(struct crew *crew, const struct evzmq_pool_event *event)
{
    (void)event;
    evzmq_pool_free(crew->pool);
    crew->pool = NULL;
}

static void a_pool_may_be_freed_in_its_event_callback(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {.on_event = free_in_the_event_callback};

    crew_open(f, &crew, 2, &options);
    run_until(f, crew.pool == NULL);
    crew_close(&crew);
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_READY], 1);
}

static void sixty_four_workers_work_on_one_pool(void **state)
{
    enum { WORKERS = 64, REQUESTS = 640 };
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    options.ready_ms = 60000;
    crew_open(f, &crew, WORKERS, &options);
    crew_wait_ready(&crew);
    for (unsigned i = 0; i < REQUESTS; i++) {
        crew_send(&crew, EVZMQ_POOL_NEXT, "x");
    }
    run_until(f, crew.answers == REQUESTS);
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(crew.answers_of[i], REQUESTS / WORKERS);
    }
    crew_shutdown(&crew, 20000);
    assert_int_equal(crew.report.exited + crew.report.terminated, WORKERS);
    crew_close(&crew);
}

/* cmocka's assertions would go on with the parent's tests in a child. */
static int child_status(int (*function)(void *arg), void *arg)
{
    const pid_t child = child_fork();

    assert_true(child >= 0);
    if (child == 0) {
        _exit(function(arg));
    }
    const int status = child_wait(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int open_with_few_descriptors(void *arg)
{
    struct rlimit limit;
    struct event_base *base = NULL;
    struct evzmq_context *context = NULL;
    struct evzmq_pool *pool = NULL;
    int result = 1;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 2;
    }
    limit.rlim_cur = 64;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 2;
    }
    base = event_base_new();
    context = evzmq_context_new(1, P_tmpdir);
    pool = evzmq_pool_new(base, context, 64, arg);
    if (pool == NULL && errno == EMFILE && strstr(evzmq_context_get_error(context), "64") != NULL) {
        /* A smaller one fits. */
        pool = evzmq_pool_new(base, context, 2, arg);
        result = pool != NULL ? 0 : 3;
    }
    evzmq_pool_free(pool);
    if (evzmq_context_free(context) != 0) {
        return 4;
    }
    event_base_free(base);
    return result;
}

static void too_few_descriptors_are_a_clear_error_and_no_crash(void **state)
{
    struct evzmq_pool_options options = crew_options("echo");

    (void)state;
    assert_int_equal(child_status(open_with_few_descriptors, &options), 0);
}

static int refuse_in_child(void *arg)
{
    struct crew *const crew = arg;
    struct evzmq_message *message = NULL;
    const struct timeval now = {0, 0};
    const int descriptors = count_descriptors();
#if defined(__linux__)
    const int own = 3; /* those of two processes and of the directory */
#else
    const int own = 1;
#endif

    if (evzmq_pool_send(crew->pool, 0, "x", 1) != -1 || errno != ECHILD) {
        return 1;
    }
    if (evzmq_pool_try_recv(crew->pool, NULL, &message) != -1 || errno != ECHILD) {
        return 2;
    }
    if (evzmq_pool_shutdown(crew->pool, &now, NULL, NULL) != -1 || errno != ECHILD) {
        return 3;
    }
    (void)event_base_loop(crew->f->base, EVLOOP_NONBLOCK);
    evzmq_pool_free(crew->pool);
    if (evzmq_context_free(crew->context) != 0) {
        return 4;
    }
    if (event_reinit(crew->f->base) != 0 || evzmq_after_fork(crew->f->base) != 0) {
        return 5;
    }
    if (descriptors >= 0 && count_descriptors() != descriptors - own) {
        return 6;
    }
    event_base_free(crew->f->base);
    crew_leave_child();
    return 7;
}

static void in_a_forked_child_a_pool_is_refused_and_its_free_harms_nobody(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    for (size_t i = 1; i <= 3; i++) {
        assert_int_equal(child_status(refuse_in_child, &crew), 0);
        crew_send(&crew, 0, "x");
        crew_send(&crew, 1, "x");
        run_until(f, crew.answers == 2 * i);
    }
    assert_int_equal(crew.events[EVZMQ_POOL_EVENT_LOST], 0);
    crew_close(&crew);
}

int main(int argc, char **argv)
{
    crew_main(argc, argv);
    const struct CMUnitTest tests[] = {
        claim(a_request_to_a_worker_is_answered_by_that_worker),
        claim(requests_to_the_next_worker_go_round),
        claim(before_a_worker_is_up_its_requests_wait_and_the_next_is_nobody),
        claim(requests_and_answers_may_have_parts_and_may_be_empty),
        claim(a_refused_message_stays_the_callers_unchanged),
        claim(values_go_through_the_codec_in_both_directions),
        claim(answers_can_be_received_without_callbacks),
        claim(an_answer_of_several_messages_counts_as_one),
        claim(a_worker_gets_no_more_than_its_credit_and_writable_tells_when_it_takes_more),
        claim(a_heartbeat_no_shorter_than_what_counts_as_silence_is_refused),
        claim(writable_is_told_whatever_the_low_watermark_of_the_request_socket),
        claim(a_stopped_worker_takes_no_more_than_its_limits_and_others_flow),
        claim(bad_arguments_are_refused),
        claim(every_allocation_of_new_may_fail_and_nothing_is_left),
        claim(two_pools_work_side_by_side_on_one_context),
        claim(a_pool_may_be_freed_in_its_answer_callback),
        claim(a_pool_may_be_freed_in_its_event_callback),
        claim(sixty_four_workers_work_on_one_pool),
        claim(too_few_descriptors_are_a_clear_error_and_no_crash),
        claim(in_a_forked_child_a_pool_is_refused_and_its_free_harms_nobody),
    };

    return run_claims(tests);
}
