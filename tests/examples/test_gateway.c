/*
 * What http_gateway answers: each status code, streams, the page's neighbours, and its command
 * line.
 */
#include "gateway.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void a_prompt_comes_back_in_reverse_order(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_answer answer;
    (void)state;
    gateway_start(&server, NULL, NULL, NULL, NULL);
    web_connect(&client, &server);
    gateway_post(&client,
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

/* Also what a C string could not hold, and what would be the end of an event of a stream. */
static void a_prompt_may_have_any_character(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_answer answer;
    (void)state;
    gateway_start_one(&server);
    web_connect(&client, &server);
    gateway_post(&client, "{\"prompt\":\"a\\u0000b %41\\u0001 \\ud83d\\ude00 \\n\\ndata:\"}");
    web_receive(&client, &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(
        strstr(answer.body, "\"text\":\"data: \xf0\x9f\x98\x80 %41\\u0001 a\\u0000b\""));
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
    char *body = gateway_long_body(WORDS, false, &size);
    (void)state;
    gateway_start(&server, NULL, NULL, NULL, NULL);
    web_connect(&client, &server);
    for (int i = 0; i < 3; i++) {
        web_post(&client, GATEWAY_PATH, body, size);
        web_receive(&client, &answer);
        assert_int_equal(answer.status, 200);
        check_long_text(strstr(answer.body, "\"text\":\"") + strlen("\"text\":\""), WORDS);
        web_free(&answer);
    }
    free(body);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void a_stream_has_pieces_then_the_result_then_done(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    gateway_start(&server, NULL, NULL, NULL, NULL);
    web_connect(&client, &server);
    gateway_post(&client, "{\"prompt\":\"one two three\",\"stream\":true}");
    gateway_expect_stream(&client);
    gateway_post(&client, "{\"prompt\":\"one two three\",\"stream\":true}");
    gateway_expect_stream(&client);
    /* Without chunks the connection's end is the stream's, even if the client would keep it. */
    web_send_text(&client,
                  "POST " GATEWAY_PATH " HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: "
                  "41\r\n\r\n{\"prompt\":\"one two three\",\"stream\":true}\n");
    gateway_expect_stream(&client);
    web_expect_end(&client);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void direct_answers_are_the_same(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    gateway_start(&server, "--direct", NULL, NULL, NULL);
    web_connect(&client, &server);
    gateway_post(&client, "{\"prompt\":\"one two three\",\"stream\":true}");
    gateway_expect_stream(&client);
    gateway_post(&client, "{\"prompt\":\"one\"}");
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
    gateway_start_one(&server);
    web_connect(&client, &server);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        gateway_post(&client, bodies[i]);
        web_expect(&client, 400);
    }
    memset(deep + strlen(deep), '[', 1000);
    memset(deep + strlen(deep), ']', 1000);
    strcat(deep, "}");
    gateway_post(&client, deep);
    web_expect(&client, 400);
    gateway_post(&client, "{\"prompt\":\"a\"}");
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
    gateway_start_one(&server);
    for (size_t i = 0; i < 2 * sizeof(methods) / sizeof(methods[0]); i++) {
        char request[128];
        (void)snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: a\r\n\r\n",
                       methods[i / 2], i % 2 == 0 ? GATEWAY_PATH : "/metrics");
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
    web_send_text(&client, "GET " GATEWAY_PATH " HTTP/1.1\r\nHost: a\r\n\r\n");
    web_expect(&client, 405);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

/* evhttp keeps the connection of a CONNECT, whatever headers say. */
static void a_connect_request_gets_404_and_the_connection_goes_on(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    gateway_start_one(&server);
    web_connect(&client, &server);
    web_send_text(&client, "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n");
    web_expect(&client, 404);
    gateway_post(&client, "{\"prompt\":\"a\"}");
    web_expect(&client, 200);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void an_unknown_path_gets_404(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    gateway_start_one(&server);
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
    char *body = gateway_long_body(1000, false, &size);
    (void)state;
    gateway_start(&server, "--workers", "1", "--body-max", "5000");
    web_connect(&client, &server);
    web_post(&client, GATEWAY_PATH, body, size);
    web_expect(&client, 413);
    web_expect_end(&client);
    web_close(&client);

    web_connect(&client, &server);
    web_send_text(&client, "POST " GATEWAY_PATH " HTTP/1.1\r\nHost: a\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n1388\r\n");
    web_send(&client, body, 5000);
    web_send_text(&client, "\r\n1\r\n");
    web_expect(&client, 413);
    web_close(&client);

    body[4990] = '\0';
    strcat(body, "\"}");
    web_connect(&client, &server);
    gateway_post(&client, body);
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
    gateway_start_one(&server);
    web_connect(&client, &server);
    web_send_text(&client, "POST " GATEWAY_PATH " HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
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
    gateway_start_one(&server);
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
    gateway_post(&client, "{\"prompt\":\"a\"}");
    web_expect(&client, 200); /* It begins where the head before it ended. */
    /* The body of a HEAD request is no request. */
    web_send_text(&client, "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n"
                           "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    struct web_answer last;
    web_receive_head(&client, &last);
    assert_int_equal(last.status, 200);
    web_free(&last);
    web_expect_end(&client);
    web_close(&client);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

/* Some bodies evhttp does not read, or not all of them. Answered as a request they would be answers
 * to another client, where a proxy has one connection for many. */
static void what_may_be_a_body_is_never_taken_for_a_request(void **state)
{
    static const char *const heads[] = {
        "HEAD /none HTTP/1.1\r\nContent-Length: 34\r\n\r\n",
        "TRACE /none HTTP/1.1\r\nContent-Length: 34\r\n\r\n",
        "GET /none HTTP/1.1\r\nContent-Length: 34\r\n\r\n",
        "DELETE /none HTTP/1.1\r\nContent-Length: 34\r\n\r\n",
        "OPTIONS /none HTTP/1.1\r\nContent-Length: 34\r\n\r\n",
        "PUT /none HTTP/1.1\r\nContent-Length: 34\r\n\r\n",
        "CONNECT a:80 HTTP/1.1\r\nContent-Length: 34\r\n\r\n",
        "BREW / HTTP/1.1\r\nContent-Length: 34\r\n\r\n",
        "POST " GATEWAY_PATH " HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 34\r\n\r\n",
        "POST " GATEWAY_PATH " HTTP/1.1\r\nContent-Length : 34\r\n\r\n",
        "POST " GATEWAY_PATH " HTTP/1.1\r\nTransfer-Encoding\t: chunked\r\n\r\n",
        "POST " GATEWAY_PATH " HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST " GATEWAY_PATH " HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST " GATEWAY_PATH " HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
        "POST " GATEWAY_PATH " HTTP/1.1\r\nContent-Length: +34\r\n\r\n",
        "POST " GATEWAY_PATH " HTTP/1.1\r\nContent-Length:\r\n 34\r\n\r\n",
    };
    static const char body[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    struct web_server server;
    struct web_client client;
    (void)state;
    gateway_start_one(&server);
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct web_answer answer;
        char request[512];
        (void)snprintf(request, sizeof(request), "%s%s", heads[i], body);
        web_connect(&client, &server);
        web_send_text(&client, request);
        if (request[0] == 'H') {
            web_receive_head(&client, &answer);
        } else {
            web_receive(&client, &answer);
        }
        assert_true(answer.status >= 400);
        web_free(&answer);
        web_expect_end(&client);
        web_close(&client);
    }
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    struct web_server server;
    struct web_client client;
    enum { REQUESTS = 50 };
    char requests[REQUESTS * 128] = "";
    (void)state;
    gateway_start(&server, "--workers", "2", NULL, NULL);
    web_connect(&client, &server);
    for (int i = 0; i < REQUESTS; i++) {
        (void)sprintf(requests + strlen(requests),
                      "POST " GATEWAY_PATH " HTTP/1.1\r\nHost: a\r\nContent-Length: 17\r\n\r\n"
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
    gateway_start(&server, "--workers", "2", NULL, NULL);
    web_connect(&client, &server);
    gateway_post(&client, "{\"prompt\":\"a\"}");
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
        {"--port", "65536"},     {"--port", "x"},       {"--port", ""},
        {"--workers", "0"},      {"--workers", "9999"}, {"--queue", "-1"},
        {"--body-max", "0"},     {"--grace", "1h"},     {"--connections", "0"},
        {"--client-buffer", ""}, {"--timeout", "0"},    {"--idle-timeout", "1s"},
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
    gateway_start_one(&server);
    (void)snprintf(port, sizeof(port), "%u", server.port);
    check_refusal((const char *[]){"--port", port, NULL}, 0, 1, "cannot listen");
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(a_prompt_comes_back_in_reverse_order),
        claim(a_prompt_may_have_any_character),
        claim(a_large_text_arrives_whole),
        claim(a_stream_has_pieces_then_the_result_then_done),
        claim(direct_answers_are_the_same),
        claim(what_is_no_request_gets_400),
        claim(a_wrong_method_gets_405_and_is_told_the_right_ones),
        claim(a_connect_request_gets_404_and_the_connection_goes_on),
        claim(an_unknown_path_gets_404),
        claim(a_body_too_large_gets_413),
        claim(a_client_that_expects_a_continue_gets_it),
        claim(a_head_request_gets_no_body),
        claim(what_may_be_a_body_is_never_taken_for_a_request),
        claim(pipelined_requests_are_answered_in_order),
        claim(metrics_are_text_for_prometheus),
        claim(options_that_cannot_be_done_are_refused_with_a_word),
        claim(a_port_in_use_is_refused_with_a_word),
    };
    return run_claims(tests);
}
