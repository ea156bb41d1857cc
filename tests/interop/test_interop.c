/**
 * @file test_interop.c
 * Every pattern with a peer in another language: peer.py, with pyzmq and msgpack for Python.
 */
#include "python.h"

#include <stdio.h>
#include <string.h>

#include <evzmq/msgpack.h>

/* What peer.py makes a dict of, as a map with the members' names for keys. */
struct reading {
    struct evzmq_str sensor;
    double celsius;
    struct evzmq_any tags;
};
static const struct evzmq_field reading_fields[] = {
    EVZMQ_FIELD(STR, struct reading, sensor, EVZMQ_REQUIRED),
    EVZMQ_FIELD(FLOAT64, struct reading, celsius, EVZMQ_REQUIRED),
    EVZMQ_FIELD(MAP, struct reading, tags, EVZMQ_REQUIRED),
};
static const struct evzmq_schema reading_schema =
    EVZMQ_SCHEMA(struct reading, MAP, NULL, reading_fields);

struct number {
    int64_t n;
};
static const struct evzmq_field number_fields[] = {
    EVZMQ_FIELD(INT64, struct number, n, EVZMQ_REQUIRED),
};
static const struct evzmq_schema number_schema =
    EVZMQ_SCHEMA(struct number, MAP, NULL, number_fields);

/* The number-th reading; its texts stand in the buffers. */
static struct reading make_reading(uint64_t number, char sensor[32], msgpack_sbuffer *tags)
{
    msgpack_packer packer;
    struct reading reading = {.celsius = (double)number / 2};

    (void)snprintf(sensor, 32, "sensor %d", (int)number);
    reading.sensor = (struct evzmq_str){.data = sensor, .size = strlen(sensor)};
    msgpack_sbuffer_clear(tags);
    msgpack_packer_init(&packer, tags, msgpack_sbuffer_write);
    (void)msgpack_pack_map(&packer, 2);
    (void)msgpack_pack_str_with_body(&packer, "n", 1);
    (void)msgpack_pack_uint64(&packer, number);
    (void)msgpack_pack_str_with_body(&packer, "\xc3\xa9", 2);
    (void)msgpack_pack_nil(&packer);
    reading.tags = (struct evzmq_any){.data = tags->data, .size = tags->size};
    return reading;
}

static void open_socket(struct fixture *f, struct probe *p, int type, enum transport transport,
                        char endpoint[ENDPOINT_SIZE], const struct evzmq_schema *schema)
{
    void *socket = NULL;

    python_skip_unless_installed();
    socket = peer_new(f, type);
    peer_bind(f, socket, transport, endpoint);
    probe_attach(f, p, socket, 0);
    if (schema != NULL) {
        struct evzmq_codec *const codec = evzmq_schema_codec_new(schema, NULL);

        assert_non_null(codec);
        assert_ok(evzmq_socket_set_codec(p->socket, codec));
        evzmq_codec_free(codec);
    }
}

static void check_reading(struct probe *p, struct evzmq_message *message)
{
    const struct reading *const got = evzmq_record_value(message, NULL);
    char sensor[32];
    msgpack_sbuffer tags;
    struct reading expected;

    assert_non_null(got);
    msgpack_sbuffer_init(&tags);
    expected = make_reading(p->sequence++, sensor, &tags);
    assert_int_equal(got->sensor.size, expected.sensor.size);
    assert_memory_equal(got->sensor.data, expected.sensor.data, expected.sensor.size);
    assert_true(got->celsius >= expected.celsius && got->celsius <= expected.celsius);
    assert_int_equal(got->tags.size, expected.tags.size);
    assert_memory_equal(got->tags.data, expected.tags.data, expected.tags.size);
    msgpack_sbuffer_destroy(&tags);
}

static void dicts_that_python_pushes_are_records_of_ours(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = check_reading};
    struct python python;
    char endpoint[ENDPOINT_SIZE];

    open_socket(f, &p, ZMQ_PULL, TRANSPORT_TCP, endpoint, &reading_schema);
    probe_enable(&p, EV_READ);
    python_start(f, &python, "push", endpoint);
    run_until(f, p.reads == 1000);
    python_finish(&python);
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

static void records_that_we_push_are_dicts_in_python(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct python python;
    char endpoint[ENDPOINT_SIZE];
    msgpack_sbuffer tags;

    open_socket(f, &p, ZMQ_PUSH, TRANSPORT_IPC, endpoint, &reading_schema);
    msgpack_sbuffer_init(&tags);
    for (uint64_t i = 0; i < 1000; i++) {
        char sensor[32];
        const struct reading reading = make_reading(i, sensor, &tags);

        assert_ok(evzmq_socket_write_value(p.socket, &reading));
    }
    msgpack_sbuffer_destroy(&tags);
    python_start(f, &python, "pull", endpoint);
    python_finish(&python);
    probe_free(&p);
}

static void answer_double(struct probe *p, struct evzmq_message *message)
{
    const struct number *const question = evzmq_record_value(message, NULL);
    struct number answer = {0};

    assert_non_null(question);
    assert_int_equal(question->n, p->sequence);
    p->sequence++;
    answer.n = 2 * question->n;
    assert_ok(evzmq_socket_reply_value(p->socket, evzmq_message_get_envelope(message), &answer));
}

static void answer_requests(struct fixture *f, int type, enum transport transport)
{
    struct probe p = {.on_read = answer_double};
    struct python python;
    char endpoint[ENDPOINT_SIZE];

    open_socket(f, &p, type, transport, endpoint, &number_schema);
    probe_enable(&p, EV_READ);
    python_start(f, &python, "req", endpoint);
    python_finish(&python);
    assert_int_equal(p.reads, 100);
    probe_free(&p);
}

static void python_req_is_answered_by_our_router(void **state)
{
    answer_requests(*state, ZMQ_ROUTER, TRANSPORT_TCP);
}

static void python_req_is_answered_by_our_rep(void **state)
{
    answer_requests(*state, ZMQ_REP, TRANSPORT_IPC);
}

/* Asks for the next number: on a DEALER behind the empty part that REP wants. */
static void ask(struct probe *p)
{
    unsigned char question[16];
    struct evzmq_codec *const codec = evzmq_schema_codec_new(&number_schema, NULL);
    const struct number number = {.n = (int64_t)p->sequence};
    struct evzmq_bytes parts[2] = {{"", 0}, {question, 0}};
    const int has_delimiter = *(const int *)p->arg == ZMQ_DEALER;

    assert_non_null(codec);
    assert_ok(evzmq_codec_encoded_size(codec, &number, &parts[1].size));
    assert_true(parts[1].size <= sizeof question);
    assert_ok(evzmq_codec_encode(codec, &number, question, parts[1].size));
    evzmq_codec_free(codec);
    assert_ok(
        evzmq_socket_write_parts(p->socket, parts + !has_delimiter, 1 + (size_t)has_delimiter));
}

static void check_double(struct probe *p, struct evzmq_message *message)
{
    const struct number *const answer = evzmq_record_value(message, NULL);

    assert_non_null(answer);
    assert_int_equal(answer->n, 2 * p->sequence);
    if (++p->sequence < 100) {
        ask(p);
    }
}

static void ask_python(struct fixture *f, int type, enum transport transport)
{
    struct probe p = {.on_read = check_double, .arg = &type};
    struct python python;
    char endpoint[ENDPOINT_SIZE];

    open_socket(f, &p, type, transport, endpoint, &number_schema);
    probe_enable(&p, EV_READ);
    python_start(f, &python, "rep", endpoint);
    ask(&p);
    run_until(f, p.sequence == 100);
    python_finish(&python);
    probe_free(&p);
}

static void python_rep_answers_our_dealer(void **state)
{
    ask_python(*state, ZMQ_DEALER, TRANSPORT_IPC);
}

static void python_rep_answers_our_req(void **state)
{
    ask_python(*state, ZMQ_REQ, TRANSPORT_TCP);
}

static void echo_message(struct probe *p, struct evzmq_message *message)
{
    struct evzmq_message *const kept = evzmq_message_take(message);

    assert_non_null(kept);
    assert_ok(evzmq_socket_write_message(p->socket, kept));
}

static void megabytes_come_back_from_us_whole_alone_and_in_parts(void **state)
{
    struct fixture *const f = *state;

    for (int transport = TRANSPORT_IPC; transport <= TRANSPORT_TCP; transport++) {
        struct probe p = {.on_read = echo_message};
        struct python python;
        char endpoint[ENDPOINT_SIZE];

        open_socket(f, &p, ZMQ_DEALER, (enum transport)transport, endpoint, NULL);
        probe_enable(&p, EV_READ);
        python_start(f, &python, "large", endpoint);
        python_finish(&python);
        assert_int_equal(p.reads, 3);
        probe_free(&p);
    }
}

#define LARGE (1024 * 1024)

/* Messages of one part or more, of up to 1 MiB, in the order they are sent; then an empty one. */
static const size_t sizes[][4] = {{1}, {LARGE}, {3, 0, 5}, {10, LARGE, 1, 8192}, {0}};
static const size_t counts[] = {1, 1, 3, 4, 1};
enum { MESSAGES = sizeof counts / sizeof counts[0] };

static void check_parts(struct probe *p, struct evzmq_message *message)
{
    const uint64_t number = p->sequence++;

    assert_true(number < MESSAGES);
    assert_int_equal(evzmq_message_get_part_count(message), counts[number]);
    for (size_t part = 0; part < counts[number]; part++) {
        size_t size = 0;
        const void *const data = evzmq_message_get_part(message, part, &size);

        assert_int_equal(size, sizes[number][part]);
        assert_pattern(data, size, (unsigned)(number + part));
    }
}

static void messages_of_parts_come_back_from_python_whole(void **state)
{
    struct fixture *const f = *state;
    static unsigned char bytes[LARGE];
    struct probe p = {.on_read = check_parts};
    struct python python;
    char endpoint[ENDPOINT_SIZE];

    open_socket(f, &p, ZMQ_DEALER, TRANSPORT_TCP, endpoint, NULL);
    probe_enable(&p, EV_READ);
    for (size_t i = 0; i < MESSAGES; i++) {
        struct evzmq_message *const message = evzmq_message_new();

        assert_non_null(message);
        for (size_t part = 0; part < counts[i]; part++) {
            fill_pattern(bytes, sizes[i][part], (unsigned)(i + part));
            assert_ok(evzmq_message_add(message, bytes, sizes[i][part]));
        }
        assert_ok(evzmq_socket_write_message(p.socket, message));
    }
    python_start(f, &python, "echo", endpoint);
    run_until(f, p.reads == MESSAGES);
    python_finish(&python);
    probe_free(&p);
}

static void echo_value(struct probe *p, struct evzmq_message *message)
{
    const msgpack_object *const value = evzmq_msgpack_value(message);

    assert_non_null(value);
    assert_ok(evzmq_socket_write_value(p->socket, value));
}

static void values_of_every_type_come_back_to_python_the_same(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_codec *codec = NULL;
    struct probe p = {.on_read = echo_value};
    struct python python;
    char endpoint[ENDPOINT_SIZE];

    open_socket(f, &p, ZMQ_DEALER, TRANSPORT_IPC, endpoint, NULL);
    codec = evzmq_msgpack_codec_new(NULL);
    assert_ok(evzmq_socket_set_codec(p.socket, codec));
    evzmq_codec_free(codec);
    probe_enable(&p, EV_READ);
    python_start(f, &python, "trees", endpoint);
    python_finish(&python);
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

/* Packed frames, and the streaming Unpacker of Python, are to have their claims here. */

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(dicts_that_python_pushes_are_records_of_ours),
        claim(records_that_we_push_are_dicts_in_python),
        claim(python_req_is_answered_by_our_router),
        claim(python_req_is_answered_by_our_rep),
        claim(python_rep_answers_our_dealer),
        claim(python_rep_answers_our_req),
        claim(megabytes_come_back_from_us_whole_alone_and_in_parts),
        claim(messages_of_parts_come_back_from_python_whole),
        claim(values_of_every_type_come_back_to_python_the_same),
    };

    return run_claims(tests);
}
