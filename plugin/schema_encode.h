/*
 * schema_encode.h: what the two passes of encoding share. schema_size.c checks a value and adds up
 * its exact size, schema_encode.c writes it; both walk the same tables in the same order.
 */
#ifndef EVZMQ_PLUGIN_SCHEMA_ENCODE_H
#define EVZMQ_PLUGIN_SCHEMA_ENCODE_H

#include "schema.h"

/* The layout that every EVZMQ_ARRAY_OF() has. */
struct evzmq__array {
    const void *items;
    size_t count;
};

static inline struct evzmq_integer evzmq__load_integer(unsigned kind, const void *member)
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

/* The encoded size of a bool or a number. */
static inline size_t evzmq__number_size(unsigned kind, const void *member)
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
    const struct evzmq_integer integer = evzmq__load_integer(kind, member);
    return evzmq__wire_integer_size(integer.bits, integer.is_negative);
}

/* The pointer that a member is or begins with. */
static inline const void *evzmq__load_pointer(const void *member)
{
    const void *pointer;
    memcpy(&pointer, member, sizeof(pointer));
    return pointer;
}

static inline enum evzmq_choice_kind evzmq__load_choice_kind(const void *member)
{
    enum evzmq_choice_kind kind;
    memcpy(&kind, member, sizeof(kind));
    return kind;
}

/* Whether a member that may be nil is: all of them show it in a pointer. A choice knows itself. */
static inline bool evzmq__is_nil(const struct evzmq__field_op *op, const void *member)
{
    if (op->kind == EVZMQ_KIND_UNION) {
        return ((const struct evzmq_union *)member)->record == NULL;
    }
    return op->kind != EVZMQ_KIND_CHOICE && evzmq__load_pointer(member) == NULL;
}

/* The choice that is meant: the member's, or the default where it holds nothing. */
static inline const struct evzmq_choice *
evzmq__effective_choice(const struct evzmq__program *program, const struct evzmq__field_op *op,
                        const struct evzmq_choice *choice)
{
    if (choice->kind == EVZMQ_CHOICE_NIL && (op->flags & EVZMQ_NILABLE) == 0) {
        return (const void *)(program->image + op->offset);
    }
    return choice;
}

/* The member of a union that a value says it is; NULL when there is none. */
static inline const struct evzmq__program *evzmq__find_member(const struct evzmq__program *program,
                                                              const struct evzmq_schema *which)
{
    for (size_t i = 0; i < program->member_count; i++) {
        if (program->members[i]->schema == which) {
            return program->members[i];
        }
    }
    return NULL;
}

/* The fields that a record says are absent and that may be. */
static inline uint64_t evzmq__get_absent(const struct evzmq__program *program, const void *record)
{
    uint64_t absent = 0;
    if (program->absent_offset != EVZMQ_ABSENT_NONE && program->layout != EVZMQ_LAYOUT_BARE) {
        memcpy(&absent, (const unsigned char *)record + program->absent_offset, sizeof(absent));
    }
    return absent & ~program->required;
}

static inline bool evzmq__is_absent(uint64_t absent, size_t index)
{
    return (absent >> index & 1u) != 0;
}

/* Whether a record is an array with all its fields: what the loops of both passes are for. */
static inline bool evzmq__is_whole_array(const struct evzmq__program *program, const void *record)
{
    if (program->layout != EVZMQ_LAYOUT_ARRAY) {
        return false;
    }
    if (program->absent_offset == EVZMQ_ABSENT_NONE) {
        return true;
    }
    uint64_t absent;
    memcpy(&absent, (const unsigned char *)record + program->absent_offset, sizeof(absent));
    return EVZMQ__LIKELY(absent == 0);
}

/* How many fields an array is written with: all up to the last one that is not absent. */
static inline size_t evzmq__count_elements(const struct evzmq__program *program, uint64_t absent)
{
    size_t count = program->op_count;
    while (absent != 0 && count > 0 && evzmq__is_absent(absent, count - 1)) {
        count--;
    }
    return count;
}

/* How many fields a map is written with. */
static inline size_t evzmq__count_pairs(const struct evzmq__program *program, uint64_t absent)
{
    size_t count = 0;
    for (size_t i = 0; i < program->op_count; i++) {
        count += evzmq__is_absent(absent, i) ? 0 : 1;
    }
    return count;
}

#endif /* EVZMQ_PLUGIN_SCHEMA_ENCODE_H */
