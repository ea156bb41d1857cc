/**
 * @file test_unpacking_callbacks.c
 * What a callback does in the middle of a frame: it breaks the loop, disables, frees, shuts down or
 * changes how the rest is received.
 */
#include "support.h"

#include <event2/event.h>

#include <evzmq/msgpack.h>

#include "child.h"
#include "packed.h"

static void read_and_break(struct probe *p, struct evzmq_message *message)
{
    packed_read_sequence(p, message);
    event_base_loopbreak(p->f->base);
}

static void read_and_disable(struct probe *p, struct evzmq_message *message)
{
    packed_read_sequence(p, message);
    assert_ok(evzmq_socket_disable(p->socket, EV_READ));
}

static void read_and_free(struct probe *p, struct evzmq_message *message)
{
    const struct evzmq_message *const lent = message;
    assert_int_equal(packed_number(lent), p->sequence);
    probe_free(p);
    assert_int_equal(packed_number(lent),
                     p->sequence); /* It is there until the callback returns. */
    p->sequence++;
}

static void read_and_shut_down(struct probe *p, struct evzmq_message *message)
{
    packed_read_sequence(p, message);
    assert_ok(evzmq_socket_shutdown(p->socket, NULL, NULL, NULL));
}

static void a_loopbreak_in_the_middle_of_a_frame_only_interrupts(void **state)
{
    struct fixture *const f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe p = {.on_read = read_and_break};
        void *push = NULL;
        packed_open_pair(f, (enum transport)transport, &p, &push);
        probe_enable(&p, EV_READ);
        packed_send_frame(push, 0, 20, 10);
        for (size_t i = 1; i <= 20; i++) {
            run_until(f, p.reads == i);
            assert_int_equal(p.sequence, i);
        }
        probe_free(&p);
    }
}

static void a_disable_in_the_middle_of_a_frame_keeps_the_rest(void **state)
{
    struct fixture *const f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe p = {.on_read = read_and_disable};
        void *push = NULL;
        packed_open_pair(f, (enum transport)transport, &p, &push);
        probe_enable(&p, EV_READ);
        packed_send_frame(push, 0, 20, 10);
        for (size_t i = 1; i <= 20; i++) {
            run_until(f, p.reads == i);
            fixture_run_for(f, 1);
            assert_int_equal(p.reads, i);
            probe_enable(&p, EV_READ);
        }
        probe_free(&p);
    }
}

static void a_free_in_the_middle_of_a_frame_ends_it(void **state)
{
    struct fixture *const f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe p = {.on_read = read_and_free};
        void *push = NULL;
        packed_open_pair(f, (enum transport)transport, &p, &push);
        probe_enable(&p, EV_READ);
        packed_send_frame(push, 0, 20, 10);
        run_until(f, p.socket == NULL);
        fixture_run_for(f, 5);
        assert_int_equal(p.sequence, 1);
    }
}

static void a_shutdown_in_the_middle_of_a_frame_ends_it(void **state)
{
    struct fixture *const f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe p = {.on_read = read_and_shut_down};
        void *pair = NULL;
        void *peer = NULL;
        peer_pair(f, (enum transport)transport, ZMQ_PAIR, &pair, ZMQ_PAIR, &peer);
        packed_attach(f, &p, pair, 0);
        assert_ok(evzmq_socket_set_unpacking(p.socket, 1));
        probe_enable(&p, EV_READ);
        packed_send_frame(peer, 0, 20, 10);
        run_until(f, p.reads == 1);
        fixture_run_for(f, 5);
        assert_int_equal(p.reads, 1);
        probe_free(&p);
    }
}

static void read_and_turn_off(struct probe *p, struct evzmq_message *message)
{
    packed_read_sequence(p, message);
    assert_ok(evzmq_socket_set_unpacking(p->socket, 0));
}

static void turned_off_in_the_middle_of_a_frame_its_rest_comes_as_records(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_turn_off};
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    probe_enable(&p, EV_READ);
    packed_send_frame(push, 0, 20, 10);
    packed_send_frame(push, 20, 1, 10);
    packed_send_frame(push, 21, 2, 10);
    run_until(f, p.events_all == 1);
    assert_int_equal(p.sequence, 21);
    assert_int_equal(p.last.kind, EVZMQ_DECODE_TRAILING);
    probe_free(&p);
}

static void read_and_turn_raw(struct probe *p, struct evzmq_message *message)
{
    const int is_last = p->sequence == 19;
    packed_read_sequence(p, message);
    assert_ok(evzmq_socket_set_unpacking(p->socket, 0));
    if (is_last) {
        assert_ok(evzmq_socket_set_codec(p->socket, NULL));
    } else {
        assert_errno(evzmq_socket_set_codec(p->socket, NULL), ENOTSUP);
    }
}

static void turned_off_a_codec_that_cannot_unpack_waits_for_the_end_of_the_frame(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_turn_raw};
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    probe_enable(&p, EV_READ);
    packed_send_frame(push, 0, 20, 10);
    run_until(f, p.reads == 20);
    p.on_read = NULL;
    packed_send_frame(push, 20, 2, 10);
    run_until(f, p.reads == 21);
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

static void read_and_turn_on(struct probe *p, struct evzmq_message *message)
{
    packed_read_sequence(p, message);
    assert_ok(evzmq_socket_set_unpacking(p->socket, 1));
}

static void turned_on_in_a_callback_it_applies_to_the_next_message(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_turn_on};
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    assert_ok(evzmq_socket_set_unpacking(p.socket, 0));
    packed_send_frame(push, 0, 1, 10);
    packed_send_frame(push, 1, 20, 10);
    probe_enable(&p, EV_READ);
    run_until(f, p.sequence == 21);
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

static void read_and_change_codec(struct probe *p, struct evzmq_message *message)
{
    if (p->sequence % 2 == 0) {
        assert_int_equal(packed_number(message), p->sequence);
    } else {
        assert_int_equal(evzmq_msgpack_value(message)->via.array.size, 4);
    }
    struct evzmq_codec *const next =
        p->sequence % 2 == 0 ? evzmq_msgpack_codec_new(NULL) : packed_codec();
    const void *const before = evzmq_message_get_value(message);
    assert_errno(evzmq_socket_set_codec(p->socket, NULL), ENOTSUP);
    assert_ok(evzmq_socket_set_codec(p->socket, next));
    evzmq_codec_free(next);
    assert_ptr_equal(evzmq_message_get_value(message), before);
    assert_non_null(evzmq_codec_get_methods(evzmq_message_get_codec(message))->name);
    p->sequence++;
}

static void another_codec_applies_from_the_next_record_on(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_change_codec};
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_INPROC, &p, &push);
    probe_enable(&p, EV_READ);
    packed_send_frame(push, 0, 20, 10);
    run_until(f, p.reads == 20);
    probe_free(&p);
}

static void a_child_gets_no_records(void *arg)
{
    struct probe *const p = arg;
    struct event_base *const base = evzmq_socket_get_base(p->socket);
    evzmq_socket_free(p->socket);
    child_check(event_reinit(base) == 0);
    child_check(evzmq_after_fork(base) == 0);
}

static void a_child_that_is_forked_in_the_middle_of_a_frame_leaves_it_to_the_parent(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_disable};
    void *push = NULL;
    packed_open_pair(f, TRANSPORT_IPC, &p, &push);
    packed_send_frame(push, 0, 10, 10);
    probe_enable(&p, EV_READ);
    run_until(f, p.reads == 1);
    child_run(a_child_gets_no_records, &p);
    p.on_read = packed_read_sequence;
    probe_enable(&p, EV_READ);
    run_until(f, p.reads == 10);
    probe_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(a_loopbreak_in_the_middle_of_a_frame_only_interrupts),
        claim(a_disable_in_the_middle_of_a_frame_keeps_the_rest),
        claim(a_free_in_the_middle_of_a_frame_ends_it),
        claim(a_shutdown_in_the_middle_of_a_frame_ends_it),
        claim(turned_off_in_the_middle_of_a_frame_its_rest_comes_as_records),
        claim(turned_off_a_codec_that_cannot_unpack_waits_for_the_end_of_the_frame),
        claim(turned_on_in_a_callback_it_applies_to_the_next_message),
        claim(another_codec_applies_from_the_next_record_on),
        claim(a_child_that_is_forked_in_the_middle_of_a_frame_leaves_it_to_the_parent),
    };
    return run_claims(tests);
}
