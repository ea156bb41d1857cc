/*
 * Mode idle: many sockets on one base that have a peer and nothing to do. What must not happen is a
 * wakeup; what each costs is memory. In the end every socket gets one message, so that a socket
 * that is merely dead does not pass for an idle one.
 */
#include "modes.h"

#include <errno.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>

#define SOCKETS_DEFAULT 1000u
#define SECONDS_DEFAULT 2.0
#define SETTLE_SECONDS 0.5
/* File descriptors beyond those of the sockets. */
#define FDS_OTHER 64u

/* Allocations carry their size in front. */
#define HEADER_SIZE alignof(max_align_t)

/* Allocations are made by one thread at a time here, but freed by libzmq's too, so these counters
 * would have to be atomic if any message were sent before they are read. None is. */
static size_t adapter_bytes; /* held by the library */
static size_t event_structs; /* held from libevent, of the size of a struct event */

static void *counted_alloc(size_t size, void *old, int is_libevent)
{
    char *block = old == NULL ? NULL : (char *)old - HEADER_SIZE;
    size_t old_size = 0;
    if (block != NULL) {
        memcpy(&old_size, block, sizeof(old_size));
    }
    block = realloc(block, size + HEADER_SIZE);
    if (block == NULL) {
        return NULL;
    }
    memcpy(block, &size, sizeof(size));
    const size_t event_size = event_get_struct_event_size();
    if (is_libevent) {
        event_structs += (size_t)(size == event_size) - (size_t)(old_size == event_size);
    } else {
        adapter_bytes += size - old_size;
    }
    return block + HEADER_SIZE;
}

static void counted_free(void *memory, int is_libevent)
{
    if (memory == NULL) {
        return;
    }
    char *block = (char *)memory - HEADER_SIZE;
    size_t size = 0;
    memcpy(&size, block, sizeof(size));
    if (is_libevent) {
        event_structs -= (size_t)(size == event_get_struct_event_size());
    } else {
        adapter_bytes -= size;
    }
    free(block);
}

static void *adapter_malloc(size_t size)
{
    return counted_alloc(size, NULL, 0);
}

static void *adapter_realloc(void *old, size_t size)
{
    return counted_alloc(size, old, 0);
}

static void adapter_free(void *memory)
{
    counted_free(memory, 0);
}

static void *libevent_malloc(size_t size)
{
    return counted_alloc(size, NULL, 1);
}

static void *libevent_realloc(void *old, size_t size)
{
    return counted_alloc(size, old, 1);
}

static void libevent_free(void *memory)
{
    counted_free(memory, 1);
}

struct run {
    size_t count; /* of sockets */
    double seconds;
    struct event_base *base;
    void *zmq_context;
    void *push; /* the peer of all of them */
    struct evzmq_socket **sockets;
    size_t attached;
    size_t bytes_at_one; /* memory with one socket attached */
    size_t bytes_at_all;
    uint64_t wakeups;
    size_t received;
};

static size_t held_bytes(void)
{
    return adapter_bytes + event_structs * event_get_struct_event_size();
}

static void on_message(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct run *run = arg;
    (void)socket;
    (void)message;
    if (++run->received == run->count) {
        (void)event_base_loopbreak(run->base);
    }
}

/* Attaches one more socket, bound and with a peer. */
static int attach(struct run *run)
{
    char endpoint[64];
    const int linger = 0;
    snprintf(endpoint, sizeof(endpoint), "inproc://idle-%zu", run->attached);
    void *pull = zmq_socket(run->zmq_context, ZMQ_PULL);
    if (pull == NULL || zmq_setsockopt(pull, ZMQ_LINGER, &linger, sizeof(linger)) != 0 ||
        zmq_bind(pull, endpoint) != 0 || zmq_connect(run->push, endpoint) != 0) {
        const int error = zmq_errno();
        if (pull != NULL) {
            (void)zmq_close(pull);
        }
        return report_error("socket %zu: %s", run->attached + 1, zmq_strerror(error));
    }
    struct evzmq_socket *socket = evzmq_socket_new(run->base, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    if (socket == NULL) {
        (void)zmq_close(pull);
        return report_error("socket %zu: %s", run->attached + 1, evzmq_strerror(errno));
    }
    run->sockets[run->attached++] = socket;
    evzmq_socket_setcb(socket, on_message, NULL, NULL, run);
    return evzmq_socket_enable(socket, EV_READ) == 0
               ? 0
               : report_error("socket %zu: %s", run->attached, evzmq_strerror(errno));
}

static int turn_for(const struct run *run, double seconds)
{
    const uint64_t time_us = (uint64_t)(seconds * 1e6);
    const struct timeval time = {(time_t)(time_us / 1000000), (suseconds_t)(time_us % 1000000)};
    if (event_base_loopexit(run->base, &time) != 0 || event_base_dispatch(run->base) < 0) {
        return report_error("the event loop failed");
    }
    return 0;
}

static uint64_t count_wakeups(const struct run *run)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < run->attached; i++) {
        struct evzmq_socket_stats stats = {.size = sizeof(stats)};
        if (evzmq_socket_get_stats(run->sockets[i], &stats) == 0) {
            sum += stats.wakeups;
        }
    }
    return sum;
}

/* One message for each socket: a PUSH gives to its peers in turns. */
static int prove_alive(struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        if (zmq_send(run->push, "x", 1, ZMQ_DONTWAIT) < 0) {
            return report_error("cannot send: %s", zmq_strerror(zmq_errno()));
        }
    }
    if (turn_for(run, 10) != 0) {
        return -1;
    }
    if (run->received != run->count) {
        return report_error("lost: %zu of %zu messages at the end", run->count - run->received,
                            run->count);
    }
    return 0;
}

static int measure(struct run *run)
{
    while (run->attached < run->count) {
        if (attach(run) != 0) {
            return -1;
        }
        if (run->attached == 1) {
            run->bytes_at_one = held_bytes();
        }
    }
    run->bytes_at_all = held_bytes();
    if (turn_for(run, SETTLE_SECONDS) != 0) {
        return -1;
    }
    if (held_bytes() > run->bytes_at_all) {
        run->bytes_at_all = held_bytes();
    }
    const uint64_t before = count_wakeups(run);
    if (turn_for(run, run->seconds) != 0) {
        return -1;
    }
    run->wakeups = count_wakeups(run) - before;
    return prove_alive(run);
}

/* A socket has one descriptor, and often the process may have more than it may by default. */
static int allow_sockets(const struct run *run)
{
    struct rlimit limit;
    const rlim_t needed = (rlim_t)(run->count + FDS_OTHER);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) {
        return 0;
    }
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    if (limit.rlim_cur < needed || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return report_error("%zu sockets need %llu file descriptors, %llu are allowed (ulimit -n)",
                            run->count, (unsigned long long)needed,
                            (unsigned long long)limit.rlim_max);
    }
    return 0;
}

static int start(struct run *run)
{
    if (allow_sockets(run) != 0) {
        return -1;
    }
    if (evzmq_set_mem_functions(adapter_malloc, adapter_realloc, adapter_free) != 0) {
        return report_error("cannot count allocations: %s", evzmq_strerror(errno));
    }
    event_set_mem_functions(libevent_malloc, libevent_realloc, libevent_free);
    run->sockets = calloc(run->count, sizeof(struct evzmq_socket *));
    run->base = event_base_new();
    run->zmq_context = zmq_ctx_new();
    if (run->sockets == NULL || run->base == NULL || run->zmq_context == NULL ||
        zmq_ctx_set(run->zmq_context, ZMQ_MAX_SOCKETS, (int)(run->count + FDS_OTHER)) != 0) {
        return report_error("cannot make a base and a context for %zu sockets", run->count);
    }
    run->push = zmq_socket(run->zmq_context, ZMQ_PUSH);
    return run->push == NULL ? report_error("cannot make a socket") : 0;
}

static void finish(struct run *run)
{
    for (size_t i = 0; i < run->attached; i++) {
        evzmq_socket_free(run->sockets[i]);
    }
    if (run->push != NULL) {
        const int linger = 0;
        (void)zmq_setsockopt(run->push, ZMQ_LINGER, &linger, sizeof(linger));
        (void)zmq_close(run->push);
    }
    if (run->zmq_context != NULL) {
        (void)zmq_ctx_term(run->zmq_context);
    }
    if (run->base != NULL) {
        event_base_free(run->base);
    }
    free(run->sockets);
}

static void print(const struct run *run, struct report *report)
{
    const double each = (double)(run->bytes_at_all - run->bytes_at_one) / (double)(run->count - 1);
    struct report_row row = {.count = 0};
    report_add_text(&row, "mode", "idle");
    report_add_count(&row, "sockets", run->count);
    report_add_real(&row, "seconds", run->seconds, 3);
    report_add_count(&row, "wakeups", run->wakeups);
    report_add_real(&row, "bytes_per_socket", each, 0);
    report_row(report, &row);
    report_line(report, "%zu idle sockets: %llu wakeups in %g s, %.0f bytes each", run->count,
                (unsigned long long)run->wakeups, run->seconds, each);
}

int mode_idle(const struct bench_options *options, struct report *report)
{
    struct run run = {
        .count = options->sockets != 0 ? options->sockets : SOCKETS_DEFAULT,
        .seconds = options->seconds > 0 ? options->seconds : SECONDS_DEFAULT,
    };
    int result = start(&run);
    if (result == 0) {
        report_progress(report, "%zu sockets", run.count);
        result = measure(&run);
    }
    if (result == 0) {
        print(&run, report);
    }
    finish(&run);
    return result == 0 ? 0 : 1;
}
