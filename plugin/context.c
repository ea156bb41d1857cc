/*
 * context.c (L2): the life of a context and of its sockets. Endpoints are endpoint.c's.
 *
 * A context learns of the end of a socket in one way only: whoever closes it notifies those who
 * watch for that (registry.h). That is evzmq_context_close_socket() and the free of an adapter that
 * closes; so evzmq_context_close() knows that nothing is left on which zmq_ctx_term(3) could wait
 * for ever.
 */
#include "context.h"

#include <errno.h>
#include <unistd.h>

#include <zmq.h>

#include "base.h"
#include "descriptors.h"
#include "ipcpath.h"

/* The descriptors that libzmq opens for a socket, and with the first one for each of its threads
 * and for the reaper. */
enum { DESCRIPTORS_SOCKET = 1, DESCRIPTORS_THREAD = 2 };

bool evzmq__context_is_stale(const struct evzmq_context *context)
{
    return context->generation != evzmq__generation();
}

int evzmq__context_check(struct evzmq_context *context)
{
    if (context == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (evzmq__context_is_stale(context)) {
        return evzmq__errortext_set(&context->error, ECHILD, "the context is the parent process's");
    }
    if (context->is_closed) {
        return evzmq__errortext_set(&context->error, ESHUTDOWN, "the context is closed");
    }
    return 0;
}

static const struct evzmq_context_limits default_limits = {
    .size = sizeof(default_limits),
    .sockets_max = EVZMQ_CONTEXT_SOCKETS_MAX_DEFAULT,
    .linger_ms = EVZMQ_CONTEXT_LINGER_MS_DEFAULT,
    .message_bytes_max = EVZMQ_CONTEXT_MESSAGE_BYTES_MAX_DEFAULT,
    .send_high_water_mark = EVZMQ_CONTEXT_HIGH_WATER_MARK_DEFAULT,
    .receive_high_water_mark = EVZMQ_CONTEXT_HIGH_WATER_MARK_DEFAULT,
    .handshake_ms = EVZMQ_CONTEXT_HANDSHAKE_MS_DEFAULT,
    .heartbeat_ms = EVZMQ_CONTEXT_HEARTBEAT_MS_DEFAULT,
    .heartbeat_timeout_ms = EVZMQ_CONTEXT_HEARTBEAT_TIMEOUT_MS_DEFAULT,
    .backlog = EVZMQ_CONTEXT_BACKLOG_DEFAULT,
    .peers = EVZMQ_CONTEXT_PEERS_SAME_USER,
};

static struct evzmq_context *make(void *zmq_context, const char *socket_dir)
{
    struct evzmq_context *context = evzmq__calloc(1, sizeof(*context));
    if (context == NULL) {
        return NULL;
    }
    if (socket_dir != NULL) {
        context->socket_dir = evzmq__copy_text(socket_dir);
        if (context->socket_dir == NULL) {
            evzmq__free(context);
            return NULL;
        }
    }
    context->zmq_context = zmq_context;
    context->generation = evzmq__generation();
    context->limits = default_limits;
    context->directory.descriptor = -1;
    return context;
}

struct evzmq_context *evzmq_context_new(int io_threads, const char *socket_dir)
{
    if (io_threads < 0 || (socket_dir != NULL && socket_dir[0] == '\0')) {
        errno = EINVAL;
        return NULL;
    }
    if (evzmq__fork_watch() < 0) {
        return NULL;
    }
    void *const zmq_context = zmq_ctx_new();
    if (zmq_context == NULL) {
        return NULL;
    }
    struct evzmq_context *context = NULL;
    if (zmq_ctx_set(zmq_context, ZMQ_IO_THREADS, io_threads == 0 ? 1 : io_threads) == 0 &&
        zmq_ctx_set(zmq_context, ZMQ_MAX_SOCKETS, default_limits.sockets_max) == 0) {
        context = make(zmq_context, socket_dir);
    }
    if (context == NULL) {
        const int error = errno;
        (void)zmq_ctx_term(zmq_context);
        errno = error;
        return NULL;
    }
    context->owns_zmq_context = true;
    return context;
}

struct evzmq_context *evzmq_context_new_with(void *zmq_context, const char *socket_dir)
{
    if (zmq_context == NULL || (socket_dir != NULL && socket_dir[0] == '\0') ||
        zmq_ctx_get(zmq_context, ZMQ_IO_THREADS) < 0) {
        errno = EINVAL;
        return NULL;
    }
    return evzmq__fork_watch() < 0 ? NULL : make(zmq_context, socket_dir);
}

/* The value of a field: 0 stands for its default, EVZMQ_CONTEXT_NONE for what libzmq calls none.
 * Sets is_bad where it is neither nor a number from 1. */
static int64_t resolve(int64_t value, int64_t by_default, int64_t none, bool *is_bad)
{
    if (value == 0) {
        return by_default;
    }
    if (value == EVZMQ_CONTEXT_NONE) {
        return none;
    }
    *is_bad = *is_bad || value < 0;
    return value;
}

/* The largest ZMQ_HEARTBEAT_TTL: libzmq sends it in tenths of a second and in 16 bits. */
enum { HEARTBEAT_TTL_MAX = 6553500 };

static int resolve_limits(const struct evzmq_context_limits *in, struct evzmq_context_limits *out)
{
    const struct evzmq_context_limits *const d = &default_limits;
    bool is_bad =
        in->sockets_max < 0 || in->backlog < 0 || in->heartbeat_timeout_ms < 0 ||
        (in->peers != EVZMQ_CONTEXT_PEERS_SAME_USER && in->peers != EVZMQ_CONTEXT_PEERS_ANY);
    out->size = sizeof(*out);
    out->sockets_max = (int)resolve(in->sockets_max, d->sockets_max, 0, &is_bad);
    out->linger_ms = (int)resolve(in->linger_ms, d->linger_ms, 0, &is_bad);
    out->message_bytes_max = resolve(in->message_bytes_max, d->message_bytes_max, -1, &is_bad);
    out->send_high_water_mark =
        (int)resolve(in->send_high_water_mark, d->send_high_water_mark, 0, &is_bad);
    out->receive_high_water_mark =
        (int)resolve(in->receive_high_water_mark, d->receive_high_water_mark, 0, &is_bad);
    out->handshake_ms = (int)resolve(in->handshake_ms, d->handshake_ms, 0, &is_bad);
    out->heartbeat_ms = (int)resolve(in->heartbeat_ms, d->heartbeat_ms, 0, &is_bad);
    out->heartbeat_timeout_ms =
        (int)resolve(in->heartbeat_timeout_ms, d->heartbeat_timeout_ms, 0, &is_bad);
    out->backlog = (int)resolve(in->backlog, d->backlog, 0, &is_bad);
    out->peers = in->peers;
    return is_bad || out->heartbeat_timeout_ms > HEARTBEAT_TTL_MAX ||
                   out->heartbeat_ms >= out->heartbeat_timeout_ms
               ? -1
               : 0;
}

int evzmq_context_set_limits(struct evzmq_context *context,
                             const struct evzmq_context_limits *limits)
{
    struct evzmq_context_limits resolved = default_limits;
    if (evzmq__context_check(context) < 0) {
        return -1;
    }
    if (limits != NULL &&
        (limits->size != sizeof(*limits) || resolve_limits(limits, &resolved) < 0)) {
        return evzmq__errortext_set(&context->error, EINVAL, "a limit is out of range");
    }
    if (resolved.sockets_max != context->limits.sockets_max) {
        if (!context->owns_zmq_context) {
            return evzmq__errortext_set(&context->error, ENOTSUP,
                                        "the maximum of sockets is its ZeroMQ context's owner's");
        }
        if (context->has_made_socket) {
            return evzmq__errortext_set(&context->error, EBUSY,
                                        "the maximum of sockets is fixed by the first socket");
        }
        if (zmq_ctx_set(context->zmq_context, ZMQ_MAX_SOCKETS, resolved.sockets_max) < 0) {
            return evzmq__errortext_set(&context->error, EINVAL, "too many sockets: %d",
                                        resolved.sockets_max);
        }
    }
    context->limits = resolved;
    context->beats = limits != NULL && limits->heartbeat_ms > 0;
    return 0;
}

static int set_option(void *zmq_socket, int option, int value)
{
    return zmq_setsockopt(zmq_socket, option, &value, sizeof(value));
}

/* Has libzmq refuse the ipc connections of other users. The system tells who connects, so this
 * holds before a socket file has its mode, and for abstract names, which have none. */
static int filter_peers(void *zmq_socket)
{
    const uid_t user = geteuid();
    return zmq_setsockopt(zmq_socket, ZMQ_IPC_FILTER_UID, &user, sizeof(user));
}

/* The largest TCP_KEEPCNT of Linux, whose refusal of more libzmq answers with abort(). */
enum { PROBES_MAX = 127 };

/* Has the system ask whether the other side of an idle tcp connection is still there. */
static int keep_alive(const struct evzmq_context_limits *limits, void *zmq_socket)
{
    const int interval = (limits->heartbeat_ms + 999) / 1000;
    const int spans = limits->heartbeat_timeout_ms / (1000 * interval);
    const int probes = spans > PROBES_MAX ? PROBES_MAX : spans - 1; /* The first span is idle. */
    if (set_option(zmq_socket, ZMQ_TCP_KEEPALIVE, 1) < 0 ||
        set_option(zmq_socket, ZMQ_TCP_KEEPALIVE_IDLE, interval) < 0 ||
        set_option(zmq_socket, ZMQ_TCP_KEEPALIVE_INTVL, interval) < 0) {
        return -1;
    }
    return set_option(zmq_socket, ZMQ_TCP_KEEPALIVE_CNT, probes > 1 ? probes : 1);
}

/* Before the socket binds or connects: most options count for later endpoints only. */
static int set_options(const struct evzmq_context_limits *limits, void *zmq_socket, int type)
{
    const int64_t bytes = limits->message_bytes_max;
    if (zmq_setsockopt(zmq_socket, ZMQ_MAXMSGSIZE, &bytes, sizeof(bytes)) < 0 ||
        set_option(zmq_socket, ZMQ_LINGER, limits->linger_ms) < 0 ||
        set_option(zmq_socket, ZMQ_SNDHWM, limits->send_high_water_mark) < 0 ||
        set_option(zmq_socket, ZMQ_RCVHWM, limits->receive_high_water_mark) < 0 ||
        set_option(zmq_socket, ZMQ_HANDSHAKE_IVL, limits->handshake_ms) < 0 ||
        set_option(zmq_socket, ZMQ_HEARTBEAT_TIMEOUT, limits->heartbeat_timeout_ms) < 0 ||
        set_option(zmq_socket, ZMQ_HEARTBEAT_TTL, limits->heartbeat_timeout_ms) < 0 ||
        set_option(zmq_socket, ZMQ_BACKLOG, limits->backlog) < 0 ||
        (limits->heartbeat_ms > 0 && keep_alive(limits, zmq_socket) < 0) ||
        (limits->peers == EVZMQ_CONTEXT_PEERS_SAME_USER && filter_peers(zmq_socket) < 0)) {
        return -1;
    }
    return type == ZMQ_ROUTER ? set_option(zmq_socket, ZMQ_ROUTER_MANDATORY, 1) : 0;
}

static int check_descriptors_for_socket(struct evzmq_context *context)
{
    size_t needed = DESCRIPTORS_SOCKET;
    if (!context->has_made_socket) {
        const int threads = zmq_ctx_get(context->zmq_context, ZMQ_IO_THREADS);
        needed += DESCRIPTORS_THREAD * (1 + (threads > 0 ? (size_t)threads : 0));
    }
    return evzmq__descriptors_check(needed, &context->error);
}

/* Forgets a socket. In a forked child nothing but memory and descriptors is touched. */
static void forget(struct evzmq__owned *owned, bool is_stale)
{
    struct evzmq__owned **link = &owned->context->sockets;
    while (*link != owned) {
        link = &(*link)->next;
    }
    *link = owned->next;
    while (owned->paths != NULL) {
        struct evzmq__ipcpath *const path = owned->paths;
        owned->paths = path->next;
        if (is_stale) {
            evzmq__ipcpath_abandon(path);
        } else {
            evzmq__ipcpath_release(path);
        }
        evzmq__free(path);
    }
    evzmq__unwatch_close(&owned->close_watch);
    evzmq__free(owned->endpoint);
    evzmq__free(owned);
}

/* A socket is about to be closed. The files go first, so that nobody connects to what ends. */
static void on_close(struct evzmq__close_watch *watch)
{
    forget((struct evzmq__owned *)((char *)watch - offsetof(struct evzmq__owned, close_watch)),
           false);
}

void *evzmq_context_socket(struct evzmq_context *context, int type)
{
    if (evzmq__context_check(context) < 0 || check_descriptors_for_socket(context) < 0) {
        return NULL;
    }
    struct evzmq__owned *owned = evzmq__calloc(1, sizeof(*owned));
    if (owned == NULL) {
        (void)evzmq__errortext_set(&context->error, ENOMEM, "out of memory");
        return NULL;
    }
    void *const socket = zmq_socket(context->zmq_context, type);
    context->has_made_socket = context->has_made_socket || socket != NULL;
    if (socket == NULL || set_options(&context->limits, socket, type) < 0 ||
        evzmq__watch_close(&owned->close_watch, socket) < 0) {
        const int error = errno;
        if (socket != NULL) {
            (void)zmq_close(socket);
        }
        evzmq__free(owned);
        (void)evzmq__errortext_set(&context->error, error, "no socket of type %d: %s", type,
                                   evzmq_strerror(error));
        return NULL;
    }
    owned->zmq_socket = socket;
    owned->close_watch.callback = on_close;
    owned->context = context;
    owned->heartbeat_ms = context->beats ? context->limits.heartbeat_ms : 0;
    owned->is_shared = context->limits.peers == EVZMQ_CONTEXT_PEERS_ANY;
    owned->next = context->sockets;
    context->sockets = owned;
    return socket;
}

struct evzmq__owned *evzmq__context_find(const struct evzmq_context *context,
                                         const void *zmq_socket)
{
    struct evzmq__owned *owned = context->sockets;
    while (owned != NULL && owned->zmq_socket != zmq_socket) {
        owned = owned->next;
    }
    if (owned == NULL) {
        errno = EINVAL;
    }
    return owned;
}

int evzmq_context_close_socket(struct evzmq_context *context, void *zmq_socket)
{
    if (evzmq__context_check(context) < 0) {
        return -1;
    }
    if (evzmq__context_find(context, zmq_socket) == NULL) {
        return evzmq__errortext_set(&context->error, EINVAL, "not a socket of this context");
    }
    if (evzmq__is_attached(zmq_socket)) {
        return evzmq__errortext_set(&context->error, EBUSY,
                                    "the socket is attached to an event base");
    }
    int linger = 0;
    size_t size = sizeof(linger);
    if (zmq_getsockopt(zmq_socket, ZMQ_LINGER, &linger, &size) == 0 && linger < 0) {
        (void)set_option(zmq_socket, ZMQ_LINGER, context->limits.linger_ms);
    }
    evzmq__notify_close(zmq_socket);
    (void)zmq_close(zmq_socket);
    return 0;
}

const char *evzmq_context_get_directory(struct evzmq_context *context)
{
    if (evzmq__context_check(context) < 0 ||
        (context->directory.descriptor < 0 &&
         evzmq__ipcdir_make(&context->directory, context->socket_dir, &context->error) < 0)) {
        return NULL;
    }
    return context->directory.path;
}

int evzmq_context_check_descriptors(struct evzmq_context *context, size_t needed)
{
    return evzmq__context_check(context) < 0 ? -1
                                             : evzmq__descriptors_check(needed, &context->error);
}

const char *evzmq_context_get_error(const struct evzmq_context *context)
{
    return context == NULL ? "" : context->error.bytes;
}

int evzmq_context_close(struct evzmq_context *context)
{
    if (context != NULL && context->is_closed && !evzmq__context_is_stale(context)) {
        return 0;
    }
    if (evzmq__context_check(context) < 0) {
        return -1;
    }
    if (context->sockets != NULL) {
        return evzmq__errortext_set(&context->error, EBUSY,
                                    "sockets of the context are not closed yet");
    }
    if (context->owns_zmq_context) {
        /* It waits for what lingers, and a signal ends the wait early (zmq_ctx_term(3)). */
        while (zmq_ctx_term(context->zmq_context) < 0 && errno == EINTR) {
        }
    }
    evzmq__ipcdir_remove(&context->directory);
    context->is_closed = true;
    return 0;
}

int evzmq_context_free(struct evzmq_context *context)
{
    if (context == NULL) {
        return 0;
    }
    if (evzmq__context_is_stale(context)) {
        while (context->sockets != NULL) {
            forget(context->sockets, true);
        }
        evzmq__ipcdir_abandon(&context->directory);
    } else if (evzmq_context_close(context) < 0) {
        return -1;
    }
    evzmq__free(context->socket_dir);
    evzmq__free(context);
    return 0;
}
