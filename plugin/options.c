/*
 * options.c (L3): what can be set on and read from a socket.
 */
#include "socket.h"

#include <errno.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

#include "packing.h"
#include "unpack.h"

static int refuse(int error)
{
    errno = error;
    return -1;
}

/* Sets or clears a reason not to read. With the last one gone, what has arrived meanwhile is to be
 * delivered. */
static void set_pause(struct evzmq_socket *socket, unsigned reason, bool on)
{
    const unsigned before = socket->pause;
    socket->pause = on ? before | reason : before & ~reason;
    if (before != 0 && socket->pause == 0) {
        evzmq__socket_attend(socket);
    }
}

void evzmq_socket_setcb(struct evzmq_socket *socket, evzmq_read_cb read_cb, evzmq_write_cb write_cb,
                        evzmq_event_cb event_cb, void *arg)
{
    if (socket == NULL || evzmq__base_is_foreign(socket->base)) {
        return;
    }
    socket->read_cb = read_cb;
    socket->write_cb = write_cb;
    socket->event_cb = event_cb;
    socket->arg = arg;
    if (evzmq__socket_check(socket) == 0) {
        set_pause(socket, EVZMQ__PAUSE_NO_CALLBACK, read_cb == NULL);
        evzmq__timeouts_update(socket, false, false);
    }
}

void evzmq_socket_getcb(const struct evzmq_socket *socket, evzmq_read_cb *out_read_cb,
                        evzmq_write_cb *out_write_cb, evzmq_event_cb *out_event_cb, void **out_arg)
{
    if (socket == NULL) {
        return;
    }
    if (out_read_cb != NULL) {
        *out_read_cb = socket->read_cb;
    }
    if (out_write_cb != NULL) {
        *out_write_cb = socket->write_cb;
    }
    if (out_event_cb != NULL) {
        *out_event_cb = socket->event_cb;
    }
    if (out_arg != NULL) {
        *out_arg = socket->arg;
    }
}

struct event_base *evzmq_socket_get_base(const struct evzmq_socket *socket)
{
    return socket == NULL ? NULL : socket->base->event_base;
}

void *evzmq_socket_get_zmq_socket(const struct evzmq_socket *socket)
{
    return socket == NULL ? NULL : socket->zmq_socket;
}

size_t evzmq_socket_get_queued(const struct evzmq_socket *socket, size_t *out_bytes)
{
    if (socket == NULL) {
        if (out_bytes != NULL) {
            *out_bytes = 0;
        }
        return 0;
    }
    return evzmq__socket_count_queued(socket, out_bytes);
}

static bool is_direction(short events)
{
    return (events & ~(EV_READ | EV_WRITE)) == 0;
}

int evzmq_socket_enable(struct evzmq_socket *socket, short events)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (!is_direction(events)) {
        return refuse(EINVAL);
    }
    if ((events & EV_READ) != 0 && !socket->type->reads) {
        return refuse(ENOTSUP);
    }
    if ((socket->pause & EVZMQ__PAUSE_SHUTDOWN) != 0) {
        return refuse(ESHUTDOWN);
    }
    if ((events & EV_READ) != 0) {
        set_pause(socket, EVZMQ__PAUSE_USER, false);
    }
    if ((events & EV_WRITE) != 0 && !socket->write_enabled) {
        socket->write_enabled = true;
        evzmq__socket_attend(socket);
    }
    evzmq__timeouts_update(socket, false, false);
    return 0;
}

int evzmq_socket_disable(struct evzmq_socket *socket, short events)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (!is_direction(events)) {
        return refuse(EINVAL);
    }
    if ((events & EV_READ) != 0) {
        set_pause(socket, EVZMQ__PAUSE_USER, true);
    }
    /* A shutdown that is under way sends what was accepted before it. */
    if ((events & EV_WRITE) != 0 && (socket->pause & EVZMQ__PAUSE_SHUTDOWN) == 0) {
        socket->write_enabled = false;
    }
    evzmq__timeouts_update(socket, false, false);
    return 0;
}

short evzmq_socket_get_enabled(const struct evzmq_socket *socket)
{
    if (socket == NULL || !evzmq__socket_is_alive(socket)) {
        return 0;
    }
    const bool reads = (socket->pause & (EVZMQ__PAUSE_USER | EVZMQ__PAUSE_SHUTDOWN)) == 0;
    return (short)((reads ? EV_READ : 0) | (socket->write_enabled ? EV_WRITE : 0));
}

int evzmq_socket_set_codec(struct evzmq_socket *socket, struct evzmq_codec *codec)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    struct evzmq_codec *next = codec == NULL ? evzmq_codec_raw() : codec;
    if (socket->type->zmq_type == ZMQ_STREAM && next != evzmq_codec_raw()) {
        return refuse(ENOTSUP);
    }
    /* The rest of a frame is delivered record by record also when unpacking was turned off. */
    if ((evzmq__packing_is_on(socket) && !evzmq__packing_takes_codec(next)) ||
        (evzmq__unpacking_is_active(socket) && next->decode_prefix == NULL)) {
        return refuse(ENOTSUP);
    }
    if (evzmq__packing_close(socket) < 0) {
        return -1;
    }
    evzmq__codec_ref(next);
    const struct evzmq_message *receiving = evzmq__socket_get_receiving(socket);
    if (socket->in_pass && receiving != NULL && receiving->codec == socket->codec) {
        /* The message in delivery refers to its codec until the callback returns. Whichever was
         * kept before was kept for an earlier message. */
        evzmq_codec_free(socket->codec_retired);
        socket->codec_retired = socket->codec;
    } else {
        evzmq_codec_free(socket->codec);
    }
    socket->codec = next;
    return 0;
}

int evzmq_socket_set_receive_mode(struct evzmq_socket *socket, enum evzmq_receive_mode mode)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    switch (mode) {
    case EVZMQ_RECEIVE_AUTO:
    case EVZMQ_RECEIVE_INTO:
    case EVZMQ_RECEIVE_IN_PLACE:
    case EVZMQ_RECEIVE_OWNED:
        socket->mode = (unsigned char)mode;
        evzmq__socket_choose_way(socket);
        return 0;
    default:
        return refuse(EINVAL);
    }
}

int evzmq_socket_set_max_message(struct evzmq_socket *socket, size_t bytes, size_t parts,
                                 enum evzmq_oversize_policy policy)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (policy != EVZMQ_OVERSIZE_DROP && policy != EVZMQ_OVERSIZE_DELIVER) {
        return refuse(EINVAL);
    }
    const bool drops = policy == EVZMQ_OVERSIZE_DROP;
    socket->limits.bytes = drops ? bytes : 0;
    socket->limits.parts = drops ? parts : 0;
    evzmq__socket_choose_way(socket);
    return 0;
}

int evzmq_socket_priority_set(struct evzmq_socket *socket, int priority)
{
    if (evzmq__socket_check(socket) < 0 ||
        evzmq__source_set_priority(socket->source, priority) < 0) {
        return -1;
    }
    return 0;
}

/* The fields of a budget that were left 0 take their defaults. */
static struct evzmq__budget budget_of(size_t messages, size_t bytes, unsigned usec)
{
    return (struct evzmq__budget){
        .messages = messages != 0 ? messages : EVZMQ__BUDGET_MESSAGES,
        .bytes = bytes != 0 ? bytes : EVZMQ__BUDGET_BYTES,
        .usec = usec != 0 ? usec : EVZMQ__BUDGET_USEC,
    };
}

int evzmq_socket_set_budget(struct evzmq_socket *socket, const struct evzmq_budget *budget)
{
    static const struct evzmq_budget defaults = {.size = sizeof(defaults)};
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (budget == NULL) {
        budget = &defaults;
    }
    if (budget->size != sizeof(*budget)) {
        return refuse(EINVAL);
    }
    socket->default_read_messages = budget->read_messages == 0;
    socket->read_budget = budget_of(budget->read_messages, budget->read_bytes, budget->read_usec);
    socket->write_budget =
        budget_of(budget->write_messages, budget->write_bytes, budget->write_usec);
    return 0;
}

int evzmq_socket_set_output_limit(struct evzmq_socket *socket, size_t messages, size_t bytes)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    socket->queue.messages_max = messages != 0 ? messages : EVZMQ_OUTPUT_MESSAGES_DEFAULT;
    socket->queue.bytes_max = bytes != 0 ? bytes : EVZMQ_OUTPUT_BYTES_DEFAULT;
    evzmq__packing_limit_changed(socket);
    if (socket->feeders.ready_first != NULL) {
        evzmq__socket_attend(socket);
    }
    return 0;
}

int evzmq_socket_set_output_watermark(struct evzmq_socket *socket, size_t low_bytes,
                                      size_t high_bytes)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (high_bytes != 0 && high_bytes <= low_bytes) {
        return refuse(EINVAL);
    }
    evzmq__queue_set_marks(&socket->queue, low_bytes, high_bytes);
    if (socket->queue.marks != 0) {
        evzmq__socket_attend(socket);
    }
    return 0;
}

int evzmq_socket_touch(struct evzmq_socket *socket)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    evzmq__socket_attend(socket);
    return 0;
}

int evzmq_socket_get_stats(const struct evzmq_socket *socket, struct evzmq_socket_stats *out)
{
    if (socket == NULL || out == NULL || out->size < sizeof(out->size)) {
        return refuse(EINVAL);
    }
    const struct evzmq__counters *counters = &socket->counters;
    size_t queue_bytes = 0;
    const size_t queue_records = evzmq__socket_count_queued(socket, &queue_bytes);
    struct evzmq_socket_stats all = {
        .messages_in = counters->messages_in,
        .bytes_in = counters->bytes_in,
        .messages_out = counters->messages_out,
        .bytes_out = counters->bytes_out,
        .wakeups = counters->wakeups,
        .wakeups_empty = counters->wakeups_empty,
        .budget_hits = counters->budget_hits,
        .continuations = counters->continuations,
        .receive_eagains = counters->receive_eagains,
        .send_eagains = counters->send_eagains,
        .spills = counters->spills,
        .oversize_dropped = counters->oversize_dropped,
        .oversize_bytes = counters->oversize_bytes,
        .undeliverable = counters->undeliverable,
        .writes_refused = counters->writes_refused,
        .writes_after_shutdown = counters->writes_after_shutdown,
        .restarts = counters->restarts,
        .queue_messages = queue_records,
        .queue_bytes = queue_bytes,
        .queue_messages_peak = socket->queue.messages_peak,
        .queue_bytes_peak = socket->queue.bytes_peak,
        .parked_peers =
            socket->type->routes ? socket->queue.ready.count + socket->queue.parked.count : 0,
    };
    memcpy(all.decode_errors, counters->decode_errors, sizeof(all.decode_errors));
    all.size = out->size < sizeof(all) ? out->size : sizeof(all);
    memcpy(out, &all, all.size);
    return 0;
}
