/**
 * @file test_pool_many.c
 * Many pools, one after the other, with workers that are well, killed, stopped, or never there.
 */
#include "crew.h"

#include <signal.h>

/* How long after its deadline a shutdown may report: a killed process takes its time to end, the
 * last answers settle for 30 ms, and the machine is shared. */
enum { MARGIN_MS = 2000 };

/* What happens to the workers of the n-th pool in a row. */
static void spoil(struct crew *crew, int round)
{
    switch (round % 5) {
    case 1:
        crew_send(crew, 0, "kill");
        break;
    case 2:
        crew_send(crew, 1, "stop");
        break;
    case 3:
        (void)kill(crew_pid(crew, 1), SIGKILL);
        (void)kill(crew_pid(crew, 0), SIGSTOP);
        break;
    default:
        break;
    }
}

static void two_hundred_pools_in_a_row_leave_nothing_whatever_happens_to_their_workers(void **state)
{
    enum { POOLS = 200, DEADLINE_MS = 20, KEEN_MS = 5000 };
    struct fixture *const f = *state;

    for (int i = 0; i < POOLS; i++) {
        struct crew crew = {0};
        const struct evzmq_pool_options options = crew_options(i % 5 == 4 ? "asleep" : "echo");
        const int all_well = i % 5 == 0;
        long long begin = 0;

        crew_open(f, &crew, 2, &options);
        if (all_well) {
            crew_send(&crew, 0, "x");
            crew_send(&crew, 1, "x");
            run_until(f, crew.answers == 2);
        }
        spoil(&crew, i);
        begin = crew_now_ms();
        crew_shutdown(&crew, all_well ? KEEN_MS : DEADLINE_MS);
        assert_true(crew_now_ms() - begin <= (all_well ? KEEN_MS : DEADLINE_MS) + MARGIN_MS);
        assert_int_equal(crew.report.left, 0);
        crew_close(&crew);
        fixture_feed_watchdog(); /* It is for standing still. */
    }
}

int main(int argc, char **argv)
{
    crew_main(argc, argv);
    const struct CMUnitTest tests[] = {
        claim(two_hundred_pools_in_a_row_leave_nothing_whatever_happens_to_their_workers),
    };

    return run_claims(tests);
}
