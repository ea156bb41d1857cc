/* The receiver's watch: when the warm-up ends, when the window ends, and the rate in it. */
#include "meter.h"

#include "numbers.h"

/* The warm-up fills the pipes and the caches: a quarter of the sample, within these bounds. */
#define WARM_UP_MIN_NS 20000000u
#define WARM_UP_MAX_NS 200000000u

void meter_init(struct meter *meter, struct peer *const *peers, size_t count, double seconds)
{
    *meter = (struct meter){.peer_count = count};
    for (size_t i = 0; i < count; i++) {
        meter->peers[i] = peers[i];
    }
    meter->window_ns = (uint64_t)(seconds * 1e9);
    meter->warm_up_ns = meter->window_ns / 4;
    if (meter->warm_up_ns < WARM_UP_MIN_NS) {
        meter->warm_up_ns = WARM_UP_MIN_NS;
    } else if (meter->warm_up_ns > WARM_UP_MAX_NS) {
        meter->warm_up_ns = WARM_UP_MAX_NS;
    }
}

static void set_phase(const struct meter *meter, enum peer_phase phase)
{
    for (size_t i = 0; i < meter->peer_count; i++) {
        peer_set_phase(meter->peers[i], phase);
    }
}

void meter_look(struct meter *meter)
{
    if (meter->state == METER_DONE) {
        return;
    }
    const uint64_t now_ns = numbers_now_ns();
    const uint64_t passed_ns = now_ns - meter->state_begin_ns;
    switch (meter->state) {
    case METER_NEW:
        meter->state = METER_WARMING;
        break;
    case METER_WARMING:
        if (passed_ns < meter->warm_up_ns) {
            return;
        }
        meter->state = METER_MEASURING;
        meter->window_begin_messages = meter->messages;
        set_phase(meter, PEER_MEASURE);
        break;
    default:
        if (passed_ns < meter->window_ns) {
            return;
        }
        meter->state = METER_DONE;
        meter->rate =
            (double)(meter->messages - meter->window_begin_messages) * 1e9 / (double)passed_ns;
        set_phase(meter, PEER_END);
        break;
    }
    meter->state_begin_ns = now_ns;
}
