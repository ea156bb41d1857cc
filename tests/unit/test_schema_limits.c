/*
 * test_schema_limits.c: what a record may cost in memory, held against what the arena gives, how
 * deep a span may be, and where a double is too large for a float.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <errno.h>
#include <float.h>
#include <math.h>

#include <cmocka.h>

#include <evzmq/schema.h>

#include "arena.h"

enum {
    LIMIT = 16384,
    /* More than the limit allows, whatever is counted. */
    ROOM = 16 * LIMIT
};

static struct evzmq_arena *arena;

/* One chunk that holds everything: so what is used is what was cut, without the ends of chunks. */
static int set_up(void **state)
{
    (void)state;
    arena = evzmq_arena_new();
    if (arena == NULL || evzmq_arena_alloc(arena, ROOM) == NULL) {
        return -1;
    }
    evzmq_arena_reset(arena);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    evzmq_arena_free(arena);
    return 0;
}

static struct evzmq_codec *codec_of(const struct evzmq_schema *schema, size_t memory_max)
{
    const struct evzmq_schema_options options = {sizeof(options), 0, memory_max, 0};
    struct evzmq_codec *const codec = evzmq_schema_codec_new(schema, &options);
    assert_non_null(codec);
    return codec;
}

/* What the arena gave for a message, which was decoded or refused for its memory. */
static size_t cost(const struct evzmq_codec *codec, const void *bytes, size_t size,
                   bool *out_refused)
{
    const void *value = NULL;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    *out_refused = evzmq_codec_decode(codec, bytes, size, arena, &value, &error) < 0;
    if (*out_refused) {
        assert_int_equal(error.kind, EVZMQ_DECODE_MEMORY);
    }
    const size_t used = evzmq__arena_get_used(arena);
    evzmq_arena_reset(arena);
    return used;
}

/* Each of these flags is one byte on the wire and one byte of its own in the arena, rounded. */
struct flags {
    const bool *a;
    const bool *b;
    const bool *c;
    const bool *d;
};
static const struct evzmq_field flag_fields[] = {
    EVZMQ_FIELD_NILABLE(BOOL, struct flags, a, 0),
    EVZMQ_FIELD_NILABLE(BOOL, struct flags, b, 0),
    EVZMQ_FIELD_NILABLE(BOOL, struct flags, c, 0),
    EVZMQ_FIELD_NILABLE(BOOL, struct flags, d, 0),
};
static const struct evzmq_schema flags_schema =
    EVZMQ_SCHEMA(struct flags, ARRAY, NULL, flag_fields);

/* 24 bytes, for which the arena gives 32. */
struct box {
    const struct flags *flags;
    struct evzmq_str name;
};
static const struct evzmq_field box_fields[] = {
    EVZMQ_FIELD_RECORD(struct flags, &flags_schema, struct box, flags, 0),
    EVZMQ_FIELD(STR, struct box, name, 0),
};
static const struct evzmq_schema box_schema = EVZMQ_SCHEMA(struct box, ARRAY, NULL, box_fields);

struct boxes {
    EVZMQ_ARRAY_OF(struct box) boxes;
};
static const struct evzmq_field boxes_fields[] = {
    EVZMQ_FIELD_RECORD_ARRAY(struct box, &box_schema, struct boxes, boxes, 0, 0),
};
static const struct evzmq_schema boxes_schema =
    EVZMQ_SCHEMA(struct boxes, ARRAY, NULL, boxes_fields);

static void no_message_takes_more_from_the_arena_than_the_limit(void **state)
{
    (void)state;
    enum { BOX = 7, BOXES_MAX = 1000 };
    static const char box[] = "\x92\x94\xc2\xc2\xc2\xc2\xa0";
    static unsigned char bytes[4 + BOXES_MAX * BOX] = {0x91, 0xdc};
    struct evzmq_codec *const codec = codec_of(&boxes_schema, LIMIT);
    bool refused = false;
    size_t largest = 0;
    size_t count = 0;
    for (; count < BOXES_MAX && !refused; count++) {
        bytes[2] = (unsigned char)(count >> 8);
        bytes[3] = (unsigned char)count;
        memcpy(bytes + 4 + count * BOX, box, BOX);
        const size_t used = cost(codec, bytes, 4 + count * BOX, &refused);
        assert_true(used <= LIMIT);
        largest = refused ? largest : used;
    }
    assert_true(refused);
    /* What was still accepted comes within one more box of the limit. */
    assert_true(largest > LIMIT - 512);
    evzmq_codec_free(codec);
}

static void the_outermost_record_counts_as_the_arena_rounds_it(void **state)
{
    (void)state;
    static const char bytes[] =
        "\x92\x94\xc0\xc0\xc0\xc0\xb8" /* with the window of a usual record */
        "123456789012345678901234";
    enum { BOX_CUT = 32, FLAGS_CUT = 32 };
    bool refused = false;
    for (size_t limit = BOX_CUT + FLAGS_CUT - 9; limit <= BOX_CUT + FLAGS_CUT; limit++) {
        struct evzmq_codec *const codec = codec_of(&box_schema, limit);
        assert_true(cost(codec, bytes, sizeof(bytes) - 1, &refused) <= limit);
        assert_int_equal(refused, limit < BOX_CUT + FLAGS_CUT);
        evzmq_codec_free(codec);
    }
    struct evzmq_codec *const codec = codec_of(&box_schema, BOX_CUT - 1);
    assert_int_equal(cost(codec, bytes, sizeof(bytes) - 1, &refused), 0);
    assert_true(refused);
    evzmq_codec_free(codec);
}

struct spanning {
    struct evzmq_any span;
};

#define SPANNING(kind)                                                                             \
    static const struct evzmq_field spanning_##kind[] = {                                          \
        EVZMQ_FIELD(kind, struct spanning, span, 0)};                                              \
    static const struct evzmq_schema schema_##kind =                                               \
        EVZMQ_SCHEMA(struct spanning, BARE, NULL, spanning_##kind)

SPANNING(ANY);
SPANNING(MAP);
SPANNING(STR_MAP);
SPANNING(LIST);
SPANNING(MAP_LIST);

/* The containers of each, the outermost one included, are as many as `depth`. */
static void a_span_may_be_as_deep_as_the_limit_and_no_deeper(void **state)
{
    (void)state;
    static const struct {
        const struct evzmq_schema *schema;
        const char *bytes;
        size_t size;
        size_t depth;
    } rows[] = {
        {&schema_ANY, "\x91\x07", 2, 1},
        {&schema_ANY, "\x91\x91\x07", 3, 2},
        {&schema_MAP, "\x81\xa1k\x07", 4, 1},
        {&schema_MAP, "\xde\x00\x01\xa1k\x07", 6, 1},
        {&schema_MAP, "\x81\xa1k\x91\x07", 5, 2},
        {&schema_STR_MAP, "\x81\xa1k\xa1v", 5, 1},
        {&schema_STR_MAP, "\xde\x00\x01\xa1k\xa1v", 7, 1},
        {&schema_LIST, "\x91\x07", 2, 1},
        {&schema_LIST, "\x91\x91\x07", 3, 2},
        {&schema_MAP_LIST, "\x90", 1, 1},
        {&schema_MAP_LIST, "\x91\x81\xa1k\x07", 5, 2},
        {&schema_MAP_LIST, "\x91\x81\xa1k\x91\x07", 6, 3},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t depth_max = 1; depth_max <= 3; depth_max++) {
            const struct evzmq_schema_options options = {sizeof(options), depth_max, 0, 0};
            struct evzmq_codec *const codec = evzmq_schema_codec_new(rows[i].schema, &options);
            const struct spanning record = {{(const unsigned char *)rows[i].bytes, rows[i].size}};
            const int expected = rows[i].depth <= depth_max ? 0 : -1;
            const void *value = NULL;
            struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
            size_t size = 0;
            assert_non_null(codec);
            assert_int_equal(
                evzmq_codec_decode(codec, rows[i].bytes, rows[i].size, arena, &value, &error),
                expected);
            assert_int_equal(error.kind, expected == 0 ? EVZMQ_DECODE_OK : EVZMQ_DECODE_DEPTH);
            assert_int_equal(evzmq_codec_encoded_size(codec, &record, &size), expected);
            evzmq_codec_free(codec);
            evzmq_arena_reset(arena);
        }
    }
}

struct single {
    float value;
};
static const struct evzmq_field single_fields[] = {
    EVZMQ_FIELD(FLOAT32, struct single, value, 0),
};
static const struct evzmq_schema single_schema =
    EVZMQ_SCHEMA(struct single, BARE, NULL, single_fields);

/* The float that a double on the wire becomes. */
static float narrow(const struct evzmq_codec *codec, double value)
{
    unsigned char bytes[9] = {0xcb};
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    for (size_t i = 0; i < sizeof(bits); i++) {
        bytes[1 + i] = (unsigned char)(bits >> (56 - 8 * i));
    }
    const void *record = NULL;
    assert_int_equal(evzmq_codec_decode(codec, bytes, sizeof(bytes), arena, &record, NULL), 0);
    return ((const struct single *)record)->value;
}

static void a_double_becomes_the_nearest_float(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = codec_of(&single_schema, 0);
    const double midpoint = 0x1.ffffffp127; /* between the largest float and the next power of 2 */
    const double below = 0x1.fffffefffffffp127;
    assert_true(narrow(codec, 0x1.fffffep127) == FLT_MAX);
    assert_true(narrow(codec, 0x1.fffffe0000001p127) == FLT_MAX);
    assert_true(narrow(codec, below) == FLT_MAX);
    assert_true(narrow(codec, -below) == -FLT_MAX);
    assert_true(narrow(codec, midpoint) == INFINITY);
    assert_true(narrow(codec, -midpoint) == -INFINITY);
    assert_true(narrow(codec, DBL_MAX) == INFINITY);
    assert_true(narrow(codec, -DBL_MAX) == -INFINITY);
    assert_true(narrow(codec, -INFINITY) == -INFINITY);
    assert_true(isnan(narrow(codec, NAN)));
    assert_true(narrow(codec, 0x1.0000010000001p0) == 0x1.000002p0F);
    evzmq_codec_free(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_message_takes_more_from_the_arena_than_the_limit),
        cmocka_unit_test(the_outermost_record_counts_as_the_arena_rounds_it),
        cmocka_unit_test(a_span_may_be_as_deep_as_the_limit_and_no_deeper),
        cmocka_unit_test(a_double_becomes_the_nearest_float),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
