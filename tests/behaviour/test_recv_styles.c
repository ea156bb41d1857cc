/**
 * @file test_recv_styles.c
 * Receiving without callbacks: try_recv, recv_many and recv, which runs the loop.
 */
#include "support.h"

#include <string.h>

#include <evzmq/msgpack.h>

static void open_pair(struct fixture *f, struct probe *p, void **out_push)
{
    void *pull = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, out_push);
    probe_attach(f, p, pull, 0);
}

static void expect_text(struct evzmq_message *message, const char *expected)
{
    char text[64];

    assert_non_null(message);
    assert_string_equal(message_text(message, text, sizeof text), expected);
    evzmq_message_free(message);
}

/* recv runs the loop: the callbacks of other sockets may run now. */
static int recv_in_loop(struct probe *p, const struct timeval *timeout, struct evzmq_message **out)
{
    int result = 0;

    p->f->dispatching = 1;
    result = evzmq_socket_recv(p->socket, timeout, out);
    p->f->dispatching = 0;
    return result;
}

static void try_recv_returns_one_owned_message_or_eagain(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_errno(evzmq_socket_try_recv(p.socket, &message), EAGAIN);
    assert_null(message);
    peer_send_text(push, "a|b");
    peer_send_text(push, "c");
    assert_ok(evzmq_socket_try_recv(p.socket, &message));
    expect_text(message, "a|b");
    assert_ok(evzmq_socket_try_recv(p.socket, &message));
    expect_text(message, "c");
    assert_errno(evzmq_socket_try_recv(p.socket, &message), EAGAIN);
    assert_errno(evzmq_socket_try_recv(p.socket, NULL), EINVAL);
    assert_errno(evzmq_socket_try_recv(NULL, &message), EINVAL);
    probe_free(&p);
}

static void while_the_callbacks_receive_the_receive_calls_are_ebusy(void **state)
{
    struct fixture *const f = *state;
    const struct timeval none = {0, 0};
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    void *push = NULL;

    open_pair(f, &p, &push);
    probe_enable(&p, EV_READ);
    peer_send_text(push, "x");
    assert_errno(evzmq_socket_try_recv(p.socket, &message), EBUSY);
    assert_errno(evzmq_socket_recv_many(p.socket, &message, 1), EBUSY);
    assert_errno(evzmq_socket_recv(p.socket, &none, &message), EBUSY);
    run_until(f, p.reads == 1);
    probe_free(&p);
}

static void types_that_only_send_cannot_receive(void **state)
{
    struct fixture *const f = *state;
    static const int types[] = {ZMQ_PUSH, ZMQ_PUB};
    const struct timeval none = {0, 0};

    for (size_t i = 0; i < 2; i++) {
        struct probe p = {0};
        struct evzmq_message *message = NULL;

        probe_attach(f, &p, peer_new(f, types[i]), 0);
        assert_errno(evzmq_socket_try_recv(p.socket, &message), ENOTSUP);
        assert_errno(evzmq_socket_recv_many(p.socket, &message, 1), ENOTSUP);
        assert_errno(evzmq_socket_recv(p.socket, &none, &message), ENOTSUP);
        probe_free(&p);
    }
}

static void recv_many_takes_what_is_there_up_to_its_maximum(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evzmq_message *messages[10];
    char name[2] = "0";
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_int_equal(evzmq_socket_recv_many(p.socket, messages, 10), 0);
    for (name[0] = '0'; name[0] <= '9'; name[0]++) {
        peer_send_text(push, name);
        peer_send_text(push, name);
    }
    assert_int_equal(evzmq_socket_recv_many(p.socket, messages, 3), 3);
    expect_text(messages[0], "0");
    expect_text(messages[1], "0");
    expect_text(messages[2], "1");
    assert_int_equal(evzmq_socket_recv_many(p.socket, messages, 10), 10);
    for (int i = 0; i < 10; i++) {
        evzmq_message_free(messages[i]);
    }
    assert_int_equal(evzmq_socket_recv_many(p.socket, messages, 10), 7);
    expect_text(messages[6], "9");
    for (int i = 0; i < 6; i++) {
        evzmq_message_free(messages[i]);
    }
    probe_free(&p);
}

static void a_bad_message_is_returned_with_its_error_readable(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct probe p = {0};
    struct evzmq_message *messages[3];
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    char bytes[32];
    const size_t size = pack_record(1, "ok", bytes, sizeof bytes);
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_ok(evzmq_socket_set_codec(p.socket, codec));
    evzmq_codec_free(codec);
    peer_send(push, bytes, size);
    peer_send(push, "\x01\x02", 2);
    peer_send(push, bytes, size);
    assert_int_equal(evzmq_socket_recv_many(p.socket, messages, 3), 3);
    assert_non_null(evzmq_msgpack_value(messages[0]));
    assert_null(evzmq_msgpack_value(messages[1]));
    assert_non_null(evzmq_msgpack_value(messages[2]));
    assert_int_equal(evzmq_message_get_decode_error(messages[0], &error), 0);
    assert_int_equal(evzmq_message_get_decode_error(messages[1], &error), 1);
    assert_int_equal(error.kind, EVZMQ_DECODE_TRAILING);
    assert_int_equal(error.offset, 1);
    assert_part(messages[1], 0, "\x01\x02", 2);
    assert_int_equal(probe_stats(&p).decode_errors[EVZMQ_DECODE_TRAILING], 1);
    probe_free(&p);
    for (int i = 0; i < 3; i++) {
        evzmq_message_free(messages[i]); /* They outlive the socket. */
    }
}

static void an_oversize_message_is_dropped_and_the_next_one_returned(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_ok(evzmq_socket_set_max_message(p.socket, 4, 0, EVZMQ_OVERSIZE_DROP));
    peer_send_text(push, "much too large");
    peer_send_text(push, "large");
    peer_send_text(push, "fits");
    assert_ok(evzmq_socket_try_recv(p.socket, &message));
    expect_text(message, "fits");
    assert_int_equal(probe_stats(&p).oversize_dropped, 2);
    peer_send_text(push, "large");
    assert_errno(evzmq_socket_try_recv(p.socket, &message), EAGAIN);
    probe_free(&p);
}

static void recv_returns_at_once_what_is_there_and_waits_for_what_is_not(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    char endpoint[ENDPOINT_SIZE];
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    probe_attach(f, &p, pull, 0);
    peer_connect(push, endpoint);
    for (int i = 0; i < 100; i++) {
        peer_send_text(push, "over the wire");
        assert_ok(recv_in_loop(&p, NULL, &message));
        expect_text(message, "over the wire");
    }
    probe_free(&p);
}

static void recv_gives_up_with_etimedout_and_the_message_comes_with_the_next_call(void **state)
{
    struct fixture *const f = *state;
    const struct timeval soon = {0, 10000};
    const struct timeval none = {0, 0};
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_errno(recv_in_loop(&p, &soon, &message), ETIMEDOUT);
    assert_errno(recv_in_loop(&p, &none, &message), ETIMEDOUT);
    assert_null(message);
    peer_send_text(push, "late");
    assert_ok(recv_in_loop(&p, &none, &message));
    expect_text(message, "late");
    probe_free(&p);
}

static void echo_back(struct probe *p, struct evzmq_message *message)
{
    size_t size = 0;
    const void *const data = evzmq_message_get_part(message, 0, &size);

    assert_ok(evzmq_socket_write(p->socket, data, size));
}

static void recv_serves_the_other_sockets_of_the_base_meanwhile(void **state)
{
    struct fixture *const f = *state;
    struct probe client = {0};
    struct probe server = {.on_read = echo_back};
    struct evzmq_message *message = NULL;
    void *a = NULL;
    void *b = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_REP, &a, ZMQ_REQ, &b);
    probe_attach(f, &server, a, 0);
    probe_attach(f, &client, b, 0);
    probe_enable(&server, EV_READ);
    for (int i = 0; i < 100; i++) {
        assert_ok(evzmq_socket_write(client.socket, "ask", 3));
        assert_ok(recv_in_loop(&client, NULL, &message));
        expect_text(message, "ask");
    }
    probe_free(&client);
    probe_free(&server);
}

static struct probe *victim;

static void recv_inside(struct probe *p, struct evzmq_message *message)
{
    struct evzmq_message *out = NULL;

    (void)p;
    (void)message;
    assert_errno(evzmq_socket_recv(victim->socket, NULL, &out), EDEADLK);
}

static void plain_callback(evutil_socket_t fd, short events, void *arg)
{
    int *const ran = arg;
    struct evzmq_message *out = NULL;

    (void)fd;
    (void)events;
    assert_errno(evzmq_socket_recv(victim->socket, NULL, &out), EDEADLK);
    *ran = 1;
}

static void recv_inside_any_callback_of_the_base_is_edeadlk(void **state)
{
    struct fixture *const f = *state;
    const struct timeval now = {0, 0};
    struct probe p = {0};
    struct probe other = {.on_read = recv_inside};
    struct event *timer = NULL;
    int ran = 0;
    void *push = NULL;
    void *other_push = NULL;

    open_pair(f, &p, &push);
    open_pair(f, &other, &other_push);
    victim = &p;
    probe_enable(&other, EV_READ);
    peer_send_text(other_push, "go");
    run_until(f, other.reads == 1);
    timer = event_new(f->base, -1, 0, plain_callback, &ran);
    assert_int_equal(event_add(timer, &now), 0);
    run_until(f, ran);
    event_free(timer);
    probe_free(&other);
    probe_free(&p);
}

static void break_loop(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    (void)event_base_loopbreak(arg);
}

static void recv_returns_eintr_when_the_loop_is_broken(void **state)
{
    struct fixture *const f = *state;
    const struct timeval soon = {0, 1000};
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_int_equal(event_base_once(f->base, -1, EV_TIMEOUT, break_loop, f->base, &soon), 0);
    assert_errno(recv_in_loop(&p, NULL, &message), EINTR);
    assert_int_equal(event_base_loopexit(f->base, &soon), 0);
    assert_errno(recv_in_loop(&p, NULL, &message), EINTR);
    peer_send_text(push, "still there");
    assert_ok(recv_in_loop(&p, NULL, &message));
    expect_text(message, "still there");
    probe_free(&p);
}

static void free_victim(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    (void)arg;
    probe_free(victim);
}

static void recv_returns_ecanceled_when_its_socket_is_freed_meanwhile(void **state)
{
    struct fixture *const f = *state;
    const struct timeval soon = {0, 1000};
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    void *push = NULL;

    open_pair(f, &p, &push);
    victim = &p;
    assert_int_equal(event_base_once(f->base, -1, EV_TIMEOUT, free_victim, NULL, &soon), 0);
    assert_errno(recv_in_loop(&p, NULL, &message), ECANCELED);
    assert_null(p.socket);
}

static void end_context(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    (void)zmq_ctx_shutdown(arg);
}

static void recv_returns_eterm_when_the_context_ends_meanwhile(void **state)
{
    struct fixture *const f = *state;
    const struct timeval soon = {0, 1000};
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_int_equal(event_base_once(f->base, -1, EV_TIMEOUT, end_context, f->context, &soon), 0);
    assert_errno(recv_in_loop(&p, NULL, &message), ETERM);
    probe_free(&p);
}

static void callbacks_go_on_where_the_receive_calls_stopped(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_sequence};
    struct evzmq_message *message = NULL;
    void *push = NULL;

    open_pair(f, &p, &push);
    for (uint64_t round = 0; round < 100; round++) {
        peer_send_sequence(push, round * 10, 10, 8);
        assert_ok(evzmq_socket_try_recv(p.socket, &message));
        evzmq_message_free(message);
        p.sequence++;
        probe_enable(&p, EV_READ);
        run_until(f, p.reads == (round + 1) * 9);
        assert_ok(evzmq_socket_disable(p.socket, EV_READ));
    }
    probe_free(&p);
}

static void a_request_taken_with_try_recv_is_answered_like_any_other(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    char text[32];
    static const int types[] = {ZMQ_REP, ZMQ_ROUTER};

    for (size_t i = 0; i < 2; i++) {
        void *server = NULL;
        void *req = NULL;

        p = (struct probe){0};
        peer_pair(f, TRANSPORT_INPROC, types[i], &server, ZMQ_REQ, &req);
        probe_attach(f, &p, server, 0);
        for (int n = 0; n < 10; n++) {
            peer_send_text(req, "ask");
            assert_ok(recv_in_loop(&p, NULL, &message));
            assert_ok(
                evzmq_socket_reply(p.socket, evzmq_message_get_envelope(message), "answer", 6));
            evzmq_message_free(message);
            pump_recv_text(f, req, text, sizeof text);
            assert_string_equal(text, "answer");
        }
        probe_free(&p);
    }
}

/* Each call drops a bounded number of messages; what is left gives no new wakeup. */
static void recv_waits_past_any_number_of_dropped_messages(void **state)
{
    struct fixture *const f = *state;
    const struct timeval second = {1, 0};
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    char endpoint[ENDPOINT_SIZE];
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_set_int(pull, ZMQ_RCVHWM, 0);
    peer_set_int(push, ZMQ_SNDHWM, 0);
    peer_bind(f, pull, TRANSPORT_INPROC, endpoint);
    peer_connect(push, endpoint);
    probe_attach(f, &p, pull, 0);
    assert_ok(evzmq_socket_set_max_message(p.socket, 4, 0, EVZMQ_OVERSIZE_DROP));
    for (int i = 0; i < 10000; i++) {
        peer_send_text(push, "large");
    }
    peer_send_text(push, "good");
    assert_ok(recv_in_loop(&p, &second, &message));
    expect_text(message, "good");
    assert_int_equal(probe_stats(&p).oversize_dropped, 10000);
    probe_free(&p);
}

static void an_undecodable_request_taken_with_try_recv_waits_for_its_reply(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct evzmq_decode_error error;
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    char text[32];
    void *rep = NULL;
    void *req = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_REP, &rep, ZMQ_REQ, &req);
    probe_attach(f, &p, rep, 0);
    assert_ok(evzmq_socket_set_codec(p.socket, codec));
    evzmq_codec_free(codec);
    peer_send_text(req, "\xc1");
    assert_ok(recv_in_loop(&p, NULL, &message));
    assert_int_equal(evzmq_message_get_decode_error(message, &error), 1);
    assert_null(evzmq_msgpack_value(message));
    fixture_run_for(f, 2);
    assert_false(peer_try_recv_text(req, text, sizeof text)); /* Nobody answers for us. */
    assert_ok(evzmq_socket_reply(p.socket, NULL, "bad", 3));
    pump_recv_text(f, req, text, sizeof text);
    assert_string_equal(text, "bad");
    evzmq_message_free(message);
    probe_free(&p);
}

static void wrong_arguments_of_the_receive_calls_are_einval(void **state)
{
    struct fixture *const f = *state;
    static const struct timeval bad = {0, -1};
    struct probe p = {0};
    struct evzmq_message *message = NULL;

    probe_attach(f, &p, peer_new(f, ZMQ_PULL), 0);
    assert_errno(evzmq_socket_try_recv(NULL, &message), EINVAL);
    assert_errno(evzmq_socket_try_recv(p.socket, NULL), EINVAL);
    assert_errno(evzmq_socket_recv_many(NULL, &message, 1), EINVAL);
    assert_errno(evzmq_socket_recv_many(p.socket, NULL, 1), EINVAL);
    assert_errno(evzmq_socket_recv_many(p.socket, &message, -1), EINVAL);
    assert_errno(evzmq_socket_recv(NULL, NULL, &message), EINVAL);
    assert_errno(evzmq_socket_recv(p.socket, NULL, NULL), EINVAL);
    assert_errno(evzmq_socket_recv(p.socket, &bad, &message), EINVAL);
    assert_null(message);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(try_recv_returns_one_owned_message_or_eagain),
        claim(while_the_callbacks_receive_the_receive_calls_are_ebusy),
        claim(types_that_only_send_cannot_receive),
        claim(recv_many_takes_what_is_there_up_to_its_maximum),
        claim(a_bad_message_is_returned_with_its_error_readable),
        claim(an_oversize_message_is_dropped_and_the_next_one_returned),
        claim(recv_returns_at_once_what_is_there_and_waits_for_what_is_not),
        claim(recv_gives_up_with_etimedout_and_the_message_comes_with_the_next_call),
        claim(recv_serves_the_other_sockets_of_the_base_meanwhile),
        claim(recv_inside_any_callback_of_the_base_is_edeadlk),
        claim(recv_returns_eintr_when_the_loop_is_broken),
        claim(recv_returns_ecanceled_when_its_socket_is_freed_meanwhile),
        claim(recv_returns_eterm_when_the_context_ends_meanwhile),
        claim(callbacks_go_on_where_the_receive_calls_stopped),
        claim(a_request_taken_with_try_recv_is_answered_like_any_other),
        claim(recv_waits_past_any_number_of_dropped_messages),
        claim(an_undecodable_request_taken_with_try_recv_waits_for_its_reply),
        claim(wrong_arguments_of_the_receive_calls_are_einval),
    };

    return run_claims(tests);
}
