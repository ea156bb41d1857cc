/*
 * A receiver on czmq's zloop, for comparison, as its users write it: the loop polls the socket and
 * calls a function, which receives one message. Built where czmq is installed; a contender and no
 * part of the library.
 */
#include "receive.h"

#include "report.h"

#if defined(BENCH_HAVE_CZMQ)

#include <czmq.h>

struct zloop_task {
    struct meter *meter;
    uint64_t watched_messages; /* what the watchdog saw last */
    int result;
};

static int read_one(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct zloop_task *task = arg;
    (void)loop;
    zmq_msg_t message;
    (void)zmq_msg_init(&message);
    if (zmq_msg_recv(&message, item->socket, ZMQ_DONTWAIT) < 0) {
        const int passes = zmq_errno() == EAGAIN || zmq_errno() == EINTR;
        task->result = passes ? 0 : report_error("zmq_msg_recv: %s", zmq_strerror(zmq_errno()));
        return passes ? 0 : -1;
    }
    const size_t size = zmq_msg_size(&message);
    if (size != 0) {
        meter_message(task->meter, size, zmq_msg_more(&message));
    }
    (void)zmq_msg_close(&message);
    return size == 0 ? -1 : 0;
}

static int watch(zloop_t *loop, int timer, void *arg)
{
    struct zloop_task *task = arg;
    (void)loop;
    (void)timer;
    if (task->meter->messages == task->watched_messages) {
        task->result = report_error("zloop: nothing came for %d s", PEER_PATIENCE_MS / 1000);
        return -1;
    }
    task->watched_messages = task->meter->messages;
    return 0;
}

int zloop_is_built(void)
{
    return 1;
}

int zloop_receive(void *zmq_socket, struct meter *meter)
{
    struct zloop_task task = {.meter = meter};
    zmq_pollitem_t item = {.socket = zmq_socket, .events = ZMQ_POLLIN};
    zsys_handler_set(NULL); /* czmq would take SIGINT for itself. */
    zloop_t *loop = zloop_new();
    if (loop == NULL || zloop_poller(loop, &item, read_one, &task) != 0 ||
        zloop_timer(loop, PEER_PATIENCE_MS, 0, watch, &task) < 0) {
        task.result = report_error("cannot make a zloop");
    } else {
        (void)zloop_start(loop);
    }
    zloop_destroy(&loop);
    return task.result;
}

#else

int zloop_is_built(void)
{
    return 0;
}

int zloop_receive(void *zmq_socket, struct meter *meter)
{
    (void)zmq_socket;
    (void)meter;
    return report_error("built without czmq");
}

#endif
