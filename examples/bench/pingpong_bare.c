/* Round trips with blocking libzmq: the measuring end, and the end that sends back. */
#include "pingpong.h"

#include <errno.h>
#include <string.h>

#include <zmq.h>

#include "numbers.h"
#include "peer_jobs.h"
#include "place.h"
#include "report.h"

/* The first trips connect and warm up. */
#define UNRECORDED 100u

int pingpong_note(struct pingpong *game, const void *data, size_t size)
{
    const uint64_t now_ns = numbers_now_ns();
    uint64_t number = 0;
    if (size == game->size) {
        memcpy(&number, data, sizeof(number));
    }
    game->wrong |= size != game->size || number != game->echoes;
    game->echoes++;
    if (game->echoes <= UNRECORDED) {
        game->begin_ns = now_ns;
        return !game->wrong;
    }
    if (game->count < game->count_max) {
        game->trip_us[game->count++] = (double)(now_ns - game->sent_ns) / 1e3;
    }
    return !game->wrong && now_ns - game->begin_ns < game->run_ns;
}

static int receive(void *socket, zmq_msg_t *message)
{
    int got = 0;
    do {
        got = zmq_msg_recv(message, socket, 0);
    } while (got < 0 && zmq_errno() == EINTR);
    return got;
}

static int send_number(void *socket, struct pingpong *game)
{
    zmq_msg_t message;
    if (zmq_msg_init_size(&message, game->size) != 0) {
        return -1;
    }
    memset(zmq_msg_data(&message), 0, game->size);
    memcpy(zmq_msg_data(&message), &game->echoes, sizeof(game->echoes));
    game->sent_ns = numbers_now_ns();
    return zmq_msg_send(&message, socket, 0);
}

int pingpong_bare(void *zmq_socket, struct pingpong *game)
{
    zmq_msg_t message;
    (void)zmq_msg_init(&message);
    int result = 0;
    int playing = 1;
    while (playing) {
        if (send_number(zmq_socket, game) < 0 || receive(zmq_socket, &message) < 0) {
            result = report_error("a round trip failed: %s", zmq_strerror(zmq_errno()));
            break;
        }
        playing = pingpong_note(game, zmq_msg_data(&message), zmq_msg_size(&message));
    }
    (void)zmq_msg_close(&message);
    (void)zmq_send(zmq_socket, "", 0, 0);
    return result;
}

void peer_echo_bare(struct peer_task *task, struct peer_result *out)
{
    void *socket = zmq_socket(task->zmq_context, ZMQ_PAIR);
    if (socket == NULL || place_set_up(socket, PEER_HIGH_WATER_MARK) != 0 ||
        zmq_connect(socket, task->order->endpoint) != 0) {
        out->error = zmq_errno();
    }
    zmq_msg_t message;
    (void)zmq_msg_init(&message);
    while (out->error == 0) {
        if (receive(socket, &message) < 0) {
            out->error = zmq_errno();
        } else if (zmq_msg_size(&message) == 0) {
            break;
        } else if (zmq_msg_send(&message, socket, 0) < 0) {
            out->error = zmq_errno();
        } else {
            out->messages++;
        }
    }
    (void)zmq_msg_close(&message);
    if (socket != NULL) {
        (void)zmq_close(socket);
    }
}
