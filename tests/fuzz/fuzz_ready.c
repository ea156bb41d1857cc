/*
 * fuzz_ready.c: any bytes read as what the processes of a pool tell each other: ready signals,
 * headers of requests and answers, and connection strings.
 *
 * Linked with libFuzzer it searches; linked with replay.c it is an ordinary test over the wire
 * vectors. The properties: an integer is one for msgpack-c too, with the same value, and the other
 * way round; what is read, written again, is read to the same, and a header is written in at most
 * as many bytes; a ready signal is within its range or says that it is not; a connection string
 * that is accepted, written again, gives the same fields; nothing leaks.
 */
#include <string.h>

#include <msgpack.h>

#include "allocator.h"
#include "base.h"
#include "fuzz.h"
#include "link.h"
#include "ready.h"

static bool is_integer(const msgpack_object *object)
{
    return object->type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
           object->type == MSGPACK_OBJECT_NEGATIVE_INTEGER;
}

static void try_integer(const uint8_t *data, size_t size)
{
    struct evzmq__integer number = {false, 0};
    unsigned char again[EVZMQ__INTEGER_BYTES_MAX];
    /* Containers, which msgpack-c would believe, begin otherwise. */
    const size_t window = size < EVZMQ__INTEGER_BYTES_MAX ? size : EVZMQ__INTEGER_BYTES_MAX;
    const bool may_be =
        size > 0 && (data[0] < 0x80 || (data[0] >= 0xcc && data[0] <= 0xd3) || data[0] >= 0xe0);
    const size_t used = evzmq__integer_read(data, size, &number);
    check(may_be || used == 0, "only an integer is read as one");
    check(used <= window, "it is within the bytes");
    if (may_be) {
        msgpack_unpacked unpacked;
        size_t reference_used = 0;
        msgpack_unpacked_init(&unpacked);
        const bool accepted = msgpack_unpack_next(&unpacked, (const char *)data, window,
                                                  &reference_used) == MSGPACK_UNPACK_SUCCESS;
        check(accepted == (used > 0), "it is one when msgpack-c says so");
        if (accepted) {
            check(is_integer(&unpacked.data) && reference_used == used, "of the same size");
            check(number.bits == unpacked.data.via.u64, "and value");
            check(number.negative == (unpacked.data.type == MSGPACK_OBJECT_NEGATIVE_INTEGER),
                  "and sign");
        }
        msgpack_unpacked_destroy(&unpacked);
    }
    if (used > 0 && !number.negative) {
        struct evzmq__integer twice = {true, 0};
        const size_t written = evzmq__integer_write(again, number.bits);
        check(written <= used, "the form that is written is the shortest");
        check(evzmq__integer_read(again, written, &twice) == written, "it is read again");
        check(!twice.negative && twice.bits == number.bits, "to the same");
    }
}

static void try_signal(const uint8_t *data, size_t size, unsigned n_workers)
{
    struct evzmq__header header = {0, 0, 0};
    unsigned char again[EVZMQ__HEADER_BYTES_MAX];
    unsigned identity = n_workers;
    if (evzmq__ready_read(data, size, n_workers, &identity) == EVZMQ__READY_IDENTITY) {
        check(identity < n_workers, "a ready signal is of one of the workers");
        check(evzmq__header_read(data, size, n_workers, &header) && header.identity == identity,
              "it is a header too");
    } else {
        check(identity == n_workers, "what is none sets nothing");
    }
    if (evzmq__header_read(data, size, n_workers, &header)) {
        struct evzmq__header twice = {n_workers, 1, 1};
        check(header.identity < n_workers, "a header is of one of the workers");
        const size_t written = evzmq__header_write(again, &header);
        check(written <= size && written <= sizeof(again), "it is not written longer");
        check(evzmq__header_read(again, written, n_workers, &twice), "it is read again");
        check(twice.identity == header.identity && twice.start == header.start &&
                  twice.flags == header.flags,
              "to the same");
    }
}

static void check_same(const struct evzmq__link *one, const struct evzmq__link *other)
{
    check(one->identity == other->identity && one->n_workers == other->n_workers &&
              one->start == other->start && one->heartbeat_ms == other->heartbeat_ms &&
              one->connect_ms == other->connect_ms && one->request_hwm == other->request_hwm &&
              one->parent == other->parent,
          "the numbers are the same");
    check(strcmp(one->requests, other->requests) == 0 &&
              strcmp(one->responses, other->responses) == 0 &&
              strcmp(one->ready, other->ready) == 0,
          "the endpoints are the same");
}

static void try_link(const uint8_t *data, size_t size)
{
    struct evzmq__link link;
    struct evzmq__link twice;
    char *const text = malloc(size + 1);
    check(text != NULL, "there is memory");
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    memset(&link, 0, sizeof(link));
    if (evzmq__link_parse(&link, text) == 0) {
        check(link.identity < link.n_workers && link.heartbeat_ms > 0, "it is within its range");
        char *const again = evzmq__link_format(&link);
        check(again != NULL, "it can be written");
        check(evzmq__link_parse(&twice, again) == 0, "and read again");
        check_same(&link, &twice);
        evzmq__free(again);
        evzmq__link_clear(&twice);
        evzmq__link_clear(&link);
    } else {
        check(link.requests == NULL && link.ready == NULL, "what is refused sets nothing");
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned workers[] = {1, 2, 200, 4096};
    allocator_install();
    try_integer(data, size);
    for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
        try_signal(data, size, workers[i]);
    }
    try_link(data, size);
    check(allocator_get_counts().blocks == 0, "nothing leaks");
    allocator_remove();
    return 0;
}

static const struct fuzz_seed seeds[] = {
    FUZZ_SEED("\x03"),
    FUZZ_SEED("\x03\x01\x03"),
    FUZZ_SEED("\xcd\x0f\xff\xcf\x00\x00\x00\x01\x00\x00\x00\x00\xce\x00\x00\x00\x01"),
    FUZZ_SEED("\xd3\xff\xff\xff\xff\xff\xff\xff\xff"),
    FUZZ_SEED("evzmq-pool/1,worker=3,workers=8,start=0,heartbeat=1000,connect=10000,hwm=100,"
              "parent=4711,requests=ipc:///dev/shm/a%2cb,responses=tcp://[::1]:5555,ready=x"),
    FUZZ_SEED("evzmq-pool/1,later=1,worker=0,workers=1,start=18446744073709551615,heartbeat=1,"
              "connect=0,hwm=0,parent=0,requests=%41,responses=,ready=,ready=twice"),
};

const struct fuzz_plan fuzz_plan = {.prefixes_max = 64,
                                    .places_max = 16,
                                    .seeds = seeds,
                                    .seed_count = sizeof(seeds) / sizeof(seeds[0])};
