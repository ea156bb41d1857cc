/* The two receivers of mode fan-in. Each takes what the senders send, up to an end mark of each. */
#ifndef BENCH_FAN_IN_H
#define BENCH_FAN_IN_H

#include <stddef.h>

#include "meter.h"
#include "options.h"

/* So many processes send to one receiver. */
#define FAN_IN_SENDERS 2u

/* What a receiver needs. */
struct fan_in {
    enum bench_transport transport;
    enum bench_type type;
    size_t chars;
    struct peer *const *peers; /* FAN_IN_SENDERS of them, without a job */
};

/* Each begins the jobs of its peers, who must be finished after a success. Returns 0, or -1 after
 * saying why. */
int fan_in_pool(const struct fan_in *fan_in, struct meter *meter);
int fan_in_bare(const struct fan_in *fan_in, void *zmq_context, struct meter *meter);

#endif /* BENCH_FAN_IN_H */
