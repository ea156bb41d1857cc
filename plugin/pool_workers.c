/*
 * pool_workers.c (L6): the life of a worker.
 *
 *     STARTING -- ready signal --> UP
 *        |                          |   process ended, silent (then the process is killed)
 *        +------------+-------------+
 *                     v
 *                  LOSING -- settled --> one event --> WAITING -- delay passed --> STARTING
 *                                            +-------> LOST
 *
 * LOSING exists because the end of a process and its last answers come by different ways: the event
 * waits until no answer has come for SETTLE_MS, so that its number of unanswered requests holds. A
 * worker that the pool did not start has no process to lose; it is LOST when it is silent, and UP
 * again when it is heard of.
 */
#include "pool.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

#include <unistd.h>

#include "base.h"
#include "link.h"

enum {
    SETTLE_MS = 30,
    SETTLE_MAX_MS = 1000,
    /* A loop that stood still finds workers silent that were not: their signals wait to be read. So
     * silence is believed when it is found twice, with this between. */
    DOUBT_MS = 100,
    /* How often a process is asked after that has no fd which tells. */
    ASK_MS = 20
};

uint64_t evzmq__worker_unanswered(const struct evzmq__pool_worker *worker)
{
    const uint64_t handed = worker->requests->counters.messages_out - worker->handed_before;
    const bool end_went = worker->end_queued && worker->requests->queue.messages == 0;
    const uint64_t requests = handed - (end_went && handed > 0);
    return requests > worker->answered_now ? requests - worker->answered_now : 0;
}

uint64_t evzmq__worker_queued(const struct evzmq__pool_worker *worker)
{
    const uint64_t queued = worker->requests->queue.messages;
    return queued - (worker->end_queued && queued > 0);
}

static void set_state(struct evzmq__pool_worker *worker, enum evzmq_pool_state state)
{
    worker->pool->up -= worker->state == EVZMQ_POOL_UP;
    worker->pool->up += state == EVZMQ_POOL_UP;
    worker->state = state;
    worker->due_at = EVZMQ__NEVER;
}

void evzmq__worker_seen(struct evzmq__pool_worker *worker, uint64_t now)
{
    worker->seen_at = now;
    worker->suspected = false;
    if (worker->state == EVZMQ_POOL_LOSING && worker->due_at != EVZMQ__NEVER) {
        const uint64_t later = now + SETTLE_MS * EVZMQ__MS;
        worker->due_at = later < worker->due_limit ? later : worker->due_limit;
    }
}

/* A process has ended: the loss is reported when no answers come any more. */
static void begin_settling(struct evzmq__pool_worker *worker)
{
    const uint64_t now = evzmq__clock_ns();
    worker->due_at = now + SETTLE_MS * EVZMQ__MS;
    worker->due_limit = now + SETTLE_MAX_MS * EVZMQ__MS;
}

/* Looks whether the process has ended, and notes that. */
static void ask_process(struct evzmq__pool_worker *worker)
{
    struct evzmq_pool *pool = worker->pool;
    if (worker->process.pid == 0 || !evzmq__process_reap(&worker->process)) {
        return;
    }
    evzmq__worker_unwatch(worker);
    if (pool->ending.begun && worker->state != EVZMQ_POOL_LOSING) {
        set_state(worker, EVZMQ_POOL_ENDED);
    } else if (worker->state != EVZMQ_POOL_LOSING) {
        worker->loss = worker->process.signalled ? EVZMQ_POOL_LOSS_KILLED : EVZMQ_POOL_LOSS_EXITED;
        set_state(worker, EVZMQ_POOL_LOSING);
    }
    if (worker->state == EVZMQ_POOL_LOSING) {
        worker->lost_at = evzmq__clock_ns();
        begin_settling(worker);
    }
    evzmq__pool_attend(pool);
}

static void on_process(void *arg, enum evzmq__wakeup why)
{
    struct evzmq__pool_worker *worker = arg;
    (void)why;
    if (evzmq__base_is_stale(worker->pool->base)) {
        evzmq__source_mute_in_child(worker->watch);
        return;
    }
    ask_process(worker);
}

void evzmq__worker_unwatch(struct evzmq__pool_worker *worker)
{
    evzmq__source_free(worker->watch);
    worker->watch = NULL;
    evzmq__process_close(&worker->process);
}

/* Makes the connection string of the next start. */
static int connect_string(struct evzmq__pool_worker *worker)
{
    const struct evzmq_pool *pool = worker->pool;
    const struct evzmq__link link = {
        .identity = worker->identity,
        .n_workers = pool->n_workers,
        .start = worker->start,
        .heartbeat_ms = pool->options.heartbeat_ms,
        .connect_ms = pool->options.ready_ms,
        .request_hwm = pool->options.request_hwm,
        .parent = evzmq__pool_starts(pool) ? (long)getpid() : 0,
        .requests = evzmq__pool_endpoint(pool, worker->requests),
        .responses = evzmq__pool_endpoint(pool, pool->responses),
        .ready = evzmq__pool_endpoint(pool, pool->ready),
    };
    char *text = NULL;
    if (link.requests != NULL && link.responses != NULL && link.ready != NULL) {
        text = evzmq__link_format(&link);
    }
    evzmq__free(link.requests);
    evzmq__free(link.responses);
    evzmq__free(link.ready);
    if (text == NULL) {
        return -1;
    }
    evzmq__free(worker->connection);
    worker->connection = text;
    return 0;
}

static int start_process(struct evzmq__pool_worker *worker)
{
    struct evzmq_pool *pool = worker->pool;
    pool->argv[pool->argc] = worker->connection;
    const int result = evzmq__process_start(&worker->process, pool->argv);
    pool->argv[pool->argc] = NULL;
    if (result < 0) {
        return -1;
    }
    if (worker->process.fd >= 0) {
        worker->watch =
            evzmq__source_new(pool->base->event_base, worker->process.fd, on_process, worker);
        if (worker->watch == NULL) {
            evzmq__process_close(&worker->process); /* Then it is asked after now and then. */
        }
    }
    return 0;
}

int evzmq__worker_start(struct evzmq__pool_worker *worker)
{
    /* First: what was told of the last loss is not told again when the start fails. */
    worker->handed_before = worker->requests->counters.messages_out;
    worker->answered_now = 0;
    if (connect_string(worker) < 0) {
        return -1;
    }
    worker->suspected = false;
    worker->greeted = false;
    worker->reconnected = false;
    worker->loss = EVZMQ_POOL_LOSS_NONE;
    worker->started_at = evzmq__clock_ns();
    if (evzmq__pool_starts(worker->pool) && start_process(worker) < 0) {
        return -1;
    }
    set_state(worker, EVZMQ_POOL_STARTING);
    return 0;
}

/* How long a worker that is lost had been up. What passed since it was given up, or its end
 * noticed, does not count. */
static uint64_t lived(const struct evzmq__pool_worker *worker)
{
    const bool was_up = worker->state == EVZMQ_POOL_LOSING && worker->up_at > worker->started_at;
    const uint64_t until =
        worker->loss == EVZMQ_POOL_LOSS_SILENT ? worker->seen_at : worker->lost_at;
    return was_up && until > worker->up_at ? until - worker->up_at : 0;
}

/* Reports a loss, once its numbers hold, and decides what follows. The pool may be dying after. */
static void report_loss(struct evzmq__pool_worker *worker, int error)
{
    struct evzmq_pool *pool = worker->pool;
    const bool restarting = evzmq__pool_starts(pool) && !pool->ending.begun &&
                            worker->restarts < pool->options.restarts_max;
    if (worker->delay_ms == 0 || lived(worker) > worker->delay_ms * EVZMQ__MS) {
        worker->delay_ms = pool->options.restart_delay_ms;
    } else {
        const unsigned max = pool->options.restart_delay_max_ms;
        worker->delay_ms = worker->delay_ms > max / 2 ? max : worker->delay_ms * 2;
    }
    struct evzmq_pool_event event = {
        .type = EVZMQ_POOL_EVENT_LOST,
        .worker = worker->identity,
        .loss = worker->loss,
        .status = worker->process.status,
        .error = error,
        .unanswered = worker->written_off + evzmq__worker_unanswered(worker),
        .queued = evzmq__worker_queued(worker),
        .restarting = restarting,
        .restart_delay_ms = restarting ? worker->delay_ms : 0,
    };
    if (event.loss != EVZMQ_POOL_LOSS_EXITED && event.loss != EVZMQ_POOL_LOSS_KILLED) {
        event.status = 0;
    }
    worker->greeted = false;
    worker->reconnected = false;
    worker->written_off = 0;
    worker->losses++;
    pool->stats.losses++;
    set_state(worker, restarting ? EVZMQ_POOL_WAITING : EVZMQ_POOL_LOST);
    if (restarting) {
        worker->due_at = evzmq__clock_ns() + worker->delay_ms * EVZMQ__MS;
    }
    evzmq__pool_report(pool, &event);
}

static void restart(struct evzmq__pool_worker *worker)
{
    worker->start++;
    worker->restarts++;
    if (evzmq__worker_start(worker) < 0) {
        worker->loss = EVZMQ_POOL_LOSS_NOT_STARTED;
        report_loss(worker, errno);
        return;
    }
    worker->pool->stats.restarts++;
}

/* A worker that is silent, or never became ready. */
static void give_up(struct evzmq__pool_worker *worker, enum evzmq_pool_loss loss)
{
    worker->loss = loss;
    if (worker->process.pid == 0) {
        report_loss(worker, 0);
        return;
    }
    set_state(worker, EVZMQ_POOL_LOSING);
    evzmq__process_signal(&worker->process, SIGKILL);
}

/* Begins to count anew what is unanswered. */
static void write_off(struct evzmq__pool_worker *worker)
{
    worker->handed_before = worker->requests->counters.messages_out;
    worker->answered_now = 0;
}

void evzmq__worker_connected(struct evzmq__pool_worker *worker)
{
    if (worker->greeted && worker->state == EVZMQ_POOL_UP && !worker->pool->ending.begun) {
        /* Told in the next turn: this may be inside evzmq_pool_try_recv(). */
        worker->written_off += evzmq__worker_unanswered(worker);
        worker->reconnected = true;
        write_off(worker);
        evzmq__pool_attend(worker->pool);
    }
    worker->greeted = true;
}

static void report_reconnection(struct evzmq__pool_worker *worker)
{
    struct evzmq_pool_event event = {.type = EVZMQ_POOL_EVENT_RECONNECTED,
                                     .worker = worker->identity,
                                     .unanswered = worker->written_off};
    worker->reconnected = false;
    worker->written_off = 0;
    worker->pool->stats.reconnections++;
    evzmq__pool_report(worker->pool, &event);
}

/* When a worker that stays silent is to be looked at. */
static uint64_t silence_at(const struct evzmq__pool_worker *worker)
{
    const struct evzmq_pool_options *options = &worker->pool->options;
    uint64_t at = EVZMQ__NEVER;
    if (worker->pool->ending.begun) {
        return at;
    }
    if (worker->state == EVZMQ_POOL_STARTING) {
        at = worker->started_at + options->ready_ms * EVZMQ__MS;
    } else if (worker->state == EVZMQ_POOL_UP && options->silence_ms != UINT_MAX) {
        at = worker->seen_at + options->silence_ms * EVZMQ__MS;
    }
    return at == EVZMQ__NEVER || !worker->suspected ? at : at + DOUBT_MS * EVZMQ__MS;
}

void evzmq__worker_tick(struct evzmq__pool_worker *worker, uint64_t now)
{
    if (worker->watch == NULL) {
        ask_process(worker);
    }
    if (worker->reconnected) {
        report_reconnection(worker);
    } else if (now >= worker->due_at && worker->state == EVZMQ_POOL_LOSING) {
        report_loss(worker, 0);
    } else if (now >= worker->due_at && worker->state == EVZMQ_POOL_WAITING) {
        restart(worker);
    } else if (now >= silence_at(worker)) {
        if (!worker->suspected) {
            worker->suspected = true;
        } else {
            give_up(worker, worker->state == EVZMQ_POOL_UP ? EVZMQ_POOL_LOSS_SILENT
                                                           : EVZMQ_POOL_LOSS_NEVER_READY);
        }
    }
    if (evzmq__pool_is_alive(worker->pool)) {
        evzmq__pool_report_writable(worker);
    }
}

uint64_t evzmq__worker_next(const struct evzmq__pool_worker *worker)
{
    uint64_t next = silence_at(worker);
    if (worker->due_at < next) {
        next = worker->due_at;
    }
    if (worker->process.pid != 0 && worker->watch == NULL) {
        const uint64_t ask = evzmq__clock_ns() + ASK_MS * EVZMQ__MS;
        next = ask < next ? ask : next;
    }
    return next;
}

/* A ready signal or heartbeat of a worker. */
static void note_signal(struct evzmq__pool_worker *worker)
{
    struct evzmq_pool *pool = worker->pool;
    const bool returns = worker->state == EVZMQ_POOL_LOST && !evzmq__pool_starts(pool);
    if (worker->state != EVZMQ_POOL_STARTING && !returns) {
        pool->stats.ready_duplicates++;
        if (worker->state == EVZMQ_POOL_UP) {
            evzmq__worker_seen(worker, evzmq__clock_ns());
        }
        return;
    }
    evzmq__worker_seen(worker, evzmq__clock_ns());
    worker->up_at = worker->seen_at;
    set_state(worker, EVZMQ_POOL_UP);
    if (returns) {
        write_off(worker);
    }
    if (returns && pool->ending.begun) {
        evzmq__pool_send_end(worker); /* It was not there when the others were told. */
    }
    evzmq__pool_attend(pool);
    if (!pool->ending.begun) {
        struct evzmq_pool_event event = {.type = EVZMQ_POOL_EVENT_READY,
                                         .worker = worker->identity};
        evzmq__pool_report(pool, &event);
    }
}

void evzmq__pool_on_ready(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct evzmq_pool *pool = arg;
    unsigned identity = 0;
    size_t size = 0;
    (void)socket;
    const void *data = evzmq_message_get_part(message, 0, &size);
    enum evzmq__ready what = EVZMQ__READY_MALFORMED;
    if (evzmq_message_get_part_count(message) == 1) {
        what = evzmq__ready_read(data, size, pool->n_workers, &identity);
    }
    pool->stats.ready_signals++;
    switch (what) {
    case EVZMQ__READY_MALFORMED:
        pool->stats.ready_malformed++;
        break;
    case EVZMQ__READY_OUT_OF_RANGE:
        pool->stats.ready_out_of_range++;
        break;
    default: /* EVZMQ__READY_IDENTITY */
        note_signal(&pool->workers[identity]);
        break;
    }
}
