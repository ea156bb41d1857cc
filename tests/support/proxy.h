/**
 * @file proxy.h
 * A tcp proxy that is a bad network: it delays, stalls, cuts and half-closes what goes through it.
 * It runs in a thread of its own.
 */
#ifndef TESTS_SUPPORT_PROXY_H
#define TESTS_SUPPORT_PROXY_H

#include <stdint.h>

struct proxy;

/** Listens on one address and port, and connects what comes to another. NULL with errno. */
struct proxy *proxy_start(const char *listen_address, uint16_t listen_port,
                          const char *target_address, uint16_t target_port);

/** From now on everything arrives so much later. */
void proxy_delay(struct proxy *proxy, int delay_ms);

/** Nothing goes through any more, and nobody is told: a half-open network. 0 ends that. */
void proxy_stall(struct proxy *proxy, int stalled);

/** Resets all connections there are; new ones are accepted. */
void proxy_cut(struct proxy *proxy);

/** Closes one direction of all connections there are: what the targets send gets through, what is
 * sent to them does not; they see the end of the stream. */
void proxy_half_close(struct proxy *proxy);

/** How many connections were accepted. */
int proxy_accepted(struct proxy *proxy);

/** Ends the thread and closes everything. */
void proxy_stop(struct proxy *proxy);

#endif /* TESTS_SUPPORT_PROXY_H */
