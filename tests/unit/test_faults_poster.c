/*
 * test_faults_poster.c: a post that the loop took and could not send, since a signal came or memory
 * was short, when its socket ends.
 */
#include "support.h"

#include "faults.h"
#include "line.h"

enum { POSTS = 3 };

/* The first of three posts has left the poster's queue and is in no other. */
static void open_held(struct fixture *f, struct line *line)
{
    *line = (struct line){.in = {.on_read = read_sequence}};
    open_line(f, line, 0, 0);
    faults_begin(FAULTS_ANY_SOCKET);
    faults_plan(FAULT_SEND, 1, FOR_EVER, EINTR);
    post_sequence(line->poster, 0, POSTS);
    run_until(f, faults_made(FAULT_SEND) > 0);
    assert_int_equal(evzmq_socket_get_queued(line->out.socket, NULL), 0);
    assert_int_equal(evzmq_poster_get_queued(line->poster, NULL), POSTS - 1);
    assert_int_equal(poster_stats(line->poster).handed_over, 1);
}

static void a_post_that_could_not_be_sent_is_dropped_with_the_rest_by_a_free(void **state)
{
    struct fixture *const f = *state;
    struct line line;

    open_held(f, &line);
    probe_free(&line.out);
    faults_end();
    assert_int_equal(poster_stats(line.poster).handed_over, 0);
    assert_int_equal(poster_stats(line.poster).dropped, POSTS);
    close_line(&line);
}

static void a_post_that_could_not_be_sent_goes_before_the_rest_in_a_shutdown(void **state)
{
    struct fixture *const f = *state;
    struct line line;

    open_held(f, &line);
    assert_ok(evzmq_socket_shutdown(line.out.socket, NULL, NULL, NULL));
    faults_end();
    run_until(f, line.in.reads == POSTS);
    assert_int_equal(poster_stats(line.poster).handed_over, POSTS);
    assert_int_equal(poster_stats(line.poster).dropped, 0);
    close_line(&line);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_post_that_could_not_be_sent_is_dropped_with_the_rest_by_a_free),
        claim(a_post_that_could_not_be_sent_goes_before_the_rest_in_a_shutdown),
    };

    return run_claims(tests);
}
