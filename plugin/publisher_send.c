/*
 * publisher_send.c (L6): batches that are begun, and frames. See publisher.h.
 */
#include "publisher.h"

#include <errno.h>
#include <string.h>

#include "base.h"

enum {
    /* Frames that one turn of the loop sends because their time has come. */
    FRAMES_PER_TURN = 64,
    /* Nothing wakes a batch that could not go for want of memory, or for too many signals in a row;
     * it tries again after this. */
    RETRY_USEC = 100000
};

static int fill(const struct evzmq_publisher *publisher, const struct evzmq__record_source *source,
                void *room)
{
    if (source->value != NULL) {
        return evzmq_codec_encode(publisher->codec, source->value, room, source->size);
    }
    if (source->size > 0) {
        memcpy(room, source->data, source->size);
    }
    return 0;
}

static void count_sent(struct evzmq_publisher *publisher)
{
    publisher->blocked = false;
    publisher->counters.frames++;
}

int evzmq__publisher_send_alone(struct evzmq_publisher *publisher, const char *topic,
                                size_t topic_size, const struct evzmq__record_source *source)
{
    if (source->size > SIZE_MAX - EVZMQ__TOPIC_BYTES) {
        errno = EMSGSIZE;
        return -1;
    }
    const size_t size = EVZMQ__TOPIC_BYTES + source->size;
    if (evzmq__socket_ask(publisher->socket, size) < 0) {
        return -1;
    }
    struct evzmq__part part;
    evzmq__part_init(&part);
    void *room = NULL;
    int result = evzmq__part_reserve(&part, size, &room);
    if (result == 0) {
        evzmq__topic_pad(room, topic, topic_size);
        result = fill(publisher, source, (unsigned char *)room + EVZMQ__TOPIC_BYTES);
    }
    if (result == 0) {
        result = evzmq__socket_submit(publisher->socket, &part, 1, NULL);
    }
    const int error = errno;
    (void)zmq_msg_close(&part.msg);
    errno = error;
    if (result == 0) {
        count_sent(publisher);
    }
    return result;
}

static bool is_per_topic(const struct evzmq_publisher *publisher)
{
    return publisher->options.batching == EVZMQ_BATCH_PER_TOPIC;
}

/* The batch that a topic's records go to; NULL when it is not begun. */
static struct evzmq__batch *find(const struct evzmq_publisher *publisher,
                                 const unsigned char topic[EVZMQ__TOPIC_BYTES])
{
    if (!is_per_topic(publisher)) {
        return publisher->first;
    }
    struct evzmq__table_node *node =
        evzmq__table_find(&publisher->batches, evzmq__hash(topic, EVZMQ__TOPIC_BYTES));
    while (node != NULL) {
        struct evzmq__batch *batch = (struct evzmq__batch *)node; /* its first member */
        if (memcmp(batch->topic, topic, EVZMQ__TOPIC_BYTES) == 0) {
            return batch;
        }
        node = evzmq__table_find_next(node);
    }
    return NULL;
}

static void start_timer(struct evzmq_publisher *publisher, uint64_t usec)
{
    const struct timeval delay = {(time_t)(usec / 1000000), (suseconds_t)(usec % 1000000)};
    publisher->timer_runs = evzmq__timer_start(publisher->timer, &delay) == 0;
}

/* Has the timer run for the batch that is due first, unless what is due waits for the socket. */
static void arm(struct evzmq_publisher *publisher, uint64_t now)
{
    const struct evzmq__batch *first = publisher->first;
    if (first == NULL || publisher->blocked || first->due == UINT64_MAX) {
        return;
    }
    start_timer(publisher, first->due <= now ? 0 : (first->due - now) / 1000 + 1);
}

/* Takes a batch out of those begun, and keeps or frees it. */
static void retire(struct evzmq_publisher *publisher, struct evzmq__batch *batch)
{
    *(batch->prev != NULL ? &batch->prev->next : &publisher->first) = batch->next;
    *(batch->next != NULL ? &batch->next->prev : &publisher->last) = batch->prev;
    if (is_per_topic(publisher)) {
        evzmq__table_remove(&publisher->batches, &batch->node);
    }
    publisher->pending_topics--;
    publisher->pending_records -= batch->records;
    publisher->pending_bytes -= batch->record_bytes;
    publisher->full -= batch->is_full;
    if (publisher->spare == NULL) {
        evzmq__batch_clear(batch);
        publisher->spare = batch;
    } else {
        evzmq__batch_release(batch);
        evzmq__free(batch);
    }
}

static void count_batch(struct evzmq_publisher *publisher, const struct evzmq__batch *batch,
                        uint64_t *reason)
{
    count_sent(publisher);
    (*reason)++;
    if (batch->records > 1) {
        publisher->counters.batches++;
        publisher->counters.batched_records += batch->records;
    }
}

/* Sends a batch. Returns 0 with the batch gone, or -1 with errno. */
static int flush_batch(struct evzmq_publisher *publisher, struct evzmq__batch *batch,
                       uint64_t *reason)
{
    const struct evzmq_bytes frame = evzmq__batch_frame(batch, is_per_topic(publisher));
    if (evzmq_socket_write(publisher->socket, frame.data, frame.size) < 0) {
        const int error = errno;
        publisher->blocked = error == EAGAIN;
        if (error == ENOMEM || error == EINTR) {
            start_timer(publisher, RETRY_USEC);
        }
        errno = error;
        return -1;
    }
    count_batch(publisher, batch, reason);
    retire(publisher, batch);
    return 0;
}

/* A batch without records, not begun. NULL with ENOMEM. */
static struct evzmq__batch *get_batch(struct evzmq_publisher *publisher)
{
    struct evzmq__batch *batch = publisher->spare;
    if (batch == NULL) {
        return evzmq__calloc(1, sizeof(*batch));
    }
    publisher->spare = NULL;
    return batch;
}

static uint64_t due_after(const struct evzmq_publisher *publisher, uint64_t now)
{
    const uint32_t usec = publisher->options.batch_delay_usec;
    return usec == EVZMQ_BATCH_DELAY_NONE ? UINT64_MAX : now + (uint64_t)usec * 1000;
}

/* Begins a batch. NULL with errno. */
static struct evzmq__batch *begin(struct evzmq_publisher *publisher,
                                  const unsigned char topic[EVZMQ__TOPIC_BYTES])
{
    if (publisher->pending_topics >= publisher->options.batch_topics &&
        flush_batch(publisher, publisher->first, &publisher->counters.flushed_by_count) < 0) {
        return NULL;
    }
    struct evzmq__batch *batch = get_batch(publisher);
    if (batch == NULL) {
        return NULL;
    }
    memcpy(batch->topic, topic, EVZMQ__TOPIC_BYTES);
    if (is_per_topic(publisher) &&
        evzmq__table_insert(&publisher->batches, &batch->node,
                            evzmq__hash(topic, EVZMQ__TOPIC_BYTES)) < 0) {
        publisher->spare = batch;
        return NULL;
    }
    const uint64_t now = evzmq__clock_ns();
    batch->due = due_after(publisher, now);
    batch->prev = publisher->last;
    batch->next = NULL;
    *(batch->prev != NULL ? &batch->prev->next : &publisher->first) = batch;
    publisher->last = batch;
    publisher->pending_topics++;
    if (!publisher->timer_runs) {
        arm(publisher, now);
        if (!publisher->timer_runs && !publisher->blocked && batch->due != UINT64_MAX) {
            /* A record in a batch that nothing sends would wait for ever. */
            retire(publisher, batch);
            errno = ENOMEM;
            return NULL;
        }
    }
    return batch;
}

/* Adds a record to a batch that has room for it. Returns 0, or -1 with errno. */
static int append(struct evzmq_publisher *publisher, struct evzmq__batch *batch,
                  const struct evzmq__record_source *source)
{
    void *room = evzmq__batch_reserve(batch, source->size, publisher->options.batch_bytes);
    if (room == NULL || fill(publisher, source, room) < 0) {
        if (batch->records == 0) {
            const int error = errno;
            retire(publisher, batch);
            errno = error;
        }
        return -1;
    }
    evzmq__batch_commit(batch, source->size);
    publisher->pending_records++;
    publisher->pending_bytes += source->size;
    if (batch->records >= publisher->options.batch_records) {
        batch->is_full = true;
        publisher->full++;
        /* The record is taken, whatever becomes of this: the batch goes when it can. */
        (void)flush_batch(publisher, batch, &publisher->counters.flushed_by_count);
    }
    return 0;
}

int evzmq__publisher_add(struct evzmq_publisher *publisher, const char *topic, size_t topic_size,
                         const struct evzmq__record_source *source)
{
    const struct evzmq__batch empty = {.used = 0};
    const size_t frame_max = publisher->options.batch_bytes;
    unsigned char padded[EVZMQ__TOPIC_BYTES];
    evzmq__topic_pad(padded, topic, topic_size);
    struct evzmq__batch *batch = find(publisher, padded);
    if (batch != NULL && (batch->is_full || !evzmq__batch_fits(batch, source->size, frame_max))) {
        uint64_t *reason = batch->is_full ? &publisher->counters.flushed_by_count
                                          : &publisher->counters.flushed_by_bytes;
        if (flush_batch(publisher, batch, reason) < 0) {
            return -1;
        }
        batch = NULL;
    }
    if (!evzmq__batch_fits(&empty, source->size, frame_max)) {
        return evzmq__publisher_send_alone(publisher, topic, topic_size, source);
    }
    if (batch == NULL) {
        batch = begin(publisher, padded);
    }
    return batch == NULL ? -1 : append(publisher, batch, source);
}

int evzmq__publisher_flush(struct evzmq_publisher *publisher)
{
    while (publisher->first != NULL) {
        if (flush_batch(publisher, publisher->first, &publisher->counters.flushed_by_call) < 0) {
            const int error = errno;
            for (struct evzmq__batch *batch = publisher->first; batch != NULL;
                 batch = batch->next) {
                publisher->full += !batch->is_full;
                batch->is_full = true;
            }
            errno = error;
            return -1;
        }
    }
    return 0;
}

/* Queues a batch, whatever the limits of the queue. Returns 0 with the batch gone, or -1 with
 * ENOMEM.
 */
static int force_batch(struct evzmq_publisher *publisher, struct evzmq__batch *batch)
{
    const struct evzmq_bytes frame = evzmq__batch_frame(batch, is_per_topic(publisher));
    struct evzmq_message *message = evzmq_message_new();
    if (message != NULL && evzmq_message_add(message, frame.data, frame.size) == 0) {
        message->entry.bytes = frame.size;
        if (evzmq__socket_enqueue(publisher->socket, message) == 0) {
            count_batch(publisher, batch, &publisher->counters.flushed_by_call);
            retire(publisher, batch);
            return 0;
        }
    }
    evzmq_message_free(message);
    errno = ENOMEM;
    return -1;
}

int evzmq__publisher_flush_by_force(struct evzmq_publisher *publisher)
{
    while (evzmq__publisher_flush(publisher) < 0) {
        if (errno != EAGAIN || force_batch(publisher, publisher->first) < 0) {
            return -1;
        }
    }
    return 0;
}

void evzmq__publisher_tick(struct evzmq_publisher *publisher)
{
    const uint64_t now = evzmq__clock_ns();
    struct evzmq__batch *batch = publisher->first;
    int frames = 0;
    while (batch != NULL && (batch->is_full || batch->due <= now || publisher->full > 0)) {
        struct evzmq__batch *next = batch->next;
        uint64_t *reason = batch->is_full ? &publisher->counters.flushed_by_count
                                          : &publisher->counters.flushed_by_time;
        if (batch->is_full || batch->due <= now) {
            if (frames++ == FRAMES_PER_TURN) {
                start_timer(publisher, 0);
                return;
            }
            if (flush_batch(publisher, batch, reason) < 0) {
                return;
            }
        }
        batch = next;
    }
    arm(publisher, now);
}

void evzmq__publisher_discard(struct evzmq_publisher *publisher)
{
    while (publisher->first != NULL) {
        retire(publisher, publisher->first);
    }
    if (publisher->spare != NULL) {
        evzmq__batch_release(publisher->spare);
        evzmq__free(publisher->spare);
        publisher->spare = NULL;
    }
    evzmq__table_clear(&publisher->batches);
}
