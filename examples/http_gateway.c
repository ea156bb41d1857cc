/*
 * http_gateway: an HTTP server on libevent's evhttp whose answers come from a pool of worker
 * processes. One program is both: started by the pool it is a worker. gateway/gateway.h says what
 * is where.
 *
 *     HTTP client -> evhttp -> Query -> evzmq_pool -> worker
 *     HTTP client <- evhttp <- QueryResult, StreamChunk <- evzmq_pool <- worker
 *
 * This file starts everything and ends it: at the first SIGINT or SIGTERM nothing more is accepted,
 * what is under way is answered, the workers end, then the program; at the second it ends at once.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/exchange.h"
#include "gateway/gateway.h"
#include "gateway/worker.h"

#define READY_SECONDS 10
#define SHUTDOWN_SECONDS 5
/* A worker that is not heard of for so long is killed. */
#define SILENCE_MS 15000
/* Requests wait for workers meanwhile. */
#define RESTART_DELAY_MAX_MS 500

static void on_end(struct evzmq_pool *pool, const struct evzmq_pool_report *report, void *arg)
{
    struct gateway *gateway = arg;
    (void)pool;
    if (report->terminated + report->killed + report->left > 0) {
        (void)complain("%u workers had to be killed",
                       report->terminated + report->killed + report->left);
    }
    (void)event_base_loopexit(gateway->base, NULL);
}

static void end_pool(struct gateway *gateway)
{
    const struct timeval deadline = {SHUTDOWN_SECONDS, 0};
    if (gateway->ending_pool) {
        return;
    }
    gateway->ending_pool = true;
    (void)event_del(gateway->patience); /* It is for requests, not for workers. */
    if (gateway->pool == NULL ||
        evzmq_pool_shutdown(gateway->pool, &deadline, on_end, gateway) != 0) {
        (void)event_base_loopexit(gateway->base, NULL);
    }
}

void gateway_idle(struct gateway *gateway)
{
    if (gateway->ending) {
        end_pool(gateway);
    }
}

static void on_patience(evutil_socket_t fd, short events, void *arg)
{
    struct gateway *gateway = arg;
    (void)fd;
    (void)events;
    (void)complain("%zu requests are not answered in time", gateway->exchanges.in_flight);
    gateway->failed = true;
    end_pool(gateway);
}

static void on_signal(evutil_socket_t number, short events, void *arg)
{
    struct gateway *gateway = arg;
    const struct timeval grace = {(time_t)gateway->options.grace, 0};
    (void)number;
    (void)events;
    if (gateway->ending) {
        (void)complain("a second signal: ends at once");
        gateway->failed = true;
        (void)event_base_loopbreak(gateway->base);
        return;
    }
    gateway->ending = true;
    listen_stop(gateway);
    if (gateway->exchanges.in_flight == 0) {
        end_pool(gateway);
    } else {
        (void)event_add(gateway->patience, &grace);
    }
}

static int listen_to_signals(struct gateway *gateway)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    (void)signal(SIGPIPE, SIG_IGN);
    gateway->patience = evtimer_new(gateway->base, on_patience, gateway);
    for (size_t i = 0; i < 2; i++) {
        gateway->signals[i] = evsignal_new(gateway->base, numbers[i], on_signal, gateway);
        if (gateway->signals[i] == NULL || event_add(gateway->signals[i], NULL) != 0) {
            return complain("cannot watch signals");
        }
    }
    return gateway->patience == NULL ? complain("no memory") : 0;
}

static void say_where(const struct gateway *gateway)
{
    const char *address = gateway->options.address;
    const int is_v6 = strchr(address, ':') != NULL;
    printf("http_gateway: http://%s%s%s:%u/\n", is_v6 ? "[" : "", address, is_v6 ? "]" : "",
           listen_port(gateway));
    (void)fflush(stdout);
}

static void on_ready(struct evzmq_pool *pool, unsigned ready, int error, void *arg)
{
    struct gateway *gateway = arg;
    (void)pool;
    if (error == ECANCELED) {
        return;
    }
    if (error != 0) {
        (void)complain("%u of %u workers are ready: %s", ready, gateway->options.workers,
                       evzmq_strerror(error));
    }
    if (ready > 0) {
        say_where(gateway);
    } else {
        gateway->failed = true;
        (void)event_base_loopbreak(gateway->base);
    }
}

/* Requests go out with one codec, answers come in with another. */
static int make_pool(struct gateway *gateway, const char *const *worker_argv)
{
    const struct timeval timeout = {READY_SECONDS, 0};
    gateway->queries = evzmq_schema_codec_new(&evzmq_record_query_schema, NULL);
    gateway->responses = evzmq_schema_codec_new(&evzmq_record_response_schema, NULL);
    if (gateway->queries == NULL || gateway->responses == NULL || completions_begin(gateway) != 0) {
        return complain("no memory");
    }
    const struct evzmq_pool_options options = {.size = sizeof(options),
                                               .worker_argv = worker_argv,
                                               .restarts_max = UINT_MAX,
                                               .restart_delay_max_ms = RESTART_DELAY_MAX_MS,
                                               .silence_ms = SILENCE_MS,
                                               .unanswered_max = REQUESTS_PER_WORKER,
                                               .codec = gateway->queries};
    gateway->pool =
        evzmq_pool_new(gateway->base, gateway->context, gateway->options.workers, &options);
    if (gateway->pool == NULL) {
        const int error = errno;
        const char *words = evzmq_context_get_error(gateway->context);
        return complain("cannot start %u workers: %s%s%s", gateway->options.workers,
                        evzmq_strerror(error), *words != '\0' ? ": " : "", words);
    }
    evzmq_pool_setcb(gateway->pool, completions_answer, completions_event, gateway);
    if (evzmq_socket_set_codec(evzmq_pool_get_response_socket(gateway->pool), gateway->responses) !=
            0 ||
        evzmq_pool_enable(gateway->pool) != 0 ||
        evzmq_pool_check_ready(gateway->pool, &timeout, on_ready, gateway) != 0) {
        return complain("%s", evzmq_strerror(errno));
    }
    return 0;
}

/* select() knows no descriptor above 1,023, so a base must have something better. */
static struct event_base *make_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;
    if (config != NULL && event_config_avoid_method(config, "select") == 0) {
        base = event_base_new_with_config(config);
    }
    if (config != NULL) {
        event_config_free(config);
    }
    return base;
}

static int start(struct gateway *gateway, const char *const *worker_argv)
{
    if (listen_raise_limit(&gateway->options) != 0) {
        return -1;
    }
    const struct timeval timeout = {(time_t)gateway->options.timeout, 0};
    gateway->base = make_base();
    gateway->context = evzmq_context_new(1, NULL);
    if (gateway->base == NULL || gateway->context == NULL) {
        return complain("cannot make an event base (other than select) and a ZeroMQ context");
    }
    gateway->timeout = event_base_init_common_timeout(gateway->base, &timeout);
    if (gateway->timeout == NULL) {
        return complain("no memory");
    }
    if (listen_to_signals(gateway) != 0 || listen_start(gateway) != 0) {
        return -1;
    }
    if (!gateway->options.direct) {
        return make_pool(gateway, worker_argv);
    }
    say_where(gateway);
    return 0;
}

static void finish(struct gateway *gateway)
{
    if (gateway->http != NULL) {
        evhttp_free(gateway->http); /* and with it what is still under way */
    }
    evzmq_pool_free(gateway->pool);
    exchange_clear(gateway);
    completions_clear(gateway);
    evzmq_codec_free(gateway->queries);
    evzmq_codec_free(gateway->responses);
    struct event *events[] = {gateway->signals[0], gateway->signals[1], gateway->patience,
                              gateway->accept_again};
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (events[i] != NULL) {
            event_free(events[i]);
        }
    }
    (void)evzmq_context_free(gateway->context);
    if (gateway->base != NULL) {
        event_base_free(gateway->base);
    }
}

/* The path of this program, which the pool starts as its workers. */
static const char *own_path(const char *argv0)
{
    static char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length <= 0) {
        return argv0;
    }
    path[length] = '\0';
    return path;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], WORKER_ARGUMENT) == 0) {
        return be_a_worker(argv[2]);
    }
    static struct gateway gateway;
    const int status = options_parse(argc, argv, &gateway.options);
    if (status >= 0) {
        return status;
    }
    const char *program =
        gateway.options.worker != NULL ? gateway.options.worker : own_path(argv[0]);
    const char *worker_argv[] = {program, WORKER_ARGUMENT, NULL};
    const int result = start(&gateway, worker_argv);
    if (result == 0) {
        (void)event_base_dispatch(gateway.base);
    }
    finish(&gateway);
    return result == 0 && !gateway.failed ? EXIT_SUCCESS : EXIT_FAILURE;
}
