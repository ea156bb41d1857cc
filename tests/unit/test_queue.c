/*
 * The bounded output queue: lanes, parking, room and marks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "allocator.h"
#include "queue.h"

/* What is queued: a number is all it carries. */
struct item {
    struct evzmq__queue_entry entry;
    int number;
};

static struct item items[4096];

static int setup(void **state)
{
    (void)state;
    memset(items, 0, sizeof(items));
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

static struct evzmq__queue queue_new(size_t messages, size_t bytes)
{
    return (struct evzmq__queue){.messages_max = messages, .bytes_max = bytes};
}

static size_t length_of(const char *key)
{
    return key == NULL ? 0 : strlen(key);
}

static bool has_room(const struct evzmq__queue *queue, const char *key, size_t bytes)
{
    return evzmq__queue_has_room(queue, key, length_of(key), bytes);
}

static bool waits(const struct evzmq__queue *queue, const char *key)
{
    return evzmq__queue_waits(queue, key, length_of(key));
}

static void push(struct evzmq__queue *queue, const char *key, int number, size_t bytes)
{
    items[number].entry.bytes = bytes;
    items[number].number = number;
    assert_int_equal(evzmq__queue_push(queue, &items[number].entry, key, length_of(key)), 0);
}

static int number_of(const struct evzmq__queue_entry *entry)
{
    return entry == NULL ? -1 : ((const struct item *)entry)->number;
}

static void assert_pops(struct evzmq__queue *queue, int number)
{
    assert_int_equal(number_of(evzmq__queue_peek(queue)), number);
    assert_int_equal(number_of(evzmq__queue_pop(queue)), number);
}

static size_t clear(struct evzmq__queue *queue)
{
    size_t count = 0;
    while (evzmq__queue_clear(queue) != NULL) {
        count++;
    }
    assert_int_equal(queue->messages, 0);
    assert_int_equal(queue->bytes, 0);
    return count;
}

static void entries_of_a_lane_come_out_in_order(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    assert_null(evzmq__queue_peek(&queue));
    for (int i = 0; i < 10; i++) {
        push(&queue, NULL, i, 1);
    }
    assert_int_equal(queue.messages, 10);
    assert_int_equal(queue.bytes, 10);
    for (int i = 0; i < 10; i++) {
        assert_pops(&queue, i);
    }
    assert_null(evzmq__queue_peek(&queue));
    push(&queue, NULL, 11, 1); /* the lane is used again */
    assert_pops(&queue, 11);
    assert_int_equal(queue.messages_peak, 10);
    assert_int_equal(queue.bytes_peak, 10);
    assert_int_equal(clear(&queue), 0);
}

static void lanes_take_turns_and_each_keeps_its_order(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    push(&queue, "a", 1, 1);
    push(&queue, "a", 2, 1);
    push(&queue, "a", 3, 1);
    push(&queue, "b", 4, 1);
    push(&queue, "b", 5, 1);
    push(&queue, "c", 6, 1);
    const int order[] = {1, 4, 6, 2, 5, 3};
    for (size_t i = 0; i < 6; i++) {
        assert_pops(&queue, order[i]);
    }
    assert_int_equal(queue.lanes.count, 0);
    assert_int_equal(clear(&queue), 0);
}

static void lane_is_found_by_all_bytes_of_its_key(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    const char keys[][4] = {{0, 1, 2, 3}, {0, 1, 2, 4}, {0, 0, 0, 0}};
    for (int i = 0; i < 3; i++) {
        items[i].number = i;
        assert_int_equal(evzmq__queue_push(&queue, &items[i].entry, keys[i], 4), 0);
        assert_true(evzmq__queue_waits(&queue, keys[i], 4));
    }
    assert_false(evzmq__queue_waits(&queue, keys[0], 3));
    assert_false(evzmq__queue_waits(&queue, keys[2], 0));
    assert_int_equal(queue.lanes.count, 3);
    assert_int_equal(clear(&queue), 3);
}

static void key_may_lie_in_memory_that_goes(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    char key[] = "a";
    push(&queue, key, 1, 1);
    key[0] = 'b';
    assert_true(waits(&queue, "a"));
    assert_false(waits(&queue, "b"));
    assert_int_equal(clear(&queue), 1);
}

static void only_the_lane_with_entries_makes_its_own_wait(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    assert_false(waits(&queue, NULL));
    assert_false(waits(&queue, "a"));
    push(&queue, "a", 1, 1);
    assert_true(waits(&queue, "a"));
    assert_false(waits(&queue, "b"));
    evzmq__queue_park(&queue);
    assert_true(waits(&queue, "a"));
    evzmq__queue_unpark_all(&queue);
    assert_pops(&queue, 1);
    assert_false(waits(&queue, "a"));
    assert_int_equal(clear(&queue), 0);
}

static void parked_lane_is_passed_over_until_all_are_unparked(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    push(&queue, "a", 1, 1);
    push(&queue, "b", 2, 1);
    push(&queue, "c", 3, 1);
    evzmq__queue_park(&queue);
    assert_int_equal(queue.parked.count, 1);
    assert_int_equal(queue.ready.count, 2);
    assert_pops(&queue, 2);
    push(&queue, "a", 4, 1); /* into the parked lane */
    evzmq__queue_park(&queue);
    assert_null(evzmq__queue_peek(&queue));
    assert_int_equal(queue.messages, 3);
    evzmq__queue_unpark_all(&queue);
    assert_int_equal(queue.parked.count, 0);
    assert_pops(&queue, 1);
    assert_pops(&queue, 3);
    assert_pops(&queue, 4);
    assert_int_equal(clear(&queue), 0);
}

static void unparked_lanes_come_behind_the_ready_ones(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    push(&queue, "a", 1, 1);
    push(&queue, "b", 2, 1);
    evzmq__queue_park(&queue);
    evzmq__queue_unpark_all(&queue);
    assert_pops(&queue, 2);
    assert_pops(&queue, 1);
    assert_int_equal(clear(&queue), 0);
}

static void hastened_lane_comes_first(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    push(&queue, "a", 1, 1);
    evzmq__queue_hasten(&queue, "a", 1); /* the only one */
    assert_int_equal(queue.ready.count, 1);
    push(&queue, "b", 2, 1);
    push(&queue, "c", 3, 1);
    evzmq__queue_hasten(&queue, "c", 1); /* the last */
    evzmq__queue_hasten(&queue, "a", 1); /* one in the middle */
    assert_int_equal(queue.ready.count, 3);
    assert_pops(&queue, 1);
    assert_pops(&queue, 3);
    assert_pops(&queue, 2);
    push(&queue, NULL, 4, 1);
    evzmq__queue_hasten(&queue, NULL, 0);
    assert_pops(&queue, 4);
    assert_int_equal(clear(&queue), 0);
}

static void limit_of_messages_is_met_exactly(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(3, 1000);
    for (int i = 0; i < 3; i++) {
        assert_true(has_room(&queue, NULL, 0));
        push(&queue, NULL, i, 0);
    }
    assert_false(has_room(&queue, NULL, 0));
    (void)evzmq__queue_pop(&queue);
    assert_true(has_room(&queue, NULL, 0));
    assert_int_equal(clear(&queue), 2);
}

static void limit_of_bytes_is_met_exactly(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 10);
    push(&queue, NULL, 0, 4);
    assert_true(has_room(&queue, NULL, 6));
    assert_false(has_room(&queue, NULL, 7));
    push(&queue, NULL, 1, 6);
    assert_false(has_room(&queue, NULL, 1));
    assert_true(has_room(&queue, NULL, 0));
    assert_int_equal(clear(&queue), 2);
}

static void empty_queue_takes_a_message_of_any_size(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(1, 10);
    assert_true(has_room(&queue, NULL, 11));
    assert_true(has_room(&queue, "a", SIZE_MAX));
    push(&queue, "a", 0, SIZE_MAX);
    assert_false(has_room(&queue, "b", 0));
    (void)evzmq__queue_pop(&queue);
    assert_true(has_room(&queue, "b", 11));
    assert_int_equal(clear(&queue), 0);
}

static void sizes_near_the_largest_do_not_wrap(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(SIZE_MAX, SIZE_MAX);
    push(&queue, "a", 0, SIZE_MAX - 1);
    assert_true(has_room(&queue, "b", 1));
    assert_false(has_room(&queue, "b", 2));
    assert_false(has_room(&queue, "b", SIZE_MAX));
    assert_false(has_room(&queue, "a", 1));
    push(&queue, "b", 1, 1);
    assert_int_equal(queue.bytes, SIZE_MAX);
    assert_true(has_room(&queue, "c", 0));
    assert_false(has_room(&queue, "c", 1));
    assert_int_equal(clear(&queue), 2);

    queue = queue_new(10, 100);
    push(&queue, NULL, 0, 200); /* above the limit, into the empty queue */
    assert_false(has_room(&queue, NULL, 0));
    assert_false(has_room(&queue, NULL, SIZE_MAX - 100));
    assert_int_equal(clear(&queue), 1);
}

static void lane_takes_at_most_as_much_as_it_leaves_free(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000000);
    int number = 0;
    while (has_room(&queue, "a", 1)) {
        push(&queue, "a", number++, 1);
    }
    assert_int_equal(number, 50);
    int others = 0;
    while (has_room(&queue, "b", 1)) {
        push(&queue, "b", number++, 1);
        others++;
    }
    assert_int_equal(others, 25);
    assert_false(has_room(&queue, "a", 1));
    assert_true(has_room(&queue, "c", 1));
    assert_int_equal(clear(&queue), 75);
}

static void lane_takes_at_most_as_many_bytes_as_it_leaves_free(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(1000, 100);
    push(&queue, "a", 0, 40);
    assert_true(has_room(&queue, "a", 10));
    assert_true(has_room(&queue, "a", 20));
    assert_false(has_room(&queue, "a", 21));
    push(&queue, "a", 1, 20);
    assert_false(has_room(&queue, "a", 1));
    assert_true(has_room(&queue, "b", 40));
    assert_false(has_room(&queue, "b", 41));
    assert_int_equal(clear(&queue), 2);
}

static void new_peers_find_room_until_the_queue_is_full(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(64, 1000000);
    for (int i = 0; i < 64; i++) {
        const char key[] = {(char)('0' + i), '\0'};
        assert_true(has_room(&queue, key, 1));
        push(&queue, key, i, 1);
    }
    assert_false(has_room(&queue, "new", 1));
    assert_int_equal(clear(&queue), 64);
}

static void marks_are_taken_once_for_each_crossing(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    evzmq__queue_set_marks(&queue, 10, 30);
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    push(&queue, NULL, 0, 10);
    push(&queue, NULL, 1, 10);
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    push(&queue, NULL, 2, 10); /* 30: high */
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_HIGH);
    push(&queue, NULL, 3, 10);
    (void)evzmq__queue_pop(&queue);
    (void)evzmq__queue_pop(&queue);
    push(&queue, NULL, 4, 10); /* 30 again, without having been low */
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    (void)evzmq__queue_pop(&queue);
    (void)evzmq__queue_pop(&queue); /* 10: low */
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_LOW);
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    (void)evzmq__queue_pop(&queue);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_EMPTY);
    push(&queue, NULL, 5, 30); /* from empty above both */
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_HIGH);
    (void)evzmq__queue_pop(&queue);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_LOW | EVZMQ__MARK_EMPTY);
    assert_int_equal(clear(&queue), 0);
}

static void queue_that_stays_at_its_low_mark_crosses_nothing(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    evzmq__queue_set_marks(&queue, 10, 30);
    for (int i = 0; i < 5; i++) {
        push(&queue, NULL, i, 10);
        (void)evzmq__queue_pop(&queue);
        assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_EMPTY);
    }
    assert_int_equal(clear(&queue), 0);
}

static void empty_messages_count_at_a_low_mark_of_nothing(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    push(&queue, NULL, 0, 0);
    push(&queue, NULL, 1, 0);
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    (void)evzmq__queue_pop(&queue);
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    (void)evzmq__queue_pop(&queue);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_LOW | EVZMQ__MARK_EMPTY);
    assert_int_equal(clear(&queue), 0);
}

static void new_marks_apply_to_what_is_queued(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    push(&queue, NULL, 0, 50);
    push(&queue, NULL, 1, 50);
    evzmq__queue_set_marks(&queue, 60, 80);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_HIGH);
    (void)evzmq__queue_pop(&queue);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_LOW);
    evzmq__queue_set_marks(&queue, 60, 0);
    (void)evzmq__queue_pop(&queue);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_EMPTY);
    assert_int_equal(clear(&queue), 0);
}

static void marks_set_again_do_not_tell_again_of_a_crossing(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    evzmq__queue_set_marks(&queue, 10, 50);
    push(&queue, NULL, 0, 40);
    push(&queue, NULL, 1, 40);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_HIGH);
    evzmq__queue_set_marks(&queue, 10, 50);
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    evzmq__queue_set_marks(&queue, 10, 60); /* another one, and above that too */
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    (void)evzmq__queue_pop(&queue); /* between the marks: it has not been low */
    evzmq__queue_set_marks(&queue, 10, 60);
    push(&queue, NULL, 2, 40);
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    evzmq__queue_set_marks(&queue, 10, 90); /* above what is there: to be crossed anew */
    push(&queue, NULL, 3, 40);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_HIGH);
    evzmq__queue_set_marks(&queue, 120, 130); /* low by decree */
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_LOW);
    push(&queue, NULL, 4, 40);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_HIGH);
    assert_int_equal(clear(&queue), 4);
}

static void low_mark_raised_to_what_is_queued_is_crossed_once(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    push(&queue, NULL, 0, 50);
    push(&queue, NULL, 1, 50);
    evzmq__queue_set_marks(&queue, 99, 0);
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    evzmq__queue_set_marks(&queue, 100, 0);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_LOW);
    evzmq__queue_set_marks(&queue, 200, 0);
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    assert_int_equal(clear(&queue), 2);
}

static void refusal_below_the_low_mark_makes_the_next_exit_cross_it(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(2, 1000);
    evzmq__queue_set_marks(&queue, 500, 0);
    push(&queue, NULL, 0, 1);
    push(&queue, NULL, 1, 1);
    assert_false(evzmq__queue_has_room(&queue, NULL, 0, 1));
    evzmq__queue_refuse(&queue);
    assert_int_equal(evzmq__queue_take_marks(&queue), 0);
    (void)evzmq__queue_pop(&queue);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_LOW);
    (void)evzmq__queue_pop(&queue);
    assert_int_equal(evzmq__queue_take_marks(&queue), EVZMQ__MARK_EMPTY);
    assert_int_equal(clear(&queue), 0);
}

static void push_without_memory_changes_nothing(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 3; n++) {
        struct evzmq__queue queue = queue_new(100, 1000);
        allocator_fail_at(n);
        const int result = evzmq__queue_push(&queue, &items[0].entry, "a", 1);
        allocator_fail_at(0);
        assert_int_equal(result, n < 3 ? -1 : 0);
        assert_int_equal(queue.messages, n < 3 ? 0 : 1);
        assert_int_equal(queue.lanes.count, n < 3 ? 0 : 1);
        assert_int_equal(queue.ready.count, n < 3 ? 0 : 1);
        assert_int_equal(evzmq__queue_take_marks(&queue), 0);
        assert_int_equal(clear(&queue), n < 3 ? 0 : 1);
    }
}

static void clear_gives_every_entry_wherever_it_waits(void **state)
{
    (void)state;
    struct evzmq__queue queue = queue_new(100, 1000);
    for (int i = 0; i < 9; i++) {
        push(&queue, i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : "c", i, 1);
    }
    evzmq__queue_park(&queue);
    evzmq__queue_park(&queue);
    assert_int_equal(clear(&queue), 9);
    assert_int_equal(clear(&queue), 0);
    assert_int_equal(allocator_get_counts().blocks, 0);
}

/* Against a model: what each key has in which order. */
static void random_traffic_keeps_order_and_counts(void **state)
{
    (void)state;
    enum { KEYS = 7 };
    struct evzmq__queue queue = queue_new(100, 100000);
    int waiting[KEYS][4096];
    size_t first[KEYS] = {0};
    size_t last[KEYS] = {0};
    int key_of[4096];
    int next = 0;
    uint32_t random = 1;
    while (next < 4000) {
        random = random * 1664525 + 1013904223;
        const int key = (int)((random >> 16) % KEYS);
        const char name[] = {(char)('a' + key), '\0'};
        const uint32_t action = random >> 29;
        if (action < 4) {
            waiting[key][last[key]++] = next;
            key_of[next] = key;
            push(&queue, name, next++, 1);
        } else if (action < 6 && evzmq__queue_peek(&queue) != NULL) {
            const int number = number_of(evzmq__queue_pop(&queue));
            assert_int_equal(number, waiting[key_of[number]][first[key_of[number]]++]);
        } else if (action == 6 && evzmq__queue_peek(&queue) != NULL) {
            evzmq__queue_park(&queue);
        } else {
            evzmq__queue_unpark_all(&queue);
        }
        size_t total = 0;
        size_t lanes = 0;
        for (int i = 0; i < KEYS; i++) {
            total += last[i] - first[i];
            lanes += last[i] > first[i];
        }
        assert_int_equal(queue.messages, total);
        assert_int_equal(queue.bytes, total);
        assert_int_equal(queue.lanes.count, lanes);
        assert_int_equal(queue.ready.count + queue.parked.count, lanes);
    }
    (void)clear(&queue);
}

#define claim(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(entries_of_a_lane_come_out_in_order),
        claim(lanes_take_turns_and_each_keeps_its_order),
        claim(lane_is_found_by_all_bytes_of_its_key),
        claim(key_may_lie_in_memory_that_goes),
        claim(only_the_lane_with_entries_makes_its_own_wait),
        claim(parked_lane_is_passed_over_until_all_are_unparked),
        claim(unparked_lanes_come_behind_the_ready_ones),
        claim(hastened_lane_comes_first),
        claim(limit_of_messages_is_met_exactly),
        claim(limit_of_bytes_is_met_exactly),
        claim(empty_queue_takes_a_message_of_any_size),
        claim(sizes_near_the_largest_do_not_wrap),
        claim(lane_takes_at_most_as_much_as_it_leaves_free),
        claim(lane_takes_at_most_as_many_bytes_as_it_leaves_free),
        claim(new_peers_find_room_until_the_queue_is_full),
        claim(marks_are_taken_once_for_each_crossing),
        claim(queue_that_stays_at_its_low_mark_crosses_nothing),
        claim(empty_messages_count_at_a_low_mark_of_nothing),
        claim(new_marks_apply_to_what_is_queued),
        claim(marks_set_again_do_not_tell_again_of_a_crossing),
        claim(low_mark_raised_to_what_is_queued_is_crossed_once),
        claim(refusal_below_the_low_mark_makes_the_next_exit_cross_it),
        claim(push_without_memory_changes_nothing),
        claim(clear_gives_every_entry_wherever_it_waits),
        claim(random_traffic_keeps_order_and_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
