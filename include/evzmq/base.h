/**
 * @file base.h
 * Version, export macro, allocator hook, error texts, and what belongs to an event base rather than
 * to a socket.
 *
 * Words used by every header of this library:
 *
 * - "Thread: loop" means the one thread that runs the event base of the object. Sockets of ZeroMQ
 * are not thread-safe (zmq_socket(3)), so neither is anything built on one. "Thread: any" is said
 * where it is true.
 * - "Callbacks: yes" means that callbacks of this library, also the object's own, may make the
 * call.
 * - Results are 0 or a count, or -1 with errno; pointers are NULL with errno. Outputs are written
 * on success only.
 * - Of a NULL object calls with an errno say EINVAL; those that set something without a result, and
 * the free functions, do nothing; those that only tell what an object holds give NULL or 0.
 * - errno may be one of libzmq's own numbers (EFSM, ETERM, ...; see zmq_errno(3)); evzmq_strerror()
 * knows them.
 * - A call from a thread that may not make it is a race that nothing guards against.
 * evzmq_enable_debug_mode() finds such calls.
 * - In a forked child every call on an object of the parent fails with ECHILD, except the free
 * functions (see evzmq_after_fork()) and those that only tell what the object holds.
 */
#ifndef EVZMQ_BASE_H
#define EVZMQ_BASE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of these headers. evzmq_version() gives that of the library a program runs with. */
#define EVZMQ_VERSION_MAJOR 0
/** See EVZMQ_VERSION_MAJOR. */
#define EVZMQ_VERSION_MINOR 1
/** See EVZMQ_VERSION_MAJOR. */
#define EVZMQ_VERSION_PATCH 0

/** Marks what the shared library exports. */
#if defined(_WIN32)
#define EVZMQ_API
#else
#define EVZMQ_API __attribute__((visibility("default")))
#endif

struct event_base;

/**
 * The library's version, for comparing with the macros above.
 *
 * Thread: any. Callbacks: yes.
 *
 * @param out_major,out_minor,out_patch  where to put the numbers; each may be NULL
 */
EVZMQ_API void evzmq_version(int *out_major, int *out_minor, int *out_patch);

/**
 * The text of an errno value, libzmq's own numbers (from ZMQ_HAUSNUMERO on) included.
 *
 * Thread: any. Callbacks: yes.
 *
 * @param error  a value of errno
 * @return a text that is never NULL; it lives as strerror()'s does
 */
EVZMQ_API const char *evzmq_strerror(int error);

/**
 * Replaces the functions this library allocates with, as event_set_mem_functions() does for
 * libevent. It governs the library's own memory only: libzmq always uses malloc, libevent has its
 * own hook. Where these three fail the call that needed memory fails with ENOMEM and changes
 * nothing; libzmq itself aborts the process where malloc fails.
 *
 * Thread: any, but before any other call of this library. Callbacks: no.
 *
 * @param malloc_fn,realloc_fn,free_fn  three functions with the contract of the C library's,
 * callable from any thread (libzmq frees messages on its I/O threads); or NULL three times for the
 * C library's own
 * @return 0, or -1 with EINVAL (some of the three are NULL)
 */
EVZMQ_API int evzmq_set_mem_functions(void *(*malloc_fn)(size_t),
                                      void *(*realloc_fn)(void *, size_t), void (*free_fn)(void *));

/**
 * Has calls from a wrong thread refused, as far as they can be noticed, as
 * event_enable_debug_mode() finds misused events for libevent. For tests and for finding a fault:
 * it takes a lock at every wakeup.
 *
 * The thread of a base is the one that ran it last: it is noted whenever the base calls this
 * library. From then on every other thread gets EPERM from the calls that make sockets, monitors,
 * pools, workers, requesters, publishers and subscribers on that base, and from the calls on those,
 * and nothing is done. Their free functions set errno to EPERM, and leave the object as it is.
 * Calls that only tell what an object holds are not checked, and posters may be used from any
 * thread. A thread that goes on with a base whose thread has ended says so with
 * evzmq_base_set_thread().
 *
 * Thread: any, but before any other call of this library. Callbacks: no. There is no way back.
 */
EVZMQ_API void evzmq_enable_debug_mode(void);

/**
 * Says that the calling thread runs a base from now on; for example after joining the thread that
 * did, to free what is left. Without the debug mode it changes nothing.
 *
 * Thread: the new one, while no other uses the base. Callbacks: yes.
 *
 * @param base  the event base
 * @return 0, or -1 with EINVAL (NULL base)
 */
EVZMQ_API int evzmq_base_set_thread(struct event_base *base);

/** The largest size the receive buffer of a base grows to unless evzmq_base_set_receive_buffer()
 * says otherwise. */
#define EVZMQ_RECEIVE_BUFFER_DEFAULT (1024u * 1024u)

/**
 * Sets the largest size of the receive buffer that all sockets of a base share (one message is
 * delivered at a time, so one buffer is enough). It starts small and grows on demand. A message
 * that does not fit is still delivered whole, from memory of its own, and counted
 * (evzmq_socket_stats::spills).
 *
 * From a read callback the change applies after that callback: the message in delivery stays where
 * it is.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param base   an event base with at least one evzmq socket
 * @param bytes  the new maximum; 0 means that no message is copied into the buffer
 * @return 0, or -1 with EINVAL (NULL base), ENOENT (no evzmq socket on this base: the setting lives
 * with them), ECHILD
 */
EVZMQ_API int evzmq_base_set_receive_buffer(struct event_base *base, size_t bytes);

/**
 * Makes a base usable for new evzmq sockets in a forked child.
 *
 * libzmq cannot work in a child: every receive fails with EINTR for ever and sends vanish, because
 * its I/O threads exist in the parent only. So after fork() the child (1) frees the evzmq sockets
 * it inherited, and what was made of them (monitors, pools, workers, requesters, publishers,
 * subscribers), which releases their memory without touching the parent's ZeroMQ context or event
 * registrations, (2) calls event_reinit(), (3) calls this function, which closes the descriptors of
 * this library's own that had to stay open until (2), and (4) makes a new context and new sockets.
 * Until then no callback of this library runs in the child and no call spins. libzmq's descriptors
 * stay open in the child: nothing can close them there.
 * Where the child's loop runs before (2), as it does when fork() was called in a callback, and
 * comes upon a socket of the parent, this library calls event_reinit() itself.
 *
 * A child that wants no base any more calls event_reinit() as well before event_base_free(), or
 * leaves the base alone: without it libevent takes every descriptor of the base, whosever it is,
 * off the set that the kernel keeps for both processes, and the parent's loop is deaf from then on.
 * It may then make another base, without this function.
 *
 * Thread: loop, in the child. Callbacks: no.
 *
 * @param base  the event base the child goes on with
 * @return 0 (also where nothing was to be done), or -1 with EINVAL (NULL base), EBUSY (sockets
 * of the parent, or what was made of them, are not freed yet)
 */
EVZMQ_API int evzmq_after_fork(struct event_base *base);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_BASE_H */
