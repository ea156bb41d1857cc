/*
 * schema_maker.c: see schema_maker.h. Messages are written by msgpack-c.
 */
#include "schema_maker.h"

#include <stdalign.h>
#include <string.h>

#include <evzmq/codec.h>

#include "fuzz.h"

enum { FIELDS_MAX = 8, SCHEMAS_MAX = 48, NESTING_MAX = 3, MEMBERS_MAX = 3 };

/* What make_schema() made last. */
static struct {
    struct evzmq_schema schemas[SCHEMAS_MAX];
    struct evzmq_field fields[SCHEMAS_MAX][FIELDS_MAX];
    const struct evzmq_schema *members[SCHEMAS_MAX][MEMBERS_MAX];
    size_t count;
} made;

static const char *const names[FIELDS_MAX] = {
    "a",  "b",     "alpha",      "alphabet",
    "id", "other", "ab\xc3\xa9", "a name that is longer than 31 bytes"};
static const char *const tags[MEMBERS_MAX] = {"one", "two", "a tag that is longer than others are"};

unsigned source_next(struct source *source)
{
    if (source->size == 0) {
        return 0;
    }
    source->size--;
    return *source->data++;
}

struct shape {
    size_t size;
    size_t align;
};

#define SHAPE(type)                                                                                \
    {                                                                                              \
        sizeof(type), alignof(type)                                                                \
    }

static struct shape get_shape(enum evzmq_kind kind, bool is_pointer)
{
    typedef EVZMQ_ARRAY_OF(int) array;
    static const struct shape pointer = SHAPE(void *);
    static const struct shape shapes[] = {
        [EVZMQ_KIND_BOOL] = SHAPE(bool),
        [EVZMQ_KIND_INT8] = SHAPE(int8_t),
        [EVZMQ_KIND_INT16] = SHAPE(int16_t),
        [EVZMQ_KIND_INT32] = SHAPE(int32_t),
        [EVZMQ_KIND_INT64] = SHAPE(int64_t),
        [EVZMQ_KIND_UINT8] = SHAPE(uint8_t),
        [EVZMQ_KIND_UINT16] = SHAPE(uint16_t),
        [EVZMQ_KIND_UINT32] = SHAPE(uint32_t),
        [EVZMQ_KIND_UINT64] = SHAPE(uint64_t),
        [EVZMQ_KIND_INTEGER] = SHAPE(struct evzmq_integer),
        [EVZMQ_KIND_FLOAT32] = SHAPE(float),
        [EVZMQ_KIND_FLOAT64] = SHAPE(double),
        [EVZMQ_KIND_STR] = SHAPE(struct evzmq_str),
        [EVZMQ_KIND_BIN] = SHAPE(struct evzmq_bytes),
        [EVZMQ_KIND_ANY] = SHAPE(struct evzmq_any),
        [EVZMQ_KIND_MAP] = SHAPE(struct evzmq_any),
        [EVZMQ_KIND_STR_MAP] = SHAPE(struct evzmq_any),
        [EVZMQ_KIND_LIST] = SHAPE(struct evzmq_any),
        [EVZMQ_KIND_MAP_LIST] = SHAPE(struct evzmq_any),
        [EVZMQ_KIND_CHOICE] = SHAPE(struct evzmq_choice),
        [EVZMQ_KIND_RECORD] = SHAPE(void *),
        [EVZMQ_KIND_UNION] = SHAPE(struct evzmq_union),
        [EVZMQ_KIND_ARRAY] = SHAPE(array),
    };
    return is_pointer ? pointer : shapes[kind];
}

static bool is_number(enum evzmq_kind kind)
{
    return kind <= EVZMQ_KIND_FLOAT64;
}

static struct evzmq_schema *take_schema(void)
{
    struct evzmq_schema *const schema = &made.schemas[made.count++];
    memset(schema, 0, sizeof(*schema));
    schema->size = sizeof(*schema);
    schema->name = "made";
    schema->field_size = sizeof(struct evzmq_field);
    schema->absent_offset = EVZMQ_ABSENT_NONE;
    return schema;
}

static const struct evzmq_schema *make_record(struct source *source, unsigned nesting,
                                              const char *tag);

static const struct evzmq_schema *make_union(struct source *source, unsigned nesting)
{
    const size_t index = made.count;
    struct evzmq_schema *const schema = take_schema();
    schema->layout = EVZMQ_LAYOUT_UNION;
    schema->members = made.members[index];
    schema->member_count = 1 + source_next(source) % MEMBERS_MAX;
    for (size_t i = 0; i < schema->member_count; i++) {
        made.members[index][i] = make_record(source, nesting + 1, tags[i]);
    }
    return schema;
}

static void make_choice(struct source *source, struct evzmq_field *field)
{
    const unsigned bits = source_next(source) | source_next(source) << 8;
    field->alternatives = (bits & ((1u << EVZMQ_CHOICE_KINDS) - 2)) | EVZMQ_CHOICE_BIT(STR);
    if ((field->alternatives & EVZMQ_CHOICE_BIT(LIST)) != 0) {
        field->alternatives &= ~EVZMQ_CHOICE_BIT(STR_ARRAY);
    }
}

/* What a kind needs besides its place. */
static void make_kind(struct source *source, struct evzmq_field *field, unsigned nesting)
{
    /* Room for the other members of the unions that this is in, and for one more union. */
    enum { RESERVE = (NESTING_MAX + 1) * (MEMBERS_MAX + 1) };
    const bool may_nest = nesting < NESTING_MAX && made.count + RESERVE <= SCHEMAS_MAX;
    const unsigned choice = source_next(source);
    field->kind = (enum evzmq_kind)(1 + choice % EVZMQ_KIND_ARRAY);
    if (!may_nest && (field->kind == EVZMQ_KIND_RECORD || field->kind == EVZMQ_KIND_UNION)) {
        field->kind = EVZMQ_KIND_STR;
    }
    field->element_kind = field->kind;
    if (field->kind == EVZMQ_KIND_CHOICE) {
        make_choice(source, field);
    } else if (field->kind == EVZMQ_KIND_RECORD) {
        field->schema = make_record(source, nesting + 1, NULL);
    } else if (field->kind == EVZMQ_KIND_UNION) {
        field->schema = make_union(source, nesting);
    } else if (field->kind == EVZMQ_KIND_ARRAY) {
        const unsigned element = source_next(source) % (EVZMQ_KIND_BIN + 1u);
        field->count_max = choice & 0x80 ? 4 : 0;
        field->element_kind = element > 0 ? (enum evzmq_kind)element : EVZMQ_KIND_STR;
        if (element == 0 && may_nest) {
            field->element_kind = EVZMQ_KIND_RECORD;
            field->schema = make_record(source, nesting + 1, NULL);
        }
    }
}

static size_t align_up(size_t offset, size_t align)
{
    return (offset + align - 1) / align * align;
}

static const void *get_default(enum evzmq_kind kind)
{
    static const int64_t number = 5; /* of any width, where the first byte is the lowest */
    static const struct evzmq_str text = EVZMQ_STR("default");
    if (kind >= EVZMQ_KIND_INT8 && kind <= EVZMQ_KIND_UINT64) {
        return &number;
    }
    return kind == EVZMQ_KIND_STR ? &text : NULL;
}

static const struct evzmq_schema *make_record(struct source *source, unsigned nesting,
                                              const char *tag)
{
    const size_t index = made.count;
    struct evzmq_schema *const schema = take_schema();
    struct evzmq_field *const fields = made.fields[index];
    const unsigned form = source_next(source);
    const bool tells_absent = (form & 4) != 0;
    size_t end = 0;
    memset(fields, 0, sizeof(made.fields[index]));
    schema->layout = (enum evzmq_layout)(tag != NULL ? EVZMQ_LAYOUT_ARRAY : 1 + form % 3);
    schema->tag = tag == NULL && schema->layout == EVZMQ_LAYOUT_ARRAY && (form & 8) ? "tag" : tag;
    schema->fields = fields;
    schema->field_count = schema->layout == EVZMQ_LAYOUT_BARE ? 1 : form / 16 % FIELDS_MAX + 1;
    for (size_t i = 0; i < schema->field_count; i++) {
        struct evzmq_field *const field = &fields[i];
        const unsigned flags = source_next(source);
        field->name = names[i];
        field->flags = flags % 4 == 0 ? EVZMQ_REQUIRED : 0;
        make_kind(source, field, nesting);
        if (flags / 4 % 4 == 0) {
            const bool is_simple = field->kind < EVZMQ_KIND_CHOICE;
            field->flags |= EVZMQ_NILABLE | (is_simple ? EVZMQ_NILABLE_MEMBER : 0);
        } else if (flags / 16 % 2 == 0) {
            field->default_value = get_default(field->kind);
        }
        if (!tells_absent && field->kind >= EVZMQ_KIND_CHOICE && field->kind <= EVZMQ_KIND_UNION &&
            (field->flags & EVZMQ_NILABLE) == 0) {
            field->flags |= EVZMQ_REQUIRED; /* Its member would be one that cannot be encoded. */
        }
        const bool is_pointer = is_number(field->kind) && (field->flags & EVZMQ_NILABLE) != 0;
        const struct shape shape = get_shape(field->kind, is_pointer);
        field->offset = align_up(end, shape.align);
        field->size = shape.size;
        end = field->offset + field->size;
        if (flags == 0xff) {
            field->offset += source_next(source) % 3; /* A fault, or not. */
        }
    }
    if (tells_absent) {
        schema->absent_offset = align_up(end, alignof(uint64_t));
        end = schema->absent_offset + sizeof(uint64_t);
    }
    schema->record_size = align_up(end, alignof(max_align_t));
    return schema;
}

const struct evzmq_schema *make_schema(struct source *source)
{
    made.count = 0;
    return source_next(source) % 8 == 0 ? make_union(source, 0) : make_record(source, 0, NULL);
}

/* A message that is being written. */
struct writer {
    struct source *source;
    msgpack_packer packer;
    bool valid;
};

static unsigned pick(struct writer *writer)
{
    return source_next(writer->source);
}

static void put_str(struct writer *writer, const char *text)
{
    (void)msgpack_pack_str_with_body(&writer->packer, text, strlen(text));
}

static void put_text(struct writer *writer)
{
    static const char text[] = "abcdefghijklmnopqrstuvwxyz\xc3\xa9 0123456789 and so on";
    const unsigned size = pick(writer) % (sizeof(text) - 1);
    const size_t whole = size == 27 ? 28 : size; /* not in the middle of a character */
    (void)msgpack_pack_str_with_body(&writer->packer, text, whole);
}

/* Anything, as deep as may be; with map keys that are strings, as maps in records have them. */
static void put_any(struct writer *writer, unsigned depth)
{
    const unsigned choice = pick(writer);
    const unsigned count = depth < 4 ? choice / 16 % 4 : 0;
    switch (choice % 8) {
    case 0:
        (void)msgpack_pack_nil(&writer->packer);
        return;
    case 1:
        (void)msgpack_pack_true(&writer->packer);
        return;
    case 2:
        (void)msgpack_pack_int64(&writer->packer, -(int64_t)choice * 1000000);
        return;
    case 3:
        (void)msgpack_pack_double(&writer->packer, 0.5 * choice);
        return;
    case 4:
        (void)msgpack_pack_bin_with_body(&writer->packer, "bytes", choice / 8 % 6);
        return;
    case 5:
        (void)msgpack_pack_array(&writer->packer, count);
        for (unsigned i = 0; i < count; i++) {
            put_any(writer, depth + 1);
        }
        return;
    case 6:
        (void)msgpack_pack_map(&writer->packer, count);
        for (unsigned i = 0; i < count; i++) {
            put_text(writer);
            put_any(writer, depth + 1);
        }
        return;
    default:
        put_text(writer);
    }
}

static void put_map(struct writer *writer, bool of_strings)
{
    const unsigned count = pick(writer) % 4;
    (void)msgpack_pack_map(&writer->packer, count);
    for (unsigned i = 0; i < count; i++) {
        put_text(writer);
        if (of_strings) {
            put_text(writer);
        } else {
            put_any(writer, 1);
        }
    }
}

static void put_list(struct writer *writer, enum evzmq_kind kind)
{
    const unsigned count = pick(writer) % 4;
    (void)msgpack_pack_array(&writer->packer, count);
    for (unsigned i = 0; i < count; i++) {
        if (kind == EVZMQ_KIND_MAP_LIST) {
            put_map(writer, false);
        } else if (kind == EVZMQ_KIND_STR) {
            put_text(writer);
        } else {
            put_any(writer, 1);
        }
    }
}

static void put_integer(struct writer *writer, enum evzmq_kind kind)
{
    static const unsigned bits[] = {7, 15, 31, 63, 8, 16, 32, 64, 64};
    const unsigned width = bits[kind - EVZMQ_KIND_INT8];
    const uint64_t max = UINT64_MAX >> (64 - width);
    const unsigned choice = pick(writer);
    const uint64_t value = choice % 4 == 0 ? max : choice % 4 == 1 ? max / 3 : choice / 4;
    const bool is_signed =
        kind <= EVZMQ_KIND_INT64 || (kind == EVZMQ_KIND_INTEGER && value <= (uint64_t)INT64_MAX);
    if (is_signed && (choice & 0x80) != 0) {
        (void)msgpack_pack_int64(&writer->packer, -(int64_t)value - (choice % 4 == 0));
    } else {
        (void)msgpack_pack_uint64(&writer->packer, value);
    }
}

static void put_real(struct writer *writer)
{
    const unsigned choice = pick(writer);
    if (choice % 4 == 0) {
        (void)msgpack_pack_int64(&writer->packer, (int64_t)choice - 100);
    } else if (choice % 4 == 1) {
        (void)msgpack_pack_float(&writer->packer, (float)choice / 3);
    } else {
        (void)msgpack_pack_double(&writer->packer, choice == 2 ? 1e300 : (double)choice / 7);
    }
}

static void put_choice(struct writer *writer, unsigned alternatives)
{
    unsigned kind = 1 + pick(writer) % (EVZMQ_CHOICE_KINDS - 1);
    if ((alternatives & 1u << kind) == 0) {
        kind = EVZMQ_CHOICE_STR;
    }
    switch (kind) {
    case EVZMQ_CHOICE_BOOL:
        (void)msgpack_pack_false(&writer->packer);
        return;
    case EVZMQ_CHOICE_INTEGER:
        put_integer(writer, EVZMQ_KIND_INTEGER);
        return;
    case EVZMQ_CHOICE_FLOAT:
        (void)msgpack_pack_double(&writer->packer, 0.25);
        return;
    case EVZMQ_CHOICE_BIN:
        (void)msgpack_pack_bin_with_body(&writer->packer, "bytes", pick(writer) % 6);
        return;
    case EVZMQ_CHOICE_STR_ARRAY:
        put_list(writer, EVZMQ_KIND_STR);
        return;
    case EVZMQ_CHOICE_LIST:
        put_list(writer, EVZMQ_KIND_LIST);
        return;
    case EVZMQ_CHOICE_MAP:
        put_map(writer, false);
        return;
    default:
        put_text(writer);
    }
}

static void put_simple(struct writer *writer, enum evzmq_kind kind)
{
    switch (kind) {
    case EVZMQ_KIND_BOOL:
        (void)(pick(writer) % 2 ? msgpack_pack_true : msgpack_pack_false)(&writer->packer);
        return;
    case EVZMQ_KIND_FLOAT32:
    case EVZMQ_KIND_FLOAT64:
        put_real(writer);
        return;
    case EVZMQ_KIND_STR:
        put_text(writer);
        return;
    case EVZMQ_KIND_BIN:
        (void)msgpack_pack_bin_with_body(&writer->packer, "\xff\xfe bytes", pick(writer) % 9);
        return;
    case EVZMQ_KIND_ANY:
        put_any(writer, 0);
        return;
    case EVZMQ_KIND_MAP:
    case EVZMQ_KIND_STR_MAP:
        put_map(writer, kind == EVZMQ_KIND_STR_MAP);
        return;
    case EVZMQ_KIND_LIST:
    case EVZMQ_KIND_MAP_LIST:
        put_list(writer, kind);
        return;
    default:
        put_integer(writer, kind);
    }
}

static void put_record(struct writer *writer, const struct evzmq_schema *schema);

static void put_array(struct writer *writer, const struct evzmq_field *field)
{
    const unsigned count = pick(writer) % 5;
    (void)msgpack_pack_array(&writer->packer, count);
    for (unsigned i = 0; i < count; i++) {
        if (field->element_kind == EVZMQ_KIND_RECORD) {
            put_record(writer, field->schema);
        } else {
            put_simple(writer, field->element_kind);
        }
    }
}

static void put_field(struct writer *writer, const struct evzmq_field *field)
{
    const unsigned choice = pick(writer);
    if (choice % 8 == 1 && (field->flags & EVZMQ_NILABLE) != 0) {
        (void)msgpack_pack_nil(&writer->packer);
    } else if (choice == 0xff) {
        writer->valid = false; /* It may be right for all that. */
        put_any(writer, 0);
    } else if (field->kind == EVZMQ_KIND_CHOICE) {
        put_choice(writer, field->alternatives);
    } else if (field->kind == EVZMQ_KIND_RECORD || field->kind == EVZMQ_KIND_UNION) {
        put_record(writer, field->schema);
    } else if (field->kind == EVZMQ_KIND_ARRAY) {
        put_array(writer, field);
    } else {
        put_simple(writer, field->kind);
    }
}

/* An array may end before the first of several fields that need not be there, or have more than
 * there are fields. */
static void put_elements(struct writer *writer, const struct evzmq_schema *schema)
{
    const unsigned choice = pick(writer);
    size_t count = schema->field_count;
    while (count > 0 && choice % 4 == 1 &&
           (schema->fields[count - 1].flags & EVZMQ_REQUIRED) == 0) {
        count--;
    }
    const size_t more = choice % 4 == 2 && count == schema->field_count ? choice / 4 % 3 : 0;
    (void)msgpack_pack_array(&writer->packer, (schema->tag != NULL) + count + more);
    if (schema->tag != NULL) {
        put_str(writer, schema->tag);
    }
    for (size_t i = 0; i < count; i++) {
        put_field(writer, &schema->fields[i]);
    }
    for (size_t i = 0; i < more; i++) {
        put_any(writer, 1);
    }
}

/* A map may have its fields in any order, lack some, and have others. */
static void put_pairs(struct writer *writer, const struct evzmq_schema *schema)
{
    const unsigned first = pick(writer);
    const unsigned left_out = pick(writer);
    const unsigned more = left_out == 0 ? 1 : 0;
    size_t count = more;
    for (size_t i = 0; i < schema->field_count; i++) {
        count += (left_out >> i & 1) == 0 || (schema->fields[i].flags & EVZMQ_REQUIRED) != 0;
    }
    (void)msgpack_pack_map(&writer->packer, count);
    for (size_t i = 0; i < schema->field_count; i++) {
        const size_t at = (i + first) % schema->field_count;
        const struct evzmq_field *const field = &schema->fields[at];
        if ((left_out >> at & 1) == 0 || (field->flags & EVZMQ_REQUIRED) != 0) {
            put_str(writer, field->name);
            put_field(writer, field);
        }
    }
    if (more > 0) {
        put_str(writer, "none of them");
        put_any(writer, 1);
    }
}

static void put_record(struct writer *writer, const struct evzmq_schema *schema)
{
    switch (schema->layout) {
    case EVZMQ_LAYOUT_UNION:
        put_record(writer, schema->members[pick(writer) % schema->member_count]);
        return;
    case EVZMQ_LAYOUT_MAP:
        put_pairs(writer, schema);
        return;
    case EVZMQ_LAYOUT_BARE:
        put_field(writer, &schema->fields[0]);
        return;
    default:
        put_elements(writer, schema);
    }
}

bool make_message(struct source *source, const struct evzmq_schema *schema,
                  msgpack_sbuffer *out_bytes)
{
    struct writer writer = {.source = source, .valid = true};
    msgpack_packer_init(&writer.packer, out_bytes, msgpack_sbuffer_write);
    put_record(&writer, schema);
    return writer.valid;
}
