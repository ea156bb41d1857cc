/*
 * Sends itself one word through evzmq, and prints it with the versions it runs with.
 */
#include <stdio.h>

#include <event2/event.h>
#include <evzmq/evzmq.h>
#include <evzmq/msgpack.h>
#include <msgpack/version_master.h>
#include <zmq.h>

static void on_message(struct evzmq_socket *socket, struct evzmq_message *message, void *base)
{
    const msgpack_object *word = evzmq_msgpack_value(message);
    int major = -1;
    int minor = -1;
    int patch = -1;

    (void)socket;
    evzmq_version(&major, &minor, &patch);
    if (word != NULL && word->type == MSGPACK_OBJECT_STR) {
        printf("%.*s from evzmq %d.%d.%d, compiled with libevent %s, libzmq %d.%d.%d, "
               "msgpack-c %d.%d.%d\n",
               (int)word->via.str.size, word->via.str.ptr, major, minor, patch, LIBEVENT_VERSION,
               ZMQ_VERSION_MAJOR, ZMQ_VERSION_MINOR, ZMQ_VERSION_PATCH, MSGPACK_VERSION_MAJOR,
               MSGPACK_VERSION_MINOR, MSGPACK_VERSION_REVISION);
    }
    event_base_loopbreak(base);
}

int main(void)
{
    void *context = zmq_ctx_new();
    void *pull = zmq_socket(context, ZMQ_PULL);
    void *push = zmq_socket(context, ZMQ_PUSH);
    struct event_base *base = event_base_new();
    struct evzmq_codec *codec = evzmq_msgpack_codec_new(NULL);
    const struct timeval deadline = {.tv_sec = 30};

    if (zmq_bind(pull, "inproc://hello") != 0 || zmq_connect(push, "inproc://hello") != 0) {
        return 1;
    }
    struct evzmq_socket *in = evzmq_socket_new(base, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    struct evzmq_socket *out = evzmq_socket_new(base, push, EVZMQ_OPT_CLOSE_ON_FREE);
    if (in == NULL || out == NULL || evzmq_socket_set_codec(in, codec) != 0) {
        return 1;
    }
    evzmq_socket_setcb(in, on_message, NULL, NULL, base);
    evzmq_socket_enable(in, EV_READ);
    evzmq_socket_write(out, "\xa5hello", 6);
    event_base_loopexit(base, &deadline);
    event_base_dispatch(base);
    evzmq_socket_free(in);
    evzmq_socket_free(out);
    evzmq_codec_free(codec);
    event_base_free(base);
    zmq_ctx_term(context);
    return 0;
}
