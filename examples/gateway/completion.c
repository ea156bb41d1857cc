#include "completion.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <msgpack.h>

struct word {
    const char *text;
    size_t size;
};

static int compare_words(const void *a, const void *b)
{
    const struct word *one = a;
    const struct word *other = b;
    const size_t size = one->size < other->size ? one->size : other->size;
    const int order = memcmp(one->text, other->text, size);
    return order != 0 ? order : (one->size > other->size) - (one->size < other->size);
}

/* Finds the words of a text: what is between spaces of ASCII, so that UTF-8 stays whole. Returns
 * how many; `words` has room for half the bytes and one. */
static size_t split(struct evzmq_str text, struct word *words)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size;) {
        size_t end = i;
        while (end < text.size && !isspace((unsigned char)text.data[end])) {
            end++;
        }
        if (end > i) {
            words[count++] = (struct word){.text = text.data + i, .size = end - i};
        }
        i = end + 1;
    }
    return count;
}

/* Writes the words, the last one first, and cuts the text into pieces of about the same size. */
static void write_reversed(const struct word *words, size_t count, size_t size,
                           struct completion *out)
{
    const size_t piece = size / COMPLETION_PIECES_MAX + 1;
    size_t begin = 0;
    for (size_t i = count; i-- > 0;) {
        if (out->size > 0) {
            out->text[out->size++] = ' ';
        }
        if (out->size - begin >= piece) {
            out->ends[out->pieces++] = out->size;
            begin = out->size;
        }
        memcpy(out->text + out->size, words[i].text, words[i].size);
        out->size += words[i].size;
    }
    if (out->size > begin) {
        out->ends[out->pieces++] = out->size;
    }
}

static uint64_t count_different(struct word *words, size_t count)
{
    uint64_t different = 0;
    qsort(words, count, sizeof(*words), compare_words);
    for (size_t i = 0; i < count; i++) {
        different += i == 0 || compare_words(&words[i - 1], &words[i]) != 0;
    }
    return different;
}

static int write_metadata(void *arg, const char *data, size_t size)
{
    struct completion *completion = arg;
    if (size > sizeof(completion->metadata) - completion->metadata_size) {
        return -1;
    }
    memcpy(completion->metadata + completion->metadata_size, data, size);
    completion->metadata_size += size;
    return 0;
}

static void pack_metadata(struct completion *completion, size_t bytes, unsigned worker)
{
    const struct {
        const char *key;
        uint64_t value;
    } entries[] = {{"words", completion->words},
                   {"different", completion->different},
                   {"bytes", bytes},
                   {"worker", worker}};
    const size_t count = sizeof(entries) / sizeof(entries[0]);
    msgpack_packer packer;
    msgpack_packer_init(&packer, completion, write_metadata);
    msgpack_pack_map(&packer, count);
    for (size_t i = 0; i < count; i++) {
        msgpack_pack_str(&packer, strlen(entries[i].key));
        msgpack_pack_str_body(&packer, entries[i].key, strlen(entries[i].key));
        msgpack_pack_uint64(&packer, entries[i].value);
    }
}

int completion_make(struct evzmq_str prompt, unsigned worker, struct completion *out)
{
    struct word *words = malloc((prompt.size / 2 + 1) * sizeof(*words));
    *out = (struct completion){.text = malloc(prompt.size + 1)};
    if (words == NULL || out->text == NULL) {
        free(words);
        completion_clear(out);
        return -1;
    }
    const size_t count = split(prompt, words);
    write_reversed(words, count, prompt.size, out);
    out->words = count;
    out->different = count_different(words, count);
    pack_metadata(out, prompt.size, worker);
    free(words);
    return 0;
}

void completion_clear(struct completion *completion)
{
    free(completion->text);
    completion->text = NULL;
}

struct evzmq_record_stream_chunk completion_chunk(const struct completion *completion,
                                                  struct evzmq_str id, size_t piece)
{
    const size_t begin = piece == 0 ? 0 : completion->ends[piece - 1];
    return (struct evzmq_record_stream_chunk){
        .id = id, .response_chunk = {completion->text + begin, completion->ends[piece] - begin}};
}

struct evzmq_record_query_result completion_result(const struct completion *completion,
                                                   struct evzmq_str id,
                                                   struct evzmq_record_text_model_output *output)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    *output = (struct evzmq_record_text_model_output){
        .output = {.kind = EVZMQ_CHOICE_STR, .as = {.str = {completion->text, completion->size}}}};
    return (struct evzmq_record_query_result){
        .id = id,
        .response_output = output,
        .metadata = {completion->metadata, completion->metadata_size},
        .completed_at =
            evzmq_integer_from_int64((int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec)};
}
