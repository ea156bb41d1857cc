/**
 * @file test_heartbeats.c
 * Connections that are half-open: a network that is gone without a word is noticed, a program that
 * is only slow is not taken for gone, and pings of any kind harm nobody.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* unshare(), setns() */
#endif
#include "support.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw.h"
#include "watch.h"

enum { HEARTBEAT_MS = 50, TIMEOUT_MS = 200 };

/* A context of its own with heartbeats, a socket, and what is to be seen of it. */
struct side {
    struct fixture *f;
    void *zmq_context;
    struct evzmq_context *context;
    void *zmq_socket;
    struct watch watch;
    struct probe p;
};

static const struct evzmq_context_limits beating = {
    .size = sizeof beating, .heartbeat_ms = HEARTBEAT_MS, .heartbeat_timeout_ms = TIMEOUT_MS};

static void side_open(struct fixture *f, struct side *side, int type,
                      const struct evzmq_context_limits *limits)
{
    side->f = f;
    side->zmq_context = zmq_ctx_new();
    side->context = evzmq_context_new_with(side->zmq_context, NULL);
    assert_ok(evzmq_context_set_limits(side->context, limits));
    side->zmq_socket = evzmq_context_socket(side->context, type);
    assert_non_null(side->zmq_socket);
    peer_set_int(side->zmq_socket, ZMQ_RECONNECT_IVL, 20);
    side->watch.f = f;
    side->watch.monitor = evzmq_monitor_new(f->base, side->zmq_context, side->zmq_socket,
                                            EVZMQ_MONITOR_ALL, watch_event, &side->watch);
    assert_non_null(side->watch.monitor);
    f->attached++;
    probe_attach(f, &side->p, side->zmq_socket, EVZMQ_OPT_CLOSE_ON_FREE);
}

static void side_close(struct side *side)
{
    watch_close(&side->watch);
    probe_free(&side->p);
    assert_ok(evzmq_context_free(side->context));
    assert_int_equal(zmq_ctx_term(side->zmq_context), 0);
}

#if defined(__linux__) && defined(CLONE_NEWNET)
/* Runs a command of the system in the network that this thread is in. */
static int run(const char *command)
{
    const int status = system(command);

    return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int open_network(void)
{
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* Two networks with a cable between them. They live as long as threads or descriptors are in them,
 * and nobody else sees them. */
struct cable {
    int usual;
    int networks[2];
};

static int cable_open(struct cable *cable)
{
    char command[256];
    int result = 0;

    cable->usual = open_network();
    for (int i = 0; i < 2; i++) {
        cable->networks[i] = unshare(CLONE_NEWNET) == 0 ? open_network() : -1;
    }
    /* This is in the second one; the other end goes to the first, which the shell has as its
     * descriptor. */
    (void)snprintf(command, sizeof command,
                   "ip link set lo up && ip link add evzmq1 type veth peer name evzmq0 && "
                   "ip link set evzmq0 netns /proc/%d/fd/%d && "
                   "ip addr add 10.9.8.2/24 dev evzmq1 && ip link set evzmq1 up",
                   (int)getpid(), cable->networks[0]);
    result = cable->networks[1] < 0 ? -1 : run(command);
    if (cable->networks[0] >= 0) {
        assert_ok(setns(cable->networks[0], CLONE_NEWNET));
    }
    return result == 0 ? run("ip link set lo up && ip addr add 10.9.8.1/24 dev evzmq0 && "
                             "ip link set evzmq0 up")
                       : -1;
}

static void cable_close(struct cable *cable)
{
    assert_ok(setns(cable->usual, CLONE_NEWNET));
    for (int i = 0; i < 2; i++) {
        if (cable->networks[i] >= 0) {
            (void)close(cable->networks[i]);
        }
    }
    (void)close(cable->usual);
}

static size_t watch_seen(const struct side *side, unsigned type)
{
    return watch_count(&side->watch, type);
}

/* A server in the first network, to which this thread goes back, and a client in the second. */
static void open_far_sides(struct fixture *f, struct cable *cable, struct side *server,
                           struct side *client, const struct evzmq_context_limits *limits)
{
    if (geteuid() != 0) {
        print_message("only root can make networks\n");
        skip();
    }
    if (cable_open(cable) != 0) {
        cable_close(cable);
        print_message("this system lets nobody make networks, or has no ip(8)\n");
        skip();
    }
    side_open(f, server, ZMQ_PULL, limits); /* libzmq's threads start here. */
    probe_enable(&server->p, EV_READ);
    assert_ok(evzmq_context_bind(server->context, server->zmq_socket, "tcp://10.9.8.1:7777"));
    assert_ok(setns(cable->networks[1], CLONE_NEWNET));
    side_open(f, client, ZMQ_PUSH, limits);
    assert_ok(evzmq_context_connect(client->context, client->zmq_socket, "tcp://10.9.8.1:7777"));
}

static void write_hundred(struct side *client, uint64_t *number)
{
    for (int i = 0; i < 100; i++, ++*number) {
        assert_ok(evzmq_socket_write(client->p.socket, number, sizeof *number));
    }
}

/* How the network goes, as often as that, and comes back; run in the second one. */
struct trouble {
    size_t times;
    const char *cut;
    const char *mend;
};

/* Nothing tells a socket of it. */
static void check_cable(struct fixture *f, const struct evzmq_context_limits *limits,
                        const struct trouble *trouble)
{
    struct cable cable;
    struct side server = {.p = {.on_read = read_sequence}};
    struct side client = {0};
    uint64_t number = 0;

    open_far_sides(f, &cable, &server, &client, limits);
    for (size_t pulls = 0; pulls < trouble->times; pulls++) {
        run_until(f, watch_seen(&client, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED) == pulls + 1 &&
                         watch_seen(&server, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED) == pulls + 1);
        write_hundred(&client, &number);
        run_until(f, server.p.sequence == number);
        assert_int_equal(watch_seen(&server, EVZMQ_MONITOR_DISCONNECTED), pulls);
        assert_ok(run(trouble->cut));
        run_until(f, watch_seen(&client, EVZMQ_MONITOR_DISCONNECTED) == pulls + 1 &&
                         watch_seen(&server, EVZMQ_MONITOR_DISCONNECTED) == pulls + 1);
        write_hundred(&client, &number); /* They wait for the network. */
        assert_ok(run(trouble->mend));
        run_until(f, server.p.sequence == number);
    }
    assert_int_equal(server.p.events_all + client.p.events[EVZMQ_EVENT_UNDELIVERABLE], 0);
    side_close(&client);
    side_close(&server);
    cable_close(&cable);
}

static void a_pulled_cable_is_a_disconnected_event_and_all_goes_on_when_it_is_back(void **state)
{
    static const struct trouble pulled = {2, "ip link set evzmq1 down", "ip link set evzmq1 up"};

    check_cable(*state, &beating, &pulled);
}

/* Every two seconds, as is the default; but given up sooner. What is sent goes to nobody: an
 * interface that is down would not count its probes. */
static void the_systems_probes_notice_that_an_idle_connection_leads_nowhere(void **state)
{
    const struct evzmq_context_limits probing = {.size = sizeof probing,
                                                 .heartbeat_timeout_ms = 2001};
    static const struct trouble astray = {
        1, "ip neigh replace 10.9.8.1 lladdr 02:00:00:00:00:01 nud permanent dev evzmq1",
        "ip neigh del 10.9.8.1 dev evzmq1"};

    check_cable(*state, &probing, &astray);
}
#else
static void a_pulled_cable_is_a_disconnected_event_and_all_goes_on_when_it_is_back(void **state)
{
    (void)state;
    print_message("this system has no networks to be made\n");
    skip();
}

static void the_systems_probes_notice_that_an_idle_connection_leads_nowhere(void **state)
{
    (void)state;
    print_message("this system has no networks to be made\n");
    skip();
}
#endif

static void read_slowly(struct probe *p, struct evzmq_message *message)
{
    read_sequence(p, message);
    if (p->sequence == 5) {
        (void)zmq_poll(NULL, 0, 4 * TIMEOUT_MS); /* What takes long in a program. */
    }
}

/* libzmq's own threads answer pings: a sign of life of the process, not of its loop. */
static void a_callback_that_takes_longer_than_heartbeats_may_costs_no_connection(void **state)
{
    struct fixture *const f = *state;
    struct side server = {.p = {.on_read = read_slowly}};
    struct side client = {0};

    side_open(f, &server, ZMQ_PULL, &beating);
    side_open(f, &client, ZMQ_PUSH, &beating);
    assert_ok(evzmq_context_bind(server.context, server.zmq_socket, "tcp://127.0.0.1:*"));
    assert_ok(evzmq_context_connect(client.context, client.zmq_socket,
                                    evzmq_context_get_endpoint(server.context, server.zmq_socket)));
    probe_enable(&server.p, EV_READ);
    for (uint64_t i = 0; i < 10; i++) {
        assert_ok(evzmq_socket_write(client.p.socket, &i, sizeof i));
    }
    run_until(f, server.p.reads == 10);
    fixture_run_for(f, 50);
    assert_int_equal(watch_count(&server.watch, EVZMQ_MONITOR_DISCONNECTED), 0);
    assert_int_equal(watch_count(&client.watch, EVZMQ_MONITOR_DISCONNECTED), 0);
    side_close(&client);
    side_close(&server);
}

/* A PING with a time to live, in tenths of a second, and up to more context than is allowed. */
static size_t make_ping(unsigned char *out, unsigned time_to_live, size_t context)
{
    unsigned char ping[64] = "\x04PING";

    ping[5] = (unsigned char)(time_to_live >> 8);
    ping[6] = (unsigned char)time_to_live;
    return raw_frame(out, RAW_COMMAND, ping, 7 + context);
}

static void pings_of_any_kind_harm_nobody_else(void **state)
{
    enum { CONNECTIONS = 40, PINGS = 25 };
    struct fixture *const f = *state;
    struct side server = {.p = {.on_read = read_sequence}};
    void *const push = peer_new(f, ZMQ_PUSH);
    const char *endpoint = NULL;
    int fds[CONNECTIONS];
    unsigned chance = 12345;

    side_open(f, &server, ZMQ_PULL, &beating);
    assert_ok(evzmq_context_bind(server.context, server.zmq_socket, "tcp://127.0.0.1:*"));
    endpoint = evzmq_context_get_endpoint(server.context, server.zmq_socket);
    peer_connect(push, endpoint);
    probe_enable(&server.p, EV_READ);
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = raw_open(raw_port(endpoint));
        assert_true(fds[i] >= 0);
        for (int k = 0; k < PINGS; k++) {
            unsigned char ping[80];

            chance = chance * 1103515245u + 12345u;
            const unsigned lives[] = {0, 1, 0xffff, chance >> 16};
            const size_t size = make_ping(ping, lives[k % 4], (chance >> 8) % (k < 20 ? 17 : 40));
            /* The connection of a ping that is too long may be closed by now. */
            (void)raw_send(fds[i], ping, size);
        }
        peer_send_sequence(push, (uint64_t)i, 1, 8);
        run_until(f, server.p.reads == (size_t)i + 1);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        raw_reset(fds[i]);
    }
    peer_send_sequence(push, CONNECTIONS, 1, 8);
    run_until(f, server.p.reads == CONNECTIONS + 1);
    assert_int_equal(server.p.events_all, 0);
    side_close(&server);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_pulled_cable_is_a_disconnected_event_and_all_goes_on_when_it_is_back),
        claim(the_systems_probes_notice_that_an_idle_connection_leads_nowhere),
        claim(a_callback_that_takes_longer_than_heartbeats_may_costs_no_connection),
        claim(pings_of_any_kind_harm_nobody_else),
    };

    return run_claims(tests);
}
