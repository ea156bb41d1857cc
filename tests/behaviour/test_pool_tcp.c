/**
 * @file test_pool_tcp.c
 * The same pool over tcp: on one machine, through a bad network, and between two network
 * namespaces where the system lets this test make them.
 */
#include "crew.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "proxy.h"

static void the_same_pool_works_over_tcp(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = crew_options("echo");
    struct crew crew = {0};

    options.endpoint = "tcp://127.0.0.1:*";
    crew_open(f, &crew, 3, &options);
    assert_int_equal(crew_count_entries(crew.directory), 0); /* No ipc, no directory. */
    crew_wait_ready(&crew);
    for (int i = 0; i < 300; i++) {
        crew_send(&crew, EVZMQ_POOL_NEXT, "x");
    }
    run_until(f, crew.answers == 300);
    crew_send(&crew, 0, "kill");
    run_until(f, crew.events[EVZMQ_POOL_EVENT_LOST] == 1);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_KILLED);
    crew_shutdown(&crew, 20000);
    assert_int_equal(crew.report.exited, 2);
    crew_close(&crew);
}

static void ports_are_in_a_row_and_a_taken_one_is_an_error(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = {.size = sizeof options};
    char endpoint[ENDPOINT_SIZE];
    char expected[ENDPOINT_SIZE];
    char chosen[ENDPOINT_SIZE];
    struct crew crew = {0};
    unsigned port = 0;

    crew_open_context(f, &crew);
    for (port = 20000 + (unsigned)getpid() % 10000; crew.pool == NULL; port += 7) {
        (void)snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", port);
        options.endpoint = endpoint;
        crew.pool = evzmq_pool_new(f->base, crew.context, 3, &options);
        assert_true(crew.pool != NULL || errno == EADDRINUSE);
    }
    port -= 7;
    assert_null(evzmq_pool_new(f->base, crew.context, 3, &options));
    assert_int_equal(errno, EADDRINUSE);
    for (unsigned i = 0; i < 3; i++) {
        crew_endpoint(&crew, i, "requests", chosen);
        (void)snprintf(expected, sizeof expected, "tcp://127.0.0.1:%u", port + 2 + i);
        assert_string_equal(chosen, expected);
    }
    evzmq_pool_free(crew.pool);
    crew.pool = NULL;
    options.endpoint = "tcp://127.0.0.1:65534";
    assert_null(evzmq_pool_new(f->base, crew.context, 3, &options));
    assert_true(errno == EINVAL || errno == EADDRINUSE);
    options.endpoint = "tcp://127.0.0.1";
    assert_null(evzmq_pool_new(f->base, crew.context, 3, &options));
    assert_int_equal(errno, EINVAL);
    crew_close(&crew);
}

/* A pool whose workers go through proxies: one in front of each of its ports. */
enum { BEHIND = 2, PROXIES = BEHIND + 2 };

struct network {
    struct crew crew;
    struct proxy *proxies[PROXIES];
};

static uint16_t port_of(const struct crew *crew, unsigned worker, const char *name)
{
    char endpoint[ENDPOINT_SIZE];

    crew_endpoint(crew, worker, name, endpoint);
    return (uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10);
}

static int open_network(struct fixture *f, struct network *network, unsigned silence_ms)
{
    struct evzmq_pool_options options = crew_options("echo");
    uint16_t ports[PROXIES];

    memset(network, 0, sizeof *network);
    options.endpoint = "tcp://127.0.0.1:*";
    options.advertised_address = "127.0.0.2";
    options.heartbeat_ms = 50;
    options.silence_ms = silence_ms;
    options.ready_ms = 30000;
    crew_open(f, &network->crew, BEHIND, &options);
    ports[0] = port_of(&network->crew, 0, "ready");
    ports[1] = port_of(&network->crew, 0, "responses");
    for (unsigned i = 0; i < BEHIND; i++) {
        ports[2 + i] = port_of(&network->crew, i, "requests");
    }
    for (int i = 0; i < PROXIES; i++) {
        network->proxies[i] = proxy_start("127.0.0.2", ports[i], "127.0.0.1", ports[i]);
        if (network->proxies[i] == NULL) {
            return 0;
        }
    }
    return 1;
}

static void close_network(struct network *network)
{
    crew_close(&network->crew);
    for (int i = 0; i < PROXIES; i++) {
        proxy_stop(network->proxies[i]);
    }
}

static void for_all(struct network *network, void (*function)(struct proxy *proxy))
{
    for (int i = 0; i < PROXIES; i++) {
        function(network->proxies[i]);
    }
}

/* Sends until a worker answers: what a cut had in its hands is lost. */
static void run_until_answered(struct network *network, unsigned worker)
{
    struct crew *const crew = &network->crew;
    const size_t before = crew->answers_of[worker];

    while (crew->answers_of[worker] == before) {
        (void)evzmq_pool_send(crew->pool, worker, "x", 1);
        fixture_run_for(crew->f, 20);
    }
}

/* Opens a network, or skips the test with a word where 127.0.0.2 is not this machine. */
#define network_or_skip(f, network, silence_ms)                                                    \
    do {                                                                                           \
        if (!open_network(f, network, silence_ms)) {                                               \
            close_network(network);                                                                \
            print_message("skipped: cannot listen on 127.0.0.2 here\n");                           \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

static void a_slow_network_delays_and_loses_nothing(void **state)
{
    struct fixture *const f = *state;
    struct network network;

    network_or_skip(f, &network, 30000);
    for (int i = 0; i < PROXIES; i++) {
        proxy_delay(network.proxies[i], 50);
    }
    crew_wait_ready(&network.crew);
    for (int i = 0; i < 500; i++) {
        crew_send(&network.crew, (unsigned)i % 2, "x");
    }
    crew_send(&network.crew, 0, "big 1000000");
    run_until(f, network.crew.answers == 501);
    crew_shutdown(&network.crew, 20000);
    assert_int_equal(network.crew.report.undelivered + network.crew.report.unanswered, 0);
    assert_int_equal(network.crew.events[EVZMQ_POOL_EVENT_LOST], 0);
    close_network(&network);
}

static void connections_that_are_cut_are_made_again_and_work_goes_on(void **state)
{
    struct fixture *const f = *state;
    struct network network;

    network_or_skip(f, &network, 30000);
    crew_wait_ready(&network.crew);
    for (int i = 0; i < 5; i++) {
        for_all(&network, proxy_cut);
        run_until_answered(&network, 0);
        run_until_answered(&network, 1);
    }
    assert_int_equal(network.crew.events[EVZMQ_POOL_EVENT_LOST], 0);
    assert_true(proxy_accepted(network.proxies[2]) > 1);
    close_network(&network);
}

static void a_cut_connection_is_told_with_the_requests_that_it_may_have_cost(void **state)
{
    struct fixture *const f = *state;
    struct network network;
    struct crew *const crew = &network.crew;

    network_or_skip(f, &network, 30000);
    crew_wait_ready(crew);
    run_until_answered(&network, 0);
    run_until_answered(&network, 1);
    assert_int_equal(crew->events[EVZMQ_POOL_EVENT_RECONNECTED], 0);
    for (int i = 0; i < 3; i++) {
        crew_send(crew, 1, "mute");
    }
    run_until(f, crew_worker_stats(crew, 1).unanswered == 3);
    proxy_cut(network.proxies[2 + 1]); /* the requests of worker 1 */
    run_until(f, crew->events[EVZMQ_POOL_EVENT_RECONNECTED] == 1);
    assert_int_equal(crew->last.worker, 1);
    assert_int_equal(crew->last.unanswered, 3);
    assert_int_equal(crew_worker_stats(crew, 1).unanswered, 0);
    proxy_cut(network.proxies[1]); /* the answers of both */
    run_until(f, crew->events[EVZMQ_POOL_EVENT_RECONNECTED] == 3);
    assert_int_equal(crew_stats(crew).reconnections, 3);
    assert_int_equal(crew->events[EVZMQ_POOL_EVENT_LOST], 0);
    close_network(&network);
}

static void half_closed_connections_are_made_again_and_work_goes_on(void **state)
{
    struct fixture *const f = *state;
    struct network network;

    network_or_skip(f, &network, 30000);
    crew_wait_ready(&network.crew);
    for_all(&network, proxy_half_close);
    run_until_answered(&network, 0);
    run_until_answered(&network, 1);
    assert_int_equal(network.crew.events[EVZMQ_POOL_EVENT_LOST], 0);
    close_network(&network);
}

static void a_network_that_swallows_everything_makes_workers_silent(void **state)
{
    struct fixture *const f = *state;
    struct network network;

    network_or_skip(f, &network, 1500);
    crew_wait_ready(&network.crew);
    crew_send(&network.crew, 0, "x"); /* From here on libzmq has the way to it. */
    run_until(f, network.crew.answers == 1);
    for (int i = 0; i < PROXIES; i++) {
        proxy_stall(network.proxies[i], 1);
    }
    crew_send(&network.crew, 0, "x");
    run_until(f, network.crew.events[EVZMQ_POOL_EVENT_LOST] == BEHIND);
    assert_int_equal(network.crew.last_loss.loss, EVZMQ_POOL_LOSS_SILENT);
    assert_int_equal(crew_worker_stats(&network.crew, 0).unanswered, 1);
    close_network(&network);
}

/* Another network namespace, joined to this one by a pair of interfaces. */
struct space {
    char name[32];
    char here[16]; /* the interface */
    char address[32];
    char there[32];
};

static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int run(const char *format, ...)
{
    char command[256];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return system(command);
}

static int space_open(struct space *space)
{
    const unsigned number = (unsigned)getpid();

    (void)snprintf(space->name, sizeof space->name, "evzmq-%u", number);
    (void)snprintf(space->here, sizeof space->here, "ez%u", number);
    (void)snprintf(space->address, sizeof space->address, "10.%u.%u.1", 100 + number % 100,
                   number / 100 % 250);
    (void)snprintf(space->there, sizeof space->there, "10.%u.%u.2", 100 + number % 100,
                   number / 100 % 250);
    if (geteuid() != 0 || run("ip netns add %s >/dev/null 2>&1", space->name) != 0) {
        return 0;
    }
    return run("ip link add %s type veth peer name ezin netns %s >/dev/null 2>&1", space->here,
               space->name) == 0 &&
           run("ip addr add %s/24 dev %s >/dev/null 2>&1", space->address, space->here) == 0 &&
           run("ip link set %s up >/dev/null 2>&1", space->here) == 0 &&
           run("ip -n %s addr add %s/24 dev ezin >/dev/null 2>&1", space->name, space->there) ==
               0 &&
           run("ip -n %s link set ezin up >/dev/null 2>&1", space->name) == 0;
}

static void space_close(const struct space *space)
{
    if (geteuid() == 0) {
        (void)run("ip link del %s >/dev/null 2>&1", space->here);
        (void)run("ip netns del %s >/dev/null 2>&1", space->name);
    }
}

/* Starts a worker in the other namespace, as an operator on another machine would. */
static pid_t start_there(const struct space *space, const struct crew *crew, unsigned worker)
{
    const struct evzmq_pool_options options = crew_options("echo");
    const char *const connection = evzmq_pool_get_connection(crew->pool, worker);
    const pid_t child = quiet_fork();

    assert_true(child >= 0);
    if (child == 0) {
        (void)execlp("ip", "ip", "netns", "exec", space->name, options.worker_argv[0], "--worker",
                     "echo", connection, (char *)NULL);
        _exit(127);
    }
    return child;
}

static void workers_in_another_network_namespace_work_are_missed_and_come_back(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_pool_options options = {.size = sizeof options};
    struct crew crew = {0};
    struct space space;
    char endpoint[ENDPOINT_SIZE];
    pid_t pids[2];
    int status = 0;

    if (!space_open(&space)) {
        space_close(&space);
        print_message("skipped: cannot make a network namespace here\n");
        skip();
    }
    (void)snprintf(endpoint, sizeof endpoint, "tcp://%s:*", space.address);
    options.endpoint = endpoint;
    options.heartbeat_ms = 50;
    options.silence_ms = 1500;
    options.ready_ms = 30000;
    crew_open(f, &crew, 2, &options);
    for (unsigned i = 0; i < 2; i++) {
        pids[i] = start_there(&space, &crew, i);
    }
    crew_wait_ready(&crew);
    for (int i = 0; i < 100; i++) {
        crew_send(&crew, EVZMQ_POOL_NEXT, "x");
    }
    run_until(f, crew.answers == 100);
    assert_int_equal(run("ip link set %s down", space.here), 0);
    run_until(f, crew.events[EVZMQ_POOL_EVENT_LOST] == 2);
    assert_int_equal(crew.last_loss.loss, EVZMQ_POOL_LOSS_SILENT);
    assert_int_equal(run("ip link set %s up", space.here), 0);
    run_until(f, crew_stats(&crew).up == 2);
    crew_send(&crew, 0, "x");
    crew_send(&crew, 1, "x");
    run_until(f, crew.answers == 102);
    crew_shutdown(&crew, 20000);
    assert_int_equal(crew.report.undelivered + crew.report.unanswered, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0); /* Asked to end, they ended. */
    }
    crew_close(&crew);
    space_close(&space);
}

int main(int argc, char **argv)
{
    crew_main(argc, argv);
    const struct CMUnitTest tests[] = {
        claim(the_same_pool_works_over_tcp),
        claim(ports_are_in_a_row_and_a_taken_one_is_an_error),
        claim(a_slow_network_delays_and_loses_nothing),
        claim(connections_that_are_cut_are_made_again_and_work_goes_on),
        claim(a_cut_connection_is_told_with_the_requests_that_it_may_have_cost),
        claim(half_closed_connections_are_made_again_and_work_goes_on),
        claim(a_network_that_swallows_everything_makes_workers_silent),
        claim(workers_in_another_network_namespace_work_are_missed_and_come_back),
    };

    return run_claims(tests);
}
