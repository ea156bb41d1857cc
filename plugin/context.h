/*
 * context.h (L2): what the rest of the library needs of a context: to be counted as its child, and
 * to close one of its sockets without having the context at hand.
 */
#ifndef EVZMQ_PLUGIN_CONTEXT_H
#define EVZMQ_PLUGIN_CONTEXT_H

#include <stdarg.h>
#include <stdbool.h>

#include <evzmq/context.h>

/* Counts one more child: evzmq_context_close() fails with EBUSY until it is gone.
 * Returns 0, or -1 with ESHUTDOWN (closed) or ECHILD. */
int evzmq__context_add_child(struct evzmq_context *context);

/* Counts one child less. In a forked child of the process it does nothing. */
void evzmq__context_remove_child(struct evzmq_context *context);

/* Whether the context was made by a process of which this one is a forked child. */
bool evzmq__context_is_stale(const struct evzmq_context *context);

/* Sets the text of evzmq_context_get_error() and errno. Returns -1. */
int evzmq__context_fail(struct evzmq_context *context, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Closes a ZeroMQ socket if it was made by some context, and has that context forget it. Returns
 * false, with nothing done, for any other socket. */
bool evzmq__context_close_foreign(void *zmq_socket);

#endif /* EVZMQ_PLUGIN_CONTEXT_H */
