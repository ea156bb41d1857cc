/*
 * fuzz_packed.c: any bytes taken for a packed frame.
 *
 * Linked with libFuzzer (clang -fsanitize=fuzzer) it searches; linked with replay.c it is an
 * ordinary test over the wire vectors, alone and several back to back. The properties, for the tree
 * codec and for those of typed records: a value takes at least one byte and at most what is there;
 * the bytes it takes are, by themselves, accepted as a whole message, and with one more they are
 * not; where the front of some bytes is no value the whole is none either, for the same reason.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <evzmq/msgpack.h>
#include <evzmq/records.h>

#include "all_kinds.h"
#include "allocator.h"
#include "fuzz.h"

/* The bytes end where their memory ends. */
static bool accepts_whole(const struct evzmq_codec *codec, const uint8_t *data, size_t size,
                          struct evzmq_decode_error *out_error)
{
    struct evzmq_arena *const arena = evzmq_arena_new();
    uint8_t *const copy = malloc(size > 0 ? size : 1);
    const void *value = NULL;
    check(arena != NULL && copy != NULL, "there is memory");
    memcpy(copy, data, size);
    const bool accepted = evzmq_codec_decode(codec, copy, size, arena, &value, out_error) == 0;
    free(copy);
    evzmq_arena_free(arena);
    return accepted;
}

static void check_end(const struct evzmq_codec *codec, const uint8_t *data, size_t size,
                      const struct evzmq_decode_error *error)
{
    struct evzmq_decode_error whole = {EVZMQ_DECODE_OK, 0};
    check(error->kind > EVZMQ_DECODE_OK && error->kind < EVZMQ_DECODE_KINDS, "an error has a kind");
    check(error->kind != EVZMQ_DECODE_TRAILING, "what follows a value is no error");
    check(error->offset <= size, "its offset is within the bytes");
    check(!accepts_whole(codec, data, size, &whole), "what has no value in front is none");
    check(whole.kind == error->kind && whole.offset == error->offset, "the reason is the same");
}

static void take_apart(const struct evzmq_codec *codec, const uint8_t *data, size_t size)
{
    struct evzmq_arena *const arena = evzmq_arena_new();
    check(arena != NULL, "the arena can be made");
    while (size > 0) {
        const void *value = NULL;
        size_t used = 0;
        struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
        evzmq_arena_reset(arena);
        if (evzmq_codec_decode_prefix(codec, data, size, arena, &value, &used, &error) != 0) {
            check_end(codec, data, size, &error);
            break;
        }
        check(used >= 1 && used <= size, "a value takes some of the bytes");
        check(value != NULL, "it is there");
        check(accepts_whole(codec, data, used, NULL), "its bytes are a whole message");
        if (used < size) {
            check(!accepts_whole(codec, data, used + 1, &error) &&
                      error.kind == EVZMQ_DECODE_TRAILING && error.offset == used,
                  "with one more they are not");
        }
        data += used;
        size -= used;
    }
    evzmq_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { CODECS = 6, SIZE_MAX_TWICE = 4096 };
    static struct evzmq_codec *codecs[CODECS];
    allocator_install();
    if (codecs[0] == NULL) {
        codecs[0] = evzmq_msgpack_codec_new(NULL);
        codecs[1] = evzmq_schema_codec_new(&evzmq_record_query_schema, NULL);
        codecs[2] = evzmq_schema_codec_new(&evzmq_record_response_schema, NULL);
        codecs[3] = evzmq_schema_codec_new(&evzmq_record_ready_signal_schema, NULL);
        codecs[4] = evzmq_schema_codec_new(&all_kinds_array_schema, NULL);
        codecs[5] = evzmq_schema_codec_new(&all_kinds_map_schema, NULL);
    }
    const size_t blocks = allocator_get_counts().blocks;
    for (size_t i = 0; i < CODECS; i++) {
        check(codecs[i] != NULL, "the codecs can be made");
        take_apart(codecs[i], data, size);
        if (size > 0 && size <= SIZE_MAX_TWICE) {
            uint8_t *const twice = malloc(2 * size);
            check(twice != NULL, "there is memory");
            memcpy(twice, data, size);
            memcpy(twice + size, data, size);
            take_apart(codecs[i], twice, 2 * size);
            free(twice);
        }
    }
    check(allocator_get_counts().blocks == blocks, "nothing leaks");
    allocator_remove();
    return 0;
}

/* Fewer variants than others are given: what a value may be is not for this target to find out, and
 * each input is taken apart twelve times. */
const struct fuzz_plan fuzz_plan = {.prefixes_max = 40, .places_max = 5};
