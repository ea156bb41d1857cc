/*
 * queue.c (L1): see queue.h. Lanes with entries are in exactly one of two lists, ready or parked; a
 * lane with a key is freed when its last entry leaves.
 */
#include "queue.h"

#include <assert.h>
#include <string.h>

#include "base.h"

static void list_append(struct evzmq__lane_list *list, struct evzmq__lane *lane)
{
    lane->next = NULL;
    lane->prev = list->last;
    if (list->last != NULL) {
        list->last->next = lane;
    } else {
        list->first = lane;
    }
    list->last = lane;
    list->count++;
}

static void list_remove(struct evzmq__lane_list *list, struct evzmq__lane *lane)
{
    if (lane->prev != NULL) {
        lane->prev->next = lane->next;
    } else {
        list->first = lane->next;
    }
    if (lane->next != NULL) {
        lane->next->prev = lane->prev;
    } else {
        list->last = lane->prev;
    }
    list->count--;
}

static struct evzmq__lane *lane_find(const struct evzmq__queue *queue, const void *key,
                                     size_t key_size)
{
    if (key == NULL) {
        return queue->sole;
    }
    struct evzmq__table_node *node = evzmq__table_find(&queue->lanes, evzmq__hash(key, key_size));
    for (; node != NULL; node = evzmq__table_find_next(node)) {
        struct evzmq__lane *lane =
            (struct evzmq__lane *)((char *)node - offsetof(struct evzmq__lane, node));
        if (lane->key_size == key_size && memcmp(lane->key, key, key_size) == 0) {
            return lane;
        }
    }
    return NULL;
}

static struct evzmq__lane *lane_new(struct evzmq__queue *queue, const void *key, size_t key_size)
{
    struct evzmq__lane *lane = evzmq__calloc(1, sizeof(*lane) + key_size);
    if (lane == NULL) {
        return NULL;
    }
    lane->tail = &lane->head;
    lane->key_size = key_size;
    if (key == NULL) {
        queue->sole = lane;
        return lane;
    }
    memcpy(lane->key, key, key_size);
    if (evzmq__table_insert(&queue->lanes, &lane->node, evzmq__hash(key, key_size)) < 0) {
        evzmq__free(lane);
        return NULL;
    }
    return lane;
}

static void lane_free_if_keyed(struct evzmq__queue *queue, struct evzmq__lane *lane)
{
    if (lane != queue->sole) {
        evzmq__table_remove(&queue->lanes, &lane->node);
        evzmq__free(lane);
    }
}

/* Whether `used + more` stays within `max`, without overflow. */
static bool fits(size_t used, size_t more, size_t max)
{
    return used <= max && more <= max - used;
}

bool evzmq__queue_has_room(const struct evzmq__queue *queue, const void *key, size_t key_size,
                           size_t bytes)
{
    if (queue->messages == 0) {
        return true;
    }
    if (!fits(queue->messages, 1, queue->messages_max) ||
        !fits(queue->bytes, bytes, queue->bytes_max)) {
        return false;
    }
    const struct evzmq__lane *lane = key == NULL ? NULL : lane_find(queue, key, key_size);
    if (lane == NULL) {
        return true;
    }
    return lane->messages < queue->messages_max - queue->messages &&
           fits(lane->bytes, bytes, queue->bytes_max - queue->bytes);
}

bool evzmq__queue_waits(const struct evzmq__queue *queue, const void *key, size_t key_size)
{
    if (queue->messages == 0) {
        return false;
    }
    const struct evzmq__lane *lane = lane_find(queue, key, key_size);
    return lane != NULL && lane->head != NULL;
}

/* Whether the queue is above its low mark. A low mark of 0 means empty, and an empty message counts
 * as something. */
static bool is_above_low(const struct evzmq__queue *queue)
{
    return queue->bytes > queue->low || (queue->low == 0 && queue->messages > 0);
}

static void note_rise(struct evzmq__queue *queue)
{
    queue->above_low = queue->above_low || is_above_low(queue);
    if (queue->high != 0 && !queue->above_high && queue->bytes >= queue->high) {
        queue->above_high = true;
        queue->marks |= EVZMQ__MARK_HIGH;
    }
}

static void note_low(struct evzmq__queue *queue)
{
    if (queue->above_low && !is_above_low(queue)) {
        queue->above_low = false;
        queue->above_high = false;
        queue->marks |= EVZMQ__MARK_LOW;
    }
}

static void note_fall(struct evzmq__queue *queue)
{
    note_low(queue);
    if (queue->messages == 0) {
        queue->above_high = false;
        queue->marks |= EVZMQ__MARK_EMPTY;
    }
}

int evzmq__queue_push(struct evzmq__queue *queue, struct evzmq__queue_entry *entry, const void *key,
                      size_t key_size)
{
    struct evzmq__lane *lane = lane_find(queue, key, key_size);
    if (lane == NULL) {
        lane = lane_new(queue, key, key_size);
        if (lane == NULL) {
            return -1;
        }
    }
    if (lane->head == NULL) {
        list_append(&queue->ready, lane);
    }
    entry->next = NULL;
    *lane->tail = entry;
    lane->tail = &entry->next;
    lane->messages++;
    lane->bytes += entry->bytes;
    queue->messages++;
    queue->more += entry->more;
    queue->bytes += entry->bytes;
    const size_t records = queue->messages + queue->more;
    queue->messages_peak = records > queue->messages_peak ? records : queue->messages_peak;
    queue->bytes_peak = queue->bytes > queue->bytes_peak ? queue->bytes : queue->bytes_peak;
    note_rise(queue);
    return 0;
}

int evzmq__queue_prepare(struct evzmq__queue *queue)
{
    return queue->sole != NULL || lane_new(queue, NULL, 0) != NULL ? 0 : -1;
}

void evzmq__queue_hasten(struct evzmq__queue *queue, const void *key, size_t key_size)
{
    struct evzmq__lane *lane = lane_find(queue, key, key_size);
    assert(lane != NULL && lane->head != NULL);
    list_remove(&queue->ready, lane);
    lane->prev = NULL;
    lane->next = queue->ready.first;
    if (lane->next != NULL) {
        lane->next->prev = lane;
    } else {
        queue->ready.last = lane;
    }
    queue->ready.first = lane;
    queue->ready.count++;
}

struct evzmq__queue_entry *evzmq__queue_peek(const struct evzmq__queue *queue)
{
    return queue->ready.first == NULL ? NULL : queue->ready.first->head;
}

struct evzmq__queue_entry *evzmq__queue_pop(struct evzmq__queue *queue)
{
    struct evzmq__lane *lane = queue->ready.first;
    assert(lane != NULL);
    struct evzmq__queue_entry *entry = lane->head;
    lane->head = entry->next;
    entry->next = NULL;
    lane->messages--;
    lane->bytes -= entry->bytes;
    queue->messages--;
    queue->more -= entry->more;
    queue->bytes -= entry->bytes;
    list_remove(&queue->ready, lane);
    if (lane->head != NULL) {
        list_append(&queue->ready, lane);
    } else {
        lane->tail = &lane->head;
        lane_free_if_keyed(queue, lane);
    }
    note_fall(queue);
    return entry;
}

void evzmq__queue_park(struct evzmq__queue *queue)
{
    struct evzmq__lane *lane = queue->ready.first;
    assert(lane != NULL);
    list_remove(&queue->ready, lane);
    list_append(&queue->parked, lane);
}

void evzmq__queue_unpark_all(struct evzmq__queue *queue)
{
    while (queue->parked.first != NULL) {
        struct evzmq__lane *lane = queue->parked.first;
        list_remove(&queue->parked, lane);
        list_append(&queue->ready, lane);
    }
}

void evzmq__queue_set_marks(struct evzmq__queue *queue, size_t low, size_t high)
{
    /* Told is told: whoever sets marks when the high one is reached would be told of it for ever. A
     * mark that the queue has yet to reach is another matter. */
    const bool is_reached = high == queue->high || (high != 0 && queue->bytes >= high);
    queue->above_high = queue->above_high && is_reached;
    queue->low = low;
    queue->high = high;
    note_low(queue);
    note_rise(queue);
}

void evzmq__queue_refuse(struct evzmq__queue *queue)
{
    queue->above_low = true;
}

unsigned evzmq__queue_take_marks(struct evzmq__queue *queue)
{
    const unsigned marks = queue->marks;
    queue->marks = 0;
    return marks;
}

struct evzmq__queue_entry *evzmq__queue_clear(struct evzmq__queue *queue)
{
    evzmq__queue_unpark_all(queue);
    if (queue->ready.first != NULL) {
        return evzmq__queue_pop(queue);
    }
    evzmq__free(queue->sole);
    queue->sole = NULL;
    evzmq__table_clear(&queue->lanes);
    return NULL;
}
