/*
 * scan.c (L4): one pass over a msgpack value; scan.h says what it promises.
 *
 * The first byte of a value gives, by table, how many bytes of it must be there at least and what
 * else is to be read from them: most values are done after one look-up and one comparison. Instead
 * of a remaining count per container there is one count of everything still awaited; a container is
 * complete when that falls back to what it was before the container's own elements were added (the
 * floor). So the stack is touched only where containers open and close.
 */
#include "scan.h"

#include <stdint.h>

#include "utf8.h"

/* What a first byte announces. */
enum shape {
    SHAPE_FIXED, /* nothing else: `size` bytes in all */
    SHAPE_STR_FIX, /* a string within its `size` bytes */
    SHAPE_STR, /* a string, after a length that ends the first `size` bytes */
    SHAPE_BIN, /* a binary, likewise */
    SHAPE_EXT, /* an extension, likewise, plus its type byte */
    SHAPE_ARRAY_FIX,
    SHAPE_MAP_FIX,
    SHAPE_ARRAY, /* a container, after a count that ends the first `size` bytes */
    SHAPE_MAP,
    SHAPE_NONE, /* no value begins so */
};

/* A header is a shape and the number of bytes that the value has at least, the first one
 * included. */
#define HEADER(shape, size) ((uint16_t)((shape) << 8 | (size)))

/* clang-format off */
#define FOUR(entry) entry, entry, entry, entry
#define SIXTEEN(entry) FOUR(entry), FOUR(entry), FOUR(entry), FOUR(entry)
#define STR(length) HEADER(SHAPE_STR_FIX, 1 + (length))
#define STR_EIGHT(from) STR(from), STR((from) + 1), STR((from) + 2), STR((from) + 3), \
                        STR((from) + 4), STR((from) + 5), STR((from) + 6), STR((from) + 7)
#define FIXED(size) HEADER(SHAPE_FIXED, size)

static const uint16_t headers[] = {
    /* 00-7f positive integers */
    SIXTEEN(FIXED(1)), SIXTEEN(FIXED(1)), SIXTEEN(FIXED(1)), SIXTEEN(FIXED(1)),
    SIXTEEN(FIXED(1)), SIXTEEN(FIXED(1)), SIXTEEN(FIXED(1)), SIXTEEN(FIXED(1)),
    /* 80-8f maps, 90-9f arrays, a0-bf strings */
    SIXTEEN(HEADER(SHAPE_MAP_FIX, 1)), SIXTEEN(HEADER(SHAPE_ARRAY_FIX, 1)),
    STR_EIGHT(0), STR_EIGHT(8), STR_EIGHT(16), STR_EIGHT(24),
    /* c0 nil, c1 never used, c2 false, c3 true */
    FIXED(1), HEADER(SHAPE_NONE, 1), FIXED(1), FIXED(1),
    /* c4-c6 binaries, c7-c9 extensions */
    HEADER(SHAPE_BIN, 2), HEADER(SHAPE_BIN, 3), HEADER(SHAPE_BIN, 5),
    HEADER(SHAPE_EXT, 2), HEADER(SHAPE_EXT, 3), HEADER(SHAPE_EXT, 5),
    /* ca-cb floats, cc-cf unsigned and d0-d3 signed integers */
    FIXED(5), FIXED(9),
    FIXED(2), FIXED(3), FIXED(5), FIXED(9),
    FIXED(2), FIXED(3), FIXED(5), FIXED(9),
    /* d4-d8 extensions of 1, 2, 4, 8 and 16 bytes and their type */
    FIXED(3), FIXED(4), FIXED(6), FIXED(10), FIXED(18),
    /* d9-db strings, dc-dd arrays, de-df maps */
    HEADER(SHAPE_STR, 2), HEADER(SHAPE_STR, 3), HEADER(SHAPE_STR, 5),
    HEADER(SHAPE_ARRAY, 3), HEADER(SHAPE_ARRAY, 5),
    HEADER(SHAPE_MAP, 3), HEADER(SHAPE_MAP, 5),
    /* e0-ff negative integers */
    SIXTEEN(FIXED(1)), SIXTEEN(FIXED(1)),
};
/* clang-format on */

_Static_assert(sizeof(headers) / sizeof(headers[0]) == 256, "every first byte has a header");

/* How far the pass is. The compiler keeps it in registers: everything below is inlined. */
struct pass {
    const uint8_t *at;
    const uint8_t *end;
    size_t awaited; /* values still to come, in all open containers together */
    size_t floor; /* what awaited falls to when the innermost container is complete */
    size_t depth; /* open containers */
    size_t elements; /* declared so far */
};

/* The length or count that ends a header of `size` bytes, big-endian. */
static inline uint32_t read_length(const uint8_t *at, size_t size)
{
    if (size == 2) {
        return at[1];
    }
    if (size == 3) {
        return (uint32_t)at[1] << 8 | at[2];
    }
    return (uint32_t)at[1] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 8 | at[4];
}

/* Whether the `size` bytes that end at the next value are UTF-8; *out_fault is where not. */
static inline bool check_utf8(const uint8_t *next, size_t size, const uint8_t **out_fault)
{
    size_t offset = 0;
    if (evzmq__utf8_valid(next - size, size, &offset)) {
        return true;
    }
    *out_fault = next - size + offset;
    return false;
}

/* Passes over a string, binary or extension of `length` bytes after a header of `size` bytes. */
static inline enum evzmq_decode_kind pass_payload(struct pass *pass, unsigned shape, size_t size,
                                                  bool validate_utf8, const uint8_t **out_fault)
{
    const size_t length = read_length(pass->at, size);
    size_t left = (size_t)(pass->end - pass->at) - size;
    if (shape == SHAPE_EXT) {
        /* msgpack-c counts length and type together in 32 bits, where this one becomes 0. */
        if (length == UINT32_MAX) {
            return EVZMQ_DECODE_MALFORMED;
        }
        if (left == 0) {
            return EVZMQ_DECODE_TRUNCATED;
        }
        size += 1;
        left -= 1;
    }
    if (length > left) {
        return EVZMQ_DECODE_TRUNCATED;
    }
    pass->at += size + length;
    if (validate_utf8 && shape == SHAPE_STR && !check_utf8(pass->at, length, out_fault)) {
        return EVZMQ_DECODE_UTF8;
    }
    pass->awaited -= 1;
    return EVZMQ_DECODE_OK;
}

/* Passes over the header of a container, `size` bytes, and opens it unless it is empty. */
static inline enum evzmq_decode_kind pass_container(struct pass *pass, unsigned shape, size_t size,
                                                    const struct evzmq__scan_limits *limits,
                                                    size_t *floors)
{
    const bool is_fix = shape == SHAPE_ARRAY_FIX || shape == SHAPE_MAP_FIX;
    const bool is_map = shape == SHAPE_MAP_FIX || shape == SHAPE_MAP;
    const uint64_t length = is_fix ? *pass->at & 0x0fu : read_length(pass->at, size);
    const uint64_t count = is_map ? 2 * length : length;

    const size_t left = (size_t)(pass->end - pass->at) - size;
    const size_t awaited = pass->awaited - 1;
    if (count > 0 && (left < awaited || left - awaited < count)) {
        return EVZMQ_DECODE_TRUNCATED;
    }
    if (pass->depth >= limits->depth_max || pass->depth >= EVZMQ__SCAN_DEPTH_MAX) {
        return EVZMQ_DECODE_DEPTH;
    }
    if (count > limits->elements_max - pass->elements) {
        return EVZMQ_DECODE_ELEMENTS;
    }
    pass->at += size;
    pass->awaited = awaited;
    if (count > 0) {
        floors[pass->depth++] = pass->floor;
        pass->floor = awaited;
        pass->awaited += (size_t)count;
        pass->elements += (size_t)count;
    }
    return EVZMQ_DECODE_OK;
}

/* Passes over one scalar or one container's header. *out_fault is the byte at fault where that is
 * not the first one of the value. */
static inline enum evzmq_decode_kind pass_header(struct pass *pass,
                                                 const struct evzmq__scan_limits *limits,
                                                 bool validate_utf8, size_t *floors,
                                                 const uint8_t **out_fault)
{
    if (pass->at == pass->end) {
        return EVZMQ_DECODE_TRUNCATED;
    }
    const unsigned shape = headers[*pass->at] >> 8;
    const size_t size = headers[*pass->at] & 0xffu;
    if (size > (size_t)(pass->end - pass->at)) {
        return EVZMQ_DECODE_TRUNCATED;
    }
    if (shape <= SHAPE_STR_FIX) {
        pass->at += size;
        if (validate_utf8 && shape == SHAPE_STR_FIX && !check_utf8(pass->at, size - 1, out_fault)) {
            return EVZMQ_DECODE_UTF8;
        }
        pass->awaited -= 1;
        return EVZMQ_DECODE_OK;
    }
    if (shape <= SHAPE_EXT) {
        return pass_payload(pass, shape, size, validate_utf8, out_fault);
    }
    if (shape <= SHAPE_MAP) {
        return pass_container(pass, shape, size, limits, floors);
    }
    return EVZMQ_DECODE_MALFORMED;
}

/* The whole pass. It is instantiated with and without UTF-8 validation, which most do without. */
static inline int run(const void *data, size_t size, const struct evzmq__scan_limits *limits,
                      bool validate_utf8, struct evzmq__scan_result *out_result,
                      struct evzmq_decode_error *out_error)
{
    const uint8_t *const bytes = data;
    size_t floors[EVZMQ__SCAN_DEPTH_MAX];
    struct pass pass = {.at = bytes, .end = bytes + size, .awaited = 1};
    for (;;) {
        const uint8_t *fault = pass.at;
        const enum evzmq_decode_kind kind =
            pass_header(&pass, limits, validate_utf8, floors, &fault);
        if (kind != EVZMQ_DECODE_OK) {
            out_error->kind = kind;
            out_error->offset = (size_t)(fault - bytes);
            return -1;
        }
        while (pass.awaited == pass.floor) {
            if (pass.depth == 0) {
                out_result->used = (size_t)(pass.at - bytes);
                out_result->elements = pass.elements;
                return 0;
            }
            pass.floor = floors[--pass.depth];
        }
    }
}

int evzmq__scan(const void *data, size_t size, const struct evzmq__scan_limits *limits,
                struct evzmq__scan_result *out_result, struct evzmq_decode_error *out_error)
{
    if (size == 0) {
        /* No bytes may have no address: nothing is computed from it. */
        out_error->kind = EVZMQ_DECODE_TRUNCATED;
        out_error->offset = 0;
        return -1;
    }
    if (limits->validate_utf8) {
        return run(data, size, limits, true, out_result, out_error);
    }
    return run(data, size, limits, false, out_result, out_error);
}

int evzmq__scan_whole(const void *data, size_t size, const struct evzmq__scan_limits *limits,
                      struct evzmq__scan_result *out_result, struct evzmq_decode_error *out_error)
{
    struct evzmq__scan_result result;
    if (evzmq__scan(data, size, limits, &result, out_error) != 0) {
        return -1;
    }
    if (result.used != size) {
        out_error->kind = EVZMQ_DECODE_TRAILING;
        out_error->offset = result.used;
        return -1;
    }
    *out_result = result;
    return 0;
}
