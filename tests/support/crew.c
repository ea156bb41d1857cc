/**
 * @file crew.c
 * See crew.h. The worker half uses nothing of cmocka.
 */
#include "crew.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The worker half. */

struct role {
    struct event_base *base;
    const char *kind;
    char kept[64][64];
    size_t kept_count;
};

static int is_kind(const struct role *role, const char *kind)
{
    return strcmp(role->kind, kind) == 0;
}

static void answer_big(struct evzmq_worker *worker, size_t size)
{
    char *const data = calloc(1, size + 1);

    if (data == NULL) {
        _exit(7);
    }
    (void)evzmq_worker_answer(worker, data, size, 0);
    free(data);
}

static void answer_parts(struct evzmq_worker *worker)
{
    const struct evzmq_bytes parts[] = {{"a", 1}, {"b", 1}};

    (void)evzmq_worker_answer_parts(worker, parts, 2, 0);
}

static void obey(struct role *role, struct evzmq_worker *worker, const char *text,
                 struct evzmq_message *message)
{
    char pid[32];

    (void)role;
    if (strncmp(text, "exit ", 5) == 0) {
        _exit((int)strtol(text + 5, NULL, 10));
    } else if (strcmp(text, "kill") == 0) {
        (void)raise(SIGKILL);
    } else if (strcmp(text, "stop") == 0) {
        (void)raise(SIGSTOP);
    } else if (strncmp(text, "busy ", 5) == 0) {
        (void)poll(NULL, 0, (int)strtol(text + 5, NULL, 10));
        (void)evzmq_worker_answer(worker, "done", 4, 0);
    } else if (strcmp(text, "twice") == 0) {
        (void)evzmq_worker_answer(worker, "once", 4, EVZMQ_POOL_FLAG_MORE);
        (void)evzmq_worker_answer(worker, "again", 5, 0);
    } else if (strcmp(text, "parts") == 0) {
        answer_parts(worker);
    } else if (strcmp(text, "pid") == 0) {
        (void)snprintf(pid, sizeof pid, "%ld", (long)getpid());
        (void)evzmq_worker_answer(worker, pid, strlen(pid), 0);
    } else if (strncmp(text, "big ", 4) == 0) {
        answer_big(worker, (size_t)strtoul(text + 4, NULL, 10));
    } else if (strcmp(text, "mute") != 0) {
        struct evzmq_message *const copy = evzmq_message_new();

        for (size_t i = 1; i < evzmq_message_get_part_count(message); i++) {
            size_t size = 0;
            const void *const data = evzmq_message_get_part(message, i, &size);

            (void)evzmq_message_add(copy, data, size);
        }
        if (evzmq_worker_answer_message(worker, copy, 0) != 0) {
            evzmq_message_free(copy);
        }
    }
}

static void on_request(struct evzmq_worker *worker, struct evzmq_message *message, void *arg)
{
    struct role *const role = arg;
    char text[64] = "";
    size_t size = 0;
    const void *const data = evzmq_message_get_part(message, 1, &size);

    if (size < sizeof text) {
        memcpy(text, data, size);
        text[size] = '\0';
    }
    if (is_kind(role, "late") && role->kept_count < 64) {
        memcpy(role->kept[role->kept_count++], text, sizeof text);
        return;
    }
    obey(role, worker, text, message);
}

static void on_worker_event(struct evzmq_worker *worker, const struct evzmq_worker_event *event,
                            void *arg)
{
    struct role *const role = arg;

    if (event->type != EVZMQ_WORKER_EVENT_END) {
        return;
    }
    if (is_kind(role, "deaf") && event->reason == EVZMQ_WORKER_REASON_ASKED) {
        evzmq_worker_hold(worker);
    }
    if (is_kind(role, "late")) {
        for (size_t i = 0; i < role->kept_count; i++) {
            (void)evzmq_worker_answer(worker, role->kept[i], strlen(role->kept[i]), 0);
        }
    }
}

static int work(struct role *role, const char *connection)
{
    struct evzmq_worker *worker = NULL;

    role->base = event_base_new();
    worker = role->base == NULL ? NULL : evzmq_worker_new(role->base, connection, NULL);
    if (worker == NULL) {
        (void)fprintf(stderr, "worker: %s\n", strerror(errno));
        return 9;
    }
    evzmq_worker_setcb(worker, on_request, on_worker_event, role);
    (void)event_base_dispatch(role->base);
    evzmq_worker_free(worker);
    event_base_free(role->base);
    return 0;
}

void crew_main(int argc, char **argv)
{
    static struct role role;

    if (argc < 4 || strcmp(argv[1], "--worker") != 0) {
        return;
    }
    role.kind = argv[2];
    if (is_kind(&role, "fail")) {
        exit(1);
    }
    if (is_kind(&role, "deaf")) {
        (void)signal(SIGTERM, SIG_IGN);
    }
    if (is_kind(&role, "asleep")) {
        (void)alarm(120); /* Should the test be gone. */
        for (;;) {
            (void)pause();
        }
    }
    exit(work(&role, argv[argc - 1]));
}

/* The main half. */

long long crew_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct evzmq_pool_options crew_options(const char *kind)
{
    static char path[512];
    static const char *argv[4];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);

    assert_true(length > 0);
    path[length] = '\0';
    argv[0] = path;
    argv[1] = "--worker";
    argv[2] = kind;
    argv[3] = NULL;
    return (struct evzmq_pool_options){.size = sizeof(struct evzmq_pool_options),
                                       .worker_argv = argv};
}

static void on_answer(struct evzmq_pool *pool, unsigned worker, struct evzmq_message *message,
                      void *arg)
{
    struct crew *const crew = arg;
    size_t used = 0;

    assert_ptr_equal(pool, crew->pool);
    assert_true(crew->f->dispatching);
    assert_true(worker < evzmq_pool_get_workers(pool));
    crew->answers++;
    crew->answers_of[worker]++;
    crew->answer_worker = worker;
    crew->answer[0] = '\0';
    for (size_t i = 1; i < evzmq_message_get_part_count(message); i++) {
        size_t size = 0;
        const char *const data = evzmq_message_get_part(message, i, &size);

        if (used + size + 2 < sizeof crew->answer) {
            used += (size_t)snprintf(crew->answer + used, sizeof crew->answer - used, "%s%.*s",
                                     i > 1 ? "|" : "", (int)size, data);
        }
    }
    if (crew->on_answer != NULL) {
        crew->on_answer(crew, worker, message);
    }
}

static void on_event(struct evzmq_pool *pool, const struct evzmq_pool_event *event, void *arg)
{
    struct crew *const crew = arg;

    assert_ptr_equal(pool, crew->pool);
    assert_true(crew->f->dispatching);
    assert_int_equal(event->size, sizeof *event);
    crew->events[event->type]++;
    crew->last = *event;
    crew->last.message = NULL;
    crew->last.socket_event = NULL;
    if (event->type == EVZMQ_POOL_EVENT_LOST) {
        crew->last_loss = crew->last;
    }
    if (crew->on_event != NULL) {
        crew->on_event(crew, event);
    }
}

void crew_open_context(struct fixture *f, struct crew *crew)
{
    crew->f = f;
    (void)snprintf(crew->directory, sizeof crew->directory, "%s/evzmq-crew-XXXXXX", P_tmpdir);
    assert_non_null(mkdtemp(crew->directory));
    crew->context = evzmq_context_new(1, crew->directory);
    assert_non_null(crew->context);
}

void crew_open(struct fixture *f, struct crew *crew, unsigned n_workers,
               const struct evzmq_pool_options *options)
{
    if (crew->context == NULL) {
        crew_open_context(f, crew);
    }
    crew->pool = evzmq_pool_new(f->base, crew->context, n_workers, options);
    if (crew->pool == NULL) {
        fail_msg("evzmq_pool_new: %s (%s)", evzmq_strerror(errno),
                 evzmq_context_get_error(crew->context));
    }
    evzmq_pool_setcb(crew->pool, on_answer, on_event, crew);
    assert_ok(evzmq_pool_enable(crew->pool));
}

void crew_note_ready(struct evzmq_pool *pool, unsigned ready, int error, void *arg)
{
    struct crew *const crew = arg;

    assert_ptr_equal(pool, crew->pool);
    assert_true(crew->f->dispatching);
    crew->ready_done++;
    crew->ready_count = ready;
    crew->ready_error = error;
}

void crew_note_end(struct evzmq_pool *pool, const struct evzmq_pool_report *report, void *arg)
{
    struct crew *const crew = arg;

    assert_ptr_equal(pool, crew->pool);
    assert_true(crew->f->dispatching);
    crew->ended++;
    crew->report = *report;
}

void crew_wait_ready(struct crew *crew)
{
    const struct timeval timeout = {30, 0};

    crew->ready_done = 0;
    assert_ok(evzmq_pool_check_ready(crew->pool, &timeout, crew_note_ready, crew));
    run_until(crew->f, crew->ready_done);
    assert_int_equal(crew->ready_error, 0);
    assert_int_equal(crew->ready_count, evzmq_pool_get_workers(crew->pool));
}

void crew_shutdown(struct crew *crew, int deadline_ms)
{
    const struct timeval deadline = {deadline_ms / 1000, (deadline_ms % 1000) * 1000};

    assert_ok(evzmq_pool_shutdown(crew->pool, &deadline, crew_note_end, crew));
    run_until(crew->f, crew->ended);
}

void crew_endpoint(const struct crew *crew, unsigned worker, const char *name,
                   char out[ENDPOINT_SIZE])
{
    char key[32];
    const char *at = evzmq_pool_get_connection(crew->pool, worker);

    assert_non_null(at);
    (void)snprintf(key, sizeof key, ",%s=", name);
    at = strstr(at, key);
    assert_non_null(at);
    at += strlen(key);
    (void)snprintf(out, ENDPOINT_SIZE, "%.*s", (int)strcspn(at, ","), at);
}

int crew_count_entries(const char *path)
{
    DIR *const directory = opendir(path);
    int count = 0;

    if (directory == NULL) {
        return -1;
    }
    while (readdir(directory) != NULL) {
        count++;
    }
    (void)closedir(directory);
    return count - 2;
}

void crew_assert_no_child(void)
{
    int status = 0;

    assert_errno(waitpid(-1, &status, WNOHANG), ECHILD);
}

void crew_close(struct crew *crew)
{
    evzmq_pool_free(crew->pool);
    crew->pool = NULL;
    crew_assert_no_child();
    assert_ok(evzmq_context_free(crew->context));
    crew->context = NULL;
    assert_int_equal(crew_count_entries(crew->directory), 0);
    assert_ok(rmdir(crew->directory));
}

unsigned crew_send(struct crew *crew, unsigned worker, const char *text)
{
    const int sent = evzmq_pool_send(crew->pool, worker, text, strlen(text));

    assert_return_code(sent, errno);
    return (unsigned)sent;
}

struct evzmq_pool_stats crew_stats(const struct crew *crew)
{
    struct evzmq_pool_stats stats = {.size = sizeof stats};

    assert_ok(evzmq_pool_get_stats(crew->pool, &stats));
    return stats;
}

struct evzmq_pool_worker_stats crew_worker_stats(const struct crew *crew, unsigned worker)
{
    struct evzmq_pool_worker_stats stats = {.size = sizeof stats};

    assert_ok(evzmq_pool_get_worker_stats(crew->pool, worker, &stats));
    return stats;
}

pid_t crew_pid(const struct crew *crew, unsigned worker)
{
    return (pid_t)crew_worker_stats(crew, worker).pid;
}

void crew_hand_over(struct crew *crew)
{
    struct evzmq_pool_worker_stats stats = {.size = sizeof stats};

    for (unsigned i = 0; evzmq_pool_get_worker_stats(crew->pool, i, &stats) == 0; i++) {
        run_until(crew->f, crew_worker_stats(crew, i).queued == 0);
    }
}

void crew_leave_child(void)
{
    (void)execl("/bin/sh", "sh", "-c", ":", (char *)NULL);
    _exit(127);
}

int crew_process_lives(pid_t pid)
{
    char path[64];
    char line[256] = "";
    const char *state = NULL;
    FILE *file = NULL;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    if (fgets(line, sizeof line, file) != NULL) {
        state = strrchr(line, ')');
    }
    (void)fclose(file);
    return state != NULL && state[2] != 'Z' && state[2] != 'X';
}
