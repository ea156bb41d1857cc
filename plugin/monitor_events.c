/*
 * monitor_events.c (L5): a monitor's events, from libzmq's frames to the callback.
 *
 * Reading and calling back are apart, with a limited queue between them, so that a slow callback,
 * or none, never leaves events with libzmq, where they would have no limit.
 */
#include "monitor.h"

#include <assert.h>
#include <errno.h>

#include <event2/event.h>
#include <zmq.h>

#include "base.h"
#include "drain.h"

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

void evzmq__monitor_schedule(struct evzmq_monitor *monitor)
{
    const struct timeval no_delay = {0, 0};
    if (monitor->enabled && monitor->first != NULL && !monitor->scheduled) {
        monitor->scheduled = evzmq__timer_start(monitor->turn, &no_delay) == 0;
    }
}

/* The timer stands as long as there is a reader, or something to deliver: then it keeps no loop
 * running that would not run anyway. */
static void let_loop_end(struct evzmq_monitor *monitor)
{
    if (monitor->reader == NULL && !monitor->scheduled) {
        evzmq__timer_stop(monitor->turn);
    }
}

static void append(struct evzmq_monitor *monitor, struct evzmq__monitor_record *record)
{
    record->next = NULL;
    record->event.missed = monitor->missed;
    monitor->missed = 0;
    *monitor->last = record;
    monitor->last = &record->next;
    monitor->queued++;
    evzmq__monitor_schedule(monitor);
}

static struct evzmq__monitor_record *pop(struct evzmq_monitor *monitor)
{
    struct evzmq__monitor_record *record = monitor->first;
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
    struct evzmq__monitor_record *record = NULL;
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

/* libzmq has stopped, for whatever reason: nothing more will come. */
static void end(struct evzmq_monitor *monitor, int error)
{
    evzmq__monitor_forget_socket(monitor);
    (void)zmq_close(evzmq__monitor_release_reader(monitor));
    if ((monitor->events & EVZMQ_MONITOR_STOPPED) != 0) {
        struct evzmq__monitor_record *record = monitor->stopped;
        monitor->stopped = NULL;
        record->event = (struct evzmq_monitor_event){.size = sizeof(record->event),
                                                     .type = EVZMQ_MONITOR_STOPPED,
                                                     .fd = -1,
                                                     .error = error,
                                                     .endpoint = ""};
        append(monitor, record);
    }
    let_loop_end(monitor);
}

void evzmq__monitor_on_read(struct evzmq_socket *reader, struct evzmq_message *message, void *arg)
{
    (void)reader;
    struct evzmq_monitor *monitor = arg;
    size_t header_size = 0;
    size_t size = 0;
    const void *header = evzmq_message_get_part(message, 0, &header_size);
    const void *endpoint = evzmq_message_get_part(message, 1, &size);
    if (endpoint == NULL || header_size != EVZMQ__MONITOR_HEADER_SIZE) {
        return; /* not from libzmq */
    }
    monitor->received++;
    uint32_t value;
    memcpy(&value, (const char *)header + sizeof(uint16_t), sizeof(value));
    const unsigned type = evzmq__monitor_type_of(header);
    if (type == EVZMQ_MONITOR_STOPPED) {
        end(monitor, 0);
    } else {
        evzmq__monitor_track(monitor, type, value);
        note(monitor, type, value, endpoint, size);
    }
}

void evzmq__monitor_on_event(struct evzmq_socket *reader, const struct evzmq_event *event,
                             void *arg)
{
    (void)reader;
    if (event->type == EVZMQ_EVENT_TERMINATED) {
        end(arg, event->error);
    }
}

/* Whether the monitor goes on after its callback, which may have freed it, or forked and come back
 * in the child. */
static bool is_alive(const struct evzmq_monitor *monitor)
{
    return !monitor->dying && !evzmq__base_is_stale(monitor->base);
}

/* Delivers one event. */
static enum evzmq__step deliver_step(void *arg, size_t *out_bytes)
{
    struct evzmq_monitor *monitor = arg;
    if (!is_alive(monitor) || !monitor->enabled) {
        return EVZMQ__STEP_PAUSED;
    }
    if (evzmq__loop_is_breaking(monitor->base->event_base)) {
        return EVZMQ__STEP_BREAK;
    }
    struct evzmq__monitor_record *record = pop(monitor);
    if (record == NULL) {
        return EVZMQ__STEP_EMPTY;
    }
    *out_bytes = record->event.endpoint_size;
    monitor->delivered++;
    monitor->cb(monitor, &record->event, monitor->arg);
    evzmq__free(record);
    return EVZMQ__STEP_DONE;
}

void evzmq__monitor_on_turn(void *arg)
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
    if (is_alive(monitor)) {
        evzmq__monitor_schedule(monitor);
        let_loop_end(monitor);
    }
    evzmq__monitor_unref(monitor);
}

void evzmq__monitor_catch_up(struct evzmq_monitor *monitor)
{
    if (evzmq_socket_disable(monitor->reader, EV_READ) < 0) {
        return;
    }
    struct evzmq_message *message = NULL;
    for (int reads = 0; reads < EVZMQ__MONITOR_READS_MAX && monitor->reader != NULL &&
                        evzmq_socket_try_recv(monitor->reader, &message) == 0;
         reads++) {
        evzmq__monitor_on_read(monitor->reader, message, monitor);
        evzmq_message_free(message);
    }
    if (monitor->reader != NULL) {
        (void)evzmq_socket_enable(monitor->reader, EV_READ);
    }
}

void evzmq__monitor_discard(struct evzmq_monitor *monitor)
{
    struct evzmq__monitor_record *record;
    while ((record = pop(monitor)) != NULL) {
        evzmq__free(record);
    }
}
