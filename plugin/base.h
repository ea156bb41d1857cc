/*
 * base.h (L0): what every other file builds on: the allocator that evzmq_set_mem_functions()
 * replaces.
 *
 * No file of the library calls malloc() itself, so that a program's allocator sees all of it and
 * the tests can make any allocation fail.
 */
#ifndef EVZMQ_PLUGIN_BASE_H
#define EVZMQ_PLUGIN_BASE_H

#include <stddef.h>

#include <evzmq/base.h>

/* Keeps the rare paths out of the hot functions, whose registers they would take. */
#if defined(__GNUC__)
#define EVZMQ__NOINLINE __attribute__((noinline))
#define EVZMQ__COLD __attribute__((noinline, cold))
#define EVZMQ__LIKELY(condition) __builtin_expect(!!(condition), 1)
#define EVZMQ__INLINE inline __attribute__((always_inline))
#else
#define EVZMQ__NOINLINE
#define EVZMQ__COLD
#define EVZMQ__LIKELY(condition) (condition)
#define EVZMQ__INLINE inline
#endif

/* Each of them sets errno to ENOMEM when it gives NULL, whatever the replaced functions do. */

/* A size of 0 is a mistake of the caller: allocators disagree on what it gives. */
void *evzmq__malloc(size_t size);

/* count * size bytes, all zero; NULL with ENOMEM when the product overflows. */
void *evzmq__calloc(size_t count, size_t size);

/* As realloc(): on failure the old block stays valid. */
void *evzmq__realloc(void *block, size_t size);

/* A copy of a text; NULL with ENOMEM. */
char *evzmq__copy_text(const char *text);

/* Keeps errno, so that cleaning up does not hide the cause of a failure. */
void evzmq__free(void *block);

#endif /* EVZMQ_PLUGIN_BASE_H */
