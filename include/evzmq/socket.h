/**
 * @file socket.h
 * The adapter: a ZeroMQ socket on an event base, in the style of a bufferevent.
 *
 * The caller makes, configures, binds and connects the socket with plain libzmq; evzmq_socket_new()
 * puts it on an event base. Whenever the base runs, messages are received whole into a buffer that
 * all sockets of the base share, decoded with the socket's codec and given to the read callback.
 * Writes go out at once where ZeroMQ takes them and through a bounded queue where it does not.
 *
 * What differs from a bufferevent:
 * - no call of this header runs a user callback, except evzmq_socket_recv(), which runs the loop;
 * - a write can be refused (EAGAIN): the output queue has a hard limit, and a refused message stays
 * the caller's;
 * - a socket keeps event_base_dispatch() running for as long as it is attached, also with
 * everything disabled: a ZeroMQ socket must be looked after even then, or libzmq's command pipe
 * grows without bound;
 * - the raw socket must not be used behind the adapter's back without evzmq_socket_touch()
 * afterwards.
 *
 * Callbacks may call anything, free the socket included. After evzmq_socket_free() no callback of
 * that socket runs.
 */
#ifndef EVZMQ_SOCKET_H
#define EVZMQ_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include <sys/time.h>

#include <evzmq/base.h>
#include <evzmq/codec.h>
#include <evzmq/message.h>

#ifdef __cplusplus
extern "C" {
#endif

struct event_base;
struct evzmq_socket;

/** Options of evzmq_socket_new(). */
enum evzmq_options {
    /**
     * evzmq_socket_free() also closes the ZeroMQ socket. A linger of -1 (libzmq's default, with
     * which zmq_ctx_term(3) may hang for ever) is replaced by EVZMQ_LINGER_DEFAULT_MS: at once,
     * since a context that is terminated takes no options any more, and again before the close.
     * A socket that an evzmq_context made is taken off that context's list, and its ipc files are
     * removed. Without the option the ZeroMQ socket is the caller's again after the free.
     *
     * A close does not say that peers have everything: with libzmq 4.3.4 the last messages of a
     * burst were seen lost over ipc in 2 of 40 runs in spite of a linger of 10 seconds, plain
     * libzmq on both sides. Where that matters let the peer acknowledge before the close.
     *
     * Nor should a linger run out while multipart messages are under way: libzmq 4.3.4 then aborts
     * the process (session_base.cpp, line 260). Plain libzmq, messages of 300 parts over tcp,
     * closed in mid-flow: aborted with a linger of 0 and of 1 ms, not in 60 rounds each with 100
     * and 1,000 ms. So do not set it to 0 on a socket that sends several parts, as REQ always does.
     */
    EVZMQ_OPT_CLOSE_ON_FREE = 1 << 0
};

/** The linger, in milliseconds, that replaces an infinite one when this library closes a socket. */
#define EVZMQ_LINGER_DEFAULT_MS 1000

/** What an event callback is called for. */
enum evzmq_event_type {
    /** A message could not be decoded. error (EBADMSG), kind, offset and message are set. On REP
     * the callback may reply; when it does not, an empty reply is sent, since a REP socket without
     * a reply is stuck for good. */
    EVZMQ_EVENT_DECODE_ERROR = 1,
    /** A message larger than evzmq_socket_set_max_message() was dropped. error (EMSGSIZE),
     * size_bytes and parts are set. */
    EVZMQ_EVENT_MESSAGE_TOO_LARGE,
    /** A queued message was given up: its peer is gone (error EHOSTUNREACH), or libzmq refused it
     * for good (another error). message is set. */
    EVZMQ_EVENT_UNDELIVERABLE,
    /** The ZeroMQ context was terminated (error ETERM) or the socket closed (ENOTSOCK). Nothing
     * more will happen on this socket; it is off the event base and waits to be freed. Once.
     * Afterwards every call that can fail does, with the same error. */
    EVZMQ_EVENT_TERMINATED,
    /** The output queue reached its high watermark. Once, and again only after it fell to the low
     * one. */
    EVZMQ_EVENT_HIGH_WATERMARK,
    /** The output queue, once non-empty, is empty. After the write callback, where both are due. */
    EVZMQ_EVENT_DRAINED,
    /** The read timeout passed; reading is disabled now. error is ETIMEDOUT. */
    EVZMQ_EVENT_READ_TIMEOUT,
    /** The write timeout passed; writing is disabled now. error is ETIMEDOUT. */
    EVZMQ_EVENT_WRITE_TIMEOUT,
    /** Anything else that went wrong, in error: for example ENOMEM while receiving. Nothing was
     * lost; the socket tries again. */
    EVZMQ_EVENT_ERROR
};

/** One event. Fields that the type does not speak of are 0. */
struct evzmq_event {
    size_t size; /**< sizeof(struct evzmq_event) of the library that made it */
    enum evzmq_event_type type; /**< what happened */
    int error; /**< an errno value */
    enum evzmq_decode_kind kind; /**< of a decode error */
    size_t offset; /**< of a decode error: in the bytes of the last part, or of the packed frame */
    struct evzmq_message
        *message; /**< lent until the callback returns; evzmq_message_take() keeps it */
    uint64_t size_bytes; /**< of a message that was too large */
    uint64_t parts; /**< of a message that was too large */
};

/**
 * One message has arrived and was decoded.
 *
 * Runs in the loop thread from the base's dispatch, never from inside a call of this library but
 * evzmq_socket_recv(), while EV_READ is enabled. May call anything of this library. To stop after
 * this message, disable EV_READ; what has not been received stays in ZeroMQ.
 *
 * @param socket   the socket
 * @param message  lent until the callback returns; its value is NULL for an empty last part
 * @param arg      as given to evzmq_socket_setcb()
 */
typedef void (*evzmq_read_cb)(struct evzmq_socket *socket, struct evzmq_message *message,
                              void *arg);

/**
 * The output queue fell to its low watermark (0 by default: it is empty). Once for each time it
 * falls from above, or is found there because the mark was raised; not for messages that never were
 * in the queue. A refused write counts as above, so that this callback follows it: a queue can be
 * full of many small messages below a mark in bytes.
 *
 * Runs in the loop thread from the base's dispatch. May call anything of this library.
 */
typedef void (*evzmq_write_cb)(struct evzmq_socket *socket, void *arg);

/**
 * Something other than data happened: see ::evzmq_event_type.
 *
 * Runs in the loop thread from the base's dispatch. May call anything of this library.
 *
 * @param event  lives until the callback returns
 */
typedef void (*evzmq_event_cb)(struct evzmq_socket *socket, const struct evzmq_event *event,
                               void *arg);

/** How messages reach the read callback. The callback sees the same message whichever it is. */
enum evzmq_receive_mode {
    /** Whatever was measured to be fastest: today in place, for every size. */
    EVZMQ_RECEIVE_AUTO = 0,
    EVZMQ_RECEIVE_INTO, /**< copied into the base's receive buffer; larger ones than that spill */
    EVZMQ_RECEIVE_IN_PLACE, /**< decoded in libzmq's own memory */
    EVZMQ_RECEIVE_OWNED /**< copied into a fresh allocation each; for comparison, not for use */
};

/** What happens to a message above evzmq_socket_set_max_message(). */
enum evzmq_oversize_policy {
    EVZMQ_OVERSIZE_DROP = 0, /**< dropped, counted, and one EVZMQ_EVENT_MESSAGE_TOO_LARGE */
    EVZMQ_OVERSIZE_DELIVER /**< delivered all the same, and counted as a spill where it did not fit
                            */
};

/**
 * How much one pass may do before the loop turns to other events. Whatever is left goes on in the
 * next turn of the loop, through a zero-delay timer. Any limit reached ends the pass. 0 in a field
 * means its default; the defaults and their reason stand in plugin/drain.h.
 */
struct evzmq_budget {
    size_t size; /**< sizeof(struct evzmq_budget) */
    size_t read_messages; /**< messages received */
    size_t read_bytes; /**< bytes received */
    unsigned read_usec; /**< microseconds, callbacks included; looked at every few messages */
    size_t write_messages; /**< messages sent from the queue */
    size_t write_bytes; /**< bytes sent from the queue */
    unsigned write_usec; /**< microseconds for that */
};

/** The default limit of the output queue, in messages. */
#define EVZMQ_OUTPUT_MESSAGES_DEFAULT 1000u
/** The default limit of the output queue, in bytes. */
#define EVZMQ_OUTPUT_BYTES_DEFAULT (64u * 1024u * 1024u)

/**
 * Puts a ZeroMQ socket on an event base.
 *
 * A ROUTER gets ZMQ_ROUTER_MANDATORY, without which it drops messages to unknown and to full peers
 * without a word; whoever wants that sets the option to 0 afterwards. No other option is changed,
 * but see EVZMQ_OPT_CLOSE_ON_FREE.
 *
 * New sockets have EV_WRITE enabled and EV_READ not, as bufferevents do, the raw codec and no
 * callbacks. Messages that were waiting are noticed.
 *
 * Thread: the one that will run the base (or any, before the base runs). Callbacks: yes.
 *
 * @param base        the event base; must outlive the socket. libevent tells nobody when a base is
 * freed: the free of a socket that is still on it then uses freed memory.
 * @param zmq_socket  a socket of any ordinary type, made by the caller with zmq_socket(3); only
 * this library may use it until the free. With EVZMQ_OPT_CLOSE_ON_FREE it belongs to the result, on
 * success. Closing it meanwhile is a bug as freeing it twice would be: libzmq frees it, and whether
 * a later call finds ENOTSOCK there is luck.
 * @param options     a set of ::evzmq_options
 * @return a socket that the caller must free; or NULL with EINVAL (NULL, unknown options), EBUSY
 * (the ZeroMQ socket is attached already), ENOTSUP (a draft type, which has no ZMQ_FD), ENOTSOCK or
 * ETERM (from libzmq; a context that is being terminated may still be noticed only in the first
 * turn of the loop, as EVZMQ_EVENT_TERMINATED), ENOMEM, ECHILD (the base has sockets of the parent
 * process: see evzmq_after_fork())
 */
EVZMQ_API struct evzmq_socket *evzmq_socket_new(struct event_base *base, void *zmq_socket,
                                                unsigned options);

/**
 * Takes a socket off its base and frees it, at once. Messages still queued are discarded without a
 * word: ask evzmq_socket_get_queued() first, or use evzmq_socket_shutdown(). Cancels the callback
 * of a pending shutdown.
 *
 * Thread: loop. Callbacks: yes, also the socket's own: after the call none of its callbacks runs.
 * In a forked child: allowed; releases memory only.
 *
 * @param socket  may be NULL; freeing twice is a bug, as with free()
 */
EVZMQ_API void evzmq_socket_free(struct evzmq_socket *socket);

/**
 * Sets the callbacks and their argument. Each may be NULL: without a read callback nothing is
 * received, so messages stay in ZeroMQ; without an event callback events are counted only. In a
 * callback the change applies from the next message on.
 *
 * Thread: loop. Callbacks: yes.
 */
EVZMQ_API void evzmq_socket_setcb(struct evzmq_socket *socket, evzmq_read_cb read_cb,
                                  evzmq_write_cb write_cb, evzmq_event_cb event_cb, void *arg);

/**
 * Gives back what evzmq_socket_setcb() set. Each output may be NULL.
 *
 * Thread: loop. Callbacks: yes.
 */
EVZMQ_API void evzmq_socket_getcb(const struct evzmq_socket *socket, evzmq_read_cb *out_read_cb,
                                  evzmq_write_cb *out_write_cb, evzmq_event_cb *out_event_cb,
                                  void **out_arg);

/**
 * The event base. Thread: any. Callbacks: yes.
 *
 * @return never NULL for a socket that is not NULL
 */
EVZMQ_API struct event_base *evzmq_socket_get_base(const struct evzmq_socket *socket);

/**
 * The ZeroMQ socket, for zmq_setsockopt(3), zmq_bind(3), zmq_connect(3) and the like. Call
 * evzmq_socket_touch() after anything that receives, sends or reads ZMQ_EVENTS, and after bind and
 * connect.
 *
 * zmq_disconnect(3) is for the socket's own read callback, where no message is half received, or
 * for after the free. A message of more than 256 parts may take several turns of the loop, and
 * libzmq 4.3.4 aborts the process (fq.cpp, line 112) when its connection is disconnected in
 * between; plain libzmq does after one part of two.
 *
 * Thread: loop. Callbacks: yes.
 */
EVZMQ_API void *evzmq_socket_get_zmq_socket(const struct evzmq_socket *socket);

/**
 * What is in the output queue.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param out_bytes  may be NULL
 * @return the number of messages
 */
EVZMQ_API size_t evzmq_socket_get_queued(const struct evzmq_socket *socket, size_t *out_bytes);

/**
 * Enables directions. Messages that arrived while reading was disabled are delivered without new
 * traffic.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param events  EV_READ, EV_WRITE or both, from `<event2/event.h>`
 * @return 0, or -1 with EINVAL (NULL or other bits), ENOTSUP (EV_READ on a PUSH or PUB socket),
 * ESHUTDOWN, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_enable(struct evzmq_socket *socket, short events);

/**
 * Disables directions. From a read callback: no further message is delivered. With EV_WRITE
 * disabled writes are queued, not sent.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_disable(struct evzmq_socket *socket, short events);

/**
 * Which directions are enabled: a set of EV_READ and EV_WRITE.
 *
 * Thread: loop. Callbacks: yes.
 */
EVZMQ_API short evzmq_socket_get_enabled(const struct evzmq_socket *socket);

/**
 * Sets the codec that decodes received messages and encodes written values. In a read callback the
 * change applies from the next message on. It applies to the last part of a message; XPUB's
 * subscription messages are never decoded.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param codec  the socket takes a reference of its own; NULL for the raw codec
 * @return 0, or -1 with EINVAL, ENOTSUP (another codec than raw on STREAM; one that cannot pack or
 * unpack while the socket does: see packing.h), ENOMEM (an open frame stays open), ETERM,
 * ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_set_codec(struct evzmq_socket *socket, struct evzmq_codec *codec);

/**
 * Chooses how messages reach the read callback. EVZMQ_RECEIVE_AUTO is the default.
 *
 * Thread: loop. Callbacks: yes, from the next message on.
 *
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_set_receive_mode(struct evzmq_socket *socket,
                                            enum evzmq_receive_mode mode);

/**
 * Limits the size of received messages. Everything around a dropped message is delivered. The limit
 * acts once libzmq has the message in memory; ZMQ_MAXMSGSIZE of zmq_setsockopt(3), set before bind
 * or connect, acts earlier, for each part, and disconnects the peer. Sockets of an evzmq_context
 * have it set. libzmq's own default is no limit, with which nine bytes of a peer reserve whatever
 * memory they announce.
 *
 * Neither bounds a message whose last part never comes: see "What remains" in <evzmq/context.h>.
 *
 * On REP a dropped request is answered with an empty reply unless the event callback answers it.
 *
 * Thread: loop. Callbacks: yes, from the next message on.
 *
 * @param bytes   of all parts of one message; 0: no limit (the default)
 * @param parts   of one message; 0: no limit (the default)
 * @param policy  what happens to larger ones
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_set_max_message(struct evzmq_socket *socket, size_t bytes, size_t parts,
                                           enum evzmq_oversize_policy policy);

/**
 * Sets the priority of the socket's events, with libevent's meaning: a busy higher priority starves
 * lower ones (event_priority_set(3)).
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param priority  from 0, the most urgent, to the base's number of priorities minus 1
 * @return 0, or -1 with EINVAL, ENOMEM, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_priority_set(struct evzmq_socket *socket, int priority);

/**
 * Sets how long a direction may be idle. The read timeout runs while reading is enabled and there
 * is a read callback, and starts again with each message; the write timeout runs while messages are
 * queued and writing is enabled, and starts again with each one sent. When one passes, its
 * direction is disabled and an event tells, as with bufferevents.
 *
 * Where the loop stood still, because the process was stopped or a callback took long, a timeout
 * that is found passed more than 100 ms late runs for 100 ms more: what came meanwhile may still
 * wait to be read.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param read_timeout,write_timeout  NULL for none (the default)
 * @return 0, or -1 with EINVAL (NULL socket, a negative or malformed time), ENOMEM, ETERM,
 * ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_set_timeouts(struct evzmq_socket *socket,
                                        const struct timeval *read_timeout,
                                        const struct timeval *write_timeout);

/**
 * Sets how much one pass may do.
 *
 * Thread: loop. Callbacks: yes, from the next pass on.
 *
 * @param budget  copied; NULL for the defaults
 * @return 0, or -1 with EINVAL (size unknown), ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_set_budget(struct evzmq_socket *socket,
                                      const struct evzmq_budget *budget);

/**
 * Sets the hard limits of the output queue. A write that would exceed one fails with EAGAIN and the
 * message stays the caller's. A message larger than the byte limit is accepted when the queue is
 * empty, so that every message can be sent.
 *
 * On ROUTER one peer may use at most as much of the queue as is left for the others, so that a peer
 * that does not read cannot take it all.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param messages,bytes  0 for the defaults, EVZMQ_OUTPUT_MESSAGES_DEFAULT and
 * EVZMQ_OUTPUT_BYTES_DEFAULT; SIZE_MAX for no limit. What is queued already stays.
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_set_output_limit(struct evzmq_socket *socket, size_t messages,
                                            size_t bytes);

/**
 * Sets the watermarks of the output queue, in bytes. At the low one the write callback runs (see
 * ::evzmq_write_cb); at the high one EVZMQ_EVENT_HIGH_WATERMARK tells, once, before the queue is
 * full and writes fail. It tells again after the queue was at the low mark, or when it reaches a
 * high mark that was set above what was queued then.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param low_bytes   0 by default: when the queue is empty
 * @param high_bytes  0 for none (the default); otherwise above low_bytes
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_set_output_watermark(struct evzmq_socket *socket, size_t low_bytes,
                                                size_t high_bytes);

/**
 * Sends a copy of some bytes as a message of one part, at once where ZeroMQ takes it, otherwise
 * through the output queue. Success means that the message is sent or queued; it does not mean that
 * a peer has it.
 *
 * Order is kept among all writes of a socket; on ROUTER, among all writes to one peer.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param data  @p size bytes; may be NULL when @p size is 0
 * @return 0, or -1 with EINVAL (also a message of the wrong number of parts: ROUTER takes a routing
 * id and at least one part, STREAM a routing id and one part), ENOMEM, EAGAIN (the output queue is
 * full), EFSM (a REQ with a request in flight, a REP without a request), EHOSTUNREACH (ROUTER with
 * ZMQ_ROUTER_MANDATORY: no such peer; STREAM too), ENOTSUP (a receive-only type), ESHUTDOWN (after
 * evzmq_socket_shutdown()), EINTR (a signal, many times in a row), ETERM, ENOTSOCK, ECHILD, or
 * another error of zmq_msg_send(3). Nothing was sent then.
 */
EVZMQ_API int evzmq_socket_write(struct evzmq_socket *socket, const void *data, size_t size);

/**
 * Sends copies of several runs of bytes as one message with as many parts: all of it or nothing.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param parts  @p count runs of bytes, in order
 * @param count  at least 1
 * @return as evzmq_socket_write()
 */
EVZMQ_API int evzmq_socket_write_parts(struct evzmq_socket *socket, const struct evzmq_bytes *parts,
                                       size_t count);

/**
 * Sends an owned message without copying it.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param message  on success it belongs to the socket and must not be touched again; on failure it
 * stays the caller's, unchanged
 * @return as evzmq_socket_write(); EINVAL also for a message without parts and for one lent to a
 * callback (take it first)
 */
EVZMQ_API int evzmq_socket_write_message(struct evzmq_socket *socket,
                                         struct evzmq_message *message);

/**
 * Encodes a value with the socket's codec, straight into the memory of a message, and sends it as
 * one part; or as one record of a frame, where evzmq_socket_set_packing() says so.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param value  of the codec's type: `const struct evzmq_bytes *` for the raw codec, `const
 * msgpack_object *` for msgpack
 * @return as evzmq_socket_write(); also ENOTSUP (a codec that does not encode), and what the
 * codec's encoder says: EINVAL, EOVERFLOW
 */
EVZMQ_API int evzmq_socket_write_value(struct evzmq_socket *socket, const void *value);

/**
 * Answers a request: sends the envelope's parts, then a copy of the bytes.
 *
 * A REP is for peers that are trusted. With libzmq 4.3.4 a message that a peer sends it without an
 * empty part in front, when the peer has gone by the time the message is read, costs another peer
 * its answer: the next reply is dropped, and this call succeeds (plain libzmq, 20 rounds of 20;
 * router_t::rollback(), router.cpp). A ROUTER has no such fault, and answers REQ peers as well.
 *
 * Thread: loop. Callbacks: yes, now or from any later one (with evzmq_envelope_dup()).
 *
 * @param envelope  from evzmq_message_get_envelope() of the request; on REP its parts are libzmq's
 * business, so that any envelope or NULL will do
 * @return as evzmq_socket_write(); EINVAL also for a NULL envelope on another type than REP
 */
EVZMQ_API int evzmq_socket_reply(struct evzmq_socket *socket, const struct evzmq_envelope *envelope,
                                 const void *data, size_t size);

/**
 * Answers a request with a value that the socket's codec encodes.
 *
 * Thread: loop. Callbacks: yes, now or from any later one.
 *
 * @return as evzmq_socket_reply() and evzmq_socket_write_value()
 */
EVZMQ_API int evzmq_socket_reply_value(struct evzmq_socket *socket,
                                       const struct evzmq_envelope *envelope, const void *value);

/**
 * Receives one message without the loop, if one is there.
 *
 * The receive calls read ZeroMQ's own queue, so that back-pressure stays ZeroMQ's. A message that
 * cannot be decoded is returned like any other, with no value and its error in
 * evzmq_message_get_decode_error(). One above evzmq_socket_set_max_message() with
 * EVZMQ_OVERSIZE_DROP is dropped and counted, and the next one is looked at. On REP, an undecodable
 * request waits for its reply like any other.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param out  a message owned by the caller, decoded with the socket's codec
 * @return 0, or -1 with EAGAIN (none there), EBUSY (EV_READ is enabled: the callbacks receive),
 * EFSM, ENOTSUP, ESHUTDOWN, ETERM, ENOTSOCK, EINTR (a signal, many times in a row), ENOMEM, EINVAL,
 * ECHILD
 */
EVZMQ_API int evzmq_socket_try_recv(struct evzmq_socket *socket, struct evzmq_message **out);

/**
 * Receives all messages that are there, up to a number, as evzmq_socket_try_recv() does.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param out  room for @p max messages; those written belong to the caller
 * @return how many (0: none there), or -1 with the errors of evzmq_socket_try_recv() but EAGAIN
 * when not even one could be received
 */
EVZMQ_API int evzmq_socket_recv_many(struct evzmq_socket *socket, struct evzmq_message **out,
                                     int max);

/**
 * Receives one message and runs the event loop until it is there: other events of the base are
 * served meanwhile. Never takes a message that it does not return.
 *
 * Thread: loop. Callbacks: no (EDEADLK).
 *
 * @param timeout  NULL to wait for ever
 * @param out      a message owned by the caller
 * @return 0, or -1 with ETIMEDOUT, EDEADLK (inside a callback of the base: libevent's loop is
 * not re-entrant; in one of libevent's own it is noticed only where it would have to wait), EINTR
 * (event_base_loopbreak() or event_base_loopexit()), ECANCELED (the socket was freed meanwhile),
 * and those of evzmq_socket_try_recv() but EAGAIN
 */
EVZMQ_API int evzmq_socket_recv(struct evzmq_socket *socket, const struct timeval *timeout,
                                struct evzmq_message **out);

/**
 * Says that the raw socket was used behind the adapter's back. ZMQ_FD signals edges only, and every
 * zmq_send(3), zmq_recv(3) or reading of ZMQ_EVENTS may eat one (zmq_getsockopt(3), ZMQ_FD); this
 * call has the adapter look again in the next turn of the loop.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_touch(struct evzmq_socket *socket);

/**
 * A shutdown has ended.
 *
 * Runs once, in the loop thread from the base's dispatch. May call anything, evzmq_socket_free()
 * included.
 *
 * @param handed_over      messages that went from the queue to ZeroMQ during the shutdown; what
 * ZeroMQ does with them depends on its linger and the peer (see EVZMQ_OPT_CLOSE_ON_FREE)
 * @param not_handed_over  messages still in the queue when the deadline passed; they stay there
 * until the free and are not sent any more
 */
typedef void (*evzmq_shutdown_cb)(struct evzmq_socket *socket, uint64_t handed_over,
                                  uint64_t not_handed_over, void *arg);

/**
 * Ends a socket in order: stops reading, refuses later writes (ESHUTDOWN, counted), sends what is
 * queued, in the loop, and reports when the queue is empty or the deadline has passed; nothing is
 * sent after that. The timeouts of evzmq_socket_set_timeouts() no longer run. Frees nothing.
 *
 * Thread: loop. Callbacks: yes. A second call does nothing and returns 0.
 *
 * @param deadline  relative to now; NULL for none, {0, 0} to report in the next turn of the loop
 * @param done_cb   may be NULL
 * @return 0, or -1 with EINVAL, ENOMEM, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_shutdown(struct evzmq_socket *socket, const struct timeval *deadline,
                                    evzmq_shutdown_cb done_cb, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_SOCKET_H */
