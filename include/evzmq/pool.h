/**
 * @file pool.h
 * The main side of a worker pool: fan out requests to worker processes, fan in their answers, see
 * every loss, end cleanly. The worker's side is worker.h.
 *
 *     main process                                     worker 0 .. n-1
 *     PUSH, one for each worker   -- requests -->      PULL
 *     PULL                        <-- answers --       PUSH
 *     PULL                        <-- ready signals -- PUSH
 *
 * The main side binds, workers connect: over ipc in the private directory of an evzmq_context, or
 * over tcp. Workers are started by the pool (evzmq_pool_options::worker_argv) or by somebody else,
 * on this machine or another, with a connection string (evzmq_pool_get_connection()).
 *
 * On the wire:
 * - A ready signal is one message of one part: one msgpack integer, the worker's identity. A worker
 *   sends the first when its request and its response socket are both connected, and repeats it as
 *   its heartbeat.
 * - A request and an answer begin with a header part: up to three msgpack integers one after the
 *   other, the worker's identity, the number of its start (0 for the first; where left out) and
 *   flags (::evzmq_pool_flags; 0 where left out). What follows are the parts of the user's message.
 *   The header is the envelope of the message (evzmq_message_get_envelope()), so its parts come
 *   after it, and the codec applies to the last one.
 * - A worker sends the header with EVZMQ_POOL_FLAG_CONNECTED and an empty part the way of its
 *   answers whenever both sockets have become connected.
 *
 * Ready signals and answers come by different sockets, so that an answer may be delivered before
 * the event that its worker is ready.
 *
 * A loss is seen and told, and not made good: what was handed to a worker that died is lost, and
 * what a connection held that broke. Each event says how many requests that may be.
 *
 * Thread: everything here runs in the loop thread, and in no other. SIGCHLD is left alone: the pool
 * reaps its own children, by their process ids, and no others.
 */
#ifndef EVZMQ_POOL_H
#define EVZMQ_POOL_H

#include <limits.h>
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
struct evzmq_event;
struct evzmq_pool;
struct evzmq_socket;

/** The largest number of workers of one pool. */
#define EVZMQ_POOL_WORKERS_MAX 4096u

/** Instead of a worker's number: the next one that can take a request, in turn. */
#define EVZMQ_POOL_NEXT UINT_MAX

/** Flags in the header of requests and answers. */
enum evzmq_pool_flags {
    EVZMQ_POOL_FLAG_MORE = 1 << 0, /**< an answer after which others to the same request follow */
    EVZMQ_POOL_FLAG_END = 1 << 1, /**< to a worker: the last message, without a request; end */
    EVZMQ_POOL_FLAG_CONNECTED = 1 << 2 /**< no answer: the worker is connected, or is so again */
};

/** What a pool is made of. 0 in a field means its default. */
struct evzmq_pool_options {
    size_t size; /**< sizeof(struct evzmq_pool_options) */

    /**
     * The program of the workers and its arguments, ended by NULL; copied. The pool starts it once
     * for each worker, with the worker's connection string added as the last argument. The path is
     * not searched for: it names a file. NULL: somebody else starts the workers.
     *
     * Workers inherit the environment, the standard streams and whatever else is not closed on
     * exec, not the signal mask: no signal is blocked in them. They stay in the process group of
     * the caller, so that a Ctrl-C at the terminal reaches them too.
     */
    const char *const *worker_argv;

    /**
     * NULL: ipc in the private directory of the context. Or "tcp://ADDRESS:PORT" to bind to: PORT
     * is * for ports that the system chooses, or the first of n + 2 ports in a row (ready signals,
     * answers, then the requests of worker 0, 1, ...).
     */
    const char *endpoint;

    /** tcp: the address that workers are told to connect to; NULL for the one in endpoint. To be
     * given with an endpoint such as "tcp://0.0.0.0:*" ("tcp://[::]:*"). Copied. */
    const char *advertised_address;

    unsigned ready_ms; /**< how long a worker may take, from its start, to become ready; default
                          EVZMQ_POOL_READY_MS */
    unsigned heartbeat_ms; /**< how often workers report; default EVZMQ_POOL_HEARTBEAT_MS */
    unsigned silence_ms; /**< a worker not heard of for so long is lost, and killed where the pool
                            started it; above heartbeat_ms, several times best; UINT_MAX: never;
                            default EVZMQ_POOL_SILENCE_MS. Heartbeats
                            come from the worker's loop: one that works on a request for longer than
                            this without returning to it is silent, too. */

    unsigned restarts_max; /**< how often a lost worker that the pool started is started again;
                              UINT_MAX: without a limit; default 0, never */
    unsigned restart_delay_ms; /**< before the first restart; doubled for each one after it, until
                                  the worker has become ready and has been so for as long as the
                                  delay; default EVZMQ_POOL_RESTART_DELAY_MS */
    unsigned restart_delay_max_ms; /**< default EVZMQ_POOL_RESTART_DELAY_MAX_MS */

    unsigned request_hwm; /**< how many requests ZeroMQ holds for a worker on each side, beyond
                             those in the output queue: what can be lost with it; default
                             EVZMQ_POOL_REQUEST_HWM */
    uint64_t unanswered_max; /**< credit: with so many requests unanswered, a worker gets no more
                                (EAGAIN); default no limit. For workers that answer each request.
                                What a loss or EVZMQ_POOL_EVENT_RECONNECTED has told of does not
                                count any more. */
    size_t output_messages; /**< limits of the output queue of each worker, as in */
    size_t output_bytes; /**< evzmq_socket_set_output_limit() */

    struct evzmq_codec
        *codec; /**< of requests and answers; the pool takes a reference. NULL: raw */
};

/** The default of evzmq_pool_options::ready_ms. */
#define EVZMQ_POOL_READY_MS 10000u
/** The default of evzmq_pool_options::heartbeat_ms. */
#define EVZMQ_POOL_HEARTBEAT_MS 1000u
/** The default of evzmq_pool_options::silence_ms. */
#define EVZMQ_POOL_SILENCE_MS 30000u
/** The default of evzmq_pool_options::restart_delay_ms. */
#define EVZMQ_POOL_RESTART_DELAY_MS 100u
/** The default of evzmq_pool_options::restart_delay_max_ms. */
#define EVZMQ_POOL_RESTART_DELAY_MAX_MS 10000u
/** The default of evzmq_pool_options::request_hwm. */
#define EVZMQ_POOL_REQUEST_HWM 100u

/** Where a worker is. */
enum evzmq_pool_state {
    EVZMQ_POOL_STARTING = 0, /**< started (or awaited), not yet heard of */
    EVZMQ_POOL_UP, /**< ready, and heard of lately */
    EVZMQ_POOL_LOSING, /**< its process has ended or is being ended; answers may still be on their
                          way */
    EVZMQ_POOL_WAITING, /**< lost, to be started again */
    EVZMQ_POOL_LOST, /**< lost for good. A worker that somebody else started may come back. */
    EVZMQ_POOL_ENDED /**< ended in the course of evzmq_pool_shutdown() */
};

/** Why a worker was lost. */
enum evzmq_pool_loss {
    EVZMQ_POOL_LOSS_NONE = 0, /**< it was not */
    EVZMQ_POOL_LOSS_EXITED, /**< its process exited; status is the exit status */
    EVZMQ_POOL_LOSS_KILLED, /**< a signal ended its process; status is the signal */
    EVZMQ_POOL_LOSS_SILENT, /**< not heard of for silence_ms. A process that the pool started was
                               killed then. */
    EVZMQ_POOL_LOSS_NEVER_READY, /**< no ready signal within ready_ms; likewise */
    EVZMQ_POOL_LOSS_NOT_STARTED /**< it could not be started again; error is set */
};

/** What an event callback is called for. */
enum evzmq_pool_event_type {
    EVZMQ_POOL_EVENT_READY = 1, /**< a worker is ready: for the first time, after a restart, or
                                   heard of again after a loss */
    EVZMQ_POOL_EVENT_LOST, /**< a worker is lost: once for each loss */
    EVZMQ_POOL_EVENT_WRITABLE, /**< a worker that refused a request with EAGAIN takes one again */
    EVZMQ_POOL_EVENT_RECONNECTED, /**< a worker that is up lost a connection and has it again, or
                                     another process took its place before it was missed. What the
                                     connection held is lost: at most unanswered requests, or their
                                     answers. They are written off; an answer to one that was not
                                     lost counts for a later one. */
    EVZMQ_POOL_EVENT_BAD_ANSWER, /**< an answer that could not be decoded, or without a header that
                                    makes sense (then worker is EVZMQ_POOL_NEXT); socket_event and
                                    message say more where they are set */
    EVZMQ_POOL_EVENT_ERROR /**< anything else; error, and socket_event where there is one */
};

/** One event. Fields that the type does not speak of are 0. */
struct evzmq_pool_event {
    size_t size; /**< sizeof(struct evzmq_pool_event) of the library that made it */
    enum evzmq_pool_event_type type; /**< what happened */
    unsigned worker; /**< its identity, 0 to n - 1 */
    enum evzmq_pool_loss loss; /**< of a loss: why */
    int status; /**< of a process that exited or was killed: exit status or signal; -1 where
                   somebody else reaped it. Otherwise 0 */
    int error; /**< an errno value */
    uint64_t unanswered; /**< of a loss or a reconnection: requests that went to the worker and had
                            no (last) answer when this event was made; they are lost, or their
                            answers are. Counts one last answer for each request. */
    uint64_t queued; /**< of a loss: requests that wait in its output queue. They go to the worker
                        when it comes back. */
    int restarting; /**< of a loss: whether it will be started again, */
    unsigned restart_delay_ms; /**< after this long */
    struct evzmq_message *message; /**< lent until the callback returns */
    const struct evzmq_event *socket_event; /**< what the socket said; until the callback returns */
};

/**
 * An answer has arrived and was decoded.
 *
 * Runs in the loop thread from the base's dispatch, while EV_READ is enabled. May call anything,
 * evzmq_pool_free() included.
 *
 * @param worker   who answers, 0 to n - 1
 * @param message  lent until the callback returns. Part 0 is the header, the answer begins at part
 * 1; its value is that of the last part.
 */
typedef void (*evzmq_pool_answer_cb)(struct evzmq_pool *pool, unsigned worker,
                                     struct evzmq_message *message, void *arg);

/**
 * Something other than an answer: see ::evzmq_pool_event_type.
 *
 * Runs in the loop thread from the base's dispatch. May call anything, evzmq_pool_free() included.
 *
 * @param event  lives until the callback returns
 */
typedef void (*evzmq_pool_event_cb)(struct evzmq_pool *pool, const struct evzmq_pool_event *event,
                                    void *arg);

/**
 * Makes a pool: binds its sockets and starts its workers, where it is told how.
 *
 * All n workers must be possible: when one socket cannot be made or one process not started, those
 * that were are ended again and the call fails. Before it makes anything the call looks whether the
 * limit of file descriptors leaves room for the sockets, their connections and the workers: libzmq
 * aborts the process when an ipc listener runs out of them.
 *
 * A process that the pool starts is killed by the system when the thread that made the pool ends,
 * where the system offers that (see evzmq_worker_options::parent_death_signal): make pools in a
 * thread that lives as long as they do.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param base       the event base; must outlive the pool
 * @param context    where the sockets are made; must outlive the pool
 * @param n_workers  1 to EVZMQ_POOL_WORKERS_MAX; their identities are 0 to n_workers - 1
 * @param options    copied; NULL for the defaults (workers that somebody else starts, over ipc)
 * @return a pool that the caller must free; or NULL with EINVAL, EMFILE (the limit of file
 * descriptors, or that of sockets in a context), ENOMEM, ENAMETOOLONG (a path of an ipc socket),
 * EADDRINUSE and others of zmq_bind(3), ENOENT, EACCES, EAGAIN and others of posix_spawn(3), ECHILD
 */
EVZMQ_API struct evzmq_pool *evzmq_pool_new(struct event_base *base, struct evzmq_context *context,
                                            unsigned n_workers,
                                            const struct evzmq_pool_options *options);

/**
 * Frees a pool, at once: processes that it started and that still run are killed (SIGKILL) and
 * reaped, sockets are closed, requests that wait are discarded without a word. Cancels the
 * callbacks of a pending ready check and of a pending shutdown. For an orderly end see
 * evzmq_pool_shutdown().
 *
 * A killed process is waited for, for up to a second where the system is slow to end it.
 *
 * Thread: loop. Callbacks: yes, also the pool's own: after the call none of its callbacks runs.
 * In a forked child: allowed; releases memory only, and no process is killed.
 *
 * @param pool  may be NULL
 */
EVZMQ_API void evzmq_pool_free(struct evzmq_pool *pool);

/**
 * Sets the callbacks and their argument; each may be NULL. Without an answer callback nothing is
 * delivered, whether or not EV_READ is enabled.
 *
 * Thread: loop. Callbacks: yes.
 */
EVZMQ_API void evzmq_pool_setcb(struct evzmq_pool *pool, evzmq_pool_answer_cb answer_cb,
                                evzmq_pool_event_cb event_cb, void *arg);

/**
 * Has answers delivered to the answer callback (EV_READ of the response socket). New pools have
 * that disabled, as sockets do.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_pool_enable(struct evzmq_pool *pool);

/**
 * Stops the delivery of answers: they stay in ZeroMQ, and for evzmq_pool_try_recv() and its like.
 * Everything else goes on.
 *
 * Thread: loop. Callbacks: yes; no further answer is delivered then.
 *
 * @return 0, or -1 with EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_pool_disable(struct evzmq_pool *pool);

/** The number of workers. Thread: loop. Callbacks: yes. @return 0 for NULL */
EVZMQ_API unsigned evzmq_pool_get_workers(const struct evzmq_pool *pool);

/**
 * The socket that receives answers, for evzmq_socket_set_budget(), evzmq_socket_set_receive_mode(),
 * evzmq_socket_set_max_message(), evzmq_socket_get_stats() and the like. Its callbacks and its end
 * are the pool's business.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return lives as long as the pool; NULL for NULL
 */
EVZMQ_API struct evzmq_socket *evzmq_pool_get_response_socket(const struct evzmq_pool *pool);

/**
 * The socket that sends requests to one worker, for the same purposes.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return lives as long as the pool; NULL with EINVAL
 */
EVZMQ_API struct evzmq_socket *evzmq_pool_get_request_socket(const struct evzmq_pool *pool,
                                                             unsigned worker);

/**
 * What evzmq_worker_new() needs to become this worker: printable, without spaces, to be passed as
 * one argument of a program. It holds no secret and gives no right: who can reach the endpoints can
 * connect.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return lives until the worker is started again, at most as long as the pool; NULL with EINVAL
 */
EVZMQ_API const char *evzmq_pool_get_connection(const struct evzmq_pool *pool, unsigned worker);

/**
 * Sends a copy of some bytes as a request to a worker, or to the next one in turn that is up and
 * has room for it.
 *
 * A worker that is not up yet has its requests wait in its output queue; EVZMQ_POOL_NEXT chooses
 * among those that are up only.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param worker  0 to n - 1, or EVZMQ_POOL_NEXT
 * @param data    @p size bytes; may be NULL when @p size is 0
 * @return the worker's identity, or -1 with EINVAL, ENOMEM, EAGAIN (the worker's output queue is
 * full or its credit spent; with EVZMQ_POOL_NEXT, those of all that are up, or none is up yet:
 * EVZMQ_POOL_EVENT_WRITABLE or EVZMQ_POOL_EVENT_READY tells when to try again), EHOSTUNREACH (the
 * worker, or all of them, lost for good), ESHUTDOWN (after evzmq_pool_shutdown()), EINTR (a signal,
 * many times in a row), ETERM, ENOTSOCK, ECHILD. Nothing was sent then.
 */
EVZMQ_API int evzmq_pool_send(struct evzmq_pool *pool, unsigned worker, const void *data,
                              size_t size);

/**
 * Sends copies of several runs of bytes as one request of as many parts.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param parts  @p count runs of bytes
 * @param count  at least 1
 * @return as evzmq_pool_send()
 */
EVZMQ_API int evzmq_pool_send_parts(struct evzmq_pool *pool, unsigned worker,
                                    const struct evzmq_bytes *parts, size_t count);

/**
 * Sends an owned message as a request without copying it.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param message  on success it belongs to the pool and must not be touched again; on failure it
 * stays the caller's, unchanged
 * @return as evzmq_pool_send()
 */
EVZMQ_API int evzmq_pool_send_message(struct evzmq_pool *pool, unsigned worker,
                                      struct evzmq_message *message);

/**
 * Encodes a value with the pool's codec and sends it as a request.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param value  of the codec's type
 * @return as evzmq_pool_send() and evzmq_socket_write_value()
 */
EVZMQ_API int evzmq_pool_send_value(struct evzmq_pool *pool, unsigned worker, const void *value);

/**
 * Receives one answer without the loop, if one is there; see evzmq_socket_try_recv(). Messages that
 * are no answers are dropped and counted.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param out_worker  who answers; may be NULL
 * @param out         a message owned by the caller; part 0 is the header
 * @return 0, or -1 with EAGAIN (none there), EBUSY (enabled: the callback receives), EINTR, ENOMEM,
 * EINVAL, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_pool_try_recv(struct evzmq_pool *pool, unsigned *out_worker,
                                  struct evzmq_message **out);

/**
 * Receives all answers that are there, up to a number.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param out_workers  room for @p max numbers, or NULL
 * @param out          room for @p max messages; those written belong to the caller
 * @return how many, or -1 with the errors of evzmq_pool_try_recv() but EAGAIN when not even one
 * could be received
 */
EVZMQ_API int evzmq_pool_recv_many(struct evzmq_pool *pool, unsigned *out_workers,
                                   struct evzmq_message **out, int max);

/**
 * Receives one answer and runs the event loop until it is there.
 *
 * Thread: loop. Callbacks: no (EDEADLK).
 *
 * @param timeout  NULL to wait for ever
 * @return 0, or -1 with ETIMEDOUT, EDEADLK (as evzmq_socket_recv()), EINTR, ECANCELED (the pool was
 * freed meanwhile), and those of evzmq_pool_try_recv() but EAGAIN
 */
EVZMQ_API int evzmq_pool_recv(struct evzmq_pool *pool, const struct timeval *timeout,
                              unsigned *out_worker, struct evzmq_message **out);

/**
 * A ready check has ended. Runs once, in the loop thread from the base's dispatch. May call
 * anything, evzmq_pool_free() included.
 *
 * @param ready  how many distinct workers are up
 * @param error  0: all of them; ETIMEDOUT: the deadline passed; EHOSTUNREACH: a worker that is
 * lost for good can never become ready; ECANCELED: the pool is shut down
 */
typedef void (*evzmq_pool_ready_cb)(struct evzmq_pool *pool, unsigned ready, int error, void *arg);

/**
 * Waits, in the loop, until every worker has reported, within one deadline for all of them. What
 * workers reported before counts, so a second check after a timeout waits only for those that are
 * missing.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param timeout   relative to now; NULL for none
 * @param ready_cb  not NULL
 * @return 0, or -1 with EINVAL, EBUSY (a check is going on), ESHUTDOWN, ECHILD
 */
EVZMQ_API int evzmq_pool_check_ready(struct evzmq_pool *pool, const struct timeval *timeout,
                                     evzmq_pool_ready_cb ready_cb, void *arg);

/** What became of a pool in its shutdown. */
struct evzmq_pool_report {
    size_t size; /**< sizeof(struct evzmq_pool_report) of the library that made it */
    uint64_t undelivered; /**< requests still in an output queue at the end: no worker got them */
    uint64_t unanswered; /**< requests that went to a worker and had no (last) answer */
    unsigned exited; /**< workers that ended by themselves */
    unsigned terminated; /**< those that needed a SIGTERM */
    unsigned killed; /**< those that needed a SIGKILL */
    unsigned left; /**< processes that did not end in spite of it; evzmq_pool_free() tries again */
};

/**
 * A shutdown has ended. Runs once, in the loop thread from the base's dispatch. May call anything,
 * evzmq_pool_free() included.
 *
 * @param report  lives until the callback returns
 */
typedef void (*evzmq_pool_shutdown_cb)(struct evzmq_pool *pool,
                                       const struct evzmq_pool_report *report, void *arg);

/**
 * Ends a pool in order: refuses later requests (ESHUTDOWN, counted) and restarts nothing; sends
 * what is queued and, after it, the word to end; after three quarters of the time sends SIGTERM to
 * the processes that still run, at the deadline SIGKILL; reaps them and reports. Answers that come
 * meanwhile are delivered as before; those not received yet can be received afterwards. Frees
 * nothing.
 *
 * Workers that somebody else started are told to end, and not waited for beyond that.
 *
 * Thread: loop. Callbacks: yes. A second call does nothing and returns 0.
 *
 * @param deadline  relative to now, 34 years at most; NULL for none: a worker that does not end is
 * waited for, for ever
 * @param done_cb   may be NULL
 * @return 0, or -1 with EINVAL, ENOMEM, ECHILD
 */
EVZMQ_API int evzmq_pool_shutdown(struct evzmq_pool *pool, const struct timeval *deadline,
                                  evzmq_pool_shutdown_cb done_cb, void *arg);

/** Counters of a pool; gauges are marked so. */
struct evzmq_pool_stats {
    size_t size; /**< set it to sizeof(struct evzmq_pool_stats) before the call */
    uint64_t sent; /**< requests accepted by a send */
    uint64_t answered; /**< answers received, those after which others follow not counted */
    uint64_t sends_refused; /**< with EAGAIN */
    uint64_t sends_after_shutdown; /**< with ESHUTDOWN */
    uint64_t bad_answers; /**< messages on the response socket without a proper header */
    uint64_t ready_signals; /**< messages on the ready socket, heartbeats included */
    uint64_t ready_duplicates; /**< of those: from a worker that is up already */
    uint64_t ready_out_of_range; /**< of those: of an identity that is not 0 to n - 1; rejected */
    uint64_t ready_malformed; /**< of those: not one msgpack integer; rejected */
    uint64_t losses; /**< events EVZMQ_POOL_EVENT_LOST */
    uint64_t reconnections; /**< events EVZMQ_POOL_EVENT_RECONNECTED */
    uint64_t restarts; /**< processes started after a loss */
    unsigned up; /**< gauge: workers that are up */
};

/**
 * Copies the counters of a pool.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL (NULL, or a size that is too small)
 */
EVZMQ_API int evzmq_pool_get_stats(const struct evzmq_pool *pool, struct evzmq_pool_stats *out);

/** Counters of one worker; gauges are marked so. They go on over restarts. */
struct evzmq_pool_worker_stats {
    size_t size; /**< set it to sizeof(struct evzmq_pool_worker_stats) before the call */
    enum evzmq_pool_state state; /**< gauge */
    long pid; /**< gauge: of its process; 0 without one, or when it is another's */
    uint64_t sent; /**< requests accepted by a send */
    uint64_t answered; /**< answers received, those after which others follow not counted */
    uint64_t answers; /**< answers received, all of them */
    uint64_t unanswered; /**< gauge: requests handed to ZeroMQ since its last start or
                            reconnection, less the answers since */
    uint64_t queued; /**< gauge: requests in its output queue */
    uint64_t losses; /**< events EVZMQ_POOL_EVENT_LOST */
    uint64_t restarts; /**< processes started after a loss */
    int64_t last_seen_ms; /**< gauge: how long ago it was last heard of; -1: never */
};

/**
 * Copies the counters of one worker.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL (NULL, no such worker, or a size that is too small)
 */
EVZMQ_API int evzmq_pool_get_worker_stats(const struct evzmq_pool *pool, unsigned worker,
                                          struct evzmq_pool_worker_stats *out);

/**
 * The English name of a loss, such as "killed".
 *
 * Thread: any. Callbacks: yes.
 *
 * @return a constant string, never NULL ("unknown" for a number that is no loss)
 */
EVZMQ_API const char *evzmq_pool_loss_name(enum evzmq_pool_loss loss);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_POOL_H */
