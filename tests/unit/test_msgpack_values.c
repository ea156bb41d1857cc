/*
 * test_msgpack_values.c: the values of the msgpack_object codec, decoded and encoded.
 */
#include "msgpack_tree.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

static void duplicate_keys_are_kept_in_order(void **state)
{
    (void)state;
    const msgpack_object *const tree = DECODE("\x83\xa1k\x01\xa1k\x02\xa1k\x01");
    assert_int_equal(tree->via.map.size, 3);
    assert_int_equal(tree->via.map.ptr[0].val.via.u64, 1);
    assert_int_equal(tree->via.map.ptr[1].val.via.u64, 2);
    assert_int_equal(tree->via.map.ptr[2].val.via.u64, 1);
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

/* The library prints nothing; this is for programs that do. The longest double has 317 characters
 * with msgpack-c's "%f". */
static void what_msgpack_c_prints_is_cut_off_at_the_end_of_the_buffer(void **state)
{
    (void)state;
    enum { ROOM = 400 };
    const msgpack_object *const tree = DECODE("\x92\xcb\xff\xef\xff\xff\xff\xff\xff\xff\xa3xyz");
    for (size_t room = 0; room <= ROOM; room++) {
        char *const buffer = malloc(ROOM + 1);
        assert_non_null(buffer);
        memset(buffer, 0x5a, ROOM + 1);
        (void)msgpack_object_print_buffer(buffer, room, *tree);
        for (size_t i = room; i <= ROOM; i++) {
            assert_int_equal(buffer[i], 0x5a);
        }
        free(buffer);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(map_as_a_map_key_is_decoded),
        claim(integers_keep_their_value_at_the_ends_of_every_width),
        claim(scalars_have_the_types_of_msgpack),
        claim(strings_point_into_the_message),
        claim(empty_strings_have_an_address),
        claim(duplicate_keys_are_kept_in_order),
        claim(encoding_takes_the_shortest_form_at_every_boundary),
        claim(encoding_of_every_length_is_what_msgpack_writes),
        claim(objects_that_are_none_are_einval),
        claim(tree_deeper_than_the_most_is_einval),
        claim(buffer_of_another_size_is_einval_and_never_exceeded),
        claim(only_messages_of_this_codec_have_a_tree),
        claim(what_msgpack_c_prints_is_cut_off_at_the_end_of_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
