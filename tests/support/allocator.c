/*
 * The counting allocator: each block carries its size in front.
 */
#include "allocator.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include <evzmq/base.h>

#define PREFIX (alignof(max_align_t) > sizeof(size_t) ? alignof(max_align_t) : sizeof(size_t))

/* More than any test needs: a request for more fails here, before a sanitizer stops the program. */
#define SIZE_LIMIT ((size_t)1 << 30)

static struct allocator_counts counts;
static size_t calls_until_failure;

static int fails(void)
{
    counts.calls += 1;
    return calls_until_failure > 0 && --calls_until_failure == 0;
}

static size_t get_size(const void *block)
{
    size_t size;
    memcpy(&size, (const char *)block - PREFIX, sizeof(size));
    return size;
}

static void *begin_block(void *memory, size_t size)
{
    memcpy(memory, &size, sizeof(size));
    counts.blocks += 1;
    counts.bytes += size;
    if (counts.bytes > counts.bytes_peak) {
        counts.bytes_peak = counts.bytes;
    }
    return (char *)memory + PREFIX;
}

static void end_block(void *block)
{
    counts.blocks -= 1;
    counts.bytes -= get_size(block);
}

static void *count_malloc(size_t size)
{
    if (fails() || size > SIZE_LIMIT) {
        return NULL;
    }
    void *const memory = malloc(PREFIX + size);
    return memory != NULL ? begin_block(memory, size) : NULL;
}

static void count_free(void *block)
{
    if (block != NULL) {
        end_block(block);
        free((char *)block - PREFIX);
    }
}

static void *count_realloc(void *block, size_t size)
{
    void *const moved = count_malloc(size);
    if (moved != NULL && block != NULL) {
        const size_t old = get_size(block);
        memcpy(moved, block, old < size ? old : size);
        count_free(block);
    }
    return moved;
}

void allocator_install(void)
{
    memset(&counts, 0, sizeof(counts));
    calls_until_failure = 0;
    (void)evzmq_set_mem_functions(count_malloc, count_realloc, count_free);
}

void allocator_remove(void)
{
    (void)evzmq_set_mem_functions(NULL, NULL, NULL);
}

struct allocator_counts allocator_get_counts(void)
{
    return counts;
}

void allocator_fail_at(size_t n)
{
    calls_until_failure = n;
}
