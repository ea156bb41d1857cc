/*
 * The budgeted drain, with a clock that moves only when a step says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drain.h"

static uint64_t now;
static size_t readings;

static uint64_t fake_clock(void)
{
    readings++;
    return now;
}

/* What a step does, and what it did. */
struct work {
    size_t steps;
    size_t bytes_each;
    uint64_t ns_each;
    size_t stop_after; /* steps before `stop`; SIZE_MAX: never */
    enum evzmq__step stop;
    size_t slow_from; /* from this step on a step takes slow_ns */
    uint64_t slow_ns;
};

static enum evzmq__step step(void *arg, size_t *out_bytes)
{
    struct work *const work = arg;
    if (work->steps == work->stop_after) {
        return work->stop;
    }
    work->steps++;
    now += work->slow_from != 0 && work->steps >= work->slow_from ? work->slow_ns : work->ns_each;
    *out_bytes = work->bytes_each;
    return EVZMQ__STEP_DONE;
}

static struct work work_new(void)
{
    return (struct work){.stop_after = SIZE_MAX, .stop = EVZMQ__STEP_EMPTY};
}

static enum evzmq__drain_stop drain(struct evzmq__meter *meter, struct work *work, size_t messages,
                                    size_t bytes, unsigned usec)
{
    const struct evzmq__budget budget = {.messages = messages, .bytes = bytes, .usec = usec};
    now = 1000000;
    readings = 0;
    evzmq__meter_start(meter, &budget, now, fake_clock);
    return evzmq__drain_run(meter, step, work);
}

static void budget_of_messages_is_met_exactly(void **state)
{
    (void)state;
    const size_t budgets[] = {1, 2, 3, 31, 32, 33, 63, 64, 65, 1000, 1024};
    for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
        struct evzmq__meter meter;
        struct work work = work_new();
        assert_int_equal(drain(&meter, &work, budgets[i], SIZE_MAX, 500), EVZMQ__STOP_BUDGET);
        assert_int_equal(work.steps, budgets[i]);
        assert_true(meter.spent);
    }
}

static void budget_of_bytes_ends_with_the_message_that_reaches_it(void **state)
{
    (void)state;
    struct evzmq__meter meter;
    struct work work = work_new();
    work.bytes_each = 30;
    assert_int_equal(drain(&meter, &work, SIZE_MAX, 100, 500), EVZMQ__STOP_BUDGET);
    assert_int_equal(work.steps, 4);

    work = work_new();
    work.bytes_each = 25;
    assert_int_equal(drain(&meter, &work, SIZE_MAX, 100, 500), EVZMQ__STOP_BUDGET);
    assert_int_equal(work.steps, 4);
}

static void one_message_above_the_budget_of_bytes_is_done(void **state)
{
    (void)state;
    struct evzmq__meter meter;
    struct work work = work_new();
    work.bytes_each = SIZE_MAX;
    assert_int_equal(drain(&meter, &work, SIZE_MAX, 100, 500), EVZMQ__STOP_BUDGET);
    assert_int_equal(work.steps, 1);
}

static void messages_without_bytes_leave_the_budget_of_bytes(void **state)
{
    (void)state;
    struct evzmq__meter meter;
    struct work work = work_new();
    work.stop_after = 500;
    assert_int_equal(drain(&meter, &work, 1000, 1, 500), EVZMQ__STOP_EMPTY);
    assert_int_equal(work.steps, 500);
    assert_false(meter.spent);
}

static void budget_of_time_ends_a_drain_of_slow_steps_after_the_step_that_reaches_it(void **state)
{
    (void)state;
    struct evzmq__meter meter;
    struct work work = work_new();
    work.ns_each = 100000;
    assert_int_equal(drain(&meter, &work, SIZE_MAX, SIZE_MAX, 500), EVZMQ__STOP_BUDGET);
    assert_int_equal(work.steps, 5);
    assert_int_equal(readings, 5);
}

static void budget_of_time_is_overrun_by_little_with_quick_steps(void **state)
{
    (void)state;
    for (uint64_t ns = 50; ns <= 200000; ns += ns / 3) {
        struct evzmq__meter meter;
        struct work work = work_new();
        work.ns_each = ns;
        assert_int_equal(drain(&meter, &work, SIZE_MAX, SIZE_MAX, 500), EVZMQ__STOP_BUDGET);
        const uint64_t took = now - 1000000;
        assert_true(took >= 500000);
        /* A stride that still takes little may be followed by one of twice that. */
        assert_true(took <= 500000 + 2 * 500000 / 16 + ns);
    }
}

static void clock_is_read_seldom_while_steps_are_quick(void **state)
{
    (void)state;
    struct evzmq__meter meter;
    struct work work = work_new();
    work.ns_each = 100;
    assert_int_equal(drain(&meter, &work, 1024, SIZE_MAX, 500), EVZMQ__STOP_BUDGET);
    assert_int_equal(work.steps, 1024);
    assert_true(readings <= 1024 / 32 + 6);
}

static void clock_is_read_after_every_step_that_is_slow(void **state)
{
    (void)state;
    struct evzmq__meter meter;
    struct work work = work_new();
    work.ns_each = 40000;
    assert_int_equal(drain(&meter, &work, 10, SIZE_MAX, 500), EVZMQ__STOP_BUDGET);
    assert_int_equal(work.steps, 10);
    assert_int_equal(readings, 10);
}

static void steps_that_become_slow_are_noticed_within_a_stride(void **state)
{
    (void)state;
    for (size_t from = 1; from < 300; from++) {
        struct evzmq__meter meter;
        struct work work = work_new();
        work.slow_from = from;
        work.slow_ns = 1000000; /* each alone is above the budget */
        assert_int_equal(drain(&meter, &work, SIZE_MAX, SIZE_MAX, 500), EVZMQ__STOP_BUDGET);
        assert_in_range(work.steps, from, from + 31);
    }
}

static void steps_that_were_slow_for_a_while_get_long_strides_again(void **state)
{
    (void)state;
    struct evzmq__meter meter;
    struct work work = work_new();
    work.ns_each = 40000;
    work.slow_from = 5;
    work.slow_ns = 10;
    assert_int_equal(drain(&meter, &work, 1000, SIZE_MAX, 500), EVZMQ__STOP_BUDGET);
    assert_int_equal(work.steps, 1000);
    assert_true(readings < 60);
}

static void spent_budget_makes_no_step(void **state)
{
    (void)state;
    struct evzmq__meter meter;
    struct work work = work_new();
    assert_int_equal(drain(&meter, &work, 3, SIZE_MAX, 500), EVZMQ__STOP_BUDGET);
    assert_int_equal(work.steps, 3);
    assert_int_equal(evzmq__drain_run(&meter, step, &work), EVZMQ__STOP_BUDGET);
    assert_int_equal(work.steps, 3);
}

static void budget_lasts_over_several_drains_of_a_pass(void **state)
{
    (void)state;
    struct evzmq__meter meter;
    struct work work = work_new();
    work.stop_after = 4;
    assert_int_equal(drain(&meter, &work, 10, SIZE_MAX, 500), EVZMQ__STOP_EMPTY);
    work.stop_after = 7;
    assert_int_equal(evzmq__drain_run(&meter, step, &work), EVZMQ__STOP_EMPTY);
    work.stop_after = SIZE_MAX;
    assert_int_equal(evzmq__drain_run(&meter, step, &work), EVZMQ__STOP_BUDGET);
    assert_int_equal(work.steps, 10);
}

static void every_other_step_stops_and_says_why(void **state)
{
    (void)state;
    const enum evzmq__step stops[] = {EVZMQ__STEP_EMPTY, EVZMQ__STEP_PAUSED, EVZMQ__STEP_STATE,
                                      EVZMQ__STEP_BREAK, EVZMQ__STEP_RETRY};
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        struct evzmq__meter meter;
        struct work work = work_new();
        work.stop_after = i;
        work.stop = stops[i];
        assert_int_equal(drain(&meter, &work, 100, SIZE_MAX, 500), (int)stops[i]);
        assert_int_equal(work.steps, i);
        assert_false(meter.spent);
    }
}

static enum evzmq__step step_in_vain(void *arg, size_t *out_bytes)
{
    struct work *const work = arg;
    (void)out_bytes;
    return ++work->steps < 1000 ? EVZMQ__STEP_IN_VAIN : EVZMQ__STEP_EMPTY;
}

static void step_in_vain_costs_nothing_of_the_budget(void **state)
{
    (void)state;
    struct evzmq__meter meter;
    struct work work = work_new();
    const struct evzmq__budget budget = {.messages = 1, .bytes = 1, .usec = 500};
    evzmq__meter_start(&meter, &budget, 0, fake_clock);
    assert_int_equal(evzmq__drain_run(&meter, step_in_vain, &work), EVZMQ__STOP_EMPTY);
    assert_int_equal(work.steps, 1000);
    assert_false(meter.spent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budget_of_messages_is_met_exactly),
        cmocka_unit_test(budget_of_bytes_ends_with_the_message_that_reaches_it),
        cmocka_unit_test(one_message_above_the_budget_of_bytes_is_done),
        cmocka_unit_test(messages_without_bytes_leave_the_budget_of_bytes),
        cmocka_unit_test(budget_of_time_ends_a_drain_of_slow_steps_after_the_step_that_reaches_it),
        cmocka_unit_test(budget_of_time_is_overrun_by_little_with_quick_steps),
        cmocka_unit_test(clock_is_read_seldom_while_steps_are_quick),
        cmocka_unit_test(clock_is_read_after_every_step_that_is_slow),
        cmocka_unit_test(steps_that_become_slow_are_noticed_within_a_stride),
        cmocka_unit_test(steps_that_were_slow_for_a_while_get_long_strides_again),
        cmocka_unit_test(spent_budget_makes_no_step),
        cmocka_unit_test(budget_lasts_over_several_drains_of_a_pass),
        cmocka_unit_test(every_other_step_stops_and_says_why),
        cmocka_unit_test(step_in_vain_costs_nothing_of_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
