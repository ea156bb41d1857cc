/**
 * @file python.h
 * A peer written in Python: tests/interop/peer.py, as a process of its own.
 */
#ifndef TESTS_SUPPORT_PYTHON_H
#define TESTS_SUPPORT_PYTHON_H

#include <sys/types.h>

#include "support.h"

struct python {
    struct fixture *f;
    pid_t pid;
    int output; /* the pipe from its standard output */
    char line[256]; /* the last one, without its end */
};

/** Skips the test, with a word why, where Python or one of the peer's modules is not installed. To
 * be called before anything is attached. */
void python_skip_unless_installed(void);

/** Starts the peer in one of its roles and returns when it says that it is ready, turning the loop
 * meanwhile. */
void python_start(struct fixture *f, struct python *p, const char *role, const char *endpoint);

/** Waits for its next line, turning the loop. */
const char *python_line(struct python *p);

/** Waits for "ok" and for its end, turning the loop; what it has to say otherwise is on stderr. */
void python_finish(struct python *p);

#endif /* TESTS_SUPPORT_PYTHON_H */
