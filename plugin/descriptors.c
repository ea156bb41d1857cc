/*
 * descriptors.c (L1): see descriptors.h. What is open is counted in a directory of the system,
 * which costs a few microseconds for each hundred; a count of our own would not see what the rest
 * of the program opens.
 */
#include "descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>

#include <evzmq/context.h>

#include "errortext.h"

/* Returns 0, or -1 where the system does not tell. */
static int count_open(size_t limit, size_t *out)
{
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL && errno == ENOENT) {
        directory = opendir("/dev/fd");
    }
    if (directory == NULL) {
        *out = limit;
        return errno == EMFILE ? 0 : -1;
    }
    size_t entries = 0;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        entries += entry->d_name[0] != '.';
    }
    (void)closedir(directory);
    /* One of them was the directory's own. */
    *out = entries > 0 ? entries - 1 : 0;
    return 0;
}

int evzmq__descriptors_check(size_t needed, struct evzmq__errortext *text)
{
    const size_t reserve = EVZMQ_CONTEXT_DESCRIPTORS_RESERVE;
    struct rlimit system_limit;
    if (getrlimit(RLIMIT_NOFILE, &system_limit) < 0 || system_limit.rlim_cur == RLIM_INFINITY) {
        return 0;
    }
    const size_t limit = (size_t)system_limit.rlim_cur;
    size_t open = 0;
    if (count_open(limit, &open) < 0) {
        return 0;
    }
    const size_t available = open < limit ? limit - open : 0;
    if (available < reserve || available - reserve < needed) {
        return evzmq__errortext_set(text, EMFILE,
                                    "too few file descriptors: %zu more are needed and %zu kept in "
                                    "reserve, but only %zu of %zu are free (see ulimit -n)",
                                    needed, reserve, available, limit);
    }
    /* No overflow: open + needed is below the limit, and the kernel's own is far below SIZE_MAX. */
    return open + needed > limit / 100 * EVZMQ_CONTEXT_DESCRIPTORS_WARNING_PERCENT +
                               limit % 100 * EVZMQ_CONTEXT_DESCRIPTORS_WARNING_PERCENT / 100
               ? 1
               : 0;
}
