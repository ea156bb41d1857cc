/*
 * faults.c: see faults.h. One __wrap_ function for each call, all of the same shape: pass() says
 * whether the call may go on to __real_.
 */
#include "faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

enum { KINDS = 14, PLANS = 8 };

struct plan {
    unsigned calls;
    size_t until; /* calls before the first that fails */
    size_t times;
    int error;
    int (*error_of)(const char *name); /* instead of `error` */
    const char *name; /* of the call that failed so; only that fails again */
    void (*run)(void *arg); /* instead of failing */
    void *arg;
};

static _Thread_local bool active; /* libzmq's threads free messages meanwhile */
static bool inside; /* a function of faults_before() runs */
static void *watched;
static struct plan plans[PLANS];
static size_t plan_count;
static size_t counts[KINDS];
static size_t made[KINDS];
static const char *failed_name;
static bool in_message;
static char text[16384];
char faults_any_socket;

/* The linker's names. */
int __real_zmq_msg_recv(zmq_msg_t *msg, void *socket, int flags);
int __wrap_zmq_msg_recv(zmq_msg_t *msg, void *socket, int flags);
int __real_zmq_msg_send(zmq_msg_t *msg, void *socket, int flags);
int __wrap_zmq_msg_send(zmq_msg_t *msg, void *socket, int flags);
int __real_zmq_getsockopt(void *socket, int option, void *value, size_t *size);
int __wrap_zmq_getsockopt(void *socket, int option, void *value, size_t *size);
int __real_zmq_setsockopt(void *socket, int option, const void *value, size_t size);
int __wrap_zmq_setsockopt(void *socket, int option, const void *value, size_t size);
int __real_zmq_close(void *socket);
int __wrap_zmq_close(void *socket);
int __real_zmq_msg_init_size(zmq_msg_t *msg, size_t size);
int __wrap_zmq_msg_init_size(zmq_msg_t *msg, size_t size);
int __real_zmq_msg_init_data(zmq_msg_t *msg, void *data, size_t size, zmq_free_fn *release,
                             void *hint);
int __wrap_zmq_msg_init_data(zmq_msg_t *msg, void *data, size_t size, zmq_free_fn *release,
                             void *hint);
int __real_zmq_msg_copy(zmq_msg_t *to, zmq_msg_t *from);
int __wrap_zmq_msg_copy(zmq_msg_t *to, zmq_msg_t *from);
struct event *__real_event_new(struct event_base *base, evutil_socket_t fd, short what,
                               event_callback_fn callback, void *arg);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                               event_callback_fn callback, void *arg);
int __real_event_add(struct event *event, const struct timeval *timeout);
int __wrap_event_add(struct event *event, const struct timeval *timeout);
void *__real_evzmq__malloc(size_t size);
void *__wrap_evzmq__malloc(size_t size);
void *__real_evzmq__calloc(size_t count, size_t size);
void *__wrap_evzmq__calloc(size_t count, size_t size);
char *__real_evzmq__copy_text(const char *original);
char *__wrap_evzmq__copy_text(const char *original);
void *__real_evzmq__realloc(void *block, size_t size);
void *__wrap_evzmq__realloc(void *block, size_t size);

void faults_begin(void *zmq_socket)
{
    memset(plans, 0, sizeof(plans));
    memset(counts, 0, sizeof(counts));
    plan_count = 0;
    memset(made, 0, sizeof(made));
    text[0] = '\0';
    failed_name = NULL;
    in_message = false;
    watched = zmq_socket;
    active = true;
}

void faults_end(void)
{
    active = false;
}

static struct plan *plan_new(unsigned calls, size_t first)
{
    struct plan *const plan = &plans[plan_count < PLANS - 1 ? plan_count++ : PLANS - 1];
    *plan = (struct plan){.calls = calls, .until = first - 1};
    return plan;
}

void faults_plan(unsigned calls, size_t first, size_t times, int error)
{
    struct plan *const plan = plan_new(calls, first);
    plan->times = times;
    plan->error = error;
}

void faults_before(unsigned calls, size_t n, void (*run)(void *arg), void *arg)
{
    struct plan *const plan = plan_new(calls, n);
    plan->times = 1;
    plan->run = run;
    plan->arg = arg;
}

void faults_plan_by_name(unsigned calls, size_t n, int (*error_of)(const char *name))
{
    struct plan *const plan = plan_new(calls, n);
    plan->times = 1;
    plan->error_of = error_of;
}

static size_t sum(const size_t *numbers, unsigned calls)
{
    size_t result = 0;
    for (unsigned i = 0; i < KINDS; i++) {
        result += (calls & (1u << i)) != 0 ? numbers[i] : 0;
    }
    return result;
}

size_t faults_count(unsigned calls)
{
    return sum(counts, calls);
}

size_t faults_made(unsigned calls)
{
    return sum(made, calls);
}

const char *faults_log(void)
{
    return text;
}

void faults_log_clear(void)
{
    text[0] = '\0';
}

static const char *error_name(int error)
{
    static const struct {
        int error;
        const char *name;
    } names[] = {{EAGAIN, "EAGAIN"},    {EINTR, "EINTR"}, {ENOMEM, "ENOMEM"},
                 {ETERM, "ETERM"},      {EFSM, "EFSM"},   {EHOSTUNREACH, "EHOSTUNREACH"},
                 {ENOTSOCK, "ENOTSOCK"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].error == error) {
            return names[i].name;
        }
    }
    return "error";
}

/* Notes a call; when the log is full the rest is left out. Keeps errno. */
static void note(const char *name, bool more, int result)
{
    const int error = errno;
    const size_t used = strlen(text);
    if (active && !inside && used + 32 < sizeof(text)) {
        (void)snprintf(text + used, sizeof(text) - used, "%s%s%s%s%s", used > 0 ? " " : "", name,
                       more ? "+" : "", result < 0 ? "!" : "", result < 0 ? error_name(error) : "");
    }
    errno = error;
}

/* The error of a plan that depends on the call. */
static void choose_error(struct plan *plan, const char *name)
{
    enum { INTERRUPTIONS = 3 };
    if (plan->name == NULL) {
        plan->error = plan->error_of(name);
        plan->times = plan->error == EINTR ? INTERRUPTIONS : plan->error != 0;
        plan->name = name;
    } else if (strcmp(plan->name, name) != 0) {
        plan->times = 0;
    }
}

/* What one plan has to say to a call. Returns whether the call fails. */
static bool plan_applies(struct plan *plan, const char *name)
{
    if (plan->until > 0) {
        plan->until--;
        return false;
    }
    if (plan->error_of != NULL && plan->times > 0) {
        choose_error(plan, name);
    }
    if (plan->times == 0) {
        return false;
    }
    plan->times -= plan->times != FOR_EVER;
    if (plan->run != NULL) {
        inside = true;
        plan->run(plan->arg);
        inside = false;
        return false;
    }
    errno = plan->error;
    return true;
}

static bool is_watched(const void *zmq_socket)
{
    return zmq_socket == watched || watched == FAULTS_ANY_SOCKET;
}

bool faults_in_message(void)
{
    return in_message;
}

const char *faults_failed_name(void)
{
    return failed_name;
}

bool faults_pass(enum fault_call call, const char *name)
{
    if (!active || inside) {
        return true;
    }
    unsigned kind = 0;
    while (call != 1u << kind) {
        kind++;
    }
    counts[kind]++;
    bool fails = false;
    for (size_t i = 0; i < plan_count; i++) {
        if ((plans[i].calls & (unsigned)call) != 0) {
            fails = plan_applies(&plans[i], name) || fails;
        }
    }
    made[kind] += fails;
    failed_name = fails ? name : failed_name;
    return !fails;
}

static bool pass(enum fault_call call)
{
    static const char *const names[KINDS] = {
        "zmq_msg_recv",   "zmq_msg_send", "zmq_getsockopt",    "zmq_getsockopt",
        "zmq_setsockopt", "zmq_close",    "zmq_msg_init_size", "zmq_msg_init_data",
        "zmq_msg_copy",   "event_new",    "event_add",         "the library's allocator",
        "libevent's",     "another's",
    };
    unsigned kind = 0;
    while (call != 1u << kind) {
        kind++;
    }
    return faults_pass(call, names[kind]);
}

int __wrap_zmq_msg_recv(zmq_msg_t *msg, void *socket, int flags)
{
    if (!is_watched(socket)) {
        return __real_zmq_msg_recv(msg, socket, flags);
    }
    const int result = pass(FAULT_RECV) ? __real_zmq_msg_recv(msg, socket, flags) : -1;
    note("recv", result >= 0 && zmq_msg_more(msg) != 0, result);
    return result;
}

int __wrap_zmq_msg_send(zmq_msg_t *msg, void *socket, int flags)
{
    if (!is_watched(socket)) {
        return __real_zmq_msg_send(msg, socket, flags);
    }
    const int result = pass(FAULT_SEND) ? __real_zmq_msg_send(msg, socket, flags) : -1;
    note("send", (flags & ZMQ_SNDMORE) != 0, result);
    in_message = result >= 0 ? (flags & ZMQ_SNDMORE) != 0 : in_message;
    return result;
}

int __wrap_zmq_getsockopt(void *socket, int option, void *value, size_t *size)
{
    const bool looks = option == ZMQ_EVENTS;
    if (!is_watched(socket)) {
        return __real_zmq_getsockopt(socket, option, value, size);
    }
    const int result = pass(looks ? FAULT_LOOK : FAULT_GET)
                           ? __real_zmq_getsockopt(socket, option, value, size)
                           : -1;
    note(looks ? "look" : "get", false, result);
    return result;
}

int __wrap_zmq_setsockopt(void *socket, int option, const void *value, size_t size)
{
    if (!is_watched(socket) || pass(FAULT_SET)) {
        return __real_zmq_setsockopt(socket, option, value, size);
    }
    return -1;
}

int __wrap_zmq_close(void *socket)
{
    return !is_watched(socket) || pass(FAULT_CLOSE) ? __real_zmq_close(socket) : -1;
}

int __wrap_zmq_msg_init_size(zmq_msg_t *msg, size_t size)
{
    return pass(FAULT_INIT_SIZE) ? __real_zmq_msg_init_size(msg, size) : -1;
}

int __wrap_zmq_msg_init_data(zmq_msg_t *msg, void *data, size_t size, zmq_free_fn *release,
                             void *hint)
{
    return pass(FAULT_INIT_DATA) ? __real_zmq_msg_init_data(msg, data, size, release, hint) : -1;
}

int __wrap_zmq_msg_copy(zmq_msg_t *to, zmq_msg_t *from)
{
    return pass(FAULT_COPY) ? __real_zmq_msg_copy(to, from) : -1;
}

struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                               event_callback_fn callback, void *arg)
{
    return pass(FAULT_EVENT_NEW) ? __real_event_new(base, fd, what, callback, arg) : NULL;
}

int __wrap_event_add(struct event *event, const struct timeval *timeout)
{
    /* libevent has the memory of an event that is pending already. */
    return event_pending(event, EV_READ | EV_WRITE | EV_TIMEOUT, NULL) != 0 || pass(FAULT_EVENT_ADD)
               ? __real_event_add(event, timeout)
               : -1;
}

void *__wrap_evzmq__malloc(size_t size)
{
    return pass(FAULT_ALLOC) ? __real_evzmq__malloc(size) : NULL;
}

void *__wrap_evzmq__calloc(size_t count, size_t size)
{
    return pass(FAULT_ALLOC) ? __real_evzmq__calloc(count, size) : NULL;
}

/* Its call of evzmq__malloc() stays within one file, where nothing is wrapped. */
char *__wrap_evzmq__copy_text(const char *original)
{
    return pass(FAULT_ALLOC) ? __real_evzmq__copy_text(original) : NULL;
}

void *__wrap_evzmq__realloc(void *block, size_t size)
{
    return pass(FAULT_ALLOC) ? __real_evzmq__realloc(block, size) : NULL;
}

/* libevent's own memory. */
static void *libevent_malloc(size_t size)
{
    return pass(FAULT_LIBEVENT) ? malloc(size) : NULL;
}

static void *libevent_realloc(void *block, size_t size)
{
    return pass(FAULT_LIBEVENT) ? realloc(block, size) : NULL;
}

/* Before anything of libevent's is allocated. */
__attribute__((constructor)) static void take_over_libevents_memory(void)
{
    event_set_mem_functions(libevent_malloc, libevent_realloc, free);
}
