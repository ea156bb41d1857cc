/*
 * subscriber.h (L6): the inside of a subscriber, shared by the files that make it up.
 *
 *     subscriber.c           made and freed, callbacks, subscriptions, statistics
 *     subscriber_deliver.c   from frames to records to the callback
 *     subscriber_latest.c    the latest record of each topic, where they conflate
 *     prefixes.c             which topics are subscribed to
 *
 *     a frame    on_frame    read record by record in libzmq's memory
 *                            budget spent, disabled, no room: kept, reading stops   held
 *     a record   store       conflating: its topic's place, until the next turn
 *                deliver     decoded, and given to the callback
 *     a timer    on_turn     places, then the rest of what is held, then reading goes on
 *
 * The budget of a pass counts messages, and a message may be a batch of very many records. So
 * records have a meter of their own, one for all frames of a pass and started anew with each pass
 * and turn.
 *
 * Every callback may free the subscriber: after each is_alive() is asked before anything else.
 */
#ifndef EVZMQ_PLUGIN_SUBSCRIBER_H
#define EVZMQ_PLUGIN_SUBSCRIBER_H

#include <evzmq/pubsub.h>

#include "prefixes.h"
#include "pubframe.h"
#include "socket.h"

/* The latest record of a topic. */
struct evzmq__latest {
    struct evzmq__table_node node;
    struct evzmq__latest *prev; /* in the order in which their topics came */
    struct evzmq__latest *next;
    struct evzmq__topic topic;
    bool is_known; /* the topic is the record's own */
    unsigned char *bytes;
    size_t size;
    size_t capacity;
};

struct evzmq__latests {
    struct evzmq__table table;
    struct evzmq__latest *first;
    struct evzmq__latest *last;
    size_t count;
};

/* struct evzmq_subscriber_stats without its gauges. */
struct evzmq__subscriber_counters {
    uint64_t frames;
    uint64_t batches;
    uint64_t bad_frames;
    uint64_t records;
    uint64_t records_bad;
    uint64_t records_empty;
    uint64_t records_conflated;
    uint64_t records_filtered;
    uint64_t records_lost;
};

struct evzmq_subscriber {
    struct evzmq_socket *socket; /* NULL once freed */
    struct evzmq__timer *timer;
    struct evzmq_codec *codec;
    struct evzmq_arena *arena; /* of the record in delivery */
    struct evzmq_message *view; /* the record in delivery, as a message */
    unsigned references; /* the user's, and one for a delivery on the stack */
    bool dying;
    bool enabled;
    bool timer_runs;
    bool unsubscribed; /* since the last frame came: libzmq may have let the next one in before */
    bool checks_frame; /* the frame at hand came first after that */
    struct evzmq_subscriber_options options;

    evzmq_record_cb record_cb;
    evzmq_subscriber_event_cb event_cb;
    void *arg;
    evzmq_topic_cb topic_cb;
    void *topic_arg;

    struct evzmq__prefixes prefixes;

    /* The frame that is being read. */
    struct evzmq__frame_reader reader;
    struct evzmq__topic topic;
    struct evzmq_message *held; /* it, where it was not read to its end in its pass; else NULL */

    struct evzmq__latests latests;
    struct evzmq__meter meter;
    uint64_t pass; /* the socket's counter of passes when the meter was started */
    struct evzmq__subscriber_counters counters;
};

/* Whether a subscriber may go on after a callback: not freed, and not in a forked child. */
static inline bool evzmq__subscriber_is_alive(const struct evzmq_subscriber *subscriber)
{
    return !subscriber->dying && evzmq__socket_is_alive(subscriber->socket);
}

/* subscriber.c */

/* Has the socket receive, or not. */
void evzmq__subscriber_update_reading(struct evzmq_subscriber *subscriber);

void evzmq__subscriber_report(struct evzmq_subscriber *subscriber, const struct evzmq_event *event);

/* subscriber_deliver.c */

/* A frame was received. */
void evzmq__subscriber_take_frame(struct evzmq_subscriber *subscriber, struct evzmq_message *frame);

/* A turn of the loop for what waits. */
void evzmq__subscriber_turn(struct evzmq_subscriber *subscriber);

/* Has the next turn of the loop look at what waits, if something does and may go on. Returns 0, or
 * -1 with ENOMEM. */
int evzmq__subscriber_attend(struct evzmq_subscriber *subscriber);

/* References, for whoever must find the struct in place after a callback. */
void evzmq__subscriber_ref(struct evzmq_subscriber *subscriber);
void evzmq__subscriber_unref(struct evzmq_subscriber *subscriber);

/* Gives one record to the callback. It may free the subscriber. */
void evzmq__subscriber_deliver(struct evzmq_subscriber *subscriber,
                               const struct evzmq__topic *topic, const void *data, size_t size);

/* subscriber_latest.c */

enum evzmq__store { EVZMQ__STORED, EVZMQ__STORE_FULL, EVZMQ__STORE_NOMEM };

/* Keeps a record in the place of its topic. */
enum evzmq__store evzmq__latests_store(struct evzmq_subscriber *subscriber,
                                       const struct evzmq__topic *topic, bool is_known,
                                       const struct evzmq_bytes *record);

/* Takes out what came first. The caller frees it. */
struct evzmq__latest *evzmq__latests_pop(struct evzmq__latests *latests);
void evzmq__latest_free(struct evzmq__latest *latest);
void evzmq__latests_clear(struct evzmq__latests *latests);

#endif /* EVZMQ_PLUGIN_SUBSCRIBER_H */
