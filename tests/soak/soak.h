/**
 * @file soak.h
 * The parts of evzmq_soak: flows, which keep the accounts of one direction; lines, which are two
 * adapters and what is done to them; and the program around them.
 */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evzmq/evzmq.h>

/** A generator of numbers; the state is the seed and never 0. */
struct dice {
    uint64_t state;
};

uint64_t dice_throw(struct dice *dice);
/** A number below a limit, which is not 0. */
uint64_t dice_below(struct dice *dice, uint64_t limit);

uint64_t clock_ns(void);

/** How many messages of one flow may be under way, and how many of its epochs are remembered. */
enum { WINDOW = 4000, EPOCHS = 32 };

/** What was sent between two changes of a line. Up to the end of a strict one everything must come,
 * in order. What is under way then, because a connection was cut, may be lost, and so may all of a
 * loose one, which lasts until the sender has seen the old connection end: until then it may hand
 * its messages to that. Where two connections are read side by side they may also come out of
 * order. But nothing may ever come twice, and nothing that was not sent. */
struct epoch {
    uint64_t written;
    uint64_t received;
    uint64_t next; /* the number that is expected; in a loose one: the first that may be lost */
    bool loose;
    bool *seen; /* in a loose one: from `next` on */
    uint64_t room; /* in `seen` */
};

/** The accounts of one direction of a line. */
struct flow {
    const char *name;
    uint32_t epoch;
    struct epoch epochs[EPOCHS]; /* by their number */
    uint64_t written;
    uint64_t received;
    uint64_t lost; /* in epochs that are over */
    uint64_t wrong;
    uint64_t moved_ns; /* when something came last, or nothing could */
    bool stalled;
    uint64_t stalls;
    uint64_t longest_ns;
};

void flow_open(struct flow *flow, const char *name);
void flow_close(struct flow *flow); /* counts what the last epochs lost */
/** The number that the next message of the current epoch has; flow_wrote() when it was accepted. */
uint64_t flow_number(const struct flow *flow);
void flow_wrote(struct flow *flow);
void flow_received(struct flow *flow, uint32_t epoch, uint64_t number);
/** Ends the current epoch, with all that is under way, and begins a loose one; and a strict one. */
void flow_loosen(struct flow *flow);
void flow_tighten(struct flow *flow);
/** Something is wrong: says so and counts. */
void flow_complain(struct flow *flow, const char *what, uint64_t epoch, uint64_t number);
/** Messages of the current epoch that are under way. */
uint64_t flow_under_way(const struct flow *flow);
/** Looks for a stall; `held`: nothing can move now. */
void flow_watch(struct flow *flow, bool held);

/** What a line is. */
struct plan {
    const char *name;
    int types[2]; /* of the end that binds and of the one that connects */
    const char *bind;
    bool sends[2]; /* which end does */
    bool packs; /* records of a schema; packed and not, in turns */
    unsigned parts_max; /* more than 1: the line is never cut, see line.c */
    uint64_t window; /* at most WINDOW */
};

struct line;

/** One adapter of a line. */
struct end {
    struct line *line;
    int which; /* 0 binds, 1 connects */
    void *zmq_socket;
    struct evzmq_socket *socket; /* NULL: the path or port is not free yet */
    struct evzmq_monitor *monitor;
    unsigned read_pause; /* ticks until it goes on; 0: it goes */
    unsigned write_pause;
    bool kill_in_callback;
};

/** Two adapters and all that is counted of them. */
struct line {
    const struct plan *plan;
    struct event_base *base;
    struct evzmq_context *context;
    void *zmq_context;
    struct dice *dice;
    struct evzmq_codec *codec; /* NULL: raw */
    struct end ends[2];
    struct flow flows[2]; /* from ends[0] and from ends[1] */
    char endpoint[256];
    char peer[32]; /* the routing id of the connecting end */
    unsigned connections;
    bool ready; /* a publisher knows its subscriber */
    unsigned loose; /* ticks until its epochs are strict again; 0: they are */
    const struct end *survivor; /* of a cut: who is to see that the old connection is gone */
    uint64_t cuts;
    uint64_t undeliverable;
    uint64_t refused;
    uint64_t errors;
};

int line_open(struct line *line, const struct plan *plan, struct event_base *base,
              struct evzmq_context *context, void *zmq_context, struct dice *dice);
void line_close(struct line *line);

/** What happens every few milliseconds: pauses end, ends that could not bind try again. */
void line_tick(struct line *line);
/** Does something to the line. */
void line_act(struct line *line);
/** Writes some messages. */
void line_write(struct line *line);
/** Ends all pauses. */
void line_resume(struct line *line);
/** Whether all that must come has come. */
bool line_is_complete(const struct line *line);
void line_watch(struct line *line);

#endif /* TESTS_SOAK_H */
