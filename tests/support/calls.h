/**
 * @file calls.h
 * The list of the functions that the library calls (calls.txt), and __wrap_ functions for those
 * that faults.h does not know: calls of libzmq without a message, and of the system.
 */
#ifndef TESTS_SUPPORT_CALLS_H
#define TESTS_SUPPORT_CALLS_H

#include <stddef.h>

/** Reads the list where that was not done yet, and begins a scenario. Fails the test where the list
 * cannot be read. */
void calls_load(void);

/** The index-th error of a function of the list; 0: it has no more. */
int calls_error(const char *name, size_t index);

/** Notes that a function was made to fail. Returns how often it was noted in this scenario. */
size_t calls_note(const char *name);

/** The name of a function with errors that was not noted; NULL when there is none. */
const char *calls_unnoted(void);

#endif /* TESTS_SUPPORT_CALLS_H */
