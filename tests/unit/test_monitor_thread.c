/*
 * test_monitor_thread.c: a monitor that is freed while its socket, closed before, lingers leaves
 * its reader to a thread; here the system gives it none.
 */
#include "support.h"

#include <errno.h>
#include <pthread.h>

#include "watch.h"

static size_t refusals;

/* The original of ld's --wrap is not called: no other call of the library's is for threads. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg)
{
    (void)thread;
    (void)attributes;
    (void)start;
    (void)arg;
    refusals++;
    return EAGAIN;
}

static void without_a_thread_a_free_waits_until_the_closed_socket_has_lingered(void **state)
{
    struct fixture *const f = *state;

    refusals = 0;
    while (refusals == 0) { /* A machine that is busy may let the time pass before the free. */
        struct watch w = {.f = f};
        void *const push = peer_new(f, ZMQ_PUSH);
        char endpoint[ENDPOINT_SIZE];

        dead_endpoint(endpoint);
        peer_set_int(push, ZMQ_LINGER, 200);
        watch_open(f, &w, push, EVZMQ_MONITOR_ALL);
        peer_connect(push, endpoint);
        peer_send_sequence(push, 0, 1, sizeof(uint64_t));
        peer_close(f, push);
        watch_close(&w);
    }
    assert_int_equal(refusals, 1);
    /* The end of the fixture waits for the context, and so for the reader. */
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(without_a_thread_a_free_waits_until_the_closed_socket_has_lingered),
    };

    return run_claims(tests);
}
