/*
 * process.h (L6): child processes: starting them, noticing their end on the loop, signalling and
 * reaping them.
 *
 * Only the children started here are reaped, each by its own process id, and SIGCHLD is left to the
 * program. Where the system has process file descriptors (Linux from 5.3), one per child becomes
 * readable when the child ends, so that nothing polls; elsewhere the owner asks now and then.
 */
#ifndef EVZMQ_PLUGIN_PROCESS_H
#define EVZMQ_PLUGIN_PROCESS_H

#include <stdbool.h>

#include <sys/types.h>

struct evzmq__process {
    pid_t pid; /* 0: none, or reaped */
    int fd; /* readable when the process has ended; -1 where there is no such thing */
    bool signalled; /* a signal ended it: status is the signal, else the exit status */
    int status; /* once it has ended; -1 when somebody else reaped it */
};

/* Starts a program, with no signal blocked. argv[0] is its path. Returns 0, or -1 with the error of
 * posix_spawn(); the process is unchanged then. */
int evzmq__process_start(struct evzmq__process *process, char *const argv[]);

/* Whether the process has ended; reaps it then, and sets pid to 0. Does not wait. The fd stays open
 * until evzmq__process_close(). */
bool evzmq__process_reap(struct evzmq__process *process);

/* Waits for the end of the process, for this long at most. Returns whether it has ended. */
bool evzmq__process_wait(struct evzmq__process *process, unsigned wait_ms);

/* Sends a signal to a process that has not been reaped; otherwise does nothing. */
void evzmq__process_signal(const struct evzmq__process *process, int signal_number);

/* Closes the fd. */
void evzmq__process_close(struct evzmq__process *process);

/* Opens a file descriptor, closed on exec, that becomes readable when a process ends. -1 with
 * ESRCH (no such process), ENOSYS (the system has none) or other errors. */
int evzmq__process_open(pid_t pid);

#endif /* EVZMQ_PLUGIN_PROCESS_H */
