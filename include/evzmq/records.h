/**
 * @file records.h
 * The records of a load generator for language models, byte for byte as its Python peers (msgspec
 * structs, array_like and tagged) write and read them. They serve as examples of schema.h too.
 *
 * Make a codec of one with `evzmq_schema_codec_new(&evzmq_record_query_schema, NULL)`. Strings and
 * spans of decoded records live as schema.h says. All the schemas are constants that live for ever
 * and may be used on any thread and in callbacks.
 *
 * Except where it says otherwise a field may be absent, which shows in `absent`: bit i is set when
 * the i-th field in the order below was not in the message (the Python peers then make up an id or
 * a time; here it is left to the program). Encoding leaves absent fields at the end out.
 */
#ifndef EVZMQ_RECORDS_H
#define EVZMQ_RECORDS_H

#include <stdint.h>

#include <evzmq/schema.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A request. Untagged. Value of the codec: `const struct evzmq_record_query *`. */
struct evzmq_record_query {
    struct evzmq_str id; /**< which one it is */
    struct evzmq_any data; /**< a map from str to anything */
    struct evzmq_any headers; /**< a map from str to str */
    double created_at; /**< seconds since 1970, by the sender's clock */
    uint64_t absent; /**< see the top of this file, here and below */
};
/** The schema of struct evzmq_record_query. */
extern EVZMQ_API const struct evzmq_schema evzmq_record_query_schema;

/** What a model said. Tag "TextModelOutput". */
struct evzmq_record_text_model_output {
    struct evzmq_choice output; /**< a string or an array of strings; default the empty string */
    struct evzmq_choice reasoning; /**< the same, or nil; default nil */
    struct evzmq_any tool_calls; /**< an array of anything; data NULL for nil, the default */
    uint64_t absent; /**< as in struct evzmq_record_query */
};
/** The schema of struct evzmq_record_text_model_output. */
extern EVZMQ_API const struct evzmq_schema evzmq_record_text_model_output_schema;

/** Why there is no answer. Tag "ErrorData". */
struct evzmq_record_error_data {
    struct evzmq_str error_type; /**< never absent */
    struct evzmq_str error_message; /**< for people */
    uint64_t absent; /**< as in struct evzmq_record_query */
};
/** The schema of struct evzmq_record_error_data. */
extern EVZMQ_API const struct evzmq_schema evzmq_record_error_data_schema;

/** A whole answer. Tag "query_result". */
struct evzmq_record_query_result {
    struct evzmq_str id; /**< that of the query */
    const struct evzmq_record_text_model_output *response_output; /**< NULL for nil, the default */
    struct evzmq_any metadata; /**< a map from str to anything */
    const struct evzmq_record_error_data *error; /**< NULL for nil, the default */
    struct evzmq_integer completed_at; /**< nanoseconds on the sender's monotonic clock; kept as it
                                          is on the wire */
    uint64_t absent; /**< as in struct evzmq_record_query */
};
/** The schema of struct evzmq_record_query_result. */
extern EVZMQ_API const struct evzmq_schema evzmq_record_query_result_schema;

/** The bit of evzmq_record_query::absent for `created_at`. */
#define EVZMQ_RECORD_QUERY_CREATED_AT (UINT64_C(1) << 3)
/** The bit of evzmq_record_query_result::absent for `completed_at`. */
#define EVZMQ_RECORD_QUERY_RESULT_COMPLETED_AT (UINT64_C(1) << 4)

/** A piece of an answer. Tag "stream_chunk". */
struct evzmq_record_stream_chunk {
    struct evzmq_str id; /**< that of the query */
    struct evzmq_str response_chunk; /**< the piece */
    struct evzmq_any metadata; /**< a map from str to anything */
    uint64_t absent; /**< as in struct evzmq_record_query */
};
/** The schema of struct evzmq_record_stream_chunk. */
extern EVZMQ_API const struct evzmq_schema evzmq_record_stream_chunk_schema;

/** What a model is asked. Tag "PromptData". Every field may be nil and is by default. */
struct evzmq_record_prompt_data {
    struct evzmq_str text; /**< as text, */
    EVZMQ_ARRAY_OF(int64_t) token_ids; /**< or as numbers of tokens, */
    struct evzmq_any messages; /**< or as a conversation: an array of maps from str to anything */
    struct evzmq_any tools; /**< likewise */
    struct evzmq_any chat_template_kwargs; /**< a map from str to anything */
    struct evzmq_str chat_template; /**< how a conversation becomes text */
    struct evzmq_choice tool_choice; /**< a string or a map */
    uint64_t absent; /**< as in struct evzmq_record_query */
};
/** The schema of struct evzmq_record_prompt_data. */
extern EVZMQ_API const struct evzmq_schema evzmq_record_prompt_data_schema;

/** What a worker says first: one integer by itself. */
struct evzmq_record_ready_signal {
    int64_t identity; /**< the worker's number */
};
/** The schema of struct evzmq_record_ready_signal. */
extern EVZMQ_API const struct evzmq_schema evzmq_record_ready_signal_schema;

/** Several encoded records in one message: one array of binaries by itself. */
struct evzmq_record_batch {
    EVZMQ_ARRAY_OF(struct evzmq_bytes) records; /**< each encoded */
};
/** The schema of struct evzmq_record_batch. */
extern EVZMQ_API const struct evzmq_schema evzmq_record_batch_schema;

/**
 * A QueryResult or a StreamChunk. Value of the codec: `const struct evzmq_union *`, whose `which`
 * points to evzmq_record_query_result_schema or evzmq_record_stream_chunk_schema;
 * evzmq_record_value() gives the record and which.
 */
extern EVZMQ_API const struct evzmq_schema evzmq_record_response_schema;

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_RECORDS_H */
