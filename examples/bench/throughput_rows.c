/* Mode throughput: what the samples of a case come to, and how it is printed. */
#include "throughput.h"

#include <stdio.h>

#include <evzmq/packing.h>

#include "numbers.h"
#include "records.h"

static struct numbers_spread spread_of(const struct measured_case *measured, const double *values)
{
    return numbers_spread_of(values, measured->repeat, measured->scratch);
}

/* The ratio of two receivers, repeat by repeat. */
static struct numbers_spread ratio_of(const struct measured_case *measured, size_t subject,
                                      size_t base)
{
    return numbers_ratio_of(measured->recv_rates[subject], measured->recv_rates[base],
                            measured->repeat, measured->scratch);
}

/* The numbers of one line. */
struct line {
    size_t subject;
    struct numbers_spread recv;
    struct numbers_spread issue;
    struct numbers_spread bare; /* the rest: against the bare loop only */
    struct numbers_spread ratio;
    struct numbers_spread control;
};

static struct line line_of(const struct bench_options *options,
                           const struct measured_case *measured, size_t subject)
{
    struct line line = {.subject = subject};
    line.recv = spread_of(measured, measured->recv_rates[subject]);
    line.issue = spread_of(measured, measured->issue_rates[subject]);
    if (options->against_bare) {
        const size_t bare = throughput_variants(options);
        line.bare = spread_of(measured, measured->recv_rates[bare]);
        line.ratio = ratio_of(measured, subject, bare);
        line.control = ratio_of(measured, bare + 1, bare);
    }
    return line;
}

/* zloop has no receive modes. */
static const char *receive_name(const struct bench_options *options, size_t subject)
{
    return subject < throughput_variants(options)
               ? options_receive_name(throughput_receive(options, subject))
               : "zloop";
}

static void print_row(struct report *report, const struct bench_options *options,
                      const struct measured_case *measured, const struct line *line)
{
    const size_t bare = throughput_variants(options);
    struct report_row row = {.count = 0};
    report_add_text(&row, "mode", options_mode_name(options->mode));
    report_add_text(&row, "type", options_type_name(measured->type));
    report_add_count(&row, "chars", measured->chars);
    report_add_count(&row, "bytes", measured->bytes);
    report_add_text(&row, "transport", options_transport_name(measured->transport));
    report_add_text(&row, "codec", options_codec_name(options->codec));
    report_add_text(&row, "receive", receive_name(options, line->subject));
    report_add_count(&row, "pack", throughput_pack(options, line->subject));
    report_add_count(&row, "repeat", measured->repeat);
    report_add_real(&row, "seconds", throughput_seconds(options), 3);
    report_add_real(&row, "issue_rate", line->issue.median, 0);
    report_add_real(&row, "recv_rate", line->recv.median, 0);
    report_add_real(&row, "recv_rate_min", line->recv.min, 0);
    report_add_real(&row, "recv_rate_max", line->recv.max, 0);
    report_add_real(&row, "mb_s", line->recv.median * (double)measured->bytes / 1e6, 1);
    uint64_t lost = measured->lost[line->subject];
    if (options->against_bare) {
        lost += measured->lost[bare] + measured->lost[bare + 1];
    }
    report_add_count(&row, "lost", lost);
    if (throughput_variants(options) > 1) {
        report_add_real(&row, "vs_first", ratio_of(measured, line->subject, 0).median, 3);
    }
    if (options->against_bare) {
        report_add_real(&row, "bare_rate", line->bare.median, 0);
        report_add_real(&row, "ratio", line->ratio.median, 3);
        report_add_real(&row, "ratio_min", line->ratio.min, 3);
        report_add_real(&row, "ratio_max", line->ratio.max, 3);
        report_add_real(&row, "control", line->control.median, 3);
        report_add_real(&row, "control_min", line->control.min, 3);
        report_add_real(&row, "ratio_of_control", line->ratio.median / line->control.median, 3);
    }
    report_row(report, &row);
}

/* What the end of a table line says beyond the rates. */
static void describe(const struct bench_options *options, const struct measured_case *measured,
                     const struct line *line, char *out, size_t size)
{
    char bare[REPORT_COMMAS_MAX];
    size_t at = 0;
    out[0] = '\0';
    if (options->against_bare) {
        at += (size_t)snprintf(out + at, size - at,
                               ", bare=%9s msg/s, ratio %.3f (%.3f to %.3f), control %.3f "
                               "(min %.3f)",
                               report_commas(line->bare.median, bare), line->ratio.median,
                               line->ratio.min, line->ratio.max, line->control.median,
                               line->control.min);
    }
    if (options->transport_count > 1 && at < size) {
        at += (size_t)snprintf(out + at, size - at, ", %s",
                               options_transport_name(measured->transport));
    }
    if (line->subject >= throughput_variants(options)) {
        if (at < size) {
            snprintf(out + at, size - at, ", zloop");
        }
        return;
    }
    if (options->pack_count > 0 && at < size) {
        at += (size_t)snprintf(out + at, size - at, ", frames of %zu",
                               throughput_pack(options, line->subject));
    }
    if (options->receive_count > 1 && at < size) {
        at += (size_t)snprintf(out + at, size - at, ", %s",
                               options_receive_name(throughput_receive(options, line->subject)));
        if (line->subject > 0 && at < size) {
            snprintf(out + at, size - at, " (%.3f of %s)",
                     ratio_of(measured, line->subject, 0).median,
                     options_receive_name(options->receives[0]));
        }
    }
}

static void print_line(struct report *report, const struct bench_options *options,
                       const struct measured_case *measured, const struct line *line)
{
    char issue[REPORT_COMMAS_MAX];
    char recv[REPORT_COMMAS_MAX];
    char rest[256];
    const double megabytes = (double)measured->bytes / 1e6;
    describe(options, measured, line, rest, sizeof(rest));
    report_line(report,
                "%-11s %6zu chars (%5zu B): issue=%9s msg/s %7.1f MB/s, recv=%9s msg/s %7.1f "
                "MB/s%s",
                record_name(measured->type), measured->chars, measured->bytes,
                report_commas(line->issue.median, issue), line->issue.median * megabytes,
                report_commas(line->recv.median, recv), line->recv.median * megabytes, rest);
}

/* The best size of frames, and how far the default one is from it. */
static void print_best(struct report *report, const struct bench_options *options,
                       const struct measured_case *measured)
{
    const size_t bare = throughput_variants(options);
    size_t best = 0;
    double best_ratio = 0;
    double default_ratio = 0;
    for (size_t i = 0; i < bare; i++) {
        const double ratio = ratio_of(measured, i, bare).median;
        if (ratio > best_ratio) {
            best = i;
            best_ratio = ratio;
        }
        if (throughput_pack(options, i) == EVZMQ_PACKING_BYTES) {
            default_ratio = ratio;
        }
    }
    if (default_ratio <= 0) {
        return; /* The default was not measured. */
    }
    report_line(report,
                "%-11s %6zu chars: best ratio %.3f, frames of %zu; default frames of %u: %.3f, "
                "%.3f of the best",
                record_name(measured->type), measured->chars, best_ratio,
                throughput_pack(options, best), EVZMQ_PACKING_BYTES, default_ratio,
                default_ratio / best_ratio);
    struct report_row row = {.count = 0};
    report_add_text(&row, "mode", "best");
    report_add_text(&row, "type", options_type_name(measured->type));
    report_add_count(&row, "chars", measured->chars);
    report_add_text(&row, "transport", options_transport_name(measured->transport));
    report_add_count(&row, "pack", throughput_pack(options, best));
    report_add_real(&row, "ratio", best_ratio, 3);
    report_add_count(&row, "default_pack", EVZMQ_PACKING_BYTES);
    report_add_real(&row, "default_ratio", default_ratio, 3);
    report_add_real(&row, "default_of_best", default_ratio / best_ratio, 3);
    report_row(report, &row);
}

void throughput_print_case(struct report *report, const struct bench_options *options,
                           const struct measured_case *measured, struct summary *summaries)
{
    for (size_t i = 0; i < throughput_variants(options); i++) {
        const struct line line = line_of(options, measured, i);
        print_line(report, options, measured, &line);
        print_row(report, options, measured, &line);
        struct summary *summary = &summaries[i];
        if (options->against_bare) {
            if (summary->cases == 0 || line.control.min < summary->control_min) {
                summary->control_min = line.control.min;
            }
            summary->ratios[summary->cases] = line.ratio.median;
            summary->controls[summary->cases] = line.control.median;
            summary->cases++;
        }
    }
    if (options->against_zloop) {
        const struct line line = line_of(options, measured, throughput_variants(options) + 2);
        print_line(report, options, measured, &line);
        print_row(report, options, measured, &line);
    }
    if (options->against_bare && options->pack_count > 0) {
        print_best(report, options, measured);
    }
}

static double lowest(const double *values, size_t count)
{
    double low = values[0];
    for (size_t i = 1; i < count; i++) {
        if (values[i] < low) {
            low = values[i];
        }
    }
    return low;
}

static void print_one_summary(struct report *report, const struct bench_options *options,
                              enum bench_transport transport, size_t subject,
                              const struct summary *summary)
{
    const double ratio = numbers_geometric_mean(summary->ratios, summary->cases);
    const double control = numbers_geometric_mean(summary->controls, summary->cases);
    const double ratio_low = lowest(summary->ratios, summary->cases);
    const double control_low = lowest(summary->controls, summary->cases);
    const char *receive = options_receive_name(throughput_receive(options, subject));
    char frames[48] = "";
    if (options->pack_count > 0) {
        snprintf(frames, sizeof(frames), ", frames of %zu", throughput_pack(options, subject));
    }
    report_line(report,
                "geometric mean of %zu (%s, %s, %s%s): ratio %.3f, control %.3f, ratio/control "
                "%.3f; lowest median: ratio %.3f, control %.3f; control_min %.3f",
                summary->cases, options_transport_name(transport),
                options_codec_name(options->codec), receive, frames, ratio, control,
                ratio / control, ratio_low, control_low, summary->control_min);
    struct report_row row = {.count = 0};
    report_add_text(&row, "mode", "summary");
    report_add_text(&row, "transport", options_transport_name(transport));
    report_add_text(&row, "codec", options_codec_name(options->codec));
    report_add_text(&row, "receive", receive);
    report_add_count(&row, "pack", throughput_pack(options, subject));
    report_add_count(&row, "repeat", throughput_repeat(options));
    report_add_real(&row, "seconds", throughput_seconds(options), 3);
    report_add_count(&row, "cases", summary->cases);
    report_add_real(&row, "ratio", ratio, 3);
    report_add_real(&row, "ratio_lowest_median", ratio_low, 3);
    report_add_real(&row, "control", control, 3);
    report_add_real(&row, "control_lowest_median", control_low, 3);
    report_add_real(&row, "control_min", summary->control_min, 3);
    report_add_real(&row, "ratio_of_control", ratio / control, 3);
    report_row(report, &row);
}

void throughput_print_summary(struct report *report, const struct bench_options *options,
                              enum bench_transport transport, const struct summary *summaries)
{
    for (size_t i = 0; i < throughput_variants(options); i++) {
        print_one_summary(report, options, transport, i, &summaries[i]);
    }
}
