/*
 * poster.h: what the two sides of a poster share. poster.c is what any thread may call,
 * poster_loop.c what happens in the loop thread.
 *
 *     any thread   post -> the poster's queue -> the hub's list of news -> the wake fd
 *     loop         on_wake: news -> evzmq__feeder_announce() -> a pass of the socket
 *                  poster_take(): the poster's queue -> the socket
 *
 * The posters of one base share a hub: one mutex, one wake fd, one event. The mutex guards all that
 * is shared between threads; it is held for a few instructions, never across a callback, a call of
 * libzmq on a socket or another lock, and fork handlers take it around fork(), so that a child
 * finds everything whole. The rest (feeder, event, socket) is the loop thread's.
 *
 * A poster is on the list of news, or on its socket's ready list, or is taken from right now,
 * exactly while `noticed` is set. So a burst of posts costs one write to the fd, and a poster that
 * waits for room costs none.
 *
 * Lifetimes: a poster lives while a user holds a reference or a socket has it as its feeder; a hub
 * lives while one of its posters does. Its event lives while one of its posters has a socket, so
 * that it is taken down in the loop thread and does not keep the loop running.
 */
#ifndef EVZMQ_PLUGIN_POSTER_H
#define EVZMQ_PLUGIN_POSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>

#include <evzmq/poster.h>

#include "loop.h"
#include "queue.h"
#include "registry.h"
#include "socket.h"
#include "wake.h"

struct evzmq__hub {
    pthread_mutex_t mutex;
    struct evzmq__hub *prev; /* in `hubs`, under hubs_mutex */
    struct evzmq__hub *next;

    /* Under the mutex. */
    size_t posters;
    struct evzmq_poster *news;
    struct evzmq__wake wake; /* open while a poster is attached */
    bool signalled; /* written to, and not yet read */
    uint64_t wakeups;

    /* The loop's. */
    struct evzmq__base *base; /* not a reference: the sockets of the posters hold it */
    struct evzmq__source *watch;
    size_t attached; /* posters with a socket */
};

struct evzmq_poster {
    struct evzmq__feeder feeder; /* first, and the loop's */
    struct evzmq__hub *hub;
    unsigned long generation;
    const struct evzmq__type *type; /* of its socket */

    /* Under the hub's mutex. */
    size_t references; /* the users' */
    bool attached; /* to a socket, which frees the poster then */
    bool noticed;
    struct evzmq_poster *next_news;
    struct evzmq__queue queue;
    uint64_t posted;
    uint64_t handed_over;
    uint64_t dropped;
    uint64_t refused;
    uint64_t refused_after_end;
};

static inline void evzmq__hub_lock(struct evzmq__hub *hub)
{
    (void)pthread_mutex_lock(&hub->mutex);
}

static inline void evzmq__hub_unlock(struct evzmq__hub *hub)
{
    (void)pthread_mutex_unlock(&hub->mutex);
}

/* Frees a poster that neither a user nor a socket holds. What waits in it is freed unseen. */
void evzmq__poster_destroy(struct evzmq_poster *poster);

#endif /* EVZMQ_PLUGIN_POSTER_H */
