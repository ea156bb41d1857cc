/**
 * @file test_poster_ends.c
 * Every way in which a socket or a poster comes to its end.
 */
#include "support.h"

#include "child.h"
#include "line.h"

static void what_was_posted_is_sent_after_the_last_reference_is_gone(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.on_read = read_sequence}};

    open_line(f, &line, 0, 0);
    const int sockets_and_poster = event_base_get_num_events(f->base, EVENT_BASE_COUNT_ADDED);
    const int sockets = sockets_and_poster / 3 * 2;
    post_sequence(line.poster, 0, 100);
    evzmq_poster_free(line.poster);
    line.poster = NULL;
    run_until(f, line.in.reads == 100);
    /* The poster's events go with it, also when it was idle. */
    run_until(f, event_base_get_num_events(f->base, EVENT_BASE_COUNT_ADDED) == sockets);
    line.poster = evzmq_poster_new(line.out.socket, 0, 0);
    fixture_glance(f);
    evzmq_poster_free(line.poster);
    line.poster = NULL;
    run_until(f, event_base_get_num_events(f->base, EVENT_BASE_COUNT_ADDED) == sockets);
    close_line(&line);
}

static void a_poster_outlives_its_socket_and_its_base(void **state)
{
    struct fixture *const f = *state;
    struct event_base *const base = event_base_new();
    void *const push = peer_new(f, ZMQ_PUSH);
    struct evzmq_socket *const socket = evzmq_socket_new(base, push, 0);
    struct evzmq_poster *const poster = evzmq_poster_new(socket, 0, 0);

    assert_ok(evzmq_poster_post(poster, "x", 1));
    evzmq_socket_free(socket);
    assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 1); /* No event is left. */
    event_base_free(base);
    assert_errno(evzmq_poster_post(poster, "x", 1), ESHUTDOWN);
    assert_int_equal(poster_stats(poster).dropped, 1);
    assert_int_equal(poster_stats(poster).refused_after_end, 1);
    assert_int_equal(evzmq_poster_get_queued(poster, NULL), 0);
    evzmq_poster_free(poster);
}

static void count_shutdown(struct evzmq_socket *socket, uint64_t handed_over,
                           uint64_t not_handed_over, void *arg)
{
    uint64_t *const counts = arg;

    (void)socket;
    counts[0] = handed_over + 1; /* Not 0: it was called. */
    counts[1] = not_handed_over;
}

static void a_shutdown_sends_what_was_posted_before_it(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.on_read = read_sequence}};
    uint64_t counts[2] = {0};

    open_line(f, &line, 0, 0);
    assert_ok(evzmq_socket_set_output_limit(line.out.socket, 5, 0));
    post_sequence(line.poster, 0, 100);
    assert_ok(evzmq_socket_shutdown(line.out.socket, NULL, count_shutdown, counts));
    assert_errno(evzmq_poster_post(line.poster, "x", 1), ESHUTDOWN);
    errno = 0;
    assert_null(evzmq_poster_new(line.out.socket, 0, 0));
    assert_int_equal(errno, ESHUTDOWN);
    run_until(f, counts[0] != 0 && line.in.reads == 100);
    assert_int_equal(counts[0] - 1, 100);
    assert_int_equal(counts[1], 0);
    assert_int_equal(poster_stats(line.poster).handed_over, 100);
    assert_int_equal(poster_stats(line.poster).dropped, 0);
    close_line(&line);
}

static void a_shutdown_counts_posts_that_found_no_peer(void **state)
{
    struct fixture *const f = *state;
    struct probe out = {.f = f};
    const struct timeval soon = {0, 1000};
    uint64_t counts[2] = {0};

    probe_attach(f, &out, peer_new(f, ZMQ_PUSH), 0);
    struct evzmq_poster *const poster = evzmq_poster_new(out.socket, 0, 0);
    post_sequence(poster, 0, 7);
    assert_ok(evzmq_socket_shutdown(out.socket, &soon, count_shutdown, counts));
    run_until(f, counts[0] != 0);
    assert_int_equal(counts[0] - 1, 0);
    assert_int_equal(counts[1], 7);
    probe_free(&out);
    evzmq_poster_free(poster);
}

static void what_found_no_room_is_handed_over_by_a_shutdown_and_dropped_by_a_free(void **state)
{
    struct fixture *const f = *state;
    const struct timeval soon = {0, 1000};

    for (int frees = 0; frees <= 1; frees++) {
        struct probe out = {.f = f};
        uint64_t counts[2] = {0};

        probe_attach(f, &out, peer_new(f, ZMQ_PUSH), 0);
        assert_ok(evzmq_socket_set_output_limit(out.socket, 3, 0));
        struct evzmq_poster *const poster = evzmq_poster_new(out.socket, 0, 0);
        post_sequence(poster, 0, 7);
        run_until(f, evzmq_socket_get_queued(out.socket, NULL) == 3);
        if (!frees) {
            assert_ok(evzmq_socket_shutdown(out.socket, &soon, count_shutdown, counts));
            run_until(f, counts[0] != 0);
            assert_int_equal(counts[1], 7);
        }
        probe_free(&out);
        assert_int_equal(poster_stats(poster).handed_over, frees ? 3 : 7);
        assert_int_equal(poster_stats(poster).dropped, frees ? 4 : 0);
        evzmq_poster_free(poster);
    }
}

static void a_terminated_context_drops_what_waits_and_refuses_the_rest(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.reads = 0}};

    open_line(f, &line, 0, 0);
    assert_ok(evzmq_poster_post(line.poster, "x", 1));
    assert_int_equal(zmq_ctx_shutdown(f->context), 0);
    run_until(f, line.out.events[EVZMQ_EVENT_TERMINATED] == 1 &&
                     line.in.events[EVZMQ_EVENT_TERMINATED] == 1);
    assert_errno(evzmq_poster_post(line.poster, "x", 1), ESHUTDOWN);
    assert_int_equal(poster_stats(line.poster).dropped, 1);
    assert_int_equal(event_base_loop(f->base, EVLOOP_NONBLOCK), 1); /* Nothing keeps it running. */
    close_line(&line);
}

static void child_of_a_poster(void *arg)
{
    struct line *const line = arg;
    struct event_base *const base = line->f->base;
    struct evzmq_poster_stats stats = {.size = sizeof stats};
    const struct evzmq_bytes part = {"x", 1};
    struct evzmq_message *const message = evzmq_message_new();
    const int descriptors = count_descriptors();

    child_check(evzmq_message_add(message, "x", 1) == 0);
    child_refused(evzmq_poster_post(line->poster, "x", 1));
    child_refused(evzmq_poster_post_parts(line->poster, &part, 1));
    child_refused(evzmq_poster_post_message(line->poster, message));
    child_refused(evzmq_poster_get_stats(line->poster, &stats));
    child_check(evzmq_poster_get_queued(line->poster, NULL) <= 10);
    child_check(evzmq_poster_new(line->out.socket, 0, 0) == NULL && errno == ECHILD);
    child_check(evzmq_poster_ref(line->poster) == line->poster);
    evzmq_poster_free(line->poster);
    evzmq_socket_free(line->out.socket);
    evzmq_socket_free(line->in.socket);
    evzmq_poster_free(line->poster);
    evzmq_message_free(message);
    child_check(event_reinit(base) == 0);
    child_check(evzmq_after_fork(base) == 0);
    child_check(descriptors < 0 ||
                count_descriptors() == descriptors - 1); /* What woke the loop. */
    child_check(event_base_loop(base, EVLOOP_NONBLOCK) == 1);
}

static void a_forked_child_is_refused_and_the_parent_goes_on(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.on_read = read_sequence}};

    open_line(f, &line, 0, 0);
    for (uint64_t i = 0; i < 20; i++) {
        post_sequence(line.poster, i * 20, 10);
        child_run(child_of_a_poster, &line);
        post_sequence(line.poster, i * 20 + 10, 10);
        run_until(f, line.in.reads == (i + 1) * 20);
    }
    close_line(&line);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(what_was_posted_is_sent_after_the_last_reference_is_gone),
        claim(a_poster_outlives_its_socket_and_its_base),
        claim(a_shutdown_sends_what_was_posted_before_it),
        claim(a_shutdown_counts_posts_that_found_no_peer),
        claim(what_found_no_room_is_handed_over_by_a_shutdown_and_dropped_by_a_free),
        claim(a_terminated_context_drops_what_waits_and_refuses_the_rest),
        claim(a_forked_child_is_refused_and_the_parent_goes_on),
    };

    return run_claims(tests);
}
