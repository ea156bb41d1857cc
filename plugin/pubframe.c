/*
 * pubframe.c (L4): see pubframe.h.
 */
#include "pubframe.h"

#include <string.h>

#include "wire.h"

const unsigned char evzmq__topic_batch[EVZMQ__TOPIC_BYTES] = {'b', 'a', 't', 'c', 'h'};

void evzmq__topic_set(struct evzmq__topic *topic, const void *data, size_t size)
{
    if (size > 0) {
        memcpy(topic->text, data, size);
    }
    while (size > 0 && topic->text[size - 1] == '\0') {
        size--;
    }
    topic->text[size] = '\0';
    topic->size = size;
}

void evzmq__topic_pad(unsigned char out[EVZMQ__TOPIC_BYTES], const char *topic, size_t size)
{
    memcpy(out, topic, size);
    memset(out + size, 0, EVZMQ__TOPIC_BYTES - size);
}

static enum evzmq__frame_kind kind_of(const unsigned char *topic)
{
    if (memcmp(topic, evzmq__topic_batch, EVZMQ__TOPIC_BYTES) == 0) {
        return EVZMQ__FRAME_BATCH_SHARED;
    }
    const bool is_marked = topic[EVZMQ__TOPIC_MARK_AT] == 1 && topic[EVZMQ__TOPIC_MARK_AT - 1] == 0;
    return is_marked ? EVZMQ__FRAME_BATCH_MARKED : EVZMQ__FRAME_RECORD;
}

int evzmq__frame_open(struct evzmq__frame_reader *reader, const void *frame, size_t size,
                      struct evzmq__topic *out_topic, struct evzmq_decode_error *out_error)
{
    if (size < EVZMQ__TOPIC_BYTES) {
        *out_error = (struct evzmq_decode_error){EVZMQ_DECODE_TRUNCATED, size};
        return -1;
    }
    const enum evzmq__frame_kind kind = kind_of(frame);
    *reader = (struct evzmq__frame_reader){
        .kind = kind, .offset = EVZMQ__TOPIC_BYTES, .left = kind == EVZMQ__FRAME_RECORD};
    evzmq__topic_set(out_topic, frame,
                     kind == EVZMQ__FRAME_BATCH_MARKED ? EVZMQ__TOPIC_MARK_AT : EVZMQ__TOPIC_BYTES);
    return 0;
}

static enum evzmq__frame_step broken(struct evzmq__frame_reader *reader,
                                     enum evzmq_decode_kind kind,
                                     struct evzmq_decode_error *out_error)
{
    *out_error = (struct evzmq_decode_error){kind, reader->offset};
    reader->left = 0;
    return EVZMQ__FRAME_BROKEN;
}

/* Reads the head of a value that has to be of a type. Gives what follows it, or NULL with the kind
 * of fault. */
static const unsigned char *read_head(const struct evzmq__frame_reader *reader,
                                      const unsigned char *frame, size_t size,
                                      enum evzmq__wire_type type, struct evzmq__wire_head *head,
                                      enum evzmq_decode_kind *out_kind)
{
    const unsigned char *after = evzmq__wire_read_head(frame + reader->offset, frame + size, head);
    if (after == NULL) {
        *out_kind = EVZMQ_DECODE_TRUNCATED;
    } else if (head->type != type) {
        *out_kind = head->type == EVZMQ__WIRE_TYPE_BAD ? EVZMQ_DECODE_MALFORMED : EVZMQ_DECODE_TYPE;
        after = NULL;
    }
    return after;
}

enum evzmq__frame_step evzmq__frame_next(struct evzmq__frame_reader *reader, const void *frame,
                                         size_t size, struct evzmq_bytes *out,
                                         struct evzmq_decode_error *out_error)
{
    const unsigned char *const bytes = frame;
    if (reader->kind == EVZMQ__FRAME_RECORD) {
        if (reader->left == 0) {
            return EVZMQ__FRAME_ENDS;
        }
        *out = (struct evzmq_bytes){bytes + reader->offset, size - reader->offset};
        reader->left = 0;
        return EVZMQ__FRAME_GIVES;
    }
    struct evzmq__wire_head head;
    enum evzmq_decode_kind kind = EVZMQ_DECODE_OK;
    const unsigned char *after = NULL;
    if (!reader->has_head) {
        after = read_head(reader, bytes, size, EVZMQ__WIRE_TYPE_ARRAY, &head, &kind);
        if (after == NULL) {
            return broken(reader, kind, out_error);
        }
        reader->has_head = true;
        reader->offset = (size_t)(after - bytes);
        reader->left = head.count;
    }
    if (reader->left == 0) {
        return reader->offset == size ? EVZMQ__FRAME_ENDS
                                      : broken(reader, EVZMQ_DECODE_TRAILING, out_error);
    }
    after = read_head(reader, bytes, size, EVZMQ__WIRE_TYPE_BIN, &head, &kind);
    if (after == NULL) {
        return broken(reader, kind, out_error);
    }
    *out = (struct evzmq_bytes){after, head.size};
    reader->offset = (size_t)(after - bytes) + head.size;
    reader->left--;
    return EVZMQ__FRAME_GIVES;
}
