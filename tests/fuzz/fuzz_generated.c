/*
 * fuzz_generated.c: the bytes are a schema of any kinds, layouts and nesting, messages for it, and
 * what is changed in them.
 *
 * Linked with libFuzzer it searches; linked with replay.c it is an ordinary test over random
 * inputs. The properties: a schema that is checked without a fault makes a codec, and no other
 * does; a message that is right for the schema is accepted; of any message an error has a kind and
 * an offset within it; what is accepted is msgpack for msgpack-c too; it encodes, and the result
 * decodes to a value that encodes to the same bytes; the front of bytes is a value when it is one
 * by itself; nothing leaks.
 */
#include <errno.h>
#include <string.h>

#include <evzmq/schema.h>

#include "allocator.h"
#include "fuzz.h"
#include "reference.h"
#include "schema_maker.h"

enum { MESSAGES_MAX = 4, MEMORY_MAX = 1024 * 1024 };

static char *encode(const struct evzmq_codec *codec, const void *value, size_t *out_size)
{
    check(evzmq_codec_encoded_size(codec, value, out_size) == 0, "a decoded value has a size");
    char *const bytes = malloc(*out_size > 0 ? *out_size : 1);
    check(bytes != NULL, "there is memory");
    check(evzmq_codec_encode(codec, value, bytes, *out_size) == 0, "a decoded value is encoded");
    return bytes;
}

static void check_round_trip(const struct evzmq_codec *codec, struct evzmq_arena *arena,
                             const void *value)
{
    size_t once_size = 0;
    size_t twice_size = 0;
    char *const once = encode(codec, value, &once_size);
    check(evzmq_codec_decode(codec, once, once_size, arena, &value, NULL) == 0,
          "what was encoded is decoded");
    char *const twice = encode(codec, value, &twice_size);
    check(once_size == twice_size && memcmp(once, twice, once_size) == 0,
          "the value is the same after a round trip");
    free(twice);
    free(once);
}

/* The same bytes with others behind them. */
static void check_prefix(const struct evzmq_codec *codec, struct evzmq_arena *arena,
                         const char *bytes, size_t size, bool accepted)
{
    const void *value = NULL;
    size_t used = 0;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    if (size == 0) {
        return;
    }
    if (evzmq_codec_decode_prefix(codec, bytes, size, arena, &value, &used, &error) == 0) {
        check(used >= 1 && used <= size && (used == size) == accepted,
              "the front is the whole when the whole is a value");
    } else {
        check(!accepted && error.kind != EVZMQ_DECODE_TRAILING && error.offset <= size,
              "what is a value is one in front too");
    }
}

static void try_message(const struct evzmq_codec *codec, const char *bytes, size_t size, bool valid)
{
    struct evzmq_arena *const arena = evzmq_arena_new();
    char *const copy = malloc(size > 0 ? size : 1); /* so that its end is the end */
    struct reference reference;
    const void *value = NULL;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    check(arena != NULL && copy != NULL, "there is memory");
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    reference_decode(&reference, (const uint8_t *)copy, size);
    const size_t before = allocator_get_counts().bytes;
    const bool accepted = evzmq_codec_decode(codec, copy, size, arena, &value, &error) == 0;
    check(allocator_get_counts().bytes - before <= 4 * MEMORY_MAX, "memory is bounded");
    check(accepted || !valid, "a message that is right is accepted");
    if (accepted) {
        check(reference.accepted || reference.too_deep, "what is accepted is msgpack");
        check_round_trip(codec, arena, value);
    } else {
        check(errno == EBADMSG && error.kind > EVZMQ_DECODE_OK && error.kind < EVZMQ_DECODE_KINDS,
              "an error has a kind");
        check(error.offset <= size, "its offset is within the message");
    }
    evzmq_arena_reset(arena);
    check_prefix(codec, arena, copy, size, accepted);
    reference_free(&reference);
    free(copy);
    evzmq_arena_free(arena);
}

/* Replaces some bytes, or cuts some off. */
static void damage(struct source *source, msgpack_sbuffer *bytes)
{
    static const unsigned char hostile[] = {0x00, 0x80, 0x90, 0xa0, 0xc0, 0xc1, 0xc4, 0xc7, 0xca,
                                            0xcb, 0xcf, 0xd3, 0xd9, 0xdb, 0xdd, 0xdf, 0xe0, 0xff};
    for (unsigned left = 1 + source_next(source) % 3; left > 0 && bytes->size > 0; left--) {
        const size_t at = (source_next(source) | source_next(source) << 8) % bytes->size;
        const unsigned how = source_next(source);
        if (how % 8 == 0) {
            bytes->size = at;
        } else {
            bytes->data[at] = (char)(how % 2 ? hostile[how / 2 % sizeof(hostile)] : how);
        }
    }
}

static void try_messages(struct source *source, const struct evzmq_schema *schema,
                         const struct evzmq_codec *codec)
{
    for (int messages = 0; messages < MESSAGES_MAX && source->size > 0; messages++) {
        msgpack_sbuffer bytes;
        msgpack_sbuffer_init(&bytes);
        const unsigned how = source_next(source);
        bool valid = make_message(source, schema, &bytes);
        try_message(codec, bytes.data, bytes.size, valid);
        if (how % 2 != 0) {
            damage(source, &bytes);
            try_message(codec, bytes.data, bytes.size, false);
        }
        msgpack_sbuffer_destroy(&bytes);
    }
    try_message(codec, (const char *)source->data, source->size, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct source source = {data, size};
    allocator_install();
    const struct evzmq_schema *const schema = make_schema(&source);
    const struct evzmq_schema_options options = {sizeof(options), 0, MEMORY_MAX, 0};
    struct evzmq_schema_fault fault = {NULL, NULL, NULL};
    const bool good = evzmq_schema_check(schema, &fault) == 0;
    check(good || (errno == EINVAL && fault.schema != NULL && fault.reason != NULL),
          "a fault is somewhere, and has a reason");
    struct evzmq_codec *const codec = evzmq_schema_codec_new(schema, &options);
    check((codec != NULL) == good, "a schema without a fault makes a codec");
    if (codec != NULL) {
        try_messages(&source, schema, codec);
    }
    evzmq_codec_free(codec);
    check(allocator_get_counts().blocks == 0, "nothing leaks");
    allocator_remove();
    return 0;
}

static const struct fuzz_seed seeds[] = {
    FUZZ_SEED("\1\x70\1\0\1\1\1\2\1\3\1\4\1\5\1\6\1\7\0\0\0\1\1\1\1\1\1\1\1\1\1\1"),
    FUZZ_SEED("\1\x71\1\x14\1\x15\1\x16\0\1\x13\1\2\0\1\2\3\4\5\6\7\x08"),
};

const struct fuzz_plan fuzz_plan = {.seeds = seeds,
                                    .seed_count = sizeof(seeds) / sizeof(seeds[0]),
                                    .random_count = 5000,
                                    .random_size_max = 400};
