/**
 * @file test_stats.c
 * What a socket counts, and the small calls of the library that have no socket.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include <evzmq/msgpack.h>

static void messages_and_bytes_are_counted_exactly_both_ways(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_bytes parts[] = {{"ab", 2}, {"c", 1}};
    struct probe p = {0};
    struct evzmq_socket_stats stats;
    void *dealer = NULL;
    void *peer = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_DEALER, &dealer, ZMQ_DEALER, &peer);
    probe_attach(f, &p, dealer, 0);
    probe_enable(&p, EV_READ);
    peer_send_text(peer, "12345|678");
    peer_send_text(peer, "");
    peer_send_text(peer, "9");
    run_until(f, p.reads == 3 && probe_stats(&p).receive_eagains >= 1);
    assert_ok(evzmq_socket_write_parts(p.socket, parts, 2));
    assert_ok(evzmq_socket_write(p.socket, "defg", 4));
    stats = probe_stats(&p);
    assert_int_equal(stats.messages_in, 3);
    assert_int_equal(stats.bytes_in, 9);
    assert_int_equal(stats.messages_out, 2);
    assert_int_equal(stats.bytes_out, 7);
    assert_true(stats.wakeups >= 1);
    assert_int_equal(stats.queue_messages_peak, 0);
    probe_free(&p);
}

static void the_queue_is_a_gauge_with_a_peak(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evzmq_socket_stats stats;
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    void *pull = NULL;

    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    probe_attach(f, &p, push, 0);
    for (uint64_t i = 0; i < 10; i++) {
        assert_ok(evzmq_socket_write(p.socket, &i, sizeof i));
    }
    stats = probe_stats(&p);
    assert_int_equal(stats.queue_messages, 10);
    assert_int_equal(stats.queue_bytes, 80);
    assert_int_equal(stats.messages_out, 0);
    assert_true(stats.send_eagains >= 1);
    pull = peer_new(f, ZMQ_PULL);
    peer_connect(pull, endpoint);
    pump_recv_sequence(f, pull, 0, 10);
    stats = probe_stats(&p);
    assert_int_equal(stats.queue_messages, 0);
    assert_int_equal(stats.queue_bytes, 0);
    assert_int_equal(stats.queue_messages_peak, 10);
    assert_int_equal(stats.queue_bytes_peak, 80);
    assert_int_equal(stats.messages_out, 10);
    assert_int_equal(stats.bytes_out, 80);
    probe_free(&p);
}

static void decode_errors_are_counted_by_kind(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct probe p = {0};
    struct evzmq_socket_stats stats;
    uint64_t all = 0;
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    assert_ok(evzmq_socket_set_codec(p.socket, codec));
    evzmq_codec_free(codec);
    probe_enable(&p, EV_READ);
    peer_send(push, "\xc1", 1);
    peer_send(push, "\x92\x01", 2);
    peer_send(push, "\x92\x01", 2);
    peer_send(push, "\x01\x01", 2);
    peer_send(push, "\x01", 1);
    run_until(f, p.reads == 1);
    stats = probe_stats(&p);
    for (int kind = 0; kind < EVZMQ_DECODE_KINDS; kind++) {
        all += stats.decode_errors[kind];
    }
    assert_int_equal(all, 4);
    assert_int_equal(stats.decode_errors[EVZMQ_DECODE_MALFORMED], 1);
    assert_int_equal(stats.decode_errors[EVZMQ_DECODE_TRUNCATED], 2);
    assert_int_equal(stats.decode_errors[EVZMQ_DECODE_TRAILING], 1);
    assert_int_equal(stats.messages_in, 5);
    probe_free(&p);
}

static void an_older_program_gets_the_fields_it_knows(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evzmq_socket_stats stats;

    probe_attach(f, &p, peer_new(f, ZMQ_PULL), 0);
    memset(&stats, 0x5a, sizeof stats);
    stats.size = offsetof(struct evzmq_socket_stats, wakeups);
    assert_ok(evzmq_socket_get_stats(p.socket, &stats));
    assert_int_equal(stats.messages_in, 0);
    assert_int_equal(stats.bytes_out, 0);
    assert_int_equal(stats.wakeups, 0x5a5a5a5a5a5a5a5a); /* Beyond its struct: untouched. */
    stats.size = 0;
    assert_errno(evzmq_socket_get_stats(p.socket, &stats), EINVAL);
    assert_errno(evzmq_socket_get_stats(p.socket, NULL), EINVAL);
    assert_errno(evzmq_socket_get_stats(NULL, &stats), EINVAL);
    probe_free(&p);
}

static void the_library_says_the_version_of_its_headers(void **state)
{
    int major = -1;
    int minor = -1;
    int patch = -1;

    (void)state;
    evzmq_version(&major, &minor, &patch);
    assert_int_equal(major, EVZMQ_VERSION_MAJOR);
    assert_int_equal(minor, EVZMQ_VERSION_MINOR);
    assert_int_equal(patch, EVZMQ_VERSION_PATCH);
    evzmq_version(NULL, NULL, NULL);
}

static void error_texts_cover_both_libraries(void **state)
{
    (void)state;
    assert_string_equal(evzmq_strerror(ETERM), zmq_strerror(ETERM));
    assert_string_equal(evzmq_strerror(EFSM), zmq_strerror(EFSM));
    assert_string_equal(evzmq_strerror(EINVAL), strerror(EINVAL));
    assert_non_null(evzmq_strerror(-12345));
    assert_non_null(evzmq_decode_kind_name(EVZMQ_DECODE_TRUNCATED));
    assert_string_equal(evzmq_decode_kind_name((enum evzmq_decode_kind)999), "unknown");
}

static void half_a_set_of_memory_functions_is_einval(void **state)
{
    (void)state;
    assert_errno(evzmq_set_mem_functions(malloc, NULL, free), EINVAL);
    assert_errno(evzmq_set_mem_functions(NULL, realloc, NULL), EINVAL);
}

static void priorities_are_those_of_the_base(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};

    assert_int_equal(event_base_priority_init(f->base, 3), 0);
    probe_attach(f, &p, peer_new(f, ZMQ_PULL), 0);
    assert_ok(evzmq_socket_priority_set(p.socket, 0));
    assert_ok(evzmq_socket_priority_set(p.socket, 2));
    assert_errno(evzmq_socket_priority_set(p.socket, 3), EINVAL);
    assert_errno(evzmq_socket_priority_set(p.socket, -1), EINVAL);
    probe_free(&p);
}

static struct probe racers[2];

static void note_order(struct probe *p, struct evzmq_message *message)
{
    read_sequence(p, message);
    if (p == &racers[1]) {
        assert_int_equal(racers[0].reads, 100); /* The more urgent one was finished first. */
    }
}

static void a_more_urgent_socket_is_served_first(void **state)
{
    struct fixture *const f = *state;

    memset(racers, 0, sizeof racers);
    assert_int_equal(event_base_priority_init(f->base, 2), 0);
    for (int i = 1; i >= 0; i--) {
        void *pull = NULL;
        void *push = NULL;

        peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        racers[i].on_read = note_order;
        probe_attach(f, &racers[i], pull, 0);
        assert_ok(evzmq_socket_priority_set(racers[i].socket, i));
        peer_send_sequence(push, 0, 100, 8);
        probe_enable(&racers[i], EV_READ);
    }
    run_until(f, racers[1].reads == 100);
    probe_free(&racers[0]);
    probe_free(&racers[1]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(messages_and_bytes_are_counted_exactly_both_ways),
        claim(the_queue_is_a_gauge_with_a_peak),
        claim(decode_errors_are_counted_by_kind),
        claim(an_older_program_gets_the_fields_it_knows),
        claim(the_library_says_the_version_of_its_headers),
        claim(error_texts_cover_both_libraries),
        claim(half_a_set_of_memory_functions_is_einval),
        claim(priorities_are_those_of_the_base),
        claim(a_more_urgent_socket_is_served_first),
    };

    return run_claims(tests);
}
