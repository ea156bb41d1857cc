/*
 * monitor.h: what the two sides of a monitor share. monitor.c starts and ends the monitoring,
 * monitor_events.c reads the events and gives them to the callback.
 */
#ifndef EVZMQ_PLUGIN_MONITOR_H
#define EVZMQ_PLUGIN_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <evzmq/monitor.h>

#include "loop.h"
#include "registry.h"
#include "socket.h"

/* The first part of an event: a 16-bit type and a 32-bit value, packed, in the host's order. */
#define EVZMQ__MONITOR_HEADER_SIZE (sizeof(uint16_t) + sizeof(uint32_t))
/* How many events are read at once outside the loop. */
#define EVZMQ__MONITOR_READS_MAX 65536

struct evzmq__monitor_record {
    struct evzmq__monitor_record *next;
    struct evzmq_monitor_event event;
    char endpoint[]; /* 0-terminated */
};

/* What is looked at whatever the user asked for. */
#define EVZMQ__MONITOR_PEER_EVENTS                                                                 \
    (EVZMQ_MONITOR_CONNECTED | EVZMQ_MONITOR_ACCEPTED | EVZMQ_MONITOR_DISCONNECTED |               \
     EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED | EVZMQ_MONITOR_HANDSHAKE_FAILED_NO_DETAIL |                \
     EVZMQ_MONITOR_HANDSHAKE_FAILED_PROTOCOL | EVZMQ_MONITOR_HANDSHAKE_FAILED_AUTH)

/* The connections of the monitored socket. */
struct evzmq__monitor_peers {
    uint64_t connected;
    uint64_t ready; /* of these, those whose handshake succeeded */
    uint64_t failed; /* and those whose handshake failed, not yet disconnected */
    unsigned failure; /* the event of the last failed handshake since one succeeded; or 0 */
    unsigned reason; /* of that; means nothing without one */
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
    struct evzmq__monitor_peers peers;
    unsigned references; /* the user's, and one for a delivery */

    struct evzmq__monitor_record *first;
    struct evzmq__monitor_record **last;
    size_t queued;
    size_t queued_max;
    struct evzmq__monitor_record
        *stopped; /* the last event, which must not want for memory; NULL once queued */
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

/* The type of an event, from its first part. */
static inline unsigned evzmq__monitor_type_of(const void *header)
{
    uint16_t type;
    memcpy(&type, header, sizeof(type));
    return type;
}

/* monitor.c */

/* From here on the monitored socket is not touched any more. */
void evzmq__monitor_forget_socket(struct evzmq_monitor *monitor);

/* Takes the reader off the loop; its PAIR stays open. */
void *evzmq__monitor_release_reader(struct evzmq_monitor *monitor);

/* Gives a reference back. */
void evzmq__monitor_unref(struct evzmq_monitor *monitor);

/* monitor_events.c */

/* The callbacks of the reader and of the timer. */
void evzmq__monitor_on_read(struct evzmq_socket *reader, struct evzmq_message *message, void *arg);
void evzmq__monitor_on_event(struct evzmq_socket *reader, const struct evzmq_event *event,
                             void *arg);
void evzmq__monitor_on_turn(void *arg);

/* Arranges that events which wait are delivered, unless it is disabled. */
void evzmq__monitor_schedule(struct evzmq_monitor *monitor);

/* Reads what libzmq has sent so far, without waiting for the loop to do it. */
void evzmq__monitor_catch_up(struct evzmq_monitor *monitor);

/* Frees the events that wait. */
void evzmq__monitor_discard(struct evzmq_monitor *monitor);

/* monitor_peers.c */

/* Takes note of an event, whether or not it is delivered. */
void evzmq__monitor_track(struct evzmq_monitor *monitor, unsigned type, uint32_t value);

#endif /* EVZMQ_PLUGIN_MONITOR_H */
