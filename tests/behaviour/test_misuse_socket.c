/**
 * @file test_misuse_socket.c
 * Adapters: wrong arguments, and calls in a forked child, from a wrong thread, after the shutdown,
 * on what was terminated, and in callbacks.
 */
#include "support.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

#include <event2/buffer.h>

#include "child.h"
#include "misuse.h"

static const struct timeval negative = {-1, 0};
static const struct timeval malformed = {0, 1000000};
static const struct timeval second = {1, 0};
static const struct evzmq_bytes value = {"x", 1};
static const struct evzmq_bytes nowhere = {NULL, 1};
static const struct evzmq_bytes endless = {"x", SIZE_MAX};

/* Without an object. */
static void no_socket(struct fixture *f)
{
    static char no_zmq_socket[4096];
    struct evzmq_message *message = evzmq_message_new();
    struct evzmq_message *out = NULL;
    const struct evzmq_budget budget = {.size = sizeof(budget)};
    struct evzmq_socket_stats stats = {.size = sizeof(stats)};
    void *const zmq_socket = peer_new(f, ZMQ_PULL);

    no_object(EINVAL, evzmq_socket_new, NULL, zmq_socket, 0);
    no_object(EINVAL, evzmq_socket_new, f->base, NULL, 0);
    no_object(EINVAL, evzmq_socket_new, f->base, zmq_socket, UINT_MAX);
    no_object(ENOTSOCK, evzmq_socket_new, f->base, no_zmq_socket, 0);
    returns(evzmq_socket_free, NULL);
    returns(evzmq_socket_setcb, NULL, NULL, NULL, NULL, NULL);
    returns(evzmq_socket_getcb, NULL, NULL, NULL, NULL, NULL);
    null(evzmq_socket_get_base, NULL);
    null(evzmq_socket_get_zmq_socket, NULL);
    gives(0, evzmq_socket_get_queued, NULL, NULL);
    gives(0, evzmq_socket_get_enabled, NULL);
    refused(EINVAL, evzmq_socket_enable, NULL, EV_READ);
    refused(EINVAL, evzmq_socket_disable, NULL, EV_READ);
    refused(EINVAL, evzmq_socket_set_codec, NULL, NULL);
    refused(EINVAL, evzmq_socket_set_receive_mode, NULL, EVZMQ_RECEIVE_AUTO);
    refused(EINVAL, evzmq_socket_set_max_message, NULL, 1, 1, EVZMQ_OVERSIZE_DROP);
    refused(EINVAL, evzmq_socket_priority_set, NULL, 0);
    refused(EINVAL, evzmq_socket_set_timeouts, NULL, &second, &second);
    refused(EINVAL, evzmq_socket_set_budget, NULL, &budget);
    refused(EINVAL, evzmq_socket_set_output_limit, NULL, 1, 1);
    refused(EINVAL, evzmq_socket_set_output_watermark, NULL, 0, 1);
    refused(EINVAL, evzmq_socket_write, NULL, "x", 1);
    refused(EINVAL, evzmq_socket_write_parts, NULL, &value, 1);
    refused(EINVAL, evzmq_socket_write_message, NULL, message);
    refused(EINVAL, evzmq_socket_write_value, NULL, &value);
    refused(EINVAL, evzmq_socket_reply, NULL, NULL, "x", 1);
    refused(EINVAL, evzmq_socket_reply_value, NULL, NULL, &value);
    refused(EINVAL, evzmq_socket_try_recv, NULL, &out);
    refused(EINVAL, evzmq_socket_recv_many, NULL, &out, 1);
    refused(EINVAL, evzmq_socket_recv, NULL, &second, &out);
    refused(EINVAL, evzmq_socket_touch, NULL);
    refused(EINVAL, evzmq_socket_shutdown, NULL, NULL, NULL, NULL);
    refused(EINVAL, evzmq_socket_set_packing, NULL, 1, 0);
    refused(EINVAL, evzmq_socket_flush, NULL);
    refused(EINVAL, evzmq_socket_set_unpacking, NULL, 1);
    refused(EINVAL, evzmq_socket_get_stats, NULL, &stats);
    evzmq_message_free(message);
}

static void wrong_settings(struct evzmq_socket *s)
{
    const struct evzmq_budget sizeless = {.size = 0};
    const struct evzmq_budget large = {.size = SIZE_MAX};
    const struct evzmq_budget endless_budget = {sizeof(large), SIZE_MAX, SIZE_MAX, UINT_MAX,
                                                SIZE_MAX,      SIZE_MAX, UINT_MAX};
    struct evzmq_socket_stats stats = {.size = 0};

    returns(evzmq_socket_getcb, s, NULL, NULL, NULL, NULL);
    refused(EINVAL, evzmq_socket_enable, s, EV_SIGNAL);
    refused(EINVAL, evzmq_socket_enable, s, (short)-1);
    refused(EINVAL, evzmq_socket_disable, s, EV_SIGNAL | EV_READ);
    refused(EINVAL, evzmq_socket_disable, s, SHRT_MIN);
    refused(0, evzmq_socket_set_codec, s, NULL);
    refused(EINVAL, evzmq_socket_set_receive_mode, s, (enum evzmq_receive_mode)99);
    refused(EINVAL, evzmq_socket_set_receive_mode, s, (enum evzmq_receive_mode) - 1);
    refused(EINVAL, evzmq_socket_set_max_message, s, 1, 1, (enum evzmq_oversize_policy)99);
    refused(0, evzmq_socket_set_max_message, s, SIZE_MAX, SIZE_MAX, EVZMQ_OVERSIZE_DROP);
    refused(EINVAL, evzmq_socket_priority_set, s, -1);
    refused(EINVAL, evzmq_socket_priority_set, s, INT_MIN);
    refused(EINVAL, evzmq_socket_priority_set, s, INT_MAX);
    refused(EINVAL, evzmq_socket_set_timeouts, s, &negative, NULL);
    refused(EINVAL, evzmq_socket_set_timeouts, s, NULL, &malformed);
    refused(EINVAL, evzmq_socket_set_budget, s, &sizeless);
    refused(EINVAL, evzmq_socket_set_budget, s, &large);
    refused(0, evzmq_socket_set_budget, s, &endless_budget);
    refused(0, evzmq_socket_set_budget, s, NULL);
    refused(0, evzmq_socket_set_output_limit, s, SIZE_MAX, SIZE_MAX);
    refused(0, evzmq_socket_set_output_limit, s, 0, 0);
    refused(EINVAL, evzmq_socket_set_output_watermark, s, 5, 5);
    refused(EINVAL, evzmq_socket_set_output_watermark, s, SIZE_MAX, 1);
    refused(0, evzmq_socket_set_output_watermark, s, SIZE_MAX, 0);
    refused(0, evzmq_socket_set_output_watermark, s, 0, SIZE_MAX);
    refused(EINVAL, evzmq_socket_set_packing, s, SIZE_MAX, UINT_MAX);
    refused(EINVAL, evzmq_socket_set_packing, s, EVZMQ_PACKING_BYTES_MAX + 1u, 0);
    refused(ENOTSUP, evzmq_socket_set_unpacking, s, INT_MIN); /* the raw codec */
    refused(0, evzmq_socket_set_unpacking, s, 0);
    refused(EINVAL, evzmq_socket_get_stats, s, NULL);
    refused(EINVAL, evzmq_socket_get_stats, s, &stats);
    stats.size = sizeof(stats.size) - 1;
    refused(EINVAL, evzmq_socket_get_stats, s, &stats);
    stats.size = SIZE_MAX;
    refused(0, evzmq_socket_get_stats, s, &stats);
    gives(sizeof(stats), (size_t), stats.size);
}

static void wrong_messages(struct evzmq_socket *s)
{
    struct evzmq_message *const empty = evzmq_message_new();
    struct evzmq_message *out = NULL;

    refused(EINVAL, evzmq_socket_write, s, NULL, 1);
    refused(EINVAL, evzmq_socket_write, s, NULL, SIZE_MAX);
    refused(ENOMEM, evzmq_socket_write, s, "x", SIZE_MAX);
    refused(0, evzmq_socket_write, s, NULL, 0);
    refused(EINVAL, evzmq_socket_write_parts, s, NULL, 1);
    refused(EINVAL, evzmq_socket_write_parts, s, &value, 0);
    refused(ENOMEM, evzmq_socket_write_parts, s, &value, SIZE_MAX);
    refused(EINVAL, evzmq_socket_write_parts, s, &nowhere, 1);
    refused(ENOMEM, evzmq_socket_write_parts, s, &endless, 1);
    refused(EINVAL, evzmq_socket_write_message, s, NULL);
    refused(EINVAL, evzmq_socket_write_message, s, empty);
    refused(EINVAL, evzmq_socket_write_value, s, NULL);
    refused(EINVAL, evzmq_socket_write_value, s, &nowhere);
    refused(ENOMEM, evzmq_socket_write_value, s, &endless);
    refused(EINVAL, evzmq_socket_reply, s, NULL, "x", 1);
    refused(EINVAL, evzmq_socket_reply, s, NULL, NULL, 1);
    refused(EINVAL, evzmq_socket_reply_value, s, NULL, &value);
    refused(EINVAL, evzmq_socket_reply_value, s, NULL, NULL);
    refused(EINVAL, evzmq_socket_try_recv, s, NULL);
    refused(EINVAL, evzmq_socket_recv_many, s, NULL, 1);
    refused(EINVAL, evzmq_socket_recv_many, s, &out, -1);
    refused(EINVAL, evzmq_socket_recv_many, s, &out, INT_MIN);
    gives(0, evzmq_socket_recv_many, s, &out, 0);
    refused(EINVAL, evzmq_socket_recv, s, &second, NULL);
    refused(EINVAL, evzmq_socket_recv, s, &negative, &out);
    refused(EINVAL, evzmq_socket_recv, s, &malformed, &out);
    refused(EINVAL, evzmq_socket_shutdown, s, &negative, NULL, NULL);
    refused(EINVAL, evzmq_socket_shutdown, s, &malformed, NULL, NULL);
    evzmq_message_free(empty);
}

/* While it packs, a value takes another way. */
static void wrong_values_of_a_packing_socket(struct evzmq_socket *s)
{
    struct evzmq_codec *const codec =
        evzmq_schema_codec_new(&evzmq_record_stream_chunk_schema, NULL);
    const struct evzmq_record_stream_chunk bad = {.id = {NULL, 5}};
    const struct evzmq_record_stream_chunk huge = {.id = {"x", SIZE_MAX}};
    assert_ok(evzmq_socket_set_codec(s, codec));
    assert_ok(evzmq_socket_set_packing(s, 1, UINT_MAX));
    refused(EINVAL, evzmq_socket_write_value, s, NULL);
    refused(EINVAL, evzmq_socket_write_value, s, &bad);
    refused(EOVERFLOW, evzmq_socket_write_value, s, &huge);
    assert_ok(evzmq_socket_set_packing(s, 0, 0));
    assert_ok(evzmq_socket_set_codec(s, NULL));
    evzmq_codec_free(codec);
}

static void wrong_arguments_are_errors(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    void *one = NULL;
    void *other = NULL;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PAIR, &one, ZMQ_PAIR, &other);
    probe_attach(f, &p, one, 0);
    misuse_begin();
    no_socket(f);
    wrong_settings(p.socket);
    wrong_messages(p.socket);
    wrong_values_of_a_packing_socket(p.socket);
    assert_int_equal(misuse_faults(), 0);
    misuse_complete((const char *const[]){"socket.h", "packing.h", "stats.h", NULL});
    probe_free(&p);
}

/* Calls with good arguments. */
struct subject {
    struct evzmq_socket *socket;
    struct evzmq_message *message;
    int ended; /* the error of what an end refuses */
    int settings; /* and of what it does not refuse where it is a shutdown */
};

static void make_calls(const struct subject *subject, enum misuse_when when)
{
    struct evzmq_socket *const s = subject->socket;
    struct evzmq_message *out = NULL;
    const int ended = subject->ended;
    const int settings = subject->settings;

    refused_when(ended, evzmq_socket_enable, s, EV_READ);
    refused_when(settings, evzmq_socket_disable, s, EV_READ);
    refused_when(settings, evzmq_socket_set_codec, s, NULL);
    refused_when(settings, evzmq_socket_set_receive_mode, s, EVZMQ_RECEIVE_AUTO);
    refused_when(settings, evzmq_socket_set_max_message, s, 1, 1, EVZMQ_OVERSIZE_DROP);
    refused_when(settings, evzmq_socket_priority_set, s, 0);
    refused_when(settings, evzmq_socket_set_timeouts, s, &second, &second);
    refused_when(settings, evzmq_socket_set_budget, s, NULL);
    refused_when(settings, evzmq_socket_set_output_limit, s, 1, 1);
    refused_when(settings, evzmq_socket_set_output_watermark, s, 0, 1);
    refused_when(ended, evzmq_socket_write, s, "x", 1);
    refused_when(ended, evzmq_socket_write_parts, s, &value, 1);
    refused_when(ended, evzmq_socket_write_message, s, subject->message);
    refused_when(ended, evzmq_socket_write_value, s, &value);
    refused_when(ended, evzmq_socket_try_recv, s, &out);
    refused_when(ended, evzmq_socket_recv_many, s, &out, 1);
    refused_when(ended, evzmq_socket_recv, s, &second, &out);
    refused_when(settings, evzmq_socket_touch, s);
    refused_when(settings, evzmq_socket_shutdown, s, NULL, NULL, NULL);
    refused_when(ended, evzmq_socket_set_packing, s, 1, 0);
    refused_when(settings, evzmq_socket_flush, s);
    refused_when(settings, evzmq_socket_set_unpacking, s, 0);
}

static void subject_open(struct fixture *f, struct subject *subject, struct probe *p)
{
    void *one = NULL;
    void *other = NULL;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PAIR, &one, ZMQ_PAIR, &other);
    probe_attach(f, p, one, 0);
    subject->socket = p->socket;
    subject->message = evzmq_message_new();
    assert_ok(evzmq_message_add(subject->message, "x", 1));
    fixture_glance(f); /* the base has a thread */
    misuse_begin();
}

static void subject_close(struct subject *subject, struct probe *p)
{
    assert_int_equal(misuse_faults(), 0);
    evzmq_message_free(subject->message);
    probe_free(p);
}

static void child_of(void *arg)
{
    const struct subject *const subject = arg;
    struct evzmq_poster *poster = NULL;
    make_calls(subject, MISUSE_CHILD);
    refused(ECHILD, evzmq_base_set_receive_buffer, evzmq_socket_get_base(subject->socket), 1);
    refused(EBUSY, evzmq_after_fork, evzmq_socket_get_base(subject->socket));
    no_object(ECHILD, evzmq_poster_new, subject->socket, 0, 0);
    no_object(ECHILD, evzmq_requester_new, subject->socket, NULL);
    child_check(misuse_faults() == 0 && poster == NULL);
    evzmq_socket_free(subject->socket);
}

static void every_call_in_a_forked_child_is_echild(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct subject subject = {0};
    subject_open(f, &subject, &p);
    child_run(child_of, &subject);
    subject_close(&subject, &p);
}

static void *thread_of(void *arg)
{
    const struct subject *const subject = arg;
    make_calls(subject, MISUSE_THREAD);
    refused(EPERM, evzmq_base_set_receive_buffer, evzmq_socket_get_base(subject->socket), 1);
    no_object(EPERM, evzmq_poster_new, subject->socket, 0, 0);
    errno = 0;
    evzmq_socket_setcb(subject->socket, NULL, NULL, NULL, NULL);
    gives(EPERM, (int), errno);
    evzmq_read_cb read_cb = NULL;
    evzmq_socket_getcb(subject->socket, &read_cb, NULL, NULL, NULL);
    gives(true, (bool), read_cb != NULL);
    errno = 0;
    evzmq_socket_free(subject->socket);
    gives(EPERM, (int), errno);
    return NULL;
}

static void every_call_of_another_thread_is_eperm(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct subject subject = {0};
    pthread_t thread;
    subject_open(f, &subject, &p);
    assert_int_equal(pthread_create(&thread, NULL, thread_of, &subject), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    subject_close(&subject, &p);
}

static void after_a_shutdown_settings_are_taken_and_messages_refused(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct subject subject = {.ended = ESHUTDOWN};
    subject_open(f, &subject, &p);
    assert_ok(evzmq_socket_shutdown(p.socket, NULL, NULL, NULL));
    make_calls(&subject, MISUSE_ENDED);
    fixture_glance(f);
    make_calls(&subject, MISUSE_ENDED);
    no_object(ESHUTDOWN, evzmq_poster_new, p.socket, 0, 0);
    subject_close(&subject, &p);
}

static void after_the_end_of_its_context_every_call_is_eterm(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {0};
    struct subject subject = {.ended = ETERM, .settings = ETERM};
    subject_open(f, &subject, &p);
    assert_int_equal(zmq_ctx_shutdown(f->context), 0);
    run_until(f, p.events[EVZMQ_EVENT_TERMINATED] == 1);
    make_calls(&subject, MISUSE_ENDED);
    no_object(ETERM, evzmq_poster_new, p.socket, 0, 0);
    subject_close(&subject, &p);
}

/* In callbacks. */
static void change_a_lent_message(struct probe *p, struct evzmq_message *message)
{
    struct evbuffer *const buffer = evbuffer_new();
    struct evzmq_message *out = NULL;
    refused(EINVAL, evzmq_message_add, message, "x", 1);
    refused(EINVAL, evzmq_message_add_reference, message, buffer, 1, NULL, NULL);
    refused(EINVAL, evzmq_message_add_evbuffer, message, buffer);
    refused(EINVAL, evzmq_message_decode, message, evzmq_codec_raw(), NULL);
    refused(EINVAL, evzmq_socket_write_message, p->socket, message);
    evzmq_message_free(message);
    refused(EBUSY, evzmq_socket_recv, p->socket, NULL, &out);
    refused(EBUSY, evzmq_socket_try_recv, p->socket, &out);
    refused(EBUSY, evzmq_socket_recv_many, p->socket, &out, 1);
    refused(0, evzmq_after_fork, evzmq_socket_get_base(p->socket));
    refused(0, evzmq_socket_disable, p->socket, EV_READ);
    refused(EDEADLK, evzmq_socket_recv, p->socket, NULL, &out);
    assert_part(message, 0, "hello", 5);
    evbuffer_free(buffer);
}

static void wait_in_event(struct probe *p, const struct evzmq_event *event)
{
    struct evzmq_message *out = NULL;
    (void)event;
    (void)evzmq_socket_disable(p->socket, EV_READ);
    refused(EDEADLK, evzmq_socket_recv, p->socket, NULL, &out);
}

static void wait_in_write(struct probe *p)
{
    struct evzmq_message *out = NULL;
    (void)evzmq_socket_disable(p->socket, EV_READ);
    refused(EDEADLK, evzmq_socket_recv, p->socket, NULL, &out);
}

static void wait_in_done(struct evzmq_socket *socket, uint64_t handed_over,
                         uint64_t not_handed_over, void *arg)
{
    struct probe *const p = arg;
    struct evzmq_message *out = NULL;
    (void)socket;
    (void)handed_over;
    (void)not_handed_over;
    refused(EDEADLK, evzmq_socket_recv, p->arg, NULL, &out);
    p->arg = NULL;
}

static void callbacks_can_neither_change_what_is_lent_nor_wait(void **state)
{
    struct fixture *const f = *state;
    struct probe p = {
        .on_read = change_a_lent_message, .on_write = wait_in_write, .on_event = wait_in_event};
    struct probe idle = {0};
    void *one = NULL;
    void *other = NULL;
    peer_pair(f, TRANSPORT_INPROC, ZMQ_PAIR, &one, ZMQ_PAIR, &other);
    probe_attach(f, &p, one, 0);
    probe_attach(f, &idle, peer_new(f, ZMQ_PULL), 0);
    misuse_begin();
    probe_enable(&p, EV_READ);
    peer_send_text(other, "hello");
    run_until(f, p.reads == 1);
    assert_ok(evzmq_socket_disable(p.socket, EV_WRITE));
    assert_ok(evzmq_socket_write(p.socket, "x", 1));
    assert_ok(evzmq_socket_enable(p.socket, EV_WRITE));
    run_until(f, p.writes > 0 && p.events[EVZMQ_EVENT_DRAINED] > 0);
    p.arg = idle.socket;
    assert_ok(evzmq_socket_shutdown(p.socket, NULL, wait_in_done, &p));
    run_until(f, p.arg == NULL);
    assert_int_equal(misuse_faults(), 0);
    probe_free(&p);
    probe_free(&idle);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        claim(wrong_arguments_are_errors),
        claim(every_call_in_a_forked_child_is_echild),
        claim(every_call_of_another_thread_is_eperm),
        claim(after_a_shutdown_settings_are_taken_and_messages_refused),
        claim(after_the_end_of_its_context_every_call_is_eterm),
        claim(callbacks_can_neither_change_what_is_lent_nor_wait),
    };

    evzmq_enable_debug_mode();
    return run_claims(tests);
}
