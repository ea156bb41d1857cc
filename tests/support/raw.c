/**
 * @file raw.c
 * See raw.h. The wire format is that of ZMTP 3.1 (rfc.zeromq.org, 37/ZMTP).
 */
#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

uint16_t raw_port(const char *endpoint)
{
    return (uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10);
}

int raw_connect(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        const int error = errno;

        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int raw_send(int fd, const void *data, size_t size)
{
    const unsigned char *at = data;

    while (size > 0) {
        const ssize_t sent = write(fd, at, size); /* SIGPIPE is ignored by all tests. */

        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return -1;
        }
        at += sent;
        size -= (size_t)sent;
    }
    return 0;
}

int raw_greet(int fd, size_t size)
{
    static const char ready[] = "\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH";
    unsigned char bytes[RAW_GREETING_SIZE + RAW_READY_SIZE] = {0xff, 0, 0, 0,    0, 0,
                                                               0,    0, 1, 0x7f, 3, 1};

    memcpy(bytes + 12, "NULL", 4);
    memcpy(bytes + RAW_GREETING_SIZE, ready, RAW_READY_SIZE);
    return raw_send(fd, bytes, size < sizeof bytes ? size : sizeof bytes);
}

static int read_all(int fd, void *out, size_t size)
{
    unsigned char *at = out;

    while (size > 0) {
        const ssize_t got = read(fd, at, size);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return -1;
        }
        at += got;
        size -= (size_t)got;
    }
    return 0;
}

int raw_await_ready(int fd)
{
    unsigned char bytes[256];

    if (read_all(fd, bytes, RAW_GREETING_SIZE) != 0 || read_all(fd, bytes, 2) != 0 ||
        bytes[0] != RAW_COMMAND) {
        return -1;
    }
    return read_all(fd, bytes, bytes[1]);
}

int raw_open(uint16_t port)
{
    const int fd = raw_connect(port);

    if (fd >= 0 &&
        (raw_greet(fd, RAW_GREETING_SIZE + RAW_READY_SIZE) != 0 || raw_await_ready(fd) != 0)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

size_t raw_frame(unsigned char *out, int flags, const void *data, size_t size)
{
    size_t used = 0;

    if (size < 256) {
        out[used++] = (unsigned char)flags;
    } else {
        out[used++] = (unsigned char)(flags | 2);
        for (int shift = 56; shift > 0; shift -= 8) {
            out[used++] = (unsigned char)((uint64_t)size >> shift);
        }
    }
    out[used++] = (unsigned char)size;
    if (size > 0) {
        memcpy(out + used, data, size);
    }
    return used + size;
}

void raw_await_end(int fd)
{
    unsigned char bytes[4096];
    ssize_t got = 0;

    do {
        got = read(fd, bytes, sizeof bytes);
    } while (got > 0 || (got < 0 && errno == EINTR));
}

void raw_reset(int fd)
{
    const struct linger at_once = {1, 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)close(fd);
}
