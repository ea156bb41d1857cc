/*
 * unpack.h (L3): receiving many records in one message. See <evzmq/packing.h> and unpack.c.
 */
#ifndef EVZMQ_PLUGIN_UNPACK_H
#define EVZMQ_PLUGIN_UNPACK_H

#include <stdbool.h>
#include <stddef.h>

#include "socket.h"

/* The default of a read budget's messages where they are records. Of small ones a pass delivers
 * several thousand in its 500 microseconds; with drain.h's 1,024 a tenth of the time would go into
 * turns of the loop. */
enum { EVZMQ__BUDGET_RECORDS = 16384 };

struct evzmq__unpacking {
    bool is_on;
    bool empty_waits; /* a frame whose last part is empty was received, and is not delivered yet */
    struct evzmq_message *frame; /* received into, and delivered: its last part is the record */
    struct evzmq_message *lent; /* in delivery: the frame, unless that was replaced meanwhile */
    const unsigned char *data; /* the frame's last part */
    size_t size;
    size_t offset; /* of what is not delivered yet; the size: nothing */
    size_t other_bytes; /* of the frame's other parts */
    struct evzmq_arena *arena; /* of evzmq__unpacking_try_recv(); NULL until the first */
};

/* Receives frames and delivers their records. */
enum evzmq__drain_stop evzmq__pass_unpack(struct evzmq__pass *pass);

/* evzmq_socket_try_recv() for the next record. */
int evzmq__unpacking_try_recv(struct evzmq_socket *socket, struct evzmq_message **out);

/* The socket is freed: nothing more is delivered, and a frame half received is its `partial`. */
void evzmq__unpacking_close(struct evzmq_socket *socket);

/* The last reference to the socket goes. */
void evzmq__unpacking_free(struct evzmq_socket *socket);

static inline bool evzmq__unpacking_is_on(const struct evzmq_socket *socket)
{
    return socket->unpacking != NULL && socket->unpacking->is_on;
}

/* Whether a frame is there that is not delivered to its end. */
static inline bool evzmq__unpacking_has_rest(const struct evzmq_socket *socket)
{
    return socket->unpacking != NULL &&
           (socket->unpacking->offset < socket->unpacking->size || socket->unpacking->empty_waits);
}

/* Whether what is received next is a record. */
static inline bool evzmq__unpacking_is_active(const struct evzmq_socket *socket)
{
    return evzmq__unpacking_is_on(socket) || evzmq__unpacking_has_rest(socket);
}

/* The message that may be in delivery. */
static inline const struct evzmq_message *
evzmq__socket_get_receiving(const struct evzmq_socket *socket)
{
    return socket->unpacking != NULL && socket->unpacking->lent != NULL ? socket->unpacking->lent
                                                                        : socket->base->receiving;
}

#endif /* EVZMQ_PLUGIN_UNPACK_H */
