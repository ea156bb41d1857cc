/*
 * registry.h (L2): what this library keeps for an event base, and which ZeroMQ sockets are
 * attached.
 *
 * libevent has no place for a plugin's data on an event_base, so a process-wide registry maps bases
 * to records, behind a mutex, since bases live in different threads. A record is reference-counted
 * by the sockets of its base and by a pass that runs; everything in it but the list links is used
 * by the base's own thread only.
 */
#ifndef EVZMQ_REGISTRY_H
#define EVZMQ_REGISTRY_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table.h"

struct event_base;
struct evzmq_arena;
struct evzmq_message;
struct evzmq__hub;
struct evzmq__source;

struct evzmq__base {
    struct event_base *event_base;
    _Atomic uintptr_t thread; /* the mark of the thread that runs it; 0: nobody did so far, or the
                                 debug mode is off */
    struct evzmq__base *next; /* in the registry; under its mutex */
    size_t references; /* under the registry's mutex */
    size_t sockets; /* attached to the base */
    unsigned long generation; /* of the process that made the record; see evzmq__base_is_stale() */
    unsigned depth; /* passes that are running now: not 0 inside a callback */

    /* The receive buffer: one for all sockets, since one message is delivered at a time. */
    unsigned char *buffer;
    size_t buffer_size;
    size_t buffer_max;
    size_t buffer_ready; /* buffer_size; 0 where that is above buffer_max, set lower since */
    struct evzmq_message *receiving; /* the message passes receive into; NULL until the first */
    struct evzmq_arena *arena; /* of decoded values; NULL until the first */

    struct evzmq__hub *hub; /* of the posters of the base's sockets; NULL while there are none */

    struct evzmq__source *abandoned; /* in a forked child: watches that could not be taken down,
                                         and their fds */
};

/* Finds or makes the record of a base and takes a reference.
 * NULL with ENOMEM, ECHILD (the record is the parent process's), or in the debug mode EPERM. */
struct evzmq__base *evzmq__base_acquire(struct event_base *event_base);

/* Finds the record of a base without a reference; NULL when it has none. */
struct evzmq__base *evzmq__base_find(struct event_base *event_base);

/* Takes one more reference. */
void evzmq__base_ref(struct evzmq__base *base);

/* Gives a reference back. The last one frees the record and all it holds, except what a forked
 * child has abandoned: then it stays until evzmq_after_fork(), or until its base was freed and
 * another one is met in its place. */
void evzmq__base_release(struct evzmq__base *base);

/* Counts the forks between the first process and this one. Written in a child before it runs any
 * other code, so that plain reads are enough; atomic because other threads of the child may exist
 * by the time it is read. To be read by the functions below. */
extern _Atomic unsigned long evzmq__fork_count;

/* Has forks counted from now on, as acquiring a record does. Returns 0, or -1 with ENOMEM. An
 * object without a base that remembers evzmq__generation() calls it first. */
int evzmq__fork_watch(void);

/* How many forks lie between the first process and this one, for objects that outlive their base's
 * record. */
static inline unsigned long evzmq__generation(void)
{
    return atomic_load_explicit(&evzmq__fork_count, memory_order_relaxed);
}

/* Whether the record was made by a process of which this one is a forked child. It is a comparison
 * of two numbers, made after every callback: asking the system for the process id costs as much as
 * receiving a message. */
static inline bool evzmq__base_is_stale(const struct evzmq__base *base)
{
    return base->generation != evzmq__generation();
}

/* Whether evzmq_enable_debug_mode() was called. */
extern _Atomic bool evzmq__debug_mode;

/* Notes, in the debug mode, that the calling thread runs a base. Called before every callback of
 * an event: what runs a base is only known while it does. */
void evzmq__base_note_thread(const struct event_base *event_base);

/* The part of evzmq__base_check() that is for the debug mode. */
int evzmq__base_check_thread(const struct evzmq__base *base);

/* What calls on an object of a base begin with. Returns 0, or -1 with ECHILD or, in the debug mode,
 * EPERM: another thread runs the base. */
static inline int evzmq__base_check(const struct evzmq__base *base)
{
    if (evzmq__base_is_stale(base)) {
        errno = ECHILD;
        return -1;
    }
    if (atomic_load_explicit(&evzmq__debug_mode, memory_order_relaxed)) {
        return evzmq__base_check_thread(base);
    }
    return 0;
}

/* What frees of an object of a base begin with: whether they must leave it alone, since another
 * thread runs the base. Known in the debug mode only; sets errno to EPERM. A child frees what it
 * inherited from any thread. */
static inline bool evzmq__base_is_foreign(const struct evzmq__base *base)
{
    return atomic_load_explicit(&evzmq__debug_mode, memory_order_relaxed) &&
           !evzmq__base_is_stale(base) && evzmq__base_check_thread(base) < 0;
}

/* The registration of one ZeroMQ socket; lives in its adapter. */
struct evzmq__attachment {
    struct evzmq__table_node node;
    void *zmq_socket;
};

/* Registers a ZeroMQ socket. Returns 0, or -1 with EBUSY (attached already) or ENOMEM. */
int evzmq__attach(struct evzmq__attachment *attachment, void *zmq_socket);

/* Ends a registration. */
void evzmq__detach(struct evzmq__attachment *attachment);

/* Whether a ZeroMQ socket is registered. */
bool evzmq__is_attached(void *zmq_socket);

/* Wants to know when this library closes a ZeroMQ socket. Lives in its owner. */
struct evzmq__close_watch {
    struct evzmq__table_node node;
    void *zmq_socket; /* NULL: it does not watch */
    void (*callback)(struct evzmq__close_watch *watch);
};

/* Starts and ends to watch. The thread is that of the ZeroMQ socket. Watching returns 0, or -1 with
 * ENOMEM. */
int evzmq__watch_close(struct evzmq__close_watch *watch, void *zmq_socket);
void evzmq__unwatch_close(struct evzmq__close_watch *watch);

/* Calls, once each, those who watch a ZeroMQ socket that is about to be closed. */
void evzmq__notify_close(void *zmq_socket);

#endif /* EVZMQ_REGISTRY_H */
