/*
 * Mode decode: one record, decoded over and over by the typed codec, with and without the check
 * that strings are UTF-8, by the tree codec and by msgpack-c's own msgpack_unpack_next(). A memcpy
 * of the record's text tells what its bytes cost to touch.
 */
#include "modes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <evzmq/evzmq.h>
#include <evzmq/msgpack.h>

#include "codec_timing.h"
#include "numbers.h"
#include "records.h"
#include "typed.h"

/* Keeps a compiler from leaving work out: it cannot know that nobody looks here. */
static const void *volatile witness;

struct decoder {
    struct evzmq_codec *codec;
    struct evzmq_arena *arena;
    const char *data;
    size_t size;
};

static int decode(void *arg)
{
    const struct decoder *decoder = arg;
    const void *value = NULL;
    evzmq_arena_reset(decoder->arena);
    if (evzmq_codec_decode(decoder->codec, decoder->data, decoder->size, decoder->arena, &value,
                           NULL) != 0) {
        return -1;
    }
    witness = value;
    return 0;
}

struct unpacker {
    msgpack_unpacked unpacked;
    const char *data;
    size_t size;
};

static int unpack_next(void *arg)
{
    struct unpacker *unpacker = arg;
    size_t offset = 0;
    if (msgpack_unpack_next(&unpacker->unpacked, unpacker->data, unpacker->size, &offset) !=
        MSGPACK_UNPACK_SUCCESS) {
        return -1;
    }
    witness = &unpacker->unpacked;
    return 0;
}

struct copier {
    char *to;
    const char *from;
    size_t size;
};

static int copy(void *arg)
{
    const struct copier *copier = arg;
    memcpy(copier->to, copier->from, copier->size);
    witness = copier->to;
    return 0;
}

enum { TYPED, NO_VALIDATE, TREE, UNPACK_NEXT, MEMCPY, CONTENDERS };

struct run {
    const struct bench_options *options;
    struct report *report;
    double ratios[BENCH_TYPES * BENCH_CHARS_COUNT_MAX]; /* validation off */
    double ratios_validated[BENCH_TYPES * BENCH_CHARS_COUNT_MAX];
    size_t cases;
};

static void print(struct run *run, struct codec_timing *timing, enum bench_type type, size_t chars,
                  size_t bytes)
{
    double ns[CONTENDERS];
    struct report_row row;
    codec_timing_begin_row(&row, timing, BENCH_DECODE, type, chars, bytes);
    for (size_t i = 0; i < CONTENDERS; i++) {
        ns[i] = codec_timing_ns(timing, i);
        report_add_real(&row, timing->contenders[i].key, ns[i], 1);
    }
    const double ratio = codec_timing_ratio(timing, UNPACK_NEXT, NO_VALIDATE);
    const double validated = codec_timing_ratio(timing, UNPACK_NEXT, TYPED);
    report_add_real(&row, "ratio", ratio, 2);
    report_add_real(&row, "ratio_validated", validated, 2);
    report_row(run->report, &row);
    report_line(run->report,
                "%-11s %6zu chars (%5zu B): typed %7.1f ns, unchecked UTF-8 %7.1f ns, tree %7.1f "
                "ns, unpack_next %7.1f ns, memcpy %6.1f ns, ratio %5.2f (checked %5.2f)",
                record_name(type), chars, bytes, ns[TYPED], ns[NO_VALIDATE], ns[TREE],
                ns[UNPACK_NEXT], ns[MEMCPY], ratio, validated);
    run->ratios[run->cases] = ratio;
    run->ratios_validated[run->cases++] = validated;
}

static int time_decoders(struct run *run, enum bench_type type, size_t chars, const char *data,
                         size_t size, char *room)
{
    struct evzmq_codec *codecs[] = {typed_codec_new(type, 0), typed_codec_new(type, 1),
                                    evzmq_msgpack_codec_new(NULL)};
    struct evzmq_arena *arena = evzmq_arena_new();
    struct decoder decoders[3];
    for (size_t i = 0; i < 3; i++) {
        decoders[i] = (struct decoder){codecs[i], arena, data, size};
    }
    struct unpacker unpacker = {.data = data, .size = size};
    msgpack_unpacked_init(&unpacker.unpacked);
    struct copier copier = {room, data, chars};
    const struct contender contenders[CONTENDERS] = {
        [TYPED] = {"typed_ns", decode, &decoders[0]},
        [NO_VALIDATE] = {"typed_novalidate_ns", decode, &decoders[1]},
        [TREE] = {"tree_ns", decode, &decoders[2]},
        [UNPACK_NEXT] = {"unpack_next_ns", unpack_next, &unpacker},
        [MEMCPY] = {"memcpy_ns", copy, &copier},
    };
    int result = -1;
    struct codec_timing timing;
    if (arena == NULL || codecs[0] == NULL || codecs[1] == NULL || codecs[2] == NULL) {
        (void)report_error("cannot make a codec: %s", evzmq_strerror(errno));
    } else if (codec_timing_init(&timing, run->options, contenders, CONTENDERS) == 0) {
        result = codec_timing_run(&timing);
        if (result == 0) {
            print(run, &timing, type, chars, size);
        }
        codec_timing_clear(&timing);
    }
    msgpack_unpacked_destroy(&unpacker.unpacked);
    evzmq_arena_free(arena);
    for (size_t i = 0; i < 3; i++) {
        evzmq_codec_free(codecs[i]);
    }
    return result;
}

static int run_case(struct run *run, enum bench_type type, size_t chars)
{
    struct record_source source;
    if (record_source_init(&source, type, chars, RECORD_PACKED) != 0) {
        return -1;
    }
    report_progress(run->report, "%s, %zu chars", record_name(type), chars);
    const size_t size = record_source_next(&source);
    char *data = malloc(2 * size);
    int result = -1;
    if (data == NULL) {
        (void)report_error("no memory");
    } else {
        result = record_source_write(&source, data);
    }
    if (result == 0) {
        result = time_decoders(run, type, chars, data, size, data + size);
    }
    free(data);
    record_source_clear(&source);
    return result;
}

static void print_summary(struct run *run)
{
    const double ratio = numbers_geometric_mean(run->ratios, run->cases);
    const double validated = numbers_geometric_mean(run->ratios_validated, run->cases);
    struct report_row row = {.count = 0};
    report_add_text(&row, "mode", "summary");
    report_add_count(&row, "cases", run->cases);
    report_add_real(&row, "ratio", ratio, 2);
    report_add_real(&row, "ratio_validated", validated, 2);
    report_row(run->report, &row);
    report_line(run->report, "geometric mean of %zu: ratio %.2f (checked %.2f)", run->cases, ratio,
                validated);
}

int mode_decode(const struct bench_options *options, struct report *report)
{
    struct run run = {.options = options, .report = report};
    for (size_t i = 0; i < options->type_count; i++) {
        for (size_t j = 0; j < options->chars_count; j++) {
            if (run_case(&run, options->types[i], options->chars[j]) != 0) {
                return 1;
            }
        }
    }
    print_summary(&run);
    return 0;
}
