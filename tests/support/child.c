/**
 * @file child.c
 * See child.h. A child that outlives its test is ended by an alarm of its own.
 */
#include "child.h"

#include "support.h"

#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include <sys/wait.h>

/* In a child of child_start(): where it says that it is ready. */
static int ready_descriptor = -1;

static void begin(void)
{
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(50);
#if defined(__linux__)
    /* One that is stopped when its test fails gets no alarm, and would keep the test's output. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

static int wait_for(pid_t child)
{
    int status = 0;

    while (waitpid(child, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    return status;
}

static void run_as(void (*function)(void *arg), void *arg, uid_t user)
{
    const pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        begin();
        if (user != getuid()) {
            child_check(setgroups(0, NULL) == 0 && setgid(user) == 0 && setuid(user) == 0);
        }
        function(arg);
        _exit(0);
    }
    assert_int_equal(wait_for(child), 0);
}

void child_run(void (*function)(void *arg), void *arg)
{
    run_as(function, arg, getuid());
}

void child_run_as_other(void (*function)(void *arg), void *arg)
{
    if (geteuid() != 0) {
        print_message("only root can be two users\n");
        skip();
    }
    run_as(function, arg, CHILD_OTHER_USER);
}

pid_t child_start(void (*function)(void *arg), void *arg, char out_text[256])
{
    int ends[2];
    pid_t child = 0;
    ssize_t got = 0;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        begin();
        (void)close(ends[0]);
        ready_descriptor = ends[1];
        function(arg);
        _exit(0);
    }
    (void)close(ends[1]);
    do {
        got = read(ends[0], out_text, 255);
    } while (got < 0 && errno == EINTR);
    (void)close(ends[0]);
    assert_true(got > 0);
    out_text[got] = '\0';
    return child;
}

void child_ready(const char *text)
{
    child_check(write(ready_descriptor, text, strlen(text) + 1) > 0);
    (void)close(ready_descriptor);
}

void child_sleep(void)
{
    for (;;) {
        (void)pause();
    }
}

void child_kill(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    (void)wait_for(child);
}
