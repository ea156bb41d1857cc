/*
 * test_cursor.c: walking spans of msgpack, also ones that no codec has checked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <evzmq/cursor.h>

#include "all_kinds.h"

#define ANY(bytes) ((struct evzmq_any){(bytes), sizeof(bytes) - 1})

static void assert_fails(int result, int error)
{
    assert_int_equal(result, -1);
    assert_int_equal(errno, error);
}

static void every_type_is_told_and_read(void **state)
{
    (void)state;
    static const char bytes[] = "\xc0\xc3\xff\xcb\x3f\xf8\0\0\0\0\0\0\xa2hi\xc4\x01\x07\xd4\x05\x09"
                                "\x92\x01\x02\x81\xa1k\xc2";
    struct evzmq_cursor cursor = evzmq_cursor_at(ANY(bytes));
    bool boolean = false;
    int64_t integer = 0;
    double real = 0;
    struct evzmq_str str;
    struct evzmq_bytes bin;
    int8_t type = 0;
    size_t count = 0;
    struct evzmq_any any;
    assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_NIL);
    assert_int_equal(evzmq_cursor_read_nil(&cursor), 0);
    assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_BOOL);
    assert_int_equal(evzmq_cursor_read_bool(&cursor, &boolean), 0);
    assert_true(boolean);
    assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_INTEGER);
    assert_int_equal(evzmq_cursor_read_int64(&cursor, &integer), 0);
    assert_int_equal(integer, -1);
    assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_FLOAT);
    assert_int_equal(evzmq_cursor_read_float64(&cursor, &real), 0);
    assert_true(real == 1.5);
    assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_STR);
    assert_int_equal(evzmq_cursor_read_str(&cursor, &str), 0);
    assert_memory_equal(str.data, "hi", str.size);
    assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_BIN);
    assert_int_equal(evzmq_cursor_read_bin(&cursor, &bin), 0);
    assert_memory_equal(bin.data, "\x07", bin.size);
    assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_EXT);
    assert_int_equal(evzmq_cursor_read_ext(&cursor, &type, &bin), 0);
    assert_int_equal(type, 5);
    assert_int_equal(bin.size, 1);
    assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_ARRAY);
    assert_int_equal(evzmq_cursor_read_array(&cursor, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(evzmq_cursor_read_any(&cursor, &any), 0);
    assert_int_equal(evzmq_cursor_read_any(&cursor, &any), 0);
    assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_MAP);
    assert_int_equal(evzmq_cursor_read_any(&cursor, &any), 0);
    assert_int_equal(any.size, 4);
    assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_END);
    assert_fails(evzmq_cursor_read_nil(&cursor), ENOENT);
    assert_fails(evzmq_cursor_read_any(&cursor, &any), ENOENT);
}

static void a_failed_read_leaves_the_cursor_where_it_was(void **state)
{
    (void)state;
    struct evzmq_cursor cursor = evzmq_cursor_at(ANY("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"));
    const unsigned char *const before = cursor.next;
    int64_t signed_value = 5;
    uint64_t value = 0;
    struct evzmq_str str;
    bool boolean = false;
    size_t count = 0;
    double real = 0;
    assert_fails(evzmq_cursor_read_int64(&cursor, &signed_value), ERANGE);
    assert_int_equal(signed_value, 5);
    assert_fails(evzmq_cursor_read_str(&cursor, &str), EPROTOTYPE);
    assert_fails(evzmq_cursor_read_bool(&cursor, &boolean), EPROTOTYPE);
    assert_fails(evzmq_cursor_read_nil(&cursor), EPROTOTYPE);
    assert_fails(evzmq_cursor_read_array(&cursor, &count), EPROTOTYPE);
    assert_fails(evzmq_cursor_read_map(&cursor, &count), EPROTOTYPE);
    assert_ptr_equal(cursor.next, before);
    struct evzmq_cursor copy = cursor;
    assert_int_equal(evzmq_cursor_read_float64(&copy, &real), 0);
    assert_true(real == 18446744073709551616.0);
    assert_int_equal(evzmq_cursor_read_uint64(&cursor, &value), 0);
    assert_int_equal(value, UINT64_MAX);

    cursor = evzmq_cursor_at(ANY("\xff"));
    assert_fails(evzmq_cursor_read_uint64(&cursor, &value), ERANGE);
    cursor = evzmq_cursor_at(ANY("\xa1x"));
    assert_fails(evzmq_cursor_read_float64(&cursor, &real), EPROTOTYPE);
}

static void missing_arguments_are_refused(void **state)
{
    (void)state;
    struct evzmq_cursor cursor = evzmq_cursor_at(ANY("\x01"));
    struct evzmq_any any = ANY("\x80");
    int8_t type = 0;
    int64_t seconds = 0;
    assert_int_equal(evzmq_cursor_get_type(NULL), EVZMQ_CURSOR_END);
    assert_fails(evzmq_cursor_read_nil(NULL), EINVAL);
    assert_fails(evzmq_cursor_read_bool(&cursor, NULL), EINVAL);
    assert_fails(evzmq_cursor_read_integer(&cursor, NULL), EINVAL);
    assert_fails(evzmq_cursor_read_int64(NULL, &seconds), EINVAL);
    assert_fails(evzmq_cursor_read_uint64(&cursor, NULL), EINVAL);
    assert_fails(evzmq_cursor_read_float64(&cursor, NULL), EINVAL);
    assert_fails(evzmq_cursor_read_str(&cursor, NULL), EINVAL);
    assert_fails(evzmq_cursor_read_bin(&cursor, NULL), EINVAL);
    assert_fails(evzmq_cursor_read_ext(&cursor, &type, NULL), EINVAL);
    assert_fails(evzmq_cursor_read_timestamp(&cursor, &seconds, NULL), EINVAL);
    assert_fails(evzmq_cursor_read_array(&cursor, NULL), EINVAL);
    assert_fails(evzmq_cursor_read_map(&cursor, NULL), EINVAL);
    assert_fails(evzmq_cursor_read_any(&cursor, NULL), EINVAL);
    assert_fails(evzmq_any_find(any, NULL, &any), EINVAL);
    assert_fails(evzmq_any_find(any, "a", NULL), EINVAL);
}

static void timestamps_of_all_three_forms_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        int64_t seconds;
        uint32_t nanoseconds;
    } cases[] = {
        {"\xd6\xff\x65\x93\x7d\x25", 6, 1704164645, 0},
        {"\xd7\xff\xa1\xdc\xd4\x20\x65\x93\x7d\x25", 10, 1704164645, 678901000},
        {"\xc7\x0c\xff\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff", 15, -1, 1},
    };
    int64_t seconds = 0;
    uint32_t nanoseconds = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct evzmq_any any = {cases[i].bytes, cases[i].size};
        struct evzmq_cursor cursor = evzmq_cursor_at(any);
        assert_int_equal(evzmq_cursor_read_timestamp(&cursor, &seconds, &nanoseconds), 0);
        assert_int_equal(seconds, cases[i].seconds);
        assert_int_equal(nanoseconds, cases[i].nanoseconds);
        assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_END);
    }
    struct evzmq_cursor cursor = evzmq_cursor_at(ANY("\xd6\x05\0\0\0\0"));
    assert_fails(evzmq_cursor_read_timestamp(&cursor, &seconds, &nanoseconds), EPROTOTYPE);
    cursor = evzmq_cursor_at(ANY("\xd5\xff\0\0"));
    assert_fails(evzmq_cursor_read_timestamp(&cursor, &seconds, &nanoseconds), EPROTOTYPE);
    cursor = evzmq_cursor_at(ANY("\xd7\xff\xff\xff\xff\xff\0\0\0\0"));
    assert_fails(evzmq_cursor_read_timestamp(&cursor, &seconds, &nanoseconds), ERANGE);
}

static void the_last_of_equal_keys_is_found(void **state)
{
    (void)state;
    static const char bytes[] = "\x84\xa1"
                                "a\x01\x05\x06\xa1"
                                "a\x02\xa0\x03";
    struct evzmq_any value;
    int64_t number = 0;
    assert_int_equal(evzmq_any_find(ANY(bytes), "a", &value), 0);
    struct evzmq_cursor cursor = evzmq_cursor_at(value);
    assert_int_equal(evzmq_cursor_read_int64(&cursor, &number), 0);
    assert_int_equal(number, 2);
    assert_int_equal(evzmq_any_find(ANY(bytes), "", &value), 0);
    assert_memory_equal(value.data, "\x03", 1);
    assert_fails(evzmq_any_find(ANY(bytes), "b", &value), ENOENT);
    assert_fails(evzmq_any_find((struct evzmq_any){NULL, 0}, "a", &value), ENOENT);
    assert_fails(evzmq_any_find(ANY("\x91\x01"), "a", &value), EPROTOTYPE);
    assert_fails(evzmq_any_find(ANY("\x81\xa1"), "a", &value), EBADMSG);
}

/* Reads whatever comes by the function for its type, and skips it when that fails. */
static void walk(struct evzmq_any any)
{
    struct evzmq_cursor cursor = evzmq_cursor_at(any);
    struct evzmq_any skipped;
    struct evzmq_str str;
    struct evzmq_bytes bin;
    struct evzmq_integer integer;
    bool boolean;
    double real;
    int8_t type;
    size_t count;
    for (;;) {
        struct evzmq_cursor whole = cursor;
        (void)evzmq_cursor_read_any(&whole, &skipped);
        int result = -1;
        switch (evzmq_cursor_get_type(&cursor)) {
        case EVZMQ_CURSOR_NIL:
            result = evzmq_cursor_read_nil(&cursor);
            break;
        case EVZMQ_CURSOR_BOOL:
            result = evzmq_cursor_read_bool(&cursor, &boolean);
            break;
        case EVZMQ_CURSOR_INTEGER:
            result = evzmq_cursor_read_integer(&cursor, &integer);
            break;
        case EVZMQ_CURSOR_FLOAT:
            result = evzmq_cursor_read_float64(&cursor, &real);
            break;
        case EVZMQ_CURSOR_STR:
            result = evzmq_cursor_read_str(&cursor, &str);
            break;
        case EVZMQ_CURSOR_BIN:
            result = evzmq_cursor_read_bin(&cursor, &bin);
            break;
        case EVZMQ_CURSOR_EXT:
            result = evzmq_cursor_read_ext(&cursor, &type, &bin);
            break;
        case EVZMQ_CURSOR_ARRAY:
            result = evzmq_cursor_read_array(&cursor, &count);
            break;
        case EVZMQ_CURSOR_MAP:
            result = evzmq_cursor_read_map(&cursor, &count);
            break;
        default:
            break;
        }
        if (result != 0) {
            return;
        }
        assert_true(cursor.next <= cursor.end);
    }
}

static void unchecked_bytes_are_never_read_beyond(void **state)
{
    (void)state;
    struct random random = {3};
    for (unsigned round = 0; round < 20000; round++) {
        const size_t size = (size_t)random_below(&random, 40);
        unsigned char *const bytes = malloc(size == 0 ? 1 : size);
        assert_non_null(bytes);
        for (size_t i = 0; i < size; i++) {
            bytes[i] =
                (unsigned char)(random_below(&random, 4) == 0 ? random_below(&random, 256)
                                                              : 0x80 + random_below(&random, 0x60));
        }
        const struct evzmq_any any = {bytes, size};
        struct evzmq_any found;
        walk(any);
        (void)evzmq_any_find(any, "a", &found);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_told_and_read),
        cmocka_unit_test(a_failed_read_leaves_the_cursor_where_it_was),
        cmocka_unit_test(missing_arguments_are_refused),
        cmocka_unit_test(timestamps_of_all_three_forms_are_read),
        cmocka_unit_test(the_last_of_equal_keys_is_found),
        cmocka_unit_test(unchecked_bytes_are_never_read_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
