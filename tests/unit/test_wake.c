/**
 * @file test_wake.c
 * The fd that wakes a loop, as an eventfd and as a pipe.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "wake.h"

static int is_readable(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};

    return poll(&item, 1, 0) == 1;
}

static void check_one(int (*open_wake)(struct evzmq__wake *wake))
{
    struct evzmq__wake wake;

    assert_int_equal(open_wake(&wake), 0);
    assert_true((fcntl(wake.read_fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_true((fcntl(wake.write_fd, F_GETFD) & FD_CLOEXEC) != 0);
    for (int round = 0; round < 3; round++) {
        assert_false(is_readable(wake.read_fd));
        evzmq__wake_signal(&wake);
        assert_true(is_readable(wake.read_fd));
        evzmq__wake_clear(&wake);
    }
    errno = EPERM;
    evzmq__wake_clear(&wake); /* Nothing is there: it neither waits nor touches errno. */
    assert_int_equal(errno, EPERM);
    evzmq__wake_close(&wake);
    assert_int_equal(wake.read_fd, -1);
    assert_int_equal(wake.write_fd, -1); /* Whoever signals late writes to nobody. */
}

static void a_signal_makes_it_readable_until_it_is_cleared(void **state)
{
    (void)state;
    check_one(evzmq__wake_open);
}

static void a_pipe_does_the_same(void **state)
{
    (void)state;
    check_one(evzmq__wake_open_pipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_makes_it_readable_until_it_is_cleared),
        cmocka_unit_test(a_pipe_does_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
