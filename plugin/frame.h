/*
 * frame.h (L1): memory of packed frames, which libzmq sends from and gives back. Pure: it knows
 * neither libevent nor libzmq.
 *
 *     loop thread   take -> fill -> count (in flight) -> zmq_msg_send
 *     any thread    evzmq__frame_release: the last byte is sent, or the message was dropped
 *
 * libzmq releases on whatever thread drops the message, one of its I/O threads as a rule, also when
 * socket, base and everything else is gone. So a pool is counted by its owner and by each frame
 * that is out, and whoever is the last frees it. Frames come back through a list that any thread
 * pushes to and the loop thread alone takes, all at once, so that no frame can be met twice in it.
 */
#ifndef EVZMQ_PLUGIN_FRAME_H
#define EVZMQ_PLUGIN_FRAME_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "wake.h"

struct evzmq__frame_pool;

struct evzmq__frame {
    struct evzmq__frame *next; /* in a list of free ones */
    struct evzmq__frame_pool *pool; /* a reference, while the frame is out */
    size_t capacity; /* of data */
    /* What is counted for it. Written with release and read with acquire, so that whoever releases
     * the frame sees all that the loop thread did with it. */
    atomic_size_t in_flight;
    alignas(max_align_t) unsigned char data[];
};

struct evzmq__frame_pool {
    atomic_size_t references;
    _Atomic(struct evzmq__frame *) returned; /* pushed to by any thread */
    struct evzmq__frame *free; /* the loop's: the frames last taken from there */
    atomic_size_t kept; /* frames in the two lists */
    atomic_size_t kept_max;
    atomic_size_t capacity; /* of the frames that are kept */
    size_t in_flight_max; /* the loop's */
    atomic_size_t in_flight; /* bytes */
    atomic_size_t wake_at; /* at this many bytes in flight the loop is woken, if it waits */
    atomic_bool waiting;
    struct evzmq__wake wake;
};

/* Makes a pool with one reference. NULL with ENOMEM, EMFILE or ENFILE. */
struct evzmq__frame_pool *evzmq__frame_pool_new(void);

/* Sets the size of the frames, how many are kept, and how many bytes may be in flight. Frames of
 * another size are freed when they come back. Loop thread. */
void evzmq__frame_pool_resize(struct evzmq__frame_pool *pool, size_t capacity, size_t kept_max,
                              size_t in_flight_max);

/* Gives the owner's reference back: what is out is freed when it comes. In a forked child the
 * descriptor to read stays open for the event that was abandoned with it. Loop thread. */
void evzmq__frame_pool_close(struct evzmq__frame_pool *pool, bool in_child);

/* Takes a frame of the pool's size, or makes one; makes one of another size. NULL with ENOMEM. Loop
 * thread. */
struct evzmq__frame *evzmq__frame_take(struct evzmq__frame_pool *pool);
struct evzmq__frame *evzmq__frame_make(struct evzmq__frame_pool *pool, size_t capacity);

/* Counts a frame as in flight, if the bound allows it: that is always so when little is in flight.
 * Otherwise the fd of `wake` becomes readable once little is. Loop thread. */
bool evzmq__frame_admit(struct evzmq__frame *frame);

/* Counts it no longer: it was not handed over after all. Loop thread. */
void evzmq__frame_recall(struct evzmq__frame *frame);

/* Gives a frame back: a zmq_free_fn, whose hint is the frame. Any thread. */
void evzmq__frame_release(void *data, void *frame);

#endif /* EVZMQ_PLUGIN_FRAME_H */
