/**
 * @file faults.h
 * Faults on demand: every call that the library makes to libzmq, to libevent's event_new() and
 * event_add() and to its own allocator passes here, and so does every allocation of libevent. It is
 * counted and noted, and fails when the test has planned that.
 *
 * It works at link time: a test that uses this has FAULTS of tests/CMakeLists.txt behind its name.
 * One that has CALLS there as well sees the calls of calls.txt too. Nothing of it is in the
 * library. Calls on another socket than the watched one, calls of other threads, and calls between
 * faults_end() and faults_begin(), pass untouched.
 */
#ifndef TESTS_SUPPORT_FAULTS_H
#define TESTS_SUPPORT_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The kinds of calls, as bits. */
enum fault_call {
    FAULT_RECV = 1 << 0, /* zmq_msg_recv */
    FAULT_SEND = 1 << 1, /* zmq_msg_send */
    FAULT_LOOK = 1 << 2, /* zmq_getsockopt of ZMQ_EVENTS */
    FAULT_GET = 1 << 3, /* zmq_getsockopt of anything else */
    FAULT_SET = 1 << 4, /* zmq_setsockopt */
    FAULT_CLOSE = 1 << 5, /* zmq_close */
    FAULT_INIT_SIZE = 1 << 6, /* zmq_msg_init_size */
    FAULT_INIT_DATA = 1 << 7, /* zmq_msg_init_data */
    FAULT_COPY = 1 << 8, /* zmq_msg_copy */
    FAULT_EVENT_NEW = 1 << 9, /* event_new */
    FAULT_EVENT_ADD = 1 << 10, /* event_add */
    FAULT_ALLOC = 1 << 11, /* evzmq__malloc, _calloc, _copy_text and _realloc */
    FAULT_LIBEVENT = 1 << 12, /* allocations of libevent */
    FAULT_CALL = 1 << 13 /* the other calls of libzmq and of the system, see calls.txt */
};

/** All that may fail for want of memory. */
#define FAULTS_MEMORY                                                                              \
    (FAULT_INIT_SIZE | FAULT_INIT_DATA | FAULT_EVENT_NEW | FAULT_EVENT_ADD | FAULT_ALLOC |         \
     FAULT_LIBEVENT)

/** All calls out of the library that may fail, see calls.txt. */
#define FAULTS_CALLS                                                                               \
    (FAULT_RECV | FAULT_SEND | FAULT_LOOK | FAULT_GET | FAULT_SET | FAULT_INIT_SIZE |              \
     FAULT_INIT_DATA | FAULT_EVENT_NEW | FAULT_EVENT_ADD | FAULT_CALL)

/** For faults that do not pass. */
#define FOR_EVER SIZE_MAX

/** For faults_begin(): all sockets. */
#define FAULTS_ANY_SOCKET ((void *)&faults_any_socket)
extern char faults_any_socket;

/** Forgets all plans, counts and notes, and watches a socket; NULL: none, only the calls that have
 * no socket. Of this thread's calls, until faults_end(). */
void faults_begin(void *zmq_socket);

/** Lets everything pass again. What was counted and noted stays to be looked at. */
void faults_end(void);

/** From the `first`-th call of these kinds on (1: the next), `times` of them fail with this error
 * and without reaching what they call. Plans are independent of each other. */
void faults_plan(unsigned calls, size_t first, size_t times, int error);

/** The n-th call of these kinds fails with the error that the function says for its name; 0: it
 * does not. EINTR comes three times in a row, if the same call is made again at once. */
void faults_plan_by_name(unsigned calls, size_t n, int (*error_of)(const char *name));

/** The name of the latest call that was made to fail; NULL: none was. */
const char *faults_failed_name(void);

/** Whether the last part sent on a watched socket has others behind it. */
bool faults_in_message(void);

/** What a __wrap_ function of another file asks: whether the call goes on. Otherwise errno is set.
 */
bool faults_pass(enum fault_call call, const char *name);

/** Runs a function right before the n-th call of these kinds. What it calls passes untouched. */
void faults_before(unsigned calls, size_t n, void (*run)(void *arg), void *arg);

/** How many calls of these kinds there were, failed ones included. */
size_t faults_count(unsigned calls);

/** How many calls of these kinds were made to fail. */
size_t faults_made(unsigned calls);

/** What was called on the watched socket, in order, separated by spaces: "recv", "send" and
 * "look"; a + means that more parts follow, an error is written as recv!EAGAIN. */
const char *faults_log(void);

/** Empties the log. */
void faults_log_clear(void);

#endif /* TESTS_SUPPORT_FAULTS_H */
