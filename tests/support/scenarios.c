/*
 * scenarios.c: see scenarios.h.
 */
#include "scenarios.h"

#include <stdio.h>

enum { ROWS_MAX = 120, NAME_MAX_SIZE = 160 };

static const struct scenario *current;

static int setup(void **state)
{
    current = *state;
    *state = (void *)(uintptr_t)current->name;
    return fixture_setup(state);
}

const struct scenario *scenario_of(const struct fixture *f)
{
    assert_string_equal(f->name, current->name);
    return current;
}

int run_scenarios(const char *claim_suffix, void (*run)(void **state),
                  const struct CMUnitTest *last)
{
    static struct CMUnitTest tests[ROWS_MAX]; /* cmocka passes over those without a function */
    static char names[ROWS_MAX][NAME_MAX_SIZE];
    const struct scenario_list *const lists[] = {&scenarios_of_parts, &scenarios_of_sockets,
                                                 &scenarios_of_patterns};
    size_t count = 0;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        for (size_t row = 0; row < lists[i]->count && count < ROWS_MAX - 1; row++) {
            const struct scenario *const scenario = &lists[i]->rows[row];
            (void)snprintf(names[count], NAME_MAX_SIZE, "%s_%s", scenario->name, claim_suffix);
            tests[count] = (struct CMUnitTest){names[count], run, setup, fixture_teardown,
                                               (void *)(uintptr_t)scenario};
            count++;
        }
    }
    if (last != NULL) {
        tests[count] = *last;
    }
    return run_claims(tests);
}
