/*
 * request_recv.c (L6): whose reply a message is, and what the socket's events mean to requests.
 */
#include "request.h"

#include <errno.h>
#include <string.h>

#include <zmq.h>

const struct evzmq__type evzmq__requester_dealer = {.zmq_type = ZMQ_DEALER,
                                                    .reads = true,
                                                    .writes = true,
                                                    .decodes = true,
                                                    .envelope = EVZMQ__ENVELOPE_DELIMITED};

/* The half of the id that is this requester's own. */
static bool is_ours(const struct evzmq_requester *requester, const unsigned char *id)
{
    return memcmp(id, requester->mark, sizeof(requester->mark)) == 0;
}

static uint64_t read_number(const unsigned char *id)
{
    uint64_t number = 0;
    for (size_t i = EVZMQ__REQUEST_ID_HALF; i < EVZMQ_REQUEST_ID_BYTES; i++) {
        number = number << 8 | id[i];
    }
    return number;
}

/* The id in front of a message, or NULL. Peers choose the bytes. */
static const unsigned char *find_id(const struct evzmq_message *message)
{
    const bool has_head = message->part_count > EVZMQ__REQUEST_HEAD &&
                          message->parts[0].size == EVZMQ_REQUEST_ID_BYTES &&
                          message->parts[1].size == 0;
    return has_head ? evzmq__part_data(&message->parts[0]) : NULL;
}

/* The outstanding request that a message came for. NULL, and counted, where there is none. */
static struct evzmq__request *match(struct evzmq_requester *requester,
                                    const struct evzmq_message *message)
{
    const unsigned char *id = find_id(message);
    if (id == NULL) {
        requester->stats.malformed++;
        return NULL;
    }
    const uint64_t number = read_number(id);
    struct evzmq__request *request =
        is_ours(requester, id) ? evzmq__request_find(requester, number) : NULL;
    if (request != NULL) {
        return request;
    }
    if (is_ours(requester, id) && number > 0 && number <= requester->last_number) {
        requester->stats.late++;
    } else {
        requester->stats.unknown++;
    }
    return NULL;
}

void evzmq__requester_on_reply(struct evzmq_socket *socket, struct evzmq_message *message,
                               void *arg)
{
    (void)socket;
    struct evzmq_requester *requester = arg;
    struct evzmq__request *request = match(requester, message);
    if (request != NULL) {
        evzmq__request_end(requester, request, 0, message);
    }
}

/* The request that a message was to carry out. */
static struct evzmq__request *find_sender(const struct evzmq_requester *requester,
                                          const struct evzmq_message *message)
{
    const unsigned char *id = find_id(message);
    return id == NULL || !is_ours(requester, id) ? NULL
                                                 : evzmq__request_find(requester, read_number(id));
}

void evzmq__requester_on_event(struct evzmq_socket *socket, const struct evzmq_event *event,
                               void *arg)
{
    struct evzmq_requester *requester = arg;
    struct evzmq__request *request = NULL;
    int error = event->error;
    struct evzmq_message *reply = NULL;
    if (event->type == EVZMQ_EVENT_DECODE_ERROR) {
        request = match(requester, event->message);
        error = event->kind == EVZMQ_DECODE_NOMEM ? ENOMEM : error;
        reply = event->message;
    } else if (event->type == EVZMQ_EVENT_UNDELIVERABLE) {
        request = find_sender(requester, event->message);
    } else if (event->type == EVZMQ_EVENT_TERMINATED) {
        evzmq__requester_detach(requester, error);
    }
    if (request != NULL) {
        evzmq__request_end(requester, request, error, reply);
    } else if (requester->event_cb != NULL) {
        requester->event_cb(socket, event, requester->arg);
    }
}
