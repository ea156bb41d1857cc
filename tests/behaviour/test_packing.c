/**
 * @file test_packing.c
 * Values written into frames: when a frame goes, in which order, and what counts for what.
 */
#include "support.h"

#include <string.h>

#include <event2/event.h>

#include <evzmq/msgpack.h>
#include <evzmq/records.h>

#include "child.h"
#include "packed.h"

/* A packing PUSH adapter and a plain PULL. */
static void open_pair(struct fixture *f, enum transport transport, struct probe *p, void **out_pull,
                      size_t bytes_max, unsigned delay_usec)
{
    void *push = NULL;
    peer_pair(f, transport, ZMQ_PULL, out_pull, ZMQ_PUSH, &push);
    packed_attach(f, p, push, 0);
    assert_ok(evzmq_socket_set_packing(p->socket, bytes_max, delay_usec));
}

static void write_records(struct probe *p, uint64_t first, uint64_t count, size_t text_size)
{
    for (uint64_t i = 0; i < count; i++) {
        assert_ok(packed_write(p->socket, first + i, text_size));
    }
}

static void records_of_one_turn_are_one_message(void **state)
{
    struct fixture *const f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct probe p = {0};
        void *pull = NULL;
        open_pair(f, (enum transport)transport, &p, &pull, 65536, 0);
        write_records(&p, 0, 100, 10);
        assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 100);
        fixture_turn(f);
        assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
        assert_int_equal(packed_pump_frame(f, pull, 0), 100);
        write_records(&p, 100, 1, 10);
        fixture_turn(f);
        assert_int_equal(packed_pump_frame(f, pull, 100), 1);
        const struct evzmq_socket_stats stats = probe_stats(&p);
        assert_int_equal(stats.messages_out, 101);
        probe_free(&p);
    }
}

static void a_frame_of_one_record_is_the_message_that_goes_without_packing(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    unsigned char bytes[128];
    char got[128];
    const size_t size = packed_encode(7, 20, bytes, sizeof(bytes));
    open_pair(f, TRANSPORT_INPROC, &p, &pull, 65536, 0);
    write_records(&p, 7, 1, 20);
    fixture_turn(f);
    assert_int_equal(zmq_recv(pull, got, sizeof(got), 0), size);
    assert_memory_equal(got, bytes, size);
    probe_free(&p);
}

static void a_full_frame_goes_at_once(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    const size_t sizes[] = {1000, 40000}; /* below and above what is copied */
    for (size_t i = 0; i < 2; i++) {
        open_pair(f, TRANSPORT_INPROC, &p, &pull, sizes[i], 1000000);
        uint64_t next = 0;
        while (probe_stats(&p).messages_out == 0) {
            write_records(&p, next++, 1, 90);
        }
        const size_t count = packed_pump_frame(f, pull, 0);
        assert_int_equal(count, next - 1);
        assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 1);
        probe_free(&p);
    }
}

/* The room that is left after two records is what a third needs, or a byte less or more. */
static void a_record_goes_into_a_frame_exactly_when_it_fits(void **state)
{
    struct fixture *const f = *state;
    unsigned char bytes[128];
    const size_t size = packed_encode(0, 20, bytes, sizeof(bytes));
    for (size_t i = 0; i < 3; i++) {
        struct probe p = {0};
        void *pull = NULL;
        open_pair(f, TRANSPORT_INPROC, &p, &pull, 3 * size - 1 + i, 1000000);
        write_records(&p, 0, 3, 20);
        assert_ok(evzmq_socket_flush(p.socket));
        assert_int_equal(packed_pump_frame(f, pull, 0), i == 0 ? 2 : 3);
        probe_free(&p);
    }
}

static void a_record_larger_than_a_frame_goes_in_order_as_one_of_its_own(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    open_pair(f, TRANSPORT_INPROC, &p, &pull, 1000, 1000000);
    write_records(&p, 0, 3, 10);
    write_records(&p, 3, 1, 5000);
    write_records(&p, 4, 1, 50000);
    write_records(&p, 5, 2, 10);
    assert_int_equal(packed_pump_frame(f, pull, 0), 3);
    assert_int_equal(packed_pump_frame(f, pull, 3), 1);
    assert_int_equal(packed_pump_frame(f, pull, 4), 1);
    assert_ok(evzmq_socket_flush(p.socket));
    assert_int_equal(packed_pump_frame(f, pull, 5), 2);
    probe_free(&p);
}

static void with_a_delay_a_frame_waits_for_it(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    open_pair(f, TRANSPORT_INPROC, &p, &pull, 65536, 20000);
    write_records(&p, 0, 1, 10);
    fixture_glance(f);
    fixture_glance(f);
    write_records(&p, 1, 1, 10);
    assert_int_equal(packed_pump_frame(f, pull, 0), 2);
    probe_free(&p);
}

static void flush_sends_the_open_frame_and_does_nothing_without_one(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    open_pair(f, TRANSPORT_INPROC, &p, &pull, 65536, 1000000);
    assert_ok(evzmq_socket_flush(p.socket));
    write_records(&p, 0, 5, 10);
    assert_ok(evzmq_socket_flush(p.socket));
    assert_ok(evzmq_socket_flush(p.socket));
    assert_int_equal(packed_pump_frame(f, pull, 0), 5);
    assert_int_equal(probe_stats(&p).messages_out, 5);
    assert_errno(evzmq_socket_flush(NULL), EINVAL);
    probe_free(&p);
}

static void what_is_not_packed_keeps_its_place(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    char text[64];
    const struct evzmq_bytes parts[] = {{"a", 1}, {"b", 1}};
    open_pair(f, TRANSPORT_INPROC, &p, &pull, 65536, 1000000);
    write_records(&p, 0, 2, 10);
    assert_ok(evzmq_socket_write(p.socket, "plain", 5));
    write_records(&p, 2, 3, 10);
    assert_ok(evzmq_socket_write_parts(p.socket, parts, 2));
    write_records(&p, 5, 1, 10);
    struct evzmq_message *const message = evzmq_message_new();
    assert_ok(evzmq_message_add(message, "owned", 5));
    assert_ok(evzmq_socket_write_message(p.socket, message));
    struct evzmq_poster *const poster = evzmq_poster_new(p.socket, 0, 0);
    write_records(&p, 6, 1, 10);
    assert_ok(evzmq_poster_post(poster, "posted", 6));
    run_until(f, probe_stats(&p).messages_out == 11);
    write_records(&p, 7, 1, 10);
    assert_ok(evzmq_socket_flush(p.socket));

    assert_int_equal(packed_pump_frame(f, pull, 0), 2);
    (void)peer_recv_text(pull, text, sizeof(text));
    assert_string_equal(text, "plain");
    assert_int_equal(packed_pump_frame(f, pull, 2), 3);
    (void)peer_recv_text(pull, text, sizeof(text));
    assert_string_equal(text, "a|b");
    assert_int_equal(packed_pump_frame(f, pull, 5), 1);
    (void)peer_recv_text(pull, text, sizeof(text));
    assert_string_equal(text, "owned");
    assert_int_equal(packed_pump_frame(f, pull, 6), 1);
    (void)peer_recv_text(pull, text, sizeof(text));
    assert_string_equal(text, "posted");
    assert_int_equal(packed_pump_frame(f, pull, 7), 1);
    evzmq_poster_free(poster);
    probe_free(&p);
}

static void a_post_for_which_the_open_frame_leaves_no_room_stays_in_its_poster(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    char text[16];
    open_pair(f, TRANSPORT_INPROC, &p, &pull, 65536, 1000000);
    assert_ok(evzmq_socket_set_output_limit(p.socket, 1, 0));
    assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
    struct evzmq_poster *const poster = evzmq_poster_new(p.socket, 0, 0);
    write_records(&p, 0, 2, 10);
    assert_ok(evzmq_poster_post(poster, "posted", 6));
    fixture_run_for(f, 20);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 2);
    assert_int_equal(evzmq_poster_get_queued(poster, NULL), 1);
    assert_int_equal(probe_stats(&p).writes_refused, 0);
    assert_ok(evzmq_socket_enable(p.socket, EV_WRITE));
    assert_int_equal(packed_pump_frame(f, pull, 0), 2);
    pump_recv_text(f, pull, text, sizeof(text));
    assert_string_equal(text, "posted");
    evzmq_poster_free(poster);
    probe_free(&p);
}

static void an_encoding_that_fails_leaves_the_frame_as_it_was(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    const struct evzmq_record_stream_chunk bad = {.id = {NULL, 5}};
    open_pair(f, TRANSPORT_INPROC, &p, &pull, 65536, 0);
    assert_errno(evzmq_socket_write_value(p.socket, &bad), EINVAL);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
    write_records(&p, 0, 2, 10);
    assert_errno(evzmq_socket_write_value(p.socket, &bad), EINVAL);
    assert_errno(evzmq_socket_write_value(p.socket, NULL), EINVAL);
    write_records(&p, 2, 2, 10);
    assert_int_equal(packed_pump_frame(f, pull, 0), 4);
    probe_free(&p);
}

static void turning_it_off_or_another_codec_sends_the_open_frame(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    struct evzmq_codec *const tree = evzmq_msgpack_codec_new(NULL);
    open_pair(f, TRANSPORT_INPROC, &p, &pull, 65536, 1000000);
    write_records(&p, 0, 2, 10);
    assert_ok(evzmq_socket_set_packing(p.socket, 0, 0));
    assert_int_equal(packed_pump_frame(f, pull, 0), 2);
    write_records(&p, 2, 1, 10);
    write_records(&p, 3, 1, 10);
    assert_int_equal(packed_pump_frame(f, pull, 2), 1);
    assert_int_equal(packed_pump_frame(f, pull, 3), 1);
    assert_ok(evzmq_socket_set_packing(p.socket, 30000, 1000000));
    write_records(&p, 4, 2, 10);
    assert_errno(evzmq_socket_set_codec(p.socket, NULL), ENOTSUP);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 2);
    assert_ok(evzmq_socket_set_codec(p.socket, tree));
    assert_int_equal(packed_pump_frame(f, pull, 4), 2);
    evzmq_codec_free(tree);
    probe_free(&p);
}

static void with_writing_disabled_frames_are_held(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    char text[16];
    open_pair(f, TRANSPORT_INPROC, &p, &pull, 1000, 0);
    assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
    write_records(&p, 0, 50, 10);
    fixture_run_for(f, 20);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 50);
    assert_false(peer_try_recv_text(pull, text, sizeof(text)));
    assert_ok(evzmq_socket_enable(p.socket, EV_WRITE));
    uint64_t next = 0;
    while (next < 50) {
        next += packed_pump_frame(f, pull, next);
    }
    assert_int_equal(next, 50);
    probe_free(&p);
}

static void beyond_the_output_limit_writes_are_refused_and_nothing_is_lost(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = peer_new(f, ZMQ_PUSH);
    char endpoint[ENDPOINT_SIZE];
    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    packed_attach(f, &p, push, 0);
    assert_ok(evzmq_socket_set_packing(p.socket, 10000, 0));
    assert_ok(evzmq_socket_set_output_limit(p.socket, 0, 100000));
    uint64_t accepted = 0;
    while (packed_write(p.socket, accepted, 50) == 0) {
        accepted++;
    }
    assert_int_equal(errno, EAGAIN);
    size_t bytes = 0;
    assert_int_equal(evzmq_socket_get_queued(p.socket, &bytes), accepted);
    assert_in_range(bytes, 90000, 100000);
    assert_int_equal(probe_stats(&p).writes_refused, 1);
    fixture_glance(f);
    assert_errno(packed_write(p.socket, accepted, 50), EAGAIN);
    void *const pull = peer_new(f, ZMQ_PULL);
    peer_connect(pull, endpoint);
    uint64_t next = 0;
    while (next < accepted) {
        next += packed_pump_frame(f, pull, next);
    }
    run_until(f, p.writes == 1); /* whoever was refused is told */
    assert_ok(packed_write(p.socket, next, 50));
    assert_int_equal(packed_pump_frame(f, pull, next), 1);
    assert_int_equal(probe_stats(&p).messages_out, accepted + 1);
    probe_free(&p);
}

static void the_messages_of_the_output_limit_are_frames(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = peer_new(f, ZMQ_PUSH);
    char endpoint[ENDPOINT_SIZE];
    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    packed_attach(f, &p, push, 0);
    assert_ok(evzmq_socket_set_packing(p.socket, 1000, 0));
    assert_ok(evzmq_socket_set_output_limit(p.socket, 3, 0));
    uint64_t accepted = 0;
    while (packed_write(p.socket, accepted, 10) == 0) {
        accepted++;
    }
    assert_int_equal(errno, EAGAIN);
    assert_in_range(accepted, 3 * 20, 3 * 50);
    probe_free(&p);
}

/* Counts what the loop does while frames wait. */
static void what_libzmq_holds_is_bounded_in_bytes_and_the_wait_costs_nothing(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    enum { FRAME = 100000, FRAMES = 50 };
    open_pair(f, TRANSPORT_INPROC, &p, &pull, FRAME, 0);
    uint64_t written = 0;
    while (probe_stats(&p).bytes_out + 0 < (uint64_t)FRAMES * FRAME) {
        size_t bytes = 0;
        assert_ok(packed_write(p.socket, written++, 1000));
        (void)evzmq_socket_get_queued(p.socket, &bytes);
        if (bytes > (size_t)10 * FRAME) {
            break;
        }
    }
    const uint64_t in_flight = probe_stats(&p).bytes_out;
    assert_in_range(in_flight, EVZMQ_PACKING_IN_FLIGHT_MIN / 2, EVZMQ_PACKING_IN_FLIGHT_MIN);
    fixture_run_for(f, 20);
    const uint64_t wakeups = probe_wakeups(&p);
    fixture_run_for(f, 50);
    assert_in_range(probe_wakeups(&p) - wakeups, 0, 2);
    uint64_t next = 0;
    while (next < written) {
        next += packed_pump_frame(f, pull, next);
    }
    assert_int_equal(next, written);
    probe_free(&p);
}

static void types_that_cannot_pack_say_so(void **state)
{
    struct fixture *const f = *state;
    static const struct {
        int type;
        int packs;
        int unpacks;
    } types[] = {
        {ZMQ_PAIR, 1, 1}, {ZMQ_PUSH, 1, 0}, {ZMQ_DEALER, 1, 1}, {ZMQ_PUB, 1, 0},
        {ZMQ_XPUB, 1, 0}, {ZMQ_PULL, 0, 1}, {ZMQ_SUB, 0, 1},    {ZMQ_XSUB, 0, 1},
        {ZMQ_REQ, 0, 0},  {ZMQ_REP, 0, 0},  {ZMQ_ROUTER, 0, 1},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct probe p = {0};
        packed_attach(f, &p, peer_new(f, types[i].type), 0);
        if (types[i].packs) {
            assert_ok(evzmq_socket_set_packing(p.socket, 1000, 0));
        } else {
            assert_errno(evzmq_socket_set_packing(p.socket, 1000, 0), ENOTSUP);
        }
        if (types[i].unpacks) {
            assert_ok(evzmq_socket_set_unpacking(p.socket, 1));
        } else {
            assert_errno(evzmq_socket_set_unpacking(p.socket, 1), ENOTSUP);
        }
        assert_ok(evzmq_socket_set_packing(p.socket, 0, 0));
        assert_ok(evzmq_socket_set_unpacking(p.socket, 0));
        probe_free(&p);
    }
    struct probe stream = {0};
    probe_attach(f, &stream, peer_new(f, ZMQ_STREAM), 0);
    assert_errno(evzmq_socket_set_packing(stream.socket, 1000, 0), ENOTSUP);
    assert_errno(evzmq_socket_set_unpacking(stream.socket, 1), ENOTSUP);
    probe_free(&stream);
}

static void the_raw_codec_and_wrong_sizes_are_refused(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    probe_attach(f, &p, peer_new(f, ZMQ_PAIR), 0);
    assert_errno(evzmq_socket_set_packing(p.socket, 1000, 0), ENOTSUP);
    assert_errno(evzmq_socket_set_unpacking(p.socket, 1), ENOTSUP);
    assert_errno(evzmq_socket_set_packing(p.socket, EVZMQ_PACKING_BYTES_MAX + 1, 0), EINVAL);
    assert_errno(evzmq_socket_set_packing(NULL, 1000, 0), EINVAL);
    assert_errno(evzmq_socket_set_unpacking(NULL, 1), EINVAL);
    probe_free(&p);
}

struct ending {
    int done;
    uint64_t handed_over;
    uint64_t not_handed_over;
};

static void note_end(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                     void *arg)
{
    struct ending *const ending = arg;
    (void)socket;
    ending->done++;
    ending->handed_over = handed_over;
    ending->not_handed_over = not_handed_over;
}

static void shutdown_sends_the_open_frame_and_counts_records(void **state)
{
    struct fixture *const f = *state;
    struct ending ending = {0};
    struct probe p = {0};
    void *pull = NULL;
    open_pair(f, TRANSPORT_INPROC, &p, &pull, 65536, 1000000);
    write_records(&p, 0, 30, 10);
    assert_ok(evzmq_socket_shutdown(p.socket, NULL, note_end, &ending));
    assert_errno(packed_write(p.socket, 30, 10), ESHUTDOWN);
    assert_errno(evzmq_socket_set_packing(p.socket, 1000, 0), ESHUTDOWN);
    run_until(f, ending.done);
    assert_int_equal(ending.handed_over, 30);
    assert_int_equal(ending.not_handed_over, 0);
    assert_int_equal(packed_pump_frame(f, pull, 0), 30);
    probe_free(&p);
}

static void what_a_shutdown_cannot_hand_over_is_counted_in_records(void **state)
{
    struct fixture *const f = *state;
    const struct timeval none = {0, 0};
    struct ending ending = {0};
    struct probe p = {0};
    packed_attach(f, &p, peer_new(f, ZMQ_PUSH), 0);
    assert_ok(evzmq_socket_set_packing(p.socket, 1000, 0));
    write_records(&p, 0, 100, 10);
    assert_ok(evzmq_socket_shutdown(p.socket, &none, note_end, &ending));
    run_until(f, ending.done);
    assert_int_equal(ending.handed_over, 0);
    assert_int_equal(ending.not_handed_over, 100);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 100);
    probe_free(&p);
}

static void free_drops_the_open_frame(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    char text[16];
    open_pair(f, TRANSPORT_INPROC, &p, &pull, 65536, 0);
    write_records(&p, 0, 30, 10);
    probe_free(&p);
    fixture_run_for(f, 10);
    assert_false(peer_try_recv_text(pull, text, sizeof(text)));
}

/* The peer has the frames when socket, adapter and base are gone. */
static void frames_outlive_everything_else(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    void *push = NULL;
    struct event_base *const base = f->base;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    f->base = event_base_new();
    packed_attach(f, &p, push, 0);
    assert_ok(evzmq_socket_set_packing(p.socket, 20000, 0));
    write_records(&p, 0, 2000, 20);
    assert_ok(evzmq_socket_flush(p.socket));
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
    probe_free(&p);
    event_base_free(f->base);
    f->base = base;
    uint64_t next = 0;
    while (next < 2000) {
        next += packed_pump_frame(f, pull, next);
    }
    assert_int_equal(next, 2000);
}

static void write_more(struct probe *p, struct evzmq_message *message)
{
    (void)message;
    for (uint64_t i = 0; i < 10; i++) {
        assert_ok(packed_write(p->socket, p->sequence++, 10));
    }
}

static void what_callbacks_write_goes_at_the_end_of_their_pass(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = write_more};
    unsigned char bytes[128];
    const size_t size = packed_encode(7, 20, bytes, sizeof(bytes));
    void *pair = NULL;
    void *peer = NULL;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PAIR, &pair, ZMQ_PAIR, &peer);
    packed_attach(f, &p, pair, 0);
    assert_ok(evzmq_socket_set_packing(p.socket, 65536, 0));
    probe_enable(&p, EV_READ);
    fixture_run_for(f, 10);
    for (int i = 0; i < 3; i++) {
        peer_send(peer, bytes, size);
    }
    while (p.reads == 0) {
        fixture_turn(f);
    }
    /* In the very turn that read them. */
    assert_int_equal(probe_stats(&p).messages_out, p.sequence);
    probe_free(&p);
}

static void a_child_writes_nothing_and_frees_all(void *arg)
{
    struct probe *const p = arg;
    const int descriptors = count_descriptors();
    child_check(packed_write(p->socket, 0, 10) == -1 && errno == ECHILD);
    child_check(evzmq_socket_flush(p->socket) == -1 && errno == ECHILD);
    child_check(evzmq_socket_set_packing(p->socket, 0, 0) == -1 && errno == ECHILD);
    child_check(evzmq_socket_set_unpacking(p->socket, 1) == -1 && errno == ECHILD);
    struct event_base *const base = evzmq_socket_get_base(p->socket);
    evzmq_socket_free(p->socket);
    child_check(event_reinit(base) == 0);
    child_check(evzmq_after_fork(base) == 0);
    child_check(descriptors < 0 ||
                count_descriptors() == descriptors - 1); /* What woke the loop. */
    child_check(event_base_loop(base, EVLOOP_NONBLOCK) >= 0);
}

static void a_forked_child_leaves_the_parents_frame_alone(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    open_pair(f, TRANSPORT_IPC, &p, &pull, 20000, 0);
    write_records(&p, 0, 1000, 20);
    child_run(a_child_writes_nothing_and_frees_all, &p);
    write_records(&p, 1000, 10, 20);
    uint64_t next = 0;
    while (next < 1010) {
        next += packed_pump_frame(f, pull, next);
    }
    assert_int_equal(next, 1010);
    probe_free(&p);
}

static void a_terminated_context_ends_packing_too(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *const context = zmq_ctx_new();
    void *const push = zmq_socket(context, ZMQ_PUSH);
    packed_attach(f, &p, push, 0);
    assert_ok(evzmq_socket_set_packing(p.socket, 20000, 10000000));
    write_records(&p, 0, 10, 20);
    assert_int_equal(zmq_ctx_shutdown(context), 0);
    run_until(f, p.events[EVZMQ_EVENT_TERMINATED] == 1);
    assert_errno(packed_write(p.socket, 10, 20), ETERM);
    assert_errno(evzmq_socket_flush(p.socket), ETERM);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 10);
    probe_free(&p);
    zmq_close(push);
    zmq_ctx_term(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(records_of_one_turn_are_one_message),
        claim(a_frame_of_one_record_is_the_message_that_goes_without_packing),
        claim(a_full_frame_goes_at_once),
        claim(a_record_goes_into_a_frame_exactly_when_it_fits),
        claim(a_record_larger_than_a_frame_goes_in_order_as_one_of_its_own),
        claim(with_a_delay_a_frame_waits_for_it),
        claim(flush_sends_the_open_frame_and_does_nothing_without_one),
        claim(what_is_not_packed_keeps_its_place),
        claim(a_post_for_which_the_open_frame_leaves_no_room_stays_in_its_poster),
        claim(an_encoding_that_fails_leaves_the_frame_as_it_was),
        claim(turning_it_off_or_another_codec_sends_the_open_frame),
        claim(with_writing_disabled_frames_are_held),
        claim(beyond_the_output_limit_writes_are_refused_and_nothing_is_lost),
        claim(the_messages_of_the_output_limit_are_frames),
        claim(what_libzmq_holds_is_bounded_in_bytes_and_the_wait_costs_nothing),
        claim(types_that_cannot_pack_say_so),
        claim(the_raw_codec_and_wrong_sizes_are_refused),
        claim(shutdown_sends_the_open_frame_and_counts_records),
        claim(what_a_shutdown_cannot_hand_over_is_counted_in_records),
        claim(free_drops_the_open_frame),
        claim(frames_outlive_everything_else),
        claim(what_callbacks_write_goes_at_the_end_of_their_pass),
        claim(a_forked_child_leaves_the_parents_frame_alone),
        claim(a_terminated_context_ends_packing_too),
    };
    return run_claims(tests);
}
