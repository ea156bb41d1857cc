/*
 * What http_gateway promises to HTTP clients. Workers are stopped with SIGSTOP where a request must
 * be under way while something happens.
 */
#include "web.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PATH "/v1/completions"
#define REQUESTS_PER_WORKER 32 /* as in the gateway */

/* Starts a gateway with options of up to four words. */
static void start(struct web_server *server, const char *a, const char *b, const char *c,
                  const char *d)
{
    const char *arguments[] = {"--port", "0", a, b, c, d, NULL};
    web_start(server, GATEWAY, arguments);
}

static void start_one_worker(struct web_server *server)
{
    start(server, "--workers", "1", NULL, NULL);
}

static pid_t worker_of(const struct web_server *server)
{
    const pid_t pid = (pid_t)web_metric(server, "evzmq_worker_pid{worker=\"0\"}");
    assert_true(pid > 0);
    return pid;
}

static void post_text(struct web_client *client, const char *body)
{
    web_post(client, PATH, body, strlen(body));
}

/* A prompt of many words, as a body, and what comes of it. */
static char *long_body(size_t words, bool stream, size_t *out_size)
{
    char *body = malloc(words * 8 + 64);
    assert_non_null(body);
    size_t size = (size_t)sprintf(body, "{\"stream\":%s,\"prompt\":\"", stream ? "true" : "false");
    for (size_t i = 0; i < words; i++) {
        size += (size_t)sprintf(body + size, "%07zu ", i);
    }
    *out_size = size + (size_t)sprintf(body + size, "\"}");
    return body;
}

static void a_prompt_comes_back_in_reverse_order(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_answer answer;
    (void)state;
    start(&server, NULL, NULL, NULL, NULL);
    web_connect(&client, &server);
    post_text(&client,
              "{\"prompt\":\"one \\\"two\\\" \\u00e4\",\"max_tokens\":[1,2.5,{\"a\":null}]}");
    web_receive(&client, &answer);
    assert_int_equal(answer.status, 200);
    assert_true(web_has_header(&answer, "Content-Type: application/json"));
    assert_non_null(strstr(answer.body, "\"text\":\"\xc3\xa4 \\u0022two\\u0022 one\""));
    assert_non_null(strstr(answer.body, "\"words\":3,\"different\":3,"));
    web_free(&answer);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void check_long_text(const char *text, size_t words)
{
    assert_non_null(text);
    for (size_t i = words; i-- > 0; text += 8) {
        char word[32];
        (void)snprintf(word, sizeof(word), "%07zu%c", i, i > 0 ? ' ' : '"');
        assert_memory_equal(text, word, 8);
    }
}

static void a_large_text_arrives_whole(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_answer answer;
    size_t size = 0;
    enum { WORDS = 120000 };
    char *body = long_body(WORDS, false, &size);
    (void)state;
    start(&server, NULL, NULL, NULL, NULL);
    web_connect(&client, &server);
    for (int i = 0; i < 3; i++) {
        web_post(&client, PATH, body, size);
        web_receive(&client, &answer);
        assert_int_equal(answer.status, 200);
        check_long_text(strstr(answer.body, "\"text\":\"") + strlen("\"text\":\""), WORDS);
        web_free(&answer);
    }
    free(body);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void check_stream(struct web_client *client)
{
    static const char result[] = "\"object\":\"text_completion\",\"choices\":[{\"index\":0,"
                                 "\"text\":\"three two one\",\"finish_reason\":\"stop\"}]";
    static const char *const pieces[] = {"three ", "two ", "one"};
    struct web_answer answer;
    web_receive(client, &answer);
    assert_int_equal(answer.status, 200);
    assert_true(web_has_header(&answer, "Content-Type: text/event-stream"));
    const char *at = answer.body;
    for (size_t i = 0; i < 3; i++) {
        char wanted[64];
        (void)snprintf(wanted, sizeof(wanted), "\"text\":\"%s\"", pieces[i]);
        at = strstr(at, wanted);
        assert_non_null(at);
        at = strstr(at, "\n\ndata: {");
        assert_non_null(at);
    }
    assert_non_null(strstr(at, result));
    assert_string_equal(strstr(at, "}\n\n"), "}\n\ndata: [DONE]\n\n");
    web_free(&answer);
}

static void a_stream_has_pieces_then_the_result_then_done(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    start(&server, NULL, NULL, NULL, NULL);
    web_connect(&client, &server);
    post_text(&client, "{\"prompt\":\"one two three\",\"stream\":true}");
    check_stream(&client);
    post_text(&client, "{\"prompt\":\"one two three\",\"stream\":true}");
    check_stream(&client);
    /* Without chunks the connection's end is the stream's, even if the client would keep it. */
    web_send_text(&client, "POST " PATH " HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: "
                           "41\r\n\r\n{\"prompt\":\"one two three\",\"stream\":true}\n");
    check_stream(&client);
    web_expect_end(&client);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void direct_answers_are_the_same(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    start(&server, "--direct", NULL, NULL, NULL);
    web_connect(&client, &server);
    post_text(&client, "{\"prompt\":\"one two three\",\"stream\":true}");
    check_stream(&client);
    post_text(&client, "{\"prompt\":\"one\"}");
    web_expect(&client, 200);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void what_is_no_request_gets_400(void **state)
{
    static const char *const bodies[] = {"",
                                         "{",
                                         "[]",
                                         "{}",
                                         "{\"prompt\":1}",
                                         "{\"prompt\":\"a\",\"stream\":1}",
                                         "{\"prompt\":\"\xff\"}",
                                         "{\"prompt\":\"a\"} x"};
    struct web_server server;
    struct web_client client;
    char deep[4096] = "{\"prompt\":\"a\",\"b\":";
    (void)state;
    start_one_worker(&server);
    web_connect(&client, &server);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        post_text(&client, bodies[i]);
        web_expect(&client, 400);
    }
    memset(deep + strlen(deep), '[', 1000);
    memset(deep + strlen(deep), ']', 1000);
    strcat(deep, "}");
    post_text(&client, deep);
    web_expect(&client, 400);
    post_text(&client, "{\"prompt\":\"a\"}");
    web_expect(&client, 200);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void a_wrong_method_gets_405_and_is_told_the_right_ones(void **state)
{
    static const char *const methods[] = {"PUT", "DELETE", "OPTIONS", "PATCH"};
    struct web_server server;
    struct web_client client;
    struct web_answer answer;
    (void)state;
    start_one_worker(&server);
    for (size_t i = 0; i < 2 * sizeof(methods) / sizeof(methods[0]); i++) {
        char request[128];
        (void)snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: a\r\n\r\n",
                       methods[i / 2], i % 2 == 0 ? PATH : "/metrics");
        web_connect(&client, &server);
        web_send_text(&client, request);
        web_receive(&client, &answer);
        assert_int_equal(answer.status, 405);
        assert_true(web_has_header(&answer, i % 2 == 0 ? "Allow: POST" : "Allow: GET, HEAD"));
        web_free(&answer);
        web_expect_end(&client);
        web_close(&client);
    }
    web_connect(&client, &server);
    web_send_text(&client, "GET " PATH " HTTP/1.1\r\nHost: a\r\n\r\n");
    web_expect(&client, 405);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void an_unknown_path_gets_404(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    start_one_worker(&server);
    web_connect(&client, &server);
    web_send_text(&client, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    web_expect(&client, 404);
    web_send_text(&client, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    web_expect(&client, 200);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void a_body_too_large_gets_413(void **state)
{
    struct web_server server;
    struct web_client client;
    size_t size = 0;
    char *body = long_body(1000, false, &size);
    (void)state;
    start(&server, "--workers", "1", "--body-max", "5000");
    web_connect(&client, &server);
    web_post(&client, PATH, body, size);
    web_expect(&client, 413);
    web_expect_end(&client);
    web_close(&client);

    web_connect(&client, &server);
    web_send_text(&client, "POST " PATH " HTTP/1.1\r\nHost: a\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n1388\r\n");
    web_send(&client, body, 5000);
    web_send_text(&client, "\r\n1\r\n");
    web_expect(&client, 413);
    web_close(&client);

    body[4990] = '\0';
    strcat(body, "\"}");
    web_connect(&client, &server);
    post_text(&client, body);
    web_expect(&client, 200);
    web_close(&client);
    free(body);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void a_client_that_expects_a_continue_gets_it(void **state)
{
    static const char body[] = "{\"prompt\":\"a\"}";
    struct web_server server;
    struct web_client client;
    (void)state;
    start_one_worker(&server);
    web_connect(&client, &server);
    web_send_text(&client, "POST " PATH " HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                           "Content-Length: 14\r\n\r\n");
    web_expect(&client, 100);
    web_send_text(&client, body);
    web_expect(&client, 200);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void a_head_request_gets_no_body(void **state)
{
    static const char *const paths[] = {"/", "/healthz", "/metrics", "/none"};
    struct web_server server;
    struct web_client client;
    (void)state;
    start_one_worker(&server);
    web_connect(&client, &server);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct web_answer answer;
        char request[128];
        (void)snprintf(request, sizeof(request), "HEAD %s HTTP/1.1\r\nHost: a\r\n\r\n", paths[i]);
        web_send_text(&client, request);
        web_receive_head(&client, &answer);
        assert_int_equal(answer.status, i < 3 ? 200 : 404);
        web_free(&answer);
    }
    post_text(&client, "{\"prompt\":\"a\"}");
    web_expect(&client, 200); /* It begins where the head before it ended. */
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    struct web_server server;
    struct web_client client;
    enum { REQUESTS = 50 };
    char requests[REQUESTS * 128] = "";
    (void)state;
    start(&server, "--workers", "2", NULL, NULL);
    web_connect(&client, &server);
    for (int i = 0; i < REQUESTS; i++) {
        (void)sprintf(requests + strlen(requests),
                      "POST " PATH " HTTP/1.1\r\nHost: a\r\nContent-Length: 17\r\n\r\n"
                      "{\"prompt\":\"x%03d\"}",
                      i);
    }
    web_send_text(&client, requests);
    for (int i = 0; i < REQUESTS; i++) {
        struct web_answer answer;
        char wanted[32];
        (void)snprintf(wanted, sizeof(wanted), "\"text\":\"x%03d\"", i);
        web_receive(&client, &answer);
        assert_int_equal(answer.status, 200);
        assert_non_null(strstr(answer.body, wanted));
        web_free(&answer);
    }
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void a_full_queue_gets_503_and_when_to_try_again(void **state)
{
    enum { ROOM = REQUESTS_PER_WORKER + 2 };
    struct web_server server;
    struct web_client clients[ROOM];
    struct web_client late;
    struct web_answer answer;
    (void)state;
    start(&server, "--workers", "1", "--queue", "2");
    const pid_t worker = worker_of(&server);
    web_stop_process(worker);
    for (int i = 0; i < ROOM; i++) {
        web_connect(&clients[i], &server);
        post_text(&clients[i], "{\"prompt\":\"a\"}");
    }
    web_await_metric(&server, "gateway_requests_in_flight", ROOM);
    assert_int_equal(web_metric(&server, "gateway_requests_waiting"), 2);
    web_connect(&late, &server);
    post_text(&late, "{\"prompt\":\"a\"}");
    web_receive(&late, &answer);
    assert_int_equal(answer.status, 503);
    assert_true(web_has_header(&answer, "Retry-After: 1"));
    web_free(&answer);
    assert_int_equal(kill(worker, SIGCONT), 0);
    for (int i = 0; i < ROOM; i++) {
        web_expect(&clients[i], 200);
        web_close(&clients[i]);
    }
    post_text(&late, "{\"prompt\":\"a\"}");
    web_expect(&late, 200);
    web_close(&late);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void a_dead_worker_is_502_for_what_it_had_and_nothing_for_what_waited(void **state)
{
    enum { CLIENTS = REQUESTS_PER_WORKER + 3 };
    struct web_server server;
    struct web_client clients[CLIENTS];
    (void)state;
    start_one_worker(&server);
    const pid_t worker = worker_of(&server);
    web_stop_process(worker);
    for (int i = 0; i < CLIENTS; i++) {
        web_connect(&clients[i], &server);
        post_text(&clients[i],
                  i % 2 == 0 ? "{\"prompt\":\"a\"}" : "{\"prompt\":\"a\",\"stream\":true}");
        web_await_metric(&server, "gateway_requests_in_flight", (unsigned long long)i + 1);
    }
    assert_int_equal(kill(worker, SIGKILL), 0);
    for (int i = 0; i < CLIENTS; i++) {
        web_expect(&clients[i], i < REQUESTS_PER_WORKER ? 502 : 200);
    }
    assert_int_equal(web_metric(&server, "gateway_lost_total"), REQUESTS_PER_WORKER);
    for (int i = 0; i < CLIENTS; i++) {
        post_text(&clients[i], "{\"prompt\":\"a\"}");
        web_expect(&clients[i], 200);
        web_close(&clients[i]);
    }
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void an_answer_for_a_client_that_left_is_dropped_and_counted(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_client other;
    (void)state;
    start_one_worker(&server);
    const pid_t worker = worker_of(&server);
    web_stop_process(worker);
    web_connect(&client, &server);
    post_text(&client, "{\"prompt\":\"a\"}");
    web_await_metric(&server, "gateway_requests_in_flight", 1);
    web_close(&client);
    web_await_metric(&server, "gateway_clients_gone_total", 1);
    web_connect(&other, &server);
    post_text(&other, "{\"prompt\":\"b\"}");
    web_await_metric(&server, "gateway_requests_in_flight", 1);
    assert_int_equal(kill(worker, SIGCONT), 0);
    web_expect(&other, 200);
    assert_int_equal(web_metric(&server, "gateway_late_answers_total"), 1);
    web_close(&other);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void a_request_whose_client_left_the_queue_is_never_sent(void **state)
{
    enum { ASKED = REQUESTS_PER_WORKER };
    struct web_server server;
    struct web_client clients[ASKED + 1];
    (void)state;
    start_one_worker(&server);
    const pid_t worker = worker_of(&server);
    web_stop_process(worker);
    for (int i = 0; i <= ASKED; i++) {
        web_connect(&clients[i], &server);
        post_text(&clients[i], "{\"prompt\":\"a\"}");
    }
    web_await_metric(&server, "gateway_requests_waiting", 1);
    web_await_metric(&server, "gateway_requests_in_flight", ASKED + 1);
    for (int i = 0; i <= ASKED; i++) {
        web_close(&clients[i]);
    }
    web_await_metric(&server, "gateway_clients_gone_total", ASKED + 1);
    assert_int_equal(kill(worker, SIGCONT), 0);
    web_await_metric(&server, "gateway_late_answers_total", ASKED);
    assert_int_equal(web_metric(&server, "evzmq_pool_sent_total"), ASKED);
    assert_int_equal(web_metric(&server, "gateway_waiting_bytes"), 0);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void a_client_that_leaves_in_mid_stream_harms_nobody(void **state)
{
    struct web_server server;
    struct web_client client;
    size_t size = 0;
    char *body = long_body(100000, true, &size);
    (void)state;
    start_one_worker(&server);
    for (unsigned i = 1; i <= 5; i++) {
        web_connect_with(&client, &server, 4096);
        web_post(&client, PATH, body, size);
        web_receive_some(&client, 1000);
        web_close(&client);
        web_await_metric(&server, "gateway_clients_gone_total", i);
    }
    free(body);
    web_connect(&client, &server);
    post_text(&client, "{\"prompt\":\"one two three\",\"stream\":true}");
    check_stream(&client);
    web_close(&client);
    assert_int_equal(web_metric(&server, "gateway_requests_in_flight"), 0);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void a_client_that_does_not_read_its_stream_is_dropped(void **state)
{
    const char *arguments[] = {
        "--port", "0", "--workers", "1", "--body-max", "8388608", "--client-buffer", "65536", NULL};
    struct web_server server;
    struct web_client slow;
    struct web_client other;
    size_t size = 0;
    char *body = long_body(900000, true, &size);
    (void)state;
    web_start(&server, GATEWAY, arguments);
    web_connect_with(&slow, &server, 4096);
    web_post(&slow, PATH, body, size);
    web_await_metric(&server, "gateway_clients_too_slow_total", 1);
    web_connect(&other, &server);
    post_text(&other, "{\"prompt\":\"one two three\",\"stream\":true}");
    check_stream(&other);
    assert_int_equal(web_metric(&server, "gateway_requests_in_flight"), 0);
    free(body);
    web_close(&slow);
    web_close(&other);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

/* The first signal was taken when nothing is accepted any more. */
static void await_end_of_accepting(const struct web_server *server)
{
    while (!web_refuses(server)) {
    }
}

static void sigterm_finishes_what_is_under_way(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_client idle;
    struct web_answer answer;
    (void)state;
    start_one_worker(&server);
    const pid_t worker = worker_of(&server);
    web_stop_process(worker);
    web_connect(&client, &server);
    web_connect(&idle, &server);
    post_text(&client, "{\"prompt\":\"a\"}");
    web_await_metric(&server, "gateway_requests_in_flight", 1);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    await_end_of_accepting(&server);
    post_text(&idle, "{\"prompt\":\"a\"}");
    web_expect(&idle, 503);
    assert_int_equal(kill(worker, SIGCONT), 0);
    web_receive(&client, &answer);
    assert_int_equal(answer.status, 200);
    assert_true(web_has_header(&answer, "Connection: close"));
    web_free(&answer);
    assert_int_equal(web_end(&server, 0), 0);
    web_close(&client);
    web_close(&idle);
}

static void a_second_signal_ends_it_at_once(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    start(&server, "--workers", "1", "--grace", "3600");
    web_stop_process(worker_of(&server));
    web_connect(&client, &server);
    post_text(&client, "{\"prompt\":\"a\"}");
    web_await_metric(&server, "gateway_requests_in_flight", 1);
    assert_int_equal(kill(server.pid, SIGINT), 0);
    await_end_of_accepting(&server);
    assert_int_equal(web_end(&server, SIGINT), 1);
    web_expect_end(&client);
    web_close(&client);
}

static void an_end_does_not_wait_for_ever(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    start(&server, "--workers", "1", "--grace", "0");
    web_stop_process(worker_of(&server));
    web_connect(&client, &server);
    post_text(&client, "{\"prompt\":\"a\"}");
    web_await_metric(&server, "gateway_requests_in_flight", 1);
    assert_int_equal(web_end(&server, SIGTERM), 1);
    web_close(&client);
}

static void more_than_1024_connections_are_served(void **state)
{
    enum { CONNECTIONS = 1200 };
    struct rlimit limit;
    struct web_server server;
    static struct web_client clients[CONNECTIONS];
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < CONNECTIONS + 200) {
        print_message("the limit of open files is too low: %llu\n",
                      (unsigned long long)limit.rlim_cur);
        skip();
    }
    start(&server, "--connections", "1200", NULL, NULL);
    for (int i = 0; i < CONNECTIONS; i++) {
        web_connect(&clients[i], &server);
    }
    for (int i = CONNECTIONS - 1; i >= 0; i--) {
        post_text(&clients[i], "{\"prompt\":\"a\"}");
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        web_expect(&clients[i], 200);
        web_close(&clients[i]);
    }
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

/* Each sample belongs to the family whose HELP and TYPE stand before it, once. */
static void metrics_are_text_for_prometheus(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_answer answer;
    char family[128] = "";
    char seen[8192] = " ";
    unsigned samples = 0;
    (void)state;
    start(&server, "--workers", "2", NULL, NULL);
    web_connect(&client, &server);
    post_text(&client, "{\"prompt\":\"a\"}");
    web_expect(&client, 200);
    web_send_text(&client, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    web_receive(&client, &answer);
    assert_true(web_has_header(&answer, "Content-Type: text/plain; version=0.0.4; charset=utf-8"));
    for (char *line = strtok(answer.body, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char name[128] = "";
        char type[16] = "";
        char wanted[132];
        unsigned long long value = 0;
        if (sscanf(line, "# HELP %127s", name) == 1) {
            (void)snprintf(family, sizeof(family), "%s", name);
            (void)snprintf(wanted, sizeof(wanted), " %s ", name);
            assert_null(strstr(seen, wanted));
            strcat(strcat(seen, name), " ");
            line = strtok(NULL, "\n");
            assert_int_equal(sscanf(line, "# TYPE %127s %15s", name, type), 2);
            assert_string_equal(name, family);
            const char *end = strstr(name, "_total");
            assert_string_equal(type, end == NULL ? "gauge" : "counter");
            continue;
        }
        assert_int_equal(sscanf(line, "%127[a-z_]%*[^ ] %llu", name, &value) == 2 ||
                             sscanf(line, "%127[a-z_] %llu", name, &value) == 2,
                         1);
        assert_string_equal(name, family);
        samples++;
    }
    assert_true(samples > 40);
    web_free(&answer);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void check_refusal(const char *const *arguments, unsigned long descriptors, int status,
                          const char *word)
{
    struct web_run run;
    web_run(&run, GATEWAY, arguments, descriptors);
    if (run.status != status || strstr(run.errors, word) == NULL) {
        print_error("status %d: %s", run.status, run.errors);
    }
    assert_int_equal(run.status, status);
    assert_non_null(strstr(run.errors, word));
    assert_string_equal(run.output, "");
}

static void options_that_cannot_be_done_are_refused_with_a_word(void **state)
{
    static const char *const bad[][2] = {
        {"--port", "65536"},    {"--port", "x"},         {"--port", ""},      {"--workers", "0"},
        {"--workers", "9999"},  {"--queue", "-1"},       {"--body-max", "0"}, {"--grace", "1h"},
        {"--connections", "0"}, {"--client-buffer", ""}, {"--timeout", "0"},
    };
    struct web_run run;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *arguments[] = {bad[i][0], bad[i][1], NULL};
        check_refusal(arguments, 0, 2, bad[i][0]);
    }
    check_refusal((const char *[]){"--unknown", NULL}, 0, 2, "unknown");
    check_refusal((const char *[]){"word", NULL}, 0, 2, "word");
    check_refusal((const char *[]){"--address", "no address", NULL}, 0, 1, "no address");
    check_refusal((const char *[]){"--port", "0", NULL}, 512, 1, "--connections");
    web_run(&run, GATEWAY, (const char *[]){"--help", NULL}, 0);
    assert_int_equal(run.status, 0);
    assert_memory_equal(run.output, "usage: http_gateway", 19);
    assert_string_equal(run.errors, "");
}

static void a_port_in_use_is_refused_with_a_word(void **state)
{
    struct web_server server;
    char port[16];
    (void)state;
    start_one_worker(&server);
    (void)snprintf(port, sizeof(port), "%u", server.port);
    check_refusal((const char *[]){"--port", port, NULL}, 0, 1, "cannot listen");
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(a_prompt_comes_back_in_reverse_order),
        claim(a_large_text_arrives_whole),
        claim(a_stream_has_pieces_then_the_result_then_done),
        claim(direct_answers_are_the_same),
        claim(what_is_no_request_gets_400),
        claim(a_wrong_method_gets_405_and_is_told_the_right_ones),
        claim(an_unknown_path_gets_404),
        claim(a_body_too_large_gets_413),
        claim(a_client_that_expects_a_continue_gets_it),
        claim(a_head_request_gets_no_body),
        claim(pipelined_requests_are_answered_in_order),
        claim(a_full_queue_gets_503_and_when_to_try_again),
        claim(a_dead_worker_is_502_for_what_it_had_and_nothing_for_what_waited),
        claim(an_answer_for_a_client_that_left_is_dropped_and_counted),
        claim(a_request_whose_client_left_the_queue_is_never_sent),
        claim(a_client_that_leaves_in_mid_stream_harms_nobody),
        claim(a_client_that_does_not_read_its_stream_is_dropped),
        claim(sigterm_finishes_what_is_under_way),
        claim(a_second_signal_ends_it_at_once),
        claim(an_end_does_not_wait_for_ever),
        claim(more_than_1024_connections_are_served),
        claim(metrics_are_text_for_prometheus),
        claim(options_that_cannot_be_done_are_refused_with_a_word),
        claim(a_port_in_use_is_refused_with_a_word),
    };
    return run_claims(tests);
}
