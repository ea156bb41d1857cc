/*
 * Mode encode: one record, encoded over and over into the memory of a message: by the typed codec,
 * which tells the size, for which a socket would then ask libzmq, and writes the record there at
 * once; and by msgpack-c's packer, which fills a buffer (kept from one record to the next) that is
 * then copied. Where a struct's field is msgpack already, as the maps of a Query, the typed side
 * checks and copies what the packer packs anew. The record is always the same, so that neither side
 * pays for making another one.
 */
#include "modes.h"

#include <stdlib.h>
#include <string.h>

#include <evzmq/evzmq.h>

#include "codec_timing.h"
#include "numbers.h"
#include "records.h"
#include "typed.h"

/* Keeps a compiler from leaving work out: it cannot know that nobody looks here. */
static const void *volatile witness;

struct encoder {
    struct record_source source;
    char *room; /* stands for the message's memory */
    size_t size; /* of the record written there last */
};

static int encode_typed(void *arg)
{
    struct encoder *encoder = arg;
    const struct typed_record *record = encoder->source.typed;
    if (evzmq_codec_encoded_size(record->codec, &record->as, &encoder->size) != 0 ||
        evzmq_codec_encode(record->codec, &record->as, encoder->room, encoder->size) != 0) {
        return -1;
    }
    witness = encoder->room;
    return 0;
}

static int encode_packed(void *arg)
{
    struct encoder *encoder = arg;
    record_source_pack(&encoder->source);
    encoder->size = encoder->source.bytes.size;
    memcpy(encoder->room, encoder->source.bytes.data, encoder->size);
    witness = encoder->room;
    return 0;
}

static int copy(void *arg)
{
    const struct encoder *encoder = arg;
    memcpy(encoder->room, encoder->source.text, encoder->source.chars);
    witness = encoder->room;
    return 0;
}

enum { TYPED, PACKER, MEMCPY, CONTENDERS };

struct run {
    const struct bench_options *options;
    struct report *report;
    double ratios[BENCH_TYPES * BENCH_CHARS_COUNT_MAX];
    size_t cases;
};

static void print(struct run *run, struct codec_timing *timing, enum bench_type type, size_t chars)
{
    double ns[CONTENDERS];
    struct report_row row;
    const size_t bytes = record_size(type, chars);
    codec_timing_begin_row(&row, timing, BENCH_ENCODE, type, chars, bytes);
    for (size_t i = 0; i < CONTENDERS; i++) {
        ns[i] = codec_timing_ns(timing, i);
        report_add_real(&row, timing->contenders[i].key, ns[i], 1);
    }
    const double ratio = codec_timing_ratio(timing, PACKER, TYPED);
    report_add_real(&row, "ratio", ratio, 2);
    report_row(run->report, &row);
    report_line(run->report,
                "%-11s %6zu chars (%5zu B): typed %7.1f ns, packer and copy %7.1f ns, memcpy %6.1f "
                "ns, ratio %5.2f",
                record_name(type), chars, bytes, ns[TYPED], ns[PACKER], ns[MEMCPY], ratio);
    run->ratios[run->cases++] = ratio;
}

/* Both must write the same bytes, or their times mean nothing. */
static int compare(struct encoder *typed, struct encoder *packer)
{
    if (encode_typed(typed) != 0 || encode_packed(packer) != 0 || typed->size != packer->size ||
        memcmp(typed->room, packer->room, typed->size) != 0) {
        return report_error("the typed codec and the packer write different bytes");
    }
    return 0;
}

static int time_encoders(struct run *run, struct encoder *typed, struct encoder *packer)
{
    const struct contender contenders[CONTENDERS] = {
        [TYPED] = {"typed_ns", encode_typed, typed},
        [PACKER] = {"packer_ns", encode_packed, packer},
        [MEMCPY] = {"memcpy_ns", copy, typed},
    };
    struct codec_timing timing;
    if (compare(typed, packer) != 0 ||
        codec_timing_init(&timing, run->options, contenders, CONTENDERS) != 0) {
        return -1;
    }
    const int result = codec_timing_run(&timing);
    if (result == 0) {
        print(run, &timing, typed->source.type, typed->source.chars);
    }
    codec_timing_clear(&timing);
    return result;
}

static int run_case(struct run *run, enum bench_type type, size_t chars)
{
    const size_t size = chars + 256; /* more than the rest of any record */
    struct encoder typed = {.room = malloc(size)};
    struct encoder packer = {.room = malloc(size)};
    int result = -1;
    report_progress(run->report, "%s, %zu chars", record_name(type), chars);
    if (typed.room == NULL || packer.room == NULL) {
        (void)report_error("no memory");
    } else if (record_source_init(&typed.source, type, chars, RECORD_TYPED) == 0) {
        if (record_source_init(&packer.source, type, chars, RECORD_PACKED) == 0) {
            result = time_encoders(run, &typed, &packer);
            record_source_clear(&packer.source);
        }
        record_source_clear(&typed.source);
    }
    free(typed.room);
    free(packer.room);
    return result;
}

int mode_encode(const struct bench_options *options, struct report *report)
{
    struct run run = {.options = options, .report = report};
    for (size_t i = 0; i < options->type_count; i++) {
        for (size_t j = 0; j < options->chars_count; j++) {
            if (run_case(&run, options->types[i], options->chars[j]) != 0) {
                return 1;
            }
        }
    }
    const double ratio = numbers_geometric_mean(run.ratios, run.cases);
    struct report_row row = {.count = 0};
    report_add_text(&row, "mode", "summary");
    report_add_count(&row, "cases", run.cases);
    report_add_real(&row, "ratio", ratio, 2);
    report_row(report, &row);
    report_line(report, "geometric mean of %zu: ratio %.2f", run.cases, ratio);
    return 0;
}
