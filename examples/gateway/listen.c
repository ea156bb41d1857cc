/*
 * Connections: how many there can be, and how much of what a client sends ahead is held.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <event2/bufferevent.h>
#include <event2/listener.h>

#include "gateway.h"

/* Descriptors that are for others than clients: the base, the listener, the terminal, and for each
 * worker its sockets, its connections and its process. */
#define DESCRIPTORS_FIXED (64u + EVZMQ_CONTEXT_DESCRIPTORS_RESERVE)
#define DESCRIPTORS_PER_WORKER 16u
#define BACKLOG 4096
#define HEADERS_MAX (64u * 1024u)
/* So many connections are accepted before others in the loop have a turn, and the free descriptors
 * are counted. */
#define ACCEPTS_AT_ONCE 64u

int listen_raise_limit(const struct options *options)
{
    const rlim_t workers = options->direct ? 0 : (rlim_t)options->workers * DESCRIPTORS_PER_WORKER;
    const rlim_t wanted = DESCRIPTORS_FIXED + workers + (rlim_t)options->connections;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return complain("the limit of open files: %s", strerror(errno));
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < wanted) {
        return complain("%lu connections and %u workers need %llu open files, but only %llu are "
                        "allowed (ulimit -Hn); ask for fewer --connections",
                        options->connections, options->direct ? 0 : options->workers,
                        (unsigned long long)wanted, (unsigned long long)limit.rlim_cur);
    }
    return 0;
}

/* evhttp gives its own argument to the listener's callbacks. */
static struct gateway *listening;

/* Accepts nothing for a while. Connections wait with the system. */
static void rest(struct gateway *gateway, suseconds_t microseconds)
{
    const struct timeval delay = {0, microseconds};
    (void)evconnlistener_disable(evhttp_bound_socket_get_listener(gateway->bound));
    (void)event_add(gateway->accept_again, &delay);
}

static void rest_long(struct gateway *gateway)
{
    gateway->counters.accept_pauses++;
    rest(gateway, 100000);
}

/* A listener that cannot accept would be called again at once, for ever. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
    (void)listener;
    (void)arg;
    rest_long(listening);
}

/* Without descriptors to spare connections in excess wait with the system: the process is aborted
 * where an ipc endpoint runs out of them. */
static void on_accept_again(evutil_socket_t fd, short events, void *arg)
{
    struct gateway *gateway = arg;
    (void)fd;
    (void)events;
    if (gateway->bound == NULL) {
        return;
    }
    if (evzmq_context_check_descriptors(
            gateway->context, ACCEPTS_AT_ONCE + gateway->options.workers * DESCRIPTORS_PER_WORKER) <
        0) {
        rest_long(gateway);
        return;
    }
    gateway->accepts_left = ACCEPTS_AT_ONCE;
    (void)evconnlistener_enable(evhttp_bound_socket_get_listener(gateway->bound));
}

/*
 * evhttp asks for the bufferevent of a new connection. What evhttp would make is what it gets, but
 * for the watermark: neither while a request is answered nor while its answer is written does
 * evhttp limit what it reads. A body must fit below it, since evhttp takes it in one piece.
 *
 * A listener of libevent 2.1.12 accepts until nobody waits any more, and where clients come faster
 * than that, for ever: nothing else in the loop has its turn. So it rests for a turn now and then.
 */
static struct bufferevent *on_connection(struct event_base *base, void *arg)
{
    struct gateway *gateway = arg;
    struct bufferevent *bufferevent = bufferevent_socket_new(base, -1, 0);
    gateway->counters.connections++;
    gateway->accepts_left--;
    if (gateway->accepts_left == 0) {
        rest(gateway, 0);
    }
    if (bufferevent != NULL) {
        bufferevent_setwatermark(bufferevent, EV_READ, 0,
                                 gateway->options.body_max + 2 * (size_t)HEADERS_MAX);
    }
    return bufferevent;
}

static int make_http(struct gateway *gateway)
{
    const struct timeval timeout = {(time_t)gateway->options.idle_timeout, 0};
    gateway->http = evhttp_new(gateway->base);
    gateway->accept_again = evtimer_new(gateway->base, on_accept_again, gateway);
    if (gateway->http == NULL || gateway->accept_again == NULL) {
        return complain("no memory");
    }
    evhttp_set_gencb(gateway->http, serve_request, gateway);
    evhttp_set_bevcb(gateway->http, on_connection, gateway);
    evhttp_set_default_content_type(gateway->http, NULL);
    evhttp_set_timeout_tv(gateway->http, &timeout);
    evhttp_set_max_headers_size(gateway->http, HEADERS_MAX);
    evhttp_set_max_body_size(gateway->http, (ev_ssize_t)gateway->options.body_max);
    /* Whoever sends a body that is too large reads the answer when all of it is sent, or not at
     * all when the connection is reset meanwhile. */
    (void)evhttp_set_flags(gateway->http, EVHTTP_SERVER_LINGERING_CLOSE);
    /* All methods come here, so that those that a path does not have get 405. */
    evhttp_set_allowed_methods(gateway->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                                  EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                                                  EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE |
                                                  EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH);
    return 0;
}

static struct evconnlistener *make_listener(const struct gateway *gateway,
                                            const struct addrinfo *where)
{
    return evconnlistener_new_bind(gateway->base, NULL, NULL,
                                   LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC |
                                       LEV_OPT_REUSEABLE,
                                   BACKLOG, where->ai_addr, (int)where->ai_addrlen);
}

int listen_start(struct gateway *gateway)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *where = NULL;
    char port[16];
    if (make_http(gateway) != 0) {
        return -1;
    }
    (void)snprintf(port, sizeof(port), "%u", gateway->options.port);
    const int error = getaddrinfo(gateway->options.address, port, &hints, &where);
    if (error != 0) {
        return complain("--address %s: %s", gateway->options.address, gai_strerror(error));
    }
    struct evconnlistener *listener = make_listener(gateway, where);
    const int listen_error = errno;
    freeaddrinfo(where);
    if (listener == NULL) {
        return complain("cannot listen on %s, port %u: %s", gateway->options.address,
                        gateway->options.port, strerror(listen_error));
    }
    gateway->bound = evhttp_bind_listener(gateway->http, listener);
    if (gateway->bound == NULL) {
        evconnlistener_free(listener);
        return complain("no memory");
    }
    listening = gateway;
    gateway->accepts_left = ACCEPTS_AT_ONCE;
    evconnlistener_set_error_cb(listener, on_accept_error);
    return 0;
}

unsigned listen_port(const struct gateway *gateway)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    if (getsockname(evhttp_bound_socket_get_fd(gateway->bound), (struct sockaddr *)&address,
                    &size) != 0) {
        return gateway->options.port;
    }
    return address.ss_family == AF_INET6
               ? ntohs(((const struct sockaddr_in6 *)(const void *)&address)->sin6_port)
               : ntohs(((const struct sockaddr_in *)(const void *)&address)->sin_port);
}

void listen_stop(struct gateway *gateway)
{
    (void)event_del(gateway->accept_again);
    if (gateway->bound != NULL) {
        evhttp_del_accept_socket(gateway->http, gateway->bound);
        gateway->bound = NULL;
    }
}
