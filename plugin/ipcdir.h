/*
 * ipcdir.h (L1): the private directory of ipc endpoints.
 *
 * Every living directory is locked (flock(2)) through a descriptor of its maker, from right after
 * it was made until it is removed. The lock goes with the process however it ends, so whoever gets
 * the lock of a directory may clear it away. A forked child shares the lock, which keeps the
 * directory while one of the two lives; an exec'ed program does not.
 */
#ifndef EVZMQ_IPCDIR_H
#define EVZMQ_IPCDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include <evzmq/context.h>

struct evzmq__errortext;

struct evzmq__ipcdir {
    char path[EVZMQ_CONTEXT_IPC_PATH_MAX + 1];
    int descriptor; /* holds the lock; -1 when there is no directory */
    unsigned long next; /* number of the next endpoint in it */
};

/* Makes a directory under another one, or under the first of the usual places that will do, and
 * clears away what killed processes left beside it. Returns 0, or -1 with errno and a text. */
int evzmq__ipcdir_make(struct evzmq__ipcdir *directory, const char *parent,
                       struct evzmq__errortext *text);

/* Writes a path in the directory that was never used before, and at which nothing is, into
 * EVZMQ_CONTEXT_IPC_PATH_MAX + 1 bytes. Returns 0, or -1 with ENAMETOOLONG or ENOENT (the path
 * leads to the directory no longer) and a text. */
int evzmq__ipcdir_name(struct evzmq__ipcdir *directory, char *out_path,
                       struct evzmq__errortext *text);

/* Removes the directory when it is empty and still the one that was made; unlocks it either way. */
void evzmq__ipcdir_remove(struct evzmq__ipcdir *directory);

/* Only closes the descriptor: for a forked child, whose parent goes on. */
void evzmq__ipcdir_abandon(struct evzmq__ipcdir *directory);

/* Checks that no other user can tamper with a directory: neither with it nor with one above it. It
 * must not be a symbolic link. Writes its real path into PATH_MAX bytes. Returns 0, or -1 with
 * errno and a text. */
int evzmq__ipcdir_check(const char *path, char *out_real, struct evzmq__errortext *text);

/* Whether two results of stat(2) are of one file. */
bool evzmq__is_same_file(const struct stat *one, const struct stat *other);

#endif /* EVZMQ_IPCDIR_H */
