/*
 * Memory that runs out while receiving, delivering, keeping and making messages.
 */
#include "attempt.h"

#include <string.h>

#include <event2/buffer.h>

#include <evzmq/msgpack.h>

#include "message.h"

/* Receiving. */
static void send_many_parts(struct attempt *a)
{
    peer_send_text(a->peer, "1|2|3|4|5|6|7|8|9");
}

static int act_try_recv(struct attempt *a)
{
    return evzmq_socket_try_recv(a->p.socket, &a->result);
}

static void check_received(struct attempt *a)
{
    char text[64];
    assert_string_equal(message_text(a->result, text, sizeof(text)), "P|1|2|3|4|5|6|7|8|9");
    assert_int_equal(evzmq_envelope_get_part_count(evzmq_message_get_envelope(a->result)), 1);
}

/* The parts that are there already stay with the socket, so that its memory differs. */
static bool attempt_to_receive(struct fixture *f, const struct scenario *scenario, size_t n,
                               size_t times)
{
    struct attempt a;
    begin_attempt(&a, f, scenario);
    faults_begin(a.socket);
    faults_plan(FAULTS_MEMORY, n, times, ENOMEM);
    const int result = scenario->act(&a);
    const int error = errno;
    faults_end();
    const bool reached = faults_made(FAULTS_MEMORY) > 0;
    if (result < 0) {
        assert_true(reached);
        assert_int_equal(error, ENOMEM);
        assert_null(a.result);
        assert_ok(scenario->act(&a));
    }
    scenario->check(&a);
    end_attempt(&a, scenario);
    return reached;
}

static void run_receiving(struct fixture *f, const struct scenario *scenario)
{
    const size_t times[] = {1, FOR_EVER};
    for (size_t i = 0; i < 2; i++) {
        for (size_t n = 1; attempt_to_receive(f, scenario, n, times[i]); n++) {
            assert_true(n < 50);
        }
    }
}

static void try_recv_without_memory_loses_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = send_many_parts,
                                      .act = act_try_recv,
                                      .check = check_received};
    run_receiving(*state, &scenario);
}

static int act_recv(struct attempt *a)
{
    const struct timeval timeout = {30, 0};
    return evzmq_socket_recv(a->p.socket, &timeout, &a->result);
}

static void recv_without_memory_loses_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = send_many_parts,
                                      .act = act_recv,
                                      .check = check_received};
    run_receiving(*state, &scenario);
}

static void send_number(struct attempt *a)
{
    use_msgpack(a);
    peer_send(a->peer, "\x07", 1);
}

static void check_number(struct attempt *a)
{
    struct evzmq_decode_error error = {.kind = EVZMQ_DECODE_OK};
    const msgpack_object *value = evzmq_msgpack_value(a->result);
    if (value == NULL) {
        assert_int_equal(evzmq_message_get_decode_error(a->result, &error), 1);
        assert_int_equal(error.kind, EVZMQ_DECODE_NOMEM);
        struct evzmq_codec *codec = evzmq_msgpack_codec_new(NULL);
        assert_ok(evzmq_message_decode(a->result, codec, NULL));
        evzmq_codec_free(codec);
        value = evzmq_msgpack_value(a->result);
        assert_non_null(value);
    }
    assert_int_equal(value->via.u64, 7);
}

static void message_received_without_memory_to_decode_it_says_so(void **state)
{
    const struct scenario scenario = {.type = ZMQ_PULL,
                                      .peer_type = ZMQ_PUSH,
                                      .prepare = send_number,
                                      .act = act_try_recv,
                                      .check = check_number};
    run_receiving(*state, &scenario);
}

/* Keeping. */
static int act_take(struct attempt *a)
{
    a->result = evzmq_message_take(a->message);
    return a->result == NULL ? -1 : 0;
}

static void check_take(struct attempt *a)
{
    const size_t count = evzmq_message_get_part_count(a->message);
    assert_int_equal(evzmq_message_get_part_count(a->result), count);
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        const void *const data = evzmq_message_get_part(a->message, i, &size);
        assert_part(a->result, i, data, size);
    }
    assert_int_equal(evzmq_envelope_get_part_count(evzmq_message_get_envelope(a->result)), 1);
}

static void take_without_memory_leaves_the_message(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = receive_large_and_small,
                                      .act = act_take,
                                      .check = check_take};
    run_scenario(*state, &scenario);
}

static int act_dup(struct attempt *a)
{
    a->envelope = evzmq_envelope_dup(evzmq_message_get_envelope(a->message));
    return a->envelope == NULL ? -1 : 0;
}

static void check_dup(struct attempt *a)
{
    size_t size = 0;
    assert_memory_equal(evzmq_envelope_get_part(a->envelope, 0, &size), "P", 1);
    assert_int_equal(size, 1);
}

static void envelope_dup_without_memory_leaves_the_envelope(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = receive_large_and_small,
                                      .act = act_dup,
                                      .check = check_dup};
    run_scenario(*state, &scenario);
}

/* The arena, and the memory that the value takes from it. What decoding keeps stays. */
static void decode_without_memory_says_so_and_can_be_repeated(void **state)
{
    struct fixture *f = *state;
    const struct scenario scenario = {
        .type = ZMQ_ROUTER, .peer_type = ZMQ_DEALER, .prepare = receive_large_and_small};
    struct evzmq_codec *codec = evzmq_msgpack_codec_new(NULL);
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        struct attempt a;
        begin_attempt(&a, f, &scenario);
        a.result = evzmq_message_take(a.message);
        assert_non_null(a.result);
        faults_begin(a.socket);
        faults_plan(FAULTS_MEMORY, n, FOR_EVER, ENOMEM);
        errno = 0;
        const int result = evzmq_message_decode(a.result, codec, NULL);
        reached = faults_made(FAULTS_MEMORY) > 0;
        assert_int_equal(result, reached ? -1 : 0);
        assert_int_equal(reached ? errno : 0, reached ? ENOMEM : 0);
        faults_end();
        assert_ok(evzmq_message_decode(a.result, codec, NULL));
        assert_int_equal(evzmq_msgpack_value(a.result)->via.u64, 7);
        end_attempt(&a, &scenario);
        assert_true(n < 50);
    }
    evzmq_codec_free(codec);
}

/* Building messages. */
static int act_build(struct attempt *a)
{
    a->result = evzmq_message_new();
    return a->result == NULL ? -1 : 0;
}

static void check_build(struct attempt *a)
{
    assert_int_equal(evzmq_message_get_part_count(a->result), 0);
}

static void message_new_without_memory_is_null(void **state)
{
    const struct scenario scenario = {
        .type = ZMQ_PUSH, .peer_type = ZMQ_PULL, .act = act_build, .check = check_build};
    run_scenario(*state, &scenario);
}

static void make_full_message(struct attempt *a)
{
    make_message(a);
    assert_ok(evzmq_message_add(a->message, "3", 1));
    assert_int_equal(a->message->part_count, a->message->part_capacity);
}

static int act_add(struct attempt *a)
{
    return evzmq_message_add(a->message, "4", 1);
}

static void check_add(struct attempt *a)
{
    char text[64];
    assert_string_equal(message_text(a->message, text, sizeof(text)), "P|1|2|3|4");
    assert_int_equal(evzmq_message_get_size(a->message), 5);
}

static void add_without_memory_leaves_the_message(void **state)
{
    const struct scenario scenario = {.type = ZMQ_PUSH,
                                      .peer_type = ZMQ_PULL,
                                      .prepare = make_full_message,
                                      .act = act_add,
                                      .check = check_add};
    run_scenario(*state, &scenario);
}

static void count_free(void *data, void *arg)
{
    struct attempt *const a = arg;
    assert_int_equal(*(const char *)data, '4');
    a->freed++;
}

static int act_add_reference(struct attempt *a)
{
    static char data[] = "4";
    const int result = evzmq_message_add_reference(a->message, data, 1, count_free, a);
    assert_int_equal(a->freed, 0);
    return result;
}

static void check_add_reference(struct attempt *a)
{
    check_add(a);
    evzmq_message_free(a->message);
    a->message = NULL;
    assert_int_equal(a->freed, 1);
}

static void free_function_of_a_reference_runs_once_and_only_after_success(void **state)
{
    const struct scenario scenario = {.type = ZMQ_PUSH,
                                      .peer_type = ZMQ_PULL,
                                      .prepare = make_full_message,
                                      .makes_room = true,
                                      .act = act_add_reference,
                                      .check = check_add_reference};
    run_scenario(*state, &scenario);
}

static void make_full_message_and_buffer(struct attempt *a)
{
    static char large[EVZMQ_ZERO_COPY_MIN];
    make_full_message(a);
    a->buffer = evbuffer_new();
    assert_int_equal(evbuffer_add(a->buffer, large, sizeof(large)), 0);
}

static int act_add_evbuffer(struct attempt *a)
{
    const int result = evzmq_message_add_evbuffer(a->message, a->buffer);
    const int error = errno;
    assert_int_equal(evbuffer_get_length(a->buffer), result == 0 ? 0 : EVZMQ_ZERO_COPY_MIN);
    errno = error;
    return result;
}

static void check_add_evbuffer(struct attempt *a)
{
    assert_int_equal(evzmq_message_get_part_count(a->message), 5);
    assert_int_equal(evzmq_message_get_size(a->message), 4 + EVZMQ_ZERO_COPY_MIN);
}

static void add_evbuffer_without_memory_leaves_message_and_evbuffer(void **state)
{
    const struct scenario scenario = {.type = ZMQ_PUSH,
                                      .peer_type = ZMQ_PULL,
                                      .prepare = make_full_message_and_buffer,
                                      .makes_room = true,
                                      .act = act_add_evbuffer,
                                      .check = check_add_evbuffer};
    run_scenario(*state, &scenario);
}

static void receive_and_make_buffer(struct attempt *a)
{
    receive_large_and_small(a);
    a->buffer = evbuffer_new();
    assert_non_null(a->buffer);
}

static int act_to_evbuffer(struct attempt *a)
{
    return evzmq_message_part_to_evbuffer(a->message, 2, a->buffer);
}

static void check_to_evbuffer(struct attempt *a)
{
    assert_int_equal(evbuffer_get_length(a->buffer), EVZMQ_ZERO_COPY_MIN);
}

static void part_to_evbuffer_without_memory_leaves_the_evbuffer(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = receive_and_make_buffer,
                                      .act = act_to_evbuffer,
                                      .check = check_to_evbuffer};
    run_scenario(*state, &scenario);
}

/* Delivering: errors are reported, and what was sent arrives, decoded or with the reason. */
static void deliver_with_failures(struct fixture *f, enum evzmq_receive_mode mode, size_t times)
{
    const struct scenario scenario = {.type = ZMQ_PULL, .peer_type = ZMQ_PUSH};
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        struct attempt a;
        begin_attempt(&a, f, &scenario);
        use_msgpack(&a);
        assert_ok(evzmq_socket_set_receive_mode(a.p.socket, mode));
        peer_send(a.peer, "\x92\x01\x02", 3);
        peer_send_text(a.peer, "1|2|3|4|5|6|7|8");
        peer_send(a.peer, "\x93\x01\x02\x03", 4);
        faults_begin(a.socket);
        faults_plan(FAULT_ALLOC, n, times, ENOMEM);
        probe_enable(&a.p, EV_READ);
        fixture_glance(f);
        faults_end();
        reached = faults_made(FAULTS_MEMORY) > 0;
        run_until(f, a.p.reads + a.p.events[EVZMQ_EVENT_DECODE_ERROR] == 3);
        assert_int_equal(probe_stats(&a.p).messages_in, 3);
        assert_int_equal(probe_stats(&a.p).decode_errors[EVZMQ_DECODE_NOMEM],
                         a.p.events[EVZMQ_EVENT_DECODE_ERROR]);
        end_attempt(&a, &scenario);
        assert_true(n < 50);
    }
}

static void no_message_is_lost_when_memory_fails_in_a_pass(void **state)
{
    const enum evzmq_receive_mode modes[] = {EVZMQ_RECEIVE_AUTO, EVZMQ_RECEIVE_INTO,
                                             EVZMQ_RECEIVE_IN_PLACE, EVZMQ_RECEIVE_OWNED};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        deliver_with_failures(*state, modes[i], 1);
        deliver_with_failures(*state, modes[i], FOR_EVER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(try_recv_without_memory_loses_nothing),
        claim(recv_without_memory_loses_nothing),
        claim(message_received_without_memory_to_decode_it_says_so),
        claim(take_without_memory_leaves_the_message),
        claim(envelope_dup_without_memory_leaves_the_envelope),
        claim(decode_without_memory_says_so_and_can_be_repeated),
        claim(message_new_without_memory_is_null),
        claim(add_without_memory_leaves_the_message),
        claim(free_function_of_a_reference_runs_once_and_only_after_success),
        claim(add_evbuffer_without_memory_leaves_message_and_evbuffer),
        claim(part_to_evbuffer_without_memory_leaves_the_evbuffer),
        claim(no_message_is_lost_when_memory_fails_in_a_pass),
    };
    return run_claims(tests);
}
