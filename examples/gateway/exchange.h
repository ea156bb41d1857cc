/*
 * One request of a client and its answer.
 */
#ifndef GATEWAY_EXCHANGE_H
#define GATEWAY_EXCHANGE_H

#include "gateway.h"

enum phase {
    PHASE_FREE = 0,
    PHASE_WAITING, /* for a worker that takes it */
    PHASE_ASKED, /* for the worker's answer */
    PHASE_SENDING /* the whole answer is with evhttp */
};

struct exchange {
    struct gateway *gateway;
    size_t index;
    uint64_t number; /* no other exchange has it, before or after */
    enum phase phase;
    bool streams;
    bool started; /* the begin of a stream was sent */
    bool too_slow;
    struct evhttp_request *request;
    struct evhttp_connection *connection;

    struct event *due; /* when it has waited too long; the slot's, kept for the next exchange */
    struct evzmq_message *message; /* while it waits */
    unsigned worker; /* once asked */
    uint64_t place; /* the how-manieth request of its worker it is */
    struct exchange_list *list; /* where it is; NULL: nowhere */
    struct exchange *previous;
    struct exchange *next;
};

/* Room for an id and its 0. */
#define EXCHANGE_ID_SIZE 48

/* Begins one: from now on the request is looked after, whatever becomes of its connection. NULL
 * without memory. */
struct exchange *exchange_begin(struct gateway *gateway, struct evhttp_request *request,
                                bool streams);

/* Waits, for so long as the options say, from now on. Returns 0, or -1 without memory. */
int exchange_wait(struct exchange *exchange);

/* Writes the id that workers and the client know it by. */
struct evzmq_str exchange_id(const struct exchange *exchange, char out[EXCHANGE_ID_SIZE]);

/* The exchange of an id that waits for its worker's answer, or NULL. */
struct exchange *exchange_find(const struct gateway *gateway, struct evzmq_str id);

void exchange_append(struct exchange *exchange, struct exchange_list *list);
void exchange_remove(struct exchange *exchange);

/* The last bytes of the answer go to evhttp next: when they are written, or the connection is gone,
 * the exchange ends by itself. It may be gone once evhttp has them. */
void exchange_sending(struct exchange *exchange);

/* Frees the table. No exchange is under way. */
void exchange_clear(struct gateway *gateway);

#endif /* GATEWAY_EXCHANGE_H */
