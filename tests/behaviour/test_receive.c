/**
 * @file test_receive.c
 * Receiving: every mode and size, bursts, budgets and how a pass that stopped early goes on.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define BUFFER_MAX ((size_t)64 * 1024)

static const size_t sizes[] = {0,
                               1,
                               28,
                               29,
                               30,
                               31,
                               32,
                               33,
                               34,
                               255,
                               256,
                               4095,
                               4096,
                               8191,
                               8192,
                               8193,
                               16384,
                               BUFFER_MAX - 1,
                               BUFFER_MAX,
                               BUFFER_MAX + 1,
                               BUFFER_MAX * 2,
                               1024 * 1024,
                               1024 * 1024 + 1,
                               3 * 1024 * 1024};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void read_sized(struct probe *p, struct evzmq_message *message)
{
    const size_t index = (p->reads - 1) % SIZES;
    size_t size = 1;
    const void *const data = evzmq_message_get_part(message, 0, &size);

    assert_int_equal(evzmq_message_get_part_count(message), 1);
    assert_int_equal(size, sizes[index]);
    assert_non_null(data);
    assert_pattern(data, size, (unsigned)index);
    if (size == 0) {
        assert_null(evzmq_message_get_value(message));
    } else {
        const struct evzmq_bytes *const value = evzmq_message_get_value(message);

        assert_int_equal(value->size, size);
        assert_pattern(value->data, size, (unsigned)index);
    }
}

static void send_sized(void *push)
{
    for (size_t i = 0; i < SIZES; i++) {
        void *const bytes = malloc(sizes[i] + 1);

        assert_non_null(bytes);
        fill_pattern(bytes, sizes[i], (unsigned)i);
        peer_send(push, bytes, sizes[i]);
        free(bytes);
    }
}

static void check_mode(struct fixture *f, enum transport transport, enum evzmq_receive_mode mode)
{
    struct probe p = {.on_read = read_sized};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, transport, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    assert_ok(evzmq_base_set_receive_buffer(f->base, BUFFER_MAX));
    assert_ok(evzmq_socket_set_receive_mode(p.socket, mode));
    probe_enable(&p, EV_READ);
    send_sized(push);
    send_sized(push);
    run_until(f, p.reads == 2 * SIZES);
    if (mode == EVZMQ_RECEIVE_INTO) {
        assert_int_equal(probe_stats(&p).spills, 2 * 5);
    }
    probe_free(&p);
    peer_close(f, push);
    peer_close(f, pull);
}

static void every_size_arrives_whole_in_every_mode_over_inproc(void **state)
{
    for (int mode = EVZMQ_RECEIVE_AUTO; mode <= EVZMQ_RECEIVE_OWNED; mode++) {
        check_mode(*state, TRANSPORT_INPROC, (enum evzmq_receive_mode)mode);
    }
}

static void every_size_arrives_whole_in_every_mode_over_ipc(void **state)
{
    for (int mode = EVZMQ_RECEIVE_AUTO; mode <= EVZMQ_RECEIVE_OWNED; mode++) {
        check_mode(*state, TRANSPORT_IPC, (enum evzmq_receive_mode)mode);
    }
}

static void every_size_arrives_whole_in_every_mode_over_tcp(void **state)
{
    for (int mode = EVZMQ_RECEIVE_AUTO; mode <= EVZMQ_RECEIVE_OWNED; mode++) {
        check_mode(*state, TRANSPORT_TCP, (enum evzmq_receive_mode)mode);
    }
}

/* PULL on the base and PUSH outside, both without a high water mark. */
static void open_burst(struct fixture *f, struct probe *p, void **out_push)
{
    char endpoint[ENDPOINT_SIZE];
    void *const pull = peer_new(f, ZMQ_PULL);

    *out_push = peer_new(f, ZMQ_PUSH);
    peer_set_int(pull, ZMQ_RCVHWM, 0);
    peer_set_int(*out_push, ZMQ_SNDHWM, 0);
    peer_bind(f, pull, TRANSPORT_INPROC, endpoint);
    peer_connect(*out_push, endpoint);
    probe_attach(f, p, pull, 0);
}

static void one_wakeup_after_a_burst_of_any_length_delivers_all_of_it(void **state)
{
    struct fixture *const f = *state;
    static const uint64_t bursts[] = {1, 2, 10, 1000, 100000};
    struct probe p = {.on_read = read_sequence};
    void *push = NULL;

    open_burst(f, &p, &push);
    probe_enable(&p, EV_READ);
    for (size_t i = 0; i < sizeof bursts / sizeof bursts[0]; i++) {
        const uint64_t goal = p.sequence + bursts[i];

        peer_send_sequence(push, p.sequence, bursts[i], 8);
        run_until(f, p.sequence == goal);
    }
    assert_int_equal(p.reads, 101013);
    probe_free(&p);
}

static void a_message_larger_than_the_buffer_is_delivered_whole_among_others(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_sequence};
    void *push = NULL;

    open_burst(f, &p, &push);
    assert_ok(evzmq_base_set_receive_buffer(f->base, 1024));
    assert_ok(evzmq_socket_set_receive_mode(p.socket, EVZMQ_RECEIVE_INTO));
    probe_enable(&p, EV_READ);
    peer_send_sequence(push, 0, 1, 100000); /* Alone. */
    run_until(f, p.reads == 1);
    peer_send_sequence(push, 1, 1, 100000); /* First, in the middle, last. */
    peer_send_sequence(push, 2, 10, 16);
    peer_send_sequence(push, 12, 1, 1025);
    peer_send_sequence(push, 13, 10, 16);
    peer_send_sequence(push, 23, 1, 100000);
    run_until(f, p.reads == 24);
    peer_send_sequence(push, 24, 10, 1024); /* And it goes on. */
    run_until(f, p.reads == 34);
    assert_int_equal(probe_stats(&p).spills, 4);
    probe_free(&p);
}

static void zero_length_messages_and_parts_are_delivered_as_such(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;

    open_burst(f, &p, &push);
    probe_enable(&p, EV_READ);
    peer_send_text(push, "a");
    peer_send_text(push, "");
    peer_send_text(push, "|");
    peer_send_text(push, "|b");
    peer_send_text(push, "c||d");
    run_until(f, p.reads == 5);
    assert_string_equal(p.log, "a  | |b c||d");
    probe_free(&p);
}

static void a_receive_buffer_of_zero_still_delivers_everything(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_sequence};
    void *push = NULL;

    open_burst(f, &p, &push);
    assert_ok(evzmq_base_set_receive_buffer(f->base, 0));
    probe_enable(&p, EV_READ);
    peer_send_sequence(push, 0, 100, 100);
    peer_send_sequence(push, 100, 10, 100000);
    run_until(f, p.reads == 110);
    probe_free(&p);
}

static void read_and_change_buffer(struct probe *p, struct evzmq_message *message)
{
    const size_t limit = p->reads % 2 == 0 ? 16 : 1024 * 1024;
    size_t size = 0;
    const void *const data = evzmq_message_get_part(message, 0, &size);

    assert_ok(evzmq_base_set_receive_buffer(p->f->base, limit));
    assert_ok(evzmq_socket_set_receive_mode(p->socket, (enum evzmq_receive_mode)(p->reads % 4)));
    assert_pattern(data, size, 7); /* It stays where it is until the callback returns. */
}

static void the_message_in_delivery_survives_a_change_of_buffer_and_mode(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_change_buffer};
    unsigned char bytes[5000];
    void *push = NULL;

    fill_pattern(bytes, sizeof bytes, 7);
    open_burst(f, &p, &push);
    probe_enable(&p, EV_READ);
    for (int i = 0; i < 64; i++) {
        peer_send(push, bytes, sizeof bytes);
    }
    run_until(f, p.reads == 64);
    probe_free(&p);
}

static void a_pass_delivers_no_more_messages_than_its_budget(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget budget = {.size = sizeof budget, .read_messages = 10};
    struct probe p = {.on_read = read_sequence};
    void *push = NULL;

    open_burst(f, &p, &push);
    assert_ok(evzmq_socket_set_budget(p.socket, &budget));
    probe_enable(&p, EV_READ);
    peer_send_sequence(push, 0, 100, 8);
    while (p.reads < 100) {
        const size_t before = p.reads;
        const uint64_t passes = probe_wakeups(&p);

        fixture_turn(f);
        assert_true(p.reads - before <= 10 * (probe_wakeups(&p) - passes));
    }
    assert_true(probe_stats(&p).budget_hits >= 9);
    assert_true(probe_stats(&p).continuations >= 9);
    probe_free(&p);
}

static void a_pass_delivers_no_more_bytes_than_its_budget_and_one_message(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget budget = {.size = sizeof budget, .read_bytes = 10000};
    struct probe p = {.on_read = read_sequence};
    void *push = NULL;

    open_burst(f, &p, &push);
    assert_ok(evzmq_socket_set_budget(p.socket, &budget));
    probe_enable(&p, EV_READ);
    peer_send_sequence(push, 0, 100, 1000);
    while (p.reads < 100) {
        const uint64_t before = p.bytes;
        const uint64_t passes = probe_wakeups(&p);

        fixture_turn(f);
        assert_true(p.bytes - before <= 11000 * (probe_wakeups(&p) - passes));
    }
    assert_true(probe_stats(&p).budget_hits >= 9);
    peer_send_sequence(push, 100, 1, 1000000); /* A message above the whole budget passes. */
    run_until(f, p.reads == 101);
    probe_free(&p);
}

static void read_slowly(struct probe *p, struct evzmq_message *message)
{
    struct timeval start;
    struct timeval now;

    read_sequence(p, message);
    (void)gettimeofday(&start, NULL);
    do {
        (void)gettimeofday(&now, NULL);
    } while (now.tv_sec == start.tv_sec && now.tv_usec - start.tv_usec < 200);
}

static void slow_callbacks_end_a_pass_by_time(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget budget = {.size = sizeof budget, .read_usec = 1000};
    struct probe p = {.on_read = read_slowly};
    void *push = NULL;

    open_burst(f, &p, &push);
    assert_ok(evzmq_socket_set_budget(p.socket, &budget));
    probe_enable(&p, EV_READ);
    peer_send_sequence(push, 0, 500, 8);
    run_until(f, p.reads == 500);
    assert_true(probe_stats(&p).budget_hits >= 1);
    probe_free(&p);
}

static void a_budget_of_unknown_size_is_einval(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget budget = {.size = 1};
    struct probe p = {0};

    probe_attach(f, &p, peer_new(f, ZMQ_PULL), 0);
    assert_errno(evzmq_socket_set_budget(p.socket, &budget), EINVAL);
    assert_errno(evzmq_socket_set_receive_mode(p.socket, (enum evzmq_receive_mode)99), EINVAL);
    assert_ok(evzmq_socket_set_budget(p.socket, NULL));
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(every_size_arrives_whole_in_every_mode_over_inproc),
        claim(every_size_arrives_whole_in_every_mode_over_ipc),
        claim(every_size_arrives_whole_in_every_mode_over_tcp),
        claim(one_wakeup_after_a_burst_of_any_length_delivers_all_of_it),
        claim(a_message_larger_than_the_buffer_is_delivered_whole_among_others),
        claim(zero_length_messages_and_parts_are_delivered_as_such),
        claim(a_receive_buffer_of_zero_still_delivers_everything),
        claim(the_message_in_delivery_survives_a_change_of_buffer_and_mode),
        claim(a_pass_delivers_no_more_messages_than_its_budget),
        claim(a_pass_delivers_no_more_bytes_than_its_budget_and_one_message),
        claim(slow_callbacks_end_a_pass_by_time),
        claim(a_budget_of_unknown_size_is_einval),
    };

    return run_claims(tests);
}
