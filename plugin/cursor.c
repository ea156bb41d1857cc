/*
 * cursor.c: reading a span value by value. A cursor believes nothing, since a program may place one
 * on bytes that no codec has checked.
 */
#include <errno.h>

#include <evzmq/cursor.h>

#include "scan.h"
#include "wire.h"

static int fail(int error)
{
    errno = error;
    return -1;
}

/*
 * Reads the head of the next value if it is of a type. Gives the first byte after the head, or NULL
 * with errno.
 */
static const unsigned char *read_head(const struct evzmq_cursor *cursor, bool is_output_missing,
                                      enum evzmq__wire_type type, struct evzmq__wire_head *head)
{
    if (cursor == NULL || is_output_missing) {
        errno = EINVAL;
        return NULL;
    }
    if (cursor->next == cursor->end) {
        errno = ENOENT;
        return NULL;
    }
    const unsigned char *const after = evzmq__wire_read_head(cursor->next, cursor->end, head);
    if (after == NULL || head->type == EVZMQ__WIRE_TYPE_BAD) {
        errno = EBADMSG;
        return NULL;
    }
    if (head->type != type) {
        errno = EPROTOTYPE;
        return NULL;
    }
    return after;
}

enum evzmq_cursor_type evzmq_cursor_get_type(const struct evzmq_cursor *cursor)
{
    static const enum evzmq_cursor_type types[] = {
        [EVZMQ__WIRE_TYPE_BAD] = EVZMQ_CURSOR_MALFORMED,
        [EVZMQ__WIRE_TYPE_NIL] = EVZMQ_CURSOR_NIL,
        [EVZMQ__WIRE_TYPE_BOOL] = EVZMQ_CURSOR_BOOL,
        [EVZMQ__WIRE_TYPE_INTEGER] = EVZMQ_CURSOR_INTEGER,
        [EVZMQ__WIRE_TYPE_FLOAT] = EVZMQ_CURSOR_FLOAT,
        [EVZMQ__WIRE_TYPE_STR] = EVZMQ_CURSOR_STR,
        [EVZMQ__WIRE_TYPE_BIN] = EVZMQ_CURSOR_BIN,
        [EVZMQ__WIRE_TYPE_EXT] = EVZMQ_CURSOR_EXT,
        [EVZMQ__WIRE_TYPE_ARRAY] = EVZMQ_CURSOR_ARRAY,
        [EVZMQ__WIRE_TYPE_MAP] = EVZMQ_CURSOR_MAP,
    };
    if (cursor == NULL || cursor->next == cursor->end) {
        return EVZMQ_CURSOR_END;
    }
    struct evzmq__wire_head head;
    if (evzmq__wire_read_head(cursor->next, cursor->end, &head) == NULL) {
        return EVZMQ_CURSOR_MALFORMED;
    }
    return types[head.type];
}

int evzmq_cursor_read_nil(struct evzmq_cursor *cursor)
{
    struct evzmq__wire_head head;
    const unsigned char *const after = read_head(cursor, false, EVZMQ__WIRE_TYPE_NIL, &head);
    if (after == NULL) {
        return -1;
    }
    cursor->next = after;
    return 0;
}

int evzmq_cursor_read_bool(struct evzmq_cursor *cursor, bool *out_value)
{
    struct evzmq__wire_head head;
    const unsigned char *const after =
        read_head(cursor, out_value == NULL, EVZMQ__WIRE_TYPE_BOOL, &head);
    if (after == NULL) {
        return -1;
    }
    *out_value = head.value != 0;
    cursor->next = after;
    return 0;
}

int evzmq_cursor_read_integer(struct evzmq_cursor *cursor, struct evzmq_integer *out_value)
{
    struct evzmq__wire_head head;
    const unsigned char *const after =
        read_head(cursor, out_value == NULL, EVZMQ__WIRE_TYPE_INTEGER, &head);
    if (after == NULL) {
        return -1;
    }
    out_value->bits = head.value;
    out_value->is_negative = head.is_negative;
    cursor->next = after;
    return 0;
}

int evzmq_cursor_read_int64(struct evzmq_cursor *cursor, int64_t *out_value)
{
    struct evzmq_integer integer;
    if (cursor == NULL || out_value == NULL) {
        return fail(EINVAL);
    }
    struct evzmq_cursor after = *cursor;
    if (evzmq_cursor_read_integer(&after, &integer) != 0) {
        return -1;
    }
    if (!evzmq_integer_to_int64(integer, out_value)) {
        return fail(ERANGE);
    }
    *cursor = after;
    return 0;
}

int evzmq_cursor_read_uint64(struct evzmq_cursor *cursor, uint64_t *out_value)
{
    struct evzmq_integer integer;
    if (cursor == NULL || out_value == NULL) {
        return fail(EINVAL);
    }
    struct evzmq_cursor after = *cursor;
    if (evzmq_cursor_read_integer(&after, &integer) != 0) {
        return -1;
    }
    if (integer.is_negative) {
        return fail(ERANGE);
    }
    *out_value = integer.bits;
    *cursor = after;
    return 0;
}

int evzmq_cursor_read_float64(struct evzmq_cursor *cursor, double *out_value)
{
    struct evzmq__wire_head head;
    struct evzmq_integer integer;
    const unsigned char *const after =
        read_head(cursor, out_value == NULL, EVZMQ__WIRE_TYPE_FLOAT, &head);
    if (after != NULL) {
        *out_value = evzmq__wire_bits_double(head.value);
        cursor->next = after;
        return 0;
    }
    if (errno != EPROTOTYPE || evzmq_cursor_read_integer(cursor, &integer) != 0) {
        return -1;
    }
    *out_value = integer.is_negative ? (double)(int64_t)integer.bits : (double)integer.bits;
    return 0;
}

int evzmq_cursor_read_str(struct evzmq_cursor *cursor, struct evzmq_str *out_value)
{
    struct evzmq__wire_head head;
    const unsigned char *const payload =
        read_head(cursor, out_value == NULL, EVZMQ__WIRE_TYPE_STR, &head);
    if (payload == NULL) {
        return -1;
    }
    out_value->data = (const char *)payload;
    out_value->size = head.size;
    cursor->next = payload + head.size;
    return 0;
}

int evzmq_cursor_read_bin(struct evzmq_cursor *cursor, struct evzmq_bytes *out_value)
{
    struct evzmq__wire_head head;
    const unsigned char *const payload =
        read_head(cursor, out_value == NULL, EVZMQ__WIRE_TYPE_BIN, &head);
    if (payload == NULL) {
        return -1;
    }
    out_value->data = payload;
    out_value->size = head.size;
    cursor->next = payload + head.size;
    return 0;
}

int evzmq_cursor_read_ext(struct evzmq_cursor *cursor, int8_t *out_type,
                          struct evzmq_bytes *out_value)
{
    struct evzmq__wire_head head;
    const unsigned char *const payload =
        read_head(cursor, out_type == NULL || out_value == NULL, EVZMQ__WIRE_TYPE_EXT, &head);
    if (payload == NULL) {
        return -1;
    }
    *out_type = head.ext_type;
    out_value->data = payload;
    out_value->size = head.size;
    cursor->next = payload + head.size;
    return 0;
}

int evzmq_cursor_read_timestamp(struct evzmq_cursor *cursor, int64_t *out_seconds,
                                uint32_t *out_nanoseconds)
{
    struct evzmq__wire_head head;
    const unsigned char *const payload = read_head(
        cursor, out_seconds == NULL || out_nanoseconds == NULL, EVZMQ__WIRE_TYPE_EXT, &head);
    if (payload == NULL) {
        return -1;
    }
    const bool is_sized = head.size == 4 || head.size == 8 || head.size == 12;
    if (head.ext_type != EVZMQ__WIRE_TIMESTAMP || !is_sized) {
        return fail(EPROTOTYPE);
    }
    if (!evzmq__wire_timestamp_valid(payload, head.size)) {
        return fail(ERANGE);
    }
    if (head.size == 12) {
        *out_nanoseconds = (uint32_t)evzmq__wire_load32(payload);
        *out_seconds = (int64_t)evzmq__wire_load64(payload + 4);
    } else {
        const uint64_t number = evzmq__wire_load(payload, head.size);
        *out_nanoseconds = head.size == 8 ? (uint32_t)(number >> 34) : 0;
        *out_seconds = (int64_t)(head.size == 8 ? number & ((UINT64_C(1) << 34) - 1) : number);
    }
    cursor->next = payload + head.size;
    return 0;
}

static int read_count(struct evzmq_cursor *cursor, enum evzmq__wire_type type, size_t *out_count)
{
    struct evzmq__wire_head head;
    const unsigned char *const after = read_head(cursor, out_count == NULL, type, &head);
    if (after == NULL) {
        return -1;
    }
    /* Whoever allocates by the count must not be led astray by bytes that nobody checked. */
    const uint64_t values = type == EVZMQ__WIRE_TYPE_MAP ? 2 * head.count : head.count;
    if (values > (size_t)(cursor->end - after)) {
        return fail(EBADMSG);
    }
    *out_count = (size_t)head.count;
    cursor->next = after;
    return 0;
}

int evzmq_cursor_read_array(struct evzmq_cursor *cursor, size_t *out_count)
{
    return read_count(cursor, EVZMQ__WIRE_TYPE_ARRAY, out_count);
}

int evzmq_cursor_read_map(struct evzmq_cursor *cursor, size_t *out_count)
{
    return read_count(cursor, EVZMQ__WIRE_TYPE_MAP, out_count);
}

int evzmq_cursor_read_any(struct evzmq_cursor *cursor, struct evzmq_any *out_value)
{
    static const struct evzmq__scan_limits limits = {EVZMQ_SCHEMA_DEPTH_MAX, SIZE_MAX, false};
    struct evzmq__scan_result result;
    struct evzmq_decode_error error;
    if (cursor == NULL || out_value == NULL) {
        return fail(EINVAL);
    }
    if (cursor->next == cursor->end) {
        return fail(ENOENT);
    }
    const size_t left = (size_t)(cursor->end - cursor->next);
    if (evzmq__scan(cursor->next, left, &limits, &result, &error) != 0) {
        return fail(EBADMSG);
    }
    out_value->data = cursor->next;
    out_value->size = result.used;
    cursor->next += result.used;
    return 0;
}

int evzmq_any_find(struct evzmq_any map, const char *key, struct evzmq_any *out_value)
{
    if (key == NULL || out_value == NULL) {
        return fail(EINVAL);
    }
    struct evzmq_cursor cursor = evzmq_cursor_at(map);
    const size_t key_size = strlen(key);
    size_t count = 0;
    bool is_found = false;
    struct evzmq_any found = {NULL, 0};
    if (evzmq_cursor_read_map(&cursor, &count) != 0) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        struct evzmq_any name;
        struct evzmq_any value;
        if (evzmq_cursor_read_any(&cursor, &name) != 0 ||
            evzmq_cursor_read_any(&cursor, &value) != 0) {
            return fail(EBADMSG);
        }
        struct evzmq_cursor inside = evzmq_cursor_at(name);
        struct evzmq_str str;
        if (evzmq_cursor_read_str(&inside, &str) == 0 && str.size == key_size &&
            memcmp(str.data, key, key_size) == 0) {
            is_found = true;
            found = value;
        }
    }
    if (!is_found) {
        return fail(ENOENT);
    }
    *out_value = found;
    return 0;
}
