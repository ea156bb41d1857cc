/*
 * http_gateway with workers that are none too good: bad_worker.c does what a prompt says. Whatever
 * they do each client gets one answer, and the next request its own.
 */
#include "gateway.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REQUESTS_PER_WORKER 32 /* as in the gateway */

/* A gateway with one bad worker, which has so many seconds to answer, and a client. */
static void start(struct web_server *server, struct web_client *client, const char *seconds)
{
    const char *arguments[] = {"--port", "0",         "--worker", BAD_WORKER, "--workers",
                               "1",      "--timeout", seconds,    NULL};
    web_start(server, GATEWAY, arguments);
    web_connect(client, server);
}

static void ask(struct web_client *client, const char *prompt)
{
    char body[128];
    (void)snprintf(body, sizeof(body), "{\"prompt\":\"%s\"}", prompt);
    gateway_post(client, body);
}

/* Asks until there is an answer other than 504: on a busy machine a second may be too little. */
static void insist(struct web_client *client, const char *body, struct web_answer *out)
{
    gateway_post(client, body);
    web_receive(client, out);
    while (out->status == 504) {
        web_free(out);
        gateway_post(client, body);
        web_receive(client, out);
    }
    assert_int_equal(out->status, 200);
}

static void expect_own_answer(struct web_client *client)
{
    struct web_answer answer;
    insist(client, "{\"prompt\":\"hello\"}", &answer);
    assert_non_null(strstr(answer.body, "\"text\":\"hello\""));
    web_free(&answer);
}

static void end(struct web_server *server, struct web_client *client)
{
    expect_own_answer(client);
    assert_int_equal(web_metric(server, "gateway_requests_in_flight"), 0);
    assert_int_equal(web_end(server, SIGTERM), 0);
    web_close(client);
}

static void a_request_that_is_not_answered_gets_504(void **state)
{
    static const char *const prompts[] = {"mute", "garbage", "unknown", "half"};
    struct web_server server;
    struct web_client client;
    struct web_client clients[4];
    (void)state;
    start(&server, &client, "1");
    for (size_t i = 0; i < 4; i++) {
        web_connect(&clients[i], &server);
        ask(&clients[i], prompts[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        web_expect(&clients[i], 504);
        expect_own_answer(&clients[i]);
        web_close(&clients[i]);
    }
    assert_true(web_metric(&server, "gateway_timed_out_total") >= 4);
    assert_true(web_metric(&server, "gateway_bad_answers_total") >= 1);
    assert_true(web_metric(&server, "gateway_late_answers_total") >= 1);
    end(&server, &client);
}

static void an_answer_after_its_504_is_dropped_and_counted(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    start(&server, &client, "1");
    ask(&client, "late");
    web_expect(&client, 504);
    expect_own_answer(&client);
    assert_true(web_metric(&server, "gateway_late_answers_total") >= 1);
    end(&server, &client);
}

static void a_stream_without_its_next_piece_ends_with_an_error(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_answer answer;
    (void)state;
    start(&server, &client, "1");
    insist(&client, "{\"prompt\":\"half\",\"stream\":true}", &answer);
    assert_non_null(strstr(answer.body, "\"text\":\"half\""));
    assert_non_null(strstr(answer.body, "data: {\"error\":{\"type\":\"timeout\""));
    assert_null(strstr(answer.body, "[DONE]"));
    web_free(&answer);
    assert_int_equal(web_metric(&server, "gateway_streams_broken_total"), 1);
    gateway_post(&client, "{\"prompt\":\"mute\",\"stream\":true}");
    web_expect(&client, 504);
    end(&server, &client);
}

static void a_second_answer_is_dropped_and_counted(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    start(&server, &client, "3600");
    for (unsigned i = 1; i <= 50; i++) {
        ask(&client, "twice");
        web_expect(&client, 200);
        web_await_metric(&server, "gateway_late_answers_total", i);
    }
    end(&server, &client);
}

static void a_piece_that_was_not_asked_for_is_dropped_and_counted(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_answer answer;
    (void)state;
    start(&server, &client, "3600");
    ask(&client, "piece");
    web_receive(&client, &answer);
    assert_int_equal(answer.status, 200);
    assert_memory_equal(answer.body, "{\"id\":", 6);
    web_free(&answer);
    assert_int_equal(web_metric(&server, "gateway_bad_answers_total"), 1);
    end(&server, &client);
}

/* The record that has it cannot be decoded. */
static void text_that_is_no_utf8_does_not_reach_clients(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    start(&server, &client, "1");
    ask(&client, "binary");
    web_expect(&client, 504);
    web_await_metric(&server, "gateway_bad_answers_total", 1);
    assert_int_equal(web_metric(&server, "gateway_bad_answers_total"), 1);
    end(&server, &client);
}

static void requests_with_a_worker_that_exits_get_502(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    start(&server, &client, "3600");
    for (int i = 0; i < 3; i++) {
        ask(&client, "exit");
        web_expect(&client, 502);
    }
    end(&server, &client);
}

/* It has all the requests that it may have, nobody waits for them any more, and it is up: without
 * another one in its place no request would ever be answered. */
static void a_worker_that_answers_nothing_any_more_is_replaced(void **state)
{
    enum { CLIENTS = REQUESTS_PER_WORKER + 1 };
    struct web_server server;
    struct web_client client;
    struct web_client clients[CLIENTS];
    (void)state;
    start(&server, &client, "1");
    const pid_t worker = gateway_worker(&server);
    for (int i = 0; i < CLIENTS; i++) {
        web_connect(&clients[i], &server);
        ask(&clients[i], "mute");
        web_await_metric(&server, "gateway_exchanges_total", (unsigned long long)i + 1);
    }
    for (int i = 0; i < CLIENTS; i++) {
        web_expect(&clients[i], 504);
        web_close(&clients[i]);
    }
    web_await_metric(&server, "evzmq_pool_restarts_total", 1);
    expect_own_answer(&client);
    assert_int_not_equal(gateway_worker(&server), worker);
    end(&server, &client);
}

/* Nobody is left who would wait too long. */
static void a_worker_whose_clients_left_without_an_answer_is_replaced(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_client clients[REQUESTS_PER_WORKER];
    (void)state;
    start(&server, &client, "2");
    const pid_t worker = gateway_worker(&server);
    for (int i = 0; i < REQUESTS_PER_WORKER; i++) {
        web_connect(&clients[i], &server);
        ask(&clients[i], "mute");
        web_await_metric(&server, "gateway_exchanges_total", (unsigned long long)i + 1);
    }
    for (int i = 0; i < REQUESTS_PER_WORKER; i++) {
        web_close(&clients[i]);
    }
    web_await_metric(&server, "evzmq_pool_restarts_total", 1);
    assert_int_not_equal(gateway_worker(&server), worker);
    end(&server, &client);
}

/* What had waited is overdue before the worker has been silent for as long. Where this process is
 * so slow that the worker is replaced while it stands still, the next one gets what waits. */
static void a_worker_that_stalls_once_it_got_what_had_waited_is_replaced(void **state)
{
    enum { CLIENTS = 2 * REQUESTS_PER_WORKER };
    struct web_server server;
    struct web_client client;
    struct web_client clients[CLIENTS];
    (void)state;
    start(&server, &client, "2");
    const pid_t worker = gateway_worker(&server);
    web_stop_process(worker);
    for (int i = 0; i < CLIENTS; i++) {
        web_connect(&clients[i], &server);
        ask(&clients[i], i < REQUESTS_PER_WORKER ? "hello" : "mute");
        web_await_metric(&server, "gateway_exchanges_total", (unsigned long long)i + 1);
    }
    /* It comes back clearly later than the last of them came: by so many connections. */
    const unsigned long long connections = web_metric(&server, "gateway_connections_total");
    web_await_metric(&server, "gateway_connections_total", connections + 200);
    (void)kill(worker, SIGCONT);
    for (int i = 0; i < CLIENTS; i++) {
        struct web_answer answer;
        web_receive(&clients[i], &answer);
        assert_true(answer.status == 504 || (answer.status == 200 && i < REQUESTS_PER_WORKER));
        web_free(&answer);
        web_close(&clients[i]);
    }
    web_await_metric(&server, "evzmq_pool_restarts_total", 1);
    end(&server, &client);
}

/* Its last piece is the last that is heard of the worker. */
static void a_stream_ends_for_its_own_time_before_its_stuck_worker_is_replaced(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_client clients[REQUESTS_PER_WORKER];
    (void)state;
    start(&server, &client, "1");
    for (int i = 0; i < REQUESTS_PER_WORKER; i++) {
        web_connect(&clients[i], &server);
        gateway_post(&clients[i], "{\"prompt\":\"half\",\"stream\":true}");
        web_await_metric(&server, "gateway_exchanges_total", (unsigned long long)i + 1);
    }
    for (int i = 0; i < REQUESTS_PER_WORKER; i++) {
        struct web_answer answer;
        web_receive(&clients[i], &answer);
        assert_non_null(strstr(answer.body, "{\"error\":{\"type\":\"timeout\""));
        web_free(&answer);
        web_close(&clients[i]);
    }
    web_await_metric(&server, "evzmq_pool_restarts_total", 1);
    end(&server, &client);
}

static void workers_that_cannot_be_started_are_an_end_with_a_word(void **state)
{
    static const char *const programs[] = {"no/such/program", "/dev/null"};
    struct web_run run;
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *arguments[] = {"--port", "0", "--worker", programs[i], NULL};
        web_run(&run, GATEWAY, arguments, 0);
        assert_int_equal(run.status, 1);
        assert_non_null(strstr(run.errors, "cannot start"));
        assert_string_equal(run.output, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(a_request_that_is_not_answered_gets_504),
        claim(an_answer_after_its_504_is_dropped_and_counted),
        claim(a_stream_without_its_next_piece_ends_with_an_error),
        claim(a_second_answer_is_dropped_and_counted),
        claim(a_piece_that_was_not_asked_for_is_dropped_and_counted),
        claim(text_that_is_no_utf8_does_not_reach_clients),
        claim(requests_with_a_worker_that_exits_get_502),
        claim(a_worker_that_answers_nothing_any_more_is_replaced),
        claim(a_worker_whose_clients_left_without_an_answer_is_replaced),
        claim(a_worker_that_stalls_once_it_got_what_had_waited_is_replaced),
        claim(a_stream_ends_for_its_own_time_before_its_stuck_worker_is_replaced),
        claim(workers_that_cannot_be_started_are_an_end_with_a_word),
    };
    return run_claims(tests);
}
