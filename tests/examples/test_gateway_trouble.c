/*
 * http_gateway in trouble: dead workers, full queues, clients that leave or do not read, many
 * clients, and the end. Workers are stopped with SIGSTOP where a request must be under way while
 * something happens.
 */
#include "gateway.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

#define REQUESTS_PER_WORKER 32 /* as in the gateway */

static void a_full_queue_gets_503_and_when_to_try_again(void **state)
{
    enum { ROOM = REQUESTS_PER_WORKER + 2 };
    struct web_server server;
    struct web_client clients[ROOM];
    struct web_client late;
    struct web_answer answer;
    (void)state;
    gateway_start(&server, "--workers", "1", "--queue", "2");
    const pid_t worker = gateway_worker(&server);
    web_stop_process(worker);
    for (int i = 0; i < ROOM; i++) {
        web_connect(&clients[i], &server);
        gateway_post(&clients[i], "{\"prompt\":\"a\"}");
    }
    web_await_metric(&server, "gateway_requests_in_flight", ROOM);
    assert_int_equal(web_metric(&server, "gateway_requests_waiting"), 2);
    web_connect(&late, &server);
    gateway_post(&late, "{\"prompt\":\"a\"}");
    web_receive(&late, &answer);
    assert_int_equal(answer.status, 503);
    assert_true(web_has_header(&answer, "Retry-After: 1"));
    web_free(&answer);
    assert_int_equal(kill(worker, SIGCONT), 0);
    for (int i = 0; i < ROOM; i++) {
        web_expect(&clients[i], 200);
        web_close(&clients[i]);
    }
    gateway_post(&late, "{\"prompt\":\"a\"}");
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
    gateway_start_one(&server);
    const pid_t worker = gateway_worker(&server);
    web_stop_process(worker);
    for (int i = 0; i < CLIENTS; i++) {
        web_connect(&clients[i], &server);
        gateway_post(&clients[i],
                     i % 2 == 0 ? "{\"prompt\":\"a\"}" : "{\"prompt\":\"a\",\"stream\":true}");
        web_await_metric(&server, "gateway_requests_in_flight", (unsigned long long)i + 1);
    }
    assert_int_equal(kill(worker, SIGKILL), 0);
    for (int i = 0; i < CLIENTS; i++) {
        web_expect(&clients[i], i < REQUESTS_PER_WORKER ? 502 : 200);
    }
    assert_int_equal(web_metric(&server, "gateway_lost_total"), REQUESTS_PER_WORKER);
    for (int i = 0; i < CLIENTS; i++) {
        gateway_post(&clients[i], "{\"prompt\":\"a\"}");
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
    gateway_start_one(&server);
    const pid_t worker = gateway_worker(&server);
    web_stop_process(worker);
    web_connect(&client, &server);
    gateway_post(&client, "{\"prompt\":\"a\"}");
    web_await_metric(&server, "gateway_requests_in_flight", 1);
    web_close(&client);
    web_await_metric(&server, "gateway_clients_gone_total", 1);
    web_connect(&other, &server);
    gateway_post(&other, "{\"prompt\":\"b\"}");
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
    gateway_start_one(&server);
    const pid_t worker = gateway_worker(&server);
    web_stop_process(worker);
    for (int i = 0; i <= ASKED; i++) {
        web_connect(&clients[i], &server);
        gateway_post(&clients[i], "{\"prompt\":\"a\"}");
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
    char *body = gateway_long_body(100000, true, &size);
    (void)state;
    gateway_start_one(&server);
    for (unsigned i = 1; i <= 5; i++) {
        web_connect_with(&client, &server, 4096);
        web_post(&client, GATEWAY_PATH, body, size);
        web_receive_some(&client, 1000);
        web_close(&client);
        web_await_metric(&server, "gateway_clients_gone_total", i);
    }
    free(body);
    web_connect(&client, &server);
    gateway_post(&client, "{\"prompt\":\"one two three\",\"stream\":true}");
    gateway_expect_stream(&client);
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
    char *body = gateway_long_body(900000, true, &size);
    (void)state;
    web_start(&server, GATEWAY, arguments);
    web_connect_with(&slow, &server, 4096);
    web_post(&slow, GATEWAY_PATH, body, size);
    web_await_metric(&server, "gateway_clients_too_slow_total", 1);
    web_connect(&other, &server);
    gateway_post(&other, "{\"prompt\":\"one two three\",\"stream\":true}");
    gateway_expect_stream(&other);
    assert_int_equal(web_metric(&server, "gateway_requests_in_flight"), 0);
    free(body);
    web_close(&slow);
    web_close(&other);
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

/* The connection that is closed for being idle was opened after the other had asked. */
static void an_idle_connection_is_closed_and_one_that_waits_is_not(void **state)
{
    struct web_server server;
    struct web_client waiting;
    struct web_client idle;
    (void)state;
    gateway_start(&server, "--workers", "1", "--idle-timeout", "1");
    const pid_t worker = gateway_worker(&server);
    web_stop_process(worker);
    web_connect(&waiting, &server);
    gateway_post(&waiting, "{\"prompt\":\"a\"}");
    web_await_metric(&server, "gateway_requests_in_flight", 1);
    for (int i = 0; i < 2; i++) {
        web_connect(&idle, &server);
        web_expect_end(&idle);
        web_close(&idle);
    }
    assert_int_equal(kill(worker, SIGCONT), 0);
    web_expect(&waiting, 200);
    web_expect_end(&waiting); /* It is idle now. */
    web_close(&waiting);
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
    gateway_start_one(&server);
    const pid_t worker = gateway_worker(&server);
    web_stop_process(worker);
    web_connect(&client, &server);
    web_connect(&idle, &server);
    gateway_post(&client, "{\"prompt\":\"a\"}");
    web_await_metric(&server, "gateway_requests_in_flight", 1);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    await_end_of_accepting(&server);
    gateway_post(&idle, "{\"prompt\":\"a\"}");
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

/* No buffer of the system holds all of the stream, so that it is under way when the signal comes.
 */
static void sigterm_lets_a_stream_come_to_its_end(void **state)
{
    struct web_server server;
    struct web_client client;
    struct web_answer answer;
    size_t size = 0;
    char *body = gateway_long_body(400000, true, &size);
    const char *arguments[] = {
        "--port",          "0",        "--workers", "1",  "--body-max", "16777216",
        "--client-buffer", "67108864", "--grace",   "60", NULL};
    (void)state;
    web_start(&server, GATEWAY, arguments);
    web_connect_with(&client, &server, 65536);
    web_post(&client, GATEWAY_PATH, body, size);
    web_receive_some(&client, 1000);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    await_end_of_accepting(&server);
    web_receive(&client, &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body + answer.size - strlen("data: [DONE]\n\n"), "data: [DONE]\n\n");
    web_free(&answer);
    assert_int_equal(web_end(&server, 0), 0);
    web_close(&client);
    free(body);
}

/* More clients come, one after the other, than are accepted at a time. */
static void a_flood_of_connections_leaves_time_for_a_request(void **state)
{
    enum { PROCESSES = 2 };
    struct web_server server;
    struct web_client client;
    pid_t flood[PROCESSES];
    (void)state;
    gateway_start_one(&server);
    web_connect(&client, &server);
    for (int i = 0; i < PROCESSES; i++) {
        flood[i] = quiet_fork();
        assert_true(flood[i] >= 0);
        while (flood[i] == 0 && !web_refuses(&server)) {
        }
        if (flood[i] == 0) {
            _exit(0);
        }
    }
    web_await_metric(&server, "gateway_connections_total", 1000);
    gateway_post(&client, "{\"prompt\":\"a\"}");
    web_expect(&client, 200);
    assert_int_equal(web_end(&server, SIGTERM), 0);
    web_close(&client);
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(kill(flood[i], SIGKILL), 0);
        assert_int_equal(waitpid(flood[i], NULL, 0), flood[i]);
    }
}

static void a_second_signal_ends_it_at_once(void **state)
{
    struct web_server server;
    struct web_client client;
    (void)state;
    gateway_start(&server, "--workers", "1", "--grace", "3600");
    web_stop_process(gateway_worker(&server));
    web_connect(&client, &server);
    gateway_post(&client, "{\"prompt\":\"a\"}");
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
    gateway_start(&server, "--workers", "1", "--grace", "0");
    web_stop_process(gateway_worker(&server));
    web_connect(&client, &server);
    gateway_post(&client, "{\"prompt\":\"a\"}");
    web_await_metric(&server, "gateway_requests_in_flight", 1);
    assert_int_equal(web_end(&server, SIGTERM), 1);
    web_close(&client);
}

/* The number of /metrics over a connection that is there. */
static unsigned long long metric_over(struct web_client *client, const char *name)
{
    struct web_answer answer;
    web_send_text(client, "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n");
    web_receive(client, &answer);
    const char *line = strstr(answer.body, name);
    assert_non_null(line);
    const unsigned long long value = strtoull(line + strlen(name), NULL, 10);
    web_free(&answer);
    return value;
}

/* How many connections wait with the system before connect() does; 0: not known. */
static unsigned long backlog_max(void)
{
    unsigned long max = 0;
    FILE *file = fopen("/proc/sys/net/core/somaxconn", "r");
    if (file != NULL) {
        if (fscanf(file, "%lu", &max) != 1) {
            max = 0;
        }
        (void)fclose(file);
    }
    return max;
}

static void without_descriptors_to_spare_connections_wait_and_others_are_served(void **state)
{
    enum { CROWD = 400 };
    const char *arguments[] = {"-c",    "ulimit -n 300 && exec \"$0\" \"$@\"",
                               GATEWAY, "--port",
                               "0",     "--workers",
                               "1",     "--connections",
                               "50",    NULL};
    struct web_server server;
    struct web_client early;
    struct web_client late;
    static struct web_client crowd[CROWD];
    (void)state;
    if (backlog_max() < 512) {
        print_message("net.core.somaxconn is too low for %d clients, or not known: %lu\n", CROWD,
                      backlog_max());
        skip();
    }
    web_start(&server, "/bin/sh", arguments);
    const pid_t worker = gateway_worker(&server);
    web_connect(&early, &server);
    gateway_post(&early, "{\"prompt\":\"a\"}");
    web_expect(&early, 200);
    for (int i = 0; i < CROWD; i++) {
        web_connect(&crowd[i], &server);
    }
    while (metric_over(&early, "\ngateway_accept_pauses_total ") == 0) {
    }
    assert_int_equal(kill(worker, SIGKILL), 0); /* There is room for another one. */
    while (metric_over(&early, "\nevzmq_pool_restarts_total ") == 0) {
    }
    gateway_post(&early, "{\"prompt\":\"a\"}");
    web_expect(&early, 200);
    web_connect(&late, &server);
    gateway_post(&late, "{\"prompt\":\"a\"}");
    for (int i = 0; i < CROWD; i++) {
        web_close(&crowd[i]);
    }
    web_expect(&late, 200);
    web_close(&late);
    web_close(&early);
    assert_int_equal(web_end(&server, SIGTERM), 0);
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
    gateway_start(&server, "--connections", "1200", NULL, NULL);
    for (int i = 0; i < CONNECTIONS; i++) {
        web_connect(&clients[i], &server);
    }
    for (int i = CONNECTIONS - 1; i >= 0; i--) {
        gateway_post(&clients[i], "{\"prompt\":\"a\"}");
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        web_expect(&clients[i], 200);
        web_close(&clients[i]);
    }
    assert_int_equal(web_end(&server, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(a_full_queue_gets_503_and_when_to_try_again),
        claim(a_dead_worker_is_502_for_what_it_had_and_nothing_for_what_waited),
        claim(an_answer_for_a_client_that_left_is_dropped_and_counted),
        claim(a_request_whose_client_left_the_queue_is_never_sent),
        claim(a_client_that_leaves_in_mid_stream_harms_nobody),
        claim(a_client_that_does_not_read_its_stream_is_dropped),
        claim(an_idle_connection_is_closed_and_one_that_waits_is_not),
        claim(sigterm_finishes_what_is_under_way),
        claim(sigterm_lets_a_stream_come_to_its_end),
        claim(a_flood_of_connections_leaves_time_for_a_request),
        claim(a_second_signal_ends_it_at_once),
        claim(an_end_does_not_wait_for_ever),
        claim(without_descriptors_to_spare_connections_wait_and_others_are_served),
        claim(more_than_1024_connections_are_served),
    };
    return run_claims(tests);
}
