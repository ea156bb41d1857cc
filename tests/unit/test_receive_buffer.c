/*
 * test_receive_buffer.c: how large the receive buffer of a base gets, which its program cannot see.
 */
#include "support.h"

#include <string.h>

#include "registry.h"
#include "socket.h"

static void the_receive_buffer_grows_as_messages_need_it_and_no_further(void **state)
{
    static const struct {
        size_t message;
        size_t buffer;
    } rows[] = {
        {1, 4096}, {4096, 4096}, {4097, 8192}, {1, 8192}, {10000, 10000}, {1, 10000},
    };
    static const char bytes[10001];
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    assert_ok(evzmq_socket_set_receive_mode(p.socket, EVZMQ_RECEIVE_INTO));
    assert_ok(evzmq_base_set_receive_buffer(f->base, 10000));
    probe_enable(&p, EV_READ);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        peer_send(push, bytes, rows[i].message);
        run_until(f, p.reads == i + 1);
        assert_int_equal(p.socket->base->buffer_size, rows[i].buffer);
    }
    assert_int_equal(probe_stats(&p).spills, 0);
    peer_send(push, bytes, sizeof bytes);
    run_until(f, probe_stats(&p).spills == 1);
    assert_int_equal(p.socket->base->buffer_size, 10000);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(the_receive_buffer_grows_as_messages_need_it_and_no_further),
    };

    return run_claims(tests);
}
