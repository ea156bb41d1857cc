/*
 * A chart of rates over sizes, both axes logarithmic, as an SVG file. It knows nothing of what was
 * measured.
 */
#ifndef BENCH_CHART_H
#define BENCH_CHART_H

#include <stddef.h>

#define CHART_SERIES_MAX 6

/* One line of the chart. */
struct chart_series {
    const char *name;
    const double *rates; /* one a size; a rate that is not above 0 is left out */
    const double *lows; /* the spread, drawn as a bar; NULL for none */
    const double *highs;
};

/* Texts may hold any characters; sizes ascend. */
struct chart {
    const char *title;
    const char *subtitle;
    const char *x_label;
    const char *y_label;
    const size_t *sizes;
    size_t size_count;
    const struct chart_series *series;
    size_t series_count;
};

/* Writes the file anew. Returns 0, or -1 after saying why. */
int chart_write(const struct chart *chart, const char *path);

#endif /* BENCH_CHART_H */
