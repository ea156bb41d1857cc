/*
 * descriptors.h (L1): how many file descriptors the process has left. libzmq aborts the process in
 * several places where it gets none.
 */
#ifndef EVZMQ_DESCRIPTORS_H
#define EVZMQ_DESCRIPTORS_H

#include <stddef.h>

struct evzmq__errortext;

/* See evzmq_context_check_descriptors(). */
int evzmq__descriptors_check(size_t needed, struct evzmq__errortext *text);

#endif /* EVZMQ_DESCRIPTORS_H */
