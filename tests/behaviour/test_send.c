/**
 * @file test_send.c
 * Sending: at once or through the queue, its limits and marks, and what is refused.
 */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include <evzmq/msgpack.h>

/* A PUSH that is bound and has no peer: whatever is written is queued. */
static void open_lonely(struct fixture *f, struct probe *p, char endpoint[ENDPOINT_SIZE])
{
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    probe_attach(f, p, push, 0);
}

static void *join_pull(struct fixture *f, const char *endpoint)
{
    void *const pull = peer_new(f, ZMQ_PULL);

    peer_connect(pull, endpoint);
    return pull;
}

static void write_sequence(struct probe *p, uint64_t first, uint64_t count)
{
    for (uint64_t number = first; number < first + count; number++) {
        assert_ok(evzmq_socket_write(p->socket, &number, sizeof number));
    }
}

static void a_write_is_sent_at_once_when_zeromq_takes_it(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    char text[32];
    void *pull = NULL;

    open_lonely(f, &p, endpoint);
    pull = join_pull(f, endpoint);
    assert_ok(evzmq_socket_write(p.socket, "now", 3));
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
    (void)peer_recv_text(pull, text, sizeof text); /* The loop has not run at all. */
    assert_string_equal(text, "now");
    fixture_glance(f);
    assert_int_equal(p.writes, 0); /* It never was in the queue. */
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

static void writes_without_a_peer_are_queued_and_flushed_in_order_when_one_comes(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    size_t bytes = 0;

    open_lonely(f, &p, endpoint);
    write_sequence(&p, 0, 500);
    assert_int_equal(evzmq_socket_get_queued(p.socket, &bytes), 500);
    assert_int_equal(bytes, 4000);
    pump_recv_sequence(f, join_pull(f, endpoint), 0, 500);
    run_until(f, p.events[EVZMQ_EVENT_DRAINED] == 1);
    assert_int_equal(evzmq_socket_get_queued(p.socket, &bytes), 0);
    assert_int_equal(bytes, 0);
    assert_string_equal(p.log, "[write] [drained]");
    probe_free(&p);
}

static void queued_writes_reach_a_peer_that_comes_over_ipc_or_tcp(void **state)
{
    struct fixture *const f = *state;

    for (enum transport transport = TRANSPORT_IPC; transport < TRANSPORTS; transport++) {
        struct probe p = {0};
        char endpoint[ENDPOINT_SIZE];
        void *const push = peer_new(f, ZMQ_PUSH);

        peer_bind(f, push, transport, endpoint);
        probe_attach(f, &p, push, 0);
        write_sequence(&p, 0, 900);
        pump_recv_sequence(f, join_pull(f, endpoint), 0, 900);
        probe_free(&p);
    }
}

static void the_1001st_message_is_refused_by_default(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *pull = NULL;

    open_lonely(f, &p, endpoint);
    write_sequence(&p, 0, EVZMQ_OUTPUT_MESSAGES_DEFAULT);
    assert_errno(evzmq_socket_write(p.socket, "x", 1), EAGAIN);
    assert_errno(evzmq_socket_write(p.socket, "x", 1), EAGAIN);
    assert_int_equal(probe_stats(&p).writes_refused, 2);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), EVZMQ_OUTPUT_MESSAGES_DEFAULT);
    pull = join_pull(f, endpoint);
    pump_recv_sequence(f, pull, 0, EVZMQ_OUTPUT_MESSAGES_DEFAULT);
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    write_sequence(&p, 0, 1);
    pump_recv_sequence(f, pull, 0, 1); /* And nothing that was refused came. */
    probe_free(&p);
}

static void the_byte_limit_refuses_and_one_larger_message_passes_an_empty_queue(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    static char large[4096];
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint);
    assert_ok(evzmq_socket_set_output_limit(p.socket, 0, 1000));
    assert_ok(evzmq_socket_write(p.socket, large, 600));
    assert_errno(evzmq_socket_write(p.socket, large, 401), EAGAIN);
    assert_ok(evzmq_socket_write(p.socket, large, 400));
    assert_errno(evzmq_socket_write(p.socket, large, 1), EAGAIN);
    probe_free(&p);

    p = (struct probe){0};
    open_lonely(f, &p, endpoint);
    assert_ok(evzmq_socket_set_output_limit(p.socket, 0, 1000));
    assert_ok(evzmq_socket_write(p.socket, large, sizeof large));
    assert_errno(evzmq_socket_write(p.socket, large, 1), EAGAIN);
    probe_free(&p);
}

static void the_message_limit_can_be_lowered_below_what_is_queued(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint);
    write_sequence(&p, 0, 10);
    assert_ok(evzmq_socket_set_output_limit(p.socket, 5, 0));
    assert_errno(evzmq_socket_write(p.socket, "x", 1), EAGAIN);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 10);
    assert_ok(evzmq_socket_set_output_limit(p.socket, SIZE_MAX, SIZE_MAX));
    write_sequence(&p, 10, 5000);
    pump_recv_sequence(f, join_pull(f, endpoint), 0, 5010);
    probe_free(&p);
}

static void a_refused_message_stays_the_callers_unchanged(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evzmq_message *const message = evzmq_message_new();
    char endpoint[ENDPOINT_SIZE];
    char text[32];
    void *pull = NULL;

    assert_ok(evzmq_message_add(message, "head", 4));
    assert_ok(evzmq_message_add(message, "body", 4));
    open_lonely(f, &p, endpoint);
    assert_ok(evzmq_socket_set_output_limit(p.socket, 1, 0));
    assert_ok(evzmq_socket_write(p.socket, "first", 5));
    for (int i = 0; i < 3; i++) {
        assert_errno(evzmq_socket_write_message(p.socket, message), EAGAIN);
    }
    assert_int_equal(evzmq_message_get_part_count(message), 2);
    assert_part(message, 0, "head", 4);
    assert_part(message, 1, "body", 4);
    pull = join_pull(f, endpoint);
    pump_recv_text(f, pull, text, sizeof text);
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    assert_ok(evzmq_socket_write_message(p.socket, message));
    pump_recv_text(f, pull, text, sizeof text);
    assert_string_equal(text, "head|body");
    probe_free(&p);
}

static void however_many_refused_writes_leave_nothing_behind(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    const long count = scaled(1000000, 10000000);
    long live = 0;

    open_lonely(f, &p, endpoint);
    write_sequence(&p, 0, EVZMQ_OUTPUT_MESSAGES_DEFAULT);
    const long before = resident();
    live = allocations_live();
    for (long i = 0; i < count; i++) {
        assert_int_equal(evzmq_socket_write(p.socket, "x", 1), -1);
    }
    assert_int_equal(allocations_live(), live);
    assert_in_range(resident(), 0, before + 1024 * 1024);
    assert_int_equal(probe_stats(&p).writes_refused, count);
    assert_int_equal(probe_stats(&p).queue_messages, EVZMQ_OUTPUT_MESSAGES_DEFAULT);
    probe_free(&p);
}

static void the_high_mark_tells_once_and_the_low_mark_once_per_crossing(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *pull = NULL;

    open_lonely(f, &p, endpoint);
    assert_ok(evzmq_socket_set_output_watermark(p.socket, 16, 80));
    write_sequence(&p, 0, 9);
    fixture_glance(f);
    assert_int_equal(p.events[EVZMQ_EVENT_HIGH_WATERMARK], 0);
    write_sequence(&p, 9, 1);
    run_until(f, p.events[EVZMQ_EVENT_HIGH_WATERMARK] == 1);
    write_sequence(&p, 10, 90);
    pull = join_pull(f, endpoint);
    pump_recv_sequence(f, pull, 0, 100);
    run_until(f, p.events[EVZMQ_EVENT_DRAINED] == 1);
    assert_string_equal(p.log, "[high] [write] [drained]");

    assert_ok(evzmq_socket_disable(p.socket, EV_WRITE)); /* The second crossing. */
    write_sequence(&p, 100, 50);
    run_until(f, p.events[EVZMQ_EVENT_HIGH_WATERMARK] == 2);
    probe_enable(&p, EV_WRITE);
    pump_recv_sequence(f, pull, 100, 50);
    run_until(f, p.events[EVZMQ_EVENT_DRAINED] == 2);
    assert_string_equal(p.log, "[high] [write] [drained] [high] [write] [drained]");
    probe_free(&p);
}

static void watermarks_must_be_in_order(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint);
    assert_errno(evzmq_socket_set_output_watermark(p.socket, 10, 10), EINVAL);
    assert_errno(evzmq_socket_set_output_watermark(p.socket, 10, 5), EINVAL);
    assert_ok(evzmq_socket_set_output_watermark(p.socket, 10, 0));
    assert_ok(evzmq_socket_set_output_watermark(p.socket, 10, 11));
    probe_free(&p);
}

static void with_ev_write_disabled_writes_wait_for_enable(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    char text[8];
    void *pull = NULL;

    open_lonely(f, &p, endpoint);
    pull = join_pull(f, endpoint);
    assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
    write_sequence(&p, 0, 10);
    fixture_run_for(f, 20);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 10);
    assert_false(peer_try_recv_text(pull, text, sizeof text));
    probe_enable(&p, EV_WRITE);
    pump_recv_sequence(f, pull, 0, 10);
    probe_free(&p);
}

static void a_write_never_overtakes_the_queue(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *pull = NULL;

    open_lonely(f, &p, endpoint);
    write_sequence(&p, 0, 10);
    pull = join_pull(f, endpoint);
    write_sequence(&p, 10, 10); /* There is room now, and ten are queued before. */
    pump_recv_sequence(f, pull, 0, 20);
    probe_free(&p);
}

static void write_the_rest(struct probe *p)
{
    uint64_t *const next = p->arg;

    while (*next < 20000 && evzmq_socket_write(p->socket, next, sizeof *next) == 0) {
        ++*next;
    }
}

static void a_write_callback_that_refills_the_queue_sends_everything(void **state)
{
    struct fixture *const f = *state;
    uint64_t next = 0;
    struct probe p = {.on_write = write_the_rest, .arg = &next};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint);
    assert_ok(evzmq_socket_set_output_limit(p.socket, 100, 0));
    assert_ok(evzmq_socket_set_output_watermark(p.socket, 80, 0));
    write_the_rest(&p);
    assert_int_equal(next, 100);
    pump_recv_sequence(f, join_pull(f, endpoint), 0, 20000);
    assert_int_equal(next, 20000);
    probe_free(&p);
}

static void a_pass_sends_no_more_than_its_write_budget(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget budget = {.size = sizeof budget, .write_messages = 10};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *pull = NULL;

    open_lonely(f, &p, endpoint);
    assert_ok(evzmq_socket_set_budget(p.socket, &budget));
    write_sequence(&p, 0, 200);
    pull = join_pull(f, endpoint);
    while (evzmq_socket_get_queued(p.socket, NULL) > 0) {
        const size_t before = evzmq_socket_get_queued(p.socket, NULL);
        const uint64_t passes = probe_wakeups(&p);

        fixture_turn(f);
        assert_true(before - evzmq_socket_get_queued(p.socket, NULL) <=
                    10 * (probe_wakeups(&p) - passes));
    }
    pump_recv_sequence(f, pull, 0, 200);
    assert_true(probe_stats(&p).budget_hits >= 19);
    probe_free(&p);
}

static void write_parts_sends_one_message_of_several_parts(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_bytes parts[] = {{"a", 1}, {NULL, 0}, {"ccc", 3}};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    char text[32];
    void *pull = NULL;

    open_lonely(f, &p, endpoint);
    pull = join_pull(f, endpoint);
    assert_ok(evzmq_socket_write_parts(p.socket, parts, 3));
    assert_ok(evzmq_socket_write(p.socket, NULL, 0));
    assert_errno(evzmq_socket_write_parts(p.socket, parts, 0), EINVAL);
    assert_errno(evzmq_socket_write_parts(p.socket, NULL, 1), EINVAL);
    assert_errno(evzmq_socket_write(p.socket, NULL, 1), EINVAL);
    assert_errno(evzmq_socket_write(NULL, "x", 1), EINVAL);
    pump_recv_text(f, pull, text, sizeof text);
    assert_string_equal(text, "a||ccc");
    pump_recv_text(f, pull, text, sizeof text);
    assert_string_equal(text, "");
    probe_free(&p);
}

static void write_value_encodes_with_the_sockets_codec(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    const struct evzmq_bytes raw = {"bytes", 5};
    const msgpack_object number = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via = {.u64 = 65}};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    char text[32];
    void *pull = NULL;

    open_lonely(f, &p, endpoint);
    pull = join_pull(f, endpoint);
    assert_ok(evzmq_socket_write_value(p.socket, &raw));
    assert_ok(evzmq_socket_set_codec(p.socket, codec));
    assert_ok(evzmq_socket_write_value(p.socket, &number));
    evzmq_codec_free(codec);
    pump_recv_text(f, pull, text, sizeof text);
    assert_string_equal(text, "bytes");
    pump_recv_text(f, pull, text, sizeof text);
    assert_string_equal(text, "A");
    probe_free(&p);
}

static void write_lent(struct probe *p, struct evzmq_message *message)
{
    struct evzmq_message *taken = NULL;

    assert_errno(evzmq_socket_write_message(p->socket, message), EINVAL);
    taken = evzmq_message_take(message);
    assert_ok(evzmq_socket_write_message(p->socket, taken));
}

static void write_message_refuses_empty_and_lent_messages(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_message *const empty = evzmq_message_new();
    struct probe p = {.on_read = write_lent};
    char text[32];
    void *dealer = NULL;
    void *peer = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_DEALER, &dealer, ZMQ_DEALER, &peer);
    probe_attach(f, &p, dealer, 0);
    probe_enable(&p, EV_READ);
    assert_errno(evzmq_socket_write_message(p.socket, empty), EINVAL);
    assert_errno(evzmq_socket_write_message(p.socket, NULL), EINVAL);
    evzmq_message_free(empty);
    peer_send_text(peer, "echo|me");
    pump_recv_text(f, peer, text, sizeof text);
    assert_string_equal(text, "echo|me");
    probe_free(&p);
}

static void types_that_only_receive_refuse_to_write(void **state)
{
    struct fixture *const f = *state;
    static const int types[] = {ZMQ_PULL, ZMQ_SUB};

    for (size_t i = 0; i < 2; i++) {
        struct probe p = {0};

        probe_attach(f, &p, peer_new(f, types[i]), 0);
        assert_errno(evzmq_socket_write(p.socket, "x", 1), ENOTSUP);
        assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
        probe_free(&p);
    }
}

static void publishers_never_queue(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const pub = peer_new(f, ZMQ_PUB);

    peer_bind(f, pub, TRANSPORT_INPROC, endpoint);
    probe_attach(f, &p, pub, 0);
    write_sequence(&p, 0, 5000);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
    assert_int_equal(probe_stats(&p).messages_out, 5000);
    probe_free(&p);
}

/* Whoever waits for the write callback must not wait for ever because the mark was moved. */
static void a_low_mark_raised_above_the_queue_runs_the_write_callback(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint);
    write_sequence(&p, 0, 10);
    fixture_glance(f);
    assert_int_equal(p.writes, 0);
    assert_ok(evzmq_socket_set_output_watermark(p.socket, 1000, 0));
    run_until(f, p.writes == 1);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 10);
    fixture_run_for(f, 20);
    assert_int_equal(p.writes, 1);
    probe_free(&p);
}

/* Many small messages fill the queue without rising above a low mark, which counts bytes. */
static void a_write_refused_below_the_low_mark_is_called_back_too(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    uint64_t number = 3;

    open_lonely(f, &p, endpoint);
    assert_ok(evzmq_socket_set_output_watermark(p.socket, 1000, 0));
    assert_ok(evzmq_socket_set_output_limit(p.socket, 3, 0));
    write_sequence(&p, 0, 3);
    assert_errno(evzmq_socket_write(p.socket, &number, sizeof number), EAGAIN);
    fixture_run_for(f, 20);
    assert_int_equal(p.writes, 0);
    pump_recv_sequence(f, join_pull(f, endpoint), 0, 3);
    run_until(f, p.events[EVZMQ_EVENT_DRAINED] == 1);
    assert_int_equal(p.writes, 1);
    probe_free(&p);
}

static void no_limit_takes_everything_and_zero_is_the_default_again(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};

    probe_attach(f, &p, peer_new(f, ZMQ_PUSH), 0);
    assert_ok(evzmq_socket_set_output_limit(p.socket, SIZE_MAX, SIZE_MAX));
    for (uint64_t i = 0; i < 3 * EVZMQ_OUTPUT_MESSAGES_DEFAULT; i++) {
        assert_ok(evzmq_socket_write(p.socket, &i, sizeof i));
    }
    assert_ok(evzmq_socket_set_output_limit(p.socket, 0, 0));
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 3 * EVZMQ_OUTPUT_MESSAGES_DEFAULT);
    assert_errno(evzmq_socket_write(p.socket, "x", 1), EAGAIN);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_write_is_sent_at_once_when_zeromq_takes_it),
        claim(writes_without_a_peer_are_queued_and_flushed_in_order_when_one_comes),
        claim(queued_writes_reach_a_peer_that_comes_over_ipc_or_tcp),
        claim(the_1001st_message_is_refused_by_default),
        claim(the_byte_limit_refuses_and_one_larger_message_passes_an_empty_queue),
        claim(the_message_limit_can_be_lowered_below_what_is_queued),
        claim(a_refused_message_stays_the_callers_unchanged),
        claim(however_many_refused_writes_leave_nothing_behind),
        claim(the_high_mark_tells_once_and_the_low_mark_once_per_crossing),
        claim(watermarks_must_be_in_order),
        claim(with_ev_write_disabled_writes_wait_for_enable),
        claim(a_write_never_overtakes_the_queue),
        claim(a_write_callback_that_refills_the_queue_sends_everything),
        claim(a_pass_sends_no_more_than_its_write_budget),
        claim(write_parts_sends_one_message_of_several_parts),
        claim(write_value_encodes_with_the_sockets_codec),
        claim(write_message_refuses_empty_and_lent_messages),
        claim(types_that_only_receive_refuse_to_write),
        claim(publishers_never_queue),
        claim(a_low_mark_raised_above_the_queue_runs_the_write_callback),
        claim(a_write_refused_below_the_low_mark_is_called_back_too),
        claim(no_limit_takes_everything_and_zero_is_the_default_again),
    };

    return run_claims(tests);
}
