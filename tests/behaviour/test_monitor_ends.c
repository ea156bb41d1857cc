/**
 * @file test_monitor_ends.c
 * Every order in which a monitor and what it watches can go.
 */
#include "support.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "watch.h"

static void free_at_first(struct watch *w, const struct evzmq_monitor_event *event)
{
    watch_close(w);
    assert_true(strlen(event->endpoint) > 0); /* It lives until the callback returns. */
}

static void free_in_its_own_callback_stops_delivery(void **state)
{
    struct fixture *const f = *state;
    struct watch server = {.f = f, .on_event = free_at_first};
    struct watch client = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const push = peer_new(f, ZMQ_PUSH);
    char endpoint[ENDPOINT_SIZE];

    watch_open(f, &server, pull, EVZMQ_MONITOR_ALL);
    watch_open(f, &client, push, EVZMQ_MONITOR_ALL);
    peer_bind(f, pull, TRANSPORT_IPC, endpoint);
    peer_connect(push, endpoint);
    run_until(f, watch_count(&client, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED) == 1 && server.all == 1);
    assert_null(server.monitor);
    peer_send_sequence(push, 0, 10, 8); /* And data flows on. */
    pump_recv_sequence(f, pull, 0, 10);
    watch_close(&client);
}

static void event_free_at_stop(struct watch *w, const struct evzmq_monitor_event *event)
{
    if (event->type == EVZMQ_MONITOR_STOPPED) {
        watch_close(w);
    }
}

static void free_in_the_callback_of_the_last_event(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f, .on_event = event_free_at_stop};
    void *const pull = peer_new(f, ZMQ_PULL);

    watch_open(f, &w, pull, EVZMQ_MONITOR_ALL);
    assert_ok(evzmq_monitor_stop(w.monitor));
    assert_ok(evzmq_monitor_stop(w.monitor));
    run_until(f, w.monitor == NULL);
    assert_string_equal(w.log, "monitor stopped; ");
}

static void a_stopped_monitor_does_not_keep_the_loop_running(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);

    watch_open(f, &w, pull, EVZMQ_MONITOR_ALL);
    assert_ok(evzmq_monitor_stop(w.monitor));
    assert_int_equal(fixture_loop(f, 0), 1);
    assert_int_equal(w.all, 1);
    watch_close(&w);
}

static void a_disabled_monitor_that_is_stopped_does_not_keep_the_loop_running(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);

    watch_open(f, &w, pull, EVZMQ_MONITOR_ALL);
    assert_ok(evzmq_monitor_disable(w.monitor));
    assert_ok(evzmq_monitor_stop(w.monitor));
    assert_int_equal(fixture_loop(f, 0), 1);
    assert_int_equal(w.all, 0);
    assert_ok(evzmq_monitor_enable(w.monitor));
    assert_int_equal(fixture_loop(f, 0), 1);
    assert_int_equal(w.all, 1);
    watch_close(&w);
}

static void a_second_monitor_replaces_the_first_and_outlives_its_free(void **state)
{
    struct fixture *const f = *state;

    for (int early = 0; early <= 1; early++) {
        struct watch first = {.f = f};
        struct watch second = {.f = f};
        void *const pull = peer_new(f, ZMQ_PULL);
        char endpoint[ENDPOINT_SIZE];

        watch_open(f, &first, pull, EVZMQ_MONITOR_ALL);
        watch_open(f, &second, pull, EVZMQ_MONITOR_ALL);
        if (!early) {
            run_until(f, watch_count(&first, EVZMQ_MONITOR_STOPPED) == 1);
        }
        watch_close(&first);
        peer_bind(f, pull, TRANSPORT_IPC, endpoint);
        run_until(f, watch_count(&second, EVZMQ_MONITOR_LISTENING) == 1);
        watch_close(&second);
    }
}

static void stopping_a_replaced_monitor_leaves_its_successor_alone(void **state)
{
    struct fixture *const f = *state;
    struct watch first = {.f = f};
    struct watch second = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    char endpoint[ENDPOINT_SIZE];

    watch_open(f, &first, pull, EVZMQ_MONITOR_ALL);
    peer_bind(f, pull, TRANSPORT_IPC, endpoint);
    watch_open(f, &second, pull, EVZMQ_MONITOR_ALL);
    assert_ok(evzmq_monitor_stop(first.monitor)); /* It has not been told yet. */
    peer_bind(f, pull, TRANSPORT_IPC, endpoint);
    run_until(f, watch_count(&second, EVZMQ_MONITOR_LISTENING) == 1);
    assert_int_equal(watch_count(&second, EVZMQ_MONITOR_STOPPED), 0);
    run_until(f, watch_count(&first, EVZMQ_MONITOR_STOPPED) == 1);
    assert_int_equal(watch_count(&first, EVZMQ_MONITOR_LISTENING), 1); /* Nothing is lost by it. */
    watch_close(&first);
    watch_close(&second);
}

static void a_monitor_that_finds_no_memory_leaves_the_first_one_alone(void **state)
{
    struct fixture *const f = *state;
    struct watch first = {.f = f};
    struct watch second = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    long failures = 0;

    watch_open(f, &first, pull, EVZMQ_MONITOR_ALL);
    do {
        assert_int_equal(watch_count(&first, EVZMQ_MONITOR_STOPPED), 0);
        failures++;
        allocations_fail_at(failures);
        second.monitor =
            evzmq_monitor_new(f->base, f->context, pull, EVZMQ_MONITOR_ALL, watch_event, &second);
        allocations_fail_at(0);
        fixture_glance(f); /* Reads what there is, */
        fixture_glance(f); /* delivers it. */
    } while (second.monitor == NULL);
    run_until(f, watch_count(&first, EVZMQ_MONITOR_STOPPED) == 1);
    assert_true(failures > 3);
    watch_close(&first);
    evzmq_monitor_free(second.monitor);
}

static void free_right_after_the_monitored_socket_was_closed(void **state)
{
    struct fixture *const f = *state;

    for (int round = 0; round < 50; round++) {
        struct watch w = {.f = f};
        void *const pull = peer_new(f, ZMQ_PULL);
        char endpoint[ENDPOINT_SIZE];

        watch_open(f, &w, pull, EVZMQ_MONITOR_ALL);
        peer_bind(f, pull, TRANSPORT_IPC, endpoint);
        peer_close(f, pull);
        watch_close(&w);
    }
}

static void free_while_the_closed_socket_lingers_does_not_hang_anything(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    void *const push = peer_new(f, ZMQ_PUSH);
    void *const pull = peer_new(f, ZMQ_PULL);
    char endpoint[ENDPOINT_SIZE];
    uint64_t number = 1;

    dead_endpoint(endpoint);
    peer_set_int(push, ZMQ_LINGER, 20000);
    peer_set_int(push, ZMQ_RECONNECT_IVL, 5);
    watch_open(f, &w, push, EVZMQ_MONITOR_ALL);
    peer_connect(push, endpoint);
    peer_send_sequence(push, 0, 1, sizeof number);
    peer_close(f, push); /* It waits for its peer, and goes on with events. */
    watch_close(&w);
    assert_int_equal(zmq_bind(pull, endpoint), 0);
    assert_int_equal(zmq_recv(pull, &number, sizeof number, 0), sizeof number);
    assert_int_equal(number, 0);
}

static void the_adapter_stops_the_monitor_of_the_socket_it_closes(void **state)
{
    struct fixture *const f = *state;

    for (int wait = 0; wait <= 1; wait++) {
        struct watch w = {.f = f};
        struct probe p = {.f = f};
        void *const pull = peer_new(f, ZMQ_PULL);
        char endpoint[ENDPOINT_SIZE];

        probe_attach(f, &p, pull, EVZMQ_OPT_CLOSE_ON_FREE);
        watch_open(f, &w, pull, EVZMQ_MONITOR_ALL);
        peer_bind(f, pull, TRANSPORT_IPC, endpoint);
        probe_free(&p);
        if (wait) {
            run_until(f, watch_count(&w, EVZMQ_MONITOR_STOPPED) == 1);
            assert_string_equal(w.log, "listening; monitor stopped; ");
        }
        watch_close(&w);
    }
}

static void a_terminated_context_is_the_last_event(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    struct watch early = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const other = peer_new(f, ZMQ_PULL);

    watch_open(f, &w, pull, EVZMQ_MONITOR_ALL);
    watch_open(f, &early, other, EVZMQ_MONITOR_ALL);
    assert_int_equal(zmq_ctx_shutdown(f->context), 0);
    watch_close(&early); /* Before the loop knew. */
    run_until(f, watch_count(&w, EVZMQ_MONITOR_STOPPED) == 1);
    assert_int_equal(watch_last(&w, EVZMQ_MONITOR_STOPPED)->error, ETERM);
    assert_int_equal(fixture_loop(f, EVLOOP_NONBLOCK), 1);
    assert_ok(evzmq_monitor_stop(w.monitor));
    watch_close(&w);
}

static void child_of_a_monitor(void *arg)
{
    struct watch *const w = arg;
    struct event_base *const base = w->f->base;
    struct evzmq_monitor_stats stats = {.size = sizeof stats};

    child_refused(evzmq_monitor_stop(w->monitor));
    child_refused(evzmq_monitor_disable(w->monitor));
    child_refused(evzmq_monitor_enable(w->monitor));
    child_refused(evzmq_monitor_set_limit(w->monitor, 1));
    child_check(evzmq_monitor_get_stats(w->monitor, &stats) == 0);
    child_check(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK) != -1);
    child_check(w->all == 0); /* No callback runs. */
    evzmq_monitor_free(w->monitor);
    child_check(event_reinit(base) == 0);
    child_check(evzmq_after_fork(base) == 0);
    child_check(event_base_loop(base, EVLOOP_NONBLOCK) == 1);
}

static void a_forked_child_is_refused_and_the_parent_goes_on(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    void *const pull = peer_new(f, ZMQ_PULL);
    char endpoint[ENDPOINT_SIZE];

    watch_open(f, &w, pull, EVZMQ_MONITOR_ALL);
    peer_bind(f, pull, TRANSPORT_IPC, endpoint);
    for (int i = 0; i < 20; i++) {
        child_run(child_of_a_monitor, &w);
    }
    run_until(f, w.all == 1);
    assert_string_equal(w.log, "listening; ");
    assert_ok(evzmq_monitor_stop(w.monitor));
    run_until(f, w.all == 2);
    watch_close(&w);
}

static pid_t forked; /* 0 in the child, -1 before. */

static void fork_once(struct watch *w, const struct evzmq_monitor_event *event)
{
    (void)event;
    if (w->all == 1) {
        forked = child_fork();
    }
}

static void a_child_forked_in_its_callback_gets_no_further_event(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f, .on_event = fork_once};
    void *const pull = peer_new(f, ZMQ_PULL);
    char endpoint[ENDPOINT_SIZE];

    forked = -1;
    watch_open(f, &w, pull, EVZMQ_MONITOR_LISTENING);
    assert_ok(evzmq_monitor_disable(w.monitor));
    for (int i = 0; i < 3; i++) {
        peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    }
    run_until(f, watch_stats(&w).queued == 3);
    assert_ok(evzmq_monitor_enable(w.monitor));
    run_until(f, forked == 0 || w.all == 3);
    if (forked == 0) {
        _exit(w.all == 1 ? 0 : 1);
    }
    assert_true(forked > 0);
    assert_int_equal(child_wait(forked), 0);
    watch_close(&w);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(free_in_its_own_callback_stops_delivery),
        claim(free_in_the_callback_of_the_last_event),
        claim(a_stopped_monitor_does_not_keep_the_loop_running),
        claim(a_disabled_monitor_that_is_stopped_does_not_keep_the_loop_running),
        claim(a_second_monitor_replaces_the_first_and_outlives_its_free),
        claim(stopping_a_replaced_monitor_leaves_its_successor_alone),
        claim(a_monitor_that_finds_no_memory_leaves_the_first_one_alone),
        claim(free_right_after_the_monitored_socket_was_closed),
        claim(free_while_the_closed_socket_lingers_does_not_hang_anything),
        claim(the_adapter_stops_the_monitor_of_the_socket_it_closes),
        claim(a_terminated_context_is_the_last_event),
        claim(a_forked_child_is_refused_and_the_parent_goes_on),
        claim(a_child_forked_in_its_callback_gets_no_further_event),
    };

    return run_claims(tests);
}
