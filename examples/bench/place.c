/* The private directory of the ipc endpoints, and its removal. */
#include "place.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "peer.h"
#include "report.h"

/* A path must fit into sockaddr_un::sun_path, of 104 bytes on some systems. */
#define PATH_LENGTH_MAX 100

static char directory[PATH_LENGTH_MAX];
static char file[PATH_LENGTH_MAX + 16];
static unsigned serial;

/* Only calls that are safe in a signal handler: remove what is ours, then die of the signal. */
static void clean_up_and_die(int signal_number)
{
    (void)unlink(file);
    (void)rmdir(directory);
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

int place_open(void)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == '\0' || strlen(parent) > PATH_LENGTH_MAX - 32) {
        parent = "/tmp";
    }
    /* mkdtemp makes it 0700: no one else can bind, connect or plant a file there. */
    snprintf(directory, sizeof(directory), "%s/echo_bench-XXXXXX", parent);
    if (mkdtemp(directory) == NULL) {
        const int error = errno;
        directory[0] = '\0';
        return report_error("cannot make a directory in %s: %s", parent, strerror(error));
    }
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct sigaction action;
        memset(&action, 0, sizeof(action));
        action.sa_handler = clean_up_and_die;
        (void)sigaction(signals[i], &action, NULL);
    }
    return 0;
}

int place_endpoint(enum bench_transport transport, char *out, size_t size)
{
    serial++;
    int length = 0;
    switch (transport) {
    case BENCH_IPC:
        snprintf(file, sizeof(file), "%s/%u", directory, serial);
        length = snprintf(out, size, "ipc://%s", file);
        break;
    case BENCH_TCP:
        length = snprintf(out, size, "tcp://127.0.0.1:*");
        break;
    default:
        length = snprintf(out, size, "inproc://echo_bench-%u", serial);
        break;
    }
    return length > 0 && (size_t)length < size ? 0 : report_error("an endpoint is too long");
}

int place_set_up(void *zmq_socket, int mark)
{
    const int linger = 0;
    const int patience = PEER_PATIENCE_MS;
    if (zmq_setsockopt(zmq_socket, ZMQ_RCVHWM, &mark, sizeof(mark)) != 0 ||
        zmq_setsockopt(zmq_socket, ZMQ_SNDHWM, &mark, sizeof(mark)) != 0 ||
        zmq_setsockopt(zmq_socket, ZMQ_LINGER, &linger, sizeof(linger)) != 0) {
        return -1;
    }
    return zmq_setsockopt(zmq_socket, ZMQ_RCVTIMEO, &patience, sizeof(patience));
}

void *place_bind(void *zmq_context, int type, enum bench_transport transport, int mark, char *out,
                 size_t size)
{
    void *socket = zmq_socket(zmq_context, type);
    if (socket == NULL) {
        report_error("cannot make a socket: %s", zmq_strerror(zmq_errno()));
        return NULL;
    }
    if (place_endpoint(transport, out, size) == 0 && place_set_up(socket, mark) == 0 &&
        zmq_bind(socket, out) == 0 && zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, out, &size) == 0) {
        return socket;
    }
    report_error("cannot bind to %s: %s", out, zmq_strerror(zmq_errno()));
    (void)zmq_close(socket);
    return NULL;
}

void place_clear(void)
{
    if (file[0] != '\0') {
        (void)unlink(file);
        file[0] = '\0';
    }
}

void place_close(void)
{
    place_clear();
    if (directory[0] != '\0') {
        (void)rmdir(directory);
        directory[0] = '\0';
    }
}
