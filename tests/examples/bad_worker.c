/*
 * bad_worker CONNECTION: a worker of http_gateway that does with each request what its prompt says:
 *
 *     garbage   answers with bytes that no record begins with
 *     unknown   answers a request that nobody made
 *     mute      does not answer
 *     twice     answers twice
 *     half      answers with the first piece of a stream and nothing else
 *     piece     answers with a piece, asked for or not, and the result
 *     binary    answers with text in its metadata that is no UTF-8
 *     late      answers once there is another request, and before it
 *     exit      exits, with status 3
 *
 * and with any other prompt answers with it. The gateway starts it: http_gateway --worker.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include <evzmq/evzmq.h>

static char late[64]; /* the id of a request that is still to be answered; "": none */

static bool says(struct evzmq_str prompt, const char *word)
{
    return prompt.size == strlen(word) && memcmp(prompt.data, word, prompt.size) == 0;
}

static struct evzmq_str find_prompt(const struct evzmq_record_query *query)
{
    struct evzmq_any value;
    struct evzmq_str prompt = EVZMQ_STR("");
    if (evzmq_any_find(query->data, "prompt", &value) == 0) {
        struct evzmq_cursor cursor = evzmq_cursor_at(value);
        (void)evzmq_cursor_read_str(&cursor, &prompt);
    }
    return prompt;
}

static void send_value(struct evzmq_worker *worker, const struct evzmq_schema *schema,
                       const void *record, unsigned flags)
{
    const struct evzmq_union value = {schema, record};
    if (evzmq_worker_answer_value(worker, &value, flags) != 0) {
        perror("bad_worker");
    }
}

static void send_piece(struct evzmq_worker *worker, struct evzmq_str id, struct evzmq_str text)
{
    const struct evzmq_record_stream_chunk chunk = {.id = id, .response_chunk = text};
    send_value(worker, &evzmq_record_stream_chunk_schema, &chunk, EVZMQ_POOL_FLAG_MORE);
}

static void send_result(struct evzmq_worker *worker, struct evzmq_str id, struct evzmq_str text,
                        struct evzmq_any metadata)
{
    const struct evzmq_record_text_model_output output = {
        .output = {.kind = EVZMQ_CHOICE_STR, .as = {.str = text}}};
    const struct evzmq_record_query_result result = {
        .id = id, .response_output = &output, .metadata = metadata};
    send_value(worker, &evzmq_record_query_result_schema, &result, 0);
}

static void answer_late(struct evzmq_worker *worker)
{
    if (late[0] != '\0') {
        send_result(worker, (struct evzmq_str){late, strlen(late)}, (struct evzmq_str)EVZMQ_STR(""),
                    (struct evzmq_any){NULL, 0});
        late[0] = '\0';
    }
}

static void on_request(struct evzmq_worker *worker, struct evzmq_message *message, void *arg)
{
    static const unsigned char binary[] = {0x81, 0xa1, 'a', 0xa2, 0xc3, '"'};
    static const struct evzmq_any nothing = {NULL, 0};
    const struct evzmq_record_query *query = evzmq_record_value(message, NULL);
    (void)arg;
    if (query == NULL) {
        return;
    }
    const struct evzmq_str prompt = find_prompt(query);
    answer_late(worker);
    if (says(prompt, "garbage")) {
        (void)evzmq_worker_answer(worker, "\xc1", 1, 0);
    } else if (says(prompt, "unknown")) {
        send_result(worker, (struct evzmq_str)EVZMQ_STR("cmpl-0-ffff"), prompt, nothing);
    } else if (says(prompt, "half")) {
        send_piece(worker, query->id, prompt);
    } else if (says(prompt, "binary")) {
        send_result(worker, query->id, prompt, (struct evzmq_any){binary, sizeof(binary)});
    } else if (says(prompt, "late")) {
        (void)snprintf(late, sizeof(late), "%.*s", (int)query->id.size, query->id.data);
    } else if (says(prompt, "exit")) {
        exit(3);
    } else if (!says(prompt, "mute")) {
        if (says(prompt, "piece")) {
            send_piece(worker, query->id, prompt);
        }
        send_result(worker, query->id, prompt, nothing);
        if (says(prompt, "twice")) {
            send_result(worker, query->id, prompt, nothing);
        }
    }
}

int main(int argc, char **argv)
{
    struct evzmq_codec *queries = evzmq_schema_codec_new(&evzmq_record_query_schema, NULL);
    struct evzmq_codec *responses = evzmq_schema_codec_new(&evzmq_record_response_schema, NULL);
    const struct evzmq_worker_options options = {.size = sizeof(options), .codec = queries};
    struct event_base *base = event_base_new();
    struct evzmq_worker *worker = evzmq_worker_new(base, argv[argc - 1], &options);
    if (worker == NULL ||
        evzmq_socket_set_codec(evzmq_worker_get_response_socket(worker), responses) != 0) {
        perror("bad_worker");
        return EXIT_FAILURE;
    }
    evzmq_worker_setcb(worker, on_request, NULL, NULL);
    (void)event_base_dispatch(base); /* until the worker has ended */
    evzmq_worker_free(worker);
    event_base_free(base);
    evzmq_codec_free(queries);
    evzmq_codec_free(responses);
    return EXIT_SUCCESS;
}
