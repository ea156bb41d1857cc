/*
 * worker.c (L6): the worker's side of a pool.
 *
 *     connection string -> PULL requests, PUSH responses, PUSH ready, a monitor on the first two
 *     both handshakes done -> ready signal, and again with every heartbeat
 *     word to end, main process gone, connection gone -> event -> flush answers -> off the base
 *
 * How a worker learns that its main process is gone: a process fd where the system has one; else
 * the parent's number, asked with every beat; a signal at the parent's death, for when the loop is
 * busy; and on other machines, the monitors.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* prctl() */
#endif
#include <evzmq/worker.h>

#include <errno.h>
#include <signal.h>
#include <string.h>

#include <unistd.h>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/context.h>
#include <evzmq/monitor.h>
#include <evzmq/pool.h>

#include "base.h"
#include "codec.h"
#include "context.h"
#include "headed.h"
#include "link.h"
#include "process.h"
#include "registry.h"
#include "socket.h"

#define NEVER UINT64_MAX
#define MS UINT64_C(1000000) /* in nanoseconds */

enum {
    /* The longest time between two looks at what no event tells. */
    BEAT_MAX_MS = 500,
    /* Heartbeats that ZeroMQ holds while the main process does not read. */
    READY_HWM = 8
};

/* The two connections that make a worker ready. */
enum { REQUESTS, RESPONSES, LINES };

struct line {
    struct evzmq_worker *worker;
    struct evzmq_monitor *monitor;
    bool connected;
};

struct evzmq_worker {
    struct evzmq__base *base;
    struct evzmq_context *context;
    bool owns_context;
    unsigned references; /* the user's, and one for each function that must find it in place */
    bool dying;

    evzmq_worker_request_cb request_cb;
    evzmq_worker_event_cb event_cb;
    void *arg;

    struct evzmq__link link;
    struct evzmq_worker_options options; /* without pointers, with the defaults filled in */
    struct evzmq_codec *codec;
    struct evzmq_socket *requests;
    struct evzmq_socket *responses;
    struct evzmq_socket *ready;
    struct line lines[LINES];
    struct evzmq__timer *beat;
    struct evzmq__source *parent; /* NULL without a process fd */
    int parent_fd;
    bool is_child; /* of the main process: its parent changes when that is gone */

    uint64_t apart_at; /* not connected since; NEVER while connected */
    uint64_t beat_at; /* of the last ready signal */
    bool is_ready; /* both lines were connected once */
    bool asked; /* to end; the event was told */
    bool held; /* evzmq_worker_hold() */
    bool in_end; /* in the callback of that event */
    bool ending; /* evzmq_worker_shutdown() */
    bool ended;
    enum evzmq_worker_reason reason;
};

static int check_usable(const struct evzmq_worker *worker)
{
    if (worker == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (evzmq__base_is_stale(worker->base)) {
        errno = ECHILD;
        return -1;
    }
    return 0;
}

static void worker_unref(struct evzmq_worker *worker)
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
    worker->base->owner = pthread_self();
    return true;
}

static void leave(struct evzmq_worker *worker)
{
    worker->base->depth--;
    worker_unref(worker);
}

static void tell(struct evzmq_worker *worker, struct evzmq_worker_event *event)
{
    event->size = sizeof(*event);
    if (worker->event_cb != NULL && !worker->dying) {
        worker->event_cb(worker, event, worker->arg);
    }
}

/* Takes everything off the base. */
static void take_down(struct evzmq_worker *worker)
{
    for (int i = 0; i < LINES; i++) {
        evzmq_monitor_free(worker->lines[i].monitor);
        worker->lines[i].monitor = NULL;
    }
    if (worker->parent != NULL && evzmq__base_is_stale(worker->base)) {
        /* A forked child. The fd stays open: libevent will look at it in event_reinit(). */
        evzmq__source_abandon(worker->parent, &worker->base->abandoned);
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

/* The answers went out, or their time is over. */
static void on_flushed(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                       void *arg)
{
    struct evzmq_worker *worker = arg;
    (void)socket;
    (void)handed_over;
    if (!enter(worker)) {
        return;
    }
    take_down(worker);
    worker->ended = true;
    struct evzmq_worker_event event = {
        .type = EVZMQ_WORKER_EVENT_ENDED, .reason = worker->reason, .unsent = not_handed_over};
    tell(worker, &event);
    leave(worker);
}

int evzmq_worker_shutdown(struct evzmq_worker *worker)
{
    if (check_usable(worker) < 0) {
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
        return -1;
    }
    worker->ending = true;
    (void)evzmq_socket_disable(worker->requests, EV_READ);
    return 0;
}

/* The worker is to end. The worker may be dying after. */
static void ask_to_end(struct evzmq_worker *worker, enum evzmq_worker_reason reason)
{
    if (worker->asked) {
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
    return worker->lines[REQUESTS].connected && worker->lines[RESPONSES].connected;
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

static void on_line(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event,
                    void *arg)
{
    struct line *line = arg;
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
    worker->apart_at = NEVER;
    send_ready(worker);
    if (!worker->is_ready) {
        worker->is_ready = true;
        struct evzmq_worker_event told = {.type = EVZMQ_WORKER_EVENT_READY};
        tell(worker, &told);
    }
}

static bool is_parent_gone(const struct evzmq_worker *worker)
{
    const pid_t parent = (pid_t)worker->link.parent;
    if (parent == 0) {
        return false;
    }
    return (worker->is_child && getppid() != parent) || (kill(parent, 0) < 0 && errno == ESRCH);
}

static void on_parent(void *arg, enum evzmq__wakeup why)
{
    struct evzmq_worker *worker = arg;
    (void)why;
    if (!enter(worker)) {
        evzmq__source_mute(worker->parent);
        return;
    }
    evzmq__source_mute(worker->parent); /* It stays readable. */
    ask_to_end(worker, EVZMQ_WORKER_REASON_MAIN_GONE);
    leave(worker);
}

static void start_beat(struct evzmq_worker *worker)
{
    const unsigned beat = worker->link.heartbeat_ms;
    const unsigned ms = beat < BEAT_MAX_MS ? beat : BEAT_MAX_MS;
    const struct timeval delay = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000};
    (void)evzmq__timer_start(worker->beat, &delay);
}

/* What the time that a worker has been without a connection means. */
static enum evzmq_worker_reason judge(const struct evzmq_worker *worker, uint64_t now)
{
    if (is_parent_gone(worker)) {
        return EVZMQ_WORKER_REASON_MAIN_GONE;
    }
    if (worker->apart_at == NEVER) {
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

static void on_beat(void *arg)
{
    struct evzmq_worker *worker = arg;
    if (!enter(worker)) {
        return;
    }
    const uint64_t now = evzmq__clock_ns();
    start_beat(worker);
    if (is_connected(worker) && now - worker->beat_at >= worker->link.heartbeat_ms * MS - MS / 2) {
        send_ready(worker);
    }
    const enum evzmq_worker_reason reason = judge(worker, now);
    if (reason != EVZMQ_WORKER_REASON_NONE) {
        ask_to_end(worker, reason);
    }
    leave(worker);
}

static void on_request(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
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
        worker_unref(worker);
    } else {
        worker->request_cb(worker, message, worker->arg);
    }
}

static void on_socket_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
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
    default:
        break;
    }
    tell(worker, &told);
}

static void set_default(unsigned *field, unsigned value)
{
    *field = *field == 0 ? value : *field;
}

static int take_options(struct evzmq_worker *worker, const struct evzmq_worker_options *options)
{
    struct evzmq_worker_options *own = &worker->options;
    if (options != NULL && options->size != sizeof(*options)) {
        errno = EINVAL;
        return -1;
    }
    if (options != NULL) {
        *own = *options;
    }
    set_default(&own->connect_ms, EVZMQ_WORKER_CONNECT_MS);
    set_default(&own->disconnected_ms, EVZMQ_WORKER_DISCONNECTED_MS);
    set_default(&own->end_ms, EVZMQ_WORKER_END_MS);
    own->parent_death_signal = own->parent_death_signal == 0 ? SIGKILL : own->parent_death_signal;
    worker->codec = own->codec == NULL ? evzmq_codec_raw() : own->codec;
    evzmq__codec_ref(worker->codec);
    worker->context = own->context;
    own->codec = NULL;
    own->context = NULL;
    if (worker->context == NULL) {
        worker->context = evzmq_context_new(1, NULL);
        worker->owns_context = true;
    }
    return worker->context == NULL ? -1 : 0;
}

/* Starts to watch the main process. Returns 0, or -1 with ESRCH: it is gone. */
static int watch_parent(struct evzmq_worker *worker)
{
    const pid_t parent = (pid_t)worker->link.parent;
    if (parent == 0) {
        return 0;
    }
    worker->is_child = getppid() == parent;
#if defined(__linux__)
    if (worker->is_child && worker->options.parent_death_signal > 0) {
        (void)prctl(PR_SET_PDEATHSIG, (unsigned long)worker->options.parent_death_signal, 0, 0, 0);
    }
#endif
    worker->parent_fd = evzmq__process_open(parent);
    if (is_parent_gone(worker)) {
        errno = ESRCH;
        return -1;
    }
    if (worker->parent_fd >= 0) {
        worker->parent =
            evzmq__source_new(worker->base->event_base, worker->parent_fd, on_parent, worker);
        return worker->parent == NULL ? -1 : 0;
    }
    return 0;
}

/* Makes a socket, monitors it where there is a line for it, connects and attaches it. NULL with
 * errno. */
static struct evzmq_socket *join(struct evzmq_worker *worker, int type, const char *endpoint,
                                 int hwm, struct line *line)
{
    const unsigned events = EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED | EVZMQ_MONITOR_DISCONNECTED;
    struct event_base *base = worker->base->event_base;
    struct evzmq_context *context = worker->context;
    const int ipv6 = strchr(endpoint, '[') != NULL;
    struct evzmq_socket *socket = NULL;
    void *zmq_socket = evzmq_context_socket(context, type);
    if (zmq_socket == NULL) {
        return NULL;
    }
    if ((hwm > 0 && zmq_setsockopt(zmq_socket, type == ZMQ_PULL ? ZMQ_RCVHWM : ZMQ_SNDHWM, &hwm,
                                   sizeof(hwm)) < 0) ||
        zmq_setsockopt(zmq_socket, ZMQ_IPV6, &ipv6, sizeof(ipv6)) < 0) {
        goto fail;
    }
    if (line != NULL) {
        line->worker = worker;
        line->monitor =
            evzmq_monitor_new(base, context->zmq_context, zmq_socket, events, on_line, line);
        if (line->monitor == NULL) {
            goto fail;
        }
    }
    if (evzmq_context_connect(context, zmq_socket, endpoint) < 0) {
        goto fail;
    }
    socket = evzmq_socket_new(base, zmq_socket, EVZMQ_OPT_CLOSE_ON_FREE);
    if (socket != NULL) {
        evzmq_socket_setcb(socket, NULL, NULL, on_socket_event, worker);
        return socket;
    }

fail:;
    const int error = errno;
    if (line != NULL) {
        evzmq_monitor_free(line->monitor);
        line->monitor = NULL;
    }
    (void)evzmq_context_close_socket(context, zmq_socket);
    errno = error;
    return NULL;
}

static int build(struct evzmq_worker *worker, struct event_base *base, const char *connection,
                 const struct evzmq_worker_options *options)
{
    if (evzmq__link_parse(&worker->link, connection) < 0) {
        return -1;
    }
    worker->base = evzmq__base_acquire(base);
    if (worker->base == NULL || take_options(worker, options) < 0 || watch_parent(worker) < 0) {
        return -1;
    }
    worker->beat = evzmq__timer_new(base, on_beat, worker);
    if (worker->beat == NULL) {
        return -1;
    }
    worker->ready = join(worker, ZMQ_PUSH, worker->link.ready, READY_HWM, NULL);
    if (worker->ready == NULL) {
        return -1;
    }
    worker->responses =
        join(worker, ZMQ_PUSH, worker->link.responses, 0, &worker->lines[RESPONSES]);
    if (worker->responses == NULL) {
        return -1;
    }
    worker->requests = join(worker, ZMQ_PULL, worker->link.requests, (int)worker->link.request_hwm,
                            &worker->lines[REQUESTS]);
    if (worker->requests == NULL) {
        return -1;
    }
    evzmq__headed_receive(worker->requests);
    if (evzmq_socket_set_codec(worker->requests, worker->codec) < 0 ||
        evzmq_socket_set_codec(worker->responses, worker->codec) < 0 ||
        evzmq_socket_set_output_limit(worker->responses, worker->options.output_messages,
                                      worker->options.output_bytes) < 0) {
        return -1;
    }
    return evzmq_socket_enable(worker->requests, EV_READ);
}

struct evzmq_worker *evzmq_worker_new(struct event_base *base, const char *connection,
                                      const struct evzmq_worker_options *options)
{
    if (base == NULL || connection == NULL) {
        errno = EINVAL;
        return NULL;
    }
    struct evzmq_worker *worker = evzmq__calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return NULL;
    }
    worker->references = 1;
    worker->parent_fd = -1;
    worker->apart_at = evzmq__clock_ns();
    if (build(worker, base, connection, options) < 0) {
        const int error = errno;
        evzmq_worker_free(worker);
        errno = error;
        return NULL;
    }
    start_beat(worker);
    return worker;
}

void evzmq_worker_free(struct evzmq_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    worker->dying = true;
    if (worker->base != NULL) {
        take_down(worker);
    }
    if (worker->owns_context) {
        (void)evzmq_context_free(worker->context);
    }
    worker_unref(worker);
}

void evzmq_worker_setcb(struct evzmq_worker *worker, evzmq_worker_request_cb request_cb,
                        evzmq_worker_event_cb event_cb, void *arg)
{
    if (check_usable(worker) < 0) {
        return;
    }
    worker->request_cb = request_cb;
    worker->event_cb = event_cb;
    worker->arg = arg;
    if (worker->requests != NULL) {
        evzmq_socket_setcb(worker->requests, request_cb == NULL ? NULL : on_request, NULL,
                           on_socket_event, worker);
    }
}

unsigned evzmq_worker_get_identity(const struct evzmq_worker *worker)
{
    return worker == NULL ? 0 : worker->link.identity;
}

struct evzmq_socket *evzmq_worker_get_request_socket(const struct evzmq_worker *worker)
{
    return worker == NULL ? NULL : worker->requests;
}

struct evzmq_socket *evzmq_worker_get_response_socket(const struct evzmq_worker *worker)
{
    return worker == NULL ? NULL : worker->responses;
}

/* Whether an answer may be sent, and its header. */
static int begin_answer(struct evzmq_worker *worker, unsigned flags, struct evzmq__header *header)
{
    if (check_usable(worker) < 0) {
        return -1;
    }
    if ((flags & ~(unsigned)EVZMQ_POOL_FLAG_MORE) != 0) {
        errno = EINVAL;
        return -1;
    }
    if (worker->responses == NULL) {
        errno = ESHUTDOWN;
        return -1;
    }
    *header = (struct evzmq__header){
        .identity = worker->link.identity, .start = worker->link.start, .flags = flags};
    return 0;
}

int evzmq_worker_answer(struct evzmq_worker *worker, const void *data, size_t size, unsigned flags)
{
    struct evzmq__header header;
    return begin_answer(worker, flags, &header) < 0
               ? -1
               : evzmq__headed_write(worker->responses, &header, data, size);
}

int evzmq_worker_answer_parts(struct evzmq_worker *worker, const struct evzmq_bytes *parts,
                              size_t count, unsigned flags)
{
    struct evzmq__header header;
    return begin_answer(worker, flags, &header) < 0
               ? -1
               : evzmq__headed_write_parts(worker->responses, &header, parts, count);
}

int evzmq_worker_answer_message(struct evzmq_worker *worker, struct evzmq_message *message,
                                unsigned flags)
{
    struct evzmq__header header;
    return begin_answer(worker, flags, &header) < 0
               ? -1
               : evzmq__headed_write_message(worker->responses, &header, message);
}

int evzmq_worker_answer_value(struct evzmq_worker *worker, const void *value, unsigned flags)
{
    struct evzmq__header header;
    return begin_answer(worker, flags, &header) < 0
               ? -1
               : evzmq__headed_write_value(worker->responses, &header, value);
}
