/*
 * heap.c (L0): see heap.h. No node has a smaller key than its parent, that of place p being at
 * place (p - 1) / 2. The array doubles and is kept: whoever had many deadlines will have them
 * again.
 */
#include "heap.h"

#include <assert.h>
#include <errno.h>

#include "base.h"

enum { CAPACITY_MIN = 16 };

static int grow(struct evzmq__heap *heap)
{
    const size_t wanted = heap->capacity == 0 ? CAPACITY_MIN : heap->capacity * 2;
    if (wanted > SIZE_MAX / sizeof(struct evzmq__heap_node *)) {
        errno = ENOMEM;
        return -1;
    }
    struct evzmq__heap_node **nodes =
        evzmq__realloc(heap->nodes, wanted * sizeof(struct evzmq__heap_node *));
    if (nodes == NULL) {
        return -1;
    }
    heap->nodes = nodes;
    heap->capacity = wanted;
    return 0;
}

static void put(struct evzmq__heap *heap, struct evzmq__heap_node *node, size_t place)
{
    heap->nodes[place] = node;
    node->place = place;
}

/* Moves a node, whose place is free for another, up to where it belongs. */
static void rise(struct evzmq__heap *heap, struct evzmq__heap_node *node)
{
    size_t place = node->place;
    while (place > 0) {
        struct evzmq__heap_node *parent = heap->nodes[(place - 1) / 2];
        if (parent->key <= node->key) {
            break;
        }
        put(heap, parent, place);
        place = (place - 1) / 2;
    }
    put(heap, node, place);
}

/* The same, downwards. */
static void sink(struct evzmq__heap *heap, struct evzmq__heap_node *node)
{
    size_t place = node->place;
    for (;;) {
        size_t child = place * 2 + 1;
        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count && heap->nodes[child + 1]->key < heap->nodes[child]->key) {
            child++;
        }
        if (node->key <= heap->nodes[child]->key) {
            break;
        }
        put(heap, heap->nodes[child], place);
        place = child;
    }
    put(heap, node, place);
}

int evzmq__heap_insert(struct evzmq__heap *heap, struct evzmq__heap_node *node, uint64_t key)
{
    if (heap->count == heap->capacity && grow(heap) < 0) {
        return -1;
    }
    node->key = key;
    node->place = heap->count++;
    rise(heap, node);
    return 0;
}

void evzmq__heap_change(struct evzmq__heap *heap, struct evzmq__heap_node *node, uint64_t key)
{
    assert(node->place < heap->count && heap->nodes[node->place] == node);
    const uint64_t before = node->key;
    node->key = key;
    if (key < before) {
        rise(heap, node);
    } else {
        sink(heap, node);
    }
}

void evzmq__heap_remove(struct evzmq__heap *heap, struct evzmq__heap_node *node)
{
    assert(node->place < heap->count && heap->nodes[node->place] == node);
    struct evzmq__heap_node *last = heap->nodes[--heap->count];
    if (last == node) {
        return;
    }
    last->place = node->place;
    if (last->key < node->key) {
        rise(heap, last);
    } else {
        sink(heap, last);
    }
}

void evzmq__heap_clear(struct evzmq__heap *heap)
{
    evzmq__free(heap->nodes);
    *heap = (struct evzmq__heap){0};
}
