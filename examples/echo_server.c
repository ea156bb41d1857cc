/*
 * echo_server: answers every request with what it says, for any ZeroMQ client.
 *
 * A ROUTER socket serves REQ and DEALER clients alike: the request's envelope says where the answer
 * goes, and what follows the envelope is sent back as it came. With --rep a REP socket does the
 * same for one request at a time. SIGINT and SIGTERM end it in order: it stops reading, what is
 * queued goes out within a deadline, then everything is freed.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>

/* How long an ending server waits for clients to take their answers. */
#define SHUTDOWN_SECONDS 2
#define LINGER_MS 1000

static const char usage[] =
    "usage: echo_server [OPTION]... [ENDPOINT]\n"
    "\n"
    "Answers every request with its own parts. A client may be any ZeroMQ program with a REQ or\n"
    "DEALER socket. Ends with status 0 on SIGINT (Ctrl-C) or SIGTERM.\n"
    "\n"
    "  ENDPOINT        where to bind; default tcp://127.0.0.1:5555; or ipc:///a/path\n"
    "  --rep           a REP socket instead of a ROUTER: one request at a time\n"
    "  --quiet         say nothing while all is well\n"
    "  --help\n";

struct server {
    struct event_base *base;
    void *zmq_context;
    struct evzmq_socket *socket;
    struct event *signals[2];
    const char *endpoint;
    const char *path; /* the file that is ours once bound; NULL without one */
    int rep;
    int quiet;
    int failed;
    unsigned long long answered;
    unsigned long long refused; /* clients that do not take their answers */
};

static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int complain(const char *format, ...)
{
    va_list arguments;
    fputs("echo_server: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\n", stderr);
    return -1;
}

/*
 * All parts go back in their order. On ROUTER the first ones are the envelope, which leads the
 * answer to the client that asked; on REP libzmq keeps the envelope to itself. The request is lent
 * to this callback; taking it makes a message of our own, without copying what is large.
 */
static void on_request(struct evzmq_socket *socket, struct evzmq_message *request, void *arg)
{
    struct server *server = arg;
    struct evzmq_message *answer = evzmq_message_take(request);
    if (answer != NULL && evzmq_socket_write_message(socket, answer) == 0) {
        server->answered++;
        return;
    }
    /* A refused message is still ours. A client that is gone or does not read costs an answer, not
     * the server. */
    server->refused++;
    evzmq_message_free(answer);
}

static void on_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    struct server *server = arg;
    (void)socket;
    switch (event->type) {
    case EVZMQ_EVENT_UNDELIVERABLE:
        server->refused++;
        break;
    case EVZMQ_EVENT_ERROR:
        (void)complain("%s", evzmq_strerror(event->error));
        break;
    case EVZMQ_EVENT_TERMINATED:
        server->failed = 1;
        (void)complain("the socket is gone: %s", evzmq_strerror(event->error));
        (void)event_base_loopexit(server->base, NULL);
        break;
    default:
        break;
    }
}

static void on_shutdown(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                        void *arg)
{
    struct server *server = arg;
    (void)socket;
    (void)handed_over;
    server->refused += not_handed_over;
    (void)event_base_loopexit(server->base, NULL);
}

static void on_signal(evutil_socket_t number, short events, void *arg)
{
    struct server *server = arg;
    const struct timeval deadline = {SHUTDOWN_SECONDS, 0};
    (void)number;
    (void)events;
    if (evzmq_socket_shutdown(server->socket, &deadline, on_shutdown, server) != 0) {
        (void)event_base_loopexit(server->base, NULL);
    }
}

static int listen_to_signals(struct server *server)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        server->signals[i] = evsignal_new(server->base, numbers[i], on_signal, server);
        if (server->signals[i] == NULL || event_add(server->signals[i], NULL) != 0) {
            return complain("cannot watch signals");
        }
    }
    return 0;
}

/*
 * Binding to an ipc path replaces whatever file is there, also the socket of a server that runs
 * (libzmq 4.3.4). So look first. Returns 0 when the path is free to take.
 */
static int check_path(const char *path)
{
    struct stat status;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (lstat(path, &status) != 0 || strlen(path) >= sizeof(address.sun_path)) {
        return 0; /* Nothing there, or nothing that binding would not refuse by itself. */
    }
    if (!S_ISSOCK(status.st_mode)) {
        return complain("%s exists and is no socket", path);
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    const int live = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return live ? complain("another server listens on %s", path) : 0;
}

/* The file of an ipc endpoint, or NULL. */
static const char *path_of(const char *endpoint)
{
    const int is_path =
        strncmp(endpoint, "ipc:///", 7) == 0 || strncmp(endpoint, "ipc://.", 7) == 0;
    return is_path ? endpoint + 6 : NULL;
}

/* A bound socket, plain libzmq, or NULL after saying why. */
static void *bind_socket(struct server *server)
{
    const char *path = path_of(server->endpoint);
    if (path != NULL && check_path(path) != 0) {
        return NULL;
    }
    void *handle = zmq_socket(server->zmq_context, server->rep ? ZMQ_REP : ZMQ_ROUTER);
    if (handle == NULL) {
        (void)complain("cannot make a socket: %s", evzmq_strerror(zmq_errno()));
        return NULL;
    }
    /* Without this option a ROUTER drops, without a word, what a client has no room for; with it
     * the answer waits in the output queue. A REP always drops it. */
    const int mandatory = 1;
    const int linger = LINGER_MS;
    if ((!server->rep &&
         zmq_setsockopt(handle, ZMQ_ROUTER_MANDATORY, &mandatory, sizeof(mandatory)) != 0) ||
        zmq_setsockopt(handle, ZMQ_LINGER, &linger, sizeof(linger)) != 0 ||
        zmq_bind(handle, server->endpoint) != 0) {
        (void)complain("cannot bind to %s: %s", server->endpoint, evzmq_strerror(zmq_errno()));
        (void)zmq_close(handle);
        return NULL;
    }
    server->path = path;
    return handle;
}

/* Says where the server can be found: with a port of * only libzmq knows. */
static void announce(const struct server *server)
{
    char endpoint[256];
    size_t size = sizeof(endpoint);
    void *handle = evzmq_socket_get_zmq_socket(server->socket);
    if (!server->quiet && zmq_getsockopt(handle, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0) {
        printf("echo_server: %s on %s\n", server->rep ? "REP" : "ROUTER", endpoint);
        fflush(stdout);
    }
}

static int start(struct server *server)
{
    server->base = event_base_new();
    server->zmq_context = zmq_ctx_new();
    if (server->base == NULL || server->zmq_context == NULL) {
        return complain("cannot make an event base and a ZeroMQ context");
    }
    void *handle = bind_socket(server);
    if (handle == NULL) {
        return -1;
    }
    server->socket = evzmq_socket_new(server->base, handle, EVZMQ_OPT_CLOSE_ON_FREE);
    if (server->socket == NULL) {
        (void)complain("cannot attach the socket: %s", evzmq_strerror(errno));
        (void)zmq_close(handle);
        return -1;
    }
    evzmq_socket_setcb(server->socket, on_request, NULL, on_event, server);
    if (evzmq_socket_enable(server->socket, EV_READ) != 0) {
        return complain("cannot read: %s", evzmq_strerror(errno));
    }
    return listen_to_signals(server);
}

static void finish(struct server *server)
{
    evzmq_socket_free(server->socket);
    for (size_t i = 0; i < 2; i++) {
        if (server->signals[i] != NULL) {
            event_free(server->signals[i]);
        }
    }
    if (server->base != NULL) {
        event_base_free(server->base);
    }
    if (server->zmq_context != NULL) {
        (void)zmq_ctx_term(server->zmq_context);
    }
    if (server->path != NULL) {
        (void)unlink(server->path); /* libzmq may leave it. */
    }
}

/* Returns -1 to go on, or an exit status. */
static int parse(int argc, char **argv, struct server *server)
{
    static const struct option options[] = {
        {"rep", no_argument, NULL, 'r'},
        {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'r':
            server->rep = 1;
            break;
        case 'q':
            server->quiet = 1;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            return 2;
        }
    }
    if (argc - optind > 1) {
        (void)complain("one endpoint, not %d", argc - optind);
        return 2;
    }
    server->endpoint = argc > optind ? argv[optind] : "tcp://127.0.0.1:5555";
    return -1;
}

int main(int argc, char **argv)
{
    struct server server = {.quiet = 0};
    const int status = parse(argc, argv, &server);
    if (status >= 0) {
        return status;
    }
    int result = start(&server);
    if (result == 0) {
        announce(&server);
        result = event_base_dispatch(server.base) < 0 ? -1 : 0;
    }
    finish(&server);
    if (result == 0 && !server.quiet) {
        printf("echo_server: %llu answered, %llu not deliverable\n", server.answered,
               server.refused);
    }
    return result == 0 && !server.failed ? EXIT_SUCCESS : EXIT_FAILURE;
}
