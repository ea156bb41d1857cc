/*
 * Every scenario with each call failing that it makes of libzmq, libevent and the system, in each
 * way that calls.txt says: a failure says why it failed, and nothing is left of it.
 */
#include "scenarios.h"

#include "calls.h"

enum { CALLS_MAX = 400 };

static size_t error_index;

static int error_of(const char *name)
{
    return calls_error(name, error_index);
}

static void assert_error(const struct scenario *scenario, const char *name, int wanted, int error)
{
    if (error != wanted && error != scenario->maps[0] && error != scenario->maps[1]) {
        fail_msg("%s failed with %s, and the errno is %s", name, evzmq_strerror(wanted),
                 evzmq_strerror(error));
    }
}

/* Has the n-th call fail. Returns its name, or NULL when there is none or it does not fail. */
static const char *attempt(struct fixture *f, const struct scenario *scenario, size_t n,
                           bool *out_reached)
{
    struct attempt a;
    begin_attempt(&a, f, scenario);
    const long live = allocations_live();
    faults_begin(FAULTS_ANY_SOCKET);
    faults_plan_by_name(FAULTS_CALLS, n, error_of);
    errno = 0;
    const int result = scenario->act(&a);
    const int error = errno;
    faults_end();
    *out_reached = faults_count(FAULTS_CALLS) >= n;
    const char *const name = faults_failed_name();
    const int wanted = name == NULL ? 0 : error_of(name);
    /* What belongs to a context that was terminated, can only be freed. */
    const bool is_over = wanted == ETERM;
    if (result < 0) {
        assert_non_null(name);
        assert_error(scenario, name, wanted, error);
        assert_true(scenario->makes_room || allocations_live() == live);
    }
    if (result < 0 && !is_over) {
        assert_ok(scenario->act(&a));
    }
    if (!is_over) {
        scenario->check(&a);
    }
    end_attempt(&a, scenario);
    return name;
}

static void run(void **state)
{
    struct fixture *const f = *state;
    const struct scenario *const scenario = scenario_of(f);
    bool reached = true;
    calls_load();
    for (size_t n = 1; reached; n++) {
        const char *name = NULL;
        const char *last = NULL;
        assert_true(n < CALLS_MAX);
        error_index = 0;
        while ((last = attempt(f, scenario, n, &reached)) != NULL) {
            name = last;
            error_index++;
            if (calls_error(name, error_index) == 0) {
                calls_note(name);
                break;
            }
        }
    }
}

/* The last of all. */
static void every_call_of_the_list_was_made_to_fail(void **state)
{
    (void)state;
    if (calls_unnoted() != NULL) {
        fail_msg("no scenario had %s fail", calls_unnoted());
    }
}

int main(void)
{
    static const struct CMUnitTest last = cmocka_unit_test(every_call_of_the_list_was_made_to_fail);
    return run_scenarios("with_a_call_failing_says_why_and_passes_afterwards", run, &last);
}
