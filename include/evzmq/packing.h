/**
 * @file packing.h
 * Packed frames: many records in one ZeroMQ message.
 *
 * libzmq pays for each message; a record of 50 bytes costs less than the message around it. Where
 * both ends agree, records are written back to back into one message, the frame, and taken apart at
 * the other end. Values of msgpack say themselves where they end, so there is nothing else in a
 * frame: one with a single record is the message that would have been sent without packing, and a
 * streaming unpacker of any language (Python's msgpack.Unpacker) reads any frame.
 *
 * Both ends are off by default and independent of each other. They need a codec with a
 * decode_prefix method (see ::evzmq_codec_methods): the msgpack codec and those of schemas have
 * one, the raw codec has not, and without it the calls below fail with ENOTSUP. So the codec is set
 * first.
 *
 * Sending
 *
 * evzmq_socket_write_value() encodes into the memory of the open frame. The frame goes out when the
 * next record does not fit, at the end of the loop's turn or after a delay, by
 * evzmq_socket_flush(), and before anything that is not packed: evzmq_socket_write(),
 * _write_parts(), _write_message() and messages of posters keep their place in the order. A record
 * larger than a frame goes as a frame of its own.
 *
 * What counts as what:
 * - evzmq_socket_get_queued() and the statistics count records and their bytes, the open frame's
 * included. So do the reports of evzmq_socket_shutdown(), which sends the open frame first.
 * evzmq_socket_free() drops it.
 * - The limit of bytes of evzmq_socket_set_output_limit() counts the records of all frames that
 * wait and of the open one; the limit of messages counts frames, for they are what ZeroMQ calls
 * messages. A write beyond either fails with EAGAIN as always, and the frames before it stay.
 * - The watermarks count the frames that wait in the queue, not the open one.
 * - The high water mark of ZeroMQ counts messages and knows nothing of their size: 1000 frames of
 * 1 MiB are 1 GiB. So a packing socket counts the memory of the frames that libzmq has and not yet
 * released, and hands over no more than EVZMQ_PACKING_IN_FLIGHT_FRAMES times the size of a frame,
 * or EVZMQ_PACKING_IN_FLIGHT_MIN where that is more; further frames wait in the output queue (a
 * frame larger than that, of one record, goes when at most half of it is under way). A record that
 * a receiver of the same process keeps (inproc, evzmq_message_take()) holds its frame, which counts
 * meanwhile. Frames of fewer than EVZMQ_ZERO_COPY_MIN bytes are copied into messages of their own
 * size and count for the high water mark alone. So do all frames of PUB and XPUB, which must not
 * wait for their slowest subscriber: set ZMQ_SNDHWM there with the size of a frame in mind.
 *
 * Topics
 *
 * On PUB and XPUB libzmq compares a subscription with the first bytes of a message, which are those
 * of the frame's first record. A frame whose first record matches is received whole, with records
 * that were not asked for; one whose first record does not match is not received, whatever else is
 * in it; and a frame is dropped as a whole for a subscriber that does not keep up. So pack for
 * subscribers to everything, or where all records of a socket begin alike; <evzmq/pubsub.h> has
 * batches that keep to topics. A topic in a part of its own, as some publishers send it, is not
 * packed, and each record that is unpacked behind it comes with it.
 *
 * Memory of frames is recycled; beyond what may be in flight it is given back. libzmq releases it
 * on its I/O threads, also after the socket and the event base are gone: with
 * evzmq_set_mem_functions() the free function is called there.
 *
 * Receiving
 *
 * With evzmq_socket_set_unpacking() each record of a frame is one message of the read callback (or
 * of evzmq_socket_try_recv() and its like): the last part's bytes are the record's, envelope and
 * other parts are the frame's. Budgets and statistics count records. When a record cannot be
 * decoded the frame ends there: the records before it are delivered, then one
 * EVZMQ_EVENT_DECODE_ERROR tells, whose message is the whole frame and whose offset is that in the
 * frame. An empty last part is delivered as ever, with no value.
 *
 * The default of a budget's read_messages is 16384 while unpacking: they are records, and a pass is
 * still bounded by its other limits.
 *
 * Records are decoded in the frame, whatever the receive mode. evzmq_message_take() copies a record
 * below EVZMQ_ZERO_COPY_MIN; a larger one shares the frame's memory, all of which then lives as
 * long as the kept record. evzmq_socket_set_max_message() limits frames, not records.
 *
 * libzmq receives a frame into memory that it allocates, of the size of the frame. Where a C
 * library gives such memory back to the kernel each time and takes it anew, that may cost more than
 * all else: with glibc and frames above 128 KiB a program that receives many should raise
 * M_TRIM_THRESHOLD and M_MMAP_THRESHOLD (mallopt(3)) to several frames.
 */
#ifndef EVZMQ_PACKING_H
#define EVZMQ_PACKING_H

#include <stddef.h>

#include <evzmq/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evzmq_socket;

/**
 * The size of a frame, in bytes, to choose where there is no reason for another. Measured over ipc
 * on 2 cores with records of 51 bytes to 32 KiB, in ratios to a bare loop: smaller frames pay for
 * being handed from thread to thread, four times each (half of this size reaches 0.6 to 1 of the
 * best, less the larger the records); larger ones leave the processor's cache and have their memory
 * taken anew from the kernel (twice this size reaches from 0.3, where other programs run, to 1).
 * This size reached 0.8 or more of the best in each case. echo_bench --pack shows it.
 */
#define EVZMQ_PACKING_BYTES 524288u

/** The largest size of a frame, in bytes. */
#define EVZMQ_PACKING_BYTES_MAX (64u * 1024u * 1024u)

/** What a packing socket lets libzmq hold: so many frames. */
#define EVZMQ_PACKING_IN_FLIGHT_FRAMES 4u
/** And so many bytes at least. */
#define EVZMQ_PACKING_IN_FLIGHT_MIN (1024u * 1024u)

/**
 * Has values that are written packed into frames, or no longer. A frame that is open is sent first,
 * as by evzmq_socket_flush().
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param bytes_max   the size of a frame, at most EVZMQ_PACKING_BYTES_MAX (EVZMQ_PACKING_BYTES is a
 * good choice); 0 turns packing off (the default)
 * @param delay_usec  how long a frame may wait for more records, in microseconds, from its first
 * one; 0: until the end of the loop's turn, that is the end of the pass of this socket in which it
 * was begun, or a timer without delay
 * @return 0, or -1 with EINVAL, ENOTSUP (a type of socket that does not send; REQ and REP, where
 * one request has one reply; ROUTER and STREAM, where each message names its peer; XSUB, whose
 * messages are subscriptions; a codec that does not encode or has no decode_prefix method), ENOMEM,
 * EMFILE or ENFILE (it needs a descriptor), ESHUTDOWN, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_set_packing(struct evzmq_socket *socket, size_t bytes_max,
                                       unsigned delay_usec);

/**
 * Ends the frame that is open: it is sent at once where ZeroMQ takes it, and queued otherwise.
 * Without one nothing happens.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @return 0, or -1 with EINVAL, ENOMEM (the frame stays open), ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_flush(struct evzmq_socket *socket);

/**
 * Has the records of received frames delivered one by one, or no longer. In a callback the change
 * applies from the next frame on: the rest of one that was begun is delivered record by record, and
 * until its end the codec must be one that has a decode_prefix method.
 *
 * Records not delivered yet wait while reading is disabled, as messages in ZeroMQ do; a shutdown
 * and a free end their delivery, and a free drops the rest of the frame.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param on  0 for off (the default)
 * @return 0, or -1 with EINVAL, ENOTSUP (a type of socket that does not receive; REQ and REP, where
 * one request has one reply; STREAM; XPUB, which receives subscriptions; a codec without a
 * decode_prefix method), ENOMEM, ETERM, ENOTSOCK, ECHILD
 */
EVZMQ_API int evzmq_socket_set_unpacking(struct evzmq_socket *socket, int on);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_PACKING_H */
