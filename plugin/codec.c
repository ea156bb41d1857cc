/*
 * codec.c (L1): the codec interface: making, sharing and calling codecs, and the raw codec that
 * every socket starts with.
 */
#include "codec.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "arena.h"
#include "base.h"

static const char *const kind_names[] = {
    [EVZMQ_DECODE_OK] = "ok",
    [EVZMQ_DECODE_TRUNCATED] = "truncated",
    [EVZMQ_DECODE_TRAILING] = "trailing bytes",
    [EVZMQ_DECODE_MALFORMED] = "malformed",
    [EVZMQ_DECODE_DEPTH] = "nested too deep",
    [EVZMQ_DECODE_ELEMENTS] = "too many elements",
    [EVZMQ_DECODE_MEMORY] = "too much memory needed",
    [EVZMQ_DECODE_NOMEM] = "out of memory",
    [EVZMQ_DECODE_UTF8] = "invalid UTF-8",
    [EVZMQ_DECODE_TYPE] = "wrong type",
    [EVZMQ_DECODE_VALUE] = "value not allowed",
    [EVZMQ_DECODE_LENGTH] = "wrong number of elements",
};

_Static_assert(sizeof(kind_names) / sizeof(kind_names[0]) == EVZMQ_DECODE_KINDS,
               "every kind has a name");

const char *evzmq_decode_kind_name(enum evzmq_decode_kind kind)
{
    const size_t index = (size_t)kind;
    return index < EVZMQ_DECODE_KINDS ? kind_names[index] : "unknown";
}

/* What the struct was before decode_prefix came. */
#define METHODS_SIZE_MIN offsetof(struct evzmq_codec_methods, decode_prefix)

struct evzmq_codec *evzmq_codec_new(const struct evzmq_codec_methods *methods, void *state)
{
    if (methods == NULL ||
        (methods->size != sizeof(struct evzmq_codec_methods) &&
         methods->size != METHODS_SIZE_MIN) ||
        methods->decode == NULL || methods->name == NULL) {
        errno = EINVAL;
        return NULL;
    }
    struct evzmq_codec *const codec = evzmq__malloc(sizeof(*codec));
    if (codec == NULL) {
        return NULL;
    }
    codec->methods = methods;
    codec->state = state;
    codec->decode_whole = NULL;
    codec->decode_prefix = methods->size > METHODS_SIZE_MIN ? methods->decode_prefix : NULL;
    codec->is_raw = false;
    atomic_init(&codec->references, 1);
    return codec;
}

void evzmq__codec_ref(struct evzmq_codec *codec)
{
    if (codec != NULL && !codec->is_raw) {
        const size_t before =
            atomic_fetch_add_explicit(&codec->references, 1, memory_order_relaxed);
        assert(before > 0);
        (void)before;
    }
}

void evzmq_codec_free(struct evzmq_codec *codec)
{
    if (codec == NULL || codec->is_raw) {
        return;
    }
    /* Release what this thread did with the codec, acquire what the others did, before the last
     * one destroys it. */
    const size_t before = atomic_fetch_sub_explicit(&codec->references, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before > 1) {
        return;
    }
    if (codec->methods->destroy != NULL) {
        codec->methods->destroy(codec->state);
    }
    evzmq__free(codec);
}

const struct evzmq_codec_methods *evzmq_codec_get_methods(const struct evzmq_codec *codec)
{
    return codec != NULL ? codec->methods : NULL;
}

const void *evzmq_codec_get_state(const struct evzmq_codec *codec)
{
    return codec != NULL ? codec->state : NULL;
}

void evzmq__codec_check_error(struct evzmq_decode_error *error, size_t size)
{
    const size_t kind = (size_t)error->kind;
    if (kind == EVZMQ_DECODE_OK || kind >= EVZMQ_DECODE_KINDS) {
        error->kind = EVZMQ_DECODE_MALFORMED;
    }
    if (error->offset > size) {
        error->offset = size;
    }
}

/* Tells of a decode that failed. */
EVZMQ__COLD
static int report(const struct evzmq_decode_error *error, struct evzmq_decode_error *out_error)
{
    if (error->kind == EVZMQ_DECODE_NOMEM) {
        errno = ENOMEM;
        return -1;
    }
    if (out_error != NULL) {
        *out_error = *error;
    }
    errno = EBADMSG;
    return -1;
}

int evzmq_codec_decode_prefix(const struct evzmq_codec *codec, const void *data, size_t size,
                              struct evzmq_arena *arena, const void **out_value, size_t *out_used,
                              struct evzmq_decode_error *out_error)
{
    if (codec == NULL || arena == NULL || out_value == NULL || out_used == NULL ||
        (data == NULL && size > 0)) {
        errno = EINVAL;
        return -1;
    }
    if (codec->decode_prefix == NULL) {
        errno = ENOTSUP;
        return -1;
    }
    const void *value = NULL;
    size_t used = 0;
    struct evzmq_decode_error error = {EVZMQ_DECODE_TRUNCATED, 0};
    if (size == 0 ||
        evzmq__codec_decode_prefix(codec, data, size, arena, &value, &used, &error) < 0) {
        return report(&error, out_error);
    }
    *out_value = value;
    *out_used = used;
    return 0;
}

/* Decodes by the method of a codec. */
EVZMQ__NOINLINE
static int decode_by_method(const struct evzmq_codec *codec, const void *data, size_t size,
                            struct evzmq_arena *arena, const void **out_value,
                            struct evzmq_decode_error *out_error)
{
    /* Codecs are written by others too: one may set its output and fail all the same. */
    const void *value = NULL;
    struct evzmq_decode_error error = {EVZMQ_DECODE_OK, 0};
    if (EVZMQ__LIKELY(evzmq__codec_decode(codec, data, size, arena, &value, &error) == 0)) {
        *out_value = value;
        return 0;
    }
    return report(&error, out_error);
}

int evzmq_codec_decode(const struct evzmq_codec *codec, const void *data, size_t size,
                       struct evzmq_arena *arena, const void **out_value,
                       struct evzmq_decode_error *out_error)
{
    if (!EVZMQ__LIKELY(codec != NULL) || !EVZMQ__LIKELY(arena != NULL) ||
        !EVZMQ__LIKELY(out_value != NULL) || !EVZMQ__LIKELY(data != NULL || size == 0)) {
        errno = EINVAL;
        return -1;
    }
    if (EVZMQ__LIKELY(codec->decode_whole != NULL)) {
        return codec->decode_whole(codec->state, data, size, arena, out_value, out_error);
    }
    return decode_by_method(codec, data, size, arena, out_value, out_error);
}

static bool can_encode(const struct evzmq_codec *codec)
{
    return codec->methods->encoded_size != NULL && codec->methods->encode != NULL;
}

int evzmq_codec_encoded_size(const struct evzmq_codec *codec, const void *value, size_t *out_size)
{
    if (!EVZMQ__LIKELY(codec != NULL && value != NULL && out_size != NULL)) {
        errno = EINVAL;
        return -1;
    }
    if (!EVZMQ__LIKELY(can_encode(codec))) {
        errno = ENOTSUP;
        return -1;
    }
    size_t size = 0;
    if (codec->methods->encoded_size(codec->state, value, &size) < 0) {
        return -1;
    }
    *out_size = size;
    return 0;
}

int evzmq_codec_encode(const struct evzmq_codec *codec, const void *value, void *buffer,
                       size_t size)
{
    if (!EVZMQ__LIKELY(codec != NULL && value != NULL && (buffer != NULL || size == 0))) {
        errno = EINVAL;
        return -1;
    }
    if (!EVZMQ__LIKELY(can_encode(codec))) {
        errno = ENOTSUP;
        return -1;
    }
    return codec->methods->encode(codec->state, value, buffer, size);
}

/* The raw codec. Its only allocation is the evzmq_bytes, cut from the arena. */

static int raw_decode(const void *state, const void *data, size_t size, struct evzmq_arena *arena,
                      const void **out_value, struct evzmq_decode_error *out_error)
{
    (void)state;
    struct evzmq_bytes *const bytes = evzmq__arena_cut(arena, sizeof(*bytes));
    if (bytes == NULL) {
        out_error->kind = EVZMQ_DECODE_NOMEM;
        out_error->offset = 0;
        return -1;
    }
    bytes->data = data;
    bytes->size = size;
    *out_value = bytes;
    return 0;
}

static int raw_encoded_size(const void *state, const void *value, size_t *out_size)
{
    (void)state;
    const struct evzmq_bytes *const bytes = value;
    if (bytes->data == NULL && bytes->size > 0) {
        errno = EINVAL;
        return -1;
    }
    *out_size = bytes->size;
    return 0;
}

static int raw_encode(const void *state, const void *value, void *buffer, size_t size)
{
    (void)state;
    const struct evzmq_bytes *const bytes = value;
    if (bytes->size != size || (bytes->data == NULL && size > 0)) {
        errno = EINVAL;
        return -1;
    }
    if (size > 0) {
        memcpy(buffer, bytes->data, size);
    }
    return 0;
}

static const struct evzmq_codec_methods raw_methods = {
    .size = sizeof(struct evzmq_codec_methods),
    .name = "raw",
    .decode = raw_decode,
    .encoded_size = raw_encoded_size,
    .encode = raw_encode,
};

static struct evzmq_codec raw_codec = {
    .methods = &raw_methods,
    .is_raw = true,
};

struct evzmq_codec *evzmq_codec_raw(void)
{
    return &raw_codec;
}
