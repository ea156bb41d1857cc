/**
 * @file audience.h
 * Publishers and subscribers whose callbacks record what they see, and check what must be true of
 * every callback: from the loop only, none inside another, none after the free.
 */
#ifndef TESTS_SUPPORT_AUDIENCE_H
#define TESTS_SUPPORT_AUDIENCE_H

#include "support.h"

/** A publisher. */
struct speaker {
    struct fixture *f;
    struct evzmq_publisher *publisher; /* NULL once freed */
    void *zmq_socket;
    char endpoint[ENDPOINT_SIZE];
    size_t writes;
    size_t subscribed;
    size_t unsubscribed;
    size_t events[EVZMQ_EVENT_ERROR + 1];
    size_t done; /* shutdowns that were reported */
    uint64_t handed_over;
    uint64_t not_handed_over;
    void (*on_write)(struct speaker *s);
    void (*on_subscription)(struct speaker *s);
    void (*on_event)(struct speaker *s);
    void (*on_done)(struct speaker *s);
};

/** Binds an XPUB socket; with a high water mark where it is not 0. */
void speaker_open(struct fixture *f, struct speaker *s, enum transport transport,
                  const struct evzmq_publisher_options *how, int high_water_mark);
void speaker_free(struct speaker *s);
void speaker_shutdown(struct speaker *s, const struct timeval *deadline);
void speaker_say(struct speaker *s, const char *topic, const char *text);
struct evzmq_publisher_stats speaker_stats(const struct speaker *s);

/** A plain SUB socket that gets everything, once the publisher knows of it. */
void *speaker_peer(struct speaker *s, int high_water_mark);

/** A subscriber. */
struct listener {
    struct fixture *f;
    struct evzmq_subscriber *subscriber; /* NULL once freed */
    void *zmq_socket;
    size_t records;
    size_t bytes;
    size_t events[EVZMQ_EVENT_ERROR + 1];
    enum evzmq_decode_kind kind; /* of the last decode error */
    size_t offset;
    char log[4096]; /* topic=record, separated by spaces; "!" and the kind for an error */
    void (*on_record)(struct listener *l, struct evzmq_message *message);
    void (*on_event)(struct listener *l, const struct evzmq_event *event);
    void *arg;
};

void listener_open(struct fixture *f, struct listener *l,
                   const struct evzmq_subscriber_options *how);
void listener_setcb(struct listener *l);
void listener_free(struct listener *l);
struct evzmq_subscriber_stats listener_stats(const struct listener *l);

/** Connects to a speaker, subscribes to a prefix, and waits until the speaker knows: `news` is how
 * many subscriptions are new to it, shared batches among them. */
void listener_join(struct listener *l, struct speaker *s, const char *prefix, size_t news);

/** A plain XPUB peer for a subscriber, which says when a subscription has come; connects it. */
void *listener_peer(struct listener *l, enum transport transport);
void listener_subscribe(struct listener *l, void *peer, const char *prefix, size_t news);

/** Writes a frame of a topic and some bytes; returns its size. */
size_t frame_write(unsigned char *out, const char *topic, const void *data, size_t size);

/** Packs texts, separated by '|', as an array of bin behind a topic; returns its size. */
size_t frame_pack(unsigned char *out, size_t room, const char *topic, const char *texts);

/* Send frames of texts. A batch is shared under "batch", or marked as one of its topic. */
void send_record(void *peer, const char *topic, const char *text);
void send_batch(void *peer, const char *topic, const char *texts);
void send_marked(void *peer, const char *topic, const char *texts);

/** Sends a shared batch of so many records of so many bytes, numbered in their first four. */
void send_numbers(void *peer, uint32_t count, uint32_t size);

/* Hooks: the numbers rise by one; and the third one disables the subscriber. */
void check_number(struct listener *l, struct evzmq_message *message);
void disable_at_three(struct listener *l, struct evzmq_message *message);

#endif /* TESTS_SUPPORT_AUDIENCE_H */
