/*
 * replay.c: the main function of a fuzz target when it runs as an ordinary test.
 *
 * Without arguments it gives the target what its plan says: wire vectors, prefixes of each, and
 * each with one byte replaced by one that is likely to matter, then inputs that once were a problem
 * somewhere; the target's own seeds, with as many prefixes; random inputs. With arguments it
 * replays those files, such as one that libFuzzer wrote. With --write and a directory it writes
 * vectors and seeds there, one a file, for libFuzzer to start from.
 */
#include <string.h>

#include "fuzz.h"
#include "vectors.h"

static const char *const vector_files[] = {"vectors.tsv", "accept.tsv", "invalid.tsv",
                                           "pubsub.tsv"};
enum { VECTOR_FILES = sizeof(vector_files) / sizeof(vector_files[0]) };

/* Counts without elements, lengths that wrap, nesting. */
static const struct {
    const char *bytes;
    size_t size;
} hostile[] = {
    {"\xdd\xff\xff\xff\xff", 5},     {"\xdf\xff\xff\xff\xff", 5}, {"\xdd\x0f\xff\xff\xff", 5},
    {"\xdd\x05\xf5\xe1\x00", 5},     {"\xdc\xff\xff", 3},         {"\xde\xff\xff", 3},
    {"\xc9\xff\xff\xff\xff\x05", 6}, {"\xc7\x00\x05", 3},         {"\xdb\xff\xff\xff\xff", 5},
    {"\x81\x81\x01\x02\x03", 5},     {"\x92\xa1x\xa1", 4},
};

/* The input ends where its memory ends, so that a sanitizer sees a read beyond it. */
static void give(const unsigned char *bytes, size_t size)
{
    unsigned char *const copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) {
        abort();
    }
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* So many steps, or fewer, go through the whole. */
static size_t get_step(size_t size, size_t steps_max)
{
    return size > steps_max ? size / steps_max + 1 : 1;
}

static void give_variants(unsigned char *bytes, size_t size)
{
    static const unsigned char replacements[] = {0x00, 0x7f, 0x81, 0x9f, 0xa1, 0xc1,
                                                 0xc4, 0xc9, 0xdb, 0xdd, 0xdf, 0xff};
    give(bytes, size);
    for (size_t prefix = 0; prefix < size; prefix += get_step(size, fuzz_plan.prefixes_max)) {
        give(bytes, prefix);
    }
    const size_t step = get_step(size, fuzz_plan.places_max);
    for (size_t at = 0; at < size; at += step) {
        const unsigned char good = bytes[at];
        for (size_t i = 0; i < sizeof(replacements); i++) {
            bytes[at] = replacements[i];
            give(bytes, size);
        }
        bytes[at] = good;
    }
}

static void give_nested(void)
{
    unsigned char bytes[2000];
    memset(bytes, 0x91, sizeof(bytes));
    for (size_t depth = 1; depth <= 600; depth += depth < 500 ? 31 : 1) {
        bytes[depth - 1] = 0x90;
        give(bytes, depth);
        bytes[depth - 1] = 0x91;
    }
    give(bytes, sizeof(bytes));
}

static void replay_vectors(void)
{
    for (size_t f = 0; f < VECTOR_FILES; f++) {
        struct vectors vectors = vectors_load(vector_files[f]);
        for (size_t i = 0; i < vectors.count; i++) {
            give_variants(vectors.items[i].bytes, vectors.items[i].size);
        }
        vectors_free(&vectors);
    }
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        give((const unsigned char *)hostile[i].bytes, hostile[i].size);
    }
    give_nested();
}

static void replay_seeds(void)
{
    for (size_t i = 0; i < fuzz_plan.seed_count; i++) {
        const struct fuzz_seed *const seed = &fuzz_plan.seeds[i];
        for (size_t prefix = 0; prefix <= seed->size; prefix++) {
            give((const unsigned char *)seed->bytes, prefix);
        }
    }
}

static uint64_t random_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void replay_random(void)
{
    uint64_t state = 1;
    for (unsigned i = 0; i < fuzz_plan.random_count; i++) {
        unsigned char bytes[4096];
        const size_t size = (size_t)random_next(&state) % (fuzz_plan.random_size_max + 1);
        for (size_t at = 0; at < size; at++) {
            bytes[at] = (unsigned char)random_next(&state);
        }
        give(bytes, size);
    }
}

static int replay_file(const char *path)
{
    static unsigned char bytes[1024 * 1024];
    FILE *const stream = fopen(path, "rb");
    if (stream == NULL) {
        (void)fprintf(stderr, "%s: cannot be opened\n", path);
        return EXIT_FAILURE;
    }
    const size_t size = fread(bytes, 1, sizeof(bytes), stream);
    (void)fclose(stream);
    give(bytes, size);
    return EXIT_SUCCESS;
}

static int write_file(const char *directory, const char *name, size_t number, const void *bytes,
                      size_t size)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s-%zu", directory, name, number);
    FILE *const stream = fopen(path, "wb");
    bool written = stream != NULL && fwrite(bytes, 1, size, stream) == size;
    written = stream != NULL && fclose(stream) == 0 && written;
    if (!written) {
        (void)fprintf(stderr, "%s: cannot be written\n", path);
    }
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int write_inputs(const char *directory)
{
    int result = EXIT_SUCCESS;
    for (size_t f = 0; f < VECTOR_FILES && fuzz_plan.prefixes_max > 0; f++) {
        struct vectors vectors = vectors_load(vector_files[f]);
        for (size_t i = 0; i < vectors.count; i++) {
            result |= write_file(directory, vector_files[f], i, vectors.items[i].bytes,
                                 vectors.items[i].size);
        }
        vectors_free(&vectors);
    }
    for (size_t i = 0; i < fuzz_plan.seed_count; i++) {
        result |=
            write_file(directory, "seed", i, fuzz_plan.seeds[i].bytes, fuzz_plan.seeds[i].size);
    }
    return result;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        return write_inputs(argv[2]);
    }
    if (argc == 1) {
        if (fuzz_plan.prefixes_max > 0) {
            replay_vectors();
        }
        replay_seeds();
        replay_random();
        return EXIT_SUCCESS;
    }
    int result = EXIT_SUCCESS;
    for (int i = 1; i < argc; i++) {
        if (replay_file(argv[i]) != EXIT_SUCCESS) {
            result = EXIT_FAILURE;
        }
    }
    return result;
}
