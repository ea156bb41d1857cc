/*
 * scenarios_patterns.c: pools and workers, requesters, publishers and subscribers.
 */
#include "scenarios.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct evzmq_bytes value = {"x", 1};
static const struct evzmq_bytes parts[] = {{"x", 1}, {"y", 1}, {"z", 1}};

static void fill_message(struct attempt *a)
{
    a->message = evzmq_message_new();
    assert_non_null(a->message);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(evzmq_message_add(a->message, parts[i].data, parts[i].size));
    }
}

/* What became of a message that was given away. */
static int given(struct attempt *a, int result)
{
    a->message = result < 0 ? a->message : NULL;
    return result < 0 ? -1 : 0;
}

/* Pools. */
static void make_context(struct attempt *a)
{
    (void)peer_new(a->f, ZMQ_PAIR); /* starts the threads of ZeroMQ */
    /* Where nobody else has a directory that would be looked at: the same calls each time. */
    a->context = evzmq_context_new_with(a->f->context, fixture_directory(a->f));
    assert_non_null(a->context);
}

static int act_pool(struct attempt *a)
{
    a->pool = evzmq_pool_new(a->f->base, a->context, 2, NULL);
    return made(a->pool);
}

static int act_started_pool(struct attempt *a)
{
    const char *const argv[] = {"/bin/true", NULL};
    const struct evzmq_pool_options options = {.size = sizeof(options), .worker_argv = argv};
    a->pool = evzmq_pool_new(a->f->base, a->context, 1, &options);
    return made(a->pool);
}

static void check_pool(struct attempt *a)
{
    assert_non_null(evzmq_pool_get_connection(a->pool, 0));
}

static void make_pool(struct attempt *a)
{
    make_context(a);
    a->pool = evzmq_pool_new(a->f->base, a->context, 1, NULL);
    assert_non_null(a->pool);
}

/* A plain peer at a socket of the pool's. */
static void *pool_peer(struct attempt *a, struct evzmq_socket *socket, int type)
{
    void *const peer = peer_new(a->f, type);
    peer_connect(peer, evzmq_context_get_endpoint(a->context, evzmq_socket_get_zmq_socket(socket)));
    return peer;
}

static int act_send(struct attempt *a)
{
    return evzmq_pool_send(a->pool, 0, "x", 1) < 0 ? -1 : 0;
}

static int act_send_value(struct attempt *a)
{
    return evzmq_pool_send_value(a->pool, 0, &value) < 0 ? -1 : 0;
}

static int act_send_parts(struct attempt *a)
{
    return evzmq_pool_send_parts(a->pool, 0, parts, 3) < 0 ? -1 : 0;
}

static int act_send_message(struct attempt *a)
{
    return given(a, evzmq_pool_send_message(a->pool, 0, a->message));
}

static void make_pool_and_message(struct attempt *a)
{
    make_pool(a);
    fill_message(a);
}

static void check_sent_as(struct attempt *a, struct evzmq_socket *socket, const char *expected)
{
    char text[32];
    void *const peer = pool_peer(a, socket, ZMQ_PULL);
    run_until(a->f, evzmq_socket_get_queued(socket, NULL) == 0);
    (void)peer_recv_text(peer, text, sizeof(text));
    assert_string_equal(text + 1, expected); /* behind the header, one byte */
}

static void check_sent(struct attempt *a)
{
    check_sent_as(a, evzmq_pool_get_request_socket(a->pool, 0), "|x");
}

static void check_sent_parts(struct attempt *a)
{
    check_sent_as(a, evzmq_pool_get_request_socket(a->pool, 0), "|x|y|z");
}

static void make_answer(struct attempt *a)
{
    make_pool(a);
    void *const peer = pool_peer(a, evzmq_pool_get_response_socket(a->pool), ZMQ_PUSH);
    assert_int_equal(zmq_send(peer, "\0", 1, ZMQ_SNDMORE), 1);
    assert_int_equal(zmq_send(peer, "x", 1, 0), 1);
    peer_wait_readable(evzmq_socket_get_zmq_socket(evzmq_pool_get_response_socket(a->pool)));
    assert_ok(evzmq_socket_touch(evzmq_pool_get_response_socket(a->pool)));
}

static int act_receive(struct attempt *a)
{
    return evzmq_pool_try_recv(a->pool, NULL, &a->result);
}

static int act_receive_many(struct attempt *a)
{
    const int count = evzmq_pool_recv_many(a->pool, NULL, &a->result, 1);
    errno = count == 0 ? EAGAIN : errno;
    return count == 1 ? 0 : -1;
}

static int act_wait(struct attempt *a)
{
    const struct timeval timeout = {30, 0};
    return evzmq_pool_recv(a->pool, &timeout, NULL, &a->result);
}

static void check_answer(struct attempt *a)
{
    assert_part(a->result, 1, "x", 1);
}

static void note_ready(struct evzmq_pool *pool, unsigned ready, int error, void *arg)
{
    (void)pool;
    (void)ready;
    (void)error;
    (void)arg;
}

static int act_check_ready(struct attempt *a)
{
    const struct timeval timeout = {30, 0};
    return evzmq_pool_check_ready(a->pool, &timeout, note_ready, a);
}

static void note_report(struct evzmq_pool *pool, const struct evzmq_pool_report *report, void *arg)
{
    struct attempt *const a = arg;
    (void)pool;
    (void)report;
    a->freed++;
}

static int act_end_pool(struct attempt *a)
{
    const struct timeval deadline = {0, 1000};
    return evzmq_pool_shutdown(a->pool, &deadline, note_report, a);
}

static void check_end(struct attempt *a)
{
    run_until(a->f, a->freed == 1);
}

static void make_started_pool(struct attempt *a)
{
    make_context(a);
    assert_ok(act_started_pool(a));
}

/* Of a process that has to be killed. */
static void make_lasting_pool(struct attempt *a)
{
    const char *const argv[] = {"/bin/sh", "-c", "exec sleep 60", NULL};
    const struct evzmq_pool_options options = {.size = sizeof(options), .worker_argv = argv};
    make_context(a);
    a->pool = evzmq_pool_new(a->f->base, a->context, 1, &options);
    assert_non_null(a->pool);
}

static int act_free_pool(struct attempt *a)
{
    evzmq_pool_free(a->pool);
    a->pool = NULL;
    return 0;
}

static void check_no_child(struct attempt *a)
{
    (void)a;
    assert_errno(waitpid(-1, NULL, WNOHANG), ECHILD);
}

/* Workers. */
static int act_worker(struct attempt *a)
{
    const struct evzmq_worker_options options = {.size = sizeof(options), .context = a->context};
    a->worker = evzmq_worker_new(a->f->base, evzmq_pool_get_connection(a->pool, 0), &options);
    return made(a->worker);
}

static int act_own_worker(struct attempt *a)
{
    a->worker = evzmq_worker_new(a->f->base, evzmq_pool_get_connection(a->pool, 0), NULL);
    return made(a->worker);
}

static void make_worker(struct attempt *a)
{
    make_pool(a);
    assert_ok(act_worker(a));
}

/* As if this process had been started by itself: the parent is watched. */
static void make_connection(struct attempt *a)
{
    make_pool(a);
    (void)snprintf(a->endpoint, sizeof(a->endpoint), "%s", evzmq_pool_get_connection(a->pool, 0));
    char *const parent = strstr(a->endpoint, "parent=0");
    assert_non_null(parent);
    char rest[ENDPOINT_SIZE];
    (void)snprintf(rest, sizeof(rest), "%s", parent + strlen("parent=0"));
    (void)snprintf(parent, sizeof(a->endpoint) - (size_t)(parent - a->endpoint), "parent=%ld%s",
                   (long)getppid(), rest);
}

static int act_watching_worker(struct attempt *a)
{
    const struct evzmq_worker_options options = {
        .size = sizeof(options), .context = a->context, .parent_death_signal = SIGCONT};
    a->worker = evzmq_worker_new(a->f->base, a->endpoint, &options);
    return made(a->worker);
}

static void check_worker(struct attempt *a)
{
    assert_int_equal(evzmq_worker_get_identity(a->worker), 0);
    assert_non_null(evzmq_worker_get_request_socket(a->worker));
}

static void make_worker_and_message(struct attempt *a)
{
    make_worker(a);
    fill_message(a);
}

static int act_answer(struct attempt *a)
{
    return evzmq_worker_answer(a->worker, "x", 1, 0);
}

static int act_answer_value(struct attempt *a)
{
    return evzmq_worker_answer_value(a->worker, &value, 0);
}

static int act_answer_parts(struct attempt *a)
{
    return evzmq_worker_answer_parts(a->worker, parts, 3, 0);
}

static int act_answer_message(struct attempt *a)
{
    return given(a, evzmq_worker_answer_message(a->worker, a->message, 0));
}

static void check_answered(struct attempt *a)
{
    const struct timeval timeout = {30, 0};
    unsigned worker = 1;
    assert_ok(evzmq_pool_recv(a->pool, &timeout, &worker, &a->result));
    assert_int_equal(worker, 0);
    assert_part(a->result, 1, "x", 1);
}

static int act_end_worker(struct attempt *a)
{
    return evzmq_worker_shutdown(a->worker);
}

/* Requesters. */
static void note_reply(struct evzmq_requester *requester, int64_t request, int error,
                       struct evzmq_message *reply, void *arg)
{
    (void)requester;
    (void)request;
    (void)error;
    (void)reply;
    (void)arg;
}

static int act_requester(struct attempt *a)
{
    a->requester = evzmq_requester_new(a->p.socket, NULL);
    return made(a->requester);
}

static void make_requester(struct attempt *a)
{
    assert_ok(act_requester(a));
}

static void make_requester_and_message(struct attempt *a)
{
    make_requester(a);
    fill_message(a);
}

static int act_request(struct attempt *a)
{
    return evzmq_request(a->requester, &value, 60000, note_reply, a) < 0 ? -1 : 0;
}

static int act_request_bytes(struct attempt *a)
{
    return evzmq_request_bytes(a->requester, "x", 1, 60000, note_reply, a) < 0 ? -1 : 0;
}

static int act_request_message(struct attempt *a)
{
    const int64_t number = evzmq_request_message(a->requester, a->message, 60000, note_reply, a);
    return given(a, number < 0 ? -1 : 0);
}

static void make_request(struct attempt *a)
{
    make_requester(a);
    assert_ok(act_request(a));
}

static int act_cancel(struct attempt *a)
{
    return evzmq_request_cancel(a->requester, 1);
}

static int act_end_requester(struct attempt *a)
{
    const struct timeval deadline = {30, 0};
    return evzmq_requester_shutdown(a->requester, &deadline, NULL, NULL);
}

/* Publishers and subscribers. */
static const struct evzmq_publisher_options batches = {.size = sizeof(batches),
                                                       .batching = EVZMQ_BATCH_PER_TOPIC};

static int act_publisher(struct attempt *a)
{
    a->publisher = evzmq_publisher_new(a->f->base, a->socket, 0, &batches);
    return made(a->publisher);
}

static void make_publisher(struct attempt *a)
{
    a->publisher = evzmq_publisher_new(a->f->base, a->socket, 0, NULL);
    assert_non_null(a->publisher);
}

static void make_batching_publisher(struct attempt *a)
{
    assert_ok(act_publisher(a));
}

static int act_publish(struct attempt *a)
{
    return evzmq_publisher_publish(a->publisher, "t", "x", 1);
}

static int act_publish_value(struct attempt *a)
{
    return evzmq_publisher_publish_value(a->publisher, "t", &value);
}

static void begin_batch(struct attempt *a)
{
    make_batching_publisher(a);
    assert_ok(act_publish(a));
}

static int act_flush(struct attempt *a)
{
    return evzmq_publisher_flush(a->publisher);
}

static int act_end_publisher(struct attempt *a)
{
    return evzmq_publisher_shutdown(a->publisher, NULL, NULL, NULL);
}

static int act_subscriber(struct attempt *a)
{
    a->subscriber = evzmq_subscriber_new(a->f->base, a->socket, 0, NULL);
    return made(a->subscriber);
}

static void make_subscriber(struct attempt *a)
{
    assert_ok(act_subscriber(a));
}

static int act_subscribe(struct attempt *a)
{
    return evzmq_subscriber_subscribe(a->subscriber, "t");
}

static void subscribe(struct attempt *a)
{
    make_subscriber(a);
    assert_ok(act_subscribe(a));
}

static int act_unsubscribe(struct attempt *a)
{
    return evzmq_subscriber_unsubscribe(a->subscriber, "t");
}

static int act_enable(struct attempt *a)
{
    return evzmq_subscriber_enable(a->subscriber);
}

#define POOL(what, leaves, prepared, acted, checked)                                               \
    {                                                                                              \
        .name = #what, .alone = true, .makes_room = leaves, .prepare = prepared, .act = acted,     \
        .check = checked                                                                           \
    }
#define WORKER(what, leaves, prepared, acted, checked)                                             \
    {                                                                                              \
        .name = #what, .alone = true, .makes_room = leaves, .connects = true, .prepare = prepared, \
        .act = acted, .check = checked                                                             \
    }
/* What holds requests may stay grown. */
#define REQUESTER(what, needs, prepared, acted, checked)                                           \
    {                                                                                              \
        .name = #what, .type = ZMQ_DEALER, .peer_type = ZMQ_ROUTER, .makes_room = true,            \
        .frugal = !(needs), .prepare = prepared, .act = acted, .check = checked                    \
    }
#define PUBLISHER(what, leaves, prepared, acted, checked)                                          \
    {                                                                                              \
        .name = #what, .type = ZMQ_XPUB, .peer_type = ZMQ_SUB, .unattached = true,                 \
        .makes_room = leaves, .prepare = prepared, .act = acted, .check = checked                  \
    }
/* The table of prefixes may stay grown. */
#define SUBSCRIBER(what, needs, prepared, acted, checked)                                          \
    {                                                                                              \
        .name = #what, .type = ZMQ_SUB, .peer_type = ZMQ_PUB, .unattached = true,                  \
        .makes_room = true, .frugal = !(needs), .prepare = prepared, .act = acted,                 \
        .check = checked                                                                           \
    }

static const struct scenario rows[] = {
    POOL(making_a_pool, true, make_context, act_pool, check_pool),
    POOL(starting_a_pool, true, make_context, act_started_pool, check_pool),
    POOL(sending_a_request, false, make_pool, act_send, check_sent),
    POOL(sending_a_value, false, make_pool, act_send_value, check_sent),
    POOL(sending_parts, false, make_pool, act_send_parts, check_sent_parts),
    POOL(sending_a_message, true, make_pool_and_message, act_send_message, check_sent_parts),
    POOL(receiving_an_answer, true, make_answer, act_receive, check_answer),
    POOL(receiving_answers, true, make_answer, act_receive_many, check_answer),
    POOL(waiting_for_an_answer, true, make_answer, act_wait, check_answer),
    {.name = "checking_readiness",
     .alone = true,
     .frugal = true,
     .prepare = make_pool,
     .act = act_check_ready,
     .check = check_nothing},
    POOL(ending_a_pool, true, make_pool, act_end_pool, check_end),
    POOL(ending_processes, true, make_started_pool, act_end_pool, check_end),
    {.name = "freeing_a_pool",
     .alone = true,
     .frugal = true,
     .prepare = make_lasting_pool,
     .act = act_free_pool,
     .check = check_no_child},
    WORKER(making_a_worker_with_a_context, true, make_pool, act_own_worker, check_worker),
    WORKER(making_a_worker_that_watches, true, make_connection, act_watching_worker, check_worker),
    WORKER(answering, false, make_worker, act_answer, check_answered),
    WORKER(answering_a_value, false, make_worker, act_answer_value, check_answered),
    WORKER(answering_parts, false, make_worker, act_answer_parts, check_answered),
    WORKER(answering_a_message, true, make_worker_and_message, act_answer_message, check_answered),
    WORKER(ending_a_worker, false, make_worker, act_end_worker, check_nothing),
    REQUESTER(making_a_requester, true, NULL, act_requester, check_nothing),
    REQUESTER(requesting, true, make_requester, act_request, check_nothing),
    REQUESTER(requesting_bytes, true, make_requester, act_request_bytes, check_nothing),
    REQUESTER(requesting_a_message, true, make_requester_and_message, act_request_message,
              check_nothing),
    REQUESTER(cancelling, false, make_request, act_cancel, check_nothing),
    REQUESTER(ending_requests, false, make_request, act_end_requester, check_nothing),
    PUBLISHER(making_a_publisher, false, NULL, act_publisher, check_nothing),
    PUBLISHER(publishing, true, make_publisher, act_publish, check_nothing),
    PUBLISHER(publishing_a_value, true, make_publisher, act_publish_value, check_nothing),
    PUBLISHER(publishing_into_a_batch, true, make_batching_publisher, act_publish, check_nothing),
    PUBLISHER(flushing_batches, true, begin_batch, act_flush, check_nothing),
    PUBLISHER(ending_a_publisher, true, begin_batch, act_end_publisher, check_nothing),
    SUBSCRIBER(making_a_subscriber, true, NULL, act_subscriber, check_nothing),
    SUBSCRIBER(subscribing, true, make_subscriber, act_subscribe, check_nothing),
    SUBSCRIBER(unsubscribing, false, subscribe, act_unsubscribe, check_nothing),
    SUBSCRIBER(enabling_a_subscriber, false, subscribe, act_enable, check_nothing),
};

const struct scenario_list scenarios_of_patterns = {rows, sizeof(rows) / sizeof(rows[0])};
