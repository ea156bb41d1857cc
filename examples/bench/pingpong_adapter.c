/* Round trips with the adapter: the measuring end, and the end that sends back. */
#include "pingpong.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>

#include "numbers.h"
#include "peer_jobs.h"
#include "place.h"
#include "report.h"

struct player {
    struct event_base *base;
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

static void serve(struct player *player)
{
    struct pingpong *game = player->game;
    memcpy(player->ball, &game->echoes, sizeof(game->echoes));
    game->sent_ns = numbers_now_ns();
    if (evzmq_socket_write(player->socket, player->ball, game->size) != 0) {
        stop(player, errno);
    }
}

static void on_echo(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct player *player = arg;
    size_t size = 0;
    const void *data = evzmq_message_get_part(message, 0, &size);
    player->echoes++;
    if (pingpong_note(player->game, data, size)) {
        serve(player);
    } else {
        stop(player, evzmq_socket_write(socket, NULL, 0) == 0 ? 0 : errno);
    }
}

static void send_back(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct player *player = arg;
    size_t size = 0;
    const void *data = evzmq_message_get_part(message, 0, &size);
    player->echoes++;
    if (size == 0) {
        stop(player, 0);
    } else if (evzmq_socket_write(socket, data, size) != 0) {
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

/* Puts the socket, which then belongs to the player, on a base. Returns 0, or -1 with errno. */
static int sit_down(struct player *player, void *zmq_socket, evzmq_read_cb read_cb)
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
    return evzmq_socket_enable(player->socket, EV_READ);
}

static void get_up(struct player *player, void *zmq_socket)
{
    if (player->socket == NULL && zmq_socket != NULL) {
        (void)zmq_close(zmq_socket);
    }
    evzmq_socket_free(player->socket);
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
    if (player.ball == NULL || sit_down(&player, zmq_socket, on_echo) != 0) {
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
    } else if (sit_down(&player, socket, send_back) != 0) {
        player.error = errno;
    } else if (event_base_dispatch(player.base) < 0) {
        player.error = EIO;
    }
    get_up(&player, socket);
    out->messages = player.echoes;
    out->error = player.error;
}
