/*
 * publisher.c (L6): see publisher.h, and <evzmq/pubsub.h> for what it promises.
 */
#include "publisher.h"

#include <errno.h>
#include <string.h>

#include <zmq.h>

#include "base.h"

enum {
    FRAME_MIN = 64,
    FRAME_MAX = INT32_MAX,
    /* Of what an XPUB socket receives; the prefix of a subscription is much shorter. */
    SUBSCRIPTION_MAX = 4096
};

static void on_timer(void *arg)
{
    struct evzmq_publisher *publisher = arg;
    publisher->timer_runs = false;
    if (evzmq__socket_enter(publisher->socket)) {
        evzmq__publisher_tick(publisher);
        evzmq__socket_leave(publisher->socket);
    }
}

/* The queue of the socket has room again. */
static void on_write(struct evzmq_socket *socket, void *arg)
{
    struct evzmq_publisher *publisher = arg;
    (void)socket;
    publisher->blocked = false;
    evzmq__publisher_tick(publisher);
    if (publisher->refused && !publisher->blocked) {
        publisher->refused = false;
        if (publisher->write_cb != NULL && !publisher->ending) {
            publisher->write_cb(publisher, publisher->arg);
        }
    }
}

static void on_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    struct evzmq_publisher *publisher = arg;
    (void)socket;
    if (event->type == EVZMQ_EVENT_TERMINATED) {
        evzmq__timer_stop(publisher->timer);
    }
    if (publisher->event_cb != NULL) {
        publisher->event_cb(publisher, event, publisher->arg);
    }
}

/* An XPUB socket received a subscription, or anything else that a peer sent. */
static void on_read(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct evzmq_publisher *publisher = arg;
    size_t size = 0;
    const unsigned char *bytes = evzmq_message_get_part(message, 0, &size);
    (void)socket;
    if (evzmq_message_get_part_count(message) != 1 || size == 0 || bytes[0] > 1) {
        publisher->counters.ignored++;
        return;
    }
    publisher->counters.subscriptions++;
    if (publisher->subscription_cb != NULL) {
        publisher->subscription_cb(publisher, bytes[0], bytes + 1, size - 1, publisher->arg);
    }
}

/* Fills in the defaults. Returns 0, or -1 with EINVAL. */
static int take_options(struct evzmq_publisher *publisher,
                        const struct evzmq_publisher_options *how)
{
    struct evzmq_publisher_options *options = &publisher->options;
    if (how != NULL) {
        if (how->size != sizeof(*how) || (unsigned)how->batching > EVZMQ_BATCH_PER_TOPIC ||
            (unsigned)how->when_full > EVZMQ_FULL_WAIT ||
            (how->batch_bytes != 0 &&
             (how->batch_bytes < FRAME_MIN || how->batch_bytes > FRAME_MAX))) {
            errno = EINVAL;
            return -1;
        }
        *options = *how;
    }
    if (options->batch_records == 0) {
        options->batch_records = EVZMQ_BATCH_RECORDS_DEFAULT;
    }
    if (options->batch_bytes == 0) {
        options->batch_bytes = EVZMQ_BATCH_BYTES_DEFAULT;
    }
    if (options->batch_delay_usec == 0) {
        options->batch_delay_usec = EVZMQ_BATCH_DELAY_USEC_DEFAULT;
    }
    if (options->batch_topics == 0) {
        options->batch_topics = EVZMQ_BATCH_TOPICS_DEFAULT;
    }
    return 0;
}

/* Tells libzmq what to do with subscribers that are slow. Returns 0, or -1 with errno. */
static int set_up_socket(struct evzmq_publisher *publisher)
{
    const struct evzmq_publisher_options *options = &publisher->options;
    void *zmq_socket = publisher->socket->zmq_socket;
    const int on = 1;
    if (zmq_setsockopt(zmq_socket, ZMQ_XPUB_NODROP, &on, sizeof(on)) < 0) {
        return -1;
    }
    publisher->socket->sheds = options->when_full == EVZMQ_FULL_SHED;
    if (options->subscriber_bytes == 0) {
        return 0;
    }
    const size_t frames = options->subscriber_bytes / options->batch_bytes;
    const int mark = frames == 0 ? 1 : frames > INT32_MAX ? INT32_MAX : (int)frames;
    return zmq_setsockopt(zmq_socket, ZMQ_SNDHWM, &mark, sizeof(mark));
}

/* Attaches the callbacks, and has subscriptions received. Returns 0, or -1 with errno. */
static int listen_to_socket(struct evzmq_publisher *publisher)
{
    struct evzmq_socket *socket = publisher->socket;
    evzmq_socket_setcb(socket, on_read, on_write, on_event, publisher);
    if (socket->type->zmq_type == ZMQ_PUB) {
        return 0;
    }
    return evzmq_socket_set_max_message(socket, SUBSCRIPTION_MAX, 0, EVZMQ_OVERSIZE_DROP) < 0
               ? -1
               : evzmq_socket_enable(socket, EV_READ);
}

struct evzmq_publisher *evzmq_publisher_new(struct event_base *base, void *zmq_socket,
                                            unsigned options,
                                            const struct evzmq_publisher_options *how)
{
    struct evzmq_publisher *publisher = evzmq__calloc(1, sizeof(*publisher));
    if (publisher == NULL) {
        return NULL;
    }
    publisher->codec = evzmq_codec_raw();
    if (take_options(publisher, how) < 0) {
        goto fail;
    }
    publisher->socket = evzmq_socket_new(base, zmq_socket, options);
    if (publisher->socket == NULL) {
        goto fail;
    }
    const int type = publisher->socket->type->zmq_type;
    if (type != ZMQ_PUB && type != ZMQ_XPUB) {
        errno = EINVAL;
        goto fail;
    }
    publisher->timer = evzmq__timer_new(base, on_timer, publisher);
    if (publisher->timer == NULL || evzmq__timer_stand(publisher->timer) < 0 ||
        set_up_socket(publisher) < 0 || listen_to_socket(publisher) < 0) {
        goto fail;
    }
    return publisher;

fail:;
    const int error = errno;
    if (publisher->socket != NULL) {
        publisher->socket->close_on_free = false; /* it stays the caller's */
    }
    evzmq_publisher_free(publisher);
    errno = error;
    return NULL;
}

void evzmq_publisher_free(struct evzmq_publisher *publisher)
{
    if (publisher == NULL ||
        (publisher->socket != NULL && evzmq__base_is_foreign(publisher->socket->base))) {
        return;
    }
    evzmq__timer_free(publisher->timer);
    evzmq__publisher_discard(publisher);
    evzmq_socket_free(publisher->socket);
    evzmq_codec_free(publisher->codec);
    evzmq__free(publisher);
}

struct evzmq_socket *evzmq_publisher_get_socket(const struct evzmq_publisher *publisher)
{
    return publisher == NULL ? NULL : publisher->socket;
}

void evzmq_publisher_setcb(struct evzmq_publisher *publisher, evzmq_publisher_write_cb write_cb,
                           evzmq_subscription_cb subscription_cb, evzmq_publisher_event_cb event_cb,
                           void *arg)
{
    if (publisher == NULL || evzmq__base_is_foreign(publisher->socket->base)) {
        return;
    }
    publisher->write_cb = write_cb;
    publisher->subscription_cb = subscription_cb;
    publisher->event_cb = event_cb;
    publisher->arg = arg;
}

static int check(const struct evzmq_publisher *publisher)
{
    if (publisher == NULL) {
        errno = EINVAL;
        return -1;
    }
    return evzmq__socket_check(publisher->socket);
}

int evzmq_publisher_set_codec(struct evzmq_publisher *publisher, struct evzmq_codec *codec)
{
    if (check(publisher) < 0) {
        return -1;
    }
    struct evzmq_codec *next = codec == NULL ? evzmq_codec_raw() : codec;
    evzmq__codec_ref(next);
    evzmq_codec_free(publisher->codec);
    publisher->codec = next;
    return 0;
}

/* Whether a topic is one that may be published under; its size. */
static bool take_topic(const struct evzmq_publisher *publisher, const char *topic, size_t *out_size)
{
    const size_t longest = publisher->options.batching == EVZMQ_BATCH_PER_TOPIC
                               ? EVZMQ__TOPIC_MARKED_MAX
                               : EVZMQ__TOPIC_BYTES;
    if (topic == NULL || strcmp(topic, (const char *)evzmq__topic_batch) == 0) {
        return false;
    }
    const char *end = memchr(topic, '\0', longest + 1);
    *out_size = end == NULL ? 0 : (size_t)(end - topic);
    return *out_size > 0;
}

static int publish(struct evzmq_publisher *publisher, const char *topic,
                   const struct evzmq__record_source *source)
{
    struct evzmq__publisher_counters *counters = &publisher->counters;
    const struct evzmq_publisher_options *options = &publisher->options;
    size_t topic_size = 0;
    if (!take_topic(publisher, topic, &topic_size)) {
        errno = EINVAL;
        return -1;
    }
    if (publisher->ending) {
        counters->records_after_shutdown++;
        errno = ESHUTDOWN;
        return -1;
    }
    if (options->subscriber_bytes != 0 &&
        source->size > options->batch_bytes - EVZMQ__TOPIC_BYTES) {
        errno = EMSGSIZE;
        return -1;
    }
    const int result = options->batching == EVZMQ_BATCH_OFF
                           ? evzmq__publisher_send_alone(publisher, topic, topic_size, source)
                           : evzmq__publisher_add(publisher, topic, topic_size, source);
    if (result == 0) {
        counters->records++;
        counters->record_bytes += source->size;
    } else if (errno == EAGAIN) {
        counters->records_refused++;
        publisher->refused = true;
    }
    return result;
}

int evzmq_publisher_publish(struct evzmq_publisher *publisher, const char *topic, const void *data,
                            size_t size)
{
    if (check(publisher) < 0) {
        return -1;
    }
    if (data == NULL && size > 0) {
        errno = EINVAL;
        return -1;
    }
    return publish(publisher, topic, &(struct evzmq__record_source){.data = data, .size = size});
}

int evzmq_publisher_publish_value(struct evzmq_publisher *publisher, const char *topic,
                                  const void *value)
{
    struct evzmq__record_source source = {.value = value};
    if (check(publisher) < 0 ||
        evzmq_codec_encoded_size(publisher->codec, value, &source.size) < 0) {
        return -1;
    }
    return publish(publisher, topic, &source);
}

int evzmq_publisher_flush(struct evzmq_publisher *publisher)
{
    return check(publisher) < 0 ? -1 : evzmq__publisher_flush(publisher);
}

static void on_shutdown(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                        void *arg)
{
    struct evzmq_publisher *publisher = arg;
    (void)handed_over; /* without what went out at once, before the queue was asked to drain */
    if (publisher->shutdown_cb != NULL) {
        publisher->shutdown_cb(publisher,
                               socket->counters.messages_out - publisher->messages_out_before,
                               not_handed_over, publisher->shutdown_arg);
    }
}

int evzmq_publisher_shutdown(struct evzmq_publisher *publisher, const struct timeval *deadline,
                             evzmq_publisher_shutdown_cb done_cb, void *arg)
{
    if (check(publisher) < 0) {
        return -1;
    }
    if (!evzmq__is_time(deadline)) {
        errno = EINVAL;
        return -1;
    }
    if (publisher->ending) {
        return 0;
    }
    const uint64_t before = publisher->socket->counters.messages_out;
    if (evzmq__publisher_flush_by_force(publisher) < 0 ||
        evzmq_socket_shutdown(publisher->socket, deadline, on_shutdown, publisher) < 0) {
        return -1;
    }
    evzmq__timer_stop(publisher->timer);
    publisher->ending = true;
    publisher->shutdown_cb = done_cb;
    publisher->shutdown_arg = arg;
    publisher->messages_out_before = before;
    return 0;
}

int evzmq_publisher_get_stats(const struct evzmq_publisher *publisher,
                              struct evzmq_publisher_stats *out)
{
    if (publisher == NULL || out == NULL || out->size < sizeof(out->size)) {
        errno = EINVAL;
        return -1;
    }
    const struct evzmq__publisher_counters *counters = &publisher->counters;
    struct evzmq_publisher_stats all = {
        .records = counters->records,
        .record_bytes = counters->record_bytes,
        .records_refused = counters->records_refused,
        .records_after_shutdown = counters->records_after_shutdown,
        .frames = counters->frames,
        .batches = counters->batches,
        .batched_records = counters->batched_records,
        .flushed_by_count = counters->flushed_by_count,
        .flushed_by_bytes = counters->flushed_by_bytes,
        .flushed_by_time = counters->flushed_by_time,
        .flushed_by_call = counters->flushed_by_call,
        .sheds = publisher->socket->counters.sheds,
        .subscriptions = counters->subscriptions,
        .ignored = counters->ignored,
        .pending_records = publisher->pending_records,
        .pending_bytes = publisher->pending_bytes,
        .pending_topics = publisher->pending_topics,
        .queued_frames = publisher->socket->queue.messages,
        .queued_bytes = publisher->socket->queue.bytes,
    };
    all.size = out->size < sizeof(all) ? out->size : sizeof(all);
    memcpy(out, &all, all.size);
    return 0;
}
