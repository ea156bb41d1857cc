/*
 * table.h (L0): a hash table of nodes that live inside their owners.
 *
 * The table finds candidates by hash; the owner compares keys. It never allocates per node, and
 * when its bucket array cannot grow it goes on with longer chains, so only the first insertion can
 * fail.
 */
#ifndef EVZMQ_TABLE_H
#define EVZMQ_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct evzmq__table_node {
    struct evzmq__table_node *next;
    uint64_t hash;
};

struct evzmq__table {
    struct evzmq__table_node **buckets;
    size_t bucket_count; /* a power of two, or 0 before the first insertion */
    size_t count;
};

/* A hash of some bytes. Its users bound the number of nodes, so that peers who choose keys gain
 * nothing by choosing colliding ones. */
uint64_t evzmq__hash(const void *data, size_t size);

/* Adds a node. Returns 0, or -1 with ENOMEM. */
int evzmq__table_insert(struct evzmq__table *table, struct evzmq__table_node *node, uint64_t hash);

/* The first node with this hash, or NULL. */
struct evzmq__table_node *evzmq__table_find(const struct evzmq__table *table, uint64_t hash);

/* The next node after one that was found, with the same hash, or NULL. */
struct evzmq__table_node *evzmq__table_find_next(const struct evzmq__table_node *node);

/* Takes out a node that is in the table. */
void evzmq__table_remove(struct evzmq__table *table, struct evzmq__table_node *node);

/* Frees the bucket array. The nodes are their owners'. */
void evzmq__table_clear(struct evzmq__table *table);

#endif /* EVZMQ_TABLE_H */
