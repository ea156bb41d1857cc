/*
 * pool_recv.c (L6): answers, by callback from the response socket, or one by one. Either way an
 * answer is credited to the worker whose header it has before the user sees it.
 */
#include "pool.h"

#include <errno.h>

#include "headed.h"

/* Messages without a proper header that are dropped in one call. */
enum { BAD_ANSWERS_MAX = 1000 };

/* When an answer came. Reading the clock takes longer than all else here, so answers of one pass,
 * which its budget ends soon, came when it began. */
static uint64_t answer_time(struct evzmq_pool *pool)
{
    const struct evzmq_socket *socket = pool->responses;
    if (!socket->in_pass) {
        return evzmq__clock_ns();
    }
    if (socket->counters.wakeups != pool->answers_pass) {
        pool->answers_pass = socket->counters.wakeups;
        pool->answers_at = evzmq__clock_ns();
    }
    return pool->answers_at;
}

/* What came on the response socket. */
enum kind { ANSWER, GREETING, RUBBISH };

/* Credits an answer, and notes what else it may be. */
static enum kind credit(struct evzmq_pool *pool, const struct evzmq_message *message,
                        struct evzmq__pool_worker **out_worker)
{
    struct evzmq__header header;
    if (!evzmq__headed_read(message, pool->n_workers, &header)) {
        pool->stats.bad_answers++;
        return RUBBISH;
    }
    struct evzmq__pool_worker *worker = &pool->workers[header.identity];
    if ((header.flags & EVZMQ_POOL_FLAG_CONNECTED) != 0) {
        if (header.start == worker->start) {
            evzmq__worker_connected(worker);
        }
        return GREETING;
    }
    const uint64_t now = answer_time(pool);
    const bool is_last = (header.flags & EVZMQ_POOL_FLAG_MORE) == 0;
    worker->answers++;
    worker->answered += is_last;
    pool->stats.answered += is_last;
    /* What an earlier process of the worker left behind says nothing about this one. */
    if (header.start == worker->start) {
        /* An answer to nothing must not make up for one that is missing later. */
        worker->answered_now += is_last && evzmq__worker_unanswered(worker) > 0;
        evzmq__worker_seen(worker, now);
    }
    if (worker->refused) {
        evzmq__pool_attend(pool);
    }
    evzmq__ending_seen(pool, now);
    *out_worker = worker;
    return ANSWER;
}

void evzmq__pool_on_answer(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct evzmq_pool *pool = arg;
    (void)socket;
    struct evzmq__pool_worker *worker = NULL;
    const enum kind kind = credit(pool, message, &worker);
    if (kind == ANSWER) {
        pool->answer_cb(pool, worker->identity, message, pool->arg);
    }
    if (kind != RUBBISH) {
        return;
    }
    struct evzmq_pool_event event = {.type = EVZMQ_POOL_EVENT_BAD_ANSWER,
                                     .worker = EVZMQ_POOL_NEXT,
                                     .error = EPROTO,
                                     .message = message};
    evzmq__pool_report(pool, &event);
}

void evzmq__pool_on_response_event(struct evzmq_socket *socket, const struct evzmq_event *event,
                                   void *arg)
{
    struct evzmq_pool *pool = arg;
    (void)socket;
    struct evzmq_pool_event told = {.type = EVZMQ_POOL_EVENT_ERROR,
                                    .worker = EVZMQ_POOL_NEXT,
                                    .error = event->error,
                                    .message = event->message,
                                    .socket_event = event};
    if (event->type == EVZMQ_EVENT_DECODE_ERROR) {
        struct evzmq__pool_worker *worker = NULL;
        told.type = EVZMQ_POOL_EVENT_BAD_ANSWER;
        if (credit(pool, event->message, &worker) == ANSWER) {
            told.worker = worker->identity;
        }
    } else if (event->type == EVZMQ_EVENT_MESSAGE_TOO_LARGE) {
        told.type = EVZMQ_POOL_EVENT_BAD_ANSWER;
    }
    evzmq__pool_report(pool, &told);
}

int evzmq_pool_try_recv(struct evzmq_pool *pool, unsigned *out_worker, struct evzmq_message **out)
{
    if (evzmq__pool_check_usable(pool) < 0) {
        return -1;
    }
    for (int dropped = 0; dropped < BAD_ANSWERS_MAX; dropped++) {
        struct evzmq_message *message = NULL;
        if (out == NULL || evzmq_socket_try_recv(pool->responses, &message) < 0) {
            errno = out == NULL ? EINVAL : errno;
            return -1;
        }
        struct evzmq__pool_worker *worker = NULL;
        if (credit(pool, message, &worker) == ANSWER) {
            if (out_worker != NULL) {
                *out_worker = worker->identity;
            }
            *out = message;
            return 0;
        }
        evzmq_message_free(message);
    }
    (void)evzmq_socket_touch(pool->responses);
    errno = EAGAIN;
    return -1;
}

int evzmq_pool_recv_many(struct evzmq_pool *pool, unsigned *out_workers, struct evzmq_message **out,
                         int max)
{
    if (out == NULL || max < 0) {
        errno = EINVAL;
        return -1;
    }
    int count = 0;
    while (count < max) {
        unsigned worker = 0;
        if (evzmq_pool_try_recv(pool, &worker, &out[count]) < 0) {
            return count > 0 || errno == EAGAIN ? count : -1;
        }
        if (out_workers != NULL) {
            out_workers[count] = worker;
        }
        count++;
    }
    return count;
}

/* What is left until a deadline. */
static struct timeval time_left(uint64_t deadline)
{
    const uint64_t now = evzmq__clock_ns();
    const uint64_t left = deadline > now ? (deadline - now) / 1000 : 0;
    return (struct timeval){.tv_sec = (time_t)(left / 1000000),
                            .tv_usec = (suseconds_t)(left % 1000000)};
}

int evzmq_pool_recv(struct evzmq_pool *pool, const struct timeval *timeout, unsigned *out_worker,
                    struct evzmq_message **out)
{
    if (evzmq__pool_check_usable(pool) < 0) {
        return -1;
    }
    if (out == NULL || !evzmq__is_time(timeout)) {
        errno = EINVAL;
        return -1;
    }
    const uint64_t deadline =
        timeout == NULL ? EVZMQ__NEVER : evzmq__clock_ns() + evzmq__time_ns(timeout);
    evzmq__pool_ref(pool);
    int result = -1;
    int late = 0;
    for (bool waiting = true; waiting;) {
        const struct timeval left = time_left(deadline);
        struct evzmq_message *message = NULL;
        result = evzmq_socket_recv(pool->responses, timeout == NULL ? NULL : &left, &message);
        if (result < 0) {
            break;
        }
        struct evzmq__pool_worker *worker = NULL;
        waiting = credit(pool, message, &worker) != ANSWER;
        if (waiting) {
            evzmq_message_free(message);
            if (timeout != NULL && evzmq__clock_ns() >= deadline && ++late == BAD_ANSWERS_MAX) {
                errno =
                    ETIMEDOUT; /* A flood of rubbish must not hold the caller beyond its time. */
                result = -1;
                break;
            }
        } else {
            *out = message;
            if (out_worker != NULL) {
                *out_worker = worker->identity;
            }
        }
    }
    const int error = errno;
    evzmq__pool_unref(pool);
    errno = error;
    return result;
}
