/**
 * @file gateway.h
 * What the tests of http_gateway share. Whoever uses it defines GATEWAY, the program's path.
 */
#ifndef TESTS_SUPPORT_GATEWAY_H
#define TESTS_SUPPORT_GATEWAY_H

#include "web.h"

#define GATEWAY_PATH "/v1/completions"

/** Starts a gateway with options of up to four words, NULL where there are fewer. */
void gateway_start(struct web_server *server, const char *a, const char *b, const char *c,
                   const char *d);
/** The same with one worker and the defaults otherwise. */
void gateway_start_one(struct web_server *server);
/** The process of its first worker. */
pid_t gateway_worker(const struct web_server *server);

/** Sends a body to be completed. */
void gateway_post(struct web_client *client, const char *body);
/** A body with a prompt of so many words, "0000000 0000001 ..."; to be freed. */
char *gateway_long_body(size_t words, bool stream, size_t *out_size);
/** Receives the stream that answers {"prompt":"one two three","stream":true}. */
void gateway_expect_stream(struct web_client *client);

#endif /* TESTS_SUPPORT_GATEWAY_H */
