#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>

#include <evzmq/cursor.h>
#include <evzmq/message.h>

/* How deep arrays and objects may be inside one another: enough for any request that makes sense,
 * and no danger to the stack. */
#define DEPTH_MAX 64

/* From JSON to msgpack. */

static bool is_shallow(const json_t *value, int depth)
{
    const char *key = NULL;
    json_t *item = NULL;
    size_t i = 0;
    if (depth > DEPTH_MAX) {
        return false;
    }
    json_array_foreach(value, i, item)
    {
        if (!is_shallow(item, depth + 1)) {
            return false;
        }
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        if (!is_shallow(item, depth + 1)) {
            return false;
        }
    }
    return true;
}

int question_read(const void *body, size_t size, struct question *out,
                  char error[QUESTION_ERROR_SIZE])
{
    json_error_t fault;
    const char *words = NULL;
    json_t *root = json_loadb(size > 0 ? body : "", size, JSON_ALLOW_NUL, &fault);
    const json_t *prompt = json_object_get(root, "prompt");
    const json_t *stream = json_object_get(root, "stream");
    if (root == NULL) {
        (void)snprintf(error, QUESTION_ERROR_SIZE, "not JSON: line %d, column %d: %s", fault.line,
                       fault.column, fault.text);
        return -1;
    }
    if (!json_is_object(root)) {
        words = "not a JSON object";
    } else if (!json_is_string(prompt)) {
        words = "\"prompt\" must be a string";
    } else if (stream != NULL && !json_is_boolean(stream)) {
        words = "\"stream\" must be true or false";
    } else if (!is_shallow(root, 1)) {
        words = "nested too deeply";
    }
    if (words != NULL) {
        (void)snprintf(error, QUESTION_ERROR_SIZE, "%s", words);
        json_decref(root);
        return -1;
    }
    *out = (struct question){.root = root,
                             .prompt = {json_string_value(prompt), json_string_length(prompt)},
                             .stream = json_is_true(stream)};
    return 0;
}

void question_clear(struct question *question)
{
    json_decref(question->root);
    question->root = NULL;
}

static int pack_str(msgpack_packer *packer, const char *data, size_t size)
{
    return msgpack_pack_str(packer, size) != 0 ? -1 : msgpack_pack_str_body(packer, data, size);
}

static int pack(msgpack_packer *packer, const json_t *value)
{
    const char *key = NULL;
    json_t *item = NULL;
    size_t i = 0;
    int result = 0;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        result = msgpack_pack_map(packer, json_object_size(value));
        json_object_foreach((json_t *)(uintptr_t)value, key, item)
        {
            if (result == 0) {
                result = pack_str(packer, key, strlen(key));
            }
            if (result == 0) {
                result = pack(packer, item);
            }
        }
        return result;
    case JSON_ARRAY:
        result = msgpack_pack_array(packer, json_array_size(value));
        json_array_foreach(value, i, item)
        {
            if (result == 0) {
                result = pack(packer, item);
            }
        }
        return result;
    case JSON_STRING:
        return pack_str(packer, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
        return msgpack_pack_int64(packer, json_integer_value(value));
    case JSON_REAL:
        return msgpack_pack_double(packer, json_real_value(value));
    case JSON_TRUE:
        return msgpack_pack_true(packer);
    case JSON_FALSE:
        return msgpack_pack_false(packer);
    case JSON_NULL:
    default:
        return msgpack_pack_nil(packer);
    }
}

int question_pack(const struct question *question, msgpack_sbuffer *out)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    return pack(&packer, question->root);
}

/* From records to JSON. Without memory an evbuffer takes nothing more; whoever reads the text sees
 * that it is cut short. */

static void add(struct evbuffer *out, const char *text)
{
    (void)evbuffer_add(out, text, strlen(text));
}

static bool needs_escape(unsigned char byte)
{
    return byte < 0x20 || byte == '"' || byte == '\\';
}

/* The bytes at the begin of a text that need no escape. */
static size_t plain_length(const char *data, size_t size)
{
    size_t i = 0;
    while (i < size && !needs_escape((unsigned char)data[i])) {
        i++;
    }
    return i;
}

static void add_escaped(struct evbuffer *out, const char *data, size_t size)
{
    for (size_t i = 0; i < size;) {
        const size_t plain = plain_length(data + i, size - i);
        (void)evbuffer_add(out, data + i, plain);
        i += plain;
        if (i < size) {
            (void)evbuffer_add_printf(out, "\\u%04x", (unsigned)(unsigned char)data[i++]);
        }
    }
}

static void add_str(struct evbuffer *out, struct evzmq_str str)
{
    add(out, "\"");
    add_escaped(out, str.data, str.size);
    add(out, "\"");
}

static void release(const void *data, size_t size, void *arg)
{
    (void)data;
    (void)size;
    evzmq_message_free(arg);
}

/* Has the evbuffer refer to a text in the last part of a message, and keep the message for it. */
static int refer(struct evbuffer *out, struct evzmq_message *message, struct evzmq_str text)
{
    const size_t last = evzmq_message_get_part_count(message) - 1;
    const char *begin = evzmq_message_get_part(message, last, NULL);
    struct evzmq_message *kept = evzmq_message_take(message);
    if (kept == NULL) {
        return -1;
    }
    const char *data = evzmq_message_get_part(kept, last, NULL);
    if (evbuffer_add_reference(out, data + (text.data - begin), text.size, release, kept) != 0) {
        evzmq_message_free(kept);
        return -1;
    }
    return 0;
}

static void add_text(struct evbuffer *out, struct evzmq_str text, struct evzmq_message *message)
{
    const bool can_refer = message != NULL && text.size >= EVZMQ_ZERO_COPY_MIN &&
                           plain_length(text.data, text.size) == text.size;
    if (!can_refer || refer(out, message, text) != 0) {
        add_escaped(out, text.data, text.size);
    }
}

static void add_choice(struct evbuffer *out, const struct evzmq_choice *choice,
                       struct evzmq_message *message)
{
    add(out, "\"");
    if (choice->kind == EVZMQ_CHOICE_STR) {
        add_text(out, choice->as.str, message);
    } else if (choice->kind == EVZMQ_CHOICE_STR_ARRAY) {
        for (size_t i = 0; i < choice->as.strs.count; i++) {
            add_escaped(out, choice->as.strs.items[i].data, choice->as.strs.items[i].size);
        }
    }
    add(out, "\"");
}

static void add_integer(struct evbuffer *out, struct evzmq_integer integer)
{
    char text[32];
    if (integer.is_negative) {
        (void)snprintf(text, sizeof(text), "%" PRId64, (int64_t)integer.bits);
    } else {
        (void)snprintf(text, sizeof(text), "%" PRIu64, integer.bits);
    }
    add(out, text);
}

/* What is no number, string, bool, array or object in JSON becomes null. */
static void add_scalar(struct evbuffer *out, struct evzmq_cursor *cursor)
{
    struct evzmq_any skipped;
    struct evzmq_integer integer;
    struct evzmq_str str;
    double real = 0;
    bool boolean = false;
    switch (evzmq_cursor_get_type(cursor)) {
    case EVZMQ_CURSOR_BOOL:
        (void)evzmq_cursor_read_bool(cursor, &boolean);
        add(out, boolean ? "true" : "false");
        break;
    case EVZMQ_CURSOR_INTEGER:
        (void)evzmq_cursor_read_integer(cursor, &integer);
        add_integer(out, integer);
        break;
    case EVZMQ_CURSOR_FLOAT:
        (void)evzmq_cursor_read_float64(cursor, &real);
        if (isfinite(real)) {
            (void)evbuffer_add_printf(out, "%.17g", real);
        } else {
            add(out, "null");
        }
        break;
    case EVZMQ_CURSOR_STR:
        (void)evzmq_cursor_read_str(cursor, &str);
        add_str(out, str);
        break;
    default:
        (void)evzmq_cursor_read_any(cursor, &skipped);
        add(out, "null");
        break;
    }
}

static void add_any(struct evbuffer *out, struct evzmq_cursor *cursor, int depth)
{
    const enum evzmq_cursor_type type = evzmq_cursor_get_type(cursor);
    const bool is_map = type == EVZMQ_CURSOR_MAP;
    size_t count = 0;
    if (depth > DEPTH_MAX || (type != EVZMQ_CURSOR_ARRAY && !is_map)) {
        add_scalar(out, cursor);
        return;
    }
    (void)(is_map ? evzmq_cursor_read_map(cursor, &count)
                  : evzmq_cursor_read_array(cursor, &count));
    add(out, is_map ? "{" : "[");
    for (size_t i = 0; i < count; i++) {
        struct evzmq_any key;
        struct evzmq_str name = EVZMQ_STR("");
        add(out, i > 0 ? "," : "");
        if (is_map && evzmq_cursor_read_str(cursor, &name) != 0) {
            (void)evzmq_cursor_read_any(cursor, &key);
        }
        if (is_map) {
            add_str(out, name);
            add(out, ":");
        }
        add_any(out, cursor, depth + 1);
    }
    add(out, is_map ? "}" : "]");
}

/* An empty map is one byte. */
static void add_metadata(struct evbuffer *out, struct evzmq_any metadata)
{
    struct evzmq_cursor cursor = evzmq_cursor_at(metadata);
    if (metadata.size > 1 && evzmq_cursor_get_type(&cursor) == EVZMQ_CURSOR_MAP) {
        add(out, ",\"metadata\":");
        add_any(out, &cursor, 1);
    }
}

void json_add_result(struct evbuffer *out, const struct evzmq_record_query_result *result,
                     struct evzmq_message *message)
{
    add(out, "{\"id\":");
    add_str(out, result->id);
    if (result->error != NULL) {
        add(out, ",\"error\":{\"type\":");
        add_str(out, result->error->error_type);
        add(out, ",\"message\":");
        add_str(out, result->error->error_message);
        add(out, "}");
    } else {
        static const struct evzmq_choice nothing = {.kind = EVZMQ_CHOICE_NIL};
        const struct evzmq_record_text_model_output *output = result->response_output;
        add(out, ",\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":");
        add_choice(out, output == NULL ? &nothing : &output->output, message);
        add(out, ",\"finish_reason\":\"stop\"}]");
    }
    add_metadata(out, result->metadata);
    add(out, "}");
}

void json_add_chunk(struct evbuffer *out, const struct evzmq_record_stream_chunk *chunk)
{
    add(out, "{\"id\":");
    add_str(out, chunk->id);
    add(out, ",\"object\":\"text_completion.chunk\",\"choices\":[{\"index\":0,\"text\":");
    add_str(out, chunk->response_chunk);
    add(out, ",\"finish_reason\":null}]");
    add_metadata(out, chunk->metadata);
    add(out, "}");
}

void json_add_error(struct evbuffer *out, const char *type, const char *message)
{
    add(out, "{\"error\":{\"type\":");
    add_str(out, (struct evzmq_str){type, strlen(type)});
    add(out, ",\"message\":");
    add_str(out, (struct evzmq_str){message, strlen(message)});
    add(out, "}}\n");
}
