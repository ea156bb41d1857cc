/**
 * @file test_crowd.c
 * Crowds of connections that say nothing, half of a greeting, or hello and goodbye: those who mean
 * it are served meanwhile, and nothing of the crowd stays.
 */
#include "support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "raw.h"
#include "watch.h"

enum {
    /* What libzmq was seen to hold of a connection is 3.6 KiB, and 13.4 KiB from a greeting on. */
    SILENT_BYTES_MAX = 8 * 1024,
    GREETED_BYTES_MAX = 24 * 1024,
    GROWTH_MAX = 4 * 1024 * 1024
};

/* A process that makes connections and waits until the other side has ended them all. */
struct crowd {
    uint16_t port;
    long count;
    size_t said; /* bytes of the greeting */
};

static void stand_around(void *arg)
{
    const struct crowd *const crowd = arg;
    int *const fds = calloc((size_t)crowd->count, sizeof *fds);

    child_check(fds != NULL && raise_descriptors() >= crowd->count);
    child_ready("here");
    for (long i = 0; i < crowd->count; i++) {
        fds[i] = raw_connect(crowd->port);
        child_check(fds[i] >= 0);
        /* The first may have been ended by now. */
        (void)raw_greet(fds[i], crowd->said);
    }
    for (long i = 0; i < crowd->count; i++) {
        raw_await_end(fds[i]);
        (void)close(fds[i]);
    }
    free(fds);
}

/* How many there can be. This process needs some more descriptors than there are connections. */
static long crowd_size(long wanted)
{
    const long possible = raise_descriptors() - 200;

    if (possible < wanted / 10) {
        print_message("%ld open files are too few for a crowd\n", possible);
        skip();
    }
    if (possible < wanted) {
        print_message("scaled down to %ld connections: the limit of open files\n", possible);
    }
    return possible < wanted ? possible : wanted;
}

/* A context with the defaults that evzmq_context_new() gives, but room for all who come at once:
 * else the system makes them wait for seconds. */
static void *open_listener(struct fixture *f, struct evzmq_context **out_context)
{
    const struct evzmq_context_limits limits = {.size = sizeof limits, .backlog = 4096};
    void *pull = NULL;

    *out_context = evzmq_context_new_with(f->context, NULL);
    assert_non_null(*out_context);
    assert_ok(evzmq_context_set_limits(*out_context, &limits));
    pull = evzmq_context_socket(*out_context, ZMQ_PULL);
    assert_non_null(pull);
    return pull;
}

static void check_crowd(struct fixture *f, size_t said, long bytes_max)
{
    struct probe p = {.on_read = read_sequence};
    struct watch watch = {0};
    struct crowd crowd = {.count = crowd_size(scaled(500, 10000)), .said = said};
    struct evzmq_context *context = NULL;
    void *const pull = open_listener(f, &context);
    void *const push = peer_new(f, ZMQ_PUSH);
    char text[256];
    uint64_t sent = 0;
    size_t most = 0;
    int status = -1;

    watch_open(f, &watch, pull, EVZMQ_MONITOR_ALL);
    assert_ok(evzmq_monitor_set_limit(watch.monitor, 100000)); /* They all end at once. */
    assert_ok(evzmq_context_bind(context, pull, "tcp://127.0.0.1:*"));
    peer_connect(push, evzmq_context_get_endpoint(context, pull));
    crowd.port = raw_port(evzmq_context_get_endpoint(context, pull));
    probe_attach(f, &p, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    probe_enable(&p, EV_READ);
    peer_send_sequence(push, sent++, 1, 8);
    run_until(f, p.reads == sent);
    const int descriptors = count_descriptors();
    const long before = resident();
    long peak = before;
    const pid_t child = child_start(stand_around, &crowd, text);
    while (waitpid(child, &status, WNOHANG) == 0) {
        const size_t now = watch_count(&watch, EVZMQ_MONITOR_ACCEPTED) -
                           watch_count(&watch, EVZMQ_MONITOR_HANDSHAKE_FAILED_NO_DETAIL);

        peer_send_sequence(push, sent++, 1, 8);
        run_until(f, p.reads == sent);
        peak = resident() > peak ? resident() : peak;
        most = now > most ? now : most;
    }
    assert_int_equal(status, 0);
    run_until(f,
              watch_count(&watch, EVZMQ_MONITOR_HANDSHAKE_FAILED_NO_DETAIL) == (size_t)crowd.count);
    assert_int_equal(watch.missed, 0);
    assert_int_equal(watch_count(&watch, EVZMQ_MONITOR_ACCEPTED), crowd.count + 1);
    assert_int_equal(watch_count(&watch, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED), 1);
    /* libzmq tells of a failed handshake before it closes the connection, and of that no more. The
     * count of before may have been too high: the reaper closes in its own time, too. */
    run_until_others(f, count_descriptors() <= descriptors);
    print_message("%ld connections, %zu at once, %llu messages; resident: %ld KiB before, "
                  "%ld at most\n",
                  crowd.count, most, (unsigned long long)sent, before / 1024, peak / 1024);
    assert_true(peak - before <= (long)crowd.count * bytes_max + GROWTH_MAX);
    watch_close(&watch);
    probe_free(&p);
    assert_ok(evzmq_context_free(context));
}

static void silent_connections_keep_nobody_waiting_and_end_with_the_handshakes_time(void **state)
{
    check_crowd(*state, 0, SILENT_BYTES_MAX);
}

static void half_greetings_keep_nobody_waiting_and_end_with_the_handshakes_time(void **state)
{
    check_crowd(*state, RAW_GREETING_SIZE / 2, GREETED_BYTES_MAX);
}

static void whole_greetings_without_more_end_with_the_handshakes_time(void **state)
{
    check_crowd(*state, RAW_GREETING_SIZE, GREETED_BYTES_MAX);
}

/* Each connection leaves commands in libzmq's mailbox, which somebody must read. */
static void connections_that_come_and_go_while_all_is_disabled_leave_nothing(void **state)
{
    struct fixture *const f = *state;
    const long count = scaled(1500, 50000);
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const pull = peer_new(f, ZMQ_PULL);
    long before = 0;
    int descriptors = 0;

    peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    probe_attach(f, &p, pull, 0);
    assert_ok(evzmq_socket_disable(p.socket, EV_READ | EV_WRITE));
    for (long i = -500; i < count; i++) {
        const int fd = raw_open(raw_port(endpoint));

        assert_true(fd >= 0);
        raw_reset(fd); /* Else the port would wait, and all ports be taken soon. */
        if (i % 16 == 0) {
            fixture_glance(f);
        }
        if (i == 0) {
            before = resident();
            descriptors = count_descriptors();
        }
        if (i % 1000 == 0) {
            fixture_feed_watchdog(); /* It is for standing still. */
        }
    }
    run_until_others(f, count_descriptors() <= descriptors);
    print_message("%ld connections; resident: %ld KiB before, %ld after\n", count, before / 1024,
                  resident() / 1024);
    assert_true(resident() - before <= GROWTH_MAX);
    assert_int_equal(p.reads + p.writes + p.events_all, 0);
    probe_free(&p);
}

static void use_up_descriptors(void *arg)
{
    const struct crowd *const crowd = arg;

    child_check(raise_descriptors() > crowd->count);
    child_ready("here");
    for (long i = 0; i < crowd->count; i++) {
        child_check(raw_connect(crowd->port) >= 0);
    }
    child_sleep();
}

/* An ipc listener does not survive this: see EVZMQ_CONTEXT_DESCRIPTORS_RESERVE. */
static void a_tcp_listener_that_ran_out_of_descriptors_serves_again_when_some_are_free(void **state)
{
    enum { MORE = 200, FREE = 50 };
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_sequence};
    struct watch watch = {0};
    struct crowd crowd = {.count = MORE};
    char endpoint[ENDPOINT_SIZE];
    char text[256];
    struct rlimit usual;
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const push = peer_new(f, ZMQ_PUSH);

    watch_open(f, &watch, pull, EVZMQ_MONITOR_ACCEPT_FAILED);
    peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    crowd.port = raw_port(endpoint);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    fixture_glance(f);
    const pid_t child = child_start(use_up_descriptors, &crowd, text);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    const struct rlimit low = {(rlim_t)count_descriptors() + FREE, usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    run_until(f, watch.all > 0);
    assert_int_equal(watch_last(&watch, EVZMQ_MONITOR_ACCEPT_FAILED)->error, EMFILE);
    child_kill(child);
    /* The client's own descriptor is there once the crowd's are given back. */
    run_until_others(f, count_descriptors() < (int)low.rlim_cur - FREE / 2);
    peer_connect(push, endpoint);
    peer_send_sequence(push, 0, 100, 8);
    run_until(f, p.reads == 100);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    watch_close(&watch);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(silent_connections_keep_nobody_waiting_and_end_with_the_handshakes_time),
        claim(half_greetings_keep_nobody_waiting_and_end_with_the_handshakes_time),
        claim(whole_greetings_without_more_end_with_the_handshakes_time),
        claim(connections_that_come_and_go_while_all_is_disabled_leave_nothing),
        claim(a_tcp_listener_that_ran_out_of_descriptors_serves_again_when_some_are_free),
    };

    return run_claims(tests);
}
