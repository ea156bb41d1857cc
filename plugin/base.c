/*
 * base.c (L0): the library's version, error texts and allocator: what is known without any event
 * base.
 */
#include "base.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

/* Set before any other call of the library and only read after that, hence no lock. */
static void *(*mem_malloc)(size_t) = malloc;
static void *(*mem_realloc)(void *, size_t) = realloc;
static void (*mem_free)(void *) = free;

void evzmq_version(int *out_major, int *out_minor, int *out_patch)
{
    if (out_major != NULL) {
        *out_major = EVZMQ_VERSION_MAJOR;
    }
    if (out_minor != NULL) {
        *out_minor = EVZMQ_VERSION_MINOR;
    }
    if (out_patch != NULL) {
        *out_patch = EVZMQ_VERSION_PATCH;
    }
}

const char *evzmq_strerror(int error)
{
    const char *const text = zmq_strerror(error);
    return text != NULL ? text : "unknown error";
}

int evzmq_set_mem_functions(void *(*malloc_fn)(size_t), void *(*realloc_fn)(void *, size_t),
                            void (*free_fn)(void *))
{
    if (malloc_fn == NULL && realloc_fn == NULL && free_fn == NULL) {
        mem_malloc = malloc;
        mem_realloc = realloc;
        mem_free = free;
        return 0;
    }
    if (malloc_fn == NULL || realloc_fn == NULL || free_fn == NULL) {
        errno = EINVAL;
        return -1;
    }
    mem_malloc = malloc_fn;
    mem_realloc = realloc_fn;
    mem_free = free_fn;
    return 0;
}

void *evzmq__malloc(size_t size)
{
    assert(size > 0);
    void *const block = mem_malloc(size);
    if (block == NULL) {
        errno = ENOMEM;
    }
    return block;
}

void *evzmq__calloc(size_t count, size_t size)
{
    assert(count > 0 && size > 0);
    if (count > SIZE_MAX / size) {
        errno = ENOMEM;
        return NULL;
    }
    void *const block = evzmq__malloc(count * size);
    if (block != NULL) {
        memset(block, 0, count * size);
    }
    return block;
}

void *evzmq__realloc(void *block, size_t size)
{
    assert(size > 0);
    void *const moved = mem_realloc(block, size);
    if (moved == NULL) {
        errno = ENOMEM;
    }
    return moved;
}

char *evzmq__copy_text(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *const copy = evzmq__malloc(size);
    return copy == NULL ? NULL : memcpy(copy, text, size);
}

void evzmq__free(void *block)
{
    if (block == NULL) {
        return;
    }
    const int saved = errno;
    mem_free(block);
    errno = saved;
}
