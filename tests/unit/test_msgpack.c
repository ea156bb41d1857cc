/*
 * test_msgpack.c: the msgpack_object codec: the same trees as msgpack-c's, without what msgpack-c
 * lets a peer do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include <cmocka.h>

#include <evzmq/msgpack.h>

#include "allocator.h"
#include "arena.h"
#include "codec.h"
#include "vectors.h"

/* A codec and an arena per test. */
struct surroundings {
    struct evzmq_codec *codec; /* the default limits, except the deepest nesting */
    struct evzmq_arena *arena;
};

static struct surroundings here;

static struct evzmq_codec *new_codec(size_t depth, size_t elements, size_t memory, int utf8)
{
    const struct evzmq_msgpack_limits limits = {
        .size = sizeof(limits),
        .depth_max = depth,
        .elements_max = elements,
        .memory_max = memory,
        .validate_utf8 = utf8,
    };
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(&limits);
    assert_non_null(codec);
    return codec;
}

static int set_up(void **state)
{
    (void)state;
    allocator_install();
    here.codec = new_codec(EVZMQ_MSGPACK_DEPTH_MAX, 0, 0, 0);
    here.arena = evzmq_arena_new();
    return here.arena != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    evzmq_codec_free(here.codec);
    evzmq_arena_free(here.arena);
    const size_t blocks = allocator_get_counts().blocks;
    allocator_remove();
    return blocks == 0 ? 0 : -1;
}

static const msgpack_object *decode(const void *bytes, size_t size)
{
    const void *value = NULL;
    assert_int_equal(evzmq_codec_decode(here.codec, bytes, size, here.arena, &value, NULL), 0);
    return value;
}

#define DECODE(literal) decode(literal, sizeof(literal) - 1)

static void refuses(struct evzmq_codec *codec, const void *bytes, size_t size,
                    enum evzmq_decode_kind kind, size_t offset)
{
    const void *value = NULL;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    const size_t calls = allocator_get_counts().calls;
    errno = 0;
    assert_int_equal(evzmq_codec_decode(codec, bytes, size, here.arena, &value, &error), -1);
    assert_int_equal(errno, EBADMSG);
    assert_string_equal(evzmq_decode_kind_name(error.kind), evzmq_decode_kind_name(kind));
    assert_int_equal(error.offset, offset);
    assert_null(value);
    assert_int_equal(allocator_get_counts().calls, calls);
}

/* Encodes with the codec, in memory of exactly the size that it announced. */
static char *encode(const msgpack_object *value, size_t *out_size)
{
    assert_int_equal(evzmq_codec_encoded_size(here.codec, value, out_size), 0);
    char *const bytes = malloc(*out_size);
    assert_non_null(bytes);
    assert_int_equal(evzmq_codec_encode(here.codec, value, bytes, *out_size), 0);
    return bytes;
}

static void encodes_to(const msgpack_object *value, const void *bytes, size_t size)
{
    size_t encoded_size = 0;
    char *const encoded = encode(value, &encoded_size);
    assert_int_equal(encoded_size, size);
    assert_memory_equal(encoded, bytes, size);
    free(encoded);
}

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

static void map_as_a_map_key_is_decoded(void **state)
{
    (void)state;
    const char bytes[] = "\x82\x81\x01\x92\x02\x03\x81\x04\x80\x90\x05";
    const msgpack_object *const tree = decode(bytes, sizeof(bytes) - 1);
    const msgpack_object_kv *const pairs = tree->via.map.ptr;
    assert_int_equal(pairs[0].key.via.map.ptr[0].key.via.u64, 1);
    assert_int_equal(pairs[0].key.via.map.ptr[0].val.via.array.ptr[1].via.u64, 3);
    assert_int_equal(pairs[0].val.via.map.ptr[0].key.via.u64, 4);
    assert_int_equal(pairs[0].val.via.map.ptr[0].val.type, MSGPACK_OBJECT_MAP);
    assert_int_equal(pairs[1].key.type, MSGPACK_OBJECT_ARRAY);
    assert_int_equal(pairs[1].val.via.u64, 5);
    encodes_to(tree, bytes, sizeof(bytes) - 1);
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

static void integers_keep_their_value_at_the_ends_of_every_width(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        uint64_t value;
    } positive[] = {
        {"\x00", 1, 0},
        {"\x7f", 1, 127},
        {"\xcc\xff", 2, UINT8_MAX},
        {"\xcd\xff\xff", 3, UINT16_MAX},
        {"\xce\xff\xff\xff\xff", 5, UINT32_MAX},
        {"\xcf\x80\x00\x00\x00\x00\x00\x00\x00", 9, (uint64_t)INT64_MAX + 1},
        {"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9, UINT64_MAX},
        {"\xd0\x7f", 2, INT8_MAX},
        {"\xd1\x7f\xff", 3, INT16_MAX},
        {"\xd2\x7f\xff\xff\xff", 5, INT32_MAX},
        {"\xd3\x7f\xff\xff\xff\xff\xff\xff\xff", 9, INT64_MAX},
        {"\xd3\x00\x00\x00\x00\x00\x00\x00\x00", 9, 0},
    };
    for (size_t i = 0; i < sizeof(positive) / sizeof(positive[0]); i++) {
        const msgpack_object *const tree = decode(positive[i].bytes, positive[i].size);
        assert_int_equal(tree->type, MSGPACK_OBJECT_POSITIVE_INTEGER);
        assert_true(tree->via.u64 == positive[i].value);
    }
    static const struct {
        const char *bytes;
        size_t size;
        int64_t value;
    } negative[] = {
        {"\xff", 1, -1},
        {"\xe0", 1, -32},
        {"\xd0\x80", 2, INT8_MIN},
        {"\xd1\x80\x00", 3, INT16_MIN},
        {"\xd2\x80\x00\x00\x00", 5, INT32_MIN},
        {"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", 9, INT64_MIN},
    };
    for (size_t i = 0; i < sizeof(negative) / sizeof(negative[0]); i++) {
        const msgpack_object *const tree = decode(negative[i].bytes, negative[i].size);
        assert_int_equal(tree->type, MSGPACK_OBJECT_NEGATIVE_INTEGER);
        assert_true(tree->via.i64 == negative[i].value);
        encodes_to(tree, negative[i].bytes, negative[i].size);
    }
}

static void scalars_have_the_types_of_msgpack(void **state)
{
    (void)state;
    const msgpack_object *const tree =
        DECODE("\x96\xc0\xc2\xc3\xca\x3f\xc0\x00\x00\xcb\xbf\xf8\x00\x00\x00\x00\x00\x00\xd4\xfe"
               "\x07");
    const msgpack_object *const items = tree->via.array.ptr;
    assert_int_equal(items[0].type, MSGPACK_OBJECT_NIL);
    assert_int_equal(items[1].type, MSGPACK_OBJECT_BOOLEAN);
    assert_false(items[1].via.boolean);
    assert_true(items[2].via.boolean);
    assert_int_equal(items[3].type, MSGPACK_OBJECT_FLOAT32);
    assert_true(items[3].via.f64 > 1.49 && items[3].via.f64 < 1.51);
    assert_int_equal(items[4].type, MSGPACK_OBJECT_FLOAT64);
    assert_true(items[4].via.f64 < -1.49 && items[4].via.f64 > -1.51);
    assert_int_equal(items[5].type, MSGPACK_OBJECT_EXT);
    assert_int_equal(items[5].via.ext.type, -2);
    assert_int_equal(items[5].via.ext.size, 1);
    assert_int_equal(*items[5].via.ext.ptr, 7);
}

static void strings_point_into_the_message(void **state)
{
    (void)state;
    static const char bytes[] = "\x93\xa3xyz\xc4\x02\x01\x02\xd5\x05pq";
    const msgpack_object *const items = decode(bytes, sizeof(bytes) - 1)->via.array.ptr;
    assert_ptr_equal(items[0].via.str.ptr, bytes + 2);
    assert_int_equal(items[0].via.str.size, 3);
    assert_ptr_equal(items[1].via.bin.ptr, bytes + 7);
    assert_int_equal(items[1].via.bin.size, 2);
    assert_ptr_equal(items[2].via.ext.ptr, bytes + 11);
    assert_int_equal(items[2].via.ext.size, 2);
}

static void empty_strings_have_an_address(void **state)
{
    (void)state;
    static const char bytes[] = "\x96\xa0\xd9\x00\xc4\x00\xc7\x00\x05\xa1x\xa0";
    const msgpack_object *const items = decode(bytes, sizeof(bytes) - 1)->via.array.ptr;
    assert_non_null(items[0].via.str.ptr);
    assert_non_null(items[1].via.str.ptr);
    assert_non_null(items[2].via.bin.ptr);
    assert_non_null(items[3].via.ext.ptr);
    assert_int_equal(items[3].via.ext.type, 5);
    assert_int_equal(items[3].via.ext.size, 0);
    assert_int_equal(items[5].via.str.size, 0);
    assert_in_range((uintptr_t)items[5].via.str.ptr, (uintptr_t)bytes,
                    (uintptr_t)bytes + sizeof(bytes) - 1);
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

static void duplicate_keys_are_kept_in_order(void **state)
{
    (void)state;
    const msgpack_object *const tree = DECODE("\x83\xa1k\x01\xa1k\x02\xa1k\x01");
    assert_int_equal(tree->via.map.size, 3);
    assert_int_equal(tree->via.map.ptr[0].val.via.u64, 1);
    assert_int_equal(tree->via.map.ptr[1].val.via.u64, 2);
    assert_int_equal(tree->via.map.ptr[2].val.via.u64, 1);
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

static void encoding_takes_the_shortest_form_at_every_boundary(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0,         0x7f,    0x80,        0xff,         0x100,
                                       0xffff,    0x10000, 0xffffffffu, 0x100000000u, INT64_MAX,
                                       UINT64_MAX};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        for (int negative = 0; negative < 2; negative++) {
            msgpack_object object = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER};
            object.via.u64 = numbers[i];
            if (negative != 0) {
                object.type = MSGPACK_OBJECT_NEGATIVE_INTEGER;
                object.via.i64 = -1 - (int64_t)(numbers[i] >> 1);
            }
            size_t size = 0;
            free(encode(&object, &size));
            /* A second codec's opinion of the size: msgpack-c's own buffer. */
            msgpack_sbuffer buffer;
            msgpack_sbuffer_init(&buffer);
            msgpack_packer packer;
            msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
            assert_int_equal(msgpack_pack_object(&packer, object), 0);
            encodes_to(&object, buffer.data, buffer.size);
            msgpack_sbuffer_destroy(&buffer);
        }
    }
}

static void encoding_of_every_length_is_what_msgpack_writes(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {0,  1,  2,  3,  4,   5,   8,   15,    16,
                                       17, 31, 32, 33, 255, 256, 257, 65535, 65536};
    msgpack_object *const items = calloc(2 * 65536, sizeof(*items));
    char *const bytes = calloc(1, 65536);
    assert_non_null(items);
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        msgpack_object objects[5] = {{.type = MSGPACK_OBJECT_STR},
                                     {.type = MSGPACK_OBJECT_BIN},
                                     {.type = MSGPACK_OBJECT_EXT},
                                     {.type = MSGPACK_OBJECT_ARRAY},
                                     {.type = MSGPACK_OBJECT_MAP}};
        objects[0].via.str = (msgpack_object_str){lengths[i], bytes};
        objects[1].via.bin = (msgpack_object_bin){lengths[i], bytes};
        objects[2].via.ext = (msgpack_object_ext){-1, lengths[i], bytes};
        objects[3].via.array = (msgpack_object_array){lengths[i], items};
        objects[4].via.map = (msgpack_object_map){lengths[i], (msgpack_object_kv *)items};
        for (size_t j = 0; j < 5; j++) {
            msgpack_sbuffer buffer;
            msgpack_sbuffer_init(&buffer);
            msgpack_packer packer;
            msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
            assert_int_equal(msgpack_pack_object(&packer, objects[j]), 0);
            encodes_to(&objects[j], buffer.data, buffer.size);
            msgpack_sbuffer_destroy(&buffer);
        }
    }
    free(bytes);
    free(items);
}

static void does_not_encode(const msgpack_object *object)
{
    size_t size = 77;
    char buffer[64];
    errno = 0;
    assert_int_equal(evzmq_codec_encoded_size(here.codec, object, &size), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(size, 77);
    errno = 0;
    assert_int_equal(evzmq_codec_encode(here.codec, object, buffer, sizeof(buffer)), -1);
    assert_int_equal(errno, EINVAL);
}

static void objects_that_are_none_are_einval(void **state)
{
    (void)state;
    msgpack_object object = {.type = (msgpack_object_type)0x77};
    does_not_encode(&object);
    object.type = MSGPACK_OBJECT_ARRAY;
    object.via.array = (msgpack_object_array){1, NULL};
    does_not_encode(&object);
    object.type = MSGPACK_OBJECT_MAP;
    object.via.map = (msgpack_object_map){1, NULL};
    does_not_encode(&object);
    object.type = MSGPACK_OBJECT_STR;
    object.via.str = (msgpack_object_str){1, NULL};
    does_not_encode(&object);
}

static void tree_deeper_than_the_most_is_einval(void **state)
{
    (void)state;
    enum { DEPTH = 600 };
    static msgpack_object chain[DEPTH];
    for (size_t i = 0; i < DEPTH; i++) {
        chain[i].type = MSGPACK_OBJECT_ARRAY;
        chain[i].via.array.size = i + 1 < DEPTH ? 1 : 0;
        chain[i].via.array.ptr = i + 1 < DEPTH ? &chain[i + 1] : NULL;
    }
    size_t size = 0;
    char buffer[DEPTH];
    assert_int_equal(evzmq_codec_encoded_size(here.codec, &chain[DEPTH - 512], &size), 0);
    assert_int_equal(size, 512);
    assert_int_equal(evzmq_codec_encode(here.codec, &chain[DEPTH - 512], buffer, 512), 0);
    errno = 0;
    assert_int_equal(evzmq_codec_encoded_size(here.codec, &chain[DEPTH - 513], &size), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(evzmq_codec_encode(here.codec, &chain[0], buffer, DEPTH), -1);
    assert_int_equal(errno, EINVAL);
}

static void buffer_of_another_size_is_einval_and_never_exceeded(void **state)
{
    (void)state;
    const msgpack_object *const tree = DECODE("\x92\xa3xyz\x01");
    char bytes[8];
    for (size_t size = 0; size <= sizeof(bytes); size++) {
        memset(bytes, 0x5a, sizeof(bytes));
        errno = 0;
        const int result = evzmq_codec_encode(here.codec, tree, bytes, size);
        assert_int_equal(result, size == 6 ? 0 : -1);
        assert_int_equal(errno, size == 6 ? 0 : EINVAL);
        for (size_t i = size; i < sizeof(bytes); i++) {
            assert_int_equal(bytes[i], 0x5a);
        }
    }
}

static void only_messages_of_this_codec_have_a_tree(void **state)
{
    (void)state;
    struct evzmq_message *const message = evzmq_message_new();
    assert_non_null(message);
    assert_int_equal(evzmq_message_add(message, "\x91\x07", 2), 0);
    assert_null(evzmq_msgpack_value(message));
    assert_int_equal(evzmq_message_decode(message, evzmq_codec_raw(), NULL), 0);
    assert_non_null(evzmq_message_get_value(message));
    assert_null(evzmq_msgpack_value(message));
    assert_int_equal(evzmq_message_decode(message, here.codec, NULL), 0);
    assert_int_equal(evzmq_msgpack_value(message)->via.array.ptr[0].via.u64, 7);
    evzmq_message_free(message);
    assert_null(evzmq_msgpack_value(NULL));
}

#define claim(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(vectors_become_the_tree_that_msgpack_makes),
        claim(canonical_vectors_are_encoded_to_the_same_bytes),
        claim(prefixes_of_vectors_are_truncated),
        claim(vectors_with_one_byte_changed_are_decoded_or_refused_cleanly),
        claim(hostile_counts_are_refused_without_any_allocation),
        claim(million_elements_take_24_bytes_each),
        claim(memory_limit_is_checked_before_the_allocation),
        claim(nesting_to_the_limit_is_decoded_and_beyond_it_is_depth),
        claim(map_as_a_map_key_is_decoded),
        claim(bytes_after_the_value_are_trailing),
        claim(integers_keep_their_value_at_the_ends_of_every_width),
        claim(scalars_have_the_types_of_msgpack),
        claim(strings_point_into_the_message),
        claim(empty_strings_have_an_address),
        claim(invalid_utf8_is_refused_only_when_asked),
        claim(duplicate_keys_are_kept_in_order),
        claim(tree_read_after_its_arena_was_reset_is_caught_by_asan),
        claim(decoding_allocates_nothing_once_the_arena_is_warm),
        claim(any_failing_allocation_is_enomem_and_leaks_nothing),
        claim(limits_that_cannot_be_are_einval),
        claim(encoding_takes_the_shortest_form_at_every_boundary),
        claim(encoding_of_every_length_is_what_msgpack_writes),
        claim(objects_that_are_none_are_einval),
        claim(tree_deeper_than_the_most_is_einval),
        claim(buffer_of_another_size_is_einval_and_never_exceeded),
        claim(only_messages_of_this_codec_have_a_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
