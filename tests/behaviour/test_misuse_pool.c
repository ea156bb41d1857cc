/**
 * @file test_misuse_pool.c
 * Pools and workers: wrong arguments, and calls in a forked child, from a wrong thread and after
 * the end.
 */
#include "support.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "child.h"
#include "misuse.h"

static const struct timeval negative = {-1, 0};
static const struct timeval second = {1, 0};
static const struct evzmq_bytes value = {"x", 1};
static const struct evzmq_bytes nowhere = {NULL, 1};
static const struct evzmq_bytes endless = {"x", SIZE_MAX};

static void ignore_ready(struct evzmq_pool *pool, unsigned ready, int error, void *arg)
{
    (void)pool;
    (void)ready;
    (void)error;
    (void)arg;
}

/* A pool in a context, a worker of it on the same base, and a message. */
struct subject {
    struct fixture *f;
    struct evzmq_context *context;
    struct evzmq_pool *pool;
    struct evzmq_worker *worker;
    struct evzmq_message *message;
};

static void subject_open(struct fixture *f, struct subject *s)
{
    s->f = f;
    s->context = evzmq_context_new_with(f->context, NULL);
    s->pool = evzmq_pool_new(f->base, s->context, 1, NULL);
    assert_non_null(s->pool);
    const struct evzmq_worker_options options = {.size = sizeof(options), .context = s->context};
    s->worker = evzmq_worker_new(f->base, evzmq_pool_get_connection(s->pool, 0), &options);
    assert_non_null(s->worker);
    s->message = evzmq_message_new();
    assert_ok(evzmq_message_add(s->message, "x", 1));
    fixture_glance(f);
    misuse_begin();
}

static void subject_close(struct subject *s)
{
    assert_int_equal(misuse_faults(), 0);
    evzmq_message_free(s->message);
    evzmq_worker_free(s->worker);
    evzmq_pool_free(s->pool);
    assert_ok(evzmq_context_free(s->context));
}

static void no_pool(const struct subject *s)
{
    struct evzmq_message *out = NULL;
    struct evzmq_pool_stats stats = {.size = sizeof(stats)};
    struct evzmq_pool_worker_stats worker_stats = {.size = sizeof(worker_stats)};
    no_object(EINVAL, evzmq_pool_new, NULL, s->context, 1, NULL);
    no_object(EINVAL, evzmq_pool_new, s->f->base, NULL, 1, NULL);
    no_object(EINVAL, evzmq_pool_new, s->f->base, s->context, 0, NULL);
    no_object(EINVAL, evzmq_pool_new, s->f->base, s->context, EVZMQ_POOL_WORKERS_MAX + 1, NULL);
    no_object(EINVAL, evzmq_pool_new, s->f->base, s->context, UINT_MAX, NULL);
    returns(evzmq_pool_free, NULL);
    returns(evzmq_pool_setcb, NULL, NULL, NULL, NULL);
    refused(EINVAL, evzmq_pool_enable, NULL);
    refused(EINVAL, evzmq_pool_disable, NULL);
    gives(0, evzmq_pool_get_workers, NULL);
    null(evzmq_pool_get_response_socket, NULL);
    no_object(EINVAL, evzmq_pool_get_request_socket, NULL, 0);
    no_object(EINVAL, evzmq_pool_get_connection, NULL, 0);
    refused(EINVAL, evzmq_pool_send, NULL, 0, "x", 1);
    refused(EINVAL, evzmq_pool_send_parts, NULL, 0, &value, 1);
    refused(EINVAL, evzmq_pool_send_message, NULL, 0, s->message);
    refused(EINVAL, evzmq_pool_send_value, NULL, 0, &value);
    refused(EINVAL, evzmq_pool_try_recv, NULL, NULL, &out);
    refused(EINVAL, evzmq_pool_recv_many, NULL, NULL, &out, 1);
    refused(EINVAL, evzmq_pool_recv, NULL, &second, NULL, &out);
    refused(EINVAL, evzmq_pool_check_ready, NULL, &second, ignore_ready, NULL);
    refused(EINVAL, evzmq_pool_shutdown, NULL, NULL, NULL, NULL);
    refused(EINVAL, evzmq_pool_get_stats, NULL, &stats);
    refused(EINVAL, evzmq_pool_get_worker_stats, NULL, 0, &worker_stats);
    no_object(0, evzmq_pool_loss_name, (enum evzmq_pool_loss) - 1);
    no_object(0, evzmq_pool_loss_name, (enum evzmq_pool_loss)INT_MAX);
}

static void wrong_pool_options(const struct subject *s)
{
    const char *const no_program[] = {NULL};
    const char *const nowhere_program[] = {"/nonexistent/program", NULL};
#define OPTION(error, field, number)                                                               \
    do {                                                                                           \
        const struct evzmq_pool_options wrong = {.size = sizeof(wrong), .field = number};          \
        no_object(error, evzmq_pool_new, s->f->base, s->context, 1, &wrong);                       \
    } while (0)
    const struct evzmq_pool_options sizeless = {.size = 0};
    const struct evzmq_pool_options large = {.size = SIZE_MAX};
    no_object(EINVAL, evzmq_pool_new, s->f->base, s->context, 1, &sizeless);
    no_object(EINVAL, evzmq_pool_new, s->f->base, s->context, 1, &large);
    OPTION(EINVAL, worker_argv, no_program);
    OPTION(ENOENT, worker_argv, nowhere_program);
    OPTION(EINVAL, request_hwm, UINT_MAX);
    OPTION(EINVAL, endpoint, "");
    OPTION(EINVAL, endpoint, "tcp");
    OPTION(EINVAL, endpoint, "tcp://");
    OPTION(EINVAL, endpoint, "tcp://127.0.0.1");
    OPTION(EINVAL, endpoint, "tcp://127.0.0.1:");
    OPTION(EINVAL, endpoint, "tcp://127.0.0.1:0");
    OPTION(EINVAL, endpoint, "tcp://127.0.0.1:-1");
    OPTION(EINVAL, endpoint, "tcp://127.0.0.1:65535"); /* there are others behind it */
    OPTION(EINVAL, endpoint, "tcp://127.0.0.1:99999999999999999999");
    OPTION(EINVAL, endpoint, "inproc://a");
}

static void wrong_pool_arguments(const struct subject *s)
{
    struct evzmq_pool *const pool = s->pool;
    struct evzmq_message *out = NULL;
    struct evzmq_message *const empty = evzmq_message_new();
    struct evzmq_pool_stats stats = {.size = 0};
    struct evzmq_pool_worker_stats worker_stats = {.size = 0};
    no_object(EINVAL, evzmq_pool_get_request_socket, pool, 1);
    no_object(EINVAL, evzmq_pool_get_request_socket, pool, UINT_MAX);
    no_object(EINVAL, evzmq_pool_get_connection, pool, 1);
    no_object(EINVAL, evzmq_pool_get_connection, pool, UINT_MAX);
    refused(EINVAL, evzmq_pool_send, pool, 1, "x", 1);
    refused(EINVAL, evzmq_pool_send, pool, 0, NULL, 1);
    refused(ENOMEM, evzmq_pool_send, pool, 0, "x", SIZE_MAX);
    refused(EINVAL, evzmq_pool_send_parts, pool, 1, &value, 1);
    refused(EINVAL, evzmq_pool_send_parts, pool, 0, NULL, 1);
    refused(EINVAL, evzmq_pool_send_parts, pool, 0, &value, 0);
    refused(ENOMEM, evzmq_pool_send_parts, pool, 0, &value, SIZE_MAX);
    refused(EINVAL, evzmq_pool_send_parts, pool, 0, &nowhere, 1);
    refused(ENOMEM, evzmq_pool_send_parts, pool, 0, &endless, 1);
    refused(EINVAL, evzmq_pool_send_message, pool, 1, s->message);
    refused(EINVAL, evzmq_pool_send_message, pool, 0, NULL);
    refused(EINVAL, evzmq_pool_send_message, pool, 0, empty);
    refused(EINVAL, evzmq_pool_send_value, pool, 1, &value);
    refused(EINVAL, evzmq_pool_send_value, pool, 0, NULL);
    refused(EINVAL, evzmq_pool_send_value, pool, 0, &nowhere);
    refused(EINVAL, evzmq_pool_try_recv, pool, NULL, NULL);
    refused(EINVAL, evzmq_pool_recv_many, pool, NULL, NULL, 1);
    refused(EINVAL, evzmq_pool_recv_many, pool, NULL, &out, -1);
    gives(0, evzmq_pool_recv_many, pool, NULL, &out, 0);
    refused(EINVAL, evzmq_pool_recv, pool, &second, NULL, NULL);
    refused(EINVAL, evzmq_pool_recv, pool, &negative, NULL, &out);
    refused(EINVAL, evzmq_pool_check_ready, pool, &second, NULL, NULL);
    refused(EINVAL, evzmq_pool_check_ready, pool, &negative, ignore_ready, NULL);
    refused(EINVAL, evzmq_pool_shutdown, pool, &negative, NULL, NULL);
    refused(EINVAL, evzmq_pool_get_stats, pool, NULL);
    refused(EINVAL, evzmq_pool_get_stats, pool, &stats);
    refused(EINVAL, evzmq_pool_get_worker_stats, pool, 0, NULL);
    refused(EINVAL, evzmq_pool_get_worker_stats, pool, 0, &worker_stats);
    worker_stats.size = SIZE_MAX;
    refused(EINVAL, evzmq_pool_get_worker_stats, pool, 1, &worker_stats);
    refused(0, evzmq_pool_get_worker_stats, pool, 0, &worker_stats);
    stats.size = SIZE_MAX;
    refused(0, evzmq_pool_get_stats, pool, &stats);
    evzmq_message_free(empty);
}

static void no_worker(const struct subject *s)
{
    const struct evzmq_worker_options sizeless = {.size = 0};
    const struct evzmq_worker_options large = {.size = SIZE_MAX};
    const char *const connection = evzmq_pool_get_connection(s->pool, 0);
    char cut[256];
    no_object(EINVAL, evzmq_worker_new, NULL, connection, NULL);
    no_object(EINVAL, evzmq_worker_new, s->f->base, NULL, NULL);
    no_object(EINVAL, evzmq_worker_new, s->f->base, "", NULL);
    no_object(EINVAL, evzmq_worker_new, s->f->base, "%s%n", NULL);
    no_object(EPROTO, evzmq_worker_new, s->f->base, "evzmq-pool/2,worker=0", NULL);
    no_object(EINVAL, evzmq_worker_new, s->f->base, connection, &sizeless);
    no_object(EINVAL, evzmq_worker_new, s->f->base, connection, &large);
    for (size_t size = 0; size < 60; size++) {
        (void)snprintf(cut, sizeof(cut), "%.*s", (int)size, connection);
        no_object(size < 11 ? EINVAL : ANYTHING, evzmq_worker_new, s->f->base, cut, NULL);
    }
    returns(evzmq_worker_free, NULL);
    returns(evzmq_worker_setcb, NULL, NULL, NULL, NULL);
    gives(0, evzmq_worker_get_identity, NULL);
    null(evzmq_worker_get_request_socket, NULL);
    null(evzmq_worker_get_response_socket, NULL);
    refused(EINVAL, evzmq_worker_answer, NULL, "x", 1, 0);
    refused(EINVAL, evzmq_worker_answer_parts, NULL, &value, 1, 0);
    refused(EINVAL, evzmq_worker_answer_message, NULL, s->message, 0);
    refused(EINVAL, evzmq_worker_answer_value, NULL, &value, 0);
    returns(evzmq_worker_hold, NULL);
    refused(EINVAL, evzmq_worker_shutdown, NULL);
}

static void wrong_worker_arguments(const struct subject *s)
{
    struct evzmq_worker *const worker = s->worker;
    struct evzmq_message *const empty = evzmq_message_new();
    refused(EINVAL, evzmq_worker_answer, worker, NULL, 1, 0);
    refused(EINVAL, evzmq_worker_answer, worker, "x", 1, UINT_MAX);
    refused(ENOMEM, evzmq_worker_answer, worker, "x", SIZE_MAX, 0);
    refused(EINVAL, evzmq_worker_answer_parts, worker, NULL, 1, 0);
    refused(EINVAL, evzmq_worker_answer_parts, worker, &value, 0, 0);
    refused(EINVAL, evzmq_worker_answer_parts, worker, &value, 1, UINT_MAX);
    refused(ENOMEM, evzmq_worker_answer_parts, worker, &value, SIZE_MAX, 0);
    refused(EINVAL, evzmq_worker_answer_parts, worker, &nowhere, 1, 0);
    refused(EINVAL, evzmq_worker_answer_message, worker, NULL, 0);
    refused(EINVAL, evzmq_worker_answer_message, worker, empty, 0);
    refused(EINVAL, evzmq_worker_answer_message, worker, s->message, UINT_MAX);
    refused(EINVAL, evzmq_worker_answer_value, worker, NULL, 0);
    refused(EINVAL, evzmq_worker_answer_value, worker, &nowhere, 0);
    refused(EINVAL, evzmq_worker_answer_value, worker, &value, UINT_MAX);
    returns(evzmq_worker_hold, worker); /* elsewhere than it may */
    evzmq_message_free(empty);
}

static void wrong_arguments_are_errors(void **state)
{
    struct subject s = {0};
    subject_open(*state, &s);
    no_pool(&s);
    wrong_pool_options(&s);
    wrong_pool_arguments(&s);
    no_worker(&s);
    wrong_worker_arguments(&s);
    misuse_complete((const char *const[]){"pool.h", "worker.h", NULL});
    subject_close(&s);
}

static void make_calls(const struct subject *s, enum misuse_when when)
{
    struct evzmq_message *out = NULL;
    refused_when(0, evzmq_pool_enable, s->pool);
    refused_when(0, evzmq_pool_disable, s->pool);
    refused_when(ESHUTDOWN, evzmq_pool_send, s->pool, 0, "x", 1);
    refused_when(ESHUTDOWN, evzmq_pool_send, s->pool, EVZMQ_POOL_NEXT, "x", 1);
    refused_when(ESHUTDOWN, evzmq_pool_send_parts, s->pool, 0, &value, 1);
    refused_when(ESHUTDOWN, evzmq_pool_send_message, s->pool, 0, s->message);
    refused_when(ESHUTDOWN, evzmq_pool_send_value, s->pool, 0, &value);
    refused_when(EAGAIN, evzmq_pool_try_recv, s->pool, NULL, &out);
    refused_when(ESHUTDOWN, evzmq_pool_check_ready, s->pool, &second, ignore_ready, NULL);
    refused_when(0, evzmq_pool_shutdown, s->pool, NULL, NULL, NULL);
    refused_when(ESHUTDOWN, evzmq_worker_answer, s->worker, "x", 1, 0);
    refused_when(ESHUTDOWN, evzmq_worker_answer_parts, s->worker, &value, 1, 0);
    refused_when(ESHUTDOWN, evzmq_worker_answer_message, s->worker, s->message, 0);
    refused_when(ESHUTDOWN, evzmq_worker_answer_value, s->worker, &value, 0);
    refused_when(0, evzmq_worker_shutdown, s->worker);
}

static void wait_elsewhere(const struct subject *s, int error)
{
    struct evzmq_message *out = NULL;
    refused(error, evzmq_pool_recv, s->pool, &second, NULL, &out);
    refused(error, evzmq_pool_recv_many, s->pool, NULL, &out, 1);
}

static void child_of(void *arg)
{
    struct subject *const s = arg;
    make_calls(s, MISUSE_CHILD);
    wait_elsewhere(s, ECHILD);
    no_object(ECHILD, evzmq_pool_new, s->f->base, s->context, 1, NULL);
    child_check(misuse_faults() == 0);
    evzmq_worker_free(s->worker);
    evzmq_pool_free(s->pool);
}

static void every_call_in_a_forked_child_is_echild(void **state)
{
    struct subject s = {0};
    subject_open(*state, &s);
    child_run(child_of, &s);
    subject_close(&s);
}

static void *thread_of(void *arg)
{
    struct subject *const s = arg;
    make_calls(s, MISUSE_THREAD);
    wait_elsewhere(s, EPERM);
    refused_elsewhere(evzmq_pool_setcb, s->pool, NULL, NULL, NULL);
    refused_elsewhere(evzmq_worker_setcb, s->worker, NULL, NULL, NULL);
    no_object(EPERM, evzmq_pool_new, s->f->base, s->context, 1, NULL);
    no_object(EPERM, evzmq_worker_new, s->f->base, evzmq_pool_get_connection(s->pool, 0), NULL);
    refused_elsewhere(evzmq_worker_free, s->worker);
    refused_elsewhere(evzmq_pool_free, s->pool);
    return NULL;
}

static void every_call_of_another_thread_is_eperm(void **state)
{
    struct subject s = {0};
    pthread_t thread;
    subject_open(*state, &s);
    assert_int_equal(pthread_create(&thread, NULL, thread_of, &s), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    subject_close(&s);
}

static void after_a_shutdown_requests_and_answers_are_refused(void **state)
{
    struct subject s = {0};
    subject_open(*state, &s);
    const struct timeval soon = {0, 1};
    assert_ok(evzmq_pool_shutdown(s.pool, &soon, NULL, NULL));
    assert_ok(evzmq_worker_shutdown(s.worker));
    make_calls(&s, MISUSE_ENDED);
    fixture_run_for(s.f, 50);
    make_calls(&s, MISUSE_ENDED);
    null(evzmq_worker_get_request_socket, s.worker);
    null(evzmq_worker_get_response_socket, s.worker);
    subject_close(&s);
}

static void wait_in_callback(struct evzmq_pool *pool, unsigned ready, int error, void *arg)
{
    struct evzmq_message *out = NULL;
    (void)ready;
    (void)error;
    refused(EDEADLK, evzmq_pool_recv, pool, NULL, NULL, &out);
    *(bool *)arg = true;
}

static void callbacks_of_a_pool_cannot_wait(void **state)
{
    struct subject s = {0};
    bool called = false;
    const struct timeval soon = {0, 1};
    subject_open(*state, &s);
    assert_ok(evzmq_pool_check_ready(s.pool, &soon, wait_in_callback, &called));
    run_until(s.f, called);
    subject_close(&s);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(wrong_arguments_are_errors),
        claim(every_call_in_a_forked_child_is_echild),
        claim(every_call_of_another_thread_is_eperm),
        claim(after_a_shutdown_requests_and_answers_are_refused),
        claim(callbacks_of_a_pool_cannot_wait),
    };

    evzmq_enable_debug_mode();
    return run_claims(tests);
}
