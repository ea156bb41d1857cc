/*
 * test_arena.c: what the arena of decoded values keeps, releases and refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <errno.h>

#include <cmocka.h>

#include "allocator.h"
#include "arena.h"

static int set_up(void **state)
{
    allocator_install();
    *state = evzmq_arena_new();
    return *state != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    evzmq_arena_free(*state);
    const size_t blocks = allocator_get_counts().blocks;
    allocator_remove();
    return blocks == 0 ? 0 : -1;
}

static void new_arena_holds_no_chunk(void **state)
{
    (void)state;
    assert_int_equal(allocator_get_counts().blocks, 1);
    assert_int_equal(allocator_get_counts().bytes, sizeof(struct evzmq_arena));
}

static void cuts_are_aligned_for_any_type_and_do_not_overlap(void **state)
{
    unsigned char *cuts[200];
    for (size_t i = 0; i < 200; i++) {
        cuts[i] = evzmq_arena_alloc(*state, i + 1);
        assert_non_null(cuts[i]);
        assert_int_equal((uintptr_t)cuts[i] % alignof(max_align_t), 0);
        memset(cuts[i], (int)i, i + 1);
    }
    for (size_t i = 0; i < 200; i++) {
        for (size_t j = 0; j <= i; j++) {
            assert_int_equal(cuts[i][j], i);
        }
    }
}

static void cut_of_no_bytes_is_a_valid_pointer(void **state)
{
    assert_non_null(evzmq_arena_alloc(*state, 0));
    assert_non_null(evzmq_arena_alloc(*state, 0));
}

static void sizes_near_the_largest_fail_with_enomem_and_harm_nothing(void **state)
{
    unsigned char *const before = evzmq_arena_alloc(*state, 100);
    assert_non_null(before);
    for (size_t i = 0; i < 64; i++) {
        errno = 0;
        assert_null(evzmq_arena_alloc(*state, SIZE_MAX - i));
        assert_int_equal(errno, ENOMEM);
    }
    memset(before, 1, 100);
    assert_non_null(evzmq_arena_alloc(*state, 100));
}

static void cut_from_no_arena_is_einval(void **state)
{
    (void)state;
    errno = 0;
    assert_null(evzmq_arena_alloc(NULL, 1));
    assert_int_equal(errno, EINVAL);
    evzmq_arena_reset(NULL);
    evzmq_arena_free(NULL);
}

static void run_round(struct evzmq_arena *arena, size_t cuts, size_t size)
{
    for (size_t i = 0; i < cuts; i++) {
        void *const memory = evzmq_arena_alloc(arena, size);
        assert_non_null(memory);
        memset(memory, 0x5a, size);
    }
    evzmq_arena_reset(arena);
}

static void rounds_of_the_same_size_allocate_nothing_from_the_third_on(void **state)
{
    run_round(*state, 1000, 100);
    run_round(*state, 1000, 100);
    const size_t calls = allocator_get_counts().calls;
    assert_int_equal(allocator_get_counts().blocks, 2);
    for (size_t i = 0; i < 1000; i++) {
        run_round(*state, 1000, 100);
    }
    assert_int_equal(allocator_get_counts().calls, calls);
}

static void one_cut_takes_one_chunk_of_its_size(void **state)
{
    assert_non_null(evzmq_arena_alloc(*state, 10 * 1000 * 1000));
    const struct allocator_counts counts = allocator_get_counts();
    assert_int_equal(counts.blocks, 2);
    assert_in_range(counts.bytes_peak, 10 * 1000 * 1000, 10 * 1000 * 1000 + 4096);
}

static void extraordinary_peak_is_released_after_small_rounds(void **state)
{
    run_round(*state, 1, 64);
    run_round(*state, 10, 1000 * 1000);
    run_round(*state, 1, 10 * 1000 * 1000);
    assert_true(allocator_get_counts().bytes > 10 * 1000 * 1000);
    for (unsigned i = 0; i < EVZMQ__ARENA_IDLE_ROUNDS; i++) {
        assert_true(allocator_get_counts().bytes > 10 * 1000 * 1000);
        run_round(*state, 1, 64);
    }
    assert_true(allocator_get_counts().bytes < EVZMQ__ARENA_KEEP_SIZE);
    run_round(*state, 1, 64);
    const size_t calls = allocator_get_counts().calls;
    run_round(*state, 1, 64);
    assert_int_equal(allocator_get_counts().calls, calls);
}

static void large_rounds_that_are_rare_keep_their_memory(void **state)
{
    run_round(*state, 1, 10 * 1000 * 1000);
    const size_t calls = allocator_get_counts().calls;
    for (unsigned i = 0; i < 1000; i++) {
        const size_t large = i % (EVZMQ__ARENA_IDLE_ROUNDS / 2) == 0;
        run_round(*state, 1, large ? 10 * 1000 * 1000 : 64);
    }
    assert_int_equal(allocator_get_counts().calls, calls);
}

static void failed_chunk_is_enomem_and_the_arena_goes_on(void **state)
{
    unsigned char *const first = evzmq_arena_alloc(*state, 1000);
    assert_non_null(first);
    memset(first, 7, 1000);
    allocator_fail_at(1);
    errno = 0;
    assert_null(evzmq_arena_alloc(*state, 1000 * 1000));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(first[999], 7);
    assert_non_null(evzmq_arena_alloc(*state, 1000 * 1000));
}

static void failed_arena_is_enomem(void **state)
{
    (void)state;
    allocator_fail_at(1);
    errno = 0;
    assert_null(evzmq_arena_new());
    assert_int_equal(errno, ENOMEM);
}

static void memory_taken_back_is_poisoned_under_asan(void **state)
{
#ifdef EVZMQ__ARENA_POISON
    char *const memory = evzmq_arena_alloc(*state, 24);
    assert_non_null(memory);
    assert_false(__asan_address_is_poisoned(memory + 23));
    assert_true(__asan_address_is_poisoned(memory + 24));
    evzmq_arena_reset(*state);
    assert_true(__asan_address_is_poisoned(memory));
    assert_ptr_equal(evzmq_arena_alloc(*state, 1), memory);
    assert_false(__asan_address_is_poisoned(memory));
    assert_true(__asan_address_is_poisoned(memory + 1));
#else
    (void)state;
    skip();
#endif
}

static void replaced_allocator_needs_all_three_functions(void **state)
{
    (void)state;
    errno = 0;
    assert_int_equal(evzmq_set_mem_functions(NULL, NULL, evzmq__free), -1);
    assert_int_equal(errno, EINVAL);
}

static void freeing_keeps_errno(void **state)
{
    (void)state;
    void *const block = evzmq__malloc(10);
    assert_non_null(block);
    errno = EBADMSG;
    evzmq__free(block);
    assert_int_equal(errno, EBADMSG);
}

static void product_that_overflows_is_enomem(void **state)
{
    (void)state;
    const size_t calls = allocator_get_counts().calls;
    errno = 0;
    assert_null(evzmq__calloc(SIZE_MAX / 2, 3));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(allocator_get_counts().calls, calls);
}

#define claim(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(new_arena_holds_no_chunk),
        claim(cuts_are_aligned_for_any_type_and_do_not_overlap),
        claim(cut_of_no_bytes_is_a_valid_pointer),
        claim(sizes_near_the_largest_fail_with_enomem_and_harm_nothing),
        claim(cut_from_no_arena_is_einval),
        claim(rounds_of_the_same_size_allocate_nothing_from_the_third_on),
        claim(one_cut_takes_one_chunk_of_its_size),
        claim(extraordinary_peak_is_released_after_small_rounds),
        claim(large_rounds_that_are_rare_keep_their_memory),
        claim(failed_chunk_is_enomem_and_the_arena_goes_on),
        claim(failed_arena_is_enomem),
        claim(memory_taken_back_is_poisoned_under_asan),
        claim(replaced_allocator_needs_all_three_functions),
        claim(freeing_keeps_errno),
        claim(product_that_overflows_is_enomem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
