/*
 * Where the two ends meet: endpoints that nobody else has. ipc files stand in a private directory,
 * which goes when the program ends, also when a signal ends it.
 */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#include <stddef.h>

#include "options.h"

/* Makes the directory. Returns 0, or -1 after saying why. */
int place_open(void);

/* An endpoint for zmq_bind, different each time. Returns 0, or -1 after saying why. */
int place_endpoint(enum bench_transport transport, char *out, size_t size);

/*
 * A socket of the type, set up as all sockets here, with a high water mark, bound to an endpoint
 * of its own, which *out tells. Returns NULL after saying why.
 */
void *place_bind(void *zmq_context, int type, enum bench_transport transport, int mark, char *out,
                 size_t size);

/* Sets up a socket in that way. Returns 0, or -1 with errno. */
int place_set_up(void *zmq_socket, int mark);

/* Removes the file that the last endpoint left. */
void place_clear(void);

/* Removes the directory. */
void place_close(void);

#endif /* BENCH_PLACE_H */
