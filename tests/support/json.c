/*
 * Reads JSON by recursive descent. Its input is ours: errors end the program.
 */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_value(const char **at, struct json *out);

static void fail(const char *at)
{
    (void)fprintf(stderr, "not JSON: %.40s\n", at);
    abort();
}

static void *grow(void *items, size_t count, size_t size)
{
    void *const more = realloc(items, (count + 1) * size);
    if (more == NULL) {
        fail("out of memory");
    }
    return more;
}

static bool take(const char **at, const char *token)
{
    while (**at == ' ') {
        (*at)++;
    }
    const size_t size = strlen(token);
    if (strncmp(*at, token, size) != 0) {
        return false;
    }
    *at += size;
    return true;
}

static void need(const char **at, const char *token)
{
    if (!take(at, token)) {
        fail(*at);
    }
}

static uint32_t read_hex4(const char **at)
{
    char digits[5] = {0};
    memcpy(digits, *at, strnlen(*at, 4));
    char *end = NULL;
    const unsigned long value = strtoul(digits, &end, 16);
    if (end != digits + 4) {
        fail(*at);
    }
    *at += 4;
    return (uint32_t)value;
}

static size_t put_utf8(uint32_t point, char *out)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    const size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    const unsigned leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (char)(leads[size] | point);
    return size;
}

/* What follows a backslash. */
static size_t read_escape(const char **at, char *out)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    const char c = *(*at)++;
    if (c == 'u') {
        uint32_t point = read_hex4(at);
        if (point >= 0xd800 && point < 0xdc00) {
            need(at, "\\u");
            point = 0x10000 + ((point - 0xd800) << 10) + (read_hex4(at) - 0xdc00);
        }
        return put_utf8(point, out);
    }
    const char *const found = c != '\0' ? strchr(names, c) : NULL;
    if (found == NULL) {
        fail(*at);
        return 0;
    }
    *out = values[found - names];
    return 1;
}

static void read_str(const char **at, struct json *out)
{
    need(at, "\"");
    out->type = JSON_STR;
    out->bytes = grow(NULL, strlen(*at), 1);
    while (**at != '"') {
        if (**at == '\0') {
            fail(*at);
        }
        if (**at == '\\') {
            (*at)++;
            out->size += read_escape(at, out->bytes + out->size);
        } else {
            out->bytes[out->size++] = *(*at)++;
        }
    }
    (*at)++;
    out->bytes[out->size] = '\0';
}

static void read_array(const char **at, struct json *out)
{
    out->type = JSON_ARRAY;
    if (take(at, "]")) {
        return;
    }
    do {
        out->items = grow(out->items, out->count, sizeof(*out->items));
        read_value(at, &out->items[out->count++]);
    } while (take(at, ","));
    need(at, "]");
}

static void read_object(const char **at, struct json *out)
{
    out->type = JSON_OBJECT;
    if (take(at, "}")) {
        return;
    }
    do {
        out->items = grow(out->items, out->count, sizeof(*out->items));
        out->keys = grow(out->keys, out->count, sizeof(*out->keys));
        memset(&out->keys[out->count], 0, sizeof(*out->keys));
        read_str(at, &out->keys[out->count]);
        need(at, ":");
        read_value(at, &out->items[out->count++]);
    } while (take(at, ","));
    need(at, "}");
}

static void read_integer(const char **at, struct json *out)
{
    out->type = JSON_INTEGER;
    out->is_negative = take(at, "-");
    char *end = NULL;
    out->magnitude = strtoull(*at, &end, 10);
    if (end == *at || *end == '.' || *end == 'e') {
        fail(*at);
    }
    *at = end;
}

static void read_value(const char **at, struct json *out)
{
    memset(out, 0, sizeof(*out));
    if (take(at, "null")) {
        out->type = JSON_NULL;
    } else if (take(at, "true")) {
        out->type = JSON_BOOL;
        out->boolean = true;
    } else if (take(at, "false")) {
        out->type = JSON_BOOL;
    } else if (take(at, "[")) {
        read_array(at, out);
    } else if (take(at, "{")) {
        read_object(at, out);
    } else if (**at == '"') {
        read_str(at, out);
    } else {
        read_integer(at, out);
    }
}

struct json *json_read(const char *text)
{
    struct json *const json = grow(NULL, 0, sizeof(*json));
    read_value(&text, json);
    return json;
}

static void clear(struct json *json)
{
    for (size_t i = 0; i < json->count; i++) {
        clear(&json->items[i]);
        if (json->keys != NULL) {
            clear(&json->keys[i]);
        }
    }
    free(json->items);
    free(json->keys);
    free(json->bytes);
}

void json_free(struct json *json)
{
    if (json != NULL) {
        clear(json);
        free(json);
    }
}

const struct json *json_get(const struct json *json, const char *key)
{
    for (size_t i = 0; json->type == JSON_OBJECT && i < json->count; i++) {
        if (strcmp(json->keys[i].bytes, key) == 0) {
            return &json->items[i];
        }
    }
    return NULL;
}
