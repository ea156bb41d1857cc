/*
 * test_scan.c: what the check before decoding accepts, refuses and says about it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <msgpack.h>

#include "scan.h"
#include "vectors.h"

static const struct evzmq__scan_limits no_limits = {
    .depth_max = EVZMQ__SCAN_DEPTH_MAX, .elements_max = SIZE_MAX, .validate_utf8 = false};
static const struct evzmq__scan_limits only_utf8 = {
    .depth_max = EVZMQ__SCAN_DEPTH_MAX, .elements_max = SIZE_MAX, .validate_utf8 = true};

/* Scans a copy of exactly that size, so that a sanitizer sees a read beyond it. */
static int scan(const char *bytes, size_t size, const struct evzmq__scan_limits *limits,
                struct evzmq__scan_result *out_result, struct evzmq_decode_error *out_error)
{
    char *const copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    const int result = evzmq__scan_whole(copy, size, limits, out_result, out_error);
    free(copy);
    return result;
}

static void accepts(const char *bytes, size_t size, size_t elements)
{
    struct evzmq__scan_result result = {0, 0};
    struct evzmq_decode_error error;
    assert_int_equal(scan(bytes, size, &no_limits, &result, &error), 0);
    assert_int_equal(result.used, size);
    assert_int_equal(result.elements, elements);
}

static void refuses(const char *bytes, size_t size, const struct evzmq__scan_limits *limits,
                    enum evzmq_decode_kind kind, size_t offset)
{
    struct evzmq__scan_result result = {77, 77};
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    assert_int_equal(scan(bytes, size, limits, &result, &error), -1);
    assert_string_equal(evzmq_decode_kind_name(error.kind), evzmq_decode_kind_name(kind));
    assert_int_equal(error.offset, offset);
    assert_int_equal(result.used, 77);
}

/* For literals, whose last byte is not theirs. */
#define ACCEPTS(literal, elements) accepts(literal, sizeof(literal) - 1, elements)
#define REFUSES(literal, kind, offset)                                                             \
    refuses(literal, sizeof(literal) - 1, &no_limits, EVZMQ_DECODE_##kind, offset)

static void every_form_of_value_is_accepted_in_its_own_length(void **state)
{
    (void)state;
    unsigned char bytes[70000];
    for (unsigned first = 0; first < 256; first++) {
        if (first == 0xc1) {
            continue;
        }
        /* Zero lengths, counts and scalars, with as many bytes as the form takes. */
        memset(bytes, 0, sizeof(bytes));
        bytes[0] = (unsigned char)first;
        struct evzmq__scan_result result;
        struct evzmq_decode_error error;
        assert_int_equal(evzmq__scan(bytes, sizeof(bytes), &no_limits, &result, &error), 0);

        msgpack_unpacked unpacked;
        msgpack_unpacked_init(&unpacked);
        size_t used = 0;
        assert_int_equal(msgpack_unpack_next(&unpacked, (const char *)bytes, sizeof(bytes), &used),
                         MSGPACK_UNPACK_SUCCESS);
        msgpack_unpacked_destroy(&unpacked);
        assert_int_equal(result.used, used);
        for (size_t size = 0; size < used; size++) {
            assert_int_equal(evzmq__scan(bytes, size, &no_limits, &result, &error), -1);
            assert_int_equal(error.kind, EVZMQ_DECODE_TRUNCATED);
        }
    }
}

static void elements_are_counted_at_all_depths(void **state)
{
    (void)state;
    ACCEPTS("\xc0", 0);
    ACCEPTS("\x90", 0);
    ACCEPTS("\x93\x01\x02\x03", 3);
    ACCEPTS("\x82\x01\x02\x03\x04", 4);
    ACCEPTS("\x92\x92\x01\x02\x81\x03\x90", 6);
    ACCEPTS("\xdc\x00\x02\x01\x02", 2);
    ACCEPTS("\xdf\x00\x00\x00\x01\x01\x02", 2);
}

static void declared_count_beyond_the_bytes_is_truncated(void **state)
{
    (void)state;
    REFUSES("\xdd\xff\xff\xff\xff", TRUNCATED, 0);
    REFUSES("\xdf\xff\xff\xff\xff", TRUNCATED, 0);
    REFUSES("\xdd\x0f\xff\xff\xff", TRUNCATED, 0);
    REFUSES("\xdd\x05\xf5\xe1\x00", TRUNCATED, 0);
    REFUSES("\xdc\xff\xff", TRUNCATED, 0);
    REFUSES("\xde\xff\xff", TRUNCATED, 0);
    REFUSES("\x81\x01", TRUNCATED, 0);
    REFUSES("\x92\x01\xdd\xff\xff\xff\xff", TRUNCATED, 2);
}

static void open_containers_are_counted_together(void **state)
{
    (void)state;
    /* Each array alone could have its elements: four bytes follow the outer, two the inner. */
    REFUSES("\x93\x92\x01\x02\x03", TRUNCATED, 1);
    ACCEPTS("\x93\x92\x01\x02\x03\x04", 5);

    char nested[160];
    for (size_t i = 0; i < sizeof(nested); i += 5) {
        memcpy(nested + i, "\xdd\x00\x00\x00\x10", 5);
    }
    /* The ninth array: eight before it still wait for 15 elements each, 115 bytes follow. */
    size_t awaited = 0;
    size_t at = 0;
    while (awaited + 16 <= sizeof(nested) - at - 5) {
        awaited += 15;
        at += 5;
    }
    refuses(nested, sizeof(nested), &no_limits, EVZMQ_DECODE_TRUNCATED, at);
}

static void missing_value_is_truncated_at_the_end(void **state)
{
    (void)state;
    refuses("", 0, &no_limits, EVZMQ_DECODE_TRUNCATED, 0);
    /* The string takes the byte that the second element would have been. */
    REFUSES("\x92\xa1x", TRUNCATED, 3);
    REFUSES("\x93\x01\xa2xy", TRUNCATED, 5);
}

static void scalar_that_is_cut_off_is_truncated_at_its_first_byte(void **state)
{
    (void)state;
    REFUSES("\x91\xa2x", TRUNCATED, 1);
    REFUSES("\x91\xcb\x01", TRUNCATED, 1);
    REFUSES("\x91\xd9", TRUNCATED, 1);
    REFUSES("\x91\xd9\x02x", TRUNCATED, 1);
    REFUSES("\x91\xdb\xff\xff\xff\xffxyz", TRUNCATED, 1);
    REFUSES("\x91\xc6\xff\xff\xff\xffxyz", TRUNCATED, 1);
    REFUSES("\x91\xc9\xff\xff\xff\xfexyz", TRUNCATED, 1);
    REFUSES("\x91\xc7\x00", TRUNCATED, 1);
    REFUSES("\x91\xd4\x01", TRUNCATED, 1);
}

static void byte_that_begins_no_value_is_malformed(void **state)
{
    (void)state;
    REFUSES("\xc1", MALFORMED, 0);
    REFUSES("\x92\x01\xc1", MALFORMED, 2);
    REFUSES("\x81\x01\xc1", MALFORMED, 2);
}

static void extension_whose_length_wraps_is_malformed(void **state)
{
    (void)state;
    REFUSES("\xc9\xff\xff\xff\xff", MALFORMED, 0);
    REFUSES("\x91\xc9\xff\xff\xff\xff\x05xyz", MALFORMED, 1);
    ACCEPTS("\xc7\x00\x05", 0);
    ACCEPTS("\xc8\x00\x00\x05", 0);
    ACCEPTS("\xc9\x00\x00\x00\x00\x05", 0);
}

static void bytes_after_the_value_are_trailing_at_the_first_of_them(void **state)
{
    (void)state;
    char bytes[40] = "\x92\x01\xa1x";
    for (size_t extra = 1; extra <= 36; extra++) {
        refuses(bytes, 4 + extra, &no_limits, EVZMQ_DECODE_TRAILING, 4);
    }
    REFUSES("\xc0\xc1", TRAILING, 1);
}

static void first_value_of_several_is_measured(void **state)
{
    (void)state;
    const char bytes[] = "\x92\x01\xa1x\xc0\xc1";
    struct evzmq__scan_result result;
    struct evzmq_decode_error error;
    assert_int_equal(evzmq__scan(bytes, 6, &no_limits, &result, &error), 0);
    assert_int_equal(result.used, 4);
    assert_int_equal(evzmq__scan(bytes + 4, 2, &no_limits, &result, &error), 0);
    assert_int_equal(result.used, 1);
    assert_int_equal(evzmq__scan(bytes + 5, 1, &no_limits, &result, &error), -1);
    assert_int_equal(error.kind, EVZMQ_DECODE_MALFORMED);
}

/* Arrays or maps inside one another around a last one that is empty. */
static void nest(char *bytes, size_t depth, bool maps, size_t *out_size)
{
    size_t size = 0;
    for (size_t i = 0; i + 1 < depth; i++) {
        bytes[size++] = maps ? '\x81' : '\x91';
        if (maps) {
            bytes[size++] = '\x01';
        }
    }
    bytes[size++] = maps ? '\x80' : '\x90';
    *out_size = size;
}

static void nesting_beyond_the_limit_is_depth_at_the_container(void **state)
{
    (void)state;
    static const size_t depths[] = {1, 2, 31, 32, 33, 40, 63, 64, 65, 511, 512, 513, 1000};
    char bytes[2000];
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        for (int maps = 0; maps < 2; maps++) {
            size_t size = 0;
            nest(bytes, depths[i], maps != 0, &size);
            struct evzmq__scan_limits limits = no_limits;
            struct evzmq__scan_result result;
            struct evzmq_decode_error error;
            limits.depth_max = depths[i];
            if (depths[i] <= EVZMQ__SCAN_DEPTH_MAX) {
                assert_int_equal(scan(bytes, size, &limits, &result, &error), 0);
                limits.depth_max = depths[i] - 1;
            } else {
                limits.depth_max = EVZMQ__SCAN_DEPTH_MAX;
            }
            refuses(bytes, size, &limits, EVZMQ_DECODE_DEPTH, limits.depth_max * (maps ? 2 : 1));
        }
    }
}

static void depth_limit_above_the_most_counts_as_the_most(void **state)
{
    (void)state;
    char bytes[2000];
    size_t size = 0;
    nest(bytes, EVZMQ__SCAN_DEPTH_MAX + 1, false, &size);
    struct evzmq__scan_limits limits = no_limits;
    limits.depth_max = SIZE_MAX;
    refuses(bytes, size, &limits, EVZMQ_DECODE_DEPTH, EVZMQ__SCAN_DEPTH_MAX);
}

static void containers_side_by_side_do_not_nest(void **state)
{
    (void)state;
    char bytes[1003] = "\xdc\x03\xe8";
    memset(bytes + 3, '\x90', 1000);
    struct evzmq__scan_limits limits = no_limits;
    limits.depth_max = 2;
    struct evzmq__scan_result result;
    struct evzmq_decode_error error;
    assert_int_equal(scan(bytes, sizeof(bytes), &limits, &result, &error), 0);
}

static void more_elements_than_the_limit_are_refused_at_the_container(void **state)
{
    (void)state;
    const char bytes[] = "\x93\x01\x02\x81\x03\x04";
    struct evzmq__scan_limits limits = no_limits;
    struct evzmq__scan_result result;
    struct evzmq_decode_error error;
    limits.elements_max = 5;
    assert_int_equal(scan(bytes, 6, &limits, &result, &error), 0);
    limits.elements_max = 4;
    refuses(bytes, 6, &limits, EVZMQ_DECODE_ELEMENTS, 3);
    limits.elements_max = 2;
    refuses(bytes, 6, &limits, EVZMQ_DECODE_ELEMENTS, 0);
}

static void invalid_utf8_is_refused_at_its_byte_only_when_asked(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        size_t offset;
    } bad[] = {
        {"\xa1\xff", 2, 1},
        {"\xa3"
         "ab\x80",
         4, 3},
        {"\xa2\xc0\x80", 3, 1}, /* overlong */
        {"\xa3\xe0\x80\x80", 4, 1},
        {"\xa3\xed\xa0\x80", 4, 1}, /* a surrogate */
        {"\xa4\xf4\x90\x80\x80", 5, 1}, /* above U+10FFFF */
        {"\xa2x\xc3", 3, 2}, /* cut off */
        {"\xd9\x02x\xc3", 4, 3},
        {"\xda\x00\x02x\xc3", 5, 4},
        {"\xdb\x00\x00\x00\x02x\xc3", 7, 6},
        {"\x81\xa1\xff\x01", 4, 2}, /* a key */
        {"\x81\x01\xa1\xff", 4, 3},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct evzmq__scan_result result;
        struct evzmq_decode_error error;
        assert_int_equal(scan(bad[i].bytes, bad[i].size, &no_limits, &result, &error), 0);
        refuses(bad[i].bytes, bad[i].size, &only_utf8, EVZMQ_DECODE_UTF8, bad[i].offset);
    }
    struct evzmq__scan_result result;
    struct evzmq_decode_error error;
    assert_int_equal(scan("\xc4\x01\xff", 3, &only_utf8, &result, &error), 0);
    assert_int_equal(scan("\xd4\x01\xff", 3, &only_utf8, &result, &error), 0);
    assert_int_equal(scan("\xa0", 1, &only_utf8, &result, &error), 0);
    assert_int_equal(scan("\xa4\xf0\x9f\x98\x80", 5, &only_utf8, &result, &error), 0);
}

static void vectors_are_accepted_and_all_their_prefixes_truncated(void **state)
{
    (void)state;
    static const char *const files[] = {"vectors.tsv", "accept.tsv"};
    for (size_t f = 0; f < 2; f++) {
        struct vectors vectors = vectors_load(files[f]);
        for (size_t i = 0; i < vectors.count; i++) {
            const char *const bytes = (const char *)vectors.items[i].bytes;
            struct evzmq__scan_result result;
            struct evzmq_decode_error error;
            assert_int_equal(scan(bytes, vectors.items[i].size, &no_limits, &result, &error), 0);
            for (size_t size = 0; size < vectors.items[i].size; size++) {
                assert_int_equal(scan(bytes, size, &no_limits, &result, &error), -1);
                assert_int_equal(error.kind, EVZMQ_DECODE_TRUNCATED);
                assert_true(error.offset <= size);
            }
        }
        vectors_free(&vectors);
    }
}

/* What the note of an invalid vector says about the bytes themselves, not about their types. */
static enum evzmq_decode_kind get_fault(const char *note, size_t *out_offset)
{
    const char *const at = strstr(note, "(byte ");
    *out_offset = at != NULL ? strtoul(at + 6, NULL, 10) : SIZE_MAX;
    if (strstr(note, "truncated") != NULL) {
        return EVZMQ_DECODE_TRUNCATED;
    }
    if (strstr(note, "trailing") != NULL) {
        return EVZMQ_DECODE_TRAILING;
    }
    return strstr(note, "opcode") != NULL ? EVZMQ_DECODE_MALFORMED : EVZMQ_DECODE_OK;
}

static void vectors_with_broken_bytes_are_refused_as_the_original_does(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("invalid.tsv");
    size_t seen = 0;
    for (size_t i = 0; i < vectors.count; i++) {
        size_t offset = 0;
        const enum evzmq_decode_kind kind = get_fault(vectors.items[i].rest, &offset);
        struct evzmq__scan_result result;
        struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
        const int got = scan((const char *)vectors.items[i].bytes, vectors.items[i].size,
                             &no_limits, &result, &error);
        if (kind == EVZMQ_DECODE_OK) {
            continue;
        }
        seen += 1;
        assert_int_equal(got, -1);
        assert_string_equal(evzmq_decode_kind_name(error.kind), evzmq_decode_kind_name(kind));
        if (offset != SIZE_MAX) {
            assert_int_equal(error.offset, offset);
        }
    }
    assert_true(seen > 10);
    vectors_free(&vectors);
}

/* Random bytes against msgpack-c. */

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint32_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

/* msgpack-c allocates what a container declares. Wherever such a container might begin, it must not
 * declare more than is cheap. */
static bool is_cheap(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] < 0xdc || bytes[i] > 0xdf) {
            continue;
        }
        const size_t length = (bytes[i] & 1) != 0 ? 4 : 2;
        uint64_t count = 0;
        for (size_t j = 1; j <= length && i + j < size; j++) {
            count = count << 8 | bytes[i + j];
        }
        if (count > 1024) {
            return false;
        }
    }
    return true;
}

/* Values that are mostly well formed: first bytes of every kind, then lengths that are small. */
static size_t make_value(unsigned char *bytes, size_t size_max)
{
    const size_t size = 1 + next_random() % size_max;
    for (size_t i = 0; i < size; i++) {
        const uint32_t choice = next_random();
        const unsigned char any = (unsigned char)(choice >> 8);
        switch (choice % 8) {
        case 0:
            bytes[i] = (unsigned char)(0xc0 + any % 0x20);
            break;
        case 1:
            bytes[i] = (unsigned char)(0x80 + any % 6);
            break;
        case 2:
            bytes[i] = (unsigned char)(0x90 + any % 6);
            break;
        case 3:
            bytes[i] = (unsigned char)(0xa0 + any % 8);
            break;
        case 4:
            bytes[i] = any;
            break;
        default:
            bytes[i] = any % 4;
            break;
        }
    }
    return size;
}

static bool agrees_with_msgpack(const unsigned char *bytes, size_t size)
{
    struct evzmq__scan_limits limits = no_limits;
    limits.depth_max = 32; /* msgpack-c's own */
    struct evzmq__scan_result result;
    struct evzmq_decode_error error;
    const bool accepted = evzmq__scan_whole(bytes, size, &limits, &result, &error) == 0;
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t used = 0;
    const bool unpacks = msgpack_unpack_next(&unpacked, (const char *)bytes, size, &used) ==
                             MSGPACK_UNPACK_SUCCESS &&
                         used == size;
    msgpack_unpacked_destroy(&unpacked);
    assert_int_equal(accepted, unpacks);
    return accepted;
}

static void random_bytes_are_accepted_exactly_when_msgpack_unpacks_them(void **state)
{
    (void)state;
    unsigned char bytes[48];
    size_t accepted = 0;
    size_t refused = 0;
    for (size_t i = 0; i < 200000; i++) {
        size_t size = make_value(bytes, sizeof(bytes));
        if (!is_cheap(bytes, size)) {
            continue;
        }
        /* Half of them end where their first value does, so that many are whole. */
        struct evzmq__scan_result result;
        struct evzmq_decode_error error;
        if (i % 2 == 0 && evzmq__scan(bytes, size, &no_limits, &result, &error) == 0) {
            size = result.used;
        }
        if (agrees_with_msgpack(bytes, size)) {
            accepted += 1;
        } else {
            refused += 1;
        }
    }
    assert_true(accepted > 10000);
    assert_true(refused > 10000);
}

static void mutated_vectors_are_accepted_exactly_when_msgpack_unpacks_them(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("vectors.tsv");
    unsigned char bytes[512];
    size_t compared = 0;
    for (size_t i = 0; i < 100000; i++) {
        const struct vector *const vector = &vectors.items[next_random() % vectors.count];
        if (vector->size > sizeof(bytes)) {
            continue;
        }
        memcpy(bytes, vector->bytes, vector->size);
        for (uint32_t changes = next_random() % 4; changes > 0; changes--) {
            bytes[next_random() % vector->size] = (unsigned char)next_random();
        }
        const size_t size = vector->size - (next_random() % 8 == 0 ? 1 : 0);
        if (is_cheap(bytes, size)) {
            compared += 1;
            (void)agrees_with_msgpack(bytes, size);
        }
    }
    assert_true(compared > 50000);
    vectors_free(&vectors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_value_is_accepted_in_its_own_length),
        cmocka_unit_test(elements_are_counted_at_all_depths),
        cmocka_unit_test(declared_count_beyond_the_bytes_is_truncated),
        cmocka_unit_test(open_containers_are_counted_together),
        cmocka_unit_test(missing_value_is_truncated_at_the_end),
        cmocka_unit_test(scalar_that_is_cut_off_is_truncated_at_its_first_byte),
        cmocka_unit_test(byte_that_begins_no_value_is_malformed),
        cmocka_unit_test(extension_whose_length_wraps_is_malformed),
        cmocka_unit_test(bytes_after_the_value_are_trailing_at_the_first_of_them),
        cmocka_unit_test(first_value_of_several_is_measured),
        cmocka_unit_test(nesting_beyond_the_limit_is_depth_at_the_container),
        cmocka_unit_test(depth_limit_above_the_most_counts_as_the_most),
        cmocka_unit_test(containers_side_by_side_do_not_nest),
        cmocka_unit_test(more_elements_than_the_limit_are_refused_at_the_container),
        cmocka_unit_test(invalid_utf8_is_refused_at_its_byte_only_when_asked),
        cmocka_unit_test(vectors_are_accepted_and_all_their_prefixes_truncated),
        cmocka_unit_test(vectors_with_broken_bytes_are_refused_as_the_original_does),
        cmocka_unit_test(random_bytes_are_accepted_exactly_when_msgpack_unpacks_them),
        cmocka_unit_test(mutated_vectors_are_accepted_exactly_when_msgpack_unpacks_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
