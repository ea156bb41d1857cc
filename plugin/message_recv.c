/*
 * message_recv.c (L1): receives a message whole, however many parts it has, or skips it; see
 * message.h.
 */
#include "message.h"

#include <errno.h>
#include <limits.h>

enum {
    /* Parts received in one call; a message of more is continued, so that no single message can
     * hold up the loop. */
    PARTS_PER_CALL = 256
};

/* Receives one part, where `result` and errno are what the first try gave. */
static int receive_part(struct evzmq__part *part, void *zmq_socket, int result)
{
    for (int tries = 0; result < 0 && errno == EINTR && tries < EVZMQ__EINTR_RETRIES; tries++) {
        result = zmq_msg_recv(&part->msg, zmq_socket, ZMQ_DONTWAIT);
    }
    if (result < 0) {
        return -1;
    }
    /* Now, not when the message is whole: the parts may have to move before that, and a part that
     * is still marked as lying outside moves without its zmq_msg_t. */
    part->data = NULL;
    part->outside = false;
    /* The result is cut at INT_MAX. */
    part->size = result < INT_MAX ? (size_t)result : zmq_msg_size(&part->msg);
    return 0;
}

static bool is_above_limits(const struct evzmq_message *message,
                            const struct evzmq__message_limits *limits)
{
    return (limits->bytes != 0 && message->size > limits->bytes) ||
           (limits->parts != 0 && message->part_count > limits->parts);
}

/* Drops the parts of a message that turned out too large; later ones are received into the first.
 */
static void start_skipping(struct evzmq_message *message)
{
    const size_t parts = message->part_count;
    const uint64_t bytes = message->size;
    evzmq__message_reset(message);
    message->is_skipping = true;
    message->skipped_parts = parts;
    message->skipped_bytes = bytes;
}

static enum evzmq__recv finish_recv(struct evzmq_message *message)
{
    message->is_partial = false;
    if (message->is_skipping) {
        message->is_skipping = false;
        return EVZMQ__RECV_SKIPPED;
    }
    return EVZMQ__RECV_WHOLE;
}

enum evzmq__recv evzmq__message_recv_any(struct evzmq_message *message, void *zmq_socket,
                                         const struct evzmq__message_limits *limits, bool called,
                                         int result)
{
    const int error = errno;
    if (!message->is_partial) {
        evzmq__message_reset(message);
    }
    errno = error;
    for (int calls = 0; calls < PARTS_PER_CALL; calls++) {
        if (evzmq__message_reserve_next(message) < 0) {
            return EVZMQ__RECV_FAILED;
        }
        struct evzmq__part *part = &message->parts[message->part_count];
        if (!called) {
            result = zmq_msg_recv(&part->msg, zmq_socket, ZMQ_DONTWAIT);
        }
        called = false;
        if (receive_part(part, zmq_socket, result) < 0) {
            return EVZMQ__RECV_FAILED;
        }
        if (message->is_skipping) {
            message->skipped_parts++;
            message->skipped_bytes += part->size;
        } else {
            message->size += part->size;
            message->part_count++;
        }
        const bool more = zmq_msg_more(&part->msg) != 0;
        if (!message->is_skipping && is_above_limits(message, limits)) {
            start_skipping(message);
        }
        message->is_simple = false;
        if (!more) {
            return finish_recv(message);
        }
        message->is_partial = true;
    }
    return EVZMQ__RECV_PARTIAL;
}
