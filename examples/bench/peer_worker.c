/*
 * The sender as a worker of a pool: answers as fast as they are taken, though nobody asks, until
 * the receiver has measured enough. An empty answer marks the end.
 */
#include "peer_jobs.h"

#include <errno.h>

#include <event2/event.h>

#include <evzmq/evzmq.h>

/* How often it looks whether the receiver is still there. */
#define LOOK_MS 500

struct sender {
    struct peer_task *task;
    struct peer_result *out;
    struct peer_window window;
    struct record_source source;
    struct event_base *base;
    struct evzmq_context *context;
    struct evzmq_worker *worker;
    struct event *look;
    int holds; /* the record that was made last is not sent yet */
    int ended; /* so is the end mark */
};

static void stop(struct sender *sender, int error)
{
    sender->out->error = error;
    (void)event_base_loopbreak(sender->base);
}

/* Returns 0; 1 when nothing more is taken for now; or -1 with errno. */
static int send_next(struct sender *sender)
{
    if (!sender->holds && record_source_next(&sender->source) == 0) {
        errno = ENOMEM;
        return -1;
    }
    const struct record_source *source = &sender->source;
    sender->holds = 1;
    if (evzmq_worker_answer(sender->worker, source->bytes.data, source->made_size, 0) != 0) {
        return errno == EAGAIN ? 1 : -1;
    }
    sender->holds = 0;
    sender->out->messages++;
    sender->out->bytes += sender->task->order->lead_size + source->made_size;
    return 0;
}

static void send_records(struct sender *sender)
{
    int result = 0;
    while (result == 0 && !peer_window_look(&sender->window, sender->task, sender->out)) {
        result = send_next(sender);
    }
    if (result == 0 && !sender->ended) {
        result = evzmq_worker_answer(sender->worker, NULL, 0, 0);
        sender->ended = result == 0;
        result = result != 0 && errno == EAGAIN ? 1 : result;
    }
    if (result < 0) {
        stop(sender, errno);
    }
}

static void on_event(struct evzmq_worker *worker, const struct evzmq_worker_event *event, void *arg)
{
    struct sender *sender = arg;
    (void)worker;
    switch (event->type) {
    case EVZMQ_WORKER_EVENT_READY:
        send_records(sender);
        break;
    case EVZMQ_WORKER_EVENT_WRITABLE:
        if (!sender->ended) {
            send_records(sender);
        }
        break;
    case EVZMQ_WORKER_EVENT_END: /* for lack of a connection */
        stop(sender, EPIPE);
        break;
    case EVZMQ_WORKER_EVENT_ERROR:
        stop(sender, event->error);
        break;
    default:
        break;
    }
    if (sender->ended &&
        evzmq_socket_get_queued(evzmq_worker_get_response_socket(sender->worker), NULL) == 0) {
        (void)event_base_loopbreak(sender->base);
    }
}

static void on_look(evutil_socket_t fd, short events, void *arg)
{
    struct sender *sender = arg;
    (void)fd;
    (void)events;
    if (!peer_task_is_wanted(sender->task)) {
        stop(sender, EPIPE);
    }
}

/* Returns 0, or -1 with errno. */
static int start(struct sender *sender)
{
    const struct timeval look = {0, LOOK_MS * 1000};
    const int mark = peer_high_water_mark(sender->task->order->chars);
    const struct evzmq_context_limits limits = {
        .size = sizeof(limits), .send_high_water_mark = mark, .receive_high_water_mark = mark};
    /* What ZeroMQ holds is all that the bare sender has, too. */
    struct evzmq_worker_options options = {.size = sizeof(options), .output_messages = 1};
    errno = ENOMEM;
    sender->base = event_base_new();
    if (sender->base == NULL) {
        return -1;
    }
    sender->context = evzmq_context_new_with(sender->task->zmq_context, NULL);
    if (sender->context == NULL || evzmq_context_set_limits(sender->context, &limits) != 0) {
        return -1;
    }
    options.context = sender->context;
    sender->look = event_new(sender->base, -1, EV_PERSIST, on_look, sender);
    if (sender->look == NULL || event_add(sender->look, &look) != 0) {
        return -1;
    }
    sender->worker = evzmq_worker_new(sender->base, sender->task->order->connection, &options);
    if (sender->worker == NULL) {
        return -1;
    }
    evzmq_worker_setcb(sender->worker, NULL, on_event, sender);
    return 0;
}

void peer_worker(struct peer_task *task, struct peer_result *out)
{
    const struct peer_order *order = task->order;
    struct sender sender = {.task = task, .out = out, .window = {.phase = PEER_WARM_UP}};
    /* The bytes are made beforehand: others would be encoded into memory that is not there. */
    if (record_source_init(&sender.source, order->type, order->chars, RECORD_COPIED) != 0) {
        out->error = ENOMEM;
        return;
    }
    if (start(&sender) != 0) {
        out->error = errno;
    } else if (event_base_dispatch(sender.base) < 0) {
        out->error = EIO;
    } else if (out->error == 0) {
        peer_task_wait(task);
    }
    evzmq_worker_free(sender.worker);
    (void)evzmq_context_free(sender.context);
    if (sender.look != NULL) {
        event_free(sender.look);
    }
    if (sender.base != NULL) {
        event_base_free(sender.base);
    }
    record_source_clear(&sender.source);
}
