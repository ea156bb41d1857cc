/*
 * Whether decoding, encoding, packing and unpacking of records allocate, as the C library sees it:
 * this program's malloc() and its like stand before the C library's and count the calls that come
 * from libevzmq or msgpack-c, whosever functions those use. Not for sanitizers and valgrind, which
 * bring their own.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr() */
#endif
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <event2/event.h>
#include <evzmq/evzmq.h>
#include <evzmq/records.h>
#include <msgpack.h>
#include <zmq.h>

/* The C library's own, by the names that it has for programs such as this. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

enum { WATCHED_MAX = 16 };

/* The code of the two libraries. */
static struct {
    uintptr_t begin;
    uintptr_t end;
} watched[WATCHED_MAX];
static size_t watched_count;
static size_t calls;

static void count(const void *caller)
{
    const uintptr_t address = (uintptr_t)caller;
    for (size_t i = 0; i < watched_count; i++) {
        if (address >= watched[i].begin && address < watched[i].end) {
            calls++;
        }
    }
}

void *malloc(size_t size)
{
    count(__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_calloc(number, size);
}

void *realloc(void *block, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_realloc(block, size);
}

void free(void *block)
{
    __libc_free(block);
}

static int watch_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (strstr(info->dlpi_name, "libevzmq") == NULL &&
        strstr(info->dlpi_name, "libmsgpack") == NULL) {
        return 0;
    }
    for (size_t i = 0; i < info->dlpi_phnum && watched_count < WATCHED_MAX; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            watched[watched_count].begin = begin;
            watched[watched_count++].end = begin + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 0;
}

static int watch(void **state)
{
    (void)state;
    return dl_iterate_phdr(watch_object, NULL);
}

/* One record of each shape that is sent most. */
struct sample {
    const struct evzmq_schema *schema;
    const void *value;
};

#define TEXT "thirty-two characters of a text.."

static const unsigned char data_map[] = "\x82\xa6prompt\xa5hello\xa4more\x91\x81\xa1k\x01";
static const struct evzmq_record_text_model_output output = {
    .output = {.kind = EVZMQ_CHOICE_STR, .as.str = EVZMQ_STR(TEXT)}};
static const struct evzmq_record_query query = {
    .id = EVZMQ_STR("1"), .data = {data_map, sizeof(data_map) - 1}, .created_at = 1.5};
static const struct evzmq_record_query_result result = {
    .id = EVZMQ_STR("2"), .response_output = &output, .completed_at = {.bits = 1}};
static const struct evzmq_record_stream_chunk chunk = {.id = EVZMQ_STR("3"),
                                                       .response_chunk = EVZMQ_STR(TEXT)};
static const struct evzmq_union response = {&evzmq_record_query_result_schema, &result};
static const int64_t tokens[] = {1, 2, 3};
static const struct evzmq_record_prompt_data prompt = {.text = EVZMQ_STR(TEXT),
                                                       .token_ids = {tokens, 3}};

static const struct sample samples[] = {
    {&evzmq_record_query_schema, &query},        {&evzmq_record_query_result_schema, &result},
    {&evzmq_record_stream_chunk_schema, &chunk}, {&evzmq_record_response_schema, &response},
    {&evzmq_record_prompt_data_schema, &prompt},
};

static size_t encode(const struct evzmq_codec *codec, const void *value, unsigned char *buffer,
                     size_t size_max)
{
    size_t size = 0;
    assert_int_equal(evzmq_codec_encoded_size(codec, value, &size), 0);
    assert_true(size <= size_max);
    assert_int_equal(evzmq_codec_encode(codec, value, buffer, size), 0);
    return size;
}

static void check_sample(const struct sample *sample, int skip_utf8)
{
    const struct evzmq_schema_options options = {.size = sizeof(options), .skip_utf8 = skip_utf8};
    unsigned char buffer[256];
    const void *value = NULL;
    calls = 0;
    struct evzmq_codec *const codec = evzmq_schema_codec_new(sample->schema, &options);
    struct evzmq_arena *const arena = evzmq_arena_new();
    assert_non_null(codec);
    assert_non_null(arena);
    assert_true(calls >= 2); /* those are seen */

    /* The first round takes the memory that all of the others use. */
    size_t size = encode(codec, sample->value, buffer, sizeof(buffer));
    assert_int_equal(evzmq_codec_decode(codec, buffer, size, arena, &value, NULL), 0);
    calls = 0;
    for (size_t i = 0; i < 1000; i++) {
        size = encode(codec, sample->value, buffer, sizeof(buffer));
        evzmq_arena_reset(arena);
        assert_int_equal(evzmq_codec_decode(codec, buffer, size, arena, &value, NULL), 0);
    }
    assert_int_equal(calls, 0);
    evzmq_arena_free(arena);
    evzmq_codec_free(codec);
}

static void steady_decoding_and_encoding_of_records_call_no_allocator(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        check_sample(&samples[i], 0);
        check_sample(&samples[i], 1);
    }
}

/* Packed frames, from one socket to another. */

static void count_record(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    (void)socket;
    assert_non_null(evzmq_record_value(message, NULL));
    *(size_t *)arg += 1;
}

/* All of them are received every now and then: how many frames are under way, which is what memory
 * is for, does not depend on how fast the machine is. */
static void pump_records(struct event_base *base, struct evzmq_socket *out, size_t *received,
                         size_t count)
{
    const size_t before = *received;
    for (size_t i = 1; i <= count; i++) {
        assert_int_equal(evzmq_socket_write_value(out, &chunk), 0);
        while (i % 1000 == 0 && *received < before + i) {
            (void)event_base_loop(base, EVLOOP_ONCE);
        }
    }
}

static void steady_packing_and_unpacking_call_no_allocator(void **state)
{
    (void)state;
    void *const context = zmq_ctx_new();
    void *const pull = zmq_socket(context, ZMQ_PULL);
    void *const push = zmq_socket(context, ZMQ_PUSH);
    struct event_base *const base = event_base_new();
    struct evzmq_codec *const codec =
        evzmq_schema_codec_new(&evzmq_record_stream_chunk_schema, NULL);
    size_t received = 0;
    assert_int_equal(zmq_bind(pull, "inproc://packed"), 0);
    assert_int_equal(zmq_connect(push, "inproc://packed"), 0);
    struct evzmq_socket *const in = evzmq_socket_new(base, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    struct evzmq_socket *const out = evzmq_socket_new(base, push, EVZMQ_OPT_CLOSE_ON_FREE);
    assert_int_equal(evzmq_socket_set_codec(in, codec), 0);
    assert_int_equal(evzmq_socket_set_codec(out, codec), 0);
    assert_int_equal(evzmq_socket_set_unpacking(in, 1), 0);
    assert_int_equal(evzmq_socket_set_packing(out, 16384, 0), 0);
    evzmq_socket_setcb(in, count_record, NULL, NULL, &received);
    assert_int_equal(evzmq_socket_enable(in, EV_READ), 0);
    pump_records(base, out, &received, 20000);
    calls = 0;
    pump_records(base, out, &received, 100000);
    assert_int_equal(calls, 0);
    evzmq_socket_free(in);
    evzmq_socket_free(out);
    evzmq_codec_free(codec);
    event_base_free(base);
    assert_int_equal(zmq_ctx_term(context), 0);
}

/* The control: the same count of what allocates for each message. */
static void allocations_of_msgpack_c_are_seen(void **state)
{
    (void)state;
    static const char bytes[] = "\x93\x01\x02\x03";
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    calls = 0;
    for (size_t i = 0; i < 10; i++) {
        size_t offset = 0;
        assert_int_equal(msgpack_unpack_next(&unpacked, bytes, sizeof(bytes) - 1, &offset),
                         MSGPACK_UNPACK_SUCCESS);
    }
    assert_true(calls >= 10);
    msgpack_unpacked_destroy(&unpacked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_decoding_and_encoding_of_records_call_no_allocator),
        cmocka_unit_test(steady_packing_and_unpacking_call_no_allocator),
        cmocka_unit_test(allocations_of_msgpack_c_are_seen),
    };
    return cmocka_run_group_tests(tests, watch, NULL);
}
