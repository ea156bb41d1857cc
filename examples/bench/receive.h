/* The receivers that are compared. Each takes all messages of a socket up to the end mark. */
#ifndef BENCH_RECEIVE_H
#define BENCH_RECEIVE_H

#include "lateness.h"
#include "meter.h"
#include "options.h"
#include "records.h"

/*
 * The yardstick: a loop without libevent that receives with blocking zmq_msg_recv, reads size and
 * more-flag and looks at no byte. The socket stays the caller's. Returns 0, or -1 after saying why.
 */
int bare_receive(void *zmq_socket, struct meter *meter);

/* The same on czmq's zloop, where this program was built with czmq. */
int zloop_is_built(void);
int zloop_receive(void *zmq_socket, struct meter *meter);

struct adapter_task {
    enum bench_codec codec;
    enum bench_receive receive;
    int unpack; /* each message is a frame of many records */
    int check_bytes; /* with BENCH_RAW: look for the id in each message */
    int precise_base; /* a base with a precise clock, which costs a system call a turn more */
    struct lateness *timer; /* a timer to run on the same base; NULL for none */
};

/*
 * The adapter on a libevent base, with a codec. Closes the socket in any case. Returns 0, also when
 * records were wrong (see check->failed), or -1 after saying why.
 */
int adapter_receive(void *zmq_socket, const struct adapter_task *task, struct meter *meter,
                    struct record_check *check);

#endif /* BENCH_RECEIVE_H */
