/*
 * headed.h (L6): messages that begin with a header part, which both sides of a pool send and
 * receive. To the adapter the header is the message's envelope.
 */
#ifndef EVZMQ_PLUGIN_HEADED_H
#define EVZMQ_PLUGIN_HEADED_H

#include "ready.h"
#include "socket.h"

/* Has a PULL socket take the first part of what it receives for the envelope. */
void evzmq__headed_receive(struct evzmq_socket *socket);

/* Send as the functions of <evzmq/socket.h> without `headed` do, behind a header. */
int evzmq__headed_write(struct evzmq_socket *socket, const struct evzmq__header *header,
                        const void *data, size_t size);
int evzmq__headed_write_parts(struct evzmq_socket *socket, const struct evzmq__header *header,
                              const struct evzmq_bytes *parts, size_t count);
int evzmq__headed_write_message(struct evzmq_socket *socket, const struct evzmq__header *header,
                                struct evzmq_message *message);
int evzmq__headed_write_value(struct evzmq_socket *socket, const struct evzmq__header *header,
                              const void *value);

/* Reads the header of a received message of one of n workers; whether it has one, and something
 * behind it. */
bool evzmq__headed_read(const struct evzmq_message *message, unsigned n_workers,
                        struct evzmq__header *out);

#endif /* EVZMQ_PLUGIN_HEADED_H */
