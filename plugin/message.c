/*
 * message.c (L1): what a message is made of; see message.h, and <evzmq/message.h> for the public
 * half.
 */
#include "message.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "arena.h"
#include "base.h"
#include "codec.h"

enum {
    /* A longer list of parts is given back after the pass that needed it: peers choose how many
     * parts a message has, and the list is some 100 bytes for each. */
    PARTS_KEPT_MAX = 256
};

static void use_inline_parts(struct evzmq_message *message)
{
    message->parts = message->parts_inline;
    message->part_capacity = EVZMQ__MESSAGE_PARTS_INLINE;
    for (size_t i = 0; i < message->part_capacity; i++) {
        evzmq__part_init(&message->parts[i]);
    }
}

struct evzmq_message *evzmq__message_create(void)
{
    struct evzmq_message *message = evzmq__calloc(1, sizeof(*message));
    if (message == NULL) {
        return NULL;
    }
    use_inline_parts(message);
    message->is_simple = true;
    return message;
}

/* A list of empty parts. NULL with ENOMEM. */
static struct evzmq__part *parts_new(size_t capacity)
{
    if (capacity > SIZE_MAX / sizeof(struct evzmq__part)) {
        errno = ENOMEM;
        return NULL;
    }
    struct evzmq__part *parts = evzmq__malloc(capacity * sizeof(*parts));
    for (size_t i = 0; parts != NULL && i < capacity; i++) {
        evzmq__part_init(&parts[i]);
    }
    return parts;
}

/* Closes the parts of a list, and frees it unless it is the inline one. */
static void parts_free(struct evzmq_message *message, struct evzmq__part *parts, size_t capacity)
{
    for (size_t i = 0; i < capacity; i++) {
        (void)zmq_msg_close(&parts[i].msg);
    }
    if (parts != message->parts_inline) {
        evzmq__free(parts);
    }
}

static void forget_value(struct evzmq_message *message)
{
    message->codec = NULL;
    message->value = NULL;
    message->has_error = false;
}

void evzmq__message_reset(struct evzmq_message *message)
{
    for (size_t i = 1; i < message->part_count; i++) {
        evzmq__part_clear(&message->parts[i]);
    }
    if (message->block != NULL) {
        evzmq__free(message->block);
        message->block = NULL;
    }
    message->part_count = 0;
    message->size = 0;
    message->is_simple = true;
    message->is_skipping = false;
    message->has_envelope = false;
    forget_value(message);
}

/* Gives back a list of parts that is not the inline one, and what is in it. */
static void shrink_parts(struct evzmq_message *message)
{
    parts_free(message, message->parts, message->part_capacity);
    use_inline_parts(message);
}

void evzmq__message_release(struct evzmq_message *message)
{
    evzmq__message_reset(message);
    if (message->part_capacity > PARTS_KEPT_MAX) {
        shrink_parts(message);
    } else {
        evzmq__part_clear(&message->parts[0]);
    }
}

void evzmq__message_destroy(struct evzmq_message *message)
{
    if (message == NULL) {
        return;
    }
    parts_free(message, message->parts, message->part_capacity);
    if (message->parts_before != NULL) {
        parts_free(message, message->parts_before, message->capacity_before);
    }
    evzmq_arena_free(message->arena);
    evzmq_codec_free(message->codec_held);
    evzmq__free(message->block);
    evzmq__free(message);
}

int evzmq__message_reserve(struct evzmq_message *message, size_t capacity)
{
    if (capacity <= message->part_capacity) {
        return 0;
    }
    struct evzmq__part *parts = parts_new(capacity);
    if (parts == NULL) {
        return -1;
    }
    for (size_t i = 0; i < message->part_capacity; i++) {
        evzmq__part_move(&parts[i], &message->parts[i]);
    }
    parts_free(message, message->parts, message->part_capacity);
    message->parts = parts;
    message->part_capacity = capacity;
    return 0;
}

int evzmq__message_reserve_next(struct evzmq_message *message)
{
    if (message->part_count < message->part_capacity) {
        return 0;
    }
    if (message->part_capacity > SIZE_MAX / 2) {
        errno = ENOMEM;
        return -1;
    }
    return evzmq__message_reserve(message, message->part_capacity * 2);
}

struct evzmq_message *evzmq__message_gather(struct evzmq__part *parts, size_t count)
{
    struct evzmq_message *message = evzmq__message_create();
    if (message == NULL || evzmq__message_reserve(message, count) < 0) {
        evzmq__message_destroy(message);
        errno = ENOMEM;
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        message->size += parts[i].size;
        evzmq__part_move(&message->parts[i], &parts[i]);
    }
    message->part_count = count;
    return message;
}

/* Makes room for parts before the others. Where the list is too short another one takes its place,
 * and it is kept: the bytes of a small part lie in the list itself. Returns 0, or -1 with ENOMEM.
 */
static int make_room_in_front(struct evzmq_message *message, size_t count)
{
    struct evzmq__part *before = message->parts;
    const size_t capacity = message->part_count + count;
    if (capacity > message->part_capacity) {
        struct evzmq__part *parts = parts_new(capacity);
        if (parts == NULL) {
            return -1;
        }
        message->parts_before = before;
        message->capacity_before = message->part_capacity;
        message->parts = parts;
        message->part_capacity = capacity;
    }
    for (size_t i = message->part_count; i > 0; i--) {
        evzmq__part_move(&message->parts[i - 1 + count], &before[i - 1]);
    }
    message->part_count = capacity;
    return 0;
}

int evzmq__message_lead(struct evzmq_message *message, const struct evzmq_bytes *lead, size_t count)
{
    if (make_room_in_front(message, count) < 0) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        if (evzmq__part_fill(&message->parts[i], lead[i].data, lead[i].size) < 0) {
            evzmq__message_unlead(message, count);
            errno = ENOMEM;
            return -1;
        }
        message->size += lead[i].size;
    }
    return 0;
}

void evzmq__message_unlead(struct evzmq_message *message, size_t count)
{
    const int error = errno;
    struct evzmq__part *parts = message->parts;
    const size_t capacity = message->part_capacity;
    message->part_count -= count;
    for (size_t i = 0; i < count; i++) {
        message->size -= parts[i].size;
        evzmq__part_clear(&parts[i]);
    }
    if (message->parts_before != NULL) {
        message->parts = message->parts_before;
        message->part_capacity = message->capacity_before;
        message->parts_before = NULL;
    }
    for (size_t i = 0; i < message->part_count; i++) {
        evzmq__part_move(&message->parts[i], &parts[i + count]);
    }
    if (parts != message->parts) {
        parts_free(message, parts, capacity);
    }
    errno = error;
}

static size_t align_up(size_t size)
{
    return (size + (alignof(max_align_t) - 1)) & ~(alignof(max_align_t) - 1);
}

size_t evzmq__message_flat_size(const struct evzmq_message *message)
{
    if (message->part_count == 1) {
        return message->size;
    }
    size_t total = 0;
    for (size_t i = 0; i < message->part_count; i++) {
        total += align_up(message->parts[i].size);
    }
    return total;
}

void evzmq__message_flatten(struct evzmq_message *message, void *memory)
{
    unsigned char *at = memory;
    for (size_t i = 0; i < message->part_count; i++) {
        struct evzmq__part *part = &message->parts[i];
        if (part->size > 0) {
            memcpy(at, evzmq__part_data(part), part->size);
        }
        part->data = at;
        part->outside = true;
        at += align_up(part->size);
    }
}

size_t evzmq__message_find_body(const struct evzmq_message *message)
{
    for (size_t i = 1; i + 1 < message->part_count; i++) {
        if (message->parts[i].size == 0) {
            return i + 1;
        }
    }
    return 1;
}

void evzmq__message_set_envelope(struct evzmq_message *message, size_t part_count)
{
    message->envelope =
        (struct evzmq_envelope){.message = message, .part_count = part_count, .copies = NULL};
    message->has_envelope = true;
}

int evzmq__message_decode_last(struct evzmq_message *message, const struct evzmq_codec *codec,
                               struct evzmq_arena *arena)
{
    const struct evzmq__part *last = &message->parts[message->part_count - 1];
    forget_value(message);
    if (last->size == 0) {
        return 0;
    }
    if (evzmq__codec_decode(codec, evzmq__part_data(last), last->size, arena, &message->value,
                            &message->decode_error) < 0) {
        message->value = NULL;
        message->has_error = true;
        return -1;
    }
    message->codec = codec;
    return 0;
}

struct evzmq_message *evzmq_message_new(void)
{
    return evzmq__message_create();
}

void evzmq_message_free(struct evzmq_message *message)
{
    if (message != NULL && !message->is_lent) {
        evzmq__message_destroy(message);
    }
}

/* The last part may be about to change, so a value that points into it cannot stay. */
static void count_new_part(struct evzmq_message *message)
{
    message->size += message->parts[message->part_count].size;
    message->part_count++;
    forget_value(message);
}

int evzmq__message_append(struct evzmq_message *message, zmq_msg_t *msg)
{
    if (message == NULL || message->is_lent) {
        errno = EINVAL;
        return -1;
    }
    if (evzmq__message_reserve_next(message) < 0) {
        return -1;
    }
    struct evzmq__part *part = &message->parts[message->part_count];
    (void)zmq_msg_move(&part->msg, msg);
    evzmq__part_point_inside(part);
    count_new_part(message);
    return 0;
}

/* Closes what could not be appended; keeps errno, the cause. */
static int give_up(zmq_msg_t *msg)
{
    const int error = errno;
    (void)zmq_msg_close(msg);
    errno = error;
    return -1;
}

int evzmq_message_add(struct evzmq_message *message, const void *data, size_t size)
{
    zmq_msg_t msg;
    if (data == NULL && size > 0) {
        errno = EINVAL;
        return -1;
    }
    if (zmq_msg_init_size(&msg, size) < 0) {
        return -1;
    }
    if (size > 0) {
        memcpy(zmq_msg_data(&msg), data, size);
    }
    return evzmq__message_append(message, &msg) < 0 ? give_up(&msg) : 0;
}

int evzmq_message_add_reference(struct evzmq_message *message, void *data, size_t size,
                                evzmq_free_cb free_cb, void *arg)
{
    /* The bytes are not copied, so nothing else notices a size that cannot be. */
    if (message == NULL || message->is_lent || (data == NULL && size > 0) ||
        size > SIZE_MAX - message->size) {
        errno = EINVAL;
        return -1;
    }
    /* Room first: once libzmq has the memory, only its free function gives it back. */
    zmq_msg_t msg;
    if (evzmq__message_reserve_next(message) < 0 ||
        zmq_msg_init_data(&msg, data, size, free_cb, arg) < 0) {
        return -1;
    }
    return evzmq__message_append(message, &msg);
}

size_t evzmq_message_get_part_count(const struct evzmq_message *message)
{
    return message == NULL ? 0 : message->part_count;
}

const void *evzmq_message_get_part(const struct evzmq_message *message, size_t part,
                                   size_t *out_size)
{
    if (message == NULL || part >= message->part_count) {
        errno = EINVAL;
        return NULL;
    }
    if (out_size != NULL) {
        *out_size = message->parts[part].size;
    }
    return evzmq__part_data(&message->parts[part]);
}

size_t evzmq_message_get_size(const struct evzmq_message *message)
{
    return message == NULL ? 0 : message->size;
}

/* Shares the memory of a large part. */
static int share_part(struct evzmq__part *to, struct evzmq__part *from)
{
    const void *data = evzmq__part_share(from, &to->msg);
    if (data == NULL) {
        return -1;
    }
    to->data = data;
    to->size = from->size;
    to->outside = from->size != zmq_msg_size(&to->msg);
    return 0;
}

/* Copies the small parts of a message into one block and shares the memory of the large ones. */
static int copy_parts(struct evzmq_message *to, struct evzmq_message *from)
{
    size_t small = 0;
    for (size_t i = 0; i < from->part_count; i++) {
        small += evzmq__part_shares(&from->parts[i]) ? 0 : align_up(from->parts[i].size);
    }
    unsigned char *at = NULL;
    if (small > 0) {
        to->block = evzmq__malloc(small);
        at = to->block;
        if (at == NULL) {
            return -1;
        }
    }
    for (size_t i = 0; i < from->part_count; i++) {
        struct evzmq__part *source = &from->parts[i];
        if (evzmq__message_reserve_next(to) < 0) {
            return -1;
        }
        struct evzmq__part *part = &to->parts[i];
        if (evzmq__part_shares(source)) {
            if (share_part(part, source) < 0) {
                return -1;
            }
        } else {
            if (source->size > 0) {
                memcpy(at, evzmq__part_data(source), source->size);
            }
            part->data = at;
            part->size = source->size;
            part->outside = true;
            at = at == NULL ? NULL : at + align_up(source->size);
        }
        count_new_part(to);
    }
    return 0;
}

struct evzmq_message *evzmq_message_take(struct evzmq_message *message)
{
    if (message == NULL) {
        errno = EINVAL;
        return NULL;
    }
    struct evzmq_message *kept = evzmq__message_create();
    if (kept == NULL || copy_parts(kept, message) < 0) {
        const int error = errno;
        evzmq__message_destroy(kept);
        errno = error;
        return NULL;
    }
    if (message->has_envelope) {
        evzmq__message_set_envelope(kept, message->envelope.part_count);
    }
    return kept;
}

struct evzmq_message *evzmq__message_take_span(struct evzmq_message *message, const void *data,
                                               size_t size)
{
    struct evzmq__part *last = &message->parts[message->part_count - 1];
    const struct evzmq__part before = *last;
    last->data = data;
    last->size = size;
    last->outside = true;
    struct evzmq_message *kept = evzmq_message_take(message);
    last->data = before.data;
    last->size = before.size;
    last->outside = before.outside;
    return kept;
}

int evzmq_message_decode(struct evzmq_message *message, struct evzmq_codec *codec,
                         struct evzmq_decode_error *out_error)
{
    if (message == NULL || message->is_lent || codec == NULL || message->part_count == 0) {
        errno = EINVAL;
        return -1;
    }
    if (message->arena == NULL) {
        message->arena = evzmq_arena_new();
        if (message->arena == NULL) {
            return -1;
        }
    }
    evzmq__codec_ref(codec);
    evzmq_codec_free(message->codec_held);
    message->codec_held = codec;
    evzmq_arena_reset(message->arena);
    if (evzmq__message_decode_last(message, codec, message->arena) < 0) {
        if (out_error != NULL) {
            *out_error = message->decode_error;
        }
        errno = message->decode_error.kind == EVZMQ_DECODE_NOMEM ? ENOMEM : EBADMSG;
        return -1;
    }
    return 0;
}

const void *evzmq_message_get_value(const struct evzmq_message *message)
{
    if (message == NULL || message->codec == NULL || !message->codec->is_raw) {
        return message == NULL ? NULL : message->value;
    }
    /* The raw codec's value is the part itself, whose bytes may not have been asked for yet. */
    struct evzmq__part *last = &message->parts[message->part_count - 1];
    last->data = evzmq__part_data(last);
    return &last->bytes;
}

const struct evzmq_codec *evzmq_message_get_codec(const struct evzmq_message *message)
{
    return message == NULL ? NULL : message->codec;
}

int evzmq_message_get_decode_error(const struct evzmq_message *message,
                                   struct evzmq_decode_error *out_error)
{
    if (message == NULL || !message->has_error) {
        return 0;
    }
    if (out_error != NULL) {
        *out_error = message->decode_error;
    }
    return 1;
}
