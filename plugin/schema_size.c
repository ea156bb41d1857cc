/*
 * schema_size.c: the first pass of encoding. It checks a value and gives the exact number of bytes
 * it will take, so that these can be asked for once and written in place.
 *
 * The functions give a size, or FAILED with errno. Sums stay below SIZE_LIMIT, so that adding two
 * of them cannot overflow.
 */
#include "schema_encode.h"

#include <errno.h>

#define FAILED SIZE_MAX
#define SIZE_LIMIT (SIZE_MAX / 4)
/* As many of these as a record has fields add up without a check. */
#define USUAL_SPAN_MAX ((size_t)1024 * 1024)

static size_t size_record(const struct evzmq__schema_state *state,
                          const struct evzmq__program *program, const void *record);

EVZMQ__COLD static size_t fail(int error)
{
    errno = error;
    return FAILED;
}

/* Adds what a part takes to a sum, which fails with the part. */
static inline size_t sum(size_t total, size_t part)
{
    if (EVZMQ__LIKELY(part < SIZE_LIMIT && total < SIZE_LIMIT)) {
        return total + part;
    }
    return total == FAILED || part == FAILED ? FAILED : fail(EOVERFLOW);
}

static inline size_t size_str(const struct evzmq_str *str)
{
    if (str->data == NULL && str->size != 0) {
        return fail(EINVAL);
    }
    return str->size > UINT32_MAX ? fail(EOVERFLOW)
                                  : evzmq__wire_str_head_size(str->size) + str->size;
}

static inline size_t size_bin(const struct evzmq_bytes *bin)
{
    if (bin->data == NULL && bin->size != 0) {
        return fail(EINVAL);
    }
    return bin->size > UINT32_MAX ? fail(EOVERFLOW)
                                  : evzmq__wire_bin_head_size(bin->size) + bin->size;
}

/* A span is checked as a received one is, except for UTF-8: a program's own bytes may be wrong too,
 * and a peer would refuse the whole message. */
EVZMQ__NOINLINE
static size_t size_span(const struct evzmq__schema_state *state, unsigned kind,
                        const struct evzmq_any *any)
{
    if (any->data == NULL || any->size == 0) {
        return any->data == NULL && any->size == 0 ? 1 : fail(EINVAL);
    }
    const unsigned char *const start = any->data;
    const struct evzmq__read_rules rules = {state->rules.depth_max, false};
    struct evzmq__reader reader = {.end = start + any->size, .rules = &rules};
    return evzmq__read_span(&reader, start, (enum evzmq_kind)kind) == reader.end ? any->size
                                                                                 : fail(EINVAL);
}

/* An integer's sign and its bits must agree, or another number would arrive. */
static size_t size_number(unsigned kind, const void *member)
{
    const struct evzmq_integer *const integer = member;
    if (kind == EVZMQ_KIND_INTEGER && integer->is_negative && integer->bits <= INT64_MAX) {
        return fail(EINVAL);
    }
    return evzmq__number_size(kind, member);
}

EVZMQ__NOINLINE
static size_t size_array(const struct evzmq__schema_state *state, const struct evzmq__field_op *op,
                         const struct evzmq__array *array)
{
    if ((array->items == NULL && array->count != 0) || array->count > op->count_max) {
        return fail(EINVAL);
    }
    if (array->count > UINT32_MAX) {
        return fail(EOVERFLOW);
    }
    size_t total = evzmq__wire_count_head_size(array->count);
    const unsigned char *item = array->items;
    for (size_t i = 0; i < array->count && total != FAILED; i++, item += op->element_size) {
        const void *const element = item;
        switch (op->element_kind) {
        case EVZMQ_KIND_STR:
            total = sum(total, size_str(element));
            break;
        case EVZMQ_KIND_BIN:
            total = sum(total, size_bin(element));
            break;
        case EVZMQ_KIND_RECORD:
            total = sum(total, size_record(state, op->program, element));
            break;
        default:
            total = sum(total, size_number(op->element_kind, element));
            break;
        }
    }
    return total;
}

EVZMQ__NOINLINE
static size_t size_choice(const struct evzmq__schema_state *state, const struct evzmq__field_op *op,
                          const struct evzmq_choice *choice)
{
    if (choice->kind == EVZMQ_CHOICE_NIL && (op->flags & EVZMQ_NILABLE) != 0) {
        return 1;
    }
    if ((unsigned)choice->kind >= EVZMQ_CHOICE_KINDS ||
        (op->alternatives & (1u << (unsigned)choice->kind)) == 0) {
        return fail(EINVAL);
    }
    switch (choice->kind) {
    case EVZMQ_CHOICE_BOOL:
        return 1;
    case EVZMQ_CHOICE_INTEGER:
        return size_number(EVZMQ_KIND_INTEGER, &choice->as.integer);
    case EVZMQ_CHOICE_FLOAT:
        return 9;
    case EVZMQ_CHOICE_STR:
        return size_str(&choice->as.str);
    case EVZMQ_CHOICE_BIN:
        return size_bin(&choice->as.bin);
    case EVZMQ_CHOICE_STR_ARRAY:
        return size_array(state, op,
                          &(struct evzmq__array){choice->as.strs.items, choice->as.strs.count});
    case EVZMQ_CHOICE_LIST:
        return size_span(state, EVZMQ_KIND_LIST, &choice->as.any);
    default:
        return size_span(state, EVZMQ_KIND_MAP, &choice->as.any);
    }
}

EVZMQ__NOINLINE
static size_t size_union(const struct evzmq__schema_state *state,
                         const struct evzmq__program *program, const struct evzmq_union *chosen)
{
    const struct evzmq__program *const member = evzmq__find_member(program, chosen->which);
    if (member == NULL || chosen->record == NULL) {
        return fail(EINVAL);
    }
    return size_record(state, member, chosen->record);
}

/* A field that is nil: nothing may contradict the pointer. */
static size_t size_nil(const struct evzmq__field_op *op, const void *member)
{
    const bool is_sized = op->kind == EVZMQ_KIND_STR || op->kind == EVZMQ_KIND_BIN ||
                          op->kind == EVZMQ_KIND_ARRAY || evzmq__kind_is_span(op->kind);
    return is_sized && ((const struct evzmq__array *)member)->count != 0 ? fail(EINVAL) : 1;
}

EVZMQ__NOINLINE
static size_t size_field(const struct evzmq__schema_state *state,
                         const struct evzmq__program *program, const struct evzmq__field_op *op,
                         const void *record)
{
    const void *member = (const unsigned char *)record + op->offset;
    if ((op->flags & EVZMQ_NILABLE) != 0 && evzmq__is_nil(op, member)) {
        return size_nil(op, member);
    }
    if (op->kind == EVZMQ_KIND_STR) {
        return size_str(member);
    }
    if (op->kind == EVZMQ_KIND_CHOICE) {
        const struct evzmq_choice *const choice = evzmq__effective_choice(program, op, member);
        return choice->kind == EVZMQ_CHOICE_STR && (op->alternatives & EVZMQ_CHOICE_BIT(STR)) != 0
                   ? size_str(&choice->as.str)
                   : size_choice(state, op, choice);
    }
    if (op->kind == EVZMQ_KIND_MAP || op->kind == EVZMQ_KIND_STR_MAP) {
        const struct evzmq_any *const any = member;
        return any->size == 1 && any->data != NULL && *(const unsigned char *)any->data == 0x80
                   ? 1
                   : size_span(state, op->kind, any);
    }
    switch (op->kind) {
    case EVZMQ_KIND_BIN:
        return size_bin(member);
    case EVZMQ_KIND_ANY:
    case EVZMQ_KIND_LIST:
    case EVZMQ_KIND_MAP_LIST:
        return size_span(state, op->kind, member);
    case EVZMQ_KIND_RECORD:
        member = evzmq__load_pointer(member);
        return member == NULL ? fail(EINVAL) : size_record(state, op->program, member);
    case EVZMQ_KIND_UNION:
        return size_union(state, op->program, member);
    case EVZMQ_KIND_ARRAY:
        return size_array(state, op, member);
    default:
        member = (op->flags & EVZMQ_NILABLE) != 0 ? evzmq__load_pointer(member) : member;
        return size_number(op->kind, member);
    }
}

static size_t size_map(const struct evzmq__schema_state *state,
                       const struct evzmq__program *program, const void *record, uint64_t absent)
{
    size_t total = evzmq__wire_count_head_size(evzmq__count_pairs(program, absent));
    for (size_t i = 0; i < program->op_count && total != FAILED; i++) {
        const struct evzmq__field_op *const op = &program->ops[i];
        if (!evzmq__is_absent(absent, i)) {
            total = sum(total, evzmq__wire_str_head_size(op->name_size) + op->name_size);
            total = sum(total, size_field(state, program, op, record));
        }
    }
    return total;
}

/* A str below 64 KiB, which may be nil: both that and the empty str take one byte. 0: look closer.
 */
static inline size_t size_usual_str(const struct evzmq_str *str)
{
    const size_t size = str->size;
    if (!EVZMQ__LIKELY(str->data != NULL)) {
        return size == 0 ? 1 : 0;
    }
    if (size < 32) {
        return 1 + size;
    }
    return size < 0x100 ? 2 + size : size < 0x10000 ? 3 + size : 0;
}

/* A span that is nil or its kind's default, or a map that has nothing unusual. 0: look closer. */
static inline size_t size_usual_span(unsigned path, const struct evzmq_any *any)
{
    const unsigned char *const start = any->data;
    if (start == NULL) {
        return any->size == 0 ? 1 : 0;
    }
    if (path > EVZMQ__PATH_STR_MAP || any->size == 0 || any->size > USUAL_SPAN_MAX) {
        return 0;
    }
    if (any->size == 1) {
        return *start == 0x80 ? 1 : 0;
    }
    const unsigned char *const end = start + any->size;
    return evzmq__pass_map(start, end, path == EVZMQ__PATH_STR_MAP) == end ? any->size : 0;
}

/* What a field takes that has a usual value. 0: look closer. */
static inline size_t size_usual(const struct evzmq__field_step *field, const unsigned char *record)
{
    const void *const member = record + field->offset;
    const unsigned path = field->path;
    if (EVZMQ__LIKELY(path <= EVZMQ__PATH_CHOICE)) {
        if (path == EVZMQ__PATH_CHOICE) {
            const enum evzmq_choice_kind kind = evzmq__load_choice_kind(member);
            if (kind != EVZMQ_CHOICE_STR) {
                return kind == EVZMQ_CHOICE_NIL && field->is_nilable ? 1 : 0;
            }
        }
        return size_usual_str((const void *)(record + field->str_offset));
    }
    if (path <= EVZMQ__PATH_STR_MAP || path == EVZMQ__PATH_SPAN) {
        return size_usual_span(path, member);
    }
    if (path == EVZMQ__PATH_FLOAT64) {
        return 9;
    }
    if (path == EVZMQ__PATH_INTEGER) {
        const struct evzmq_integer *const integer = member;
        return integer->is_negative ? 0 : evzmq__wire_integer_size(integer->bits, false);
    }
    if (path == EVZMQ__PATH_RECORD) {
        return field->is_nilable && evzmq__load_pointer(member) == NULL ? 1 : 0;
    }
    return 0;
}

/* The size of an array with all its fields: what is usual about them here, the rest elsewhere. */
static size_t size_whole_array(const struct evzmq__schema_state *state,
                               const struct evzmq__program *program, const void *record)
{
    size_t total = program->prefix_size;
    for (const struct evzmq__field_step *field = program->steps; field->path != EVZMQ__PATH_END;
         field++) {
        const size_t size = size_usual(field, record);
        if (EVZMQ__LIKELY(size != 0)) {
            total += size;
            continue;
        }
        const struct evzmq__field_op *const op = &program->ops[field - program->steps];
        const void *const member = (const unsigned char *)record + field->offset;
        const void *const nested =
            field->path == EVZMQ__PATH_RECORD ? evzmq__load_pointer(member) : NULL;
        total = sum(total, nested != NULL ? size_record(state, op->program, nested)
                                          : size_field(state, program, op, record));
        if (!EVZMQ__LIKELY(total != FAILED)) {
            return FAILED;
        }
    }
    return total;
}

static size_t size_record(const struct evzmq__schema_state *state,
                          const struct evzmq__program *program, const void *record)
{
    if (EVZMQ__LIKELY(evzmq__is_whole_array(program, record))) {
        return size_whole_array(state, program, record);
    }
    const uint64_t absent = evzmq__get_absent(program, record);
    if (program->layout == EVZMQ_LAYOUT_MAP) {
        return size_map(state, program, record, absent);
    }
    const size_t count = evzmq__count_elements(program, absent);
    size_t total = 0;
    if (program->layout == EVZMQ_LAYOUT_ARRAY) {
        const size_t tags = program->tag != NULL ? 1 : 0;
        total = count == program->op_count
                    ? program->prefix_size
                    : evzmq__wire_count_head_size(count + tags) + program->tag_wire_size;
    }
    const struct evzmq__field_op *op = program->ops;
    for (const struct evzmq__field_op *const last = op + count; op != last; op++) {
        total = sum(total, size_field(state, program, op, record));
        if (total == FAILED) {
            return FAILED;
        }
    }
    return total;
}

int evzmq__schema_encoded_size(const void *state, const void *value, size_t *out_size)
{
    const struct evzmq__schema_state *const schema = state;
    const struct evzmq__program *const root = schema->root;
    const size_t size = EVZMQ__LIKELY(root->layout != EVZMQ_LAYOUT_UNION)
                            ? size_record(schema, root, value)
                            : size_union(schema, root, value);
    if (size == FAILED) {
        return -1;
    }
    *out_size = size;
    return 0;
}
