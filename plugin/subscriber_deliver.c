/*
 * subscriber_deliver.c (L6): from frames to records to the callback. See subscriber.h.
 */
#include "subscriber.h"

#include <errno.h>
#include <string.h>

#include "arena.h"
#include "base.h"

/* Reading a frame, in a pass or a turn. */
struct run {
    struct evzmq_subscriber *subscriber;
    struct evzmq_message *frame;
    const void *bytes; /* of its last part */
    size_t size;
    bool over; /* nothing of it is left */
};

static void report_bad(struct evzmq_subscriber *subscriber, struct evzmq_message *message,
                       const struct evzmq_decode_error *error)
{
    const struct evzmq_event event = {.size = sizeof(event),
                                      .type = EVZMQ_EVENT_DECODE_ERROR,
                                      .error = EBADMSG,
                                      .kind = error->kind,
                                      .offset = error->offset,
                                      .message = message};
    evzmq__subscriber_report(subscriber, &event);
}

static void report_bad_frame(struct evzmq_subscriber *subscriber, struct evzmq_message *frame,
                             const struct evzmq_decode_error *error)
{
    subscriber->counters.bad_frames++;
    const bool was_lent = frame->is_lent;
    frame->is_lent = true; /* also one that was kept: it is not the callback's to free */
    report_bad(subscriber, frame, error);
    frame->is_lent = was_lent;
}

static void report_lost(struct evzmq_subscriber *subscriber, uint64_t records)
{
    subscriber->counters.records_lost += records;
    const struct evzmq_event event = {
        .size = sizeof(event), .type = EVZMQ_EVENT_ERROR, .error = ENOMEM};
    evzmq__subscriber_report(subscriber, &event);
}

/* Whether records may be delivered now. */
static bool delivers(const struct evzmq_subscriber *subscriber)
{
    return subscriber->enabled && subscriber->record_cb != NULL;
}

/* Whether frames may be read now: where records conflate, also without delivering any. */
static bool reads(const struct evzmq_subscriber *subscriber)
{
    return subscriber->options.conflate != 0 ? subscriber->record_cb != NULL : delivers(subscriber);
}

/* What is to be done after a callback. */
static enum evzmq__step after_callback(const struct evzmq_subscriber *subscriber)
{
    if (!evzmq__subscriber_is_alive(subscriber) || !reads(subscriber)) {
        return EVZMQ__STEP_PAUSED;
    }
    return evzmq__loop_is_breaking(subscriber->socket->base->event_base) ? EVZMQ__STEP_BREAK
                                                                         : EVZMQ__STEP_DONE;
}

/* Makes the record a message that refers to it. */
static void set_view(struct evzmq_message *view, const void *data, size_t size)
{
    view->parts[0].data = data;
    view->parts[0].size = size;
    view->parts[0].outside = true;
    view->part_count = 1;
    view->size = size;
    view->is_lent = true;
    view->codec = NULL;
    view->value = NULL;
    view->has_error = false;
}

void evzmq__subscriber_deliver(struct evzmq_subscriber *subscriber,
                               const struct evzmq__topic *topic, const void *data, size_t size)
{
    struct evzmq_message *view = subscriber->view;
    struct evzmq_codec *codec = subscriber->codec;
    int result = 0;
    set_view(view, data, size);
    evzmq__codec_ref(codec); /* the callback may set another one */
    if (codec->is_raw) {
        view->codec = codec;
    } else {
        evzmq_arena_reset(subscriber->arena);
        result = evzmq__message_decode_last(view, codec, subscriber->arena);
    }
    if (result < 0) {
        subscriber->counters.records_bad++;
        report_bad(subscriber, view, &view->decode_error);
    } else {
        subscriber->counters.records++;
        subscriber->record_cb(subscriber, topic->text, topic->size, view, subscriber->arg);
    }
    evzmq_codec_free(codec);
    evzmq__part_clear(&view->parts[0]);
    view->part_count = 0;
}

/* Finds the topic of a record; whether it is the record's own. */
static bool find_topic(const struct evzmq_subscriber *subscriber, const struct evzmq_bytes *record,
                       struct evzmq__topic *out)
{
    const void *data = NULL;
    size_t size = 0;
    if (subscriber->reader.kind != EVZMQ__FRAME_BATCH_SHARED) {
        *out = subscriber->topic;
        return true;
    }
    if (subscriber->topic_cb != NULL &&
        subscriber->topic_cb(record->data, record->size, &data, &size, subscriber->topic_arg) ==
            0 &&
        (data != NULL || size == 0) && size <= EVZMQ__TOPIC_BYTES) {
        evzmq__topic_set(out, data, size);
        return true;
    }
    *out = subscriber->topic;
    return false;
}

/* Whether libzmq has just looked at the topic itself. Where ZMQ_EVENTS was read before it may have
 * done so earlier: it takes the next message out then, and keeps it whatever is unsubscribed. */
static bool is_filtered(const struct evzmq_subscriber *subscriber)
{
    return subscriber->reader.kind == EVZMQ__FRAME_RECORD && subscriber->held == NULL &&
           !subscriber->checks_frame;
}

static enum evzmq__step store(struct evzmq_subscriber *subscriber, const struct evzmq__topic *topic,
                              bool is_known, const struct evzmq_bytes *record,
                              const struct evzmq__frame_reader *before)
{
    switch (evzmq__latests_store(subscriber, topic, is_known, record)) {
    case EVZMQ__STORE_FULL:
        subscriber->reader = *before; /* this record comes again */
        return EVZMQ__STEP_PAUSED;
    case EVZMQ__STORE_NOMEM:
        report_lost(subscriber, 1);
        return after_callback(subscriber);
    default:
        return EVZMQ__STEP_DONE;
    }
}

/* Does with one record what is to be done with it. */
static enum evzmq__step take_record(struct evzmq_subscriber *subscriber,
                                    const struct evzmq_bytes *record,
                                    const struct evzmq__frame_reader *before)
{
    struct evzmq__topic topic;
    if (record->size == 0) {
        subscriber->counters.records_empty++;
        return EVZMQ__STEP_DONE;
    }
    const bool is_known = find_topic(subscriber, record, &topic);
    if (is_known && !is_filtered(subscriber) &&
        !evzmq__prefixes_match(&subscriber->prefixes, topic.text, topic.size)) {
        subscriber->counters.records_filtered++;
        return EVZMQ__STEP_DONE;
    }
    if (subscriber->options.conflate != 0) {
        return store(subscriber, &topic, is_known, record, before);
    }
    evzmq__subscriber_deliver(subscriber, &topic, record->data, record->size);
    return after_callback(subscriber);
}

/* Reads one record of a frame. */
static enum evzmq__step frame_step(void *arg, size_t *out_bytes)
{
    struct run *run = arg;
    struct evzmq_subscriber *subscriber = run->subscriber;
    const struct evzmq__frame_reader before = subscriber->reader;
    struct evzmq_bytes record;
    struct evzmq_decode_error error;
    switch (evzmq__frame_next(&subscriber->reader, run->bytes, run->size, &record, &error)) {
    case EVZMQ__FRAME_GIVES:
        *out_bytes = record.size;
        const enum evzmq__step step = take_record(subscriber, &record, &before);
        run->over = subscriber->reader.kind == EVZMQ__FRAME_RECORD && subscriber->reader.left == 0;
        return run->over && step == EVZMQ__STEP_DONE ? EVZMQ__STEP_EMPTY : step;
    case EVZMQ__FRAME_BROKEN:
        run->over = true;
        report_bad_frame(subscriber, run->frame, &error);
        return EVZMQ__STEP_EMPTY;
    default:
        run->over = true;
        return EVZMQ__STEP_EMPTY;
    }
}

static void start_meter(struct evzmq_subscriber *subscriber)
{
    evzmq__meter_start(&subscriber->meter, &subscriber->socket->read_budget, evzmq__clock_ns(),
                       evzmq__clock_ns);
}

/* Reads on in a frame. Returns whether nothing of it is left, or nobody to take it. */
static bool read_on(struct evzmq_subscriber *subscriber, struct evzmq_message *frame)
{
    const size_t last = evzmq_message_get_part_count(frame) - 1;
    struct run run = {.subscriber = subscriber, .frame = frame};
    run.bytes = evzmq_message_get_part(frame, last, &run.size);
    if (subscriber->reader.kind == EVZMQ__FRAME_RECORD) {
        size_t bytes = 0; /* the pass has counted it */
        (void)frame_step(&run, &bytes);
    } else {
        (void)evzmq__drain_run(&subscriber->meter, frame_step, &run);
    }
    return run.over || !evzmq__subscriber_is_alive(subscriber);
}

/* Keeps a frame that was not read to its end. */
static void hold(struct evzmq_subscriber *subscriber, struct evzmq_message *frame)
{
    subscriber->held = evzmq_message_take(frame);
    while (subscriber->held == NULL && delivers(subscriber)) {
        /* No memory to put it off: it has to be now. */
        start_meter(subscriber);
        if (subscriber->latests.count > 0) {
            evzmq__subscriber_turn(subscriber);
        }
        if (!evzmq__subscriber_is_alive(subscriber) || read_on(subscriber, frame)) {
            return;
        }
    }
    if (subscriber->held == NULL) {
        report_lost(subscriber, subscriber->reader.left);
    }
}

/* Finds the topic of a frame and begins to read it. Returns 0, or -1 with *out_error set. */
static int open_frame(struct evzmq_subscriber *subscriber, struct evzmq_message *frame,
                      struct evzmq_decode_error *out_error)
{
    size_t size = 0;
    const void *data = evzmq_message_get_part(frame, 0, &size);
    const size_t parts = evzmq_message_get_part_count(frame);
    if (parts == 1) {
        return evzmq__frame_open(&subscriber->reader, data, size, &subscriber->topic, out_error);
    }
    if (parts > 2 || size > EVZMQ__TOPIC_BYTES) {
        *out_error = (struct evzmq_decode_error){EVZMQ_DECODE_LENGTH, 0};
        return -1;
    }
    subscriber->reader = (struct evzmq__frame_reader){.kind = EVZMQ__FRAME_RECORD, .left = 1};
    evzmq__topic_set(&subscriber->topic, data, size);
    return 0;
}

void evzmq__subscriber_take_frame(struct evzmq_subscriber *subscriber, struct evzmq_message *frame)
{
    struct evzmq_decode_error error;
    subscriber->counters.frames++;
    subscriber->checks_frame = subscriber->unsubscribed;
    subscriber->unsubscribed = false;
    if (open_frame(subscriber, frame, &error) < 0) {
        report_bad_frame(subscriber, frame, &error);
        return;
    }
    subscriber->counters.batches += subscriber->reader.kind != EVZMQ__FRAME_RECORD;
    if (subscriber->pass != subscriber->socket->counters.wakeups) {
        subscriber->pass = subscriber->socket->counters.wakeups;
        start_meter(subscriber);
    }
    evzmq__subscriber_ref(subscriber);
    if (!read_on(subscriber, frame)) {
        hold(subscriber, frame);
    }
    if (evzmq__subscriber_is_alive(subscriber)) {
        evzmq__subscriber_update_reading(subscriber);
        if (evzmq__subscriber_attend(subscriber) < 0) {
            evzmq__subscriber_turn(subscriber);
        }
    }
    evzmq__subscriber_unref(subscriber);
}

/* Delivers the latest record of one topic. */
static enum evzmq__step latest_step(void *arg, size_t *out_bytes)
{
    struct evzmq_subscriber *subscriber = arg;
    if (!delivers(subscriber)) {
        return EVZMQ__STEP_PAUSED;
    }
    struct evzmq__latest *latest = evzmq__latests_pop(&subscriber->latests);
    if (latest == NULL) {
        return EVZMQ__STEP_EMPTY;
    }
    enum evzmq__step step = EVZMQ__STEP_DONE;
    *out_bytes = latest->size;
    if (latest->is_known &&
        !evzmq__prefixes_match(&subscriber->prefixes, latest->topic.text, latest->topic.size)) {
        subscriber->counters.records_filtered++;
    } else {
        evzmq__subscriber_deliver(subscriber, &latest->topic, latest->bytes, latest->size);
        step = after_callback(subscriber);
    }
    evzmq__latest_free(latest);
    return step;
}

/* One round: the latest records, then the rest of the frame that is held. */
static void make_round(struct evzmq_subscriber *subscriber)
{
    start_meter(subscriber);
    (void)evzmq__drain_run(&subscriber->meter, latest_step, subscriber);
    if (!evzmq__subscriber_is_alive(subscriber) || subscriber->held == NULL || !reads(subscriber) ||
        subscriber->meter.spent) {
        return;
    }
    if (read_on(subscriber, subscriber->held) && evzmq__subscriber_is_alive(subscriber)) {
        evzmq__message_destroy(subscriber->held);
        subscriber->held = NULL;
    }
}

/* Whether a turn would find something to do. */
static bool has_work(const struct evzmq_subscriber *subscriber)
{
    if (subscriber->latests.count > 0 && delivers(subscriber)) {
        return true;
    }
    const bool has_room = subscriber->options.conflate == 0 ||
                          subscriber->latests.count < subscriber->options.conflate_topics;
    return subscriber->held != NULL && reads(subscriber) && has_room;
}

int evzmq__subscriber_attend(struct evzmq_subscriber *subscriber)
{
    const struct timeval now = {0, 0};
    if (subscriber->timer_runs || !has_work(subscriber)) {
        return 0;
    }
    if (evzmq__timer_start(subscriber->timer, &now) < 0) {
        return -1;
    }
    subscriber->timer_runs = true;
    return 0;
}

void evzmq__subscriber_turn(struct evzmq_subscriber *subscriber)
{
    evzmq__subscriber_ref(subscriber);
    do {
        make_round(subscriber);
        /* Without memory for a timer the rounds follow each other. */
    } while (evzmq__subscriber_is_alive(subscriber) && evzmq__subscriber_attend(subscriber) < 0);
    if (evzmq__subscriber_is_alive(subscriber)) {
        evzmq__subscriber_update_reading(subscriber);
    }
    evzmq__subscriber_unref(subscriber);
}
