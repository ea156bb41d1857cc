/*
 * pool.h (L6): the main side of a worker pool, shared by the files that make it up.
 *
 *     pool.c           evzmq_pool_new, evzmq_pool_free, getters and counters
 *     pool_send.c      evzmq_pool_send*
 *     pool_recv.c      answers, by callback and by evzmq_pool_*recv*
 *     pool_workers.c   the life of a worker: started, ready, silent, lost, started again
 *     pool_end.c       evzmq_pool_check_ready, evzmq_pool_shutdown
 *
 * Everything that goes by the clock hangs on one timer, which runs on_tick() of pool.c when the
 * earliest of it is due; so does everything that must not happen inside the call that caused it.
 */
#ifndef EVZMQ_PLUGIN_POOL_H
#define EVZMQ_PLUGIN_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evzmq/context.h>
#include <evzmq/pool.h>
#include <evzmq/socket.h>

#include "process.h"
#include "ready.h"
#include "socket.h"

/* Never, as a time. */
#define EVZMQ__NEVER UINT64_MAX

#define EVZMQ__MS UINT64_C(1000000) /* in nanoseconds */

/* The longest time, in seconds: 34 years, so that a time from now on does not wrap around. */
#define EVZMQ__SECONDS_MAX (INT32_MAX / 2)

/* A time in nanoseconds, which may be added to the clock's. */
static inline uint64_t evzmq__time_ns(const struct timeval *time)
{
    const uint64_t seconds =
        time->tv_sec < EVZMQ__SECONDS_MAX ? (uint64_t)time->tv_sec : EVZMQ__SECONDS_MAX;
    return seconds * UINT64_C(1000000000) + (uint64_t)time->tv_usec * 1000;
}

struct evzmq__pool_worker {
    struct evzmq_pool *pool;
    unsigned identity;
    enum evzmq_pool_state state;
    struct evzmq_socket *requests;
    struct evzmq__process process;
    struct evzmq__source *watch; /* of process.fd; NULL without one */
    char *connection;

    uint64_t start; /* how often it was started before */
    uint64_t started_at;
    uint64_t up_at;
    uint64_t seen_at; /* 0: never */
    uint64_t lost_at; /* LOSING: when the end of its process was noticed */
    bool suspected; /* silent when last looked at */
    uint64_t due_at; /* LOSING: when to report; WAITING: when to start; else EVZMQ__NEVER */
    uint64_t due_limit; /* LOSING: due_at is not put off beyond this */

    enum evzmq_pool_loss loss; /* LOSING: what to report */
    bool term_sent; /* SIGTERM, SIGKILL: in the course of a shutdown */
    bool kill_sent;
    bool refused; /* a send failed with EAGAIN since the last EVZMQ_POOL_EVENT_WRITABLE */
    bool greeted; /* it has said that it is connected, since its start or loss */
    bool reconnected; /* it has said so again, which is not reported yet */
    uint64_t written_off; /* and the requests that it may have lost meanwhile */
    bool end_queued; /* the word to end is in the queue, or went out */
    unsigned delay_ms; /* before the next restart */

    uint64_t sent;
    uint64_t answered;
    uint64_t answers;
    uint64_t losses;
    uint64_t restarts;
    uint64_t handed_before; /* messages_out of the socket at the last start */
    uint64_t answered_now; /* answers of this start */
};

struct evzmq__pool_check {
    evzmq_pool_ready_cb ready_cb; /* NULL: no check is going on */
    void *arg;
    uint64_t deadline;
};

struct evzmq__pool_ending {
    bool begun;
    bool done;
    evzmq_pool_shutdown_cb done_cb;
    void *arg;
    uint64_t term_at;
    uint64_t kill_at;
    uint64_t give_up_at;
    uint64_t settled_at; /* everything has ended, and the last answers are waited for until then */
    uint64_t settle_limit; /* settled_at is not put off beyond this */
};

struct evzmq_pool {
    struct evzmq__base *base;
    struct evzmq_context *context;
    unsigned references; /* the user's, and one for each function that must find it in place */
    bool dying;

    evzmq_pool_answer_cb answer_cb;
    evzmq_pool_event_cb event_cb;
    void *arg;

    struct evzmq_socket *responses;
    struct evzmq_socket *ready;
    struct evzmq__timer *timer;
    bool attention; /* the timer is to fire in the next turn of the loop */
    uint64_t answers_at; /* when the pass began that delivers answers now, */
    uint64_t answers_pass; /* and which one that is */

    struct evzmq_pool_options options; /* without pointers, with the defaults filled in */
    char **argv; /* one more than the user's: room for the connection string, and NULL */
    size_t argc;
    char *endpoint;
    char *advertised;
    struct evzmq_codec *codec;

    struct evzmq__pool_worker *workers;
    unsigned n_workers;
    unsigned next; /* in turn */
    unsigned up;

    struct evzmq__pool_check check;
    struct evzmq__pool_ending ending;
    struct evzmq_pool_stats stats; /* without its gauge */
};

/* pool.c */

/* Whether a call may use the pool. Returns 0, or -1 with EINVAL or ECHILD. */
int evzmq__pool_check_usable(const struct evzmq_pool *pool);

/* Around callbacks and whatever may run some: false when none may run (a forked child). */
bool evzmq__pool_enter(struct evzmq_pool *pool);
void evzmq__pool_leave(struct evzmq_pool *pool);

/* Whether the pool goes on after a callback, which may have freed it, or forked and come back in
 * the child, to which the workers are not its own. */
static inline bool evzmq__pool_is_alive(const struct evzmq_pool *pool)
{
    return !pool->dying && !evzmq__base_is_stale(pool->base);
}

/* Keeps the struct in place. */
void evzmq__pool_ref(struct evzmq_pool *pool);
void evzmq__pool_unref(struct evzmq_pool *pool);

/* Calls the event callback. Afterwards ask evzmq__pool_is_alive(). */
void evzmq__pool_report(struct evzmq_pool *pool, struct evzmq_pool_event *event);

/* Has the timer fire in the next turn of the loop. */
void evzmq__pool_attend(struct evzmq_pool *pool);

/* Where a worker finds one of the pool's sockets. NULL with ENOMEM; to be freed with
 * evzmq__free(). */
char *evzmq__pool_endpoint(const struct evzmq_pool *pool, const struct evzmq_socket *socket);

/* pool_send.c */

/* The event callback of a request socket. */
void evzmq__pool_socket_event(struct evzmq_socket *socket, const struct evzmq_event *event,
                              void *arg);

/* Queues the word to end, behind everything else. */
void evzmq__pool_send_end(struct evzmq__pool_worker *worker);

/* Tells that a worker which refused a request takes one again. */
void evzmq__pool_report_writable(struct evzmq__pool_worker *worker);

/* pool_recv.c */

/* The callbacks of the response socket. */
void evzmq__pool_on_answer(struct evzmq_socket *socket, struct evzmq_message *message, void *arg);
void evzmq__pool_on_response_event(struct evzmq_socket *socket, const struct evzmq_event *event,
                                   void *arg);

/* pool_workers.c */

/* The read callback of the ready socket. */
void evzmq__pool_on_ready(struct evzmq_socket *socket, struct evzmq_message *message, void *arg);

/* Makes the connection string and, where the pool starts workers, starts the process. Returns 0, or
 * -1 with errno. */
int evzmq__worker_start(struct evzmq__pool_worker *worker);

/* Does what is due for one worker. */
void evzmq__worker_tick(struct evzmq__pool_worker *worker, uint64_t now);

/* When something is due for it next. */
uint64_t evzmq__worker_next(const struct evzmq__pool_worker *worker);

/* Notes that a message of the worker came. */
void evzmq__worker_seen(struct evzmq__pool_worker *worker, uint64_t now);

/* Notes that the worker says it is connected. */
void evzmq__worker_connected(struct evzmq__pool_worker *worker);

/* Requests that went to the worker since its start and were not answered. */
uint64_t evzmq__worker_unanswered(const struct evzmq__pool_worker *worker);

/* Requests in its output queue. */
uint64_t evzmq__worker_queued(const struct evzmq__pool_worker *worker);

/* Takes the watch of its process off the loop and closes its fd. */
void evzmq__worker_unwatch(struct evzmq__pool_worker *worker);

/* Whether the pool starts its workers. */
static inline bool evzmq__pool_starts(const struct evzmq_pool *pool)
{
    return pool->argv != NULL;
}

/* pool_end.c */

/* Do what is due for a ready check and a shutdown. */
void evzmq__check_tick(struct evzmq_pool *pool, uint64_t now);
void evzmq__ending_tick(struct evzmq_pool *pool, uint64_t now);

/* An answer came: a shutdown that waits for the last ones waits a little longer. */
void evzmq__ending_seen(struct evzmq_pool *pool, uint64_t now);

/* When something is due for them next. */
uint64_t evzmq__check_next(const struct evzmq_pool *pool);
uint64_t evzmq__ending_next(const struct evzmq_pool *pool);

#endif /* EVZMQ_PLUGIN_POOL_H */
