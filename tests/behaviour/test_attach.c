/**
 * @file test_attach.c
 * Putting sockets on a base: every type, what is refused, and messages that were there before.
 */
#include "support.h"

static const int types[] = {ZMQ_PUSH, ZMQ_PULL, ZMQ_PUB,    ZMQ_SUB,    ZMQ_XPUB, ZMQ_XSUB,
                            ZMQ_REQ,  ZMQ_REP,  ZMQ_DEALER, ZMQ_ROUTER, ZMQ_PAIR, ZMQ_STREAM};
#define TYPES (sizeof types / sizeof types[0])

static void every_ordinary_type_can_be_attached(void **state)
{
    struct fixture *const f = *state;

    for (size_t i = 0; i < TYPES; i++) {
        void *const peer = peer_new(f, types[i]);
        struct evzmq_socket *const socket = evzmq_socket_new(f->base, peer, 0);
        evzmq_read_cb read_cb = NULL;
        void *arg = NULL;
        size_t bytes = 1;

        assert_non_null(socket);
        assert_ptr_equal(evzmq_socket_get_base(socket), f->base);
        assert_ptr_equal(evzmq_socket_get_zmq_socket(socket), peer);
        assert_int_equal(evzmq_socket_get_enabled(socket), EV_WRITE);
        assert_int_equal(evzmq_socket_get_queued(socket, &bytes), 0);
        assert_int_equal(bytes, 0);
        evzmq_socket_getcb(socket, &read_cb, NULL, NULL, &arg);
        assert_null(read_cb);
        assert_null(arg);
        fixture_glance(f);
        evzmq_socket_free(socket);
    }
}

static void every_type_that_receives_can_be_enabled_for_reading(void **state)
{
    struct fixture *const f = *state;

    for (size_t i = 0; i < TYPES; i++) {
        struct evzmq_socket *const socket = evzmq_socket_new(f->base, peer_new(f, types[i]), 0);

        if (types[i] == ZMQ_PUSH || types[i] == ZMQ_PUB) {
            assert_errno(evzmq_socket_enable(socket, EV_READ), ENOTSUP);
            assert_int_equal(evzmq_socket_get_enabled(socket), EV_WRITE);
        } else {
            assert_ok(evzmq_socket_enable(socket, EV_READ));
            assert_int_equal(evzmq_socket_get_enabled(socket), EV_READ | EV_WRITE);
        }
        fixture_glance(f);
        evzmq_socket_free(socket);
    }
}

static void attaching_a_socket_twice_is_ebusy(void **state)
{
    struct fixture *const f = *state;
    struct event_base *const other = event_base_new();
    void *const peer = peer_new(f, ZMQ_PULL);
    struct evzmq_socket *socket = evzmq_socket_new(f->base, peer, 0);

    assert_non_null(socket);
    errno = 0;
    assert_null(evzmq_socket_new(f->base, peer, 0));
    assert_int_equal(errno, EBUSY);
    errno = 0;
    assert_null(evzmq_socket_new(other, peer, EVZMQ_OPT_CLOSE_ON_FREE));
    assert_int_equal(errno, EBUSY);
    evzmq_socket_free(socket);
    socket = evzmq_socket_new(other, peer, 0);
    assert_non_null(socket);
    evzmq_socket_free(socket);
    event_base_free(other);
}

static void null_and_unknown_options_are_einval(void **state)
{
    struct fixture *const f = *state;
    void *const peer = peer_new(f, ZMQ_PULL);

    errno = 0;
    assert_null(evzmq_socket_new(NULL, peer, 0));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(evzmq_socket_new(f->base, NULL, 0));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(evzmq_socket_new(f->base, peer, 1u << 30));
    assert_int_equal(errno, EINVAL);
}

static void types_without_a_descriptor_are_enotsup(void **state)
{
    struct fixture *const f = *state;
    int tried = 0;

    /* SERVER, CLIENT, RADIO, DISH, GATHER and SCATTER of libzmq's draft API. */
    for (int type = 12; type <= 17; type++) {
        void *const peer = zmq_socket(f->context, type);

        if (peer == NULL) {
            continue;
        }
        tried++;
        errno = 0;
        assert_null(evzmq_socket_new(f->base, peer, 0));
        assert_int_equal(errno, ENOTSUP);
        assert_int_equal(zmq_close(peer), 0);
    }
    if (tried == 0) {
        skip(); /* This libzmq was built without them. */
    }
}

static void attaching_in_a_terminated_context_is_eterm(void **state)
{
    struct fixture *const f = *state;
    void *const peer = peer_new(f, ZMQ_PULL);
    int events = 0;
    size_t size = sizeof events;

    assert_int_equal(zmq_ctx_shutdown(f->context), 0);
    /* libzmq tells a socket by a command, which it has to process before it knows. */
    assert_int_equal(zmq_getsockopt(peer, ZMQ_EVENTS, &events, &size), -1);
    errno = 0;
    assert_null(evzmq_socket_new(f->base, peer, 0));
    assert_int_equal(errno, ETERM);
}

static void a_context_terminated_just_before_attach_gives_one_terminal_event(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *const peer = peer_new(f, ZMQ_PULL);

    assert_int_equal(zmq_ctx_shutdown(f->context), 0);
    probe_attach(f, &p, peer, 0);
    run_until(f, p.events_all == 1);
    assert_string_equal(p.log, "[terminated]");
    assert_int_equal(p.last.error, ETERM);
    probe_free(&p);
}

static void messages_waiting_before_attach_are_delivered_over_every_transport(void **state)
{
    struct fixture *const f = *state;

    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        struct probe p = {.on_read = read_sequence};
        void *pull = NULL;
        void *push = NULL;

        peer_pair(f, transport, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        peer_send_sequence(push, 0, 100, 8);
        peer_wait_readable(pull); /* Reads ZMQ_EVENTS and so eats the edge. */
        probe_attach(f, &p, pull, 0);
        probe_enable(&p, EV_READ);
        run_until(f, p.reads == 100);
        probe_free(&p);
    }
}

static void waiting_messages_are_delivered_in_the_first_turn_of_the_loop(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    peer_send_text(push, "early");
    peer_wait_readable(pull);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    fixture_turn(f);
    assert_string_equal(p.log, "early");
    probe_free(&p);
}

static void inproc_messages_sent_before_the_bind_are_delivered(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *const push = peer_new(f, ZMQ_PUSH);
    void *const pull = peer_new(f, ZMQ_PULL);

    peer_connect(push, "inproc://later");
    peer_send_text(push, "first");
    assert_int_equal(zmq_bind(pull, "inproc://later"), 0);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    run_until(f, p.reads == 1);
    assert_string_equal(p.log, "first");
    probe_free(&p);
}

static void bind_behind_the_adapter_then_touch_delivers(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    void *const pull = peer_new(f, ZMQ_PULL);

    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    fixture_glance(f);
    peer_bind(f, evzmq_socket_get_zmq_socket(p.socket), TRANSPORT_TCP, endpoint);
    assert_ok(evzmq_socket_touch(p.socket));
    peer_connect(push, endpoint);
    peer_send_text(push, "hello");
    run_until(f, p.reads == 1);
    probe_free(&p);
}

static void callbacks_set_after_enable_get_what_was_waiting(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.f = f};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    evzmq_socket_setcb(p.socket, NULL, NULL, NULL, NULL);
    probe_enable(&p, EV_READ);
    peer_send_text(push, "kept");
    fixture_run_for(f, 20); /* Whatever happens meanwhile must not take the message. */
    assert_int_equal(probe_stats(&p).messages_in, 0);
    probe_setcb(&p);
    run_until(f, p.reads == 1);
    assert_string_equal(p.log, "kept");
    probe_free(&p);
}

/* A probe fails its test when a callback runs outside of the loop: this provokes all of them. */
static void no_public_call_runs_a_callback(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *dealer = NULL;
    void *peer = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_DEALER, &dealer, ZMQ_DEALER, &peer);
    peer_send_text(peer, "waiting");
    probe_attach(f, &p, dealer, 0);
    probe_enable(&p, EV_READ);
    probe_setcb(&p);
    assert_ok(evzmq_socket_set_output_watermark(p.socket, 1, 2));
    assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
    assert_ok(evzmq_socket_write(p.socket, "above the mark", 14));
    assert_ok(evzmq_socket_enable(p.socket, EV_WRITE));
    assert_ok(evzmq_socket_touch(p.socket));
    assert_ok(evzmq_socket_write(p.socket, "again", 5));
    assert_int_equal(p.reads + p.writes + p.events_all, 0);
    run_until(f, p.reads == 1 && p.writes == 1);
    probe_free(&p);
}

static void enable_and_disable_refuse_other_bits(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_socket *const socket = evzmq_socket_new(f->base, peer_new(f, ZMQ_DEALER), 0);

    assert_errno(evzmq_socket_enable(socket, EV_READ | EV_SIGNAL), EINVAL);
    assert_errno(evzmq_socket_disable(socket, EV_PERSIST), EINVAL);
    assert_errno(evzmq_socket_enable(NULL, EV_READ), EINVAL);
    assert_errno(evzmq_socket_disable(NULL, EV_READ), EINVAL);
    assert_int_equal(evzmq_socket_get_enabled(socket), EV_WRITE);
    evzmq_socket_free(socket);
}

static void a_disabled_socket_keeps_the_dispatch_alive_until_it_is_freed(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};

    probe_attach(f, &p, peer_new(f, ZMQ_DEALER), 0);
    assert_ok(evzmq_socket_disable(p.socket, EV_READ | EV_WRITE));
    assert_int_equal(fixture_loop(f, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
    probe_free(&p);
    assert_int_equal(fixture_loop(f, 0), 1); /* No event is left: it returns at once. */
}

static void the_zmq_socket_is_the_callers_again_after_the_free(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char text[32];
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    peer_send_text(push, "for the next owner");
    probe_free(&p);
    (void)peer_recv_text(pull, text, sizeof text);
    assert_string_equal(text, "for the next owner");
}

static void base_settings_need_a_socket_on_the_base(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_socket *socket = NULL;

    assert_errno(evzmq_base_set_receive_buffer(NULL, 1), EINVAL);
    assert_errno(evzmq_base_set_receive_buffer(f->base, 1), ENOENT);
    socket = evzmq_socket_new(f->base, peer_new(f, ZMQ_PULL), 0);
    assert_ok(evzmq_base_set_receive_buffer(f->base, 4096));
    evzmq_socket_free(socket);
    assert_errno(evzmq_base_set_receive_buffer(f->base, 1), ENOENT);
}

static void free_of_null_does_nothing(void **state)
{
    (void)state;
    evzmq_socket_free(NULL);
    evzmq_message_free(NULL);
    evzmq_envelope_free(NULL);
    evzmq_codec_free(NULL);
    evzmq_codec_free(evzmq_codec_raw());
    evzmq_arena_free(NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(every_ordinary_type_can_be_attached),
        claim(every_type_that_receives_can_be_enabled_for_reading),
        claim(attaching_a_socket_twice_is_ebusy),
        claim(null_and_unknown_options_are_einval),
        claim(types_without_a_descriptor_are_enotsup),
        claim(attaching_in_a_terminated_context_is_eterm),
        claim(a_context_terminated_just_before_attach_gives_one_terminal_event),
        claim(messages_waiting_before_attach_are_delivered_over_every_transport),
        claim(waiting_messages_are_delivered_in_the_first_turn_of_the_loop),
        claim(inproc_messages_sent_before_the_bind_are_delivered),
        claim(bind_behind_the_adapter_then_touch_delivers),
        claim(callbacks_set_after_enable_get_what_was_waiting),
        claim(no_public_call_runs_a_callback),
        claim(enable_and_disable_refuse_other_bits),
        claim(a_disabled_socket_keeps_the_dispatch_alive_until_it_is_freed),
        claim(the_zmq_socket_is_the_callers_again_after_the_free),
        claim(base_settings_need_a_socket_on_the_base),
        claim(free_of_null_does_nothing),
    };

    return run_claims(tests);
}
