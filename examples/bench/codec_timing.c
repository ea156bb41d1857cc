/* Timing of codecs without any socket. */
#include "codec_timing.h"

#include <stdlib.h>
#include <string.h>

#include "numbers.h"

#define REPEAT_DEFAULT 15u
#define SECONDS_DEFAULT 0.02
/* The clock is read once in so many turns of the work. */
#define TURNS 64u

int codec_timing_init(struct codec_timing *timing, const struct bench_options *options,
                      const struct contender *contenders, size_t count)
{
    *timing = (struct codec_timing){
        .contenders = contenders,
        .count = count,
        .repeat = options->repeat != 0 ? options->repeat : REPEAT_DEFAULT,
        .seconds = options->seconds > 0 ? options->seconds : SECONDS_DEFAULT,
    };
    double *values = calloc((count + 1) * timing->repeat, sizeof(*values));
    if (values == NULL) {
        return report_error("no memory for %zu repeats", timing->repeat);
    }
    timing->scratch = values;
    for (size_t i = 0; i < count; i++) {
        timing->ns[i] = values + (i + 1) * timing->repeat;
    }
    return 0;
}

void codec_timing_clear(struct codec_timing *timing)
{
    free(timing->scratch);
    timing->scratch = NULL;
}

static int measure(const struct codec_timing *timing, const struct contender *contender,
                   double *out_ns)
{
    const uint64_t begin_ns = numbers_now_ns();
    const uint64_t limit_ns = (uint64_t)(timing->seconds * 1e9);
    uint64_t turns = 0;
    uint64_t passed_ns = 0;
    while (passed_ns < limit_ns) {
        for (size_t i = 0; i < TURNS; i++) {
            if (contender->work(contender->arg) != 0) {
                return report_error("%s: the codec failed", contender->key);
            }
        }
        turns += TURNS;
        passed_ns = numbers_now_ns() - begin_ns;
    }
    *out_ns = (double)passed_ns / (double)turns;
    return 0;
}

int codec_timing_run(struct codec_timing *timing)
{
    for (size_t i = 0; i < timing->repeat; i++) {
        for (size_t turn = 0; turn < timing->count; turn++) {
            const size_t which = i % 2 == 0 ? turn : timing->count - 1 - turn;
            if (measure(timing, &timing->contenders[which], &timing->ns[which][i]) != 0) {
                return -1;
            }
        }
    }
    return 0;
}

double codec_timing_ns(struct codec_timing *timing, size_t contender)
{
    memcpy(timing->scratch, timing->ns[contender], timing->repeat * sizeof(double));
    return numbers_median(timing->scratch, timing->repeat);
}

double codec_timing_ratio(struct codec_timing *timing, size_t slow, size_t fast)
{
    for (size_t i = 0; i < timing->repeat; i++) {
        timing->scratch[i] = timing->ns[slow][i] / timing->ns[fast][i];
    }
    return numbers_median(timing->scratch, timing->repeat);
}

void codec_timing_begin_row(struct report_row *row, const struct codec_timing *timing,
                            enum bench_mode mode, enum bench_type type, size_t chars, size_t bytes)
{
    row->count = 0;
    report_add_text(row, "mode", options_mode_name(mode));
    report_add_text(row, "type", options_type_name(type));
    report_add_count(row, "chars", chars);
    report_add_count(row, "bytes", bytes);
    report_add_count(row, "repeat", timing->repeat);
    report_add_real(row, "seconds", timing->seconds, 3);
}
