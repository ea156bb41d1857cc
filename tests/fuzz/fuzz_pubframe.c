/*
 * fuzz_pubframe.c: any bytes read as a frame of a publisher.
 *
 * Linked with libFuzzer it searches; linked with replay.c it is an ordinary test over the wire
 * vectors. The properties: records lie within the frame, in order and apart; there are at most as
 * many as bytes; an error's offset is within the frame; a frame that moves between two records
 * gives the same ones; and what was read, put into a batch, is read again.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "fuzz.h"
#include "pubframe.h"

static uint8_t *copy(const void *data, size_t size)
{
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    check(bytes != NULL, "there is memory");
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    return bytes;
}

/* Reads what was put into a batch once more. */
static void check_again(struct evzmq__batch *batch, const uint8_t *frame, size_t size)
{
    const struct evzmq_bytes made = evzmq__batch_frame(batch, false);
    struct evzmq__frame_reader old_reader;
    struct evzmq__frame_reader new_reader;
    struct evzmq__topic topic;
    struct evzmq_decode_error error;
    struct evzmq_bytes old_record;
    struct evzmq_bytes new_record;
    check(evzmq__frame_open(&old_reader, frame, size, &topic, &error) == 0, "it opens again");
    check(evzmq__frame_open(&new_reader, made.data, made.size, &topic, &error) == 0,
          "a batch's frame opens");
    for (size_t i = 0; i < batch->records; i++) {
        check(evzmq__frame_next(&old_reader, frame, size, &old_record, &error) ==
                  EVZMQ__FRAME_GIVES,
              "it gives the same again");
        check(evzmq__frame_next(&new_reader, made.data, made.size, &new_record, &error) ==
                  EVZMQ__FRAME_GIVES,
              "a batch's frame gives its records");
        check(old_record.size == new_record.size &&
                  memcmp(old_record.data, new_record.data, old_record.size) == 0,
              "the record is the same");
    }
    check(evzmq__frame_next(&new_reader, made.data, made.size, &new_record, &error) ==
              EVZMQ__FRAME_ENDS,
          "a batch's frame ends");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t frame_max = 16 * size + 1024;
    struct evzmq__frame_reader reader;
    struct evzmq__topic topic;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    struct evzmq__batch batch = {.topic = "t"};
    struct evzmq_bytes record;
    size_t end = EVZMQ__TOPIC_BYTES;
    if (evzmq__frame_open(&reader, data, size, &topic, &error) < 0) {
        check(size < EVZMQ__TOPIC_BYTES && error.offset == size, "only a short frame has no topic");
        return 0;
    }
    check(topic.size <= EVZMQ__TOPIC_BYTES && topic.text[topic.size] == '\0', "it is a topic");
    uint8_t *frame = copy(data, size);
    enum evzmq__frame_step step;
    while ((step = evzmq__frame_next(&reader, frame, size, &record, &error)) ==
           EVZMQ__FRAME_GIVES) {
        const size_t offset = (size_t)((const uint8_t *)record.data - frame);
        check(offset >= end && record.size <= size - offset, "records lie apart in the frame");
        end = offset + record.size;
        check(batch.records < size, "there are at most as many records as bytes");
        void *room = evzmq__batch_reserve(&batch, record.size, frame_max);
        check(evzmq__batch_fits(&batch, record.size, frame_max) && room != NULL, "it fits");
        if (record.size > 0) {
            memcpy(room, record.data, record.size);
        }
        evzmq__batch_commit(&batch, record.size);
        if (batch.records % 8 == 0) {
            uint8_t *moved = copy(frame, size);
            free(frame);
            frame = moved;
        }
    }
    if (step == EVZMQ__FRAME_BROKEN) {
        check(error.kind > EVZMQ_DECODE_OK && error.kind < EVZMQ_DECODE_KINDS, "a kind is one");
        check(error.offset >= end && error.offset <= size, "the fault is behind the records");
    } else {
        check(end == size || batch.records == 0, "a whole frame has been read to its end");
    }
    if (batch.records > 0) {
        check_again(&batch, frame, size);
    }
    evzmq__batch_release(&batch);
    free(frame);
    return 0;
}

const struct fuzz_plan fuzz_plan = {.prefixes_max = SIZE_MAX, .places_max = 64};
