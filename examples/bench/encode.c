/* Mode encode: not implemented yet. */
#include "modes.h"

int mode_encode(const struct bench_options *options, struct report *report)
{
    (void)options;
    (void)report;
    report_error("mode encode is not implemented yet");
    return 2;
}
