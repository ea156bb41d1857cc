/*
 * arena.c (L0): the arena of decoded values; arena.h says how it keeps and releases memory.
 */
#include "arena.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/* Chunks double what there is, so that a round of many small cuts needs few of them; beyond this
 * size they hold what is asked for and no more. */
#define CHUNK_DOUBLING_MAX ((size_t)1024 * 1024)

struct evzmq_arena *evzmq_arena_new(void)
{
    return evzmq__calloc(1, sizeof(struct evzmq_arena));
}

static void release_chunks(struct evzmq_arena *arena)
{
    struct evzmq__arena_chunk *chunk = arena->chunks;
    while (chunk != NULL) {
        struct evzmq__arena_chunk *const next = chunk->next;
        EVZMQ__ARENA_SHOW(chunk->data, chunk->size);
        evzmq__free(chunk);
        chunk = next;
    }
    arena->chunks = NULL;
    arena->cursor = NULL;
    arena->end = NULL;
    arena->start = NULL;
    arena->size_filled = 0;
    arena->idle_rounds = 0;
    arena->idle_peak = 0;
}

static bool add_chunk(struct evzmq_arena *arena, size_t size_min)
{
    size_t size = size_min > arena->size_wanted ? size_min : arena->size_wanted;
    if (arena->chunks != NULL) {
        const size_t total = arena->size_filled + arena->chunks->size;
        const size_t doubled = total < CHUNK_DOUBLING_MAX ? total : CHUNK_DOUBLING_MAX;
        size = size > doubled ? size : doubled;
    }
    size = size > EVZMQ__ARENA_CHUNK_MIN ? size : EVZMQ__ARENA_CHUNK_MIN;
    if (size > SIZE_MAX - sizeof(struct evzmq__arena_chunk)) {
        errno = ENOMEM;
        return false;
    }
    struct evzmq__arena_chunk *const chunk =
        evzmq__malloc(sizeof(struct evzmq__arena_chunk) + size);
    if (chunk == NULL) {
        return false;
    }
    if (arena->chunks != NULL) {
        arena->size_filled += arena->chunks->size;
    }
    chunk->next = arena->chunks;
    chunk->size = size;
    arena->chunks = chunk;
    arena->cursor = chunk->data;
    arena->end = chunk->data + size;
    arena->start = chunk->next == NULL && size <= EVZMQ__ARENA_KEEP_SIZE ? chunk->data : NULL;
    arena->size_wanted = 0;
    EVZMQ__ARENA_HIDE(chunk->data, size);
    return true;
}

void *evzmq__arena_cut_slow(struct evzmq_arena *arena, size_t size)
{
    const size_t wanted = size > 0 ? size : 1;
    if (wanted > SIZE_MAX - (EVZMQ__ARENA_ALIGN - 1)) {
        errno = ENOMEM;
        return NULL;
    }
    const size_t rounded = evzmq__arena_round(wanted);
    if (rounded > (size_t)(arena->end - arena->cursor) && !add_chunk(arena, rounded)) {
        return NULL;
    }
    return evzmq__arena_cut(arena, wanted);
}

void *evzmq_arena_alloc(struct evzmq_arena *arena, size_t size)
{
    if (arena == NULL) {
        errno = EINVAL;
        return NULL;
    }
    return evzmq__arena_cut(arena, size);
}

/* Whether the only chunk has been far too large for long enough; `used` is this round's need. */
static bool is_oversize(struct evzmq_arena *arena, size_t used)
{
    const size_t size = arena->chunks->size;
    if (used >= size / EVZMQ__ARENA_IDLE_PART) {
        arena->idle_rounds = 0;
        arena->idle_peak = 0;
        return false;
    }
    arena->idle_peak = used > arena->idle_peak ? used : arena->idle_peak;
    arena->idle_rounds += 1;
    return arena->idle_rounds >= EVZMQ__ARENA_IDLE_ROUNDS;
}

/* A reset where there are several chunks, a large one, or none. */
EVZMQ__NOINLINE
static void reset_slow(struct evzmq_arena *arena)
{
    if (arena->chunks == NULL) {
        return;
    }
    const size_t used = evzmq__arena_get_used(arena);
    if (arena->chunks->next != NULL) {
        release_chunks(arena);
        arena->size_wanted = used;
        return;
    }
    if (is_oversize(arena, used)) {
        const size_t peak = arena->idle_peak;
        release_chunks(arena);
        arena->size_wanted = peak;
        return;
    }
    EVZMQ__ARENA_HIDE(arena->chunks->data, used);
    arena->cursor = arena->chunks->data;
}

void evzmq_arena_reset(struct evzmq_arena *arena)
{
    if (arena == NULL) {
        return;
    }
    if (arena->start == NULL) {
        reset_slow(arena);
        return;
    }
    EVZMQ__ARENA_HIDE(arena->start, (size_t)(arena->cursor - arena->start));
    arena->cursor = arena->start;
}

void evzmq_arena_free(struct evzmq_arena *arena)
{
    if (arena == NULL) {
        return;
    }
    release_chunks(arena);
    evzmq__free(arena);
}
