/*
 * output.c (L3): sending what is queued in a pass, and reporting what that brought about.
 */
#include "socket.h"

#include <errno.h>

#include "packing.h"

/* Takes the first queued message out and counts it. */
static struct evzmq_message *pop_message(struct evzmq_socket *socket)
{
    socket->mid_message = false;
    return (struct evzmq_message *)evzmq__queue_pop(&socket->queue);
}

enum evzmq__step evzmq__pass_give_up(struct evzmq__pass *pass, struct evzmq_message *message,
                                     int error)
{
    struct evzmq_socket *socket = pass->socket;
    socket->counters.undeliverable += 1 + message->entry.more;
    pass->reported++;
    message->is_lent = true;
    const struct evzmq_event event = {.size = sizeof(event),
                                      .type = EVZMQ_EVENT_UNDELIVERABLE,
                                      .error = error,
                                      .message = message};
    evzmq__socket_report(socket, &event);
    evzmq__message_destroy(message);
    if (!evzmq__socket_is_alive(socket)) {
        return EVZMQ__STEP_PAUSED;
    }
    return evzmq__loop_is_breaking(socket->base->event_base) ? EVZMQ__STEP_BREAK : EVZMQ__STEP_DONE;
}

static enum evzmq__step flush_failed(struct evzmq__pass *pass, struct evzmq_message *message,
                                     int error)
{
    struct evzmq_socket *socket = pass->socket;
    socket->mid_message = message->parts_sent > 0;
    if (error == EAGAIN) {
        /* Not charged: a round of more parked peers than the budget has messages would never end
         * with all of them tried, and so go on for ever. A round has as many steps as lanes. */
        socket->counters.send_eagains++;
        evzmq__queue_park(&socket->queue);
        return EVZMQ__STEP_IN_VAIN;
    }
    if (evzmq__is_terminal(error)) {
        evzmq__pass_terminate(pass, error);
        return EVZMQ__STEP_PAUSED;
    }
    if (error == EINTR || error == ENOMEM) {
        return evzmq__pass_retry_later(pass, error);
    }
    return evzmq__pass_give_up(pass, pop_message(socket), error);
}

/* Sends one queued message, or parks the lane it waits in. */
static enum evzmq__step flush_step(void *arg, size_t *out_bytes)
{
    struct evzmq__pass *pass = arg;
    struct evzmq_socket *socket = pass->socket;
    struct evzmq_message *message = (struct evzmq_message *)evzmq__queue_peek(&socket->queue);
    if (message == NULL) {
        return EVZMQ__STEP_EMPTY;
    }
    if (!socket->write_enabled) {
        return EVZMQ__STEP_PAUSED;
    }
    if (message->frame != NULL && !evzmq__packing_admit(socket, message)) {
        return EVZMQ__STEP_PAUSED;
    }
    bool restarted = false;
    int result = evzmq__parts_send(message->parts, message->part_count, socket->zmq_socket,
                                   &message->parts_sent, &restarted);
    if (result < 0 && errno == EAGAIN && socket->sheds) {
        result =
            evzmq__socket_shed(socket, message->parts, message->part_count, &message->parts_sent);
    }
    const int error = errno;
    socket->touched = true;
    socket->counters.restarts += restarted;
    if (result < 0) {
        if (message->frame != NULL) {
            evzmq__frame_recall(message->frame);
        }
        return flush_failed(pass, message, error);
    }
    *out_bytes = message->entry.bytes;
    pass->sent++;
    socket->counters.messages_out += 1 + message->entry.more;
    socket->counters.bytes_out += message->entry.bytes;
    (void)pop_message(socket);
    if (socket->packing != NULL) {
        evzmq__packing_recycle(socket, message);
    } else {
        evzmq__message_destroy(message);
    }
    return EVZMQ__STEP_DONE;
}

void evzmq__pass_start_writing(struct evzmq__pass *pass)
{
    if (!pass->writing) {
        /* From here, not from the start of the pass: a pass full of input must not eat the time
         * that output is due. */
        evzmq__meter_start(&pass->write, &pass->socket->write_budget, evzmq__clock_ns(),
                           evzmq__clock_ns);
        pass->writing = true;
    }
}

void evzmq__pass_flush(struct evzmq__pass *pass)
{
    struct evzmq_socket *socket = pass->socket;
    if (socket->queue.messages == 0 || !socket->write_enabled) {
        return;
    }
    evzmq__pass_start_writing(pass);
    evzmq__queue_unpark_all(&socket->queue);
    (void)evzmq__drain_run(&pass->write, flush_step, pass);
}

static void report_simple(struct evzmq__pass *pass, enum evzmq_event_type type)
{
    pass->reported++;
    const struct evzmq_event event = {.size = sizeof(event), .type = type};
    evzmq__socket_report(pass->socket, &event);
}

/* Runs the callbacks for the marks that the queue crossed. */
void evzmq__pass_report_marks(struct evzmq__pass *pass)
{
    struct evzmq_socket *socket = pass->socket;
    const unsigned marks = evzmq__queue_take_marks(&socket->queue);
    if ((marks & EVZMQ__MARK_HIGH) != 0) {
        report_simple(pass, EVZMQ_EVENT_HIGH_WATERMARK);
    }
    if ((marks & EVZMQ__MARK_LOW) != 0 && evzmq__socket_is_alive(socket) &&
        socket->write_cb != NULL) {
        pass->reported++;
        socket->write_cb(socket, socket->arg);
    }
    if ((marks & EVZMQ__MARK_EMPTY) != 0 && evzmq__socket_is_alive(socket)) {
        report_simple(pass, EVZMQ_EVENT_DRAINED);
    }
}
