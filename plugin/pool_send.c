/*
 * pool_send.c (L6): requests, to a worker or to the next one in turn. One request is one message in
 * the output queue of its worker's own socket, so a worker that does not read holds up nobody else.
 */
#include "pool.h"

#include <errno.h>

#include "headed.h"

/* What is to be sent: exactly one of the four. */
struct request {
    const void *data;
    size_t size;
    const struct evzmq_bytes *parts;
    size_t count;
    struct evzmq_message *message;
    const void *value;
};

static int submit(struct evzmq__pool_worker *worker, const struct request *request)
{
    const struct evzmq__header header = {.identity = worker->identity, .start = worker->start};
    if (request->parts != NULL) {
        return evzmq__headed_write_parts(worker->requests, &header, request->parts, request->count);
    }
    if (request->message != NULL) {
        return evzmq__headed_write_message(worker->requests, &header, request->message);
    }
    if (request->value != NULL) {
        return evzmq__headed_write_value(worker->requests, &header, request->value);
    }
    return evzmq__headed_write(worker->requests, &header, request->data, request->size);
}

static bool has_credit(const struct evzmq__pool_worker *worker)
{
    const uint64_t max = worker->pool->options.unanswered_max;
    return max == 0 || evzmq__worker_unanswered(worker) + evzmq__worker_queued(worker) < max;
}

/* Sends to one worker. Returns 0, or -1 with errno. */
static int send_to(struct evzmq__pool_worker *worker, const struct request *request)
{
    int result = -1;
    if (has_credit(worker)) {
        result = submit(worker, request);
    } else {
        errno = EAGAIN;
    }
    if (result == 0) {
        worker->sent++;
        worker->pool->stats.sent++;
    } else if (errno == EAGAIN) {
        worker->refused = true;
    }
    return result;
}

/* Whether a worker can ever take a request again. */
static bool is_hopeless(const struct evzmq__pool_worker *worker)
{
    return worker->state == EVZMQ_POOL_LOST || worker->state == EVZMQ_POOL_ENDED;
}

/* Sends to the first of those that are up, from the one whose turn it is, that takes it. */
static int send_to_next(struct evzmq_pool *pool, const struct request *request)
{
    bool hope = false;
    for (unsigned i = 0; i < pool->n_workers; i++) {
        const unsigned identity = (pool->next + i) % pool->n_workers;
        struct evzmq__pool_worker *worker = &pool->workers[identity];
        hope = hope || !is_hopeless(worker);
        if (worker->state != EVZMQ_POOL_UP) {
            continue;
        }
        if (send_to(worker, request) == 0) {
            pool->next = (identity + 1) % pool->n_workers;
            return (int)identity;
        }
        if (errno != EAGAIN) {
            return -1;
        }
    }
    errno = hope ? EAGAIN : EHOSTUNREACH;
    return -1;
}

static int send_request(struct evzmq_pool *pool, unsigned worker, const struct request *request)
{
    if (evzmq__pool_check_usable(pool) < 0) {
        return -1;
    }
    if (worker != EVZMQ_POOL_NEXT && worker >= pool->n_workers) {
        errno = EINVAL;
        return -1;
    }
    if (pool->ending.begun) {
        pool->stats.sends_after_shutdown++;
        errno = ESHUTDOWN;
        return -1;
    }
    int result = -1;
    if (worker == EVZMQ_POOL_NEXT) {
        result = send_to_next(pool, request);
    } else if (is_hopeless(&pool->workers[worker])) {
        errno = EHOSTUNREACH;
    } else {
        result = send_to(&pool->workers[worker], request) == 0 ? (int)worker : -1;
    }
    if (result < 0 && errno == EAGAIN) {
        pool->stats.sends_refused++;
    }
    return result;
}

int evzmq_pool_send(struct evzmq_pool *pool, unsigned worker, const void *data, size_t size)
{
    if (data == NULL && size > 0) {
        errno = EINVAL;
        return -1;
    }
    return send_request(pool, worker, &(struct request){.data = data, .size = size});
}

int evzmq_pool_send_parts(struct evzmq_pool *pool, unsigned worker, const struct evzmq_bytes *parts,
                          size_t count)
{
    if (parts == NULL || count == 0) {
        errno = EINVAL;
        return -1;
    }
    return send_request(pool, worker, &(struct request){.parts = parts, .count = count});
}

int evzmq_pool_send_message(struct evzmq_pool *pool, unsigned worker, struct evzmq_message *message)
{
    if (message == NULL) {
        errno = EINVAL;
        return -1;
    }
    return send_request(pool, worker, &(struct request){.message = message});
}

int evzmq_pool_send_value(struct evzmq_pool *pool, unsigned worker, const void *value)
{
    if (value == NULL) {
        errno = EINVAL;
        return -1;
    }
    return send_request(pool, worker, &(struct request){.value = value});
}

void evzmq__pool_send_end(struct evzmq__pool_worker *worker)
{
    const struct evzmq__header header = {
        .identity = worker->identity, .start = worker->start, .flags = EVZMQ_POOL_FLAG_END};
    /* One message more than what the user may queue. */
    (void)evzmq_socket_set_output_limit(worker->requests, SIZE_MAX, SIZE_MAX);
    if (!worker->end_queued && evzmq__headed_write(worker->requests, &header, NULL, 0) == 0) {
        worker->end_queued = true;
    }
}

/* Whether a send that was refused would be taken now. A queue that is not empty has its own word to
 * give when it is (drained()). */
static bool takes_again(const struct evzmq__pool_worker *worker)
{
    return !is_hopeless(worker) && has_credit(worker) && worker->requests->queue.messages == 0;
}

void evzmq__pool_report_writable(struct evzmq__pool_worker *worker)
{
    if (!worker->refused || !takes_again(worker) || worker->pool->ending.begun) {
        return;
    }
    worker->refused = false;
    struct evzmq_pool_event event = {.type = EVZMQ_POOL_EVENT_WRITABLE, .worker = worker->identity};
    evzmq__pool_report(worker->pool, &event);
}

/* The output queue of a worker is empty. */
static void drained(struct evzmq__pool_worker *worker)
{
    if (worker->pool->ending.begun) {
        evzmq__pool_attend(worker->pool);
    } else {
        evzmq__pool_report_writable(worker);
    }
}

/* Not the write callback tells that the queue is empty: that one comes at the low watermark, which
 * is the user's to set. */
void evzmq__pool_socket_event(struct evzmq_socket *socket, const struct evzmq_event *event,
                              void *arg)
{
    struct evzmq__pool_worker *worker = arg;
    (void)socket;
    if (event->type == EVZMQ_EVENT_DRAINED) {
        drained(worker);
        return;
    }
    struct evzmq_pool_event told = {.type = EVZMQ_POOL_EVENT_ERROR,
                                    .worker = worker->identity,
                                    .error = event->error,
                                    .socket_event = event};
    evzmq__pool_report(worker->pool, &told);
}
