/*
 * The records of the measurements, and the two ends of their journey: a source that makes one after
 * the other, and a check that each arrived, whole and in its turn. Every record's id is its
 * sequence number, as a decimal string.
 *
 *   Query        [id, {prompt: text, model: "m", stream: false},
 *                 {Content-Type: "application/json"}, created_at]
 *   QueryResult  ["query_result", id, ["TextModelOutput", text, nil, nil], {}, nil, completed_at]
 *   StreamChunk  ["stream_chunk", id, text, {}]
 */
#ifndef BENCH_RECORDS_H
#define BENCH_RECORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <msgpack.h>

#include "options.h"

/* The times in the records, always the same ones: measurements should not depend on the hour. */
#define RECORD_CREATED_AT 1700000000.123456
#define RECORD_COMPLETED_AT 123456789012345u

/* How the source makes the bytes of a record. */
enum record_form {
    RECORD_COPIED, /* made once; then only the digits of the id change */
    RECORD_PACKED, /* encoded anew each time, with msgpack-c */
    RECORD_TYPED /* encoded anew each time from a C struct */
};

/* A sequence number that is always written out, since that is how it is sent and compared. */
struct decimal {
    char digits[24];
    size_t length;
};

void decimal_set(struct decimal *decimal, uint64_t value);

/* Adds 1. */
static inline void decimal_next(struct decimal *decimal)
{
    size_t i = decimal->length;
    while (i > 0) {
        if (decimal->digits[--i] != '9') {
            decimal->digits[i]++;
            return;
        }
        decimal->digits[i] = '0';
    }
    memmove(decimal->digits + 1, decimal->digits, decimal->length);
    decimal->digits[0] = '1';
    decimal->length++;
}

struct typed_record;

struct record_source {
    enum bench_type type;
    enum record_form form;
    struct decimal id; /* of the record to make next; RECORD_TYPED: of the one last made */
    size_t chars;
    char *text;
    msgpack_sbuffer bytes; /* RECORD_COPIED, RECORD_PACKED: the record last made */
    struct typed_record *typed; /* RECORD_TYPED, else NULL */
    struct decimal made_id; /* of the record last made, the length only; not RECORD_TYPED */
    size_t made_size;
};

/* Returns 0, or -1 after saying why. */
int record_source_init(struct record_source *source, enum bench_type type, size_t chars,
                       enum record_form form);
void record_source_clear(struct record_source *source);

/* Makes the next record and gives its size; 0 when that cannot be done. */
size_t record_source_next(struct record_source *source);

/* RECORD_TYPED: gives the struct the next id, and no more. */
void record_source_advance(struct record_source *source);

/* Packs the record that is due, for which there is room from the start. RECORD_PACKED only. */
void record_source_pack(struct record_source *source);

/* Writes the record last made into a buffer of its size. Returns 0 or -1. */
int record_source_write(const struct record_source *source, void *buffer);

/* The size of a record whose id is "0"; 0 when memory is short. */
size_t record_size(enum bench_type type, size_t chars);

/* Append the two maps of a Query. */
void record_pack_query_data(msgpack_sbuffer *out, const char *text, size_t chars);
void record_pack_query_headers(msgpack_sbuffer *out);

/* The table's name of a type, such as QueryResult. */
const char *record_name(enum bench_type type);

/* The check at the receiving end. Once something is wrong, it says what and checks no more. */
struct record_check {
    enum bench_type type;
    size_t chars;
    struct decimal id; /* of the record that must come next */
    int failed;
    char reason[160];
};

void record_check_init(struct record_check *check, enum bench_type type, size_t chars);

/* Checks the bytes of a record: its id, at the place where that stands. */
void record_check_bytes(struct record_check *check, const void *data, size_t size);

/* Checks a decoded record: its shape, its id and the length of its text. */
void record_check_tree(struct record_check *check, const msgpack_object *record);

/* What the checks have in common. A wrong id in a record of the right shape means that records were
 * lost or reordered. */
void record_check_id(struct record_check *check, const char *id, size_t length);
void record_check_fail_shape(struct record_check *check);

#endif /* BENCH_RECORDS_H */
