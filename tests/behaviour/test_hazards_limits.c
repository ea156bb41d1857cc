/**
 * @file test_hazards_limits.c
 * What is taken before somebody is there to read it, and file descriptors before they run out.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "child.h"
#include "place.h"

enum { MEGABYTE = 1024 * 1024, LARGE_MESSAGES = 200 };

/* ZeroMQ's high water marks count messages, however large they are; the queue counts bytes too. */
static void large_messages_for_a_peer_that_does_not_read_stop_at_the_limit_of_bytes(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    void *const pull = peer_new(f, ZMQ_PULL);
    char *const bytes = calloc(1, MEGABYTE);
    size_t queued = 0;
    uint64_t taken = 0;

    assert_non_null(bytes);
    peer_set_int(push, ZMQ_SNDHWM, 1);
    peer_set_int(pull, ZMQ_RCVHWM, 1);
    peer_bind(f, pull, TRANSPORT_INPROC, endpoint);
    peer_connect(push, endpoint);
    probe_attach(f, &p, push, 0);
    assert_ok(evzmq_socket_set_output_watermark(p.socket, 8 * MEGABYTE, 32 * MEGABYTE));
    for (uint64_t i = 0; i < LARGE_MESSAGES; i++) {
        memcpy(bytes, &taken, sizeof taken);
        if (evzmq_socket_write(p.socket, bytes, MEGABYTE) == 0) {
            taken++;
        } else {
            assert_int_equal(errno, EAGAIN);
        }
    }
    (void)evzmq_socket_get_queued(p.socket, &queued);
    assert_int_equal(queued, EVZMQ_OUTPUT_BYTES_DEFAULT);
    assert_in_range(taken, EVZMQ_OUTPUT_BYTES_DEFAULT / MEGABYTE,
                    EVZMQ_OUTPUT_BYTES_DEFAULT / MEGABYTE + 2);
    assert_int_equal(probe_stats(&p).writes_refused, LARGE_MESSAGES - taken);
    run_until(f, p.events[EVZMQ_EVENT_HIGH_WATERMARK] == 1);
    assert_int_equal(p.writes, 0);
    pump_recv_sequence(f, pull, 0, taken); /* What was taken arrives. */
    run_until(f, p.events[EVZMQ_EVENT_DRAINED] == 1);
    assert_int_equal(p.writes, 1);
    assert_int_equal(p.events[EVZMQ_EVENT_HIGH_WATERMARK], 1);
    free(bytes);
    probe_free(&p);
}

/* Writes until the queue is full. Returns how much ZeroMQ took. */
static uint64_t fill(struct fixture *f, int immediate)
{
    struct probe p = {0};
    void *const push = peer_new(f, ZMQ_PUSH);
    uint64_t given = 0;

    peer_set_int(push, ZMQ_IMMEDIATE, immediate);
    peer_connect(push, "ipc:///nonexistent/path");
    probe_attach(f, &p, push, 0);
    while (evzmq_socket_write(p.socket, "x", 1) == 0) {
        assert_true(++given < 10000);
    }
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), EVZMQ_OUTPUT_MESSAGES_DEFAULT);
    given = probe_stats(&p).messages_out;
    probe_free(&p);
    return given;
}

static void without_a_peer_zeromq_takes_its_mark_and_with_immediate_nothing(void **state)
{
    assert_int_equal(fill(*state, 0), 1000);
    assert_int_equal(fill(*state, 1), 0);
}

/* A program that asks for descriptors whenever somebody connects. */
struct doorkeeper {
    struct event_base *base;
    void *zmq_context;
    struct evzmq_context *context;
    struct evzmq_monitor *monitor;
    struct evzmq_socket *socket;
    char endpoint[ENDPOINT_SIZE];
    size_t accepted;
    size_t reads;
    int warned;
};

static void look_at_descriptors(struct evzmq_monitor *monitor,
                                const struct evzmq_monitor_event *event, void *arg)
{
    struct doorkeeper *const keeper = arg;

    (void)monitor;
    if (event->type == EVZMQ_MONITOR_ACCEPTED) {
        keeper->accepted++;
        keeper->warned = evzmq_context_check_descriptors(keeper->context, 1) != 0;
    }
}

static void count_read(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct doorkeeper *const keeper = arg;

    (void)socket;
    (void)message;
    keeper->reads++;
}

static void open_door(struct doorkeeper *keeper)
{
    void *const pull = evzmq_context_socket(keeper->context, ZMQ_PULL);

    child_check(pull != NULL);
    keeper->monitor = evzmq_monitor_new(keeper->base, keeper->zmq_context, pull,
                                        EVZMQ_MONITOR_ACCEPTED, look_at_descriptors, keeper);
    child_check(keeper->monitor != NULL);
    child_check(evzmq_context_bind(keeper->context, pull, keeper->endpoint) == 0);
    keeper->socket = evzmq_socket_new(keeper->base, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    child_check(keeper->socket != NULL);
    evzmq_socket_setcb(keeper->socket, count_read, NULL, NULL, keeper);
    child_check(evzmq_socket_enable(keeper->socket, EV_READ) == 0);
}

/* The connections that a listener accepted end with it. libzmq closes them in its own time. */
static void close_door(struct doorkeeper *keeper)
{
    evzmq_monitor_free(keeper->monitor);
    evzmq_socket_free(keeper->socket);
    while (evzmq_context_check_descriptors(keeper->context, 1) != 0) {
        (void)zmq_poll(NULL, 0, 1);
    }
}

static void call_at(const char *endpoint)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *const path = endpoint + strlen("ipc://");
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);

    child_check(s >= 0 && strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    child_check(connect(s, (const struct sockaddr *)&address, sizeof address) == 0);
}

static void turn_until(struct doorkeeper *keeper, const size_t *counter, size_t goal)
{
    while (*counter < goal) {
        child_check(event_base_loop(keeper->base, EVLOOP_ONCE) == 0);
    }
}

/* Callers come one after the other, as many as would use up all descriptors. */
static void be_called_by_many(void *arg)
{
    enum { LIMIT = 120 };
    const struct rlimit limit = {LIMIT, LIMIT};
    struct doorkeeper keeper = {.base = event_base_new(), .zmq_context = zmq_ctx_new()};
    void *push = NULL;

    (void)snprintf(keeper.endpoint, sizeof keeper.endpoint, "ipc://%s/door", (const char *)arg);
    keeper.context = evzmq_context_new_with(keeper.zmq_context, NULL);
    child_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    open_door(&keeper);
    push = evzmq_context_socket(keeper.context, ZMQ_PUSH);
    child_check(push != NULL);
    child_check(evzmq_context_connect(keeper.context, push, keeper.endpoint) == 0);
    turn_until(&keeper, &keeper.accepted, 1);
    while (!keeper.warned) {
        call_at(keeper.endpoint);
        turn_until(&keeper, &keeper.accepted, keeper.accepted + 1);
    }
    child_check(keeper.accepted > 10 && keeper.accepted < LIMIT / 2);
    close_door(&keeper);
    open_door(&keeper);
    while (keeper.reads == 0) { /* What the old connection still took is lost with it. */
        (void)zmq_send(push, "still here", 10, ZMQ_DONTWAIT);
        child_check(event_base_loop(keeper.base, EVLOOP_ONCE | EVLOOP_NONBLOCK) == 0);
        (void)zmq_poll(NULL, 0, 1);
    }
    close_door(&keeper);
    child_check(evzmq_context_close_socket(keeper.context, push) == 0);
    child_check(evzmq_context_free(keeper.context) == 0);
}

/* libzmq itself aborts the process when an ipc listener finds no descriptor for a connection. */
static void who_asks_for_descriptors_at_each_connection_is_warned_in_time(void **state)
{
    char place[64];

    (void)state;
    place_make(place);
    child_run(be_called_by_many, place);
    place_remove(place);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(large_messages_for_a_peer_that_does_not_read_stop_at_the_limit_of_bytes),
        claim(without_a_peer_zeromq_takes_its_mark_and_with_immediate_nothing),
        claim(who_asks_for_descriptors_at_each_connection_is_warned_in_time),
    };

    return run_claims(tests);
}
