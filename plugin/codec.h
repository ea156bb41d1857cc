/*
 * codec.h (L1): codecs as the library's own files see them.
 */
#ifndef EVZMQ_PLUGIN_CODEC_H
#define EVZMQ_PLUGIN_CODEC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <evzmq/codec.h>

#include "base.h"

/*
 * What evzmq_codec_decode() does once it has checked its arguments, errno included. A codec of the
 * library's own may do it by itself, for then it is jumped to: to call the method and to look at
 * its result takes a short record a tenth longer.
 */
typedef int (*evzmq__whole_decode)(const void *state, const void *data, size_t size,
                                   struct evzmq_arena *arena, const void **out_value,
                                   struct evzmq_decode_error *out_error);

/* Nothing but the reference count changes after evzmq_codec_new(): threads share codecs. */
struct evzmq_codec {
    const struct evzmq_codec_methods *methods;
    void *state;
    evzmq__whole_decode decode_whole; /* NULL: the method is called and its result looked at */
    int (*decode_prefix)(const void *state, const void *data, size_t size,
                         struct evzmq_arena *arena, const void **out_value, size_t *out_used,
                         struct evzmq_decode_error *out_error); /* NULL: it has none */
    bool is_raw; /* the raw codec: static, so never counted and never freed */
    atomic_size_t references;
};

/* Takes a reference, which evzmq_codec_free() gives back. NULL is ignored. */
void evzmq__codec_ref(struct evzmq_codec *codec);

/*
 * Makes the report of a decode that failed one that can be relied on: a kind that is a kind and not
 * OK, an offset within the message. Codecs are written by others too, and the kind indexes
 * counters.
 */
void evzmq__codec_check_error(struct evzmq_decode_error *error, size_t size);

/*
 * Decodes on the hot path: evzmq_codec_decode() without the checks of its arguments. The result is
 * -1 with *out_error set, also where memory ran out.
 */
static inline int evzmq__codec_decode(const struct evzmq_codec *codec, const void *data,
                                      size_t size, struct evzmq_arena *arena,
                                      const void **out_value, struct evzmq_decode_error *out_error)
{
    if (EVZMQ__LIKELY(
            codec->methods->decode(codec->state, data, size, arena, out_value, out_error) == 0)) {
        return 0;
    }
    evzmq__codec_check_error(out_error, size);
    return -1;
}

/* The same for the value at the front of at least one byte; the codec has the method. */
static inline int evzmq__codec_decode_prefix(const struct evzmq_codec *codec, const void *data,
                                             size_t size, struct evzmq_arena *arena,
                                             const void **out_value, size_t *out_used,
                                             struct evzmq_decode_error *out_error)
{
    const int result =
        codec->decode_prefix(codec->state, data, size, arena, out_value, out_used, out_error);
    /* A codec that uses nothing would never come to the end. */
    if (EVZMQ__LIKELY(result == 0 && *out_used - 1 < size)) {
        return 0;
    }
    if (result == 0) {
        *out_error = (struct evzmq_decode_error){EVZMQ_DECODE_MALFORMED, 0};
    }
    evzmq__codec_check_error(out_error, size);
    return -1;
}

#endif /* EVZMQ_PLUGIN_CODEC_H */
