/**
 * @file test_router.c
 * A ROUTER with several peers: those that do not read, are gone or were never there.
 */
#include "support.h"

#include <stdio.h>
#include <string.h>

/* Pipes that are full after very few messages. */
static void open_router(struct fixture *f, struct probe *p, char endpoint[ENDPOINT_SIZE])
{
    void *const router = peer_new(f, ZMQ_ROUTER);

    peer_set_int(router, ZMQ_SNDHWM, 2);
    peer_bind(f, router, TRANSPORT_INPROC, endpoint);
    probe_attach(f, p, router, 0);
    probe_enable(p, EV_READ);
}

static void *join(struct fixture *f, const char *endpoint, const char *id)
{
    void *const dealer = peer_new(f, ZMQ_DEALER);

    assert_int_equal(zmq_setsockopt(dealer, ZMQ_ROUTING_ID, id, strlen(id)), 0);
    peer_set_int(dealer, ZMQ_RCVHWM, 2);
    peer_connect(dealer, endpoint);
    peer_send_text(dealer, "hello");
    return dealer;
}

static int write_to(struct probe *p, const char *id, uint64_t number)
{
    const struct evzmq_bytes parts[] = {{id, strlen(id)}, {&number, sizeof number}};

    return evzmq_socket_write_parts(p->socket, parts, 2);
}

static void a_peer_that_does_not_read_holds_up_no_other(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *deaf = NULL;
    void *good = NULL;

    open_router(f, &p, endpoint);
    deaf = join(f, endpoint, "deaf");
    good = join(f, endpoint, "good");
    run_until(f, p.reads == 2);
    for (uint64_t i = 0; i < 100; i++) {
        assert_ok(write_to(&p, "deaf", i));
    }
    for (uint64_t i = 0; i < 500; i++) {
        assert_ok(write_to(&p, "good", i));
        pump_recv_sequence(f, good, i, 1);
    }
    fixture_run_for(f, 20);
    assert_true(evzmq_socket_get_queued(p.socket, NULL) > 90);
    assert_int_equal(probe_stats(&p).parked_peers, 1);
    pump_recv_sequence(f, deaf, 0, 100); /* It reads at last: all of it, in order. */
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    assert_int_equal(probe_stats(&p).parked_peers, 0);
    assert_int_equal(p.events[EVZMQ_EVENT_UNDELIVERABLE], 0);
    probe_free(&p);
}

static void a_peer_that_does_not_read_costs_no_wakeups(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    uint64_t before = 0;

    open_router(f, &p, endpoint);
    (void)join(f, endpoint, "deaf");
    (void)join(f, endpoint, "other"); /* Writable, so that ZMQ_EVENTS keeps POLLOUT set. */
    run_until(f, p.reads == 2);
    for (uint64_t i = 0; i < 50; i++) {
        assert_ok(write_to(&p, "deaf", i));
    }
    fixture_run_for(f, 50);
    before = probe_wakeups(&p);
    fixture_run_for(f, 300);
    assert_true(probe_wakeups(&p) - before <= 3);
    probe_free(&p);
}

static void an_unknown_peer_is_ehostunreach_where_mandatory(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *good = NULL;

    open_router(f, &p, endpoint);
    good = join(f, endpoint, "good");
    run_until(f, p.reads == 1);
    assert_errno(write_to(&p, "nobody", 0), EHOSTUNREACH);
    assert_ok(write_to(&p, "good", 0)); /* Nothing of the refused message is left. */
    assert_errno(write_to(&p, "nobody", 0), EHOSTUNREACH);
    assert_ok(write_to(&p, "good", 1));
    pump_recv_sequence(f, good, 0, 2);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
    probe_free(&p);
}

static void a_message_without_anything_after_the_routing_id_is_einval(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_bytes id = {"good", 4};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    struct evzmq_message *message = NULL;
    void *good = NULL;

    open_router(f, &p, endpoint);
    good = join(f, endpoint, "good");
    run_until(f, p.reads == 1);
    message = evzmq_message_new();
    assert_ok(evzmq_message_add(message, "good", 4));
    assert_errno(evzmq_socket_write(p.socket, "good", 4), EINVAL);
    assert_errno(evzmq_socket_write_parts(p.socket, &id, 1), EINVAL);
    assert_errno(evzmq_socket_write_value(p.socket, &id), EINVAL);
    assert_errno(evzmq_socket_write_message(p.socket, message), EINVAL);
    assert_int_equal(probe_stats(&p).messages_out, 0);
    evzmq_message_free(message);
    assert_ok(write_to(&p, "good", 0));
    pump_recv_sequence(f, good, 0, 1);
    probe_free(&p);
}

/* Attaching turns ZMQ_ROUTER_MANDATORY on; who wants silence turns it off again. */
static void an_unknown_peer_is_dropped_silently_where_mandatory_is_turned_off(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *good = NULL;

    open_router(f, &p, endpoint);
    good = join(f, endpoint, "good");
    run_until(f, p.reads == 1);
    assert_errno(write_to(&p, "nobody", 0), EHOSTUNREACH);
    peer_set_int(evzmq_socket_get_zmq_socket(p.socket), ZMQ_ROUTER_MANDATORY, 0);
    assert_ok(write_to(&p, "nobody", 0));
    assert_ok(write_to(&p, "good", 0));
    pump_recv_sequence(f, good, 0, 1);
    probe_free(&p);
}

static void check_undeliverable(struct probe *p, const struct evzmq_event *event)
{
    uint64_t number = 0;

    if (event->type == EVZMQ_EVENT_DRAINED) {
        return;
    }
    assert_int_equal(event->type, EVZMQ_EVENT_UNDELIVERABLE);
    assert_int_equal(event->error, EHOSTUNREACH);
    assert_non_null(event->message);
    assert_int_equal(evzmq_message_get_part_count(event->message), 2);
    assert_part(event->message, 0, "leaving", 7);
    assert_int_equal(evzmq_message_get_size(event->message), 7 + sizeof number);
    memcpy(&number, evzmq_message_get_part(event->message, 1, NULL), sizeof number);
    if (p->events[EVZMQ_EVENT_UNDELIVERABLE] > 1) {
        assert_int_equal(number, p->sequence);
    }
    p->sequence = number + 1;
}

static void what_was_queued_for_a_lost_peer_is_reported_and_the_rest_goes_on(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_event = check_undeliverable};
    char endpoint[ENDPOINT_SIZE];
    void *leaving = NULL;
    void *good = NULL;
    size_t queued = 0;

    open_router(f, &p, endpoint);
    leaving = join(f, endpoint, "leaving");
    good = join(f, endpoint, "good");
    run_until(f, p.reads == 2);
    for (uint64_t i = 0; i < 50; i++) {
        assert_ok(write_to(&p, "leaving", i));
    }
    queued = evzmq_socket_get_queued(p.socket, NULL);
    assert_true(queued > 40);
    peer_close(f, leaving);
    run_until(f, p.events[EVZMQ_EVENT_UNDELIVERABLE] == queued);
    assert_int_equal(p.sequence, 50); /* The last ones, in order. */
    assert_int_equal(probe_stats(&p).undeliverable, queued);
    p.on_event = NULL;
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
    assert_ok(write_to(&p, "good", 0));
    pump_recv_sequence(f, good, 0, 1);
    assert_errno(write_to(&p, "leaving", 0), EHOSTUNREACH);
    probe_free(&p);
}

static void free_on_event(struct probe *p, const struct evzmq_event *event)
{
    if (event->type == EVZMQ_EVENT_UNDELIVERABLE) {
        probe_free(p);
    }
}

static void a_router_may_be_freed_from_an_undeliverable_event(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_event = free_on_event};
    char endpoint[ENDPOINT_SIZE];
    void *leaving = NULL;

    open_router(f, &p, endpoint);
    leaving = join(f, endpoint, "leaving");
    run_until(f, p.reads == 1);
    for (uint64_t i = 0; i < 50; i++) {
        assert_ok(write_to(&p, "leaving", i));
    }
    peer_close(f, leaving);
    run_until(f, p.socket == NULL);
    assert_int_equal(p.events[EVZMQ_EVENT_UNDELIVERABLE], 1);
}

static void one_peer_cannot_take_the_whole_queue(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *good = NULL;
    uint64_t taken = 0;

    open_router(f, &p, endpoint);
    assert_ok(evzmq_socket_set_output_limit(p.socket, 100, 0));
    (void)join(f, endpoint, "deaf");
    good = join(f, endpoint, "good");
    run_until(f, p.reads == 2);
    while (write_to(&p, "deaf", taken) == 0) {
        taken++;
        assert_true(taken < 200);
    }
    assert_int_equal(errno, EAGAIN);
    for (uint64_t i = 0; i < 20; i++) { /* More than the good peer's pipe holds. */
        assert_ok(write_to(&p, "good", i));
    }
    pump_recv_sequence(f, good, 0, 20);
    assert_errno(write_to(&p, "deaf", taken), EAGAIN);
    probe_free(&p);
}

static void several_deaf_peers_get_everything_in_order_when_they_read(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    char id[8];
    void *peers[8];

    open_router(f, &p, endpoint);
    for (int i = 0; i < 8; i++) {
        (void)snprintf(id, sizeof id, "p%d", i);
        peers[i] = join(f, endpoint, id);
    }
    run_until(f, p.reads == 8);
    for (uint64_t number = 0; number < 50; number++) {
        for (int i = 0; i < 8; i++) {
            (void)snprintf(id, sizeof id, "p%d", i);
            assert_ok(write_to(&p, id, number));
        }
    }
    for (int i = 7; i >= 0; i--) {
        pump_recv_sequence(f, peers[i], 0, 50);
    }
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    assert_int_equal(probe_stats(&p).messages_out, 400);
    assert_int_equal(probe_stats(&p).parked_peers, 0);
    probe_free(&p);
}

static void peers_that_come_and_go_leave_nothing_behind(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    long live = 0;

    open_router(f, &p, endpoint);
    for (size_t i = 0; i < 60; i++) {
        char id[16];
        void *peer = NULL;

        (void)snprintf(id, sizeof id, "peer %zu", i);
        peer = join(f, endpoint, id);
        run_until(f, p.reads == i + 1);
        for (uint64_t number = 0; number < 20; number++) {
            assert_ok(write_to(&p, id, number));
        }
        peer_close(f, peer);
        run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
        if (i == 9) {
            live = allocations_live();
        }
    }
    assert_true(allocations_live() <= live);
    assert_int_equal(probe_stats(&p).parked_peers, 0);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_peer_that_does_not_read_holds_up_no_other),
        claim(a_peer_that_does_not_read_costs_no_wakeups),
        claim(an_unknown_peer_is_ehostunreach_where_mandatory),
        claim(a_message_without_anything_after_the_routing_id_is_einval),
        claim(an_unknown_peer_is_dropped_silently_where_mandatory_is_turned_off),
        claim(what_was_queued_for_a_lost_peer_is_reported_and_the_rest_goes_on),
        claim(a_router_may_be_freed_from_an_undeliverable_event),
        claim(one_peer_cannot_take_the_whole_queue),
        claim(several_deaf_peers_get_everything_in_order_when_they_read),
        claim(peers_that_come_and_go_leave_nothing_behind),
    };

    return run_claims(tests);
}
