/**
 * @file test_poster.c
 * Posting from any thread: order, limits, wakeups, and every way in which a socket or a poster
 * comes to its end.
 */
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8 };

/* A socket with a poster, and a receiving socket on the same base. */
struct line {
    struct fixture *f;
    struct probe out;
    struct probe in;
    struct evzmq_poster *poster;
};

static void open_line_over(struct fixture *f, struct line *line, enum transport transport,
                           size_t messages_max, size_t bytes_max)
{
    void *pull = NULL;
    void *push = NULL;

    line->f = f;
    peer_pair(f, transport, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &line->in, pull, 0);
    probe_attach(f, &line->out, push, 0);
    probe_enable(&line->in, EV_READ);
    line->poster = evzmq_poster_new(line->out.socket, messages_max, bytes_max);
    assert_non_null(line->poster);
}

static void open_line(struct fixture *f, struct line *line, size_t messages_max, size_t bytes_max)
{
    open_line_over(f, line, TRANSPORT_INPROC, messages_max, bytes_max);
}

static void close_line(struct line *line)
{
    if (line->out.socket != NULL) {
        probe_free(&line->out);
    }
    probe_free(&line->in);
    evzmq_poster_free(line->poster);
}

static struct evzmq_poster_stats poster_stats(struct evzmq_poster *poster)
{
    struct evzmq_poster_stats stats = {.size = sizeof stats};

    assert_ok(evzmq_poster_get_stats(poster, &stats));
    return stats;
}

static void post_sequence(struct evzmq_poster *poster, uint64_t first, uint64_t count)
{
    for (uint64_t number = first; number < first + count; number++) {
        assert_ok(evzmq_poster_post(poster, &number, sizeof number));
    }
}

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

/* What one posting thread does and finds. Threads must not use cmocka's assertions. */
struct job {
    pthread_t thread;
    struct evzmq_poster *poster;
    uint32_t number;
    uint32_t count; /* 0: until the end */
    uint64_t posted;
    int error; /* what ended it; 0: all were posted */
};

static void *post_job(void *arg)
{
    struct job *const job = arg;

    while (job->count == 0 || job->posted < job->count) {
        const uint32_t record[2] = {job->number, (uint32_t)job->posted};

        if (evzmq_poster_post(job->poster, record, sizeof record) == 0) {
            job->posted++;
        } else if (errno == EAGAIN) {
            (void)sched_yield();
        } else {
            job->error = errno;
            break;
        }
    }
    evzmq_poster_free(job->poster);
    return NULL;
}

static void start_jobs(struct job jobs[THREADS], struct evzmq_poster *poster, uint32_t count)
{
    for (uint32_t i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){
            .poster = evzmq_poster_ref(poster), .number = i, .count = count, .posted = 0};
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, post_job, &jobs[i]), 0);
    }
}

static void join_jobs(struct job jobs[THREADS])
{
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(jobs[i].thread, NULL), 0);
    }
}

static uint32_t posts_per_thread(void)
{
    const char *const text = getenv("EVZMQ_TEST_POSTS");
    const long count = text == NULL ? 0 : strtol(text, NULL, 10);

    return count > 0 && count < 100000000 ? (uint32_t)count : 5000;
}

/* The next number from each thread; arg of the receiving probe. */
static void read_ordered(struct probe *p, struct evzmq_message *message)
{
    uint32_t *const expected = p->arg;
    uint32_t record[2];
    size_t size = 0;
    const void *const data = evzmq_message_get_part(message, 0, &size);

    assert_int_equal(size, sizeof record);
    memcpy(record, data, sizeof record);
    assert_true(record[0] < THREADS);
    assert_int_equal(record[1], expected[record[0]]);
    expected[record[0]]++;
}

static void eight_threads_lose_nothing_and_each_keeps_its_order(void **state)
{
    struct fixture *const f = *state;
    uint32_t expected[THREADS] = {0};
    struct line line = {.in = {.on_read = read_ordered, .arg = expected}};
    struct job jobs[THREADS];
    const uint32_t count = posts_per_thread();

    open_line(f, &line, 0, 0);
    start_jobs(jobs, line.poster, count);
    run_until(f, line.in.reads == (size_t)count * THREADS);
    join_jobs(jobs);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(jobs[i].error, 0);
        assert_int_equal(expected[i], count);
    }
    assert_int_equal(poster_stats(line.poster).posted, (uint64_t)count * THREADS);
    assert_int_equal(poster_stats(line.poster).handed_over, (uint64_t)count * THREADS);
    assert_int_equal(poster_stats(line.poster).dropped, 0);
    close_line(&line);
}

static void a_poster_for_each_thread_does_the_same(void **state)
{
    struct fixture *const f = *state;
    uint32_t expected[THREADS] = {0};
    struct line line = {.in = {.on_read = read_ordered, .arg = expected}};
    struct job jobs[THREADS];
    const uint32_t count = posts_per_thread();

    open_line(f, &line, 0, 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){
            .poster = evzmq_poster_new(line.out.socket, 100, 0), .number = i, .count = count};
        assert_non_null(jobs[i].poster);
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, post_job, &jobs[i]), 0);
    }
    /* Each gives back the only reference to its poster when it is through. */
    run_until(f, line.in.reads == (size_t)count * THREADS);
    join_jobs(jobs);
    close_line(&line);
}

static void every_post_is_accounted_for_when_the_socket_is_freed_meanwhile(void **state)
{
    struct fixture *const f = *state;

    for (size_t round = 0; round < 20; round++) {
        uint32_t expected[THREADS] = {0};
        struct line line = {.in = {.on_read = read_ordered, .arg = expected}};
        struct job jobs[THREADS];
        uint64_t posted = 0;

        open_line(f, &line, 50, 0);
        start_jobs(jobs, line.poster, 0);
        run_until(f, line.in.reads >= round * 50);
        probe_free(&line.out);
        join_jobs(jobs);
        for (size_t i = 0; i < THREADS; i++) {
            assert_int_equal(jobs[i].error, ESHUTDOWN);
            posted += jobs[i].posted;
        }
        const struct evzmq_poster_stats stats = poster_stats(line.poster);
        assert_int_equal(stats.posted, posted);
        assert_int_equal(stats.handed_over + stats.dropped, posted);
        assert_int_equal(stats.queue_messages, 0);
        assert_true(stats.refused_after_end >= THREADS);
        close_line(&line);
    }
}

static void references_may_be_dropped_while_the_socket_is_freed(void **state)
{
    struct fixture *const f = *state;

    for (size_t round = 0; round < 50; round++) {
        struct line line = {.in = {.reads = 0}};
        struct job jobs[THREADS];

        open_line(f, &line, 0, 0);
        start_jobs(jobs, line.poster, 1 + (uint32_t)round);
        evzmq_poster_free(line.poster);
        line.poster = NULL;
        fixture_glance(f);
        close_line(&line);
        join_jobs(jobs);
    }
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

static void a_flood_of_posts_does_not_stop_timers(void **state)
{
    struct fixture *const f = *state;
    uint32_t expected[THREADS] = {0};
    struct line line = {.in = {.on_read = read_ordered, .arg = expected}};
    struct job jobs[THREADS];

    open_line(f, &line, 0, 0);
    start_jobs(jobs, line.poster, 0);
    fixture_run_for(f, 50); /* It ends by a timer, or the watchdog ends the test. */
    probe_free(&line.out);
    join_jobs(jobs);
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
    fixture_run_for(f, 20);
    assert_true(line.in.reads > 1);
    close_line(&line);
}

static void read_and_join(struct probe *p, struct evzmq_message *message)
{
    struct job *const job = p->arg;

    (void)message;
    if (p->reads == 1) {
        assert_int_equal(pthread_create(&job->thread, NULL, post_job, job), 0);
        assert_int_equal(pthread_join(job->thread, NULL), 0);
    }
}

static void no_lock_is_held_in_a_callback(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.on_read = read_and_join}};
    struct job job = {.count = 10};

    open_line(f, &line, 0, 0);
    job.poster = evzmq_poster_ref(line.poster);
    line.in.arg = &job;
    assert_ok(evzmq_poster_post(line.poster, "go", 2));
    run_until(f, line.in.reads == 11);
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

static void a_forked_child_is_refused_and_the_parent_goes_on(void **state)
{
    struct fixture *const f = *state;
    struct line line = {.in = {.on_read = read_sequence}};
    int status = -1;

    open_line(f, &line, 0, 0);
    post_sequence(line.poster, 0, 10);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct evzmq_poster_stats stats = {.size = sizeof stats};
        int good = evzmq_poster_post(line.poster, "x", 1) < 0 && errno == ECHILD;

        good = good && evzmq_poster_get_stats(line.poster, &stats) < 0 && errno == ECHILD;
        good = good && evzmq_poster_new(line.out.socket, 0, 0) == NULL && errno == ECHILD;
        evzmq_socket_free(line.out.socket);
        evzmq_socket_free(line.in.socket);
        evzmq_poster_free(line.poster);
        good = good && event_reinit(f->base) == 0 && evzmq_after_fork(f->base) == 0;
        good = good && event_base_loop(f->base, EVLOOP_NONBLOCK) == 1;
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    post_sequence(line.poster, 10, 10);
    run_until(f, line.in.reads == 20);
    close_line(&line);
}

static void a_fork_while_threads_post_finds_all_locks_free_in_the_child(void **state)
{
    struct fixture *const f = *state;
    uint32_t expected[THREADS] = {0};
    struct line line = {.in = {.on_read = read_ordered, .arg = expected}};
    struct job jobs[THREADS];

    open_line(f, &line, 0, 0);
    start_jobs(jobs, line.poster, 0);
    for (size_t i = 0; i < 10; i++) {
        int status = -1;
        const pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            (void)alarm(20);
            evzmq_socket_free(line.out.socket);
            evzmq_poster_free(line.poster);
            _exit(0);
        }
        run_until(f, line.in.reads > i * 100);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    probe_free(&line.out);
    join_jobs(jobs);
    close_line(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(posts_arrive_over_every_transport),
        claim(a_message_and_parts_are_posted_as_they_are),
        claim(eight_threads_lose_nothing_and_each_keeps_its_order),
        claim(a_poster_for_each_thread_does_the_same),
        claim(every_post_is_accounted_for_when_the_socket_is_freed_meanwhile),
        claim(references_may_be_dropped_while_the_socket_is_freed),
        claim(a_full_poster_is_eagain_and_the_message_stays_the_callers),
        claim(bytes_are_limited_but_one_message_always_fits),
        claim(posts_wait_while_the_output_queue_is_full_and_cost_no_wakeups),
        claim(posts_wait_in_the_queue_while_writing_is_disabled),
        claim(a_burst_costs_one_wakeup),
        claim(a_flood_of_posts_does_not_stop_timers),
        claim(posters_take_turns),
        claim(what_was_posted_is_sent_after_the_last_reference_is_gone),
        claim(a_poster_outlives_its_socket_and_its_base),
        claim(a_shutdown_sends_what_was_posted_before_it),
        claim(a_shutdown_counts_posts_that_found_no_peer),
        claim(a_terminated_context_drops_what_waits_and_refuses_the_rest),
        claim(a_post_to_an_unknown_peer_is_undeliverable),
        claim(a_peer_that_does_not_read_does_not_hold_up_posts_to_others),
        claim(a_callback_may_post_for_ever_without_starving_the_loop),
        claim(no_lock_is_held_in_a_callback),
        claim(a_posted_reply_answers_a_request),
        claim(bad_arguments_are_refused),
        claim(every_allocation_may_fail),
        claim(a_forked_child_is_refused_and_the_parent_goes_on),
        claim(a_fork_while_threads_post_finds_all_locks_free_in_the_child),
    };

    return run_claims(tests);
}
