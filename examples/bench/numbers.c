/* The clock, medians and geometric means of the measurements. */
#include "numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t numbers_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

void numbers_sort(double *values, size_t count)
{
    if (count > 1) {
        qsort(values, count, sizeof(*values), compare);
    }
}

double numbers_median(double *values, size_t count)
{
    if (count == 0) {
        return 0;
    }
    numbers_sort(values, count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

double numbers_quantile(const double *sorted, size_t count, double share)
{
    if (count == 0) {
        return 0;
    }
    const double rank = ceil(share * (double)count);
    const size_t index = rank < 1 ? 0 : (size_t)rank - 1;
    return sorted[index < count ? index : count - 1];
}

/* Of values that may be sorted. */
static struct numbers_spread spread(double *values, size_t count)
{
    struct numbers_spread out = {.median = numbers_median(values, count)};
    out.min = count == 0 ? 0 : values[0];
    out.max = count == 0 ? 0 : values[count - 1];
    return out;
}

struct numbers_spread numbers_spread_of(const double *values, size_t count, double *scratch)
{
    memcpy(scratch, values, count * sizeof(*values));
    return spread(scratch, count);
}

struct numbers_spread numbers_ratio_of(const double *values, const double *bases, size_t count,
                                       double *scratch)
{
    for (size_t i = 0; i < count; i++) {
        scratch[i] = values[i] / bases[i];
    }
    return spread(scratch, count);
}

double numbers_geometric_mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += log(values[i]);
    }
    return count == 0 ? 0 : exp(sum / (double)count);
}
