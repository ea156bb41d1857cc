/**
 * @file poster.h
 * Sending through a socket from other threads.
 *
 * A socket belongs to the thread that runs its event base. A poster is the one thing that other
 * threads may use: it takes messages from any of them, wakes the loop, and the loop sends them. It
 * has locks and a wakeup of its own, so that the program needs neither evthread_use_pthreads() nor
 * a base that was made after it.
 *
 *     other threads  evzmq_poster_post() -> the poster's queue, bounded; full: EAGAIN
 *     loop           the poster's queue -> the socket, as evzmq_socket_write_message() does, while
 *                    its output queue has room
 *
 * Order is kept for each posting thread (on ROUTER, for each thread and peer). Posts and writes
 * made in the loop thread have no order between them.
 *
 * A poster outlives its socket: after that every post fails with ESHUTDOWN.
 */
#ifndef EVZMQ_POSTER_H
#define EVZMQ_POSTER_H

#include <stddef.h>
#include <stdint.h>

#include <evzmq/base.h>
#include <evzmq/codec.h>
#include <evzmq/message.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evzmq_poster;
struct evzmq_socket;

/** The default limit of a poster's queue, in messages. */
#define EVZMQ_POSTER_MESSAGES_DEFAULT 1000u
/** The default limit of a poster's queue, in bytes. */
#define EVZMQ_POSTER_BYTES_DEFAULT (64u * 1024u * 1024u)

/** Counters of a poster. Every message posted is, in the end, handed over or dropped. */
struct evzmq_poster_stats {
    size_t size; /**< set it to sizeof(struct evzmq_poster_stats) before the call */
    uint64_t posted; /**< messages accepted */
    uint64_t handed_over; /**< of those, messages that the loop took for its socket */
    uint64_t dropped; /**< of those, messages that still waited when the socket came to its end */
    uint64_t refused; /**< posts that failed with EAGAIN */
    uint64_t refused_after_end; /**< posts that failed with ESHUTDOWN */
    uint64_t wakeups; /**< times the loop was woken, for all posters of the base */
    uint64_t queue_messages; /**< gauge: waiting now */
    uint64_t queue_bytes; /**< gauge */
};

/**
 * Makes a poster for a socket. A socket may have many; all posters of a base share one file
 * descriptor.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param socket        a socket of a type that sends
 * @param messages_max  how many messages may wait in the poster; 0 for
 * EVZMQ_POSTER_MESSAGES_DEFAULT, SIZE_MAX for no limit
 * @param bytes_max     and how many bytes; 0 for EVZMQ_POSTER_BYTES_DEFAULT, SIZE_MAX for no limit.
 * A larger message is accepted when nothing waits.
 * @return a poster with one reference, which is the caller's; or NULL with EINVAL, ENOTSUP (a
 * receive-only type), ESHUTDOWN (after evzmq_socket_shutdown()), ETERM, ENOTSOCK, ENOMEM, EMFILE or
 * ENFILE (no file descriptor left), ECHILD
 */
EVZMQ_API struct evzmq_poster *evzmq_poster_new(struct evzmq_socket *socket, size_t messages_max,
                                                size_t bytes_max);

/**
 * Takes one more reference, for another thread.
 *
 * Thread: any that holds a reference. Callbacks: yes.
 *
 * @return @p poster; NULL for NULL
 */
EVZMQ_API struct evzmq_poster *evzmq_poster_ref(struct evzmq_poster *poster);

/**
 * Gives a reference back. What was posted is still sent, also when the reference was the last one.
 *
 * Thread: any. Callbacks: yes. In a forked child: allowed; releases memory only.
 *
 * @param poster  may be NULL
 */
EVZMQ_API void evzmq_poster_free(struct evzmq_poster *poster);

/**
 * Posts a copy of some bytes as a message of one part.
 *
 * Success means that the message waits for the loop. What becomes of it there is told to the
 * socket's event callback: EVZMQ_EVENT_UNDELIVERABLE with the error that evzmq_socket_write() would
 * have given, such as EHOSTUNREACH on ROUTER or EFSM on REQ and REP.
 *
 * After evzmq_socket_shutdown() what was posted before counts as queued and is sent with the rest;
 * it may exceed the limits of the output queue then. When the socket is freed, or its context
 * terminated, what waits is dropped and counted.
 *
 * Thread: any that holds a reference. Callbacks: yes. Never waits for the loop, whatever it does.
 *
 * @param data  @p size bytes; may be NULL when @p size is 0
 * @return 0, or -1 with EINVAL (also a number of parts that evzmq_socket_write() refuses), ENOMEM,
 * EAGAIN (the poster is full; nothing tells when it no longer is), ESHUTDOWN (the socket was freed
 * or shut down, or its context terminated), ECHILD
 */
EVZMQ_API int evzmq_poster_post(struct evzmq_poster *poster, const void *data, size_t size);

/**
 * Posts copies of several runs of bytes as one message with as many parts. On ROUTER the first one
 * is the routing id; there one peer may use at most as much of the poster as is left for the
 * others.
 *
 * Thread: any that holds a reference. Callbacks: yes.
 *
 * @param parts  @p count runs of bytes, in order
 * @param count  at least 1
 * @return as evzmq_poster_post()
 */
EVZMQ_API int evzmq_poster_post_parts(struct evzmq_poster *poster, const struct evzmq_bytes *parts,
                                      size_t count);

/**
 * Posts an owned message without copying it.
 *
 * Thread: any that holds a reference; the message must be that thread's. Callbacks: yes.
 *
 * @param message  on success it belongs to the poster and must not be touched again; on failure it
 * stays the caller's, unchanged
 * @return as evzmq_poster_post(); EINVAL also for a message without parts and for one lent to a
 * callback (take it first)
 */
EVZMQ_API int evzmq_poster_post_message(struct evzmq_poster *poster, struct evzmq_message *message);

/**
 * What waits in the poster.
 *
 * Thread: any that holds a reference; the answer may be old when it is given. Callbacks: yes.
 *
 * @param out_bytes  may be NULL
 * @return the number of messages
 */
EVZMQ_API size_t evzmq_poster_get_queued(struct evzmq_poster *poster, size_t *out_bytes);

/**
 * Copies the counters of a poster.
 *
 * Thread: any that holds a reference. Callbacks: yes.
 *
 * @param out  with its size set; a program built with an older, shorter struct gets the fields it
 * knows
 * @return 0, or -1 with EINVAL (NULL, or a size that is too small), ECHILD
 */
EVZMQ_API int evzmq_poster_get_stats(struct evzmq_poster *poster, struct evzmq_poster_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_POSTER_H */
