/*
 * ledger.c: see ledger.h.
 */
#include "ledger.h"

#include <string.h>

#include "fuzz.h"

void ledger_reset(struct ledger *ledger, unsigned direction)
{
    ledger->direction = direction;
    ledger->count = 0;
    ledger->head = 0;
    ledger->at = 0;
    ledger->resumes = false;
    ledger->next = 0;
}

bool ledger_has_room(const struct ledger *ledger)
{
    return ledger->count < LEDGER_ITEMS_MAX;
}

/* A msgpack binary, in the shortest form. */
static size_t record_size(uint16_t payload)
{
    return (payload <= UINT8_MAX ? 2u : 3u) + payload;
}

static size_t last_size(const struct ledger_item *item)
{
    size_t size = item->tail;
    for (unsigned i = 0; i < item->records; i++) {
        size += record_size(item->payloads[i]);
    }
    return size;
}

struct ledger_item ledger_draft(const struct ledger *ledger, unsigned records,
                                const uint16_t *payloads, unsigned others, unsigned tail)
{
    struct ledger_item item = {
        .number = ledger->next, .records = records, .others = others, .tail = tail};
    for (unsigned i = 0; i < records; i++) {
        item.payloads[i] = payloads[i];
    }
    item.bytes = last_size(&item) + (size_t)others * LEDGER_OTHER_SIZE;
    return item;
}

void ledger_accept(struct ledger *ledger, const struct ledger_item *item)
{
    check(ledger_has_room(ledger), "the ledger has room");
    ledger->items[ledger->count++] = *item;
    ledger->next += item->records + 1;
}

static size_t write_record(const struct ledger *ledger, const struct ledger_item *item,
                           unsigned index, unsigned char *out)
{
    const uint16_t payload = item->payloads[index];
    const uint32_t number = item->number + index;
    size_t at = 0;
    if (payload <= UINT8_MAX) {
        out[at++] = 0xc4;
    } else {
        out[at++] = 0xc5;
        out[at++] = (unsigned char)(payload >> 8);
    }
    out[at++] = (unsigned char)payload;
    out[at++] = (unsigned char)ledger->direction;
    out[at++] = (unsigned char)(number >> 24);
    out[at++] = (unsigned char)(number >> 16);
    out[at++] = (unsigned char)(number >> 8);
    out[at++] = (unsigned char)number;
    memset(out + at, (int)(number * 31 & 0xff), payload - (size_t)LEDGER_PAYLOAD_MIN);
    return at + payload - LEDGER_PAYLOAD_MIN;
}

static size_t write_last(const struct ledger *ledger, const struct ledger_item *item,
                         unsigned char *out)
{
    size_t size = 0;
    for (unsigned i = 0; i < item->records; i++) {
        size += write_record(ledger, item, i, out + size);
    }
    if (item->tail > 0) {
        /* A byte that nothing begins with, or a binary without its bytes. */
        static const unsigned char tails[2][2] = {{0xc1}, {0xc4, 0xff}};
        memcpy(out + size, tails[item->tail - 1], item->tail);
    }
    return size + item->tail;
}

static void write_other(const struct ledger_item *item, unsigned index, unsigned char *out)
{
    out[0] = (unsigned char)('a' + index);
    out[1] = (unsigned char)(item->number >> 8);
    out[2] = (unsigned char)item->number;
}

size_t ledger_write(const struct ledger *ledger, const struct ledger_item *item,
                    unsigned char room[LEDGER_LAST_MAX], struct evzmq_bytes *out_parts)
{
    static unsigned char others[LEDGER_OTHERS_MAX][LEDGER_OTHER_SIZE];
    for (unsigned i = 0; i < item->others; i++) {
        write_other(item, i, others[i]);
        out_parts[i] = (struct evzmq_bytes){others[i], LEDGER_OTHER_SIZE};
    }
    out_parts[item->others] = (struct evzmq_bytes){room, write_last(ledger, item, room)};
    return item->others + 1;
}

struct evzmq_bytes ledger_payload(const struct ledger_item *item, const unsigned char *room)
{
    const size_t payload = item->payloads[0];
    return (struct evzmq_bytes){room + record_size((uint16_t)payload) - payload, payload};
}

size_t ledger_rest(const struct ledger *ledger, const struct ledger_item *item)
{
    size_t rest = item->bytes;
    if (item == &ledger->items[ledger->head] && ledger->at > 0) {
        rest -= (size_t)item->others * LEDGER_OTHER_SIZE;
        for (unsigned i = 0; i < ledger->at; i++) {
            rest -= record_size(item->payloads[i]);
        }
    }
    return rest;
}

bool ledger_is_bad(const struct ledger_item *item, const struct ledger_rules *rules)
{
    if (!rules->decodes || last_size(item) == 0) {
        return false;
    }
    return item->tail > 0 || (!rules->unpacks && item->records != 1);
}

bool ledger_is_oversize(const struct ledger_item *item, const struct ledger_rules *rules)
{
    return (rules->bytes_max > 0 && item->bytes > rules->bytes_max) ||
           (rules->parts_max > 0 && item->others + 1 > rules->parts_max);
}

static struct ledger_item *get_head(struct ledger *ledger)
{
    check(ledger->head < ledger->count, "nothing comes out that was not accepted");
    return &ledger->items[ledger->head];
}

static void advance(struct ledger *ledger)
{
    ledger->head++;
    ledger->at = 0;
}

/* Whether the receiver may have dropped what is left of the item without a word. */
static bool may_be_dropped(const struct ledger *ledger, const struct ledger_item *item,
                           const struct ledger_rules *rules)
{
    if (item->loose) {
        /* A frame of several records is larger than each, and no single value. */
        return rules->bytes_max > 0 || (rules->decodes && !rules->unpacks);
    }
    if (ledger->at > 0) {
        return ledger->at == item->records;
    }
    if (ledger_is_oversize(item, rules)) {
        return true;
    }
    return ledger_is_bad(item, rules) && (!rules->unpacks || item->records == 0);
}

static void skip_one(struct ledger *ledger, const struct ledger_rules *rules, uint64_t *bytes)
{
    const struct ledger_item *const item = get_head(ledger);
    const size_t rest = ledger_rest(ledger, item);
    check(may_be_dropped(ledger, item, rules), "nothing good is dropped");
    check(rest <= *bytes, "what is dropped is counted");
    *bytes -= rest;
    advance(ledger);
}

void ledger_skip(struct ledger *ledger, const struct ledger_rules *rules, uint64_t bytes)
{
    while (bytes > 0) {
        skip_one(ledger, rules, &bytes);
    }
}

static bool same(const struct evzmq_bytes *part, const void *bytes, size_t size)
{
    return part->size == size && (size == 0 || memcmp(part->data, bytes, size) == 0);
}

static bool same_others(const struct ledger_item *item, const struct evzmq_bytes *parts)
{
    for (unsigned i = 0; i < item->others; i++) {
        unsigned char other[LEDGER_OTHER_SIZE];
        write_other(item, i, other);
        if (!same(&parts[i], other, sizeof(other))) {
            return false;
        }
    }
    return true;
}

/* Loose records from the head on, as many as make up the part; 0: they do not. */
static size_t match_loose(struct ledger *ledger, const struct evzmq_bytes *part)
{
    static unsigned char room[LEDGER_LAST_MAX];
    size_t at = 0;
    size_t records = 0;
    while (at < part->size) {
        if (ledger->head + records >= ledger->count) {
            return 0;
        }
        const struct ledger_item *const item = &ledger->items[ledger->head + records];
        if (!item->loose || (records > 0 && item->begins)) {
            return 0;
        }
        const size_t size = write_last(ledger, item, room);
        if (size > part->size - at ||
            memcmp((const unsigned char *)part->data + at, room, size) != 0) {
            return 0;
        }
        at += size;
        records++;
    }
    return records;
}

/* How many items the message is; 0: not those at the head. */
static size_t match_whole(struct ledger *ledger, const struct evzmq_bytes *parts, size_t count)
{
    static unsigned char room[LEDGER_LAST_MAX];
    const struct ledger_item *const item = get_head(ledger);
    if (item->loose) {
        return count == 1 ? match_loose(ledger, &parts[0]) : 0;
    }
    const bool matches = count == item->others + 1 && same_others(item, parts) &&
                         same(&parts[count - 1], room, write_last(ledger, item, room));
    return matches ? 1 : 0;
}

static bool match_record(struct ledger *ledger, const struct evzmq_bytes *parts, size_t count)
{
    static unsigned char room[LEDGER_LAST_MAX];
    const struct ledger_item *const item = get_head(ledger);
    return ledger->at < item->records && count == item->others + 1 && same_others(item, parts) &&
           same(&parts[count - 1], room, write_record(ledger, item, ledger->at, room));
}

/* Goes past what does not match and may be missing: dropped without a word, or lost with a receiver
 * in the middle of a frame. */
static void pass_over(struct ledger *ledger, const struct ledger_rules *rules, uint64_t *unseen)
{
    if (ledger->resumes && get_head(ledger)->loose) {
        advance(ledger);
        return;
    }
    check(*unseen > 0, "what comes out is what was accepted next, byte by byte");
    skip_one(ledger, rules, unseen);
}

size_t ledger_take_whole(struct ledger *ledger, const struct ledger_rules *rules,
                         const struct evzmq_bytes *parts, size_t count, uint64_t *unseen)
{
    size_t items = 0;
    while (ledger->at > 0 || (items = match_whole(ledger, parts, count)) == 0) {
        pass_over(ledger, rules, unseen);
    }
    size_t bytes = 0;
    for (size_t i = 0; i < items; i++) {
        bytes += get_head(ledger)->bytes;
        advance(ledger);
    }
    ledger->resumes = false;
    return bytes;
}

size_t ledger_take_record(struct ledger *ledger, const struct ledger_rules *rules,
                          const struct evzmq_bytes *parts, size_t count, uint64_t *unseen)
{
    while (!match_record(ledger, parts, count)) {
        pass_over(ledger, rules, unseen);
    }
    const struct ledger_item *const item = get_head(ledger);
    size_t bytes = parts[count - 1].size;
    if (ledger->at == 0) {
        bytes += (size_t)item->others * LEDGER_OTHER_SIZE;
    }
    ledger->at++;
    if (ledger->at == item->records && item->tail == 0) {
        advance(ledger);
    }
    ledger->resumes = false;
    return bytes;
}

size_t ledger_take_end(struct ledger *ledger, const struct ledger_rules *rules,
                       const struct evzmq_bytes *parts, size_t count,
                       const struct evzmq_decode_error *error, uint64_t *unseen)
{
    const struct ledger_item *item = get_head(ledger);
    while (item->loose || item->tail == 0 || ledger->at != item->records ||
           match_whole(ledger, parts, count) == 0) {
        pass_over(ledger, rules, unseen);
        item = get_head(ledger);
    }
    check(error->offset == last_size(item) - item->tail, "the error is where the records end");
    check(error->kind == (item->tail == 1 ? EVZMQ_DECODE_MALFORMED : EVZMQ_DECODE_TRUNCATED),
          "it says what is wrong");
    const size_t bytes = ledger_rest(ledger, item);
    advance(ledger);
    ledger->resumes = false;
    return bytes;
}

size_t ledger_error_offset(const struct ledger_item *item)
{
    return item->records > 0 ? record_size(item->payloads[0]) : 0;
}

void ledger_forget_frame(struct ledger *ledger, bool unpacked)
{
    if (ledger->at > 0) {
        advance(ledger);
    }
    ledger->resumes = ledger->resumes || unpacked;
}

void ledger_drop_last(struct ledger *ledger, size_t messages)
{
    check(messages <= ledger->count - ledger->head &&
              (messages == 0 || ledger->at == 0 || messages < ledger->count - ledger->head),
          "what is queued has not come out");
    ledger->count -= messages;
}

bool ledger_is_lost(const struct ledger *ledger)
{
    for (size_t i = ledger->head; i < ledger->count; i++) {
        if (!ledger->items[i].loose) {
            return false;
        }
    }
    return ledger->resumes;
}

size_t ledger_waiting(const struct ledger *ledger)
{
    return ledger->count - ledger->head;
}
