/**
 * @file test_hazards_callbacks.c
 * What must hold around callbacks: nothing that was due at a free runs, a loop inside the loop is
 * refused and harms nothing, and no lock of the library is held while a callback runs.
 */
#include "support.h"

#include <pthread.h>
#include <string.h>

#include <event2/event.h>

#include <evzmq/msgpack.h>

#include "watch.h"

/* A socket with something due, of which nobody must hear once it is freed. */
struct due {
    struct fixture *f;
    struct probe p;
    struct probe other; /* whose callback frees it, in the second round */
    void *peer;
    char endpoint[ENDPOINT_SIZE];
    size_t ended; /* shutdowns reported */
};

static void note_end(struct evzmq_socket *socket, uint64_t handed_over, uint64_t not_handed_over,
                     void *arg)
{
    struct due *const due = arg;

    (void)handed_over;
    (void)not_handed_over;
    assert_ptr_equal(socket, due->p.socket); /* Otherwise: a callback after the free. */
    due->ended++;
}

static void wait_with_messages(struct due *due)
{
    peer_send_text(due->peer, "one");
    peer_send_text(due->peer, "two");
    assert_ok(evzmq_socket_touch(due->p.socket));
}

/* The timer that goes on after a pass whose budget is spent. */
static void wait_with_a_continuation(struct due *due)
{
    const struct evzmq_budget budget = {.size = sizeof budget, .read_messages = 1};

    assert_ok(evzmq_socket_set_budget(due->p.socket, &budget));
    for (int i = 0; i < 10; i++) {
        peer_send_text(due->peer, "more");
    }
    run_until(due->f, due->p.reads > 0);
    assert_true(due->p.reads < 10);
}

static void queue_some(struct due *due)
{
    assert_ok(evzmq_socket_disable(due->p.socket, EV_WRITE));
    for (int i = 0; i < 10; i++) {
        assert_ok(evzmq_socket_write(due->p.socket, "queued", 6));
    }
}

static void wait_below_the_low_mark(struct due *due)
{
    queue_some(due);
    assert_ok(evzmq_socket_set_output_watermark(due->p.socket, 1000, 0));
}

static void wait_above_the_high_mark(struct due *due)
{
    assert_ok(evzmq_socket_set_output_watermark(due->p.socket, 0, 10));
    queue_some(due);
}

static void wait_to_drain(struct due *due)
{
    queue_some(due);
    probe_enable(&due->p, EV_WRITE);
}

static void wait_with_a_bad_message(struct due *due)
{
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);

    assert_ok(evzmq_socket_set_codec(due->p.socket, codec));
    evzmq_codec_free(codec);
    peer_send(due->peer, "\xc1", 1);
}

static void wait_with_a_large_message(struct due *due)
{
    assert_ok(evzmq_socket_set_max_message(due->p.socket, 3, 0, EVZMQ_OVERSIZE_DROP));
    peer_send_text(due->peer, "large");
}

static void wait_for_a_timeout(struct due *due)
{
    const struct timeval soon = {0, 1};

    assert_ok(evzmq_socket_set_timeouts(due->p.socket, &soon, &soon));
    queue_some(due);
    probe_enable(&due->p, EV_WRITE);
}

static void wait_for_a_shutdown(struct due *due)
{
    queue_some(due);
    assert_ok(evzmq_socket_shutdown(due->p.socket, NULL, note_end, due));
}

static void wait_for_a_deadline(struct due *due)
{
    const struct timeval none = {0, 0};

    queue_some(due);
    assert_ok(evzmq_socket_shutdown(due->p.socket, &none, note_end, due));
}

static void wait_with_an_open_frame(struct due *due)
{
    const msgpack_object number = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via = {.u64 = 65}};
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);

    assert_ok(evzmq_socket_set_codec(due->p.socket, codec));
    evzmq_codec_free(codec);
    assert_ok(evzmq_socket_set_packing(due->p.socket, 1000, 0));
    assert_ok(evzmq_socket_write_value(due->p.socket, &number));
}

static void wait_with_posts(struct due *due)
{
    struct evzmq_poster *const poster = evzmq_poster_new(due->p.socket, 0, 0);

    assert_non_null(poster);
    for (int i = 0; i < 10; i++) {
        assert_ok(evzmq_poster_post(poster, "posted", 6));
    }
    evzmq_poster_free(poster);
}

static void (*const waits[])(struct due *) = {wait_with_messages,
                                              wait_with_a_continuation,
                                              wait_below_the_low_mark,
                                              wait_above_the_high_mark,
                                              wait_to_drain,
                                              wait_with_a_bad_message,
                                              wait_with_a_large_message,
                                              wait_for_a_timeout,
                                              wait_for_a_shutdown,
                                              wait_for_a_deadline,
                                              wait_with_an_open_frame,
                                              wait_with_posts};

static void open_due(struct fixture *f, struct due *due)
{
    void *const dealer = peer_new(f, ZMQ_DEALER);

    memset(due, 0, sizeof *due);
    due->f = f;
    peer_bind(f, dealer, TRANSPORT_INPROC, due->endpoint);
    due->peer = peer_new(f, ZMQ_DEALER);
    peer_connect(due->peer, due->endpoint);
    probe_attach(f, &due->p, dealer, EVZMQ_OPT_CLOSE_ON_FREE);
    probe_enable(&due->p, EV_READ);
    fixture_glance(f);
}

static size_t callbacks(const struct due *due)
{
    return due->p.reads + due->p.writes + due->p.events_all + due->ended;
}

/* The probe itself fails the test for a callback after its free. */
static void what_was_due_at_a_free_never_runs(void **state)
{
    struct fixture *const f = *state;

    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        struct due due;
        size_t before = 0;

        open_due(f, &due);
        waits[i](&due);
        before = callbacks(&due);
        probe_free(&due.p);
        fixture_run_for(f, 2);
        assert_int_equal(callbacks(&due), before);
        peer_close(f, due.peer);
    }
}

static struct due *doomed;
static size_t callbacks_before;

static void free_the_doomed(struct probe *p, struct evzmq_message *message)
{
    (void)p;
    (void)message;
    callbacks_before = callbacks(doomed);
    probe_free(&doomed->p);
}

/* Both are ready in one turn of the loop: libevent has a list of what it is about to call. */
static void what_is_due_in_the_same_turn_never_runs_after_a_free_by_another(void **state)
{
    struct fixture *const f = *state;

    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        struct due due;
        void *pull = NULL;
        void *push = NULL;

        open_due(f, &due);
        doomed = &due;
        peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
        due.other.on_read = free_the_doomed;
        probe_attach(f, &due.other, pull, EVZMQ_OPT_CLOSE_ON_FREE);
        probe_enable(&due.other, EV_READ);
        waits[i](&due);
        peer_send_text(push, "free it");
        run_until(f, due.p.socket == NULL);
        fixture_run_for(f, 2);
        assert_int_equal(callbacks(&due), callbacks_before);
        probe_free(&due.other);
        peer_close(f, push);
        peer_close(f, due.peer);
    }
}

static size_t warnings; /* of libevent */

static void count_warning(int severity, const char *text)
{
    (void)text;
    warnings += severity >= EVENT_LOG_WARN;
}

static void read_and_run_the_loop(struct probe *p, struct evzmq_message *message)
{
    const size_t before = warnings;

    read_sequence(p, message);
    assert_int_equal(event_base_loop(p->f->base, EVLOOP_ONCE | EVLOOP_NONBLOCK), -1);
    assert_int_equal(warnings, before + 1);
    assert_int_equal(event_base_dispatch(p->f->base), -1);
}

static void a_loop_that_a_callback_runs_is_refused_and_disturbs_nothing(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {.on_read = read_and_run_the_loop};
    void *pull = NULL;
    void *push = NULL;

    event_set_log_callback(count_warning);
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    for (uint64_t i = 0; i < 10; i++) {
        peer_send_sequence(push, i * 10, 10, 8);
        run_until(f, p.reads == (i + 1) * 10);
    }
    assert_int_equal(p.events_all, 0);
    probe_free(&p);
    event_set_log_callback(NULL);
}

/* What a callback might take for a call that waits. None of them enters the loop, so that libevent
 * has nothing to warn of. */
static void read_and_try_to_wait(struct probe *p, struct evzmq_message *message)
{
    struct probe *const other = p->arg;
    const struct timeval minute = {60, 0};
    struct evzmq_message *out = NULL;

    (void)message;
    assert_errno(evzmq_socket_recv(other->socket, NULL, &out), EDEADLK);
    assert_errno(evzmq_socket_recv(other->socket, &minute, &out), EDEADLK);
    assert_errno(evzmq_socket_try_recv(other->socket, &out), EAGAIN);
    assert_ok(evzmq_socket_flush(other->socket));
    assert_ok(evzmq_socket_shutdown(other->socket, &minute, NULL, NULL));
    assert_int_equal(evzmq_socket_get_queued(other->socket, NULL), 1);
}

static void no_call_waits_for_the_loop_in_a_callback(void **state)
{
    struct fixture *const f = *state;
    struct probe other = {0};
    struct probe p = {.on_read = read_and_try_to_wait, .arg = &other};
    void *pull = NULL;
    void *push = NULL;
    char endpoint[ENDPOINT_SIZE];
    void *const lonely = peer_new(f, ZMQ_DEALER);

    warnings = 0;
    event_set_log_callback(count_warning);
    peer_bind(f, lonely, TRANSPORT_INPROC, endpoint);
    probe_attach(f, &other, lonely, 0);
    assert_ok(evzmq_socket_write(other.socket, "nobody takes it", 15));
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PULL, &pull, ZMQ_PUSH, &push);
    probe_attach(f, &p, pull, 0);
    probe_enable(&p, EV_READ);
    peer_send_text(push, "go");
    run_until(f, p.reads == 1);
    assert_int_equal(warnings, 0);
    probe_free(&p);
    probe_free(&other);
    event_set_log_callback(NULL);
}

/* Another thread does all that it may, and its end is waited for in a callback: were a lock of the
 * library held there, it would never come. */
struct helper {
    struct evzmq_poster *poster; /* of another socket of the loop that waits */
    unsigned faults;
};

static void helper_read(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    (void)message;
    ++*(unsigned *)arg;
    (void)event_base_loopbreak(evzmq_socket_get_base(socket));
}

/* A loop of its own, with sockets and a monitor: they share the library's tables with ours. */
static unsigned run_a_loop(void)
{
    void *const context = zmq_ctx_new();
    void *const pull = zmq_socket(context, ZMQ_PULL);
    void *const push = zmq_socket(context, ZMQ_PUSH);
    struct event_base *const base = event_base_new();
    struct evzmq_socket *const in = evzmq_socket_new(base, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    struct evzmq_socket *const out = evzmq_socket_new(base, push, EVZMQ_OPT_CLOSE_ON_FREE);
    unsigned reads = 0;

    evzmq_socket_setcb(in, helper_read, NULL, NULL, &reads);
    (void)zmq_bind(pull, "inproc://helper");
    (void)zmq_connect(push, "inproc://helper");
    (void)evzmq_socket_enable(in, EV_READ);
    (void)evzmq_socket_write(out, "x", 1);
    (void)event_base_dispatch(base);
    evzmq_socket_free(in);
    evzmq_socket_free(out);
    event_base_free(base);
    (void)zmq_ctx_term(context);
    return reads == 1 ? 0 : 1;
}

static void *do_everything(void *arg)
{
    struct helper *const helper = arg;
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);
    struct evzmq_message *const message = evzmq_message_new();
    struct evzmq_poster_stats stats = {.size = sizeof stats};
    struct evzmq_poster *const poster = evzmq_poster_ref(helper->poster);

    helper->faults += codec == NULL || message == NULL;
    helper->faults += evzmq_message_add(message, "\x01", 1) != 0;
    helper->faults += evzmq_message_decode(message, codec, NULL) != 0;
    helper->faults += evzmq_poster_post(poster, "posted", 6) != 0;
    helper->faults += evzmq_poster_post_message(poster, message) != 0;
    helper->faults += evzmq_poster_get_queued(poster, NULL) < 1;
    helper->faults += evzmq_poster_get_stats(poster, &stats) != 0;
    helper->faults += evzmq_strerror(EAGAIN) == NULL;
    helper->faults += run_a_loop();
    evzmq_poster_free(poster);
    evzmq_codec_free(codec);
    return NULL;
}

static struct helper helper;
static unsigned helped; /* a bit for each kind of callback that waited */

static void wait_for_helper(unsigned bit)
{
    pthread_t thread;

    if ((helped & bit) == 0) {
        helped |= bit;
        assert_int_equal(pthread_create(&thread, NULL, do_everything, &helper), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(helper.faults, 0);
    }
}

static void help_in_read(struct probe *p, struct evzmq_message *message)
{
    (void)p;
    (void)message;
    wait_for_helper(1);
}

static void help_in_write(struct probe *p)
{
    (void)p;
    wait_for_helper(2);
}

static void help_in_event(struct probe *p, const struct evzmq_event *event)
{
    (void)p;
    (void)event;
    wait_for_helper(4);
}

static void help_in_shutdown(struct evzmq_socket *socket, uint64_t handed_over,
                             uint64_t not_handed_over, void *arg)
{
    (void)socket;
    (void)handed_over;
    (void)not_handed_over;
    (void)arg;
    wait_for_helper(8);
}

static void help_in_monitor(struct watch *w, const struct evzmq_monitor_event *event)
{
    (void)w;
    (void)event;
    wait_for_helper(16);
}

static void other_threads_go_on_while_any_callback_runs(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {
        .on_read = help_in_read, .on_write = help_in_write, .on_event = help_in_event};
    struct probe quiet = {0};
    struct watch w = {.f = f, .on_event = help_in_monitor};
    char endpoint[ENDPOINT_SIZE];
    void *const dealer = peer_new(f, ZMQ_DEALER);
    void *const peer = peer_new(f, ZMQ_DEALER);

    helped = 0;
    helper.faults = 0;
    watch_open(f, &w, dealer, EVZMQ_MONITOR_ALL);
    peer_bind(f, dealer, TRANSPORT_IPC, endpoint);
    probe_attach(f, &p, dealer, 0);
    probe_attach(f, &quiet, peer_new(f, ZMQ_PUSH), 0);
    helper.poster = evzmq_poster_new(quiet.socket, 0, 0);
    assert_non_null(helper.poster);
    assert_ok(evzmq_socket_write(p.socket, "queued", 6));
    probe_enable(&p, EV_READ);
    peer_connect(peer, endpoint);
    peer_send_text(peer, "hello");
    run_until(f, helped == (1 | 2 | 4 | 16));
    assert_ok(evzmq_socket_shutdown(p.socket, NULL, help_in_shutdown, NULL));
    run_until(f, helped == 31);
    evzmq_poster_free(helper.poster);
    watch_close(&w);
    probe_free(&quiet);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(what_was_due_at_a_free_never_runs),
        claim(what_is_due_in_the_same_turn_never_runs_after_a_free_by_another),
        claim(a_loop_that_a_callback_runs_is_refused_and_disturbs_nothing),
        claim(no_call_waits_for_the_loop_in_a_callback),
        claim(other_threads_go_on_while_any_callback_runs),
    };

    return run_claims(tests);
}
