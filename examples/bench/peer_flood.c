/*
 * The sender: encodes records (or copies ones made beforehand) and issues them over a PUSH socket
 * with blocking sends, until the receiver has measured enough. An empty message, which no record
 * is, marks the end.
 */
#include "peer_jobs.h"

#include <errno.h>
#include <string.h>

#include <zmq.h>

#include "numbers.h"
#include "place.h"

/* Sends wait this long at a time, so that a receiver that is gone is noticed. */
#define SEND_TIMEOUT_MS 500

/* Sends a part, waiting as long as the receiver is there. Returns 0, or -1 with errno. */
static int send_part(const struct peer_task *task, void *socket, zmq_msg_t *message, int flags)
{
    uint64_t waited_ms = 0;
    while (zmq_msg_send(message, socket, flags) < 0) {
        if (zmq_errno() == EAGAIN) {
            waited_ms += SEND_TIMEOUT_MS;
            if (!peer_task_is_wanted(task)) {
                errno = EPIPE;
                return -1;
            }
            if (waited_ms >= PEER_PATIENCE_MS) {
                errno = ETIMEDOUT;
                return -1;
            }
        } else if (zmq_errno() != EINTR) {
            return -1;
        }
    }
    return 0;
}

/* Sends what is to come before each record. Returns 0, or -1 with errno. */
static int send_lead(const struct peer_task *task, void *socket)
{
    const struct peer_order *order = task->order;
    zmq_msg_t lead;
    if (order->lead_size == 0) {
        return 0;
    }
    if (zmq_msg_init_size(&lead, order->lead_size) != 0) {
        return -1;
    }
    memcpy(zmq_msg_data(&lead), order->lead, order->lead_size);
    if (send_part(task, socket, &lead, ZMQ_SNDMORE) != 0) {
        const int error = errno;
        (void)zmq_msg_close(&lead);
        errno = error;
        return -1;
    }
    return 0;
}

static int send_next(const struct peer_task *task, void *socket, struct record_source *source,
                     struct peer_result *out)
{
    const size_t size = record_source_next(source);
    zmq_msg_t message;
    if (size == 0 || zmq_msg_init_size(&message, size) != 0) {
        errno = ENOMEM;
        return -1;
    }
    if (record_source_write(source, zmq_msg_data(&message)) != 0 || send_lead(task, socket) != 0 ||
        send_part(task, socket, &message, 0) != 0) {
        const int error = errno;
        (void)zmq_msg_close(&message);
        errno = error;
        return -1;
    }
    out->messages++;
    out->bytes += task->order->lead_size + size;
    return 0;
}

/* The window begins and ends where the receiver says, so that both ends count the same time. */
int peer_window_look(struct peer_window *window, const struct peer_task *task,
                     struct peer_result *out)
{
    const unsigned now = atomic_load_explicit(task->phase, memory_order_acquire);
    if (now == window->phase) {
        return now == PEER_END;
    }
    const uint64_t now_ns = numbers_now_ns();
    if (window->phase == PEER_MEASURE) {
        out->window_messages = out->messages - window->begin_messages;
        out->window_ns = now_ns - window->begin_ns;
    }
    window->phase = now;
    window->begin_ns = now_ns;
    window->begin_messages = out->messages;
    return now == PEER_END;
}

static int send_records(const struct peer_task *task, void *socket, struct record_source *source,
                        struct peer_result *out)
{
    struct peer_window window = {.phase = PEER_WARM_UP};
    while (!peer_window_look(&window, task, out)) {
        if (send_next(task, socket, source, out) != 0) {
            return -1;
        }
    }
    zmq_msg_t end_mark;
    (void)zmq_msg_init(&end_mark);
    return send_lead(task, socket) != 0 ? -1 : send_part(task, socket, &end_mark, 0);
}

/* A PUSH socket that is set up like the receiver's PULL. It needs no linger: it is closed when all
 * has been received, or when nobody wants it any more. */
static void *open_socket(const struct peer_task *task)
{
    void *socket = zmq_socket(task->zmq_context, ZMQ_PUSH);
    if (socket == NULL) {
        return NULL;
    }
    const int timeout = SEND_TIMEOUT_MS;
    if (place_set_up(socket, peer_high_water_mark(task->order->chars)) != 0 ||
        zmq_setsockopt(socket, ZMQ_SNDTIMEO, &timeout, sizeof(timeout)) != 0 ||
        zmq_connect(socket, task->order->endpoint) != 0) {
        const int error = zmq_errno();
        (void)zmq_close(socket);
        errno = error;
        return NULL;
    }
    return socket;
}

void peer_flood(struct peer_task *task, struct peer_result *out)
{
    const struct peer_order *order = task->order;
    struct record_source source;
    if (record_source_init(&source, order->type, order->chars, order->form) != 0) {
        out->error = ENOMEM;
        return;
    }
    void *socket = open_socket(task);
    if (socket == NULL) {
        out->error = zmq_errno();
    } else {
        if (send_records(task, socket, &source, out) != 0) {
            out->error = errno;
        } else {
            peer_task_wait(task);
        }
        (void)zmq_close(socket);
    }
    record_source_clear(&source);
}
