/*
 * Routes, and answers that need no worker.
 */
#include <string.h>

#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>

#include "gateway.h"
#include "json.h"

#define HTTP_PAYLOAD "application/json"

static bool is_head(const struct evhttp_request *request)
{
    return evhttp_request_get_command(request) == EVHTTP_REQ_HEAD;
}

/* evhttp does not read the body of a HEAD request. It must not be taken for the next request. */
static bool has_body(struct evhttp_request *request)
{
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(request);
    return evhttp_find_header(headers, "Content-Length") != NULL ||
           evhttp_find_header(headers, "Transfer-Encoding") != NULL;
}

void serve_reply(struct gateway *gateway, struct evhttp_request *request, int code,
                 const char *type, struct evbuffer *body)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    (void)evhttp_add_header(headers, "Content-Type", type);
    if (gateway->ending) {
        (void)evhttp_remove_header(headers, "Connection");
        (void)evhttp_add_header(headers, "Connection", "close");
    }
    gateway->counters.answers[code]++;
    if (is_head(request) && has_body(request)) {
        (void)evhttp_remove_header(headers, "Connection");
        (void)evhttp_add_header(headers, "Connection", "close");
    }
    if (is_head(request) && body != NULL) {
        /* evhttp would send the body after the headers. */
        char length[24];
        (void)evutil_snprintf(length, sizeof(length), "%zu", evbuffer_get_length(body));
        (void)evhttp_add_header(headers, "Content-Length", length);
        body = NULL;
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
    serve_reply(gateway, request, code, HTTP_PAYLOAD, body);
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
        serve_reply(gateway, request, HTTP_OK, HTTP_PAYLOAD, body);
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
    /* evhttp does not read the body of some methods. It must not be taken for the next request. */
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
