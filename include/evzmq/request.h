/**
 * @file request.h
 * Requests and their replies, many at a time: a requester on a DEALER socket. Each request has a
 * callback of its own, a deadline, and retries where wanted.
 *
 *     requester, on DEALER   [id] [] [request]  -->  ROUTER or REP
 *                            [id] [] [reply]    <--
 *
 * On the wire a request is an id of EVZMQ_REQUEST_ID_BYTES bytes, an empty part, and the parts of
 * the user's request. The id and the empty part are what ROUTER and REP take for the way back
 * (RFC 28 of ZeroMQ, "address envelope"): a plain REP server sends them back without knowing of
 * them, and so does whoever answers with an envelope. Nothing else is asked of a server, and none
 * needs this library. An id is 8 bytes that tell this requester from others, processes that were
 * started anew under the same routing id included, and 8 bytes that count its requests; to servers
 * it means nothing.
 *
 * The server's side needs no object of its own. On a ROUTER socket the read callback gets the
 * request, whose envelope (evzmq_message_get_envelope()) is the way back to a requester, to a plain
 * REQ, also with ZMQ_REQ_CORRELATE, and to peers behind any number of proxies. It answers with
 * evzmq_socket_reply() or evzmq_socket_reply_value() at once, or from any later callback and in any
 * order with a copy of the envelope (evzmq_envelope_dup()). A peer that is gone by then costs an
 * error, EHOSTUNREACH. On REP the same calls answer one request after the other.
 *
 * What is promised: each request accepted ends in exactly one call of its callback, with a reply or
 * with an error, unless it is cancelled or its requester freed. What is not: that a request which
 * failed was not carried out, nor, with retries, that it was carried out once only. Retries repeat
 * the same message under the same id, perhaps to another server; a server for which that matters
 * compares ids (the part before the last of the envelope).
 *
 * Thread: everything here runs in the loop thread of the socket, and in no other.
 */
#ifndef EVZMQ_REQUEST_H
#define EVZMQ_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include <sys/time.h>

#include <evzmq/base.h>
#include <evzmq/message.h>
#include <evzmq/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evzmq_requester;

/** The size of the id before a request. */
#define EVZMQ_REQUEST_ID_BYTES 16

/** What a requester is made of. 0 in a field means its default. */
struct evzmq_requester_options {
    size_t size; /**< sizeof(struct evzmq_requester_options) */

    unsigned retries_max; /**< how often a request without a reply is sent again; default 0, never.
                             The deadline ends a request whether or not retries are left. With
                             retries a request is sent in the next turn of the loop, and its message
                             is held. */
    unsigned retry_ms; /**< how long after a request was made it is sent again; doubled for each
                          retry after the first; default EVZMQ_REQUESTER_RETRY_MS. One that still
                          waits for ZeroMQ when it is due is not: nothing waits twice. */
    unsigned retry_max_ms; /**< the longest that grows to; default EVZMQ_REQUESTER_RETRY_MAX_MS */

    size_t outstanding_max; /**< limit of requests without an end; SIZE_MAX: none; default
                               EVZMQ_REQUESTER_OUTSTANDING_DEFAULT. A request takes some 150 bytes,
                               whatever its size, unless its message is held: */
    size_t held_bytes_max; /**< limit of the bytes of messages that the requester holds: requests
                              that wait for ZeroMQ to take them, and those that may be sent again;
                              SIZE_MAX: none; default EVZMQ_REQUESTER_HELD_BYTES_DEFAULT. A larger
                              message is accepted when none is held. */
};

/** The default of evzmq_requester_options::retry_ms. */
#define EVZMQ_REQUESTER_RETRY_MS 1000u
/** The default of evzmq_requester_options::retry_max_ms. */
#define EVZMQ_REQUESTER_RETRY_MAX_MS 30000u
/** The default of evzmq_requester_options::outstanding_max. */
#define EVZMQ_REQUESTER_OUTSTANDING_DEFAULT 100000u
/** The default of evzmq_requester_options::held_bytes_max. */
#define EVZMQ_REQUESTER_HELD_BYTES_DEFAULT (64u * 1024u * 1024u)

/**
 * A request has ended. Once for each request that is neither cancelled nor outstanding when its
 * requester is freed.
 *
 * Runs in the loop thread from the base's dispatch, never from inside a call of this header. The
 * request is over by then: the callback may make others, cancel others, and call anything,
 * evzmq_requester_free() and evzmq_socket_free() included.
 *
 * @param request  its number, as evzmq_request() gave it
 * @param error    0: there is a reply. Otherwise:
 * - ETIMEDOUT: none came before the deadline;
 * - EBADMSG: the reply cannot be decoded; evzmq_message_get_decode_error() of @p reply says why;
 * - ENOMEM: there was no memory to decode it;
 * - ECANCELED: none came before the deadline of evzmq_requester_shutdown();
 * - ESHUTDOWN: the socket was freed or shut down;
 * - ETERM, ENOTSOCK: the context was terminated, or the ZeroMQ socket closed;
 * - another one: ZeroMQ refused the message for good (EVZMQ_EVENT_UNDELIVERABLE).
 * @param reply    with the errors 0, EBADMSG and ENOMEM; otherwise NULL. Lent until the callback
 * returns; evzmq_message_take() keeps it. Its parts 0 and 1 are id and delimiter, which are its
 * envelope; the server's parts begin with part 2, and its value is that of the last one, decoded
 * with the socket's codec: NULL where that part is empty.
 * @param arg      as given with the request
 */
typedef void (*evzmq_reply_cb)(struct evzmq_requester *requester, int64_t request, int error,
                               struct evzmq_message *reply, void *arg);

/**
 * There is room for a request after one was refused with EAGAIN. Once for each time that requests
 * were refused.
 *
 * Runs in the loop thread from the base's dispatch. May call anything, evzmq_requester_free()
 * included.
 */
typedef void (*evzmq_requester_write_cb)(struct evzmq_requester *requester, void *arg);

/**
 * Makes a requester on a socket, whose reading and callbacks are the requester's business from then
 * on: it sets the callbacks and enables EV_READ. A socket has one requester at most. Everything
 * else stays the user's: codec, budgets, priority, evzmq_socket_set_max_message() and the rest, and
 * so does the socket itself. It may be freed before the requester, or after it;
 * evzmq_socket_shutdown() leaves it without callbacks, and ends requests as freeing it does: for an
 * orderly end see evzmq_requester_shutdown().
 *
 * While EV_READ is disabled replies wait in ZeroMQ and deadlines go on. What is written to the
 * socket by other calls than those of this header is sent, and what comes back for it is counted as
 * malformed.
 *
 * With several servers connected, ZeroMQ sends to them in turn. It queues for a server that is not
 * there, unless ZMQ_IMMEDIATE is set before zmq_connect(3); set it where a request had better wait
 * here, where its deadline can still take it back, or go to another server.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param socket   a DEALER
 * @param options  copied; NULL for the defaults
 * @return a requester that the caller must free; or NULL with EINVAL (NULL socket, options of
 * another size), ENOTSUP (another type than DEALER), EBUSY (it has a requester), ESHUTDOWN, ETERM,
 * ENOTSOCK, ENOMEM, ECHILD
 */
EVZMQ_API struct evzmq_requester *
evzmq_requester_new(struct evzmq_socket *socket, const struct evzmq_requester_options *options);

/**
 * Frees a requester, at once. Outstanding requests are forgotten without a word: no callback runs
 * for them, and those that still wait are not sent. Cancels the callback of a pending shutdown. The
 * socket is left without callbacks and with EV_READ disabled, as a new one; replies that come then
 * are whoever's who reads it.
 *
 * Thread: loop. Callbacks: yes, also the requester's own: after the call none of its callbacks
 * runs. In a forked child: allowed; releases memory only.
 *
 * @param requester  may be NULL
 */
EVZMQ_API void evzmq_requester_free(struct evzmq_requester *requester);

/**
 * Sets the callbacks for what is no reply, and their argument; each may be NULL.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param write_cb  there is room again
 * @param event_cb  the socket's events, as evzmq_socket_setcb() has it: all but those that end a
 * request, which its own callback is told of. EVZMQ_EVENT_TERMINATED comes before the callbacks of
 * the requests that it ends. EVZMQ_EVENT_MESSAGE_TOO_LARGE cannot say whose reply was dropped: that
 * request goes on.
 */
EVZMQ_API void evzmq_requester_setcb(struct evzmq_requester *requester,
                                     evzmq_requester_write_cb write_cb, evzmq_event_cb event_cb,
                                     void *arg);

/**
 * The socket.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return NULL once it was freed, shut down or terminated, and for NULL
 */
EVZMQ_API struct evzmq_socket *evzmq_requester_get_socket(const struct evzmq_requester *requester);

/**
 * Sends a request: a value that the socket's codec encodes.
 *
 * The first argument is the requester, not its socket: it is the requester that has the limits, the
 * numbers and the deadlines, and that a reply callback needs in order to ask again.
 *
 * A request that ZeroMQ does not take at once waits in the requester, in order, and is sent when it
 * does. One that ends before is not sent any more; but the first of those that wait may lie in the
 * socket's output queue already, and is sent all the same.
 *
 * Thread: loop. Callbacks: yes. Runs no callback itself.
 *
 * @param value        as evzmq_socket_write_value()
 * @param deadline_ms  milliseconds from now until the request ends without a reply; 0: in the next
 * turn of the loop; -1: never, also after its last retry
 * @param reply_cb     not NULL
 * @param arg          given to @p reply_cb
 * @return the number of the request, for evzmq_request_cancel(): at least 1, each higher than the
 * one before; or -1 with EINVAL (NULL, a deadline below -1, and what the codec says), EAGAIN (a
 * limit of ::evzmq_requester_options is reached; the write callback tells when there is room),
 * ENOMEM, ENOTSUP, EOVERFLOW (from the codec), ESHUTDOWN (the requester or its socket was shut
 * down, or the socket freed), EINTR (a signal, many times in a row), ETERM, ENOTSOCK, ECHILD, or
 * another error of zmq_msg_send(3). Nothing was sent then, and @p reply_cb will not run.
 */
EVZMQ_API int64_t evzmq_request(struct evzmq_requester *requester, const void *value,
                                int deadline_ms, evzmq_reply_cb reply_cb, void *arg);

/**
 * Sends a request: a copy of some bytes, whatever the socket's codec. The codec decodes the reply
 * all the same.
 *
 * Thread: loop. Callbacks: yes. Runs no callback itself.
 *
 * @param data  @p size bytes; may be NULL when @p size is 0
 * @return as evzmq_request()
 */
EVZMQ_API int64_t evzmq_request_bytes(struct evzmq_requester *requester, const void *data,
                                      size_t size, int deadline_ms, evzmq_reply_cb reply_cb,
                                      void *arg);

/**
 * Sends a request of any number of parts, without copying large ones.
 *
 * Thread: loop. Callbacks: yes. Runs no callback itself.
 *
 * @param message  an owned message of at least one part. On success it belongs to the requester and
 * must not be touched again; on failure it stays the caller's, unchanged.
 * @return as evzmq_request(); EINVAL also for a message lent to a callback (take it first)
 */
EVZMQ_API int64_t evzmq_request_message(struct evzmq_requester *requester,
                                        struct evzmq_message *message, int deadline_ms,
                                        evzmq_reply_cb reply_cb, void *arg);

/**
 * Forgets a request: its callback will not run. It is not sent (again) where it waits; what was
 * sent is with ZeroMQ and the server, and its reply will be counted as late.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param request  its number
 * @return 0, or -1 with ENOENT (no such request, or it has ended), EINVAL (NULL), ECHILD
 */
EVZMQ_API int evzmq_request_cancel(struct evzmq_requester *requester, int64_t request);

/**
 * A shutdown has ended: no request is outstanding any more. Runs once, in the loop thread from the
 * base's dispatch, after the callback of the last request. May call anything,
 * evzmq_requester_free() included.
 *
 * @param replied  requests that got their reply during the shutdown
 * @param failed   requests that ended otherwise during the shutdown, cancelled ones included
 */
typedef void (*evzmq_requester_shutdown_cb)(struct evzmq_requester *requester, uint64_t replied,
                                            uint64_t failed, void *arg);

/**
 * Ends a requester in order: refuses later requests (ESHUTDOWN) and waits, in the loop, for the
 * outstanding ones, whose deadlines and retries go on. Those without a reply when @p deadline has
 * passed end with ECANCELED. Frees nothing, and leaves the socket as it is.
 *
 * Thread: loop. Callbacks: yes. A second call does nothing and returns 0.
 *
 * @param deadline  relative to now; NULL for none, {0, 0} to end all of them in the next turn of
 * the loop
 * @param done_cb   may be NULL
 * @return 0, or -1 with EINVAL, ENOMEM, ECHILD
 */
EVZMQ_API int evzmq_requester_shutdown(struct evzmq_requester *requester,
                                       const struct timeval *deadline,
                                       evzmq_requester_shutdown_cb done_cb, void *arg);

/**
 * Counters of a requester; gauges are marked so. At any time requests is the sum of replies,
 * undecodable, timed_out, failed, cancelled and outstanding.
 */
struct evzmq_requester_stats {
    size_t size; /**< set it to sizeof(struct evzmq_requester_stats) before the call */
    uint64_t requests; /**< accepted */
    uint64_t replies; /**< of those, ended with a reply */
    uint64_t undecodable; /**< with a reply that could not be decoded */
    uint64_t timed_out; /**< with ETIMEDOUT */
    uint64_t failed; /**< with another error */
    uint64_t cancelled; /**< by evzmq_request_cancel() */
    uint64_t retries; /**< times a request was sent again */
    uint64_t late; /**< replies dropped because their request had ended: replies after the deadline
                      or a cancel, and second replies to one request */
    uint64_t unknown; /**< replies dropped because their id was never given by this requester */
    uint64_t malformed; /**< messages dropped because they do not begin with an id and an empty
                           part, or have nothing behind them */
    uint64_t refused; /**< requests that failed with EAGAIN */
    uint64_t refused_after_end; /**< requests that failed with ESHUTDOWN, ETERM or ENOTSOCK */
    uint64_t outstanding; /**< gauge: without an end now */
    uint64_t outstanding_peak; /**< the largest the gauge has been */
    uint64_t waiting; /**< gauge: of those, not taken by ZeroMQ (again) yet */
    uint64_t held_bytes; /**< gauge: see evzmq_requester_options::held_bytes_max */
};

/**
 * Copies the counters of a requester. Counters are never reset.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param out  with its size set; a program built with an older, shorter struct gets the fields it
 * knows
 * @return 0, or -1 with EINVAL (NULL, or a size that is too small)
 */
EVZMQ_API int evzmq_requester_get_stats(const struct evzmq_requester *requester,
                                        struct evzmq_requester_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_REQUEST_H */
