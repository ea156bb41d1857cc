/**
 * @file test_misuse_messages.c
 * Wrong arguments of what needs no loop: messages, codecs, cursors, schemas, and what belongs to
 * the whole library.
 */
#include "support.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include <evzmq/msgpack.h>

#include "misuse.h"

static void messages(struct evzmq_message *m, struct evbuffer *buffer)
{
    struct evzmq_message *const empty = evzmq_message_new();
    misuse_note("evzmq_message_new");
    assert_non_null(empty);

    returns(evzmq_message_free, NULL);
    refused(EINVAL, evzmq_message_add, NULL, NULL, 0);
    refused(EINVAL, evzmq_message_add, NULL, "x", 1);
    refused(EINVAL, evzmq_message_add, m, NULL, 1);
    refused(ENOMEM, evzmq_message_add, m, "x", SIZE_MAX);
    refused(0, evzmq_message_add, m, NULL, 0);
    refused(EINVAL, evzmq_message_add_reference, NULL, buffer, 1, NULL, NULL);
    refused(EINVAL, evzmq_message_add_reference, m, NULL, 1, NULL, NULL);
    refused(EINVAL, evzmq_message_add_reference, m, buffer, SIZE_MAX, NULL, NULL);
    refused(0, evzmq_message_add_reference, m, NULL, 0, NULL, NULL);
    refused(EINVAL, evzmq_message_add_evbuffer, NULL, buffer);
    refused(EINVAL, evzmq_message_add_evbuffer, m, NULL);
    refused(EINVAL, evzmq_message_part_to_evbuffer, NULL, 0, buffer);
    refused(EINVAL, evzmq_message_part_to_evbuffer, m, 0, NULL);
    refused(EINVAL, evzmq_message_part_to_evbuffer, m, SIZE_MAX, buffer);
    gives(0, evzmq_message_get_part_count, NULL);
    no_object(EINVAL, evzmq_message_get_part, NULL, 0, NULL);
    no_object(EINVAL, evzmq_message_get_part, m, SIZE_MAX, NULL);
    no_object(EINVAL, evzmq_message_get_part, empty, 0, NULL);
    gives(0, evzmq_message_get_size, NULL);
    no_object(EINVAL, evzmq_message_take, NULL);
    refused(EINVAL, evzmq_message_decode, NULL, evzmq_codec_raw(), NULL);
    refused(EINVAL, evzmq_message_decode, m, NULL, NULL);
    refused(EINVAL, evzmq_message_decode, empty, evzmq_codec_raw(), NULL);
    null(evzmq_message_get_value, NULL);
    null(evzmq_message_get_value, m);
    null(evzmq_message_get_codec, NULL);
    gives(0, evzmq_message_get_decode_error, NULL, NULL);
    gives(0, evzmq_message_get_decode_error, m, NULL);
    null(evzmq_message_get_envelope, NULL);
    null(evzmq_message_get_envelope, m);
    no_object(EINVAL, evzmq_envelope_dup, NULL);
    returns(evzmq_envelope_free, NULL);
    gives(0, evzmq_envelope_get_part_count, NULL);
    no_object(EINVAL, evzmq_envelope_get_part, NULL, 0, NULL);
    null(evzmq_msgpack_value, NULL);
    null(evzmq_msgpack_value, m);
    null(evzmq_record_value, NULL, NULL);
    null(evzmq_record_value, m, NULL);
    evzmq_message_free(empty);
}

static void wrong_messages_and_parts_are_errors(void **state)
{
    (void)state;
    struct evzmq_message *const m = evzmq_message_new();
    struct evbuffer *const buffer = evbuffer_new();
    assert_ok(evzmq_message_add(m, "x", 1));
    misuse_begin();
    messages(m, buffer);
    assert_int_equal(misuse_faults(), 0);
    misuse_complete((const char *const[]){"message.h", NULL});
    evbuffer_free(buffer);
    evzmq_message_free(m);
}

static int decode_nothing(const void *state, const void *data, size_t size,
                          struct evzmq_arena *arena, const void **out_value,
                          struct evzmq_decode_error *out_error)
{
    (void)state;
    (void)data;
    (void)size;
    (void)arena;
    (void)out_error;
    *out_value = "";
    return 0;
}

static void making_codecs(void)
{
    const size_t whole = sizeof(struct evzmq_codec_methods);
    const struct evzmq_codec_methods sizeless = {.name = "", .decode = decode_nothing};
    const struct evzmq_codec_methods large = {SIZE_MAX, "", decode_nothing, NULL, NULL, NULL, NULL};
    const struct evzmq_codec_methods nameless = {.size = whole, .decode = decode_nothing};
    const struct evzmq_codec_methods idle = {.size = whole, .name = ""};

    no_object(EINVAL, evzmq_codec_new, NULL, NULL);
    no_object(EINVAL, evzmq_codec_new, &sizeless, NULL);
    no_object(EINVAL, evzmq_codec_new, &large, NULL);
    no_object(EINVAL, evzmq_codec_new, &nameless, NULL);
    no_object(EINVAL, evzmq_codec_new, &idle, NULL);
    misuse_note("evzmq_codec_raw");
    returns(evzmq_codec_free, NULL);
    returns(evzmq_codec_free, evzmq_codec_raw());
    null(evzmq_codec_get_methods, NULL);
    null(evzmq_codec_get_state, NULL);

    const struct evzmq_msgpack_limits none = {.size = 0};
    const struct evzmq_msgpack_limits deep = {.size = sizeof(deep), .depth_max = SIZE_MAX};
    no_object(EINVAL, evzmq_msgpack_codec_new, &none);
    no_object(EINVAL, evzmq_msgpack_codec_new, &deep);
}

static void arenas(void)
{
    struct evzmq_arena *const arena = evzmq_arena_new();
    misuse_note("evzmq_arena_new");
    no_object(EINVAL, evzmq_arena_alloc, NULL, 1);
    no_object(ENOMEM, evzmq_arena_alloc, arena, SIZE_MAX);
    no_object(ENOMEM, evzmq_arena_alloc, arena, SIZE_MAX - 15);
    no_object(ENOMEM, evzmq_arena_alloc, arena, SIZE_MAX / 2);
    no_object(0, evzmq_arena_alloc, arena, 0);
    returns(evzmq_arena_reset, NULL);
    returns(evzmq_arena_free, NULL);
    evzmq_arena_free(arena);
}

static void decoding(struct evzmq_codec *codec, struct evzmq_arena *arena)
{
    const void *value = NULL;
    size_t used = 0;
    refused(EINVAL, evzmq_codec_decode, NULL, "\x01", 1, arena, &value, NULL);
    refused(EINVAL, evzmq_codec_decode, codec, NULL, 1, arena, &value, NULL);
    refused(EINVAL, evzmq_codec_decode, codec, "\x01", 1, NULL, &value, NULL);
    refused(EINVAL, evzmq_codec_decode, codec, "\x01", 1, arena, NULL, NULL);
    refused(EBADMSG, evzmq_codec_decode, codec, NULL, 0, arena, &value, NULL);
    refused(EINVAL, evzmq_codec_decode_prefix, NULL, "\x01", 1, arena, &value, &used, NULL);
    refused(EINVAL, evzmq_codec_decode_prefix, codec, NULL, 1, arena, &value, &used, NULL);
    refused(EINVAL, evzmq_codec_decode_prefix, codec, "\x01", 1, NULL, &value, &used, NULL);
    refused(EINVAL, evzmq_codec_decode_prefix, codec, "\x01", 1, arena, NULL, &used, NULL);
    refused(EINVAL, evzmq_codec_decode_prefix, codec, "\x01", 1, arena, &value, NULL, NULL);
    refused(EBADMSG, evzmq_codec_decode_prefix, codec, NULL, 0, arena, &value, &used, NULL);
    refused(ENOTSUP, evzmq_codec_decode_prefix, evzmq_codec_raw(), "x", 1, arena, &value, &used,
            NULL);
}

static void encoding(struct evzmq_codec *codec)
{
    static const struct evzmq_bytes nowhere = {NULL, 5};
    const msgpack_object one = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = 1};
    const msgpack_object unknown = {.type = (msgpack_object_type)99};
    const msgpack_object text = {.type = MSGPACK_OBJECT_STR, .via.str = {5, NULL}};
    const msgpack_object array = {.type = MSGPACK_OBJECT_ARRAY, .via.array = {5, NULL}};
    const msgpack_object map = {.type = MSGPACK_OBJECT_MAP, .via.map = {5, NULL}};
    unsigned char buffer[16];
    size_t size = 0;

    refused(EINVAL, evzmq_codec_encoded_size, NULL, &one, &size);
    refused(EINVAL, evzmq_codec_encoded_size, codec, NULL, &size);
    refused(EINVAL, evzmq_codec_encoded_size, codec, &one, NULL);
    refused(EINVAL, evzmq_codec_encoded_size, codec, &unknown, &size);
    refused(EINVAL, evzmq_codec_encoded_size, codec, &text, &size);
    refused(EINVAL, evzmq_codec_encoded_size, codec, &array, &size);
    refused(EINVAL, evzmq_codec_encoded_size, codec, &map, &size);
    refused(EINVAL, evzmq_codec_encoded_size, evzmq_codec_raw(), &nowhere, &size);
    refused(EINVAL, evzmq_codec_encode, NULL, &one, buffer, 1);
    refused(EINVAL, evzmq_codec_encode, codec, NULL, buffer, 1);
    refused(EINVAL, evzmq_codec_encode, codec, &one, NULL, 1);
    refused(EINVAL, evzmq_codec_encode, codec, &one, buffer, 0);
    refused(EINVAL, evzmq_codec_encode, evzmq_codec_raw(), &nowhere, buffer, 5);
}

static void wrong_codecs_values_and_bytes_are_errors(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct evzmq_arena *const arena = evzmq_arena_new();
    misuse_begin();
    making_codecs();
    arenas();
    decoding(codec, arena);
    encoding(codec);
    no_object(0, evzmq_decode_kind_name, (enum evzmq_decode_kind) - 1);
    no_object(0, evzmq_decode_kind_name, (enum evzmq_decode_kind)INT_MAX);
    null(evzmq_msgpack_value, NULL);
    assert_int_equal(misuse_faults(), 0);
    misuse_complete((const char *const[]){"codec.h", "msgpack.h", NULL});
    evzmq_codec_free(codec);
    evzmq_arena_free(arena);
}

/* Reads from no cursor, into nothing, and from a cursor that is all zero. */
#define READS(function, type)                                                                      \
    do {                                                                                           \
        type out;                                                                                  \
        struct evzmq_cursor nowhere = {NULL, NULL};                                                \
        refused(EINVAL, function, NULL, &out);                                                     \
        refused(EINVAL, function, &cursor, NULL);                                                  \
        refused(ENOENT, function, &nowhere, &out);                                                 \
    } while (0)

static void wrong_cursors_are_errors(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {0xc7, 5, 0xff, 0, 0, 0, 0, 0};
    struct evzmq_cursor cursor = evzmq_cursor_at((struct evzmq_any){bytes, sizeof(bytes)});
    struct evzmq_cursor empty = {NULL, NULL};
    struct evzmq_any any = {NULL, 0};
    struct evzmq_bytes data;
    int8_t type = 0;
    int64_t seconds = 0;
    uint32_t nanoseconds = 0;
    misuse_begin();
    gives(EVZMQ_CURSOR_END, evzmq_cursor_get_type, NULL);
    gives(EVZMQ_CURSOR_END, evzmq_cursor_get_type, &empty);
    refused(EINVAL, evzmq_cursor_read_nil, NULL);
    refused(ENOENT, evzmq_cursor_read_nil, &empty);
    READS(evzmq_cursor_read_bool, bool);
    READS(evzmq_cursor_read_integer, struct evzmq_integer);
    READS(evzmq_cursor_read_int64, int64_t);
    READS(evzmq_cursor_read_uint64, uint64_t);
    READS(evzmq_cursor_read_float64, double);
    READS(evzmq_cursor_read_str, struct evzmq_str);
    READS(evzmq_cursor_read_bin, struct evzmq_bytes);
    READS(evzmq_cursor_read_array, size_t);
    READS(evzmq_cursor_read_map, size_t);
    READS(evzmq_cursor_read_any, struct evzmq_any);
    refused(EINVAL, evzmq_cursor_read_ext, NULL, &type, &data);
    refused(EINVAL, evzmq_cursor_read_ext, &cursor, NULL, &data);
    refused(EINVAL, evzmq_cursor_read_ext, &cursor, &type, NULL);
    refused(EINVAL, evzmq_cursor_read_timestamp, NULL, &seconds, &nanoseconds);
    refused(EINVAL, evzmq_cursor_read_timestamp, &cursor, NULL, &nanoseconds);
    refused(EINVAL, evzmq_cursor_read_timestamp, &cursor, &seconds, NULL);
    refused(EPROTOTYPE, evzmq_cursor_read_timestamp, &cursor, &seconds, &nanoseconds);
    refused(EINVAL, evzmq_any_find, any, NULL, &any);
    refused(EINVAL, evzmq_any_find, any, "k", NULL);
    refused(ENOENT, evzmq_any_find, any, "k", &any);
    assert_int_equal(misuse_faults(), 0);
    misuse_complete((const char *const[]){"cursor.h", NULL});
}

/* Which of the readers read what is at a cursor, as bits of enum evzmq_cursor_type. */
static unsigned readers(struct evzmq_cursor at)
{
    union {
        bool boolean;
        struct evzmq_integer integer;
        double real;
        struct evzmq_str str;
        struct evzmq_bytes bytes;
        size_t count;
    } out;
    int8_t type = 0;
    unsigned result = 0;
#define TRY(kind, call)                                                                            \
    do {                                                                                           \
        struct evzmq_cursor cursor = at;                                                           \
        const bool reads = (call) == 0;                                                            \
        assert_true(reads ? cursor.next > at.next &&cursor.next <= at.end                          \
                          : cursor.next == at.next);                                               \
        result |= reads ? 1u << (kind) : 0;                                                        \
    } while (0)
    TRY(EVZMQ_CURSOR_NIL, evzmq_cursor_read_nil(&cursor));
    TRY(EVZMQ_CURSOR_BOOL, evzmq_cursor_read_bool(&cursor, &out.boolean));
    TRY(EVZMQ_CURSOR_INTEGER, evzmq_cursor_read_integer(&cursor, &out.integer));
    TRY(EVZMQ_CURSOR_FLOAT, evzmq_cursor_read_float64(&cursor, &out.real));
    TRY(EVZMQ_CURSOR_STR, evzmq_cursor_read_str(&cursor, &out.str));
    TRY(EVZMQ_CURSOR_BIN, evzmq_cursor_read_bin(&cursor, &out.bytes));
    TRY(EVZMQ_CURSOR_ARRAY, evzmq_cursor_read_array(&cursor, &out.count));
    TRY(EVZMQ_CURSOR_MAP, evzmq_cursor_read_map(&cursor, &out.count));
    TRY(EVZMQ_CURSOR_EXT, evzmq_cursor_read_ext(&cursor, &type, &out.bytes));
    return result;
}

static void a_value_is_read_as_what_it_is_or_not_at_all(void **state)
{
    (void)state;
    static const unsigned char fills[] = {0x00, 0x01, 0x7f, 0xc1, 0xff};
    for (unsigned first = 0; first < 256; first++) {
        for (size_t size = 1; size <= 40; size++) {
            for (size_t fill = 0; fill < sizeof(fills); fill++) {
                unsigned char *const bytes = malloc(size); /* its end is guarded */
                assert_non_null(bytes);
                memset(bytes, fills[fill], size);
                bytes[0] = (unsigned char)first;
                const struct evzmq_cursor at = evzmq_cursor_at((struct evzmq_any){bytes, size});
                const unsigned type = 1u << evzmq_cursor_get_type(&at);
                const unsigned as_float =
                    type == 1u << EVZMQ_CURSOR_INTEGER ? 1u << EVZMQ_CURSOR_FLOAT : 0;
                const unsigned read = readers(at);
                assert_true(read == 0 || read == (type | as_float));
                free(bytes);
            }
        }
    }
}

struct record {
    int64_t number;
};

static const struct evzmq_field fields[] = {EVZMQ_FIELD(INT64, struct record, number, 0)};
static const struct evzmq_schema good = EVZMQ_SCHEMA(struct record, ARRAY, NULL, fields);

/* A schema that is good but for what is changed in it. */
#define WRONG_SCHEMA(member, value)                                                                \
    do {                                                                                           \
        struct evzmq_schema wrong = good;                                                          \
        wrong.member = value;                                                                      \
        refused(EINVAL, evzmq_schema_check, &wrong, NULL);                                         \
        no_object(EINVAL, evzmq_schema_codec_new, &wrong, NULL);                                   \
    } while (0)

static void wrong_schemas_are_errors(void **state)
{
    (void)state;
    const struct evzmq_schema_options sizeless = {.size = 0};
    const struct evzmq_schema_options large = {.size = SIZE_MAX};
    const struct evzmq_schema_options deep = {.size = sizeof(deep), .depth_max = SIZE_MAX};
    misuse_begin();
    refused(EINVAL, evzmq_schema_check, NULL, NULL);
    no_object(EINVAL, evzmq_schema_codec_new, NULL, NULL);
    no_object(EINVAL, evzmq_schema_codec_new, &good, &sizeless);
    no_object(EINVAL, evzmq_schema_codec_new, &good, &large);
    no_object(EINVAL, evzmq_schema_codec_new, &good, &deep);
    WRONG_SCHEMA(size, 0);
    WRONG_SCHEMA(size, SIZE_MAX);
    WRONG_SCHEMA(field_size, 0);
    WRONG_SCHEMA(field_size, SIZE_MAX);
    WRONG_SCHEMA(record_size, 0);
    WRONG_SCHEMA(record_size, SIZE_MAX);
    WRONG_SCHEMA(fields, NULL);
    WRONG_SCHEMA(field_count, SIZE_MAX);
    WRONG_SCHEMA(absent_offset, SIZE_MAX - 1);
    WRONG_SCHEMA(layout, (enum evzmq_layout)0);
    WRONG_SCHEMA(layout, (enum evzmq_layout)99);
    WRONG_SCHEMA(layout, EVZMQ_LAYOUT_UNION);
    null(evzmq_record_value, NULL, NULL);
    assert_int_equal(misuse_faults(), 0);
    misuse_complete((const char *const[]){"schema.h", NULL});
}

/* They are data, and cannot be misused but as what they are. */
static void records_are_schemas_without_a_fault(void **state)
{
    (void)state;
    misuse_begin();
#define SCHEMA(name)                                                                               \
    refused(0, evzmq_schema_check, &name, NULL);                                                   \
    misuse_note(#name)
    SCHEMA(evzmq_record_batch_schema);
    SCHEMA(evzmq_record_error_data_schema);
    SCHEMA(evzmq_record_prompt_data_schema);
    SCHEMA(evzmq_record_query_schema);
    SCHEMA(evzmq_record_query_result_schema);
    SCHEMA(evzmq_record_ready_signal_schema);
    SCHEMA(evzmq_record_response_schema);
    SCHEMA(evzmq_record_stream_chunk_schema);
    SCHEMA(evzmq_record_text_model_output_schema);
    assert_int_equal(misuse_faults(), 0);
    misuse_complete((const char *const[]){"records.h", NULL});
}

static void wrong_arguments_of_the_library_are_errors(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    misuse_begin();
    returns(evzmq_version, NULL, NULL, NULL);
    no_object(0, evzmq_strerror, -1);
    no_object(0, evzmq_strerror, INT_MIN);
    no_object(0, evzmq_strerror, INT_MAX);
    refused(EINVAL, evzmq_set_mem_functions, malloc, NULL, NULL);
    refused(EINVAL, evzmq_set_mem_functions, NULL, realloc, NULL);
    refused(EINVAL, evzmq_set_mem_functions, NULL, NULL, free);
    misuse_note("evzmq_enable_debug_mode"); /* it has no argument and no result */
    refused(EINVAL, evzmq_base_set_thread, NULL);
    refused(0, evzmq_base_set_thread, f->base); /* nothing is on it */
    refused(EINVAL, evzmq_base_set_receive_buffer, NULL, 1);
    refused(ENOENT, evzmq_base_set_receive_buffer, f->base, 1);
    refused(EINVAL, evzmq_after_fork, NULL);
    refused(0, evzmq_after_fork, f->base);
    probe_attach(f, &p, peer_new(f, ZMQ_PULL), 0);
    refused(0, evzmq_base_set_receive_buffer, f->base, SIZE_MAX);
    refused(0, evzmq_base_set_receive_buffer, f->base, 0);
    probe_free(&p);
    assert_int_equal(misuse_faults(), 0);
    misuse_complete((const char *const[]){"base.h", NULL});
}

/* Each is looked at by one of the programs test_misuse_*; one that is new is to be named here and
 * there. */
static void every_public_header_is_looked_at(void **state)
{
    (void)state;
    static const char known[] =
        " base.h codec.h context.h cursor.h evzmq.h message.h monitor.h msgpack.h packing.h pool.h "
        "poster.h pubsub.h records.h request.h schema.h socket.h stats.h worker.h ";
    DIR *const directory = opendir(EVZMQ_TESTS_DIR "/../include/evzmq");
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char name[300];
        (void)snprintf(name, sizeof(name), " %s ", entry->d_name);
        if (entry->d_name[0] != '.' && strstr(known, name) == NULL) {
            fail_msg("%s is not looked at", entry->d_name);
        }
    }
    (void)closedir(directory);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(wrong_messages_and_parts_are_errors),
        claim(wrong_codecs_values_and_bytes_are_errors),
        claim(wrong_cursors_are_errors),
        claim(a_value_is_read_as_what_it_is_or_not_at_all),
        claim(wrong_schemas_are_errors),
        claim(records_are_schemas_without_a_fault),
        claim(wrong_arguments_of_the_library_are_errors),
        claim(every_public_header_is_looked_at),
    };
    return run_claims(tests);
}
