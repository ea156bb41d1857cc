/*
 * The receiver's watch: a warm-up, then a window of the asked length, both begun by a message. Both
 * receivers (bare.c, adapter.c) call it for each message, so that measuring costs them the same.
 */
#ifndef BENCH_METER_H
#define BENCH_METER_H

#include <stddef.h>
#include <stdint.h>

#include "peer.h"

/* So many senders may feed one receiver. */
#define METER_PEERS_MAX 2u

/* The clock is read once in so many messages (a power of 2): each message would be dearer, and even
 * at 20,000 messages/s this ends a window within 2 ms of its time. */
#define METER_LOOK_INTERVAL 32u

enum meter_state { METER_NEW, METER_WARMING, METER_MEASURING, METER_DONE };

struct meter {
    struct peer *peers[METER_PEERS_MAX]; /* told of the window's begin and end */
    size_t peer_count;
    uint64_t warm_up_ns;
    uint64_t window_ns;
    enum meter_state state;
    uint64_t state_begin_ns;
    uint64_t window_begin_messages;
    uint64_t messages;
    uint64_t bytes;
    uint64_t multipart; /* messages of more than one part, where none was sent */
    double rate; /* messages/s in the window; set when it is over */
};

void meter_init(struct meter *meter, struct peer *const *peers, size_t count, double seconds);

/* Reads the clock and moves on from state to state. */
void meter_look(struct meter *meter);

/* Counts a message. */
static inline void meter_message(struct meter *meter, size_t size, int more)
{
    meter->bytes += size;
    meter->multipart += more != 0;
    if ((meter->messages++ & (METER_LOOK_INTERVAL - 1)) == 0) {
        meter_look(meter);
    }
}

#endif /* BENCH_METER_H */
