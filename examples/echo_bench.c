/*
 * echo_bench: how fast, how fair and how cheap a ZeroMQ socket is on a libevent base. This file
 * only reads the command line and chooses the mode; see bench/ for what is measured and how.
 */
#include "bench/modes.h"
#include "bench/options.h"
#include "bench/report.h"

int main(int argc, char **argv)
{
    struct bench_options options;
    const int status = options_parse(argc, argv, &options);
    if (status >= 0) {
        return status;
    }
    struct report report;
    report_init(&report, options.format);
    switch (options.mode) {
    case BENCH_LATENCY:
        return mode_latency(&options, &report);
    case BENCH_DECODE:
        return mode_decode(&options, &report);
    case BENCH_ENCODE:
        return mode_encode(&options, &report);
    case BENCH_FAIRNESS:
        return mode_fairness(&options, &report);
    case BENCH_FAN_IN:
        return mode_fan_in(&options, &report);
    case BENCH_IDLE:
        return mode_idle(&options, &report);
    default:
        return mode_throughput(&options, &report);
    }
}
