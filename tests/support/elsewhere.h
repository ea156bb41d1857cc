/*
 * Included before everything else, with -U__linux__, where .ci/run builds what other systems get:
 * none of what only some systems have.
 */
#ifndef EVZMQ_TESTS_ELSEWHERE_H
#define EVZMQ_TESTS_ELSEWHERE_H

#include <sys/socket.h>

#undef SOCK_CLOEXEC
#undef SOCK_NONBLOCK
#undef MSG_NOSIGNAL

#endif /* EVZMQ_TESTS_ELSEWHERE_H */
