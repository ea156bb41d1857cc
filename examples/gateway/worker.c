#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <event2/event.h>

#include <evzmq/evzmq.h>

#include "completion.h"
#include "options.h"

/* Every request gets its result, even one that says only why there is none. */
static void answer(struct evzmq_worker *worker, const struct evzmq_record_query_result *result)
{
    const struct evzmq_union value = {&evzmq_record_query_result_schema, result};
    if (evzmq_worker_answer_value(worker, &value, 0) != 0) {
        (void)complain("worker %u: cannot answer: %s", evzmq_worker_get_identity(worker),
                       evzmq_strerror(errno));
    }
}

static void answer_error(struct evzmq_worker *worker, struct evzmq_str id,
                         const struct evzmq_record_error_data *error)
{
    answer(worker, &(struct evzmq_record_query_result){.id = id, .error = error});
}

static bool wants_stream(const struct evzmq_record_query *query)
{
    struct evzmq_any value;
    bool wants = false;
    if (evzmq_any_find(query->data, "stream", &value) == 0) {
        struct evzmq_cursor cursor = evzmq_cursor_at(value);
        (void)evzmq_cursor_read_bool(&cursor, &wants);
    }
    return wants;
}

static int find_prompt(const struct evzmq_record_query *query, struct evzmq_str *out)
{
    struct evzmq_any value;
    if (evzmq_any_find(query->data, "prompt", &value) != 0) {
        return -1;
    }
    struct evzmq_cursor cursor = evzmq_cursor_at(value);
    return evzmq_cursor_read_str(&cursor, out);
}

/* A request is a Query. So many StreamChunks as there are pieces, when they are asked for, and one
 * QueryResult answer it. */
static void on_request(struct evzmq_worker *worker, struct evzmq_message *message, void *arg)
{
    static const struct evzmq_record_error_data no_prompt = {EVZMQ_STR("invalid_request"),
                                                             EVZMQ_STR("no prompt"), 0};
    static const struct evzmq_record_error_data no_memory = {EVZMQ_STR("no_memory"),
                                                             EVZMQ_STR("out of memory"), 0};
    const struct evzmq_record_query *query = evzmq_record_value(message, NULL);
    struct completion completion;
    struct evzmq_str prompt;
    (void)arg;
    if (query == NULL) {
        return;
    }
    if (find_prompt(query, &prompt) != 0) {
        answer_error(worker, query->id, &no_prompt);
        return;
    }
    if (completion_make(prompt, evzmq_worker_get_identity(worker), &completion) != 0) {
        answer_error(worker, query->id, &no_memory);
        return;
    }
    const size_t pieces = wants_stream(query) ? completion.pieces : 0;
    for (size_t i = 0; i < pieces; i++) {
        const struct evzmq_record_stream_chunk chunk = completion_chunk(&completion, query->id, i);
        const struct evzmq_union value = {&evzmq_record_stream_chunk_schema, &chunk};
        (void)evzmq_worker_answer_value(worker, &value, EVZMQ_POOL_FLAG_MORE);
    }
    struct evzmq_record_text_model_output output;
    const struct evzmq_record_query_result result =
        completion_result(&completion, query->id, &output);
    answer(worker, &result);
    completion_clear(&completion);
}

static void on_event(struct evzmq_worker *worker, const struct evzmq_worker_event *event, void *arg)
{
    (void)arg;
    if (event->type == EVZMQ_WORKER_EVENT_BAD_REQUEST || event->type == EVZMQ_WORKER_EVENT_ERROR) {
        (void)complain("worker %u: %s", evzmq_worker_get_identity(worker),
                       evzmq_strerror(event->error));
    }
}

int be_a_worker(const char *connection)
{
    /* A Ctrl-C at the terminal and a service manager's SIGTERM to all processes reach this one too;
     * the main process says when to end. When it is gone, or loses patience, the end is SIGKILL. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    struct evzmq_codec *queries = evzmq_schema_codec_new(&evzmq_record_query_schema, NULL);
    struct evzmq_codec *responses = evzmq_schema_codec_new(&evzmq_record_response_schema, NULL);
    /* The main process limits what is under way, and with it what can wait here. */
    const struct evzmq_worker_options options = {.size = sizeof(options),
                                                 .codec = queries,
                                                 .output_messages = SIZE_MAX,
                                                 .output_bytes = SIZE_MAX};
    struct event_base *base = event_base_new();
    struct evzmq_worker *worker =
        base == NULL ? NULL : evzmq_worker_new(base, connection, &options);
    if (worker == NULL ||
        evzmq_socket_set_codec(evzmq_worker_get_response_socket(worker), responses) != 0) {
        (void)complain("cannot become a worker: %s", evzmq_strerror(errno));
        return EXIT_FAILURE;
    }
    evzmq_worker_setcb(worker, on_request, on_event, NULL);
    (void)event_base_dispatch(base); /* until the worker has ended */
    evzmq_worker_free(worker);
    event_base_free(base);
    evzmq_codec_free(queries);
    evzmq_codec_free(responses);
    return EXIT_SUCCESS;
}
