/*
 * fuzz_envelope.c: messages of any parts, sent to a ROUTER with an adapter, and to a requester as
 * if they were replies.
 *
 * Linked with libFuzzer it searches; linked with replay.c it is an ordinary test over some inputs
 * and random ones. The properties: an envelope ends with the first empty part that something
 * follows, or is the routing id alone; a copy is the same; a reply behind it reaches its peer; the
 * head of a pool's message is what its first part says. Of a requester: each message that comes is
 * counted as exactly one of reply, undecodable, late, unknown and malformed, whichever it is, and a
 * request ends at most once.
 */
#include <errno.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>
#include <evzmq/msgpack.h>

#include "fuzz.h"
#include "headed.h"
#include "scan.h"

enum { PARTS_MAX = 6, MESSAGES_MAX = 12, REQUESTS_MAX = 4, TURNS_MAX = 1000, WORKERS = 100 };

struct parts {
    struct evzmq_bytes part[PARTS_MAX];
    size_t count;
};

/* Made once. */
static struct {
    struct event_base *base;
    void *context;
    void *dealer; /* the peer of the ROUTER with an adapter */
    struct evzmq_socket *router;
    void *server; /* the peer of the requester */
    struct evzmq_socket *socket;
    struct evzmq_codec *msgpack;
    const struct parts *expected; /* what the ROUTER is to receive */
    bool came;
} here;

static void *make_socket(int type, const char *endpoint, bool binds, const char *name)
{
    void *const socket = zmq_socket(here.context, type);
    check(socket != NULL, "there is a socket");
    if (name != NULL) {
        check(zmq_setsockopt(socket, ZMQ_ROUTING_ID, name, strlen(name)) == 0, "it has a name");
    }
    int result = -1;
    do {
        result = (binds ? zmq_bind : zmq_connect)(socket, endpoint);
    } while (result < 0 && errno == EINTR);
    check(result == 0, "it is connected");
    return socket;
}

/* Plain libzmq does not go on after a signal, and libFuzzer has a timer. */
static int send_raw(void *socket, const void *data, size_t size, int flags)
{
    int sent = -1;
    do {
        sent = zmq_send(socket, data, size, flags | ZMQ_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent;
}

static int recv_raw(void *socket, void *room, size_t size)
{
    int got = -1;
    do {
        got = zmq_recv(socket, room, size, ZMQ_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return got;
}

static bool is_part(const void *data, size_t size, const struct evzmq_bytes *part)
{
    return size == part->size && (size == 0 || memcmp(data, part->data, size) == 0);
}

static void check_envelope(const struct evzmq_envelope *envelope, size_t count)
{
    check(envelope != NULL && evzmq_envelope_get_part_count(envelope) == count,
          "the envelope ends with the first empty part that something follows");
    for (size_t i = 1; i < count; i++) {
        size_t size = 0;
        const void *const data = evzmq_envelope_get_part(envelope, i, &size);
        check(is_part(data, size, &here.expected->part[i - 1]), "its parts are the message's");
    }
}

static void on_message(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    (void)arg;
    const size_t parts = evzmq_message_get_part_count(message);
    size_t count = 1;
    check(parts == here.expected->count + 1, "a message has its parts behind a routing id");
    for (size_t i = 0; i + 1 < here.expected->count && count == 1; i++) {
        if (here.expected->part[i].size == 0) {
            count = i + 2;
        }
    }
    const struct evzmq_envelope *const envelope = evzmq_message_get_envelope(message);
    check_envelope(envelope, count);
    struct evzmq_envelope *const copy = evzmq_envelope_dup(envelope);
    check_envelope(copy, count);
    check(evzmq_socket_reply(socket, copy, "r", 1) == 0, "it can be answered");
    evzmq_envelope_free(copy);
    here.came = true;
}

static void send_parts(void *socket, const struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        const int more = i + 1 < parts->count ? ZMQ_SNDMORE : 0;
        check(send_raw(socket, parts->part[i].data, parts->part[i].size, more) ==
                  (int)parts->part[i].size,
              "it is sent");
    }
}

static void run_loop(void)
{
    check(event_base_loop(here.base, EVLOOP_NONBLOCK) >= 0, "the loop runs");
}

/* The reply: the envelope without the routing id, which is libzmq's, and a part. */
static void expect_reply(const struct parts *parts)
{
    size_t i = 0;
    int more = 1;
    while (more != 0) {
        static unsigned char room[8192];
        size_t more_size = sizeof(more);
        const int size = recv_raw(here.dealer, room, sizeof(room));
        check(size >= 0, "a reply reaches its peer");
        check(zmq_getsockopt(here.dealer, ZMQ_RCVMORE, &more, &more_size) == 0, "it says if more");
        const struct evzmq_bytes body = {"r", 1};
        check(is_part(room, (size_t)size, more != 0 ? &parts->part[i] : &body),
              "behind the envelope it came with");
        i++;
    }
}

static void try_router(const struct parts *parts)
{
    here.expected = parts;
    here.came = false;
    send_parts(here.dealer, parts);
    for (int turns = 0; turns < TURNS_MAX && !here.came; turns++) {
        run_loop();
    }
    check(here.came, "what is sent comes");
    expect_reply(parts);
}

static void try_head(const struct parts *parts)
{
    struct evzmq_message *const message = evzmq_message_new();
    struct evzmq__header header = {WORKERS, 0, 0};
    struct evzmq__header alone = {WORKERS, 0, 0};
    check(message != NULL, "there is memory");
    for (size_t i = 0; i < parts->count; i++) {
        check(evzmq_message_add(message, parts->part[i].data, parts->part[i].size) == 0,
              "a part is added");
    }
    const bool has_head = evzmq__headed_read(message, WORKERS, &header);
    const bool is_head =
        evzmq__header_read(parts->part[0].data, parts->part[0].size, WORKERS, &alone);
    check(has_head == (is_head && parts->count > 1), "a head is in front of something");
    check(!has_head || (header.identity == alone.identity && header.start == alone.start &&
                        header.flags == alone.flags),
          "it says what its part says");
    evzmq_message_free(message);
}

/* The requests of one input. */
struct asked {
    int64_t number;
    unsigned char id[EVZMQ_REQUEST_ID_BYTES];
    int ends;
    int error;
};

static struct asked asked[REQUESTS_MAX];

static void on_reply(struct evzmq_requester *requester, int64_t request, int error,
                     struct evzmq_message *reply, void *arg)
{
    struct asked *const one = arg;
    (void)requester;
    check(one->number == request && reply != NULL, "a reply is for its request");
    one->ends++;
    one->error = error;
}

static void ask(struct evzmq_requester *requester, struct asked *one)
{
    unsigned char room[64];
    memset(one, 0, sizeof(*one));
    one->number = evzmq_request_bytes(requester, "q", 1, -1, on_reply, one);
    check(one->number > 0, "a request is made");
    check(recv_raw(here.server, room, sizeof(room)) > 0 &&
              recv_raw(here.server, one->id, sizeof(one->id)) == sizeof(one->id) &&
              recv_raw(here.server, room, sizeof(room)) == 0 &&
              recv_raw(here.server, room, sizeof(room)) == 1,
          "it is an id, an empty part and the body");
}

static struct evzmq_requester_stats get_stats(const struct evzmq_requester *requester)
{
    struct evzmq_requester_stats stats = {.size = sizeof(stats)};
    check(evzmq_requester_get_stats(requester, &stats) == 0, "there are statistics");
    return stats;
}

static bool is_decodable(const struct evzmq_bytes *part)
{
    const struct evzmq__scan_limits limits = {EVZMQ_MSGPACK_DEPTH_DEFAULT,
                                              EVZMQ_MSGPACK_ELEMENTS_DEFAULT, false};
    struct evzmq__scan_result result;
    struct evzmq_decode_error error;
    return part->size == 0 ||
           evzmq__scan_whole(part->data, part->size, &limits, &result, &error) == 0;
}

/* What a message has to be counted as. */
static void expect(const struct parts *parts, bool decodes, struct evzmq_requester_stats *stats)
{
    if (parts->count < 3 || parts->part[0].size != EVZMQ_REQUEST_ID_BYTES ||
        parts->part[1].size != 0) {
        stats->malformed++;
        return;
    }
    for (int i = 0; i < REQUESTS_MAX; i++) {
        if (memcmp(asked[i].id, parts->part[0].data, EVZMQ_REQUEST_ID_BYTES) != 0) {
            continue;
        }
        const bool good = !decodes || is_decodable(&parts->part[parts->count - 1]);
        if (asked[i].ends > 0) {
            stats->late++;
        } else if (good) {
            stats->replies++;
        } else {
            stats->undecodable++;
        }
        return;
    }
    stats->unknown++;
}

static bool is_same(const struct evzmq_requester_stats *one,
                    const struct evzmq_requester_stats *other)
{
    return one->malformed == other->malformed && one->late == other->late &&
           one->unknown == other->unknown && one->replies == other->replies &&
           one->undecodable == other->undecodable;
}

/* A first part of one byte stands for the id of a request, which nobody would find by chance; the
 * high bit, for one that is nobody's. */
static void put_id(struct parts *parts, unsigned char id[EVZMQ_REQUEST_ID_BYTES])
{
    if (parts->part[0].size == 1) {
        const unsigned which = *(const unsigned char *)parts->part[0].data;
        memcpy(id, asked[which % REQUESTS_MAX].id, EVZMQ_REQUEST_ID_BYTES);
        id[which / 4 % EVZMQ_REQUEST_ID_BYTES] ^= which & 0x80 ? 0xff : 0;
        parts->part[0] = (struct evzmq_bytes){id, EVZMQ_REQUEST_ID_BYTES};
    }
}

static void try_requester(struct parts *messages, size_t count, bool decodes)
{
    struct evzmq_requester *const requester = evzmq_requester_new(here.socket, NULL);
    check(requester != NULL, "there is a requester");
    check(evzmq_socket_set_codec(here.socket, decodes ? here.msgpack : NULL) == 0, "and a codec");
    for (int i = 0; i < REQUESTS_MAX; i++) {
        ask(requester, &asked[i]);
    }
    for (size_t i = 0; i < count; i++) {
        static unsigned char id[EVZMQ_REQUEST_ID_BYTES];
        struct evzmq_requester_stats expected = get_stats(requester);
        put_id(&messages[i], id);
        expect(&messages[i], decodes, &expected);
        check(send_raw(here.server, "requester", 9, ZMQ_SNDMORE) == 9, "it is sent");
        send_parts(here.server, &messages[i]);
        struct evzmq_requester_stats stats = get_stats(requester);
        for (int turns = 0; turns < TURNS_MAX && !is_same(&stats, &expected); turns++) {
            run_loop();
            stats = get_stats(requester);
        }
        check(is_same(&stats, &expected), "a message is counted as what it is, and once");
        check(stats.requests == stats.replies + stats.undecodable + stats.outstanding,
              "requests are outstanding or have ended");
    }
    for (int i = 0; i < REQUESTS_MAX; i++) {
        check(asked[i].ends <= 1, "a request ends once");
        check((evzmq_request_cancel(requester, asked[i].number) == 0) == (asked[i].ends == 0),
              "what has ended cannot be cancelled");
    }
    evzmq_requester_free(requester);
}

/* A count of parts, and for each its size and bytes. */
static size_t read_messages(const uint8_t *data, size_t size, struct parts *messages)
{
    size_t count = 0;
    while (size > 0 && count < MESSAGES_MAX) {
        struct parts *const parts = &messages[count++];
        parts->count = 1 + data[0] % PARTS_MAX;
        data++;
        size--;
        for (size_t i = 0; i < parts->count; i++) {
            size_t length = size > 0 ? data[0] % 40 : 0;
            data += size > 0 ? 1 : 0;
            size -= size > 0 ? 1 : 0;
            length = length < size ? length : size;
            parts->part[i] = (struct evzmq_bytes){length > 0 ? data : NULL, length};
            data += length;
            size -= length;
        }
    }
    return count;
}

static void set_up(void)
{
    here.base = event_base_new();
    here.context = zmq_ctx_new();
    here.msgpack = evzmq_msgpack_codec_new(NULL);
    check(here.base != NULL && here.context != NULL && here.msgpack != NULL, "there is memory");
    void *const router = make_socket(ZMQ_ROUTER, "inproc://router", true, NULL);
    here.dealer = make_socket(ZMQ_DEALER, "inproc://router", false, NULL);
    here.router = evzmq_socket_new(here.base, router, 0);
    check(here.router != NULL, "there is an adapter");
    evzmq_socket_setcb(here.router, on_message, NULL, NULL, NULL);
    check(evzmq_socket_enable(here.router, EV_READ) == 0, "which reads");

    here.server = make_socket(ZMQ_ROUTER, "inproc://server", true, NULL);
    void *const dealer = make_socket(ZMQ_DEALER, "inproc://server", false, "requester");
    here.socket = evzmq_socket_new(here.base, dealer, 0);
    check(here.socket != NULL, "there is an adapter");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct parts messages[MESSAGES_MAX];
    if (here.base == NULL) {
        set_up();
    }
    if (size == 0) {
        return 0;
    }
    const size_t count = read_messages(data + 1, size - 1, messages);
    for (size_t i = 0; i < count; i++) {
        try_head(&messages[i]);
        try_router(&messages[i]);
    }
    try_requester(messages, count, (data[0] & 1) != 0);
    return 0;
}

static const struct fuzz_seed seeds[] = {
    FUZZ_SEED("\x00\x02\x01\x00\x00\x01x"), /* a reply */
    FUZZ_SEED("\x01\x02\x01\x01\x00\x01\xc1\x02\x01\x01\x00\x01\x07"), /* a bad one, a late one */
    FUZZ_SEED("\x01\x02\x01\x02\x00\x01\x07\x02\x01\x82\x00\x01\x07"), /* one that is nobody's */
    FUZZ_SEED("\x00\x05\x01"
              "a\x00\x01"
              "b\x00\x01"
              "c\x00"), /* several delimiters */
    FUZZ_SEED("\x00\x00\x03\x01\x02\x03\x01\x02\x05\x01\x00"),
};

const struct fuzz_plan fuzz_plan = {.seeds = seeds,
                                    .seed_count = sizeof(seeds) / sizeof(seeds[0]),
                                    .random_count = 3000,
                                    .random_size_max = 300};
