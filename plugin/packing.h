/*
 * packing.h (L3): sending many records in one message. See <evzmq/packing.h> and packing.c.
 */
#ifndef EVZMQ_PLUGIN_PACKING_H
#define EVZMQ_PLUGIN_PACKING_H

#include <stdbool.h>
#include <stddef.h>

#include "frame.h"
#include "loop.h"
#include "socket.h"

struct evzmq__packing {
    /* The open frame. `at` to `limit` is where the next record may go without another thought;
     * both are NULL while no frame is open. */
    unsigned char *at;
    unsigned char *limit; /* the frame's end, or where the output limit comes first */
    size_t records;
    struct evzmq__frame *frame; /* NULL: none is open */
    struct evzmq_message *message; /* what the open frame will be sent as */

    bool is_on;
    bool is_due; /* the open frame waits no longer than the next pass */
    bool is_blocked; /* the first frame of the queue waits until libzmq released others */
    bool counts; /* frames in flight are bounded */
    size_t bytes_max;
    unsigned delay_usec;
    struct evzmq__frame_pool *pool;
    struct evzmq__source *watch; /* of the pool's wake fd */
    struct evzmq__timer *timer; /* NULL until there was a delay */
    struct evzmq_message *spares; /* messages of frames that were sent, by entry.next */
    size_t spare_count;
};

/* evzmq_socket_write_value() of a socket that packs. */
int evzmq__packing_write(struct evzmq_socket *socket, const void *value);

/* Sends or queues the open frame. Returns 0, or -1 with ENOMEM; the frame is unchanged then. */
int evzmq__packing_close(struct evzmq_socket *socket);

/* Does so in a pass, if the frame is due. */
void evzmq__pass_pack(struct evzmq__pass *pass);

/* Counts a queued frame as in flight, which is about to be sent; false: not now. */
bool evzmq__packing_admit(struct evzmq_socket *socket, struct evzmq_message *message);

/* Keeps the message of a frame that was sent, for the next one. */
void evzmq__packing_recycle(struct evzmq_socket *socket, struct evzmq_message *message);

/* The limits of the queue were changed. */
void evzmq__packing_limit_changed(struct evzmq_socket *socket);

/* Takes everything off the loop; drops the open frame and lets go of the rest. */
void evzmq__packing_stop(struct evzmq_socket *socket);
void evzmq__packing_free(struct evzmq_socket *socket, bool stale);

/* Whether the socket's codec can be used on a socket that packs. */
bool evzmq__packing_takes_codec(const struct evzmq_codec *codec);

static inline bool evzmq__packing_is_on(const struct evzmq_socket *socket)
{
    return socket->packing != NULL && socket->packing->is_on;
}

static inline bool evzmq__packing_is_open(const struct evzmq_socket *socket)
{
    return socket->packing != NULL && socket->packing->frame != NULL;
}

/* Whether the next pass, or this one, is to send the open frame. */
static inline bool evzmq__packing_is_due(const struct evzmq_socket *socket)
{
    return evzmq__packing_is_open(socket) && socket->packing->is_due && socket->write_enabled;
}

static inline bool evzmq__packing_is_blocked(const struct evzmq_socket *socket)
{
    return socket->packing != NULL && socket->packing->is_blocked;
}

/* What is in the output queue and in the open frame: records, and their bytes. */
size_t evzmq__socket_count_queued(const struct evzmq_socket *socket, size_t *out_bytes);

#endif /* EVZMQ_PLUGIN_PACKING_H */
