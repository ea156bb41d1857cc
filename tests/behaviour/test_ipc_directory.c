/**
 * @file test_ipc_directory.c
 * The private directory of a context: where it is made, who gets in, and what becomes of those that
 * killed processes leave.
 */
#include "support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "place.h"

static struct evzmq_context *context_in(const char *place)
{
    struct evzmq_context *const context = evzmq_context_new(0, place);

    assert_non_null(context);
    return context;
}

/* A PULL socket bound in the private directory. */
static void *bound_pull(struct evzmq_context *context)
{
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);

    assert_non_null(pull);
    assert_ok(evzmq_context_bind(context, pull, "ipc://*"));
    return pull;
}

static void close_all(struct evzmq_context *context, void *zmq_socket)
{
    assert_ok(evzmq_context_close_socket(context, zmq_socket));
    assert_ok(evzmq_context_free(context));
}

static void assert_works(struct fixture *f, struct evzmq_context *context, void *pull)
{
    void *const push = peer_new(f, ZMQ_PUSH);
    char text[32];

    peer_connect(push, evzmq_context_get_endpoint(context, pull));
    peer_send_text(push, "hello");
    (void)peer_recv_text(pull, text, sizeof text);
    assert_string_equal(text, "hello");
    peer_close(f, push);
}

static void assert_refused(const char *place, int error, const char *word)
{
    struct evzmq_context *const context = context_in(place);

    errno = 0;
    assert_null(evzmq_context_get_directory(context));
    assert_int_equal(errno, error);
    if (strstr(evzmq_context_get_error(context), word) == NULL) {
        fail_msg("\"%s\" does not say %s", evzmq_context_get_error(context), word);
    }
    assert_ok(evzmq_context_free(context));
}

static void the_directory_comes_with_the_first_endpoint_and_goes_with_the_context(void **state)
{
    char place[64];
    struct evzmq_context *context = NULL;
    void *pull = NULL;
    void *push = NULL;

    (void)state;
    place_make(place);
    context = context_in(place);
    push = evzmq_context_socket(context, ZMQ_PUSH);
    assert_ok(evzmq_context_bind(context, push, "tcp://127.0.0.1:*"));
    assert_int_equal(place_count(place), 0);
    pull = bound_pull(context);
    assert_int_equal(place_count(place), 1);
    assert_ok(evzmq_context_close_socket(context, push));
    close_all(context, pull);
    place_remove(place);
}

static void the_usual_place_is_used_whatever_tmpdir_says(void **state)
{
    struct evzmq_context *const context = context_in(NULL);
    const char *const before = getenv("TMPDIR");
    const char *path = NULL;
    void *pull = NULL;

    assert_ok(setenv("TMPDIR", "/nonexistent", 1));
    pull = bound_pull(context);
    path = evzmq_context_get_directory(context);
    assert_true(strncmp(path, "/dev/shm/evzmq-", 15) == 0 || strncmp(path, "/tmp/evzmq-", 11) == 0);
    assert_works(*state, context, pull);
    close_all(context, pull);
    assert_ok(before == NULL ? unsetenv("TMPDIR") : setenv("TMPDIR", before, 1));
}

static void the_mode_is_0700_under_any_umask_and_the_umask_stays(void **state)
{
    static const mode_t masks[] = {0, 022, 077, 0777};
    const mode_t before = umask(0);
    char place[64];

    (void)state;
    place_make(place);
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        struct evzmq_context *const context = context_in(place);
        struct stat status;
        void *pull = NULL;

        (void)umask(masks[i]);
        pull = bound_pull(context);
        assert_int_equal(umask(before), masks[i]);
        assert_ok(stat(evzmq_context_get_directory(context), &status));
        assert_int_equal(status.st_mode & 0777, 0700);
        assert_ok(stat(evzmq_context_get_endpoint(context, pull) + strlen("ipc://"), &status));
        assert_int_equal(status.st_mode & 0777, 0600);
        close_all(context, pull);
    }
    place_remove(place);
}

static void an_unusable_place_is_refused_with_a_reason(void **state)
{
    char place[64];
    char path[PLACE_PATH_SIZE];
    char longer[PLACE_PATH_SIZE];

    (void)state;
    place_make(place);
    assert_refused("/nonexistent/place", ENOENT, "/nonexistent/place");
    place_write(place_join(place, "file", path), "x");
    assert_refused(path, ENOTDIR, path);
    assert_ok(unlink(path));

    assert_ok(symlink(place, place_join(place, "link", path)));
    assert_refused(path, ELOOP, path);
    assert_ok(unlink(path));

    memset(longer, 'x', sizeof longer);
    longer[100 - strlen(place)] = '\0';
    assert_ok(mkdir(place_join(place, longer, path), 0700));
    assert_refused(path, ENAMETOOLONG, path);
    (void)snprintf(longer, sizeof longer, "%d", EVZMQ_CONTEXT_IPC_PATH_MAX);
    assert_refused(path, ENAMETOOLONG, longer);
    assert_ok(rmdir(path));
    place_remove(place);
}

static void a_place_others_may_write_to_is_refused_unless_it_is_sticky(void **state)
{
    char place[64];
    char inner[PLACE_PATH_SIZE];
    struct evzmq_context *context = NULL;

    (void)state;
    place_make(place);
    assert_ok(mkdir(place_join(place, "inner", inner), 0700));
    assert_ok(chmod(place, 0777));
    assert_refused(place, EACCES, place);
    assert_refused(inner, EACCES, place);
    assert_ok(chmod(place, 0720));
    assert_refused(place, EACCES, place);
    assert_ok(chmod(place, 01777));
    context = context_in(inner);
    assert_non_null(evzmq_context_get_directory(context));
    assert_ok(evzmq_context_free(context));
    assert_ok(rmdir(inner));
    place_remove(place);
}

static void expect_refused_place(void *arg)
{
    struct evzmq_context *const context = evzmq_context_new(0, arg);

    child_check(context != NULL);
    child_check(evzmq_context_get_directory(context) == NULL && errno == EACCES);
    child_check(strstr(evzmq_context_get_error(context), arg) != NULL);
    child_check(evzmq_context_free(context) == 0);
}

static void a_place_another_user_made_is_refused(void **state)
{
    char place[64];
    char inner[PLACE_PATH_SIZE];

    (void)state;
    place_make(place);
    assert_ok(chmod(place, 01777));
    assert_ok(mkdir(place_join(place, "inner", inner), 0700));
    child_run_as_other(expect_refused_place, inner);
    assert_ok(chown(inner, CHILD_OTHER_USER, CHILD_OTHER_USER));
    assert_refused(inner, EACCES, inner);
    assert_ok(rmdir(inner));
    place_remove(place);
}

static void a_place_without_write_permission_is_eacces(void **state)
{
    char place[64];

    (void)state;
    place_make(place);
    assert_ok(chmod(place, 0755));
    child_run_as_other(expect_refused_place, place);
    place_remove(place);
}

/* What another user finds at an ipc endpoint. */
static int raw_connect(const char *endpoint)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *const path = endpoint + strlen("ipc://");
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);

    child_check(s >= 0 && strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@') {
        address.sun_path[0] = '\0';
    }
    return connect(s, (const struct sockaddr *)&address,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) == 0
               ? s
               : -1;
}

static void expect_eacces(void *arg)
{
    child_check(raw_connect(arg) == -1 && errno == EACCES);
}

static void expect_no_greeting(void *arg)
{
    char byte = 0;
    const int s = raw_connect(arg);

    child_check(s >= 0);
    child_check(read(s, &byte, 1) <= 0);
}

static void expect_greeting(void *arg)
{
    unsigned char byte = 0;
    const int s = raw_connect(arg);

    child_check(s >= 0);
    child_check(read(s, &byte, 1) == 1 && byte == 0xff);
}

static void another_user_cannot_reach_an_endpoint_in_the_directory(void **state)
{
    struct evzmq_context *const context = context_in(NULL);
    void *const pull = bound_pull(context);
    char endpoint[PLACE_PATH_SIZE];

    (void)snprintf(endpoint, sizeof endpoint, "%s", evzmq_context_get_endpoint(context, pull));
    child_run(expect_greeting, endpoint);
    child_run_as_other(expect_eacces, endpoint);
    assert_works(*state, context, pull);
    close_all(context, pull);
}

static void another_user_reaches_an_abstract_name_only_where_that_was_asked_for(void **state)
{
    const struct evzmq_context_limits any = {.size = sizeof any, .peers = EVZMQ_CONTEXT_PEERS_ANY};
    struct evzmq_context *const context = context_in(NULL);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);
    void *open = NULL;
    char closed_name[64];
    char open_name[64];

    (void)snprintf(closed_name, sizeof closed_name, "ipc://@evzmq-test-%ld-a", (long)getpid());
    (void)snprintf(open_name, sizeof open_name, "ipc://@evzmq-test-%ld-b", (long)getpid());
    assert_ok(evzmq_context_bind(context, pull, closed_name));
    assert_ok(evzmq_context_set_limits(context, &any));
    open = evzmq_context_socket(context, ZMQ_PULL);
    assert_errno(evzmq_context_bind(context, open, closed_name), EADDRINUSE);
    assert_ok(evzmq_context_bind(context, open, open_name));
    child_run(expect_greeting, closed_name);
    child_run_as_other(expect_no_greeting, closed_name);
    child_run_as_other(expect_greeting, open_name);
    assert_works(*state, context, pull);
    assert_ok(evzmq_context_close_socket(context, open));
    close_all(context, pull);
}

static void what_another_user_put_at_a_path_is_refused_and_stays(void **state)
{
    struct evzmq_context *const context = context_in(NULL);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);
    char place[64];
    char path[PLACE_PATH_SIZE];
    char endpoint[PLACE_PATH_SIZE + 8];

    (void)state;
    if (geteuid() != 0) {
        print_message("only root can be two users\n");
        assert_ok(evzmq_context_close_socket(context, pull));
        assert_ok(evzmq_context_free(context));
        skip();
    }
    place_make(place);
    assert_ok(chmod(place, 01777));
    (void)place_join(place, "p", path);
    (void)snprintf(endpoint, sizeof endpoint, "ipc://%s", path);
    assert_ok(close(place_listen(path)));
    assert_ok(lchown(path, CHILD_OTHER_USER, CHILD_OTHER_USER));
    assert_errno(evzmq_context_bind(context, pull, endpoint), EEXIST);
    assert_true(place_has(path));
    assert_ok(unlink(path));

    (void)place_join(place, "p.lock", path);
    place_write(path, "");
    assert_ok(lchown(path, CHILD_OTHER_USER, CHILD_OTHER_USER));
    assert_errno(evzmq_context_bind(context, pull, endpoint), EACCES);
    assert_true(place_has(path));
    assert_ok(unlink(path));
    close_all(context, pull);
    place_remove(place);
}

static void hold_directory(void *arg)
{
    struct evzmq_context *const context = evzmq_context_new(0, arg);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);

    child_check(pull != NULL && evzmq_context_bind(context, pull, "ipc://*") == 0);
    child_ready(evzmq_context_get_endpoint(context, pull));
    child_sleep();
}

static void the_next_context_clears_away_what_a_killed_process_left(void **state)
{
    char place[64];
    char text[256];
    struct evzmq_context *context = NULL;
    void *pull = NULL;

    place_make(place);
    for (int i = 0; i < 3; i++) {
        pid_t children[2];

        children[0] = child_start(hold_directory, place, text);
        children[1] = child_start(hold_directory, place, text);
        child_kill(children[0]);
        child_kill(children[1]);
        assert_int_equal(place_count(place), 2);
        context = context_in(place);
        pull = bound_pull(context);
        assert_int_equal(place_count(place), 1);
        assert_works(*state, context, pull);
        close_all(context, pull);
    }
    place_remove(place);
}

static void directories_of_the_living_are_not_cleared_away(void **state)
{
    struct fixture *const f = *state;
    char place[64];
    char endpoint[256];
    struct evzmq_context *contexts[2];
    void *pulls[2];
    void *push = NULL;
    pid_t child = 0;

    place_make(place);
    child = child_start(hold_directory, place, endpoint);
    for (size_t i = 0; i < 2; i++) {
        contexts[i] = context_in(place);
        pulls[i] = bound_pull(contexts[i]);
    }
    assert_int_equal(place_count(place), 3);
    assert_works(f, contexts[0], pulls[0]);
    push = peer_new(f, ZMQ_PUSH);
    peer_set_int(push, ZMQ_IMMEDIATE, 1); /* It sends only once the child has answered. */
    peer_connect(push, endpoint);
    peer_send_text(push, "alive?");
    peer_close(f, push);
    close_all(contexts[0], pulls[0]);
    close_all(contexts[1], pulls[1]);
    child_kill(child);
    contexts[0] = context_in(place);
    close_all(contexts[0], bound_pull(contexts[0]));
    place_remove(place);
}

static void clearing_away_touches_nothing_that_is_not_a_left_directory(void **state)
{
    char place[64];
    char target[PLACE_PATH_SIZE];
    char link[PLACE_PATH_SIZE];
    char file[PLACE_PATH_SIZE];
    char used[PLACE_PATH_SIZE];
    char inside[PLACE_PATH_SIZE];
    char open[PLACE_PATH_SIZE];
    struct evzmq_context *context = NULL;

    (void)state;
    place_make(place);
    assert_ok(mkdir(place_join(place, "target", target), 0700));
    assert_ok(symlink(target, place_join(place, "evzmq-aaaaaa", link)));
    place_write(place_join(place, "evzmq-bbbbbb", file), "x");
    assert_ok(mkdir(place_join(place, "evzmq-cccccc", used), 0700));
    place_write(place_join(used, "file", inside), "x");
    assert_ok(mkdir(place_join(place, "evzmq-dddddd", open), 0755));
    assert_ok(chmod(open, 0755));
    context = context_in(place);
    assert_non_null(evzmq_context_get_directory(context));
    assert_ok(evzmq_context_free(context));
    assert_int_equal(place_count(place), 5);
    assert_true(place_has(inside));
    assert_ok(rmdir(open));
    assert_ok(unlink(inside));
    assert_ok(rmdir(used));
    assert_ok(unlink(file));
    assert_ok(unlink(link));
    assert_ok(rmdir(target));
    place_remove(place);
}

/* Makes and ends contexts, some of them by dying. */
static void come_and_go(void *arg)
{
    for (int round = 0; round < 10; round++) {
        struct evzmq_context *const context = evzmq_context_new(0, arg);
        void *const pull = evzmq_context_socket(context, ZMQ_PULL);
        void *const push = evzmq_context_socket(context, ZMQ_PUSH);
        char byte = 0;

        child_check(pull != NULL && push != NULL);
        if (evzmq_context_bind(context, pull, "ipc://*") != 0) {
            (void)fprintf(stderr, "%s\n", evzmq_context_get_error(context));
            _exit(1);
        }
        child_check(
            evzmq_context_connect(context, push, evzmq_context_get_endpoint(context, pull)) == 0);
        child_check(zmq_send(push, "x", 1, 0) == 1);
        child_check(zmq_recv(pull, &byte, 1, 0) == 1 && byte == 'x');
        child_check(evzmq_context_close_socket(context, pull) == 0);
        child_check(evzmq_context_close_socket(context, push) == 0);
        child_check(evzmq_context_free(context) == 0);
    }
    (void)evzmq_context_get_directory(evzmq_context_new(0, arg));
    (void)raise(SIGKILL);
}

static void processes_that_come_and_go_in_one_place_do_not_disturb_each_other(void **state)
{
    enum { CHILDREN = 4 };
    char place[64];
    pid_t children[CHILDREN];
    struct evzmq_context *context = NULL;

    (void)state;
    place_make(place);
    for (size_t i = 0; i < CHILDREN; i++) {
        children[i] = child_fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            come_and_go(place);
            _exit(2);
        }
    }
    for (size_t i = 0; i < CHILDREN; i++) {
        int status = 0;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    context = context_in(place);
    assert_non_null(evzmq_context_get_directory(context));
    assert_ok(evzmq_context_free(context));
    place_remove(place);
}

static void make_file(const char *directory, const char *name)
{
    char path[256];
    FILE *file = NULL;

    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static void remove_file(const char *directory, const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(unlink(path)); /* It is still there. */
}

static void files_that_others_put_into_the_directory_stay(void **state)
{
    char place[64];
    struct evzmq_context *context = NULL;
    const char *directory = NULL;
    void *pull = NULL;

    place_make(place);
    context = context_in(place);
    directory = evzmq_context_get_directory(context);
    assert_non_null(directory);
    make_file(directory, "0");
    make_file(directory, "1");
    pull = bound_pull(context);
    assert_works(*state, context, pull);
    assert_ok(evzmq_context_close_socket(context, pull));
    remove_file(directory, "0");
    remove_file(directory, "1");
    assert_ok(evzmq_context_free(context));
    place_remove(place);
}

static void nothing_is_bound_where_another_directory_took_the_place_of_the_private_one(void **state)
{
    char place[64];
    char other[64];
    char aside[256];
    struct evzmq_context *context = NULL;
    const char *directory = NULL;
    void *pull = NULL;

    (void)state;
    place_make(place);
    place_make(other);
    context = context_in(place);
    directory = evzmq_context_get_directory(context);
    assert_non_null(directory);
    pull = evzmq_context_socket(context, ZMQ_PULL);
    assert_non_null(pull);
    (void)snprintf(aside, sizeof aside, "%s/aside", place);
    assert_ok(rename(directory, aside));
    assert_errno(evzmq_context_bind(context, pull, "ipc://*"), ENOENT);
    assert_non_null(strstr(evzmq_context_get_error(context), "removed or replaced"));
    assert_ok(symlink(other, directory));
    assert_errno(evzmq_context_bind(context, pull, "ipc://*"), ENOENT);
    assert_int_equal(place_count(other), 0);
    assert_ok(unlink(directory));
    assert_ok(rename(aside, directory));
    assert_ok(evzmq_context_bind(context, pull, "ipc://*"));
    close_all(context, pull);
    place_remove(other);
    place_remove(place);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(the_directory_comes_with_the_first_endpoint_and_goes_with_the_context),
        claim(the_usual_place_is_used_whatever_tmpdir_says),
        claim(the_mode_is_0700_under_any_umask_and_the_umask_stays),
        claim(an_unusable_place_is_refused_with_a_reason),
        claim(a_place_others_may_write_to_is_refused_unless_it_is_sticky),
        claim(a_place_another_user_made_is_refused),
        claim(a_place_without_write_permission_is_eacces),
        claim(another_user_cannot_reach_an_endpoint_in_the_directory),
        claim(another_user_reaches_an_abstract_name_only_where_that_was_asked_for),
        claim(what_another_user_put_at_a_path_is_refused_and_stays),
        claim(files_that_others_put_into_the_directory_stay),
        claim(nothing_is_bound_where_another_directory_took_the_place_of_the_private_one),
        claim(the_next_context_clears_away_what_a_killed_process_left),
        claim(directories_of_the_living_are_not_cleared_away),
        claim(clearing_away_touches_nothing_that_is_not_a_left_directory),
        claim(processes_that_come_and_go_in_one_place_do_not_disturb_each_other),
    };

    return run_claims(tests);
}
