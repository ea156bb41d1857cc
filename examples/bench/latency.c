/*
 * Mode latency: round trips of one small message, with the adapter at both ends against blocking
 * libzmq at both ends, in the order A B B A. The other end is a process of its own. With --pack the
 * adapter sends a record in a frame of its own, as it does when nothing else is written in the
 * turn.
 */
#include "modes.h"

#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "numbers.h"
#include "peer.h"
#include "pingpong.h"
#include "place.h"

#define MESSAGE_BYTES 16u
#define REPEAT_DEFAULT 11u
#define SECONDS_DEFAULT 0.5
#define TRIPS_MAX 100000u /* recorded a run: as many as the fastest way makes in a second */

enum side { ADAPTER, BARE, SIDES };

struct run {
    const struct bench_options *options;
    struct report *report;
    struct peer *peer;
    void *zmq_context;
    size_t repeat;
    double seconds;
    double *trips[SIDES]; /* of all runs */
    size_t trip_count[SIDES];
    double *medians[SIDES]; /* one a run */
    double *ratios;
};

static int play(struct run *run, enum bench_transport transport, enum side side, size_t repeat)
{
    struct peer_order order = {
        .job = side == ADAPTER ? PEER_ECHO_ADAPTER : PEER_ECHO_BARE,
        .pack_bytes = run->options->packs[0],
    };
    void *socket = place_bind(run->zmq_context, ZMQ_PAIR, transport, PEER_HIGH_WATER_MARK,
                              order.endpoint, sizeof(order.endpoint));
    if (socket == NULL) {
        return -1;
    }
    if (peer_begin(run->peer, &order) != 0) {
        (void)zmq_close(socket);
        return -1;
    }
    struct pingpong game = {
        .size = MESSAGE_BYTES,
        .pack_bytes = order.pack_bytes,
        .run_ns = (uint64_t)(run->seconds * 1e9),
        .trip_us = run->trips[side] + run->trip_count[side],
        .count_max = TRIPS_MAX,
    };
    int result = 0;
    if (side == ADAPTER) {
        result = pingpong_adapter(socket, &game);
    } else {
        const int linger = PEER_PATIENCE_MS;
        result = pingpong_bare(socket, &game);
        (void)zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
        (void)zmq_close(socket);
    }
    place_clear();
    struct peer_result echoed;
    if (result != 0 || peer_finish(run->peer, &echoed) != 0) {
        return -1;
    }
    if (game.wrong) {
        return report_error("an echo was not what was sent");
    }
    numbers_sort(game.trip_us, game.count);
    run->medians[side][repeat] = numbers_quantile(game.trip_us, game.count, 0.5);
    run->trip_count[side] += game.count;
    return 0;
}

static void add_quantiles(struct report_row *row, const char *const keys[4], const double *sorted,
                          size_t count)
{
    static const double shares[] = {0.5, 0.9, 0.99, 0.999};
    for (size_t i = 0; i < 4; i++) {
        report_add_real(row, keys[i], numbers_quantile(sorted, count, shares[i]), 1);
    }
}

static void print(struct run *run, enum bench_transport transport)
{
    static const char *const keys[SIDES][4] = {
        {"p50_us", "p90_us", "p99_us", "p999_us"},
        {"bare_p50_us", "bare_p90_us", "bare_p99_us", "bare_p999_us"},
    };
    for (size_t i = 0; i < run->repeat; i++) {
        run->ratios[i] = run->medians[ADAPTER][i] / run->medians[BARE][i];
    }
    const double ratio = numbers_median(run->ratios, run->repeat);
    struct report_row row = {.count = 0};
    report_add_text(&row, "mode", "latency");
    report_add_text(&row, "transport", options_transport_name(transport));
    report_add_count(&row, "bytes", MESSAGE_BYTES);
    report_add_count(&row, "pack", run->options->packs[0]);
    report_add_count(&row, "repeat", run->repeat);
    report_add_real(&row, "seconds", run->seconds, 3);
    report_add_count(&row, "trips", run->trip_count[ADAPTER]);
    for (size_t side = 0; side < SIDES; side++) {
        numbers_sort(run->trips[side], run->trip_count[side]);
        add_quantiles(&row, keys[side], run->trips[side], run->trip_count[side]);
    }
    report_add_real(&row, "ratio_p50", ratio, 3);
    report_add_real(&row, "ratio_p50_min", run->ratios[0], 3);
    report_add_real(&row, "ratio_p50_max", run->ratios[run->repeat - 1], 3);
    report_row(run->report, &row);
    for (size_t side = 0; side < SIDES; side++) {
        const double *trips = run->trips[side];
        const size_t count = run->trip_count[side];
        report_line(run->report,
                    "%-6s %-7s p50 %7.1f us, p90 %7.1f us, p99 %7.1f us, p99.9 %7.1f us",
                    options_transport_name(transport), side == ADAPTER ? "adapter" : "bare",
                    numbers_quantile(trips, count, 0.5), numbers_quantile(trips, count, 0.9),
                    numbers_quantile(trips, count, 0.99), numbers_quantile(trips, count, 0.999));
    }
    report_line(run->report, "%-6s ratio of the p50s %.3f (%.3f to %.3f in %zu runs)",
                options_transport_name(transport), ratio, run->ratios[0],
                run->ratios[run->repeat - 1], run->repeat);
}

static int run_transport(struct run *run, enum bench_transport transport)
{
    memset(run->trip_count, 0, sizeof(run->trip_count));
    for (size_t i = 0; i < run->repeat; i++) {
        report_progress(run->report, "%s: run %zu/%zu", options_transport_name(transport), i + 1,
                        run->repeat);
        for (size_t turn = 0; turn < SIDES; turn++) {
            const enum side side = (turn + i) % 2 == 0 ? ADAPTER : BARE;
            if (play(run, transport, side, i) != 0) {
                return -1;
            }
        }
    }
    print(run, transport);
    return 0;
}

/* The process first, and only then the ZeroMQ context: see peer.h. */
static int start(struct run *run)
{
    run->peer = peer_start_process();
    if (run->peer == NULL || place_open() != 0) {
        return -1;
    }
    run->zmq_context = zmq_ctx_new();
    run->ratios = calloc(run->repeat, sizeof(double));
    int missing = run->zmq_context == NULL || run->ratios == NULL;
    for (size_t side = 0; side < SIDES; side++) {
        run->trips[side] = malloc(run->repeat * TRIPS_MAX * sizeof(double));
        run->medians[side] = calloc(run->repeat, sizeof(double));
        missing |= run->trips[side] == NULL || run->medians[side] == NULL;
    }
    return missing ? report_error("no memory for %zu runs", run->repeat) : 0;
}

int mode_latency(const struct bench_options *options, struct report *report)
{
    for (size_t i = 0; i < options->transport_count; i++) {
        if (options->transports[i] == BENCH_INPROC) {
            report_error("mode latency is between two processes: inproc is not implemented");
            return 2;
        }
    }
    struct run run = {
        .options = options,
        .report = report,
        .repeat = options->repeat != 0 ? options->repeat : REPEAT_DEFAULT,
        .seconds = options->seconds > 0 ? options->seconds : SECONDS_DEFAULT,
    };
    int result = start(&run);
    for (size_t i = 0; i < options->transport_count && result == 0; i++) {
        result = run_transport(&run, options->transports[i]);
    }
    peer_stop(run.peer);
    for (size_t side = 0; side < SIDES; side++) {
        free(run.trips[side]);
        free(run.medians[side]);
    }
    free(run.ratios);
    if (run.zmq_context != NULL) {
        (void)zmq_ctx_term(run.zmq_context);
    }
    place_close();
    return result == 0 ? 0 : 1;
}
