/*
 * monitor.c (L5): see <evzmq/monitor.h>.
 *
 * Data flow: libzmq's I/O threads -> an inproc PAIR of libzmq's -> our PAIR, the reader, which is
 * an ordinary evzmq_socket -> on_read() -> a queue with a limit -> on_turn(), in the next turn of
 * the loop -> the callback. Reading and calling back are apart so that a slow callback, or none,
 * never leaves events with libzmq, where they would have no limit.
 *
 * What libzmq 4.3.4 demands, each found by a hang:
 * - Its PAIR sends without a time limit, on I/O threads, with a lock held. So the reader connects
 *   before the monitoring starts, has no high-water mark, and goes last, after
 *   zmq_socket_monitor(s, NULL, 0) or the event that says that libzmq stopped by itself.
 * - A reader of another context never meets that PAIR, and the first event would hang. So the
 *   context is checked first, with a monitor of no events, which sends nothing.
 * - That call needs a socket that still exists. `zmq_socket` is NULL from the moment it must not be
 *   made any more.
 */
#include <evzmq/monitor.h>

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

#include "base.h"
#include "drain.h"
#include "loop.h"
#include "registry.h"
#include "socket.h"

static_assert((unsigned)EVZMQ_MONITOR_CONNECTED == ZMQ_EVENT_CONNECTED &&
                  (unsigned)EVZMQ_MONITOR_CONNECT_DELAYED == ZMQ_EVENT_CONNECT_DELAYED &&
                  (unsigned)EVZMQ_MONITOR_CONNECT_RETRIED == ZMQ_EVENT_CONNECT_RETRIED &&
                  (unsigned)EVZMQ_MONITOR_LISTENING == ZMQ_EVENT_LISTENING &&
                  (unsigned)EVZMQ_MONITOR_BIND_FAILED == ZMQ_EVENT_BIND_FAILED &&
                  (unsigned)EVZMQ_MONITOR_ACCEPTED == ZMQ_EVENT_ACCEPTED &&
                  (unsigned)EVZMQ_MONITOR_ACCEPT_FAILED == ZMQ_EVENT_ACCEPT_FAILED &&
                  (unsigned)EVZMQ_MONITOR_CLOSED == ZMQ_EVENT_CLOSED &&
                  (unsigned)EVZMQ_MONITOR_CLOSE_FAILED == ZMQ_EVENT_CLOSE_FAILED &&
                  (unsigned)EVZMQ_MONITOR_DISCONNECTED == ZMQ_EVENT_DISCONNECTED &&
                  (unsigned)EVZMQ_MONITOR_STOPPED == ZMQ_EVENT_MONITOR_STOPPED &&
                  (unsigned)EVZMQ_MONITOR_HANDSHAKE_FAILED_NO_DETAIL ==
                      ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL &&
                  (unsigned)EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED == ZMQ_EVENT_HANDSHAKE_SUCCEEDED &&
                  (unsigned)EVZMQ_MONITOR_HANDSHAKE_FAILED_PROTOCOL ==
                      ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
                  (unsigned)EVZMQ_MONITOR_HANDSHAKE_FAILED_AUTH == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH,
              "the public numbers are libzmq's");

enum {
    /* The first part of an event: a 16-bit type and a 32-bit value, packed, in the host's order. */
    HEADER_SIZE = sizeof(uint16_t) + sizeof(uint32_t),
    NAME_SIZE = 80,
    /* How long a free waits for the word that a closed socket is gone. */
    CLOSED_WAIT_MS = 1,
    READS_MAX = 65536
};

struct record {
    struct record *next;
    struct evzmq_monitor_event event;
    char endpoint[]; /* 0-terminated */
};

struct evzmq_monitor {
    struct evzmq__base *base;
    struct evzmq_socket *reader; /* NULL once libzmq has stopped */
    void *pair; /* of the reader; NULL with it */
    void *zmq_socket; /* NULL once it must not be touched any more */
    struct evzmq__close_watch close_watch;
    struct evzmq__timer *turn;
    evzmq_monitor_cb cb;
    void *arg;
    unsigned events;
    unsigned references; /* the user's, and one for a delivery */

    struct record *first;
    struct record **last;
    size_t queued;
    size_t queued_max;
    struct record *stopped; /* the last event, which must not want for memory; NULL once queued */
    uint64_t missed; /* since the last event that was queued */

    uint64_t second_started; /* nanoseconds */
    unsigned accept_failed_in_second;

    bool enabled;
    bool scheduled;
    bool dying;
    uint64_t received;
    uint64_t delivered;
    uint64_t dropped;
    uint64_t accept_failed_dropped;
    uint64_t wakeups; /* of readers that are gone */
};

static void schedule(struct evzmq_monitor *monitor)
{
    const struct timeval no_delay = {0, 0};
    if (monitor->enabled && monitor->first != NULL && !monitor->scheduled) {
        monitor->scheduled = evzmq__timer_start(monitor->turn, &no_delay) == 0;
    }
}

static void append(struct evzmq_monitor *monitor, struct record *record)
{
    record->next = NULL;
    record->event.missed = monitor->missed;
    monitor->missed = 0;
    *monitor->last = record;
    monitor->last = &record->next;
    monitor->queued++;
    schedule(monitor);
}

static struct record *pop(struct evzmq_monitor *monitor)
{
    struct record *record = monitor->first;
    if (record != NULL) {
        monitor->first = record->next;
        monitor->queued--;
        if (monitor->first == NULL) {
            monitor->last = &monitor->first;
        }
    }
    return record;
}

/* Gives the number that comes with an event the name it has for that event. */
static void set_value(struct evzmq_monitor_event *event, uint32_t value)
{
    switch (event->type) {
    case EVZMQ_MONITOR_CONNECTED:
    case EVZMQ_MONITOR_LISTENING:
    case EVZMQ_MONITOR_ACCEPTED:
    case EVZMQ_MONITOR_CLOSED:
    case EVZMQ_MONITOR_DISCONNECTED:
        event->fd = (int)value;
        break;
    case EVZMQ_MONITOR_CONNECT_RETRIED:
        event->interval_ms = (int)value;
        break;
    case EVZMQ_MONITOR_HANDSHAKE_FAILED_PROTOCOL:
    case EVZMQ_MONITOR_HANDSHAKE_FAILED_AUTH:
        event->reason = value;
        break;
    case EVZMQ_MONITOR_CONNECT_DELAYED:
    case EVZMQ_MONITOR_BIND_FAILED:
    case EVZMQ_MONITOR_ACCEPT_FAILED:
    case EVZMQ_MONITOR_CLOSE_FAILED:
    case EVZMQ_MONITOR_HANDSHAKE_FAILED_NO_DETAIL:
        event->error = (int)value;
        break;
    default:
        break;
    }
}

/* Whether one more failure to accept is too much for this second. */
static bool is_above_rate(struct evzmq_monitor *monitor)
{
    const uint64_t now = evzmq__clock_ns();
    if (now - monitor->second_started >= UINT64_C(1000000000)) {
        monitor->second_started = now;
        monitor->accept_failed_in_second = 0;
    }
    if (monitor->accept_failed_in_second >= EVZMQ_MONITOR_ACCEPT_FAILED_PER_SECOND) {
        return true;
    }
    monitor->accept_failed_in_second++;
    return false;
}

static void drop(struct evzmq_monitor *monitor, uint64_t *counter)
{
    (*counter)++;
    monitor->missed++;
}

/* Queues an event for the callback. */
static void note(struct evzmq_monitor *monitor, unsigned type, uint32_t value, const void *endpoint,
                 size_t size)
{
    if ((monitor->events & type) == 0) {
        return;
    }
    if (type == EVZMQ_MONITOR_ACCEPT_FAILED && is_above_rate(monitor)) {
        drop(monitor, &monitor->accept_failed_dropped);
        return;
    }
    size = size < EVZMQ_MONITOR_ENDPOINT_MAX ? size : EVZMQ_MONITOR_ENDPOINT_MAX;
    struct record *record = NULL;
    if (monitor->queued < monitor->queued_max) {
        record = evzmq__calloc(1, sizeof(*record) + size + 1);
    }
    if (record == NULL) {
        drop(monitor, &monitor->dropped);
        return;
    }
    memcpy(record->endpoint, endpoint, size);
    record->event = (struct evzmq_monitor_event){.size = sizeof(record->event),
                                                 .type = (enum evzmq_monitor_event_type)type,
                                                 .fd = -1,
                                                 .endpoint = record->endpoint,
                                                 .endpoint_size = size};
    set_value(&record->event, value);
    append(monitor, record);
}

/* From here on the monitored socket is not touched any more. */
static void forget_socket(struct evzmq_monitor *monitor)
{
    if (monitor->zmq_socket != NULL) {
        monitor->zmq_socket = NULL;
        evzmq__unwatch_close(&monitor->close_watch);
    }
}

/* Takes the reader off the loop; its PAIR stays open. */
static void *release_reader(struct evzmq_monitor *monitor)
{
    void *pair = monitor->pair;
    monitor->wakeups += monitor->reader->counters.wakeups;
    evzmq_socket_free(monitor->reader);
    monitor->reader = NULL;
    monitor->pair = NULL;
    return pair;
}

/* libzmq has stopped, for whatever reason: nothing more will come. */
static void end(struct evzmq_monitor *monitor, int error)
{
    forget_socket(monitor);
    (void)zmq_close(release_reader(monitor));
    if ((monitor->events & EVZMQ_MONITOR_STOPPED) != 0) {
        struct record *record = monitor->stopped;
        monitor->stopped = NULL;
        record->event = (struct evzmq_monitor_event){.size = sizeof(record->event),
                                                     .type = EVZMQ_MONITOR_STOPPED,
                                                     .fd = -1,
                                                     .error = error,
                                                     .endpoint = ""};
        append(monitor, record);
    }
}

static unsigned type_of(const void *header)
{
    uint16_t type;
    memcpy(&type, header, sizeof(type));
    return type;
}

static void on_read(struct evzmq_socket *reader, struct evzmq_message *message, void *arg)
{
    (void)reader;
    struct evzmq_monitor *monitor = arg;
    size_t header_size = 0;
    size_t size = 0;
    const void *header = evzmq_message_get_part(message, 0, &header_size);
    const void *endpoint = evzmq_message_get_part(message, 1, &size);
    if (endpoint == NULL || header_size != HEADER_SIZE) {
        return; /* not from libzmq */
    }
    monitor->received++;
    uint32_t value;
    memcpy(&value, (const char *)header + sizeof(uint16_t), sizeof(value));
    const unsigned type = type_of(header);
    if (type == EVZMQ_MONITOR_STOPPED) {
        end(monitor, 0);
    } else {
        note(monitor, type, value, endpoint, size);
    }
}

static void on_event(struct evzmq_socket *reader, const struct evzmq_event *event, void *arg)
{
    (void)reader;
    if (event->type == EVZMQ_EVENT_TERMINATED) {
        end(arg, event->error);
    }
}

static void unref(struct evzmq_monitor *monitor)
{
    if (--monitor->references == 0) {
        struct evzmq__base *base = monitor->base;
        evzmq__free(monitor);
        evzmq__base_release(base);
    }
}

/* Delivers one event. */
static enum evzmq__step deliver_step(void *arg, size_t *out_bytes)
{
    struct evzmq_monitor *monitor = arg;
    if (monitor->dying || !monitor->enabled) {
        return EVZMQ__STEP_PAUSED;
    }
    if (evzmq__loop_is_breaking(monitor->base->event_base)) {
        return EVZMQ__STEP_BREAK;
    }
    struct record *record = pop(monitor);
    if (record == NULL) {
        return EVZMQ__STEP_EMPTY;
    }
    *out_bytes = record->event.endpoint_size;
    monitor->delivered++;
    monitor->cb(monitor, &record->event, monitor->arg);
    evzmq__free(record);
    return EVZMQ__STEP_DONE;
}

static void on_turn(void *arg)
{
    static const struct evzmq__budget budget = {.messages = EVZMQ__BUDGET_MESSAGES,
                                                .bytes = EVZMQ__BUDGET_BYTES,
                                                .usec = EVZMQ__BUDGET_USEC};
    struct evzmq_monitor *monitor = arg;
    monitor->scheduled = false;
    if (evzmq__base_is_stale(monitor->base)) {
        return;
    }
    monitor->references++;
    monitor->base->depth++;
    struct evzmq__meter meter;
    evzmq__meter_start(&meter, &budget, evzmq__clock_ns(), evzmq__clock_ns);
    (void)evzmq__drain_run(&meter, deliver_step, monitor);
    monitor->base->depth--;
    if (!monitor->dying) {
        schedule(monitor);
    }
    unref(monitor);
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
    if (pair != NULL) {
        (void)zmq_setsockopt(pair, ZMQ_RCVHWM, &zero, sizeof(zero));
        (void)zmq_setsockopt(pair, ZMQ_LINGER, &zero, sizeof(zero));
    }
    return pair;
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
    int result = zmq_socket_monitor(zmq_socket, name, 0);
    int error = errno;
    if (result == 0) {
        result = zmq_bind(probe, name) < 0 && errno == EADDRINUSE ? 0 : -1;
        error = EINVAL;
        (void)zmq_socket_monitor(zmq_socket, NULL, 0);
    }
    (void)zmq_close(probe);
    errno = error;
    return result;
}

/* Makes the reader and starts the monitoring. Returns 0, or -1 with errno. */
static int start(struct evzmq_monitor *monitor, void *zmq_context, void *zmq_socket)
{
    char name[NAME_SIZE];
    make_name(name);
    monitor->pair = open_pair(zmq_context);
    if (monitor->pair == NULL) {
        return -1;
    }
    if (zmq_connect(monitor->pair, name) < 0) {
        goto fail_pair;
    }
    monitor->reader = evzmq_socket_new(monitor->base->event_base, monitor->pair, 0);
    if (monitor->reader == NULL) {
        goto fail_pair;
    }
    evzmq_socket_setcb(monitor->reader, on_read, NULL, on_event, monitor);
    if (evzmq_socket_enable(monitor->reader, EV_READ) < 0 ||
        evzmq__watch_close(&monitor->close_watch, zmq_socket) < 0) {
        goto fail_reader;
    }
    monitor->zmq_socket = zmq_socket;
    if (zmq_socket_monitor(zmq_socket, name, (int)(monitor->events | EVZMQ_MONITOR_STOPPED)) < 0) {
        goto fail_watch;
    }
    return 0;

fail_watch:;
    int error = errno;
    forget_socket(monitor);
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
    monitor->turn = evzmq__timer_new(base, on_turn, monitor);
    if (monitor->stopped == NULL || monitor->turn == NULL) {
        errno = ENOMEM;
        goto fail_base;
    }
    if (check_context(zmq_context, zmq_socket) < 0 || start(monitor, zmq_context, zmq_socket) < 0) {
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
    /* In a terminated context libzmq has stopped by itself, and the reader will hear of it. */
    if (zmq_socket_monitor(monitor->zmq_socket, NULL, 0) < 0 && errno != ETERM) {
        return -1;
    }
    forget_socket(monitor);
    (void)evzmq_socket_touch(monitor->reader);
    return 0;
}

/* Reads what is there. Returns whether the last event was among it, or none can come any more. */
static bool read_to_end(void *pair, int flags)
{
    bool ended = false;
    zmq_msg_t part;
    (void)zmq_msg_init(&part);
    for (int reads = 0; !ended && (reads < READS_MAX || flags == 0); reads++) {
        const int size = zmq_msg_recv(&part, pair, flags);
        if (size < 0 && errno != EINTR) {
            ended = errno != EAGAIN;
            break;
        }
        ended = size == HEADER_SIZE && zmq_msg_more(&part) != 0 &&
                type_of(zmq_msg_data(&part)) == EVZMQ_MONITOR_STOPPED;
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
    forget_socket(monitor);
    void *pair = release_reader(monitor);
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
        forget_socket(monitor);
        evzmq_socket_free(monitor->reader);
    }
    struct record *record;
    while ((record = pop(monitor)) != NULL) {
        evzmq__free(record);
    }
    evzmq__free(monitor->stopped);
    unref(monitor);
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
    schedule(monitor);
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
