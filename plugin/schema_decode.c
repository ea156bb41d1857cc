/*
 * schema_decode.c: bytes to records, whatever form they have. The usual form is read by
 * schema_run.c, which leaves the rest to this; nested records recurse, as deep as the schema does
 * and no deeper. Peers choose the bytes, so every step is held against the end of the bytes, every
 * array against them and the memory limit.
 */
#include "schema.h"

static const unsigned char *decode_span(struct evzmq__reader *reader, unsigned kind,
                                        const unsigned char *at, struct evzmq_any *out)
{
    const unsigned char *const next = evzmq__read_span(reader, at, (enum evzmq_kind)kind);
    if (next != NULL) {
        out->data = at;
        out->size = (size_t)(next - at);
    }
    return next;
}

/* The layout that every EVZMQ_ARRAY_OF() has. */
struct array {
    const void *items;
    size_t count;
};

static const unsigned char *decode_element(struct evzmq__reader *reader,
                                           const struct evzmq__field_op *op,
                                           const unsigned char *at, void *element)
{
    switch (op->element_kind) {
    case EVZMQ_KIND_STR:
        return evzmq__read_str(reader, at, element);
    case EVZMQ_KIND_BIN:
        return evzmq__decode_bin(reader, at, element);
    case EVZMQ_KIND_RECORD:
        return evzmq__decode_record(reader, op->program, at, element);
    default:
        return evzmq__decode_number(reader, op->element_kind, at, element);
    }
}

static const unsigned char *decode_array(struct evzmq__reader *reader,
                                         const struct evzmq__field_op *op, const unsigned char *at,
                                         struct array *out)
{
    static const uint64_t nothing[1] = {0};
    const unsigned char *const start = at;
    size_t count = 0;
    at = evzmq__read_array_head(reader, at, &count);
    if (at == NULL) {
        return NULL;
    }
    if (count > op->count_max) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_LENGTH, start);
    }
    if (count == 0) {
        out->items = nothing;
        out->count = 0;
        return at;
    }
    if (count > SIZE_MAX / op->element_size) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_MEMORY, start);
    }
    unsigned char *const items = evzmq__reader_take(reader, start, count * op->element_size);
    if (items == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count && at != NULL; i++) {
        at = decode_element(reader, op, at, items + i * op->element_size);
    }
    out->items = items;
    out->count = count;
    return at;
}

static bool allows(const struct evzmq__field_op *op, enum evzmq_choice_kind kind)
{
    return (op->alternatives & (1u << (unsigned)kind)) != 0;
}

/* An array in a choice: of strings, or a span. */
static const unsigned char *decode_choice_array(struct evzmq__reader *reader,
                                                const struct evzmq__field_op *op,
                                                const unsigned char *at, struct evzmq_choice *out)
{
    if (allows(op, EVZMQ_CHOICE_LIST)) {
        out->kind = EVZMQ_CHOICE_LIST;
        return decode_span(reader, EVZMQ_KIND_LIST, at, &out->as.any);
    }
    struct array array = {NULL, 0};
    out->kind = EVZMQ_CHOICE_STR_ARRAY;
    at = decode_array(reader, op, at, &array);
    out->as.strs.items = array.items;
    out->as.strs.count = array.count;
    return at;
}

static const unsigned char *decode_choice_number(struct evzmq__reader *reader,
                                                 const struct evzmq__field_op *op,
                                                 const unsigned char *at, struct evzmq_choice *out)
{
    const bool is_float = *at == 0xca || *at == 0xcb;
    if (!is_float && allows(op, EVZMQ_CHOICE_INTEGER)) {
        out->kind = EVZMQ_CHOICE_INTEGER;
        return evzmq__decode_number(reader, EVZMQ_KIND_INTEGER, at, &out->as.integer);
    }
    if (allows(op, EVZMQ_CHOICE_FLOAT)) {
        out->kind = EVZMQ_CHOICE_FLOAT;
        return evzmq__decode_number(reader, EVZMQ_KIND_FLOAT64, at, &out->as.real);
    }
    return evzmq__reader_fail_type(reader, at);
}

static const unsigned char *decode_choice(struct evzmq__reader *reader,
                                          const struct evzmq__field_op *op, const unsigned char *at,
                                          struct evzmq_choice *out)
{
    const unsigned first = at == reader->end ? EVZMQ__WIRE_NEVER_USED : *at;
    if (((first & 0xe0u) == 0xa0u || (first >= 0xd9 && first <= 0xdb)) &&
        allows(op, EVZMQ_CHOICE_STR)) {
        out->kind = EVZMQ_CHOICE_STR;
        return evzmq__read_str(reader, at, &out->as.str);
    }
    if (((first & 0xf0u) == 0x90u || first == 0xdc || first == 0xdd) &&
        (allows(op, EVZMQ_CHOICE_LIST) || allows(op, EVZMQ_CHOICE_STR_ARRAY))) {
        return decode_choice_array(reader, op, at, out);
    }
    if (((first & 0xf0u) == 0x80u || first == 0xde || first == 0xdf) &&
        allows(op, EVZMQ_CHOICE_MAP)) {
        out->kind = EVZMQ_CHOICE_MAP;
        return decode_span(reader, EVZMQ_KIND_MAP, at, &out->as.any);
    }
    if (first < 0x80 || first >= 0xe0 || (first >= 0xca && first <= 0xd3)) {
        return decode_choice_number(reader, op, at, out);
    }
    if ((first & 0xfeu) == EVZMQ__WIRE_FALSE && allows(op, EVZMQ_CHOICE_BOOL)) {
        out->kind = EVZMQ_CHOICE_BOOL;
        return evzmq__decode_number(reader, EVZMQ_KIND_BOOL, at, &out->as.boolean);
    }
    if (first >= 0xc4 && first <= 0xc6 && allows(op, EVZMQ_CHOICE_BIN)) {
        out->kind = EVZMQ_CHOICE_BIN;
        return evzmq__decode_bin(reader, at, &out->as.bin);
    }
    return evzmq__reader_fail_type(reader, at);
}

/* Whether the encoded tag stands at `at`: the form that every encoder writes. */
static inline bool tag_is_at(const struct evzmq__reader *reader,
                             const struct evzmq__program *program, const unsigned char *at)
{
    return (size_t)(reader->end - at) >= program->tag_wire_size &&
           memcmp(at, program->tag_wire, program->tag_wire_size) == 0;
}

static bool tag_equals(const struct evzmq__program *program, const struct evzmq_str *tag)
{
    return tag->size == program->tag_size && memcmp(tag->data, program->tag, tag->size) == 0;
}

static const unsigned char *decode_tag(struct evzmq__reader *reader,
                                       const struct evzmq__program *program,
                                       const unsigned char *at)
{
    if (tag_is_at(reader, program, at)) {
        return at + program->tag_wire_size;
    }
    struct evzmq_str tag;
    const unsigned char *const next = evzmq__read_str(reader, at, &tag);
    if (next != NULL && !tag_equals(program, &tag)) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_VALUE, at);
    }
    return next;
}

/* Decodes a nil-able number: into the arena, or nil by the image's NULL. */
static const unsigned char *decode_pointer(struct evzmq__reader *reader,
                                           const struct evzmq__field_op *op,
                                           const unsigned char *at, const void **out)
{
    void *const value = evzmq__reader_take(reader, at, evzmq__kind_size(op->kind));
    *out = value;
    return value == NULL ? NULL : evzmq__decode_number(reader, op->kind, at, value);
}

/* Decodes the fields of an array after its tag; `start` is where the array began. */
static const unsigned char *decode_elements(struct evzmq__reader *reader,
                                            const struct evzmq__program *program,
                                            const unsigned char *start, const unsigned char *at,
                                            size_t count, void *record);

const unsigned char *evzmq__decode_union(struct evzmq__reader *reader,
                                         const struct evzmq__program *program,
                                         const unsigned char *at, struct evzmq_union *out)
{
    const unsigned char *const start = at;
    size_t count = 0;
    at = evzmq__read_array_head(reader, at, &count);
    if (at == NULL) {
        return NULL;
    }
    if (count == 0) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_LENGTH, start);
    }
    const struct evzmq__program *which = NULL;
    for (size_t i = 0; i < program->member_count && which == NULL; i++) {
        which = tag_is_at(reader, program->members[i], at) ? program->members[i] : NULL;
    }
    if (which != NULL) {
        at += which->tag_wire_size;
    } else {
        struct evzmq_str tag;
        const unsigned char *const next = evzmq__read_str(reader, at, &tag);
        if (next == NULL) {
            return NULL;
        }
        for (size_t i = 0; i < program->member_count && which == NULL; i++) {
            which = tag_equals(program->members[i], &tag) ? program->members[i] : NULL;
        }
        if (which == NULL) {
            return evzmq__reader_fail(reader, EVZMQ_DECODE_VALUE, at);
        }
        at = next;
    }
    void *const record = evzmq__reader_take(reader, start, which->record_size);
    if (record == NULL) {
        return NULL;
    }
    out->which = which->schema;
    out->record = record;
    return decode_elements(reader, which, start, at, count - 1, record);
}

/* Decodes a nested record: into the arena. */
static const unsigned char *decode_nested(struct evzmq__reader *reader,
                                          const struct evzmq__program *program,
                                          const unsigned char *at, const void **out)
{
    void *const record = evzmq__reader_take(reader, at, program->record_size);
    *out = record;
    return record == NULL ? NULL : evzmq__decode_record(reader, program, at, record);
}

const unsigned char *evzmq__decode_field(struct evzmq__reader *reader,
                                         const struct evzmq__field_op *op, const unsigned char *at,
                                         void *member)
{
    switch (op->kind) {
    case EVZMQ_KIND_STR:
        return evzmq__read_str(reader, at, member);
    case EVZMQ_KIND_BIN:
        return evzmq__decode_bin(reader, at, member);
    case EVZMQ_KIND_ANY:
    case EVZMQ_KIND_MAP:
    case EVZMQ_KIND_STR_MAP:
    case EVZMQ_KIND_LIST:
    case EVZMQ_KIND_MAP_LIST:
        return decode_span(reader, op->kind, at, member);
    case EVZMQ_KIND_CHOICE:
        return decode_choice(reader, op, at, member);
    case EVZMQ_KIND_RECORD:
        return decode_nested(reader, op->program, at, member);
    case EVZMQ_KIND_UNION:
        return evzmq__decode_union(reader, op->program, at, member);
    case EVZMQ_KIND_ARRAY:
        return decode_array(reader, op, at, member);
    default:
        if ((op->flags & EVZMQ_NILABLE) != 0) {
            return decode_pointer(reader, op, at, member);
        }
        return evzmq__decode_number(reader, op->kind, at, member);
    }
}

/* Decodes fields one after the other. */
static const unsigned char *decode_fields(struct evzmq__reader *reader,
                                          const struct evzmq__field_op *op, size_t count,
                                          const unsigned char *at, void *record)
{
    for (size_t i = 0; i < count && at != NULL; i++, op++) {
        void *const member = (unsigned char *)record + op->offset;
        if ((op->flags & EVZMQ_NILABLE) != 0 && at != reader->end && *at == EVZMQ__WIRE_NIL) {
            evzmq__set_nil(member, op->size);
            at += 1;
        } else {
            at = evzmq__decode_field(reader, op, at, member);
        }
    }
    return at;
}

/* Notes which fields were absent, where the record has a place for it. */
static void store_absent(const struct evzmq__program *program, void *record, uint64_t absent)
{
    if (program->absent_offset != EVZMQ_ABSENT_NONE) {
        *(uint64_t *)(void *)((unsigned char *)record + program->absent_offset) = absent;
    }
}

/* The bits of the first `count` fields. */
static uint64_t first_fields(size_t count)
{
    return count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1;
}

static const unsigned char *decode_elements(struct evzmq__reader *reader,
                                            const struct evzmq__program *program,
                                            const unsigned char *start, const unsigned char *at,
                                            size_t count, void *record)
{
    if (count < program->required_count) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_LENGTH, start);
    }
    if (count < program->op_count || !program->is_covered) {
        memcpy(record, program->image, program->record_size);
    }
    const size_t known = count < program->op_count ? count : program->op_count;
    at = decode_fields(reader, program->ops, known, at, record);
    store_absent(program, record, first_fields(program->op_count) & ~first_fields(known));
    for (size_t i = known; i < count && at != NULL; i++) {
        at = evzmq__read_skip(reader, at);
    }
    return at;
}

/* The field with a name. Encoders write fields in order, so the search starts at `hint`. */
static size_t find_field(const struct evzmq__program *program, const struct evzmq_str *name,
                         size_t hint)
{
    for (size_t i = 0; i < program->op_count; i++) {
        const size_t index = hint + i < program->op_count ? hint + i : hint + i - program->op_count;
        const struct evzmq__field_op *const op = &program->ops[index];
        if (op->name_size == name->size && memcmp(op->name, name->data, name->size) == 0) {
            return index;
        }
    }
    return program->op_count;
}

static const unsigned char *decode_map(struct evzmq__reader *reader,
                                       const struct evzmq__program *program,
                                       const unsigned char *at, void *record)
{
    const unsigned char *const start = at;
    size_t count = 0;
    at = evzmq__read_map_head(reader, at, &count);
    if (at == NULL) {
        return NULL;
    }
    memcpy(record, program->image, program->record_size);
    uint64_t absent = first_fields(program->op_count);
    size_t hint = 0;
    for (size_t i = 0; i < count; i++) {
        struct evzmq_str name;
        at = evzmq__read_str(reader, at, &name);
        if (at == NULL) {
            return NULL;
        }
        const size_t index = find_field(program, &name, hint);
        if (index == program->op_count) {
            at = evzmq__read_skip(reader, at);
        } else {
            at = decode_fields(reader, &program->ops[index], 1, at, record);
            absent &= ~(UINT64_C(1) << index);
            hint = index + 1 < program->op_count ? index + 1 : 0;
        }
        if (at == NULL) {
            return NULL;
        }
    }
    if ((absent & program->required) != 0) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_LENGTH, start);
    }
    store_absent(program, record, absent);
    return at;
}

const unsigned char *evzmq__decode_record_slow(struct evzmq__reader *reader,
                                               const struct evzmq__program *program,
                                               const unsigned char *at, void *record)
{
    if (program->layout == EVZMQ_LAYOUT_UNION) {
        return evzmq__decode_union(reader, program, at, record);
    }
    if (program->layout == EVZMQ_LAYOUT_MAP) {
        return decode_map(reader, program, at, record);
    }
    if (program->layout == EVZMQ_LAYOUT_BARE) {
        memcpy(record, program->image, program->record_size);
        store_absent(program, record, 0);
        return decode_fields(reader, program->ops, 1, at, record);
    }
    const unsigned char *const start = at;
    size_t count = 0;
    at = evzmq__read_array_head(reader, at, &count);
    if (at == NULL) {
        return NULL;
    }
    if (program->tag != NULL) {
        if (count == 0) {
            return evzmq__reader_fail(reader, EVZMQ_DECODE_LENGTH, start);
        }
        at = decode_tag(reader, program, at);
        if (at == NULL) {
            return NULL;
        }
        count -= 1;
    }
    return decode_elements(reader, program, start, at, count, record);
}
