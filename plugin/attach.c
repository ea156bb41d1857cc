/*
 * attach.c (L3): putting a ZeroMQ socket on an event base and taking it off again.
 */
#include "socket.h"

#include <errno.h>

#include <zmq.h>

#include "base.h"
#include "packing.h"
#include "unpack.h"

/* The ordinary types. Draft types have no ZMQ_FD. */
static const struct evzmq__type types[] = {
    {.zmq_type = ZMQ_PAIR, .reads = true, .writes = true, .decodes = true},
    {.zmq_type = ZMQ_PUB, .writes = true, .always_pollout = true},
    {.zmq_type = ZMQ_SUB, .reads = true, .decodes = true},
    {.zmq_type = ZMQ_REQ, .reads = true, .writes = true, .decodes = true},
    {.zmq_type = ZMQ_REP,
     .reads = true,
     .writes = true,
     .decodes = true,
     .envelope = EVZMQ__ENVELOPE_EMPTY},
    {.zmq_type = ZMQ_DEALER, .reads = true, .writes = true, .decodes = true},
    {.zmq_type = ZMQ_ROUTER,
     .reads = true,
     .writes = true,
     .decodes = true,
     .routes = true,
     .always_pollout = true,
     .parts_min = 2,
     .envelope = EVZMQ__ENVELOPE_DELIMITED},
    {.zmq_type = ZMQ_PULL, .reads = true, .decodes = true},
    {.zmq_type = ZMQ_PUSH, .writes = true},
    {.zmq_type = ZMQ_XPUB, .reads = true, .writes = true, .always_pollout = true},
    {.zmq_type = ZMQ_XSUB, .reads = true, .writes = true, .decodes = true},
    {.zmq_type = ZMQ_STREAM,
     .reads = true,
     .writes = true,
     .decodes = true,
     .routes = true,
     .always_pollout = true,
     .parts_min = 2,
     .parts_max = 2,
     .envelope = EVZMQ__ENVELOPE_ID},
};

/* Finds out what a ZeroMQ socket is. NULL with errno. */
static const struct evzmq__type *type_of(void *zmq_socket)
{
    int number = -1;
    size_t size = sizeof(number);
    if (zmq_getsockopt(zmq_socket, ZMQ_TYPE, &number, &size) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (types[i].zmq_type == number) {
            return &types[i];
        }
    }
    errno = ENOTSUP;
    return NULL;
}

/* A ROUTER drops messages to unknown and to full peers without a word unless it is told to say so.
 */
static int make_router_speak(const struct evzmq_socket *socket)
{
    const int on = 1;
    if (socket->type->zmq_type != ZMQ_ROUTER) {
        return 0;
    }
    return zmq_setsockopt(socket->zmq_socket, ZMQ_ROUTER_MANDATORY, &on, sizeof(on));
}

/* Where this library closes the ZeroMQ socket, terminating its context must not hang for ever. Done
 * when attaching, because a context that is terminated takes no options any more, and again before
 * the close, in case the option was set meanwhile. */
static void limit_linger(const struct evzmq_socket *socket)
{
    int linger = 0;
    size_t size = sizeof(linger);
    if (zmq_getsockopt(socket->zmq_socket, ZMQ_LINGER, &linger, &size) == 0 && linger < 0) {
        linger = EVZMQ_LINGER_DEFAULT_MS;
        (void)zmq_setsockopt(socket->zmq_socket, ZMQ_LINGER, &linger, sizeof(linger));
    }
}

static int watch(struct evzmq_socket *socket)
{
    int fd = -1;
    size_t size = sizeof(fd);
    if (zmq_getsockopt(socket->zmq_socket, ZMQ_FD, &fd, &size) < 0) {
        errno = errno == EINVAL ? ENOTSUP : errno;
        return -1;
    }
    socket->source = evzmq__source_new(socket->base->event_base, fd, evzmq__socket_service, socket);
    return socket->source == NULL ? -1 : 0;
}

static void set_defaults(struct evzmq_socket *socket)
{
    const struct evzmq__budget budget = {
        .messages = EVZMQ__BUDGET_MESSAGES,
        .bytes = EVZMQ__BUDGET_BYTES,
        .usec = EVZMQ__BUDGET_USEC,
    };
    socket->references = 1;
    socket->pause = EVZMQ__PAUSE_USER | EVZMQ__PAUSE_NO_CALLBACK;
    socket->write_enabled = true;
    socket->codec = evzmq_codec_raw();
    socket->mode = EVZMQ_RECEIVE_AUTO;
    socket->read_budget = budget;
    socket->default_read_messages = true;
    socket->write_budget = budget;
    socket->queue.messages_max = EVZMQ_OUTPUT_MESSAGES_DEFAULT;
    socket->queue.bytes_max = EVZMQ_OUTPUT_BYTES_DEFAULT;
}

struct evzmq_socket *evzmq_socket_new(struct event_base *base, void *zmq_socket, unsigned options)
{
    if (base == NULL || zmq_socket == NULL || (options & ~(unsigned)EVZMQ_OPT_CLOSE_ON_FREE) != 0) {
        errno = EINVAL;
        return NULL;
    }
    struct evzmq_socket *socket = evzmq__calloc(1, sizeof(*socket));
    if (socket == NULL) {
        return NULL;
    }
    set_defaults(socket);
    socket->zmq_socket = zmq_socket;
    socket->close_on_free = (options & EVZMQ_OPT_CLOSE_ON_FREE) != 0;
    socket->base = evzmq__base_acquire(base);
    if (socket->base == NULL) {
        goto fail_socket;
    }
    socket->type = type_of(zmq_socket);
    if (socket->type == NULL || evzmq__attach(&socket->attachment, zmq_socket) < 0) {
        goto fail_base;
    }
    if (make_router_speak(socket) < 0 || watch(socket) < 0) {
        goto fail_attachment;
    }
    evzmq__socket_choose_way(socket);
    socket->base->sockets++;
    if (socket->close_on_free) {
        limit_linger(socket);
    }
    /* Whatever arrived before may have used up its edge. */
    evzmq__socket_attend(socket);
    return socket;

fail_attachment:;
    const int error = errno;
    evzmq__detach(&socket->attachment);
    errno = error;
fail_base:
    evzmq__base_release(socket->base);
fail_socket:
    evzmq__free(socket);
    return NULL;
}

/* Leaves no half-received message for whoever reads the ZeroMQ socket next. */
static void finish_partial(struct evzmq_socket *socket)
{
    enum { CALLS_MAX = 65536 };
    struct evzmq_message *message = socket->partial;
    if (message == NULL) {
        return;
    }
    const struct evzmq__message_limits drop_all = {.bytes = 0, .parts = 1};
    for (int calls = 0; calls < CALLS_MAX && message->is_partial; calls++) {
        if (evzmq__message_recv(message, socket->zmq_socket, &drop_all) == EVZMQ__RECV_FAILED &&
            errno != EINTR) {
            break;
        }
    }
    evzmq__message_destroy(message);
    socket->partial = NULL;
}

/* Nor a half-sent one, to which the next writer would add. */
static void finish_sending(struct evzmq_socket *socket)
{
    enum { CALLS_MAX = 100 };
    struct evzmq_message *message = (struct evzmq_message *)evzmq__queue_peek(&socket->queue);
    bool restarted = false;
    for (int calls = 0; calls < CALLS_MAX && message != NULL && message->parts_sent > 0; calls++) {
        (void)evzmq__parts_send(message->parts, message->part_count, socket->zmq_socket,
                                &message->parts_sent, &restarted);
    }
}

static void close_zmq_socket(const struct evzmq_socket *socket)
{
    if (socket->terminal_error == ENOTSOCK) {
        return;
    }
    limit_linger(socket);
    evzmq__notify_close(socket->zmq_socket);
    (void)zmq_close(socket->zmq_socket);
}

static void discard_queue(struct evzmq_socket *socket)
{
    struct evzmq__queue_entry *entry;
    while ((entry = evzmq__queue_clear(&socket->queue)) != NULL) {
        evzmq__message_destroy((struct evzmq_message *)entry);
    }
}

void evzmq_socket_free(struct evzmq_socket *socket)
{
    if (socket == NULL || evzmq__base_is_foreign(socket->base)) {
        return;
    }
    const bool stale = evzmq__base_is_stale(socket->base);
    socket->pause |= EVZMQ__PAUSE_DYING;
    evzmq__packing_free(socket, stale);
    evzmq__unpacking_close(socket);
    evzmq__timeouts_free(socket);
    evzmq__shutdown_free(socket);
    evzmq__feeders_close(socket, false);
    if (stale) {
        /* A forked child: the kernel's registration and the ZeroMQ socket are the parent's. */
        evzmq__source_abandon(socket->source, false, &socket->base->abandoned);
        evzmq__message_destroy(socket->partial);
    } else {
        evzmq__source_free(socket->source);
        finish_partial(socket);
        finish_sending(socket);
    }
    socket->source = NULL;
    evzmq__detach(&socket->attachment);
    socket->base->sockets--;
    discard_queue(socket);
    if (socket->close_on_free && !stale) {
        close_zmq_socket(socket);
    }
    evzmq__socket_unref(socket);
}
