/* The yardstick of all comparisons: what a program does that waits for nothing but its socket. */
#include "receive.h"

#include <errno.h>

#include <zmq.h>

#include "report.h"

int bare_receive(void *zmq_socket, struct meter *meter)
{
    zmq_msg_t message;
    (void)zmq_msg_init(&message);
    int result = 0;
    for (;;) {
        if (zmq_msg_recv(&message, zmq_socket, 0) < 0) {
            if (zmq_errno() == EINTR) {
                continue;
            }
            result = zmq_errno() == EAGAIN
                         ? report_error("bare loop: nothing came for %d s", PEER_PATIENCE_MS / 1000)
                         : report_error("zmq_msg_recv: %s", zmq_strerror(zmq_errno()));
            break;
        }
        const size_t size = zmq_msg_size(&message);
        const int more = zmq_msg_more(&message);
        if (size == 0) {
            break;
        }
        meter_message(meter, size, more);
    }
    (void)zmq_msg_close(&message);
    return result;
}
