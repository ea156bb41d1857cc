/**
 * @file test_pool_programs.c
 * Programs with pools that share one directory: each minds its own business, and what a killed one
 * leaves behind hinders nobody.
 *
 * A program is this test, started again with "--program DIRECTORY". It says which processes its
 * workers are, and then obeys letters: 'w' to work, 'e' to end.
 */
#include "crew.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

enum { POOLS = 2, WORKERS = 2, REQUESTS = 100 };

/* The program's half, which uses nothing of cmocka. */

static void note_end(struct evzmq_pool *pool, const struct evzmq_pool_report *report, void *arg)
{
    int *const ended = arg;

    (void)pool;
    child_check(report->exited == WORKERS && report->undelivered + report->unanswered == 0);
    (*ended)++;
}

/* Asks all workers, all at once, and takes their answers. */
static void work(struct evzmq_pool *const pools[POOLS])
{
    const struct timeval patience = {50, 0};

    for (int i = 0; i < POOLS * REQUESTS; i++) {
        const unsigned worker = (unsigned)i / POOLS % WORKERS;

        child_check(evzmq_pool_send(pools[i % POOLS], worker, &i, sizeof i) == (int)worker);
    }
    for (int i = 0; i < POOLS * REQUESTS; i++) {
        struct evzmq_message *answer = NULL;
        unsigned worker = 0;
        int number = -1;
        size_t size = 0;

        child_check(evzmq_pool_recv(pools[i % POOLS], &patience, &worker, &answer) == 0);
        const void *const data = evzmq_message_get_part(answer, 1, &size);
        child_check(size == sizeof number);
        memcpy(&number, data, sizeof number);
        /* It is an answer to this pool, by the worker that was asked. */
        child_check(number % POOLS == i % POOLS && (unsigned)number / POOLS % WORKERS == worker);
        evzmq_message_free(answer);
    }
}

static int run_program(const char *directory, const char *const *worker_argv)
{
    const struct evzmq_pool_options options = {.size = sizeof options, .worker_argv = worker_argv};
    const struct timeval deadline = {40, 0};
    struct event_base *const base = event_base_new();
    struct evzmq_context *const context = evzmq_context_new(1, directory);
    struct evzmq_pool *pools[POOLS];
    int ended = 0;
    int order = 0;

    (void)alarm(100);
    for (int i = 0; i < POOLS; i++) {
        pools[i] = evzmq_pool_new(base, context, WORKERS, &options);
        child_check(pools[i] != NULL);
    }
    work(pools); /* Now all workers are up. */
    for (int i = 0; i < POOLS * WORKERS; i++) {
        struct evzmq_pool_worker_stats stats = {.size = sizeof stats};

        (void)evzmq_pool_get_worker_stats(pools[i % POOLS], (unsigned)(i / POOLS), &stats);
        (void)printf("%ld ", stats.pid);
    }
    while (printf("\n") > 0 && fflush(stdout) == 0 && (order = getchar()) == 'w') {
        work(pools);
    }
    for (int i = 0; i < POOLS; i++) {
        child_check(evzmq_pool_shutdown(pools[i], &deadline, note_end, &ended) == 0);
    }
    while (ended < POOLS) {
        (void)event_base_loop(base, EVLOOP_ONCE);
    }
    for (int i = 0; i < POOLS; i++) {
        evzmq_pool_free(pools[i]);
    }
    child_check(evzmq_context_free(context) == 0);
    event_base_free(base);
    return order == 'e' ? 0 : 1;
}

/* The test's half. */

struct program {
    pid_t pid;
    FILE *orders;
    FILE *said;
    pid_t workers[POOLS * WORKERS];
};

static void program_start(struct program *program, const char *directory)
{
    int in[2];
    int out[2];

    assert_int_equal(pipe(in) | pipe(out), 0);
    program->pid = quiet_fork();
    assert_true(program->pid >= 0);
    if (program->pid == 0) {
        const struct evzmq_pool_options options = crew_options("echo");

        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        for (int fd = 3; fd < 256; fd++) {
            (void)close(fd); /* Those of the test are not this program's. */
        }
        (void)execl(options.worker_argv[0], options.worker_argv[0], "--program", directory,
                    (char *)NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    program->orders = fdopen(in[1], "w");
    program->said = fdopen(out[0], "r");
}

/* Waits for a line; that of a program that has started names its workers. */
static void program_wait(struct program *program, int workers)
{
    char line[256];
    char *at = line;

    assert_non_null(fgets(line, sizeof line, program->said));
    for (int i = 0; i < workers; i++) {
        program->workers[i] = (pid_t)strtol(at, &at, 10);
        assert_true(program->workers[i] > 0);
    }
}

static void program_tell(struct program *program, char order)
{
    assert_int_equal(fputc(order, program->orders), order);
    assert_int_equal(fflush(program->orders), 0);
}

/* Returns its status, as of waitpid(). */
static int program_reap(struct program *program)
{
    int status = 0;

    assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
    (void)fclose(program->orders);
    (void)fclose(program->said);
    return status;
}

static void make_directory(char directory[128])
{
    (void)snprintf(directory, 128, "%s/evzmq-programs-XXXXXX", P_tmpdir);
    assert_non_null(mkdtemp(directory));
}

static void remove_directory(const char *directory)
{
    assert_int_equal(crew_count_entries(directory), 0);
    assert_int_equal(rmdir(directory), 0);
}

static void two_programs_at_once_work_and_end_without_disturbing_each_other(void **state)
{
    struct program one;
    struct program other;
    char directory[128];

    (void)state;
    make_directory(directory);
    program_start(&one, directory);
    program_start(&other, directory);
    program_wait(&one, POOLS * WORKERS);
    program_wait(&other, POOLS * WORKERS);
    assert_int_equal(crew_count_entries(directory), 2);
    program_tell(&one, 'w');
    program_tell(&other, 'w');
    program_wait(&other, 0);
    program_wait(&one, 0);
    program_tell(&other, 'w');
    program_tell(&one, 'e');
    assert_int_equal(program_reap(&one), 0);
    program_wait(&other, 0);
    program_tell(&other, 'w'); /* Also when it is alone. */
    program_wait(&other, 0);
    program_tell(&other, 'e');
    assert_int_equal(program_reap(&other), 0);
    remove_directory(directory);
}

static void workers_of_a_killed_program_end_and_the_next_one_starts_in_its_directory(void **state)
{
    struct fixture *const f = *state;
    struct program killed;
    struct program other;
    struct program next;
    char directory[128];

    make_directory(directory);
    program_start(&killed, directory);
    program_start(&other, directory);
    program_wait(&killed, POOLS * WORKERS);
    program_wait(&other, POOLS * WORKERS);
    program_tell(&killed, 'w'); /* In the midst of it. */
    assert_int_equal(kill(killed.pid, SIGKILL), 0);
    assert_int_equal(program_reap(&killed), SIGKILL);
    for (int i = 0; i < POOLS * WORKERS; i++) {
        while (crew_process_lives(killed.workers[i])) {
            fixture_run_for(f, 5);
        }
    }
    program_start(&next, directory);
    program_wait(&next, POOLS * WORKERS);
    assert_int_equal(crew_count_entries(directory), 2); /* What was left is gone. */
    program_tell(&other, 'w');
    program_wait(&other, 0);
    program_tell(&other, 'e');
    program_tell(&next, 'e');
    assert_int_equal(program_reap(&other), 0);
    assert_int_equal(program_reap(&next), 0);
    remove_directory(directory);
}

int main(int argc, char **argv)
{
    crew_main(argc, argv);
    if (argc == 3 && strcmp(argv[1], "--program") == 0) {
        const char *const worker_argv[] = {argv[0], "--worker", "echo", NULL};

        return run_program(argv[2], worker_argv);
    }
    const struct CMUnitTest tests[] = {
        claim(two_programs_at_once_work_and_end_without_disturbing_each_other),
        claim(workers_of_a_killed_program_end_and_the_next_one_starts_in_its_directory),
    };

    return run_claims(tests);
}
