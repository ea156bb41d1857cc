/**
 * @file allocator.h
 * An allocator for the library that counts, and that fails when a test wants it to.
 */
#ifndef TESTS_SUPPORT_ALLOCATOR_H
#define TESTS_SUPPORT_ALLOCATOR_H

#include <stddef.h>

/** What the library did since allocator_install(). Not for tests with threads. */
struct allocator_counts {
    size_t calls; /* of malloc and realloc, those that failed included */
    size_t blocks; /* not yet freed */
    size_t bytes; /* in those */
    size_t bytes_peak;
};

/** Makes the library allocate here, with all counts at 0 and no failure planned. Nothing that the
 * library allocated before may be left. */
void allocator_install(void);

/** Gives the library the C library's functions back. */
void allocator_remove(void);

struct allocator_counts allocator_get_counts(void);

/** Makes the n-th call from now on fail, and only that; 0: none. */
void allocator_fail_at(size_t n);

#endif /* TESTS_SUPPORT_ALLOCATOR_H */
