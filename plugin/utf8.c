/*
 * utf8.c: UTF-8 validation. ASCII is skipped 128 bytes at a time with AVX2 where the processor has
 * it, 64 with SSE2 (part of x86-64) and 8 elsewhere; any other sequence is decided by its first
 * byte, which says how many follow and which range the second may have. On a long string SSE2 takes
 * longer than memcpy() does, AVX2 does not.
 */
#include "utf8.h"

#include "base.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_AVX2_DISPATCH 1
#include <immintrin.h>
#endif

#if defined(HAS_AVX2_DISPATCH)
#define AVX2 __attribute__((target("avx2")))

/* All bits of 128 bytes at any address. */
AVX2 static inline __m256i join_block(const unsigned char *bytes)
{
    const __m256i *block = (const __m256i *)(const void *)bytes;
    const __m256i first = _mm256_or_si256(_mm256_loadu_si256(block), _mm256_loadu_si256(block + 1));
    const __m256i second =
        _mm256_or_si256(_mm256_loadu_si256(block + 2), _mm256_loadu_si256(block + 3));
    return _mm256_or_si256(first, second);
}

AVX2 static inline bool is_ascii(__m256i bits)
{
    return _mm256_movemask_epi8(bits) == 0;
}

/* How many of at least 128 bytes are surely ASCII. Loads that cross cache lines cost double, so all
 * blocks but the first and the last are aligned, and overlap with those. */
AVX2 static size_t skip_blocks_avx2(const unsigned char *bytes, size_t size)
{
    const __m256i first = join_block(bytes);
    const __m256i last = join_block(bytes + size - 128);
    if (!is_ascii(first)) {
        return 0;
    }
    size_t i = 128 - (size_t)((uintptr_t)bytes & 31);
    for (; size - i >= 256; i += 256) {
        if (!is_ascii(_mm256_or_si256(join_block(bytes + i), join_block(bytes + i + 128)))) {
            return i;
        }
    }
    if (size - i >= 128) {
        if (!is_ascii(join_block(bytes + i))) {
            return i;
        }
        i += 128;
    }
    return is_ascii(last) ? size : i;
}
#endif

#if defined(__SSE2__)
static size_t skip_blocks_sse2(const unsigned char *bytes, size_t size)
{
    size_t i = 0;
    for (; size - i >= 64; i += 64) {
        const __m128i *block = (const __m128i *)(const void *)(bytes + i);
        const __m128i first = _mm_or_si128(_mm_loadu_si128(block), _mm_loadu_si128(block + 1));
        const __m128i second = _mm_or_si128(_mm_loadu_si128(block + 2), _mm_loadu_si128(block + 3));
        if (_mm_movemask_epi8(_mm_or_si128(first, second)) != 0) {
            break;
        }
    }
    return i;
}
#endif

/* How many bytes at the front are surely ASCII: all of them, or up to a block with one that is
 * not. */
static size_t skip_ascii(const unsigned char *bytes, size_t size)
{
    size_t i = 0;
#if defined(HAS_AVX2_DISPATCH)
    if (size >= 128 && __builtin_cpu_supports("avx2")) {
        i = skip_blocks_avx2(bytes, size);
    }
#endif
#if defined(__SSE2__)
    i += skip_blocks_sse2(bytes + i, size - i);
#endif
    for (; size - i >= 8; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof(word));
        if ((word & EVZMQ__UTF8_HIGH_BITS) != 0) {
            break;
        }
    }
    return i;
}

static bool is_continuation(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/* The length of the sequence of 2 to 4 bytes at bytes[0], or 0 when it is none. RFC 3629, section
 * 4: the first byte decides the range of the second; the others are always 80..BF. */
static size_t sequence_length(const unsigned char *bytes, size_t size)
{
    const unsigned char first = bytes[0];
    if (first < 0xc2 || first > 0xf4 || size < 2) {
        return 0;
    }
    if (first < 0xe0) {
        return is_continuation(bytes[1]) ? 2 : 0;
    }
    if (first < 0xf0) {
        const unsigned char low = first == 0xe0 ? 0xa0 : 0x80; /* overlong below */
        const unsigned char high = first == 0xed ? 0x9f : 0xbf; /* surrogates above */
        if (size < 3 || bytes[1] < low || bytes[1] > high || !is_continuation(bytes[2])) {
            return 0;
        }
        return 3;
    }
    const unsigned char low = first == 0xf0 ? 0x90 : 0x80; /* overlong below */
    const unsigned char high = first == 0xf4 ? 0x8f : 0xbf; /* beyond U+10FFFF above */
    if (size < 4 || bytes[1] < low || bytes[1] > high || !is_continuation(bytes[2]) ||
        !is_continuation(bytes[3])) {
        return 0;
    }
    return 4;
}

/* evzmq__utf8_valid() of anything: out of line, so that ASCII needs no more than its own check. */
EVZMQ__NOINLINE
static bool is_valid(const unsigned char *bytes, size_t size, size_t *out_offset)
{
    size_t i = 0;
    while (i < size) {
        if (bytes[i] < 0x80) {
            i += skip_ascii(bytes + i, size - i);
            /* It may have stopped before a byte that is not, or short of the last few bytes. */
            while (i < size && bytes[i] < 0x80) {
                i++;
            }
            continue;
        }
        const size_t length = sequence_length(bytes + i, size - i);
        if (length == 0) {
            if (out_offset != NULL) {
                *out_offset = i;
            }
            return false;
        }
        i += length;
    }
    return true;
}

bool evzmq__utf8_valid(const void *data, size_t size, size_t *out_offset)
{
#if defined(HAS_AVX2_DISPATCH)
    if (size >= 128 && __builtin_cpu_supports("avx2") && skip_blocks_avx2(data, size) == size) {
        return true;
    }
#endif
    return is_valid(data, size, out_offset);
}
