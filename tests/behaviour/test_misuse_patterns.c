/**
 * @file test_misuse_patterns.c
 * Requesters, publishers and subscribers: wrong arguments, and calls in a forked child, from a
 * wrong thread and after the end.
 */
#include "support.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "child.h"
#include "misuse.h"

static const struct timeval negative = {-1, 0};
static const struct evzmq_bytes value = {"x", 1};
static const struct evzmq_bytes nowhere = {NULL, 1};
static const struct evzmq_bytes endless = {"x", SIZE_MAX};

static void ignore_reply(struct evzmq_requester *requester, int64_t request, int error,
                         struct evzmq_message *reply, void *arg)
{
    (void)requester;
    (void)request;
    (void)error;
    (void)reply;
    (void)arg;
}

struct subject {
    struct fixture *f;
    struct probe dealer;
    struct evzmq_requester *requester;
    struct evzmq_publisher *publisher;
    struct evzmq_subscriber *subscriber;
    struct evzmq_message *message;
};

static void subject_open(struct fixture *f, struct subject *s)
{
    s->f = f;
    probe_attach(f, &s->dealer, peer_new(f, ZMQ_DEALER), 0);
    s->requester = evzmq_requester_new(s->dealer.socket, NULL);
    s->publisher = evzmq_publisher_new(f->base, peer_new(f, ZMQ_PUB), 0, NULL);
    void *const sub = zmq_socket(f->context, ZMQ_SUB);
    s->subscriber = evzmq_subscriber_new(f->base, sub, EVZMQ_OPT_CLOSE_ON_FREE, NULL);
    assert_non_null(s->requester);
    assert_non_null(s->publisher);
    assert_non_null(s->subscriber);
    s->message = evzmq_message_new();
    assert_ok(evzmq_message_add(s->message, "x", 1));
    fixture_glance(f);
    misuse_begin();
}

static void subject_close(struct subject *s)
{
    assert_int_equal(misuse_faults(), 0);
    evzmq_message_free(s->message);
    evzmq_requester_free(s->requester);
    evzmq_publisher_free(s->publisher);
    evzmq_subscriber_free(s->subscriber);
    probe_free(&s->dealer);
}

static void no_requester(const struct subject *s)
{
    struct evzmq_requester_stats stats = {.size = sizeof(stats)};
    const struct evzmq_requester_options sizeless = {.size = 0};
    const struct evzmq_requester_options large = {.size = SIZE_MAX};
    struct probe fresh = {0};
    struct probe pull = {0};
    probe_attach(s->f, &fresh, peer_new(s->f, ZMQ_DEALER), 0);
    probe_attach(s->f, &pull, peer_new(s->f, ZMQ_PULL), 0);
    no_object(EINVAL, evzmq_requester_new, NULL, NULL);
    no_object(EINVAL, evzmq_requester_new, fresh.socket, &sizeless);
    no_object(EINVAL, evzmq_requester_new, fresh.socket, &large);
    no_object(ENOTSUP, evzmq_requester_new, pull.socket, NULL);
    no_object(EBUSY, evzmq_requester_new, s->dealer.socket, NULL);
    returns(evzmq_requester_free, NULL);
    returns(evzmq_requester_setcb, NULL, NULL, NULL, NULL);
    null(evzmq_requester_get_socket, NULL);
    refused(EINVAL, evzmq_request, NULL, &value, 1, ignore_reply, NULL);
    refused(EINVAL, evzmq_request_bytes, NULL, "x", 1, 1, ignore_reply, NULL);
    refused(EINVAL, evzmq_request_message, NULL, s->message, 1, ignore_reply, NULL);
    refused(EINVAL, evzmq_request_cancel, NULL, 1);
    refused(EINVAL, evzmq_requester_shutdown, NULL, NULL, NULL, NULL);
    refused(EINVAL, evzmq_requester_get_stats, NULL, &stats);
    probe_free(&fresh);
    probe_free(&pull);
}

static void wrong_requests(const struct subject *s)
{
    struct evzmq_requester *const r = s->requester;
    struct evzmq_message *const empty = evzmq_message_new();
    struct evzmq_requester_stats stats = {.size = 0};
    refused(EINVAL, evzmq_request, r, NULL, 1, ignore_reply, NULL);
    refused(EINVAL, evzmq_request, r, &nowhere, 1, ignore_reply, NULL);
    refused(EINVAL, evzmq_request, r, &value, -2, ignore_reply, NULL);
    refused(EINVAL, evzmq_request, r, &value, INT_MIN, ignore_reply, NULL);
    refused(EINVAL, evzmq_request, r, &value, 1, NULL, NULL);
    refused(EINVAL, evzmq_request_bytes, r, NULL, 1, 1, ignore_reply, NULL);
    refused(ENOMEM, evzmq_request_bytes, r, "x", SIZE_MAX, 1, ignore_reply, NULL);
    refused(EINVAL, evzmq_request_bytes, r, "x", 1, -2, ignore_reply, NULL);
    refused(EINVAL, evzmq_request_bytes, r, "x", 1, 1, NULL, NULL);
    refused(EINVAL, evzmq_request_message, r, NULL, 1, ignore_reply, NULL);
    refused(EINVAL, evzmq_request_message, r, empty, 1, ignore_reply, NULL);
    refused(EINVAL, evzmq_request_message, r, s->message, -2, ignore_reply, NULL);
    refused(EINVAL, evzmq_request_message, r, s->message, 1, NULL, NULL);
    refused(ENOENT, evzmq_request_cancel, r, 0);
    refused(ENOENT, evzmq_request_cancel, r, 1);
    refused(ENOENT, evzmq_request_cancel, r, -1);
    refused(ENOENT, evzmq_request_cancel, r, INT64_MIN);
    refused(ENOENT, evzmq_request_cancel, r, INT64_MAX);
    refused(EINVAL, evzmq_requester_shutdown, r, &negative, NULL, NULL);
    refused(EINVAL, evzmq_requester_get_stats, r, NULL);
    refused(EINVAL, evzmq_requester_get_stats, r, &stats);
    stats.size = SIZE_MAX;
    refused(0, evzmq_requester_get_stats, r, &stats);
    evzmq_message_free(empty);
}

static void wrong_arguments_of_requesters_are_errors(void **state)
{
    struct subject s = {0};
    subject_open(*state, &s);
    no_requester(&s);
    wrong_requests(&s);
    misuse_complete((const char *const[]){"request.h", NULL});
    subject_close(&s);
}

static void no_publisher(const struct subject *s)
{
    struct evzmq_publisher_stats stats = {.size = sizeof(stats)};
    void *const pub = peer_new(s->f, ZMQ_PUB);
    void *const pull = peer_new(s->f, ZMQ_PULL);
#define PUBLISHER(field, number)                                                                   \
    do {                                                                                           \
        const struct evzmq_publisher_options wrong = {.size = sizeof(wrong), .field = number};     \
        no_object(EINVAL, evzmq_publisher_new, s->f->base, pub, 0, &wrong);                        \
    } while (0)
    const struct evzmq_publisher_options sizeless = {.size = 0};
    const struct evzmq_publisher_options large = {.size = SIZE_MAX};
    no_object(EINVAL, evzmq_publisher_new, NULL, pub, 0, NULL);
    no_object(EINVAL, evzmq_publisher_new, s->f->base, NULL, 0, NULL);
    no_object(EINVAL, evzmq_publisher_new, s->f->base, pull, 0, NULL);
    no_object(EINVAL, evzmq_publisher_new, s->f->base, pub, UINT_MAX, NULL);
    no_object(EINVAL, evzmq_publisher_new, s->f->base, pub, 0, &sizeless);
    no_object(EINVAL, evzmq_publisher_new, s->f->base, pub, 0, &large);
    PUBLISHER(batching, (enum evzmq_batching)99);
    PUBLISHER(when_full, (enum evzmq_full_policy)99);
    PUBLISHER(batch_bytes, 63);
    PUBLISHER(batch_bytes, SIZE_MAX);
    returns(evzmq_publisher_free, NULL);
    null(evzmq_publisher_get_socket, NULL);
    returns(evzmq_publisher_setcb, NULL, NULL, NULL, NULL, NULL);
    refused(EINVAL, evzmq_publisher_set_codec, NULL, NULL);
    refused(EINVAL, evzmq_publisher_publish, NULL, "t", "x", 1);
    refused(EINVAL, evzmq_publisher_publish_value, NULL, "t", &value);
    refused(EINVAL, evzmq_publisher_flush, NULL);
    refused(EINVAL, evzmq_publisher_shutdown, NULL, NULL, NULL, NULL);
    refused(EINVAL, evzmq_publisher_get_stats, NULL, &stats);
}

static void wrong_records(const struct subject *s)
{
    struct evzmq_publisher *const p = s->publisher;
    struct evzmq_publisher_stats stats = {.size = 0};
    char topic[2 * EVZMQ_TOPIC_BYTES];
    memset(topic, 't', sizeof(topic));
    topic[sizeof(topic) - 1] = '\0';
    refused(EINVAL, evzmq_publisher_publish, p, NULL, "x", 1);
    refused(EINVAL, evzmq_publisher_publish, p, topic, "x", 1);
    refused(EINVAL, evzmq_publisher_publish, p, "t", NULL, 1);
    refused(EMSGSIZE, evzmq_publisher_publish, p, "t", "x", SIZE_MAX);
    refused(EMSGSIZE, evzmq_publisher_publish, p, "t", "x", SIZE_MAX - 1);
    refused(ENOMEM, evzmq_publisher_publish, p, "t", "x", SIZE_MAX - EVZMQ_TOPIC_BYTES);
    refused(EINVAL, evzmq_publisher_publish_value, p, NULL, &value);
    refused(EINVAL, evzmq_publisher_publish_value, p, "t", NULL);
    refused(EINVAL, evzmq_publisher_publish_value, p, "t", &nowhere);
    refused(EMSGSIZE, evzmq_publisher_publish_value, p, "t", &endless);
    refused(EINVAL, evzmq_publisher_shutdown, p, &negative, NULL, NULL);
    refused(EINVAL, evzmq_publisher_get_stats, p, NULL);
    refused(EINVAL, evzmq_publisher_get_stats, p, &stats);
    stats.size = SIZE_MAX;
    refused(0, evzmq_publisher_get_stats, p, &stats);
}

/* The same where records are put together. */
static void wrong_records_of_a_batch(const struct subject *s)
{
    const struct evzmq_publisher_options how = {.size = sizeof(how),
                                                .batching = EVZMQ_BATCH_SHARED};
    struct evzmq_publisher *const p =
        evzmq_publisher_new(s->f->base, peer_new(s->f, ZMQ_PUB), 0, &how);
    assert_non_null(p);
    refused(EMSGSIZE, evzmq_publisher_publish, p, "t", "x", SIZE_MAX);
    refused(EMSGSIZE, evzmq_publisher_publish, p, "t", "x", SIZE_MAX - 1);
    refused(EMSGSIZE, evzmq_publisher_publish_value, p, "t", &endless);
    evzmq_publisher_free(p);
}

static void no_subscriber(const struct subject *s)
{
    struct evzmq_subscriber_stats stats = {.size = sizeof(stats)};
    const struct evzmq_subscriber_options sizeless = {.size = 0};
    const struct evzmq_subscriber_options large = {.size = SIZE_MAX};
    void *const sub = peer_new(s->f, ZMQ_SUB);
    void *const pull = peer_new(s->f, ZMQ_PULL);
    no_object(EINVAL, evzmq_subscriber_new, NULL, sub, 0, NULL);
    no_object(EINVAL, evzmq_subscriber_new, s->f->base, NULL, 0, NULL);
    no_object(EINVAL, evzmq_subscriber_new, s->f->base, pull, 0, NULL);
    no_object(EINVAL, evzmq_subscriber_new, s->f->base, sub, UINT_MAX, NULL);
    no_object(EINVAL, evzmq_subscriber_new, s->f->base, sub, 0, &sizeless);
    no_object(EINVAL, evzmq_subscriber_new, s->f->base, sub, 0, &large);
    returns(evzmq_subscriber_free, NULL);
    null(evzmq_subscriber_get_socket, NULL);
    returns(evzmq_subscriber_setcb, NULL, NULL, NULL, NULL);
    refused(EINVAL, evzmq_subscriber_set_codec, NULL, NULL);
    returns(evzmq_subscriber_set_topic_cb, NULL, NULL, NULL);
    refused(EINVAL, evzmq_subscriber_subscribe, NULL, "t");
    refused(EINVAL, evzmq_subscriber_unsubscribe, NULL, "t");
    refused(EINVAL, evzmq_subscriber_disable, NULL);
    refused(EINVAL, evzmq_subscriber_enable, NULL);
    refused(EINVAL, evzmq_subscriber_get_stats, NULL, &stats);
}

static void wrong_subscriptions(const struct subject *s)
{
    struct evzmq_subscriber *const sub = s->subscriber;
    struct evzmq_subscriber_stats stats = {.size = 0};
    char prefix[2 * EVZMQ_TOPIC_BYTES];
    memset(prefix, 't', sizeof(prefix));
    prefix[sizeof(prefix) - 1] = '\0';
    refused(EINVAL, evzmq_subscriber_subscribe, sub, NULL);
    refused(EINVAL, evzmq_subscriber_subscribe, sub, prefix);
    refused(EINVAL, evzmq_subscriber_unsubscribe, sub, NULL);
    refused(EINVAL, evzmq_subscriber_unsubscribe, sub, prefix);
    refused(ENOENT, evzmq_subscriber_unsubscribe, sub, "t");
    refused(EINVAL, evzmq_subscriber_get_stats, sub, NULL);
    refused(EINVAL, evzmq_subscriber_get_stats, sub, &stats);
    stats.size = SIZE_MAX;
    refused(0, evzmq_subscriber_get_stats, sub, &stats);
}

static void wrong_arguments_of_publishers_and_subscribers_are_errors(void **state)
{
    struct subject s = {0};
    subject_open(*state, &s);
    no_publisher(&s);
    wrong_records(&s);
    wrong_records_of_a_batch(&s);
    no_subscriber(&s);
    wrong_subscriptions(&s);
    misuse_complete((const char *const[]){"pubsub.h", NULL});
    subject_close(&s);
}

static void make_calls(const struct subject *s, enum misuse_when when)
{
    refused_when(ESHUTDOWN, evzmq_request, s->requester, &value, 1, ignore_reply, NULL);
    refused_when(ESHUTDOWN, evzmq_request_bytes, s->requester, "x", 1, 1, ignore_reply, NULL);
    refused_when(ESHUTDOWN, evzmq_request_message, s->requester, s->message, 1, ignore_reply, NULL);
    refused_when(ENOENT, evzmq_request_cancel, s->requester, 1);
    refused_when(0, evzmq_requester_shutdown, s->requester, NULL, NULL, NULL);
    refused_when(0, evzmq_publisher_set_codec, s->publisher, NULL);
    refused_when(ESHUTDOWN, evzmq_publisher_publish, s->publisher, "t", "x", 1);
    refused_when(ESHUTDOWN, evzmq_publisher_publish_value, s->publisher, "t", &value);
    refused_when(0, evzmq_publisher_flush, s->publisher);
    refused_when(0, evzmq_publisher_shutdown, s->publisher, NULL, NULL, NULL);
    refused_when(0, evzmq_subscriber_set_codec, s->subscriber, NULL);
    refused_when(0, evzmq_subscriber_subscribe, s->subscriber, "t");
    refused_when(0, evzmq_subscriber_unsubscribe, s->subscriber, "t");
    refused_when(0, evzmq_subscriber_disable, s->subscriber);
    refused_when(0, evzmq_subscriber_enable, s->subscriber);
}

static void set_callbacks(const struct subject *s)
{
    evzmq_requester_setcb(s->requester, NULL, NULL, NULL);
    evzmq_publisher_setcb(s->publisher, NULL, NULL, NULL, NULL);
    evzmq_subscriber_setcb(s->subscriber, NULL, NULL, NULL);
    evzmq_subscriber_set_topic_cb(s->subscriber, NULL, NULL);
}

static void child_of(void *arg)
{
    struct subject *const s = arg;
    make_calls(s, MISUSE_CHILD);
    set_callbacks(s);
    no_object(ECHILD, evzmq_publisher_new, s->f->base, s->f->context, 0, NULL);
    no_object(ECHILD, evzmq_subscriber_new, s->f->base, s->f->context, 0, NULL);
    child_check(misuse_faults() == 0);
    evzmq_requester_free(s->requester);
    evzmq_publisher_free(s->publisher);
    evzmq_subscriber_free(s->subscriber);
}

static void every_call_in_a_forked_child_is_echild(void **state)
{
    struct subject s = {0};
    subject_open(*state, &s);
    child_run(child_of, &s);
    subject_close(&s);
}

static void *thread_of(void *arg)
{
    struct subject *const s = arg;
    make_calls(s, MISUSE_THREAD);
    no_object(EPERM, evzmq_requester_new, s->dealer.socket, NULL);
    refused_elsewhere(evzmq_requester_setcb, s->requester, NULL, NULL, NULL);
    refused_elsewhere(evzmq_publisher_setcb, s->publisher, NULL, NULL, NULL, NULL);
    refused_elsewhere(evzmq_subscriber_setcb, s->subscriber, NULL, NULL, NULL);
    refused_elsewhere(evzmq_subscriber_set_topic_cb, s->subscriber, NULL, NULL);
    refused_elsewhere(evzmq_requester_free, s->requester);
    refused_elsewhere(evzmq_publisher_free, s->publisher);
    refused_elsewhere(evzmq_subscriber_free, s->subscriber);
    return NULL;
}

static void every_call_of_another_thread_is_eperm(void **state)
{
    struct subject s = {0};
    pthread_t thread;
    subject_open(*state, &s);
    assert_int_equal(pthread_create(&thread, NULL, thread_of, &s), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    subject_close(&s);
}

static void after_a_shutdown_requests_and_records_are_refused(void **state)
{
    struct subject s = {0};
    subject_open(*state, &s);
    assert_ok(evzmq_requester_shutdown(s.requester, NULL, NULL, NULL));
    assert_ok(evzmq_publisher_shutdown(s.publisher, NULL, NULL, NULL));
    make_calls(&s, MISUSE_ENDED);
    fixture_glance(s.f);
    make_calls(&s, MISUSE_ENDED);
    subject_close(&s);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(wrong_arguments_of_requesters_are_errors),
        claim(wrong_arguments_of_publishers_and_subscribers_are_errors),
        claim(every_call_in_a_forked_child_is_echild),
        claim(every_call_of_another_thread_is_eperm),
        claim(after_a_shutdown_requests_and_records_are_refused),
    };

    evzmq_enable_debug_mode();
    return run_claims(tests);
}
