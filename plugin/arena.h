/*
 * arena.h (L0): memory for decoded values: a bump allocator over chunks that outlive the messages.
 *
 * A round is what happens between two resets: usually one message. Memory is cut from the current
 * chunk; when that is full a larger one is added. A reset that finds several chunks releases them
 * and remembers their sum, so that the next round gets one chunk that holds as much: after that,
 * rounds of the same size allocate nothing.
 *
 * A chunk above EVZMQ__ARENA_KEEP_SIZE of which EVZMQ__ARENA_IDLE_ROUNDS rounds in a row used less
 * than 1/EVZMQ__ARENA_IDLE_PART is released too, so that one extraordinary message does not hold
 * its memory for good. It takes that many rounds so that large messages may be rare without each of
 * them paying for an allocation; a chunk up to the keep size is not worth giving back.
 */
#ifndef EVZMQ_PLUGIN_ARENA_H
#define EVZMQ_PLUGIN_ARENA_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>

#include <evzmq/codec.h>

#include "base.h"

#if defined(__SANITIZE_ADDRESS__)
#define EVZMQ__ARENA_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EVZMQ__ARENA_POISON 1
#endif
#endif

/* Under AddressSanitizer memory that is not cut is poisoned: a value that is read after its arena
 * was reset is reported, as if every cut were an allocation of its own. */
#ifdef EVZMQ__ARENA_POISON
#include <sanitizer/asan_interface.h>
#define EVZMQ__ARENA_HIDE(address, size) ASAN_POISON_MEMORY_REGION((address), (size))
#define EVZMQ__ARENA_SHOW(address, size) ASAN_UNPOISON_MEMORY_REGION((address), (size))
#else
#define EVZMQ__ARENA_HIDE(address, size) ((void)(address), (void)(size))
#define EVZMQ__ARENA_SHOW(address, size) ((void)(address), (void)(size))
#endif

#define EVZMQ__ARENA_ALIGN alignof(max_align_t)
#define EVZMQ__ARENA_CHUNK_MIN ((size_t)4096)
#define EVZMQ__ARENA_KEEP_SIZE ((size_t)65536)
#define EVZMQ__ARENA_IDLE_ROUNDS 64u
#define EVZMQ__ARENA_IDLE_PART 8u

struct evzmq__arena_chunk {
    struct evzmq__arena_chunk *next; /* the one filled before this one */
    size_t size; /* of data */
    alignas(max_align_t) unsigned char data[];
};

struct evzmq_arena {
    unsigned char *cursor; /* the free part of the first chunk; both NULL without a chunk */
    unsigned char *end;
    unsigned char *start; /* of the only chunk, where a reset need not look at anything; or NULL */
    struct evzmq__arena_chunk *chunks;
    size_t size_filled; /* of all chunks but the first */
    size_t size_wanted; /* what the next chunk has to hold at least */
    unsigned idle_rounds; /* in a row */
    size_t idle_peak; /* the largest need in those rounds */
    alignas(max_align_t) unsigned char scratch[96]; /* the codec's while it decodes */
};

/* Cuts memory when the current chunk does not have it. */
void *evzmq__arena_cut_slow(struct evzmq_arena *arena, size_t size);

/* What a cut takes; 0 where that overflows. */
static inline size_t evzmq__arena_round(size_t size)
{
    return (size + (EVZMQ__ARENA_ALIGN - 1)) & ~(EVZMQ__ARENA_ALIGN - 1);
}

/* Cuts memory if the current chunk has it; `rounded` is the size, not 0, as it is rounded. */
static inline bool evzmq__arena_try_cut(struct evzmq_arena *arena, size_t size, size_t rounded,
                                        void **out)
{
    unsigned char *const memory = arena->cursor;
    if (rounded > (size_t)(arena->end - memory)) {
        return false;
    }
    arena->cursor = memory + rounded;
    EVZMQ__ARENA_SHOW(memory, size);
    *out = memory;
    return true;
}

/* evzmq_arena_alloc() for the library's own use: the arena is not NULL. */
static inline void *evzmq__arena_cut(struct evzmq_arena *arena, size_t size)
{
    /* A rounded size of 0 is that of an empty cut or of one that overflows: the slow path knows. */
    const size_t rounded = evzmq__arena_round(size);
    if (rounded == 0 || rounded > (size_t)(arena->end - arena->cursor)) {
        return evzmq__arena_cut_slow(arena, size);
    }
    void *const memory = arena->cursor;
    arena->cursor += rounded;
    EVZMQ__ARENA_SHOW(memory, size);
    return memory;
}

/* The bytes cut since the last reset, with what was lost at the ends of chunks. */
static inline size_t evzmq__arena_get_used(const struct evzmq_arena *arena)
{
    return arena->chunks == NULL
               ? 0
               : arena->size_filled + (size_t)(arena->cursor - arena->chunks->data);
}

#endif /* EVZMQ_PLUGIN_ARENA_H */
