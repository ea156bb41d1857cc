/*
 * POST /v1/completions, from the body to the answer.
 *
 *     body -> question -> Query -> a worker with room, or the queue -> QueryResult -> JSON
 *                                                                      StreamChunk -> event
 *
 * What waits for a worker waits here and not with a worker: of that nothing is lost when a worker
 * is. Whoever has an answer to give looks whether the exchange is still there, since its client may
 * have left; whoever gave it does not look at the exchange again.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/http_struct.h>

#include "completion.h"
#include "exchange.h"
#include "json.h"

/* <event2/http.h> has no names for them. */
#define BAD_GATEWAY 502
#define GATEWAY_TIMEOUT 504

static double seconds_now(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* To the client. */

/* Answers in one piece, also in the place of a stream that has not begun. */
static void answer_error(struct exchange *exchange, int code, const char *type, const char *message)
{
    struct gateway *gateway = exchange->gateway;
    struct evhttp_request *request = exchange->request;
    exchange_sending(exchange);
    serve_error(gateway, request, code, type, message);
}

/* Sends one server-sent event. The client may be dropped, and with it the exchange: returns whether
 * it is still there. */
static bool send_event(struct exchange *exchange, struct evbuffer *event)
{
    struct bufferevent *bufferevent = evhttp_connection_get_bufferevent(exchange->connection);
    const struct evbuffer *output = bufferevent_get_output(bufferevent);
    if (evbuffer_get_length(output) > exchange->gateway->options.client_buffer) {
        exchange->too_slow = true;
        evhttp_connection_free(exchange->connection);
        return false;
    }
    evhttp_send_reply_chunk(exchange->request, event);
    return true;
}

static void start_stream(struct exchange *exchange)
{
    struct evhttp_request *request = exchange->request;
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    /* Without chunks the end of the connection is the end of the answer. evhttp would keep it open
     * for a client of HTTP/1.0 that asks for it, and call the answer empty. */
    if (request->major < 1 || (request->major == 1 && request->minor < 1)) {
        (void)evhttp_remove_header(evhttp_request_get_input_headers(request), "Connection");
    }
    serve_headers(exchange->gateway, request, HTTP_OK, "text/event-stream");
    (void)evhttp_add_header(headers, "Cache-Control", "no-cache");
    exchange->started = true;
    evhttp_send_reply_start(request, HTTP_OK, NULL);
}

static void end_stream(struct exchange *exchange)
{
    exchange_sending(exchange);
    evhttp_send_reply_end(exchange->request);
}

static void break_stream(struct exchange *exchange, const char *type, const char *message)
{
    struct evbuffer *event = evbuffer_new();
    exchange->gateway->counters.streams_broken++;
    if (event == NULL) {
        end_stream(exchange);
        return;
    }
    (void)evbuffer_add(event, "data: ", 6);
    json_add_error(event, type, message);
    (void)evbuffer_add(event, "\n", 1);
    if (send_event(exchange, event)) {
        end_stream(exchange);
    }
    evbuffer_free(event);
}

static void answer_failed(struct exchange *exchange, int code, const char *type,
                          const char *message)
{
    if (exchange->started) {
        break_stream(exchange, type, message);
    } else {
        answer_error(exchange, code, type, message);
    }
}

/* Returns whether the exchange is still there. */
static bool answer_chunk(struct exchange *exchange, const struct evzmq_record_stream_chunk *chunk)
{
    struct evbuffer *event = evbuffer_new();
    if (event == NULL) {
        return true; /* The result has all of the text. */
    }
    if (!exchange->started) {
        start_stream(exchange);
    }
    exchange->gateway->counters.chunks++;
    (void)evbuffer_add(event, "data: ", 6);
    json_add_chunk(event, chunk);
    (void)evbuffer_add(event, "\n\n", 2);
    const bool remains = send_event(exchange, event);
    evbuffer_free(event);
    return remains;
}

/* The message that the result came in; NULL where there is none. */
static void answer_result(struct exchange *exchange, const struct evzmq_record_query_result *result,
                          struct evzmq_message *message)
{
    static const char done[] = "\n\ndata: [DONE]\n\n";
    struct gateway *gateway = exchange->gateway;
    struct evhttp_request *request = exchange->request;
    struct evbuffer *body = evbuffer_new();
    if (body == NULL) {
        answer_failed(exchange, HTTP_INTERNAL, "no_memory", "out of memory");
        return;
    }
    if (!exchange->streams) {
        json_add_result(body, result, message);
        (void)evbuffer_add(body, "\n", 1);
        exchange_sending(exchange);
        serve_reply(gateway, request, result->error == NULL ? HTTP_OK : HTTP_INTERNAL,
                    "application/json", body);
    } else {
        if (!exchange->started) {
            start_stream(exchange);
        }
        (void)evbuffer_add(body, "data: ", 6);
        json_add_result(body, result, message);
        (void)evbuffer_add(body, done, sizeof(done) - 1);
        if (send_event(exchange, body)) {
            end_stream(exchange);
        }
    }
    evbuffer_free(body);
}

/* To and from the workers. */

/*
 * A worker that leaves requests without an answer gets no more once they are as many as it may
 * have: it would be up and do nothing for ever, also when the clients of all of them have left. So
 * a worker that has so many, and for as long as a request may take got none and said nothing, is
 * killed, and another one started.
 *
 * The timer's time is that of the exchanges' own, and it was started after theirs, so that none of
 * them waits any more when it fires.
 */
static void on_silence(evutil_socket_t fd, short events, void *arg)
{
    const struct load *load = arg;
    const struct gateway *gateway = load->gateway;
    const unsigned worker = (unsigned)(load - gateway->loads);
    struct evzmq_pool_worker_stats stats = {.size = sizeof(stats)};
    (void)fd;
    (void)events;
    if (evzmq_pool_get_worker_stats(gateway->pool, worker, &stats) == 0 &&
        stats.state == EVZMQ_POOL_UP && stats.pid > 0 &&
        stats.unanswered + stats.queued >= REQUESTS_PER_WORKER) {
        (void)complain("worker %u leaves %llu requests unanswered", worker,
                       (unsigned long long)(stats.unanswered + stats.queued));
        (void)kill((pid_t)stats.pid, SIGKILL);
    }
}

int completions_begin(struct gateway *gateway)
{
    gateway->loads = calloc(gateway->options.workers, sizeof(*gateway->loads));
    if (gateway->loads == NULL) {
        return -1;
    }
    for (unsigned worker = 0; worker < gateway->options.workers; worker++) {
        struct load *load = &gateway->loads[worker];
        load->gateway = gateway;
        load->silence = evtimer_new(gateway->base, on_silence, load);
        if (load->silence == NULL) {
            return -1;
        }
    }
    return 0;
}

void completions_clear(struct gateway *gateway)
{
    for (unsigned i = 0; gateway->loads != NULL && i < gateway->options.workers; i++) {
        if (gateway->loads[i].silence != NULL) {
            event_free(gateway->loads[i].silence);
        }
    }
    free(gateway->loads);
}

/* A worker has got a request or said something: its silence begins anew. */
static void hear(struct gateway *gateway, unsigned worker)
{
    (void)event_add(gateway->loads[worker].silence, gateway->timeout);
}

static void asked(struct exchange *exchange, unsigned worker)
{
    struct load *load = &exchange->gateway->loads[worker];
    hear(exchange->gateway, worker);
    exchange->phase = PHASE_ASKED;
    exchange->worker = worker;
    exchange->place = ++load->sent;
    exchange_append(exchange, &load->asked);
}

static void refuse(struct exchange *exchange, int error)
{
    if (error == EHOSTUNREACH || error == ESHUTDOWN) {
        answer_error(exchange, HTTP_SERVUNAVAIL, "no_worker", "there is no worker");
    } else {
        answer_error(exchange, HTTP_INTERNAL, "internal", evzmq_strerror(error));
    }
}

/* Sends what waits, as far as workers take it. */
static void pump(struct gateway *gateway)
{
    for (struct exchange *exchange; (exchange = gateway->waiting.first) != NULL;) {
        const size_t size = evzmq_message_get_size(exchange->message);
        const int worker =
            evzmq_pool_send_message(gateway->pool, EVZMQ_POOL_NEXT, exchange->message);
        if (worker < 0 && errno == EAGAIN) {
            return;
        }
        if (worker < 0) {
            refuse(exchange, errno);
            continue;
        }
        /* The message is the pool's now. */
        exchange->message = NULL;
        gateway->waiting_bytes -= size;
        exchange_remove(exchange);
        asked(exchange, (unsigned)worker);
    }
}

/* Encodes a query into memory that the message takes over. */
static struct evzmq_message *make_message(const struct gateway *gateway,
                                          const struct evzmq_record_query *query)
{
    struct evzmq_message *message = evzmq_message_new();
    struct evbuffer *buffer = evbuffer_new();
    struct evbuffer_iovec space;
    size_t size = 0;
    if (message == NULL || buffer == NULL ||
        evzmq_codec_encoded_size(gateway->queries, query, &size) != 0 ||
        evbuffer_reserve_space(buffer, (ev_ssize_t)size, &space, 1) != 1 ||
        evzmq_codec_encode(gateway->queries, query, space.iov_base, size) != 0) {
        goto failed;
    }
    space.iov_len = size;
    if (evbuffer_commit_space(buffer, &space, 1) == 0 &&
        evzmq_message_add_evbuffer(message, buffer) == 0) {
        evbuffer_free(buffer);
        return message;
    }
failed:
    evzmq_message_free(message);
    if (buffer != NULL) {
        evbuffer_free(buffer);
    }
    return NULL;
}

/* Has a query wait for a worker. */
static void enqueue(struct exchange *exchange, const struct evzmq_record_query *query)
{
    struct gateway *gateway = exchange->gateway;
    if (gateway->waiting.count >= gateway->options.queue ||
        gateway->waiting_bytes >= QUEUE_BYTES_MAX) {
        gateway->counters.queue_full++;
        answer_error(exchange, HTTP_SERVUNAVAIL, "busy", "too many requests wait for a worker");
        return;
    }
    exchange->message = make_message(gateway, query);
    if (exchange->message == NULL) {
        answer_error(exchange, HTTP_INTERNAL, "no_memory", "out of memory");
        return;
    }
    gateway->waiting_bytes += evzmq_message_get_size(exchange->message);
    exchange_append(exchange, &gateway->waiting);
}

/* Asks a worker that has room, unless others wait for one already. */
static void ask(struct exchange *exchange, const struct question *question)
{
    struct gateway *gateway = exchange->gateway;
    char id[EXCHANGE_ID_SIZE];
    msgpack_sbuffer data;
    msgpack_sbuffer_init(&data);
    if (question_pack(question, &data) != 0 || exchange_wait(exchange) != 0) {
        msgpack_sbuffer_destroy(&data);
        answer_error(exchange, HTTP_INTERNAL, "no_memory", "out of memory");
        return;
    }
    const struct evzmq_record_query query = {.id = exchange_id(exchange, id),
                                             .data = {data.data, data.size},
                                             .created_at = seconds_now()};
    int worker = -1;
    errno = EAGAIN;
    if (gateway->waiting.count == 0) {
        worker = evzmq_pool_send_value(gateway->pool, EVZMQ_POOL_NEXT, &query);
    }
    if (worker >= 0) {
        asked(exchange, (unsigned)worker);
    } else if (errno == EAGAIN) {
        enqueue(exchange, &query);
    } else {
        refuse(exchange, errno);
    }
    msgpack_sbuffer_destroy(&data);
}

/* Does a worker's work here. */
static void answer_directly(struct exchange *exchange, const struct question *question)
{
    char id_text[EXCHANGE_ID_SIZE];
    const struct evzmq_str id = exchange_id(exchange, id_text);
    struct completion completion;
    if (completion_make(question->prompt, 0, &completion) != 0) {
        answer_error(exchange, HTTP_INTERNAL, "no_memory", "out of memory");
        return;
    }
    const size_t pieces = question->stream ? completion.pieces : 0;
    bool remains = true;
    for (size_t i = 0; i < pieces && remains; i++) {
        const struct evzmq_record_stream_chunk chunk = completion_chunk(&completion, id, i);
        remains = answer_chunk(exchange, &chunk);
    }
    if (remains) {
        struct evzmq_record_text_model_output output;
        const struct evzmq_record_query_result result = completion_result(&completion, id, &output);
        answer_result(exchange, &result, NULL);
    }
    completion_clear(&completion);
}

void completions_request(struct gateway *gateway, struct evhttp_request *request)
{
    struct evbuffer *body = evhttp_request_get_input_buffer(request);
    const size_t size = evbuffer_get_length(body);
    char error[QUESTION_ERROR_SIZE];
    struct question question;
    if (gateway->ending) {
        serve_error(gateway, request, HTTP_SERVUNAVAIL, "ending", "the server is shutting down");
        return;
    }
    if (question_read(evbuffer_pullup(body, -1), size, &question, error) != 0) {
        serve_error(gateway, request, HTTP_BADREQUEST, "invalid_request", error);
        return;
    }
    (void)evbuffer_drain(body, size);
    struct exchange *exchange = exchange_begin(gateway, request, question.stream);
    if (exchange == NULL) {
        serve_error(gateway, request, HTTP_INTERNAL, "no_memory", "out of memory");
    } else if (gateway->pool == NULL) {
        answer_directly(exchange, &question);
    } else {
        ask(exchange, &question);
    }
    question_clear(&question);
}

void completions_answer(struct evzmq_pool *pool, unsigned worker, struct evzmq_message *message,
                        void *arg)
{
    struct gateway *gateway = arg;
    const struct evzmq_schema *which = NULL;
    const void *record = evzmq_record_value(message, &which);
    const bool is_chunk = which == &evzmq_record_stream_chunk_schema;
    const struct evzmq_record_stream_chunk *chunk = record;
    const struct evzmq_record_query_result *result = record;
    (void)pool;
    if (record == NULL) {
        gateway->counters.bad_answers++;
        hear(gateway, worker);
        return;
    }
    struct exchange *exchange = exchange_find(gateway, is_chunk ? chunk->id : result->id);
    if (exchange == NULL || exchange->worker != worker) {
        gateway->counters.late_answers++;
    } else if (!is_chunk) {
        answer_result(exchange, result, message);
    } else if (exchange->streams) {
        (void)exchange_wait(exchange); /* for the next one; without memory the old time holds */
        (void)answer_chunk(exchange, chunk);
    } else {
        gateway->counters.bad_answers++;
    }
    hear(gateway, worker); /* after the exchange's time has begun anew, if it has */
    pump(gateway);
}

void completions_overdue(struct exchange *exchange)
{
    exchange->gateway->counters.timed_out++;
    answer_failed(exchange, GATEWAY_TIMEOUT, "timeout", "no answer came in time");
}

/* A worker is lost, and with it what it had. Requests that its socket still holds go to the process
 * that is started in its place, if there is one. */
static void lose(struct gateway *gateway, const struct evzmq_pool_event *event)
{
    const struct load *load = &gateway->loads[event->worker];
    const uint64_t kept = event->restarting ? event->queued : 0;
    (void)complain("worker %u lost (%s, status %d), %llu requests with it%s", event->worker,
                   evzmq_pool_loss_name(event->loss), event->status,
                   (unsigned long long)event->unanswered,
                   event->restarting ? "; starting another" : "");
    for (struct exchange *exchange = load->asked.first, *next; exchange != NULL; exchange = next) {
        next = exchange->next;
        if (exchange->place + kept <= load->sent) {
            gateway->counters.lost++;
            answer_failed(exchange, BAD_GATEWAY, "worker_died",
                          "the worker died before it answered");
        }
    }
}

void completions_event(struct evzmq_pool *pool, const struct evzmq_pool_event *event, void *arg)
{
    struct gateway *gateway = arg;
    (void)pool;
    switch (event->type) {
    case EVZMQ_POOL_EVENT_LOST:
        lose(gateway, event);
        break;
    case EVZMQ_POOL_EVENT_BAD_ANSWER:
        gateway->counters.bad_answers++;
        if (event->worker < gateway->options.workers) {
            hear(gateway, event->worker);
        }
        break;
    case EVZMQ_POOL_EVENT_ERROR:
        (void)complain("%s", evzmq_strerror(event->error));
        break;
    case EVZMQ_POOL_EVENT_READY:
        hear(gateway, event->worker);
        break;
    case EVZMQ_POOL_EVENT_WRITABLE:
    default:
        break;
    }
    pump(gateway);
}
