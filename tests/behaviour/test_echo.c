/**
 * @file test_echo.c
 * Receiving and sending at once, at the smallest high water marks: no stall and no deadlock.
 */
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static void echo_back(struct probe *p, struct evzmq_message *message)
{
    size_t size = 0;
    const void *const data = evzmq_message_get_part(message, 0, &size);

    assert_ok(evzmq_socket_write(p->socket, data, size));
}

/* Two adapters on one base, or one and a plain peer, throw what they get back at each other. */
static void check_circle(struct fixture *f, enum transport transport, int hwm, size_t balls,
                         size_t goal)
{
    struct probe left = {.on_read = echo_back};
    struct probe right = {.on_read = echo_back};
    char endpoint[ENDPOINT_SIZE];
    void *const a = peer_new(f, ZMQ_DEALER);
    void *const b = peer_new(f, ZMQ_DEALER);

    peer_set_int(a, ZMQ_SNDHWM, hwm);
    peer_set_int(a, ZMQ_RCVHWM, hwm);
    peer_set_int(b, ZMQ_SNDHWM, hwm);
    peer_set_int(b, ZMQ_RCVHWM, hwm);
    peer_bind(f, a, transport, endpoint);
    peer_connect(b, endpoint);
    probe_attach(f, &left, a, 0);
    probe_attach(f, &right, b, 0);
    probe_enable(&left, EV_READ);
    probe_enable(&right, EV_READ);
    for (size_t i = 0; i < balls; i++) {
        assert_ok(evzmq_socket_write(left.socket, "ball", 4));
    }
    run_until(f, left.reads >= goal && right.reads >= goal);
    probe_free(&left);
    probe_free(&right);
    peer_close(f, a);
    peer_close(f, b);
}

static void one_ball_at_the_smallest_mark_never_gets_stuck(void **state)
{
    check_circle(*state, TRANSPORT_INPROC, 1, 1, 5000);
    check_circle(*state, TRANSPORT_IPC, 1, 1, 2000);
    check_circle(*state, TRANSPORT_TCP, 1, 1, 2000);
}

static void more_balls_than_the_pipes_hold_never_get_stuck(void **state)
{
    check_circle(*state, TRANSPORT_INPROC, 1, 50, 5000);
    check_circle(*state, TRANSPORT_IPC, 1, 200, 5000);
    check_circle(*state, TRANSPORT_TCP, 1, 200, 5000);
    check_circle(*state, TRANSPORT_TCP, 1000, 500, 20000);
}

struct thrower {
    char endpoint[ENDPOINT_SIZE];
    void *context;
    uint64_t rounds;
    atomic_int failed;
};

/* One after the other, each waiting for its echo: a stall of the adapter would stop it for good. */
static void *throw_and_catch(void *arg)
{
    struct thrower *const thrower = arg;
    void *const dealer = zmq_socket(thrower->context, ZMQ_DEALER);
    const int timeout = 30000;
    const int linger = 0;

    (void)zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &timeout, sizeof timeout);
    (void)zmq_setsockopt(dealer, ZMQ_SNDTIMEO, &timeout, sizeof timeout);
    (void)zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger);
    (void)zmq_connect(dealer, thrower->endpoint);
    for (uint64_t i = 0; i < thrower->rounds; i++) {
        uint64_t seen = 0;

        if (zmq_send(dealer, &i, sizeof i, 0) < 0 ||
            zmq_recv(dealer, &seen, sizeof seen, 0) != (int)sizeof seen || seen != i) {
            atomic_store(&thrower->failed, 1);
            break;
        }
    }
    (void)zmq_close(dealer);
    return NULL;
}

static void a_peer_in_another_thread_gets_every_echo(void **state)
{
    struct fixture *const f = *state;

    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        struct thrower thrower = {.context = f->context, .rounds = 3000};
        struct probe p = {.on_read = echo_back};
        void *const dealer = peer_new(f, ZMQ_DEALER);
        pthread_t thread;

        peer_bind(f, dealer, transport, thrower.endpoint);
        probe_attach(f, &p, dealer, 0);
        probe_enable(&p, EV_READ);
        assert_int_equal(pthread_create(&thread, NULL, throw_and_catch, &thrower), 0);
        run_until(f, p.reads == thrower.rounds);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(atomic_load(&thrower.failed), 0);
        probe_free(&p);
        peer_close(f, dealer);
    }
}

static atomic_int storm_over;

static void ignore_signal(int number)
{
    (void)number;
}

static void *make_storm(void *arg)
{
    const pthread_t *const victim = arg;

    while (!atomic_load(&storm_over)) {
        (void)pthread_kill(*victim, SIGUSR1);
        (void)zmq_poll(NULL, 0, 1);
    }
    return NULL;
}

static void a_storm_of_signals_loses_and_repeats_nothing(void **state)
{
    struct fixture *const f = *state;
    struct sigaction action = {.sa_handler = ignore_signal}; /* No SA_RESTART. */
    struct sigaction before;
    struct thrower thrower = {.context = f->context, .rounds = 5000};
    struct probe p = {.on_read = echo_back};
    void *const dealer = peer_new(f, ZMQ_DEALER);
    pthread_t self = pthread_self();
    pthread_t threads[2];

    atomic_store(&storm_over, 0);
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    peer_bind(f, dealer, TRANSPORT_IPC, thrower.endpoint);
    probe_attach(f, &p, dealer, 0);
    probe_enable(&p, EV_READ);
    assert_int_equal(pthread_create(&threads[0], NULL, throw_and_catch, &thrower), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, make_storm, &self), 0);
    run_until(f, p.reads == thrower.rounds);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    atomic_store(&storm_over, 1);
    assert_int_equal(pthread_join(threads[1], NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    assert_int_equal(atomic_load(&thrower.failed), 0);
    assert_int_equal(p.events_all, 0);
    assert_int_equal(probe_stats(&p).messages_in, thrower.rounds);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(one_ball_at_the_smallest_mark_never_gets_stuck),
        claim(more_balls_than_the_pipes_hold_never_get_stuck),
        claim(a_peer_in_another_thread_gets_every_echo),
        claim(a_storm_of_signals_loses_and_repeats_nothing),
    };

    return run_claims(tests);
}
