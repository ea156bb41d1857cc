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

void evzmq__meter_start(struct evzmq__meter *meter, const struct evzmq__budget *budget,
                        uint64_t now, uint64_t (*clock_ns)(void))
{
    *meter = (struct evzmq__meter){.messages = budget->messages,
                                   .bytes = budget->bytes,
                                   .started = now,
                                   .limit = (uint64_t)budget->usec * 1000,
                                   .checked = now,
                                   .clock_ns = clock_ns,
                                   .stride = 1,
                                   .until = 1};
}

static bool time_is_up(struct evzmq__meter *meter)
{
    const uint64_t now = meter->clock_ns();
    const uint64_t step = now - meter->checked;
    meter->checked = now;
    if (step > meter->limit / STRIDE_SHARE) {
        meter->stride = 1;
    } else if (meter->stride < STRIDE_MAX) {
        meter->stride *= 2;
    }
    meter->until = meter->stride;
    return now - meter->started >= meter->limit;
}

bool evzmq__meter_charge(struct evzmq__meter *meter, size_t bytes)
{
    meter->messages--;
    meter->bytes -= bytes < meter->bytes ? bytes : meter->bytes;
    if (meter->messages == 0 || meter->bytes == 0 || (--meter->until == 0 && time_is_up(meter))) {
        meter->spent = true;
    }
    return meter->spent;
}

enum evzmq__drain_stop evzmq__drain_run(struct evzmq__meter *meter,
                                        enum evzmq__step (*step)(void *arg, size_t *out_bytes),
                                        void *arg)
{
    while (!meter->spent) {
        size_t bytes = 0;
        const enum evzmq__step result = step(arg, &bytes);
        if (result != EVZMQ__STEP_DONE) {
            return (enum evzmq__drain_stop)result;
        }
        (void)evzmq__meter_charge(meter, bytes);
    }
    return EVZMQ__STOP_BUDGET;
}
