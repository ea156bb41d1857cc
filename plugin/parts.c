/*
 * parts.c (L1): the parts of messages: filling and moving them, and sending all of them or none.
 * See message.h.
 */
#include "message.h"

#include <errno.h>
#include <string.h>

void evzmq__part_clear(struct evzmq__part *part)
{
    (void)zmq_msg_close(&part->msg);
    (void)zmq_msg_init(&part->msg);
    part->data = NULL;
    part->size = 0;
    part->outside = false;
}

void evzmq__part_init(struct evzmq__part *part)
{
    *part = (struct evzmq__part){.data = NULL};
    (void)zmq_msg_init(&part->msg);
}

void evzmq__part_point_inside(struct evzmq__part *part)
{
    part->data = zmq_msg_data(&part->msg);
    part->size = zmq_msg_size(&part->msg);
    part->outside = false;
}

int evzmq__part_reserve(struct evzmq__part *part, size_t size, void **out_data)
{
    (void)zmq_msg_close(&part->msg);
    if (zmq_msg_init_size(&part->msg, size) < 0) {
        evzmq__part_init(part);
        errno = ENOMEM;
        return -1;
    }
    void *data = zmq_msg_data(&part->msg);
    part->data = data;
    part->size = size;
    part->outside = false;
    *out_data = data;
    return 0;
}

int evzmq__part_fill(struct evzmq__part *part, const void *data, size_t size)
{
    void *room;
    if (evzmq__part_reserve(part, size, &room) < 0) {
        return -1;
    }
    if (size > 0) {
        memcpy(room, data, size);
    }
    return 0;
}

void evzmq__part_move(struct evzmq__part *to, struct evzmq__part *from)
{
    /* Also of a part that lies outside: it may hold what the bytes are a piece of. */
    (void)zmq_msg_move(&to->msg, &from->msg);
    if (from->outside) {
        to->data = from->data;
        to->size = from->size;
        to->outside = true;
    } else {
        evzmq__part_point_inside(to);
    }
    from->data = NULL;
    from->size = 0;
    from->outside = false;
}

const void *evzmq__part_share(struct evzmq__part *part, zmq_msg_t *to)
{
    if (zmq_msg_copy(to, &part->msg) < 0) {
        return NULL;
    }
    /* A piece of it lies where it did: a copy of a large message has the same memory. All of it may
     * have been copied to the receive buffer, which is no place to stay. */
    return part->size == zmq_msg_size(to) ? zmq_msg_data(to) : part->data;
}

static int send_part(zmq_msg_t *msg, void *zmq_socket, int flags)
{
    for (int tries = 0; tries < EVZMQ__EINTR_RETRIES; tries++) {
        if (zmq_msg_send(msg, zmq_socket, flags | ZMQ_DONTWAIT) >= 0) {
            return 0;
        }
        if (errno != EINTR) {
            return -1;
        }
    }
    return -1;
}

/* Sends a part that stays with the caller. */
static int send_copy(struct evzmq__part *part, void *zmq_socket, int flags)
{
    zmq_msg_t copy;
    if (part->outside) {
        if (zmq_msg_init_size(&copy, part->size) < 0) {
            return -1;
        }
        if (part->size > 0) {
            memcpy(zmq_msg_data(&copy), part->data, part->size);
        }
    } else {
        (void)zmq_msg_init(&copy);
        if (zmq_msg_copy(&copy, &part->msg) < 0) {
            (void)zmq_msg_close(&copy);
            return -1;
        }
    }
    if (send_part(&copy, zmq_socket, flags) < 0) {
        const int error = errno;
        (void)zmq_msg_close(&copy);
        errno = error;
        return -1;
    }
    return 0;
}

static int flags_of(size_t part, size_t count)
{
    return part + 1 < count ? ZMQ_SNDMORE : 0;
}

/* Whether libzmq drops the rest of a message whose peer went in the middle. PAIR does not: a next
 * peer would get that rest as a message of its own. */
static bool drops_rest(void *zmq_socket)
{
    int type = -1;
    size_t size = sizeof(type);
    return zmq_getsockopt(zmq_socket, ZMQ_TYPE, &type, &size) == 0 && type != ZMQ_PAIR;
}

/* Sends what is to be dropped anyway: without the bytes, so that no memory is needed. */
static void send_nothing(void *zmq_socket, int flags)
{
    zmq_msg_t msg;
    (void)zmq_msg_init(&msg);
    (void)send_part(&msg, zmq_socket, flags);
    (void)zmq_msg_close(&msg);
}

int evzmq__parts_send(struct evzmq__part *parts, size_t count, void *zmq_socket, size_t *parts_sent,
                      bool *out_restarted)
{
    if (count == 1 && !parts->outside) {
        if (send_part(&parts->msg, zmq_socket, 0) < 0) {
            return -1;
        }
        evzmq__part_point_inside(parts);
        return 0;
    }
    for (size_t i = *parts_sent; i < count; i++) {
        /* With the last part all are accepted, so it is given away; refused, it is still there. */
        const bool is_last = i + 1 == count && !parts[i].outside;
        if ((is_last ? send_part(&parts[i].msg, zmq_socket, 0)
                     : send_copy(&parts[i], zmq_socket, flags_of(i, count))) < 0) {
            const int error = errno;
            *parts_sent = error == EINTR || error == ENOMEM ? i : 0;
            if (error == EAGAIN && i > 0) {
                *out_restarted = true;
                const size_t end = drops_rest(zmq_socket) ? count : i + 1;
                for (size_t rest = i + 1; rest < end; rest++) {
                    send_nothing(zmq_socket, flags_of(rest, count));
                }
            }
            errno = error;
            return -1;
        }
    }
    *parts_sent = 0;
    for (size_t i = 0; i < count; i++) {
        evzmq__part_clear(&parts[i]);
    }
    return 0;
}
