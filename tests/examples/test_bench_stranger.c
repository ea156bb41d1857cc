/*
 * The programs against peers that do them wrong: a stranger who pushes messages of its own into the
 * measurements of echo_bench, and a server that does not echo what echo_client sent. Both must be
 * noticed and end with status 1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zmq.h>

#include "child.h"

#define PATH_SIZE 128
#define ARGUMENTS_MAX 16
/* How often a stranger looks for a new measurement. */
#define LOOK_MS 5
/* Nothing here takes so long; it is for what hangs. */
#define WATCHDOG_SECONDS 100
#define PATIENCE_MS 30000

/* A program that runs, and what it says on stderr. */
struct program {
    char directory[64]; /* of its own; TMPDIR */
    pid_t pid;
    int errors;
    char said[4096];
    size_t said_size;
};

static void program_start(struct program *program, const char *const *arguments)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    program->pid = quiet_fork();
    assert_true(program->pid >= 0);
    if (program->pid == 0) {
        const int null = open("/dev/null", O_RDWR);
        char *copies[ARGUMENTS_MAX + 1] = {NULL};
        for (size_t i = 0; i < ARGUMENTS_MAX && arguments[i] != NULL; i++) {
            copies[i] = strdup(arguments[i]);
        }
        if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
            dup2(ends[1], STDERR_FILENO) >= 0 && setenv("TMPDIR", program->directory, 1) == 0) {
            (void)close(ends[0]);
            (void)close(ends[1]);
            (void)execv(copies[0], copies);
        }
        _exit(127);
    }
    (void)close(ends[1]);
    program->errors = ends[0];
    program->said_size = 0;
}

/* Waits a moment for what the program says. Returns 0 once it has ended. */
static int program_listen(struct program *program, int wait_ms)
{
    struct pollfd errors = {.fd = program->errors, .events = POLLIN};
    if (poll(&errors, 1, wait_ms) <= 0) {
        return 1;
    }
    char bytes[512];
    const ssize_t got = read(program->errors, bytes, sizeof(bytes));
    const size_t room = sizeof(program->said) - 1 - program->said_size;
    if (got > 0) {
        const size_t size = (size_t)got < room ? (size_t)got : room;
        memcpy(program->said + program->said_size, bytes, size);
        program->said_size += size;
    }
    program->said[program->said_size] = '\0';
    return got > 0;
}

/* The program has ended, with this status and these words. */
static void program_expect(struct program *program, int status, const char *words)
{
    int ended = 0;
    while (program_listen(program, -1)) {
    }
    (void)close(program->errors);
    assert_int_equal(waitpid(program->pid, &ended, 0), program->pid);
    assert_true(WIFEXITED(ended));
    if (strstr(program->said, words) == NULL || WEXITSTATUS(ended) != status) {
        print_error("status %d, and on stderr: %s\n", WEXITSTATUS(ended), program->said);
    }
    assert_int_equal(WEXITSTATUS(ended), status);
    assert_non_null(strstr(program->said, words));
}

static int setup(void **state)
{
    static struct program program;
    (void)alarm(WATCHDOG_SECONDS);
    /* Not evzmq-XXXXXX: those are the library's own, and any of its contexts clears away an empty
     * one. */
    (void)snprintf(program.directory, sizeof(program.directory), "/tmp/evzmq-claim-XXXXXX");
    *state = &program;
    return mkdtemp(program.directory) == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    const struct program *program = *state;
    (void)alarm(0);
    return rmdir(program->directory); /* Nothing may be left in it. */
}

/* The first entry of a directory that begins so; returns 0 when there is none. */
static int find_entry(const char *directory, const char *begin, char out[PATH_SIZE])
{
    DIR *entries = opendir(directory);
    int found = 0;
    if (entries == NULL) {
        return 0;
    }
    for (const struct dirent *entry; !found && (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] != '.' && strncmp(entry->d_name, begin, strlen(begin)) == 0) {
            const int length = snprintf(out, PATH_SIZE, "%s/%s", directory, entry->d_name);
            found = length > 0 && length < PATH_SIZE;
        }
    }
    (void)closedir(entries);
    return found;
}

/* A stranger's socket; a new one for each measurement, which has a path of its own. */
static void intrude(void *context, void **stranger, const char *path, const void *data, size_t size)
{
    char endpoint[PATH_SIZE + 8];
    const int linger = 0;
    if (*stranger != NULL) {
        assert_int_equal(zmq_close(*stranger), 0);
    }
    *stranger = zmq_socket(context, ZMQ_PUSH);
    assert_non_null(*stranger);
    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%s", path);
    assert_int_equal(zmq_setsockopt(*stranger, ZMQ_LINGER, &linger, sizeof(linger)), 0);
    assert_int_equal(zmq_connect(*stranger, endpoint), 0);
    assert_int_equal(zmq_send(*stranger, data, size, 0), (int)size);
}

/* Runs echo_bench, and a stranger sends one message into each of its measurements. */
static void bench_with_stranger(struct program *program, const char *const *more, const void *data,
                                size_t size, const char *words)
{
    const char *arguments[ARGUMENTS_MAX + 1] = {ECHO_BENCH, "--types",  "stream_chunk",
                                                "--chars",  "32",       "--seconds",
                                                "0.1",      "--repeat", "10"};
    for (size_t i = 0; more[i] != NULL; i++) {
        arguments[9 + i] = more[i];
    }
    char seen[PATH_SIZE] = "";
    void *context = zmq_ctx_new();
    void *stranger = NULL;
    assert_non_null(context);
    program_start(program, arguments);
    while (program_listen(program, LOOK_MS)) {
        char directory[PATH_SIZE];
        char path[PATH_SIZE];
        if (find_entry(program->directory, "echo_bench-", directory) &&
            find_entry(directory, "", path) && strcmp(path, seen) != 0) {
            memcpy(seen, path, sizeof(seen));
            intrude(context, &stranger, path, data, size);
        }
    }
    if (stranger != NULL) {
        assert_int_equal(zmq_close(stranger), 0);
    }
    assert_int_equal(zmq_ctx_term(context), 0);
    program_expect(program, 1, words);
}

static const char *const msgpack[] = {"--codec", "msgpack", NULL};
static const char *const typed[] = {"--codec", "typed", NULL};
static const char *const raw[] = {"--codec", "raw", NULL};
static const char *const bare[] = {"--against", "bare", NULL};

static void an_undecodable_message_ends_echo_bench_with_status_1(void **state)
{
    bench_with_stranger(*state, msgpack, "\xc1", 1,
                        "StreamChunk, 32 chars, evzmq, one record a message: undecodable");
    bench_with_stranger(*state, typed, "\xc1", 1,
                        "StreamChunk, 32 chars, evzmq, one record a message: undecodable");
}

static void another_record_ends_echo_bench_with_status_1(void **state)
{
    bench_with_stranger(*state, msgpack, "\xc0", 1, "is not the StreamChunk that was sent");
    bench_with_stranger(*state, raw, "\xc0", 1, "is not the StreamChunk that was sent");
}

static void a_record_out_of_order_ends_echo_bench_with_status_1(void **state)
{
    static const char record[] = "\x94\xacstream_chunk\xa9"
                                 "999999999\xd9\x20xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\x80";
    const char *words = "lost or reordered: record 999999999 came when ";
    bench_with_stranger(*state, msgpack, record, sizeof(record) - 1, words);
    bench_with_stranger(*state, typed, record, sizeof(record) - 1, words);
    bench_with_stranger(*state, raw, record, sizeof(record) - 1, words);
}

static void a_message_too_many_beside_the_bare_loop_ends_echo_bench_with_status_1(void **state)
{
    bench_with_stranger(*state, bare, "x", 1, "1 more than the");
}

static void recv_part(void *server, zmq_msg_t *part)
{
    assert_int_equal(zmq_msg_init(part), 0);
    assert_true(zmq_msg_recv(part, server, 0) >= 0);
}

/* A server answers the first request with something else, and the client notices. */
static void client_with_liar(struct program *program, const char *answer, const char *more)
{
    char path[PATH_SIZE];
    char endpoint[PATH_SIZE + 8];
    const int patience = PATIENCE_MS;
    const int linger = 0;
    void *context = zmq_ctx_new();
    void *server = zmq_socket(context, ZMQ_ROUTER);
    (void)snprintf(path, sizeof(path), "%s/liar", program->directory);
    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%s", path);
    assert_int_equal(zmq_setsockopt(server, ZMQ_RCVTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(zmq_setsockopt(server, ZMQ_LINGER, &linger, sizeof(linger)), 0);
    assert_int_equal(zmq_bind(server, endpoint), 0);
    program_start(program, (const char *[]){ECHO_CLIENT, "--count", "1", "--size", "4", "--timeout",
                                            "30", endpoint, NULL});
    zmq_msg_t parts[3];
    for (size_t i = 0; i < 3; i++) {
        recv_part(server, &parts[i]);
    }
    assert_memory_equal(zmq_msg_data(&parts[2]), "0 xx", 4);
    assert_true(zmq_msg_send(&parts[0], server, ZMQ_SNDMORE) >= 0);
    assert_true(zmq_msg_send(&parts[1], server, ZMQ_SNDMORE) >= 0);
    assert_true(zmq_send(server, answer, strlen(answer), more == NULL ? 0 : ZMQ_SNDMORE) >= 0);
    if (more != NULL) {
        assert_true(zmq_send(server, more, strlen(more), 0) >= 0);
    }
    (void)zmq_msg_close(&parts[2]);
    program_expect(program, 1, "an echo is not what was sent; after 0 of 1 echoes");
    assert_int_equal(zmq_close(server), 0);
    assert_int_equal(zmq_ctx_term(context), 0);
    (void)unlink(path);
}

static void an_echo_that_is_none_ends_echo_client_with_status_1(void **state)
{
    client_with_liar(*state, "0 xy", NULL);
    client_with_liar(*state, "0 x", NULL);
    client_with_liar(*state, "0 xxx", NULL);
    client_with_liar(*state, "", NULL);
    client_with_liar(*state, "0 xx", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_undecodable_message_ends_echo_bench_with_status_1, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(another_record_ends_echo_bench_with_status_1, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_record_out_of_order_ends_echo_bench_with_status_1, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_message_too_many_beside_the_bare_loop_ends_echo_bench_with_status_1, setup, teardown),
        cmocka_unit_test_setup_teardown(an_echo_that_is_none_ends_echo_client_with_status_1, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
