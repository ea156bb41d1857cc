/*
 * The records as C structs: the typed codec of each, a struct to encode, and the check of a decoded
 * one. Only this file and typed.c know the structs.
 */
#ifndef BENCH_TYPED_H
#define BENCH_TYPED_H

#include <stddef.h>

#include <evzmq/records.h>

#include "options.h"
#include "records.h"

/* A struct to encode, and what it points to. */
struct typed_record {
    enum bench_type type;
    struct evzmq_codec *codec;
    union {
        struct evzmq_record_query query;
        struct evzmq_record_query_result query_result;
        struct evzmq_record_stream_chunk stream_chunk;
    } as;
    struct evzmq_record_text_model_output output; /* of a QueryResult */
    msgpack_sbuffer spans; /* the maps, which are msgpack already: made once */
};

/* The codec of a type. NULL with errno when it cannot be made. */
struct evzmq_codec *typed_codec_new(enum bench_type type, int skip_utf8);

/* Makes a struct with a text that must outlive it. Returns 0, or -1 when memory is short. */
int typed_record_init(struct typed_record *record, enum bench_type type, const char *text,
                      size_t chars);
void typed_record_clear(struct typed_record *record);

/* Gives the struct an id, which must outlive it. */
void typed_record_set_id(struct typed_record *record, const char *id, size_t length);

/* The size of the struct's encoding; 0 when it cannot be encoded. */
size_t typed_record_size(const struct typed_record *record);

/* Encodes the struct into a buffer of that size. Returns 0 or -1. */
int typed_record_encode(const struct typed_record *record, void *buffer, size_t size);

/* Checks a decoded struct of the check's type, as record_check_tree() does a tree. */
void typed_record_check(struct record_check *check, const void *record);

#endif /* BENCH_TYPED_H */
