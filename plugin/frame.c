/*
 * frame.c (L1): see frame.h.
 */
#include "frame.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>

#include "base.h"

struct evzmq__frame_pool *evzmq__frame_pool_new(void)
{
    struct evzmq__frame_pool *pool = evzmq__calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return NULL;
    }
    if (evzmq__wake_open(&pool->wake) < 0) {
        evzmq__free(pool);
        return NULL;
    }
    atomic_init(&pool->references, 1);
    atomic_init(&pool->returned, NULL);
    atomic_init(&pool->kept, 0);
    atomic_init(&pool->kept_max, 0);
    atomic_init(&pool->capacity, 0);
    atomic_init(&pool->in_flight, 0);
    atomic_init(&pool->wake_at, 0);
    atomic_init(&pool->waiting, false);
    return pool;
}

static void free_list(struct evzmq__frame_pool *pool, struct evzmq__frame *frame)
{
    while (frame != NULL) {
        struct evzmq__frame *next = frame->next;
        (void)atomic_fetch_sub_explicit(&pool->kept, 1, memory_order_relaxed);
        evzmq__free(frame);
        frame = next;
    }
}

/* Frees what is kept. Loop thread, or the last one who has the pool. */
static void empty(struct evzmq__frame_pool *pool)
{
    free_list(pool, pool->free);
    pool->free = NULL;
    free_list(pool, atomic_exchange_explicit(&pool->returned, NULL, memory_order_acquire));
}

static void unref(struct evzmq__frame_pool *pool)
{
    if (atomic_fetch_sub_explicit(&pool->references, 1, memory_order_acq_rel) > 1) {
        return;
    }
    empty(pool);
    evzmq__wake_close(&pool->wake);
    evzmq__free(pool);
}

void evzmq__frame_pool_resize(struct evzmq__frame_pool *pool, size_t capacity, size_t kept_max,
                              size_t in_flight_max)
{
    if (capacity != atomic_load_explicit(&pool->capacity, memory_order_relaxed)) {
        atomic_store_explicit(&pool->capacity, capacity, memory_order_relaxed);
        empty(pool);
    }
    atomic_store_explicit(&pool->kept_max, kept_max, memory_order_relaxed);
    pool->in_flight_max = in_flight_max;
    atomic_store_explicit(&pool->wake_at, in_flight_max / 2, memory_order_relaxed);
}

void evzmq__frame_pool_close(struct evzmq__frame_pool *pool, bool in_child)
{
    if (pool != NULL) {
        if (in_child) {
            evzmq__wake_leave(&pool->wake);
        }
        atomic_store_explicit(&pool->kept_max, 0, memory_order_relaxed);
        empty(pool);
        unref(pool);
    }
}

struct evzmq__frame *evzmq__frame_make(struct evzmq__frame_pool *pool, size_t capacity)
{
    if (capacity > SIZE_MAX - sizeof(struct evzmq__frame)) {
        errno = ENOMEM;
        return NULL;
    }
    struct evzmq__frame *frame = evzmq__malloc(sizeof(*frame) + capacity);
    if (frame == NULL) {
        return NULL;
    }
    frame->next = NULL;
    frame->pool = pool;
    frame->capacity = capacity;
    atomic_init(&frame->in_flight, 0);
    (void)atomic_fetch_add_explicit(&pool->references, 1, memory_order_relaxed);
    return frame;
}

struct evzmq__frame *evzmq__frame_take(struct evzmq__frame_pool *pool)
{
    const size_t capacity = atomic_load_explicit(&pool->capacity, memory_order_relaxed);
    for (;;) {
        if (pool->free == NULL) {
            pool->free = atomic_exchange_explicit(&pool->returned, NULL, memory_order_acquire);
        }
        struct evzmq__frame *frame = pool->free;
        if (frame == NULL) {
            return evzmq__frame_make(pool, capacity);
        }
        pool->free = frame->next;
        (void)atomic_fetch_sub_explicit(&pool->kept, 1, memory_order_relaxed);
        if (frame->capacity == capacity) {
            (void)atomic_fetch_add_explicit(&pool->references, 1, memory_order_relaxed);
            return frame;
        }
        evzmq__free(frame); /* The size was changed while it was on its way back. */
    }
}

bool evzmq__frame_admit(struct evzmq__frame *frame)
{
    struct evzmq__frame_pool *pool = frame->pool;
    const size_t half = pool->in_flight_max / 2;
    size_t before = atomic_load_explicit(&pool->in_flight, memory_order_relaxed);
    if (before > half &&
        (before > pool->in_flight_max || frame->capacity > pool->in_flight_max - before)) {
        /* First the flag, then another look, both in the one order that evzmq__frame_release()
         * counts and looks in: one of the two sees the other. */
        atomic_store(&pool->waiting, true);
        before = atomic_load(&pool->in_flight);
        if (before > half) {
            return false;
        }
        atomic_store(&pool->waiting, false);
    }
    (void)atomic_fetch_add_explicit(&pool->in_flight, frame->capacity, memory_order_relaxed);
    atomic_store_explicit(&frame->in_flight, frame->capacity, memory_order_release);
    return true;
}

void evzmq__frame_recall(struct evzmq__frame *frame)
{
    const size_t counted = atomic_load_explicit(&frame->in_flight, memory_order_relaxed);
    atomic_store_explicit(&frame->in_flight, 0, memory_order_release);
    (void)atomic_fetch_sub_explicit(&frame->pool->in_flight, counted, memory_order_relaxed);
}

/* Keeps a frame for the next use, or frees it. */
static void keep(struct evzmq__frame_pool *pool, struct evzmq__frame *frame)
{
    const size_t kept = atomic_fetch_add_explicit(&pool->kept, 1, memory_order_relaxed);
    if (kept >= atomic_load_explicit(&pool->kept_max, memory_order_relaxed) ||
        frame->capacity != atomic_load_explicit(&pool->capacity, memory_order_relaxed)) {
        (void)atomic_fetch_sub_explicit(&pool->kept, 1, memory_order_relaxed);
        evzmq__free(frame);
        return;
    }
    struct evzmq__frame *head = atomic_load_explicit(&pool->returned, memory_order_relaxed);
    do {
        frame->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&pool->returned, &head, frame,
                                                    memory_order_release, memory_order_relaxed));
}

void evzmq__frame_release(void *data, void *arg)
{
    struct evzmq__frame *frame = arg;
    assert(data == frame->data);
    (void)data;
    const size_t counted = atomic_load_explicit(&frame->in_flight, memory_order_acquire);
    struct evzmq__frame_pool *pool = frame->pool;
    atomic_store_explicit(&frame->in_flight, 0, memory_order_relaxed);
    /* Kept before it is counted out, so that whoever is woken finds it. */
    keep(pool, frame);
    if (counted > 0) {
        const size_t left = atomic_fetch_sub(&pool->in_flight, counted) - counted;
        if (left <= atomic_load_explicit(&pool->wake_at, memory_order_relaxed) &&
            atomic_load(&pool->waiting) && atomic_exchange(&pool->waiting, false)) {
            evzmq__wake_signal(&pool->wake);
        }
    }
    unref(pool);
}
