/*
 * schema_run.c: decoding in the usual case, which is what decoding a record costs: an array with
 * all its fields, each in the form that every encoder writes. Each kind of field has a function, a
 * step, that decodes it and then calls the step of the next field as its last act; what is unusual
 * about a field or a record is left to schema_decode.c.
 *
 * A call costs more than the dozen instructions that a usual field takes, and a compiler that
 * optimizes makes a jump of a last call. So there is one call into the library, and nothing to come
 * back to before the end of the record: what a decode keeps lies in the arena rather than on the
 * stack, and the last step itself tells of the value. Only a record inside another one is called,
 * or the chain would be as long as the message where the compiler makes no jumps. Within a step the
 * usual form falls through, branches that are taken being the next most expensive thing.
 */
#include "schema.h"

#include <errno.h>

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
    const size_t count = at == end ? SIZE_MAX : (size_t)*at - 0x80;
    if (count == 0) {
        return at + 1;
    }
    if (count >= 16) {
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

/* The parameters of a step, see evzmq__step_run. */
#define STEP_PARAMETERS                                                                            \
    const unsigned char *at, const unsigned char *end, const struct evzmq__field_step *field,      \
        unsigned char *record, struct evzmq__reader *reader

/* Goes on with the next field. */
#define NEXT_STEP(next) return field[1].run((next), end, field + 1, record, reader)

/* Ends a decode that failed: tells what was wrong. */
EVZMQ__COLD
static int fail(struct evzmq__reader *reader)
{
    if (reader->fault_kind == EVZMQ_DECODE_NOMEM) {
        errno = ENOMEM;
        return -1;
    }
    if (reader->out_error != NULL) {
        reader->out_error->kind = reader->fault_kind;
        reader->out_error->offset = (size_t)(reader->fault - reader->start);
    }
    errno = EBADMSG;
    return -1;
}

EVZMQ__COLD
static int fail_trailing(struct evzmq__reader *reader, const unsigned char *at)
{
    (void)evzmq__reader_fail(reader, EVZMQ_DECODE_TRAILING, at);
    return fail(reader);
}

/* A field in an unusual form, not nil. */
EVZMQ__NOINLINE
static int step_other_form(STEP_PARAMETERS)
{
    (void)end;
    at = evzmq__decode_field(reader, field->as.op, at, record + field->offset);
    if (at == NULL) {
        return fail(reader);
    }
    NEXT_STEP(at);
}

/* A field that is nil or in an unusual form. */
static int step_slow(STEP_PARAMETERS)
{
    if (EVZMQ__LIKELY(at != end) && EVZMQ__LIKELY(*at == EVZMQ__WIRE_NIL) &&
        EVZMQ__LIKELY(field->is_nilable)) {
        evzmq__set_nil(record + field->offset, field->size);
        NEXT_STEP(at + 1);
    }
    return step_other_form(at, end, field, record, reader);
}

/* The end of a record inside another. */
static int step_end_inner(STEP_PARAMETERS)
{
    (void)end, (void)field, (void)record;
    reader->at = at;
    return 0;
}

/* The end of the outermost record, which is never one inside another. */
static int step_end(STEP_PARAMETERS)
{
    (void)field;
    if (!EVZMQ__LIKELY(at == end) && !reader->is_prefix) {
        return fail_trailing(reader, at);
    }
    reader->at = at;
    *reader->out_value = record;
    return 0;
}

/* Sets the str at `data` and goes on. */
static EVZMQ__INLINE int finish_str(STEP_PARAMETERS, const unsigned char *data, size_t size,
                                    bool is_choice, bool validate)
{
    if (!EVZMQ__LIKELY(is_text(data, size, end, validate))) {
        return step_slow(at, end, field, record, reader);
    }
    if (is_choice) {
        struct evzmq_choice *const choice = (void *)(record + field->offset);
        choice->kind = EVZMQ_CHOICE_STR;
        choice->as.str = (struct evzmq_str){(const char *)data, size};
    } else {
        *(struct evzmq_str *)(void *)(record + field->offset) =
            (struct evzmq_str){(const char *)data, size};
    }
    NEXT_STEP(data + size);
}

static EVZMQ__INLINE int step_str(STEP_PARAMETERS, bool is_choice, bool validate)
{
    const size_t left = (size_t)(end - at);
    if (EVZMQ__LIKELY(left != 0)) {
        const size_t short_size = (size_t)at[0] - 0xa0;
        if (EVZMQ__LIKELY(short_size < 32)) {
            if (!EVZMQ__LIKELY(short_size < left)) {
                return step_slow(at, end, field, record, reader);
            }
            return finish_str(at, end, field, record, reader, at + 1, short_size, is_choice,
                              validate);
        }
        if (is_choice && at[0] == EVZMQ__WIRE_NIL && field->is_nilable) {
            memset(record + field->offset, 0, sizeof(struct evzmq_choice));
            NEXT_STEP(at + 1);
        }
        if (at[0] == 0xd9 && left >= 3) {
            const size_t size = at[1];
            if (EVZMQ__LIKELY(size <= left - 2)) {
                return finish_str(at, end, field, record, reader, at + 2, size, is_choice,
                                  validate);
            }
        }
        if (at[0] == 0xda && left >= 3) {
            const size_t size = (size_t)evzmq__wire_load16(at + 1);
            if (EVZMQ__LIKELY(size <= left - 3)) {
                return finish_str(at, end, field, record, reader, at + 3, size, is_choice,
                                  validate);
            }
        }
    }
    return step_slow(at, end, field, record, reader);
}

/* A map that has pairs. */
static EVZMQ__INLINE int step_pairs(STEP_PARAMETERS, bool validate, bool values_are_str)
{
    const unsigned char *const next = run_map(at, end, validate, values_are_str);
    if (!EVZMQ__LIKELY(next != NULL)) {
        return step_slow(at, end, field, record, reader);
    }
    *(struct evzmq_any *)(void *)(record + field->offset) =
        (struct evzmq_any){at, (size_t)(next - at)};
    NEXT_STEP(next);
}

static int step_float64(STEP_PARAMETERS)
{
    if (!EVZMQ__LIKELY(end - at >= 9 && *at == 0xcb)) {
        return step_slow(at, end, field, record, reader);
    }
    *(double *)(void *)(record + field->offset) =
        evzmq__wire_bits_double(evzmq__wire_load64(at + 1));
    NEXT_STEP(at + 9);
}

static int step_integer(STEP_PARAMETERS)
{
    if (!EVZMQ__LIKELY(end - at >= 9 && *at == 0xcf)) {
        return step_slow(at, end, field, record, reader);
    }
    *(struct evzmq_integer *)(void *)(record + field->offset) =
        (struct evzmq_integer){evzmq__wire_load64(at + 1), false};
    NEXT_STEP(at + 9);
}

/* decode_inner() where that has to look closer. */
EVZMQ__NOINLINE
static int decode_inner_slow(struct evzmq__reader *reader, const struct evzmq__program *program,
                             const unsigned char *at, void *record)
{
    if (has_prefix(program, at, (size_t)(reader->end - at))) {
        if (!program->is_covered) {
            memcpy(record, program->image, program->record_size);
        }
        return program->steps[0].run(begin_record(program, at, record), reader->end, program->steps,
                                     record, reader);
    }
    at = evzmq__decode_record_slow(reader, program, at, record);
    if (at == NULL) {
        return fail(reader);
    }
    reader->at = at;
    return 0;
}

/* A record that is not the outermost one. Gives its end as reader->at. */
static EVZMQ__INLINE int decode_inner(struct evzmq__reader *reader,
                                      const struct evzmq__program *program, const unsigned char *at,
                                      const unsigned char *end, void *record)
{
    if (!EVZMQ__LIKELY((size_t)(end - at) >= program->whole_size_min && has_window(program, at))) {
        return decode_inner_slow(reader, program, at, record);
    }
    return program->steps[0].run(begin_record(program, at, record), end, program->steps, record,
                                 reader);
}

/* A record that is not nil, where the arena has to take more memory or the limit is reached. */
EVZMQ__COLD
static int step_record_slow(STEP_PARAMETERS)
{
    const struct evzmq__program *const program = field->as.program;
    void *const inner = evzmq__reader_take(reader, at, program->record_size);
    if (inner == NULL) {
        return fail(reader);
    }
    *(const void **)(void *)(record + field->offset) = inner;
    if (decode_inner(reader, program, at, end, inner) != 0) {
        return -1;
    }
    NEXT_STEP(reader->at);
}

/* A record that is not nil. */
EVZMQ__NOINLINE
static int step_record_not_nil(STEP_PARAMETERS)
{
    const struct evzmq__program *const program = field->as.program;
    void *inner = NULL;
    if (!EVZMQ__LIKELY(program->record_cut <= reader->memory_left &&
                       evzmq__arena_try_cut(reader->arena, program->record_size,
                                            program->record_cut, &inner))) {
        return step_record_slow(at, end, field, record, reader);
    }
    reader->memory_left -= program->record_cut;
    *(const void **)(void *)(record + field->offset) = inner;
    if (!EVZMQ__LIKELY(decode_inner(reader, program, at, end, inner) == 0)) {
        return -1;
    }
    end = reader->end; /* which need not be kept over the call */
    NEXT_STEP(reader->at);
}

static int step_record(STEP_PARAMETERS)
{
    if (EVZMQ__LIKELY(at != end) && EVZMQ__LIKELY(*at == EVZMQ__WIRE_NIL) &&
        EVZMQ__LIKELY(field->is_nilable)) {
        *(const void **)(void *)(record + field->offset) = NULL;
        NEXT_STEP(at + 1);
    }
    return step_record_not_nil(at, end, field, record, reader);
}

/* The steps that look at text, each with the check and without. */

EVZMQ__NOINLINE
static int step_map_of_pairs_checked(STEP_PARAMETERS)
{
    return step_pairs(at, end, field, record, reader, true, false);
}

EVZMQ__NOINLINE
static int step_map_of_pairs_unchecked(STEP_PARAMETERS)
{
    return step_pairs(at, end, field, record, reader, false, false);
}

static EVZMQ__INLINE int step_map(STEP_PARAMETERS, bool validate)
{
    if (EVZMQ__LIKELY(at != end) && EVZMQ__LIKELY(*at == 0x80)) {
        *(struct evzmq_any *)(void *)(record + field->offset) = (struct evzmq_any){at, 1};
        NEXT_STEP(at + 1);
    }
    return validate ? step_map_of_pairs_checked(at, end, field, record, reader)
                    : step_map_of_pairs_unchecked(at, end, field, record, reader);
}

static int step_map_checked(STEP_PARAMETERS)
{
    return step_map(at, end, field, record, reader, true);
}

static int step_map_unchecked(STEP_PARAMETERS)
{
    return step_map(at, end, field, record, reader, false);
}

static int step_str_map_checked(STEP_PARAMETERS)
{
    return step_pairs(at, end, field, record, reader, true, true);
}

static int step_str_map_unchecked(STEP_PARAMETERS)
{
    return step_pairs(at, end, field, record, reader, false, true);
}

static int step_str_checked(STEP_PARAMETERS)
{
    return step_str(at, end, field, record, reader, false, true);
}

static int step_str_unchecked(STEP_PARAMETERS)
{
    return step_str(at, end, field, record, reader, false, false);
}

static int step_choice_checked(STEP_PARAMETERS)
{
    return step_str(at, end, field, record, reader, true, true);
}

static int step_choice_unchecked(STEP_PARAMETERS)
{
    return step_str(at, end, field, record, reader, true, false);
}

void evzmq__link_steps(struct evzmq__program *program, bool validate, bool is_root)
{
    static const struct {
        evzmq__step_run checked;
        evzmq__step_run unchecked;
    } runs[] = {
        [EVZMQ__PATH_STR] = {step_str_checked, step_str_unchecked},
        [EVZMQ__PATH_CHOICE] = {step_choice_checked, step_choice_unchecked},
        [EVZMQ__PATH_MAP] = {step_map_checked, step_map_unchecked},
        [EVZMQ__PATH_STR_MAP] = {step_str_map_checked, step_str_map_unchecked},
        [EVZMQ__PATH_FLOAT64] = {step_float64, step_float64},
        [EVZMQ__PATH_INTEGER] = {step_integer, step_integer},
        [EVZMQ__PATH_RECORD] = {step_record, step_record},
        [EVZMQ__PATH_END] = {step_end_inner, step_end_inner},
        [EVZMQ__PATH_SPAN] = {step_slow, step_slow},
        [EVZMQ__PATH_OTHER] = {step_slow, step_slow},
    };
    for (struct evzmq__field_step *field = program->steps;; field++) {
        field->run = validate ? runs[field->path].checked : runs[field->path].unchecked;
        if (field->path == EVZMQ__PATH_END) {
            field->run = is_root ? step_end : step_end_inner;
            return;
        }
    }
}

const unsigned char *evzmq__decode_record(struct evzmq__reader *reader,
                                          const struct evzmq__program *program,
                                          const unsigned char *at, void *record)
{
    return decode_inner(reader, program, at, reader->end, record) == 0 ? reader->at : NULL;
}

/* A reader lies in the arena: so it needs no frame on the stack, and the steps can be jumped to. */
static EVZMQ__INLINE struct evzmq__reader *make_reader(const struct evzmq__schema_state *schema,
                                                       const unsigned char *start, size_t size,
                                                       struct evzmq_arena *arena,
                                                       const void **out_value, bool is_prefix,
                                                       struct evzmq_decode_error *out_error)
{
    _Static_assert(sizeof(struct evzmq__reader) <= sizeof(arena->scratch), "the reader has room");
    struct evzmq__reader *const reader = (void *)arena->scratch;
    reader->start = start;
    reader->end = start + size;
    reader->rules = &schema->rules;
    reader->arena = arena;
    reader->is_prefix = is_prefix;
    reader->out_value = out_value;
    reader->out_error = out_error; /* the fault is set where there is one */
    return reader;
}

/* Decodes what has not the usual prefix or for which the arena has to take more memory. */
EVZMQ__NOINLINE
static int decode_slow(const struct evzmq__schema_state *schema, const void *data, size_t size,
                       struct evzmq_arena *arena, const void **out_value, bool is_prefix,
                       struct evzmq_decode_error *out_error)
{
    static const unsigned char nothing[1] = {0};
    const struct evzmq__program *const root = schema->root;
    const unsigned char *const start = size == 0 ? nothing : data;
    struct evzmq__reader *const reader =
        make_reader(schema, start, size, arena, out_value, is_prefix, out_error);
    reader->memory_left = schema->memory_max;
    void *const value = evzmq__reader_take(reader, start, root->record_size);
    if (value == NULL) {
        return fail(reader);
    }
    if (decode_inner_slow(reader, root, start, value) != 0) {
        return -1;
    }
    /* The last step of the root has told of the value unless that has an unusual form. */
    return step_end(reader->at, reader->end, NULL, value, reader);
}

static EVZMQ__INLINE int decode(const struct evzmq__schema_state *schema, const void *data,
                                size_t size, struct evzmq_arena *arena, const void **out_value,
                                bool is_prefix, struct evzmq_decode_error *out_error)
{
    const struct evzmq__program *const root = schema->root;
    const unsigned char *const start = data;
    void *value;
    if (!EVZMQ__LIKELY(size >= schema->window_size_min && has_window(root, start) &&
                       evzmq__arena_try_cut(arena, root->record_size, root->record_cut, &value))) {
        return decode_slow(schema, data, size, arena, out_value, is_prefix, out_error);
    }
    struct evzmq__reader *const reader =
        make_reader(schema, start, size, arena, out_value, is_prefix, out_error);
    reader->memory_left = schema->memory_left;
    return root->steps[0].run(begin_record(root, start, value), start + size, root->steps, value,
                              reader);
}

int evzmq__schema_decode_whole(const void *state, const void *data, size_t size,
                               struct evzmq_arena *arena, const void **out_value,
                               struct evzmq_decode_error *out_error)
{
    return decode(state, data, size, arena, out_value, false, out_error);
}

int evzmq__schema_decode(const void *state, const void *data, size_t size,
                         struct evzmq_arena *arena, const void **out_value,
                         struct evzmq_decode_error *out_error)
{
    *out_error = (struct evzmq_decode_error){EVZMQ_DECODE_NOMEM, 0};
    return evzmq__schema_decode_whole(state, data, size, arena, out_value, out_error);
}

int evzmq__schema_decode_prefix(const void *state, const void *data, size_t size,
                                struct evzmq_arena *arena, const void **out_value, size_t *out_used,
                                struct evzmq_decode_error *out_error)
{
    *out_error = (struct evzmq_decode_error){EVZMQ_DECODE_NOMEM, 0};
    if (decode(state, data, size, arena, out_value, true, out_error) != 0) {
        return -1;
    }
    const struct evzmq__reader *const reader = (const void *)arena->scratch;
    *out_used = (size_t)(reader->at - reader->start);
    return 0;
}
