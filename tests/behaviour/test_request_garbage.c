/**
 * @file test_request_garbage.c
 * Servers that answer what nobody can understand: each costs a count, or its own request, and no
 * other.
 */
#include "asker.h"

#include <string.h>

#include <evzmq/msgpack.h>

static void send_to(void *server, const struct heard *request, const struct heard *reply)
{
    assert_int_equal(zmq_send(server, request->part[0], request->size[0], ZMQ_SNDMORE),
                     request->size[0]);
    send_parts(server, reply);
}

struct garbage {
    size_t id_size;
    size_t delimiter_size; /* SIZE_MAX: no such part */
    size_t body_size; /* SIZE_MAX: no such part */
};

static void replies_without_a_proper_head_are_dropped_and_counted(void **state)
{
    static const struct garbage all[] = {
        {0, SIZE_MAX, SIZE_MAX}, /* one empty part */
        {1, SIZE_MAX, SIZE_MAX}, /* a body without a head */
        {EVZMQ_REQUEST_ID_BYTES, SIZE_MAX, SIZE_MAX},
        {EVZMQ_REQUEST_ID_BYTES, 0, SIZE_MAX}, /* nothing behind the delimiter */
        {0, 1, SIZE_MAX}, /* a delimiter first, as REQ has it */
        {0, 0, 1},
        {EVZMQ_REQUEST_ID_BYTES - 1, 0, 1},
        {EVZMQ_REQUEST_ID_BYTES + 1, 0, 1},
        {EVZMQ_REQUEST_ID_BYTES, 1, 1}, /* no delimiter */
        {EVZMQ_REQUEST_ID_BYTES, 1, 0},
    };
    enum { COUNT = sizeof all / sizeof all[0] };
    struct fixture *const f = *state;

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct asker a = {0};
        struct heard request;
        void *server = NULL;

        asker_open(f, &a, (enum transport)transport, ZMQ_ROUTER, &server, NULL);
        (void)ask(&a, "q", 60000);
        hear(f, server, &request);
        for (size_t i = 0; i < COUNT; i++) {
            unsigned char id[EVZMQ_REQUEST_ID_BYTES + 1] = {0};
            struct heard reply = {0};

            memcpy(id, request.part[1], EVZMQ_REQUEST_ID_BYTES); /* A good one but for its size. */
            add_part(&reply, id, all[i].id_size);
            if (all[i].delimiter_size != SIZE_MAX) {
                add_part(&reply, "x", all[i].delimiter_size);
            }
            if (all[i].body_size != SIZE_MAX) {
                add_part(&reply, "x", all[i].body_size);
            }
            send_to(server, &request, &reply);
        }
        answer(server, &request, "good");
        run_until(f, a.ended == 1);
        assert_string_equal(a.log, "1=good");
        assert_int_equal(asker_stats(&a).malformed, COUNT);
        assert_int_equal(asker_stats(&a).unknown + asker_stats(&a).late, 0);
        asker_close(&a);
    }
}

static void replies_with_an_id_that_was_never_given_are_dropped_and_counted(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct heard request;
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, NULL);
    (void)ask(&a, "q", 60000);
    hear(f, server, &request);
    for (int i = 0; i < 5; i++) {
        struct heard other = request;

        if (i == 0) {
            other.part[1][0] ^= 1; /* Another requester's. */
        } else if (i == 1) {
            other.part[1][15] = 0; /* Number 0. */
        } else if (i == 2) {
            other.part[1][15] = 2; /* The next one. */
        } else if (i == 3) {
            memset(other.part[1] + 8, 0xff, 8);
        } else {
            memset(other.part[1], 0, 16);
        }
        answer(server, &other, "unknown");
    }
    answer(server, &request, "good");
    run_until(f, a.ended == 1);
    assert_string_equal(a.log, "1=good");
    assert_int_equal(asker_stats(&a).unknown, 5);
    assert_int_equal(asker_stats(&a).late + asker_stats(&a).malformed, 0);
    asker_close(&a);
}

static void check_error(struct asker *a, int64_t number, int error, struct evzmq_message *reply)
{
    struct evzmq_decode_error decode_error;

    (void)a;
    if (number == 1) {
        assert_int_equal(error, EBADMSG);
        assert_null(evzmq_message_get_value(reply));
        assert_int_equal(evzmq_message_get_decode_error(reply, &decode_error), 1);
        assert_int_equal(decode_error.kind, EVZMQ_DECODE_TRAILING);
        assert_int_equal(decode_error.offset, 1);
        assert_part(reply, 2, "\x01\x02", 2);
    } else {
        assert_int_equal(error, 0);
    }
}

static void an_undecodable_reply_fails_its_own_request_with_the_error_readable(void **state)
{
    struct fixture *const f = *state;

    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct asker a = {.on_end = check_error};
        struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
        struct heard requests[3];
        void *server = NULL;

        asker_open(f, &a, (enum transport)transport, ZMQ_ROUTER, &server, NULL);
        assert_ok(evzmq_socket_set_codec(a.socket, codec));
        for (int i = 0; i < 3; i++) {
            (void)ask(&a, "\x01", 60000);
            hear(f, server, &requests[i]);
        }
        answer(server, &requests[1], "\x01");
        answer(server, &requests[0], "\x01\x02");
        answer(server, &requests[2], "\x01");
        run_until(f, a.ended == 3);
        assert_int_equal(asker_stats(&a).undecodable, 1);
        assert_int_equal(asker_stats(&a).replies, 2);
        assert_int_equal(a.events[EVZMQ_EVENT_DECODE_ERROR], 0); /* The request was told. */
        answer(server, &requests[0], "\xc1"); /* This one is nobody's any more. */
        run_until(f, a.events[EVZMQ_EVENT_DECODE_ERROR] == 1);
        assert_int_equal(asker_stats(&a).late, 1);
        asker_close(&a);
        evzmq_codec_free(codec);
    }
}

static void free_on_error(struct asker *a, int64_t number, int error, struct evzmq_message *reply)
{
    (void)number;
    assert_int_equal(error, EBADMSG);
    asker_free_requester(a);
    asker_free_socket(a);
    assert_part(reply, 2, "\xc1", 1); /* It lives until the callback returns. */
}

static void a_requester_may_be_freed_for_an_undecodable_reply(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {.on_end = free_on_error};
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct heard request;
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, NULL);
    assert_ok(evzmq_socket_set_codec(a.socket, codec));
    (void)ask(&a, "1", 60000);
    (void)ask(&a, "2", 60000);
    for (int i = 0; i < 2; i++) {
        hear(f, server, &request);
        answer(server, &request, "\xc1");
    }
    run_until(f, a.requester == NULL);
    assert_int_equal(a.ended, 1);
    asker_close(&a);
    evzmq_codec_free(codec);
}

static void a_reply_that_is_too_large_costs_an_event_and_its_request_goes_on(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct heard request;
    void *server = NULL;

    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, NULL);
    assert_ok(evzmq_socket_set_max_message(a.socket, 20, 0, EVZMQ_OVERSIZE_DROP));
    (void)ask(&a, "q", 60000);
    hear(f, server, &request);
    answer(server, &request, "more than twenty");
    run_until(f, a.events[EVZMQ_EVENT_MESSAGE_TOO_LARGE] == 1);
    answer(server, &request, "less");
    run_until(f, a.ended == 1);
    assert_string_equal(a.log, "1=less");
    asker_close(&a);
}

static uint32_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % limit;
}

/* Mutations of good replies: each is a reply, late, unknown or malformed, and nothing is lost. */
static void random_replies_are_all_accounted_for(void **state)
{
    enum { ROUNDS = 3000 };
    struct fixture *const f = *state;
    struct asker a = {0};
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct evzmq_requester_stats stats;
    void *server = NULL;

    random_state = 7;
    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_DEALER, &server, NULL);
    assert_ok(evzmq_socket_set_codec(a.socket, codec));
    for (int i = 0; i < ROUNDS; i++) {
        struct heard request;
        struct heard reply = {0};
        const uint32_t count = random_below(5) + 1;

        (void)ask(&a, "\x01", -1);
        hear(f, server, &request);
        fixture_glance(f); /* Or the replies would pile up. */
        for (uint32_t k = 0; k < count; k++) {
            unsigned char part[24];
            size_t size = random_below(4) == 0 ? random_below(24) : 0;

            for (size_t b = 0; b < sizeof part; b++) {
                part[b] = (unsigned char)random_below(256);
            }
            if (k < request.count && random_below(8) != 0) {
                size = request.size[k];
                memcpy(part, request.part[k], size);
            }
            if (size > 0 && random_below(4) == 0) {
                part[random_below((uint32_t)size)] ^= (unsigned char)(1u << random_below(8));
            }
            add_part(&reply, part, size);
        }
        send_parts(server, &reply);
    }
    do {
        fixture_glance(f);
        stats = asker_stats(&a);
    } while (stats.replies + stats.undecodable + stats.late + stats.unknown + stats.malformed <
             ROUNDS);
    assert_int_equal(
        stats.replies + stats.undecodable + stats.late + stats.unknown + stats.malformed, ROUNDS);
    assert_int_equal(a.ended, stats.replies + stats.undecodable);
    assert_true(stats.replies > 0 && stats.undecodable > 0 && stats.unknown > 0);
    assert_true(stats.malformed > 0 && stats.late > 0);
    asker_close(&a);
    evzmq_codec_free(codec);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(replies_without_a_proper_head_are_dropped_and_counted),
        claim(replies_with_an_id_that_was_never_given_are_dropped_and_counted),
        claim(an_undecodable_reply_fails_its_own_request_with_the_error_readable),
        claim(a_requester_may_be_freed_for_an_undecodable_reply),
        claim(a_reply_that_is_too_large_costs_an_event_and_its_request_goes_on),
        claim(random_replies_are_all_accounted_for),
    };

    return run_claims(tests);
}
