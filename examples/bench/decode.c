/* Mode decode: not implemented yet. */
#include "modes.h"

int mode_decode(const struct bench_options *options, struct report *report)
{
    (void)options;
    (void)report;
    report_error("mode decode is not implemented yet");
    return 2;
}
