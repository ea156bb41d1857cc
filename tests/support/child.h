/**
 * @file child.h
 * Forked children of a test: processes of their own that hold a path, die or belong to another
 * user.
 */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <errno.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/** cmocka's assertions would go on with the parent's tests in the child: say it and leave. */
#define child_check(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "child, %s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, \
                          errno);                                                                  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/** A call that fails because its object is the parent's. */
#define child_refused(call)                                                                        \
    do {                                                                                           \
        errno = 0;                                                                                 \
        child_check((call) == -1 && errno == ECHILD);                                              \
    } while (0)

/** A user who is neither root nor whoever runs the tests. */
#define CHILD_OTHER_USER 65534

/* fork(), once every other thread of this process sleeps. A child has no other threads, and a lock
 * that one of them held stays locked in it: the C library takes care of malloc's own, but
 * AddressSanitizer of gcc 12 does not of its own, and a libzmq thread that starts allocates. */
pid_t quiet_fork(void);

/* The same for a child that becomes no other program. It gets a watchdog. */
pid_t child_fork(void);

/* Waits for a child's end. Returns its status as waitpid() has it. */
int child_wait(pid_t child);

/* Runs a function in a child, which exits with 0 when it returns; fails the test otherwise. */
void child_run(void (*function)(void *arg), void *arg);

/* The same as another user; skips the test where that cannot be. */
void child_run_as_other(void (*function)(void *arg), void *arg);

/* Starts a child and waits until it calls child_ready(), with a text of at most 255 bytes. It ends
 * by itself when its function returns, or by child_kill(). */
pid_t child_start(void (*function)(void *arg), void *arg, char out_text[256]);
void child_ready(const char *text);
/* In such a child: a PULL at a tcp port with the smallest mark; its endpoint is the text. */
void *child_bind_pull(void *context);
void child_sleep(void); /* Until it is killed. */
void child_kill(pid_t child);

#endif /* TESTS_CHILD_H */
