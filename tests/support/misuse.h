/**
 * @file misuse.h
 * Calls that nobody should make, one row each: what the interface says of them is what happens, and
 * never a crash. misuse_complete() finds exported functions without a row.
 *
 * A row that is not as it should be is printed and counted, so that rows may run in any thread and
 * in a forked child.
 */
#ifndef TESTS_SUPPORT_MISUSE_H
#define TESTS_SUPPORT_MISUSE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Forgets rows and faults. */
void misuse_begin(void);

/** Rows that were not as they should be, since misuse_begin(). */
size_t misuse_faults(void);

/** A function has a row. */
void misuse_note(const char *function);

/** Fails the test unless there was a row for each function and variable that these headers declare;
 * the last is NULL. */
void misuse_complete(const char *const *headers);

/** What the macros below call. */
void misuse_check(const char *file, int line, const char *function, bool failed, intmax_t result,
                  int error);

/** In the error's place: the call may succeed or fail, as long as it returns. */
#define ANYTHING (-1)

/** The call fails with -1 and the error; 0: it succeeds. */
#define refused(error, function, ...)                                                              \
    do {                                                                                           \
        errno = 0;                                                                                 \
        const intmax_t refused_result = (intmax_t)function(__VA_ARGS__);                           \
        misuse_check(__FILE__, __LINE__, #function, refused_result == -1, refused_result,          \
                     (error));                                                                     \
    } while (0)

/** The call returns NULL with the error; 0: it returns something. */
#define no_object(error, function, ...)                                                            \
    do {                                                                                           \
        errno = 0;                                                                                 \
        const void *const no_object_result = (const void *)function(__VA_ARGS__);                  \
        misuse_check(__FILE__, __LINE__, #function, no_object_result == NULL, 0, (error));         \
    } while (0)

/** The call returns NULL, and errno says nothing. */
#define null(function, ...)                                                                        \
    do {                                                                                           \
        const bool null_failed = (const void *)function(__VA_ARGS__) == NULL;                      \
        errno = null_failed ? EINVAL : 0;                                                          \
        misuse_check(__FILE__, __LINE__, #function, null_failed, 0, EINVAL);                       \
    } while (0)

/** The call returns a number. */
#define gives(value, function, ...)                                                                \
    do {                                                                                           \
        const intmax_t gives_result = (intmax_t)function(__VA_ARGS__);                             \
        misuse_check(__FILE__, __LINE__, #function, gives_result != (value), gives_result, 0);     \
    } while (0)

/** The call, which returns nothing, returns. */
#define returns(function, ...)                                                                     \
    do {                                                                                           \
        function(__VA_ARGS__);                                                                     \
        misuse_note(#function);                                                                    \
    } while (0)

/** When calls with good arguments are wrong all the same. */
enum misuse_when {
    MISUSE_CHILD, /**< in a forked child, on objects of the parent */
    MISUSE_THREAD, /**< in a thread that does not run the base, in the debug mode */
    MISUSE_ENDED /**< after the shutdown of the object, in its loop */
};

/** The error of three for `when`. */
static inline int misuse_error(enum misuse_when when, int child, int thread, int ended)
{
    return when == MISUSE_CHILD ? child : when == MISUSE_THREAD ? thread : ended;
}

/** refused() with the error of a variable `when`: in a child ECHILD, in a thread EPERM, and after
 * the end the first argument. */
#define refused_when(ended, function, ...)                                                         \
    refused(misuse_error(when, ECHILD, EPERM, ended), function, __VA_ARGS__)

/* A call without a result, in another thread than the owner's in debug mode. */
#define refused_elsewhere(function, ...)                                                           \
    do {                                                                                           \
        errno = 0;                                                                                 \
        function(__VA_ARGS__);                                                                     \
        gives(EPERM, (int), errno);                                                                \
    } while (0)

#endif /* TESTS_SUPPORT_MISUSE_H */
