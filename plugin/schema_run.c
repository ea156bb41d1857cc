/*
 * schema_run.c: decoding in the usual case, which is what decoding a record costs: an array with
 * all its fields, each in the form that every encoder writes. One loop runs over the operations of
 * a compiled schema; what is unusual about a field or a record is left to schema_decode.c.
 *
 * Three things were measured to count here. Branches that are taken cost more than instructions, so
 * the usual case falls through: a table of jumps made a StreamChunk slower by a third, these hints
 * made it faster by a fifth. What is added to the place in the bytes comes from as few steps as
 * possible, since each field waits for the one before. And nested records have a copy of the loop
 * to themselves: a stack of records in one loop is shorter and slower.
 */
#include "schema.h"

/* Whether a str passes the check, if there is to be one. */
static EVZMQ__INLINE bool is_text(const unsigned char *data, size_t size, const unsigned char *end,
                                  bool validate)
{
    if (!validate) {
        return true;
    }
    if (size <= EVZMQ__UTF8_WINDOW && (size_t)(end - data) >= EVZMQ__UTF8_WINDOW) {
        return EVZMQ__LIKELY(evzmq__utf8_is_window_ascii(data, size)) ||
               evzmq__utf8_valid(data, size, NULL);
    }
    return evzmq__utf8_valid_field(data, size, NULL);
}

/* The same of a key and its value, each below 32 bytes or not a str, with one byte between them. */
static EVZMQ__INLINE bool is_pair_text(const unsigned char *key, size_t key_size, size_t size,
                                       const unsigned char *end)
{
    const size_t total = key_size + 1 + size;
    if (EVZMQ__LIKELY(total <= EVZMQ__UTF8_WINDOW && (size_t)(end - key) >= EVZMQ__UTF8_WINDOW) &&
        EVZMQ__LIKELY(evzmq__utf8_is_window_ascii_but(key, total, key_size))) {
        return true;
    }
    return is_text(key, key_size, end, true) && is_text(key + key_size + 1, size, end, true);
}

/* Whether a first byte is all of its value. */
static inline bool is_whole(unsigned first)
{
    return first < 0x80 || first >= 0xe0 || first == EVZMQ__WIRE_NIL ||
           (first & 0xfeu) == EVZMQ__WIRE_FALSE;
}

/* Inlined with constants, so that each mode has a loop of its own. */
static EVZMQ__INLINE struct evzmq__pairs pass_pairs(const unsigned char *at,
                                                    const unsigned char *end, size_t count,
                                                    bool validate, bool values_are_str)
{
    for (; count != 0; count--) {
        size_t left = (size_t)(end - at);
        const size_t key_size = left == 0 ? SIZE_MAX : (size_t)at[0] - 0xa0;
        if (key_size >= 32 || key_size + 1 >= left) {
            break;
        }
        const unsigned char *const key = at + 1;
        const unsigned char *const value = key + key_size;
        left -= 1 + key_size;
        size_t size = (size_t)value[0] - 0xa0;
        if (size < 32 ? size < left : !values_are_str && is_whole(value[0])) {
            size = size < 32 ? size : 0;
            if (validate && !is_pair_text(key, key_size, size, end)) {
                break;
            }
            at = value + 1 + size;
            continue;
        }
        const unsigned char *const data = evzmq__find_str(value, end, &size);
        if (data == NULL || !is_text(key, key_size, end, validate) ||
            !is_text(data, size, end, validate)) {
            break;
        }
        at = data + size;
    }
    return (struct evzmq__pairs){at, count};
}

EVZMQ__NOINLINE
static struct evzmq__pairs pass_pairs_checked(const unsigned char *at, const unsigned char *end,
                                              size_t count, bool values_are_str)
{
    return pass_pairs(at, end, count, true, values_are_str);
}

EVZMQ__NOINLINE
static struct evzmq__pairs pass_pairs_unchecked(const unsigned char *at, const unsigned char *end,
                                                size_t count, bool values_are_str)
{
    return pass_pairs(at, end, count, false, values_are_str);
}

struct evzmq__pairs evzmq__pass_pairs(const unsigned char *at, const unsigned char *end,
                                      size_t count, bool validate, bool values_are_str)
{
    return validate ? pass_pairs_checked(at, end, count, values_are_str)
                    : pass_pairs_unchecked(at, end, count, values_are_str);
}

/* has_prefix() where fewer bytes are there than it compares at once. */
EVZMQ__NOINLINE
static bool has_short_prefix(const struct evzmq__program *program, const unsigned char *at,
                             size_t left)
{
    return left >= program->usual_size_min &&
           memcmp(at, program->prefix, program->prefix_size) == 0;
}

/* Whether a record has the usual head and tag, where at least its program's window_size_min bytes
 * are there. */
static EVZMQ__INLINE bool has_window(const struct evzmq__program *program, const unsigned char *at)
{
#if defined(__SSE2__)
    const __m128i *const there = (const __m128i *)(const void *)at;
    const __m128i *const prefix = (const __m128i *)(const void *)program->prefix;
    const __m128i low = _mm_cmpeq_epi8(_mm_loadu_si128(there), _mm_loadu_si128(prefix));
    const __m128i high = _mm_cmpeq_epi8(_mm_loadu_si128(there + 1), _mm_loadu_si128(prefix + 1));
    const uint32_t equal = (uint32_t)_mm_movemask_epi8(low) | (uint32_t)_mm_movemask_epi8(high)
                                                                  << 16;
    return (~equal & program->prefix_mask) == 0;
#else
    return memcmp(at, program->prefix, program->prefix_size) == 0;
#endif
}

/* Whether a record has the usual head and tag and may have all its fields. */
static EVZMQ__INLINE bool has_prefix(const struct evzmq__program *program, const unsigned char *at,
                                     size_t left)
{
    return EVZMQ__LIKELY(left >= program->window_size_min) ? has_window(program, at)
                                                           : has_short_prefix(program, at, left);
}

/* Gives what follows the head and the tag. */
static EVZMQ__INLINE const unsigned char *begin_record(const struct evzmq__program *program,
                                                       const unsigned char *at, void *record)
{
    if (program->absent_offset != EVZMQ_ABSENT_NONE) {
        *(uint64_t *)(void *)((unsigned char *)record + program->absent_offset) = 0;
    }
    return at + program->prefix_size;
}

/* Passes over a map with fewer than 16 pairs of the usual kinds; else NULL. */
static EVZMQ__INLINE const unsigned char *run_map(const unsigned char *at, const unsigned char *end,
                                                  bool validate, bool values_are_str)
{
    const size_t left = (size_t)(end - at);
    const size_t count = left == 0 ? SIZE_MAX : (size_t)*at - 0x80;
    if (count == 0) {
        return at + 1;
    }
    if (count >= 16 || 2 * count >= left) {
        return NULL;
    }
    const struct evzmq__pairs rest = pass_pairs(at + 1, end, count, validate, values_are_str);
    return EVZMQ__LIKELY(rest.count == 0) ? rest.at : NULL;
}

const unsigned char *evzmq__pass_map(const unsigned char *at, const unsigned char *end,
                                     bool values_are_str)
{
    return run_map(at, end, false, values_are_str);
}

EVZMQ__NOINLINE
static const unsigned char *decode_nested_checked(struct evzmq__reader *reader,
                                                  const struct evzmq__program *program,
                                                  const unsigned char *at, const void **out);
EVZMQ__NOINLINE
static const unsigned char *decode_nested_unchecked(struct evzmq__reader *reader,
                                                    const struct evzmq__program *program,
                                                    const unsigned char *at, const void **out);

static inline const unsigned char *decode_nested(struct evzmq__reader *reader,
                                                 const struct evzmq__program *program,
                                                 const unsigned char *at, const void **out,
                                                 bool validate)
{
    return validate ? decode_nested_checked(reader, program, at, out)
                    : decode_nested_unchecked(reader, program, at, out);
}

/* Decodes all the fields of a record: the usual is done here, the rest elsewhere. */
static EVZMQ__INLINE const unsigned char *run(struct evzmq__reader *reader,
                                              const struct evzmq__program *program,
                                              const unsigned char *at, const unsigned char *end,
                                              void *record, bool validate)
{
    for (const struct evzmq__field_step *field = program->steps;; field++) {
        unsigned char *const member = (unsigned char *)record + field->offset;
        const unsigned path = field->path;
        if (EVZMQ__LIKELY(path <= EVZMQ__PATH_CHOICE)) {
            size_t size = 0;
            const unsigned char *const data = evzmq__find_str(at, end, &size);
            if (EVZMQ__LIKELY(data != NULL && is_text(data, size, end, validate))) {
                const enum evzmq_choice_kind kind = EVZMQ_CHOICE_STR;
                memcpy(member, &kind, sizeof(kind)); /* where it is a str this is overwritten */
                *(struct evzmq_str *)(void *)((unsigned char *)record + field->str_offset) =
                    (struct evzmq_str){(const char *)data, size};
                at = data + size;
                continue;
            }
        } else if (EVZMQ__LIKELY(path <= EVZMQ__PATH_STR_MAP)) {
            const unsigned char *const next =
                run_map(at, end, validate, path == EVZMQ__PATH_STR_MAP);
            if (EVZMQ__LIKELY(next != NULL)) {
                *(struct evzmq_any *)(void *)member = (struct evzmq_any){at, (size_t)(next - at)};
                at = next;
                continue;
            }
        } else if (path == EVZMQ__PATH_END) {
            return at;
        } else if (path <= EVZMQ__PATH_INTEGER && end - at >= 9) {
            const unsigned first = *at;
            const uint64_t bits = evzmq__wire_load64(at + 1);
            if (path == EVZMQ__PATH_FLOAT64 && first == 0xcb) {
                *(double *)(void *)member = evzmq__wire_bits_double(bits);
                at += 9;
                continue;
            }
            if (path == EVZMQ__PATH_INTEGER && first == 0xcf) {
                *(struct evzmq_integer *)(void *)member = (struct evzmq_integer){bits, false};
                at += 9;
                continue;
            }
        }
        if (field->is_nilable && at != end && *at == EVZMQ__WIRE_NIL) {
            evzmq__set_nil(member, field->size);
            at++;
            continue;
        }
        const struct evzmq__field_op *const op = &program->ops[field - program->steps];
        at = path == EVZMQ__PATH_RECORD
                 ? decode_nested(reader, op->program, at, (const void **)(void *)member, validate)
                 : evzmq__decode_field(reader, op, at, member);
        if (at == NULL) {
            return NULL;
        }
    }
}

/* A record that is not the outermost one. */
static EVZMQ__INLINE const unsigned char *decode_inner(struct evzmq__reader *reader,
                                                       const struct evzmq__program *program,
                                                       const unsigned char *at, void *record,
                                                       bool validate)
{
    const unsigned char *const end = reader->end;
    if (!EVZMQ__LIKELY(has_prefix(program, at, (size_t)(end - at)))) {
        return evzmq__decode_record_slow(reader, program, at, record);
    }
    if (!EVZMQ__LIKELY(program->is_covered)) {
        memcpy(record, program->image, program->record_size);
    }
    return run(reader, program, begin_record(program, at, record), end, record, validate);
}

/* One that lies in the arena. */
static EVZMQ__INLINE const unsigned char *decode_into_arena(struct evzmq__reader *reader,
                                                            const struct evzmq__program *program,
                                                            const unsigned char *at,
                                                            const void **out, bool validate)
{
    void *record = NULL;
    if (EVZMQ__LIKELY(program->record_cut <= reader->memory_left &&
                      evzmq__arena_try_cut(reader->arena, program->record_size, program->record_cut,
                                           &record))) {
        reader->memory_left -= program->record_cut;
    } else {
        record = evzmq__reader_take(reader, at, program->record_size);
        if (record == NULL) {
            return NULL;
        }
    }
    *out = record;
    return decode_inner(reader, program, at, record, validate);
}

static const unsigned char *decode_nested_checked(struct evzmq__reader *reader,
                                                  const struct evzmq__program *program,
                                                  const unsigned char *at, const void **out)
{
    return decode_into_arena(reader, program, at, out, true);
}

static const unsigned char *decode_nested_unchecked(struct evzmq__reader *reader,
                                                    const struct evzmq__program *program,
                                                    const unsigned char *at, const void **out)
{
    return decode_into_arena(reader, program, at, out, false);
}

const unsigned char *evzmq__decode_record(struct evzmq__reader *reader,
                                          const struct evzmq__program *program,
                                          const unsigned char *at, void *record)
{
    return reader->validate_utf8 ? decode_inner(reader, program, at, record, true)
                                 : decode_inner(reader, program, at, record, false);
}

static EVZMQ__INLINE void init_reader(struct evzmq__reader *reader,
                                      const struct evzmq__schema_state *schema,
                                      const unsigned char *end, struct evzmq_arena *arena)
{
    reader->end = end; /* the fault is set where there is one */
    reader->validate_utf8 = schema->validate_utf8;
    reader->depth_max = schema->depth_max;
    reader->arena = arena;
}

/* Ends a decode that did not come to the end of the bytes: tells what was wrong. */
EVZMQ__COLD
static int fail(struct evzmq__reader *reader, const unsigned char *at,
                struct evzmq_decode_error *out_error)
{
    if (at != NULL) {
        (void)evzmq__reader_fail(reader, EVZMQ_DECODE_TRAILING, at);
    }
    out_error->kind = reader->fault_kind;
    out_error->offset = (size_t)(reader->fault - reader->start);
    return -1;
}

/* Decodes what has not the usual prefix or for which the arena has to take more memory. Without
 * `out_used` the value has to be all that is there. */
EVZMQ__NOINLINE
static int decode_slow(const struct evzmq__schema_state *schema, const void *data, size_t size,
                       struct evzmq_arena *arena, const void **out_value, size_t *out_used,
                       struct evzmq_decode_error *out_error)
{
    static const unsigned char nothing[1] = {0};
    const struct evzmq__program *const root = schema->root;
    const unsigned char *const start = size == 0 ? nothing : data;
    struct evzmq__reader reader;
    init_reader(&reader, schema, start + size, arena);
    reader.memory_left = schema->memory_max;
    reader.start = start;
    void *const value = evzmq__reader_take(&reader, start, root->record_size);
    const unsigned char *const at =
        value == NULL ? NULL : evzmq__decode_record(&reader, root, start, value);
    if (out_used == NULL ? at != reader.end : at == NULL) {
        return fail(&reader, at, out_error);
    }
    if (out_used != NULL) {
        *out_used = (size_t)(at - start);
    }
    *out_value = value;
    return 0;
}

static EVZMQ__INLINE int decode(const struct evzmq__schema_state *schema, const void *data,
                                size_t size, struct evzmq_arena *arena, const void **out_value,
                                size_t *out_used, struct evzmq_decode_error *out_error,
                                bool validate)
{
    const struct evzmq__program *const root = schema->root;
    const unsigned char *const start = data;
    void *value;
    if (!EVZMQ__LIKELY(size >= schema->window_size_min && has_window(root, start) &&
                       evzmq__arena_try_cut(arena, root->record_size, root->record_cut, &value))) {
        return decode_slow(schema, data, size, arena, out_value, out_used, out_error);
    }
    const unsigned char *const end = start + size;
    struct evzmq__reader reader;
    init_reader(&reader, schema, end, arena);
    reader.memory_left = schema->memory_left;
    reader.start = start;
    const unsigned char *const first = begin_record(root, start, value);
    const unsigned char *const at = run(&reader, root, first, end, value, validate);
    if (!EVZMQ__LIKELY(out_used == NULL ? at == end : at != NULL)) {
        return fail(&reader, at, out_error);
    }
    if (out_used != NULL) {
        *out_used = (size_t)(at - start);
    }
    *out_value = value;
    return 0;
}

EVZMQ__NOINLINE
static int decode_checked(const struct evzmq__schema_state *schema, const void *data, size_t size,
                          struct evzmq_arena *arena, const void **out_value,
                          struct evzmq_decode_error *out_error)
{
    return decode(schema, data, size, arena, out_value, NULL, out_error, true);
}

EVZMQ__NOINLINE
static int decode_unchecked(const struct evzmq__schema_state *schema, const void *data, size_t size,
                            struct evzmq_arena *arena, const void **out_value,
                            struct evzmq_decode_error *out_error)
{
    return decode(schema, data, size, arena, out_value, NULL, out_error, false);
}

int evzmq__schema_decode(const void *state, const void *data, size_t size,
                         struct evzmq_arena *arena, const void **out_value,
                         struct evzmq_decode_error *out_error)
{
    const struct evzmq__schema_state *const schema = state;
    return schema->validate_utf8
               ? decode_checked(schema, data, size, arena, out_value, out_error)
               : decode_unchecked(schema, data, size, arena, out_value, out_error);
}

EVZMQ__NOINLINE
static int decode_prefix_checked(const struct evzmq__schema_state *schema, const void *data,
                                 size_t size, struct evzmq_arena *arena, const void **out_value,
                                 size_t *out_used, struct evzmq_decode_error *out_error)
{
    return decode(schema, data, size, arena, out_value, out_used, out_error, true);
}

EVZMQ__NOINLINE
static int decode_prefix_unchecked(const struct evzmq__schema_state *schema, const void *data,
                                   size_t size, struct evzmq_arena *arena, const void **out_value,
                                   size_t *out_used, struct evzmq_decode_error *out_error)
{
    return decode(schema, data, size, arena, out_value, out_used, out_error, false);
}

int evzmq__schema_decode_prefix(const void *state, const void *data, size_t size,
                                struct evzmq_arena *arena, const void **out_value, size_t *out_used,
                                struct evzmq_decode_error *out_error)
{
    const struct evzmq__schema_state *const schema = state;
    return schema->validate_utf8
               ? decode_prefix_checked(schema, data, size, arena, out_value, out_used, out_error)
               : decode_prefix_unchecked(schema, data, size, arena, out_value, out_used, out_error);
}
