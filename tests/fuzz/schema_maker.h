/**
 * @file schema_maker.h
 * Schemas made of bytes, and messages that they accept.
 */
#ifndef TESTS_FUZZ_SCHEMA_MAKER_H
#define TESTS_FUZZ_SCHEMA_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <msgpack.h>

#include <evzmq/schema.h>

/** The bytes that decide; at their end all decisions are 0. */
struct source {
    const uint8_t *data;
    size_t size;
};

unsigned source_next(struct source *source);

/** Makes a schema and all it refers to, in memory that the next call takes again. One that has a
 * fault now and then. */
const struct evzmq_schema *make_schema(struct source *source);

/** Writes a message for a schema without a fault. Returns whether all in it is as it should be. */
bool make_message(struct source *source, const struct evzmq_schema *schema,
                  msgpack_sbuffer *out_bytes);

#endif /* TESTS_FUZZ_SCHEMA_MAKER_H */
