/*
 * Every scenario with each of its allocations failing: those of this library, those that libevent
 * makes for it and libzmq's of messages. (msgpack-c makes none: no function of it is called, which
 * unit_calls checks.)
 */
#include "scenarios.h"

static void run(void **state)
{
    struct fixture *const f = *state;
    run_scenario(f, scenario_of(f));
}

int main(void)
{
    return run_scenarios("without_memory_fails_whole_and_passes_afterwards", run, NULL);
}
