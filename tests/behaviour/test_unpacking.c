/**
 * @file test_unpacking.c
 * Records of received frames, one by one, whatever happens in the middle of a frame.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include <evzmq/msgpack.h>

#include "packed.h"

static void each_record_is_one_message_with_its_own_bytes(void **state)
{
    struct fixture *const f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe p = {.on_read = packed_read_sequence};
        void *push = NULL;
        size_t bytes = 0;
        packed_open_pair(f, (enum transport)transport, &p, &push);
        probe_enable(&p, EV_READ);
        for (uint64_t i = 0; i < 20; i++) {
            struct packed_frame *const frame = packed_frame_new(i * 50, 50, i * 10);
            bytes += frame->size;
            peer_send(push, frame->bytes, frame->size);
            free(frame);
        }
        run_until(f, p.reads == 1000);
        const struct evzmq_socket_stats stats = probe_stats(&p);
        assert_int_equal(stats.messages_in, 1000);
        assert_int_equal(stats.bytes_in, bytes);
        assert_int_equal(p.bytes, bytes);
        probe_free(&p);
    }
}

static void read_part(struct probe *p, struct evzmq_message *message)
{
    const struct packed_frame *const frame = p->arg;
    const size_t i = (size_t)p->sequence;
    const size_t end = i + 1 < frame->count ? frame->at[i + 1] : frame->size;
    char text[64];
    assert_int_equal(evzmq_message_get_part_count(message), 3);
    assert_part(message, 0, "topic", 5);
    assert_part(message, 1, "", 0);
    assert_part(message, 2, frame->bytes + frame->at[i], end - frame->at[i]);
    assert_int_equal(evzmq_message_get_size(message), 5 + end - frame->at[i]);
    assert_int_equal(packed_number(message), i);
    (void)text;
    p->sequence++;
}

static void the_other_parts_are_the_frames(void **state)
{
    struct fixture *const f = *state;
    struct packed_frame *const frame = packed_frame_new(0, 10, 30);
    struct probe p = {.on_read = read_part, .arg = frame};
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    probe_enable(&p, EV_READ);
    assert_int_equal(zmq_send(push, "topic", 5, ZMQ_SNDMORE), 5);
    assert_int_equal(zmq_send(push, "", 0, ZMQ_SNDMORE), 0);
    peer_send(push, frame->bytes, frame->size);
    run_until(f, p.reads == 10);
    assert_int_equal(probe_stats(&p).bytes_in, 5 + frame->size);
    free(frame);
    probe_free(&p);
}

static void read_and_reply(struct probe *p, struct evzmq_message *message)
{
    const struct evzmq_envelope *const envelope = evzmq_message_get_envelope(message);
    size_t size = 0;
    const void *const data = evzmq_message_get_part(message, 2, &size);
    assert_int_equal(evzmq_envelope_get_part_count(envelope), 2);
    assert_int_equal(packed_number(message), p->sequence);
    assert_ok(evzmq_socket_reply(p->socket, envelope, data, size));
    p->sequence++;
}

static void every_record_of_a_router_has_the_envelope_of_its_frame(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_reply};
    void *router = NULL;
    void *dealer = NULL;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_ROUTER, &router, ZMQ_DEALER, &dealer);
    packed_attach(f, &p, router, 0);
    assert_ok(evzmq_socket_set_unpacking(p.socket, 1));
    probe_enable(&p, EV_READ);
    assert_int_equal(zmq_send(dealer, "", 0, ZMQ_SNDMORE), 0);
    packed_send_frame(dealer, 0, 5, 10);
    run_until(f, p.reads == 5);
    for (uint64_t i = 0; i < 5; i++) {
        unsigned char bytes[128];
        assert_int_equal(zmq_recv(dealer, bytes, sizeof(bytes), 0), 0);
        const int size = zmq_recv(dealer, bytes, sizeof(bytes), 0);
        assert_int_equal(packed_check(bytes, (size_t)size, i), 1);
    }
    probe_free(&p);
}

static void see_broken_tail(struct probe *p, const struct evzmq_event *event)
{
    const struct packed_frame *const frame = p->arg;
    assert_int_equal(event->type, EVZMQ_EVENT_DECODE_ERROR);
    assert_int_equal(event->error, EBADMSG);
    assert_part(event->message, 0, frame->bytes, frame->size);
    assert_null(evzmq_message_get_value(event->message));
    struct evzmq_decode_error error;
    assert_int_equal(evzmq_message_get_decode_error(event->message, &error), 1);
    assert_int_equal(error.offset, event->offset);
}

static void a_broken_tail_costs_one_error_and_nothing_before_it(void **state)
{
    struct fixture *const f = *state;
    static const struct {
        const char *bytes;
        size_t size;
        enum evzmq_decode_kind kind;
        size_t offset;
    } tails[] = {
        {"\xc1\xc1\xc1", 3, EVZMQ_DECODE_MALFORMED, 0},
        {"\x94\xacstream", 8, EVZMQ_DECODE_TRUNCATED, 1},
        {"\x01\x02\x03", 3, EVZMQ_DECODE_TYPE, 0},
        {"\x94\xacstream_chunk\x01", 15, EVZMQ_DECODE_TYPE, 14},
    };
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        struct packed_frame *const frame = packed_frame_new(0, 10, 30);
        struct probe p = {
            .on_read = packed_read_sequence, .on_event = see_broken_tail, .arg = frame};
        void *push = NULL;
        const size_t good = frame->size;
        memcpy(frame->bytes + good, tails[i].bytes, tails[i].size);
        frame->size += tails[i].size;
        packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
        probe_enable(&p, EV_READ);
        peer_send(push, frame->bytes, frame->size);
        packed_send_frame(push, 10, 3, 30);
        run_until(f, p.reads == 13);
        assert_int_equal(p.events_all, 1);
        assert_int_equal(p.last.kind, tails[i].kind);
        assert_int_equal(p.last.offset, good + tails[i].offset);
        assert_int_equal(probe_stats(&p).decode_errors[tails[i].kind], 1);
        assert_int_equal(probe_stats(&p).messages_in, 14);
        free(frame);
        probe_free(&p);
    }
}

static void an_empty_message_comes_as_one_without_value(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    probe_enable(&p, EV_READ);
    peer_send(push, "", 0);
    packed_send_frame(push, 0, 2, 10);
    run_until(f, p.reads == 3);
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

static void the_budget_counts_records(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget budget = {.size = sizeof(budget), .read_messages = 7};
    struct probe p = {.on_read = packed_read_sequence};
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    assert_ok(evzmq_socket_set_budget(p.socket, &budget));
    packed_send_frame(push, 0, 70, 10);
    probe_enable(&p, EV_READ);
    size_t before = 0;
    while (p.reads < 70) {
        fixture_turn(f);
        assert_in_range(p.reads - before, 0, 7);
        before = p.reads;
    }
    assert_in_range(probe_stats(&p).budget_hits, 9, 10);
    probe_free(&p);
}

struct kept {
    struct evzmq_message *small[3];
    struct evzmq_message *large[3];
    size_t count;
};

static void read_and_keep(struct probe *p, struct evzmq_message *message)
{
    struct kept *const kept = p->arg;
    struct evzmq_message *const taken = evzmq_message_take(message);
    assert_non_null(taken);
    if (p->sequence % 2 == 0) {
        kept->small[kept->count] = taken;
    } else {
        kept->large[kept->count++] = taken;
    }
    p->sequence++;
}

static void kept_records_are_their_own_bytes_and_outlive_the_frame(void **state)
{
    struct fixture *const f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct kept kept = {.count = 0};
        struct probe p = {.on_read = read_and_keep, .arg = &kept};
        void *push = NULL;
        struct packed_frame *const frame = packed_frame_new(0, 0, 0);
        struct evzmq_codec *const codec = packed_codec();
        for (uint64_t i = 0; i < 6; i++) {
            packed_frame_add(frame, i, i % 2 == 0 ? 50 : 10000);
        }
        packed_open_pair(f, (enum transport)transport, &p, &push);
        probe_enable(&p, EV_READ);
        peer_send(push, frame->bytes, frame->size);
        run_until(f, p.reads == 6);
        probe_free(&p);
        for (size_t i = 0; i < 6; i++) {
            struct evzmq_message *const message =
                i % 2 == 0 ? kept.small[i / 2] : kept.large[i / 2];
            struct evbuffer *const buffer = evbuffer_new();
            const size_t end = i + 1 < 6 ? frame->at[i + 1] : frame->size;
            const size_t size = end - frame->at[i];
            struct evzmq_message *const again = evzmq_message_take(message);
            assert_part(message, 0, frame->bytes + frame->at[i], size);
            assert_ok(evzmq_message_decode(message, codec, NULL));
            assert_int_equal(packed_number(message), i);
            assert_ok(evzmq_message_part_to_evbuffer(message, 0, buffer));
            /* More parts make the list of parts move. */
            for (int more = 0; more < 10; more++) {
                assert_ok(evzmq_message_add(message, "x", 1));
            }
            assert_part(message, 0, frame->bytes + frame->at[i], size);
            evzmq_message_free(message);
            assert_int_equal(evbuffer_get_length(buffer), size);
            assert_memory_equal(evbuffer_pullup(buffer, -1), frame->bytes + frame->at[i], size);
            assert_part(again, 0, frame->bytes + frame->at[i], size);
            evzmq_message_free(again);
            evbuffer_free(buffer);
        }
        evzmq_codec_free(codec);
        free(frame);
    }
}

static void read_and_forward(struct probe *p, struct evzmq_message *message)
{
    struct evzmq_message *const taken = evzmq_message_take(message);
    assert_ok(evzmq_socket_write_message(p->socket, taken));
    p->sequence++;
}

static void a_kept_record_that_is_sent_on_is_the_record_alone(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_forward};
    void *pair = NULL;
    void *peer = NULL;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PAIR, &pair, ZMQ_PAIR, &peer);
    packed_attach(f, &p, pair, 0);
    assert_ok(evzmq_socket_set_unpacking(p.socket, 1));
    probe_enable(&p, EV_READ);
    packed_send_frame(peer, 0, 3, 20000);
    run_until(f, p.reads == 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(packed_pump_frame(f, peer, i), 1);
    }
    probe_free(&p);
}

static void the_receive_calls_hand_over_records(void **state)
{
    struct fixture *const f = *state;
    const struct timeval patience = {10, 0};
    struct probe p = {0};
    struct evzmq_message *messages[32];
    struct evzmq_decode_error error;
    void *push = NULL;
    struct packed_frame *const frame = packed_frame_new(5, 2, 10);
    frame->bytes[frame->size++] = 0xc1;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    assert_errno(evzmq_socket_try_recv(p.socket, &messages[0]), EAGAIN);
    packed_send_frame(push, 0, 5, 10000);
    peer_send(push, frame->bytes, frame->size);
    packed_send_frame(push, 7, 3, 10);
    f->dispatching = 1;
    assert_ok(evzmq_socket_recv(p.socket, &patience, &messages[0]));
    f->dispatching = 0;
    assert_ok(evzmq_socket_try_recv(p.socket, &messages[1]));
    int count = 2;
    while (count < 11) {
        const int more = evzmq_socket_recv_many(p.socket, messages + count, 3);
        assert_in_range(more, 0, 3);
        count += more;
    }
    assert_errno(evzmq_socket_try_recv(p.socket, &messages[count]), EAGAIN);
    for (int i = 0; i < count; i++) {
        if (i == 7) {
            assert_int_equal(evzmq_message_get_decode_error(messages[i], &error), 1);
            assert_int_equal(error.offset, frame->size - 1);
            assert_part(messages[i], 0, frame->bytes, frame->size);
        } else {
            assert_int_equal(packed_number(messages[i]), i < 7 ? i : i - 1);
        }
        evzmq_message_free(messages[i]);
    }
    assert_int_equal(probe_stats(&p).messages_in, 11);
    free(frame);
    probe_free(&p);
}

/* A codec of bytes that ends a value after each zero; what decodes alone has no 'x' in it. */
static int decode_without_x(const void *state, const void *data, size_t size,
                            struct evzmq_arena *arena, const void **out_value,
                            struct evzmq_decode_error *out_error)
{
    const char *const x = memchr(data, 'x', size);
    (void)state;
    (void)arena;
    *out_value = data;
    if (x != NULL) {
        *out_error =
            (struct evzmq_decode_error){EVZMQ_DECODE_VALUE, (size_t)(x - (const char *)data)};
        return -1;
    }
    return 0;
}

static int decode_to_zero(const void *state, const void *data, size_t size,
                          struct evzmq_arena *arena, const void **out_value, size_t *out_used,
                          struct evzmq_decode_error *out_error)
{
    const char *const zero = memchr(data, 0, size);
    (void)state;
    (void)arena;
    *out_value = data;
    if (zero == NULL) {
        *out_error = (struct evzmq_decode_error){EVZMQ_DECODE_TRUNCATED, size};
        return -1;
    }
    *out_used = (size_t)(zero - (const char *)data) + 1;
    return 0;
}

static void a_record_that_only_the_prefix_method_accepts_costs_itself_alone(void **state)
{
    static const struct evzmq_codec_methods methods = {
        .size = sizeof(struct evzmq_codec_methods),
        .name = "undecided",
        .decode = decode_without_x,
        .decode_prefix = decode_to_zero,
    };
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    struct evzmq_decode_error error;
    void *push = NULL;
    struct evzmq_codec *const codec = evzmq_codec_new(&methods, NULL);
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    assert_ok(evzmq_socket_set_codec(p.socket, codec));
    evzmq_codec_free(codec);
    peer_send(push, "a\0bx\0c", 7);
    assert_ok(evzmq_socket_try_recv(p.socket, &message));
    assert_part(message, 0, "a", 2);
    evzmq_message_free(message);
    assert_ok(evzmq_socket_try_recv(p.socket, &message));
    assert_part(message, 0, "bx", 3);
    assert_int_equal(evzmq_message_get_decode_error(message, &error), 1);
    assert_int_equal(error.offset, 1);
    evzmq_message_free(message);
    assert_ok(evzmq_socket_try_recv(p.socket, &message));
    assert_part(message, 0, "c", 2);
    assert_int_equal(evzmq_message_get_decode_error(message, NULL), 0);
    evzmq_message_free(message);
    assert_int_equal(probe_stats(&p).decode_errors[EVZMQ_DECODE_VALUE], 1);
    probe_free(&p);
}

/* In the middle of a frame: takes the rest and the next frame by hand, and leaves a part of that.
 */
static void callbacks_go_on_with_a_frame_that_a_receive_call_began(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = packed_read_sequence};
    struct evzmq_message *message = NULL;
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    packed_send_frame(push, 0, 3, 10);
    assert_ok(evzmq_socket_try_recv(p.socket, &message)); /* the first thing the base receives */
    packed_read_sequence(&p, message);
    evzmq_message_free(message);
    probe_enable(&p, EV_READ);
    run_until(f, p.sequence == 3);
    assert_int_equal(p.reads, 2);
    probe_free(&p);
}

static void read_and_receive(struct probe *p, struct evzmq_message *message)
{
    packed_read_sequence(p, message);
    if (p->sequence != 3) {
        return;
    }
    assert_ok(evzmq_socket_disable(p->socket, EV_READ));
    for (int i = 0; i < 10; i++) {
        struct evzmq_message *record = NULL;
        assert_ok(evzmq_socket_try_recv(p->socket, &record));
        assert_int_equal(packed_number(record), p->sequence);
        evzmq_message_free(record);
        p->sequence++;
    }
    assert_int_equal(packed_number(message), 2); /* the lent one is what it was */
    assert_ok(evzmq_socket_enable(p->socket, EV_READ));
}

static void a_callback_may_receive_the_rest_of_its_frame_itself(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_receive};
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    packed_send_frame(push, 0, 8, 10);
    packed_send_frame(push, 8, 9, 10);
    probe_enable(&p, EV_READ);
    run_until(f, p.sequence == 17);
    probe_free(&p);
}

static void a_frame_of_many_parts_may_change_hands_with_the_way_to_receive(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget budget = {.size = sizeof(budget), .read_messages = 1};
    struct probe p = {0};
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    assert_ok(evzmq_socket_set_budget(p.socket, &budget));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 1000; i++) {
            assert_int_equal(zmq_send(push, "part", 4, ZMQ_SNDMORE), 4);
        }
        packed_send_frame(push, 0, 2, 10);
    }
    probe_enable(&p, EV_READ);
    size_t on = 1;
    while (p.reads + p.events_all < 4) {
        fixture_turn(f);
        on = 1 - on;
        assert_ok(evzmq_socket_set_unpacking(p.socket, (int)on));
    }
    probe_free(&p);
}

static void drop_large(struct probe *p, const struct evzmq_event *event)
{
    assert_int_equal(event->type, EVZMQ_EVENT_MESSAGE_TOO_LARGE);
    p->arg = p;
}

static void the_size_limit_is_one_of_frames(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = packed_read_sequence, .on_event = drop_large};
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    assert_ok(evzmq_socket_set_max_message(p.socket, 1000, 0, EVZMQ_OVERSIZE_DROP));
    packed_send_frame(push, 0, 10, 10);
    packed_send_frame(push, 10, 100, 10);
    packed_send_frame(push, 10, 10, 10);
    probe_enable(&p, EV_READ);
    run_until(f, p.sequence == 20);
    assert_int_equal(p.events_all, 1);
    probe_free(&p);
}

static void sockets_of_a_base_that_take_turns_do_not_mix_their_frames(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget budget = {.size = sizeof(budget), .read_messages = 3};
    struct probe p[4];
    void *push[4];
    for (size_t i = 0; i < 4; i++) {
        p[i] = (struct probe){.on_read = packed_read_sequence, .sequence = i * 1000};
        packed_open_pair(f, i % 2 == 0 ? TRANSPORT_IPC : TRANSPORT_INPROC, &p[i], &push[i]);
        assert_ok(evzmq_socket_set_budget(p[i].socket, &budget));
        packed_send_frame(push[i], i * 1000, 500, i * 10);
        packed_send_frame(push[i], i * 1000 + 500, 500, i * 10);
        probe_enable(&p[i], EV_READ);
    }
    for (size_t i = 0; i < 4; i++) {
        run_until(f, p[i].reads == 1000);
        assert_int_equal(p[i].events_all, 0);
    }
    for (size_t i = 0; i < 4; i++) {
        probe_free(&p[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(each_record_is_one_message_with_its_own_bytes),
        claim(the_other_parts_are_the_frames),
        claim(every_record_of_a_router_has_the_envelope_of_its_frame),
        claim(a_broken_tail_costs_one_error_and_nothing_before_it),
        claim(an_empty_message_comes_as_one_without_value),
        claim(the_budget_counts_records),
        claim(kept_records_are_their_own_bytes_and_outlive_the_frame),
        claim(a_kept_record_that_is_sent_on_is_the_record_alone),
        claim(the_receive_calls_hand_over_records),
        claim(a_record_that_only_the_prefix_method_accepts_costs_itself_alone),
        claim(callbacks_go_on_with_a_frame_that_a_receive_call_began),
        claim(a_callback_may_receive_the_rest_of_its_frame_itself),
        claim(a_frame_of_many_parts_may_change_hands_with_the_way_to_receive),
        claim(the_size_limit_is_one_of_frames),
        claim(sockets_of_a_base_that_take_turns_do_not_mix_their_frames),
    };
    return run_claims(tests);
}
