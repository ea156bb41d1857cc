/**
 * @file test_decode.c
 * Decoding on a socket: values, bad messages in every position, limits, and what a codec may be.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include <evzmq/msgpack.h>

static void open_msgpack(struct fixture *f, struct probe *p, void **out_push,
                         const struct evzmq_msgpack_limits *limits)
{
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(limits);
    char endpoint[ENDPOINT_SIZE];
    void *const pull = peer_new(f, ZMQ_PULL);

    assert_non_null(codec);
    *out_push = peer_new(f, ZMQ_PUSH);
    peer_set_int(pull, ZMQ_RCVHWM, 0);
    peer_set_int(*out_push, ZMQ_SNDHWM, 0);
    peer_bind(f, pull, TRANSPORT_INPROC, endpoint);
    peer_connect(*out_push, endpoint);
    probe_attach(f, p, pull, 0);
    assert_ok(evzmq_socket_set_codec(p->socket, codec));
    evzmq_codec_free(codec); /* The socket has a reference of its own. */
    probe_enable(p, EV_READ);
}

/* Reads [number, text] and checks the number against the order of sending. */
static void read_record(struct probe *p, struct evzmq_message *message)
{
    const msgpack_object *const value = evzmq_msgpack_value(message);

    assert_non_null(value);
    assert_ptr_equal(value, evzmq_message_get_value(message));
    assert_int_equal(value->type, MSGPACK_OBJECT_ARRAY);
    assert_int_equal(value->via.array.size, 2);
    assert_int_equal(value->via.array.ptr[0].via.u64, p->sequence);
    assert_int_equal(value->via.array.ptr[1].type, MSGPACK_OBJECT_STR);
    p->sequence++;
}

static void send_record(void *push, unsigned number)
{
    char bytes[64];

    peer_send(push, bytes, pack_record(number, "text", bytes, sizeof bytes));
}

static void msgpack_messages_arrive_decoded_in_every_mode(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_record};
    void *push = NULL;

    open_msgpack(f, &p, &push, NULL);
    for (unsigned i = 0; i < 40; i++) {
        assert_ok(evzmq_socket_set_receive_mode(p.socket, (enum evzmq_receive_mode)(i / 10 % 4)));
        send_record(push, i);
        run_until(f, p.reads == i + 1);
    }
    probe_free(&p);
}

static void count_good(struct probe *p, struct evzmq_message *message)
{
    assert_non_null(evzmq_msgpack_value(message));
    assert_int_equal(evzmq_message_get_decode_error(message, NULL), 0);
    (void)p;
}

static void check_burst(struct fixture *f, enum evzmq_receive_mode mode, size_t length,
                        const size_t *bad, size_t bad_count)
{
    struct probe p = {.on_read = count_good};
    void *push = NULL;

    open_msgpack(f, &p, &push, NULL);
    assert_ok(evzmq_socket_set_receive_mode(p.socket, mode));
    for (size_t i = 0; i < length; i++) {
        int is_bad = 0;

        for (size_t k = 0; k < bad_count; k++) {
            is_bad |= bad[k] == i;
        }
        if (is_bad) {
            peer_send(push, "\xc1", 1);
        } else {
            send_record(push, (unsigned)i);
        }
    }
    run_until(f, p.reads == length - bad_count && p.events[EVZMQ_EVENT_DECODE_ERROR] == bad_count);
    send_record(push, 0); /* And it is not deaf afterwards. */
    run_until(f, p.reads == length - bad_count + 1);
    assert_int_equal(p.events_all, bad_count);
    assert_int_equal(probe_stats(&p).decode_errors[EVZMQ_DECODE_MALFORMED], bad_count);
    probe_free(&p);
    peer_close(f, push);
}

static void a_bad_message_first_last_or_in_the_middle_of_1000_costs_one_event(void **state)
{
    static const size_t positions[] = {0, 1, 499, 998, 999};

    for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
        check_burst(*state, EVZMQ_RECEIVE_AUTO, 1000, &positions[i], 1);
        check_burst(*state, EVZMQ_RECEIVE_IN_PLACE, 1000, &positions[i], 1);
    }
}

static void two_bad_messages_in_a_row_in_a_burst_of_1000_cost_two_events(void **state)
{
    static const size_t positions[][2] = {{0, 1}, {499, 500}, {998, 999}};

    for (size_t i = 0; i < 3; i++) {
        check_burst(*state, EVZMQ_RECEIVE_INTO, 1000, positions[i], 2);
        check_burst(*state, EVZMQ_RECEIVE_OWNED, 1000, positions[i], 2);
    }
}

static void a_burst_of_nothing_but_bad_messages_costs_one_event_each(void **state)
{
    static const size_t positions[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

    check_burst(*state, EVZMQ_RECEIVE_AUTO, 10, positions, 10);
}

static void a_bad_message_in_every_position_of_eleven_loses_no_other(void **state)
{
    for (size_t i = 0; i < 11; i++) {
        check_burst(*state, EVZMQ_RECEIVE_AUTO, 11, &i, 1);
    }
}

struct bad_case {
    const char *bytes;
    size_t size;
    enum evzmq_decode_kind kind;
    size_t offset; /* SIZE_MAX: not looked at. */
};

static const struct bad_case *expected_case;

static void check_event(struct probe *p, const struct evzmq_event *event)
{
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};

    (void)p;
    assert_int_equal(event->type, EVZMQ_EVENT_DECODE_ERROR);
    assert_int_equal(event->kind, expected_case->kind);
    assert_true(event->offset <= expected_case->size);
    if (expected_case->offset != SIZE_MAX) {
        assert_int_equal(event->offset, expected_case->offset);
    }
    assert_non_null(event->message);
    assert_part(event->message, 0, expected_case->bytes, expected_case->size);
    assert_null(evzmq_message_get_value(event->message));
    assert_int_equal(evzmq_message_get_decode_error(event->message, &error), 1);
    assert_int_equal(error.kind, event->kind);
    assert_int_equal(error.offset, event->offset);
}

static void the_event_of_a_bad_message_has_its_bytes_code_and_offset(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_event = check_event};
    void *push = NULL;
    static const struct bad_case cases[] = {
        {"\xc1", 1, EVZMQ_DECODE_MALFORMED, 0},
        {"\x92\x01\xc1", 3, EVZMQ_DECODE_MALFORMED, 2},
        {"\x01\x02", 2, EVZMQ_DECODE_TRAILING, 1},
        {"\xa3"
         "abcd",
         5, EVZMQ_DECODE_TRAILING, 4},
        {"\xa3"
         "ab",
         3, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\x92\x01", 2, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\xcd\x01", 2, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\xdd\x05\xf5\xe1\x00", 5, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\xdd\xff\xff\xff\xff", 5, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\xdf\xff\xff\xff\xff", 5, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\xdf\x80\x00\x00\x01\x01", 6, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\xdc\xff\xff", 3, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\xdb\xff\xff\xff\xff", 5, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\xc6\xff\xff\xff\xff", 5, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\xc9\x7f\xff\xff\xff\x01", 6, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\xc9\xff\xff\xff\xff\x01", 6, EVZMQ_DECODE_MALFORMED, SIZE_MAX},
        {"\x92\x93\x01\x02", 4, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
        {"\x93\x93\x93\x01\x02\x03", 6, EVZMQ_DECODE_TRUNCATED, SIZE_MAX},
    };

    open_msgpack(f, &p, &push, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expected_case = &cases[i];
        peer_send(push, cases[i].bytes, cases[i].size);
        run_until(f, p.events_all == i + 1);
        assert_true(probe_stats(&p).decode_errors[cases[i].kind] > 0);
    }
    assert_int_equal(p.reads, 0);
    probe_free(&p);
}

static void containers_that_declare_too_much_make_the_library_allocate_nothing(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char nested[160];
    long before = 0;
    void *push = NULL;

    open_msgpack(f, &p, &push, NULL);
    for (size_t i = 0; i < sizeof nested; i += 5) {
        memcpy(nested + i, "\xdd\x0f\xff\xff\xff", 5);
    }
    for (int i = 0; i < 100; i++) {
        if (i == 10) {
            before = allocations_made();
        }
        peer_send(push, "\xdd\x05\xf5\xe1\x00", 5);
        peer_send(push, nested, sizeof nested);
        run_until(f, p.events_all == 2 * ((size_t)i + 1));
    }
    assert_int_equal(allocations_made() - before, 0);
    probe_free(&p);
}

static void decoding_allocates_nothing_once_it_is_warm(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_record};
    long before = 0;
    void *push = NULL;

    open_msgpack(f, &p, &push, NULL);
    for (unsigned i = 0; i < 2000; i++) {
        if (i == 1000) {
            run_until(f, p.reads == 1000);
            before = allocations_made();
        }
        send_record(push, i);
    }
    run_until(f, p.reads == 2000);
    assert_int_equal(allocations_made() - before, 0);
    probe_free(&p);
}

static void expect_one(struct fixture *f, const struct evzmq_msgpack_limits *limits,
                       const void *bytes, size_t size, enum evzmq_decode_kind kind)
{
    struct probe p = {.on_read = count_good};
    void *push = NULL;

    open_msgpack(f, &p, &push, limits);
    peer_send(push, bytes, size);
    send_record(push, 0);
    run_until(f, p.reads + p.events_all == 2);
    if (kind == EVZMQ_DECODE_OK) {
        assert_int_equal(p.reads, 2);
    } else {
        assert_int_equal(p.last.type, EVZMQ_EVENT_DECODE_ERROR);
        assert_int_equal(p.last.kind, kind);
        assert_int_equal(probe_stats(&p).decode_errors[kind], 1);
    }
    probe_free(&p);
    peer_close(f, push);
}

static void nesting_up_to_the_limit_passes_and_deeper_is_a_depth_error(void **state)
{
    const struct evzmq_msgpack_limits shallow = {.size = sizeof shallow, .depth_max = 3};
    char deep[1001];

    memset(deep, '\x91', sizeof deep);
    deep[3] = '\x01';
    expect_one(*state, &shallow, deep, 4, EVZMQ_DECODE_OK);
    deep[3] = '\x91';
    deep[4] = '\x01';
    expect_one(*state, &shallow, deep, 5, EVZMQ_DECODE_DEPTH);
    deep[4] = '\x91';
    deep[64] = '\x01';
    expect_one(*state, NULL, deep, 65, EVZMQ_DECODE_OK);
    deep[64] = '\x91';
    deep[65] = '\x01';
    expect_one(*state, NULL, deep, 66, EVZMQ_DECODE_DEPTH);
    deep[65] = '\x91';
    deep[1000] = '\x01';
    expect_one(*state, NULL, deep, 1001, EVZMQ_DECODE_DEPTH);
}

static void more_elements_or_memory_than_the_limits_are_errors_of_their_own(void **state)
{
    const struct evzmq_msgpack_limits few = {.size = sizeof few, .elements_max = 4};
    const struct evzmq_msgpack_limits small = {.size = sizeof small,
                                               .memory_max = 4 * sizeof(msgpack_object)};

    expect_one(*state, &few, "\x94\x01\x02\x03\x04", 5, EVZMQ_DECODE_OK);
    expect_one(*state, &few, "\x95\x01\x02\x03\x04\x05", 6, EVZMQ_DECODE_ELEMENTS);
    expect_one(*state, &few, "\x83\x01\x02\x03\x04\x05\x06", 7, EVZMQ_DECODE_ELEMENTS);
    expect_one(*state, &small, "\x96\x01\x02\x03\x04\x05\x06", 7, EVZMQ_DECODE_MEMORY);
}

static void invalid_utf8_is_a_decode_error_where_asked_for_and_a_string_otherwise(void **state)
{
    const struct evzmq_msgpack_limits strict = {.size = sizeof strict, .validate_utf8 = 1};

    expect_one(*state, &strict, "\xa2\xc3\x28", 3, EVZMQ_DECODE_UTF8);
    expect_one(*state, &strict, "\xa3\xed\xa0\x80", 4, EVZMQ_DECODE_UTF8); /* A surrogate. */
    expect_one(*state, &strict, "\xa2\xc0\x80", 3, EVZMQ_DECODE_UTF8); /* Overlong. */
    expect_one(*state, &strict, "\xa1\xe2", 2, EVZMQ_DECODE_UTF8); /* Cut off. */
    expect_one(*state, &strict, "\xa2\xc3\xa9", 3, EVZMQ_DECODE_OK);
    expect_one(*state, NULL, "\xa2\xc3\x28", 3, EVZMQ_DECODE_OK);
}

static void a_map_as_a_map_key_strands_nothing(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;

    open_msgpack(f, &p, &push, NULL);
    for (unsigned i = 0; i < 500; i++) {
        send_record(push, i);
    }
    peer_send(push, "\x81\x81\x01\x02\x03", 5);
    for (unsigned i = 0; i < 500; i++) {
        send_record(push, i);
    }
    run_until(f, p.reads + p.events[EVZMQ_EVENT_DECODE_ERROR] == 1001);
    assert_true(p.reads >= 1000);
    probe_free(&p);
}

static void check_no_value(struct probe *p, struct evzmq_message *message)
{
    (void)p;
    assert_null(evzmq_msgpack_value(message));
    assert_null(evzmq_message_get_value(message));
    assert_int_equal(evzmq_message_get_decode_error(message, NULL), 0);
}

static void an_empty_last_part_is_delivered_without_a_value(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = check_no_value};
    void *push = NULL;

    open_msgpack(f, &p, &push, NULL);
    peer_send_text(push, "");
    peer_send_text(push, "topic|");
    run_until(f, p.reads == 2);
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

static void only_the_last_part_is_decoded(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_record};
    char bytes[64];
    void *push = NULL;

    open_msgpack(f, &p, &push, NULL);
    assert_int_equal(zmq_send(push, "\xc1 not msgpack", 13, ZMQ_SNDMORE), 13);
    peer_send(push, bytes, pack_record(0, "x", bytes, sizeof bytes));
    run_until(f, p.reads == 1);
    probe_free(&p);
}

static struct evzmq_message *kept;

static void take_from_event(struct probe *p, const struct evzmq_event *event)
{
    (void)p;
    kept = evzmq_message_take(event->message);
    assert_non_null(kept);
}

static void a_bad_message_can_be_kept_from_its_event(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_event = take_from_event};
    void *push = NULL;

    open_msgpack(f, &p, &push, NULL);
    peer_send_text(push, "head|\xc1");
    run_until(f, p.events_all == 1);
    probe_free(&p);
    assert_int_equal(evzmq_message_get_part_count(kept), 2);
    assert_part(kept, 0, "head", 4);
    assert_part(kept, 1, "\xc1", 1);
    evzmq_message_free(kept);
}

static void free_in_event(struct probe *p, const struct evzmq_event *event)
{
    (void)event;
    probe_free(p);
}

static void a_socket_may_be_freed_from_its_decode_error(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_event = free_in_event};
    void *push = NULL;

    open_msgpack(f, &p, &push, NULL);
    peer_send(push, "\xc1", 1);
    peer_send(push, "\xc1", 1);
    send_record(push, 1);
    run_until(f, p.socket == NULL);
    fixture_glance(f);
    assert_int_equal(p.events_all, 1);
}

static void without_an_event_callback_bad_messages_are_counted_and_passed_over(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = count_good};
    evzmq_read_cb read_cb = NULL;
    void *push = NULL;

    open_msgpack(f, &p, &push, NULL);
    evzmq_socket_getcb(p.socket, &read_cb, NULL, NULL, NULL);
    evzmq_socket_setcb(p.socket, read_cb, NULL, NULL, &p);
    peer_send(push, "\xc1", 1);
    peer_send(push, "\xc1", 1);
    send_record(push, 1);
    run_until(f, p.reads == 1);
    assert_int_equal(probe_stats(&p).decode_errors[EVZMQ_DECODE_MALFORMED], 2);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(msgpack_messages_arrive_decoded_in_every_mode),
        claim(a_bad_message_first_last_or_in_the_middle_of_1000_costs_one_event),
        claim(two_bad_messages_in_a_row_in_a_burst_of_1000_cost_two_events),
        claim(a_burst_of_nothing_but_bad_messages_costs_one_event_each),
        claim(a_bad_message_in_every_position_of_eleven_loses_no_other),
        claim(the_event_of_a_bad_message_has_its_bytes_code_and_offset),
        claim(containers_that_declare_too_much_make_the_library_allocate_nothing),
        claim(decoding_allocates_nothing_once_it_is_warm),
        claim(nesting_up_to_the_limit_passes_and_deeper_is_a_depth_error),
        claim(more_elements_or_memory_than_the_limits_are_errors_of_their_own),
        claim(invalid_utf8_is_a_decode_error_where_asked_for_and_a_string_otherwise),
        claim(a_map_as_a_map_key_strands_nothing),
        claim(an_empty_last_part_is_delivered_without_a_value),
        claim(only_the_last_part_is_decoded),
        claim(a_bad_message_can_be_kept_from_its_event),
        claim(a_socket_may_be_freed_from_its_decode_error),
        claim(without_an_event_callback_bad_messages_are_counted_and_passed_over),
    };

    return run_claims(tests);
}
