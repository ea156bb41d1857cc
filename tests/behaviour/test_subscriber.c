/**
 * @file test_subscriber.c
 * What a subscriber makes of frames, one record at a time.
 */
#include "audience.h"

#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>
#include <evzmq/msgpack.h>

static void run_until_log(struct listener *l, const char *expected)
{
    while (strlen(l->log) < strlen(expected)) {
        fixture_turn(l->f);
    }
    fixture_run_for(l->f, 10);
    assert_string_equal(l->log, expected);
}

static void each_record_of_a_batch_is_one_callback(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {0};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_IPC);
    listener_subscribe(&l, peer, "a", 2);
    send_record(peer, "a.1", "one");
    send_batch(peer, "batch", "two|three");
    send_marked(peer, "a.2", "four|five|six");
    send_record(peer, "b", "not this");
    send_marked(peer, "b", "nor|this");
    send_record(peer, "a", "end");
    run_until_log(&l, "a.1=one batch=two batch=three a.2=four a.2=five a.2=six a=end");
    assert_int_equal(listener_stats(&l).frames, 4);
    assert_int_equal(listener_stats(&l).batches, 2);
    assert_int_equal(listener_stats(&l).records, 7);
    listener_free(&l);
}

static void broken_batch_delivers_what_is_before_the_fault_then_one_error(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *log;
        size_t offset;
    } faults[] = {
        {"", 0, "!truncated", 40},
        {"\x80", 1, "!wrong type", 40},
        {"\xc1", 1, "!malformed", 40},
        {"\xdc\x00", 2, "!truncated", 40},
        {"\x92\xc4\x01x", 4, "batch=x !truncated", 44},
        {"\x92\xc4\x01x\xc4\x02y", 7, "batch=x !truncated", 44},
        {"\x92\xc4\x01x\xa1y", 6, "batch=x !wrong type", 44},
        {"\x92\xc4\x01x\xc1", 5, "batch=x !malformed", 44},
        {"\x91\xc4\x01x\xc4\x01y", 7, "batch=x !trailing bytes", 44},
        {"\x91\xc4\x01x\x00", 5, "batch=x !trailing bytes", 44},
        {"\xdd\xff\xff\xff\xff\xc4\x01x", 8, "batch=x !truncated", 48},
        {"\x91\xc6\xff\xff\xff\xffx", 7, "!truncated", 41},
    };
    struct fixture *const f = *state;
    struct listener l = {0};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        unsigned char frame[128];
        char expected[128];
        const size_t before = l.events[EVZMQ_EVENT_DECODE_ERROR];

        l.log[0] = '\0';
        peer_send(peer, frame, frame_write(frame, "batch", faults[i].bytes, faults[i].size));
        send_record(peer, "t", "good");
        (void)snprintf(expected, sizeof expected, "%s t=good", faults[i].log);
        run_until_log(&l, expected);
        assert_int_equal(l.offset, faults[i].offset);
        assert_int_equal(l.events[EVZMQ_EVENT_DECODE_ERROR], before + 1);
        assert_int_equal(listener_stats(&l).bad_frames, i + 1);
        assert_int_equal(listener_stats(&l).waiting, 0);
    }
    listener_free(&l);
}

static void frames_without_a_topic_are_errors_and_two_parts_are_topic_and_record(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {0};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_IPC);
    listener_subscribe(&l, peer, "", 2);
    peer_send(peer, "short", 5);
    peer_send_text(peer, "topic|record");
    peer_send_text(peer, "01234567890123456789012345678901234567890|x");
    peer_send_text(peer, "a|b|c");
    peer_send(peer, "", 0);
    peer_send_text(peer, "empty|");
    send_record(peer, "t", "");
    send_batch(peer, "batch", "||x|");
    run_until_log(&l, "!truncated topic=record !wrong number of elements !wrong number of elements "
                      "!truncated batch=x");
    assert_int_equal(listener_stats(&l).records_empty, 5);
    assert_int_equal(listener_stats(&l).bad_frames, 4);
    listener_free(&l);
}

struct told {
    size_t records;
    size_t size;
    char topic[EVZMQ_TOPIC_BYTES + 1];
};

static void tell_topic(struct evzmq_subscriber *subscriber, const char *topic, size_t topic_size,
                       struct evzmq_message *message, void *arg)
{
    struct told *const told = arg;

    (void)subscriber;
    (void)message;
    assert_true(topic_size <= EVZMQ_TOPIC_BYTES);
    told->records++;
    told->size = topic_size;
    memcpy(told->topic, topic, topic_size + 1);
}

/* No publisher of ours would, but a peer may. */
static void topics_may_be_empty_and_have_any_bytes(void **state)
{
    static const struct evzmq_bytes topics[] = {
        {"", 0},
        {"\xff\x00\x80", 3},
        {"\x00\x00z", 3},
        {"\xff\xfe\x02\x03\x04\x05\x06\x07\x08\x09 123456789 123456789 123456789", 40},
    };
    struct fixture *const f = *state;
    struct listener l = {0};
    struct told told = {0};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    evzmq_subscriber_setcb(l.subscriber, tell_topic, NULL, &told);
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++) {
        unsigned char frame[EVZMQ_TOPIC_BYTES + 1] = {0};

        memcpy(frame, topics[i].data, topics[i].size);
        frame[EVZMQ_TOPIC_BYTES] = 'x';
        peer_send(peer, frame, sizeof frame);
        run_until(f, told.records == 2 * i + 1);
        assert_int_equal(told.size, topics[i].size);
        assert_memory_equal(told.topic, topics[i].data, told.size);
        assert_int_equal(told.topic[told.size], '\0');
        assert_int_equal(zmq_send(peer, topics[i].data, topics[i].size, ZMQ_SNDMORE),
                         topics[i].size);
        peer_send(peer, "x", 1);
        run_until(f, told.records == 2 * i + 2);
        assert_int_equal(told.size, topics[i].size);
        assert_memory_equal(told.topic, topics[i].data, told.size);
    }
    assert_int_equal(listener_stats(&l).bad_frames, 0);
    listener_free(&l);
}

static void record_that_the_codec_refuses_is_one_error_and_disturbs_no_other(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct listener l = {0};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    assert_ok(evzmq_subscriber_set_codec(l.subscriber, codec));
    evzmq_codec_free(codec);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    send_batch(peer, "batch", "\x01|\xc1|\x02|\x92|\x03");
    send_record(peer, "t", "\xa1");
    send_record(peer, "t", "\x04");
    run_until_log(&l, "batch=\x01 !malformed batch=\x02 !truncated batch=\x03 !truncated t=\x04");
    assert_int_equal(listener_stats(&l).records, 4);
    assert_int_equal(listener_stats(&l).records_bad, 3);
    assert_int_equal(listener_stats(&l).bad_frames, 0);
    listener_free(&l);
}

static void check_value(struct listener *l, struct evzmq_message *message)
{
    const msgpack_object *const value = evzmq_msgpack_value(message);

    assert_non_null(value);
    assert_int_equal(value->via.u64, l->records);
    /* The change applies from the next record on; the value stays. */
    if (l->records == 2) {
        assert_ok(evzmq_subscriber_set_codec(l->subscriber, NULL));
        assert_int_equal(value->via.u64, 2);
        l->on_record = NULL;
    }
}

static void codec_can_be_changed_between_two_records_of_a_batch(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct listener l = {.on_record = check_value};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    assert_ok(evzmq_subscriber_set_codec(l.subscriber, codec));
    evzmq_codec_free(codec);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    send_batch(peer, "batch", "\x01|\x02|\xc1");
    run_until(f, l.records == 3);
    assert_int_equal(l.events[EVZMQ_EVENT_DECODE_ERROR], 0);
    listener_free(&l);
}

static void subscriptions_are_counted(void **state)
{
    struct fixture *const f = *state;
    static const char long_prefix[] = "01234567890123456789012345678901234567890";
    struct listener l = {0};
    void *peer = NULL;
    char text[64];

    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_IPC);
    assert_errno(evzmq_subscriber_subscribe(l.subscriber, NULL), EINVAL);
    assert_errno(evzmq_subscriber_subscribe(l.subscriber, long_prefix), EINVAL);
    assert_errno(evzmq_subscriber_unsubscribe(l.subscriber, "a"), ENOENT);
    listener_subscribe(&l, peer, "a", 2);
    assert_ok(evzmq_subscriber_subscribe(l.subscriber, "a"));
    listener_subscribe(&l, peer, "ab", 1);
    assert_int_equal(listener_stats(&l).subscriptions, 2);
    assert_ok(evzmq_subscriber_unsubscribe(l.subscriber, "a"));
    send_record(peer, "ac", "1");
    run_until_log(&l, "ac=1");
    assert_ok(evzmq_subscriber_unsubscribe(l.subscriber, "a"));
    pump_recv_text(f, peer, text, sizeof text);
    assert_int_equal(text[0], 0);
    assert_string_equal(text + 1, "a");
    send_record(peer, "ac", "2");
    send_record(peer, "abc", "3");
    run_until_log(&l, "ac=1 abc=3");
    assert_errno(evzmq_subscriber_unsubscribe(l.subscriber, "a"), ENOENT);
    /* With the last one shared batches go too. */
    assert_ok(evzmq_subscriber_unsubscribe(l.subscriber, "ab"));
    pump_recv_text(f, peer, text, sizeof text);
    pump_recv_text(f, peer, text, sizeof text);
    assert_string_equal(text + 1, "batch");
    assert_int_equal(listener_stats(&l).subscriptions, 0);
    listener_free(&l);
}

static void shared_batches_can_be_left_out(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_subscriber_options how = {.size = sizeof how, .no_shared_batches = 1};
    struct listener l = {0};
    void *peer = NULL;

    listener_open(f, &l, &how);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "a", 1);
    send_batch(peer, "batch", "1|2");
    send_record(peer, "a", "3");
    run_until_log(&l, "a=3");
    listener_free(&l);
}

/* The first byte of a record says its topic: a capital letter none, a lower one that letter. */
static int first_letter(const void *data, size_t size, const void **out_topic, size_t *out_size,
                        void *arg)
{
    assert_true(size > 0);
    assert_string_equal(arg, "arg");
    *out_topic = data;
    *out_size = 1;
    return *(const char *)data >= 'a' ? 0 : -1;
}

static void records_of_shared_batches_get_their_topics_told(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {0};
    void *peer = NULL;
    char arg[] = "arg";

    listener_open(f, &l, NULL);
    evzmq_subscriber_set_topic_cb(l.subscriber, first_letter, arg);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "a", 2);
    send_batch(peer, "batch", "a1|b2|C3|a4");
    run_until_log(&l, "a=a1 batch=C3 a=a4");
    assert_int_equal(listener_stats(&l).records_filtered, 1);
    listener_free(&l);
}

static void disable_in_a_batch_keeps_the_rest_for_enable(void **state)
{
    struct fixture *const f = *state;
    const uint32_t sizes[] = {4, 4000}; /* The frame is copied; it is shared. */

    for (size_t i = 0; i < 2; i++) {
        struct listener l = {.on_record = disable_at_three};
        void *peer = NULL;

        listener_open(f, &l, NULL);
        peer = listener_peer(&l, TRANSPORT_IPC);
        listener_subscribe(&l, peer, "", 2);
        send_numbers(peer, 10, sizes[i]);
        run_until(f, l.records == 3);
        fixture_run_for(f, 20);
        assert_int_equal(l.records, 3);
        assert_int_equal(listener_stats(&l).waiting, 7);
        l.on_record = check_number;
        assert_ok(evzmq_subscriber_enable(l.subscriber));
        assert_int_equal(l.records, 3); /* Not from inside the call. */
        run_until(f, l.records == 10);
        assert_int_equal(l.bytes, 10 * (size_t)sizes[i]);
        l.records = 0;
        send_numbers(peer, 2, 4); /* And reading goes on. */
        run_until(f, l.records == 2);
        listener_free(&l);
    }
}

struct ticker {
    struct event *timer;
    size_t ticks;
};

static void count_tick(evutil_socket_t fd, short what, void *arg)
{
    const struct timeval now = {0, 0};
    struct ticker *const ticker = arg;

    (void)fd;
    (void)what;
    ticker->ticks++;
    assert_int_equal(event_add(ticker->timer, &now), 0);
}

static void batch_of_very_many_records_leaves_turns_for_a_timer(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget few = {.size = sizeof few, .read_messages = 10};
    const struct timeval now = {0, 0};
    struct listener l = {.on_record = check_number};
    struct ticker ticker = {0};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    assert_ok(evzmq_socket_set_budget(evzmq_subscriber_get_socket(l.subscriber), &few));
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    send_numbers(peer, 1000, 16);
    ticker.timer = evtimer_new(f->base, count_tick, &ticker);
    assert_int_equal(event_add(ticker.timer, &now), 0);
    run_until(f, l.records == 1000);
    assert_true(ticker.ticks >= 50);
    event_free(ticker.timer);
    listener_free(&l);
}

static void break_loop(struct listener *l, struct evzmq_message *message)
{
    check_number(l, message);
    assert_int_equal(event_base_loopbreak(l->f->base), 0);
}

static void loopbreak_stops_after_a_record_and_the_next_dispatch_goes_on(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {.on_record = break_loop};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    send_numbers(peer, 5, 16);
    for (size_t i = 1; i <= 5; i++) {
        assert_int_equal(fixture_loop(f, 0), 0);
        assert_int_equal(l.records, i);
    }
    listener_free(&l);
}

static void keep_record(struct listener *l, struct evzmq_message *message)
{
    struct evbuffer *const buffer = evbuffer_new();
    uint32_t number = 0;

    assert_ok(evzmq_message_part_to_evbuffer(message, 0, buffer));
    assert_int_equal(evbuffer_get_length(buffer), evzmq_message_get_size(message));
    assert_int_equal(evbuffer_copyout(buffer, &number, sizeof number), sizeof number);
    assert_int_equal(number, l->records - 1);
    evbuffer_free(buffer);
    if (l->records == 2) {
        l->arg = evzmq_message_take(message);
        assert_non_null(l->arg);
    }
}

static void record_of_a_batch_can_be_kept_and_moved_into_an_evbuffer(void **state)
{
    struct fixture *const f = *state;
    const uint32_t sizes[] = {100, EVZMQ_ZERO_COPY_MIN + 1};

    for (size_t i = 0; i < 2; i++) {
        struct listener l = {.on_record = keep_record};
        void *peer = NULL;
        size_t size = 0;
        uint32_t number = 0;

        listener_open(f, &l, NULL);
        peer = listener_peer(&l, TRANSPORT_IPC);
        listener_subscribe(&l, peer, "", 2);
        send_numbers(peer, 3, sizes[i]);
        run_until(f, l.records == 3);
        listener_free(&l);
        memcpy(&number, evzmq_message_get_part(l.arg, 0, &size), sizeof number);
        assert_int_equal(number, 1);
        assert_int_equal(size, sizes[i]);
        evzmq_message_free(l.arg);
    }
}

static void unsubscribe_a(struct listener *l, struct evzmq_message *message)
{
    (void)message;
    assert_ok(evzmq_subscriber_unsubscribe(l->subscriber, "a"));
    l->on_record = NULL;
}

static void unsubscribe_in_a_batch_ends_its_topic_at_once(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {.on_record = unsubscribe_a};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "a", 2);
    listener_subscribe(&l, peer, "b", 1);
    send_marked(peer, "a", "1|2|3");
    send_marked(peer, "b", "4|5");
    run_until_log(&l, "a=1 b=4 b=5");
    assert_int_equal(listener_stats(&l).records_filtered, 2);
    listener_free(&l);
}

static void disable_now(struct listener *l, struct evzmq_message *message)
{
    (void)message;
    assert_ok(evzmq_subscriber_disable(l->subscriber));
}

/* A pass that ends early reads ZMQ_EVENTS, and with that libzmq takes the next message out. */
static void unsubscribe_ends_a_topic_of_which_libzmq_has_the_next_record_ready(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {.on_record = disable_now};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "a", 2);
    listener_subscribe(&l, peer, "b", 1);
    send_record(peer, "a", "1");
    send_record(peer, "a", "2");
    send_record(peer, "b", "3");
    run_until_log(&l, "a=1");
    l.on_record = NULL;
    assert_ok(evzmq_subscriber_unsubscribe(l.subscriber, "a"));
    assert_ok(evzmq_subscriber_enable(l.subscriber));
    run_until(f, l.records + listener_stats(&l).records_filtered == 3);
    assert_string_equal(l.log, "a=1 b=3");
    listener_free(&l);
}

static void without_a_record_callback_nothing_is_received(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {0};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    evzmq_subscriber_setcb(l.subscriber, NULL, NULL, NULL);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    send_record(peer, "t", "x");
    fixture_run_for(f, 20);
    assert_int_equal(listener_stats(&l).frames, 0);
    listener_setcb(&l);
    run_until_log(&l, "t=x");
    listener_free(&l);
}

static void what_a_publisher_says_arrives_in_order_over_every_transport(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_publisher_options how = {.size = sizeof how,
                                          .when_full = EVZMQ_FULL_WAIT,
                                          .batch_records = 7,
                                          .batch_delay_usec = 1000};

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        for (int batching = EVZMQ_BATCH_OFF; batching <= EVZMQ_BATCH_PER_TOPIC; batching++) {
            struct speaker s = {0};
            struct listener l = {.on_record = check_number};

            how.batching = (enum evzmq_batching)batching;
            speaker_open(f, &s, (enum transport)transport, &how, 0);
            listener_open(f, &l, NULL);
            listener_join(&l, &s, "t", 2);
            for (uint32_t i = 0; i < 1000; i++) {
                while (evzmq_publisher_publish(s.publisher, "t", &i, sizeof i) < 0) {
                    assert_int_equal(errno, EAGAIN);
                    fixture_glance(f);
                }
            }
            run_until(f, l.records == 1000);
            assert_int_equal(listener_stats(&l).batches, speaker_stats(&s).batches);
            assert_int_equal(listener_stats(&l).frames, speaker_stats(&s).frames);
            listener_free(&l);
            speaker_free(&s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(each_record_of_a_batch_is_one_callback),
        claim(broken_batch_delivers_what_is_before_the_fault_then_one_error),
        claim(frames_without_a_topic_are_errors_and_two_parts_are_topic_and_record),
        claim(topics_may_be_empty_and_have_any_bytes),
        claim(record_that_the_codec_refuses_is_one_error_and_disturbs_no_other),
        claim(codec_can_be_changed_between_two_records_of_a_batch),
        claim(subscriptions_are_counted),
        claim(shared_batches_can_be_left_out),
        claim(records_of_shared_batches_get_their_topics_told),
        claim(disable_in_a_batch_keeps_the_rest_for_enable),
        claim(batch_of_very_many_records_leaves_turns_for_a_timer),
        claim(loopbreak_stops_after_a_record_and_the_next_dispatch_goes_on),
        claim(record_of_a_batch_can_be_kept_and_moved_into_an_evbuffer),
        claim(unsubscribe_in_a_batch_ends_its_topic_at_once),
        claim(unsubscribe_ends_a_topic_of_which_libzmq_has_the_next_record_ready),
        claim(without_a_record_callback_nothing_is_received),
        claim(what_a_publisher_says_arrives_in_order_over_every_transport),
    };

    return run_claims(tests);
}
