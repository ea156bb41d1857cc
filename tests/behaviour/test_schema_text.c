/*
 * test_schema_text.c: the text of typed records, wherever it stands: strings that end a message,
 * the check of UTF-8 in fields and in the pairs of maps, and spans too large for the usual case.
 * Messages are in memory of their own size, so that the sanitizers see a read beyond their end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <evzmq/cursor.h>
#include <evzmq/schema.h>

#include "schema_codec.h"

struct text {
    struct evzmq_str str;
};

static const struct evzmq_field text_fields[] = {
    EVZMQ_FIELD(STR, struct text, str, EVZMQ_REQUIRED),
};
static const struct evzmq_schema text_schema = EVZMQ_SCHEMA(struct text, ARRAY, NULL, text_fields);

struct labels {
    struct evzmq_any map;
};

static const struct evzmq_field labels_fields[] = {
    EVZMQ_FIELD(MAP, struct labels, map, EVZMQ_REQUIRED),
};
static const struct evzmq_schema labels_schema =
    EVZMQ_SCHEMA(struct labels, ARRAY, NULL, labels_fields);

/* Appends the shortest form of a str of x below 64 KiB and gives where its bytes begin. */
static size_t append_str(unsigned char *bytes, size_t *size, size_t length)
{
    if (length < 32) {
        bytes[(*size)++] = (unsigned char)(0xa0 + length);
    } else if (length < 256) {
        bytes[(*size)++] = 0xd9;
        bytes[(*size)++] = (unsigned char)length;
    } else {
        bytes[(*size)++] = 0xda;
        bytes[(*size)++] = (unsigned char)(length >> 8);
        bytes[(*size)++] = (unsigned char)(length & 0xff);
    }
    const size_t start = *size;
    memset(bytes + start, 'x', length);
    *size += length;
    return start;
}

static void strs_of_every_size_may_end_a_message(void **state)
{
    (void)state;
    for (int skip_utf8 = 0; skip_utf8 < 2; skip_utf8++) {
        struct evzmq_codec *const codec = codec_of(&text_schema, skip_utf8);
        for (size_t length = 0; length < 300; length++) {
            unsigned char *const bytes = malloc(length + 4);
            assert_non_null(bytes);
            size_t size = 0;
            bytes[size++] = 0x91;
            const size_t start = append_str(bytes, &size, length);
            unsigned char *const message = malloc(size);
            assert_non_null(message);
            memcpy(message, bytes, size);
            const void *value = NULL;
            assert_int_equal(evzmq_codec_decode(codec, message, size, arena, &value, NULL), 0);
            const struct text *const text = value;
            assert_ptr_equal(text->str.data, message + start);
            assert_int_equal(text->str.size, length);
            evzmq_arena_reset(arena);
            free(message);
            free(bytes);
        }
        evzmq_codec_free(codec);
    }
}

/* Checks that a byte that is no UTF-8 is found at every place of a str, and a character that is
 * UTF-8 accepted. */
static void spoil_str(const struct evzmq_codec *checked, const struct evzmq_codec *unchecked,
                      unsigned char *message, size_t size, size_t start, size_t length)
{
    const void *value = NULL;
    for (size_t i = start; i < start + length; i++) {
        struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
        message[i] = 0xff;
        assert_int_equal(evzmq_codec_decode(checked, message, size, arena, &value, &error), -1);
        assert_int_equal(error.kind, EVZMQ_DECODE_UTF8);
        assert_int_equal(error.offset, i);
        assert_int_equal(evzmq_codec_decode(unchecked, message, size, arena, &value, NULL), 0);
        if (i + 1 < start + length) {
            message[i] = 0xc3;
            message[i + 1] = 0xa4;
            assert_int_equal(evzmq_codec_decode(checked, message, size, arena, &value, NULL), 0);
            message[i + 1] = 'x';
        }
        message[i] = 'x';
        evzmq_arena_reset(arena);
    }
}

static void a_fault_is_found_at_every_place_of_a_pair(void **state)
{
    (void)state;
    struct evzmq_codec *const checked = codec_of(&labels_schema, 0);
    struct evzmq_codec *const unchecked = codec_of(&labels_schema, 1);
    for (size_t key = 0; key < 40; key++) {
        for (size_t value = 0; value < 40; value++) {
            for (size_t tail = 0; tail < 40; tail += 13) { /* what may be read with the pair */
                unsigned char bytes[160] = {0x91, 0x82};
                size_t size = 2;
                const size_t key_start = append_str(bytes, &size, key);
                const size_t value_start = append_str(bytes, &size, value);
                bytes[size++] = 0xa0;
                (void)append_str(bytes, &size, tail);
                unsigned char *const message = malloc(size);
                assert_non_null(message);
                memcpy(message, bytes, size);
                spoil_str(checked, unchecked, message, size, key_start, key);
                spoil_str(checked, unchecked, message, size, value_start, value);
                free(message);
            }
        }
    }
    evzmq_codec_free(checked);
    evzmq_codec_free(unchecked);
}

static void a_fault_is_found_in_text_of_every_length(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 15, 16, 31, 32, 64, 65, 127, 128, 129, 383, 384, 640, 1024};
    struct evzmq_codec *const checked = codec_of(&text_schema, 0);
    struct evzmq_codec *const unchecked = codec_of(&text_schema, 1);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        unsigned char bytes[1028] = {0x91};
        size_t size = 1;
        const size_t start = append_str(bytes, &size, lengths[i]);
        for (size_t shift = 0; shift < 32; shift += 5) { /* long text is read in aligned blocks */
            unsigned char *const memory = malloc(shift + size);
            assert_non_null(memory);
            memcpy(memory + shift, bytes, size);
            spoil_str(checked, unchecked, memory + shift, size, start, lengths[i]);
            free(memory);
        }
    }
    evzmq_codec_free(checked);
    evzmq_codec_free(unchecked);
}

static void spans_of_every_size_are_checked_and_written(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 31, 65535, 1024 * 1024, 1024 * 1024 + 9};
    struct evzmq_codec *const codec = codec_of(&labels_schema, 0);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const size_t span_size = 7 + lengths[i];
        unsigned char *const span = malloc(span_size);
        unsigned char *const message = malloc(span_size + 1);
        assert_non_null(span);
        assert_non_null(message);
        const unsigned char head[] = {0x81,
                                      0xa0,
                                      0xdb,
                                      (unsigned char)(lengths[i] >> 24),
                                      (unsigned char)(lengths[i] >> 16 & 0xff),
                                      (unsigned char)(lengths[i] >> 8 & 0xff),
                                      (unsigned char)(lengths[i] & 0xff)};
        memcpy(span, head, sizeof(head));
        memset(span + sizeof(head), 'x', lengths[i]);
        struct labels labels = {{span, span_size}};
        size_t size = 0;
        assert_int_equal(evzmq_codec_encoded_size(codec, &labels, &size), 0);
        assert_int_equal(size, span_size + 1);
        assert_int_equal(evzmq_codec_encode(codec, &labels, message, size), 0);
        assert_int_equal(message[0], 0x91);
        assert_memory_equal(message + 1, span, span_size);
        labels.map.size--; /* no longer one whole value */
        errno = 0;
        assert_int_equal(evzmq_codec_encoded_size(codec, &labels, &size), -1);
        assert_int_equal(errno, EINVAL);
        free(message);
        free(span);
    }
    evzmq_codec_free(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strs_of_every_size_may_end_a_message),
        cmocka_unit_test(a_fault_is_found_at_every_place_of_a_pair),
        cmocka_unit_test(a_fault_is_found_in_text_of_every_length),
        cmocka_unit_test(spans_of_every_size_are_checked_and_written),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
