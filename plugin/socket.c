/*
 * socket.c (L3): one pass over one socket.
 *
 * Design note
 * -----------
 *
 * A pass starts in two ways only: ZMQ_FD became readable, or the socket's own timer fired. It
 * receives until there is nothing left or the budget is spent, sends what is queued within a budget
 * of its own, runs the callbacks that became due, and then has to leave the socket in a state in
 * which the next thing that happens wakes it. That last part is the hard one, because ZMQ_FD
 * signals edges and every call of libzmq may consume one. The rules, each with its reason:
 *
 * - A receive that ended in EAGAIN leaves the input edge armed: libzmq processes all its commands
 *   before it gives EAGAIN. So such a pass needs no further look for input.
 * - The same call consumes the output edge. So with something queued the pass reads ZMQ_EVENTS last
 *   and goes on while there is POLLOUT.
 * - Sending consumes the input edge. `touched` remembers calls of libzmq since the last EAGAIN or
 *   look; a pass does not end with it set, and a call from outside a pass arranges one.
 * - A pass that stops for any other reason (budget, pause, loopbreak, EFSM) reads ZMQ_EVENTS or
 *   arranges its own continuation: no wakeup will come for what is already there.
 * - With nothing to do at all ZMQ_EVENTS is read all the same: it is what makes libzmq process the
 *   commands of peers that come and go, and a process that does not read it grows.
 *
 * ROUTER and STREAM need one rule more. POLLOUT is always set for them, whether or not the one peer
 * we wait for can take a message, so messages for a full peer are parked and each pass tries every
 * parked peer once, after the look as well. PUB and XPUB are like them with one peer: told not to
 * drop (ZMQ_XPUB_NODROP), they refuse a message while one subscriber is full. What remains is that
 * libzmq may process commands in the middle of such a round, when it is past the throttle of
 * 3,000,000 ticks, and so consume the edge of a peer that was tried just before. Therefore, after a
 * pass that leaves peers parked, one more pass follows RECHECK_USEC later when nothing else happens
 * meanwhile: its first call refreshes the throttle, so no command is processed in the rest of it,
 * and what it finds is final. There is one such pass, not a poll: a peer that does not read costs
 * no wakeups.
 *
 * Callbacks may do anything, free the socket included. The pass holds a reference, and after every
 * callback it looks at the socket anew (evzmq__socket_is_alive, pause) before it touches anything.
 */
#include "socket.h"

#include <errno.h>
#include <string.h>

#include <zmq.h>

#include "base.h"
#include "packing.h"
#include "unpack.h"

enum {
    /* After running out of memory nothing wakes the socket; it tries again after this long. */
    NOMEM_RETRY_USEC = 100000,
    /* After many interruptions in a row. Not at once: a loop that does not wait (EVLOOP_NONBLOCK)
     * returns when nothing is due, and a storm of signals gets time to pass. */
    EINTR_RETRY_USEC = 1000,
    /* Longer than libzmq's throttle on any processor whose counter runs at 600 MHz or more. */
    RECHECK_USEC = 5000,
    /* And a pass that took less than this did not outlast it. */
    RECHECK_PASS_MAX_NS = 500000,
    /* Where passes always take longer (very many peers, a very slow machine) none is final; then
     * each recheck comes after twice the delay of the last, up to this one. */
    RECHECK_USEC_MAX = 1280000
};

void evzmq__socket_ref(struct evzmq_socket *socket)
{
    socket->references++;
}

void evzmq__socket_unref(struct evzmq_socket *socket)
{
    if (--socket->references > 0) {
        return;
    }
    struct evzmq__base *base = socket->base;
    evzmq_codec_free(socket->codec);
    evzmq__unpacking_free(socket);
    evzmq__free(socket);
    evzmq__base_release(base);
}

bool evzmq__socket_enter(struct evzmq_socket *socket)
{
    if (evzmq__base_is_stale(socket->base)) {
        return false;
    }
    evzmq__socket_ref(socket);
    socket->base->depth++;
    return true;
}

void evzmq__socket_leave(struct evzmq_socket *socket)
{
    socket->base->depth--;
    evzmq__socket_unref(socket);
}

int evzmq__socket_check(const struct evzmq_socket *socket)
{
    if (socket == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (evzmq__base_check(socket->base) < 0) {
        return -1;
    }
    if (socket->terminal_error != 0) {
        errno = socket->terminal_error;
        return -1;
    }
    return 0;
}

void evzmq__socket_attend(struct evzmq_socket *socket)
{
    socket->touched = true;
    if (!socket->in_pass && evzmq__source_schedule(socket->source)) {
        socket->counters.continuations++;
    }
}

int evzmq__socket_look(struct evzmq_socket *socket)
{
    int events = 0;
    int result = -1;
    for (int tries = 0; tries < 100 && result < 0; tries++) {
        size_t size = sizeof(events);
        result = zmq_getsockopt(socket->zmq_socket, ZMQ_EVENTS, &events, &size);
        if (result < 0 && errno != EINTR) {
            return -1;
        }
    }
    return result < 0 ? -1 : events;
}

void evzmq__socket_report(struct evzmq_socket *socket, const struct evzmq_event *event)
{
    if (socket->event_cb != NULL) {
        socket->event_cb(socket, event, socket->arg);
    }
}

bool evzmq__is_terminal(int error)
{
    return error == ETERM || error == ENOTSOCK;
}

/* The context was terminated, or the socket closed by somebody else. */
void evzmq__pass_terminate(struct evzmq__pass *pass, int error)
{
    struct evzmq_socket *socket = pass->socket;
    socket->pause |= EVZMQ__PAUSE_TERMINATED;
    socket->terminal_error = error;
    evzmq__source_stop(socket->source);
    evzmq__packing_stop(socket);
    evzmq__timeouts_free(socket);
    evzmq__feeders_close(socket, false);
    pass->reported++;
    const struct evzmq_event event = {
        .size = sizeof(event), .type = EVZMQ_EVENT_TERMINATED, .error = error};
    evzmq__socket_report(socket, &event);
    if ((socket->pause & EVZMQ__PAUSE_DYING) == 0) {
        evzmq__shutdown_update(socket);
    }
}

static void report_error(struct evzmq__pass *pass, int error)
{
    pass->reported++;
    const struct evzmq_event event = {
        .size = sizeof(event), .type = EVZMQ_EVENT_ERROR, .error = error};
    evzmq__socket_report(pass->socket, &event);
}

void evzmq__socket_retry(struct evzmq_socket *socket)
{
    evzmq__source_schedule_after(socket->source, NOMEM_RETRY_USEC);
}

/* Arranges a pass after a failure that may pass. */
enum evzmq__step evzmq__pass_retry_later(struct evzmq__pass *pass, int error)
{
    struct evzmq_socket *socket = pass->socket;
    pass->retry = true;
    if (error == EINTR) {
        evzmq__source_schedule_after(socket->source, EINTR_RETRY_USEC);
        return EVZMQ__STEP_RETRY;
    }
    evzmq__socket_retry(socket);
    report_error(pass, error);
    return EVZMQ__STEP_RETRY;
}

/* Whether the pass may end without reading ZMQ_EVENTS. */
static bool is_settled(const struct evzmq_socket *socket, enum evzmq__drain_stop stop)
{
    return stop == EVZMQ__STOP_EMPTY && socket->queue.messages == 0 && !socket->touched &&
           !evzmq__packing_is_due(socket);
}

/* Whether there is something to receive or to send right now. */
static bool has_more(const struct evzmq_socket *socket, int events)
{
    const bool input =
        socket->pause == 0 && ((events & ZMQ_POLLIN) != 0 || evzmq__unpacking_has_rest(socket));
    const bool output = socket->write_enabled && !evzmq__packing_is_blocked(socket) &&
                        (socket->queue.ready.count > 0 ||
                         (socket->queue.messages > 0 && (events & ZMQ_POLLOUT) != 0 &&
                          !socket->type->always_pollout));
    return input || output || evzmq__packing_is_due(socket);
}

static bool is_spent(const struct evzmq__pass *pass, enum evzmq__drain_stop stop)
{
    return stop == EVZMQ__STOP_BREAK || pass->read.spent || pass->write.spent ||
           evzmq__loop_is_breaking(pass->socket->base->event_base);
}

/* Tries what is parked once more after the look. Returns whether that did anything: sent a message,
 * or ran a callback, which may have done anything. */
static bool retry_parked(struct evzmq__pass *pass)
{
    if (!pass->socket->type->always_pollout || pass->socket->queue.parked.count == 0) {
        return false;
    }
    const uint64_t before = pass->sent + pass->reported;
    evzmq__pass_flush(pass);
    return pass->sent + pass->reported != before;
}

/* Reads ZMQ_EVENTS and says whether the pass has more to do. */
static bool look_again(struct evzmq__pass *pass)
{
    struct evzmq_socket *socket = pass->socket;
    const int events = evzmq__socket_look(socket);
    if (events < 0) {
        if (evzmq__is_terminal(errno)) {
            evzmq__pass_terminate(pass, errno);
        } else {
            (void)evzmq__pass_retry_later(pass, errno);
        }
        return false;
    }
    const bool progress = retry_parked(pass);
    socket->touched = progress;
    return evzmq__socket_is_alive(socket) && (progress || pass->unfed || has_more(socket, events));
}

/* After a failure, which may have come before any call of libzmq: without one ZMQ_FD stays readable
 * and wakes the socket at once, again and again, long before it is to try again. */
static void settle_fd(struct evzmq__pass *pass)
{
    if (evzmq__socket_is_alive(pass->socket) && evzmq__socket_look(pass->socket) < 0 &&
        evzmq__is_terminal(errno)) {
        evzmq__pass_terminate(pass, errno);
    }
}

/* The body of a pass. */
static void run_pass(struct evzmq__pass *pass)
{
    struct evzmq_socket *socket = pass->socket;
    for (;;) {
        const enum evzmq__drain_stop stop = evzmq__pass_receive(pass);
        if (evzmq__socket_is_alive(socket)) {
            evzmq__pass_pack(pass);
        }
        if (evzmq__socket_is_alive(socket)) {
            evzmq__pass_flush(pass);
        }
        if (evzmq__socket_is_alive(socket) && !pass->retry) {
            evzmq__pass_feed(pass);
        }
        if (evzmq__socket_is_alive(socket)) {
            evzmq__pass_report_marks(pass);
        }
        if (pass->retry) {
            settle_fd(pass);
            return;
        }
        if (!evzmq__socket_is_alive(socket) || is_settled(socket, stop) || !look_again(pass)) {
            return;
        }
        if (is_spent(pass, stop)) {
            socket->touched = true;
            return;
        }
    }
}

/* Arranges the recheck of parked peers, unless this pass was it. */
static void arrange_recheck(struct evzmq__pass *pass, enum evzmq__wakeup why)
{
    struct evzmq_socket *socket = pass->socket;
    const bool was_recheck = why == EVZMQ__WAKEUP_DELAY && pass->sent == 0;
    if (was_recheck && evzmq__clock_ns() - pass->started < RECHECK_PASS_MAX_NS) {
        return;
    }
    if (!was_recheck) {
        socket->recheck_usec = RECHECK_USEC;
    } else if (socket->recheck_usec < RECHECK_USEC_MAX) {
        socket->recheck_usec *= 2;
    }
    evzmq__source_schedule_after(socket->source, socket->recheck_usec);
}

/* Arranges what has to follow a pass. */
static void arrange_next(struct evzmq__pass *pass, enum evzmq__wakeup why)
{
    struct evzmq_socket *socket = pass->socket;
    if (pass->retry) {
        return;
    }
    if (socket->touched || socket->queue.marks != 0) {
        evzmq__socket_attend(socket);
    } else if (socket->type->always_pollout && socket->queue.parked.count > 0) {
        arrange_recheck(pass, why);
    }
}

static void finish_pass(struct evzmq__pass *pass, enum evzmq__wakeup why)
{
    struct evzmq_socket *socket = pass->socket;
    struct evzmq__counters *counters = &socket->counters;
    counters->budget_hits += pass->read.spent || pass->write.spent;
    counters->wakeups_empty +=
        evzmq__pass_received(pass) + pass->sent + pass->fed + pass->reported == 0;
    if (evzmq__socket_is_alive(socket)) {
        evzmq__timeouts_update(socket, evzmq__pass_received(pass) > 0, pass->sent > 0);
        evzmq__shutdown_update(socket);
    }
    socket->in_pass = false;
    evzmq_codec_free(socket->codec_retired);
    socket->codec_retired = NULL;
    if (evzmq__socket_is_alive(socket)) {
        arrange_next(pass, why);
    }
}

void evzmq__socket_service(void *arg, enum evzmq__wakeup why)
{
    struct evzmq_socket *socket = arg;
    struct evzmq__base *base = socket->base;
    if (!evzmq__socket_enter(socket)) {
        evzmq__source_mute_in_child(socket->source);
        return;
    }
    socket->in_pass = true;
    socket->counters.wakeups++;

    struct evzmq__pass pass = {.socket = socket,
                               .started = evzmq__clock_ns(),
                               .messages_in_before = socket->counters.messages_in};
    struct evzmq__budget budget = socket->read_budget;
    if (socket->default_read_messages && evzmq__unpacking_is_on(socket)) {
        budget.messages = EVZMQ__BUDGET_RECORDS;
    }
    evzmq__meter_start(&pass.read, &budget, pass.started, evzmq__clock_ns);
    run_pass(&pass);
    finish_pass(&pass, why);

    if (base->receiving != NULL) {
        evzmq__message_release(base->receiving);
    }
    evzmq__socket_leave(socket); /* may free the base record too */
}
