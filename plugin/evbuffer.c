/*
 * evbuffer.c (L3): bytes between messages and libevent's evbuffers without copying, where there are
 * enough of them.
 *
 *     part -> evbuffer    the evbuffer refers to the part's bytes and holds a zmq_msg_t of its own
 * on them (libzmq counts references) evbuffer -> part    the part refers to the evbuffer's bytes
 * and holds an evbuffer of its own, into which the original was moved
 */
#include <errno.h>

#include <event2/buffer.h>

#include "base.h"
#include "message.h"

struct holder {
    zmq_msg_t msg;
};

static void holder_free(const void *data, size_t size, void *arg)
{
    (void)data;
    (void)size;
    struct holder *holder = arg;
    (void)zmq_msg_close(&holder->msg);
    evzmq__free(holder);
}

/* Why an evbuffer took nothing: it does not say so itself. */
static int error_of(struct evbuffer *out)
{
    /* Committing nothing fails for a frozen evbuffer only. */
    return evbuffer_commit_space(out, NULL, 0) < 0 ? EBUSY : ENOMEM;
}

static int refer_to_part(struct evzmq__part *part, struct evbuffer *out)
{
    struct holder *holder = evzmq__malloc(sizeof(*holder));
    if (holder == NULL) {
        return -1;
    }
    (void)zmq_msg_init(&holder->msg);
    const void *data = evzmq__part_share(part, &holder->msg);
    if (data != NULL && evbuffer_add_reference(out, data, part->size, holder_free, holder) == 0) {
        return 0;
    }
    holder_free(NULL, 0, holder);
    errno = error_of(out);
    return -1;
}

int evzmq_message_part_to_evbuffer(struct evzmq_message *message, size_t part, struct evbuffer *out)
{
    if (message == NULL || part >= message->part_count || out == NULL) {
        errno = EINVAL;
        return -1;
    }
    struct evzmq__part *source = &message->parts[part];
    if (evzmq__part_shares(source)) {
        return refer_to_part(source, out);
    }
    if (source->size > 0 && evbuffer_add(out, evzmq__part_data(source), source->size) < 0) {
        errno = error_of(out);
        return -1;
    }
    return 0;
}

/* Runs on whatever thread libzmq drops the message. The evbuffer is known to nobody else and has
 * neither lock nor callbacks, so that this touches its own memory only. */
static void evbuffer_release(void *data, void *arg)
{
    (void)data;
    evbuffer_free(arg);
}

static int append_moved(struct evzmq_message *message, struct evbuffer *buffer)
{
    struct evbuffer *moved = evbuffer_new();
    if (moved == NULL) {
        errno = ENOMEM;
        return -1;
    }
    if (evbuffer_add_buffer(moved, buffer) < 0) {
        evbuffer_free(moved);
        errno = EBUSY;
        return -1;
    }
    const size_t size = evbuffer_get_length(moved);
    if (evzmq_message_add_reference(message, evbuffer_pullup(moved, -1), size, evbuffer_release,
                                    moved) < 0) {
        const int error = errno;
        /* In front of nothing: its end may be frozen, as that of a bufferevent's input is; its
         * front is not, or the bytes had not been moved. */
        (void)evbuffer_prepend_buffer(buffer, moved);
        evbuffer_free(moved);
        errno = error;
        return -1;
    }
    return 0;
}

static int append_copied(struct evzmq_message *message, struct evbuffer *buffer, size_t size)
{
    zmq_msg_t msg;
    if (zmq_msg_init_size(&msg, size) < 0) {
        return -1;
    }
    int error = 0;
    if (evbuffer_copyout(buffer, zmq_msg_data(&msg), size) != (ev_ssize_t)size) {
        error = EBUSY;
    } else if (evzmq__message_append(message, &msg) < 0) {
        error = errno;
    }
    if (error != 0) {
        (void)zmq_msg_close(&msg);
        errno = error;
        return -1;
    }
    (void)evbuffer_drain(buffer, size);
    return 0;
}

int evzmq_message_add_evbuffer(struct evzmq_message *message, struct evbuffer *buffer)
{
    if (message == NULL || message->is_lent || buffer == NULL) {
        errno = EINVAL;
        return -1;
    }
    const size_t size = evbuffer_get_length(buffer);
    const bool contiguous = evbuffer_get_contiguous_space(buffer) == size;
    return contiguous && size >= EVZMQ_ZERO_COPY_MIN ? append_moved(message, buffer)
                                                     : append_copied(message, buffer, size);
}
