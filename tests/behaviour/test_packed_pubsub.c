/**
 * @file test_packed_pubsub.c
 * Packed frames between publishers and subscribers: libzmq sees frames, and filters and drops them
 * as messages.
 */
#include "support.h"

#include <string.h>

#include <event2/event.h>

#include "packed.h"

enum { FRAME = 65536 };

/* A packing publisher, bound; where it is an XPUB all subscriptions are received, also to what
 * others are subscribed to already. */
static void open_publisher(struct fixture *f, enum transport transport, int type, struct probe *p,
                           char endpoint[ENDPOINT_SIZE])
{
    void *publisher = peer_new(f, type);
    if (type == ZMQ_XPUB) {
        peer_set_int(publisher, ZMQ_XPUB_VERBOSE, 1);
    }
    peer_bind(f, publisher, transport, endpoint);
    packed_attach(f, p, publisher, 0);
    assert_ok(evzmq_socket_set_packing(p->socket, FRAME, 0));
    if (type == ZMQ_XPUB) {
        probe_enable(p, EV_READ);
    }
}

/* An unpacking subscriber to one prefix. */
static void open_subscriber(struct fixture *f, struct probe *p, const char *endpoint,
                            const void *prefix, size_t size)
{
    void *subscriber = peer_new(f, ZMQ_SUB);
    assert_int_equal(zmq_setsockopt(subscriber, ZMQ_UNSUBSCRIBE, "", 0), 0); /* peer_new()'s */
    assert_int_equal(zmq_setsockopt(subscriber, ZMQ_SUBSCRIBE, prefix, size), 0);
    peer_connect(subscriber, endpoint);
    packed_attach(f, p, subscriber, 0);
    assert_ok(evzmq_socket_set_unpacking(p->socket, 1));
    probe_enable(p, EV_READ);
}

/* Writes records first, first + 1, ... that all go in one frame. */
static void publish_frame(struct fixture *f, struct probe *p, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        assert_ok(packed_write(p->socket, first + i, 10));
    }
    assert_ok(evzmq_socket_flush(p->socket));
    run_until(f, evzmq_socket_get_queued(p->socket, NULL) == 0);
}

static void every_subscriber_to_everything_gets_every_record_of_every_frame(void **state)
{
    enum { SUBSCRIBERS = 3, FRAMES = 50, RECORDS = 40 };
    struct fixture *const f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe publisher = {0};
        struct probe subscribers[SUBSCRIBERS] = {{0}};
        char endpoint[ENDPOINT_SIZE];
        open_publisher(f, (enum transport)transport, ZMQ_XPUB, &publisher, endpoint);
        for (int i = 0; i < SUBSCRIBERS; i++) {
            subscribers[i].on_read = packed_read_sequence;
            open_subscriber(f, &subscribers[i], endpoint, "", 0);
        }
        run_until(f, publisher.reads == SUBSCRIBERS);
        for (uint64_t i = 0; i < FRAMES; i++) {
            publish_frame(f, &publisher, i * RECORDS, RECORDS);
        }
        for (int i = 0; i < SUBSCRIBERS; i++) {
            run_until(f, subscribers[i].sequence == FRAMES * RECORDS);
            assert_int_equal(subscribers[i].events_all, 0);
            probe_free(&subscribers[i]);
        }
        assert_int_equal(probe_stats(&publisher).messages_out, FRAMES * RECORDS);
        probe_free(&publisher);
    }
}

/* Records with the number 0 only find out when the subscription is there. */
static void read_after_greetings(struct probe *p, struct evzmq_message *message)
{
    const uint64_t number = packed_number(message);
    if (number > 0) {
        assert_int_equal(number, p->sequence + 1);
        p->sequence = number;
    }
}

static void greet(evutil_socket_t fd, short events, void *arg)
{
    struct probe *const p = arg;
    (void)fd;
    (void)events;
    assert_ok(packed_write(p->socket, 0, 10));
}

static void a_plain_pub_socket_packs_too(void **state)
{
    const struct timeval millisecond = {0, 1000};
    struct fixture *const f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe publisher = {0};
        struct probe subscriber = {.on_read = read_after_greetings};
        char endpoint[ENDPOINT_SIZE];
        open_publisher(f, (enum transport)transport, ZMQ_PUB, &publisher, endpoint);
        open_subscriber(f, &subscriber, endpoint, "", 0);
        struct event *timer = event_new(f->base, -1, EV_PERSIST, greet, &publisher);
        assert_int_equal(event_add(timer, &millisecond), 0);
        run_until(f, subscriber.reads > 0);
        event_free(timer);
        publish_frame(f, &publisher, 1, 1000);
        run_until(f, subscriber.sequence == 1000);
        probe_free(&publisher);
        probe_free(&subscriber);
    }
}

/* What a subscription is compared with is the begin of the frame. */
static void a_frame_is_filtered_by_its_first_record_and_comes_whole(void **state)
{
    struct fixture *const f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe publisher = {0};
        struct probe subscriber = {.on_read = packed_read_sequence, .sequence = 7};
        char endpoint[ENDPOINT_SIZE];
        unsigned char seven[64];
        const size_t size = packed_encode(7, 10, seven, sizeof(seven));
        open_publisher(f, (enum transport)transport, ZMQ_XPUB, &publisher, endpoint);
        open_subscriber(f, &subscriber, endpoint, seven, size);
        run_until(f, publisher.reads == 1);
        publish_frame(f, &publisher, 6, 2); /* Its 7 is not the first. */
        publish_frame(f, &publisher, 7, 3); /* Its 8 and 9 were not asked for. */
        run_until(f, subscriber.reads == 3);
        publish_frame(f, &publisher, 10, 1);
        subscriber.sequence = 7;
        publish_frame(f, &publisher, 7, 1);
        run_until(f, subscriber.reads == 4);
        assert_int_equal(subscriber.events_all, 0);
        probe_free(&publisher);
        probe_free(&subscriber);
    }
}

static void read_with_topic(struct probe *p, struct evzmq_message *message)
{
    assert_int_equal(evzmq_message_get_part_count(message), 2);
    assert_part(message, 0, "topic", 5);
    packed_read_sequence(p, message);
}

/* A packing socket writes no topics; any other publisher may. */
static void each_record_of_a_frame_behind_a_topic_comes_with_it(void **state)
{
    struct fixture *const f = *state;
    unsigned char frame[1024];
    size_t size = 0;
    for (uint64_t i = 0; i < 10; i++) {
        size += packed_encode(i, 10, frame + size, sizeof(frame) - size);
    }
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe subscriber = {.on_read = read_with_topic};
        char endpoint[ENDPOINT_SIZE];
        char subscription[16];
        void *publisher = peer_new(f, ZMQ_XPUB);
        peer_bind(f, publisher, (enum transport)transport, endpoint);
        open_subscriber(f, &subscriber, endpoint, "top", 3);
        pump_recv_text(f, publisher, subscription, sizeof(subscription));
        for (int i = 0; i < 2; i++) {
            const char *topic = i == 0 ? "other" : "topic";
            assert_int_equal(zmq_send(publisher, topic, 5, ZMQ_SNDMORE), 5);
            assert_int_equal(zmq_send(publisher, frame, size, 0), size);
        }
        run_until(f, subscriber.reads == 10);
        assert_int_equal(subscriber.events_all, 0);
        probe_free(&subscriber);
    }
}

/* Numbers go up, and a frame is there from its first record to its last one or not at all. */
static void read_whole_frames(struct probe *p, struct evzmq_message *message)
{
    const uint64_t number = packed_number(message);
    const uint64_t in_frame = *(const uint64_t *)p->arg;
    if (number % in_frame == 0) {
        assert_int_equal(p->sequence % in_frame, 0);
        assert_true(number >= p->sequence);
    } else {
        assert_int_equal(number, p->sequence);
    }
    p->sequence = number + 1;
}

static void a_slow_subscriber_loses_whole_frames_and_holds_nobody_up(void **state)
{
    enum { FRAMES = 3000 };
    struct fixture *const f = *state;
    uint64_t in_frame = 100;
    struct probe publisher = {0};
    struct probe quick = {.on_read = packed_read_sequence};
    struct probe slow = {.on_read = read_whole_frames, .arg = &in_frame};
    void *subscriber = peer_new(f, ZMQ_SUB);
    char endpoint[ENDPOINT_SIZE];
    open_publisher(f, TRANSPORT_INPROC, ZMQ_XPUB, &publisher, endpoint);
    peer_connect(subscriber, endpoint);
    packed_attach(f, &slow, subscriber, 0);
    assert_ok(evzmq_socket_set_unpacking(slow.socket, 1));
    open_subscriber(f, &quick, endpoint, "", 0);
    run_until(f, publisher.reads == 2);
    for (uint64_t i = 0; i < FRAMES; i++) {
        publish_frame(f, &publisher, i * in_frame, in_frame);
        run_until(f, quick.sequence == (i + 1) * in_frame);
    }
    probe_enable(&slow, EV_READ);
    run_until(f, slow.reads >= 2000 * in_frame); /* both high water marks */
    fixture_glance(f);
    assert_true(slow.reads < FRAMES * in_frame);
    assert_int_equal(slow.sequence % in_frame, 0);
    assert_int_equal(slow.events_all, 0);
    probe_free(&publisher);
    probe_free(&quick);
    probe_free(&slow);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(every_subscriber_to_everything_gets_every_record_of_every_frame),
        claim(a_plain_pub_socket_packs_too),
        claim(a_frame_is_filtered_by_its_first_record_and_comes_whole),
        claim(each_record_of_a_frame_behind_a_topic_comes_with_it),
        claim(a_slow_subscriber_loses_whole_frames_and_holds_nobody_up),
    };

    return run_claims(tests);
}
