/*
 * schema.h: what a schema becomes. schema.c checks the tables of a program and compiles them into
 * a struct evzmq__schema_state, which is the state of the codec and never changes; schema_run.c,
 * schema_decode.c, schema_size.c and schema_encode.c run it. One struct evzmq__program per
 * different schema.
 */
#ifndef EVZMQ_PLUGIN_SCHEMA_H
#define EVZMQ_PLUGIN_SCHEMA_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evzmq/codec.h>
#include <evzmq/schema.h>

#include "arena.h"
#include "utf8.h"
#include "wire.h"

struct evzmq__program;

/* Which path a field takes in the usual case: decoding, its size, writing it. */
enum evzmq__field_path {
    EVZMQ__PATH_STR,
    EVZMQ__PATH_CHOICE, /* a choice of which a str is an alternative */
    EVZMQ__PATH_MAP,
    EVZMQ__PATH_STR_MAP,
    EVZMQ__PATH_FLOAT64,
    EVZMQ__PATH_INTEGER,
    EVZMQ__PATH_RECORD,
    EVZMQ__PATH_END, /* after the last field of a record */
    EVZMQ__PATH_SPAN, /* of another kind than those above */
    EVZMQ__PATH_OTHER
};

/* So many bytes of a prefix are compared at once. */
#define EVZMQ__PREFIX_WINDOW 32u

struct evzmq__field_step;
struct evzmq__field_op;
struct evzmq__reader;

/*
 * Decodes the field at `at` into its member, then those after it by calling their steps last, so
 * that all of them are one chain of jumps. Gives 0, or -1 after telling what was wrong.
 */
typedef int (*evzmq__step_run)(const unsigned char *at, const unsigned char *end,
                               const struct evzmq__field_step *field, unsigned char *record,
                               struct evzmq__reader *reader);

/*
 * What the usual case needs to know of a field. It is small and stands next to what it needs to
 * know of the program: some processors let a load wait for a recent store at the same place in its
 * page, so the fewer bytes are read while a record is written, the rarer that is. It made decoding
 * up to twice as slow.
 */
struct evzmq__field_step {
    evzmq__step_run run; /* what decodes it */
    union {
        const struct evzmq__field_op *op; /* of any other step */
        const struct evzmq__program *program; /* of a RECORD step */
    } as;
    uint16_t offset; /* of the member */
    uint16_t str_offset; /* of the str that the member is or, as a choice, holds */
    uint8_t path; /* enum evzmq__field_path */
    bool is_nilable;
    uint8_t size; /* of the member */
};

_Static_assert(EVZMQ_RECORD_SIZE_MAX <= UINT16_MAX + 1u, "offsets have 16 bits");

/* A field, for everything else. */
struct evzmq__field_op {
    uint8_t kind; /* enum evzmq_kind */
    uint8_t element_kind;
    uint8_t flags; /* EVZMQ_REQUIRED, EVZMQ_NILABLE */
    uint32_t offset;
    const struct evzmq__program *program; /* of a nested record, a union, an array of records */
    uint32_t alternatives;
    uint32_t element_size; /* of an array */
    uint64_t count_max;
    const char *name;
    uint32_t name_size;
    uint32_t size; /* of the member */
};

struct evzmq__program {
    const struct evzmq_schema *schema;
    uint32_t required_count; /* fields up to the last required one: what an array must have */
    uint64_t required; /* bit i: field i is required */
    unsigned char *image; /* the record with every field absent: each decode starts as its copy */
    const char *tag; /* NULL for none */
    size_t tag_size;
    unsigned char *tag_wire; /* the tag as it is encoded */
    size_t tag_wire_size;
    const struct evzmq__program **members; /* of a union */
    size_t member_count;
    size_t nesting; /* how many schemas one in another it is, itself included */
    size_t usual_size_min; /* what an array with all its fields has at least; SIZE_MAX: there is
                              none such, or its prefix has no room */
    /* What follows is read for every record. */
    struct evzmq__field_op *ops;
    uint32_t op_count;
    enum evzmq_layout layout;
    size_t absent_offset; /* of a record; a union has none */
    size_t record_size;
    size_t record_cut; /* record_size as the arena rounds it */
    size_t window_size_min; /* usual_size_min, and EVZMQ__PREFIX_WINDOW at least */
    size_t whole_size_min; /* the same where the record is covered; else SIZE_MAX */
    size_t prefix_size; /* of what an array with all its fields begins with: its head and its tag */
    uint32_t prefix_mask; /* a bit for each byte of it, if it has room in `prefix` */
    bool is_covered; /* the fields and `absent` are all that the struct consists of */
    /* That, if it has room, and zeros after it. */
    alignas(16) unsigned char prefix[EVZMQ__PREFIX_WINDOW];
    struct evzmq__field_step steps[]; /* of each field, and one that ends them */
};

/* What reading is held against, besides the end of the bytes. */
struct evzmq__read_rules {
    size_t depth_max;
    bool validate_utf8;
};

struct evzmq__schema_state {
    struct evzmq__program *programs[EVZMQ_SCHEMAS_MAX];
    size_t program_count;
    const struct evzmq__program *root;
    struct evzmq__read_rules rules;
    size_t memory_max;
    size_t memory_left; /* beside the root's record */
    size_t window_size_min; /* the root's; SIZE_MAX: schema_run.c needs to look closer */
};

/* The state of one decode, in the scratch of its arena. Functions that read take and give the place
 * in the bytes, so that it stays in a register; NULL is a failure that evzmq__reader_fail() has
 * noted. */
struct evzmq__reader {
    const unsigned char *start;
    const unsigned char *end;
    const struct evzmq__read_rules *rules;
    struct evzmq_arena *arena;
    size_t memory_left;
    const unsigned char *at; /* after the record, in another one or not, that ended last */
    bool is_prefix; /* more may follow the value */
    const void **out_value; /* this and the next are the caller's */
    struct evzmq_decode_error *out_error; /* may be NULL */
    enum evzmq_decode_kind fault_kind;
    const unsigned char *fault;
};

/* Notes a failure and gives NULL. */
const unsigned char *evzmq__reader_fail(struct evzmq__reader *reader, enum evzmq_decode_kind kind,
                                        const unsigned char *at);

/* Notes that the value at `at` is missing, malformed, cut short, or else of the wrong type. */
const unsigned char *evzmq__reader_fail_type(struct evzmq__reader *reader, const unsigned char *at);

/* Takes memory for the value at `at`; NULL is a failure that was noted. The size is not 0. What is
 * counted is what the arena gives: many small cuts cost far more than their bytes. */
static inline void *evzmq__reader_take(struct evzmq__reader *reader, const unsigned char *at,
                                       size_t size)
{
    const size_t rounded = evzmq__arena_round(size);
    if (rounded < size || rounded > reader->memory_left) {
        (void)evzmq__reader_fail(reader, EVZMQ_DECODE_MEMORY, at);
        return NULL;
    }
    void *const memory = evzmq__arena_cut(reader->arena, size);
    if (memory == NULL) {
        (void)evzmq__reader_fail(reader, EVZMQ_DECODE_NOMEM, at);
        return NULL;
    }
    reader->memory_left -= rounded;
    return memory;
}

/* Makes a member that may be nil so: one or more words, since all of them have a pointer. */
static inline void evzmq__set_nil(void *member, size_t size)
{
    enum { WORD = sizeof(void *) };
    unsigned char *const words = member;
    memset(words, 0, WORD);
    if (size > WORD) {
        memset(words + WORD, 0, WORD);
        if (size > (size_t)2 * WORD) {
            memset(words + 2 * WORD, 0, WORD);
            if (!EVZMQ__LIKELY(size == (size_t)3 * WORD)) {
                memset(member, 0, size);
            }
        }
    }
}

/* Reads a str in any form, and finds out what is wrong where there is none. */
EVZMQ__COLD
const unsigned char *evzmq__read_str_slow(struct evzmq__reader *reader, const unsigned char *at,
                                          struct evzmq_str *out);

/* Notes the failure of a str that is not UTF-8. */
EVZMQ__COLD
const unsigned char *evzmq__reader_fail_utf8(struct evzmq__reader *reader,
                                             const unsigned char *data, size_t size);

/* Checks the bytes of a str to be UTF-8 and gives what follows it. */
EVZMQ__NOINLINE
const unsigned char *evzmq__read_utf8(struct evzmq__reader *reader, const unsigned char *data,
                                      size_t size);

/* The bytes of the str at `at` and their size, if there is one below 64 KiB and all of it is there;
 * NULL where that is not so, or hard to tell near the end: evzmq__read_str_slow() knows. */
static inline const unsigned char *evzmq__find_str(const unsigned char *at,
                                                   const unsigned char *end, size_t *out_size)
{
    const size_t left = (size_t)(end - at);
    if (!EVZMQ__LIKELY(left >= 3)) {
        return NULL;
    }
    const size_t short_size = (size_t)at[0] - 0xa0;
    if (short_size < 32) {
        *out_size = short_size;
        return short_size < left ? at + 1 : NULL;
    }
    if (at[0] == 0xd9) {
        *out_size = at[1];
        return *out_size <= left - 2 ? at + 2 : NULL;
    }
    if (at[0] == 0xda) {
        *out_size = (size_t)evzmq__wire_load16(at + 1);
        return *out_size <= left - 3 ? at + 3 : NULL;
    }
    return NULL;
}

/* Reads a str. */
static inline const unsigned char *evzmq__read_str(struct evzmq__reader *reader,
                                                   const unsigned char *at, struct evzmq_str *out)
{
    size_t size = 0;
    const unsigned char *const data = evzmq__find_str(at, reader->end, &size);
    if (data == NULL) {
        return evzmq__read_str_slow(reader, at, out);
    }
    *out = (struct evzmq_str){(const char *)data, size};
    return reader->rules->validate_utf8 ? evzmq__read_utf8(reader, data, size) : data + size;
}

const unsigned char *evzmq__read_array_head_slow(struct evzmq__reader *reader,
                                                 const unsigned char *at, size_t *out_count);
const unsigned char *evzmq__read_map_head_slow(struct evzmq__reader *reader,
                                               const unsigned char *at, size_t *out_count);

/* Reads the head of an array that the bytes can hold: fewer than 16 elements here. */
static inline const unsigned char *
evzmq__read_array_head(struct evzmq__reader *reader, const unsigned char *at, size_t *out_count)
{
    const size_t left = (size_t)(reader->end - at);
    const size_t count = left == 0 ? SIZE_MAX : (size_t)*at - 0x90;
    if (count >= 16 || count >= left) {
        return evzmq__read_array_head_slow(reader, at, out_count);
    }
    *out_count = count;
    return at + 1;
}

/* The same of a map; the count is that of pairs. */
static inline const unsigned char *evzmq__read_map_head(struct evzmq__reader *reader,
                                                        const unsigned char *at, size_t *out_count)
{
    const size_t left = (size_t)(reader->end - at);
    const size_t count = left == 0 ? SIZE_MAX : (size_t)*at - 0x80;
    if (count >= 16 || 2 * count >= left) {
        return evzmq__read_map_head_slow(reader, at, out_count);
    }
    *out_count = count;
    return at + 1;
}

/* Passes over one value that nobody will look at: it must be well formed and no more. */
const unsigned char *evzmq__read_skip(struct evzmq__reader *reader, const unsigned char *at);

/* Where a pass over the pairs of a map has come to, and how many pairs are left there. */
struct evzmq__pairs {
    const unsigned char *at;
    size_t count;
};

/*
 * Passes over as many pairs of a map as are of the usual kinds: keys below 32 bytes; values of one
 * byte, or strings. Whatever is unusual about the next one evzmq__read_pairs() finds out.
 */
struct evzmq__pairs evzmq__pass_pairs(const unsigned char *at, const unsigned char *end,
                                      size_t count, bool validate, bool values_are_str);

/* Passes over a map with fewer than 16 pairs, all of them of the usual kinds and not checked to be
 * UTF-8; else NULL. */
const unsigned char *evzmq__pass_map(const unsigned char *at, const unsigned char *end,
                                     bool values_are_str);

/* Passes over the pairs of a map inside `depth` containers of its span, the first of which is
 * unusual: from str to str or to anything. */
const unsigned char *evzmq__read_pairs(struct evzmq__reader *reader, const unsigned char *at,
                                       size_t count, size_t depth, bool values_are_str);

/* The same of a whole map. */
const unsigned char *evzmq__read_map(struct evzmq__reader *reader, const unsigned char *at,
                                     size_t depth, bool values_are_str);

/* Passes over one value of a span's kind (EVZMQ_KIND_ANY to EVZMQ_KIND_MAP_LIST) and checks it. */
const unsigned char *evzmq__read_span(struct evzmq__reader *reader, const unsigned char *at,
                                      enum evzmq_kind kind);

/* Decodes a bool or a number into a member of its own type. */
const unsigned char *evzmq__decode_number(struct evzmq__reader *reader, unsigned kind,
                                          const unsigned char *at, void *member);

const unsigned char *evzmq__decode_bin(struct evzmq__reader *reader, const unsigned char *at,
                                       struct evzmq_bytes *out);

/* Decodes a field that is not nil, whatever its kind. */
EVZMQ__NOINLINE
const unsigned char *evzmq__decode_field(struct evzmq__reader *reader,
                                         const struct evzmq__field_op *op, const unsigned char *at,
                                         void *member);

/* Decodes a record into the struct at `record`; the second one does where it has not the usual
 * form. */
const unsigned char *evzmq__decode_record(struct evzmq__reader *reader,
                                          const struct evzmq__program *program,
                                          const unsigned char *at, void *record);
EVZMQ__NOINLINE
const unsigned char *evzmq__decode_record_slow(struct evzmq__reader *reader,
                                               const struct evzmq__program *program,
                                               const unsigned char *at, void *record);

EVZMQ__NOINLINE
const unsigned char *evzmq__decode_union(struct evzmq__reader *reader,
                                         const struct evzmq__program *program,
                                         const unsigned char *at, struct evzmq_union *out);

/* The span that stands for one without data. */
struct evzmq_any evzmq__span_default(enum evzmq_kind kind);

/* Sets what decodes the fields of a record, with or without the check of text; the root is the
 * outermost record and tells of the value at its end. */
void evzmq__link_steps(struct evzmq__program *program, bool validate, bool is_root);

/* The codec's evzmq__whole_decode: leaves *out_error alone where memory runs out. */
int evzmq__schema_decode_whole(const void *state, const void *data, size_t size,
                               struct evzmq_arena *arena, const void **out_value,
                               struct evzmq_decode_error *out_error);

/* The methods of the codec. */
int evzmq__schema_decode(const void *state, const void *data, size_t size,
                         struct evzmq_arena *arena, const void **out_value,
                         struct evzmq_decode_error *out_error);
int evzmq__schema_decode_prefix(const void *state, const void *data, size_t size,
                                struct evzmq_arena *arena, const void **out_value, size_t *out_used,
                                struct evzmq_decode_error *out_error);
int evzmq__schema_encoded_size(const void *state, const void *value, size_t *out_size);
int evzmq__schema_encode(const void *state, const void *value, void *buffer, size_t size);

static inline bool evzmq__kind_is_span(unsigned kind)
{
    return kind >= EVZMQ_KIND_ANY && kind <= EVZMQ_KIND_MAP_LIST;
}

static inline bool evzmq__kind_is_number(unsigned kind)
{
    return kind >= EVZMQ_KIND_BOOL && kind <= EVZMQ_KIND_FLOAT64;
}

/* The size of a member of a simple kind, 0 for the others. */
size_t evzmq__kind_size(unsigned kind);

/* Whether a schema is right in itself, without what it refers to, which may not be at hand yet. If
 * not, *out says why unless it did before, and errno is EINVAL. */
bool evzmq__schema_check_one(struct evzmq_schema_fault *out, const struct evzmq_schema *schema,
                             size_t nesting);

/* Notes a fault unless one was noted before, with errno EINVAL; false. */
bool evzmq__schema_fault(struct evzmq_schema_fault *out, const struct evzmq_schema *schema,
                         const struct evzmq_field *field, const char *reason);

#endif /* EVZMQ_PLUGIN_SCHEMA_H */
