/**
 * @file scenarios.h
 * What a program may do with the library, one function and one row for each thing: whole test
 * programs run all of it, one with each allocation failing, one with each call of calls.txt.
 */
#ifndef TESTS_SUPPORT_SCENARIOS_H
#define TESTS_SUPPORT_SCENARIOS_H

#include "attempt.h"

/** Rows of scenarios. */
struct scenario_list {
    const struct scenario *rows;
    size_t count;
};

extern const struct scenario_list scenarios_of_parts; /* codecs, contexts, sockets, posters, ... */
extern const struct scenario_list scenarios_of_patterns; /* pools, requesters, publishers, ... */

/** Runs one test for each row of all lists, named after the row and the claim, and `last` after
 * them where it is not NULL. Returns the result of main(). */
int run_scenarios(const char *claim_suffix, void (*run)(void **state),
                  const struct CMUnitTest *last);

/** In such a test: its row. */
const struct scenario *scenario_of(const struct fixture *f);

#endif /* TESTS_SUPPORT_SCENARIOS_H */
