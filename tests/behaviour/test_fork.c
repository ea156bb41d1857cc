/**
 * @file test_fork.c
 * A forked child: every call fails with ECHILD, none spins, and the parent notices nothing.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

static int callbacks_in_child;

static void child_read(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    (void)socket;
    (void)message;
    (void)arg;
    callbacks_in_child++;
}

static void child_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    (void)socket;
    (void)event;
    (void)arg;
    callbacks_in_child++;
}

struct family {
    struct fixture *f;
    struct probe p;
    void *peer;
};

static void open_family(struct fixture *f, struct family *family)
{
    void *dealer = NULL;

    memset(family, 0, sizeof *family);
    family->f = f;
    family->p.on_read = read_sequence;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_DEALER, &dealer, ZMQ_DEALER, &family->peer);
    probe_attach(f, &family->p, dealer, EVZMQ_OPT_CLOSE_ON_FREE);
    probe_enable(&family->p, EV_READ);
    peer_send_sequence(family->peer, 0, 1, 8);
    run_until(f, family->p.reads == 1);
}

/* Runs a function in a child; the parent's socket must go on afterwards as if nothing had been. */
static void in_child(struct family *family, void (*function)(void *arg))
{
    const uint64_t next = family->p.sequence;

    peer_send_sequence(family->peer, next, 3, 8); /* Waiting in both processes. */
    child_run(function, family);
    peer_send_sequence(family->peer, next + 3, 3, 8);
    run_until(family->f, family->p.sequence == next + 6);
}

static void close_family(struct family *family)
{
    char text[32];

    assert_ok(evzmq_socket_write(family->p.socket, "still here", 10));
    (void)peer_recv_text(family->peer, text, sizeof text);
    assert_string_equal(text, "still here");
    probe_free(&family->p);
}

static void child_calls(void *arg)
{
    struct family *const family = arg;
    struct evzmq_socket *const s = family->p.socket;
    const struct evzmq_bytes part = {"x", 1};
    const struct timeval second = {1, 0};
    struct evzmq_message *message = evzmq_message_new();
    struct evzmq_message *received = NULL;

    child_check(evzmq_message_add(message, "x", 1) == 0);
    child_refused(evzmq_socket_enable(s, EV_READ));
    child_refused(evzmq_socket_disable(s, EV_READ));
    child_refused(evzmq_socket_write(s, "x", 1));
    child_refused(evzmq_socket_write_parts(s, &part, 1));
    child_refused(evzmq_socket_write_value(s, &part));
    child_refused(evzmq_socket_write_message(s, message));
    child_refused(evzmq_socket_reply(s, NULL, "x", 1));
    child_refused(evzmq_socket_reply_value(s, NULL, &part));
    child_refused(evzmq_socket_try_recv(s, &received));
    child_refused(evzmq_socket_recv_many(s, &received, 1));
    child_refused(evzmq_socket_recv(s, &second, &received));
    child_refused(evzmq_socket_touch(s));
    child_refused(evzmq_socket_set_codec(s, NULL));
    child_refused(evzmq_socket_set_receive_mode(s, EVZMQ_RECEIVE_INTO));
    child_refused(evzmq_socket_set_max_message(s, 1, 1, EVZMQ_OVERSIZE_DROP));
    child_refused(evzmq_socket_set_budget(s, NULL));
    child_refused(evzmq_socket_set_output_limit(s, 1, 1));
    child_refused(evzmq_socket_set_output_watermark(s, 1, 2));
    child_refused(evzmq_socket_set_timeouts(s, &second, NULL));
    child_refused(evzmq_socket_priority_set(s, 0));
    child_refused(evzmq_socket_set_packing(s, 1024, 0));
    child_refused(evzmq_socket_set_unpacking(s, 1));
    child_refused(evzmq_socket_flush(s));
    child_refused(evzmq_socket_shutdown(s, &second, NULL, NULL));
    child_refused(evzmq_base_set_receive_buffer(family->f->base, 1));
    child_check(evzmq_message_get_part_count(message) == 1); /* It stayed the child's. */
    evzmq_message_free(message);
}

/* What only tells is no danger, and must not hang either. */
static void child_asks(void *arg)
{
    struct family *const family = arg;
    struct evzmq_socket *const s = family->p.socket;
    struct evzmq_socket_stats stats = {.size = sizeof stats};
    size_t bytes = 0;
    void *own = NULL;

    child_check(evzmq_socket_get_base(s) == family->f->base);
    child_check(evzmq_socket_get_zmq_socket(s) != NULL);
    child_check(evzmq_socket_get_enabled(s) == 0); /* It does nothing here. */
    child_check(evzmq_socket_get_queued(s, &bytes) == 0);
    child_check(evzmq_socket_get_stats(s, &stats) == 0 && stats.messages_in == family->p.reads);
    evzmq_socket_getcb(s, NULL, NULL, NULL, &own);
    child_check(own == &family->p);
    evzmq_socket_setcb(s, NULL, NULL, NULL, NULL);
    child_check(evzmq_after_fork(family->f->base) == -1 && errno == EBUSY);
}

static void every_call_of_the_child_on_the_parents_socket_is_echild(void **state)
{
    struct family family;

    open_family(*state, &family);
    in_child(&family, child_calls);
    in_child(&family, child_asks);
    close_family(&family);
}

static void child_frees_at_once(void *arg)
{
    struct family *const family = arg;

    evzmq_socket_free(family->p.socket);
}

static void a_child_that_frees_before_event_reinit_does_not_disturb_the_parent(void **state)
{
    struct family family;

    open_family(*state, &family);
    for (int i = 0; i < 10; i++) {
        in_child(&family, child_frees_at_once);
    }
    close_family(&family);
}

static void child_runs_the_loop(void *arg)
{
    struct family *const family = arg;

    evzmq_socket_setcb(family->p.socket, child_read, NULL, child_event, NULL);
    child_check(event_reinit(family->f->base) == 0);
    for (int i = 0; i < 10; i++) {
        child_check(event_base_loop(family->f->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) != -1);
    }
    child_check(callbacks_in_child == 0);
    evzmq_socket_free(family->p.socket);
    child_check(event_base_loop(family->f->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) != -1);
    child_check(callbacks_in_child == 0);
}

static void child_runs_the_loop_as_it_is(void *arg)
{
    struct family *const family = arg;

    evzmq_socket_setcb(family->p.socket, child_read, NULL, child_event, NULL);
    for (int i = 0; i < 10; i++) {
        child_check(event_base_loop(family->f->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) != -1);
    }
    child_check(callbacks_in_child == 0);
    evzmq_socket_free(family->p.socket);
    for (int i = 0; i < 10; i++) {
        child_check(event_base_loop(family->f->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) != -1);
    }
}

static void child_frees_and_runs_the_loop(void *arg)
{
    struct family *const family = arg;

    evzmq_socket_free(family->p.socket);
    for (int i = 0; i < 10; i++) {
        child_check(event_base_loop(family->f->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) != -1);
    }
}

static void
a_child_that_runs_the_loop_without_event_reinit_does_not_disturb_the_parent(void **state)
{
    struct family family;

    open_family(*state, &family);
    in_child(&family, child_runs_the_loop_as_it_is);
    in_child(&family, child_frees_and_runs_the_loop);
    close_family(&family);
}

static void no_callback_runs_in_the_child(void **state)
{
    struct family family;

    open_family(*state, &family);
    in_child(&family, child_runs_the_loop);
    close_family(&family);
}

static void child_starts_anew(void *arg)
{
    struct family *const family = arg;
    struct event_base *const base = family->f->base;
    struct evzmq_socket *fresh = NULL;
    void *context = NULL;
    void *pull = NULL;
    void *push = NULL;

    child_check(evzmq_after_fork(NULL) == -1 && errno == EINVAL);
    child_check(evzmq_after_fork(base) == -1 && errno == EBUSY);
    context = zmq_ctx_new();
    pull = zmq_socket(context, ZMQ_PULL);
    push = zmq_socket(context, ZMQ_PUSH);
    child_check(evzmq_socket_new(base, pull, 0) == NULL && errno == ECHILD);
    evzmq_socket_free(family->p.socket);
    child_check(event_reinit(base) == 0);
    child_check(evzmq_after_fork(base) == 0);
    child_check(zmq_bind(pull, "inproc://child") == 0);
    child_check(zmq_connect(push, "inproc://child") == 0);
    fresh = evzmq_socket_new(base, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    child_check(fresh != NULL);
    evzmq_socket_setcb(fresh, child_read, NULL, child_event, NULL);
    child_check(evzmq_socket_enable(fresh, EV_READ) == 0);
    for (int i = 0; i < 100; i++) {
        child_check(zmq_send(push, "x", 1, 0) == 1);
    }
    while (callbacks_in_child < 100) {
        child_check(event_base_loop(base, EVLOOP_ONCE) == 0);
    }
    evzmq_socket_free(fresh);
    child_check(zmq_close(push) == 0);
    child_check(zmq_ctx_term(context) == 0);
}

static void the_child_may_reuse_the_base_for_sockets_of_its_own(void **state)
{
    struct family family;

    open_family(*state, &family);
    in_child(&family, child_starts_anew);
    in_child(&family, child_starts_anew);
    close_family(&family);
}

/* An allocator that gives one block, once it was freed, to the next who wants as much. Others do so
 * by themselves, now and then. */
static struct {
    struct {
        const void *block;
        size_t size;
    } made[256];
    size_t count;
    void *watched;
    size_t size;
    int is_free;
} heap;

static void *heap_malloc(size_t size)
{
    if (heap.is_free && size == heap.size) {
        heap.is_free = 0;
        return heap.watched;
    }
    void *const block = malloc(size);
    heap.made[heap.count % 256].block = block;
    heap.made[heap.count++ % 256].size = size;
    return block;
}

static void heap_free(void *block)
{
    if (block != NULL && block == heap.watched) {
        heap.is_free = 1;
    } else {
        free(block);
    }
}

static size_t size_of_base(void)
{
    struct event_base *const base = event_base_new();
    size_t size = 0;

    for (size_t i = 0; i < 256; i++) {
        size = heap.made[i].block == base ? heap.made[i].size : size;
    }
    event_base_free(base);
    return size;
}

static void child_makes_another_base(void *arg)
{
    struct family *const family = arg;
    struct event_base *const base = family->f->base;
    void *const context = zmq_ctx_new();
    void *const pull = zmq_socket(context, ZMQ_PULL);
    void *const push = zmq_socket(context, ZMQ_PUSH);

    event_set_mem_functions(heap_malloc, realloc, heap_free);
    heap.size = size_of_base();
    heap.watched = base;
    evzmq_socket_free(family->p.socket);
    child_check(event_reinit(base) == 0);
    child_check(evzmq_socket_new(base, pull, 0) == NULL && errno == ECHILD);
    event_base_free(base);
    struct event_base *const another = event_base_new();
    child_check(another == base);
    child_check(zmq_bind(pull, "inproc://child") == 0);
    child_check(zmq_connect(push, "inproc://child") == 0);
    struct evzmq_socket *const fresh = evzmq_socket_new(another, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    child_check(fresh != NULL);
    evzmq_socket_setcb(fresh, child_read, NULL, child_event, NULL);
    child_check(evzmq_socket_enable(fresh, EV_READ) == 0);
    child_check(zmq_send(push, "x", 1, 0) == 1);
    while (callbacks_in_child < 1) {
        child_check(event_base_loop(another, EVLOOP_ONCE) == 0);
    }
    evzmq_socket_free(fresh);
    event_base_free(another);
    child_check(zmq_close(push) == 0);
    child_check(zmq_ctx_term(context) == 0);
}

static void a_base_that_takes_the_place_of_a_freed_one_is_the_childs_own(void **state)
{
    struct family family;

    open_family(*state, &family);
    in_child(&family, child_makes_another_base);
    close_family(&family);
}

static void after_fork_in_a_process_that_never_forked_does_nothing(void **state)
{
    struct family family;

    open_family(*state, &family);
    assert_errno(evzmq_after_fork(NULL), EINVAL);
    close_family(&family);
    assert_ok(evzmq_after_fork(family.f->base));
}

static void child_frees_with_a_full_queue(void *arg)
{
    struct family *const family = arg;

    evzmq_socket_free(family->p.socket);
    child_check(event_reinit(family->f->base) == 0);
    event_base_free(family->f->base);
}

static void a_child_frees_a_socket_with_queued_output_and_the_parent_still_sends_it(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct family family = {.f = f};
    char endpoint[ENDPOINT_SIZE];
    void *const push = peer_new(f, ZMQ_PUSH);
    void *pull = NULL;

    peer_bind(f, push, TRANSPORT_INPROC, endpoint);
    probe_attach(f, &p, push, 0);
    for (uint64_t i = 0; i < 100; i++) {
        assert_ok(evzmq_socket_write(p.socket, &i, sizeof i));
    }
    family.p = p;
    child_run(child_frees_with_a_full_queue, &family);
    pull = peer_new(f, ZMQ_PULL);
    peer_connect(pull, endpoint);
    pump_recv_sequence(f, pull, 0, 100);
    probe_free(&p);
}

static void child_does_nothing(void *arg)
{
    (void)arg;
}

/* Messages wait in both directions at each fork; none is lost, repeated or reordered. */
static void however_many_forks_take_nothing_from_the_parent(void **state)
{
    static void (*const functions[])(void *) = {child_does_nothing, child_frees_at_once,
                                                child_calls, child_runs_the_loop};
    struct fixture *const f = *state;
    struct family family;
    const uint64_t count = (uint64_t)scaled(100, 1000);

    open_family(f, &family);
    for (uint64_t i = 0; i < count; i++) {
        assert_ok(evzmq_socket_write(family.p.socket, &i, sizeof i));
        in_child(&family, functions[i % (sizeof functions / sizeof functions[0])]);
        pump_recv_sequence(f, family.peer, i, 1);
    }
    assert_int_equal(family.p.reads, 1 + 6 * count);
    assert_int_equal(family.p.events_all, 0);
    assert_int_equal(probe_stats(&family.p).messages_out, count);
    close_family(&family);
}

static pid_t forked; /* 0 in the child, -1 before. */
static size_t reads_in_child;

static void read_and_fork(struct probe *p, struct evzmq_message *message)
{
    (void)message;
    if (forked == 0) {
        reads_in_child++;
    } else if (p->reads == 1) {
        forked = child_fork();
    }
}

/* What waits in libzmq is in the memory of both, and the parent gets it. */
static void a_child_forked_in_a_callback_gets_no_further_callback_of_that_pass(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget budget = {.size = sizeof budget, .read_usec = 10000000};
    struct probe p = {.on_read = read_and_fork};
    void *dealer = NULL;
    void *peer = NULL;

    forked = -1;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_DEALER, &dealer, ZMQ_DEALER, &peer);
    probe_attach(f, &p, dealer, 0);
    assert_ok(evzmq_socket_set_budget(p.socket, &budget)); /* A fork takes its time. */
    probe_enable(&p, EV_READ);
    peer_send_sequence(peer, 0, 10, 8);
    run_until(f, forked == 0 || p.reads == 10);
    if (forked == 0) {
        _exit(reads_in_child == 0 ? 0 : 1);
    }
    assert_true(forked > 0);
    assert_int_equal(child_wait(forked), 0);
    probe_free(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(every_call_of_the_child_on_the_parents_socket_is_echild),
        claim(a_child_that_frees_before_event_reinit_does_not_disturb_the_parent),
        claim(a_child_that_runs_the_loop_without_event_reinit_does_not_disturb_the_parent),
        claim(no_callback_runs_in_the_child),
        claim(the_child_may_reuse_the_base_for_sockets_of_its_own),
        claim(a_base_that_takes_the_place_of_a_freed_one_is_the_childs_own),
        claim(after_fork_in_a_process_that_never_forked_does_nothing),
        claim(a_child_frees_a_socket_with_queued_output_and_the_parent_still_sends_it),
        claim(however_many_forks_take_nothing_from_the_parent),
        claim(a_child_forked_in_a_callback_gets_no_further_callback_of_that_pass),
    };

    return run_claims(tests);
}
