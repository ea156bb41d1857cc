/*
 * msgpack.c (L4): the msgpack_object codec. Decoding: scan.c checks the whole message and counts
 * its elements, one block for all of them is cut from the arena, and msgpack-c's own unpacking
 * template fills it. msgpack_unpack_next() would do the same with a zone of its own, and would
 * allocate what a peer declares before it looks whether the bytes are there.
 *
 * Encoding: one walk over the tree for the size, one for the bytes. Both keep their way back in an
 * array instead of recursing as msgpack_pack_object() does, so that a tree that is too deep is an
 * error and not the end of the stack.
 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The depth of the template's stack, which the scan guarantees: defined before any header of
 * msgpack-c, whose default is 32. */
#define MSGPACK_EMBED_STACK_SIZE EVZMQ_MSGPACK_DEPTH_MAX

#include <evzmq/msgpack.h>

#include "arena.h"
#include "base.h"
#include "codec.h"
#include "scan.h"

_Static_assert(EVZMQ_MSGPACK_DEPTH_MAX <= EVZMQ__SCAN_DEPTH_MAX, "the scan can count that deep");
_Static_assert(sizeof(msgpack_object_kv) == 2 * sizeof(msgpack_object),
               "a map pair takes as much memory as two array elements");

struct msgpack_state {
    struct evzmq__scan_limits limits;
    size_t memory_max;
};

/*
 * The unpacking template's callbacks.
 *
 * What the template passes around as an object is the place of one in the tree: values are written
 * where they stay, and 8 bytes are copied on their way instead of 24. The places follow from the
 * order of the bytes. A container's elements take the next free objects of the block, one after the
 * other (a map's key, value, key, value); the value after the container goes where it would have
 * gone had the container been a scalar.
 */

struct tree_user {
    const char *data; /* of the message */
    msgpack_object *next; /* where the next value goes */
    msgpack_object *free; /* the rest of the block that was cut for the tree */
};

static inline msgpack_object *tree_callback_root(struct tree_user *user)
{
    return user->next;
}

/* The place of a value that has no elements. */
static inline msgpack_object *place(struct tree_user *user, msgpack_object_type type,
                                    msgpack_object **out)
{
    msgpack_object *const object = user->next;
    user->next = object + 1;
    object->type = type;
    *out = object;
    return object;
}

static inline int place_unsigned(struct tree_user *user, uint64_t value, msgpack_object **out)
{
    place(user, MSGPACK_OBJECT_POSITIVE_INTEGER, out)->via.u64 = value;
    return 0;
}

static inline int place_signed(struct tree_user *user, int64_t value, msgpack_object **out)
{
    /* A positive number is POSITIVE_INTEGER whatever form it came in; the bits are the same. */
    const msgpack_object_type type =
        value < 0 ? MSGPACK_OBJECT_NEGATIVE_INTEGER : MSGPACK_OBJECT_POSITIVE_INTEGER;
    place(user, type, out)->via.i64 = value;
    return 0;
}

#define TREE_INTEGER(name, type, function)                                                         \
    static inline int tree_callback_##name(struct tree_user *user, type value,                     \
                                           msgpack_object **out)                                   \
    {                                                                                              \
        return function(user, value, out);                                                         \
    }

TREE_INTEGER(uint8, uint8_t, place_unsigned)
TREE_INTEGER(uint16, uint16_t, place_unsigned)
TREE_INTEGER(uint32, uint32_t, place_unsigned)
TREE_INTEGER(uint64, uint64_t, place_unsigned)
TREE_INTEGER(int8, int8_t, place_signed)
TREE_INTEGER(int16, int16_t, place_signed)
TREE_INTEGER(int32, int32_t, place_signed)
TREE_INTEGER(int64, int64_t, place_signed)

static inline int tree_callback_float(struct tree_user *user, float value, msgpack_object **out)
{
    place(user, MSGPACK_OBJECT_FLOAT32, out)->via.f64 = (double)value;
    return 0;
}

static inline int tree_callback_double(struct tree_user *user, double value, msgpack_object **out)
{
    place(user, MSGPACK_OBJECT_FLOAT64, out)->via.f64 = value;
    return 0;
}

static inline int tree_callback_nil(struct tree_user *user, msgpack_object **out)
{
    place(user, MSGPACK_OBJECT_NIL, out)->via.u64 = 0;
    return 0;
}

static inline int tree_callback_true(struct tree_user *user, msgpack_object **out)
{
    place(user, MSGPACK_OBJECT_BOOLEAN, out)->via.boolean = true;
    return 0;
}

static inline int tree_callback_false(struct tree_user *user, msgpack_object **out)
{
    place(user, MSGPACK_OBJECT_BOOLEAN, out)->via.boolean = false;
    return 0;
}

/* For an empty string the template's position is whatever it was before, or NULL: the message's
 * first byte is as good an address and can be given to any function. */
static inline const char *get_bytes(const struct tree_user *user, const char *position,
                                    unsigned int length)
{
    return length > 0 ? position : user->data;
}

static inline int tree_callback_str(struct tree_user *user, const char *base, const char *position,
                                    unsigned int length, msgpack_object **out)
{
    (void)base;
    msgpack_object *const object = place(user, MSGPACK_OBJECT_STR, out);
    object->via.str.size = length;
    object->via.str.ptr = get_bytes(user, position, length);
    return 0;
}

static inline int tree_callback_bin(struct tree_user *user, const char *base, const char *position,
                                    unsigned int length, msgpack_object **out)
{
    (void)base;
    msgpack_object *const object = place(user, MSGPACK_OBJECT_BIN, out);
    object->via.bin.size = length;
    object->via.bin.ptr = get_bytes(user, position, length);
    return 0;
}

/* Position and length include the type byte. */
static inline int tree_callback_ext(struct tree_user *user, const char *base, const char *position,
                                    unsigned int length, msgpack_object **out)
{
    (void)base;
    msgpack_object *const object = place(user, MSGPACK_OBJECT_EXT, out);
    object->via.ext.type = (int8_t)*position;
    object->via.ext.size = length - 1;
    object->via.ext.ptr = length > 1 ? position + 1 : user->data;
    return 0;
}

static inline int tree_callback_array(struct tree_user *user, size_t count, msgpack_object **out)
{
    msgpack_object *const object = place(user, MSGPACK_OBJECT_ARRAY, out);
    object->via.array.size = (uint32_t)count;
    object->via.array.ptr = user->free;
    if (count > 0) {
        user->next = user->free;
        user->free += count;
    }
    return 0;
}

/* Called after each element. After the last one the container is complete. */
static inline int tree_callback_array_item(struct tree_user *user, msgpack_object **array,
                                           msgpack_object *item)
{
    (void)item;
    if (user->next == (*array)->via.array.ptr + (*array)->via.array.size) {
        user->next = *array + 1;
    }
    return 0;
}

static inline int tree_callback_map(struct tree_user *user, size_t count, msgpack_object **out)
{
    msgpack_object *const object = place(user, MSGPACK_OBJECT_MAP, out);
    object->via.map.size = (uint32_t)count;
    object->via.map.ptr = (msgpack_object_kv *)user->free;
    if (count > 0) {
        user->next = user->free;
        user->free += 2 * count;
    }
    return 0;
}

static inline int tree_callback_map_item(struct tree_user *user, msgpack_object **map,
                                         msgpack_object *key, msgpack_object *value)
{
    (void)key;
    (void)value;
    if (user->next == (msgpack_object *)((*map)->via.map.ptr + (*map)->via.map.size)) {
        user->next = *map + 1;
    }
    return 0;
}

/* The template expands to code that mixes widths and falls through cases; its macros are not to
 * leak either. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
#define msgpack_unpack_struct(name) struct tree##name
#define msgpack_unpack_func(type, name) static inline type tree##name
#define msgpack_unpack_callback(name) tree_callback##name
#define msgpack_unpack_object struct msgpack_object *
#define msgpack_unpack_user struct tree_user
#include <msgpack/unpack_define.h>
#include <msgpack/unpack_template.h>
#pragma GCC diagnostic pop

_Static_assert(MSGPACK_EMBED_STACK_SIZE >= EVZMQ_MSGPACK_DEPTH_MAX,
               "no header of msgpack-c came first with a smaller stack");

/* Makes the tree of a value that was scanned. */
static int make_tree(const struct msgpack_state *codec, const void *data,
                     const struct evzmq__scan_result *scanned, struct evzmq_arena *arena,
                     const void **out_value, struct evzmq_decode_error *out_error)
{
    /* No overflow: an element is at least one byte, and memory_max is checked before it counts. */
    const size_t objects_max = codec->memory_max / sizeof(msgpack_object);
    out_error->offset = 0;
    if (scanned->elements >= objects_max) {
        out_error->kind = EVZMQ_DECODE_MEMORY;
        return -1;
    }
    msgpack_object *const objects =
        evzmq__arena_cut(arena, (scanned->elements + 1) * sizeof(msgpack_object));
    if (objects == NULL) {
        out_error->kind = EVZMQ_DECODE_NOMEM;
        return -1;
    }
    struct tree_context context;
    context.user.data = data;
    context.user.next = objects;
    context.user.free = objects + 1;
    tree_init(&context);
    size_t offset = 0;
    const int result = tree_execute(&context, data, scanned->used, &offset);
    const bool agree = result == 1 && offset == scanned->used;
    assert(agree && context.user.free == objects + 1 + scanned->elements);
    if (!agree) {
        out_error->kind = EVZMQ_DECODE_MALFORMED;
        return -1;
    }
    *out_value = tree_data(&context);
    return 0;
}

static int tree_decode(const void *state, const void *data, size_t size, struct evzmq_arena *arena,
                       const void **out_value, struct evzmq_decode_error *out_error)
{
    const struct msgpack_state *const codec = state;
    struct evzmq__scan_result scanned;
    if (evzmq__scan_whole(data, size, &codec->limits, &scanned, out_error) != 0) {
        return -1;
    }
    return make_tree(codec, data, &scanned, arena, out_value, out_error);
}

static int tree_decode_prefix(const void *state, const void *data, size_t size,
                              struct evzmq_arena *arena, const void **out_value, size_t *out_used,
                              struct evzmq_decode_error *out_error)
{
    const struct msgpack_state *const codec = state;
    struct evzmq__scan_result scanned;
    if (evzmq__scan(data, size, &codec->limits, &scanned, out_error) != 0) {
        return -1;
    }
    *out_used = scanned.used;
    return make_tree(codec, data, &scanned, arena, out_value, out_error);
}

/* The walk over a tree. */

/* The values of a container that the walk has not come to yet. A map's pairs are so many objects
 * one after the other. */
struct rest {
    const msgpack_object *next;
    size_t count;
};

/* What is done at every value: before its elements, when it is a container. Fails with errno. */
typedef int (*visit_fn)(void *user, const msgpack_object *object);

static inline struct rest get_elements(const msgpack_object *object)
{
    struct rest rest = {NULL, 0};
    if (object->type == MSGPACK_OBJECT_ARRAY) {
        rest.next = object->via.array.ptr;
        rest.count = object->via.array.size;
    } else if (object->type == MSGPACK_OBJECT_MAP) {
        rest.next = object->via.map.ptr != NULL ? &object->via.map.ptr[0].key : NULL;
        rest.count = (size_t)object->via.map.size * 2;
    }
    return rest;
}

static inline int walk(const msgpack_object *root, visit_fn visit, void *user)
{
    struct rest open[EVZMQ_MSGPACK_DEPTH_MAX];
    size_t depth = 0;
    struct rest rest = {root, 1};
    for (;;) {
        while (rest.count == 0) {
            if (depth == 0) {
                return 0;
            }
            rest = open[--depth];
        }
        const msgpack_object *const object = rest.next++;
        rest.count -= 1;
        if (visit(user, object) != 0) {
            return -1;
        }
        if (object->type != MSGPACK_OBJECT_ARRAY && object->type != MSGPACK_OBJECT_MAP) {
            continue;
        }
        const struct rest elements = get_elements(object);
        if (depth == EVZMQ_MSGPACK_DEPTH_MAX || (elements.next == NULL && elements.count > 0)) {
            errno = EINVAL;
            return -1;
        }
        open[depth++] = rest;
        rest = elements;
    }
}

static size_t unsigned_size(uint64_t value)
{
    if (value < 0x80) {
        return 1;
    }
    return value <= UINT8_MAX ? 2 : value <= UINT16_MAX ? 3 : value <= UINT32_MAX ? 5 : 9;
}

static size_t signed_size(int64_t value)
{
    if (value >= 0) {
        return unsigned_size((uint64_t)value);
    }
    if (value >= -32) {
        return 1;
    }
    return value >= INT8_MIN ? 2 : value >= INT16_MIN ? 3 : value >= INT32_MIN ? 5 : 9;
}

/* Of a string's or binary's header. Below fix_end, which is 0 for binaries, the length is within
 * the first byte. */
static size_t length_size(size_t length, size_t fix_end)
{
    if (length < fix_end) {
        return 1;
    }
    return length <= UINT8_MAX ? 2 : length <= UINT16_MAX ? 3 : 5;
}

static size_t count_size(size_t count)
{
    return count < 16 ? 1 : count <= UINT16_MAX ? 3 : 5;
}

static size_t ext_size(size_t length)
{
    const bool is_fix = length == 1 || length == 2 || length == 4 || length == 8 || length == 16;
    return 1 + (is_fix ? 1 : length_size(length, 0));
}

/* Adds up the sizes of headers and scalars. */
static inline int visit_size(void *user, const msgpack_object *object)
{
    size_t header = 0;
    size_t length = 0;
    const void *bytes = object;
    switch (object->type) {
    case MSGPACK_OBJECT_NIL:
    case MSGPACK_OBJECT_BOOLEAN:
        header = 1;
        break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        header = unsigned_size(object->via.u64);
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        header = signed_size(object->via.i64);
        break;
    case MSGPACK_OBJECT_FLOAT32:
        header = 5;
        break;
    case MSGPACK_OBJECT_FLOAT64:
        header = 9;
        break;
    case MSGPACK_OBJECT_STR:
        length = object->via.str.size;
        bytes = object->via.str.ptr;
        header = length_size(length, 32);
        break;
    case MSGPACK_OBJECT_BIN:
        length = object->via.bin.size;
        bytes = object->via.bin.ptr;
        header = length_size(length, 0);
        break;
    case MSGPACK_OBJECT_EXT:
        length = object->via.ext.size;
        bytes = object->via.ext.ptr;
        header = ext_size(length);
        break;
    case MSGPACK_OBJECT_ARRAY:
        header = count_size(object->via.array.size);
        break;
    case MSGPACK_OBJECT_MAP:
        header = count_size(object->via.map.size);
        break;
    }
    if (header == 0 || (bytes == NULL && length > 0)) {
        errno = EINVAL;
        return -1;
    }
    size_t *const total = user;
    if (length > SIZE_MAX - header || *total > SIZE_MAX - header - length) {
        errno = EOVERFLOW;
        return -1;
    }
    *total += header + length;
    return 0;
}

static int tree_encoded_size(const void *state, const void *value, size_t *out_size)
{
    (void)state;
    size_t size = 0;
    if (walk(value, visit_size, &size) != 0) {
        return -1;
    }
    *out_size = size;
    return 0;
}

struct output {
    char *next;
    size_t left;
};

static int write_output(void *data, const char *bytes, size_t size)
{
    struct output *const output = data;
    if (size > output->left || (bytes == NULL && size > 0)) {
        return -1;
    }
    if (size > 0) {
        memcpy(output->next, bytes, size);
        output->next += size;
        output->left -= size;
    }
    return 0;
}

/* Writes a scalar, or the header of a container. msgpack_pack_object() is not used: it would go on
 * into the elements, recursively. */
static inline int pack(msgpack_packer *packer, const msgpack_object *object)
{
    switch (object->type) {
    case MSGPACK_OBJECT_NIL:
        return msgpack_pack_nil(packer);
    case MSGPACK_OBJECT_BOOLEAN:
        return object->via.boolean ? msgpack_pack_true(packer) : msgpack_pack_false(packer);
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        return msgpack_pack_uint64(packer, object->via.u64);
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return msgpack_pack_int64(packer, object->via.i64);
    case MSGPACK_OBJECT_FLOAT32:
        return msgpack_pack_float(packer, (float)object->via.f64);
    case MSGPACK_OBJECT_FLOAT64:
        return msgpack_pack_double(packer, object->via.f64);
    case MSGPACK_OBJECT_STR:
        return msgpack_pack_str_with_body(packer, object->via.str.ptr, object->via.str.size);
    case MSGPACK_OBJECT_BIN:
        return msgpack_pack_bin_with_body(packer, object->via.bin.ptr, object->via.bin.size);
    case MSGPACK_OBJECT_EXT:
        return msgpack_pack_ext_with_body(packer, object->via.ext.ptr, object->via.ext.size,
                                          object->via.ext.type);
    case MSGPACK_OBJECT_ARRAY:
        return msgpack_pack_array(packer, object->via.array.size);
    case MSGPACK_OBJECT_MAP:
        return msgpack_pack_map(packer, object->via.map.size);
    }
    return -1;
}

static inline int visit_write(void *user, const msgpack_object *object)
{
    if (pack(user, object) != 0) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

static int tree_encode(const void *state, const void *value, void *buffer, size_t size)
{
    (void)state;
    struct output output = {buffer, size};
    msgpack_packer packer;
    msgpack_packer_init(&packer, &output, write_output);
    if (walk(value, visit_write, &packer) != 0) {
        return -1;
    }
    if (output.left != 0) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

/* The codec. */

static void tree_destroy(void *state)
{
    evzmq__free(state);
}

static const struct evzmq_codec_methods tree_methods = {
    .size = sizeof(struct evzmq_codec_methods),
    .name = "msgpack",
    .decode = tree_decode,
    .encoded_size = tree_encoded_size,
    .encode = tree_encode,
    .destroy = tree_destroy,
    .decode_prefix = tree_decode_prefix,
};

static size_t or_default(size_t value, size_t fallback)
{
    return value != 0 ? value : fallback;
}

struct evzmq_codec *evzmq_msgpack_codec_new(const struct evzmq_msgpack_limits *limits)
{
    static const struct evzmq_msgpack_limits defaults = {.size = sizeof(defaults)};
    if (limits == NULL) {
        limits = &defaults;
    }
    if (limits->size != sizeof(*limits) || limits->depth_max > EVZMQ_MSGPACK_DEPTH_MAX) {
        errno = EINVAL;
        return NULL;
    }
    struct msgpack_state *const state = evzmq__malloc(sizeof(*state));
    if (state == NULL) {
        return NULL;
    }
    state->limits.depth_max = or_default(limits->depth_max, EVZMQ_MSGPACK_DEPTH_DEFAULT);
    state->limits.elements_max = or_default(limits->elements_max, EVZMQ_MSGPACK_ELEMENTS_DEFAULT);
    state->limits.validate_utf8 = limits->validate_utf8 != 0;
    state->memory_max = or_default(limits->memory_max, EVZMQ_MSGPACK_MEMORY_DEFAULT);
    struct evzmq_codec *const codec = evzmq_codec_new(&tree_methods, state);
    if (codec == NULL) {
        evzmq__free(state);
    }
    return codec;
}

const msgpack_object *evzmq_msgpack_value(const struct evzmq_message *message)
{
    const struct evzmq_codec *const codec = evzmq_message_get_codec(message);
    if (evzmq_codec_get_methods(codec) != &tree_methods) {
        return NULL;
    }
    return evzmq_message_get_value(message);
}
