/*
 * context.h (L2): a context and its sockets. Pools and workers hold one by the sockets they made:
 * while those are open it cannot be closed.
 */
#ifndef EVZMQ_PLUGIN_CONTEXT_H
#define EVZMQ_PLUGIN_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#include <evzmq/context.h>

#include "errortext.h"
#include "ipcdir.h"
#include "registry.h"

struct evzmq__ipcpath;

/* One socket of a context. */
struct evzmq__owned {
    void *zmq_socket;
    struct evzmq__close_watch close_watch; /* tells when anybody of this library closes it */
    struct evzmq_context *context;
    struct evzmq__owned *next;
    int heartbeat_ms; /* of ZeroMQ, for tcp; 0 for none */
    bool is_shared; /* other users may connect to its ipc endpoints */
    char *endpoint; /* of the latest bind; NULL before */
    struct evzmq__ipcpath *paths; /* bound by it */
};

struct evzmq_context {
    void *zmq_context;
    bool owns_zmq_context;
    bool has_made_socket; /* ZMQ_MAX_SOCKETS is fixed then */
    bool is_closed;
    unsigned long generation; /* of the process that made the context */
    struct evzmq_context_limits limits; /* as libzmq takes them: neither defaults nor NONE */
    bool beats; /* the program asked for ZeroMQ's own heartbeats */
    struct evzmq__owned *sockets;
    char *socket_dir; /* NULL for the usual places */
    struct evzmq__ipcdir directory;
    struct evzmq__errortext error;
};

/* Whether the context was made by a process of which this one is a forked child. */
bool evzmq__context_is_stale(const struct evzmq_context *context);

/* What most calls begin with. Returns 0, or -1 with EINVAL, ECHILD or ESHUTDOWN. */
int evzmq__context_check(struct evzmq_context *context);

/* The record of a socket that this context made; NULL with EINVAL for any other. */
struct evzmq__owned *evzmq__context_find(const struct evzmq_context *context,
                                         const void *zmq_socket);

/* Calls zmq_bind(3), zmq_connect(3) or zmq_unbind(3), and again where a signal interrupts it:
 * libzmq processes what its threads have for the socket first and fails with EINTR before it has
 * done anything. */
int evzmq__endpoint_call(int (*function)(void *, const char *), void *zmq_socket,
                         const char *endpoint);

#endif /* EVZMQ_PLUGIN_CONTEXT_H */
