/**
 * @file test_conflate.c
 * A conflating subscriber: of each topic the latest.
 */
#include "audience.h"

#include <stdio.h>
#include <string.h>

static const struct evzmq_subscriber_options conflating = {.size = sizeof conflating,
                                                           .conflate = 1};

static void *open_joined(struct fixture *f, struct listener *l,
                         const struct evzmq_subscriber_options *how)
{
    void *peer = NULL;

    /* What is sent before the loop runs is received in one pass, on slow machines too. */
    const struct evzmq_budget much = {.size = sizeof much, .read_usec = 60000000};

    listener_open(f, l, how);
    assert_ok(evzmq_socket_set_budget(evzmq_subscriber_get_socket(l->subscriber), &much));
    peer = listener_peer(l, TRANSPORT_INPROC);
    listener_subscribe(l, peer, "", 2);
    return peer;
}

static void of_each_topic_the_latest_is_delivered_in_the_order_of_topics(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {0};
    void *const peer = open_joined(f, &l, &conflating);

    send_record(peer, "a", "1");
    send_record(peer, "b", "2");
    send_record(peer, "a", "a longer one");
    send_marked(peer, "b", "3|4");
    send_record(peer, "c", "5");
    send_marked(peer, "a", "6|7");
    run_until(f, l.records == 3);
    assert_string_equal(l.log, "a=7 b=4 c=5");
    assert_int_equal(listener_stats(&l).records_conflated, 5);
    send_record(peer, "b", "8");
    run_until(f, l.records == 4);
    assert_string_equal(l.log, "a=7 b=4 c=5 b=8");
    assert_int_equal(listener_stats(&l).waiting, 0);
    listener_free(&l);
}

static int first_letter(const void *data, size_t size, const void **out_topic, size_t *out_size,
                        void *arg)
{
    (void)size;
    (void)arg;
    *out_topic = data;
    *out_size = 1;
    return 0;
}

static void shared_batches_conflate_by_the_topics_that_are_told(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {0};
    void *const peer = open_joined(f, &l, &conflating);

    send_batch(peer, "batch", "a1|b1|a2");
    run_until(f, l.records == 1);
    assert_string_equal(l.log, "batch=a2");
    l.log[0] = '\0';
    evzmq_subscriber_set_topic_cb(l.subscriber, first_letter, NULL);
    send_batch(peer, "batch", "a1|b1|a2");
    send_record(peer, "b", "b2");
    run_until(f, l.records == 3);
    assert_string_equal(l.log, "a=a2 b=b2");
    listener_free(&l);
}

static void while_disabled_the_latest_are_kept_and_the_publisher_is_not_held_up(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {0};
    void *const peer = open_joined(f, &l, &conflating);
    char text[16];

    assert_ok(evzmq_subscriber_disable(l.subscriber));
    for (int i = 0; i < 5000; i++) { /* More than the high water marks hold. */
        (void)snprintf(text, sizeof text, "%d", i);
        send_record(peer, i % 2 == 0 ? "even" : "odd", text);
        if (i % 500 == 499) {
            run_until(f, listener_stats(&l).frames == (uint64_t)i + 1);
            /* Has the peer learn what was read: sending alone does so once in a while only, and a
             * peer that thinks its subscriber full drops. */
            assert_false(peer_try_recv_text(peer, text, sizeof text));
        }
    }
    assert_int_equal(l.records, 0);
    assert_int_equal(listener_stats(&l).waiting, 2);
    assert_ok(evzmq_subscriber_enable(l.subscriber));
    run_until(f, l.records == 2);
    assert_string_equal(l.log, "even=4998 odd=4999");
    listener_free(&l);
}

static void more_topics_than_may_wait_are_delivered_all(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_subscriber_options how = {
        .size = sizeof how, .conflate = 1, .conflate_topics = 3};
    struct listener l = {0};
    void *const peer = open_joined(f, &l, &how);

    send_record(peer, "a", "1");
    send_record(peer, "b", "2");
    send_marked(peer, "c", "3|4");
    send_record(peer, "d", "5");
    send_record(peer, "e", "6");
    send_record(peer, "a", "7");
    run_until(f, l.records == 6);
    assert_string_equal(l.log, "a=1 b=2 c=4 d=5 e=6 a=7");
    listener_free(&l);
}

static void full_and_disabled_reading_stops(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_subscriber_options how = {
        .size = sizeof how, .conflate = 1, .conflate_topics = 1};
    struct listener l = {0};
    void *const peer = open_joined(f, &l, &how);

    assert_ok(evzmq_subscriber_disable(l.subscriber));
    evzmq_subscriber_set_topic_cb(l.subscriber, first_letter, NULL);
    send_batch(peer, "batch", "a1|b1|c1");
    send_record(peer, "d", "1");
    run_until(f, listener_stats(&l).frames == 1);
    fixture_run_for(f, 20);
    assert_int_equal(listener_stats(&l).frames, 1);
    assert_int_equal(listener_stats(&l).waiting, 3);
    assert_ok(evzmq_subscriber_enable(l.subscriber));
    run_until(f, l.records == 4);
    assert_string_equal(l.log, "a=a1 b=b1 c=c1 d=1");
    listener_free(&l);
}

static void unsubscribed_topics_are_not_delivered_any_more(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {0};
    void *peer = NULL;

    listener_open(f, &l, &conflating);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "a", 2);
    listener_subscribe(&l, peer, "b", 1);
    assert_ok(evzmq_subscriber_disable(l.subscriber));
    send_record(peer, "a", "1");
    send_record(peer, "b", "2");
    run_until(f, listener_stats(&l).waiting == 2);
    assert_ok(evzmq_subscriber_unsubscribe(l.subscriber, "a"));
    assert_ok(evzmq_subscriber_enable(l.subscriber));
    run_until(f, l.records == 1);
    assert_string_equal(l.log, "b=2");
    assert_int_equal(listener_stats(&l).records_filtered, 1);
    listener_free(&l);
}

static void free_now(struct listener *l, struct evzmq_message *message)
{
    (void)message;
    listener_free(l);
}

static void disable_now(struct listener *l, struct evzmq_message *message)
{
    (void)message;
    assert_ok(evzmq_subscriber_disable(l->subscriber));
}

static void free_and_disable_in_the_callback_stop_delivery(void **state)
{
    struct fixture *const f = *state;
    struct listener freed = {.on_record = free_now};
    struct listener disabled = {.on_record = disable_now};
    void *peer = open_joined(f, &freed, &conflating);

    send_record(peer, "a", "1");
    send_record(peer, "b", "2");
    run_until(f, freed.subscriber == NULL);
    assert_int_equal(freed.records, 1);

    peer = open_joined(f, &disabled, &conflating);
    send_record(peer, "a", "1");
    send_record(peer, "b", "2");
    run_until(f, disabled.records == 1);
    fixture_run_for(f, 20);
    assert_int_equal(disabled.records, 1);
    assert_int_equal(listener_stats(&disabled).waiting, 1);
    listener_free(&disabled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(of_each_topic_the_latest_is_delivered_in_the_order_of_topics),
        claim(shared_batches_conflate_by_the_topics_that_are_told),
        claim(while_disabled_the_latest_are_kept_and_the_publisher_is_not_held_up),
        claim(more_topics_than_may_wait_are_delivered_all),
        claim(full_and_disabled_reading_stops),
        claim(unsubscribed_topics_are_not_delivered_any_more),
        claim(free_and_disable_in_the_callback_stop_delivery),
    };

    return run_claims(tests);
}
