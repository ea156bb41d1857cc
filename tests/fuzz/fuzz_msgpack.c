/*
 * fuzz_msgpack.c: any bytes given to the msgpack codec.
 *
 * Linked with libFuzzer (clang -fsanitize=fuzzer) it searches; linked with replay.c it is an
 * ordinary test over the wire vectors. The properties: what is accepted is exactly what msgpack-c
 * unpacks to the last byte and what fits the limits, also limits that are small; the tree is that
 * of msgpack-c; what is refused has allocated nothing; what is accepted takes at most 24 bytes a
 * byte of input (48 for each pair of a map, which is two bytes at least) and one chunk's rounding,
 * can be visited, and encodes to bytes that decode to the same tree; a codec that checks UTF-8
 * accepts a part of what one without that check accepts.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <evzmq/msgpack.h>

#include "allocator.h"
#include "fuzz.h"
#include "reference.h"

#define PEAK_PER_BYTE 24
#define PEAK_FIXED 16384

static struct evzmq_codec *make_codec(int validate_utf8)
{
    const struct evzmq_msgpack_limits limits = {
        .size = sizeof(limits),
        .depth_max = EVZMQ_MSGPACK_DEPTH_MAX,
        .validate_utf8 = validate_utf8,
    };
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(&limits);
    check(codec != NULL, "the codec can be made");
    return codec;
}

static size_t visit_bytes(const char *bytes, size_t size)
{
    size_t sum = 0;
    for (size_t i = 0; i < size; i++) {
        sum += (unsigned char)bytes[i];
    }
    return sum;
}

/* Reads all that the tree refers to. Recursion ends at the codec's limit. */
static size_t visit(const msgpack_object *object)
{
    size_t sum = 1;
    switch (object->type) {
    case MSGPACK_OBJECT_ARRAY:
        for (uint32_t i = 0; i < object->via.array.size; i++) {
            sum += visit(&object->via.array.ptr[i]);
        }
        return sum;
    case MSGPACK_OBJECT_MAP:
        for (uint32_t i = 0; i < object->via.map.size; i++) {
            sum += visit(&object->via.map.ptr[i].key) + visit(&object->via.map.ptr[i].val);
        }
        return sum;
    case MSGPACK_OBJECT_STR:
        return visit_bytes(object->via.str.ptr, object->via.str.size);
    case MSGPACK_OBJECT_BIN:
        return visit_bytes(object->via.bin.ptr, object->via.bin.size);
    case MSGPACK_OBJECT_EXT:
        return visit_bytes(object->via.ext.ptr, object->via.ext.size);
    default:
        return sum;
    }
}

static char *encode(const struct evzmq_codec *codec, const void *value, size_t *out_size)
{
    check(evzmq_codec_encoded_size(codec, value, out_size) == 0, "a decoded tree has a size");
    char *const bytes = malloc(*out_size);
    check(bytes != NULL, "there is memory for the encoded tree");
    check(evzmq_codec_encode(codec, value, bytes, *out_size) == 0, "a decoded tree is encoded");
    return bytes;
}

/* The tree encodes to bytes that decode to a tree that encodes to the same bytes. */
static void check_round_trip(const struct evzmq_codec *codec, const void *value, size_t size)
{
    size_t once_size = 0;
    char *const once = encode(codec, value, &once_size);
    check(once_size <= size, "the shortest form is not longer than the input");
    struct evzmq_arena *const arena = evzmq_arena_new();
    check(arena != NULL, "the arena can be made");
    const void *again = NULL;
    check(evzmq_codec_decode(codec, once, once_size, arena, &again, NULL) == 0,
          "what was encoded is decoded");
    size_t twice_size = 0;
    char *const twice = encode(codec, again, &twice_size);
    check(once_size == twice_size && memcmp(once, twice, once_size) == 0,
          "the tree is the same after a round trip");
    evzmq_arena_free(arena);
    free(twice);
    free(once);
}

/* Limits that inputs of a few bytes reach, each by itself. */
static const struct evzmq_msgpack_limits small_limits[] = {
    {.size = sizeof(struct evzmq_msgpack_limits), .depth_max = REFERENCE_DEPTH_MAX},
    {.size = sizeof(struct evzmq_msgpack_limits), .depth_max = 1},
    {.size = sizeof(struct evzmq_msgpack_limits), .depth_max = 4},
    {.size = sizeof(struct evzmq_msgpack_limits), .depth_max = 32, .elements_max = 5},
    {.size = sizeof(struct evzmq_msgpack_limits), .depth_max = 32, .memory_max = 200},
};
enum { SMALL_LIMITS = sizeof(small_limits) / sizeof(small_limits[0]) };

static bool fits(const struct reference *reference, const struct evzmq_msgpack_limits *limits)
{
    const size_t elements_max =
        limits->elements_max != 0 ? limits->elements_max : EVZMQ_MSGPACK_ELEMENTS_DEFAULT;
    const size_t memory_max =
        limits->memory_max != 0 ? limits->memory_max : EVZMQ_MSGPACK_MEMORY_DEFAULT;
    return reference->accepted && reference->depth <= limits->depth_max &&
           reference->elements <= elements_max &&
           (reference->elements + 1) * sizeof(msgpack_object) <= memory_max;
}

/* Both directions: what msgpack-c accepts and the limits allow, and nothing else. */
static void check_limits(const struct reference *reference, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < SMALL_LIMITS; i++) {
        struct evzmq_codec *const codec = evzmq_msgpack_codec_new(&small_limits[i]);
        struct evzmq_arena *const arena = evzmq_arena_new();
        check(codec != NULL && arena != NULL, "there is memory");
        const void *value = NULL;
        struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
        const size_t before = allocator_get_counts().calls;
        const bool accepted = evzmq_codec_decode(codec, data, size, arena, &value, &error) == 0;
        check(accepted == fits(reference, &small_limits[i]),
              "accepted is what the reference accepts and the limits allow");
        if (accepted) {
            check(reference_equals(reference, value), "the tree is that of the reference");
        } else {
            check(allocator_get_counts().calls == before, "a refusal allocates nothing");
            const bool by_limit = error.kind == EVZMQ_DECODE_DEPTH ||
                                  error.kind == EVZMQ_DECODE_ELEMENTS ||
                                  error.kind == EVZMQ_DECODE_MEMORY;
            check(by_limit || !reference->accepted, "bytes are at fault, or a limit");
        }
        evzmq_arena_free(arena);
        evzmq_codec_free(codec);
    }
}

static void check_refusal(const struct evzmq_decode_error *error, size_t size,
                          const struct allocator_counts *before)
{
    check(errno == EBADMSG, "a refusal is EBADMSG");
    check(error->kind > EVZMQ_DECODE_OK && error->kind < EVZMQ_DECODE_KINDS, "its kind is one");
    check(error->offset <= size, "its offset is within the input");
    check(allocator_get_counts().calls == before->calls, "a refusal allocates nothing");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reference reference;
    reference_decode(&reference, data, size);
    allocator_install();
    struct evzmq_codec *const codec = make_codec(0);
    struct evzmq_codec *const strict = make_codec(1);
    struct evzmq_arena *const arena = evzmq_arena_new();
    check(arena != NULL, "the arena can be made");

    const struct allocator_counts before = allocator_get_counts();
    const void *value = NULL;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    const bool accepted = evzmq_codec_decode(codec, data, size, arena, &value, &error) == 0;
    if (accepted) {
        check(allocator_get_counts().bytes_peak - before.bytes <= PEAK_PER_BYTE * size + PEAK_FIXED,
              "the memory is in proportion to the input");
        check(visit(value) < SIZE_MAX, "the tree can be visited");
        check(reference.accepted || reference.too_deep, "what is accepted is msgpack");
        check_round_trip(codec, value, size);
    } else {
        check_refusal(&error, size, &before);
    }
    evzmq_arena_reset(arena);
    if (evzmq_codec_decode(strict, data, size, arena, &value, &error) == 0) {
        check(accepted, "what is accepted with UTF-8 checked is accepted without");
    } else {
        check(!accepted || error.kind == EVZMQ_DECODE_UTF8, "only UTF-8 makes the difference");
    }

    evzmq_arena_free(arena);
    evzmq_codec_free(strict);
    evzmq_codec_free(codec);
    check_limits(&reference, data, size);
    check(allocator_get_counts().blocks == 0, "nothing leaks");
    allocator_remove();
    reference_free(&reference);
    return 0;
}

const struct fuzz_plan fuzz_plan = {.prefixes_max = SIZE_MAX, .places_max = 64};
