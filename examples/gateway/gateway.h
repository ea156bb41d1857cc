/*
 * What the parts of the gateway's main process share.
 *
 *     http_gateway.c  start and end
 *     options.c       the command line
 *     listen.c        connections
 *     serve.c         routes, plain replies; page.c is the page
 *     completions.c   requests to workers, answers to clients
 *     exchange.c      what is under way
 *     metrics.c       counters as text
 *     json.c          JSON and records
 *     worker.c        the worker; completion.c is its work
 *
 * A request of a client is an exchange from its arrival until its answer has been written or its
 * connection is gone. Workers know it by an id, not by a pointer, so that an answer that comes when
 * the client has left finds nothing and is dropped.
 */
#ifndef GATEWAY_H
#define GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <event2/event.h>
#include <event2/http.h>
#include <evzmq/evzmq.h>

#include "options.h"

struct exchange;

/* How many requests a worker has at once: enough to be always busy, few to lose with it. */
#define REQUESTS_PER_WORKER 32
/* Bytes of the requests that wait for a worker. */
#define QUEUE_BYTES_MAX (256u * 1024u * 1024u)
/* How long it takes until a worker is up again, about. */
#define RETRY_AFTER_SECONDS "1"

/* Exchanges in the order in which they came. */
struct exchange_list {
    struct exchange *first;
    struct exchange *last;
    size_t count;
};

struct exchange_table {
    struct exchange **all; /* by index */
    size_t count;
    size_t capacity;
    struct exchange *free;
    size_t in_flight;
    uint64_t number; /* of the latest exchange */
};

/* What one worker has to answer. */
struct load {
    struct gateway *gateway;
    struct exchange_list asked;
    uint64_t sent; /* requests that its socket accepted, over all its starts */
    struct event *silence; /* due when it has neither got a request nor said anything for long */
};

#define CODES_MAX 600

struct counters {
    uint64_t answers[CODES_MAX]; /* by status code; evhttp gives some of them itself */
    uint64_t connections;
    uint64_t exchanges;
    uint64_t chunks;
    uint64_t streams_broken; /* that ended with an error after their begin */
    uint64_t clients_gone; /* that left before their answer was complete */
    uint64_t clients_too_slow;
    uint64_t timed_out; /* requests, and streams, that waited too long for a worker */
    uint64_t late_answers; /* from workers, to requests that nobody waits for any more */
    uint64_t queue_full;
    uint64_t lost; /* requests that were lost with their worker */
    uint64_t bad_answers;
    uint64_t accept_pauses;
};

struct gateway {
    struct options options;
    struct event_base *base;
    struct evzmq_context *context;
    struct evzmq_pool *pool; /* NULL: it answers itself */
    struct evzmq_codec *queries;
    struct evzmq_codec *responses;

    struct evhttp *http;
    struct evhttp_bound_socket *bound; /* NULL when no more is accepted */
    struct event *accept_again;
    unsigned accepts_left; /* before it rests */

    struct exchange_table exchanges;
    struct exchange_list waiting; /* for a worker */
    size_t waiting_bytes;
    struct load *loads; /* by worker */
    const struct timeval *timeout; /* options.timeout, as the base keeps it for many timers */

    struct counters counters;
    struct event *signals[2];
    struct event *patience;
    bool ending;
    bool ending_pool;
    bool failed;
};

/* Starts to listen, and says where. Returns 0, or -1 with a word. */
int listen_start(struct gateway *gateway);
/* The port that it listens on. */
unsigned listen_port(const struct gateway *gateway);
/* No new connections from now on. */
void listen_stop(struct gateway *gateway);
/* Raises the limit of file descriptors. Returns 0, or -1 with a word when it is too low. */
int listen_raise_limit(const struct options *options);

/* Takes a request that has arrived. */
void serve_request(struct evhttp_request *request, void *gateway);
/* Adds the headers that all answers have, and counts one. */
void serve_headers(struct gateway *gateway, struct evhttp_request *request, int code,
                   const char *type);
/* Answers a request that is no exchange, or one that was never sent to a worker. Takes nothing:
 * body may be NULL and stays the caller's. */
void serve_reply(struct gateway *gateway, struct evhttp_request *request, int code,
                 const char *type, struct evbuffer *body);
void serve_error(struct gateway *gateway, struct evhttp_request *request, int code,
                 const char *type, const char *message);

/* Makes the loads, before the pool. Returns 0, or -1 without memory. */
int completions_begin(struct gateway *gateway);
/* Frees them, after the pool, also where there are none or not all. */
void completions_clear(struct gateway *gateway);
/* Takes a request to complete a prompt. */
void completions_request(struct gateway *gateway, struct evhttp_request *request);
/* The pool's callbacks. */
void completions_answer(struct evzmq_pool *pool, unsigned worker, struct evzmq_message *message,
                        void *gateway);
void completions_event(struct evzmq_pool *pool, const struct evzmq_pool_event *event,
                       void *gateway);
/* An exchange has waited too long. */
void completions_overdue(struct exchange *exchange);

void metrics_add(const struct gateway *gateway, struct evbuffer *out);

/* The page: a constant. */
extern const char page[];

/* Nothing is under way any more. */
void gateway_idle(struct gateway *gateway);

#endif /* GATEWAY_H */
