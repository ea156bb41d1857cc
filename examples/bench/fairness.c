/* Mode fairness: not implemented yet. */
#include "modes.h"

int mode_fairness(const struct bench_options *options, struct report *report)
{
    (void)options;
    (void)report;
    report_error("mode fairness is not implemented yet");
    return 2;
}
