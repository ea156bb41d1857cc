/**
 * @file test_standstill.c
 * This process itself stands still for seconds while its peers go on: nothing is lost, and what
 * came in time is not taken for late because it was read late.
 */
#include "support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

enum { REQUESTS = 50, NUMBERS = 500, DEADLINE_MS = 1000, TOO_SLOW = 77 };

/* The process that is stopped: an adapter with a read timeout, and a requester. */
struct sleeper {
    char work[ENDPOINT_SIZE];
    char desk[ENDPOINT_SIZE];
    struct event_base *base;
    struct evzmq_requester *requester;
    uint64_t number; /* the next one to come */
    size_t replies;
    bool in_the_loop; /* stops in a callback of a timer, not in one of the adapter */
    struct event *stop;
};

static const struct timeval deadline = {DEADLINE_MS / 1000, DEADLINE_MS % 1000 * 1000};

/* Before it stops nothing may have ended: then the machine is too slow for the deadline. */
static void stand_still(evutil_socket_t fd, short what, void *arg)
{
    const struct sleeper *const sleeper = arg;

    (void)fd;
    (void)what;
    if (sleeper->replies > 0) {
        _exit(TOO_SLOW);
    }
    child_check(raise(SIGSTOP) == 0);
}

static void sleeper_read(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct sleeper *const sleeper = arg;
    const struct timeval at_once = {0, 0};
    uint64_t number = 0;

    memcpy(&number, evzmq_message_get_part(message, 0, NULL), sizeof number);
    child_check(number == sleeper->number);
    sleeper->number++;
    if (number == 0) {
        child_check(evzmq_socket_set_timeouts(socket, &deadline, NULL) == 0);
        if (sleeper->in_the_loop) {
            child_check(event_add(sleeper->stop, &at_once) == 0);
        } else {
            stand_still(-1, 0, sleeper);
        }
    } else if (number == NUMBERS) {
        child_check(evzmq_socket_set_timeouts(socket, NULL, NULL) == 0);
    }
}

static void sleeper_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    (void)socket;
    (void)arg;
    child_check(event->type != EVZMQ_EVENT_READ_TIMEOUT);
}

static void sleeper_reply(struct evzmq_requester *requester, int64_t request, int error,
                          struct evzmq_message *reply, void *arg)
{
    struct sleeper *const sleeper = arg;

    (void)requester;
    (void)request;
    (void)reply;
    if (error != 0 && sleeper->number == 0) {
        _exit(TOO_SLOW);
    }
    child_check(error == 0);
    sleeper->replies++;
}

static void sleeper_monitor(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event,
                            void *arg)
{
    (void)monitor;
    (void)arg;
    child_check(event->type != EVZMQ_MONITOR_DISCONNECTED);
}

/* An adapter of a new DEALER, connected with all that a context gives it. */
static struct evzmq_socket *sleeper_connect(struct sleeper *sleeper, struct evzmq_context *context,
                                            const char *endpoint)
{
    void *const dealer = evzmq_context_socket(context, ZMQ_DEALER);
    struct evzmq_socket *socket = NULL;

    child_check(dealer != NULL && evzmq_context_connect(context, dealer, endpoint) == 0);
    socket = evzmq_socket_new(sleeper->base, dealer, EVZMQ_OPT_CLOSE_ON_FREE);
    child_check(socket != NULL);
    return socket;
}

static void run_sleeper(void *arg)
{
    struct sleeper *const sleeper = arg;
    void *const zmq_context = zmq_ctx_new();
    struct evzmq_context *const context = evzmq_context_new_with(zmq_context, NULL);

    sleeper->base = event_base_new();
    sleeper->stop = evtimer_new(sleeper->base, stand_still, sleeper);
    struct evzmq_socket *const work = sleeper_connect(sleeper, context, sleeper->work);
    struct evzmq_socket *const desk = sleeper_connect(sleeper, context, sleeper->desk);
    struct evzmq_monitor *const monitor =
        evzmq_monitor_new(sleeper->base, zmq_context, evzmq_socket_get_zmq_socket(work),
                          EVZMQ_MONITOR_ALL, sleeper_monitor, NULL);
    evzmq_socket_setcb(work, sleeper_read, NULL, sleeper_event, sleeper);
    child_check(evzmq_socket_enable(work, EV_READ) == 0);
    sleeper->requester = evzmq_requester_new(desk, NULL);
    child_check(monitor != NULL && sleeper->requester != NULL);
    for (int i = 0; i < REQUESTS; i++) {
        child_check(evzmq_request_bytes(sleeper->requester, "?", 1, DEADLINE_MS, sleeper_reply,
                                        sleeper) >= 0);
    }
    child_ready("asked");
    while (sleeper->number <= NUMBERS || sleeper->replies < REQUESTS) {
        child_check(event_base_loop(sleeper->base, EVLOOP_ONCE) == 0);
    }
    evzmq_monitor_free(monitor);
    evzmq_requester_free(sleeper->requester);
    evzmq_socket_free(desk);
    evzmq_socket_free(work);
    event_free(sleeper->stop);
    child_check(evzmq_context_free(context) == 0 && zmq_ctx_term(zmq_context) == 0);
    event_base_free(sleeper->base);
}

/* Answers all requests, with their own envelope. */
static void answer_all(char requests[REQUESTS][64], const size_t *ids, void *desk)
{
    for (int i = 0; i < REQUESTS; i++) {
        const char *const request = requests[i];

        assert_true(zmq_send(desk, request, ids[0], ZMQ_SNDMORE) >= 0);
        assert_true(zmq_send(desk, request + ids[0], ids[1], ZMQ_SNDMORE) >= 0);
        assert_true(zmq_send(desk, "", 0, ZMQ_SNDMORE) >= 0);
        assert_true(zmq_send(desk, "!", 1, 0) >= 0);
    }
}

/* Their routing ids and request ids, which are all of the same sizes. */
static void receive_all(char requests[REQUESTS][64], size_t ids[2], void *desk)
{
    for (int i = 0; i < REQUESTS; i++) {
        char rest[8];
        int size = zmq_recv(desk, requests[i], 32, 0);

        assert_in_range(size, 1, 32);
        ids[0] = (size_t)size;
        size = zmq_recv(desk, requests[i] + ids[0], 32, 0);
        assert_int_equal(size, EVZMQ_REQUEST_ID_BYTES);
        ids[1] = (size_t)size;
        assert_int_equal(zmq_recv(desk, rest, sizeof rest, 0), 0);
        assert_int_equal(zmq_recv(desk, rest, sizeof rest, 0), 1);
    }
}

/* Returns 0 where the machine was too slow for the deadline before the child was stopped. */
static int check_standstill(struct fixture *f, bool in_the_loop)
{
    struct sleeper sleeper = {.in_the_loop = in_the_loop};
    char requests[REQUESTS][64];
    size_t ids[2] = {0, 0};
    char text[256];
    int status = 0;
    void *const work = peer_new(f, ZMQ_DEALER);
    void *const desk = peer_new(f, ZMQ_ROUTER);

    peer_bind(f, work, TRANSPORT_TCP, sleeper.work);
    peer_bind(f, desk, TRANSPORT_TCP, sleeper.desk);
    const pid_t child = child_start(run_sleeper, &sleeper, text);
    receive_all(requests, ids, desk);
    peer_send_sequence(work, 0, 1, 8);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    if (WIFSTOPPED(status)) {
        answer_all(requests, ids, desk);
        peer_send_sequence(work, 1, NUMBERS, 8);
        fixture_run_for(f, (int)scaled(2 * DEADLINE_MS, 3 * DEADLINE_MS));
        assert_ok(kill(child, SIGCONT));
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    peer_close(f, work);
    peer_close(f, desk);
    if (WIFEXITED(status) && WEXITSTATUS(status) == TOO_SLOW) {
        return 0;
    }
    assert_int_equal(status, 0);
    return 1;
}

static void a_process_stopped_in_a_callback_loses_nothing_and_times_nothing_out(void **state)
{
    while (!check_standstill(*state, false)) {
    }
}

static void a_process_stopped_in_its_loop_loses_nothing_and_times_nothing_out(void **state)
{
    while (!check_standstill(*state, true)) {
    }
}

enum { SOCKETS = 20, MESSAGES = 200 };

/* A callback that takes longer than all timeouts, while messages come for everybody. */
static void take_long(evutil_socket_t fd, short what, void *arg)
{
    void **const peers = arg;

    (void)fd;
    (void)what;
    for (int i = 0; i < SOCKETS; i++) {
        peer_send_sequence(peers[i], 0, MESSAGES, 8);
    }
    (void)zmq_poll(NULL, 0, 200);
}

/* The last one is followed by nothing. */
static void read_until_last(struct probe *p, struct evzmq_message *message)
{
    read_sequence(p, message);
    if (p->sequence == MESSAGES) {
        assert_ok(evzmq_socket_set_timeouts(p->socket, NULL, NULL));
    }
}

static void messages_that_came_while_a_callback_took_long_stop_the_read_timeouts(void **state)
{
    struct fixture *const f = *state;
    const struct timeval brief = {0, 100000};
    const struct timeval at_once = {0, 0};
    struct probe probes[SOCKETS] = {{.on_read = NULL}};
    void *peers[SOCKETS];
    size_t all = 0;

    for (int i = 0; i < SOCKETS; i++) {
        void *pull = NULL;

        peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &peers[i]);
        probes[i].on_read = read_until_last;
        probe_attach(f, &probes[i], pull, 0);
        probe_enable(&probes[i], EV_READ);
    }
    fixture_glance(f);
    struct event *const long_one = evtimer_new(f->base, take_long, peers);
    for (int i = 0; i < SOCKETS; i++) {
        assert_ok(evzmq_socket_set_timeouts(probes[i].socket, &brief, NULL));
    }
    assert_ok(event_add(long_one, &at_once));
    while (all < SOCKETS * MESSAGES) {
        fixture_turn(f);
        all = 0;
        for (int i = 0; i < SOCKETS; i++) {
            all += probes[i].reads;
            assert_int_equal(probes[i].events_all, 0);
        }
    }
    event_free(long_one);
    for (int i = 0; i < SOCKETS; i++) {
        probe_free(&probes[i]);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_process_stopped_in_a_callback_loses_nothing_and_times_nothing_out),
        claim(a_process_stopped_in_its_loop_loses_nothing_and_times_nothing_out),
        claim(messages_that_came_while_a_callback_took_long_stop_the_read_timeouts),
    };

    return run_claims(tests);
}
