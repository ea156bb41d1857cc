/*
 * The receiver that is measured: an evzmq socket on a libevent base, as a user would write it. The
 * read callback counts and checks; the end mark breaks the loop.
 */
#include "receive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>
#include <evzmq/msgpack.h>

#include "report.h"
#include "typed.h"

struct receiver {
    const struct adapter_task *task;
    struct meter *meter;
    struct record_check *check;
    struct event_base *base;
    struct evzmq_codec *codec;
    struct evzmq_socket *socket;
    struct event *watchdog;
    uint64_t watched_messages; /* what the watchdog saw last */
    int result;
};

static void stop(struct receiver *receiver, int result)
{
    receiver->result = result;
    (void)event_base_loopbreak(receiver->base);
}

/* The end mark has no bytes, hence no value. Returns whether the message was that. */
static int count(struct receiver *receiver, const struct evzmq_message *message)
{
    const size_t size = evzmq_message_get_size(message);
    if (size == 0) {
        stop(receiver, 0);
        return 1;
    }
    meter_message(receiver->meter, size, evzmq_message_get_part_count(message) > 1);
    return 0;
}

static void read_size(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    (void)socket;
    (void)count(arg, message);
}

static void read_bytes(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct receiver *receiver = arg;
    (void)socket;
    if (!count(receiver, message)) {
        size_t size = 0;
        const void *data = evzmq_message_get_part(message, 0, &size);
        record_check_bytes(receiver->check, data, size);
    }
}

static void read_tree(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct receiver *receiver = arg;
    (void)socket;
    if (!count(receiver, message)) {
        record_check_tree(receiver->check, evzmq_msgpack_value(message));
    }
}

static void read_record(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct receiver *receiver = arg;
    (void)socket;
    if (!count(receiver, message)) {
        typed_record_check(receiver->check, evzmq_record_value(message, NULL));
    }
}

static void take_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    struct receiver *receiver = arg;
    struct record_check *check = receiver->check;
    (void)socket;
    switch (event->type) {
    case EVZMQ_EVENT_DECODE_ERROR:
        if (!check->failed) {
            check->failed = 1;
            snprintf(check->reason, sizeof(check->reason),
                     "undecodable: record %.*s is %s at byte %zu", (int)check->id.length,
                     check->id.digits, evzmq_decode_kind_name(event->kind), event->offset);
        }
        break;
    case EVZMQ_EVENT_TERMINATED:
    case EVZMQ_EVENT_ERROR:
        stop(receiver, report_error("receiving failed: %s", evzmq_strerror(event->error)));
        break;
    default:
        break;
    }
}

static void watch(evutil_socket_t fd, short events, void *arg)
{
    struct receiver *receiver = arg;
    (void)fd;
    (void)events;
    if (receiver->meter->messages == receiver->watched_messages) {
        stop(receiver, report_error("adapter: nothing came for %d s", PEER_PATIENCE_MS / 1000));
    }
    receiver->watched_messages = receiver->meter->messages;
}

static enum evzmq_receive_mode mode_of(enum bench_receive receive)
{
    static const enum evzmq_receive_mode modes[] = {
        [BENCH_AUTO] = EVZMQ_RECEIVE_AUTO,
        [BENCH_INTO] = EVZMQ_RECEIVE_INTO,
        [BENCH_IN_PLACE] = EVZMQ_RECEIVE_IN_PLACE,
        [BENCH_OWNED] = EVZMQ_RECEIVE_OWNED,
    };
    return modes[receive];
}

static struct evzmq_codec *codec_of(const struct receiver *receiver)
{
    switch (receiver->task->codec) {
    case BENCH_MSGPACK:
        return evzmq_msgpack_codec_new(NULL);
    case BENCH_TYPED:
        return typed_codec_new(receiver->check->type, 0);
    default:
        return evzmq_codec_raw();
    }
}

static evzmq_read_cb read_cb_of(const struct adapter_task *task)
{
    switch (task->codec) {
    case BENCH_MSGPACK:
        return read_tree;
    case BENCH_TYPED:
        return read_record;
    default:
        return task->check_bytes ? read_bytes : read_size;
    }
}

/* Puts the socket on the base. On success it is closed with receiver->socket. */
static int attach(struct receiver *receiver, void *zmq_socket)
{
    receiver->base = receiver->task->precise_base ? lateness_base_new() : event_base_new();
    receiver->codec = codec_of(receiver);
    if (receiver->base == NULL || receiver->codec == NULL) {
        return -1;
    }
    receiver->socket = evzmq_socket_new(receiver->base, zmq_socket, EVZMQ_OPT_CLOSE_ON_FREE);
    if (receiver->socket == NULL) {
        return -1;
    }
    evzmq_socket_setcb(receiver->socket, read_cb_of(receiver->task), NULL, take_event, receiver);
    receiver->watchdog = event_new(receiver->base, -1, EV_PERSIST, watch, receiver);
    const struct timeval patience = {PEER_PATIENCE_MS / 1000, 0};
    if (receiver->watchdog == NULL || event_add(receiver->watchdog, &patience) != 0) {
        return -1;
    }
    if (receiver->task->timer != NULL &&
        lateness_start(receiver->task->timer, receiver->base) != 0) {
        return -1;
    }
    if (evzmq_socket_set_codec(receiver->socket, receiver->codec) != 0 ||
        evzmq_socket_set_receive_mode(receiver->socket, mode_of(receiver->task->receive)) != 0) {
        return -1;
    }
    if (receiver->task->unpack && evzmq_socket_set_unpacking(receiver->socket, 1) != 0) {
        return -1;
    }
    return evzmq_socket_enable(receiver->socket, EV_READ);
}

int adapter_receive(void *zmq_socket, const struct adapter_task *task, struct meter *meter,
                    struct record_check *check)
{
    struct receiver receiver = {.task = task, .meter = meter, .check = check};
    if (attach(&receiver, zmq_socket) != 0) {
        receiver.result = report_error("cannot attach a socket: %s", evzmq_strerror(errno));
    } else if (event_base_dispatch(receiver.base) < 0) {
        receiver.result = report_error("the event loop failed");
    }
    if (receiver.socket == NULL) {
        (void)zmq_close(zmq_socket);
    }
    evzmq_socket_free(receiver.socket);
    if (receiver.watchdog != NULL) {
        event_free(receiver.watchdog);
    }
    if (task->timer != NULL) {
        lateness_stop(task->timer);
    }
    evzmq_codec_free(receiver.codec);
    if (receiver.base != NULL) {
        event_base_free(receiver.base);
    }
    return receiver.result;
}
