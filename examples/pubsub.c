/*
 * pubsub: publishes readings under topics, or prints those it is subscribed to.
 *
 * The publisher binds an XPUB socket, so that it sees when the first subscriber has come: what is
 * published before that reaches nobody. Readings of one sensor that come within 10 milliseconds
 * travel together, under the sensor's topic.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <zmq.h>

#include <evzmq/evzmq.h>

static const char usage[] =
    "usage: pubsub publish ENDPOINT COUNT\n"
    "       pubsub subscribe ENDPOINT COUNT [PREFIX]\n"
    "\n"
    "publish waits for a subscriber and sends it COUNT readings of three sensors, sensor.0 to\n"
    "sensor.2; subscribe prints COUNT readings whose topics begin with PREFIX and ends.\n";

struct program {
    struct event_base *base;
    struct evzmq_publisher *publisher;
    unsigned long count; /* to publish or to print */
    unsigned long done;
    int failed;
};

static void complain(struct program *program, const char *what, int error)
{
    fprintf(stderr, "pubsub: %s: %s\n", what, evzmq_strerror(error));
    program->failed = 1;
    (void)event_base_loopbreak(program->base);
}

static void on_shutdown(struct evzmq_publisher *publisher, uint64_t handed_over,
                        uint64_t not_handed_over, void *arg)
{
    struct program *program = arg;
    (void)publisher, (void)handed_over, (void)not_handed_over;
    (void)event_base_loopbreak(program->base);
}

/* Publishes until all is published or the queue is full; then the write callback goes on. */
static void publish(struct evzmq_publisher *publisher, void *arg)
{
    struct program *program = arg;
    while (program->done < program->count) {
        char topic[16];
        char text[32];
        (void)snprintf(topic, sizeof(topic), "sensor.%lu", program->done % 3);
        const int size = snprintf(text, sizeof(text), "%lu", program->done);
        if (evzmq_publisher_publish(publisher, topic, text, (size_t)size) < 0) {
            if (errno != EAGAIN) {
                complain(program, "publish", errno);
            }
            return;
        }
        program->done++;
    }
    if (evzmq_publisher_shutdown(publisher, NULL, on_shutdown, program) < 0) {
        complain(program, "shutdown", errno);
    }
}

static void on_subscription(struct evzmq_publisher *publisher, int subscribed, const void *prefix,
                            size_t size, void *arg)
{
    (void)prefix, (void)size;
    if (subscribed) {
        publish(publisher, arg);
    }
}

static void on_record(struct evzmq_subscriber *subscriber, const char *topic, size_t topic_size,
                      struct evzmq_message *message, void *arg)
{
    struct program *program = arg;
    size_t size = 0;
    const char *text = evzmq_message_get_part(message, 0, &size);
    (void)subscriber, (void)topic_size;
    if (program->done < program->count) {
        printf("%s %.*s\n", topic, (int)size, text);
        program->done++;
    }
    if (program->done == program->count) {
        (void)event_base_loopbreak(program->base);
    }
}

static int run_publisher(struct program *program, void *context, const char *endpoint)
{
    const struct evzmq_publisher_options how = {
        .size = sizeof(how), .batching = EVZMQ_BATCH_PER_TOPIC, .when_full = EVZMQ_FULL_WAIT};
    void *socket = zmq_socket(context, ZMQ_XPUB);
    struct evzmq_publisher *publisher =
        evzmq_publisher_new(program->base, socket, EVZMQ_OPT_CLOSE_ON_FREE, &how);
    if (publisher == NULL) {
        complain(program, "publisher", errno);
        return 1;
    }
    const int linger_ms = 10000;
    (void)zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof(linger_ms));
    evzmq_publisher_setcb(publisher, publish, on_subscription, NULL, program);
    char bound[256];
    size_t size = sizeof(bound);
    if (zmq_bind(socket, endpoint) < 0 ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound, &size) < 0 ||
        evzmq_socket_touch(evzmq_publisher_get_socket(publisher)) < 0) {
        complain(program, endpoint, errno);
    } else {
        printf("pubsub: publishing at %s\n", bound);
        (void)fflush(stdout);
        (void)event_base_dispatch(program->base);
    }
    evzmq_publisher_free(publisher);
    return program->failed;
}

static int run_subscriber(struct program *program, void *context, const char *endpoint,
                          const char *prefix)
{
    const struct evzmq_subscriber_options how = {.size = sizeof(how), .no_shared_batches = 1};
    void *socket = zmq_socket(context, ZMQ_SUB);
    struct evzmq_subscriber *subscriber =
        evzmq_subscriber_new(program->base, socket, EVZMQ_OPT_CLOSE_ON_FREE, &how);
    if (subscriber == NULL) {
        complain(program, "subscriber", errno);
        return 1;
    }
    evzmq_subscriber_setcb(subscriber, on_record, NULL, program);
    if (zmq_connect(socket, endpoint) < 0 || evzmq_subscriber_subscribe(subscriber, prefix) < 0) {
        complain(program, endpoint, errno);
    } else {
        (void)event_base_dispatch(program->base);
    }
    evzmq_subscriber_free(subscriber);
    return program->failed;
}

int main(int argc, char **argv)
{
    const int publishes = argc == 4 && strcmp(argv[1], "publish") == 0;
    const int subscribes = (argc == 4 || argc == 5) && strcmp(argv[1], "subscribe") == 0;
    char *end = NULL;
    struct program program = {.count = argc < 4 ? 0 : strtoul(argv[3], &end, 10)};
    if ((!publishes && !subscribes) || *end != '\0' || program.count == 0) {
        fputs(usage, stderr);
        return 2;
    }
    void *context = zmq_ctx_new();
    program.base = event_base_new();
    if (context == NULL || program.base == NULL) {
        perror("pubsub");
        return 1;
    }
    const int status = publishes
                           ? run_publisher(&program, context, argv[2])
                           : run_subscriber(&program, context, argv[2], argc == 5 ? argv[4] : "");
    event_base_free(program.base);
    (void)zmq_ctx_term(context);
    return status;
}
