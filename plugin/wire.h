/*
 * wire.h: the first byte of a msgpack value and what follows from it, and how the shortest form of
 * a value is written. Pure and inline: decoding, encoding and cursors share it.
 */
#ifndef EVZMQ_PLUGIN_WIRE_H
#define EVZMQ_PLUGIN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EVZMQ__WIRE_NIL 0xc0u
#define EVZMQ__WIRE_NEVER_USED 0xc1u
#define EVZMQ__WIRE_FALSE 0xc2u
#define EVZMQ__WIRE_TRUE 0xc3u
#define EVZMQ__WIRE_TIMESTAMP (-1)
#define EVZMQ__WIRE_NANOSECONDS_MAX 999999999u

enum evzmq__wire_type {
    EVZMQ__WIRE_TYPE_BAD = 0, /* 0xc1 */
    EVZMQ__WIRE_TYPE_NIL,
    EVZMQ__WIRE_TYPE_BOOL,
    EVZMQ__WIRE_TYPE_INTEGER,
    EVZMQ__WIRE_TYPE_FLOAT,
    EVZMQ__WIRE_TYPE_STR,
    EVZMQ__WIRE_TYPE_BIN,
    EVZMQ__WIRE_TYPE_EXT,
    EVZMQ__WIRE_TYPE_ARRAY,
    EVZMQ__WIRE_TYPE_MAP
};

/* The head of a value: everything before its payload or its elements. */
struct evzmq__wire_head {
    enum evzmq__wire_type type;
    bool is_negative; /* of an integer: value is an int64_t then */
    int8_t ext_type;
    uint64_t value; /* of a bool, an integer; a float's as a double's bits */
    size_t size; /* of a str, bin, ext: payload bytes, all of which are there */
    uint64_t count; /* of an array or a map: elements or pairs */
};

static inline uint64_t evzmq__wire_load16(const unsigned char *bytes)
{
    return (uint64_t)bytes[0] << 8 | bytes[1];
}

static inline uint64_t evzmq__wire_load32(const unsigned char *bytes)
{
    return evzmq__wire_load16(bytes) << 16 | evzmq__wire_load16(bytes + 2);
}

static inline uint64_t evzmq__wire_load64(const unsigned char *bytes)
{
    return evzmq__wire_load32(bytes) << 32 | evzmq__wire_load32(bytes + 4);
}

/* The number in `width` bytes, 1, 2, 4 or 8. */
static inline uint64_t evzmq__wire_load(const unsigned char *bytes, size_t width)
{
    return width == 1   ? bytes[0]
           : width == 2 ? evzmq__wire_load16(bytes)
           : width == 4 ? evzmq__wire_load32(bytes)
                        : evzmq__wire_load64(bytes);
}

static inline uint64_t evzmq__wire_double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline double evzmq__wire_bits_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t evzmq__wire_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline double evzmq__wire_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

/*
 * Reads the head of the value at bytes, before end. Gives the first byte after it, which is the
 * payload's or the first element's, or NULL when the value is cut short (a payload that is not all
 * there included). A byte that begins no value gives type BAD.
 */
const unsigned char *evzmq__wire_read_head(const unsigned char *bytes, const unsigned char *end,
                                           struct evzmq__wire_head *out);

/* Whether a timestamp extension's payload is one. */
static inline bool evzmq__wire_timestamp_valid(const unsigned char *bytes, size_t size)
{
    if (size == 4) {
        return true;
    }
    if (size == 8) {
        return evzmq__wire_load64(bytes) >> 34 <= EVZMQ__WIRE_NANOSECONDS_MAX;
    }
    return size == 12 && evzmq__wire_load32(bytes) <= EVZMQ__WIRE_NANOSECONDS_MAX;
}

/* The bytes that the head of a str, a bin, an array or a map takes. */
static inline size_t evzmq__wire_str_head_size(size_t size)
{
    return size < 32 ? 1 : size < 0x100 ? 2 : size < 0x10000 ? 3 : 5;
}

static inline size_t evzmq__wire_bin_head_size(size_t size)
{
    return size < 0x100 ? 2 : size < 0x10000 ? 3 : 5;
}

static inline size_t evzmq__wire_count_head_size(size_t count)
{
    return count < 16 ? 1 : count < 0x10000 ? 3 : 5;
}

static inline size_t evzmq__wire_integer_size(uint64_t bits, bool is_negative)
{
    if (!is_negative) {
        return bits < 0x80 ? 1 : bits < 0x100 ? 2 : bits < 0x10000 ? 3 : bits < 0x100000000 ? 5 : 9;
    }
    const int64_t value = (int64_t)bits;
    return value >= -32         ? 1
           : value >= INT8_MIN  ? 2
           : value >= INT16_MIN ? 3
           : value >= INT32_MIN ? 5
                                : 9;
}

static inline void evzmq__wire_store16(unsigned char *out, uint64_t number)
{
    out[0] = (unsigned char)(number >> 8);
    out[1] = (unsigned char)number;
}

static inline void evzmq__wire_store32(unsigned char *out, uint64_t number)
{
    out[0] = (unsigned char)(number >> 24);
    out[1] = (unsigned char)(number >> 16);
    out[2] = (unsigned char)(number >> 8);
    out[3] = (unsigned char)number;
}

static inline void evzmq__wire_store64(unsigned char *out, uint64_t number)
{
    out[0] = (unsigned char)(number >> 56);
    out[1] = (unsigned char)(number >> 48);
    out[2] = (unsigned char)(number >> 40);
    out[3] = (unsigned char)(number >> 32);
    out[4] = (unsigned char)(number >> 24);
    out[5] = (unsigned char)(number >> 16);
    out[6] = (unsigned char)(number >> 8);
    out[7] = (unsigned char)number;
}

/* A first byte and the low `width` bytes of a number after it, big-endian; 0, 1, 2, 4 or 8. */
static inline unsigned char *evzmq__wire_put(unsigned char *out, unsigned first, uint64_t number,
                                             size_t width)
{
    out[0] = (unsigned char)first;
    if (width == 8) {
        evzmq__wire_store64(out + 1, number);
    } else if (width == 4) {
        evzmq__wire_store32(out + 1, number);
    } else if (width == 2) {
        evzmq__wire_store16(out + 1, number);
    } else if (width == 1) {
        out[1] = (unsigned char)number;
    }
    return out + 1 + width;
}

static inline unsigned char *evzmq__wire_put_str_head(unsigned char *out, size_t size)
{
    if (size < 32) {
        return evzmq__wire_put(out, 0xa0u | (unsigned)size, 0, 0);
    }
    if (size < 0x100) {
        return evzmq__wire_put(out, 0xd9, size, 1);
    }
    return size < 0x10000 ? evzmq__wire_put(out, 0xda, size, 2)
                          : evzmq__wire_put(out, 0xdb, size, 4);
}

static inline unsigned char *evzmq__wire_put_bin_head(unsigned char *out, size_t size)
{
    if (size < 0x100) {
        return evzmq__wire_put(out, 0xc4, size, 1);
    }
    return size < 0x10000 ? evzmq__wire_put(out, 0xc5, size, 2)
                          : evzmq__wire_put(out, 0xc6, size, 4);
}

static inline unsigned char *evzmq__wire_put_array_head(unsigned char *out, size_t count)
{
    if (count < 16) {
        return evzmq__wire_put(out, 0x90u | (unsigned)count, 0, 0);
    }
    return count < 0x10000 ? evzmq__wire_put(out, 0xdc, count, 2)
                           : evzmq__wire_put(out, 0xdd, count, 4);
}

static inline unsigned char *evzmq__wire_put_map_head(unsigned char *out, size_t count)
{
    if (count < 16) {
        return evzmq__wire_put(out, 0x80u | (unsigned)count, 0, 0);
    }
    return count < 0x10000 ? evzmq__wire_put(out, 0xde, count, 2)
                           : evzmq__wire_put(out, 0xdf, count, 4);
}

static inline unsigned char *evzmq__wire_put_integer(unsigned char *out, uint64_t bits,
                                                     bool is_negative)
{
    const size_t size = evzmq__wire_integer_size(bits, is_negative);
    if (size == 1) {
        return evzmq__wire_put(out, (unsigned)(bits & 0xff), 0, 0);
    }
    const unsigned form = size == 2 ? 0u : size == 3 ? 1u : size == 5 ? 2u : 3u;
    return evzmq__wire_put(out, (is_negative ? 0xd0u : 0xccu) + form, bits, size - 1);
}

#endif /* EVZMQ_PLUGIN_WIRE_H */
