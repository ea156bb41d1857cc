/**
 * @file test_process.c
 * Child processes, with process file descriptors and without: the linker has the library's
 * syscall() end here.
 */
#include "process.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "crew.h"

static int without_descriptors; /* As on a system that has none. */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
    long values[4];
    va_list arguments;

    if (without_descriptors) {
        errno = ENOSYS;
        return -1;
    }
    va_start(arguments, number);
    for (int i = 0; i < 4; i++) {
        values[i] = va_arg(arguments, long);
    }
    va_end(arguments);
    return __real_syscall(number, values[0], values[1], values[2], values[3]);
}

static void start_shell(struct evzmq__process *process, char *script)
{
    char *const argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, script, NULL};

    assert_ok(evzmq__process_start(process, argv));
    assert_true(process->pid > 0);
    assert_true(!without_descriptors || process->fd < 0);
}

static void check_ends(void)
{
    struct evzmq__process process = {.fd = -1};
    char script[] = "exit 7";
    char forever[] = "while :; do :; done";

    start_shell(&process, script);
    assert_true(evzmq__process_wait(&process, 30000));
    assert_false(process.signalled);
    assert_int_equal(process.status, 7);
    assert_int_equal(process.pid, 0);
    evzmq__process_signal(&process, SIGKILL); /* Nobody is there. */
    evzmq__process_close(&process);

    start_shell(&process, forever);
    assert_false(evzmq__process_reap(&process));
    assert_false(evzmq__process_wait(&process, 20));
    evzmq__process_signal(&process, SIGKILL);
    assert_true(evzmq__process_wait(&process, 30000));
    assert_true(process.signalled);
    assert_int_equal(process.status, SIGKILL);
    evzmq__process_close(&process);
    evzmq__process_close(&process);
    crew_assert_no_child();
}

static void a_process_is_started_signalled_waited_for_and_reaped(void **state)
{
    (void)state;
    check_ends();
}

static void the_same_without_process_descriptors(void **state)
{
    (void)state;
    without_descriptors = 1;
    check_ends();
    without_descriptors = 0;
}

static void what_cannot_be_started_is_an_error_and_leaves_no_child(void **state)
{
    struct evzmq__process process = {.fd = -1, .status = 5};
    char *const missing[] = {(char[]){"/nonexistent"}, NULL};
    char *const directory[] = {(char[]){"/"}, NULL};

    (void)state;
    assert_errno(evzmq__process_start(&process, missing), ENOENT);
    assert_errno(evzmq__process_start(&process, directory), EACCES);
    assert_int_equal(process.status, 5);
    crew_assert_no_child();
}

static void a_child_that_somebody_else_reaped_has_ended_without_a_status(void **state)
{
    struct evzmq__process process = {.fd = -1};
    char script[] = "exit 7";
    int status = 0;

    (void)state;
    start_shell(&process, script);
    assert_true(waitpid(-1, &status, 0) > 0);
    evzmq__process_signal(&process, SIGKILL); /* Harms no process that has the number now. */
    assert_true(evzmq__process_reap(&process));
    assert_int_equal(process.status, -1);
    evzmq__process_close(&process);
}

static void another_child_that_has_the_number_of_a_reaped_one_is_left_alone(void **state)
{
    struct evzmq__process process = {.fd = -1};
    char script[] = "exit 7";
    int status = 0;
    pid_t other = 0;

    (void)state;
    start_shell(&process, script);
    if (process.fd < 0) {
        evzmq__process_wait(&process, 30000);
        skip(); /* Without such a descriptor the two cannot be told apart. */
    }
    assert_true(waitpid(process.pid, &status, 0) > 0);
    other = quiet_fork();
    if (other == 0) {
        _exit(5);
    }
    process.pid = other; /* As if the system had given the number again. */
    assert_true(evzmq__process_reap(&process));
    assert_int_equal(process.status, -1);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(WEXITSTATUS(status), 5);
    evzmq__process_close(&process);
}

static void no_signal_is_blocked_in_a_child(void **state)
{
    struct evzmq__process process = {.fd = -1};
    char script[] = "kill -TERM $$; exit 1";
    sigset_t all;
    sigset_t before;

    (void)state;
    (void)sigfillset(&all);
    assert_int_equal(sigprocmask(SIG_SETMASK, &all, &before), 0);
    start_shell(&process, script);
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    assert_true(evzmq__process_wait(&process, 30000));
    assert_true(process.signalled);
    assert_int_equal(process.status, SIGTERM);
    evzmq__process_close(&process);
}

static void sigterm_ends_a_child_also_of_a_program_that_ignores_it(void **state)
{
    struct evzmq__process process = {.fd = -1};
    char script[] = "kill -TERM $$; exit 0";

    (void)state;
    assert_true(signal(SIGTERM, SIG_IGN) != SIG_ERR);
    start_shell(&process, script);
    assert_true(signal(SIGTERM, SIG_DFL) != SIG_ERR);
    assert_true(evzmq__process_wait(&process, 30000));
    assert_true(process.signalled);
    assert_int_equal(process.status, SIGTERM);
    evzmq__process_close(&process);
}

static void a_pool_notices_losses_without_process_descriptors(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    without_descriptors = 1;
    options.restarts_max = 1;
    options.restart_delay_ms = 10;
    crew_open(f, &crew, 2, &options);
    crew_wait_ready(&crew);
    crew_send(&crew, 0, "exit 3");
    run_until(f, crew.events[EVZMQ_POOL_EVENT_LOST] == 1);
    assert_int_equal(crew.last_loss.worker, 0);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_EXITED);
    assert_int_equal(crew.last_loss.status, 3);
    run_until(f, crew_stats(&crew).up == 2);
    crew_shutdown(&crew, 20000);
    assert_int_equal(crew.report.exited, 2);
    crew_close(&crew);
    without_descriptors = 0;
}

int main(int argc, char **argv)
{
    crew_main(argc, argv);
    const struct CMUnitTest tests[] = {
        claim(a_process_is_started_signalled_waited_for_and_reaped),
        claim(the_same_without_process_descriptors),
        claim(what_cannot_be_started_is_an_error_and_leaves_no_child),
        claim(a_child_that_somebody_else_reaped_has_ended_without_a_status),
        claim(another_child_that_has_the_number_of_a_reaped_one_is_left_alone),
        claim(no_signal_is_blocked_in_a_child),
        claim(sigterm_ends_a_child_also_of_a_program_that_ignores_it),
        claim(a_pool_notices_losses_without_process_descriptors),
    };

    return run_claims(tests);
}
