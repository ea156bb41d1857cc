/*
 * registry.c (L2): see registry.h. One mutex guards the list of records, their reference counts and
 * the set of attached ZeroMQ sockets. It is held for a few instructions and never across a
 * callback, and it is taken around fork(), so that the child finds it free.
 */
#include "registry.h"

#include <errno.h>
#include <pthread.h>

#include <evzmq/base.h>
#include <evzmq/codec.h>

#include "base.h"
#include "loop.h"
#include "message.h"

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_handlers_once = PTHREAD_ONCE_INIT;
static int fork_handlers_error;
static struct evzmq__base *bases;
static struct evzmq__table attachments;
static struct evzmq__table close_watches;

_Atomic unsigned long evzmq__fork_count;
_Atomic bool evzmq__debug_mode;

static void before_fork(void)
{
    (void)pthread_mutex_lock(&registry_mutex);
}

static void after_fork_in_parent(void)
{
    (void)pthread_mutex_unlock(&registry_mutex);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add_explicit(&evzmq__fork_count, 1, memory_order_relaxed);
    (void)pthread_mutex_unlock(&registry_mutex);
}

static void install_fork_handlers(void)
{
    fork_handlers_error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int evzmq__fork_watch(void)
{
    (void)pthread_once(&fork_handlers_once, install_fork_handlers);
    if (fork_handlers_error != 0) {
        errno = fork_handlers_error;
        return -1;
    }
    return 0;
}

static struct evzmq__base *find_locked(const struct event_base *event_base)
{
    struct evzmq__base *base = bases;
    while (base != NULL && base->event_base != event_base) {
        base = base->next;
    }
    return base;
}

struct evzmq__base *evzmq__base_find(struct event_base *event_base)
{
    (void)pthread_mutex_lock(&registry_mutex);
    struct evzmq__base *base = find_locked(event_base);
    (void)pthread_mutex_unlock(&registry_mutex);
    return base;
}

static struct evzmq__base *make_locked(struct event_base *event_base)
{
    struct evzmq__base *base = evzmq__calloc(1, sizeof(*base));
    if (base == NULL) {
        return NULL;
    }
    base->event_base = event_base;
    base->generation = evzmq__generation();
    base->buffer_max = EVZMQ_RECEIVE_BUFFER_DEFAULT;
    base->next = bases;
    bases = base;
    return base;
}

static void unlink_locked(struct evzmq__base *base)
{
    struct evzmq__base **link = &bases;
    while (*link != base) {
        link = &(*link)->next;
    }
    *link = base->next;
}

static void record_free(struct evzmq__base *base)
{
    evzmq__message_destroy(base->receiving);
    evzmq_arena_free(base->arena);
    evzmq__free(base->buffer);
    evzmq__free(base);
}

/* In a forked child: whether a record is there for nothing but what was abandoned, none of which is
 * on the loop any more. So the base was freed, and another one got its place in memory. */
static bool is_leftover(const struct evzmq__base *base)
{
    return evzmq__base_is_stale(base) && base->references == 0 &&
           !evzmq__source_is_any_watched(base->abandoned);
}

struct evzmq__base *evzmq__base_acquire(struct event_base *event_base)
{
    if (evzmq__fork_watch() < 0) {
        return NULL;
    }
    struct evzmq__base *leftover = NULL;
    (void)pthread_mutex_lock(&registry_mutex);
    struct evzmq__base *base = find_locked(event_base);
    if (base != NULL && is_leftover(base)) {
        leftover = base;
        unlink_locked(leftover);
        base = NULL;
    }
    if (base == NULL) {
        base = make_locked(event_base);
    } else if (evzmq__base_check(base) < 0) {
        base = NULL;
    }
    if (base != NULL) {
        base->references++;
    }
    const int error = errno;
    (void)pthread_mutex_unlock(&registry_mutex);
    if (leftover != NULL) {
        evzmq__source_free_abandoned(&leftover->abandoned);
        record_free(leftover);
    }
    errno = error;
    return base;
}

void evzmq__base_ref(struct evzmq__base *base)
{
    (void)pthread_mutex_lock(&registry_mutex);
    base->references++;
    (void)pthread_mutex_unlock(&registry_mutex);
}

void evzmq__base_release(struct evzmq__base *base)
{
    (void)pthread_mutex_lock(&registry_mutex);
    const bool last = --base->references == 0 && base->abandoned == NULL;
    if (last) {
        unlink_locked(base);
    }
    (void)pthread_mutex_unlock(&registry_mutex);
    if (last) {
        record_free(base);
    }
}

int evzmq_after_fork(struct event_base *event_base)
{
    if (event_base == NULL) {
        errno = EINVAL;
        return -1;
    }
    struct evzmq__base *base = evzmq__base_find(event_base);
    if (base == NULL || !evzmq__base_is_stale(base)) {
        return 0;
    }
    if (base->sockets > 0 || base->references > 0) {
        errno = EBUSY;
        return -1;
    }
    evzmq__source_free_abandoned(&base->abandoned);
    evzmq__base_ref(base);
    evzmq__base_release(base);
    return 0;
}

void evzmq_enable_debug_mode(void)
{
    atomic_store_explicit(&evzmq__debug_mode, true, memory_order_relaxed);
}

/* A number that no other living thread has. */
static uintptr_t thread_id(void)
{
    static _Thread_local char mark;
    return (uintptr_t)&mark;
}

static void set_thread(struct evzmq__base *base)
{
    atomic_store_explicit(&base->thread, thread_id(), memory_order_relaxed);
}

void evzmq__base_note_thread(const struct event_base *event_base)
{
    (void)pthread_mutex_lock(&registry_mutex);
    struct evzmq__base *base = find_locked(event_base);
    if (base != NULL) {
        set_thread(base);
    }
    (void)pthread_mutex_unlock(&registry_mutex);
}

int evzmq__base_check_thread(const struct evzmq__base *base)
{
    const uintptr_t thread = atomic_load_explicit(&base->thread, memory_order_relaxed);
    if (thread != 0 && thread != thread_id()) {
        errno = EPERM;
        return -1;
    }
    return 0;
}

int evzmq_base_set_thread(struct event_base *event_base)
{
    if (event_base == NULL) {
        errno = EINVAL;
        return -1;
    }
    evzmq__base_note_thread(event_base);
    return 0;
}

int evzmq_base_set_receive_buffer(struct event_base *event_base, size_t bytes)
{
    if (event_base == NULL) {
        errno = EINVAL;
        return -1;
    }
    struct evzmq__base *base = evzmq__base_find(event_base);
    if (base == NULL) {
        errno = ENOENT;
        return -1;
    }
    if (evzmq__base_check(base) < 0) {
        return -1;
    }
    base->buffer_max = bytes;
    base->buffer_ready = base->buffer_size <= bytes ? base->buffer_size : 0;
    return 0;
}

static struct evzmq__attachment *attachment_find_locked(const void *zmq_socket, uint64_t hash)
{
    struct evzmq__table_node *node = evzmq__table_find(&attachments, hash);
    for (; node != NULL; node = evzmq__table_find_next(node)) {
        struct evzmq__attachment *attachment =
            (struct evzmq__attachment *)((char *)node - offsetof(struct evzmq__attachment, node));
        if (attachment->zmq_socket == zmq_socket) {
            return attachment;
        }
    }
    return NULL;
}

int evzmq__attach(struct evzmq__attachment *attachment, void *zmq_socket)
{
    const uint64_t hash = evzmq__hash(&zmq_socket, sizeof(zmq_socket));
    int result = 0;
    (void)pthread_mutex_lock(&registry_mutex);
    if (attachment_find_locked(zmq_socket, hash) != NULL) {
        errno = EBUSY;
        result = -1;
    } else {
        attachment->zmq_socket = zmq_socket;
        result = evzmq__table_insert(&attachments, &attachment->node, hash);
    }
    (void)pthread_mutex_unlock(&registry_mutex);
    return result;
}

void evzmq__detach(struct evzmq__attachment *attachment)
{
    (void)pthread_mutex_lock(&registry_mutex);
    evzmq__table_remove(&attachments, &attachment->node);
    if (attachments.count == 0) {
        evzmq__table_clear(&attachments);
    }
    (void)pthread_mutex_unlock(&registry_mutex);
}

bool evzmq__is_attached(void *zmq_socket)
{
    const uint64_t hash = evzmq__hash(&zmq_socket, sizeof(zmq_socket));
    (void)pthread_mutex_lock(&registry_mutex);
    const bool result = attachment_find_locked(zmq_socket, hash) != NULL;
    (void)pthread_mutex_unlock(&registry_mutex);
    return result;
}

int evzmq__watch_close(struct evzmq__close_watch *watch, void *zmq_socket)
{
    (void)pthread_mutex_lock(&registry_mutex);
    const int result = evzmq__table_insert(&close_watches, &watch->node,
                                           evzmq__hash(&zmq_socket, sizeof(zmq_socket)));
    watch->zmq_socket = result == 0 ? zmq_socket : NULL;
    (void)pthread_mutex_unlock(&registry_mutex);
    return result;
}

static void unwatch_locked(struct evzmq__close_watch *watch)
{
    if (watch->zmq_socket != NULL) {
        watch->zmq_socket = NULL;
        evzmq__table_remove(&close_watches, &watch->node);
    }
    if (close_watches.count == 0) {
        evzmq__table_clear(&close_watches);
    }
}

void evzmq__unwatch_close(struct evzmq__close_watch *watch)
{
    (void)pthread_mutex_lock(&registry_mutex);
    unwatch_locked(watch);
    (void)pthread_mutex_unlock(&registry_mutex);
}

/* Takes out one who watches this socket, or gives NULL. */
static struct evzmq__close_watch *take_close_watch(void *zmq_socket)
{
    struct evzmq__close_watch *found = NULL;
    (void)pthread_mutex_lock(&registry_mutex);
    struct evzmq__table_node *node =
        evzmq__table_find(&close_watches, evzmq__hash(&zmq_socket, sizeof(zmq_socket)));
    for (; node != NULL && found == NULL; node = evzmq__table_find_next(node)) {
        struct evzmq__close_watch *watch =
            (struct evzmq__close_watch *)((char *)node - offsetof(struct evzmq__close_watch, node));
        found = watch->zmq_socket == zmq_socket ? watch : NULL;
    }
    if (found != NULL) {
        unwatch_locked(found);
    }
    (void)pthread_mutex_unlock(&registry_mutex);
    return found;
}

void evzmq__notify_close(void *zmq_socket)
{
    struct evzmq__close_watch *watch;
    while ((watch = take_close_watch(zmq_socket)) != NULL) {
        watch->callback(watch);
    }
}
