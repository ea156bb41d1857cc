/*
 * ipcpath.h (L1): the file of one bound ipc endpoint: claimed before it is bound, since libzmq
 * unlinks whatever is there and takes a live endpoint over without a word, and removed afterwards,
 * since libzmq leaves it.
 */
#ifndef EVZMQ_IPCPATH_H
#define EVZMQ_IPCPATH_H

#include <stdbool.h>
#include <sys/stat.h>

#include <evzmq/context.h>

struct evzmq__errortext;

struct evzmq__ipcpath {
    struct evzmq__ipcpath *next; /* of the same socket */
    char path[EVZMQ_CONTEXT_IPC_PATH_MAX + 1];
    int lock; /* of the lock file beside it; -1 in the private directory, which is locked itself */
    bool is_bound; /* file is known */
    struct stat file;
};

/* Checks the length. Returns 0, or -1 with ENAMETOOLONG and a text. */
int evzmq__ipcpath_check(const char *path, struct evzmq__errortext *text);

/* Takes a path outside the private directory: locks it, refuses it when somebody lives there, and
 * removes what a dead process of this user left. Returns 0, or -1 with errno and a text. */
int evzmq__ipcpath_claim(struct evzmq__ipcpath *claim, bool is_shared,
                         struct evzmq__errortext *text);

/* Notes which file libzmq has made, so that no other is removed, and unless it is shared, closes
 * it to other users. */
void evzmq__ipcpath_bound(struct evzmq__ipcpath *claim, bool is_shared);

/* Removes the file, if it is the one that was bound, and ends the claim. */
void evzmq__ipcpath_release(struct evzmq__ipcpath *claim);

/* Ends the claim of a forked child, whose parent goes on: removes nothing. */
void evzmq__ipcpath_abandon(struct evzmq__ipcpath *claim);

#endif /* EVZMQ_IPCPATH_H */
