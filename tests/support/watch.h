/**
 * @file watch.h
 * A monitor whose callback records what it sees, and checks what must be true of every callback.
 */
#ifndef TESTS_SUPPORT_WATCH_H
#define TESTS_SUPPORT_WATCH_H

#include "support.h"

/* A monitor and what its callback saw. */
struct watch {
    struct fixture *f;
    struct evzmq_monitor *monitor; /* NULL once freed */
    size_t counts[15]; /* by bit */
    size_t all;
    struct evzmq_monitor_event last[15];
    char endpoints[15][ENDPOINT_SIZE];
    uint64_t missed;
    char log[4096];
    void (*on_event)(struct watch *w, const struct evzmq_monitor_event *event);
    void *arg;
};

/* The place of an event in the arrays. */
size_t watch_bit(unsigned type);
/* The callback itself, for tests that make the monitor without watch_open(). */
void watch_event(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event, void *arg);
/* How often an event came, and the last one; its endpoint is in endpoints. */
size_t watch_count(const struct watch *w, unsigned type);
const struct evzmq_monitor_event *watch_last(const struct watch *w, unsigned type);
void watch_open(struct fixture *f, struct watch *w, void *peer, unsigned events);
void watch_close(struct watch *w);
struct evzmq_monitor_stats watch_stats(const struct watch *w);
/* A bound and a connected socket over a transport, each watched from before it was used. */
void watch_open_pair(struct fixture *f, enum transport transport, struct watch *server,
                     void **out_pull, struct watch *client, void **out_push,
                     char endpoint[ENDPOINT_SIZE]);
/* A port that nobody listens on. */
void dead_endpoint(char endpoint[ENDPOINT_SIZE]);

#endif /* TESTS_SUPPORT_WATCH_H */
