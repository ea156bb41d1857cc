/**
 * @file asker.c
 * See asker.h.
 */
#include "asker.h"

#include <stdio.h>
#include <string.h>

enum { NUMBERS_MAX = 262144 };

/* Which requests have ended. One asker with more than a few requests exists at a time; those of
 * others are told apart by their requester. */
static struct {
    const struct evzmq_requester *requester;
    unsigned char ended[NUMBERS_MAX];
} ledger;

static void note_once(const struct evzmq_requester *requester, int64_t number)
{
    assert_true(number > 0);
    if (ledger.requester == requester && number < NUMBERS_MAX) {
        assert_int_equal(ledger.ended[number], 0); /* Otherwise: a second callback. */
        ledger.ended[number] = 1;
    }
}

static const char *error_name(int error)
{
    switch (error) {
    case ETIMEDOUT:
        return "timeout";
    case EBADMSG:
        return "bad";
    case ECANCELED:
        return "cancelled";
    case ESHUTDOWN:
        return "shutdown";
    case ETERM:
        return "term";
    default:
        return evzmq_strerror(error);
    }
}

static void note(struct asker *a)
{
    const size_t used = strlen(a->log);
    char entry[300];

    (void)snprintf(entry, sizeof entry, "%s%lld%s%s", used == 0 ? "" : " ", (long long)a->number,
                   a->error == 0 ? "=" : "!", a->error == 0 ? a->text : error_name(a->error));
    if (used + strlen(entry) < sizeof a->log) {
        memcpy(a->log + used, entry, strlen(entry) + 1);
    }
}

static void enter(struct asker *a, const struct evzmq_requester *requester)
{
    assert_non_null(a->requester); /* Otherwise: a callback after the free. */
    assert_ptr_equal(a->requester, requester);
    assert_true(a->f->dispatching); /* Otherwise: a callback inside a public call. */
    assert_int_equal(a->f->depth, 0); /* Otherwise: a callback inside a callback. */
    a->f->depth++;
}

void asker_note(struct evzmq_requester *requester, int64_t request, int error,
                struct evzmq_message *reply, void *arg)
{
    struct asker *const a = arg;
    struct fixture *const f = a->f;

    enter(a, requester);
    note_once(requester, request);
    assert_true(error == 0 || error == EBADMSG || error == ENOMEM || reply == NULL);
    assert_true(error != 0 || reply != NULL);
    a->ended++;
    a->replied += error == 0;
    a->number = request;
    a->error = error;
    a->text[0] = '\0';
    if (reply != NULL) {
        size_t size = 1;
        char text[256];

        assert_int_equal(evzmq_envelope_get_part_count(evzmq_message_get_envelope(reply)), 2);
        assert_non_null(evzmq_message_get_part(reply, 0, &size));
        assert_int_equal(size, EVZMQ_REQUEST_ID_BYTES);
        (void)message_text(reply, text, sizeof text);
        (void)snprintf(a->text, sizeof a->text, "%s", text + EVZMQ_REQUEST_ID_BYTES + 2);
    }
    note(a);
    if (a->on_end != NULL) {
        a->on_end(a, request, error, reply);
    }
    f->depth--;
}

static void on_room(struct evzmq_requester *requester, void *arg)
{
    struct asker *const a = arg;
    struct fixture *const f = a->f;

    enter(a, requester);
    a->rooms++;
    if (a->on_room != NULL) {
        a->on_room(a);
    }
    f->depth--;
}

static void on_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    struct asker *const a = arg;
    struct fixture *const f = a->f;

    enter(a, a->requester);
    assert_ptr_equal(a->socket, socket);
    a->events[event->type]++;
    if (a->on_event != NULL) {
        a->on_event(a, event);
    }
    f->depth--;
}

void asker_attach(struct fixture *f, struct asker *a, void *dealer,
                  const struct evzmq_requester_options *options)
{
    a->f = f;
    a->socket = evzmq_socket_new(f->base, dealer, 0);
    assert_non_null(a->socket);
    f->attached++;
    a->requester = evzmq_requester_new(a->socket, options);
    assert_non_null(a->requester);
    evzmq_requester_setcb(a->requester, on_room, on_event, a);
    memset(&ledger, 0, sizeof ledger);
    ledger.requester = a->requester;
}

void *asker_peer(struct fixture *f, int type)
{
    void *const peer = peer_new(f, type);

    /* See EVZMQ_OPT_CLOSE_ON_FREE of linger and several parts. */
    peer_set_int(peer, ZMQ_LINGER, 100);
    return peer;
}

void asker_open(struct fixture *f, struct asker *a, enum transport transport, int server_type,
                void **out_server, const struct evzmq_requester_options *options)
{
    void *const dealer = asker_peer(f, ZMQ_DEALER);
    char endpoint[ENDPOINT_SIZE];

    *out_server = asker_peer(f, server_type);
    peer_bind(f, *out_server, transport, endpoint);
    peer_connect(dealer, endpoint);
    asker_attach(f, a, dealer, options);
}

void asker_free_requester(struct asker *a)
{
    struct evzmq_requester *const requester = a->requester;

    a->requester = NULL;
    evzmq_requester_free(requester);
}

void asker_free_socket(struct asker *a)
{
    struct evzmq_socket *const socket = a->socket;

    if (socket != NULL) {
        a->socket = NULL;
        a->f->attached--;
        evzmq_socket_free(socket);
    }
}

void asker_close(struct asker *a)
{
    if (a->requester != NULL) {
        (void)asker_stats(a);
    }
    asker_free_requester(a);
    asker_free_socket(a);
}

int64_t ask(struct asker *a, const char *text, int deadline_ms)
{
    const int64_t number =
        evzmq_request_bytes(a->requester, text, strlen(text), deadline_ms, asker_note, a);

    assert_true(number > 0);
    return number;
}

struct evzmq_requester_stats asker_stats(const struct asker *a)
{
    struct evzmq_requester_stats stats = {.size = sizeof stats};

    assert_ok(evzmq_requester_get_stats(a->requester, &stats));
    assert_int_equal(stats.requests, stats.replies + stats.undecodable + stats.timed_out +
                                         stats.failed + stats.cancelled + stats.outstanding);
    assert_true(stats.waiting <= stats.outstanding);
    assert_true(stats.outstanding <= stats.outstanding_peak);
    return stats;
}

bool try_hear(void *server, struct heard *out)
{
    int more = 1;

    *out = (struct heard){0};
    while (more) {
        zmq_msg_t part;

        assert_int_equal(zmq_msg_init(&part), 0);
        if (zmq_msg_recv(&part, server, ZMQ_DONTWAIT) < 0) {
            assert_int_equal(out->count, 0);
            assert_int_equal(errno, EAGAIN);
            return false;
        }
        more = zmq_msg_more(&part);
        add_part(out, zmq_msg_data(&part), zmq_msg_size(&part));
        (void)zmq_msg_close(&part);
    }
    return true;
}

void hear(struct fixture *f, void *server, struct heard *out)
{
    while (!try_hear(server, out)) {
        zmq_pollitem_t item = {server, 0, ZMQ_POLLIN, 0};

        fixture_glance(f);
        assert_true(zmq_poll(&item, 1, 1) >= 0);
    }
}

const char *heard_text(const struct heard *heard)
{
    assert_true(heard->count > 0);
    return (const char *)heard->part[heard->count - 1];
}

void add_part(struct heard *parts, const void *data, size_t size)
{
    assert_true(parts->count < HEARD_PARTS);
    assert_true(size < HEARD_SIZE); /* It ends with a 0, for heard_text(). */
    if (size > 0) {
        memcpy(parts->part[parts->count], data, size);
    }
    parts->part[parts->count][size] = 0;
    parts->size[parts->count++] = size;
}

void send_parts(void *server, const struct heard *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        assert_int_equal(zmq_send(server, parts->part[i], parts->size[i],
                                  i + 1 < parts->count ? ZMQ_SNDMORE : 0),
                         parts->size[i]);
    }
}

void answer(void *server, const struct heard *heard, const char *body)
{
    struct heard reply = {0};

    for (size_t i = 0; i + 1 < heard->count; i++) {
        add_part(&reply, heard->part[i], heard->size[i]);
        if (heard->size[i] == 0) {
            break;
        }
    }
    add_part(&reply, body, strlen(body));
    send_parts(server, &reply);
}
