/**
 * @file support.c
 * The fixture: surroundings of one test, its watchdog, and the checks that every test gets.
 */
#include "support.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The allocator counts what the library holds. Frees may come from libzmq's I/O threads. */
static atomic_long live;
static atomic_long made;
static atomic_long until_failure; /* 0: never. */

/* More than any test needs: a request for more fails here, before a sanitizer stops the program. */
#define SIZE_LIMIT (SIZE_MAX / 4)

static int allocation_fails(size_t size)
{
    (void)atomic_fetch_add(&made, 1);
    if (size > SIZE_LIMIT) {
        return 1;
    }
    if (atomic_load(&until_failure) == 0) {
        return 0;
    }
    return atomic_fetch_sub(&until_failure, 1) == 1;
}

static void *counting_malloc(size_t size)
{
    void *const memory = allocation_fails(size) ? NULL : malloc(size);

    if (memory != NULL) {
        (void)atomic_fetch_add(&live, 1);
    }
    return memory;
}

static void *counting_realloc(void *old, size_t size)
{
    void *const memory = allocation_fails(size) ? NULL : realloc(old, size);

    if (memory != NULL && old == NULL) {
        (void)atomic_fetch_add(&live, 1);
    }
    return memory;
}

static void counting_free(void *memory)
{
    if (memory != NULL) {
        (void)atomic_fetch_sub(&live, 1);
    }
    free(memory);
}

long allocations_live(void)
{
    return atomic_load(&live);
}

long allocations_made(void)
{
    return atomic_load(&made);
}

void allocations_fail_at(long n)
{
    atomic_store(&until_failure, n);
}

/* One test runs at a time. */
static struct fixture only_fixture;

/* The watchdog. What it prints must be there when the signal comes. */
static char watchdog_text[256];
static const char *volatile watchdog_place;

static void watchdog_say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) {
        _exit(3);
    }
}

static void watchdog_bark(int signal_number)
{
    (void)signal_number;
    watchdog_say(watchdog_text);
    if (watchdog_place != NULL) {
        watchdog_say("it waits at ");
        watchdog_say(watchdog_place);
        watchdog_say("\n");
    }
    abort();
}

static unsigned watchdog_seconds(void)
{
    const char *const text = getenv("EVZMQ_TEST_WATCHDOG");
    const long seconds = text == NULL ? 60 : strtol(text, NULL, 10);

    return seconds > 0 ? (unsigned)seconds : 60;
}

void fixture_feed_watchdog(void)
{
    (void)alarm(watchdog_seconds());
}

void fixture_waits_at(const char *where)
{
    watchdog_place = where;
}

void fixture_watch_child(void)
{
    const unsigned seconds = watchdog_seconds();

    (void)snprintf(watchdog_text, sizeof watchdog_text, "watchdog: a child of %s did not end\n",
                   only_fixture.name);
    fixture_waits_at(NULL);
    (void)alarm(seconds - seconds / 6);
}

void support_init(void)
{
    const char *const debug = getenv("EVZMQ_TEST_DEBUG_MODE");
    const char *const some = getenv("EVZMQ_TEST_CLAIMS");

    if (some != NULL) {
        cmocka_set_test_filter(some);
    }
    if (debug != NULL && strcmp(debug, "1") == 0) {
        event_enable_debug_mode();
        evzmq_enable_debug_mode();
    }
    if (evzmq_set_mem_functions(counting_malloc, counting_realloc, counting_free) != 0) {
        abort();
    }
    (void)signal(SIGALRM, watchdog_bark);
    (void)signal(SIGPIPE, SIG_IGN);
}

int support_end(int failed)
{
    libevent_global_shutdown();
    return failed == 0 ? 0 : 1;
}

int count_descriptors(void)
{
    DIR *const directory = opendir("/proc/self/fd");
    int count = 0;

    if (directory == NULL) {
        return -1;
    }
    while (readdir(directory) != NULL) {
        count++;
    }
    (void)closedir(directory);
    return count;
}

long raise_descriptors(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur > 1000000) { /* RLIM_INFINITY too. */
        return 1000000;
    }
    return (long)limit.rlim_cur - count_descriptors();
}

long resident(void)
{
    long pages = 0;
#if defined(EVZMQ_TESTS_PLAIN)
    FILE *const file = fopen("/proc/self/statm", "r");

    if (file != NULL) {
        if (fscanf(file, "%*d %ld", &pages) != 1) {
            pages = 0;
        }
        (void)fclose(file);
    }
#endif
    return pages * sysconf(_SC_PAGESIZE);
}

long scaled(long quick, long full)
{
    const char *const load = getenv("EVZMQ_TEST_LOAD");

    return load != NULL && strcmp(load, "full") == 0 ? full : quick;
}

int fixture_setup(void **state)
{
    struct fixture *const f = &only_fixture;

    memset(f, 0, sizeof *f);
    f->name = *state;
    (void)snprintf(watchdog_text, sizeof watchdog_text, "watchdog: %s did not end\n", f->name);
    fixture_feed_watchdog();
    f->descriptors = count_descriptors();
    f->allocations = allocations_live();
    allocations_fail_at(0);
    f->base = event_base_new();
    f->context = zmq_ctx_new();
    *state = f;
    return f->base != NULL && f->context != NULL ? 0 : -1;
}

const char *fixture_directory(struct fixture *f)
{
    if (f->directory[0] == '\0') {
        (void)snprintf(f->directory, sizeof f->directory, "%s/evzmq-test-XXXXXX", P_tmpdir);
        assert_non_null(mkdtemp(f->directory));
    }
    return f->directory;
}

static void remove_directory(const char *path)
{
    DIR *const directory = opendir(path);
    const struct dirent *entry = NULL;

    if (directory == NULL) {
        return;
    }
    while ((entry = readdir(directory)) != NULL) {
        char name[512];

        (void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (unlink(name) < 0 && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0) {
            remove_directory(name);
        }
    }
    (void)closedir(directory);
    (void)rmdir(path);
}

int fixture_teardown(void **state)
{
    struct fixture *const f = *state;
    int result = 0;

    allocations_fail_at(0);
    if (f->attached != 0) {
        /* The test failed in its middle, and its adapters may be in any state: touch nothing. */
        print_error("%s left %zu sockets attached\n", f->name, f->attached);
        remove_directory(f->directory);
        (void)alarm(0);
        return -1;
    }
    for (size_t i = 0; i < f->peer_count; i++) {
        if (f->peers[i] != NULL) {
            (void)zmq_close(f->peers[i]);
        }
    }
    if (f->context != NULL) {
        fixture_waits_at(WAIT_PLACE(__LINE__, "zmq_ctx_term"));
        while (zmq_ctx_term(f->context) != 0 && errno == EINTR) {
        }
        fixture_waits_at(NULL);
    }
    if (f->base != NULL) {
        event_base_free(f->base);
    }
    if (f->directory[0] != '\0') {
        remove_directory(f->directory);
    }
    if (allocations_live() != f->allocations) {
        print_error("%s leaked %ld allocations\n", f->name, allocations_live() - f->allocations);
        result = -1;
    }
    if (f->descriptors != count_descriptors()) {
        print_error("%s: %d descriptors before, %d after\n", f->name, f->descriptors,
                    count_descriptors());
        result = -1;
    }
    (void)alarm(0);
    return result;
}

int fixture_loop(struct fixture *f, int flags)
{
    int result = 0;

    assert_int_equal(f->dispatching, 0);
    f->dispatching = 1;
    result = event_base_loop(f->base, flags);
    f->dispatching = 0;
    return result;
}

void fixture_turn(struct fixture *f)
{
    /* 1 would mean that no event is left to wait for. */
    assert_int_equal(fixture_loop(f, EVLOOP_ONCE), 0);
}

void fixture_glance(struct fixture *f)
{
    /* EVLOOP_NONBLOCK alone would go on for as long as anything is active. */
    assert_int_not_equal(fixture_loop(f, EVLOOP_ONCE | EVLOOP_NONBLOCK), -1);
}

void fixture_run_for(struct fixture *f, int window_ms)
{
    const struct timeval window = {window_ms / 1000, (window_ms % 1000) * 1000};

    assert_int_equal(event_base_loopexit(f->base, &window), 0);
    assert_int_not_equal(fixture_loop(f, 0), -1);
}
