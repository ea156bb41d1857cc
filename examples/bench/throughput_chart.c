/* Mode throughput: what is kept of the cases to draw them. */
#include "throughput.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "numbers.h"
#include "records.h"

struct curve {
    double medians[BENCH_CHARS_COUNT_MAX];
    double lows[BENCH_CHARS_COUNT_MAX];
    double highs[BENCH_CHARS_COUNT_MAX];
};

struct throughput_chart {
    size_t count;
    enum bench_type type;
    enum bench_transport transport;
    size_t repeat;
    size_t sizes[BENCH_CHARS_COUNT_MAX];
    struct curve curves[SUBJECTS_MAX];
};

struct throughput_chart *throughput_chart_new(const char *path)
{
    /* What was there stays until there is something to draw. */
    FILE *file = fopen(path, "a");
    if (file == NULL) {
        (void)report_error("%s: %s", path, strerror(errno));
        return NULL;
    }
    (void)fclose(file);
    struct throughput_chart *chart = calloc(1, sizeof(*chart));
    if (chart == NULL) {
        (void)report_error("no memory");
    }
    return chart;
}

void throughput_chart_free(struct throughput_chart *chart)
{
    free(chart);
}

void throughput_chart_add(struct throughput_chart *chart, const struct bench_options *options,
                          const struct measured_case *measured)
{
    if (chart->count == BENCH_CHARS_COUNT_MAX) {
        return;
    }
    for (size_t i = 0; i < throughput_subjects(options); i++) {
        const struct numbers_spread spread =
            numbers_spread_of(measured->recv_rates[i], measured->repeat, measured->scratch);
        chart->curves[i].medians[chart->count] = spread.median;
        chart->curves[i].lows[chart->count] = spread.min;
        chart->curves[i].highs[chart->count] = spread.max;
    }
    chart->type = measured->type;
    chart->transport = measured->transport;
    chart->repeat = measured->repeat;
    chart->sizes[chart->count++] = measured->chars;
}

/* The control is the bare loop once more: not a curve of its own. */
static size_t choose_series(const struct throughput_chart *chart,
                            const struct bench_options *options, char names[][64],
                            struct chart_series *out)
{
    const size_t control = throughput_variants(options) + 1;
    size_t count = 0;
    for (size_t i = 0; i < throughput_subjects(options) && count < CHART_SERIES_MAX; i++) {
        if (i == control) {
            continue;
        }
        throughput_name(options, i, names[count], sizeof(names[count]));
        out[count] = (struct chart_series){.name = names[count],
                                           .rates = chart->curves[i].medians,
                                           .lows = chart->curves[i].lows,
                                           .highs = chart->curves[i].highs};
        count++;
    }
    return count;
}

int throughput_chart_write(const struct throughput_chart *chart,
                           const struct bench_options *options)
{
    char names[CHART_SERIES_MAX][64];
    struct chart_series series[CHART_SERIES_MAX];
    char title[80];
    char subtitle[160];
    snprintf(title, sizeof(title), "%s records received per second", record_name(chart->type));
    snprintf(subtitle, sizeof(subtitle),
             "PUSH to PULL over %s; medians of %zu samples of %g s, bars: lowest to highest",
             options_transport_name(chart->transport), chart->repeat, throughput_seconds(options));
    const struct chart drawn = {.title = title,
                                .subtitle = subtitle,
                                .x_label = "characters of text in a record",
                                .y_label = "records per second",
                                .sizes = chart->sizes,
                                .size_count = chart->count,
                                .series = series,
                                .series_count = choose_series(chart, options, names, series)};
    return chart_write(&drawn, options->svg_path);
}
