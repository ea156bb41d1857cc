/**
 * @file pubsub.h
 * Publishing and subscribing: records under topics, many of them in one frame.
 *
 * On the wire a record is one ZeroMQ part: its topic, filled up with 0 to EVZMQ_TOPIC_BYTES bytes,
 * then its bytes. Several records that waited for each other make one part, a batch, in one of two
 * ways:
 *
 * - EVZMQ_BATCH_SHARED: the topic is "batch" and what follows is a msgpack array of the records as
 *   bin. The topics of the records are not on the wire, so that every subscriber gets every batch.
 * - EVZMQ_BATCH_PER_TOPIC: the batch holds records of one topic, goes out under that topic, and is
 *   marked as a batch by a 1 in the last byte of the topic. ZeroMQ filters it as it does the
 *   record alone. Only evzmq reads these.
 *
 * A record that is alone when its time comes goes out as a record, not as a batch of one, in both.
 *
 * What gets lost. A subscriber gets what is published after its subscription reached the publisher,
 * and nothing of before: on an XPUB socket the subscription callback says when that is. A
 * subscriber that does not keep up loses records on the publisher's side (EVZMQ_FULL_SHED) or holds
 * up the publisher (EVZMQ_FULL_WAIT). There is no room for a sequence number in the format, so that
 * a subscriber cannot count what it did not get.
 *
 * Topics are text of 1 to EVZMQ_TOPIC_BYTES bytes (two less with EVZMQ_BATCH_PER_TOPIC), and not
 * "batch". Whoever subscribes names a prefix, as ZeroMQ has it: "sample" matches "sample.issued".
 *
 * Callbacks run from the base's dispatch, never from inside a call of this header. They may call
 * anything, free their object included; after the free none of its callbacks runs.
 */
#ifndef EVZMQ_PUBSUB_H
#define EVZMQ_PUBSUB_H

#include <stddef.h>
#include <stdint.h>

#include <sys/time.h>

#include <evzmq/base.h>
#include <evzmq/codec.h>
#include <evzmq/message.h>
#include <evzmq/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

struct event_base;
struct evzmq_publisher;
struct evzmq_subscriber;

/** The bytes of a topic on the wire. */
#define EVZMQ_TOPIC_BYTES 40u

/** How records are put together. */
enum evzmq_batching {
    EVZMQ_BATCH_OFF = 0, /**< each record goes out at once, alone */
    EVZMQ_BATCH_SHARED, /**< one batch for all topics */
    EVZMQ_BATCH_PER_TOPIC /**< a batch for each topic */
};

/** What happens while a subscriber has not read what the high water mark of the ZeroMQ socket
 * (ZMQ_SNDHWM, in frames) allows it to be behind. */
enum evzmq_full_policy {
    /** That subscriber loses frames; the others do not notice. libzmq says when it begins to drop
     * for a subscriber and not how many frames it drops until it goes on, which is when the
     * subscriber has read half of what it was behind: evzmq_publisher_stats::sheds counts the
     * beginnings. */
    EVZMQ_FULL_SHED = 0,
    /** Nothing is dropped: frames wait in the socket's output queue for the slowest subscriber.
     * When that is full evzmq_publisher_publish() fails with EAGAIN. One subscriber that stopped
     * reading stops the publisher. */
    EVZMQ_FULL_WAIT
};

/** The default of evzmq_publisher_options::batch_records. */
#define EVZMQ_BATCH_RECORDS_DEFAULT 100u
/** The default of evzmq_publisher_options::batch_bytes. */
#define EVZMQ_BATCH_BYTES_DEFAULT (64u * 1024u)
/** The default of evzmq_publisher_options::batch_delay_usec. */
#define EVZMQ_BATCH_DELAY_USEC_DEFAULT 10000u
/** The default of evzmq_publisher_options::batch_topics. */
#define EVZMQ_BATCH_TOPICS_DEFAULT 1024u

/** For evzmq_publisher_options::batch_delay_usec: records wait until there are enough of them. */
#define EVZMQ_BATCH_DELAY_NONE UINT32_MAX

/** How a publisher works. 0 in a field means its default. */
struct evzmq_publisher_options {
    size_t size; /**< sizeof(struct evzmq_publisher_options) */
    enum evzmq_batching batching; /**< how records are put together */
    enum evzmq_full_policy when_full; /**< what a slow subscriber means */
    size_t batch_records; /**< a batch goes out when it has so many records */
    size_t batch_bytes; /**< the size of a frame, topic included, that a batch never exceeds: at
                           least 64 and less than 2 GiB. A larger record goes out alone. */
    uint32_t batch_delay_usec; /**< and at the latest so long after its first record came */
    size_t batch_topics; /**< EVZMQ_BATCH_PER_TOPIC: at most so many batches are begun at a time;
                            for the next one the oldest goes out */
    /** How many bytes of frames may wait for each subscriber: sets ZMQ_SNDHWM to this divided by
     * batch_bytes, at least 1, and refuses larger frames (EMSGSIZE), so that memory is bounded
     * whatever is published. It holds for connections of endpoints that are bound and connected
     * after evzmq_publisher_new(). The kernel's buffers come on top, and on inproc the subscriber's
     * own high water mark. 0: ZMQ_SNDHWM, a number of frames of any size, stays as it is: 1,000
     * by default, and no limit at all where the program set it to 0. */
    size_t subscriber_bytes;
};

/**
 * There is room again after evzmq_publisher_publish() failed with EAGAIN. Once for each such time,
 * however many calls failed.
 *
 * Runs in the loop thread from the base's dispatch. May call anything.
 */
typedef void (*evzmq_publisher_write_cb)(struct evzmq_publisher *publisher, void *arg);

/**
 * Somebody subscribed to a prefix that nobody was subscribed to, or the last one unsubscribed or
 * went away. XPUB sockets only; ZMQ_XPUB_VERBOSE makes it every subscription (zmq_setsockopt(3)).
 *
 * Runs in the loop thread from the base's dispatch. May call anything.
 *
 * @param subscribed  1, or 0 for the end of a subscription
 * @param prefix      @p size bytes that a peer chose, living until the callback returns
 */
typedef void (*evzmq_subscription_cb)(struct evzmq_publisher *publisher, int subscribed,
                                      const void *prefix, size_t size, void *arg);

/**
 * An event of the publisher's socket: see ::evzmq_event_type.
 *
 * Runs in the loop thread from the base's dispatch. May call anything.
 *
 * @param event  lives until the callback returns
 */
typedef void (*evzmq_publisher_event_cb)(struct evzmq_publisher *publisher,
                                         const struct evzmq_event *event, void *arg);

/** Counters of a publisher; gauges are marked so. */
struct evzmq_publisher_stats {
    size_t size; /**< set it to sizeof(struct evzmq_publisher_stats) before the call */
    uint64_t records; /**< accepted */
    uint64_t record_bytes; /**< of those, without topics */
    uint64_t records_refused; /**< failed with EAGAIN */
    uint64_t records_after_shutdown; /**< failed with ESHUTDOWN */
    uint64_t frames; /**< accepted by libzmq or queued: records alone and batches */
    uint64_t batches; /**< of those, the ones of several records */
    uint64_t batched_records; /**< in those */
    uint64_t flushed_by_count; /**< frames that went because batch_records was reached */
    uint64_t flushed_by_bytes; /**< because the next record did not fit */
    uint64_t flushed_by_time; /**< because batch_delay_usec had passed */
    uint64_t flushed_by_call; /**< by evzmq_publisher_flush() or _shutdown() */
    uint64_t sheds; /**< EVZMQ_FULL_SHED: times libzmq began to drop frames for at least one
                       subscriber, from the frame at hand on */
    uint64_t subscriptions; /**< XPUB: what the subscription callback is for */
    uint64_t ignored; /**< XPUB: messages from subscribers that are no subscriptions */
    uint64_t pending_records; /**< gauge: in batches that are begun */
    uint64_t pending_bytes; /**< gauge: of those */
    uint64_t pending_topics; /**< gauge: batches that are begun */
    uint64_t queued_frames; /**< gauge: in the socket's output queue */
    uint64_t queued_bytes; /**< gauge */
};

/**
 * Puts a PUB or XPUB socket on an event base as a publisher. It has an adapter of its own, whose
 * callbacks, codec and EV_READ belong to the publisher; see evzmq_publisher_get_socket().
 *
 * Sets ZMQ_XPUB_NODROP, without which libzmq says nothing of what it drops, and ZMQ_SNDHWM where
 * evzmq_publisher_options::subscriber_bytes wants it. An XPUB socket's subscriptions are received.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param base        the event base; must outlive the publisher
 * @param zmq_socket  a PUB or XPUB socket, best neither bound nor connected yet
 * @param options     of evzmq_socket_new(): 0 or EVZMQ_OPT_CLOSE_ON_FREE
 * @param how         NULL for the defaults
 * @return a publisher that the caller must free; or NULL with EINVAL (another type of socket, a
 * value in @p how that is none) and the errors of evzmq_socket_new(); then the socket is the
 * caller's, with ZMQ_XPUB_NODROP or ZMQ_SNDHWM perhaps changed
 */
EVZMQ_API struct evzmq_publisher *evzmq_publisher_new(struct event_base *base, void *zmq_socket,
                                                      unsigned options,
                                                      const struct evzmq_publisher_options *how);

/**
 * Frees a publisher at once. What is pending in batches or queued is discarded without a word: use
 * evzmq_publisher_shutdown() first. Cancels the callback of a pending shutdown.
 *
 * Thread: loop. Callbacks: yes. In a forked child: allowed; releases memory only.
 *
 * @param publisher  may be NULL
 */
EVZMQ_API void evzmq_publisher_free(struct evzmq_publisher *publisher);

/**
 * The publisher's adapter, for evzmq_socket_set_output_limit(), _set_output_watermark(),
 * _set_budget(), _priority_set(), _get_stats() and _get_zmq_socket(). Its callbacks and its codec
 * must be left alone, and it must not be freed, shut down or written to.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return never NULL for a publisher that is not NULL
 */
EVZMQ_API struct evzmq_socket *evzmq_publisher_get_socket(const struct evzmq_publisher *publisher);

/**
 * Sets the callbacks and their argument. Each may be NULL.
 *
 * Thread: loop. Callbacks: yes.
 */
EVZMQ_API void evzmq_publisher_setcb(struct evzmq_publisher *publisher,
                                     evzmq_publisher_write_cb write_cb,
                                     evzmq_subscription_cb subscription_cb,
                                     evzmq_publisher_event_cb event_cb, void *arg);

/**
 * Sets the codec of evzmq_publisher_publish_value().
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param codec  the publisher takes a reference of its own; NULL for the raw codec, the default
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_publisher_set_codec(struct evzmq_publisher *publisher,
                                        struct evzmq_codec *codec);

/**
 * Publishes a copy of some bytes. An empty record is sent, and dropped by subscribers.
 *
 * Success means: sent, queued, or in a batch that is begun. It never waits for subscribers, and
 * with EVZMQ_FULL_SHED it does not fail because of them.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param topic  0-terminated; see the top of this file
 * @param data   @p size bytes; may be NULL when @p size is 0
 * @return 0, or -1 with EINVAL (NULL, no topic that may be), EAGAIN (EVZMQ_FULL_WAIT, or EV_WRITE
 * disabled: the output queue is full; the write callback says when to go on), EMSGSIZE (larger than
 * batch_bytes, with evzmq_publisher_options::subscriber_bytes set; or so large that its size and
 * that of a topic add up to more than SIZE_MAX), ENOMEM, ESHUTDOWN, ETERM, ENOTSOCK, ECHILD; the
 * record was not taken then
 */
EVZMQ_API int evzmq_publisher_publish(struct evzmq_publisher *publisher, const char *topic,
                                      const void *data, size_t size);

/**
 * Publishes a value, encoded by the publisher's codec straight into the frame or the batch.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param value  of the codec's type
 * @return as evzmq_publisher_publish(); also ENOTSUP (a codec that does not encode), and what the
 * codec's encoder says: EINVAL, EOVERFLOW
 */
EVZMQ_API int evzmq_publisher_publish_value(struct evzmq_publisher *publisher, const char *topic,
                                            const void *value);

/**
 * Sends, or queues, all batches that are begun.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD, or EAGAIN or ENOMEM: those that could not
 * go stay, and go by themselves as soon as they can (where there was no memory for a timer either:
 * with the next call)
 */
EVZMQ_API int evzmq_publisher_flush(struct evzmq_publisher *publisher);

/**
 * A shutdown has ended. Runs once, in the loop thread from the base's dispatch. May call anything,
 * evzmq_publisher_free() included.
 *
 * @param handed_over      frames that went to ZeroMQ since the call of evzmq_publisher_shutdown();
 * what ZeroMQ does with them depends on its linger
 * @param not_handed_over  frames that were still queued at the deadline
 */
typedef void (*evzmq_publisher_shutdown_cb)(struct evzmq_publisher *publisher, uint64_t handed_over,
                                            uint64_t not_handed_over, void *arg);

/**
 * Ends a publisher in order: sends all batches that are begun, whatever the limits of the queue,
 * refuses later records (ESHUTDOWN, counted) and reports when the queue is empty or the deadline
 * has passed. Frees nothing.
 *
 * Thread: loop. Callbacks: yes. A second call does nothing and returns 0.
 *
 * @param deadline  relative to now; NULL for none, {0, 0} to report in the next turn of the loop
 * @param done_cb   may be NULL
 * @return 0, or -1 with EINVAL, ENOMEM (nothing was shut down; call again), ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_publisher_shutdown(struct evzmq_publisher *publisher,
                                       const struct timeval *deadline,
                                       evzmq_publisher_shutdown_cb done_cb, void *arg);

/**
 * Copies the counters of a publisher.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param out  with its size set; a program built with an older, shorter struct gets the fields it
 * knows
 * @return 0, or -1 with EINVAL (NULL, or a size that is too small)
 */
EVZMQ_API int evzmq_publisher_get_stats(const struct evzmq_publisher *publisher,
                                        struct evzmq_publisher_stats *out);

/** How many topics of a conflating subscriber wait for delivery at most, by default. */
#define EVZMQ_CONFLATE_TOPICS_DEFAULT 1024u

/** How a subscriber works. 0 in a field means its default. */
struct evzmq_subscriber_options {
    size_t size; /**< sizeof(struct evzmq_subscriber_options) */
    /** Not 0: of each topic only the latest record is delivered. All that has arrived, as far as
     * the socket's read budget goes, is received first; a record that is followed by another one of
     * its topic before its delivery is dropped and counted. It goes on while the subscriber is
     * disabled. Not done by ZMQ_CONFLATE, which keeps one message in all, whatever its topic. */
    int conflate;
    size_t conflate_topics; /**< so many topics may wait, each with a copy of its record; for more,
                               reading stops until they are delivered */
    /** Not 0: batches of EVZMQ_BATCH_SHARED are not subscribed to. By default they are, with the
     * first subscription, since any of them may hold a record of its topics. */
    int no_shared_batches;
};

/**
 * One record.
 *
 * Runs in the loop thread from the base's dispatch, never from inside a call of this library but
 * evzmq_socket_recv(). May call anything.
 *
 * @param topic       its topic without the padding, 0-terminated, living until the callback
 * returns; "batch" for a record of a shared batch whose topic nobody knows (see
 * evzmq_subscriber_set_topic_cb())
 * @param topic_size  bytes of the topic. A peer may choose any, with 0 among them.
 * @param message     the record as a message of one part, lent until the callback returns:
 * evzmq_msgpack_value(), evzmq_record_value() and evzmq_message_get_value() give its value
 */
typedef void (*evzmq_record_cb)(struct evzmq_subscriber *subscriber, const char *topic,
                                size_t topic_size, struct evzmq_message *message, void *arg);

/**
 * An event of the subscriber's socket, or EVZMQ_EVENT_DECODE_ERROR:
 * - a frame without a topic (EVZMQ_DECODE_TRUNCATED), or of parts other than a topic of up to
 *   EVZMQ_TOPIC_BYTES bytes and a record (EVZMQ_DECODE_LENGTH); the message is the frame;
 * - a batch that is broken somewhere: the records before were delivered, those behind are lost;
 *   the message is the frame, the offset counts in it;
 * - a record that the codec refuses, alone or in a batch: those behind it are delivered; the
 *   message is the record.
 * EVZMQ_EVENT_ERROR with ENOMEM may mean that records were lost: evzmq_subscriber_stats counts.
 *
 * Runs in the loop thread from the base's dispatch. May call anything.
 *
 * @param event  lives until the callback returns
 */
typedef void (*evzmq_subscriber_event_cb)(struct evzmq_subscriber *subscriber,
                                          const struct evzmq_event *event, void *arg);

/**
 * Tells the topic of a record from its bytes, for records of shared batches, which come without.
 *
 * Runs in the middle of a delivery; must not call anything of this library but codecs without a
 * socket.
 *
 * @param data       the record
 * @param out_topic  a topic; copied right after the call
 * @param out_size   its size, at most EVZMQ_TOPIC_BYTES
 * @return 0, or -1 when it cannot be told
 */
typedef int (*evzmq_topic_cb)(const void *data, size_t size, const void **out_topic,
                              size_t *out_size, void *arg);

/** Counters of a subscriber; gauges are marked so. */
struct evzmq_subscriber_stats {
    size_t size; /**< set it to sizeof(struct evzmq_subscriber_stats) before the call */
    uint64_t frames; /**< received */
    uint64_t batches; /**< of those */
    uint64_t bad_frames; /**< frames without a topic, and batches that were broken */
    uint64_t records; /**< delivered to the record callback */
    uint64_t records_bad; /**< refused by the codec */
    uint64_t records_empty; /**< dropped, since the format has it so */
    uint64_t records_conflated; /**< dropped for a later one of the same topic */
    uint64_t records_filtered; /**< dropped: their topic, told by the topic callback or known since
                                  they were received, is not subscribed to */
    uint64_t records_lost; /**< for want of memory; the rest of a broken batch is not counted */
    uint64_t subscriptions; /**< gauge: different prefixes */
    uint64_t waiting; /**< gauge: records received, or begun to be, that wait for a later turn of
                         the loop or for evzmq_subscriber_enable() */
};

/**
 * Puts a SUB socket on an event base as a subscriber: enabled, with no subscription. It has an
 * adapter of its own, whose callbacks, codec and EV_READ belong to the subscriber.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param base        the event base; must outlive the subscriber
 * @param zmq_socket  a SUB socket without subscriptions
 * @param options     of evzmq_socket_new(): 0 or EVZMQ_OPT_CLOSE_ON_FREE
 * @param how         NULL for the defaults
 * @return a subscriber that the caller must free; or NULL with EINVAL (another type of socket, a
 * wrong size in @p how) and the errors of evzmq_socket_new()
 */
EVZMQ_API struct evzmq_subscriber *evzmq_subscriber_new(struct event_base *base, void *zmq_socket,
                                                        unsigned options,
                                                        const struct evzmq_subscriber_options *how);

/**
 * Frees a subscriber at once, with the records it holds.
 *
 * Thread: loop. Callbacks: yes, also its own, in the middle of a batch. In a forked child: allowed;
 * releases memory only.
 *
 * @param subscriber  may be NULL
 */
EVZMQ_API void evzmq_subscriber_free(struct evzmq_subscriber *subscriber);

/**
 * The subscriber's adapter, for evzmq_socket_set_max_message(), _set_receive_mode(), _set_budget(),
 * _priority_set(), _get_stats() and _get_zmq_socket(). Its read budget holds for records as well.
 * Its callbacks, its codec and EV_READ must be left alone, and it must not be freed.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return never NULL for a subscriber that is not NULL
 */
EVZMQ_API struct evzmq_socket *
evzmq_subscriber_get_socket(const struct evzmq_subscriber *subscriber);

/**
 * Sets the callbacks and their argument. Without a record callback nothing is received.
 *
 * Thread: loop. Callbacks: yes; the change applies from the next record on.
 */
EVZMQ_API void evzmq_subscriber_setcb(struct evzmq_subscriber *subscriber,
                                      evzmq_record_cb record_cb, evzmq_subscriber_event_cb event_cb,
                                      void *arg);

/**
 * Sets the codec that decodes records.
 *
 * Thread: loop. Callbacks: yes; the change applies from the next record on.
 *
 * @param codec  the subscriber takes a reference of its own; NULL for the raw codec, the default
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_subscriber_set_codec(struct evzmq_subscriber *subscriber,
                                         struct evzmq_codec *codec);

/**
 * Sets what tells the topics of records in shared batches. With it those records are filtered by
 * the subscriptions and conflated by topic like all others; without it, and where it cannot tell,
 * all are delivered under the topic "batch", and conflate as if that were one topic: such a record
 * may then come after a newer one of its topic that was sent alone.
 *
 * Thread: loop. Callbacks: yes; the change applies from the next record on.
 *
 * @param topic_cb  NULL for none
 * @param arg       given to @p topic_cb
 */
EVZMQ_API void evzmq_subscriber_set_topic_cb(struct evzmq_subscriber *subscriber,
                                             evzmq_topic_cb topic_cb, void *arg);

/**
 * Subscribes to all topics that begin with a prefix. Subscriptions are counted: a second one to the
 * same prefix takes a second evzmq_subscriber_unsubscribe() to end.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param prefix  0-terminated, at most EVZMQ_TOPIC_BYTES bytes; "" for everything
 * @return 0, or -1 with EINVAL, EOVERFLOW (4 billion times the same), ENOMEM, ETERM, ENOTSOCK,
 * ECHILD; nothing has changed then
 */
EVZMQ_API int evzmq_subscriber_subscribe(struct evzmq_subscriber *subscriber, const char *prefix);

/**
 * Ends one subscription to a prefix. With the last one no further record of that prefix is
 * delivered, unless another subscription matches it: what was received already is dropped.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ENOENT (there is none), ETERM, ENOTSOCK, ECHILD; nothing has
 * changed then
 */
EVZMQ_API int evzmq_subscriber_unsubscribe(struct evzmq_subscriber *subscriber, const char *prefix);

/**
 * Stops delivery: from a callback, also in the middle of a batch, no further record is delivered.
 * The rest of the batch is kept; what was not received stays in ZeroMQ, up to its high water mark.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_subscriber_disable(struct evzmq_subscriber *subscriber);

/**
 * Has records delivered again, from the next turn of the loop on.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ENOMEM, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_subscriber_enable(struct evzmq_subscriber *subscriber);

/**
 * Copies the counters of a subscriber.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param out  with its size set; a program built with an older, shorter struct gets the fields it
 * knows
 * @return 0, or -1 with EINVAL (NULL, or a size that is too small)
 */
EVZMQ_API int evzmq_subscriber_get_stats(const struct evzmq_subscriber *subscriber,
                                         struct evzmq_subscriber_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_PUBSUB_H */
