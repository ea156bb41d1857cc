/**
 * @file test_poster.c
 * Posting: what arrives and how, limits, wakeups, and faults.
 */
#include "support.h"

#include <string.h>

#include "line.h"

static void posts_arrive_over_every_transport(void **state)
{
    struct fixture *const f = *state;

    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        struct line line = {.in = {.on_read = read_sequence}};

        open_line_over(f, &line, transport, 0, 0);
        post_sequence(line.poster, 0, 500);
        run_until(f, line.in.reads == 500);
        close_line(&line);
    }
}

static void a_message_and_parts_are_posted_as_they_are(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.reads = 0}};
    const struct evzmq_bytes parts[] = {{"a", 1}, {NULL, 0}, {"ccc", 3}};
    struct evzmq_message *const message = evzmq_message_new();

    open_line(f, &line, 0, 0);
    assert_ok(evzmq_message_add(message, "x", 1));
    assert_ok(evzmq_message_add(message, "y", 1));
    assert_ok(evzmq_poster_post_parts(line.poster, parts, 3));
    assert_ok(evzmq_poster_post_message(line.poster, message));
    assert_ok(evzmq_poster_post(line.poster, NULL, 0));
    assert_ok(evzmq_poster_post(line.poster, "end", 3));
    run_until(f, line.in.reads == 4);
    assert_string_equal(line.in.log, "a||ccc x|y  end");
    close_line(&line);
}

static void a_full_poster_is_eagain_and_the_message_stays_the_callers(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.on_read = read_sequence}};
    struct evzmq_message *message = evzmq_message_new();
    const uint64_t last = 100;

    open_line(f, &line, 100, 0);
    post_sequence(line.poster, 0, 100);
    assert_ok(evzmq_message_add(message, &last, sizeof last));
    assert_errno(evzmq_poster_post_message(line.poster, message), EAGAIN);
    assert_errno(evzmq_poster_post(line.poster, "x", 1), EAGAIN);
    assert_int_equal(poster_stats(line.poster).refused, 2);
    assert_int_equal(evzmq_poster_get_queued(line.poster, NULL), 100);
    assert_int_equal(evzmq_message_get_size(message), sizeof last);
    run_until(f, line.in.reads == 100);
    assert_ok(evzmq_poster_post_message(line.poster, message));
    run_until(f, line.in.reads == 101);
    close_line(&line);
}

static void bytes_are_limited_but_one_message_always_fits(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.reads = 0}};
    char large[1000] = {0};
    size_t bytes = 0;

    open_line(f, &line, 0, 500);
    assert_ok(evzmq_poster_post(line.poster, large, sizeof large));
    assert_errno(evzmq_poster_post(line.poster, "", 1), EAGAIN);
    assert_int_equal(evzmq_poster_get_queued(line.poster, &bytes), 1);
    assert_int_equal(bytes, sizeof large);
    run_until(f, line.in.reads == 1);
    assert_ok(evzmq_poster_post(line.poster, large, 300));
    assert_errno(evzmq_poster_post(line.poster, large, 201), EAGAIN);
    assert_ok(evzmq_poster_post(line.poster, large, 200));
    run_until(f, line.in.reads == 3);
    close_line(&line);
}

static void posts_wait_while_the_output_queue_is_full_and_cost_no_wakeups(void **state)
{
    struct fixture *const f = *state;
    struct probe out = {.f = f};
    void *const push = peer_new(f, ZMQ_PUSH);
    char endpoint[ENDPOINT_SIZE];
    uint64_t wakeups = 0;

    peer_set_int(push, ZMQ_SNDHWM, 1);
    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    probe_attach(f, &out, push, 0);
    assert_ok(evzmq_socket_set_output_limit(out.socket, 10, 0));
    struct evzmq_poster *const poster = evzmq_poster_new(out.socket, 0, 0);
    post_sequence(poster, 0, 100);
    fixture_run_for(f, 20);
    assert_int_equal(evzmq_socket_get_queued(out.socket, NULL), 10);
    assert_int_equal(evzmq_poster_get_queued(poster, NULL), 90);
    wakeups = probe_wakeups(&out);
    fixture_run_for(f, 50);
    assert_int_equal(probe_wakeups(&out), wakeups);
    assert_int_equal(probe_stats(&out).writes_refused, 0);

    assert_ok(evzmq_socket_set_output_limit(out.socket, 30, 0));
    run_until(f, evzmq_poster_get_queued(poster, NULL) == 70);
    assert_int_equal(evzmq_socket_get_queued(out.socket, NULL), 30);

    void *const pull = peer_new(f, ZMQ_PULL);
    peer_connect(pull, endpoint);
    pump_recv_sequence(f, pull, 0, 100);
    assert_int_equal(evzmq_poster_get_queued(poster, NULL), 0);
    evzmq_poster_free(poster);
    probe_free(&out);
}

static void posts_wait_in_the_queue_while_writing_is_disabled(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.on_read = read_sequence}};

    open_line(f, &line, 0, 0);
    assert_ok(evzmq_socket_set_output_limit(line.out.socket, 5, 0));
    assert_ok(evzmq_socket_disable(line.out.socket, EV_WRITE));
    post_sequence(line.poster, 0, 20);
    run_until(f, evzmq_poster_get_queued(line.poster, NULL) == 15);
    probe_enable(&line.out, EV_WRITE);
    run_until(f, line.in.reads == 20);
    close_line(&line);
}

static void a_burst_costs_one_wakeup(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.reads = 0}};

    open_line(f, &line, 0, 0);
    struct evzmq_poster *const other = evzmq_poster_new(line.out.socket, 0, 0);
    post_sequence(line.poster, 0, 100);
    post_sequence(other, 0, 100);
    assert_int_equal(poster_stats(line.poster).wakeups, 1);
    run_until(f, line.in.reads == 200);
    assert_int_equal(poster_stats(line.poster).wakeups, 1);
    evzmq_poster_free(other);
    close_line(&line);
}

static void posters_take_turns(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.reads = 0}};

    open_line(f, &line, 0, 0);
    struct evzmq_poster *const other = evzmq_poster_new(line.out.socket, 0, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(evzmq_poster_post(line.poster, "a", 1));
        assert_ok(evzmq_poster_post(other, "b", 1));
    }
    run_until(f, line.in.reads == 6);
    assert_true(strcmp(line.in.log, "a b a b a b") == 0 || strcmp(line.in.log, "b a b a b a") == 0);
    evzmq_poster_free(other);
    close_line(&line);
}

static void event_free_socket(struct probe *p, const struct evzmq_event *event)
{
    assert_int_equal(event->type, EVZMQ_EVENT_UNDELIVERABLE);
    probe_free(p);
}

static void a_post_to_an_unknown_peer_is_undeliverable(void **state)
{
    struct fixture *const f = *state;
    struct probe router = {.f = f};
    const struct evzmq_bytes parts[] = {{"nobody", 6}, {"x", 1}};

    probe_attach(f, &router, peer_new(f, ZMQ_ROUTER), 0);
    struct evzmq_poster *const poster = evzmq_poster_new(router.socket, 0, 0);
    assert_ok(evzmq_poster_post_parts(poster, parts, 2));
    assert_ok(evzmq_poster_post_parts(poster, parts, 2));
    run_until(f, router.events[EVZMQ_EVENT_UNDELIVERABLE] == 2);
    assert_int_equal(router.last.error, EHOSTUNREACH);
    /* The callback may free the socket, with more to come. */
    assert_ok(evzmq_poster_post_parts(poster, parts, 2));
    assert_ok(evzmq_poster_post_parts(poster, parts, 2));
    router.on_event = event_free_socket;
    run_until(f, router.socket == NULL);
    assert_int_equal(poster_stats(poster).dropped, 1);
    evzmq_poster_free(poster);
}

static void post_to(struct evzmq_poster *poster, const char *peer, uint64_t number)
{
    const struct evzmq_bytes parts[] = {{peer, strlen(peer)}, {&number, sizeof number}};

    assert_ok(evzmq_poster_post_parts(poster, parts, 2));
}

/* A received message does not know yet where its bytes lie. */
static void a_received_message_is_posted_in_order_with_others_to_its_peer(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_message *received = NULL;
    struct evzmq_poster *poster = NULL;
    struct probe p = {0};
    char endpoint[ENDPOINT_SIZE];
    uint64_t number = 2;
    void *const router = peer_new(f, ZMQ_ROUTER);
    void *const dealer = peer_new(f, ZMQ_DEALER);

    assert_int_equal(zmq_setsockopt(dealer, ZMQ_ROUTING_ID, "dealer", 6), 0);
    peer_bind(f, router, TRANSPORT_INPROC, endpoint);
    peer_connect(dealer, endpoint);
    peer_send(dealer, &number, sizeof number);
    probe_attach(f, &p, router, 0);
    poster = evzmq_poster_new(p.socket, 0, 0);
    assert_non_null(poster);
    assert_ok(evzmq_socket_recv(p.socket, NULL, &received));
    assert_errno(evzmq_poster_post(poster, "dealer", 6), EINVAL); /* Nothing after the id. */
    post_to(poster, "dealer", 0);
    post_to(poster, "dealer", 1);
    assert_ok(evzmq_poster_post_message(poster, received));
    post_to(poster, "dealer", 3);
    pump_recv_sequence(f, dealer, 0, 4);
    evzmq_poster_free(poster);
    probe_free(&p);
}

static void a_peer_that_does_not_read_does_not_hold_up_posts_to_others(void **state)
{
    struct fixture *const f = *state;
    struct probe router = {.f = f};
    void *const raw = peer_new(f, ZMQ_ROUTER);
    void *const deaf = peer_new(f, ZMQ_DEALER);
    void *const good = peer_new(f, ZMQ_DEALER);
    char endpoint[ENDPOINT_SIZE];
    char text[64];

    peer_set_int(raw, ZMQ_SNDHWM, 1);
    peer_set_int(deaf, ZMQ_RCVHWM, 1);
    assert_int_equal(zmq_setsockopt(deaf, ZMQ_ROUTING_ID, "deaf", 4), 0);
    assert_int_equal(zmq_setsockopt(good, ZMQ_ROUTING_ID, "good", 4), 0);
    peer_bind(f, raw, TRANSPORT_INPROC, endpoint);
    peer_connect(deaf, endpoint);
    peer_connect(good, endpoint);
    probe_attach(f, &router, raw, 0);
    assert_ok(evzmq_socket_set_output_limit(router.socket, 8, 0));
    struct evzmq_poster *const poster = evzmq_poster_new(router.socket, 0, 0);
    for (uint64_t i = 0; i < 50; i++) {
        post_to(poster, "deaf", i);
    }
    for (uint64_t i = 0; i < 50; i++) {
        post_to(poster, "good", i);
    }
    pump_recv_sequence(f, good, 0, 50);
    assert_false(zmq_recv(good, text, sizeof text, ZMQ_DONTWAIT) >= 0);
    pump_recv_sequence(f, deaf, 0, 50);
    assert_int_equal(router.events_all - router.events[EVZMQ_EVENT_DRAINED], 0);
    evzmq_poster_free(poster);
    probe_free(&router);
}

static void read_and_post(struct probe *p, struct evzmq_message *message)
{
    struct line *const line = p->arg;
    struct evzmq_message *const own = evzmq_message_take(message);

    assert_errno(evzmq_poster_post_message(line->poster, message), EINVAL); /* It is lent. */
    assert_ok(evzmq_poster_post_message(line->poster, own));
}

static void a_callback_may_post_for_ever_without_starving_the_loop(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.on_read = read_and_post}};

    line.in.arg = &line;
    open_line(f, &line, 0, 0);
    assert_ok(evzmq_poster_post(line.poster, "x", 1));
    run_until(f, line.in.reads > 100);
    fixture_run_for(f, 20); /* Its end is an event like any other. */
    close_line(&line);
}

static void a_posted_reply_answers_a_request(void **state)
{
    struct fixture *const f = *state;
    struct probe rep = {.f = f};
    void *raw = NULL;
    void *req = NULL;
    char text[64];

    peer_pair(f, TRANSPORT_INPROC, ZMQ_REP, &raw, ZMQ_REQ, &req);
    probe_attach(f, &rep, raw, 0);
    probe_enable(&rep, EV_READ);
    struct evzmq_poster *const poster = evzmq_poster_new(rep.socket, 0, 0);
    for (size_t i = 1; i <= 3; i++) {
        peer_send_text(req, "question");
        run_until(f, rep.reads == i);
        assert_ok(evzmq_poster_post(poster, "answer", 6));
        pump_recv_text(f, req, text, sizeof text);
        assert_string_equal(text, "answer");
    }
    /* Without a request it is refused by libzmq, and the socket lives on. */
    assert_ok(evzmq_poster_post(poster, "again", 5));
    run_until(f, rep.events[EVZMQ_EVENT_UNDELIVERABLE] == 1);
    assert_int_equal(rep.last.error, EFSM);
    evzmq_poster_free(poster);
    probe_free(&rep);
}

static void bad_arguments_are_refused(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.reads = 0}};
    struct evzmq_poster_stats stats = {.size = 1};
    struct evzmq_message *const empty = evzmq_message_new();
    const struct evzmq_bytes part = {NULL, 1};

    open_line(f, &line, 0, 0);
    errno = 0;
    assert_null(evzmq_poster_new(NULL, 0, 0));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(evzmq_poster_new(line.in.socket, 0, 0));
    assert_int_equal(errno, ENOTSUP);
    assert_errno(evzmq_poster_post(NULL, "x", 1), EINVAL);
    assert_errno(evzmq_poster_post(line.poster, NULL, 1), EINVAL);
    assert_errno(evzmq_poster_post_parts(line.poster, NULL, 1), EINVAL);
    assert_errno(evzmq_poster_post_parts(line.poster, &part, 0), EINVAL);
    assert_errno(evzmq_poster_post_parts(line.poster, &part, 1), EINVAL);
    assert_errno(evzmq_poster_post_message(line.poster, NULL), EINVAL);
    assert_errno(evzmq_poster_post_message(line.poster, empty), EINVAL);
    assert_errno(evzmq_poster_get_stats(line.poster, &stats), EINVAL);
    assert_errno(evzmq_poster_get_stats(line.poster, NULL), EINVAL);
    assert_null(evzmq_poster_ref(NULL));
    evzmq_poster_free(NULL);
    evzmq_message_free(empty);
    close_line(&line);
}

static void every_allocation_may_fail(void **state)
{
    struct fixture *const f = *state;
    int done = 0;

    for (long n = 1; !done; n++) {
        struct line line = {.in = {.reads = 0}};
        size_t expected = 0;

        open_line(f, &line, 0, 0);
        evzmq_poster_free(line.poster);
        allocations_fail_at(n);
        line.poster = evzmq_poster_new(line.out.socket, 0, 0);
        done = line.poster != NULL;
        for (size_t i = 0; i < 2 && line.poster != NULL; i++) {
            if (evzmq_poster_post(line.poster, "x", 1) == 0) {
                expected++;
            } else {
                assert_int_equal(errno, ENOMEM);
                done = 0;
            }
        }
        allocations_fail_at(0);
        run_until(f, line.in.reads == expected);
        close_line(&line);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(posts_arrive_over_every_transport),
        claim(a_message_and_parts_are_posted_as_they_are),
        claim(a_full_poster_is_eagain_and_the_message_stays_the_callers),
        claim(bytes_are_limited_but_one_message_always_fits),
        claim(posts_wait_while_the_output_queue_is_full_and_cost_no_wakeups),
        claim(posts_wait_in_the_queue_while_writing_is_disabled),
        claim(a_burst_costs_one_wakeup),
        claim(posters_take_turns),
        claim(a_post_to_an_unknown_peer_is_undeliverable),
        claim(a_received_message_is_posted_in_order_with_others_to_its_peer),
        claim(a_peer_that_does_not_read_does_not_hold_up_posts_to_others),
        claim(a_callback_may_post_for_ever_without_starving_the_loop),
        claim(a_posted_reply_answers_a_request),
        claim(bad_arguments_are_refused),
        claim(every_allocation_may_fail),
    };

    return run_claims(tests);
}
