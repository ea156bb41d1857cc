/**
 * @file worker.h
 * The worker's side of a pool: receives requests, sends answers, says that it is ready and alive,
 * and ends when it is told to or when its main process is gone. The main side is pool.h.
 *
 * A whole worker:
 *
 *     struct event_base *base = event_base_new();
 *     struct evzmq_worker *worker = evzmq_worker_new(base, argv[argc - 1], NULL);
 *     evzmq_worker_setcb(worker, on_request, NULL, NULL);
 *     event_base_dispatch(base);
 *     evzmq_worker_free(worker);
 *     event_base_free(base);
 *
 * Dispatch returns because an ended worker keeps nothing on its base.
 *
 * A process that a worker forks holds the worker's connections open until it ends or executes
 * another program. When the worker ends first and is started again, ZeroMQ still takes that process
 * for a receiver and gives it a share of the new worker's requests, which nobody reads: let forked
 * children execute something, or end with their worker.
 */
#ifndef EVZMQ_WORKER_H
#define EVZMQ_WORKER_H

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
struct evzmq_context;
struct evzmq_socket;
struct evzmq_worker;

/** For evzmq_worker_options::parent_death_signal. */
#define EVZMQ_WORKER_NO_SIGNAL (-1)

/** What a worker is made of. 0 in a field means its default. */
struct evzmq_worker_options {
    size_t size; /**< sizeof(struct evzmq_worker_options) */
    struct evzmq_context *context; /**< where the sockets are made; NULL: one of its own */
    struct evzmq_codec *codec; /**< of requests and answers; the worker takes a reference. NULL: raw
                                */
    /**
     * A worker that the pool started learns at once when its main process is gone, wherever it is
     * in its loop. One that is busy outside its loop would not, so where the system offers it
     * (Linux) the worker also asks to be sent this signal then. Default SIGKILL, which nothing can
     * hold up; EVZMQ_WORKER_NO_SIGNAL for none. The system sends it already when the thread that
     * made the pool ends.
     */
    int parent_death_signal;
    unsigned connect_ms; /**< how long connecting may take before the worker ends; default
                            as long as the pool waits (evzmq_pool_options::ready_ms) */
    unsigned disconnected_ms; /**< how long the worker may be without a connection before it takes
                                 the main process for gone; default EVZMQ_WORKER_DISCONNECTED_MS.
                                 (A main process that started it is watched directly.) */
    unsigned end_ms; /**< how long answers may take to go out at the end; default
                        EVZMQ_WORKER_END_MS */
    size_t output_messages; /**< limits of the output queue of answers, as in */
    size_t output_bytes; /**< evzmq_socket_set_output_limit() */
};

/** The default of evzmq_worker_options::disconnected_ms. */
#define EVZMQ_WORKER_DISCONNECTED_MS 5000u
/** The default of evzmq_worker_options::end_ms. */
#define EVZMQ_WORKER_END_MS 2000u

/** What happens to a worker. */
enum evzmq_worker_event_type {
    EVZMQ_WORKER_EVENT_READY = 1, /**< both sockets are connected for the first time, and the ready
                                     signal is sent */
    EVZMQ_WORKER_EVENT_END, /**< it is to end: reason. Once. Unless the callback ends it in its own
                               way, or says with evzmq_worker_hold() that it will later, the worker
                               ends itself: see evzmq_worker_shutdown(). */
    EVZMQ_WORKER_EVENT_ENDED, /**< it has ended and keeps nothing on the base any more. Once. */
    EVZMQ_WORKER_EVENT_WRITABLE, /**< the output queue of answers, once non-empty, is empty */
    EVZMQ_WORKER_EVENT_BAD_REQUEST, /**< a request that could not be decoded (error EBADMSG;
                                       message), or was not meant for this worker (EPROTO) */
    EVZMQ_WORKER_EVENT_ERROR /**< anything else; error */
};

/** Why a worker is to end. */
enum evzmq_worker_reason {
    EVZMQ_WORKER_REASON_NONE = 0, /**< it is not */
    EVZMQ_WORKER_REASON_ASKED, /**< the pool is shut down; all its requests came before */
    EVZMQ_WORKER_REASON_MAIN_GONE, /**< the main process is gone, or its connection is; or the
                                      worker's own context was terminated */
    EVZMQ_WORKER_REASON_NOT_CONNECTED /**< it never got through to the main process */
};

/** One event. Fields that the type does not speak of are 0. */
struct evzmq_worker_event {
    size_t size; /**< sizeof(struct evzmq_worker_event) of the library that made it */
    enum evzmq_worker_event_type type; /**< what happened */
    enum evzmq_worker_reason reason; /**< of EVZMQ_WORKER_EVENT_END: why */
    int error; /**< an errno value */
    uint64_t unsent; /**< of EVZMQ_WORKER_EVENT_ENDED: answers that did not go out */
    struct evzmq_message *message; /**< lent until the callback returns */
};

/**
 * A request has arrived and was decoded.
 *
 * Runs in the loop thread from the base's dispatch. May call anything, evzmq_worker_free()
 * included. It need not answer now: answers may follow later, in any order.
 *
 * @param message  lent until the callback returns. Part 0 is the header, the request begins at part
 * 1; its value is that of the last part.
 */
typedef void (*evzmq_worker_request_cb)(struct evzmq_worker *worker, struct evzmq_message *message,
                                        void *arg);

/**
 * Something other than a request: see ::evzmq_worker_event_type.
 *
 * Runs in the loop thread from the base's dispatch. May call anything, evzmq_worker_free()
 * included.
 *
 * @param event  lives until the callback returns
 */
typedef void (*evzmq_worker_event_cb)(struct evzmq_worker *worker,
                                      const struct evzmq_worker_event *event, void *arg);

/**
 * Makes a worker: connects to the pool and sends, once both its request and its response socket are
 * really connected (the handshakes are done), the ready signal, and from then on heartbeats.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param base        the event base; must outlive the worker
 * @param connection  from evzmq_pool_get_connection(), or the last argument of a program that the
 * pool started
 * @param options     copied; NULL for the defaults
 * @return a worker that the caller must free; or NULL with EINVAL (NULL, or not a connection
 * string), EPROTO (one of another version), ENOMEM, EMFILE, ESRCH (the main process is gone
 * already), and those of zmq_connect(3), ECHILD
 */
EVZMQ_API struct evzmq_worker *evzmq_worker_new(struct event_base *base, const char *connection,
                                                const struct evzmq_worker_options *options);

/**
 * Frees a worker, at once. Answers that wait in the output queue are discarded; those with ZeroMQ
 * go out within the linger of its context. With a context of its own it waits for that.
 *
 * Thread: loop. Callbacks: yes, also the worker's own: after the call none of its callbacks runs.
 * In a forked child: allowed; releases memory only.
 *
 * @param worker  may be NULL
 */
EVZMQ_API void evzmq_worker_free(struct evzmq_worker *worker);

/**
 * Sets the callbacks and their argument; each may be NULL. Without a request callback requests stay
 * in ZeroMQ, the word to end among them.
 *
 * Thread: loop. Callbacks: yes.
 */
EVZMQ_API void evzmq_worker_setcb(struct evzmq_worker *worker, evzmq_worker_request_cb request_cb,
                                  evzmq_worker_event_cb event_cb, void *arg);

/** The worker's identity, 0 to n - 1. Thread: loop. Callbacks: yes. */
EVZMQ_API unsigned evzmq_worker_get_identity(const struct evzmq_worker *worker);

/**
 * The socket that receives requests, for evzmq_socket_set_budget(), evzmq_socket_get_stats() and
 * the like. Its callbacks and its end are the worker's business.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return lives until the worker ends; NULL afterwards
 */
EVZMQ_API struct evzmq_socket *evzmq_worker_get_request_socket(const struct evzmq_worker *worker);

/**
 * The socket that sends answers, for the same purposes.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return lives until the worker ends; NULL afterwards
 */
EVZMQ_API struct evzmq_socket *evzmq_worker_get_response_socket(const struct evzmq_worker *worker);

/**
 * Sends a copy of some bytes as an answer.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param data   @p size bytes; may be NULL when @p size is 0
 * @param flags  0: the answer to a request, or the last one; EVZMQ_POOL_FLAG_MORE: others to the
 * same request follow
 * @return 0, or -1 with EINVAL, ENOMEM, EAGAIN (the output queue is full;
 * EVZMQ_WORKER_EVENT_WRITABLE tells when it is empty), ESHUTDOWN (after evzmq_worker_shutdown()),
 * EINTR (a signal, many times in a row), ETERM, ENOTSOCK, ECHILD. Nothing was sent then.
 */
EVZMQ_API int evzmq_worker_answer(struct evzmq_worker *worker, const void *data, size_t size,
                                  unsigned flags);

/**
 * Sends copies of several runs of bytes as one answer of as many parts.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return as evzmq_worker_answer()
 */
EVZMQ_API int evzmq_worker_answer_parts(struct evzmq_worker *worker,
                                        const struct evzmq_bytes *parts, size_t count,
                                        unsigned flags);

/**
 * Sends an owned message as an answer without copying it.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param message  on success it belongs to the worker and must not be touched again; on failure it
 * stays the caller's, unchanged
 * @return as evzmq_worker_answer()
 */
EVZMQ_API int evzmq_worker_answer_message(struct evzmq_worker *worker,
                                          struct evzmq_message *message, unsigned flags);

/**
 * Encodes a value with the worker's codec and sends it as an answer.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return as evzmq_worker_answer() and evzmq_socket_write_value()
 */
EVZMQ_API int evzmq_worker_answer_value(struct evzmq_worker *worker, const void *value,
                                        unsigned flags);

/**
 * In the callback of EVZMQ_WORKER_EVENT_END: the worker does not end by itself after the callback,
 * since answers are still being worked on. Call evzmq_worker_shutdown() when they are done. Should
 * the main process go meanwhile, the worker ends all the same.
 *
 * Thread: loop. Callbacks: yes, elsewhere it does nothing.
 */
EVZMQ_API void evzmq_worker_hold(struct evzmq_worker *worker);

/**
 * Ends a worker in order: receives no more, sends the answers that are queued within
 * evzmq_worker_options::end_ms, takes everything off the base and tells (EVZMQ_WORKER_EVENT_ENDED).
 * Frees nothing. Where nothing else is on the base, its dispatch returns then.
 *
 * Thread: loop. Callbacks: yes. A second call does nothing and returns 0.
 *
 * @return 0, or -1 with EINVAL, ENOMEM, ECHILD
 */
EVZMQ_API int evzmq_worker_shutdown(struct evzmq_worker *worker);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_WORKER_H */
