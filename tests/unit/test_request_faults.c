/*
 * Requesters when memory runs out and libzmq fails, and what only their inside shows: numbers that
 * wrap, the delays of retries, sizes.
 */
#include "asker.h"

#include <evzmq/msgpack.h>

#include "faults.h"
#include "request.h"

enum { SERVER_TYPE = ZMQ_ROUTER };

static void open_asker(struct fixture *f, struct asker *a, void **out_server,
                       const struct evzmq_requester_options *options)
{
    asker_open(f, a, TRANSPORT_INPROC, SERVER_TYPE, out_server, options);
    fixture_glance(f);
}

static void answer_all(struct fixture *f, struct asker *a, void *server, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct heard heard;
        hear(f, server, &heard);
        answer(server, &heard, "r");
    }
    run_until(f, a->replied == count);
}

static void a_requester_without_memory_leaves_the_socket_as_it_was(void **state)
{
    struct fixture *f = *state;
    struct probe p = {0};
    probe_attach(f, &p, peer_new(f, ZMQ_DEALER), 0);
    const struct evzmq__type *type = p.socket->type;
    const long live = allocations_live();
    size_t n = 1;
    for (;; n++) {
        faults_begin(p.socket->zmq_socket);
        faults_plan(FAULTS_MEMORY, n, 1, ENOMEM);
        errno = 0;
        struct evzmq_requester *requester = evzmq_requester_new(p.socket, NULL);
        const int error = errno;
        faults_end();
        if (requester != NULL && faults_made(FAULTS_MEMORY) == 0) {
            evzmq_requester_free(requester);
            break;
        }
        if (requester == NULL) {
            assert_int_equal(error, ENOMEM);
            assert_int_equal(allocations_live(), live);
            assert_ptr_equal(p.socket->type, type);
            assert_non_null(p.socket->read_cb);
        }
        evzmq_requester_free(requester);
        assert_true(n < 20);
    }
    assert_true(n > 2);
    probe_free(&p);
}

/* How a request is made. */
enum form { FORM_BYTES, FORM_VALUE, FORM_MESSAGE, FORMS };

static int64_t ask_as(struct asker *a, enum form form, struct evzmq_message **message)
{
    const struct evzmq_bytes value = {"q", 1};
    int64_t number = -1;
    switch (form) {
    case FORM_BYTES:
        return evzmq_request_bytes(a->requester, "q", 1, 60000, asker_note, a);
    case FORM_VALUE:
        return evzmq_request(a->requester, &value, 60000, asker_note, a);
    default:
        number = evzmq_request_message(a->requester, *message, 60000, asker_note, a);
        *message = number > 0 ? NULL : *message;
        return number;
    }
}

static struct evzmq_message *message_new(void)
{
    struct evzmq_message *message = evzmq_message_new();
    assert_non_null(message);
    for (int i = 0; i < 3; i++) { /* with the head more than fit without an allocation */
        assert_ok(evzmq_message_add(message, "q", 1));
    }
    return message;
}

/* Fails the n-th request for memory of a request. Returns whether it was reached. */
static bool attempt(struct fixture *f, enum form form, bool waits, bool retries, size_t n,
                    size_t times)
{
    const struct evzmq_requester_options options = {
        .size = sizeof(options), .retries_max = retries, .retry_ms = 60000};
    struct asker a = {0};
    void *server = NULL;
    struct evzmq_message *message = form == FORM_MESSAGE ? message_new() : NULL;
    open_asker(f, &a, &server, &options);
    if (waits) {
        assert_ok(evzmq_socket_disable(a.socket, EV_WRITE));
        (void)ask(&a, "first", 60000);
    }
    faults_begin(a.socket->zmq_socket);
    faults_plan(FAULTS_MEMORY, n, times, ENOMEM);
    errno = 0;
    int64_t number = ask_as(&a, form, &message);
    const int error = errno;
    faults_end();
    const bool reached = faults_made(FAULTS_MEMORY) > 0;
    if (number < 0) {
        assert_true(reached);
        assert_int_equal(error, ENOMEM);
        assert_int_equal(asker_stats(&a).outstanding, waits);
        assert_int_equal(a.requester->heap.count, waits);
        if (message != NULL) {
            assert_int_equal(evzmq_message_get_part_count(message), 3);
            assert_part(message, 2, "q", 1);
        }
        number = ask_as(&a, form, &message);
    }
    assert_true(number > 0);
    assert_ok(evzmq_socket_enable(a.socket, EV_WRITE));
    answer_all(f, &a, server, waits ? 2 : 1);
    assert_int_equal(asker_stats(&a).held_bytes, 0);
    void *dealer = a.socket->zmq_socket;
    asker_close(&a);
    peer_close(f, dealer);
    peer_close(f, server);
    f->peer_count = 0;
    return reached;
}

static void a_request_without_memory_is_refused_whole_and_can_be_made_again(void **state)
{
    const size_t times[] = {1, FOR_EVER};
    for (int form = 0; form < FORMS; form++) {
        for (int how = 0; how < 8; how++) {
            size_t n = 1;
            while (attempt(*state, (enum form)form, (how & 1) != 0, (how & 2) != 0, n,
                           times[how / 4])) {
                assert_true(++n < 30);
            }
            assert_true(n > 1);
        }
    }
}

/* A retry that finds no memory for its copy: the request goes out all the same. */
static void a_request_that_may_be_sent_again_is_sent_without_memory_for_a_copy(void **state)
{
    const struct evzmq_requester_options options = {
        .size = sizeof(options), .retries_max = 5, .retry_ms = 60000};
    struct fixture *f = *state;
    struct asker a = {0};
    void *server = NULL;
    open_asker(f, &a, &server, &options);
    (void)ask(&a, "q", 60000);
    faults_begin(a.socket->zmq_socket);
    faults_plan(FAULT_ALLOC, 1, FOR_EVER, ENOMEM);
    fixture_glance(f);
    faults_end();
    struct heard heard;
    assert_true(try_hear(server, &heard));
    answer(server, &heard, "r");
    run_until(f, a.replied == 1);
    asker_close(&a);
}

static void requests_that_zeromq_refuses_wait_and_are_sent_in_order(void **state)
{
    struct fixture *f = *state;
    struct asker a = {0};
    void *server = NULL;
    open_asker(f, &a, &server, NULL);
    faults_begin(a.socket->zmq_socket);
    faults_plan(FAULT_SEND, 1, 4, EAGAIN);
    for (int i = 0; i < 5; i++) {
        (void)ask(&a, "q", 60000);
    }
    fixture_glance(f);
    faults_end();
    answer_all(f, &a, server, 5);
    assert_string_equal(a.log, "1=r 2=r 3=r 4=r 5=r");
    asker_close(&a);
}

static void a_send_that_fails_for_good_refuses_the_request(void **state)
{
    struct fixture *f = *state;
    struct asker a = {0};
    void *server = NULL;
    open_asker(f, &a, &server, NULL);
    faults_begin(a.socket->zmq_socket);
    faults_plan(FAULT_SEND, 1, 1, EHOSTUNREACH);
    assert_errno((int)evzmq_request_bytes(a.requester, "q", 1, -1, asker_note, &a), EHOSTUNREACH);
    faults_end();
    assert_int_equal(asker_stats(&a).outstanding, 0);
    (void)ask(&a, "q", 60000);
    answer_all(f, &a, server, 1);
    asker_close(&a);
}

static void a_waiting_request_that_zeromq_refuses_for_good_ends_with_its_error(void **state)
{
    struct fixture *f = *state;
    struct asker a = {0};
    void *server = NULL;
    open_asker(f, &a, &server, NULL);
    assert_ok(evzmq_socket_disable(a.socket, EV_WRITE));
    (void)ask(&a, "in the socket's queue", 60000);
    (void)ask(&a, "waiting", 60000);
    (void)ask(&a, "good", 60000);
    faults_begin(a.socket->zmq_socket);
    faults_plan(FAULT_SEND, 1, 2, EHOSTUNREACH);
    assert_ok(evzmq_socket_enable(a.socket, EV_WRITE));
    run_until(f, a.ended == 2);
    faults_end();
    assert_int_equal(a.error, EHOSTUNREACH);
    assert_int_equal(a.number, 2);
    assert_int_equal(asker_stats(&a).failed, 2);
    assert_int_equal(a.events[EVZMQ_EVENT_UNDELIVERABLE], 0); /* the requests were told */
    answer_all(f, &a, server, 1);
    asker_close(&a);
}

static void a_reply_whose_receipt_is_interrupted_is_received_all_the_same(void **state)
{
    struct fixture *f = *state;
    struct asker a = {0};
    void *server = NULL;
    open_asker(f, &a, &server, NULL);
    (void)ask(&a, "q", 60000);
    struct heard heard;
    hear(f, server, &heard);
    answer(server, &heard, "r");
    faults_begin(a.socket->zmq_socket);
    faults_plan(FAULT_RECV, 1, 3, EINTR);
    run_until(f, a.replied == 1);
    faults_end();
    asker_close(&a);
}

static void a_reply_without_memory_to_decode_it_ends_its_request_with_enomem(void **state)
{
    struct fixture *f = *state;
    struct asker a = {0};
    void *server = NULL;
    open_asker(f, &a, &server, NULL);
    (void)ask(&a, "q", 60000);
    answer_all(f, &a, server, 1); /* the base has all it needs but memory of values */
    struct evzmq_codec *codec = evzmq_msgpack_codec_new(NULL);
    assert_non_null(codec);
    assert_ok(evzmq_socket_set_codec(a.socket, codec));
    evzmq_codec_free(codec);
    (void)ask(&a, "q", 60000);
    struct heard heard;
    hear(f, server, &heard);
    answer(server, &heard, "\x91\x01");
    faults_begin(a.socket->zmq_socket);
    faults_plan(FAULT_ALLOC, 1, FOR_EVER, ENOMEM);
    run_until(f, a.ended == 2);
    faults_end();
    assert_int_equal(a.error, ENOMEM);
    assert_int_equal(asker_stats(&a).undecodable, 1);
    asker_close(&a);
}

static void numbers_start_again_after_the_last_and_pass_those_outstanding(void **state)
{
    struct fixture *f = *state;
    struct asker a = {0};
    void *server = NULL;
    open_asker(f, &a, &server, NULL);
    assert_int_equal(ask(&a, "1", 60000), 1);
    assert_int_equal(ask(&a, "2", 60000), 2);
    a.requester->last_number = INT64_MAX - 1;
    assert_true(ask(&a, "last", 60000) == INT64_MAX);
    assert_int_equal(ask(&a, "3", 60000), 3);
    assert_int_equal(a.requester->table.count, 4);
    struct heard heard[4];
    for (int i = 0; i < 4; i++) {
        hear(f, server, &heard[i]);
    }
    for (int i = 4; i > 0; i--) {
        answer(server, &heard[i - 1], heard_text(&heard[i - 1]));
    }
    run_until(f, a.replied == 4);
    assert_string_equal(a.log, "3=3 9223372036854775807=last 2=2 1=1");
    assert_int_equal(asker_stats(&a).unknown + asker_stats(&a).late, 0);
    asker_close(&a);
}

static void each_retry_waits_twice_as_long_up_to_the_longest(void **state)
{
    const struct evzmq_requester_options options = {
        .size = sizeof(options), .retries_max = 6, .retry_ms = 1000, .retry_max_ms = 5000};
    const uint64_t second = UINT64_C(1000000000);
    const uint64_t waits[] = {2, 4, 5, 5, 5}; /* after retry 1, 2, ...; the first wait is 1 */
    struct fixture *f = *state;
    struct asker a = {0};
    void *server = NULL;
    open_asker(f, &a, &server, &options);
    const int64_t number = ask(&a, "q", 20000);
    struct evzmq__request *request = evzmq__request_find(a.requester, (uint64_t)number);
    const uint64_t begun = request->deadline - 20 * second;
    assert_int_equal(request->due.key, begun + second);
    uint64_t now = begun + second;
    for (size_t i = 0; i < 5; i++) {
        fixture_glance(f); /* the attempt before is sent */
        evzmq__request_retry(a.requester, request, now);
        const uint64_t next = now + waits[i] * second;
        assert_int_equal(request->due.key, next < request->deadline ? next : request->deadline);
        now = next;
    }
    fixture_glance(f);
    assert_int_equal(request->retries, 5);
    evzmq__request_retry(a.requester, request, now);
    assert_int_equal(request->due.key, request->deadline); /* that was the last */
    fixture_glance(f);
    assert_null(request->kept);
    asker_close(&a);
}

static void a_thousand_deadlines_cost_one_timer_that_is_set_once(void **state)
{
    struct fixture *f = *state;
    struct asker a = {0};
    void *server = NULL;
    open_asker(f, &a, &server, NULL);
    faults_begin(a.socket->zmq_socket);
    (void)ask(&a, "q", 60000);
    const uint64_t armed_at = a.requester->armed_at;
    for (int i = 1; i < 1000; i++) {
        (void)ask(&a, "q", 60000 + i);
    }
    faults_end();
    assert_true(armed_at != EVZMQ__REQUEST_NEVER && a.requester->armed_at == armed_at);
    assert_int_equal(faults_count(FAULT_EVENT_NEW), 0);
    assert_true(faults_count(FAULT_EVENT_ADD) <= 2); /* the other: a pass after the sends */
    asker_close(&a);
}

static void an_outstanding_request_costs_no_turn_of_the_loop(void **state)
{
    struct fixture *f = *state;
    struct asker a = {0};
    struct heard heard;
    void *server = NULL;
    open_asker(f, &a, &server, NULL);
    (void)ask(&a, "q", 60000);
    hear(f, server, &heard);
    fixture_glance(f); /* the pass after the send */
    fixture_glance(f);
    faults_begin(a.socket->zmq_socket);
    for (int i = 0; i < 100; i++) {
        fixture_glance(f);
    }
    faults_end();
    assert_int_equal(faults_count(FAULT_EVENT_ADD), 0);
    asker_close(&a);
}

static void a_request_takes_at_most_a_hundred_and_fifty_bytes(void **state)
{
    (void)state;
    /* Its place in the heap and in the table included, both twice as large as needed. */
    assert_true(sizeof(struct evzmq__request) + 2 * sizeof(void *) + 2 * sizeof(void *) <= 150);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(a_requester_without_memory_leaves_the_socket_as_it_was),
        claim(a_request_without_memory_is_refused_whole_and_can_be_made_again),
        claim(a_request_that_may_be_sent_again_is_sent_without_memory_for_a_copy),
        claim(requests_that_zeromq_refuses_wait_and_are_sent_in_order),
        claim(a_send_that_fails_for_good_refuses_the_request),
        claim(a_waiting_request_that_zeromq_refuses_for_good_ends_with_its_error),
        claim(a_reply_whose_receipt_is_interrupted_is_received_all_the_same),
        claim(a_reply_without_memory_to_decode_it_ends_its_request_with_enomem),
        claim(numbers_start_again_after_the_last_and_pass_those_outstanding),
        claim(each_retry_waits_twice_as_long_up_to_the_longest),
        claim(a_thousand_deadlines_cost_one_timer_that_is_set_once),
        claim(an_outstanding_request_costs_no_turn_of_the_loop),
        claim(a_request_takes_at_most_a_hundred_and_fifty_bytes),
    };
    return run_claims(tests);
}
