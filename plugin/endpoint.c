/*
 * endpoint.c (L2): binding and connecting the sockets of a context.
 */
#include "context.h"

#include <errno.h>
#include <string.h>

#include <zmq.h>

#include "base.h"
#include "descriptors.h"
#include "ipcpath.h"
#include "message.h"

#define IPC "ipc://"
#define TCP "tcp://"

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static int fail_endpoint(struct evzmq_context *context, const char *what, const char *endpoint)
{
    const int error = errno;
    return evzmq__errortext_set(&context->error, error, "%s: %s: %s", what, evzmq_strerror(error),
                                endpoint);
}

/* What bind and connect begin with. */
static struct evzmq__owned *check(struct evzmq_context *context, const void *zmq_socket,
                                  const char *endpoint)
{
    if (evzmq__context_check(context) < 0) {
        return NULL;
    }
    if (endpoint == NULL || zmq_socket == NULL) {
        (void)evzmq__errortext_set(&context->error, EINVAL, "no endpoint or no socket");
        return NULL;
    }
    struct evzmq__owned *const owned = evzmq__context_find(context, zmq_socket);
    if (owned == NULL) {
        (void)evzmq__errortext_set(&context->error, EINVAL, "not a socket of this context");
    }
    return owned;
}

int evzmq__endpoint_call(int (*function)(void *, const char *), void *zmq_socket,
                         const char *endpoint)
{
    int result = -1;
    int tries = 0;
    do {
        result = function(zmq_socket, endpoint);
    } while (result < 0 && errno == EINTR && ++tries < EVZMQ__EINTR_RETRIES);
    return result;
}

static int get_heartbeat(void *zmq_socket, int *out)
{
    size_t size = sizeof(*out);
    return zmq_getsockopt(zmq_socket, ZMQ_HEARTBEAT_IVL, out, &size);
}

/* Calls zmq_bind(3) or zmq_connect(3). An endpoint keeps the options its socket had when it was
 * made, so heartbeats are switched on for tcp around the call; a program's own stay. */
static int call_libzmq(const struct evzmq__owned *owned, const char *endpoint,
                       int (*function)(void *, const char *))
{
    void *const zmq_socket = owned->zmq_socket;
    const int interval = owned->heartbeat_ms;
    int before = 0;
    const bool beats = begins_with(endpoint, TCP) && interval > 0 &&
                       get_heartbeat(zmq_socket, &before) == 0 && before == 0;
    if (beats && zmq_setsockopt(zmq_socket, ZMQ_HEARTBEAT_IVL, &interval, sizeof(interval)) < 0) {
        return -1;
    }
    const int result = evzmq__endpoint_call(function, zmq_socket, endpoint);
    if (beats) {
        const int error = errno;
        (void)zmq_setsockopt(zmq_socket, ZMQ_HEARTBEAT_IVL, &before, sizeof(before));
        errno = error;
    }
    return result;
}

static void set_endpoint(struct evzmq__owned *owned, char *copy)
{
    evzmq__free(owned->endpoint);
    owned->endpoint = copy;
}

/* Where the socket was bound last. Without it what was bound cannot be unbound, so a signal is not
 * let win. Returns 0, or -1 with errno. */
static int get_last_endpoint(void *zmq_socket, char *out, size_t room)
{
    int result = -1;
    int tries = 0;
    do {
        size_t size = room;
        result = zmq_getsockopt(zmq_socket, ZMQ_LAST_ENDPOINT, out, &size);
    } while (result < 0 && errno == EINTR && ++tries < EVZMQ__EINTR_RETRIES);
    return result;
}

/* An endpoint of any transport but ipc. */
static int bind_plain(struct evzmq_context *context, struct evzmq__owned *owned,
                      const char *endpoint)
{
    void *const zmq_socket = owned->zmq_socket;
    char actual[256];
    if (call_libzmq(owned, endpoint, zmq_bind) < 0) {
        return fail_endpoint(context, "cannot bind", endpoint);
    }
    const bool is_known = get_last_endpoint(zmq_socket, actual, sizeof(actual)) == 0;
    char *const copy = is_known ? evzmq__copy_text(actual) : NULL;
    if (copy == NULL) {
        const int error = errno;
        (void)evzmq__endpoint_call(zmq_unbind, zmq_socket, is_known ? actual : endpoint);
        errno = error;
        return fail_endpoint(context, "cannot bind", endpoint);
    }
    set_endpoint(owned, copy);
    return 0;
}

/* Chooses or claims the path, which is made the endpoint's. */
static int take_path(struct evzmq_context *context, struct evzmq__ipcpath *claim, const char *path,
                     bool is_shared)
{
    claim->lock = -1;
    if (strcmp(path, "*") == 0) {
        return evzmq_context_get_directory(context) == NULL
                   ? -1
                   : evzmq__ipcdir_name(&context->directory, claim->path, &context->error);
    }
    memcpy(claim->path, path, strlen(path) + 1);
    if (path[0] == '\0') {
        return evzmq__errortext_set(&context->error, EINVAL, "an ipc endpoint without a path");
    }
    return path[0] == '@' ? 0 : evzmq__ipcpath_claim(claim, is_shared, &context->error);
}

static int bind_ipc(struct evzmq_context *context, struct evzmq__owned *owned, const char *path)
{
    char endpoint[sizeof(IPC) + EVZMQ_CONTEXT_IPC_PATH_MAX] = IPC;
    if (evzmq__ipcpath_check(path, &context->error) < 0) {
        return -1;
    }
    struct evzmq__ipcpath *const claim = evzmq__calloc(1, sizeof(*claim));
    if (claim == NULL) {
        return evzmq__errortext_set(&context->error, ENOMEM, "out of memory");
    }
    if (take_path(context, claim, path, owned->is_shared) < 0) {
        evzmq__free(claim);
        return -1;
    }
    memcpy(endpoint + sizeof(IPC) - 1, claim->path, strlen(claim->path) + 1);
    char *const copy = evzmq__copy_text(endpoint);
    if (copy == NULL || evzmq__endpoint_call(zmq_bind, owned->zmq_socket, endpoint) < 0) {
        const int error = errno;
        /* libzmq leaves the file when listening fails. In the private directory it is ours. */
        if (claim->lock < 0 && claim->path[0] != '@') {
            evzmq__ipcpath_bound(claim, owned->is_shared);
        }
        evzmq__ipcpath_release(claim);
        evzmq__free(claim);
        evzmq__free(copy);
        errno = error;
        return fail_endpoint(context, "cannot bind", endpoint);
    }
    if (claim->path[0] != '@') {
        evzmq__ipcpath_bound(claim, owned->is_shared);
    }
    claim->next = owned->paths;
    owned->paths = claim;
    set_endpoint(owned, copy);
    return 0;
}

int evzmq_context_bind(struct evzmq_context *context, void *zmq_socket, const char *endpoint)
{
    struct evzmq__owned *const owned = check(context, zmq_socket, endpoint);
    if (owned == NULL || evzmq__descriptors_check(1, &context->error) < 0) {
        return -1;
    }
    return begins_with(endpoint, IPC) ? bind_ipc(context, owned, endpoint + strlen(IPC))
                                      : bind_plain(context, owned, endpoint);
}

int evzmq_context_connect(struct evzmq_context *context, void *zmq_socket, const char *endpoint)
{
    const struct evzmq__owned *const owned = check(context, zmq_socket, endpoint);
    if (owned == NULL) {
        return -1;
    }
    if (begins_with(endpoint, IPC) &&
        evzmq__ipcpath_check(endpoint + strlen(IPC), &context->error) < 0) {
        return -1;
    }
    return call_libzmq(owned, endpoint, zmq_connect) < 0
               ? fail_endpoint(context, "cannot connect", endpoint)
               : 0;
}

const char *evzmq_context_get_endpoint(const struct evzmq_context *context, const void *zmq_socket)
{
    if (context == NULL || zmq_socket == NULL) {
        errno = EINVAL;
        return NULL;
    }
    if (evzmq__context_is_stale(context)) {
        errno = ECHILD;
        return NULL;
    }
    const struct evzmq__owned *const owned = evzmq__context_find(context, zmq_socket);
    if (owned == NULL) {
        return NULL;
    }
    if (owned->endpoint == NULL) {
        errno = ENOENT;
    }
    return owned->endpoint;
}
