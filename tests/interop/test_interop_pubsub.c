/**
 * @file test_interop_pubsub.c
 * Publishing and subscribing with a peer in another language: peer.py, with pyzmq and msgpack for
 * Python.
 */
#include "audience.h"
#include "python.h"

#include <stdlib.h>

#include <evzmq/msgpack.h>

static void check_value(struct listener *l, struct evzmq_message *message)
{
    const msgpack_object *const value = evzmq_msgpack_value(message);

    assert_non_null(value);
    assert_int_equal(value->type, MSGPACK_OBJECT_POSITIVE_INTEGER);
    assert_int_equal(value->via.u64, l->records - 1);
}

static void open_listener(struct fixture *f, struct listener *l, enum transport transport,
                          const char *prefix, char endpoint[ENDPOINT_SIZE])
{
    python_skip_unless_installed();
    listener_open(f, l, NULL);
    peer_bind(f, l->zmq_socket, transport, endpoint);
    assert_ok(evzmq_subscriber_subscribe(l->subscriber, prefix));
}

static void use_msgpack(struct listener *l)
{
    struct evzmq_codec *const codec = evzmq_msgpack_codec_new(NULL);

    assert_ok(evzmq_subscriber_set_codec(l->subscriber, codec));
    evzmq_codec_free(codec);
}

static void subscribe_to_python(struct fixture *f, const char *role, enum transport transport)
{
    struct listener l = {.on_record = check_value};
    struct python python;
    char endpoint[ENDPOINT_SIZE];

    open_listener(f, &l, transport, "number", endpoint);
    use_msgpack(&l);
    python_start(f, &python, role, endpoint);
    run_until(f, l.records == 1000);
    python_finish(&python);
    assert_int_equal(l.events[EVZMQ_EVENT_DECODE_ERROR], 0);
    listener_free(&l);
}

static void records_and_batches_that_python_publishes_arrive(void **state)
{
    subscribe_to_python(*state, "pub", TRANSPORT_TCP);
    subscribe_to_python(*state, "pub", TRANSPORT_IPC);
}

static void topics_and_records_in_parts_of_their_own_arrive(void **state)
{
    subscribe_to_python(*state, "pub_parts", TRANSPORT_IPC);
}

static void frames_of_the_vectors_that_python_publishes_yield_their_records(void **state)
{
    struct fixture *const f = *state;
    struct listener l = {0};
    struct python python;
    char endpoint[ENDPOINT_SIZE];
    size_t expected = 0;

    open_listener(f, &l, TRANSPORT_IPC, "", endpoint);
    python_start(f, &python, "pub_vectors", endpoint);
    expected = (size_t)strtoul(python_line(&python), NULL, 10);
    assert_true(expected > 50);
    /* Two batches are broken behind their first record, which the original drops. */
    run_until(f, l.records == expected + 2);
    python_finish(&python);
    assert_int_equal(l.records, expected + 2);
    listener_free(&l);
}

static void publish_to_python(struct fixture *f, enum evzmq_batching batching,
                              enum transport transport)
{
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = batching,
                                                .when_full = EVZMQ_FULL_WAIT,
                                                .batch_records = 7,
                                                .batch_delay_usec = 1000};
    struct evzmq_codec *codec = NULL;
    struct speaker s = {0};
    struct python python;

    python_skip_unless_installed();
    codec = evzmq_msgpack_codec_new(NULL);
    speaker_open(f, &s, transport, &how, 0);
    assert_ok(evzmq_publisher_set_codec(s.publisher, codec));
    evzmq_codec_free(codec);
    python_start(f, &python, "sub", s.endpoint);
    run_until(f, s.subscribed == 1);
    for (uint64_t i = 0; i < 1000; i++) {
        const msgpack_object number = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = i};

        while (evzmq_publisher_publish_value(s.publisher, "number", &number) < 0) {
            assert_int_equal(errno, EAGAIN);
            fixture_glance(f);
        }
    }
    python_finish(&python);
    assert_int_equal(speaker_stats(&s).sheds, 0);
    speaker_free(&s);
}

static void records_that_we_publish_arrive_in_python(void **state)
{
    publish_to_python(*state, EVZMQ_BATCH_OFF, TRANSPORT_TCP);
}

static void batches_that_we_publish_are_taken_apart_in_python(void **state)
{
    publish_to_python(*state, EVZMQ_BATCH_SHARED, TRANSPORT_TCP);
    publish_to_python(*state, EVZMQ_BATCH_SHARED, TRANSPORT_IPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(records_and_batches_that_python_publishes_arrive),
        claim(topics_and_records_in_parts_of_their_own_arrive),
        claim(frames_of_the_vectors_that_python_publishes_yield_their_records),
        claim(records_that_we_publish_arrive_in_python),
        claim(batches_that_we_publish_are_taken_apart_in_python),
    };

    return run_claims(tests);
}
