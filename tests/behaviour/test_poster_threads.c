/**
 * @file test_poster_threads.c
 * Posting from many threads: nothing is lost, each keeps its order, whatever the loop does
 * meanwhile. Runs under ThreadSanitizer too.
 */
#include "support.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "line.h"

static uint32_t posts_per_thread(void)
{
    const char *const text = getenv("EVZMQ_TEST_POSTS");
    const long count = text == NULL ? 0 : strtol(text, NULL, 10);

    return count > 0 && count < 100000000 ? (uint32_t)count : 5000;
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

/* Frees a socket that other threads post to, again and again, while `line` goes on. */
static void free_a_socket_meanwhile(struct fixture *f, const struct line *line)
{
    uint32_t expected[THREADS] = {0};
    struct line doomed = {.in = {.on_read = read_ordered, .arg = expected}};
    struct job jobs[THREADS];
    const size_t until = line->in.reads + 1000;

    open_line(f, &doomed, 50, 0);
    void *const pull = evzmq_socket_get_zmq_socket(doomed.in.socket);
    void *const push = evzmq_socket_get_zmq_socket(doomed.out.socket);
    start_jobs(jobs, doomed.poster, 0);
    run_until(f, doomed.in.reads >= 100 && line->in.reads >= until);
    probe_free(&doomed.out);
    join_jobs(jobs);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(jobs[i].error, ESHUTDOWN);
    }
    close_line(&doomed);
    peer_close(f, pull);
    peer_close(f, push);
    f->peer_count -= 2; /* Their places are the next ones'. */
}

static void sockets_freed_meanwhile_take_nothing_from_another(void **state)
{
    struct fixture *const f = *state;
    uint32_t expected[THREADS] = {0};
    struct line line = {.in = {.on_read = read_ordered, .arg = expected}};
    struct job jobs[THREADS];
    const uint32_t count = posts_per_thread();

    open_line(f, &line, 0, 0);
    start_jobs(jobs, line.poster, count);
    for (int i = 0; i < 50 && line.in.reads + 2000 < (size_t)count * THREADS; i++) {
        free_a_socket_meanwhile(f, &line);
    }
    run_until(f, line.in.reads == (size_t)count * THREADS);
    join_jobs(jobs);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(jobs[i].error, 0);
        assert_int_equal(expected[i], count);
    }
    close_line(&line);
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
        const pid_t child = fork(); /* Without waiting until the threads are quiet. */

        assert_true(child >= 0);
        if (child == 0) {
            fixture_watch_child();
            child_refused(evzmq_poster_post(line.poster, "no", 2));
#if !defined(__SANITIZE_ADDRESS__)
            /* That sanitizer's own lock is not free in a child of threads that allocate. */
            evzmq_socket_free(line.out.socket);
            evzmq_poster_free(line.poster);
#endif
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
    static const struct CMUnitTest tests[] = {
        claim(eight_threads_lose_nothing_and_each_keeps_its_order),
        claim(a_poster_for_each_thread_does_the_same),
        claim(every_post_is_accounted_for_when_the_socket_is_freed_meanwhile),
        claim(sockets_freed_meanwhile_take_nothing_from_another),
        claim(references_may_be_dropped_while_the_socket_is_freed),
        claim(a_flood_of_posts_does_not_stop_timers),
        claim(no_lock_is_held_in_a_callback),
        claim(a_fork_while_threads_post_finds_all_locks_free_in_the_child),
    };

    return run_claims(tests);
}
