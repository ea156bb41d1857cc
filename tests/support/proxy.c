/**
 * @file proxy.c
 * See proxy.h. One thread polls all connections; the calls set flags that it looks at every few
 * milliseconds.
 */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LINKS_MAX = 64, ROUND_MS = 5, CHUNK_BYTES = 65536, CHUNKS_MAX = 256 };

struct chunk {
    long long due_ms;
    size_t size;
    size_t sent;
    struct chunk *next;
    char data[];
};

/* One direction of a connection. */
struct way {
    int from;
    int to;
    int over; /* nothing more is read */
    int count;
    struct chunk *first;
    struct chunk *last;
};

struct link {
    int fds[2]; /* accepted, connected; -1: free */
    struct way ways[2];
};

struct proxy {
    pthread_t thread;
    int listener;
    struct sockaddr_in target;
    struct link links[LINKS_MAX];
    atomic_int delay_ms;
    atomic_int stalled;
    atomic_int cut;
    atomic_int half_close;
    atomic_int accepted;
    atomic_int stop;
};

static long long now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void set_nonblocking(int fd)
{
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void link_close(struct link *link, int reset)
{
    for (int i = 0; i < 2; i++) {
        struct way *const way = &link->ways[i];
        const struct linger at_once = {1, 0};

        while (way->first != NULL) {
            struct chunk *const chunk = way->first;

            way->first = chunk->next;
            free(chunk);
        }
        if (reset) {
            (void)setsockopt(link->fds[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        }
        (void)close(link->fds[i]);
        link->fds[i] = -1;
    }
}

static void link_open(struct proxy *proxy)
{
    const int fd = accept(proxy->listener, NULL, NULL);
    struct link *link = NULL;

    if (fd < 0) {
        return;
    }
    for (int i = 0; i < LINKS_MAX && link == NULL; i++) {
        link = proxy->links[i].fds[0] < 0 ? &proxy->links[i] : NULL;
    }
    if (link == NULL) {
        (void)close(fd);
        return;
    }
    memset(link, 0, sizeof *link);
    link->fds[0] = fd;
    link->fds[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(link->fds[1], (struct sockaddr *)&proxy->target, sizeof proxy->target) != 0) {
        link_close(link, 1);
        return;
    }
    for (int i = 0; i < 2; i++) {
        set_nonblocking(link->fds[i]);
        link->ways[i].from = link->fds[i];
        link->ways[i].to = link->fds[1 - i];
    }
    (void)atomic_fetch_add(&proxy->accepted, 1);
}

/* Returns 0 when the connection is broken. */
static int way_read(struct proxy *proxy, struct way *way)
{
    struct chunk *chunk = NULL;
    ssize_t size = 0;

    if (way->over || way->count >= CHUNKS_MAX) {
        return 1;
    }
    chunk = malloc(sizeof *chunk + CHUNK_BYTES);
    size = chunk == NULL ? 0 : recv(way->from, chunk->data, CHUNK_BYTES, 0);
    if (size <= 0) {
        const int again = size < 0 && (errno == EAGAIN || errno == EINTR);

        free(chunk);
        way->over = !again;
        if (!again && size == 0 && way->first == NULL) {
            (void)shutdown(way->to, SHUT_WR);
        }
        return size == 0 || again;
    }
    chunk->due_ms = now_ms() + atomic_load(&proxy->delay_ms);
    chunk->size = (size_t)size;
    chunk->sent = 0;
    chunk->next = NULL;
    if (way->first == NULL) {
        way->first = chunk;
    } else {
        way->last->next = chunk;
    }
    way->last = chunk;
    way->count++;
    return 1;
}

/* Returns 0 when the connection is broken. */
static int way_write(struct way *way)
{
    while (way->first != NULL && way->first->due_ms <= now_ms()) {
        struct chunk *const chunk = way->first;
        const ssize_t size = send(way->to, chunk->data + chunk->sent, chunk->size - chunk->sent,
                                  MSG_NOSIGNAL | MSG_DONTWAIT);

        if (size < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        chunk->sent += (size_t)size;
        if (chunk->sent == chunk->size) {
            way->first = chunk->next;
            way->count--;
            free(chunk);
            if (way->over && way->first == NULL) {
                (void)shutdown(way->to, SHUT_WR);
            }
        }
    }
    return 1;
}

static void link_serve(struct proxy *proxy, struct link *link)
{
    int alive = 1;

    for (int i = 0; i < 2; i++) {
        alive = alive && way_read(proxy, &link->ways[i]) && way_write(&link->ways[i]);
    }
    if (!alive || (link->ways[0].over && link->ways[1].over && link->ways[0].first == NULL &&
                   link->ways[1].first == NULL)) {
        link_close(link, !alive);
    }
}

static void half_close(struct link *link)
{
    link->ways[0].over = 1;
    (void)shutdown(link->fds[0], SHUT_RD);
    (void)shutdown(link->fds[1], SHUT_WR);
}

static void wait_for_work(struct proxy *proxy)
{
    struct pollfd fds[1 + 2 * LINKS_MAX];
    nfds_t count = 0;

    fds[count++] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    for (int i = 0; i < LINKS_MAX && !atomic_load(&proxy->stalled); i++) {
        for (int j = 0; j < 2 && proxy->links[i].fds[0] >= 0; j++) {
            if (!proxy->links[i].ways[j].over) {
                fds[count++] = (struct pollfd){.fd = proxy->links[i].fds[j], .events = POLLIN};
            }
        }
    }
    (void)poll(fds, count, ROUND_MS);
}

static void *serve(void *arg)
{
    struct proxy *const proxy = arg;

    while (!atomic_load(&proxy->stop)) {
        const int cut = atomic_exchange(&proxy->cut, 0);
        const int half = atomic_exchange(&proxy->half_close, 0);

        wait_for_work(proxy);
        if (!atomic_load(&proxy->stalled)) {
            link_open(proxy);
        }
        for (int i = 0; i < LINKS_MAX; i++) {
            struct link *const link = &proxy->links[i];

            if (link->fds[0] >= 0 && cut) {
                link_close(link, 1);
            } else if (link->fds[0] >= 0 && half) {
                half_close(link);
            } else if (link->fds[0] >= 0 && !atomic_load(&proxy->stalled)) {
                link_serve(proxy, link);
            }
        }
    }
    for (int i = 0; i < LINKS_MAX; i++) {
        if (proxy->links[i].fds[0] >= 0) {
            link_close(&proxy->links[i], 1);
        }
    }
    return NULL;
}

static int address_of(struct sockaddr_in *out, const char *address, uint16_t port)
{
    memset(out, 0, sizeof *out);
    out->sin_family = AF_INET;
    out->sin_port = htons(port);
    return inet_pton(AF_INET, address, &out->sin_addr) == 1 ? 0 : -1;
}

struct proxy *proxy_start(const char *listen_address, uint16_t listen_port,
                          const char *target_address, uint16_t target_port)
{
    struct proxy *const proxy = calloc(1, sizeof *proxy);
    struct sockaddr_in here;
    const int on = 1;

    if (proxy == NULL) {
        return NULL;
    }
    for (int i = 0; i < LINKS_MAX; i++) {
        proxy->links[i].fds[0] = -1;
    }
    proxy->listener = socket(AF_INET, SOCK_STREAM, 0);
    (void)setsockopt(proxy->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address_of(&here, listen_address, listen_port) != 0 ||
        address_of(&proxy->target, target_address, target_port) != 0 ||
        bind(proxy->listener, (struct sockaddr *)&here, sizeof here) != 0 ||
        listen(proxy->listener, LINKS_MAX) != 0) {
        (void)close(proxy->listener);
        free(proxy);
        return NULL;
    }
    set_nonblocking(proxy->listener);
    if (pthread_create(&proxy->thread, NULL, serve, proxy) != 0) {
        (void)close(proxy->listener);
        free(proxy);
        return NULL;
    }
    return proxy;
}

void proxy_delay(struct proxy *proxy, int delay_ms)
{
    atomic_store(&proxy->delay_ms, delay_ms);
}

void proxy_stall(struct proxy *proxy, int stalled)
{
    atomic_store(&proxy->stalled, stalled);
}

void proxy_cut(struct proxy *proxy)
{
    atomic_store(&proxy->cut, 1);
}

void proxy_half_close(struct proxy *proxy)
{
    atomic_store(&proxy->half_close, 1);
}

int proxy_accepted(struct proxy *proxy)
{
    return atomic_load(&proxy->accepted);
}

void proxy_stop(struct proxy *proxy)
{
    if (proxy == NULL) {
        return;
    }
    atomic_store(&proxy->stop, 1);
    (void)pthread_join(proxy->thread, NULL);
    (void)close(proxy->listener);
    free(proxy);
}
