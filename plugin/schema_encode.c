/*
 * schema_encode.c: records to bytes, in two passes over the same tables: the first checks the value
 * and adds up its exact size, the second writes into a buffer of that size. The second holds every
 * step against the end of the buffer all the same: a value that the caller changed in between must
 * not write past it.
 */
#include "schema.h"

#include <errno.h>

/* One pass: a sum of bytes, or a place to write to. */
struct writer {
    const struct evzmq__schema_state *state;
    size_t total;
    unsigned char *at;
    unsigned char *end;
};

/* The layout that every EVZMQ_ARRAY_OF() has. */
struct array {
    const void *items;
    size_t count;
};

static bool size_record(struct writer *writer, const struct evzmq__program *program,
                        const void *record);
static bool put_record(struct writer *writer, const struct evzmq__program *program,
                       const void *record);

static bool invalid(int error)
{
    errno = error;
    return false;
}

static inline bool add(struct writer *writer, size_t size)
{
    if (size > SIZE_MAX - writer->total) {
        return invalid(EOVERFLOW);
    }
    writer->total += size;
    return true;
}

static inline bool has_room(const struct writer *writer, size_t size)
{
    return size <= (size_t)(writer->end - writer->at);
}

/* Copies up to 16 bytes by two loads and two stores that overlap; more with memcpy(). */
static inline void copy_bytes(unsigned char *to, const void *from, size_t size)
{
    const unsigned char *const bytes = from;
    if (size > 16) {
        memcpy(to, bytes, size);
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
    } else {
        for (size_t i = 0; i < size; i++) {
            to[i] = bytes[i];
        }
    }
}

/* Strings and binaries. */

static inline bool size_payload(struct writer *writer, const void *data, size_t size, size_t head)
{
    if (data == NULL && size != 0) {
        return invalid(EINVAL);
    }
    if (size > UINT32_MAX) {
        return invalid(EOVERFLOW);
    }
    return add(writer, head + size);
}

static inline bool size_str(struct writer *writer, const struct evzmq_str *str)
{
    return size_payload(writer, str->data, str->size, evzmq__wire_str_head_size(str->size));
}

static inline bool size_bin(struct writer *writer, const struct evzmq_bytes *bin)
{
    return size_payload(writer, bin->data, bin->size, evzmq__wire_bin_head_size(bin->size));
}

static inline bool put_str(struct writer *writer, const char *data, size_t size)
{
    if (size > UINT32_MAX || !has_room(writer, evzmq__wire_str_head_size(size) + size)) {
        return invalid(EINVAL);
    }
    unsigned char *const at = evzmq__wire_put_str_head(writer->at, size);
    copy_bytes(at, data, size);
    writer->at = at + size;
    return true;
}

static bool put_bin(struct writer *writer, const struct evzmq_bytes *bin)
{
    if (bin->size > UINT32_MAX ||
        !has_room(writer, evzmq__wire_bin_head_size(bin->size) + bin->size)) {
        return invalid(EINVAL);
    }
    unsigned char *const at = evzmq__wire_put_bin_head(writer->at, bin->size);
    copy_bytes(at, bin->data, bin->size);
    writer->at = at + bin->size;
    return true;
}

static inline bool put_raw(struct writer *writer, const void *data, size_t size)
{
    if (!has_room(writer, size)) {
        return invalid(EINVAL);
    }
    copy_bytes(writer->at, data, size);
    writer->at += size;
    return true;
}

static inline bool put_nil(struct writer *writer)
{
    if (!has_room(writer, 1)) {
        return invalid(EINVAL);
    }
    *writer->at++ = EVZMQ__WIRE_NIL;
    return true;
}

/* Spans: checked once, copied as they are. */

static bool size_span(struct writer *writer, unsigned kind, const struct evzmq_any *any)
{
    if (any->data == NULL) {
        return any->size == 0 ? add(writer, 1) : invalid(EINVAL);
    }
    if (any->size == 0) {
        return invalid(EINVAL);
    }
    const unsigned char *const start = any->data;
    struct evzmq__reader reader = {.end = start + any->size, .depth_max = writer->state->depth_max};
    if (evzmq__read_span(&reader, start, (enum evzmq_kind)kind) != reader.end) {
        return invalid(EINVAL);
    }
    return add(writer, any->size);
}

static bool put_span(struct writer *writer, unsigned kind, const struct evzmq_any *any)
{
    if (any->data == NULL) {
        const struct evzmq_any empty = evzmq__span_default((enum evzmq_kind)kind);
        return put_raw(writer, empty.data, empty.size);
    }
    return put_raw(writer, any->data, any->size);
}

/* Bools and numbers. */

static struct evzmq_integer load_integer(unsigned kind, const void *member)
{
    switch (kind) {
    case EVZMQ_KIND_INT8:
        return evzmq_integer_from_int64(*(const int8_t *)member);
    case EVZMQ_KIND_INT16:
        return evzmq_integer_from_int64(*(const int16_t *)member);
    case EVZMQ_KIND_INT32:
        return evzmq_integer_from_int64(*(const int32_t *)member);
    case EVZMQ_KIND_INT64:
        return evzmq_integer_from_int64(*(const int64_t *)member);
    case EVZMQ_KIND_UINT8:
        return evzmq_integer_from_uint64(*(const uint8_t *)member);
    case EVZMQ_KIND_UINT16:
        return evzmq_integer_from_uint64(*(const uint16_t *)member);
    case EVZMQ_KIND_UINT32:
        return evzmq_integer_from_uint64(*(const uint32_t *)member);
    case EVZMQ_KIND_UINT64:
        return evzmq_integer_from_uint64(*(const uint64_t *)member);
    default:
        return *(const struct evzmq_integer *)member;
    }
}

static size_t number_size(unsigned kind, const void *member)
{
    if (kind == EVZMQ_KIND_FLOAT64) {
        return 9;
    }
    if (kind == EVZMQ_KIND_FLOAT32) {
        return 5;
    }
    if (kind == EVZMQ_KIND_BOOL) {
        return 1;
    }
    const struct evzmq_integer integer = load_integer(kind, member);
    return evzmq__wire_integer_size(integer.bits, integer.is_negative);
}

static bool put_number(struct writer *writer, unsigned kind, const void *member)
{
    if (!has_room(writer, number_size(kind, member))) {
        return invalid(EINVAL);
    }
    if (kind == EVZMQ_KIND_FLOAT64) {
        writer->at =
            evzmq__wire_put(writer->at, 0xcb, evzmq__wire_double_bits(*(const double *)member), 8);
    } else if (kind == EVZMQ_KIND_FLOAT32) {
        writer->at =
            evzmq__wire_put(writer->at, 0xca, evzmq__wire_float_bits(*(const float *)member), 4);
    } else if (kind == EVZMQ_KIND_BOOL) {
        *writer->at++ = *(const bool *)member ? EVZMQ__WIRE_TRUE : EVZMQ__WIRE_FALSE;
    } else {
        const struct evzmq_integer integer = load_integer(kind, member);
        writer->at = evzmq__wire_put_integer(writer->at, integer.bits, integer.is_negative);
    }
    return true;
}

/* An integer's sign and its bits must agree, or another number would arrive. */
static bool check_number(unsigned kind, const void *member)
{
    const struct evzmq_integer *const integer = member;
    return kind != EVZMQ_KIND_INTEGER || !integer->is_negative || integer->bits > INT64_MAX ||
           invalid(EINVAL);
}

/* Arrays. */

static bool size_array(struct writer *writer, const struct evzmq__field_op *op,
                       const struct array *array)
{
    if ((array->items == NULL && array->count != 0) || array->count > op->count_max) {
        return invalid(EINVAL);
    }
    if (array->count > UINT32_MAX) {
        return invalid(EOVERFLOW);
    }
    bool fine = add(writer, evzmq__wire_count_head_size(array->count));
    const unsigned char *item = array->items;
    for (size_t i = 0; i < array->count && fine; i++, item += op->element_size) {
        const void *const element = item;
        switch (op->element_kind) {
        case EVZMQ_KIND_STR:
            fine = size_str(writer, element);
            break;
        case EVZMQ_KIND_BIN:
            fine = size_bin(writer, element);
            break;
        case EVZMQ_KIND_RECORD:
            fine = size_record(writer, op->program, element);
            break;
        default:
            fine = check_number(op->element_kind, element) &&
                   add(writer, number_size(op->element_kind, element));
            break;
        }
    }
    return fine;
}

static bool put_array(struct writer *writer, const struct evzmq__field_op *op,
                      const struct array *array)
{
    if (!has_room(writer, evzmq__wire_count_head_size(array->count))) {
        return invalid(EINVAL);
    }
    writer->at = evzmq__wire_put_array_head(writer->at, array->count);
    bool fine = true;
    const unsigned char *item = array->items;
    for (size_t i = 0; i < array->count && fine; i++, item += op->element_size) {
        const void *const element = item;
        const struct evzmq_str *const str = element;
        switch (op->element_kind) {
        case EVZMQ_KIND_STR:
            fine = put_str(writer, str->data, str->size);
            break;
        case EVZMQ_KIND_BIN:
            fine = put_bin(writer, element);
            break;
        case EVZMQ_KIND_RECORD:
            fine = put_record(writer, op->program, element);
            break;
        default:
            fine = put_number(writer, op->element_kind, element);
            break;
        }
    }
    return fine;
}

/* Choices and unions. */

/* The choice that is meant: the member's, or the default where it holds nothing. */
static const struct evzmq_choice *effective_choice(const struct evzmq__program *program,
                                                   const struct evzmq__field_op *op,
                                                   const struct evzmq_choice *choice)
{
    if (choice->kind == EVZMQ_CHOICE_NIL && (op->flags & EVZMQ_NILABLE) == 0) {
        return (const void *)(program->image + op->offset);
    }
    return choice;
}

static bool size_choice(struct writer *writer, const struct evzmq__field_op *op,
                        const struct evzmq_choice *choice)
{
    if (choice->kind == EVZMQ_CHOICE_NIL && (op->flags & EVZMQ_NILABLE) != 0) {
        return add(writer, 1);
    }
    if ((unsigned)choice->kind >= EVZMQ_CHOICE_KINDS ||
        (op->alternatives & (1u << (unsigned)choice->kind)) == 0) {
        return invalid(EINVAL);
    }
    switch (choice->kind) {
    case EVZMQ_CHOICE_BOOL:
        return add(writer, 1);
    case EVZMQ_CHOICE_INTEGER:
        return check_number(EVZMQ_KIND_INTEGER, &choice->as.integer) &&
               add(writer, number_size(EVZMQ_KIND_INTEGER, &choice->as.integer));
    case EVZMQ_CHOICE_FLOAT:
        return add(writer, 9);
    case EVZMQ_CHOICE_STR:
        return size_str(writer, &choice->as.str);
    case EVZMQ_CHOICE_BIN:
        return size_bin(writer, &choice->as.bin);
    case EVZMQ_CHOICE_STR_ARRAY:
        return size_array(writer, op,
                          &(struct array){choice->as.strs.items, choice->as.strs.count});
    case EVZMQ_CHOICE_LIST:
        return size_span(writer, EVZMQ_KIND_LIST, &choice->as.any);
    default:
        return size_span(writer, EVZMQ_KIND_MAP, &choice->as.any);
    }
}

static bool put_choice(struct writer *writer, const struct evzmq__field_op *op,
                       const struct evzmq_choice *choice)
{
    switch (choice->kind) {
    case EVZMQ_CHOICE_BOOL:
        return put_number(writer, EVZMQ_KIND_BOOL, &choice->as.boolean);
    case EVZMQ_CHOICE_INTEGER:
        return put_number(writer, EVZMQ_KIND_INTEGER, &choice->as.integer);
    case EVZMQ_CHOICE_FLOAT:
        return put_number(writer, EVZMQ_KIND_FLOAT64, &choice->as.real);
    case EVZMQ_CHOICE_STR:
        return put_str(writer, choice->as.str.data, choice->as.str.size);
    case EVZMQ_CHOICE_BIN:
        return put_bin(writer, &choice->as.bin);
    case EVZMQ_CHOICE_STR_ARRAY:
        return put_array(writer, op, &(struct array){choice->as.strs.items, choice->as.strs.count});
    case EVZMQ_CHOICE_LIST:
        return put_span(writer, EVZMQ_KIND_LIST, &choice->as.any);
    case EVZMQ_CHOICE_MAP:
        return put_span(writer, EVZMQ_KIND_MAP, &choice->as.any);
    default:
        return put_nil(writer);
    }
}

static const struct evzmq__program *find_member(const struct evzmq__program *program,
                                                const struct evzmq_schema *which)
{
    for (size_t i = 0; i < program->member_count; i++) {
        if (program->members[i]->schema == which) {
            return program->members[i];
        }
    }
    return NULL;
}

static bool size_union(struct writer *writer, const struct evzmq__program *program,
                       const struct evzmq_union *chosen)
{
    const struct evzmq__program *const member = find_member(program, chosen->which);
    if (member == NULL || chosen->record == NULL) {
        return invalid(EINVAL);
    }
    return size_record(writer, member, chosen->record);
}

static bool put_union(struct writer *writer, const struct evzmq__program *program,
                      const struct evzmq_union *chosen)
{
    const struct evzmq__program *const member = find_member(program, chosen->which);
    if (member == NULL || chosen->record == NULL) {
        return invalid(EINVAL);
    }
    return put_record(writer, member, chosen->record);
}

/* Whether a member that may be nil is: all of them show it in a pointer. A choice knows itself. */
static inline bool is_nil(const struct evzmq__field_op *op, const void *member)
{
    if (op->kind == EVZMQ_KIND_UNION) {
        return ((const struct evzmq_union *)member)->record == NULL;
    }
    if (op->kind == EVZMQ_KIND_CHOICE) {
        return false;
    }
    const void *pointer;
    memcpy(&pointer, member, sizeof(pointer));
    return pointer == NULL;
}

/* Whether nothing contradicts the nil that the pointer says. */
static bool is_nil_consistent(const struct evzmq__field_op *op, const void *member)
{
    const bool is_sized = op->kind == EVZMQ_KIND_STR || op->kind == EVZMQ_KIND_BIN ||
                          op->kind == EVZMQ_KIND_ARRAY || evzmq__kind_is_span(op->kind);
    return !is_sized || ((const struct array *)member)->count == 0;
}

static inline bool size_field(struct writer *writer, const struct evzmq__program *program,
                              const struct evzmq__field_op *op, const void *record)
{
    const void *member = (const unsigned char *)record + op->offset;
    const void *pointer;
    if ((op->flags & EVZMQ_NILABLE) != 0 && is_nil(op, member)) {
        return is_nil_consistent(op, member) ? add(writer, 1) : invalid(EINVAL);
    }
    switch (op->kind) {
    case EVZMQ_KIND_STR:
        return size_str(writer, member);
    case EVZMQ_KIND_BIN:
        return size_bin(writer, member);
    case EVZMQ_KIND_ANY:
    case EVZMQ_KIND_MAP:
    case EVZMQ_KIND_STR_MAP:
    case EVZMQ_KIND_LIST:
    case EVZMQ_KIND_MAP_LIST:
        return size_span(writer, op->kind, member);
    case EVZMQ_KIND_CHOICE:
        return size_choice(writer, op, effective_choice(program, op, member));
    case EVZMQ_KIND_RECORD:
        memcpy(&pointer, member, sizeof(pointer));
        return pointer == NULL ? invalid(EINVAL) : size_record(writer, op->program, pointer);
    case EVZMQ_KIND_UNION:
        return size_union(writer, op->program, member);
    case EVZMQ_KIND_ARRAY:
        return size_array(writer, op, member);
    default:
        if ((op->flags & EVZMQ_NILABLE) != 0) {
            memcpy(&member, member, sizeof(member));
        }
        return check_number(op->kind, member) && add(writer, number_size(op->kind, member));
    }
}

static inline bool put_field(struct writer *writer, const struct evzmq__program *program,
                             const struct evzmq__field_op *op, const void *record)
{
    const void *member = (const unsigned char *)record + op->offset;
    const void *pointer;
    if ((op->flags & EVZMQ_NILABLE) != 0 && is_nil(op, member)) {
        return put_nil(writer);
    }
    switch (op->kind) {
    case EVZMQ_KIND_STR:
        return put_str(writer, ((const struct evzmq_str *)member)->data,
                       ((const struct evzmq_str *)member)->size);
    case EVZMQ_KIND_BIN:
        return put_bin(writer, member);
    case EVZMQ_KIND_ANY:
    case EVZMQ_KIND_MAP:
    case EVZMQ_KIND_STR_MAP:
    case EVZMQ_KIND_LIST:
    case EVZMQ_KIND_MAP_LIST:
        return put_span(writer, op->kind, member);
    case EVZMQ_KIND_CHOICE:
        return put_choice(writer, op, effective_choice(program, op, member));
    case EVZMQ_KIND_RECORD:
        memcpy(&pointer, member, sizeof(pointer));
        return pointer == NULL ? invalid(EINVAL) : put_record(writer, op->program, pointer);
    case EVZMQ_KIND_UNION:
        return put_union(writer, op->program, member);
    case EVZMQ_KIND_ARRAY:
        return put_array(writer, op, member);
    default:
        if ((op->flags & EVZMQ_NILABLE) != 0) {
            memcpy(&member, member, sizeof(member));
        }
        return put_number(writer, op->kind, member);
    }
}

/* The fields that a record says are absent and that may be. */
static uint64_t get_absent(const struct evzmq__program *program, const void *record)
{
    uint64_t absent = 0;
    if (program->absent_offset != EVZMQ_ABSENT_NONE && program->layout != EVZMQ_LAYOUT_BARE) {
        memcpy(&absent, (const unsigned char *)record + program->absent_offset, sizeof(absent));
    }
    return absent & ~program->required;
}

static bool is_absent(uint64_t absent, size_t index)
{
    return (absent >> index & 1u) != 0;
}

/* How many fields an array is written with: all up to the last one that is not absent. */
static size_t count_elements(const struct evzmq__program *program, uint64_t absent)
{
    size_t count = program->op_count;
    while (count > 0 && is_absent(absent, count - 1)) {
        count--;
    }
    return count;
}

static size_t count_pairs(const struct evzmq__program *program, uint64_t absent)
{
    size_t count = 0;
    for (size_t i = 0; i < program->op_count; i++) {
        count += is_absent(absent, i) ? 0 : 1;
    }
    return count;
}

static bool size_map(struct writer *writer, const struct evzmq__program *program,
                     const void *record, uint64_t absent)
{
    bool fine = add(writer, evzmq__wire_count_head_size(count_pairs(program, absent)));
    for (size_t i = 0; i < program->op_count && fine; i++) {
        const struct evzmq__field_op *const op = &program->ops[i];
        if (!is_absent(absent, i)) {
            fine = add(writer, evzmq__wire_str_head_size(op->name_size) + op->name_size) &&
                   size_field(writer, program, op, record);
        }
    }
    return fine;
}

static bool put_map(struct writer *writer, const struct evzmq__program *program, const void *record,
                    uint64_t absent)
{
    const size_t count = count_pairs(program, absent);
    if (!has_room(writer, evzmq__wire_count_head_size(count))) {
        return invalid(EINVAL);
    }
    writer->at = evzmq__wire_put_map_head(writer->at, count);
    bool fine = true;
    for (size_t i = 0; i < program->op_count && fine; i++) {
        const struct evzmq__field_op *const op = &program->ops[i];
        if (!is_absent(absent, i)) {
            fine =
                put_str(writer, op->name, op->name_size) && put_field(writer, program, op, record);
        }
    }
    return fine;
}

static bool size_record(struct writer *writer, const struct evzmq__program *program,
                        const void *record)
{
    const uint64_t absent = get_absent(program, record);
    if (program->layout == EVZMQ_LAYOUT_MAP) {
        return size_map(writer, program, record, absent);
    }
    const size_t count = count_elements(program, absent);
    const size_t tags = program->tag != NULL ? 1 : 0;
    bool fine = true;
    if (program->layout == EVZMQ_LAYOUT_ARRAY) {
        fine = add(writer, evzmq__wire_count_head_size(count + tags) + program->tag_wire_size);
    }
    for (size_t i = 0; i < count && fine; i++) {
        fine = size_field(writer, program, &program->ops[i], record);
    }
    return fine;
}

static bool put_record(struct writer *writer, const struct evzmq__program *program,
                       const void *record)
{
    const uint64_t absent = get_absent(program, record);
    if (program->layout == EVZMQ_LAYOUT_MAP) {
        return put_map(writer, program, record, absent);
    }
    const size_t count = count_elements(program, absent);
    const size_t tags = program->tag != NULL ? 1 : 0;
    bool fine = true;
    if (program->layout == EVZMQ_LAYOUT_ARRAY) {
        if (!has_room(writer, evzmq__wire_count_head_size(count + tags) + program->tag_wire_size)) {
            return invalid(EINVAL);
        }
        writer->at = evzmq__wire_put_array_head(writer->at, count + tags);
        if (tags != 0) {
            fine = put_raw(writer, program->tag_wire, program->tag_wire_size);
        }
    }
    for (size_t i = 0; i < count && fine; i++) {
        fine = put_field(writer, program, &program->ops[i], record);
    }
    return fine;
}

int evzmq__schema_encoded_size(const void *state, const void *value, size_t *out_size)
{
    const struct evzmq__schema_state *const schema = state;
    const struct evzmq__program *const root = schema->root;
    struct writer writer = {.state = schema};
    const bool fine = root->layout == EVZMQ_LAYOUT_UNION ? size_union(&writer, root, value)
                                                         : size_record(&writer, root, value);
    if (!fine) {
        return -1;
    }
    *out_size = writer.total;
    return 0;
}

int evzmq__schema_encode(const void *state, const void *value, void *buffer, size_t size)
{
    const struct evzmq__schema_state *const schema = state;
    const struct evzmq__program *const root = schema->root;
    struct writer writer = {.state = schema, .at = buffer, .end = (unsigned char *)buffer + size};
    const bool fine = root->layout == EVZMQ_LAYOUT_UNION ? put_union(&writer, root, value)
                                                         : put_record(&writer, root, value);
    if (fine && writer.at != writer.end) {
        return invalid(EINVAL) ? 0 : -1;
    }
    return fine ? 0 : -1;
}
