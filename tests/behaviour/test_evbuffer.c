/**
 * @file test_evbuffer.c
 * Messages and evbuffers: bytes go both ways, large ones uncopied, and are freed exactly once.
 */
#include "support.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

static atomic_int freed;

static void count_free(void *data, void *arg)
{
    (void)atomic_fetch_add(&freed, 1);
    free(data);
    (void)arg;
}

static void count_cleanup(const void *data, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    (void)atomic_fetch_add(&freed, 1);
    free((void *)(uintptr_t)data);
}

static void *pattern(size_t size)
{
    void *const bytes = malloc(size);

    assert_non_null(bytes);
    fill_pattern(bytes, size, 5);
    return bytes;
}

static void wait_until_freed(int count)
{
    while (atomic_load(&freed) < count) { /* An I/O thread does it; the watchdog is there. */
        (void)zmq_poll(NULL, 0, 1);
    }
    assert_int_equal(atomic_load(&freed), count);
}

static void open_push(struct fixture *f, struct probe *p, enum transport transport, void **out_pull)
{
    void *push = NULL;

    peer_pair(f, transport, ZMQ_PULL, out_pull, ZMQ_PUSH, &push);
    probe_attach(f, p, push, 0);
}

static void expect_pattern(struct fixture *f, void *pull, size_t size)
{
    char *const text = malloc(size + 2);

    assert_non_null(text);
    pump_recv_text(f, pull, text, size + 2);
    assert_pattern(text, size, 5);
    free(text);
}

static void lent_bytes_are_sent_and_their_free_function_runs_once(void **state)
{
    struct fixture *const f = *state;
    static const size_t sizes[] = {1, 100, 8191, 8192, 1000000};

    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        for (size_t i = 0; i < 5; i++) {
            struct probe p = {0};
            struct evzmq_message *const message = evzmq_message_new();
            void *pull = NULL;

            atomic_store(&freed, 0);
            open_push(f, &p, transport, &pull);
            assert_ok(evzmq_message_add_reference(message, pattern(sizes[i]), sizes[i], count_free,
                                                  NULL));
            assert_ok(evzmq_socket_write_message(p.socket, message));
            expect_pattern(f, pull, sizes[i]);
            wait_until_freed(1);
            probe_free(&p);
        }
    }
}

static void the_free_function_of_a_message_that_is_never_sent_runs_once_too(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    struct evzmq_message *message = evzmq_message_new();

    atomic_store(&freed, 0);
    assert_ok(evzmq_message_add_reference(message, pattern(10000), 10000, count_free, NULL));
    evzmq_message_free(message);
    assert_int_equal(atomic_load(&freed), 1);

    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    probe_attach(f, &p, push, 0);
    message = evzmq_message_new();
    assert_ok(evzmq_message_add_reference(message, pattern(10000), 10000, count_free, NULL));
    assert_ok(evzmq_socket_write_message(p.socket, message));
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 1);
    probe_free(&p); /* It was still queued. */
    wait_until_freed(2);
}

static void an_evbuffer_is_sent_as_one_part_and_left_empty(void **state)
{
    struct fixture *const f = *state;
    static const size_t sizes[] = {0, 1, 4000, 8191, 8192, 8193, 500000};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct probe p = {0};
        struct evbuffer *const buffer = evbuffer_new();
        struct evzmq_message *const message = evzmq_message_new();
        void *const bytes = pattern(sizes[i] + 1);
        void *pull = NULL;

        open_push(f, &p, TRANSPORT_IPC, &pull);
        assert_int_equal(evbuffer_add(buffer, bytes, sizes[i]), 0);
        free(bytes);
        assert_ok(evzmq_message_add(message, "head", 4));
        assert_ok(evzmq_message_add_evbuffer(message, buffer));
        assert_int_equal(evbuffer_get_length(buffer), 0);
        assert_int_equal(evzmq_message_get_part_count(message), 2);
        assert_int_equal(evzmq_message_get_size(message), sizes[i] + 4);
        evbuffer_free(buffer);
        assert_ok(evzmq_socket_write_message(p.socket, message));
        {
            char *const text = malloc(sizes[i] + 16);

            assert_non_null(text);
            pump_recv_text(f, pull, text, sizes[i] + 16);
            assert_memory_equal(text, "head|", 5);
            assert_pattern(text + 5, sizes[i], 5);
            free(text);
        }
        probe_free(&p);
    }
}

static void memory_referenced_by_an_evbuffer_is_not_copied_and_is_released_once(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evbuffer *const buffer = evbuffer_new();
    struct evzmq_message *const message = evzmq_message_new();
    void *const bytes = pattern(100000);
    size_t size = 0;
    void *pull = NULL;

    atomic_store(&freed, 0);
    open_push(f, &p, TRANSPORT_IPC, &pull);
    assert_int_equal(evbuffer_add_reference(buffer, bytes, 100000, count_cleanup, NULL), 0);
    assert_ok(evzmq_message_add_evbuffer(message, buffer));
    evbuffer_free(buffer);
    assert_int_equal(atomic_load(&freed), 0);
    assert_ptr_equal(evzmq_message_get_part(message, 0, &size), bytes);
    assert_int_equal(size, 100000);
    assert_ok(evzmq_socket_write_message(p.socket, message));
    expect_pattern(f, pull, 100000);
    wait_until_freed(1);
    probe_free(&p);
}

static void an_evbuffer_of_many_pieces_becomes_one_part(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evbuffer *const buffer = evbuffer_new();
    struct evzmq_message *const message = evzmq_message_new();
    void *pull = NULL;

    atomic_store(&freed, 0);
    open_push(f, &p, TRANSPORT_INPROC, &pull);
    {
        char *const all = pattern(90000);

        for (size_t i = 0; i < 90000; i += 30000) {
            void *const piece = malloc(30000);

            assert_non_null(piece);
            memcpy(piece, all + i, 30000);
            assert_int_equal(evbuffer_add_reference(buffer, piece, 30000, count_cleanup, NULL), 0);
        }
        free(all);
    }
    assert_ok(evzmq_message_add_evbuffer(message, buffer));
    evbuffer_free(buffer);
    assert_ok(evzmq_socket_write_message(p.socket, message));
    expect_pattern(f, pull, 90000);
    wait_until_freed(3);
    probe_free(&p);
}

static void a_frozen_evbuffer_is_refused_and_stays_as_it_is(void **state)
{
    struct evbuffer *const buffer = evbuffer_new();
    struct evzmq_message *const message = evzmq_message_new();

    (void)state;
    assert_int_equal(evbuffer_add(buffer, "bytes", 5), 0);
    assert_int_equal(evbuffer_freeze(buffer, 1), 0);
    assert_errno(evzmq_message_add_evbuffer(message, buffer), EBUSY);
    assert_int_equal(evbuffer_get_length(buffer), 5);
    assert_int_equal(evzmq_message_get_part_count(message), 0);
    evbuffer_free(buffer);
    evzmq_message_free(message);
}

static void a_part_for_a_frozen_evbuffer_is_refused_and_leaves_it_as_it_is(void **state)
{
    static const size_t sizes[] = {1, 8191, 8192, 100000};
    struct evbuffer *const buffer = evbuffer_new();
    struct evzmq_message *const message = evzmq_message_new();

    (void)state;
    assert_int_equal(evbuffer_add(buffer, "bytes", 5), 0);
    assert_int_equal(evbuffer_freeze(buffer, 0), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *const bytes = pattern(sizes[i]);

        assert_ok(evzmq_message_add(message, bytes, sizes[i]));
        free(bytes);
        assert_errno(evzmq_message_part_to_evbuffer(message, i, buffer), EBUSY);
        assert_int_equal(evbuffer_get_length(buffer), 5);
    }
    evbuffer_free(buffer);
    evzmq_message_free(message);
}

/* Gives the last part of every message to the evbuffer in arg. */
static void read_to_evbuffer(struct probe *p, struct evzmq_message *message)
{
    const size_t last = evzmq_message_get_part_count(message) - 1;
    struct evbuffer *const out = p->arg;
    const size_t before = evbuffer_get_length(out);

    assert_errno(evzmq_message_part_to_evbuffer(message, last + 1, out), EINVAL);
    assert_int_equal(evbuffer_get_length(out), before);
    assert_ok(evzmq_message_part_to_evbuffer(message, last, out));
}

static void received_parts_live_in_evbuffers_longer_than_their_socket(void **state)
{
    struct fixture *const f = *state;
    static const size_t sizes[] = {0, 1, 100, 8191, 8192, 8193, 300000};

    for (int mode = EVZMQ_RECEIVE_AUTO; mode <= EVZMQ_RECEIVE_OWNED; mode++) {
        struct evbuffer *const out = evbuffer_new();
        struct probe p = {.on_read = read_to_evbuffer, .arg = out};
        void *pull = NULL;
        void *push = NULL;

        peer_pair(f, TRANSPORT_IPC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        probe_attach(f, &p, pull, 0);
        assert_ok(evzmq_socket_set_receive_mode(p.socket, (enum evzmq_receive_mode)mode));
        probe_enable(&p, EV_READ);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            void *const bytes = pattern(sizes[i] + 1);

            assert_int_equal(zmq_send(push, "head", 4, ZMQ_SNDMORE), 4);
            peer_send(push, bytes, sizes[i]);
            free(bytes);
        }
        run_until(f, p.reads == sizeof sizes / sizeof sizes[0]);
        probe_free(&p);
        peer_close(f, pull);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            if (sizes[i] > 0) {
                assert_pattern(evbuffer_pullup(out, (ev_ssize_t)sizes[i]), sizes[i], 5);
                assert_int_equal(evbuffer_drain(out, sizes[i]), 0);
            }
        }
        assert_int_equal(evbuffer_get_length(out), 0);
        evbuffer_free(out);
    }
}

struct pointers {
    struct evbuffer *out;
    const void *part;
};

static void read_and_compare(struct probe *p, struct evzmq_message *message)
{
    struct pointers *const pointers = p->arg;

    assert_ok(evzmq_message_part_to_evbuffer(message, 0, pointers->out));
    pointers->part = evzmq_message_get_part(message, 0, NULL);
}

static void a_large_part_received_in_place_is_shared_with_the_evbuffer(void **state)
{
    struct fixture *const f = *state;
    struct pointers pointers = {evbuffer_new(), NULL};
    struct probe p = {.on_read = read_and_compare, .arg = &pointers};
    struct evbuffer_iovec extent = {NULL, 0};
    void *const bytes = pattern(100000);
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_IPC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    assert_ok(evzmq_socket_set_receive_mode(p.socket, EVZMQ_RECEIVE_IN_PLACE));
    probe_enable(&p, EV_READ);
    peer_send(push, bytes, 100000);
    free(bytes);
    run_until(f, p.reads == 1);
    assert_int_equal(evbuffer_peek(pointers.out, -1, NULL, &extent, 1), 1);
    assert_ptr_equal(extent.iov_base, pointers.part);
    assert_int_equal(extent.iov_len, 100000);
    assert_pattern(extent.iov_base, extent.iov_len, 5);
    evbuffer_free(pointers.out);
    probe_free(&p);
}

static void read_take_and_share(struct probe *p, struct evzmq_message *message)
{
    struct evzmq_message *const taken = evzmq_message_take(message);

    assert_non_null(taken);
    assert_ok(evzmq_message_part_to_evbuffer(taken, 0, p->arg));
    assert_ok(evzmq_message_part_to_evbuffer(message, 0, p->arg));
    assert_ok(evzmq_socket_write_message(p->socket, taken));
}

static void one_part_can_be_kept_shared_and_sent_on_at_once(void **state)
{
    struct fixture *const f = *state;
    struct evbuffer *const out = evbuffer_new();
    struct probe p = {.on_read = read_take_and_share, .arg = out};
    void *const bytes = pattern(50000);
    void *dealer = NULL;
    void *peer = NULL;

    peer_pair(f, TRANSPORT_IPC, ZMQ_DEALER, &dealer, ZMQ_DEALER, &peer);
    probe_attach(f, &p, dealer, 0);
    probe_enable(&p, EV_READ);
    peer_send(peer, bytes, 50000);
    expect_pattern(f, peer, 50000);
    probe_free(&p);
    assert_int_equal(evbuffer_get_length(out), 100000);
    assert_memory_equal(evbuffer_pullup(out, 50000), bytes, 50000);
    assert_int_equal(evbuffer_drain(out, 50000), 0);
    assert_memory_equal(evbuffer_pullup(out, 50000), bytes, 50000);
    evbuffer_free(out);
    free(bytes);
}

/* As the input of a bufferevent is: nobody else may append to it. */
static void an_evbuffer_with_a_frozen_end_keeps_its_bytes_when_memory_fails(void **state)
{
    enum { PARTS = 4, SIZE = 100000 }; /* One part more needs memory for their list. */
    struct evbuffer *const buffer = evbuffer_new();
    struct evzmq_message *const message = evzmq_message_new();
    void *const bytes = pattern(SIZE);

    (void)state;
    for (int i = 0; i < PARTS; i++) {
        assert_ok(evzmq_message_add(message, "x", 1));
    }
    assert_int_equal(evbuffer_add_reference(buffer, bytes, SIZE, NULL, NULL), 0);
    assert_int_equal(evbuffer_freeze(buffer, 0), 0);
    allocations_fail_at(1);
    assert_errno(evzmq_message_add_evbuffer(message, buffer), ENOMEM);
    allocations_fail_at(0);
    assert_int_equal(evzmq_message_get_part_count(message), PARTS);
    assert_int_equal(evbuffer_get_length(buffer), SIZE);
    assert_pattern(evbuffer_pullup(buffer, -1), SIZE, 5);
    evbuffer_free(buffer);
    evzmq_message_free(message);
    free(bytes);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(lent_bytes_are_sent_and_their_free_function_runs_once),
        claim(the_free_function_of_a_message_that_is_never_sent_runs_once_too),
        claim(an_evbuffer_is_sent_as_one_part_and_left_empty),
        claim(memory_referenced_by_an_evbuffer_is_not_copied_and_is_released_once),
        claim(an_evbuffer_of_many_pieces_becomes_one_part),
        claim(a_frozen_evbuffer_is_refused_and_stays_as_it_is),
        claim(a_part_for_a_frozen_evbuffer_is_refused_and_leaves_it_as_it_is),
        claim(received_parts_live_in_evbuffers_longer_than_their_socket),
        claim(a_large_part_received_in_place_is_shared_with_the_evbuffer),
        claim(one_part_can_be_kept_shared_and_sent_on_at_once),
        claim(an_evbuffer_with_a_frozen_end_keeps_its_bytes_when_memory_fails),
    };

    return run_claims(tests);
}
