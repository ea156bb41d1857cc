/**
 * @file test_misuse_contexts.c
 * Contexts, monitors and posters: wrong arguments, and calls in a forked child, from a wrong thread
 * and after the end.
 */
#include "support.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "child.h"
#include "misuse.h"

static const struct evzmq_bytes value = {"x", 1};
static const struct evzmq_bytes nowhere = {NULL, 1};
static const struct evzmq_bytes endless = {"x", SIZE_MAX};

static void no_context(struct fixture *f, void *zmq_socket)
{
    static char no_zmq_context[4096];
    no_object(EINVAL, evzmq_context_new, -1, NULL);
    no_object(EINVAL, evzmq_context_new, INT_MIN, NULL);
    no_object(EINVAL, evzmq_context_new, 0, "");
    no_object(EINVAL, evzmq_context_new_with, NULL, NULL);
    no_object(EINVAL, evzmq_context_new_with, f->context, "");
    no_object(EINVAL, evzmq_context_new_with, no_zmq_context, NULL);
    refused(EINVAL, evzmq_context_set_limits, NULL, NULL);
    no_object(EINVAL, evzmq_context_socket, NULL, ZMQ_PULL);
    refused(EINVAL, evzmq_context_close_socket, NULL, zmq_socket);
    refused(EINVAL, evzmq_context_bind, NULL, zmq_socket, "inproc://a");
    refused(EINVAL, evzmq_context_connect, NULL, zmq_socket, "inproc://a");
    no_object(EINVAL, evzmq_context_get_endpoint, NULL, zmq_socket);
    no_object(EINVAL, evzmq_context_get_directory, NULL);
    refused(EINVAL, evzmq_context_check_descriptors, NULL, 1);
    gives(0, strlen, evzmq_context_get_error(NULL));
    misuse_note("evzmq_context_get_error");
    refused(EINVAL, evzmq_context_close, NULL);
    refused(0, evzmq_context_free, NULL);
}

static void wrong_limits(struct evzmq_context *context)
{
#define LIMIT(field, number)                                                                       \
    do {                                                                                           \
        const struct evzmq_context_limits wrong = {.size = sizeof(wrong), .field = number};        \
        refused(EINVAL, evzmq_context_set_limits, context, &wrong);                                \
    } while (0)
    const struct evzmq_context_limits sizeless = {.size = 0};
    const struct evzmq_context_limits large = {.size = SIZE_MAX};
    refused(EINVAL, evzmq_context_set_limits, context, &sizeless);
    refused(EINVAL, evzmq_context_set_limits, context, &large);
    LIMIT(sockets_max, -1);
    LIMIT(sockets_max, INT_MIN);
    LIMIT(linger_ms, -2);
    LIMIT(message_bytes_max, INT64_MIN);
    LIMIT(send_high_water_mark, -2);
    LIMIT(receive_high_water_mark, INT_MIN);
    LIMIT(handshake_ms, -2);
    LIMIT(heartbeat_ms, -2);
    LIMIT(heartbeat_ms, INT_MAX);
    LIMIT(heartbeat_timeout_ms, -1);
    LIMIT(heartbeat_timeout_ms, INT_MAX);
    LIMIT(backlog, -1);
    LIMIT(peers, (enum evzmq_context_peers)99);
    refused(0, evzmq_context_set_limits, context, NULL);
}

static void wrong_endpoints(struct evzmq_context *context, void *zmq_socket, void *foreign)
{
    char path[400] = "ipc:///";
    memset(path + 7, 'x', sizeof(path) - 8);
    path[sizeof(path) - 1] = '\0';
    no_object(EINVAL, evzmq_context_socket, context, -1);
    no_object(EINVAL, evzmq_context_socket, context, INT_MAX);
    refused(EINVAL, evzmq_context_close_socket, context, NULL);
    refused(EINVAL, evzmq_context_close_socket, context, foreign);
    refused(EINVAL, evzmq_context_bind, context, NULL, "inproc://a");
    refused(EINVAL, evzmq_context_bind, context, foreign, "inproc://a");
    refused(EINVAL, evzmq_context_bind, context, zmq_socket, NULL);
    refused(EINVAL, evzmq_context_bind, context, zmq_socket, "");
    refused(EINVAL, evzmq_context_bind, context, zmq_socket, "nonsense");
    refused(EINVAL, evzmq_context_bind, context, zmq_socket, "ipc://");
    refused(ENAMETOOLONG, evzmq_context_bind, context, zmq_socket, path);
    refused(EPROTONOSUPPORT, evzmq_context_bind, context, zmq_socket, "nonsense://a");
    refused(EINVAL, evzmq_context_connect, context, NULL, "inproc://a");
    refused(EINVAL, evzmq_context_connect, context, foreign, "inproc://a");
    refused(EINVAL, evzmq_context_connect, context, zmq_socket, NULL);
    refused(EINVAL, evzmq_context_connect, context, zmq_socket, "");
    refused(ENAMETOOLONG, evzmq_context_connect, context, zmq_socket, path);
    refused(EPROTONOSUPPORT, evzmq_context_connect, context, zmq_socket, "nonsense://a");
    no_object(EINVAL, evzmq_context_get_endpoint, context, NULL);
    no_object(EINVAL, evzmq_context_get_endpoint, context, foreign);
    no_object(ENOENT, evzmq_context_get_endpoint, context, zmq_socket);
    refused(EMFILE, evzmq_context_check_descriptors, context, SIZE_MAX);
}

static void wrong_arguments_of_contexts_are_errors(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_context *const context = evzmq_context_new_with(f->context, NULL);
    void *const zmq_socket = evzmq_context_socket(context, ZMQ_PULL);
    assert_non_null(zmq_socket);
    misuse_begin();
    no_context(f, zmq_socket);
    wrong_limits(context);
    wrong_endpoints(context, zmq_socket, peer_new(f, ZMQ_PULL));
    refused(EBUSY, evzmq_context_close, context);
    refused(EBUSY, evzmq_context_free, context);
    assert_int_equal(misuse_faults(), 0);
    misuse_complete((const char *const[]){"context.h", NULL});
    assert_ok(evzmq_context_close_socket(context, zmq_socket));
    assert_ok(evzmq_context_free(context));
}

/* What an endpoint is called stands in texts as it is. */
static void endpoints_are_never_formats(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_context *const context = evzmq_context_new_with(f->context, NULL);
    void *const zmq_socket = evzmq_context_socket(context, ZMQ_PULL);
    const char *const endpoints[] = {"%s%n%s://%d", "ipc:///%n%n%s/%s", "tcp://%s:%n"};
    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++) {
        assert_int_equal(evzmq_context_bind(context, zmq_socket, endpoints[i]), -1);
        assert_non_null(strstr(evzmq_context_get_error(context), "%n"));
    }
    assert_ok(evzmq_context_close_socket(context, zmq_socket));
    assert_ok(evzmq_context_free(context));
}

/* A context's calls with good arguments. */
struct contexts {
    struct evzmq_context *context;
    void *zmq_socket;
};

static void make_context_calls(const struct contexts *c, int error)
{
    refused(error, evzmq_context_set_limits, c->context, NULL);
    no_object(error, evzmq_context_socket, c->context, ZMQ_PULL);
    refused(error, evzmq_context_close_socket, c->context, c->zmq_socket);
    refused(error, evzmq_context_bind, c->context, c->zmq_socket, "ipc://*");
    refused(error, evzmq_context_connect, c->context, c->zmq_socket, "inproc://a");
    no_object(error, evzmq_context_get_directory, c->context);
    refused(error, evzmq_context_check_descriptors, c->context, 1);
}

static void context_child(void *arg)
{
    const struct contexts *const c = arg;
    make_context_calls(c, ECHILD);
    no_object(ECHILD, evzmq_context_get_endpoint, c->context, c->zmq_socket);
    refused(ECHILD, evzmq_context_close, c->context);
    no_object(0, evzmq_context_get_error, c->context);
    child_check(misuse_faults() == 0);
    child_check(evzmq_context_free(c->context) == 0);
}

static void calls_on_contexts_of_the_parent_and_closed_ones_are_errors(void **state)
{
    struct fixture *const f = *state;
    struct contexts c = {.context = evzmq_context_new_with(f->context, NULL)};
    c.zmq_socket = evzmq_context_socket(c.context, ZMQ_PULL);
    assert_ok(evzmq_context_bind(c.context, c.zmq_socket, "ipc://*"));
    misuse_begin();
    child_run(context_child, &c);
    assert_ok(evzmq_context_close_socket(c.context, c.zmq_socket));
    assert_ok(evzmq_context_close(c.context));
    make_context_calls(&c, ESHUTDOWN);
    refused(0, evzmq_context_close, c.context);
    no_object(EINVAL, evzmq_context_get_endpoint, c.context, c.zmq_socket);
    assert_int_equal(misuse_faults(), 0);
    assert_ok(evzmq_context_free(c.context));
}

/* Monitors and posters. */
static void ignore(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event,
                   void *arg)
{
    (void)monitor;
    (void)event;
    (void)arg;
}

static void no_monitor(struct fixture *f, void *zmq_socket)
{
    struct evzmq_monitor_stats stats = {.size = sizeof(stats)};
    struct evzmq_blocked blocked = {.size = sizeof(blocked)};
    no_object(EINVAL, evzmq_monitor_new, NULL, f->context, zmq_socket, 1, ignore, NULL);
    no_object(EINVAL, evzmq_monitor_new, f->base, NULL, zmq_socket, 1, ignore, NULL);
    no_object(EINVAL, evzmq_monitor_new, f->base, f->context, NULL, 1, ignore, NULL);
    no_object(EINVAL, evzmq_monitor_new, f->base, f->context, zmq_socket, 0, ignore, NULL);
    no_object(EINVAL, evzmq_monitor_new, f->base, f->context, zmq_socket, UINT_MAX, ignore, NULL);
    no_object(EINVAL, evzmq_monitor_new, f->base, f->context, zmq_socket, 1, NULL, NULL);
    refused(EINVAL, evzmq_monitor_stop, NULL);
    returns(evzmq_monitor_free, NULL);
    refused(EINVAL, evzmq_monitor_disable, NULL);
    refused(EINVAL, evzmq_monitor_enable, NULL);
    refused(EINVAL, evzmq_monitor_set_limit, NULL, 1);
    refused(EINVAL, evzmq_monitor_get_stats, NULL, &stats);
    refused(EINVAL, evzmq_monitor_get_blocked, NULL, &blocked);
    no_object(0, evzmq_monitor_event_name, (enum evzmq_monitor_event_type) - 1);
    no_object(0, evzmq_monitor_event_name, (enum evzmq_monitor_event_type)0);
    no_object(0, evzmq_monitor_event_name, (enum evzmq_monitor_event_type)INT_MIN);
    no_object(0, evzmq_monitor_reason_name, UINT_MAX);
}

static void wrong_monitor_calls(struct evzmq_monitor *monitor)
{
    struct evzmq_monitor_stats stats = {.size = 0};
    struct evzmq_blocked blocked = {.size = 0};
    refused(EINVAL, evzmq_monitor_get_stats, monitor, NULL);
    refused(EINVAL, evzmq_monitor_get_stats, monitor, &stats);
    refused(EINVAL, evzmq_monitor_get_blocked, monitor, NULL);
    refused(EINVAL, evzmq_monitor_get_blocked, monitor, &blocked);
    stats.size = SIZE_MAX;
    refused(0, evzmq_monitor_get_stats, monitor, &stats);
    blocked.size = SIZE_MAX;
    refused(0, evzmq_monitor_get_blocked, monitor, &blocked);
    refused(0, evzmq_monitor_set_limit, monitor, SIZE_MAX);
    refused(0, evzmq_monitor_set_limit, monitor, 0);
}

static void make_monitor_calls(struct evzmq_monitor *monitor, enum misuse_when when)
{
    refused_when(0, evzmq_monitor_disable, monitor);
    refused_when(0, evzmq_monitor_enable, monitor);
    refused_when(0, evzmq_monitor_set_limit, monitor, 1);
    refused_when(0, evzmq_monitor_stop, monitor);
}

static void monitor_child(void *arg)
{
    make_monitor_calls(arg, MISUSE_CHILD);
    child_check(misuse_faults() == 0);
    evzmq_monitor_free(arg);
}

static void *monitor_thread(void *arg)
{
    make_monitor_calls(arg, MISUSE_THREAD);
    errno = 0;
    evzmq_monitor_free(arg);
    gives(EPERM, (int), errno);
    return NULL;
}

static void wrong_calls_on_monitors_are_errors(void **state)
{
    struct fixture *const f = *state;
    void *const zmq_socket = peer_new(f, ZMQ_PULL);
    pthread_t thread;
    misuse_begin();
    no_monitor(f, zmq_socket);
    struct evzmq_monitor *const monitor =
        evzmq_monitor_new(f->base, f->context, zmq_socket, EVZMQ_MONITOR_ALL, ignore, NULL);
    assert_non_null(monitor);
    wrong_monitor_calls(monitor);
    fixture_glance(f);
    child_run(monitor_child, monitor);
    assert_int_equal(pthread_create(&thread, NULL, monitor_thread, monitor), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(evzmq_monitor_stop(monitor));
    make_monitor_calls(monitor, MISUSE_ENDED);
    assert_int_equal(misuse_faults(), 0);
    misuse_complete((const char *const[]){"monitor.h", NULL});
    evzmq_monitor_free(monitor);
}

static void wrong_poster_calls(struct evzmq_poster *poster, struct evzmq_message *empty)
{
    struct evzmq_poster_stats stats = {.size = sizeof(stats)};
    no_object(EINVAL, evzmq_poster_new, NULL, 0, 0);
    null(evzmq_poster_ref, NULL);
    returns(evzmq_poster_free, NULL);
    refused(EINVAL, evzmq_poster_post, NULL, "x", 1);
    refused(EINVAL, evzmq_poster_post, poster, NULL, 1);
    refused(ENOMEM, evzmq_poster_post, poster, "x", SIZE_MAX);
    refused(EINVAL, evzmq_poster_post_parts, NULL, &value, 1);
    refused(EINVAL, evzmq_poster_post_parts, poster, NULL, 1);
    refused(EINVAL, evzmq_poster_post_parts, poster, &value, 0);
    refused(ENOMEM, evzmq_poster_post_parts, poster, &value, SIZE_MAX);
    refused(EINVAL, evzmq_poster_post_parts, poster, &nowhere, 1);
    refused(ENOMEM, evzmq_poster_post_parts, poster, &endless, 1);
    refused(EINVAL, evzmq_poster_post_message, NULL, empty);
    refused(EINVAL, evzmq_poster_post_message, poster, NULL);
    refused(EINVAL, evzmq_poster_post_message, poster, empty);
    gives(0, evzmq_poster_get_queued, NULL, NULL);
    refused(EINVAL, evzmq_poster_get_stats, NULL, &stats);
    refused(EINVAL, evzmq_poster_get_stats, poster, NULL);
    stats.size = 0;
    refused(EINVAL, evzmq_poster_get_stats, poster, &stats);
    stats.size = SIZE_MAX;
    refused(0, evzmq_poster_get_stats, poster, &stats);
}

static void make_posts(struct evzmq_poster *poster, int error)
{
    struct evzmq_message *const message = evzmq_message_new();
    (void)evzmq_message_add(message, "x", 1);
    refused(error, evzmq_poster_post, poster, "x", 1);
    refused(error, evzmq_poster_post_parts, poster, &value, 1);
    refused(error, evzmq_poster_post_message, poster, message);
    if (error != 0) {
        evzmq_message_free(message);
    }
}

static void poster_child(void *arg)
{
    struct evzmq_poster_stats stats = {.size = sizeof(stats)};
    make_posts(arg, ECHILD);
    refused(ECHILD, evzmq_poster_get_stats, arg, &stats);
    child_check(misuse_faults() == 0);
    evzmq_poster_free(arg);
}

static void *poster_thread(void *arg)
{
    make_posts(arg, 0); /* any thread may */
    return NULL;
}

static void wrong_calls_on_posters_are_errors(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;
    void *pull = NULL;
    pthread_t thread;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PUSH, &push, ZMQ_PULL, &pull);
    probe_attach(f, &p, push, 0);
    struct evzmq_poster *const poster = evzmq_poster_new(p.socket, 0, 0);
    struct evzmq_message *const empty = evzmq_message_new();
    assert_non_null(poster);
    misuse_begin();
    wrong_poster_calls(poster, empty);
    fixture_glance(f);
    child_run(poster_child, poster);
    assert_int_equal(pthread_create(&thread, NULL, poster_thread, poster), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fixture_glance(f);
    probe_free(&p);
    make_posts(poster, ESHUTDOWN);
    assert_int_equal(misuse_faults(), 0);
    misuse_complete((const char *const[]){"poster.h", NULL});
    evzmq_message_free(empty);
    evzmq_poster_free(poster);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(wrong_arguments_of_contexts_are_errors),
        claim(endpoints_are_never_formats),
        claim(calls_on_contexts_of_the_parent_and_closed_ones_are_errors),
        claim(wrong_calls_on_monitors_are_errors),
        claim(wrong_calls_on_posters_are_errors),
    };

    evzmq_enable_debug_mode();
    return run_claims(tests);
}
