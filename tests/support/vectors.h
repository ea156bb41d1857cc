/**
 * @file vectors.h
 * The wire vectors of tests/vectors, read at run time.
 */
#ifndef TESTS_SUPPORT_VECTORS_H
#define TESTS_SUPPORT_VECTORS_H

#include <stddef.h>

/** One line of a file. */
struct vector {
    char *type; /* the first column */
    char *name; /* the second */
    unsigned char *bytes; /* the third, without the hexadecimal: exactly size bytes, so that a
                             sanitizer sees a read beyond them */
    size_t size;
    char *rest; /* what follows, with its tabs */
};

struct vectors {
    struct vector *items;
    size_t count;
};

/** Reads one of the files; aborts the program, with a word on stderr, when it cannot be read. */
struct vectors vectors_load(const char *file);

void vectors_free(struct vectors *vectors);

#endif /* TESTS_SUPPORT_VECTORS_H */
