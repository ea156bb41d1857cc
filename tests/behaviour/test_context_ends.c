/**
 * @file test_context_ends.c
 * How contexts and connections end: a close waits for a linger and no longer, also among signals; a
 * ZeroMQ context that is terminated or the caller's; tcp peers that say nothing.
 */
#include "support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "place.h"
#include "raw.h"

static struct evzmq_context *context_with(const struct evzmq_context_limits *limits)
{
    struct evzmq_context *const context = evzmq_context_new(0, NULL);

    assert_non_null(context);
    assert_ok(evzmq_context_set_limits(context, limits));
    return context;
}

static int64_t now_ms(void)
{
    struct timespec now;

    assert_ok(clock_gettime(CLOCK_MONOTONIC, &now));
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int get_int(void *zmq_socket, int option)
{
    int value = 0;
    size_t size = sizeof value;

    assert_ok(zmq_getsockopt(zmq_socket, option, &value, &size));
    return value;
}

/* Somebody who listens and never accepts, so that no handshake ends. */
static int black_hole(char out_endpoint[64])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(listener >= 0);
    assert_ok(bind(listener, (const struct sockaddr *)&address, sizeof address));
    assert_ok(listen(listener, 8));
    assert_ok(getsockname(listener, (struct sockaddr *)&address, &size));
    (void)snprintf(out_endpoint, 64, "tcp://127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
    return listener;
}

/* Closes a context with messages that nobody takes. */
static void assert_close_ends(const char *endpoint, int linger_ms)
{
    const struct evzmq_context_limits limits = {.size = sizeof limits, .linger_ms = 50};
    struct evzmq_context *const context = context_with(&limits);
    void *const push = evzmq_context_socket(context, ZMQ_PUSH);

    peer_set_int(push, ZMQ_LINGER, linger_ms);
    assert_ok(evzmq_context_connect(context, push, endpoint));
    for (int i = 0; i < 100; i++) {
        peer_send_text(push, "nobody takes this");
    }
    assert_ok(evzmq_context_close_socket(context, push));
    assert_ok(evzmq_context_free(context));
}

static void a_close_ends_when_nobody_takes_what_was_sent(void **state)
{
    char endpoint[64];
    const int hole = black_hole(endpoint);

    (void)state;
    assert_close_ends("ipc:///nonexistent/path", 50);
    assert_close_ends(endpoint, 50);
    assert_close_ends("tcp://127.0.0.1:9", 50);
    assert_ok(close(hole));
}

static void an_infinite_linger_becomes_a_finite_one_at_the_close(void **state)
{
    char endpoint[64];
    const int hole = black_hole(endpoint);

    (void)state;
    assert_close_ends("ipc:///nonexistent/path", -1);
    assert_close_ends(endpoint, -1);
    assert_ok(close(hole));
}

static void accept_and_read_nothing(void *arg)
{
    struct evzmq_context *const context = evzmq_context_new(0, arg);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);

    child_check(pull != NULL && evzmq_context_bind(context, pull, "ipc://*") == 0);
    child_ready(evzmq_context_get_endpoint(context, pull));
    child_sleep();
}

static void a_close_ends_when_the_peer_was_stopped_or_killed(void **state)
{
    char place[64];
    char endpoint[256];
    pid_t child = 0;

    (void)state;
    place_make(place);
    child = child_start(accept_and_read_nothing, place, endpoint);
    assert_ok(kill(child, SIGSTOP));
    assert_close_ends(endpoint, -1);
    assert_close_ends(endpoint, 50);
    child_kill(child);
    assert_close_ends(endpoint, -1);
    {
        struct evzmq_context *const context = evzmq_context_new(0, place);

        assert_non_null(evzmq_context_get_directory(context)); /* Clears the child's away. */
        assert_ok(evzmq_context_free(context));
    }
    place_remove(place);
}

static atomic_int signals; /* Any thread may be the one that is interrupted. */

static void on_signal(int number)
{
    (void)number;
    (void)atomic_fetch_add(&signals, 1);
}

static void a_close_among_signals_is_restarted_until_it_is_done(void **state)
{
    const struct sigaction action = {.sa_handler = on_signal}; /* Without SA_RESTART. */
    const struct itimerspec often = {{0, 500000}, {0, 500000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL};
    struct sigaction before;
    timer_t timer;

    (void)state;
    event.sigev_signo = SIGUSR1;
    assert_ok(sigaction(SIGUSR1, &action, &before));
    assert_ok(timer_create(CLOCK_MONOTONIC, &event, &timer));
    assert_ok(timer_settime(timer, 0, &often, NULL));
    atomic_store(&signals, 0);
    while (atomic_load(&signals) < 20) {
        assert_close_ends("ipc:///nonexistent/path", 50);
    }
    assert_ok(timer_delete(timer));
    assert_ok(sigaction(SIGUSR1, &before, NULL));
}

static void closing_leaves_a_zmq_context_of_the_caller_alone(void **state)
{
    const struct evzmq_context_limits limits = {.size = sizeof limits, .sockets_max = 10};
    struct fixture *const f = *state;
    struct evzmq_context *const context = evzmq_context_new_with(f->context, NULL);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);
    void *const push = peer_new(f, ZMQ_PUSH);
    void *later = NULL;
    char text[32];

    assert_errno(evzmq_context_set_limits(context, &limits), ENOTSUP);
    assert_ok(evzmq_context_bind(context, pull, "inproc://both"));
    assert_string_equal(evzmq_context_get_endpoint(context, pull), "inproc://both");
    peer_connect(push, "inproc://both");
    peer_send_text(push, "hello");
    (void)peer_recv_text(pull, text, sizeof text);
    assert_string_equal(text, "hello");
    assert_ok(evzmq_context_bind(context, pull, "ipc://*"));
    assert_errno(evzmq_context_close(context), EBUSY);
    assert_ok(evzmq_context_close_socket(context, pull));
    assert_ok(evzmq_context_free(context));
    later = peer_new(f, ZMQ_PULL);
    assert_ok(zmq_bind(later, "inproc://later"));
}

static void *terminate(void *zmq_context)
{
    while (zmq_ctx_term(zmq_context) != 0) {
        assert_int_equal(errno, EINTR);
    }
    return NULL;
}

static void a_context_survives_that_its_zmq_context_is_terminated(void **state)
{
    struct fixture *const f = *state;
    void *const zmq_context = zmq_ctx_new();
    struct evzmq_context *const context = evzmq_context_new_with(zmq_context, NULL);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);
    void *const other = evzmq_context_socket(context, ZMQ_PULL);
    struct probe p = {0};
    char path[PLACE_PATH_SIZE];
    pthread_t thread;

    assert_ok(evzmq_context_bind(context, pull, "ipc://*"));
    (void)snprintf(path, sizeof path, "%s",
                   evzmq_context_get_endpoint(context, pull) + strlen("ipc://"));
    probe_attach(f, &p, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    probe_enable(&p, EV_READ);
    assert_int_equal(pthread_create(&thread, NULL, terminate, zmq_context), 0);
    run_until(f, p.events[EVZMQ_EVENT_TERMINATED] == 1);
    errno = 0;
    assert_null(evzmq_context_socket(context, ZMQ_PAIR));
    assert_int_equal(errno, ETERM);
    assert_errno(evzmq_context_bind(context, other, "ipc://*"), ETERM);
    probe_free(&p);
    assert_false(place_has(path));
    assert_ok(evzmq_context_close_socket(context, other));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(evzmq_context_free(context));
}

/* A bound socket and a tcp connection to it. */
static int connect_raw(struct evzmq_context *context, void *zmq_socket)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char *endpoint = NULL;
    const int s = socket(AF_INET, SOCK_STREAM, 0);

    assert_ok(evzmq_context_bind(context, zmq_socket, "tcp://127.0.0.1:*"));
    endpoint = evzmq_context_get_endpoint(context, zmq_socket);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10));
    assert_true(s >= 0);
    assert_ok(connect(s, (const struct sockaddr *)&address, sizeof address));
    return s;
}

/* Reads until the other side ends the connection. */
static size_t read_to_end(int s)
{
    char buffer[256];
    size_t total = 0;
    ssize_t got = 0;

    while ((got = read(s, buffer, sizeof buffer)) > 0) {
        total += (size_t)got;
    }
    return total;
}

static void a_tcp_peer_that_says_nothing_loses_its_connection(void **state)
{
    const struct evzmq_context_limits limits = {.size = sizeof limits, .handshake_ms = 100};
    struct evzmq_context *const context = context_with(&limits);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);
    const int s = connect_raw(context, pull);

    (void)state;
    (void)read_to_end(s);
    assert_ok(close(s));
    assert_ok(evzmq_context_close_socket(context, pull));
    assert_ok(evzmq_context_free(context));
}

/* What a PUSH of ZMTP 3.1 says first: its greeting and READY. */
static void handshake(int s)
{
    static const char ready[] = "\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH";
    unsigned char greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1};

    memcpy(greeting + 12, "NULL", 4);
    assert_int_equal(write(s, greeting, sizeof greeting), sizeof greeting);
    assert_int_equal(write(s, ready, sizeof ready - 1), sizeof ready - 1);
}

static void a_tcp_peer_that_does_not_answer_heartbeats_loses_its_connection(void **state)
{
    const struct evzmq_context_limits limits = {
        .size = sizeof limits, .heartbeat_ms = 50, .heartbeat_timeout_ms = 200};
    struct evzmq_context *const context = context_with(&limits);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);
    const int s = connect_raw(context, pull);
    const int64_t start = now_ms();

    (void)state;
    handshake(s);
    /* A greeting, a READY and at least one PING, which is of 6 bytes or more. */
    assert_true(read_to_end(s) > 64 + 28 + 6);
    /* Without heartbeats it would not end at all; a refused handshake ends it at once. */
    assert_true(now_ms() - start >= 200);
    assert_ok(close(s));
    assert_ok(evzmq_context_close_socket(context, pull));
    assert_ok(evzmq_context_free(context));
}

/* As a program that is busy: longer than the time between two heartbeats. */
static void read_late(void *arg)
{
    const struct evzmq_context_limits limits = {.size = sizeof limits,
                                                .receive_high_water_mark = 1};
    struct evzmq_context *const context = evzmq_context_new(0, NULL);
    void *pull = NULL;
    char byte = 0;

    (void)arg;
    child_check(evzmq_context_set_limits(context, &limits) == 0);
    pull = evzmq_context_socket(context, ZMQ_PULL);
    child_check(evzmq_context_bind(context, pull, "tcp://127.0.0.1:*") == 0);
    child_ready(evzmq_context_get_endpoint(context, pull));
    (void)zmq_poll(NULL, 0, EVZMQ_CONTEXT_HEARTBEAT_MS_DEFAULT * 3 / 2);
    child_check(zmq_recv(pull, &byte, 1, 0) == 1);
    child_check(evzmq_context_close_socket(context, pull) == 0);
    child_check(evzmq_context_free(context) == 0);
}

/* With heartbeats of libzmq 4.3.4, its next one would abort the process. */
static void a_peer_that_goes_while_its_messages_wait_costs_nothing_but_its_connection(void **state)
{
    unsigned char frame[16];
    const size_t size = raw_frame(frame, 0, "x", 1);
    char endpoint[256];
    int status = -1;
    const pid_t child = child_start(read_late, NULL, endpoint);
    const int s = raw_open(raw_port(endpoint));

    assert_true(s >= 0);
    for (int i = 0; i < 1000; i++) {
        assert_ok(raw_send(s, frame, size));
    }
    fixture_run_for(*state, 100); /* The first are read, and reading stops at the mark. */
    raw_reset(s);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void heartbeats_are_for_tcp_and_a_programs_own_interval_stays(void **state)
{
    struct evzmq_context *const context = context_with(NULL);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);

    (void)state;
    assert_int_equal(get_int(pull, ZMQ_HEARTBEAT_TIMEOUT),
                     EVZMQ_CONTEXT_HEARTBEAT_TIMEOUT_MS_DEFAULT);
    assert_int_equal(get_int(pull, ZMQ_HEARTBEAT_TTL), EVZMQ_CONTEXT_HEARTBEAT_TIMEOUT_MS_DEFAULT);
    assert_ok(evzmq_context_bind(context, pull, "tcp://127.0.0.1:*"));
    assert_int_equal(get_int(pull, ZMQ_HEARTBEAT_IVL), 0);
    peer_set_int(pull, ZMQ_HEARTBEAT_IVL, 4711);
    assert_ok(evzmq_context_connect(context, pull, "tcp://127.0.0.1:9"));
    assert_ok(evzmq_context_bind(context, pull, "ipc://*"));
    assert_int_equal(get_int(pull, ZMQ_HEARTBEAT_IVL), 4711);
    assert_ok(evzmq_context_close_socket(context, pull));
    assert_ok(evzmq_context_free(context));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_close_ends_when_nobody_takes_what_was_sent),
        claim(an_infinite_linger_becomes_a_finite_one_at_the_close),
        claim(a_close_ends_when_the_peer_was_stopped_or_killed),
        claim(a_close_among_signals_is_restarted_until_it_is_done),
        claim(closing_leaves_a_zmq_context_of_the_caller_alone),
        claim(a_context_survives_that_its_zmq_context_is_terminated),
        claim(a_tcp_peer_that_says_nothing_loses_its_connection),
        claim(a_tcp_peer_that_does_not_answer_heartbeats_loses_its_connection),
        claim(a_peer_that_goes_while_its_messages_wait_costs_nothing_but_its_connection),
        claim(heartbeats_are_for_tcp_and_a_programs_own_interval_stays),
    };

    return run_claims(tests);
}
