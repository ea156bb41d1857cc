/**
 * @file test_ready_signal.c
 * The integers of ready signals and headers, against the vectors and at every boundary.
 */
#include "ready.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "vectors.h"

#include <evzmq/pool.h>

static int is_signal(const struct vector *vector)
{
    return strcmp(vector->type, "ReadySignal") == 0;
}

static void canonical_signals_are_read_and_written_to_the_same_bytes(void **state)
{
    struct vectors vectors = vectors_load("vectors.tsv");
    size_t seen = 0;

    (void)state;
    for (size_t i = 0; i < vectors.count; i++) {
        const struct vector *const vector = &vectors.items[i];
        unsigned char bytes[EVZMQ__INTEGER_BYTES_MAX];
        unsigned identity = 0;

        if (!is_signal(vector)) {
            continue;
        }
        seen++;
        assert_int_equal(evzmq__ready_read(vector->bytes, vector->size, UINT_MAX, &identity),
                         EVZMQ__READY_IDENTITY);
        assert_int_equal(identity, strtoul(vector->rest, NULL, 10));
        assert_int_equal(evzmq__integer_write(bytes, identity), vector->size);
        assert_memory_equal(bytes, vector->bytes, vector->size);
    }
    assert_true(seen >= 5);
    vectors_free(&vectors);
}

static void other_integers_are_read_and_negative_ones_are_out_of_range(void **state)
{
    struct vectors vectors = vectors_load("accept.tsv");
    size_t seen = 0;

    (void)state;
    for (size_t i = 0; i < vectors.count; i++) {
        const struct vector *const vector = &vectors.items[i];
        unsigned identity = 0;
        const long value = is_signal(vector) ? strtol(vector->rest, NULL, 10) : 0;

        if (!is_signal(vector)) {
            continue;
        }
        seen++;
        assert_int_equal(evzmq__ready_read(vector->bytes, vector->size, UINT_MAX, &identity),
                         value < 0 ? EVZMQ__READY_OUT_OF_RANGE : EVZMQ__READY_IDENTITY);
        assert_true(value < 0 || identity == (unsigned)value);
    }
    assert_true(seen >= 2);
    vectors_free(&vectors);
}

static void what_is_rejected_elsewhere_is_malformed(void **state)
{
    struct vectors vectors = vectors_load("invalid.tsv");
    size_t seen = 0;

    (void)state;
    for (size_t i = 0; i < vectors.count; i++) {
        const struct vector *const vector = &vectors.items[i];
        unsigned identity = 0;

        if (is_signal(vector)) {
            seen++;
            assert_int_equal(evzmq__ready_read(vector->bytes, vector->size, UINT_MAX, &identity),
                             EVZMQ__READY_MALFORMED);
        }
    }
    assert_true(seen >= 4);
    vectors_free(&vectors);
}

static void every_width_has_its_boundaries(void **state)
{
    static const struct {
        uint64_t number;
        size_t size;
    } cases[] = {
        {0, 1},          {0x7f, 1},       {0x80, 2},
        {0xff, 2},       {0x100, 3},      {0xffff, 3},
        {0x10000, 5},    {0xffffffff, 5}, {UINT64_C(0x100000000), 9},
        {UINT64_MAX, 9},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char bytes[EVZMQ__INTEGER_BYTES_MAX];
        struct evzmq__integer number;
        const size_t size = evzmq__integer_write(bytes, cases[i].number);

        assert_int_equal(size, cases[i].size);
        for (size_t cut = 0; cut < size; cut++) {
            assert_int_equal(evzmq__integer_read(bytes, cut, &number), 0);
        }
        assert_int_equal(evzmq__integer_read(bytes, size, &number), size);
        assert_false(number.negative);
        assert_true(number.bits == cases[i].number);
    }
}

static void signed_forms_are_read_with_their_sign(void **state)
{
    struct evzmq__integer number;

    (void)state;
    assert_int_equal(evzmq__integer_read((const unsigned char *)"\xe0", 1, &number), 1);
    assert_true(number.negative && (int64_t)number.bits == -32);
    assert_int_equal(evzmq__integer_read((const unsigned char *)"\xd0\x80", 2, &number), 2);
    assert_true(number.negative && (int64_t)number.bits == -128);
    assert_int_equal(evzmq__integer_read((const unsigned char *)"\xd1\x01\x00", 3, &number), 3);
    assert_true(!number.negative && number.bits == 256);
    for (unsigned first = 0x80; first < 0xe0; first++) {
        unsigned char bytes[9] = {(unsigned char)first};

        if (first < 0xcc || first > 0xd3) {
            assert_int_equal(evzmq__integer_read(bytes, sizeof bytes, &number), 0);
        }
    }
}

static void headers_are_read_as_they_were_written_and_are_as_short_as_they_can_be(void **state)
{
    static const struct evzmq__header cases[] = {
        {0, 0, 0}, {3, 0, 0}, {3, 1, 0}, {3, 0, EVZMQ_POOL_FLAG_MORE}, {4095, 1000000, 3},
    };
    static const size_t sizes[] = {1, 1, 2, 3, 3 + 5 + 1};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char bytes[EVZMQ__HEADER_BYTES_MAX];
        struct evzmq__header header;
        const size_t size = evzmq__header_write(bytes, &cases[i]);

        assert_int_equal(size, sizes[i]);
        assert_true(evzmq__header_read(bytes, size, 4096, &header));
        assert_int_equal(header.identity, cases[i].identity);
        assert_int_equal(header.start, cases[i].start);
        assert_int_equal(header.flags, cases[i].flags);
        assert_false(evzmq__header_read(bytes, size, cases[i].identity, &header));
        assert_false(evzmq__header_read(bytes, 0, 4096, &header));
    }
}

static void headers_of_anything_but_one_to_three_numbers_are_none(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {
        {"\x01\x01\x01\x01", 4}, {"\xff", 1},
        {"\x01\xff", 2},         {"\x01\xa0", 2},
        {"\x01\xcd\x01", 3},     {"\x01\x00\xcf\x00\x00\x00\x01\x00\x00\x00\x00", 11},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct evzmq__header header;

        assert_false(evzmq__header_read(cases[i].bytes, cases[i].size, 4096, &header));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_signals_are_read_and_written_to_the_same_bytes),
        cmocka_unit_test(other_integers_are_read_and_negative_ones_are_out_of_range),
        cmocka_unit_test(what_is_rejected_elsewhere_is_malformed),
        cmocka_unit_test(every_width_has_its_boundaries),
        cmocka_unit_test(signed_forms_are_read_with_their_sign),
        cmocka_unit_test(headers_are_read_as_they_were_written_and_are_as_short_as_they_can_be),
        cmocka_unit_test(headers_of_anything_but_one_to_three_numbers_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
