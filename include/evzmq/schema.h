/**
 * @file schema.h
 * Typed records: plain C structs on the wire as msgpack, decoded in place.
 *
 * A record is declared once, as a table beside a struct. The macros check at compile time that each
 * member has the type its kind needs:
 *
 * @code
 * struct reading {
 *     struct evzmq_str sensor;
 *     double celsius;
 *     EVZMQ_ARRAY_OF(int64_t) samples;
 *     struct evzmq_any labels;
 * };
 * static const struct evzmq_field reading_fields[] = {
 *     EVZMQ_FIELD(STR, struct reading, sensor, EVZMQ_REQUIRED),
 *     EVZMQ_FIELD(FLOAT64, struct reading, celsius, EVZMQ_REQUIRED),
 *     EVZMQ_FIELD_ARRAY(INT64, struct reading, samples, 0, 1000),
 *     EVZMQ_FIELD(MAP, struct reading, labels, 0),
 * };
 * static const struct evzmq_schema reading_schema =
 *     EVZMQ_SCHEMA(struct reading, ARRAY, "reading", reading_fields);
 *
 * struct evzmq_codec *codec = evzmq_schema_codec_new(&reading_schema, NULL);
 *
 * // With a socket: the codec, then evzmq_socket_write_value(s, &reading), and in the read callback
 * const struct reading *received = evzmq_record_value(message, NULL);
 *
 * // Without one:
 * struct reading out = {.sensor = EVZMQ_STR("attic"), .celsius = 21.5};
 * size_t size;
 * if (evzmq_codec_encoded_size(codec, &out, &size) == 0) {
 *     evzmq_codec_encode(codec, &out, buffer, size);
 * }
 * const void *value;
 * struct evzmq_decode_error error;
 * if (evzmq_codec_decode(codec, buffer, size, arena, &value, &error) == 0) {
 *     const struct reading *in = value;
 * }
 * @endcode
 *
 * What decoding gives lives as long as the bytes it was decoded from, the arena and the tables:
 * strings, binaries and spans point into the bytes, the struct itself and arrays are in the arena.
 * Members that no field names are zero. Encoding never changes or keeps the caller's struct.
 *
 * **Absent and nil.** A field that is not EVZMQ_REQUIRED may be missing from a message; its member
 * then has the field's default. A record tells absent from present if it has a member `uint64_t
 * absent` (see EVZMQ_SCHEMA_ABSENT()): bit i is set when field i of the table was not in the
 * message. Encoding reads it too: absent fields at the end of an array and all absent fields of a
 * map are left out, unless required. Zero, as in a fresh struct, so means that every field is
 * written. A field that is EVZMQ_NILABLE may be nil on the wire; each kind says what nil is in C,
 * and it is always the all-zero member.
 *
 * **What is accepted.** Any width of an integer, string, array or map; integers where a float is
 * due; further elements at the end of an array and unknown keys of a map, which are skipped. Of a
 * key that occurs twice the last value counts. **What is written** is the shortest form of
 * everything, floats in the width of their kind; spans of msgpack (struct evzmq_any) are written as
 * they are.
 */
#ifndef EVZMQ_SCHEMA_H
#define EVZMQ_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evzmq/base.h>
#include <evzmq/codec.h>

/** @cond */
#ifdef __cplusplus
/* Complete only for equal types, so that a member of another type does not compile. */
extern "C++" {
template <typename Member, typename Kind> struct evzmq_same_type;
template <typename Member> struct evzmq_same_type<Member, Member> {
    static constexpr unsigned zero = 0;
};
}

extern "C" {
#endif
/** @endcond */

struct evzmq_message;
struct evzmq_schema;

/** Text in UTF-8. It is not 0-terminated when it was decoded. */
struct evzmq_str {
    const char *data; /**< NULL is nil where nil is allowed, else the empty string; never NULL for a
                         decoded string, not even an empty one */
    size_t size; /**< in bytes */
};

/** Makes a struct evzmq_str initialiser of a string literal. */
#define EVZMQ_STR(literal)                                                                         \
    {                                                                                              \
        "" literal, sizeof(literal) - 1                                                            \
    }

/**
 * The bytes of exactly one msgpack value. A decoded one was checked: it is well formed, no deeper
 * than the codec's limit, its strings are UTF-8 (unless that is switched off), no map in it is the
 * key of a map or inside such a key, and its extensions of type -1 are timestamps.
 *
 * Walk it with a struct evzmq_cursor, look one key up with evzmq_any_find() (both are in
 * cursor.h), or decode it with the codec of evzmq_msgpack_codec_new():
 * `evzmq_codec_decode(tree, any.data, any.size, ...)`. To make one, pack a value with msgpack-c and
 * point to its bytes.
 */
struct evzmq_any {
    const void *data; /**< NULL is nil where nil is allowed, else the kind's empty value */
    size_t size; /**< in bytes */
};

/**
 * An integer of any sign and up to 64 bits of magnitude, for peers whose integers have no fixed
 * width.
 */
struct evzmq_integer {
    uint64_t bits; /**< the value; when is_negative, as an int64_t in two's complement */
    bool is_negative; /**< below 0 */
};

/**
 * The type of a member that holds an array: `EVZMQ_ARRAY_OF(int64_t) samples;`. `items` NULL is nil
 * where nil is allowed, else the empty array; it is never NULL for a decoded array.
 */
#define EVZMQ_ARRAY_OF(type)                                                                       \
    struct {                                                                                       \
        const type *items;                                                                         \
        size_t count;                                                                              \
    }

/** Which of its alternatives a struct evzmq_choice holds. */
enum evzmq_choice_kind {
    EVZMQ_CHOICE_NIL = 0, /**< nothing: nil where that is allowed, else the field's default */
    EVZMQ_CHOICE_BOOL, /**< in as.boolean */
    EVZMQ_CHOICE_INTEGER, /**< in as.integer */
    EVZMQ_CHOICE_FLOAT, /**< a float, in as.real; without EVZMQ_CHOICE_INTEGER beside it an integer
                           too */
    EVZMQ_CHOICE_STR, /**< in as.str */
    EVZMQ_CHOICE_BIN, /**< in as.bin */
    EVZMQ_CHOICE_STR_ARRAY, /**< an array of strings, in as.strs */
    EVZMQ_CHOICE_LIST, /**< an array of anything, in as.any; excludes EVZMQ_CHOICE_STR_ARRAY */
    EVZMQ_CHOICE_MAP, /**< a map with str keys, in as.any */
    EVZMQ_CHOICE_KINDS /**< how many there are; not a kind */
};

/** The bit of an alternative, for EVZMQ_FIELD_CHOICE(). */
#define EVZMQ_CHOICE_BIT(kind) (1u << EVZMQ_CHOICE_##kind)

/** A value that is one of several kinds, such as a string or an array of strings. */
struct evzmq_choice {
    enum evzmq_choice_kind kind; /**< which member of `as` is valid */
    union {
        bool boolean; /**< EVZMQ_CHOICE_BOOL */
        struct evzmq_integer integer; /**< EVZMQ_CHOICE_INTEGER */
        double real; /**< EVZMQ_CHOICE_FLOAT */
        struct evzmq_str str; /**< EVZMQ_CHOICE_STR */
        struct evzmq_bytes bin; /**< EVZMQ_CHOICE_BIN */
        EVZMQ_ARRAY_OF(struct evzmq_str) strs; /**< EVZMQ_CHOICE_STR_ARRAY */
        struct evzmq_any any; /**< EVZMQ_CHOICE_LIST, EVZMQ_CHOICE_MAP */
    } as; /**< the value */
};

/** One of several tagged records. Also the value of the codec of a union schema, both ways. */
struct evzmq_union {
    const struct evzmq_schema *which; /**< one of the union's members */
    const void *record; /**< the struct that `which` describes; NULL is nil where that is allowed */
};

/** The kinds of a field, named without their prefix in EVZMQ_FIELD() and its like. */
enum evzmq_kind {
    EVZMQ_KIND_BOOL = 1, /**< bool */
    EVZMQ_KIND_INT8, /**< int8_t; a number out of range is EVZMQ_DECODE_VALUE, here and below */
    EVZMQ_KIND_INT16, /**< int16_t */
    EVZMQ_KIND_INT32, /**< int32_t */
    EVZMQ_KIND_INT64, /**< int64_t */
    EVZMQ_KIND_UINT8, /**< uint8_t */
    EVZMQ_KIND_UINT16, /**< uint16_t */
    EVZMQ_KIND_UINT32, /**< uint32_t */
    EVZMQ_KIND_UINT64, /**< uint64_t */
    EVZMQ_KIND_INTEGER, /**< struct evzmq_integer */
    EVZMQ_KIND_FLOAT32, /**< float; a float64 on the wire is rounded */
    EVZMQ_KIND_FLOAT64, /**< double; an integer on the wire is rounded */
    EVZMQ_KIND_STR, /**< struct evzmq_str */
    EVZMQ_KIND_BIN, /**< struct evzmq_bytes */
    EVZMQ_KIND_ANY, /**< struct evzmq_any: any one value, nil included; default nil */
    EVZMQ_KIND_MAP, /**< struct evzmq_any: a map from str to anything; default empty */
    EVZMQ_KIND_STR_MAP, /**< struct evzmq_any: a map from str to str; default empty */
    EVZMQ_KIND_LIST, /**< struct evzmq_any: an array of anything; default empty */
    EVZMQ_KIND_MAP_LIST, /**< struct evzmq_any: an array of maps from str to anything */
    EVZMQ_KIND_CHOICE, /**< struct evzmq_choice: see EVZMQ_FIELD_CHOICE() */
    EVZMQ_KIND_RECORD, /**< pointer to another record: see EVZMQ_FIELD_RECORD() */
    EVZMQ_KIND_UNION, /**< struct evzmq_union: see EVZMQ_FIELD_UNION() */
    EVZMQ_KIND_ARRAY /**< EVZMQ_ARRAY_OF(): see EVZMQ_FIELD_ARRAY(), EVZMQ_FIELD_RECORD_ARRAY() */
};

/** The field must be in every message; a record without it is EVZMQ_DECODE_LENGTH. */
#define EVZMQ_REQUIRED 1u
/** The field may be nil. */
#define EVZMQ_NILABLE 2u
/** Set by EVZMQ_FIELD_NILABLE(): a number's or bool's member is a pointer, NULL for nil. */
#define EVZMQ_NILABLE_MEMBER 4u

/** The number of fields a record may have: each has a bit in `absent`. */
#define EVZMQ_FIELDS_MAX 64
/** How deep records may be nested in records. */
#define EVZMQ_SCHEMA_NESTING_MAX 16
/** How many different schemas one codec may use. */
#define EVZMQ_SCHEMAS_MAX 64
/** The largest struct of a record, in bytes. */
#define EVZMQ_RECORD_SIZE_MAX 65536u
/** What a count_max of 0 means. */
#define EVZMQ_ARRAY_COUNT_DEFAULT (1024u * 1024u)

/** One field of a record. Make it with the macros below. */
struct evzmq_field {
    const char *name; /**< its key in a map */
    size_t offset; /**< of its member, in bytes */
    size_t size; /**< of its member, in bytes */
    enum evzmq_kind kind; /**< of its member */
    unsigned flags; /**< EVZMQ_REQUIRED, EVZMQ_NILABLE, EVZMQ_NILABLE_MEMBER */
    const void *default_value; /**< `size` bytes for the member of an absent field; NULL for the
                                  all-zero member (for spans: the kind's default) */
    const struct evzmq_schema *schema; /**< of a nested record, a union or an array of records */
    enum evzmq_kind element_kind; /**< of an array; else any kind */
    unsigned alternatives; /**< of a choice: EVZMQ_CHOICE_BIT()s */
    size_t count_max; /**< elements of an array; 0 for EVZMQ_ARRAY_COUNT_DEFAULT */
};

/** The form of a record on the wire. */
enum evzmq_layout {
    EVZMQ_LAYOUT_ARRAY = 1, /**< an array: the tag, if any, then the fields in order */
    EVZMQ_LAYOUT_MAP, /**< a map from the fields' names, in any order; untagged */
    EVZMQ_LAYOUT_BARE, /**< the record's only field by itself: a message that is one number, say */
    EVZMQ_LAYOUT_UNION /**< one of several tagged arrays: see EVZMQ_SCHEMA_UNION() */
};

/** `absent_offset` of a record that does not tell absent fields from present ones. */
#define EVZMQ_ABSENT_NONE ((size_t)-1)

/**
 * A record, or a union of records. Make it with the macros below. It must be constant and outlive
 * the codecs made from it and all that they decode.
 */
struct evzmq_schema {
    size_t size; /**< sizeof(struct evzmq_schema) */
    const char *name; /**< for messages to people */
    enum evzmq_layout layout; /**< its form on the wire */
    const char *tag; /**< the first element of the array; NULL for none */
    size_t record_size; /**< of the struct, in bytes */
    size_t absent_offset; /**< of its `uint64_t absent`, or EVZMQ_ABSENT_NONE */
    size_t field_size; /**< sizeof(struct evzmq_field) */
    const struct evzmq_field *fields; /**< NULL for a union */
    size_t field_count; /**< of `fields` */
    const struct evzmq_schema *const *members; /**< of a union; each a tagged array */
    size_t member_count; /**< of `members` */
};

/** @cond */
/* What the macros below are made of. The member types of the kinds. */
#define EVZMQ_TYPE_BOOL bool
#define EVZMQ_TYPE_INT8 int8_t
#define EVZMQ_TYPE_INT16 int16_t
#define EVZMQ_TYPE_INT32 int32_t
#define EVZMQ_TYPE_INT64 int64_t
#define EVZMQ_TYPE_UINT8 uint8_t
#define EVZMQ_TYPE_UINT16 uint16_t
#define EVZMQ_TYPE_UINT32 uint32_t
#define EVZMQ_TYPE_UINT64 uint64_t
#define EVZMQ_TYPE_INTEGER struct evzmq_integer
#define EVZMQ_TYPE_FLOAT32 float
#define EVZMQ_TYPE_FLOAT64 double
#define EVZMQ_TYPE_STR struct evzmq_str
#define EVZMQ_TYPE_BIN struct evzmq_bytes
#define EVZMQ_TYPE_ANY struct evzmq_any
#define EVZMQ_TYPE_MAP struct evzmq_any
#define EVZMQ_TYPE_STR_MAP struct evzmq_any
#define EVZMQ_TYPE_LIST struct evzmq_any
#define EVZMQ_TYPE_MAP_LIST struct evzmq_any

/* The same for EVZMQ_FIELD_NILABLE(): kinds without a value to spare for nil are pointers. */
#define EVZMQ_NILABLE_TYPE_BOOL const bool *
#define EVZMQ_NILABLE_TYPE_INT8 const int8_t *
#define EVZMQ_NILABLE_TYPE_INT16 const int16_t *
#define EVZMQ_NILABLE_TYPE_INT32 const int32_t *
#define EVZMQ_NILABLE_TYPE_INT64 const int64_t *
#define EVZMQ_NILABLE_TYPE_UINT8 const uint8_t *
#define EVZMQ_NILABLE_TYPE_UINT16 const uint16_t *
#define EVZMQ_NILABLE_TYPE_UINT32 const uint32_t *
#define EVZMQ_NILABLE_TYPE_UINT64 const uint64_t *
#define EVZMQ_NILABLE_TYPE_INTEGER const struct evzmq_integer *
#define EVZMQ_NILABLE_TYPE_FLOAT32 const float *
#define EVZMQ_NILABLE_TYPE_FLOAT64 const double *
#define EVZMQ_NILABLE_TYPE_STR struct evzmq_str
#define EVZMQ_NILABLE_TYPE_BIN struct evzmq_bytes
#define EVZMQ_NILABLE_TYPE_ANY struct evzmq_any
#define EVZMQ_NILABLE_TYPE_MAP struct evzmq_any
#define EVZMQ_NILABLE_TYPE_STR_MAP struct evzmq_any
#define EVZMQ_NILABLE_TYPE_LIST struct evzmq_any
#define EVZMQ_NILABLE_TYPE_MAP_LIST struct evzmq_any

/* A constant 0 that does not compile unless the member has the type. */
#ifdef __cplusplus
#define EVZMQ_CHECK_TYPE(record, member, type)                                                     \
    (evzmq_same_type<decltype(((record *)0)->member), type>::zero)
#else
#define EVZMQ_CHECK_TYPE(record, member, type) (_Generic(&((record *)0)->member, type * : 0u))
#endif

#define EVZMQ_FIELD_INIT(kind, record, member, flags, default_value, schema, element,              \
                         alternatives, count_max)                                                  \
    {                                                                                              \
#member, offsetof(record, member), sizeof(((record *)0)->member), kind, flags,             \
            default_value, schema, element, alternatives, count_max                                \
    }

/** @endcond */

/**
 * A field of a simple kind.
 *
 * @param kind    BOOL to MAP_LIST of enum evzmq_kind, without the prefix
 * @param record  the struct's type
 * @param member  the member, of the kind's type; its name is the field's
 * @param flags   EVZMQ_REQUIRED or 0
 */
#define EVZMQ_FIELD(kind, record, member, flags)                                                   \
    EVZMQ_FIELD_DEFAULT(kind, record, member, flags, NULL)

/** EVZMQ_FIELD() with a default: a pointer to a constant of the member's type. */
#define EVZMQ_FIELD_DEFAULT(kind, record, member, flags, default_value)                            \
    EVZMQ_FIELD_INIT(EVZMQ_KIND_##kind, record, member,                                            \
                     ((flags) + EVZMQ_CHECK_TYPE(record, member, EVZMQ_TYPE_##kind)),              \
                     default_value, NULL, EVZMQ_KIND_##kind, 0, 0)

/**
 * EVZMQ_FIELD() for a field that may be nil. The member of BOOL and the numbers is a pointer to
 * constant, `const int64_t *retries`, where NULL is nil; decoded values are in the arena. The
 * others keep their type: data NULL is nil. The default is nil.
 */
#define EVZMQ_FIELD_NILABLE(kind, record, member, flags)                                           \
    EVZMQ_FIELD_INIT(EVZMQ_KIND_##kind, record, member,                                            \
                     ((flags) + (EVZMQ_NILABLE | EVZMQ_NILABLE_MEMBER) +                           \
                      EVZMQ_CHECK_TYPE(record, member, EVZMQ_NILABLE_TYPE_##kind)),                \
                     NULL, NULL, EVZMQ_KIND_##kind, 0, 0)

/**
 * A field that is an array of a simple kind other than spans (BOOL to BIN).
 *
 * @param element    the kind of the elements, without the prefix; they cannot be nil
 * @param member     EVZMQ_ARRAY_OF() the kind's type
 * @param flags      EVZMQ_REQUIRED, EVZMQ_NILABLE or both
 * @param count_max  more elements are EVZMQ_DECODE_LENGTH; 0 for EVZMQ_ARRAY_COUNT_DEFAULT
 */
#define EVZMQ_FIELD_ARRAY(element, record, member, flags, count_max)                               \
    EVZMQ_FIELD_INIT(                                                                              \
        EVZMQ_KIND_ARRAY, record, member,                                                          \
        ((flags) + EVZMQ_CHECK_TYPE(record, member.items, const EVZMQ_TYPE_##element *)), NULL,    \
        NULL, EVZMQ_KIND_##element, 0, count_max)

/**
 * A field that is an array of records.
 *
 * @param element         the struct's type of the elements
 * @param element_schema  pointer to its schema, not a union
 * @param member          EVZMQ_ARRAY_OF(element)
 * @param flags,count_max  as in EVZMQ_FIELD_ARRAY()
 */
#define EVZMQ_FIELD_RECORD_ARRAY(element, element_schema, record, member, flags, count_max)        \
    EVZMQ_FIELD_INIT(EVZMQ_KIND_ARRAY, record, member,                                             \
                     ((flags) + EVZMQ_CHECK_TYPE(record, member.items, const element *)), NULL,    \
                     element_schema, EVZMQ_KIND_RECORD, 0, count_max)

/**
 * A field that is another record.
 *
 * @param nested         the struct's type of the nested record
 * @param nested_schema  pointer to its schema, not a union
 * @param member         `const nested *`; NULL is nil where that is allowed. Where it is not, NULL
 * stands for an absent field only and cannot be encoded.
 * @param flags          EVZMQ_REQUIRED, EVZMQ_NILABLE or both
 */
#define EVZMQ_FIELD_RECORD(nested, nested_schema, record, member, flags)                           \
    EVZMQ_FIELD_INIT(EVZMQ_KIND_RECORD, record, member,                                            \
                     ((flags) + EVZMQ_CHECK_TYPE(record, member, const nested *)), NULL,           \
                     nested_schema, EVZMQ_KIND_RECORD, 0, 0)

/**
 * A field that is one of several tagged records.
 *
 * @param union_schema  pointer to a schema made by EVZMQ_SCHEMA_UNION()
 * @param member        struct evzmq_union
 * @param flags         EVZMQ_REQUIRED, EVZMQ_NILABLE or both
 */
#define EVZMQ_FIELD_UNION(union_schema, record, member, flags)                                     \
    EVZMQ_FIELD_INIT(EVZMQ_KIND_UNION, record, member,                                             \
                     ((flags) + EVZMQ_CHECK_TYPE(record, member, struct evzmq_union)), NULL,       \
                     union_schema, EVZMQ_KIND_UNION, 0, 0)

/**
 * A field that is one of several kinds.
 *
 * @param member         struct evzmq_choice
 * @param flags          EVZMQ_REQUIRED, EVZMQ_NILABLE or both
 * @param alternatives   EVZMQ_CHOICE_BIT()s, joined by |
 * @param default_value  pointer to a constant struct evzmq_choice, or NULL for EVZMQ_CHOICE_NIL
 */
#define EVZMQ_FIELD_CHOICE(record, member, flags, alternatives, default_value)                     \
    EVZMQ_FIELD_INIT(EVZMQ_KIND_CHOICE, record, member,                                            \
                     ((flags) + EVZMQ_CHECK_TYPE(record, member, struct evzmq_choice)),            \
                     default_value, NULL, EVZMQ_KIND_CHOICE, alternatives, 0)

/**
 * A schema's initialiser.
 *
 * @param record  the struct's type
 * @param layout  ARRAY, MAP or BARE
 * @param tag     a string literal, or NULL; only with ARRAY
 * @param fields  the array of struct evzmq_field (an array, not a pointer)
 */
#define EVZMQ_SCHEMA(record, layout, tag, fields)                                                  \
    {                                                                                              \
        sizeof(struct evzmq_schema), #record, EVZMQ_LAYOUT_##layout, tag, sizeof(record),          \
            EVZMQ_ABSENT_NONE, sizeof(struct evzmq_field), fields,                                 \
            sizeof(fields) / sizeof((fields)[0]), NULL, 0                                          \
    }

/** EVZMQ_SCHEMA() for a record with a member `uint64_t absent`: see the top of this file. */
#define EVZMQ_SCHEMA_ABSENT(record, layout, tag, fields, member)                                   \
    {                                                                                              \
        sizeof(struct evzmq_schema), #record, EVZMQ_LAYOUT_##layout, tag, sizeof(record),          \
            offsetof(record, member) + EVZMQ_CHECK_TYPE(record, member, uint64_t),                 \
            sizeof(struct evzmq_field), fields, sizeof(fields) / sizeof((fields)[0]), NULL, 0      \
    }

/**
 * The initialiser of a union: which record it is shows in the tag.
 *
 * @param name     a string literal, for messages to people
 * @param members  an array of pointers to schemas: tagged arrays, no two with the same tag
 */
#define EVZMQ_SCHEMA_UNION(name, members)                                                          \
    {                                                                                              \
        sizeof(struct evzmq_schema), name, EVZMQ_LAYOUT_UNION, NULL, 0, EVZMQ_ABSENT_NONE,         \
            sizeof(struct evzmq_field), NULL, 0, members, sizeof(members) / sizeof((members)[0])   \
    }

/** How deep the containers of a span may be nested by default. */
#define EVZMQ_SCHEMA_DEPTH_DEFAULT 512
/** How deep that can be asked to be. */
#define EVZMQ_SCHEMA_DEPTH_MAX 512
/** How many bytes of structs and arrays one message may decode to by default. */
#define EVZMQ_SCHEMA_MEMORY_DEFAULT (64u * 1024u * 1024u)

/** What a record's codec checks, and what a message may cost. */
struct evzmq_schema_options {
    size_t size; /**< sizeof(struct evzmq_schema_options) */
    size_t depth_max; /**< containers inside one another in a span or a skipped value; 0:
                         EVZMQ_SCHEMA_DEPTH_DEFAULT; more are EVZMQ_DECODE_DEPTH */
    size_t memory_max; /**< bytes from the arena for one message; 0: EVZMQ_SCHEMA_MEMORY_DEFAULT;
                          more are EVZMQ_DECODE_MEMORY. Each struct, array and pointed-to number
                          counts as the arena gives it: rounded up to alignof(max_align_t) */
    int skip_utf8; /**< not 0: strings are not checked to be UTF-8. By default they are, in spans
                      too, and one that is not is EVZMQ_DECODE_UTF8 */
};

/** What is wrong with a schema. */
struct evzmq_schema_fault {
    const struct evzmq_schema *schema; /**< where: it or one it refers to; NULL for a NULL schema */
    const struct evzmq_field *field; /**< where in it; NULL when it is no field's fault */
    const char *reason; /**< an English text that lives for ever */
};

/**
 * Checks a schema and all it refers to, as evzmq_schema_codec_new() does: offsets and sizes,
 * members that overlap, flags and kinds that do not go together, names and tags that occur twice,
 * schemas that refer to themselves, and the limits above.
 *
 * Thread: any. Callbacks: yes.
 *
 * @param schema     may be NULL, which is a fault
 * @param out_fault  may be NULL; written when the result is -1 with EINVAL
 * @return 0, or -1 with EINVAL (there is a fault), ENOMEM
 */
EVZMQ_API int evzmq_schema_check(const struct evzmq_schema *schema,
                                 struct evzmq_schema_fault *out_fault);

/**
 * Makes the codec of a schema. Its value is a `const` pointer to the record's struct, both ways;
 * for a union schema a `const struct evzmq_union *`.
 *
 * Decoding takes the structs and arrays from the arena and nothing else. The errors it reports are
 * those of enum evzmq_decode_kind. Their offset is that of the first byte of the value at fault,
 * except: TRUNCATED where a value is missing altogether, the end of the bytes; UTF8, the first byte
 * of the sequence that is none; TRAILING, the first byte too many.
 *
 * Encoding fails with EINVAL for: a string, binary, array or span that has a size but no data; more
 * elements than count_max; a span that is not one well-formed value of its kind; a choice or union
 * member that the field does not allow; a NULL record that may not be nil. It does not check that
 * strings are UTF-8.
 *
 * Thread: any. Callbacks: yes.
 *
 * @param schema   must outlive the codec and what it decodes
 * @param options  NULL for the defaults; copied
 * @return a codec with one reference, which is the caller's; or NULL with EINVAL (a fault in the
 * schema: see evzmq_schema_check(); options of unknown size or with a depth_max above
 * EVZMQ_SCHEMA_DEPTH_MAX), ENOMEM
 */
EVZMQ_API struct evzmq_codec *evzmq_schema_codec_new(const struct evzmq_schema *schema,
                                                     const struct evzmq_schema_options *options);

/**
 * The decoded record of a message.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @param message    any message
 * @param out_which  may be NULL; the schema of the record: the codec's own, or the union's member
 * @return the struct, which lives as long as the message's value; NULL when the message has no
 * value (an empty last part, or it could not be decoded) or was decoded by another codec
 */
EVZMQ_API const void *evzmq_record_value(const struct evzmq_message *message,
                                         const struct evzmq_schema **out_which);

/**
 * Makes an integer of a signed value.
 *
 * Thread: any. Callbacks: yes.
 */
static inline struct evzmq_integer evzmq_integer_from_int64(int64_t value)
{
    const struct evzmq_integer integer = {(uint64_t)value, value < 0};
    return integer;
}

/**
 * Makes an integer of an unsigned value.
 *
 * Thread: any. Callbacks: yes.
 */
static inline struct evzmq_integer evzmq_integer_from_uint64(uint64_t value)
{
    const struct evzmq_integer integer = {value, false};
    return integer;
}

/**
 * Reads an integer as a signed value.
 *
 * Thread: any. Callbacks: yes.
 *
 * @return whether it fits; *out_value is set then
 */
static inline bool evzmq_integer_to_int64(struct evzmq_integer integer, int64_t *out_value)
{
    if (!integer.is_negative && integer.bits > (uint64_t)INT64_MAX) {
        return false;
    }
    *out_value = (int64_t)integer.bits;
    return true;
}

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_SCHEMA_H */
