/*
 * poster.c (L5): see <evzmq/poster.h>. What any thread may call; all it shares with the loop is
 * under the mutex of the hub. poster.h has the data flow and the rules of that lock.
 */
#include "poster.h"

#include <errno.h>
#include <string.h>

#include "message.h"

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

struct evzmq_poster *evzmq_poster_ref(struct evzmq_poster *poster)
{
    if (poster != NULL) {
        evzmq__hub_lock(poster->hub);
        poster->references++;
        evzmq__hub_unlock(poster->hub);
    }
    return poster;
}

void evzmq_poster_free(struct evzmq_poster *poster)
{
    if (poster == NULL) {
        return;
    }
    struct evzmq__hub *hub = poster->hub;
    evzmq__hub_lock(hub);
    const bool last = --poster->references == 0;
    const bool attached = poster->attached;
    if (last && attached && poster->generation == evzmq__generation()) {
        notice(poster); /* the loop frees it, after what it still has to send */
    }
    evzmq__hub_unlock(hub);
    if (last && !attached) {
        evzmq__poster_destroy(poster);
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
    evzmq__hub_lock(poster->hub);
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
    evzmq__hub_unlock(poster->hub);
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
    evzmq__hub_lock(poster->hub);
    const int result = admit(poster, key, routes ? parts[0].size : 0, bytes);
    const int error = errno;
    evzmq__hub_unlock(poster->hub);
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
    if (count > SIZE_MAX / sizeof(*parts)) {
        errno = ENOMEM; /* Nobody has so many. */
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
        evzmq__hub_lock(poster->hub);
        messages = poster->queue.messages;
        bytes = poster->queue.bytes;
        evzmq__hub_unlock(poster->hub);
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
    evzmq__hub_lock(poster->hub);
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
    evzmq__hub_unlock(poster->hub);
    all.size = out->size < sizeof(all) ? out->size : sizeof(all);
    memcpy(out, &all, all.size);
    return 0;
}
