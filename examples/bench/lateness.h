/* A 1 ms timer on an event base, and how late it is each time. */
#ifndef BENCH_LATENESS_H
#define BENCH_LATENESS_H

#include <stddef.h>
#include <stdint.h>

struct event;
struct event_base;

struct lateness {
    struct event *timer;
    uint64_t due_ns;
    double *late_us; /* room for so many as count_max */
    size_t count;
    size_t count_max; /* later ones are not recorded */
};

/*
 * A base whose clock is precise: libevent's default one may be as coarse as the kernel's tick.
 * Returns NULL when memory is short.
 */
struct event_base *lateness_base_new(void);

/* Begins anew on a base; what was recorded stays. Returns 0, or -1 when memory is short. */
int lateness_start(struct lateness *lateness, struct event_base *base);

void lateness_stop(struct lateness *lateness);

#endif /* BENCH_LATENESS_H */
