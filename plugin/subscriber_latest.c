/*
 * subscriber_latest.c (L6): the latest record of each topic, for subscribers that conflate.
 */
#include "subscriber.h"

#include <string.h>

#include "base.h"

static struct evzmq__latest *find(const struct evzmq__latests *latests,
                                  const struct evzmq__topic *topic, uint64_t hash)
{
    struct evzmq__table_node *node = evzmq__table_find(&latests->table, hash);
    while (node != NULL) {
        struct evzmq__latest *latest = (struct evzmq__latest *)node; /* its first member */
        if (latest->topic.size == topic->size &&
            memcmp(latest->topic.text, topic->text, topic->size) == 0) {
            return latest;
        }
        node = evzmq__table_find_next(node);
    }
    return NULL;
}

void evzmq__latest_free(struct evzmq__latest *latest)
{
    if (latest != NULL) {
        evzmq__free(latest->bytes);
        evzmq__free(latest);
    }
}

/* Puts a copy of a record into a place. Returns whether there was memory for it. */
static bool put(struct evzmq__latest *latest, const struct evzmq_bytes *record)
{
    if (record->size > latest->capacity) {
        unsigned char *bytes = evzmq__malloc(record->size);
        if (bytes == NULL) {
            return false;
        }
        evzmq__free(latest->bytes);
        latest->bytes = bytes;
        latest->capacity = record->size;
    }
    memcpy(latest->bytes, record->data, record->size);
    latest->size = record->size;
    return true;
}

static void append(struct evzmq__latests *latests, struct evzmq__latest *latest)
{
    latest->prev = latests->last;
    *(latest->prev != NULL ? &latest->prev->next : &latests->first) = latest;
    latests->last = latest;
    latests->count++;
}

enum evzmq__store evzmq__latests_store(struct evzmq_subscriber *subscriber,
                                       const struct evzmq__topic *topic, bool is_known,
                                       const struct evzmq_bytes *record)
{
    struct evzmq__latests *latests = &subscriber->latests;
    const uint64_t hash = evzmq__hash(topic->text, topic->size);
    struct evzmq__latest *latest = find(latests, topic, hash);
    if (latest != NULL) {
        if (!put(latest, record)) {
            return EVZMQ__STORE_NOMEM;
        }
        subscriber->counters.records_conflated++;
        return EVZMQ__STORED;
    }
    if (latests->count >= subscriber->options.conflate_topics) {
        return EVZMQ__STORE_FULL;
    }
    latest = evzmq__calloc(1, sizeof(*latest));
    if (latest == NULL || !put(latest, record) ||
        evzmq__table_insert(&latests->table, &latest->node, hash) < 0) {
        evzmq__latest_free(latest);
        return EVZMQ__STORE_NOMEM;
    }
    latest->topic = *topic;
    latest->is_known = is_known;
    append(latests, latest);
    return EVZMQ__STORED;
}

struct evzmq__latest *evzmq__latests_pop(struct evzmq__latests *latests)
{
    struct evzmq__latest *latest = latests->first;
    if (latest != NULL) {
        latests->first = latest->next;
        *(latest->next != NULL ? &latest->next->prev : &latests->last) = NULL;
        evzmq__table_remove(&latests->table, &latest->node);
        latests->count--;
    }
    return latest;
}

void evzmq__latests_clear(struct evzmq__latests *latests)
{
    while (latests->first != NULL) {
        evzmq__latest_free(evzmq__latests_pop(latests));
    }
    evzmq__table_clear(&latests->table);
}
