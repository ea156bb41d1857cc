/*
 * What cmake/instructions.sh counts: receives messages and does nothing with them, so that what is
 * executed is the cost of receiving. A message costs the same number of instructions whichever
 * machine runs it, and whatever else that machine does; the script subtracts a run with fewer
 * messages from one with more, and so whatever is not done for each message.
 *
 *     receive_cost bare|copy|into|in-place MESSAGES BYTES
 *
 * All of it happens in one thread, over inproc: a burst is sent, then received. How a socket is
 * read is the same for all transports.
 *
 * "bare" is a loop without libevent that receives and reads size and more-flag; "copy" copies the
 * bytes as well. "into" and "in-place" are the adapter with the raw codec in these receive modes,
 * with a callback that reads size and number of parts.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>

#define ENDPOINT "inproc://receive-cost"

/* What one pipe holds at libzmq's default high water mark. It is less than a pass may take, so that
 * passes end as they mostly do: with EAGAIN. */
#define BURST 1000u
#define BYTES_MAX 4096u

struct count {
    size_t messages;
    size_t bytes;
    size_t parts;
    unsigned char copy[BYTES_MAX];
};

struct receiver {
    struct count count;
    void *zmq_socket;
    struct event_base *base; /* NULL for a bare loop */
    struct evzmq_socket *socket;
    int copies;
};

static void fail(const char *what)
{
    fprintf(stderr, "receive_cost: %s: %s\n", what, evzmq_strerror(errno));
    exit(1);
}

static void *open_socket(void *context, int type)
{
    const int no_limit = 0;
    void *socket = zmq_socket(context, type);
    if (socket == NULL || zmq_setsockopt(socket, ZMQ_RCVHWM, &no_limit, sizeof(no_limit)) != 0 ||
        zmq_setsockopt(socket, ZMQ_SNDHWM, &no_limit, sizeof(no_limit)) != 0 ||
        (type == ZMQ_PULL ? zmq_bind : zmq_connect)(socket, ENDPOINT) != 0) {
        fail("cannot open a socket");
    }
    return socket;
}

static void send_burst(void *zmq_socket, size_t messages, size_t bytes)
{
    static const unsigned char data[BYTES_MAX];
    for (size_t i = 0; i < messages; i++) {
        if (zmq_send(zmq_socket, data, bytes, 0) < 0) {
            fail("zmq_send");
        }
    }
}

__attribute__((noinline)) static void receive_bare(struct receiver *receiver, size_t messages)
{
    struct count *count = &receiver->count;
    zmq_msg_t message;
    (void)zmq_msg_init(&message);
    for (size_t i = 0; i < messages; i++) {
        if (zmq_msg_recv(&message, receiver->zmq_socket, 0) < 0) {
            fail("zmq_msg_recv");
        }
        const size_t size = zmq_msg_size(&message);
        count->parts += zmq_msg_more(&message) != 0 ? 2 : 1;
        count->bytes += size;
        count->messages++;
        if (receiver->copies) {
            memcpy(count->copy, zmq_msg_data(&message), size);
        }
    }
    (void)zmq_msg_close(&message);
}

static void take(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct count *count = arg;
    (void)socket;
    count->bytes += evzmq_message_get_size(message);
    count->parts += evzmq_message_get_part_count(message);
    count->messages++;
}

__attribute__((noinline)) static void receive_adapter(struct receiver *receiver, size_t messages)
{
    const size_t wanted = receiver->count.messages + messages;
    while (receiver->count.messages < wanted) {
        if (event_base_loop(receiver->base, EVLOOP_ONCE) != 0) {
            fail("event_base_loop");
        }
    }
}

static void attach(struct receiver *receiver, enum evzmq_receive_mode mode)
{
    receiver->base = event_base_new();
    if (receiver->base == NULL) {
        fail("event_base_new");
    }
    receiver->socket = evzmq_socket_new(receiver->base, receiver->zmq_socket, 0);
    if (receiver->socket == NULL) {
        fail("evzmq_socket_new");
    }
    /* Under valgrind all takes some 50 times as long, and what the time budget allows is to be the
     * same. */
    const struct evzmq_budget budget = {.size = sizeof(budget), .read_usec = 50 * 500};
    if (evzmq_socket_set_budget(receiver->socket, &budget) != 0) {
        fail("evzmq_socket_set_budget");
    }
    evzmq_socket_setcb(receiver->socket, take, NULL, NULL, &receiver->count);
    if (evzmq_socket_set_receive_mode(receiver->socket, mode) != 0 ||
        evzmq_socket_enable(receiver->socket, EV_READ) != 0) {
        fail("evzmq_socket_enable");
    }
}

static void begin(struct receiver *receiver, const char *kind)
{
    if (strcmp(kind, "into") == 0) {
        attach(receiver, EVZMQ_RECEIVE_INTO);
    } else if (strcmp(kind, "in-place") == 0) {
        attach(receiver, EVZMQ_RECEIVE_IN_PLACE);
    } else {
        receiver->copies = strcmp(kind, "copy") == 0;
    }
}

int main(int argc, char **argv)
{
    const size_t messages = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    const size_t bytes = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (messages == 0 || bytes == 0 || bytes > BYTES_MAX) {
        fprintf(stderr, "usage: receive_cost bare|copy|into|in-place MESSAGES BYTES\n");
        return 2;
    }
    void *context = zmq_ctx_new();
    static struct receiver receiver;
    receiver.zmq_socket = open_socket(context, ZMQ_PULL);
    void *sender = open_socket(context, ZMQ_PUSH);
    begin(&receiver, argv[1]);
    while (receiver.count.messages < messages) {
        const size_t left = messages - receiver.count.messages;
        const size_t burst = left < BURST ? left : BURST;
        send_burst(sender, burst, bytes);
        (receiver.base == NULL ? receive_bare : receive_adapter)(&receiver, burst);
    }
    if (receiver.count.bytes != messages * bytes || receiver.count.parts != messages) {
        fail("wrong messages");
    }
    if (receiver.base != NULL) {
        evzmq_socket_free(receiver.socket);
        event_base_free(receiver.base);
    }
    (void)zmq_close(sender);
    (void)zmq_close(receiver.zmq_socket);
    (void)zmq_ctx_term(context);
    return 0;
}
