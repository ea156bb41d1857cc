/**
 * @file test_packed_python.c
 * Packed frames are read, and made, by another language's streaming unpacker. Needs Python with its
 * zmq and msgpack modules, and is skipped where they are not.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "packed.h"

#define PYTHON "/usr/bin/python3"
#define SCRIPT EVZMQ_TESTS_DIR "/support/unpack.py"

enum { COUNT = 5000 };

static pid_t start(const char *endpoint)
{
    char count[16];
    (void)snprintf(count, sizeof(count), "%d", COUNT);
    const pid_t child = quiet_fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)execl(PYTHON, PYTHON, SCRIPT, endpoint, endpoint == NULL ? NULL : count,
                    (char *)NULL);
        _exit(77);
    }
    return child;
}

static int end(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void pythons_unpacker_reads_packed_frames_and_its_frames_are_unpacked(void **state)
{
    struct fixture *const f = *state;
    if (end(start(NULL)) == 77) {
        (void)printf("skipped: python3 with zmq and msgpack is not installed\n");
        skip();
    }
    struct probe p = {.on_read = packed_read_sequence};
    char endpoint[ENDPOINT_SIZE];
    void *const pair = peer_new(f, ZMQ_PAIR);
    peer_bind(f, pair, TRANSPORT_IPC, endpoint);
    packed_attach(f, &p, pair, 0);
    assert_ok(evzmq_socket_set_packing(p.socket, 16384, 0));
    assert_ok(evzmq_socket_set_unpacking(p.socket, 1));
    probe_enable(&p, EV_READ);
    const pid_t child = start(endpoint);
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_ok(packed_write(p.socket, i, i % 300));
    }
    run_until(f, p.reads == COUNT);
    assert_int_equal(p.events[EVZMQ_EVENT_DECODE_ERROR], 0);
    assert_ok(evzmq_socket_write(p.socket, "done", 4));
    run_until(f, evzmq_socket_get_queued(p.socket, NULL) == 0);
    assert_int_equal(end(child), 0);
    probe_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(pythons_unpacker_reads_packed_frames_and_its_frames_are_unpacked),
    };
    return run_claims(tests);
}
