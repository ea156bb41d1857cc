/**
 * @file test_request_shutdown.c
 * The orderly end of a requester, and forked children of a process that has one.
 */
#include "asker.h"

#include <sys/wait.h>

#include "child.h"

static void open_asker(struct fixture *f, struct asker *a, void **out_server)
{
    asker_open(f, a, TRANSPORT_INPROC, ZMQ_ROUTER, out_server, NULL);
}

struct ending {
    struct asker *a;
    int calls;
    uint64_t replied;
    uint64_t failed;
    int frees;
};

static void note_shutdown(struct evzmq_requester *requester, uint64_t replied, uint64_t failed,
                          void *arg)
{
    struct ending *const ending = arg;

    assert_ptr_equal(requester, ending->a->requester);
    assert_true(ending->a->f->dispatching);
    assert_int_equal(ending->a->f->depth, 0);
    ending->calls++;
    ending->replied = replied;
    ending->failed = failed;
    if (ending->frees) {
        asker_free_requester(ending->a);
        asker_free_socket(ending->a);
    }
}

static void a_shutdown_waits_for_what_is_outstanding_and_refuses_more(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct ending ending = {.a = &a};
    struct heard heard[3];
    void *server = NULL;

    open_asker(f, &a, &server);
    for (int i = 0; i < 3; i++) {
        (void)ask(&a, "q", 60000);
        hear(f, server, &heard[i]);
    }
    answer(server, &heard[0], "before");
    run_until(f, a.replied == 1);
    assert_ok(evzmq_requester_shutdown(a.requester, NULL, note_shutdown, &ending));
    assert_ok(evzmq_requester_shutdown(a.requester, NULL, NULL, NULL));
    assert_errno((int)evzmq_request_bytes(a.requester, "q", 1, -1, asker_note, &a), ESHUTDOWN);
    assert_ok(evzmq_request_cancel(a.requester, 3));
    fixture_run_for(f, 10);
    assert_int_equal(ending.calls, 0);
    answer(server, &heard[1], "after");
    run_until(f, ending.calls == 1);
    assert_string_equal(a.log, "1=before 2=after");
    assert_int_equal(ending.replied, 1);
    assert_int_equal(ending.failed, 1);
    fixture_run_for(f, 10);
    assert_int_equal(ending.calls, 1);
    asker_close(&a);
}

static void a_shutdown_ends_the_rest_with_ecanceled_at_its_deadline(void **state)
{
    struct fixture *const f = *state;
    const struct timeval deadlines[] = {{0, 0}, {0, 10000}};

    for (int i = 0; i < 2; i++) {
        struct asker a = {0};
        struct ending ending = {.a = &a, .frees = i};
        void *server = NULL;

        open_asker(f, &a, &server);
        (void)ask(&a, "1", 60000);
        (void)ask(&a, "2", -1);
        assert_ok(evzmq_requester_shutdown(a.requester, &deadlines[i], note_shutdown, &ending));
        assert_int_equal(a.ended, 0);
        run_until(f, ending.calls == 1);
        assert_string_equal(a.log, "1!cancelled 2!cancelled");
        assert_int_equal(ending.replied, 0);
        assert_int_equal(ending.failed, 2);
        asker_close(&a);
    }
}

static void a_shutdown_of_an_idle_requester_ends_in_the_next_turn(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct ending ending = {.a = &a};
    void *server = NULL;

    open_asker(f, &a, &server);
    assert_ok(evzmq_requester_shutdown(a.requester, NULL, note_shutdown, &ending));
    assert_int_equal(ending.calls, 0);
    run_until(f, ending.calls == 1);
    assert_int_equal(ending.replied + ending.failed, 0);
    asker_close(&a);
}

static void a_free_cancels_the_callback_of_a_shutdown(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct ending ending = {.a = &a};
    const struct timeval now = {0, 0};
    void *server = NULL;

    open_asker(f, &a, &server);
    (void)ask(&a, "q", 0);
    assert_ok(evzmq_requester_shutdown(a.requester, &now, note_shutdown, &ending));
    asker_free_requester(&a);
    fixture_run_for(f, 10);
    assert_int_equal(ending.calls, 0);
    assert_int_equal(a.ended, 0);
    asker_close(&a);
}

static void a_shutdown_ends_when_the_socket_goes(void **state)
{
    struct fixture *const f = *state;
    struct asker a = {0};
    struct ending ending = {.a = &a};
    void *server = NULL;

    open_asker(f, &a, &server);
    (void)ask(&a, "q", -1);
    assert_ok(evzmq_requester_shutdown(a.requester, NULL, note_shutdown, &ending));
    asker_free_socket(&a);
    run_until(f, ending.calls == 1);
    assert_string_equal(a.log, "1!shutdown");
    asker_close(&a);
}

static void a_socket_that_was_shut_down_takes_no_requester(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};

    probe_attach(f, &p, peer_new(f, ZMQ_DEALER), 0);
    assert_ok(evzmq_socket_shutdown(p.socket, NULL, NULL, NULL));
    errno = 0;
    assert_null(evzmq_requester_new(p.socket, NULL));
    assert_int_equal(errno, ESHUTDOWN);
    probe_free(&p);
}

static void child_uses_requester(void *arg)
{
    struct asker *const a = arg;
    struct evzmq_message *const message = evzmq_message_new();
    struct evzmq_requester_stats stats = {.size = sizeof stats};

    child_check(evzmq_message_add(message, "x", 1) == 0);
    child_refused(evzmq_request_bytes(a->requester, "q", 1, -1, asker_note, a));
    child_refused(evzmq_request(a->requester, message, -1, asker_note, a));
    child_refused(evzmq_request_message(a->requester, message, -1, asker_note, a));
    child_refused(evzmq_request_cancel(a->requester, 1));
    child_refused(evzmq_requester_shutdown(a->requester, NULL, NULL, NULL));
    child_check(evzmq_requester_get_stats(a->requester, &stats) == 0 && stats.outstanding == 2);
    evzmq_message_free(message);
    child_check(event_reinit(a->f->base) == 0);
    a->requester = NULL; /* A callback would fail here. */
    child_check(event_base_loop(a->f->base, EVLOOP_NONBLOCK) >= 0);
}

static void child_frees_requester(void *arg)
{
    struct asker *const a = arg;

    evzmq_requester_free(a->requester);
    evzmq_socket_free(a->socket);
    child_check(event_reinit(a->f->base) == 0);
    child_check(evzmq_after_fork(a->f->base) == 0);
}

static void child_frees_socket_first(void *arg)
{
    struct asker *const a = arg;

    evzmq_socket_free(a->socket);
    child_check(event_reinit(a->f->base) == 0);
    evzmq_requester_free(a->requester);
    child_check(evzmq_after_fork(a->f->base) == 0);
}

static void a_forked_child_gets_echild_and_may_free(void **state)
{
    static void (*const functions[])(void *) = {child_uses_requester, child_frees_requester,
                                                child_frees_socket_first};
    struct fixture *const f = *state;
    struct asker a = {0};
    struct heard heard;
    void *server = NULL;

    open_asker(f, &a, &server);
    (void)ask(&a, "1", 60000);
    (void)ask(&a, "2", 60000);
    for (size_t i = 0; i < 3; i++) {
        child_run(functions[i], &a);
    }
    for (int i = 0; i < 2; i++) {
        hear(f, server, &heard);
        answer(server, &heard, "r");
    }
    run_until(f, a.replied == 2);
    asker_close(&a);
}

static pid_t forked; /* 0 in the child, -1 before. */

static void fork_once(struct asker *a, int64_t number, int error, struct evzmq_message *reply)
{
    (void)number;
    (void)error;
    (void)reply;
    if (a->ended == 1) {
        forked = child_fork();
    }
}

static void a_child_forked_in_a_reply_callback_gets_no_further_one(void **state)
{
    struct fixture *const f = *state;

    for (int answered = 0; answered < 2; answered++) {
        struct asker a = {.on_end = fork_once};
        struct heard heard[10];
        void *server = NULL;

        forked = -1;
        open_asker(f, &a, &server);
        /* From the first that can end on, the loop must not run before it is waited for below. */
        for (int i = 0; i < 10; i++) {
            (void)ask(&a, "q", answered ? 60000 : 0);
        }
        for (int i = 0; answered && i < 10; i++) {
            hear(f, server, &heard[i]);
        }
        for (int i = 0; answered && i < 10; i++) {
            answer(server, &heard[i], "r");
        }
        run_until(f, forked == 0 || a.ended == 10);
        if (forked == 0) {
            _exit(a.ended == 1 ? 0 : 1);
        }
        assert_true(forked > 0);
        assert_int_equal(child_wait(forked), 0);
        asker_close(&a);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_shutdown_waits_for_what_is_outstanding_and_refuses_more),
        claim(a_shutdown_ends_the_rest_with_ecanceled_at_its_deadline),
        claim(a_shutdown_of_an_idle_requester_ends_in_the_next_turn),
        claim(a_free_cancels_the_callback_of_a_shutdown),
        claim(a_shutdown_ends_when_the_socket_goes),
        claim(a_socket_that_was_shut_down_takes_no_requester),
        claim(a_forked_child_gets_echild_and_may_free),
        claim(a_child_forked_in_a_reply_callback_gets_no_further_one),
    };

    return run_claims(tests);
}
