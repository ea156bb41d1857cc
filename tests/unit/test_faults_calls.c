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
    const int error = calls_error(name, error_index);
    return error == EAGAIN && faults_in_message() ? 0 : error;
}

/* One attempt may leave the next ones as they are, so all that is wrong is told at once. */
static size_t complaints;

static void complain(size_t n, const char *name, int injected, const char *what, int error)
{
    print_error("call %zu, %s, failed with %s: %s%s\n", n, name, evzmq_strerror(injected), what,
                error == 0 ? "" : evzmq_strerror(error));
    complaints++;
}

static bool is_cause(const struct scenario *scenario, int injected, int error)
{
    return error == injected || error == scenario->maps[0] || error == scenario->maps[1];
}

/* Has the n-th call fail. Returns its name, or NULL when there is none or it does not fail. */
static const char *attempt(struct fixture *f, const struct scenario *scenario, size_t n,
                           bool *out_reached)
{
    struct attempt a;
    begin_attempt(&a, f, scenario);
    const long live = allocations_live();
    const int descriptors = count_descriptors();
    faults_begin(FAULTS_ANY_SOCKET);
    faults_plan_by_name(FAULTS_CALLS, n, error_of);
    errno = 0;
    const int result = scenario->act(&a);
    const int error = errno;
    faults_end();
    *out_reached = faults_count(FAULTS_CALLS) >= n;
    const char *const name = faults_failed_name();
    const int wanted = name == NULL ? 0 : calls_error(name, error_index);
    /* What belongs to a context that was terminated, can only be freed. */
    const bool is_over = wanted == ETERM;
    if (result < 0) {
        assert_non_null(name);
        if (!is_cause(scenario, wanted, error)) {
            complain(n, name, wanted, "the errno was ", error);
        }
        if (!scenario->makes_room && allocations_live() != live) {
            complain(n, name, wanted, "memory was left", 0);
        }
        if (!is_over && !scenario->connects &&
            !descriptors_are_back(descriptors + scenario->makes_room)) {
            complain(n, name, wanted, "a descriptor was left", 0);
        }
    }
    if (result < 0 && !is_over && scenario->act(&a) < 0) {
        complain(n, name, wanted, "the next try failed with ", errno);
    } else if (!is_over) {
        scenario->check(&a);
    }
    end_attempt(&a, scenario);
    return name;
}

/* Has the n-th call fail in each way; but one of those that the scenario makes many times, in the
 * first way only. Returns whether there is such a call. */
static bool attempt_all(struct fixture *f, const struct scenario *scenario, size_t n)
{
    enum { THOROUGH = 20 }; /* errors of one function */
    bool reached = false;
    const char *name = NULL;
    error_index = 0;
    while ((name = attempt(f, scenario, n, &reached)) != NULL) {
        error_index++;
        if (calls_note(name) > THOROUGH || calls_error(name, error_index) == 0) {
            break;
        }
    }
    return reached;
}

static void run(void **state)
{
    struct fixture *const f = *state;
    const struct scenario *const scenario = scenario_of(f);
    calls_load();
    complaints = 0;
    size_t n = 1;
    while (attempt_all(f, scenario, n)) {
        n++;
        assert_true(n < CALLS_MAX);
    }
    assert_int_equal(complaints, 0);
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
