/**
 * @file line.c
 * See line.h.
 */
#include "line.h"

#include <sched.h>
#include <string.h>

void open_line_over(struct fixture *f, struct line *line, enum transport transport,
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

void open_line(struct fixture *f, struct line *line, size_t messages_max, size_t bytes_max)
{
    open_line_over(f, line, TRANSPORT_INPROC, messages_max, bytes_max);
}

void close_line(struct line *line)
{
    if (line->out.socket != NULL) {
        probe_free(&line->out);
    }
    probe_free(&line->in);
    evzmq_poster_free(line->poster);
}

struct evzmq_poster_stats poster_stats(struct evzmq_poster *poster)
{
    struct evzmq_poster_stats stats = {.size = sizeof stats};

    assert_ok(evzmq_poster_get_stats(poster, &stats));
    return stats;
}

void post_sequence(struct evzmq_poster *poster, uint64_t first, uint64_t count)
{
    for (uint64_t number = first; number < first + count; number++) {
        assert_ok(evzmq_poster_post(poster, &number, sizeof number));
    }
}

void *post_job(void *arg)
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

void start_jobs(struct job jobs[THREADS], struct evzmq_poster *poster, uint32_t count)
{
    for (uint32_t i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){
            .poster = evzmq_poster_ref(poster), .number = i, .count = count, .posted = 0};
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, post_job, &jobs[i]), 0);
    }
}

void join_jobs(struct job jobs[THREADS])
{
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(jobs[i].thread, NULL), 0);
    }
}

void read_ordered(struct probe *p, struct evzmq_message *message)
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
