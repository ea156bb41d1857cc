/**
 * @file test_shutdown_table.c
 * The end of a socket in every surrounding: whoever its peer is and whatever waits, a shutdown
 * reports once and right, the free comes back at once, and the context ends with the linger.
 */
#include "support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "watch.h"

enum { QUEUE = 20, SIZE = 20000, LINGER_MS = 20 };

enum peer {
    PEER_NONE, /* nobody listens */
    PEER_UNBOUND, /* we listen, and nobody comes */
    PEER_STOPPED, /* a process that is stopped after the handshake */
    PEER_BLACK_HOLE, /* somebody who accepts and says nothing */
    PEER_GONE, /* one that was there */
    PEERS
};

static const char *const peer_names[] = {"none", "unbound", "stopped", "black hole", "gone"};

struct row {
    enum peer peer;
    bool full; /* the queue of the adapter, and all before it */
    bool owned; /* the free closes the socket */
    bool soon; /* a deadline in the near future, not at once */
};

/* What a row needs. */
struct scene {
    struct fixture *f;
    void *context;
    void *push;
    struct probe p;
    struct watch watch;
    pid_t child;
    int hole;
    int done;
    uint64_t handed_over;
    uint64_t not_handed_over;
};

static void receive_nothing(void *arg)
{
    (void)arg;
    (void)child_bind_pull(zmq_ctx_new());
    child_sleep();
}

static int black_hole(char endpoint[ENDPOINT_SIZE])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_ok(bind(listener, (struct sockaddr *)&address, sizeof address));
    assert_ok(listen(listener, 16));
    assert_ok(getsockname(listener, (struct sockaddr *)&address, &size));
    (void)snprintf(endpoint, ENDPOINT_SIZE, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
    return listener;
}

static void await_handshake(struct scene *scene)
{
    run_until(scene->f, watch_count(&scene->watch, EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED) == 1);
}

static void meet_peer(struct scene *scene, enum peer peer)
{
    char endpoint[ENDPOINT_SIZE] = "tcp://127.0.0.1:*";
    int status = 0;

    if (peer == PEER_UNBOUND) {
        assert_ok(zmq_bind(scene->push, endpoint));
        return;
    }
    if (peer == PEER_NONE) {
        dead_endpoint(endpoint);
    } else if (peer == PEER_BLACK_HOLE) {
        scene->hole = black_hole(endpoint);
    } else {
        scene->child = child_start(receive_nothing, NULL, endpoint);
    }
    peer_connect(scene->push, endpoint);
    if (peer == PEER_STOPPED) {
        await_handshake(scene);
        assert_ok(kill(scene->child, SIGSTOP));
        assert_int_equal(waitpid(scene->child, &status, WUNTRACED), scene->child);
    } else if (peer == PEER_GONE) {
        await_handshake(scene);
        child_kill(scene->child);
        scene->child = 0;
        run_until(scene->f, watch_count(&scene->watch, EVZMQ_MONITOR_DISCONNECTED) == 1);
    }
}

static void scene_open(struct scene *scene, struct fixture *f, const struct row *row)
{
    memset(scene, 0, sizeof *scene);
    scene->f = f;
    scene->hole = -1;
    scene->context = zmq_ctx_new();
    scene->push = zmq_socket(scene->context, ZMQ_PUSH);
    assert_non_null(scene->push);
    peer_set_int(scene->push, ZMQ_SNDHWM, 1);
    peer_set_int(scene->push, ZMQ_LINGER, LINGER_MS);
    scene->watch.f = f;
    scene->watch.monitor = evzmq_monitor_new(f->base, scene->context, scene->push,
                                             EVZMQ_MONITOR_ALL, watch_event, &scene->watch);
    assert_non_null(scene->watch.monitor);
    f->attached++;
    meet_peer(scene, row->peer);
    probe_attach(f, &scene->p, scene->push, row->owned ? EVZMQ_OPT_CLOSE_ON_FREE : 0);
    assert_ok(evzmq_socket_set_output_limit(scene->p.socket, QUEUE, 0));
}

/* Until the queue is full and stays so: what is before it may find room a little later. */
static void fill(struct scene *scene)
{
    static char bytes[SIZE];

    do {
        while (evzmq_socket_write(scene->p.socket, bytes, sizeof bytes) == 0) {
        }
        assert_int_equal(errno, EAGAIN);
        fixture_run_for(scene->f, 10);
    } while (evzmq_socket_get_queued(scene->p.socket, NULL) < QUEUE);
}

static void note_end(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                     void *arg)
{
    struct scene *const scene = arg;

    assert_ptr_equal(socket, scene->p.socket);
    assert_true(scene->f->dispatching);
    scene->done++;
    scene->handed_over = handed_over;
    scene->not_handed_over = not_handed_over;
}

static void scene_close(struct scene *scene, const struct row *row)
{
    watch_close(&scene->watch);
    probe_free(&scene->p);
    if (!row->owned) {
        assert_ok(zmq_close(scene->push));
    }
    assert_ok(zmq_ctx_term(scene->context));
    if (scene->child != 0) {
        child_kill(scene->child);
    }
    if (scene->hole >= 0) {
        (void)close(scene->hole);
    }
}

static void check_row(struct fixture *f, const struct row *row)
{
    const struct timeval wait = {0, row->soon ? 20000 : 0};
    struct scene scene;
    size_t queued = 0;

    scene_open(&scene, f, row);
    if (row->full) {
        fill(&scene);
    }
    queued = evzmq_socket_get_queued(scene.p.socket, NULL);
    assert_int_equal(queued, row->full ? QUEUE : 0);
    assert_ok(evzmq_socket_shutdown(scene.p.socket, &wait, note_end, &scene));
    assert_int_equal(scene.done, 0);
    run_until(f, scene.done == 1);
    assert_int_equal(scene.handed_over + scene.not_handed_over, queued);
    assert_int_equal(evzmq_socket_get_queued(scene.p.socket, NULL), scene.not_handed_over);
    assert_int_equal(scene.p.events_all, scene.p.events[EVZMQ_EVENT_DRAINED]);
    fixture_glance(f);
    assert_int_equal(scene.done, 1);
    scene_close(&scene, row);
}

static void check_peer(struct fixture *f, enum peer peer)
{
    for (unsigned bits = 0; bits < 8; bits++) {
        const struct row row = {peer, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};

        check_row(f, &row);
    }
    print_message("peer: %s\n", peer_names[peer]);
}

static void a_shutdown_reports_once_and_right_whoever_the_peer_is(void **state)
{
    for (enum peer peer = 0; peer < PEERS; peer++) {
        check_peer(*state, peer);
    }
}

/* Without a shutdown: what waits is given up. */
static void a_free_comes_back_and_the_context_ends_whoever_the_peer_is(void **state)
{
    for (enum peer peer = 0; peer < PEERS; peer++) {
        for (unsigned bits = 0; bits < 4; bits++) {
            const struct row row = {peer, (bits & 1) != 0, (bits & 2) != 0, false};
            struct scene scene;

            scene_open(&scene, *state, &row);
            if (row.full) {
                fill(&scene);
            }
            scene_close(&scene, &row);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_shutdown_reports_once_and_right_whoever_the_peer_is),
        claim(a_free_comes_back_and_the_context_ends_whoever_the_peer_is),
    };

    return run_claims(tests);
}
