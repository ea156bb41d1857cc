/**
 * @file peer.c
 * Plain libzmq sockets: the other ends, which know nothing of the library under test.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

/* Long enough for any machine: a blocking call that takes this long has failed. */
#define PEER_TIMEOUT_MS 30000

void *peer_new(struct fixture *f, int type)
{
    void *const peer = zmq_socket(f->context, type);

    assert_non_null(peer);
    assert_true(f->peer_count < sizeof f->peers / sizeof f->peers[0]);
    f->peers[f->peer_count++] = peer;
    peer_set_int(peer, ZMQ_LINGER, 0);
    peer_set_int(peer, ZMQ_SNDTIMEO, PEER_TIMEOUT_MS);
    peer_set_int(peer, ZMQ_RCVTIMEO, PEER_TIMEOUT_MS);
    if (type == ZMQ_SUB) {
        assert_int_equal(zmq_setsockopt(peer, ZMQ_SUBSCRIBE, "", 0), 0);
    }
    return peer;
}

void peer_forget(struct fixture *f, void *peer)
{
    for (size_t i = 0; i < f->peer_count; i++) {
        if (f->peers[i] == peer) {
            f->peers[i] = NULL;
        }
    }
}

void peer_close(struct fixture *f, void *peer)
{
    peer_forget(f, peer);
    assert_int_equal(zmq_close(peer), 0);
}

void peer_set_int(void *peer, int option, int value)
{
    assert_int_equal(zmq_setsockopt(peer, option, &value, sizeof value), 0);
}

void peer_bind(struct fixture *f, void *peer, enum transport transport,
               char endpoint[ENDPOINT_SIZE])
{
    size_t size = ENDPOINT_SIZE;
    const unsigned number = f->endpoints++;

    if (transport == TRANSPORT_INPROC) {
        (void)snprintf(endpoint, ENDPOINT_SIZE, "inproc://%u", number);
    } else if (transport == TRANSPORT_TCP) {
        (void)snprintf(endpoint, ENDPOINT_SIZE, "tcp://127.0.0.1:*");
    } else {
        (void)snprintf(endpoint, ENDPOINT_SIZE, "ipc://%s/%u", fixture_directory(f), number);
    }
    assert_int_equal(zmq_bind(peer, endpoint), 0);
    assert_int_equal(zmq_getsockopt(peer, ZMQ_LAST_ENDPOINT, endpoint, &size), 0);
}

void peer_connect(void *peer, const char *endpoint)
{
    assert_int_equal(zmq_connect(peer, endpoint), 0);
}

void peer_pair(struct fixture *f, enum transport transport, int bind_type, void **out_bound,
               int connect_type, void **out_connected)
{
    char endpoint[ENDPOINT_SIZE];

    *out_bound = peer_new(f, bind_type);
    *out_connected = peer_new(f, connect_type);
    peer_bind(f, *out_bound, transport, endpoint);
    peer_connect(*out_connected, endpoint);
}

void peer_send(void *peer, const void *data, size_t size)
{
    assert_int_equal(zmq_send(peer, data, size, 0), size);
}

void peer_send_text(void *peer, const char *parts)
{
    for (;;) {
        const char *const end = strchr(parts, '|');
        const size_t size = end == NULL ? strlen(parts) : (size_t)(end - parts);

        assert_int_equal(zmq_send(peer, parts, size, end == NULL ? 0 : ZMQ_SNDMORE), size);
        if (end == NULL) {
            return;
        }
        parts = end + 1;
    }
}

void peer_send_sequence(void *peer, uint64_t first, uint64_t count, size_t size)
{
    unsigned char *const bytes = calloc(1, size);

    assert_non_null(bytes);
    assert_true(size >= sizeof first);
    for (uint64_t number = first; number < first + count; number++) {
        memcpy(bytes, &number, sizeof number);
        peer_send(peer, bytes, size);
    }
    free(bytes);
}

void peer_wait_readable(void *peer)
{
    zmq_pollitem_t item = {peer, 0, ZMQ_POLLIN, 0};

    assert_int_equal(zmq_poll(&item, 1, PEER_TIMEOUT_MS), 1);
}

/* Joins the parts of one message; -1 with EAGAIN when there is none. */
static int recv_text(void *peer, char *out, size_t room, int flags)
{
    size_t used = 0;
    int more = 1;

    while (more) {
        zmq_msg_t part;
        size_t size = 0;

        assert_int_equal(zmq_msg_init(&part), 0);
        if (zmq_msg_recv(&part, peer, flags) < 0) {
            assert_int_equal(used, 0);
            return -1;
        }
        flags = 0; /* Whole messages: the rest is there. */
        size = zmq_msg_size(&part);
        more = zmq_msg_more(&part);
        assert_true(used + size + 2 <= room);
        memcpy(out + used, zmq_msg_data(&part), size);
        used += size;
        if (more) {
            out[used++] = '|';
        }
        (void)zmq_msg_close(&part);
    }
    out[used] = '\0';
    return (int)used;
}

size_t peer_recv_text(void *peer, char *out, size_t room)
{
    const int size = recv_text(peer, out, room, 0);

    assert_true(size >= 0);
    return (size_t)size;
}

int peer_try_recv_text(void *peer, char *out, size_t room)
{
    const int size = recv_text(peer, out, room, ZMQ_DONTWAIT);

    assert_true(size >= 0 || errno == EAGAIN);
    return size >= 0;
}

/* The loop must run for the peer to get anything, and nothing may wake the loop: take turns. */
static void pump_until_readable(struct fixture *f, void *peer)
{
    zmq_pollitem_t item = {peer, 0, ZMQ_POLLIN, 0};

    for (;;) {
        fixture_glance(f);
        if (zmq_poll(&item, 1, 1) > 0) {
            return;
        }
    }
}

void pump_recv_text(struct fixture *f, void *peer, char *out, size_t room)
{
    pump_until_readable(f, peer);
    (void)peer_recv_text(peer, out, room);
}

void pump_recv_sequence(struct fixture *f, void *peer, uint64_t first, uint64_t count)
{
    for (uint64_t number = first; number < first + count; number++) {
        zmq_msg_t part;
        uint64_t seen = 0;

        assert_int_equal(zmq_msg_init(&part), 0);
        if (zmq_msg_recv(&part, peer, ZMQ_DONTWAIT) < 0) {
            assert_int_equal(errno, EAGAIN);
            pump_until_readable(f, peer);
            assert_true(zmq_msg_recv(&part, peer, ZMQ_DONTWAIT) >= 0);
        }
        assert_true(zmq_msg_size(&part) >= sizeof seen);
        assert_false(zmq_msg_more(&part));
        memcpy(&seen, zmq_msg_data(&part), sizeof seen);
        assert_int_equal(seen, number);
        (void)zmq_msg_close(&part);
    }
}
