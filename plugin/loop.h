/*
 * loop.h (L2): the only part that calls libevent's event functions.
 *
 * A source wakes its owner in two ways, which are the only two ways a pass starts: the socket's
 * ZMQ_FD is readable, or a timer of the source fires.
 *
 * Facts this rests on, with libzmq 4.3.4 and libevent 2.1.12:
 * - ZMQ_FD signals only by becoming readable, for input and for output. Waiting for it to be
 *   writable fires all the time. So EV_READ only, always, whatever the owner is interested in.
 * - The signal is an edge. Whoever stops before ZMQ_EVENTS says there is nothing left must come
 * back by itself.
 * - Coming back by event_active() on oneself, or by event_base_once() with a zero timeout, starves
 *   timers and other fds entirely. A timer with a zero delay takes turns with them. So that is how
 *   it is done, and one is pending at most.
 */
#ifndef EVZMQ_LOOP_H
#define EVZMQ_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <event2/event.h>

struct event;
struct event_base;
struct timeval;

/* Why a source wakes its owner. */
enum evzmq__wakeup {
    EVZMQ__WAKEUP_FD,
    EVZMQ__WAKEUP_TURN, /* arranged by evzmq__source_schedule() */
    EVZMQ__WAKEUP_DELAY /* arranged by evzmq__source_schedule_after() */
};

typedef void (*evzmq__source_cb)(void *arg, enum evzmq__wakeup why);

/*
 * Allocated apart from its owner, because in a forked child it may have to outlive it: before
 * event_reinit() an event cannot be deleted there without deleting the parent's registration in the
 * kernel, which both processes share.
 */
struct evzmq__source {
    struct event *fd_event;
    struct event *timer;
    evzmq__source_cb callback; /* NULL once the source is dead */
    void *arg;
    struct evzmq__source *next_abandoned;
    bool scheduled; /* the timer is pending, with no delay */
    bool delayed; /* the timer is pending, with a delay */
    bool owns_fd; /* abandoned together with its fd */
};

/* Starts to watch a ZMQ_FD. NULL with ENOMEM. */
struct evzmq__source *evzmq__source_new(struct event_base *event_base, int fd,
                                        evzmq__source_cb callback, void *arg);

/* Wakes the owner in the next turn of the loop. Does nothing when that is arranged already.
 * Returns whether it was not arranged before. */
bool evzmq__source_schedule(struct evzmq__source *source);

/* Wakes the owner after a delay, or earlier when something else does: each wakeup cancels it. */
void evzmq__source_schedule_after(struct evzmq__source *source, unsigned delay_usec);

/* Takes the events off the loop. */
void evzmq__source_mute(struct evzmq__source *source);

/* The same in a forked child that runs the loop. Until event_reinit() the kernel's set of fds is
 * the parent's too, and what is taken off it the parent never hears of again. Whoever runs an
 * inherited base should have called that, but a child that was forked in a callback is back in the
 * loop before it can; so it is called here. Another call does no harm. */
void evzmq__source_mute_in_child(struct evzmq__source *source);

/* Stops all wakeups; the source lets the loop's dispatch end. It cannot be started again. */
void evzmq__source_stop(struct evzmq__source *source);

/* Gives the events another priority. Returns 0, or -1 with EINVAL or ENOMEM. */
int evzmq__source_set_priority(struct evzmq__source *source, int priority);

/* Stops and frees. NULL is ignored. */
void evzmq__source_free(struct evzmq__source *source);

/* In a forked child: makes the source mute and puts it on a list instead of freeing it. With
 * `owns_fd` the list takes over its fd too, which has to stay open until event_reinit(): that
 * registers it again. */
void evzmq__source_abandon(struct evzmq__source *source, bool owns_fd, struct evzmq__source **list);

/* Whether any of the list is still on the loop. */
bool evzmq__source_is_any_watched(const struct evzmq__source *list);

/* In a forked child after event_reinit(): frees the list and closes the fds it took over. */
void evzmq__source_free_abandoned(struct evzmq__source **list);

/* A timer of one shot, for time-outs and deadlines. */
struct evzmq__timer;

/* NULL with ENOMEM. It has the base's default priority. */
struct evzmq__timer *evzmq__timer_new(struct event_base *event_base, void (*callback)(void *arg),
                                      void *arg);

/* For timers that say that something has not come. A loop that stood still, because its process was
 * stopped or a callback took long, finds them due though it came meanwhile: it waits to be read,
 * perhaps by libzmq's threads, which stood still as well. So a patient timer that fires late fires
 * again a little later, and the callback runs only if nobody has restarted or stopped it by then.
 * Nor does it fire too early where it was started late in a turn of the loop. */
void evzmq__timer_be_patient(struct evzmq__timer *timer);

/* (Re)starts the timer. Returns 0, or -1 with ENOMEM. */
int evzmq__timer_start(struct evzmq__timer *timer, const struct timeval *delay);

/* Has the timer pending at all times from now on, a day off where it was not started for earlier:
 * then starting it needs no memory and cannot fail. The callback bears being called for nothing.
 * For what keeps the loop's dispatch running anyway. Returns 0, or -1 with ENOMEM. */
int evzmq__timer_stand(struct evzmq__timer *timer);

/* Takes the timer off the loop. One that stands does so no longer: it is for when nothing else
 * keeps the loop's dispatch running any more. */
void evzmq__timer_stop(struct evzmq__timer *timer);

/* NULL is ignored. Also legal in a forked child: a timer is in no table of the kernel. */
void evzmq__timer_free(struct evzmq__timer *timer);

/* Whether a callback asked the loop to break. Only event_base_loopbreak() can take effect in the
 * middle of a pass: event_base_loopexit() acts through a timer, which cannot run meanwhile. */
static inline bool evzmq__loop_is_breaking(struct event_base *event_base)
{
    return event_base_got_break(event_base) != 0;
}

/* Runs the loop until something happened: one turn. Returns 0, 1 when the base has no events left,
 * or -1 when it cannot run (it is running already: the call comes from a callback). */
int evzmq__loop_turn(struct event_base *event_base);

/* Whether the last turn was ended by event_base_loopbreak() or event_base_loopexit(). */
bool evzmq__loop_was_ended(struct event_base *event_base);

/* Monotonic nanoseconds. */
uint64_t evzmq__clock_ns(void);

#endif /* EVZMQ_LOOP_H */
