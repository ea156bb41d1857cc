/*
 * The check that makes echo_bench fail when a record was lost, reordered or changed on its way.
 * Over its own sockets nothing of that happens, so here the check is fed by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <evzmq/evzmq.h>

#include "bench/records.h"
#include "bench/typed.h"

#define CHARS 32u
#define RECORD_SIZE_MAX 256u

/* A record as it is on the wire. */
struct record {
    unsigned char bytes[RECORD_SIZE_MAX];
    size_t size;
};

static void make_records(enum bench_type type, size_t chars, struct record *out, size_t count)
{
    struct record_source source;
    assert_int_equal(record_source_init(&source, type, chars, RECORD_PACKED), 0);
    for (size_t i = 0; i < count; i++) {
        out[i].size = record_source_next(&source);
        assert_in_range(out[i].size, 1, RECORD_SIZE_MAX);
        assert_int_equal(record_source_write(&source, out[i].bytes), 0);
    }
    record_source_clear(&source);
}

static void feed_bytes(struct record_check *check, const struct record *record)
{
    record_check_bytes(check, record->bytes, record->size);
}

static void feed_tree(struct record_check *check, const struct record *record)
{
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    const int complete = msgpack_unpack_next(&unpacked, (const char *)record->bytes, record->size,
                                             NULL) == MSGPACK_UNPACK_SUCCESS;
    record_check_tree(check, complete ? &unpacked.data : NULL);
    msgpack_unpacked_destroy(&unpacked);
}

typedef void (*feed_fn)(struct record_check *check, const struct record *record);

static const feed_fn feeds[] = {feed_bytes, feed_tree};

/* Feeds the records of the order, which ends with a negative number. */
static struct record_check feed(feed_fn one, enum bench_type type, const struct record *records,
                                const int *order)
{
    struct record_check check;
    record_check_init(&check, type, CHARS);
    for (; *order >= 0; order++) {
        one(&check, &records[*order]);
    }
    return check;
}

/* Both checks of every type say the same of an order. NULL: that all is well. */
static void expect(const int *order, const char *reason)
{
    for (unsigned type = 0; type < BENCH_TYPES; type++) {
        struct record records[12];
        make_records((enum bench_type)type, CHARS, records, 12);
        for (size_t i = 0; i < sizeof(feeds) / sizeof(feeds[0]); i++) {
            const struct record_check check = feed(feeds[i], (enum bench_type)type, records, order);
            assert_int_equal(check.failed, reason != NULL);
            assert_string_equal(check.reason, reason == NULL ? "" : reason);
        }
    }
}

static void records_in_their_order_are_well(void **state)
{
    (void)state;
    expect((const int[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -1}, NULL);
}

static void a_lost_record_is_noticed(void **state)
{
    (void)state;
    expect((const int[]){1, -1}, "lost or reordered: record 1 came when 0 was due");
    expect((const int[]){0, 1, 3, 4, -1}, "lost or reordered: record 3 came when 2 was due");
    expect((const int[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, -1},
           "lost or reordered: record 11 came when 10 was due");
}

static void swapped_records_are_noticed(void **state)
{
    (void)state;
    expect((const int[]){0, 2, 1, 3, -1}, "lost or reordered: record 2 came when 1 was due");
}

static void a_record_that_comes_twice_is_noticed(void **state)
{
    (void)state;
    expect((const int[]){0, 1, 1, 2, -1}, "lost or reordered: record 1 came when 2 was due");
}

/* Wherever a record is cut, the tree check has no tree; the byte check looks up to the id. */
static void a_cut_record_is_noticed(void **state)
{
    (void)state;
    for (unsigned type = 0; type < BENCH_TYPES; type++) {
        struct record record;
        make_records((enum bench_type)type, CHARS, &record, 1);
        for (record.size--; record.size > 0; record.size--) {
            const struct record_check check =
                feed(feed_tree, (enum bench_type)type, &record, (const int[]){0, -1});
            assert_true(check.failed);
            assert_non_null(strstr(check.reason, "record 0 is not the"));
        }
        record.size = 1;
        assert_true(feed(feed_bytes, (enum bench_type)type, &record, (const int[]){0, -1}).failed);
    }
}

static void a_record_of_another_type_or_length_is_noticed(void **state)
{
    (void)state;
    for (unsigned type = 0; type < BENCH_TYPES; type++) {
        struct record record;
        const int order[] = {0, -1};
        make_records((enum bench_type)type, CHARS + 1, &record, 1);
        assert_true(feed(feed_tree, (enum bench_type)type, &record, order).failed);
        for (unsigned other = 0; other < BENCH_TYPES; other++) {
            make_records((enum bench_type)other, CHARS, &record, 1);
            assert_int_equal(feed(feed_tree, (enum bench_type)type, &record, order).failed,
                             type != other);
        }
    }
}

static void what_is_no_record_is_noticed(void **state)
{
    (void)state;
    static const char *const texts[] = {"\xc0", "\x90", "\x94\xc0\xc0\xc0\xc0", "\x80", "text"};
    for (unsigned type = 0; type < BENCH_TYPES; type++) {
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
            struct record record = {.size = strlen(texts[i])};
            memcpy(record.bytes, texts[i], record.size);
            for (size_t j = 0; j < sizeof(feeds) / sizeof(feeds[0]); j++) {
                assert_true(
                    feed(feeds[j], (enum bench_type)type, &record, (const int[]){0, -1}).failed);
            }
        }
    }
}

static void typed_records_are_checked_alike(void **state)
{
    (void)state;
    char text[CHARS + 1];
    memset(text, 'x', sizeof(text));
    for (unsigned type = 0; type < BENCH_TYPES; type++) {
        struct typed_record record;
        struct record_check check;
        assert_int_equal(typed_record_init(&record, (enum bench_type)type, text, CHARS), 0);
        record_check_init(&check, (enum bench_type)type, CHARS);
        typed_record_set_id(&record, "0", 1);
        typed_record_check(&check, &record.as);
        assert_false(check.failed);
        typed_record_set_id(&record, "2", 1);
        typed_record_check(&check, &record.as);
        assert_true(check.failed);
        assert_string_equal(check.reason, "lost or reordered: record 2 came when 1 was due");
        typed_record_clear(&record);

        assert_int_equal(typed_record_init(&record, (enum bench_type)type, text, 0), 0);
        record_check_init(&check, (enum bench_type)type, CHARS);
        typed_record_set_id(&record, "0", 1);
        typed_record_check(&check, &record.as);
        assert_true(check.failed);
        typed_record_clear(&record);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_in_their_order_are_well),
        cmocka_unit_test(a_lost_record_is_noticed),
        cmocka_unit_test(swapped_records_are_noticed),
        cmocka_unit_test(a_record_that_comes_twice_is_noticed),
        cmocka_unit_test(a_cut_record_is_noticed),
        cmocka_unit_test(a_record_of_another_type_or_length_is_noticed),
        cmocka_unit_test(what_is_no_record_is_noticed),
        cmocka_unit_test(typed_records_are_checked_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
