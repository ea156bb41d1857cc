/*
 * unpack.c (L3): frames into records.
 *
 *     begin_frame     a whole message, into a message of the socket's own
 *     unpack_step     the next record: its bytes to a value, the user's callback
 *
 * The message that a callback gets is the frame itself, whose last part was pointed at the record.
 * So a record costs its decoding and little else. The frame stays in the socket, in libzmq's
 * memory: whatever ends a pass in the middle of it, the next one goes on there. Where the frame is
 * left is noted before the callback, which may do anything, receive the next records included.
 */
#include "unpack.h"

#include <errno.h>

#include <zmq.h>

#include <evzmq/packing.h>

#include "arena.h"
#include "base.h"

/* The message to receive the next frame into. One that is in delivery stays as it is until its
 * callback returns. NULL with ENOMEM. */
static struct evzmq_message *get_frame(struct evzmq__unpacking *unpacking)
{
    if (unpacking->frame == NULL || unpacking->frame == unpacking->lent) {
        struct evzmq_message *frame = evzmq__message_create();
        if (frame == NULL) {
            return NULL;
        }
        frame->is_lent = true;
        unpacking->frame = frame;
    }
    return unpacking->frame;
}

/* A callback returned. */
static void end_delivery(struct evzmq__unpacking *unpacking)
{
    if (unpacking->lent != unpacking->frame) {
        evzmq__message_destroy(unpacking->lent);
    } else if (unpacking->offset == unpacking->size) {
        evzmq__message_release(unpacking->frame); /* not later: it is large */
    }
    unpacking->lent = NULL;
}

static struct evzmq__part *last_part(const struct evzmq_message *message)
{
    return &message->parts[message->part_count - 1];
}

/* A frame was received. */
static void set_up_frame(struct evzmq_socket *socket)
{
    struct evzmq__unpacking *unpacking = socket->unpacking;
    struct evzmq_message *frame = unpacking->frame;
    struct evzmq__part *last = last_part(frame);
    last->data = evzmq__part_data(last);
    unpacking->data = last->data;
    unpacking->size = last->size;
    unpacking->offset = 0;
    unpacking->other_bytes = frame->size - last->size;
    evzmq__socket_set_envelope(socket, frame);
}

/* Counts a record, or what stands for one. The bytes of the other parts count with the first. */
static void count_record(struct evzmq_socket *socket, size_t size)
{
    const struct evzmq__unpacking *unpacking = socket->unpacking;
    socket->counters.messages_in++;
    socket->counters.bytes_in += size + (unpacking->offset == 0 ? unpacking->other_bytes : 0);
}

/* Points the frame's last part at some of its bytes. */
static inline void show(struct evzmq__unpacking *unpacking, const unsigned char *data, size_t size)
{
    struct evzmq_message *frame = unpacking->frame;
    struct evzmq__part *last = last_part(frame);
    last->data = data;
    last->size = size;
    last->outside = size != unpacking->size;
    frame->size = unpacking->other_bytes + size;
}

/* A frame whose last part is empty is a message without a value, as ever. */
static enum evzmq__step deliver_empty(struct evzmq_socket *socket)
{
    struct evzmq__unpacking *unpacking = socket->unpacking;
    count_record(socket, 0);
    unpacking->empty_waits = false;
    unpacking->lent = unpacking->frame;
    socket->read_cb(socket, unpacking->frame, socket->arg);
    end_delivery(unpacking);
    return evzmq__after_callback(socket);
}

/* What else than a whole frame a receive can give. */
static enum evzmq__step begin_otherwise(struct evzmq__pass *pass, enum evzmq__recv result,
                                        size_t *out_bytes)
{
    struct evzmq_socket *socket = pass->socket;
    const struct evzmq_message *frame = socket->unpacking->frame;
    if (result == EVZMQ__RECV_PARTIAL) {
        return EVZMQ__STEP_DONE;
    }
    if (result == EVZMQ__RECV_FAILED) {
        return evzmq__pass_receive_failed(pass, errno);
    }
    *out_bytes = (size_t)frame->skipped_bytes;
    socket->counters.messages_in++;
    socket->counters.bytes_in += frame->skipped_bytes;
    return evzmq__pass_report_skipped(pass, frame);
}

/* Receives a frame and sets it up. What it gives that is not IN_VAIN is what the step did. */
static enum evzmq__step begin_frame(struct evzmq__pass *pass, size_t *out_bytes)
{
    struct evzmq_socket *socket = pass->socket;
    if (socket->unpacking->empty_waits) {
        return deliver_empty(socket);
    }
    if (!socket->unpacking->is_on) {
        return EVZMQ__STEP_BREAK; /* The pass that follows receives in the ordinary way. */
    }
    struct evzmq_message *frame = get_frame(socket->unpacking);
    if (frame == NULL) {
        return evzmq__pass_receive_failed(pass, ENOMEM);
    }
    const enum evzmq__recv result = evzmq__message_recv(frame, socket->zmq_socket, &socket->limits);
    if (result != EVZMQ__RECV_WHOLE) {
        return begin_otherwise(pass, result, out_bytes);
    }
    set_up_frame(socket);
    return socket->unpacking->size == 0 ? deliver_empty(socket) : EVZMQ__STEP_IN_VAIN;
}

/* A record could not be decoded: the frame ends with it. Where memory ran out it is tried again. */
EVZMQ__COLD
static enum evzmq__step end_frame(struct evzmq__pass *pass, size_t *out_bytes)
{
    struct evzmq_socket *socket = pass->socket;
    struct evzmq__unpacking *unpacking = socket->unpacking;
    struct evzmq_message *frame = unpacking->frame;
    if (frame->decode_error.kind == EVZMQ_DECODE_NOMEM) {
        return evzmq__pass_receive_failed(pass, ENOMEM);
    }
    *out_bytes = unpacking->size - unpacking->offset;
    count_record(socket, *out_bytes);
    show(unpacking, unpacking->data, unpacking->size);
    frame->codec = NULL;
    frame->value = NULL;
    frame->has_error = true;
    frame->decode_error.offset += unpacking->offset;
    unpacking->offset = unpacking->size;
    unpacking->lent = frame;
    const enum evzmq__step step = evzmq__pass_report_bad(pass, frame);
    end_delivery(unpacking);
    return step;
}

/* Delivers one record. */
static inline enum evzmq__step unpack_step(void *arg, size_t *out_bytes)
{
    struct evzmq__pass *pass = arg;
    struct evzmq_socket *socket = pass->socket;
    struct evzmq__unpacking *unpacking = socket->unpacking;
    if (unpacking->offset == unpacking->size) {
        const enum evzmq__step step = begin_frame(pass, out_bytes);
        if (step != EVZMQ__STEP_IN_VAIN) {
            return step;
        }
    }
    struct evzmq_message *frame = unpacking->frame;
    struct evzmq_arena *arena = socket->base->arena;
    const struct evzmq_codec *codec = socket->codec;
    const unsigned char *data = unpacking->data + unpacking->offset;
    size_t used = 0;
    if (evzmq__arena_get_used(arena) > 0) {
        evzmq_arena_reset(arena);
    }
    if (!EVZMQ__LIKELY(evzmq__codec_decode_prefix(codec, data, unpacking->size - unpacking->offset,
                                                  arena, &frame->value, &used,
                                                  &frame->decode_error) == 0)) {
        return end_frame(pass, out_bytes);
    }
    count_record(socket, used);
    show(unpacking, data, used);
    frame->codec = codec;
    frame->has_error = false;
    unpacking->offset += used;
    unpacking->lent = frame;
    *out_bytes = used;
    socket->read_cb(socket, frame, socket->arg);
    end_delivery(unpacking);
    return evzmq__after_callback(socket);
}

enum evzmq__drain_stop evzmq__pass_unpack(struct evzmq__pass *pass)
{
    /* Here, not where a frame begins: the receive calls may have begun it, which need none. */
    if (evzmq__base_prepare_arena(pass->socket->base) < 0) {
        return (enum evzmq__drain_stop)evzmq__pass_receive_failed(pass, ENOMEM);
    }
    return evzmq__drain_run(&pass->read, unpack_step, pass);
}

/* Receives the next frame for evzmq__unpacking_try_recv(). */
static int receive_frame(struct evzmq_socket *socket)
{
    struct evzmq_message *frame = get_frame(socket->unpacking);
    if (frame == NULL) {
        return -1;
    }
    if (evzmq__socket_receive_whole(socket, frame) < 0) {
        const int error = errno;
        evzmq__socket_receive_failed(socket, error);
        errno = error;
        return -1;
    }
    /* Receiving may have used up the edge of output. */
    if (socket->queue.messages > 0) {
        evzmq__socket_attend(socket);
    }
    /* Counted as one message; its records are what counts. */
    socket->counters.messages_in--;
    socket->counters.bytes_in -= frame->size;
    set_up_frame(socket);
    return 0;
}

/* An owned message of the next record; of the whole frame, with the error, when it cannot be
 * decoded. NULL with ENOMEM, and nothing was taken. */
static struct evzmq_message *take_record(struct evzmq_socket *socket, size_t *out_used)
{
    struct evzmq__unpacking *unpacking = socket->unpacking;
    struct evzmq_message *frame = unpacking->frame;
    const unsigned char *data = unpacking->data + unpacking->offset;
    const size_t left = unpacking->size - unpacking->offset;
    const void *value = NULL;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    *out_used = left;
    if (left == 0) {
        return evzmq__message_take_span(frame, data, 0);
    }
    evzmq_arena_reset(unpacking->arena);
    if (evzmq__codec_decode_prefix(socket->codec, data, left, unpacking->arena, &value, out_used,
                                   &error) == 0) {
        struct evzmq_message *record = evzmq__message_take_span(frame, data, *out_used);
        if (record == NULL || evzmq_message_decode(record, socket->codec, NULL) == 0) {
            return record;
        }
        if (errno == ENOMEM) {
            evzmq__message_destroy(record);
            errno = ENOMEM;
            return NULL;
        }
        /* The two methods of a user's codec disagree. The record goes out with its error: kept, it
         * would be met again by each call, and no other after it. */
        socket->counters.decode_errors[record->decode_error.kind]++;
        return record;
    }
    if (error.kind == EVZMQ_DECODE_NOMEM) {
        errno = ENOMEM;
        return NULL;
    }
    *out_used = left;
    struct evzmq_message *whole = evzmq__message_take_span(frame, unpacking->data, unpacking->size);
    if (whole != NULL) {
        error.offset += unpacking->offset;
        whole->decode_error = error;
        whole->has_error = true;
        socket->counters.decode_errors[error.kind]++;
    }
    return whole;
}

int evzmq__unpacking_try_recv(struct evzmq_socket *socket, struct evzmq_message **out)
{
    struct evzmq__unpacking *unpacking = socket->unpacking;
    if (unpacking->arena == NULL) {
        unpacking->arena = evzmq_arena_new();
        if (unpacking->arena == NULL) {
            return -1;
        }
    }
    if (!evzmq__unpacking_has_rest(socket) && receive_frame(socket) < 0) {
        return -1;
    }
    unpacking->empty_waits = unpacking->size == 0; /* until there was memory to hand it over */
    size_t used = 0;
    struct evzmq_message *record = take_record(socket, &used);
    if (record == NULL) {
        return -1;
    }
    count_record(socket, used);
    unpacking->empty_waits = false;
    unpacking->offset += used;
    if (unpacking->offset == unpacking->size && unpacking->lent != unpacking->frame) {
        evzmq__message_release(unpacking->frame);
    }
    *out = record;
    return 0;
}

static bool type_unpacks(const struct evzmq__type *type)
{
    switch (type->zmq_type) {
    case ZMQ_REQ:
    case ZMQ_REP:
    case ZMQ_STREAM:
        return false;
    default:
        return type->reads && type->decodes;
    }
}

/* A message half received changes hands with the way to receive. */
static void pass_partial_back(struct evzmq_socket *socket)
{
    struct evzmq__unpacking *unpacking = socket->unpacking;
    if (unpacking->frame != NULL && unpacking->frame->is_partial) {
        socket->partial = unpacking->frame;
        unpacking->frame = NULL;
    }
}

static void take_partial_over(struct evzmq_socket *socket)
{
    struct evzmq__unpacking *unpacking = socket->unpacking;
    if (socket->partial != NULL) {
        if (unpacking->frame != unpacking->lent) {
            evzmq__message_destroy(unpacking->frame);
        }
        unpacking->frame = socket->partial;
        unpacking->frame->is_lent = true;
        socket->partial = NULL;
    }
}

int evzmq_socket_set_unpacking(struct evzmq_socket *socket, int on)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (on != 0 && (!type_unpacks(socket->type) || socket->codec->decode_prefix == NULL)) {
        errno = ENOTSUP;
        return -1;
    }
    if (socket->unpacking == NULL && on != 0) {
        socket->unpacking = evzmq__calloc(1, sizeof(*socket->unpacking));
        if (socket->unpacking == NULL) {
            return -1;
        }
    }
    if (evzmq__unpacking_is_on(socket) == (on != 0)) {
        return 0;
    }
    socket->unpacking->is_on = on != 0;
    if (on == 0) {
        pass_partial_back(socket);
    } else {
        take_partial_over(socket);
        if (socket->is_receiving) {
            /* The pass that is running receives in the other way: its drain has to end. */
            socket->pause |= EVZMQ__PAUSE_SWITCH;
        }
    }
    return 0;
}

void evzmq__unpacking_close(struct evzmq_socket *socket)
{
    struct evzmq__unpacking *unpacking = socket->unpacking;
    if (unpacking != NULL) {
        unpacking->is_on = false;
        unpacking->offset = unpacking->size;
        unpacking->empty_waits = false;
        pass_partial_back(socket);
    }
}

void evzmq__unpacking_free(struct evzmq_socket *socket)
{
    struct evzmq__unpacking *unpacking = socket->unpacking;
    if (unpacking != NULL) {
        evzmq__message_destroy(unpacking->frame);
        evzmq_arena_free(unpacking->arena);
        evzmq__free(unpacking);
        socket->unpacking = NULL;
    }
}
