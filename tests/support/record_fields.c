/*
 * Compares decoded records with JSON, spans by walking them with cursors.
 */
#include "record_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <evzmq/cursor.h>

static void check_any(struct evzmq_cursor *cursor, const struct json *expected);

static const struct {
    const char *name;
    const struct evzmq_schema *schema;
} types[] = {
    {"Query", &evzmq_record_query_schema},
    {"QueryResult", &evzmq_record_query_result_schema},
    {"StreamChunk", &evzmq_record_stream_chunk_schema},
    {"TextModelOutput", &evzmq_record_text_model_output_schema},
    {"ErrorData", &evzmq_record_error_data_schema},
    {"PromptData", &evzmq_record_prompt_data_schema},
    {"ReadySignal", &evzmq_record_ready_signal_schema},
    {"Batch", &evzmq_record_batch_schema},
    {"QueryResult|StreamChunk", &evzmq_record_response_schema},
};

const struct evzmq_schema *record_schema_find(const char *type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, type) == 0) {
            return types[i].schema;
        }
    }
    fail_msg("no schema for %s", type);
    return NULL;
}

static void check_str(struct evzmq_str str, const struct json *expected)
{
    if (expected->type == JSON_NULL) {
        assert_null(str.data);
        return;
    }
    assert_int_equal(expected->type, JSON_STR);
    assert_non_null(str.data);
    assert_int_equal(str.size, expected->size);
    assert_memory_equal(str.data, expected->bytes, str.size);
}

static void check_bytes(struct evzmq_bytes bin, const struct json *hex)
{
    assert_int_equal(bin.size, hex->size / 2);
    for (size_t i = 0; i < bin.size; i++) {
        char digits[3];
        (void)snprintf(digits, sizeof(digits), "%02x", ((const unsigned char *)bin.data)[i]);
        assert_memory_equal(digits, hex->bytes + 2 * i, 2);
    }
}

static void check_float(double value, const struct json *expected)
{
    const struct json *const bits = json_get(expected, "bits");
    assert_non_null(bits);
    uint64_t actual;
    memcpy(&actual, &value, sizeof(actual));
    assert_int_equal(actual, strtoull(bits->bytes, NULL, 16));
}

static void check_integer(struct evzmq_integer integer, const struct json *expected)
{
    assert_int_equal(expected->type, JSON_INTEGER);
    assert_int_equal(integer.is_negative, expected->is_negative);
    assert_int_equal(integer.is_negative ? 0 - integer.bits : integer.bits, expected->magnitude);
}

/* 1970-01-01 is day 0. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    const int64_t leaps = (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400 - 477;
    return (year - 1970) * 365 + leaps + before[month - 1] + (is_leap && month > 2 ? 1 : 0) + day -
           1;
}

static void check_timestamp(struct evzmq_cursor *cursor, const struct json *iso)
{
    int year = 0;
    int month = 0;
    int day = 0;
    int hour = 0;
    int minute = 0;
    int second = 0;
    int used = 0;
    char fraction[10] = "000000000";
    assert_int_equal(sscanf(iso->bytes, "%d-%d-%dT%d:%d:%d%n", &year, &month, &day, &hour, &minute,
                            &second, &used),
                     6);
    for (size_t i = 0; iso->bytes[used] == '.' && i < 9; i++) {
        const char c = iso->bytes[(size_t)used + 1 + i];
        if (c < '0' || c > '9') {
            break;
        }
        fraction[i] = c;
    }
    int64_t seconds = 0;
    uint32_t nanoseconds = 0;
    assert_int_equal(evzmq_cursor_read_timestamp(cursor, &seconds, &nanoseconds), 0);
    assert_int_equal(seconds,
                     days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second);
    assert_int_equal(nanoseconds, strtoul(fraction, NULL, 10));
}

/* A map whose keys are not all strings, or a value that JSON does not have. */
static bool check_special(struct evzmq_cursor *cursor, const struct json *expected)
{
    const struct json *const first = expected->count > 0 ? &expected->items[0] : NULL;
    const char *const name = first != NULL ? expected->keys[0].bytes : "";
    size_t count = 0;
    double real = 0;
    int8_t type = 0;
    struct evzmq_bytes bytes;
    if (strcmp(name, "$float") == 0) {
        assert_int_equal(evzmq_cursor_read_float64(cursor, &real), 0);
        check_float(real, expected);
    } else if (strcmp(name, "$bin") == 0) {
        assert_int_equal(evzmq_cursor_read_bin(cursor, &bytes), 0);
        check_bytes(bytes, first);
    } else if (strcmp(name, "$ext") == 0) {
        assert_int_equal(evzmq_cursor_read_ext(cursor, &type, &bytes), 0);
        assert_int_equal(type, first->items[0].magnitude);
        check_bytes(bytes, &first->items[1]);
    } else if (strcmp(name, "$datetime") == 0) {
        check_timestamp(cursor, first);
    } else if (strcmp(name, "$map") == 0) {
        assert_int_equal(evzmq_cursor_read_map(cursor, &count), 0);
        assert_int_equal(count, first->count);
        for (size_t i = 0; i < count; i++) {
            check_any(cursor, &first->items[i].items[0]);
            check_any(cursor, &first->items[i].items[1]);
        }
    } else {
        return false;
    }
    return true;
}

/* Every key of the JSON is found with its value, and there is no other key. */
static void check_map(struct evzmq_cursor *cursor, const struct json *expected)
{
    struct evzmq_any map;
    assert_int_equal(evzmq_cursor_read_any(cursor, &map), 0);
    for (size_t i = 0; i < expected->count; i++) {
        struct evzmq_any value;
        assert_int_equal(evzmq_any_find(map, expected->keys[i].bytes, &value), 0);
        struct evzmq_cursor inside = evzmq_cursor_at(value);
        check_any(&inside, &expected->items[i]);
        assert_int_equal(evzmq_cursor_get_type(&inside), EVZMQ_CURSOR_END);
    }
    struct evzmq_cursor pairs = evzmq_cursor_at(map);
    size_t count = 0;
    assert_int_equal(evzmq_cursor_read_map(&pairs, &count), 0);
    for (size_t i = 0; i < count; i++) {
        struct evzmq_str key;
        struct evzmq_any value;
        bool is_known = false;
        assert_int_equal(evzmq_cursor_read_str(&pairs, &key), 0);
        assert_int_equal(evzmq_cursor_read_any(&pairs, &value), 0);
        for (size_t j = 0; j < expected->count; j++) {
            is_known = is_known || (expected->keys[j].size == key.size &&
                                    memcmp(expected->keys[j].bytes, key.data, key.size) == 0);
        }
        assert_true(is_known);
    }
}

static void check_any(struct evzmq_cursor *cursor, const struct json *expected)
{
    struct evzmq_integer integer;
    struct evzmq_str str;
    bool boolean = false;
    size_t count = 0;
    switch (expected->type) {
    case JSON_NULL:
        assert_int_equal(evzmq_cursor_read_nil(cursor), 0);
        break;
    case JSON_BOOL:
        assert_int_equal(evzmq_cursor_read_bool(cursor, &boolean), 0);
        assert_int_equal(boolean, expected->boolean);
        break;
    case JSON_INTEGER:
        assert_int_equal(evzmq_cursor_read_integer(cursor, &integer), 0);
        check_integer(integer, expected);
        break;
    case JSON_STR:
        assert_int_equal(evzmq_cursor_read_str(cursor, &str), 0);
        check_str(str, expected);
        break;
    case JSON_ARRAY:
        assert_int_equal(evzmq_cursor_read_array(cursor, &count), 0);
        assert_int_equal(count, expected->count);
        for (size_t i = 0; i < count; i++) {
            check_any(cursor, &expected->items[i]);
        }
        break;
    case JSON_OBJECT:
        if (!check_special(cursor, expected)) {
            check_map(cursor, expected);
        }
        break;
    }
}

static void check_span(struct evzmq_any any, const struct json *expected)
{
    if (any.data == NULL) {
        assert_int_equal(expected->type, JSON_NULL);
        return;
    }
    struct evzmq_cursor cursor = evzmq_cursor_at(any);
    check_any(&cursor, expected);
    assert_int_equal(evzmq_cursor_get_type(&cursor), EVZMQ_CURSOR_END);
}

static void check_choice(struct evzmq_choice choice, const struct json *expected)
{
    switch (choice.kind) {
    case EVZMQ_CHOICE_NIL:
        assert_int_equal(expected->type, JSON_NULL);
        break;
    case EVZMQ_CHOICE_STR:
        check_str(choice.as.str, expected);
        break;
    case EVZMQ_CHOICE_STR_ARRAY:
        assert_int_equal(expected->type, JSON_ARRAY);
        assert_int_equal(choice.as.strs.count, expected->count);
        for (size_t i = 0; i < expected->count; i++) {
            check_str(choice.as.strs.items[i], &expected->items[i]);
        }
        break;
    case EVZMQ_CHOICE_MAP:
        check_span(choice.as.any, expected);
        break;
    default:
        fail_msg("no record has this kind of choice: %d", (int)choice.kind);
    }
}

static const struct json *field(const struct json *expected, const char *name)
{
    const struct json *const value = json_get(expected, name);
    if (value == NULL) {
        fail_msg("the vector states no %s", name);
    }
    return value;
}

/* Whether the original makes the value up, which we leave absent. */
static bool is_made_up(const struct json *value)
{
    return json_get(value, "$auto") != NULL;
}

static void check_query(const struct evzmq_record_query *query, const struct json *expected)
{
    if (is_made_up(field(expected, "id"))) {
        assert_int_equal(query->absent & 1u, 1);
        assert_int_equal(query->id.size, 0);
    } else {
        check_str(query->id, field(expected, "id"));
    }
    check_span(query->data, field(expected, "data"));
    check_span(query->headers, field(expected, "headers"));
    if (is_made_up(field(expected, "created_at"))) {
        assert_true((query->absent & EVZMQ_RECORD_QUERY_CREATED_AT) != 0);
    } else {
        assert_true((query->absent & EVZMQ_RECORD_QUERY_CREATED_AT) == 0);
        check_float(query->created_at, field(expected, "created_at"));
    }
}

static void check_output(const struct evzmq_record_text_model_output *output,
                         const struct json *expected)
{
    if (expected->type == JSON_NULL) {
        assert_null(output);
        return;
    }
    assert_non_null(output);
    check_choice(output->output, field(expected, "output"));
    check_choice(output->reasoning, field(expected, "reasoning"));
    check_span(output->tool_calls, field(expected, "tool_calls"));
}

static void check_error(const struct evzmq_record_error_data *error, const struct json *expected)
{
    if (expected->type == JSON_NULL) {
        assert_null(error);
        return;
    }
    assert_non_null(error);
    check_str(error->error_type, field(expected, "error_type"));
    check_str(error->error_message, field(expected, "error_message"));
}

static void check_query_result(const struct evzmq_record_query_result *result,
                               const struct json *expected)
{
    check_str(result->id, field(expected, "id"));
    check_output(result->response_output, field(expected, "response_output"));
    check_span(result->metadata, field(expected, "metadata"));
    check_error(result->error, field(expected, "error"));
    /* The original replaces completed_at by its own clock even where the message has it; what we
     * keep is compared by the tests that know the bytes. */
    if (!is_made_up(field(expected, "completed_at"))) {
        assert_true((result->absent & EVZMQ_RECORD_QUERY_RESULT_COMPLETED_AT) == 0);
        check_integer(result->completed_at, field(expected, "completed_at"));
    }
}

static void check_chunk(const struct evzmq_record_stream_chunk *chunk, const struct json *expected)
{
    check_str(chunk->id, field(expected, "id"));
    check_str(chunk->response_chunk, field(expected, "response_chunk"));
    check_span(chunk->metadata, field(expected, "metadata"));
}

static void check_prompt(const struct evzmq_record_prompt_data *prompt, const struct json *expected)
{
    const struct json *const token_ids = field(expected, "token_ids");
    check_str(prompt->text, field(expected, "text"));
    assert_int_equal(prompt->token_ids.items == NULL, token_ids->type == JSON_NULL);
    assert_int_equal(prompt->token_ids.count, token_ids->count);
    for (size_t i = 0; i < token_ids->count; i++) {
        check_integer(evzmq_integer_from_int64(prompt->token_ids.items[i]), &token_ids->items[i]);
    }
    check_span(prompt->messages, field(expected, "messages"));
    check_span(prompt->tools, field(expected, "tools"));
    check_span(prompt->chat_template_kwargs, field(expected, "chat_template_kwargs"));
    check_str(prompt->chat_template, field(expected, "chat_template"));
    check_choice(prompt->tool_choice, field(expected, "tool_choice"));
}

static void check_batch(const struct evzmq_record_batch *batch, const struct json *expected)
{
    assert_int_equal(batch->records.count, expected->count);
    for (size_t i = 0; i < expected->count; i++) {
        check_bytes(batch->records.items[i], field(&expected->items[i], "$bin"));
    }
}

void record_fields_check(const struct evzmq_schema *schema, const void *value,
                         const struct json *expected)
{
    if (schema == &evzmq_record_response_schema) {
        const struct evzmq_union *const chosen = value;
        record_fields_check(chosen->which, chosen->record, expected);
    } else if (schema == &evzmq_record_query_schema) {
        check_query(value, expected);
    } else if (schema == &evzmq_record_query_result_schema) {
        check_query_result(value, expected);
    } else if (schema == &evzmq_record_stream_chunk_schema) {
        check_chunk(value, expected);
    } else if (schema == &evzmq_record_text_model_output_schema) {
        check_output(value, expected);
    } else if (schema == &evzmq_record_error_data_schema) {
        check_error(value, expected);
    } else if (schema == &evzmq_record_prompt_data_schema) {
        check_prompt(value, expected);
    } else if (schema == &evzmq_record_batch_schema) {
        check_batch(value, expected);
    } else {
        assert_ptr_equal(schema, &evzmq_record_ready_signal_schema);
        const struct evzmq_record_ready_signal *const signal = value;
        check_integer(evzmq_integer_from_int64(signal->identity), expected);
    }
}
