/*
 * link.h (L6): the connection string, which tells a worker how to reach its pool.
 *
 *     evzmq-pool/1,worker=3,workers=8,start=0,heartbeat=1000,connect=10000,hwm=100,
 *     parent=4711,requests=ipc:///dev/shm/...,responses=...,ready=...
 *
 * (on one line). Bytes of an endpoint that a shell or this format could mistake are written as %
 * and two hexadecimal digits. Unknown names are skipped, so that later versions can add some.
 */
#ifndef EVZMQ_PLUGIN_LINK_H
#define EVZMQ_PLUGIN_LINK_H

#include <stdint.h>

struct evzmq__link {
    unsigned identity;
    unsigned n_workers;
    uint64_t start; /* how often the worker was started before */
    unsigned heartbeat_ms;
    unsigned connect_ms; /* how long the pool waits for the worker */
    unsigned request_hwm;
    long parent; /* the process that starts the worker; 0 when that is somebody else */
    char *requests; /* endpoints */
    char *responses;
    char *ready;
};

/* Writes a connection string. NULL with ENOMEM; to be freed with evzmq__free(). */
char *evzmq__link_format(const struct evzmq__link *link);

/* Reads one. Returns 0, or -1 with EINVAL, EPROTO (another version) or ENOMEM. On success the
 * endpoints are to be freed with evzmq__link_clear(). */
int evzmq__link_parse(struct evzmq__link *link, const char *text);

/* Frees the endpoints. */
void evzmq__link_clear(struct evzmq__link *link);

#endif /* EVZMQ_PLUGIN_LINK_H */
