/*
 * schema_encode.c: the second pass of encoding writes what the first one measured. It holds every
 * step against the end of the buffer all the same: a value that the caller changed in between must
 * not be written past it.
 *
 * The functions give the place after what they wrote, or NULL where it does not fit.
 */
#include "schema_encode.h"

#include <errno.h>

static unsigned char *put_record(unsigned char *out, unsigned char *end,
                                 const struct evzmq__program *program, const void *record);

static inline bool has_room(const unsigned char *out, const unsigned char *end, size_t size)
{
    return EVZMQ__LIKELY(size <= (size_t)(end - out));
}

/* Copies up to 32 bytes by loads and stores that overlap; more with memcpy(). */
static inline void copy_bytes(unsigned char *to, const void *from, size_t size)
{
    const unsigned char *const bytes = from;
    if (size > 32) {
        memcpy(to, bytes, size);
    } else if (size >= 16) {
        unsigned char head[16];
        unsigned char tail[16];
        memcpy(head, bytes, 16);
        memcpy(tail, bytes + size - 16, 16);
        memcpy(to, head, 16);
        memcpy(to + size - 16, tail, 16);
    } else if (size >= 8) {
        uint64_t head;
        uint64_t tail;
        memcpy(&head, bytes, 8);
        memcpy(&tail, bytes + size - 8, 8);
        memcpy(to, &head, 8);
        memcpy(to + size - 8, &tail, 8);
    } else if (size >= 4) {
        uint32_t head;
        uint32_t tail;
        memcpy(&head, bytes, 4);
        memcpy(&tail, bytes + size - 4, 4);
        memcpy(to, &head, 4);
        memcpy(to + size - 4, &tail, 4);
    } else if (size > 0) {
        to[0] = bytes[0];
        to[size / 2] = bytes[size / 2];
        to[size - 1] = bytes[size - 1];
    }
}

static inline unsigned char *put_raw(unsigned char *out, unsigned char *end, const void *data,
                                     size_t size)
{
    if (!has_room(out, end, size)) {
        return NULL;
    }
    copy_bytes(out, data, size);
    return out + size;
}

static inline unsigned char *put_str(unsigned char *out, unsigned char *end, const char *data,
                                     size_t size)
{
    if (size > UINT32_MAX || !has_room(out, end, evzmq__wire_str_head_size(size) + size)) {
        return NULL;
    }
    out = evzmq__wire_put_str_head(out, size);
    copy_bytes(out, data, size);
    return out + size;
}

static unsigned char *put_bin(unsigned char *out, unsigned char *end, const struct evzmq_bytes *bin)
{
    if (bin->size > UINT32_MAX ||
        !has_room(out, end, evzmq__wire_bin_head_size(bin->size) + bin->size)) {
        return NULL;
    }
    out = evzmq__wire_put_bin_head(out, bin->size);
    copy_bytes(out, bin->data, bin->size);
    return out + bin->size;
}

static inline unsigned char *put_nil(unsigned char *out, unsigned char *end)
{
    if (!has_room(out, end, 1)) {
        return NULL;
    }
    *out = EVZMQ__WIRE_NIL;
    return out + 1;
}

static inline unsigned char *put_span(unsigned char *out, unsigned char *end, unsigned kind,
                                      const struct evzmq_any *any)
{
    if (any->data == NULL) {
        const struct evzmq_any empty = evzmq__span_default((enum evzmq_kind)kind);
        return put_raw(out, end, empty.data, empty.size);
    }
    return put_raw(out, end, any->data, any->size);
}

static unsigned char *put_number(unsigned char *out, unsigned char *end, unsigned kind,
                                 const void *member)
{
    if (!has_room(out, end, evzmq__number_size(kind, member))) {
        return NULL;
    }
    if (kind == EVZMQ_KIND_FLOAT64) {
        return evzmq__wire_put(out, 0xcb, evzmq__wire_double_bits(*(const double *)member), 8);
    }
    if (kind == EVZMQ_KIND_FLOAT32) {
        return evzmq__wire_put(out, 0xca, evzmq__wire_float_bits(*(const float *)member), 4);
    }
    if (kind == EVZMQ_KIND_BOOL) {
        *out = *(const bool *)member ? EVZMQ__WIRE_TRUE : EVZMQ__WIRE_FALSE;
        return out + 1;
    }
    const struct evzmq_integer integer = evzmq__load_integer(kind, member);
    return evzmq__wire_put_integer(out, integer.bits, integer.is_negative);
}

EVZMQ__NOINLINE
static unsigned char *put_array(unsigned char *out, unsigned char *end,
                                const struct evzmq__field_op *op, const struct evzmq__array *array)
{
    if (!has_room(out, end, evzmq__wire_count_head_size(array->count))) {
        return NULL;
    }
    out = evzmq__wire_put_array_head(out, array->count);
    const unsigned char *item = array->items;
    for (size_t i = 0; i < array->count && out != NULL; i++, item += op->element_size) {
        const void *const element = item;
        const struct evzmq_str *const str = element;
        switch (op->element_kind) {
        case EVZMQ_KIND_STR:
            out = put_str(out, end, str->data, str->size);
            break;
        case EVZMQ_KIND_BIN:
            out = put_bin(out, end, element);
            break;
        case EVZMQ_KIND_RECORD:
            out = put_record(out, end, op->program, element);
            break;
        default:
            out = put_number(out, end, op->element_kind, element);
            break;
        }
    }
    return out;
}

EVZMQ__NOINLINE
static unsigned char *put_choice(unsigned char *out, unsigned char *end,
                                 const struct evzmq__field_op *op,
                                 const struct evzmq_choice *choice)
{
    switch (choice->kind) {
    case EVZMQ_CHOICE_BOOL:
        return put_number(out, end, EVZMQ_KIND_BOOL, &choice->as.boolean);
    case EVZMQ_CHOICE_INTEGER:
        return put_number(out, end, EVZMQ_KIND_INTEGER, &choice->as.integer);
    case EVZMQ_CHOICE_FLOAT:
        return put_number(out, end, EVZMQ_KIND_FLOAT64, &choice->as.real);
    case EVZMQ_CHOICE_STR:
        return put_str(out, end, choice->as.str.data, choice->as.str.size);
    case EVZMQ_CHOICE_BIN:
        return put_bin(out, end, &choice->as.bin);
    case EVZMQ_CHOICE_STR_ARRAY:
        return put_array(out, end, op,
                         &(struct evzmq__array){choice->as.strs.items, choice->as.strs.count});
    case EVZMQ_CHOICE_LIST:
        return put_span(out, end, EVZMQ_KIND_LIST, &choice->as.any);
    case EVZMQ_CHOICE_MAP:
        return put_span(out, end, EVZMQ_KIND_MAP, &choice->as.any);
    default:
        return put_nil(out, end);
    }
}

EVZMQ__NOINLINE
static unsigned char *put_union(unsigned char *out, unsigned char *end,
                                const struct evzmq__program *program,
                                const struct evzmq_union *chosen)
{
    const struct evzmq__program *const member = evzmq__find_member(program, chosen->which);
    if (member == NULL || chosen->record == NULL) {
        return NULL;
    }
    return put_record(out, end, member, chosen->record);
}

EVZMQ__NOINLINE
static unsigned char *put_field(unsigned char *out, unsigned char *end,
                                const struct evzmq__program *program,
                                const struct evzmq__field_op *op, const void *record)
{
    const void *member = (const unsigned char *)record + op->offset;
    if ((op->flags & EVZMQ_NILABLE) != 0 && evzmq__is_nil(op, member)) {
        return put_nil(out, end);
    }
    const struct evzmq_str *str = op->kind == EVZMQ_KIND_STR ? member : NULL;
    if (op->kind == EVZMQ_KIND_CHOICE) {
        const struct evzmq_choice *const choice = evzmq__effective_choice(program, op, member);
        if (choice->kind != EVZMQ_CHOICE_STR) {
            return put_choice(out, end, op, choice);
        }
        str = &choice->as.str;
    }
    if (str != NULL) {
        return put_str(out, end, str->data, str->size);
    }
    if (evzmq__kind_is_span(op->kind)) {
        return put_span(out, end, op->kind, member);
    }
    switch (op->kind) {
    case EVZMQ_KIND_BIN:
        return put_bin(out, end, member);
    case EVZMQ_KIND_RECORD:
        member = evzmq__load_pointer(member);
        return member == NULL ? NULL : put_record(out, end, op->program, member);
    case EVZMQ_KIND_UNION:
        return put_union(out, end, op->program, member);
    case EVZMQ_KIND_ARRAY:
        return put_array(out, end, op, member);
    default:
        member = (op->flags & EVZMQ_NILABLE) != 0 ? evzmq__load_pointer(member) : member;
        return put_number(out, end, op->kind, member);
    }
}

EVZMQ__NOINLINE
static unsigned char *put_map(unsigned char *out, unsigned char *end,
                              const struct evzmq__program *program, const void *record,
                              uint64_t absent)
{
    const size_t count = evzmq__count_pairs(program, absent);
    if (!has_room(out, end, evzmq__wire_count_head_size(count))) {
        return NULL;
    }
    out = evzmq__wire_put_map_head(out, count);
    for (size_t i = 0; i < program->op_count && out != NULL; i++) {
        const struct evzmq__field_op *const op = &program->ops[i];
        if (!evzmq__is_absent(absent, i)) {
            out = put_str(out, end, op->name, op->name_size);
            out = out == NULL ? NULL : put_field(out, end, program, op, record);
        }
    }
    return out;
}

/* The head and the tag of an array with `count` fields. */
static inline unsigned char *put_prefix(unsigned char *out, unsigned char *end,
                                        const struct evzmq__program *program, size_t count)
{
    const size_t elements = count + (program->tag != NULL ? 1u : 0u);
    if (!has_room(out, end, evzmq__wire_count_head_size(elements))) {
        return NULL;
    }
    out = evzmq__wire_put_array_head(out, elements);
    return program->tag == NULL ? out
                                : put_raw(out, end, program->tag_wire, program->tag_wire_size);
}

/* A str below 64 KiB, or nil. NULL: look closer. */
static inline unsigned char *put_usual_str(unsigned char *out, const unsigned char *end,
                                           const struct evzmq_str *str, bool is_nilable)
{
    const size_t room = (size_t)(end - out);
    const size_t size = str->size;
    if (!EVZMQ__LIKELY(str->data != NULL)) {
        if (room == 0 || !is_nilable) {
            return NULL;
        }
        *out = EVZMQ__WIRE_NIL;
        return out + 1;
    }
    if (size < 32) {
        if (!EVZMQ__LIKELY(size < room)) {
            return NULL;
        }
        out[0] = (unsigned char)(0xa0 + size);
        copy_bytes(out + 1, str->data, size);
        return out + 1 + size;
    }
    if (size >= 0x10000 || room < size + 3) {
        return NULL;
    }
    if (size < 0x100) {
        out[0] = 0xd9;
        out[1] = (unsigned char)size;
        out += 2;
    } else {
        out[0] = 0xda;
        evzmq__wire_store16(out + 1, size);
        out += 3;
    }
    copy_bytes(out, str->data, size);
    return out + size;
}

/* The head and the tag of an array with all its fields. What is copied with them is written over
 * later. */
static inline unsigned char *put_whole_prefix(unsigned char *out, unsigned char *end,
                                              const struct evzmq__program *program)
{
    if (EVZMQ__LIKELY(has_room(out, end, EVZMQ__PREFIX_WINDOW) &&
                      program->prefix_size <= EVZMQ__PREFIX_WINDOW)) {
        memcpy(out, program->prefix, EVZMQ__PREFIX_WINDOW);
        return out + program->prefix_size;
    }
    return put_prefix(out, end, program, program->op_count);
}

/* A field that has a usual value. NULL: look closer. */
static inline unsigned char *put_usual(unsigned char *out, unsigned char *end,
                                       const struct evzmq__field_step *field,
                                       const unsigned char *record)
{
    const void *const member = record + field->offset;
    const unsigned path = field->path;
    if (EVZMQ__LIKELY(path <= EVZMQ__PATH_CHOICE)) {
        if (path == EVZMQ__PATH_CHOICE) {
            const enum evzmq_choice_kind kind = evzmq__load_choice_kind(member);
            if (kind != EVZMQ_CHOICE_STR) {
                return kind == EVZMQ_CHOICE_NIL && field->is_nilable ? put_nil(out, end) : NULL;
            }
        }
        return put_usual_str(out, end, (const void *)(record + field->str_offset),
                             path == EVZMQ__PATH_STR && field->is_nilable);
    }
    if (path <= EVZMQ__PATH_STR_MAP || path == EVZMQ__PATH_SPAN) {
        const struct evzmq_any *const any = member;
        if (any->data != NULL) {
            return put_raw(out, end, any->data, any->size);
        }
        if (out == end || (path == EVZMQ__PATH_SPAN && !field->is_nilable)) {
            return NULL;
        }
        *out = field->is_nilable ? EVZMQ__WIRE_NIL : 0x80;
        return out + 1;
    }
    if (path <= EVZMQ__PATH_INTEGER && has_room(out, end, 9)) {
        if (path == EVZMQ__PATH_FLOAT64) {
            const double *const number = member;
            return evzmq__wire_put(out, 0xcb, evzmq__wire_double_bits(*number), 8);
        }
        const struct evzmq_integer *const integer = member;
        return !integer->is_negative && integer->bits > UINT32_MAX
                   ? evzmq__wire_put(out, 0xcf, integer->bits, 8)
                   : NULL;
    }
    if (path == EVZMQ__PATH_RECORD && field->is_nilable && evzmq__load_pointer(member) == NULL) {
        return put_nil(out, end);
    }
    return NULL;
}

/* An array with all its fields: what is usual about them here, the rest elsewhere. */
static unsigned char *put_whole_array(unsigned char *out, unsigned char *end,
                                      const struct evzmq__program *program, const void *record)
{
    out = put_whole_prefix(out, end, program);
    if (out == NULL) {
        return NULL;
    }
    for (const struct evzmq__field_step *field = program->steps; field->path != EVZMQ__PATH_END;
         field++) {
        unsigned char *const next = put_usual(out, end, field, record);
        if (EVZMQ__LIKELY(next != NULL)) {
            out = next;
            continue;
        }
        const struct evzmq__field_op *const op = &program->ops[field - program->steps];
        const void *const member = (const unsigned char *)record + field->offset;
        const void *const nested =
            field->path == EVZMQ__PATH_RECORD ? evzmq__load_pointer(member) : NULL;
        out = nested != NULL ? put_record(out, end, op->program, nested)
                             : put_field(out, end, program, op, record);
        if (!EVZMQ__LIKELY(out != NULL)) {
            return NULL;
        }
    }
    return out;
}

static unsigned char *put_record(unsigned char *out, unsigned char *end,
                                 const struct evzmq__program *program, const void *record)
{
    if (EVZMQ__LIKELY(evzmq__is_whole_array(program, record))) {
        return put_whole_array(out, end, program, record);
    }
    const uint64_t absent = evzmq__get_absent(program, record);
    if (program->layout == EVZMQ_LAYOUT_MAP) {
        return put_map(out, end, program, record, absent);
    }
    const size_t count = evzmq__count_elements(program, absent);
    if (program->layout == EVZMQ_LAYOUT_ARRAY) {
        out = put_prefix(out, end, program, count);
    }
    const struct evzmq__field_op *op = program->ops;
    for (const struct evzmq__field_op *const last = op + count; op != last && out != NULL; op++) {
        out = put_field(out, end, program, op, record);
    }
    return out;
}

int evzmq__schema_encode(const void *state, const void *value, void *buffer, size_t size)
{
    const struct evzmq__schema_state *const schema = state;
    const struct evzmq__program *const root = schema->root;
    unsigned char *const out = buffer;
    /* No record takes no bytes, and a buffer of none may have no address: nothing is computed from
     * it. */
    const unsigned char *const after = size == 0 ? NULL
                                       : root->layout == EVZMQ_LAYOUT_UNION
                                           ? put_union(out, out + size, root, value)
                                           : put_record(out, out + size, root, value);
    if (after == NULL || after != out + size) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}
