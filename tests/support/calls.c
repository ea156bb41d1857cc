/*
 * calls.c: see calls.h.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "support.h"

#include "faults.h"

enum { CALLS_MAX = 200, ERRORS_MAX = 4, NAME_SIZE = 40 };

static struct {
    char name[NAME_SIZE];
    int errors[ERRORS_MAX];
    size_t noted; /* in the scenario */
    bool was_noted; /* in any */
} calls[CALLS_MAX];
static size_t call_count;

static int number_of(const char *name)
{
    static const struct {
        const char *name;
        int error;
    } errors[] = {{"EACCES", EACCES}, {"EAGAIN", EAGAIN}, {"EFAULT", EFAULT}, {"EINTR", EINTR},
                  {"EINVAL", EINVAL}, {"EIO", EIO},       {"EMFILE", EMFILE}, {"ENFILE", ENFILE},
                  {"ENOLCK", ENOLCK}, {"ENOMEM", ENOMEM}, {"ENOSPC", ENOSPC}, {"ENOSYS", ENOSYS},
                  {"EPERM", EPERM},   {"ETERM", ETERM}};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (strcmp(errors[i].name, name) == 0) {
            return errors[i].error;
        }
    }
    fail_msg("calls.txt: no error is called %s", name);
    return 0;
}

static void load_line(char *line)
{
    char *rest = NULL;
    const char *const name = strtok_r(line, " \n", &rest);
    if (name == NULL || name[0] == '#') {
        return;
    }
    assert_true(call_count < CALLS_MAX && strlen(name) < NAME_SIZE);
    memcpy(calls[call_count].name, name, strlen(name) + 1);
    size_t count = 0;
    for (const char *word; (word = strtok_r(NULL, " \n", &rest)) != NULL && word[0] == 'E';) {
        assert_true(count < ERRORS_MAX);
        calls[call_count].errors[count++] = number_of(word);
    }
    call_count++;
}

void calls_load(void)
{
    char line[256];
    for (size_t i = 0; i < call_count; i++) {
        calls[i].noted = 0;
    }
    if (call_count > 0) {
        return;
    }
    FILE *const file = fopen(EVZMQ_TESTS_DIR "/support/calls.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        load_line(line);
    }
    (void)fclose(file);
}

static size_t find(const char *name)
{
    size_t i = 0;
    while (i < call_count && strcmp(calls[i].name, name) != 0) {
        i++;
    }
    return i;
}

int calls_error(const char *name, size_t index)
{
    const size_t i = find(name);
    return i < call_count && index < ERRORS_MAX ? calls[i].errors[index] : 0;
}

size_t calls_note(const char *name)
{
    const size_t i = find(name);
    if (i == call_count) {
        return 0;
    }
    calls[i].was_noted = true;
    return ++calls[i].noted;
}

const char *calls_unnoted(void)
{
    for (size_t i = 0; i < call_count; i++) {
        if (calls[i].errors[0] != 0 && !calls[i].was_noted) {
            return calls[i].name;
        }
    }
    return NULL;
}

/* One __wrap_ function: what it returns when it fails, its parameters, and these as arguments. */
#define WRAP(type, name, failure, parameters, arguments)                                           \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return faults_pass(FAULT_CALL, #name) ? __real_##name arguments : (failure);               \
    }

WRAP(int, zmq_bind, -1, (void *socket, const char *endpoint), (socket, endpoint))
WRAP(int, zmq_connect, -1, (void *socket, const char *endpoint), (socket, endpoint))
WRAP(int, zmq_ctx_get, -1, (void *context, int option), (context, option))
WRAP(int, zmq_ctx_set, -1, (void *context, int option, int value), (context, option, value))
WRAP(int, zmq_ctx_term, -1, (void *context), (context))
WRAP(void *, zmq_ctx_new, NULL, (void), ())
WRAP(void *, zmq_socket, NULL, (void *context, int type), (context, type))
WRAP(int, zmq_socket_monitor, -1, (void *socket, const char *endpoint, int events),
     (socket, endpoint, events))
WRAP(int, zmq_poll, -1, (zmq_pollitem_t * items, int count, long timeout), (items, count, timeout))

WRAP(int, access, -1, (const char *path, int mode), (path, mode))
WRAP(int, chmod, -1, (const char *path, mode_t mode), (path, mode))
WRAP(int, connect, -1, (int fd, const struct sockaddr *address, socklen_t size),
     (fd, address, size))
WRAP(int, eventfd, -1, (unsigned value, int flags), (value, flags))
WRAP(DIR *, fdopendir, NULL, (int fd), (fd))
WRAP(int, flock, -1, (int fd, int operation), (fd, operation))
WRAP(int, fstat, -1, (int fd, struct stat *out), (fd, out))
WRAP(int, fstatat, -1, (int fd, const char *path, struct stat *out, int flags),
     (fd, path, out, flags))
WRAP(int, lstat, -1, (const char *path, struct stat *out), (path, out))
WRAP(int, stat, -1, (const char *path, struct stat *out), (path, out))
WRAP(char *, mkdtemp, NULL, (char *path), (path))
WRAP(DIR *, opendir, NULL, (const char *path), (path))
WRAP(int, poll, -1, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
WRAP(ssize_t, read, -1, (int fd, void *data, size_t size), (fd, data, size))
WRAP(ssize_t, write, -1, (int fd, const void *data, size_t size), (fd, data, size))
WRAP(char *, realpath, NULL, (const char *path, char *out), (path, out))
WRAP(int, rmdir, -1, (const char *path), (path))
WRAP(int, socket, -1, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(int, unlink, -1, (const char *path), (path))
WRAP(int, unlinkat, -1, (int fd, const char *path, int flags), (fd, path, flags))

WRAP(int, getrlimit, -1, (int resource, struct rlimit *out), (resource, out))
WRAP(int, kill, -1, (pid_t pid, int number), (pid, number))
WRAP(int, waitid, -1, (idtype_t type, id_t id, siginfo_t *out, int options),
     (type, id, out, options))
WRAP(int, pthread_mutex_init, errno,
     (pthread_mutex_t * mutex, const pthread_mutexattr_t *attributes), (mutex, attributes))
WRAP(int, posix_spawn, errno,
     (pid_t * out, const char *path, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *attributes, char *const *argv, char *const *environment),
     (out, path, actions, attributes, argv, environment))
WRAP(int, posix_spawnattr_init, errno, (posix_spawnattr_t * attributes), (attributes))
WRAP(int, posix_spawnattr_setflags, errno, (posix_spawnattr_t * attributes, short flags),
     (attributes, flags))
WRAP(int, posix_spawnattr_setsigdefault, errno,
     (posix_spawnattr_t * attributes, const sigset_t *set), (attributes, set))
WRAP(int, posix_spawnattr_setsigmask, errno, (posix_spawnattr_t * attributes, const sigset_t *set),
     (attributes, set))

/* With further arguments, of which these read as many as there may be. */
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, mode_t mode);
int __real_openat(int fd, const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, mode_t mode);
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, long argument);
int __real_prctl(int option, ...);
int __wrap_prctl(int option, unsigned long argument);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, long one, long two, long three, long four);

/* Other threads of a program may start processes at any time: these must not get our descriptors.
 * Calls of the test itself are not counted. */
static bool pass_open(const char *name, int flags)
{
    const size_t before = faults_count(FAULT_CALL);
    const bool passes = faults_pass(FAULT_CALL, name);
    assert_true((flags & O_CLOEXEC) != 0 || faults_count(FAULT_CALL) == before);
    return passes;
}

int __wrap_open(const char *path, int flags, mode_t mode)
{
    return pass_open("open", flags) ? __real_open(path, flags, mode) : -1;
}

int __wrap_openat(int fd, const char *path, int flags, mode_t mode)
{
    return pass_open("openat", flags) ? __real_openat(fd, path, flags, mode) : -1;
}

int __wrap_fcntl(int fd, int command, long argument)
{
    return faults_pass(FAULT_CALL, "fcntl") ? __real_fcntl(fd, command, argument) : -1;
}

int __wrap_prctl(int option, unsigned long argument)
{
    return faults_pass(FAULT_CALL, "prctl") ? __real_prctl(option, argument) : -1;
}

long __wrap_syscall(long number, long one, long two, long three, long four)
{
    return faults_pass(FAULT_CALL, "syscall") ? __real_syscall(number, one, two, three, four) : -1;
}
