/**
 * @file raw.h
 * Raw tcp connections that speak as much of ZMTP as a test wants, and what no libzmq would say.
 * Nothing here fails a test, so that children and threads may use it.
 */
#ifndef TESTS_SUPPORT_RAW_H
#define TESTS_SUPPORT_RAW_H

#include <stddef.h>
#include <stdint.h>

/** Of the greeting and the READY command of a PUSH, ZMTP 3.1, without security. */
enum { RAW_GREETING_SIZE = 64, RAW_READY_SIZE = 28 };

/** The flags of a frame. */
enum { RAW_MORE = 1, RAW_COMMAND = 4 };

/** The port of a tcp endpoint. */
uint16_t raw_port(const char *endpoint);

/** Connects to a port of this machine; waits until that is done. -1 with errno. */
int raw_connect(uint16_t port);

/** Sends the first so many bytes of the greeting and the READY. Returns 0 or -1. */
int raw_greet(int fd, size_t size);

/** Reads the greeting and the READY of the other side. Returns 0, or -1 where it ended. */
int raw_await_ready(int fd);

/** Connects, and returns when both sides have said all of their handshake. -1: it failed. */
int raw_open(uint16_t port);

/** Sends all of some bytes. Returns 0 or -1. */
int raw_send(int fd, const void *data, size_t size);

/** Writes a frame; returns its size. There must be room for 9 bytes more than its own. */
size_t raw_frame(unsigned char *out, int flags, const void *data, size_t size);

/** Reads and discards until the other side ends the connection. */
void raw_await_end(int fd);

/** Closes with a reset: the other side sees an error, and no port waits for a while. */
void raw_reset(int fd);

#endif /* TESTS_SUPPORT_RAW_H */
