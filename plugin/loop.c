/*
 * loop.c (L2): see loop.h.
 */
#include "loop.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "base.h"
#include "registry.h"

/* Every callback of an event begins with this. */
static void enter(const struct event *event)
{
    if (atomic_load_explicit(&evzmq__debug_mode, memory_order_relaxed)) {
        evzmq__base_note_thread(event_get_base(event));
    }
}

static const struct timeval far_off = {(time_t)24 * 60 * 60, 0};

/* The timer is pending at all times, far off where nothing is arranged. So its place in the base's
 * heap is taken and arranging a wakeup needs no memory: one that could not be arranged would be
 * missed for good. */
static int rest(struct evzmq__source *source)
{
    source->scheduled = false;
    source->delayed = false;
    return evtimer_add(source->timer, &far_off);
}

static void on_fd(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct evzmq__source *source = arg;
    enter(source->fd_event);
    if (source->callback == NULL) {
        evzmq__source_mute_in_child(source); /* Abandoned. The fd would stay readable. */
        return;
    }
    if (source->scheduled || source->delayed) {
        /* This wakeup does what the arranged one would. Both in one turn of the loop would be two
         * budgets in a row; libevent runs fds before timers, so this one is always the first. */
        (void)rest(source);
    }
    source->callback(source->arg, EVZMQ__WAKEUP_FD);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct evzmq__source *source = arg;
    enter(source->timer);
    if (source->callback == NULL) {
        return;
    }
    const bool arranged = source->scheduled || source->delayed;
    const enum evzmq__wakeup why = source->delayed ? EVZMQ__WAKEUP_DELAY : EVZMQ__WAKEUP_TURN;
    (void)rest(source);
    if (arranged) {
        source->callback(source->arg, why);
    }
}

struct evzmq__source *evzmq__source_new(struct event_base *event_base, int fd,
                                        evzmq__source_cb callback, void *arg)
{
    struct evzmq__source *source = evzmq__calloc(1, sizeof(*source));
    if (source == NULL) {
        return NULL;
    }
    source->callback = callback;
    source->arg = arg;
    source->fd_event = event_new(event_base, fd, EV_READ | EV_PERSIST, on_fd, source);
    source->timer = evtimer_new(event_base, on_timer, source);
    if (source->fd_event == NULL || source->timer == NULL || rest(source) < 0 ||
        event_add(source->fd_event, NULL) < 0) {
        evzmq__source_free(source);
        errno = ENOMEM;
        return NULL;
    }
    return source;
}

bool evzmq__source_schedule(struct evzmq__source *source)
{
    if (source->scheduled || source->callback == NULL) {
        return false;
    }
    const struct timeval no_delay = {0, 0};
    source->scheduled = evtimer_add(source->timer, &no_delay) == 0;
    source->delayed = source->delayed && !source->scheduled;
    return source->scheduled;
}

void evzmq__source_schedule_after(struct evzmq__source *source, unsigned delay_usec)
{
    if (source->scheduled || source->callback == NULL) {
        return;
    }
    const struct timeval delay = {(time_t)(delay_usec / 1000000),
                                  (suseconds_t)(delay_usec % 1000000)};
    source->delayed = evtimer_add(source->timer, &delay) == 0;
}

void evzmq__source_mute(struct evzmq__source *source)
{
    (void)event_del(source->fd_event);
    (void)event_del(source->timer);
    source->scheduled = false;
    source->delayed = false;
}

void evzmq__source_mute_in_child(struct evzmq__source *source)
{
    if (event_reinit(event_get_base(source->fd_event)) == 0) {
        evzmq__source_mute(source);
    }
}

void evzmq__source_stop(struct evzmq__source *source)
{
    source->callback = NULL;
    source->scheduled = false;
    source->delayed = false;
    if (source->fd_event != NULL) {
        event_free(source->fd_event);
        source->fd_event = NULL;
    }
    if (source->timer != NULL) {
        event_free(source->timer);
        source->timer = NULL;
    }
}

int evzmq__source_set_priority(struct evzmq__source *source, int priority)
{
    const int count = event_base_get_npriorities(event_get_base(source->fd_event));
    if (priority < 0 || priority >= count) {
        errno = EINVAL;
        return -1;
    }
    /* An event that is waiting to run keeps its place, so both are taken off first. The readable
     * edge survives that: the fd stays readable until ZMQ_EVENTS is read. */
    const bool scheduled = source->scheduled || source->delayed;
    (void)event_del(source->fd_event);
    (void)event_del(source->timer);
    int result = 0;
    if (event_priority_set(source->fd_event, priority) < 0 ||
        event_priority_set(source->timer, priority) < 0) {
        result = -1;
    }
    if (event_add(source->fd_event, NULL) < 0 || rest(source) < 0) {
        result = -1;
    }
    if (scheduled) {
        (void)evzmq__source_schedule(source);
    }
    if (result < 0) {
        errno = ENOMEM;
    }
    return result;
}

void evzmq__source_free(struct evzmq__source *source)
{
    if (source != NULL) {
        evzmq__source_stop(source);
        evzmq__free(source);
    }
}

void evzmq__source_abandon(struct evzmq__source *source, bool owns_fd, struct evzmq__source **list)
{
    source->callback = NULL;
    source->arg = NULL;
    source->owns_fd = owns_fd;
    source->next_abandoned = *list;
    *list = source;
}

static bool is_pending(const struct event *event, short events)
{
    return event != NULL && event_pending(event, events, NULL) != 0;
}

bool evzmq__source_is_any_watched(const struct evzmq__source *list)
{
    while (list != NULL && !is_pending(list->fd_event, EV_READ) &&
           !is_pending(list->timer, EV_TIMEOUT)) {
        list = list->next_abandoned;
    }
    return list != NULL;
}

void evzmq__source_free_abandoned(struct evzmq__source **list)
{
    while (*list != NULL) {
        struct evzmq__source *source = *list;
        *list = source->next_abandoned;
        const bool has_fd = source->owns_fd && source->fd_event != NULL;
        const int fd = has_fd ? (int)event_get_fd(source->fd_event) : -1;
        evzmq__source_free(source);
        if (fd >= 0) {
            (void)close(fd);
        }
    }
}

enum {
    /* How much later than it should a patient timer may fire before it is doubted, and how much
     * later it then fires again. */
    DOUBT_MS = 100,
    /* libevent's clock may be one that ticks this rarely. */
    TICK_MS = 10
};

struct evzmq__timer {
    struct event *event;
    void (*callback)(void *arg);
    void *arg;
    bool stands;
    bool patient;
    bool doubted;
    uint64_t due; /* of a patient one */
};

static uint64_t timeval_ns(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * UINT64_C(1000000000) + (uint64_t)time->tv_usec * 1000;
}

/* Whether a patient timer is to fire again later, which is arranged then. */
static bool is_doubtful(struct evzmq__timer *timer)
{
    const uint64_t ms = UINT64_C(1000000);
    const uint64_t now = evzmq__clock_ns();
    uint64_t more = DOUBT_MS * ms;
    if (now + TICK_MS * ms < timer->due) {
        /* libevent counts from when its loop woke, which may be long ago. */
        more = timer->due - now;
    } else if (timer->doubted || now <= timer->due + DOUBT_MS * ms) {
        return false;
    } else {
        timer->doubted = true;
    }
    timer->due = now + more;
    const struct timeval delay = {(time_t)(more / (1000 * ms)),
                                  (suseconds_t)(more % (1000 * ms) / 1000)};
    return evtimer_add(timer->event, &delay) == 0;
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct evzmq__timer *timer = arg;
    enter(timer->event);
    if (timer->patient && is_doubtful(timer)) {
        return;
    }
    if (timer->stands) {
        (void)evtimer_add(timer->event, &far_off);
    }
    timer->callback(timer->arg);
}

struct evzmq__timer *evzmq__timer_new(struct event_base *event_base, void (*callback)(void *arg),
                                      void *arg)
{
    struct evzmq__timer *timer = evzmq__calloc(1, sizeof(*timer));
    if (timer == NULL) {
        return NULL;
    }
    timer->callback = callback;
    timer->arg = arg;
    timer->event = evtimer_new(event_base, on_timeout, timer);
    if (timer->event == NULL) {
        evzmq__free(timer);
        errno = ENOMEM;
        return NULL;
    }
    return timer;
}

void evzmq__timer_be_patient(struct evzmq__timer *timer)
{
    timer->patient = true;
}

int evzmq__timer_start(struct evzmq__timer *timer, const struct timeval *delay)
{
    /* 34 years. libevent adds the delay to the time without a look at the range of time_t. */
    const struct timeval longest = {INT32_MAX / 2, 0};
    const struct timeval *after = delay->tv_sec < longest.tv_sec ? delay : &longest;
    if (evtimer_add(timer->event, after) < 0) {
        errno = ENOMEM;
        return -1;
    }
    if (timer->patient) {
        timer->due = evzmq__clock_ns() + timeval_ns(after);
        timer->doubted = false;
    }
    return 0;
}

int evzmq__timer_stand(struct evzmq__timer *timer)
{
    timer->stands = true;
    return evzmq__timer_start(timer, &far_off);
}

void evzmq__timer_stop(struct evzmq__timer *timer)
{
    timer->stands = false;
    (void)evtimer_del(timer->event);
}

void evzmq__timer_free(struct evzmq__timer *timer)
{
    if (timer != NULL) {
        event_free(timer->event);
        evzmq__free(timer);
    }
}

int evzmq__loop_turn(struct event_base *event_base)
{
    return event_base_loop(event_base, EVLOOP_ONCE);
}

bool evzmq__loop_was_ended(struct event_base *event_base)
{
    return event_base_got_break(event_base) != 0 || event_base_got_exit(event_base) != 0;
}

uint64_t evzmq__clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
