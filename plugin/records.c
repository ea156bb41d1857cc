/*
 * records.c: the tables of records.h. They use nothing that a program could not use.
 */
#include <evzmq/records.h>

static const struct evzmq_field query_fields[] = {
    EVZMQ_FIELD(STR, struct evzmq_record_query, id, 0),
    EVZMQ_FIELD(MAP, struct evzmq_record_query, data, 0),
    EVZMQ_FIELD(STR_MAP, struct evzmq_record_query, headers, 0),
    EVZMQ_FIELD(FLOAT64, struct evzmq_record_query, created_at, 0),
};
const struct evzmq_schema evzmq_record_query_schema =
    EVZMQ_SCHEMA_ABSENT(struct evzmq_record_query, ARRAY, NULL, query_fields, absent);

#define TEXT_ALTERNATIVES (EVZMQ_CHOICE_BIT(STR) | EVZMQ_CHOICE_BIT(STR_ARRAY))

static const struct evzmq_choice empty_text = {EVZMQ_CHOICE_STR, {.str = EVZMQ_STR("")}};

static const struct evzmq_field text_model_output_fields[] = {
    EVZMQ_FIELD_CHOICE(struct evzmq_record_text_model_output, output, 0, TEXT_ALTERNATIVES,
                       &empty_text),
    EVZMQ_FIELD_CHOICE(struct evzmq_record_text_model_output, reasoning, EVZMQ_NILABLE,
                       TEXT_ALTERNATIVES, NULL),
    EVZMQ_FIELD_NILABLE(LIST, struct evzmq_record_text_model_output, tool_calls, 0),
};
const struct evzmq_schema evzmq_record_text_model_output_schema =
    EVZMQ_SCHEMA_ABSENT(struct evzmq_record_text_model_output, ARRAY, "TextModelOutput",
                        text_model_output_fields, absent);

static const struct evzmq_field error_data_fields[] = {
    EVZMQ_FIELD(STR, struct evzmq_record_error_data, error_type, EVZMQ_REQUIRED),
    EVZMQ_FIELD(STR, struct evzmq_record_error_data, error_message, 0),
};
const struct evzmq_schema evzmq_record_error_data_schema = EVZMQ_SCHEMA_ABSENT(
    struct evzmq_record_error_data, ARRAY, "ErrorData", error_data_fields, absent);

static const struct evzmq_field query_result_fields[] = {
    EVZMQ_FIELD(STR, struct evzmq_record_query_result, id, 0),
    EVZMQ_FIELD_RECORD(struct evzmq_record_text_model_output,
                       &evzmq_record_text_model_output_schema, struct evzmq_record_query_result,
                       response_output, EVZMQ_NILABLE),
    EVZMQ_FIELD(MAP, struct evzmq_record_query_result, metadata, 0),
    EVZMQ_FIELD_RECORD(struct evzmq_record_error_data, &evzmq_record_error_data_schema,
                       struct evzmq_record_query_result, error, EVZMQ_NILABLE),
    EVZMQ_FIELD(INTEGER, struct evzmq_record_query_result, completed_at, 0),
};
const struct evzmq_schema evzmq_record_query_result_schema = EVZMQ_SCHEMA_ABSENT(
    struct evzmq_record_query_result, ARRAY, "query_result", query_result_fields, absent);

static const struct evzmq_field stream_chunk_fields[] = {
    EVZMQ_FIELD(STR, struct evzmq_record_stream_chunk, id, 0),
    EVZMQ_FIELD(STR, struct evzmq_record_stream_chunk, response_chunk, 0),
    EVZMQ_FIELD(MAP, struct evzmq_record_stream_chunk, metadata, 0),
};
const struct evzmq_schema evzmq_record_stream_chunk_schema = EVZMQ_SCHEMA_ABSENT(
    struct evzmq_record_stream_chunk, ARRAY, "stream_chunk", stream_chunk_fields, absent);

static const struct evzmq_field prompt_data_fields[] = {
    EVZMQ_FIELD_NILABLE(STR, struct evzmq_record_prompt_data, text, 0),
    EVZMQ_FIELD_ARRAY(INT64, struct evzmq_record_prompt_data, token_ids, EVZMQ_NILABLE, 0),
    EVZMQ_FIELD_NILABLE(MAP_LIST, struct evzmq_record_prompt_data, messages, 0),
    EVZMQ_FIELD_NILABLE(MAP_LIST, struct evzmq_record_prompt_data, tools, 0),
    EVZMQ_FIELD_NILABLE(MAP, struct evzmq_record_prompt_data, chat_template_kwargs, 0),
    EVZMQ_FIELD_NILABLE(STR, struct evzmq_record_prompt_data, chat_template, 0),
    EVZMQ_FIELD_CHOICE(struct evzmq_record_prompt_data, tool_choice, EVZMQ_NILABLE,
                       EVZMQ_CHOICE_BIT(STR) | EVZMQ_CHOICE_BIT(MAP), NULL),
};
const struct evzmq_schema evzmq_record_prompt_data_schema = EVZMQ_SCHEMA_ABSENT(
    struct evzmq_record_prompt_data, ARRAY, "PromptData", prompt_data_fields, absent);

static const struct evzmq_field ready_signal_fields[] = {
    EVZMQ_FIELD(INT64, struct evzmq_record_ready_signal, identity, EVZMQ_REQUIRED),
};
const struct evzmq_schema evzmq_record_ready_signal_schema =
    EVZMQ_SCHEMA(struct evzmq_record_ready_signal, BARE, NULL, ready_signal_fields);

static const struct evzmq_field batch_fields[] = {
    EVZMQ_FIELD_ARRAY(BIN, struct evzmq_record_batch, records, EVZMQ_REQUIRED, 0),
};
const struct evzmq_schema evzmq_record_batch_schema =
    EVZMQ_SCHEMA(struct evzmq_record_batch, BARE, NULL, batch_fields);

static const struct evzmq_schema *const response_members[] = {
    &evzmq_record_query_result_schema,
    &evzmq_record_stream_chunk_schema,
};
const struct evzmq_schema evzmq_record_response_schema =
    EVZMQ_SCHEMA_UNION("QueryResult | StreamChunk", response_members);
