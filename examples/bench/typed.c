/* The records as C structs, and their codecs. */
#include "typed.h"

#include <errno.h>

#include <evzmq/schema.h>

static const struct evzmq_schema *schema_of(enum bench_type type)
{
    switch (type) {
    case BENCH_QUERY:
        return &evzmq_record_query_schema;
    case BENCH_QUERY_RESULT:
        return &evzmq_record_query_result_schema;
    default:
        return &evzmq_record_stream_chunk_schema;
    }
}

struct evzmq_codec *typed_codec_new(enum bench_type type, int skip_utf8)
{
    const struct evzmq_schema_options options = {.size = sizeof(options), .skip_utf8 = skip_utf8};
    return evzmq_schema_codec_new(schema_of(type), &options);
}

/* The maps of a Query are fields of any content, so a program holds them as msgpack. */
static void make_query(struct typed_record *record, const char *text, size_t chars)
{
    record_pack_query_data(&record->spans, text, chars);
    const size_t data_size = record->spans.size;
    record_pack_query_headers(&record->spans);
    const char *spans = record->spans.data;
    record->as.query = (struct evzmq_record_query){
        .data = {spans, data_size},
        .headers = {spans + data_size, record->spans.size - data_size},
        .created_at = RECORD_CREATED_AT,
    };
}

static void make_query_result(struct typed_record *record, const char *text, size_t chars)
{
    record->output = (struct evzmq_record_text_model_output){
        .output = {.kind = EVZMQ_CHOICE_STR, .as.str = {text, chars}},
    };
    record->as.query_result = (struct evzmq_record_query_result){
        .response_output = &record->output,
        .completed_at = {.bits = RECORD_COMPLETED_AT},
    };
}

int typed_record_init(struct typed_record *record, enum bench_type type, const char *text,
                      size_t chars)
{
    *record = (struct typed_record){.type = type};
    msgpack_sbuffer_init(&record->spans);
    record->codec = typed_codec_new(type, 0);
    if (record->codec == NULL) {
        return -1;
    }
    if (type == BENCH_QUERY) {
        make_query(record, text, chars);
        if (record->spans.data == NULL) {
            typed_record_clear(record);
            return -1;
        }
    } else if (type == BENCH_QUERY_RESULT) {
        make_query_result(record, text, chars);
    } else {
        record->as.stream_chunk =
            (struct evzmq_record_stream_chunk){.response_chunk = {text, chars}};
    }
    typed_record_set_id(record, "0", 1);
    return 0;
}

void typed_record_clear(struct typed_record *record)
{
    evzmq_codec_free(record->codec);
    record->codec = NULL;
    msgpack_sbuffer_destroy(&record->spans);
}

void typed_record_set_id(struct typed_record *record, const char *id, size_t length)
{
    const struct evzmq_str str = {id, length};
    switch (record->type) {
    case BENCH_QUERY:
        record->as.query.id = str;
        break;
    case BENCH_QUERY_RESULT:
        record->as.query_result.id = str;
        break;
    default:
        record->as.stream_chunk.id = str;
        break;
    }
}

size_t typed_record_size(const struct typed_record *record)
{
    size_t size = 0;
    return evzmq_codec_encoded_size(record->codec, &record->as, &size) == 0 ? size : 0;
}

int typed_record_encode(const struct typed_record *record, void *buffer, size_t size)
{
    return evzmq_codec_encode(record->codec, &record->as, buffer, size);
}

/* Whether the record is as it was sent, its id apart. */
static int is_whole(const struct record_check *check, const void *record, struct evzmq_str *out_id)
{
    switch (check->type) {
    case BENCH_QUERY: {
        const struct evzmq_record_query *query = record;
        *out_id = query->id;
        return query->data.size > check->chars && query->absent == 0;
    }
    case BENCH_QUERY_RESULT: {
        const struct evzmq_record_query_result *result = record;
        const struct evzmq_record_text_model_output *output = result->response_output;
        *out_id = result->id;
        return output != NULL && output->output.kind == EVZMQ_CHOICE_STR &&
               output->output.as.str.size == check->chars;
    }
    default: {
        const struct evzmq_record_stream_chunk *chunk = record;
        *out_id = chunk->id;
        return chunk->response_chunk.size == check->chars;
    }
    }
}

void typed_record_check(struct record_check *check, const void *record)
{
    struct evzmq_str id = {NULL, 0};
    if (check->failed) {
        return;
    }
    if (record == NULL || !is_whole(check, record, &id)) {
        record_check_fail_shape(check);
        return;
    }
    record_check_id(check, id.data, id.size);
}
