/*
 * echo_client: sends lines, or a number of messages, to an echo_server and checks what comes back.
 *
 * A DEALER socket keeps many messages on their way at once, but not more than a window: with the
 * window full, or a write refused because the output queue is, nothing more is read from stdin
 * until an echo comes or the queue has drained. Echoes come back in the order of the messages.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>

#define MESSAGE_BYTES_MAX (256ull * 1024 * 1024)
/*
 * A server's pipe to its client holds 1000 messages by default (ZMQ_SNDHWM) and learns of those
 * taken out 500 at a time. So with 500 on their way it can never be full, which matters with a REP
 * server: it drops an answer that finds it full.
 */
#define WINDOW_DEFAULT 250
#define WINDOW_MAX 1000000ull
/* A line that is longer is refused: it would have to be kept whole. */
#define LINE_BYTES_MAX (16u * 1024 * 1024)
/* The patience is measured in this many steps. */
#define WATCH_STEPS 4

static const char usage[] =
    "usage: echo_client [OPTION]... [ENDPOINT]\n"
    "\n"
    "Sends the lines of stdin to an echo_server, prints and checks the echoes, and says how fast\n"
    "that went. Ends with status 0; 1 when an echo was wrong, did not come (Ctrl-C included) or\n"
    "could not be printed; 2 for a bad option.\n"
    "\n"
    "  ENDPOINT        where to connect; default tcp://127.0.0.1:5555; or ipc:///a/path\n"
    "  --count N       send N made-up messages instead of lines\n"
    "  --size B        of B bytes each; default 32\n"
    "  --window N      messages on their way at once; default 250\n"
    "  --timeout S     give up when no echo came for so many seconds; default 10\n"
    "  --req           a REQ socket instead of a DEALER: one message at a time\n"
    "  --quiet         do not print the echoes of lines\n"
    "  --help\n";

/* A message whose echo has not come yet. */
struct sent {
    struct sent *next;
    size_t size;
    char data[];
};

struct client {
    const char *endpoint;
    unsigned long long count; /* 0: the lines of stdin */
    unsigned long long size;
    unsigned long long window;
    unsigned long long timeout_seconds;
    int req;
    int quiet;

    struct event_base *base;
    void *zmq_context;
    struct evzmq_socket *socket;
    struct event *signals[2];
    struct event *watch;
    struct event *readable; /* stdin; NULL where it is a file, which is always readable */
    struct evbuffer *lines; /* read from stdin and not sent yet */
    int input_ended;

    struct evzmq_message *refused; /* one that the queue had no room for; NULL mostly */
    struct sent *first; /* on their way, in order */
    struct sent **last;
    unsigned long long begun; /* sent or refused once */
    unsigned long long echoed;
    unsigned long long watched; /* echoed, when last looked at */
    unsigned idle_steps;
    int failed;
    int ended; /* a loopbreak before the dispatch would be forgotten */
};

static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int complain(const char *format, ...)
{
    va_list arguments;
    fputs("echo_client: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\n", stderr);
    return -1;
}

static void end(struct client *client, int failed)
{
    client->failed |= failed;
    client->ended = 1;
    (void)event_base_loopbreak(client->base);
}

static void fail(struct client *client, const char *what)
{
    (void)complain("%s after %llu of %llu echoes", what, client->echoed, client->begun);
    end(client, 1);
}

/* Makes message number client->begun: its number, then x's, cut to size. */
static struct sent *make_numbered(const struct client *client)
{
    const size_t size = (size_t)client->size;
    struct sent *sent = malloc(sizeof(*sent) + size);
    if (sent != NULL) {
        char number[32];
        const size_t length = (size_t)snprintf(number, sizeof(number), "%llu ", client->begun);
        sent->size = size;
        memset(sent->data, 'x', size);
        memcpy(sent->data, number, length < size ? length : size);
    }
    return sent;
}

/* Takes the next line from what was read; at the end of the input also one without a newline.
 * Returns NULL with errno 0 when there is none yet. */
static struct sent *take_line(struct client *client)
{
    size_t length = 0;
    size_t newline = 0;
    const struct evbuffer_ptr end_of_line =
        evbuffer_search_eol(client->lines, NULL, &newline, EVBUFFER_EOL_LF);
    if (end_of_line.pos >= 0) {
        length = (size_t)end_of_line.pos;
    } else if (client->input_ended) {
        length = evbuffer_get_length(client->lines);
    }
    errno = 0;
    if (length + newline == 0) {
        return NULL;
    }
    struct sent *sent = malloc(sizeof(*sent) + length);
    if (sent == NULL) {
        return NULL;
    }
    sent->size = length;
    (void)evbuffer_remove(client->lines, sent->data, length);
    (void)evbuffer_drain(client->lines, newline);
    return sent;
}

/* Reads more of stdin. Returns whether it makes sense to look for a line again. */
static int read_more(struct client *client)
{
    if (client->input_ended) {
        return 0;
    }
    if (evbuffer_get_length(client->lines) > LINE_BYTES_MAX) {
        fail(client, "a line of stdin is too long;");
        return 0;
    }
    const int got = evbuffer_read(client->lines, STDIN_FILENO, 65536);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    client->input_ended = got <= 0;
    return 1;
}

/* The next message to send, or NULL: nothing yet, no more, or (after fail()) no memory. */
static struct sent *next_message(struct client *client)
{
    struct sent *sent = NULL;
    errno = 0;
    if (client->count > 0) {
        if (client->begun == client->count) {
            client->input_ended = 1;
            return NULL;
        }
        sent = make_numbered(client);
    } else {
        sent = take_line(client);
        while (sent == NULL && errno == 0 && client->readable == NULL && read_more(client)) {
            sent = take_line(client);
        }
    }
    if (sent == NULL && errno == ENOMEM) {
        fail(client, "no memory");
    }
    return sent;
}

/* A DEALER adds the empty part that a REQ would send, so that REP servers understand it. */
static struct evzmq_message *wrap(const struct client *client, const struct sent *sent)
{
    struct evzmq_message *message = evzmq_message_new();
    if (message != NULL && (client->req || evzmq_message_add(message, NULL, 0) == 0) &&
        evzmq_message_add(message, sent->data, sent->size) == 0) {
        return message;
    }
    evzmq_message_free(message);
    return NULL;
}

/* Writes a message. Returns 1 when it is sent or queued, 0 when it must wait (then it is kept), -1
 * after fail(). */
static int try_write(struct client *client, struct evzmq_message *message)
{
    client->refused = NULL;
    if (evzmq_socket_write_message(client->socket, message) == 0) {
        return 1;
    }
    if (errno == EAGAIN) {
        client->refused = message; /* Still ours; on_drained() tries again. */
        return 0;
    }
    evzmq_message_free(message);
    fail(client, evzmq_strerror(errno));
    return -1;
}

/* Sends as much as the window and the queue allow. */
static void pump(struct client *client)
{
    if (client->ended || (client->refused != NULL && try_write(client, client->refused) <= 0)) {
        return;
    }
    while (client->begun - client->echoed < client->window) {
        struct sent *sent = next_message(client);
        if (sent == NULL) {
            break;
        }
        struct evzmq_message *message = wrap(client, sent);
        if (message == NULL) {
            free(sent);
            fail(client, "no memory");
            return;
        }
        sent->next = NULL;
        *client->last = sent;
        client->last = &sent->next;
        client->begun++;
        if (try_write(client, message) <= 0) {
            return;
        }
    }
    const int room = client->begun - client->echoed < client->window;
    if (room && !client->input_ended && client->readable != NULL) {
        (void)event_add(client->readable, NULL);
    }
    if (client->input_ended && client->begun == client->echoed &&
        (client->count > 0 || evbuffer_get_length(client->lines) == 0)) {
        end(client, 0);
    }
}

static void on_readable(evutil_socket_t fd, short events, void *arg)
{
    struct client *client = arg;
    (void)fd;
    (void)events;
    (void)read_more(client);
    pump(client);
}

/* The queue has room again. */
static void on_drained(struct evzmq_socket *socket, void *arg)
{
    (void)socket;
    pump(arg);
}

static void on_echo(struct evzmq_socket *socket, struct evzmq_message *echo, void *arg)
{
    struct client *client = arg;
    struct sent *sent = client->first;
    (void)socket;
    const size_t parts = client->req ? 1 : 2;
    size_t size = 0;
    const void *data = evzmq_message_get_part(echo, parts - 1, &size);
    if (sent == NULL || data == NULL || evzmq_message_get_part_count(echo) != parts ||
        size != sent->size || memcmp(data, sent->data, size) != 0) {
        fail(client, sent == NULL ? "an echo of nothing came" : "an echo is not what was sent;");
        return;
    }
    if (client->count == 0 && !client->quiet) {
        (void)fwrite(data, 1, size, stdout);
        (void)putchar('\n');
    }
    client->first = sent->next;
    if (client->first == NULL) {
        client->last = &client->first;
    }
    free(sent);
    client->echoed++;
    pump(client);
}

static void on_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    (void)socket;
    switch (event->type) {
    case EVZMQ_EVENT_ERROR:
    case EVZMQ_EVENT_TERMINATED:
    case EVZMQ_EVENT_UNDELIVERABLE:
        fail(arg, evzmq_strerror(event->error));
        break;
    default:
        break;
    }
}

static void on_watch(evutil_socket_t fd, short events, void *arg)
{
    struct client *client = arg;
    (void)fd;
    (void)events;
    (void)fflush(stdout);
    if (client->begun == client->echoed || client->echoed != client->watched) {
        client->idle_steps = 0;
    } else if (++client->idle_steps >= WATCH_STEPS) {
        (void)complain("no echo from %s for %llu s", client->endpoint, client->timeout_seconds);
        fail(client, "gave up");
    }
    client->watched = client->echoed;
}

static void on_signal(evutil_socket_t number, short events, void *arg)
{
    struct client *client = arg;
    (void)number;
    (void)events;
    (void)complain("interrupted; %llu echoes had not come", client->begun - client->echoed);
    end(client, 0);
}

/* A connected socket on the base. */
static int connect_socket(struct client *client)
{
    void *handle = zmq_socket(client->zmq_context, client->req ? ZMQ_REQ : ZMQ_DEALER);
    if (handle == NULL) {
        return complain("cannot make a socket: %s", evzmq_strerror(zmq_errno()));
    }
    /* What is not sent when the program ends is not wanted any more, but libzmq 4.3.4 may abort
     * when a linger of 0 cuts a message of several parts, as those of a REQ are. */
    const int linger = 100;
    if (zmq_setsockopt(handle, ZMQ_LINGER, &linger, sizeof(linger)) != 0 ||
        zmq_connect(handle, client->endpoint) != 0) {
        (void)complain("cannot connect to %s: %s", client->endpoint, evzmq_strerror(zmq_errno()));
        (void)zmq_close(handle);
        return -1;
    }
    client->socket = evzmq_socket_new(client->base, handle, EVZMQ_OPT_CLOSE_ON_FREE);
    if (client->socket == NULL) {
        (void)complain("cannot attach the socket: %s", evzmq_strerror(errno));
        (void)zmq_close(handle);
        return -1;
    }
    evzmq_socket_setcb(client->socket, on_echo, on_drained, on_event, client);
    return evzmq_socket_enable(client->socket, EV_READ) == 0
               ? 0
               : complain("cannot read: %s", evzmq_strerror(errno));
}

/* The other events: signals, patience, stdin. */
static int add_events(struct client *client)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        client->signals[i] = evsignal_new(client->base, numbers[i], on_signal, client);
        if (client->signals[i] == NULL || event_add(client->signals[i], NULL) != 0) {
            return complain("cannot watch signals");
        }
    }
    const unsigned long long step_ms = client->timeout_seconds * 1000 / WATCH_STEPS;
    const struct timeval step = {(time_t)(step_ms / 1000), (suseconds_t)(step_ms % 1000 * 1000)};
    client->watch = event_new(client->base, -1, EV_PERSIST, on_watch, client);
    if (client->watch == NULL || event_add(client->watch, &step) != 0) {
        return complain("cannot make a timer");
    }
    /* A file is always readable, and epoll refuses to watch one. */
    struct stat status;
    if (client->count == 0 && fstat(STDIN_FILENO, &status) == 0 &&
        (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(STDIN_FILENO))) {
        client->readable = event_new(client->base, STDIN_FILENO, EV_READ, on_readable, client);
        if (client->readable == NULL) {
            return complain("cannot watch stdin");
        }
    }
    return 0;
}

static int start(struct client *client)
{
    client->last = &client->first;
    client->base = event_base_new();
    client->zmq_context = zmq_ctx_new();
    client->lines = evbuffer_new();
    if (client->base == NULL || client->zmq_context == NULL || client->lines == NULL) {
        return complain("cannot make an event base and a ZeroMQ context");
    }
    return connect_socket(client) == 0 ? add_events(client) : -1;
}

static void finish(struct client *client)
{
    evzmq_socket_free(client->socket);
    evzmq_message_free(client->refused);
    struct event *events[] = {client->signals[0], client->signals[1], client->watch,
                              client->readable};
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (events[i] != NULL) {
            event_free(events[i]);
        }
    }
    while (client->first != NULL) {
        struct sent *sent = client->first;
        client->first = sent->next;
        free(sent);
    }
    if (client->lines != NULL) {
        evbuffer_free(client->lines);
    }
    if (client->base != NULL) {
        event_base_free(client->base);
    }
    if (client->zmq_context != NULL) {
        (void)zmq_ctx_term(client->zmq_context);
    }
}

static int read_number(const char *option, const char *text, unsigned long long min,
                       unsigned long long max, unsigned long long *out)
{
    char *stop = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &stop, 10);
    if (*text < '0' || *text > '9' || *stop != '\0' || errno != 0 || value < min || value > max) {
        return complain("%s: not a number from %llu to %llu: '%s'", option, min, max, text);
    }
    *out = value;
    return 0;
}

static const struct option long_options[] = {
    {"count", required_argument, NULL, 'c'},  {"size", required_argument, NULL, 's'},
    {"window", required_argument, NULL, 'w'}, {"timeout", required_argument, NULL, 't'},
    {"req", no_argument, NULL, 'r'},          {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
};

static int read_option(int option, struct client *client)
{
    switch (option) {
    case 'c':
        return read_number("--count", optarg, 1, UINT64_MAX / 2, &client->count);
    case 's':
        return read_number("--size", optarg, 0, MESSAGE_BYTES_MAX, &client->size);
    case 'w':
        return read_number("--window", optarg, 1, WINDOW_MAX, &client->window);
    case 't':
        return read_number("--timeout", optarg, 1, 86400, &client->timeout_seconds);
    case 'r':
        client->req = 1;
        return 0;
    case 'q':
        client->quiet = 1;
        return 0;
    default:
        return -1; /* getopt_long has said what is wrong. */
    }
}

/* Returns -1 to go on, or an exit status. */
static int parse(int argc, char **argv, struct client *client)
{
    for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (read_option(option, client) != 0) {
            return 2;
        }
    }
    if (argc - optind > 1) {
        (void)complain("one endpoint, not %d", argc - optind);
        return 2;
    }
    if (argc > optind) {
        client->endpoint = argv[optind];
    }
    if (client->req) {
        client->window = 1; /* A REQ has one request in flight. */
    }
    return -1;
}

static double now_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct client client = {.endpoint = "tcp://127.0.0.1:5555",
                            .size = 32,
                            .window = WINDOW_DEFAULT,
                            .timeout_seconds = 10};
    const int status = parse(argc, argv, &client);
    if (status >= 0) {
        return status;
    }
    const double begin = now_seconds();
    int result = start(&client);
    if (result == 0) {
        pump(&client);
        if (!client.ended) {
            result = event_base_dispatch(client.base) < 0 ? -1 : 0;
        }
    }
    const double seconds = now_seconds() - begin;
    finish(&client);
    if (result != 0 || client.failed) {
        return EXIT_FAILURE;
    }
    printf("echo_client: %llu echoes in %.3f s, %.0f messages/s\n", client.echoed, seconds,
           (double)client.echoed / seconds);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)complain("cannot print: %s", strerror(errno));
        return EXIT_FAILURE;
    }
    return client.echoed == client.begun ? EXIT_SUCCESS : EXIT_FAILURE;
}
