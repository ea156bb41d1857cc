/**
 * @file test_wakeups.c
 * ZMQ_FD signals edges, and everything eats them: nothing may be stranded, and nothing may spin.
 */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void open_dealers(struct fixture *f, enum transport transport, struct probe *p,
                         void **out_peer)
{
    void *dealer = NULL;

    peer_pair(f, transport, ZMQ_DEALER, &dealer, ZMQ_DEALER, out_peer);
    probe_attach(f, p, dealer, 0);
    probe_enable(p, EV_READ);
}

static void a_message_that_came_before_our_own_send_is_delivered(void **state)
{
    struct fixture *const f = *state;

    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        struct probe p = {.on_read = read_sequence};
        char text[32];
        void *peer = NULL;

        open_dealers(f, transport, &p, &peer);
        peer_send_sequence(peer, 0, 1, 8);
        run_until(f, p.reads == 1); /* They are connected. */
        for (uint64_t i = 1; i < 200; i++) {
            peer_send_sequence(peer, i, 1, 8);
            assert_ok(evzmq_socket_write(p.socket, "ours", 4));
            (void)peer_recv_text(peer, text, sizeof text);
            run_until(f, p.reads == i + 1);
        }
        probe_free(&p);
    }
}

/* EVZMQ_TEST_ROUNDS: a million in the nightly checks. */
static uint64_t rounds(void)
{
    const char *const text = getenv("EVZMQ_TEST_ROUNDS");
    const long count = text == NULL ? 0 : strtol(text, NULL, 10);

    return count > 0 ? (uint64_t)count : 10000;
}

/* The next number to the peer. */
static void write_next(struct probe *p)
{
    uint64_t *const written = p->arg;

    assert_ok(evzmq_socket_write(p->socket, written, sizeof *written));
    ++*written;
}

static void read_and_write_next(struct probe *p, struct evzmq_message *message)
{
    read_sequence(p, message);
    write_next(p);
}

/* One round of sends of both sides, in one of the orders in which they may meet. Returns how many
 * messages the peer sent. */
static uint64_t cross(struct probe *p, void *peer, uint64_t sent, uint64_t order)
{
    uint64_t count = 1;

    if (order % 2 == 0) {
        peer_send_sequence(peer, sent, 1, 8);
        write_next(p);
    } else {
        write_next(p);
        peer_send_sequence(peer, sent, 1, 8);
    }
    if (order >= 2) {
        write_next(p);
        peer_send_sequence(peer, sent + count++, 1, 8);
    }
    if (order == 3) {
        write_next(p);
    }
    return count;
}

static void sends_of_both_sides_may_cross_in_any_order_and_nothing_waits_for_more(void **state)
{
    struct fixture *const f = *state;

    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        const uint64_t count = transport == TRANSPORT_INPROC ? rounds() : rounds() / 10;
        uint64_t written = 0;
        uint64_t seen = 0;
        uint64_t sent = 0;
        struct probe p = {.on_read = read_and_write_next, .arg = &written};
        void *peer = NULL;

        open_dealers(f, transport, &p, &peer);
        for (uint64_t round = 0; round < count; round++) {
            sent += cross(&p, peer, sent, round % 4);
            run_until(f, p.reads == sent); /* With no further traffic of the peer. */
            pump_recv_sequence(f, peer, seen, written - seen);
            seen = written;
            if (round % 1000 == 0) {
                fixture_feed_watchdog(); /* It is for standing still. */
            }
        }
        probe_free(&p);
    }
}

static void messages_that_arrived_while_reading_was_disabled_need_no_new_traffic(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_sequence};
    void *peer = NULL;

    open_dealers(f, TRANSPORT_INPROC, &p, &peer);
    for (uint64_t round = 0; round < 10; round++) {
        assert_ok(evzmq_socket_disable(p.socket, EV_READ));
        peer_send_sequence(peer, round * 1000, 1000, 8);
        fixture_run_for(f, 5);
        assert_int_equal(p.reads, round * 1000);
        probe_enable(&p, EV_READ);
        run_until(f, p.reads == (round + 1) * 1000);
    }
    probe_free(&p);
}

static void a_push_at_its_mark_gets_rid_of_its_queue_once_the_reader_reads(void **state)
{
    struct fixture *const f = *state;

    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        struct probe p = {0};
        char endpoint[ENDPOINT_SIZE];
        void *const push = peer_new(f, ZMQ_PUSH);
        void *const pull = peer_new(f, ZMQ_PULL);
        static char padding[2000];

        peer_set_int(push, ZMQ_SNDHWM, 1);
        peer_set_int(pull, ZMQ_RCVHWM, 1);
        peer_set_int(push, ZMQ_SNDBUF, 4096);
        peer_set_int(pull, ZMQ_RCVBUF, 4096);
        peer_bind(f, pull, transport, endpoint);
        peer_connect(push, endpoint);
        probe_attach(f, &p, push, 0);
        for (uint64_t i = 0; i < 900; i++) {
            memcpy(padding, &i, sizeof i);
            assert_ok(evzmq_socket_write(p.socket, padding, sizeof padding));
        }
        assert_true(evzmq_socket_get_queued(p.socket, NULL) > 100);
        pump_recv_sequence(f, pull, 0, 900); /* No call of ours but the loop. */
        assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
        probe_free(&p);
    }
}

static void touch_after_zmq_events_was_read_behind_the_adapter_delivers(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_sequence};
    char text[32];
    void *peer = NULL;

    open_dealers(f, TRANSPORT_INPROC, &p, &peer);
    fixture_glance(f);
    for (uint64_t i = 0; i < 100; i++) {
        void *const raw = evzmq_socket_get_zmq_socket(p.socket);
        int events = 0;
        size_t size = sizeof events;

        peer_send_sequence(peer, i, 1, 8);
        assert_int_equal(zmq_getsockopt(raw, ZMQ_EVENTS, &events, &size), 0);
        if (i % 2 == 0) {
            assert_int_equal(zmq_send(raw, "raw", 3, 0), 3);
            (void)peer_recv_text(peer, text, sizeof text);
        }
        assert_ok(evzmq_socket_touch(p.socket));
        run_until(f, p.reads == i + 1);
    }
    probe_free(&p);
}

static void peers_that_come_and_go_wake_the_socket_but_no_callback(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const pull = peer_new(f, ZMQ_PULL);

    peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    for (int i = 0; i < 50; i++) {
        void *const push = peer_new(f, ZMQ_PUSH);
        const uint64_t before = probe_wakeups(&p);

        peer_connect(push, endpoint);
        run_until(f, probe_wakeups(&p) > before);
        peer_close(f, push);
    }
    fixture_run_for(f, 20);
    assert_int_equal(p.reads + p.writes + p.events_all, 0);
    assert_true(probe_stats(&p).wakeups_empty > 0);
    probe_free(&p);
}

/* Every wakeup processes libzmq's commands, whatever is enabled: otherwise the mailbox grows. */
static void a_disabled_socket_still_looks_after_its_peers(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const router = peer_new(f, ZMQ_ROUTER);

    peer_bind(f, router, TRANSPORT_INPROC, endpoint);
    probe_attach(f, &p, router, 0);
    assert_ok(evzmq_socket_disable(p.socket, EV_READ | EV_WRITE));
    fixture_glance(f);
    for (int i = 0; i < 50; i++) {
        void *const dealer = peer_new(f, ZMQ_DEALER);
        const uint64_t before = probe_wakeups(&p);

        peer_connect(dealer, endpoint);
        run_until(f, probe_wakeups(&p) > before);
        peer_close(f, dealer);
    }
    assert_int_equal(p.reads + p.writes + p.events_all, 0);
    probe_free(&p);
}

/* Connecting is work, and so is a message that a slow transport still takes; on a busy machine both
 * may come late. So one quiet window of several is enough: what spins or polls has none. */
static void check_idle(struct fixture *f, struct probe *p, uint64_t allowed)
{
    uint64_t excess = 1;

    fixture_run_for(f, 50);
    for (int window = 0; window < 10 && excess > 0; window++) {
        const struct evzmq_socket_stats before = probe_stats(p);

        fixture_run_for(f, 300);
        const uint64_t may = allowed + 2 * (probe_stats(p).messages_out - before.messages_out);
        const uint64_t did = probe_wakeups(p) - before.wakeups;
        excess = did > may ? did - may : 0;
    }
    assert_int_equal(excess, 0);
    assert_int_equal(p->reads + p->writes + p->events_all, 0);
}

static void an_idle_socket_of_any_type_costs_no_wakeups(void **state)
{
    struct fixture *const f = *state;
    static const int types[][2] = {{ZMQ_ROUTER, ZMQ_DEALER}, {ZMQ_PUB, ZMQ_SUB},
                                   {ZMQ_PUSH, ZMQ_PULL},     {ZMQ_DEALER, ZMQ_ROUTER},
                                   {ZMQ_REP, ZMQ_REQ},       {ZMQ_PAIR, ZMQ_PAIR}};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct probe p = {0};
        void *ours = NULL;
        void *theirs = NULL;

        peer_pair(f, TRANSPORT_TCP, types[i][0], &ours, types[i][1], &theirs);
        probe_attach(f, &p, ours, 0);
        if (types[i][0] != ZMQ_PUB && types[i][0] != ZMQ_PUSH) {
            probe_enable(&p, EV_READ);
        }
        check_idle(f, &p, 1);
        probe_free(&p);
    }
}

static void a_message_queued_without_a_peer_costs_no_wakeups(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_bind(f, push, TRANSPORT_TCP, endpoint);
    probe_attach(f, &p, push, 0);
    assert_ok(evzmq_socket_write(p.socket, "x", 1));
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 1);
    check_idle(f, &p, 0);
    probe_free(&p);
}

/* A peer that does not read, as one that was stopped would: the fd is readable for ever to those
 * who wait for output the wrong way. */
static void a_full_pipe_costs_no_wakeups_until_its_peer_reads(void **state)
{
    struct fixture *const f = *state;

    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        struct probe p = {0};
        char endpoint[ENDPOINT_SIZE];
        static char padding[20000];
        size_t before = 0;
        void *const push = peer_new(f, ZMQ_PUSH);
        void *const pull = peer_new(f, ZMQ_PULL);

        peer_set_int(push, ZMQ_SNDHWM, 1);
        peer_set_int(pull, ZMQ_RCVHWM, 1);
        peer_bind(f, pull, transport, endpoint);
        peer_connect(push, endpoint);
        probe_attach(f, &p, push, 0);
        for (uint64_t i = 0; i < 900; i++) {
            memcpy(padding, &i, sizeof i);
            assert_ok(evzmq_socket_write(p.socket, padding, sizeof padding));
        }
        do { /* Until the transport's own buffers are full, too. */
            before = evzmq_socket_get_queued(p.socket, NULL);
            fixture_run_for(f, 100);
        } while (evzmq_socket_get_queued(p.socket, NULL) < before);
        assert_true(before > 100);
        check_idle(f, &p, 2);
        pump_recv_sequence(f, pull, 0, 900);
        probe_free(&p);
    }
}

static void messages_waiting_while_disabled_cost_no_wakeups(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *peer = NULL;

    open_dealers(f, TRANSPORT_INPROC, &p, &peer);
    assert_ok(evzmq_socket_disable(p.socket, EV_READ));
    peer_send_sequence(peer, 0, 100, 8);
    check_idle(f, &p, 0);
    probe_free(&p);
}

struct sender {
    char endpoint[ENDPOINT_SIZE];
    void *context;
    atomic_int stop;
};

static void *send_without_end(void *arg)
{
    struct sender *const sender = arg;
    void *const push = zmq_socket(sender->context, ZMQ_PUSH);
    const int hwm = 1000;
    const int linger = 0;

    (void)zmq_setsockopt(push, ZMQ_SNDHWM, &hwm, sizeof hwm);
    (void)zmq_setsockopt(push, ZMQ_LINGER, &linger, sizeof linger);
    if (zmq_connect(push, sender->endpoint) == 0) {
        while (!atomic_load(&sender->stop)) {
            zmq_pollitem_t item = {push, 0, ZMQ_POLLOUT, 0};

            if (zmq_poll(&item, 1, 10) > 0) {
                (void)zmq_send(push, "flood", 5, ZMQ_DONTWAIT);
            }
        }
    }
    (void)zmq_close(push);
    return NULL;
}

static void count_tick(evutil_socket_t fd, short events, void *arg)
{
    size_t *const ticks = arg;

    (void)fd;
    (void)events;
    ++*ticks;
}

static void a_timer_and_a_second_socket_go_on_under_a_flooding_sender(void **state)
{
    struct fixture *const f = *state;
    const struct timeval millisecond = {0, 1000};
    struct probe flooded = {0};
    struct probe quiet = {0};
    struct sender sender = {.context = f->context};
    size_t ticks = 0;
    struct event *const timer = event_new(f->base, -1, EV_PERSIST, count_tick, &ticks);
    pthread_t thread;
    void *const pull = peer_new(f, ZMQ_PULL);
    void *peer = NULL;

    peer_bind(f, pull, TRANSPORT_IPC, sender.endpoint);
    probe_attach(f, &flooded, pull, 0);
    probe_enable(&flooded, EV_READ);
    open_dealers(f, TRANSPORT_INPROC, &quiet, &peer);
    assert_int_equal(pthread_create(&thread, NULL, send_without_end, &sender), 0);
    run_until(f, flooded.reads > 1000);
    assert_int_equal(event_add(timer, &millisecond), 0);
    run_until(f, ticks >= 100);
    for (size_t i = 0; i < 100; i++) {
        peer_send_text(peer, "me too");
        run_until(f, quiet.reads == i + 1);
    }
    atomic_store(&sender.stop, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    event_free(timer);
    probe_free(&flooded);
    probe_free(&quiet);
}

static void two_full_sockets_take_turns(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget budget = {
        .size = sizeof budget, .read_messages = 10, .read_usec = 60000000};
    struct probe probes[2] = {{.on_read = read_sequence}, {.on_read = read_sequence}};

    for (int i = 0; i < 2; i++) {
        void *pull = NULL;
        void *push = NULL;

        peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        peer_send_sequence(push, 0, 1000, 8);
        probe_attach(f, &probes[i], pull, 0);
        assert_ok(evzmq_socket_set_budget(probes[i].socket, &budget));
        probe_enable(&probes[i], EV_READ);
    }
    while (probes[0].reads < 1000 && probes[1].reads < 1000) {
        fixture_turn(f);
        assert_true(probes[0].reads <= probes[1].reads + 30);
        assert_true(probes[1].reads <= probes[0].reads + 30);
    }
    run_until(f, probes[0].reads == 1000 && probes[1].reads == 1000);
    probe_free(&probes[0]);
    probe_free(&probes[1]);
}

static struct event *chain;

static void count_and_go_on(evutil_socket_t fd, short events, void *arg)
{
    const struct timeval now = {0, 0};

    count_tick(fd, events, arg);
    (void)event_add(chain, &now);
}

static void a_continuation_lets_every_other_event_have_its_turn(void **state)
{
    struct fixture *const f = *state;
    const struct timeval now = {0, 0};
    const struct evzmq_budget budget = {.size = sizeof budget, .read_messages = 1};
    struct probe p = {.on_read = read_sequence};
    size_t ticks = 0;
    void *peer = NULL;

    open_dealers(f, TRANSPORT_INPROC, &p, &peer);
    assert_ok(evzmq_socket_set_budget(p.socket, &budget));
    peer_send_sequence(peer, 0, 1000, 8);
    chain = event_new(f->base, -1, 0, count_and_go_on, &ticks);
    assert_int_equal(event_add(chain, &now), 0);
    run_until(f, p.reads == 1000);
    assert_true(ticks >= 900);
    event_free(chain);
    probe_free(&p);
}

static void a_million_messages_on_a_busy_socket_leave_no_memory_behind(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_sequence};
    long live = 0;
    void *peer = NULL;

    open_dealers(f, TRANSPORT_INPROC, &p, &peer);
    for (uint64_t i = 0; i < 1000; i++) {
        peer_send_sequence(peer, i * 1000, 1000, 8);
        run_until(f, p.reads == (i + 1) * 1000);
        if (i == 10) {
            live = allocations_live();
        }
    }
    assert_int_equal(allocations_live(), live);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_message_that_came_before_our_own_send_is_delivered),
        claim(sends_of_both_sides_may_cross_in_any_order_and_nothing_waits_for_more),
        claim(messages_that_arrived_while_reading_was_disabled_need_no_new_traffic),
        claim(a_push_at_its_mark_gets_rid_of_its_queue_once_the_reader_reads),
        claim(touch_after_zmq_events_was_read_behind_the_adapter_delivers),
        claim(peers_that_come_and_go_wake_the_socket_but_no_callback),
        claim(a_disabled_socket_still_looks_after_its_peers),
        claim(an_idle_socket_of_any_type_costs_no_wakeups),
        claim(a_message_queued_without_a_peer_costs_no_wakeups),
        claim(a_full_pipe_costs_no_wakeups_until_its_peer_reads),
        claim(messages_waiting_while_disabled_cost_no_wakeups),
        claim(a_timer_and_a_second_socket_go_on_under_a_flooding_sender),
        claim(two_full_sockets_take_turns),
        claim(a_continuation_lets_every_other_event_have_its_turn),
        claim(a_million_messages_on_a_busy_socket_leave_no_memory_behind),
    };

    return run_claims(tests);
}
