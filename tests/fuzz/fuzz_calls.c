/*
 * fuzz_calls.c: the bytes are a program of calls on two connected sockets, each with an adapter or
 * without, and of what their callbacks do.
 *
 * Linked with libFuzzer it searches; linked with replay.c it is an ordinary test over some programs
 * and random ones. A model keeps the books (ledger.h). The properties: every message whose write
 * succeeded comes out at the other side once, whole and in order, or is counted as refused by the
 * receiver's settings; when nothing moves any more, nothing could; nothing comes while reading is
 * off, after a free or a loopbreak, or from inside a call; calls fail only as their headers say;
 * the statistics add up after every call; in the end, with reading enabled and nothing else done,
 * everything comes out; and nothing leaks.
 *
 * Everything happens on one thread and over inproc, so that the bytes decide all of it; time has a
 * part only in budgets and timeouts, of which the properties do not depend.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <zmq.h>

#include <evzmq/msgpack.h>

#include "calls.h"
#include "fuzz.h"

enum {
    OPS_MAX = 400,
    /* Turns of the loop in the end: without progress, when all is out, and in all. */
    IDLE_MAX = 100,
    IDLE_EMPTY_MAX = 5,
    TURNS_MAX = 100000,
    /* Times the thread stands back until libzmq's reaper has freed what was closed. */
    YIELDS_MAX = 10000000
};

struct world world;

static atomic_long allocations;
static atomic_long references;

static void *count_malloc(size_t size)
{
    void *const memory = malloc(size);
    if (memory != NULL) {
        (void)atomic_fetch_add(&allocations, 1);
    }
    return memory;
}

static void *count_realloc(void *old, size_t size)
{
    void *const memory = realloc(old, size);
    if (memory != NULL && old == NULL) {
        (void)atomic_fetch_add(&allocations, 1);
    }
    return memory;
}

static void count_free(void *memory)
{
    if (memory != NULL) {
        (void)atomic_fetch_sub(&allocations, 1);
    }
    free(memory);
}

static void release_reference(void *data, void *arg)
{
    (void)atomic_fetch_sub((atomic_long *)arg, 1);
    free(data);
}

bool add_reference(struct evzmq_message *message, const struct evzmq_bytes *part)
{
    void *const copy = malloc(part->size > 0 ? part->size : 1);
    check(copy != NULL, "there is memory");
    if (part->size > 0) {
        memcpy(copy, part->data, part->size);
    }
    (void)atomic_fetch_add(&references, 1);
    return evzmq_message_add_reference(message, copy, part->size, release_reference, &references) ==
           0;
}

unsigned program_next(void)
{
    return world.at < world.size ? world.data[world.at++] : 0;
}

bool program_is_over(void)
{
    return world.at >= world.size;
}

void run_loop(unsigned turns)
{
    world.dispatching = true;
    for (unsigned i = 0; i < turns; i++) {
        world.broke = false;
        check(event_base_loop(world.base, EVLOOP_NONBLOCK) >= 0, "the loop runs");
    }
    world.broke = false;
    world.dispatching = false;
}

void check_side(struct side *side)
{
    if (side->socket == NULL) {
        return;
    }
    const struct evzmq_socket_stats stats = side_stats(side);
    size_t bytes = 0;
    const size_t queued = evzmq_socket_get_queued(side->socket, &bytes);
    check(stats.queue_messages == queued && stats.queue_bytes == bytes, "the gauges are right");
    check(stats.messages_out + queued == side->accepted, "what was accepted went or is queued");
    check(stats.bytes_out + bytes == side->accepted_bytes, "byte by byte");
    check(stats.undeliverable == 0, "nothing is given up");
    check(side->shut || stats.writes_after_shutdown == 0, "nobody wrote after a shutdown");
    const short enabled = evzmq_socket_get_enabled(side->socket);
    if (side->timed && !side->has_event) {
        /* Of a timeout nobody was told. */
        side->reading = side->reading && ((enabled & EV_READ) != 0 || side->shut);
        side->writing = side->writing && (enabled & EV_WRITE) != 0;
    }
    check(((enabled & EV_READ) != 0) == (side->reading && !side->shut), "EV_READ is as it was set");
    check(((enabled & EV_WRITE) != 0) == side->writing, "EV_WRITE is as it was set");
}

void side_attach(struct side *side, unsigned options)
{
    side->socket = evzmq_socket_new(world.base, side->zmq, options);
    check(side->socket != NULL, "a socket is attached");
    side->closes = options != 0;
    side->has_read = false;
    side->has_event = false;
    side->reading = false;
    side->writing = true;
    side->timed = false;
    side->shut = false;
    side->done = 0;
    side->rules = (struct ledger_rules){0, 0, false, false};
    side->unpacked = false;
    side->packs = false;
    side->packed = false;
    side->begins = true;
    side->messages_max = EVZMQ_OUTPUT_MESSAGES_DEFAULT;
    side->bytes_max = EVZMQ_OUTPUT_BYTES_DEFAULT;
    side->accepted = 0;
    side->accepted_bytes = 0;
    side->seen_bytes = 0;
}

void side_free(struct side *side)
{
    struct evzmq_socket *const socket = side->socket;
    side_sync(side);
    ledger_drop_last(&side->out, evzmq_socket_get_queued(socket, NULL));
    ledger_forget_frame(&side->peer->out, side->unpacked);
    side->socket = NULL;
    side->generation++;
    side->rules = (struct ledger_rules){0, 0, false, false};
    if (side->closes) {
        side->zmq = NULL;
        world.cut = true;
    }
    evzmq_socket_free(socket);
}

/* Receives one message with plain libzmq, if one is there. */
bool side_receive_raw(struct side *side)
{
    static unsigned char room[LEDGER_PARTS_MAX][EVZMQ_PACKING_BYTES + LEDGER_LAST_MAX];
    struct evzmq_bytes parts[LEDGER_PARTS_MAX];
    size_t count = 0;
    int more = 1;
    while (more != 0) {
        size_t more_size = sizeof(more);
        check(count < LEDGER_PARTS_MAX, "a message has as many parts as were sent");
        int size = -1;
        do {
            size = zmq_recv(side->zmq, room[count], sizeof(room[count]), ZMQ_DONTWAIT);
        } while (size < 0 && errno == EINTR); /* libFuzzer has a timer. */
        if (size < 0) {
            check(count == 0 && errno == EAGAIN, "a message is there whole, or not at all");
            return false;
        }
        check((size_t)size <= sizeof(room[count]), "a frame is not larger than it may be");
        parts[count] = (struct evzmq_bytes){room[count], (size_t)size};
        count++;
        check(zmq_getsockopt(side->zmq, ZMQ_RCVMORE, &more, &more_size) == 0, "it says if more");
    }
    uint64_t unseen = 0;
    const size_t bytes = ledger_take_whole(&side->peer->out, &side->rules, parts, count, &unseen);
    check(bytes > 0 || parts[0].size == 0, "it was one that was sent");
    return true;
}

static size_t measure_progress(void)
{
    size_t left = 0;
    for (int i = 0; i < 2; i++) {
        struct side *const side = &world.sides[i];
        side_sync(side);
        left += 4 * ledger_waiting(&side->out) - side->out.at + side->done;
        left += side->socket != NULL ? evzmq_socket_get_queued(side->socket, NULL) : 0;
    }
    return left;
}

int look_raw(const struct side *side)
{
    int events = 0;
    int result = -1;
    do {
        size_t size = sizeof(events);
        result = zmq_getsockopt(side->zmq, ZMQ_EVENTS, &events, &size);
    } while (result < 0 && errno == EINTR);
    check(result == 0, "there are events");
    return events;
}

/* After turns in which nothing moved a socket waits for its peer, or somebody made it wait. */
static void check_quiet_side(struct side *side)
{
    if (side->socket == NULL) {
        return;
    }
    check_side(side);
    const int events = look_raw(side);
    check(evzmq_socket_touch(side->socket) == 0, "and it is said that they were looked at");
    if (side->reading && side->has_read && !side->shut) {
        check((events & ZMQ_POLLIN) == 0 && side->peer->out.at == 0,
              "who reads has received all there is");
    }
    if (side->writing && side->sends && !side->packed) {
        check((events & ZMQ_POLLOUT) == 0 || evzmq_socket_get_queued(side->socket, NULL) == 0,
              "what can be sent is not queued");
    }
}

void run_until_quiet(void)
{
    enum { QUIET = 10 };
    unsigned idle = 0;
    for (unsigned turns = 0; turns < TURNS_MAX && idle < QUIET; turns++) {
        const size_t before = measure_progress();
        run_loop(1);
        idle = measure_progress() == before ? idle + 1 : 0;
    }
    check(idle == QUIET, "it comes to rest");
    check_quiet_side(&world.sides[0]);
    check_quiet_side(&world.sides[1]);
    run_loop(
        2); /* What the look had them arrange must not hide what the next step leaves undone. */
}

static bool is_empty(void)
{
    for (int i = 0; i < 2; i++) {
        const struct side *const side = &world.sides[i];
        if (ledger_waiting(&side->out) > 0 || (side->socket != NULL && side->shut && !side->done)) {
            return false;
        }
    }
    return true;
}

/* Turns the loop, and receives with plain libzmq where there is no adapter, until nothing moves. */
static void run_dry(void)
{
    unsigned idle = 0;
    unsigned idle_max = IDLE_MAX;
    for (unsigned turns = 0; turns < TURNS_MAX && idle < idle_max; turns++) {
        const size_t before = measure_progress();
        run_loop(1);
        for (int i = 0; i < 2; i++) {
            struct side *const side = &world.sides[i];
            while (side->zmq != NULL && side->socket == NULL && side->receives &&
                   side_receive_raw(side)) {
            }
        }
        idle = measure_progress() == before ? idle + 1 : 0;
        idle_max = is_empty() ? IDLE_EMPTY_MAX : IDLE_MAX;
    }
    check(idle >= idle_max, "it comes to an end");
}

/* Everything has come out that can. */
static void check_dry(const struct side *side)
{
    if (world.cut || !side->peer->receives) {
        return;
    }
    const bool sends = side->socket != NULL;
    const size_t queued = sends ? evzmq_socket_get_queued(side->socket, NULL) : 0;
    check(ledger_waiting(&side->out) == 0 || ledger_is_lost(&side->out),
          "all that was accepted has come out");
    check(queued == 0, "and nothing is left in the queue");
}

/* A shutdown ends where somebody receives what is left to be sent. */
static void check_shutdown(const struct side *side)
{
    const bool is_heard = side->peer->socket == NULL || !side->peer->shut;
    if (side->socket != NULL && side->shut && is_heard && !world.cut) {
        check(side->done == 1, "a shutdown ends");
    }
}

/* Nothing more is done but to enable everything: then all must come out by itself. */
static void settle(void)
{
    world.settling = true;
    run_until_quiet();
    for (int i = 0; i < 2; i++) {
        struct side *const side = &world.sides[i];
        if (side->socket == NULL || side->shut) {
            continue;
        }
        check(evzmq_socket_set_timeouts(side->socket, NULL, NULL) == 0, "timeouts can be ended");
        side_setcb(side, true, true, true);
        const short events = (short)(side->receives ? EV_READ | EV_WRITE : EV_WRITE);
        check(evzmq_socket_enable(side->socket, events) == 0, "all can be enabled");
        side->reading = side->receives;
        side->writing = true;
    }
    run_dry();
    check_shutdown(&world.sides[0]);
    check_shutdown(&world.sides[1]);
    for (int i = 0; i < 2; i++) {
        struct side *const side = &world.sides[i];
        if (side->socket != NULL && side->shut) {
            side_free(
                side); /* It does not receive any more. What it did not take is still there. */
        }
    }
    run_dry();
    check_dry(&world.sides[0]);
    check_dry(&world.sides[1]);
}

static void open_sides(unsigned types, unsigned marks)
{
    static const int pairs[][2] = {
        {ZMQ_PAIR, ZMQ_PAIR}, {ZMQ_DEALER, ZMQ_DEALER}, {ZMQ_PUSH, ZMQ_PULL}, {ZMQ_PULL, ZMQ_PUSH}};
    static const int high_water_marks[] = {1, 2, 5, 1000};
    static void *context;
    static unsigned number;
    char endpoint[64];
    if (context == NULL) {
        context = zmq_ctx_new();
        check(context != NULL && zmq_ctx_set(context, ZMQ_MAX_SOCKETS, 8192) == 0,
              "there is a context");
    }
    (void)snprintf(endpoint, sizeof(endpoint), "inproc://calls-%u", number++);
    for (int i = 0; i < 2; i++) {
        struct side *const side = &world.sides[i];
        const int type = pairs[types % 4][i];
        const int mark = high_water_marks[marks >> (2 * i) & 3];
        const int linger = 0;
        memset(side, 0, offsetof(struct side, out));
        memset(&side->socket, 0, sizeof(*side) - offsetof(struct side, socket));
        ledger_reset(&side->out, (unsigned)i);
        side->peer = &world.sides[1 - i];
        side->sends = type != ZMQ_PULL;
        side->receives = type != ZMQ_PUSH;
        side->zmq = zmq_socket(context, type);
        check(side->zmq != NULL, "there is a socket");
        check(zmq_setsockopt(side->zmq, ZMQ_SNDHWM, &mark, sizeof(mark)) == 0 &&
                  zmq_setsockopt(side->zmq, ZMQ_RCVHWM, &mark, sizeof(mark)) == 0 &&
                  zmq_setsockopt(side->zmq, ZMQ_LINGER, &linger, sizeof(linger)) == 0,
              "it takes options");
        int result = -1;
        do {
            result = (i == 0 ? zmq_bind : zmq_connect)(side->zmq, endpoint);
        } while (result < 0 && errno == EINTR);
        check(result == 0, "it is connected");
    }
}

static void open_world(const uint8_t *data, size_t size)
{
    world.data = data;
    world.size = size;
    world.at = 0;
    world.token_count = 0;
    world.settling = false;
    world.cut = false;
    /* The usual clock moves every few milliseconds, which is long to wait for a few microseconds.
     */
    struct event_config *const config = event_config_new();
    check(config != NULL && event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER) == 0,
          "the clock can be chosen");
    world.base = event_base_new_with_config(config);
    event_config_free(config);
    check(world.base != NULL && event_base_priority_init(world.base, 3) == 0, "there is a base");
    if (world.msgpack == NULL) {
        check(evzmq_set_mem_functions(count_malloc, count_realloc, count_free) == 0,
              "memory is counted");
        world.msgpack = evzmq_msgpack_codec_new(NULL);
        check(world.msgpack != NULL, "there is a codec");
        world.held = atomic_load(&allocations);
    }
    const unsigned types = program_next();
    open_sides(types, program_next());
    for (int i = 0; i < 2; i++) {
        struct side *const side = &world.sides[i];
        if ((types & (4u << i)) != 0) {
            side_attach(side, 0);
            side_setcb(side, true, true, true);
            if ((types & (16u << i)) != 0) {
                check(evzmq_socket_set_codec(side->socket, world.msgpack) == 0, "it has a codec");
                side->rules.decodes = true;
            }
        }
    }
}

static void close_world(void)
{
    for (int i = 0; i < KEPT_MAX; i++) {
        evzmq_message_free(world.kept[i].message);
        world.kept[i].message = NULL;
    }
    for (int i = 0; i < 2; i++) {
        struct side *const side = &world.sides[i];
        evzmq_socket_free(side->socket);
        if (side->zmq != NULL && (side->socket == NULL || !side->closes)) {
            check(zmq_close(side->zmq) == 0, "it is closed");
        }
    }
    event_base_free(world.base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_world(data, size);
    for (int ops = 0; ops < OPS_MAX && !program_is_over(); ops++) {
        run_op();
    }
    settle();
    close_world();
    for (long yields = 0; atomic_load(&allocations) != world.held || atomic_load(&references) != 0;
         yields++) {
        check(yields < YIELDS_MAX, "nothing leaks");
        (void)sched_yield();
    }
    return 0;
}

/* Programs that show what random ones seldom do. */
static const struct fuzz_seed seeds[] = {
    /* Four messages, of which two are queued; the peer makes room, and a try_recv that finds
     * nothing has libzmq learn of it. */
    FUZZ_SEED("\x04\0"
              "\0\0\0\0"
              "\0\0\0\0"
              "\0\0\0\0"
              "\0\0\0\0"
              "\x0c\7\x90\3\x10\0\x0c\7"),
    /* Packed records, a flush, and a receiver that unpacks and is freed in the middle of a frame.
     */
    FUZZ_SEED("\x3c\xff"
              "\x13\7"
              "\x94\1"
              "\5\x0f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
              "\x1a"
              "\x86\1\x96\1\0"
              "\x0c\0"
              "\x9d\0"
              "\x0c\7"),
};

const struct fuzz_plan fuzz_plan = {.seeds = seeds,
                                    .seed_count = sizeof(seeds) / sizeof(seeds[0]),
                                    .random_count = 1000,
                                    .random_size_max = 600};
