/**
 * @file attempt.h
 * Scenarios that are attempted again and again, with their first request for memory failing, then
 * their second, and so on until one passes untouched; once with that request only and once with all
 * later ones too.
 *
 * Whatever failed, the call must say so, everything must be as before and the call must succeed
 * when it is made again. That nothing leaks is checked by the fixture.
 */
#ifndef TESTS_SUPPORT_ATTEMPT_H
#define TESTS_SUPPORT_ATTEMPT_H

#include "support.h"

#include <stdbool.h>

#include "faults.h"

struct evbuffer;
struct evzmq_pool;
struct evzmq_publisher;
struct evzmq_requester;
struct evzmq_subscriber;
struct evzmq_worker;

/** One attempt: an adapter, a plain peer, and what a scenario may need. end_attempt() frees all of
 * it. */
struct attempt {
    struct fixture *f;
    struct probe p;
    void *socket; /* the adapter's */
    void *peer;
    struct evzmq_message *message;
    struct evzmq_message *result;
    struct evzmq_envelope *envelope;
    struct evbuffer *buffer;
    int freed;

    struct evzmq_context *context;
    void *zmq_socket; /* of that context */
    char endpoint[ENDPOINT_SIZE];
    struct evzmq_codec *codec;
    struct evzmq_arena *arena;
    struct evzmq_poster *poster;
    struct evzmq_monitor *monitor;
    struct evzmq_pool *pool;
    struct evzmq_worker *worker;
    struct evzmq_requester *requester;
    struct evzmq_publisher *publisher;
    struct evzmq_subscriber *subscriber;
};

/** What is attempted. */
struct scenario {
    const char *name; /* of those in lists: what it does, as in "making_a_codec" */
    bool alone; /* there is neither adapter nor peer */
    int type;
    int peer_type;
    bool unattached; /* the scenario attaches */
    bool makes_room; /* a failure may leave an object with memory that the next try uses */
    bool connects; /* ZeroMQ's threads open descriptors meanwhile */
    bool frugal; /* it takes no memory */
    int maps[2]; /* errors that may stand for that of a call, where the interface says so */
    void (*prepare)(struct attempt *a); /* with memory; may be NULL */
    int (*act)(struct attempt *a); /* 0, or -1 with errno */
    void (*check)(struct attempt *a); /* what must be true after a success */
    void (*clean)(struct attempt *a); /* may be NULL */
};

/** Makes the sockets and prepares. The peer's routing id is "P". */
void begin_attempt(struct attempt *a, struct fixture *f, const struct scenario *scenario);
void end_attempt(struct attempt *a, const struct scenario *scenario);

/** Whether the descriptors become as few as before; libzmq closes those of a socket on a thread of
 * its own. */
bool descriptors_are_back(int before);

/** Attempts a scenario until it passes without a failure. */
void run_scenario(struct fixture *f, const struct scenario *scenario);

/* Preparations that several scenarios share. */

void use_msgpack(struct attempt *a);

/** Makes an outgoing message of the parts P, 1 and 2. */
void make_message(struct attempt *a);

/** Receives a message of small parts and a large one, the third, with an envelope on ROUTER. Its
 * last part is the msgpack number 7. */
void receive_large_and_small(struct attempt *a);

#endif /* TESTS_SUPPORT_ATTEMPT_H */
