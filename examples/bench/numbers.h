/* The clock, medians and geometric means of the measurements. */
#ifndef BENCH_NUMBERS_H
#define BENCH_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* CLOCK_MONOTONIC, in nanoseconds. */
uint64_t numbers_now_ns(void);

/* Sorts the values in place. */
void numbers_sort(double *values, size_t count);

/* The median of values that need not be sorted: of an even number, the mean of the middle two.
 * Sorts them. 0 for none. */
double numbers_median(double *values, size_t count);

/* The value that a share (0 to 1) of the sorted values does not exceed. 0 for none. */
double numbers_quantile(const double *sorted, size_t count, double share);

/* The median and the extremes of something that has a value a repeat. */
struct numbers_spread {
    double median;
    double min;
    double max;
};

/* Of values whose order stays; scratch has room for as many. */
struct numbers_spread numbers_spread_of(const double *values, size_t count, double *scratch);

/* Of the ratios of two rows of values, repeat by repeat. */
struct numbers_spread numbers_ratio_of(const double *values, const double *bases, size_t count,
                                       double *scratch);

/* The geometric mean of positive values. 0 for none. */
double numbers_geometric_mean(const double *values, size_t count);

#endif /* BENCH_NUMBERS_H */
