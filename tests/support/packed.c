/**
 * @file packed.c
 * See packed.h.
 */
#include "packed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <evzmq/records.h>
#include <evzmq/schema.h>

struct evzmq_codec *packed_codec(void)
{
    struct evzmq_codec *const codec =
        evzmq_schema_codec_new(&evzmq_record_stream_chunk_schema, NULL);
    assert_non_null(codec);
    return codec;
}

void packed_attach(struct fixture *f, struct probe *p, void *zmq_socket, unsigned options)
{
    struct evzmq_codec *const codec = packed_codec();
    probe_attach(f, p, zmq_socket, options);
    assert_ok(evzmq_socket_set_codec(p->socket, codec));
    evzmq_codec_free(codec);
}

struct record {
    struct evzmq_record_stream_chunk chunk;
    char id[24];
};

static const char *text_of(size_t size)
{
    static char text[PACKED_TEXT_MAX];
    assert_true(size <= sizeof(text));
    if (text[0] == '\0') {
        memset(text, 't', sizeof(text));
    }
    return text;
}

static void make_record(struct record *record, uint64_t number, size_t text_size)
{
    const int length = snprintf(record->id, sizeof(record->id), "%" PRIu64, number);
    record->chunk = (struct evzmq_record_stream_chunk){
        .id = {record->id, (size_t)length},
        .response_chunk = {text_of(text_size), text_size},
    };
}

int packed_write(struct evzmq_socket *socket, uint64_t number, size_t text_size)
{
    struct record record;
    make_record(&record, number, text_size);
    return evzmq_socket_write_value(socket, &record.chunk);
}

size_t packed_encode(uint64_t number, size_t text_size, void *out, size_t room)
{
    struct evzmq_codec *const codec = packed_codec();
    struct record record;
    size_t size = 0;
    make_record(&record, number, text_size);
    assert_ok(evzmq_codec_encoded_size(codec, &record.chunk, &size));
    assert_true(size <= room);
    assert_ok(evzmq_codec_encode(codec, &record.chunk, out, size));
    evzmq_codec_free(codec);
    return size;
}

static uint64_t number_of(const struct evzmq_record_stream_chunk *chunk)
{
    char digits[24] = "";
    assert_true(chunk->id.size > 0 && chunk->id.size < sizeof(digits));
    memcpy(digits, chunk->id.data, chunk->id.size);
    for (size_t i = 0; i < chunk->response_chunk.size; i++) {
        assert_int_equal(chunk->response_chunk.data[i], 't');
    }
    return strtoull(digits, NULL, 10);
}

size_t packed_check(const void *data, size_t size, uint64_t first)
{
    struct evzmq_codec *const codec = packed_codec();
    struct evzmq_arena *const arena = evzmq_arena_new();
    const unsigned char *at = data;
    size_t count = 0;
    while (size > 0) {
        const void *value = NULL;
        size_t used = 0;
        evzmq_arena_reset(arena);
        assert_ok(evzmq_codec_decode_prefix(codec, at, size, arena, &value, &used, NULL));
        assert_int_equal(number_of(value), first + count);
        at += used;
        size -= used;
        count++;
    }
    evzmq_arena_free(arena);
    evzmq_codec_free(codec);
    return count;
}

uint64_t packed_number(const struct evzmq_message *message)
{
    const struct evzmq_record_stream_chunk *const chunk = evzmq_record_value(message, NULL);
    assert_non_null(chunk);
    return number_of(chunk);
}

size_t packed_pump_frame(struct fixture *f, void *peer, uint64_t first)
{
    zmq_msg_t msg;
    zmq_msg_init(&msg);
    while (zmq_msg_recv(&msg, peer, ZMQ_DONTWAIT) < 0) {
        assert_int_equal(zmq_errno(), EAGAIN);
        fixture_glance(f);
    }
    assert_false(zmq_msg_more(&msg));
    const size_t count = packed_check(zmq_msg_data(&msg), zmq_msg_size(&msg), first);
    zmq_msg_close(&msg);
    return count;
}

void packed_read_sequence(struct probe *p, struct evzmq_message *message)
{
    assert_int_equal(packed_number(message), p->sequence);
    p->sequence++;
}

void packed_frame_add(struct packed_frame *frame, uint64_t number, size_t text_size)
{
    frame->at[frame->count++] = frame->size;
    frame->size += packed_encode(number, text_size, frame->bytes + frame->size,
                                 sizeof(frame->bytes) - frame->size);
}

struct packed_frame *packed_frame_new(uint64_t first, uint64_t count, size_t text_size)
{
    struct packed_frame *const frame = calloc(1, sizeof(*frame));
    assert_non_null(frame);
    for (uint64_t i = 0; i < count; i++) {
        packed_frame_add(frame, first + i, text_size);
    }
    return frame;
}

void packed_send_frame(void *peer, uint64_t first, uint64_t count, size_t text_size)
{
    struct packed_frame *const frame = packed_frame_new(first, count, text_size);
    peer_send(peer, frame->bytes, frame->size);
    free(frame);
}

void packed_open_pair(struct fixture *f, enum transport transport, struct probe *p, void **out_push)
{
    void *pull = NULL;
    peer_pair(f, transport, ZMQ_PULL, &pull, ZMQ_PUSH, out_push);
    packed_attach(f, p, pull, 0);
    assert_ok(evzmq_socket_set_unpacking(p->socket, 1));
}
