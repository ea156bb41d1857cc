/**
 * @file test_ipc_paths.c
 * Paths of ipc endpoints: none is too long, none is stolen, none stays behind, and nothing that
 * belongs to somebody else is removed.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "place.h"
#include "watch.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define PATH_MAX_TEXT TEXT(EVZMQ_CONTEXT_IPC_PATH_MAX)

/* A place, a context in it and a PULL socket. */
struct home {
    char place[64];
    struct evzmq_context *context;
    void *pull;
};

static void home_open(struct home *home)
{
    place_make(home->place);
    home->context = evzmq_context_new(0, home->place);
    assert_non_null(home->context);
    home->pull = evzmq_context_socket(home->context, ZMQ_PULL);
    assert_non_null(home->pull);
}

static void home_close(struct home *home)
{
    if (home->pull != NULL) {
        assert_ok(evzmq_context_close_socket(home->context, home->pull));
    }
    assert_ok(evzmq_context_free(home->context));
    place_remove(home->place);
}

/* "ipc://<place>/<name>". */
static const char *endpoint_in(const char *place, const char *name, char out[PLACE_PATH_SIZE])
{
    (void)snprintf(out, PLACE_PATH_SIZE, "ipc://%s/%s", place, name);
    return out;
}

/* An endpoint in a place whose path has some length. */
static const char *endpoint_of(const char *place, size_t length, char out[PLACE_PATH_SIZE])
{
    const size_t prefix = strlen("ipc://");

    (void)endpoint_in(place, "", out);
    for (size_t at = strlen(out); at < prefix + length; at++) {
        out[at] = 'x';
    }
    out[prefix + length] = '\0';
    return out;
}

/* One message through an endpoint. */
static void assert_flows(struct fixture *f, void *pull, const char *endpoint)
{
    void *const push = peer_new(f, ZMQ_PUSH);
    char text[32];

    peer_connect(push, endpoint);
    peer_send_text(push, "hello");
    peer_wait_readable(pull);
    (void)peer_recv_text(pull, text, sizeof text);
    assert_string_equal(text, "hello");
    peer_close(f, push);
}

static void assert_error_names(const struct home *home, const char *word)
{
    if (strstr(evzmq_context_get_error(home->context), word) == NULL) {
        fail_msg("\"%s\" does not say %s", evzmq_context_get_error(home->context), word);
    }
}

static void the_longest_path_is_bound_and_a_byte_more_is_enametoolong(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];

    home_open(&home);
    for (size_t length = EVZMQ_CONTEXT_IPC_PATH_MAX + 1; length < 140; length++) {
        (void)endpoint_of(home.place, length, endpoint);
        assert_errno(evzmq_context_bind(home.context, home.pull, endpoint), ENAMETOOLONG);
        assert_error_names(&home, endpoint + strlen("ipc://"));
        assert_error_names(&home, PATH_MAX_TEXT);
    }
    assert_int_equal(place_count(home.place), 0);
    (void)endpoint_of(home.place, EVZMQ_CONTEXT_IPC_PATH_MAX, endpoint);
    assert_ok(evzmq_context_bind(home.context, home.pull, endpoint));
    assert_flows(*state, home.pull, endpoint);
    home_close(&home);
}

static void connecting_to_a_path_too_long_is_enametoolong(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];

    (void)state;
    home_open(&home);
    (void)endpoint_of(home.place, EVZMQ_CONTEXT_IPC_PATH_MAX + 1, endpoint);
    assert_errno(evzmq_context_connect(home.context, home.pull, endpoint), ENAMETOOLONG);
    assert_error_names(&home, endpoint + strlen("ipc://"));
    assert_error_names(&home, PATH_MAX_TEXT);
    home_close(&home);
}

static void connecting_to_a_path_where_nobody_is_succeeds_and_waits_for_somebody(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];
    char text[32];
    void *push = NULL;

    (void)state;
    home_open(&home);
    (void)endpoint_in(home.place, "later", endpoint);
    push = evzmq_context_socket(home.context, ZMQ_PUSH);
    assert_ok(evzmq_context_connect(home.context, push, endpoint));
    peer_send_text(push, "early");
    assert_int_equal(place_count(home.place), 0);
    assert_ok(evzmq_context_bind(home.context, home.pull, endpoint));
    peer_wait_readable(home.pull);
    (void)peer_recv_text(home.pull, text, sizeof text);
    assert_string_equal(text, "early");
    assert_ok(evzmq_context_close_socket(home.context, push));
    home_close(&home);
}

static void wildcards_get_a_new_path_each_in_the_private_directory(void **state)
{
    enum { SOCKETS = 100 };
    struct home home;
    void *sockets[SOCKETS];
    char prefix[PLACE_PATH_SIZE];

    home_open(&home);
    (void)snprintf(prefix, sizeof prefix, "ipc://%s/", evzmq_context_get_directory(home.context));
    for (size_t i = 0; i < SOCKETS; i++) {
        sockets[i] = evzmq_context_socket(home.context, ZMQ_PULL);
        assert_ok(evzmq_context_bind(home.context, sockets[i], "ipc://*"));
        assert_memory_equal(evzmq_context_get_endpoint(home.context, sockets[i]), prefix,
                            strlen(prefix));
        assert_int_equal(place_count(evzmq_context_get_directory(home.context)), i + 1);
    }
    assert_flows(*state, sockets[50], evzmq_context_get_endpoint(home.context, sockets[50]));
    for (size_t i = 0; i < SOCKETS; i++) {
        assert_ok(evzmq_context_close_socket(home.context, sockets[i]));
        assert_int_equal(place_count(evzmq_context_get_directory(home.context)), SOCKETS - 1 - i);
    }
    home_close(&home);
}

static void a_second_bind_on_a_live_path_is_eaddrinuse_and_the_first_goes_on(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];
    struct evzmq_context *const other = evzmq_context_new(0, NULL);
    void *const same = evzmq_context_socket(other, ZMQ_PULL);
    void *second = NULL;

    home_open(&home);
    (void)endpoint_in(home.place, "taken", endpoint);
    second = evzmq_context_socket(home.context, ZMQ_PULL);
    assert_ok(evzmq_context_bind(home.context, home.pull, endpoint));
    assert_errno(evzmq_context_bind(home.context, second, endpoint), EADDRINUSE);
    assert_error_names(&home, endpoint + strlen("ipc://"));
    assert_null(evzmq_context_get_endpoint(home.context, second));
    assert_errno(evzmq_context_bind(other, same, endpoint), EADDRINUSE);
    assert_flows(*state, home.pull, endpoint);
    assert_ok(evzmq_context_close_socket(home.context, second));
    assert_ok(evzmq_context_close_socket(other, same));
    assert_ok(evzmq_context_free(other));
    home_close(&home);
}

static void hold_path(void *arg)
{
    struct evzmq_context *const context = evzmq_context_new(0, NULL);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);

    child_check(pull != NULL && evzmq_context_bind(context, pull, arg) == 0);
    child_ready("bound");
    child_sleep();
}

static void a_path_of_another_process_is_refused_until_that_is_killed(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];
    char text[256];
    pid_t child = 0;

    home_open(&home);
    child = child_start(hold_path, (void *)(uintptr_t)endpoint_in(home.place, "p", endpoint), text);
    assert_errno(evzmq_context_bind(home.context, home.pull, endpoint), EADDRINUSE);
    child_kill(child);
    assert_int_equal(place_count(home.place), 2);
    assert_ok(evzmq_context_bind(home.context, home.pull, endpoint));
    assert_flows(*state, home.pull, endpoint);
    home_close(&home);
}

static void a_listener_that_knows_nothing_of_locks_is_not_stolen_from(void **state)
{
    struct fixture *const f = *state;
    struct home home;
    char endpoint[PLACE_PATH_SIZE];
    void *const plain = peer_new(f, ZMQ_PULL);

    home_open(&home);
    (void)endpoint_in(home.place, "plain", endpoint);
    assert_ok(zmq_bind(plain, endpoint));
    assert_errno(evzmq_context_bind(home.context, home.pull, endpoint), EADDRINUSE);
    assert_int_equal(place_count(home.place), 1);
    assert_flows(f, plain, endpoint);
    peer_close(f, plain);
    (void)unlink(endpoint + strlen("ipc://"));
    home_close(&home);
}

static void the_socket_a_dead_program_left_is_replaced(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];

    home_open(&home);
    (void)endpoint_in(home.place, "stale", endpoint);
    assert_ok(close(place_listen(endpoint + strlen("ipc://"))));
    assert_ok(evzmq_context_bind(home.context, home.pull, endpoint));
    assert_flows(*state, home.pull, endpoint);
    home_close(&home);
}

static void a_file_and_a_symbolic_link_at_the_path_are_eexist_and_stay(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];
    char file[PLACE_PATH_SIZE];
    char link[PLACE_PATH_SIZE];
    struct stat status;

    (void)state;
    home_open(&home);
    place_write(place_join(home.place, "file", file), "precious");
    assert_ok(symlink(file, place_join(home.place, "link", link)));
    assert_errno(
        evzmq_context_bind(home.context, home.pull, endpoint_in(home.place, "file", endpoint)),
        EEXIST);
    assert_error_names(&home, file);
    assert_errno(
        evzmq_context_bind(home.context, home.pull, endpoint_in(home.place, "link", endpoint)),
        EEXIST);
    assert_ok(lstat(link, &status));
    assert_true(S_ISLNK(status.st_mode));
    assert_ok(stat(file, &status));
    assert_int_equal(status.st_size, strlen("precious"));
    assert_int_equal(place_count(home.place), 2);
    assert_ok(unlink(link));
    assert_ok(unlink(file));
    home_close(&home);
}

static void a_symbolic_link_as_the_lock_file_is_not_followed(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];
    char target[PLACE_PATH_SIZE];
    char lock[PLACE_PATH_SIZE];

    (void)state;
    home_open(&home);
    (void)place_join(home.place, "target", target);
    assert_ok(symlink(target, place_join(home.place, "p.lock", lock)));
    assert_errno(
        evzmq_context_bind(home.context, home.pull, endpoint_in(home.place, "p", endpoint)), ELOOP);
    assert_false(place_has(target));
    assert_ok(unlink(lock));
    home_close(&home);
}

static void closing_a_socket_removes_its_files(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];

    (void)state;
    home_open(&home);
    assert_ok(evzmq_context_bind(home.context, home.pull, endpoint_in(home.place, "a", endpoint)));
    assert_ok(evzmq_context_bind(home.context, home.pull, endpoint_in(home.place, "b", endpoint)));
    assert_ok(evzmq_context_bind(home.context, home.pull, "ipc://*"));
    assert_int_equal(place_count(home.place), 5);
    assert_ok(evzmq_context_close_socket(home.context, home.pull));
    assert_int_equal(place_count(home.place), 1);
    assert_int_equal(place_count(evzmq_context_get_directory(home.context)), 0);
    home.pull = NULL;
    home_close(&home);
}

/* Another socket at the path of one, which some file systems give the same number; only the time
 * tells them apart, and it advances in ticks. */
static int steal(const char *path)
{
    struct stat before;
    struct stat after;
    int thief = -1;

    assert_ok(stat(path, &before));
    do {
        if (thief >= 0) {
            (void)close(thief);
        }
        assert_ok(unlink(path));
        thief = place_listen(path);
        assert_ok(stat(path, &after));
    } while (memcmp(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim) == 0);
    return thief;
}

static void what_somebody_put_in_a_sockets_place_is_not_removed(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];
    const char *path = NULL;
    char directory[PLACE_PATH_SIZE];
    int thief = -1;

    (void)state;
    home_open(&home);
    assert_ok(evzmq_context_bind(home.context, home.pull, endpoint_in(home.place, "p", endpoint)));
    thief = steal(endpoint + strlen("ipc://"));
    assert_ok(evzmq_context_close_socket(home.context, home.pull));
    assert_true(place_has(endpoint + strlen("ipc://")));
    assert_int_equal(place_count(home.place), 1);
    assert_ok(close(thief));
    assert_ok(unlink(endpoint + strlen("ipc://")));

    home.pull = evzmq_context_socket(home.context, ZMQ_PULL);
    assert_ok(evzmq_context_bind(home.context, home.pull, "ipc://*"));
    path = evzmq_context_get_endpoint(home.context, home.pull);
    (void)snprintf(endpoint, sizeof endpoint, "%s", path);
    (void)snprintf(directory, sizeof directory, "%s", evzmq_context_get_directory(home.context));
    thief = steal(endpoint + strlen("ipc://"));
    assert_ok(evzmq_context_close_socket(home.context, home.pull));
    home.pull = NULL;
    assert_ok(evzmq_context_close(home.context));
    assert_true(place_has(endpoint + strlen("ipc://")));
    assert_ok(close(thief));
    assert_ok(unlink(endpoint + strlen("ipc://")));
    assert_ok(rmdir(directory));
    home_close(&home);
}

static void an_abstract_name_that_is_taken_is_eaddrinuse_until_its_process_is_killed(void **state)
{
    struct home home;
    char name[64];
    char text[256];
    void *second = NULL;
    pid_t child = 0;

    home_open(&home);
    (void)snprintf(name, sizeof name, "ipc://@evzmq-test-%ld-taken", (long)getpid());
    child = child_start(hold_path, name, text);
    assert_errno(evzmq_context_bind(home.context, home.pull, name), EADDRINUSE);
    assert_error_names(&home, name);
    child_kill(child);
    assert_ok(evzmq_context_bind(home.context, home.pull, name));
    second = evzmq_context_socket(home.context, ZMQ_PULL);
    assert_errno(evzmq_context_bind(home.context, second, name), EADDRINUSE);
    assert_flows(*state, home.pull, name);
    assert_int_equal(place_count(home.place), 0);
    assert_ok(evzmq_context_close_socket(home.context, second));
    home_close(&home);
}

static void a_path_whose_directory_others_could_change_is_refused(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];
    char directory[PLACE_PATH_SIZE];
    char link[PLACE_PATH_SIZE];

    (void)state;
    home_open(&home);
    assert_ok(mkdir(place_join(home.place, "real", directory), 0700));
    assert_ok(symlink(directory, place_join(home.place, "link", link)));
    assert_errno(
        evzmq_context_bind(home.context, home.pull, endpoint_in(home.place, "link/p", endpoint)),
        ELOOP);
    (void)endpoint_in(home.place, "real/p", endpoint);
    assert_ok(chmod(directory, 0777));
    assert_errno(evzmq_context_bind(home.context, home.pull, endpoint), EACCES);
    assert_int_equal(place_count(directory), 0);
    assert_ok(chmod(directory, 01777)); /* As /tmp has it. */
    assert_ok(evzmq_context_bind(home.context, home.pull, endpoint));
    assert_ok(evzmq_context_close_socket(home.context, home.pull));
    home.pull = NULL;
    assert_int_equal(place_count(directory), 0);
    assert_ok(unlink(link));
    assert_ok(rmdir(directory));
    home_close(&home);
}

static void the_monitor_tells_that_nobody_is_at_a_path(void **state)
{
    struct fixture *const f = *state;
    struct watch watch = {0};
    char endpoint[PLACE_PATH_SIZE];
    char place[64];
    void *const push = peer_new(f, ZMQ_PUSH);

    place_make(place);
    watch_open(f, &watch, push, EVZMQ_MONITOR_ALL);
    peer_connect(push, endpoint_in(place, "nobody", endpoint));
    run_until(f, watch_count(&watch, EVZMQ_MONITOR_CONNECT_RETRIED) > 0);
    assert_int_equal(watch_count(&watch, EVZMQ_MONITOR_CONNECTED), 0);
    watch_close(&watch);
    place_remove(place);
}

static void a_failed_bind_leaves_no_file(void **state)
{
    struct home home;
    char endpoint[PLACE_PATH_SIZE];

    (void)state;
    home_open(&home);
    assert_errno(evzmq_context_bind(home.context, home.pull, "ipc://"), EINVAL);
    assert_errno(evzmq_context_bind(home.context, home.pull, "nothing://x"), EPROTONOSUPPORT);
    assert_error_names(&home, "nothing://x");
    assert_errno(evzmq_context_bind(home.context, home.pull, NULL), EINVAL);
    assert_errno(evzmq_context_bind(home.context, NULL, "ipc://*"), EINVAL);
    assert_errno(evzmq_context_bind(NULL, home.pull, "ipc://*"), EINVAL);
    assert_errno(
        evzmq_context_bind(home.context, home.pull, endpoint_in(home.place, "no/p", endpoint)),
        ENOENT);
    assert_int_equal(place_count(home.place), 0);
    home_close(&home);
}

/* Four processes want one path, again and again. */
static void fight_for_path(void *arg)
{
    enum { ROUNDS = 10 };
    struct evzmq_context *const context = evzmq_context_new(0, NULL);
    char guard[PLACE_PATH_SIZE];

    (void)snprintf(guard, sizeof guard, "%s-guard", (const char *)arg + strlen("ipc://"));
    for (int wins = 0; wins < ROUNDS;) {
        void *const pull = evzmq_context_socket(context, ZMQ_PULL);

        if (evzmq_context_bind(context, pull, arg) == 0) {
            child_check(mkdir(guard, 0700) == 0); /* Fails when somebody else holds the path. */
            child_check(place_has((const char *)arg + strlen("ipc://")));
            child_check(rmdir(guard) == 0);
            wins++;
        } else {
            child_check(errno == EADDRINUSE);
        }
        child_check(evzmq_context_close_socket(context, pull) == 0);
    }
    child_check(evzmq_context_free(context) == 0);
}

static void of_processes_that_fight_for_one_path_one_at_a_time_has_it(void **state)
{
    enum { CHILDREN = 4 };
    char place[64];
    char endpoint[PLACE_PATH_SIZE];
    pid_t children[CHILDREN];

    (void)state;
    place_make(place);
    (void)endpoint_in(place, "p", endpoint);
    for (size_t i = 0; i < CHILDREN; i++) {
        children[i] = child_fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            fight_for_path(endpoint);
            _exit(0);
        }
    }
    for (size_t i = 0; i < CHILDREN; i++) {
        int status = 1;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    place_remove(place);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(the_longest_path_is_bound_and_a_byte_more_is_enametoolong),
        claim(connecting_to_a_path_too_long_is_enametoolong),
        claim(connecting_to_a_path_where_nobody_is_succeeds_and_waits_for_somebody),
        claim(wildcards_get_a_new_path_each_in_the_private_directory),
        claim(a_second_bind_on_a_live_path_is_eaddrinuse_and_the_first_goes_on),
        claim(a_path_of_another_process_is_refused_until_that_is_killed),
        claim(a_listener_that_knows_nothing_of_locks_is_not_stolen_from),
        claim(the_socket_a_dead_program_left_is_replaced),
        claim(a_file_and_a_symbolic_link_at_the_path_are_eexist_and_stay),
        claim(a_symbolic_link_as_the_lock_file_is_not_followed),
        claim(closing_a_socket_removes_its_files),
        claim(what_somebody_put_in_a_sockets_place_is_not_removed),
        claim(an_abstract_name_that_is_taken_is_eaddrinuse_until_its_process_is_killed),
        claim(a_path_whose_directory_others_could_change_is_refused),
        claim(the_monitor_tells_that_nobody_is_at_a_path),
        claim(a_failed_bind_leaves_no_file),
        claim(of_processes_that_fight_for_one_path_one_at_a_time_has_it),
    };

    return run_claims(tests);
}
