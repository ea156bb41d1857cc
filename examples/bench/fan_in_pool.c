/* The receiver that is measured: a pool of two workers, as a user would write it. */
#include "fan_in.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <event2/event.h>

#include <evzmq/evzmq.h>

#include "report.h"

struct receiver {
    struct meter *meter;
    struct event_base *base;
    struct evzmq_context *context;
    struct evzmq_pool *pool;
    struct event *watchdog;
    uint64_t watched_messages; /* what the watchdog saw last */
    unsigned ended; /* workers whose end mark came */
    int result;
};

static void stop(struct receiver *receiver, int result)
{
    receiver->result = result;
    (void)event_base_loopbreak(receiver->base);
}

static void on_answer(struct evzmq_pool *pool, unsigned worker, struct evzmq_message *message,
                      void *arg)
{
    struct receiver *receiver = arg;
    size_t size = 0;
    (void)pool;
    (void)worker;
    (void)evzmq_message_get_part(message, 1, &size);
    if (size > 0) {
        meter_message(receiver->meter, evzmq_message_get_size(message), 0);
    } else if (++receiver->ended == FAN_IN_SENDERS) {
        stop(receiver, 0);
    }
}

static void on_event(struct evzmq_pool *pool, const struct evzmq_pool_event *event, void *arg)
{
    (void)pool;
    if (event->type == EVZMQ_POOL_EVENT_LOST) {
        stop(arg, report_error("worker %u is lost", event->worker));
    } else if (event->type == EVZMQ_POOL_EVENT_ERROR) {
        stop(arg, report_error("receiving failed: %s", evzmq_strerror(event->error)));
    } else if (event->type == EVZMQ_POOL_EVENT_BAD_ANSWER) {
        stop(arg, report_error("an answer was not what was sent"));
    }
}

static void watch(evutil_socket_t fd, short events, void *arg)
{
    struct receiver *receiver = arg;
    (void)fd;
    (void)events;
    if (receiver->meter->messages == receiver->watched_messages) {
        stop(receiver, report_error("pool: nothing came for %d s", PEER_PATIENCE_MS / 1000));
    }
    receiver->watched_messages = receiver->meter->messages;
}

/* Returns 0, or -1 with errno. */
static int open_pool(struct receiver *receiver, const struct fan_in *fan_in)
{
    const struct timeval patience = {PEER_PATIENCE_MS / 1000, 0};
    const struct evzmq_pool_options options = {
        .size = sizeof(options),
        .endpoint = fan_in->transport == BENCH_TCP ? "tcp://127.0.0.1:*" : NULL,
    };
    const int mark = peer_high_water_mark(fan_in->chars);
    const struct evzmq_context_limits limits = {
        .size = sizeof(limits), .send_high_water_mark = mark, .receive_high_water_mark = mark};
    errno = ENOMEM;
    receiver->base = event_base_new();
    receiver->context = evzmq_context_new(1, NULL);
    if (receiver->base == NULL || receiver->context == NULL ||
        evzmq_context_set_limits(receiver->context, &limits) != 0) {
        return -1;
    }
    receiver->watchdog = event_new(receiver->base, -1, EV_PERSIST, watch, receiver);
    if (receiver->watchdog == NULL || event_add(receiver->watchdog, &patience) != 0) {
        return -1;
    }
    receiver->pool = evzmq_pool_new(receiver->base, receiver->context, FAN_IN_SENDERS, &options);
    if (receiver->pool == NULL) {
        return -1;
    }
    evzmq_pool_setcb(receiver->pool, on_answer, on_event, receiver);
    return evzmq_pool_enable(receiver->pool);
}

/* Tells the senders which workers they are. Returns 0, or -1 after saying why. */
static int begin(const struct receiver *receiver, const struct fan_in *fan_in)
{
    struct peer_order order = {.job = PEER_WORKER,
                               .type = fan_in->type,
                               .chars = fan_in->chars,
                               .form = RECORD_COPIED,
                               .lead_size = 1};
    for (unsigned i = 0; i < FAN_IN_SENDERS; i++) {
        const char *connection = evzmq_pool_get_connection(receiver->pool, i);
        const int length = snprintf(order.connection, sizeof(order.connection), "%s", connection);
        if (length < 0 || (size_t)length >= sizeof(order.connection)) {
            return report_error("a connection string is too long");
        }
        if (peer_begin(fan_in->peers[i], &order) != 0) {
            return -1;
        }
    }
    return 0;
}

int fan_in_pool(const struct fan_in *fan_in, struct meter *meter)
{
    struct receiver receiver = {.meter = meter};
    if (open_pool(&receiver, fan_in) != 0) {
        receiver.result = report_error("cannot make a pool: %s", evzmq_strerror(errno));
    } else if (begin(&receiver, fan_in) != 0) {
        receiver.result = -1;
    } else if (event_base_dispatch(receiver.base) < 0) {
        receiver.result = report_error("the event loop failed");
    }
    evzmq_pool_free(receiver.pool);
    if (receiver.watchdog != NULL) {
        event_free(receiver.watchdog);
    }
    (void)evzmq_context_free(receiver.context);
    if (receiver.base != NULL) {
        event_base_free(receiver.base);
    }
    return receiver.result;
}
