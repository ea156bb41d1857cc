/*
 * reference.c: see reference.h.
 */
#include "reference.h"

#include <string.h>

#include "fuzz.h"

/* Read by AddressSanitizer before main(). What can be decoded of the largest input that is given
 * here takes less; what a hostile one declares takes more, and msgpack-c says NOMEM then. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=256";
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
