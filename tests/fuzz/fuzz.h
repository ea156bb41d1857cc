/**
 * @file fuzz.h
 * What all fuzz targets share. Each is one file that defines a function that is given bytes, and a
 * plan for replay.c, which runs the target as an ordinary test.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/** The target: ends the program where a property does not hold. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** An input of the target's own to start from, or one that once was a problem. */
struct fuzz_seed {
    const char *bytes;
    size_t size;
};

/** A seed of a string literal, which may have zeros in it. */
#define FUZZ_SEED(literal)                                                                         \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

/** What the target is given when it runs as a test. */
struct fuzz_plan {
    size_t prefixes_max; /**< of each wire vector; 0: none of the vectors */
    size_t places_max; /**< of each vector, where one byte is replaced in turn by several */
    const struct fuzz_seed *seeds;
    size_t seed_count;
    unsigned random_count; /**< random inputs, the same ones each time */
    size_t random_size_max;
};

extern const struct fuzz_plan fuzz_plan;

static inline void check(bool holds, const char *claim)
{
    if (!holds) {
        (void)fprintf(stderr, "not true: %s\n", claim);
        abort();
    }
}

#endif /* TESTS_FUZZ_FUZZ_H */
