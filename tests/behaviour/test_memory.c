/**
 * @file test_memory.c
 * Every allocation of the library fails once, in turn: an error is returned, nothing is lost or
 * leaked, and the object can still be used and freed.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include <evzmq/msgpack.h>

/* No test needs more allocations than this; a loop that gets here never succeeds. */
#define ATTEMPTS 200

static void attaching_survives_the_failure_of_any_allocation(void **state)
{
    struct fixture *const f = *state;
    void *const pull = peer_new(f, ZMQ_PULL);
    struct evzmq_socket *socket = NULL;
    long n = 0;

    while (socket == NULL) {
        const long live = allocations_live();

        assert_true(++n < ATTEMPTS);
        allocations_fail_at(n);
        errno = 0;
        socket = evzmq_socket_new(f->base, pull, 0);
        allocations_fail_at(0);
        if (socket == NULL) {
            assert_int_equal(errno, ENOMEM);
            assert_int_equal(allocations_live(), live);
        }
    }
    assert_true(n > 1);
    evzmq_socket_free(socket);
}

static void a_write_that_cannot_be_queued_is_enomem_and_can_be_repeated(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    void *pull = NULL;

    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    probe_attach(f, &p, push, 0);
    for (uint64_t number = 0; number < 100; number++) {
        long n = 0;
        int result = -1;

        while (result != 0) {
            const long live = allocations_live();

            assert_true(++n < ATTEMPTS);
            allocations_fail_at(n);
            errno = 0;
            result = evzmq_socket_write(p.socket, &number, sizeof number);
            allocations_fail_at(0);
            if (result != 0) {
                assert_int_equal(errno, ENOMEM);
                assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), number);
                assert_int_equal(allocations_live(), live);
            }
        }
    }
    pull = peer_new(f, ZMQ_PULL);
    peer_connect(pull, endpoint);
    pump_recv_sequence(f, pull, 0, 100);
    probe_free(&p);
}

static void building_a_message_survives_the_failure_of_any_allocation(void **state)
{
    static char large[20000];
    struct evzmq_message *message = NULL;
    long n = 0;

    (void)state;
    for (int stage = 0; stage < 20; n++) {
        size_t parts = 0;
        int ok = 0;

        assert_true(n < 20 * ATTEMPTS);
        parts = evzmq_message_get_part_count(message);
        allocations_fail_at(n % 7 + 1);
        if (message == NULL) {
            message = evzmq_message_new();
            ok = message != NULL;
        } else if (stage % 2 == 0) {
            ok = evzmq_message_add(message, large, sizeof large) == 0;
        } else {
            ok = evzmq_message_add_reference(message, large, sizeof large, NULL, NULL) == 0;
        }
        allocations_fail_at(0);
        if (!ok) {
            assert_int_equal(evzmq_message_get_part_count(message), parts);
        }
        stage += ok;
    }
    assert_int_equal(evzmq_message_get_part_count(message), 19);
    evzmq_message_free(message);
}

static void read_and_count(struct probe *p, struct evzmq_message *message)
{
    if (evzmq_message_get_decode_error(message, NULL) == 0) {
        read_sequence(p, message);
    }
}

static void check_receive(struct fixture *f, enum evzmq_receive_mode mode, long n)
{
    struct probe p = {.on_read = read_and_count};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    assert_ok(evzmq_base_set_receive_buffer(f->base, 4096));
    assert_ok(evzmq_socket_set_receive_mode(p.socket, mode));
    probe_enable(&p, EV_READ);
    for (uint64_t i = 0; i < 20; i++) {
        const uint64_t tail[2] = {0};

        if (i % 3 == 0) {
            assert_int_equal(zmq_send(push, tail, sizeof tail, ZMQ_SNDMORE), sizeof tail);
        }
        peer_send_sequence(push, i, 1, i % 4 == 0 ? 10000 : 100 * ((size_t)i + 1));
    }
    allocations_fail_at(n);
    run_until(f, p.reads == 20);
    allocations_fail_at(0);
    assert_int_equal(p.sequence, 20);
    assert_int_equal(p.events_all, p.events[EVZMQ_EVENT_ERROR]);
    if (p.events_all > 0) {
        assert_int_equal(p.last.error, ENOMEM);
    }
    probe_free(&p);
    peer_close(f, pull);
    peer_close(f, push);
}

static void receiving_survives_the_failure_of_any_allocation_and_loses_nothing(void **state)
{
    for (long n = 1; n <= 12; n++) {
        for (int mode = EVZMQ_RECEIVE_AUTO; mode <= EVZMQ_RECEIVE_OWNED; mode++) {
            check_receive(*state, (enum evzmq_receive_mode)mode, n);
        }
    }
}

static void try_recv_survives_the_failure_of_any_allocation_and_loses_nothing(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    for (uint64_t number = 0; number < 20; number++) {
        struct evzmq_message *message = NULL;
        uint64_t seen = 0;
        long n = 0;

        peer_send_sequence(push, number, 1, number % 2 == 0 ? 10 : 20000);
        while (message == NULL) {
            assert_true(++n < ATTEMPTS);
            allocations_fail_at(n);
            if (evzmq_socket_try_recv(p.socket, &message) != 0) {
                assert_int_equal(errno, ENOMEM);
            }
            allocations_fail_at(0);
        }
        memcpy(&seen, evzmq_message_get_part(message, 0, NULL), sizeof seen);
        assert_int_equal(seen, number);
        evzmq_message_free(message);
    }
    probe_free(&p);
}

static void making_a_codec_survives_the_failure_of_any_allocation(void **state)
{
    struct evzmq_codec *codec = NULL;
    long n = 0;

    (void)state;
    while (codec == NULL) {
        assert_true(++n < ATTEMPTS);
        allocations_fail_at(n);
        codec = evzmq_msgpack_codec_new(NULL);
        allocations_fail_at(0);
    }
    evzmq_codec_free(codec);
}

static void decoding_without_memory_is_an_event_of_its_own_kind_and_passes(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    char bytes[64];
    const size_t size = pack_record(1, "text", bytes, sizeof bytes);

    for (long n = 1; n <= 8; n++) {
        struct probe p = {0};
        void *pull = NULL;
        void *push = NULL;

        peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        probe_attach(f, &p, pull, 0);
        assert_ok(evzmq_socket_set_codec(p.socket, codec));
        probe_enable(&p, EV_READ);
        for (int i = 0; i < 10; i++) {
            peer_send(push, bytes, size);
        }
        allocations_fail_at(n);
        run_until(f, p.reads + p.events[EVZMQ_EVENT_DECODE_ERROR] == 10);
        allocations_fail_at(0);
        assert_true(p.reads >= 9);
        assert_int_equal(probe_stats(&p).decode_errors[EVZMQ_DECODE_NOMEM],
                         p.events[EVZMQ_EVENT_DECODE_ERROR]);
        probe_free(&p);
    }
    evzmq_codec_free(codec);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(attaching_survives_the_failure_of_any_allocation),
        claim(a_write_that_cannot_be_queued_is_enomem_and_can_be_repeated),
        claim(building_a_message_survives_the_failure_of_any_allocation),
        claim(receiving_survives_the_failure_of_any_allocation_and_loses_nothing),
        claim(try_recv_survives_the_failure_of_any_allocation_and_loses_nothing),
        claim(making_a_codec_survives_the_failure_of_any_allocation),
        claim(decoding_without_memory_is_an_event_of_its_own_kind_and_passes),
    };

    return run_claims(tests);
}
