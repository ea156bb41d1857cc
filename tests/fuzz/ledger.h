/**
 * @file ledger.h
 * What was accepted in one direction of an exchange and has not come out yet: the model of
 * fuzz_calls.c.
 *
 * An item is one message as it was written: some parts, then the last one, which is made of
 * records (msgpack binaries with the direction, their number and a pattern) and perhaps a tail that
 * is no msgpack. Everything that comes out is compared with the items in front, byte by byte. What
 * a socket says it received and nobody was told of (a message dropped without an event callback) is
 * accounted for in bytes: only items that its settings refuse may make it up.
 *
 * Records that were packed are loose: how many of them share a frame is the library's to decide.
 */
#ifndef TESTS_FUZZ_LEDGER_H
#define TESTS_FUZZ_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evzmq/codec.h>

enum {
    LEDGER_ITEMS_MAX = 2048,
    LEDGER_RECORDS_MAX = 3,
    LEDGER_OTHERS_MAX = 3,
    LEDGER_PARTS_MAX = LEDGER_OTHERS_MAX + 1,
    LEDGER_PAYLOAD_MIN = 5,
    LEDGER_PAYLOAD_MAX = 9000,
    LEDGER_LAST_MAX = LEDGER_RECORDS_MAX * (LEDGER_PAYLOAD_MAX + 3) + 2,
    LEDGER_OTHER_SIZE = 3
};

struct ledger_item {
    uint32_t number; /**< of the first record */
    unsigned records; /**< with no tail either, the last part is empty */
    uint16_t payloads[LEDGER_RECORDS_MAX]; /**< bytes of each, without the header */
    unsigned others; /**< parts before the last */
    unsigned tail; /**< bytes that are no msgpack, at the end of the last part */
    bool loose; /**< one record that may share a frame with others */
    bool begins; /**< a loose one that begins a frame */
    size_t bytes; /**< of all parts */
};

struct ledger {
    unsigned direction;
    struct ledger_item items[LEDGER_ITEMS_MAX];
    size_t count;
    size_t head; /**< the first that has not come out whole */
    unsigned at; /**< records of that one that came out one by one */
    bool resumes; /**< loose records may have been lost with a receiver in the middle of a frame */
    uint32_t next; /**< number of the next record */
};

/** The settings of the receiver that say what it refuses. */
struct ledger_rules {
    size_t bytes_max; /**< 0: none */
    size_t parts_max;
    bool decodes; /**< msgpack */
    bool unpacks;
};

void ledger_reset(struct ledger *ledger, unsigned direction);

/** Room for another item, or not. */
bool ledger_has_room(const struct ledger *ledger);

/** Makes an item of this shape, with the next numbers; it is not in the ledger yet. */
struct ledger_item ledger_draft(const struct ledger *ledger, unsigned records,
                                const uint16_t *payloads, unsigned others, unsigned tail);

void ledger_accept(struct ledger *ledger, const struct ledger_item *item);

/** Writes the parts of an item into room for LEDGER_PARTS_MAX and their bytes. Returns how many. */
size_t ledger_write(const struct ledger *ledger, const struct ledger_item *item,
                    unsigned char room[LEDGER_LAST_MAX], struct evzmq_bytes *out_parts);

/** The payload of the only record of an item, after ledger_write(). */
struct evzmq_bytes ledger_payload(const struct ledger_item *item, const unsigned char *room);

/** The bytes of an item in the ledger's front that are still to come out. */
size_t ledger_rest(const struct ledger *ledger, const struct ledger_item *item);

/** Whether a receiver with these settings has an error for the item instead of a value. */
bool ledger_is_bad(const struct ledger_item *item, const struct ledger_rules *rules);

bool ledger_is_oversize(const struct ledger_item *item, const struct ledger_rules *rules);

/** Items that make up so many bytes were dropped without a word. */
void ledger_skip(struct ledger *ledger, const struct ledger_rules *rules, uint64_t bytes);

/** A message came out whole. `unseen` bytes that came before it were not told of; what is used of
 * them is taken off. Returns the bytes that the message stands for. */
size_t ledger_take_whole(struct ledger *ledger, const struct ledger_rules *rules,
                         const struct evzmq_bytes *parts, size_t count, uint64_t *unseen);

/** The same for one record of a frame, in its last part. */
size_t ledger_take_record(struct ledger *ledger, const struct ledger_rules *rules,
                          const struct evzmq_bytes *parts, size_t count, uint64_t *unseen);

/** The same for a frame that ends with a record that cannot be decoded: the whole frame, of which
 * the records before it came out. Checks where the error is said to be. */
size_t ledger_take_end(struct ledger *ledger, const struct ledger_rules *rules,
                       const struct evzmq_bytes *parts, size_t count,
                       const struct evzmq_decode_error *error, uint64_t *unseen);

/** Where the error of a whole message is. */
size_t ledger_error_offset(const struct ledger_item *item);

/** The receiver went: what it had begun of a frame is lost. */
void ledger_forget_frame(struct ledger *ledger, bool unpacked);

/** The sender went with so many messages in its queue. */
void ledger_drop_last(struct ledger *ledger, size_t messages);

/** Whether what has not come out went with a receiver in the middle of a frame. */
bool ledger_is_lost(const struct ledger *ledger);

/** How many items have not come out whole. */
size_t ledger_waiting(const struct ledger *ledger);

#endif /* TESTS_FUZZ_LEDGER_H */
