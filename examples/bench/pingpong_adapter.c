/*
 * Round trips with the adapter: the measuring end, and the end that sends back. Where frames are
 * packed the ball is a record of its bytes, which both ends encode and decode.
 */
#include "pingpong.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>
#include <evzmq/schema.h>

#include "numbers.h"
#include "peer_jobs.h"
#include "place.h"
#include "report.h"

struct ball {
    struct evzmq_bytes bytes;
};

static const struct evzmq_field ball_fields[] = {
    EVZMQ_FIELD(BIN, struct ball, bytes, EVZMQ_REQUIRED),
};
static const struct evzmq_schema ball_schema = EVZMQ_SCHEMA(struct ball, ARRAY, NULL, ball_fields);

struct player {
    struct event_base *base;
    struct evzmq_codec *codec; /* of packed balls; NULL: they are not packed */
    struct evzmq_socket *socket;
    struct event *watchdog;
    struct pingpong *game; /* the measuring end's */
    char *ball; /* game->size bytes */
    uint64_t echoes; /* taken, and what the watchdog saw last */
    uint64_t watched;
    int error; /* an errno value */
};

static void stop(struct player *player, int error)
{
    player->error = error;
    (void)event_base_loopbreak(player->base);
}

static int hit(const struct player *player, const void *data, size_t size)
{
    const struct ball ball = {.bytes = {data, size}};
    return player->codec != NULL ? evzmq_socket_write_value(player->socket, &ball)
                                 : evzmq_socket_write(player->socket, data, size);
}

/* What came; no bytes are the end of the game. */
static struct evzmq_bytes taken(const struct player *player, const struct evzmq_message *message)
{
    struct evzmq_bytes bytes = {NULL, 0};
    bytes.data = evzmq_message_get_part(message, 0, &bytes.size);
    if (player->codec != NULL && bytes.size > 0) {
        const struct ball *ball = evzmq_record_value(message, NULL);
        return ball->bytes;
    }
    return bytes;
}

static void serve(struct player *player)
{
    struct pingpong *game = player->game;
    memcpy(player->ball, &game->echoes, sizeof(game->echoes));
    game->sent_ns = numbers_now_ns();
    if (hit(player, player->ball, game->size) != 0) {
        stop(player, errno);
    }
}

static void on_echo(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct player *player = arg;
    const struct evzmq_bytes bytes = taken(player, message);
    player->echoes++;
    if (pingpong_note(player->game, bytes.data, bytes.size)) {
        serve(player);
    } else {
        stop(player, evzmq_socket_write(socket, NULL, 0) == 0 ? 0 : errno);
    }
}

static void send_back(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct player *player = arg;
    const struct evzmq_bytes bytes = taken(player, message);
    (void)socket;
    player->echoes++;
    if (bytes.size == 0) {
        stop(player, 0);
    } else if (hit(player, bytes.data, bytes.size) != 0) {
        stop(player, errno);
    }
}

static void on_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    (void)socket;
    if (event->type == EVZMQ_EVENT_TERMINATED || event->type == EVZMQ_EVENT_ERROR) {
        stop(arg, event->error);
    }
}

static void watch(evutil_socket_t fd, short events, void *arg)
{
    struct player *player = arg;
    (void)fd;
    (void)events;
    if (player->echoes == player->watched) {
        stop(player, ETIMEDOUT);
    }
    player->watched = player->echoes;
}

/* Frames of at most so many bytes, sent at the end of the loop's turn. */
static int pack(struct player *player, size_t pack_bytes)
{
    player->codec = evzmq_schema_codec_new(&ball_schema, NULL);
    if (player->codec == NULL || evzmq_socket_set_codec(player->socket, player->codec) != 0 ||
        evzmq_socket_set_packing(player->socket, pack_bytes, 0) != 0) {
        return -1;
    }
    return evzmq_socket_set_unpacking(player->socket, 1);
}

/* Puts the socket, which then belongs to the player, on a base. Returns 0, or -1 with errno. */
static int sit_down(struct player *player, void *zmq_socket, size_t pack_bytes,
                    evzmq_read_cb read_cb)
{
    const struct timeval patience = {PEER_PATIENCE_MS / 1000, 0};
    errno = ENOMEM;
    player->base = event_base_new();
    if (player->base == NULL) {
        return -1;
    }
    player->socket = evzmq_socket_new(player->base, zmq_socket, EVZMQ_OPT_CLOSE_ON_FREE);
    if (player->socket == NULL) {
        return -1;
    }
    evzmq_socket_setcb(player->socket, read_cb, NULL, on_event, player);
    player->watchdog = event_new(player->base, -1, EV_PERSIST, watch, player);
    if (player->watchdog == NULL || event_add(player->watchdog, &patience) != 0) {
        return -1;
    }
    if (pack_bytes > 0 && pack(player, pack_bytes) != 0) {
        return -1;
    }
    return evzmq_socket_enable(player->socket, EV_READ);
}

static void get_up(struct player *player, void *zmq_socket)
{
    if (player->socket == NULL && zmq_socket != NULL) {
        (void)zmq_close(zmq_socket);
    }
    evzmq_socket_free(player->socket);
    evzmq_codec_free(player->codec);
    if (player->watchdog != NULL) {
        event_free(player->watchdog);
    }
    if (player->base != NULL) {
        event_base_free(player->base);
    }
    free(player->ball);
}

int pingpong_adapter(void *zmq_socket, struct pingpong *game)
{
    struct player player = {.game = game, .ball = calloc(1, game->size)};
    /* The last message tells the other end to stop; it must not go down with the socket. */
    const int linger = PEER_PATIENCE_MS;
    (void)zmq_setsockopt(zmq_socket, ZMQ_LINGER, &linger, sizeof(linger));
    if (player.ball == NULL || sit_down(&player, zmq_socket, game->pack_bytes, on_echo) != 0) {
        player.error = errno;
    } else {
        serve(&player);
        if (player.error == 0 && event_base_dispatch(player.base) < 0) {
            player.error = EIO;
        }
    }
    get_up(&player, zmq_socket);
    return player.error == 0
               ? 0
               : report_error("a round trip failed: %s", evzmq_strerror(player.error));
}

void peer_echo_adapter(struct peer_task *task, struct peer_result *out)
{
    struct player player = {.game = NULL};
    void *socket = zmq_socket(task->zmq_context, ZMQ_PAIR);
    if (socket == NULL || place_set_up(socket, PEER_HIGH_WATER_MARK) != 0 ||
        zmq_connect(socket, task->order->endpoint) != 0) {
        player.error = zmq_errno();
    } else if (sit_down(&player, socket, task->order->pack_bytes, send_back) != 0) {
        player.error = errno;
    } else if (event_base_dispatch(player.base) < 0) {
        player.error = EIO;
    }
    get_up(&player, socket);
    out->messages = player.echoes;
    out->error = player.error;
}
