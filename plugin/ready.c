/*
 * ready.c (L6): see ready.h. Peers choose these bytes, so every read is bounded by their number.
 */
#include "ready.h"

#include <limits.h>

enum {
    FIRST_UINT8 = 0xcc, /* then uint16, uint32, uint64 */
    FIRST_INT8 = 0xd0, /* then int16, int32, int64 */
    FIRST_NEGATIVE_FIXINT = 0xe0
};

size_t evzmq__integer_write(unsigned char out[EVZMQ__INTEGER_BYTES_MAX], uint64_t number)
{
    if (number <= EVZMQ__INTEGER_FIX_MAX) {
        out[0] = (unsigned char)number;
        return 1;
    }
    unsigned char width = 0; /* the logarithm of the number of bytes */
    while (width < 3 && number >> (8u << width) != 0) {
        width++;
    }
    const size_t bytes = (size_t)1 << width;
    out[0] = (unsigned char)(FIRST_UINT8 + width);
    for (size_t i = 0; i < bytes; i++) {
        out[1 + i] = (unsigned char)(number >> (8 * (bytes - 1 - i)));
    }
    return 1 + bytes;
}

size_t evzmq__integer_read(const unsigned char *data, size_t size, struct evzmq__integer *out)
{
    if (size == 0) {
        return 0;
    }
    const unsigned char first = data[0];
    if (first <= EVZMQ__INTEGER_FIX_MAX) {
        *out = (struct evzmq__integer){.negative = false, .bits = first};
        return 1;
    }
    if (first >= FIRST_NEGATIVE_FIXINT) {
        *out = (struct evzmq__integer){.negative = true, .bits = ~UINT64_C(0xff) | first};
        return 1;
    }
    if (first < FIRST_UINT8 || first >= FIRST_INT8 + 4) {
        return 0;
    }
    const bool is_signed = first >= FIRST_INT8;
    const size_t bytes = (size_t)1 << (first - (is_signed ? FIRST_INT8 : FIRST_UINT8));
    if (size < 1 + bytes) {
        return 0;
    }
    const bool negative = is_signed && (data[1] & 0x80) != 0;
    uint64_t bits = negative ? ~UINT64_C(0) : 0;
    for (size_t i = 0; i < bytes; i++) {
        bits = bits << 8 | data[1 + i];
    }
    *out = (struct evzmq__integer){.negative = negative, .bits = bits};
    return 1 + bytes;
}

enum evzmq__ready evzmq__ready_read(const void *data, size_t size, unsigned n_workers,
                                    unsigned *out_identity)
{
    struct evzmq__integer number;
    const size_t used = evzmq__integer_read(data, size, &number);
    if (used == 0 || used != size) {
        return EVZMQ__READY_MALFORMED;
    }
    if (number.negative || number.bits >= n_workers) {
        return EVZMQ__READY_OUT_OF_RANGE;
    }
    *out_identity = (unsigned)number.bits;
    return EVZMQ__READY_IDENTITY;
}

size_t evzmq__header_write(unsigned char out[EVZMQ__HEADER_BYTES_MAX],
                           const struct evzmq__header *header)
{
    size_t size = evzmq__integer_write(out, header->identity);
    if (header->start != 0 || header->flags != 0) {
        size += evzmq__integer_write(out + size, header->start);
    }
    if (header->flags != 0) {
        size += evzmq__integer_write(out + size, header->flags);
    }
    return size;
}

bool evzmq__header_read(const void *data, size_t size, unsigned n_workers,
                        struct evzmq__header *out)
{
    const unsigned char *at = data;
    uint64_t numbers[3] = {0, 0, 0};
    size_t count = 0;
    while (size > 0) {
        struct evzmq__integer number;
        const size_t used = evzmq__integer_read(at, size, &number);
        if (used == 0 || count == 3 || number.negative) {
            return false;
        }
        numbers[count++] = number.bits;
        at += used;
        size -= used;
    }
    if (count == 0 || numbers[0] >= n_workers || numbers[2] > UINT_MAX) {
        return false;
    }
    *out = (struct evzmq__header){
        .identity = (unsigned)numbers[0], .start = numbers[1], .flags = (unsigned)numbers[2]};
    return true;
}
