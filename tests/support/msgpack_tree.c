/*
 * msgpack_tree.c: see msgpack_tree.h.
 */
#include "msgpack_tree.h"

#include <errno.h>
#include <stdlib.h>

#include "allocator.h"

struct surroundings here;

struct evzmq_codec *new_codec(size_t depth, size_t elements, size_t memory, int utf8)
{
    const struct evzmq_msgpack_limits limits = {
        .size = sizeof(limits),
        .depth_max = depth,
        .elements_max = elements,
        .memory_max = memory,
        .validate_utf8 = utf8,
    };
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(&limits);
    assert_non_null(codec);
    return codec;
}

int set_up(void **state)
{
    (void)state;
    allocator_install();
    here.codec = new_codec(EVZMQ_MSGPACK_DEPTH_MAX, 0, 0, 0);
    here.arena = evzmq_arena_new();
    return here.arena != NULL ? 0 : -1;
}

int tear_down(void **state)
{
    (void)state;
    evzmq_codec_free(here.codec);
    evzmq_arena_free(here.arena);
    const size_t blocks = allocator_get_counts().blocks;
    allocator_remove();
    return blocks == 0 ? 0 : -1;
}

const msgpack_object *decode(const void *bytes, size_t size)
{
    const void *value = NULL;
    assert_int_equal(evzmq_codec_decode(here.codec, bytes, size, here.arena, &value, NULL), 0);
    return value;
}

void refuses(struct evzmq_codec *codec, const void *bytes, size_t size, enum evzmq_decode_kind kind,
             size_t offset)
{
    const void *value = NULL;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    const size_t calls = allocator_get_counts().calls;
    errno = 0;
    assert_int_equal(evzmq_codec_decode(codec, bytes, size, here.arena, &value, &error), -1);
    assert_int_equal(errno, EBADMSG);
    assert_string_equal(evzmq_decode_kind_name(error.kind), evzmq_decode_kind_name(kind));
    assert_int_equal(error.offset, offset);
    assert_null(value);
    assert_int_equal(allocator_get_counts().calls, calls);
}

char *encode(const msgpack_object *value, size_t *out_size)
{
    assert_int_equal(evzmq_codec_encoded_size(here.codec, value, out_size), 0);
    char *const bytes = malloc(*out_size);
    assert_non_null(bytes);
    assert_int_equal(evzmq_codec_encode(here.codec, value, bytes, *out_size), 0);
    return bytes;
}

void encodes_to(const msgpack_object *value, const void *bytes, size_t size)
{
    size_t encoded_size = 0;
    char *const encoded = encode(value, &encoded_size);
    assert_int_equal(encoded_size, size);
    assert_memory_equal(encoded, bytes, size);
    free(encoded);
}
