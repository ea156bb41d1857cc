/* Mode idle: not implemented yet. */
#include "modes.h"

int mode_idle(const struct bench_options *options, struct report *report)
{
    (void)options;
    (void)report;
    report_error("mode idle is not implemented yet");
    return 2;
}
