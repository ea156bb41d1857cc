/*
 * What http_gateway makes of JSON and of records, and that it does not copy a large text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <event2/buffer.h>
#include <evzmq/evzmq.h>

#include "gateway/json.h"

enum { LARGE = 100000 };

/* Encodes a result into a message of its own and decodes it there. */
static struct evzmq_message *encode(const struct evzmq_record_query_result *result)
{
    struct evzmq_codec *codec = evzmq_schema_codec_new(&evzmq_record_query_result_schema, NULL);
    struct evzmq_message *message = evzmq_message_new();
    size_t size = 0;
    assert_int_equal(evzmq_codec_encoded_size(codec, result, &size), 0);
    void *bytes = malloc(size);
    assert_int_equal(evzmq_codec_encode(codec, result, bytes, size), 0);
    assert_int_equal(evzmq_message_add(message, bytes, size), 0);
    assert_int_equal(evzmq_message_decode(message, codec, NULL), 0);
    free(bytes);
    evzmq_codec_free(codec);
    return message;
}

static struct evzmq_record_text_model_output output_of(const char *text, size_t size)
{
    return (struct evzmq_record_text_model_output){
        .output = {.kind = EVZMQ_CHOICE_STR, .as = {.str = {text, size}}}};
}

static char *text_of(struct evbuffer *buffer)
{
    (void)evbuffer_add(buffer, "", 1);
    return (char *)evbuffer_pullup(buffer, -1);
}

static char *letters(void)
{
    char *text = malloc(LARGE);
    assert_non_null(text);
    for (size_t i = 0; i < LARGE; i++) {
        text[i] = (char)('a' + i % 26);
    }
    return text;
}

/* The message may go: the evbuffer keeps what it refers to. */
static void a_large_text_is_referred_to_and_not_copied(void **state)
{
    char *text = letters();
    const struct evzmq_record_text_model_output output = output_of(text, LARGE);
    const struct evzmq_record_query_result result = {.id = EVZMQ_STR("i"),
                                                     .response_output = &output};
    struct evzmq_message *message = encode(&result);
    const struct evzmq_record_query_result *decoded = evzmq_record_value(message, NULL);
    const char *data = decoded->response_output->output.as.str.data;
    struct evbuffer *out = evbuffer_new();
    struct evbuffer_iovec pieces[8];
    int found = 0;
    (void)state;
    json_add_result(out, decoded, message);
    evzmq_message_free(message);
    const int count = evbuffer_peek(out, -1, NULL, pieces, 8);
    assert_in_range(count, 3, 8);
    for (int i = 0; i < count; i++) {
        found += pieces[i].iov_base == data && pieces[i].iov_len == LARGE;
    }
    assert_int_equal(found, 1);
    const char *written = strstr(text_of(out), "\"text\":\"") + strlen("\"text\":\"");
    assert_memory_equal(written, text, LARGE);
    assert_memory_equal(written + LARGE, "\",", 2);
    evbuffer_free(out);
    free(text);
}

static void a_large_text_with_a_quote_is_escaped(void **state)
{
    char *text = letters();
    text[LARGE / 2] = '"';
    const struct evzmq_record_text_model_output output = output_of(text, LARGE);
    const struct evzmq_record_query_result result = {.id = EVZMQ_STR("i"),
                                                     .response_output = &output};
    struct evzmq_message *message = encode(&result);
    struct evbuffer *out = evbuffer_new();
    (void)state;
    json_add_result(out, evzmq_record_value(message, NULL), message);
    json_t *root = json_loads(text_of(out), 0, NULL);
    const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
    const json_t *value = json_object_get(choice, "text");
    assert_int_equal(json_string_length(value), LARGE);
    assert_memory_equal(json_string_value(value), text, LARGE);
    json_decref(root);
    evbuffer_free(out);
    evzmq_message_free(message);
    free(text);
}

static void metadata_of_any_kind_becomes_json(void **state)
{
    static const unsigned char metadata[] = {
        0x86, 0xa1, 'a',  0xd1, 0xff, 0x00, /* -256 */
        0xa1, 'b',  0xc3, 0xa1, 'c',  0xc0, /* true, nil */
        0xa1, 'd',  0x92, 0xa1, '\n', 0x81, 0xa1, 'e',  0xcb, 0x3f, 0xe0,
        0,    0,    0,    0,    0,    0,    0xa1, 'f',  0xc4, 0x01, 0x00, /* a binary */
        0xa1, 'g',  0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const struct evzmq_record_error_data error = {.error_type = EVZMQ_STR("t"),
                                                  .error_message = EVZMQ_STR("m\\")};
    const struct evzmq_record_query_result result = {
        .id = EVZMQ_STR("i"), .error = &error, .metadata = {metadata, sizeof(metadata)}};
    struct evbuffer *out = evbuffer_new();
    (void)state;
    json_add_result(out, &result, NULL);
    assert_string_equal(text_of(out),
                        "{\"id\":\"i\",\"error\":{\"type\":\"t\",\"message\":\"m\\u005c\"},"
                        "\"metadata\":{\"a\":-256,\"b\":true,\"c\":null,"
                        "\"d\":[\"\\u000a\",{\"e\":0.5}],\"f\":null,"
                        "\"g\":18446744073709551615}}");
    evbuffer_free(out);
}

static void a_question_is_packed_whole(void **state)
{
    static const char body[] = "{\"prompt\":\"p\",\"stream\":true,\"n\":[-1,1.5,null,false,{}]}";
    static const unsigned char packed[] = {0x83, 0xa6, 'p',  'r',  'o',  'm',  'p',  't', 0xa1,
                                           'p',  0xa6, 's',  't',  'r',  'e',  'a',  'm', 0xc3,
                                           0xa1, 'n',  0x95, 0xff, 0xcb, 0x3f, 0xf8, 0,   0,
                                           0,    0,    0,    0,    0xc0, 0xc2, 0x80};
    char error[QUESTION_ERROR_SIZE];
    struct question question;
    msgpack_sbuffer data;
    (void)state;
    assert_int_equal(question_read(body, sizeof(body) - 1, &question, error), 0);
    assert_true(question.stream);
    assert_int_equal(question.prompt.size, 1);
    msgpack_sbuffer_init(&data);
    assert_int_equal(question_pack(&question, &data), 0);
    assert_int_equal(data.size, sizeof(packed));
    assert_memory_equal(data.data, packed, sizeof(packed));
    msgpack_sbuffer_destroy(&data);
    question_clear(&question);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_text_is_referred_to_and_not_copied),
        cmocka_unit_test(a_large_text_with_a_quote_is_escaped),
        cmocka_unit_test(metadata_of_any_kind_becomes_json),
        cmocka_unit_test(a_question_is_packed_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
