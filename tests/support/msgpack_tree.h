/**
 * @file msgpack_tree.h
 * What the unit tests of the msgpack_object codec share.
 */
#ifndef TESTS_SUPPORT_MSGPACK_TREE_H
#define TESTS_SUPPORT_MSGPACK_TREE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <evzmq/msgpack.h>

/* A codec and an arena per test. */
struct surroundings {
    struct evzmq_codec *codec; /* the default limits, except the deepest nesting */
    struct evzmq_arena *arena;
};

extern struct surroundings here;

/* 0: the default. */
struct evzmq_codec *new_codec(size_t depth, size_t elements, size_t memory, int utf8);
/* Of every test. No allocation may be left at its end. */
int set_up(void **state);
int tear_down(void **state);
/* Decodes what is good. */
const msgpack_object *decode(const void *bytes, size_t size);
/* Decodes what is not, without a single allocation. */
void refuses(struct evzmq_codec *codec, const void *bytes, size_t size, enum evzmq_decode_kind kind,
             size_t offset);
/* Encodes with the codec, in memory of exactly the size that it announced. */
char *encode(const msgpack_object *value, size_t *out_size);
void encodes_to(const msgpack_object *value, const void *bytes, size_t size);

#define DECODE(literal) decode(literal, sizeof(literal) - 1)

#define claim(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif /* TESTS_SUPPORT_MSGPACK_TREE_H */
