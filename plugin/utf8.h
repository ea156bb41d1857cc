/*
 * utf8.h: is this UTF-8? Layer 0, pure.
 *
 * Used for every str field of a typed record, so the usual case (ASCII, often a few bytes) must
 * cost next to nothing: evzmq__utf8_valid_field() settles short ASCII strings inline.
 */
#ifndef EVZMQ_PLUGIN_UTF8_H
#define EVZMQ_PLUGIN_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define EVZMQ__UTF8_HIGH_BITS UINT64_C(0x8080808080808080)

/*
 * Whether size bytes are UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above
 * U+10FFFF, nothing cut short. Noncharacters and U+0000 are fine. When they are not, *out_offset
 * (which may be NULL) is the index of the first byte of the first sequence at fault. data may be
 * NULL when size is 0.
 */
bool evzmq__utf8_valid(const void *data, size_t size, size_t *out_offset);

/* Whether up to 64 bytes are all ASCII, by loads that overlap at the end. */
static inline bool evzmq__utf8_is_short_ascii(const unsigned char *bytes, size_t size)
{
    if (size >= 16) {
#if defined(__SSE2__)
        __m128i all = _mm_loadu_si128((const __m128i *)(const void *)(bytes + size - 16));
        for (size_t i = 0; i + 16 < size; i += 16) {
            all = _mm_or_si128(all, _mm_loadu_si128((const __m128i *)(const void *)(bytes + i)));
        }
        return _mm_movemask_epi8(all) == 0;
#else
        uint64_t all;
        memcpy(&all, bytes + size - 8, sizeof(all));
        for (size_t i = 0; i + 8 < size; i += 8) {
            uint64_t word;
            memcpy(&word, bytes + i, sizeof(word));
            all |= word;
        }
        return (all & EVZMQ__UTF8_HIGH_BITS) == 0;
#endif
    }
    if (size >= 8) {
        uint64_t head;
        uint64_t tail;
        memcpy(&head, bytes, sizeof(head));
        memcpy(&tail, bytes + size - 8, sizeof(tail));
        return ((head | tail) & EVZMQ__UTF8_HIGH_BITS) == 0;
    }
    if (size >= 4) {
        uint32_t head;
        uint32_t tail;
        memcpy(&head, bytes, sizeof(head));
        memcpy(&tail, bytes + size - 4, sizeof(tail));
        return ((head | tail) & UINT32_C(0x80808080)) == 0;
    }
    unsigned all = 0;
    for (size_t i = 0; i < size; i++) {
        all |= bytes[i];
    }
    return all < 0x80;
}

#define EVZMQ__UTF8_WINDOW ((size_t)32)

#if defined(__SSE2__)
/* A bit for each byte of a window that is not ASCII. */
static inline uint32_t evzmq__utf8_window_bits(const unsigned char *bytes)
{
    const __m128i *const window = (const __m128i *)(const void *)bytes;
    const unsigned low = (unsigned)_mm_movemask_epi8(_mm_loadu_si128(window));
    const unsigned high = (unsigned)_mm_movemask_epi8(_mm_loadu_si128(window + 1));
    return low | high << 16;
}
#endif

/*
 * Whether up to EVZMQ__UTF8_WINDOW bytes are all ASCII, where as many as that may be read, whatever
 * the size: no branch depends on it then.
 */
static inline bool evzmq__utf8_is_window_ascii(const unsigned char *bytes, size_t size)
{
#if defined(__SSE2__)
    const uint64_t bits = evzmq__utf8_window_bits(bytes);
    return (uint32_t)(bits << (EVZMQ__UTF8_WINDOW - size)) == 0;
#else
    return evzmq__utf8_is_short_ascii(bytes, size);
#endif
}

/* The same of all bytes but the one at `gap`, which is below `size`: two strings, and what stands
 * between them. */
static inline bool evzmq__utf8_is_window_ascii_but(const unsigned char *bytes, size_t size,
                                                   size_t gap)
{
#if defined(__SSE2__)
    const uint64_t bits = evzmq__utf8_window_bits(bytes) & ~(UINT32_C(1) << gap);
    return (uint32_t)(bits << (EVZMQ__UTF8_WINDOW - size)) == 0;
#else
    return evzmq__utf8_is_short_ascii(bytes, gap) &&
           evzmq__utf8_is_short_ascii(bytes + gap + 1, size - gap - 1);
#endif
}

/* evzmq__utf8_valid() with the usual case inline: a short string that is ASCII. */
static inline bool evzmq__utf8_valid_field(const void *data, size_t size, size_t *out_offset)
{
    return (size <= 64 && evzmq__utf8_is_short_ascii(data, size)) ||
           evzmq__utf8_valid(data, size, out_offset);
}

#endif /* EVZMQ_PLUGIN_UTF8_H */
