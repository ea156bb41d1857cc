/*
 * Timers that cannot be set for want of memory: whatever was to be told is told all the same, once
 * there is memory again, and nothing else has to happen for that.
 */
#include "asker.h"
#include "audience.h"
#include "watch.h"

#include <evzmq/pubsub.h>

#include "faults.h"
#include "monitor.h"

enum { TIMERS_MAX = 64 };

static struct event *timers[TIMERS_MAX];

static void ignore(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

/* Fills the heap of the base's timers to the last place it has memory for, and takes libevent's
 * memory away: no timer can be set any more but those that are pending. */
static void take_timers_away(struct fixture *f, void *zmq_socket)
{
    const struct timeval hour = {3600, 0};
    size_t count = 0;
    for (size_t i = 0; i < TIMERS_MAX; i++) {
        timers[i] = evtimer_new(f->base, ignore, NULL);
        assert_non_null(timers[i]);
    }
    faults_begin(zmq_socket);
    faults_plan(FAULT_LIBEVENT, 1, FOR_EVER, ENOMEM);
    while (evtimer_add(timers[count], &hour) == 0) {
        count++;
        assert_true(count < TIMERS_MAX);
    }
}

/* Returns whether one could not be set. */
static bool give_timers_back(void)
{
    const size_t made = faults_made(FAULT_LIBEVENT);
    faults_end();
    for (size_t i = 0; i < TIMERS_MAX; i++) {
        event_free(timers[i]);
    }
    return made > 1; /* the first is that of the last timer above */
}

static void a_read_timeout_passes_though_its_timer_could_not_be_set(void **state)
{
    struct fixture *const f = *state;
    const struct timeval soon = {0, 1000};
    struct probe p = {0};
    probe_attach(f, &p, peer_new(f, ZMQ_PULL), 0);
    assert_ok(evzmq_socket_set_timeouts(p.socket, &soon, NULL));
    take_timers_away(f, NULL);
    probe_enable(&p, EV_READ);
    fixture_glance(f);
    assert_true(give_timers_back());
    run_until(f, p.events[EVZMQ_EVENT_READ_TIMEOUT] == 1);
    assert_int_equal(evzmq_socket_get_enabled(p.socket) & EV_READ, 0);
    assert_int_equal(p.events_all, 1);
    probe_free(&p);
}

static void a_write_timeout_passes_though_its_timer_could_not_be_set(void **state)
{
    struct fixture *const f = *state;
    const struct timeval soon = {0, 1000};
    struct probe p = {0};
    probe_attach(f, &p, peer_new(f, ZMQ_PUSH), 0);
    assert_ok(evzmq_socket_set_timeouts(p.socket, NULL, &soon));
    assert_ok(evzmq_socket_write(p.socket, "x", 1));
    take_timers_away(f, NULL);
    fixture_glance(f);
    assert_true(give_timers_back());
    run_until(f, p.events[EVZMQ_EVENT_WRITE_TIMEOUT] == 1);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 1);
    assert_int_equal(p.events_all, 1);
    probe_free(&p);
}

static void events_of_a_monitor_need_no_memory_for_a_timer(void **state)
{
    struct fixture *const f = *state;
    struct watch w = {.f = f};
    char endpoint[ENDPOINT_SIZE];
    void *const pull = peer_new(f, ZMQ_PULL);
    watch_open(f, &w, pull, EVZMQ_MONITOR_LISTENING | EVZMQ_MONITOR_STOPPED);
    peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    take_timers_away(f, NULL);
    run_until(f, w.monitor->received == 1);
    (void)give_timers_back();
    run_until(f, watch_count(&w, EVZMQ_MONITOR_LISTENING) == 1);
    take_timers_away(f, NULL);
    assert_ok(evzmq_monitor_stop(w.monitor));
    run_until(f, w.monitor->reader == NULL);
    (void)give_timers_back();
    run_until(f, watch_count(&w, EVZMQ_MONITOR_STOPPED) == 1);
    assert_int_equal(fixture_loop(f, 0), 1); /* It keeps no loop running. */
    watch_close(&w);
}

static void a_requester_tells_of_room_without_memory_for_a_timer(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_requester_options options = {.size = sizeof(options), .outstanding_max = 1};
    struct asker a = {0};
    struct heard heard;
    void *server = NULL;
    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, &options);
    (void)ask(&a, "q", -1);
    errno = 0;
    assert_int_equal(evzmq_request_bytes(a.requester, "q", 1, -1, asker_note, &a), -1);
    assert_int_equal(errno, EAGAIN);
    hear(f, server, &heard);
    answer(server, &heard, "r");
    take_timers_away(f, a.socket->zmq_socket);
    run_until(f, a.ended == 1);
    (void)give_timers_back();
    run_until(f, a.rooms == 1);
    asker_close(&a);
}

static void requests_of_a_freed_socket_end_without_memory_for_a_timer(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    void *server = NULL;
    asker_open(f, &a, TRANSPORT_INPROC, ZMQ_ROUTER, &server, NULL);
    (void)ask(&a, "q", -1);
    take_timers_away(f, a.socket->zmq_socket);
    asker_free_socket(&a);
    (void)give_timers_back();
    run_until(f, a.ended == 1);
    assert_int_equal(a.error, ESHUTDOWN);
    assert_int_equal(fixture_loop(f, 0), 1); /* It keeps no loop running. */
    asker_close(&a);
}

static void a_full_batch_that_could_not_go_goes_without_memory_for_a_timer(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof(how),
                                                .batching = EVZMQ_BATCH_SHARED,
                                                .batch_records = 2,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    struct speaker s = {0};
    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    speaker_say(&s, "t", "x");
    take_timers_away(f, s.zmq_socket);
    faults_plan(FAULT_SEND, 1, FOR_EVER, ENOMEM);
    speaker_say(&s, "t", "y");
    assert_true(faults_made(FAULT_SEND) > 0);
    (void)give_timers_back();
    assert_int_equal(speaker_stats(&s).pending_records, 2);
    run_until(f, speaker_stats(&s).pending_records == 0);
    speaker_free(&s);
}

static void no_callback_now(struct listener *l, struct evzmq_message *message)
{
    (void)message;
    evzmq_subscriber_setcb(l->subscriber, NULL, NULL, l);
}

static void a_callback_set_again_gets_the_rest_of_a_batch_without_memory_for_a_timer(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {.on_record = no_callback_now};
    listener_open(f, &l, NULL);
    void *const peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    send_numbers(peer, 3, 8);
    run_until(f, l.records == 1);
    l.on_record = NULL;
    take_timers_away(f, l.zmq_socket);
    listener_setcb(&l);
    (void)give_timers_back();
    run_until(f, l.records == 3);
    listener_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(a_read_timeout_passes_though_its_timer_could_not_be_set),
        claim(a_write_timeout_passes_though_its_timer_could_not_be_set),
        claim(events_of_a_monitor_need_no_memory_for_a_timer),
        claim(a_requester_tells_of_room_without_memory_for_a_timer),
        claim(requests_of_a_freed_socket_end_without_memory_for_a_timer),
        claim(a_full_batch_that_could_not_go_goes_without_memory_for_a_timer),
        claim(a_callback_set_again_gets_the_rest_of_a_batch_without_memory_for_a_timer),
    };
    return run_claims(tests);
}
