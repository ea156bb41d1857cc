/*
 * envelope.c (L1): where a message came from: see <evzmq/message.h>. An envelope is either a view
 * of the first parts of a message or a copy in one block.
 */
#include <errno.h>
#include <string.h>

#include "base.h"
#include "message.h"

const struct evzmq_envelope *evzmq_message_get_envelope(const struct evzmq_message *message)
{
    return message == NULL || !message->has_envelope ? NULL : &message->envelope;
}

size_t evzmq_envelope_get_part_count(const struct evzmq_envelope *envelope)
{
    return envelope == NULL ? 0 : envelope->part_count;
}

const void *evzmq_envelope_get_part(const struct evzmq_envelope *envelope, size_t part,
                                    size_t *out_size)
{
    if (envelope == NULL || part >= envelope->part_count) {
        errno = EINVAL;
        return NULL;
    }
    if (envelope->message != NULL) {
        return evzmq_message_get_part(envelope->message, part, out_size);
    }
    if (out_size != NULL) {
        *out_size = envelope->copies[part].size;
    }
    return envelope->copies[part].data;
}

struct evzmq_envelope *evzmq_envelope_dup(const struct evzmq_envelope *envelope)
{
    if (envelope == NULL) {
        errno = EINVAL;
        return NULL;
    }
    const size_t count = envelope->part_count;
    /* The parts are in memory, so their sizes add up without overflow. */
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        (void)evzmq_envelope_get_part(envelope, i, &size);
        bytes += size;
    }
    struct evzmq_envelope *copy =
        evzmq__malloc(sizeof(*copy) + count * sizeof(struct evzmq_bytes) + bytes);
    if (copy == NULL) {
        return NULL;
    }
    copy->message = NULL;
    copy->part_count = count;
    copy->copies = (struct evzmq_bytes *)(copy + 1);
    unsigned char *at = (unsigned char *)(copy->copies + count);
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        const void *data = evzmq_envelope_get_part(envelope, i, &size);
        memcpy(at, data, size);
        copy->copies[i] = (struct evzmq_bytes){.data = at, .size = size};
        at += size;
    }
    return copy;
}

void evzmq_envelope_free(struct evzmq_envelope *envelope)
{
    if (envelope != NULL && envelope->message == NULL) {
        evzmq__free(envelope);
    }
}
