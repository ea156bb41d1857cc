/*
 * schema.h: what a schema becomes. schema.c checks the tables of a program and compiles them into
 * a struct evzmq__schema_state, which is the state of the codec and never changes; schema_decode.c
 * and schema_encode.c run it. One struct evzmq__program per different schema.
 */
#ifndef EVZMQ_PLUGIN_SCHEMA_H
#define EVZMQ_PLUGIN_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evzmq/codec.h>
#include <evzmq/schema.h>

#include "utf8.h"
#include "wire.h"

/* Keeps the rare paths out of the hot functions, whose registers they would take. */
#if defined(__GNUC__)
#define EVZMQ__NOINLINE __attribute__((noinline))
#define EVZMQ__COLD __attribute__((noinline, cold))
#define EVZMQ__LIKELY(condition) __builtin_expect(!!(condition), 1)
#define EVZMQ__INLINE inline __attribute__((always_inline))
#else
#define EVZMQ__NOINLINE
#define EVZMQ__COLD
#define EVZMQ__LIKELY(condition) (condition)
#define EVZMQ__INLINE inline
#endif

struct evzmq__program;

/* A field, ready to run. */
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
    enum evzmq_layout layout;
    uint32_t op_count;
    uint32_t required_count; /* fields up to the last required one: what an array must have */
    uint64_t required; /* bit i: field i is required */
    struct evzmq__field_op *ops;
    unsigned char *image; /* the record with every field absent: each decode starts as its copy */
    size_t record_size;
    bool is_covered; /* the fields and `absent` are all that the struct consists of */
    size_t absent_offset;
    const char *tag; /* NULL for none */
    size_t tag_size;
    unsigned char *tag_wire; /* the tag as it is encoded */
    size_t tag_wire_size;
    unsigned char *prefix; /* of an array with all fields: its head and the tag, as encoded */
    size_t prefix_size;
    const struct evzmq__program **members; /* of a union */
    size_t member_count;
};

struct evzmq__schema_state {
    struct evzmq__program *programs[EVZMQ_SCHEMAS_MAX];
    size_t program_count;
    const struct evzmq__program *root;
    size_t depth_max;
    size_t memory_max;
    bool validate_utf8;
};

/* The state of one decode. Functions that read take and give the place in the bytes, so that it
 * stays in a register; NULL is a failure that evzmq__reader_fail() has noted. */
struct evzmq__reader {
    const unsigned char *end;
    bool validate_utf8;
    size_t depth_max;
    size_t memory_left;
    struct evzmq_arena *arena;
    enum evzmq_decode_kind fault_kind;
    const unsigned char *fault;
};

/* Notes a failure and gives NULL. */
const unsigned char *evzmq__reader_fail(struct evzmq__reader *reader, enum evzmq_decode_kind kind,
                                        const unsigned char *at);

/* Notes that the value at `at` is missing, malformed, cut short, or else of the wrong type. */
const unsigned char *evzmq__reader_fail_type(struct evzmq__reader *reader, const unsigned char *at);

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
 * else NULL, and evzmq__read_str_slow() knows why. */
static inline const unsigned char *evzmq__find_str(const unsigned char *at,
                                                   const unsigned char *end, size_t *out_size)
{
    const size_t left = (size_t)(end - at);
    if (left == 0) {
        return NULL;
    }
    size_t head = 1;
    size_t size = at[0] ^ 0xa0u;
    if (size >= 32) {
        if (left < 3 || (at[0] != 0xd9 && at[0] != 0xda)) {
            return NULL;
        }
        head = at[0] == 0xd9 ? 2 : 3;
        size = at[0] == 0xd9 ? at[1] : (size_t)evzmq__wire_load16(at + 1);
    }
    if (size > left - head) {
        return NULL;
    }
    *out_size = size;
    return at + head;
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
    return reader->validate_utf8 ? evzmq__read_utf8(reader, data, size) : data + size;
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

/* Passes over a map inside `depth` containers of its span: from str to str or to anything. */
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

/* The span that stands for one without data. */
struct evzmq_any evzmq__span_default(enum evzmq_kind kind);

/* The methods of the codec. */
int evzmq__schema_decode(const void *state, const void *data, size_t size,
                         struct evzmq_arena *arena, const void **out_value,
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

#endif /* EVZMQ_PLUGIN_SCHEMA_H */
