/**
 * @file json.h
 * A reader for the JSON column of the wire vectors.
 *
 * Why not a library: the vectors hold integers up to 2^64 - 1, objects whose order matters and
 * strings with U+0000, which well-kept ones read as doubles, unordered, or not at all.
 */
#ifndef TESTS_SUPPORT_JSON_H
#define TESTS_SUPPORT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_type { JSON_NULL, JSON_BOOL, JSON_INTEGER, JSON_STR, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_type type;
    bool boolean;
    bool is_negative; /* of an integer */
    uint64_t magnitude;
    char *bytes; /* of a str: UTF-8, size bytes and a 0 */
    size_t size;
    struct json *items; /* of an array; of an object the values */
    struct json *keys; /* of an object: strs */
    size_t count;
};

/** Reads one value; aborts the program, with a word on stderr, when the text is none. */
struct json *json_read(const char *text);

void json_free(struct json *json);

/** The value of a key; NULL when there is none or it is no object. */
const struct json *json_get(const struct json *json, const char *key);

#endif /* TESTS_SUPPORT_JSON_H */
