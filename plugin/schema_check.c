/*
 * schema_check.c: what can be wrong with the table that declares a record. Each schema is checked
 * by itself; the compiler in schema.c follows what it refers to.
 */
#include "schema.h"

#include <errno.h>
#include <stdalign.h>

#define FLAGS_KNOWN (EVZMQ_REQUIRED | EVZMQ_NILABLE | EVZMQ_NILABLE_MEMBER)

struct kind_layout {
    uint8_t size;
    uint8_t align;
};

#define KIND_LAYOUT(type)                                                                          \
    {                                                                                              \
        sizeof(type), alignof(type)                                                                \
    }

static const struct kind_layout kind_layouts[] = {
    [EVZMQ_KIND_BOOL] = KIND_LAYOUT(bool),
    [EVZMQ_KIND_INT8] = KIND_LAYOUT(int8_t),
    [EVZMQ_KIND_INT16] = KIND_LAYOUT(int16_t),
    [EVZMQ_KIND_INT32] = KIND_LAYOUT(int32_t),
    [EVZMQ_KIND_INT64] = KIND_LAYOUT(int64_t),
    [EVZMQ_KIND_UINT8] = KIND_LAYOUT(uint8_t),
    [EVZMQ_KIND_UINT16] = KIND_LAYOUT(uint16_t),
    [EVZMQ_KIND_UINT32] = KIND_LAYOUT(uint32_t),
    [EVZMQ_KIND_UINT64] = KIND_LAYOUT(uint64_t),
    [EVZMQ_KIND_INTEGER] = KIND_LAYOUT(struct evzmq_integer),
    [EVZMQ_KIND_FLOAT32] = KIND_LAYOUT(float),
    [EVZMQ_KIND_FLOAT64] = KIND_LAYOUT(double),
    [EVZMQ_KIND_STR] = KIND_LAYOUT(struct evzmq_str),
    [EVZMQ_KIND_BIN] = KIND_LAYOUT(struct evzmq_bytes),
    [EVZMQ_KIND_ANY] = KIND_LAYOUT(struct evzmq_any),
    [EVZMQ_KIND_MAP] = KIND_LAYOUT(struct evzmq_any),
    [EVZMQ_KIND_STR_MAP] = KIND_LAYOUT(struct evzmq_any),
    [EVZMQ_KIND_LIST] = KIND_LAYOUT(struct evzmq_any),
    [EVZMQ_KIND_MAP_LIST] = KIND_LAYOUT(struct evzmq_any),
    [EVZMQ_KIND_CHOICE] = KIND_LAYOUT(struct evzmq_choice),
    [EVZMQ_KIND_RECORD] = KIND_LAYOUT(const void *),
    [EVZMQ_KIND_UNION] = KIND_LAYOUT(struct evzmq_union),
    [EVZMQ_KIND_ARRAY] = KIND_LAYOUT(EVZMQ_ARRAY_OF(char)),
};

size_t evzmq__kind_size(unsigned kind)
{
    return kind_layouts[kind].size;
}

bool evzmq__schema_fault(struct evzmq_schema_fault *out, const struct evzmq_schema *schema,
                         const struct evzmq_field *field, const char *reason)
{
    if (out->reason == NULL) {
        *out = (struct evzmq_schema_fault){schema, field, reason};
    }
    errno = EINVAL;
    return false;
}

static struct kind_layout member_layout(const struct evzmq_field *field)
{
    const bool is_pointer =
        (field->flags & EVZMQ_NILABLE) != 0 && evzmq__kind_is_number(field->kind);
    return kind_layouts[is_pointer ? EVZMQ_KIND_RECORD : field->kind];
}

static const char *check_choice(const struct evzmq_field *field)
{
    const unsigned arrays = EVZMQ_CHOICE_BIT(STR_ARRAY) | EVZMQ_CHOICE_BIT(LIST);
    const struct evzmq_choice *const choice = field->default_value;
    if (field->alternatives == 0 || (field->alternatives & EVZMQ_CHOICE_BIT(NIL)) != 0 ||
        field->alternatives >= EVZMQ_CHOICE_BIT(KINDS)) {
        return "a choice needs alternatives, and nil is not one of them but EVZMQ_NILABLE";
    }
    if ((field->alternatives & arrays) == arrays) {
        return "an array of strings and an array of anything cannot be told apart";
    }
    if (choice != NULL && choice->kind != EVZMQ_CHOICE_NIL &&
        ((unsigned)choice->kind >= EVZMQ_CHOICE_KINDS ||
         (field->alternatives & (1u << (unsigned)choice->kind)) == 0)) {
        return "the default of a choice is not one of its alternatives";
    }
    return NULL;
}

/* What is wrong with the kind of a field and what belongs to the kind; NULL for nothing. */
static const char *check_kind(const struct evzmq_field *field)
{
    const bool is_number = evzmq__kind_is_number(field->kind);
    if (field->kind < EVZMQ_KIND_BOOL || field->kind > EVZMQ_KIND_ARRAY) {
        return "no such kind";
    }
    if ((field->flags & ~FLAGS_KNOWN) != 0) {
        return "unknown flags";
    }
    if (is_number && !(field->flags & EVZMQ_NILABLE) != !(field->flags & EVZMQ_NILABLE_MEMBER)) {
        return "a number that may be nil is declared with EVZMQ_FIELD_NILABLE";
    }
    switch (field->kind) {
    case EVZMQ_KIND_CHOICE:
        return check_choice(field);
    case EVZMQ_KIND_RECORD:
        return field->schema == NULL || field->schema->layout == EVZMQ_LAYOUT_UNION
                   ? "a nested record needs the schema of a record"
                   : NULL;
    case EVZMQ_KIND_UNION:
        return field->schema == NULL || field->schema->layout != EVZMQ_LAYOUT_UNION
                   ? "a union needs the schema of a union"
                   : NULL;
    case EVZMQ_KIND_ARRAY:
        if (field->element_kind == EVZMQ_KIND_RECORD) {
            return field->schema == NULL || field->schema->layout == EVZMQ_LAYOUT_UNION
                       ? "an array of records needs the schema of a record"
                       : NULL;
        }
        return field->element_kind < EVZMQ_KIND_BOOL || field->element_kind > EVZMQ_KIND_BIN
                   ? "an array of elements of that kind is not possible"
                   : NULL;
    default:
        return NULL;
    }
}

static const char *check_place(const struct evzmq_schema *schema, size_t offset, size_t size,
                               size_t align)
{
    if (size > schema->record_size || offset > schema->record_size - size) {
        return "the member is not within the struct";
    }
    if (offset % align != 0 || schema->record_size % align != 0) {
        return "the member or the struct is not aligned";
    }
    return NULL;
}

static bool overlaps(size_t offset, size_t size, size_t other_offset, size_t other_size)
{
    return offset < other_offset + other_size && other_offset < offset + size;
}

static bool check_field(struct evzmq_schema_fault *out, const struct evzmq_schema *schema,
                        size_t index)
{
    const struct evzmq_field *const field = &schema->fields[index];
    const char *reason = field->name == NULL ? "a field needs a name" : check_kind(field);
    if (reason != NULL) {
        return evzmq__schema_fault(out, schema, field, reason);
    }
    const struct kind_layout layout = member_layout(field);
    if (field->size != layout.size) {
        return evzmq__schema_fault(out, schema, field, "the member has not the size of its kind");
    }
    reason = check_place(schema, field->offset, field->size, layout.align);
    if (reason != NULL) {
        return evzmq__schema_fault(out, schema, field, reason);
    }
    if (schema->absent_offset != EVZMQ_ABSENT_NONE &&
        overlaps(field->offset, field->size, schema->absent_offset, sizeof(uint64_t))) {
        return evzmq__schema_fault(out, schema, field,
                                   "the member is that of the absent fields too");
    }
    for (size_t i = 0; i < index; i++) {
        const struct evzmq_field *const other = &schema->fields[i];
        if (overlaps(field->offset, field->size, other->offset, other->size)) {
            return evzmq__schema_fault(out, schema, field, "two fields share a member");
        }
        if (strcmp(field->name, other->name) == 0) {
            return evzmq__schema_fault(out, schema, field, "two fields have the same name");
        }
    }
    return true;
}

static bool check_record(struct evzmq_schema_fault *out, const struct evzmq_schema *schema)
{
    if (schema->record_size == 0 || schema->record_size > EVZMQ_RECORD_SIZE_MAX) {
        return evzmq__schema_fault(out, schema, NULL, "the struct is empty or too large");
    }
    if (schema->field_size != sizeof(struct evzmq_field)) {
        return evzmq__schema_fault(out, schema, NULL,
                                   "made for another version of struct evzmq_field");
    }
    if (schema->field_count > EVZMQ_FIELDS_MAX ||
        (schema->field_count != 0 && schema->fields == NULL)) {
        return evzmq__schema_fault(out, schema, NULL,
                                   "too many fields, or none where there should be some");
    }
    if (schema->tag != NULL && schema->layout != EVZMQ_LAYOUT_ARRAY) {
        return evzmq__schema_fault(out, schema, NULL, "only an array can have a tag");
    }
    if (schema->layout == EVZMQ_LAYOUT_BARE && schema->field_count != 1) {
        return evzmq__schema_fault(out, schema, NULL, "a bare record has exactly one field");
    }
    if (schema->absent_offset != EVZMQ_ABSENT_NONE) {
        const char *const reason =
            check_place(schema, schema->absent_offset, sizeof(uint64_t), alignof(uint64_t));
        if (reason != NULL) {
            return evzmq__schema_fault(out, schema, NULL, reason);
        }
    }
    for (size_t i = 0; i < schema->field_count; i++) {
        if (!check_field(out, schema, i)) {
            return false;
        }
    }
    return true;
}

static bool check_union(struct evzmq_schema_fault *out, const struct evzmq_schema *schema)
{
    if (schema->members == NULL || schema->member_count == 0 ||
        schema->member_count > EVZMQ_SCHEMAS_MAX) {
        return evzmq__schema_fault(out, schema, NULL, "a union without members, or with too many");
    }
    for (size_t i = 0; i < schema->member_count; i++) {
        const struct evzmq_schema *const member = schema->members[i];
        if (member == NULL || member->layout != EVZMQ_LAYOUT_ARRAY || member->tag == NULL) {
            return evzmq__schema_fault(out, schema, NULL,
                                       "the members of a union are tagged arrays");
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(member->tag, schema->members[j]->tag) == 0) {
                return evzmq__schema_fault(out, schema, NULL,
                                           "two members of a union have the same tag");
            }
        }
    }
    return true;
}

bool evzmq__schema_check_one(struct evzmq_schema_fault *out, const struct evzmq_schema *schema,
                             size_t nesting)
{
    if (schema == NULL) {
        return evzmq__schema_fault(out, schema, NULL, "no schema");
    }
    if (schema->size != sizeof(struct evzmq_schema)) {
        return evzmq__schema_fault(out, schema, NULL,
                                   "made for another version of struct evzmq_schema");
    }
    if (nesting > EVZMQ_SCHEMA_NESTING_MAX) {
        return evzmq__schema_fault(out, schema, NULL, "records are nested too deep");
    }
    switch (schema->layout) {
    case EVZMQ_LAYOUT_ARRAY:
    case EVZMQ_LAYOUT_MAP:
    case EVZMQ_LAYOUT_BARE:
        return check_record(out, schema);
    case EVZMQ_LAYOUT_UNION:
        return check_union(out, schema);
    default:
        return evzmq__schema_fault(out, schema, NULL, "no such layout");
    }
}
