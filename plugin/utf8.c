/*
 * UTF-8 validation, one sequence at a time.
 */
#include "utf8.h"

#include <stdint.h>

/* The length of the sequence at the front of the bytes; 0 when none is valid there. */
static size_t sequence_size(const uint8_t *bytes, size_t size)
{
    const uint8_t lead = bytes[0];
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4) {
        return 0;
    }
    const size_t wanted = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (size < wanted) {
        return 0;
    }
    /* Overlong forms, surrogates and what lies above U+10FFFF show in the second byte. */
    const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < low || bytes[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < wanted; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return wanted;
}

bool evzmq__utf8_valid(const void *data, size_t size, size_t *out_offset)
{
    const uint8_t *const bytes = data;
    size_t at = 0;
    while (at < size) {
        const size_t step = sequence_size(bytes + at, size - at);
        if (step == 0) {
            *out_offset = at;
            return false;
        }
        at += step;
    }
    return true;
}
