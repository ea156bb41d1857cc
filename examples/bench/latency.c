/* Mode latency: not implemented yet. */
#include "modes.h"

int mode_latency(const struct bench_options *options, struct report *report)
{
    (void)options;
    (void)report;
    report_error("mode latency is not implemented yet");
    return 2;
}
