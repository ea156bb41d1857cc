/*
 * test_faults_interrupted.c: calls that signals interrupt without end, or that fail for good. A
 * call of libzmq or of the system is made again, but not for ever, and nothing is half made.
 */
#include "support.h"

#include <evzmq/context.h>
#include <evzmq/monitor.h>

#include "faults.h"

enum { CALLS_MAX = 100 };

/* What is called, and with what. */
struct subject {
    struct fixture *f;
    struct evzmq_context *context;
    void *zmq_socket;
    struct evzmq_monitor *monitor;
};

static int bind_inproc(struct subject *s)
{
    return evzmq_context_bind(s->context, s->zmq_socket, "inproc://interrupted");
}

static int connect_inproc(struct subject *s)
{
    return evzmq_context_connect(s->context, s->zmq_socket, "inproc://interrupted");
}

static void ignore(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event,
                   void *arg)
{
    (void)monitor;
    (void)event;
    (void)arg;
}

static int start_monitor(struct subject *s)
{
    s->monitor =
        evzmq_monitor_new(s->f->base, s->f->context, s->zmq_socket, EVZMQ_MONITOR_ALL, ignore, s);
    return s->monitor != NULL ? 0 : -1;
}

/* From its n-th call on, whatever is called is interrupted; for each n. */
static void check(struct subject *s, int (*act)(struct subject *s))
{
    int result = -1;
    for (size_t n = 1; result < 0; n++) {
        assert_true(n < CALLS_MAX);
        faults_begin(FAULTS_ANY_SOCKET);
        faults_plan(FAULT_CALL | FAULT_GET, n, FOR_EVER, EINTR);
        errno = 0;
        result = act(s);
        const int error = errno;
        faults_end();
        if (result < 0) {
            assert_int_equal(error, EINTR);
        }
        assert_true(n > 1 || result < 0); /* There is such a call. */
    }
}

static void check_endpoint(struct fixture *f, int (*act)(struct subject *s))
{
    struct subject s = {.f = f, .context = evzmq_context_new(1, NULL)};
    assert_non_null(s.context);
    s.zmq_socket = evzmq_context_socket(s.context, ZMQ_PULL);
    check(&s, act);
    assert_ok(evzmq_context_close_socket(s.context, s.zmq_socket));
    assert_ok(evzmq_context_free(s.context));
}

static void a_bind_that_is_always_interrupted_ends_with_eintr(void **state)
{
    check_endpoint(*state, bind_inproc);
}

static void a_connect_that_is_always_interrupted_ends_with_eintr(void **state)
{
    check_endpoint(*state, connect_inproc);
}

static void a_monitor_that_is_always_interrupted_is_not_made(void **state)
{
    struct fixture *const f = *state;
    struct subject s = {.f = f, .zmq_socket = peer_new(f, ZMQ_PULL)};
    check(&s, start_monitor);
    evzmq_monitor_free(s.monitor);
}

static void a_socket_of_which_any_option_fails_is_not_made(void **state)
{
    struct evzmq_context *const context = evzmq_context_new(1, NULL);
    const struct evzmq_context_limits limits = {.size = sizeof limits, .heartbeat_ms = 1000};
    void *zmq_socket = NULL;
    size_t n = 0;
    (void)state;
    assert_non_null(context);
    assert_ok(evzmq_context_set_limits(context, &limits));
    for (bool reached = true; reached;) {
        assert_true(++n < CALLS_MAX);
        faults_begin(FAULTS_ANY_SOCKET);
        faults_plan(FAULT_SET, n, 1, ETERM);
        errno = 0;
        zmq_socket = evzmq_context_socket(context, ZMQ_ROUTER);
        const int error = errno;
        faults_end();
        reached = faults_made(FAULT_SET) > 0;
        if (reached) {
            assert_null(zmq_socket);
            assert_int_equal(error, ETERM);
        }
    }
    assert_true(n > 10); /* So many options there are. */
    assert_ok(evzmq_context_close_socket(context, zmq_socket));
    assert_ok(evzmq_context_free(context));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_bind_that_is_always_interrupted_ends_with_eintr),
        claim(a_connect_that_is_always_interrupted_ends_with_eintr),
        claim(a_monitor_that_is_always_interrupted_is_not_made),
        claim(a_socket_of_which_any_option_fails_is_not_made),
    };
    return run_claims(tests);
}
