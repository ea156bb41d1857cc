/*
 * calls_watch.c: see calls.h. What the callbacks and the receive calls give, held against the
 * ledger of the other side.
 */
#include <errno.h>
#include <string.h>

#include <evzmq/msgpack.h>

#include "calls.h"
#include "fuzz.h"

struct evzmq_socket_stats side_stats(const struct side *side)
{
    struct evzmq_socket_stats stats = {.size = sizeof(stats)};
    check(evzmq_socket_get_stats(side->socket, &stats) == 0, "there are statistics");
    return stats;
}

size_t get_parts(const struct evzmq_message *message, struct evzmq_bytes *out_parts)
{
    const size_t count = evzmq_message_get_part_count(message);
    check(count >= 1 && count <= LEDGER_PARTS_MAX, "a message has as many parts as were sent");
    for (size_t i = 0; i < count; i++) {
        out_parts[i].data = evzmq_message_get_part(message, i, &out_parts[i].size);
    }
    return count;
}

uint64_t hash_message(const struct evzmq_message *message)
{
    struct evzmq_bytes parts[LEDGER_PARTS_MAX];
    const size_t count = get_parts(message, parts);
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count; i++) {
        const unsigned char *const bytes = parts[i].data;
        for (size_t at = 0; at < parts[i].size; at++) {
            hash = (hash ^ bytes[at]) * UINT64_C(1099511628211);
        }
        hash = (hash ^ parts[i].size) * UINT64_C(1099511628211);
    }
    return hash;
}

/* The bytes of the record in front; 0 where there is none. */
static size_t first_record(const struct evzmq_bytes *part)
{
    const unsigned char *const bytes = part->data;
    size_t size = 0;
    if (part->size >= 2 && bytes[0] == 0xc4) {
        size = 2 + (size_t)bytes[1];
    } else if (part->size >= 3 && bytes[0] == 0xc5) {
        size = 3 + ((size_t)bytes[1] << 8 | bytes[2]);
    }
    return size <= part->size ? size : 0;
}

/* A message that is to be one record and is not. */
static void check_whole_error(const struct evzmq_bytes *part,
                              const struct evzmq_decode_error *error)
{
    const size_t first = first_record(part);
    check(first != part->size, "what is one value is decoded");
    check(error->offset == first, "the error is where the first value ends, or at the begin");
    if (first > 0) {
        check(error->kind == EVZMQ_DECODE_TRAILING, "what follows a value is trailing");
    } else {
        check(error->kind == EVZMQ_DECODE_MALFORMED || error->kind == EVZMQ_DECODE_TRUNCATED,
              "no value is malformed, or cut off");
    }
}

static void check_value(const struct side *side, const struct evzmq_message *message,
                        const struct evzmq_bytes *last, bool failed)
{
    const void *const value = evzmq_message_get_value(message);
    if (failed || last->size == 0) {
        check(value == NULL, "what is empty or bad has no value");
    } else if (side->rules.decodes) {
        const msgpack_object *const object = evzmq_msgpack_value(message);
        check(object != NULL && object->type == MSGPACK_OBJECT_BIN, "a record is decoded");
        check(last->size > object->via.bin.size && last->size - object->via.bin.size <= 3 &&
                  memcmp((const char *)last->data + (last->size - object->via.bin.size),
                         object->via.bin.ptr, object->via.bin.size) == 0,
              "its value is what was written");
    } else {
        const struct evzmq_bytes *const bytes = value;
        check(bytes != NULL && bytes->size == last->size &&
                  memcmp(bytes->data, last->data, last->size) == 0,
              "the raw value is the bytes");
    }
}

/* One message, with its error or NULL. */
static void observe(struct side *side, const struct evzmq_message *message,
                    const struct evzmq_decode_error *error, uint64_t *unseen)
{
    struct ledger *const ledger = &side->peer->out;
    struct evzmq_bytes parts[LEDGER_PARTS_MAX];
    const size_t count = get_parts(message, parts);
    const struct evzmq_bytes *const last = &parts[count - 1];
    const bool by_record = (side->rules.unpacks || ledger->at > 0) && last->size > 0;
    size_t bytes = 0;
    if (by_record && error != NULL) {
        bytes = ledger_take_end(ledger, &side->rules, parts, count, error, unseen);
    } else if (by_record) {
        bytes = ledger_take_record(ledger, &side->rules, parts, count, unseen);
    } else {
        bytes = ledger_take_whole(ledger, &side->rules, parts, count, unseen);
        if (error != NULL) {
            check_whole_error(last, error);
        }
    }
    check(*unseen >= bytes, "what was received is counted");
    *unseen -= bytes;
    check_value(side, message, last, error != NULL);
}

static uint64_t get_unseen(const struct side *side)
{
    return side_stats(side).bytes_in - side->seen_bytes;
}

void side_sync(struct side *side)
{
    if (side->socket != NULL) {
        const uint64_t unseen = get_unseen(side);
        ledger_skip(&side->peer->out, &side->rules, unseen);
        side->seen_bytes += unseen;
    }
}

void side_observe(struct side *side, struct evzmq_message *const *messages, int count)
{
    uint64_t unseen = get_unseen(side);
    side->seen_bytes += unseen;
    for (int i = 0; i < count; i++) {
        struct evzmq_decode_error error;
        const bool failed = evzmq_message_get_decode_error(messages[i], &error) != 0;
        observe(side, messages[i], failed ? &error : NULL, &unseen);
    }
    ledger_skip(&side->peer->out, &side->rules, unseen);
}

/* Begins a callback. */
static struct side *enter(const struct evzmq_socket *socket, const void *arg)
{
    const struct token *const token = arg;
    struct side *const side = token->side;
    check(world.dispatching, "callbacks run from the loop");
    check(world.depth == 0, "and not within one another");
    check(side->socket == socket, "none runs after the free");
    check(side->generation == token->generation, "nor one that was replaced");
    world.depth++;
    return side;
}

static void leave(void)
{
    if (!world.settling && !program_is_over() && program_next() % 4 == 0) {
        run_op();
    }
    world.depth--;
}

/* A message came by a callback, good or bad. */
static void observe_callback(struct side *side, struct evzmq_message *message,
                             const struct evzmq_decode_error *error)
{
    check(side->reading && side->has_read && !side->shut, "nothing comes while reading is off");
    check(!world.broke, "nor after the loop was told to end");
    uint64_t unseen = get_unseen(side);
    side->seen_bytes += unseen;
    observe(side, message, error, &unseen);
    check(unseen == 0, "nothing is counted that has not come");
}

static void on_read(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct side *const side = enter(socket, arg);
    const uint64_t hash = hash_message(message);
    check(evzmq_message_get_decode_error(message, NULL) == 0, "read callbacks get good messages");
    observe_callback(side, message, NULL);
    world.current = message;
    leave();
    check(hash_message(message) == hash, "a message lives until its callback returns");
    world.current = NULL;
}

static void on_write(struct evzmq_socket *socket, void *arg)
{
    (void)enter(socket, arg);
    leave();
}

static void on_too_large(struct side *side, const struct evzmq_event *event)
{
    check(event->error == EMSGSIZE, "it is EMSGSIZE");
    const uint64_t unseen = get_unseen(side);
    side->seen_bytes += unseen;
    check(unseen >= event->size_bytes, "what was dropped is counted");
    const struct ledger *const ledger = &side->peer->out;
    const size_t head = ledger->head;
    ledger_skip(&side->peer->out, &side->rules, unseen);
    check(ledger->head > head, "it was one of those that were sent");
    if (!ledger->items[ledger->head - 1].loose) {
        check(event->parts == ledger->items[ledger->head - 1].others + 1 &&
                  event->size_bytes == ledger->items[ledger->head - 1].bytes,
              "the event says how large it was");
    }
}

static void on_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    struct side *const side = enter(socket, arg);
    switch (event->type) {
    case EVZMQ_EVENT_DECODE_ERROR: {
        const struct evzmq_decode_error error = {event->kind, event->offset};
        check(event->error == EBADMSG && side->rules.decodes, "a bad message is EBADMSG");
        observe_callback(side, event->message, &error);
        break;
    }
    case EVZMQ_EVENT_MESSAGE_TOO_LARGE:
        check(side->reading && side->has_read && !side->shut, "nothing comes while reading is off");
        on_too_large(side, event);
        break;
    case EVZMQ_EVENT_READ_TIMEOUT:
        check(side->reading && side->has_read && !side->shut, "only who reads can time out");
        side->reading = false;
        break;
    case EVZMQ_EVENT_WRITE_TIMEOUT:
        check(side->writing && !side->shut, "only who writes can time out");
        side->writing = false;
        break;
    case EVZMQ_EVENT_HIGH_WATERMARK:
    case EVZMQ_EVENT_DRAINED:
        break;
    default:
        check(false, "nothing fails here");
    }
    leave();
}

void side_on_done(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                  void *arg)
{
    struct side *const side = arg;
    check(world.dispatching && world.depth == 0, "callbacks run from the loop");
    check(side->socket == socket && side->shut && side->done == 0, "a shutdown ends once");
    side->done++;
    side->writing = false;
    check(side_stats(side).messages_out - side->out_at_shutdown == handed_over,
          "it says what went");
    check(evzmq_socket_get_queued(socket, NULL) == not_handed_over, "and what did not");
    world.depth++;
    leave();
}

void side_setcb(struct side *side, bool has_read, bool has_write, bool has_event)
{
    if (world.token_count >= (world.settling ? TOKENS_MAX : TOKENS_MAX - 2)) {
        return;
    }
    side_sync(side);
    struct token *const token = &world.tokens[world.token_count++];
    token->side = side;
    token->generation = ++side->generation;
    side->has_read = has_read;
    side->has_event = has_event;
    evzmq_socket_setcb(side->socket, has_read ? on_read : NULL, has_write ? on_write : NULL,
                       has_event ? on_event : NULL, token);
}
