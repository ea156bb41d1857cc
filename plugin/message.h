/*
 * message.h (L1): whole multipart messages on libzmq's side: receiving, sending, and where the
 * bytes of their parts lie.
 */
#ifndef EVZMQ_PLUGIN_MESSAGE_H
#define EVZMQ_PLUGIN_MESSAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zmq.h>

#include <evzmq/message.h>

#include "queue.h"

/* One part. Its zmq_msg_t is always initialised. The bytes are all that is in it unless `outside`
 * is set: then they lie in the receive buffer or in the block of a kept message, or, as those of a
 * record of a packed frame, they are some of what is in it (evzmq__part_share()). Ask
 * evzmq__part_data() for them: of a part that was just received `data` is NULL, since finding out
 * costs a call. */
struct evzmq__part {
    zmq_msg_t msg;
    union {
        struct {
            const void *data;
            size_t size;
        };
        struct evzmq_bytes bytes; /* the same two, as the value of the raw codec */
    };
    bool outside;
};

struct evzmq__frame;

struct evzmq_envelope {
    const struct evzmq_message *message; /* its first parts are the envelope; or NULL: a copy */
    size_t part_count;
    struct evzmq_bytes *copies;
};

enum {
    EVZMQ__MESSAGE_PARTS_INLINE = 4,
    /* Calls that a signal interrupts are made again this often. Measured elsewhere: at a signal
     * every 50 microseconds about one call in 10,000 is hit, so that two in a row are rare already.
     */
    EVZMQ__EINTR_RETRIES = 100
};

struct evzmq_message {
    struct evzmq__queue_entry entry; /* first: the output queue holds messages by it */
    struct evzmq__part *parts;
    size_t part_count;
    size_t part_capacity; /* the zmq_msg_t of all of them are initialised */
    struct evzmq__part *parts_before; /* the list without a lead, where that needed another; NULL */
    size_t capacity_before;
    size_t size; /* of all parts */
    size_t parts_sent; /* of a message whose sending a signal interrupted; else 0 */
    struct evzmq__frame *frame; /* its bytes, which count as in flight once sent; NULL for others */

    bool is_lent; /* to a callback; not the user's to free or to change */
    bool is_simple; /* at most one part and no block: the next message may overwrite it */
    bool is_partial; /* more parts are to be received */
    bool is_skipping; /* too large: the rest is received and dropped */
    bool has_envelope; /* envelope is valid */
    bool has_error; /* decode_error is valid */

    /* While skipping: what was dropped so far, parts and bytes kept before included. */
    size_t skipped_parts;
    uint64_t skipped_bytes;

    struct evzmq_envelope envelope;
    const struct evzmq_codec *codec; /* of value */
    const void *value;
    struct evzmq_decode_error decode_error;

    /* Owned messages only. */
    struct evzmq_codec *codec_held; /* a reference */
    struct evzmq_arena *arena; /* of value; made on the first decode */
    void *block; /* small parts of a kept message, or an `owned` mode copy */
    struct evzmq__part parts_inline[EVZMQ__MESSAGE_PARTS_INLINE];
};

/* Limits that evzmq__message_recv() applies. 0: none. */
struct evzmq__message_limits {
    size_t bytes;
    size_t parts;
};

enum evzmq__recv {
    EVZMQ__RECV_WHOLE,
    EVZMQ__RECV_PARTIAL, /* some parts are there; call again with the same message */
    EVZMQ__RECV_SKIPPED, /* a whole message was above the limits and is gone; see skipped_* */
    EVZMQ__RECV_FAILED /* errno: EAGAIN (nothing there), EINTR, ENOMEM, EFSM, ETERM, ... */
};

/* Makes an empty message. NULL with ENOMEM. */
struct evzmq_message *evzmq__message_create(void);

/* Frees a message whatever its flags. NULL is ignored. */
void evzmq__message_destroy(struct evzmq_message *message);

/* Empties a message for the next one. The bytes of its first part are kept until that is received:
 * libzmq lets go of them then, which saves a call for each message. */
void evzmq__message_reset(struct evzmq_message *message);

/* Lets go of all bytes, the first part's too, and of a list of very many parts. */
void evzmq__message_release(struct evzmq_message *message);

/*
 * Receives a whole multipart message, or goes on with a partial one.
 *
 * libzmq hands out multipart messages atomically: once the first part is there, all are. The only
 * things that can come between are a signal and our own limits on work per call; then the parts so
 * far stay in the message, which is marked partial. A failure with a message that is not partial
 * leaves it empty.
 */
static inline enum evzmq__recv evzmq__message_recv(struct evzmq_message *message, void *zmq_socket,
                                                   const struct evzmq__message_limits *limits);

/* The same, for all but the messages the fast path is for. `called` says that libzmq was called for
 * the first part already, and gave `result` and errno. */
enum evzmq__recv evzmq__message_recv_any(struct evzmq_message *message, void *zmq_socket,
                                         const struct evzmq__message_limits *limits, bool called,
                                         int result);

/* Copies all parts into memory of at least evzmq__message_flat_size() bytes, aligned as malloc's,
 * and points the parts there. */
void evzmq__message_flatten(struct evzmq_message *message, void *memory);
size_t evzmq__message_flat_size(const struct evzmq_message *message);

/* Finds the end of the envelope of a ROUTER message: the routing id, or everything up to and
 * including the first empty part that is not the last. */
size_t evzmq__message_find_body(const struct evzmq_message *message);

/* Marks the first parts as the envelope. */
void evzmq__message_set_envelope(struct evzmq_message *message, size_t part_count);

/* Decodes the last part. An empty one has no value and no error. Returns 0, or -1 with the error in
 * the message. */
int evzmq__message_decode_last(struct evzmq_message *message, const struct evzmq_codec *codec,
                               struct evzmq_arena *arena);

/* evzmq_message_take() of a message whose last part is `size` of its bytes, at `data`. */
struct evzmq_message *evzmq__message_take_span(struct evzmq_message *message, const void *data,
                                               size_t size);

/* Appends a part that takes over the bytes of `msg`. Returns 0, or -1 with EINVAL (no message, or
 * one that is lent) or ENOMEM; then `msg` is unchanged. */
int evzmq__message_append(struct evzmq_message *message, zmq_msg_t *msg);

/* Makes room for this many parts. Returns 0, or -1 with ENOMEM. */
int evzmq__message_reserve(struct evzmq_message *message, size_t capacity);

/* Makes room for one more part. Returns 0, or -1 with ENOMEM. */
int evzmq__message_reserve_next(struct evzmq_message *message);

/* Moves parts into a message of their own. NULL with ENOMEM; the parts are unchanged then. */
struct evzmq_message *evzmq__message_gather(struct evzmq__part *parts, size_t count);

/* Puts copies of some bytes, each a part, before the parts of a message, which has no such lead.
 * Returns 0, or -1 with ENOMEM; the message is unchanged then. */
int evzmq__message_lead(struct evzmq_message *message, const struct evzmq_bytes *lead,
                        size_t count);

/* Takes those out again: all bytes are where they were, for a value may point at them. Keeps errno.
 */
void evzmq__message_unlead(struct evzmq_message *message, size_t count);

/* Makes an empty part of raw memory. */
void evzmq__part_init(struct evzmq__part *part);

/* Prepares a part for sending: fills its zmq_msg_t with a copy of some bytes, or with room for
 * them, in place of what was in it. Return 0, or -1 with ENOMEM; then it is empty. */
int evzmq__part_fill(struct evzmq__part *part, const void *data, size_t size);
int evzmq__part_reserve(struct evzmq__part *part, size_t size, void **out_data);

/* Points a part at the bytes in its zmq_msg_t. */
void evzmq__part_point_inside(struct evzmq__part *part);

/* Makes `to`, which is initialised and empty, one more owner of the memory of a part that was
 * received. Gives the part's bytes in there; NULL with ENOMEM. */
const void *evzmq__part_share(struct evzmq__part *part, zmq_msg_t *to);

/* Lets go of the bytes; the part stays initialised and empty. */
void evzmq__part_clear(struct evzmq__part *part);

/* Moves bytes from one part to another, which must be empty. */
void evzmq__part_move(struct evzmq__part *to, struct evzmq__part *from);

/*
 * Sends a multipart message, all of it or nothing, without waiting.
 *
 * libzmq accepts part by part, and when the peer goes away in the middle it answers EAGAIN and then
 * drops what follows up to the end of that message (lb.cpp, sendpipe). So the parts are kept until
 * the last is accepted; on EAGAIN in the middle the dropped message is finished, and the whole is
 * to be sent again.
 *
 * Returns 0 with the parts emptied, or -1 with errno: EAGAIN; EINTR, when *parts_sent parts are
 * with libzmq and the call must be made again before anything else is sent; others as
 * zmq_msg_send(). *out_restarted is set when a message was begun in vain.
 */
int evzmq__parts_send(struct evzmq__part *parts, size_t count, void *zmq_socket, size_t *parts_sent,
                      bool *out_restarted);

/* Whether another message can share a part's bytes instead of copying them: its zmq_msg_t has them,
 * alone or among others, which that of a record within somebody else's part has not. */
static inline bool evzmq__part_shares(const struct evzmq__part *part)
{
    const size_t held = zmq_msg_size(&part->msg);
    if (part->size < EVZMQ_ZERO_COPY_MIN || held <= part->size) {
        return part->size >= EVZMQ_ZERO_COPY_MIN && held == part->size;
    }
    const uintptr_t start = (uintptr_t)zmq_msg_data((zmq_msg_t *)&part->msg);
    return (uintptr_t)part->data - start <= held - part->size;
}

/* The bytes of a part, which are never NULL. */
static inline const void *evzmq__part_data(const struct evzmq__part *part)
{
    return part->data != NULL ? part->data : zmq_msg_data((zmq_msg_t *)&part->msg);
}

/* A simple message was received: one part of this size, whose bytes lie at `data`, outside of its
 * zmq_msg_t, or in that where `data` is NULL. */
static inline void evzmq__message_set_single(struct evzmq_message *message,
                                             struct evzmq__part *part, size_t size,
                                             const void *data)
{
    part->data = data;
    part->size = size;
    part->outside = data != NULL;
    message->part_count = 1;
    message->size = size;
    message->has_envelope = false;
    message->has_error = false;
    message->codec = NULL;
    message->value = NULL;
}

/* Goes on where zmq_msg_recv() for the first part of a simple message gave `result`. Nearly every
 * message has one part and is within the limits: that path is short and inlined. */
static inline enum evzmq__recv evzmq__message_recv_rest(struct evzmq_message *message,
                                                        void *zmq_socket,
                                                        const struct evzmq__message_limits *limits,
                                                        int result)
{
    struct evzmq__part *part = message->parts;
    if (result < 0 || result == INT_MAX || zmq_msg_more(&part->msg) != 0 ||
        (limits->bytes != 0 && (size_t)result > limits->bytes)) {
        return evzmq__message_recv_any(message, zmq_socket, limits, true, result);
    }
    evzmq__message_set_single(message, part, (size_t)result, NULL);
    return EVZMQ__RECV_WHOLE;
}

static inline enum evzmq__recv evzmq__message_recv(struct evzmq_message *message, void *zmq_socket,
                                                   const struct evzmq__message_limits *limits)
{
    if (!message->is_simple) {
        return evzmq__message_recv_any(message, zmq_socket, limits, false, 0);
    }
    const int result = zmq_msg_recv(&message->parts->msg, zmq_socket, ZMQ_DONTWAIT);
    return evzmq__message_recv_rest(message, zmq_socket, limits, result);
}

#endif /* EVZMQ_PLUGIN_MESSAGE_H */
