/*
 * table.c (L0): see table.h. Chains in a bucket array that doubles when there are more nodes than
 * buckets.
 */
#include "table.h"

#include <assert.h>

#include "base.h"

enum { BUCKETS_MIN = 16 };

uint64_t evzmq__hash(const void *data, size_t size)
{
    /* FNV-1a, 64 bits, with its published offset basis and prime. */
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) {
        hash ^= bytes[i];
        hash *= UINT64_C(0x100000001b3);
    }
    return hash;
}

static struct evzmq__table_node **bucket_of(const struct evzmq__table *table, uint64_t hash)
{
    return &table->buckets[(size_t)(hash ^ (hash >> 32)) & (table->bucket_count - 1)];
}

static int grow(struct evzmq__table *table)
{
    const size_t wanted = table->bucket_count == 0 ? BUCKETS_MIN : table->bucket_count * 2;
    struct evzmq__table_node **buckets = evzmq__calloc(wanted, sizeof(*buckets));
    if (buckets == NULL) {
        return -1;
    }
    struct evzmq__table bigger = {.buckets = buckets, .bucket_count = wanted};
    for (size_t i = 0; i < table->bucket_count; i++) {
        struct evzmq__table_node *node = table->buckets[i];
        while (node != NULL) {
            struct evzmq__table_node *next = node->next;
            struct evzmq__table_node **bucket = bucket_of(&bigger, node->hash);
            node->next = *bucket;
            *bucket = node;
            node = next;
        }
    }
    evzmq__free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = wanted;
    return 0;
}

int evzmq__table_insert(struct evzmq__table *table, struct evzmq__table_node *node, uint64_t hash)
{
    if (table->count >= table->bucket_count && grow(table) < 0 && table->bucket_count == 0) {
        return -1;
    }
    struct evzmq__table_node **bucket = bucket_of(table, hash);
    node->hash = hash;
    node->next = *bucket;
    *bucket = node;
    table->count++;
    return 0;
}

static struct evzmq__table_node *first_with(struct evzmq__table_node *node, uint64_t hash)
{
    while (node != NULL && node->hash != hash) {
        node = node->next;
    }
    return node;
}

struct evzmq__table_node *evzmq__table_find(const struct evzmq__table *table, uint64_t hash)
{
    return table->bucket_count == 0 ? NULL : first_with(*bucket_of(table, hash), hash);
}

struct evzmq__table_node *evzmq__table_find_next(const struct evzmq__table_node *node)
{
    return first_with(node->next, node->hash);
}

void evzmq__table_remove(struct evzmq__table *table, struct evzmq__table_node *node)
{
    struct evzmq__table_node **link = bucket_of(table, node->hash);
    while (*link != node) {
        assert(*link != NULL);
        link = &(*link)->next;
    }
    *link = node->next;
    node->next = NULL;
    table->count--;
}

void evzmq__table_clear(struct evzmq__table *table)
{
    evzmq__free(table->buckets);
    *table = (struct evzmq__table){0};
}
