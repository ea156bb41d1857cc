/**
 * @file python.c
 * See python.h. The peer ends with the test: by itself, by its own alarm, or with the test process.
 */
#include "python.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "child.h"

static const char *interpreter(void)
{
    const char *const chosen = getenv("EVZMQ_TEST_PYTHON");

    return chosen == NULL ? "/usr/bin/python3" : chosen;
}

static pid_t launch(const char *const arguments[], int *out_output)
{
    int ends[2];
    pid_t pid = 0;

    assert_int_equal(pipe(ends), 0);
    pid = quiet_fork();
    assert_true(pid >= 0);
    if (pid == 0) {
#if defined(__linux__)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execv(arguments[0], (char *const *)arguments);
        _exit(127);
    }
    (void)close(ends[1]);
    *out_output = ends[0];
    return pid;
}

static int wait_for(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    return status;
}

/* Whether there is a Python with what the peer imports; asked once. */
static int is_installed(void)
{
    static int known = -1;

    if (known < 0) {
        const char *const arguments[] = {interpreter(), "-c",
                                         "try:\n    import zmq, msgpack\n"
                                         "except ImportError:\n    raise SystemExit(1)",
                                         NULL};
        int output = -1;
        const pid_t pid = launch(arguments, &output);

        known = wait_for(pid) == 0;
        (void)close(output);
    }
    return known;
}

void python_start(struct fixture *f, struct python *p, const char *role, const char *endpoint)
{
    const char *const arguments[] = {interpreter(), EVZMQ_TESTS_DIR "/interop/peer.py", role,
                                     endpoint,      EVZMQ_TESTS_DIR "/vectors",         NULL};

    p->f = f;
    p->pid = launch(arguments, &p->output);
    assert_string_equal(python_line(p), "ready");
}

void python_skip_unless_installed(void)
{
    if (!is_installed()) {
        print_message("%s with the modules zmq and msgpack is not installed\n", interpreter());
        skip();
    }
}

/* Waits, turning the loop, until there is something to read from the peer, or its end. */
static void pump(const struct python *p)
{
    struct pollfd item = {p->output, POLLIN, 0};

    do {
        fixture_glance(p->f);
    } while (poll(&item, 1, 1) <= 0);
}

const char *python_line(struct python *p)
{
    size_t used = 0;

    for (;;) {
        char c = '\0';

        pump(p);
        if (read(p->output, &c, 1) <= 0 || c == '\n') {
            p->line[used] = '\0';
            return p->line;
        }
        if (used + 1 < sizeof p->line) {
            p->line[used++] = c;
        }
    }
}

void python_finish(struct python *p)
{
    assert_string_equal(python_line(p), "ok");
    pump(p); /* Its end closes the pipe. */
    (void)close(p->output);
    assert_int_equal(wait_for(p->pid), 0);
}
