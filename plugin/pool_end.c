/*
 * pool_end.c (L6): what ends by the clock: a ready check, and the pool itself.
 *
 * A shutdown goes: the word to end, behind all requests -> workers answer what they have and end ->
 * SIGTERM to those that did not after three quarters of the time -> SIGKILL at the deadline -> the
 * last answers settle -> report. Nothing here waits; every step is a tick.
 */
#include "pool.h"

#include <errno.h>
#include <signal.h>

enum {
    /* The last answers of a process that has ended may still be on their way for so long. */
    SETTLE_MS = 30,
    SETTLE_MAX_MS = 500,
    /* After SIGKILL the system has so long to end a process. */
    KILL_MS = 1000
};

int evzmq_pool_check_ready(struct evzmq_pool *pool, const struct timeval *timeout,
                           evzmq_pool_ready_cb ready_cb, void *arg)
{
    if (evzmq__pool_check_usable(pool) < 0) {
        return -1;
    }
    if (ready_cb == NULL || !evzmq__is_time(timeout)) {
        errno = EINVAL;
        return -1;
    }
    if (pool->ending.begun) {
        errno = ESHUTDOWN;
        return -1;
    }
    if (pool->check.ready_cb != NULL) {
        errno = EBUSY;
        return -1;
    }
    pool->check = (struct evzmq__pool_check){
        .ready_cb = ready_cb,
        .arg = arg,
        .deadline = timeout == NULL ? EVZMQ__NEVER : evzmq__clock_ns() + evzmq__time_ns(timeout),
    };
    evzmq__pool_attend(pool);
    return 0;
}

/* Whether some worker can never become ready. */
static bool is_hopeless(const struct evzmq_pool *pool)
{
    for (unsigned i = 0; i < pool->n_workers && evzmq__pool_starts(pool); i++) {
        if (pool->workers[i].state == EVZMQ_POOL_LOST) {
            return true;
        }
    }
    return false;
}

void evzmq__check_tick(struct evzmq_pool *pool, uint64_t now)
{
    const struct evzmq__pool_check check = pool->check;
    int error = 0;
    if (check.ready_cb == NULL) {
        return;
    }
    if (pool->ending.begun) {
        error = ECANCELED;
    } else if (pool->up < pool->n_workers && is_hopeless(pool)) {
        error = EHOSTUNREACH;
    } else if (pool->up < pool->n_workers && now >= check.deadline) {
        error = ETIMEDOUT;
    } else if (pool->up < pool->n_workers) {
        return;
    }
    pool->check.ready_cb = NULL;
    check.ready_cb(pool, pool->up, error, check.arg);
}

uint64_t evzmq__check_next(const struct evzmq_pool *pool)
{
    return pool->check.ready_cb == NULL ? EVZMQ__NEVER : pool->check.deadline;
}

/* What a worker has to do with a shutdown that begins. */
static void tell_end(struct evzmq__pool_worker *worker)
{
    if (worker->state == EVZMQ_POOL_WAITING) {
        worker->state = EVZMQ_POOL_LOST; /* it is not started again */
        worker->due_at = EVZMQ__NEVER;
    }
    if (worker->state != EVZMQ_POOL_LOSING && worker->state != EVZMQ_POOL_LOST) {
        evzmq__pool_send_end(worker);
    }
}

int evzmq_pool_shutdown(struct evzmq_pool *pool, const struct timeval *deadline,
                        evzmq_pool_shutdown_cb done_cb, void *arg)
{
    if (evzmq__pool_check_usable(pool) < 0) {
        return -1;
    }
    if (!evzmq__is_time(deadline)) {
        errno = EINVAL;
        return -1;
    }
    struct evzmq__pool_ending *ending = &pool->ending;
    if (ending->begun) {
        return 0;
    }
    const uint64_t now = evzmq__clock_ns();
    *ending = (struct evzmq__pool_ending){.begun = true,
                                          .done_cb = done_cb,
                                          .arg = arg,
                                          .term_at = EVZMQ__NEVER,
                                          .kill_at = EVZMQ__NEVER,
                                          .give_up_at = EVZMQ__NEVER,
                                          .settled_at = EVZMQ__NEVER};
    if (deadline != NULL) {
        const uint64_t time = evzmq__time_ns(deadline);
        ending->term_at = now + time / 4 * 3;
        ending->kill_at = now + time;
        ending->give_up_at = ending->kill_at + KILL_MS * EVZMQ__MS;
    }
    for (unsigned i = 0; i < pool->n_workers; i++) {
        tell_end(&pool->workers[i]);
    }
    evzmq__pool_attend(pool);
    return 0;
}

/* Whether a worker is still waited for. */
static bool is_pending(const struct evzmq__pool_worker *worker)
{
    if (evzmq__pool_starts(worker->pool)) {
        return worker->process.pid != 0 || worker->state == EVZMQ_POOL_LOSING;
    }
    return worker->state == EVZMQ_POOL_UP && worker->requests->queue.messages > 0;
}

static void urge(struct evzmq__pool_worker *worker, uint64_t now)
{
    const struct evzmq__pool_ending *ending = &worker->pool->ending;
    if (worker->process.pid == 0) {
        return;
    }
    /* A process that got a SIGKILL as a lost one needs no other. */
    if (now >= ending->kill_at && !worker->kill_sent) {
        worker->kill_sent = true;
        evzmq__process_signal(&worker->process, SIGKILL);
    } else if (now >= ending->term_at && !worker->term_sent) {
        worker->term_sent = true;
        evzmq__process_signal(&worker->process, SIGTERM);
    }
}

static void report(struct evzmq_pool *pool)
{
    struct evzmq_pool_report report = {.size = sizeof(report)};
    for (unsigned i = 0; i < pool->n_workers; i++) {
        const struct evzmq__pool_worker *worker = &pool->workers[i];
        report.undelivered += evzmq__worker_queued(worker);
        if (worker->state != EVZMQ_POOL_LOST) {
            report.unanswered += evzmq__worker_unanswered(worker);
        }
        if (!evzmq__pool_starts(pool)) {
            continue;
        }
        if (worker->process.pid != 0) {
            report.left++;
        } else if (worker->state == EVZMQ_POOL_ENDED) {
            report.killed += worker->kill_sent;
            report.terminated += worker->term_sent && !worker->kill_sent;
            report.exited += !worker->term_sent && !worker->kill_sent;
        }
    }
    pool->ending.done = true;
    if (pool->ending.done_cb != NULL) {
        pool->ending.done_cb(pool, &report, pool->ending.arg);
    }
}

void evzmq__ending_tick(struct evzmq_pool *pool, uint64_t now)
{
    struct evzmq__pool_ending *ending = &pool->ending;
    if (!ending->begun || ending->done) {
        return;
    }
    bool pending = false;
    for (unsigned i = 0; i < pool->n_workers; i++) {
        struct evzmq__pool_worker *worker = &pool->workers[i];
        urge(worker, now);
        pending = pending || is_pending(worker);
    }
    const uint64_t limit = evzmq__pool_starts(pool) ? ending->give_up_at : ending->kill_at;
    if (pending && now < limit) {
        ending->settled_at = EVZMQ__NEVER; /* somebody has turned up since it was set */
        return;
    }
    if (ending->settled_at == EVZMQ__NEVER) {
        ending->settled_at = now + SETTLE_MS * EVZMQ__MS;
        ending->settle_limit = now + SETTLE_MAX_MS * EVZMQ__MS;
    }
    if (now >= ending->settled_at) {
        report(pool);
    }
}

void evzmq__ending_seen(struct evzmq_pool *pool, uint64_t now)
{
    struct evzmq__pool_ending *ending = &pool->ending;
    if (ending->settled_at != EVZMQ__NEVER && ending->begun) {
        const uint64_t later = now + SETTLE_MS * EVZMQ__MS;
        ending->settled_at = later < ending->settle_limit ? later : ending->settle_limit;
    }
}

uint64_t evzmq__ending_next(const struct evzmq_pool *pool)
{
    const struct evzmq__pool_ending *ending = &pool->ending;
    if (!ending->begun || ending->done) {
        return EVZMQ__NEVER;
    }
    if (ending->settled_at != EVZMQ__NEVER) {
        return ending->settled_at;
    }
    const uint64_t now = evzmq__clock_ns();
    if (now < ending->term_at) {
        return ending->term_at;
    }
    return now < ending->kill_at ? ending->kill_at : ending->give_up_at;
}
