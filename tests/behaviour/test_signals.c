/*
 * Signals in the middle of everything: nothing is lost, nothing is reported.
 */
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

/* Messages per test, and how many may be on their way. */
enum { COUNT = 20000, WINDOW = 500 };

static atomic_long signals_seen;
static atomic_bool storm_ends;
static pthread_t storm_thread;
static pthread_t stormed_thread;

static void count_signal(int number)
{
    (void)number;
    (void)atomic_fetch_add(&signals_seen, 1);
}

/* Takes the place of the watchdog, which is an alarm too: it has to bark itself. */
static void count_tick(int number)
{
    (void)number;
    if (atomic_fetch_add(&signals_seen, 1) > 100000) {
        abort();
    }
}

static void handle(int number, void (*handler)(int number))
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = handler; /* without SA_RESTART: calls fail with EINTR */
    assert_int_equal(sigaction(number, &action, NULL), 0);
}

static void ticks_begin(int usec)
{
    const struct itimerval each = {{0, usec}, {0, usec}};
    atomic_store(&signals_seen, 0);
    handle(SIGALRM, count_tick);
    assert_int_equal(setitimer(ITIMER_REAL, &each, NULL), 0);
}

/* The handler stays: a last tick may be under way, and the watchdog's would end the test. */
static void ticks_end(void)
{
    const struct itimerval none = {{0, 0}, {0, 0}};
    assert_int_equal(setitimer(ITIMER_REAL, &none, NULL), 0);
    assert_true(atomic_load(&signals_seen) > 0);
}

/* Every 50 microseconds to the thread that runs the loop, for a minute at the most. The pause is
 * the interval of the signals: nothing is waited for. */
static void *storm(void *arg)
{
    const struct timespec pause = {0, 50000};
    (void)arg;
    for (int i = 0; i < 1200000 && !atomic_load(&storm_ends); i++) {
        (void)pthread_kill(stormed_thread, SIGUSR1);
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

static void storm_begin(void)
{
    atomic_store(&signals_seen, 0);
    atomic_store(&storm_ends, false);
    handle(SIGUSR1, count_signal);
    stormed_thread = pthread_self();
    assert_int_equal(pthread_create(&storm_thread, NULL, storm, NULL), 0);
}

static void storm_end(void)
{
    atomic_store(&storm_ends, true);
    assert_int_equal(pthread_join(storm_thread, NULL), 0);
    assert_true(atomic_load(&signals_seen) > 0);
}

/* Sends number n as three parts, so that a signal may fall between them. */
static void write_number(struct probe *p, uint64_t n)
{
    const struct evzmq_bytes parts[] = {{"head", 4}, {"", 0}, {&n, sizeof(n)}};
    assert_ok(evzmq_socket_write_parts(p->socket, parts, 3));
}

static void read_number_and_echo(struct probe *p, struct evzmq_message *message)
{
    assert_int_equal(evzmq_message_get_part_count(message), 3);
    read_sequence(p, message);
    write_number(p, p->sequence - 1);
}

static void read_number(struct probe *p, struct evzmq_message *message)
{
    assert_int_equal(evzmq_message_get_part_count(message), 3);
    read_sequence(p, message);
}

static void open_two(struct fixture *f, enum transport transport, struct probe *near,
                     struct probe *far)
{
    void *bound = NULL;
    void *connected = NULL;
    peer_pair(f, transport, ZMQ_DEALER, &bound, ZMQ_DEALER, &connected);
    probe_attach(f, near, bound, 0);
    probe_attach(f, far, connected, 0);
    probe_enable(near, EV_READ);
    probe_enable(far, EV_READ);
}

/* Numbers go there and back. */
static void echo(struct fixture *f, struct probe *near, struct probe *far)
{
    uint64_t written = 0;
    near->on_read = read_number;
    far->on_read = read_number_and_echo;
    while (near->sequence < COUNT) {
        while (written < COUNT && written < near->sequence + WINDOW) {
            write_number(near, written++);
        }
        fixture_turn(f);
    }
}

/* DRAINED tells of a queue that was used; anything else would be a fault. */
static void check_and_free(struct probe *near, struct probe *far)
{
    const struct evzmq_socket_stats stats[] = {probe_stats(near), probe_stats(far)};
    for (int i = 0; i < 2; i++) {
        const struct probe *const p = i == 0 ? near : far;
        assert_int_equal(p->reads, COUNT);
        assert_int_equal(p->events_all, p->events[EVZMQ_EVENT_DRAINED]);
        assert_int_equal(stats[i].messages_in, COUNT);
        assert_int_equal(stats[i].messages_out, COUNT);
        assert_int_equal(stats[i].bytes_in, COUNT * (4 + sizeof(uint64_t)));
        assert_int_equal(stats[i].restarts, 0);
        assert_int_equal(stats[i].undeliverable, 0);
        assert_int_equal(stats[i].queue_messages, 0);
    }
    probe_free(near);
    probe_free(far);
}

static void alarm_every_millisecond_loses_nothing(void **state)
{
    struct fixture *f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe near = {0};
        struct probe far = {0};
        open_two(f, (enum transport)transport, &near, &far);
        ticks_begin(1000);
        echo(f, &near, &far);
        ticks_end();
        check_and_free(&near, &far);
    }
}

static void storm_of_signals_loses_nothing(void **state)
{
    struct fixture *f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe near = {0};
        struct probe far = {0};
        open_two(f, (enum transport)transport, &near, &far);
        storm_begin();
        echo(f, &near, &far);
        storm_end();
        check_and_free(&near, &far);
    }
}

/* The receive calls may fail with EINTR only after many signals in a row. */
static void storm_of_signals_loses_nothing_in_the_receive_calls(void **state)
{
    struct fixture *f = *state;
    struct probe near = {0};
    struct probe far = {0};
    uint64_t written = 0;
    uint64_t seen = 0;
    const struct timeval minute = {60, 0};

    open_two(f, TRANSPORT_IPC, &near, &far);
    assert_ok(evzmq_socket_disable(far.socket, EV_READ));
    storm_begin();
    while (seen < COUNT) {
        struct evzmq_message *messages[16];
        int count = evzmq_socket_recv_many(far.socket, messages, 16);
        assert_true(count >= 0);
        while (written < COUNT && written < seen + WINDOW) {
            write_number(&near, written++);
        }
        if (count == 0) {
            f->dispatching = 1;
            assert_ok(evzmq_socket_recv(far.socket, &minute, &messages[0]));
            f->dispatching = 0;
            count = 1;
        }
        for (int i = 0; i < count; i++) {
            uint64_t number = 0;
            assert_int_equal(evzmq_message_get_part_count(messages[i]), 3);
            memcpy(&number, evzmq_message_get_part(messages[i], 2, NULL), sizeof(number));
            assert_int_equal(number, seen);
            seen++;
            evzmq_message_free(messages[i]);
        }
    }
    storm_end();
    assert_int_equal(near.events_all, near.events[EVZMQ_EVENT_DRAINED]);
    assert_int_equal(far.events_all, 0);
    probe_free(&near);
    probe_free(&far);
}

static void storm_of_signals_does_not_disturb_attaching_and_freeing(void **state)
{
    struct fixture *f = *state;
    void *bound = NULL;
    void *connected = NULL;
    peer_pair(f, TRANSPORT_IPC, ZMQ_DEALER, &bound, ZMQ_DEALER, &connected);
    storm_begin();
    for (uint64_t i = 0; i < 300; i++) {
        struct probe near = {.on_read = read_number, .sequence = i};
        struct probe far = {.on_read = read_number_and_echo, .sequence = i};
        probe_attach(f, &near, bound, 0);
        probe_attach(f, &far, connected, 0);
        probe_enable(&near, EV_READ);
        probe_enable(&far, EV_READ);
        write_number(&near, i);
        run_until(f, near.reads == 1);
        assert_int_equal(near.events_all, near.events[EVZMQ_EVENT_DRAINED]);
        assert_int_equal(far.events_all, far.events[EVZMQ_EVENT_DRAINED]);
        probe_free(&near);
        probe_free(&far);
    }
    storm_end();
}

static void ignore_monitor(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event,
                           void *arg)
{
    (void)monitor;
    (void)event;
    (void)arg;
}

static void alarms_do_not_disturb_binding_connecting_and_monitoring(void **state)
{
    struct fixture *f = *state;
    struct evzmq_context *context = evzmq_context_new_with(f->context, NULL);
    static const char *const endpoints[] = {"ipc://*", "tcp://127.0.0.1:*"};

    assert_non_null(context);
    ticks_begin(100);
    for (int i = 0; i < 300; i++) {
        void *const bound = evzmq_context_socket(context, ZMQ_PULL);
        void *const connected = evzmq_context_socket(context, ZMQ_PUSH);
        struct evzmq_monitor *monitor = NULL;

        assert_true(bound != NULL && connected != NULL);
        monitor = evzmq_monitor_new(f->base, f->context, connected, EVZMQ_MONITOR_CONNECTED,
                                    ignore_monitor, NULL);
        assert_non_null(monitor);
        assert_ok(evzmq_context_bind(context, bound, endpoints[i % 2]));
        assert_ok(
            evzmq_context_connect(context, connected, evzmq_context_get_endpoint(context, bound)));
        evzmq_monitor_free(monitor);
        assert_ok(evzmq_context_close_socket(context, connected));
        assert_ok(evzmq_context_close_socket(context, bound));
    }
    ticks_end();
    assert_ok(evzmq_context_free(context));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(storm_of_signals_loses_nothing),
        claim(storm_of_signals_loses_nothing_in_the_receive_calls),
        claim(storm_of_signals_does_not_disturb_attaching_and_freeing),
        /* The last: they take the watchdog's signal. */
        claim(alarms_do_not_disturb_binding_connecting_and_monitoring),
        claim(alarm_every_millisecond_loses_nothing),
    };
    return run_claims(tests);
}
