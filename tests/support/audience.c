/**
 * @file audience.c
 * See audience.h.
 */
#include "audience.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void enter(struct fixture *f, const void *object)
{
    assert_non_null(object); /* Otherwise: a callback after the free. */
    assert_true(f->dispatching);
    assert_int_equal(f->depth, 0);
    f->depth++;
}

static void note_write(struct evzmq_publisher *publisher, void *arg)
{
    struct speaker *const s = arg;

    enter(s->f, s->publisher);
    assert_ptr_equal(publisher, s->publisher);
    s->writes++;
    if (s->on_write != NULL) {
        s->on_write(s);
    }
    s->f->depth--;
}

static void note_subscription(struct evzmq_publisher *publisher, int subscribed, const void *prefix,
                              size_t size, void *arg)
{
    struct speaker *const s = arg;

    enter(s->f, s->publisher);
    assert_ptr_equal(publisher, s->publisher);
    assert_true(prefix != NULL || size == 0);
    *(subscribed ? &s->subscribed : &s->unsubscribed) += 1;
    if (s->on_subscription != NULL) {
        s->on_subscription(s);
    }
    s->f->depth--;
}

static void note_speaker_event(struct evzmq_publisher *publisher, const struct evzmq_event *event,
                               void *arg)
{
    struct speaker *const s = arg;

    enter(s->f, s->publisher);
    assert_ptr_equal(publisher, s->publisher);
    s->events[event->type]++;
    if (s->on_event != NULL) {
        s->on_event(s);
    }
    s->f->depth--;
}

static void note_done(struct evzmq_publisher *publisher, uint64_t handed_over,
                      uint64_t not_handed_over, void *arg)
{
    struct speaker *const s = arg;

    enter(s->f, s->publisher);
    assert_ptr_equal(publisher, s->publisher);
    s->done++;
    s->handed_over = handed_over;
    s->not_handed_over = not_handed_over;
    if (s->on_done != NULL) {
        s->on_done(s);
    }
    s->f->depth--;
}

void speaker_open(struct fixture *f, struct speaker *s, enum transport transport,
                  const struct evzmq_publisher_options *how, int high_water_mark)
{
    s->f = f;
    s->zmq_socket = peer_new(f, ZMQ_XPUB);
    if (high_water_mark != 0) {
        peer_set_int(s->zmq_socket, ZMQ_SNDHWM, high_water_mark);
    }
    s->publisher = evzmq_publisher_new(f->base, s->zmq_socket, 0, how);
    assert_non_null(s->publisher);
    f->attached++;
    peer_bind(f, s->zmq_socket, transport, s->endpoint);
    assert_ok(evzmq_socket_touch(evzmq_publisher_get_socket(s->publisher)));
    evzmq_publisher_setcb(s->publisher, note_write, note_subscription, note_speaker_event, s);
}

void speaker_free(struct speaker *s)
{
    struct evzmq_publisher *const publisher = s->publisher;

    assert_non_null(publisher);
    s->publisher = NULL;
    s->f->attached--;
    evzmq_publisher_free(publisher);
}

void speaker_shutdown(struct speaker *s, const struct timeval *deadline)
{
    assert_ok(evzmq_publisher_shutdown(s->publisher, deadline, note_done, s));
}

void speaker_say(struct speaker *s, const char *topic, const char *text)
{
    assert_ok(evzmq_publisher_publish(s->publisher, topic, text, strlen(text)));
}

struct evzmq_publisher_stats speaker_stats(const struct speaker *s)
{
    struct evzmq_publisher_stats stats = {.size = sizeof stats};

    assert_ok(evzmq_publisher_get_stats(s->publisher, &stats));
    return stats;
}

void *speaker_peer(struct speaker *s, int high_water_mark)
{
    void *const peer = peer_new(s->f, ZMQ_SUB);
    const size_t before = s->subscribed;

    peer_set_int(s->zmq_socket, ZMQ_XPUB_VERBOSE, 1);
    if (high_water_mark != 0) {
        peer_set_int(peer, ZMQ_RCVHWM, high_water_mark);
    }
    peer_connect(peer, s->endpoint);
    run_until(s->f, s->subscribed > before);
    return peer;
}

static void note(struct listener *l, const char *name, const void *data, size_t size)
{
    const size_t used = strlen(l->log);

    if (used + strlen(name) + size + 3 <= sizeof l->log) {
        (void)snprintf(l->log + used, sizeof l->log - used, "%s%s%.*s", used == 0 ? "" : " ", name,
                       (int)size, (const char *)data);
    }
}

static void note_record(struct evzmq_subscriber *subscriber, const char *topic, size_t topic_size,
                        struct evzmq_message *message, void *arg)
{
    struct listener *const l = arg;
    struct fixture *const f = l->f;
    char name[64];
    size_t size = 0;
    const void *data = NULL;

    enter(f, l->subscriber);
    assert_ptr_equal(subscriber, l->subscriber);
    assert_int_equal(topic[topic_size], '\0');
    assert_int_equal(evzmq_message_get_part_count(message), 1);
    data = evzmq_message_get_part(message, 0, &size);
    assert_true(size > 0);
    l->records++;
    l->bytes += size;
    (void)snprintf(name, sizeof name, "%s=", topic);
    note(l, name, data, size < 32 ? size : 32);
    if (l->on_record != NULL) {
        l->on_record(l, message);
    }
    f->depth--;
}

static void note_listener_event(struct evzmq_subscriber *subscriber,
                                const struct evzmq_event *event, void *arg)
{
    struct listener *const l = arg;
    struct fixture *const f = l->f;

    enter(f, l->subscriber);
    assert_ptr_equal(subscriber, l->subscriber);
    l->events[event->type]++;
    if (event->type == EVZMQ_EVENT_DECODE_ERROR) {
        assert_non_null(event->message);
        l->kind = event->kind;
        l->offset = event->offset;
        note(l, "!", evzmq_decode_kind_name(event->kind),
             strlen(evzmq_decode_kind_name(event->kind)));
    }
    if (l->on_event != NULL) {
        l->on_event(l, event);
    }
    f->depth--;
}

void listener_setcb(struct listener *l)
{
    evzmq_subscriber_setcb(l->subscriber, note_record, note_listener_event, l);
}

void listener_open(struct fixture *f, struct listener *l,
                   const struct evzmq_subscriber_options *how)
{
    l->f = f;
    l->zmq_socket = zmq_socket(f->context, ZMQ_SUB);
    assert_non_null(l->zmq_socket);
    l->subscriber = evzmq_subscriber_new(f->base, l->zmq_socket, EVZMQ_OPT_CLOSE_ON_FREE, how);
    assert_non_null(l->subscriber);
    f->attached++;
    listener_setcb(l);
}

void listener_free(struct listener *l)
{
    struct evzmq_subscriber *const subscriber = l->subscriber;

    assert_non_null(subscriber);
    l->subscriber = NULL;
    l->f->attached--;
    evzmq_subscriber_free(subscriber);
}

struct evzmq_subscriber_stats listener_stats(const struct listener *l)
{
    struct evzmq_subscriber_stats stats = {.size = sizeof stats};

    assert_ok(evzmq_subscriber_get_stats(l->subscriber, &stats));
    return stats;
}

void listener_join(struct listener *l, struct speaker *s, const char *prefix, size_t news)
{
    const size_t before = s->subscribed;

    peer_connect(l->zmq_socket, s->endpoint);
    assert_ok(evzmq_subscriber_subscribe(l->subscriber, prefix));
    run_until(l->f, s->subscribed == before + news);
}

void *listener_peer(struct listener *l, enum transport transport)
{
    char endpoint[ENDPOINT_SIZE];
    void *const peer = peer_new(l->f, ZMQ_XPUB);

    peer_bind(l->f, peer, transport, endpoint);
    peer_connect(l->zmq_socket, endpoint);
    return peer;
}

void listener_subscribe(struct listener *l, void *peer, const char *prefix, size_t news)
{
    char text[64];

    assert_ok(evzmq_subscriber_subscribe(l->subscriber, prefix));
    for (size_t i = 0; i < news; i++) {
        pump_recv_text(l->f, peer, text, sizeof text);
        assert_int_equal(text[0], 1);
    }
}

size_t frame_write(unsigned char *out, const char *topic, const void *data, size_t size)
{
    memset(out, 0, EVZMQ_TOPIC_BYTES);
    memcpy(out, topic, strlen(topic));
    if (size > 0) {
        memcpy(out + EVZMQ_TOPIC_BYTES, data, size);
    }
    return EVZMQ_TOPIC_BYTES + size;
}

size_t frame_pack(unsigned char *out, size_t room, const char *topic, const char *texts)
{
    size_t size = frame_write(out, topic, NULL, 0);
    size_t count = 1;

    for (const char *c = texts; *c != '\0'; c++) {
        count += *c == '|';
    }
    assert_true(count < 16);
    out[size++] = (unsigned char)(0x90 | count);
    while (count-- > 0) {
        const size_t length = strcspn(texts, "|");

        assert_true(length < 256 && size + length + 2 <= room);
        out[size++] = 0xc4;
        out[size++] = (unsigned char)length;
        memcpy(out + size, texts, length);
        size += length;
        texts += length + 1;
    }
    return size;
}

void send_record(void *peer, const char *topic, const char *text)
{
    unsigned char frame[512];

    peer_send(peer, frame, frame_write(frame, topic, text, strlen(text)));
}

void send_batch(void *peer, const char *topic, const char *texts)
{
    unsigned char frame[512];

    peer_send(peer, frame, frame_pack(frame, sizeof frame, topic, texts));
}

void send_marked(void *peer, const char *topic, const char *texts)
{
    unsigned char frame[512];
    const size_t size = frame_pack(frame, sizeof frame, topic, texts);

    frame[EVZMQ_TOPIC_BYTES - 1] = 1;
    peer_send(peer, frame, size);
}

void send_numbers(void *peer, uint32_t count, uint32_t size)
{
    const size_t record = 5 + (size_t)size;
    unsigned char *const frame = calloc(1, EVZMQ_TOPIC_BYTES + 5 + count * record);
    unsigned char *at = NULL;

    assert_non_null(frame);
    at = frame + frame_write(frame, "batch", NULL, 0);
    *at++ = 0xdd;
    *at++ = (unsigned char)(count >> 24);
    *at++ = (unsigned char)(count >> 16);
    *at++ = (unsigned char)(count >> 8);
    *at++ = (unsigned char)count;
    for (uint32_t i = 0; i < count; i++) {
        *at++ = 0xc6;
        *at++ = (unsigned char)(size >> 24);
        *at++ = (unsigned char)(size >> 16);
        *at++ = (unsigned char)(size >> 8);
        *at++ = (unsigned char)size;
        memcpy(at, &i, sizeof i);
        at += size;
    }
    peer_send(peer, frame, (size_t)(at - frame));
    free(frame);
}

void check_number(struct listener *l, struct evzmq_message *message)
{
    uint32_t number = 0;

    memcpy(&number, evzmq_message_get_part(message, 0, NULL), sizeof number);
    assert_int_equal(number, l->records - 1);
}

void disable_at_three(struct listener *l, struct evzmq_message *message)
{
    check_number(l, message);
    if (l->records == 3) {
        assert_ok(evzmq_subscriber_disable(l->subscriber));
    }
}
