/*
 * test_schema_hostile.c: damaged messages. Every prefix of every vector, every vector with one byte
 * changed, and the same of records of every kind: each decodes or fails cleanly, in memory of its
 * size, and what decodes can be encoded. The sanitizers see a read beyond the bytes, since these
 * end where their memory ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <evzmq/evzmq.h>

#include "all_kinds.h"
#include "allocator.h"
#include "record_fields.h"
#include "vectors.h"

#define POSITIONS_MAX 64
#define MEMORY_MAX 65536

static struct evzmq_arena *arena;
static unsigned char buffer[65536];

/* Decoding with and without the check of UTF-8 is code of its own, so both are tried. */
static struct evzmq_codec *codec_of(const struct evzmq_schema *schema, int skip_utf8)
{
    const struct evzmq_schema_options options = {sizeof(options), 0, MEMORY_MAX, skip_utf8};
    struct evzmq_codec *const codec = evzmq_schema_codec_new(schema, &options);
    assert_non_null(codec);
    return codec;
}

/* Decodes bytes and, if that works, encodes the value and decodes it again. */
static void decode(const struct evzmq_codec *codec, const unsigned char *bytes, size_t size)
{
    const void *value = NULL;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    size_t encoded_size = 0;
    if (evzmq_codec_decode(codec, bytes, size, arena, &value, &error) != 0) {
        assert_int_equal(errno, EBADMSG);
        assert_true(error.kind > EVZMQ_DECODE_OK && error.kind < EVZMQ_DECODE_KINDS);
        assert_true(error.offset <= size);
        evzmq_arena_reset(arena);
        return;
    }
    assert_int_equal(evzmq_codec_encoded_size(codec, value, &encoded_size), 0);
    assert_true(encoded_size <= sizeof(buffer));
    assert_int_equal(evzmq_codec_encode(codec, value, buffer, encoded_size), 0);
    assert_int_equal(evzmq_codec_decode(codec, buffer, encoded_size, arena, &value, NULL), 0);
    evzmq_arena_reset(arena);
}

static void decode_every_prefix(const struct evzmq_codec *codec, const unsigned char *bytes,
                                size_t size)
{
    for (size_t prefix = 0; prefix < size; prefix++) {
        unsigned char *const copy = malloc(prefix == 0 ? 1 : prefix);
        assert_non_null(copy);
        memcpy(copy, bytes, prefix);
        decode(codec, copy, prefix);
        free(copy);
    }
}

static void decode_every_change(const struct evzmq_codec *codec, unsigned char *bytes, size_t size)
{
    const size_t count = size > POSITIONS_MAX ? POSITIONS_MAX : size;
    for (size_t position = 0; position < count; position++) {
        const size_t at = position * size / count;
        const unsigned char good = bytes[at];
        for (unsigned change = 1; change < 256; change++) {
            bytes[at] = (unsigned char)(good + change);
            decode(codec, bytes, size);
        }
        bytes[at] = good;
    }
}

static int set_up(void **state)
{
    (void)state;
    allocator_install();
    arena = evzmq_arena_new();
    return arena == NULL ? -1 : 0;
}

/* An arena rounds up to 4 KiB, and keeps one chunk that holds what several did before. */
static int tear_down(void **state)
{
    (void)state;
    const size_t peak = allocator_get_counts().bytes_peak;
    evzmq_arena_free(arena);
    allocator_remove();
    return peak <= 4 * MEMORY_MAX ? 0 : -1;
}

static void on_every_vector(const char *file,
                            void (*damage)(const struct evzmq_codec *, struct vector *))
{
    struct vectors vectors = vectors_load(file);
    for (size_t i = 0; i < vectors.count; i++) {
        for (int skip_utf8 = 0; skip_utf8 < 2; skip_utf8++) {
            struct evzmq_codec *const codec =
                codec_of(record_schema_find(vectors.items[i].type), skip_utf8);
            damage(codec, &vectors.items[i]);
            evzmq_codec_free(codec);
        }
    }
    vectors_free(&vectors);
}

static void cut_vector(const struct evzmq_codec *codec, struct vector *vector)
{
    decode_every_prefix(codec, vector->bytes, vector->size);
}

static void change_vector(const struct evzmq_codec *codec, struct vector *vector)
{
    decode_every_change(codec, vector->bytes, vector->size);
}

static void every_prefix_of_every_vector_decodes_or_fails_cleanly(void **state)
{
    (void)state;
    on_every_vector("vectors.tsv", cut_vector);
    on_every_vector("accept.tsv", cut_vector);
    on_every_vector("invalid.tsv", cut_vector);
}

static void every_vector_with_one_byte_changed_decodes_or_fails_cleanly(void **state)
{
    (void)state;
    on_every_vector("vectors.tsv", change_vector);
    on_every_vector("accept.tsv", change_vector);
    on_every_vector("invalid.tsv", change_vector);
}

static void damage_generated(const struct evzmq_schema *schema, int skip_utf8)
{
    struct random random = {7};
    struct evzmq_codec *const codec = codec_of(schema, skip_utf8);
    struct evzmq_arena *const source = evzmq_arena_new();
    assert_non_null(source);
    for (unsigned round = 0; round < 5; round++) {
        size_t size = 0;
        const struct all_kinds *const record = all_kinds_generate(&random, source);
        assert_int_equal(evzmq_codec_encoded_size(codec, record, &size), 0);
        unsigned char *const bytes = malloc(size);
        assert_non_null(bytes);
        assert_int_equal(evzmq_codec_encode(codec, record, bytes, size), 0);
        decode_every_prefix(codec, bytes, size);
        decode_every_change(codec, bytes, size);
        free(bytes);
        evzmq_arena_reset(source);
    }
    evzmq_arena_free(source);
    evzmq_codec_free(codec);
}

static void damaged_arrays_of_every_kind_decode_or_fail_cleanly(void **state)
{
    (void)state;
    damage_generated(&all_kinds_array_schema, 0);
    damage_generated(&all_kinds_array_schema, 1);
}

static void damaged_maps_of_every_kind_decode_or_fail_cleanly(void **state)
{
    (void)state;
    damage_generated(&all_kinds_map_schema, 0);
    damage_generated(&all_kinds_map_schema, 1);
}

struct mapped {
    struct evzmq_any map;
};

static const struct evzmq_field map_fields[] = {EVZMQ_FIELD(MAP, struct mapped, map, 0)};
static const struct evzmq_field str_map_fields[] = {EVZMQ_FIELD(STR_MAP, struct mapped, map, 0)};
static const struct evzmq_schema map_schema = EVZMQ_SCHEMA(struct mapped, ARRAY, NULL, map_fields);
static const struct evzmq_schema str_map_schema =
    EVZMQ_SCHEMA(struct mapped, ARRAY, NULL, str_map_fields);

/* The heads of small maps are 0x80 and their count; what follows them is something else, whatever
 * comes behind it. */
static void no_other_head_before_pairs_makes_a_map(void **state)
{
    (void)state;
    const struct evzmq_schema *const schemas[] = {&map_schema, &str_map_schema};
    for (size_t i = 0; i < 4; i++) {
        struct evzmq_codec *const codec = codec_of(schemas[i / 2], i % 2 != 0);
        for (unsigned head = 0x81; head <= 0xff; head++) {
            const size_t pairs = head - 0x80;
            const void *value = NULL;
            struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
            buffer[0] = 0x91;
            buffer[1] = (unsigned char)head;
            for (size_t pair = 0; pair < pairs; pair++) {
                memcpy(buffer + 2 + 4 * pair, "\xa1k\xa1v", 4);
            }
            const int expected = head < 0x90 ? 0 : -1;
            assert_int_equal(
                evzmq_codec_decode(codec, buffer, 2 + 4 * pairs, arena, &value, &error), expected);
            assert_int_equal(error.offset > 0, expected != 0);
            evzmq_arena_reset(arena);
        }
        evzmq_codec_free(codec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_prefix_of_every_vector_decodes_or_fails_cleanly,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_vector_with_one_byte_changed_decodes_or_fails_cleanly,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_arrays_of_every_kind_decode_or_fail_cleanly, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(damaged_maps_of_every_kind_decode_or_fail_cleanly, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_other_head_before_pairs_makes_a_map, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
