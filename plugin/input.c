/*
 * input.c (L3): receiving in a pass: message_recv, place, decode, deliver.
 */
#include "socket.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "arena.h"
#include "base.h"
#include "unpack.h"

enum {
    /* The receive buffer starts with this size and doubles. */
    BUFFER_MIN = 4096
};

/* Inlined into the step of unpacked messages. */
static inline enum evzmq__step after_callback(const struct evzmq_socket *socket)
{
    if (socket->pause != 0 || evzmq__base_is_stale(socket->base)) {
        return EVZMQ__STEP_PAUSED;
    }
    return evzmq__loop_is_breaking(socket->base->event_base) ? EVZMQ__STEP_BREAK : EVZMQ__STEP_DONE;
}

enum evzmq__step evzmq__after_callback(const struct evzmq_socket *socket)
{
    return after_callback(socket);
}

/* A REP socket that does not answer a request can never receive another one. */
static void answer_bad_request(struct evzmq_socket *socket)
{
    if (evzmq__socket_is_alive(socket) && socket->reply_due) {
        (void)evzmq_socket_write(socket, NULL, 0);
    }
}

enum evzmq__step evzmq__pass_report_bad(struct evzmq__pass *pass, struct evzmq_message *message)
{
    struct evzmq_socket *socket = pass->socket;
    socket->counters.decode_errors[message->decode_error.kind]++;
    const struct evzmq_event event = {.size = sizeof(event),
                                      .type = EVZMQ_EVENT_DECODE_ERROR,
                                      .error = EBADMSG,
                                      .kind = message->decode_error.kind,
                                      .offset = message->decode_error.offset,
                                      .message = message};
    evzmq__socket_report(socket, &event);
    answer_bad_request(socket);
    return after_callback(socket);
}

enum evzmq__step evzmq__pass_report_skipped(struct evzmq__pass *pass,
                                            const struct evzmq_message *message)
{
    struct evzmq_socket *socket = pass->socket;
    socket->counters.oversize_dropped++;
    socket->counters.oversize_bytes += message->skipped_bytes;
    const struct evzmq_event event = {.size = sizeof(event),
                                      .type = EVZMQ_EVENT_MESSAGE_TOO_LARGE,
                                      .error = EMSGSIZE,
                                      .size_bytes = message->skipped_bytes,
                                      .parts = message->skipped_parts};
    evzmq__socket_report(socket, &event);
    answer_bad_request(socket);
    return after_callback(socket);
}

/* Makes the receive buffer hold `size` bytes. Returns whether it does. */
static bool reserve_buffer(struct evzmq__base *base, size_t size)
{
    if (size > base->buffer_max) {
        return false;
    }
    size_t wanted = BUFFER_MIN;
    while (wanted < size && wanted <= SIZE_MAX / 2) {
        wanted *= 2;
    }
    wanted = wanted > size ? wanted : size;
    wanted = wanted < base->buffer_max ? wanted : base->buffer_max;
    unsigned char *buffer = evzmq__malloc(wanted);
    if (buffer == NULL) {
        return false;
    }
    evzmq__free(base->buffer);
    base->buffer = buffer;
    base->buffer_size = wanted;
    base->buffer_ready = wanted;
    return true;
}

static void copy_into_buffer(struct evzmq_socket *socket, struct evzmq_message *message)
{
    struct evzmq__base *base = socket->base;
    const size_t size = evzmq__message_flat_size(message);
    if (size <= base->buffer_ready || reserve_buffer(base, size)) {
        evzmq__message_flatten(message, base->buffer);
    } else {
        socket->counters.spills++;
    }
}

static void copy_into_block(struct evzmq_message *message)
{
    message->block = evzmq__malloc(evzmq__message_flat_size(message));
    message->is_simple = false;
    if (message->block != NULL) {
        evzmq__message_flatten(message, message->block);
    }
}

/* Brings the bytes of a received message, of which there are some, to where the socket's mode wants
 * them. Where memory is short they stay in libzmq's, which is always right. */
static void place(struct evzmq_socket *socket, struct evzmq_message *message)
{
    switch (socket->mode) {
    case EVZMQ_RECEIVE_INTO:
        copy_into_buffer(socket, message);
        break;
    case EVZMQ_RECEIVE_OWNED:
        copy_into_block(message);
        break;
    default:
        /* EVZMQ_RECEIVE_IN_PLACE, and EVZMQ_RECEIVE_AUTO too: the size up to which copying pays was
         * looked for and is 0. Copying 32 bytes takes 53 instructions for libzmq's side and memcpy,
         * and 500 bytes 90 more than a message that stays (cmake/instructions.sh). The message
         * stays in libzmq's memory until the next receive in both cases, so that the copy frees
         * nothing earlier. */
        break;
    }
}

void evzmq__socket_set_envelope(const struct evzmq_socket *socket, struct evzmq_message *message)
{
    switch (socket->type->envelope) {
    case EVZMQ__ENVELOPE_EMPTY:
        evzmq__message_set_envelope(message, 0);
        break;
    case EVZMQ__ENVELOPE_ID:
        evzmq__message_set_envelope(message, 1);
        break;
    case EVZMQ__ENVELOPE_DELIMITED:
        evzmq__message_set_envelope(message, evzmq__message_find_body(message));
        break;
    default: /* EVZMQ__ENVELOPE_NONE */
        break;
    }
}

/* Decodes the last part of a message, unless it is empty. */
static int decode(struct evzmq_socket *socket, struct evzmq_message *message)
{
    struct evzmq_arena *arena = socket->base->arena;
    if (!socket->type->decodes || message->parts[message->part_count - 1].size == 0) {
        return 0;
    }
    if (socket->codec->is_raw) {
        message->codec = socket->codec; /* evzmq_message_get_value() does the rest */
        return 0;
    }
    if (evzmq__arena_get_used(arena) > 0) {
        evzmq_arena_reset(arena);
    }
    return evzmq__message_decode_last(message, socket->codec, arena);
}

/* Gives one received message to the user. */
static enum evzmq__step deliver(struct evzmq__pass *pass, struct evzmq_message *message)
{
    struct evzmq_socket *socket = pass->socket;
    if (socket->type->envelope != EVZMQ__ENVELOPE_NONE) {
        evzmq__socket_set_envelope(socket, message);
        socket->reply_due = socket->type->envelope == EVZMQ__ENVELOPE_EMPTY;
    }
    if (message->size > 0) {
        place(socket, message);
    }
    if (decode(socket, message) < 0) {
        return evzmq__pass_report_bad(pass, message);
    }
    socket->read_cb(socket, message, socket->arg);
    return after_callback(socket);
}

int evzmq__base_prepare_arena(struct evzmq__base *base)
{
    if (base->arena == NULL) {
        base->arena = evzmq_arena_new();
    }
    return base->arena == NULL ? -1 : 0;
}

/* The message that passes receive into. NULL with ENOMEM; a partial one stays with its socket then.
 */
static struct evzmq_message *get_receiving(struct evzmq_socket *socket)
{
    struct evzmq__base *base = socket->base;
    if (evzmq__base_prepare_arena(base) < 0) {
        return NULL;
    }
    if (socket->partial != NULL) {
        evzmq__message_destroy(base->receiving);
        base->receiving = socket->partial;
        socket->partial = NULL;
    }
    if (base->receiving == NULL) {
        base->receiving = evzmq__message_create();
        if (base->receiving == NULL) {
            return NULL;
        }
        base->receiving->is_lent = true;
    }
    return base->receiving;
}

enum evzmq__step evzmq__pass_receive_failed(struct evzmq__pass *pass, int error)
{
    struct evzmq_socket *socket = pass->socket;
    if (error == EAGAIN) {
        /* The pass does not wait a moment and look once more, in case more is on its way. Over
         * inproc, where a loop that empties the pipe costs its sender a signal for each batch, 0.5
         * to 5 microseconds of that made one pass of what had been ten, and the rate no better
         * (0.97 to 1.06 of before, with records of 32 to 4,096 bytes and senders of 0.4 to 7
         * million messages a second). It would cost this time on every wakeup of a socket with
         * little to do. */
        socket->counters.receive_eagains++;
        socket->touched = false;
        return EVZMQ__STEP_EMPTY;
    }
    if (error == EFSM) {
        return EVZMQ__STEP_STATE;
    }
    if (evzmq__is_terminal(error)) {
        evzmq__pass_terminate(pass, error);
        return EVZMQ__STEP_PAUSED;
    }
    return evzmq__pass_retry_later(pass, error);
}

/* What else than a whole message a receive can give. */
static enum evzmq__step receive_otherwise(struct evzmq__pass *pass, struct evzmq_message *message,
                                          enum evzmq__recv result, size_t *out_bytes)
{
    struct evzmq_socket *socket = pass->socket;
    const int error = errno;
    if (message->is_partial) {
        /* It waits with its socket: the next socket to receive gets another message. */
        socket->partial = message;
        socket->base->receiving = NULL;
    }
    if (result == EVZMQ__RECV_PARTIAL) {
        return EVZMQ__STEP_DONE;
    }
    if (result == EVZMQ__RECV_FAILED) {
        return evzmq__pass_receive_failed(pass, error);
    }
    *out_bytes = (size_t)message->skipped_bytes;
    socket->counters.messages_in++;
    socket->counters.bytes_in += message->skipped_bytes;
    socket->reply_due = socket->type->envelope == EVZMQ__ENVELOPE_EMPTY;
    return evzmq__pass_report_skipped(pass, message);
}

/* A pass as its steps see it. In registers, which a callback cannot change behind the compiler's
 * back: what a step would read from memory again and again is a third of its instructions. */
struct input {
    struct evzmq__pass *pass;
    struct evzmq_socket *socket;
    struct evzmq__base *base;
    struct evzmq_message *simple; /* base->receiving where that is simple, or NULL */
};

static enum evzmq__step finish_step(struct evzmq__pass *pass, struct evzmq_message *message,
                                    enum evzmq__recv result, size_t *out_bytes)
{
    struct evzmq_socket *socket = pass->socket;
    if (result != EVZMQ__RECV_WHOLE) {
        return receive_otherwise(pass, message, result, out_bytes);
    }
    *out_bytes = message->size;
    socket->counters.messages_in++;
    socket->counters.bytes_in += message->size;
    return deliver(pass, message);
}

/* Receives and delivers one message, whatever it is. */
EVZMQ__NOINLINE
static enum evzmq__step receive_any(struct evzmq__pass *pass, size_t *out_bytes)
{
    struct evzmq_socket *socket = pass->socket;
    struct evzmq_message *message = get_receiving(socket);
    if (message == NULL) {
        return evzmq__pass_receive_failed(pass, ENOMEM);
    }
    const enum evzmq__recv result =
        evzmq__message_recv(message, socket->zmq_socket, &socket->limits);
    return finish_step(pass, message, result, out_bytes);
}

/* The same for a simple message, where zmq_msg_recv() gave `result`. */
EVZMQ__NOINLINE
static enum evzmq__step receive_rest(struct evzmq__pass *pass, int result, size_t *out_bytes)
{
    struct evzmq_socket *socket = pass->socket;
    struct evzmq_message *message = socket->base->receiving;
    const enum evzmq__recv received =
        evzmq__message_recv_rest(message, socket->zmq_socket, &socket->limits, result);
    return finish_step(pass, message, received, out_bytes);
}

/* Finds the message for the next step to receive into. */
static inline void find_simple(struct input *input)
{
    struct evzmq_message *message = input->base->receiving;
    const bool is_ready =
        message != NULL && input->socket->partial == NULL && input->base->arena != NULL;
    input->simple = is_ready && message->is_simple ? message : NULL;
}

/* Receives and delivers one message. What nearly all of them are goes the short way here: one part
 * with bytes, within the limits, without an envelope, copied to the buffer or left in place. It
 * does what deliver() does for these; evzmq__socket_choose_way() says when it can. */
static inline enum evzmq__step receive_step(void *arg, size_t *out_bytes)
{
    struct input *input = arg;
    struct evzmq_socket *socket = input->socket;
    struct evzmq_message *message = input->simple;
    size_t bytes = 0; /* for the long way: *out_bytes stays a register */
    if (message == NULL) {
        const enum evzmq__step step = receive_any(input->pass, &bytes);
        find_simple(input);
        *out_bytes = bytes;
        return step;
    }
    struct evzmq__part *part = message->parts;
    const int result = zmq_msg_recv(&part->msg, socket->zmq_socket, ZMQ_DONTWAIT);
    const unsigned size = (unsigned)result;
    /* Neither 0 nor -1 is below the limit. */
    if (!EVZMQ__LIKELY(size - 1u < socket->short_way_max) || zmq_msg_more(&part->msg) != 0) {
        const enum evzmq__step step = receive_rest(input->pass, result, &bytes);
        find_simple(input);
        *out_bytes = bytes;
        return step;
    }
    *out_bytes = size;
    socket->counters.messages_in++;
    socket->counters.bytes_in += size;
    const void *data = NULL;
    if (socket->mode == EVZMQ_RECEIVE_INTO && size <= input->base->buffer_ready) {
        const void *received = zmq_msg_data(&part->msg);
        data = memcpy(input->base->buffer, received, size);
    }
    evzmq__message_set_single(message, part, size, data);
    if (data == NULL) {
        place(socket, message);
    }
    if (socket->codec->is_raw) {
        message->codec = socket->codec;
    } else if (decode(socket, message) < 0) {
        return evzmq__pass_report_bad(input->pass, message);
    }
    socket->read_cb(socket, message, socket->arg);
    return after_callback(socket);
}

void evzmq__socket_choose_way(struct evzmq_socket *socket)
{
    const struct evzmq__type *type = socket->type;
    const size_t limit = socket->limits.bytes;
    if (!type->decodes || type->envelope != EVZMQ__ENVELOPE_NONE ||
        socket->mode == EVZMQ_RECEIVE_OWNED) {
        socket->short_way_max = 0;
    } else {
        /* The result of zmq_msg_recv() is cut at INT_MAX. */
        socket->short_way_max = limit != 0 && limit < INT_MAX ? (unsigned)limit : INT_MAX - 1u;
    }
}

enum evzmq__drain_stop evzmq__pass_receive(struct evzmq__pass *pass)
{
    struct evzmq_socket *socket = pass->socket;
    if (socket->pause != 0) {
        return EVZMQ__STOP_PAUSED;
    }
    struct input input = {.pass = pass, .socket = socket, .base = socket->base};
    find_simple(&input);
    socket->is_receiving = true;
    enum evzmq__drain_stop stop = evzmq__unpacking_is_active(socket)
                                      ? evzmq__pass_unpack(pass)
                                      : evzmq__drain_run(&pass->read, receive_step, &input);
    socket->is_receiving = false;
    if ((socket->pause & EVZMQ__PAUSE_SWITCH) != 0) {
        socket->pause &= ~(unsigned)EVZMQ__PAUSE_SWITCH;
        stop = EVZMQ__STOP_BREAK;
    }
    return stop;
}
