/**
 * @file test_hazards_peers.c
 * Peers that speak ZMTP 3.1 by hand, over tcp, and mean no good: what they announce, how they ping,
 * and what they call themselves.
 */
#include "support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "watch.h"

/* A context with a bound PULL socket on the base, and how to reach it. */
struct server {
    struct evzmq_context *context;
    struct probe p;
    const char *endpoint;
};

static void server_open_in_domain(struct fixture *f, struct server *server, const char *domain)
{
    void *pull = NULL;

    memset(server, 0, sizeof *server);
    server->context = evzmq_context_new(0, NULL);
    assert_non_null(server->context);
    pull = evzmq_context_socket(server->context, ZMQ_PULL);
    assert_non_null(pull);
    if (domain != NULL) {
        assert_ok(zmq_setsockopt(pull, ZMQ_ZAP_DOMAIN, domain, strlen(domain)));
    }
    assert_ok(evzmq_context_bind(server->context, pull, "tcp://127.0.0.1:*"));
    server->endpoint = evzmq_context_get_endpoint(server->context, pull);
    server->p.f = f;
    server->p.socket = evzmq_socket_new(f->base, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    assert_non_null(server->p.socket);
    f->attached++;
    probe_setcb(&server->p);
    probe_enable(&server->p, EV_READ);
}

static void server_open(struct fixture *f, struct server *server)
{
    server_open_in_domain(f, server, NULL);
}

static void server_close(struct server *server)
{
    probe_free(&server->p);
    assert_ok(evzmq_context_free(server->context));
}

/* A good client is served, whatever others did before. */
static void assert_serves(struct fixture *f, struct server *server)
{
    const size_t before = server->p.reads;
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_connect(push, server->endpoint);
    peer_send_text(push, "good");
    run_until(f, server->p.reads == before + 1);
    peer_close(f, push);
}

static void send_raw(int s, const void *bytes, size_t size)
{
    assert_int_equal(send(s, bytes, size, MSG_NOSIGNAL), size);
}

static void read_exactly(int s, unsigned char *out, size_t size)
{
    assert_int_equal(recv(s, out, size, MSG_WAITALL), size);
}

/* What a server says first: 64 bytes of a greeting, then READY. */
static void read_handshake(int s)
{
    unsigned char bytes[256];

    read_exactly(s, bytes, 64);
    read_exactly(s, bytes, 2);
    assert_int_equal(bytes[0], 0x04);
    read_exactly(s, bytes, bytes[1]);
}

static int raw_open(const struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const int at_once = 1;
    const int s = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)strtoul(strrchr(server->endpoint, ':') + 1, NULL, 10));
    assert_true(s >= 0);
    assert_ok(setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once));
    assert_ok(connect(s, (const struct sockaddr *)&address, sizeof address));
    return s;
}

/* Connects as a PUSH does. What it says before it heard the other's READY would end it. */
static int raw_connect(const struct server *server)
{
    static const char ready[] = "\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH";
    unsigned char greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1};
    const int s = raw_open(server);

    memcpy(greeting + 12, "NULL", 4);
    send_raw(s, greeting, sizeof greeting);
    send_raw(s, ready, sizeof ready - 1);
    read_handshake(s);
    return s;
}

/* A message of one byte, so that the connection is known to be a good one until then. */
static void raw_say(struct fixture *f, struct server *server, int s)
{
    const size_t before = server->p.reads;

    send_raw(s, "\x00\x01x", 3);
    run_until(f, server->p.reads == before + 1);
}

/* Reads until the other side ends the connection. */
static void raw_read_to_end(int s)
{
    char buffer[256];

    while (read(s, buffer, sizeof buffer) > 0) {
    }
}

/* Pages of address space; 0 where nobody can tell. */
static long address_space(void)
{
    long pages = 0;
    FILE *const file = fopen("/proc/self/statm", "r");

    if (file != NULL) {
        if (fscanf(file, "%ld", &pages) != 1) {
            pages = 0;
        }
        (void)fclose(file);
    }
    return pages;
}

/* libzmq alone reserves what a header of nine bytes announces, for each connection anew. */
static void an_announced_size_reserves_nothing_and_costs_its_sender_the_connection(void **state)
{
    static const unsigned char header[] = {0x02, 0, 0, 0, 2, 0, 0, 0, 0}; /* 8 GiB */
    enum { PEERS = 4 };
    struct fixture *const f = *state;
    struct server server;
    int peers[PEERS];
    long before = 0;

    server_open(f, &server);
    for (int i = 0; i < PEERS; i++) {
        peers[i] = raw_connect(&server);
        raw_say(f, &server, peers[i]);
    }
    before = address_space();
    for (int i = 0; i < PEERS; i++) {
        send_raw(peers[i], header, sizeof header);
        raw_read_to_end(peers[i]);
        assert_ok(close(peers[i]));
    }
    assert_true((address_space() - before) * (sysconf(_SC_PAGESIZE) / 1024) < 1024 * 1024);
    assert_serves(f, &server);
    server_close(&server);
}

/* Size and name of a PING are 7 bytes with its time to live, in tenths of a second; up to 16 of a
 * context follow, which a PONG has to repeat. */
static void ping(int s, unsigned ttl, size_t context)
{
    unsigned char bytes[64] = {0x04, 0, 4, 'P', 'I', 'N', 'G'};

    bytes[1] = (unsigned char)(7 + context);
    bytes[7] = (unsigned char)(ttl >> 8);
    bytes[8] = (unsigned char)ttl;
    for (size_t i = 0; i < context; i++) {
        bytes[9 + i] = (unsigned char)('a' + i);
    }
    send_raw(s, bytes, 9 + context);
}

static void expect_pong(int s, size_t context)
{
    unsigned char bytes[256];

    do { /* Its own PINGs come when they are due. */
        read_exactly(s, bytes, 2);
        assert_int_equal(bytes[0], 0x04);
        read_exactly(s, bytes + 2, bytes[1]);
    } while (memcmp(bytes + 2, "\x04PONG", 5) != 0);
    assert_int_equal(bytes[1], 5 + context);
    for (size_t i = 0; i < context; i++) {
        assert_int_equal(bytes[7 + i], 'a' + i);
    }
}

static void pings_of_any_time_to_live_are_answered_and_disturb_no_message(void **state)
{
    static const unsigned fixed[] = {0, 600, 0x7fff, 0x8000, 0xffff};
    struct fixture *const f = *state;
    struct server server;
    unsigned random = 20261130;
    int s = -1;

    server_open(f, &server);
    s = raw_connect(&server);
    for (unsigned i = 0; i < 200; i++) {
        unsigned ttl = i < 5 ? fixed[i] : 0;

        if (i >= 5) { /* At least a minute: none passes while the test runs. */
            random = random * 1103515245 + 12345;
            ttl = 600 + (random >> 8) % (0x10000 - 600);
        }
        ping(s, ttl, i % 17);
        expect_pong(s, i % 17);
        raw_say(f, &server, s);
    }
    assert_int_equal(server.p.events_all, 0);
    assert_serves(f, &server);
    assert_ok(close(s));
    server_close(&server);
}

static void a_peer_that_outlives_its_own_time_to_live_loses_its_connection_only(void **state)
{
    struct fixture *const f = *state;
    struct server server;
    int s = -1;

    server_open(f, &server);
    s = raw_connect(&server);
    raw_say(f, &server, s);
    ping(s, 1, 0);
    raw_read_to_end(s); /* It says nothing more. */
    assert_ok(close(s));
    assert_serves(f, &server);
    assert_int_equal(server.p.events_all, 0);
    server_close(&server);
}

/* Whether a server ends a connection that begins like this. */
static void assert_refuses(const struct server *server, const void *greeting, size_t size)
{
    const int s = raw_open(server);

    send_raw(s, greeting, size);
    raw_read_to_end(s);
    assert_ok(close(s));
}

/* libzmq 4.3.4 has ways to end the process for peers that speak ZMTP 1 and 2. */
static void with_a_zap_domain_peers_of_old_protocols_are_refused_and_others_served(void **state)
{
    static const unsigned char first[] = {0x01, 0x00, 0x02, 0x00, 'x'};
    static const unsigned char second[] = {0xff, 0, 0, 0, 0, 0, 0,    0,  1,
                                           0x7f, 1, 8, 0, 0, 0, 0x01, 'x'};
    struct fixture *const f = *state;
    struct server server;

    server_open_in_domain(f, &server, "any");
    assert_refuses(&server, first, sizeof first);
    assert_refuses(&server, second, sizeof second);
    assert_int_equal(server.p.reads, 0);
    assert_serves(f, &server);
    server_close(&server);
}

/* Format directives, ends of lines and of strings, escapes of terminals, ways up and down. */
static const char *const nasty[] = {"%s%s%s%s%n%n%n", "%99999999d%1$*2$x", "../../../../etc/passwd",
                                    "\r\n\x1b[31mred\x07", "'; rm -rf \"$HOME\" `id`"};
#define NASTY (sizeof nasty / sizeof nasty[0])

static void read_and_reply(struct probe *p, struct evzmq_message *message)
{
    size_t size = 0;
    const void *const body = evzmq_message_get_part(message, 1, &size);

    assert_part(message, 0, nasty[p->reads - 1], strlen(nasty[p->reads - 1]));
    assert_ok(evzmq_socket_reply(p->socket, evzmq_message_get_envelope(message), body, size));
}

static void what_peers_call_themselves_and_say_is_bytes_and_nothing_else(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_reply};
    char endpoint[ENDPOINT_SIZE];
    char text[64];
    void *const router = peer_new(f, ZMQ_ROUTER);

    peer_bind(f, router, TRANSPORT_TCP, endpoint);
    probe_attach(f, &p, router, 0);
    probe_enable(&p, EV_READ);
    for (size_t i = 0; i < NASTY; i++) {
        void *const dealer = peer_new(f, ZMQ_DEALER);
        const struct evzmq_bytes nobody[] = {{nasty[i], strlen(nasty[i])}, {"x", 1}};

        assert_errno(evzmq_socket_write_parts(p.socket, nobody, 2), EHOSTUNREACH);
        assert_ok(zmq_setsockopt(dealer, ZMQ_ROUTING_ID, nasty[i], strlen(nasty[i])));
        peer_connect(dealer, endpoint);
        peer_send(dealer, nasty[i], strlen(nasty[i]));
        pump_recv_text(f, dealer, text, sizeof text);
        assert_string_equal(text, nasty[i]);
        peer_close(f, dealer);
    }
    probe_free(&p);
}

/* Texts of errors have the endpoint in them, and so do the events of a monitor. */
static void the_text_of_an_error_names_the_endpoint_in_one_line(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_context *const context = evzmq_context_new_with(f->context, NULL);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);
    struct watch w = {.f = f};

    assert_non_null(pull);
    watch_open(f, &w, pull, EVZMQ_MONITOR_CONNECT_RETRIED);
    for (size_t i = 0; i < NASTY; i++) {
        char endpoint[ENDPOINT_SIZE];

        (void)snprintf(endpoint, sizeof endpoint, "ipc:///nonexistent/%s", nasty[i]);
        assert_int_equal(evzmq_context_bind(context, pull, endpoint), -1);
        assert_non_null(strstr(evzmq_context_get_error(context), "nonexistent"));
        assert_null(strstr(evzmq_context_get_error(context), "\n"));
        assert_ok(evzmq_context_connect(context, pull, endpoint));
    }
    run_until(f, watch_count(&w, EVZMQ_MONITOR_CONNECT_RETRIED) >= NASTY);
    assert_non_null(strstr(w.endpoints[watch_bit(EVZMQ_MONITOR_CONNECT_RETRIED)], "nonexistent"));
    watch_close(&w);
    assert_ok(evzmq_context_close_socket(context, pull));
    assert_ok(evzmq_context_free(context));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(an_announced_size_reserves_nothing_and_costs_its_sender_the_connection),
        claim(pings_of_any_time_to_live_are_answered_and_disturb_no_message),
        claim(a_peer_that_outlives_its_own_time_to_live_loses_its_connection_only),
        claim(with_a_zap_domain_peers_of_old_protocols_are_refused_and_others_served),
        claim(what_peers_call_themselves_and_say_is_bytes_and_nothing_else),
        claim(the_text_of_an_error_names_the_endpoint_in_one_line),
    };

    return run_claims(tests);
}
