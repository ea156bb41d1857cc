/*
 * fuzz_zmtp.c: any bytes on a connection to sockets with adapters, beside connections of clients
 * that behave.
 *
 * Linked with libFuzzer it searches; linked with replay.c it is an ordinary test over some
 * connections and random ones. The first two bytes of an input say to which socket and what stands
 * before the rest: nothing, a greeting, a whole handshake of ZMTP 3, 2 or 1; after a handshake the
 * rest may be cut into frames that are well formed. The connection is closed for writing then, and
 * libzmq's end of it is waited for, so that all bytes have had their effect. The properties: after
 * each input the good client of the same server is served (and now and then all are), exactly what
 * it sent comes under its name or with its secret, nothing else does, and exactly what was
 * published arrives; and all this in time.
 *
 * Sockets are made once. The parser of ZMTP is libzmq's, which is not instrumented: what guides the
 * search is what arrives in the adapters. An assertion that libzmq itself fails on hostile bytes is
 * not ours to catch: README.md of this directory says what is to be done with one.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>
#include <evzmq/msgpack.h>

#include "fuzz.h"

enum { TARGETS = 4, STREAM_MAX = 16384, PATIENCE_S = 30, BODY_SIZE = 18, SECRET_SIZE = 12 };
enum { TARGET_ROUTER, TARGET_PULL, TARGET_REP, TARGET_XPUB };

/* The first of the modes that send frames. Strangers that connect to the REP send proper messages:
 * when one without an empty part came from a peer that has gone, REP of libzmq 4.3.4 loses the
 * next reply, which is another's (router_t::rollback() does nothing without a peer, and the next
 * reply's address is taken for the rest of the old one). Plain libzmq does so 20 times of 20, and
 * ROUTER does not. */
enum { FRAMES_MODE = 5 };

/* One kind of server, and its good client. */
struct target {
    int type;
    int client_type;
    const char *name; /* the socket type that a stranger pretends to be */
    struct evzmq_socket *server;
    struct evzmq_socket *client;
    struct sockaddr_un address;
    unsigned came; /* of the message that is under way: what the client was promised */
};

static struct target targets[TARGETS] = {
    {.type = ZMQ_ROUTER, .client_type = ZMQ_DEALER, .name = "DEALER"},
    {.type = ZMQ_PULL, .client_type = ZMQ_PUSH, .name = "PUSH"},
    {.type = ZMQ_REP, .client_type = ZMQ_REQ, .name = "REQ"},
    {.type = ZMQ_XPUB, .client_type = ZMQ_SUB, .name = "SUB"},
};

static struct event_base *base;
static struct event *guard;
static struct evzmq_context *context;
static struct evzmq_codec *msgpack;

/* The message that the good clients send next: a msgpack binary with a secret and a number. */
static unsigned char body[BODY_SIZE];
static const char good_name[] = "good";

/* By a hash, as libFuzzer learns what bytes are compared with, and the secret would be none. */
static uint64_t hash_bytes(const unsigned char *bytes, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

/* Bytes that no input has: other ones in each process, for nobody to keep in a corpus. */
static void make_secret(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t state = hash_bytes((const unsigned char *)&now, sizeof(now)) ^ (uint64_t)getpid();
    for (size_t i = 0; i < SECRET_SIZE; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        body[2 + i] = (unsigned char)(state >> 56);
    }
}

static bool is_good(const void *data, size_t size)
{
    return size == BODY_SIZE && hash_bytes(data, size) == hash_bytes(body, size);
}

/* Whether the part has the secret in it, which no stranger knows. */
static bool has_secret(const void *data, size_t size)
{
    const unsigned char *const bytes = data;
    const uint64_t secret = hash_bytes(body + 2, SECRET_SIZE);
    for (size_t at = 0; at + SECRET_SIZE <= size; at++) {
        if (hash_bytes(bytes + at, SECRET_SIZE) == secret) {
            return true;
        }
    }
    return false;
}

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    check(false, "it is done in time");
}

static void run_until_come(const unsigned *came, unsigned number)
{
    const struct timeval patience = {PATIENCE_S, 0};
    check(event_add(guard, &patience) == 0, "there is a guard");
    while (*came < number) {
        check(event_base_loop(base, EVLOOP_ONCE) == 0, "the loop runs");
    }
    (void)event_del(guard);
}

static void on_request(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct target *const target = arg;
    const size_t count = evzmq_message_get_part_count(message);
    size_t size = 0;
    const void *data = evzmq_message_get_part(message, 0, &size);
    size_t last_size = 0;
    const void *const last = evzmq_message_get_part(message, count - 1, &last_size);
    if (target->type == ZMQ_ROUTER) {
        const bool named = size == 4 && memcmp(data, good_name, 4) == 0;
        check(named == is_good(last, last_size), "a name has its own messages, and all of them");
        check(!named || count == 2, "with the parts that were sent");
    }
    if (has_secret(last, last_size)) {
        check(is_good(last, last_size), "what a good client sends comes as it was sent");
        target->came++;
    }
    if (target->type != ZMQ_PULL && target->type != ZMQ_XPUB) {
        /* To a stranger that has gone, or does not read, it may fail. */
        (void)evzmq_socket_reply(socket, evzmq_message_get_envelope(message), last, last_size);
    }
}

static void on_reply(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct target *const target = arg;
    (void)socket;
    size_t size = 0;
    const void *const data = evzmq_message_get_part(message, 0, &size);
    check(evzmq_message_get_part_count(message) == 1 && is_good(data, size),
          "a good client gets what it is to get, and nothing else");
    target->came++;
}

static struct evzmq_socket *make_socket(int type, const char *endpoint, evzmq_read_cb read_cb,
                                        struct target *target)
{
    void *const zmq_socket = evzmq_context_socket(context, type);
    check(zmq_socket != NULL, "there is a socket");
    if (type == ZMQ_SUB) {
        check(zmq_setsockopt(zmq_socket, ZMQ_SUBSCRIBE, "", 0) == 0, "it subscribes");
    }
    if (type == ZMQ_DEALER) {
        check(zmq_setsockopt(zmq_socket, ZMQ_ROUTING_ID, good_name, 4) == 0, "it has a name");
    }
    check((endpoint == NULL ? evzmq_context_bind(context, zmq_socket, "ipc://*")
                            : evzmq_context_connect(context, zmq_socket, endpoint)) == 0,
          "it is connected");
    struct evzmq_socket *const socket = evzmq_socket_new(base, zmq_socket, EVZMQ_OPT_CLOSE_ON_FREE);
    check(socket != NULL, "there is an adapter");
    evzmq_socket_setcb(socket, read_cb, NULL, NULL, target);
    if (type != ZMQ_PUSH) {
        check(evzmq_socket_enable(socket, EV_READ) == 0, "which reads");
    }
    return socket;
}

/* One message of the good client of a server, or of all for NULL, there and, where there is a way,
 * back. */
static void serve_good_clients(const struct target *only)
{
    body[BODY_SIZE - 1]++;
    body[BODY_SIZE - 2] = (unsigned char)(body[BODY_SIZE - 2] + (body[BODY_SIZE - 1] == 0));
    for (int i = 0; i < TARGETS; i++) {
        struct target *const target = &targets[i];
        if (only != NULL && only != target) {
            continue;
        }
        const bool publishes = target->type == ZMQ_XPUB;
        const bool answers = target->type == ZMQ_ROUTER || target->type == ZMQ_REP;
        target->came = 0;
        check(evzmq_socket_write(publishes ? target->server : target->client, body, BODY_SIZE) == 0,
              "a good client is not refused");
        run_until_come(&target->came, answers ? 2 : 1);
    }
}

static void on_subscription(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    (void)socket;
    (void)message;
    ((struct target *)arg)->came++;
}

static void tear_down(void)
{
    for (int i = 0; i < TARGETS; i++) {
        evzmq_socket_free(targets[i].client);
        evzmq_socket_free(targets[i].server);
    }
    (void)evzmq_context_free(context);
    evzmq_codec_free(msgpack);
    event_free(guard);
    event_base_free(base);
}

static void set_up(void)
{
    base = event_base_new();
    context = evzmq_context_new(0, NULL);
    msgpack = evzmq_msgpack_codec_new(NULL);
    check(base != NULL && context != NULL && msgpack != NULL, "there is memory");
    guard = evtimer_new(base, on_patience, NULL);
    check(guard != NULL, "there is a guard");
    body[0] = 0xc4;
    body[1] = BODY_SIZE - 2;
    make_secret();
    (void)signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < TARGETS; i++) {
        struct target *const target = &targets[i];
        const bool publishes = target->type == ZMQ_XPUB;
        target->server =
            make_socket(target->type, NULL, publishes ? on_subscription : on_request, target);
        const char *const endpoint =
            evzmq_context_get_endpoint(context, evzmq_socket_get_zmq_socket(target->server));
        check(strncmp(endpoint, "ipc://", 6) == 0, "it is bound");
        target->address.sun_family = AF_UNIX;
        (void)snprintf(target->address.sun_path, sizeof(target->address.sun_path), "%s",
                       endpoint + 6);
        target->client = make_socket(target->client_type, endpoint, on_reply, target);
        if (publishes) {
            run_until_come(&target->came, 1); /* the good subscription */
            evzmq_socket_setcb(target->server, on_request, NULL, NULL, target);
        } else {
            check(evzmq_socket_set_codec(target->server, msgpack) == 0, "it has a codec");
        }
        check(evzmq_socket_set_max_message(target->server, 2000, 20, EVZMQ_OVERSIZE_DROP) == 0,
              "it has limits");
    }
    check(evzmq_socket_set_unpacking(targets[TARGET_PULL].server, 1) == 0, "one unpacks");
    (void)atexit(tear_down);
    serve_good_clients(NULL);
}

/* What is sent on one connection. */
static struct {
    unsigned char bytes[STREAM_MAX];
    size_t size;
} stream;

static void put(const void *bytes, size_t size)
{
    const size_t room = sizeof(stream.bytes) - stream.size;
    size = size < room ? size : room;
    if (size > 0) {
        memcpy(stream.bytes + stream.size, bytes, size);
        stream.size += size;
    }
}

static void put_byte(unsigned byte)
{
    const unsigned char one = (unsigned char)byte;
    put(&one, 1);
}

/* The signature, ZMTP's version, the mechanism, and that this is no server. */
static void put_greeting(unsigned minor)
{
    static const unsigned char signature[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3};
    static const char mechanism[20] = "NULL";
    static const unsigned char rest[32];
    put(signature, sizeof(signature));
    put_byte(minor);
    put(mechanism, sizeof(mechanism));
    put(rest, sizeof(rest));
}

static void put_property(const char *name, const void *value, size_t size)
{
    put_byte((unsigned)strlen(name));
    put(name, strlen(name));
    put("\0\0\0", 3);
    put_byte((unsigned)size);
    put(value, size);
}

/* The command that ends a handshake. Now and then with the name of the good client. */
static void put_ready(const struct target *target, bool steals)
{
    const size_t name = steals ? 4 : 0;
    const size_t properties = 1 + 11 + 4 + strlen(target->name) + (steals ? 1 + 8 + 4 + name : 0);
    put_byte(4); /* a command */
    put_byte((unsigned)(6 + properties));
    put("\5READY", 6);
    put_property("Socket-Type", target->name, strlen(target->name));
    if (steals) {
        put_property("Identity", good_name, name);
    }
}

/* Each frame of the input: flags, a length, and so many bytes, or what is left. In proper messages
 * there is an empty part first, and no frame but parts and commands. */
static void put_frames(const uint8_t *data, size_t size, bool proper)
{
    enum { MORE = 1, COMMAND = 4 };
    bool begins = true;
    while (size >= 2) {
        const size_t wanted = data[1];
        const size_t length = wanted < size - 2 ? wanted : size - 2;
        unsigned flags = data[0] % 16 == 15 && !proper ? data[0] : data[0] & 5u;
        if (proper && (flags & COMMAND) != 0) {
            flags = COMMAND;
        } else if (proper) {
            put(begins ? "\1\0" : "", begins ? 2 : 0);
            begins = (flags & MORE) == 0;
        }
        put_byte(flags);
        if ((flags & 2) != 0) {
            put("\0\0\0\0\0\0\0", 7);
        }
        put_byte((unsigned)length);
        put(data + 2, length);
        data += 2 + length;
        size -= 2 + length;
    }
}

static void build(const struct target *target, unsigned mode, const uint8_t *data, size_t size)
{
    stream.size = 0;
    switch (mode % 8) {
    case 0:
        put(data, size);
        break;
    case 1:
        put_greeting(mode / 8 % 4);
        put(data, size);
        break;
    case 2:
        put_greeting(0);
        put_ready(target, (mode & 8) != 0);
        put(data, size);
        break;
    case 3: /* ZMTP 2: signature, version, socket type, then the identity as a frame */
        put("\xff\0\0\0\0\0\0\0\1\x7f\1", 11);
        put_byte(mode / 8 % 12);
        put("\0\0", 2);
        put(data, size);
        break;
    case 4: /* ZMTP 1: the identity as a frame; length, flags, bytes */
        put_byte(1);
        put_byte(0);
        put(data, size);
        break;
    default:
        put_greeting(mode / 16 % 2);
        put_ready(target, (mode & 8) != 0);
        put_frames(data, size, target->type == ZMQ_REP);
    }
}

struct stranger {
    size_t sent;
    unsigned closed;
    struct event *event;
};

/* Writes what there is, then closes for writing; reads what comes until the other end closes. */
static void on_stranger(evutil_socket_t fd, short what, void *arg)
{
    struct stranger *const stranger = arg;
    char room[4096];
    (void)what;
    if (stranger->sent < stream.size) {
        const ssize_t sent =
            send(fd, stream.bytes + stranger->sent, stream.size - stranger->sent, MSG_DONTWAIT);
        stranger->sent = sent > 0 ? stranger->sent + (size_t)sent : stranger->sent;
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            stranger->sent = stream.size; /* They have hung up. */
        }
    }
    if (stranger->sent == stream.size) {
        (void)shutdown(fd, SHUT_WR);
        stranger->sent++;
    }
    const ssize_t got = recv(fd, room, sizeof(room), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        stranger->closed = 1;
    } else if (got < 0 && stranger->sent > stream.size) {
        (void)event_del(stranger->event); /* From here on only what comes counts. */
        (void)event_assign(stranger->event, base, fd, EV_READ | EV_PERSIST, on_stranger, stranger);
        (void)event_add(stranger->event, NULL);
    }
}

static void connect_stranger(const struct target *target)
{
    struct stranger stranger = {0, 0, NULL};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    check(fd >= 0, "there is a descriptor");
    check(connect(fd, (const struct sockaddr *)&target->address, sizeof(target->address)) == 0,
          "a stranger can connect");
    stranger.event = event_new(base, fd, EV_READ | EV_WRITE | EV_PERSIST, on_stranger, &stranger);
    check(stranger.event != NULL && event_add(stranger.event, NULL) == 0, "there is an event");
    run_until_come(&stranger.closed, 1);
    event_free(stranger.event);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned inputs;
    if (base == NULL) {
        set_up();
    }
    if (size < 2) {
        return 0;
    }
    const struct target *target = &targets[data[0] % TARGETS];
    if (target->type == ZMQ_REP && data[1] % 8 < FRAMES_MODE) {
        target = &targets[TARGET_ROUTER];
    }
    build(target, data[1], data + 2, size - 2);
    connect_stranger(target);
    serve_good_clients(inputs++ % 16 == 0 ? NULL : target);
    return 0;
}

#define FRAMES "\5"
#define THIEF "\15" /* the same, with the name of another */
static const struct fuzz_seed seeds[] = {
    FUZZ_SEED("\0\0\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL"),
    FUZZ_SEED("\0\1\4\x19\5READY\13Socket-Type\0\0\0\6DEALER\0\1x"),
    FUZZ_SEED("\0\2\0\1\7"),
    FUZZ_SEED("\0" FRAMES "\0\1\7\1\1\7\0\1\7\0\0\1\0\0\2\xc1\xff\4\4\4PING"), /* to the ROUTER */
    FUZZ_SEED("\0" THIEF "\0\1\7"),
    FUZZ_SEED("\1" FRAMES "\0\3\7\7\7\0\3\7\xc1\7\0\0\1\2\7\7\0\5\xdd\xff\xff\xff\xff"),
    FUZZ_SEED("\2" FRAMES "\0\1\7\0\1\xc1\0\0\1\1\7\0\1\7"), /* requests of REQ, one bad */
    FUZZ_SEED("\3" FRAMES "\0\4\1sub\0\4\0sub\0\1\1\4\12\11SUBSCRIBEx"),
    FUZZ_SEED("\0\3\0\3abc\0\1\7\2\0\0\0\0\0\0\0\1\7\2\xff\xff\xff\xff\xff\xff\xff\xff"),
    FUZZ_SEED("\1\104\2\0\7\xff\0\0\0\0\0\0\0\2\0\7"), /* ZMTP 1 */
    FUZZ_SEED("\0\2\2\x7f\xff\xff\xff\xff\xff\xff\xff"), /* a part without end */
    FUZZ_SEED("\0\2\4\7\4PING\0\1xxxxxxxxxxxxxxxxxxxx"), /* more context than a PING may have */
};

const struct fuzz_plan fuzz_plan = {.seeds = seeds,
                                    .seed_count = sizeof(seeds) / sizeof(seeds[0]),
                                    .random_count = 500,
                                    .random_size_max = 300};
