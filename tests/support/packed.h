/**
 * @file packed.h
 * Numbered records for the tests of packed frames: StreamChunks whose id is a number and whose text
 * has the size that is asked for.
 */
#ifndef TESTS_SUPPORT_PACKED_H
#define TESTS_SUPPORT_PACKED_H

#include "support.h"

/** The largest text of a record. */
#define PACKED_TEXT_MAX 70000u

/** A frame of records; `at` gets where each of them begins. */
struct packed_frame {
    unsigned char bytes[200000];
    size_t size;
    size_t at[4096];
    size_t count;
};

/** The codec of the records; the caller's. */
struct evzmq_codec *packed_codec(void);

/** Attaches with the codec set. */
void packed_attach(struct fixture *f, struct probe *p, void *zmq_socket, unsigned options);

/** Writes one record. Returns what the write does. */
int packed_write(struct evzmq_socket *socket, uint64_t number, size_t text_size);

/** Encodes a record into a buffer and gives its size. */
size_t packed_encode(uint64_t number, size_t text_size, void *out, size_t room);

/** Fails the test unless bytes are records with consecutive numbers. Returns how many. */
size_t packed_check(const void *data, size_t size, uint64_t first);

/** The number of a received record, which is not an error's. */
uint64_t packed_number(const struct evzmq_message *message);

/** Receives one frame with a plain socket, while the loop runs, and checks it. Returns the number
 * of records. */
size_t packed_pump_frame(struct fixture *f, void *peer, uint64_t first);

/** A frame of consecutive records, to be freed with free(); one more record for it; and one sent by
 * a plain socket. */
struct packed_frame *packed_frame_new(uint64_t first, uint64_t count, size_t text_size);
void packed_frame_add(struct packed_frame *frame, uint64_t number, size_t text_size);
void packed_send_frame(void *peer, uint64_t first, uint64_t count, size_t text_size);

/** An unpacking PULL adapter and a plain PUSH. */
void packed_open_pair(struct fixture *f, enum transport transport, struct probe *p,
                      void **out_push);

/** The hook of a probe that expects the records in order, counted in its `sequence`. */
void packed_read_sequence(struct probe *p, struct evzmq_message *message);

#endif /* TESTS_SUPPORT_PACKED_H */
