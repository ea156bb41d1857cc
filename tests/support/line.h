/**
 * @file line.h
 * Two adapters on one base, a poster for the one that sends, and threads that post.
 */
#ifndef TESTS_SUPPORT_LINE_H
#define TESTS_SUPPORT_LINE_H

#include "support.h"

#include <pthread.h>

enum { THREADS = 8 };

/* A socket with a poster, and a receiving socket on the same base. */
struct line {
    struct fixture *f;
    struct probe out;
    struct probe in;
    struct evzmq_poster *poster;
};

/* What one posting thread does and finds. Threads must not use cmocka's assertions. */
struct job {
    pthread_t thread;
    struct evzmq_poster *poster;
    uint32_t number;
    uint32_t count; /* 0: until the end */
    uint64_t posted;
    int error; /* what ended it; 0: all were posted */
};

/* Limits as evzmq_poster_new() has them; 0: the defaults. The receiving end is enabled. */
void open_line_over(struct fixture *f, struct line *line, enum transport transport,
                    size_t messages_max, size_t bytes_max);
void open_line(struct fixture *f, struct line *line, size_t messages_max, size_t bytes_max);
/* The sending end may have been freed before. */
void close_line(struct line *line);
struct evzmq_poster_stats poster_stats(struct evzmq_poster *poster);
/* Posts numbers, which read_sequence() reads. */
void post_sequence(struct evzmq_poster *poster, uint64_t first, uint64_t count);
/* The body of a posting thread. It gives back its reference at the end. */
void *post_job(void *arg);
/* Posts `count` records in each of THREADS threads; 0: until a post fails. */
void start_jobs(struct job jobs[THREADS], struct evzmq_poster *poster, uint32_t count);
void join_jobs(struct job jobs[THREADS]);
/* The next number from each thread; arg of the receiving probe. */
void read_ordered(struct probe *p, struct evzmq_message *message);

#endif /* TESTS_SUPPORT_LINE_H */
