/*
 * Memory and libzmq that fail publishers and subscribers: whatever fails, the call says so, what
 * was accepted arrives, and nothing leaks.
 */
#include "audience.h"
#include "faults.h"

#include <stdio.h>
#include <string.h>

#include <evzmq/msgpack.h>

#include "publisher.h"
#include "subscriber.h"

#define TRIES_MAX 200

static const size_t repeats[] = {1, FOR_EVER};

/* Whether the fault that was planned came. */
static bool end_faults(void)
{
    faults_end();
    return faults_made(FAULTS_MEMORY | FAULT_SET) > 0;
}

static void new_publisher_without_memory_leaves_the_socket_the_callers(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof(how), .subscriber_bytes = 1};
    for (size_t i = 0; i < 2; i++) {
        void *socket = peer_new(f, ZMQ_XPUB);
        bool reached = true;
        for (size_t n = 1; reached; n++) {
            assert_true(n < TRIES_MAX);
            faults_begin(socket);
            faults_plan(FAULTS_MEMORY | FAULT_SET, n, repeats[i], ENOMEM);
            errno = 0;
            struct evzmq_publisher *publisher =
                evzmq_publisher_new(f->base, socket, EVZMQ_OPT_CLOSE_ON_FREE, &how);
            const int error = errno;
            reached = end_faults();
            if (publisher == NULL) {
                assert_true(reached);
                assert_int_equal(error, ENOMEM);
                peer_set_int(socket, ZMQ_LINGER, 0); /* It is still open. */
            } else {
                peer_forget(f, socket);
                evzmq_publisher_free(publisher);
                break;
            }
        }
    }
}

static void new_subscriber_without_memory_leaves_the_socket_the_callers(void **state)
{
    struct fixture *const f = *state;
    for (size_t i = 0; i < 2; i++) {
        void *socket = peer_new(f, ZMQ_SUB);
        for (size_t n = 1;; n++) {
            assert_true(n < TRIES_MAX);
            faults_begin(socket);
            faults_plan(FAULTS_MEMORY, n, repeats[i], ENOMEM);
            errno = 0;
            struct evzmq_subscriber *subscriber =
                evzmq_subscriber_new(f->base, socket, EVZMQ_OPT_CLOSE_ON_FREE, NULL);
            const int error = errno;
            const bool reached = end_faults();
            if (subscriber == NULL) {
                assert_true(reached);
                assert_int_equal(error, ENOMEM);
                peer_set_int(socket, ZMQ_LINGER, 0);
            } else {
                peer_forget(f, socket);
                evzmq_subscriber_free(subscriber);
                break;
            }
        }
    }
}

/* Publishes five records while something fails, and again what was refused; returns whether the
 * fault came. */
static bool publish_five(struct speaker *s, size_t n, size_t times)
{
    bool reached = false;
    for (int i = 0; i < 5; i++) {
        char topic[2] = {(char)('a' + i % 2), '\0'};
        char text[400];
        memset(text, '0' + i, sizeof(text));
        if (i == 0) {
            faults_begin(s->zmq_socket);
            faults_plan(FAULTS_MEMORY, n, times, ENOMEM);
        }
        /* It grows the batch; the last one is larger than a batch. */
        const size_t size = i == 4 ? sizeof(text) : 200;
        if (evzmq_publisher_publish(s->publisher, topic, text, size) < 0) {
            const int error = errno;
            reached = end_faults() || reached;
            assert_int_equal(error, ENOMEM);
            assert_true(reached);
            assert_ok(evzmq_publisher_publish(s->publisher, topic, text, size));
        }
    }
    if (evzmq_publisher_flush(s->publisher) < 0) {
        assert_int_equal(errno, ENOMEM);
        reached = end_faults() || reached;
        if (times == FOR_EVER) {
            assert_ok(evzmq_publisher_flush(s->publisher)); /* There was no timer either. */
        }
        /* By itself; the retry is a tenth of a second away. */
        run_until(s->f, speaker_stats(s).pending_records == 0);
    }
    return end_faults() || reached;
}

/* Reads five records, in the order of each topic, however they were put together. */
static void read_five(struct listener *l)
{
    run_until(l->f, l->records == 5);
    assert_int_equal(l->events[EVZMQ_EVENT_DECODE_ERROR], 0);
    assert_int_equal(l->bytes, 4 * 200 + 400);
}

static void publishing_without_memory_takes_nothing_or_all(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_publisher_options how = {
        .size = sizeof(how), .batch_bytes = 600, .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    for (int batching = EVZMQ_BATCH_OFF; batching <= EVZMQ_BATCH_PER_TOPIC; batching++) {
        how.batching = (enum evzmq_batching)batching;
        for (size_t i = 0; i < 2; i++) {
            bool reached = true;
            for (size_t n = 1; reached; n++) {
                struct speaker s = {0};
                struct listener l = {0};
                assert_true(n < TRIES_MAX);
                speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
                listener_open(f, &l, NULL);
                listener_join(&l, &s, "", 2);
                reached = publish_five(&s, n, repeats[i]);
                read_five(&l);
                listener_free(&l);
                speaker_free(&s);
                peer_close(f, s.zmq_socket);
                f->peer_count = 0;
            }
        }
    }
}

static void a_batch_is_begun_without_memory_for_a_timer(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof(how),
                                                .batching = EVZMQ_BATCH_SHARED};
    struct speaker s = {0};
    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    faults_begin(NULL);
    faults_plan(FAULT_EVENT_ADD, 1, FOR_EVER, ENOMEM);
    speaker_say(&s, "t", "x");
    faults_end();
    assert_int_equal(speaker_stats(&s).pending_topics, 1);
    run_until(f, speaker_stats(&s).flushed_by_time == 1);
    speaker_free(&s);
}

static void a_batch_that_signals_keep_from_going_is_tried_again(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {
        .size = sizeof(how), .batching = EVZMQ_BATCH_SHARED, .batch_delay_usec = 1};
    struct speaker s = {0};
    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    faults_begin(s.zmq_socket);
    faults_plan(FAULT_SEND, 1, FOR_EVER, EINTR);
    speaker_say(&s, "t", "x");
    run_until(f, faults_made(FAULT_SEND) > 0);
    faults_end();
    assert_int_equal(speaker_stats(&s).pending_records, 1);
    run_until(f, speaker_stats(&s).flushed_by_time == 1);
    speaker_free(&s);
}

/* Shuts a publisher down that has batches for which its queue has no room, while something fails.
 * Returns whether the fault came. */
static bool shut_down_full(struct fixture *f, size_t n, size_t times)
{
    const struct evzmq_publisher_options how = {.size = sizeof(how),
                                                .batching = EVZMQ_BATCH_PER_TOPIC,
                                                .when_full = EVZMQ_FULL_WAIT,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    const struct timeval later = {30, 0};
    struct speaker s = {0};
    char text[128];
    speaker_open(f, &s, TRANSPORT_INPROC, &how, 1);
    assert_ok(evzmq_socket_set_output_limit(evzmq_publisher_get_socket(s.publisher), 1, 0));
    void *peer = speaker_peer(&s, 1);
    for (char topic[2] = "a"; topic[0] < 'g'; topic[0]++) {
        speaker_say(&s, topic, "x");
    }
    faults_begin(s.zmq_socket);
    faults_plan(FAULTS_MEMORY, n, times, ENOMEM);
    const int result = evzmq_publisher_shutdown(s.publisher, &later, NULL, NULL);
    const int error = errno;
    const bool reached = end_faults();
    assert_int_equal(result, reached ? -1 : 0);
    if (reached) {
        assert_int_equal(error, ENOMEM);
        assert_ok(evzmq_publisher_shutdown(s.publisher, &later, NULL, NULL));
    }
    for (size_t got = 0; got < 6; got++) {
        pump_recv_text(f, peer, text, sizeof(text));
    }
    speaker_free(&s);
    peer_close(f, peer);
    peer_close(f, s.zmq_socket);
    f->peer_count = 0;
    return reached;
}

static void shutdown_without_memory_can_be_called_again(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        for (size_t n = 1; shut_down_full(*state, n, repeats[i]); n++) {
            assert_true(n < TRIES_MAX);
        }
    }
}

static void full_subscriber_and_an_option_that_fails_is_an_error_of_the_call(void **state)
{
    struct fixture *const f = *state;
    struct speaker s = {0};
    speaker_open(f, &s, TRANSPORT_INPROC, NULL, 1);
    void *peer = speaker_peer(&s, 1);
    speaker_say(&s, "t", "1");
    speaker_say(&s, "t", "2");
    faults_begin(s.zmq_socket);
    faults_plan(FAULT_SET, 1, 1, ETERM);
    assert_errno(evzmq_publisher_publish(s.publisher, "t", "3", 1), ETERM);
    faults_end();
    assert_int_equal(speaker_stats(&s).sheds, 0);
    speaker_say(&s, "t", "4");
    assert_int_equal(speaker_stats(&s).sheds, 1);
    (void)peer;
    speaker_free(&s);
}

static void queued_frames_shed_as_well(void **state)
{
    struct fixture *const f = *state;
    struct speaker s = {0};
    speaker_open(f, &s, TRANSPORT_INPROC, NULL, 1);
    void *peer = speaker_peer(&s, 1);
    struct evzmq_socket *socket = evzmq_publisher_get_socket(s.publisher);
    assert_ok(evzmq_socket_disable(socket, EV_WRITE));
    for (int i = 0; i < 10; i++) {
        speaker_say(&s, "t", "x");
    }
    assert_int_equal(speaker_stats(&s).queued_frames, 10);
    assert_ok(evzmq_socket_enable(socket, EV_WRITE));
    run_until(f, speaker_stats(&s).queued_frames == 0);
    assert_int_equal(speaker_stats(&s).sheds, 1);
    (void)peer;
    speaker_free(&s);
}

/* One batch of three records of 100 bytes and three of 9,000. */
static void send_six(void *peer)
{
    static unsigned char bytes[9000];
    struct evzmq__batch batch = {.topic = "t"};
    for (unsigned i = 0; i < 6; i++) {
        const size_t size = i < 3 ? 100 : sizeof(bytes);
        memset(bytes, 'a' + (int)i, size);
        memcpy(evzmq__batch_reserve(&batch, size, 1000000), bytes, size);
        evzmq__batch_commit(&batch, size);
    }
    const struct evzmq_bytes frame = evzmq__batch_frame(&batch, false);
    peer_send(peer, frame.data, frame.size);
    evzmq__batch_release(&batch);
}

static void check_letter(struct listener *l, struct evzmq_message *message)
{
    assert_int_equal(*(const char *)evzmq_message_get_part(message, 0, NULL),
                     'a' + (int)l->records - 1);
}

/* Subscribes, and takes a batch in several turns while something fails. */
static bool receive_six(struct fixture *f, const struct evzmq_subscriber_options *how, size_t n,
                        size_t times, struct evzmq_subscriber_stats *out_stats)
{
    const struct evzmq_budget one = {.size = sizeof(one), .read_messages = 1};
    struct listener l = {.on_record = how == NULL ? check_letter : NULL};
    listener_open(f, &l, how);
    assert_ok(evzmq_socket_set_budget(evzmq_subscriber_get_socket(l.subscriber), &one));
    void *peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    send_six(peer);
    faults_begin(l.zmq_socket);
    faults_plan(FAULTS_MEMORY & ~(unsigned)FAULT_EVENT_NEW, n, times, ENOMEM);
    /* What fails for good fails for a while only, or nothing could ever be received. */
    for (int i = 0; i < 20; i++) {
        fixture_glance(f);
    }
    const bool reached = end_faults();
    if (how == NULL) {
        run_until(f, l.records == 6);
    } else {
        run_until(f, l.records + listener_stats(&l).records_conflated +
                             listener_stats(&l).records_lost ==
                         6);
    }
    *out_stats = listener_stats(&l);
    assert_int_equal(out_stats->waiting, 0);
    listener_free(&l);
    peer_close(f, peer);
    f->peer_count = 0;
    return reached;
}

static void batch_that_cannot_be_put_off_is_delivered_now(void **state)
{
    struct fixture *const f = *state;
    for (size_t i = 0; i < 2; i++) {
        struct evzmq_subscriber_stats stats;
        bool reached = true;
        for (size_t n = 1; reached; n++) {
            assert_true(n < TRIES_MAX);
            reached = receive_six(f, NULL, n, repeats[i], &stats);
            assert_int_equal(stats.records_lost, 0);
        }
    }
}

static void record_that_cannot_be_kept_is_counted_as_lost(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_subscriber_options how = {.size = sizeof(how), .conflate = 1};
    uint64_t lost = 0;
    for (size_t i = 0; i < 2; i++) {
        struct evzmq_subscriber_stats stats;
        bool reached = true;
        for (size_t n = 1; reached; n++) {
            assert_true(n < TRIES_MAX);
            reached = receive_six(f, &how, n, repeats[i], &stats);
            lost += stats.records_lost;
        }
    }
    assert_true(lost > 0);
}

static void disable_now(struct listener *l, struct evzmq_message *message)
{
    (void)message;
    faults_plan(FAULT_ALLOC, 1, FOR_EVER, ENOMEM);
    assert_ok(evzmq_subscriber_disable(l->subscriber));
}

static void rest_that_cannot_be_kept_for_a_disabled_subscriber_is_counted(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {.on_record = disable_now};
    listener_open(f, &l, NULL);
    void *peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    send_six(peer);
    faults_begin(l.zmq_socket);
    run_until(f, l.events[EVZMQ_EVENT_ERROR] == 1);
    faults_end();
    assert_int_equal(l.records, 1);
    assert_int_equal(listener_stats(&l).records_lost, 5);
    l.on_record = NULL;
    assert_ok(evzmq_subscriber_enable(l.subscriber));
    send_six(peer);
    run_until(f, l.records == 7);
    listener_free(&l);
}

static void subscribing_that_fails_changes_nothing(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {0};
    listener_open(f, &l, NULL);
    void *peer = listener_peer(&l, TRANSPORT_INPROC);
    for (size_t n = 1; n <= 2; n++) { /* The prefix; shared batches. */
        faults_begin(l.zmq_socket);
        faults_plan(FAULT_SET, n, 1, ENOMEM);
        assert_errno(evzmq_subscriber_subscribe(l.subscriber, "a"), ENOMEM);
        faults_end();
        assert_int_equal(listener_stats(&l).subscriptions, 0);
        assert_errno(evzmq_subscriber_unsubscribe(l.subscriber, "a"), ENOENT);
    }
    faults_begin(l.zmq_socket);
    faults_plan(FAULT_ALLOC, 1, 1, ENOMEM);
    assert_errno(evzmq_subscriber_subscribe(l.subscriber, "a"), ENOMEM);
    faults_end();
    assert_ok(evzmq_subscriber_subscribe(l.subscriber, "a"));
    char text[64];
    do { /* The first attempt got as far as the peer, and back. */
        pump_recv_text(f, peer, text, sizeof(text));
    } while (strcmp(text + 1, "batch") != 0);
    unsigned char frame[64];
    peer_send(peer, frame, frame_write(frame, "a", "x", 1));
    run_until(f, l.records == 1);
    listener_free(&l);
}

static void enabling_needs_no_memory_for_a_timer(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {.on_record = disable_now};
    listener_open(f, &l, NULL);
    void *peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    send_six(peer);
    faults_end(); /* The plan of the hook does nothing. */
    run_until(f, l.records == 1);
    l.on_record = NULL;
    faults_begin(l.zmq_socket);
    faults_plan(FAULT_EVENT_ADD, 1, FOR_EVER, ENOMEM);
    assert_ok(evzmq_subscriber_enable(l.subscriber));
    faults_end();
    run_until(f, l.records == 6);
    listener_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(new_publisher_without_memory_leaves_the_socket_the_callers),
        claim(new_subscriber_without_memory_leaves_the_socket_the_callers),
        claim(publishing_without_memory_takes_nothing_or_all),
        claim(a_batch_is_begun_without_memory_for_a_timer),
        claim(a_batch_that_signals_keep_from_going_is_tried_again),
        claim(shutdown_without_memory_can_be_called_again),
        claim(full_subscriber_and_an_option_that_fails_is_an_error_of_the_call),
        claim(queued_frames_shed_as_well),
        claim(batch_that_cannot_be_put_off_is_delivered_now),
        claim(record_that_cannot_be_kept_is_counted_as_lost),
        claim(rest_that_cannot_be_kept_for_a_disabled_subscriber_is_counted),
        claim(subscribing_that_fails_changes_nothing),
        claim(enabling_needs_no_memory_for_a_timer),
    };
    return run_claims(tests);
}
