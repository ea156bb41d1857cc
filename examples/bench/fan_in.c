/*
 * Mode fan-in: two processes send answers flat out to one receiver. Either they are the workers of
 * a pool, and its answer callback receives, or they have a bare PUSH socket each, for a bare loop.
 *
 * One repeat measures the pool, the bare loop and the bare loop once more, the next one in the
 * opposite order: A B B' B' B A, as mode throughput does it, and B' to B is the control. Both sides
 * send the same bytes in as many parts, with the same high water marks; every sample has fresh
 * sockets.
 */
#include "fan_in.h"

#include <stdlib.h>

#include <zmq.h>

#include "modes.h"
#include "numbers.h"
#include "place.h"

#define REPEAT_DEFAULT 15u
#define SECONDS_DEFAULT 0.2

enum subject { POOL, BARE, CONTROL, SUBJECTS };

struct run {
    const struct bench_options *options;
    struct report *report;
    struct peer *peers[FAN_IN_SENDERS];
    void *zmq_context;
    size_t repeat;
    double seconds;
    double *rates[SUBJECTS]; /* in the order of the repeats */
    double *scratch; /* room for a value a repeat */
    uint64_t lost; /* of one case */
    int wrong; /* something was lost */
};

/* Compares what came with what was sent. */
static void judge(struct run *run, const struct meter *meter, enum subject subject,
                  const struct peer_result *sent)
{
    if (meter->messages == sent->messages && meter->bytes == sent->bytes) {
        return;
    }
    run->wrong = 1;
    if (meter->messages < sent->messages) {
        run->lost += sent->messages - meter->messages;
    }
    report_error("%s: %llu answers of %llu bytes were sent, %llu of %llu bytes came",
                 subject == POOL ? "pool" : "bare loop", (unsigned long long)sent->messages,
                 (unsigned long long)sent->bytes, (unsigned long long)meter->messages,
                 (unsigned long long)meter->bytes);
}

/* One sample. Returns 0, or -1 after saying why. */
static int measure(struct run *run, const struct fan_in *fan_in, enum subject subject,
                   size_t repeat)
{
    struct meter meter;
    struct peer_result sent = {.error = 0};
    meter_init(&meter, run->peers, FAN_IN_SENDERS, run->seconds);
    if ((subject == POOL ? fan_in_pool(fan_in, &meter)
                         : fan_in_bare(fan_in, run->zmq_context, &meter)) != 0) {
        return -1;
    }
    for (size_t i = 0; i < FAN_IN_SENDERS; i++) {
        struct peer_result one;
        if (peer_finish(run->peers[i], &one) != 0) {
            return -1;
        }
        sent.messages += one.messages;
        sent.bytes += one.bytes;
    }
    if (meter.state != METER_DONE) {
        return report_error("the senders ended before the measurement did");
    }
    judge(run, &meter, subject, &sent);
    run->rates[subject][repeat] = meter.rate;
    return 0;
}

static void print(struct run *run, const struct fan_in *fan_in, size_t bytes)
{
    char pool_text[REPORT_COMMAS_MAX];
    char bare_text[REPORT_COMMAS_MAX];
    const size_t repeat = run->repeat;
    const struct numbers_spread pool = numbers_spread_of(run->rates[POOL], repeat, run->scratch);
    const struct numbers_spread bare = numbers_spread_of(run->rates[BARE], repeat, run->scratch);
    const struct numbers_spread ratio =
        numbers_ratio_of(run->rates[POOL], run->rates[BARE], repeat, run->scratch);
    const struct numbers_spread control =
        numbers_ratio_of(run->rates[CONTROL], run->rates[BARE], repeat, run->scratch);
    struct report_row row = {.count = 0};
    report_add_text(&row, "mode", options_mode_name(BENCH_FAN_IN));
    report_add_text(&row, "type", options_type_name(fan_in->type));
    report_add_count(&row, "chars", fan_in->chars);
    report_add_count(&row, "bytes", bytes);
    report_add_text(&row, "transport", options_transport_name(fan_in->transport));
    report_add_count(&row, "workers", FAN_IN_SENDERS);
    report_add_count(&row, "repeat", repeat);
    report_add_real(&row, "seconds", run->seconds, 3);
    report_add_real(&row, "recv_rate", pool.median, 0);
    report_add_real(&row, "recv_rate_min", pool.min, 0);
    report_add_real(&row, "recv_rate_max", pool.max, 0);
    report_add_count(&row, "lost", run->lost);
    report_add_real(&row, "bare_rate", bare.median, 0);
    report_add_real(&row, "ratio", ratio.median, 3);
    report_add_real(&row, "ratio_min", ratio.min, 3);
    report_add_real(&row, "ratio_max", ratio.max, 3);
    report_add_real(&row, "control", control.median, 3);
    report_add_real(&row, "control_min", control.min, 3);
    report_add_real(&row, "ratio_of_control", ratio.median / control.median, 3);
    report_row(run->report, &row);
    report_line(run->report,
                "%-11s %6zu chars (%5zu B): pool=%9s answers/s, bare=%9s msg/s, ratio %.3f (%.3f "
                "to %.3f), control %.3f (min %.3f), ratio/control %.3f, %s",
                record_name(fan_in->type), fan_in->chars, bytes,
                report_commas(pool.median, pool_text), report_commas(bare.median, bare_text),
                ratio.median, ratio.min, ratio.max, control.median, control.min,
                ratio.median / control.median, options_transport_name(fan_in->transport));
}

static int run_case(struct run *run, const struct fan_in *fan_in)
{
    const size_t bytes = record_size(fan_in->type, fan_in->chars);
    if (bytes == 0) {
        return report_error("no memory for a record of %zu chars", fan_in->chars);
    }
    run->lost = 0;
    for (size_t i = 0; i < run->repeat; i++) {
        report_progress(run->report, "%s, %s, %zu chars: %zu/%zu",
                        options_transport_name(fan_in->transport), record_name(fan_in->type),
                        fan_in->chars, i + 1, run->repeat);
        for (unsigned turn = 0; turn < SUBJECTS; turn++) {
            const unsigned subject = i % 2 == 0 ? turn : SUBJECTS - 1 - turn;
            if (measure(run, fan_in, (enum subject)subject, i) != 0) {
                return -1;
            }
        }
    }
    print(run, fan_in, bytes);
    return 0;
}

static int run_cases(struct run *run)
{
    const struct bench_options *options = run->options;
    struct fan_in fan_in = {.peers = run->peers};
    for (size_t i = 0; i < options->transport_count; i++) {
        for (size_t j = 0; j < options->type_count; j++) {
            for (size_t k = 0; k < options->chars_count; k++) {
                fan_in.transport = options->transports[i];
                fan_in.type = options->types[j];
                fan_in.chars = options->chars[k];
                if (run_case(run, &fan_in) != 0) {
                    return -1;
                }
            }
        }
    }
    return 0;
}

/* The processes first, and only then the ZeroMQ context: see peer.h. */
static int start(struct run *run)
{
    for (size_t i = 0; i < FAN_IN_SENDERS; i++) {
        run->peers[i] = peer_start_process();
        if (run->peers[i] == NULL) {
            return -1;
        }
    }
    if (place_open() != 0) {
        return -1;
    }
    run->zmq_context = zmq_ctx_new();
    run->scratch = calloc((SUBJECTS + 1) * run->repeat, sizeof(*run->scratch));
    if (run->zmq_context == NULL || run->scratch == NULL) {
        return report_error("no memory for %zu repeats", run->repeat);
    }
    for (size_t i = 0; i < SUBJECTS; i++) {
        run->rates[i] = run->scratch + (i + 1) * run->repeat;
    }
    return 0;
}

int mode_fan_in(const struct bench_options *options, struct report *report)
{
    for (size_t i = 0; i < options->transport_count; i++) {
        if (options->transports[i] == BENCH_INPROC) {
            report_error("mode fan-in is between processes: inproc is not implemented");
            return 2;
        }
    }
    struct run run = {
        .options = options,
        .report = report,
        .repeat = options->repeat != 0 ? options->repeat : REPEAT_DEFAULT,
        .seconds = options->seconds > 0 ? options->seconds : SECONDS_DEFAULT,
    };
    const int result = start(&run) == 0 ? run_cases(&run) : -1;
    for (size_t i = 0; i < FAN_IN_SENDERS; i++) {
        peer_stop(run.peers[i]);
    }
    free(run.scratch);
    if (run.zmq_context != NULL) {
        (void)zmq_ctx_term(run.zmq_context);
    }
    place_close();
    return result == 0 && !run.wrong ? 0 : 1;
}
