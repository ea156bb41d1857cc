/*
 * poster_loop.c (L5): the loop thread's side of posters, and what they share: waking, taking what
 * was posted, the beginning and the end. poster.h has the data flow and the rules of the lock.
 */
#include "poster.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "message.h"

static pthread_mutex_t hubs_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct evzmq__hub *hubs;
static pthread_once_t fork_handlers_once = PTHREAD_ONCE_INIT;
static int fork_handlers_error;

static void before_fork(void)
{
    (void)pthread_mutex_lock(&hubs_mutex);
    for (struct evzmq__hub *hub = hubs; hub != NULL; hub = hub->next) {
        evzmq__hub_lock(hub);
    }
}

static void after_fork(void)
{
    for (struct evzmq__hub *hub = hubs; hub != NULL; hub = hub->next) {
        evzmq__hub_unlock(hub);
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
        evzmq__source_mute_in_child(hub->watch);
        return;
    }
    evzmq__hub_lock(hub);
    evzmq__wake_clear(&hub->wake);
    hub->signalled = false;
    struct evzmq_poster *poster = hub->news;
    hub->news = NULL;
    evzmq__hub_unlock(hub);
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
         * until event_reinit(), which registers it again. No poster of the child writes. */
        evzmq__source_abandon(hub->watch, true, &base->abandoned);
        evzmq__wake_leave(&hub->wake);
    } else {
        evzmq__source_free(hub->watch);
        evzmq__hub_lock(hub); /* no thread may be about to write */
        evzmq__wake_close(&hub->wake);
        evzmq__hub_unlock(hub);
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

void evzmq__poster_destroy(struct evzmq_poster *poster)
{
    struct evzmq__hub *hub = poster->hub;
    struct evzmq__queue_entry *entry;
    while ((entry = evzmq__queue_clear(&poster->queue)) != NULL) {
        evzmq__message_destroy((struct evzmq_message *)entry);
    }
    evzmq__free(poster);
    evzmq__hub_lock(hub);
    const bool last = --hub->posters == 0;
    evzmq__hub_unlock(hub);
    if (last) {
        hub_free(hub);
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
    evzmq__hub_lock(hub);
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
    evzmq__hub_unlock(hub);
    if (result == EVZMQ__FEED_OVER) {
        evzmq__feeder_remove(feeder);
        hub_detach(hub);
        evzmq__poster_destroy(poster);
    }
    return result;
}

/* Takes out any message of a poster that has no socket any more, the oldest first. */
static struct evzmq_message *take_any(struct evzmq_poster *poster)
{
    evzmq__hub_lock(poster->hub);
    evzmq__queue_unpark_all(&poster->queue);
    struct evzmq__queue_entry *entry = evzmq__queue_peek(&poster->queue);
    if (entry != NULL) {
        (void)evzmq__queue_pop(&poster->queue);
    }
    evzmq__hub_unlock(poster->hub);
    return (struct evzmq_message *)entry;
}

/* The socket is ending. Loop thread. */
static void poster_close(struct evzmq__feeder *feeder, struct evzmq_socket *socket, bool flush)
{
    struct evzmq_poster *poster = (struct evzmq_poster *)feeder;
    struct evzmq__hub *hub = poster->hub;
    uint64_t handed_over = 0;
    uint64_t dropped = 0;
    evzmq__hub_lock(hub);
    poster->attached = false; /* from here on posts are refused */
    poster->references++; /* or a user who lets go now would free it */
    forget_news(poster);
    evzmq__hub_unlock(hub);
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
    evzmq__hub_lock(hub);
    poster->handed_over += handed_over;
    poster->handed_over -= had_held;
    poster->dropped += dropped;
    const bool unused = --poster->references == 0;
    evzmq__hub_unlock(hub);
    if (unused) {
        evzmq__poster_destroy(poster);
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
    evzmq__hub_lock(hub);
    hub->posters++;
    evzmq__hub_unlock(hub);
    return poster;
}
