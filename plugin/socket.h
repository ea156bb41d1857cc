/*
 * socket.h (L3): the adapter's inside, shared by the files that make it up.
 *
 *     attach.c    evzmq_socket_new, evzmq_socket_free, the types of ZeroMQ sockets
 *     options.c   everything that sets or gets
 *     socket.c    one pass: receive, flush, report, look again
 *     input.c     receiving and delivering in a pass
 *     output.c    flushing the queue in a pass
 *     feed.c      what waits outside the queue for room in it
 *     write.c     evzmq_socket_write* and evzmq_socket_reply*
 *     packing.c   many records in one message: sending
 *     unpack.c    and receiving
 *     receive.c   evzmq_socket_try_recv, _recv_many, _recv
 *     ending.c    timeouts and evzmq_socket_shutdown
 */
#ifndef EVZMQ_PLUGIN_SOCKET_H
#define EVZMQ_PLUGIN_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evzmq/socket.h>
#include <evzmq/stats.h>

#include "codec.h"
#include "drain.h"
#include "loop.h"
#include "message.h"
#include "queue.h"
#include "registry.h"

/* Where the envelope of a received message ends. */
enum evzmq__envelope {
    EVZMQ__ENVELOPE_NONE,
    EVZMQ__ENVELOPE_EMPTY, /* REP: libzmq keeps it */
    EVZMQ__ENVELOPE_ID, /* STREAM: the first part */
    EVZMQ__ENVELOPE_DELIMITED /* ROUTER: see evzmq__message_find_body() */
};

/* What a type of ZeroMQ socket can do. */
struct evzmq__type {
    int zmq_type;
    bool reads;
    bool writes;
    bool decodes; /* what is received is the user's data */
    bool routes; /* the first part of what is sent says to whom */
    bool always_pollout; /* ZMQ_POLLOUT is set whether or not what waits can be sent */
    unsigned char parts_min; /* of what is sent */
    unsigned char parts_max; /* 0: any number */
    enum evzmq__envelope envelope;
};

/* Whether a message of so many parts can be sent. libzmq does not say so: ROUTER drops a message
 * that ends with the routing id, and STREAM, where anything but a routing id and one part comes,
 * takes what follows for parts of other messages from then on. */
static inline bool evzmq__type_takes_parts(const struct evzmq__type *type, size_t count)
{
    return count >= type->parts_min && (type->parts_max == 0 || count <= type->parts_max);
}

/* Why reading is stopped: any bit is enough. One bit for each owner, so that they do not fight over
 * one flag. */
enum {
    EVZMQ__PAUSE_USER = 1 << 0, /* EV_READ is not enabled */
    EVZMQ__PAUSE_NO_CALLBACK = 1 << 1, /* nobody would take a message */
    EVZMQ__PAUSE_SHUTDOWN = 1 << 2,
    EVZMQ__PAUSE_TERMINATED = 1 << 3,
    EVZMQ__PAUSE_DYING = 1 << 4, /* freed; waits for the pass on the stack to end */
    EVZMQ__PAUSE_SWITCH = 1 << 5 /* the drain on the stack is to end; cleared at its end */
};

struct evzmq__timeouts;
struct evzmq__shutdown;
struct evzmq__feeder;
struct evzmq__packing;
struct evzmq__unpacking;

enum evzmq__feed {
    EVZMQ__FEED_MESSAGE,
    EVZMQ__FEED_EMPTY, /* it has none, and announces itself when it has */
    EVZMQ__FEED_BLOCKED, /* it has some, and there is no room for them */
    EVZMQ__FEED_OVER /* it has none and will have none: it removed itself and is gone */
};

struct evzmq__feeder_methods {
    /* Takes out the next message for which the socket's queue has room. */
    enum evzmq__feed (*take)(struct evzmq__feeder *feeder, struct evzmq_message **out);
    /* The feeder was removed because the socket is ending. With `flush` what it has still goes into
     * the queue, by evzmq__socket_enqueue(). */
    void (*close)(struct evzmq__feeder *feeder, struct evzmq_socket *socket, bool flush);
};

/* Something that has messages for a socket and waits for room in its output queue. Used by the loop
 * thread only. */
struct evzmq__feeder {
    const struct evzmq__feeder_methods *methods;
    struct evzmq_socket *socket; /* NULL once removed */
    struct evzmq__feeder *prev;
    struct evzmq__feeder *next;
    struct evzmq__feeder *next_ready;
    struct evzmq_message *held; /* taken, and not accepted because of a failure that may pass */
    bool is_ready;
    bool again; /* set by each pass: what was blocked before may find room now */
};

struct evzmq__feeders {
    struct evzmq__feeder *first;
    struct evzmq__feeder *ready_first;
    struct evzmq__feeder *ready_last; /* valid while ready_first is not NULL */
};

/* struct evzmq_socket_stats without its gauges. */
struct evzmq__counters {
    uint64_t messages_in;
    uint64_t bytes_in;
    uint64_t messages_out;
    uint64_t bytes_out;
    uint64_t wakeups;
    uint64_t wakeups_empty;
    uint64_t budget_hits;
    uint64_t continuations;
    uint64_t receive_eagains;
    uint64_t send_eagains;
    uint64_t spills;
    uint64_t oversize_dropped;
    uint64_t oversize_bytes;
    uint64_t undeliverable;
    uint64_t writes_refused;
    uint64_t writes_after_shutdown;
    uint64_t restarts;
    uint64_t sheds; /* see evzmq__socket_shed() */
    uint64_t decode_errors[EVZMQ_DECODE_KINDS];
};

struct evzmq_socket {
    struct evzmq__base *base;
    struct evzmq__source *source;
    void *zmq_socket;
    const struct evzmq__type *type;
    struct evzmq__attachment attachment;

    evzmq_read_cb read_cb;
    evzmq_write_cb write_cb;
    evzmq_event_cb event_cb;
    void *arg;

    struct evzmq_codec *codec;
    struct evzmq_codec *codec_retired; /* replaced while a message it decoded was in delivery */

    unsigned references; /* the user's, one for a pass, one for a waiting recv */
    unsigned pause; /* EVZMQ__PAUSE_* */
    unsigned recheck_usec; /* the delay of the next recheck; see arrange_recheck() */
    int terminal_error; /* ETERM or ENOTSOCK, once reported */
    unsigned short_way_max; /* see evzmq__socket_choose_way() */
    unsigned char mode; /* enum evzmq_receive_mode */
    bool close_on_free;
    bool write_enabled;
    bool in_pass;
    bool is_receiving; /* in the drain of a pass */
    bool touched; /* libzmq was called since ZMQ_EVENTS was last known to be attended to */
    bool mid_message; /* the first queued message is half with libzmq: nothing may come between */
    bool reply_due; /* REP: a request waits for its reply */
    bool default_read_messages; /* the user left that budget to us */
    bool sheds; /* PUB and XPUB: what one subscriber has no room for goes to the others */

    struct evzmq__message_limits limits;
    struct evzmq__budget read_budget;
    struct evzmq__budget write_budget;
    struct evzmq__queue queue;
    struct evzmq__feeders feeders;
    struct evzmq_message *partial; /* begun, not yet whole; see evzmq__message_recv() */

    struct evzmq__packing *packing; /* NULL until set */
    struct evzmq__unpacking *unpacking; /* NULL until set */
    struct evzmq__timeouts *timeouts; /* NULL until set */
    struct evzmq__shutdown *shutdown; /* NULL until begun */
    struct evzmq__counters counters;
};

/* One call of service(): what is left of the budgets, and what was done. */
struct evzmq__pass {
    struct evzmq_socket *socket;
    struct evzmq__meter read;
    struct evzmq__meter write;
    uint64_t started; /* nanoseconds */
    uint64_t messages_in_before; /* the counter at the start */
    uint64_t sent;
    uint64_t fed; /* messages that came from feeders */
    uint64_t reported; /* callbacks other than the read callback */
    bool writing; /* the write meter runs */
    bool unfed; /* the budget ended while feeders were served */
    bool retry; /* a failure that may pass: the pass ends, and another one is arranged */
};

/* socket.c */

/* The wakeup of a source: makes one pass. */
void evzmq__socket_service(void *arg, enum evzmq__wakeup why);

/* After anything that may have changed ZMQ_EVENTS or what there is to do: has a pass look, this one
 * if one of this socket is running, or else one in the next turn of the loop. */
void evzmq__socket_attend(struct evzmq_socket *socket);

/* Arranges a pass a little later: there may be memory then for what could not be done now. */
void evzmq__socket_retry(struct evzmq_socket *socket);

/* Reads ZMQ_EVENTS, which also has libzmq process its commands. Returns the events, or -1 with
 * errno. */
int evzmq__socket_look(struct evzmq_socket *socket);

/* References, for whoever must find the struct in place after a callback. */
void evzmq__socket_ref(struct evzmq_socket *socket);
void evzmq__socket_unref(struct evzmq_socket *socket);

/* Around callbacks that do not come from a pass: false when none may run (a forked child). */
bool evzmq__socket_enter(struct evzmq_socket *socket);
void evzmq__socket_leave(struct evzmq_socket *socket);

/* Calls the event callback, where there is one. */
void evzmq__socket_report(struct evzmq_socket *socket, const struct evzmq_event *event);

/* Whether the socket can still do anything: neither freed nor terminated, nor in a child that was
 * forked in a callback and returned from it. */
static inline bool evzmq__socket_is_alive(const struct evzmq_socket *socket)
{
    return (socket->pause & (EVZMQ__PAUSE_DYING | EVZMQ__PAUSE_TERMINATED)) == 0 &&
           !evzmq__base_is_stale(socket->base);
}

/* Whether a call may use the socket. Returns 0, or -1 with EINVAL, ECHILD or the terminal error. */
int evzmq__socket_check(const struct evzmq_socket *socket);

/* Whether an error of libzmq means that the socket is at its end. */
bool evzmq__is_terminal(int error);

/* The context was terminated, or the socket closed by somebody else: takes the socket off the loop
 * and reports that. */
void evzmq__pass_terminate(struct evzmq__pass *pass, int error);

/* Ends the pass after a failure that may pass, and arranges another one. */
enum evzmq__step evzmq__pass_retry_later(struct evzmq__pass *pass, int error);

/* input.c */

/* Receives and delivers until there is nothing left or the budget is spent. */
enum evzmq__drain_stop evzmq__pass_receive(struct evzmq__pass *pass);

/* What the drain is to do after a callback. */
enum evzmq__step evzmq__after_callback(const struct evzmq_socket *socket);

/* Reports a message that could not be decoded, and one that was dropped for its size. */
enum evzmq__step evzmq__pass_report_bad(struct evzmq__pass *pass, struct evzmq_message *message);
enum evzmq__step evzmq__pass_report_skipped(struct evzmq__pass *pass,
                                            const struct evzmq_message *message);

/* What a failed receive leaves to be done. */
enum evzmq__step evzmq__pass_receive_failed(struct evzmq__pass *pass, int error);

/* Makes the arena of decoded values, where there is none. Returns 0, or -1 with ENOMEM. */
int evzmq__base_prepare_arena(struct evzmq__base *base);

/* To be called when the receive mode or the limits were set: chooses up to how many bytes a message
 * of one part may go the short way through a pass. 0: none may. */
void evzmq__socket_choose_way(struct evzmq_socket *socket);

/* Sets the envelope of a received message, as its socket's type has it. */
void evzmq__socket_set_envelope(const struct evzmq_socket *socket, struct evzmq_message *message);

/* output.c */

/* Sends what is queued, within the write budget; parks what cannot go. */
void evzmq__pass_flush(struct evzmq__pass *pass);

/* Starts the write budget of a pass, where it does not run yet. */
void evzmq__pass_start_writing(struct evzmq__pass *pass);

/* Reports a message that libzmq refuses for good, and frees it. Returns how the drain goes on. */
enum evzmq__step evzmq__pass_give_up(struct evzmq__pass *pass, struct evzmq_message *message,
                                     int error);

/* Runs the callbacks for the marks that the queue crossed. */
void evzmq__pass_report_marks(struct evzmq__pass *pass);

/* feed.c */

/* Adds a feeder, with its methods set; removes it. Neither calls a method. */
void evzmq__feeder_add(struct evzmq__feeder *feeder, struct evzmq_socket *socket);
void evzmq__feeder_remove(struct evzmq__feeder *feeder);

/* The feeder has something: a pass will ask it. */
void evzmq__feeder_announce(struct evzmq__feeder *feeder);

/* Removes and closes all feeders of a socket. */
void evzmq__feeders_close(struct evzmq_socket *socket, bool flush);

/* Whether the queue has room for a message, whose entry's bytes are set. */
bool evzmq__socket_has_room(const struct evzmq_socket *socket, const struct evzmq_message *message);

/* Lets the feeders fill the queue, within the write budget. */
void evzmq__pass_feed(struct evzmq__pass *pass);

/* write.c */

/* Sends parts now or queues them. On success they are taken over; on failure they are unchanged.
 * `whole` is the message the parts are of, which is taken over too, or NULL. */
int evzmq__socket_submit(struct evzmq_socket *socket, struct evzmq__part *parts, size_t count,
                         struct evzmq_message *whole);

/* Asks for room for a message of one part before that is made, so that one that is refused costs
 * nothing. Returns 0, where nothing is promised, or -1 with EAGAIN, counted, where
 * evzmq__socket_submit() would say so. */
int evzmq__socket_ask(struct evzmq_socket *socket, size_t size);

/* Whether the socket takes writes now. Returns 0, or -1 with errno. */
int evzmq__socket_check_writable(struct evzmq_socket *socket);

/* Sends parts now, or fails as evzmq__parts_send() does; with EAGAIN after asking twice. */
int evzmq__socket_send_now(struct evzmq_socket *socket, struct evzmq__part *parts, size_t count,
                           size_t *parts_sent);

/* Queues a message, whose entry's bytes are set, whatever the limits of the queue. Returns 0 with
 * the message taken over, or -1 with ENOMEM. */
int evzmq__socket_enqueue(struct evzmq_socket *socket, struct evzmq_message *message);

/* After EAGAIN on a PUB or XPUB socket that does not drop (ZMQ_XPUB_NODROP) and sheds: sends all
 * the same, to those who have room. libzmq then takes a full subscriber off its list until that has
 * read half of its high water mark, and says nothing more of it meanwhile; so what is counted is
 * how often that begins. Returns as evzmq__parts_send(). */
int evzmq__socket_shed(struct evzmq_socket *socket, struct evzmq__part *parts, size_t count,
                       size_t *parts_sent);

/* receive.c */

/* Receives one whole message into `message`, past those that are dropped for their size. Returns 0,
 * or -1 with errno. */
int evzmq__socket_receive_whole(struct evzmq_socket *socket, struct evzmq_message *message);

/* What such a failure leaves to be done. */
void evzmq__socket_receive_failed(struct evzmq_socket *socket, int error);

/* Decodes a message that is about to be handed over. Only running out of memory is a failure: what
 * the peer sent is the user's to look at. */
void evzmq__socket_finish_message(struct evzmq_socket *socket, struct evzmq_message *message);

/* ending.c */

/* Whether a time is one: NULL, or not negative and with less than a second of microseconds. */
bool evzmq__is_time(const struct timeval *time);

/* Notes that messages went in or out during a pass; (re)starts or stops the timers as needed. */
void evzmq__timeouts_update(struct evzmq_socket *socket, bool received, bool sent);
void evzmq__timeouts_free(struct evzmq_socket *socket);

/* Called at the end of a pass, and when the socket terminated: reports a shutdown that is done. */
void evzmq__shutdown_update(struct evzmq_socket *socket);
void evzmq__shutdown_free(struct evzmq_socket *socket);

/* How many messages a pass has received. */
static inline uint64_t evzmq__pass_received(const struct evzmq__pass *pass)
{
    return pass->socket->counters.messages_in - pass->messages_in_before;
}

#endif /* EVZMQ_PLUGIN_SOCKET_H */
