/*
 * batch.h (L4): batches that a publisher puts together: records go in one by one, a frame comes
 * out. Only bytes: no socket, no event.
 *
 * The records stand in the batch as they will on the wire, with room in front for the topic and the
 * head of the array, which is written last, when the number of records is known. So the frame is
 * one run of bytes, also that of a record that stayed alone: its topic goes right before it, over
 * the room and its own bin head.
 */
#ifndef EVZMQ_PLUGIN_BATCH_H
#define EVZMQ_PLUGIN_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evzmq/codec.h>

#include "pubframe.h"
#include "table.h"

struct evzmq__batch {
    struct evzmq__table_node node; /* of the batches that are begun, by topic */
    struct evzmq__batch *prev; /* in the order in which they were begun */
    struct evzmq__batch *next;
    uint64_t due; /* nanoseconds */
    bool is_full; /* it would have gone if it could */
    unsigned char topic[EVZMQ__TOPIC_BYTES]; /* of its first record */
    unsigned char *bytes;
    size_t capacity;
    size_t used; /* 0, or what stands in bytes with the room in front */
    size_t records;
    size_t record_bytes; /* of them, without heads */
    size_t first_bytes; /* of the first: the frame of one record alone overwrites its head */
};

/* Whether a record fits beside those that are there, in a frame of at most so many bytes. */
bool evzmq__batch_fits(const struct evzmq__batch *batch, size_t size, size_t frame_max);

/* Makes room for a record and gives the place for its bytes. NULL with ENOMEM. Until the commit
 * nothing has changed. */
void *evzmq__batch_reserve(struct evzmq__batch *batch, size_t size, size_t frame_max);

/* Adds the record whose bytes were written there. */
void evzmq__batch_commit(struct evzmq__batch *batch, size_t size);

/* Completes the frame of a batch that has records and gives it. A marked batch is one of a single
 * topic. More records may be added afterwards, and the frame made again. */
struct evzmq_bytes evzmq__batch_frame(struct evzmq__batch *batch, bool marked);

/* Takes all records out; keeps the memory. */
void evzmq__batch_clear(struct evzmq__batch *batch);

/* Frees the memory of a batch, not the batch. */
void evzmq__batch_release(struct evzmq__batch *batch);

#endif /* EVZMQ_PLUGIN_BATCH_H */
