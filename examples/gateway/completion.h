/*
 * What the gateway's workers do: a prompt is completed by its own words in reverse order, with
 * statistics about them, so that anyone can tell whether an answer is the right one.
 */
#ifndef GATEWAY_COMPLETION_H
#define GATEWAY_COMPLETION_H

#include <stddef.h>
#include <stdint.h>

#include <evzmq/records.h>

/* The most pieces that a completion is streamed in. */
#define COMPLETION_PIECES_MAX 32

struct completion {
    char *text; /* of malloc() */
    size_t size;
    uint64_t words;
    uint64_t different;
    size_t pieces; /* ends of the pieces of the text, each at the begin of a word */
    size_t ends[COMPLETION_PIECES_MAX];
    unsigned char metadata[128]; /* msgpack: words, different, bytes and worker */
    size_t metadata_size;
};

/* Completes a prompt. Returns 0, or -1 without memory. */
int completion_make(struct evzmq_str prompt, unsigned worker, struct completion *out);
void completion_clear(struct completion *completion);

/* The records of a completion; they refer to it, and the result to `output`. */
struct evzmq_record_stream_chunk completion_chunk(const struct completion *completion,
                                                  struct evzmq_str id, size_t piece);
struct evzmq_record_query_result completion_result(const struct completion *completion,
                                                   struct evzmq_str id,
                                                   struct evzmq_record_text_model_output *output);

#endif /* GATEWAY_COMPLETION_H */
