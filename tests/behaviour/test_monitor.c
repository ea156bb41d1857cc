/**
 * @file test_monitor.c
 * Events of connections: what is reported and how, limits, and faults.
 */
#include "support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "watch.h"

static void both_ends_see_a_connection_come_and_go(void **state)
{
    struct fixture *const f = *state;

    for (enum transport transport = TRANSPORT_IPC; transport < TRANSPORTS; transport++) {
        struct watch server = {.f = f};
        struct watch client = {.f = f};
        char endpoint[ENDPOINT_SIZE];
        void *pull = NULL;
        void *push = NULL;

        watch_open_pair(f, transport, &server, &pull, &client, &push, endpoint);
        assert_string_equal(server.log, "listening; accepted; handshake succeeded; ");
        assert_non_null(strstr(client.log, "connected; handshake succeeded; "));
        assert_string_equal(server.endpoints[watch_bit(EVZMQ_MONITOR_LISTENING)], endpoint);
        assert_string_equal(client.endpoints[watch_bit(EVZMQ_MONITOR_CONNECTED)], endpoint);
        assert_true(watch_last(&server, EVZMQ_MONITOR_LISTENING)->fd >= 0);
        assert_true(watch_last(&server, EVZMQ_MONITOR_ACCEPTED)->fd >= 0);
        assert_true(watch_last(&client, EVZMQ_MONITOR_CONNECTED)->fd >= 0);
        assert_int_equal(watch_last(&client, EVZMQ_MONITOR_CONNECTED)->error, 0);
        peer_close(f, push);
        run_until(f, watch_count(&server, EVZMQ_MONITOR_DISCONNECTED) == 1);
        run_until(f, watch_count(&client, EVZMQ_MONITOR_STOPPED) == 1);
        peer_close(f, pull);
        run_until(f, watch_count(&server, EVZMQ_MONITOR_STOPPED) == 1);
        assert_int_equal(watch_last(&server, EVZMQ_MONITOR_STOPPED)->error, 0);
        assert_int_equal(server.missed, 0);
        watch_close(&server);
        watch_close(&client);
    }
}

static void a_bind_that_fails_later_is_reported_with_its_reason(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    void *const first = peer_new(f, ZMQ_PULL);
    void *const second = peer_new(f, ZMQ_PULL);
    char endpoint[ENDPOINT_SIZE];

    peer_bind(f, first, TRANSPORT_TCP, endpoint);
    watch_open(f, &w, second, EVZMQ_MONITOR_BIND_FAILED);
    assert_int_equal(zmq_bind(second, endpoint), -1); /* libzmq overwrites errno meanwhile. */
    run_until(f, w.all == 1);
    assert_int_equal(watch_last(&w, EVZMQ_MONITOR_BIND_FAILED)->error, EADDRINUSE);
    assert_int_equal(watch_last(&w, EVZMQ_MONITOR_BIND_FAILED)->fd, -1);
    watch_close(&w);
}

static void a_refused_connection_is_delayed_and_retried(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    void *const push = peer_new(f, ZMQ_PUSH);
    char endpoint[ENDPOINT_SIZE];

    dead_endpoint(endpoint);
    peer_set_int(push, ZMQ_RECONNECT_IVL, 10);
    watch_open(f, &w, push, EVZMQ_MONITOR_ALL);
    peer_connect(push, endpoint);
    run_until(f, watch_count(&w, EVZMQ_MONITOR_CONNECT_RETRIED) == 2);
    assert_true(watch_count(&w, EVZMQ_MONITOR_CONNECT_DELAYED) >= 1);
    assert_int_equal(watch_last(&w, EVZMQ_MONITOR_CONNECT_DELAYED)->error, EINPROGRESS);
    assert_true(watch_last(&w, EVZMQ_MONITOR_CONNECT_RETRIED)->interval_ms >= 10);
    assert_true(watch_last(&w, EVZMQ_MONITOR_CLOSED)->fd >= 0);
    assert_int_equal(watch_count(&w, EVZMQ_MONITOR_CONNECTED), 0);
    watch_close(&w);
}

static void a_mechanism_mismatch_fails_the_handshake_with_its_reason(void **state)
{
    struct fixture *const f = *state;
    struct watch server = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const push = peer_new(f, ZMQ_PUSH);
    char endpoint[ENDPOINT_SIZE];

    peer_set_int(pull, ZMQ_PLAIN_SERVER, 1);
    watch_open(f, &server, pull, EVZMQ_MONITOR_ALL);
    peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    peer_connect(push, endpoint);
    run_until(f, watch_count(&server, EVZMQ_MONITOR_HANDSHAKE_FAILED_PROTOCOL) >= 1);
    const unsigned reason = watch_last(&server, EVZMQ_MONITOR_HANDSHAKE_FAILED_PROTOCOL)->reason;
    assert_int_equal(reason, ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH);
    assert_string_equal(evzmq_monitor_reason_name(reason), "mechanism mismatch");
    assert_int_equal(watch_count(&server, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED), 0);
    peer_close(f, push);
    watch_close(&server);
}

/* Refuses whoever asks. The request's second part is its id. */
static void read_and_deny(struct probe *p, struct evzmq_message *message)
{
    struct evzmq_message *const reply = evzmq_message_new();
    size_t size = 0;
    const void *const id = evzmq_message_get_part(message, 1, &size);

    assert_ok(evzmq_message_add(reply, "1.0", 3));
    assert_ok(evzmq_message_add(reply, id, size));
    assert_ok(evzmq_message_add(reply, "400", 3));
    assert_ok(evzmq_message_add(reply, "no", 2));
    assert_ok(evzmq_message_add(reply, NULL, 0));
    assert_ok(evzmq_message_add(reply, NULL, 0));
    assert_ok(evzmq_socket_write_message(p->socket, reply));
}

static void a_refused_peer_fails_the_handshake_with_the_status_of_zap(void **state)
{
    struct fixture *const f = *state;
    struct watch server = {.f = f};
    struct probe zap = {.on_read = read_and_deny};
    void *const rep = peer_new(f, ZMQ_REP);
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const push = peer_new(f, ZMQ_PUSH);
    char endpoint[ENDPOINT_SIZE];

    assert_int_equal(zmq_bind(rep, "inproc://zeromq.zap.01"), 0);
    probe_attach(f, &zap, rep, 0);
    probe_enable(&zap, EV_READ);
    peer_set_int(pull, ZMQ_PLAIN_SERVER, 1);
    assert_int_equal(zmq_setsockopt(pull, ZMQ_ZAP_DOMAIN, "x", 1), 0);
    assert_int_equal(zmq_setsockopt(push, ZMQ_PLAIN_USERNAME, "u", 1), 0);
    assert_int_equal(zmq_setsockopt(push, ZMQ_PLAIN_PASSWORD, "p", 1), 0);
    watch_open(f, &server, pull, EVZMQ_MONITOR_ALL);
    peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    peer_connect(push, endpoint);
    run_until(f, watch_count(&server, EVZMQ_MONITOR_HANDSHAKE_FAILED_AUTH) >= 1);
    assert_int_equal(watch_last(&server, EVZMQ_MONITOR_HANDSHAKE_FAILED_AUTH)->reason, 400);
    peer_close(f, push);
    watch_close(&server);
    peer_close(f, pull);
    probe_free(&zap);
}

static void only_the_events_asked_for_are_delivered(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    struct watch client = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const push = peer_new(f, ZMQ_PUSH);
    char endpoint[ENDPOINT_SIZE];

    watch_open(f, &w, pull, EVZMQ_MONITOR_ACCEPTED);
    watch_open(f, &client, push, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED);
    peer_bind(f, pull, TRANSPORT_IPC, endpoint);
    peer_connect(push, endpoint);
    run_until(f, client.all == 1 && w.all == 1);
    assert_ok(evzmq_monitor_stop(w.monitor));
    fixture_glance(f);
    fixture_glance(f);
    assert_string_equal(w.log, "accepted; ");
    watch_close(&w);
    watch_close(&client);
}

static void an_idle_monitor_costs_no_wakeups(void **state)
{
    struct fixture *const f = *state;
    struct watch server = {.f = f};
    struct watch client = {.f = f};
    char endpoint[ENDPOINT_SIZE];
    void *pull = NULL;
    void *push = NULL;
    uint64_t wakeups = 0;

    watch_open_pair(f, TRANSPORT_IPC, &server, &pull, &client, &push, endpoint);
    fixture_run_for(f, 50);
    wakeups = watch_stats(&server).wakeups + watch_stats(&client).wakeups;
    peer_send_sequence(push, 0, 100, 8); /* Data is no event. */
    fixture_run_for(f, 100);
    assert_int_equal(watch_stats(&server).wakeups + watch_stats(&client).wakeups, wakeups);
    watch_close(&server);
    watch_close(&client);
}

/* Connects, is accepted and closes, many times. */
static void churn(struct fixture *f, const char *endpoint, size_t times, void *pull)
{
    for (size_t i = 0; i < times; i++) {
        void *const push = peer_new(f, ZMQ_PUSH);
        uint64_t number = 0;

        peer_connect(push, endpoint);
        peer_send(push, &i, sizeof i);
        assert_int_equal(zmq_recv(pull, &number, sizeof number, 0), sizeof number);
        assert_int_equal(number, i);
        peer_close(f, push);
        f->peer_count--; /* Its place is the next one's. */
        if (i % 16 == 0) {
            fixture_glance(f);
        }
    }
}

static void a_disabled_monitor_drops_beyond_its_limit_and_never_stalls_data(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    char endpoint[ENDPOINT_SIZE];

    watch_open(f, &w, pull, EVZMQ_MONITOR_ALL);
    assert_ok(evzmq_monitor_set_limit(w.monitor, 5));
    assert_ok(evzmq_monitor_disable(w.monitor));
    peer_bind(f, pull, TRANSPORT_IPC, endpoint);
    churn(f, endpoint, 800, pull);
    run_until(f, watch_stats(&w).received >= 2401);
    assert_int_equal(w.all, 0);
    assert_int_equal(watch_stats(&w).queued, 5);
    assert_int_equal(watch_stats(&w).dropped, watch_stats(&w).received - 5);
    assert_ok(evzmq_monitor_enable(w.monitor));
    run_until(f, w.all == 5);
    assert_int_equal(w.missed, 0);
    assert_ok(evzmq_monitor_stop(w.monitor));
    run_until(f, watch_count(&w, EVZMQ_MONITOR_STOPPED) == 1);
    assert_int_equal(w.missed, watch_stats(&w).dropped);
    watch_close(&w);
}

static void data_flows_while_nobody_runs_the_loop(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    char endpoint[ENDPOINT_SIZE];

    watch_open(f, &w, pull, EVZMQ_MONITOR_ALL);
    assert_ok(evzmq_monitor_set_limit(w.monitor, 10000)); /* More than there will be. */
    peer_bind(f, pull, TRANSPORT_IPC, endpoint);
    for (size_t i = 0; i < 700; i++) {
        void *const push = peer_new(f, ZMQ_PUSH);
        char byte = 0;

        peer_connect(push, endpoint);
        peer_send(push, "x", 1);
        assert_int_equal(zmq_recv(pull, &byte, 1, 0), 1);
        peer_close(f, push);
        f->peer_count--;
    }
    run_until(f, watch_count(&w, EVZMQ_MONITOR_ACCEPTED) == 700);
    watch_close(&w);
}

static void event_disable(struct watch *w, const struct evzmq_monitor_event *event)
{
    (void)event;
    assert_ok(evzmq_monitor_disable(w->monitor));
}

static void event_receive(struct watch *w, const struct evzmq_monitor_event *event)
{
    struct probe *const p = w->arg;
    struct evzmq_message *message = NULL;

    (void)event;
    assert_errno(evzmq_socket_recv(p->socket, NULL, &message), EDEADLK);
}

static void a_callback_cannot_run_the_loop_but_who_comes_after_it_can(void **state)
{
    const struct timeval patience = {10, 0};
    struct fixture *const f = *state;
    struct probe p = {0};
    struct watch w = {.f = f, .on_event = event_receive, .arg = &p};
    struct evzmq_message *message = NULL;
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const push = peer_new(f, ZMQ_PUSH);
    char endpoint[ENDPOINT_SIZE];

    watch_open(f, &w, pull, EVZMQ_MONITOR_ALL);
    peer_bind(f, pull, TRANSPORT_IPC, endpoint);
    probe_attach(f, &p, pull, 0);
    peer_connect(push, endpoint);
    run_until(f, watch_count(&w, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED) == 1);
    peer_send(push, "now", 3);
    f->dispatching = 1;
    assert_ok(evzmq_socket_recv(p.socket, &patience, &message));
    f->dispatching = 0;
    evzmq_message_free(message);
    watch_close(&w);
    probe_free(&p);
}

static void a_callback_may_disable_and_what_waits_comes_later(void **state)
{
    struct fixture *const f = *state;
    struct watch server = {.f = f, .on_event = event_disable};
    struct watch client = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const push = peer_new(f, ZMQ_PUSH);
    char endpoint[ENDPOINT_SIZE];

    watch_open(f, &server, pull, EVZMQ_MONITOR_ALL);
    watch_open(f, &client, push, EVZMQ_MONITOR_ALL);
    peer_bind(f, pull, TRANSPORT_IPC, endpoint);
    peer_connect(push, endpoint);
    run_until(f, watch_count(&client, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED) == 1 &&
                     watch_stats(&server).received == 3);
    assert_int_equal(server.all, 1);
    for (size_t i = 2; i <= 3; i++) {
        assert_ok(evzmq_monitor_enable(server.monitor));
        run_until(f, server.all == i);
    }
    assert_string_equal(server.log, "listening; accepted; handshake succeeded; ");
    watch_close(&server);
    watch_close(&client);
}

/* Lowers the limit on descriptors to what is open, so that accept fails. */
static void a_flood_of_failures_to_accept_is_limited(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    char endpoint[ENDPOINT_SIZE];
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct rlimit before;
    struct rlimit none;
    int clients[64]; /* libzmq may yet close a few descriptors, and accept as many. */

    watch_open(f, &w, pull, EVZMQ_MONITOR_ACCEPT_FAILED);
    peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    fixture_glance(f);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10));
    for (size_t i = 0; i < 64; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    const int lowest_free = dup(clients[0]);
    assert_true(lowest_free > 0);
    (void)close(lowest_free);
    none.rlim_cur = (rlim_t)lowest_free; /* Not less: poll() would fail too. */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(connect(clients[i], (struct sockaddr *)&address, sizeof address), 0);
    }
    run_until(f, watch_stats(&w).accept_failed_dropped >= 20 && w.all >= 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(watch_stats(&w).delivered >= 1);
    assert_true(watch_stats(&w).received >
                watch_stats(&w).delivered + EVZMQ_MONITOR_ACCEPT_FAILED_PER_SECOND);
    assert_int_equal(watch_last(&w, EVZMQ_MONITOR_ACCEPT_FAILED)->error, EMFILE);
    for (size_t i = 0; i < 64; i++) {
        (void)close(clients[i]);
    }
    watch_close(&w);
}

static void bad_arguments_are_refused(void **state)
{
    struct fixture *const f = *state;
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const other = zmq_ctx_new();
    char not_a_socket[4096] = {0};
    struct evzmq_monitor_stats stats = {.size = 1};
    const struct {
        void *base;
        void *context;
        void *socket;
        unsigned events;
        evzmq_monitor_cb cb;
        int error;
    } rows[] = {
        {NULL, f->context, pull, EVZMQ_MONITOR_ALL, watch_event, EINVAL},
        {f->base, NULL, pull, EVZMQ_MONITOR_ALL, watch_event, EINVAL},
        {f->base, f->context, NULL, EVZMQ_MONITOR_ALL, watch_event, EINVAL},
        {f->base, f->context, pull, 0, watch_event, EINVAL},
        {f->base, f->context, pull, 0x8000, watch_event, EINVAL},
        {f->base, f->context, pull, EVZMQ_MONITOR_ALL, NULL, EINVAL},
        {f->base, other, pull, EVZMQ_MONITOR_ALL, watch_event, EINVAL},
        {f->base, f->context, not_a_socket, EVZMQ_MONITOR_ALL, watch_event, ENOTSOCK},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        errno = 0;
        assert_null(evzmq_monitor_new(rows[i].base, rows[i].context, rows[i].socket, rows[i].events,
                                      rows[i].cb, NULL));
        assert_int_equal(errno, rows[i].error);
    }
    assert_errno(evzmq_monitor_stop(NULL), EINVAL);
    assert_errno(evzmq_monitor_enable(NULL), EINVAL);
    assert_errno(evzmq_monitor_disable(NULL), EINVAL);
    assert_errno(evzmq_monitor_set_limit(NULL, 1), EINVAL);
    assert_errno(evzmq_monitor_get_stats(NULL, &stats), EINVAL);
    evzmq_monitor_free(NULL);
    assert_string_equal(evzmq_monitor_event_name((enum evzmq_monitor_event_type)3), "unknown");
    /* The bit after those of all events. */
    assert_string_equal(
        evzmq_monitor_event_name((enum evzmq_monitor_event_type)(EVZMQ_MONITOR_ALL + 1)),
        "unknown");
    assert_string_equal(evzmq_monitor_reason_name(1), "unknown");
    assert_int_equal(zmq_ctx_term(other), 0);
}

static void every_allocation_may_fail(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    char endpoint[ENDPOINT_SIZE];

    for (long n = 1; w.monitor == NULL; n++) {
        allocations_fail_at(n);
        w.monitor =
            evzmq_monitor_new(f->base, f->context, pull, EVZMQ_MONITOR_ALL, watch_event, &w);
        assert_true(w.monitor != NULL || errno == ENOMEM);
    }
    allocations_fail_at(0);
    f->attached++;
    peer_bind(f, pull, TRANSPORT_IPC, endpoint);
    run_until(f, w.all == 1);
    watch_close(&w);
}

static void an_event_that_finds_no_memory_is_counted(void **state)
{
    struct fixture *const f = *state;

    for (long n = 1; n <= 8; n++) {
        struct watch w = {.f = f};
        void *const pull = peer_new(f, ZMQ_PULL);
        char endpoint[ENDPOINT_SIZE];

        watch_open(f, &w, pull, EVZMQ_MONITOR_ALL);
        allocations_fail_at(n);
        peer_bind(f, pull, TRANSPORT_IPC, endpoint);
        run_until(f, w.all + watch_stats(&w).dropped == 1);
        allocations_fail_at(0);
        assert_ok(evzmq_monitor_stop(w.monitor));
        run_until(f, watch_count(&w, EVZMQ_MONITOR_STOPPED) == 1);
        assert_int_equal(w.missed, watch_stats(&w).dropped);
        watch_close(&w);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(both_ends_see_a_connection_come_and_go),
        claim(a_bind_that_fails_later_is_reported_with_its_reason),
        claim(a_refused_connection_is_delayed_and_retried),
        claim(a_mechanism_mismatch_fails_the_handshake_with_its_reason),
        claim(a_refused_peer_fails_the_handshake_with_the_status_of_zap),
        claim(only_the_events_asked_for_are_delivered),
        claim(an_idle_monitor_costs_no_wakeups),
        claim(a_disabled_monitor_drops_beyond_its_limit_and_never_stalls_data),
        claim(data_flows_while_nobody_runs_the_loop),
        claim(a_callback_may_disable_and_what_waits_comes_later),
        claim(a_callback_cannot_run_the_loop_but_who_comes_after_it_can),
        claim(a_flood_of_failures_to_accept_is_limited),
        claim(bad_arguments_are_refused),
        claim(every_allocation_may_fail),
        claim(an_event_that_finds_no_memory_is_counted),
    };

    return run_claims(tests);
}
