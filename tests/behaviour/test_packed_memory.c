/**
 * @file test_packed_memory.c
 * Memory of packed frames: nothing is allocated for a record, and nothing piles up.
 */
#include "support.h"

#include <string.h>

#include "packed.h"

/* Two adapters on one base: one packs, the other unpacks. */
struct flow {
    struct fixture *f;
    struct probe in;
    struct probe out;
};

static void open_flow(struct fixture *f, enum transport transport, struct flow *flow)
{
    void *push = NULL;
    void *pull = NULL;
    peer_pair(f, transport, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    packed_attach(f, &flow->in, pull, 0);
    packed_attach(f, &flow->out, push, 0);
    assert_ok(evzmq_socket_set_unpacking(flow->in.socket, 1));
    assert_ok(evzmq_socket_set_packing(flow->out.socket, 32768, 0));
    probe_enable(&flow->in, EV_READ);
}

static void close_flow(struct flow *flow)
{
    probe_free(&flow->in);
    probe_free(&flow->out);
}

/* Writes records of sizes that differ and waits until all have come. */
static void pump(struct fixture *f, struct flow *flow, uint64_t count)
{
    static const size_t sizes[] = {0, 10, 50, 300, 20, 3000, 100, 9000, 5, 700};
    for (uint64_t i = 0; i < count; i++) {
        const size_t size = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
        assert_ok(packed_write(flow->out.socket, flow->out.sequence++, size));
        if (i % 100 == 99) {
            run_until(f, flow->in.reads == flow->out.sequence);
        }
    }
    run_until(f, flow->in.reads == flow->out.sequence);
}

/* Has as many frames as there ever will be: more are written without a turn of the loop than
 * libzmq may hold, so that some wait in the queue. How soon its I/O thread gives one back later is
 * nobody's promise. */
static void saturate(struct fixture *f, struct flow *flow)
{
    assert_ok(evzmq_socket_disable(flow->in.socket, EV_READ));
    assert_ok(evzmq_socket_disable(flow->out.socket, EV_WRITE));
    for (int i = 0; i < 300; i++) {
        assert_ok(packed_write(flow->out.socket, flow->out.sequence++, 9000));
    }
    probe_enable(&flow->out, EV_WRITE);
    probe_enable(&flow->in, EV_READ);
    run_until(f, flow->in.reads == flow->out.sequence);
}

static void no_record_costs_an_allocation(void **state)
{
    struct fixture *const f = *state;
    for (int transport = 0; transport < TRANSPORTS; transport++) {
        struct flow flow = {.in = {.on_read = packed_read_sequence}};
        open_flow(f, (enum transport)transport, &flow);
        saturate(f, &flow);
        pump(f, &flow, 2000);
        const long made = allocations_made();
        pump(f, &flow, 20000);
        assert_int_equal(allocations_made(), made);
        close_flow(&flow);
    }
}

struct ring {
    struct evzmq_message *messages[64];
    uint64_t next;
};

/* Keeps small records for a while. */
static void read_and_keep(struct probe *p, struct evzmq_message *message)
{
    struct ring *const ring = p->arg;
    packed_read_sequence(p, message);
    if (evzmq_message_get_size(message) < 500) {
        struct evzmq_message **const place = &ring->messages[ring->next++ % 64];
        evzmq_message_free(*place);
        *place = evzmq_message_take(message);
        assert_non_null(*place);
    }
}

static void what_the_library_holds_does_not_grow_with_what_passes(void **state)
{
    struct fixture *const f = *state;
    struct ring ring = {.next = 0};
    struct flow flow = {.in = {.on_read = read_and_keep, .arg = &ring}};
    open_flow(f, TRANSPORT_IPC, &flow);
    pump(f, &flow, 5000);
    const long live = allocations_live();
    for (int round = 0; round < 5; round++) {
        pump(f, &flow, 10000);
        assert_in_range(allocations_live(), live - 64, live + 64);
    }
    for (size_t i = 0; i < 64; i++) {
        evzmq_message_free(ring.messages[i]);
    }
    close_flow(&flow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(no_record_costs_an_allocation),
        claim(what_the_library_holds_does_not_grow_with_what_passes),
    };
    return run_claims(tests);
}
