/* The yardstick: one PULL socket, fed by two PUSH sockets with what two workers would send, and a
 * loop that waits for nothing but that socket. */
#include "fan_in.h"

#include <errno.h>

#include <zmq.h>

#include "place.h"
#include "report.h"

/* Blocking receives that read size and more-flag of each part, and look at no byte. */
static int receive(void *zmq_socket, struct meter *meter)
{
    zmq_msg_t message;
    (void)zmq_msg_init(&message);
    int result = 0;
    size_t whole = 0;
    for (unsigned ended = 0; ended < FAN_IN_SENDERS;) {
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
        whole += size;
        if (zmq_msg_more(&message)) {
            continue;
        }
        if (size == 0) {
            ended++;
        } else {
            meter_message(meter, whole, 0);
        }
        whole = 0;
    }
    (void)zmq_msg_close(&message);
    return result;
}

int fan_in_bare(const struct fan_in *fan_in, void *zmq_context, struct meter *meter)
{
    struct peer_order order = {.job = PEER_FLOOD,
                               .type = fan_in->type,
                               .chars = fan_in->chars,
                               .form = RECORD_COPIED,
                               .lead_size = 1};
    void *socket =
        place_bind(zmq_context, ZMQ_PULL, fan_in->transport, peer_high_water_mark(fan_in->chars),
                   order.endpoint, sizeof(order.endpoint));
    if (socket == NULL) {
        return -1;
    }
    int result = 0;
    for (unsigned i = 0; i < FAN_IN_SENDERS && result == 0; i++) {
        order.lead[0] = (char)i; /* as the header of worker i is */
        result = peer_begin(fan_in->peers[i], &order);
    }
    if (result == 0) {
        result = receive(socket, meter);
    }
    (void)zmq_close(socket);
    place_clear();
    return result;
}
