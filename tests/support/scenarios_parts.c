/*
 * scenarios_parts.c: codecs, arenas, messages and contexts.
 */
#include "scenarios.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <evzmq/msgpack.h>

/* Codecs and what they work with. */
static int decode_nothing(const void *state, const void *data, size_t size,
                          struct evzmq_arena *arena, const void **out_value,
                          struct evzmq_decode_error *out_error)
{
    (void)state;
    (void)data;
    (void)size;
    (void)arena;
    (void)out_error;
    *out_value = "";
    return 0;
}

static const struct evzmq_codec_methods methods = {
    .size = sizeof(methods), .name = "nothing", .decode = decode_nothing};

static int act_codec(struct attempt *a)
{
    a->codec = evzmq_codec_new(&methods, NULL);
    return made(a->codec);
}

static int act_tree_codec(struct attempt *a)
{
    a->codec = evzmq_msgpack_codec_new(NULL);
    return made(a->codec);
}

static int act_typed_codec(struct attempt *a)
{
    a->codec = evzmq_schema_codec_new(&evzmq_record_response_schema, NULL);
    return made(a->codec);
}

static void check_codec(struct attempt *a)
{
    assert_non_null(evzmq_codec_get_methods(a->codec));
}

static int act_check_schema(struct attempt *a)
{
    (void)a;
    return evzmq_schema_check(&evzmq_record_response_schema, NULL);
}

static int act_arena(struct attempt *a)
{
    a->arena = evzmq_arena_new();
    return made(a->arena);
}

static void check_arena(struct attempt *a)
{
    memset(evzmq_arena_alloc(a->arena, 100), 1, 100);
}

static void make_arena(struct attempt *a)
{
    a->arena = evzmq_arena_new();
    assert_non_null(a->arena);
    assert_non_null(evzmq_arena_alloc(a->arena, 1000));
}

static int act_cut(struct attempt *a)
{
    return made(evzmq_arena_alloc(a->arena, 100000));
}

static void make_tree_codec(struct attempt *a)
{
    assert_ok(act_arena(a));
    assert_ok(act_tree_codec(a));
}

static const char tree[] = "\x93\x81\xa1k\x91\x92\x01\x02\xc3\xa5hello";

static int act_decode(struct attempt *a)
{
    const void *value = NULL;
    return evzmq_codec_decode(a->codec, tree, sizeof(tree) - 1, a->arena, &value, NULL);
}

static int act_decode_prefix(struct attempt *a)
{
    const void *value = NULL;
    size_t used = 0;
    return evzmq_codec_decode_prefix(a->codec, tree, sizeof(tree) - 1, a->arena, &value, &used,
                                     NULL);
}

static void make_typed_codec(struct attempt *a)
{
    assert_ok(act_arena(a));
    assert_ok(act_typed_codec(a));
}

static int act_decode_record(struct attempt *a)
{
    static const char chunk[] = "\x94\xacstream_chunk\xa1"
                                "1\xa2hi\x80";
    const void *value = NULL;
    return evzmq_codec_decode(a->codec, chunk, sizeof(chunk) - 1, a->arena, &value, NULL);
}

/* Messages. */
static void make_one_part(struct attempt *a)
{
    a->message = evzmq_message_new();
    assert_ok(evzmq_message_add(a->message, "x", 1));
}

static int act_refer(struct attempt *a)
{
    static char data[] = "y";
    return evzmq_message_add_reference(a->message, data, 1, NULL, NULL);
}

static void check_referred(struct attempt *a)
{
    assert_part(a->message, 1, "y", 1);
}

/* Contexts. */
static int act_context(struct attempt *a)
{
    a->context = evzmq_context_new(1, "/tmp");
    return made(a->context);
}

static int act_context_around(struct attempt *a)
{
    a->context = evzmq_context_new_with(a->f->context, "/tmp");
    return made(a->context);
}

static void check_context(struct attempt *a)
{
    assert_int_equal(evzmq_context_check_descriptors(a->context, 1) < 0, 0);
}

/* The first socket of a ZeroMQ context starts its threads, which stay. */
static void make_context(struct attempt *a)
{
    (void)peer_new(a->f, ZMQ_PAIR);
    a->context = evzmq_context_new_with(a->f->context, NULL);
    assert_non_null(a->context);
}

/* Beside what a process left behind that was killed, and nobody else clears away. */
static void make_context_among_leftovers(struct attempt *a)
{
    char leftover[128];

    (void)snprintf(leftover, sizeof leftover, "%s/evzmq-XXXXXX", fixture_directory(a->f));
    assert_non_null(mkdtemp(leftover));
    (void)peer_new(a->f, ZMQ_PAIR);
    a->context = evzmq_context_new_with(a->f->context, fixture_directory(a->f));
    assert_non_null(a->context);
}

static int act_limits(struct attempt *a)
{
    const struct evzmq_context_limits limits = {.size = sizeof(limits), .linger_ms = 1};
    return evzmq_context_set_limits(a->context, &limits);
}

static void make_own_context(struct attempt *a)
{
    a->context = evzmq_context_new(1, NULL);
    assert_non_null(a->context);
}

static int act_socket_limit(struct attempt *a)
{
    const struct evzmq_context_limits limits = {.size = sizeof(limits), .sockets_max = 100};
    return evzmq_context_set_limits(a->context, &limits);
}

static int act_first_socket(struct attempt *a)
{
    a->zmq_socket = evzmq_context_socket(a->context, ZMQ_ROUTER);
    return made(a->zmq_socket);
}

static int act_directory(struct attempt *a)
{
    return made(evzmq_context_get_directory(a->context));
}

static int act_descriptors(struct attempt *a)
{
    return evzmq_context_check_descriptors(a->context, 1);
}

static void make_context_socket(struct attempt *a)
{
    make_context(a);
    assert_ok(act_first_socket(a));
}

static int act_bind_name(struct attempt *a)
{
    return evzmq_context_bind(a->context, a->zmq_socket, "ipc://*");
}

static int act_bind_tcp(struct attempt *a)
{
    return evzmq_context_bind(a->context, a->zmq_socket, "tcp://127.0.0.1:*");
}

static void check_bound(struct attempt *a)
{
    const char *const endpoint = evzmq_context_get_endpoint(a->context, a->zmq_socket);
    assert_non_null(endpoint);
    void *const peer = peer_new(a->f, ZMQ_DEALER);
    peer_connect(peer, endpoint);
    peer_send_text(peer, "hello");
    peer_wait_readable(a->zmq_socket);
}

/* A path at which a dead process left its socket. */
static void make_leftover(struct attempt *a)
{
    make_context_socket(a);
    const char *const directory = evzmq_context_get_directory(a->context);
    assert_non_null(directory);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(a->endpoint, sizeof(a->endpoint), "ipc://%s/p", directory);
    memcpy(address.sun_path, a->endpoint + 6, strlen(a->endpoint + 6) + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(close(fd), 0);
}

static int act_bind_path(struct attempt *a)
{
    return evzmq_context_bind(a->context, a->zmq_socket, a->endpoint);
}

static int act_connect(struct attempt *a)
{
    return evzmq_context_connect(a->context, a->zmq_socket, "tcp://127.0.0.1:1");
}

static int act_close_socket(struct attempt *a)
{
    if (evzmq_context_close_socket(a->context, a->zmq_socket) < 0) {
        return -1;
    }
    a->zmq_socket = NULL;
    return 0;
}

static void bind_context_socket(struct attempt *a)
{
    make_context_socket(a);
    assert_ok(act_bind_name(a));
}

static void make_context_to_close(struct attempt *a)
{
    make_own_context(a);
    assert_non_null(evzmq_context_get_directory(a->context));
}

static int act_close_context(struct attempt *a)
{
    return evzmq_context_close(a->context);
}

#define ALONE(what, prepared, acted, checked)                                                      \
    {                                                                                              \
        .name = #what, .alone = true, .prepare = prepared, .act = acted, .check = checked          \
    }
#define FRUGAL(what, prepared, acted, checked)                                                     \
    {                                                                                              \
        .name = #what, .alone = true, .frugal = true, .prepare = prepared, .act = acted,           \
        .check = checked                                                                           \
    }

static const struct scenario rows[] = {
    ALONE(making_a_codec, NULL, act_codec, check_codec),
    ALONE(making_a_tree_codec, NULL, act_tree_codec, check_codec),
    ALONE(making_a_typed_codec, NULL, act_typed_codec, check_codec),
    ALONE(checking_a_schema, NULL, act_check_schema, check_nothing),
    ALONE(making_an_arena, NULL, act_arena, check_arena),
    ALONE(cutting_from_an_arena, make_arena, act_cut, check_arena),
    ALONE(decoding_a_tree, make_tree_codec, act_decode, check_arena),
    ALONE(decoding_the_first_value, make_tree_codec, act_decode_prefix, check_arena),
    ALONE(decoding_a_record, make_typed_codec, act_decode_record, check_arena),
    ALONE(referring_to_bytes, make_one_part, act_refer, check_referred),
    ALONE(making_a_context, NULL, act_context, check_context),
    {.name = "making_a_context_around_one",
     .alone = true,
     .act = act_context_around,
     .check = check_context,
     .maps = {EINVAL}},
    FRUGAL(setting_limits, make_context, act_limits, check_context),
    FRUGAL(setting_the_limit_of_sockets, make_own_context, act_socket_limit, check_context),
    ALONE(making_a_socket, make_context, act_first_socket, check_context),
    FRUGAL(asking_for_descriptors, make_context, act_descriptors, check_context),
    FRUGAL(making_the_directory, make_context_among_leftovers, act_directory, check_context),
    {.name = "binding_to_a_name",
     .alone = true,
     .makes_room = true, /* the directory */
     .prepare = make_context_socket,
     .act = act_bind_name,
     .check = check_bound},
    {.name = "binding_to_a_path",
     .alone = true,
     .prepare = make_leftover,
     .act = act_bind_path,
     .check = check_bound,
     .maps = {EADDRINUSE}},
    ALONE(binding_to_a_port, make_context_socket, act_bind_tcp, check_bound),
    FRUGAL(connecting, make_context_socket, act_connect, check_nothing),
    FRUGAL(closing_a_socket, bind_context_socket, act_close_socket, check_context),
    FRUGAL(closing_a_context, make_context_to_close, act_close_context, check_nothing),
};

const struct scenario_list scenarios_of_parts = {rows, sizeof(rows) / sizeof(rows[0])};
