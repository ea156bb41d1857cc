/*
 * The other end of a measurement: a process of its own, or a thread where the transport is inproc.
 * It is started once and then does one job after the other, each told over a socket pair.
 *
 * Processes are forked before any ZeroMQ context exists, since libzmq does not work in the child of
 * a process that has used it; each has a context of its own.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "records.h"

#define PEER_ENDPOINT_MAX 128
#define PEER_CONNECTION_MAX 1024
#define PEER_LEAD_MAX 8

/*
 * The high water mark of both ends of every measurement: libzmq's own default of 1000 messages, so
 * that the numbers are those of a user who sets nothing, but no more than PEER_PIPE_BYTES in each
 * pipe. With 1000 records of 32 KiB a short sample would measure how 66 MB of buffers fill and how
 * libzmq, which tells the sender of room only when half of it is free, lets them drain by turns.
 */
#define PEER_HIGH_WATER_MARK 1000
#define PEER_PIPE_BYTES (4u * 1024u * 1024u)

static inline int peer_high_water_mark(size_t message_size)
{
    const size_t fitting = PEER_PIPE_BYTES / (message_size + 1);
    if (fitting >= PEER_HIGH_WATER_MARK) {
        return PEER_HIGH_WATER_MARK;
    }
    return fitting < 2 ? 2 : (int)fitting;
}

/* With nothing sent or received for so long, a measurement has failed. */
#define PEER_PATIENCE_MS 10000

enum peer_job {
    PEER_FLOOD, /* connect a PUSH socket and send records as fast as they are taken */
    PEER_FLOOD_PACKED, /* the same with the adapter, many records in a frame */
    PEER_WORKER, /* become a worker of a pool and send records as answers, likewise */
    PEER_SINK, /* bind a PULL socket and take messages in a bare loop up to the end mark */
    PEER_ECHO_BARE, /* connect a PAIR socket and send back what comes, with blocking calls */
    PEER_ECHO_ADAPTER /* the same with the adapter on a libevent base */
};

struct peer_order {
    enum peer_job job;
    char endpoint[PEER_ENDPOINT_MAX];
    char connection[PEER_CONNECTION_MAX]; /* of PEER_WORKER: what the pool tells its worker */
    size_t lead_size; /* of PEER_FLOOD: of a part before each record; 0: none */
    char lead[PEER_LEAD_MAX];
    enum bench_type type;
    size_t chars;
    enum record_form form;
    size_t pack_bytes; /* the size of a frame; 0: not packed */
};

struct peer_result {
    int error; /* an errno value, or 0 */
    uint64_t messages; /* sent or taken; the end mark, an empty record, is not counted */
    uint64_t bytes;
    uint64_t window_messages; /* sent while the phase was PEER_MEASURE */
    uint64_t window_ns; /* how long that was */
};

/* What a job is to do now: set by the receiver, looked at by the peer before each message. */
enum peer_phase { PEER_WARM_UP, PEER_MEASURE, PEER_END };

struct peer;

/* Return NULL after saying why. A thread uses the caller's context, a process makes its own. */
struct peer *peer_start_process(void);
struct peer *peer_start_thread(void *zmq_context);

/* Ends the peer, which must have no job, and frees it. NULL is ignored. */
void peer_stop(struct peer *peer);

/* Begins a job, in phase PEER_WARM_UP. Returns 0, or -1 after saying why. */
int peer_begin(struct peer *peer, const struct peer_order *order);

void peer_set_phase(struct peer *peer, enum peer_phase phase);

/*
 * To be called when all was received: lets the peer close its socket, and waits for the job's end.
 * Returns 0, or -1 after saying why.
 */
int peer_finish(struct peer *peer, struct peer_result *out);

#endif /* BENCH_PEER_H */
