/**
 * @file test_resets.c
 * Connections that are reset while they are busy, and peers that go and come again at the same
 * place: what is lost is what was under way, the monitor tells, and the adapters go on.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy.h"
#include "raw.h"
#include "watch.h"

enum { BURST = 500, SIZE = 200 };

/* What came of numbered messages, in whatever order: a receiver reads the old connection and the
 * new one side by side. */
struct tally {
    unsigned char *seen;
    uint64_t size;
    uint64_t count;
};

static void read_and_tick_off(struct probe *p, struct evzmq_message *message)
{
    struct tally *const tally = p->arg;
    const size_t last = evzmq_message_get_part_count(message) - 1;
    uint64_t number = 0;
    size_t size = 0;
    const void *const data = evzmq_message_get_part(message, last, &size);

    assert_int_equal(size, SIZE);
    memcpy(&number, data, sizeof number);
    assert_true(number < tally->size);
    assert_int_equal(tally->seen[number], 0); /* Otherwise: a message came twice. */
    tally->seen[number] = 1;
    tally->count++;
}

/* How many runs of messages are missing. */
static uint64_t count_gaps(const struct tally *tally)
{
    uint64_t gaps = 0;

    for (uint64_t i = 0; i < tally->size; i++) {
        gaps += !tally->seen[i] && (i == 0 || tally->seen[i - 1]);
    }
    return gaps;
}

static void write_burst(struct fixture *f, struct probe *p, uint64_t *number)
{
    unsigned char bytes[SIZE] = {0};

    for (int i = 0; i < BURST; i++) {
        memcpy(bytes, number, sizeof *number);
        while (evzmq_socket_write(p->socket, bytes, sizeof bytes) != 0) {
            assert_int_equal(errno, EAGAIN);
            fixture_turn(f);
        }
        ++*number;
    }
}

/* A port of 127.0.0.2 that leads to the one of 127.0.0.1 with the same number. */
static struct proxy *put_between(char endpoint[ENDPOINT_SIZE])
{
    const uint16_t port = raw_port(endpoint);
    struct proxy *const proxy = proxy_start("127.0.0.2", port, "127.0.0.1", port);

    assert_non_null(proxy);
    (void)snprintf(endpoint, ENDPOINT_SIZE, "tcp://127.0.0.2:%u", (unsigned)port);
    return proxy;
}

static void check_resets(struct fixture *f, int bound_type, int type)
{
    const size_t resets = (size_t)scaled(20, 200);
    struct tally tally = {.size = BURST * (resets + 1)};
    struct probe in = {.on_read = read_and_tick_off, .arg = &tally};
    struct probe out = {0};
    struct watch server = {0};
    struct watch client = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const bound = peer_new(f, bound_type);
    void *const connected = peer_new(f, type);
    uint64_t number = 0;

    tally.seen = calloc(tally.size, 1);
    assert_non_null(tally.seen);
    watch_open(f, &server, bound, EVZMQ_MONITOR_ALL);
    watch_open(f, &client, connected, EVZMQ_MONITOR_ALL);
    peer_set_int(connected, ZMQ_RECONNECT_IVL, 5);
    peer_bind(f, bound, TRANSPORT_TCP, endpoint);
    struct proxy *const proxy = put_between(endpoint);
    peer_connect(connected, endpoint);
    probe_attach(f, &in, bound, 0);
    probe_enable(&in, EV_READ);
    probe_attach(f, &out, connected, 0);
    for (size_t i = 0; i < resets; i++) {
        run_until(f, watch_count(&client, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED) == i + 1);
        write_burst(f, &out, &number);
        proxy_cut(proxy);
        run_until(f, watch_count(&client, EVZMQ_MONITOR_DISCONNECTED) == i + 1);
    }
    run_until(f, watch_count(&client, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED) == resets + 1);
    write_burst(f, &out, &number);
    run_until(f, tally.seen[tally.size - 1] && evzmq_socket_get_queued(out.socket, NULL) == 0);
    fixture_run_for(f, 50); /* What older connections have left. */
    for (uint64_t i = tally.size - BURST; i < tally.size; i++) {
        assert_int_equal(tally.seen[i], 1);
    }
    assert_int_equal(probe_stats(&out).messages_out, number);
    assert_in_range(count_gaps(&tally), 0, resets);
    run_until(f, watch_count(&server, EVZMQ_MONITOR_DISCONNECTED) == resets);
    assert_int_equal(in.events_all, 0);
    assert_int_equal(out.events_all, out.events[EVZMQ_EVENT_DRAINED]);
    print_message("%zu resets: %llu messages written, %llu received, %llu gaps\n", resets,
                  (unsigned long long)number, (unsigned long long)tally.count,
                  (unsigned long long)count_gaps(&tally));
    watch_close(&server);
    watch_close(&client);
    probe_free(&in);
    probe_free(&out);
    proxy_stop(proxy);
    free(tally.seen);
}

static void after_resets_push_and_pull_go_on_and_a_gap_has_its_disconnected_event(void **state)
{
    check_resets(*state, ZMQ_PULL, ZMQ_PUSH);
}

static void after_resets_dealer_and_router_go_on_and_a_gap_has_its_disconnected_event(void **state)
{
    check_resets(*state, ZMQ_ROUTER, ZMQ_DEALER);
}

/* An address stays taken until libzmq's threads have closed the one who had it. */
static void bind_again(void *peer, const char *endpoint)
{
    while (zmq_bind(peer, endpoint) != 0) {
        assert_int_equal(errno, EADDRINUSE);
        (void)zmq_poll(NULL, 0, 1);
    }
}

static void check_rebinds(struct fixture *f, enum transport transport)
{
    const uint64_t times = (uint64_t)scaled(50, 1000);
    struct probe p = {0};
    struct watch watch = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    void *pull = peer_new(f, ZMQ_PULL);

    peer_set_int(push, ZMQ_RECONNECT_IVL, 1);
    watch_open(f, &watch, push, EVZMQ_MONITOR_ALL);
    peer_bind(f, pull, transport, endpoint);
    peer_connect(push, endpoint);
    probe_attach(f, &p, push, 0);
    for (uint64_t i = 0; i < times; i++) {
        assert_ok(evzmq_socket_write(p.socket, &i, sizeof i));
        pump_recv_sequence(f, pull, i, 1);
        peer_close(f, pull);
        f->peer_count--; /* Its place is the next one's. */
        run_until(f, watch_count(&watch, EVZMQ_MONITOR_DISCONNECTED) == i + 1);
        pull = peer_new(f, ZMQ_PULL);
        bind_again(pull, endpoint);
        fixture_feed_watchdog(); /* It is for standing still. */
    }
    assert_ok(evzmq_socket_write(p.socket, &times, sizeof times));
    pump_recv_sequence(f, pull, times, 1);
    watch_close(&watch);
    probe_free(&p);
}

static void whoever_binds_an_endpoint_anew_gets_what_is_written_from_then_on(void **state)
{
    check_rebinds(*state, TRANSPORT_IPC);
    check_rebinds(*state, TRANSPORT_TCP);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(after_resets_push_and_pull_go_on_and_a_gap_has_its_disconnected_event),
        claim(after_resets_dealer_and_router_go_on_and_a_gap_has_its_disconnected_event),
        claim(whoever_binds_an_endpoint_anew_gets_what_is_written_from_then_on),
    };

    return run_claims(tests);
}
