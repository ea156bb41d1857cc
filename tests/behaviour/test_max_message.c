/**
 * @file test_max_message.c
 * evzmq_socket_set_max_message(): what is too large goes, everything else stays.
 */
#include "support.h"

#include <string.h>

static void open_pair(struct fixture *f, struct probe *p, void **out_push)
{
    void *pull = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, out_push);
    probe_attach(f, p, pull, 0);
    probe_enable(p, EV_READ);
}

static void a_message_above_the_limit_is_dropped_with_one_event_wherever_it_stands(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_ok(evzmq_socket_set_max_message(p.socket, 4, 0, EVZMQ_OVERSIZE_DROP));
    peer_send_text(push, "large");
    peer_send_text(push, "a");
    peer_send_text(push, "large");
    peer_send_text(push, "large");
    peer_send_text(push, "bbbb");
    peer_send_text(push, "large");
    run_until(f, p.events[EVZMQ_EVENT_MESSAGE_TOO_LARGE] == 4 && p.reads == 2);
    peer_send_text(push, "c");
    run_until(f, p.reads == 3);
    assert_string_equal(p.log, "[too-large] a [too-large] [too-large] bbbb [too-large] c");
    assert_int_equal(probe_stats(&p).oversize_dropped, 4);
    assert_int_equal(probe_stats(&p).oversize_bytes, 20);
    assert_int_equal(probe_stats(&p).messages_in, 7);
    probe_free(&p);
}

static void the_event_tells_size_and_parts(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_ok(evzmq_socket_set_max_message(p.socket, 4, 0, EVZMQ_OVERSIZE_DROP));
    peer_send_text(push, "ab|cde|");
    run_until(f, p.events_all == 1);
    assert_int_equal(p.last.type, EVZMQ_EVENT_MESSAGE_TOO_LARGE);
    assert_int_equal(p.last.size_bytes, 5);
    assert_int_equal(p.last.parts, 3);
    probe_free(&p);
}

static void the_limit_counts_all_parts_of_a_message_together(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_ok(evzmq_socket_set_max_message(p.socket, 4, 0, EVZMQ_OVERSIZE_DROP));
    peer_send_text(push, "ab|cd");
    peer_send_text(push, "ab|cde");
    peer_send_text(push, "e");
    run_until(f, p.reads == 2);
    assert_string_equal(p.log, "ab|cd [too-large] e");
    probe_free(&p);
}

static void a_message_with_too_many_parts_is_dropped_whole(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_ok(evzmq_socket_set_max_message(p.socket, 0, 3, EVZMQ_OVERSIZE_DROP));
    peer_send_text(push, "1|2|3");
    peer_send_text(push, "1|2|3|4|5|6|7|8|9");
    peer_send_text(push, "next");
    run_until(f, p.reads == 2);
    assert_string_equal(p.log, "1|2|3 [too-large] next");
    assert_int_equal(p.last.parts, 9);
    probe_free(&p);
}

static void the_deliver_policy_delivers_larger_messages_whole(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_sequence};
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_ok(evzmq_base_set_receive_buffer(f->base, 1024));
    assert_ok(evzmq_socket_set_receive_mode(p.socket, EVZMQ_RECEIVE_INTO));
    assert_ok(evzmq_socket_set_max_message(p.socket, 512, 0, EVZMQ_OVERSIZE_DELIVER));
    peer_send_sequence(push, 0, 10, 100);
    peer_send_sequence(push, 10, 1, 5000);
    peer_send_sequence(push, 11, 10, 100);
    run_until(f, p.reads == 21);
    assert_int_equal(probe_stats(&p).oversize_dropped, 0);
    assert_int_equal(probe_stats(&p).spills, 1);
    probe_free(&p);
}

static void read_and_lift(struct probe *p, struct evzmq_message *message)
{
    (void)message;
    assert_ok(evzmq_socket_set_max_message(p->socket, 0, 0, EVZMQ_OVERSIZE_DROP));
}

static void the_limit_can_be_changed_and_taken_away_in_a_callback(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_lift};
    void *push = NULL;

    open_pair(f, &p, &push);
    assert_ok(evzmq_socket_set_max_message(p.socket, 4, 0, EVZMQ_OVERSIZE_DROP));
    peer_send_text(push, "large");
    peer_send_text(push, "x");
    peer_send_text(push, "large again");
    run_until(f, p.reads == 2);
    assert_string_equal(p.log, "[too-large] x large again");
    probe_free(&p);
}

static void an_unknown_policy_is_einval(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};

    probe_attach(f, &p, peer_new(f, ZMQ_PULL), 0);
    assert_errno(evzmq_socket_set_max_message(p.socket, 1, 1, (enum evzmq_oversize_policy)9),
                 EINVAL);
    assert_errno(evzmq_socket_set_max_message(NULL, 1, 1, EVZMQ_OVERSIZE_DROP), EINVAL);
    probe_free(&p);
}

static void a_dropped_request_is_answered_empty_and_rep_lives_on(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char text[32];
    void *rep = NULL;
    void *req = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_REP, &rep, ZMQ_REQ, &req);
    probe_attach(f, &p, rep, 0);
    assert_ok(evzmq_socket_set_max_message(p.socket, 4, 0, EVZMQ_OVERSIZE_DROP));
    probe_enable(&p, EV_READ);
    for (int i = 0; i < 3; i++) {
        peer_send_text(req, "much too large");
        pump_recv_text(f, req, text, sizeof text);
        assert_string_equal(text, "");
    }
    peer_send_text(req, "ok");
    run_until(f, p.reads == 1);
    assert_ok(evzmq_socket_reply(p.socket, NULL, "yes", 3));
    pump_recv_text(f, req, text, sizeof text);
    assert_string_equal(text, "yes");
    probe_free(&p);
}

static void answer_too_large(struct probe *p, const struct evzmq_event *event)
{
    assert_int_equal(event->type, EVZMQ_EVENT_MESSAGE_TOO_LARGE);
    assert_ok(evzmq_socket_reply(p->socket, NULL, "too large", 9));
}

static void the_event_callback_may_answer_a_dropped_request(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_event = answer_too_large};
    char text[32];
    void *rep = NULL;
    void *req = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_REP, &rep, ZMQ_REQ, &req);
    probe_attach(f, &p, rep, 0);
    assert_ok(evzmq_socket_set_max_message(p.socket, 4, 0, EVZMQ_OVERSIZE_DROP));
    probe_enable(&p, EV_READ);
    for (int i = 0; i < 3; i++) {
        peer_send_text(req, "large");
        pump_recv_text(f, req, text, sizeof text);
        assert_string_equal(text, "too large");
    }
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_message_above_the_limit_is_dropped_with_one_event_wherever_it_stands),
        claim(the_event_tells_size_and_parts),
        claim(the_limit_counts_all_parts_of_a_message_together),
        claim(a_message_with_too_many_parts_is_dropped_whole),
        claim(the_deliver_policy_delivers_larger_messages_whole),
        claim(the_limit_can_be_changed_and_taken_away_in_a_callback),
        claim(an_unknown_policy_is_einval),
        claim(a_dropped_request_is_answered_empty_and_rep_lives_on),
        claim(the_event_callback_may_answer_a_dropped_request),
    };

    return run_claims(tests);
}
