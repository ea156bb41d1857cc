/**
 * @file test_pubsub_vectors.c
 * The frames of tests/vectors/pubsub.tsv: what the original publisher sends ours sends too, and
 * what the original subscriber yields ours yields. There is one difference: of a batch that is
 * broken the original yields nothing, ours what stands before the fault.
 */
#include "audience.h"
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack.h>

/* A column behind the first three, counted from 0; the caller frees it. */
static char *column(const struct vector *vector, int number)
{
    const char *at = vector->rest;
    size_t size = 0;
    char *copy = NULL;

    while (number-- > 0) {
        at = strchr(at, '\t');
        assert_non_null(at);
        at++;
    }
    size = strcspn(at, "\t");
    copy = calloc(1, size + 1);
    assert_non_null(copy);
    memcpy(copy, at, size);
    return copy;
}

/* Collects what a subscriber delivers, as the column of the vectors has it. */
struct yield {
    char text[8192];
};

static void collect(struct listener *l, struct evzmq_message *message)
{
    struct yield *const yield = l->arg;
    size_t size = 0;
    const unsigned char *const data = evzmq_message_get_part(message, 0, &size);
    size_t used = strlen(yield->text);

    assert_true(used + 2 * size + 8 < sizeof yield->text);
    used += (size_t)sprintf(yield->text + used, "%s\"", used == 0 ? "" : ", ");
    for (size_t i = 0; i < size; i++) {
        used += (size_t)sprintf(yield->text + used, "%02x", data[i]);
    }
    (void)sprintf(yield->text + used, "\"");
}

static void subscriber_yields_what_the_vectors_say(void **state)
{
    struct fixture *const f = *state;
    struct vectors vectors = vectors_load("pubsub.tsv");
    struct yield *const yield = calloc(1, sizeof *yield);
    struct listener l = {.on_record = collect, .arg = yield};
    void *peer = NULL;

    assert_non_null(yield);
    listener_open(f, &l, NULL);
    peer = listener_peer(&l, TRANSPORT_INPROC);
    listener_subscribe(&l, peer, "", 2);
    for (size_t i = 0; i < vectors.count; i++) {
        const struct vector *const vector = &vectors.items[i];
        char *const payloads = column(vector, 1);
        const size_t errors = l.events[EVZMQ_EVENT_DECODE_ERROR];
        const char *expected = payloads;
        char got[sizeof yield->text + 4];

        if (strcmp(vector->type, "bad_batch_truncated") == 0 ||
            strcmp(vector->type, "bad_batch_trailing") == 0) {
            expected = "[\"676f6f64\"]";
        }
        yield->text[0] = '\0';
        peer_send(peer, vector->bytes, vector->size);
        run_until(f, listener_stats(&l).frames == i + 1);
        fixture_glance(f);
        (void)snprintf(got, sizeof got, "[%s]", yield->text);
        assert_string_equal(got, expected);
        assert_int_equal(l.events[EVZMQ_EVENT_DECODE_ERROR] - errors,
                         strncmp(vector->type, "bad_", 4) == 0);
        free(payloads);
    }
    listener_free(&l);
    free(yield);
    vectors_free(&vectors);
}

/* Publishes the records of a frame, which is one that the original published. */
static void say_again(struct speaker *s, const struct vector *vector, const char *topic)
{
    const char *const bytes = (const char *)vector->bytes + EVZMQ_TOPIC_BYTES;
    const size_t size = vector->size - EVZMQ_TOPIC_BYTES;
    msgpack_unpacked batch;

    if (strcmp(topic, "batch") != 0) {
        assert_ok(evzmq_publisher_publish(s->publisher, topic, bytes, size));
        assert_ok(evzmq_publisher_flush(s->publisher));
        return;
    }
    msgpack_unpacked_init(&batch);
    assert_int_equal(msgpack_unpack_next(&batch, bytes, size, NULL), MSGPACK_UNPACK_SUCCESS);
    for (uint32_t i = 0; i < batch.data.via.array.size; i++) {
        const msgpack_object_bin *const bin = &batch.data.via.array.ptr[i].via.bin;

        /* Any topics: they are not on the wire. */
        assert_ok(evzmq_publisher_publish(s->publisher, i % 2 ? "a" : "b", bin->ptr, bin->size));
    }
    assert_ok(evzmq_publisher_flush(s->publisher));
    msgpack_unpacked_destroy(&batch);
}

static void publisher_sends_the_bytes_that_the_vectors_say(void **state)
{
    struct fixture *const f = *state;
    const struct evzmq_publisher_options how = {.size = sizeof how,
                                                .batching = EVZMQ_BATCH_SHARED,
                                                .batch_delay_usec = EVZMQ_BATCH_DELAY_NONE};
    struct vectors vectors = vectors_load("pubsub.tsv");
    struct speaker s = {0};
    size_t published = 0;
    void *peer = NULL;

    speaker_open(f, &s, TRANSPORT_INPROC, &how, 0);
    peer = speaker_peer(&s, 0);
    for (size_t i = 0; i < vectors.count; i++) {
        const struct vector *const vector = &vectors.items[i];
        char *const topic = column(vector, 0);

        if (strcmp(vector->name, "published") == 0) {
            unsigned char got[4096];

            say_again(&s, vector, topic);
            assert_int_equal(zmq_recv(peer, got, sizeof got, 0), vector->size);
            assert_memory_equal(got, vector->bytes, vector->size);
            published++;
        }
        free(topic);
    }
    assert_int_equal(published, speaker_stats(&s).frames);
    assert_true(published >= 11);
    speaker_free(&s);
    vectors_free(&vectors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(subscriber_yields_what_the_vectors_say),
        claim(publisher_sends_the_bytes_that_the_vectors_say),
    };

    return run_claims(tests);
}
