/**
 * @file evzmq.h
 * Everything at once, except `<evzmq/msgpack.h>`, which alone needs `<msgpack.h>`.
 */
#ifndef EVZMQ_EVZMQ_H
#define EVZMQ_EVZMQ_H

#include <evzmq/base.h>
#include <evzmq/codec.h>
#include <evzmq/context.h>
#include <evzmq/cursor.h>
#include <evzmq/message.h>
#include <evzmq/monitor.h>
#include <evzmq/packing.h>
#include <evzmq/pool.h>
#include <evzmq/poster.h>
#include <evzmq/pubsub.h>
#include <evzmq/records.h>
#include <evzmq/request.h>
#include <evzmq/schema.h>
#include <evzmq/socket.h>
#include <evzmq/stats.h>
#include <evzmq/worker.h>

#endif /* EVZMQ_EVZMQ_H */
