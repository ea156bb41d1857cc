/**
 * @file test_timeouts.c
 * Timeouts of a direction: when they run, what starts them again, and what they leave behind.
 */
#include "support.h"

static const struct timeval brief = {0, 20000};

static void open_dealers(struct fixture *f, struct probe *p, void **out_peer)
{
    void *dealer = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_DEALER, &dealer, ZMQ_DEALER, out_peer);
    probe_attach(f, p, dealer, 0);
}

static void open_lonely(struct fixture *f, struct probe *p, char endpoint[ENDPOINT_SIZE])
{
    void *const push = peer_new(f, ZMQ_PUSH);

    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    probe_attach(f, p, push, 0);
}

static void the_read_timeout_disables_reading_and_tells_once(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *peer = NULL;

    open_dealers(f, &p, &peer);
    assert_ok(evzmq_socket_set_timeouts(p.socket, &brief, NULL));
    probe_enable(&p, EV_READ);
    run_until(f, p.events[EVZMQ_EVENT_READ_TIMEOUT] == 1);
    assert_int_equal(evzmq_socket_get_enabled(p.socket), EV_WRITE);
    peer_send_text(peer, "late");
    fixture_run_for(f, 60);
    assert_int_equal(p.reads, 0);
    assert_int_equal(p.events_all, 1);
    probe_enable(&p, EV_READ); /* As with bufferevents: it goes on where it stopped. */
    run_until(f, p.reads == 1);
    run_until(f, p.events[EVZMQ_EVENT_READ_TIMEOUT] == 2);
    assert_string_equal(p.log, "[read-timeout] late [read-timeout]");
    probe_free(&p);
}

static void no_timeout_runs_while_its_direction_has_nothing_to_wait_for(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *peer = NULL;

    open_dealers(f, &p, &peer);
    assert_ok(evzmq_socket_set_timeouts(p.socket, &brief, &brief));
    fixture_run_for(f, 100); /* Reading is disabled, and nothing is queued. */
    assert_int_equal(p.events_all, 0);
    assert_int_equal(evzmq_socket_get_enabled(p.socket), EV_WRITE);
    probe_free(&p);
}

static void the_read_timeout_does_not_run_without_a_read_callback(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *peer = NULL;
    evzmq_read_cb read_cb = NULL;
    evzmq_write_cb write_cb = NULL;
    evzmq_event_cb event_cb = NULL;
    void *arg = NULL;

    open_dealers(f, &p, &peer);
    fixture_glance(f);
    assert_ok(evzmq_socket_set_timeouts(p.socket, &brief, NULL));
    probe_enable(&p, EV_READ);
    evzmq_socket_getcb(p.socket, &read_cb, &write_cb, &event_cb, &arg);
    fixture_glance(f);
    evzmq_socket_setcb(p.socket, NULL, write_cb, event_cb, arg);
    fixture_run_for(f, 100); /* Nothing is received, and nothing else happens on the socket. */
    assert_int_equal(p.events_all, 0);
    assert_int_equal(evzmq_socket_get_enabled(p.socket), EV_READ | EV_WRITE);
    evzmq_socket_setcb(p.socket, read_cb, write_cb, event_cb, arg);
    run_until(f, p.events[EVZMQ_EVENT_READ_TIMEOUT] == 1);
    probe_free(&p);
}

static void null_takes_the_timeouts_away(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];

    open_lonely(f, &p, endpoint);
    assert_ok(evzmq_socket_set_timeouts(p.socket, &brief, &brief));
    assert_ok(evzmq_socket_write(p.socket, "x", 1));
    assert_ok(evzmq_socket_set_timeouts(p.socket, NULL, NULL));
    fixture_run_for(f, 100);
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

/* A wakeup is not a message: whoever touches the socket does not keep the timeout from passing. */
static void touch_socket(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    (void)evzmq_socket_touch(arg);
}

static void wakeups_without_a_message_do_not_start_the_read_timeout_again(void **state)
{
    struct fixture *const f = *state;
    const struct timeval millisecond = {0, 1000};
    struct probe p = {0};
    struct event *ticker = NULL;
    void *peer = NULL;

    open_dealers(f, &p, &peer);
    assert_ok(evzmq_socket_set_timeouts(p.socket, &brief, NULL));
    probe_enable(&p, EV_READ);
    ticker = event_new(f->base, -1, EV_PERSIST, touch_socket, p.socket);
    assert_int_equal(event_add(ticker, &millisecond), 0);
    run_until(f, p.events[EVZMQ_EVENT_READ_TIMEOUT] == 1);
    event_free(ticker);
    probe_free(&p);
}

static void the_write_timeout_disables_writing_and_keeps_the_queue(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    void *pull = NULL;

    open_lonely(f, &p, endpoint);
    assert_ok(evzmq_socket_set_timeouts(p.socket, NULL, &brief));
    for (uint64_t i = 0; i < 10; i++) {
        assert_ok(evzmq_socket_write(p.socket, &i, sizeof i));
    }
    run_until(f, p.events[EVZMQ_EVENT_WRITE_TIMEOUT] == 1);
    assert_int_equal(evzmq_socket_get_enabled(p.socket), 0);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 10);
    pull = peer_new(f, ZMQ_PULL);
    peer_connect(pull, endpoint);
    fixture_run_for(f, 60);
    assert_int_equal(evzmq_socket_get_queued(p.socket, NULL), 10);
    probe_enable(&p, EV_WRITE);
    pump_recv_sequence(f, pull, 0, 10);
    assert_int_equal(p.events[EVZMQ_EVENT_WRITE_TIMEOUT], 1);
    probe_free(&p);
}

static void free_on_event(struct probe *p, const struct evzmq_event *event)
{
    (void)event;
    probe_free(p);
}

static void a_socket_may_be_freed_in_the_callback_of_its_timeout(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_event = free_on_event};
    void *peer = NULL;

    open_dealers(f, &p, &peer);
    assert_ok(evzmq_socket_set_timeouts(p.socket, &brief, &brief));
    probe_enable(&p, EV_READ);
    run_until(f, p.socket == NULL);
    assert_string_equal(p.log, "[read-timeout]");
}

static void malformed_times_are_einval(void **state)
{
    struct fixture *const f = *state;
    static const struct timeval bad[] = {{-1, 0}, {0, -1}, {0, 1000000}};
    struct probe p = {0};
    void *peer = NULL;

    open_dealers(f, &p, &peer);
    for (size_t i = 0; i < 3; i++) {
        assert_errno(evzmq_socket_set_timeouts(p.socket, &bad[i], NULL), EINVAL);
        assert_errno(evzmq_socket_set_timeouts(p.socket, NULL, &bad[i]), EINVAL);
    }
    assert_errno(evzmq_socket_set_timeouts(NULL, NULL, NULL), EINVAL);
    probe_free(&p);
}

static void set_long_timeout(struct probe *p)
{
    const struct timeval long_time = {60, 0};

    assert_ok(evzmq_socket_set_timeouts(p->socket, NULL, &long_time));
}

/* In the write callback nothing is queued any more, but the timer of the old timeout still runs. */
static void a_timeout_that_was_replaced_does_not_pass(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_write = set_long_timeout};
    char endpoint[ENDPOINT_SIZE];
    void *pull = NULL;

    open_lonely(f, &p, endpoint);
    assert_ok(evzmq_socket_set_timeouts(p.socket, NULL, &brief));
    assert_ok(evzmq_socket_write(p.socket, "x", 1));
    fixture_turn(f);
    pull = peer_new(f, ZMQ_PULL);
    peer_connect(pull, endpoint);
    run_until(f, p.writes == 1);
    fixture_run_for(f, 100);
    assert_int_equal(p.events[EVZMQ_EVENT_WRITE_TIMEOUT], 0);
    assert_int_equal(evzmq_socket_get_enabled(p.socket), EV_WRITE);
    probe_free(&p);
}

/* A timer of the test's own that was set when the timeout began to run, and for longer: it comes
 * first if, and only if, the timeout was started again meanwhile. No clock is read, and each turn
 * of the loop has something to receive or to send, so a slow machine changes nothing. */
struct marker {
    struct event *event;
    struct probe *p;
    int passed;
    size_t timeouts; /* events of the probe by then */
};

static void mark(evutil_socket_t fd, short events, void *arg)
{
    struct marker *const marker = arg;

    (void)fd;
    (void)events;
    marker->passed = 1;
    marker->timeouts =
        marker->p->events[EVZMQ_EVENT_READ_TIMEOUT] + marker->p->events[EVZMQ_EVENT_WRITE_TIMEOUT];
}

static void marker_set(struct fixture *f, struct marker *marker, struct probe *p,
                       const struct timeval *after)
{
    *marker = (struct marker){.p = p};
    marker->event = event_new(f->base, -1, 0, mark, marker);
    assert_int_equal(event_add(marker->event, after), 0);
}

/* libevent's clock may tick only every few milliseconds: these are further apart. */
static const struct timeval a_while = {0, 100000};
static const struct timeval longer = {0, 300000};
static const struct timeval longer_still = {0, 350000};

static void each_message_starts_the_read_timeout_again(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct marker meanwhile;
    struct marker marker;
    void *peer = NULL;

    open_dealers(f, &p, &peer);
    assert_ok(evzmq_socket_set_timeouts(p.socket, &longer, NULL));
    probe_enable(&p, EV_READ);
    marker_set(f, &meanwhile, &p, &a_while);
    marker_set(f, &marker, &p, &longer_still);
    for (size_t sent = 1; !meanwhile.passed; sent++) {
        peer_send_text(peer, "message");
        run_until(f, p.reads == sent);
    }
    run_until(f, marker.passed);
    assert_int_equal(marker.timeouts, 0);
    run_until(f, p.events[EVZMQ_EVENT_READ_TIMEOUT] == 1);
    event_free(meanwhile.event);
    event_free(marker.event);
    probe_free(&p);
}

static void each_message_sent_starts_the_write_timeout_again(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct marker meanwhile;
    struct marker marker;
    char endpoint[ENDPOINT_SIZE];
    char text[32];
    void *const push = peer_new(f, ZMQ_PUSH);
    void *const pull = peer_new(f, ZMQ_PULL);

    peer_set_int(push, ZMQ_SNDHWM, 1);
    peer_set_int(pull, ZMQ_RCVHWM, 1);
    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    peer_connect(pull, endpoint);
    probe_attach(f, &p, push, 0);
    assert_ok(evzmq_socket_set_timeouts(p.socket, NULL, &longer));
    for (int i = 0; i < 50; i++) {
        assert_ok(evzmq_socket_write(p.socket, "queued", 6));
    }
    fixture_glance(f);
    marker_set(f, &meanwhile, &p, &a_while);
    marker_set(f, &marker, &p, &longer_still);
    while (!meanwhile.passed) {
        const size_t queued = evzmq_socket_get_queued(p.socket, NULL);

        while (evzmq_socket_get_queued(p.socket, NULL) == queued) {
            pump_recv_text(f, pull, text, sizeof text);
            fixture_glance(f);
        }
        while (evzmq_socket_get_queued(p.socket, NULL) < queued) {
            assert_ok(evzmq_socket_write(p.socket, "queued", 6));
        }
    }
    run_until(f, marker.passed);
    assert_int_equal(marker.timeouts, 0);
    run_until(f, p.events[EVZMQ_EVENT_WRITE_TIMEOUT] == 1);
    event_free(meanwhile.event);
    event_free(marker.event);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(the_read_timeout_disables_reading_and_tells_once),
        claim(no_timeout_runs_while_its_direction_has_nothing_to_wait_for),
        claim(the_read_timeout_does_not_run_without_a_read_callback),
        claim(null_takes_the_timeouts_away),
        claim(wakeups_without_a_message_do_not_start_the_read_timeout_again),
        claim(the_write_timeout_disables_writing_and_keeps_the_queue),
        claim(a_socket_may_be_freed_in_the_callback_of_its_timeout),
        claim(malformed_times_are_einval),
        claim(a_timeout_that_was_replaced_does_not_pass),
        claim(each_message_starts_the_read_timeout_again),
        claim(each_message_sent_starts_the_write_timeout_again),
    };

    return run_claims(tests);
}
