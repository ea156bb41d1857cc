/*
 * http_gateway under load: many clients at once, workers that are killed meanwhile, clients that
 * leave in mid-stream and one that reads a byte a second.
 *
 * Each client has one request under way. All requests have different prompts, so that a client
 * knows its own answer. Numbers for a short run are the default; EVZMQ_TEST_LOAD=full has 2,000
 * connections and 50,000 requests.
 */
#include "gateway.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#define LEAVERS 4
/* Each so-manieth request asks for a stream. */
#define STREAM_EVERY 4
/* A worker is killed each time that such a part of the requests is answered, and in the long run
 * also every second. */
#define KILLS 8

struct load;

struct client {
    struct load *load;
    struct bufferevent *bufferevent;
    unsigned long request; /* its number, from 1; 0: none under way */
};

struct load {
    struct event_base *base;
    struct web_server server;
    struct client *clients;
    bool is_full;
    unsigned long connections;
    unsigned long requests;
    unsigned long sent;
    unsigned long own; /* answered with what was asked */
    unsigned long lost; /* 502, or a stream that ended with word of a dead worker */
    unsigned long busy; /* 503 */
    unsigned long left; /* by leavers in mid-stream */
    unsigned long killed;
    unsigned long slow_bytes;
    struct event *kill_timer;
    struct event *slow_timer;
    struct web_client slow;
    struct client leavers[LEAVERS];
};

static unsigned long answered(const struct load *load)
{
    return load->own + load->lost + load->busy;
}

/* Kills one worker after the other, whichever is up. */
static void kill_worker(struct load *load)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "evzmq_worker_pid{worker=\"%lu\"}", load->killed % 2);
    const pid_t pid = (pid_t)web_metric(&load->server, name);
    /* It may have ended since, but not been reaped and its number be another's: too short a time.
     */
    if (pid > 0 && kill(pid, SIGKILL) == 0) {
        load->killed++;
    }
}

static void on_second(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    kill_worker(arg);
}

static bool is_stream(unsigned long request)
{
    return request % STREAM_EVERY == 0;
}

static void send_next(struct client *client)
{
    struct load *load = client->load;
    char body[256];
    client->request = 0;
    if (load->sent == load->requests) {
        return;
    }
    client->request = ++load->sent;
    const int size =
        snprintf(body, sizeof(body), "{\"stream\":%s,\"prompt\":\"r%lu is %lu of %p\"}",
                 is_stream(client->request) ? "true" : "false", client->request,
                 client->request * 7919, (void *)client);
    (void)evbuffer_add_printf(
        bufferevent_get_output(client->bufferevent),
        "POST " GATEWAY_PATH " HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n%s", size, body);
}

/* Joins the texts of the pieces of a stream, or of the one result. */
static void join_texts(const char *body, const char *object, char *out, size_t room)
{
    static const char begin[] = "\"text\":\"";
    size_t size = 0;
    for (const char *at = body; (at = strstr(at, object)) != NULL;) {
        at = strstr(at, begin);
        assert_non_null(at);
        at += sizeof(begin) - 1;
        const size_t length = strcspn(at, "\"");
        assert_true(size + length < room);
        memcpy(out + size, at, length);
        size += length;
    }
    out[size] = '\0';
}

/* An answer is the client's own, all of it, or says that a worker died or none had room. */
static void take_answer(struct client *client, const struct web_answer *answer)
{
    struct load *load = client->load;
    char wanted[256];
    char text[256];
    (void)snprintf(wanted, sizeof(wanted), "%p of %lu is r%lu", (void *)client,
                   client->request * 7919, client->request);
    if (answer->status == 502 || answer->status == 503) {
        load->lost += answer->status == 502;
        load->busy += answer->status == 503;
        assert_true(answer->status == 502 || web_has_header(answer, "Retry-After: 1"));
        return;
    }
    assert_int_equal(answer->status, 200);
    if (strstr(answer->body, "\"type\":\"worker_died\"") != NULL) {
        assert_true(is_stream(client->request));
        assert_null(strstr(answer->body, "[DONE]"));
        load->lost++;
        return;
    }
    join_texts(answer->body, "\"object\":\"text_completion\"", text, sizeof(text));
    assert_string_equal(text, wanted);
    if (is_stream(client->request)) {
        join_texts(answer->body, "\"object\":\"text_completion.chunk\"", text, sizeof(text));
        assert_string_equal(text, wanted);
        assert_non_null(strstr(answer->body, "data: [DONE]\n\n"));
    }
    load->own++;
}

static void on_read(struct bufferevent *bufferevent, void *arg)
{
    struct client *client = arg;
    struct load *load = client->load;
    struct evbuffer *input = bufferevent_get_input(bufferevent);
    const size_t size = evbuffer_get_length(input);
    const char *data = (const char *)evbuffer_pullup(input, -1);
    struct web_answer answer;
    assert_int_not_equal(client->request, 0); /* Nothing comes that was not asked for. */
    const int parsed = web_parse(data, size, false, false, &answer);
    assert_true(parsed >= 0);
    if (parsed == 0) {
        return;
    }
    assert_int_equal(answer.used, size);
    (void)evbuffer_drain(input, size);
    take_answer(client, &answer);
    web_free(&answer);
    if (answered(load) % (load->requests / KILLS) == 0) {
        kill_worker(load);
    }
    if (answered(load) == load->requests) {
        (void)event_base_loopexit(load->base, NULL);
    }
    send_next(client);
}

/* The gateway closes no connection of a client that behaves. */
static void on_client_event(struct bufferevent *bufferevent, short what, void *arg)
{
    (void)bufferevent;
    (void)arg;
    assert_int_equal(what, BEV_EVENT_CONNECTED);
}

static void open_client(struct client *client, bufferevent_data_cb read_cb, int receive_buffer)
{
    struct load *load = client->load;
    struct web_client connection;
    web_connect_with(&connection, &load->server, receive_buffer);
    (void)evutil_make_socket_nonblocking(connection.fd);
    client->bufferevent = bufferevent_socket_new(load->base, connection.fd, BEV_OPT_CLOSE_ON_FREE);
    assert_non_null(client->bufferevent);
    bufferevent_setcb(client->bufferevent, read_cb, NULL, on_client_event, client);
    (void)bufferevent_enable(client->bufferevent, EV_READ | EV_WRITE);
}

static void on_leaver_read(struct bufferevent *bufferevent, void *arg);

/* Asks for a long stream, and leaves as soon as something of it comes. With a small buffer here not
 * all of it is on its way then. */
static void open_leaver(struct client *client)
{
    enum { WORDS = 40000, RECEIVE_BUFFER = 4096 };
    open_client(client, on_leaver_read, RECEIVE_BUFFER);
    struct evbuffer *output = bufferevent_get_output(client->bufferevent);
    (void)evbuffer_add_printf(output,
                              "POST " GATEWAY_PATH
                              " HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n"
                              "{\"stream\":true,\"prompt\":\"",
                              WORDS * 8 + 27);
    for (int i = 0; i < WORDS; i++) {
        (void)evbuffer_add_printf(output, "%07d ", i);
    }
    (void)evbuffer_add_printf(output, "\"}");
}

static void on_leaver_read(struct bufferevent *bufferevent, void *arg)
{
    struct client *client = arg;
    struct load *load = client->load;
    bufferevent_free(bufferevent);
    client->bufferevent = NULL;
    load->left++;
    open_leaver(client);
}

/* A byte a second of an answer that no buffer of the system can hold. */
static void on_slow_second(evutil_socket_t fd, short events, void *arg)
{
    struct load *load = arg;
    char byte = 0;
    (void)fd;
    (void)events;
    load->slow_bytes += recv(load->slow.fd, &byte, 1, MSG_DONTWAIT) == 1;
}

static void open_slow(struct load *load)
{
    enum { WORDS = 500000 };
    char *words = malloc(WORDS * 8 + 1);
    char head[256];
    assert_non_null(words);
    for (size_t i = 0; i < WORDS; i++) {
        (void)sprintf(words + i * 8, "%07zu ", i);
    }
    (void)snprintf(head, sizeof(head),
                   "POST " GATEWAY_PATH " HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n"
                   "{\"stream\":true,\"prompt\":\"",
                   WORDS * 8 + 27);
    web_connect_with(&load->slow, &load->server, 4096);
    web_send_text(&load->slow, head);
    web_send(&load->slow, words, (size_t)WORDS * 8);
    web_send_text(&load->slow, "\"}");
    free(words);
}

static void start_load(struct fixture *f, struct load *load)
{
    const struct timeval second = {1, 0};
    /* On a busy machine, with workers that are killed as soon as they are up, a request may wait
     * for longer than it may by default. */
    const char *arguments[] = {
        "--port",          "0",       "--workers", "2",    "--body-max", "8388608",
        "--client-buffer", "1048576", "--timeout", "3600", NULL};
    load->base = f->base;
    web_start(&load->server, GATEWAY, arguments);
    load->clients = calloc(load->connections, sizeof(*load->clients));
    load->kill_timer = event_new(load->base, -1, EV_PERSIST, on_second, load);
    load->slow_timer = event_new(load->base, -1, EV_PERSIST, on_slow_second, load);
    assert_true(load->clients != NULL && load->kill_timer != NULL && load->slow_timer != NULL);
    open_slow(load);
    for (size_t i = 0; i < LEAVERS; i++) {
        load->leavers[i].load = load;
        open_leaver(&load->leavers[i]);
    }
    for (size_t i = 0; i < load->connections; i++) {
        load->clients[i].load = load;
        open_client(&load->clients[i], on_read, 0);
        send_next(&load->clients[i]);
    }
    if (load->is_full) {
        assert_int_equal(event_add(load->kill_timer, &second), 0);
    }
    assert_int_equal(event_add(load->slow_timer, &second), 0);
}

/* The most memory that the gateway ever had, in KiB; 0 where the system does not tell. */
static unsigned long peak_memory(const struct load *load)
{
    char path[64];
    char line[256];
    unsigned long peak = 0;
    (void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)load->server.pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "VmHWM: %lu", &peak);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return peak;
}

static void end_load(struct load *load)
{
    event_free(load->kill_timer);
    event_free(load->slow_timer);
    for (size_t i = 0; i < LEAVERS; i++) {
        bufferevent_free(load->leavers[i].bufferevent);
    }
    web_close(&load->slow);
    /* What comes now was not asked for. */
    for (size_t i = 0; i < load->connections; i++) {
        assert_int_equal(evbuffer_get_length(bufferevent_get_input(load->clients[i].bufferevent)),
                         0);
    }
    print_message(
        "%lu requests on %lu connections: %lu answered, %lu lost with %lu killed workers, "
        "%lu refused; %lu left in mid-stream; peak of the gateway %lu KiB\n",
        load->requests, load->connections, load->own, load->lost, load->killed, load->busy,
        load->left, peak_memory(load));
    assert_int_equal(web_end(&load->server, SIGTERM), 0);
    for (size_t i = 0; i < load->connections; i++) {
        bufferevent_free(load->clients[i].bufferevent);
    }
    free(load->clients);
}

static void each_request_is_answered_once_with_its_own_answer_or_an_honest_error(void **state)
{
    const char *size = getenv("EVZMQ_TEST_LOAD");
    const bool is_full = size != NULL && strcmp(size, "full") == 0;
    struct load load = {.is_full = is_full,
                        .connections = is_full ? 2000 : 200,
                        .requests = is_full ? 50000 : 5000};
    struct fixture *f = *state;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    start_load(f, &load);
    (void)fixture_loop(f, 0);
    assert_int_equal(answered(&load), load.requests);
    assert_int_equal(load.sent, load.requests);
    assert_true(load.own > load.requests / 2);
    assert_true(load.killed > 0);
    assert_true(load.left > 0);
    web_await_metric(&load.server, "gateway_clients_gone_total", 1);
    end_load(&load);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(each_request_is_answered_once_with_its_own_answer_or_an_honest_error),
    };
    return run_claims(tests);
}
