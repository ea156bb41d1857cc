/*
 * What the gateway, the pool and its sockets count, in the text format of Prometheus: for each
 * family its HELP, its TYPE and then all of its samples.
 */
#include <inttypes.h>
#include <stdio.h>

#include <event2/buffer.h>

#include "gateway.h"

/* A counter or gauge of a struct of counters, by its place there. */
struct family {
    const char *name;
    const char *type;
    const char *help;
    size_t offset;
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define OWN(member, text)                                                                          \
    {                                                                                              \
        "gateway_" #member "_total", "counter", text, offsetof(struct counters, member)            \
    }
#define POOL(member, text)                                                                         \
    {                                                                                              \
        "evzmq_pool_" #member "_total", "counter", text, offsetof(struct evzmq_pool_stats, member) \
    }
#define SOCKET(member, text)                                                                       \
    {                                                                                              \
        "evzmq_socket_" #member "_total", "counter", text,                                         \
            offsetof(struct evzmq_socket_stats, member)                                            \
    }

static const struct family own_families[] = {
    OWN(connections, "Connections accepted."),
    OWN(exchanges, "Requests to complete a prompt that were well formed."),
    OWN(chunks, "Pieces of streams sent to clients."),
    OWN(streams_broken, "Streams that ended with an error."),
    OWN(clients_gone, "Clients that left before their answer was complete."),
    OWN(clients_too_slow, "Clients dropped because they did not read their stream."),
    OWN(timed_out, "Requests and streams that waited too long for a worker."),
    OWN(late_answers, "Answers of workers that nobody waited for any more."),
    OWN(queue_full, "Requests refused because too many waited for a worker."),
    OWN(lost, "Requests lost with the worker that had them."),
    OWN(bad_answers, "Answers of workers that made no sense."),
    OWN(accept_pauses, "Times that no connection was accepted for want of file descriptors."),
};

static const struct family pool_families[] = {
    POOL(sent, "Requests that the pool accepted."),
    POOL(answered, "Requests that workers answered."),
    POOL(sends_refused, "Requests that no worker had room for when they were tried."),
    POOL(bad_answers, "Messages of workers without a proper header."),
    POOL(ready_signals, "Ready signals and heartbeats of workers."),
    POOL(losses, "Workers lost."),
    POOL(restarts, "Workers started again."),
};

static const struct family socket_families[] = {
    SOCKET(messages_in, "Messages received from ZeroMQ."),
    SOCKET(bytes_in, "Bytes of the messages received."),
    SOCKET(messages_out, "Messages handed to ZeroMQ."),
    SOCKET(bytes_out, "Bytes of the messages handed over."),
    SOCKET(wakeups, "Passes over the socket."),
    SOCKET(wakeups_empty, "Passes that found nothing to do."),
    SOCKET(budget_hits, "Passes that ended because their budget was spent."),
    SOCKET(send_eagains, "Sends that ZeroMQ had no room for."),
    SOCKET(writes_refused, "Messages that the output queue had no room for."),
    {"evzmq_socket_queue_messages", "gauge", "Messages in the output queue.",
     offsetof(struct evzmq_socket_stats, queue_messages)},
    {"evzmq_socket_queue_bytes", "gauge", "Bytes in the output queue.",
     offsetof(struct evzmq_socket_stats, queue_bytes)},
};

static void add_head(struct evbuffer *out, const char *name, const char *type, const char *help)
{
    (void)evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static uint64_t value_at(const void *record, const struct family *family)
{
    return *(const uint64_t *)(const void *)((const char *)record + family->offset);
}

static void add_families(struct evbuffer *out, const struct family *families, size_t count,
                         const void *record)
{
    for (size_t i = 0; i < count; i++) {
        add_head(out, families[i].name, families[i].type, families[i].help);
        (void)evbuffer_add_printf(out, "%s %" PRIu64 "\n", families[i].name,
                                  value_at(record, &families[i]));
    }
}

static void add_gauge(struct evbuffer *out, const char *name, const char *help, uint64_t value)
{
    add_head(out, name, "gauge", help);
    (void)evbuffer_add_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void add_own(const struct gateway *gateway, struct evbuffer *out)
{
    add_head(out, "gateway_answers_total", "counter",
             "Answers by status code, without those that evhttp gives itself.");
    for (int code = 0; code < CODES_MAX; code++) {
        if (gateway->counters.answers[code] > 0) {
            (void)evbuffer_add_printf(out, "gateway_answers_total{code=\"%d\"} %" PRIu64 "\n", code,
                                      gateway->counters.answers[code]);
        }
    }
    add_families(out, own_families, COUNT_OF(own_families), &gateway->counters);
    add_gauge(out, "gateway_requests_in_flight", "Requests whose answer is not written yet.",
              gateway->exchanges.in_flight);
    add_gauge(out, "gateway_requests_waiting", "Requests that wait for a worker with room.",
              gateway->waiting.count);
    add_gauge(out, "gateway_waiting_bytes", "Bytes of the requests that wait.",
              gateway->waiting_bytes);
}

/* Sockets are told apart by a label: the workers' numbers, or "answers". */
static void add_socket(struct evbuffer *out, const struct family *family,
                       const struct evzmq_socket *socket, const char *label)
{
    struct evzmq_socket_stats stats = {.size = sizeof(stats)};
    if (evzmq_socket_get_stats(socket, &stats) == 0) {
        (void)evbuffer_add_printf(out, "%s{socket=\"%s\"} %" PRIu64 "\n", family->name, label,
                                  value_at(&stats, family));
    }
}

static void add_sockets(const struct gateway *gateway, struct evbuffer *out)
{
    for (size_t i = 0; i < COUNT_OF(socket_families); i++) {
        const struct family *family = &socket_families[i];
        add_head(out, family->name, family->type, family->help);
        add_socket(out, family, evzmq_pool_get_response_socket(gateway->pool), "answers");
        for (unsigned worker = 0; worker < gateway->options.workers; worker++) {
            char label[32];
            (void)snprintf(label, sizeof(label), "requests-%u", worker);
            add_socket(out, family, evzmq_pool_get_request_socket(gateway->pool, worker), label);
        }
    }
}

static void add_workers(const struct gateway *gateway, struct evbuffer *out)
{
    enum { UP, PID, UNANSWERED, FAMILIES };
    static const char *const names[FAMILIES] = {"evzmq_worker_up", "evzmq_worker_pid",
                                                "evzmq_worker_unanswered"};
    static const char *const helps[FAMILIES] = {"Whether the worker is up.",
                                                "The process of the worker; 0 without one.",
                                                "Requests that the worker has to answer."};
    for (int family = 0; family < FAMILIES; family++) {
        add_head(out, names[family], "gauge", helps[family]);
        for (unsigned worker = 0; worker < gateway->options.workers; worker++) {
            struct evzmq_pool_worker_stats stats = {.size = sizeof(stats)};
            if (evzmq_pool_get_worker_stats(gateway->pool, worker, &stats) != 0) {
                continue;
            }
            const uint64_t values[FAMILIES] = {stats.state == EVZMQ_POOL_UP, (uint64_t)stats.pid,
                                               stats.unanswered + stats.queued};
            (void)evbuffer_add_printf(out, "%s{worker=\"%u\"} %" PRIu64 "\n", names[family], worker,
                                      values[family]);
        }
    }
}

void metrics_add(const struct gateway *gateway, struct evbuffer *out)
{
    struct evzmq_pool_stats stats = {.size = sizeof(stats)};
    add_own(gateway, out);
    if (gateway->pool == NULL || evzmq_pool_get_stats(gateway->pool, &stats) != 0) {
        return;
    }
    add_families(out, pool_families, COUNT_OF(pool_families), &stats);
    add_gauge(out, "evzmq_pool_up", "Workers that are up.", stats.up);
    add_sockets(gateway, out);
    add_workers(gateway, out);
}
