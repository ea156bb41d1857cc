/* memmem() and strcasestr(). */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "web.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "child.h"

#define ARGUMENTS_MAX 32

static pid_t running; /* what a failed test may leave behind */

/* In the child. */
static void execute(const char *program, const char *const *arguments)
{
    char *copies[ARGUMENTS_MAX + 2] = {strdup(program)};
    for (size_t i = 0; i < ARGUMENTS_MAX && arguments[i] != NULL; i++) {
        copies[i + 1] = strdup(arguments[i]);
    }
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    (void)execv(copies[0], copies);
    _exit(127);
}

static int status_of(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void web_start(struct web_server *server, const char *program, const char *const *arguments)
{
    int ends[2];
    if (running != 0) {
        (void)kill(running, SIGKILL);
        (void)status_of(running);
    }
    assert_int_equal(pipe(ends), 0);
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    server->pid = quiet_fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[1]);
        execute(program, arguments);
    }
    (void)close(ends[1]);
    running = server->pid;
    server->output = ends[0];
    char line[256] = "";
    for (size_t size = 0; strchr(line, '\n') == NULL; size++) {
        assert_true(size < sizeof(line) - 1);
        assert_int_equal(read(server->output, line + size, 1), 1);
    }
    const char *colon = strrchr(line, ':');
    assert_non_null(colon);
    server->port = (unsigned)strtoul(colon + 1, NULL, 10);
    assert_int_not_equal(server->port, 0);
}

int web_end(struct web_server *server, int signal_number)
{
    if (signal_number != 0) {
        assert_int_equal(kill(server->pid, signal_number), 0);
    }
    const int status = status_of(server->pid);
    running = 0;
    (void)close(server->output);
    return status;
}

static void read_all(int fd, char *out, size_t room)
{
    size_t size = 0;
    for (ssize_t got; size < room - 1 && (got = read(fd, out + size, room - 1 - size)) > 0;) {
        size += (size_t)got;
    }
    out[size] = '\0';
    (void)close(fd);
}

void web_run(struct web_run *run, const char *program, const char *const *arguments,
             unsigned long descriptors)
{
    int output[2];
    int errors[2];
    assert_int_equal(pipe(output), 0);
    assert_int_equal(pipe(errors), 0);
    const pid_t pid = quiet_fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit limit = {descriptors, descriptors};
        (void)dup2(output[1], STDOUT_FILENO);
        (void)dup2(errors[1], STDERR_FILENO);
        for (int i = 0; i < 2; i++) {
            (void)close(output[i]);
            (void)close(errors[i]);
        }
        if (descriptors > 0) {
            (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
        execute(program, arguments);
    }
    (void)close(output[1]);
    (void)close(errors[1]);
    read_all(output[0], run->output, sizeof(run->output));
    read_all(errors[0], run->errors, sizeof(run->errors));
    run->status = status_of(pid);
}

static int try_connect(const struct web_server *server, int receive_buffer)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)server->port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(client >= 0);
    if (receive_buffer > 0) {
        (void)setsockopt(client, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    if (connect(client, (const struct sockaddr *)&address, sizeof(address)) == 0) {
        return client;
    }
    (void)close(client);
    return -1;
}

void web_connect_with(struct web_client *client, const struct web_server *server,
                      int receive_buffer)
{
    *client = (struct web_client){.fd = try_connect(server, receive_buffer)};
    assert_true(client->fd >= 0);
}

void web_connect(struct web_client *client, const struct web_server *server)
{
    web_connect_with(client, server, 0);
}

void web_close(struct web_client *client)
{
    (void)close(client->fd);
    free(client->data);
    *client = (struct web_client){.fd = -1};
}

bool web_refuses(const struct web_server *server)
{
    const int fd = try_connect(server, 0);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd < 0;
}

void web_send(struct web_client *client, const char *data, size_t size)
{
    while (size > 0) {
        const ssize_t sent = send(client->fd, data, size, MSG_NOSIGNAL);
        assert_true(sent > 0);
        data += sent;
        size -= (size_t)sent;
    }
}

void web_send_text(struct web_client *client, const char *text)
{
    web_send(client, text, strlen(text));
}

void web_post(struct web_client *client, const char *path, const char *body, size_t size)
{
    char head[256];
    (void)snprintf(head, sizeof(head),
                   "POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: %zu\r\n\r\n", path, size);
    web_send_text(client, head);
    web_send(client, body, size);
}

/* Undoes chunks. Returns 1, 0 when the last one is missing, -1 when they are wrong. */
static int unchunk(const char *data, size_t size, struct web_answer *out)
{
    for (size_t at = 0;;) {
        const char *line_end = memmem(data + at, size - at, "\r\n", 2);
        if (line_end == NULL) {
            return 0;
        }
        char *rest = NULL;
        const unsigned long chunk = strtoul(data + at, &rest, 16);
        if (rest != line_end || chunk > (1ul << 30)) {
            return -1;
        }
        at = (size_t)(line_end - data) + 2;
        if (size - at < chunk + 2) {
            return 0;
        }
        if (memcmp(data + at + chunk, "\r\n", 2) != 0) {
            return -1;
        }
        memcpy(out->body + out->size, data + at, chunk);
        out->size += chunk;
        at += chunk + 2;
        if (chunk == 0) {
            out->used += at;
            return 1;
        }
    }
}

/* Parses the body that follows a head. Returns as web_parse(). */
static int parse_body(const char *data, size_t size, bool at_end, struct web_answer *out)
{
    static const char length_name[] = "\r\nContent-Length:";
    const char *length = strcasestr(out->head, length_name);
    if (strcasestr(out->head, "\r\nTransfer-Encoding: chunked\r\n") != NULL) {
        return unchunk(data, size, out);
    }
    out->size = length == NULL ? size : strtoul(length + sizeof(length_name) - 1, NULL, 10);
    if (size < out->size || (length == NULL && !at_end)) {
        return 0;
    }
    memcpy(out->body, data, out->size);
    out->used += out->size;
    return 1;
}

/* As strndup(), for bytes that nothing ends. */
static char *copy_text(const char *data, size_t size)
{
    char *const text = malloc(size + 1);

    assert_non_null(text);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

int web_parse(const char *data, size_t size, bool is_head, bool at_end, struct web_answer *out)
{
    const char *end = memmem(data, size, "\r\n\r\n", 4);
    if (end == NULL) {
        return size >= 5 && memcmp(data, "HTTP/", 5) != 0 ? -1 : 0;
    }
    const size_t head_size = (size_t)(end - data) + 4;
    *out = (struct web_answer){.used = head_size,
                               .head = copy_text(data, head_size),
                               .body = malloc(size - head_size + 1)};
    assert_non_null(out->body);
    int result = -1;
    if (sscanf(out->head, "HTTP/1.%*1d %d ", &out->status) == 1) {
        const bool has_body = !is_head && out->status >= 200;
        result = has_body ? parse_body(data + head_size, size - head_size, at_end, out) : 1;
    }
    if (result == 1) {
        out->body[out->size] = '\0';
    } else {
        web_free(out);
    }
    return result;
}

void web_free(struct web_answer *answer)
{
    free(answer->head);
    free(answer->body);
    *answer = (struct web_answer){0};
}

/* Reads what is there, or waits for it. Returns whether that is the end. */
static bool read_more(struct web_client *client)
{
    if (client->size == client->capacity) {
        client->capacity = client->capacity == 0 ? 65536 : client->capacity * 2;
        client->data = realloc(client->data, client->capacity);
        assert_non_null(client->data);
    }
    const ssize_t got =
        recv(client->fd, client->data + client->size, client->capacity - client->size, 0);
    assert_true(got >= 0);
    client->size += (size_t)got;
    return got == 0;
}

/* Whether something is there already. */
static bool has_more(const struct web_client *client)
{
    struct pollfd wanted = {.fd = client->fd, .events = POLLIN};
    return poll(&wanted, 1, 0) == 1;
}

/* All that is there is read before it is parsed anew, from its begin. */
static void receive(struct web_client *client, bool is_head, struct web_answer *out)
{
    bool at_end = false;
    for (int parsed = 0; parsed == 0;) {
        if (client->size > 0) {
            parsed = web_parse(client->data, client->size, is_head, at_end, out);
            assert_int_not_equal(parsed, -1);
        }
        if (parsed == 0) {
            assert_false(at_end);
            at_end = read_more(client);
            while (!at_end && has_more(client)) {
                at_end = read_more(client);
            }
        }
    }
    client->size -= out->used;
    memmove(client->data, client->data + out->used, client->size);
}

void web_receive(struct web_client *client, struct web_answer *out)
{
    receive(client, false, out);
}

void web_receive_head(struct web_client *client, struct web_answer *out)
{
    receive(client, true, out);
}

void web_receive_some(struct web_client *client, size_t size)
{
    while (client->size < size) {
        assert_false(read_more(client));
    }
}

void web_expect(struct web_client *client, int status)
{
    struct web_answer answer;
    web_receive(client, &answer);
    if (answer.status != status) {
        print_error("%s%s", answer.head, answer.body);
    }
    assert_int_equal(answer.status, status);
    web_free(&answer);
}

void web_expect_end(struct web_client *client)
{
    assert_true(client->size == 0 && read_more(client));
}

bool web_has_header(const struct web_answer *answer, const char *line)
{
    char wanted[256];
    (void)snprintf(wanted, sizeof(wanted), "\r\n%s\r\n", line);
    return strcasestr(answer->head, wanted) != NULL;
}

unsigned long long web_metric(const struct web_server *server, const char *name)
{
    struct web_client client;
    struct web_answer answer;
    char wanted[256];
    web_connect(&client, server);
    web_send_text(&client, "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n");
    web_receive(&client, &answer);
    assert_int_equal(answer.status, 200);
    (void)snprintf(wanted, sizeof(wanted), "\n%s ", name);
    const char *line = strstr(answer.body, wanted);
    const unsigned long long value = line == NULL ? 0 : strtoull(line + strlen(wanted), NULL, 10);
    web_free(&answer);
    web_close(&client);
    return value;
}

void web_await_metric(const struct web_server *server, const char *name, unsigned long long value)
{
    while (web_metric(server, name) < value) {
    }
}

void web_stop_process(pid_t pid)
{
    char path[64];
    char state = 0;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    for (FILE *file; state != 'T' && (file = fopen(path, "r")) != NULL;) {
        assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        (void)fclose(file);
    }
}
