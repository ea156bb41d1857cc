/*
 * Routes, and answers that need no worker.
 */
#include <string.h>

#include <event2/buffer.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>

#include "gateway.h"
#include "json.h"

#define JSON_TYPE "application/json"

/* Whether a header says where a body ends in words that cannot be misread, so that evhttp has read
 * just that. It compares with "chunked" as a whole, and takes a sign before a length. */
static bool is_plain(const struct evkeyval *header)
{
    if (evutil_ascii_strcasecmp(header->key, "Transfer-Encoding") == 0) {
        return evutil_ascii_strcasecmp(header->value, "chunked") == 0;
    }
    return header->value[0] != '\0' && header->value[strspn(header->value, "0123456789")] == '\0';
}

/* Whether what follows a request might be taken for the next one and is not. evhttp of libevent
 * 2.1.12 goes by the first of several lengths and by none whose name a blank follows, knows no
 * encoding but one, and reads a body, depending on its patches, of three methods or of most. */
static bool is_last_request(struct evhttp_request *request)
{
    const bool is_post = evhttp_request_get_command(request) == EVHTTP_REQ_POST;
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(request);
    bool has_body = false;
    for (const struct evkeyval *header = headers->tqh_first; header != NULL;
         header = header->next.tqe_next) {
        if (strpbrk(header->key, " \t") != NULL) {
            return true;
        }
        if (evutil_ascii_strcasecmp(header->key, "Content-Length") == 0 ||
            evutil_ascii_strcasecmp(header->key, "Transfer-Encoding") == 0) {
            if (has_body || !is_post || !is_plain(header)) {
                return true;
            }
            has_body = true;
        }
    }
    return false;
}

void serve_headers(struct gateway *gateway, struct evhttp_request *request, int code,
                   const char *type)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    (void)evhttp_add_header(headers, "Content-Type", type);
    if (gateway->ending || is_last_request(request)) {
        (void)evhttp_remove_header(headers, "Connection");
        (void)evhttp_add_header(headers, "Connection", "close");
        if (evhttp_request_get_command(request) == EVHTTP_REQ_CONNECT) {
            /* evhttp keeps its connection whatever the headers say, but for HTTP/1.0. */
            request->major = 1;
            request->minor = 0;
            (void)evhttp_remove_header(evhttp_request_get_input_headers(request), "Connection");
        }
    }
    gateway->counters.answers[code]++;
}

void serve_reply(struct gateway *gateway, struct evhttp_request *request, int code,
                 const char *type, struct evbuffer *body)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    serve_headers(gateway, request, code, type);
    const enum evhttp_cmd_type method = evhttp_request_get_command(request);
    if ((method == EVHTTP_REQ_HEAD || method == EVHTTP_REQ_CONNECT) && body != NULL) {
        /* evhttp adds none to these answers. */
        char length[24];
        (void)evutil_snprintf(length, sizeof(length), "%zu", evbuffer_get_length(body));
        (void)evhttp_add_header(headers, "Content-Length", length);
    }
    if (method == EVHTTP_REQ_HEAD) {
        body = NULL; /* It would be sent after the headers. */
    }
    evhttp_send_reply(request, code, NULL, body);
}

void serve_error(struct gateway *gateway, struct evhttp_request *request, int code,
                 const char *type, const char *message)
{
    struct evbuffer *body = evbuffer_new();
    if (code == HTTP_SERVUNAVAIL) {
        (void)evhttp_add_header(evhttp_request_get_output_headers(request), "Retry-After",
                                RETRY_AFTER_SECONDS);
    }
    if (body != NULL) {
        json_add_error(body, type, message);
    }
    serve_reply(gateway, request, code, JSON_TYPE, body);
    if (body != NULL) {
        evbuffer_free(body);
    }
}

static unsigned workers_up(const struct gateway *gateway)
{
    struct evzmq_pool_stats stats = {.size = sizeof(stats)};
    return gateway->pool != NULL && evzmq_pool_get_stats(gateway->pool, &stats) == 0 ? stats.up : 0;
}

static void serve_health(struct gateway *gateway, struct evhttp_request *request)
{
    const unsigned up = workers_up(gateway);
    struct evbuffer *body = evbuffer_new();
    if (gateway->ending || (gateway->pool != NULL && up == 0)) {
        serve_error(gateway, request, HTTP_SERVUNAVAIL, "unhealthy",
                    gateway->ending ? "the server is shutting down" : "no worker is up");
    } else {
        if (body != NULL) {
            (void)evbuffer_add_printf(body, "{\"status\":\"ok\",\"workers\":%u}\n", up);
        }
        serve_reply(gateway, request, HTTP_OK, JSON_TYPE, body);
    }
    if (body != NULL) {
        evbuffer_free(body);
    }
}

static void serve_metrics(struct gateway *gateway, struct evhttp_request *request)
{
    struct evbuffer *body = evbuffer_new();
    if (body != NULL) {
        metrics_add(gateway, body);
    }
    serve_reply(gateway, request, HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", body);
    if (body != NULL) {
        evbuffer_free(body);
    }
}

static void serve_page(struct gateway *gateway, struct evhttp_request *request)
{
    struct evbuffer *body = evbuffer_new();
    if (body != NULL) {
        (void)evbuffer_add_reference(body, page, strlen(page), NULL, NULL);
    }
    (void)evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Security-Policy",
                            "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "
                            "script-src 'unsafe-inline'");
    serve_reply(gateway, request, HTTP_OK, "text/html; charset=utf-8", body);
    if (body != NULL) {
        evbuffer_free(body);
    }
}

struct route {
    const char *path;
    unsigned methods; /* a set of enum evhttp_cmd_type */
    const char *allow; /* the same as text */
    void (*serve)(struct gateway *gateway, struct evhttp_request *request);
};

static const struct route routes[] = {
    {"/v1/completions", EVHTTP_REQ_POST, "POST", completions_request},
    {"/", EVHTTP_REQ_GET | EVHTTP_REQ_HEAD, "GET, HEAD", serve_page},
    {"/healthz", EVHTTP_REQ_GET | EVHTTP_REQ_HEAD, "GET, HEAD", serve_health},
    {"/metrics", EVHTTP_REQ_GET | EVHTTP_REQ_HEAD, "GET, HEAD", serve_metrics},
};

static void refuse_method(struct gateway *gateway, struct evhttp_request *request,
                          const struct route *route)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    (void)evhttp_add_header(headers, "Allow", route->allow);
    (void)evhttp_add_header(headers, "Connection", "close");
    serve_error(gateway, request, HTTP_BADMETHOD, "method_not_allowed",
                "this path has other methods: see Allow");
}

void serve_request(struct evhttp_request *request, void *arg)
{
    struct gateway *gateway = arg;
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = uri == NULL ? NULL : evhttp_uri_get_path(uri);
    for (size_t i = 0; path != NULL && i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (strcmp(path, routes[i].path) != 0) {
            continue;
        }
        if ((routes[i].methods & (unsigned)evhttp_request_get_command(request)) == 0) {
            refuse_method(gateway, request, &routes[i]);
        } else {
            routes[i].serve(gateway, request);
        }
        return;
    }
    serve_error(gateway, request, HTTP_NOTFOUND, "not_found", "there is nothing at this path");
}
