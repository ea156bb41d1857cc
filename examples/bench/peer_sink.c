/* The bare loop as a process of its own: it takes a flood that is meant for nobody. */
#include "peer_jobs.h"

#include <errno.h>

#include <zmq.h>

#include "place.h"

void peer_sink(struct peer_task *task, struct peer_result *out)
{
    void *socket = zmq_socket(task->zmq_context, ZMQ_PULL);
    if (socket == NULL || place_set_up(socket, peer_high_water_mark(task->order->chars)) != 0 ||
        zmq_bind(socket, task->order->endpoint) != 0) {
        out->error = zmq_errno();
    }
    zmq_msg_t message;
    (void)zmq_msg_init(&message);
    while (out->error == 0) {
        if (zmq_msg_recv(&message, socket, 0) < 0) {
            out->error = zmq_errno() == EINTR ? 0 : zmq_errno();
            continue;
        }
        const size_t size = zmq_msg_size(&message);
        if (size == 0) {
            break;
        }
        out->messages++;
        out->bytes += size;
    }
    (void)zmq_msg_close(&message);
    if (socket != NULL) {
        (void)zmq_close(socket);
    }
}
