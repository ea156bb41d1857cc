/*
 * publisher.h (L6): the inside of a publisher, shared by the files that make it up.
 *
 *     publisher.c       made and freed, callbacks, publishing, shutdown, statistics
 *     publisher_send.c  batches that are begun, and frames
 *
 * A record goes straight into a frame, or into the batch of its topic; a batch goes out as a frame
 * when it has enough records, when the next one does not fit, when its time comes, and when it is
 * told to. What the socket refuses stays where it is: the batch is blocked, and so are those who
 * add to it, until the socket's write callback. So a publisher holds as much as its batches may
 * hold, and no more.
 */
#ifndef EVZMQ_PLUGIN_PUBLISHER_H
#define EVZMQ_PLUGIN_PUBLISHER_H

#include <evzmq/pubsub.h>

#include "batch.h"
#include "socket.h"

/* struct evzmq_publisher_stats without its gauges and what the socket counts. */
struct evzmq__publisher_counters {
    uint64_t records;
    uint64_t record_bytes;
    uint64_t records_refused;
    uint64_t records_after_shutdown;
    uint64_t frames;
    uint64_t batches;
    uint64_t batched_records;
    uint64_t flushed_by_count;
    uint64_t flushed_by_bytes;
    uint64_t flushed_by_time;
    uint64_t flushed_by_call;
    uint64_t subscriptions;
    uint64_t ignored;
};

struct evzmq_publisher {
    struct evzmq_socket *socket;
    struct evzmq__timer *timer;
    struct evzmq_codec *codec;
    struct evzmq_publisher_options options; /* with the defaults filled in */

    evzmq_publisher_write_cb write_cb;
    evzmq_subscription_cb subscription_cb;
    evzmq_publisher_event_cb event_cb;
    void *arg;

    struct evzmq__table batches; /* those begun, by topic; unused with one for all */
    struct evzmq__batch *first; /* those begun, in the order of their times */
    struct evzmq__batch *last;
    struct evzmq__batch *spare; /* not in use; its memory is worth keeping */
    size_t pending_records;
    size_t pending_bytes;
    size_t pending_topics;
    size_t full; /* batches that would have gone if they could */

    bool timer_runs;
    bool blocked; /* the socket refused a frame: its write callback will come */
    bool refused; /* a record was refused: ours is due then */
    bool ending;
    evzmq_publisher_shutdown_cb shutdown_cb;
    void *shutdown_arg;
    uint64_t messages_out_before; /* the socket's counter when the shutdown began */
    struct evzmq__publisher_counters counters;
};

/* The bytes of a record, or the value they are encoded from. */
struct evzmq__record_source {
    const void *data;
    const void *value; /* or NULL */
    size_t size; /* of the bytes */
};

/* Sends a record alone. Returns 0, or -1 with errno. */
int evzmq__publisher_send_alone(struct evzmq_publisher *publisher, const char *topic,
                                size_t topic_size, const struct evzmq__record_source *source);

/* Adds a record to its batch, or sends it alone where it is too large for one. Returns 0, or -1
 * with errno. */
int evzmq__publisher_add(struct evzmq_publisher *publisher, const char *topic, size_t topic_size,
                         const struct evzmq__record_source *source);

/* Sends all batches that are begun. Returns 0, or -1 with errno when some stay. */
int evzmq__publisher_flush(struct evzmq_publisher *publisher);

/* The same, whatever the limits of the socket's queue. Returns 0, or -1 with errno. */
int evzmq__publisher_flush_by_force(struct evzmq_publisher *publisher);

/* Sends the batches whose time has come, some in each turn of the loop, and arranges the next time.
 */
void evzmq__publisher_tick(struct evzmq_publisher *publisher);

/* Frees all batches, with what is in them. */
void evzmq__publisher_discard(struct evzmq_publisher *publisher);

#endif /* EVZMQ_PLUGIN_PUBLISHER_H */
