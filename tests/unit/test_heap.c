/*
 * The heap that says which of many deadlines is the first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "allocator.h"
#include "heap.h"

enum { NODES = 5000 };

static int setup(void **state)
{
    (void)state;
    allocator_install();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    const size_t left = allocator_get_counts().blocks;
    allocator_remove();
    return left == 0 ? 0 : -1;
}

static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % limit;
}

static struct evzmq__heap_node nodes[NODES];
static uint64_t key_of[NODES]; /* what the heap was told; UINT64_MAX: not in it */

static void begin(struct evzmq__heap *heap)
{
    *heap = (struct evzmq__heap){0};
    random_state = 1;
    for (size_t i = 0; i < NODES; i++) {
        key_of[i] = UINT64_MAX;
    }
}

static void insert(struct evzmq__heap *heap, size_t i, uint64_t key)
{
    assert_int_equal(evzmq__heap_insert(heap, &nodes[i], key), 0);
    key_of[i] = key;
}

/* The heap holds what it was told, every node where it says it is, none before its parent. */
static void assert_sound(const struct evzmq__heap *heap)
{
    size_t expected = 0;
    for (size_t i = 0; i < NODES; i++) {
        if (key_of[i] != UINT64_MAX) {
            expected++;
            assert_true(nodes[i].place < heap->count);
            assert_ptr_equal(heap->nodes[nodes[i].place], &nodes[i]);
            assert_int_equal(nodes[i].key, key_of[i]);
        }
    }
    assert_int_equal(heap->count, expected);
    for (size_t place = 1; place < heap->count; place++) {
        assert_true(heap->nodes[(place - 1) / 2]->key <= heap->nodes[place]->key);
    }
}

static void nodes_come_out_by_their_keys(void **state)
{
    (void)state;
    const uint64_t ranges[] = {1, 7, 1000000}; /* all the same, many the same, few the same */
    for (size_t range = 0; range < 3; range++) {
        struct evzmq__heap heap;
        begin(&heap);
        for (size_t i = 0; i < NODES; i++) {
            insert(&heap, i, random_below(ranges[range]));
        }
        uint64_t last = 0;
        for (size_t left = NODES; left > 0; left--) {
            struct evzmq__heap_node *first = evzmq__heap_first(&heap);
            assert_true(first->key >= last);
            last = first->key;
            evzmq__heap_remove(&heap, first);
        }
        assert_null(evzmq__heap_first(&heap));
        evzmq__heap_clear(&heap);
    }
}

static void any_node_can_be_taken_out_or_moved(void **state)
{
    (void)state;
    struct evzmq__heap heap;
    begin(&heap);
    for (int step = 0; step < 20000; step++) {
        const size_t i = (size_t)random_below(200);
        const uint64_t key = random_below(50);
        if (key_of[i] == UINT64_MAX) {
            insert(&heap, i, key);
        } else if (random_below(2) == 0) {
            evzmq__heap_change(&heap, &nodes[i], key);
            key_of[i] = key;
        } else {
            evzmq__heap_remove(&heap, &nodes[i]);
            key_of[i] = UINT64_MAX;
        }
        if (step % 16 == 0) {
            assert_sound(&heap);
        }
    }
    assert_sound(&heap);
    evzmq__heap_clear(&heap);
}

static void an_insertion_without_memory_leaves_the_heap_as_it_was(void **state)
{
    (void)state;
    struct evzmq__heap heap;
    begin(&heap);
    allocator_fail_at(1);
    assert_int_equal(evzmq__heap_insert(&heap, &nodes[0], 1), -1);
    size_t i = 0;
    for (; heap.count < heap.capacity || heap.count == 0; i++) {
        insert(&heap, i, NODES - i);
    }
    allocator_fail_at(1);
    assert_int_equal(evzmq__heap_insert(&heap, &nodes[i], 0), -1);
    assert_sound(&heap);
    insert(&heap, i, 0);
    assert_sound(&heap);
    assert_ptr_equal(evzmq__heap_first(&heap), &nodes[i]);
    evzmq__heap_clear(&heap);
}

static void a_heap_that_was_full_allocates_no_more(void **state)
{
    (void)state;
    struct evzmq__heap heap;
    begin(&heap);
    for (size_t i = 0; i < NODES; i++) {
        insert(&heap, i, random_below(1000));
    }
    const size_t calls = allocator_get_counts().calls;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < NODES; i++) {
            evzmq__heap_remove(&heap, &nodes[i]);
        }
        for (size_t i = 0; i < NODES; i++) {
            insert(&heap, i, random_below(1000));
        }
    }
    assert_sound(&heap);
    assert_int_equal(allocator_get_counts().calls, calls);
    evzmq__heap_clear(&heap);
}

#define test(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(nodes_come_out_by_their_keys),
        test(any_node_can_be_taken_out_or_moved),
        test(an_insertion_without_memory_leaves_the_heap_as_it_was),
        test(a_heap_that_was_full_allocates_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
