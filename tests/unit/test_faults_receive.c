/*
 * Receiving when libzmq or memory fails in the middle of it.
 */
#include "support.h"

#include "faults.h"
#include "socket.h"

/* An adapter that receives, and a plain socket that sends to it. */
static void *receiver_new(struct fixture *f, struct probe *p, void **out_peer)
{
    void *pull = NULL;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, out_peer);
    probe_attach(f, p, pull, 0);
    probe_enable(p, EV_READ);
    fixture_glance(f);
    return pull;
}

/* Leaves the first part of a message with the adapter and the rest with libzmq. */
static void interrupt_after_first_part(struct fixture *f, struct probe *p, void *pull, void *peer,
                                       const char *parts)
{
    faults_begin(pull);
    faults_plan(FAULT_RECV, 2, FOR_EVER, EINTR);
    peer_send_text(peer, parts);
    while (p->socket->partial == NULL) {
        fixture_turn(f);
    }
    assert_int_equal(p->reads, 0);
}

static void message_interrupted_between_parts_is_delivered_whole_later(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = receiver_new(f, &p, &peer);

    interrupt_after_first_part(f, &p, pull, peer, "a|b|c");
    faults_end();
    peer_send_text(peer, "next");
    run_until(f, p.reads == 2);
    assert_string_equal(p.log, "a|b|c next");
    assert_int_equal(p.events_all, 0);
    assert_int_equal(probe_stats(&p).messages_in, 2);
    assert_int_equal(probe_stats(&p).bytes_in, 7);
    probe_free(&p);
}

static void another_socket_receives_while_a_message_is_half_received(void **state)
{
    struct fixture *f = *state;
    struct probe half = {0};
    struct probe other = {0};
    void *half_peer = NULL;
    void *other_peer = NULL;
    void *pull = receiver_new(f, &half, &half_peer);
    (void)receiver_new(f, &other, &other_peer);

    interrupt_after_first_part(f, &half, pull, half_peer, "a|b|c");
    peer_send_text(other_peer, "x|y");
    peer_send_text(other_peer, "z");
    run_until(f, other.reads == 2);
    assert_string_equal(other.log, "x|y z");
    assert_int_equal(half.reads, 0);
    faults_end();
    run_until(f, half.reads == 1);
    assert_string_equal(half.log, "a|b|c");
    probe_free(&half);
    probe_free(&other);
}

static void try_recv_goes_on_with_the_message_that_a_pass_began(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = receiver_new(f, &p, &peer);
    struct evzmq_message *message = NULL;
    char text[64];

    interrupt_after_first_part(f, &p, pull, peer, "a|b|c");
    assert_ok(evzmq_socket_disable(p.socket, EV_READ));
    assert_errno(evzmq_socket_try_recv(p.socket, &message), EINTR);
    faults_end();
    assert_ok(evzmq_socket_try_recv(p.socket, &message));
    assert_string_equal(message_text(message, text, sizeof(text)), "a|b|c");
    evzmq_message_free(message);
    assert_errno(evzmq_socket_try_recv(p.socket, &message), EAGAIN);
    probe_free(&p);
}

static void pass_goes_on_with_the_message_that_try_recv_began(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = receiver_new(f, &p, &peer);
    struct evzmq_message *message = NULL;

    assert_ok(evzmq_socket_disable(p.socket, EV_READ));
    peer_send_text(peer, "a|b|c");
    faults_begin(pull);
    faults_plan(FAULT_RECV, 3, FOR_EVER, EINTR);
    assert_errno(evzmq_socket_try_recv(p.socket, &message), EINTR);
    faults_end();
    probe_enable(&p, EV_READ);
    run_until(f, p.reads == 1);
    assert_string_equal(p.log, "a|b|c");
    probe_free(&p);
}

/* The base's arena is made by the first pass that receives, here one that has the rest of a message
 * to receive. */
static void message_that_try_recv_began_survives_a_pass_without_memory(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = NULL;
    struct evzmq_message *message = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &peer);
    probe_attach(f, &p, pull, 0);
    peer_send_text(peer, "a|b|c");
    faults_begin(pull);
    faults_plan(FAULT_RECV, 2, FOR_EVER, EINTR);
    assert_errno(evzmq_socket_try_recv(p.socket, &message), EINTR);
    faults_begin(pull);
    faults_plan(FAULT_ALLOC, 1, FOR_EVER, ENOMEM);
    probe_enable(&p, EV_READ);
    run_until(f, p.events[EVZMQ_EVENT_ERROR] == 1);
    assert_int_equal(p.last.error, ENOMEM);
    faults_end();
    run_until(f, p.reads == 1);
    assert_string_equal(p.log, "[error] a|b|c");
    probe_free(&p);
}

static void next_reader_of_the_raw_socket_starts_at_a_message(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = receiver_new(f, &p, &peer);
    char text[64];

    interrupt_after_first_part(f, &p, pull, peer, "a|b|c");
    peer_send_text(peer, "d|e");
    faults_end();
    probe_free(&p);
    (void)peer_recv_text(pull, text, sizeof(text));
    assert_string_equal(text, "d|e");
}

static void endless_interruption_ends_every_pass_and_leaves_time_for_others(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    struct probe other = {0};
    void *peer = NULL;
    void *other_peer = NULL;
    void *pull = receiver_new(f, &p, &peer);
    (void)receiver_new(f, &other, &other_peer);

    faults_begin(pull);
    faults_plan(FAULT_RECV | FAULT_LOOK, 1, FOR_EVER, EINTR);
    peer_send_text(peer, "a");
    const uint64_t before = probe_wakeups(&p);
    run_until(f, probe_wakeups(&p) >= before + 3);
    peer_send_text(other_peer, "b");
    run_until(f, other.reads == 1);
    assert_int_equal(p.reads, 0);
    faults_end();
    run_until(f, p.reads == 1);
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
    probe_free(&other);
}

static void endless_interruption_of_receives_lets_a_loop_that_does_not_wait_return(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = receiver_new(f, &p, &peer);

    fixture_glance(f);
    faults_begin(pull);
    faults_plan(FAULT_RECV, 1, FOR_EVER, EINTR);
    peer_send_text(peer, "a");
    /* It goes on for as long as anything is due: the next try must not be due at once. */
    assert_int_equal(fixture_loop(f, EVLOOP_NONBLOCK), 0);
    assert_true(faults_made(FAULT_RECV) > 0);
    faults_end();
    run_until(f, p.reads == 1);
    probe_free(&p);
}

static void endless_interruption_makes_no_call_hang(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = receiver_new(f, &p, &peer);
    struct evzmq_message *message = NULL;
    const struct timeval second = {1, 0};

    assert_ok(evzmq_socket_disable(p.socket, EV_READ));
    peer_send_text(peer, "a|b");
    faults_begin(pull);
    faults_plan(FAULT_RECV, 2, FOR_EVER, EINTR);
    faults_plan(FAULT_LOOK, 1, FOR_EVER, EINTR);
    assert_errno(evzmq_socket_try_recv(p.socket, &message), EINTR);
    assert_errno(evzmq_socket_recv_many(p.socket, &message, 1), EINTR);
    assert_errno(evzmq_socket_recv(p.socket, &second, &message), EINTR);
    assert_true(faults_made(FAULT_RECV | FAULT_SEND | FAULT_LOOK) < 1000);
    faults_end();
    probe_free(&p);
}

/* As many parts as need more room than a message begins with. */
static const char many_parts[] = "0|1|2|3|4|5|6|7|8|9";

static void no_memory_for_more_parts_is_one_event_a_retry_and_loses_nothing(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = receiver_new(f, &p, &peer);

    peer_send_text(peer, "first");
    run_until(f, p.reads == 1);
    faults_begin(pull);
    faults_plan(FAULT_ALLOC, 1, FOR_EVER, ENOMEM);
    peer_send_text(peer, many_parts);
    peer_send_text(peer, "last");
    const uint64_t before = probe_wakeups(&p);
    run_until(f, p.events[EVZMQ_EVENT_ERROR] == 3);
    assert_int_equal(p.last.error, ENOMEM);
    assert_in_range(probe_wakeups(&p) - before, 3, 4);
    faults_end();
    run_until(f, p.reads == 3);
    assert_string_equal(p.log, "first [error] [error] [error] 0|1|2|3|4|5|6|7|8|9 last");
    probe_free(&p);
}

/* Before any call of libzmq, so that ZMQ_FD is still readable. */
static void no_memory_before_the_first_receive_is_one_event_a_retry_and_loses_nothing(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = NULL;

    peer_pair(f, TRANSPORT_IPC, ZMQ_PULL, &pull, ZMQ_PUSH, &peer);
    probe_attach(f, &p, pull, 0);
    fixture_glance(f);
    faults_begin(pull);
    faults_plan(FAULT_ALLOC, 1, FOR_EVER, ENOMEM);
    probe_enable(&p, EV_READ);
    peer_send_text(peer, "a");
    run_until(f, p.events[EVZMQ_EVENT_ERROR] > 0);
    const uint64_t before = probe_wakeups(&p);
    const size_t errors = p.events[EVZMQ_EVENT_ERROR];
    const struct timeval half_a_second = {0, 500000};
    assert_int_equal(event_base_loopexit(f->base, &half_a_second), 0);
    (void)fixture_loop(f, 0);
    assert_int_equal(p.events[EVZMQ_EVENT_ERROR] - errors, probe_wakeups(&p) - before);
    assert_in_range(probe_wakeups(&p) - before, 1, 12);
    faults_end();
    run_until(f, p.reads == 1);
    probe_free(&p);
}

static void no_memory_in_libzmq_is_one_event_a_retry_and_loses_nothing(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = receiver_new(f, &p, &peer);

    faults_begin(pull);
    faults_plan(FAULT_RECV, 2, 2, ENOMEM);
    peer_send_text(peer, "a|b");
    const uint64_t before = probe_wakeups(&p);
    run_until(f, p.reads == 1);
    assert_string_equal(p.log, "[error] [error] a|b");
    assert_in_range(probe_wakeups(&p) - before, 3, 4);
    faults_end();
    probe_free(&p);
}

static void wakeup_without_events_is_counted_and_calls_nobody(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    (void)receiver_new(f, &p, &peer);
    const struct evzmq_socket_stats before = probe_stats(&p);

    for (int i = 0; i < 10; i++) {
        event_active(p.socket->source->fd_event, EV_READ, 0);
        fixture_glance(f);
    }
    const struct evzmq_socket_stats after = probe_stats(&p);
    assert_int_equal(after.wakeups - before.wakeups, 10);
    assert_int_equal(after.wakeups_empty - before.wakeups_empty, 10);
    assert_int_equal(after.continuations, before.continuations);
    assert_string_equal(p.log, "");
    peer_send_text(peer, "a");
    run_until(f, p.reads == 1);
    probe_free(&p);
}

static void eagain_of_the_first_receive_ends_the_pass_without_a_look(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = receiver_new(f, &p, &peer);

    faults_begin(pull);
    event_active(p.socket->source->fd_event, EV_READ, 0);
    fixture_glance(f);
    assert_string_equal(faults_log(), "recv!EAGAIN");
    faults_end();
    probe_free(&p);
}

static void wrong_state_while_receiving_ends_the_drain_and_is_no_error(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    void *peer = NULL;
    void *pull = receiver_new(f, &p, &peer);

    probe_take_time(&p);
    faults_begin(pull);
    faults_plan(FAULT_RECV, 1, 1, EFSM);
    peer_send_text(peer, "a");
    run_until(f, p.reads == 1);
    assert_string_equal(faults_log(), "recv!EFSM look recv recv!EAGAIN");
    assert_int_equal(p.events_all, 0);
    faults_end();
    probe_free(&p);
}

/* Fails every call of some kind from the n-th on, for n = 1, 2, ... until the traffic passes. */
static void end_at_each_call(struct fixture *f, unsigned calls, int error)
{
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        struct probe p = {0};
        void *peer = NULL;
        void *dealer = NULL;
        peer_pair(f, TRANSPORT_INPROC, ZMQ_DEALER, &dealer, ZMQ_DEALER, &peer);
        probe_attach(f, &p, dealer, 0);
        fixture_glance(f);
        faults_begin(dealer);
        faults_plan(calls, n, FOR_EVER, error);
        assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
        assert_ok(evzmq_socket_write(p.socket, "out", 3));
        probe_enable(&p, EV_READ | EV_WRITE);
        peer_send_text(peer, "in|and|more");
        for (int turns = 0; turns < 5; turns++) {
            fixture_glance(f);
        }
        reached = faults_made(FAULT_RECV | FAULT_SEND | FAULT_LOOK) > 0;
        assert_int_equal(p.events[EVZMQ_EVENT_TERMINATED], reached ? 1 : 0);
        assert_int_equal(p.events_all,
                         p.events[EVZMQ_EVENT_TERMINATED] + p.events[EVZMQ_EVENT_DRAINED]);
        if (reached) {
            assert_int_equal(p.last.error, error);
            const uint64_t wakeups = probe_wakeups(&p);
            const size_t calls_then = faults_count(FAULT_RECV | FAULT_SEND | FAULT_LOOK);
            assert_errno(evzmq_socket_write(p.socket, "x", 1), error);
            assert_errno(evzmq_socket_touch(p.socket), error);
            assert_int_equal(fixture_loop(f, EVLOOP_NONBLOCK), 1); /* no event is left */
            assert_int_equal(probe_wakeups(&p), wakeups);
            assert_int_equal(faults_count(FAULT_RECV | FAULT_SEND | FAULT_LOOK), calls_then);
        }
        faults_end();
        probe_free(&p);
        peer_close(f, dealer);
        peer_close(f, peer);
        assert_true(n < 50);
    }
}

static void terminated_context_at_any_call_is_one_event_and_the_end(void **state)
{
    end_at_each_call(*state, FAULT_RECV, ETERM);
    end_at_each_call(*state, FAULT_SEND, ETERM);
    end_at_each_call(*state, FAULT_LOOK, ETERM);
    end_at_each_call(*state, FAULT_RECV | FAULT_SEND | FAULT_LOOK, ETERM);
}

static void closed_socket_at_any_call_is_one_event_and_the_end(void **state)
{
    end_at_each_call(*state, FAULT_RECV, ENOTSOCK);
    end_at_each_call(*state, FAULT_SEND, ENOTSOCK);
    end_at_each_call(*state, FAULT_LOOK, ENOTSOCK);
    end_at_each_call(*state, FAULT_RECV | FAULT_SEND | FAULT_LOOK, ENOTSOCK);
}

static void terminated_context_in_a_public_call_is_its_error_and_one_event(void **state)
{
    struct fixture *f = *state;
    for (int which = 0; which < 3; which++) {
        struct probe p = {0};
        void *peer = NULL;
        void *dealer = NULL;
        struct evzmq_message *message = NULL;
        peer_pair(f, TRANSPORT_INPROC, ZMQ_DEALER, &dealer, ZMQ_DEALER, &peer);
        probe_attach(f, &p, dealer, 0);
        fixture_glance(f);
        faults_begin(dealer);
        faults_plan(FAULT_RECV | FAULT_SEND | FAULT_LOOK, 1, FOR_EVER, ETERM);
        if (which == 0) {
            assert_errno(evzmq_socket_write(p.socket, "a", 1), ETERM);
        } else if (which == 1) {
            assert_errno(evzmq_socket_try_recv(p.socket, &message), ETERM);
        } else {
            assert_errno(evzmq_socket_recv(p.socket, NULL, &message), ETERM);
        }
        assert_int_equal(p.events_all, 0);
        fixture_glance(f);
        assert_string_equal(p.log, "[terminated]");
        faults_end();
        probe_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(message_interrupted_between_parts_is_delivered_whole_later),
        claim(another_socket_receives_while_a_message_is_half_received),
        claim(try_recv_goes_on_with_the_message_that_a_pass_began),
        claim(pass_goes_on_with_the_message_that_try_recv_began),
        claim(message_that_try_recv_began_survives_a_pass_without_memory),
        claim(next_reader_of_the_raw_socket_starts_at_a_message),
        claim(endless_interruption_ends_every_pass_and_leaves_time_for_others),
        claim(endless_interruption_of_receives_lets_a_loop_that_does_not_wait_return),
        claim(endless_interruption_makes_no_call_hang),
        claim(no_memory_for_more_parts_is_one_event_a_retry_and_loses_nothing),
        claim(no_memory_before_the_first_receive_is_one_event_a_retry_and_loses_nothing),
        claim(no_memory_in_libzmq_is_one_event_a_retry_and_loses_nothing),
        claim(wakeup_without_events_is_counted_and_calls_nobody),
        claim(eagain_of_the_first_receive_ends_the_pass_without_a_look),
        claim(wrong_state_while_receiving_ends_the_drain_and_is_no_error),
        claim(terminated_context_at_any_call_is_one_event_and_the_end),
        claim(closed_socket_at_any_call_is_one_event_and_the_end),
        claim(terminated_context_in_a_public_call_is_its_error_and_one_event),
    };
    return run_claims(tests);
}
