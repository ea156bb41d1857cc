/*
 * Starting peers and talking with them. Orders and results are plain structs on a socket pair; the
 * phase, which a peer process looks at before each message, is a word of shared memory.
 */
#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zmq.h>

#include "peer_jobs.h"
#include "report.h"

/* Where the flag is missing a peer that died ends the benchmark with SIGPIPE instead of a word. */
#if !defined(MSG_NOSIGNAL)
#define MSG_NOSIGNAL 0
#endif

struct peer {
    int control; /* the receiver's end of the socket pair */
    int peer_control; /* the other end, where the peer is a thread */
    atomic_uint *phase;
    pid_t pid; /* 0 for a thread */
    pthread_t thread;
    void *zmq_context; /* of a thread: the receiver's */
};

/* Reads or writes all of a struct. Returns 0, or -1: the other end is gone. */
static int read_all(int fd, void *buffer, size_t size)
{
    char *at = buffer;
    while (size > 0) {
        const ssize_t got = recv(fd, at, size, 0);
        if (got <= 0) {
            if (got < 0 && errno == EINTR) {
                continue;
            }
            return -1;
        }
        at += got;
        size -= (size_t)got;
    }
    return 0;
}

static int write_all(int fd, const void *buffer, size_t size)
{
    const char *at = buffer;
    while (size > 0) {
        const ssize_t put = send(fd, at, size, MSG_NOSIGNAL);
        if (put < 0 && errno != EINTR) {
            return -1;
        }
        if (put > 0) {
            at += put;
            size -= (size_t)put;
        }
    }
    return 0;
}

void peer_task_wait(struct peer_task *task)
{
    char byte = 0;
    if (!task->released) {
        task->released = 1;
        (void)read_all(task->control, &byte, sizeof(byte));
    }
}

int peer_task_is_wanted(const struct peer_task *task)
{
    struct pollfd control = {.fd = task->control, .events = POLLIN};
    return poll(&control, 1, 0) == 0;
}

typedef void (*peer_job_fn)(struct peer_task *task, struct peer_result *out);

static const peer_job_fn jobs[] = {
    [PEER_FLOOD] = peer_flood,         [PEER_FLOOD_PACKED] = peer_flood_packed,
    [PEER_WORKER] = peer_worker,       [PEER_SINK] = peer_sink,
    [PEER_ECHO_BARE] = peer_echo_bare, [PEER_ECHO_ADAPTER] = peer_echo_adapter,
};

/* The peer's side: does jobs until the receiver closes its end. */
static void serve(int control, const atomic_uint *phase, void *zmq_context)
{
    struct peer_order order;
    while (read_all(control, &order, sizeof(order)) == 0) {
        struct peer_result result;
        memset(&result, 0, sizeof(result));
        struct peer_task task = {&order, zmq_context, phase, control, 0};
        jobs[order.job](&task, &result);
        peer_task_wait(&task);
        if (write_all(control, &result, sizeof(result)) != 0) {
            return;
        }
    }
}

static void serve_in_child(int control, const atomic_uint *phase)
{
    void *zmq_context = zmq_ctx_new();
    if (zmq_context == NULL) {
        return;
    }
    serve(control, phase, zmq_context);
    (void)zmq_ctx_term(zmq_context);
}

static void *serve_in_thread(void *argument)
{
    const struct peer *peer = argument;
    serve(peer->peer_control, peer->phase, peer->zmq_context);
    return NULL;
}

/* Everything that a peer of either kind needs, before it runs. */
static struct peer *make_peer(void)
{
    struct peer *peer = calloc(1, sizeof(*peer));
    int pair[2];
    if (peer == NULL || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        report_error("cannot make a peer process: %s", strerror(errno));
        free(peer);
        return NULL;
    }
    void *shared =
        mmap(NULL, sizeof(*peer->phase), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        report_error("cannot share memory with a peer process: %s", strerror(errno));
        (void)close(pair[0]);
        (void)close(pair[1]);
        free(peer);
        return NULL;
    }
    peer->phase = shared;
    atomic_init(peer->phase, PEER_WARM_UP);
    peer->control = pair[0];
    peer->peer_control = pair[1];
    return peer;
}

static void release(struct peer *peer)
{
    if (peer->peer_control >= 0) {
        (void)close(peer->peer_control);
    }
    (void)munmap(peer->phase, sizeof(*peer->phase));
    free(peer);
}

struct peer *peer_start_process(void)
{
    struct peer *peer = make_peer();
    if (peer == NULL) {
        return NULL;
    }
    peer->pid = fork();
    if (peer->pid < 0) {
        report_error("cannot fork: %s", strerror(errno));
        (void)close(peer->control);
        release(peer);
        return NULL;
    }
    if (peer->pid == 0) {
        (void)close(peer->control);
        serve_in_child(peer->peer_control, peer->phase);
        _exit(0);
    }
    (void)close(peer->peer_control);
    peer->peer_control = -1;
    return peer;
}

struct peer *peer_start_thread(void *zmq_context)
{
    struct peer *peer = make_peer();
    if (peer == NULL) {
        return NULL;
    }
    peer->zmq_context = zmq_context;
    const int error = pthread_create(&peer->thread, NULL, serve_in_thread, peer);
    if (error != 0) {
        report_error("cannot start a thread: %s", strerror(error));
        (void)close(peer->control);
        release(peer);
        return NULL;
    }
    return peer;
}

void peer_stop(struct peer *peer)
{
    if (peer == NULL) {
        return;
    }
    peer_set_phase(peer, PEER_END);
    /* Closing alone would not do: a peer forked later holds a copy of the descriptor. */
    (void)shutdown(peer->control, SHUT_RDWR);
    (void)close(peer->control);
    if (peer->pid == 0) {
        (void)pthread_join(peer->thread, NULL);
    } else {
        while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    release(peer);
}

int peer_begin(struct peer *peer, const struct peer_order *order)
{
    peer_set_phase(peer, PEER_WARM_UP);
    if (write_all(peer->control, order, sizeof(*order)) != 0) {
        return report_error("the peer process is gone: %s", strerror(errno));
    }
    return 0;
}

void peer_set_phase(struct peer *peer, enum peer_phase phase)
{
    atomic_store_explicit(peer->phase, phase, memory_order_release);
}

int peer_finish(struct peer *peer, struct peer_result *out)
{
    const char release = 1;
    struct peer_result result;
    if (write_all(peer->control, &release, sizeof(release)) != 0 ||
        read_all(peer->control, &result, sizeof(result)) != 0) {
        return report_error("the peer process is gone");
    }
    if (result.error != 0) {
        return report_error("the peer process failed after %llu messages: %s",
                            (unsigned long long)result.messages, zmq_strerror(result.error));
    }
    *out = result;
    return 0;
}
