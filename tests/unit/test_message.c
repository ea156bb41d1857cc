/*
 * Whole messages: parts and where their bytes lie, receiving within limits, sending all or nothing.
 */
#include "support.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <evzmq/msgpack.h>

#include "message.h"

enum { LARGE = EVZMQ_ZERO_COPY_MIN };

static const struct evzmq__message_limits no_limits = {.bytes = 0, .parts = 0};

/* A message of text parts separated by |. */
static struct evzmq_message *message_of(const char *parts)
{
    struct evzmq_message *const message = evzmq_message_new();
    assert_non_null(message);
    for (;;) {
        const char *const end = strchr(parts, '|');
        const size_t size = end == NULL ? strlen(parts) : (size_t)(end - parts);
        assert_ok(evzmq_message_add(message, parts, size));
        if (end == NULL) {
            return message;
        }
        parts = end + 1;
    }
}

static void assert_text(const struct evzmq_message *message, const char *expected)
{
    char text[256];
    assert_string_equal(message_text(message, text, sizeof(text)), expected);
}

static void add_large(struct evzmq_message *message, size_t size, unsigned seed)
{
    char *const bytes = malloc(size);
    assert_non_null(bytes);
    fill_pattern(bytes, size, seed);
    assert_ok(evzmq_message_add(message, bytes, size));
    free(bytes);
}

static void open_pair(struct fixture *f, void **out_receiver, void **out_sender)
{
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PAIR, out_receiver, ZMQ_PAIR, out_sender);
}

static void send_parts(void *peer, size_t count, size_t size)
{
    char bytes[64] = {0};
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(zmq_send(peer, bytes, size, i + 1 < count ? ZMQ_SNDMORE : 0), (int)size);
    }
}

static void added_parts_are_kept_however_many(void **state)
{
    (void)state;
    struct evzmq_message *const message = evzmq_message_new();
    for (unsigned i = 0; i < 1000; i++) {
        char text[16];
        const size_t size = (size_t)snprintf(text, sizeof(text), "%u", i);
        assert_ok(evzmq_message_add(message, text, i % 10 == 0 ? 0 : size));
    }
    assert_int_equal(evzmq_message_get_part_count(message), 1000);
    size_t sum = 0;
    for (unsigned i = 0; i < 1000; i++) {
        char text[16];
        const size_t size = (size_t)snprintf(text, sizeof(text), "%u", i);
        assert_part(message, i, text, i % 10 == 0 ? 0 : size);
        sum += i % 10 == 0 ? 0 : size;
    }
    assert_int_equal(evzmq_message_get_size(message), sum);
    errno = 0;
    assert_null(evzmq_message_get_part(message, 1000, NULL));
    assert_int_equal(errno, EINVAL);
    evzmq_message_free(message);
}

static void more_parts_than_memory_can_hold_are_refused(void **state)
{
    (void)state;
    struct evzmq_message *const message = message_of("a|b");
    assert_errno(evzmq__message_reserve(message, SIZE_MAX), ENOMEM);
    assert_errno(evzmq__message_reserve(message, SIZE_MAX / sizeof(struct evzmq__part) + 1),
                 ENOMEM);
    assert_text(message, "a|b");
    evzmq_message_free(message);
}

static void wrong_arguments_leave_a_message_as_it_is(void **state)
{
    (void)state;
    struct evzmq_message *const message = message_of("a");
    assert_errno(evzmq_message_add(message, NULL, 1), EINVAL);
    assert_errno(evzmq_message_add(NULL, "b", 1), EINVAL);
    assert_errno(evzmq_message_add_reference(message, NULL, 1, NULL, NULL), EINVAL);
    assert_errno(evzmq_message_decode(message, NULL, NULL), EINVAL);
    message->is_lent = true;
    assert_errno(evzmq_message_add(message, "b", 1), EINVAL);
    assert_errno(evzmq_message_decode(message, evzmq_codec_raw(), NULL), EINVAL);
    evzmq_message_free(message); /* not the caller's: does nothing */
    assert_text(message, "a");
    message->is_lent = false;
    evzmq_message_free(message);
    evzmq_message_free(NULL);
}

static void flattened_parts_are_equal_aligned_and_within_the_memory(void **state)
{
    (void)state;
    const char *const texts[] = {"a", "abc|d|efghijklmnopqrstuvwxyz", "|a||b|", "|",
                                 "0123456789abcdef|0123456789abcdef0|x"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct evzmq_message *const message = message_of(texts[i]);
        const size_t size = evzmq__message_flat_size(message);
        unsigned char *const memory = malloc(size + 1); /* malloc(0) may be NULL */
        assert_non_null(memory);
        evzmq__message_flatten(message, memory);
        assert_text(message, texts[i]);
        for (size_t k = 0; k < message->part_count; k++) {
            const unsigned char *const data = evzmq_message_get_part(message, k, NULL);
            assert_int_equal((uintptr_t)data % alignof(max_align_t), 0);
            assert_true(data >= memory && data + message->parts[k].size <= memory + size);
            assert_true(message->parts[k].outside);
        }
        evzmq_message_free(message);
        free(memory);
    }
}

static void single_part_needs_no_more_room_than_its_bytes(void **state)
{
    (void)state;
    struct evzmq_message *const message = message_of("abc");
    assert_int_equal(evzmq__message_flat_size(message), 3);
    evzmq_message_free(message);
}

static void taken_message_outlives_the_one_it_was_taken_from(void **state)
{
    (void)state;
    struct evzmq_message *const message = message_of("id||small|tiny|x|y");
    add_large(message, LARGE, 1);
    add_large(message, LARGE - 1, 2);
    evzmq__message_set_envelope(message, 2);
    struct evzmq_message *const kept = evzmq_message_take(message);
    assert_non_null(kept);
    assert_int_equal(evzmq_message_get_size(kept), evzmq_message_get_size(message));
    evzmq_message_free(message);

    assert_int_equal(evzmq_message_get_part_count(kept), 8);
    assert_part(kept, 0, "id", 2);
    assert_part(kept, 1, "", 0);
    assert_part(kept, 5, "y", 1);
    size_t size = 0;
    const void *data = evzmq_message_get_part(kept, 6, &size);
    assert_int_equal(size, LARGE);
    assert_pattern(data, size, 1);
    data = evzmq_message_get_part(kept, 7, &size);
    assert_int_equal(size, LARGE - 1);
    assert_pattern(data, size, 2);
    const struct evzmq_envelope *const envelope = evzmq_message_get_envelope(kept);
    assert_int_equal(evzmq_envelope_get_part_count(envelope), 2);
    assert_memory_equal(evzmq_envelope_get_part(envelope, 0, &size), "id", 2);
    assert_null(evzmq_message_get_value(kept));
    evzmq_message_free(kept);
}

static void large_parts_are_taken_without_a_copy_and_small_ones_with_one(void **state)
{
    (void)state;
    struct evzmq_message *const message = message_of("small");
    add_large(message, LARGE, 1);
    const void *const small = evzmq_message_get_part(message, 0, NULL);
    const void *const large = evzmq_message_get_part(message, 1, NULL);
    struct evzmq_message *const kept = evzmq_message_take(message);
    assert_ptr_not_equal(evzmq_message_get_part(kept, 0, NULL), small);
    assert_ptr_equal(evzmq_message_get_part(kept, 1, NULL), large);
    evzmq_message_free(kept);
    assert_pattern(large, LARGE, 1); /* still the message's */
    evzmq_message_free(message);
}

/* The receive buffer is overwritten by the next message. */
static void message_taken_from_the_buffer_does_not_refer_to_it(void **state)
{
    (void)state;
    struct evzmq_message *const message = message_of("small");
    add_large(message, LARGE, 1);
    const size_t size = evzmq__message_flat_size(message);
    unsigned char *const buffer = malloc(size);
    assert_non_null(buffer);
    evzmq__message_flatten(message, buffer);
    struct evzmq_message *const kept = evzmq_message_take(message);
    memset(buffer, 0xff, size);
    free(buffer);
    evzmq__message_destroy(message);
    assert_part(kept, 0, "small", 5);
    assert_pattern(evzmq_message_get_part(kept, 1, NULL), LARGE, 1);
    struct evzmq_message *const again = evzmq_message_take(kept);
    evzmq_message_free(kept);
    assert_part(again, 0, "small", 5);
    assert_pattern(evzmq_message_get_part(again, 1, NULL), LARGE, 1);
    evzmq_message_free(again);
}

static void envelope_ends_with_the_first_empty_part_that_is_not_the_last(void **state)
{
    (void)state;
    const struct {
        const char *parts;
        size_t body;
    } cases[] = {{"id", 1},   {"id|b", 1},      {"id||b", 2},    {"id|", 1},
                 {"id||", 2}, {"id|a||b|c", 3}, {"id|a|b|c", 1}, {"id|a||b||c", 3},
                 {"|", 1},    {"||", 2},        {"id|a|b||", 4}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct evzmq_message *const message = message_of(cases[i].parts);
        assert_int_equal(evzmq__message_find_body(message), cases[i].body);
        evzmq_message_free(message);
    }
}

static void copied_envelope_outlives_its_message(void **state)
{
    (void)state;
    struct evzmq_message *const message = message_of("id|hop||body");
    evzmq__message_set_envelope(message, 3);
    struct evzmq_envelope *const copy = evzmq_envelope_dup(evzmq_message_get_envelope(message));
    struct evzmq_envelope *const again = evzmq_envelope_dup(copy);
    evzmq_message_free(message);
    evzmq_envelope_free(copy);
    size_t size = 9;
    assert_int_equal(evzmq_envelope_get_part_count(again), 3);
    assert_memory_equal(evzmq_envelope_get_part(again, 1, &size), "hop", 3);
    assert_int_equal(size, 3);
    assert_non_null(evzmq_envelope_get_part(again, 2, &size));
    assert_int_equal(size, 0);
    errno = 0;
    assert_null(evzmq_envelope_get_part(again, 3, &size));
    assert_int_equal(errno, EINVAL);
    evzmq_envelope_free(again);
    errno = 0;
    assert_null(evzmq_envelope_dup(NULL));
    assert_int_equal(errno, EINVAL);
}

/* References. */
static atomic_int freed;

static void count_free(void *data, void *arg)
{
    (void)data;
    (void)arg;
    (void)atomic_fetch_add(&freed, 1);
}

static void memory_lent_to_a_part_is_released_once(void **state)
{
    (void)state;
    static char data[LARGE];
    atomic_store(&freed, 0);
    struct evzmq_message *const message = evzmq_message_new();
    for (int i = 0; i < 20; i++) { /* moved from one array of parts to the next */
        assert_ok(evzmq_message_add_reference(message, data, sizeof(data), count_free, NULL));
    }
    assert_ok(evzmq_message_add_reference(message, data, sizeof(data), NULL, NULL));
    assert_ptr_equal(evzmq_message_get_part(message, 7, NULL), data);
    struct evzmq_message *const kept = evzmq_message_take(message);
    evzmq_message_free(message);
    assert_int_equal(atomic_load(&freed), 0);
    evzmq_message_free(kept);
    assert_int_equal(atomic_load(&freed), 20);
}

static void memory_lent_to_a_part_is_released_once_it_was_received(void **state)
{
    struct fixture *f = *state;
    static char data[LARGE];
    void *receiver = NULL;
    void *sender = NULL;
    size_t parts_sent = 0;
    bool restarted = false;
    open_pair(f, &receiver, &sender);
    atomic_store(&freed, 0);
    struct evzmq_message *const message = message_of("a");
    struct evzmq_message *const received = evzmq_message_new();
    assert_ok(evzmq_message_add_reference(message, data, sizeof(data), count_free, NULL));
    assert_ok(evzmq_message_add_reference(message, data, 0, count_free, NULL));
    assert_int_equal(evzmq__parts_send(message->parts, 3, sender, &parts_sent, &restarted), 0);
    evzmq_message_free(message);
    assert_int_equal(evzmq__message_recv(received, receiver, &no_limits), EVZMQ__RECV_WHOLE);
    assert_int_equal(evzmq_message_get_part_count(received), 3);
    evzmq_message_free(received);
    assert_int_equal(atomic_load(&freed), 2);
}

static void refused_reference_is_not_released(void **state)
{
    (void)state;
    static char data[] = "x";
    atomic_store(&freed, 0);
    struct evzmq_message *const message = message_of("a|b|c|d");
    allocations_fail_at(1);
    assert_errno(evzmq_message_add_reference(message, data, 1, count_free, NULL), ENOMEM);
    allocations_fail_at(0);
    message->is_lent = true;
    assert_errno(evzmq_message_add_reference(message, data, 1, count_free, NULL), EINVAL);
    message->is_lent = false;
    assert_errno(evzmq_message_add_reference(NULL, data, 1, count_free, NULL), EINVAL);
    assert_text(message, "a|b|c|d");
    evzmq_message_free(message);
    assert_int_equal(atomic_load(&freed), 0);
}

/* Receiving. */
static void messages_follow_each_other_into_the_same_memory(void **state)
{
    struct fixture *f = *state;
    void *receiver = NULL;
    void *sender = NULL;
    open_pair(f, &receiver, &sender);
    struct evzmq_message *const message = evzmq_message_new();
    const char *const texts[] = {"a", "b|c|d", "e", "f|g|h|i|j|k|l", "", "m", "|", "n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        peer_send_text(sender, texts[i]);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(evzmq__message_recv(message, receiver, &no_limits), EVZMQ__RECV_WHOLE);
        assert_text(message, texts[i]);
        assert_false(message->is_partial);
    }
    errno = 0;
    assert_int_equal(evzmq__message_recv(message, receiver, &no_limits), EVZMQ__RECV_FAILED);
    assert_int_equal(errno, EAGAIN);
    assert_false(message->is_partial);
    evzmq_message_free(message);
}

static void limits_let_through_what_meets_them_and_skip_what_exceeds_them(void **state)
{
    struct fixture *f = *state;
    const struct {
        size_t count;
        size_t size; /* of each part */
        struct evzmq__message_limits limits;
        bool skipped;
    } cases[] = {
        {1, 10, {10, 0}, false}, {1, 11, {10, 0}, true}, {3, 10, {30, 0}, false},
        {3, 10, {29, 0}, true},  {3, 10, {9, 0}, true},  {5, 0, {1, 0}, false},
        {3, 1, {0, 3}, false},   {4, 1, {0, 3}, true},   {9, 1, {0, 1}, true},
        {1, 1, {0, 1}, false},   {5, 8, {32, 5}, true},  {5, 8, {40, 4}, true},
        {5, 8, {40, 5}, false},  {2, 0, {0, 1}, true},
    };
    void *receiver = NULL;
    void *sender = NULL;
    open_pair(f, &receiver, &sender);
    struct evzmq_message *const message = evzmq_message_new();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        send_parts(sender, cases[i].count, cases[i].size);
        peer_send_text(sender, "x");
        const enum evzmq__recv result = evzmq__message_recv(message, receiver, &cases[i].limits);
        if (cases[i].skipped) {
            assert_int_equal(result, EVZMQ__RECV_SKIPPED);
            assert_int_equal(message->skipped_parts, cases[i].count);
            assert_int_equal(message->skipped_bytes, cases[i].count * cases[i].size);
        } else {
            assert_int_equal(result, EVZMQ__RECV_WHOLE);
            assert_int_equal(message->part_count, cases[i].count);
        }
        assert_int_equal(evzmq__message_recv(message, receiver, &cases[i].limits),
                         EVZMQ__RECV_WHOLE);
        assert_text(message, "x");
    }
    evzmq_message_free(message);
}

static void message_of_very_many_parts_takes_several_calls(void **state)
{
    struct fixture *f = *state;
    const struct evzmq__message_limits limits[] = {{0, 0}, {0, 300}, {2, 0}};
    void *receiver = NULL;
    void *sender = NULL;
    open_pair(f, &receiver, &sender);
    struct evzmq_message *const message = evzmq_message_new();
    for (size_t i = 0; i < 3; i++) {
        send_parts(sender, 1000, 1);
        peer_send_text(sender, "next");
        size_t calls = 0;
        enum evzmq__recv result = EVZMQ__RECV_PARTIAL;
        while (result == EVZMQ__RECV_PARTIAL) {
            result = evzmq__message_recv(message, receiver, &limits[i]);
            calls++;
            assert_int_equal(message->is_partial, result == EVZMQ__RECV_PARTIAL);
        }
        assert_int_equal(result, i == 0 ? EVZMQ__RECV_WHOLE : EVZMQ__RECV_SKIPPED);
        assert_int_equal(i == 0 ? message->part_count : message->skipped_parts, 1000);
        assert_int_equal(i == 0 ? message->size : message->skipped_bytes, 1000);
        assert_int_equal(calls, 4);
        assert_int_equal(evzmq__message_recv(message, receiver, &no_limits), EVZMQ__RECV_WHOLE);
        assert_text(message, "next");
    }
    evzmq_message_free(message);
}

/* Sending. */
static void refused_parts_stay_as_they_are(void **state)
{
    struct fixture *f = *state;
    const char *const texts[] = {"a", "a|b", "a|b|c|d|e|f", "", "||"};
    void *const sender = peer_new(f, ZMQ_PUSH);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct evzmq_message *const message = message_of(texts[i]);
        size_t parts_sent = 0;
        bool restarted = false;
        assert_errno(
            evzmq__parts_send(message->parts, message->part_count, sender, &parts_sent, &restarted),
            EAGAIN);
        assert_int_equal(parts_sent, 0);
        assert_false(restarted);
        assert_text(message, texts[i]);
        evzmq_message_free(message);
    }
}

static void sent_parts_arrive_and_are_empty_afterwards(void **state)
{
    struct fixture *f = *state;
    const char *const texts[] = {"a", "a|b", "a|b|c|d|e|f", "", "||"};
    void *receiver = NULL;
    void *sender = NULL;
    open_pair(f, &receiver, &sender);
    for (size_t i = 0; i < 2 * sizeof(texts) / sizeof(texts[0]); i++) {
        const char *const text = texts[i / 2];
        char received[64];
        size_t parts_sent = 0;
        bool restarted = false;
        struct evzmq_message *message = message_of(text);
        if (i % 2 == 1) { /* its bytes lie outside */
            struct evzmq_message *const kept = evzmq_message_take(message);
            evzmq_message_free(message);
            message = kept;
        }
        assert_int_equal(
            evzmq__parts_send(message->parts, message->part_count, sender, &parts_sent, &restarted),
            0);
        (void)peer_recv_text(receiver, received, sizeof(received));
        assert_string_equal(received, text);
        assert_int_equal(parts_sent, 0);
        for (size_t k = 0; k < message->part_count; k++) {
            assert_int_equal(zmq_msg_size(&message->parts[k].msg), 0);
            assert_false(message->parts[k].outside);
        }
        evzmq_message_free(message);
    }
}

/* Decoding. */
static void value_is_that_of_the_last_decode(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct evzmq_message *const message = message_of("id");
    struct evzmq_decode_error error = {.kind = EVZMQ_DECODE_OK};
    assert_ok(evzmq_message_add(message, "\x07", 1));
    assert_ok(evzmq_message_decode(message, codec, NULL));
    assert_int_equal(evzmq_msgpack_value(message)->via.u64, 7);
    assert_ok(evzmq_message_decode(message, evzmq_codec_raw(), NULL));
    assert_null(evzmq_msgpack_value(message));
    const struct evzmq_bytes *const bytes = evzmq_message_get_value(message);
    assert_int_equal(bytes->size, 1);
    assert_memory_equal(bytes->data, "\x07", 1);

    assert_ok(evzmq_message_add(message, "\x92\x01", 2)); /* the last part is another one now */
    assert_null(evzmq_message_get_value(message));
    assert_errno(evzmq_message_decode(message, codec, &error), EBADMSG);
    assert_int_equal(error.kind, EVZMQ_DECODE_TRUNCATED);
    assert_null(evzmq_message_get_value(message));
    assert_int_equal(evzmq_message_get_decode_error(message, NULL), 1);

    assert_ok(evzmq_message_add(message, "", 0));
    assert_int_equal(evzmq_message_get_decode_error(message, NULL), 0);
    assert_ok(evzmq_message_decode(message, codec, &error));
    assert_null(evzmq_message_get_value(message));
    evzmq_codec_free(codec); /* the message holds it */
    evzmq_message_free(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(added_parts_are_kept_however_many),
        claim(more_parts_than_memory_can_hold_are_refused),
        claim(wrong_arguments_leave_a_message_as_it_is),
        claim(flattened_parts_are_equal_aligned_and_within_the_memory),
        claim(single_part_needs_no_more_room_than_its_bytes),
        claim(taken_message_outlives_the_one_it_was_taken_from),
        claim(large_parts_are_taken_without_a_copy_and_small_ones_with_one),
        claim(message_taken_from_the_buffer_does_not_refer_to_it),
        claim(envelope_ends_with_the_first_empty_part_that_is_not_the_last),
        claim(copied_envelope_outlives_its_message),
        claim(memory_lent_to_a_part_is_released_once),
        claim(memory_lent_to_a_part_is_released_once_it_was_received),
        claim(refused_reference_is_not_released),
        claim(messages_follow_each_other_into_the_same_memory),
        claim(limits_let_through_what_meets_them_and_skip_what_exceeds_them),
        claim(message_of_very_many_parts_takes_several_calls),
        claim(refused_parts_stay_as_they_are),
        claim(sent_parts_arrive_and_are_empty_afterwards),
        claim(value_is_that_of_the_last_decode),
    };
    return run_claims(tests);
}
