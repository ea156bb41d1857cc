/*
 * monitor.c (L5): see <evzmq/monitor.h>.
 *
 * Data flow: libzmq's I/O threads -> an inproc PAIR of libzmq's -> our PAIR, the reader, which is
 * an ordinary evzmq_socket -> a queue with a limit -> in the next turn of the loop, the callback.
 * From the reader on that is monitor_events.c; here the monitoring is started and ended.
 *
 * What libzmq 4.3.4 demands, each found by a hang:
 * - Its PAIR sends without a time limit, on I/O threads, with a lock held. So the reader connects
 *   before the monitoring starts, has no high-water mark, and goes last, after
 *   zmq_socket_monitor(s, NULL, 0) or the event that says that libzmq stopped by itself.
 * - A reader of another context never meets that PAIR, and the first event would hang. So the
 *   context is checked first, with a monitor of no events, which sends nothing.
 * - A PAIR that connected to a name which nobody binds is not closed before its context ends. So
 *   the reader connects right before the monitoring starts, and when that fails somebody binds.
 * - That call needs a socket that still exists. `zmq_socket` is NULL from the moment it must not be
 *   made any more.
 */
#include "monitor.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include <event2/event.h>
#include <zmq.h>

#include "base.h"
#include "context.h"

enum {
    NAME_SIZE = 80,
    /* How long a free waits for the word that a closed socket is gone. */
    CLOSED_WAIT_MS = 1
};

void evzmq__monitor_forget_socket(struct evzmq_monitor *monitor)
{
    if (monitor->zmq_socket != NULL) {
        monitor->zmq_socket = NULL;
        evzmq__unwatch_close(&monitor->close_watch);
    }
}

void *evzmq__monitor_release_reader(struct evzmq_monitor *monitor)
{
    void *pair = monitor->pair;
    monitor->wakeups += monitor->reader->counters.wakeups;
    evzmq_socket_free(monitor->reader);
    monitor->reader = NULL;
    monitor->pair = NULL;
    return pair;
}

void evzmq__monitor_unref(struct evzmq_monitor *monitor)
{
    if (--monitor->references == 0) {
        struct evzmq__base *base = monitor->base;
        evzmq__free(monitor);
        evzmq__base_release(base);
    }
}

/* Names no other monitor has, in this process and in this copy of the library. */
static void make_name(char name[NAME_SIZE])
{
    static atomic_ulong count;
    const unsigned long number = atomic_fetch_add(&count, 1);
    (void)snprintf(name, NAME_SIZE, "inproc://evzmq.monitor.%p.%lu", (void *)&count, number);
}

/* A PAIR that never refuses an event and never holds up its context. NULL with errno. */
static void *open_pair(void *zmq_context)
{
    const int zero = 0;
    void *pair = zmq_socket(zmq_context, ZMQ_PAIR);
    if (pair != NULL && (zmq_setsockopt(pair, ZMQ_RCVHWM, &zero, sizeof(zero)) < 0 ||
                         zmq_setsockopt(pair, ZMQ_LINGER, &zero, sizeof(zero)) < 0)) {
        const int error = errno;
        (void)zmq_close(pair);
        errno = error;
        return NULL;
    }
    return pair;
}

/* Starts monitoring. A signal that interrupts libzmq undoes what it did by then. */
static int monitor_socket(void *zmq_socket, const char *name, unsigned events)
{
    int result = -1;
    int tries = 0;
    do {
        result = zmq_socket_monitor(zmq_socket, name, (int)events);
    } while (result < 0 && errno == EINTR && ++tries < EVZMQ__EINTR_RETRIES);
    return result;
}

/* Whether the socket was made in the context: a name bound by its monitor is taken there. Returns
 * 0, or -1 with EINVAL or an error of libzmq. */
static int check_context(void *zmq_context, void *zmq_socket)
{
    char name[NAME_SIZE];
    make_name(name);
    void *probe = open_pair(zmq_context);
    if (probe == NULL) {
        return -1;
    }
    int result = monitor_socket(zmq_socket, name, 0);
    int error = errno;
    if (result == 0) {
        const bool is_bound = evzmq__endpoint_call(zmq_bind, probe, name) == 0;
        error = is_bound ? EINVAL : errno;
        result = error == EADDRINUSE ? 0 : -1;
        (void)zmq_socket_monitor(zmq_socket, NULL, 0);
    }
    (void)zmq_close(probe);
    errno = error;
    return result;
}

/* Lets a PAIR go that has connected to a name. */
static void meet(void *zmq_context, const char *name)
{
    void *pair = open_pair(zmq_context);
    if (pair != NULL) {
        (void)evzmq__endpoint_call(zmq_bind, pair, name);
        (void)zmq_close(pair);
    }
}

/* Connects the reader and has libzmq send. From here on another monitor of the socket is stopped,
 * whatever becomes of this one; so that comes last. Returns 0, or -1 with errno. */
static int begin(struct evzmq_monitor *monitor, void *zmq_context, void *zmq_socket)
{
    const unsigned events = monitor->events | EVZMQ_MONITOR_STOPPED | EVZMQ__MONITOR_PEER_EVENTS;
    char name[NAME_SIZE];
    make_name(name);
    if (check_context(zmq_context, zmq_socket) < 0 ||
        evzmq__endpoint_call(zmq_connect, monitor->pair, name) < 0) {
        return -1;
    }
    if (monitor_socket(zmq_socket, name, events) < 0) {
        const int error = errno;
        meet(zmq_context, name);
        errno = error;
        return -1;
    }
    evzmq__socket_attend(monitor->reader);
    return 0;
}

/* Makes the reader and starts the monitoring. Returns 0, or -1 with errno. */
static int start(struct evzmq_monitor *monitor, void *zmq_context, void *zmq_socket)
{
    monitor->pair = open_pair(zmq_context);
    if (monitor->pair == NULL) {
        return -1;
    }
    monitor->reader = evzmq_socket_new(monitor->base->event_base, monitor->pair, 0);
    if (monitor->reader == NULL) {
        goto fail_pair;
    }
    evzmq_socket_setcb(monitor->reader, evzmq__monitor_on_read, NULL, evzmq__monitor_on_event,
                       monitor);
    if (evzmq_socket_enable(monitor->reader, EV_READ) < 0 ||
        evzmq__watch_close(&monitor->close_watch, zmq_socket) < 0) {
        goto fail_reader;
    }
    monitor->zmq_socket = zmq_socket;
    if (begin(monitor, zmq_context, zmq_socket) < 0) {
        goto fail_watch;
    }
    return 0;

fail_watch:;
    int error = errno;
    evzmq__monitor_forget_socket(monitor);
    errno = error;
fail_reader:
    error = errno;
    evzmq_socket_free(monitor->reader);
    errno = error;
fail_pair:
    error = errno;
    (void)zmq_close(monitor->pair);
    errno = error;
    return -1;
}

/* The adapter is about to close the monitored socket. */
static void on_close(struct evzmq__close_watch *watch)
{
    struct evzmq_monitor *monitor =
        (struct evzmq_monitor *)((char *)watch - offsetof(struct evzmq_monitor, close_watch));
    (void)evzmq_monitor_stop(monitor);
}

struct evzmq_monitor *evzmq_monitor_new(struct event_base *base, void *zmq_context,
                                        void *zmq_socket, unsigned events, evzmq_monitor_cb cb,
                                        void *arg)
{
    if (base == NULL || zmq_context == NULL || zmq_socket == NULL || events == 0 ||
        (events & ~EVZMQ_MONITOR_ALL) != 0 || cb == NULL) {
        errno = EINVAL;
        return NULL;
    }
    struct evzmq_monitor *monitor = evzmq__calloc(1, sizeof(*monitor));
    if (monitor == NULL) {
        return NULL;
    }
    monitor->cb = cb;
    monitor->arg = arg;
    monitor->events = events;
    monitor->references = 1;
    monitor->last = &monitor->first;
    monitor->queued_max = EVZMQ_MONITOR_QUEUE_DEFAULT;
    monitor->enabled = true;
    monitor->close_watch.callback = on_close;
    monitor->base = evzmq__base_acquire(base);
    if (monitor->base == NULL) {
        goto fail_monitor;
    }
    monitor->stopped = evzmq__calloc(1, sizeof(*monitor->stopped));
    monitor->turn = evzmq__timer_new(base, evzmq__monitor_on_turn, monitor);
    if (monitor->stopped == NULL || monitor->turn == NULL ||
        evzmq__timer_stand(monitor->turn) < 0) {
        errno = ENOMEM;
        goto fail_base;
    }
    if (start(monitor, zmq_context, zmq_socket) < 0) {
        goto fail_base;
    }
    return monitor;

fail_base:;
    const int error = errno;
    evzmq__timer_free(monitor->turn);
    evzmq__free(monitor->stopped);
    evzmq__base_release(monitor->base);
    errno = error;
fail_monitor:
    evzmq__free(monitor);
    return NULL;
}

static int check(const struct evzmq_monitor *monitor)
{
    if (monitor == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (evzmq__base_check(monitor->base) < 0) {
        return -1;
    }
    return 0;
}

int evzmq_monitor_stop(struct evzmq_monitor *monitor)
{
    if (check(monitor) < 0) {
        return -1;
    }
    if (monitor->zmq_socket == NULL) {
        return 0;
    }
    /* Another monitor may have taken over the socket, and would be the one that is stopped below.
     * libzmq said so to this one. */
    evzmq__monitor_catch_up(monitor);
    if (monitor->zmq_socket == NULL) {
        return 0;
    }
    /* In a terminated context libzmq has stopped by itself, and the reader will hear of it. */
    if (zmq_socket_monitor(monitor->zmq_socket, NULL, 0) < 0 && errno != ETERM) {
        return -1;
    }
    evzmq__monitor_forget_socket(monitor);
    return 0; /* The reader is woken by the last event, as by any other. */
}

/* Reads what is there. Returns whether the last event was among it, or none can come any more. */
static bool read_to_end(void *pair, int flags)
{
    bool ended = false;
    zmq_msg_t part;
    (void)zmq_msg_init(&part);
    for (int reads = 0; !ended && (reads < EVZMQ__MONITOR_READS_MAX || flags == 0); reads++) {
        const int size = zmq_msg_recv(&part, pair, flags);
        if (size < 0 && errno != EINTR) {
            ended = errno != EAGAIN;
            break;
        }
        ended = size == (int)EVZMQ__MONITOR_HEADER_SIZE && zmq_msg_more(&part) != 0 &&
                evzmq__monitor_type_of(zmq_msg_data(&part)) == EVZMQ_MONITOR_STOPPED;
    }
    (void)zmq_msg_close(&part);
    return ended;
}

static void *outlive(void *pair)
{
    (void)read_to_end(pair, 0);
    (void)zmq_close(pair);
    return NULL;
}

/* The monitored socket was closed and lingers: libzmq goes on sending events, and would hang
 * without a reader. So the reader stays until the last event, away from the loop. */
static void outlive_lingering_socket(void *pair)
{
    sigset_t all;
    sigset_t before;
    pthread_t thread;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's threads' */
    const int result = pthread_create(&thread, NULL, outlive, pair);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result == 0) {
        (void)pthread_detach(thread);
    } else {
        (void)outlive(pair);
    }
}

/* Stops libzmq where it has not stopped, then closes the reader. */
static void finish(struct evzmq_monitor *monitor)
{
    if (monitor->reader == NULL) {
        return;
    }
    void *zmq_socket = monitor->zmq_socket;
    const bool is_attached = zmq_socket != NULL && evzmq__is_attached(zmq_socket);
    evzmq__monitor_forget_socket(monitor);
    void *pair = evzmq__monitor_release_reader(monitor);
    bool ended = zmq_socket == NULL || read_to_end(pair, ZMQ_DONTWAIT);
    if (!ended && !is_attached) {
        zmq_pollitem_t item = {.socket = pair, .events = ZMQ_POLLIN};
        (void)zmq_poll(&item, 1, CLOSED_WAIT_MS);
        ended = read_to_end(pair, ZMQ_DONTWAIT);
    }
    if (!ended && zmq_socket_monitor(zmq_socket, NULL, 0) < 0 && errno == ENOTSOCK) {
        outlive_lingering_socket(pair);
        return;
    }
    (void)zmq_close(pair);
}

void evzmq_monitor_free(struct evzmq_monitor *monitor)
{
    if (monitor == NULL || evzmq__base_is_foreign(monitor->base)) {
        return;
    }
    monitor->dying = true;
    evzmq__timer_free(monitor->turn);
    if (!evzmq__base_is_stale(monitor->base)) {
        finish(monitor);
    } else {
        evzmq__monitor_forget_socket(monitor);
        evzmq_socket_free(monitor->reader);
    }
    evzmq__monitor_discard(monitor);
    evzmq__free(monitor->stopped);
    evzmq__monitor_unref(monitor);
}

int evzmq_monitor_disable(struct evzmq_monitor *monitor)
{
    if (check(monitor) < 0) {
        return -1;
    }
    monitor->enabled = false;
    return 0;
}

int evzmq_monitor_enable(struct evzmq_monitor *monitor)
{
    if (check(monitor) < 0) {
        return -1;
    }
    monitor->enabled = true;
    evzmq__monitor_schedule(monitor);
    if (monitor->first != NULL && !monitor->scheduled) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

int evzmq_monitor_set_limit(struct evzmq_monitor *monitor, size_t events)
{
    if (check(monitor) < 0) {
        return -1;
    }
    monitor->queued_max = events != 0 ? events : EVZMQ_MONITOR_QUEUE_DEFAULT;
    return 0;
}

int evzmq_monitor_get_stats(const struct evzmq_monitor *monitor, struct evzmq_monitor_stats *out)
{
    if (monitor == NULL || out == NULL || out->size < sizeof(out->size)) {
        errno = EINVAL;
        return -1;
    }
    const uint64_t wakeups = monitor->reader != NULL ? monitor->reader->counters.wakeups : 0;
    struct evzmq_monitor_stats all = {
        .received = monitor->received,
        .delivered = monitor->delivered,
        .dropped = monitor->dropped,
        .accept_failed_dropped = monitor->accept_failed_dropped,
        .wakeups = monitor->wakeups + wakeups,
        .queued = monitor->queued,
    };
    all.size = out->size < sizeof(all) ? out->size : sizeof(all);
    memcpy(out, &all, all.size);
    return 0;
}
