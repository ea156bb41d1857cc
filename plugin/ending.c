/*
 * ending.c (L3): what ends a direction or a socket by the clock: timeouts, and shutdown with a
 * deadline.
 *
 * The timers are the socket's own. The timeout of an event on ZMQ_FD would not do: that fd also
 * wakes without data.
 */
#include "socket.h"

#include <errno.h>

#include <event2/event.h>

#include "base.h"
#include "packing.h"

struct limit {
    struct evzmq__timer *timer; /* may be there without a timeout, where setting one failed */
    struct timeval after;
    bool is_set;
    bool running;
};

struct evzmq__timeouts {
    struct limit read;
    struct limit write;
};

struct evzmq__shutdown {
    struct evzmq__timer *deadline; /* NULL: none */
    evzmq_shutdown_cb done_cb;
    void *arg;
    uint64_t messages_out_before; /* the counter when it began: no write adds to it any more */
    bool expired;
    bool reported;
};

/* Returns whether the timeout runs, if it is to. */
static bool limit_update(struct limit *limit, bool wanted, bool progress)
{
    if (!limit->is_set) {
        return true;
    }
    if (!wanted) {
        if (limit->running) {
            evzmq__timer_stop(limit->timer);
        }
        limit->running = false;
    } else if (progress || !limit->running) {
        limit->running = evzmq__timer_start(limit->timer, &limit->after) == 0;
    }
    return limit->running == wanted;
}

void evzmq__timeouts_update(struct evzmq_socket *socket, bool received, bool sent)
{
    struct evzmq__timeouts *timeouts = socket->timeouts;
    if (timeouts != NULL) {
        /* A shutdown has its deadline instead. */
        const bool writes = socket->write_enabled && (socket->pause & EVZMQ__PAUSE_SHUTDOWN) == 0;
        const bool read_runs = limit_update(&timeouts->read, socket->pause == 0, received);
        const bool write_runs =
            limit_update(&timeouts->write, writes && socket->queue.messages > 0, sent);
        if (!read_runs || !write_runs) {
            /* It is for when nothing happens: so nothing else would start it later. */
            evzmq__socket_retry(socket);
        }
    }
}

void evzmq__timeouts_free(struct evzmq_socket *socket)
{
    if (socket->timeouts != NULL) {
        evzmq__timer_free(socket->timeouts->read.timer);
        evzmq__timer_free(socket->timeouts->write.timer);
        evzmq__free(socket->timeouts);
        socket->timeouts = NULL;
    }
}

/* Disables a direction whose timeout passed, and says so. */
static void time_out(struct evzmq_socket *socket, struct limit *limit, short direction,
                     enum evzmq_event_type type)
{
    limit->running = false;
    if (!evzmq__socket_enter(socket)) {
        return;
    }
    (void)evzmq_socket_disable(socket, direction);
    const struct evzmq_event event = {.size = sizeof(event), .type = type, .error = ETIMEDOUT};
    evzmq__socket_report(socket, &event);
    evzmq__socket_leave(socket);
}

static void on_read_timeout(void *arg)
{
    struct evzmq_socket *socket = arg;
    time_out(socket, &socket->timeouts->read, EV_READ, EVZMQ_EVENT_READ_TIMEOUT);
}

static void on_write_timeout(void *arg)
{
    struct evzmq_socket *socket = arg;
    time_out(socket, &socket->timeouts->write, EV_WRITE, EVZMQ_EVENT_WRITE_TIMEOUT);
}

bool evzmq__is_time(const struct timeval *time)
{
    return time == NULL || (time->tv_sec >= 0 && time->tv_usec >= 0 && time->tv_usec < 1000000);
}

/* Makes the timer that a timeout needs. Returns 0, or -1 with ENOMEM. */
static int limit_prepare(struct evzmq_socket *socket, struct limit *limit,
                         const struct timeval *after, void (*callback)(void *arg))
{
    if (after != NULL && limit->timer == NULL) {
        limit->timer = evzmq__timer_new(socket->base->event_base, callback, socket);
        if (limit->timer == NULL) {
            return -1;
        }
        evzmq__timer_be_patient(limit->timer);
    }
    return 0;
}

static void limit_set(struct limit *limit, const struct timeval *after)
{
    if (limit->running) {
        evzmq__timer_stop(limit->timer);
        limit->running = false;
    }
    limit->is_set = after != NULL;
    if (after != NULL) {
        limit->after = *after;
    } else {
        evzmq__timer_free(limit->timer);
        limit->timer = NULL;
    }
}

int evzmq_socket_set_timeouts(struct evzmq_socket *socket, const struct timeval *read_timeout,
                              const struct timeval *write_timeout)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (!evzmq__is_time(read_timeout) || !evzmq__is_time(write_timeout)) {
        errno = EINVAL;
        return -1;
    }
    if (socket->timeouts == NULL) {
        socket->timeouts = evzmq__calloc(1, sizeof(*socket->timeouts));
        if (socket->timeouts == NULL) {
            return -1;
        }
    }
    struct evzmq__timeouts *timeouts = socket->timeouts;
    if (limit_prepare(socket, &timeouts->read, read_timeout, on_read_timeout) < 0 ||
        limit_prepare(socket, &timeouts->write, write_timeout, on_write_timeout) < 0) {
        return -1;
    }
    limit_set(&timeouts->read, read_timeout);
    limit_set(&timeouts->write, write_timeout);
    evzmq__timeouts_update(socket, true, true);
    return 0;
}

void evzmq__shutdown_update(struct evzmq_socket *socket)
{
    struct evzmq__shutdown *shutdown = socket->shutdown;
    if (shutdown == NULL || shutdown->reported) {
        return;
    }
    if (socket->queue.messages > 0 && !shutdown->expired && socket->terminal_error == 0) {
        return;
    }
    shutdown->reported = true;
    if (shutdown->deadline != NULL) {
        evzmq__timer_stop(shutdown->deadline);
    }
    /* What is reported as not handed over stays so: it may be going another way by now. */
    socket->write_enabled = false;
    if (shutdown->done_cb != NULL) {
        shutdown->done_cb(socket, socket->counters.messages_out - shutdown->messages_out_before,
                          evzmq__socket_count_queued(socket, NULL), shutdown->arg);
    }
}

void evzmq__shutdown_free(struct evzmq_socket *socket)
{
    if (socket->shutdown != NULL) {
        evzmq__timer_free(socket->shutdown->deadline);
        evzmq__free(socket->shutdown);
        socket->shutdown = NULL;
    }
}

static void on_deadline(void *arg)
{
    struct evzmq_socket *socket = arg;
    socket->shutdown->expired = true;
    if (evzmq__socket_enter(socket)) {
        evzmq__shutdown_update(socket);
        evzmq__socket_leave(socket);
    }
}

int evzmq_socket_shutdown(struct evzmq_socket *socket, const struct timeval *deadline,
                          evzmq_shutdown_cb done_cb, void *arg)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (!evzmq__is_time(deadline)) {
        errno = EINVAL;
        return -1;
    }
    if (socket->shutdown != NULL) {
        return 0;
    }
    struct evzmq__shutdown *shutdown = evzmq__calloc(1, sizeof(*shutdown));
    if (shutdown == NULL) {
        return -1;
    }
    shutdown->done_cb = done_cb;
    shutdown->arg = arg;
    shutdown->messages_out_before = socket->counters.messages_out;
    if (deadline != NULL) {
        shutdown->deadline = evzmq__timer_new(socket->base->event_base, on_deadline, socket);
        if (shutdown->deadline == NULL || evzmq__timer_start(shutdown->deadline, deadline) < 0) {
            evzmq__timer_free(shutdown->deadline);
            evzmq__free(shutdown);
            errno = ENOMEM;
            return -1;
        }
    }
    if (evzmq__packing_close(socket) < 0) {
        evzmq__timer_free(shutdown->deadline);
        evzmq__free(shutdown);
        errno = ENOMEM;
        return -1;
    }
    /* What was posted before the shutdown was accepted, so it counts as queued. */
    evzmq__feeders_close(socket, true);
    socket->shutdown = shutdown;
    socket->pause |= EVZMQ__PAUSE_SHUTDOWN;
    socket->write_enabled = true;
    evzmq__timeouts_update(socket, false, false);
    evzmq__socket_attend(socket);
    return 0;
}
