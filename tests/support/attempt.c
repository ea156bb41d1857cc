/*
 * attempt.c: see attempt.h.
 */
#include "attempt.h"

#include <poll.h>
#include <sched.h>
#include <string.h>

#include <event2/buffer.h>

#include <evzmq/msgpack.h>

static void make_sockets(struct attempt *a, const struct scenario *scenario)
{
    struct fixture *const f = a->f;
    a->socket = peer_new(f, scenario->type);
    a->peer = peer_new(f, scenario->peer_type);
    assert_int_equal(zmq_setsockopt(a->peer, ZMQ_ROUTING_ID, "P", 1), 0);
    char endpoint[ENDPOINT_SIZE];
    peer_bind(f, a->socket, TRANSPORT_INPROC, endpoint);
    peer_connect(a->peer, endpoint);
    if (!scenario->unattached) {
        probe_attach(f, &a->p, a->socket, 0);
        fixture_glance(f);
    }
}

void begin_attempt(struct attempt *a, struct fixture *f, const struct scenario *scenario)
{
    *a = (struct attempt){.f = f};
    a->p.f = f;
    if (!scenario->alone) {
        make_sockets(a, scenario);
    }
    if (scenario->prepare != NULL) {
        scenario->prepare(a);
    }
}

void end_attempt(struct attempt *a, const struct scenario *scenario)
{
    if (scenario->clean != NULL) {
        scenario->clean(a);
    }
    evzmq_requester_free(a->requester);
    evzmq_publisher_free(a->publisher);
    evzmq_subscriber_free(a->subscriber);
    evzmq_worker_free(a->worker);
    evzmq_pool_free(a->pool);
    evzmq_monitor_free(a->monitor);
    evzmq_poster_free(a->poster);
    evzmq_message_free(a->message);
    evzmq_message_free(a->result);
    evzmq_envelope_free(a->envelope);
    if (a->buffer != NULL) {
        evbuffer_free(a->buffer);
    }
    if (a->p.socket != NULL) {
        probe_free(&a->p);
    }
    if (a->zmq_socket != NULL) {
        assert_ok(evzmq_context_close_socket(a->context, a->zmq_socket));
    }
    assert_ok(evzmq_context_free(a->context));
    evzmq_codec_free(a->codec);
    evzmq_arena_free(a->arena);
    for (size_t i = 0; i < a->f->peer_count; i++) {
        if (a->f->peers[i] != NULL) {
            peer_close(a->f, a->f->peers[i]);
        }
    }
    a->f->peer_count = 0;
}

bool descriptors_are_back(int before)
{
    enum { QUICK = 100, TRIES = 5000 };
    for (int tries = 0; tries < TRIES; tries++) {
        if (count_descriptors() <= before) {
            return true;
        }
        if (tries < QUICK) {
            (void)sched_yield();
        } else {
            (void)poll(NULL, 0, 1); /* That thread may not get a processor for long. */
        }
    }
    return false;
}

/* Returns whether the n-th request was reached. */
static bool attempt(struct fixture *f, const struct scenario *scenario, size_t n, size_t times)
{
    struct attempt a;
    begin_attempt(&a, f, scenario);
    const long live = allocations_live();
    const int descriptors = count_descriptors();
    faults_begin(a.socket);
    faults_plan(FAULTS_MEMORY, n, times, ENOMEM);
    errno = 0;
    const int result = scenario->act(&a);
    const int error = errno;
    faults_end();
    const bool reached = faults_made(FAULTS_MEMORY) > 0;
    if (result < 0) {
        assert_true(reached);
        assert_int_equal(error, ENOMEM);
        assert_true(scenario->makes_room || allocations_live() == live);
        assert_true(scenario->connects || descriptors_are_back(descriptors + scenario->makes_room));
        assert_ok(scenario->act(&a));
    }
    scenario->check(&a);
    end_attempt(&a, scenario);
    return reached;
}

void run_scenario(struct fixture *f, const struct scenario *scenario)
{
    const size_t times[] = {1, FOR_EVER};
    for (size_t i = 0; i < 2; i++) {
        size_t n = 1;
        while (attempt(f, scenario, n, times[i])) {
            n++;
            assert_true(n < 300);
        }
        assert_true((n > 1) != scenario->frugal); /* otherwise nothing was tested */
    }
}

void use_msgpack(struct attempt *a)
{
    struct evzmq_codec *codec = evzmq_msgpack_codec_new(NULL);
    assert_non_null(codec);
    assert_ok(evzmq_socket_set_codec(a->p.socket, codec));
    evzmq_codec_free(codec);
}

void make_message(struct attempt *a)
{
    a->message = evzmq_message_new();
    assert_non_null(a->message);
    assert_ok(evzmq_message_add(a->message, "P", 1));
    assert_ok(evzmq_message_add(a->message, "1", 1));
    assert_ok(evzmq_message_add(a->message, "2", 1));
}

void receive_large_and_small(struct attempt *a)
{
    static char large[EVZMQ_ZERO_COPY_MIN];
    memset(large, 'L', sizeof(large));
    assert_int_equal(zmq_send(a->peer, "s", 1, ZMQ_SNDMORE), 1);
    assert_int_equal(zmq_send(a->peer, large, sizeof(large), ZMQ_SNDMORE), (int)sizeof(large));
    for (int i = 0; i < 6; i++) {
        assert_int_equal(zmq_send(a->peer, "t", 1, ZMQ_SNDMORE), 1);
    }
    assert_int_equal(zmq_send(a->peer, "\x07", 1, 0), 1);
    assert_ok(evzmq_socket_try_recv(a->p.socket, &a->message));
}
