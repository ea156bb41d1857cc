/*
 * test_schema.c: what typed records mean: kinds, nil and absent, layouts, limits, what cannot be
 * encoded, and that none of it allocates.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <evzmq/evzmq.h>

#include "all_kinds.h"
#include "allocator.h"

static struct evzmq_arena *arena;
static struct evzmq_arena *source;

static int set_up(void **state)
{
    (void)state;
    arena = evzmq_arena_new();
    source = evzmq_arena_new();
    return arena == NULL || source == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    evzmq_arena_free(arena);
    evzmq_arena_free(source);
    return 0;
}

static struct evzmq_codec *codec_of(const struct evzmq_schema *schema, size_t depth_max,
                                    size_t memory_max)
{
    const struct evzmq_schema_options options = {sizeof(options), depth_max, memory_max, 0};
    struct evzmq_codec *const codec = evzmq_schema_codec_new(schema, &options);
    assert_non_null(codec);
    return codec;
}

static const void *decode(const struct evzmq_codec *codec, const void *bytes, size_t size)
{
    const void *value = NULL;
    struct evzmq_decode_error error;
    if (evzmq_codec_decode(codec, bytes, size, arena, &value, &error) != 0) {
        fail_msg("%s at %zu", evzmq_decode_kind_name(error.kind), error.offset);
    }
    return value;
}

static void assert_refused(const struct evzmq_codec *codec, const void *bytes, size_t size,
                           enum evzmq_decode_kind kind, size_t offset)
{
    const void *value = NULL;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    assert_int_equal(evzmq_codec_decode(codec, bytes, size, arena, &value, &error), -1);
    assert_int_equal(errno, EBADMSG);
    assert_string_equal(evzmq_decode_kind_name(error.kind), evzmq_decode_kind_name(kind));
    assert_int_equal(error.offset, offset);
}

/* The bytes of a value, in the source arena. */
static struct evzmq_bytes encode(const struct evzmq_codec *codec, const void *value)
{
    struct evzmq_bytes bytes = {NULL, 0};
    assert_int_equal(evzmq_codec_encoded_size(codec, value, &bytes.size), 0);
    void *const buffer = evzmq_arena_alloc(source, bytes.size);
    assert_non_null(buffer);
    assert_int_equal(evzmq_codec_encode(codec, value, buffer, bytes.size), 0);
    bytes.data = buffer;
    return bytes;
}

static void assert_not_encodable(const struct evzmq_codec *codec, const void *value, int error)
{
    size_t size = 0;
    errno = 0;
    assert_int_equal(evzmq_codec_encoded_size(codec, value, &size), -1);
    assert_int_equal(errno, error);
}

#define DECODE(codec, bytes) decode(codec, bytes, sizeof(bytes) - 1)
#define ASSERT_REFUSED(codec, bytes, kind, offset)                                                 \
    assert_refused(codec, bytes, sizeof(bytes) - 1, EVZMQ_DECODE_##kind, offset)

/* Half of them as arrays, half as maps; some with absent fields at the end. */
static void a_hundred_thousand_generated_records_survive_the_round_trip(void **state)
{
    (void)state;
    struct random random = {2026};
    struct evzmq_codec *const codecs[] = {codec_of(&all_kinds_array_schema, 0, 0),
                                          codec_of(&all_kinds_map_schema, 0, 0)};
    for (unsigned i = 0; i < 100000; i++) {
        struct evzmq_codec *const codec = codecs[i % 2];
        struct all_kinds *const record = all_kinds_generate(&random, source);
        if (i % 8 == 0) {
            /* The last field, a choice that may be nil. */
            record->absent = UINT64_C(1) << 34;
            memset(&record->nilable_choice, 0, sizeof(record->nilable_choice));
        }
        const struct evzmq_bytes bytes = encode(codec, record);
        const struct all_kinds *const again = decode(codec, bytes.data, bytes.size);
        assert_true(all_kinds_equal(record, again));
        const struct evzmq_bytes twice = encode(codec, again);
        assert_int_equal(twice.size, bytes.size);
        assert_memory_equal(twice.data, bytes.data, bytes.size);
        evzmq_arena_reset(arena);
        evzmq_arena_reset(source);
    }
    evzmq_codec_free(codecs[0]);
    evzmq_codec_free(codecs[1]);
}

struct numbers {
    int8_t int8;
    uint8_t uint8;
    int64_t int64;
    uint64_t uint64;
    float float32;
};
static const struct evzmq_field number_fields[] = {
    EVZMQ_FIELD(INT8, struct numbers, int8, 0),
    EVZMQ_FIELD(UINT8, struct numbers, uint8, 0),
    EVZMQ_FIELD(INT64, struct numbers, int64, 0),
    EVZMQ_FIELD(UINT64, struct numbers, uint64, 0),
    EVZMQ_FIELD(FLOAT32, struct numbers, float32, 0),
};
static const struct evzmq_schema numbers_schema =
    EVZMQ_SCHEMA(struct numbers, ARRAY, NULL, number_fields);

static void an_integer_out_of_range_is_a_value_fault(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = codec_of(&numbers_schema, 0, 0);
    const struct numbers *const numbers =
        DECODE(codec, "\x95\xd3\xff\xff\xff\xff\xff\xff\xff\x80\xcd\x00\xff\xcf\x7f\xff\xff\xff\xff"
                      "\xff\xff\xff\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xcb\x7f\xef\xff\xff\xff"
                      "\xff\xff\xff");
    assert_int_equal(numbers->int8, INT8_MIN);
    assert_int_equal(numbers->uint8, UINT8_MAX);
    assert_int_equal(numbers->int64, INT64_MAX);
    assert_int_equal(numbers->uint64, UINT64_MAX);
    assert_true(isinf(numbers->float32));
    ASSERT_REFUSED(codec, "\x91\xcc\x80", VALUE, 1);
    ASSERT_REFUSED(codec, "\x91\xd1\xff\x7f", VALUE, 1);
    ASSERT_REFUSED(codec, "\x92\x01\xff", VALUE, 2);
    ASSERT_REFUSED(codec, "\x92\x01\xcd\x01\x00", VALUE, 2);
    ASSERT_REFUSED(codec, "\x93\x01\x01\xcf\x80\0\0\0\0\0\0\0", VALUE, 3);
    ASSERT_REFUSED(codec, "\x94\x01\x01\x01\xff", VALUE, 4);
    ASSERT_REFUSED(codec, "\x91\xca\x3f\x80\0\0", TYPE, 1);
    ASSERT_REFUSED(codec, "\x91\xc2", TYPE, 1);
    evzmq_codec_free(codec);
}

static void absent_fields_have_their_defaults_and_are_told(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = codec_of(&all_kinds_map_schema, 0, 0);
    /* Only what is required: int64, point and shape, in another order, and a stranger. */
    const struct all_kinds *const record =
        DECODE(codec, "\x84\xa5shape\x92\xa6square\x05\xa5point\x91\x03\xa8stranger\x91\xa1\xff"
                      "\xa5int64\x02");
    assert_int_equal(record->int64, 2);
    assert_int_equal(record->point->x, 3);
    assert_true(record->point->y == 0);
    assert_ptr_equal(record->shape.which, &square_schema);
    assert_int_equal(((const struct square *)record->shape.record)->side, 5);
    assert_int_equal(record->int32, -7);
    assert_int_equal(record->choice.kind, EVZMQ_CHOICE_STR);
    assert_memory_equal(record->choice.as.str.data, "none", 4);
    assert_non_null(record->str.data);
    assert_int_equal(record->str.size, 0);
    assert_memory_equal(record->any.data, "\xc0", record->any.size);
    assert_memory_equal(record->map.data, "\x80", record->map.size);
    assert_memory_equal(record->map_list.data, "\x90", record->map_list.size);
    assert_non_null(record->points.items);
    assert_int_equal(record->points.count, 0);
    assert_null(record->nilable_bool);
    assert_null(record->nilable_str.data);
    assert_null(record->nilable_reals.items);
    assert_null(record->nilable_shape.record);
    assert_int_equal(record->nilable_choice.kind, EVZMQ_CHOICE_NIL);
    assert_int_equal(record->not_on_the_wire, 0);
    const uint64_t present = UINT64_C(1) << 4 | UINT64_C(1) << 25 | UINT64_C(1) << 31;
    assert_int_equal(record->absent, ((UINT64_C(1) << 35) - 1) & ~present);
    evzmq_codec_free(codec);
}

static void a_missing_required_field_is_a_length_fault(void **state)
{
    (void)state;
    struct evzmq_codec *const map = codec_of(&all_kinds_map_schema, 0, 0);
    struct evzmq_codec *const array = codec_of(&point_schema, 0, 0);
    ASSERT_REFUSED(map, "\x80", LENGTH, 0);
    ASSERT_REFUSED(map, "\x81\xa5int64\x01", LENGTH, 0);
    ASSERT_REFUSED(array, "\x90", LENGTH, 0);
    ASSERT_REFUSED(map, "\x81\x05\x01", TYPE, 1);
    evzmq_codec_free(map);
    evzmq_codec_free(array);
}

struct pair {
    struct evzmq_str key;
    const int32_t *value;
};
static const struct evzmq_field pair_fields[] = {
    EVZMQ_FIELD(STR, struct pair, key, 0),
    EVZMQ_FIELD_NILABLE(INT32, struct pair, value, 0),
};
static const struct evzmq_schema pair_schema = EVZMQ_SCHEMA(struct pair, MAP, NULL, pair_fields);

static void of_a_key_that_occurs_twice_the_last_value_counts(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = codec_of(&pair_schema, 0, 0);
    const struct pair *pair = DECODE(codec, "\x83\xa5value\x01\xa3key\xa1k\xa5value\x02");
    assert_int_equal(*pair->value, 2);
    pair = DECODE(codec, "\x82\xa5value\x01\xa5value\xc0");
    assert_null(pair->value);
    evzmq_codec_free(codec);
}

static void a_map_is_written_with_the_names_of_its_fields(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = codec_of(&pair_schema, 0, 0);
    const int32_t value = -200;
    const struct pair pair = {EVZMQ_STR("k"), &value};
    const struct evzmq_bytes bytes = encode(codec, &pair);
    assert_int_equal(bytes.size, 16);
    assert_memory_equal(bytes.data, "\x82\xa3key\xa1k\xa5value\xd1\xff\x38", 16);
    const struct pair fresh = {{NULL, 0}, NULL};
    const struct evzmq_bytes zero = encode(codec, &fresh);
    assert_int_equal(zero.size, 13);
    assert_memory_equal(zero.data, "\x82\xa3key\xa0\xa5value\xc0", 13);
    evzmq_codec_free(codec);
}

static void a_fresh_struct_is_written_in_full(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = codec_of(&evzmq_record_query_result_schema, 0, 0);
    const struct evzmq_record_query_result fresh = {.id = EVZMQ_STR("")};
    struct evzmq_bytes bytes = encode(codec, &fresh);
    assert_int_equal(bytes.size, 19);
    assert_memory_equal(bytes.data, "\x96\xacquery_result\xa0\xc0\x80\xc0\x00", 19);
    evzmq_codec_free(codec);

    struct evzmq_codec *const output = codec_of(&evzmq_record_text_model_output_schema, 0, 0);
    const struct evzmq_record_text_model_output empty = {.absent = 0};
    bytes = encode(output, &empty);
    assert_memory_equal(bytes.data, "\x94\xafTextModelOutput\xa0\xc0\xc0", bytes.size);
    evzmq_codec_free(output);
}

/* A StreamChunk whose metadata is {"k": [[...]]} with so many arrays inside one another. */
static size_t put_nested(unsigned char *bytes, size_t arrays)
{
    static const char head[] = "\x94\xacstream_chunk\xa0\xa0\x81\xa1k";
    memcpy(bytes, head, sizeof(head) - 1);
    memset(bytes + sizeof(head) - 1, 0x91, arrays);
    bytes[sizeof(head) - 1 + arrays - 1] = 0x90;
    return sizeof(head) - 1 + arrays;
}

static void nesting_is_allowed_up_to_the_limit_and_not_beyond(void **state)
{
    (void)state;
    static unsigned char bytes[100000];
    struct evzmq_codec *const codec = codec_of(&evzmq_record_stream_chunk_schema, 0, 0);
    struct evzmq_codec *const shallow = codec_of(&evzmq_record_stream_chunk_schema, 3, 0);
    size_t size = put_nested(bytes, EVZMQ_SCHEMA_DEPTH_DEFAULT - 1);
    (void)decode(codec, bytes, size);
    size = put_nested(bytes, EVZMQ_SCHEMA_DEPTH_DEFAULT);
    assert_refused(codec, bytes, size, EVZMQ_DECODE_DEPTH, size - 1);
    size = put_nested(bytes, sizeof(bytes) - 100);
    assert_refused(codec, bytes, size, EVZMQ_DECODE_DEPTH, 19 + EVZMQ_SCHEMA_DEPTH_DEFAULT - 1);
    size = put_nested(bytes, 2);
    (void)decode(shallow, bytes, size);
    size = put_nested(bytes, 3);
    assert_refused(shallow, bytes, size, EVZMQ_DECODE_DEPTH, size - 1);
    /* What is skipped is limited too: a fifth element. */
    size = put_nested(bytes, 1);
    bytes[0] = 0x95;
    memset(bytes + size, 0x91, 600);
    bytes[size + 600] = 0x90;
    assert_refused(codec, bytes, size + 601, EVZMQ_DECODE_DEPTH, size + EVZMQ_SCHEMA_DEPTH_DEFAULT);
    evzmq_codec_free(shallow);
    evzmq_codec_free(codec);
}

static void keys_must_not_be_maps_at_any_depth(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = codec_of(&evzmq_record_stream_chunk_schema, 0, 0);
#define CHUNK "\x94\xacstream_chunk\xa0\xa0"
    (void)DECODE(codec, CHUNK "\x81\xa1k\x81\x92\x01\x91\x02\x81\x03\x04");
    ASSERT_REFUSED(codec, CHUNK "\x81\xa1k\x81\x92\x01\x80\x02", TYPE, 22);
    ASSERT_REFUSED(codec, CHUNK "\x81\xa1k\x81\x91\x91\x81\x01\x02\x03", TYPE, 22);
    ASSERT_REFUSED(codec, CHUNK "\x81\xa1k\x82\x01\x80\x80\x02", TYPE, 22);
    ASSERT_REFUSED(codec, CHUNK "\x81\xa1k\x91\xd6\xff\0\0\0", TRUNCATED, 20);
    ASSERT_REFUSED(codec, CHUNK "\x81\xa1k\xd5\xff\0\0", MALFORMED, 19);
    ASSERT_REFUSED(codec, CHUNK "\x81\xa1k\xd7\xff\xff\xff\xff\xff\0\0\0\0", MALFORMED, 19);
    ASSERT_REFUSED(codec, CHUNK "\x81\xa1k\x91\x91\xa2\xc3(", UTF8, 22);
    evzmq_codec_free(codec);
}

static void arrays_are_bounded_in_count_and_memory(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = codec_of(&all_kinds_map_schema, 0, 0);
    struct evzmq_codec *const small = codec_of(&all_kinds_map_schema, 0, 2048);
    static const char start[] = "\x84\xa5int64\x01\xa5point\x91\x01\xa5shape\x91\xa6square"
                                "\xa7numbers\xdc\x00\x28";
    const size_t head = sizeof(start) - 1;
    unsigned char bytes[4096] = {0};
    memcpy(bytes, start, head);
    const struct all_kinds *const record = decode(codec, bytes, head + ALL_KINDS_NUMBERS_MAX);
    assert_int_equal(record->numbers.count, ALL_KINDS_NUMBERS_MAX);
    bytes[head - 1] = ALL_KINDS_NUMBERS_MAX + 1;
    assert_refused(codec, bytes, head + ALL_KINDS_NUMBERS_MAX + 1, EVZMQ_DECODE_LENGTH, head - 3);

    /* 1,000 points are 16,000 bytes. */
    memcpy(bytes + head - 11, "\xa6points\xdc\x03\xe8", 10);
    memset(bytes + head - 1, 0x91, 2000);
    for (size_t i = 0; i < 1000; i++) {
        bytes[head + 2 * i] = 1;
    }
    assert_int_equal(
        ((const struct all_kinds *)decode(codec, bytes, head - 1 + 2000))->points.count, 1000);
    assert_refused(small, bytes, head - 1 + 2000, EVZMQ_DECODE_MEMORY, head - 4);
    assert_refused(codec, bytes, head + 500, EVZMQ_DECODE_TRUNCATED, head - 4);
    evzmq_codec_free(small);
    evzmq_codec_free(codec);
}

static void what_no_peer_would_accept_is_not_encoded(void **state)
{
    (void)state;
    struct random random = {1};
    struct evzmq_codec *const codec = codec_of(&all_kinds_array_schema, 0, 0);
    struct all_kinds good = *all_kinds_generate(&random, source);
    struct all_kinds bad = good;
    const struct evzmq_choice list = {EVZMQ_CHOICE_LIST, {.any = {"\x90", 1}}};
    const struct evzmq_any spans[] = {{NULL, 1},       {"", 0},     {"\xa1x", 2},
                                      {"\x80\x80", 2}, {"\x81", 1}, {"\x81\x01\x02", 3}};
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        bad = good;
        bad.map = spans[i];
        assert_not_encodable(codec, &bad, EINVAL);
    }
    bad = good;
    bad.str.data = NULL;
    bad.str.size = 1;
    assert_not_encodable(codec, &bad, EINVAL);
    bad = good;
    bad.str.size = (size_t)UINT32_MAX + 1;
    assert_not_encodable(codec, &bad, EOVERFLOW);
    bad = good;
    bad.nilable_str.data = NULL;
    bad.nilable_str.size = 1;
    assert_not_encodable(codec, &bad, EINVAL);
    bad = good;
    bad.point = NULL;
    assert_not_encodable(codec, &bad, EINVAL);
    bad = good;
    bad.shape.record = NULL;
    assert_not_encodable(codec, &bad, EINVAL);
    bad = good;
    bad.shape.which = &point_schema;
    assert_not_encodable(codec, &bad, EINVAL);
    bad = good;
    bad.numbers.count = ALL_KINDS_NUMBERS_MAX + 1;
    assert_not_encodable(codec, &bad, EINVAL);
    bad = good;
    bad.strs.items = NULL;
    bad.strs.count = 1;
    assert_not_encodable(codec, &bad, EINVAL);
    bad = good;
    bad.nilable_choice = list;
    assert_not_encodable(codec, &bad, EINVAL);
    bad = good;
    bad.choice.kind = (enum evzmq_choice_kind)77;
    assert_not_encodable(codec, &bad, EINVAL);
    bad = good;
    bad.integer.bits = 5;
    bad.integer.is_negative = true;
    assert_not_encodable(codec, &bad, EINVAL);
    evzmq_codec_free(codec);
}

static void a_value_that_grew_since_it_was_measured_is_not_written_past_the_buffer(void **state)
{
    (void)state;
    struct random random = {5};
    struct evzmq_codec *const codec = codec_of(&all_kinds_array_schema, 0, 0);
    const struct all_kinds *const record = all_kinds_generate(&random, source);
    const struct evzmq_bytes bytes = encode(codec, record);
    for (size_t size = 0; size <= bytes.size + 1; size++) {
        unsigned char *const buffer = malloc(size + 1);
        assert_non_null(buffer);
        buffer[size] = 0x5a;
        const int result = evzmq_codec_encode(codec, record, buffer, size);
        assert_int_equal(result, size == bytes.size ? 0 : -1);
        assert_int_equal(buffer[size], 0x5a);
        free(buffer);
    }
    evzmq_codec_free(codec);
}

static void a_buffer_of_no_bytes_holds_no_record(void **state)
{
    (void)state;
    const struct evzmq_record_ready_signal ready = {5};
    const struct evzmq_record_stream_chunk chunk = {.id = EVZMQ_STR("a")};
    const struct evzmq_union response = {&evzmq_record_stream_chunk_schema, &chunk};
    const struct {
        const struct evzmq_schema *schema;
        const void *value;
    } records[] = {
        {&evzmq_record_ready_signal_schema, &ready},
        {&evzmq_record_stream_chunk_schema, &chunk},
        {&evzmq_record_response_schema, &response},
    };
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        struct evzmq_codec *const codec = codec_of(records[i].schema, 0, 0);
        errno = 0;
        assert_int_equal(evzmq_codec_encode(codec, records[i].value, NULL, 0), -1);
        assert_int_equal(errno, EINVAL);
        evzmq_codec_free(codec);
    }
}

static void steady_decoding_and_encoding_allocate_nothing(void **state)
{
    (void)state;
    static unsigned char buffer[8192];
    struct random random = {11};
    allocator_install();
    struct evzmq_codec *const codec = codec_of(&all_kinds_array_schema, 0, 0);
    struct evzmq_arena *const own = evzmq_arena_new();
    struct evzmq_arena *const reused = evzmq_arena_new();
    assert_non_null(own);
    assert_non_null(reused);
    const struct all_kinds *const record = all_kinds_generate(&random, own);
    size_t calls = 0;
    for (unsigned i = 0; i < 1000; i++) {
        const void *value = NULL;
        size_t size = 0;
        assert_int_equal(evzmq_codec_encoded_size(codec, record, &size), 0);
        assert_true(size <= sizeof(buffer));
        assert_int_equal(evzmq_codec_encode(codec, record, buffer, size), 0);
        assert_int_equal(evzmq_codec_decode(codec, buffer, size, reused, &value, NULL), 0);
        evzmq_arena_reset(reused);
        if (i == 9) {
            calls = allocator_get_counts().calls;
        }
    }
    assert_int_equal(allocator_get_counts().calls, calls);
    evzmq_arena_free(own);
    evzmq_arena_free(reused);
    evzmq_codec_free(codec);
    assert_int_equal(allocator_get_counts().blocks, 0);
    allocator_remove();
}

static void an_arena_without_memory_is_no_fault_of_the_message(void **state)
{
    (void)state;
    allocator_install();
    struct evzmq_codec *const codec = codec_of(&evzmq_record_stream_chunk_schema, 0, 0);
    struct evzmq_arena *const empty = evzmq_arena_new();
    const void *value = NULL;
    struct evzmq_decode_error error = {EVZMQ_DECODE_UTF8, 7};
    assert_non_null(empty);
    allocator_fail_at(1);
    assert_int_equal(evzmq_codec_decode(codec, "\x91\xacstream_chunk", 14, empty, &value, &error),
                     -1);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(error.kind, EVZMQ_DECODE_UTF8);
    assert_int_equal(error.offset, 7);
    allocator_fail_at(1);
    assert_int_equal(evzmq_codec_get_methods(codec)->decode(evzmq_codec_get_state(codec),
                                                            "\x91\xacstream_chunk", 14, empty,
                                                            &value, &error),
                     -1);
    assert_int_equal(error.kind, EVZMQ_DECODE_NOMEM);
    assert_null(value);
    assert_int_equal(evzmq_codec_decode(codec, "\x91\xacstream_chunk", 14, empty, &value, NULL), 0);
    evzmq_arena_free(empty);
    evzmq_codec_free(codec);
    allocator_remove();
}

/* evzmq_codec_decode() does not go by way of the method, so both have to be looked at. */
static void the_method_of_a_codec_tells_what_the_call_tells(void **state)
{
    (void)state;
    static const char whole[] = "\x96\xacquery_result\xa1q\x94\xafTextModelOutput\xa4text\xc0\xc0"
                                "\x80\xc0\xcf\x00\x00\x00\x00\x00\x00\x00\x07";
    const size_t size = sizeof(whole) - 1;
    struct evzmq_codec *const codec = codec_of(&evzmq_record_query_result_schema, 0, 0);
    const struct evzmq_codec_methods *const methods = evzmq_codec_get_methods(codec);
    char bytes[sizeof(whole)];
    for (size_t i = 0; i < 3 * size; i++) {
        /* Cut short, with a byte after it, and with each byte changed. */
        memcpy(bytes, whole, sizeof(whole));
        const size_t used = i < size ? i : i == size ? size + 1 : size;
        if (i > size) {
            bytes[(i - size - 1) % size] ^= i > 2 * size ? '\x01' : '\x7f';
        }
        const void *values[2] = {NULL, NULL};
        struct evzmq_decode_error errors[2] = {{EVZMQ_DECODE_OK, 0}, {EVZMQ_DECODE_OK, 0}};
        const int called = evzmq_codec_decode(codec, bytes, used, arena, &values[0], &errors[0]);
        const int result = methods->decode(evzmq_codec_get_state(codec), bytes, used, arena,
                                           &values[1], &errors[1]);
        assert_int_equal(result, called);
        assert_true((values[0] != NULL) == (called == 0));
        assert_true((values[1] != NULL) == (called == 0));
        if (called != 0) {
            assert_int_equal(errors[1].kind, errors[0].kind);
            assert_int_equal(errors[1].offset, errors[0].offset);
            assert_int_not_equal(errors[0].kind, EVZMQ_DECODE_OK);
        }
        assert_true(i > size || called != 0);
        evzmq_arena_reset(arena);
    }
    evzmq_codec_free(codec);
}

static void a_message_gives_its_record_and_which_it_is(void **state)
{
    (void)state;
    static const char chunk[] = "\x93\xacstream_chunk\xa1q\xa5hello";
    struct evzmq_codec *const either = codec_of(&evzmq_record_response_schema, 0, 0);
    struct evzmq_codec *const plain = codec_of(&evzmq_record_stream_chunk_schema, 0, 0);
    struct evzmq_message *const message = evzmq_message_new();
    const struct evzmq_schema *which = NULL;
    assert_non_null(message);
    assert_int_equal(evzmq_message_add(message, chunk, sizeof(chunk) - 1), 0);
    assert_null(evzmq_record_value(message, &which));
    assert_int_equal(evzmq_message_decode(message, either, NULL), 0);
    const struct evzmq_record_stream_chunk *record = evzmq_record_value(message, &which);
    assert_ptr_equal(which, &evzmq_record_stream_chunk_schema);
    assert_memory_equal(record->response_chunk.data, "hello", 5);
    which = NULL;
    assert_int_equal(evzmq_message_decode(message, plain, NULL), 0);
    record = evzmq_record_value(message, &which);
    assert_ptr_equal(which, &evzmq_record_stream_chunk_schema);
    assert_memory_equal(record->id.data, "q", 1);
    assert_non_null(evzmq_record_value(message, NULL));
    assert_int_equal(evzmq_message_decode(message, evzmq_codec_raw(), NULL), 0);
    assert_null(evzmq_record_value(message, &which));
    evzmq_message_free(message);
    evzmq_codec_free(plain);
    evzmq_codec_free(either);
}

/* The decoder compares a tag and what stands before it at once where that is short enough. */
static void tags_of_any_length_are_compared_to_their_ends(void **state)
{
    (void)state;
    for (size_t length = 1; length < 300; length++) {
        char tag[300];
        struct evzmq_schema schema = evzmq_record_stream_chunk_schema;
        memset(tag, 't', length);
        tag[length] = '\0';
        schema.tag = tag;
        struct evzmq_codec *const codec = codec_of(&schema, 0, 0);
        const struct evzmq_record_stream_chunk record = {
            .id = EVZMQ_STR("q"), .response_chunk = EVZMQ_STR("text that is longer than 32 bytes")};
        const struct evzmq_bytes bytes = encode(codec, &record);
        const struct evzmq_record_stream_chunk *const decoded =
            decode(codec, bytes.data, bytes.size);
        assert_int_equal(decoded->id.size, 1);
        assert_memory_equal(decoded->response_chunk.data, record.response_chunk.data, 33);
        unsigned char *const other = evzmq_arena_alloc(source, bytes.size);
        assert_non_null(other);
        memcpy(other, bytes.data, bytes.size);
        const size_t head = length < 32 ? 1 : length < 256 ? 2 : 3;
        other[1 + head + length - 1] = 'u';
        assert_refused(codec, other, bytes.size, EVZMQ_DECODE_VALUE, 1);
        evzmq_codec_free(codec);
        evzmq_arena_reset(source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_generated_records_survive_the_round_trip),
        cmocka_unit_test(an_integer_out_of_range_is_a_value_fault),
        cmocka_unit_test(absent_fields_have_their_defaults_and_are_told),
        cmocka_unit_test(a_missing_required_field_is_a_length_fault),
        cmocka_unit_test(of_a_key_that_occurs_twice_the_last_value_counts),
        cmocka_unit_test(a_map_is_written_with_the_names_of_its_fields),
        cmocka_unit_test(a_fresh_struct_is_written_in_full),
        cmocka_unit_test(nesting_is_allowed_up_to_the_limit_and_not_beyond),
        cmocka_unit_test(keys_must_not_be_maps_at_any_depth),
        cmocka_unit_test(arrays_are_bounded_in_count_and_memory),
        cmocka_unit_test(what_no_peer_would_accept_is_not_encoded),
        cmocka_unit_test(a_buffer_of_no_bytes_holds_no_record),
        cmocka_unit_test(a_value_that_grew_since_it_was_measured_is_not_written_past_the_buffer),
        cmocka_unit_test(steady_decoding_and_encoding_allocate_nothing),
        cmocka_unit_test(an_arena_without_memory_is_no_fault_of_the_message),
        cmocka_unit_test(the_method_of_a_codec_tells_what_the_call_tells),
        cmocka_unit_test(a_message_gives_its_record_and_which_it_is),
        cmocka_unit_test(tags_of_any_length_are_compared_to_their_ends),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
