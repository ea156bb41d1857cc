/**
 * @file test_context.c
 * Contexts: safe options, children that are counted, a close that ends, and forked children that
 * touch nothing.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "child.h"
#include "place.h"
#include "raw.h"

static struct evzmq_context *context_new(void)
{
    struct evzmq_context *const context = evzmq_context_new(0, NULL);

    assert_non_null(context);
    return context;
}

static int get_int(void *zmq_socket, int option)
{
    int value = 0;
    size_t size = sizeof value;

    assert_ok(zmq_getsockopt(zmq_socket, option, &value, &size));
    return value;
}

static int64_t max_message(void *zmq_socket)
{
    int64_t value = 0;
    size_t size = sizeof value;

    assert_ok(zmq_getsockopt(zmq_socket, ZMQ_MAXMSGSIZE, &value, &size));
    return value;
}

static void assert_error_names(const struct evzmq_context *context, const char *word)
{
    if (strstr(evzmq_context_get_error(context), word) == NULL) {
        fail_msg("\"%s\" does not say %s", evzmq_context_get_error(context), word);
    }
}

static void a_new_socket_has_the_documented_options(void **state)
{
    struct evzmq_context *const context = context_new();
    void *const socket = evzmq_context_socket(context, ZMQ_DEALER);

    (void)state;
    assert_int_equal(get_int(socket, ZMQ_LINGER), EVZMQ_CONTEXT_LINGER_MS_DEFAULT);
    assert_int_equal(max_message(socket), EVZMQ_CONTEXT_MESSAGE_BYTES_MAX_DEFAULT);
    assert_int_equal(get_int(socket, ZMQ_SNDHWM), EVZMQ_CONTEXT_HIGH_WATER_MARK_DEFAULT);
    assert_int_equal(get_int(socket, ZMQ_RCVHWM), EVZMQ_CONTEXT_HIGH_WATER_MARK_DEFAULT);
    assert_int_equal(get_int(socket, ZMQ_HANDSHAKE_IVL), EVZMQ_CONTEXT_HANDSHAKE_MS_DEFAULT);
    assert_int_equal(get_int(socket, ZMQ_BACKLOG), EVZMQ_CONTEXT_BACKLOG_DEFAULT);
    assert_int_equal(get_int(socket, ZMQ_IMMEDIATE), 0);
    assert_int_equal(get_int(socket, ZMQ_HEARTBEAT_IVL), 0);
    assert_ok(evzmq_context_close_socket(context, socket));
    assert_ok(evzmq_context_free(context));
}

static void assert_probes(const struct evzmq_context_limits *limits, int on, int interval_s,
                          int count)
{
    struct evzmq_context *const context = context_new();
    void *socket = NULL;

    assert_ok(evzmq_context_set_limits(context, limits));
    socket = evzmq_context_socket(context, ZMQ_PULL);
    assert_int_equal(get_int(socket, ZMQ_TCP_KEEPALIVE), on);
    assert_int_equal(get_int(socket, ZMQ_TCP_KEEPALIVE_IDLE), interval_s);
    assert_int_equal(get_int(socket, ZMQ_TCP_KEEPALIVE_INTVL), interval_s);
    assert_int_equal(get_int(socket, ZMQ_TCP_KEEPALIVE_CNT), count);
    /* The system accepts them: libzmq would abort otherwise, once somebody connects. */
    assert_ok(evzmq_context_bind(context, socket, "tcp://127.0.0.1:*"));
    const int peer = raw_open(raw_port(evzmq_context_get_endpoint(context, socket)));
    assert_true(peer >= 0);
    raw_reset(peer);
    assert_ok(evzmq_context_close_socket(context, socket));
    assert_ok(evzmq_context_free(context));
}

/* An interval that the system waits before it asks, and as many probes as fill the rest. */
static void idle_tcp_connections_are_probed_by_the_system_within_the_timeout(void **state)
{
    const struct evzmq_context_limits none = {.size = sizeof none,
                                              .heartbeat_ms = EVZMQ_CONTEXT_NONE};
    const struct evzmq_context_limits brief = {
        .size = sizeof brief, .heartbeat_ms = 1, .heartbeat_timeout_ms = 2};
    const struct evzmq_context_limits often = {
        .size = sizeof often, .heartbeat_ms = 1, .heartbeat_timeout_ms = 6553500};
    const struct evzmq_context_limits rarely = {
        .size = sizeof rarely, .heartbeat_ms = 6553499, .heartbeat_timeout_ms = 6553500};

    (void)state;
    assert_probes(NULL, 1, 2, 4);
    assert_probes(&none, -1, -1, -1);
    assert_probes(&brief, 1, 1, 1);
    assert_probes(&often, 1, 1, 127);
    assert_probes(&rarely, 1, 6554, 1);
}

static void limits_hold_for_the_sockets_made_after_them(void **state)
{
    const struct evzmq_context_limits limits = {.size = sizeof limits,
                                                .linger_ms = 7,
                                                .message_bytes_max = 1000,
                                                .send_high_water_mark = 3,
                                                .receive_high_water_mark = 4,
                                                .handshake_ms = 100,
                                                .backlog = 5};
    const struct evzmq_context_limits none = {.size = sizeof none,
                                              .linger_ms = EVZMQ_CONTEXT_NONE,
                                              .message_bytes_max = EVZMQ_CONTEXT_NONE,
                                              .send_high_water_mark = EVZMQ_CONTEXT_NONE,
                                              .handshake_ms = EVZMQ_CONTEXT_NONE};
    struct evzmq_context *const context = context_new();
    void *sockets[3];

    (void)state;
    sockets[0] = evzmq_context_socket(context, ZMQ_PAIR);
    assert_ok(evzmq_context_set_limits(context, &limits));
    sockets[1] = evzmq_context_socket(context, ZMQ_PAIR);
    assert_ok(evzmq_context_set_limits(context, &none));
    sockets[2] = evzmq_context_socket(context, ZMQ_PAIR);
    assert_int_equal(get_int(sockets[0], ZMQ_LINGER), EVZMQ_CONTEXT_LINGER_MS_DEFAULT);
    assert_int_equal(get_int(sockets[1], ZMQ_LINGER), 7);
    assert_int_equal(max_message(sockets[1]), 1000);
    assert_int_equal(get_int(sockets[1], ZMQ_SNDHWM), 3);
    assert_int_equal(get_int(sockets[1], ZMQ_RCVHWM), 4);
    assert_int_equal(get_int(sockets[1], ZMQ_HANDSHAKE_IVL), 100);
    assert_int_equal(get_int(sockets[1], ZMQ_BACKLOG), 5);
    assert_int_equal(get_int(sockets[2], ZMQ_LINGER), 0);
    assert_int_equal(max_message(sockets[2]), -1);
    assert_int_equal(get_int(sockets[2], ZMQ_SNDHWM), 0);
    assert_int_equal(get_int(sockets[2], ZMQ_RCVHWM), EVZMQ_CONTEXT_HIGH_WATER_MARK_DEFAULT);
    assert_int_equal(get_int(sockets[2], ZMQ_HANDSHAKE_IVL), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(evzmq_context_close_socket(context, sockets[i]));
    }
    assert_ok(evzmq_context_free(context));
}

static void limits_out_of_range_are_einval_and_change_nothing(void **state)
{
    const struct evzmq_context_limits bad[] = {
        {.size = 0},
        {.size = sizeof bad[0], .linger_ms = -2},
        {.size = sizeof bad[0], .message_bytes_max = -2},
        {.size = sizeof bad[0], .send_high_water_mark = -2},
        {.size = sizeof bad[0], .receive_high_water_mark = -2},
        {.size = sizeof bad[0], .handshake_ms = -2},
        {.size = sizeof bad[0], .heartbeat_ms = -2},
        {.size = sizeof bad[0], .heartbeat_ms = EVZMQ_CONTEXT_HEARTBEAT_TIMEOUT_MS_DEFAULT},
        {.size = sizeof bad[0], .heartbeat_timeout_ms = EVZMQ_CONTEXT_NONE},
        {.size = sizeof bad[0], .heartbeat_timeout_ms = 6553600},
        {.size = sizeof bad[0], .backlog = EVZMQ_CONTEXT_NONE},
        {.size = sizeof bad[0], .sockets_max = EVZMQ_CONTEXT_NONE},
        {.size = sizeof bad[0], .peers = (enum evzmq_context_peers)2},
    };
    struct evzmq_context *const context = context_new();
    void *socket = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_errno(evzmq_context_set_limits(context, &bad[i]), EINVAL);
    }
    assert_errno(evzmq_context_set_limits(NULL, NULL), EINVAL);
    socket = evzmq_context_socket(context, ZMQ_PAIR);
    assert_int_equal(get_int(socket, ZMQ_LINGER), EVZMQ_CONTEXT_LINGER_MS_DEFAULT);
    assert_ok(evzmq_context_close_socket(context, socket));
    assert_ok(evzmq_context_free(context));
}

static void one_socket_more_than_the_maximum_is_emfile(void **state)
{
    struct evzmq_context_limits limits = {.size = sizeof limits, .sockets_max = 3};
    struct evzmq_context *const context = context_new();
    void *sockets[3];

    (void)state;
    assert_ok(evzmq_context_set_limits(context, &limits));
    for (size_t i = 0; i < 3; i++) {
        sockets[i] = evzmq_context_socket(context, ZMQ_PAIR);
        assert_non_null(sockets[i]);
    }
    errno = 0;
    assert_null(evzmq_context_socket(context, ZMQ_PAIR));
    assert_int_equal(errno, EMFILE);
    assert_int_not_equal(evzmq_context_get_error(context)[0], '\0');
    limits.sockets_max = 4;
    assert_errno(evzmq_context_set_limits(context, &limits), EBUSY);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(evzmq_context_close_socket(context, sockets[i]));
    }
    assert_ok(evzmq_context_free(context));
}

static void a_router_says_that_it_does_not_know_a_peer(void **state)
{
    struct evzmq_context *const context = context_new();
    void *const router = evzmq_context_socket(context, ZMQ_ROUTER);

    (void)state;
    assert_errno(zmq_send(router, "nobody", 6, ZMQ_SNDMORE), EHOSTUNREACH);
    assert_ok(evzmq_context_close_socket(context, router));
    assert_ok(evzmq_context_free(context));
}

static void a_peer_that_does_not_read_is_sent_no_more_than_the_high_water_mark(void **state)
{
    struct evzmq_context *const context = context_new();
    void *const push = evzmq_context_socket(context, ZMQ_PUSH);
    int accepted = 0;

    (void)state;
    assert_ok(evzmq_context_connect(context, push, "ipc:///nonexistent/path"));
    while (zmq_send(push, "x", 1, ZMQ_DONTWAIT) == 1) {
        accepted++;
    }
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(accepted, EVZMQ_CONTEXT_HIGH_WATER_MARK_DEFAULT);
    assert_ok(zmq_setsockopt(push, ZMQ_LINGER, &(int){0}, sizeof(int)));
    assert_ok(evzmq_context_close_socket(context, push));
    assert_ok(evzmq_context_free(context));
}

static void a_message_above_the_limit_costs_its_sender_the_connection_and_nobody_else(void **state)
{
    const struct evzmq_context_limits limits = {.size = sizeof limits, .message_bytes_max = 1000};
    struct fixture *const f = *state;
    struct evzmq_context *const context = context_new();
    void *const bad = peer_new(f, ZMQ_PUSH);
    void *const good = peer_new(f, ZMQ_PUSH);
    zmq_pollitem_t item = {.events = ZMQ_POLLIN};
    void *pull = NULL;
    char text[1024];

    assert_ok(evzmq_context_set_limits(context, &limits));
    pull = evzmq_context_socket(context, ZMQ_PULL);
    item.socket = pull;
    assert_ok(evzmq_context_bind(context, pull, "tcp://127.0.0.1:*"));
    peer_connect(bad, evzmq_context_get_endpoint(context, pull));
    peer_connect(good, evzmq_context_get_endpoint(context, pull));
    fill_pattern(text, sizeof text, 1);
    peer_send(bad, text, 1001);
    peer_send(good, text, 1000);
    assert_int_equal(peer_recv_text(pull, text, sizeof text), 1000);
    /* The bad peer connects anew, and loses what it sent before the connection went. */
    do {
        (void)zmq_send(bad, "again", 5, ZMQ_DONTWAIT);
    } while (zmq_poll(&item, 1, 10) == 0);
    assert_int_equal(peer_recv_text(pull, text, sizeof text), 5);
    assert_ok(evzmq_context_close_socket(context, pull));
    assert_ok(evzmq_context_free(context));
}

static void unknown_types_and_null_are_einval(void **state)
{
    struct evzmq_context *const context = context_new();

    (void)state;
    errno = 0;
    assert_null(evzmq_context_socket(context, 4711));
    assert_int_equal(errno, EINVAL);
    assert_null(evzmq_context_socket(NULL, ZMQ_PAIR));
    assert_null(evzmq_context_new(-1, NULL));
    assert_null(evzmq_context_new(0, ""));
    assert_null(evzmq_context_new_with(NULL, NULL));
    assert_null(evzmq_context_get_directory(NULL));
    assert_null(evzmq_context_get_endpoint(NULL, NULL));
    assert_int_equal(errno, EINVAL);
    assert_errno(evzmq_context_close_socket(context, NULL), EINVAL);
    assert_errno(evzmq_context_close_socket(NULL, NULL), EINVAL);
    assert_errno(evzmq_context_check_descriptors(NULL, 0), EINVAL);
    assert_errno(evzmq_context_close(NULL), EINVAL);
    assert_string_equal(evzmq_context_get_error(NULL), "");
    assert_ok(evzmq_context_free(NULL));
    assert_ok(evzmq_context_free(context));
}

static void a_socket_of_another_context_is_einval(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_context *const context = context_new();
    struct evzmq_context *const other = context_new();
    void *const socket = evzmq_context_socket(other, ZMQ_PAIR);
    void *const foreign = peer_new(f, ZMQ_PAIR);

    assert_errno(evzmq_context_close_socket(context, socket), EINVAL);
    assert_errno(evzmq_context_close_socket(context, foreign), EINVAL);
    assert_errno(evzmq_context_bind(context, socket, "inproc://x"), EINVAL);
    assert_errno(evzmq_context_connect(context, foreign, "inproc://x"), EINVAL);
    assert_null(evzmq_context_get_endpoint(context, socket));
    assert_null(evzmq_context_get_endpoint(other, socket));
    assert_int_equal(errno, ENOENT);
    assert_ok(evzmq_context_close_socket(other, socket));
    assert_ok(evzmq_context_free(other));
    assert_ok(evzmq_context_free(context));
}

static void closing_is_ebusy_while_a_socket_lives_and_changes_nothing(void **state)
{
    struct evzmq_context *const context = context_new();
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);
    void *const push = evzmq_context_socket(context, ZMQ_PUSH);
    char text[32];

    (void)state;
    assert_ok(evzmq_context_bind(context, pull, "ipc://*"));
    assert_errno(evzmq_context_close(context), EBUSY);
    assert_errno(evzmq_context_free(context), EBUSY);
    assert_error_names(context, "sockets");
    assert_ok(evzmq_context_connect(context, push, evzmq_context_get_endpoint(context, pull)));
    peer_send_text(push, "alive");
    (void)peer_recv_text(pull, text, sizeof text);
    assert_string_equal(text, "alive");
    assert_ok(evzmq_context_close_socket(context, pull));
    assert_errno(evzmq_context_close(context), EBUSY);
    assert_ok(evzmq_context_close_socket(context, push));
    assert_ok(evzmq_context_close(context));
    assert_ok(evzmq_context_free(context));
}

static void a_closed_context_is_closed_again_without_effect_and_refuses_the_rest(void **state)
{
    struct evzmq_context *const context = context_new();

    (void)state;
    assert_ok(evzmq_context_close(context));
    assert_ok(evzmq_context_close(context));
    errno = 0;
    assert_null(evzmq_context_socket(context, ZMQ_PAIR));
    assert_int_equal(errno, ESHUTDOWN);
    assert_null(evzmq_context_get_directory(context));
    assert_errno(evzmq_context_set_limits(context, NULL), ESHUTDOWN);
    assert_ok(evzmq_context_free(context));
}

static void freeing_an_adapter_that_closes_gives_the_socket_back_to_the_context(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_context *const context = context_new();
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);
    void *const pair = evzmq_context_socket(context, ZMQ_PAIR);
    struct evzmq_socket *closing = NULL;
    struct evzmq_socket *plain = NULL;
    char path[PLACE_PATH_SIZE];

    assert_ok(evzmq_context_bind(context, pull, "ipc://*"));
    (void)snprintf(path, sizeof path, "%s",
                   evzmq_context_get_endpoint(context, pull) + strlen("ipc://"));
    closing = evzmq_socket_new(f->base, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    plain = evzmq_socket_new(f->base, pair, 0);
    assert_errno(evzmq_context_close_socket(context, pull), EBUSY);
    assert_errno(evzmq_context_close_socket(context, pair), EBUSY);
    assert_true(place_has(path));
    evzmq_socket_free(closing);
    assert_false(place_has(path));
    evzmq_socket_free(plain);
    assert_errno(evzmq_context_close(context), EBUSY);
    assert_ok(evzmq_context_close_socket(context, pair));
    assert_ok(evzmq_context_free(context));
}

static void two_thousand_sockets_and_fifty_contexts_leave_nothing(void **state)
{
    struct evzmq_context *context = context_new();

    (void)state;
    for (int i = 0; i < 2000; i++) {
        void *const socket = evzmq_context_socket(context, i % 2 == 0 ? ZMQ_PUSH : ZMQ_PULL);

        assert_non_null(socket);
        if (i % 10 == 0) {
            assert_ok(evzmq_context_bind(context, socket, "ipc://*"));
        }
        assert_ok(evzmq_context_close_socket(context, socket));
    }
    assert_ok(evzmq_context_free(context));
    for (int i = 0; i < 50; i++) {
        void *socket = NULL;

        context = context_new();
        socket = evzmq_context_socket(context, ZMQ_PAIR);
        assert_ok(evzmq_context_bind(context, socket, "ipc://*"));
        assert_ok(evzmq_context_close_socket(context, socket));
        assert_ok(evzmq_context_free(context));
    }
}

/* Everything a context allocates for. Returns 0, or -1 with ENOMEM and nothing left behind. */
static int one_life(void)
{
    struct evzmq_context *const context = evzmq_context_new(0, NULL);
    void *pull = NULL;
    int result = -1;

    if (context == NULL) {
        return -1;
    }
    pull = evzmq_context_socket(context, ZMQ_PULL);
    if (pull != NULL && evzmq_context_bind(context, pull, "ipc://*") == 0 &&
        evzmq_context_bind(context, pull, "tcp://127.0.0.1:*") == 0) {
        result = 0;
    }
    {
        const int error = errno;

        if (pull != NULL) {
            assert_ok(evzmq_context_close_socket(context, pull));
        }
        assert_ok(evzmq_context_free(context));
        errno = error;
    }
    return result;
}

static void every_failing_allocation_is_enomem_and_leaves_nothing(void **state)
{
    long failures = 0;

    (void)state;
    for (;; failures++) {
        int result = 0;
        int error = 0;

        allocations_fail_at(failures + 1);
        result = one_life();
        error = errno;
        allocations_fail_at(0);
        if (result == 0) {
            break;
        }
        assert_int_equal(error, ENOMEM);
    }
    assert_true(failures >= 5);
}

/* Leaves the process with few descriptors. */
static void use_up_descriptors(void *arg)
{
    const struct rlimit limit = {64, 64};
    struct evzmq_context *const context = evzmq_context_new(0, NULL);
    void *const pull = evzmq_context_socket(context, ZMQ_PULL);
    void *made = NULL;
    int count = 0;

    (void)arg;
    child_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    child_check(pull != NULL);
    child_check(evzmq_context_check_descriptors(context, 1) == 0);
    child_check(evzmq_context_check_descriptors(context, 64) == -1 && errno == EMFILE);
    child_check(strstr(evzmq_context_get_error(context), "of 64 are free") != NULL);
    while ((made = evzmq_context_socket(context, ZMQ_PUSH)) != NULL) {
        count++;
    }
    child_check(errno == EMFILE && count > 4 && count < 48);
    child_check(evzmq_context_bind(context, pull, "ipc://*") == -1 && errno == EMFILE);
    child_check(evzmq_context_check_descriptors(context, 1) == -1 && errno == EMFILE);
    for (int i = 0; i < EVZMQ_CONTEXT_DESCRIPTORS_RESERVE; i++) {
        child_check(dup(0) >= 0);
    }
    while (dup(0) >= 0) {
    }
    child_check(evzmq_context_bind(context, pull, "ipc://*") == -1 && errno == EMFILE);
    child_check(evzmq_context_check_descriptors(context, 0) == -1 && errno == EMFILE);
}

static void without_descriptors_sockets_and_endpoints_are_emfile_and_nothing_aborts(void **state)
{
    (void)state;
    child_run(use_up_descriptors, NULL);
}

static void warn_of_descriptors(void *arg)
{
    const struct rlimit limit = {200, 200};
    struct evzmq_context *const context = evzmq_context_new(0, NULL);

    (void)arg;
    child_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    child_check(evzmq_context_check_descriptors(context, 0) == 0);
    while (dup(0) < 150) {
    }
    child_check(evzmq_context_check_descriptors(context, 0) == 0);
    child_check(evzmq_context_check_descriptors(context, 12) == 1);
    while (dup(0) < 170) {
    }
    child_check(evzmq_context_check_descriptors(context, 0) == 1);
    child_check(evzmq_context_check_descriptors(context, 14) == -1 && errno == EMFILE);
}

static void descriptors_are_warned_of_at_80_percent(void **state)
{
    (void)state;
    child_run(warn_of_descriptors, NULL);
}

struct family {
    struct evzmq_context *context;
    void *pull;
};

static void child_uses(void *arg)
{
    struct family *const family = arg;
    struct evzmq_context *const context = family->context;
    struct evzmq_context *own = NULL;

    child_check(evzmq_context_socket(context, ZMQ_PAIR) == NULL && errno == ECHILD);
    child_check(evzmq_context_close_socket(context, family->pull) == -1 && errno == ECHILD);
    child_check(evzmq_context_bind(context, family->pull, "ipc://*") == -1 && errno == ECHILD);
    child_check(evzmq_context_connect(context, family->pull, "ipc://x") == -1 && errno == ECHILD);
    child_check(evzmq_context_get_endpoint(context, family->pull) == NULL && errno == ECHILD);
    child_check(evzmq_context_get_directory(context) == NULL && errno == ECHILD);
    child_check(evzmq_context_set_limits(context, NULL) == -1 && errno == ECHILD);
    child_check(evzmq_context_check_descriptors(context, 0) == -1 && errno == ECHILD);
    child_check(evzmq_context_close(context) == -1 && errno == ECHILD);
    const int descriptors = count_descriptors();
    child_check(evzmq_context_free(context) == 0);
    child_check(allocations_live() == 0);
    /* Those of the directory and of the lock beside a path. */
    child_check(descriptors < 0 || count_descriptors() == descriptors - 2);
    own = evzmq_context_new(0, NULL);
    child_check(evzmq_context_get_directory(own) != NULL);
    child_check(evzmq_context_free(own) == 0);
}

static void a_forked_child_is_refused_and_frees_memory_only(void **state)
{
    struct fixture *const f = *state;
    struct family family = {context_new(), NULL};
    char place[64];
    char endpoint[PLACE_PATH_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    char text[32];

    place_make(place);
    (void)snprintf(endpoint, sizeof endpoint, "ipc://%s/p", place);
    family.pull = evzmq_context_socket(family.context, ZMQ_PULL);
    assert_ok(evzmq_context_bind(family.context, family.pull, endpoint));
    assert_ok(evzmq_context_bind(family.context, family.pull, "ipc://*"));
    for (int i = 0; i < 3; i++) {
        child_run(child_uses, &family);
    }
    assert_int_equal(place_count(place), 2);
    assert_int_equal(place_count(evzmq_context_get_directory(family.context)), 1);
    peer_connect(push, evzmq_context_get_endpoint(family.context, family.pull));
    peer_send_text(push, "hello");
    (void)peer_recv_text(family.pull, text, sizeof text);
    assert_string_equal(text, "hello");
    assert_ok(evzmq_context_close_socket(family.context, family.pull));
    assert_ok(evzmq_context_free(family.context));
    place_remove(place);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_new_socket_has_the_documented_options),
        claim(idle_tcp_connections_are_probed_by_the_system_within_the_timeout),
        claim(limits_hold_for_the_sockets_made_after_them),
        claim(limits_out_of_range_are_einval_and_change_nothing),
        claim(one_socket_more_than_the_maximum_is_emfile),
        claim(a_router_says_that_it_does_not_know_a_peer),
        claim(a_peer_that_does_not_read_is_sent_no_more_than_the_high_water_mark),
        claim(a_message_above_the_limit_costs_its_sender_the_connection_and_nobody_else),
        claim(unknown_types_and_null_are_einval),
        claim(a_socket_of_another_context_is_einval),
        claim(closing_is_ebusy_while_a_socket_lives_and_changes_nothing),
        claim(a_closed_context_is_closed_again_without_effect_and_refuses_the_rest),
        claim(freeing_an_adapter_that_closes_gives_the_socket_back_to_the_context),
        claim(two_thousand_sockets_and_fifty_contexts_leave_nothing),
        claim(every_failing_allocation_is_enomem_and_leaves_nothing),
        claim(without_descriptors_sockets_and_endpoints_are_emfile_and_nothing_aborts),
        claim(descriptors_are_warned_of_at_80_percent),
        claim(a_forked_child_is_refused_and_frees_memory_only),
    };

    return run_claims(tests);
}
