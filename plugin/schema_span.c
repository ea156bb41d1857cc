/*
 * schema_span.c: the parts of reading that do not depend on a record's fields: failures, strings,
 * heads of containers, and spans: values that are checked and kept as they are.
 *
 * A span is passed over without recursion. Flat maps of strings and numbers, the usual case, are
 * done by the loops of evzmq__pass_pairs(); only a container inside opens the stack of
 * check_nested().
 */
#include "schema.h"

#include "scan.h"

const unsigned char *evzmq__reader_fail(struct evzmq__reader *reader, enum evzmq_decode_kind kind,
                                        const unsigned char *at)
{
    reader->fault_kind = kind;
    reader->fault = at;
    return NULL;
}

const unsigned char *evzmq__reader_fail_type(struct evzmq__reader *reader, const unsigned char *at)
{
    if (at == reader->end) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TRUNCATED, at);
    }
    return evzmq__reader_fail(
        reader, *at == EVZMQ__WIRE_NEVER_USED ? EVZMQ_DECODE_MALFORMED : EVZMQ_DECODE_TYPE, at);
}

const unsigned char *evzmq__reader_fail_utf8(struct evzmq__reader *reader,
                                             const unsigned char *data, size_t size)
{
    size_t offset = 0;
    (void)evzmq__utf8_valid(data, size, &offset);
    return evzmq__reader_fail(reader, EVZMQ_DECODE_UTF8, data + offset);
}

const unsigned char *evzmq__read_utf8(struct evzmq__reader *reader, const unsigned char *data,
                                      size_t size)
{
    return evzmq__utf8_valid_field(data, size, NULL) ? data + size
                                                     : evzmq__reader_fail_utf8(reader, data, size);
}

const unsigned char *evzmq__read_str_slow(struct evzmq__reader *reader, const unsigned char *at,
                                          struct evzmq_str *out)
{
    const bool is_str =
        at != reader->end && ((*at & 0xe0u) == 0xa0u || (*at >= 0xd9 && *at <= 0xdb));
    if (!is_str) {
        return evzmq__reader_fail_type(reader, at);
    }
    struct evzmq__wire_head head;
    const unsigned char *const payload = evzmq__wire_read_head(at, reader->end, &head);
    if (payload == NULL) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TRUNCATED, at);
    }
    out->data = (const char *)payload;
    out->size = head.size;
    return reader->rules->validate_utf8 ? evzmq__read_utf8(reader, payload, head.size)
                                        : payload + head.size;
}

const unsigned char *evzmq__read_array_head_slow(struct evzmq__reader *reader,
                                                 const unsigned char *at, size_t *out_count)
{
    if (at == reader->end || ((*at & 0xf0u) != 0x90u && *at != 0xdc && *at != 0xdd)) {
        return evzmq__reader_fail_type(reader, at);
    }
    struct evzmq__wire_head head;
    const unsigned char *const next = evzmq__wire_read_head(at, reader->end, &head);
    if (next == NULL || head.count > (size_t)(reader->end - next)) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TRUNCATED, at);
    }
    *out_count = (size_t)head.count;
    return next;
}

const unsigned char *evzmq__read_map_head_slow(struct evzmq__reader *reader,
                                               const unsigned char *at, size_t *out_count)
{
    if (at == reader->end || ((*at & 0xf0u) != 0x80u && *at != 0xde && *at != 0xdf)) {
        return evzmq__reader_fail_type(reader, at);
    }
    struct evzmq__wire_head head;
    const unsigned char *const next = evzmq__wire_read_head(at, reader->end, &head);
    if (next == NULL || 2 * head.count > (size_t)(reader->end - next)) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TRUNCATED, at);
    }
    *out_count = (size_t)head.count;
    return next;
}

const unsigned char *evzmq__read_skip(struct evzmq__reader *reader, const unsigned char *at)
{
    const struct evzmq__scan_limits limits = {reader->rules->depth_max, SIZE_MAX, false};
    struct evzmq__scan_result result;
    struct evzmq_decode_error error;
    if (evzmq__scan(at, (size_t)(reader->end - at), &limits, &result, &error) != 0) {
        return evzmq__reader_fail(reader, error.kind, at + error.offset);
    }
    return at + result.used;
}

static bool is_container(unsigned first)
{
    return (first >= 0x80 && first < 0xa0) || (first >= 0xdc && first < 0xe0);
}

/* Passes over a value that is neither a container nor cut off by the end before its first byte. */
static const unsigned char *read_scalar(struct evzmq__reader *reader, const unsigned char *at)
{
    const unsigned first = *at;
    if (first < 0x80 || first >= 0xe0 || first == EVZMQ__WIRE_NIL || first == EVZMQ__WIRE_FALSE ||
        first == EVZMQ__WIRE_TRUE) {
        return at + 1;
    }
    if (first < 0xc0 || (first >= 0xd9 && first <= 0xdb)) {
        struct evzmq_str str;
        return evzmq__read_str(reader, at, &str);
    }
    struct evzmq__wire_head head;
    const unsigned char *const payload = evzmq__wire_read_head(at, reader->end, &head);
    if (payload == NULL) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TRUNCATED, at);
    }
    if (head.type == EVZMQ__WIRE_TYPE_BAD ||
        (head.type == EVZMQ__WIRE_TYPE_EXT && head.ext_type == EVZMQ__WIRE_TIMESTAMP &&
         !evzmq__wire_timestamp_valid(payload, head.size))) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_MALFORMED, at);
    }
    return payload + head.size;
}

/* An open container. */
struct level {
    uint64_t left; /* elements still to come: of a map, keys and values */
    bool is_map; /* then an even `left` means that a key comes next */
    bool in_key; /* it is the key of a map or inside one, where maps may not be */
};

/* Opens the container at `at`: makes *level its own and says by *is_open whether it has elements.
 */
static const unsigned char *open_container(struct evzmq__reader *reader, const unsigned char *at,
                                           size_t depth, uint64_t awaited, struct level *level,
                                           bool *is_open)
{
    struct evzmq__wire_head head;
    const bool is_key = level->in_key || (level->is_map && (level->left & 1u) != 0);
    const unsigned char *const next = evzmq__wire_read_head(at, reader->end, &head);
    if (next == NULL) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TRUNCATED, at);
    }
    const bool is_map = head.type == EVZMQ__WIRE_TYPE_MAP;
    const uint64_t count = is_map ? 2 * head.count : head.count;
    if (count > 0 && awaited + count > (size_t)(reader->end - next)) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TRUNCATED, at);
    }
    if (depth >= reader->rules->depth_max) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_DEPTH, at);
    }
    if (is_map && is_key) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TYPE, at);
    }
    *is_open = count > 0;
    if (count > 0) {
        *level = (struct level){count, is_map, is_key};
    }
    return next;
}

/* Passes over one value of any type that is inside `depth` containers of its span. */
static const unsigned char *check_nested(struct evzmq__reader *reader, const unsigned char *at,
                                         size_t depth)
{
    struct level levels[EVZMQ_SCHEMA_DEPTH_MAX];
    size_t open = 0;
    struct level level = {1, false, false};
    uint64_t awaited =
        1; /* in all open containers together: at most the bytes left, once checked */
    for (;;) {
        while (level.left == 0) {
            if (open == 0) {
                return at;
            }
            level = levels[--open];
        }
        if (at == reader->end) {
            return evzmq__reader_fail(reader, EVZMQ_DECODE_TRUNCATED, at);
        }
        level.left -= 1;
        awaited -= 1;
        if (!is_container(*at)) {
            at = read_scalar(reader, at);
        } else {
            const struct level outer = level;
            bool is_open = false;
            at = open_container(reader, at, depth + open, awaited, &level, &is_open);
            if (is_open) {
                levels[open++] = outer;
                awaited += level.left;
            }
        }
        if (at == NULL) {
            return NULL;
        }
    }
}

static inline const unsigned char *check_value(struct evzmq__reader *reader,
                                               const unsigned char *at, size_t depth)
{
    if (at == reader->end) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TRUNCATED, at);
    }
    return is_container(*at) ? check_nested(reader, at, depth) : read_scalar(reader, at);
}

const unsigned char *evzmq__read_pairs(struct evzmq__reader *reader, const unsigned char *at,
                                       size_t count, size_t depth, bool values_are_str)
{
    while (count != 0) {
        struct evzmq_str str;
        at = evzmq__read_str(reader, at, &str);
        if (at != NULL) {
            at = values_are_str ? evzmq__read_str(reader, at, &str)
                                : check_value(reader, at, depth + 1);
        }
        if (at == NULL) {
            return NULL;
        }
        const struct evzmq__pairs rest = evzmq__pass_pairs(
            at, reader->end, count - 1, reader->rules->validate_utf8, values_are_str);
        at = rest.at;
        count = rest.count;
    }
    return at;
}

const unsigned char *evzmq__read_map(struct evzmq__reader *reader, const unsigned char *at,
                                     size_t depth, bool values_are_str)
{
    const unsigned char *const start = at;
    size_t count = 0;
    at = evzmq__read_map_head(reader, at, &count);
    if (at == NULL) {
        return NULL;
    }
    if (depth >= reader->rules->depth_max) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_DEPTH, start);
    }
    const struct evzmq__pairs rest =
        evzmq__pass_pairs(at, reader->end, count, reader->rules->validate_utf8, values_are_str);
    return evzmq__read_pairs(reader, rest.at, rest.count, depth, values_are_str);
}

static const unsigned char *read_map_list(struct evzmq__reader *reader, const unsigned char *at)
{
    size_t count = 0;
    at = evzmq__read_array_head(reader, at, &count);
    for (size_t i = 0; i < count && at != NULL; i++) {
        at = evzmq__read_map(reader, at, 1, false);
    }
    return at;
}

const unsigned char *evzmq__read_span(struct evzmq__reader *reader, const unsigned char *at,
                                      enum evzmq_kind kind)
{
    switch (kind) {
    case EVZMQ_KIND_MAP:
        return evzmq__read_map(reader, at, 0, false);
    case EVZMQ_KIND_STR_MAP:
        return evzmq__read_map(reader, at, 0, true);
    case EVZMQ_KIND_MAP_LIST:
        return read_map_list(reader, at);
    case EVZMQ_KIND_LIST:
        if (at == reader->end || ((*at & 0xf0u) != 0x90u && *at != 0xdc && *at != 0xdd)) {
            return evzmq__reader_fail_type(reader, at);
        }
        return check_nested(reader, at, 0);
    default:
        return check_value(reader, at, 0);
    }
}

struct evzmq_any evzmq__span_default(enum evzmq_kind kind)
{
    static const unsigned char nil[1] = {EVZMQ__WIRE_NIL};
    static const unsigned char map[1] = {0x80};
    static const unsigned char array[1] = {0x90};
    const unsigned char *const bytes = kind == EVZMQ_KIND_ANY ? nil
                                       : kind == EVZMQ_KIND_MAP || kind == EVZMQ_KIND_STR_MAP
                                           ? map
                                           : array;
    const struct evzmq_any any = {bytes, 1};
    return any;
}
