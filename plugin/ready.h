/*
 * ready.h (L6): what processes of a pool tell each other besides data: the ready signal, and the
 * header of requests and answers. Both are made of msgpack integers.
 */
#ifndef EVZMQ_PLUGIN_READY_H
#define EVZMQ_PLUGIN_READY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest encoding of an integer. */
enum { EVZMQ__INTEGER_BYTES_MAX = 9 };

/* The largest number that is one byte, with its value. */
enum { EVZMQ__INTEGER_FIX_MAX = 0x7f };

/* Writes the shortest msgpack form of a number. Returns the number of bytes. */
size_t evzmq__integer_write(unsigned char out[EVZMQ__INTEGER_BYTES_MAX], uint64_t number);

/* An integer of any width and sign. */
struct evzmq__integer {
    bool negative; /* then bits is its two's complement */
    uint64_t bits;
};

/* Reads one msgpack integer. Returns the number of its bytes, 0 when there is none. */
size_t evzmq__integer_read(const unsigned char *data, size_t size, struct evzmq__integer *out);

/* What a ready signal says. */
enum evzmq__ready {
    EVZMQ__READY_MALFORMED, /* not one integer, or more than that */
    EVZMQ__READY_OUT_OF_RANGE, /* an identity that is not 0 to n - 1 */
    EVZMQ__READY_IDENTITY
};

/* Reads a ready signal of one of n workers. */
enum evzmq__ready evzmq__ready_read(const void *data, size_t size, unsigned n_workers,
                                    unsigned *out_identity);

/* The header of a request or an answer. */
struct evzmq__header {
    unsigned identity;
    uint64_t start; /* 0 for the first process of the worker, 1 for the next ... */
    unsigned flags; /* enum evzmq_pool_flags */
};

enum { EVZMQ__HEADER_BYTES_MAX = 3 * EVZMQ__INTEGER_BYTES_MAX };

/* Writes a header. Returns the number of bytes. */
size_t evzmq__header_write(unsigned char out[EVZMQ__HEADER_BYTES_MAX],
                           const struct evzmq__header *header);

/* Reads a header of one to three integers of one of n workers; whether there is one. */
bool evzmq__header_read(const void *data, size_t size, unsigned n_workers,
                        struct evzmq__header *out);

#endif /* EVZMQ_PLUGIN_READY_H */
