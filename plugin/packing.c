/*
 * packing.c (L3): values into frames.
 *
 *     evzmq__packing_write   value -> the open frame's memory
 *     evzmq__packing_close   full, due, flushed, or something unpacked follows: the frame becomes a
 *                            message and goes as any other, at once or through the queue
 *
 * Closing needs memory once, for libzmq's part of the message, and before anything is changed. All
 * else is there beforehand: a frame is opened together with the message it will be sent as, and the
 * queue has its lane. So a record that was accepted is never in the way of anything.
 *
 * What libzmq holds is bounded in bytes: see frame.h. A frame that may not go yet waits in the
 * queue as if ZeroMQ had refused it, with one difference: ZMQ_EVENTS says POLLOUT. `is_blocked`
 * keeps passes from trying again until the pool's fd tells that libzmq has released enough.
 */
#include "packing.h"

#include <errno.h>
#include <string.h>

#include <zmq.h>

#include <evzmq/packing.h>

#include "base.h"

enum { SPARES_MAX = 64 };

/* The smallest frame worth handing over by reference; libzmq copies smaller messages on their way
 * anyway, and a frame that is nearly empty would hold all of its memory. */
#define REFERENCE_MIN EVZMQ_ZERO_COPY_MIN

bool evzmq__packing_takes_codec(const struct evzmq_codec *codec)
{
    return codec->decode_prefix != NULL && codec->methods->encoded_size != NULL &&
           codec->methods->encode != NULL;
}

static bool type_packs(const struct evzmq__type *type)
{
    switch (type->zmq_type) {
    case ZMQ_PAIR:
    case ZMQ_PUSH:
    case ZMQ_DEALER:
    case ZMQ_PUB:
    case ZMQ_XPUB:
        return true;
    default:
        return false;
    }
}

size_t evzmq__socket_count_queued(const struct evzmq_socket *socket, size_t *out_bytes)
{
    size_t records = socket->queue.messages + socket->queue.more;
    size_t bytes = socket->queue.bytes;
    if (evzmq__packing_is_open(socket)) {
        records += socket->packing->records;
        bytes += (size_t)(socket->packing->at - socket->packing->frame->data);
    }
    if (out_bytes != NULL) {
        *out_bytes = bytes;
    }
    return records;
}

/* A message for the next frame. NULL with ENOMEM. */
static struct evzmq_message *take_spare(struct evzmq__packing *packing)
{
    struct evzmq_message *message = packing->spares;
    if (message == NULL) {
        return evzmq__message_create();
    }
    packing->spares = (struct evzmq_message *)message->entry.next;
    packing->spare_count--;
    message->entry.next = NULL;
    return message;
}

static void keep_spare(struct evzmq__packing *packing, struct evzmq_message *message)
{
    if (packing->spare_count == SPARES_MAX) {
        evzmq__message_destroy(message);
        return;
    }
    evzmq__message_reset(message);
    message->frame = NULL;
    message->entry = (struct evzmq__queue_entry){
        .next = (struct evzmq__queue_entry *)packing->spares,
    };
    packing->spares = message;
    packing->spare_count++;
}

void evzmq__packing_recycle(struct evzmq_socket *socket, struct evzmq_message *message)
{
    /* Not one of the user's that has memory of its own. */
    if (message->part_count == 1 && message->arena == NULL && message->codec_held == NULL) {
        keep_spare(socket->packing, message);
    } else {
        evzmq__message_destroy(message);
    }
}

bool evzmq__packing_admit(struct evzmq_socket *socket, struct evzmq_message *message)
{
    struct evzmq__packing *packing = socket->packing;
    if (!packing->counts || message->frame == NULL) {
        return true;
    }
    if (packing->is_blocked) {
        return false;
    }
    packing->is_blocked = !evzmq__frame_admit(message->frame);
    return !packing->is_blocked;
}

/* Makes the open frame's message, with the record count and bytes that it stands for. */
static int seal(struct evzmq__packing *packing)
{
    struct evzmq__frame *frame = packing->frame;
    struct evzmq_message *message = packing->message;
    struct evzmq__part *part = &message->parts[0];
    const size_t size = (size_t)(packing->at - frame->data);
    if (size < REFERENCE_MIN) {
        if (evzmq__part_fill(part, frame->data, size) < 0) {
            return -1;
        }
        evzmq__frame_release(frame->data, frame);
    } else {
        zmq_msg_t msg;
        if (zmq_msg_init_data(&msg, frame->data, size, evzmq__frame_release, frame) < 0) {
            return -1;
        }
        (void)zmq_msg_move(&part->msg, &msg);
        evzmq__part_point_inside(part);
        message->frame = frame;
    }
    message->part_count = 1;
    message->size = size;
    message->entry.bytes = size;
    message->entry.more = packing->records - 1;
    packing->frame = NULL;
    packing->message = NULL;
    packing->at = NULL;
    packing->limit = NULL;
    packing->records = 0;
    return 0;
}

/* Sends a frame now, where nothing waits. False: it has to be queued. */
static bool send_now(struct evzmq_socket *socket, struct evzmq_message *message)
{
    if (!socket->write_enabled || socket->queue.messages > 0 ||
        !evzmq__packing_admit(socket, message)) {
        return false;
    }
    size_t parts_sent = 0;
    if (evzmq__socket_send_now(socket, message->parts, 1, &parts_sent) < 0) {
        /* Whatever the reason, the pass that finds it queued will know. */
        if (message->frame != NULL) {
            evzmq__frame_recall(message->frame);
        }
        return false;
    }
    socket->counters.messages_out += 1 + message->entry.more;
    socket->counters.bytes_out += message->entry.bytes;
    return true;
}

int evzmq__packing_close(struct evzmq_socket *socket)
{
    struct evzmq__packing *packing = socket->packing;
    if (packing == NULL || packing->frame == NULL) {
        return 0;
    }
    struct evzmq_message *message = packing->message;
    if (seal(packing) < 0) {
        return -1;
    }
    if (packing->timer != NULL) {
        evzmq__timer_stop(packing->timer);
    }
    if (send_now(socket, message)) {
        keep_spare(packing, message);
    } else {
        (void)evzmq__queue_push(&socket->queue, &message->entry, NULL, 0); /* has its lane */
    }
    evzmq__socket_attend(socket);
    return 0;
}

void evzmq__pass_pack(struct evzmq__pass *pass)
{
    struct evzmq_socket *socket = pass->socket;
    if (!evzmq__packing_is_due(socket)) {
        return;
    }
    const uint64_t before = socket->counters.messages_out;
    if (evzmq__packing_close(socket) < 0) {
        (void)evzmq__pass_retry_later(pass, errno);
        return;
    }
    pass->sent += socket->counters.messages_out - before;
}

static void on_delay(void *arg)
{
    struct evzmq_socket *socket = arg;
    if (!evzmq__base_is_stale(socket->base)) {
        socket->packing->is_due = true;
        evzmq__socket_attend(socket);
    }
}

/* libzmq has released frames. */
static void on_wake(void *arg, enum evzmq__wakeup why)
{
    (void)why;
    struct evzmq_socket *socket = arg;
    struct evzmq__packing *packing = socket->packing;
    if (evzmq__base_is_stale(socket->base)) {
        evzmq__source_mute_in_child(packing->watch);
        return;
    }
    evzmq__wake_clear(&packing->pool->wake);
    packing->is_blocked = false;
    evzmq__socket_attend(socket);
}

/* Arranges that the frame that was just opened is closed. */
static void start_clock(struct evzmq_socket *socket)
{
    struct evzmq__packing *packing = socket->packing;
    const struct timeval delay = {(time_t)(packing->delay_usec / 1000000),
                                  (suseconds_t)(packing->delay_usec % 1000000)};
    if (packing->delay_usec == 0 || evzmq__timer_start(packing->timer, &delay) < 0) {
        packing->is_due = true;
        evzmq__socket_attend(socket);
    }
}

/* Where the next record has to end at the latest: at the frame's end, or where the queue and the
 * open frame together reach the limit of bytes. */
static void set_limit(struct evzmq_socket *socket)
{
    struct evzmq__packing *packing = socket->packing;
    const struct evzmq__queue *queue = &socket->queue;
    const size_t used = (size_t)(packing->at - packing->frame->data);
    const size_t capacity = packing->frame->capacity;
    size_t room = queue->bytes < queue->bytes_max ? queue->bytes_max - queue->bytes : 0;
    room = room > used ? room : used;
    packing->limit = packing->frame->data + (room < capacity ? room : capacity);
}

void evzmq__packing_limit_changed(struct evzmq_socket *socket)
{
    if (evzmq__packing_is_open(socket)) {
        set_limit(socket);
    }
}

static int refuse(struct evzmq_socket *socket)
{
    socket->counters.writes_refused++;
    evzmq__queue_refuse(&socket->queue);
    errno = EAGAIN;
    return -1;
}

/* Opens a frame of some size for a record. */
static int open_frame(struct evzmq_socket *socket, size_t record_size)
{
    struct evzmq__packing *packing = socket->packing;
    if (!evzmq__queue_has_room(&socket->queue, NULL, 0, record_size)) {
        return refuse(socket);
    }
    struct evzmq_message *message = take_spare(packing);
    if (message == NULL) {
        return -1;
    }
    struct evzmq__frame *frame = record_size <= packing->bytes_max
                                     ? evzmq__frame_take(packing->pool)
                                     : evzmq__frame_make(packing->pool, record_size);
    if (frame == NULL) {
        keep_spare(packing, message);
        errno = ENOMEM;
        return -1;
    }
    packing->frame = frame;
    packing->message = message;
    packing->at = frame->data;
    packing->records = 0;
    packing->is_due = false;
    set_limit(socket);
    if (packing->limit - packing->at < (ptrdiff_t)record_size) {
        packing->limit =
            frame->data + frame->capacity; /* The first one fits, whatever the limit. */
    }
    return 0;
}

/* Takes back a frame in which nothing came to be. */
static void unopen_frame(struct evzmq__packing *packing)
{
    struct evzmq__frame *frame = packing->frame;
    packing->frame = NULL;
    packing->at = NULL;
    packing->limit = NULL;
    evzmq__frame_release(frame->data, frame);
    keep_spare(packing, packing->message);
    packing->message = NULL;
}

/* Makes room for a record where the open frame has none, or none is open. */
static int make_room(struct evzmq_socket *socket, size_t size)
{
    struct evzmq__packing *packing = socket->packing;
    if (packing->frame != NULL) {
        set_limit(socket);
        if (size <= (size_t)(packing->limit - packing->at)) {
            return 0;
        }
        /* Full, or the limit is reached: then the write is refused unless ZeroMQ takes the frame.
         */
        if (evzmq__packing_close(socket) < 0) {
            return -1;
        }
    }
    return open_frame(socket, size);
}

/* The first record of a frame, or one for which there is no room. */
EVZMQ__NOINLINE
static int write_slow(struct evzmq_socket *socket, const void *value, size_t size)
{
    struct evzmq__packing *packing = socket->packing;
    if (size == 0) {
        errno = EINVAL; /* A frame could not show that it is there. */
        return -1;
    }
    if (make_room(socket, size) < 0) {
        return -1;
    }
    const struct evzmq_codec *codec = socket->codec;
    if (codec->methods->encode(codec->state, value, packing->at, size) != 0) {
        if (packing->records == 0) {
            const int error = errno;
            unopen_frame(packing);
            errno = error;
        }
        return -1;
    }
    packing->at += size;
    packing->records++;
    if (packing->frame->capacity > packing->bytes_max) {
        packing->is_due = true;
        if (evzmq__packing_close(socket) < 0) {
            /* It was accepted: it goes with the next pass. */
            packing->limit = packing->at;
            evzmq__socket_attend(socket);
        }
    } else if (packing->records == 1) {
        start_clock(socket);
    }
    return 0;
}

int evzmq__packing_write(struct evzmq_socket *socket, const void *value)
{
    struct evzmq__packing *packing = socket->packing;
    const struct evzmq_codec *codec = socket->codec;
    if (evzmq__socket_check_writable(socket) < 0) {
        return -1;
    }
    if (value == NULL) {
        errno = EINVAL;
        return -1;
    }
    size_t size = 0;
    if (codec->methods->encoded_size(codec->state, value, &size) != 0) {
        return -1;
    }
    if (!EVZMQ__LIKELY(size - 1 < (size_t)(packing->limit - packing->at) && packing->records > 0)) {
        return write_slow(socket, value, size);
    }
    if (codec->methods->encode(codec->state, value, packing->at, size) != 0) {
        return -1;
    }
    packing->at += size;
    packing->records++;
    return 0;
}

/* Makes what packing needs. Returns 0, or -1 with ENOMEM, EMFILE or ENFILE. */
static int prepare(struct evzmq_socket *socket)
{
    if (evzmq__queue_prepare(&socket->queue) < 0) {
        return -1;
    }
    struct evzmq__packing *packing = evzmq__calloc(1, sizeof(*packing));
    if (packing == NULL) {
        return -1;
    }
    packing->counts = !socket->type->always_pollout;
    packing->pool = evzmq__frame_pool_new();
    if (packing->pool == NULL) {
        goto fail;
    }
    packing->watch =
        evzmq__source_new(socket->base->event_base, packing->pool->wake.read_fd, on_wake, socket);
    if (packing->watch == NULL) {
        goto fail;
    }
    /* It does next to nothing itself: the socket it wakes has a priority of its own. */
    if (evzmq__source_set_priority(packing->watch, 0) < 0) {
        goto fail;
    }
    socket->packing = packing;
    return 0;

fail:;
    const int error = errno;
    evzmq__source_free(packing->watch);
    evzmq__frame_pool_close(packing->pool, false);
    evzmq__free(packing);
    errno = error;
    return -1;
}

static int check_packing(const struct evzmq_socket *socket, size_t bytes_max)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (bytes_max > EVZMQ_PACKING_BYTES_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (bytes_max > 0 && (socket->pause & EVZMQ__PAUSE_SHUTDOWN) != 0) {
        errno = ESHUTDOWN;
        return -1;
    }
    if (bytes_max > 0 &&
        (!type_packs(socket->type) || !evzmq__packing_takes_codec(socket->codec))) {
        errno = ENOTSUP;
        return -1;
    }
    return 0;
}

int evzmq_socket_set_packing(struct evzmq_socket *socket, size_t bytes_max, unsigned delay_usec)
{
    if (check_packing(socket, bytes_max) < 0 || evzmq__packing_close(socket) < 0) {
        return -1;
    }
    if (bytes_max == 0) {
        if (socket->packing != NULL) {
            socket->packing->is_on = false;
        }
        return 0;
    }
    if (socket->packing == NULL && prepare(socket) < 0) {
        return -1;
    }
    struct evzmq__packing *packing = socket->packing;
    if (delay_usec > 0 && packing->timer == NULL) {
        packing->timer = evzmq__timer_new(socket->base->event_base, on_delay, socket);
        if (packing->timer == NULL) {
            return -1;
        }
    }
    const size_t frames = EVZMQ_PACKING_IN_FLIGHT_FRAMES * bytes_max;
    const size_t in_flight =
        frames > EVZMQ_PACKING_IN_FLIGHT_MIN ? frames : EVZMQ_PACKING_IN_FLIGHT_MIN;
    const size_t kept = in_flight / bytes_max + 2;
    evzmq__frame_pool_resize(packing->pool, bytes_max, kept < SPARES_MAX ? kept : SPARES_MAX,
                             in_flight);
    if (packing->is_blocked) {
        packing->is_blocked = false; /* by another bound */
        evzmq__socket_attend(socket);
    }
    packing->bytes_max = bytes_max;
    packing->delay_usec = delay_usec;
    packing->is_on = true;
    return 0;
}

int evzmq_socket_flush(struct evzmq_socket *socket)
{
    return evzmq__socket_check(socket) < 0 ? -1 : evzmq__packing_close(socket);
}

void evzmq__packing_stop(struct evzmq_socket *socket)
{
    struct evzmq__packing *packing = socket->packing;
    if (packing != NULL) {
        evzmq__source_stop(packing->watch);
        evzmq__timer_free(packing->timer);
        packing->timer = NULL;
        packing->is_on = false;
    }
}

void evzmq__packing_free(struct evzmq_socket *socket, bool stale)
{
    struct evzmq__packing *packing = socket->packing;
    if (packing == NULL) {
        return;
    }
    socket->packing = NULL;
    if (stale) {
        evzmq__source_abandon(packing->watch, true, &socket->base->abandoned);
    } else {
        evzmq__source_free(packing->watch);
    }
    evzmq__timer_free(packing->timer);
    if (packing->frame != NULL) {
        unopen_frame(packing);
    }
    while (packing->spares != NULL) {
        evzmq__message_destroy(take_spare(packing));
    }
    evzmq__frame_pool_close(packing->pool, stale);
    evzmq__free(packing);
}
