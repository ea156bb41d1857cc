/*
 * Memory that runs out: each scenario is run with its first request for memory failing, then its
 * second, and so on until it passes untouched, once with that request only and once with all later
 * ones too. Whatever failed, the call says so, everything is as before and the call can be made
 * again; that nothing leaks is checked by the fixture.
 */
#include "support.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include <evzmq/msgpack.h>

#include "faults.h"
#include "socket.h"

/* One attempt. */
struct attempt {
    struct fixture *f;
    struct probe p;
    void *socket; /* the adapter's */
    void *peer;
    struct evzmq_message *message;
    struct evzmq_message *result;
    struct evzmq_envelope *envelope;
    struct evbuffer *buffer;
    int freed;
};

struct scenario {
    int type;
    int peer_type;
    bool unattached; /* the scenario attaches */
    bool makes_room; /* a failure may leave the message with room for more parts */
    void (*prepare)(struct attempt *a); /* with memory; may be NULL */
    int (*act)(struct attempt *a); /* 0, or -1 with errno */
    void (*check)(struct attempt *a); /* what must be true after a success */
    void (*clean)(struct attempt *a); /* may be NULL */
};

static void begin_attempt(struct attempt *a, struct fixture *f, const struct scenario *scenario)
{
    *a = (struct attempt){.f = f};
    a->p.f = f;
    a->socket = peer_new(f, scenario->type);
    a->peer = peer_new(f, scenario->peer_type);
    assert_int_equal(zmq_setsockopt(a->peer, ZMQ_ROUTING_ID, "P", 1), 0);
    char endpoint[ENDPOINT_SIZE];
    peer_bind(f, a->socket, TRANSPORT_INPROC, endpoint);
    peer_connect(a->peer, endpoint);
    if (!scenario->unattached) {
        probe_attach(f, &a->p, a->socket, 0);
        fixture_glance(f);
    }
    if (scenario->prepare != NULL) {
        scenario->prepare(a);
    }
}

static void end_attempt(struct attempt *a, const struct scenario *scenario)
{
    if (scenario->clean != NULL) {
        scenario->clean(a);
    }
    evzmq_message_free(a->message);
    evzmq_message_free(a->result);
    evzmq_envelope_free(a->envelope);
    if (a->buffer != NULL) {
        evbuffer_free(a->buffer);
    }
    if (a->p.socket != NULL) {
        probe_free(&a->p);
    }
    peer_close(a->f, a->socket);
    peer_close(a->f, a->peer);
    a->f->peer_count = 0;
}

/* Returns whether the n-th request was reached. */
static bool attempt(struct fixture *f, const struct scenario *scenario, size_t n, size_t times)
{
    struct attempt a;
    begin_attempt(&a, f, scenario);
    const long live = allocations_live();
    faults_begin(a.socket);
    faults_plan(FAULTS_MEMORY, n, times, ENOMEM);
    errno = 0;
    const int result = scenario->act(&a);
    const int error = errno;
    faults_end();
    const bool reached = faults_made(FAULTS_MEMORY) > 0;
    if (result < 0) {
        assert_true(reached);
        assert_int_equal(error, ENOMEM);
        assert_true(scenario->makes_room || allocations_live() == live);
        assert_ok(scenario->act(&a));
    }
    scenario->check(&a);
    end_attempt(&a, scenario);
    return reached;
}

static void run_scenario(struct fixture *f, const struct scenario *scenario)
{
    const size_t times[] = {1, FOR_EVER};
    for (size_t i = 0; i < 2; i++) {
        size_t n = 1;
        while (attempt(f, scenario, n, times[i])) {
            n++;
            assert_true(n < 100);
        }
        assert_true(n > 1); /* otherwise nothing was tested */
    }
}

/* What is there, and with what the loop must run. */
static void assert_peer_gets(struct attempt *a, const char *expected)
{
    char text[256];
    run_until(a->f, evzmq_socket_get_queued(a->p.socket, NULL) == 0);
    (void)peer_recv_text(a->peer, text, sizeof(text));
    assert_string_equal(text, expected);
    assert_false(peer_try_recv_text(a->peer, text, sizeof(text)));
}

static void refuse_to_send(struct attempt *a)
{
    assert_ok(evzmq_socket_disable(a->p.socket, EV_WRITE));
}

static void send_again(struct attempt *a)
{
    assert_ok(evzmq_socket_enable(a->p.socket, EV_WRITE));
}

/* Attaching. */
static void send_first(struct attempt *a)
{
    peer_send_text(a->peer, "early");
}

static int act_attach(struct attempt *a)
{
    a->p.socket = evzmq_socket_new(a->f->base, a->socket, 0);
    if (a->p.socket == NULL) {
        return -1;
    }
    a->f->attached++;
    return 0;
}

static void check_attach(struct attempt *a)
{
    probe_setcb(&a->p);
    a->p.socket->pause &=
        ~(unsigned)EVZMQ__PAUSE_USER; /* not enable(): it would have a pass look */
    run_until(a->f, a->p.reads == 1);
}

static void attaching_without_memory_leaves_the_socket_the_callers(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .unattached = true,
                                      .prepare = send_first,
                                      .act = act_attach,
                                      .check = check_attach};
    run_scenario(*state, &scenario);
}

/* Writing. */
static int act_write(struct attempt *a)
{
    return evzmq_socket_write(a->p.socket, "hello", 5);
}

static void check_write(struct attempt *a)
{
    send_again(a);
    assert_peer_gets(a, "hello");
}

static void write_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {
        .type = ZMQ_PUSH, .peer_type = ZMQ_PULL, .act = act_write, .check = check_write};
    run_scenario(*state, &scenario);
}

static void queued_write_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_PUSH,
                                      .peer_type = ZMQ_PULL,
                                      .prepare = refuse_to_send,
                                      .act = act_write,
                                      .check = check_write};
    run_scenario(*state, &scenario);
}

static int act_write_parts(struct attempt *a)
{
    static const struct evzmq_bytes parts[] = {{"P", 1}, {"1", 1}, {"2", 1}, {"3", 1}, {"4", 1},
                                               {"5", 1}, {"6", 1}, {"7", 1}, {"8", 1}, {"9", 1}};
    return evzmq_socket_write_parts(a->p.socket, parts, sizeof(parts) / sizeof(parts[0]));
}

static void check_write_parts(struct attempt *a)
{
    send_again(a);
    assert_peer_gets(a, "1|2|3|4|5|6|7|8|9");
}

static void write_parts_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .act = act_write_parts,
                                      .check = check_write_parts};
    run_scenario(*state, &scenario);
}

static void queued_write_parts_to_a_peer_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = refuse_to_send,
                                      .act = act_write_parts,
                                      .check = check_write_parts};
    run_scenario(*state, &scenario);
}

static void make_message(struct attempt *a)
{
    a->message = evzmq_message_new();
    assert_non_null(a->message);
    assert_ok(evzmq_message_add(a->message, "P", 1));
    assert_ok(evzmq_message_add(a->message, "1", 1));
    assert_ok(evzmq_message_add(a->message, "2", 1));
}

static void make_message_and_refuse(struct attempt *a)
{
    make_message(a);
    refuse_to_send(a);
}

static int act_write_message(struct attempt *a)
{
    const int result = evzmq_socket_write_message(a->p.socket, a->message);
    const int error = errno;
    if (result == 0) {
        a->message = NULL;
    } else {
        char text[64];
        assert_string_equal(message_text(a->message, text, sizeof(text)), "P|1|2");
    }
    errno = error;
    return result;
}

static void check_write_message(struct attempt *a)
{
    send_again(a);
    assert_peer_gets(a, "1|2");
}

static void message_that_cannot_be_queued_stays_the_callers(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = make_message_and_refuse,
                                      .act = act_write_message,
                                      .check = check_write_message};
    run_scenario(*state, &scenario);
}

/* A signal interrupts the message after its first part, and there is no memory to queue it. */
static int act_write_interrupted(struct attempt *a)
{
    faults_plan(FAULT_SEND, 2, 150, EINTR);
    return act_write_parts(a);
}

static void interrupted_write_without_memory_is_sent_whole_or_not_at_all(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .act = act_write_interrupted,
                                      .check = check_write_parts};
    run_scenario(*state, &scenario);
}

static void use_msgpack(struct attempt *a)
{
    struct evzmq_codec *codec = evzmq_msgpack_codec_new(NULL);
    assert_non_null(codec);
    assert_ok(evzmq_socket_set_codec(a->p.socket, codec));
    evzmq_codec_free(codec);
}

static int act_write_value(struct attempt *a)
{
    const msgpack_object value = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = 'x'};
    return evzmq_socket_write_value(a->p.socket, &value);
}

static void check_write_value(struct attempt *a)
{
    assert_peer_gets(a, "x");
}

static void write_value_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_PUSH,
                                      .peer_type = ZMQ_PULL,
                                      .prepare = use_msgpack,
                                      .act = act_write_value,
                                      .check = check_write_value};
    run_scenario(*state, &scenario);
}

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

static void try_recv_without_memory_loses_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = send_many_parts,
                                      .act = act_try_recv,
                                      .check = check_received};
    for (size_t n = 1; attempt_to_receive(*state, &scenario, n, 1); n++) {
        assert_true(n < 50);
    }
    for (size_t n = 1; attempt_to_receive(*state, &scenario, n, FOR_EVER); n++) {
        assert_true(n < 50);
    }
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
    for (size_t n = 1; attempt_to_receive(*state, &scenario, n, 1); n++) {
        assert_true(n < 50);
    }
    for (size_t n = 1; attempt_to_receive(*state, &scenario, n, FOR_EVER); n++) {
        assert_true(n < 50);
    }
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
    for (size_t n = 1; attempt_to_receive(*state, &scenario, n, 1); n++) {
        assert_true(n < 50);
    }
    for (size_t n = 1; attempt_to_receive(*state, &scenario, n, FOR_EVER); n++) {
        assert_true(n < 50);
    }
}

/* Keeping. */
static void receive_large_and_small(struct attempt *a)
{
    static char large[EVZMQ_ZERO_COPY_MIN];
    memset(large, 'L', sizeof(large));
    assert_int_equal(zmq_send(a->peer, "s", 1, ZMQ_SNDMORE), 1);
    assert_int_equal(zmq_send(a->peer, large, sizeof(large), ZMQ_SNDMORE), (int)sizeof(large));
    for (int i = 0; i < 6; i++) {
        assert_int_equal(zmq_send(a->peer, "t", 1, ZMQ_SNDMORE), 1);
    }
    assert_int_equal(zmq_send(a->peer, "\x07", 1, 0), 1);
    assert_ok(evzmq_socket_try_recv(a->p.socket, &a->message));
}

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

static void receive_and_refuse(struct attempt *a)
{
    receive_large_and_small(a);
    refuse_to_send(a);
}

static int act_reply(struct attempt *a)
{
    return evzmq_socket_reply(a->p.socket, evzmq_message_get_envelope(a->message), "answer", 6);
}

static void check_reply(struct attempt *a)
{
    send_again(a);
    assert_peer_gets(a, "answer");
}

static void reply_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = receive_and_refuse,
                                      .act = act_reply,
                                      .check = check_reply};
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

/* Ending. */
static void count_done(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                       void *arg)
{
    struct attempt *const a = arg;
    (void)socket;
    assert_int_equal(handed_over, 1);
    assert_int_equal(not_handed_over, 0);
    a->freed++;
}

static void queue_one(struct attempt *a)
{
    refuse_to_send(a);
    assert_ok(evzmq_socket_write(a->p.socket, "last", 4));
}

static int act_shutdown(struct attempt *a)
{
    const struct timeval deadline = {30, 0};
    return evzmq_socket_shutdown(a->p.socket, &deadline, count_done, a);
}

static void check_shutdown(struct attempt *a)
{
    run_until(a->f, a->freed == 1);
    assert_peer_gets(a, "last");
}

static void shutdown_without_memory_did_not_begin(void **state)
{
    const struct scenario scenario = {.type = ZMQ_PUSH,
                                      .peer_type = ZMQ_PULL,
                                      .prepare = queue_one,
                                      .act = act_shutdown,
                                      .check = check_shutdown};
    run_scenario(*state, &scenario);
}

/* The struct of both timeouts may stay, a timeout that was not set may not pass. */
static void timeouts_that_could_not_be_set_do_not_pass(void **state)
{
    struct fixture *f = *state;
    const struct scenario scenario = {.type = ZMQ_DEALER, .peer_type = ZMQ_DEALER};
    const struct timeval hour = {3600, 0};
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        struct attempt a;
        begin_attempt(&a, f, &scenario);
        faults_begin(a.socket);
        faults_plan(FAULTS_MEMORY, n, FOR_EVER, ENOMEM);
        probe_enable(&a.p, EV_READ);
        const int result = evzmq_socket_set_timeouts(a.p.socket, &hour, &hour);
        assert_true(result == 0 || errno == ENOMEM);
        faults_end();
        reached = faults_made(FAULTS_MEMORY) > 0;
        peer_send_text(a.peer, "a");
        run_until(f, a.p.reads == 1);
        for (int turns = 0; turns < 3; turns++) {
            fixture_glance(f);
        }
        assert_int_equal(a.p.events_all, 0);
        assert_ok(evzmq_socket_set_timeouts(a.p.socket, &hour, &hour));
        assert_ok(evzmq_socket_set_timeouts(a.p.socket, NULL, NULL));
        end_attempt(&a, &scenario);
        assert_true(n < 50);
    }
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

/* libevent's own memory. */
static bool libevent_has_none;

static void *libevent_malloc(size_t size)
{
    return libevent_has_none ? NULL : malloc(size);
}

static void *libevent_realloc(void *block, size_t size)
{
    return libevent_has_none ? NULL : realloc(block, size);
}

static void ignore(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

/* Fills the heap of the base's timers to the last place it has memory for, and takes that memory
 * away. Returns how many timers that were. */
static size_t fill_timers(struct fixture *f, struct event *timers[64])
{
    const struct timeval hour = {3600, 0};
    size_t count = 0;
    for (size_t i = 0; i < 64; i++) {
        timers[i] = evtimer_new(f->base, ignore, NULL);
    }
    libevent_has_none = true;
    while (evtimer_add(timers[count], &hour) == 0) {
        count++;
        assert_true(count < 64);
    }
    return count;
}

/* A wakeup that could not be arranged would be missed for good: nothing else comes. */
static void enabling_without_memory_for_timers_delivers_what_waits(void **state)
{
    struct fixture *f = *state;
    const struct scenario scenario = {.type = ZMQ_PULL, .peer_type = ZMQ_PUSH};
    struct attempt a;
    struct event *timers[64];

    begin_attempt(&a, f, &scenario);
    peer_send_text(a.peer, "a");
    fixture_glance(f); /* uses up the edge */
    (void)fill_timers(f, timers);
    probe_enable(&a.p, EV_READ);
    fixture_glance(f);
    libevent_has_none = false;
    assert_int_equal(a.p.reads, 1);
    for (size_t i = 0; i < 64; i++) {
        event_free(timers[i]);
    }
    end_attempt(&a, &scenario);
}

static void attaching_without_memory_for_timers_fails(void **state)
{
    struct fixture *f = *state;
    const struct scenario scenario = {.type = ZMQ_PULL, .peer_type = ZMQ_PUSH, .unattached = true};
    struct attempt a;
    struct event *timers[64];

    begin_attempt(&a, f, &scenario);
    (void)fill_timers(f, timers);
    errno = 0;
    assert_null(evzmq_socket_new(f->base, a.socket, 0));
    assert_int_equal(errno, ENOMEM);
    libevent_has_none = false;
    for (size_t i = 0; i < 64; i++) {
        event_free(timers[i]);
    }
    probe_attach(f, &a.p, a.socket, 0);
    end_attempt(&a, &scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(attaching_without_memory_leaves_the_socket_the_callers),
        claim(write_without_memory_sends_nothing),
        claim(queued_write_without_memory_sends_nothing),
        claim(write_parts_without_memory_sends_nothing),
        claim(queued_write_parts_to_a_peer_without_memory_sends_nothing),
        claim(message_that_cannot_be_queued_stays_the_callers),
        claim(interrupted_write_without_memory_is_sent_whole_or_not_at_all),
        claim(write_value_without_memory_sends_nothing),
        claim(try_recv_without_memory_loses_nothing),
        claim(recv_without_memory_loses_nothing),
        claim(message_received_without_memory_to_decode_it_says_so),
        claim(take_without_memory_leaves_the_message),
        claim(envelope_dup_without_memory_leaves_the_envelope),
        claim(reply_without_memory_sends_nothing),
        claim(decode_without_memory_says_so_and_can_be_repeated),
        claim(message_new_without_memory_is_null),
        claim(add_without_memory_leaves_the_message),
        claim(free_function_of_a_reference_runs_once_and_only_after_success),
        claim(add_evbuffer_without_memory_leaves_message_and_evbuffer),
        claim(part_to_evbuffer_without_memory_leaves_the_evbuffer),
        claim(shutdown_without_memory_did_not_begin),
        claim(timeouts_that_could_not_be_set_do_not_pass),
        claim(no_message_is_lost_when_memory_fails_in_a_pass),
        claim(enabling_without_memory_for_timers_delivers_what_waits),
        claim(attaching_without_memory_for_timers_fails),
    };
    event_set_mem_functions(libevent_malloc, libevent_realloc, free);
    return run_claims(tests);
}
