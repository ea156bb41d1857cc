/*
 * receive.c (L3): receiving without callbacks. These calls read ZeroMQ's own queue, so that
 * back-pressure stays ZeroMQ's, and give messages that the caller owns.
 */
#include "socket.h"

#include <errno.h>

#include "base.h"
#include "unpack.h"

static int check_receiving(const struct evzmq_socket *socket)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (!socket->type->reads) {
        errno = ENOTSUP;
        return -1;
    }
    if ((socket->pause & EVZMQ__PAUSE_SHUTDOWN) != 0) {
        errno = ESHUTDOWN;
        return -1;
    }
    if ((socket->pause & EVZMQ__PAUSE_USER) == 0) {
        errno = EBUSY;
        return -1;
    }
    return 0;
}

void evzmq__socket_finish_message(struct evzmq_socket *socket, struct evzmq_message *message)
{
    evzmq__socket_set_envelope(socket, message);
    message->is_lent = false;
    if (!socket->type->decodes || evzmq_message_decode(message, socket->codec, NULL) == 0) {
        return;
    }
    if (!message->has_error) {
        /* There was no memory even to begin: the same reason, to be read in the same place. */
        message->decode_error = (struct evzmq_decode_error){.kind = EVZMQ_DECODE_NOMEM};
        message->has_error = true;
    }
    socket->counters.decode_errors[message->decode_error.kind]++;
}

int evzmq__socket_receive_whole(struct evzmq_socket *socket, struct evzmq_message *message)
{
    /* Each round drops a message or 256 parts of one; the bound keeps a peer that sends nothing
     * else from holding up the caller. */
    enum { ROUNDS_MAX = 1024 };
    for (int rounds = 0; rounds < ROUNDS_MAX; rounds++) {
        switch (evzmq__message_recv(message, socket->zmq_socket, &socket->limits)) {
        case EVZMQ__RECV_WHOLE:
            socket->counters.messages_in++;
            socket->counters.bytes_in += message->size;
            socket->reply_due = socket->type->envelope == EVZMQ__ENVELOPE_EMPTY;
            return 0;
        case EVZMQ__RECV_SKIPPED:
            socket->counters.messages_in++;
            socket->counters.bytes_in += message->skipped_bytes;
            socket->counters.oversize_dropped++;
            socket->counters.oversize_bytes += message->skipped_bytes;
            socket->reply_due = socket->type->envelope == EVZMQ__ENVELOPE_EMPTY;
            if (socket->reply_due) {
                (void)evzmq_socket_write(socket, NULL, 0);
            }
            break;
        case EVZMQ__RECV_PARTIAL:
            break;
        default:
            return -1;
        }
    }
    /* Not libzmq's EAGAIN: more is there, for which no wakeup will come. */
    evzmq__socket_attend(socket);
    errno = EAGAIN;
    return -1;
}

void evzmq__socket_receive_failed(struct evzmq_socket *socket, int error)
{
    if (error == EAGAIN) {
        socket->counters.receive_eagains++;
    }
    if (error == EAGAIN && socket->queue.messages == 0) {
        return;
    }
    evzmq__socket_attend(socket);
}

int evzmq_socket_try_recv(struct evzmq_socket *socket, struct evzmq_message **out)
{
    if (out == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (check_receiving(socket) < 0) {
        return -1;
    }
    if (evzmq__unpacking_is_active(socket)) {
        return evzmq__unpacking_try_recv(socket, out);
    }
    struct evzmq_message *message = socket->partial;
    socket->partial = NULL;
    if (message == NULL) {
        message = evzmq__message_create();
        if (message == NULL) {
            return -1;
        }
        message->is_lent = true; /* until it is whole */
    }
    if (evzmq__socket_receive_whole(socket, message) < 0) {
        const int error = errno;
        if (message->is_partial) {
            socket->partial = message;
        } else {
            evzmq__message_destroy(message);
        }
        evzmq__socket_receive_failed(socket, error);
        errno = error;
        return -1;
    }
    /* Receiving may have used up the edge of output. */
    if (socket->queue.messages > 0) {
        evzmq__socket_attend(socket);
    }
    evzmq__socket_finish_message(socket, message);
    *out = message;
    return 0;
}

int evzmq_socket_recv_many(struct evzmq_socket *socket, struct evzmq_message **out, int max)
{
    if (out == NULL || max < 0) {
        errno = EINVAL;
        return -1;
    }
    if (check_receiving(socket) < 0) {
        return -1;
    }
    int count = 0;
    while (count < max) {
        if (evzmq_socket_try_recv(socket, &out[count]) < 0) {
            return count > 0 || errno == EAGAIN ? count : -1;
        }
        count++;
    }
    return count;
}

/* The end of the wait of one recv. */
struct wait {
    bool timed_out;
};

static void on_wait_timeout(void *arg)
{
    struct wait *wait = arg;
    wait->timed_out = true;
}

/* Runs the loop until there is a message or a reason to give up. */
static int wait_for_message(struct evzmq_socket *socket, const struct wait *wait,
                            struct evzmq_message **out)
{
    struct event_base *event_base = socket->base->event_base;
    for (;;) {
        if ((socket->pause & EVZMQ__PAUSE_DYING) != 0) {
            errno = ECANCELED;
            return -1;
        }
        if (evzmq_socket_try_recv(socket, out) == 0) {
            return 0;
        }
        if (errno != EAGAIN) {
            return -1;
        }
        if (wait->timed_out) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (evzmq__loop_turn(event_base) < 0) {
            errno = EDEADLK;
            return -1;
        }
        if (evzmq__loop_was_ended(event_base)) {
            errno = EINTR;
            return -1;
        }
    }
}

int evzmq_socket_recv(struct evzmq_socket *socket, const struct timeval *timeout,
                      struct evzmq_message **out)
{
    if (out == NULL || !evzmq__is_time(timeout)) {
        errno = EINVAL;
        return -1;
    }
    if (check_receiving(socket) < 0) {
        return -1;
    }
    if (socket->base->depth > 0) {
        errno = EDEADLK;
        return -1;
    }
    struct wait wait = {.timed_out = false};
    struct evzmq__timer *timer = NULL;
    if (timeout != NULL) {
        timer = evzmq__timer_new(socket->base->event_base, on_wait_timeout, &wait);
        if (timer == NULL || evzmq__timer_start(timer, timeout) < 0) {
            evzmq__timer_free(timer);
            errno = ENOMEM;
            return -1;
        }
    }
    evzmq__socket_ref(socket);
    const int result = wait_for_message(socket, &wait, out);
    const int error = errno;
    evzmq__timer_free(timer);
    evzmq__socket_unref(socket);
    errno = error;
    return result;
}
