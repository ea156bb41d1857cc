/**
 * @file message.h
 * Messages, received and outgoing, their parts and envelopes, and the way from and to an evbuffer.
 *
 * A message is always a whole ZeroMQ message: one or more parts. Received messages given to a
 * callback are lent: they and everything read from them live until the callback returns
 * (evzmq_message_take() keeps one). All others are owned by whoever made or took them, until
 * evzmq_message_free() or a successful evzmq_socket_write_message().
 *
 * Thread: a message belongs to one thread at a time. An owned message may be handed to another
 * thread.
 */
#ifndef EVZMQ_MESSAGE_H
#define EVZMQ_MESSAGE_H

#include <stddef.h>

#include <evzmq/base.h>
#include <evzmq/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evbuffer;
struct evzmq_envelope;
struct evzmq_message;

/**
 * Releases memory that was lent to an outgoing message. Runs exactly once, when libzmq no longer
 * needs the bytes: on the caller's thread or on one of libzmq's I/O threads (zmq_msg_init_data(3)),
 * so it must be thread-safe and must not call this library or libevent.
 *
 * @param data  the pointer given with the part
 * @param arg   the argument given with the part
 */
typedef void (*evzmq_free_cb)(void *data, void *arg);

/**
 * Makes an outgoing message without parts.
 *
 * Thread: any. Callbacks: yes.
 *
 * @return a message owned by the caller, or NULL with ENOMEM
 */
EVZMQ_API struct evzmq_message *evzmq_message_new(void);

/**
 * Frees an owned message: one from evzmq_message_new(), evzmq_message_take() or a receive call.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @param message  may be NULL. A message lent to a callback is not the caller's: freeing one does
 * nothing.
 */
EVZMQ_API void evzmq_message_free(struct evzmq_message *message);

/**
 * Appends a part with a copy of some bytes.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @param message  an owned message
 * @param data     @p size bytes; may be NULL when @p size is 0
 * @param size     bytes; 0 makes an empty part
 * @return 0, or -1 with EINVAL (NULL, or a message lent to a callback), ENOMEM; the message is
 * unchanged then
 */
EVZMQ_API int evzmq_message_add(struct evzmq_message *message, const void *data, size_t size);

/**
 * Appends a part that refers to the caller's bytes without copying them.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @param message  an owned message
 * @param data     @p size bytes that stay valid and unchanged until @p free_cb runs
 * @param size     bytes
 * @param free_cb  NULL for memory that lives longer than the ZeroMQ context
 * @param arg      given to @p free_cb
 * @return 0, or -1 with EINVAL (NULL, a lent message, sizes that add up to more than SIZE_MAX),
 * ENOMEM; then the message is unchanged, @p free_cb does not run and the bytes stay the caller's
 */
EVZMQ_API int evzmq_message_add_reference(struct evzmq_message *message, void *data, size_t size,
                                          evzmq_free_cb free_cb, void *arg);

/**
 * Appends all bytes of an evbuffer as one part and leaves the evbuffer empty.
 *
 * Bytes that are contiguous in the evbuffer are not copied when there are at least
 * EVZMQ_ZERO_COPY_MIN of them: the part takes over the evbuffer's memory. Otherwise they are copied
 * once, into the part (a ZeroMQ part is contiguous).
 *
 * The memory taken over is released on whatever thread libzmq drops the message (see
 * ::evzmq_free_cb): where the evbuffer holds memory added with evbuffer_add_reference(), its
 * cleanup function must bear that.
 *
 * Thread: that of the message and of the evbuffer. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ENOMEM, EBUSY (the front of the evbuffer is frozen); then message
 * and evbuffer are unchanged
 */
EVZMQ_API int evzmq_message_add_evbuffer(struct evzmq_message *message, struct evbuffer *buffer);

/**
 * From this many bytes on, evbuffers and kept messages share memory instead of copying it. libzmq
 * receives small messages into blocks of 8 KiB that several messages share, so that keeping one of
 * them would keep the whole block.
 */
#define EVZMQ_ZERO_COPY_MIN 8192u

/**
 * Appends one part of a message to an evbuffer, and so to any bufferevent or evhttp request.
 *
 * At least EVZMQ_ZERO_COPY_MIN bytes are not copied: message and evbuffer share the part's memory,
 * which lives until both have let go of it, also when the message is one lent to a callback. Fewer
 * are copied.
 *
 * Thread: that of the message and of the evbuffer. Callbacks: yes.
 *
 * @param message  any message
 * @param part     index, from 0
 * @param out      the evbuffer; must not be drained on a thread other than the message's unless it
 * is locked
 * @return 0, or -1 with EINVAL (NULL, or no such part), ENOMEM, EBUSY (the end of the evbuffer is
 * frozen, as that of a bufferevent's input is); the evbuffer is unchanged then
 */
EVZMQ_API int evzmq_message_part_to_evbuffer(struct evzmq_message *message, size_t part,
                                             struct evbuffer *out);

/**
 * The number of parts, the envelope's included. At least 1 for a received message.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @return 0 for a NULL message
 */
EVZMQ_API size_t evzmq_message_get_part_count(const struct evzmq_message *message);

/**
 * The bytes of one part.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @param part      index, from 0
 * @param out_size  the part's size in bytes; may be NULL
 * @return the bytes, not 0-terminated, aligned for nothing in particular, living as long as the
 * message and until a part is added; NULL with EINVAL when there is no such part. An empty part
 * gives a pointer that is not NULL.
 */
EVZMQ_API const void *evzmq_message_get_part(const struct evzmq_message *message, size_t part,
                                             size_t *out_size);

/**
 * The sum of the sizes of all parts, in bytes.
 *
 * Thread: that of the message. Callbacks: yes.
 */
EVZMQ_API size_t evzmq_message_get_size(const struct evzmq_message *message);

/**
 * Keeps a message that was lent to a callback: gives an owned message with the same parts and
 * envelope. Large parts (EVZMQ_ZERO_COPY_MIN) move without a copy, small ones are copied into one
 * allocation. A large record of a packed frame shares the memory of the whole frame. The lent
 * message stays readable, with its value, until the callback returns. The owned one has no value
 * until evzmq_message_decode().
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @return an owned message, or NULL with EINVAL (NULL), ENOMEM
 */
EVZMQ_API struct evzmq_message *evzmq_message_take(struct evzmq_message *message);

/**
 * Decodes the last part of an owned message. The value lives in the message until it is freed,
 * decoded again or given to a write.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @param codec      the codec to use; the message holds a reference to it
 * @param out_error  may be NULL; written when the result is -1 with EBADMSG
 * @return 0, or -1 with EINVAL (NULL, a lent message, or one without parts), EBADMSG, ENOMEM. On
 * EBADMSG the error can be read from evzmq_message_get_decode_error() too.
 */
EVZMQ_API int evzmq_message_decode(struct evzmq_message *message, struct evzmq_codec *codec,
                                   struct evzmq_decode_error *out_error);

/**
 * The decoded value, of the type the codec says. Better use the typed accessors:
 * evzmq_msgpack_value() and the like, which cannot mistake one codec's value for another's.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @return NULL when there is none: an empty last part, a message that was never decoded or could
 * not be
 */
EVZMQ_API const void *evzmq_message_get_value(const struct evzmq_message *message);

/**
 * The codec that made the value.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @return a borrowed codec, or NULL when there is no value
 */
EVZMQ_API const struct evzmq_codec *evzmq_message_get_codec(const struct evzmq_message *message);

/**
 * Why the message has no value.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @param out_error  may be NULL; the error when the result is 1
 * @return 1 when decoding failed, 0 when it did not or was not tried
 */
EVZMQ_API int evzmq_message_get_decode_error(const struct evzmq_message *message,
                                             struct evzmq_decode_error *out_error);

/**
 * The parts that say where a message came from and where a reply must go.
 *
 * On ROUTER: the routing id and, when an empty delimiter part follows somewhere (REQ peers send
 * one), everything up to and including it. On REP: an empty envelope (libzmq keeps the real one).
 * On STREAM: the routing id.
 *
 * Thread: that of the message. Callbacks: yes.
 *
 * @return a borrowed envelope that lives as long as the message (evzmq_envelope_dup() keeps it);
 * NULL for messages of other socket types and for outgoing messages
 */
EVZMQ_API const struct evzmq_envelope *
evzmq_message_get_envelope(const struct evzmq_message *message);

/**
 * Copies an envelope, for a reply after the callback.
 *
 * Thread: any, with the original unchanged meanwhile. Callbacks: yes.
 *
 * @return an envelope owned by the caller, or NULL with EINVAL (NULL), ENOMEM
 */
EVZMQ_API struct evzmq_envelope *evzmq_envelope_dup(const struct evzmq_envelope *envelope);

/**
 * Frees an envelope from evzmq_envelope_dup().
 *
 * Thread: any. Callbacks: yes.
 *
 * @param envelope  may be NULL
 */
EVZMQ_API void evzmq_envelope_free(struct evzmq_envelope *envelope);

/**
 * The number of parts of an envelope: 0 on REP.
 *
 * Thread: any. Callbacks: yes.
 */
EVZMQ_API size_t evzmq_envelope_get_part_count(const struct evzmq_envelope *envelope);

/**
 * One part of an envelope. Part 0 is the routing id on ROUTER and STREAM.
 *
 * Thread: any. Callbacks: yes.
 *
 * @return the bytes, living as long as the envelope; NULL with EINVAL when there is no such part
 */
EVZMQ_API const void *evzmq_envelope_get_part(const struct evzmq_envelope *envelope, size_t part,
                                              size_t *out_size);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_MESSAGE_H */
