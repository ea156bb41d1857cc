/*
 * Reads the tab-separated files of tests/vectors.
 */
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *path, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", path, why);
    abort();
}

static char *read_file(const char *path)
{
    FILE *const stream = fopen(path, "rb");
    if (stream == NULL) {
        fail(path, "cannot be opened");
        return NULL;
    }
    size_t size = 0;
    size_t capacity = 65536;
    char *text = malloc(capacity);
    size_t got = 0;
    while (text != NULL && (got = fread(text + size, 1, capacity - size - 1, stream)) > 0) {
        size += got;
        if (capacity - size < 2) {
            capacity *= 2;
            text = realloc(text, capacity);
        }
    }
    (void)fclose(stream);
    if (text == NULL) {
        fail(path, "out of memory");
        return NULL;
    }
    text[size] = '\0';
    return text;
}

static char *copy(const char *path, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *const kept = malloc(size);
    if (kept == NULL) {
        fail(path, "out of memory");
        return NULL;
    }
    memcpy(kept, text, size);
    return kept;
}

static unsigned digit(const char *path, char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *const found = c != '\0' ? strchr(digits, c) : NULL;
    if (found == NULL) {
        fail(path, "not hexadecimal");
        return 0;
    }
    return (unsigned)(found - digits);
}

static void read_bytes(const char *path, const char *hex, struct vector *out)
{
    out->size = strlen(hex) / 2;
    out->bytes = malloc(out->size > 0 ? out->size : 1);
    if (out->bytes == NULL) {
        fail(path, "out of memory");
        return;
    }
    for (size_t i = 0; i < out->size; i++) {
        out->bytes[i] = (unsigned char)(digit(path, hex[2 * i]) << 4 | digit(path, hex[2 * i + 1]));
    }
}

/* Cuts the text at the next of the separators and gives what was before it; *rest is after it. */
static char *cut(char **rest, char separator)
{
    char *const begin = *rest;
    char *const at = strchr(begin, separator);
    if (at == NULL) {
        *rest = begin + strlen(begin);
    } else {
        *at = '\0';
        *rest = at + 1;
    }
    return begin;
}

struct vectors vectors_load(const char *file)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/vectors/%s", EVZMQ_TESTS_DIR, file);
    char *const text = read_file(path);
    struct vectors vectors = {NULL, 0};
    char *lines = text;
    (void)cut(&lines, '\n'); /* the names of the columns */
    while (*lines != '\0') {
        char *line = cut(&lines, '\n');
        struct vector *const items = realloc(vectors.items, (vectors.count + 1) * sizeof(*items));
        if (items == NULL) {
            fail(path, "out of memory");
            break;
        }
        vectors.items = items;
        struct vector *const vector = &items[vectors.count++];
        vector->type = copy(path, cut(&line, '\t'));
        vector->name = copy(path, cut(&line, '\t'));
        read_bytes(path, cut(&line, '\t'), vector);
        vector->rest = copy(path, line);
    }
    free(text);
    if (vectors.count == 0) {
        fail(path, "no vectors");
    }
    return vectors;
}

void vectors_free(struct vectors *vectors)
{
    for (size_t i = 0; i < vectors->count; i++) {
        free(vectors->items[i].type);
        free(vectors->items[i].name);
        free(vectors->items[i].bytes);
        free(vectors->items[i].rest);
    }
    free(vectors->items);
    vectors->items = NULL;
    vectors->count = 0;
}
