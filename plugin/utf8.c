/*
 * utf8.c: UTF-8 validation. ASCII is skipped 256 bytes at a time with AVX-512 where the processor
 * has it, 128 with AVX2, 64 with SSE2 (part of x86-64) and 8 elsewhere; any other sequence is
 * decided by its first byte, which says how many follow and which range the second may have. That
 * is to take no longer than memcpy() does, which uses the widest registers too.
 */
#include "utf8.h"

#include "base.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_AVX_DISPATCH 1
#include <immintrin.h>
#endif

#if defined(HAS_AVX_DISPATCH)
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512bw")))

/* Strings below this size have no use for wide registers. */
#define WIDE_SIZE_MIN ((size_t)128)

AVX2 static inline __m256i load_avx2(const unsigned char *bytes)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)bytes);
}

AVX2 static inline bool is_ascii_avx2(__m256i bits)
{
    return _mm256_movemask_epi8(bits) == 0;
}

/* How many of at least 32 bytes are surely ASCII. Loads that cross cache lines cost double, so all
 * but the first and the last are aligned, and overlap with those. */
AVX2 static EVZMQ__INLINE size_t skip_blocks_avx2(const unsigned char *bytes, size_t size)
{
    const __m256i first = load_avx2(bytes);
    __m256i rest = load_avx2(bytes + size - 32);
    size_t i = 32 - (size_t)((uintptr_t)bytes & 31);
    for (; size - i >= 128; i += 128) {
        const unsigned char *const block = bytes + i;
        const __m256i low = _mm256_or_si256(load_avx2(block), load_avx2(block + 32));
        const __m256i high = _mm256_or_si256(load_avx2(block + 64), load_avx2(block + 96));
        if (!is_ascii_avx2(_mm256_or_si256(low, high))) {
            return is_ascii_avx2(first) ? i : 0;
        }
    }
    for (size_t j = i; size - j > 32; j += 32) {
        rest = _mm256_or_si256(rest, load_avx2(bytes + j));
    }
    if (is_ascii_avx2(_mm256_or_si256(first, rest))) {
        return size;
    }
    return is_ascii_avx2(first) ? i : 0;
}

AVX512 static inline __m512i load_avx512(const unsigned char *bytes)
{
    return _mm512_loadu_si512((const void *)bytes);
}

AVX512 static inline bool is_ascii_avx512(__m512i bits)
{
    return _mm512_movepi8_mask(bits) == 0;
}

/* The same of at least 64 bytes. */
AVX512 static EVZMQ__INLINE size_t skip_blocks_avx512(const unsigned char *bytes, size_t size)
{
    const __m512i first = load_avx512(bytes);
    __m512i rest = load_avx512(bytes + size - 64);
    size_t i = 64 - (size_t)((uintptr_t)bytes & 63);
    for (; size - i >= 256; i += 256) {
        const unsigned char *const block = bytes + i;
        const __m512i low = _mm512_or_si512(load_avx512(block), load_avx512(block + 64));
        const __m512i high = _mm512_or_si512(load_avx512(block + 128), load_avx512(block + 192));
        if (!is_ascii_avx512(_mm512_or_si512(low, high))) {
            return is_ascii_avx512(first) ? i : 0;
        }
    }
    for (size_t j = i; size - j > 64; j += 64) {
        rest = _mm512_or_si512(rest, load_avx512(bytes + j));
    }
    if (is_ascii_avx512(_mm512_or_si512(first, rest))) {
        return size;
    }
    return is_ascii_avx512(first) ? i : 0;
}

/* Processors that have the second set of byte operations do not slow down for wide registers. */
static inline bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bw");
}

static inline bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

/* skip_blocks_avx2() for callers that are not compiled for AVX2. */
AVX2 EVZMQ__NOINLINE static size_t call_skip_blocks_avx2(const unsigned char *bytes, size_t size)
{
    return skip_blocks_avx2(bytes, size);
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
#if defined(HAS_AVX_DISPATCH)
    if (size >= WIDE_SIZE_MIN && has_avx2()) {
        i = call_skip_blocks_avx2(bytes, size);
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

#if defined(HAS_AVX_DISPATCH)
/* is_valid() of what is usually ASCII, at least WIDE_SIZE_MIN bytes. */
AVX2 EVZMQ__NOINLINE static bool is_valid_avx2(const unsigned char *bytes, size_t size,
                                               size_t *out_offset)
{
    return EVZMQ__LIKELY(skip_blocks_avx2(bytes, size) == size) ||
           is_valid(bytes, size, out_offset);
}

AVX512 EVZMQ__NOINLINE static bool is_valid_avx512(const unsigned char *bytes, size_t size,
                                                   size_t *out_offset)
{
    return EVZMQ__LIKELY(skip_blocks_avx512(bytes, size) == size) ||
           is_valid(bytes, size, out_offset);
}
#endif

bool evzmq__utf8_valid(const void *data, size_t size, size_t *out_offset)
{
#if defined(HAS_AVX_DISPATCH)
    if (size >= WIDE_SIZE_MIN && has_avx512()) {
        return is_valid_avx512(data, size, out_offset);
    }
    if (size >= WIDE_SIZE_MIN && has_avx2()) {
        return is_valid_avx2(data, size, out_offset);
    }
#endif
    return is_valid(data, size, out_offset);
}
