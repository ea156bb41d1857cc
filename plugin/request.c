/*
 * request.c (L6): making and freeing a requester, its timer, and how requests end. The design is in
 * request.h.
 */
#include "request.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>
#include <zmq.h>

#include "base.h"

enum {
    /* Callbacks and retries of one tick: then the loop turns to other events, as after the budget
     * of a pass. */
    TICK_MAX = 256,
    /* Structs kept for the next requests: as many as may be outstanding all the time without an
     * allocation for each. */
    SPARES_MAX = 1024
};

int evzmq__requester_check(const struct evzmq_requester *requester)
{
    if (requester == NULL) {
        errno = EINVAL;
        return -1;
    }
    return evzmq__base_check(requester->base);
}

static void unref(struct evzmq_requester *requester)
{
    if (--requester->references == 0) {
        evzmq__base_release(requester->base);
        evzmq__free(requester);
    }
}

bool evzmq__requester_holds(const struct evzmq_requester *requester, size_t bytes)
{
    const uint64_t held = requester->stats.held_bytes;
    const size_t max = requester->options.held_bytes_max;
    return held == 0 || (bytes <= max && held <= max - bytes);
}

/* Whether there is room for what was refused. */
static bool owes_room(const struct evzmq_requester *requester)
{
    return requester->refused && requester->socket != NULL && !requester->ending.begun &&
           requester->table.count < requester->options.outstanding_max &&
           (requester->refused_bytes == 0 ||
            evzmq__requester_holds(requester, requester->refused_bytes));
}

static bool owes_end(const struct evzmq_requester *requester)
{
    return requester->ending.begun && !requester->ending.done && requester->table.count == 0;
}

/* When the timer has something to do; 0: at once. */
static uint64_t next_due(const struct evzmq_requester *requester)
{
    const struct evzmq__heap_node *first = evzmq__heap_first(&requester->heap);
    if ((requester->failing != 0 && first != NULL) || owes_room(requester) || owes_end(requester)) {
        return 0;
    }
    const uint64_t due = first == NULL ? EVZMQ__REQUEST_NEVER : first->key;
    const bool ends = requester->ending.begun && first != NULL;
    return ends && requester->ending.deadline < due ? requester->ending.deadline : due;
}

int evzmq__requester_arm(struct evzmq_requester *requester)
{
    /* A timer that fires too early does no harm, and the next request will be due later than this
     * one was: so the timer is set again when it fires, not for each request. */
    const uint64_t due = next_due(requester);
    if (requester->ticking || due >= requester->armed_at) {
        return 0;
    }
    const uint64_t now = due == 0 ? 0 : evzmq__clock_ns();
    const uint64_t usec = due > now ? (due - now + 999) / 1000 : 0;
    const struct timeval delay = {(time_t)(usec / 1000000), (suseconds_t)(usec % 1000000)};
    if (evzmq__timer_start(requester->timer, &delay) < 0) {
        return -1;
    }
    requester->armed_at = due;
    return 0;
}

/* Sets the timer for what comes next. It stands as long as there is a socket or something to tell:
 * then it keeps no loop running that would not run anyway. */
static void set_timer(struct evzmq_requester *requester)
{
    if (requester->socket == NULL && next_due(requester) == EVZMQ__REQUEST_NEVER) {
        evzmq__timer_stop(requester->timer);
        requester->armed_at = EVZMQ__REQUEST_NEVER;
    } else {
        (void)evzmq__requester_arm(requester);
    }
}

/* Does what is due for the first request. */
static void serve_first(struct evzmq_requester *requester, uint64_t now)
{
    struct evzmq__heap_node *first = evzmq__heap_first(&requester->heap);
    struct evzmq__request *request =
        (struct evzmq__request *)((char *)first - offsetof(struct evzmq__request, due));
    if (requester->failing != 0) {
        evzmq__request_end(requester, request, requester->failing, NULL);
    } else if (request->deadline <= now) {
        evzmq__request_end(requester, request, ETIMEDOUT, NULL);
    } else {
        evzmq__request_retry(requester, request, now);
    }
}

static bool is_alive(const struct evzmq_requester *requester)
{
    return !requester->dying && !evzmq__base_is_stale(requester->base);
}

static bool may_go_on(const struct evzmq_requester *requester)
{
    return is_alive(requester) && !evzmq__loop_is_breaking(requester->base->event_base);
}

static void report_end(struct evzmq_requester *requester)
{
    struct evzmq__requester_ending *ending = &requester->ending;
    const struct evzmq_requester_stats *stats = &requester->stats;
    ending->done = true;
    const uint64_t replied = stats->replies - ending->replied_before;
    const uint64_t ended = stats->requests - ending->ended_before;
    if (ending->done_cb != NULL) {
        ending->done_cb(requester, replied, ended - replied, ending->arg);
    }
}

static void on_tick(void *arg)
{
    struct evzmq_requester *requester = arg;
    if (evzmq__base_is_stale(requester->base)) {
        return; /* a forked child */
    }
    requester->references++;
    requester->base->depth++;
    requester->ticking = true;
    requester->armed_at = EVZMQ__REQUEST_NEVER;
    const uint64_t now = evzmq__clock_ns();
    if (requester->ending.begun && requester->ending.deadline <= now && requester->failing == 0) {
        requester->failing = ECANCELED;
    }
    for (int i = 0; i < TICK_MAX && may_go_on(requester); i++) {
        const struct evzmq__heap_node *first = evzmq__heap_first(&requester->heap);
        if (first == NULL || (requester->failing == 0 && first->key > now)) {
            break;
        }
        serve_first(requester, now);
    }
    if (may_go_on(requester) && owes_room(requester)) {
        requester->refused = false;
        if (requester->write_cb != NULL) {
            requester->write_cb(requester, requester->arg);
        }
    }
    if (may_go_on(requester) && owes_end(requester)) {
        report_end(requester);
    }
    requester->ticking = false;
    if (is_alive(requester)) {
        set_timer(requester);
    }
    requester->base->depth--;
    unref(requester);
}

struct evzmq__request *evzmq__request_new(struct evzmq_requester *requester)
{
    struct evzmq__request *request = requester->spares;
    if (request == NULL) {
        return evzmq__calloc(1, sizeof(*request));
    }
    requester->spares = request->next;
    requester->spare_count--;
    *request = (struct evzmq__request){0};
    return request;
}

struct evzmq__request *evzmq__request_find(const struct evzmq_requester *requester, uint64_t number)
{
    struct evzmq__table_node *node = evzmq__table_find(&requester->table, number);
    return node == NULL
               ? NULL
               : (struct evzmq__request *)((char *)node - offsetof(struct evzmq__request, node));
}

void evzmq__request_drop(struct evzmq_requester *requester, struct evzmq__request *request)
{
    evzmq__request_unkeep(requester, request);
    evzmq__heap_remove(&requester->heap, &request->due);
    evzmq__table_remove(&requester->table, &request->node);
    if (requester->spare_count < SPARES_MAX) {
        request->next = requester->spares;
        requester->spares = request;
        requester->spare_count++;
    } else {
        evzmq__free(request);
    }
}

static void count_end(struct evzmq_requester_stats *stats, int error, bool has_reply)
{
    if (error == 0) {
        stats->replies++;
    } else if (has_reply) {
        stats->undecodable++;
    } else if (error == ETIMEDOUT) {
        stats->timed_out++;
    } else {
        stats->failed++;
    }
}

void evzmq__request_end(struct evzmq_requester *requester, struct evzmq__request *request,
                        int error, struct evzmq_message *reply)
{
    const evzmq_reply_cb reply_cb = request->reply_cb;
    void *arg = request->arg;
    const int64_t number = (int64_t)request->node.hash;
    evzmq__request_drop(requester, request);
    count_end(&requester->stats, error, reply != NULL);
    if (requester->refused || requester->ending.begun) {
        (void)evzmq__requester_arm(requester); /* it may be what the timer is to tell of */
    }
    reply_cb(requester, number, error, reply, arg);
}

/* Checks and copies the options. Returns 0, or -1 with EINVAL. */
static int take_options(struct evzmq_requester *requester,
                        const struct evzmq_requester_options *options)
{
    struct evzmq_requester_options *own = &requester->options;
    if (options != NULL) {
        if (options->size != sizeof(*options)) {
            errno = EINVAL;
            return -1;
        }
        *own = *options;
    }
    own->retry_ms = own->retry_ms == 0 ? EVZMQ_REQUESTER_RETRY_MS : own->retry_ms;
    own->retry_max_ms = own->retry_max_ms == 0 ? EVZMQ_REQUESTER_RETRY_MAX_MS : own->retry_max_ms;
    if (own->outstanding_max == 0) {
        own->outstanding_max = EVZMQ_REQUESTER_OUTSTANDING_DEFAULT;
    }
    if (own->held_bytes_max == 0) {
        own->held_bytes_max = EVZMQ_REQUESTER_HELD_BYTES_DEFAULT;
    }
    return 0;
}

/* What tells the ids of this requester from those of any other that ever had this routing id: a
 * server may answer now what it was asked before this process was started. It need not be secret,
 * since every server reads it. */
static void choose_mark(struct evzmq_requester *requester)
{
    struct {
        struct timespec now;
        struct timespec since_boot;
        const void *own;
        long process;
    } source;
    memset(&source, 0, sizeof(source));
    (void)clock_gettime(CLOCK_REALTIME, &source.now);
    (void)clock_gettime(CLOCK_MONOTONIC, &source.since_boot);
    source.own = requester;
    source.process = (long)getpid();
    const uint64_t mark = evzmq__hash(&source, sizeof(source));
    memcpy(requester->mark, &mark, sizeof(requester->mark));
}

/* Whether a socket can have a requester. Returns 0, or -1 with errno. */
static int check_socket(const struct evzmq_socket *socket)
{
    if (evzmq__socket_check(socket) < 0) {
        return -1;
    }
    if (socket->type->zmq_type != ZMQ_DEALER) {
        errno = ENOTSUP;
        return -1;
    }
    if (socket->type == &evzmq__requester_dealer) {
        errno = EBUSY;
        return -1;
    }
    if ((socket->pause & (EVZMQ__PAUSE_SHUTDOWN | EVZMQ__PAUSE_DYING)) != 0) {
        errno = ESHUTDOWN;
        return -1;
    }
    return 0;
}

struct evzmq_requester *evzmq_requester_new(struct evzmq_socket *socket,
                                            const struct evzmq_requester_options *options)
{
    if (check_socket(socket) < 0) {
        return NULL;
    }
    struct evzmq_requester *requester = evzmq__calloc(1, sizeof(*requester));
    if (requester == NULL) {
        return NULL;
    }
    if (take_options(requester, options) < 0) {
        goto fail;
    }
    requester->timer = evzmq__timer_new(socket->base->event_base, on_tick, requester);
    if (requester->timer == NULL || evzmq__timer_stand(requester->timer) < 0) {
        goto fail;
    }
    evzmq__timer_be_patient(requester->timer);
    requester->references = 1;
    requester->armed_at = EVZMQ__REQUEST_NEVER;
    requester->base = socket->base;
    evzmq__base_ref(requester->base);
    choose_mark(requester);
    requester->socket = socket;
    requester->type_before = socket->type;
    socket->type = &evzmq__requester_dealer;
    requester->feeder.methods = &evzmq__requester_feeder;
    evzmq__feeder_add(&requester->feeder, socket);
    evzmq_socket_setcb(socket, evzmq__requester_on_reply, NULL, evzmq__requester_on_event,
                       requester);
    (void)evzmq_socket_enable(socket, EV_READ);
    return requester;

fail:;
    const int error = errno;
    evzmq__timer_free(requester->timer);
    evzmq__free(requester);
    errno = error;
    return NULL;
}

void evzmq__requester_detach(struct evzmq_requester *requester, int error)
{
    struct evzmq_socket *socket = requester->socket;
    if (socket == NULL) {
        return;
    }
    requester->socket = NULL;
    requester->failing = error;
    if (requester->feeder.socket != NULL) {
        evzmq__feeder_remove(&requester->feeder);
    }
    evzmq__message_destroy(requester->feeder.held);
    requester->feeder.held = NULL;
    while (requester->waiting_first != NULL) {
        evzmq__request_unkeep(requester, requester->waiting_first);
    }
    socket->type = requester->type_before;
    evzmq_socket_setcb(socket, NULL, NULL, NULL, NULL);
    (void)evzmq_socket_disable(socket, EV_READ);
    if (is_alive(requester)) {
        set_timer(requester);
    } else {
        evzmq__timer_stop(requester->timer);
    }
}

void evzmq_requester_free(struct evzmq_requester *requester)
{
    if (requester == NULL || evzmq__base_is_foreign(requester->base)) {
        return;
    }
    requester->dying = true;
    evzmq__requester_detach(requester, ESHUTDOWN);
    evzmq__timer_free(requester->timer);
    requester->timer = NULL;
    while (requester->heap.count > 0) {
        struct evzmq__heap_node *last = requester->heap.nodes[requester->heap.count - 1];
        evzmq__request_drop(
            requester,
            (struct evzmq__request *)((char *)last - offsetof(struct evzmq__request, due)));
    }
    while (requester->spares != NULL) {
        struct evzmq__request *spare = requester->spares;
        requester->spares = spare->next;
        evzmq__free(spare);
    }
    evzmq__heap_clear(&requester->heap);
    evzmq__table_clear(&requester->table);
    unref(requester);
}

void evzmq_requester_setcb(struct evzmq_requester *requester, evzmq_requester_write_cb write_cb,
                           evzmq_event_cb event_cb, void *arg)
{
    if (evzmq__requester_check(requester) == 0) {
        requester->write_cb = write_cb;
        requester->event_cb = event_cb;
        requester->arg = arg;
    }
}

struct evzmq_socket *evzmq_requester_get_socket(const struct evzmq_requester *requester)
{
    return requester == NULL ? NULL : requester->socket;
}

int evzmq_request_cancel(struct evzmq_requester *requester, int64_t request)
{
    if (evzmq__requester_check(requester) < 0) {
        return -1;
    }
    struct evzmq__request *found =
        request < 1 ? NULL : evzmq__request_find(requester, (uint64_t)request);
    if (found == NULL) {
        errno = ENOENT;
        return -1;
    }
    evzmq__request_drop(requester, found);
    requester->stats.cancelled++;
    (void)evzmq__requester_arm(requester);
    return 0;
}

int evzmq_requester_shutdown(struct evzmq_requester *requester, const struct timeval *deadline,
                             evzmq_requester_shutdown_cb done_cb, void *arg)
{
    if (evzmq__requester_check(requester) < 0) {
        return -1;
    }
    if (!evzmq__is_time(deadline)) {
        errno = EINVAL;
        return -1;
    }
    struct evzmq__requester_ending *ending = &requester->ending;
    if (ending->begun) {
        return 0;
    }
    const uint64_t second = UINT64_C(1000000000);
    ending->deadline = EVZMQ__REQUEST_NEVER;
    if (deadline != NULL && (uint64_t)deadline->tv_sec < UINT32_MAX) {
        ending->deadline = evzmq__clock_ns() + (uint64_t)deadline->tv_sec * second +
                           (uint64_t)deadline->tv_usec * 1000;
    }
    ending->begun = true;
    if (evzmq__requester_arm(requester) < 0) {
        ending->begun = false;
        return -1;
    }
    ending->done_cb = done_cb;
    ending->arg = arg;
    ending->replied_before = requester->stats.replies;
    ending->ended_before = requester->stats.requests - requester->table.count;
    return 0;
}

int evzmq_requester_get_stats(const struct evzmq_requester *requester,
                              struct evzmq_requester_stats *out)
{
    if (requester == NULL || out == NULL || out->size < sizeof(out->size)) {
        errno = EINVAL;
        return -1;
    }
    struct evzmq_requester_stats stats = requester->stats;
    stats.outstanding = requester->table.count;
    stats.size = out->size < sizeof(stats) ? out->size : sizeof(stats);
    memcpy(out, &stats, stats.size);
    return 0;
}
