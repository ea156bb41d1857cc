/**
 * @file support.h
 * What the behaviour tests share: a fixture with a base and a context per test, plain libzmq peers,
 * and probes, which are adapters whose callbacks record what they see.
 *
 * Every test gets these checks without asking: a watchdog aborts it with its name; at its end no
 * file descriptor and no allocation of the library is left; a callback runs from the loop only,
 * never inside another callback and never after its socket was freed.
 */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>

/** The way between two sockets. */
enum transport { TRANSPORT_INPROC, TRANSPORT_IPC, TRANSPORT_TCP, TRANSPORTS };

/** Room for any endpoint the fixture makes. */
#define ENDPOINT_SIZE 256

/** One test's surroundings. */
struct fixture {
    const char *name; /* Of the test, for the watchdog. */
    struct event_base *base;
    void *context;
    char directory[64]; /* See fixture_directory(); empty until it is needed. */
    unsigned endpoints; /* How many were made, to keep them apart. */
    void *peers[128]; /* Sockets to close at the end; NULL where that happened before. */
    size_t peer_count;
    size_t attached; /* Probes that were not freed yet. */
    int dispatching; /* Inside event_base_loop: the only time at which callbacks may run. */
    int depth; /* Inside a callback: no other may run. */
    int descriptors; /* Open when the test began; -1 where it cannot be known. */
    long allocations; /* Of the library, when the test began. */
};

/** A test whose function has the claim as its name, with a fixture as its state. */
#define claim(function)                                                                            \
    {                                                                                              \
#function, function, fixture_setup, fixture_teardown, (void *)#function                    \
    }

/** Runs the tests of one file. To be called by main with the array of claims. */
#define run_claims(tests) (support_init(), support_end(cmocka_run_group_tests(tests, NULL, NULL)))

/** File descriptors that are open; -1 without /proc, where nobody can tell. */
int count_descriptors(void);

/** Raises the limit of open files as far as it goes. Returns how many more can be opened. */
long raise_descriptors(void);

/** Bytes of this process that are in memory; 0 where nobody can tell, and under a sanitizer or
 * valgrind, which keep what is freed. */
long resident(void);

/** How much a test is to do: the quick number, or the full one, which EVZMQ_TEST_LOAD=full asks
 * for. The full ones are for the nightly checks. */
long scaled(long quick, long full);

void support_init(void);
int support_end(int failed);
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* A directory of this test alone, for endpoints and for contexts to make theirs in. */
const char *fixture_directory(struct fixture *f);

/* Allocations of the library. The n-th from now fails; 0 for none. */
long allocations_live(void);
long allocations_made(void);
void allocations_fail_at(long n);

/* A test that goes on for long, but not standing still, says so from time to time. */
void fixture_feed_watchdog(void);

/* What the watchdog is to tell of a test that does not end: where it waits, and for what. A literal
 * or NULL: it is read by a signal handler. A child of a fork gets a watchdog of its own, which
 * barks before its parent's. */
void fixture_waits_at(const char *where);
void fixture_watch_child(void);

/* The place of a wait, as text. */
#define WAIT_LINE(line) #line
#define WAIT_PLACE(line, condition) __FILE__ ":" WAIT_LINE(line) ": " condition

/* The loop. A turn waits for at least one event; a glance does not wait. */
int fixture_loop(struct fixture *f, int flags);
void fixture_turn(struct fixture *f);
void fixture_glance(struct fixture *f);
void fixture_run_for(struct fixture *f, int window_ms);

/** Turns the loop until a condition holds that events of the loop bring about; the watchdog ends it
 * otherwise. */
#define run_until(f, condition)                                                                    \
    do {                                                                                           \
        fixture_waits_at(WAIT_PLACE(__LINE__, #condition));                                        \
        while (!(condition)) {                                                                     \
            fixture_turn(f);                                                                       \
        }                                                                                          \
        fixture_waits_at(NULL);                                                                    \
    } while (0)

/** Runs the loop until a condition holds that others bring about: libzmq's threads, the system,
 * another process. */
#define run_until_others(f, condition)                                                             \
    do {                                                                                           \
        fixture_waits_at(WAIT_PLACE(__LINE__, #condition));                                        \
        while (!(condition)) {                                                                     \
            fixture_run_for(f, 1);                                                                 \
        }                                                                                          \
        fixture_waits_at(NULL);                                                                    \
    } while (0)

/* Plain sockets of libzmq. */
void *peer_new(struct fixture *f, int type);
void peer_close(struct fixture *f, void *peer);
void peer_forget(struct fixture *f, void *peer); /* Somebody else closes it. */
void peer_set_int(void *peer, int option, int value);
void peer_bind(struct fixture *f, void *peer, enum transport transport,
               char endpoint[ENDPOINT_SIZE]);
void peer_connect(void *peer, const char *endpoint);
void peer_pair(struct fixture *f, enum transport transport, int bind_type, void **out_bound,
               int connect_type, void **out_connected);
void peer_send(void *peer, const void *data, size_t size);
void peer_send_text(void *peer, const char *parts); /* Parts are separated by '|'. */
void peer_send_sequence(void *peer, uint64_t first, uint64_t count, size_t size);
void peer_wait_readable(void *peer);
size_t peer_recv_text(void *peer, char *out, size_t room);
int peer_try_recv_text(void *peer, char *out, size_t room);
void pump_recv_text(struct fixture *f, void *peer, char *out, size_t room);
void pump_recv_sequence(struct fixture *f, void *peer, uint64_t first, uint64_t count);

/** An adapter and what its callbacks saw. All fields may be looked at; the hooks may be set. */
struct probe {
    struct fixture *f;
    struct evzmq_socket *socket; /* NULL once freed. */
    size_t reads;
    size_t writes;
    size_t events[EVZMQ_EVENT_ERROR + 1]; /* By type. */
    size_t events_all;
    uint64_t bytes;
    uint64_t sequence; /* The next number read_sequence() expects. */
    struct evzmq_event last; /* Its message is gone. */
    char log[2048]; /* What came, in order, separated by spaces; full: the rest is not noted. */
    void (*on_read)(struct probe *p, struct evzmq_message *message);
    void (*on_write)(struct probe *p);
    void (*on_event)(struct probe *p, const struct evzmq_event *event);
    void *arg; /* The test's own. */
};

/* Attaches with all three callbacks set and nothing but EV_WRITE enabled. */
void probe_attach(struct fixture *f, struct probe *p, void *zmq_socket, unsigned options);
void probe_enable(struct probe *p, short events);
/* Lets a pass take its time, so that what it does is the same on a machine that is busy: for tests
 * that count the calls of a pass. The other limits stay the defaults. */
void probe_take_time(struct probe *p);
void probe_free(struct probe *p);
struct evzmq_socket_stats probe_stats(const struct probe *p);
uint64_t probe_wakeups(const struct probe *p);
void probe_setcb(struct probe *p); /* Sets the three callbacks again. */

/* Hooks. */
void read_sequence(struct probe *p, struct evzmq_message *message);
void read_free(struct probe *p, struct evzmq_message *message);
void read_disable(struct probe *p, struct evzmq_message *message);

/* Messages as text: parts joined by '|'; returns out. */
char *message_text(const struct evzmq_message *message, char *out, size_t room);
void assert_part(const struct evzmq_message *message, size_t part, const void *data, size_t size);
void fill_pattern(void *buffer, size_t size, unsigned seed);
void assert_pattern(const void *data, size_t size, unsigned seed);

/* msgpack-c as the sender uses it: an array of one number and one string. */
size_t pack_record(unsigned number, const char *text, void *out, size_t room);

/* Fails the test, with errno's text where there is one, unless a call returned what it should. */
#define assert_errno(call, expected)                                                               \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_int_equal((call), -1);                                                              \
        assert_int_equal(errno, (expected));                                                       \
    } while (0)
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        const int assert_ok_result = (call);                                                       \
        assert_return_code(assert_ok_result, errno);                                               \
        assert_int_equal(assert_ok_result, 0);                                                     \
    } while (0)

#include <errno.h>

#endif /* TESTS_SUPPORT_H */
