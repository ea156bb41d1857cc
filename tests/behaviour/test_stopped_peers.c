/**
 * @file test_stopped_peers.c
 * Peers that are there and do nothing: a process that is stopped, a listener that never speaks.
 */
#include "support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

enum { MESSAGES = 900, SIZE = 20000 };

/* A process that binds a PULL socket and receives all messages, in order. */
static void receive_all(void *arg)
{
    void *const context = zmq_ctx_new();
    void *const pull = child_bind_pull(context);

    (void)arg;
    for (uint64_t number = 0; number < MESSAGES; number++) {
        static char bytes[SIZE];
        uint64_t seen = 0;

        child_check(zmq_recv(pull, bytes, sizeof bytes, 0) == SIZE);
        memcpy(&seen, bytes, sizeof seen);
        child_check(seen == number);
    }
    child_check(zmq_close(pull) == 0);
    child_check(zmq_ctx_term(context) == 0);
}

/* Connects to the stopped process, and writes until all that can be sent to it is sent. */
static pid_t open_stopped(struct fixture *f, struct probe *p, unsigned options)
{
    static char bytes[SIZE];
    char endpoint[ENDPOINT_SIZE];
    const pid_t child = child_start(receive_all, NULL, endpoint);
    void *const push = peer_new(f, ZMQ_PUSH);
    size_t before = 0;
    int status = 0;

    peer_set_int(push, ZMQ_SNDHWM, 1);
    peer_connect(push, endpoint);
    peer_send_sequence(push, 0, 1, SIZE); /* They are connected. */
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    probe_attach(f, p, push, options);
    for (uint64_t i = 1; i < MESSAGES; i++) {
        memcpy(bytes, &i, sizeof i);
        assert_ok(evzmq_socket_write(p->socket, bytes, sizeof bytes));
    }
    do {
        before = evzmq_socket_get_queued(p->socket, NULL);
        fixture_run_for(f, 100);
    } while (evzmq_socket_get_queued(p->socket, NULL) < before);
    assert_true(before > 0);
    return child;
}

static void a_stopped_peer_costs_no_wakeups_and_gets_everything_when_it_goes_on(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    const pid_t child = open_stopped(f, &p, 0);
    const struct evzmq_socket_stats before = probe_stats(&p);
    int status = -1;

    fixture_run_for(f, 200);
    /* The kernel may still find room for some of it, whose going out is no idle wakeup. */
    assert_true(probe_wakeups(&p) - before.wakeups <=
                2 + 2 * (probe_stats(&p).messages_out - before.messages_out));
    assert_int_equal(kill(child, SIGCONT), 0);
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    probe_free(&p);
}

static void a_close_with_a_stopped_peer_ends_with_its_linger(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    const pid_t child = open_stopped(f, &p, EVZMQ_OPT_CLOSE_ON_FREE);

    peer_set_int(evzmq_socket_get_zmq_socket(p.socket), ZMQ_LINGER, 50);
    probe_free(&p);
    assert_int_equal(zmq_ctx_term(f->context), 0);
    f->context = NULL;
    child_kill(child);
}

/* A listener whose backlog takes the connection and that never says a word. */
static int black_hole(char endpoint[ENDPOINT_SIZE])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(endpoint, ENDPOINT_SIZE, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
    return listener;
}

static void a_socket_may_be_freed_while_its_connection_is_being_made(void **state)
{
    struct fixture *const f = *state;
    char endpoint[ENDPOINT_SIZE];
    const int listener = black_hole(endpoint);

    for (int turns = 0; turns < 10; turns++) {
        struct probe p = {0};
        void *const push = peer_new(f, ZMQ_PUSH);

        peer_set_int(push, ZMQ_LINGER, 20);
        peer_connect(push, endpoint);
        probe_attach(f, &p, push, EVZMQ_OPT_CLOSE_ON_FREE);
        assert_ok(evzmq_socket_write(p.socket, "into the dark", 13));
        for (int i = 0; i < turns; i++) {
            fixture_glance(f);
        }
        probe_free(&p);
    }
    assert_int_equal(zmq_ctx_term(f->context), 0);
    f->context = NULL;
    (void)close(listener);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_stopped_peer_costs_no_wakeups_and_gets_everything_when_it_goes_on),
        claim(a_close_with_a_stopped_peer_ends_with_its_linger),
        claim(a_socket_may_be_freed_while_its_connection_is_being_made),
    };

    return run_claims(tests);
}
