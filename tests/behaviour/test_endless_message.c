/**
 * @file test_endless_message.c
 * A message whose last part never comes. libzmq keeps its parts until it is whole and counts them
 * against no limit, so what bounds it is the memory that the process may have.
 */
#include "support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "raw.h"

enum { PART_SIZE = 60000 };

static const size_t memory_max = (size_t)256 * 1024 * 1024;
static const size_t sent_max = (size_t)2048 * 1024 * 1024;

static void count_read(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    (void)socket;
    (void)arg;
    child_check(evzmq_message_get_part_count(message) == 1); /* Not the endless one. */
    _exit(0);
}

/* What the process has, of addresses. */
static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *const file = fopen("/proc/self/statm", "r");

    child_check(file != NULL && fscanf(file, "%lu", &pages) == 1);
    (void)fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Serves one message of one part, with all limits that a context sets. */
static void serve(void *arg)
{
    const struct rlimit no_core = {0, 0};
    struct event_base *const base = event_base_new();
    struct evzmq_context *const context = evzmq_context_new(0, NULL);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);
    struct evzmq_socket *socket = NULL;

    (void)arg;
    child_check(evzmq_context_bind(context, pull, "tcp://127.0.0.1:*") == 0);
    socket = evzmq_socket_new(base, pull, 0);
    child_check(socket != NULL);
    child_check(evzmq_socket_set_max_message(socket, 1000, 1, EVZMQ_OVERSIZE_DROP) == 0);
    evzmq_socket_setcb(socket, count_read, NULL, NULL, NULL);
    child_check(evzmq_socket_enable(socket, EV_READ) == 0);
    const rlim_t limit = address_space() + memory_max;
    const struct rlimit memory = {limit, limit};
    child_check(setrlimit(RLIMIT_CORE, &no_core) == 0 && setrlimit(RLIMIT_AS, &memory) == 0);
    child_ready(evzmq_context_get_endpoint(context, pull));
    (void)event_base_dispatch(base);
}

/* Sends parts until the other side has had enough. Returns how many bytes it took. */
static size_t send_without_end(int fd)
{
    static unsigned char body[PART_SIZE];
    static unsigned char frame[PART_SIZE + 16];
    const size_t size = raw_frame(frame, RAW_MORE, body, sizeof body);
    size_t sent = 0;

    while (sent < sent_max && raw_send(fd, frame, size) == 0) {
        sent += size;
    }
    return sent;
}

/* Whoever needs the service has it, be it of the process that was attacked or of the next one. */
static void an_endless_message_takes_no_more_memory_than_its_receiver_is_allowed(void **state)
{
    char endpoint[256];
    unsigned char frame[16];
    int status = 0;

    (void)state;
    if (resident() == 0) {
        print_message("memory cannot be limited here\n");
        skip();
    }
    pid_t child = child_start(serve, NULL, endpoint);
    const int hostile = raw_open(raw_port(endpoint));
    assert_true(hostile >= 0);
    const size_t sent = send_without_end(hostile);
    (void)close(hostile);
    assert_in_range(sent, memory_max / 4, sent_max - 1);
    int good = raw_open(raw_port(endpoint));
    print_message("after %zu MiB the process %s\n", sent >> 20,
                  good < 0 ? "ended" : "ended the connection");
    if (good < 0) {
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status)); /* libzmq's way; a supervisor starts the next. */
        child = child_start(serve, NULL, endpoint);
        good = raw_open(raw_port(endpoint));
    }
    assert_true(good >= 0);
    assert_int_equal(raw_send(good, frame, raw_frame(frame, 0, "good", 4)), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)close(good);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(an_endless_message_takes_no_more_memory_than_its_receiver_is_allowed),
    };

    return run_claims(tests);
}
