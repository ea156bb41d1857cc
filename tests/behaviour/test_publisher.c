/**
 * @file test_publisher.c
 * What a publisher sends, and when, as plain SUB sockets see it.
 */
#include "audience.h"

#include <stdio.h>
#include <string.h>

#include <evzmq/msgpack.h>

/* A whole frame. */
static size_t receive(struct fixture *f, void *peer, unsigned char *out, size_t room)
{
    zmq_pollitem_t item = {peer, 0, ZMQ_POLLIN, 0};
    int size = 0;

    do {
        fixture_glance(f);
    } while (zmq_poll(&item, 1, 1) == 0);
    size = zmq_recv(peer, out, room, 0);
    assert_true(size >= 0 && (size_t)size <= room);
    return (size_t)size;
}

static void assert_frame(struct fixture *f, void *peer, const char *topic, const char *text)
{
    unsigned char expected[512];
    unsigned char got[512];
    const size_t size = frame_write(expected, topic, text, strlen(text));

    assert_int_equal(receive(f, peer, got, sizeof got), size);
    assert_memory_equal(got, expected, size);
}

/* A batch; a topic without a mark is "batch". */
static void assert_batch(struct fixture *f, void *peer, const char *topic, const char *texts)
{
    unsigned char expected[1024];
    unsigned char got[1024];
    const size_t size = frame_pack(expected, sizeof expected, topic, texts);

    if (strcmp(topic, "batch") != 0) {
        expected[EVZMQ_TOPIC_BYTES - 1] = 1;
    }
    assert_int_equal(receive(f, peer, got, sizeof got), size);
    assert_memory_equal(got, expected, size);
}

static void assert_nothing(struct fixture *f, void *peer)
{
    char text[8];

    fixture_run_for(f, 20);
    assert_false(peer_try_recv_text(peer, text, sizeof text));
}

static void record_goes_out_at_once_behind_its_padded_topic(void **state)
{
    struct fixture *const f = *state;
    struct speaker s = {0};
    void *peer = NULL;

    speaker_open(f, &s, TRANSPORT_IPC, NULL, 0);
    peer = speaker_peer(&s, 0);
    speaker_say(&s, "sample.issued", "one");
    speaker_say(&s, "0123456789012345678901234567890123456789", "two");
    speaker_say(&s, "t", "");
    assert_frame(f, peer, "sample.issued", "one");
    assert_frame(f, peer, "0123456789012345678901234567890123456789", "two");
    assert_frame(f, peer, "t", "");
    assert_int_equal(speaker_stats(&s).records, 3);
    assert_int_equal(speaker_stats(&s).record_bytes, 6);
    assert_int_equal(speaker_stats(&s).frames, 3);
    assert_int_equal(speaker_stats(&s).batches, 0);
    speaker_free(&s);
}

static void batch_goes_out_when_it_has_enough_records(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_SHARED,
                                                .batch_records = 3,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    struct speaker s = {0};
    void *peer = NULL;

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    peer = speaker_peer(&s, 0);
    speaker_say(&s, "a", "1");
    speaker_say(&s, "b", "2");
    assert_nothing(f, peer);
    assert_int_equal(speaker_stats(&s).pending_records, 2);
    assert_int_equal(speaker_stats(&s).pending_bytes, 2);
    assert_int_equal(speaker_stats(&s).pending_topics, 1);
    speaker_say(&s, "a", "3");
    assert_batch(f, peer, "batch", "1|2|3");
    assert_int_equal(speaker_stats(&s).pending_records, 0);
    assert_int_equal(speaker_stats(&s).batches, 1);
    assert_int_equal(speaker_stats(&s).batched_records, 3);
    assert_int_equal(speaker_stats(&s).flushed_by_count, 1);
    speaker_free(&s);
}

static void batch_goes_out_before_a_record_that_does_not_fit(void **state)
{
    struct fixture *const f = *state;
    /* 45 bytes of room for topic and head, then 2 for each record's head. */
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_SHARED,
                                                .batch_bytes = 45 + 2 * 12,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    struct speaker s = {0};
    void *peer = NULL;

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    peer = speaker_peer(&s, 0);
    speaker_say(&s, "a", "0123456789");
    speaker_say(&s, "a", "abcdefghij");
    assert_nothing(f, peer);
    speaker_say(&s, "a", "!");
    assert_batch(f, peer, "batch", "0123456789|abcdefghij");
    assert_int_equal(speaker_stats(&s).flushed_by_bytes, 1);
    assert_int_equal(speaker_stats(&s).pending_records, 1);
    speaker_free(&s);
}

static void batch_goes_out_when_its_time_has_come(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {
        .size = sizeof how, .batching = EVZMQ_BATCH_SHARED, .batch_delay_usec = 5000};
    struct speaker s = {0};
    void *peer = NULL;

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    peer = speaker_peer(&s, 0);
    for (int round = 0; round < 3; round++) {
        speaker_say(&s, "a", "1");
        speaker_say(&s, "b", "2");
        run_until(f, speaker_stats(&s).pending_records == 0);
        assert_batch(f, peer, "batch", "1|2");
    }
    assert_int_equal(speaker_stats(&s).flushed_by_time, 3);
    speaker_free(&s);
}

static void record_that_stays_alone_goes_out_as_a_record(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_publisher_options how = {.size = sizeof how, .batch_delay_usec = 1000};

    for (int batching = EVZMQ_BATCH_SHARED; batching <= EVZMQ_BATCH_PER_TOPIC; batching++) {
        struct speaker s = {0};
        void *peer = NULL;

        how.batching = (enum evzmq_batching)batching;
        speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
        peer = speaker_peer(&s, 0);
        speaker_say(&s, "alone", "1");
        run_until(f, speaker_stats(&s).pending_records == 0);
        assert_frame(f, peer, "alone", "1");
        assert_int_equal(speaker_stats(&s).batches, 0);
        speaker_free(&s);
    }
}

static void record_larger_than_a_batch_goes_out_alone_and_in_its_turn(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_SHARED,
                                                .batch_bytes = 80,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    char large[101] = "";
    struct speaker s = {0};
    void *peer = NULL;

    memset(large, 'L', sizeof large - 1);
    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    peer = speaker_peer(&s, 0);
    speaker_say(&s, "a", "1");
    speaker_say(&s, "a", "2");
    speaker_say(&s, "a", large);
    speaker_say(&s, "a", "3");
    assert_batch(f, peer, "batch", "1|2");
    assert_frame(f, peer, "a", large);
    assert_ok(evzmq_publisher_flush(s.publisher));
    assert_frame(f, peer, "a", "3");
    speaker_free(&s);
}

static void batches_per_topic_go_out_under_their_topics(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_PER_TOPIC,
                                                .batch_records = 2,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    struct speaker s = {0};
    void *all = NULL;
    void *some = NULL;
    size_t before = 0;

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    all = speaker_peer(&s, 0);
    some = peer_new(f, ZMQ_SUB);
    assert_int_equal(zmq_setsockopt(some, ZMQ_UNSUBSCRIBE, "", 0), 0);
    assert_int_equal(zmq_setsockopt(some, ZMQ_SUBSCRIBE, "hot", 3), 0);
    before = s.subscribed;
    peer_connect(some, s.endpoint);
    run_until(f, s.subscribed > before);
    speaker_say(&s, "cold", "1");
    speaker_say(&s, "hot.a", "2");
    speaker_say(&s, "hot.b", "3");
    assert_int_equal(speaker_stats(&s).pending_topics, 3);
    speaker_say(&s, "hot.a", "4");
    speaker_say(&s, "cold", "5");
    assert_batch(f, all, "hot.a", "2|4");
    assert_batch(f, all, "cold", "1|5");
    assert_batch(f, some, "hot.a", "2|4");
    assert_ok(evzmq_publisher_flush(s.publisher));
    assert_frame(f, all, "hot.b", "3");
    assert_frame(f, some, "hot.b", "3");
    assert_nothing(f, some);
    speaker_free(&s);
}

static void for_one_topic_too_many_the_oldest_batch_goes(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_PER_TOPIC,
                                                .batch_topics = 2,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    struct speaker s = {0};
    void *peer = NULL;

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    peer = speaker_peer(&s, 0);
    speaker_say(&s, "a", "1");
    speaker_say(&s, "b", "2");
    speaker_say(&s, "a", "3");
    assert_nothing(f, peer);
    speaker_say(&s, "c", "4");
    assert_batch(f, peer, "a", "1|3");
    assert_int_equal(speaker_stats(&s).pending_topics, 2);
    assert_ok(evzmq_publisher_flush(s.publisher));
    assert_frame(f, peer, "b", "2");
    assert_frame(f, peer, "c", "4");
    assert_int_equal(speaker_stats(&s).flushed_by_call, 2);
    speaker_free(&s);
}

static void many_batches_that_are_due_at_once_go_in_several_turns(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {
        .size = sizeof how, .batching = EVZMQ_BATCH_PER_TOPIC, .batch_delay_usec = 1000};
    struct speaker s = {0};
    void *peer = NULL;
    char topic[16];

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    peer = speaker_peer(&s, 0);
    for (int i = 0; i < 500; i++) {
        (void)snprintf(topic, sizeof topic, "%d", i);
        speaker_say(&s, topic, "x");
    }
    while (speaker_stats(&s).pending_records > 0) {
        const uint64_t before = speaker_stats(&s).pending_records;

        fixture_turn(f);
        assert_true(before - speaker_stats(&s).pending_records <= 100);
    }
    for (int i = 0; i < 500; i++) {
        (void)snprintf(topic, sizeof topic, "%d", i);
        assert_frame(f, peer, topic, "x");
    }
    speaker_free(&s);
}

static void values_are_encoded_into_frames_and_batches(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_publisher_options how = {
        .size = sizeof how, .batch_records = 2, .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    msgpack_object value = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = 7};

    for (int batching = EVZMQ_BATCH_OFF; batching <= EVZMQ_BATCH_SHARED; batching++) {
        struct speaker s = {0};
        void *peer = NULL;

        how.batching = (enum evzmq_batching)batching;
        speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
        peer = speaker_peer(&s, 0);
        assert_ok(evzmq_publisher_set_codec(s.publisher, codec));
        assert_ok(evzmq_publisher_publish_value(s.publisher, "v", &value));
        assert_ok(evzmq_publisher_publish_value(s.publisher, "v", &value));
        if (batching == EVZMQ_BATCH_OFF) {
            assert_frame(f, peer, "v", "\x07");
            assert_frame(f, peer, "v", "\x07");
        } else {
            assert_batch(f, peer, "batch", "\x07|\x07");
        }
        value.type = MSGPACK_OBJECT_ARRAY;
        value.via.array.size = 1;
        value.via.array.ptr = NULL; /* it cannot be encoded */
        assert_errno(evzmq_publisher_publish_value(s.publisher, "v", &value), EINVAL);
        assert_errno(evzmq_publisher_publish_value(s.publisher, "v", NULL), EINVAL);
        assert_int_equal(speaker_stats(&s).pending_topics, 0);
        value = (msgpack_object){.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = 7};
        speaker_free(&s);
    }
    evzmq_codec_free(codec);
}

static void topics_that_cannot_be_are_refused(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_PER_TOPIC};
    static const char long_topic[] = "01234567890123456789012345678901234567890";
    struct speaker s = {0};
    struct speaker marked = {0};

    speaker_open(f, &s, TRANSPORT_INPROC, NULL, 0);
    speaker_open(f, &marked, TRANSPORT_INPROC, &how, 0);
    assert_errno(evzmq_publisher_publish(s.publisher, NULL, "x", 1), EINVAL);
    assert_errno(evzmq_publisher_publish(s.publisher, "", "x", 1), EINVAL);
    assert_errno(evzmq_publisher_publish(s.publisher, "batch", "x", 1), EINVAL);
    assert_errno(evzmq_publisher_publish(s.publisher, long_topic, "x", 1), EINVAL);
    assert_errno(evzmq_publisher_publish(s.publisher, "a", NULL, 1), EINVAL);
    assert_errno(evzmq_publisher_publish(NULL, "a", "x", 1), EINVAL);
    assert_ok(evzmq_publisher_publish(s.publisher, long_topic + 1, "x", 1));
    assert_ok(evzmq_publisher_publish(s.publisher, "batches", "x", 1));
    assert_errno(evzmq_publisher_publish(marked.publisher, long_topic + 2, "x", 1), EINVAL);
    assert_ok(evzmq_publisher_publish(marked.publisher, long_topic + 3, "x", 1));
    speaker_free(&marked);
    speaker_free(&s);
}

static void other_sockets_and_options_are_refused_and_stay_the_callers(void **state)
{
    struct fixture *const f = *state;
    void *const push = peer_new(f, ZMQ_PUSH);
    void *const pub = peer_new(f, ZMQ_PUB);
    struct evzmq_publisher_options how = {.size = sizeof how - 1};

    errno = 0;
    assert_null(evzmq_publisher_new(f->base, push, EVZMQ_OPT_CLOSE_ON_FREE, NULL));
    assert_int_equal(errno, EINVAL);
    peer_set_int(push, ZMQ_LINGER, 0); /* It was not closed. */
    assert_null(evzmq_publisher_new(f->base, pub, 0, &how));
    how.size = sizeof how;
    how.batch_bytes = 63;
    assert_null(evzmq_publisher_new(f->base, pub, 0, &how));
    how.batch_bytes = 0;
    how.batching = (enum evzmq_batching)3;
    assert_null(evzmq_publisher_new(f->base, pub, 0, &how));
    how.batching = EVZMQ_BATCH_OFF;
    how.when_full = (enum evzmq_full_policy)2;
    assert_null(evzmq_publisher_new(f->base, pub, 0, &how));
    assert_null(evzmq_publisher_new(NULL, pub, 0, NULL));
    assert_null(evzmq_publisher_new(f->base, NULL, 0, NULL));
    evzmq_publisher_free(NULL);
    assert_null(evzmq_publisher_get_socket(NULL));
}

static void subscriptions_are_reported_and_anything_else_ignored(void **state)
{
    struct fixture *const f = *state;
    struct speaker s = {0};
    void *const xsub = peer_new(f, ZMQ_XSUB);

    speaker_open(f, &s, TRANSPORT_IPC, NULL, 0);
    peer_connect(xsub, s.endpoint);
    peer_send(xsub, "\x01 one", 4);
    peer_send(xsub, "\x02 what", 6);
    peer_send_text(xsub, "two|parts");
    peer_send(xsub, "", 0);
    peer_send(xsub, "\x00one", 4);
    peer_send(xsub, "\x01 two", 4);
    run_until(f, s.subscribed == 2);
    assert_int_equal(speaker_stats(&s).ignored, 3);
    peer_close(f, xsub);
    run_until(f, s.unsubscribed >= 1);
    assert_int_equal(speaker_stats(&s).subscriptions, s.subscribed + s.unsubscribed);
    speaker_free(&s);
}

static void pub_socket_publishes_too(void **state)
{
    struct fixture *const f = *state;
    void *const pub = peer_new(f, ZMQ_PUB);
    void *const peer = peer_new(f, ZMQ_SUB);
    struct evzmq_publisher *const publisher =
        evzmq_publisher_new(f->base, pub, EVZMQ_OPT_CLOSE_ON_FREE, NULL);
    char endpoint[ENDPOINT_SIZE];
    zmq_pollitem_t item = {peer, 0, ZMQ_POLLIN, 0};

    assert_non_null(publisher);
    peer_forget(f, pub);
    peer_bind(f, pub, TRANSPORT_INPROC, endpoint);
    peer_connect(peer, endpoint);
    do { /* Nothing tells when the subscription has come. */
        assert_ok(evzmq_publisher_publish(publisher, "t", "x", 1));
        fixture_glance(f);
    } while (zmq_poll(&item, 1, 1) == 0);
    assert_frame(f, peer, "t", "x");
    evzmq_publisher_free(publisher);
}

static void greet(struct speaker *s)
{
    speaker_say(s, "news", "old");
    speaker_say(s, "news", "new");
    assert_ok(evzmq_publisher_flush(s->publisher));
    speaker_say(s, "news", "newest");
}

static void say_and_flush_too_late(struct speaker *s)
{
    assert_errno(evzmq_publisher_publish(s->publisher, "news", "x", 1), ESHUTDOWN);
    assert_ok(evzmq_publisher_flush(s->publisher)); /* There is nothing. */
}

/* Whoever subscribes gets what is known, and a shutdown in the same turn takes the rest. */
static void callbacks_may_publish_and_flush(void **state)
{
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_PER_TOPIC,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    struct fixture *const f = *state;

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct speaker s = {.on_subscription = greet, .on_done = say_and_flush_too_late};
        void *peer = NULL;

        speaker_open(f, &s, (enum transport)transport, &how, 0);
        peer = speaker_peer(&s, 0);
        assert_batch(f, peer, "news", "old|new");
        assert_int_equal(speaker_stats(&s).pending_records, 1);
        speaker_shutdown(&s, NULL);
        run_until(f, s.done == 1);
        assert_frame(f, peer, "news", "newest");
        assert_int_equal(s.handed_over, 1);
        speaker_free(&s);
    }
}

static void calls_without_a_publisher_are_refused_or_do_nothing(void **state)
{
    struct evzmq_publisher_stats stats = {.size = sizeof(stats)};

    (void)state;
    evzmq_publisher_setcb(NULL, NULL, NULL, NULL, NULL);
    assert_null(evzmq_publisher_get_socket(NULL));
    assert_errno(evzmq_publisher_set_codec(NULL, NULL), EINVAL);
    assert_errno(evzmq_publisher_publish(NULL, "topic", "a", 1), EINVAL);
    assert_errno(evzmq_publisher_publish_value(NULL, "topic", "a"), EINVAL);
    assert_errno(evzmq_publisher_flush(NULL), EINVAL);
    assert_errno(evzmq_publisher_shutdown(NULL, NULL, NULL, NULL), EINVAL);
    assert_errno(evzmq_publisher_get_stats(NULL, &stats), EINVAL);
    evzmq_publisher_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(record_goes_out_at_once_behind_its_padded_topic),
        claim(batch_goes_out_when_it_has_enough_records),
        claim(batch_goes_out_before_a_record_that_does_not_fit),
        claim(batch_goes_out_when_its_time_has_come),
        claim(record_that_stays_alone_goes_out_as_a_record),
        claim(record_larger_than_a_batch_goes_out_alone_and_in_its_turn),
        claim(batches_per_topic_go_out_under_their_topics),
        claim(for_one_topic_too_many_the_oldest_batch_goes),
        claim(many_batches_that_are_due_at_once_go_in_several_turns),
        claim(values_are_encoded_into_frames_and_batches),
        claim(topics_that_cannot_be_are_refused),
        claim(other_sockets_and_options_are_refused_and_stay_the_callers),
        claim(subscriptions_are_reported_and_anything_else_ignored),
        claim(pub_socket_publishes_too),
        claim(callbacks_may_publish_and_flush),
        claim(calls_without_a_publisher_are_refused_or_do_nothing),
    };

    return run_claims(tests);
}
