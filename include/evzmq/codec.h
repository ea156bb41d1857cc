/**
 * @file codec.h
 * How the bytes of a message become a value and back: the interface, the raw codec, and decode
 * errors.
 *
 * A codec is immutable once made and holds no per-message state, so one codec serves any number of
 * sockets, bases and threads. What a decode needs in memory it takes from an arena that the caller
 * gives and reuses.
 */
#ifndef EVZMQ_CODEC_H
#define EVZMQ_CODEC_H

#include <stddef.h>

#include <evzmq/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evzmq_arena;
struct evzmq_codec;

/** Why a message could not be decoded. */
enum evzmq_decode_kind {
    EVZMQ_DECODE_OK = 0, /**< nothing is wrong */
    EVZMQ_DECODE_TRUNCATED, /**< the bytes end inside a value, or a container declares more than can
                               follow */
    EVZMQ_DECODE_TRAILING, /**< a whole value, then more bytes; the offset is that of the first
                              extra byte */
    EVZMQ_DECODE_MALFORMED, /**< bytes that no value begins with (msgpack 0xc1), or an impossible
                               extension */
    EVZMQ_DECODE_DEPTH, /**< nested deeper than the codec's limit */
    EVZMQ_DECODE_ELEMENTS, /**< more elements than the codec's limit */
    EVZMQ_DECODE_MEMORY, /**< the decoded value would need more memory than the codec's limit */
    EVZMQ_DECODE_NOMEM, /**< memory could not be had (the message may be fine) */
    EVZMQ_DECODE_UTF8, /**< a string that is not UTF-8, where the codec checks it */
    EVZMQ_DECODE_TYPE, /**< a value of another type than the record's field has */
    EVZMQ_DECODE_VALUE, /**< the right type, a value that is not allowed: a wrong tag, a number out
                           of range */
    EVZMQ_DECODE_LENGTH, /**< an array or map with fewer elements than the record requires, or more
                            than it allows */
    EVZMQ_DECODE_KINDS /**< how many kinds there are; not a kind */
};

/** What went wrong, and where. */
struct evzmq_decode_error {
    enum evzmq_decode_kind kind; /**< what */
    size_t offset; /**< of the byte at fault, from the first byte given to decode; at most the size
                      given */
};

/**
 * The English name of a kind, such as "truncated".
 *
 * Thread: any. Callbacks: yes.
 *
 * @return a constant string, never NULL ("unknown" for a number that is no kind)
 */
EVZMQ_API const char *evzmq_decode_kind_name(enum evzmq_decode_kind kind);

/** A run of bytes that somebody else owns. The value type of the raw codec. */
struct evzmq_bytes {
    const void *data; /**< may be NULL when size is 0 */
    size_t size; /**< in bytes */
};

/**
 * What a codec is made of. Whoever writes a codec fills one of these, static and const.
 *
 * None of the functions may call anything of this library but evzmq_arena_alloc(): they run in the
 * middle of a delivery. They may run on several threads at once when the codec is shared.
 */
struct evzmq_codec_methods {
    size_t size; /**< sizeof(struct evzmq_codec_methods) */
    const char *name; /**< for messages to people; never NULL */

    /**
     * Decodes exactly @p size bytes into one value.
     *
     * The value may point into @p data and into memory from @p arena, nowhere else; it lives as
     * long as both. Peers choose the bytes: whatever they are, the function must end in time and
     * memory in proportion to @p size.
     *
     * @return 0 with *out_value set, or -1 with *out_error set
     */
    int (*decode)(const void *state, const void *data, size_t size, struct evzmq_arena *arena,
                  const void **out_value, struct evzmq_decode_error *out_error);

    /**
     * The number of bytes that encode() will write for @p value.
     *
     * @return 0 with *out_size set, or -1 with errno: EINVAL for a value that cannot be encoded,
     * EOVERFLOW for one too large. NULL when the codec does not encode (then write_value fails with
     * ENOTSUP).
     */
    int (*encoded_size)(const void *state, const void *value, size_t *out_size);

    /**
     * Writes exactly the @p size bytes that encoded_size() gave for @p value.
     *
     * @return 0, or -1 with errno
     */
    int (*encode)(const void *state, const void *value, void *buffer, size_t size);

    /** Releases @p state when the last reference to the codec goes. May be NULL. */
    void (*destroy)(void *state);

    /**
     * Decodes the one value at the front of @p size bytes, of which there is at least one, and says
     * how many it takes. What follows it is none of its business. For the rest as decode().
     *
     * NULL when values do not say themselves where they end; then frames of several records cannot
     * be used with the codec (see packing.h). A struct that ends before this member, as its
     * size says, has none.
     *
     * @return 0 with *out_value and *out_used set, or -1 with *out_error set
     */
    int (*decode_prefix)(const void *state, const void *data, size_t size,
                         struct evzmq_arena *arena, const void **out_value, size_t *out_used,
                         struct evzmq_decode_error *out_error);
};

/**
 * Makes a codec from its methods.
 *
 * Thread: any. Callbacks: yes.
 *
 * @param methods  must live as long as the codec (make it static)
 * @param state    given to every method; owned by the codec when the call succeeds
 * @return a codec with one reference, which is the caller's; or NULL with EINVAL (methods NULL, of
 * an unknown size, or without decode or name), ENOMEM
 */
EVZMQ_API struct evzmq_codec *evzmq_codec_new(const struct evzmq_codec_methods *methods,
                                              void *state);

/**
 * The codec that leaves bytes as they are: its value is a `const struct evzmq_bytes *`, both ways.
 * New sockets have it.
 *
 * Thread: any. Callbacks: yes.
 *
 * @return a codec with static lifetime, never NULL; evzmq_codec_free() on it does nothing
 */
EVZMQ_API struct evzmq_codec *evzmq_codec_raw(void);

/**
 * Gives back the caller's reference. Sockets and messages that use the codec hold references of
 * their own.
 *
 * Thread: any. Callbacks: yes (not from a codec's methods).
 *
 * @param codec  may be NULL
 */
EVZMQ_API void evzmq_codec_free(struct evzmq_codec *codec);

/**
 * The methods a codec was made with: how the accessor of one value type recognises its own codecs.
 *
 * Thread: any. Callbacks: yes.
 *
 * @return NULL for a NULL codec
 */
EVZMQ_API const struct evzmq_codec_methods *
evzmq_codec_get_methods(const struct evzmq_codec *codec);

/**
 * The state a codec was made with.
 *
 * Thread: any. Callbacks: yes.
 *
 * @return NULL for a NULL codec
 */
EVZMQ_API const void *evzmq_codec_get_state(const struct evzmq_codec *codec);

/**
 * Memory for decoded values: allocations are cut from a few large chunks that are kept, so that
 * after the first messages decoding allocates nothing.
 *
 * Thread: any, one at a time. Callbacks: yes.
 *
 * @return an empty arena (no chunk is allocated yet), or NULL with ENOMEM
 */
EVZMQ_API struct evzmq_arena *evzmq_arena_new(void);

/**
 * Cuts memory from an arena, aligned for any type.
 *
 * Thread: that of the arena's user. Callbacks: yes (it is what decode() calls).
 *
 * @param size  bytes; 0 gives a valid pointer too
 * @return memory that lives until evzmq_arena_reset() or evzmq_arena_free(); NULL with EINVAL (NULL
 * arena), ENOMEM
 */
EVZMQ_API void *evzmq_arena_alloc(struct evzmq_arena *arena, size_t size);

/**
 * Takes back everything cut from the arena and keeps its memory for the next message, except where
 * one extraordinary message made it far larger than usual.
 *
 * Thread: that of the arena's user. Callbacks: yes, for arenas of the caller's own.
 */
EVZMQ_API void evzmq_arena_reset(struct evzmq_arena *arena);

/**
 * Frees an arena and all that was cut from it.
 *
 * Thread: that of the arena's user. Callbacks: yes, for arenas of the caller's own.
 *
 * @param arena  may be NULL
 */
EVZMQ_API void evzmq_arena_free(struct evzmq_arena *arena);

/**
 * Decodes bytes without any socket.
 *
 * Thread: any, one at a time per arena. Callbacks: yes.
 *
 * @param codec      not NULL
 * @param data       @p size bytes; must outlive the value
 * @param arena      not NULL; must outlive the value
 * @param out_value  the value, of the codec's own type
 * @param out_error  may be NULL; written when the result is -1 with EBADMSG
 * @return 0, or -1 with EINVAL (a NULL argument), EBADMSG (see @p out_error), ENOMEM
 */
EVZMQ_API int evzmq_codec_decode(const struct evzmq_codec *codec, const void *data, size_t size,
                                 struct evzmq_arena *arena, const void **out_value,
                                 struct evzmq_decode_error *out_error);

/**
 * Decodes the first of several values that stand back to back, without any socket.
 *
 * Thread: any, one at a time per arena. Callbacks: yes.
 *
 * @param codec      not NULL
 * @param data       @p size bytes; must outlive the value
 * @param arena      not NULL; must outlive the value
 * @param out_value  the value, of the codec's own type
 * @param out_used   how many bytes it takes: 1 to @p size
 * @param out_error  may be NULL; written when the result is -1 with EBADMSG
 * @return 0, or -1 with EINVAL (a NULL argument), ENOTSUP (the codec's values do not say where they
 * end), EBADMSG (see @p out_error; also for a size of 0), ENOMEM
 */
EVZMQ_API int evzmq_codec_decode_prefix(const struct evzmq_codec *codec, const void *data,
                                        size_t size, struct evzmq_arena *arena,
                                        const void **out_value, size_t *out_used,
                                        struct evzmq_decode_error *out_error);

/**
 * The exact number of bytes evzmq_codec_encode() will write for a value.
 *
 * Thread: any. Callbacks: yes.
 *
 * @return 0 with *out_size set, or -1 with EINVAL (a NULL argument, or a value that cannot be
 * encoded), ENOTSUP (a codec that only decodes), EOVERFLOW
 */
EVZMQ_API int evzmq_codec_encoded_size(const struct evzmq_codec *codec, const void *value,
                                       size_t *out_size);

/**
 * Encodes a value without any socket.
 *
 * Thread: any. Callbacks: yes.
 *
 * @param buffer  @p size bytes; what is in it after a failure is not specified
 * @param size    what evzmq_codec_encoded_size() gave for the same, unchanged value
 * @return 0, or -1 with EINVAL, ENOTSUP
 */
EVZMQ_API int evzmq_codec_encode(const struct evzmq_codec *codec, const void *value, void *buffer,
                                 size_t size);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_CODEC_H */
