/*
 * wire.c: the head of any msgpack value. The typed decoder knows what it waits for and reads the
 * usual forms itself; this is for the other forms and for values of any type.
 */
#include "wire.h"

/* The integers, floats, bools and nil that are not in their first byte alone: 0xca to 0xd3. */
static const unsigned char *read_number(const unsigned char *bytes, const unsigned char *end,
                                        struct evzmq__wire_head *out)
{
    static const unsigned char widths[] = {4, 8, 1, 2, 4, 8, 1, 2, 4, 8};
    const unsigned first = bytes[0];
    const size_t width = widths[first - 0xca];
    if ((size_t)(end - bytes) < 1 + width) {
        return NULL;
    }
    out->value = evzmq__wire_load(bytes + 1, width);
    if (first <= 0xcb) {
        out->type = EVZMQ__WIRE_TYPE_FLOAT;
        if (width == 4) {
            out->value = evzmq__wire_double_bits(evzmq__wire_bits_float((uint32_t)out->value));
        }
        return bytes + 1 + width;
    }
    out->type = EVZMQ__WIRE_TYPE_INTEGER;
    if (first >= 0xd0) {
        const unsigned shift = 64 - 8 * (unsigned)width;
        const uint64_t sign = UINT64_C(1) << (8 * width - 1);
        out->is_negative = (out->value & sign) != 0;
        if (out->is_negative && shift != 0) {
            out->value |= ~UINT64_C(0) << (8 * width);
        }
    }
    return bytes + 1 + width;
}

/* What has a length of its own: type, then a length of `width` bytes. */
static const unsigned char *read_sized(const unsigned char *bytes, const unsigned char *end,
                                       enum evzmq__wire_type type, size_t width,
                                       struct evzmq__wire_head *out)
{
    const size_t extra = type == EVZMQ__WIRE_TYPE_EXT ? 1 : 0;
    const size_t left = (size_t)(end - bytes);
    if (left < 1 + width + extra) {
        return NULL;
    }
    const uint64_t size = evzmq__wire_load(bytes + 1, width);
    if (size > left - 1 - width - extra) {
        return NULL;
    }
    out->type = type;
    out->size = (size_t)size;
    if (extra != 0) {
        out->ext_type = (int8_t)bytes[1 + width];
    }
    return bytes + 1 + width + extra;
}

static const unsigned char *read_counted(const unsigned char *bytes, const unsigned char *end,
                                         enum evzmq__wire_type type, size_t width,
                                         struct evzmq__wire_head *out)
{
    if ((size_t)(end - bytes) < 1 + width) {
        return NULL;
    }
    out->type = type;
    out->count = evzmq__wire_load(bytes + 1, width);
    return bytes + 1 + width;
}

static const unsigned char *read_fixed_ext(const unsigned char *bytes, const unsigned char *end,
                                           struct evzmq__wire_head *out)
{
    const size_t size = (size_t)1 << (bytes[0] - 0xd4);
    if ((size_t)(end - bytes) < 2 + size) {
        return NULL;
    }
    out->type = EVZMQ__WIRE_TYPE_EXT;
    out->ext_type = (int8_t)bytes[1];
    out->size = size;
    return bytes + 2;
}

/* First bytes from 0xc0 to 0xdf. */
static const unsigned char *read_long(const unsigned char *bytes, const unsigned char *end,
                                      struct evzmq__wire_head *out)
{
    const unsigned first = bytes[0];
    switch (first) {
    case EVZMQ__WIRE_NIL:
        out->type = EVZMQ__WIRE_TYPE_NIL;
        return bytes + 1;
    case EVZMQ__WIRE_NEVER_USED:
        out->type = EVZMQ__WIRE_TYPE_BAD;
        return bytes + 1;
    case EVZMQ__WIRE_FALSE:
    case EVZMQ__WIRE_TRUE:
        out->type = EVZMQ__WIRE_TYPE_BOOL;
        out->value = first & 1u;
        return bytes + 1;
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return read_sized(bytes, end, EVZMQ__WIRE_TYPE_BIN, (size_t)1 << (first - 0xc4), out);
    case 0xc7:
    case 0xc8:
    case 0xc9:
        return read_sized(bytes, end, EVZMQ__WIRE_TYPE_EXT, (size_t)1 << (first - 0xc7), out);
    case 0xd9:
    case 0xda:
    case 0xdb:
        return read_sized(bytes, end, EVZMQ__WIRE_TYPE_STR, (size_t)1 << (first - 0xd9), out);
    case 0xdc:
    case 0xdd:
        return read_counted(bytes, end, EVZMQ__WIRE_TYPE_ARRAY, (size_t)2 << (first - 0xdc), out);
    case 0xde:
    case 0xdf:
        return read_counted(bytes, end, EVZMQ__WIRE_TYPE_MAP, (size_t)2 << (first - 0xde), out);
    default:
        return first <= 0xd3 ? read_number(bytes, end, out) : read_fixed_ext(bytes, end, out);
    }
}

const unsigned char *evzmq__wire_read_head(const unsigned char *bytes, const unsigned char *end,
                                           struct evzmq__wire_head *out)
{
    memset(out, 0, sizeof(*out));
    if (bytes == end) {
        return NULL;
    }
    const unsigned first = bytes[0];
    if (first < 0x80 || first >= 0xe0) {
        out->type = EVZMQ__WIRE_TYPE_INTEGER;
        out->is_negative = first >= 0x80;
        out->value = first < 0x80 ? first : ~UINT64_C(0xff) | first;
        return bytes + 1;
    }
    if (first < 0xa0) {
        out->type = first < 0x90 ? EVZMQ__WIRE_TYPE_MAP : EVZMQ__WIRE_TYPE_ARRAY;
        out->count = first & 0x0fu;
        return bytes + 1;
    }
    if (first < 0xc0) {
        out->type = EVZMQ__WIRE_TYPE_STR;
        out->size = first & 0x1fu;
        return out->size > (size_t)(end - bytes) - 1 ? NULL : bytes + 1;
    }
    return read_long(bytes, end, out);
}
