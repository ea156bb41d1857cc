/*
 * The command line of echo_bench. Every word a user may type stands in one of the tables below, so
 * that parsing, error messages and output cannot disagree.
 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <evzmq/packing.h>

#include "report.h"

static const char *const mode_names[] = {"throughput", "latency", "decode", "encode",
                                         "fairness",   "idle",    "fan-in"};
static const char *const transport_names[] = {"ipc", "tcp", "inproc"};
static const char *const type_names[] = {"query", "query_result", "stream_chunk"};
static const char *const codec_names[] = {"raw", "msgpack", "typed"};
static const char *const receive_names[] = {"auto", "into", "in-place", "owned"};
static const char *const format_names[] = {"table", "json", "csv"};
static const char *const against_names[] = {"bare", "zloop"};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char usage[] =
    "usage: echo_bench [MODE] [OPTION]...\n"
    "\n"
    "Measures a ZeroMQ socket on a libevent base. Without arguments: a sender process encodes\n"
    "records and issues them over ipc for 1 s a case, the receiver decodes and checks each one.\n"
    "\n"
    "modes\n"
    "  throughput            records per second (the default)\n"
    "  latency               round trips of one small message\n"
    "  decode, encode        the codecs alone, without any socket\n"
    "  fairness              how late a 1 ms timer is while a peer floods a socket\n"
    "  idle                  what sockets cost that do nothing\n"
    "  fan-in                answers per second of a pool of two workers, against a bare loop "
    "that\n"
    "                        two bare senders feed\n"
    "\n"
    "options (LIST: separated by commas)\n"
    "  --transport LIST      of ipc, tcp, inproc (there the sender is a thread); default ipc\n"
    "  --types LIST          of query, query_result, stream_chunk; default all\n"
    "  --chars LIST          sizes of the text in a record;\n"
    "                        default 32,128,512,1024,4096,16384,32768\n"
    "  --seconds S           of one sample; default 1, with --against bare and in\n"
    "                        mode fan-in 0.2\n"
    "  --repeat N            samples of one case, the median is shown; default 1, with --against\n"
    "                        bare and in mode fan-in 15\n"
    "  --codec CODEC         raw: bytes, made beforehand; msgpack: trees (default); typed: "
    "structs\n"
    "  --receive LIST        of auto (default), into, in-place, owned; several are measured in\n"
    "                        turns and compared with the first\n"
    "  --pack LIST           many records in one message, a frame of up to so many bytes; "
    "encoded,\n"
    "                        packed, unpacked and decoded by the adapter, also against the bare\n"
    "                        loop, which gets one record a message; implies --codec typed.\n"
    "                        0 is one record a message, encoded and decoded all the same.\n"
    "                        Mode latency: one size, for a record in a frame of its own\n"
    "  --against LIST        bare: also measure a blocking zmq_msg_recv loop that decodes "
    "nothing,\n"
    "                        in turns with the adapter and with itself (the control); without\n"
    "                        --pack the same sender sends the same bytes, made beforehand, to\n"
    "                        all of them. bare,zloop: and czmq's loop, where that is built in\n"
    "  --sockets N           mode idle: how many; default 1000\n"
    "  --format FORMAT       table (default), json (one object a line) or csv\n"
    "  --svg FILE            draw the rates of one type over one transport\n"
    "  --help\n"
    "\n"
    "issue is the rate at which records were sent, recv that at which they were received.\n"
    "B and MB/s count a record with the id \"0\"; on the wire the ids are as long as their "
    "numbers.\n"
    "Exit status: 0; 1 when a record was lost, reordered or undecodable, or the system failed;\n"
    "2 for a command line that cannot be done.\n";

const char *options_mode_name(enum bench_mode mode)
{
    return mode_names[mode];
}

const char *options_transport_name(enum bench_transport transport)
{
    return transport_names[transport];
}

const char *options_type_name(enum bench_type type)
{
    return type_names[type];
}

const char *options_codec_name(enum bench_codec codec)
{
    return codec_names[codec];
}

const char *options_receive_name(enum bench_receive receive)
{
    return receive_names[receive];
}

/* Finds one word of @p length bytes in a table; says so and returns -1 when it is not there. */
static int find_word(const char *what, const char *word, size_t length, const char *const *names,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], word, length) == 0) {
            return (int)i;
        }
    }
    fprintf(stderr, "echo_bench: %s: no such choice: '%.*s' (there is", what, (int)length, word);
    for (size_t i = 0; i < count; i++) {
        fprintf(stderr, "%s %s", i == 0 ? "" : ",", names[i]);
    }
    fprintf(stderr, ")\n");
    return -1;
}

/*
 * Reads a list of words without repetition into @p out, an array of enumerators that are indexes
 * into the table. Returns how many, or -1.
 */
static int find_words(const char *what, const char *list, const char *const *names, size_t count,
                      unsigned *out)
{
    int found = 0;
    for (const char *word = list;; word++) {
        const size_t length = strcspn(word, ",");
        const int index = find_word(what, word, length, names, count);
        if (index < 0) {
            return -1;
        }
        for (int i = 0; i < found; i++) {
            if (out[i] == (unsigned)index) {
                return report_error("%s: %s is listed twice", what, names[index]);
            }
        }
        out[found++] = (unsigned)index;
        word += length;
        if (*word == '\0') {
            return found;
        }
    }
}

/* Reads a decimal number that ends at @p end_char or at the end of the text. */
static int read_number(const char *what, const char *text, size_t min, size_t max, const char **end,
                       size_t *out)
{
    char *stop = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &stop, 10);
    const int digits = *text >= '0' && *text <= '9';
    const int ended = *stop == '\0' || (end != NULL && *stop == ',');
    if (!digits || !ended || errno != 0 || value < min || value > max) {
        return report_error("%s: not a number from %zu to %zu: '%s'", what, min, max, text);
    }
    if (end != NULL) {
        *end = stop;
    }
    *out = (size_t)value;
    return 0;
}

static int read_chars(const char *list, struct bench_options *out)
{
    out->chars_count = 0;
    for (const char *text = list;; text++) {
        if (out->chars_count == BENCH_CHARS_COUNT_MAX) {
            return report_error("--chars: more than %d sizes", BENCH_CHARS_COUNT_MAX);
        }
        if (read_number("--chars", text, 0, BENCH_CHARS_MAX, &text,
                        &out->chars[out->chars_count]) != 0) {
            return -1;
        }
        out->chars_count++;
        if (*text == '\0') {
            return 0;
        }
    }
}

/* zloop is a guest in a comparison with the bare loop. */
static int read_against(const char *list, struct bench_options *out)
{
    unsigned words[COUNT_OF(against_names)];
    const int count = find_words("--against", list, against_names, COUNT_OF(against_names), words);
    out->against_bare = count > 0;
    for (int i = 0; i < count; i++) {
        out->against_zloop |= words[i] == 1;
    }
    return count > 0 ? 0 : -1;
}

static int read_packs(const char *list, struct bench_options *out)
{
    out->pack_count = 0;
    for (const char *text = list;; text++) {
        if (out->pack_count == BENCH_PACKS_MAX) {
            return report_error("--pack: more than %d sizes", BENCH_PACKS_MAX);
        }
        if (read_number("--pack", text, 0, EVZMQ_PACKING_BYTES_MAX, &text,
                        &out->packs[out->pack_count]) != 0) {
            return -1;
        }
        out->pack_count++;
        if (*text == '\0') {
            return 0;
        }
    }
}

static int read_seconds(const char *text, double *out)
{
    char *stop = NULL;
    const double value = strtod(text, &stop);
    if (stop == text || *stop != '\0' || !isfinite(value) || value < 0.01 || value > 3600) {
        return report_error("--seconds: not a time from 0.01 to 3600: '%s'", text);
    }
    *out = value;
    return 0;
}

/* Reads one word of a table into an enumerator. */
static int read_word(const char *what, const char *word, const char *const *names, size_t count,
                     unsigned *out)
{
    const int index = find_word(what, word, strlen(word), names, count);
    if (index < 0) {
        return -1;
    }
    *out = (unsigned)index;
    return 0;
}

static int read_words(const char *what, const char *list, const char *const *names, size_t count,
                      unsigned *out, size_t *out_count)
{
    const int found = find_words(what, list, names, count, out);
    if (found < 0) {
        return -1;
    }
    *out_count = (size_t)found;
    return 0;
}

enum {
    OPT_TRANSPORT = 256,
    OPT_TYPES,
    OPT_CHARS,
    OPT_SECONDS,
    OPT_REPEAT,
    OPT_CODEC,
    OPT_RECEIVE,
    OPT_PACK,
    OPT_AGAINST,
    OPT_SOCKETS,
    OPT_FORMAT,
    OPT_SVG,
    OPT_HELP
};

static const struct option long_options[] = {
    {"transport", required_argument, NULL, OPT_TRANSPORT},
    {"types", required_argument, NULL, OPT_TYPES},
    {"chars", required_argument, NULL, OPT_CHARS},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"repeat", required_argument, NULL, OPT_REPEAT},
    {"codec", required_argument, NULL, OPT_CODEC},
    {"receive", required_argument, NULL, OPT_RECEIVE},
    {"pack", required_argument, NULL, OPT_PACK},
    {"against", required_argument, NULL, OPT_AGAINST},
    {"sockets", required_argument, NULL, OPT_SOCKETS},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"svg", required_argument, NULL, OPT_SVG},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int read_option(int option, const char *value, struct bench_options *out)
{
    unsigned word = 0;
    unsigned words[8];
    size_t count = 0;
    switch (option) {
    case OPT_TRANSPORT:
        if (read_words("--transport", value, transport_names, COUNT_OF(transport_names), words,
                       &count) != 0) {
            return -1;
        }
        for (size_t i = 0; i < count; i++) {
            out->transports[i] = (enum bench_transport)words[i];
        }
        out->transport_count = count;
        return 0;
    case OPT_TYPES:
        if (read_words("--types", value, type_names, COUNT_OF(type_names), words, &count) != 0) {
            return -1;
        }
        for (size_t i = 0; i < count; i++) {
            out->types[i] = (enum bench_type)words[i];
        }
        out->type_count = count;
        return 0;
    case OPT_RECEIVE:
        if (read_words("--receive", value, receive_names, COUNT_OF(receive_names), words, &count) !=
            0) {
            return -1;
        }
        for (size_t i = 0; i < count; i++) {
            out->receives[i] = (enum bench_receive)words[i];
        }
        out->receive_count = count;
        return 0;
    case OPT_CODEC:
        if (read_word("--codec", value, codec_names, COUNT_OF(codec_names), &word) != 0) {
            return -1;
        }
        out->codec = (enum bench_codec)word;
        return 0;
    case OPT_FORMAT:
        if (read_word("--format", value, format_names, COUNT_OF(format_names), &word) != 0) {
            return -1;
        }
        out->format = (enum bench_format)word;
        return 0;
    case OPT_AGAINST:
        return read_against(value, out);
    case OPT_CHARS:
        return read_chars(value, out);
    case OPT_SECONDS:
        return read_seconds(value, &out->seconds);
    case OPT_REPEAT:
        return read_number("--repeat", value, 1, BENCH_REPEAT_MAX, NULL, &out->repeat);
    case OPT_PACK:
        return read_packs(value, out);
    case OPT_SOCKETS:
        return read_number("--sockets", value, 2, BENCH_SOCKETS_MAX, NULL, &out->sockets);
    case OPT_SVG:
        out->svg_path = value;
        return 0;
    default:
        return -1; /* getopt_long has said what is wrong. */
    }
}

/* Fills the lists that the user did not give with what makes sense for the mode. */
static void set_defaults(struct bench_options *out)
{
    static const size_t chars[] = {32, 128, 512, 1024, 4096, 16384, 32768};
    static const size_t few_chars[] = {32, 1024, 32768};
    const int only_codec = out->mode == BENCH_DECODE || out->mode == BENCH_ENCODE;
    if (out->transport_count == 0) {
        out->transports[0] = BENCH_IPC;
        out->transports[1] = BENCH_TCP;
        out->transport_count = out->mode == BENCH_LATENCY ? 2 : 1;
    }
    if (out->type_count == 0 && (out->mode == BENCH_FAIRNESS || out->mode == BENCH_FAN_IN)) {
        out->types[0] = BENCH_STREAM_CHUNK;
        out->type_count = 1;
    } else if (out->type_count == 0) {
        for (unsigned i = 0; i < BENCH_TYPES; i++) {
            out->types[out->type_count++] = (enum bench_type)i;
        }
    }
    if (out->chars_count == 0 && (only_codec || out->mode == BENCH_FAN_IN)) {
        memcpy(out->chars, few_chars, sizeof(few_chars));
        out->chars_count = COUNT_OF(few_chars);
    } else if (out->chars_count == 0) {
        memcpy(out->chars, chars, sizeof(chars));
        out->chars_count = out->mode == BENCH_THROUGHPUT ? COUNT_OF(chars) : 1;
    }
    if (out->receive_count == 0) {
        out->receives[0] = BENCH_AUTO;
        out->receive_count = 1;
    }
    if (out->codec == BENCH_CODECS) {
        out->codec = out->pack_count > 0 ? BENCH_TYPED : BENCH_MSGPACK;
    }
}

/* What cannot be measured or drawn together. */
static int check(const struct bench_options *options)
{
    if (options->against_bare && options->mode != BENCH_THROUGHPUT) {
        return report_error("--against is for mode throughput");
    }
    if (options->svg_path != NULL &&
        (options->mode != BENCH_THROUGHPUT || options->type_count > 1 ||
         options->transport_count > 1 || options->chars_count < 2)) {
        return report_error("--svg is for mode throughput, one of --types, one --transport and "
                            "several --chars");
    }
    if (options->mode == BENCH_LATENCY && options->pack_count > 1) {
        return report_error("--pack is one size for mode latency");
    }
    if (options->pack_count > 0 && options->mode != BENCH_LATENCY &&
        (options->codec == BENCH_RAW || options->receive_count > 1 ||
         options->mode != BENCH_THROUGHPUT)) {
        return report_error("--pack is for mode latency, and for mode throughput with one "
                            "--receive and no --codec raw");
    }
    return 0;
}

int options_parse(int argc, char **argv, struct bench_options *out)
{
    *out = (struct bench_options){.codec = BENCH_CODECS};
    unsigned mode = BENCH_THROUGHPUT;
    size_t modes = 0;
    for (;;) {
        /* Not every getopt_long goes on behind a word that is no option, so the mode is taken out
         * by hand, wherever it stands. */
        while (optind < argc && argv[optind][0] != '-') {
            if (++modes > 1) {
                report_error("more than one mode: '%s'", argv[optind]);
                return 2;
            }
            if (read_word("mode", argv[optind], mode_names, COUNT_OF(mode_names), &mode) != 0) {
                return 2;
            }
            optind++;
        }
        const int option = getopt_long(argc, argv, "+", long_options, NULL);
        if (option == -1) {
            break;
        }
        if (option == OPT_HELP) {
            fputs(usage, stdout);
            return 0;
        }
        if (read_option(option, optarg, out) != 0) {
            return 2;
        }
    }
    if (optind < argc) {
        report_error("what is '%s'? See --help", argv[optind]);
        return 2;
    }
    out->mode = (enum bench_mode)mode;
    set_defaults(out);
    return check(out) != 0 ? 2 : -1;
}
