/**
 * @file crew.h
 * A pool under test, and its workers: the test program, which runs itself again as a worker.
 *
 * A test file that uses this begins its main() with crew_main(), which does not return in a worker.
 */
#ifndef TESTS_SUPPORT_CREW_H
#define TESTS_SUPPORT_CREW_H

#include "support.h"

#include <sys/types.h>

enum { CREW_MAX = 128 };

/** A pool, its context, and what its callbacks saw. */
struct crew {
    struct fixture *f;
    struct evzmq_context *context;
    struct evzmq_pool *pool; /* NULL once freed */
    char directory[128]; /* where the context makes its own */

    size_t answers;
    size_t answers_of[CREW_MAX];
    size_t events[EVZMQ_POOL_EVENT_ERROR + 1]; /* by type */
    struct evzmq_pool_event last; /* its message is gone */
    struct evzmq_pool_event last_loss;
    char answer[4096]; /* the latest, its parts joined by '|', without the header */
    unsigned answer_worker;

    int ready_done; /* what the ready check told */
    int ready_error;
    unsigned ready_count;
    int ended; /* what the shutdown told */
    struct evzmq_pool_report report;

    void (*on_answer)(struct crew *crew, unsigned worker, struct evzmq_message *message);
    void (*on_event)(struct crew *crew, const struct evzmq_pool_event *event);
    void *arg; /* the test's own */
};

/**
 * In a worker: works and exits. The second argument says how:
 *
 *     echo     answers what it is asked, except for: "exit N", "kill", "stop", "mute" (no answer),
 *              "twice" (an answer and another one), "parts" (a, b), "pid", "big N" (N bytes),
 *              "busy N" (works for N milliseconds outside its loop)
 *     deaf     as echo, but neither the word to end nor SIGTERM ends it
 *     fail     exits with 1, at once
 *     asleep   never connects
 *     late     as echo, but answers what it was asked only when it is to end
 */
void crew_main(int argc, char **argv);

/** Options for workers of a kind: crew_options("echo"). */
struct evzmq_pool_options crew_options(const char *kind);

/** Makes context and pool; the test fails when that fails. */
void crew_open(struct fixture *f, struct crew *crew, unsigned n_workers,
               const struct evzmq_pool_options *options);

/** Makes the context only. */
void crew_open_context(struct fixture *f, struct crew *crew);

/** Waits until all workers are ready. */
void crew_wait_ready(struct crew *crew);

/** Shuts the pool down and waits for the report. */
void crew_shutdown(struct crew *crew, int deadline_ms);

/** Frees pool and context, and checks that no child and no file is left. */
void crew_close(struct crew *crew);

/** Sends text to a worker, or EVZMQ_POOL_NEXT. Returns who got it. */
unsigned crew_send(struct crew *crew, unsigned worker, const char *text);

struct evzmq_pool_stats crew_stats(const struct crew *crew);
struct evzmq_pool_worker_stats crew_worker_stats(const struct crew *crew, unsigned worker);
pid_t crew_pid(const struct crew *crew, unsigned worker);
/* Until libzmq has all that was sent: a worker may be ready before libzmq has the way to it, and
 * what is sent then waits in its queue. */
void crew_hand_over(struct crew *crew);

/** Callbacks that do what is said above. */
void crew_note_ready(struct evzmq_pool *pool, unsigned ready, int error, void *arg);
void crew_note_end(struct evzmq_pool *pool, const struct evzmq_pool_report *report, void *arg);

/** The endpoint that a worker's connection string has under a name: requests, responses, ready. */
void crew_endpoint(const struct crew *crew, unsigned worker, const char *name,
                   char out[ENDPOINT_SIZE]);

/** How many entries a directory has; -1 when it is not there. */
int crew_count_entries(const char *path);

/** Fails the test when there is a child that was not reaped. */
void crew_assert_no_child(void);

/** Ends a forked child with status 0, by way of another program: what a child abandons on purpose
 * would be taken for leaks at its exit. */
void crew_leave_child(void);

/** Whether a process exists, as anything but a zombie. */
int crew_process_lives(pid_t pid);

/** Monotonic milliseconds. */
long long crew_now_ms(void);

#endif /* TESTS_SUPPORT_CREW_H */
