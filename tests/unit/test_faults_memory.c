/*
 * Memory that runs out while attaching, writing and ending.
 */
#include "attempt.h"

#include <string.h>

#include <evzmq/msgpack.h>

#include "socket.h"

/* What is there, and with what the loop must run. */
static void assert_peer_gets(struct attempt *a, const char *expected)
{
    char text[256];
    run_until(a->f, evzmq_socket_get_queued(a->p.socket, NULL) == 0);
    (void)peer_recv_text(a->peer, text, sizeof(text));
    assert_string_equal(text, expected);
    assert_false(peer_try_recv_text(a->peer, text, sizeof(text)));
}

static void refuse_to_send(struct attempt *a)
{
    assert_ok(evzmq_socket_disable(a->p.socket, EV_WRITE));
}

static void send_again(struct attempt *a)
{
    assert_ok(evzmq_socket_enable(a->p.socket, EV_WRITE));
}

/* Attaching. */
static void send_first(struct attempt *a)
{
    peer_send_text(a->peer, "early");
}

static int act_attach(struct attempt *a)
{
    a->p.socket = evzmq_socket_new(a->f->base, a->socket, 0);
    if (a->p.socket == NULL) {
        return -1;
    }
    a->f->attached++;
    return 0;
}

static void check_attach(struct attempt *a)
{
    probe_setcb(&a->p);
    a->p.socket->pause &=
        ~(unsigned)EVZMQ__PAUSE_USER; /* not enable(): it would have a pass look */
    run_until(a->f, a->p.reads == 1);
}

static void attaching_without_memory_leaves_the_socket_the_callers(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .unattached = true,
                                      .prepare = send_first,
                                      .act = act_attach,
                                      .check = check_attach};
    run_scenario(*state, &scenario);
}

/* Writing. */
static int act_write(struct attempt *a)
{
    return evzmq_socket_write(a->p.socket, "hello", 5);
}

static void check_write(struct attempt *a)
{
    send_again(a);
    assert_peer_gets(a, "hello");
}

static void write_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {
        .type = ZMQ_PUSH, .peer_type = ZMQ_PULL, .act = act_write, .check = check_write};
    run_scenario(*state, &scenario);
}

static void queued_write_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_PUSH,
                                      .peer_type = ZMQ_PULL,
                                      .prepare = refuse_to_send,
                                      .act = act_write,
                                      .check = check_write};
    run_scenario(*state, &scenario);
}

static int act_write_parts(struct attempt *a)
{
    static const struct evzmq_bytes parts[] = {{"P", 1}, {"1", 1}, {"2", 1}, {"3", 1}, {"4", 1},
                                               {"5", 1}, {"6", 1}, {"7", 1}, {"8", 1}, {"9", 1}};
    return evzmq_socket_write_parts(a->p.socket, parts, sizeof(parts) / sizeof(parts[0]));
}

static void check_write_parts(struct attempt *a)
{
    send_again(a);
    assert_peer_gets(a, "1|2|3|4|5|6|7|8|9");
}

static void write_parts_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .act = act_write_parts,
                                      .check = check_write_parts};
    run_scenario(*state, &scenario);
}

static void queued_write_parts_to_a_peer_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = refuse_to_send,
                                      .act = act_write_parts,
                                      .check = check_write_parts};
    run_scenario(*state, &scenario);
}

static void make_message_and_refuse(struct attempt *a)
{
    make_message(a);
    refuse_to_send(a);
}

static int act_write_message(struct attempt *a)
{
    const int result = evzmq_socket_write_message(a->p.socket, a->message);
    const int error = errno;
    if (result == 0) {
        a->message = NULL;
    } else {
        char text[64];
        assert_string_equal(message_text(a->message, text, sizeof(text)), "P|1|2");
    }
    errno = error;
    return result;
}

static void check_write_message(struct attempt *a)
{
    send_again(a);
    assert_peer_gets(a, "1|2");
}

static void message_that_cannot_be_queued_stays_the_callers(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = make_message_and_refuse,
                                      .act = act_write_message,
                                      .check = check_write_message};
    run_scenario(*state, &scenario);
}

/* A signal interrupts the message after its first part, and there is no memory to queue it. */
static int act_write_interrupted(struct attempt *a)
{
    faults_plan(FAULT_SEND, 2, 150, EINTR);
    return act_write_parts(a);
}

static void interrupted_write_without_memory_is_sent_whole_or_not_at_all(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .act = act_write_interrupted,
                                      .check = check_write_parts};
    run_scenario(*state, &scenario);
}

static int act_write_value(struct attempt *a)
{
    const msgpack_object value = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = 'x'};
    return evzmq_socket_write_value(a->p.socket, &value);
}

static void check_write_value(struct attempt *a)
{
    assert_peer_gets(a, "x");
}

static void write_value_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_PUSH,
                                      .peer_type = ZMQ_PULL,
                                      .prepare = use_msgpack,
                                      .act = act_write_value,
                                      .check = check_write_value};
    run_scenario(*state, &scenario);
}

static void receive_and_refuse(struct attempt *a)
{
    receive_large_and_small(a);
    refuse_to_send(a);
}

static int act_reply(struct attempt *a)
{
    return evzmq_socket_reply(a->p.socket, evzmq_message_get_envelope(a->message), "answer", 6);
}

static void check_reply(struct attempt *a)
{
    send_again(a);
    assert_peer_gets(a, "answer");
}

static void reply_without_memory_sends_nothing(void **state)
{
    const struct scenario scenario = {.type = ZMQ_ROUTER,
                                      .peer_type = ZMQ_DEALER,
                                      .prepare = receive_and_refuse,
                                      .act = act_reply,
                                      .check = check_reply};
    run_scenario(*state, &scenario);
}

/* Ending. */
static void count_done(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                       void *arg)
{
    struct attempt *const a = arg;
    (void)socket;
    assert_int_equal(handed_over, 1);
    assert_int_equal(not_handed_over, 0);
    a->freed++;
}

static void queue_one(struct attempt *a)
{
    refuse_to_send(a);
    assert_ok(evzmq_socket_write(a->p.socket, "last", 4));
}

static int act_shutdown(struct attempt *a)
{
    const struct timeval deadline = {30, 0};
    return evzmq_socket_shutdown(a->p.socket, &deadline, count_done, a);
}

static void check_shutdown(struct attempt *a)
{
    run_until(a->f, a->freed == 1);
    assert_peer_gets(a, "last");
}

static void shutdown_without_memory_did_not_begin(void **state)
{
    const struct scenario scenario = {.type = ZMQ_PUSH,
                                      .peer_type = ZMQ_PULL,
                                      .prepare = queue_one,
                                      .act = act_shutdown,
                                      .check = check_shutdown};
    run_scenario(*state, &scenario);
}

/* The struct of both timeouts may stay, a timeout that was not set may not pass. */
static void timeouts_that_could_not_be_set_do_not_pass(void **state)
{
    struct fixture *f = *state;
    const struct scenario scenario = {.type = ZMQ_DEALER, .peer_type = ZMQ_DEALER};
    const struct timeval hour = {3600, 0};
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        struct attempt a;
        begin_attempt(&a, f, &scenario);
        faults_begin(a.socket);
        faults_plan(FAULTS_MEMORY, n, FOR_EVER, ENOMEM);
        probe_enable(&a.p, EV_READ);
        const int result = evzmq_socket_set_timeouts(a.p.socket, &hour, &hour);
        assert_true(result == 0 || errno == ENOMEM);
        faults_end();
        reached = faults_made(FAULTS_MEMORY) > 0;
        peer_send_text(a.peer, "a");
        run_until(f, a.p.reads == 1);
        for (int turns = 0; turns < 3; turns++) {
            fixture_glance(f);
        }
        assert_int_equal(a.p.events_all, 0);
        assert_ok(evzmq_socket_set_timeouts(a.p.socket, &hour, &hour));
        assert_ok(evzmq_socket_set_timeouts(a.p.socket, NULL, NULL));
        end_attempt(&a, &scenario);
        assert_true(n < 50);
    }
}

/* libevent's own memory. */
static void ignore(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

/* Fills the heap of the base's timers to the last place it has memory for, and takes that memory
 * away. Returns how many timers that were. */
static size_t fill_timers(struct fixture *f, struct event *timers[64])
{
    const struct timeval hour = {3600, 0};
    size_t count = 0;
    for (size_t i = 0; i < 64; i++) {
        timers[i] = evtimer_new(f->base, ignore, NULL);
    }
    faults_begin(NULL);
    faults_plan(FAULT_LIBEVENT, 1, FOR_EVER, ENOMEM);
    while (evtimer_add(timers[count], &hour) == 0) {
        count++;
        assert_true(count < 64);
    }
    return count;
}

/* A wakeup that could not be arranged would be missed for good: nothing else comes. */
static void enabling_without_memory_for_timers_delivers_what_waits(void **state)
{
    struct fixture *f = *state;
    const struct scenario scenario = {.type = ZMQ_PULL, .peer_type = ZMQ_PUSH};
    struct attempt a;
    struct event *timers[64];

    begin_attempt(&a, f, &scenario);
    peer_send_text(a.peer, "a");
    fixture_glance(f); /* uses up the edge */
    (void)fill_timers(f, timers);
    probe_enable(&a.p, EV_READ);
    fixture_glance(f);
    faults_end();
    assert_int_equal(a.p.reads, 1);
    for (size_t i = 0; i < 64; i++) {
        event_free(timers[i]);
    }
    end_attempt(&a, &scenario);
}

static void attaching_without_memory_for_timers_fails(void **state)
{
    struct fixture *f = *state;
    const struct scenario scenario = {.type = ZMQ_PULL, .peer_type = ZMQ_PUSH, .unattached = true};
    struct attempt a;
    struct event *timers[64];

    begin_attempt(&a, f, &scenario);
    (void)fill_timers(f, timers);
    errno = 0;
    assert_null(evzmq_socket_new(f->base, a.socket, 0));
    assert_int_equal(errno, ENOMEM);
    faults_end();
    for (size_t i = 0; i < 64; i++) {
        event_free(timers[i]);
    }
    probe_attach(f, &a.p, a.socket, 0);
    end_attempt(&a, &scenario);
}

/* libevent passes on what the system says, such as ENOSPC for too many watches. */
static void an_event_that_cannot_be_had_is_enomem_whatever_the_reason(void **state)
{
    struct fixture *f = *state;
    void *pull = peer_new(f, ZMQ_PULL);
    static const unsigned calls[] = {FAULT_EVENT_NEW, FAULT_EVENT_ADD};
    for (size_t i = 0; i < 2; i++) {
        faults_begin(pull);
        faults_plan(calls[i], 1, FOR_EVER, ENOSPC);
        errno = 0;
        assert_null(evzmq_socket_new(f->base, pull, 0));
        const int error = errno;
        faults_end();
        assert_int_equal(error, ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(attaching_without_memory_leaves_the_socket_the_callers),
        claim(write_without_memory_sends_nothing),
        claim(queued_write_without_memory_sends_nothing),
        claim(write_parts_without_memory_sends_nothing),
        claim(queued_write_parts_to_a_peer_without_memory_sends_nothing),
        claim(message_that_cannot_be_queued_stays_the_callers),
        claim(interrupted_write_without_memory_is_sent_whole_or_not_at_all),
        claim(write_value_without_memory_sends_nothing),
        claim(reply_without_memory_sends_nothing),
        claim(shutdown_without_memory_did_not_begin),
        claim(timeouts_that_could_not_be_set_do_not_pass),
        claim(enabling_without_memory_for_timers_delivers_what_waits),
        claim(attaching_without_memory_for_timers_fails),
        claim(an_event_that_cannot_be_had_is_enomem_whatever_the_reason),
    };
    return run_claims(tests);
}
