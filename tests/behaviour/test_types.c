/**
 * @file test_types.c
 * Every pair of socket types that can talk does so, with both ends on one base.
 */
#include "support.h"

#include <string.h>

struct ends {
    struct probe bound;
    struct probe connected;
};

static void open_ends(struct fixture *f, enum transport transport, int bind_type, int connect_type,
                      struct ends *ends)
{
    void *a = NULL;
    void *b = NULL;

    memset(ends, 0, sizeof *ends);
    peer_pair(f, transport, bind_type, &a, connect_type, &b);
    probe_attach(f, &ends->bound, a, EVZMQ_OPT_CLOSE_ON_FREE);
    probe_attach(f, &ends->connected, b, EVZMQ_OPT_CLOSE_ON_FREE);
    if (bind_type != ZMQ_PUSH && bind_type != ZMQ_PUB) {
        probe_enable(&ends->bound, EV_READ);
    }
    if (connect_type != ZMQ_PUSH && connect_type != ZMQ_PUB) {
        probe_enable(&ends->connected, EV_READ);
    }
}

static void close_ends(struct ends *ends)
{
    probe_free(&ends->bound);
    probe_free(&ends->connected);
}

static void write_text(struct probe *p, const char *text)
{
    assert_ok(evzmq_socket_write(p->socket, text, strlen(text)));
}

/* Whether a message came; on a connection that took its time a write may have been queued too. */
static void assert_received(const struct probe *p, const char *text)
{
    assert_non_null(strstr(p->log, text));
}

static void push_and_pull_talk_whichever_of_them_binds(void **state)
{
    struct fixture *const f = *state;

    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        struct ends ends;

        open_ends(f, transport, ZMQ_PUSH, ZMQ_PULL, &ends);
        write_text(&ends.bound, "hello");
        run_until(f, ends.connected.reads == 1);
        assert_received(&ends.connected, "hello");
        close_ends(&ends);
        open_ends(f, transport, ZMQ_PULL, ZMQ_PUSH, &ends);
        write_text(&ends.connected, "hello");
        run_until(f, ends.bound.reads == 1);
        close_ends(&ends);
    }
}

static void pair_and_dealer_talk_both_ways(void **state)
{
    struct fixture *const f = *state;
    static const int types[] = {ZMQ_PAIR, ZMQ_DEALER};

    for (int i = 0; i < 2; i++) {
        for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
            struct ends ends;

            open_ends(f, transport, types[i], types[i], &ends);
            write_text(&ends.bound, "ping");
            write_text(&ends.connected, "pong");
            run_until(f, ends.bound.reads == 1 && ends.connected.reads == 1);
            assert_received(&ends.bound, "pong");
            assert_received(&ends.connected, "ping");
            close_ends(&ends);
        }
    }
}

static void reply_same(struct probe *p, struct evzmq_message *message)
{
    const size_t last = evzmq_message_get_part_count(message) - 1;
    size_t size = 0;
    const void *const data = evzmq_message_get_part(message, last, &size);

    assert_ok(evzmq_socket_reply(p->socket, evzmq_message_get_envelope(message), data, size));
}

static void requests_are_answered_by_every_type_of_server_to_every_type_of_client(void **state)
{
    struct fixture *const f = *state;
    static const int types[][2] = {
        {ZMQ_REP, ZMQ_REQ}, {ZMQ_ROUTER, ZMQ_REQ}, {ZMQ_ROUTER, ZMQ_DEALER}};

    for (int i = 0; i < 3; i++) {
        for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
            struct ends ends;

            open_ends(f, transport, types[i][0], types[i][1], &ends);
            ends.bound.on_read = reply_same;
            for (size_t n = 1; n <= 20; n++) {
                write_text(&ends.connected, "ask");
                run_until(f, ends.connected.reads == n);
            }
            assert_int_equal(ends.bound.reads, 20);
            close_ends(&ends);
        }
    }
}

/* XPUB says when the subscription is there: nothing is published before. */
static void publishers_reach_subscribers_with_topics_as_parts(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_bytes parts[] = {{"topic", 5}, {"body", 4}};
    const struct evzmq_bytes other[] = {{"other", 5}, {"body", 4}};

    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        struct ends ends;

        open_ends(f, transport, ZMQ_XPUB, ZMQ_XSUB, &ends);
        assert_ok(evzmq_socket_write(ends.connected.socket, "\001topic", 6));
        run_until(f, ends.bound.reads == 1);
        assert_received(&ends.bound, ".topic");
        assert_ok(evzmq_socket_write_parts(ends.bound.socket, other, 2));
        assert_ok(evzmq_socket_write_parts(ends.bound.socket, parts, 2));
        run_until(f, ends.connected.reads == 1);
        assert_received(&ends.connected, "topic|body");
        close_ends(&ends);

        open_ends(f, transport, ZMQ_XPUB, ZMQ_SUB, &ends); /* peer_new() subscribes to all. */
        run_until(f, ends.bound.reads == 1);
        assert_ok(evzmq_socket_write_parts(ends.bound.socket, other, 2));
        run_until(f, ends.connected.reads == 1);
        assert_received(&ends.connected, "other|body");
        close_ends(&ends);
    }
}

static void publish_again(evutil_socket_t fd, short events, void *arg)
{
    struct probe *const p = arg;

    (void)fd;
    (void)events;
    write_text(p, "news");
}

static void pub_reaches_sub_once_it_has_subscribed(void **state)
{
    struct fixture *const f = *state;
    const struct timeval millisecond = {0, 1000};

    for (enum transport transport = TRANSPORT_INPROC; transport < TRANSPORTS; transport++) {
        struct ends ends;
        struct event *timer = NULL;

        open_ends(f, transport, ZMQ_PUB, ZMQ_SUB, &ends);
        timer = event_new(f->base, -1, EV_PERSIST, publish_again, &ends.bound);
        assert_int_equal(event_add(timer, &millisecond), 0);
        run_until(f, ends.connected.reads >= 3);
        event_free(timer);
        close_ends(&ends);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(push_and_pull_talk_whichever_of_them_binds),
        claim(pair_and_dealer_talk_both_ways),
        claim(requests_are_answered_by_every_type_of_server_to_every_type_of_client),
        claim(publishers_reach_subscribers_with_topics_as_parts),
        claim(pub_reaches_sub_once_it_has_subscribed),
    };

    return run_claims(tests);
}
