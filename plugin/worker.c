/*
 * worker.c (L6): the worker's side of a pool.
 *
 *     connection string -> PULL requests, PUSH responses, PUSH ready, a monitor on the first two
 *     both handshakes done -> greeting among the answers, ready signal
 *     every heartbeat -> ready signal
 *     word to end, main process gone, connection gone -> event -> flush answers -> off the base
 *
 * How a worker learns that its main process is gone: a process fd where the system has one; else
 * the parent's number, asked with every beat; a signal at the parent's death, for when the loop is
 * busy; and on other machines, the monitors.
 */
#include "worker.h"

#include <errno.h>
#include <signal.h>

#include <unistd.h>

#include <event2/event.h>

#include <evzmq/pool.h>

#include "base.h"
#include "codec.h"
#include "headed.h"

#define MS UINT64_C(1000000) /* in nanoseconds */

/* The longest time between two looks at what no event tells. */
enum { BEAT_MAX_MS = 500 };

int evzmq__worker_check(const struct evzmq_worker *worker)
{
    if (worker == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (evzmq__base_check(worker->base) < 0) {
        return -1;
    }
    return 0;
}

void evzmq__worker_unref(struct evzmq_worker *worker)
{
    if (--worker->references > 0) {
        return;
    }
    evzmq__link_clear(&worker->link);
    evzmq_codec_free(worker->codec);
    if (worker->base != NULL) {
        evzmq__base_release(worker->base);
    }
    evzmq__free(worker);
}

/* Around callbacks: false when none may run (a forked child). */
static bool enter(struct evzmq_worker *worker)
{
    if (evzmq__base_is_stale(worker->base)) {
        return false;
    }
    worker->references++;
    worker->base->depth++;
    return true;
}

static void leave(struct evzmq_worker *worker)
{
    worker->base->depth--;
    evzmq__worker_unref(worker);
}

static void tell(struct evzmq_worker *worker, struct evzmq_worker_event *event)
{
    event->size = sizeof(*event);
    if (worker->event_cb != NULL && !worker->dying) {
        worker->event_cb(worker, event, worker->arg);
    }
}

void evzmq__worker_take_down(struct evzmq_worker *worker)
{
    for (int i = 0; i < EVZMQ__LINES; i++) {
        evzmq_monitor_free(worker->lines[i].monitor);
        worker->lines[i].monitor = NULL;
    }
    if (worker->parent != NULL && evzmq__base_is_stale(worker->base)) {
        /* A forked child. The fd stays open until evzmq_after_fork(): libevent will look at it in
         * event_reinit(). */
        evzmq__source_abandon(worker->parent, true, &worker->base->abandoned);
        worker->parent_fd = -1;
    } else {
        evzmq__source_free(worker->parent);
    }
    worker->parent = NULL;
    if (worker->parent_fd >= 0) {
        (void)close(worker->parent_fd);
        worker->parent_fd = -1;
    }
    evzmq__timer_free(worker->beat);
    worker->beat = NULL;
    evzmq_socket_free(worker->requests);
    evzmq_socket_free(worker->responses);
    evzmq_socket_free(worker->ready);
    worker->requests = NULL;
    worker->responses = NULL;
    worker->ready = NULL;
}

/* The last thing that happens to a worker. */
static void end(struct evzmq_worker *worker, uint64_t unsent)
{
    evzmq__worker_take_down(worker);
    worker->ended = true;
    struct evzmq_worker_event event = {
        .type = EVZMQ_WORKER_EVENT_ENDED, .reason = worker->reason, .unsent = unsent};
    tell(worker, &event);
}

/* The answers went out, or their time is over. */
static void on_flushed(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                       void *arg)
{
    struct evzmq_worker *worker = arg;
    (void)socket;
    (void)handed_over;
    if (enter(worker)) {
        end(worker, not_handed_over);
        leave(worker);
    }
}

/* Has the next beat come in the next turn of the loop. */
static void hasten_beat(struct evzmq_worker *worker)
{
    const struct timeval now = {0, 0};
    (void)evzmq__timer_start(worker->beat, &now);
}

int evzmq_worker_shutdown(struct evzmq_worker *worker)
{
    if (evzmq__worker_check(worker) < 0) {
        return -1;
    }
    if (worker->ending) {
        return 0;
    }
    /* Nobody would take the answers of a worker whose main process is gone. */
    const bool useless = worker->reason == EVZMQ_WORKER_REASON_MAIN_GONE ||
                         worker->reason == EVZMQ_WORKER_REASON_NOT_CONNECTED;
    const unsigned ms = useless ? 0 : worker->options.end_ms;
    const struct timeval deadline = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000};
    if (evzmq_socket_shutdown(worker->responses, &deadline, on_flushed, worker) < 0) {
        if (!evzmq__is_terminal(errno)) {
            return -1;
        }
        worker->over = true; /* The socket has no callbacks left to come. */
        hasten_beat(worker);
    }
    worker->ending = true;
    (void)evzmq_socket_disable(worker->requests, EV_READ);
    return 0;
}

/* The worker is to end. The worker may be dying after. */
static void ask_to_end(struct evzmq_worker *worker, enum evzmq_worker_reason reason)
{
    if (worker->asked) {
        /* Held, to finish answers; now there is nobody to send them to. */
        if (reason != EVZMQ_WORKER_REASON_ASKED && !worker->ending) {
            worker->reason = reason;
            (void)evzmq_worker_shutdown(worker);
        }
        return;
    }
    worker->asked = true;
    worker->reason = reason;
    worker->in_end = true;
    struct evzmq_worker_event event = {.type = EVZMQ_WORKER_EVENT_END, .reason = reason};
    tell(worker, &event);
    worker->in_end = false;
    if (!worker->dying && !worker->held) {
        (void)evzmq_worker_shutdown(worker);
    }
}

void evzmq_worker_hold(struct evzmq_worker *worker)
{
    if (worker != NULL && worker->in_end) {
        worker->held = true;
    }
}

static bool is_connected(const struct evzmq_worker *worker)
{
    return worker->lines[EVZMQ__LINE_REQUESTS].connected &&
           worker->lines[EVZMQ__LINE_RESPONSES].connected;
}

/* A ready signal. One that waits already says as much as two. */
static void send_ready(struct evzmq_worker *worker)
{
    unsigned char bytes[EVZMQ__INTEGER_BYTES_MAX];
    worker->beat_at = evzmq__clock_ns();
    if (evzmq_socket_get_queued(worker->ready, NULL) == 0) {
        const size_t size = evzmq__integer_write(bytes, worker->link.identity);
        (void)evzmq_socket_write(worker->ready, bytes, size);
    }
}

/* Tells the pool, which cannot see it, that what an earlier connection held is lost. It goes the
 * way of the answers, behind those that the pool still gets. */
static void greet(struct evzmq_worker *worker)
{
    const struct evzmq__header header = {.identity = worker->link.identity,
                                         .start = worker->link.start,
                                         .flags = EVZMQ_POOL_FLAG_CONNECTED};
    worker->greets =
        !worker->ending && evzmq__headed_write(worker->responses, &header, NULL, 0) < 0;
}

void evzmq__worker_on_line(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event,
                           void *arg)
{
    struct evzmq__line *line = arg;
    struct evzmq_worker *worker = line->worker;
    (void)monitor;
    if (worker->ended) {
        return;
    }
    const bool before = is_connected(worker);
    line->connected = event->type == EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED;
    if (before && !is_connected(worker)) {
        worker->apart_at = evzmq__clock_ns();
    }
    if (before || !is_connected(worker)) {
        return;
    }
    worker->apart_at = EVZMQ__WORKER_NEVER;
    greet(worker);
    send_ready(worker);
    if (!worker->is_ready) {
        worker->is_ready = true;
        struct evzmq_worker_event told = {.type = EVZMQ_WORKER_EVENT_READY};
        tell(worker, &told);
    }
}

bool evzmq__worker_is_orphan(const struct evzmq_worker *worker)
{
    const pid_t parent = (pid_t)worker->link.parent;
    if (parent == 0) {
        return false;
    }
    return (worker->is_child && getppid() != parent) || (kill(parent, 0) < 0 && errno == ESRCH);
}

void evzmq__worker_on_parent(void *arg, enum evzmq__wakeup why)
{
    struct evzmq_worker *worker = arg;
    (void)why;
    if (!enter(worker)) {
        evzmq__source_mute_in_child(worker->parent);
        return;
    }
    evzmq__source_mute(worker->parent); /* It stays readable. */
    ask_to_end(worker, EVZMQ_WORKER_REASON_MAIN_GONE);
    leave(worker);
}

void evzmq__worker_start_beat(struct evzmq_worker *worker)
{
    const unsigned beat = worker->link.heartbeat_ms;
    const unsigned ms = beat < BEAT_MAX_MS ? beat : BEAT_MAX_MS;
    const struct timeval delay = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000};
    (void)evzmq__timer_start(worker->beat, &delay);
}

/* What the time that a worker has been without a connection means. */
static enum evzmq_worker_reason judge(const struct evzmq_worker *worker, uint64_t now)
{
    if (worker->cut_off || evzmq__worker_is_orphan(worker)) {
        return EVZMQ_WORKER_REASON_MAIN_GONE;
    }
    if (worker->apart_at == EVZMQ__WORKER_NEVER) {
        return EVZMQ_WORKER_REASON_NONE;
    }
    const uint64_t apart = now - worker->apart_at;
    if (!worker->is_ready) {
        return apart >= worker->options.connect_ms * MS ? EVZMQ_WORKER_REASON_NOT_CONNECTED
                                                        : EVZMQ_WORKER_REASON_NONE;
    }
    return apart >= worker->options.disconnected_ms * MS ? EVZMQ_WORKER_REASON_MAIN_GONE
                                                         : EVZMQ_WORKER_REASON_NONE;
}

void evzmq__worker_on_beat(void *arg)
{
    struct evzmq_worker *worker = arg;
    if (!enter(worker)) {
        return;
    }
    if (worker->over) {
        end(worker, evzmq_socket_get_queued(worker->responses, NULL));
        leave(worker);
        return;
    }
    const uint64_t now = evzmq__clock_ns();
    evzmq__worker_start_beat(worker);
    if (is_connected(worker) && now - worker->beat_at >= worker->link.heartbeat_ms * MS - MS / 2) {
        send_ready(worker);
    }
    if (worker->greets && is_connected(worker)) {
        greet(worker); /* The queue of answers was full. */
    }
    if (worker->asked && !worker->held && !worker->ending) {
        (void)evzmq_worker_shutdown(worker); /* There was no memory for it. */
    }
    const enum evzmq_worker_reason reason = judge(worker, now);
    if (reason != EVZMQ_WORKER_REASON_NONE) {
        ask_to_end(worker, reason);
    }
    leave(worker);
}

void evzmq__worker_on_request(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct evzmq_worker *worker = arg;
    struct evzmq__header header;
    (void)socket;
    if (!evzmq__headed_read(message, worker->link.n_workers, &header) ||
        header.identity != worker->link.identity) {
        struct evzmq_worker_event event = {
            .type = EVZMQ_WORKER_EVENT_BAD_REQUEST, .error = EPROTO, .message = message};
        tell(worker, &event);
    } else if ((header.flags & EVZMQ_POOL_FLAG_END) != 0) {
        worker->references++;
        ask_to_end(worker, EVZMQ_WORKER_REASON_ASKED);
        evzmq__worker_unref(worker);
    } else {
        worker->request_cb(worker, message, worker->arg);
    }
}

void evzmq__worker_on_socket_event(struct evzmq_socket *socket, const struct evzmq_event *event,
                                   void *arg)
{
    struct evzmq_worker *worker = arg;
    struct evzmq_worker_event told = {.type = EVZMQ_WORKER_EVENT_ERROR, .error = event->error};
    switch (event->type) {
    case EVZMQ_EVENT_DRAINED:
        if (socket != worker->responses || worker->ending) {
            return;
        }
        told.type = EVZMQ_WORKER_EVENT_WRITABLE;
        break;
    case EVZMQ_EVENT_DECODE_ERROR:
    case EVZMQ_EVENT_MESSAGE_TOO_LARGE:
        told.type = EVZMQ_WORKER_EVENT_BAD_REQUEST;
        told.message = event->message;
        break;
    case EVZMQ_EVENT_TERMINATED:
        worker->cut_off = true;
        hasten_beat(worker);
        break;
    default:
        break;
    }
    tell(worker, &told);
}
