/**
 * @file flow.c
 * The accounts of one direction of a line: see struct epoch.
 */
#include "soak.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* After this long without a message that is under way, a flow stalls. */
#define STALL_NS (UINT64_C(100) * 1000 * 1000)

/* More complaints of one flow say nothing new. */
enum { COMPLAINTS_MAX = 10 };

/* xorshift64*. */
uint64_t dice_throw(struct dice *dice)
{
    dice->state ^= dice->state >> 12;
    dice->state ^= dice->state << 25;
    dice->state ^= dice->state >> 27;
    return dice->state * UINT64_C(2685821657736338717);
}

uint64_t dice_below(struct dice *dice, uint64_t limit)
{
    return (dice_throw(dice) >> 16) % limit;
}

uint64_t clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static struct epoch *epoch_of(struct flow *flow, uint32_t number)
{
    return &flow->epochs[number % EPOCHS];
}

void flow_open(struct flow *flow, const char *name)
{
    memset(flow, 0, sizeof *flow);
    flow->name = name;
    flow->moved_ns = clock_ns();
}

void flow_complain(struct flow *flow, const char *what, uint64_t epoch, uint64_t number)
{
    if (flow->wrong++ < COMPLAINTS_MAX) {
        (void)printf("%s: %s (message %" PRIu64 " of epoch %" PRIu64 ")\n", flow->name, what,
                     number, epoch);
    }
}

/* Nothing of it comes any more. */
static void retire(struct flow *flow, struct epoch *epoch, uint64_t number)
{
    if (epoch->loose) {
        flow->lost += epoch->written - epoch->received;
    } else if (epoch->written != epoch->received) {
        flow_complain(flow, "messages are missing that nothing may have lost", number,
                      epoch->received);
    }
    free(epoch->seen);
    memset(epoch, 0, sizeof *epoch);
}

/* Makes room in `seen` for all that was written. */
static void make_room(struct epoch *epoch)
{
    const uint64_t needed = epoch->written - epoch->next + 1;

    if (needed > epoch->room) {
        const uint64_t room = 2 * needed + 100;
        bool *const seen = realloc(epoch->seen, (size_t)room * sizeof *seen);

        if (seen == NULL) {
            abort();
        }
        memset(seen + epoch->room, 0, (size_t)(room - epoch->room) * sizeof *seen);
        epoch->seen = seen;
        epoch->room = room;
    }
}

static struct epoch *begin(struct flow *flow)
{
    struct epoch *const epoch = epoch_of(flow, flow->epoch + 1);

    retire(flow, epoch, (uint64_t)flow->epoch + 1 - EPOCHS);
    flow->epoch++;
    flow->moved_ns = clock_ns();
    return epoch;
}

void flow_loosen(struct flow *flow)
{
    struct epoch *const old = epoch_of(flow, flow->epoch);

    old->loose = true;
    make_room(old);
    begin(flow)->loose = true;
}

void flow_tighten(struct flow *flow)
{
    (void)begin(flow);
}

void flow_close(struct flow *flow)
{
    for (size_t i = 0; i < EPOCHS; i++) {
        retire(flow, &flow->epochs[i], flow->epoch);
    }
}

uint64_t flow_number(const struct flow *flow)
{
    return flow->epochs[flow->epoch % EPOCHS].written;
}

uint64_t flow_under_way(const struct flow *flow)
{
    const struct epoch *const epoch = &flow->epochs[flow->epoch % EPOCHS];

    return epoch->written - epoch->received;
}

void flow_wrote(struct flow *flow)
{
    struct epoch *const epoch = epoch_of(flow, flow->epoch);

    if (flow_under_way(flow) == 0) {
        flow->moved_ns = clock_ns();
    }
    epoch->written++;
    flow->written++;
    if (epoch->loose) {
        make_room(epoch);
    }
}

void flow_received(struct flow *flow, uint32_t number_of_epoch, uint64_t number)
{
    struct epoch *const epoch = epoch_of(flow, number_of_epoch);

    flow->moved_ns = clock_ns();
    if (number_of_epoch > flow->epoch || flow->epoch - number_of_epoch >= EPOCHS ||
        number >= epoch->written) {
        flow_complain(flow, "a message came that was not sent, or long ago", number_of_epoch,
                      number);
        return;
    }
    if (!epoch->loose) {
        if (number != epoch->next) {
            flow_complain(flow, "another message came than the next one", number_of_epoch, number);
        }
        epoch->next = number + 1;
    } else if (number < epoch->next || epoch->seen[number - epoch->next]) {
        flow_complain(flow, "a message came twice", number_of_epoch, number);
        return;
    } else {
        epoch->seen[number - epoch->next] = true;
    }
    epoch->received++;
    flow->received++;
}

void flow_watch(struct flow *flow, bool held)
{
    const uint64_t now = clock_ns();

    if (held || flow_under_way(flow) == 0) {
        flow->moved_ns = now;
    } else if (now - flow->moved_ns > STALL_NS) {
        if (flow->longest_ns < now - flow->moved_ns) {
            flow->longest_ns = now - flow->moved_ns;
        }
        if (!flow->stalled) {
            flow->stalls++;
        }
        flow->stalled = true;
        return;
    }
    flow->stalled = false;
}
