/*
 * scenarios_sockets.c: adapters, posters and monitors.
 */
#include "scenarios.h"

#include <string.h>

#include <evzmq/msgpack.h>

static int act_attach(struct attempt *a)
{
    a->p.socket = evzmq_socket_new(a->f->base, a->socket, 0);
    if (a->p.socket == NULL) {
        return -1;
    }
    a->f->attached++;
    return 0;
}

static void check_attach(struct attempt *a)
{
    probe_setcb(&a->p);
    assert_ok(evzmq_socket_touch(a->p.socket));
}

static int act_enable(struct attempt *a)
{
    return evzmq_socket_enable(a->p.socket, EV_READ);
}

static void send_one(struct attempt *a)
{
    peer_send_text(a->peer, "early");
}

static void check_read(struct attempt *a)
{
    run_until(a->f, a->p.reads == 1);
}

static int act_touch(struct attempt *a)
{
    return evzmq_socket_touch(a->p.socket);
}

static int act_priority(struct attempt *a)
{
    return evzmq_socket_priority_set(a->p.socket, 0);
}

static int act_buffer(struct attempt *a)
{
    return evzmq_base_set_receive_buffer(a->f->base, 100000);
}

static int act_timeouts(struct attempt *a)
{
    const struct timeval hour = {3600, 0};
    return evzmq_socket_set_timeouts(a->p.socket, &hour, &hour);
}

static int act_pack(struct attempt *a)
{
    return evzmq_socket_set_packing(a->p.socket, 16384, 1000000);
}

static int act_unpack(struct attempt *a)
{
    return evzmq_socket_set_unpacking(a->p.socket, 1);
}

static int write_value(struct attempt *a)
{
    const msgpack_object value = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = 'x'};
    return evzmq_socket_write_value(a->p.socket, &value);
}

static void pack(struct attempt *a)
{
    use_msgpack(a);
    assert_ok(act_pack(a));
}

static void open_frame(struct attempt *a)
{
    pack(a);
    assert_ok(write_value(a));
}

static int act_flush(struct attempt *a)
{
    return evzmq_socket_flush(a->p.socket);
}

static void check_frame(struct attempt *a)
{
    char text[16];
    assert_ok(act_flush(a));
    run_until(a->f, evzmq_socket_get_queued(a->p.socket, NULL) == 0);
    (void)peer_recv_text(a->peer, text, sizeof(text));
    assert_string_equal(text, "x");
}

static int act_write(struct attempt *a)
{
    return evzmq_socket_write(a->p.socket, "x", 1);
}

static int act_write_parts(struct attempt *a)
{
    static const struct evzmq_bytes parts[] = {{"x", 1}, {"y", 1}, {"z", 1}};
    return evzmq_socket_write_parts(a->p.socket, parts, 3);
}

static void check_parts(struct attempt *a)
{
    char text[16];
    run_until(a->f, evzmq_socket_get_queued(a->p.socket, NULL) == 0);
    (void)peer_recv_text(a->peer, text, sizeof(text));
    assert_string_equal(text, "x|y|z");
}

static int act_receive(struct attempt *a)
{
    return evzmq_socket_try_recv(a->p.socket, &a->result);
}

static void send_some(struct attempt *a)
{
    peer_send_text(a->peer, "1|2|3");
}

static void check_received(struct attempt *a)
{
    assert_int_equal(evzmq_message_get_part_count(a->result), 3);
}

static int act_receive_many(struct attempt *a)
{
    const int count = evzmq_socket_recv_many(a->p.socket, &a->result, 1);
    errno = count == 0 ? EAGAIN : errno;
    return count == 1 ? 0 : -1;
}

static int act_wait(struct attempt *a)
{
    const struct timeval timeout = {30, 0};
    return evzmq_socket_recv(a->p.socket, &timeout, &a->result);
}

static void keep_request(struct attempt *a)
{
    use_msgpack(a);
    receive_large_and_small(a);
    a->envelope = evzmq_envelope_dup(evzmq_message_get_envelope(a->message));
    assert_non_null(a->envelope);
    evzmq_message_free(a->message);
    a->message = NULL;
}

static int act_reply_value(struct attempt *a)
{
    const msgpack_object value = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = 'x'};
    return evzmq_socket_reply_value(a->p.socket, a->envelope, &value);
}

static int act_shutdown(struct attempt *a)
{
    const struct timeval deadline = {30, 0};
    return evzmq_socket_shutdown(a->p.socket, &deadline, NULL, NULL);
}

/* Posters. */
static int act_poster(struct attempt *a)
{
    a->poster = evzmq_poster_new(a->p.socket, 0, 0);
    return made(a->poster);
}

static int act_post(struct attempt *a)
{
    return evzmq_poster_post(a->poster, "x", 1);
}

static int act_post_parts(struct attempt *a)
{
    static const struct evzmq_bytes parts[] = {{"x", 1}, {"y", 1}, {"z", 1}};
    return evzmq_poster_post_parts(a->poster, parts, 3);
}

static int act_post_message(struct attempt *a)
{
    if (evzmq_poster_post_message(a->poster, a->message) < 0) {
        return -1;
    }
    a->message = NULL;
    return 0;
}

static void make_poster(struct attempt *a)
{
    assert_ok(act_poster(a));
}

static void make_poster_and_message(struct attempt *a)
{
    make_poster(a);
    a->message = evzmq_message_new();
    assert_ok(evzmq_message_add(a->message, "x", 1));
    assert_ok(evzmq_message_add(a->message, "y", 1));
    assert_ok(evzmq_message_add(a->message, "z", 1));
}

static void check_post(struct attempt *a)
{
    struct evzmq_poster_stats stats = {.size = sizeof(stats)};
    assert_ok(evzmq_poster_get_stats(a->poster, &stats));
    while (stats.handed_over == 0) {
        fixture_turn(a->f);
        assert_ok(evzmq_poster_get_stats(a->poster, &stats));
    }
}

static void make_posted(struct attempt *a)
{
    make_poster(a);
    assert_ok(act_post(a));
}

/* The loop runs meanwhile, and finds what was posted. */
static int act_wait_in_vain(struct attempt *a)
{
    const struct timeval soon = {0, 1000};
    a->f->dispatching = 1; /* an event may be told */
    const int result = evzmq_socket_recv(a->p.socket, &soon, &a->result);
    a->f->dispatching = 0;
    return result < 0 && errno != ETIMEDOUT ? -1 : 0;
}

static void check_posted_parts(struct attempt *a)
{
    check_post(a);
    check_parts(a);
}

static void check_poster(struct attempt *a)
{
    assert_ok(act_post(a));
    check_post(a);
}

/* Monitors. */
static void note_event(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event,
                       void *arg)
{
    struct attempt *const a = arg;
    (void)monitor;
    (void)event;
    a->freed++;
}

static int act_monitor(struct attempt *a)
{
    a->monitor =
        evzmq_monitor_new(a->f->base, a->f->context, a->socket, EVZMQ_MONITOR_ALL, note_event, a);
    return made(a->monitor);
}

static void check_monitor(struct attempt *a)
{
    char endpoint[ENDPOINT_SIZE];
    peer_bind(a->f, a->socket, TRANSPORT_TCP, endpoint);
    run_until(a->f, a->freed > 0);
}

static void make_waiting_events(struct attempt *a)
{
    char endpoint[ENDPOINT_SIZE];
    struct evzmq_monitor_stats stats = {.size = sizeof(stats)};
    assert_ok(act_monitor(a));
    assert_ok(evzmq_monitor_disable(a->monitor));
    peer_bind(a->f, a->socket, TRANSPORT_TCP, endpoint);
    do {
        fixture_turn(a->f);
        assert_ok(evzmq_monitor_get_stats(a->monitor, &stats));
    } while (stats.queued == 0);
}

static int act_enable_monitor(struct attempt *a)
{
    return evzmq_monitor_enable(a->monitor);
}

static void check_events(struct attempt *a)
{
    run_until(a->f, a->freed > 0);
}

static void make_monitor(struct attempt *a)
{
    assert_ok(act_monitor(a));
}

static int act_stop_monitor(struct attempt *a)
{
    return evzmq_monitor_stop(a->monitor);
}

static int act_free_monitor(struct attempt *a)
{
    evzmq_monitor_free(a->monitor);
    a->monitor = NULL;
    return 0;
}

#define ATTACH(kind, peer)                                                                         \
    {                                                                                              \
        .name = "attaching_a_" #kind, .type = ZMQ_##kind, .peer_type = ZMQ_##peer,                 \
        .unattached = true, .act = act_attach, .check = check_attach                               \
    }
#define PUSHING(what, prepared, acted, checked)                                                    \
    {                                                                                              \
        .name = #what, .type = ZMQ_PUSH, .peer_type = ZMQ_PULL, .prepare = prepared, .act = acted, \
        .check = checked                                                                           \
    }
#define PULLING(what, prepared, acted, checked)                                                    \
    {                                                                                              \
        .name = #what, .type = ZMQ_PULL, .peer_type = ZMQ_PUSH, .prepare = prepared, .act = acted, \
        .check = checked                                                                           \
    }

static const struct scenario rows[] = {
    ATTACH(PAIR, PAIR),
    ATTACH(PUB, SUB),
    ATTACH(SUB, PUB),
    ATTACH(REQ, REP),
    ATTACH(REP, REQ),
    ATTACH(DEALER, ROUTER),
    ATTACH(ROUTER, DEALER),
    ATTACH(PULL, PUSH),
    ATTACH(PUSH, PULL),
    ATTACH(XPUB, XSUB),
    ATTACH(XSUB, XPUB),
    {.name = "enabling",
     .type = ZMQ_PULL,
     .peer_type = ZMQ_PUSH,
     .frugal = true, /* a wakeup that could not be arranged would be missed for good */
     .prepare = send_one,
     .act = act_enable,
     .check = check_read},
    {.name = "touching",
     .type = ZMQ_PULL,
     .peer_type = ZMQ_PUSH,
     .frugal = true,
     .act = act_touch,
     .check = check_nothing},
    PULLING(setting_a_priority, NULL, act_priority, check_nothing),
    {.name = "setting_the_receive_buffer",
     .type = ZMQ_PULL,
     .peer_type = ZMQ_PUSH,
     .frugal = true, /* it grows when there is a message for it */
     .act = act_buffer,
     .check = check_nothing},
    {.name = "setting_timeouts",
     .type = ZMQ_DEALER,
     .peer_type = ZMQ_DEALER,
     .makes_room = true,
     .act = act_timeouts,
     .check = check_nothing},
    {.name = "turning_packing_on",
     .type = ZMQ_PUSH,
     .peer_type = ZMQ_PULL,
     .makes_room = true,
     .prepare = use_msgpack,
     .act = act_pack,
     .check = check_nothing},
    {.name = "turning_unpacking_on",
     .type = ZMQ_PULL,
     .peer_type = ZMQ_PUSH,
     .makes_room = true,
     .prepare = use_msgpack,
     .act = act_unpack,
     .check = check_nothing},
    {.name = "writing_a_packed_value",
     .type = ZMQ_PUSH,
     .peer_type = ZMQ_PULL,
     .makes_room = true,
     .prepare = pack,
     .act = write_value,
     .check = check_frame},
    PUSHING(flushing, open_frame, act_flush, check_frame),
    PUSHING(writing_a_value, use_msgpack, write_value, check_frame),
    PUSHING(writing, NULL, act_write, check_frame),
    PUSHING(writing_parts, NULL, act_write_parts, check_parts),
    {.name = "receiving",
     .type = ZMQ_PULL,
     .peer_type = ZMQ_PUSH,
     .makes_room = true, /* for the message that was begun */
     .prepare = send_some,
     .act = act_receive,
     .check = check_received},
    {.name = "receiving_many",
     .type = ZMQ_PULL,
     .peer_type = ZMQ_PUSH,
     .makes_room = true,
     .prepare = send_some,
     .act = act_receive_many,
     .check = check_received},
    {.name = "waiting_for_a_message",
     .type = ZMQ_PULL,
     .peer_type = ZMQ_PUSH,
     .makes_room = true,
     .prepare = send_some,
     .act = act_wait,
     .check = check_received},
    {.name = "answering_later",
     .type = ZMQ_ROUTER,
     .peer_type = ZMQ_DEALER,
     .prepare = keep_request,
     .act = act_reply_value,
     .check = check_frame},
    PUSHING(shutting_down, NULL, act_shutdown, check_nothing),
    {.name = "making_a_poster",
     .type = ZMQ_PUSH,
     .peer_type = ZMQ_PULL,
     .makes_room = true, /* what the posters of a base share */
     .act = act_poster,
     .check = check_poster},
    PUSHING(posting, make_poster, act_post, check_post),
    PUSHING(posting_parts, make_poster, act_post_parts, check_posted_parts),
    PUSHING(posting_a_message, make_poster_and_message, act_post_message, check_posted_parts),
    {.name = "waiting_while_another_posts",
     .type = ZMQ_PAIR,
     .peer_type = ZMQ_PAIR,
     .makes_room = true, /* for the message that was begun */
     .prepare = make_posted,
     .act = act_wait_in_vain,
     .check = check_post},
    PULLING(making_a_monitor, NULL, act_monitor, check_monitor),
    {.name = "enabling_a_monitor",
     .type = ZMQ_PULL,
     .peer_type = ZMQ_PUSH,
     .frugal = true,
     .prepare = make_waiting_events,
     .act = act_enable_monitor,
     .check = check_events},
    PULLING(stopping_a_monitor, make_monitor, act_stop_monitor, check_events),
    {.name = "freeing_a_monitor",
     .type = ZMQ_PULL,
     .peer_type = ZMQ_PUSH,
     .unattached = true, /* or the socket would be known to be there */
     .frugal = true,
     .prepare = make_monitor,
     .act = act_free_monitor,
     .check = check_nothing},
};

const struct scenario_list scenarios_of_sockets = {rows, sizeof(rows) / sizeof(rows[0])};
