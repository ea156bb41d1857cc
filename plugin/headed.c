/*
 * headed.c (L6): see headed.h.
 */
#include "headed.h"

#include <errno.h>
#include <stdint.h>

#include <zmq.h>

#include "base.h"
#include "message.h"

static const struct evzmq__type headed_pull = {
    .zmq_type = ZMQ_PULL, .reads = true, .decodes = true, .envelope = EVZMQ__ENVELOPE_ID};

void evzmq__headed_receive(struct evzmq_socket *socket)
{
    socket->type = &headed_pull;
}

/* A header as an envelope. It refers to itself, so it stays where it was made. */
struct lead {
    unsigned char bytes[EVZMQ__HEADER_BYTES_MAX];
    struct evzmq_bytes part;
    struct evzmq_envelope envelope;
};

static const struct evzmq_envelope *lead_make(struct lead *lead, const struct evzmq__header *header)
{
    lead->part.data = lead->bytes;
    lead->part.size = evzmq__header_write(lead->bytes, header);
    lead->envelope = (struct evzmq_envelope){.part_count = 1, .copies = &lead->part};
    return &lead->envelope;
}

int evzmq__headed_write(struct evzmq_socket *socket, const struct evzmq__header *header,
                        const void *data, size_t size)
{
    struct lead lead;
    return evzmq_socket_reply(socket, lead_make(&lead, header), data, size);
}

int evzmq__headed_write_value(struct evzmq_socket *socket, const struct evzmq__header *header,
                              const void *value)
{
    struct lead lead;
    return evzmq_socket_reply_value(socket, lead_make(&lead, header), value);
}

int evzmq__headed_write_parts(struct evzmq_socket *socket, const struct evzmq__header *header,
                              const struct evzmq_bytes *parts, size_t count)
{
    enum { PARTS_LOCAL = 8 };
    struct evzmq_bytes local[PARTS_LOCAL];
    struct evzmq_bytes *all = local;
    struct lead lead;
    if (parts == NULL || count == 0) {
        errno = EINVAL;
        return -1;
    }
    if (count >= PARTS_LOCAL) {
        if (count >= SIZE_MAX / sizeof(*all)) {
            errno = ENOMEM;
            return -1;
        }
        all = evzmq__malloc((count + 1) * sizeof(*all));
        if (all == NULL) {
            return -1;
        }
    }
    (void)lead_make(&lead, header);
    all[0] = lead.part;
    for (size_t i = 0; i < count; i++) {
        all[i + 1] = parts[i];
    }
    const int result = evzmq_socket_write_parts(socket, all, count + 1);
    if (all != local) {
        evzmq__free(all);
    }
    return result;
}

int evzmq__headed_write_message(struct evzmq_socket *socket, const struct evzmq__header *header,
                                struct evzmq_message *message)
{
    struct lead lead;
    if (message == NULL || message->is_lent || message->part_count == 0) {
        errno = EINVAL;
        return -1;
    }
    (void)lead_make(&lead, header);
    if (evzmq__message_lead(message, &lead.part, 1) < 0) {
        return -1;
    }
    if (evzmq_socket_write_message(socket, message) < 0) {
        evzmq__message_unlead(message, 1);
        return -1;
    }
    return 0;
}

bool evzmq__headed_read(const struct evzmq_message *message, unsigned n_workers,
                        struct evzmq__header *out)
{
    if (message->part_count < 2) {
        return false;
    }
    const struct evzmq__part *part = &message->parts[0];
    const unsigned char *data = evzmq__part_data(part);
    /* What all send that were started once and have nothing special to say. */
    if (part->size == 1 && data[0] < n_workers && data[0] <= EVZMQ__INTEGER_FIX_MAX) {
        *out = (struct evzmq__header){.identity = data[0]};
        return true;
    }
    return evzmq__header_read(data, part->size, n_workers, out);
}
