/*
 * ipcpath.c (L1): see ipcpath.h. Two things keep a path from being taken twice: the lock file, from
 * other users of this library, without a moment in between; and a connection tried, from everybody
 * else.
 */
#include "ipcpath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "errortext.h"
#include "ipcdir.h"

#define LOCK_SUFFIX ".lock"

enum { LOCK_PATH_SIZE = EVZMQ_CONTEXT_IPC_PATH_MAX + sizeof(LOCK_SUFFIX) };

/* How often locking is tried again when the file is removed by its former owner in between. */
enum { TRIES = 16 };

int evzmq__ipcpath_check(const char *path, struct evzmq__errortext *text)
{
    _Static_assert(sizeof(((struct sockaddr_un *)NULL)->sun_path) > EVZMQ_CONTEXT_IPC_PATH_MAX,
                   "EVZMQ_CONTEXT_IPC_PATH_MAX is too large for this system");
    const size_t length = strlen(path);
    if (length > EVZMQ_CONTEXT_IPC_PATH_MAX) {
        return evzmq__errortext_set(text, ENAMETOOLONG,
                                    "the ipc path has %zu bytes, and a socket address holds %d: %s",
                                    length, EVZMQ_CONTEXT_IPC_PATH_MAX, path);
    }
    return 0;
}

static void lock_path(const struct evzmq__ipcpath *claim, char out[LOCK_PATH_SIZE])
{
    (void)snprintf(out, LOCK_PATH_SIZE, "%s" LOCK_SUFFIX, claim->path);
}

/* Whether a path leads to the file that is open. */
static bool is_open_file(const char *path, int descriptor)
{
    struct stat opened;
    struct stat named;
    return fstat(descriptor, &opened) == 0 && lstat(path, &named) == 0 &&
           evzmq__is_same_file(&opened, &named);
}

/* Returns 0; 1 when the file was removed before it was locked; or -1 with errno and a text. */
static int lock_once(struct evzmq__ipcpath *claim, const char *path, struct evzmq__errortext *text)
{
    struct stat status;
    const int lock =
        open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (lock < 0) {
        return evzmq__errortext_set(text, errno, "the lock file cannot be opened: %s: %s",
                                    strerror(errno), path);
    }
    int result = -1;
    if (fstat(lock, &status) < 0) {
        (void)evzmq__errortext_set(text, errno, "%s: %s", strerror(errno), path);
    } else if (!S_ISREG(status.st_mode) || status.st_uid != geteuid()) {
        (void)evzmq__errortext_set(text, EACCES, "the lock file is not this user's: %s", path);
    } else if (flock(lock, LOCK_EX | LOCK_NB) < 0) {
        const bool is_held = errno == EWOULDBLOCK;
        (void)evzmq__errortext_set(
            text, is_held ? EADDRINUSE : errno, "%s: %s",
            is_held ? "the ipc path is in use, its lock is held" : strerror(errno), claim->path);
    } else {
        result = is_open_file(path, lock) ? 0 : 1;
    }
    if (result == 0) {
        claim->lock = lock;
    } else {
        const int error = errno;
        (void)close(lock);
        errno = error;
    }
    return result;
}

static int lock(struct evzmq__ipcpath *claim, struct evzmq__errortext *text)
{
    char path[LOCK_PATH_SIZE];
    lock_path(claim, path);
    int result = 1;
    for (int tries = 0; tries < TRIES && result == 1; tries++) {
        result = lock_once(claim, path, text);
    }
    if (result == 1) {
        return evzmq__errortext_set(text, EADDRINUSE, "others bind and release the ipc path: %s",
                                    claim->path);
    }
    return result;
}

/* Not every system has the flags. */
static int probe_socket(void)
{
#if defined(SOCK_CLOEXEC) && defined(SOCK_NONBLOCK)
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
#else
    const int probe = socket(AF_UNIX, SOCK_STREAM, 0);
    if (probe >= 0 &&
        (fcntl(probe, F_SETFD, FD_CLOEXEC) < 0 || fcntl(probe, F_SETFL, O_NONBLOCK) < 0)) {
        (void)close(probe);
        return -1;
    }
    return probe;
#endif
}

/* Whether anybody accepts connections at a path: 1 or 0, or -1 with errno where that cannot be
 * asked. A full backlog, a lack of permission and anything unknown count as a yes: only a refused
 * connection, or no file, says that nobody does. */
static int is_live(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    const int probe = probe_socket();
    if (probe < 0) {
        return -1;
    }
    const bool refused = connect(probe, (const struct sockaddr *)&address, sizeof(address)) < 0 &&
                         (errno == ECONNREFUSED || errno == ENOENT);
    (void)close(probe);
    return refused ? 0 : 1;
}

/* Makes sure that nothing is at the path, or fails. */
static int vacate(const struct evzmq__ipcpath *claim, struct evzmq__errortext *text)
{
    struct stat status;
    if (lstat(claim->path, &status) < 0) {
        if (errno == ENOENT) {
            return 0;
        }
        return evzmq__errortext_set(text, errno, "%s: %s", strerror(errno), claim->path);
    }
    if (!S_ISSOCK(status.st_mode)) {
        return evzmq__errortext_set(text, EEXIST, "something else than a socket is there: %s",
                                    claim->path);
    }
    const int live = is_live(claim->path);
    if (live != 0) {
        return evzmq__errortext_set(text, live < 0 ? errno : EADDRINUSE, "%s: %s",
                                    live < 0 ? strerror(errno) : "the ipc path is in use",
                                    claim->path);
    }
    if (status.st_uid != geteuid()) {
        return evzmq__errortext_set(text, EEXIST, "another user, number %lu, left a socket: %s",
                                    (unsigned long)status.st_uid, claim->path);
    }
    if (unlink(claim->path) < 0 && errno != ENOENT) {
        return evzmq__errortext_set(text, errno,
                                    "what a dead process left cannot be removed: "
                                    "%s: %s",
                                    strerror(errno), claim->path);
    }
    return 0;
}

static int check_parent(const struct evzmq__ipcpath *claim, struct evzmq__errortext *text)
{
    char parent[sizeof(claim->path)];
    char real[PATH_MAX];
    memcpy(parent, claim->path, sizeof(parent));
    char *const slash = strrchr(parent, '/');
    if (slash == NULL) {
        return evzmq__ipcdir_check(".", real, text);
    }
    slash[slash == parent ? 1 : 0] = '\0';
    return evzmq__ipcdir_check(parent, real, text);
}

int evzmq__ipcpath_claim(struct evzmq__ipcpath *claim, bool is_shared,
                         struct evzmq__errortext *text)
{
    if (!is_shared && check_parent(claim, text) < 0) {
        return -1;
    }
    if (lock(claim, text) < 0) {
        return -1;
    }
    if (vacate(claim, text) < 0) {
        const int error = errno;
        evzmq__ipcpath_release(claim);
        errno = error;
        return -1;
    }
    return 0;
}

void evzmq__ipcpath_bound(struct evzmq__ipcpath *claim, bool is_shared)
{
    claim->is_bound = lstat(claim->path, &claim->file) == 0 && S_ISSOCK(claim->file.st_mode);
    if (claim->is_bound && !is_shared) {
        (void)chmod(claim->path, S_IRUSR | S_IWUSR);
    }
}

#if defined(__APPLE__)
#define MODIFIED st_mtimespec
#else
#define MODIFIED st_mtim
#endif

/* Some file systems give the number of a file that was removed to the next one, so the numbers
 * alone would take a socket that was bound in ours' place for ours. */
static bool is_bound_file(const struct evzmq__ipcpath *claim, const struct stat *status)
{
    return evzmq__is_same_file(status, &claim->file) &&
           status->MODIFIED.tv_sec == claim->file.MODIFIED.tv_sec &&
           status->MODIFIED.tv_nsec == claim->file.MODIFIED.tv_nsec;
}

void evzmq__ipcpath_release(struct evzmq__ipcpath *claim)
{
    struct stat status;
    if (claim->is_bound && lstat(claim->path, &status) == 0 && is_bound_file(claim, &status)) {
        (void)unlink(claim->path);
    }
    claim->is_bound = false;
    if (claim->lock >= 0) {
        char path[LOCK_PATH_SIZE];
        lock_path(claim, path);
        /* While the lock is held: whoever opened the file meanwhile sees that it is gone. */
        if (is_open_file(path, claim->lock)) {
            (void)unlink(path);
        }
    }
    evzmq__ipcpath_abandon(claim);
}

void evzmq__ipcpath_abandon(struct evzmq__ipcpath *claim)
{
    if (claim->lock >= 0) {
        (void)close(claim->lock);
    }
    claim->lock = -1;
}
