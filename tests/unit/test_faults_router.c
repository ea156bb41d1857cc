/*
 * ROUTER with peers that do not read: what was written for them is parked, no edge is missed, and
 * nothing spins.
 */
#include "support.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "faults.h"
#include "socket.h"

/* Longer than the one pass that follows when peers stay parked. */
enum { SETTLE_MS = 30 };

/* A ROUTER with peers "A" and "B" whose pipes are full, and one message more parked for each. */
struct deaf {
    struct fixture *f;
    struct probe p;
    void *router;
    void *peers[2];
    char numbers[2]; /* of the last message written to each */
};

static void write_next(struct deaf *d, int peer)
{
    const char number = (char)(d->numbers[peer] + 1);
    const struct evzmq_bytes parts[] = {{peer == 0 ? "A" : "B", 1}, {&number, 1}};
    assert_ok(evzmq_socket_write_parts(d->p.socket, parts, 2));
    d->numbers[peer] = number;
}

static void deaf_setup(struct deaf *d, struct fixture *f)
{
    char endpoint[ENDPOINT_SIZE];
    *d = (struct deaf){.f = f, .numbers = {'0', '0'}};
    d->router = peer_new(f, ZMQ_ROUTER);
    peer_set_int(d->router, ZMQ_SNDHWM, 1);
    peer_bind(f, d->router, TRANSPORT_INPROC, endpoint);
    for (int i = 0; i < 2; i++) {
        d->peers[i] = peer_new(f, ZMQ_DEALER);
        peer_set_int(d->peers[i], ZMQ_RCVHWM, 1);
        assert_int_equal(zmq_setsockopt(d->peers[i], ZMQ_ROUTING_ID, i == 0 ? "A" : "B", 1), 0);
        peer_connect(d->peers[i], endpoint);
    }
    probe_attach(f, &d->p, d->router, 0);
    probe_take_time(&d->p);
    probe_enable(&d->p, EV_READ);
    fixture_glance(f);
    for (int i = 0; i < 2; i++) {
        while (evzmq_socket_get_queued(d->p.socket, NULL) == (size_t)i) {
            write_next(d, i);
        }
    }
    fixture_run_for(f, SETTLE_MS);
    assert_int_equal(probe_stats(&d->p).parked_peers, 2);
}

static void process_commands(void *socket)
{
    int events = 0;
    size_t size = sizeof(events);
    assert_int_equal(zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size), 0);
}

static int is_fd_readable(void *socket)
{
    struct pollfd item = {.fd = -1, .events = POLLIN};
    size_t size = sizeof(item.fd);
    assert_int_equal(zmq_getsockopt(socket, ZMQ_FD, &item.fd, &size), 0);
    return poll(&item, 1, 0);
}

/* Peer A reads all it has, and libzmq processes the command that says so in the middle of a call.
 */
static void a_reads_and_the_edge_is_used_up(void *arg)
{
    struct deaf *const d = arg;
    char text[64];
    while (peer_try_recv_text(d->peers[0], text, sizeof(text))) {
    }
    process_commands(d->router);
}

static void a_writes_and_the_edge_is_used_up(void *arg)
{
    struct deaf *const d = arg;
    peer_send_text(d->peers[0], "hello");
    process_commands(d->router);
}

/* A pass that tries A and B, looks, and tries A and B again: the last chance is the fourth. */
static void pass_with_an_edge_used_up_before_its_last_send(struct deaf *d, void (*run)(void *arg))
{
    faults_begin(d->router);
    faults_before(FAULT_SEND, 4, run, d);
    const uint64_t before = probe_wakeups(&d->p);
    event_active(d->p.socket->source->fd_event, EV_READ, 0);
    while (probe_wakeups(&d->p) == before) {
        fixture_turn(d->f);
    }
    assert_string_equal(faults_log(), "recv!EAGAIN send+!EAGAIN send+!EAGAIN look "
                                      "send+!EAGAIN send+!EAGAIN");
    faults_end();
    assert_int_equal(is_fd_readable(d->router), 0);
}

static void assert_no_more_wakeups(struct deaf *d)
{
    fixture_run_for(d->f, SETTLE_MS);
    const uint64_t before = probe_wakeups(&d->p);
    for (int turns = 0; turns < 1000; turns++) {
        fixture_glance(d->f);
    }
    fixture_run_for(d->f, SETTLE_MS);
    assert_int_equal(probe_wakeups(&d->p), before);
}

static void parked_peer_whose_edge_was_used_up_in_a_pass_is_served_by_one_more(void **state)
{
    struct fixture *f = *state;
    struct deaf d;
    char text[64];

    deaf_setup(&d, f);
    pass_with_an_edge_used_up_before_its_last_send(&d, a_reads_and_the_edge_is_used_up);
    assert_int_equal(evzmq_socket_get_queued(d.p.socket, NULL), 2);
    const uint64_t before = probe_wakeups(&d.p);
    run_until(f, evzmq_socket_get_queued(d.p.socket, NULL) == 1);
    assert_int_equal(probe_wakeups(&d.p), before + 1);
    (void)peer_recv_text(d.peers[0], text, sizeof(text));
    assert_int_equal(text[0], d.numbers[0]);
    assert_no_more_wakeups(&d);
    probe_free(&d.p);
}

static void message_whose_edge_was_used_up_by_a_try_for_a_parked_peer_is_received(void **state)
{
    struct fixture *f = *state;
    struct deaf d;

    deaf_setup(&d, f);
    pass_with_an_edge_used_up_before_its_last_send(&d, a_writes_and_the_edge_is_used_up);
    const uint64_t before = probe_wakeups(&d.p);
    run_until(f, d.p.reads == 1);
    assert_int_equal(probe_wakeups(&d.p), before + 1);
    assert_string_equal(d.p.log, "A|hello");
    assert_no_more_wakeups(&d);
    probe_free(&d.p);
}

static void parked_peers_cost_no_wakeups(void **state)
{
    struct fixture *f = *state;
    struct deaf d;

    deaf_setup(&d, f);
    assert_no_more_wakeups(&d);
    probe_free(&d.p);
}

/* A pass longer than libzmq's throttle may use up an edge again, so that another one follows. */
static void every_parked_peer_gets_all_in_order_whenever_it_reads(void **state)
{
    struct fixture *f = *state;
    struct deaf d;
    char text[64];

    deaf_setup(&d, f);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 8; k++) {
            write_next(&d, i);
        }
    }
    for (int i = 1; i >= 0; i--) {
        for (char number = '1'; number <= d.numbers[i]; number++) {
            pump_recv_text(f, d.peers[i], text, sizeof(text));
            assert_int_equal(text[0], number);
        }
    }
    assert_int_equal(evzmq_socket_get_queued(d.p.socket, NULL), 0);
    assert_no_more_wakeups(&d);
    probe_free(&d.p);
}

/* A budget of messages counts what is sent: trying peers in vain is not that. */
static void more_parked_peers_than_the_budget_has_messages_cost_no_wakeups(void **state)
{
    struct fixture *f = *state;
    struct deaf d;
    const struct evzmq_budget budget = {.size = sizeof(budget), .write_messages = 1};

    deaf_setup(&d, f);
    assert_ok(evzmq_socket_set_budget(d.p.socket, &budget));
    assert_no_more_wakeups(&d);
    faults_begin(d.router);
    faults_plan(FAULT_SEND, 1, FOR_EVER, EAGAIN);
    for (unsigned i = 0; i < 4; i++) {
        char id[8];
        (void)snprintf(id, sizeof(id), "%u", i);
        const struct evzmq_bytes parts[] = {{id, strlen(id)}, {"x", 1}};
        assert_ok(evzmq_socket_write_parts(d.p.socket, parts, 2));
    }
    assert_no_more_wakeups(&d);
    assert_int_equal(probe_stats(&d.p).parked_peers, 6);
    faults_end();
    probe_free(&d.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(parked_peer_whose_edge_was_used_up_in_a_pass_is_served_by_one_more),
        claim(message_whose_edge_was_used_up_by_a_try_for_a_parked_peer_is_received),
        claim(parked_peers_cost_no_wakeups),
        claim(every_parked_peer_gets_all_in_order_whenever_it_reads),
        claim(more_parked_peers_than_the_budget_has_messages_cost_no_wakeups),
    };
    return run_claims(tests);
}
