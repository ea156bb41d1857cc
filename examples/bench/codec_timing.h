/*
 * Timing of codecs without any socket, for modes decode and encode. Contenders take turns, in
 * opposite order every other time; each sample runs one of them for a while.
 */
#ifndef BENCH_CODEC_TIMING_H
#define BENCH_CODEC_TIMING_H

#include <stddef.h>

#include "options.h"
#include "report.h"

#define CONTENDERS_MAX 8

struct contender {
    const char *key; /* of its time in JSON, such as "tree_ns" */
    /* Does the work once. Returns 0, or -1 when it cannot. */
    int (*work)(void *arg);
    void *arg;
};

struct codec_timing {
    const struct contender *contenders;
    size_t count;
    size_t repeat;
    double seconds; /* of one sample */
    double *ns[CONTENDERS_MAX]; /* for one turn of the work, one a repeat */
    double *scratch;
};

/* Repeats and seconds as asked for, or what is enough. Returns 0, or -1 after saying why. */
int codec_timing_init(struct codec_timing *timing, const struct bench_options *options,
                      const struct contender *contenders, size_t count);
void codec_timing_clear(struct codec_timing *timing);

/* Takes all samples. Returns 0, or -1 after saying why. */
int codec_timing_run(struct codec_timing *timing);

/* The median time of a contender. */
double codec_timing_ns(struct codec_timing *timing, size_t contender);

/* How many times as fast as @p slow @p fast is: the median of the repeats. */
double codec_timing_ratio(struct codec_timing *timing, size_t slow, size_t fast);

/* Adds to a row what both modes say first. */
void codec_timing_begin_row(struct report_row *row, const struct codec_timing *timing,
                            enum bench_mode mode, enum bench_type type, size_t chars, size_t bytes);

#endif /* BENCH_CODEC_TIMING_H */
