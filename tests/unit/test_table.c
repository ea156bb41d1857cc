/*
 * The hash table of nodes that live in their owners.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "allocator.h"
#include "table.h"

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

static size_t count_with(const struct evzmq__table *table, uint64_t hash)
{
    size_t count = 0;
    struct evzmq__table_node *node = evzmq__table_find(table, hash);
    for (; node != NULL; node = evzmq__table_find_next(node)) {
        assert_int_equal(node->hash, hash);
        count++;
    }
    return count;
}

static void every_node_is_found_until_it_is_removed(void **state)
{
    (void)state;
    static struct evzmq__table_node nodes[5000];
    struct evzmq__table table = {0};
    for (uint64_t i = 0; i < 5000; i++) {
        assert_int_equal(evzmq__table_insert(&table, &nodes[i], evzmq__hash(&i, sizeof(i))), 0);
        assert_int_equal(table.count, i + 1);
    }
    for (uint64_t i = 0; i < 5000; i++) {
        assert_ptr_equal(evzmq__table_find(&table, evzmq__hash(&i, sizeof(i))), &nodes[i]);
    }
    for (uint64_t i = 0; i < 5000; i += 2) {
        evzmq__table_remove(&table, &nodes[i]);
    }
    for (uint64_t i = 0; i < 5000; i++) {
        assert_int_equal(count_with(&table, evzmq__hash(&i, sizeof(i))), i % 2);
    }
    assert_int_equal(table.count, 2500);
    evzmq__table_clear(&table);
}

static void nodes_of_the_same_hash_are_all_found(void **state)
{
    (void)state;
    struct evzmq__table_node nodes[100];
    struct evzmq__table table = {0};
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(evzmq__table_insert(&table, &nodes[i], i % 3), 0);
    }
    assert_int_equal(count_with(&table, 0), 34);
    assert_int_equal(count_with(&table, 1), 33);
    assert_int_equal(count_with(&table, 2), 33);
    assert_int_equal(count_with(&table, 3), 0);
    for (size_t i = 0; i < 100; i++) {
        evzmq__table_remove(&table, &nodes[99 - i]);
        assert_int_equal(table.count, 99 - i);
    }
    assert_int_equal(count_with(&table, 0), 0);
    evzmq__table_clear(&table);
}

/* The bucket is chosen from both halves of a hash. */
static void other_hashes_of_the_same_bucket_are_not_found(void **state)
{
    (void)state;
    struct evzmq__table_node nodes[2];
    struct evzmq__table table = {0};
    assert_int_equal(evzmq__table_insert(&table, &nodes[0], UINT64_C(0x0000000100000000)), 0);
    assert_int_equal(evzmq__table_insert(&table, &nodes[1], 1), 0);
    assert_int_equal(count_with(&table, 1), 1);
    assert_int_equal(count_with(&table, UINT64_C(0x0000000100000000)), 1);
    assert_int_equal(count_with(&table, UINT64_C(0x0000000200000003)), 0);
    evzmq__table_clear(&table);
}

/* Numbers that somebody else chose may differ in one half only, whichever that is. */
static void hashes_that_differ_in_either_half_share_no_bucket(void **state)
{
    (void)state;
    static struct evzmq__table_node nodes[1000];
    for (unsigned shift = 0; shift <= 32; shift += 32) {
        struct evzmq__table table = {0};
        for (uint64_t i = 0; i < 1000; i++) {
            assert_int_equal(evzmq__table_insert(&table, &nodes[i], i << shift), 0);
        }
        for (size_t i = 0; i < 1000; i++) {
            assert_null(nodes[i].next);
        }
        evzmq__table_clear(&table);
    }
}

static void empty_table_finds_nothing_and_has_no_memory(void **state)
{
    (void)state;
    struct evzmq__table table = {0};
    assert_null(evzmq__table_find(&table, 0));
    assert_int_equal(allocator_get_counts().calls, 0);
    evzmq__table_clear(&table);
    assert_null(evzmq__table_find(&table, 0));
}

static void cleared_table_can_be_used_again(void **state)
{
    (void)state;
    struct evzmq__table_node node;
    struct evzmq__table table = {0};
    assert_int_equal(evzmq__table_insert(&table, &node, 7), 0);
    evzmq__table_clear(&table);
    assert_null(evzmq__table_find(&table, 7));
    assert_int_equal(evzmq__table_insert(&table, &node, 8), 0);
    assert_ptr_equal(evzmq__table_find(&table, 8), &node);
    evzmq__table_clear(&table);
}

static void only_the_first_insertion_can_fail(void **state)
{
    (void)state;
    static struct evzmq__table_node nodes[1000];
    struct evzmq__table table = {0};
    allocator_fail_at(1);
    assert_int_equal(evzmq__table_insert(&table, &nodes[0], 0), -1);
    assert_int_equal(table.count, 0);
    assert_null(evzmq__table_find(&table, 0));
    assert_int_equal(evzmq__table_insert(&table, &nodes[0], 0), 0);
    for (uint64_t i = 1; i < 1000; i++) {
        allocator_fail_at(1);
        assert_int_equal(evzmq__table_insert(&table, &nodes[i], i), 0);
    }
    allocator_fail_at(0);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_ptr_equal(evzmq__table_find(&table, i), &nodes[i]);
    }
    evzmq__table_clear(&table);
}

static void table_that_could_not_grow_grows_later(void **state)
{
    (void)state;
    static struct evzmq__table_node nodes[40];
    struct evzmq__table table = {0};
    for (uint64_t i = 0; i < 40; i++) {
        allocator_fail_at(i == 0 || i >= 30 ? 0 : 1);
        assert_int_equal(evzmq__table_insert(&table, &nodes[i], i), 0);
    }
    assert_true(table.bucket_count >= 32);
    for (uint64_t i = 0; i < 40; i++) {
        assert_ptr_equal(evzmq__table_find(&table, i), &nodes[i]);
    }
    evzmq__table_clear(&table);
}

static void hash_tells_sizes_and_bytes_apart(void **state)
{
    (void)state;
    const unsigned char bytes[] = {0, 0, 1, 0};
    assert_int_equal(evzmq__hash("a", 1), UINT64_C(0xaf63dc4c8601ec8c)); /* FNV-1a's own value */
    assert_int_not_equal(evzmq__hash(bytes, 1), evzmq__hash(bytes, 2));
    assert_int_not_equal(evzmq__hash(bytes, 0), evzmq__hash(bytes, 1));
    assert_int_not_equal(evzmq__hash(bytes, 2), evzmq__hash(bytes + 1, 2));
    assert_int_equal(evzmq__hash(NULL, 0), evzmq__hash(bytes, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_node_is_found_until_it_is_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(nodes_of_the_same_hash_are_all_found, setup, teardown),
        cmocka_unit_test_setup_teardown(other_hashes_of_the_same_bucket_are_not_found, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(hashes_that_differ_in_either_half_share_no_bucket, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(empty_table_finds_nothing_and_has_no_memory, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(cleared_table_can_be_used_again, setup, teardown),
        cmocka_unit_test_setup_teardown(only_the_first_insertion_can_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(table_that_could_not_grow_grows_later, setup, teardown),
        cmocka_unit_test(hash_tells_sizes_and_bytes_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
