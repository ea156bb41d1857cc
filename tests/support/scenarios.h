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

extern const struct scenario_list scenarios_of_parts; /* codecs, messages, contexts */
extern const struct scenario_list scenarios_of_sockets; /* adapters, posters, monitors */
extern const struct scenario_list scenarios_of_patterns; /* pools, requesters, publishers, ... */

/** Runs one test for each row of all lists, named after the row and the claim, and `last` after
 * them where it is not NULL. Returns the result of main(). */
int run_scenarios(const char *claim_suffix, void (*run)(void **state),
                  const struct CMUnitTest *last);

/** In such a test: its row. */
const struct scenario *scenario_of(const struct fixture *f);

/* What many of them use: the result of a call that makes something, and a check of nothing. */
static inline int made(const void *object)
{
    return object == NULL ? -1 : 0;
}

static inline void check_nothing(struct attempt *a)
{
    (void)a;
}

#endif /* TESTS_SUPPORT_SCENARIOS_H */
