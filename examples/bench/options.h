/*
 * What the user of echo_bench asked for, and the words for it. Options are read once, in main, and
 * are constant afterwards.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stddef.h>

enum bench_mode {
    BENCH_THROUGHPUT,
    BENCH_LATENCY,
    BENCH_DECODE,
    BENCH_ENCODE,
    BENCH_FAIRNESS,
    BENCH_IDLE,
    BENCH_FAN_IN
};

enum bench_transport { BENCH_IPC, BENCH_TCP, BENCH_INPROC, BENCH_TRANSPORTS };

enum bench_type { BENCH_QUERY, BENCH_QUERY_RESULT, BENCH_STREAM_CHUNK, BENCH_TYPES };

enum bench_codec { BENCH_RAW, BENCH_MSGPACK, BENCH_TYPED, BENCH_CODECS };

enum bench_receive { BENCH_AUTO, BENCH_INTO, BENCH_IN_PLACE, BENCH_OWNED, BENCH_RECEIVES };

enum bench_format { BENCH_TABLE, BENCH_JSON, BENCH_CSV };

#define BENCH_CHARS_COUNT_MAX 64
#define BENCH_PACKS_MAX 8
#define BENCH_CHARS_MAX (64u * 1024u * 1024u)
#define BENCH_REPEAT_MAX 10000u
#define BENCH_SOCKETS_MAX 100000u

struct bench_options {
    enum bench_mode mode;
    enum bench_transport transports[BENCH_TRANSPORTS];
    size_t transport_count;
    enum bench_type types[BENCH_TYPES];
    size_t type_count;
    size_t chars[BENCH_CHARS_COUNT_MAX];
    size_t chars_count;
    enum bench_receive receives[BENCH_RECEIVES];
    size_t receive_count;
    enum bench_codec codec;
    enum bench_format format;
    int against_bare;
    int against_zloop; /* only with against_bare */
    double seconds; /* of one sample; 0: the mode's default */
    size_t repeat; /* samples of one case; 0: the mode's default */
    size_t sockets; /* of mode idle; 0: its default */
    size_t packs[BENCH_PACKS_MAX]; /* sizes of frames */
    size_t pack_count; /* 0: one record a message */
    const char *svg_path; /* NULL for none */
};

/*
 * Reads the command line. Returns -1 to go on with *out, or the status to exit with at once, after
 * whatever there was to say has been said.
 */
int options_parse(int argc, char **argv, struct bench_options *out);

/* The words used on the command line and in JSON. */
const char *options_mode_name(enum bench_mode mode);
const char *options_transport_name(enum bench_transport transport);
const char *options_type_name(enum bench_type type);
const char *options_codec_name(enum bench_codec codec);
const char *options_receive_name(enum bench_receive receive);

#endif /* BENCH_OPTIONS_H */
