/*
 * request_send.c (L6): how a request begins, and how its message gets to ZeroMQ, at once, later or
 * again.
 */
#include "request.h"

#include <errno.h>
#include <limits.h>

#include <zmq.h>

#include "base.h"

/* Head and body of a request that is one part. */
enum { PARTS_LOCAL = EVZMQ__REQUEST_HEAD + 1 };

static bool may_send_again(const struct evzmq_requester *requester,
                           const struct evzmq__request *request)
{
    return request->retries < requester->options.retries_max;
}

/* How long the attempt made after this many retries waits for its reply, in nanoseconds. */
static uint64_t interval_ns(const struct evzmq_requester *requester, unsigned retries)
{
    const uint64_t longest = requester->options.retry_max_ms;
    uint64_t ms = requester->options.retry_ms;
    for (unsigned i = 0; i < retries && ms < longest; i++) {
        ms *= 2;
    }
    return (ms < longest ? ms : longest) * UINT64_C(1000000);
}

static uint64_t earlier(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

/* Puts a request, of which something is kept, behind the others that wait. */
static void wait_for_room(struct evzmq_requester *requester, struct evzmq__request *request)
{
    request->waiting = true;
    request->next = NULL;
    request->prev = requester->waiting_last;
    if (request->prev != NULL) {
        request->prev->next = request;
    } else {
        requester->waiting_first = request;
    }
    requester->waiting_last = request;
    requester->stats.waiting++;
    evzmq__feeder_announce(&requester->feeder);
}

static void stop_waiting(struct evzmq_requester *requester, struct evzmq__request *request)
{
    if (!request->waiting) {
        return;
    }
    request->waiting = false;
    if (request->prev != NULL) {
        request->prev->next = request->next;
    } else {
        requester->waiting_first = request->next;
    }
    if (request->next != NULL) {
        request->next->prev = request->prev;
    } else {
        requester->waiting_last = request->prev;
    }
    requester->stats.waiting--;
}

/* Takes out what is kept of a request. */
static struct evzmq_message *release_kept(struct evzmq_requester *requester,
                                          struct evzmq__request *request)
{
    struct evzmq_message *message = request->kept;
    requester->stats.held_bytes -= message->entry.bytes;
    request->kept = NULL;
    return message;
}

void evzmq__request_unkeep(struct evzmq_requester *requester, struct evzmq__request *request)
{
    stop_waiting(requester, request);
    if (request->kept != NULL) {
        evzmq__message_destroy(release_kept(requester, request));
    }
}

/* Makes a part the same as another; large ones share their bytes. Returns 0, or -1 with ENOMEM. */
static int copy_part(struct evzmq__part *to, struct evzmq__part *from)
{
    if (from->outside) {
        return evzmq__part_fill(to, from->data, from->size);
    }
    if (zmq_msg_copy(&to->msg, &from->msg) < 0) {
        return -1;
    }
    evzmq__part_point_inside(to);
    return 0;
}

/* A message of the same parts; NULL with ENOMEM. */
static struct evzmq_message *copy_message(const struct evzmq_message *message)
{
    struct evzmq_message *copy = evzmq__message_create();
    if (copy == NULL || evzmq__message_reserve(copy, message->part_count) < 0) {
        goto fail;
    }
    for (; copy->part_count < message->part_count; copy->part_count++) {
        if (copy_part(&copy->parts[copy->part_count], &message->parts[copy->part_count]) < 0) {
            goto fail;
        }
    }
    copy->size = message->size;
    copy->entry.bytes = message->entry.bytes;
    return copy;

fail:
    evzmq__message_destroy(copy);
    return NULL;
}

/* The feeder's: the next message that waits, where the socket has none. */
static enum evzmq__feed take(struct evzmq__feeder *feeder, struct evzmq_message **out)
{
    struct evzmq_requester *requester = (struct evzmq_requester *)feeder;
    struct evzmq__request *request = requester->waiting_first;
    feeder->again = false;
    if (request == NULL) {
        return EVZMQ__FEED_EMPTY;
    }
    if (requester->socket->queue.messages > 0) {
        return EVZMQ__FEED_BLOCKED; /* what entered the queue could not be taken back */
    }
    stop_waiting(requester, request);
    struct evzmq_message *copy =
        may_send_again(requester, request) ? copy_message(request->kept) : NULL;
    /* Without memory for a copy it is better to send it without retries than not at all. */
    *out = copy != NULL ? copy : release_kept(requester, request);
    if (requester->refused) {
        (void)evzmq__requester_arm(requester); /* there may be room now */
    }
    return EVZMQ__FEED_MESSAGE;
}

/* The feeder's: the socket is shut down, freed or terminated. What waits is not sent, because no
 * reply to it could be received. */
static void let_go(struct evzmq__feeder *feeder, struct evzmq_socket *socket, bool flush)
{
    (void)flush;
    struct evzmq_requester *requester = (struct evzmq_requester *)feeder;
    if ((socket->pause & EVZMQ__PAUSE_TERMINATED) != 0) {
        /* Its event comes next, and the user wants to see it. */
        requester->failing = socket->terminal_error;
    } else {
        evzmq__requester_detach(requester, ESHUTDOWN);
    }
}

const struct evzmq__feeder_methods evzmq__requester_feeder = {.take = take, .close = let_go};

void evzmq__request_retry(struct evzmq_requester *requester, struct evzmq__request *request,
                          uint64_t now)
{
    if (!request->waiting && request->kept != NULL) {
        request->retries++;
        requester->stats.retries++;
        wait_for_room(requester, request);
    }
    uint64_t due = request->deadline;
    if (request->kept != NULL && may_send_again(requester, request)) {
        due = earlier(due, now + interval_ns(requester, request->retries));
    }
    evzmq__heap_change(&requester->heap, &request->due, due);
}

static int refuse(struct evzmq_requester *requester, size_t bytes)
{
    requester->stats.refused++;
    requester->refused = true;
    requester->refused_bytes = bytes;
    errno = EAGAIN;
    return -1;
}

/* Whether a request may be made now. Returns 0, or -1 with errno. */
static int admit(struct evzmq_requester *requester, int deadline_ms, evzmq_reply_cb reply_cb)
{
    if (evzmq__requester_check(requester) < 0) {
        return -1;
    }
    if (reply_cb == NULL || deadline_ms < -1) {
        errno = EINVAL;
        return -1;
    }
    const int error = requester->ending.begun     ? ESHUTDOWN
                      : requester->failing != 0   ? requester->failing
                      : requester->socket == NULL ? ESHUTDOWN
                                                  : 0;
    if (error != 0) {
        requester->stats.refused_after_end++;
        errno = error;
        return -1;
    }
    if (requester->table.count >= requester->options.outstanding_max) {
        return refuse(requester, 0);
    }
    return 0;
}

/* The number of the next request: one that none outstanding has, also after the last of all. */
static uint64_t next_number(struct evzmq_requester *requester)
{
    do {
        requester->last_number =
            requester->last_number >= INT64_MAX ? 1 : requester->last_number + 1;
    } while (evzmq__request_find(requester, requester->last_number) != NULL);
    return requester->last_number;
}

/* Makes a request outstanding, before anything of it is sent. NULL with errno. */
static struct evzmq__request *begin(struct evzmq_requester *requester, int deadline_ms,
                                    evzmq_reply_cb reply_cb, void *arg)
{
    if (admit(requester, deadline_ms, reply_cb) < 0) {
        return NULL;
    }
    struct evzmq__request *request = evzmq__request_new(requester);
    if (request == NULL) {
        return NULL;
    }
    const uint64_t now = evzmq__clock_ns();
    request->reply_cb = reply_cb;
    request->arg = arg;
    request->deadline =
        deadline_ms < 0 ? EVZMQ__REQUEST_NEVER : now + (uint64_t)deadline_ms * UINT64_C(1000000);
    uint64_t due = request->deadline;
    if (may_send_again(requester, request)) {
        due = earlier(due, now + interval_ns(requester, 0));
    }
    if (evzmq__heap_insert(&requester->heap, &request->due, due) < 0) {
        goto fail_request;
    }
    if (evzmq__table_insert(&requester->table, &request->node, next_number(requester)) < 0) {
        goto fail_heap;
    }
    if (evzmq__requester_arm(requester) < 0) {
        goto fail_table;
    }
    return request;

fail_table:
    evzmq__table_remove(&requester->table, &request->node);
fail_heap:
    evzmq__heap_remove(&requester->heap, &request->due);
fail_request:
    evzmq__free(request);
    return NULL;
}

/* Id and delimiter. They refer to the id, so they stay where they were made. */
struct head {
    unsigned char id[EVZMQ_REQUEST_ID_BYTES];
    struct evzmq_bytes parts[EVZMQ__REQUEST_HEAD];
};

static void head_make(struct head *head, const struct evzmq_requester *requester,
                      const struct evzmq__request *request)
{
    for (size_t i = 0; i < EVZMQ__REQUEST_ID_HALF; i++) {
        const size_t shift = (EVZMQ__REQUEST_ID_HALF - 1 - i) * CHAR_BIT;
        head->id[i] = requester->mark[i];
        head->id[EVZMQ__REQUEST_ID_HALF + i] = (unsigned char)(request->node.hash >> shift);
    }
    head->parts[0] = (struct evzmq_bytes){.data = head->id, .size = sizeof(head->id)};
    head->parts[1] = (struct evzmq_bytes){.data = NULL, .size = 0};
}

/* Fills the parts before the body. Returns 0, or -1 with ENOMEM. */
static int fill_head(const struct evzmq_requester *requester, const struct evzmq__request *request,
                     struct evzmq__part *parts)
{
    struct head head;
    head_make(&head, requester, request);
    int result = 0;
    for (size_t i = 0; i < EVZMQ__REQUEST_HEAD && result == 0; i++) {
        result = evzmq__part_fill(&parts[i], head.parts[i].data, head.parts[i].size);
    }
    return result;
}

/* Whether a message sent now would come before others that wait. */
static bool must_wait(const struct evzmq_requester *requester)
{
    return requester->waiting_first != NULL || requester->feeder.held != NULL ||
           requester->socket->queue.messages > 0;
}

/* Whether a request is handed to ZeroMQ or the socket's queue at once, and nothing of it is kept.
 */
static bool goes_at_once(const struct evzmq_requester *requester,
                         const struct evzmq__request *request)
{
    return !may_send_again(requester, request) && !must_wait(requester);
}

/* Asks for room for a request before its parts are made. Returns 0, or -1 with EAGAIN. */
static int ask(struct evzmq_requester *requester, const struct evzmq__request *request,
               size_t body_size)
{
    const size_t bytes = EVZMQ_REQUEST_ID_BYTES + body_size;
    if (bytes < body_size || goes_at_once(requester, request) ||
        evzmq__requester_holds(requester, bytes)) {
        return 0;
    }
    return refuse(requester, bytes);
}

/* Sends all parts of a request, head included, or has them wait. What may have to be sent again
 * goes the way of what waits, where it is kept. `whole` is the message the parts are of, or NULL.
 * Returns 0 with the parts and `whole` taken over, or -1 with errno and both unchanged. */
static int launch(struct evzmq_requester *requester, struct evzmq__request *request,
                  struct evzmq__part *parts, size_t count, struct evzmq_message *whole)
{
    if (goes_at_once(requester, request)) {
        return evzmq__socket_submit(requester->socket, parts, count, whole);
    }
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += parts[i].size;
    }
    if (!evzmq__requester_holds(requester, bytes)) {
        return refuse(requester, bytes);
    }
    request->kept = whole != NULL ? whole : evzmq__message_gather(parts, count);
    if (request->kept == NULL) {
        return -1;
    }
    request->kept->entry.bytes = bytes;
    requester->stats.held_bytes += bytes;
    wait_for_room(requester, request);
    return 0;
}

/* The end of a call that begins a request: its number, or -1 with errno as it is. */
static int64_t finish(struct evzmq_requester *requester, struct evzmq__request *request, int result)
{
    if (result < 0) {
        const int error = errno;
        evzmq__request_drop(requester, request);
        errno = error;
        return -1;
    }
    struct evzmq_requester_stats *stats = &requester->stats;
    stats->requests++;
    if (requester->table.count > stats->outstanding_peak) {
        stats->outstanding_peak = requester->table.count;
    }
    return (int64_t)request->node.hash;
}

/* Fills the body with a value. */
static int fill_value(const struct evzmq_requester *requester, struct evzmq__part *part,
                      const void *value, size_t size)
{
    void *room = NULL;
    if (evzmq__part_reserve(part, size, &room) < 0) {
        return -1;
    }
    return evzmq_codec_encode(requester->socket->codec, value, room, size);
}

/* A request whose body is one part: bytes, or a value where `bytes` is NULL. */
static int64_t request_part(struct evzmq_requester *requester, const struct evzmq_bytes *bytes,
                            const void *value, int deadline_ms, evzmq_reply_cb reply_cb, void *arg)
{
    struct evzmq__request *request = begin(requester, deadline_ms, reply_cb, arg);
    if (request == NULL) {
        return -1;
    }
    struct evzmq__part parts[PARTS_LOCAL];
    for (size_t i = 0; i < PARTS_LOCAL; i++) {
        evzmq__part_init(&parts[i]);
    }
    struct evzmq__part *body = &parts[EVZMQ__REQUEST_HEAD];
    size_t size = bytes != NULL ? bytes->size : 0;
    int result =
        bytes != NULL ? 0 : evzmq_codec_encoded_size(requester->socket->codec, value, &size);
    if (result == 0) {
        result = ask(requester, request, size);
    }
    if (result == 0) {
        result = fill_head(requester, request, parts);
    }
    if (result == 0) {
        result = bytes != NULL ? evzmq__part_fill(body, bytes->data, size)
                               : fill_value(requester, body, value, size);
    }
    if (result == 0) {
        result = launch(requester, request, parts, PARTS_LOCAL, NULL);
    }
    const int error = errno;
    for (size_t i = 0; i < PARTS_LOCAL; i++) {
        (void)zmq_msg_close(&parts[i].msg);
    }
    errno = error;
    return finish(requester, request, result);
}

int64_t evzmq_request(struct evzmq_requester *requester, const void *value, int deadline_ms,
                      evzmq_reply_cb reply_cb, void *arg)
{
    return request_part(requester, NULL, value, deadline_ms, reply_cb, arg);
}

int64_t evzmq_request_bytes(struct evzmq_requester *requester, const void *data, size_t size,
                            int deadline_ms, evzmq_reply_cb reply_cb, void *arg)
{
    if (data == NULL && size > 0) {
        errno = EINVAL;
        return -1;
    }
    const struct evzmq_bytes bytes = {.data = data, .size = size};
    return request_part(requester, &bytes, NULL, deadline_ms, reply_cb, arg);
}

int64_t evzmq_request_message(struct evzmq_requester *requester, struct evzmq_message *message,
                              int deadline_ms, evzmq_reply_cb reply_cb, void *arg)
{
    if (message == NULL || message->is_lent || message->part_count == 0) {
        errno = EINVAL;
        return -1;
    }
    struct evzmq__request *request = begin(requester, deadline_ms, reply_cb, arg);
    if (request == NULL) {
        return -1;
    }
    struct head head;
    head_make(&head, requester, request);
    int result = ask(requester, request, message->size);
    if (result == 0) {
        result = evzmq__message_lead(message, head.parts, EVZMQ__REQUEST_HEAD);
    }
    if (result == 0) {
        result = launch(requester, request, message->parts, message->part_count, message);
        if (result < 0) {
            evzmq__message_unlead(message, EVZMQ__REQUEST_HEAD);
        }
    }
    return finish(requester, request, result);
}
