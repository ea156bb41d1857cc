/*
 * process.c (L6): see process.h.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* syscall() */
#endif
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

/* Handed on to what is started, never looked at. */
#if defined(__APPLE__)
#include <crt_externs.h>
#define environ (*_NSGetEnviron()) /* A shared library may not link with the variable there. */
#else
extern char **environ;
#endif

int evzmq__process_open(pid_t pid)
{
#if defined(__linux__) && defined(SYS_pidfd_open)
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0u); /* it is closed on exec */
    /* Nobody reads it; libevent's debug mode insists. */
    if (fd >= 0) {
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    return fd;
#else
    (void)pid;
    errno = ENOSYS;
    return -1;
#endif
}

/* Whether a path is that of a program. Returns 0 or an errno value. posix_spawn(3) says so too, but
 * it may also start a process that ends with status 127, which looks like a program that failed. */
static int check_program(const char *path)
{
    struct stat status;
    if (stat(path, &status) < 0 || access(path, X_OK) < 0) {
        return errno;
    }
    return S_ISREG(status.st_mode) ? 0 : EACCES;
}

/* Returns 0 or an errno value. */
static int start(pid_t *out_pid, char *const argv[])
{
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t ends; /* An ignored signal stays so in a child, and this one asks it to end. */
    int error = check_program(argv[0]);
    if (error == 0) {
        error = posix_spawnattr_init(&attributes);
    }
    if (error != 0) {
        return error;
    }
    (void)sigemptyset(&none);
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    error = posix_spawnattr_setsigmask(&attributes, &none);
    if (error == 0) {
        error = posix_spawnattr_setsigdefault(&attributes, &ends);
    }
    if (error == 0) {
        const short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
        error = posix_spawnattr_setflags(&attributes, flags);
    }
    if (error == 0) {
        error = posix_spawn(out_pid, argv[0], NULL, &attributes, argv, environ);
    }
    (void)posix_spawnattr_destroy(&attributes);
    return error;
}

int evzmq__process_start(struct evzmq__process *process, char *const argv[])
{
    pid_t pid = 0;
    const int error = start(&pid, argv);
    if (error != 0) {
        errno = error;
        return -1;
    }
    /* A child keeps its process id until it is reaped, so this cannot be another process. */
    *process = (struct evzmq__process){.pid = pid, .fd = evzmq__process_open(pid)};
    return 0;
}

/* Reaps the process if it has ended: then si_pid is set. Returns 0, or -1 with errno. */
static int wait_for(const struct evzmq__process *process, siginfo_t *out_end)
{
    const int options = WEXITED | WNOHANG;
    int result = -1;
#if defined(__linux__)
    /* Where somebody else has reaped the process, its id may be that of another child by now, whose
     * end is none of our business. Linux before 5.4 does not wait this way. */
    if (process->fd >= 0) {
        const idtype_t by_fd = (idtype_t)3; /* P_PIDFD, which not every C library has */
        do {
            result = waitid(by_fd, (id_t)process->fd, out_end, options);
        } while (result < 0 && errno == EINTR);
        if (result == 0 || errno == ECHILD) {
            return result;
        }
    }
#endif
    do {
        result = waitid(P_PID, (id_t)process->pid, out_end, options);
    } while (result < 0 && errno == EINTR);
    return result;
}

bool evzmq__process_reap(struct evzmq__process *process)
{
    if (process->pid == 0) {
        return true;
    }
    siginfo_t end = {.si_pid = 0};
    const int result = wait_for(process, &end);
    if (result == 0 && end.si_pid == 0) {
        return false;
    }
    process->pid = 0;
    /* ECHILD: the program ignores SIGCHLD or waits for every child; what became of this one is not
     * to be learned. */
    process->signalled = result == 0 && end.si_code != CLD_EXITED;
    process->status = result == 0 ? end.si_status : -1;
    return true;
}

static unsigned elapsed_ms(const struct timespec *since)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const long long ns =
        (long long)(now.tv_sec - since->tv_sec) * 1000000000 + (now.tv_nsec - since->tv_nsec);
    return (unsigned)(ns / 1000000);
}

bool evzmq__process_wait(struct evzmq__process *process, unsigned wait_ms)
{
    enum { ROUND_MS = 5 }; /* where there is no fd to wait for */
    struct timespec start_time;
    (void)clock_gettime(CLOCK_MONOTONIC, &start_time);
    for (;;) {
        if (evzmq__process_reap(process)) {
            return true;
        }
        const unsigned elapsed = elapsed_ms(&start_time);
        if (elapsed >= wait_ms) {
            return false;
        }
        struct pollfd watch = {.fd = process->fd, .events = POLLIN};
        const bool has_fd = process->fd >= 0;
        const unsigned round = has_fd ? wait_ms - elapsed : ROUND_MS;
        (void)poll(&watch, has_fd ? 1 : 0, (int)round);
    }
}

void evzmq__process_signal(const struct evzmq__process *process, int signal_number)
{
    if (process->pid == 0) {
        return;
    }
#if defined(__linux__) && defined(SYS_pidfd_send_signal)
    /* Right even where somebody else has reaped the process and its id is in use again. */
    if (process->fd >= 0 &&
        (syscall(SYS_pidfd_send_signal, process->fd, signal_number, NULL, 0u) == 0 ||
         errno == ESRCH)) {
        return;
    }
#endif
    (void)kill(process->pid, signal_number);
}

void evzmq__process_close(struct evzmq__process *process)
{
    if (process->fd >= 0) {
        (void)close(process->fd);
        process->fd = -1;
    }
}
