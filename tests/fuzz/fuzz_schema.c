/*
 * fuzz_schema.c: any bytes given to the codecs of typed records.
 *
 * Linked with libFuzzer (clang -fsanitize=fuzzer) it searches; linked with replay.c it is an
 * ordinary test over the wire vectors. The records are those of records.h and one with a field of
 * every kind, as an array and as a map. The properties: an error has a kind and an offset within
 * the input; what is accepted is msgpack for msgpack-c too, to the last byte, and where the bytes
 * are said to be no msgpack they are none for it either; what is accepted encodes, and the result
 * decodes to a value that encodes to the same bytes; without UTF-8 checks nothing less is accepted;
 * memory stays within the limit.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <evzmq/records.h>

#include "all_kinds.h"
#include "allocator.h"
#include "fuzz.h"
#include "reference.h"

#define MEMORY_MAX 65536

static const struct evzmq_schema *const schemas[] = {
    &evzmq_record_query_schema,        &evzmq_record_response_schema,
    &evzmq_record_prompt_data_schema,  &evzmq_record_text_model_output_schema,
    &evzmq_record_ready_signal_schema, &evzmq_record_batch_schema,
    &all_kinds_array_schema,           &all_kinds_map_schema,
};
enum { SCHEMAS = sizeof(schemas) / sizeof(schemas[0]) };

static struct evzmq_codec *make_codec(const struct evzmq_schema *schema, int skip_utf8)
{
    const struct evzmq_schema_options options = {sizeof(options), 0, MEMORY_MAX, skip_utf8};
    struct evzmq_codec *const codec = evzmq_schema_codec_new(schema, &options);
    check(codec != NULL, "the codec can be made");
    return codec;
}

static unsigned char *encode(const struct evzmq_codec *codec, const void *value, size_t *out_size)
{
    check(evzmq_codec_encoded_size(codec, value, out_size) == 0, "a decoded value has a size");
    unsigned char *const bytes = malloc(*out_size == 0 ? 1 : *out_size);
    check(bytes != NULL, "there is memory for the encoded value");
    check(evzmq_codec_encode(codec, value, bytes, *out_size) == 0, "a decoded value is encoded");
    return bytes;
}

static void check_round_trip(const struct evzmq_codec *codec, struct evzmq_arena *arena,
                             const void *value)
{
    size_t once_size = 0;
    size_t twice_size = 0;
    unsigned char *const once = encode(codec, value, &once_size);
    check(evzmq_codec_decode(codec, once, once_size, arena, &value, NULL) == 0,
          "what was encoded is decoded");
    unsigned char *const twice = encode(codec, value, &twice_size);
    check(once_size == twice_size && memcmp(once, twice, once_size) == 0,
          "the value is the same after a round trip");
    free(twice);
    free(once);
}

/* What a record's codec says of bytes as such, held against msgpack-c. Its containers may be deeper
 * than msgpack-c follows. */
static void check_reference(const struct reference *reference, bool accepted,
                            enum evzmq_decode_kind kind)
{
    if (accepted) {
        check(reference->accepted || reference->too_deep, "what is accepted is msgpack");
    } else if (kind == EVZMQ_DECODE_TRUNCATED || kind == EVZMQ_DECODE_TRAILING) {
        check(!reference->accepted, "what is said to be no msgpack is none");
    }
}

static void try_codecs(const struct evzmq_codec *strict, const struct evzmq_codec *lax,
                       const struct reference *reference, const uint8_t *data, size_t size)
{
    struct evzmq_arena *const arena = evzmq_arena_new();
    check(arena != NULL, "the arena can be made");
    const void *value = NULL;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    const size_t before = allocator_get_counts().bytes;
    const bool accepted = evzmq_codec_decode(strict, data, size, arena, &value, &error) == 0;
    check(allocator_get_counts().bytes - before <= 4 * MEMORY_MAX, "memory is bounded");
    check_reference(reference, accepted, error.kind);
    if (accepted) {
        check_round_trip(strict, arena, value);
    } else {
        check(error.kind > EVZMQ_DECODE_OK && error.kind < EVZMQ_DECODE_KINDS,
              "an error has a kind");
        check(error.offset <= size, "its offset is within the input");
    }
    evzmq_arena_reset(arena);
    if (evzmq_codec_decode(lax, data, size, arena, &value, NULL) == 0) {
        check(accepted || error.kind == EVZMQ_DECODE_UTF8, "only UTF-8 makes the difference");
    } else {
        check(!accepted, "what is accepted with UTF-8 checked is accepted without");
    }
    evzmq_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Made once and never freed, as making them takes longer than the rest. */
    static struct evzmq_codec *strict[SCHEMAS];
    static struct evzmq_codec *lax[SCHEMAS];
    allocator_install();
    for (size_t i = 0; i < SCHEMAS; i++) {
        if (lax[i] == NULL) {
            strict[i] = make_codec(schemas[i], 0);
            lax[i] = make_codec(schemas[i], 1);
        }
    }
    struct reference reference;
    reference_decode(&reference, data, size);
    const size_t blocks = allocator_get_counts().blocks;
    for (size_t i = 0; i < SCHEMAS; i++) {
        try_codecs(strict[i], lax[i], &reference, data, size);
    }
    reference_free(&reference);
    check(allocator_get_counts().blocks == blocks, "nothing leaks");
    allocator_remove();
    return 0;
}

const struct fuzz_plan fuzz_plan = {.prefixes_max = SIZE_MAX, .places_max = 64};
