/* What a peer does: the jobs, and what peer.c lets them know. */
#ifndef BENCH_PEER_JOBS_H
#define BENCH_PEER_JOBS_H

#include <stdatomic.h>

#include "peer.h"

struct peer_task {
    const struct peer_order *order;
    void *zmq_context;
    const atomic_uint *phase; /* an enum peer_phase, in memory shared with the receiver */
    int control; /* the socket pair; readable in a job when the receiver has finished or is gone */
    int released; /* peer_task_wait() has waited */
};

/*
 * Waits until the receiver has all it wants (it has called peer_finish()) or is gone. A job that
 * sent much must do so before it closes its socket: whatever its linger, libzmq 4.3.4 drops what
 * the I/O thread has encoded and the kernel has not taken yet.
 */
void peer_task_wait(struct peer_task *task);

/* Whether the receiver is still there. */
int peer_task_is_wanted(const struct peer_task *task);

/* What a sender does with the phase: where the window begins and ends for it. */
struct peer_window {
    unsigned phase;
    uint64_t begin_ns;
    uint64_t begin_messages;
};

/* Looks at the phase, before a message is sent. Returns whether the job is to end. */
int peer_window_look(struct peer_window *window, const struct peer_task *task,
                     struct peer_result *out);

/* Each fills *out; out->error stays 0 when all went well. */
void peer_flood(struct peer_task *task, struct peer_result *out);
void peer_flood_packed(struct peer_task *task, struct peer_result *out);
void peer_worker(struct peer_task *task, struct peer_result *out);
void peer_sink(struct peer_task *task, struct peer_result *out);
void peer_echo_bare(struct peer_task *task, struct peer_result *out);
void peer_echo_adapter(struct peer_task *task, struct peer_result *out);

#endif /* BENCH_PEER_JOBS_H */
