/*
 * worker_join.c (L6): making and freeing a worker, and what it sends. See worker.c for the rest of
 * its life.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* prctl() */
#endif
#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include <unistd.h>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/pool.h>

#include "base.h"
#include "codec.h"
#include "context.h"
#include "headed.h"
#include "process.h"

/* Heartbeats that ZeroMQ holds while the main process does not read. */
enum { READY_HWM = 8 };

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
    set_default(&own->connect_ms, worker->link.connect_ms);
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
    if (evzmq__worker_is_orphan(worker)) {
        errno = ESRCH;
        return -1;
    }
    if (worker->parent_fd >= 0) {
        worker->parent = evzmq__source_new(worker->base->event_base, worker->parent_fd,
                                           evzmq__worker_on_parent, worker);
        return worker->parent == NULL ? -1 : 0;
    }
    return 0;
}

/* Makes a socket, monitors it where there is a line for it, connects and attaches it. NULL with
 * errno. */
static struct evzmq_socket *join(struct evzmq_worker *worker, int type, const char *endpoint,
                                 int hwm, struct evzmq__line *line)
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
        line->monitor = evzmq_monitor_new(base, context->zmq_context, zmq_socket, events,
                                          evzmq__worker_on_line, line);
        if (line->monitor == NULL) {
            goto fail;
        }
    }
    if (evzmq_context_connect(context, zmq_socket, endpoint) < 0) {
        goto fail;
    }
    socket = evzmq_socket_new(base, zmq_socket, EVZMQ_OPT_CLOSE_ON_FREE);
    if (socket != NULL) {
        evzmq_socket_setcb(socket, NULL, NULL, evzmq__worker_on_socket_event, worker);
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
    worker->beat = evzmq__timer_new(base, evzmq__worker_on_beat, worker);
    if (worker->beat == NULL || evzmq__timer_stand(worker->beat) < 0) {
        return -1;
    }
    worker->ready = join(worker, ZMQ_PUSH, worker->link.ready, READY_HWM, NULL);
    if (worker->ready == NULL) {
        return -1;
    }
    worker->responses =
        join(worker, ZMQ_PUSH, worker->link.responses, 0, &worker->lines[EVZMQ__LINE_RESPONSES]);
    if (worker->responses == NULL) {
        return -1;
    }
    worker->requests = join(worker, ZMQ_PULL, worker->link.requests, (int)worker->link.request_hwm,
                            &worker->lines[EVZMQ__LINE_REQUESTS]);
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
    evzmq__worker_start_beat(worker);
    return worker;
}

void evzmq_worker_free(struct evzmq_worker *worker)
{
    if (worker == NULL || (worker->base != NULL && evzmq__base_is_foreign(worker->base))) {
        return;
    }
    worker->dying = true;
    if (worker->base != NULL) {
        evzmq__worker_take_down(worker);
    }
    if (worker->owns_context) {
        (void)evzmq_context_free(worker->context);
    }
    evzmq__worker_unref(worker);
}

void evzmq_worker_setcb(struct evzmq_worker *worker, evzmq_worker_request_cb request_cb,
                        evzmq_worker_event_cb event_cb, void *arg)
{
    if (evzmq__worker_check(worker) < 0) {
        return;
    }
    worker->request_cb = request_cb;
    worker->event_cb = event_cb;
    worker->arg = arg;
    if (worker->requests != NULL) {
        evzmq_socket_setcb(worker->requests, request_cb == NULL ? NULL : evzmq__worker_on_request,
                           NULL, evzmq__worker_on_socket_event, worker);
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
    if (evzmq__worker_check(worker) < 0) {
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
