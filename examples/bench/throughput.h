/* Between the two halves of mode throughput: measuring (throughput.c), printing
 * (throughput_rows.c). */
#ifndef BENCH_THROUGHPUT_H
#define BENCH_THROUGHPUT_H

#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "report.h"

/* Receivers that take turns: the adapter in each receive mode or with each size of frames asked for
 * (its variants), the bare loop, the bare loop again, as the control, and zloop. */
#define VARIANTS_MAX (BENCH_PACKS_MAX > BENCH_RECEIVES ? BENCH_PACKS_MAX : BENCH_RECEIVES)
#define SUBJECTS_MAX (VARIANTS_MAX + 3)

/* The samples of one case. */
struct measured_case {
    enum bench_transport transport;
    enum bench_type type;
    size_t chars;
    size_t bytes; /* of a record with the id "0" */
    size_t repeat;
    double *recv_rates[SUBJECTS_MAX]; /* of each receiver, in the order of the repeats */
    double *issue_rates[SUBJECTS_MAX];
    uint64_t lost[SUBJECTS_MAX];
    double *scratch; /* room for a value a repeat */
};

#define SUMMARY_CASES_MAX (BENCH_TYPES * BENCH_CHARS_COUNT_MAX)

/* What the comparisons of one transport and one receive mode come to. */
struct summary {
    size_t cases;
    double ratios[SUMMARY_CASES_MAX]; /* medians */
    double controls[SUMMARY_CASES_MAX];
    double control_min; /* the lowest of all repeats of all cases */
};

/* Prints a line for each receive mode of a case and adds it to the summaries, one a receive mode.
 */
void throughput_print_case(struct report *report, const struct bench_options *options,
                           const struct measured_case *measured, struct summary *summaries);

/* Prints the last lines of a comparison with the bare loop. */
void throughput_print_summary(struct report *report, const struct bench_options *options,
                              enum bench_transport transport, const struct summary *summaries);

/* How many variants of the adapter there are, and what each is. */
size_t throughput_variants(const struct bench_options *options);
enum bench_receive throughput_receive(const struct bench_options *options, size_t variant);
size_t throughput_pack(const struct bench_options *options, size_t variant);

/* How many receivers take turns, and what to call each; the first are the variants, then come, if
 * asked for, the bare loop, its control, and zloop. */
size_t throughput_subjects(const struct bench_options *options);
void throughput_name(const struct bench_options *options, size_t subject, char *out, size_t size);

/* What --svg draws: the cases of one type and one transport. New looks whether the file can be
 * written, before anything is measured. It returns NULL, and write -1, after saying why. */
struct throughput_chart;
struct throughput_chart *throughput_chart_new(const char *path);
void throughput_chart_free(struct throughput_chart *chart);
void throughput_chart_add(struct throughput_chart *chart, const struct bench_options *options,
                          const struct measured_case *measured);
int throughput_chart_write(const struct throughput_chart *chart,
                           const struct bench_options *options);

/* How many samples a case has, and how long they are. */
size_t throughput_repeat(const struct bench_options *options);
double throughput_seconds(const struct bench_options *options);

#endif /* BENCH_THROUGHPUT_H */
