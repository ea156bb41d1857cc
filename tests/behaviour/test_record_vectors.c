/*
 * test_record_vectors.c: the wire vectors of the original system, one by one, against the codecs of
 * records.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <evzmq/evzmq.h>
#include <evzmq/msgpack.h>

#include "record_fields.h"
#include "schema_codec.h"
#include "vectors.h"

/*
 * What is wrong with each of invalid.tsv and where: the first byte of the value at fault, or of the
 * sequence that is not UTF-8, or the first byte too many, or the end where a value is missing. A
 * container that declares more elements than there are bytes is at fault itself.
 */
static const struct {
    const char *type;
    const char *name;
    enum evzmq_decode_kind kind;
    size_t offset;
} faults[] = {
    {"Query", "empty_input", EVZMQ_DECODE_TRUNCATED, 0},
    {"Query", "nil", EVZMQ_DECODE_TYPE, 0},
    {"Query", "map_instead_of_array", EVZMQ_DECODE_TYPE, 0},
    {"Query", "int_instead_of_array", EVZMQ_DECODE_TYPE, 0},
    {"Query", "bool_instead_of_array", EVZMQ_DECODE_TYPE, 0},
    {"Query", "float_instead_of_array", EVZMQ_DECODE_TYPE, 0},
    {"Query", "ext_instead_of_array", EVZMQ_DECODE_TYPE, 0},
    {"Query", "reserved_opcode_c1", EVZMQ_DECODE_MALFORMED, 0},
    {"Query", "reserved_opcode_c1_inside", EVZMQ_DECODE_MALFORMED, 4},
    {"Query", "trailing_second_message", EVZMQ_DECODE_TRAILING, 19},
    {"StreamChunk", "trailing_byte", EVZMQ_DECODE_TRAILING, 20},
    {"Query", "truncated_header_only", EVZMQ_DECODE_TRUNCATED, 0},
    {"Query", "truncated_array32_size", EVZMQ_DECODE_TRUNCATED, 0},
    {"Query", "truncated_in_fixstr", EVZMQ_DECODE_TRUNCATED, 1},
    {"Query", "truncated_str8_no_len", EVZMQ_DECODE_TRUNCATED, 0},
    {"Query", "truncated_str32_len", EVZMQ_DECODE_TRUNCATED, 1},
    {"Query", "truncated_str8_body", EVZMQ_DECODE_TRUNCATED, 1},
    {"Query", "truncated_after_id", EVZMQ_DECODE_TRUNCATED, 0},
    {"Query", "truncated_map_value_missing", EVZMQ_DECODE_TRUNCATED, 7},
    {"Query", "truncated_float64", EVZMQ_DECODE_TRUNCATED, 10},
    {"Query", "truncated_last_byte", EVZMQ_DECODE_TRUNCATED, 10},
    {"StreamChunk", "truncated_last_byte", EVZMQ_DECODE_TRUNCATED, 19},
    {"Query", "huge_str32_len", EVZMQ_DECODE_TRUNCATED, 1},
    {"Query", "huge_map32_len", EVZMQ_DECODE_TRUNCATED, 4},
    {"Query", "huge_outer_array32", EVZMQ_DECODE_TRUNCATED, 0},
    {"Query", "huge_bin32_len", EVZMQ_DECODE_TRUNCATED, 7},
    {"Query", "truncated_ext", EVZMQ_DECODE_TRUNCATED, 7},
    {"Query", "id_int", EVZMQ_DECODE_TYPE, 1},
    {"Query", "id_nil", EVZMQ_DECODE_TYPE, 1},
    {"Query", "id_bin", EVZMQ_DECODE_TYPE, 1},
    {"Query", "data_array", EVZMQ_DECODE_TYPE, 4},
    {"Query", "data_str", EVZMQ_DECODE_TYPE, 4},
    {"Query", "data_int_key", EVZMQ_DECODE_TYPE, 5},
    {"Query", "data_nested_map_with_map_key", EVZMQ_DECODE_TYPE, 8},
    {"Query", "headers_value_int", EVZMQ_DECODE_TYPE, 12},
    {"Query", "headers_value_nil", EVZMQ_DECODE_TYPE, 12},
    {"Query", "headers_nil", EVZMQ_DECODE_TYPE, 9},
    {"Query", "created_at_str", EVZMQ_DECODE_TYPE, 10},
    {"Query", "created_at_nil", EVZMQ_DECODE_TYPE, 10},
    {"Query", "created_at_timestamp_ext", EVZMQ_DECODE_TYPE, 10},
    {"Query", "tagged_message_as_query", EVZMQ_DECODE_TYPE, 14},
    {"Query", "utf8_id_ff", EVZMQ_DECODE_UTF8, 2},
    {"Query", "utf8_id_overlong", EVZMQ_DECODE_UTF8, 2},
    {"Query", "utf8_id_surrogate", EVZMQ_DECODE_UTF8, 2},
    {"Query", "utf8_id_above_10ffff", EVZMQ_DECODE_UTF8, 2},
    {"Query", "utf8_data_value", EVZMQ_DECODE_UTF8, 8},
    {"Query", "utf8_data_key", EVZMQ_DECODE_UTF8, 6},
    {"Query", "utf8_data_key_long", EVZMQ_DECODE_UTF8, 46},
    {"StreamChunk", "utf8_chunk", EVZMQ_DECODE_UTF8, 18},
    {"StreamChunk", "utf8_tag", EVZMQ_DECODE_UTF8, 13},
    {"QueryResult", "utf8_output", EVZMQ_DECODE_UTF8, 35},
    {"StreamChunk", "empty_array", EVZMQ_DECODE_LENGTH, 0},
    {"QueryResult", "empty_array", EVZMQ_DECODE_LENGTH, 0},
    {"StreamChunk", "tag_wrong", EVZMQ_DECODE_VALUE, 1},
    {"StreamChunk", "tag_case", EVZMQ_DECODE_VALUE, 1},
    {"StreamChunk", "tag_empty", EVZMQ_DECODE_VALUE, 1},
    {"StreamChunk", "tag_int", EVZMQ_DECODE_TYPE, 1},
    {"StreamChunk", "tag_bin", EVZMQ_DECODE_TYPE, 1},
    {"StreamChunk", "tag_prefix", EVZMQ_DECODE_VALUE, 1},
    {"StreamChunk", "map_form", EVZMQ_DECODE_TYPE, 0},
    {"QueryResult|StreamChunk", "union_unknown_tag", EVZMQ_DECODE_VALUE, 1},
    {"QueryResult|StreamChunk", "union_query_bytes", EVZMQ_DECODE_VALUE, 1},
    {"QueryResult|StreamChunk", "union_tag_int", EVZMQ_DECODE_TYPE, 1},
    {"QueryResult|StreamChunk", "union_map", EVZMQ_DECODE_TYPE, 0},
    {"QueryResult|StreamChunk", "union_nested_struct_tag", EVZMQ_DECODE_VALUE, 1},
    {"StreamChunk", "id_int", EVZMQ_DECODE_TYPE, 14},
    {"StreamChunk", "chunk_bin", EVZMQ_DECODE_TYPE, 17},
    {"StreamChunk", "metadata_nil", EVZMQ_DECODE_TYPE, 19},
    {"StreamChunk", "metadata_array", EVZMQ_DECODE_TYPE, 19},
    {"StreamChunk", "extra_trailing_truncated", EVZMQ_DECODE_TRUNCATED, 20},
    {"StreamChunk", "extra_trailing_bad_opcode", EVZMQ_DECODE_MALFORMED, 20},
    {"StreamChunk", "old_5_element_layout", EVZMQ_DECODE_TYPE, 19},
    {"QueryResult", "output_untagged_array", EVZMQ_DECODE_VALUE, 18},
    {"QueryResult", "output_empty_array", EVZMQ_DECODE_LENGTH, 17},
    {"QueryResult", "output_int", EVZMQ_DECODE_TYPE, 34},
    {"QueryResult", "output_tuple_elem_int", EVZMQ_DECODE_TYPE, 37},
    {"QueryResult", "reasoning_int", EVZMQ_DECODE_TYPE, 36},
    {"QueryResult", "tool_calls_map", EVZMQ_DECODE_TYPE, 37},
    {"QueryResult", "metadata_nil", EVZMQ_DECODE_TYPE, 18},
    {"QueryResult", "error_str", EVZMQ_DECODE_TYPE, 19},
    {"QueryResult", "error_tag_only", EVZMQ_DECODE_LENGTH, 19},
    {"QueryResult", "error_type_nil", EVZMQ_DECODE_TYPE, 30},
    {"QueryResult", "completed_at_str", EVZMQ_DECODE_TYPE, 20},
    {"QueryResult", "completed_at_nil", EVZMQ_DECODE_TYPE, 20},
    {"QueryResult", "bad_timestamp_ext_in_metadata", EVZMQ_DECODE_MALFORMED, 21},
    {"ReadySignal", "str", EVZMQ_DECODE_TYPE, 0},
    {"ReadySignal", "float", EVZMQ_DECODE_TYPE, 0},
    {"ReadySignal", "empty", EVZMQ_DECODE_TRUNCATED, 0},
    {"ReadySignal", "trailing", EVZMQ_DECODE_TRAILING, 1},
};

static void assert_encodes_to(const struct evzmq_codec *codec, const void *value,
                              const unsigned char *bytes, size_t size)
{
    size_t encoded_size = 0;
    assert_int_equal(evzmq_codec_encoded_size(codec, value, &encoded_size), 0);
    assert_int_equal(encoded_size, size);
    unsigned char *const encoded = malloc(size);
    assert_non_null(encoded);
    assert_int_equal(evzmq_codec_encode(codec, value, encoded, size), 0);
    assert_memory_equal(encoded, bytes, size);
    free(encoded);
}

/* Decodes a vector with a schema and compares the fields, which the JSON in `rest` states. */
static void check_decoded(const struct vector *vector, const struct evzmq_schema *schema,
                          int skip_utf8, int is_canonical)
{
    char *const text = strdup(vector->rest);
    assert_non_null(text);
    text[strcspn(text, "\t")] = '\0';
    struct json *const expected = json_read(text);
    struct evzmq_codec *const codec = codec_of(schema, skip_utf8);
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    const void *value = NULL;
    if (evzmq_codec_decode(codec, vector->bytes, vector->size, arena, &value, &error) != 0) {
        fail_msg("%s %s: %s at %zu", vector->type, vector->name, evzmq_decode_kind_name(error.kind),
                 error.offset);
    }
    record_fields_check(schema, value, expected);
    if (is_canonical) {
        assert_encodes_to(codec, value, vector->bytes, vector->size);
    }
    evzmq_arena_reset(arena);
    evzmq_codec_free(codec);
    json_free(expected);
    free(text);
}

static void every_canonical_vector_decodes_to_its_fields_and_encodes_to_its_bytes(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("vectors.tsv");
    assert_int_equal(vectors.count, 100);
    for (size_t i = 0; i < vectors.count; i++) {
        const struct evzmq_schema *const schema = record_schema_find(vectors.items[i].type);
        check_decoded(&vectors.items[i], schema, 0, 1);
        check_decoded(&vectors.items[i], schema, 1, 1);
    }
    vectors_free(&vectors);
}

static void every_accepted_vector_decodes_to_its_fields(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("accept.tsv");
    assert_int_equal(vectors.count, 34);
    for (size_t i = 0; i < vectors.count; i++) {
        const struct evzmq_schema *const schema = record_schema_find(vectors.items[i].type);
        check_decoded(&vectors.items[i], schema, 0, 0);
        check_decoded(&vectors.items[i], schema, 1, 0);
    }
    vectors_free(&vectors);
}

static size_t find_fault(const struct vector *vector)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (strcmp(faults[i].type, vector->type) == 0 &&
            strcmp(faults[i].name, vector->name) == 0) {
            return i;
        }
    }
    fail_msg("the table has no line for %s %s", vector->type, vector->name);
    return 0;
}

static void every_invalid_vector_is_rejected_with_its_kind_and_offset(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("invalid.tsv");
    assert_int_equal(vectors.count, sizeof(faults) / sizeof(faults[0]));
    for (size_t i = 0; i < vectors.count; i++) {
        const struct vector *const vector = &vectors.items[i];
        const size_t at = find_fault(vector);
        struct evzmq_codec *const codec = codec_of(record_schema_find(vector->type), 0);
        struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
        const void *value = NULL;
        errno = 0;
        assert_int_equal(
            evzmq_codec_decode(codec, vector->bytes, vector->size, arena, &value, &error), -1);
        assert_int_equal(errno, EBADMSG);
        if (error.kind != faults[at].kind || error.offset != faults[at].offset) {
            fail_msg("%s %s: %s at %zu, not %s at %zu", vector->type, vector->name,
                     evzmq_decode_kind_name(error.kind), error.offset,
                     evzmq_decode_kind_name(faults[at].kind), faults[at].offset);
        }
        assert_null(value);
        evzmq_arena_reset(arena);
        evzmq_codec_free(codec);
    }
    vectors_free(&vectors);
}

static void without_utf8_checks_only_utf8_faults_are_accepted(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("invalid.tsv");
    for (size_t i = 0; i < vectors.count; i++) {
        const struct vector *const vector = &vectors.items[i];
        const size_t at = find_fault(vector);
        struct evzmq_codec *const codec = codec_of(record_schema_find(vector->type), 1);
        const void *value = NULL;
        struct evzmq_decode_error error;
        const int result =
            evzmq_codec_decode(codec, vector->bytes, vector->size, arena, &value, &error);
        if (strcmp(vector->name, "utf8_tag") == 0) {
            /* A tag that is not UTF-8 is no record's tag either. */
            assert_int_equal(result, -1);
            assert_int_equal(error.kind, EVZMQ_DECODE_VALUE);
        } else {
            assert_int_equal(result, faults[at].kind == EVZMQ_DECODE_UTF8 ? 0 : -1);
        }
        evzmq_arena_reset(arena);
        evzmq_codec_free(codec);
    }
    vectors_free(&vectors);
}

static void the_union_tells_which_record_it_is(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("vectors.tsv");
    for (size_t i = 0; i < vectors.count; i++) {
        const struct evzmq_schema *const schema = record_schema_find(vectors.items[i].type);
        if (schema != &evzmq_record_query_result_schema &&
            schema != &evzmq_record_stream_chunk_schema) {
            continue;
        }
        check_decoded(&vectors.items[i], &evzmq_record_response_schema, 0, 1);
        struct evzmq_codec *const codec = codec_of(&evzmq_record_response_schema, 0);
        const void *value = NULL;
        assert_int_equal(evzmq_codec_decode(codec, vectors.items[i].bytes, vectors.items[i].size,
                                            arena, &value, NULL),
                         0);
        assert_ptr_equal(((const struct evzmq_union *)value)->which, schema);
        evzmq_arena_reset(arena);
        evzmq_codec_free(codec);
    }
    vectors_free(&vectors);
}

static void completed_at_is_kept_as_it_is_on_the_wire(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("accept.tsv");
    struct evzmq_codec *const codec = codec_of(&evzmq_record_query_result_schema, 0);
    size_t seen = 0;
    for (size_t i = 0; i < vectors.count; i++) {
        const struct vector *const vector = &vectors.items[i];
        const void *value = NULL;
        if (strncmp(vector->name, "completed_at", 12) != 0) {
            continue;
        }
        assert_int_equal(
            evzmq_codec_decode(codec, vector->bytes, vector->size, arena, &value, NULL), 0);
        const struct evzmq_record_query_result *const result = value;
        const int is_negative = strcmp(vector->name, "completed_at_negative") == 0;
        assert_int_equal(result->completed_at.is_negative, is_negative);
        assert_int_equal(result->completed_at.bits, is_negative ? (uint64_t)-7 : UINT64_MAX);
        assert_int_equal(result->absent, 0);
        assert_encodes_to(codec, value, vector->bytes, vector->size);
        seen++;
    }
    assert_int_equal(seen, 2);
    evzmq_codec_free(codec);
    vectors_free(&vectors);
}

static void absent_fields_stay_absent_when_encoded_again(void **state)
{
    (void)state;
    static const char *const short_ones[] = {"empty_array_all_defaults",
                                             "one_element",
                                             "two_elements",
                                             "tag_only",
                                             "short_output",
                                             "output_tag_only",
                                             "union_result_tag_only"};
    struct vectors vectors = vectors_load("accept.tsv");
    size_t seen = 0;
    for (size_t i = 0; i < vectors.count; i++) {
        const struct vector *const vector = &vectors.items[i];
        for (size_t j = 0; j < sizeof(short_ones) / sizeof(short_ones[0]); j++) {
            if (strcmp(vector->name, short_ones[j]) == 0) {
                check_decoded(vector, record_schema_find(vector->type), 0, 1);
                seen++;
            }
        }
    }
    /* tag_only stands there for two types. */
    assert_int_equal(seen, sizeof(short_ones) / sizeof(short_ones[0]) + 1);
    vectors_free(&vectors);
}

static void spans_decode_as_trees_too(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("vectors.tsv");
    struct evzmq_codec *const codec = codec_of(&evzmq_record_stream_chunk_schema, 0);
    struct evzmq_codec *const tree = evzmq_msgpack_codec_new(NULL);
    assert_non_null(tree);
    for (size_t i = 0; i < vectors.count; i++) {
        const void *value = NULL;
        const void *object = NULL;
        if (record_schema_find(vectors.items[i].type) != &evzmq_record_stream_chunk_schema) {
            continue;
        }
        assert_int_equal(evzmq_codec_decode(codec, vectors.items[i].bytes, vectors.items[i].size,
                                            arena, &value, NULL),
                         0);
        const struct evzmq_any metadata =
            ((const struct evzmq_record_stream_chunk *)value)->metadata;
        assert_int_equal(
            evzmq_codec_decode(tree, metadata.data, metadata.size, arena, &object, NULL), 0);
        assert_int_equal(((const msgpack_object *)object)->type, MSGPACK_OBJECT_MAP);
        assert_encodes_to(tree, object, metadata.data, metadata.size);
        evzmq_arena_reset(arena);
    }
    evzmq_codec_free(tree);
    evzmq_codec_free(codec);
    vectors_free(&vectors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_canonical_vector_decodes_to_its_fields_and_encodes_to_its_bytes),
        cmocka_unit_test(every_accepted_vector_decodes_to_its_fields),
        cmocka_unit_test(every_invalid_vector_is_rejected_with_its_kind_and_offset),
        cmocka_unit_test(without_utf8_checks_only_utf8_faults_are_accepted),
        cmocka_unit_test(the_union_tells_which_record_it_is),
        cmocka_unit_test(completed_at_is_kept_as_it_is_on_the_wire),
        cmocka_unit_test(absent_fields_stay_absent_when_encoded_again),
        cmocka_unit_test(spans_decode_as_trees_too),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
