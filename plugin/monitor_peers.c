/*
 * monitor_peers.c (L5): which connections a monitored socket has, from its events, and so why
 * messages wait. libzmq has no question for either: a socket without a peer, one whose peer was
 * refused and one whose peer is slow all say EAGAIN.
 */
#include "monitor.h"

#include <errno.h>

/* A connection is connected or accepted, then its handshake succeeds or fails, and then it is
 * disconnected; only the first and the last name it. How many of the connected failed is known
 * from the order. The counts are held to what is possible, should libzmq ever tell one twice. */
void evzmq__monitor_track(struct evzmq_monitor *monitor, unsigned type, uint32_t value)
{
    struct evzmq__monitor_peers *peers = &monitor->peers;
    switch (type) {
    case EVZMQ_MONITOR_CONNECTED:
    case EVZMQ_MONITOR_ACCEPTED:
        peers->connected++;
        break;
    case EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED:
        peers->ready++;
        peers->failure = 0;
        break;
    case EVZMQ_MONITOR_HANDSHAKE_FAILED_NO_DETAIL:
    case EVZMQ_MONITOR_HANDSHAKE_FAILED_PROTOCOL:
    case EVZMQ_MONITOR_HANDSHAKE_FAILED_AUTH:
        peers->failed++;
        peers->failure = type;
        peers->reason = type == EVZMQ_MONITOR_HANDSHAKE_FAILED_NO_DETAIL ? 0 : value;
        break;
    case EVZMQ_MONITOR_DISCONNECTED:
        peers->connected -= peers->connected > 0;
        if (peers->failed > 0) {
            peers->failed--;
        } else {
            peers->ready -= peers->ready > 0;
        }
        break;
    default:
        return;
    }
    if (peers->ready > peers->connected) {
        peers->ready = peers->connected;
    }
    if (peers->failed > peers->connected - peers->ready) {
        peers->failed = peers->connected - peers->ready;
    }
}

int evzmq_monitor_get_blocked(const struct evzmq_monitor *monitor, struct evzmq_blocked *out)
{
    if (monitor == NULL || out == NULL || out->size < sizeof(out->size)) {
        errno = EINVAL;
        return -1;
    }
    const struct evzmq__monitor_peers *peers = &monitor->peers;
    struct evzmq_blocked all = {.why = EVZMQ_BLOCKED_NO_PEER, .peers = peers->ready};
    if (peers->ready > 0) {
        all.why = EVZMQ_BLOCKED_PEERS_FULL;
    } else if (peers->failure != 0) {
        all.why = EVZMQ_BLOCKED_HANDSHAKE;
        all.failure = (enum evzmq_monitor_event_type)peers->failure;
        all.reason = peers->reason;
    }
    all.size = out->size < sizeof(all) ? out->size : sizeof(all);
    memcpy(out, &all, all.size);
    return 0;
}
