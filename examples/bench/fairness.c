/*
 * Mode fairness: how late a 1 ms timer is while a peer floods a socket on the same base, and what
 * the timer costs the flood. Segments alternate: adapter and timer, adapter alone, and the control:
 * the timer alone on a base, while a bare loop in another process takes the same flood, so that the
 * processors are as busy.
 *
 * Where there are more threads to run than processors, most of the lateness is how long a thread
 * waits for one, and differs from one segment to the next by more than what is to be compared: with
 * 2 processors the rate of a flood by a fifth. So there are many short segments rather than a few
 * long ones, each repeat has its segments forwards and backwards, and what a pass adds is to be
 * looked for in the median and in the 99th percentile of some 10,000 timers.
 */
#include "modes.h"

#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

#include "lateness.h"
#include "numbers.h"
#include "peer.h"
#include "place.h"
#include "receive.h"

#define REPEAT_DEFAULT 30u
#define SECONDS_DEFAULT 0.2

enum segment { WITH_TIMER, WITHOUT_TIMER, CONTROL, SEGMENTS };

struct run {
    const struct bench_options *options;
    struct report *report;
    struct peer *sender;
    struct peer *sink; /* of the control */
    void *zmq_context;
    size_t repeat;
    double seconds;
    struct lateness timed; /* of the timer beside the flood */
    struct lateness control; /* of the timer alone */
    double *ratios; /* the flood's rate with the timer / without, one a repeat */
};

static struct peer_order flood_order(const struct run *run)
{
    /* Records made beforehand: the flood should be as hard as it can be. */
    return (struct peer_order){.job = PEER_FLOOD,
                               .type = run->options->types[0],
                               .chars = run->options->chars[0],
                               .form = RECORD_COPIED};
}

/* A segment with the adapter. Gives the rate at which it took the flood. */
static int take_flood(struct run *run, struct lateness *timer, double *out_rate)
{
    struct peer_order order = flood_order(run);
    void *socket =
        place_bind(run->zmq_context, ZMQ_PULL, BENCH_IPC, peer_high_water_mark(order.chars),
                   order.endpoint, sizeof(order.endpoint));
    if (socket == NULL) {
        return -1;
    }
    if (peer_begin(run->sender, &order) != 0) {
        (void)zmq_close(socket);
        return -1;
    }
    const struct adapter_task task = {
        .codec = run->options->codec,
        .receive = run->options->receives[0],
        .check_bytes = 1,
        .precise_base = 1,
        .timer = timer,
    };
    struct meter meter;
    struct record_check check;
    struct peer_result sent;
    meter_init(&meter, &run->sender, 1, run->seconds);
    record_check_init(&check, order.type, order.chars);
    const int result = adapter_receive(socket, &task, &meter, &check);
    place_clear();
    if (result != 0 || peer_finish(run->sender, &sent) != 0) {
        return -1;
    }
    if (check.failed) {
        return report_error("%s", check.reason);
    }
    if (meter.messages != sent.messages || meter.state != METER_DONE) {
        return report_error("lost: %llu of %llu records",
                            (unsigned long long)(sent.messages - meter.messages),
                            (unsigned long long)sent.messages);
    }
    *out_rate = meter.rate;
    return 0;
}

/* Runs the timer on a base of its own for the time of a segment. */
static int run_timer(const struct run *run, struct lateness *timer)
{
    const uint64_t time_us = (uint64_t)(run->seconds * 1e6);
    const struct timeval time = {(time_t)(time_us / 1000000), (suseconds_t)(time_us % 1000000)};
    struct event_base *base = lateness_base_new();
    if (base == NULL) {
        return report_error("no memory for an event base");
    }
    int result = -1;
    if (lateness_start(timer, base) == 0 && event_base_loopexit(base, &time) == 0) {
        result = event_base_dispatch(base) < 0 ? -1 : 0;
    }
    lateness_stop(timer);
    event_base_free(base);
    return result == 0 ? 0 : report_error("the event loop failed");
}

static int run_control(struct run *run)
{
    struct peer_order order = flood_order(run);
    if (place_endpoint(BENCH_IPC, order.endpoint, sizeof(order.endpoint)) != 0) {
        return -1;
    }
    struct peer_order sink = order;
    sink.job = PEER_SINK;
    if (peer_begin(run->sink, &sink) != 0 || peer_begin(run->sender, &order) != 0) {
        return -1;
    }
    const int result = run_timer(run, &run->control);
    peer_set_phase(run->sender, PEER_END);
    struct peer_result sent;
    struct peer_result taken;
    if (peer_finish(run->sink, &taken) != 0 || peer_finish(run->sender, &sent) != 0) {
        return -1;
    }
    place_clear();
    if (sent.messages != taken.messages) {
        return report_error("the control lost records");
    }
    return result;
}

static void print(struct run *run)
{
    const struct bench_options *options = run->options;
    struct lateness *timed = &run->timed;
    struct lateness *control = &run->control;
    numbers_sort(timed->late_us, timed->count);
    numbers_sort(control->late_us, control->count);
    const double ratio = numbers_median(run->ratios, run->repeat);
    const double p50 = numbers_quantile(timed->late_us, timed->count, 0.5);
    const double p99 = numbers_quantile(timed->late_us, timed->count, 0.99);
    const double max = numbers_quantile(timed->late_us, timed->count, 1);
    const double control_p50 = numbers_quantile(control->late_us, control->count, 0.5);
    const double control_p99 = numbers_quantile(control->late_us, control->count, 0.99);
    const double control_max = numbers_quantile(control->late_us, control->count, 1);
    struct report_row row = {.count = 0};
    report_add_text(&row, "mode", "fairness");
    report_add_text(&row, "type", options_type_name(options->types[0]));
    report_add_count(&row, "chars", options->chars[0]);
    report_add_text(&row, "transport", "ipc");
    report_add_text(&row, "codec", options_codec_name(options->codec));
    report_add_text(&row, "receive", options_receive_name(options->receives[0]));
    report_add_count(&row, "repeat", run->repeat);
    report_add_real(&row, "seconds", run->seconds, 3);
    report_add_count(&row, "timers", timed->count);
    report_add_real(&row, "late_p50_us", p50, 1);
    report_add_real(&row, "late_p99_us", p99, 1);
    report_add_real(&row, "late_max_us", max, 1);
    report_add_real(&row, "control_p50_us", control_p50, 1);
    report_add_real(&row, "control_p99_us", control_p99, 1);
    report_add_real(&row, "control_max_us", control_max, 1);
    report_add_real(&row, "flood_ratio", ratio, 3);
    report_add_real(&row, "flood_ratio_min", run->ratios[0], 3);
    report_row(run->report, &row);
    report_line(run->report, "timer beside a flood: late by p50 %.1f us, p99 %.1f us, max %.1f us",
                p50, p99, max);
    report_line(run->report, "timer alone (control): late by p50 %.1f us, p99 %.1f us, max %.1f us",
                control_p50, control_p99, control_max);
    report_line(run->report, "flood with the timer / without: %.3f (median of %zu)", ratio,
                run->repeat);
}

/* Runs one segment and adds the rate of its flood to the sum of its kind. */
static int run_segment(struct run *run, enum segment segment, double *rates)
{
    if (segment == CONTROL) {
        return run_control(run);
    }
    double rate = 0;
    if (take_flood(run, segment == WITH_TIMER ? &run->timed : NULL, &rate) != 0) {
        return -1;
    }
    rates[segment] += rate;
    return 0;
}

static int run_segments(struct run *run)
{
    static const enum segment turns[] = {WITH_TIMER, WITHOUT_TIMER, CONTROL,
                                         CONTROL,    WITHOUT_TIMER, WITH_TIMER};
    for (size_t i = 0; i < run->repeat; i++) {
        double rates[SEGMENTS] = {0};
        report_progress(run->report, "segments %zu/%zu", i + 1, run->repeat);
        for (size_t turn = 0; turn < sizeof(turns) / sizeof(turns[0]); turn++) {
            if (run_segment(run, turns[turn], rates) != 0) {
                return -1;
            }
        }
        run->ratios[i] = rates[WITH_TIMER] / rates[WITHOUT_TIMER];
    }
    print(run);
    return 0;
}

/* The processes first, and only then the ZeroMQ context: see peer.h. */
static int start(struct run *run)
{
    run->sender = peer_start_process();
    run->sink = run->sender == NULL ? NULL : peer_start_process();
    if (run->sink == NULL || place_open() != 0) {
        return -1;
    }
    run->zmq_context = zmq_ctx_new();
    /* Room for a firing a millisecond in two segments, and their warm-ups. */
    const size_t room = (size_t)((run->seconds + 1) * 4000) * run->repeat;
    run->timed.late_us = calloc(room, sizeof(double));
    run->control.late_us = calloc(room, sizeof(double));
    run->timed.count_max = room;
    run->control.count_max = room;
    run->ratios = calloc(run->repeat, sizeof(double));
    if (run->zmq_context == NULL || run->timed.late_us == NULL || run->control.late_us == NULL ||
        run->ratios == NULL) {
        return report_error("no memory for %zu segments", run->repeat);
    }
    return 0;
}

int mode_fairness(const struct bench_options *options, struct report *report)
{
    if (options->transport_count > 1 || options->transports[0] != BENCH_IPC) {
        report_error("mode fairness over another transport than ipc is not implemented");
        return 2;
    }
    struct run run = {
        .options = options,
        .report = report,
        .repeat = options->repeat != 0 ? options->repeat : REPEAT_DEFAULT,
        .seconds = options->seconds > 0 ? options->seconds : SECONDS_DEFAULT,
    };
    int result = start(&run);
    if (result == 0) {
        result = run_segments(&run);
    }
    peer_stop(run.sender);
    peer_stop(run.sink);
    if (run.zmq_context != NULL) {
        (void)zmq_ctx_term(run.zmq_context);
    }
    place_close();
    free(run.timed.late_us);
    free(run.control.late_us);
    free(run.ratios);
    return result == 0 ? 0 : 1;
}
