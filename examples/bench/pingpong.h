/*
 * The two ends of a round trip, each with blocking libzmq calls and with the adapter. The sockets
 * are PAIRs: what is measured is the way, not a pattern's bookkeeping.
 */
#ifndef BENCH_PINGPONG_H
#define BENCH_PINGPONG_H

#include <stddef.h>
#include <stdint.h>

/* The times of the round trips of one run. */
struct pingpong {
    size_t size; /* of the message, in bytes */
    size_t pack_bytes; /* of the adapter: the size of its frames; 0: not packed */
    uint64_t run_ns; /* how long to go on after the first trips, which are not recorded */
    double *trip_us; /* room for so many as count_max; later ones are not recorded */
    size_t count;
    size_t count_max;
    uint64_t echoes; /* all of them */
    uint64_t begin_ns;
    uint64_t sent_ns;
    int wrong; /* an echo was not what was sent */
};

/* Plays until the time is over and tells the other end to stop, with an empty message. The socket
 * stays the caller's. Return 0, or -1 after saying why. */
int pingpong_bare(void *zmq_socket, struct pingpong *game);

/* The same with the adapter. Closes the socket in any case. */
int pingpong_adapter(void *zmq_socket, struct pingpong *game);

/* Notes an echo of @p size bytes. Returns whether to go on. */
int pingpong_note(struct pingpong *game, const void *data, size_t size);

#endif /* BENCH_PINGPONG_H */
