/*
 * prefixes.h (L4): a counted set of topic prefixes, and whether a topic begins with one of them.
 *
 * libzmq keeps such a set too and does not answer questions about it.
 */
#ifndef EVZMQ_PLUGIN_PREFIXES_H
#define EVZMQ_PLUGIN_PREFIXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pubframe.h"
#include "table.h"

struct evzmq__prefixes {
    struct evzmq__table table;
    size_t by_size[EVZMQ__TOPIC_BYTES + 1]; /* how many of each size: a look-up tries those only */
};

/* Counts a prefix of at most EVZMQ__TOPIC_BYTES bytes. Returns 0 with its count, or -1 with ENOMEM
 * or EOVERFLOW. */
int evzmq__prefixes_add(struct evzmq__prefixes *prefixes, const char *prefix, size_t size,
                        uint32_t *out_count);

/* The count of a prefix; 0: it is not there. */
uint32_t evzmq__prefixes_count(const struct evzmq__prefixes *prefixes, const char *prefix,
                               size_t size);

/* Takes one off the count. Returns 0 with what is left, or -1 with ENOENT. */
int evzmq__prefixes_remove(struct evzmq__prefixes *prefixes, const char *prefix, size_t size,
                           uint32_t *out_count);

/* Whether a topic of at most EVZMQ__TOPIC_BYTES bytes begins with any of them. */
bool evzmq__prefixes_match(const struct evzmq__prefixes *prefixes, const char *topic, size_t size);

/* Forgets all. */
void evzmq__prefixes_clear(struct evzmq__prefixes *prefixes);

#endif /* EVZMQ_PLUGIN_PREFIXES_H */
