/*
 * What evhttp of libevent 2.1.12 does with a request whose connection goes, and what follows:
 *
 * - A request that was not answered in full outlives its connection: evhttp takes the connection
 *   from it and leaves it to whoever was to answer it. One that was answered, or whose connection
 *   this program closes, is freed with the connection, after the close callback.
 * - While a request is being answered evhttp does not read, so that it would not notice that the
 *   client left until the answer is written; and its read callback would end the process if it did
 *   (evhttp_read_cb(): "illegal connection state"). So reading goes on here without a callback, and
 *   what a client sends ahead stays in the buffer, up to the watermark of listen.c. A client that
 *   closes only its sending direction counts as gone, as with evhttp in general.
 * - The close callback stays with the connection, not with the request. It is taken off with the
 *   end of each exchange.
 */
#include "exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/bufferevent.h>

static void on_due(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    completions_overdue(arg);
}

static struct exchange *make_room(struct gateway *gateway)
{
    struct exchange_table *table = &gateway->exchanges;
    if (table->count == table->capacity) {
        const size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
        struct exchange **all = realloc(table->all, capacity * sizeof(struct exchange *));
        if (all == NULL) {
            return NULL;
        }
        table->all = all;
        table->capacity = capacity;
    }
    struct exchange *exchange = calloc(1, sizeof(*exchange));
    if (exchange == NULL) {
        return NULL;
    }
    exchange->due = evtimer_new(gateway->base, on_due, exchange);
    if (exchange->due == NULL) {
        free(exchange);
        return NULL;
    }
    exchange->index = table->count;
    table->all[table->count++] = exchange;
    return exchange;
}

/* Reading times out while nothing is to be read; writing does not. */
static void set_timeouts(const struct exchange *exchange, bool reading)
{
    const struct timeval timeout = {(time_t)exchange->gateway->options.idle_timeout, 0};
    (void)bufferevent_set_timeouts(evhttp_connection_get_bufferevent(exchange->connection),
                                   reading ? &timeout : NULL, &timeout);
}

static void end(struct exchange *exchange)
{
    struct gateway *gateway = exchange->gateway;
    struct exchange_table *table = &gateway->exchanges;
    exchange_remove(exchange);
    (void)event_del(exchange->due);
    evzmq_message_free(exchange->message);
    exchange->message = NULL;
    exchange->phase = PHASE_FREE;
    exchange->next = table->free;
    table->free = exchange;
    table->in_flight--;
    if (table->in_flight == 0) {
        gateway_idle(gateway);
    }
}

/* The answer is written; the connection goes on with its next request. */
static void on_sent(struct evhttp_request *request, void *arg)
{
    struct exchange *exchange = arg;
    (void)request;
    evhttp_connection_set_closecb(exchange->connection, NULL, NULL);
    set_timeouts(exchange, true);
    end(exchange);
}

static void on_close(struct evhttp_connection *connection, void *arg)
{
    struct exchange *exchange = arg;
    struct counters *counters = &exchange->gateway->counters;
    (void)connection;
    counters->clients_gone += !exchange->too_slow;
    counters->clients_too_slow += exchange->too_slow;
    if (evhttp_request_get_connection(exchange->request) == NULL) {
        evhttp_request_free(exchange->request);
    }
    end(exchange);
}

static void watch_close(struct exchange *exchange)
{
    struct bufferevent *bufferevent = evhttp_connection_get_bufferevent(exchange->connection);
    bufferevent_data_cb write_cb = NULL;
    bufferevent_event_cb event_cb = NULL;
    void *arg = NULL;
    evhttp_connection_set_closecb(exchange->connection, on_close, exchange);
    bufferevent_getcb(bufferevent, NULL, &write_cb, &event_cb, &arg);
    bufferevent_setcb(bufferevent, NULL, write_cb, event_cb, arg);
    set_timeouts(exchange, false);
    (void)bufferevent_enable(bufferevent, EV_READ);
}

struct exchange *exchange_begin(struct gateway *gateway, struct evhttp_request *request,
                                bool streams)
{
    struct exchange_table *table = &gateway->exchanges;
    struct exchange *exchange = table->free;
    if (exchange != NULL) {
        table->free = exchange->next;
    } else {
        exchange = make_room(gateway);
    }
    if (exchange == NULL) {
        return NULL;
    }
    *exchange = (struct exchange){.gateway = gateway,
                                  .index = exchange->index,
                                  .due = exchange->due,
                                  .number = ++table->number,
                                  .phase = PHASE_WAITING,
                                  .streams = streams,
                                  .request = request,
                                  .connection = evhttp_request_get_connection(request)};
    table->in_flight++;
    gateway->counters.exchanges++;
    watch_close(exchange);
    return exchange;
}

int exchange_wait(struct exchange *exchange)
{
    return event_add(exchange->due, exchange->gateway->timeout);
}

struct evzmq_str exchange_id(const struct exchange *exchange, char out[EXCHANGE_ID_SIZE])
{
    const int size =
        snprintf(out, EXCHANGE_ID_SIZE, "cmpl-%zx-%" PRIx64, exchange->index, exchange->number);
    return (struct evzmq_str){out, (size_t)size};
}

struct exchange *exchange_find(const struct gateway *gateway, struct evzmq_str id)
{
    char text[EXCHANGE_ID_SIZE] = "";
    size_t index = 0;
    uint64_t number = 0;
    int used = 0;
    if (id.size >= sizeof(text)) {
        return NULL;
    }
    memcpy(text, id.data, id.size);
    if (sscanf(text, "cmpl-%zx-%" SCNx64 "%n", &index, &number, &used) != 2 ||
        (size_t)used != id.size || index >= gateway->exchanges.count) {
        return NULL;
    }
    struct exchange *exchange = gateway->exchanges.all[index];
    return exchange->phase == PHASE_ASKED && exchange->number == number ? exchange : NULL;
}

void exchange_append(struct exchange *exchange, struct exchange_list *list)
{
    exchange->list = list;
    exchange->previous = list->last;
    exchange->next = NULL;
    if (list->last == NULL) {
        list->first = exchange;
    } else {
        list->last->next = exchange;
    }
    list->last = exchange;
    list->count++;
}

void exchange_remove(struct exchange *exchange)
{
    struct exchange_list *list = exchange->list;
    if (list == NULL) {
        return;
    }
    if (list == &exchange->gateway->waiting) {
        exchange->gateway->waiting_bytes -= evzmq_message_get_size(exchange->message);
    }
    *(exchange->previous == NULL ? &list->first : &exchange->previous->next) = exchange->next;
    *(exchange->next == NULL ? &list->last : &exchange->next->previous) = exchange->previous;
    exchange->list = NULL;
    list->count--;
}

void exchange_sending(struct exchange *exchange)
{
    exchange_remove(exchange);
    (void)event_del(exchange->due);
    exchange->phase = PHASE_SENDING;
    evhttp_request_set_on_complete_cb(exchange->request, on_sent, exchange);
}

void exchange_clear(struct gateway *gateway)
{
    for (size_t i = 0; i < gateway->exchanges.count; i++) {
        event_free(gateway->exchanges.all[i]->due);
        free(gateway->exchanges.all[i]);
    }
    free(gateway->exchanges.all);
}
