/**
 * @file test_blocked.c
 * A monitor tells why sends wait: nobody there, nobody let in, or peers that take no more.
 */
#include "support.h"

#include "watch.h"

static struct evzmq_blocked blocked(const struct watch *w)
{
    struct evzmq_blocked out = {.size = sizeof out};

    assert_ok(evzmq_monitor_get_blocked(w->monitor, &out));
    assert_int_equal(out.size, sizeof out);
    return out;
}

/* Only the last event is asked for: the rest is known all the same. */
static void *watched_push(struct fixture *f, struct watch *w)
{
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_set_int(push, ZMQ_IMMEDIATE, 1);
    peer_set_int(push, ZMQ_RECONNECT_IVL, 10);
    watch_open(f, w, push, EVZMQ_MONITOR_STOPPED);
    return push;
}

static void a_send_to_nobody_waits_for_a_peer(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    char endpoint[ENDPOINT_SIZE];
    void *const push = watched_push(f, &w);

    dead_endpoint(endpoint);
    peer_connect(push, endpoint);
    assert_int_equal(zmq_send(push, "x", 1, ZMQ_DONTWAIT), -1);
    assert_int_equal(blocked(&w).why, EVZMQ_BLOCKED_NO_PEER);
    assert_int_equal(blocked(&w).failure, 0);
    watch_close(&w);
}

static void a_send_to_a_slow_peer_waits_for_room_until_that_is_gone(void **state)
{
    struct fixture *const f = *state;

    for (enum transport transport = TRANSPORT_IPC; transport < TRANSPORTS; transport++) {
        struct watch w = {.f = f};
        char endpoint[ENDPOINT_SIZE];
        void *const push = watched_push(f, &w);
        void *const pull = peer_new(f, ZMQ_PULL);

        peer_bind(f, pull, transport, endpoint);
        peer_connect(push, endpoint);
        run_until(f, blocked(&w).peers == 1);
        assert_int_equal(blocked(&w).why, EVZMQ_BLOCKED_PEERS_FULL);
        peer_close(f, pull);
        run_until(f, blocked(&w).peers == 0);
        assert_int_equal(blocked(&w).why, EVZMQ_BLOCKED_NO_PEER);
        watch_close(&w);
        peer_close(f, push);
    }
}

static void a_send_to_a_peer_that_turns_us_away_waits_for_its_handshake(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    struct watch server = {.f = f};
    char endpoint[ENDPOINT_SIZE];
    void *const push = watched_push(f, &w);
    void *const pull = peer_new(f, ZMQ_PULL);

    assert_int_equal(zmq_setsockopt(push, ZMQ_PLAIN_USERNAME, "u", 1), 0);
    assert_int_equal(zmq_setsockopt(push, ZMQ_PLAIN_PASSWORD, "p", 1), 0);
    watch_open(f, &server, pull, EVZMQ_MONITOR_STOPPED);
    peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    peer_connect(push, endpoint);
    run_until(f, blocked(&w).why == EVZMQ_BLOCKED_HANDSHAKE &&
                     blocked(&server).why == EVZMQ_BLOCKED_HANDSHAKE);
    assert_int_equal(zmq_send(push, "x", 1, ZMQ_DONTWAIT), -1);
    assert_int_equal(blocked(&w).peers, 0);
    assert_int_equal(blocked(&server).failure, EVZMQ_MONITOR_HANDSHAKE_FAILED_PROTOCOL);
    assert_int_equal(blocked(&server).reason, ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH);

    /* One peer that speaks the same mechanism makes the failures of the others forgotten. */
    void *const good = peer_new(f, ZMQ_PUSH);
    peer_close(f, push);
    peer_connect(good, endpoint);
    run_until(f, blocked(&server).peers == 1);
    assert_int_equal(blocked(&server).why, EVZMQ_BLOCKED_PEERS_FULL);
    assert_int_equal(blocked(&server).failure, 0);
    peer_close(f, good);
    run_until(f, blocked(&server).peers == 0);
    assert_int_equal(blocked(&server).why, EVZMQ_BLOCKED_NO_PEER);
    watch_close(&w);
    watch_close(&server);
}

static void bad_arguments_are_refused(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    struct evzmq_blocked out = {.size = sizeof out};
    struct evzmq_blocked small = {.size = sizeof(size_t), .peers = 7};

    watch_open(f, &w, peer_new(f, ZMQ_PUSH), EVZMQ_MONITOR_STOPPED);
    assert_errno(evzmq_monitor_get_blocked(NULL, &out), EINVAL);
    assert_errno(evzmq_monitor_get_blocked(w.monitor, NULL), EINVAL);
    assert_ok(evzmq_monitor_get_blocked(w.monitor, &small));
    assert_int_equal(small.peers, 7);
    small.size = 1;
    assert_errno(evzmq_monitor_get_blocked(w.monitor, &small), EINVAL);
    watch_close(&w);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_send_to_nobody_waits_for_a_peer),
        claim(a_send_to_a_slow_peer_waits_for_room_until_that_is_gone),
        claim(a_send_to_a_peer_that_turns_us_away_waits_for_its_handshake),
        claim(bad_arguments_are_refused),
    };

    return run_claims(tests);
}
