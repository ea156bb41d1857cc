/**
 * @file child.c
 * See child.h. A child that outlives its test is ended by an alarm of its own.
 */
#include "child.h"

#include "support.h"

#include <dirent.h>
#include <grp.h>
#include <sched.h>
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
#if defined(__linux__)
    /* One that is stopped when its test fails gets no alarm, and would keep the test's output. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

#if defined(__linux__)
/* Whether a thread of this process sleeps (or is gone). */
static int sleeps(const char *thread)
{
    char path[64];
    char text[256];
    FILE *file = NULL;
    const char *state = NULL;
    size_t size = 0;

    (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
    file = fopen(path, "r");
    if (file == NULL) {
        return 1;
    }
    size = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[size] = '\0';
    state = strrchr(text, ')'); /* What stands before it is a name of any characters. */
    return state == NULL || strncmp(state, ") S", 3) == 0;
}

static int others_sleep(void)
{
    DIR *const threads = opendir("/proc/self/task");
    const struct dirent *thread = NULL;
    int asleep = 1;

    while (threads != NULL && asleep && (thread = readdir(threads)) != NULL) {
        if (thread->d_name[0] != '.' && strtol(thread->d_name, NULL, 10) != getpid()) {
            asleep = sleeps(thread->d_name);
        }
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    return asleep;
}
#endif

pid_t quiet_fork(void)
{
#if defined(__linux__)
    /* A thread that goes on working is the test's own. */
    for (int tries = 0; tries < 2000 && !others_sleep(); tries++) {
        (void)sched_yield();
    }
#endif
    return fork();
}

pid_t child_fork(void)
{
    const pid_t child = quiet_fork();

    if (child == 0) {
        fixture_watch_child();
    }
    return child;
}

int child_wait(pid_t child)
{
    int status = 0;

    fixture_waits_at(WAIT_PLACE(__LINE__, "waitpid"));
    while (waitpid(child, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    fixture_waits_at(NULL);
    return status;
}

static void run_as(void (*function)(void *arg), void *arg, uid_t user)
{
    const pid_t child = child_fork();

    assert_true(child >= 0);
    if (child == 0) {
        begin();
        if (user != getuid()) {
            child_check(setgroups(0, NULL) == 0 && setgid(user) == 0 && setuid(user) == 0);
        }
        function(arg);
        _exit(0);
    }
    assert_int_equal(child_wait(child), 0);
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
    child = child_fork();
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

void *child_bind_pull(void *context)
{
    void *const pull = zmq_socket(context, ZMQ_PULL);
    const int one = 1;
    char endpoint[ENDPOINT_SIZE];
    size_t size = sizeof endpoint;

    child_check(zmq_setsockopt(pull, ZMQ_RCVHWM, &one, sizeof one) == 0);
    child_check(zmq_bind(pull, "tcp://127.0.0.1:*") == 0);
    child_check(zmq_getsockopt(pull, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0);
    child_ready(endpoint);
    return pull;
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
    (void)child_wait(child);
}
