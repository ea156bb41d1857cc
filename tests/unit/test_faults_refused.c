/*
 * Writes that a full queue refuses: they ask for room before anything is made of them. All memory
 * fails meanwhile, and none is asked for.
 */
#include "asker.h"
#include "audience.h"

#include <string.h>

#include "faults.h"

#define MEMORY (FAULTS_MEMORY | FAULT_COPY)

enum { PARTS = 10 }; /* more than fit without an allocation */

static void take_memory_away(void)
{
    faults_begin(NULL);
    faults_plan(MEMORY, 1, FOR_EVER, ENOMEM);
}

static void give_memory_back(void)
{
    faults_end();
    assert_int_equal(faults_count(MEMORY), 0);
}

/* A socket without a peer whose queue has room for one message, and that. */
static void open_full(struct fixture *f, struct probe *p, int type)
{
    probe_attach(f, p, peer_new(f, type), 0);
    assert_ok(evzmq_socket_set_output_limit(p->socket, 1, 0));
    assert_ok(evzmq_socket_write(p->socket, "first", 5));
    assert_int_equal(evzmq_socket_get_queued(p->socket, NULL), 1);
}

static void a_refused_write_takes_no_memory(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct evzmq_bytes parts[PARTS];
    for (size_t i = 0; i < PARTS; i++) {
        parts[i] = (struct evzmq_bytes){"x", 1};
    }
    open_full(f, &p, ZMQ_PUSH);
    take_memory_away();
    assert_errno(evzmq_socket_write(p.socket, "x", 1), EAGAIN);
    assert_errno(evzmq_socket_write(p.socket, NULL, 0), EAGAIN);
    assert_errno(evzmq_socket_write_parts(p.socket, parts, PARTS), EAGAIN);
    assert_errno(evzmq_socket_write_value(p.socket, parts), EAGAIN);
    give_memory_back();
    assert_int_equal(probe_stats(&p).writes_refused, 4);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 1);
    probe_free(&p);
}

static void a_write_of_too_many_bytes_takes_none_either(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    const struct evzmq_bytes parts[] = {{"123", 3}, {"456", 3}};
    open_full(f, &p, ZMQ_PUSH);
    assert_ok(evzmq_socket_set_output_limit(p.socket, 100, 10));
    take_memory_away();
    assert_errno(evzmq_socket_write(p.socket, "123456", 6), EAGAIN);
    assert_errno(evzmq_socket_write_parts(p.socket, parts, 2), EAGAIN);
    give_memory_back();
    assert_ok(evzmq_socket_write(p.socket, "12345", 5));
    assert_int_equal(probe_stats(&p).writes_refused, 2);
    probe_free(&p);
}

static void keep_envelope(struct probe *p, struct evzmq_message *message)
{
    p->arg = evzmq_envelope_dup(evzmq_message_get_envelope(message));
}

/* A peer of a ROUTER that takes one message and has one under way at the most. */
static void *open_peer(struct fixture *f, const char *id, const char *endpoint)
{
    void *const peer = peer_new(f, ZMQ_DEALER);
    peer_set_int(peer, ZMQ_RCVHWM, 1);
    assert_int_equal(zmq_setsockopt(peer, ZMQ_ROUTING_ID, id, strlen(id)), 0);
    peer_connect(peer, endpoint);
    return peer;
}

static void a_refused_reply_takes_no_memory_and_others_get_theirs(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = keep_envelope};
    char endpoint[ENDPOINT_SIZE];
    char text[32];
    const struct evzmq_bytes to_a[] = {{"A", 1}, {"x", 1}};
    const struct evzmq_bytes to_b[] = {{"B", 1}, {"x", 1}};
    void *const router = peer_new(f, ZMQ_ROUTER);
    peer_set_int(router, ZMQ_SNDHWM, 1);
    peer_bind(f, router, TRANSPORT_INPROC, endpoint);
    void *const a = open_peer(f, "A", endpoint);
    void *const b = open_peer(f, "B", endpoint);
    probe_attach(f, &p, router, 0);
    probe_enable(&p, EV_READ);
    assert_ok(evzmq_socket_set_output_limit(p.socket, 1, 0));
    peer_send_text(a, "hello");
    run_until(f, p.arg != NULL);
    while (evzmq_socket_get_queued(p.socket, NULL) == 0) {
        assert_ok(evzmq_socket_write_parts(p.socket, to_a, 2));
    }
    take_memory_away();
    assert_errno(evzmq_socket_write_parts(p.socket, to_a, 2), EAGAIN);
    assert_errno(evzmq_socket_reply(p.socket, p.arg, "x", 1), EAGAIN);
    assert_errno(evzmq_socket_reply_value(p.socket, p.arg, to_a), EAGAIN);
    give_memory_back();
    assert_ok(evzmq_socket_write_parts(p.socket, to_b, 2)); /* It need not be queued. */
    (void)peer_recv_text(b, text, sizeof(text));
    assert_string_equal(text, "x");
    evzmq_envelope_free(p.arg);
    probe_free(&p);
}

static void a_refused_record_takes_no_memory(void **state)
{
    struct fixture *const f = *state;
    for (int batching = EVZMQ_BATCH_OFF; batching <= EVZMQ_BATCH_PER_TOPIC; batching++) {
        const struct evzmq_publisher_options how = {.size = sizeof(how),
                                                    .batching = (enum evzmq_batching)batching,
                                                    .batch_records = 2,
                                                    .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
        struct speaker s = {0};
        speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
        struct evzmq_socket *const socket = evzmq_publisher_get_socket(s.publisher);
        assert_ok(evzmq_socket_set_output_limit(socket, 1, 0));
        assert_ok(evzmq_socket_disable(socket, EV_WRITE));
        while (speaker_stats(&s).queued_frames == 0) {
            speaker_say(&s, "t", "x");
        }
        if (batching != EVZMQ_BATCH_OFF) { /* And a batch that cannot follow it. */
            speaker_say(&s, "t", "x");
            speaker_say(&s, "t", "x");
        }
        take_memory_away();
        assert_errno(evzmq_publisher_publish(s.publisher, "t", "x", 1), EAGAIN);
        give_memory_back();
        speaker_free(&s);
    }
}

static void a_refused_request_takes_no_memory(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_requester_options options = {
        .size = sizeof(options), .retries_max = 1, .held_bytes_max = 100};
    const struct evzmq_bytes value = {"12345", 5};
    char large[90];
    struct asker a = {0};
    void *server = NULL;
    struct evzmq_message *const message = evzmq_message_new();
    memset(large, 'x', sizeof(large));
    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, &options);
    assert_ok(evzmq_message_add(message, large, sizeof(large)));
    (void)ask(&a, "q", -1);
    (void)ask(&a, "0123456789012345678901234567890123456789", -1); /* 73 bytes with the ids */
    assert_ok(evzmq_request_cancel(a.requester, ask(&a, "q", -1))); /* its memory is kept */
    take_memory_away();
    assert_errno(evzmq_request_bytes(a.requester, large, sizeof(large), -1, asker_note, &a),
                 EAGAIN);
    assert_errno(
        evzmq_request(a.requester, &(struct evzmq_bytes){large, sizeof(large)}, -1, asker_note, &a),
        EAGAIN);
    assert_errno(evzmq_request_message(a.requester, message, -1, asker_note, &a), EAGAIN);
    give_memory_back();
    assert_int_equal(asker_stats(&a).refused, 3);
    assert_part(message, 0, large, sizeof(large));
    assert_true(evzmq_request(a.requester, &value, -1, asker_note, &a) > 0);
    evzmq_message_free(message);
    asker_close(&a);
}

static void what_is_wrong_with_a_write_is_said_before_that_the_queue_is_full(void **state)
{
    struct fixture *const f = *state;
    const struct timeval later = {30, 0};
    const struct evzmq_bytes parts[] = {{"x", 1}, {NULL, 1}};
    struct probe push = {0};
    struct probe req = {0};
    open_full(f, &push, ZMQ_PUSH);
    open_full(f, &req, ZMQ_REQ);
    assert_errno(evzmq_socket_write(push.socket, NULL, 1), EINVAL);
    assert_errno(evzmq_socket_write_parts(push.socket, parts, 2), EINVAL);
    assert_errno(evzmq_socket_write_parts(push.socket, parts, 0), EINVAL);
    assert_errno(evzmq_socket_write_value(push.socket, NULL), EINVAL);
    assert_errno(evzmq_socket_write(req.socket, "x", 1), EFSM);
    assert_int_equal(probe_stats(&push).writes_refused + probe_stats(&req).writes_refused, 0);
    assert_errno(evzmq_socket_write(push.socket, "x", 1), EAGAIN);
    assert_ok(evzmq_socket_shutdown(push.socket, &later, NULL, NULL));
    assert_errno(evzmq_socket_write(push.socket, "x", 1), ESHUTDOWN);
    assert_int_equal(probe_stats(&push).writes_refused, 1);
    assert_int_equal(probe_stats(&push).writes_after_shutdown, 1);
    probe_free(&push);
    probe_free(&req);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(a_refused_write_takes_no_memory),
        claim(a_write_of_too_many_bytes_takes_none_either),
        claim(a_refused_reply_takes_no_memory_and_others_get_theirs),
        claim(a_refused_record_takes_no_memory),
        claim(a_refused_request_takes_no_memory),
        claim(what_is_wrong_with_a_write_is_said_before_that_the_queue_is_full),
    };
    return run_claims(tests);
}
