/*
 * prefixes.c (L4): see prefixes.h.
 */
#include "prefixes.h"

#include <errno.h>
#include <string.h>

#include "base.h"

struct prefix {
    struct evzmq__table_node node; /* first */
    uint32_t count;
    unsigned char size;
    char text[];
};

static struct prefix *find(const struct evzmq__prefixes *prefixes, const char *text, size_t size)
{
    struct evzmq__table_node *node = evzmq__table_find(&prefixes->table, evzmq__hash(text, size));
    while (node != NULL) {
        struct prefix *prefix = (struct prefix *)node;
        if (prefix->size == size && memcmp(prefix->text, text, size) == 0) {
            return prefix;
        }
        node = evzmq__table_find_next(node);
    }
    return NULL;
}

int evzmq__prefixes_add(struct evzmq__prefixes *prefixes, const char *text, size_t size,
                        uint32_t *out_count)
{
    struct prefix *prefix = find(prefixes, text, size);
    if (prefix != NULL) {
        if (prefix->count == UINT32_MAX) {
            errno = EOVERFLOW;
            return -1;
        }
        *out_count = ++prefix->count;
        return 0;
    }
    prefix = evzmq__malloc(sizeof(*prefix) + size);
    if (prefix == NULL) {
        return -1;
    }
    prefix->count = 1;
    prefix->size = (unsigned char)size;
    memcpy(prefix->text, text, size);
    if (evzmq__table_insert(&prefixes->table, &prefix->node, evzmq__hash(text, size)) < 0) {
        evzmq__free(prefix);
        errno = ENOMEM;
        return -1;
    }
    prefixes->by_size[size]++;
    *out_count = 1;
    return 0;
}

uint32_t evzmq__prefixes_count(const struct evzmq__prefixes *prefixes, const char *text,
                               size_t size)
{
    const struct prefix *prefix = find(prefixes, text, size);
    return prefix == NULL ? 0 : prefix->count;
}

int evzmq__prefixes_remove(struct evzmq__prefixes *prefixes, const char *text, size_t size,
                           uint32_t *out_count)
{
    struct prefix *prefix = find(prefixes, text, size);
    if (prefix == NULL) {
        errno = ENOENT;
        return -1;
    }
    *out_count = --prefix->count;
    if (prefix->count == 0) {
        prefixes->by_size[size]--;
        evzmq__table_remove(&prefixes->table, &prefix->node);
        evzmq__free(prefix);
    }
    return 0;
}

bool evzmq__prefixes_match(const struct evzmq__prefixes *prefixes, const char *topic, size_t size)
{
    for (size_t i = 0; i <= size; i++) {
        if (prefixes->by_size[i] > 0 && (i == 0 || find(prefixes, topic, i) != NULL)) {
            return true;
        }
    }
    return false;
}

void evzmq__prefixes_clear(struct evzmq__prefixes *prefixes)
{
    for (size_t i = 0; i < prefixes->table.bucket_count; i++) {
        struct evzmq__table_node *node = prefixes->table.buckets[i];
        while (node != NULL) {
            struct evzmq__table_node *next = node->next;
            evzmq__free(node);
            node = next;
        }
    }
    evzmq__table_clear(&prefixes->table);
}
