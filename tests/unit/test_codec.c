/*
 * test_codec.c: making, sharing and calling codecs, and the raw codec.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <errno.h>
#include <pthread.h>

#include <cmocka.h>

#include "allocator.h"
#include "codec.h"

static struct evzmq_arena *arena;
static int destroyed;

static int set_up(void **state)
{
    (void)state;
    allocator_install();
    destroyed = 0;
    arena = evzmq_arena_new();
    return arena != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    evzmq_arena_free(arena);
    const size_t blocks = allocator_get_counts().blocks;
    allocator_remove();
    return blocks == 0 ? 0 : -1;
}

/* A codec that fails as its state says. */
static int fail_decode(const void *state, const void *data, size_t size, struct evzmq_arena *from,
                       const void **out_value, struct evzmq_decode_error *out_error)
{
    (void)data;
    (void)size;
    (void)from;
    (void)out_value;
    *out_error = *(const struct evzmq_decode_error *)state;
    return -1;
}

static void count_destroy(void *state)
{
    (void)state;
    destroyed += 1;
}

static const struct evzmq_codec_methods failing = {
    .size = sizeof(struct evzmq_codec_methods),
    .name = "failing",
    .decode = fail_decode,
    .destroy = count_destroy,
};

static void methods_that_are_not_whole_are_einval(void **state)
{
    (void)state;
    struct evzmq_codec_methods no_decode = failing;
    no_decode.decode = NULL;
    struct evzmq_codec_methods no_name = failing;
    no_name.name = NULL;
    struct evzmq_codec_methods other_size = failing;
    other_size.size += 8;
    const struct evzmq_codec_methods *const wrong[] = {NULL, &no_decode, &no_name, &other_size};
    for (size_t i = 0; i < 4; i++) {
        errno = 0;
        assert_null(evzmq_codec_new(wrong[i], NULL));
        assert_int_equal(errno, EINVAL);
    }
    assert_int_equal(destroyed, 0);
}

static void codec_gives_back_its_methods_and_state(void **state)
{
    (void)state;
    int anything = 0;
    struct evzmq_codec *const codec = evzmq_codec_new(&failing, &anything);
    assert_ptr_equal(evzmq_codec_get_methods(codec), &failing);
    assert_ptr_equal(evzmq_codec_get_state(codec), &anything);
    evzmq_codec_free(codec);
    assert_null(evzmq_codec_get_methods(NULL));
    assert_null(evzmq_codec_get_state(NULL));
    evzmq_codec_free(NULL);
}

static void state_is_destroyed_with_the_last_reference_only(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = evzmq_codec_new(&failing, NULL);
    evzmq__codec_ref(codec);
    evzmq_codec_free(codec);
    assert_int_equal(destroyed, 0);
    evzmq_codec_free(codec);
    assert_int_equal(destroyed, 1);
}

static void failed_codec_is_enomem_and_leaves_the_state_to_the_caller(void **state)
{
    (void)state;
    allocator_fail_at(1);
    errno = 0;
    assert_null(evzmq_codec_new(&failing, NULL));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(destroyed, 0);
}

enum { SHARING_THREADS = 4, SHARING_ROUNDS = 20000 };

static void *share(void *argument)
{
    struct evzmq_codec *const codec = argument;
    for (int i = 0; i < SHARING_ROUNDS; i++) {
        evzmq__codec_ref(codec);
        evzmq_codec_free(codec);
    }
    evzmq_codec_free(codec);
    return NULL;
}

static void threads_can_share_a_codec(void **state)
{
    (void)state;
    struct evzmq_codec *const codec = evzmq_codec_new(&failing, NULL);
    pthread_t threads[SHARING_THREADS];
    for (size_t i = 0; i < SHARING_THREADS; i++) {
        evzmq__codec_ref(codec);
        assert_int_equal(pthread_create(&threads[i], NULL, share, codec), 0);
    }
    evzmq_codec_free(codec);
    for (size_t i = 0; i < SHARING_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(destroyed, 1);
}

static void decode_fails_as(enum evzmq_decode_kind kind, size_t offset, int error,
                            enum evzmq_decode_kind kind_seen, size_t offset_seen)
{
    struct evzmq_decode_error given = {kind, offset};
    struct evzmq_codec *const codec = evzmq_codec_new(&failing, &given);
    const void *value = &given;
    struct evzmq_decode_error seen = {EVZMQ_DECODE_OK, 77};
    errno = 0;
    assert_int_equal(evzmq_codec_decode(codec, "abc", 3, arena, &value, &seen), -1);
    assert_int_equal(errno, error);
    assert_ptr_equal(value, &given);
    assert_int_equal(seen.kind, kind_seen);
    assert_int_equal(seen.offset, offset_seen);
    assert_int_equal(evzmq_codec_decode(codec, "abc", 3, arena, &value, NULL), -1);
    evzmq_codec_free(codec);
}

static void decode_errors_are_reported_as_the_codec_gave_them(void **state)
{
    (void)state;
    for (int kind = EVZMQ_DECODE_OK + 1; kind < EVZMQ_DECODE_KINDS; kind++) {
        if (kind != EVZMQ_DECODE_NOMEM) {
            decode_fails_as((enum evzmq_decode_kind)kind, 2, EBADMSG, (enum evzmq_decode_kind)kind,
                            2);
        }
    }
}

static void decode_without_memory_is_enomem_and_no_decode_error(void **state)
{
    (void)state;
    decode_fails_as(EVZMQ_DECODE_NOMEM, 0, ENOMEM, EVZMQ_DECODE_OK, 77);
}

static void report_of_a_careless_codec_is_made_whole(void **state)
{
    (void)state;
    decode_fails_as(EVZMQ_DECODE_OK, 0, EBADMSG, EVZMQ_DECODE_MALFORMED, 0);
    decode_fails_as(EVZMQ_DECODE_KINDS, 1, EBADMSG, EVZMQ_DECODE_MALFORMED, 1);
    decode_fails_as((enum evzmq_decode_kind)1000, 3, EBADMSG, EVZMQ_DECODE_MALFORMED, 3);
    decode_fails_as(EVZMQ_DECODE_TYPE, SIZE_MAX, EBADMSG, EVZMQ_DECODE_TYPE, 3);
}

/* A codec that sets its outputs and fails all the same. */
static int careless_decode(const void *state, const void *data, size_t size,
                           struct evzmq_arena *from, const void **out_value,
                           struct evzmq_decode_error *out_error)
{
    *out_value = data;
    return fail_decode(state, data, size, from, out_value, out_error);
}

static int careless_encoded_size(const void *state, const void *value, size_t *out_size)
{
    (void)state;
    (void)value;
    *out_size = 1;
    errno = EOVERFLOW;
    return -1;
}

static int careless_encode(const void *state, const void *value, void *buffer, size_t size)
{
    (void)state;
    (void)value;
    (void)buffer;
    (void)size;
    return -1;
}

static void outputs_of_a_codec_that_fails_are_not_the_callers(void **state)
{
    (void)state;
    static const struct evzmq_codec_methods careless = {
        .size = sizeof(struct evzmq_codec_methods),
        .name = "careless",
        .decode = careless_decode,
        .encoded_size = careless_encoded_size,
        .encode = careless_encode,
    };
    struct evzmq_decode_error error = {EVZMQ_DECODE_VALUE, 0};
    struct evzmq_codec *const codec = evzmq_codec_new(&careless, &error);
    assert_non_null(codec);
    const void *value = "before";
    size_t size = 42;
    assert_int_equal(evzmq_codec_decode(codec, "x", 1, arena, &value, NULL), -1);
    assert_int_equal(errno, EBADMSG);
    assert_string_equal(value, "before");
    assert_int_equal(evzmq_codec_encoded_size(codec, "x", &size), -1);
    assert_int_equal(errno, EOVERFLOW);
    assert_int_equal(size, 42);
    evzmq_codec_free(codec);
}

static void arguments_that_are_missing_are_einval(void **state)
{
    (void)state;
    struct evzmq_codec *const raw = evzmq_codec_raw();
    const void *value = NULL;
    struct evzmq_bytes bytes = {"x", 1};
    size_t size = 0;
    char buffer[1];
    errno = 0;
    assert_int_equal(evzmq_codec_decode(NULL, "x", 1, arena, &value, NULL), -1);
    assert_int_equal(evzmq_codec_decode(raw, NULL, 1, arena, &value, NULL), -1);
    assert_int_equal(evzmq_codec_decode(raw, "x", 1, NULL, &value, NULL), -1);
    assert_int_equal(evzmq_codec_decode(raw, "x", 1, arena, NULL, NULL), -1);
    assert_int_equal(evzmq_codec_encoded_size(NULL, &bytes, &size), -1);
    assert_int_equal(evzmq_codec_encoded_size(raw, NULL, &size), -1);
    assert_int_equal(evzmq_codec_encoded_size(raw, &bytes, NULL), -1);
    assert_int_equal(evzmq_codec_encode(NULL, &bytes, buffer, 1), -1);
    assert_int_equal(evzmq_codec_encode(raw, NULL, buffer, 1), -1);
    assert_int_equal(evzmq_codec_encode(raw, &bytes, NULL, 1), -1);
    assert_int_equal(errno, EINVAL);
}

static int size_of_nothing(const void *state, const void *value, size_t *out_size)
{
    (void)state;
    (void)value;
    *out_size = 0;
    return 0;
}

static int encode_nothing(const void *state, const void *value, void *buffer, size_t size)
{
    (void)state;
    (void)value;
    (void)buffer;
    (void)size;
    return 0;
}

/* It lacks both methods of encoding, or one of them. */
static void codec_that_only_decodes_is_enotsup_for_writing(void **state)
{
    (void)state;
    struct evzmq_codec_methods methods[] = {failing, failing, failing};
    methods[1].encoded_size = size_of_nothing;
    methods[2].encode = encode_nothing;
    for (size_t i = 0; i < 3; i++) {
        struct evzmq_codec *const codec = evzmq_codec_new(&methods[i], NULL);
        size_t size = 0;
        char buffer[1];
        errno = 0;
        assert_int_equal(evzmq_codec_encoded_size(codec, "value", &size), -1);
        assert_int_equal(errno, ENOTSUP);
        errno = 0;
        assert_int_equal(evzmq_codec_encode(codec, "value", buffer, 1), -1);
        assert_int_equal(errno, ENOTSUP);
        evzmq_codec_free(codec);
    }
}

static void raw_value_is_the_bytes_where_they_are(void **state)
{
    (void)state;
    const void *value = NULL;
    assert_int_equal(evzmq_codec_decode(evzmq_codec_raw(), "abc", 3, arena, &value, NULL), 0);
    const struct evzmq_bytes *const bytes = value;
    assert_int_equal(bytes->size, 3);
    assert_memory_equal(bytes->data, "abc", 3);
    assert_int_equal(evzmq_codec_decode(evzmq_codec_raw(), NULL, 0, arena, &value, NULL), 0);
    assert_int_equal(((const struct evzmq_bytes *)value)->size, 0);
}

static void raw_bytes_are_encoded_as_they_are(void **state)
{
    (void)state;
    struct evzmq_codec *const raw = evzmq_codec_raw();
    const struct evzmq_bytes bytes = {"abc", 3};
    size_t size = 0;
    assert_int_equal(evzmq_codec_encoded_size(raw, &bytes, &size), 0);
    assert_int_equal(size, 3);
    char buffer[3];
    assert_int_equal(evzmq_codec_encode(raw, &bytes, buffer, 3), 0);
    assert_memory_equal(buffer, "abc", 3);
    errno = 0;
    assert_int_equal(evzmq_codec_encode(raw, &bytes, buffer, 2), -1);
    assert_int_equal(errno, EINVAL);

    const struct evzmq_bytes nothing = {NULL, 0};
    assert_int_equal(evzmq_codec_encoded_size(raw, &nothing, &size), 0);
    assert_int_equal(size, 0);
    assert_int_equal(evzmq_codec_encode(raw, &nothing, NULL, 0), 0);
    const struct evzmq_bytes nowhere = {NULL, 1};
    errno = 0;
    assert_int_equal(evzmq_codec_encoded_size(raw, &nowhere, &size), -1);
    assert_int_equal(errno, EINVAL);
}

static void raw_decode_without_memory_is_enomem(void **state)
{
    (void)state;
    const void *value = NULL;
    allocator_fail_at(1);
    errno = 0;
    assert_int_equal(evzmq_codec_decode(evzmq_codec_raw(), "abc", 3, arena, &value, NULL), -1);
    assert_int_equal(errno, ENOMEM);
    assert_null(value);
}

static void raw_codec_outlives_every_free(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        evzmq_codec_free(evzmq_codec_raw());
        evzmq__codec_ref(evzmq_codec_raw());
    }
    assert_string_equal(evzmq_codec_get_methods(evzmq_codec_raw())->name, "raw");
    assert_int_equal(allocator_get_counts().blocks, 1);
}

static void every_kind_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < EVZMQ_DECODE_KINDS; i++) {
        const char *const name = evzmq_decode_kind_name((enum evzmq_decode_kind)i);
        assert_string_not_equal(name, "unknown");
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(name, evzmq_decode_kind_name((enum evzmq_decode_kind)j));
        }
    }
    assert_string_equal(evzmq_decode_kind_name(EVZMQ_DECODE_KINDS), "unknown");
    assert_string_equal(evzmq_decode_kind_name((enum evzmq_decode_kind) - 1), "unknown");
}

#define claim(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(methods_that_are_not_whole_are_einval),
        claim(codec_gives_back_its_methods_and_state),
        claim(state_is_destroyed_with_the_last_reference_only),
        claim(failed_codec_is_enomem_and_leaves_the_state_to_the_caller),
        claim(threads_can_share_a_codec),
        claim(decode_errors_are_reported_as_the_codec_gave_them),
        claim(decode_without_memory_is_enomem_and_no_decode_error),
        claim(report_of_a_careless_codec_is_made_whole),
        claim(outputs_of_a_codec_that_fails_are_not_the_callers),
        claim(arguments_that_are_missing_are_einval),
        claim(codec_that_only_decodes_is_enotsup_for_writing),
        claim(raw_value_is_the_bytes_where_they_are),
        claim(raw_bytes_are_encoded_as_they_are),
        claim(raw_decode_without_memory_is_enomem),
        claim(raw_codec_outlives_every_free),
        claim(every_kind_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
