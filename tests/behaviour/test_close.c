/**
 * @file test_close.c
 * The end of a socket: closing on free, linger, a terminated context, and what is left behind.
 */
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void dispatch_returns_once_all_sockets_are_freed(void **state)
{
    struct fixture *const f = *state;
    struct probe probes[3] = {
        {.on_read = read_free}, {.on_read = read_free}, {.on_read = read_free}};

    for (int i = 0; i < 3; i++) {
        void *pull = NULL;
        void *push = NULL;

        peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        probe_attach(f, &probes[i], pull, i == 1 ? EVZMQ_OPT_CLOSE_ON_FREE : 0);
        probe_enable(&probes[i], EV_READ);
        peer_send_text(push, "last word");
        peer_send_text(push, "never seen");
    }
    assert_int_not_equal(fixture_loop(f, 0), -1); /* It returns: that is the claim. */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(probes[i].reads, 1);
        assert_null(probes[i].socket);
    }
}

static void close_on_free_closes_the_zmq_socket(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *const pull = peer_new(f, ZMQ_PULL);
    void *other = NULL;

    assert_int_equal(zmq_bind(pull, "inproc://taken"), 0);
    probe_attach(f, &p, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    fixture_glance(f);
    probe_free(&p);
    other = peer_new(f, ZMQ_PULL);
    /* An inproc name is free again soon after its socket is closed: libzmq's reaper does it. */
    while (zmq_bind(other, "inproc://taken") != 0) {
        assert_int_equal(errno, EADDRINUSE);
        (void)zmq_poll(NULL, 0, 1);
    }
}

static void without_close_on_free_the_zmq_socket_stays_open(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *const pull = peer_new(f, ZMQ_PULL);

    assert_int_equal(zmq_bind(pull, "inproc://taken"), 0);
    probe_attach(f, &p, pull, 0);
    probe_free(&p);
    assert_int_equal(zmq_bind(peer_new(f, ZMQ_PULL), "inproc://taken"), -1);
}

/* Termination must come back although the message can never be delivered. */
static void an_infinite_linger_does_not_hang_the_end_of_the_context(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_set_int(push, ZMQ_LINGER, -1);
    peer_connect(push, "tcp://127.0.0.1:1"); /* Nobody listens there. */
    probe_attach(f, &p, push, EVZMQ_OPT_CLOSE_ON_FREE);
    assert_ok(evzmq_socket_write(p.socket, "undeliverable", 13));
    probe_free(&p);
    assert_int_equal(zmq_ctx_term(f->context), 0);
    f->context = NULL;
}

static void an_infinite_linger_with_messages_still_queued_does_not_hang_either(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_set_int(push, ZMQ_LINGER, -1);
    peer_bind(f, push, TRANSPORT_TCP, endpoint);
    probe_attach(f, &p, push, EVZMQ_OPT_CLOSE_ON_FREE);
    for (int i = 0; i < 100; i++) {
        assert_ok(evzmq_socket_write(p.socket, "queued", 6));
    }
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 100);
    probe_free(&p);
    assert_int_equal(zmq_ctx_term(f->context), 0);
    f->context = NULL;
}

/* What zeromq has taken is still delivered within the linger. */
static void messages_handed_over_before_close_on_free_arrive(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    void *const pull = peer_new(f, ZMQ_PULL);

    peer_set_int(push, ZMQ_LINGER, -1);
    peer_bind(f, pull, TRANSPORT_IPC, endpoint);
    peer_connect(push, endpoint);
    probe_attach(f, &p, push, EVZMQ_OPT_CLOSE_ON_FREE);
    for (uint64_t i = 0; i < 500; i++) {
        assert_ok(evzmq_socket_write(p.socket, &i, sizeof i));
    }
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 0);
    probe_free(&p);
    pump_recv_sequence(f, pull, 0, 500);
}

static void check_terminated(struct probe *p, const struct evzmq_event *event)
{
    assert_int_equal(event->type, EVZMQ_EVENT_TERMINATED);
    assert_int_equal(event->error, ETERM);
    assert_errno(evzmq_socket_enable(p->socket, EV_READ), ETERM);
}

static void a_terminated_context_gives_one_terminal_event_in_every_state(void **state)
{
    struct fixture *const f = *state;

    for (int variant = 0; variant < 4; variant++) {
        void *const context = zmq_ctx_new();
        void *const dealer = zmq_socket(context, ZMQ_DEALER);
        struct probe p = {.on_event = check_terminated};
        uint64_t wakeups = 0;

        assert_int_equal(zmq_bind(dealer, "inproc://ours"), 0);
        p.f = f;
        p.socket = evzmq_socket_new(f->base, dealer, EVZMQ_OPT_CLOSE_ON_FREE);
        f->attached++;
        probe_setcb(&p);
        if (variant & 1) {
            probe_enable(&p, EV_READ);
        } else {
            assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
        }
        if (variant & 2) {
            assert_ok(evzmq_socket_write(p.socket, "queued", 6));
        }
        fixture_glance(f);
        assert_int_equal(zmq_ctx_shutdown(context), 0);
        run_until(f, p.events[EVZMQ_EVENT_TERMINATED] == 1);
        assert_errno(evzmq_socket_write(p.socket, "x", 1), ETERM);
        assert_errno(evzmq_socket_touch(p.socket), ETERM);
        wakeups = probe_wakeups(&p);
        fixture_run_for(f, 100);
        assert_true(probe_wakeups(&p) - wakeups <= 1);
        assert_int_equal(p.events_all, 1);
        assert_int_equal(fixture_loop(f, 0), 1); /* It is off the base. */
        probe_free(&p);
        assert_int_equal(zmq_ctx_term(context), 0);
    }
}

static void *terminate(void *context)
{
    (void)zmq_ctx_term(context);
    return NULL;
}

static void free_when_terminated(struct probe *p, const struct evzmq_event *event)
{
    assert_int_equal(event->type, EVZMQ_EVENT_TERMINATED);
    probe_free(p);
}

static void freeing_in_the_terminal_event_lets_another_thread_terminate_the_context(void **state)
{
    struct fixture *const f = *state;
    void *const context = zmq_ctx_new();
    void *const dealer = zmq_socket(context, ZMQ_DEALER);
    struct probe p = {.f = f, .on_event = free_when_terminated};
    pthread_t thread;

    p.socket = evzmq_socket_new(f->base, dealer, EVZMQ_OPT_CLOSE_ON_FREE);
    f->attached++;
    probe_setcb(&p);
    probe_enable(&p, EV_READ);
    fixture_glance(f);
    assert_int_equal(pthread_create(&thread, NULL, terminate, context), 0);
    run_until(f, p.socket == NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(p.events_all, 1);
}

static void shut_the_context(struct probe *p, struct evzmq_message *message)
{
    (void)message;
    assert_int_equal(zmq_ctx_shutdown(p->arg), 0);
}

static void a_context_terminated_in_a_read_callback_ends_with_one_event(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = shut_the_context, .arg = f->context};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    peer_send_sequence(push, 0, 10, 8);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    run_until(f, p.events[EVZMQ_EVENT_TERMINATED] == 1);
    assert_true(p.reads >= 1);
    assert_int_equal(p.events_all, 1);
    probe_free(&p);
}

static void however_many_attach_and_free_cycles_leak_no_descriptor_and_no_memory(void **state)
{
    struct fixture *const f = *state;
    void *const dealer = peer_new(f, ZMQ_DEALER);
    long live = 0;
    int before = 0;

    for (long i = 0; i < scaled(1001, 100001); i++) {
        struct probe p = {0};

        probe_attach(f, &p, dealer, 0);
        probe_enable(&p, EV_READ);
        assert_ok(evzmq_socket_write(p.socket, "gone with the free", 18));
        if (i % 2 == 0) {
            fixture_glance(f);
        }
        probe_free(&p);
        if (i == 0) {
            live = allocations_live();
            before = count_descriptors();
        }
    }
    assert_int_equal(allocations_live(), live);
    assert_int_equal(count_descriptors(), before);
}

static void however_many_sockets_closed_on_free_leak_no_descriptor(void **state)
{
    struct fixture *const f = *state;

    for (long i = 0; i < scaled(1000, 100000); i++) {
        void *peer = zmq_socket(f->context, ZMQ_PULL);
        struct evzmq_socket *socket = NULL;

        while (peer == NULL) { /* Closed ones count until libzmq's reaper has had its turn. */
            assert_int_equal(errno, EMFILE);
            (void)zmq_poll(NULL, 0, 1);
            peer = zmq_socket(f->context, ZMQ_PULL);
        }
        socket = evzmq_socket_new(f->base, peer, EVZMQ_OPT_CLOSE_ON_FREE);
        assert_non_null(socket); /* The fixture counts what is left at the end. */
        assert_ok(evzmq_socket_enable(socket, EV_READ));
        if (i % 2 == 0) {
            fixture_glance(f);
        }
        evzmq_socket_free(socket);
    }
}

static void a_socket_may_be_freed_before_its_base_has_ever_run(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    peer_send_text(push, "unseen");
    probe_attach(f, &p, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    probe_enable(&p, EV_READ);
    probe_free(&p);
    assert_int_equal(fixture_loop(f, 0), 1);
    assert_int_equal(p.reads, 0);
}

static void free_with_queued_messages_frees_them(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    struct evzmq_message *const message = evzmq_message_new();
    static char large[100000];

    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    probe_attach(f, &p, push, 0);
    assert_ok(evzmq_message_add(message, "head", 4));
    assert_ok(evzmq_message_add(message, large, sizeof large));
    assert_ok(evzmq_socket_write_message(p.socket, message));
    assert_ok(evzmq_socket_write(p.socket, large, sizeof large));
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 2);
    probe_free(&p);
}

/* Once the context is terminated no option can be set any more, the linger neither. */
static void an_infinite_linger_does_not_hang_a_context_that_is_shut_down_first(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_set_int(push, ZMQ_LINGER, -1);
    peer_connect(push, "tcp://127.0.0.1:1"); /* Nobody listens there. */
    probe_attach(f, &p, push, EVZMQ_OPT_CLOSE_ON_FREE);
    assert_ok(evzmq_socket_write(p.socket, "undeliverable", 13));
    assert_int_equal(zmq_ctx_shutdown(f->context), 0);
    run_until(f, p.events[EVZMQ_EVENT_TERMINATED] == 1);
    probe_free(&p);
    assert_int_equal(zmq_ctx_term(f->context), 0);
    f->context = NULL;
}

static void after_the_terminal_event_every_call_is_its_error(void **state)
{
    struct fixture *const f = *state;
    const struct timeval second = {1, 0};
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    struct evzmq_socket *s = NULL;

    probe_attach(f, &p, peer_new(f, ZMQ_DEALER), 0);
    assert_int_equal(zmq_ctx_shutdown(f->context), 0);
    run_until(f, p.events[EVZMQ_EVENT_TERMINATED] == 1);
    s = p.socket;
    assert_errno(evzmq_socket_enable(s, EV_READ), ETERM);
    assert_errno(evzmq_socket_disable(s, EV_READ), ETERM);
    assert_errno(evzmq_socket_write(s, "x", 1), ETERM);
    assert_errno(evzmq_socket_try_recv(s, &message), ETERM);
    assert_errno(evzmq_socket_recv_many(s, &message, 1), ETERM);
    assert_errno(evzmq_socket_recv(s, &second, &message), ETERM);
    assert_errno(evzmq_socket_touch(s), ETERM);
    assert_errno(evzmq_socket_set_codec(s, NULL), ETERM);
    assert_errno(evzmq_socket_set_receive_mode(s, EVZMQ_RECEIVE_INTO), ETERM);
    assert_errno(evzmq_socket_set_max_message(s, 1, 1, EVZMQ_OVERSIZE_DROP), ETERM);
    assert_errno(evzmq_socket_set_budget(s, NULL), ETERM);
    assert_errno(evzmq_socket_set_output_limit(s, 1, 1), ETERM);
    assert_errno(evzmq_socket_set_output_watermark(s, 1, 2), ETERM);
    assert_errno(evzmq_socket_set_timeouts(s, &second, NULL), ETERM);
    assert_errno(evzmq_socket_priority_set(s, 0), ETERM);
    assert_errno(evzmq_socket_shutdown(s, &second, NULL, NULL), ETERM);
    assert_int_equal(evzmq_socket_get_enabled(s), 0);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(dispatch_returns_once_all_sockets_are_freed),
        claim(close_on_free_closes_the_zmq_socket),
        claim(without_close_on_free_the_zmq_socket_stays_open),
        claim(an_infinite_linger_does_not_hang_the_end_of_the_context),
        claim(an_infinite_linger_with_messages_still_queued_does_not_hang_either),
        claim(messages_handed_over_before_close_on_free_arrive),
        claim(a_terminated_context_gives_one_terminal_event_in_every_state),
        claim(freeing_in_the_terminal_event_lets_another_thread_terminate_the_context),
        claim(a_context_terminated_in_a_read_callback_ends_with_one_event),
        claim(however_many_attach_and_free_cycles_leak_no_descriptor_and_no_memory),
        claim(however_many_sockets_closed_on_free_leak_no_descriptor),
        claim(a_socket_may_be_freed_before_its_base_has_ever_run),
        claim(free_with_queued_messages_frees_them),
        claim(an_infinite_linger_does_not_hang_a_context_that_is_shut_down_first),
        claim(after_the_terminal_event_every_call_is_its_error),
    };

    return run_claims(tests);
}
