/*
 * Frames of publishers: written by batches, read record by record; and the prefixes of topics.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "batch.h"
#include "prefixes.h"
#include "pubframe.h"

#define FRAME_MAX 1000000

static void add(struct evzmq__batch *batch, const void *data, size_t size)
{
    assert_true(evzmq__batch_fits(batch, size, FRAME_MAX));
    void *room = evzmq__batch_reserve(batch, size, FRAME_MAX);
    assert_non_null(room);
    if (size > 0) {
        memcpy(room, data, size);
    }
    evzmq__batch_commit(batch, size);
}

/* Reads a frame and checks that it holds `count` records that fill_pattern() made. */
static void assert_records(struct evzmq_bytes frame, const char *topic, enum evzmq__frame_kind kind,
                           size_t count, const size_t *sizes)
{
    struct evzmq__frame_reader reader;
    struct evzmq__topic got;
    struct evzmq_decode_error error;
    struct evzmq_bytes record;
    assert_int_equal(evzmq__frame_open(&reader, frame.data, frame.size, &got, &error), 0);
    assert_string_equal(got.text, topic);
    assert_int_equal(got.size, strlen(topic));
    assert_int_equal(reader.kind, kind);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(evzmq__frame_next(&reader, frame.data, frame.size, &record, &error),
                         EVZMQ__FRAME_GIVES);
        assert_int_equal(record.size, sizes[i]);
        assert_pattern(record.data, record.size, (unsigned)i);
    }
    assert_int_equal(evzmq__frame_next(&reader, frame.data, frame.size, &record, &error),
                     EVZMQ__FRAME_ENDS);
}

static void batch_of_any_sizes_is_read_back(void **state)
{
    /* Around the widths of a bin's length and of an array's. */
    static const size_t sizes[] = {0, 1, 255, 256, 65535, 65536, 7, 0, 3, 1, 1, 1, 1, 1, 1, 1, 1};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    static unsigned char bytes[65536];
    (void)state;
    for (size_t first = 0; first < COUNT; first++) {
        struct evzmq__batch batch = {.topic = "topic"};
        for (size_t count = 1; first + count <= COUNT; count++) {
            const size_t size = sizes[first + count - 1];
            fill_pattern(bytes, size, (unsigned)(count - 1));
            add(&batch, bytes, size);
            /* The frame is made after each record: making it spoils nothing. */
            if (count == 1) {
                assert_records(evzmq__batch_frame(&batch, count % 2), "topic", EVZMQ__FRAME_RECORD,
                               1, &sizes[first]);
            } else {
                assert_records(evzmq__batch_frame(&batch, false), "batch",
                               EVZMQ__FRAME_BATCH_SHARED, count, &sizes[first]);
                assert_records(evzmq__batch_frame(&batch, true), "topic", EVZMQ__FRAME_BATCH_MARKED,
                               count, &sizes[first]);
            }
        }
        evzmq__batch_release(&batch);
    }
}

static void batch_of_very_many_records_is_read_back(void **state)
{
    struct evzmq__batch batch = {.topic = "topic"};
    size_t *sizes = calloc(70000, sizeof(*sizes));
    (void)state;
    assert_non_null(sizes);
    for (size_t i = 0; i < 70000; i++) {
        add(&batch, NULL, 0);
    }
    assert_records(evzmq__batch_frame(&batch, false), "batch", EVZMQ__FRAME_BATCH_SHARED, 70000,
                   sizes);
    evzmq__batch_release(&batch);
    free(sizes);
}

static void batch_never_exceeds_its_limit_and_fills_it(void **state)
{
    (void)state;
    for (size_t limit = 64; limit < 700; limit++) {
        struct evzmq__batch batch = {.topic = "t"};
        size_t size = limit % 13;
        while (evzmq__batch_fits(&batch, size, limit)) {
            assert_non_null(evzmq__batch_reserve(&batch, size, limit));
            memset(batch.bytes + (batch.used > 0 ? batch.used : 45) + 2, 'x', size);
            evzmq__batch_commit(&batch, size);
        }
        assert_true(batch.records > 0);
        assert_true(batch.capacity <= limit);
        assert_true(evzmq__batch_frame(&batch, false).size <= limit);
        assert_true(batch.used + 2 + size > limit);
        evzmq__batch_release(&batch);
    }
    const struct evzmq__batch empty = {.used = 0};
    assert_false(evzmq__batch_fits(&empty, SIZE_MAX, 1000));
    assert_false(evzmq__batch_fits(&empty, SIZE_MAX - 50, 1000));
}

static void batch_without_memory_stays_as_it_is(void **state)
{
    struct evzmq__batch batch = {.topic = "t"};
    const size_t sizes[] = {100, 1000};
    unsigned char bytes[1000];
    (void)state;
    fill_pattern(bytes, 100, 0);
    add(&batch, bytes, 100);
    allocations_fail_at(1);
    errno = 0;
    assert_null(evzmq__batch_reserve(&batch, 1000, FRAME_MAX));
    assert_int_equal(errno, ENOMEM);
    assert_records(evzmq__batch_frame(&batch, false), "t", EVZMQ__FRAME_RECORD, 1, sizes);
    fill_pattern(bytes, 1000, 1);
    add(&batch, bytes, 1000);
    assert_records(evzmq__batch_frame(&batch, false), "batch", EVZMQ__FRAME_BATCH_SHARED, 2, sizes);
    evzmq__batch_release(&batch);
}

static void only_a_whole_batch_topic_and_a_whole_mark_make_a_batch(void **state)
{
    static const struct {
        const char *topic;
        size_t size;
        enum evzmq__frame_kind kind;
    } cases[] = {
        {"batch", 5, EVZMQ__FRAME_BATCH_SHARED},
        {"batchx", 6, EVZMQ__FRAME_RECORD},
        {"batc", 4, EVZMQ__FRAME_RECORD},
        {"batch\0\0x", 8, EVZMQ__FRAME_RECORD},
        {"", 0, EVZMQ__FRAME_RECORD},
        {"t\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 40,
         EVZMQ__FRAME_BATCH_MARKED},
        {"t\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\2", 40,
         EVZMQ__FRAME_RECORD},
        {"012345678901234567890123456789012345678\1", 40, EVZMQ__FRAME_RECORD},
        {"01234567890123456789012345678901234567\0\1", 40, EVZMQ__FRAME_BATCH_MARKED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct evzmq__frame_reader reader;
        struct evzmq__topic topic;
        struct evzmq_decode_error error;
        unsigned char frame[EVZMQ__TOPIC_BYTES] = "";
        memcpy(frame, cases[i].topic, cases[i].size);
        assert_int_equal(evzmq__frame_open(&reader, frame, sizeof(frame), &topic, &error), 0);
        assert_int_equal(reader.kind, cases[i].kind);
        for (size_t size = 0; size < sizeof(frame); size++) {
            assert_int_equal(evzmq__frame_open(&reader, frame, size, &topic, &error), -1);
            assert_int_equal(error.kind, EVZMQ_DECODE_TRUNCATED);
            assert_int_equal(error.offset, size);
        }
    }
}

static void topic_matches_by_any_prefix_that_is_left(void **state)
{
    struct evzmq__prefixes prefixes = {.table = {NULL, 0, 0}};
    uint32_t count = 0;
    (void)state;
    assert_false(evzmq__prefixes_match(&prefixes, "abc", 3));
    assert_errno(evzmq__prefixes_remove(&prefixes, "ab", 2, &count), ENOENT);
    assert_ok(evzmq__prefixes_add(&prefixes, "ab", 2, &count));
    assert_int_equal(count, 1);
    assert_ok(evzmq__prefixes_add(&prefixes, "ab", 2, &count));
    assert_int_equal(count, 2);
    assert_ok(evzmq__prefixes_add(&prefixes, "abc", 3, &count));
    assert_true(evzmq__prefixes_match(&prefixes, "ab", 2));
    assert_true(evzmq__prefixes_match(&prefixes, "abd", 3));
    assert_false(evzmq__prefixes_match(&prefixes, "a", 1));
    assert_false(evzmq__prefixes_match(&prefixes, "", 0));
    assert_ok(evzmq__prefixes_remove(&prefixes, "ab", 2, &count));
    assert_true(evzmq__prefixes_match(&prefixes, "abd", 3));
    assert_ok(evzmq__prefixes_remove(&prefixes, "ab", 2, &count));
    assert_int_equal(count, 0);
    assert_false(evzmq__prefixes_match(&prefixes, "abd", 3));
    assert_true(evzmq__prefixes_match(&prefixes, "abcd", 4));
    assert_ok(evzmq__prefixes_add(&prefixes, "", 0, &count));
    assert_true(evzmq__prefixes_match(&prefixes, "", 0));
    assert_true(evzmq__prefixes_match(&prefixes, "x", 1));
    evzmq__prefixes_clear(&prefixes);
}

static void prefix_without_memory_is_not_there(void **state)
{
    struct evzmq__prefixes prefixes = {.table = {NULL, 0, 0}};
    uint32_t count = 0;
    (void)state;
    for (long n = 1; n <= 2; n++) { /* The prefix; the table. */
        allocations_fail_at(n);
        assert_errno(evzmq__prefixes_add(&prefixes, "a", 1, &count), ENOMEM);
        assert_false(evzmq__prefixes_match(&prefixes, "a", 1));
    }
    allocations_fail_at(0);
    for (int i = 0; i < 1000; i++) {
        char text[8];
        const int size = snprintf(text, sizeof(text), "%d", i);
        assert_ok(evzmq__prefixes_add(&prefixes, text, (size_t)size, &count));
    }
    assert_int_equal(prefixes.table.count, 1000);
    evzmq__prefixes_clear(&prefixes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(batch_of_any_sizes_is_read_back),
        claim(batch_of_very_many_records_is_read_back),
        claim(batch_never_exceeds_its_limit_and_fills_it),
        claim(batch_without_memory_stays_as_it_is),
        claim(only_a_whole_batch_topic_and_a_whole_mark_make_a_batch),
        claim(topic_matches_by_any_prefix_that_is_left),
        claim(prefix_without_memory_is_not_there),
    };
    return run_claims(tests);
}
