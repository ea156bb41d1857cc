/*
 * The sender of packed frames: an evzmq socket on a libevent base that encodes records into frames
 * for as long as writes are taken, and goes on when the write callback says that there is room.
 * With frames of 0 bytes the same without packing, one record a message.
 */
#include "peer_jobs.h"

#include <errno.h>

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>

#include "numbers.h"
#include "place.h"
#include "typed.h"

struct packer {
    struct peer_task *task;
    struct peer_result *out;
    struct record_source source;
    struct event_base *base;
    struct evzmq_socket *socket;
    struct event *watchdog;
    int has_next; /* a record was made that is not written yet */
    int ended; /* the end mark is written */
    unsigned phase;
    uint64_t begin_ns;
    uint64_t begin_messages;
    uint64_t watched; /* what the watchdog saw last */
    unsigned idle_rounds;
};

static void stop(struct packer *packer, int error)
{
    packer->out->error = error;
    (void)event_base_loopbreak(packer->base);
}

/* The window begins and ends where the receiver says. */
static void enter(struct packer *packer, unsigned phase)
{
    const uint64_t now_ns = numbers_now_ns();
    if (packer->phase == PEER_MEASURE) {
        packer->out->window_messages = packer->out->messages - packer->begin_messages;
        packer->out->window_ns = now_ns - packer->begin_ns;
    }
    packer->phase = phase;
    packer->begin_ns = now_ns;
    packer->begin_messages = packer->out->messages;
}

/* Writes the end mark, once; false: there is no room for it yet. */
static int write_end_mark(struct packer *packer)
{
    if (!packer->ended && evzmq_socket_write(packer->socket, NULL, 0) != 0) {
        if (errno != EAGAIN) {
            stop(packer, errno);
        }
        return 0;
    }
    packer->ended = 1;
    return 1;
}

/* Writes records until there is no room or the receiver has measured enough. */
static void write_records(struct packer *packer)
{
    for (;;) {
        const unsigned now = atomic_load_explicit(packer->task->phase, memory_order_acquire);
        if (now != packer->phase) {
            enter(packer, now);
        }
        if (now == PEER_END) {
            if (write_end_mark(packer) && evzmq_socket_get_queued(packer->socket, NULL) == 0) {
                stop(packer, 0);
            }
            return;
        }
        if (!packer->has_next) {
            record_source_advance(&packer->source);
            packer->has_next = 1;
        }
        if (evzmq_socket_write_value(packer->socket, &packer->source.typed->as) != 0) {
            if (errno != EAGAIN) {
                stop(packer, errno);
            }
            return;
        }
        packer->has_next = 0;
        packer->out->messages++;
    }
}

static void on_room(struct evzmq_socket *socket, void *arg)
{
    (void)socket;
    write_records(arg);
}

static void on_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    (void)socket;
    if (event->error != 0) {
        stop(arg, event->error);
    }
}

/* Twice a second: looks whether somebody still receives. */
static void watch(evutil_socket_t fd, short events, void *arg)
{
    struct packer *packer = arg;
    (void)fd;
    (void)events;
    packer->idle_rounds = packer->out->messages == packer->watched ? packer->idle_rounds + 1 : 0;
    packer->watched = packer->out->messages;
    if (!peer_task_is_wanted(packer->task)) {
        stop(packer, packer->ended ? 0 : EPIPE);
    } else if (packer->idle_rounds > PEER_PATIENCE_MS / 500) {
        stop(packer, ETIMEDOUT);
    } else {
        write_records(packer);
    }
}

static void *open_socket(const struct peer_task *task)
{
    void *socket = zmq_socket(task->zmq_context, ZMQ_PUSH);
    if (socket == NULL) {
        return NULL;
    }
    const struct peer_order *order = task->order;
    const size_t bytes = order->pack_bytes != 0 ? order->pack_bytes : order->chars;
    if (place_set_up(socket, peer_high_water_mark(bytes)) != 0 ||
        zmq_connect(socket, order->endpoint) != 0) {
        const int error = zmq_errno();
        (void)zmq_close(socket);
        errno = error;
        return NULL;
    }
    return socket;
}

/* Returns 0, or -1 with errno. */
static int open_packer(struct packer *packer)
{
    const size_t pack = packer->task->order->pack_bytes;
    const struct timeval now = {0, 0};
    const struct timeval half_a_second = {0, 500000};
    packer->base = event_base_new();
    void *zmq_socket = packer->base == NULL ? NULL : open_socket(packer->task);
    if (zmq_socket == NULL) {
        return -1;
    }
    packer->socket = evzmq_socket_new(packer->base, zmq_socket, EVZMQ_OPT_CLOSE_ON_FREE);
    if (packer->socket == NULL) {
        (void)zmq_close(zmq_socket);
        return -1;
    }
    evzmq_socket_setcb(packer->socket, NULL, on_room, on_event, packer);
    /* A queue of two frames: enough to have one ready when ZeroMQ takes it, and small enough for
     * the frames to stay in the processor's cache. Without packing one message waits at most. */
    if (evzmq_socket_set_codec(packer->socket, packer->source.typed->codec) != 0 ||
        evzmq_socket_set_packing(packer->socket, pack, 0) != 0 ||
        evzmq_socket_set_output_limit(packer->socket, pack == 0, 2 * pack) != 0) {
        return -1;
    }
    packer->watchdog = event_new(packer->base, -1, EV_PERSIST, watch, packer);
    if (packer->watchdog == NULL || event_add(packer->watchdog, &half_a_second) != 0) {
        errno = ENOMEM;
        return -1;
    }
    return event_base_once(packer->base, -1, EV_TIMEOUT, watch, packer, &now);
}

void peer_flood_packed(struct peer_task *task, struct peer_result *out)
{
    const struct peer_order *order = task->order;
    struct packer packer = {.task = task, .out = out, .phase = PEER_WARM_UP};
    if (record_source_init(&packer.source, order->type, order->chars, RECORD_TYPED) != 0) {
        out->error = ENOMEM;
        return;
    }
    if (open_packer(&packer) != 0) {
        out->error = errno;
    } else if (event_base_dispatch(packer.base) < 0) {
        out->error = EIO;
    }
    if (packer.socket != NULL) {
        struct evzmq_socket_stats stats = {.size = sizeof(stats)};
        (void)evzmq_socket_get_stats(packer.socket, &stats);
        out->bytes = stats.bytes_out;
        if (out->error == 0) {
            peer_task_wait(task);
        }
    }
    evzmq_socket_free(packer.socket);
    if (packer.watchdog != NULL) {
        event_free(packer.watchdog);
    }
    if (packer.base != NULL) {
        event_base_free(packer.base);
    }
    record_source_clear(&packer.source);
}
