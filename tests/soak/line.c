/**
 * @file line.c
 * A line: two adapters on one base, and what is done to them.
 *
 * A cut takes one connection away, in one of several ways, and begins a loose epoch in both
 * directions, which becomes strict some time after the end that lives on has seen the old
 * connection end. Lines whose messages have several parts are never cut: libzmq 4.3.4 aborts the
 * process when a connection with half a message under way is given up (session_base.cpp, line 260).
 */
#include "soak.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

enum {
    PARTS_MAX = 4,
    SIZE_USUAL = 2000,
    SIZE_LARGE = 60000,
    MANY = 16,
    PORT_FIRST = 20000,
    LOOSE_TICKS = 20
};

/* What each part begins with. */
struct head {
    uint32_t epoch;
    uint32_t size; /* of the part */
    uint64_t number;
};

static bool packs(const struct line *line)
{
    return line->plan->packs;
}

static void must(struct line *line, int result, const char *what)
{
    if (result < 0) {
        (void)printf("%s: %s: %s\n", line->plan->name, what, evzmq_strerror(errno));
        line->errors++;
    }
}

static struct flow *flow_to(const struct end *end)
{
    return &end->line->flows[1 - end->which];
}

static bool read_head(const void *data, size_t size, struct head *out)
{
    if (data == NULL || size < sizeof *out) {
        return false;
    }
    memcpy(out, data, sizeof *out);
    return out->size == size && ((const unsigned char *)data)[size - 1] ==
                                    (size == sizeof *out ? ((const unsigned char *)out)[size - 1]
                                                         : (unsigned char)out->number);
}

static bool read_record(const struct evzmq_message *message, struct head *out)
{
    const struct evzmq_record_stream_chunk *const chunk = evzmq_record_value(message, NULL);
    char text[32] = "";

    if (chunk == NULL || chunk->id.size != 24) {
        return false;
    }
    memcpy(text, chunk->id.data, 24);
    out->number = strtoull(text + 8, NULL, 16);
    text[8] = '\0';
    out->epoch = (uint32_t)strtoul(text, NULL, 16);
    out->size = (uint32_t)chunk->response_chunk.size;
    return out->size == 0 || chunk->response_chunk.data[out->size - 1] == 't';
}

/* All parts say the same, or it is no message of ours. */
static bool read_parts(const struct end *end, const struct evzmq_message *message, struct head *out)
{
    const size_t first = end->line->plan->types[end->which] == ZMQ_ROUTER ? 1 : 0;
    const size_t count = evzmq_message_get_part_count(message);
    bool good = count > first;

    for (size_t i = first; i < count && good; i++) {
        size_t size = 0;
        const void *const data = evzmq_message_get_part(message, i, &size);
        struct head head = {0};

        good = read_head(data, size, &head) &&
               (i == first || (head.epoch == out->epoch && head.number == out->number));
        *out = head;
    }
    return good;
}

static void take(struct end *end, const struct evzmq_message *message)
{
    struct line *const line = end->line;
    struct head head = {0};

    if (line->plan->types[end->which] == ZMQ_XPUB) {
        size_t size = 0;
        const unsigned char *const data = evzmq_message_get_part(message, 0, &size);

        line->ready = line->ready || (size > 0 && data[0] == 1);
        return;
    }
    if (packs(line) ? read_record(message, &head) : read_parts(end, message, &head)) {
        flow_received(flow_to(end), head.epoch, head.number);
    } else {
        flow_complain(flow_to(end), "a message came that is not whole", 0, 0);
    }
}

static void kill_connector(struct line *line);

static void on_read(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct end *const end = arg;

    (void)socket;
    take(end, message);
    if (end->kill_in_callback && end->line->loose == 0) {
        kill_connector(end->line);
    }
}

static void on_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    struct end *const end = arg;

    (void)socket;
    if (event->type == EVZMQ_EVENT_UNDELIVERABLE) {
        end->line->undeliverable++;
    } else if (event->type != EVZMQ_EVENT_DRAINED) {
        (void)printf("%s: event %d: %s\n", end->line->plan->name, (int)event->type,
                     evzmq_strerror(event->error));
        end->line->errors++;
    }
}

static void on_monitor(struct evzmq_monitor *monitor, const struct evzmq_monitor_event *event,
                       void *arg)
{
    const struct end *const end = arg;

    (void)monitor;
    if (event->type == EVZMQ_MONITOR_DISCONNECTED && end->line->survivor == end) {
        end->line->survivor = NULL;
    }
}

/* Puts an end on the base, as it is to be. */
static void attach(struct end *end)
{
    struct line *const line = end->line;

    end->socket = evzmq_socket_new(line->base, end->zmq_socket, EVZMQ_OPT_CLOSE_ON_FREE);
    if (end->socket == NULL) {
        must(line, -1, "evzmq_socket_new");
        abort();
    }
    end->read_pause = end->write_pause = 0;
    end->kill_in_callback = false;
    evzmq_socket_setcb(end->socket, on_read, NULL, on_event, end);
    if (packs(line)) {
        must(line, evzmq_socket_set_codec(end->socket, line->codec), "set_codec");
        if (line->plan->sends[1 - end->which]) {
            must(line, evzmq_socket_set_unpacking(end->socket, 1), "set_unpacking");
        }
    }
    must(line, evzmq_socket_set_output_limit(end->socket, 500, 0), "set_output_limit");
    if (line->plan->sends[1 - end->which] || line->plan->types[end->which] == ZMQ_XPUB) {
        must(line, evzmq_socket_enable(end->socket, EV_READ), "enable");
    }
}

static void make_socket(struct end *end)
{
    const int type = end->line->plan->types[end->which];
    const int soon = 5;
    const int on = 1;

    end->zmq_socket = evzmq_context_socket(end->line->context, type);
    if (end->zmq_socket == NULL) {
        must(end->line, -1, "evzmq_context_socket");
        abort();
    }
    (void)zmq_setsockopt(end->zmq_socket, ZMQ_RECONNECT_IVL, &soon, sizeof soon);
    end->monitor =
        evzmq_monitor_new(end->line->base, end->line->zmq_context, end->zmq_socket,
                          EVZMQ_MONITOR_DISCONNECTED | EVZMQ_MONITOR_STOPPED, on_monitor, end);
    must(end->line, end->monitor == NULL ? -1 : 0, "evzmq_monitor_new");
    if (type == ZMQ_SUB) {
        must(end->line, zmq_setsockopt(end->zmq_socket, ZMQ_SUBSCRIBE, "", 0), "ZMQ_SUBSCRIBE");
    } else if (type == ZMQ_XPUB) {
        must(end->line, zmq_setsockopt(end->zmq_socket, ZMQ_XPUB_VERBOSER, &on, sizeof on),
             "ZMQ_XPUB_VERBOSER");
    }
}

/* The endpoint of an ended socket may be taken until libzmq's threads have closed it: then the
 * next tick tries again. */
static void try_bind(struct line *line)
{
    struct end *const end = &line->ends[0];

    if (evzmq_context_bind(line->context, end->zmq_socket, line->endpoint) == 0) {
        attach(end);
    } else if (errno != EADDRINUSE) {
        must(line, -1, "evzmq_context_bind");
        abort();
    }
}

/* A new identity each time: a ROUTER turns away whoever has that of a peer it still knows. */
static void connect_end(struct line *line)
{
    struct end *const end = &line->ends[1];

    (void)snprintf(line->peer, sizeof line->peer, "%s-%u", line->plan->name, ++line->connections);
    if (line->plan->types[1] == ZMQ_DEALER) {
        must(line, zmq_setsockopt(end->zmq_socket, ZMQ_ROUTING_ID, line->peer, strlen(line->peer)),
             "ZMQ_ROUTING_ID");
    }
    must(line, evzmq_context_connect(line->context, end->zmq_socket, line->endpoint), "connect");
}

/* The first bind; where the plan says no endpoint, one of tcp with a port from below those that
 * systems give to connections: a connection to one of these may end up at itself. */
static int bind_first(struct line *line)
{
    struct end *const end = &line->ends[0];
    int result = 0;

    if (line->plan->bind != NULL) {
        (void)snprintf(line->endpoint, sizeof line->endpoint, "%s", line->plan->bind);
        result = evzmq_context_bind(line->context, end->zmq_socket, line->endpoint);
    } else {
        do {
            (void)snprintf(line->endpoint, sizeof line->endpoint, "tcp://127.0.0.1:%u",
                           (unsigned)(PORT_FIRST + dice_below(line->dice, 10000)));
            result = evzmq_context_bind(line->context, end->zmq_socket, line->endpoint);
        } while (result < 0 && errno == EADDRINUSE);
    }
    if (result == 0) {
        (void)snprintf(line->endpoint, sizeof line->endpoint, "%s",
                       evzmq_context_get_endpoint(line->context, end->zmq_socket));
    }
    return result;
}

int line_open(struct line *line, const struct plan *plan, struct event_base *base,
              struct evzmq_context *context, void *zmq_context, struct dice *dice)
{
    *line = (struct line){
        .plan = plan, .base = base, .context = context, .zmq_context = zmq_context, .dice = dice};
    line->ready = plan->types[0] != ZMQ_XPUB;
    if (plan->packs) {
        line->codec = evzmq_schema_codec_new(&evzmq_record_stream_chunk_schema, NULL);
    }
    for (int i = 0; i < 2; i++) {
        flow_open(&line->flows[i], plan->name);
        line->ends[i] = (struct end){.line = line, .which = i};
        make_socket(&line->ends[i]);
    }
    if (bind_first(line) < 0) {
        must(line, -1, "evzmq_context_bind");
        return -1;
    }
    attach(&line->ends[0]);
    connect_end(line);
    attach(&line->ends[1]);
    return 0;
}

static void end_close(struct end *end)
{
    evzmq_monitor_free(end->monitor);
    if (end->socket != NULL) {
        evzmq_socket_free(end->socket);
    } else if (end->zmq_socket != NULL) {
        must(end->line, evzmq_context_close_socket(end->line->context, end->zmq_socket), "close");
    }
    end->socket = NULL;
    end->zmq_socket = NULL;
}

void line_close(struct line *line)
{
    for (int i = 0; i < 2; i++) {
        end_close(&line->ends[i]);
        flow_close(&line->flows[i]);
    }
    evzmq_codec_free(line->codec);
}

/* Before the connection goes. */
static void loosen(struct line *line, const struct end *survivor)
{
    for (int i = 0; i < 2; i++) {
        flow_loosen(&line->flows[i]);
    }
    line->ready = line->plan->types[0] != ZMQ_XPUB;
    line->loose = LOOSE_TICKS;
    line->survivor = survivor;
    line->cuts++;
}

/* libzmq tells of the end of a connection a little before it takes its pipe from the socket. */
static void tighten(struct line *line)
{
    if (line->loose > 0 && line->survivor == NULL && --line->loose == 0) {
        for (int i = 0; i < 2; i++) {
            flow_tighten(&line->flows[i]);
        }
    }
}

static void kill_connector(struct line *line)
{
    loosen(line, &line->ends[0]);
    end_close(&line->ends[1]);
    make_socket(&line->ends[1]);
    connect_end(line);
    attach(&line->ends[1]);
}

static void reconnect(struct line *line)
{
    struct end *const end = &line->ends[1];

    loosen(line, &line->ends[0]);
    must(line, zmq_disconnect(end->zmq_socket, line->endpoint), "zmq_disconnect");
    connect_end(line);
    must(line, evzmq_socket_touch(end->socket), "touch");
}

static void restart_binder(struct line *line)
{
    loosen(line, &line->ends[1]);
    end_close(&line->ends[0]);
    make_socket(&line->ends[0]);
    try_bind(line);
}

/* Only where something came since the epochs are strict again: a line that does not come back is to
 * be noticed. */
static void cut(struct line *line)
{
    bool may = line->plan->parts_max <= 1 && line->ends[0].socket != NULL && line->loose == 0;

    for (int i = 0; i < 2; i++) {
        const struct flow *const flow = &line->flows[i];

        may = may && (!line->plan->sends[i] || flow->epochs[flow->epoch % EPOCHS].received > 0);
    }
    if (!may) {
        return;
    }
    switch (dice_below(line->dice, 4)) {
    case 0:
        kill_connector(line);
        break;
    case 1:
        reconnect(line);
        break;
    case 2:
        restart_binder(line);
        break;
    default:
        if (line->plan->sends[0]) {
            line->ends[1].kill_in_callback = true;
        }
    }
}

/* What a program does that looks at the socket behind the adapter's back. */
static void look(struct end *end)
{
    int events = 0;
    size_t size = sizeof events;

    must(end->line, zmq_getsockopt(end->zmq_socket, ZMQ_EVENTS, &events, &size), "ZMQ_EVENTS");
    must(end->line, evzmq_socket_touch(end->socket), "touch");
}

static void pause_end(struct end *end)
{
    const unsigned ticks = 1 + (unsigned)dice_below(end->line->dice, 20);

    if (dice_below(end->line->dice, 2) == 0) {
        must(end->line, evzmq_socket_disable(end->socket, EV_WRITE), "disable");
        end->write_pause = ticks;
    } else if (evzmq_socket_get_enabled(end->socket) & EV_READ) {
        must(end->line, evzmq_socket_disable(end->socket, EV_READ), "disable");
        end->read_pause = ticks;
    }
}

static void resume_end(struct end *end)
{
    if (end->write_pause != 0) {
        must(end->line, evzmq_socket_enable(end->socket, EV_WRITE), "enable");
    }
    if (end->read_pause != 0) {
        must(end->line, evzmq_socket_enable(end->socket, EV_READ), "enable");
    }
    end->write_pause = end->read_pause = 0;
}

static void receive_some(struct end *end)
{
    struct evzmq_message *messages[MANY];
    int count = 0;

    if (end->read_pause == 0) {
        return;
    }
    count = evzmq_socket_recv_many(end->socket, messages, MANY);
    must(end->line, count, "recv_many");
    for (int i = 0; i < count; i++) {
        take(end, messages[i]);
        evzmq_message_free(messages[i]);
    }
}

static void change_packing(struct end *end)
{
    static const size_t sizes[] = {0, 0, 512, 4096, 65536};
    struct dice *const dice = end->line->dice;

    if (packs(end->line) && end->line->plan->sends[end->which]) {
        const size_t bytes = sizes[dice_below(dice, sizeof sizes / sizeof sizes[0])];

        must(end->line,
             evzmq_socket_set_packing(end->socket, bytes, (unsigned)dice_below(dice, 2) * 3000),
             "set_packing");
    }
}

static void change_settings(struct end *end)
{
    struct dice *const dice = end->line->dice;
    const struct evzmq_budget budget = {.size = sizeof budget,
                                        .read_messages = (size_t)dice_below(dice, 3) * 20,
                                        .write_messages = (size_t)dice_below(dice, 3) * 20};

    must(end->line, evzmq_socket_set_budget(end->socket, &budget), "set_budget");
    must(end->line,
         evzmq_socket_set_receive_mode(
             end->socket, (enum evzmq_receive_mode)dice_below(dice, EVZMQ_RECEIVE_OWNED + 1)),
         "set_receive_mode");
}

void line_act(struct line *line)
{
    struct end *const end = &line->ends[dice_below(line->dice, 2)];
    const uint64_t what = dice_below(line->dice, 100);

    if (end->socket == NULL) {
        return;
    }
    if (what < 25) {
        pause_end(end);
    } else if (what < 50) {
        look(end);
    } else if (what < 60) {
        receive_some(end);
    } else if (what < 70) {
        change_packing(end);
    } else if (what < 80) {
        change_settings(end);
    } else if (what < 90) {
        must(line, evzmq_socket_flush(end->socket), "flush");
    } else {
        cut(line);
    }
}

static int write_record(struct end *end, const struct head *head)
{
    static char text[SIZE_LARGE];
    char id[32];
    struct evzmq_record_stream_chunk chunk = {.id = {id, 24}};

    if (text[0] == '\0') {
        memset(text, 't', sizeof text);
    }
    (void)snprintf(id, sizeof id, "%08" PRIx32 "%016" PRIx64, head->epoch, head->number);
    chunk.response_chunk.data = text;
    chunk.response_chunk.size = head->size;
    return evzmq_socket_write_value(end->socket, &chunk);
}

static int write_parts(struct end *end, const struct head *head)
{
    static unsigned char body[SIZE_LARGE + sizeof(struct head)];
    const struct line *const line = end->line;
    struct evzmq_bytes parts[PARTS_MAX + 1];
    size_t count = 0;
    size_t bodies = 1;

    memset(body, (int)(head->number & 0xff), head->size);
    memcpy(body, head, sizeof *head);
    if (line->plan->types[end->which] == ZMQ_ROUTER) {
        parts[count++] = (struct evzmq_bytes){line->peer, strlen(line->peer)};
    }
    if (line->plan->parts_max > 1) {
        bodies = 1 + (size_t)dice_below(line->dice, line->plan->parts_max);
    }
    for (size_t i = 0; i < bodies; i++) {
        parts[count++] = (struct evzmq_bytes){body, head->size};
    }
    return evzmq_socket_write_parts(end->socket, parts, count);
}

static void write_some(struct end *end)
{
    struct line *const line = end->line;
    struct flow *const flow = &line->flows[end->which];
    uint64_t count = 1 + dice_below(line->dice, 200);

    while (count-- > 0 && flow_under_way(flow) < line->plan->window) {
        const uint64_t size =
            dice_below(line->dice, dice_below(line->dice, 100) == 0 ? SIZE_LARGE : SIZE_USUAL);
        const struct head head = {.epoch = flow->epoch,
                                  .size = (uint32_t)(size + (packs(line) ? 0 : sizeof head)),
                                  .number = flow_number(flow)};

        if ((packs(line) ? write_record(end, &head) : write_parts(end, &head)) == 0) {
            flow_wrote(flow);
            continue;
        }
        if (errno == EAGAIN || errno == EHOSTUNREACH) {
            line->refused++;
        } else {
            must(line, -1, "write");
        }
        return;
    }
}

void line_write(struct line *line)
{
    for (int i = 0; i < 2; i++) {
        if (line->plan->sends[i] && line->ends[i].socket != NULL && line->ready) {
            write_some(&line->ends[i]);
        }
    }
}

void line_tick(struct line *line)
{
    tighten(line);
    for (int i = 0; i < 2; i++) {
        struct end *const end = &line->ends[i];

        if (end->socket == NULL) {
            try_bind(line);
            continue;
        }
        if (end->read_pause == 1 || end->write_pause == 1) {
            resume_end(end);
        }
        end->read_pause -= end->read_pause > 0;
        end->write_pause -= end->write_pause > 0;
    }
}

void line_resume(struct line *line)
{
    for (int i = 0; i < 2; i++) {
        if (line->ends[i].socket != NULL) {
            resume_end(&line->ends[i]);
        }
        line->ends[i].kill_in_callback = false;
    }
}

bool line_is_complete(const struct line *line)
{
    return line->loose == 0 && flow_under_way(&line->flows[0]) == 0 &&
           flow_under_way(&line->flows[1]) == 0;
}

void line_watch(struct line *line)
{
    const bool open = line->ends[0].socket != NULL && line->ready && line->loose == 0;

    for (int i = 0; i < 2; i++) {
        flow_watch(&line->flows[i],
                   !open || line->ends[i].write_pause != 0 || line->ends[1 - i].read_pause != 0);
    }
}
