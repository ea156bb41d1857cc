/*
 * reference.c: see reference.h.
 */
#include "reference.h"

#include <string.h>

#include "fuzz.h"

static uint64_t read_number(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) {
        number = number << 8 | bytes[i];
    }
    return number;
}

/* One value or one container's header. Returns how many bytes it takes, of which fewer may be
 * there; *out_count is how many values a container says follow. */
static uint64_t measure_token(const uint8_t *bytes, size_t size, uint64_t *out_count)
{
    static const uint8_t fixed[] = {2, 3, 5, 9, 2, 3, 5, 9, 3, 4, 6, 10, 18}; /* from 0xcc on */
    const unsigned first = bytes[0];
    *out_count = 0;
    if (first >= 0x80 && first <= 0x9f) {
        *out_count = (uint64_t)(first & 0x0f) << (first < 0x90);
        return 1;
    }
    if (first >= 0xa0 && first <= 0xbf) {
        return 1 + (first & 0x1f);
    }
    if (first == 0xca || first == 0xcb) {
        return first == 0xca ? 5 : 9;
    }
    if (first >= 0xcc && first <= 0xd8) {
        return fixed[first - 0xcc];
    }
    const bool is_container = first >= 0xdc && first <= 0xdf;
    const bool is_text = first >= 0xd9 && first <= 0xdb;
    if (!is_container && !is_text && (first < 0xc4 || first > 0xc9)) {
        return 1;
    }
    const size_t width = is_container ? (first % 2 == 0 ? 2u : 4u)
                         : is_text    ? (size_t)1 << (first - 0xd9)
                                      : (size_t)1 << (first - 0xc4) % 3;
    if (size < 1 + width) {
        return 1 + width;
    }
    const uint64_t number = read_number(bytes + 1, width);
    if (is_container) {
        *out_count = number << (first >= 0xde);
        return 1 + width;
    }
    return 1 + width + (first >= 0xc7 && first <= 0xc9) + number;
}

/* Whether some container says that it has more values than bytes follow. It cannot be whole then,
 * and msgpack-c would first ask for the memory of all of them. */
static bool declares_too_much(const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        uint64_t count = 0;
        const uint64_t token = measure_token(bytes, size, &count);
        if (token > size) {
            return false;
        }
        bytes += token;
        size -= (size_t)token;
        if (count > size) {
            return true;
        }
    }
    return false;
}

static void measure(struct reference *reference, const msgpack_object *object, size_t depth)
{
    const bool is_map = object->type == MSGPACK_OBJECT_MAP;
    if (!is_map && object->type != MSGPACK_OBJECT_ARRAY) {
        return;
    }
    reference->depth = depth > reference->depth ? depth : reference->depth;
    const uint32_t count = is_map ? object->via.map.size : object->via.array.size;
    reference->elements += is_map ? 2 * (size_t)count : count;
    for (uint32_t i = 0; i < count; i++) {
        measure(reference, is_map ? &object->via.map.ptr[i].key : &object->via.array.ptr[i],
                depth + 1);
        if (is_map) {
            measure(reference, &object->via.map.ptr[i].val, depth + 1);
        }
    }
}

void reference_decode(struct reference *reference, const uint8_t *data, size_t size)
{
    size_t used = 0;
    memset(reference, 0, sizeof(*reference));
    msgpack_unpacked_init(&reference->unpacked);
    if (declares_too_much(data, size)) {
        return;
    }
    const msgpack_unpack_return result =
        msgpack_unpack_next(&reference->unpacked, (const char *)data, size, &used);
    reference->accepted = result == MSGPACK_UNPACK_SUCCESS && used == size;
    reference->too_deep = result == MSGPACK_UNPACK_NOMEM_ERROR;
    if (reference->accepted) {
        measure(reference, &reference->unpacked.data, 1);
    }
}

static void pack(msgpack_sbuffer *buffer, const msgpack_object *tree)
{
    msgpack_packer packer;
    msgpack_sbuffer_init(buffer);
    msgpack_packer_init(&packer, buffer, msgpack_sbuffer_write);
    check(msgpack_pack_object(&packer, *tree) == 0, "the tree can be packed");
}

/* Not with msgpack_object_equal(), for which a NaN is not equal to itself. */
bool reference_equals(const struct reference *reference, const msgpack_object *tree)
{
    msgpack_sbuffer ours;
    msgpack_sbuffer theirs;
    pack(&ours, tree);
    pack(&theirs, &reference->unpacked.data);
    const bool equal = ours.size == theirs.size && memcmp(ours.data, theirs.data, ours.size) == 0;
    msgpack_sbuffer_destroy(&ours);
    msgpack_sbuffer_destroy(&theirs);
    return equal;
}

void reference_free(struct reference *reference)
{
    msgpack_unpacked_destroy(&reference->unpacked);
}
