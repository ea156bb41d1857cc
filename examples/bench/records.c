/* Making the records of the measurements, and checking them on arrival. */
#include "records.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "report.h"
#include "typed.h"

#define TAG_QUERY_RESULT "query_result"
#define TAG_STREAM_CHUNK "stream_chunk"
#define TAG_OUTPUT "TextModelOutput"

/* The id is the first string of a Query and the second of the others, behind headers of one byte
 * each and a tag of 12 characters. */
#define ID_OFFSET_QUERY 2u
#define ID_OFFSET_TAGGED 15u

const char *record_name(enum bench_type type)
{
    static const char *const names[] = {"Query", "QueryResult", "StreamChunk"};
    return names[type];
}

void decimal_set(struct decimal *decimal, uint64_t value)
{
    const int length =
        snprintf(decimal->digits, sizeof(decimal->digits), "%llu", (unsigned long long)value);
    decimal->length = (size_t)length;
}

static size_t id_offset(enum bench_type type)
{
    return type == BENCH_QUERY ? ID_OFFSET_QUERY : ID_OFFSET_TAGGED;
}

static void pack_text(msgpack_packer *packer, const char *text, size_t length)
{
    msgpack_pack_str(packer, length);
    msgpack_pack_str_body(packer, text, length);
}

/* A macro, since the compiler does not inline a function here and would measure every word anew. */
#define pack_word(packer, word) pack_text((packer), (word), sizeof(word) - 1)

static void pack_query_data(msgpack_packer *packer, const char *text, size_t chars)
{
    msgpack_pack_map(packer, 3);
    pack_word(packer, "prompt");
    pack_text(packer, text, chars);
    pack_word(packer, "model");
    pack_word(packer, "m");
    pack_word(packer, "stream");
    msgpack_pack_false(packer);
}

static void pack_query_headers(msgpack_packer *packer)
{
    msgpack_pack_map(packer, 1);
    pack_word(packer, "Content-Type");
    pack_word(packer, "application/json");
}

void record_pack_query_data(msgpack_sbuffer *out, const char *text, size_t chars)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    pack_query_data(&packer, text, chars);
}

void record_pack_query_headers(msgpack_sbuffer *out)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    pack_query_headers(&packer);
}

static void pack_query(const struct record_source *source, msgpack_packer *packer)
{
    msgpack_pack_array(packer, 4);
    pack_text(packer, source->id.digits, source->id.length);
    pack_query_data(packer, source->text, source->chars);
    pack_query_headers(packer);
    msgpack_pack_double(packer, RECORD_CREATED_AT);
}

static void pack_query_result(const struct record_source *source, msgpack_packer *packer)
{
    msgpack_pack_array(packer, 6);
    pack_word(packer, TAG_QUERY_RESULT);
    pack_text(packer, source->id.digits, source->id.length);
    msgpack_pack_array(packer, 4);
    pack_word(packer, TAG_OUTPUT);
    pack_text(packer, source->text, source->chars);
    msgpack_pack_nil(packer);
    msgpack_pack_nil(packer);
    msgpack_pack_map(packer, 0);
    msgpack_pack_nil(packer);
    msgpack_pack_uint64(packer, RECORD_COMPLETED_AT);
}

static void pack_stream_chunk(const struct record_source *source, msgpack_packer *packer)
{
    msgpack_pack_array(packer, 4);
    pack_word(packer, TAG_STREAM_CHUNK);
    pack_text(packer, source->id.digits, source->id.length);
    pack_text(packer, source->text, source->chars);
    msgpack_pack_map(packer, 0);
}

void record_source_pack(struct record_source *source)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, &source->bytes, msgpack_sbuffer_write);
    msgpack_sbuffer_clear(&source->bytes);
    switch (source->type) {
    case BENCH_QUERY:
        pack_query(source, &packer);
        break;
    case BENCH_QUERY_RESULT:
        pack_query_result(source, &packer);
        break;
    default:
        pack_stream_chunk(source, &packer);
        break;
    }
}

int record_source_init(struct record_source *source, enum bench_type type, size_t chars,
                       enum record_form form)
{
    *source = (struct record_source){.type = type, .form = form, .chars = chars};
    msgpack_sbuffer_init(&source->bytes);
    decimal_set(&source->id, 0);
    source->text = malloc(chars + 1);
    if (source->text == NULL) {
        return report_error("no memory for a text of %zu chars", chars);
    }
    memset(source->text, 'x', chars);
    /* Room for the whole record from the start: the packer cannot fail for want of memory later. */
    source->bytes.data = malloc(chars + 256);
    if (source->bytes.data == NULL) {
        record_source_clear(source);
        return report_error("no memory for a record of %zu chars", chars);
    }
    source->bytes.alloc = chars + 256;
    if (form == RECORD_TYPED) {
        source->typed = malloc(sizeof(*source->typed));
        if (source->typed == NULL ||
            typed_record_init(source->typed, type, source->text, chars) != 0) {
            free(source->typed);
            source->typed = NULL;
            record_source_clear(source);
            return report_error("cannot make a typed record of %zu chars", chars);
        }
    }
    return 0;
}

void record_source_clear(struct record_source *source)
{
    free(source->text);
    source->text = NULL;
    msgpack_sbuffer_destroy(&source->bytes);
    if (source->typed != NULL) {
        typed_record_clear(source->typed);
        free(source->typed);
        source->typed = NULL;
    }
}

/* A struct points to its id, so that is counted on only when the next record is made. To copy it
 * right after a digit of it was stored would cost up to 20 ns, for the processor then has to wait
 * for the store: as much as encoding a short record does, and the packer does not pay it. */
void record_source_advance(struct record_source *source)
{
    if (source->made_size != 0) {
        decimal_next(&source->id);
    }
    source->made_size = 1; /* its size is nobody's concern but that it was made */
    typed_record_set_id(source->typed, source->id.digits, source->id.length);
}

static size_t next_typed(struct record_source *source)
{
    record_source_advance(source);
    source->made_size = typed_record_size(source->typed);
    return source->made_size;
}

size_t record_source_next(struct record_source *source)
{
    if (source->form == RECORD_TYPED) {
        return next_typed(source);
    }
    if (source->form == RECORD_PACKED || source->made_id.length != source->id.length) {
        record_source_pack(source);
        source->made_id.length = source->id.length;
    } else {
        memcpy(source->bytes.data + id_offset(source->type), source->id.digits, source->id.length);
    }
    decimal_next(&source->id);
    source->made_size = source->bytes.size;
    return source->made_size;
}

int record_source_write(const struct record_source *source, void *buffer)
{
    if (source->form == RECORD_TYPED) {
        return typed_record_encode(source->typed, buffer, source->made_size);
    }
    memcpy(buffer, source->bytes.data, source->made_size);
    return 0;
}

size_t record_size(enum bench_type type, size_t chars)
{
    struct record_source source;
    if (record_source_init(&source, type, chars, RECORD_PACKED) != 0) {
        return 0;
    }
    const size_t size = record_source_next(&source);
    record_source_clear(&source);
    return size;
}

void record_check_init(struct record_check *check, enum bench_type type, size_t chars)
{
    *check = (struct record_check){.type = type, .chars = chars};
    decimal_set(&check->id, 0);
}

void record_check_id(struct record_check *check, const char *id, size_t length)
{
    if (length != check->id.length || memcmp(id, check->id.digits, length) != 0) {
        check->failed = 1;
        snprintf(check->reason, sizeof(check->reason),
                 "lost or reordered: record %.*s came when %.*s was due",
                 (int)(length < 24 ? length : 24), id, (int)check->id.length, check->id.digits);
        return;
    }
    decimal_next(&check->id);
}

void record_check_fail_shape(struct record_check *check)
{
    check->failed = 1;
    snprintf(check->reason, sizeof(check->reason), "record %.*s is not the %s that was sent",
             (int)check->id.length, check->id.digits, record_name(check->type));
}

void record_check_bytes(struct record_check *check, const void *data, size_t size)
{
    if (check->failed) {
        return;
    }
    /* The byte before the id is its header: 0xa0 plus its length. */
    const unsigned char *bytes = data;
    const size_t offset = id_offset(check->type);
    const size_t length = size > offset ? bytes[offset - 1] ^ 0xa0u : SIZE_MAX;
    if (length >= sizeof(check->id.digits) || size - offset < length) {
        record_check_fail_shape(check);
        return;
    }
    record_check_id(check, (const char *)bytes + offset, length);
}

static int is_array(const msgpack_object *object, uint32_t size)
{
    return object->type == MSGPACK_OBJECT_ARRAY && object->via.array.size == size;
}

static int is_word(const msgpack_object *object, const char *word, size_t length)
{
    return object->type == MSGPACK_OBJECT_STR && object->via.str.size == length &&
           memcmp(object->via.str.ptr, word, length) == 0;
}

/* The text of a record of the right shape, or NULL. */
static const msgpack_object *find_text(enum bench_type type, const msgpack_object *record)
{
    const msgpack_object *fields = record->via.array.ptr;
    switch (type) {
    case BENCH_QUERY:
        if (!is_array(record, 4) || fields[1].type != MSGPACK_OBJECT_MAP ||
            fields[1].via.map.size != 3) {
            return NULL;
        }
        return &fields[1].via.map.ptr[0].val;
    case BENCH_QUERY_RESULT:
        if (!is_array(record, 6) || !is_word(&fields[0], TAG_QUERY_RESULT, 12) ||
            !is_array(&fields[2], 4)) {
            return NULL;
        }
        return &fields[2].via.array.ptr[1];
    default:
        if (!is_array(record, 4) || !is_word(&fields[0], TAG_STREAM_CHUNK, 12)) {
            return NULL;
        }
        return &fields[2];
    }
}

void record_check_tree(struct record_check *check, const msgpack_object *record)
{
    if (check->failed) {
        return;
    }
    const msgpack_object *text = record == NULL ? NULL : find_text(check->type, record);
    if (text == NULL || text->type != MSGPACK_OBJECT_STR || text->via.str.size != check->chars) {
        record_check_fail_shape(check);
        return;
    }
    const msgpack_object *id = &record->via.array.ptr[check->type == BENCH_QUERY ? 0 : 1];
    if (id->type != MSGPACK_OBJECT_STR) {
        record_check_fail_shape(check);
        return;
    }
    record_check_id(check, id->via.str.ptr, id->via.str.size);
}
