/*
 * test_msgpack.c: the msgpack_object codec: the same trees as msgpack-c's, without what msgpack-c
 * lets a peer do.
 */
#include "msgpack_tree.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "allocator.h"
#include "arena.h"
#include "vectors.h"

static void vectors_become_the_tree_that_msgpack_makes(void **state)
{
    (void)state;
    static const char *const files[] = {"vectors.tsv", "accept.tsv"};
    size_t compared = 0;
    for (size_t f = 0; f < 2; f++) {
        struct vectors vectors = vectors_load(files[f]);
        for (size_t i = 0; i < vectors.count; i++) {
            const struct vector *const vector = &vectors.items[i];
            const msgpack_object *const tree = decode(vector->bytes, vector->size);
            msgpack_unpacked unpacked;
            msgpack_unpacked_init(&unpacked);
            size_t used = 0;
            const msgpack_unpack_return result =
                msgpack_unpack_next(&unpacked, (const char *)vector->bytes, vector->size, &used);
            if (result == MSGPACK_UNPACK_NOMEM_ERROR) {
                /* What msgpack-c says to more than 32 levels. */
                msgpack_unpacked_destroy(&unpacked);
                evzmq_arena_reset(here.arena);
                continue;
            }
            assert_int_equal(result, MSGPACK_UNPACK_SUCCESS);
            compared += 1;
            /* Compared as msgpack-c writes them: a NaN would not be equal to itself. */
            msgpack_sbuffer expected;
            msgpack_sbuffer_init(&expected);
            msgpack_packer packer;
            msgpack_packer_init(&packer, &expected, msgpack_sbuffer_write);
            assert_int_equal(msgpack_pack_object(&packer, unpacked.data), 0);
            encodes_to(tree, expected.data, expected.size);
            msgpack_sbuffer_destroy(&expected);
            msgpack_unpacked_destroy(&unpacked);
            evzmq_arena_reset(here.arena);
        }
        vectors_free(&vectors);
    }
    assert_true(compared > 100);
}

static void canonical_vectors_are_encoded_to_the_same_bytes(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("vectors.tsv");
    for (size_t i = 0; i < vectors.count; i++) {
        encodes_to(decode(vectors.items[i].bytes, vectors.items[i].size), vectors.items[i].bytes,
                   vectors.items[i].size);
        evzmq_arena_reset(here.arena);
    }
    vectors_free(&vectors);
}

static void prefixes_of_vectors_are_truncated(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("vectors.tsv");
    for (size_t i = 0; i < vectors.count; i++) {
        for (size_t size = 0; size < vectors.items[i].size; size++) {
            /* Memory of exactly that size: a sanitizer sees a read beyond it. */
            void *const prefix = malloc(size > 0 ? size : 1);
            assert_non_null(prefix);
            memcpy(prefix, vectors.items[i].bytes, size);
            const void *value = NULL;
            struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
            assert_int_equal(
                evzmq_codec_decode(here.codec, prefix, size, here.arena, &value, &error), -1);
            assert_int_equal(error.kind, EVZMQ_DECODE_TRUNCATED);
            assert_true(error.offset <= size);
            free(prefix);
        }
    }
    vectors_free(&vectors);
}

/* Reads everything that the tree says is there. */
static size_t visit(const msgpack_object *object)
{
    size_t sum = 1;
    switch (object->type) {
    case MSGPACK_OBJECT_ARRAY:
        for (uint32_t i = 0; i < object->via.array.size; i++) {
            sum += visit(&object->via.array.ptr[i]);
        }
        break;
    case MSGPACK_OBJECT_MAP:
        for (uint32_t i = 0; i < object->via.map.size; i++) {
            sum += visit(&object->via.map.ptr[i].key) + visit(&object->via.map.ptr[i].val);
        }
        break;
    case MSGPACK_OBJECT_STR:
        for (uint32_t i = 0; i < object->via.str.size; i++) {
            sum += (unsigned char)object->via.str.ptr[i];
        }
        break;
    case MSGPACK_OBJECT_BIN:
        for (uint32_t i = 0; i < object->via.bin.size; i++) {
            sum += (unsigned char)object->via.bin.ptr[i];
        }
        break;
    case MSGPACK_OBJECT_EXT:
        for (uint32_t i = 0; i < object->via.ext.size; i++) {
            sum += (unsigned char)object->via.ext.ptr[i];
        }
        break;
    default:
        break;
    }
    return sum;
}

static void vectors_with_one_byte_changed_are_decoded_or_refused_cleanly(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("vectors.tsv");
    size_t decoded = 0;
    size_t refused = 0;
    for (size_t i = 0; i < vectors.count; i++) {
        unsigned char *const bytes = vectors.items[i].bytes;
        const size_t size = vectors.items[i].size;
        const size_t step = size > 64 ? size / 64 + 1 : 1;
        for (size_t at = 0; at < size; at += step) {
            const unsigned char good = bytes[at];
            for (unsigned change = 1; change < 256; change++) {
                bytes[at] = (unsigned char)(good ^ change);
                const void *value = NULL;
                struct evzmq_decode_error error = {EVZMQ_DECODE_OK, SIZE_MAX};
                if (evzmq_codec_decode(here.codec, bytes, size, here.arena, &value, &error) == 0) {
                    decoded += visit(value) > 0;
                } else {
                    assert_in_range(error.kind, EVZMQ_DECODE_OK + 1, EVZMQ_DECODE_KINDS - 1);
                    assert_true(error.offset <= size);
                    refused += 1;
                }
                evzmq_arena_reset(here.arena);
            }
            bytes[at] = good;
        }
    }
    assert_true(decoded > 10000 && refused > 10000);
    vectors_free(&vectors);
}

static void hostile_counts_are_refused_without_any_allocation(void **state)
{
    (void)state;
    refuses(here.codec, "\xdd\xff\xff\xff\xff", 5, EVZMQ_DECODE_TRUNCATED, 0);
    refuses(here.codec, "\xdf\xff\xff\xff\xff", 5, EVZMQ_DECODE_TRUNCATED, 0);
    refuses(here.codec, "\xdd\x0f\xff\xff\xff", 5, EVZMQ_DECODE_TRUNCATED, 0);
    refuses(here.codec, "\xdd\x05\xf5\xe1\x00", 5, EVZMQ_DECODE_TRUNCATED, 0);
    refuses(here.codec, "\xdc\xff\xff", 3, EVZMQ_DECODE_TRUNCATED, 0);
    refuses(here.codec, "\xde\xff\xff", 3, EVZMQ_DECODE_TRUNCATED, 0);
    char nested[160];
    for (size_t i = 0; i < 32; i++) {
        memcpy(nested + 3 * i, "\xdc\xff\xff", 3);
    }
    refuses(here.codec, nested, 96, EVZMQ_DECODE_TRUNCATED, 0);
    for (size_t i = 0; i < 32; i++) {
        memcpy(nested + 5 * i, "\xdd\x0f\xff\xff\xff", 5);
    }
    refuses(here.codec, nested, 160, EVZMQ_DECODE_TRUNCATED, 0);
    refuses(here.codec, "\xdb\xff\xff\xff\xffx", 6, EVZMQ_DECODE_TRUNCATED, 0);
    refuses(here.codec, "\xc6\xff\xff\xff\xffx", 6, EVZMQ_DECODE_TRUNCATED, 0);
    refuses(here.codec, "\xc9\xff\xff\xff\xff\x05", 6, EVZMQ_DECODE_MALFORMED, 0);
    refuses(here.codec, "\xc1", 1, EVZMQ_DECODE_MALFORMED, 0);
    refuses(here.codec, "", 0, EVZMQ_DECODE_TRUNCATED, 0);
    refuses(here.codec, NULL, 0, EVZMQ_DECODE_TRUNCATED, 0);
    assert_int_equal(evzmq__arena_get_used(here.arena), 0);
}

enum { MANY = 1024 * 1024 };

static void million_elements_take_24_bytes_each(void **state)
{
    (void)state;
    const size_t size = 5 + MANY;
    char *const bytes = calloc(1, size + 1);
    assert_non_null(bytes);
    memcpy(bytes, "\xdd\x00\x10\x00\x00", 5);
    const msgpack_object *const tree = decode(bytes, size);
    assert_int_equal(tree->via.array.size, MANY);
    assert_true(allocator_get_counts().bytes_peak <= 24 * size + 8192);

    /* One more than the limit on elements. */
    memcpy(bytes, "\xdd\x00\x10\x00\x01", 5);
    refuses(here.codec, bytes, size + 1, EVZMQ_DECODE_ELEMENTS, 0);
    free(bytes);
}

static void memory_limit_is_checked_before_the_allocation(void **state)
{
    (void)state;
    const size_t need = 4 * sizeof(msgpack_object);
    struct evzmq_codec *const enough = new_codec(0, 0, need, 0);
    struct evzmq_codec *const too_little = new_codec(0, 0, need - 1, 0);
    refuses(too_little, "\x93\x01\x02\x03", 4, EVZMQ_DECODE_MEMORY, 0);
    const void *value = NULL;
    assert_int_equal(evzmq_codec_decode(enough, "\x93\x01\x02\x03", 4, here.arena, &value, NULL),
                     0);
    refuses(enough, "\x94\x01\x02\x03\x04", 5, EVZMQ_DECODE_MEMORY, 0);
    evzmq_codec_free(enough);
    evzmq_codec_free(too_little);
}

static size_t nest(char *bytes, size_t depth)
{
    /* Array, map, array, ... around an empty array. */
    size_t size = 0;
    for (size_t i = 0; i + 1 < depth; i++) {
        bytes[size++] = i % 2 == 0 ? '\x91' : '\x81';
        if (i % 2 != 0) {
            bytes[size++] = '\x01';
        }
    }
    bytes[size++] = '\x90';
    return size;
}

static size_t measure_depth(const msgpack_object *object)
{
    size_t depth = 1;
    while (object->type == MSGPACK_OBJECT_MAP || object->via.array.size > 0) {
        object = object->type == MSGPACK_OBJECT_MAP ? &object->via.map.ptr[0].val
                                                    : &object->via.array.ptr[0];
        depth += 1;
    }
    return depth;
}

static void nesting_to_the_limit_is_decoded_and_beyond_it_is_depth(void **state)
{
    (void)state;
    char bytes[2000];
    for (size_t depth = 1; depth <= 40; depth++) {
        const size_t size = nest(bytes, depth);
        assert_int_equal(measure_depth(decode(bytes, size)), depth);
        encodes_to(decode(bytes, size), bytes, size);
    }
    assert_int_equal(measure_depth(decode(bytes, nest(bytes, 512))), 512);
    encodes_to(decode(bytes, nest(bytes, 512)), bytes, nest(bytes, 512));
    refuses(here.codec, bytes, nest(bytes, 513), EVZMQ_DECODE_DEPTH, 768);
    refuses(here.codec, bytes, nest(bytes, 1000), EVZMQ_DECODE_DEPTH, 768);

    struct evzmq_codec *const usual = evzmq_msgpack_codec_new(NULL);
    const void *value = NULL;
    assert_int_equal(evzmq_codec_decode(usual, bytes, nest(bytes, 64), here.arena, &value, NULL),
                     0);
    refuses(usual, bytes, nest(bytes, 65), EVZMQ_DECODE_DEPTH, 96);
    evzmq_codec_free(usual);
}

static void bytes_after_the_value_are_trailing(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("vectors.tsv");
    const struct vector *const vector = &vectors.items[0];
    char bytes[1024] = {0};
    memcpy(bytes, vector->bytes, vector->size);
    for (size_t extra = 1; extra <= 64; extra++) {
        refuses(here.codec, bytes, vector->size + extra, EVZMQ_DECODE_TRAILING, vector->size);
    }
    vectors_free(&vectors);
}

static void invalid_utf8_is_refused_only_when_asked(void **state)
{
    (void)state;
    assert_int_equal(DECODE("\x91\xa2x\xff")->type, MSGPACK_OBJECT_ARRAY);
    struct evzmq_codec *const strict = new_codec(0, 0, 0, 1);
    refuses(strict, "\x91\xa2x\xff", 4, EVZMQ_DECODE_UTF8, 3);
    refuses(strict, "\x81\xa1\xc0\x01", 4, EVZMQ_DECODE_UTF8, 2);
    const void *value = NULL;
    assert_int_equal(evzmq_codec_decode(strict, "\x91\xc4\x01\xff", 4, here.arena, &value, NULL),
                     0);
    evzmq_codec_free(strict);
}

static void tree_read_after_its_arena_was_reset_is_caught_by_asan(void **state)
{
    (void)state;
#ifdef EVZMQ__ARENA_POISON
    const msgpack_object *const tree = DECODE("\x91\x01");
    const msgpack_object *const item = tree->via.array.ptr;
    assert_false(__asan_address_is_poisoned(item));
    evzmq_arena_reset(here.arena);
    assert_true(__asan_address_is_poisoned(tree));
    assert_true(__asan_address_is_poisoned(item));
#else
    skip();
#endif
}

static void decoding_allocates_nothing_once_the_arena_is_warm(void **state)
{
    (void)state;
    struct vectors vectors = vectors_load("vectors.tsv");
    size_t calls = 0;
    for (size_t round = 0; round < 4; round++) {
        for (size_t i = 0; i < vectors.count; i++) {
            (void)decode(vectors.items[i].bytes, vectors.items[i].size);
            evzmq_arena_reset(here.arena);
        }
        if (round == 0) {
            calls = allocator_get_counts().calls;
        }
    }
    assert_int_equal(allocator_get_counts().calls, calls);
    vectors_free(&vectors);
}

static void any_failing_allocation_is_enomem_and_leaks_nothing(void **state)
{
    (void)state;
    bool succeeded = false;
    for (size_t nth = 1; !succeeded; nth++) {
        assert_true(nth < 10);
        allocator_fail_at(nth);
        errno = 0;
        struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
        struct evzmq_arena *const arena = codec != NULL ? evzmq_arena_new() : NULL;
        const void *value = NULL;
        struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 77};
        succeeded =
            arena != NULL && evzmq_codec_decode(codec, "\x91\x01", 2, arena, &value, &error) == 0;
        if (!succeeded) {
            assert_int_equal(errno, ENOMEM);
            assert_null(value);
            assert_int_equal(error.offset, 77);
        }
        if (arena != NULL && !succeeded) {
            /* The same bytes decode when there is memory again. */
            assert_int_equal(evzmq_codec_decode(codec, "\x91\x01", 2, arena, &value, &error), 0);
        }
        evzmq_arena_free(arena);
        evzmq_codec_free(codec);
    }
    allocator_fail_at(0);
}

static void limits_that_cannot_be_are_einval(void **state)
{
    (void)state;
    struct evzmq_msgpack_limits limits = {.size = sizeof(limits)};
    limits.depth_max = EVZMQ_MSGPACK_DEPTH_MAX + 1;
    errno = 0;
    assert_null(evzmq_msgpack_codec_new(&limits));
    assert_int_equal(errno, EINVAL);
    limits.depth_max = 0;
    limits.size = 0;
    errno = 0;
    assert_null(evzmq_msgpack_codec_new(&limits));
    assert_int_equal(errno, EINVAL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(vectors_become_the_tree_that_msgpack_makes),
        claim(canonical_vectors_are_encoded_to_the_same_bytes),
        claim(prefixes_of_vectors_are_truncated),
        claim(vectors_with_one_byte_changed_are_decoded_or_refused_cleanly),
        claim(hostile_counts_are_refused_without_any_allocation),
        claim(million_elements_take_24_bytes_each),
        claim(memory_limit_is_checked_before_the_allocation),
        claim(nesting_to_the_limit_is_decoded_and_beyond_it_is_depth),
        claim(bytes_after_the_value_are_trailing),
        claim(invalid_utf8_is_refused_only_when_asked),
        claim(tree_read_after_its_arena_was_reset_is_caught_by_asan),
        claim(decoding_allocates_nothing_once_the_arena_is_warm),
        claim(any_failing_allocation_is_enomem_and_leaks_nothing),
        claim(limits_that_cannot_be_are_einval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
