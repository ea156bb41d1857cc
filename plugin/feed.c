/*
 * feed.c (L3): what waits outside a socket for room in its output queue, and enters it in a pass.
 *
 *     feeder says it has something -> ready list -> evzmq__pass_feed: while there is room: take,
 * submit
 *
 * A feeder that finds no room stays on the ready list, and the pass in which the queue falls comes
 * back to it: nothing polls. Feeders take turns, one message each.
 */
#include "socket.h"

#include <errno.h>

#include "packing.h"

bool evzmq__socket_has_room(const struct evzmq_socket *socket, const struct evzmq_message *message)
{
    const bool routes = socket->type->routes;
    const void *key = routes ? evzmq__part_data(&message->parts[0]) : NULL;
    const size_t key_size = routes ? message->parts[0].size : 0;
    return evzmq__queue_has_room(&socket->queue, key, key_size, message->entry.bytes);
}

static void ready_push(struct evzmq__feeders *feeders, struct evzmq__feeder *feeder)
{
    feeder->is_ready = true;
    feeder->next_ready = NULL;
    if (feeders->ready_first == NULL) {
        feeders->ready_first = feeder;
    } else {
        feeders->ready_last->next_ready = feeder;
    }
    feeders->ready_last = feeder;
}

static void ready_push_first(struct evzmq__feeders *feeders, struct evzmq__feeder *feeder)
{
    feeder->is_ready = true;
    feeder->next_ready = feeders->ready_first;
    if (feeders->ready_first == NULL) {
        feeders->ready_last = feeder;
    }
    feeders->ready_first = feeder;
}

static struct evzmq__feeder *ready_pop(struct evzmq__feeders *feeders)
{
    struct evzmq__feeder *feeder = feeders->ready_first;
    feeders->ready_first = feeder->next_ready;
    feeder->next_ready = NULL;
    feeder->is_ready = false;
    return feeder;
}

static void ready_remove(struct evzmq__feeders *feeders, struct evzmq__feeder *feeder)
{
    struct evzmq__feeder *before = NULL;
    struct evzmq__feeder **link = &feeders->ready_first;
    while (*link != feeder) {
        before = *link;
        link = &before->next_ready;
    }
    *link = feeder->next_ready;
    if (feeders->ready_last == feeder) {
        feeders->ready_last = before;
    }
    feeder->is_ready = false;
}

void evzmq__feeder_add(struct evzmq__feeder *feeder, struct evzmq_socket *socket)
{
    struct evzmq__feeders *feeders = &socket->feeders;
    feeder->socket = socket;
    feeder->prev = NULL;
    feeder->next = feeders->first;
    if (feeders->first != NULL) {
        feeders->first->prev = feeder;
    }
    feeders->first = feeder;
}

void evzmq__feeder_remove(struct evzmq__feeder *feeder)
{
    struct evzmq__feeders *feeders = &feeder->socket->feeders;
    if (feeder->is_ready) {
        ready_remove(feeders, feeder);
    }
    if (feeder->next != NULL) {
        feeder->next->prev = feeder->prev;
    }
    if (feeder->prev != NULL) {
        feeder->prev->next = feeder->next;
    } else {
        feeders->first = feeder->next;
    }
    feeder->socket = NULL;
}

void evzmq__feeder_announce(struct evzmq__feeder *feeder)
{
    if (!feeder->is_ready) {
        ready_push(&feeder->socket->feeders, feeder);
        evzmq__socket_attend(feeder->socket);
    }
}

void evzmq__feeders_close(struct evzmq_socket *socket, bool flush)
{
    while (socket->feeders.first != NULL) {
        struct evzmq__feeder *feeder = socket->feeders.first;
        evzmq__feeder_remove(feeder);
        feeder->methods->close(feeder, socket, flush);
    }
}

/* Takes a message from a feeder, if it has one for which there is room. */
static enum evzmq__feed take(struct evzmq__feeder *feeder, struct evzmq_message **out)
{
    if (feeder->held == NULL) {
        return feeder->methods->take(feeder, out);
    }
    if (!evzmq__socket_has_room(feeder->socket, feeder->held)) {
        return EVZMQ__FEED_BLOCKED;
    }
    *out = feeder->held;
    feeder->held = NULL;
    return EVZMQ__FEED_MESSAGE;
}

/* The next message that can go, and whose it is. NULL when there is none. */
static struct evzmq_message *next_message(struct evzmq_socket *socket,
                                          struct evzmq__feeder **out_feeder)
{
    struct evzmq__feeders *feeders = &socket->feeders;
    const struct evzmq__feeder *last = feeders->ready_last;
    while (feeders->ready_first != NULL) {
        struct evzmq__feeder *feeder = ready_pop(feeders);
        const bool was_last = feeder == last;
        struct evzmq_message *message = NULL;
        const enum evzmq__feed result = take(feeder, &message);
        if (result == EVZMQ__FEED_MESSAGE) {
            ready_push(feeders, feeder);
            *out_feeder = feeder;
            return message;
        }
        if (result == EVZMQ__FEED_BLOCKED && !socket->type->routes) {
            /* It stays the next one: smaller messages of others must not pass it for ever. */
            ready_push_first(feeders, feeder);
            return NULL;
        }
        if (result == EVZMQ__FEED_BLOCKED) {
            ready_push(feeders, feeder);
        }
        if (was_last) {
            return NULL;
        }
    }
    return NULL;
}

static enum evzmq__step feed_failed(struct evzmq__pass *pass, struct evzmq__feeder *feeder,
                                    struct evzmq_message *message, int error)
{
    switch (error) {
    case EAGAIN:
        feeder->held = message;
        return EVZMQ__STEP_EMPTY;
    case EINTR:
    case ENOMEM:
        feeder->held = message;
        return evzmq__pass_retry_later(pass, error);
    default:
        if (evzmq__is_terminal(error)) {
            feeder->held = message;
            evzmq__pass_terminate(pass, error);
            return EVZMQ__STEP_PAUSED;
        }
        return evzmq__pass_give_up(pass, message, error);
    }
}

/* Moves one message from a feeder to the socket. */
static enum evzmq__step feed_step(void *arg, size_t *out_bytes)
{
    struct evzmq__pass *pass = arg;
    struct evzmq_socket *socket = pass->socket;
    struct evzmq__feeder *feeder = NULL;
    /* First, since the open frame goes before what is fed and may take the room of that. */
    if (evzmq__packing_is_open(socket) && evzmq__packing_close(socket) < 0) {
        return evzmq__pass_retry_later(pass, errno);
    }
    struct evzmq_message *message = next_message(socket, &feeder);
    if (message == NULL) {
        return EVZMQ__STEP_EMPTY;
    }
    *out_bytes = message->entry.bytes;
    if (evzmq__socket_submit(socket, message->parts, message->part_count, message) < 0) {
        return feed_failed(pass, feeder, message, errno);
    }
    pass->fed++;
    return EVZMQ__STEP_DONE;
}

void evzmq__pass_feed(struct evzmq__pass *pass)
{
    struct evzmq_socket *socket = pass->socket;
    pass->unfed = false;
    if (socket->feeders.ready_first == NULL) {
        return;
    }
    for (struct evzmq__feeder *feeder = socket->feeders.ready_first; feeder != NULL;
         feeder = feeder->next_ready) {
        feeder->again = true;
    }
    evzmq__pass_start_writing(pass);
    pass->unfed = evzmq__drain_run(&pass->write, feed_step, pass) == EVZMQ__STOP_BUDGET;
}
