/*
 * pubframe.h (L4): the frames that publishers send: a topic, then a record or a batch of them. Only
 * bytes: no socket, no event, no allocation.
 *
 *     40 bytes: topic, 0 ...          record
 *     40 bytes: "batch", 0 ...        msgpack array of bin
 *     40 bytes: topic, 0 ..., 0, 1    msgpack array of bin, all of this topic
 *
 * A batch is read record by record and nothing is believed of it in advance, so that what stands
 * before a fault can be used and a count that cannot be true costs nothing.
 */
#ifndef EVZMQ_PLUGIN_PUBFRAME_H
#define EVZMQ_PLUGIN_PUBFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evzmq/codec.h>

enum {
    EVZMQ__TOPIC_BYTES = 40,
    EVZMQ__TOPIC_MARK_AT = EVZMQ__TOPIC_BYTES - 1, /* 1 in a batch of one topic, after a 0 */
    EVZMQ__TOPIC_MARKED_MAX = EVZMQ__TOPIC_BYTES - 2, /* of a topic that can be marked */
    EVZMQ__ARRAY_HEAD_MAX = 5,
    EVZMQ__BIN_HEAD_MAX = 5
};

/* "batch", padded. */
extern const unsigned char evzmq__topic_batch[EVZMQ__TOPIC_BYTES];

enum evzmq__frame_kind {
    EVZMQ__FRAME_RECORD,
    EVZMQ__FRAME_BATCH_SHARED,
    EVZMQ__FRAME_BATCH_MARKED
};

/* A topic without its padding, and a 0 behind it. */
struct evzmq__topic {
    size_t size;
    char text[EVZMQ__TOPIC_BYTES + 1];
};

/* Takes over a topic of at most EVZMQ__TOPIC_BYTES bytes and cuts off what pads it. */
void evzmq__topic_set(struct evzmq__topic *topic, const void *data, size_t size);

/* Writes a topic of at most EVZMQ__TOPIC_BYTES bytes with its padding. */
void evzmq__topic_pad(unsigned char out[EVZMQ__TOPIC_BYTES], const char *topic, size_t size);

/* How far a frame has been read. It refers to no memory, so that the frame may move meanwhile. */
struct evzmq__frame_reader {
    enum evzmq__frame_kind kind;
    bool has_head; /* of the array, behind it by now */
    size_t offset; /* of what comes next */
    uint64_t left; /* records, as the frame says */
};

/* Begins to read a frame. Returns 0, or -1 with *out_error set when it has no topic. */
int evzmq__frame_open(struct evzmq__frame_reader *reader, const void *frame, size_t size,
                      struct evzmq__topic *out_topic, struct evzmq_decode_error *out_error);

enum evzmq__frame_step { EVZMQ__FRAME_GIVES, EVZMQ__FRAME_ENDS, EVZMQ__FRAME_BROKEN };

/* The next record, which points into the frame; or the end; or *out_error, and then no more. */
enum evzmq__frame_step evzmq__frame_next(struct evzmq__frame_reader *reader, const void *frame,
                                         size_t size, struct evzmq_bytes *out,
                                         struct evzmq_decode_error *out_error);

#endif /* EVZMQ_PLUGIN_PUBFRAME_H */
