/**
 * @file test_subscriber_ends.c
 * Subscribers that are freed, terminated or inherited by a child in the middle of a batch.
 */
#include "audience.h"
#include "child.h"

#include <string.h>

#include <sys/wait.h>
#include <unistd.h>

static void free_in_the_middle(struct listener *l, struct evzmq_message *message)
{
    check_number(l, message);
    if (l->records == 3) {
        const void *const data = evzmq_message_get_part(message, 0, NULL);
        uint32_t number = 0;

        listener_free(l);
        memcpy(&number, data, sizeof number); /* Lent until the callback returns. */
        assert_int_equal(number, 2);
    }
}

static void free_in_a_batch_stops_it(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_budget one = {.size = sizeof one, .read_messages = 1};

    for (int kept = 0; kept < 2; kept++) {
        struct listener l = {.on_record = free_in_the_middle};
        void *peer = NULL;

        listener_open(f, &l, NULL);
        if (kept) { /* It goes on from a turn of its own. */
            assert_ok(evzmq_socket_set_budget(evzmq_subscriber_get_socket(l.subscriber), &one));
        }
        peer = listener_peer(&l, TRANSPORT_INPROC);
        listener_subscribe(&l, peer, "", 2);
        send_numbers(peer, 10, 100);
        run_until(f, l.subscriber == NULL);
        assert_int_equal(l.records, 3);
    }
}

static void free_on_error(struct listener *l, const struct evzmq_event *event)
{
    (void)event;
    listener_free(l);
}

static void free_in_an_event_callback_is_the_end(void **state)
{
    struct fixture *const f = *state;
    const char *const faults[] = {"", "\x92\xc4\x01x"};

    for (size_t i = 0; i < 2; i++) {
        struct listener l = {.on_event = free_on_error};
        unsigned char frame[64];
        void *peer = NULL;

        listener_open(f, &l, NULL);
        peer = listener_peer(&l, TRANSPORT_INPROC);
        listener_subscribe(&l, peer, "", 2);
        peer_send(peer, frame, frame_write(frame, "batch", faults[i], strlen(faults[i])));
        peer_send(peer, "short", 5);
        run_until(f, l.subscriber == NULL);
    }
}

static void use_in_child(void *arg)
{
    struct listener *const l = arg;

    child_refused(evzmq_subscriber_subscribe(l->subscriber, "x"));
    child_refused(evzmq_subscriber_unsubscribe(l->subscriber, "x"));
    child_refused(evzmq_subscriber_enable(l->subscriber));
    child_refused(evzmq_subscriber_disable(l->subscriber));
    child_refused(evzmq_subscriber_set_codec(l->subscriber, NULL));
    evzmq_subscriber_setcb(l->subscriber, NULL, NULL, NULL);
    evzmq_subscriber_free(l->subscriber);
}

static void forked_child_may_only_free_its_subscriber(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {.on_record = disable_at_three};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_IPC);
    listener_subscribe(&l, peer, "", 2);
    send_numbers(peer, 10, 4);
    run_until(f, l.records == 3);
    child_run(use_in_child, &l);
    l.on_record = check_number;
    assert_ok(evzmq_subscriber_enable(l.subscriber));
    run_until(f, l.records == 10);
    listener_free(&l);
}

static void fork_in_callback(struct listener *l, struct evzmq_message *message)
{
    check_number(l, message);
    if (l->records == 2) {
        const pid_t child = child_fork();

        assert_true(child >= 0);
        if (child == 0) {
            l->arg = l; /* The mark of the child. */
        }
    }
    assert_true(l->arg == NULL || l->records == 2); /* Otherwise the child got a third. */
}

static void run_and_fork(void *arg)
{
    struct listener *const l = arg;

    while (l->arg == NULL && l->records < 10) {
        (void)event_base_loop(l->f->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    }
}

static void child_forked_in_a_callback_gets_no_further_record(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {.on_record = fork_in_callback};
    void *peer = NULL;
    int status = 0;

    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    send_numbers(peer, 10, 4);
    f->dispatching = 1;
    run_and_fork(&l);
    f->dispatching = 0;
    if (l.arg != NULL) {
        evzmq_subscriber_free(l.subscriber);
        _exit(l.records == 2 ? 0 : 1);
    }
    assert_int_equal(l.records, 10);
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
    listener_free(&l);
}

static void terminated_subscriber_says_so(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {.on_record = disable_at_three};
    void *peer = NULL;

    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    send_numbers(peer, 10, 4);
    run_until(f, l.records == 3);
    assert_int_equal(zmq_ctx_shutdown(f->context), 0);
    run_until(f, l.events[EVZMQ_EVENT_TERMINATED]);
    assert_errno(evzmq_subscriber_enable(l.subscriber), ETERM);
    assert_errno(evzmq_subscriber_subscribe(l.subscriber, "x"), ETERM);
    assert_int_equal(fixture_loop(f, 0), 1);
    assert_int_equal(l.records, 3);
    listener_free(&l);
}

static void other_sockets_are_refused_and_stay_the_callers(void **state)
{
    struct fixture *const f = *state;
    void *const xsub = peer_new(f, ZMQ_XSUB);
    struct evzmq_subscriber_options how = {.size = 1};

    errno = 0;
    assert_null(evzmq_subscriber_new(f->base, xsub, EVZMQ_OPT_CLOSE_ON_FREE, NULL));
    assert_int_equal(errno, EINVAL);
    peer_set_int(xsub, ZMQ_LINGER, 0);
    errno = 0;
    assert_null(evzmq_subscriber_new(f->base, peer_new(f, ZMQ_SUB), 0, &how));
    assert_int_equal(errno, EINVAL);
    evzmq_subscriber_free(NULL);
    assert_null(evzmq_subscriber_get_socket(NULL));
}

static void calls_without_a_subscriber_are_refused_or_do_nothing(void **state)
{
    struct evzmq_subscriber_stats stats = {.size = sizeof(stats)};

    (void)state;
    evzmq_subscriber_setcb(NULL, NULL, NULL, NULL);
    evzmq_subscriber_set_topic_cb(NULL, NULL, NULL);
    assert_null(evzmq_subscriber_get_socket(NULL));
    assert_errno(evzmq_subscriber_set_codec(NULL, NULL), EINVAL);
    assert_errno(evzmq_subscriber_subscribe(NULL, ""), EINVAL);
    assert_errno(evzmq_subscriber_unsubscribe(NULL, ""), EINVAL);
    assert_errno(evzmq_subscriber_enable(NULL), EINVAL);
    assert_errno(evzmq_subscriber_disable(NULL), EINVAL);
    assert_errno(evzmq_subscriber_get_stats(NULL, &stats), EINVAL);
    evzmq_subscriber_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(free_in_a_batch_stops_it),
        claim(free_in_an_event_callback_is_the_end),
        claim(forked_child_may_only_free_its_subscriber),
        claim(child_forked_in_a_callback_gets_no_further_record),
        claim(terminated_subscriber_says_so),
        claim(other_sockets_are_refused_and_stay_the_callers),
        claim(calls_without_a_subscriber_are_refused_or_do_nothing),
    };

    return run_claims(tests);
}
