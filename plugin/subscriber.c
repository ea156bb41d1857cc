/*
 * subscriber.c (L6): see subscriber.h, and <evzmq/pubsub.h> for what it promises.
 */
#include "subscriber.h"

#include <errno.h>
#include <string.h>

#include <zmq.h>

#include "base.h"

void evzmq__subscriber_ref(struct evzmq_subscriber *subscriber)
{
    subscriber->references++;
}

void evzmq__subscriber_unref(struct evzmq_subscriber *subscriber)
{
    if (--subscriber->references > 0) {
        return;
    }
    evzmq__message_destroy(subscriber->held);
    evzmq__message_destroy(subscriber->view);
    evzmq_arena_free(subscriber->arena);
    evzmq__latests_clear(&subscriber->latests);
    evzmq__prefixes_clear(&subscriber->prefixes);
    evzmq_codec_free(subscriber->codec);
    evzmq__free(subscriber);
}

void evzmq__subscriber_report(struct evzmq_subscriber *subscriber, const struct evzmq_event *event)
{
    if (subscriber->event_cb != NULL) {
        subscriber->event_cb(subscriber, event, subscriber->arg);
    }
}

static void on_frame(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    (void)socket;
    evzmq__subscriber_take_frame(arg, message);
}

static void on_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    struct evzmq_subscriber *subscriber = arg;
    (void)socket;
    if (event->type == EVZMQ_EVENT_TERMINATED) {
        evzmq__timer_stop(subscriber->timer);
    }
    evzmq__subscriber_report(subscriber, event);
}

static void on_timer(void *arg)
{
    struct evzmq_subscriber *subscriber = arg;
    struct evzmq_socket *socket = subscriber->socket;
    subscriber->timer_runs = false;
    if (evzmq__socket_enter(socket)) {
        evzmq__subscriber_turn(subscriber);
        evzmq__socket_leave(socket);
    }
}

void evzmq__subscriber_update_reading(struct evzmq_subscriber *subscriber)
{
    const bool wanted = subscriber->record_cb != NULL && subscriber->held == NULL &&
                        (subscriber->enabled || subscriber->options.conflate != 0);
    const bool is_on = (evzmq_socket_get_enabled(subscriber->socket) & EV_READ) != 0;
    if (wanted && !is_on) {
        (void)evzmq_socket_enable(subscriber->socket, EV_READ);
    } else if (!wanted && is_on) {
        (void)evzmq_socket_disable(subscriber->socket, EV_READ);
    }
}

struct evzmq_subscriber *evzmq_subscriber_new(struct event_base *base, void *zmq_socket,
                                              unsigned options,
                                              const struct evzmq_subscriber_options *how)
{
    if (how != NULL && how->size != sizeof(*how)) {
        errno = EINVAL;
        return NULL;
    }
    struct evzmq_subscriber *subscriber = evzmq__calloc(1, sizeof(*subscriber));
    if (subscriber == NULL) {
        return NULL;
    }
    subscriber->references = 1;
    subscriber->enabled = true;
    subscriber->codec = evzmq_codec_raw();
    if (how != NULL) {
        subscriber->options = *how;
    }
    if (subscriber->options.conflate_topics == 0) {
        subscriber->options.conflate_topics = EVZMQ_CONFLATE_TOPICS_DEFAULT;
    }
    subscriber->socket = evzmq_socket_new(base, zmq_socket, options);
    if (subscriber->socket == NULL) {
        goto fail;
    }
    if (subscriber->socket->type->zmq_type != ZMQ_SUB) {
        errno = EINVAL;
        goto fail;
    }
    subscriber->timer = evzmq__timer_new(base, on_timer, subscriber);
    subscriber->arena = evzmq_arena_new();
    subscriber->view = evzmq__message_create();
    if (subscriber->timer == NULL || evzmq__timer_stand(subscriber->timer) < 0 ||
        subscriber->arena == NULL || subscriber->view == NULL) {
        errno = ENOMEM;
        goto fail;
    }
    evzmq_socket_setcb(subscriber->socket, on_frame, NULL, on_event, subscriber);
    return subscriber;

fail:;
    const int error = errno;
    if (subscriber->socket != NULL) {
        subscriber->socket->close_on_free = false; /* it stays the caller's */
    }
    evzmq_subscriber_free(subscriber);
    errno = error;
    return NULL;
}

void evzmq_subscriber_free(struct evzmq_subscriber *subscriber)
{
    if (subscriber == NULL ||
        (subscriber->socket != NULL && evzmq__base_is_foreign(subscriber->socket->base))) {
        return;
    }
    subscriber->dying = true;
    evzmq__timer_free(subscriber->timer);
    subscriber->timer = NULL;
    evzmq_socket_free(subscriber->socket);
    subscriber->socket = NULL;
    /* What a callback on the stack may be looking at goes with the last reference. */
    evzmq__subscriber_unref(subscriber);
}

struct evzmq_socket *evzmq_subscriber_get_socket(const struct evzmq_subscriber *subscriber)
{
    return subscriber == NULL ? NULL : subscriber->socket;
}

static int check(const struct evzmq_subscriber *subscriber)
{
    if (subscriber == NULL) {
        errno = EINVAL;
        return -1;
    }
    return evzmq__socket_check(subscriber->socket);
}

void evzmq_subscriber_setcb(struct evzmq_subscriber *subscriber, evzmq_record_cb record_cb,
                            evzmq_subscriber_event_cb event_cb, void *arg)
{
    if (subscriber == NULL || evzmq__base_is_foreign(subscriber->socket->base)) {
        return;
    }
    subscriber->record_cb = record_cb;
    subscriber->event_cb = event_cb;
    subscriber->arg = arg;
    if (check(subscriber) == 0) {
        evzmq__subscriber_update_reading(subscriber);
        (void)evzmq__subscriber_attend(subscriber);
    }
}

int evzmq_subscriber_set_codec(struct evzmq_subscriber *subscriber, struct evzmq_codec *codec)
{
    if (check(subscriber) < 0) {
        return -1;
    }
    struct evzmq_codec *next = codec == NULL ? evzmq_codec_raw() : codec;
    evzmq__codec_ref(next);
    evzmq_codec_free(subscriber->codec);
    subscriber->codec = next;
    return 0;
}

void evzmq_subscriber_set_topic_cb(struct evzmq_subscriber *subscriber, evzmq_topic_cb topic_cb,
                                   void *arg)
{
    if (subscriber == NULL || evzmq__base_is_foreign(subscriber->socket->base)) {
        return;
    }
    subscriber->topic_cb = topic_cb;
    subscriber->topic_arg = arg;
}

/* Checks a prefix and finds its size. Returns 0, or -1 with EINVAL. */
static int take_prefix(const char *prefix, size_t *out_size)
{
    const char *end = prefix == NULL ? NULL : memchr(prefix, '\0', EVZMQ__TOPIC_BYTES + 1);
    if (end == NULL) {
        errno = EINVAL;
        return -1;
    }
    *out_size = (size_t)(end - prefix);
    return 0;
}

/* Tells libzmq of a prefix that is new or gone, and of shared batches with the first or the last:
 * of both or of neither. */
static int tell(struct evzmq_subscriber *subscriber, int option, const char *prefix, size_t size,
                bool with_batches)
{
    void *zmq_socket = subscriber->socket->zmq_socket;
    int result = zmq_setsockopt(zmq_socket, option, prefix, size);
    if (result == 0 && with_batches && subscriber->options.no_shared_batches == 0) {
        result = zmq_setsockopt(zmq_socket, option, evzmq__topic_batch, sizeof(evzmq__topic_batch));
        if (result < 0) {
            const int undo = option == ZMQ_SUBSCRIBE ? ZMQ_UNSUBSCRIBE : ZMQ_SUBSCRIBE;
            const int error = errno;
            (void)zmq_setsockopt(zmq_socket, undo, prefix, size);
            errno = error;
        }
    }
    evzmq__socket_attend(subscriber->socket);
    return result;
}

int evzmq_subscriber_subscribe(struct evzmq_subscriber *subscriber, const char *prefix)
{
    size_t size = 0;
    uint32_t count = 0;
    if (check(subscriber) < 0 || take_prefix(prefix, &size) < 0 ||
        evzmq__prefixes_add(&subscriber->prefixes, prefix, size, &count) < 0) {
        return -1;
    }
    const bool is_first = subscriber->prefixes.table.count == 1;
    if (count == 1 && tell(subscriber, ZMQ_SUBSCRIBE, prefix, size, is_first) < 0) {
        const int error = errno;
        (void)evzmq__prefixes_remove(&subscriber->prefixes, prefix, size, &count);
        errno = error;
        return -1;
    }
    return 0;
}

int evzmq_subscriber_unsubscribe(struct evzmq_subscriber *subscriber, const char *prefix)
{
    size_t size = 0;
    if (check(subscriber) < 0 || take_prefix(prefix, &size) < 0) {
        return -1;
    }
    uint32_t count = evzmq__prefixes_count(&subscriber->prefixes, prefix, size);
    const bool is_last = subscriber->prefixes.table.count == 1;
    if (count == 1 && tell(subscriber, ZMQ_UNSUBSCRIBE, prefix, size, is_last) < 0) {
        return -1;
    }
    subscriber->unsubscribed = subscriber->unsubscribed || count == 1;
    return evzmq__prefixes_remove(&subscriber->prefixes, prefix, size, &count);
}

int evzmq_subscriber_disable(struct evzmq_subscriber *subscriber)
{
    if (check(subscriber) < 0) {
        return -1;
    }
    subscriber->enabled = false;
    evzmq__subscriber_update_reading(subscriber);
    return 0;
}

int evzmq_subscriber_enable(struct evzmq_subscriber *subscriber)
{
    if (check(subscriber) < 0) {
        return -1;
    }
    const bool before = subscriber->enabled;
    subscriber->enabled = true;
    if (evzmq__subscriber_attend(subscriber) < 0) {
        subscriber->enabled = before;
        return -1;
    }
    evzmq__subscriber_update_reading(subscriber);
    return 0;
}

int evzmq_subscriber_get_stats(const struct evzmq_subscriber *subscriber,
                               struct evzmq_subscriber_stats *out)
{
    if (subscriber == NULL || out == NULL || out->size < sizeof(out->size)) {
        errno = EINVAL;
        return -1;
    }
    const struct evzmq__subscriber_counters *counters = &subscriber->counters;
    struct evzmq_subscriber_stats all = {
        .frames = counters->frames,
        .batches = counters->batches,
        .bad_frames = counters->bad_frames,
        .records = counters->records,
        .records_bad = counters->records_bad,
        .records_empty = counters->records_empty,
        .records_conflated = counters->records_conflated,
        .records_filtered = counters->records_filtered,
        .records_lost = counters->records_lost,
        .subscriptions = subscriber->prefixes.table.count,
        .waiting =
            subscriber->latests.count + (subscriber->held == NULL ? 0 : subscriber->reader.left),
    };
    all.size = out->size < sizeof(all) ? out->size : sizeof(all);
    memcpy(out, &all, all.size);
    return 0;
}
