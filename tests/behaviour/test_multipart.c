/**
 * @file test_multipart.c
 * A message is all of its parts or nothing, whatever happens to its sender, receiver or peer.
 */
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "raw.h"

#define MANY 300

static void read_many_parts(struct probe *p, struct evzmq_message *message)
{
    const size_t count = evzmq_message_get_part_count(message);

    (void)p;
    assert_int_equal(count, MANY);
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        const void *const data = evzmq_message_get_part(message, i, &size);

        assert_int_equal(size, (i * 37) % 2000);
        assert_pattern(data, size, (unsigned)i);
    }
}

static void all_parts_of_a_message_arrive_together_in_every_mode(void **state)
{
    struct fixture *const f = *state;

    for (int mode = EVZMQ_RECEIVE_AUTO; mode <= EVZMQ_RECEIVE_OWNED; mode++) {
        struct probe p = {.on_read = read_many_parts};
        unsigned char bytes[2000];
        void *pull = NULL;
        void *push = NULL;

        peer_pair(f, TRANSPORT_IPC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        probe_attach(f, &p, pull, 0);
        assert_ok(evzmq_base_set_receive_buffer(f->base, 10000)); /* Less than one message. */
        assert_ok(evzmq_socket_set_receive_mode(p.socket, (enum evzmq_receive_mode)mode));
        probe_enable(&p, EV_READ);
        for (int n = 0; n < 3; n++) {
            for (size_t i = 0; i < MANY; i++) {
                const size_t size = (i * 37) % 2000;

                fill_pattern(bytes, size, (unsigned)i);
                assert_int_equal(zmq_send(push, bytes, size, i + 1 < MANY ? ZMQ_SNDMORE : 0), size);
            }
        }
        run_until(f, p.reads == 3);
        probe_free(&p);
    }
}

static void read_grown(struct probe *p, struct evzmq_message *message)
{
    const size_t count = evzmq_message_get_part_count(message);

    assert_int_equal(count, (size_t)1 << (p->reads - 1));
    for (size_t i = 0; i < count; i++) {
        char bytes[100];

        fill_pattern(bytes, sizeof bytes, (unsigned)(count + i));
        assert_part(message, i, bytes, sizeof bytes);
    }
}

static void a_message_of_more_parts_than_any_before_keeps_all_of_them_in_every_mode(void **state)
{
    enum { DOUBLINGS = 10 };
    struct fixture *const f = *state;

    for (int mode = EVZMQ_RECEIVE_AUTO; mode <= EVZMQ_RECEIVE_OWNED; mode++) {
        struct probe p = {.on_read = read_grown};
        void *pull = NULL;
        void *push = NULL;

        peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        probe_attach(f, &p, pull, 0);
        assert_ok(evzmq_socket_set_receive_mode(p.socket, (enum evzmq_receive_mode)mode));
        probe_enable(&p, EV_READ);
        for (size_t count = 1; count < (size_t)1 << DOUBLINGS; count *= 2) {
            for (size_t i = 0; i < count; i++) {
                char bytes[100];

                fill_pattern(bytes, sizeof bytes, (unsigned)(count + i));
                assert_int_equal(
                    zmq_send(push, bytes, sizeof bytes, i + 1 < count ? ZMQ_SNDMORE : 0),
                    sizeof bytes);
            }
        }
        run_until(f, p.reads == DOUBLINGS);
        probe_free(&p);
    }
}

static void half_a_message_is_never_delivered(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *pull = NULL;
    void *push = NULL;

    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    assert_int_equal(zmq_send(push, "one", 3, ZMQ_SNDMORE), 3);
    assert_int_equal(zmq_send(push, "two", 3, ZMQ_SNDMORE), 3);
    fixture_run_for(f, 20);
    assert_int_equal(p.reads, 0);
    assert_int_equal(zmq_send(push, "three", 5, 0), 5);
    run_until(f, p.reads == 1);
    assert_string_equal(p.log, "one|two|three");
    probe_free(&p);
}

static void free_or_disable_leaves_whole_messages_to_the_next_reader(void **state)
{
    struct fixture *const f = *state;

    for (int variant = 0; variant < 8; variant++) {
        struct probe p = {.on_read = variant % 2 == 0 ? read_free : read_disable};
        char text[32];
        void *pull = NULL;
        void *push = NULL;

        peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        peer_send_text(push, "1a|1b|1c");
        peer_send_text(push, "2a|2b|2c");
        peer_send_text(push, "3a|3b|3c");
        probe_attach(f, &p, pull, 0);
        assert_ok(evzmq_socket_set_receive_mode(p.socket, (enum evzmq_receive_mode)(variant / 2)));
        probe_enable(&p, EV_READ);
        run_until(f, p.reads == 1);
        if (p.socket != NULL) {
            probe_free(&p);
        }
        (void)peer_recv_text(pull, text, sizeof text);
        assert_string_equal(text, "2a|2b|2c");
        (void)peer_recv_text(pull, text, sizeof text);
        assert_string_equal(text, "3a|3b|3c");
    }
}

/* Sends messages of three parts, the first and the last with the same number, until killed. The
 * upper half of the number says who sends. */
static void send_until_killed(int endpoint_fd, uint64_t who)
{
    char endpoint[ENDPOINT_SIZE];
    void *const context = zmq_ctx_new();
    void *const push = zmq_socket(context, ZMQ_PUSH);
    static char padding[150000];
    const int hwm = 5;

    if (read(endpoint_fd, endpoint, sizeof endpoint) != (ssize_t)sizeof endpoint ||
        zmq_setsockopt(push, ZMQ_SNDHWM, &hwm, sizeof hwm) != 0 ||
        zmq_connect(push, endpoint) != 0) {
        _exit(1);
    }
    for (uint64_t number = who << 32;; number++) {
        if (zmq_send(push, &number, sizeof number, ZMQ_SNDMORE) < 0 ||
            zmq_send(push, padding, sizeof padding, ZMQ_SNDMORE) < 0 ||
            zmq_send(push, &number, sizeof number, 0) < 0) {
            _exit(1);
        }
    }
}

#define SENDERS 10

static uint32_t received[SENDERS]; /* How many messages of each. */

static void read_whole(struct probe *p, struct evzmq_message *message)
{
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t sender = 0;

    (void)p;
    assert_int_equal(evzmq_message_get_part_count(message), 3);
    assert_int_equal(evzmq_message_get_size(message), 150016);
    memcpy(&first, evzmq_message_get_part(message, 0, NULL), sizeof first);
    memcpy(&last, evzmq_message_get_part(message, 2, NULL), sizeof last);
    sender = first >> 32;
    assert_true(sender < SENDERS);
    assert_int_equal((uint32_t)first, received[sender]);
    assert_int_equal(last, first);
    received[sender]++;
}

/* As many senders as there are, one killed after the other. */
static void kill_senders(struct fixture *f)
{
    struct probe p = {.on_read = read_whole};
    char endpoint[ENDPOINT_SIZE];
    pid_t children[SENDERS];
    int pipes[SENDERS][2];
    void *pull = NULL;

    memset(received, 0, sizeof received);
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(pipe(pipes[i]), 0);
        children[i] = child_fork();
        if (children[i] == 0) {
            send_until_killed(pipes[i][0], (uint64_t)i);
        }
        assert_true(children[i] > 0);
    }
    pull = peer_new(f, ZMQ_PULL);
    peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    for (int i = 0; i < SENDERS; i++) {
        int status = 0;

        assert_int_equal(write(pipes[i][1], endpoint, sizeof endpoint), sizeof endpoint);
        run_until(f, received[i] >= 5);
        assert_int_equal(kill(children[i], SIGKILL), 0);
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(close(pipes[i][0]) + close(pipes[i][1]), 0);
    }
    fixture_run_for(f, 50); /* What was under way. */
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
    peer_close(f, pull);
}

static void a_sender_killed_in_the_middle_of_a_message_leaves_nothing_of_it(void **state)
{
    struct fixture *const f = *state;

    for (long i = 0; i < scaled(1, 100); i++) {
        kill_senders(f);
        f->peer_count--; /* Its place is the next one's. */
        fixture_feed_watchdog(); /* It is for standing still. */
    }
}

struct good {
    uint64_t whole; /* messages of the raw connections */
    uint64_t others;
};

/* Of a raw connection, or of the plain client that goes on beside it. */
static void read_good(struct probe *p, struct evzmq_message *message)
{
    struct good *const good = p->arg;

    if (evzmq_message_get_part_count(message) == 1) {
        read_sequence(p, message);
        good->others++;
        return;
    }
    assert_int_equal(evzmq_message_get_part_count(message), 3);
    assert_part(message, 0, "first", 5);
    assert_part(message, 2, "last", 4);
    assert_int_equal(evzmq_message_get_size(message), 5 + 300 + 4);
    good->whole++;
}

/* Three parts as they are on the wire. */
static size_t make_wire(unsigned char *out)
{
    static const char middle[300];
    size_t size = raw_frame(out, RAW_MORE, "first", 5);

    size += raw_frame(out + size, RAW_MORE, middle, sizeof middle);
    return size + raw_frame(out + size, 0, "last", 4);
}

/* A peer that is killed is to its receiver a connection that ends. It ends behind each byte of a
 * message, with a goodbye, after which what came before is all there, and with a reset. */
static void of_a_message_whose_connection_ends_behind_any_of_its_bytes_nothing_comes(void **state)
{
    struct fixture *const f = *state;
    struct good good = {0};
    struct probe p = {.on_read = read_good, .arg = &good};
    char endpoint[ENDPOINT_SIZE];
    unsigned char wire[400];
    const size_t size = make_wire(wire);
    const size_t times = (size_t)scaled(2, 4); /* At each byte. */
    void *const pull = peer_new(f, ZMQ_PULL);
    void *const push = peer_new(f, ZMQ_PUSH);
    uint64_t least = 0;

    peer_bind(f, pull, TRANSPORT_TCP, endpoint);
    peer_connect(push, endpoint);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    for (size_t i = 0; i < times * size; i++) {
        const int fd = raw_open(raw_port(endpoint));

        assert_true(fd >= 0);
        assert_int_equal(raw_send(fd, wire, size), 0);
        assert_int_equal(raw_send(fd, wire, i / times), 0);
        if (i % 2 == 0) {
            least++;
            assert_ok(close(fd));
        } else {
            raw_reset(fd);
        }
        peer_send_sequence(push, i, 1, 8);
        run_until(f, good.others == i + 1 && good.whole >= least);
    }
    fixture_run_for(f, 50); /* What was under way. */
    assert_true(good.whole <= times * size);
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
}

struct churn {
    char endpoint[ENDPOINT_SIZE];
    void *context;
    int type;
    atomic_int stop;
    atomic_int broken; /* Messages that were not whole. */
    atomic_int whole;
};

/* Whole is: four parts with the same number. */
static int recv_whole(void *pull)
{
    uint64_t numbers[4] = {0};

    for (int part = 0;; part++) {
        int more = 0;
        size_t size = sizeof more;
        uint64_t number = 0;
        const int got = zmq_recv(pull, &number, sizeof number, 0);

        if (got < 0) {
            return part == 0 ? -1 : 0;
        }
        if (got != (int)sizeof number || part > 3 || (part > 0 && number != numbers[0])) {
            return 0;
        }
        numbers[part] = number;
        (void)zmq_getsockopt(pull, ZMQ_RCVMORE, &more, &size);
        if (!more) {
            return part == 3;
        }
    }
}

/* Peers that come, read a little and go, as often as they can. */
static void *come_and_go(void *arg)
{
    struct churn *const churn = arg;

    while (!atomic_load(&churn->stop)) {
        void *const pull = zmq_socket(churn->context, churn->type);
        const int timeout = 50;
        const int hwm = 3;
        const int linger = 0;

        (void)zmq_setsockopt(pull, ZMQ_RCVTIMEO, &timeout, sizeof timeout);
        (void)zmq_setsockopt(pull, ZMQ_RCVHWM, &hwm, sizeof hwm);
        (void)zmq_setsockopt(pull, ZMQ_LINGER, &linger, sizeof linger);
        if (zmq_connect(pull, churn->endpoint) == 0) {
            for (int i = 0; i < 20; i++) {
                const int result = recv_whole(pull);

                if (result == 0) {
                    (void)atomic_fetch_add(&churn->broken, 1);
                } else if (result > 0) {
                    (void)atomic_fetch_add(&churn->whole, 1);
                }
            }
        }
        (void)zmq_close(pull);
    }
    return NULL;
}

static void write_four(struct probe *p, uint64_t *number)
{
    const struct evzmq_bytes parts[4] = {{number, sizeof *number},
                                         {number, sizeof *number},
                                         {number, sizeof *number},
                                         {number, sizeof *number}};

    while (evzmq_socket_write_parts(p->socket, parts, 4) == 0) {
        ++*number;
    }
    assert_int_equal(errno, EAGAIN);
}

static void refill(struct probe *p)
{
    write_four(p, p->arg);
}

static void check_churn(struct fixture *f, enum transport transport, int type, int peer_type)
{
    uint64_t number = 0;
    struct churn churn = {.context = f->context, .type = peer_type};
    struct probe p = {.on_write = refill, .arg = &number};
    void *const push = peer_new(f, type);
    pthread_t threads[2];

    peer_set_int(push, ZMQ_SNDHWM, 3);
    peer_bind(f, push, transport, churn.endpoint);
    probe_attach(f, &p, push, 0);
    assert_ok(evzmq_socket_set_output_limit(p.socket, 50, 0));
    assert_ok(evzmq_socket_set_output_watermark(p.socket, 500, 0));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &churn), 0);
    }
    write_four(&p, &number);
    run_until(f, atomic_load(&churn.whole) >= 2000);
    atomic_store(&churn.stop, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&churn.broken), 0);
    assert_int_equal(p.events_all, p.events[EVZMQ_EVENT_DRAINED]);
    probe_free(&p);
    peer_close(f, push);
}

static void peers_that_go_in_the_middle_never_see_half_or_mixed_messages_of_push(void **state)
{
    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        check_churn(*state, transport, ZMQ_PUSH, ZMQ_PULL);
    }
}

static void peers_that_go_in_the_middle_never_see_half_or_mixed_messages_of_dealer(void **state)
{
    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        check_churn(*state, transport, ZMQ_DEALER, ZMQ_DEALER);
    }
}

/* The parts grow in number while the first one is still marked as lying where the message before
 * was copied to. */
static void many_parts_right_after_a_small_message_are_whole_in_every_mode(void **state)
{
    struct fixture *const f = *state;

    for (int mode = EVZMQ_RECEIVE_AUTO; mode <= EVZMQ_RECEIVE_OWNED; mode++) {
        struct probe p = {0};
        void *pull = NULL;
        void *push = NULL;

        peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        probe_attach(f, &p, pull, 0);
        assert_ok(evzmq_socket_set_receive_mode(p.socket, (enum evzmq_receive_mode)mode));
        probe_enable(&p, EV_READ);
        peer_send_text(push, "small");
        peer_send_text(push, "first|b|c|d|e|f|g|h|i|j");
        run_until(f, p.reads == 2);
        assert_string_equal(p.log, "small first|b|c|d|e|f|g|h|i|j");
        probe_free(&p);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(all_parts_of_a_message_arrive_together_in_every_mode),
        claim(a_message_of_more_parts_than_any_before_keeps_all_of_them_in_every_mode),
        claim(half_a_message_is_never_delivered),
        claim(free_or_disable_leaves_whole_messages_to_the_next_reader),
        claim(a_sender_killed_in_the_middle_of_a_message_leaves_nothing_of_it),
        claim(of_a_message_whose_connection_ends_behind_any_of_its_bytes_nothing_comes),
        claim(peers_that_go_in_the_middle_never_see_half_or_mixed_messages_of_push),
        claim(peers_that_go_in_the_middle_never_see_half_or_mixed_messages_of_dealer),
        claim(many_parts_right_after_a_small_message_are_whole_in_every_mode),
    };

    return run_claims(tests);
}
