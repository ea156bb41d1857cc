/**
 * @file test_threads.c
 * The debug mode: calls from a thread that does not run the base are refused and do nothing.
 */
#include "support.h"

#include <pthread.h>

#include "evzmq/context.h"
#include "evzmq/monitor.h"
#include "evzmq/pool.h"
#include "evzmq/pubsub.h"
#include "evzmq/request.h"

struct subject {
    struct fixture *f;
    struct evzmq_socket *socket;
    struct evzmq_monitor *monitor;
    struct evzmq_pool *pool;
    struct evzmq_publisher *publisher;
    struct evzmq_subscriber *subscriber;
    struct evzmq_requester *requester;
    unsigned answered; /* calls with another result than EPERM */
};

static void ignore_event(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event,
                         void *arg)
{
    (void)monitor;
    (void)event;
    (void)arg;
}

static void ignore_reply(struct evzmq_requester *requester, int64_t request, int error,
                         struct evzmq_message *reply, void *arg)
{
    (void)requester;
    (void)request;
    (void)error;
    (void)reply;
    (void)arg;
}

/* cmocka may only be asked in the thread of the test, so that wrong results are counted here. */
static void note(struct subject *s, int result)
{
    if (result != -1 || errno != EPERM) {
        s->answered++;
    }
    errno = 0;
}

static void note_free(struct subject *s)
{
    note(s, -1);
}

static void *call_everything(void *arg)
{
    struct subject *const s = arg;
    struct evzmq_message *message = NULL;
    const struct timeval second = {1, 0};

    errno = 0;
    note(s, evzmq_socket_write(s->socket, "x", 1));
    note(s, evzmq_socket_enable(s->socket, EV_READ));
    note(s, evzmq_socket_disable(s->socket, EV_WRITE));
    note(s, evzmq_socket_set_timeouts(s->socket, &second, NULL));
    note(s, evzmq_socket_touch(s->socket));
    note(s, evzmq_socket_try_recv(s->socket, &message));
    note(s, evzmq_socket_recv(s->socket, &second, &message));
    note(s, evzmq_socket_shutdown(s->socket, &second, NULL, NULL));
    note(s, evzmq_base_set_receive_buffer(s->f->base, 1));
    evzmq_socket_free(s->socket);
    note_free(s);
    note(s, evzmq_monitor_stop(s->monitor));
    note(s, evzmq_monitor_disable(s->monitor));
    evzmq_monitor_free(s->monitor);
    note_free(s);
    note(s, evzmq_pool_shutdown(s->pool, &second, NULL, NULL));
    note(s, evzmq_pool_send(s->pool, 0, "x", 1));
    evzmq_pool_free(s->pool);
    note_free(s);
    note(s, evzmq_publisher_publish(s->publisher, "t", "x", 1));
    note(s, evzmq_publisher_flush(s->publisher));
    note(s, evzmq_publisher_shutdown(s->publisher, &second, NULL, NULL));
    evzmq_publisher_free(s->publisher);
    note_free(s);
    note(s, evzmq_subscriber_subscribe(s->subscriber, "t"));
    note(s, evzmq_subscriber_disable(s->subscriber));
    evzmq_subscriber_free(s->subscriber);
    note_free(s);
    note(s, (int)evzmq_request_bytes(s->requester, "x", 1, -1, ignore_reply, NULL));
    note(s, evzmq_request_cancel(s->requester, 1));
    note(s, evzmq_requester_shutdown(s->requester, &second, NULL, NULL));
    evzmq_requester_free(s->requester);
    note_free(s);
    void *const fresh = zmq_socket(s->f->context, ZMQ_PULL);
    note(s, evzmq_socket_new(s->f->base, fresh, 0) == NULL ? -1 : 0);
    note(s, evzmq_monitor_new(s->f->base, s->f->context, fresh, EVZMQ_MONITOR_ALL, ignore_event,
                              NULL) == NULL
                ? -1
                : 0);
    (void)zmq_close(fresh);
    return NULL;
}

static void calls_of_another_thread_are_eperm_and_do_nothing_in_the_debug_mode(void **state)
{
    struct fixture *const f = *state;
    struct probe in = {0};
    struct probe out = {0};
    struct probe dealer = {0};
    void *pull = NULL;
    void *push = NULL;
    struct evzmq_context *const context = evzmq_context_new(1, NULL);
    struct subject s = {.f = f};
    pthread_t thread;

    assert_non_null(context);
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &in, pull, 0);
    probe_attach(f, &out, push, 0);
    s.socket = out.socket;
    s.monitor = evzmq_monitor_new(f->base, f->context, push, EVZMQ_MONITOR_ALL, ignore_event, NULL);
    assert_non_null(s.monitor);
    s.pool = evzmq_pool_new(f->base, context, 1, NULL);
    assert_non_null(s.pool);
    s.publisher = evzmq_publisher_new(f->base, peer_new(f, ZMQ_PUB), 0, NULL);
    assert_non_null(s.publisher);
    s.subscriber = evzmq_subscriber_new(f->base, peer_new(f, ZMQ_SUB), 0, NULL);
    assert_non_null(s.subscriber);
    probe_attach(f, &dealer, peer_new(f, ZMQ_DEALER), 0);
    s.requester = evzmq_requester_new(dealer.socket, NULL);
    assert_non_null(s.requester);

    probe_enable(&in, EV_READ);
    assert_ok(evzmq_socket_write(out.socket, "a", 1));
    run_until(f, in.reads == 1);

    assert_int_equal(pthread_create(&thread, NULL, call_everything, &s), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(s.answered, 0);

    /* Nothing was done: the objects live and work. */
    assert_ok(evzmq_socket_write(out.socket, "b", 1));
    run_until(f, in.reads == 2);
    evzmq_subscriber_free(s.subscriber);
    evzmq_publisher_free(s.publisher);
    assert_true(evzmq_request_bytes(s.requester, "x", 1, -1, ignore_reply, NULL) > 0);
    evzmq_requester_free(s.requester);
    probe_free(&dealer);
    evzmq_pool_free(s.pool);
    evzmq_monitor_free(s.monitor);
    probe_free(&in);
    probe_free(&out);
    assert_ok(evzmq_context_free(context));
}

static void *run_the_loop(void *arg)
{
    struct fixture *const f = arg;

    return event_base_dispatch(f->base) < 0 ? NULL : arg;
}

static void stop_the_loop(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    unsigned *const reads = arg;

    (void)message;
    ++*reads;
    (void)event_base_loopbreak(evzmq_socket_get_base(socket));
}

static void a_base_may_be_handed_from_thread_to_thread(void **state)
{
    struct fixture *const f = *state;
    unsigned reads = 0;
    void *pull = NULL;
    void *push = NULL;
    pthread_t thread;
    void *result = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    struct evzmq_socket *const in = evzmq_socket_new(f->base, pull, 0);
    assert_non_null(in);
    evzmq_socket_setcb(in, stop_the_loop, NULL, NULL, &reads);
    assert_ok(evzmq_socket_enable(in, EV_READ));
    peer_send(push, "x", 1);
    assert_int_equal(pthread_create(&thread, NULL, run_the_loop, f), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
    assert_int_equal(reads, 1);

    assert_errno(evzmq_socket_touch(in), EPERM);
    assert_errno(evzmq_base_set_thread(NULL), EINVAL);
    assert_ok(evzmq_base_set_thread(f->base));
    assert_ok(evzmq_socket_touch(in));
    evzmq_socket_free(in);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(calls_of_another_thread_are_eperm_and_do_nothing_in_the_debug_mode),
        claim(a_base_may_be_handed_from_thread_to_thread),
    };

    evzmq_enable_debug_mode();
    return run_claims(tests);
}
