/**
 * @file cursor.h
 * Reading msgpack value by value: the spans of typed records, without making a tree of them.
 *
 * @code
 * struct evzmq_any unit;
 * if (evzmq_any_find(reading->labels, "unit", &unit) == 0) {
 *     struct evzmq_cursor cursor = evzmq_cursor_at(unit);
 *     struct evzmq_str text;
 *     if (evzmq_cursor_read_str(&cursor, &text) == 0) {
 *         printf("%.*s\n", (int)text.size, text.data);
 *     }
 * }
 * @endcode
 */
#ifndef EVZMQ_CURSOR_H
#define EVZMQ_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evzmq/base.h>
#include <evzmq/codec.h>
#include <evzmq/schema.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What comes next at a cursor. */
enum evzmq_cursor_type {
    EVZMQ_CURSOR_END = 0, /**< nothing: all was read */
    EVZMQ_CURSOR_NIL, /**< nil */
    EVZMQ_CURSOR_BOOL, /**< a bool */
    EVZMQ_CURSOR_INTEGER, /**< an integer of any width */
    EVZMQ_CURSOR_FLOAT, /**< a float of either width */
    EVZMQ_CURSOR_STR, /**< a string */
    EVZMQ_CURSOR_BIN, /**< a binary */
    EVZMQ_CURSOR_ARRAY, /**< the head of an array */
    EVZMQ_CURSOR_MAP, /**< the head of a map */
    EVZMQ_CURSOR_EXT, /**< an extension, a timestamp too */
    EVZMQ_CURSOR_MALFORMED /**< bytes that are no msgpack; never within a decoded span */
};

/**
 * A place in msgpack, for reading values one after the other without allocating and without
 * recursion. After the head of an array of n come its n elements, after that of a map n times a key
 * and a value. The caller counts. Copying a cursor keeps a place to come back to.
 *
 * The read functions move past what they read and return 0; otherwise they leave the cursor where
 * it is and return -1 with errno: ENOENT (nothing follows), EPROTOTYPE (a value of another type),
 * ERANGE (a number that does not fit), EBADMSG (malformed or cut short: only for bytes that no
 * codec has checked), EINVAL (a NULL argument).
 */
struct evzmq_cursor {
    const unsigned char *next; /**< the next value's first byte */
    const unsigned char *end; /**< behind the last byte */
};

/**
 * Places a cursor before a value (or several, one after the other).
 *
 * Thread: any. Callbacks: yes.
 *
 * @param any  must outlive the cursor; without data there is nothing to read
 */
static inline struct evzmq_cursor evzmq_cursor_at(struct evzmq_any any)
{
    static const unsigned char nothing[1] = {0};
    const unsigned char *const start = any.data == NULL ? nothing : (const unsigned char *)any.data;
    const struct evzmq_cursor cursor = {start, start + (any.data == NULL ? 0 : any.size)};
    return cursor;
}

/**
 * The type of the next value.
 *
 * Thread: any. Callbacks: yes.
 *
 * @return EVZMQ_CURSOR_END also for a NULL cursor
 */
EVZMQ_API enum evzmq_cursor_type evzmq_cursor_get_type(const struct evzmq_cursor *cursor);

/** Reads nil. Thread: any. Callbacks: yes. See struct evzmq_cursor for the result. */
EVZMQ_API int evzmq_cursor_read_nil(struct evzmq_cursor *cursor);

/** Reads a bool. Thread: any. Callbacks: yes. See struct evzmq_cursor for the result. */
EVZMQ_API int evzmq_cursor_read_bool(struct evzmq_cursor *cursor, bool *out_value);

/** Reads an integer. Thread: any. Callbacks: yes. See struct evzmq_cursor for the result. */
EVZMQ_API int evzmq_cursor_read_integer(struct evzmq_cursor *cursor,
                                        struct evzmq_integer *out_value);

/** Reads an integer that fits. Thread: any. Callbacks: yes. See struct evzmq_cursor for the result.
 */
EVZMQ_API int evzmq_cursor_read_int64(struct evzmq_cursor *cursor, int64_t *out_value);

/** Reads an integer that fits. Thread: any. Callbacks: yes. See struct evzmq_cursor for the result.
 */
EVZMQ_API int evzmq_cursor_read_uint64(struct evzmq_cursor *cursor, uint64_t *out_value);

/** Reads a float of either width, or an integer as one. Thread: any. Callbacks: yes. See struct
 * evzmq_cursor for the result. */
EVZMQ_API int evzmq_cursor_read_float64(struct evzmq_cursor *cursor, double *out_value);

/** Reads a string, which points into the span. Thread: any. Callbacks: yes. See struct evzmq_cursor
 * for the result. */
EVZMQ_API int evzmq_cursor_read_str(struct evzmq_cursor *cursor, struct evzmq_str *out_value);

/** Reads a binary, which points into the span. Thread: any. Callbacks: yes. See struct evzmq_cursor
 * for the result. */
EVZMQ_API int evzmq_cursor_read_bin(struct evzmq_cursor *cursor, struct evzmq_bytes *out_value);

/** Reads an extension, which points into the span. Thread: any. Callbacks: yes. See struct
 * evzmq_cursor for the result. */
EVZMQ_API int evzmq_cursor_read_ext(struct evzmq_cursor *cursor, int8_t *out_type,
                                    struct evzmq_bytes *out_value);

/**
 * Reads a timestamp: an extension of type -1.
 *
 * Thread: any. Callbacks: yes. See struct evzmq_cursor for the result; ERANGE stands for more than
 * 999,999,999 nanoseconds.
 *
 * @param out_seconds      since 1970-01-01T00:00:00Z, may be negative
 * @param out_nanoseconds  to be added to them
 */
EVZMQ_API int evzmq_cursor_read_timestamp(struct evzmq_cursor *cursor, int64_t *out_seconds,
                                          uint32_t *out_nanoseconds);

/** Reads the head of an array; its elements come next. Thread: any. Callbacks: yes. See struct
 * evzmq_cursor for the result. */
EVZMQ_API int evzmq_cursor_read_array(struct evzmq_cursor *cursor, size_t *out_count);

/** Reads the head of a map; out_count pairs of key and value come next. Thread: any. Callbacks:
 * yes. See struct evzmq_cursor for the result. */
EVZMQ_API int evzmq_cursor_read_map(struct evzmq_cursor *cursor, size_t *out_count);

/** Reads one whole value of any type as a span. Thread: any. Callbacks: yes. See struct
 * evzmq_cursor for the result; its time is in proportion to the value's size. */
EVZMQ_API int evzmq_cursor_read_any(struct evzmq_cursor *cursor, struct evzmq_any *out_value);

/**
 * Looks up a str key in a map. Of a key that occurs twice the last value is found.
 *
 * Thread: any. Callbacks: yes.
 *
 * @param map        the span of a map
 * @param key        0-terminated
 * @param out_value  the span of its value
 * @return 0, or -1 with EINVAL (a NULL argument), ENOENT (no such key, or @p map has no data),
 * EPROTOTYPE (not a map), EBADMSG (malformed: only for bytes that no codec has checked)
 */
EVZMQ_API int evzmq_any_find(struct evzmq_any map, const char *key, struct evzmq_any *out_value);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_CURSOR_H */
