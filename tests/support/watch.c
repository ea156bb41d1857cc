/**
 * @file watch.c
 * See watch.h.
 */
#include "watch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

size_t watch_bit(unsigned type)
{
    size_t bit = 0;

    while (bit < 14 && type != 1u << bit) {
        bit++;
    }
    assert_int_equal(type, 1u << bit);
    return bit;
}

void watch_event(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event, void *arg)
{
    struct watch *const w = arg;
    const size_t bit = watch_bit(event->type);
    const size_t used = strlen(w->log);

    assert_ptr_equal(monitor, w->monitor); /* Otherwise: a callback after the free. */
    assert_true(w->f->dispatching);
    assert_int_equal(w->f->depth, 0);
    assert_int_equal(event->size, sizeof *event);
    assert_int_equal(strlen(event->endpoint), event->endpoint_size);
    w->counts[bit]++;
    w->all++;
    w->last[bit] = *event;
    w->missed += event->missed;
    (void)snprintf(w->endpoints[bit], ENDPOINT_SIZE, "%s", event->endpoint);
    if (used + 64 < sizeof w->log) {
        (void)snprintf(w->log + used, sizeof w->log - used, "%s; ",
                       evzmq_monitor_event_name(event->type));
    }
    if (w->on_event != NULL) {
        w->on_event(w, event);
    }
}

size_t watch_count(const struct watch *w, unsigned type)
{
    return w->counts[watch_bit(type)];
}

const struct evzmq_monitor_event *watch_last(const struct watch *w, unsigned type)
{
    return &w->last[watch_bit(type)];
}

void watch_open(struct fixture *f, struct watch *w, void *peer, unsigned events)
{
    w->f = f;
    w->monitor = evzmq_monitor_new(f->base, f->context, peer, events, watch_event, w);
    assert_non_null(w->monitor);
    f->attached++;
}

void watch_close(struct watch *w)
{
    struct evzmq_monitor *const monitor = w->monitor;

    w->monitor = NULL;
    w->f->attached--;
    evzmq_monitor_free(monitor);
}

struct evzmq_monitor_stats watch_stats(const struct watch *w)
{
    struct evzmq_monitor_stats stats = {.size = sizeof stats};

    assert_ok(evzmq_monitor_get_stats(w->monitor, &stats));
    return stats;
}

void watch_open_pair(struct fixture *f, enum transport transport, struct watch *server,
                     void **out_pull, struct watch *client, void **out_push,
                     char endpoint[ENDPOINT_SIZE])
{
    *out_pull = peer_new(f, ZMQ_PULL);
    *out_push = peer_new(f, ZMQ_PUSH);
    watch_open(f, server, *out_pull, EVZMQ_MONITOR_ALL);
    watch_open(f, client, *out_push, EVZMQ_MONITOR_ALL);
    peer_bind(f, *out_pull, transport, endpoint);
    peer_connect(*out_push, endpoint);
    run_until(f, watch_count(server, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED) == 1 &&
                     watch_count(client, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED) == 1);
}

void dead_endpoint(char endpoint[ENDPOINT_SIZE])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(endpoint, ENDPOINT_SIZE, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
    (void)close(fd);
}
