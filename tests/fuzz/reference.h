/**
 * @file reference.h
 * A second opinion on what is msgpack: msgpack_unpack_next() of msgpack-c.
 */
#ifndef TESTS_FUZZ_REFERENCE_H
#define TESTS_FUZZ_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <msgpack.h>

/** msgpack-c's own limit, at which it was compiled. */
#define REFERENCE_DEPTH_MAX 32

struct reference {
    bool accepted; /**< a value, and not a byte more */
    bool too_deep; /**< refused, and it may be that only the depth was at fault */
    size_t depth; /**< containers inside one another; what follows is of an accepted value */
    size_t elements; /**< array elements plus map keys and map values, at all depths */
    msgpack_unpacked unpacked;
};

/** Decodes bytes, which must outlive the result. msgpack-c is not asked about those with a
 * container that declares more than follows, since it asks malloc() for as much: they are refused.
 */
void reference_decode(struct reference *reference, const uint8_t *data, size_t size);

/** Whether an accepted value is the same as another tree. */
bool reference_equals(const struct reference *reference, const msgpack_object *tree);

void reference_free(struct reference *reference);

#endif /* TESTS_FUZZ_REFERENCE_H */
