/*
 * JSON on the side of HTTP, records on that of the workers.
 */
#ifndef GATEWAY_JSON_H
#define GATEWAY_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>
#include <msgpack.h>

#include <evzmq/records.h>

struct evbuffer;
struct evzmq_message;

/* What a client asks: the body of a request. */
struct question {
    json_t *root;
    struct evzmq_str prompt; /* lives in root */
    bool stream;
};

#define QUESTION_ERROR_SIZE 256

/* Reads a body. Returns 0, or -1 with a text that says what is wrong with it. */
int question_read(const void *body, size_t size, struct question *out,
                  char error[QUESTION_ERROR_SIZE]);
void question_clear(struct question *question);

/* Packs all of it as the data of a Query. Returns 0, or -1 without memory. */
int question_pack(const struct question *question, msgpack_sbuffer *out);

/*
 * Adds the JSON object of a result. A large text that needs no escapes is not copied: the evbuffer
 * refers to the message that it came in, which may be NULL where there is none.
 */
void json_add_result(struct evbuffer *out, const struct evzmq_record_query_result *result,
                     struct evzmq_message *message);

/* Adds the JSON object of a piece. */
void json_add_chunk(struct evbuffer *out, const struct evzmq_record_stream_chunk *chunk);

/* Adds {"error": {"type": ..., "message": ...}}. */
void json_add_error(struct evbuffer *out, const char *type, const char *message);

#endif /* GATEWAY_JSON_H */
