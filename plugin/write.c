/*
 * write.c (L3): the calls that send. All of them end in evzmq__socket_submit(): at once where
 * nothing waits and ZeroMQ takes it, through the queue otherwise. None runs a callback.
 */
#include "socket.h"

#include <errno.h>
#include <string.h>

#include <zmq.h>

#include "base.h"
#include "packing.h"

/* Parts on the stack; messages of more take an allocation. */
enum { PARTS_LOCAL = 8 };

/* A REQ has one request in flight and a REP one reply; what waits in our queue counts as well. */
static bool is_one_at_a_time(const struct evzmq_socket *socket)
{
    return socket->type->zmq_type == ZMQ_REQ || socket->type->zmq_type == ZMQ_REP;
}

int evzmq__socket_check_writable(struct evzmq_socket *socket)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if ((socket->pause & EVZMQ__PAUSE_SHUTDOWN) != 0) {
        socket->counters.writes_after_shutdown++;
        errno = ESHUTDOWN;
        return -1;
    }
    if (!socket->type->writes) {
        errno = ENOTSUP;
        return -1;
    }
    if (is_one_at_a_time(socket) && socket->queue.messages > 0) {
        errno = EFSM;
        return -1;
    }
    return 0;
}

int evzmq__socket_shed(struct evzmq_socket *socket, struct evzmq__part *parts, size_t count,
                       size_t *parts_sent)
{
    const int off = 0;
    const int on = 1;
    bool restarted = false;
    if (zmq_setsockopt(socket->zmq_socket, ZMQ_XPUB_NODROP, &off, sizeof(off)) < 0) {
        return -1;
    }
    const int result = evzmq__parts_send(parts, count, socket->zmq_socket, parts_sent, &restarted);
    const int error = errno;
    (void)zmq_setsockopt(socket->zmq_socket, ZMQ_XPUB_NODROP, &on, sizeof(on));
    socket->counters.sheds += result == 0;
    errno = error;
    return result;
}

/* Sends now. On failure with EAGAIN libzmq was asked twice: its first answer may only mean that it
 * has not processed its commands for a while, which reading ZMQ_EVENTS makes it do. */
int evzmq__socket_send_now(struct evzmq_socket *socket, struct evzmq__part *parts, size_t count,
                           size_t *parts_sent)
{
    bool restarted = false;
    int result = evzmq__parts_send(parts, count, socket->zmq_socket, parts_sent, &restarted);
    socket->touched = true;
    if (result < 0 && errno == EAGAIN) {
        socket->counters.send_eagains++;
        const int events = evzmq__socket_look(socket);
        errno = EAGAIN;
        if (events > 0 && (events & ZMQ_POLLOUT) != 0) {
            result = evzmq__parts_send(parts, count, socket->zmq_socket, parts_sent, &restarted);
        }
        if (result < 0 && errno == EAGAIN && socket->sheds) {
            result = evzmq__socket_shed(socket, parts, count, parts_sent);
        }
    }
    socket->counters.restarts += restarted;
    return result;
}

/* Whether a message goes to ZeroMQ before it goes to the queue. */
static bool goes_at_once(const struct evzmq_socket *socket, const void *key, size_t key_size)
{
    return socket->write_enabled && !socket->mid_message &&
           !evzmq__queue_waits(&socket->queue, key, key_size);
}

static int refuse(struct evzmq_socket *socket)
{
    socket->counters.writes_refused++;
    evzmq__queue_refuse(&socket->queue);
    errno = EAGAIN;
    return -1;
}

/* Whether nothing but a full queue can be wrong with a message of so many parts. */
static bool may_refuse(const struct evzmq_socket *socket, size_t count)
{
    return evzmq__socket_check(socket) == 0 && socket->queue.messages > 0 &&
           (socket->pause & EVZMQ__PAUSE_SHUTDOWN) == 0 && socket->type->writes &&
           !is_one_at_a_time(socket) && evzmq__type_takes_parts(socket->type, count) &&
           !evzmq__packing_is_open(socket);
}

/* Asks for room before a message is made, so that one that is refused costs nothing. Returns 0,
 * where nothing is promised, or -1 with EAGAIN. */
static int ask(struct evzmq_socket *socket, const struct evzmq_bytes *first, size_t bytes)
{
    const void *key = NULL;
    size_t key_size = 0;
    if (socket->type->routes) {
        key = first->data != NULL ? first->data : "";
        key_size = first->size;
    }
    if (goes_at_once(socket, key, key_size) ||
        evzmq__queue_has_room(&socket->queue, key, key_size, bytes)) {
        return 0;
    }
    return refuse(socket);
}

int evzmq__socket_ask(struct evzmq_socket *socket, size_t size)
{
    const struct evzmq_bytes part = {.size = size};
    return may_refuse(socket, 1) ? ask(socket, &part, size) : 0;
}

static int enqueue(struct evzmq_socket *socket, struct evzmq__part *parts, size_t count,
                   struct evzmq_message *whole, size_t bytes, size_t parts_sent)
{
    struct evzmq_message *message = whole != NULL ? whole : evzmq__message_gather(parts, count);
    if (message == NULL) {
        return -1;
    }
    /* The key is copied when the lane is made, so it may lie in the message itself. */
    const bool routes = socket->type->routes;
    const void *key = routes ? evzmq__part_data(&message->parts[0]) : NULL;
    const size_t key_size = routes ? message->parts[0].size : 0;
    message->entry.bytes = bytes;
    message->parts_sent = parts_sent;
    if (evzmq__queue_push(&socket->queue, &message->entry, key, key_size) < 0) {
        if (whole == NULL) {
            for (size_t i = 0; i < count; i++) {
                evzmq__part_move(&parts[i], &message->parts[i]);
            }
            evzmq__message_destroy(message);
        }
        errno = ENOMEM;
        return -1;
    }
    if (parts_sent > 0) {
        socket->mid_message = true;
        evzmq__queue_hasten(&socket->queue, key, key_size);
    }
    return 0;
}

/* Goes on with a message that is half sent and for which the queue has no memory. It cannot be left
 * so: what is sent next would become part of it. What interrupted it is a signal, or a lack of
 * memory. Returns 0, or -1 with ENOMEM. */
static int finish_half_sent(struct evzmq_socket *socket, struct evzmq__part *parts, size_t count,
                            size_t parts_sent)
{
    enum { CALLS_MAX = 1000 };
    bool restarted = false;
    int result = -1;
    for (int calls = 0; calls < CALLS_MAX && result < 0 && parts_sent > 0; calls++) {
        result = evzmq__parts_send(parts, count, socket->zmq_socket, &parts_sent, &restarted);
    }
    socket->counters.restarts += restarted;
    if (result < 0) {
        errno = ENOMEM;
    }
    return result;
}

static void count_sent(struct evzmq_socket *socket, size_t bytes, struct evzmq_message *whole)
{
    socket->counters.messages_out++;
    socket->counters.bytes_out += bytes;
    evzmq__message_destroy(whole);
}

int evzmq__socket_submit(struct evzmq_socket *socket, struct evzmq__part *parts, size_t count,
                         struct evzmq_message *whole)
{
    if (evzmq__socket_check_writable(socket) < 0) {
        return -1;
    }
    if (!evzmq__type_takes_parts(socket->type, count)) {
        errno = EINVAL;
        return -1;
    }
    if (evzmq__packing_is_open(socket) && evzmq__packing_close(socket) < 0) {
        return -1; /* what was written before goes before */
    }
    const void *key = socket->type->routes ? evzmq__part_data(&parts[0]) : NULL;
    const size_t key_size = key == NULL ? 0 : parts[0].size;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += parts[i].size;
    }
    size_t parts_sent = 0;
    if (goes_at_once(socket, key, key_size)) {
        const int result = evzmq__socket_send_now(socket, parts, count, &parts_sent);
        const int error = errno;
        evzmq__socket_attend(socket);
        if (result == 0) {
            count_sent(socket, bytes, whole);
            socket->reply_due = false;
            return 0;
        }
        if (error != EAGAIN && parts_sent == 0) {
            errno = error;
            return -1;
        }
    }
    if (parts_sent == 0 && !evzmq__queue_has_room(&socket->queue, key, key_size, bytes)) {
        return refuse(socket);
    }
    if (enqueue(socket, parts, count, whole, bytes, parts_sent) < 0) {
        if (finish_half_sent(socket, parts, count, parts_sent) < 0) {
            return -1;
        }
        count_sent(socket, bytes, whole);
    }
    socket->reply_due = false;
    evzmq__socket_attend(socket);
    return 0;
}

int evzmq__socket_enqueue(struct evzmq_socket *socket, struct evzmq_message *message)
{
    if (enqueue(socket, message->parts, message->part_count, message, message->entry.bytes, 0) <
        0) {
        return -1;
    }
    evzmq__socket_attend(socket);
    return 0;
}

/* Closes parts that were not taken over, and keeps errno. */
static void drop_parts(struct evzmq__part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)zmq_msg_close(&parts[i].msg);
    }
}

/* Room for parts: the local array, or an allocation. NULL with ENOMEM. */
static struct evzmq__part *parts_begin(struct evzmq__part *local, size_t count)
{
    struct evzmq__part *parts = local;
    if (count > PARTS_LOCAL) {
        if (count > SIZE_MAX / sizeof(*parts)) {
            errno = ENOMEM;
            return NULL;
        }
        parts = evzmq__malloc(count * sizeof(*parts));
        if (parts == NULL) {
            return NULL;
        }
    }
    for (size_t i = 0; i < count; i++) {
        evzmq__part_init(&parts[i]);
    }
    return parts;
}

/* Submits parts that were filled without failure, and lets go of them whatever the result. */
static int parts_finish(struct evzmq_socket *socket, struct evzmq__part *parts, size_t count,
                        const struct evzmq__part *local, int result)
{
    if (result == 0) {
        result = evzmq__socket_submit(socket, parts, count, NULL);
    }
    const int error = errno;
    drop_parts(parts, count);
    if (parts != local) {
        evzmq__free(parts);
    }
    errno = error;
    return result;
}

/* Asks for room for parts. What is wrong with them is said when they are filled. */
static int ask_for_parts(struct evzmq_socket *socket, const struct evzmq_bytes *parts, size_t count)
{
    size_t bytes = 0;
    if (count > SIZE_MAX / sizeof(*parts)) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if ((parts[i].data == NULL && parts[i].size > 0) || parts[i].size > SIZE_MAX - bytes) {
            return 0;
        }
        bytes += parts[i].size;
    }
    return ask(socket, parts, bytes);
}

int evzmq_socket_write_parts(struct evzmq_socket *socket, const struct evzmq_bytes *parts,
                             size_t count)
{
    if (parts == NULL || count == 0) {
        errno = EINVAL;
        return -1;
    }
    if (may_refuse(socket, count) && ask_for_parts(socket, parts, count) < 0) {
        return -1;
    }
    struct evzmq__part local[PARTS_LOCAL];
    struct evzmq__part *filled = parts_begin(local, count);
    if (filled == NULL) {
        return -1;
    }
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        if (parts[i].data == NULL && parts[i].size > 0) {
            errno = EINVAL;
            result = -1;
        } else {
            result = evzmq__part_fill(&filled[i], parts[i].data, parts[i].size);
        }
    }
    return parts_finish(socket, filled, count, local, result);
}

int evzmq_socket_write(struct evzmq_socket *socket, const void *data, size_t size)
{
    const struct evzmq_bytes part = {.data = data, .size = size};
    return evzmq_socket_write_parts(socket, &part, 1);
}

int evzmq_socket_write_message(struct evzmq_socket *socket, struct evzmq_message *message)
{
    if (message == NULL || message->is_lent || message->part_count == 0) {
        errno = EINVAL;
        return -1;
    }
    return evzmq__socket_submit(socket, message->parts, message->part_count, message);
}

/* Encodes a value into the memory of a part. */
static int fill_with_value(const struct evzmq_socket *socket, struct evzmq__part *part,
                           const void *value, size_t size)
{
    void *room = NULL;
    if (evzmq__part_reserve(part, size, &room) < 0) {
        return -1;
    }
    return evzmq_codec_encode(socket->codec, value, room, size);
}

int evzmq_socket_write_value(struct evzmq_socket *socket, const void *value)
{
    if (socket != NULL && evzmq__packing_is_on(socket)) {
        return evzmq__packing_write(socket, value);
    }
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    size_t size = 0;
    if (evzmq_codec_encoded_size(socket->codec, value, &size) < 0 ||
        evzmq__socket_ask(socket, size) < 0) {
        return -1;
    }
    struct evzmq__part part;
    evzmq__part_init(&part);
    const int result = fill_with_value(socket, &part, value, size);
    return parts_finish(socket, &part, 1, &part, result);
}

/* Asks for room for a reply. */
static int ask_for_reply(struct evzmq_socket *socket, const struct evzmq_envelope *envelope,
                         size_t before, size_t body_size)
{
    struct evzmq_bytes first = {.size = 0};
    size_t bytes = body_size;
    for (size_t i = 0; i < before; i++) {
        struct evzmq_bytes part;
        part.data = evzmq_envelope_get_part(envelope, i, &part.size);
        first = i == 0 ? part : first;
        bytes += part.size;
    }
    return bytes < body_size ? 0 : ask(socket, &first, bytes);
}

/* The body of a reply: bytes, or a value where `value` is not NULL. */
static int reply(struct evzmq_socket *socket, const struct evzmq_envelope *envelope,
                 const struct evzmq_bytes *body, const void *value)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    const bool is_rep = socket->type->envelope == EVZMQ__ENVELOPE_EMPTY;
    const size_t before = is_rep ? 0 : evzmq_envelope_get_part_count(envelope);
    if (!is_rep && before == 0) {
        errno = EINVAL;
        return -1;
    }
    size_t size = body != NULL ? body->size : 0;
    if (body == NULL && evzmq_codec_encoded_size(socket->codec, value, &size) < 0) {
        return -1;
    }
    if (may_refuse(socket, before + 1) && ask_for_reply(socket, envelope, before, size) < 0) {
        return -1;
    }
    struct evzmq__part local[PARTS_LOCAL];
    struct evzmq__part *parts = parts_begin(local, before + 1);
    if (parts == NULL) {
        return -1;
    }
    int result = 0;
    for (size_t i = 0; i < before && result == 0; i++) {
        size_t part_size = 0;
        const void *data = evzmq_envelope_get_part(envelope, i, &part_size);
        result = evzmq__part_fill(&parts[i], data, part_size);
    }
    if (result == 0) {
        result = body != NULL ? evzmq__part_fill(&parts[before], body->data, size)
                              : fill_with_value(socket, &parts[before], value, size);
    }
    return parts_finish(socket, parts, before + 1, local, result);
}

int evzmq_socket_reply(struct evzmq_socket *socket, const struct evzmq_envelope *envelope,
                       const void *data, size_t size)
{
    if (data == NULL && size > 0) {
        errno = EINVAL;
        return -1;
    }
    const struct evzmq_bytes body = {.data = data, .size = size};
    return reply(socket, envelope, &body, NULL);
}

int evzmq_socket_reply_value(struct evzmq_socket *socket, const struct evzmq_envelope *envelope,
                             const void *value)
{
    return reply(socket, envelope, NULL, value);
}
