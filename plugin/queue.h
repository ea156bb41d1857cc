/*
 * queue.h (L1): the bounded output queue. Pure: it knows neither libevent nor libzmq.
 *
 * Entries wait in lanes, first in, first out. Sockets that send to whoever can take a message have
 * one lane. Sockets that address peers (ROUTER, STREAM) have a lane for each peer with something
 * queued, because there one full peer must not hold up the others: its lane is parked and the next
 * one is served.
 *
 *     push -> lane [ready] -> peek, pop          sent
 *                     |  ^
 *                park v  | unpark_all            would block; look again
 *                 [parked]
 */
#ifndef EVZMQ_QUEUE_H
#define EVZMQ_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "table.h"

/* Lives inside what is queued. */
struct evzmq__queue_entry {
    struct evzmq__queue_entry *next;
    size_t bytes;
    size_t more; /* records beyond the first: of a packed frame */
};

struct evzmq__lane {
    struct evzmq__table_node node; /* in queue->lanes, except the queue's own lane */
    struct evzmq__lane *prev; /* in the ready or the parked list */
    struct evzmq__lane *next;
    struct evzmq__queue_entry *head;
    struct evzmq__queue_entry **tail;
    size_t messages;
    size_t bytes;
    size_t key_size;
    unsigned char key[]; /* the routing id */
};

struct evzmq__lane_list {
    struct evzmq__lane *first;
    struct evzmq__lane *last;
    size_t count;
};

/* What crossing a mark leaves to be reported, once each. */
enum { EVZMQ__MARK_HIGH = 1 << 0, EVZMQ__MARK_LOW = 1 << 1, EVZMQ__MARK_EMPTY = 1 << 2 };

struct evzmq__queue {
    struct evzmq__lane_list ready;
    struct evzmq__lane_list parked;
    struct evzmq__lane *sole; /* the lane without a key; made on first use, kept */
    struct evzmq__table lanes;
    size_t messages;
    size_t more; /* records beyond one for each message */
    size_t bytes;
    size_t messages_max;
    size_t bytes_max;
    size_t messages_peak; /* of messages and more */
    size_t bytes_peak;
    size_t low;
    size_t high; /* 0: none */
    unsigned marks;
    bool above_low;
    bool above_high;
};

/* Whether a message of this many bytes may enter the lane of this key. Always true for an empty
 * queue. With a key, a lane may hold at most as much as is left free afterwards, so that one lane
 * never takes everything and a new peer always finds room. */
bool evzmq__queue_has_room(const struct evzmq__queue *queue, const void *key, size_t key_size,
                           size_t bytes);

/* Whether something waits in the lane of this key: then sending past the queue would reorder. */
bool evzmq__queue_waits(const struct evzmq__queue *queue, const void *key, size_t key_size);

/* Appends an entry, whose bytes are set. Limits are the caller's to ask about first.
 * Returns 0, or -1 with ENOMEM. */
int evzmq__queue_push(struct evzmq__queue *queue, struct evzmq__queue_entry *entry, const void *key,
                      size_t key_size);

/* Makes the lane without a key, so that appending to it needs no memory. Returns 0, or -1 with
 * ENOMEM. */
int evzmq__queue_prepare(struct evzmq__queue *queue);

/* Puts the lane of this key, which has entries and is ready, before all others. */
void evzmq__queue_hasten(struct evzmq__queue *queue, const void *key, size_t key_size);

/* The entry to send next, or NULL when no lane is ready. */
struct evzmq__queue_entry *evzmq__queue_peek(const struct evzmq__queue *queue);

/* Takes out the entry that peek gave. Its lane goes behind the other ready ones. */
struct evzmq__queue_entry *evzmq__queue_pop(struct evzmq__queue *queue);

/* Sets aside the lane of the entry that peek gave. */
void evzmq__queue_park(struct evzmq__queue *queue);

/* Makes every lane ready again. */
void evzmq__queue_unpark_all(struct evzmq__queue *queue);

/* Changes the marks and applies them to what is queued now: a low mark raised to what is there is
 * crossed, and so is a high one lowered to it, unless a high mark was crossed since the queue was
 * last low. */
void evzmq__queue_set_marks(struct evzmq__queue *queue, size_t low, size_t high);

/* A message found no room. Whoever has it waits for the low mark, so the next entry that leaves
 * crosses it, if it is not above: a queue of many small messages is full below a mark in bytes. */
void evzmq__queue_refuse(struct evzmq__queue *queue);

/* Takes the marks that were crossed since the last call: a set of EVZMQ__MARK_*. */
unsigned evzmq__queue_take_marks(struct evzmq__queue *queue);

/* Takes out any entry, or gives NULL and frees the queue's own memory. For tearing down. */
struct evzmq__queue_entry *evzmq__queue_clear(struct evzmq__queue *queue);

#endif /* EVZMQ_QUEUE_H */
