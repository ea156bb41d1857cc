/*
 * drain.c (L1): see drain.h.
 *
 * Reading the clock costs as much as receiving a small message's bytes, so it is not read after
 * each one: the stride between two readings doubles while a stride takes less than a sixteenth of
 * the time allowed, and falls back to one message as soon as it takes more. A callback that
 * suddenly becomes slow is so noticed after at most STRIDE_MAX messages, one that is always slow
 * after each.
 */
#include "drain.h"

enum { STRIDE_MAX = 32, STRIDE_SHARE = 16 };

/* Begins the next stride, which the messages left may cut short. */
static void begin_stride(struct evzmq__meter *meter)
{
    meter->until = meter->stride < meter->messages ? meter->stride : meter->messages;
    meter->messages -= meter->until;
}

void evzmq__meter_start(struct evzmq__meter *meter, const struct evzmq__budget *budget,
                        uint64_t now, uint64_t (*clock_ns)(void))
{
    *meter = (struct evzmq__meter){.messages = budget->messages,
                                   .bytes = budget->bytes,
                                   .started = now,
                                   .limit = (uint64_t)budget->usec * 1000,
                                   .checked = now,
                                   .clock_ns = clock_ns,
                                   .stride = 1};
    begin_stride(meter);
}

bool evzmq__meter_end_stride(struct evzmq__meter *meter)
{
    const uint64_t now = meter->clock_ns();
    const uint64_t took = now - meter->checked;
    meter->checked = now;
    if (took > meter->limit / STRIDE_SHARE) {
        meter->stride = 1;
    } else if (meter->stride < STRIDE_MAX) {
        meter->stride *= 2;
    }
    begin_stride(meter);
    return meter->until == 0 || now - meter->started >= meter->limit;
}
