/**
 * @file schema_codec.h
 * What tests of records alone begin with: an arena, and codecs of schemas. For one test file each.
 */
#ifndef TESTS_SUPPORT_SCHEMA_CODEC_H
#define TESTS_SUPPORT_SCHEMA_CODEC_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <evzmq/schema.h>

static struct evzmq_arena *arena;

static int set_up(void **state)
{
    (void)state;
    arena = evzmq_arena_new();
    return arena == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    evzmq_arena_free(arena);
    return 0;
}

static struct evzmq_codec *codec_of(const struct evzmq_schema *schema, int skip_utf8)
{
    const struct evzmq_schema_options options = {sizeof(options), 0, 0, skip_utf8};
    struct evzmq_codec *const codec = evzmq_schema_codec_new(schema, &options);
    assert_non_null(codec);
    return codec;
}

#endif /* TESTS_SUPPORT_SCHEMA_CODEC_H */
