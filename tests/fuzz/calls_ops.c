/*
 * calls_ops.c: see calls.h. What one step of a program does, and what it must give.
 */
#include <errno.h>
#include <string.h>

#include <event2/buffer.h>
#include <zmq.h>

#include <evzmq/msgpack.h>

#include "calls.h"
#include "fuzz.h"

/* A call has failed: as it may? */
static void check_errno(bool allowed)
{
    if (!allowed) {
        (void)fprintf(stderr, "errno: %s\n", evzmq_strerror(errno));
    }
    check(allowed, "a call fails as its header says");
}

static struct ledger_item draft(const struct side *side, bool is_value)
{
    static const uint16_t sizes[] = {5, 6, 7, 60, 252, 253, 255, 256, 300, 1000, 8188, 9000};
    const unsigned shape = program_next();
    uint16_t payloads[LEDGER_RECORDS_MAX];
    for (unsigned i = 0; i < LEDGER_RECORDS_MAX; i++) {
        payloads[i] = sizes[(shape >> 4) * 5 % 12];
    }
    if (is_value) {
        return ledger_draft(&side->out, 1, payloads, 0, 0);
    }
    const unsigned more = program_next();
    const unsigned records = more % 8 < 5 ? 1 : more % 8 - 5;
    const unsigned tail = more / 8 % 8 < 6 ? 0 : more / 8 % 8 - 5;
    return ledger_draft(&side->out, records, payloads, shape % 8 < 5 ? 0 : shape % 8 - 4, tail);
}

static bool send_raw(struct side *side, const struct evzmq_bytes *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);
        int result = -1;
        do {
            result = zmq_send(side->zmq, parts[i].data, parts[i].size, flags);
        } while (result < 0 && errno == EINTR);
        if (result < 0) {
            check(i == 0 && errno == EAGAIN, "plain libzmq takes a message or says EAGAIN");
            return false;
        }
    }
    return true;
}

/* As a message of its own, built in one of several ways. */
static int write_message(struct side *side, const struct evzmq_bytes *parts, size_t count,
                         unsigned way)
{
    struct evzmq_message *const message = evzmq_message_new();
    struct evbuffer *const buffer = evbuffer_new();
    check(message != NULL && buffer != NULL, "there is memory");
    for (size_t i = 0; i < count; i++) {
        if (way == 0) {
            check(evzmq_message_add(message, parts[i].data, parts[i].size) == 0, "a part is added");
        } else if (way == 1) {
            check(add_reference(message, &parts[i]), "a reference is added");
        } else {
            check(evbuffer_add(buffer, parts[i].data, parts[i].size) == 0 &&
                      evzmq_message_add_evbuffer(message, buffer) == 0 &&
                      evbuffer_get_length(buffer) == 0,
                  "an evbuffer is added");
        }
    }
    evbuffer_free(buffer);
    const uint64_t hash = hash_message(message);
    const int result = evzmq_socket_write_message(side->socket, message);
    if (result < 0) {
        const int error = errno;
        check(hash_message(message) == hash, "a refused message is unchanged");
        evzmq_message_free(message);
        errno = error;
    }
    return result;
}

static int write_value(struct side *side, const struct ledger_item *item, const unsigned char *room,
                       const struct evzmq_bytes *last)
{
    if (!side->rules.decodes) {
        return evzmq_socket_write_value(side->socket, last);
    }
    const struct evzmq_bytes payload = ledger_payload(item, room);
    msgpack_object object = {.type = MSGPACK_OBJECT_BIN};
    object.via.bin.ptr = payload.data;
    object.via.bin.size = (uint32_t)payload.size;
    return evzmq_socket_write_value(side->socket, &object);
}

/* EAGAIN, where the limits of the queue say so. */
static bool may_be_full(const struct side *side, const struct ledger_item *item)
{
    size_t bytes = 0;
    const size_t queued = evzmq_socket_get_queued(side->socket, &bytes);
    return queued > 0 && (side->packed || queued + 1 > side->messages_max ||
                          item->bytes > side->bytes_max || bytes > side->bytes_max - item->bytes);
}

static void check_write_failure(const struct side *side, const struct ledger_item *item)
{
    if (!side->sends) {
        check_errno(errno == (side->shut ? ESHUTDOWN : ENOTSUP));
    } else if (side->shut) {
        check_errno(errno == ESHUTDOWN);
    } else {
        check_errno(errno == EAGAIN && may_be_full(side, item));
    }
}

static void write_one(struct side *side, unsigned way)
{
    static unsigned char room[LEDGER_LAST_MAX];
    const bool is_value = way >= 6 && side->socket != NULL;
    struct evzmq_bytes parts[LEDGER_PARTS_MAX];
    struct ledger_item item = draft(side, is_value);
    const size_t count = ledger_write(&side->out, &item, room, parts);
    if (side->zmq == NULL || !ledger_has_room(&side->out) ||
        (side->socket == NULL && !side->sends)) {
        return;
    }
    int result = 0;
    if (side->socket == NULL) {
        if (send_raw(side, parts, count)) {
            ledger_accept(&side->out, &item);
        }
        return;
    }
    if (is_value) {
        result = write_value(side, &item, room, &parts[0]);
    } else if (way < 2 && count == 1) {
        result = evzmq_socket_write(side->socket, parts[0].data, parts[0].size);
    } else if (way < 3) {
        result = evzmq_socket_write_parts(side->socket, parts, count);
    } else {
        result = write_message(side, parts, count, way - 3);
    }
    if (result < 0) {
        check_write_failure(side, &item);
        return;
    }
    check(side->sends && !side->shut, "only who may write can");
    item.loose = is_value && side->packs;
    item.begins = side->begins;
    side->begins = !item.loose;
    ledger_accept(&side->out, &item);
    side->accepted++;
    side->accepted_bytes += item.bytes;
}

static void op_write(struct side *side)
{
    write_one(side, program_next() % 8);
}

static void op_burst(struct side *side)
{
    for (unsigned left = program_next() % 16; left > 0; left--) {
        write_one(side, 7);
    }
}

static void check_setter(const struct side *side, int result)
{
    if (side->socket == NULL) {
        check(result < 0 && errno == EINVAL, "without a socket it is EINVAL");
    } else {
        check_errno(result == 0);
    }
}

static void op_enable(struct side *side)
{
    const short events = (short)((program_next() % 4) * EV_READ); /* EV_WRITE is twice that */
    if (side->socket == NULL) {
        return;
    }
    if (evzmq_socket_enable(side->socket, events) < 0) {
        const bool unable = (events & EV_READ) != 0 && !side->receives;
        check_errno(unable ? errno == ENOTSUP : side->shut && errno == ESHUTDOWN);
        return;
    }
    side->reading = side->reading || (events & EV_READ) != 0;
    side->writing = side->writing || (events & EV_WRITE) != 0;
}

static void op_disable(struct side *side)
{
    const short events = (short)((program_next() % 4) * EV_READ);
    if (side->socket == NULL) {
        return;
    }
    check_setter(side, evzmq_socket_disable(side->socket, events));
    side->reading = side->reading && (events & EV_READ) == 0;
    side->writing = side->writing && ((events & EV_WRITE) == 0 || side->shut);
}

static void op_setcb(struct side *side)
{
    const unsigned which = program_next();
    if (side->socket != NULL) {
        side_setcb(side, which % 4 != 0, which / 4 % 2 != 0, which / 8 % 4 != 0);
    }
}

static void op_loop(struct side *side)
{
    (void)side;
    const unsigned turns = program_next() % 8 + 1;
    if (world.depth == 0 && turns > 4) {
        run_until_quiet();
    } else if (world.depth == 0) {
        run_loop(turns);
    }
}

/* Which error a receive call must give; 0: none. */
static int get_receive_error(const struct side *side)
{
    if (!side->receives) {
        return ENOTSUP;
    }
    return side->shut ? ESHUTDOWN : side->reading ? EBUSY : 0;
}

static void observe_received(struct side *side, struct evzmq_message **messages, int count)
{
    side_observe(side, messages, count);
    for (int i = 0; i < count; i++) {
        evzmq_message_free(messages[i]);
    }
}

static void op_receive(struct side *side)
{
    enum { MANY = 8 };
    struct evzmq_message *messages[MANY];
    const unsigned way = program_next() % 4;
    if (side->zmq == NULL) {
        return;
    }
    if (side->socket == NULL) {
        for (unsigned left = way + 1; left > 0 && side->receives && side_receive_raw(side);) {
            left--;
        }
        return;
    }
    const int error = get_receive_error(side);
    int count = 0;
    if (way < 2) {
        count = evzmq_socket_try_recv(side->socket, &messages[0]) == 0 ? 1 : -1;
        check_errno(count > 0 ? error == 0 : errno == (error != 0 ? error : EAGAIN));
    } else {
        count = evzmq_socket_recv_many(side->socket, messages, MANY);
        check_errno(count >= 0 ? error == 0 : errno == error);
    }
    observe_received(side, messages, count > 0 ? count : 0);
}

static void op_recv(struct side *side)
{
    const struct timeval timeout = {0, (suseconds_t)(program_next() % 4)};
    struct evzmq_message *message = NULL;
    if (side->socket == NULL) {
        return;
    }
    const int error = get_receive_error(side);
    const bool within = world.depth > 0;
    world.dispatching = true;
    world.broke = world.broke && within;
    const int result = evzmq_socket_recv(side->socket, &timeout, &message);
    world.dispatching = within;
    world.broke = world.broke && within;
    if (result == 0) {
        check(!within && error == 0 && side->socket != NULL, "it may receive");
        observe_received(side, &message, 1);
    } else if (error != 0) {
        check_errno(errno == error);
    } else if (within) {
        check_errno(errno == EDEADLK);
    } else {
        /* Callbacks that ran meanwhile may have changed anything. */
        check_errno(errno == ETIMEDOUT || errno == EINTR || errno == ECANCELED || errno == EBUSY ||
                    errno == ESHUTDOWN);
        side_sync(side);
    }
}

static void op_packing(struct side *side)
{
    static const size_t sizes[] = {0, 1, 20, 100, 1000, 9000, 70000, EVZMQ_PACKING_BYTES};
    const unsigned which = program_next();
    const size_t size = sizes[which % 8];
    if (side->socket == NULL) {
        return;
    }
    if (evzmq_socket_set_packing(side->socket, size, which / 8 % 4 * 5) < 0) {
        check_errno(size > 0 &&
                    (side->shut ? errno == ESHUTDOWN
                                : errno == ENOTSUP && (!side->sends || !side->rules.decodes)));
        return;
    }
    side->packs = size > 0;
    side->packed = side->packed || size > 0;
    side->begins = true;
}

static void op_unpacking(struct side *side)
{
    const int on = program_next() % 4 != 0;
    if (side->socket == NULL) {
        return;
    }
    side_sync(side);
    if (evzmq_socket_set_unpacking(side->socket, on) < 0) {
        check_errno(on != 0 && errno == ENOTSUP && (!side->receives || !side->rules.decodes));
        return;
    }
    side->rules.unpacks = on != 0;
    side->unpacked = side->unpacked || on != 0;
}

static void op_codec(struct side *side)
{
    const bool decodes = program_next() % 4 != 0;
    if (side->socket == NULL) {
        return;
    }
    side_sync(side);
    if (evzmq_socket_set_codec(side->socket, decodes ? world.msgpack : NULL) < 0) {
        check_errno(!decodes && errno == ENOTSUP && (side->packs || side->unpacked));
        return;
    }
    side->rules.decodes = decodes;
    side->begins = true;
}

static void op_budget(struct side *side)
{
    const unsigned reads = program_next();
    const unsigned writes = program_next();
    const struct evzmq_budget budget = {.size = sizeof(budget),
                                        .read_messages = reads % 4,
                                        .read_bytes = reads / 4 % 4 * 100,
                                        .read_usec = reads / 16 % 2,
                                        .write_messages = writes % 4,
                                        .write_bytes = writes / 4 % 4 * 100,
                                        .write_usec = writes / 16 % 2};
    check_setter(side, evzmq_socket_set_budget(side->socket, writes % 64 == 0 ? NULL : &budget));
}

static void op_limit(struct side *side)
{
    static const size_t messages[] = {0, 1, 2, 3, 8, 50, 1000, SIZE_MAX};
    static const size_t bytes[] = {0, 1, 10, 100, 500, 10000, 100000, SIZE_MAX};
    const unsigned which = program_next();
    const size_t messages_max = messages[which % 8];
    const size_t bytes_max = bytes[which / 8 % 8];
    check_setter(side, evzmq_socket_set_output_limit(side->socket, messages_max, bytes_max));
    side->messages_max = messages_max != 0 ? messages_max : EVZMQ_OUTPUT_MESSAGES_DEFAULT;
    side->bytes_max = bytes_max != 0 ? bytes_max : EVZMQ_OUTPUT_BYTES_DEFAULT;
}

static void op_watermark(struct side *side)
{
    const size_t low = program_next() % 16 * 20;
    const size_t high = program_next() % 16 * 30;
    const int result = evzmq_socket_set_output_watermark(side->socket, low, high);
    if (result < 0 && side->socket != NULL) {
        check_errno(errno == EINVAL && high != 0 && high <= low);
    } else {
        check_setter(side, result);
    }
}

static void op_max_message(struct side *side)
{
    static const size_t bytes[] = {0, 0, 1, 8, 20, 100, 300, 9500};
    const unsigned which = program_next();
    const bool delivers = which / 32 % 4 == 3;
    side_sync(side);
    const size_t bytes_max = bytes[which % 8];
    const size_t parts_max = which / 8 % 4;
    check_setter(side, evzmq_socket_set_max_message(side->socket, bytes_max, parts_max,
                                                    delivers ? EVZMQ_OVERSIZE_DELIVER
                                                             : EVZMQ_OVERSIZE_DROP));
    if (side->socket != NULL) {
        side->rules.bytes_max = delivers ? 0 : bytes_max;
        side->rules.parts_max = delivers ? 0 : parts_max;
    }
}

static void op_flush(struct side *side)
{
    check_setter(side, evzmq_socket_flush(side->socket));
    side->begins = true;
}

/* Also uses the raw socket first, as one may who says so afterwards. */
static void op_touch(struct side *side)
{
    if (side->zmq != NULL && program_next() % 2 != 0) {
        (void)look_raw(side);
    }
    check_setter(side, evzmq_socket_touch(side->socket));
}

static void op_small_settings(struct side *side)
{
    static const size_t buffers[] = {0, 16, 300, 8192};
    const unsigned which = program_next();
    if (side->socket == NULL) {
        return;
    }
    switch (which % 4) {
    case 0:
        check_setter(side, evzmq_socket_set_receive_mode(side->socket,
                                                         (enum evzmq_receive_mode)(which / 4 % 4)));
        break;
    case 1:
        check_setter(side, evzmq_base_set_receive_buffer(world.base, buffers[which / 4 % 4]));
        break;
    case 2:
        check_errno(evzmq_socket_priority_set(side->socket, (int)(which / 4 % 4)) == 0 ||
                    (errno == EINVAL && which / 4 % 4 == 3));
        break;
    default: {
        const struct timeval soon = {0, 1};
        side->timed = true;
        check_setter(side, evzmq_socket_set_timeouts(side->socket, which & 4 ? &soon : NULL,
                                                     which & 8 ? &soon : NULL));
    }
    }
}

static void op_shutdown(struct side *side)
{
    const struct timeval deadline = {0, (suseconds_t)(program_next() % 4 * 3)};
    const bool has_deadline = program_next() % 2 != 0;
    if (side->socket == NULL || program_next() % 4 != 0) {
        return;
    }
    side_sync(side);
    const uint64_t out = side_stats(side).messages_out;
    check_setter(side, evzmq_socket_shutdown(side->socket, has_deadline ? &deadline : NULL,
                                             side_on_done, side));
    if (!side->shut) {
        side->out_at_shutdown = out;
        side->shut = true;
        side->writing = true;
        side->begins = true;
    }
}

static void op_free(struct side *side)
{
    const unsigned how = program_next();
    if (side->socket != NULL && how % 4 == 0 && (!side->closes || how % 16 == 0)) {
        side_free(side);
    }
}

static void op_attach(struct side *side)
{
    const unsigned how = program_next();
    if (side->zmq == NULL) {
        return;
    }
    if (side->socket != NULL) {
        check(evzmq_socket_new(world.base, side->zmq, 0) == NULL && errno == EBUSY,
              "a socket is attached once");
        return;
    }
    side_attach(side, how % 16 == 0 ? EVZMQ_OPT_CLOSE_ON_FREE : 0);
    side_setcb(side, how / 16 % 4 != 0, true, how / 16 % 8 > 1);
}

static void op_break(struct side *side)
{
    (void)side;
    if (world.depth > 0 && program_next() % 4 != 0) {
        check(event_base_loopbreak(world.base) == 0, "the loop can be told to end");
        world.broke = true;
    }
}

/* Keeps the message in delivery, or lets go of one. */
static void op_keep(struct side *side)
{
    (void)side;
    struct kept *const kept = &world.kept[program_next() % KEPT_MAX];
    if (kept->message != NULL) {
        check(hash_message(kept->message) == kept->hash, "a kept message stays as it was");
        evzmq_message_free(kept->message);
        kept->message = NULL;
    }
    if (world.current != NULL) {
        kept->message = evzmq_message_take(world.current);
        check(kept->message != NULL, "a message can be taken");
        kept->hash = hash_message(kept->message);
        check(kept->hash == hash_message(world.current), "it is the one that was delivered");
    }
}

void run_op(void)
{
    static void (*const ops[])(struct side *) = {
        op_write,     op_write,          op_write,     op_write,   op_write,    op_burst,
        op_enable,    op_enable,         op_enable,    op_disable, op_disable,  op_setcb,
        op_loop,      op_loop,           op_loop,      op_loop,    op_receive,  op_receive,
        op_recv,      op_packing,        op_unpacking, op_codec,   op_budget,   op_limit,
        op_watermark, op_max_message,    op_flush,     op_touch,   op_shutdown, op_free,
        op_attach,    op_small_settings, op_break,     op_keep,    op_loop,     op_write,
    };
    enum { OPS = sizeof(ops) / sizeof(ops[0]) };
    const unsigned which = program_next();
    struct side *const side = &world.sides[which >> 7];
    check_side(&world.sides[0]);
    check_side(&world.sides[1]);
    ops[(which & 0x7f) % OPS](side);
    check_side(&world.sides[0]);
    check_side(&world.sides[1]);
}
