/**
 * @file test_codec_on_socket.c
 * Which codec decodes which message of which socket type, and codecs of a program's own.
 */
#include "support.h"

#include <string.h>

#include <evzmq/msgpack.h>

/* A codec with one byte of prefix to skip, which counts what is done with it. */
struct prefix_state {
    int destroyed;
};

static int prefix_decode(const void *state, const void *data, size_t size,
                         struct evzmq_arena *arena, const void **out_value,
                         struct evzmq_decode_error *out_error)
{
    struct evzmq_bytes *const value = evzmq_arena_alloc(arena, sizeof *value);

    (void)state;
    if (value == NULL || size < 1) {
        out_error->kind = value == NULL ? EVZMQ_DECODE_NOMEM : EVZMQ_DECODE_TRUNCATED;
        out_error->offset = 0;
        return -1;
    }
    value->data = (const char *)data + 1;
    value->size = size - 1;
    *out_value = value;
    return 0;
}

static void prefix_destroy(void *state)
{
    struct prefix_state *const prefix = state;

    prefix->destroyed++;
}

static const struct evzmq_codec_methods prefix_methods = {
    .size = sizeof prefix_methods,
    .name = "prefix",
    .decode = prefix_decode,
    .destroy = prefix_destroy,
};

static void read_prefixed(struct probe *p, struct evzmq_message *message)
{
    const struct evzmq_bytes *const value = evzmq_message_get_value(message);

    (void)p;
    assert_non_null(value);
    assert_int_equal(value->size, 4);
    assert_memory_equal(value->data, "body", 4);
    assert_ptr_equal(evzmq_codec_get_methods(evzmq_message_get_codec(message)), &prefix_methods);
    assert_null(evzmq_msgpack_value(message)); /* It is another codec's. */
}

static void a_program_may_bring_a_codec_that_skips_a_prefix(void **state)
{
    struct fixture *const f = *state;
    struct prefix_state prefix = {0};
    struct evzmq_codec *const codec = evzmq_codec_new(&prefix_methods, &prefix);
    struct probe p = {.on_read = read_prefixed};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    assert_ok(evzmq_socket_set_codec(p.socket, codec));
    evzmq_codec_free(codec);
    probe_enable(&p, EV_READ);
    peer_send_text(push, "Xbody");
    run_until(f, p.reads == 1);
    assert_errno(evzmq_socket_write_value(p.socket, &prefix), ENOTSUP);
    assert_int_equal(prefix.destroyed, 0);
    probe_free(&p);
    assert_int_equal(prefix.destroyed, 1);
}

static void read_and_switch(struct probe *p, struct evzmq_message *message)
{
    struct evzmq_codec *codec = NULL;

    if (p->reads == 1) {
        codec = evzmq_msgpack_codec_new(NULL);
        assert_non_null(codec);
        assert_ok(evzmq_socket_set_codec(p->socket, codec));
        evzmq_codec_free(codec);
        assert_null(evzmq_msgpack_value(message)); /* This message keeps the codec it came with. */
        assert_non_null(evzmq_message_get_value(message));
    } else if (p->reads == 2) {
        assert_non_null(evzmq_msgpack_value(message));
        assert_ok(evzmq_socket_set_codec(p->socket, NULL)); /* Raw again; the value stays. */
        assert_int_equal(evzmq_msgpack_value(message)->via.array.size, 2);
    } else {
        assert_null(evzmq_msgpack_value(message));
        assert_non_null(evzmq_message_get_value(message));
    }
}

static void a_codec_set_in_a_callback_applies_from_the_next_message_on(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_switch};
    char bytes[64];
    const size_t size = pack_record(1, "x", bytes, sizeof bytes);
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    for (int i = 0; i < 3; i++) {
        peer_send(push, bytes, size);
    }
    run_until(f, p.reads == 3);
    probe_free(&p);
}

static void read_raw(struct probe *p, struct evzmq_message *message)
{
    const struct evzmq_bytes *const value = evzmq_message_get_value(message);

    (void)p;
    assert_ptr_equal(evzmq_message_get_codec(message), evzmq_codec_raw());
    assert_int_equal(value->size, 4);
    assert_memory_equal(value->data, "last", 4);
}

static void new_sockets_have_the_raw_codec(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_raw};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    peer_send_text(push, "first|last");
    run_until(f, p.reads == 1);
    probe_free(&p);
}

static void stream_takes_the_raw_codec_only(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct evzmq_socket *const socket = evzmq_socket_new(f->base, peer_new(f, ZMQ_STREAM), 0);

    assert_errno(evzmq_socket_set_codec(socket, codec), ENOTSUP);
    assert_ok(evzmq_socket_set_codec(socket, evzmq_codec_raw()));
    assert_ok(evzmq_socket_set_codec(socket, NULL));
    evzmq_socket_free(socket);
    evzmq_codec_free(codec);
}

static void probe_msgpack(struct fixture *f, struct probe *p, void *zmq_socket)
{
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);

    probe_attach(f, p, zmq_socket, 0);
    assert_ok(evzmq_socket_set_codec(p->socket, codec));
    evzmq_codec_free(codec);
    probe_enable(p, EV_READ);
}

static void read_subscription(struct probe *p, struct evzmq_message *message)
{
    (void)p;
    assert_part(message, 0, "\001topic", 6);
    assert_null(evzmq_msgpack_value(message));
    assert_int_equal(evzmq_message_get_decode_error(message, NULL), 0);
}

static void subscriptions_that_xpub_receives_are_never_decoded(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_subscription};
    void *xpub = NULL;
    void *xsub = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_XPUB, &xpub, ZMQ_XSUB, &xsub);
    probe_msgpack(f, &p, xpub);
    peer_send(xsub, "\001topic", 6);
    run_until(f, p.reads == 1);
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

static void read_envelope_and_record(struct probe *p, struct evzmq_message *message)
{
    const msgpack_object *const value = evzmq_msgpack_value(message);

    assert_non_null(value);
    assert_int_equal(value->via.array.ptr[0].via.u64, 7);
    assert_ok(evzmq_socket_reply_value(p->socket, evzmq_message_get_envelope(message), value));
}

static void router_decodes_behind_the_envelope_and_replies_with_values(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_envelope_and_record};
    char bytes[64];
    char text[64];
    const size_t size = pack_record(7, "seven", bytes, sizeof bytes);
    void *router = NULL;
    void *req = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_ROUTER, &router, ZMQ_REQ, &req);
    probe_msgpack(f, &p, router);
    peer_send(req, bytes, size);
    pump_recv_text(f, req, text, sizeof text);
    assert_memory_equal(text, bytes, size);
    probe_free(&p);
}

static void an_undecodable_request_is_answered_empty_and_rep_lives_on(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char bytes[64];
    char text[64];
    void *rep = NULL;
    void *req = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_REP, &rep, ZMQ_REQ, &req);
    probe_msgpack(f, &p, rep);
    for (int i = 0; i < 3; i++) {
        peer_send(req, "\xc1", 1);
        pump_recv_text(f, req, text, sizeof text);
        assert_string_equal(text, "");
    }
    peer_send(req, bytes, pack_record(1, "good", bytes, sizeof bytes));
    run_until(f, p.reads == 1);
    assert_ok(evzmq_socket_reply(p.socket, NULL, "ok", 2));
    pump_recv_text(f, req, text, sizeof text);
    assert_string_equal(text, "ok");
    assert_int_equal(p.events[EVZMQ_EVENT_DECODE_ERROR], 3);
    probe_free(&p);
}

static void answer_bad_request(struct probe *p, const struct evzmq_event *event)
{
    assert_ok(evzmq_socket_reply(p->socket, evzmq_message_get_envelope(event->message), "bad", 3));
}

static void an_undecodable_request_may_be_answered_by_the_event_callback(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_event = answer_bad_request};
    char text[64];
    void *rep = NULL;
    void *req = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_REP, &rep, ZMQ_REQ, &req);
    probe_msgpack(f, &p, rep);
    for (int i = 0; i < 3; i++) {
        peer_send(req, "\xc1", 1);
        pump_recv_text(f, req, text, sizeof text);
        assert_string_equal(text, "bad");
    }
    probe_free(&p);
}

static struct evzmq_message *kept;

static void read_and_take(struct probe *p, struct evzmq_message *message)
{
    (void)p;
    kept = evzmq_message_take(message);
    assert_non_null(kept);
    assert_non_null(evzmq_msgpack_value(message)); /* The lent one stays readable. */
    assert_null(evzmq_message_get_value(kept));
}

static void a_kept_message_outlives_its_socket_and_is_decoded_again_on_request(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct probe p = {.on_read = read_and_take};
    static char large[20000];
    char bytes[20100];
    const size_t sizes[2] = {10, sizeof large - 1};
    void *pull = NULL;
    void *push = NULL;

    memset(large, 'y', sizeof large - 1);
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    for (int i = 0; i < 2; i++) {
        p = (struct probe){.on_read = read_and_take};
        probe_msgpack(f, &p, pull);
        peer_send(push, bytes,
                  pack_record(9, large + sizeof large - 1 - sizes[i], bytes, sizeof bytes));
        run_until(f, p.reads == 1);
        probe_free(&p);
        assert_ok(evzmq_message_decode(kept, codec, NULL));
        assert_int_equal(evzmq_msgpack_value(kept)->via.array.ptr[1].via.str.size, sizes[i]);
        evzmq_message_free(kept);
    }
    evzmq_codec_free(codec);
}

static void read_and_try_to_change(struct probe *p, struct evzmq_message *message)
{
    struct evzmq_decode_error error;
    char bytes[] = "bytes";

    (void)p;
    assert_errno(evzmq_message_add(message, "x", 1), EINVAL);
    assert_errno(evzmq_message_add_reference(message, bytes, 5, NULL, NULL), EINVAL);
    assert_errno(evzmq_message_decode(message, evzmq_codec_raw(), &error), EINVAL);
    evzmq_message_free(message); /* It is not ours: nothing happens. */
    assert_int_equal(evzmq_message_get_part_count(message), 2);
    assert_part(message, 1, "lent", 4);
    errno = 0;
    assert_null(evzmq_message_get_part(message, 2, NULL));
    assert_int_equal(errno, EINVAL);
}

static void a_lent_message_cannot_be_changed_or_freed(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_try_to_change};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    for (size_t mode = EVZMQ_RECEIVE_AUTO; mode <= EVZMQ_RECEIVE_OWNED; mode++) {
        assert_ok(evzmq_socket_set_receive_mode(p.socket, (enum evzmq_receive_mode)mode));
        peer_send_text(push, "a|lent");
        run_until(f, p.reads == mode + 1);
    }
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_program_may_bring_a_codec_that_skips_a_prefix),
        claim(a_codec_set_in_a_callback_applies_from_the_next_message_on),
        claim(new_sockets_have_the_raw_codec),
        claim(stream_takes_the_raw_codec_only),
        claim(subscriptions_that_xpub_receives_are_never_decoded),
        claim(router_decodes_behind_the_envelope_and_replies_with_values),
        claim(an_undecodable_request_is_answered_empty_and_rep_lives_on),
        claim(an_undecodable_request_may_be_answered_by_the_event_callback),
        claim(a_kept_message_outlives_its_socket_and_is_decoded_again_on_request),
        claim(a_lent_message_cannot_be_changed_or_freed),
    };

    return run_claims(tests);
}
