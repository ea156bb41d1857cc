/**
 * @file monitor.h
 * What happens to the connections of a ZeroMQ socket, as callbacks on an event base: connected,
 * accepted, disconnected, handshake failed and why, and so on (zmq_socket_monitor(3)).
 *
 * A monitor watches a raw ZeroMQ socket, whether or not that is attached to an evzmq_socket. Made
 * before zmq_bind(3) or zmq_connect(3), it misses nothing.
 *
 * What libzmq demands of whoever monitors (its listeners and connections hang otherwise) is taken
 * care of here: the events are read whenever the loop runs, and the monitoring is stopped before
 * its reader goes away. What cannot be: while the loop does not run, events gather in libzmq's
 * memory, without a limit.
 *
 * In order: evzmq_monitor_free() (or evzmq_monitor_stop()), then close the monitored socket. Other
 * orders are safe too, see evzmq_monitor_free().
 *
 * A socket has one monitor. A second one replaces the first, which sees EVZMQ_MONITOR_STOPPED; so
 * does a second one that libzmq then refuses (the context of another socket, no file descriptor
 * left), but none that fails for want of memory. Stopping or freeing the first one afterwards does
 * not touch the second.
 */
#ifndef EVZMQ_MONITOR_H
#define EVZMQ_MONITOR_H

#include <stddef.h>
#include <stdint.h>

#include <evzmq/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct event_base;
struct evzmq_monitor;

/** What happened. The numbers are those of ZMQ_EVENT_*, one bit each. */
enum evzmq_monitor_event_type {
    EVZMQ_MONITOR_CONNECTED = 0x0001, /**< a connection was made; fd. The handshake follows. */
    EVZMQ_MONITOR_CONNECT_DELAYED = 0x0002, /**< a connection is being made */
    EVZMQ_MONITOR_CONNECT_RETRIED = 0x0004, /**< it failed, and will be tried after interval_ms */
    EVZMQ_MONITOR_LISTENING = 0x0008, /**< the socket is bound; fd */
    EVZMQ_MONITOR_BIND_FAILED = 0x0010, /**< error. It is the one to trust: with this event
                                           monitored, zmq_bind(3) itself may leave another errno. */
    EVZMQ_MONITOR_ACCEPTED = 0x0020, /**< a peer connected; fd. The handshake follows. */
    EVZMQ_MONITOR_ACCEPT_FAILED = 0x0040, /**< error; at most
                                             EVZMQ_MONITOR_ACCEPT_FAILED_PER_SECOND */
    EVZMQ_MONITOR_CLOSED = 0x0080, /**< a connection or listener was closed on this side; fd */
    EVZMQ_MONITOR_CLOSE_FAILED = 0x0100, /**< error */
    EVZMQ_MONITOR_DISCONNECTED = 0x0200, /**< a connection ended; fd */
    EVZMQ_MONITOR_STOPPED = 0x0400, /**< the last event: the monitored socket was closed, its
                                       context terminated (error ETERM), another monitor took over,
                                       or evzmq_monitor_stop() was called */
    EVZMQ_MONITOR_HANDSHAKE_FAILED_NO_DETAIL = 0x0800, /**< error */
    EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED = 0x1000, /**< the peer can be talked to from here on */
    EVZMQ_MONITOR_HANDSHAKE_FAILED_PROTOCOL = 0x2000, /**< reason: ZMQ_PROTOCOL_ERROR_* */
    EVZMQ_MONITOR_HANDSHAKE_FAILED_AUTH = 0x4000 /**< reason: the status of ZAP, 300, 400 or 500 */
};

/** All of them. */
#define EVZMQ_MONITOR_ALL 0x7fffu

/** How many events wait for the callback at most, unless evzmq_monitor_set_limit() was called. */
#define EVZMQ_MONITOR_QUEUE_DEFAULT 1024u

/** A listener that has no file descriptors left fails to accept as fast as it can. This many such
 * events in a second are delivered; the rest is counted. */
#define EVZMQ_MONITOR_ACCEPT_FAILED_PER_SECOND 10u

/** The endpoint of an event is cut off after this many bytes. */
#define EVZMQ_MONITOR_ENDPOINT_MAX 1023u

/** One event. It and its endpoint live until the callback returns. */
struct evzmq_monitor_event {
    size_t size; /**< sizeof(struct evzmq_monitor_event) of the library that made it */
    enum evzmq_monitor_event_type type; /**< what happened */
    int fd; /**< libzmq's own, to be compared and never to be used: it may be closed, and its number
               in use for another, by now. -1 where there is none. */
    int error; /**< an errno value, or 0 */
    int interval_ms; /**< until the next try; 0 where there is none */
    unsigned reason; /**< of a failed handshake, or 0; evzmq_monitor_reason_name() is its text */
    const char *endpoint; /**< 0-terminated, never NULL; may hold bytes that a peer chose */
    size_t endpoint_size; /**< without the 0 */
    uint64_t missed; /**< events dropped between the one before and this one */
};

/**
 * Something happened to a connection of the monitored socket.
 *
 * Runs in the loop thread from the base's dispatch, never from inside a call of this library but
 * evzmq_socket_recv(); events come in order. May call anything of this library,
 * evzmq_monitor_free() included.
 *
 * libzmq does not say how these events lie in time to messages: the peer of a
 * EVZMQ_MONITOR_DISCONNECTED may still have messages in the socket.
 *
 * @param event  lives until the callback returns
 */
typedef void (*evzmq_monitor_cb)(struct evzmq_monitor *monitor,
                                 const struct evzmq_monitor_event *event, void *arg);

/** Counters of a monitor. */
struct evzmq_monitor_stats {
    size_t size; /**< set it to sizeof(struct evzmq_monitor_stats) before the call */
    uint64_t received; /**< events that libzmq sent: those asked for, and those of connections */
    uint64_t delivered; /**< events the callback was called with */
    uint64_t dropped; /**< events that found the queue full, or no memory */
    uint64_t accept_failed_dropped; /**< EVZMQ_MONITOR_ACCEPT_FAILED beyond the rate */
    uint64_t wakeups; /**< times the loop looked for events */
    uint64_t queued; /**< gauge: waiting for the callback */
};

/**
 * Starts to monitor a ZeroMQ socket. No event is missed that happens after the call.
 *
 * A monitor keeps event_base_dispatch() running until EVZMQ_MONITOR_STOPPED. An idle one costs no
 * wakeups.
 *
 * Thread: loop; the monitored socket must be that thread's too. Callbacks: yes.
 *
 * @param base         the event base; must outlive the monitor
 * @param zmq_context  the context that @p zmq_socket was made in: libzmq sends events over inproc,
 * and does not say to which context a socket belongs
 * @param zmq_socket   any ZeroMQ socket but a draft type; stays the caller's
 * @param events       a set of ::evzmq_monitor_event_type
 * @param cb           not NULL
 * @param arg          given to @p cb
 * @return a monitor that the caller must free; or NULL with EINVAL (NULL, no or unknown events, the
 * context of another socket), EFAULT or ENOTSOCK (no context, no socket), ETERM, EMFILE, ENOMEM,
 * ECHILD
 */
EVZMQ_API struct evzmq_monitor *evzmq_monitor_new(struct event_base *base, void *zmq_context,
                                                  void *zmq_socket, unsigned events,
                                                  evzmq_monitor_cb cb, void *arg);

/**
 * Ends the monitoring and keeps the monitor: events that happened before, then
 * EVZMQ_MONITOR_STOPPED, are still delivered. After the call the monitored socket may be closed at
 * any time. A second call does nothing.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ENOTSOCK (the monitored socket was closed), ECHILD
 */
EVZMQ_API int evzmq_monitor_stop(struct evzmq_monitor *monitor);

/**
 * Ends the monitoring and frees the monitor, at once. Events not yet delivered are discarded.
 *
 * Best before the monitored socket is closed. Afterwards is right as well
 * - when EVZMQ_MONITOR_STOPPED has come, or evzmq_monitor_stop() was called before the close;
 * - when evzmq_socket_free() closed it (EVZMQ_OPT_CLOSE_ON_FREE), which stops the monitor itself;
 * - when its context was terminated.
 * After a plain zmq_close(3) wait for EVZMQ_MONITOR_STOPPED: libzmq offers no way to learn whether
 * a socket still exists. This call then looks for that event for up to a millisecond. Where the
 * closed socket lingers, a short-lived thread reads on until it is gone: it would hang otherwise.
 *
 * Thread: loop. Callbacks: yes, also its own: after the call it does not run again.
 * In a forked child: allowed; releases memory only.
 *
 * @param monitor  may be NULL
 */
EVZMQ_API void evzmq_monitor_free(struct evzmq_monitor *monitor);

/**
 * Has events wait, up to the limit, instead of delivering them: beyond it they are dropped and
 * counted. They are read from libzmq all the same, so the monitored socket is not held up.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ECHILD
 */
EVZMQ_API int evzmq_monitor_disable(struct evzmq_monitor *monitor);

/**
 * Has events delivered again, those that wait first. New monitors are enabled.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ENOMEM, ECHILD
 */
EVZMQ_API int evzmq_monitor_enable(struct evzmq_monitor *monitor);

/**
 * Limits how many events wait for the callback, be it disabled or slower than they come. Later ones
 * are dropped and counted; EVZMQ_MONITOR_STOPPED never is.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param events  0 for EVZMQ_MONITOR_QUEUE_DEFAULT. What waits already stays.
 * @return 0, or -1 with EINVAL, ECHILD
 */
EVZMQ_API int evzmq_monitor_set_limit(struct evzmq_monitor *monitor, size_t events);

/**
 * Copies the counters of a monitor.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param out  with its size set; a program built with an older, shorter struct gets the fields it
 * knows
 * @return 0, or -1 with EINVAL (NULL, or a size that is too small)
 */
EVZMQ_API int evzmq_monitor_get_stats(const struct evzmq_monitor *monitor,
                                      struct evzmq_monitor_stats *out);

/** Why messages to the peers of a socket wait. */
enum evzmq_blocked_why {
    EVZMQ_BLOCKED_NO_PEER, /**< nobody is connected */
    EVZMQ_BLOCKED_HANDSHAKE, /**< nobody is, and the last handshake failed: a peer with other
                                credentials, another mechanism, or no ZeroMQ at all */
    EVZMQ_BLOCKED_PEERS_FULL /**< peers are there and take no more: the high water marks */
};

/** See evzmq_monitor_get_blocked(). */
struct evzmq_blocked {
    size_t size; /**< set it to sizeof(struct evzmq_blocked) before the call */
    enum evzmq_blocked_why why; /**< the reason */
    enum evzmq_monitor_event_type failure; /**< EVZMQ_BLOCKED_HANDSHAKE: which
                                              EVZMQ_MONITOR_HANDSHAKE_FAILED_*; else 0 */
    unsigned reason; /**< evzmq_monitor_event::reason of that event, or 0 */
    uint64_t peers; /**< connections whose handshake succeeded */
};

/**
 * Tells why messages wait, where a write is refused (EAGAIN) or the queue does not shrink. libzmq
 * itself has one answer for a peer that is not there, one that was turned away and one that is
 * slow.
 *
 * It is told from the events of connections that the loop has read since the monitor was made,
 * whether or not they are among those asked for. inproc has no such events: its peers are not
 * known. With ZMQ_IMMEDIATE off, the default, a socket that connects also takes messages while
 * nobody is there, up to its high water mark.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param out  with its size set; a program built with an older, shorter struct gets the fields it
 * knows
 * @return 0, or -1 with EINVAL (NULL, or a size that is too small)
 */
EVZMQ_API int evzmq_monitor_get_blocked(const struct evzmq_monitor *monitor,
                                        struct evzmq_blocked *out);

/**
 * The English name of an event, such as "connected".
 *
 * Thread: any. Callbacks: yes.
 *
 * @return a constant string, never NULL ("unknown" for a number that is no event)
 */
EVZMQ_API const char *evzmq_monitor_event_name(enum evzmq_monitor_event_type type);

/**
 * The English name of the reason of a failed handshake, such as "mechanism mismatch".
 *
 * Thread: any. Callbacks: yes.
 *
 * @param reason  evzmq_monitor_event::reason
 * @return a constant string, never NULL ("unknown" for a number that is no reason)
 */
EVZMQ_API const char *evzmq_monitor_reason_name(unsigned reason);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_MONITOR_H */
