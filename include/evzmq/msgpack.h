/**
 * @file msgpack.h
 * The codec whose value is a msgpack-c object tree. The only header of this library that includes
 * `<msgpack.h>`.
 */
#ifndef EVZMQ_MSGPACK_H
#define EVZMQ_MSGPACK_H

#include <msgpack.h>

#include <evzmq/codec.h>
#include <evzmq/message.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The default of evzmq_msgpack_limits::depth_max. */
#define EVZMQ_MSGPACK_DEPTH_DEFAULT 64
/** The deepest nesting that can be asked for. */
#define EVZMQ_MSGPACK_DEPTH_MAX 512
/** The default of evzmq_msgpack_limits::elements_max. */
#define EVZMQ_MSGPACK_ELEMENTS_DEFAULT (1024u * 1024u)
/** The default of evzmq_msgpack_limits::memory_max, in bytes. */
#define EVZMQ_MSGPACK_MEMORY_DEFAULT (64u * 1024u * 1024u)

/**
 * What a message may cost to decode. All of it is checked over the whole message before anything is
 * allocated: msgpack-c by itself believes a peer's counts and asks malloc for gigabytes on a
 * message of five bytes. A container that declares more elements than bytes remain, all open
 * containers counted together, is refused whatever the limits.
 */
struct evzmq_msgpack_limits {
    size_t size; /**< sizeof(struct evzmq_msgpack_limits) */
    size_t depth_max; /**< containers inside one another; 0: EVZMQ_MSGPACK_DEPTH_DEFAULT */
    size_t elements_max; /**< array elements plus map keys and values; 0:
                            EVZMQ_MSGPACK_ELEMENTS_DEFAULT */
    size_t memory_max; /**< bytes of msgpack_object structs, as msgpack-c lays them out (24 bytes an
                          element on 64-bit machines, 48 a map pair); 0:
                          EVZMQ_MSGPACK_MEMORY_DEFAULT */
    int validate_utf8; /**< not 0: a str that is not UTF-8 is EVZMQ_DECODE_UTF8. Off by default, as
                          in msgpack-c */
};

/**
 * Makes a codec that decodes messages into msgpack_object trees and encodes such trees.
 *
 * Strings, binaries and extensions of a decoded tree point into the message's bytes. Duplicate map
 * keys are kept, in order. Encoding uses the shortest form of everything, as msgpack_pack_object()
 * does.
 *
 * Nothing of this library prints a tree. msgpack_object_print_buffer() of msgpack-c does, and cuts
 * off what does not fit: a single double may take 317 characters.
 *
 * Thread: any. Callbacks: yes.
 *
 * @param limits  NULL for the defaults
 * @return a codec with one reference, which is the caller's; or NULL with EINVAL (size unknown, or
 * depth_max above EVZMQ_MSGPACK_DEPTH_MAX), ENOMEM
 */
EVZMQ_API struct evzmq_codec *evzmq_msgpack_codec_new(const struct evzmq_msgpack_limits *limits);

/**
 * The decoded tree of a message.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @return the tree, which lives as long as the message's value; NULL when the message has no value
 * (an empty last part) or was decoded by another codec
 */
EVZMQ_API const msgpack_object *evzmq_msgpack_value(const struct evzmq_message *message);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_MSGPACK_H */
