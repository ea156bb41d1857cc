/**
 * @file test_lifecycle.c
 * Everything a callback may do to its own socket, done from each kind of callback.
 */
#include "support.h"

#include <string.h>

#include <evzmq/msgpack.h>

enum kind { KIND_READ, KIND_WRITE, KIND_EVENT, KINDS };

/* One socket in the middle of everything: messages to read, output queued, marks set, so that the
 * read, the write and the event callback (the high mark) all run. */
struct scene {
    struct probe p;
    enum kind kind; /* The callback that acts. */
    int acted;
    void (*act)(struct probe *p);
    void *peer;
};

static void act_once(struct probe *p, enum kind kind)
{
    struct scene *const scene = p->arg;

    if (scene->kind == kind && !scene->acted) {
        scene->acted = 1;
        scene->act(p);
    }
}

static void act_in_read(struct probe *p, struct evzmq_message *message)
{
    (void)message;
    act_once(p, KIND_READ);
}

static void act_in_write(struct probe *p)
{
    act_once(p, KIND_WRITE);
}

static void act_in_event(struct probe *p, const struct evzmq_event *event)
{
    (void)event;
    act_once(p, KIND_EVENT);
}

static void open_scene(struct fixture *f, struct scene *scene, enum kind kind,
                       void (*act)(struct probe *p), unsigned options)
{
    char endpoint[ENDPOINT_SIZE];
    void *const dealer = peer_new(f, ZMQ_DEALER);

    memset(scene, 0, sizeof *scene);
    scene->kind = kind;
    scene->act = act;
    scene->p.arg = scene;
    scene->p.on_read = act_in_read;
    scene->p.on_write = act_in_write;
    scene->p.on_event = act_in_event;
    peer_bind(f, dealer, TRANSPORT_INPROC, endpoint);
    probe_attach(f, &scene->p, dealer, options);
    assert_ok(evzmq_socket_set_output_watermark(scene->p.socket, 0, 100));
    for (int i = 0; i < 40; i++) {
        assert_ok(evzmq_socket_write(scene->p.socket, "queued", 6));
    }
    scene->peer = peer_new(f, ZMQ_DEALER);
    peer_connect(scene->peer, endpoint);
    for (int i = 0; i < 20; i++) {
        peer_send_text(scene->peer, "input");
    }
    probe_enable(&scene->p, EV_READ | EV_WRITE);
    run_until(f, scene->acted);
}

static void close_scene(struct fixture *f, struct scene *scene)
{
    if (scene->p.socket != NULL) {
        probe_free(&scene->p);
    }
    fixture_glance(f); /* A callback after the free would show here. */
    peer_close(f, scene->peer);
}

/* Runs on until everything has been received and sent: the act disturbed nothing. */
static void finish_scene(struct fixture *f, struct scene *scene)
{
    run_until(f, scene->p.reads == 20 && evzmq_socket_get_queued(scene->p.socket, NULL) == 0);
    close_scene(f, scene);
}

static void act_free(struct probe *p)
{
    probe_free(p);
}

static void free_in_any_callback_stops_all_callbacks(void **state)
{
    struct fixture *const f = *state;

    for (enum kind kind = KIND_READ; kind < KINDS; kind++) {
        for (unsigned options = 0; options <= EVZMQ_OPT_CLOSE_ON_FREE; options++) {
            struct scene scene;
            size_t seen = 0;

            open_scene(f, &scene, kind, act_free, options);
            seen = scene.p.reads + scene.p.writes + scene.p.events_all;
            fixture_run_for(f, 5);
            assert_int_equal(scene.p.reads + scene.p.writes + scene.p.events_all, seen);
            close_scene(f, &scene);
        }
    }
}

static void act_disable(struct probe *p)
{
    assert_ok(evzmq_socket_disable(p->socket, EV_READ | EV_WRITE));
}

static void disable_in_any_callback_stops_delivery_and_sending(void **state)
{
    struct fixture *const f = *state;

    for (enum kind kind = KIND_READ; kind < KINDS; kind++) {
        struct scene scene;
        size_t reads = 0;

        open_scene(f, &scene, kind, act_disable, 0);
        reads = scene.p.reads;
        fixture_run_for(f, 5);
        assert_int_equal(scene.p.reads, reads);
        if (kind == KIND_READ) {
            assert_int_equal(reads, 1);
        }
        probe_enable(&scene.p, EV_READ | EV_WRITE);
        finish_scene(f, &scene);
    }
}

static void act_disable_and_enable(struct probe *p)
{
    act_disable(p);
    probe_enable(p, EV_READ | EV_WRITE);
}

static void disable_then_enable_in_any_callback_loses_and_repeats_nothing(void **state)
{
    for (enum kind kind = KIND_READ; kind < KINDS; kind++) {
        struct scene scene;

        open_scene(*state, &scene, kind, act_disable_and_enable, 0);
        finish_scene(*state, &scene);
    }
}

static void act_setcb_null(struct probe *p)
{
    evzmq_socket_setcb(p->socket, NULL, NULL, NULL, NULL);
}

static void setcb_null_in_any_callback_keeps_the_messages(void **state)
{
    struct fixture *const f = *state;

    for (enum kind kind = KIND_READ; kind < KINDS; kind++) {
        struct scene scene;
        size_t reads = 0;

        open_scene(f, &scene, kind, act_setcb_null, 0);
        reads = scene.p.reads;
        fixture_run_for(f, 5);
        assert_int_equal(scene.p.reads, reads);
        probe_setcb(&scene.p);
        finish_scene(f, &scene);
    }
}

static void act_write(struct probe *p)
{
    assert_ok(evzmq_socket_write(p->socket, "more", 4));
}

static void a_write_from_any_callback_is_sent_after_what_was_queued(void **state)
{
    struct fixture *const f = *state;

    for (enum kind kind = KIND_READ; kind < KINDS; kind++) {
        struct scene scene;
        char text[32];

        open_scene(f, &scene, kind, act_write, 0);
        for (int i = 0; i < 40; i++) {
            pump_recv_text(f, scene.peer, text, sizeof text);
            assert_string_equal(text, "queued");
        }
        pump_recv_text(f, scene.peer, text, sizeof text);
        assert_string_equal(text, "more");
        finish_scene(f, &scene);
    }
}

static void act_settings(struct probe *p)
{
    const struct evzmq_budget budget = {.size = sizeof budget, .read_messages = 1};
    const struct timeval hour = {3600, 0};
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);

    assert_ok(evzmq_socket_set_codec(p->socket, codec));
    assert_ok(evzmq_socket_set_codec(p->socket, NULL));
    evzmq_codec_free(codec);
    assert_ok(evzmq_socket_set_budget(p->socket, &budget));
    assert_ok(evzmq_socket_set_receive_mode(p->socket, EVZMQ_RECEIVE_OWNED));
    assert_ok(evzmq_socket_set_max_message(p->socket, 1000, 10, EVZMQ_OVERSIZE_DROP));
    assert_ok(evzmq_socket_set_output_limit(p->socket, 100, 0));
    assert_ok(evzmq_socket_set_output_watermark(p->socket, 0, 50));
    assert_ok(evzmq_socket_set_timeouts(p->socket, &hour, &hour));
    assert_ok(evzmq_socket_priority_set(p->socket, 0));
    assert_ok(evzmq_base_set_receive_buffer(p->f->base, 100));
    assert_ok(evzmq_socket_touch(p->socket));
}

static void every_setting_may_be_changed_in_any_callback(void **state)
{
    for (enum kind kind = KIND_READ; kind < KINDS; kind++) {
        struct scene scene;

        open_scene(*state, &scene, kind, act_settings, 0);
        finish_scene(*state, &scene);
    }
}

static void act_break(struct probe *p)
{
    assert_int_equal(event_base_loopbreak(p->f->base), 0);
}

static void loopbreak_in_any_callback_ends_the_loop_and_loses_nothing(void **state)
{
    struct fixture *const f = *state;

    for (enum kind kind = KIND_READ; kind < KINDS; kind++) {
        struct scene scene;

        open_scene(f, &scene, kind, act_break, 0);
        if (kind == KIND_READ) {
            assert_int_equal(scene.p.reads, 1); /* The pass ended at once. */
        }
        finish_scene(f, &scene);
    }
}

static void act_exit(struct probe *p)
{
    assert_int_equal(event_base_loopexit(p->f->base, NULL), 0);
}

static void loopexit_in_any_callback_loses_nothing(void **state)
{
    for (enum kind kind = KIND_READ; kind < KINDS; kind++) {
        struct scene scene;

        open_scene(*state, &scene, kind, act_exit, 0);
        finish_scene(*state, &scene);
    }
}

static void act_attach_another(struct probe *p)
{
    void *const peer = peer_new(p->f, ZMQ_DEALER);
    struct evzmq_socket *const other = evzmq_socket_new(p->f->base, peer, 0);

    assert_non_null(other);
    assert_ok(evzmq_socket_enable(other, EV_READ));
    evzmq_socket_free(other);
    peer_close(p->f, peer);
}

static void another_socket_may_be_attached_and_freed_in_any_callback(void **state)
{
    for (enum kind kind = KIND_READ; kind < KINDS; kind++) {
        struct scene scene;

        open_scene(*state, &scene, kind, act_attach_another, 0);
        finish_scene(*state, &scene);
    }
}

static void act_attach_again(struct probe *p)
{
    void *const zmq_socket = evzmq_socket_get_zmq_socket(p->socket);

    probe_free(p);
    probe_attach(p->f, p, zmq_socket, 0);
    probe_enable(p, EV_READ);
}

static void a_socket_may_be_freed_and_attached_again_in_its_own_callback(void **state)
{
    struct fixture *const f = *state;

    for (enum kind kind = KIND_READ; kind < KINDS; kind++) {
        struct scene scene;

        open_scene(f, &scene, kind, act_attach_again, 0);
        run_until(f, scene.p.reads == 20);
        close_scene(f, &scene);
    }
}

/* Frees the other of two sockets that both have messages waiting. */
static struct probe pair[2];

static void free_the_other(struct probe *p, struct evzmq_message *message)
{
    struct probe *const other = p == &pair[0] ? &pair[1] : &pair[0];

    (void)message;
    if (other->socket != NULL) {
        probe_free(other);
    }
}

static void a_callback_may_free_another_socket_that_is_ready_in_the_same_pass(void **state)
{
    struct fixture *const f = *state;

    memset(pair, 0, sizeof pair);
    for (int i = 0; i < 2; i++) {
        void *pull = NULL;
        void *push = NULL;

        peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        pair[i].on_read = free_the_other;
        probe_attach(f, &pair[i], pull, 0);
        probe_enable(&pair[i], EV_READ);
        peer_send_sequence(push, 0, 10, 8);
    }
    run_until(f, pair[0].reads + pair[1].reads == 10);
    assert_true(pair[0].reads == 0 || pair[1].reads == 0);
    probe_free(pair[0].socket != NULL ? &pair[0] : &pair[1]);
}

static void read_and_free_at(struct probe *p, struct evzmq_message *message)
{
    const size_t *const at = p->arg;
    size_t size = 0;
    const void *const data = evzmq_message_get_part(message, 0, &size);

    if (p->reads == *at) {
        probe_free(p);
    }
    assert_int_equal(size, 300); /* The message lives on until the callback returns. */
    assert_pattern(data, size, 3);
}

static void a_message_outlives_a_free_in_its_own_callback(void **state)
{
    struct fixture *const f = *state;
    unsigned char bytes[300];

    fill_pattern(bytes, sizeof bytes, 3);
    for (int mode = EVZMQ_RECEIVE_AUTO; mode <= EVZMQ_RECEIVE_OWNED; mode++) {
        for (size_t at = 1; at <= 5; at++) {
            struct probe p = {.on_read = read_and_free_at, .arg = &at};
            void *pull = NULL;
            void *push = NULL;

            peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
            for (int i = 0; i < 5; i++) {
                peer_send(push, bytes, sizeof bytes);
            }
            probe_attach(f, &p, pull, EVZMQ_OPT_CLOSE_ON_FREE);
            assert_ok(evzmq_socket_set_receive_mode(p.socket, (enum evzmq_receive_mode)mode));
            probe_enable(&p, EV_READ);
            run_until(f, p.socket == NULL);
            assert_int_equal(p.reads, at);
        }
    }
}

static size_t plain_reads;

static void read_plainly(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    (void)socket;
    (void)message;
    assert_int_equal(*(const size_t *)arg, 7);
    plain_reads++;
}

static void act_setcb_other(struct probe *p)
{
    static size_t seven = 7;

    evzmq_socket_setcb(p->socket, read_plainly, NULL, NULL, &seven);
}

static void a_callback_set_in_any_callback_gets_the_next_message(void **state)
{
    struct fixture *const f = *state;

    for (enum kind kind = KIND_READ; kind < KINDS; kind++) {
        struct scene scene;
        size_t seen = 0;

        plain_reads = 0;
        open_scene(f, &scene, kind, act_setcb_other, 0);
        seen = scene.p.reads;
        run_until(f, seen + plain_reads == 20);
        assert_int_equal(scene.p.reads, seen);
        assert_true(kind != KIND_READ || seen == 1);
        close_scene(f, &scene);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(free_in_any_callback_stops_all_callbacks),
        claim(disable_in_any_callback_stops_delivery_and_sending),
        claim(disable_then_enable_in_any_callback_loses_and_repeats_nothing),
        claim(setcb_null_in_any_callback_keeps_the_messages),
        claim(a_write_from_any_callback_is_sent_after_what_was_queued),
        claim(every_setting_may_be_changed_in_any_callback),
        claim(loopbreak_in_any_callback_ends_the_loop_and_loses_nothing),
        claim(loopexit_in_any_callback_loses_nothing),
        claim(another_socket_may_be_attached_and_freed_in_any_callback),
        claim(a_socket_may_be_freed_and_attached_again_in_its_own_callback),
        claim(a_callback_may_free_another_socket_that_is_ready_in_the_same_pass),
        claim(a_message_outlives_a_free_in_its_own_callback),
        claim(a_callback_set_in_any_callback_gets_the_next_message),
    };

    return run_claims(tests);
}
