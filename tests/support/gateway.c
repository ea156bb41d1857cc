#include "gateway.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gateway_start(struct web_server *server, const char *a, const char *b, const char *c,
                   const char *d)
{
    const char *arguments[] = {"--port", "0", a, b, c, d, NULL};
    web_start(server, GATEWAY, arguments);
}

void gateway_start_one(struct web_server *server)
{
    gateway_start(server, "--workers", "1", NULL, NULL);
}

pid_t gateway_worker(const struct web_server *server)
{
    const pid_t pid = (pid_t)web_metric(server, "evzmq_worker_pid{worker=\"0\"}");
    assert_true(pid > 0);
    return pid;
}

void gateway_post(struct web_client *client, const char *body)
{
    web_post(client, GATEWAY_PATH, body, strlen(body));
}

char *gateway_long_body(size_t words, bool stream, size_t *out_size)
{
    char *body = malloc(words * 8 + 64);
    assert_non_null(body);
    size_t size = (size_t)sprintf(body, "{\"stream\":%s,\"prompt\":\"", stream ? "true" : "false");
    for (size_t i = 0; i < words; i++) {
        size += (size_t)sprintf(body + size, "%07zu ", i);
    }
    *out_size = size + (size_t)sprintf(body + size, "\"}");
    return body;
}

void gateway_expect_stream(struct web_client *client)
{
    static const char result[] = "\"object\":\"text_completion\",\"choices\":[{\"index\":0,"
                                 "\"text\":\"three two one\",\"finish_reason\":\"stop\"}]";
    static const char *const pieces[] = {"three ", "two ", "one"};
    struct web_answer answer;
    web_receive(client, &answer);
    assert_int_equal(answer.status, 200);
    assert_true(web_has_header(&answer, "Content-Type: text/event-stream"));
    const char *at = answer.body;
    for (size_t i = 0; i < 3; i++) {
        char wanted[64];
        (void)snprintf(wanted, sizeof(wanted), "\"text\":\"%s\"", pieces[i]);
        at = strstr(at, wanted);
        assert_non_null(at);
        at = strstr(at, "\n\ndata: {");
        assert_non_null(at);
    }
    assert_non_null(strstr(at, result));
    assert_string_equal(strstr(at, "}\n\n"), "}\n\ndata: [DONE]\n\n");
    web_free(&answer);
}
