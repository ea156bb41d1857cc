/* The modes of echo_bench: one file and one function each. */
#ifndef BENCH_MODES_H
#define BENCH_MODES_H

#include "options.h"
#include "report.h"

/*
 * Each runs a mode and prints its rows. Returns the exit status: 0, 1 when something was lost,
 * reordered or undecodable or the system failed, 2 for what is not implemented; whatever is not 0
 * has been explained on stderr.
 */
int mode_throughput(const struct bench_options *options, struct report *report);
int mode_latency(const struct bench_options *options, struct report *report);
int mode_decode(const struct bench_options *options, struct report *report);
int mode_encode(const struct bench_options *options, struct report *report);
int mode_fairness(const struct bench_options *options, struct report *report);
int mode_fan_in(const struct bench_options *options, struct report *report);
int mode_idle(const struct bench_options *options, struct report *report);

#endif /* BENCH_MODES_H */
