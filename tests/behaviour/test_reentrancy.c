/**
 * @file test_reentrancy.c
 * Everything a callback may do, from every callback, over every transport: one test for each cell
 * of a table. Whatever was done, at the end every message is found exactly once and in order.
 */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include <evzmq/msgpack.h>

enum kind { KIND_READ, KIND_WRITE, KIND_EVENT, KIND_SHUTDOWN, KIND_ERROR, KINDS };

enum {
    INPUT = 20, /* good messages for the socket; a bad one is among them */
    BAD_AT = 3,
    OUTPUT = 40, /* messages queued before the peer comes */
    MORE = 10, /* written in the callback */
    OTHER_INPUT = 10 /* messages for the other socket */
};

struct scene;

/* A row of the table. */
struct operation {
    const char *name;
    const char *claim;
    void (*act)(struct scene *scene);
    void (*settle)(struct scene *scene); /* what must be true of this one; may be NULL */
    unsigned options; /* to attach with */
    bool leaves_other_disabled; /* for reading */
};

/* A test. The name comes first, for that is what the fixture is given. */
struct cell {
    char name[128];
    const struct operation *operation;
    enum kind kind;
    enum transport transport;
};

/* A socket in the middle of everything: messages to read, a bad one among them, output queued and
 * marks set, so that all its callbacks run; and another one that has messages to read too. */
struct scene {
    const struct cell *cell;
    struct fixture *f;
    struct probe me;
    struct probe other;
    void *raw;
    void *peer;
    void *other_raw;
    void *other_peer;
    bool acted;
    size_t seen; /* callbacks, when the act was over */
    size_t received; /* messages then, the bad one included */
    size_t written; /* messages that the socket accepted */
    size_t other_written;
    int ended; /* shutdowns reported */
    uint64_t handed_over;
    uint64_t not_handed_over;
};

static size_t callbacks(const struct scene *scene)
{
    return scene->me.reads + scene->me.writes + scene->me.events_all + (size_t)scene->ended;
}

static size_t received(const struct scene *scene)
{
    return scene->me.reads + scene->me.events[EVZMQ_EVENT_DECODE_ERROR];
}

static void act_once(struct scene *scene, enum kind kind)
{
    if (scene->cell->kind == kind && !scene->acted) {
        scene->acted = true;
        scene->cell->operation->act(scene);
        scene->seen = callbacks(scene);
        scene->received = received(scene);
    }
}

/* A message is one byte, which is its number and good msgpack as well. */
static void check_number(struct probe *p, struct evzmq_message *message)
{
    size_t size = 0;
    const unsigned char *const byte = evzmq_message_get_part(message, 0, &size);

    assert_int_equal(size, 1);
    assert_int_equal(*byte, p->sequence);
    p->sequence++;
}

static void read_me(struct probe *p, struct evzmq_message *message)
{
    assert_non_null(evzmq_msgpack_value(message));
    check_number(p, message);
    act_once(p->arg, KIND_READ);
}

static void write_me(struct probe *p)
{
    act_once(p->arg, KIND_WRITE);
}

static void event_me(struct probe *p, const struct evzmq_event *event)
{
    if (event->type == EVZMQ_EVENT_DECODE_ERROR) {
        assert_int_equal(p->sequence, BAD_AT); /* In its place. */
    }
    act_once(p->arg, event->type == EVZMQ_EVENT_DECODE_ERROR ? KIND_ERROR : KIND_EVENT);
}

static void shutdown_ended(struct evzmq_socket *socket, uint64_t handed_over,
                           uint64_t not_handed_over, void *arg)
{
    struct scene *const scene = arg;

    assert_ptr_equal(socket, scene->me.socket); /* Otherwise: a callback after the free. */
    assert_true(scene->f->dispatching);
    assert_int_equal(scene->f->depth, 0);
    scene->f->depth++;
    scene->ended++;
    scene->handed_over = handed_over;
    scene->not_handed_over = not_handed_over;
    act_once(scene, KIND_SHUTDOWN);
    scene->f->depth--;
}

static bool is_shut_down(const struct scene *scene)
{
    return scene->cell->kind == KIND_SHUTDOWN;
}

static void send_input(struct scene *scene)
{
    const unsigned char bad = 0xc1; /* No value of msgpack begins so. */

    for (unsigned char number = 0; number < INPUT; number++) {
        if (number == BAD_AT) {
            peer_send(scene->peer, &bad, 1);
        }
        peer_send(scene->peer, &number, 1);
    }
}

static void open_other(struct scene *scene)
{
    peer_pair(scene->f, scene->cell->transport, ZMQ_DEALER, &scene->other_raw, ZMQ_DEALER,
              &scene->other_peer);
    scene->other.on_read = check_number;
    for (unsigned char number = 0; number < OTHER_INPUT; number++) {
        peer_send(scene->other_peer, &number, 1);
    }
    probe_attach(scene->f, &scene->other, scene->other_raw, 0);
    if (!scene->cell->operation->leaves_other_disabled) {
        probe_enable(&scene->other, EV_READ);
    }
}

static void open_scene(struct fixture *f, struct scene *scene)
{
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    char endpoint[ENDPOINT_SIZE];

    memset(scene, 0, sizeof *scene);
    scene->cell = (const struct cell *)f->name;
    scene->f = f;
    scene->me = (struct probe){
        .on_read = read_me, .on_write = write_me, .on_event = event_me, .arg = scene};
    scene->raw = peer_new(f, ZMQ_DEALER);
    peer_bind(f, scene->raw, scene->cell->transport, endpoint);
    probe_attach(f, &scene->me, scene->raw, scene->cell->operation->options);
    assert_ok(evzmq_socket_set_codec(scene->me.socket, codec));
    evzmq_codec_free(codec);
    assert_ok(evzmq_socket_set_output_watermark(scene->me.socket, 0, OUTPUT / 2));
    for (unsigned char number = 0; number < OUTPUT; number++) {
        assert_ok(evzmq_socket_write(scene->me.socket, &number, 1));
    }
    scene->written = OUTPUT;
    scene->peer = peer_new(f, ZMQ_DEALER);
    peer_connect(scene->peer, endpoint);
    send_input(scene);
    open_other(scene);
    probe_enable(&scene->me, EV_READ);
    if (is_shut_down(scene)) {
        assert_ok(evzmq_socket_shutdown(scene->me.socket, NULL, shutdown_ended, scene));
    }
    run_until(f, scene->acted);
}

/* What the callback does, and what must be true of it. */

static void free_me(struct scene *scene)
{
    const struct evzmq_socket_stats stats = probe_stats(&scene->me);

    scene->written = (size_t)stats.messages_out; /* What is queued goes with the socket. */
    probe_free(&scene->me);
}

static void settle_nothing_more(struct scene *scene)
{
    fixture_run_for(scene->f, 2);
    assert_int_equal(callbacks(scene), scene->seen);
}

static void disable_me(struct scene *scene)
{
    assert_ok(evzmq_socket_disable(scene->me.socket, EV_READ | EV_WRITE));
}

static void settle_disabled(struct scene *scene)
{
    const size_t reads = scene->me.reads;
    const uint64_t sent = probe_stats(&scene->me).messages_out;

    fixture_run_for(scene->f, 2);
    assert_int_equal(scene->me.reads, reads);
    assert_int_equal(probe_stats(&scene->me).messages_out, sent);
    if (!is_shut_down(scene)) {
        probe_enable(&scene->me, EV_READ | EV_WRITE);
    }
}

static void enable_me(struct scene *scene)
{
    if (is_shut_down(scene)) {
        assert_errno(evzmq_socket_enable(scene->me.socket, EV_READ | EV_WRITE), ESHUTDOWN);
    } else {
        probe_enable(&scene->me, EV_READ | EV_WRITE);
    }
}

static void set_no_callbacks(struct scene *scene)
{
    evzmq_socket_setcb(scene->me.socket, NULL, NULL, NULL, NULL);
}

static void settle_no_callbacks(struct scene *scene)
{
    settle_nothing_more(scene);
    probe_setcb(&scene->me);
}

static void write_ten(struct scene *scene)
{
    for (unsigned char i = 0; i < MORE; i++) {
        const unsigned char number = (unsigned char)(OUTPUT + i);

        if (is_shut_down(scene)) {
            assert_errno(evzmq_socket_write(scene->me.socket, &number, 1), ESHUTDOWN);
        } else {
            assert_ok(evzmq_socket_write(scene->me.socket, &number, 1));
            scene->written++;
        }
    }
}

static void shut_me_down(struct scene *scene)
{
    assert_ok(evzmq_socket_shutdown(scene->me.socket, NULL, shutdown_ended, scene));
}

static void settle_shutdown(struct scene *scene)
{
    const size_t reads = scene->me.reads;

    run_until(scene->f, scene->ended);
    fixture_run_for(scene->f, 2);
    assert_int_equal(scene->ended, 1);
    assert_int_equal(scene->not_handed_over, 0);
    assert_int_equal(scene->me.reads, reads);
    assert_int_equal(probe_stats(&scene->me).messages_out, OUTPUT);
}

static void free_other(struct scene *scene)
{
    probe_free(&scene->other); /* The probe fails the test if a callback comes after that. */
}

static void write_to_other(struct scene *scene)
{
    for (unsigned char number = 0; number < MORE; number++) {
        assert_ok(evzmq_socket_write(scene->other.socket, &number, 1));
        scene->other_written++;
    }
}

static void receive_from_other(struct scene *scene)
{
    struct evzmq_message *messages[OTHER_INPUT + 1];
    const int count = evzmq_socket_recv_many(scene->other.socket, messages, OTHER_INPUT + 1);

    assert_true(count >= 0 && count <= OTHER_INPUT);
    for (int i = 0; i < count; i++) {
        check_number(&scene->other, messages[i]);
        evzmq_message_free(messages[i]);
    }
}

static void settle_receive_from_other(struct scene *scene)
{
    probe_enable(&scene->other, EV_READ);
}

static void break_loop(struct scene *scene)
{
    assert_int_equal(event_base_loopbreak(scene->f->base), 0);
}

static void settle_break(struct scene *scene)
{
    assert_true(event_base_got_break(scene->f->base));
    assert_int_equal(received(scene), scene->received);
}

/* What must be true whatever was done. */

/* What has not been delivered is still in the ZeroMQ socket, which is the caller's again. */
static void check_input_left(void *raw, uint64_t next, uint64_t end, bool has_bad)
{
    unsigned char byte = 0;

    while (next < end || has_bad) {
        assert_int_equal(zmq_recv(raw, &byte, 1, 0), 1);
        if (has_bad && next == BAD_AT) {
            assert_int_equal(byte, 0xc1);
            has_bad = false;
        } else {
            assert_int_equal(byte, next);
            next++;
        }
    }
    assert_int_equal(zmq_recv(raw, &byte, 1, ZMQ_DONTWAIT), -1);
}

static void check_output(void *peer, size_t count)
{
    unsigned char byte = 0;

    for (size_t number = 0; number < count; number++) {
        assert_int_equal(zmq_recv(peer, &byte, 1, 0), 1);
        assert_int_equal(byte, number);
    }
    assert_int_equal(zmq_recv(peer, &byte, 1, ZMQ_DONTWAIT), -1);
}

/* A close drops what has not reached the peer yet: what did has no gap. */
static void check_output_has_no_gap(void *peer)
{
    unsigned char byte = 0;

    for (int next = 0; zmq_recv(peer, &byte, 1, ZMQ_DONTWAIT) == 1; next++) {
        assert_int_equal(byte, next);
    }
}

static void settle_me(struct scene *scene)
{
    if (scene->me.socket != NULL) {
        const bool reads = evzmq_socket_get_enabled(scene->me.socket) & EV_READ;

        run_until(scene->f, evzmq_socket_get_queued(scene->me.socket, NULL) == 0);
        run_until(scene->f, !reads || (scene->me.reads == INPUT &&
                                       scene->me.events[EVZMQ_EVENT_DECODE_ERROR] == 1));
        probe_free(&scene->me);
    }
    if (scene->cell->operation->options & EVZMQ_OPT_CLOSE_ON_FREE) {
        check_output_has_no_gap(scene->peer);
        return;
    }
    check_output(scene->peer, scene->written);
    check_input_left(scene->raw, scene->me.sequence, INPUT,
                     scene->me.events[EVZMQ_EVENT_DECODE_ERROR] == 0);
    peer_close(scene->f, scene->raw);
}

static void settle_other(struct scene *scene)
{
    if (scene->other.socket != NULL) {
        run_until(scene->f, scene->other.sequence == OTHER_INPUT);
        run_until(scene->f, evzmq_socket_get_queued(scene->other.socket, NULL) == 0);
        probe_free(&scene->other);
    }
    check_output(scene->other_peer, scene->other_written);
    check_input_left(scene->other_raw, scene->other.sequence, OTHER_INPUT, false);
}

static void run_cell(void **state)
{
    struct fixture *const f = *state;
    struct scene scene;

    open_scene(f, &scene);
    if (scene.cell->operation->settle != NULL) {
        scene.cell->operation->settle(&scene);
    }
    settle_me(&scene);
    settle_other(&scene);
    fixture_glance(f); /* A callback after the free would show here. */
}

static const struct operation operations[] = {
    {.name = "free", .claim = "ends_all_callbacks", .act = free_me, .settle = settle_nothing_more},
    {.name = "free_and_close",
     .claim = "ends_all_callbacks",
     .act = free_me,
     .settle = settle_nothing_more,
     .options = EVZMQ_OPT_CLOSE_ON_FREE},
    {.name = "disable",
     .claim = "stops_both_directions_and_loses_nothing",
     .act = disable_me,
     .settle = settle_disabled},
    {.name = "enable", .claim = "changes_nothing", .act = enable_me},
    {.name = "setcb_null",
     .claim = "silences_and_loses_nothing",
     .act = set_no_callbacks,
     .settle = settle_no_callbacks},
    {.name = "write", .claim = "keeps_the_order", .act = write_ten},
    {.name = "shutdown",
     .claim = "sends_what_is_queued_and_reports_once",
     .act = shut_me_down,
     .settle = settle_shutdown},
    {.name = "free_another", .claim = "ends_the_callbacks_of_that", .act = free_other},
    {.name = "write_to_another", .claim = "arrives_there", .act = write_to_other},
    {.name = "recv_many_on_another",
     .claim = "takes_what_the_callbacks_do_not_get",
     .act = receive_from_other,
     .settle = settle_receive_from_other,
     .leaves_other_disabled = true},
    {.name = "loopbreak",
     .claim = "stops_delivery_and_loses_nothing",
     .act = break_loop,
     .settle = settle_break},
};

#define OPERATIONS (sizeof operations / sizeof operations[0])
#define CELLS (OPERATIONS * KINDS * TRANSPORTS)

int main(void)
{
    static const char *const kinds[] = {"read", "write", "event", "shutdown", "decode_error"};
    static const char *const transports[] = {"inproc", "ipc", "tcp"};
    static struct cell cells[CELLS];
    static struct CMUnitTest tests[CELLS];

    for (size_t i = 0; i < CELLS; i++) {
        const struct operation *const operation = &operations[i / (KINDS * TRANSPORTS)];
        struct cell *const cell = &cells[i];

        cell->operation = operation;
        cell->kind = (enum kind)(i / TRANSPORTS % KINDS);
        cell->transport = (enum transport)(i % TRANSPORTS);
        (void)snprintf(cell->name, sizeof cell->name, "%s_in_a_%s_callback_over_%s_%s",
                       operation->name, kinds[cell->kind], transports[cell->transport],
                       operation->claim);
        tests[i] = (struct CMUnitTest){.name = cell->name,
                                       .test_func = run_cell,
                                       .setup_func = fixture_setup,
                                       .teardown_func = fixture_teardown,
                                       .initial_state = cell->name};
    }
    return run_claims(tests);
}
