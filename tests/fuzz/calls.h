/**
 * @file calls.h
 * The parts of fuzz_calls.c: two connected sockets, what is known of their adapters, and the
 * program that is run on them.
 *
 *     fuzz_calls.c    the connection, the program, the end, when everything has to come out
 *     calls_ops.c     what one step of a program can do
 *     calls_watch.c   the callbacks, and how what is received is held against the ledger
 */
#ifndef TESTS_FUZZ_CALLS_H
#define TESTS_FUZZ_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <event2/event.h>

#include <evzmq/evzmq.h>

#include "ledger.h"

enum { TOKENS_MAX = 512, KEPT_MAX = 4 };

/** One end of the connection. */
struct side {
    struct side *peer;
    void *zmq; /**< NULL once closed */
    bool sends; /**< what the type can do */
    bool receives;
    struct ledger out; /**< what this side sends; the peer's is what it receives */

    /* What follows is of the adapter; without one the side is plain libzmq. */
    struct evzmq_socket *socket;
    bool closes; /**< EVZMQ_OPT_CLOSE_ON_FREE */
    unsigned generation; /**< of the callbacks that may run */
    bool has_read;
    bool has_event;
    bool reading; /**< EV_READ is enabled */
    bool writing;
    bool timed; /**< timeouts may end reading and writing */
    bool shut; /**< evzmq_socket_shutdown() was called */
    unsigned done; /**< times its callback ran */
    uint64_t out_at_shutdown;
    struct ledger_rules rules;
    bool unpacked; /**< unpacking was ever on */
    bool packs;
    bool packed; /**< packing was ever on */
    bool begins; /**< the next packed record begins a frame */
    size_t messages_max; /**< of the output queue */
    size_t bytes_max;
    uint64_t accepted; /**< messages written with success */
    uint64_t accepted_bytes;
    uint64_t seen_bytes; /**< of what was received and accounted for */
};

/** The argument of callbacks: those that were replaced since must not run. */
struct token {
    struct side *side;
    unsigned generation;
};

/** A message that was taken in a callback. */
struct kept {
    struct evzmq_message *message;
    uint64_t hash;
};

struct world {
    const uint8_t *data; /**< the program */
    size_t size;
    size_t at;
    struct event_base *base;
    struct evzmq_codec *msgpack;
    struct side sides[2];
    struct token tokens[TOKENS_MAX];
    size_t token_count;
    struct kept kept[KEPT_MAX];
    struct evzmq_message *current; /**< in a read callback */
    bool dispatching; /**< the only time at which callbacks may run */
    unsigned depth; /**< of callbacks; never more than 1 */
    bool broke; /**< event_base_loopbreak() was called in this turn of the loop */
    bool settling; /**< the program is over */
    long held; /**< allocations that outlive a program */
    bool cut; /**< a side was closed: what was under way is lost */
};

extern struct world world;

/** The next byte of the program; 0 at its end. */
unsigned program_next(void);
bool program_is_over(void);

/** Runs one step of the program. */
void run_op(void);

/** Some turns of the loop that do not wait. */
void run_loop(unsigned turns);

/** Turns of the loop until nothing moves; then nothing may be left that could. */
void run_until_quiet(void);

void side_attach(struct side *side, unsigned options);
void side_free(struct side *side);
void side_setcb(struct side *side, bool has_read, bool has_write, bool has_event);
bool side_receive_raw(struct side *side);
int look_raw(const struct side *side); /**< ZMQ_EVENTS */

/** Accounts for what was dropped without a word, before a setting changes that has a part in it. */
void side_sync(struct side *side);

/** Holds received messages against the ledger, in order; all that were received since the last
 * call, but for those that were dropped. */
void side_observe(struct side *side, struct evzmq_message *const *messages, int count);

void side_on_done(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                  void *arg);

struct evzmq_socket_stats side_stats(const struct side *side);

/** The parts of a message. Returns how many. */
size_t get_parts(const struct evzmq_message *message, struct evzmq_bytes *out_parts);
uint64_t hash_message(const struct evzmq_message *message);

/** What is true after every step. */
void check_side(struct side *side);

/** Makes an outgoing part that libzmq frees, and checks at the end that it did. */
bool add_reference(struct evzmq_message *message, const struct evzmq_bytes *part);

#endif /* TESTS_FUZZ_CALLS_H */
