/**
 * @file test_worker.c
 * The worker's side, against a main side of plain libzmq sockets.
 */
#include "crew.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include <evzmq/msgpack.h>

#include "child.h"

/* A main side: three sockets and their endpoints; and what a worker told. */
struct office {
    struct fixture *f;
    void *requests;
    void *responses;
    void *ready;
    char endpoints[3][ENDPOINT_SIZE];
    char connection[1024];

    struct evzmq_worker *worker; /* NULL once freed */
    size_t asked;
    char request[256]; /* the latest, its parts joined by '|', with the header */
    size_t events[EVZMQ_WORKER_EVENT_ERROR + 1];
    struct evzmq_worker_event last;
    enum evzmq_worker_reason reason;
    int hold;
    void (*on_event)(struct office *o);
    int free_on; /* frees the worker on this event; 0: none, -1: on a request */
};

static void on_request(struct evzmq_worker *worker, struct evzmq_message *message, void *arg)
{
    struct office *const o = arg;

    assert_ptr_equal(worker, o->worker);
    assert_true(o->f->dispatching);
    assert_int_equal(evzmq_envelope_get_part_count(evzmq_message_get_envelope(message)), 1);
    o->asked++;
    (void)message_text(message, o->request, sizeof o->request);
    if (o->free_on == -1) {
        evzmq_worker_free(worker);
        o->worker = NULL;
    }
}

static void on_event(struct evzmq_worker *worker, const struct evzmq_worker_event *event, void *arg)
{
    struct office *const o = arg;

    assert_ptr_equal(worker, o->worker);
    assert_true(o->f->dispatching);
    assert_int_equal(event->size, sizeof *event);
    o->events[event->type]++;
    o->last = *event;
    if (event->type == EVZMQ_WORKER_EVENT_END) {
        o->reason = event->reason;
        if (o->hold) {
            evzmq_worker_hold(worker);
        }
    }
    if (o->on_event != NULL) {
        o->on_event(o);
    }
    if (o->free_on == (int)event->type) {
        evzmq_worker_free(worker);
        o->worker = NULL;
    }
}

/* Chooses endpoints; nothing is bound. */
static void found(struct fixture *f, struct office *o, unsigned start)
{
    o->f = f;
    o->requests = peer_new(f, ZMQ_PUSH);
    o->responses = peer_new(f, ZMQ_PULL);
    o->ready = peer_new(f, ZMQ_PULL);
    void *const sockets[] = {o->requests, o->responses, o->ready};
    for (int i = 0; i < 3; i++) {
        peer_bind(f, sockets[i], TRANSPORT_IPC, o->endpoints[i]);
        assert_int_equal(zmq_unbind(sockets[i], o->endpoints[i]), 0);
    }
    (void)snprintf(
        o->connection, sizeof o->connection,
        "evzmq-pool/1,worker=3,workers=8,start=%u,heartbeat=50,connect=10000,hwm=10,parent=0,"
        "requests=%s,responses=%s,ready=%s",
        start, o->endpoints[0], o->endpoints[1], o->endpoints[2]);
}

static void open_doors(struct office *o)
{
    assert_int_equal(zmq_bind(o->responses, o->endpoints[1]), 0);
    assert_int_equal(zmq_bind(o->ready, o->endpoints[2]), 0);
    assert_int_equal(zmq_bind(o->requests, o->endpoints[0]), 0);
}

static void hire(struct office *o, const struct evzmq_worker_options *options)
{
    o->worker = evzmq_worker_new(o->f->base, o->connection, options);
    assert_non_null(o->worker);
    evzmq_worker_setcb(o->worker, on_request, on_event, o);
}

/* The first thing that comes the way of the answers: a header with a flag, and an empty part. */
static void expect_greeting(const struct office *o, unsigned start)
{
    char text[64];
    const char expected[] = {3, (char)start, EVZMQ_POOL_FLAG_CONNECTED, '|'};

    pump_recv_text(o->f, o->responses, text, sizeof text);
    assert_memory_equal(text, expected, sizeof expected);
}

static void open_office(struct fixture *f, struct office *o, unsigned start)
{
    found(f, o, start);
    open_doors(o);
    hire(o, NULL);
    run_until(f, o->events[EVZMQ_WORKER_EVENT_READY]);
    expect_greeting(o, start);
}

static void fire(struct office *o)
{
    evzmq_worker_free(o->worker);
    o->worker = NULL;
}

static void the_ready_signal_comes_when_both_sockets_are_connected_and_not_before(void **state)
{
    struct fixture *const f = *state;
    struct office o = {0};
    char text[64];

    found(f, &o, 0);
    assert_int_equal(zmq_bind(o.ready, o.endpoints[2]), 0);
    hire(&o, NULL);
    fixture_run_for(f, 150);
    assert_int_equal(zmq_bind(o.responses, o.endpoints[1]), 0);
    fixture_run_for(f, 300);
    assert_int_equal(o.events[EVZMQ_WORKER_EVENT_READY], 0);
    assert_int_equal(peer_try_recv_text(o.ready, text, sizeof text), 0);
    assert_int_equal(zmq_bind(o.requests, o.endpoints[0]), 0);
    run_until(f, o.events[EVZMQ_WORKER_EVENT_READY]);
    pump_recv_text(f, o.ready, text, sizeof text);
    assert_string_equal(text, "\x03"); /* One msgpack integer. */
    fire(&o);
}

static void the_ready_signal_is_repeated_as_the_heartbeat(void **state)
{
    struct fixture *const f = *state;
    struct office o = {0};
    char text[64];

    open_office(f, &o, 0);
    for (int i = 0; i < 5; i++) {
        pump_recv_text(f, o.ready, text, sizeof text);
        assert_string_equal(text, "\x03");
    }
    assert_int_equal(o.events[EVZMQ_WORKER_EVENT_READY], 1);
    fire(&o);
}

static void answers_carry_the_identity_the_start_and_the_flags(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_bytes parts[] = {{"a", 1}, {"b", 1}};
    struct office o = {0};
    char text[64];

    open_office(f, &o, 5);
    assert_int_equal(evzmq_worker_get_identity(o.worker), 3);
    peer_send_text(o.requests, "\x03|a request");
    run_until(f, o.asked == 1);
    assert_string_equal(o.request, ".|a request");
    assert_ok(evzmq_worker_answer(o.worker, "x", 1, 0));
    pump_recv_text(f, o.responses, text, sizeof text);
    assert_string_equal(text, "\x03\x05|x");
    assert_ok(evzmq_worker_answer_parts(o.worker, parts, 2, EVZMQ_POOL_FLAG_MORE));
    pump_recv_text(f, o.responses, text, sizeof text);
    assert_string_equal(text, "\x03\x05\x01|a|b");
    assert_errno(evzmq_worker_answer(o.worker, "x", 1, EVZMQ_POOL_FLAG_END), EINVAL);
    assert_errno(evzmq_worker_answer(NULL, "x", 1, 0), EINVAL);
    fire(&o);
}

static void requests_for_somebody_else_are_told_and_not_delivered(void **state)
{
    struct fixture *const f = *state;
    struct office o = {0};

    open_office(f, &o, 0);
    peer_send_text(o.requests, "\x02|for number two");
    peer_send_text(o.requests, "no header");
    peer_send_text(o.requests, "\xff|x");
    peer_send_text(o.requests, "\x03|right");
    run_until(f, o.asked == 1);
    assert_int_equal(o.events[EVZMQ_WORKER_EVENT_BAD_REQUEST], 3);
    assert_int_equal(o.last.error, EPROTO);
    assert_string_equal(o.request, ".|right");
    fire(&o);
}

/* The word to end, as the main side sends it. */
static void say_end(struct office *o)
{
    assert_int_equal(zmq_send(o->requests, "\x03\x00\x02", 3, ZMQ_SNDMORE), 3);
    assert_int_equal(zmq_send(o->requests, "", 0, 0), 0);
}

static void the_word_to_end_ends_it_after_all_requests_and_dispatch_returns(void **state)
{
    struct fixture *const f = *state;
    struct office o = {0};
    char text[64];

    open_office(f, &o, 0);
    for (int i = 0; i < 10; i++) {
        peer_send_text(o.requests, "\x03|x");
    }
    say_end(&o);
    assert_int_equal(fixture_loop(f, 0), 1); /* Nothing is left on the base. */
    assert_int_equal(o.asked, 10);
    assert_int_equal(o.reason, EVZMQ_WORKER_REASON_ASKED);
    assert_int_equal(o.events[EVZMQ_WORKER_EVENT_END], 1);
    assert_int_equal(o.events[EVZMQ_WORKER_EVENT_ENDED], 1);
    assert_int_equal(o.last.unsent, 0);
    assert_null(evzmq_worker_get_request_socket(o.worker));
    assert_errno(evzmq_worker_answer(o.worker, "x", 1, 0), ESHUTDOWN);
    assert_ok(evzmq_worker_shutdown(o.worker));
    fire(&o);
    assert_int_equal(peer_try_recv_text(o.responses, text, sizeof text), 0);
}

static void a_worker_that_is_held_ends_when_it_says_so_and_its_answers_arrive(void **state)
{
    struct fixture *const f = *state;
    struct office o = {.hold = 1};
    char text[64];

    open_office(f, &o, 0);
    say_end(&o);
    run_until(f, o.events[EVZMQ_WORKER_EVENT_END]);
    fixture_run_for(f, 120);
    assert_int_equal(o.events[EVZMQ_WORKER_EVENT_ENDED], 0);
    assert_ok(evzmq_worker_answer(o.worker, "late", 4, 0));
    assert_ok(evzmq_worker_shutdown(o.worker));
    assert_errno(evzmq_worker_answer(o.worker, "too late", 8, 0), ESHUTDOWN);
    assert_int_equal(fixture_loop(f, 0), 1);
    fire(&o);
    assert_true(peer_recv_text(o.responses, text, sizeof text) > 0);
    assert_string_equal(text, "\x03|late");
}

static void answers_that_nobody_takes_are_counted_at_the_end(void **state)
{
    enum { MORE = 10 };
    struct fixture *const f = *state;
    const struct evzmq_worker_options options = {
        .size = sizeof options, .end_ms = 100, .output_messages = MORE};
    struct office o = {0};
    int taken = 0;

    found(f, &o, 0);
    peer_set_int(o.responses, ZMQ_RCVHWM, 1);
    open_doors(&o);
    hire(&o, &options);
    run_until(f, o.events[EVZMQ_WORKER_EVENT_READY]);
    while (evzmq_worker_answer(o.worker, &o, sizeof o, 0) == 0) {
        taken++;
        assert_true(taken < 10000000);
    }
    assert_int_equal(errno, EAGAIN);
    assert_ok(evzmq_worker_shutdown(o.worker));
    peer_send_text(o.requests, "\x03|too late");
    assert_int_equal(fixture_loop(f, 0), 1);
    assert_true(o.last.unsent > 0 && o.last.unsent <= MORE);
    assert_int_equal(o.asked, 0); /* It receives no more. */
    fire(&o);
}

static void a_worker_without_its_main_process_ends_after_a_while(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_worker_options options = {.size = sizeof options, .disconnected_ms = 200};
    struct office o = {0};

    found(f, &o, 0);
    open_doors(&o);
    hire(&o, &options);
    run_until(f, o.events[EVZMQ_WORKER_EVENT_READY]);
    peer_close(f, o.requests);
    peer_close(f, o.responses);
    assert_int_equal(fixture_loop(f, 0), 1);
    assert_int_equal(o.reason, EVZMQ_WORKER_REASON_MAIN_GONE);
    assert_int_equal(o.events[EVZMQ_WORKER_EVENT_ENDED], 1);
    fire(&o);
}

static void stay(void *arg)
{
    (void)arg;
    child_ready("here");
    child_sleep();
}

/* Whether the system has descriptors of processes. */
static bool has_process_descriptors(void)
{
#if defined(__linux__) && defined(SYS_pidfd_open)
    const int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    return fd >= 0 && close(fd) == 0;
#else
    return false;
#endif
}

/* Daemons close theirs, and the descriptor by which a worker watches its main process may get the
 * number. Where there are such descriptors that process is not reaped at once, so that the
 * descriptor alone can tell. */
static void a_worker_without_standard_input_sees_the_end_of_its_main_process(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_worker_options options = {.size = sizeof options};
    struct office o = {0};
    char text[256];
    const pid_t main_process = child_start(stay, NULL, text);
    const int input = dup(STDIN_FILENO);

    options.context = evzmq_context_new(1, NULL);
    assert_non_null(options.context);
    found(f, &o, 0);
    const size_t length = strlen(o.connection);
    (void)snprintf(o.connection + length, sizeof o.connection - length, ",parent=%ld",
                   (long)main_process);
    open_doors(&o);
    if (input >= 0) {
        (void)close(STDIN_FILENO);
    }
    hire(&o, &options);
    run_until(f, o.events[EVZMQ_WORKER_EVENT_READY]);
    assert_int_equal(kill(main_process, SIGKILL), 0);
    if (!has_process_descriptors()) {
        (void)child_wait(main_process);
    }
    assert_int_equal(fixture_loop(f, 0), 1);
    assert_int_equal(o.reason, EVZMQ_WORKER_REASON_MAIN_GONE);
    fire(&o);
    assert_ok(evzmq_context_free(options.context));
    if (input >= 0) {
        assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
        (void)close(input);
    }
    if (has_process_descriptors()) {
        (void)child_wait(main_process);
    }
}

static void a_connection_that_comes_back_in_time_ends_nothing(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_worker_options options = {.size = sizeof options, .disconnected_ms = 20000};
    struct office o = {0};

    found(f, &o, 0);
    open_doors(&o);
    hire(&o, &options);
    run_until(f, o.events[EVZMQ_WORKER_EVENT_READY]);
    peer_close(f, o.requests);
    fixture_run_for(f, 150);
    o.requests = peer_new(f, ZMQ_PUSH);
    assert_int_equal(zmq_bind(o.requests, o.endpoints[0]), 0);
    peer_send_text(o.requests, "\x03|again");
    run_until(f, o.asked == 1);
    assert_int_equal(o.events[EVZMQ_WORKER_EVENT_READY], 1);
    assert_int_equal(o.events[EVZMQ_WORKER_EVENT_END], 0);
    fire(&o);
}

static void a_worker_that_never_gets_through_ends(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_worker_options options = {.size = sizeof options, .connect_ms = 150};
    struct office o = {0};

    found(f, &o, 0);
    hire(&o, &options);
    assert_int_equal(fixture_loop(f, 0), 1);
    assert_int_equal(o.reason, EVZMQ_WORKER_REASON_NOT_CONNECTED);
    fire(&o);
}

/* The context is the program's, and so is its end. */
static void hire_in(struct office *o, void *zmq_context, struct evzmq_context **out_context,
                    struct evzmq_worker_options *options)
{
    *out_context = evzmq_context_new_with(zmq_context, NULL);
    options->size = sizeof *options;
    options->context = *out_context;
    open_doors(o);
    hire(o, options);
    run_until(o->f, o->events[EVZMQ_WORKER_EVENT_READY]);
}

static void fire_in(struct office *o, void *zmq_context, struct evzmq_context *context)
{
    fire(o);
    assert_ok(evzmq_context_free(context));
    assert_ok(zmq_ctx_term(zmq_context));
}

static void a_worker_whose_context_is_terminated_ends_and_dispatch_returns(void **state)
{
    struct fixture *const f = *state;

    for (int held = 0; held < 2; held++) {
        void *const zmq_context = zmq_ctx_new();
        struct evzmq_context *context = NULL;
        struct evzmq_worker_options options = {.end_ms = 60000};
        struct office o = {.hold = held};

        found(f, &o, 0);
        hire_in(&o, zmq_context, &context, &options);
        assert_int_equal(zmq_ctx_shutdown(zmq_context), 0);
        assert_int_equal(fixture_loop(f, 0), 1);
        assert_int_equal(o.events[EVZMQ_WORKER_EVENT_END], 1);
        assert_int_equal(o.reason, EVZMQ_WORKER_REASON_MAIN_GONE);
        assert_int_equal(o.events[EVZMQ_WORKER_EVENT_ENDED], 1);
        assert_int_equal(o.last.type, EVZMQ_WORKER_EVENT_ENDED);
        fire_in(&o, zmq_context, context);
    }
}

static void shut_down_when_terminated(struct office *o)
{
    if (o->events[EVZMQ_WORKER_EVENT_ERROR] == 3) { /* All its sockets are at their end. */
        assert_ok(evzmq_worker_shutdown(o->worker));
        assert_ok(evzmq_worker_shutdown(o->worker));
    }
}

static void a_worker_whose_context_is_terminated_may_be_shut_down(void **state)
{
    struct fixture *const f = *state;
    void *const zmq_context = zmq_ctx_new();
    struct evzmq_context *context = NULL;
    struct evzmq_worker_options options = {.end_ms = 60000};
    struct office o = {.on_event = shut_down_when_terminated};

    found(f, &o, 0);
    hire_in(&o, zmq_context, &context, &options);
    assert_int_equal(zmq_ctx_shutdown(zmq_context), 0);
    assert_int_equal(fixture_loop(f, 0), 1);
    assert_int_equal(o.events[EVZMQ_WORKER_EVENT_ENDED], 1);
    assert_errno(evzmq_worker_answer(o.worker, "late", 4, 0), ESHUTDOWN);
    fire_in(&o, zmq_context, context);
}

static void a_worker_may_be_freed_in_every_callback(void **state)
{
    struct fixture *const f = *state;
    const int when[] = {EVZMQ_WORKER_EVENT_READY, EVZMQ_WORKER_EVENT_END, EVZMQ_WORKER_EVENT_ENDED,
                        EVZMQ_WORKER_EVENT_BAD_REQUEST, -1};

    for (size_t i = 0; i < sizeof when / sizeof when[0]; i++) {
        struct office o = {.free_on = when[i]};

        found(f, &o, 0);
        open_doors(&o);
        hire(&o, NULL);
        run_until(f, o.worker == NULL || o.events[EVZMQ_WORKER_EVENT_READY]);
        if (o.worker != NULL) {
            peer_send_text(o.requests, when[i] == EVZMQ_WORKER_EVENT_BAD_REQUEST ? "x" : "\x03|x");
            say_end(&o);
        }
        assert_int_equal(fixture_loop(f, 0), 1);
        assert_null(o.worker);
        assert_true(o.asked <= 1);
    }
}

static void what_is_no_connection_is_refused(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_worker_options options = {.size = 1};
    struct office o = {0};
    char gone[1100];
    int status = 0;
    const pid_t child = quiet_fork();

    if (child == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    found(f, &o, 0);
    assert_null(evzmq_worker_new(NULL, o.connection, NULL));
    assert_null(evzmq_worker_new(f->base, NULL, NULL));
    assert_null(evzmq_worker_new(f->base, "", NULL));
    assert_null(evzmq_worker_new(f->base, "--help", NULL));
    assert_null(evzmq_worker_new(f->base, o.connection, &options));
    assert_int_equal(errno, EINVAL);
    assert_null(evzmq_worker_new(f->base, "evzmq-pool/2,x=y", NULL));
    assert_int_equal(errno, EPROTO);
    (void)snprintf(gone, sizeof gone, "%s,parent=%ld", o.connection, (long)child);
    assert_null(evzmq_worker_new(f->base, gone, NULL));
    assert_int_equal(errno, ESRCH);
}

static void a_worker_keeps_its_codec(void **state)
{
    struct fixture *const f = *state;
    struct evzmq_worker_options options = {.size = sizeof options};
    struct office o = {0};

    options.codec = evzmq_msgpack_codec_new(NULL);
    assert_non_null(options.codec);
    found(f, &o, 0);
    open_doors(&o);
    hire(&o, &options);
    evzmq_codec_free(options.codec);
    run_until(f, o.events[EVZMQ_WORKER_EVENT_READY]);
    peer_send_text(o.requests, "\x03|\x07");
    run_until(f, o.asked == 1);
    fire(&o);
}

static void every_allocation_of_new_may_fail_and_nothing_is_left(void **state)
{
    struct fixture *const f = *state;
    struct office o = {0};
    long failures = 0;

    found(f, &o, 0);
    for (long n = 1; o.worker == NULL; n++) {
        const long live = allocations_live();

        allocations_fail_at(n);
        o.worker = evzmq_worker_new(f->base, o.connection, NULL);
        allocations_fail_at(0);
        if (o.worker == NULL) {
            assert_int_equal(errno, ENOMEM);
            assert_int_equal(allocations_live(), live);
            failures++;
        }
    }
    assert_true(failures > 10);
    fire(&o);
}

static void in_a_forked_child_a_worker_is_refused_and_its_free_harms_nobody(void **state)
{
    struct fixture *const f = *state;
    struct office o = {0};
    int status = 0;
    pid_t child = 0;

    open_office(f, &o, 0);
    child = child_fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (evzmq_worker_answer(o.worker, "x", 1, 0) != -1 || errno != ECHILD) {
            _exit(1);
        }
        if (evzmq_worker_shutdown(o.worker) != -1 || errno != ECHILD) {
            _exit(2);
        }
        evzmq_worker_free(o.worker);
        if (event_reinit(f->base) != 0 || evzmq_after_fork(f->base) != 0) {
            _exit(3);
        }
        crew_leave_child();
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    peer_send_text(o.requests, "\x03|x");
    run_until(f, o.asked == 1);
    fire(&o);
}

int main(int argc, char **argv)
{
    crew_main(argc, argv);
    const struct CMUnitTest tests[] = {
        claim(the_ready_signal_comes_when_both_sockets_are_connected_and_not_before),
        claim(the_ready_signal_is_repeated_as_the_heartbeat),
        claim(answers_carry_the_identity_the_start_and_the_flags),
        claim(requests_for_somebody_else_are_told_and_not_delivered),
        claim(the_word_to_end_ends_it_after_all_requests_and_dispatch_returns),
        claim(a_worker_that_is_held_ends_when_it_says_so_and_its_answers_arrive),
        claim(answers_that_nobody_takes_are_counted_at_the_end),
        claim(a_worker_without_its_main_process_ends_after_a_while),
        claim(a_worker_without_standard_input_sees_the_end_of_its_main_process),
        claim(a_connection_that_comes_back_in_time_ends_nothing),
        claim(a_worker_that_never_gets_through_ends),
        claim(a_worker_whose_context_is_terminated_ends_and_dispatch_returns),
        claim(a_worker_whose_context_is_terminated_may_be_shut_down),
        claim(a_worker_may_be_freed_in_every_callback),
        claim(what_is_no_connection_is_refused),
        claim(a_worker_keeps_its_codec),
        claim(every_allocation_of_new_may_fail_and_nothing_is_left),
        claim(in_a_forked_child_a_worker_is_refused_and_its_free_harms_nobody),
    };

    return run_claims(tests);
}
