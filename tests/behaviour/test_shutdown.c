/**
 * @file test_shutdown.c
 * evzmq_socket_shutdown(): what is queued goes out or is counted, and nothing else happens.
 */
#include "support.h"

#include <string.h>

struct ending {
    struct fixture *f;
    int done;
    uint64_t handed_over;
    uint64_t not_handed_over;
    struct probe *to_free;
};

static void note_end(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                     void *arg)
{
    struct ending *const ending = arg;

    (void)socket;
    assert_true(ending->f->dispatching);
    assert_int_equal(ending->f->depth, 0);
    ending->done++;
    ending->handed_over = handed_over;
    ending->not_handed_over = not_handed_over;
    if (ending->to_free != NULL) {
        probe_free(ending->to_free);
    }
}

static void open_lonely(struct fixture *f, struct probe *p, char endpoint[ENDPOINT_SIZE],
                        uint64_t queued)
{
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    probe_attach(f, p, push, 0);
    for (uint64_t i = 0; i < queued; i++) {
        assert_ok(evzmq_socket_write(p->socket, &i, sizeof i));
    }
}

static void shutdown_sends_what_is_queued_and_reports_it(void **state)
{
    struct fixture *const f = *state;
    struct ending ending = {.f = f};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *pull = NULL;

    open_lonely(f, &p, endpoint, 100);
    assert_ok(evzmq_socket_shutdown(p.socket, NULL, note_end, &ending));
    fixture_run_for(f, 20);
    assert_int_equal(ending.done, 0);
    pull = peer_new(f, ZMQ_PULL);
    peer_connect(pull, endpoint);
    run_until(f, ending.done);
    assert_int_equal(ending.handed_over, 100);
    assert_int_equal(ending.not_handed_over, 0);
    pump_recv_sequence(f, pull, 0, 100);
    fixture_run_for(f, 20);
    assert_int_equal(ending.done, 1);
    assert_non_null(p.socket); /* It frees nothing. */
    probe_free(&p);
}

static void at_the_deadline_what_is_left_is_counted(void **state)
{
    struct fixture *const f = *state;
    const struct timeval soon = {0, 10000};
    struct ending ending = {.f = f};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint, 100);
    assert_ok(evzmq_socket_shutdown(p.socket, &soon, note_end, &ending));
    run_until(f, ending.done);
    assert_int_equal(ending.handed_over, 0);
    assert_int_equal(ending.not_handed_over, 100);
    fixture_run_for(f, 20);
    assert_int_equal(ending.done, 1);
    probe_free(&p);
}

static void a_deadline_of_zero_reports_in_the_next_turn_of_the_loop(void **state)
{
    struct fixture *const f = *state;
    const struct timeval none = {0, 0};
    struct ending ending = {.f = f};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint, 3);
    assert_ok(evzmq_socket_shutdown(p.socket, &none, note_end, &ending));
    assert_int_equal(ending.done, 0);
    fixture_turn(f);
    assert_int_equal(ending.done, 1);
    assert_int_equal(ending.not_handed_over, 3);
    probe_free(&p);
}

static void with_nothing_queued_shutdown_reports_zeros(void **state)
{
    struct fixture *const f = *state;
    struct ending ending = {.f = f};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint, 0);
    assert_ok(evzmq_socket_shutdown(p.socket, NULL, note_end, &ending));
    run_until(f, ending.done);
    assert_int_equal(ending.handed_over + ending.not_handed_over, 0);
    probe_free(&p);
}

static void after_shutdown_writes_are_refused_and_counted_and_nothing_is_read(void **state)
{
    struct fixture *const f = *state;
    const struct timeval none = {0, 0};
    struct ending ending = {.f = f};
    struct probe p = {0};
    struct evzmq_message *message = NULL;
    void *dealer = NULL;
    void *peer = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_DEALER, &dealer, ZMQ_DEALER, &peer);
    probe_attach(f, &p, dealer, 0);
    probe_enable(&p, EV_READ);
    assert_ok(evzmq_socket_shutdown(p.socket, NULL, note_end, &ending));
    peer_send_text(peer, "too late");
    assert_errno(evzmq_socket_write(p.socket, "x", 1), ESHUTDOWN);
    run_until(f, ending.done);
    assert_errno(evzmq_socket_write(p.socket, "x", 1), ESHUTDOWN);
    assert_errno(evzmq_socket_enable(p.socket, EV_READ), ESHUTDOWN);
    assert_errno(evzmq_socket_try_recv(p.socket, &message), ESHUTDOWN);
    assert_errno(evzmq_socket_recv(p.socket, &none, &message), ESHUTDOWN);
    fixture_run_for(f, 20);
    assert_int_equal(p.reads, 0);
    assert_int_equal(probe_stats(&p).writes_after_shutdown, 2);
    probe_free(&p);
}

static void a_second_shutdown_does_nothing(void **state)
{
    struct fixture *const f = *state;
    const struct timeval none = {0, 0};
    struct ending first = {.f = f};
    struct ending second = {.f = f};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint, 1);
    assert_ok(evzmq_socket_shutdown(p.socket, &none, note_end, &first));
    assert_ok(evzmq_socket_shutdown(p.socket, &none, note_end, &second));
    run_until(f, first.done);
    assert_ok(evzmq_socket_shutdown(p.socket, &none, note_end, &second));
    fixture_run_for(f, 20);
    assert_int_equal(first.done, 1);
    assert_int_equal(second.done, 0);
    probe_free(&p);
}

static void the_socket_may_be_freed_in_the_callback_of_its_shutdown(void **state)
{
    struct fixture *const f = *state;
    const struct timeval none = {0, 0};
    struct probe p = {0};
    struct ending ending = {.f = f, .to_free = &p};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint, 5);
    assert_ok(evzmq_socket_shutdown(p.socket, &none, note_end, &ending));
    assert_int_not_equal(fixture_loop(f, 0), -1); /* The dispatch returns with the free. */
    assert_int_equal(ending.done, 1);
    assert_null(p.socket);
}

static void free_cancels_a_pending_shutdown(void **state)
{
    struct fixture *const f = *state;
    const struct timeval soon = {0, 5000};
    struct ending ending = {.f = f};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint, 5);
    assert_ok(evzmq_socket_shutdown(p.socket, &soon, note_end, &ending));
    probe_free(&p);
    fixture_run_for(f, 30);
    assert_int_equal(ending.done, 0);
}

static void shutdown_without_a_callback_is_allowed(void **state)
{
    struct fixture *const f = *state;
    const struct timeval soon = {0, 1000};
    const struct timeval bad = {0, -1};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint, 5);
    assert_errno(evzmq_socket_shutdown(p.socket, &bad, NULL, NULL), EINVAL);
    assert_errno(evzmq_socket_shutdown(NULL, &soon, NULL, NULL), EINVAL);
    assert_ok(evzmq_socket_shutdown(p.socket, &soon, NULL, NULL));
    fixture_run_for(f, 20);
    probe_free(&p);
}

static void read_and_shut(struct probe *p, struct evzmq_message *message)
{
    (void)message;
    assert_ok(evzmq_socket_write(p->socket, "goodbye", 7));
    assert_ok(evzmq_socket_shutdown(p->socket, NULL, note_end, p->arg));
}

static void shutdown_in_a_read_callback_stops_reading_and_sends_the_goodbye(void **state)
{
    struct fixture *const f = *state;
    struct ending ending = {.f = f};
    struct probe p = {.on_read = read_and_shut, .arg = &ending};
    char text[32];
    void *dealer = NULL;
    void *peer = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_DEALER, &dealer, ZMQ_DEALER, &peer);
    peer_send_sequence(peer, 0, 10, 8);
    probe_attach(f, &p, dealer, 0);
    probe_enable(&p, EV_READ);
    run_until(f, ending.done);
    assert_int_equal(p.reads, 1);
    (void)peer_recv_text(peer, text, sizeof text);
    assert_string_equal(text, "goodbye");
    probe_free(&p);
}

static void shut_down(struct probe *p)
{
    assert_ok(evzmq_socket_shutdown(p->socket, NULL, note_end, p->arg));
}

static void what_was_handed_over_before_the_shutdown_is_not_counted(void **state)
{
    struct fixture *const f = *state;
    struct ending ending = {.f = f};
    struct probe p = {.on_write = shut_down, .arg = &ending};
    char endpoint[ENDPOINT_SIZE];
    void *const pull = peer_new(f, ZMQ_PULL);

    open_lonely(f, &p, endpoint, 100);
    peer_connect(pull, endpoint);
    run_until(f, ending.done);
    assert_int_equal(ending.handed_over, 0);
    assert_int_equal(ending.not_handed_over, 0);
    probe_free(&p);
}

/* It was reported as not handed over, and somebody may be sending it another way by now. */
static void nothing_is_sent_after_the_deadline_was_reported(void **state)
{
    struct fixture *const f = *state;
    const struct timeval none = {0, 0};
    struct ending ending = {.f = f};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    char text[32];
    void *pull = NULL;

    open_lonely(f, &p, endpoint, 3);
    assert_ok(evzmq_socket_shutdown(p.socket, &none, note_end, &ending));
    run_until(f, ending.done);
    assert_int_equal(ending.not_handed_over, 3);
    pull = peer_new(f, ZMQ_PULL);
    peer_connect(pull, endpoint);
    fixture_run_for(f, 50);
    assert_int_equal(peer_try_recv_text(pull, text, sizeof text), 0);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 3);
    assert_int_equal(evzmq_socket_get_enabled(p.socket), 0);
    probe_free(&p);
}

/* What bounds a shutdown is its deadline. */
static void no_timeout_passes_during_a_shutdown(void **state)
{
    struct fixture *const f = *state;
    const struct timeval brief = {0, 10000};
    struct ending ending = {.f = f};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint, 3);
    assert_ok(evzmq_socket_set_timeouts(p.socket, NULL, &brief));
    assert_ok(evzmq_socket_shutdown(p.socket, NULL, note_end, &ending));
    fixture_run_for(f, 100);
    assert_int_equal(p.events[EVZMQ_EVENT_WRITE_TIMEOUT], 0);
    assert_int_equal(evzmq_socket_get_enabled(p.socket), EV_WRITE);
    probe_free(&p);
}

static void shutdown_sends_also_what_waited_for_ev_write(void **state)
{
    struct fixture *const f = *state;
    struct ending ending = {.f = f};
    struct probe p = {0};
    void *push = NULL;
    void *pull = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PUSH, &push, ZMQ_PULL, &pull);
    probe_attach(f, &p, push, 0);
    assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
    for (uint64_t i = 0; i < 10; i++) {
        assert_ok(evzmq_socket_write(p.socket, &i, sizeof i));
    }
    assert_ok(evzmq_socket_shutdown(p.socket, NULL, note_end, &ending));
    assert_ok(evzmq_socket_disable(p.socket, EV_WRITE)); /* Too late to keep it. */
    run_until(f, ending.done);
    assert_int_equal(ending.handed_over, 10);
    pump_recv_sequence(f, pull, 0, 10);
    probe_free(&p);
}

static void a_context_that_ends_meanwhile_ends_the_shutdown_with_what_is_left(void **state)
{
    struct fixture *const f = *state;
    struct ending ending = {.f = f};
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint, 7);
    assert_ok(evzmq_socket_shutdown(p.socket, NULL, note_end, &ending));
    fixture_glance(f);
    assert_int_equal(zmq_ctx_shutdown(f->context), 0);
    run_until(f, ending.done);
    assert_int_equal(p.events[EVZMQ_EVENT_TERMINATED], 1);
    assert_int_equal(ending.handed_over, 0);
    assert_int_equal(ending.not_handed_over, 7);
    assert_errno(evzmq_socket_shutdown(p.socket, NULL, note_end, &ending), ETERM);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(shutdown_sends_what_is_queued_and_reports_it),
        claim(at_the_deadline_what_is_left_is_counted),
        claim(a_deadline_of_zero_reports_in_the_next_turn_of_the_loop),
        claim(with_nothing_queued_shutdown_reports_zeros),
        claim(after_shutdown_writes_are_refused_and_counted_and_nothing_is_read),
        claim(a_second_shutdown_does_nothing),
        claim(the_socket_may_be_freed_in_the_callback_of_its_shutdown),
        claim(free_cancels_a_pending_shutdown),
        claim(shutdown_without_a_callback_is_allowed),
        claim(shutdown_in_a_read_callback_stops_reading_and_sends_the_goodbye),
        claim(what_was_handed_over_before_the_shutdown_is_not_counted),
        claim(nothing_is_sent_after_the_deadline_was_reported),
        claim(no_timeout_passes_during_a_shutdown),
        claim(shutdown_sends_also_what_waited_for_ev_write),
        claim(a_context_that_ends_meanwhile_ends_the_shutdown_with_what_is_left),
    };

    return run_claims(tests);
}
