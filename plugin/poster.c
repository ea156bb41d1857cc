/*
 * poster.c (L5): see <evzmq/poster.h>.
 *
 * Data flow and locks
 * -------------------
 *
 *     any thread   post -> the poster's queue -> the hub's list of news -> the wake fd
 *     loop         on_wake: news -> evzmq__feeder_announce() -> a pass of the socket
 *                  poster_take(): the poster's queue -> the socket
 *
 * The posters of one base share a hub: one mutex, one wake fd, one event. The mutex guards all that
 * is shared between threads; it is held for a few instructions, never across a callback, a call of
 * libzmq on a socket or another lock, and the fork handlers below take it around fork(), so that a
 * child finds everything whole. The rest (feeder, event, socket) is the loop thread's.
 *
 * A poster is on the list of news, or on its socket's ready list, or is taken from right now,
 * exactly while `noticed` is set. So a burst of posts costs one write to the fd, and a poster that
 * waits for room costs none.
 *
 * Lifetimes: a poster lives while a user holds a reference or a socket has it as its feeder; a hub
 * lives while one of its posters does. Its event lives while one of its posters has a socket, so
 * that it is taken down in the loop thread and does not keep the loop running.
 */
#include <evzmq/poster.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base.h"
#include "loop.h"
#include "message.h"
#include "queue.h"
#include "registry.h"
#include "socket.h"
#include "wake.h"

struct evzmq__hub {
    pthread_mutex_t mutex;
    struct evzmq__hub *prev; /* in `hubs`, under hubs_mutex */
    struct evzmq__hub *next;

    /* Under the mutex. */
    size_t posters;
    struct evzmq_poster *news;
    struct evzmq__wake wake; /* open while a poster is attached */
    bool signalled; /* written to, and not yet read */
    uint64_t wakeups;

    /* The loop's. */
    struct evzmq__base *base; /* not a reference: the sockets of the posters hold it */
    struct evzmq__source *watch;
    size_t attached; /* posters with a socket */
};

struct evzmq_poster {
    struct evzmq__feeder feeder; /* first, and the loop's */
    struct evzmq__hub *hub;
    unsigned long generation;
    const struct evzmq__type *type; /* of its socket */

    /* Under the hub's mutex. */
    size_t references; /* the users' */
    bool attached; /* to a socket, which frees the poster then */
    bool noticed;
    struct evzmq_poster *next_news;
    struct evzmq__queue queue;
    uint64_t posted;
    uint64_t handed_over;
    uint64_t dropped;
    uint64_t refused;
    uint64_t refused_after_end;
};

static pthread_mutex_t hubs_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct evzmq__hub *hubs;
static pthread_once_t fork_handlers_once = PTHREAD_ONCE_INIT;
static int fork_handlers_error;

static void lock(struct evzmq__hub *hub)
{
    (void)pthread_mutex_lock(&hub->mutex);
}

static void unlock(struct evzmq__hub *hub)
{
    (void)pthread_mutex_unlock(&hub->mutex);
}

static void before_fork(void)
{
    (void)pthread_mutex_lock(&hubs_mutex);
    for (struct evzmq__hub *hub = hubs; hub != NULL; hub = hub->next) {
        lock(hub);
    }
}

static void after_fork(void)
{
    for (struct evzmq__hub *hub = hubs; hub != NULL; hub = hub->next) {
        unlock(hub);
    }
    (void)pthread_mutex_unlock(&hubs_mutex);
}

static void install_fork_handlers(void)
{
    fork_handlers_error = pthread_atfork(before_fork, after_fork, after_fork);
}

/* Something was posted somewhere. Only says so to the sockets: their passes do the work. */
static void on_wake(void *arg, enum evzmq__wakeup why)
{
    (void)why;
    struct evzmq__hub *hub = arg;
    if (evzmq__base_is_stale(hub->base)) {
        evzmq__source_mute(hub->watch);
        return;
    }
    lock(hub);
    evzmq__wake_clear(&hub->wake);
    hub->signalled = false;
    struct evzmq_poster *poster = hub->news;
    hub->news = NULL;
    unlock(hub);
    while (poster != NULL) {
        struct evzmq_poster *next = poster->next_news;
        evzmq__feeder_announce(&poster->feeder);
        poster = next;
    }
}

static struct evzmq__hub *hub_new(struct evzmq__base *base)
{
    (void)pthread_once(&fork_handlers_once, install_fork_handlers);
    if (fork_handlers_error != 0) {
        errno = fork_handlers_error;
        return NULL;
    }
    struct evzmq__hub *hub = evzmq__calloc(1, sizeof(*hub));
    if (hub == NULL || evzmq__wake_open(&hub->wake) < 0) {
        goto fail_hub;
    }
    hub->base = base;
    hub->watch = evzmq__source_new(base->event_base, hub->wake.read_fd, on_wake, hub);
    if (hub->watch == NULL) {
        goto fail_wake;
    }
    /* It does next to nothing itself; the sockets it wakes have priorities of their own. */
    if (evzmq__source_set_priority(hub->watch, 0) < 0 || pthread_mutex_init(&hub->mutex, NULL)) {
        errno = ENOMEM;
        goto fail_watch;
    }
    (void)pthread_mutex_lock(&hubs_mutex);
    hub->next = hubs;
    if (hubs != NULL) {
        hubs->prev = hub;
    }
    hubs = hub;
    (void)pthread_mutex_unlock(&hubs_mutex);
    base->hub = hub;
    return hub;

fail_watch:
    evzmq__source_free(hub->watch);
fail_wake:;
    const int error = errno;
    evzmq__wake_close(&hub->wake);
    errno = error;
fail_hub:
    evzmq__free(hub);
    return NULL;
}

/* Takes the event down with the last socket. Loop thread. */
static void hub_detach(struct evzmq__hub *hub)
{
    if (--hub->attached > 0) {
        return;
    }
    struct evzmq__base *base = hub->base;
    base->hub = NULL;
    hub->base = NULL;
    if (evzmq__base_is_stale(base)) {
        /* A forked child: the kernel's registration is the parent's, and the fd has to stay open
         * until event_reinit(), which registers it again. */
        evzmq__source_abandon(hub->watch, &base->abandoned);
    } else {
        evzmq__source_free(hub->watch);
        lock(hub); /* no thread may be about to write */
        evzmq__wake_close(&hub->wake);
        unlock(hub);
    }
    hub->watch = NULL;
}

/* Frees a hub that has neither posters nor an event. */
static void hub_free(struct evzmq__hub *hub)
{
    (void)pthread_mutex_lock(&hubs_mutex);
    if (hub->next != NULL) {
        hub->next->prev = hub->prev;
    }
    if (hub->prev != NULL) {
        hub->prev->next = hub->next;
    } else {
        hubs = hub->next;
    }
    (void)pthread_mutex_unlock(&hubs_mutex);
    (void)pthread_mutex_destroy(&hub->mutex);
    evzmq__free(hub);
}

/* Frees a poster that neither a user nor a socket holds. What waits in it is freed unseen. */
static void poster_destroy(struct evzmq_poster *poster)
{
    struct evzmq__hub *hub = poster->hub;
    struct evzmq__queue_entry *entry;
    while ((entry = evzmq__queue_clear(&poster->queue)) != NULL) {
        evzmq__message_destroy((struct evzmq_message *)entry);
    }
    evzmq__free(poster);
    lock(hub);
    const bool last = --hub->posters == 0;
    unlock(hub);
    if (last) {
        hub_free(hub);
    }
}

/* Tells the loop that the poster has something for it. Under the mutex. */
static void notice(struct evzmq_poster *poster)
{
    struct evzmq__hub *hub = poster->hub;
    if (poster->noticed) {
        return;
    }
    poster->noticed = true;
    poster->next_news = hub->news;
    hub->news = poster;
    if (!hub->signalled) {
        hub->signalled = true;
        hub->wakeups++;
        /* Under the mutex: afterwards the fd may be closed and its number used for another. */
        evzmq__wake_signal(&hub->wake);
    }
}

/* Takes a poster off the list of news, where it may be. Under the mutex. */
static void forget_news(struct evzmq_poster *poster)
{
    struct evzmq_poster **link = &poster->hub->news;
    while (*link != NULL && *link != poster) {
        link = &(*link)->next_news;
    }
    if (*link != NULL) {
        *link = poster->next_news;
    }
}

/* The next message that the socket has room for. Under the mutex. */
static struct evzmq_message *find_sendable(struct evzmq_poster *poster)
{
    struct evzmq__queue_entry *entry;
    while ((entry = evzmq__queue_peek(&poster->queue)) != NULL) {
        struct evzmq_message *message = (struct evzmq_message *)entry;
        if (evzmq__socket_has_room(poster->feeder.socket, message)) {
            (void)evzmq__queue_pop(&poster->queue);
            return message;
        }
        evzmq__queue_park(&poster->queue);
    }
    return NULL;
}

/* Loop thread, in a pass. */
static enum evzmq__feed poster_take(struct evzmq__feeder *feeder, struct evzmq_message **out)
{
    struct evzmq_poster *poster = (struct evzmq_poster *)feeder;
    struct evzmq__hub *hub = poster->hub;
    enum evzmq__feed result = EVZMQ__FEED_MESSAGE;
    lock(hub);
    if (feeder->again) {
        evzmq__queue_unpark_all(&poster->queue);
        feeder->again = false;
    }
    struct evzmq_message *message = find_sendable(poster);
    if (message != NULL) {
        poster->handed_over++;
        *out = message;
    } else if (poster->queue.messages > 0) {
        result = EVZMQ__FEED_BLOCKED;
    } else if (poster->references > 0) {
        poster->noticed = false;
        result = EVZMQ__FEED_EMPTY;
    } else {
        poster->attached = false;
        result = EVZMQ__FEED_OVER;
    }
    unlock(hub);
    if (result == EVZMQ__FEED_OVER) {
        evzmq__feeder_remove(feeder);
        hub_detach(hub);
        poster_destroy(poster);
    }
    return result;
}

/* Takes out any message of a poster that has no socket any more, the oldest first. */
static struct evzmq_message *take_any(struct evzmq_poster *poster)
{
    lock(poster->hub);
    evzmq__queue_unpark_all(&poster->queue);
    struct evzmq__queue_entry *entry = evzmq__queue_peek(&poster->queue);
    if (entry != NULL) {
        (void)evzmq__queue_pop(&poster->queue);
    }
    unlock(poster->hub);
    return (struct evzmq_message *)entry;
}

/* The socket is ending. Loop thread. */
static void poster_close(struct evzmq__feeder *feeder, struct evzmq_socket *socket, bool flush)
{
    struct evzmq_poster *poster = (struct evzmq_poster *)feeder;
    struct evzmq__hub *hub = poster->hub;
    uint64_t handed_over = 0;
    uint64_t dropped = 0;
    lock(hub);
    poster->attached = false; /* from here on posts are refused */
    poster->references++; /* or a user who lets go now would free it */
    forget_news(poster);
    unlock(hub);
    struct evzmq_message *message = feeder->held;
    const bool had_held = message != NULL; /* counted as handed over when it was taken */
    feeder->held = NULL;
    if (message == NULL) {
        message = take_any(poster);
    }
    for (; message != NULL; message = take_any(poster)) {
        if (flush && evzmq__socket_enqueue(socket, message) == 0) {
            handed_over++;
        } else {
            evzmq__message_destroy(message);
            dropped++;
        }
    }
    hub_detach(hub);
    lock(hub);
    poster->handed_over += handed_over;
    poster->handed_over -= had_held;
    poster->dropped += dropped;
    const bool unused = --poster->references == 0;
    unlock(hub);
    if (unused) {
        poster_destroy(poster);
    }
}

static const struct evzmq__feeder_methods poster_methods = {
    .take = poster_take,
    .close = poster_close,
};

static int check_socket(const struct evzmq_socket *socket)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (!socket->type->writes) {
        errno = ENOTSUP;
        return -1;
    }
    if ((socket->pause & (EVZMQ__PAUSE_SHUTDOWN | EVZMQ__PAUSE_DYING)) != 0) {
        errno = ESHUTDOWN;
        return -1;
    }
    return 0;
}

struct evzmq_poster *evzmq_poster_new(struct evzmq_socket *socket, size_t messages_max,
                                      size_t bytes_max)
{
    if (check_socket(socket) < 0) {
        return NULL;
    }
    struct evzmq_poster *poster = evzmq__calloc(1, sizeof(*poster));
    if (poster == NULL) {
        return NULL;
    }
    struct evzmq__hub *hub = socket->base->hub;
    if (hub == NULL) {
        hub = hub_new(socket->base);
    }
    if (hub == NULL) {
        evzmq__free(poster);
        return NULL;
    }
    poster->hub = hub;
    poster->generation = evzmq__generation();
    poster->type = socket->type;
    poster->references = 1;
    poster->attached = true;
    poster->queue.messages_max = messages_max != 0 ? messages_max : EVZMQ_POSTER_MESSAGES_DEFAULT;
    poster->queue.bytes_max = bytes_max != 0 ? bytes_max : EVZMQ_POSTER_BYTES_DEFAULT;
    poster->feeder.methods = &poster_methods;
    evzmq__feeder_add(&poster->feeder, socket);
    hub->attached++;
    lock(hub);
    hub->posters++;
    unlock(hub);
    return poster;
}

struct evzmq_poster *evzmq_poster_ref(struct evzmq_poster *poster)
{
    if (poster != NULL) {
        lock(poster->hub);
        poster->references++;
        unlock(poster->hub);
    }
    return poster;
}

void evzmq_poster_free(struct evzmq_poster *poster)
{
    if (poster == NULL) {
        return;
    }
    struct evzmq__hub *hub = poster->hub;
    lock(hub);
    const bool last = --poster->references == 0;
    const bool attached = poster->attached;
    if (last && attached && poster->generation == evzmq__generation()) {
        notice(poster); /* the loop frees it, after what it still has to send */
    }
    unlock(hub);
    if (last && !attached) {
        poster_destroy(poster);
    }
}

/* Whether a message of this size may be posted. Under the mutex. */
static int admit(struct evzmq_poster *poster, const void *key, size_t key_size, size_t bytes)
{
    if (!poster->attached) {
        poster->refused_after_end++;
        errno = ESHUTDOWN;
        return -1;
    }
    if (!evzmq__queue_has_room(&poster->queue, key, key_size, bytes)) {
        poster->refused++;
        errno = EAGAIN;
        return -1;
    }
    return 0;
}

static int check_poster(const struct evzmq_poster *poster)
{
    if (poster == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (poster->generation != evzmq__generation()) {
        errno = ECHILD;
        return -1;
    }
    return 0;
}

int evzmq_poster_post_message(struct evzmq_poster *poster, struct evzmq_message *message)
{
    if (check_poster(poster) < 0) {
        return -1;
    }
    if (message == NULL || message->is_lent || message->part_count == 0 ||
        !evzmq__type_takes_parts(poster->type, message->part_count)) {
        errno = EINVAL;
        return -1;
    }
    const bool routes = poster->type->routes;
    const void *key = routes ? evzmq__part_data(&message->parts[0]) : NULL;
    const size_t key_size = routes ? message->parts[0].size : 0;
    size_t bytes = 0;
    for (size_t i = 0; i < message->part_count; i++) {
        bytes += message->parts[i].size;
    }
    lock(poster->hub);
    int result = admit(poster, key, key_size, bytes);
    if (result == 0) {
        message->entry.bytes = bytes;
        result = evzmq__queue_push(&poster->queue, &message->entry, key, key_size);
    }
    if (result == 0) {
        poster->posted++;
        notice(poster);
    }
    const int error = errno;
    unlock(poster->hub);
    errno = error;
    return result;
}

/* Asks before bytes are copied for nothing: whoever posts into a full poster tries again and again.
 */
static int ask(struct evzmq_poster *poster, const struct evzmq_bytes *parts, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].data == NULL && parts[i].size > 0) {
            errno = EINVAL;
            return -1;
        }
        bytes += parts[i].size;
    }
    const bool routes = poster->type->routes;
    const void *key = routes ? (parts[0].data != NULL ? parts[0].data : "") : NULL;
    lock(poster->hub);
    const int result = admit(poster, key, routes ? parts[0].size : 0, bytes);
    const int error = errno;
    unlock(poster->hub);
    errno = error;
    return result;
}

int evzmq_poster_post_parts(struct evzmq_poster *poster, const struct evzmq_bytes *parts,
                            size_t count)
{
    if (check_poster(poster) < 0) {
        return -1;
    }
    if (parts == NULL || count == 0 || !evzmq__type_takes_parts(poster->type, count)) {
        errno = EINVAL;
        return -1;
    }
    if (ask(poster, parts, count) < 0) {
        return -1;
    }
    struct evzmq_message *message = evzmq_message_new();
    int result = message == NULL ? -1 : 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        result = evzmq_message_add(message, parts[i].data, parts[i].size);
    }
    if (result == 0) {
        result = evzmq_poster_post_message(poster, message);
    }
    if (result < 0) {
        const int error = errno;
        evzmq_message_free(message);
        errno = error;
    }
    return result;
}

int evzmq_poster_post(struct evzmq_poster *poster, const void *data, size_t size)
{
    const struct evzmq_bytes part = {.data = data, .size = size};
    return evzmq_poster_post_parts(poster, &part, 1);
}

size_t evzmq_poster_get_queued(struct evzmq_poster *poster, size_t *out_bytes)
{
    size_t messages = 0;
    size_t bytes = 0;
    if (poster != NULL) {
        lock(poster->hub);
        messages = poster->queue.messages;
        bytes = poster->queue.bytes;
        unlock(poster->hub);
    }
    if (out_bytes != NULL) {
        *out_bytes = bytes;
    }
    return messages;
}

int evzmq_poster_get_stats(struct evzmq_poster *poster, struct evzmq_poster_stats *out)
{
    if (check_poster(poster) < 0) {
        return -1;
    }
    if (out == NULL || out->size < sizeof(out->size)) {
        errno = EINVAL;
        return -1;
    }
    lock(poster->hub);
    struct evzmq_poster_stats all = {
        .posted = poster->posted,
        .handed_over = poster->handed_over,
        .dropped = poster->dropped,
        .refused = poster->refused,
        .refused_after_end = poster->refused_after_end,
        .wakeups = poster->hub->wakeups,
        .queue_messages = poster->queue.messages,
        .queue_bytes = poster->queue.bytes,
    };
    unlock(poster->hub);
    all.size = out->size < sizeof(all) ? out->size : sizeof(all);
    memcpy(out, &all, all.size);
    return 0;
}
