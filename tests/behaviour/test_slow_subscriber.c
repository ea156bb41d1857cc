/**
 * @file test_slow_subscriber.c
 * Subscribers that do not read, and how a publisher ends.
 */
#include "audience.h"
#include "child.h"

#include <string.h>

#define MARK 8

/* Publishes a sequence number under "t". */
static int say_number(struct speaker *s, uint64_t number)
{
    return evzmq_publisher_publish(s->publisher, "t", &number, sizeof number);
}

/* Reads the numbers that are there; they rise. Returns how many. */
static size_t read_numbers(void *peer, uint64_t *next)
{
    unsigned char frame[EVZMQ_TOPIC_BYTES + sizeof *next];
    size_t count = 0;

    while (zmq_recv(peer, frame, sizeof frame, ZMQ_DONTWAIT) == (int)sizeof frame) {
        uint64_t number = 0;

        memcpy(&number, frame + EVZMQ_TOPIC_BYTES, sizeof number);
        assert_true(number >= *next);
        *next = number + 1;
        count++;
    }
    return count;
}

static void subscriber_that_does_not_read_loses_records_and_no_other_does(void **state)
{
    struct fixture *const f = *state;
    struct speaker s = {0};
    void *slow = NULL;
    void *quick = NULL;
    uint64_t slow_next = 0;
    uint64_t quick_next = 0;
    size_t got = 0;

    speaker_open(f, &s, TRANSPORT_INPROC, NULL, MARK);
    slow = speaker_peer(&s, MARK);
    quick = speaker_peer(&s, MARK);
    for (uint64_t i = 0; i < 20000; i++) {
        assert_ok(say_number(&s, i)); /* It is never refused. */
        if (i % MARK == MARK - 1) {
            assert_int_equal(read_numbers(quick, &quick_next), MARK); /* Nothing is lost here. */
            fixture_glance(f);
        }
    }
    assert_int_equal(quick_next, 20000);
    assert_int_equal(speaker_stats(&s).queued_frames, 0);
    assert_int_equal(speaker_stats(&s).sheds, 1); /* It never came back. */
    /* On inproc both marks add up; that is all that was ever kept for it. */
    got = read_numbers(slow, &slow_next);
    assert_int_equal(got, 2 * MARK);
    assert_int_equal(slow_next, 2 * MARK);
    /* It has read, so it gets the next ones, and when it stops again that is counted again. */
    fixture_glance(f);
    for (uint64_t i = 20000; i < 20100; i++) {
        assert_ok(say_number(&s, i));
        (void)read_numbers(quick, &quick_next);
    }
    assert_int_equal(read_numbers(slow, &slow_next), 2 * MARK);
    assert_int_equal(speaker_stats(&s).sheds, 2);
    speaker_free(&s);
}

static void what_may_wait_for_a_subscriber_is_limited_in_bytes(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {
        .size = sizeof how, .batch_bytes = 1024, .subscriber_bytes = 16 * 1024};
    struct evzmq_publisher_options less = how;
    static const char record[1024] = "";
    struct speaker s = {0};
    struct speaker little = {0};
    int mark = 0;
    size_t size = sizeof mark;
    void *slow = NULL;

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    assert_int_equal(zmq_getsockopt(s.zmq_socket, ZMQ_SNDHWM, &mark, &size), 0);
    assert_int_equal(mark, 16);
    slow = speaker_peer(&s, 1);
    assert_errno(evzmq_publisher_publish(s.publisher, "t", record, 1024 - EVZMQ_TOPIC_BYTES + 1),
                 EMSGSIZE);
    for (int i = 0; i < 100; i++) {
        assert_ok(evzmq_publisher_publish(s.publisher, "t", record, 1024 - EVZMQ_TOPIC_BYTES));
    }
    mark = 0;
    while (zmq_recv(slow, NULL, 0, ZMQ_DONTWAIT) >= 0) {
        mark++;
    }
    assert_int_equal(mark, 17); /* And the subscriber's own mark. */
    speaker_free(&s);

    less.subscriber_bytes = 1;
    speaker_open(f, &little, TRANSPORT_INPROC, &less, 0);
    assert_int_equal(zmq_getsockopt(little.zmq_socket, ZMQ_SNDHWM, &mark, &size), 0);
    assert_int_equal(mark, 1); /* 0 would be no limit at all. */
    speaker_free(&little);
}

static void publisher_that_waits_refuses_and_loses_nothing(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof how, .when_full = EVZMQ_FULL_WAIT};
    struct speaker s = {0};
    void *slow = NULL;
    uint64_t said = 0;
    uint64_t next = 0;
    size_t got = 0;
    size_t rounds = 0;

    speaker_open(f, &s, TRANSPORT_INPROC, &how, MARK);
    assert_ok(evzmq_socket_set_output_limit(evzmq_publisher_get_socket(s.publisher), 10, 0));
    slow = speaker_peer(&s, MARK);
    while (said < 1000) {
        if (say_number(&s, said) == 0) {
            said++;
            continue;
        }
        assert_int_equal(errno, EAGAIN);
        assert_errno(say_number(&s, said), EAGAIN);
        rounds++;
        assert_true(speaker_stats(&s).queued_frames <= 10);
        while (s.writes < rounds) {
            const uint64_t before = next;

            got += read_numbers(slow, &next);
            assert_int_equal(next - before, got - before); /* Without a gap. */
            fixture_glance(f);
        }
        assert_int_equal(s.writes, rounds); /* Once, though two calls were refused. */
    }
    while (got < 1000) {
        fixture_glance(f);
        got += read_numbers(slow, &next);
    }
    assert_int_equal(next, 1000);
    assert_int_equal(speaker_stats(&s).records_refused, 2 * rounds);
    assert_int_equal(speaker_stats(&s).sheds, 0);
    assert_true(rounds > 1);
    speaker_free(&s);
}

static void append(char *text, unsigned char letter)
{
    const size_t length = strlen(text);

    text[length] = (char)letter;
    text[length + 1] = '\0';
}

/* Reads batches and records of one byte each, and appends the bytes. */
static void read_letters(void *peer, char *text)
{
    unsigned char frame[512];
    int size = 0;

    while ((size = zmq_recv(peer, frame, sizeof frame, ZMQ_DONTWAIT)) > 0) {
        size_t at = EVZMQ_TOPIC_BYTES;

        if (memcmp(frame, "batch", 6) != 0) {
            append(text, frame[at]);
            continue;
        }
        for (at++; at < (size_t)size; at += 3) {
            assert_int_equal(frame[at], 0xc4);
            append(text, frame[at + 2]);
        }
    }
}

static void blocked_batch_takes_no_more_than_it_may_and_goes_when_there_is_room(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_SHARED,
                                                .when_full = EVZMQ_FULL_WAIT,
                                                .batch_records = 4,
                                                .batch_delay_usec = 1000};
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct speaker s = {0};
    void *slow = NULL;
    size_t said = 0;
    char text[128] = "";

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 1);
    assert_ok(evzmq_socket_set_output_limit(evzmq_publisher_get_socket(s.publisher), 2, 0));
    slow = speaker_peer(&s, 1);
    while (evzmq_publisher_publish(s.publisher, "t", letters + said, 1) == 0) {
        said++;
    }
    /* Two frames with libzmq, two in the queue, and a batch that is full. */
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(said, 5 * 4);
    assert_int_equal(speaker_stats(&s).pending_records, 4);
    fixture_run_for(f, 20); /* Its time comes, and that changes nothing. */
    assert_int_equal(speaker_stats(&s).pending_records, 4);
    assert_errno(evzmq_publisher_flush(s.publisher), EAGAIN);
    while (strlen(text) < said) {
        read_letters(slow, text);
        fixture_glance(f);
    }
    assert_memory_equal(text, letters, said);
    assert_int_equal(s.writes, 1);
    assert_int_equal(speaker_stats(&s).pending_records, 0);
    speaker_free(&s);
}

static void record_refused_for_a_batch_that_may_still_wait_is_called_back(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_SHARED,
                                                .when_full = EVZMQ_FULL_WAIT,
                                                .batch_bytes = 64,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    struct speaker s = {0};
    void *slow = NULL;
    char frame[128];

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 1);
    assert_ok(evzmq_socket_set_output_limit(evzmq_publisher_get_socket(s.publisher), 1, 0));
    slow = speaker_peer(&s, 1);
    while (evzmq_publisher_publish(s.publisher, "t", "0123456789", 10) == 0) {
    }
    assert_int_equal(errno, EAGAIN);
    while (s.writes == 0) {
        (void)zmq_recv(slow, frame, sizeof frame, ZMQ_DONTWAIT);
        fixture_glance(f);
    }
    assert_int_equal(speaker_stats(&s).pending_records, 1); /* Not full, and not due. */
    speaker_say(&s, "t", "0123456789");
    speaker_free(&s);
}

static void shutdown_sends_batches_first_and_counts_what_is_said_later(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_PER_TOPIC,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    struct speaker s = {0};
    void *peer = NULL;
    char text[128];

    speaker_open(f, &s, TRANSPORT_IPC, &how, 0);
    peer = speaker_peer(&s, 0);
    speaker_say(&s, "a", "1");
    speaker_say(&s, "b", "2");
    speaker_shutdown(&s, NULL);
    assert_ok(evzmq_publisher_shutdown(s.publisher, NULL, NULL, NULL)); /* Does nothing. */
    assert_int_equal(s.done, 0);
    run_until(f, s.done);
    assert_int_equal(s.handed_over, 2);
    assert_int_equal(s.not_handed_over, 0);
    (void)peer_recv_text(peer, text, sizeof text);
    assert_string_equal(text + EVZMQ_TOPIC_BYTES, "1");
    (void)peer_recv_text(peer, text, sizeof text);
    assert_string_equal(text + EVZMQ_TOPIC_BYTES, "2");
    assert_errno(evzmq_publisher_publish(s.publisher, "a", "3", 1), ESHUTDOWN);
    assert_int_equal(speaker_stats(&s).records_after_shutdown, 1);
    fixture_run_for(f, 20);
    assert_int_equal(s.done, 1);
    speaker_free(&s);
}

static void shutdown_takes_all_batches_whatever_the_limit_and_ends_at_the_deadline(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_PER_TOPIC,
                                                .when_full = EVZMQ_FULL_WAIT,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    const struct timeval soon = {0, 10000};
    struct timeval wrong = {0, -1};
    struct speaker s = {0};

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 1);
    assert_ok(evzmq_socket_set_output_limit(evzmq_publisher_get_socket(s.publisher), 1, 0));
    (void)speaker_peer(&s, 1);
    for (char topic[2] = "a"; topic[0] < 'k'; topic[0]++) {
        speaker_say(&s, topic, "x");
    }
    assert_int_equal(speaker_stats(&s).pending_topics, 10);
    assert_errno(evzmq_publisher_shutdown(s.publisher, &wrong, NULL, NULL), EINVAL);
    speaker_shutdown(&s, &soon);
    assert_int_equal(speaker_stats(&s).pending_topics, 0);
    run_until(f, s.done);
    assert_int_equal(s.handed_over, 2);
    assert_int_equal(s.not_handed_over, 8);
    speaker_free(&s);
}

static void free_speaker(struct speaker *s)
{
    speaker_free(s);
}

static void free_in_any_callback_ends_all_of_them(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {
        .size = sizeof how, .batching = EVZMQ_BATCH_SHARED, .when_full = EVZMQ_FULL_WAIT};
    struct speaker done = {.on_done = free_speaker};
    struct speaker subscription = {.on_subscription = free_speaker};
    struct speaker write = {.on_write = free_speaker};
    struct speaker event = {.on_event = free_speaker};
    void *peer = NULL;
    uint64_t next = 0;

    speaker_open(f, &done, TRANSPORT_INPROC, &how, 0);
    speaker_say(&done, "t", "x");
    speaker_shutdown(&done, NULL);
    run_until(f, done.publisher == NULL);

    speaker_open(f, &subscription, TRANSPORT_INPROC, &how, 0);
    speaker_say(&subscription, "t", "x");
    peer = peer_new(f, ZMQ_SUB);
    peer_connect(peer, subscription.endpoint);
    run_until(f, subscription.publisher == NULL);

    speaker_open(f, &write, TRANSPORT_INPROC, &how, 1);
    assert_ok(evzmq_socket_set_output_limit(evzmq_publisher_get_socket(write.publisher), 1, 0));
    peer = speaker_peer(&write, 1);
    while (evzmq_publisher_publish(write.publisher, "t", &next, sizeof next) == 0) {
    }
    while (write.publisher != NULL) {
        char frame[4096];

        (void)zmq_recv(peer, frame, sizeof frame, ZMQ_DONTWAIT);
        fixture_glance(f);
    }

    speaker_open(f, &event, TRANSPORT_INPROC, &how, 0);
    speaker_say(&event, "t", "x");
    assert_int_equal(zmq_ctx_shutdown(f->context), 0);
    run_until(f, event.publisher == NULL);
    fixture_run_for(f, 20);
    assert_int_equal(event.events[EVZMQ_EVENT_TERMINATED], 1);
}

static void terminated_publisher_says_so_in_every_call(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {
        .size = sizeof how, .batching = EVZMQ_BATCH_SHARED, .batch_delay_usec = 5000};
    struct speaker s = {0};

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    speaker_say(&s, "t", "x");
    assert_int_equal(zmq_ctx_shutdown(f->context), 0);
    run_until(f, s.events[EVZMQ_EVENT_TERMINATED]);
    assert_errno(evzmq_publisher_publish(s.publisher, "t", "x", 1), ETERM);
    assert_errno(evzmq_publisher_flush(s.publisher), ETERM);
    assert_errno(evzmq_publisher_set_codec(s.publisher, NULL), ETERM);
    assert_errno(evzmq_publisher_shutdown(s.publisher, NULL, NULL, NULL), ETERM);
    assert_int_equal(fixture_loop(f, 0), 1); /* No timer keeps the loop. */
    assert_int_equal(speaker_stats(&s).pending_records, 1);
    speaker_free(&s);
}

static void use_in_child(void *arg)
{
    struct speaker *const s = arg;

    child_refused(evzmq_publisher_publish(s->publisher, "t", "x", 1));
    child_refused(evzmq_publisher_flush(s->publisher));
    child_refused(evzmq_publisher_shutdown(s->publisher, NULL, NULL, NULL));
    evzmq_publisher_free(s->publisher);
}

static void forked_child_may_only_free_its_publisher(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {
        .size = sizeof how, .batching = EVZMQ_BATCH_PER_TOPIC, .batch_delay_usec = 1000};
    struct speaker s = {0};
    void *peer = NULL;
    char text[128];

    speaker_open(f, &s, TRANSPORT_IPC, &how, 0);
    peer = speaker_peer(&s, 0);
    speaker_say(&s, "t", "x");
    child_run(use_in_child, &s);
    pump_recv_text(f, peer, text, sizeof text);
    assert_string_equal(text + EVZMQ_TOPIC_BYTES, "x");
    assert_false(peer_try_recv_text(peer, text, sizeof text));
    speaker_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(subscriber_that_does_not_read_loses_records_and_no_other_does),
        claim(what_may_wait_for_a_subscriber_is_limited_in_bytes),
        claim(publisher_that_waits_refuses_and_loses_nothing),
        claim(blocked_batch_takes_no_more_than_it_may_and_goes_when_there_is_room),
        claim(record_refused_for_a_batch_that_may_still_wait_is_called_back),
        claim(shutdown_sends_batches_first_and_counts_what_is_said_later),
        claim(shutdown_takes_all_batches_whatever_the_limit_and_ends_at_the_deadline),
        claim(free_in_any_callback_ends_all_of_them),
        claim(terminated_publisher_says_so_in_every_call),
        claim(forked_child_may_only_free_its_publisher),
    };

    return run_claims(tests);
}
