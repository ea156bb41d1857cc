/**
 * @file test_flat_memory.c
 * What the process holds does not grow with what passes, is refused, or comes and goes, libzmq's
 * share and the heap's fragments included. EVZMQ_TEST_MESSAGES is how many messages pass: ten
 * million in the nightly checks, and a hundredth of that are the sockets that come and go. Not
 * built with sanitizers, which keep freed memory, nor for valgrind, whose own memory it would be.
 */
#include "support.h"

#include <stdlib.h>
#include <unistd.h>

#include "packed.h"

enum { KEPT = 1024, RSS_GROWTH_MAX = 8 * 1024 * 1024 };

static uint64_t message_count(void)
{
    const char *const text = getenv("EVZMQ_TEST_MESSAGES");
    const long count = text == NULL ? 0 : strtol(text, NULL, 10);

    return count > 0 ? (uint64_t)count : 200000;
}

/* The last small messages that came, as a program keeps them that works on some later. */
struct keeper {
    struct evzmq_message *messages[KEPT];
    uint64_t next;
};

static void read_and_keep(struct probe *p, struct evzmq_message *message)
{
    struct keeper *const keeper = p->arg;

    packed_read_sequence(p, message);
    if (evzmq_message_get_size(message) < 500) {
        struct evzmq_message **const place = &keeper->messages[keeper->next++ % KEPT];

        evzmq_message_free(*place);
        *place = evzmq_message_take(message);
        assert_non_null(*place);
    }
}

static void pump(struct fixture *f, struct probe *in, struct probe *out, uint64_t count)
{
    static const size_t sizes[] = {0, 10, 50, 300, 20, 3000, 100, 20000, 5, 700};

    for (uint64_t i = 0; i < count; i++) {
        const size_t size = sizes[i % (sizeof sizes / sizeof sizes[0])];

        assert_ok(packed_write(out->socket, out->sequence++, size));
        if (i % 100 == 99) {
            run_until(f, in->reads == out->sequence);
        }
    }
    run_until(f, in->reads == out->sequence);
}

static void check_flat(struct fixture *f, size_t pack_bytes)
{
    struct keeper keeper = {.next = 0};
    struct probe in = {.on_read = read_and_keep, .arg = &keeper};
    struct probe out = {0};
    void *push = NULL;
    void *pull = NULL;
    const uint64_t count = message_count();

    peer_pair(f, TRANSPORT_IPC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    packed_attach(f, &in, pull, 0);
    packed_attach(f, &out, push, 0);
    assert_ok(evzmq_socket_set_unpacking(in.socket, pack_bytes != 0));
    assert_ok(evzmq_socket_set_packing(out.socket, pack_bytes, 0));
    probe_enable(&in, EV_READ);
    pump(f, &in, &out, 50000);
    const long before = resident();
    const long live = allocations_live();
    for (uint64_t passed = 0; passed < count; passed += 50000) {
        pump(f, &in, &out, 50000);
        fixture_feed_watchdog(); /* It is for standing still. */
    }
    assert_in_range(allocations_live(), live - 64, live + 64);
    print_message("resident: %ld bytes before, %ld after %llu messages\n", before, resident(),
                  (unsigned long long)count);
    assert_true(resident() - before <= RSS_GROWTH_MAX);
    for (size_t i = 0; i < KEPT; i++) {
        evzmq_message_free(keeper.messages[i]);
    }
    probe_free(&in);
    probe_free(&out);
}

static void resident_memory_is_flat_however_many_messages_pass_and_small_ones_are_kept(void **state)
{
    check_flat(*state, 0);
}

static void resident_memory_is_flat_however_many_packed_records_pass(void **state)
{
    check_flat(*state, 65536);
}

static void resident_memory_is_flat_however_often_writes_are_refused(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    const uint64_t count = message_count();
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    probe_attach(f, &p, push, 0);
    while (evzmq_socket_write(p.socket, "x", 1) == 0) {
    }
    const long before = resident();
    const long made = allocations_made();
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(evzmq_socket_write(p.socket, "x", 1), -1);
    }
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(probe_stats(&p).writes_refused, count + 1);
    print_message("resident: %ld bytes before, %ld after %llu refusals, %ld allocations\n", before,
                  resident(), (unsigned long long)count, allocations_made() - made);
    assert_true(resident() - before <= RSS_GROWTH_MAX);
    probe_free(&p);
}

/* One life of a socket, with something received, something queued and its ZeroMQ socket closed. */
static void live_and_end(struct fixture *f)
{
    void *const push = zmq_socket(f->context, ZMQ_PUSH);
    void *const pull = zmq_socket(f->context, ZMQ_PULL);
    struct probe in = {0};
    struct probe out = {0};

    assert_int_equal(zmq_bind(pull, "inproc://life"), 0);
    assert_int_equal(zmq_connect(push, "inproc://life"), 0);
    probe_attach(f, &in, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    probe_attach(f, &out, push, EVZMQ_OPT_CLOSE_ON_FREE);
    probe_enable(&in, EV_READ);
    assert_ok(evzmq_socket_write(out.socket, "hello", 5));
    run_until(f, in.reads == 1);
    assert_ok(evzmq_socket_disable(out.socket, EV_WRITE));
    assert_ok(evzmq_socket_write(out.socket, "unsent", 6));
    assert_int_equal(zmq_unbind(pull, "inproc://life"), 0);
    probe_free(&out);
    probe_free(&in);
}

/* libzmq's reaper closes sockets in its own time: it may have some before it yet. */
static void run_until_descriptors(int most)
{
    while (count_descriptors() > most) {
        (void)zmq_poll(NULL, 0, 1);
    }
}

static void resident_memory_and_descriptors_are_flat_however_many_sockets_come_and_go(void **state)
{
    struct fixture *const f = *state;
    const uint64_t count = message_count() / 100;
    int descriptors = 0;
    long live = 0;
    long before = 0;

    for (uint64_t i = 0; i < 500 + count; i++) {
        if (i == 500) {
            descriptors = count_descriptors() + 16;
            run_until_descriptors(descriptors);
            before = resident();
            live = allocations_live();
        }
        live_and_end(f);
        if (i % 100 == 0) {
            run_until_descriptors(i < 500 ? 1024 : descriptors);
            fixture_feed_watchdog(); /* It is for standing still. */
        }
    }
    run_until_descriptors(descriptors);
    assert_int_equal(allocations_live(), live);
    print_message("resident: %ld bytes before, %ld after %llu lives\n", before, resident(),
                  (unsigned long long)count);
    assert_true(resident() - before <= RSS_GROWTH_MAX);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(resident_memory_is_flat_however_many_messages_pass_and_small_ones_are_kept),
        claim(resident_memory_is_flat_however_many_packed_records_pass),
        claim(resident_memory_is_flat_however_often_writes_are_refused),
        claim(resident_memory_and_descriptors_are_flat_however_many_sockets_come_and_go),
    };

    return run_claims(tests);
}
