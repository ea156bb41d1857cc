/**
 * @file test_fairness.c
 * Who gets how many turns while a socket is flooded. All of it is counted, none of it is timed: the
 * floods lie in the pipes before the loop runs, or are renewed by whoever reads them.
 */
#include "support.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

/* Messages in a pass, where a test says how many. */
enum { PER_PASS = 20 };

/* No pass ends by the clock: a machine that is busy with other things would decide then. */
enum { NO_LIMIT_USEC = 600000000 };

/* A socket whose pipe never gets empty: its reader sends the next message for each it gets. */
struct flood {
    struct probe p;
    void *peer;
    uint64_t sent;
    uint64_t pass; /* the number of the pass that delivered last */
    size_t in_pass; /* messages in it so far */
    size_t in_pass_max;
    void (*more)(struct flood *flood); /* on each message; may be NULL */
    void *arg;
};

static void read_flood(struct probe *p, struct evzmq_message *message)
{
    struct flood *const flood = p->arg;
    const uint64_t pass = probe_wakeups(p);

    read_sequence(p, message);
    peer_send_sequence(flood->peer, flood->sent++, 1, 8);
    if (pass != flood->pass) {
        flood->pass = pass;
        flood->in_pass = 0;
    }
    flood->in_pass++;
    if (flood->in_pass > flood->in_pass_max) {
        flood->in_pass_max = flood->in_pass;
    }
    if (flood->more != NULL) {
        flood->more(flood);
    }
}

static void open_flood(struct fixture *f, struct flood *flood, size_t per_pass)
{
    const struct evzmq_budget budget = {.size = sizeof budget,
                                        .read_messages = per_pass,
                                        .read_usec = NO_LIMIT_USEC,
                                        .write_messages = per_pass,
                                        .write_usec = NO_LIMIT_USEC};
    void *dealer = NULL;

    flood->p.arg = flood;
    flood->p.on_read = read_flood;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_DEALER, &dealer, ZMQ_DEALER, &flood->peer);
    probe_attach(f, &flood->p, dealer, 0);
    assert_ok(evzmq_socket_set_budget(flood->p.socket, &budget));
    probe_enable(&flood->p, EV_READ);
    peer_send_sequence(flood->peer, 0, 200, 8);
    flood->sent = 200;
}

static void break_at_10000(struct flood *flood)
{
    if (flood->p.reads == 10000) {
        assert_int_equal(event_base_loopbreak(flood->p.f->base), 0);
    }
}

static void assert_within_a_factor_of_1_5(size_t left, size_t right)
{
    assert_true(left * 2 <= right * 3);
    assert_true(right * 2 <= left * 3);
}

static void two_flooded_sockets_get_counts_within_a_factor_of_1_5(void **state)
{
    struct fixture *const f = *state;
    static const size_t per_pass[] = {1, PER_PASS, 0}; /* 0: the default */

    for (size_t i = 0; i < 3; i++) {
        struct flood floods[2] = {{.more = break_at_10000}, {.more = break_at_10000}};

        open_flood(f, &floods[0], per_pass[i]);
        open_flood(f, &floods[1], per_pass[i]);
        assert_int_equal(fixture_loop(f, 0), 0);
        assert_within_a_factor_of_1_5(floods[0].p.reads, floods[1].p.reads);
        probe_free(&floods[0].p);
        probe_free(&floods[1].p);
    }
}

static void of_many_flooded_sockets_none_is_forgotten(void **state)
{
    struct fixture *const f = *state;
    struct flood floods[10];

    memset(floods, 0, sizeof floods);
    for (size_t i = 0; i < 10; i++) {
        open_flood(f, &floods[i], PER_PASS);
    }
    floods[3].more = break_at_10000;
    assert_int_equal(fixture_loop(f, 0), 0);
    for (size_t i = 0; i < 10; i++) {
        assert_within_a_factor_of_1_5(floods[3].p.reads, floods[i].p.reads);
        probe_free(&floods[i].p);
    }
}

/* A socket with little to do beside one with much: its message waits for one pass at most. */
static void a_quiet_socket_waits_for_one_pass_of_a_flooded_one(void **state)
{
    struct fixture *const f = *state;
    struct flood flood = {.sent = 0};
    struct probe quiet = {.on_read = read_sequence};
    void *pull = NULL;
    void *push = NULL;

    open_flood(f, &flood, PER_PASS);
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &quiet, pull, 0);
    probe_enable(&quiet, EV_READ);
    run_until(f, flood.p.reads >= 1000);
    for (uint64_t i = 0; i < 500; i++) {
        const size_t before = flood.p.reads;

        peer_send_sequence(push, i, 1, 8);
        run_until(f, quiet.reads == i + 1);
        assert_true(flood.p.reads <= before + 2 * PER_PASS);
    }
    probe_free(&quiet);
    probe_free(&flood.p);
}

/* A timer that is always due, and what it saw. */
struct ticker {
    struct event *event;
    struct flood *flood;
    uint64_t ticks;
    uint64_t passes; /* at the last tick */
    uint64_t passes_between_max;
};

static void tick(evutil_socket_t fd, short events, void *arg)
{
    struct ticker *const ticker = arg;
    const struct timeval now = {0, 0};
    const uint64_t passes = probe_wakeups(&ticker->flood->p);

    (void)fd;
    (void)events;
    if (passes - ticker->passes > ticker->passes_between_max) {
        ticker->passes_between_max = passes - ticker->passes;
    }
    ticker->passes = passes;
    ticker->ticks++;
    assert_int_equal(event_add(ticker->event, &now), 0);
}

static void a_timer_that_is_due_gets_its_turn_between_any_two_passes(void **state)
{
    struct fixture *const f = *state;
    const struct timeval now = {0, 0};
    struct flood flood = {.more = break_at_10000};
    struct ticker ticker = {.flood = &flood};

    open_flood(f, &flood, PER_PASS);
    ticker.event = event_new(f->base, -1, 0, tick, &ticker);
    assert_int_equal(event_add(ticker.event, &now), 0);
    assert_int_equal(fixture_loop(f, 0), 0);
    assert_int_equal(ticker.passes_between_max, 1);
    assert_true(ticker.ticks >= 10000 / PER_PASS - 1);
    event_free(ticker.event);
    probe_free(&flood.p);
}

/* A bufferevent that sends back what it gets, and a client that counts its echoes. */
struct echo {
    struct bufferevent *server;
    struct bufferevent *client;
    size_t echoes;
};

static void send_back(struct bufferevent *server, void *arg)
{
    (void)arg;
    (void)bufferevent_read_buffer(server, bufferevent_get_output(server));
}

static void count_echoes(struct bufferevent *client, void *arg)
{
    struct echo *const echo = arg;
    struct evbuffer *const input = bufferevent_get_input(client);
    const size_t count = evbuffer_get_length(input);

    (void)evbuffer_drain(input, count);
    echo->echoes += count;
    (void)bufferevent_write(client, "x", 1); /* The next one. */
}

static void open_tcp(int fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&address, sizeof address), 0);
    fds[1] = accept(listener, NULL, NULL);
    assert_true(fds[1] >= 0);
    (void)close(listener);
}

static void open_echo(struct fixture *f, struct echo *echo, const int fds[2])
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(evutil_make_socket_nonblocking(fds[i]), 0);
    }
    echo->server = bufferevent_socket_new(f->base, fds[0], BEV_OPT_CLOSE_ON_FREE);
    echo->client = bufferevent_socket_new(f->base, fds[1], BEV_OPT_CLOSE_ON_FREE);
    assert_non_null(echo->server);
    assert_non_null(echo->client);
    bufferevent_setcb(echo->server, send_back, NULL, NULL, NULL);
    bufferevent_setcb(echo->client, count_echoes, NULL, NULL, echo);
    assert_int_equal(bufferevent_enable(echo->server, EV_READ | EV_WRITE), 0);
    assert_int_equal(bufferevent_enable(echo->client, EV_READ | EV_WRITE), 0);
    assert_int_equal(bufferevent_write(echo->client, "x", 1), 0);
}

static void close_echo(const struct echo *echo)
{
    bufferevent_free(echo->server);
    bufferevent_free(echo->client);
}

static void a_tcp_echo_goes_on_beside_a_flood_that_never_ends(void **state)
{
    struct fixture *const f = *state;
    struct flood flood = {.sent = 0};
    struct echo echo = {.echoes = 0};
    int fds[2];

    open_flood(f, &flood, 0);
    open_tcp(fds);
    open_echo(f, &echo, fds);
    run_until(f, echo.echoes >= 200);
    assert_true(flood.p.reads > 0);
    close_echo(&echo);
    probe_free(&flood.p);
}

/* How fast TCP is on the way through the kernel is not for us to say; a pair of local sockets has
 * what was written at once, so that turns of the loop can be counted. */
static void an_echo_takes_no_more_than_a_few_passes_of_a_flooded_socket(void **state)
{
    struct fixture *const f = *state;
    enum { ECHOES = 500, PASSES_EACH = 6 }; /* Written, read, written and read: four turns. */
    struct flood flood = {.sent = 0};
    struct echo echo = {.echoes = 0};
    int fds[2];

    open_flood(f, &flood, PER_PASS);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    open_echo(f, &echo, fds);
    run_until(f, echo.echoes >= ECHOES);
    assert_true(flood.p.reads <= ECHOES * PASSES_EACH * PER_PASS);
    close_echo(&echo);
    probe_free(&flood.p);
}

static void answer_tenfold(struct flood *flood)
{
    for (int i = 0; i < 10; i++) {
        if (evzmq_socket_write(flood->p.socket, "reply", 5) < 0) {
            assert_int_equal(errno, EAGAIN);
        }
    }
}

static void replies_written_in_the_read_callback_do_not_stretch_a_pass(void **state)
{
    struct fixture *const f = *state;
    /* Replies that nobody reads fill the pipe, then the queue; the drained ones go out at once. */
    for (int drained = 0; drained <= 1; drained++) {
        struct flood flood = {.more = answer_tenfold};
        char text[16];

        open_flood(f, &flood, PER_PASS);
        while (flood.p.reads < 5000) {
            fixture_turn(f);
            while (drained && peer_try_recv_text(flood.peer, text, sizeof text)) {
            }
        }
        assert_int_equal(flood.in_pass_max, PER_PASS);
        assert_true(evzmq_socket_get_queued(flood.p.socket, NULL) > 0 || drained);
        probe_free(&flood.p);
    }
}

/* The peer's answers come back within the pass, each as a message to answer again. */
static void bounce(struct flood *flood)
{
    char text[16];

    assert_ok(evzmq_socket_write(flood->p.socket, "ball", 4));
    (void)peer_recv_text(flood->peer, text, sizeof text);
    peer_send_sequence(flood->peer, flood->sent++, 1, 8);
    assert_true(flood->sent < 10000000);
    (void)peer_try_recv_text(flood->peer, text, sizeof text);
}

static void replies_that_bring_new_requests_do_not_stretch_a_pass(void **state)
{
    struct fixture *const f = *state;
    struct flood flood = {.more = bounce};

    open_flood(f, &flood, PER_PASS);
    run_until(f, flood.p.reads >= 800); /* Each message leaves one more in the pipe, of 1,000. */
    assert_int_equal(flood.in_pass_max, PER_PASS);
    probe_free(&flood.p);
}

/* Output that is queued waits for no more than the read budget, and input for the write budget. */
static void a_flood_of_input_does_not_hold_up_queued_output(void **state)
{
    struct fixture *const f = *state;
    struct flood flood = {.sent = 0};
    char text[16];
    size_t answers = 0;

    open_flood(f, &flood, PER_PASS);
    assert_ok(evzmq_socket_disable(flood.p.socket, EV_WRITE));
    for (int i = 0; i < 1000; i++) {
        assert_ok(evzmq_socket_write(flood.p.socket, "queued", 6));
    }
    run_until(f, flood.p.reads >= 1000);
    const size_t before = flood.p.reads;
    probe_enable(&flood.p, EV_WRITE);
    while (answers < 1000) {
        fixture_turn(f);
        while (peer_try_recv_text(flood.peer, text, sizeof text)) {
            assert_string_equal(text, "queued");
            answers++;
        }
    }
    /* As much went out in each pass as came in, but for the first and last one. */
    assert_true(flood.p.reads - before <= 1000 + 3 * PER_PASS);
    assert_int_equal(flood.in_pass_max, PER_PASS);
    probe_free(&flood.p);
}

static void a_more_urgent_flood_starves_the_others_as_libevent_has_it(void **state)
{
    struct fixture *const f = *state;
    struct flood urgent = {.more = break_at_10000};
    struct flood patient = {.sent = 0};

    assert_int_equal(event_base_priority_init(f->base, 2), 0);
    open_flood(f, &urgent, PER_PASS);
    open_flood(f, &patient, PER_PASS);
    assert_ok(evzmq_socket_priority_set(urgent.p.socket, 0));
    assert_ok(evzmq_socket_priority_set(patient.p.socket, 1));
    assert_int_equal(fixture_loop(f, 0), 0);
    assert_true(patient.p.reads <= urgent.p.reads / 10);
    assert_ok(evzmq_socket_disable(urgent.p.socket, EV_READ));
    run_until(f, patient.p.reads >= 1000); /* And nothing of it is lost. */
    probe_free(&urgent.p);
    probe_free(&patient.p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(two_flooded_sockets_get_counts_within_a_factor_of_1_5),
        claim(of_many_flooded_sockets_none_is_forgotten),
        claim(a_quiet_socket_waits_for_one_pass_of_a_flooded_one),
        claim(a_timer_that_is_due_gets_its_turn_between_any_two_passes),
        claim(a_tcp_echo_goes_on_beside_a_flood_that_never_ends),
        claim(an_echo_takes_no_more_than_a_few_passes_of_a_flooded_socket),
        claim(replies_written_in_the_read_callback_do_not_stretch_a_pass),
        claim(replies_that_bring_new_requests_do_not_stretch_a_pass),
        claim(a_flood_of_input_does_not_hold_up_queued_output),
        claim(a_more_urgent_flood_starves_the_others_as_libevent_has_it),
    };

    return run_claims(tests);
}
