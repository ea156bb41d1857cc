/**
 * @file stats.h
 * What a socket counts.
 */
#ifndef EVZMQ_STATS_H
#define EVZMQ_STATS_H

#include <stddef.h>
#include <stdint.h>

#include <evzmq/base.h>
#include <evzmq/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evzmq_socket;

/** Counters since the socket was attached; gauges are marked so. Messages are whole multipart
 * messages; where frames are packed or unpacked (packing.h) each record is one, with its
 * own bytes, and what ends a broken frame counts as one more. */
struct evzmq_socket_stats {
    size_t size; /**< set it to sizeof(struct evzmq_socket_stats) before the call */

    uint64_t messages_in; /**< received from libzmq, whatever became of them */
    uint64_t bytes_in; /**< of all their parts */
    uint64_t messages_out; /**< accepted by libzmq (handed over, not: received by a peer) */
    uint64_t bytes_out; /**< of those, all their parts */

    uint64_t wakeups; /**< passes: the fd was readable, or the continuation timer fired */
    uint64_t wakeups_empty; /**< those that found nothing to receive, to send or to report */
    uint64_t budget_hits; /**< passes that stopped because a budget was spent */
    uint64_t
        continuations; /**< times the zero-delay timer was set to go on in the next loop turn */
    uint64_t receive_eagains; /**< receives that found nothing */
    uint64_t send_eagains; /**< sends that ZeroMQ did not take */
    uint64_t
        spills; /**< messages larger than the receive buffer, delivered from memory of their own */

    uint64_t oversize_dropped; /**< messages dropped by evzmq_socket_set_max_message() */
    uint64_t oversize_bytes; /**< of those */
    uint64_t undeliverable; /**< queued messages given up because their peer is gone */
    uint64_t writes_refused; /**< writes that failed with EAGAIN because the queue was full */
    uint64_t writes_after_shutdown; /**< writes that failed with ESHUTDOWN */
    uint64_t
        restarts; /**< multipart messages that were begun anew because a peer went in the middle */

    uint64_t queue_messages; /**< gauge: in the output queue now */
    uint64_t queue_bytes; /**< gauge */
    uint64_t queue_messages_peak; /**< the largest the gauge has been */
    uint64_t queue_bytes_peak; /**< likewise */
    uint64_t parked_peers; /**< gauge, ROUTER and STREAM: peers with queued messages */

    /** By enum evzmq_decode_kind. Last, because there may be more kinds one day. */
    uint64_t decode_errors[EVZMQ_DECODE_KINDS];
};

/**
 * Copies the counters of a socket. Counters are never reset.
 *
 * Thread: loop. Callbacks: yes.
 *
 * @param out  with its size set; a program built with an older, shorter struct gets the fields it
 * knows
 * @return 0, or -1 with EINVAL (NULL, or a size that is too small)
 */
EVZMQ_API int evzmq_socket_get_stats(const struct evzmq_socket *socket,
                                     struct evzmq_socket_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_STATS_H */
