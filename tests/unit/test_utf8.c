/*
 * test_utf8.c: UTF-8 validation against a second, slow opinion: decode to a code point, judge it,
 * encode it again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "utf8.h"

static size_t encode(uint32_t point, unsigned char *out)
{
    if (point < 0x80) {
        out[0] = (unsigned char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (unsigned char)(0xc0 | (point >> 6));
        out[1] = (unsigned char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (unsigned char)(0xe0 | (point >> 12));
        out[1] = (unsigned char)(0x80 | ((point >> 6) & 0x3f));
        out[2] = (unsigned char)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (unsigned char)(0xf0 | (point >> 18));
    out[1] = (unsigned char)(0x80 | ((point >> 12) & 0x3f));
    out[2] = (unsigned char)(0x80 | ((point >> 6) & 0x3f));
    out[3] = (unsigned char)(0x80 | (point & 0x3f));
    return 4;
}

/* The length of a good sequence at bytes, else 0: by arithmetic on the code point. */
static size_t slow_sequence(const unsigned char *bytes, size_t size)
{
    size_t length = 1;
    uint32_t point = bytes[0];
    if (bytes[0] >= 0x80) {
        length = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : 2;
        point = bytes[0] & (0xffu >> (length + 1));
        if (length > size || bytes[0] < 0xc0 || bytes[0] > 0xf7) {
            return 0;
        }
        for (size_t i = 1; i < length; i++) {
            if ((bytes[i] & 0xc0) != 0x80) {
                return 0;
            }
            point = (point << 6) | (bytes[i] & 0x3fu);
        }
    }
    unsigned char again[4];
    if (point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff) ||
        encode(point, again) != length) {
        return 0;
    }
    return length;
}

static bool slow_valid(const unsigned char *bytes, size_t size, size_t *out_offset)
{
    for (size_t i = 0; i < size;) {
        const size_t length = slow_sequence(bytes + i, size - i);
        if (length == 0) {
            *out_offset = i;
            return false;
        }
        i += length;
    }
    return true;
}

/* Both entry points give the slow opinion, on a copy that ends where the bytes end (for ASan). */
static void check(const unsigned char *bytes, size_t size)
{
    unsigned char *copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    if (size != 0) {
        memcpy(copy, bytes, size);
    }
    size_t expected = SIZE_MAX;
    size_t actual = SIZE_MAX;
    size_t field = SIZE_MAX;
    const bool valid = slow_valid(copy, size, &expected);
    assert_int_equal(evzmq__utf8_valid(copy, size, &actual), valid);
    assert_int_equal(evzmq__utf8_valid_field(copy, size, &field), valid);
    assert_true(actual == expected && field == expected);
    free(copy);
}

static void every_code_point_is_judged_as_rfc_3629_has_it(void **state)
{
    (void)state;
    for (uint32_t point = 0; point < 0x200000; point++) {
        unsigned char bytes[4];
        const size_t size = encode(point, bytes);
        const bool scalar = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
        size_t offset = SIZE_MAX;
        assert_int_equal(evzmq__utf8_valid(bytes, size, &offset), scalar);
        assert_true(offset == (scalar ? SIZE_MAX : 0));
    }
}

static void every_pair_and_triple_of_bytes_is_judged_right(void **state)
{
    (void)state;
    unsigned char bytes[4] = {0};
    for (uint32_t pair = 0; pair < 0x10000; pair++) {
        bytes[0] = (unsigned char)(pair >> 8);
        bytes[1] = (unsigned char)pair;
        check(bytes, 1);
        check(bytes, 2);
        for (size_t i = 0; i < 4; i++) {
            static const unsigned char thirds[4] = {0x7f, 0x80, 0xbf, 0xc0};
            bytes[2] = thirds[i];
            check(bytes, 3);
            bytes[3] = thirds[3 - i];
            check(bytes, 4);
        }
    }
}

static void a_fault_is_found_at_every_position_of_every_short_string(void **state)
{
    (void)state;
    static const char *const faults[] = {"\xff",         "\x80",     "\xc0\xaf",
                                         "\xed\xa0\x80", "\xe2\x82", "\xf4\x90\x80\x80"};
    for (size_t size = 0; size <= 200; size++) {
        unsigned char bytes[256];
        memset(bytes, 'x', sizeof(bytes));
        check(bytes, size);
        for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++) {
            const size_t length = strlen(faults[f]);
            for (size_t at = 0; at + length <= size; at++) {
                memset(bytes, 'x', sizeof(bytes));
                memcpy(bytes + at, faults[f], length);
                size_t offset = SIZE_MAX;
                assert_false(evzmq__utf8_valid(bytes, size, &offset));
                assert_true(offset == at);
                check(bytes, size);
            }
        }
    }
}

static void random_mixtures_agree_with_the_slow_opinion(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (unsigned round = 0; round < 100000; round++) {
        unsigned char bytes[160];
        size_t size = 0;
        while (size < 100) {
            random = random * UINT64_C(6364136223846793005) + 1;
            const uint32_t draw = (uint32_t)(random >> 33);
            const uint32_t point = draw % 4 == 0   ? draw / 4 % 0x110000
                                   : draw % 4 == 1 ? draw / 4 % 0x800
                                                   : draw / 4 % 0x80;
            size += encode(point, bytes + size);
        }
        if (round % 2 != 0) {
            bytes[random % size] ^= (unsigned char)(1u << (random >> 61));
        }
        check(bytes, size);
    }
}

static void no_bytes_are_valid_even_at_null(void **state)
{
    (void)state;
    assert_true(evzmq__utf8_valid(NULL, 0, NULL));
    assert_true(evzmq__utf8_valid_field(NULL, 0, NULL));
    assert_false(evzmq__utf8_valid("\xff", 1, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_judged_as_rfc_3629_has_it),
        cmocka_unit_test(every_pair_and_triple_of_bytes_is_judged_right),
        cmocka_unit_test(a_fault_is_found_at_every_position_of_every_short_string),
        cmocka_unit_test(random_mixtures_agree_with_the_slow_opinion),
        cmocka_unit_test(no_bytes_are_valid_even_at_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
