/*
 * Mode throughput: a peer floods a PULL socket with records, and receivers take them in turns.
 *
 * Against the bare loop, one repeat measures the adapter (in each receive mode), the bare loop and
 * the bare loop once more; the next repeat measures them in the opposite order: A B B' B' B A. So
 * whatever drifts during the run weighs on all alike, and the ratio of the two bare loops, the
 * control, says what a ratio is worth. Every sample has a fresh pair of sockets, and the same
 * sender sends the same bytes to each receiver. They are made beforehand, with only the digits of
 * the id renewed, so that the sender is as far as possible not what is measured.
 */
#include "throughput.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "modes.h"
#include "peer.h"
#include "place.h"
#include "receive.h"

struct run {
    const struct bench_options *options;
    struct report *report;
    struct peer *process; /* the sender of ipc and tcp; NULL when not needed */
    struct peer *thread; /* the sender of inproc; NULL when not needed */
    void *zmq_context;
    struct throughput_chart *chart; /* NULL: none is drawn */
    size_t case_number;
    int wrong; /* something was lost, reordered or undecodable */
};

size_t throughput_repeat(const struct bench_options *options)
{
    if (options->repeat != 0) {
        return options->repeat;
    }
    return options->against_bare ? 15 : 1;
}

double throughput_seconds(const struct bench_options *options)
{
    if (options->seconds > 0) {
        return options->seconds;
    }
    return options->against_bare ? 0.2 : 1;
}

size_t throughput_variants(const struct bench_options *options)
{
    return options->pack_count > 0 ? options->pack_count : options->receive_count;
}

enum bench_receive throughput_receive(const struct bench_options *options, size_t variant)
{
    return options->receives[options->pack_count > 0 ? 0 : variant];
}

size_t throughput_pack(const struct bench_options *options, size_t variant)
{
    return variant < options->pack_count ? options->packs[variant] : 0;
}

size_t throughput_subjects(const struct bench_options *options)
{
    return throughput_variants(options) + (options->against_bare ? 2 : 0) +
           (options->against_zloop ? 1 : 0);
}

void throughput_name(const struct bench_options *options, size_t subject, char *out, size_t size)
{
    const size_t variants = throughput_variants(options);
    const size_t pack = throughput_pack(options, subject);
    if (subject == variants + 2) {
        snprintf(out, size, "czmq zloop");
    } else if (subject >= variants) {
        snprintf(out, size, "bare zmq_msg_recv loop");
    } else if (pack != 0) {
        snprintf(out, size, "evzmq, packed (%g KiB frames)", (double)pack / 1024);
    } else if (options->receive_count > 1) {
        snprintf(out, size, "evzmq, %s",
                 options_receive_name(throughput_receive(options, subject)));
    } else {
        snprintf(out, size, "evzmq, one record a message");
    }
}

static enum record_form form_of(const struct bench_options *options)
{
    if (options->against_bare || options->codec == BENCH_RAW) {
        return RECORD_COPIED;
    }
    return options->codec == BENCH_TYPED ? RECORD_TYPED : RECORD_PACKED;
}

/* Receives with one of the subjects; closes the socket. */
static int receive(const struct run *run, void *socket, size_t subject, struct meter *meter,
                   struct record_check *check)
{
    const struct bench_options *options = run->options;
    if (subject < throughput_variants(options)) {
        /* The bare loop looks at no byte; where neither side decodes, the adapter's receiver does
         * not either, and both are checked by number and size alone. */
        const struct adapter_task task = {
            .codec = options->codec,
            .receive = throughput_receive(options, subject),
            .unpack = throughput_pack(options, subject) != 0,
            .check_bytes = !options->against_bare,
        };
        return adapter_receive(socket, &task, meter, check);
    }
    const int is_zloop = subject == throughput_variants(options) + 2;
    const int result = is_zloop ? zloop_receive(socket, meter) : bare_receive(socket, meter);
    (void)zmq_close(socket);
    return result;
}

/* Compares what came with what was sent. */
static void judge(struct run *run, struct measured_case *measured, size_t subject,
                  const struct meter *meter, const struct record_check *check,
                  const struct peer_result *sent)
{
    char problem[sizeof(check->reason) + 64] = "";
    if (check->failed) {
        snprintf(problem, sizeof(problem), "%s", check->reason);
    } else if (meter->messages > sent->messages) {
        snprintf(problem, sizeof(problem), "%llu more than the %llu records that were sent",
                 (unsigned long long)(meter->messages - sent->messages),
                 (unsigned long long)sent->messages);
    } else if (meter->messages < sent->messages) {
        snprintf(problem, sizeof(problem), "lost: %llu of %llu records",
                 (unsigned long long)(sent->messages - meter->messages),
                 (unsigned long long)sent->messages);
    } else if (meter->bytes != sent->bytes || meter->multipart != 0) {
        snprintf(problem, sizeof(problem), "the bytes that came are not those that were sent");
    }
    if (problem[0] != '\0') {
        run->wrong = 1;
        char name[64];
        throughput_name(run->options, subject, name, sizeof(name));
        report_error("%s, %zu chars, %s: %s", record_name(measured->type), measured->chars, name,
                     problem);
    }
    if (meter->messages < sent->messages) {
        measured->lost[subject] += sent->messages - meter->messages;
    }
}

/* One sample. Returns 0, or -1 after saying why. */
static int measure(struct run *run, struct measured_case *measured, size_t subject, size_t repeat)
{
    struct peer_order order = {.job = PEER_FLOOD,
                               .type = measured->type,
                               .chars = measured->chars,
                               .form = form_of(run->options)};
    order.pack_bytes = throughput_pack(run->options, subject);
    if (subject < run->options->pack_count) {
        order.job = PEER_FLOOD_PACKED;
    }
    const size_t message_size = order.pack_bytes != 0 ? order.pack_bytes : order.chars;
    struct peer *peer = measured->transport == BENCH_INPROC ? run->thread : run->process;
    void *socket =
        place_bind(run->zmq_context, ZMQ_PULL, measured->transport,
                   peer_high_water_mark(message_size), order.endpoint, sizeof(order.endpoint));
    if (socket == NULL) {
        return -1;
    }
    struct meter meter;
    struct record_check check;
    meter_init(&meter, &peer, 1, throughput_seconds(run->options));
    record_check_init(&check, measured->type, measured->chars);
    if (peer_begin(peer, &order) != 0) {
        (void)zmq_close(socket);
        return -1;
    }
    const int result = receive(run, socket, subject, &meter, &check);
    place_clear();
    struct peer_result sent;
    if (result != 0) {
        return -1;
    }
    if (peer_finish(peer, &sent) != 0) {
        return -1;
    }
    if (meter.state != METER_DONE) {
        return report_error("the sender ended before the measurement did");
    }
    judge(run, measured, subject, &meter, &check, &sent);
    measured->recv_rates[subject][repeat] = meter.rate;
    measured->issue_rates[subject][repeat] =
        sent.window_ns == 0 ? 0 : (double)sent.window_messages * 1e9 / (double)sent.window_ns;
    return 0;
}

static void show_progress(const struct run *run, const struct measured_case *measured,
                          size_t repeat)
{
    const struct bench_options *options = run->options;
    const size_t cases = options->transport_count * options->type_count * options->chars_count;
    report_progress(run->report, "[%zu/%zu] %s, %s, %zu chars: %zu/%zu", run->case_number, cases,
                    options_transport_name(measured->transport), record_name(measured->type),
                    measured->chars, repeat + 1, measured->repeat);
}

static int measure_case(struct run *run, struct measured_case *measured)
{
    const size_t subjects = throughput_subjects(run->options);
    run->case_number++;
    for (size_t i = 0; i < measured->repeat; i++) {
        show_progress(run, measured, i);
        for (size_t turn = 0; turn < subjects; turn++) {
            const size_t subject = i % 2 == 0 ? turn : subjects - 1 - turn;
            if (measure(run, measured, subject, i) != 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* Measures and prints the cases of one transport. */
static int run_transport(struct run *run, struct measured_case *measured)
{
    const struct bench_options *options = run->options;
    struct summary *summaries = calloc(VARIANTS_MAX, sizeof(*summaries));
    if (summaries == NULL) {
        return report_error("no memory");
    }
    int result = 0;
    for (size_t i = 0; i < options->type_count && result == 0; i++) {
        for (size_t j = 0; j < options->chars_count && result == 0; j++) {
            measured->type = options->types[i];
            measured->chars = options->chars[j];
            measured->bytes = record_size(measured->type, measured->chars);
            memset(measured->lost, 0, sizeof(measured->lost));
            result = measured->bytes == 0 ? -1 : measure_case(run, measured);
            if (result == 0) {
                throughput_print_case(run->report, options, measured, summaries);
                if (run->chart != NULL) {
                    throughput_chart_add(run->chart, options, measured);
                }
            }
        }
    }
    if (result == 0 && options->against_bare) {
        throughput_print_summary(run->report, options, measured->transport, summaries);
    }
    free(summaries);
    return result;
}

static int run_transports(struct run *run)
{
    struct measured_case measured = {.repeat = throughput_repeat(run->options)};
    double *values = calloc((2 * SUBJECTS_MAX + 1) * measured.repeat, sizeof(*values));
    if (values == NULL) {
        return report_error("no memory for %zu repeats", measured.repeat);
    }
    for (size_t i = 0; i < SUBJECTS_MAX; i++) {
        measured.recv_rates[i] = values + 2 * i * measured.repeat;
        measured.issue_rates[i] = values + (2 * i + 1) * measured.repeat;
    }
    measured.scratch = values + 2 * SUBJECTS_MAX * measured.repeat;
    int result = 0;
    for (size_t i = 0; i < run->options->transport_count && result == 0; i++) {
        measured.transport = run->options->transports[i];
        result = run_transport(run, &measured);
    }
    free(values);
    return result;
}

/* The sender process first, and only then the ZeroMQ context: see peer.h. */
static int start(struct run *run)
{
    int inproc = 0;
    for (size_t i = 0; i < run->options->transport_count; i++) {
        inproc |= run->options->transports[i] == BENCH_INPROC;
    }
    if (!inproc || run->options->transport_count > 1) {
        run->process = peer_start_process();
        if (run->process == NULL) {
            return -1;
        }
    }
    if (place_open() != 0) {
        return -1;
    }
    run->zmq_context = zmq_ctx_new();
    if (run->zmq_context == NULL) {
        return report_error("cannot make a ZeroMQ context: %s", zmq_strerror(zmq_errno()));
    }
    if (inproc) {
        run->thread = peer_start_thread(run->zmq_context);
        return run->thread == NULL ? -1 : 0;
    }
    return 0;
}

int mode_throughput(const struct bench_options *options, struct report *report)
{
    struct run run = {.options = options, .report = report};
    int result = 0;
    if (options->against_zloop && !zloop_is_built()) {
        result = report_error("--against zloop: this program was built without czmq");
    }
    if (options->svg_path != NULL) {
        run.chart = throughput_chart_new(options->svg_path);
        result = run.chart == NULL ? -1 : result;
    }
    if (result == 0) {
        result = start(&run);
    }
    if (result == 0) {
        result = run_transports(&run);
    }
    peer_stop(run.process);
    peer_stop(run.thread);
    if (run.zmq_context != NULL) {
        (void)zmq_ctx_term(run.zmq_context);
    }
    place_close();
    if (result == 0 && run.chart != NULL) {
        result = throughput_chart_write(run.chart, options);
    }
    throughput_chart_free(run.chart);
    return result == 0 && !run.wrong ? 0 : 1;
}
