/*
 * batch.c (L4): see batch.h.
 */
#include "batch.h"

#include <string.h>

#include "base.h"
#include "wire.h"

enum { ROOM = EVZMQ__TOPIC_BYTES + EVZMQ__ARRAY_HEAD_MAX, CAPACITY_MIN = 512 };

/* The bytes of a batch so far, or of an empty one. */
static size_t used(const struct evzmq__batch *batch)
{
    return batch->used > 0 ? batch->used : ROOM;
}

bool evzmq__batch_fits(const struct evzmq__batch *batch, size_t size, size_t frame_max)
{
    const size_t taken = used(batch) + evzmq__wire_bin_head_size(size);
    return taken <= frame_max && size <= frame_max - taken;
}

void *evzmq__batch_reserve(struct evzmq__batch *batch, size_t size, size_t frame_max)
{
    const size_t head = evzmq__wire_bin_head_size(size);
    const size_t wanted = used(batch) + head + size;
    if (wanted > batch->capacity) {
        size_t capacity = batch->capacity > CAPACITY_MIN ? batch->capacity : CAPACITY_MIN;
        while (capacity < wanted) {
            capacity *= 2; /* wanted is at most frame_max, which is less than half of SIZE_MAX */
        }
        capacity = capacity < frame_max ? capacity : frame_max;
        unsigned char *bytes = evzmq__realloc(batch->bytes, capacity);
        if (bytes == NULL) {
            return NULL;
        }
        batch->bytes = bytes;
        batch->capacity = capacity;
    }
    return batch->bytes + used(batch) + head;
}

void evzmq__batch_commit(struct evzmq__batch *batch, size_t size)
{
    unsigned char *const at = batch->bytes + used(batch);
    batch->used = (size_t)(evzmq__wire_put_bin_head(at, size) - batch->bytes) + size;
    if (batch->records++ == 0) {
        batch->first_bytes = size;
    }
    batch->record_bytes += size;
}

struct evzmq_bytes evzmq__batch_frame(struct evzmq__batch *batch, bool marked)
{
    unsigned char *at = batch->bytes + ROOM;
    if (batch->records == 1) {
        at += evzmq__wire_bin_head_size(batch->record_bytes);
        at -= EVZMQ__TOPIC_BYTES;
        memcpy(at, batch->topic, EVZMQ__TOPIC_BYTES);
    } else {
        (void)evzmq__wire_put_bin_head(at, batch->first_bytes);
        at -= evzmq__wire_count_head_size(batch->records);
        (void)evzmq__wire_put_array_head(at, batch->records);
        at -= EVZMQ__TOPIC_BYTES;
        memcpy(at, marked ? batch->topic : evzmq__topic_batch, EVZMQ__TOPIC_BYTES);
        if (marked) {
            at[EVZMQ__TOPIC_MARK_AT] = 1;
        }
    }
    return (struct evzmq_bytes){at, batch->used - (size_t)(at - batch->bytes)};
}

void evzmq__batch_clear(struct evzmq__batch *batch)
{
    batch->used = 0;
    batch->records = 0;
    batch->record_bytes = 0;
    batch->is_full = false;
}

void evzmq__batch_release(struct evzmq__batch *batch)
{
    evzmq__free(batch->bytes);
    batch->bytes = NULL;
    batch->capacity = 0;
    evzmq__batch_clear(batch);
}
