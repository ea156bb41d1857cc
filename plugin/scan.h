/*
 * scan.h (L4): the check that comes before anything is believed of a msgpack message: one pass over
 * its bytes, without recursion and without allocation, that says where a value ends and what its
 * tree takes.
 *
 * A peer can declare four billion elements in five bytes. So each container's count is held against
 * the bytes that follow, together with what all containers around it still wait for (an element is
 * at least one byte): whatever passes has at most as many elements as bytes.
 *
 * The offset of an error is that of the byte at fault:
 *
 *   TRUNCATED        the first byte of the value that cannot be completed: a scalar whose bytes are
 *                    not all there, a container that declares more than can follow, or the end of
 *                    the bytes where a value is missing altogether
 *   TRAILING         the first byte after the value
 *   MALFORMED        the 0xc1, or the first byte of the extension whose length no decoder can have
 *   DEPTH, ELEMENTS  the first byte of the container that goes beyond the limit
 *   UTF8             the first byte of the sequence that is not UTF-8, within its string
 *
 * The first fault in the order of the bytes is the one reported; of several in the same value
 * MALFORMED comes before TRUNCATED, then DEPTH, then ELEMENTS.
 */
#ifndef EVZMQ_PLUGIN_SCAN_H
#define EVZMQ_PLUGIN_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include <evzmq/codec.h>

/* The deepest nesting that can be allowed. The pass keeps one counter per open container. */
#define EVZMQ__SCAN_DEPTH_MAX 512

struct evzmq__scan_limits {
    size_t depth_max; /* containers inside one another, empty ones included */
    size_t elements_max; /* as evzmq__scan_result::elements */
    bool validate_utf8; /* of every str, map keys included */
};

struct evzmq__scan_result {
    size_t used; /* bytes of the value */
    size_t elements; /* array elements plus map keys and map values, at all depths */
};

/*
 * Checks the one value at the front of the bytes; what follows it is not looked at. depth_max above
 * EVZMQ__SCAN_DEPTH_MAX counts as that.
 *
 * Returns 0 with *out_result set, or -1 with *out_error set.
 */
int evzmq__scan(const void *data, size_t size, const struct evzmq__scan_limits *limits,
                struct evzmq__scan_result *out_result, struct evzmq_decode_error *out_error);

/* The same for bytes that have to be one value and nothing else. */
int evzmq__scan_whole(const void *data, size_t size, const struct evzmq__scan_limits *limits,
                      struct evzmq__scan_result *out_result, struct evzmq_decode_error *out_error);

#endif /* EVZMQ_PLUGIN_SCAN_H */
