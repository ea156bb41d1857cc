/*
 * Sending when libzmq fails or peers go away in the middle of it.
 */
#include "support.h"

#include <string.h>

#include "faults.h"
#include "socket.h"

/* A plain socket bound on inproc, where libzmq's commands arrive without an I/O thread. */
static void *bound_new(struct fixture *f, int type, char endpoint[ENDPOINT_SIZE])
{
    void *const socket = peer_new(f, type);
    peer_bind(f, socket, TRANSPORT_INPROC, endpoint);
    return socket;
}

static void *connected_new(struct fixture *f, int type, const char *endpoint)
{
    void *const socket = peer_new(f, type);
    peer_connect(socket, endpoint);
    return socket;
}

/* An adapter that sends, and a plain socket that it sends to. */
static void *sender_new(struct fixture *f, struct probe *p, int type, int peer_type,
                        void **out_peer, char endpoint[ENDPOINT_SIZE])
{
    void *const socket = bound_new(f, type, endpoint);
    *out_peer = connected_new(f, peer_type, endpoint);
    probe_attach(f, p, socket, 0);
    fixture_glance(f);
    return socket;
}

static void write_text(struct probe *p, const char *a, const char *b, const char *c)
{
    const struct evzmq_bytes parts[] = {{a, strlen(a)}, {b, strlen(b)}, {c, strlen(c)}};
    assert_ok(evzmq_socket_write_parts(p->socket, parts, 3));
}

static void assert_next(void *peer, const char *expected)
{
    char text[256];
    (void)peer_recv_text(peer, text, sizeof(text));
    assert_string_equal(text, expected);
}

static void assert_none(void *peer)
{
    char text[256];
    assert_false(peer_try_recv_text(peer, text, sizeof(text)));
}

/* A peer that is to go away while the adapter sends. It disconnects rather than closes: then its
 * half of the pipe is this thread's too, and nothing happens but what the test does. */
struct loss {
    struct fixture *f;
    void *socket; /* the adapter's */
    void *peer;
    const char *endpoint;
    void *next; /* a peer that came then */
    bool complete; /* the adapter's socket hears all of it, not only the beginning */
};

static void process_commands(void *socket)
{
    int events = 0;
    size_t size = sizeof(events);
    assert_int_equal(zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size), 0);
}

static void lose_peer(void *arg)
{
    struct loss *const loss = arg;
    process_commands(loss->peer);
    assert_int_equal(zmq_disconnect(loss->peer, loss->endpoint), 0);
    process_commands(loss->socket);
    if (loss->complete) {
        process_commands(loss->peer);
        process_commands(loss->socket);
    }
}

static void gain_peer(void *arg)
{
    struct loss *const loss = arg;
    loss->next = connected_new(loss->f, ZMQ_PAIR, loss->endpoint);
    process_commands(loss->socket);
}

static void message_whose_peer_goes_between_parts_goes_whole_to_the_next_peer(void **state)
{
    struct fixture *f = *state;
    for (size_t part = 2; part <= 3; part++) {
        struct probe p = {0};
        char endpoint[ENDPOINT_SIZE];
        struct loss loss = {.f = f, .endpoint = endpoint};
        loss.socket = sender_new(f, &p, ZMQ_PUSH, ZMQ_PULL, &loss.peer, endpoint);

        faults_begin(loss.socket);
        faults_before(FAULT_SEND, part, lose_peer, &loss);
        write_text(&p, "a", "b", "c");
        faults_end();
        assert_int_equal(probe_stats(&p).restarts, 1);
        assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 1);
        assert_ok(evzmq_socket_write(p.socket, "d", 1));
        void *const next = connected_new(f, ZMQ_PULL, endpoint);
        run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
        assert_next(next, "a|b|c");
        assert_next(next, "d");
        assert_none(next);
        assert_int_equal(p.events[EVZMQ_EVENT_DRAINED], p.events_all);
        probe_free(&p);
    }
}

static void message_whose_peer_goes_between_parts_goes_whole_to_another_peer_at_once(void **state)
{
    struct fixture *f = *state;
    for (size_t part = 2; part <= 3; part++) {
        struct probe p = {0};
        char endpoint[ENDPOINT_SIZE];
        struct loss loss = {.f = f, .endpoint = endpoint};
        loss.socket = sender_new(f, &p, ZMQ_DEALER, ZMQ_DEALER, &loss.peer, endpoint);
        void *const other = connected_new(f, ZMQ_DEALER, endpoint);
        fixture_glance(f);

        faults_begin(loss.socket);
        faults_before(FAULT_SEND, part, lose_peer, &loss);
        write_text(&p, "a", "b", "c");
        faults_end();
        assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
        assert_next(other, "a|b|c");
        assert_none(other);
        probe_free(&p);
    }
}

static void queued_message_whose_peer_goes_between_parts_stays_queued_whole(void **state)
{
    struct fixture *f = *state;
    for (size_t part = 2; part <= 3; part++) {
        struct probe p = {0};
        char endpoint[ENDPOINT_SIZE];
        struct loss loss = {.f = f, .endpoint = endpoint};
        loss.socket = sender_new(f, &p, ZMQ_PUSH, ZMQ_PULL, &loss.peer, endpoint);

        assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
        write_text(&p, "a", "b", "c");
        write_text(&p, "d", "e", "f");
        faults_begin(loss.socket);
        faults_before(FAULT_SEND, part, lose_peer, &loss);
        probe_enable(&p, EV_WRITE);
        fixture_glance(f);
        faults_end();
        assert_int_equal(probe_stats(&p).restarts, 1);
        assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 2);
        void *const next = connected_new(f, ZMQ_PULL, endpoint);
        run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
        assert_next(next, "a|b|c");
        assert_next(next, "d|e|f");
        assert_none(next);
        probe_free(&p);
    }
}

/* When libzmq has heard all of a peer's end, it drops the rest of the message with success. */
static void message_lost_with_its_peer_leaves_the_following_ones_whole(void **state)
{
    struct fixture *f = *state;
    for (size_t part = 2; part <= 3; part++) {
        struct probe p = {0};
        char endpoint[ENDPOINT_SIZE];
        struct loss loss = {.f = f, .endpoint = endpoint, .complete = true};
        loss.socket = sender_new(f, &p, ZMQ_PUSH, ZMQ_PULL, &loss.peer, endpoint);

        faults_begin(loss.socket);
        faults_before(FAULT_SEND, part, lose_peer, &loss);
        write_text(&p, "a", "b", "c");
        faults_end();
        write_text(&p, "d", "e", "f");
        void *const next = connected_new(f, ZMQ_PULL, endpoint);
        run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
        assert_next(next, "d|e|f");
        assert_none(next);
        probe_free(&p);
    }
}

/* PAIR has no notion of a message to be dropped: what is sent after the loss is sent. */
static void pair_whose_peer_goes_between_parts_gives_the_next_peer_no_half_message(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    struct loss loss = {.f = f, .endpoint = endpoint, .complete = true};
    loss.socket = sender_new(f, &p, ZMQ_PAIR, ZMQ_PAIR, &loss.peer, endpoint);

    faults_begin(loss.socket);
    faults_before(FAULT_SEND, 2, lose_peer, &loss);
    faults_before(FAULT_SEND, 3, gain_peer, &loss);
    write_text(&p, "a", "b", "c");
    faults_end();
    if (loss.next == NULL) {
        loss.next = connected_new(f, ZMQ_PAIR, endpoint);
    }
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    assert_next(loss.next, "a|b|c");
    assert_none(loss.next);
    probe_free(&p);
}

/* A ROUTER with two peers whose routing ids are "A" and "B". */
static void *router_new(struct fixture *f, struct probe *p, void *peers[2])
{
    char endpoint[ENDPOINT_SIZE];
    void *const router = bound_new(f, ZMQ_ROUTER, endpoint);
    for (int i = 0; i < 2; i++) {
        peers[i] = peer_new(f, ZMQ_DEALER);
        assert_int_equal(zmq_setsockopt(peers[i], ZMQ_ROUTING_ID, i == 0 ? "A" : "B", 1), 0);
        peer_connect(peers[i], endpoint);
    }
    probe_attach(f, p, router, 0);
    fixture_glance(f);
    return router;
}

static void message_to_nobody_is_abandoned_at_its_first_part(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peers[2];
    void *const router = router_new(f, &p, peers);
    const struct evzmq_bytes parts[] = {{"nobody", 6}, {"b", 1}, {"c", 1}};

    faults_begin(router);
    assert_errno(evzmq_socket_write_parts(p.socket, parts, 3), EHOSTUNREACH);
    assert_string_equal(faults_log(), "send+!EHOSTUNREACH");
    faults_end();
    write_text(&p, "A", "b", "c");
    assert_next(peers[0], "b|c");
    probe_free(&p);
}

static void queued_message_to_nobody_is_abandoned_and_the_others_go_on(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peers[2];
    void *const router = router_new(f, &p, peers);

    assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
    write_text(&p, "A", "1", "2");
    write_text(&p, "nobody", "x", "y");
    write_text(&p, "nobody", "z", "z");
    write_text(&p, "B", "3", "4");
    write_text(&p, "A", "5", "6");
    faults_begin(router);
    probe_enable(&p, EV_WRITE);
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    faults_end();
    assert_int_equal(p.events[EVZMQ_EVENT_UNDELIVERABLE], 2);
    assert_int_equal(probe_stats(&p).undeliverable, 2);
    assert_next(peers[0], "1|2");
    assert_next(peers[0], "5|6");
    assert_next(peers[1], "3|4");
    assert_none(peers[0]);
    assert_none(peers[1]);
    probe_free(&p);
}

static void nothing_comes_between_the_parts_of_an_interrupted_message(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    char endpoint[ENDPOINT_SIZE];
    void *const push = sender_new(f, &p, ZMQ_PUSH, ZMQ_PULL, &peer, endpoint);

    faults_begin(push);
    faults_plan(FAULT_SEND, 2, FOR_EVER, EINTR);
    write_text(&p, "a", "b", "c");
    const size_t calls = faults_count(FAULT_SEND);
    assert_true(calls < 1000);
    assert_ok(evzmq_socket_write(p.socket, "d", 1));
    write_text(&p, "e", "f", "g");
    assert_int_equal(faults_count(FAULT_SEND), calls);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 3);
    fixture_turn(f); /* interrupted again */
    faults_end();
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    assert_next(peer, "a|b|c");
    assert_next(peer, "d");
    assert_next(peer, "e|f|g");
    assert_none(peer);
    assert_int_equal(p.events[EVZMQ_EVENT_DRAINED], p.events_all);
    assert_int_equal(probe_stats(&p).messages_out, 3);
    probe_free(&p);
}

static void interrupted_message_to_one_peer_holds_back_those_to_others(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peers[2];
    void *const router = router_new(f, &p, peers);

    faults_begin(router);
    faults_plan(FAULT_SEND, 3, FOR_EVER, EINTR);
    write_text(&p, "A", "1", "2");
    write_text(&p, "B", "3", "4");
    write_text(&p, "A", "5", "6");
    fixture_turn(f);
    faults_end();
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    assert_next(peers[0], "1|2");
    assert_next(peers[0], "5|6");
    assert_next(peers[1], "3|4");
    assert_none(peers[0]);
    assert_none(peers[1]);
    probe_free(&p);
}

/* The adapter may queue "B" before it begins "A": the interrupted lane is still served first. */
static void message_interrupted_in_a_flush_is_gone_on_with_before_the_others(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peers[2];
    void *const router = router_new(f, &p, peers);

    for (size_t n = 1; n <= 6; n++) {
        assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
        write_text(&p, "A", "1", "2");
        write_text(&p, "B", "3", "4");
        faults_begin(router);
        faults_plan(FAULT_SEND, n, FOR_EVER, EINTR);
        probe_enable(&p, EV_WRITE);
        fixture_turn(f);
        fixture_turn(f);
        faults_end();
        write_text(&p, "A", "5", "6");
        write_text(&p, "B", "7", "8");
        run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
        assert_next(peers[0], "1|2");
        assert_next(peers[0], "5|6");
        assert_next(peers[1], "3|4");
        assert_next(peers[1], "7|8");
        assert_none(peers[0]);
        assert_none(peers[1]);
    }
    probe_free(&p);
}

static void interrupted_message_whose_peer_goes_is_sent_whole_again(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    struct loss loss = {.f = f, .endpoint = endpoint};
    loss.socket = sender_new(f, &p, ZMQ_PUSH, ZMQ_PULL, &loss.peer, endpoint);

    faults_begin(loss.socket);
    faults_plan(FAULT_SEND, 3, FOR_EVER, EINTR);
    write_text(&p, "a", "b", "c");
    faults_end();
    lose_peer(&loss);
    fixture_glance(f);
    assert_int_equal(probe_stats(&p).restarts, 1);
    void *const next = connected_new(f, ZMQ_PULL, endpoint);
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    assert_next(next, "a|b|c");
    assert_none(next);
    probe_free(&p);
}

static void next_writer_to_the_raw_socket_starts_a_message(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    char endpoint[ENDPOINT_SIZE];
    void *const push = sender_new(f, &p, ZMQ_PUSH, ZMQ_PULL, &peer, endpoint);

    faults_begin(push);
    faults_plan(FAULT_SEND, 2, FOR_EVER, EINTR);
    write_text(&p, "a", "b", "c");
    faults_end();
    probe_free(&p);
    peer_send_text(push, "d|e");
    assert_next(peer, "a|b|c");
    assert_next(peer, "d|e");
}

static void interrupted_single_part_is_an_error_and_nothing_is_sent(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    char endpoint[ENDPOINT_SIZE];
    void *const push = sender_new(f, &p, ZMQ_PUSH, ZMQ_PULL, &peer, endpoint);

    faults_begin(push);
    faults_plan(FAULT_SEND, 1, FOR_EVER, EINTR);
    assert_errno(evzmq_socket_write(p.socket, "a", 1), EINTR);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
    faults_end();
    assert_ok(evzmq_socket_write(p.socket, "b", 1));
    assert_next(peer, "b");
    assert_none(peer);
    probe_free(&p);
}

static void short_interruption_is_not_noticed(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    char endpoint[ENDPOINT_SIZE];
    void *const push = sender_new(f, &p, ZMQ_PUSH, ZMQ_PULL, &peer, endpoint);

    for (size_t n = 1; n <= 3; n++) {
        faults_begin(push);
        faults_plan(FAULT_SEND, n, 3, EINTR);
        write_text(&p, "a", "b", "c");
        faults_end();
        assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
        assert_next(peer, "a|b|c");
    }
    probe_free(&p);
}

/* libzmq processes its commands once in a while only, unless ZMQ_EVENTS is read. */
static void eagain_is_believed_only_after_a_look(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    char endpoint[ENDPOINT_SIZE];
    void *const push = sender_new(f, &p, ZMQ_PUSH, ZMQ_PULL, &peer, endpoint);

    faults_begin(push);
    faults_plan(FAULT_SEND, 1, 1, EAGAIN);
    assert_ok(evzmq_socket_write(p.socket, "a", 1));
    assert_string_equal(faults_log(), "send!EAGAIN look send");
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
    assert_int_equal(probe_stats(&p).send_eagains, 1);
    faults_end();
    assert_next(peer, "a");
    probe_free(&p);
}

/* Sending may use up the edge of input, so a look must follow: one, not one for each message. */
static void a_burst_of_writes_looks_once(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    char endpoint[ENDPOINT_SIZE];
    void *const push = sender_new(f, &p, ZMQ_PUSH, ZMQ_PULL, &peer, endpoint);

    faults_begin(push);
    for (int i = 0; i < 100; i++) {
        assert_ok(evzmq_socket_write(p.socket, "a", 1));
    }
    assert_int_equal(faults_count(FAULT_SEND), 100);
    assert_int_equal(faults_count(FAULT_LOOK), 0);
    for (int turns = 0; turns < 10; turns++) {
        fixture_glance(f);
    }
    assert_int_equal(faults_count(FAULT_LOOK), 1);
    faults_end();
    for (int i = 0; i < 100; i++) {
        assert_next(peer, "a");
    }
    probe_free(&p);
}

static void no_memory_in_a_flush_is_one_event_a_retry_and_loses_nothing(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    char endpoint[ENDPOINT_SIZE];
    void *const push = sender_new(f, &p, ZMQ_PUSH, ZMQ_PULL, &peer, endpoint);

    assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
    write_text(&p, "a", "b", "c");
    faults_begin(push);
    faults_plan(FAULT_SEND, 2, 2, ENOMEM);
    probe_enable(&p, EV_WRITE);
    const uint64_t before = probe_wakeups(&p);
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    assert_int_equal(p.events[EVZMQ_EVENT_ERROR], 2);
    assert_int_equal(p.events[EVZMQ_EVENT_UNDELIVERABLE], 0);
    assert_in_range(probe_wakeups(&p) - before, 3, 4);
    faults_end();
    assert_next(peer, "a|b|c");
    assert_none(peer);
    probe_free(&p);
}

/* With ZMQ_XPUB_NODROP a full subscriber gives EAGAIN while ZMQ_POLLOUT stays set. */
static void publisher_that_may_not_drop_waits_for_its_subscriber_without_spinning(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    char text[64];
    void *const pub = peer_new(f, ZMQ_XPUB);
    void *const sub = peer_new(f, ZMQ_SUB);
    peer_set_int(pub, ZMQ_XPUB_NODROP, 1);
    peer_set_int(pub, ZMQ_SNDHWM, 2);
    peer_set_int(sub, ZMQ_RCVHWM, 2);
    peer_bind(f, pub, TRANSPORT_INPROC, endpoint);
    peer_connect(sub, endpoint);
    assert_true(zmq_recv(pub, text, sizeof(text), 0) > 0); /* the subscription */
    probe_attach(f, &p, pub, 0);
    fixture_glance(f);

    size_t written = 0;
    while (evzmq_socket_get_queued(p.socket, NULL) < 5) {
        assert_ok(evzmq_socket_write(p.socket, &"0123456789abcdef"[written++], 1));
        assert_true(written < 16);
    }
    for (int turns = 0; turns < 5; turns++) {
        fixture_glance(f);
    }
    const uint64_t wakeups = probe_wakeups(&p);
    for (int turns = 0; turns < 100; turns++) {
        fixture_glance(f);
    }
    assert_int_equal(probe_wakeups(&p), wakeups);
    for (size_t i = 0; i < written; i++) {
        pump_recv_text(f, sub, text, sizeof(text));
        assert_int_equal(text[0], "0123456789abcdef"[i]);
    }
    fixture_glance(f);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
    probe_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(message_whose_peer_goes_between_parts_goes_whole_to_the_next_peer),
        claim(message_whose_peer_goes_between_parts_goes_whole_to_another_peer_at_once),
        claim(queued_message_whose_peer_goes_between_parts_stays_queued_whole),
        claim(message_lost_with_its_peer_leaves_the_following_ones_whole),
        claim(pair_whose_peer_goes_between_parts_gives_the_next_peer_no_half_message),
        claim(message_to_nobody_is_abandoned_at_its_first_part),
        claim(queued_message_to_nobody_is_abandoned_and_the_others_go_on),
        claim(nothing_comes_between_the_parts_of_an_interrupted_message),
        claim(interrupted_message_to_one_peer_holds_back_those_to_others),
        claim(message_interrupted_in_a_flush_is_gone_on_with_before_the_others),
        claim(interrupted_message_whose_peer_goes_is_sent_whole_again),
        claim(next_writer_to_the_raw_socket_starts_a_message),
        claim(interrupted_single_part_is_an_error_and_nothing_is_sent),
        claim(short_interruption_is_not_noticed),
        claim(eagain_is_believed_only_after_a_look),
        claim(a_burst_of_writes_looks_once),
        claim(no_memory_in_a_flush_is_one_event_a_retry_and_loses_nothing),
        claim(publisher_that_may_not_drop_waits_for_its_subscriber_without_spinning),
    };
    return run_claims(tests);
}
