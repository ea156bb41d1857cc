/* What a peer does: the jobs, and what peer.c lets them know. */
#ifndef BENCH_PEER_JOBS_H
#define BENCH_PEER_JOBS_H

#include <stdatomic.h>

#include "peer.h"

struct peer_task {
    const struct peer_order *order;
    void *zmq_context;
    const atomic_uint *phase; /* an enum peer_phase, in memory shared with the receiver */
    int control; /* the socket pair; readable before the job's end only when the receiver is gone */
};

/* Whether the receiver is still there. */
int peer_task_is_wanted(const struct peer_task *task);

/* Each fills *out; out->error stays 0 when all went well. */
void peer_flood(const struct peer_task *task, struct peer_result *out);
void peer_sink(const struct peer_task *task, struct peer_result *out);
void peer_echo_bare(const struct peer_task *task, struct peer_result *out);
void peer_echo_adapter(const struct peer_task *task, struct peer_result *out);

#endif /* BENCH_PEER_JOBS_H */
