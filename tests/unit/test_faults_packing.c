/*
 * Packed frames when memory runs out or libzmq fails: every call says so, everything is as before,
 * and no record is lost.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "packed.h"
#include "socket.h"

/* To arrange a turn of the loop, too, an event is added; that needs no memory: see loop.c. */
#define MEMORY (FAULTS_MEMORY & ~(unsigned)FAULT_EVENT_ADD)

static void open_sender(struct fixture *f, struct probe *p, void **out_push, void **out_pull)
{
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, out_pull, ZMQ_PUSH, out_push);
    packed_attach(f, p, *out_push, 0);
    fixture_glance(f);
}

/* Records that are queued or sent: a call that fails may have sent what was written before. */
static uint64_t count_written(const struct probe *p)
{
    return evzmq_socket_get_queued(p->socket, NULL) + probe_stats(p).messages_out;
}

/* Makes a call with its first request for memory failing, then its second, until none fails. Gives
 * how often it failed. */
static size_t attempt(struct probe *p, unsigned kinds, int (*call)(struct probe *p))
{
    size_t failures = 0;
    for (;;) {
        const uint64_t written = count_written(p);
        faults_begin(p->socket->zmq_socket);
        faults_plan(kinds, failures + 1, 1, ENOMEM);
        errno = 0;
        const int result = call(p);
        const int error = errno;
        const size_t made = faults_made(kinds);
        faults_end();
        if (result == 0) {
            assert_int_equal(made, 0);
            return failures;
        }
        assert_int_equal(error, ENOMEM);
        assert_int_equal(count_written(p), written);
        failures++;
    }
}

static int turn_on(struct probe *p)
{
    return evzmq_socket_set_packing(p->socket, 30000, 1000000);
}

static int turn_off(struct probe *p)
{
    return evzmq_socket_set_packing(p->socket, 0, 0);
}

static int write_next(struct probe *p)
{
    return packed_write(p->socket, p->sequence, 1000);
}

static int write_large(struct probe *p)
{
    return packed_write(p->socket, p->sequence, 50000);
}

static int write_plain(struct probe *p)
{
    return evzmq_socket_write(p->socket, "plain", 5);
}

static int flush(struct probe *p)
{
    return evzmq_socket_flush(p->socket);
}

static int change_codec(struct probe *p)
{
    struct evzmq_codec *codec = p->arg;
    return evzmq_socket_set_codec(p->socket, codec);
}

static int shut_down(struct probe *p)
{
    return evzmq_socket_shutdown(p->socket, NULL, NULL, NULL);
}

static void without_memory_packing_is_not_turned_on(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;
    void *pull = NULL;
    open_sender(f, &p, &push, &pull);
    assert_true(attempt(&p, FAULTS_MEMORY, turn_on) >= 3);
    assert_ok(write_next(&p));
    assert_ok(flush(&p));
    assert_int_equal(packed_pump_frame(f, pull, 0), 1);
    probe_free(&p);
}

static void a_write_without_memory_adds_no_record_and_loses_none(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;
    void *pull = NULL;
    size_t failures = 0;
    open_sender(f, &p, &push, &pull);
    assert_ok(turn_on(&p));
    for (; p.sequence < 200; p.sequence++) {
        failures += attempt(&p, MEMORY, write_next);
    }
    assert_true(failures > 0);
    (void)attempt(&p, MEMORY, flush);
    uint64_t next = 0;
    while (next < 200) {
        next += packed_pump_frame(f, pull, next);
    }
    assert_int_equal(next, 200);
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

static void what_ends_a_frame_fails_without_memory_and_leaves_it_open(void **state)
{
    struct fixture *const f = *state;
    int (*const calls[])(struct probe *) = {flush,        turn_off,    write_plain,
                                            change_codec, write_large, shut_down};
    const size_t sizes[] = {3, 20}; /* copied, and handed over as it is */
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (size_t j = 0; j < 2; j++) {
            struct probe p = {.arg = packed_codec()};
            void *push = NULL;
            void *pull = NULL;
            open_sender(f, &p, &push, &pull);
            assert_ok(turn_on(&p));
            for (; p.sequence < sizes[j]; p.sequence++) {
                assert_ok(write_next(&p));
            }
            assert_true(attempt(&p, MEMORY, calls[i]) >= 1);
            assert_int_equal(packed_pump_frame(f, pull, 0), sizes[j]);
            evzmq_codec_free(p.arg);
            probe_free(&p);
        }
    }
}

static void a_turn_that_ends_without_memory_tells_and_tries_again(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;
    void *pull = NULL;
    open_sender(f, &p, &push, &pull);
    assert_ok(evzmq_socket_set_packing(p.socket, 30000, 0));
    assert_ok(write_next(&p));
    faults_begin(push);
    faults_plan(FAULT_INIT_SIZE | FAULT_INIT_DATA, 1, 1, ENOMEM);
    run_until(f, p.events[EVZMQ_EVENT_ERROR] == 1);
    faults_end();
    assert_int_equal(p.last.error, ENOMEM);
    assert_int_equal(packed_pump_frame(f, pull, 0), 1);
    assert_int_equal(p.events_all, 1);
    probe_free(&p);
}

static void a_delay_that_cannot_be_set_is_none(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;
    void *pull = NULL;
    open_sender(f, &p, &push, &pull);
    assert_ok(evzmq_socket_set_packing(p.socket, 30000, 4000000000u));
    faults_begin(push);
    faults_plan(FAULT_EVENT_ADD, 1, 1, ENOMEM);
    assert_ok(write_next(&p));
    faults_end();
    assert_int_equal(packed_pump_frame(f, pull, 0), 1);
    probe_free(&p);
}

static void a_send_that_fails_leaves_the_frame_in_the_queue(void **state)
{
    struct fixture *const f = *state;
    static const int errors[] = {EAGAIN, EINTR, ENOMEM};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct probe p = {0};
        void *push = NULL;
        void *pull = NULL;
        open_sender(f, &p, &push, &pull);
        assert_ok(turn_on(&p));
        for (; p.sequence < 20; p.sequence++) {
            assert_ok(write_next(&p));
        }
        faults_begin(push);
        faults_plan(FAULT_SEND, 1, 300, errors[i]);
        assert_ok(flush(&p));
        assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 20);
        faults_end();
        assert_ok(evzmq_socket_touch(p.socket));
        assert_int_equal(packed_pump_frame(f, pull, 0), 20);
        run_until(f, probe_stats(&p).messages_out == 20);
        probe_free(&p);
    }
}

/* Receiving. */

static void send_frame(void *peer, uint64_t first, uint64_t count, size_t text_size)
{
    static unsigned char bytes[100000];
    size_t size = 0;
    for (uint64_t i = 0; i < count; i++) {
        size += packed_encode(first + i, text_size, bytes + size, sizeof(bytes) - size);
    }
    peer_send(peer, bytes, size);
}

static void open_receiver(struct fixture *f, struct probe *p, void **out_pull, void **out_push)
{
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, out_pull, ZMQ_PUSH, out_push);
    packed_attach(f, p, *out_pull, 0);
}

static int unpack(struct probe *p)
{
    return evzmq_socket_set_unpacking(p->socket, 1);
}

static void without_memory_unpacking_is_not_turned_on(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    void *push = NULL;
    open_receiver(f, &p, &pull, &push);
    assert_int_equal(attempt(&p, MEMORY, unpack), 1);
    probe_free(&p);
}

static void records_that_find_no_memory_come_later(void **state)
{
    struct fixture *const f = *state;
    size_t made = 1;
    for (size_t n = 1; made > 0; n++) {
        struct probe p = {.on_read = packed_read_sequence};
        void *pull = NULL;
        void *push = NULL;
        open_receiver(f, &p, &pull, &push);
        assert_ok(unpack(&p));
        send_frame(push, 0, 20, 10);
        assert_ok(evzmq_socket_enable(p.socket, EV_READ));
        faults_begin(pull);
        faults_plan(FAULT_ALLOC, n, 1, ENOMEM);
        run_until(f, p.reads == 20);
        made = faults_made(FAULT_ALLOC);
        faults_end();
        assert_int_equal(p.events[EVZMQ_EVENT_ERROR], made);
        assert_int_equal(p.events_all, made);
        probe_free(&p);
    }
}

static int receive_record(struct probe *p)
{
    struct evzmq_message *message = NULL;
    if (evzmq_socket_try_recv(p->socket, &message) < 0) {
        return -1;
    }
    assert_int_equal(packed_number(message), p->sequence);
    evzmq_message_free(message);
    return 0;
}

static void a_receive_call_without_memory_takes_no_record(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    void *push = NULL;
    size_t failures = 0;
    open_receiver(f, &p, &pull, &push);
    assert_ok(unpack(&p));
    send_frame(push, 0, 3, 10);
    send_frame(push, 3, 3, 10000);
    for (; p.sequence < 6; p.sequence++) {
        failures += attempt(&p, MEMORY, receive_record);
    }
    assert_true(failures >= 6);
    assert_errno(receive_record(&p), EAGAIN);
    assert_int_equal(probe_stats(&p).messages_in, 6);
    probe_free(&p);
}

static int receive_empty(struct probe *p)
{
    struct evzmq_message *message = NULL;
    if (evzmq_socket_try_recv(p->socket, &message) < 0) {
        return -1;
    }
    assert_int_equal(evzmq_message_get_size(message), 0);
    assert_null(evzmq_message_get_value(message));
    evzmq_message_free(message);
    return 0;
}

static void see_nothing(struct probe *p, struct evzmq_message *message)
{
    (void)p;
    assert_int_equal(evzmq_message_get_size(message), 0);
}

static void an_empty_message_that_finds_no_memory_is_not_lost(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = see_nothing};
    void *pull = NULL;
    void *push = NULL;
    open_receiver(f, &p, &pull, &push);
    assert_ok(unpack(&p));
    peer_send(push, "", 0);
    assert_true(attempt(&p, MEMORY, receive_empty) > 0);
    assert_int_equal(probe_stats(&p).messages_in, 1);
    peer_send(push, "", 0);
    faults_begin(pull);
    faults_plan(FAULT_ALLOC, 1, 1, ENOMEM);
    assert_errno(receive_empty(&p), ENOMEM);
    faults_end();
    assert_ok(evzmq_socket_enable(p.socket, EV_READ)); /* A callback gets it then. */
    run_until(f, p.reads == 1);
    assert_int_equal(probe_stats(&p).messages_in, 2);
    probe_free(&p);
}

static void signals_in_the_middle_of_receiving_lose_no_record(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = packed_read_sequence};
    void *pull = NULL;
    void *push = NULL;
    open_receiver(f, &p, &pull, &push);
    assert_ok(unpack(&p));
    send_frame(push, 0, 20, 10);
    send_frame(push, 20, 20, 10);
    probe_enable(&p, EV_READ);
    faults_begin(pull);
    faults_plan(FAULT_RECV, 1, 250, EINTR);
    run_until(f, p.reads == 40);
    faults_end();
    probe_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(without_memory_packing_is_not_turned_on),
        claim(a_write_without_memory_adds_no_record_and_loses_none),
        claim(what_ends_a_frame_fails_without_memory_and_leaves_it_open),
        claim(a_turn_that_ends_without_memory_tells_and_tries_again),
        claim(a_delay_that_cannot_be_set_is_none),
        claim(a_send_that_fails_leaves_the_frame_in_the_queue),
        claim(without_memory_unpacking_is_not_turned_on),
        claim(records_that_find_no_memory_come_later),
        claim(a_receive_call_without_memory_takes_no_record),
        claim(an_empty_message_that_finds_no_memory_is_not_lost),
        claim(signals_in_the_middle_of_receiving_lose_no_record),
    };
    return run_claims(tests);
}
