/*
 * worker.h (L6): the worker's side of a pool, shared by the files that make it up.
 *
 *     worker.c        the life of a worker: connected, ready, beating, asked to end, ended
 *     worker_join.c   evzmq_worker_new, evzmq_worker_free, getters, answers
 */
#ifndef EVZMQ_PLUGIN_WORKER_H
#define EVZMQ_PLUGIN_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include <evzmq/context.h>
#include <evzmq/monitor.h>
#include <evzmq/worker.h>

#include "link.h"
#include "registry.h"
#include "socket.h"

/* Never, as a time. */
#define EVZMQ__WORKER_NEVER UINT64_MAX

/* The two connections that make a worker ready. */
enum { EVZMQ__LINE_REQUESTS, EVZMQ__LINE_RESPONSES, EVZMQ__LINES };

struct evzmq__line {
    struct evzmq_worker *worker;
    struct evzmq_monitor *monitor;
    bool connected;
};

struct evzmq_worker {
    struct evzmq__base *base;
    struct evzmq_context *context;
    bool owns_context;
    unsigned references; /* the user's, and one for each function that must find it in place */
    bool dying;

    evzmq_worker_request_cb request_cb;
    evzmq_worker_event_cb event_cb;
    void *arg;

    struct evzmq__link link;
    struct evzmq_worker_options options; /* without pointers, with the defaults filled in */
    struct evzmq_codec *codec;
    struct evzmq_socket *requests;
    struct evzmq_socket *responses;
    struct evzmq_socket *ready;
    struct evzmq__line lines[EVZMQ__LINES];
    struct evzmq__timer *beat;
    struct evzmq__source *parent; /* NULL without a process fd */
    int parent_fd;
    bool is_child; /* of the main process: its parent changes when that is gone */

    uint64_t apart_at; /* not connected since; EVZMQ__WORKER_NEVER while connected */
    uint64_t beat_at; /* of the last ready signal */
    bool greets; /* it is still to say that it is connected */
    bool is_ready; /* both lines were connected once */
    bool asked; /* to end; the event was told */
    bool held; /* evzmq_worker_hold() */
    bool in_end; /* in the callback of that event */
    bool ending; /* evzmq_worker_shutdown() */
    bool cut_off; /* the context was terminated */
    bool over; /* ending, and no answer can go out any more: the next beat is the last */
    bool ended;
    enum evzmq_worker_reason reason;
};

/* Whether a call may use the worker. Returns 0, or -1 with EINVAL or ECHILD. */
int evzmq__worker_check(const struct evzmq_worker *worker);

/* Gives a reference back. */
void evzmq__worker_unref(struct evzmq_worker *worker);

/* Takes everything off the base. */
void evzmq__worker_take_down(struct evzmq_worker *worker);

/* Callbacks: of the monitors, of the watch of the main process, of the timer, of the sockets. */
void evzmq__worker_on_line(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event,
                           void *arg);
void evzmq__worker_on_parent(void *arg, enum evzmq__wakeup why);
void evzmq__worker_on_beat(void *arg);
void evzmq__worker_on_request(struct evzmq_socket *socket, struct evzmq_message *message,
                              void *arg);
void evzmq__worker_on_socket_event(struct evzmq_socket *socket, const struct evzmq_event *event,
                                   void *arg);

/* Starts the timer of the next beat. */
void evzmq__worker_start_beat(struct evzmq_worker *worker);

/* Whether the main process, where its number is known, does not exist any more. */
bool evzmq__worker_is_orphan(const struct evzmq_worker *worker);

#endif /* EVZMQ_PLUGIN_WORKER_H */
