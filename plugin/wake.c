/*
 * wake.c (L0): see wake.h.
 */
#include "wake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/eventfd.h>
#endif

static int set_flags(int fd)
{
    const int status = fcntl(fd, F_GETFL);
    if (status < 0 || fcntl(fd, F_SETFL, status | O_NONBLOCK) < 0) {
        return -1;
    }
    return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -1 : 0;
}

int evzmq__wake_open_pipe(struct evzmq__wake *wake)
{
    int fds[2];
    if (pipe(fds) < 0) {
        return -1;
    }
    *wake = (struct evzmq__wake){.read_fd = fds[0], .write_fd = fds[1]};
    if (set_flags(fds[0]) < 0 || set_flags(fds[1]) < 0) {
        const int error = errno;
        evzmq__wake_close(wake);
        errno = error;
        return -1;
    }
    return 0;
}

int evzmq__wake_open(struct evzmq__wake *wake)
{
#if defined(__linux__)
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    *wake = (struct evzmq__wake){.read_fd = fd, .write_fd = fd};
    return fd < 0 ? -1 : 0;
#else
    return evzmq__wake_open_pipe(wake);
#endif
}

void evzmq__wake_signal(const struct evzmq__wake *wake)
{
    const int error = errno;
    const uint64_t one = 1; /* an eventfd takes 8 bytes, a pipe whatever it is given */
    while (wake->write_fd >= 0 && write(wake->write_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    errno = error;
}

void evzmq__wake_clear(const struct evzmq__wake *wake)
{
    const int error = errno;
    uint64_t count;
    while (read(wake->read_fd, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
    errno = error;
}

void evzmq__wake_close(struct evzmq__wake *wake)
{
    if (wake->read_fd >= 0) {
        (void)close(wake->read_fd);
    }
    evzmq__wake_leave(wake);
}

void evzmq__wake_leave(struct evzmq__wake *wake)
{
    if (wake->write_fd != wake->read_fd) {
        (void)close(wake->write_fd);
    }
    wake->read_fd = -1;
    wake->write_fd = -1;
}
