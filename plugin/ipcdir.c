/*
 * ipcdir.c (L1): see ipcdir.h. Whatever is removed is named relative to a directory that is held
 * open and was checked through the same descriptor, so that no symbolic link is followed on the
 * way.
 */
#include "ipcdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "errortext.h"

#define PREFIX "evzmq-"

/* Of PREFIX and what mkdtemp(3) puts after it. */
enum { NAME_LENGTH = sizeof(PREFIX "XXXXXX") - 1 };

/* How many digits of an endpoint's number there must be room for. */
enum { DIGITS = 4 };

/* How often making a directory is tried again when another process clears it away before it is
 * locked, and how many neighbours are looked at for leftovers, so that a full /tmp costs little. */
enum { TRIES = 16, NEIGHBOURS_MAX = 4096 };

static const char *const usual_places[] = {"/dev/shm", "/tmp"};

bool evzmq__is_same_file(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* One step of the way to a directory. */
static int check_step(const char *path, struct evzmq__errortext *text)
{
    struct stat status;
    if (lstat(path, &status) < 0) {
        return evzmq__errortext_set(text, errno, "%s: %s", strerror(errno), path);
    }
    if (!S_ISDIR(status.st_mode)) {
        return evzmq__errortext_set(text, ENOTDIR, "not a directory: %s", path);
    }
    if (status.st_uid != 0 && status.st_uid != geteuid()) {
        return evzmq__errortext_set(text, EACCES, "it belongs to another user, number %lu: %s",
                                    (unsigned long)status.st_uid, path);
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0) {
        return evzmq__errortext_set(
            text, EACCES, "other users may write to it and it has no sticky bit (mode %03o): %s",
            (unsigned)(status.st_mode & 07777), path);
    }
    return 0;
}

int evzmq__ipcdir_check(const char *path, char *out_real, struct evzmq__errortext *text)
{
    struct stat status;
    if (lstat(path, &status) < 0) {
        return evzmq__errortext_set(text, errno, "%s: %s", strerror(errno), path);
    }
    if (S_ISLNK(status.st_mode)) {
        return evzmq__errortext_set(text, ELOOP, "a symbolic link: %s", path);
    }
    if (realpath(path, out_real) == NULL) {
        return evzmq__errortext_set(text, errno, "%s: %s", strerror(errno), path);
    }
    /* From the top: what is below a directory is only worth looking at once that one is sound. */
    if (check_step("/", text) < 0) {
        return -1;
    }
    for (char *at = out_real + 1; *at != '\0';) {
        at += strcspn(at, "/");
        const char end = *at;
        *at = '\0';
        const int result = check_step(out_real, text);
        *at = end;
        if (result < 0) {
            return -1;
        }
        at += end == '/';
    }
    return 0;
}

/* Removes the sockets of a directory that nobody uses any more. Anything else keeps it alive. */
static void remove_sockets(int descriptor)
{
    const int own = openat(descriptor, ".", O_RDONLY | O_CLOEXEC);
    DIR *const directory = own < 0 ? NULL : fdopendir(own);
    if (directory == NULL) {
        if (own >= 0) {
            (void)close(own);
        }
        return;
    }
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        struct stat status;
        if (fstatat(descriptor, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISSOCK(status.st_mode)) {
            (void)unlinkat(descriptor, entry->d_name, 0);
        }
    }
    (void)closedir(directory);
}

/* Whether a name still leads to the directory that is open. Otherwise errno is set: ENOENT where it
 * leads elsewhere. */
static bool is_still(int parent, const char *name, int descriptor)
{
    struct stat opened;
    struct stat named;
    if (fstat(descriptor, &opened) < 0 || fstatat(parent, name, &named, AT_SYMLINK_NOFOLLOW) < 0) {
        return false;
    }
    errno = ENOENT;
    return evzmq__is_same_file(&opened, &named);
}

/* Removes one directory if it is of our kind, this user's, and nobody holds its lock. */
static void clear_one(int parent, const char *name)
{
    const int descriptor =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) {
        return;
    }
    struct stat status;
    if (fstat(descriptor, &status) == 0 && status.st_uid == geteuid() &&
        (status.st_mode & (S_IRWXG | S_IRWXO)) == 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0 &&
        is_still(parent, name, descriptor)) {
        remove_sockets(descriptor);
        (void)unlinkat(parent, name, AT_REMOVEDIR);
    }
    (void)close(descriptor);
}

static void clear_leftovers(const char *parent)
{
    DIR *const directory = opendir(parent);
    if (directory == NULL) {
        return;
    }
    const struct dirent *entry;
    for (int seen = 0; seen < NEIGHBOURS_MAX && (entry = readdir(directory)) != NULL; seen++) {
        if (strlen(entry->d_name) == NAME_LENGTH &&
            strncmp(entry->d_name, PREFIX, sizeof(PREFIX) - 1) == 0) {
            clear_one(dirfd(directory), entry->d_name);
        }
    }
    (void)closedir(directory);
}

/* Makes a directory and locks it. Returns 0; 1 when another process took it for a leftover in
 * between, as it may until the lock is there; or -1 with errno. */
static int make_once(struct evzmq__ipcdir *directory, const char *parent)
{
    const int length = snprintf(directory->path, sizeof(directory->path), "%s%s" PREFIX "XXXXXX",
                                parent, parent[1] == '\0' ? "" : "/");
    if (length < 0 || (size_t)length >= sizeof(directory->path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (mkdtemp(directory->path) == NULL) {
        return -1;
    }
    /* The mode once more: a umask may have taken bits of ours away. */
    if (chmod(directory->path, S_IRWXU) == 0) {
        directory->descriptor =
            open(directory->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (directory->descriptor < 0) {
        const int error = errno;
        (void)rmdir(directory->path);
        errno = error;
        return error == ENOENT ? 1 : -1;
    }
    const bool is_locked = flock(directory->descriptor, LOCK_EX | LOCK_NB) == 0;
    if (is_locked && is_still(AT_FDCWD, directory->path, directory->descriptor)) {
        return 0;
    }
    /* Whoever clears the directory away holds its lock, or has removed it. */
    const int error = errno;
    const bool is_taken = error == (is_locked ? ENOENT : EWOULDBLOCK);
    if (!is_taken) {
        (void)rmdir(directory->path);
    }
    (void)close(directory->descriptor);
    directory->descriptor = -1;
    errno = error;
    return is_taken ? 1 : -1;
}

static int make_under(struct evzmq__ipcdir *directory, const char *parent,
                      struct evzmq__errortext *text)
{
    char real[PATH_MAX];
    if (evzmq__ipcdir_check(parent, real, text) < 0) {
        return -1;
    }
    const size_t length = strlen(real) + 1 + NAME_LENGTH + 1 + DIGITS;
    if (length > EVZMQ_CONTEXT_IPC_PATH_MAX) {
        return evzmq__errortext_set(text, ENAMETOOLONG,
                                    "ipc paths in it would have %zu bytes or more, and a socket "
                                    "address holds %d: %s",
                                    length, EVZMQ_CONTEXT_IPC_PATH_MAX, real);
    }
    clear_leftovers(real);
    int result = 1;
    for (int tries = 0; tries < TRIES && result == 1; tries++) {
        result = make_once(directory, real);
    }
    if (result != 0) {
        const int error = result == 1 ? EAGAIN : errno;
        return evzmq__errortext_set(text, error, "no directory for ipc sockets can be made: %s: %s",
                                    strerror(error), real);
    }
    directory->next = 0;
    return 0;
}

int evzmq__ipcdir_make(struct evzmq__ipcdir *directory, const char *parent,
                       struct evzmq__errortext *text)
{
    int result = -1;
    if (parent != NULL) {
        result = make_under(directory, parent, text);
    }
    for (size_t i = 0;
         parent == NULL && result < 0 && i < sizeof(usual_places) / sizeof(usual_places[0]); i++) {
        result = make_under(directory, usual_places[i], text);
    }
    if (result < 0) {
        directory->path[0] = '\0';
    }
    return result;
}

int evzmq__ipcdir_name(struct evzmq__ipcdir *directory, char *out_path,
                       struct evzmq__errortext *text)
{
    const size_t size = sizeof(directory->path);
    struct stat status;
    /* libzmq goes by the path, and removes whatever is at it before it binds. */
    if (!is_still(AT_FDCWD, directory->path, directory->descriptor)) {
        const bool is_gone = errno == ENOENT;
        return evzmq__errortext_set(
            text, errno, "%s: %s",
            is_gone ? "the directory for ipc sockets was removed or replaced" : strerror(errno),
            directory->path);
    }
    do {
        const int length = snprintf(out_path, size, "%s/%lu", directory->path, directory->next);
        if (length < 0 || (size_t)length >= size) {
            return evzmq__errortext_set(text, ENAMETOOLONG,
                                        "no room for another name in %d bytes, the limit of an ipc "
                                        "path: %s",
                                        EVZMQ_CONTEXT_IPC_PATH_MAX, directory->path);
        }
        directory->next++;
    } while (lstat(out_path, &status) == 0);
    return 0;
}

void evzmq__ipcdir_remove(struct evzmq__ipcdir *directory)
{
    if (directory->descriptor < 0) {
        return;
    }
    if (is_still(AT_FDCWD, directory->path, directory->descriptor)) {
        (void)rmdir(directory->path);
    }
    evzmq__ipcdir_abandon(directory);
}

void evzmq__ipcdir_abandon(struct evzmq__ipcdir *directory)
{
    if (directory->descriptor >= 0) {
        (void)close(directory->descriptor);
    }
    directory->descriptor = -1;
}
