/*
 * request.h (L6): a requester, shared by the files that make it up.
 *
 *     request.c        evzmq_requester_*: making, freeing, the timer, the ends of requests
 *     request_send.c   evzmq_request*: encoding, sending, waiting for room, sending again
 *     request_recv.c   the socket's callbacks: whose reply it is
 *
 * Data flow
 * ---------
 *
 *     OUT   evzmq_request -> begin: number, table, heap -> launch
 *           ZeroMQ takes it: evzmq__socket_submit(), nothing is kept unless there are retries
 *           it does not, or others wait: the list of waiting requests
 *           a pass of the socket whose queue is empty: take(), the next one that waits
 *     IN    read callback -> match: table -> evzmq__request_end() -> reply callback
 *     TIME  one timer for all requests, set for the first node of the heap -> on_tick()
 *
 * Requests wait here and not in the socket's output queue, because there they could not be taken
 * back: a server that is away for an hour would get an hour's requests, all of them timed out. At
 * most one message of the requester is in the socket's queue.
 *
 * A request is in the table and in the heap from its begin to its end, also when nothing of it is
 * ever due: so the heap is the list of all.
 *
 * Whatever must not happen inside the call that caused it (the callbacks of requests that fail when
 * the socket is freed, the word that there is room, the end of a shutdown) is done by the timer:
 * next_due() is 0 then.
 */
#ifndef EVZMQ_PLUGIN_REQUEST_H
#define EVZMQ_PLUGIN_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evzmq/request.h>

#include "heap.h"
#include "socket.h"
#include "table.h"

/* Never, as a time. */
#define EVZMQ__REQUEST_NEVER UINT64_MAX

enum {
    EVZMQ__REQUEST_ID_HALF = EVZMQ_REQUEST_ID_BYTES / 2,
    /* Parts before the user's: id and delimiter. */
    EVZMQ__REQUEST_HEAD = 2
};

struct evzmq__request {
    struct evzmq__table_node node; /* its hash is the number */
    struct evzmq__heap_node due; /* the earlier of the deadline and the next retry */
    uint64_t deadline;
    evzmq_reply_cb reply_cb;
    void *arg;
    struct evzmq_message *kept; /* as on the wire: it waits, or may have to be sent again */
    struct evzmq__request *prev; /* in the list of those that wait */
    struct evzmq__request *next; /* also in the list of spares */
    unsigned retries;
    bool waiting;
};

struct evzmq__requester_ending {
    bool begun;
    bool done;
    evzmq_requester_shutdown_cb done_cb;
    void *arg;
    uint64_t deadline;
    uint64_t replied_before; /* counters when it began */
    uint64_t ended_before;
};

struct evzmq_requester {
    struct evzmq__feeder feeder; /* first; without a socket once that is shut down or at its end */
    struct evzmq__base *base;
    struct evzmq_socket *socket; /* not a reference; NULL once detached */
    const struct evzmq__type *type_before;
    unsigned references; /* the user's, and one for a tick */
    bool dying;
    bool ticking;

    evzmq_requester_write_cb write_cb;
    evzmq_event_cb event_cb;
    void *arg;
    struct evzmq_requester_options options; /* with the defaults filled in */

    unsigned char mark[EVZMQ__REQUEST_ID_HALF]; /* the first half of the ids */
    uint64_t last_number;
    struct evzmq__table table;
    struct evzmq__heap heap;
    struct evzmq__request *waiting_first;
    struct evzmq__request *waiting_last;
    struct evzmq__request *spares; /* structs of requests that ended, for the next ones */
    size_t spare_count;

    struct evzmq__timer *timer;
    uint64_t armed_at; /* when it has something to do; EVZMQ__REQUEST_NEVER: nothing is due */
    int failing; /* what all outstanding requests are to end with; 0: nothing */
    bool refused; /* since the write callback ran last */
    size_t refused_bytes; /* of the message refused for its bytes; 0: for the number */
    struct evzmq__requester_ending ending;
    struct evzmq_requester_stats stats; /* without gauges but held_bytes and waiting */
};

/* request.c */

/* Whether a call may use the requester. Returns 0, or -1 with EINVAL, ECHILD or EPERM. */
int evzmq__requester_check(const struct evzmq_requester *requester);

/* Sets the timer for what is due next. Returns 0, or -1 with ENOMEM. */
int evzmq__requester_arm(struct evzmq_requester *requester);

/* Leaves the socket, which is at its end or no longer wanted: requests are to fail with `error`. */
void evzmq__requester_detach(struct evzmq_requester *requester, int error);

/* Whether the messages held have room for one more. */
bool evzmq__requester_holds(const struct evzmq_requester *requester, size_t bytes);

/* A struct for a request, all zero. NULL with ENOMEM. */
struct evzmq__request *evzmq__request_new(struct evzmq_requester *requester);

/* An outstanding request by its number, or NULL. */
struct evzmq__request *evzmq__request_find(const struct evzmq_requester *requester,
                                           uint64_t number);

/* Ends a request without its callback. */
void evzmq__request_drop(struct evzmq_requester *requester, struct evzmq__request *request);

/* Ends a request and calls its callback, after which the requester may be gone. */
void evzmq__request_end(struct evzmq_requester *requester, struct evzmq__request *request,
                        int error, struct evzmq_message *reply);

/* request_send.c */

/* What waits is asked for by a pass of the socket, and dropped when the socket is at its end. */
extern const struct evzmq__feeder_methods evzmq__requester_feeder;

/* Sends a request again, if its turn has come; sets when something is due for it next. */
void evzmq__request_retry(struct evzmq_requester *requester, struct evzmq__request *request,
                          uint64_t now);

/* Takes a request off the list of those that wait, if it is there, and frees what is kept of it. */
void evzmq__request_unkeep(struct evzmq_requester *requester, struct evzmq__request *request);

/* request_recv.c */

/* The callbacks of the socket. */
void evzmq__requester_on_reply(struct evzmq_socket *socket, struct evzmq_message *message,
                               void *arg);
void evzmq__requester_on_event(struct evzmq_socket *socket, const struct evzmq_event *event,
                               void *arg);

/* The type of a DEALER that has a requester: to it id and delimiter are the envelope. */
extern const struct evzmq__type evzmq__requester_dealer;

#endif /* EVZMQ_PLUGIN_REQUEST_H */
