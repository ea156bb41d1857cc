/*
 * pool.c (L6): making and freeing a pool, its timer, and what it tells about itself.
 */
#include "pool.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

#include "base.h"
#include "codec.h"
#include "headed.h"

enum {
    /* File descriptors that a worker costs: the request socket, its listener and connection, a
     * connection each for answers and ready signals, and its process. */
    DESCRIPTORS_PER_WORKER = 6,
    DESCRIPTORS_PER_POOL = 8,
    /* How long evzmq_pool_free() waits for a process that it killed. */
    FREE_WAIT_MS = 1000,
    PORT_MAX = 65535
};

int evzmq__pool_check_usable(const struct evzmq_pool *pool)
{
    if (pool == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (evzmq__base_check(pool->base) < 0) {
        return -1;
    }
    return 0;
}

void evzmq__pool_ref(struct evzmq_pool *pool)
{
    pool->references++;
}

static void free_memory(struct evzmq_pool *pool)
{
    for (unsigned i = 0; pool->workers != NULL && i < pool->n_workers; i++) {
        evzmq__free(pool->workers[i].connection);
    }
    for (size_t i = 0; pool->argv != NULL && i < pool->argc; i++) {
        evzmq__free(pool->argv[i]);
    }
    evzmq__free(pool->workers);
    evzmq__free(pool->argv);
    evzmq__free(pool->endpoint);
    evzmq__free(pool->advertised);
    evzmq_codec_free(pool->codec);
    if (pool->base != NULL) {
        evzmq__base_release(pool->base);
    }
    evzmq__free(pool);
}

void evzmq__pool_unref(struct evzmq_pool *pool)
{
    if (--pool->references == 0) {
        free_memory(pool);
    }
}

bool evzmq__pool_enter(struct evzmq_pool *pool)
{
    if (evzmq__base_is_stale(pool->base)) {
        return false;
    }
    evzmq__pool_ref(pool);
    pool->base->depth++;
    return true;
}

void evzmq__pool_leave(struct evzmq_pool *pool)
{
    pool->base->depth--;
    evzmq__pool_unref(pool);
}

void evzmq__pool_report(struct evzmq_pool *pool, struct evzmq_pool_event *event)
{
    event->size = sizeof(*event);
    if (pool->event_cb != NULL && evzmq__pool_is_alive(pool)) {
        pool->event_cb(pool, event, pool->arg);
    }
}

void evzmq__pool_attend(struct evzmq_pool *pool)
{
    const struct timeval now = {0, 0};
    if (!pool->attention && !pool->dying) {
        pool->attention = evzmq__timer_start(pool->timer, &now) == 0;
    }
}

/* Starts the timer for what is due next. */
static void arm(struct evzmq_pool *pool)
{
    uint64_t next = evzmq__check_next(pool);
    const uint64_t ending = evzmq__ending_next(pool);
    next = ending < next ? ending : next;
    for (unsigned i = 0; i < pool->n_workers; i++) {
        const uint64_t worker = evzmq__worker_next(&pool->workers[i]);
        next = worker < next ? worker : next;
    }
    if (pool->attention || next == EVZMQ__NEVER) {
        return; /* It is set for the next turn, or for nothing. */
    }
    const uint64_t now = evzmq__clock_ns();
    const uint64_t usec = next > now ? (next - now + 999) / 1000 : 0;
    const struct timeval delay = {(time_t)(usec / 1000000), (suseconds_t)(usec % 1000000)};
    (void)evzmq__timer_start(pool->timer, &delay);
}

static void on_tick(void *arg)
{
    struct evzmq_pool *pool = arg;
    if (!evzmq__pool_enter(pool)) {
        return;
    }
    const uint64_t now = evzmq__clock_ns();
    pool->attention = false;
    for (unsigned i = 0; i < pool->n_workers && evzmq__pool_is_alive(pool); i++) {
        evzmq__worker_tick(&pool->workers[i], now);
    }
    if (evzmq__pool_is_alive(pool)) {
        evzmq__check_tick(pool, now);
    }
    if (evzmq__pool_is_alive(pool)) {
        evzmq__ending_tick(pool, now);
    }
    if (evzmq__pool_is_alive(pool)) {
        arm(pool);
    }
    evzmq__pool_leave(pool);
}

static int copy_argv(struct evzmq_pool *pool, const char *const *argv)
{
    size_t count = 0;
    while (argv[count] != NULL) {
        count++;
    }
    pool->argv = evzmq__calloc(count + 2, sizeof(*pool->argv));
    if (pool->argv == NULL) {
        return -1;
    }
    for (; pool->argc < count; pool->argc++) {
        pool->argv[pool->argc] = evzmq__copy_text(argv[pool->argc]);
        if (pool->argv[pool->argc] == NULL) {
            return -1;
        }
    }
    return 0;
}

static void set_default(unsigned *field, unsigned value)
{
    *field = *field == 0 ? value : *field;
}

/* Checks the options and copies what they point to. Returns 0, or -1 with EINVAL or ENOMEM. */
static int take_options(struct evzmq_pool *pool, const struct evzmq_pool_options *options)
{
    struct evzmq_pool_options *own = &pool->options;
    if (options != NULL && (options->size != sizeof(*options) ||
                            (options->worker_argv != NULL && options->worker_argv[0] == NULL) ||
                            options->request_hwm > INT_MAX)) {
        errno = EINVAL;
        return -1;
    }
    if (options != NULL) {
        *own = *options;
    }
    set_default(&own->ready_ms, EVZMQ_POOL_READY_MS);
    set_default(&own->heartbeat_ms, EVZMQ_POOL_HEARTBEAT_MS);
    set_default(&own->silence_ms, EVZMQ_POOL_SILENCE_MS);
    set_default(&own->restart_delay_ms, EVZMQ_POOL_RESTART_DELAY_MS);
    set_default(&own->restart_delay_max_ms, EVZMQ_POOL_RESTART_DELAY_MAX_MS);
    set_default(&own->request_hwm, EVZMQ_POOL_REQUEST_HWM);
    if (own->silence_ms != UINT_MAX && own->heartbeat_ms >= own->silence_ms) {
        errno = EINVAL; /* Whoever has nothing to answer would be silent. */
        return -1;
    }
    pool->codec = own->codec == NULL ? evzmq_codec_raw() : own->codec;
    evzmq__codec_ref(pool->codec);
    if ((own->worker_argv != NULL && copy_argv(pool, own->worker_argv) < 0) ||
        (own->endpoint != NULL && (pool->endpoint = evzmq__copy_text(own->endpoint)) == NULL) ||
        (own->advertised_address != NULL &&
         (pool->advertised = evzmq__copy_text(own->advertised_address)) == NULL)) {
        return -1;
    }
    own->worker_argv = NULL;
    own->endpoint = NULL;
    own->advertised_address = NULL;
    own->codec = NULL;
    return 0;
}

/* Writes the endpoint to bind the pool's index-th socket to. Returns 0, or -1 with EINVAL. */
static int choose_endpoint(const struct evzmq_pool *pool, unsigned index, char *out, size_t room)
{
    const char *endpoint = pool->endpoint == NULL ? "ipc://*" : pool->endpoint;
    const char *port = strrchr(endpoint, ':') + 1;
    int length = 0;
    if (pool->endpoint == NULL || strcmp(port, "*") == 0) {
        length = snprintf(out, room, "%s", endpoint);
    } else {
        char *end = NULL;
        const unsigned long first = strtoul(port, &end, 10);
        if (*port < '0' || *port > '9' || *end != '\0' || first == 0 || first > PORT_MAX ||
            first + index > PORT_MAX) {
            errno = EINVAL;
            return -1;
        }
        length = snprintf(out, room, "%.*s%lu", (int)(port - endpoint), endpoint, first + index);
    }
    if (length < 0 || (size_t)length >= room) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

/* Makes, binds and attaches one socket. NULL with errno. */
static struct evzmq_socket *make_socket(struct evzmq_pool *pool, int type, unsigned index)
{
    char endpoint[256];
    const int hwm = (int)pool->options.request_hwm;
    const int ipv6 = pool->endpoint != NULL && strchr(pool->endpoint, '[') != NULL;
    if (choose_endpoint(pool, index, endpoint, sizeof(endpoint)) < 0) {
        return NULL;
    }
    void *zmq_socket = evzmq_context_socket(pool->context, type);
    if (zmq_socket == NULL) {
        return NULL;
    }
    struct evzmq_socket *socket = NULL;
    if ((type != ZMQ_PUSH || zmq_setsockopt(zmq_socket, ZMQ_SNDHWM, &hwm, sizeof(hwm)) == 0) &&
        zmq_setsockopt(zmq_socket, ZMQ_IPV6, &ipv6, sizeof(ipv6)) == 0 &&
        evzmq_context_bind(pool->context, zmq_socket, endpoint) == 0) {
        socket = evzmq_socket_new(pool->base->event_base, zmq_socket, EVZMQ_OPT_CLOSE_ON_FREE);
    }
    if (socket == NULL) {
        const int error = errno;
        (void)evzmq_context_close_socket(pool->context, zmq_socket);
        errno = error;
    }
    return socket;
}

/* Makes the sockets that all workers share. */
static int make_shared(struct evzmq_pool *pool)
{
    pool->ready = make_socket(pool, ZMQ_PULL, 0);
    if (pool->ready == NULL) {
        return -1;
    }
    evzmq_socket_setcb(pool->ready, evzmq__pool_on_ready, NULL, NULL, pool);
    if (evzmq_socket_enable(pool->ready, EV_READ) < 0) {
        return -1;
    }
    pool->responses = make_socket(pool, ZMQ_PULL, 1);
    if (pool->responses == NULL) {
        return -1;
    }
    evzmq__headed_receive(pool->responses);
    evzmq_socket_setcb(pool->responses, NULL, NULL, evzmq__pool_on_response_event, pool);
    return evzmq_socket_set_codec(pool->responses, pool->codec);
}

static int make_worker(struct evzmq_pool *pool, unsigned identity)
{
    struct evzmq__pool_worker *worker = &pool->workers[identity];
    worker->pool = pool;
    worker->identity = identity;
    worker->process.fd = -1;
    worker->due_at = EVZMQ__NEVER;
    worker->requests = make_socket(pool, ZMQ_PUSH, 2 + identity);
    if (worker->requests == NULL) {
        return -1;
    }
    evzmq_socket_setcb(worker->requests, NULL, NULL, evzmq__pool_socket_event, worker);
    if (evzmq_socket_set_codec(worker->requests, pool->codec) < 0) {
        return -1;
    }
    return evzmq_socket_set_output_limit(worker->requests, pool->options.output_messages,
                                         pool->options.output_bytes);
}

/* Makes everything that a pool has. Returns 0, or -1 with errno. */
static int build(struct evzmq_pool *pool, struct event_base *base,
                 const struct evzmq_pool_options *options)
{
    if (take_options(pool, options) < 0) {
        return -1;
    }
    if (pool->endpoint != NULL && strncmp(pool->endpoint, "tcp://", 6) != 0) {
        errno = EINVAL;
        return -1;
    }
    pool->base = evzmq__base_acquire(base);
    if (pool->base == NULL) {
        return -1;
    }
    const size_t descriptors =
        DESCRIPTORS_PER_POOL + (size_t)pool->n_workers * DESCRIPTORS_PER_WORKER;
    if (evzmq_context_check_descriptors(pool->context, descriptors) < 0) {
        return -1;
    }
    pool->timer = evzmq__timer_new(base, on_tick, pool);
    pool->workers = evzmq__calloc(pool->n_workers, sizeof(*pool->workers));
    if (pool->timer == NULL || evzmq__timer_stand(pool->timer) < 0 || pool->workers == NULL ||
        make_shared(pool) < 0) {
        return -1;
    }
    for (unsigned i = 0; i < pool->n_workers; i++) {
        if (make_worker(pool, i) < 0) {
            return -1;
        }
    }
    for (unsigned i = 0; i < pool->n_workers; i++) {
        if (evzmq__worker_start(&pool->workers[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

struct evzmq_pool *evzmq_pool_new(struct event_base *base, struct evzmq_context *context,
                                  unsigned n_workers, const struct evzmq_pool_options *options)
{
    if (base == NULL || context == NULL || n_workers == 0 || n_workers > EVZMQ_POOL_WORKERS_MAX) {
        errno = EINVAL;
        return NULL;
    }
    struct evzmq_pool *pool = evzmq__calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return NULL;
    }
    pool->references = 1;
    pool->context = context;
    pool->n_workers = n_workers;
    if (build(pool, base, options) < 0) {
        const int error = errno;
        evzmq_pool_free(pool);
        errno = error;
        return NULL;
    }
    arm(pool);
    return pool;
}

/* Ends the processes that still run. All are killed first, so that they end side by side. */
static void end_processes(struct evzmq_pool *pool)
{
    for (unsigned i = 0; pool->workers != NULL && i < pool->n_workers; i++) {
        evzmq__process_signal(&pool->workers[i].process, SIGKILL);
    }
    const uint64_t limit = evzmq__clock_ns() + FREE_WAIT_MS * EVZMQ__MS;
    for (unsigned i = 0; pool->workers != NULL && i < pool->n_workers; i++) {
        struct evzmq__pool_worker *worker = &pool->workers[i];
        const uint64_t now = evzmq__clock_ns();
        (void)evzmq__process_wait(&worker->process,
                                  now < limit ? (unsigned)((limit - now) / EVZMQ__MS) : 0);
        if (worker->pool != NULL) {
            evzmq__worker_unwatch(worker);
        }
    }
}

/* In a forked child: the processes are the parent's children, and the watches are the parent's in
 * the kernel. The fds stay open until evzmq_after_fork(): libevent will look at them in
 * event_reinit(). */
static void abandon_watches(struct evzmq_pool *pool)
{
    for (unsigned i = 0; i < pool->n_workers; i++) {
        if (pool->workers[i].watch != NULL) {
            evzmq__source_abandon(pool->workers[i].watch, true, &pool->base->abandoned);
            pool->workers[i].watch = NULL;
        }
    }
}

void evzmq_pool_free(struct evzmq_pool *pool)
{
    if (pool == NULL || (pool->base != NULL && evzmq__base_is_foreign(pool->base))) {
        return;
    }
    pool->dying = true;
    if (pool->base != NULL && evzmq__base_is_stale(pool->base)) {
        abandon_watches(pool);
    } else {
        end_processes(pool);
    }
    evzmq__timer_free(pool->timer);
    pool->timer = NULL;
    for (unsigned i = 0; pool->workers != NULL && i < pool->n_workers; i++) {
        evzmq_socket_free(pool->workers[i].requests);
    }
    evzmq_socket_free(pool->responses);
    evzmq_socket_free(pool->ready);
    evzmq__pool_unref(pool);
}

char *evzmq__pool_endpoint(const struct evzmq_pool *pool, const struct evzmq_socket *socket)
{
    const char *endpoint = evzmq_context_get_endpoint(pool->context, socket->zmq_socket);
    if (endpoint == NULL) {
        return NULL;
    }
    const char *port = strrchr(endpoint, ':');
    if (pool->advertised == NULL || pool->endpoint == NULL || port == NULL) {
        return evzmq__copy_text(endpoint);
    }
    const size_t size = sizeof("tcp://") + strlen(pool->advertised) + strlen(port);
    char *told = evzmq__malloc(size);
    if (told != NULL) {
        (void)snprintf(told, size, "tcp://%s%s", pool->advertised, port);
    }
    return told;
}

void evzmq_pool_setcb(struct evzmq_pool *pool, evzmq_pool_answer_cb answer_cb,
                      evzmq_pool_event_cb event_cb, void *arg)
{
    if (evzmq__pool_check_usable(pool) < 0) {
        return;
    }
    pool->answer_cb = answer_cb;
    pool->event_cb = event_cb;
    pool->arg = arg;
    evzmq_socket_setcb(pool->responses, answer_cb == NULL ? NULL : evzmq__pool_on_answer, NULL,
                       evzmq__pool_on_response_event, pool);
}

int evzmq_pool_enable(struct evzmq_pool *pool)
{
    return evzmq__pool_check_usable(pool) < 0 ? -1 : evzmq_socket_enable(pool->responses, EV_READ);
}

int evzmq_pool_disable(struct evzmq_pool *pool)
{
    return evzmq__pool_check_usable(pool) < 0 ? -1 : evzmq_socket_disable(pool->responses, EV_READ);
}

unsigned evzmq_pool_get_workers(const struct evzmq_pool *pool)
{
    return pool == NULL ? 0 : pool->n_workers;
}

struct evzmq_socket *evzmq_pool_get_response_socket(const struct evzmq_pool *pool)
{
    return pool == NULL ? NULL : pool->responses;
}

/* A worker by its number; NULL with EINVAL. */
static const struct evzmq__pool_worker *find(const struct evzmq_pool *pool, unsigned worker)
{
    if (pool == NULL || worker >= pool->n_workers) {
        errno = EINVAL;
        return NULL;
    }
    return &pool->workers[worker];
}

struct evzmq_socket *evzmq_pool_get_request_socket(const struct evzmq_pool *pool, unsigned worker)
{
    const struct evzmq__pool_worker *found = find(pool, worker);
    return found == NULL ? NULL : found->requests;
}

const char *evzmq_pool_get_connection(const struct evzmq_pool *pool, unsigned worker)
{
    const struct evzmq__pool_worker *found = find(pool, worker);
    return found == NULL ? NULL : found->connection;
}

int evzmq_pool_get_stats(const struct evzmq_pool *pool, struct evzmq_pool_stats *out)
{
    if (pool == NULL || out == NULL || out->size < sizeof(out->size)) {
        errno = EINVAL;
        return -1;
    }
    struct evzmq_pool_stats stats = pool->stats;
    stats.up = pool->up;
    stats.size = out->size < sizeof(stats) ? out->size : sizeof(stats);
    memcpy(out, &stats, stats.size);
    return 0;
}

int evzmq_pool_get_worker_stats(const struct evzmq_pool *pool, unsigned worker,
                                struct evzmq_pool_worker_stats *out)
{
    const struct evzmq__pool_worker *found = find(pool, worker);
    if (found == NULL || out == NULL || out->size < sizeof(out->size)) {
        errno = EINVAL;
        return -1;
    }
    struct evzmq_pool_worker_stats stats = {
        .size = out->size < sizeof(stats) ? out->size : sizeof(stats),
        .state = found->state,
        .pid = (long)found->process.pid,
        .sent = found->sent,
        .answered = found->answered,
        .answers = found->answers,
        .unanswered = evzmq__worker_unanswered(found),
        .queued = evzmq__worker_queued(found),
        .losses = found->losses,
        .restarts = found->restarts,
        .last_seen_ms =
            found->seen_at == 0 ? -1 : (int64_t)((evzmq__clock_ns() - found->seen_at) / EVZMQ__MS),
    };
    memcpy(out, &stats, stats.size);
    return 0;
}

const char *evzmq_pool_loss_name(enum evzmq_pool_loss loss)
{
    static const char *const names[] = {
        [EVZMQ_POOL_LOSS_NONE] = "none",
        [EVZMQ_POOL_LOSS_EXITED] = "exited",
        [EVZMQ_POOL_LOSS_KILLED] = "killed",
        [EVZMQ_POOL_LOSS_SILENT] = "silent",
        [EVZMQ_POOL_LOSS_NEVER_READY] = "never ready",
        [EVZMQ_POOL_LOSS_NOT_STARTED] = "not started",
    };
    const size_t number = (size_t)loss;
    return number < sizeof(names) / sizeof(names[0]) ? names[number] : "unknown";
}
