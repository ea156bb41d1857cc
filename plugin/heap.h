/*
 * heap.h (L0): what is due first, of many: a binary heap of nodes that live inside their owners.
 *
 * One timer of the loop serves any number of deadlines: it is set for the first node. A node knows
 * its place, so that any of them can be taken out or moved, not only the first.
 */
#ifndef EVZMQ_HEAP_H
#define EVZMQ_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct evzmq__heap_node {
    uint64_t key; /* what orders it: the time at which it is due */
    size_t place; /* in the heap's array */
};

struct evzmq__heap {
    struct evzmq__heap_node **nodes;
    size_t count;
    size_t capacity;
};

/* Adds a node. Returns 0, or -1 with ENOMEM. */
int evzmq__heap_insert(struct evzmq__heap *heap, struct evzmq__heap_node *node, uint64_t key);

/* A node with the smallest key, or NULL. */
static inline struct evzmq__heap_node *evzmq__heap_first(const struct evzmq__heap *heap)
{
    return heap->count == 0 ? NULL : heap->nodes[0];
}

/* Gives a node that is in the heap another key. */
void evzmq__heap_change(struct evzmq__heap *heap, struct evzmq__heap_node *node, uint64_t key);

/* Takes out a node that is in the heap. */
void evzmq__heap_remove(struct evzmq__heap *heap, struct evzmq__heap_node *node);

/* Frees the array. The nodes are their owners'. */
void evzmq__heap_clear(struct evzmq__heap *heap);

#endif /* EVZMQ_HEAP_H */
