/*
 * schema_number.c: decoding bools, numbers of every kind from every form, and binaries.
 */
#include "schema.h"

#include <float.h>
#include <math.h>

/* Reads the head of an integer or a float. */
static const unsigned char *read_number(struct evzmq__reader *reader, const unsigned char *at,
                                        struct evzmq__wire_head *head)
{
    const unsigned char *const next = evzmq__wire_read_head(at, reader->end, head);
    const bool is_number =
        at != reader->end && (*at < 0x80 || *at >= 0xe0 || (*at >= 0xca && *at <= 0xd3));
    if (!is_number) {
        return evzmq__reader_fail_type(reader, at);
    }
    if (next == NULL) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TRUNCATED, at);
    }
    return next;
}

static bool fits_signed(const struct evzmq__wire_head *head, int64_t low, int64_t high)
{
    return head->is_negative ? (int64_t)head->value >= low : head->value <= (uint64_t)high;
}

static bool fits_unsigned(const struct evzmq__wire_head *head, uint64_t high)
{
    return !head->is_negative && head->value <= high;
}

/* Stores an integer in a member of an integer kind; false when it does not fit. */
static bool store_integer(unsigned kind, const struct evzmq__wire_head *head, void *member)
{
    switch (kind) {
    case EVZMQ_KIND_INT8:
        *(int8_t *)member = (int8_t)head->value;
        return fits_signed(head, INT8_MIN, INT8_MAX);
    case EVZMQ_KIND_INT16:
        *(int16_t *)member = (int16_t)head->value;
        return fits_signed(head, INT16_MIN, INT16_MAX);
    case EVZMQ_KIND_INT32:
        *(int32_t *)member = (int32_t)head->value;
        return fits_signed(head, INT32_MIN, INT32_MAX);
    case EVZMQ_KIND_INT64:
        *(int64_t *)member = (int64_t)head->value;
        return fits_signed(head, INT64_MIN, INT64_MAX);
    case EVZMQ_KIND_UINT8:
        *(uint8_t *)member = (uint8_t)head->value;
        return fits_unsigned(head, UINT8_MAX);
    case EVZMQ_KIND_UINT16:
        *(uint16_t *)member = (uint16_t)head->value;
        return fits_unsigned(head, UINT16_MAX);
    case EVZMQ_KIND_UINT32:
        *(uint32_t *)member = (uint32_t)head->value;
        return fits_unsigned(head, UINT32_MAX);
    case EVZMQ_KIND_UINT64:
        *(uint64_t *)member = head->value;
        return fits_unsigned(head, UINT64_MAX);
    default:
        *(struct evzmq_integer *)member = (struct evzmq_integer){head->value, head->is_negative};
        return true;
    }
}

static double to_double(const struct evzmq__wire_head *head)
{
    if (head->type == EVZMQ__WIRE_TYPE_FLOAT) {
        return evzmq__wire_bits_double(head->value);
    }
    return head->is_negative ? (double)(int64_t)head->value : (double)head->value;
}

/* Rounds to the nearest float. C leaves open what a cast gives for a finite double beyond the
 * largest float, also for one that is nearer to that than to the next power of 2. */
static float to_float(double value)
{
    static const double midpoint = 0x1.ffffffp127; /* between those two; it rounds to even: up */
    if (!isfinite(value) || fabs(value) <= (double)FLT_MAX) {
        return (float)value;
    }
    const float nearest = fabs(value) < midpoint ? FLT_MAX : INFINITY;
    return value < 0 ? -nearest : nearest;
}

static const unsigned char *decode_bool(struct evzmq__reader *reader, const unsigned char *at,
                                        bool *out)
{
    if (at == reader->end || (*at & 0xfeu) != EVZMQ__WIRE_FALSE) {
        return evzmq__reader_fail_type(reader, at);
    }
    *out = (*at & 1u) != 0;
    return at + 1;
}

const unsigned char *evzmq__decode_number(struct evzmq__reader *reader, unsigned kind,
                                          const unsigned char *at, void *member)
{
    if (kind == EVZMQ_KIND_BOOL) {
        return decode_bool(reader, at, member);
    }
    struct evzmq__wire_head head;
    const unsigned char *const next = read_number(reader, at, &head);
    if (next == NULL) {
        return NULL;
    }
    if (kind == EVZMQ_KIND_FLOAT64) {
        *(double *)member = to_double(&head);
        return next;
    }
    if (kind == EVZMQ_KIND_FLOAT32) {
        *(float *)member = to_float(to_double(&head));
        return next;
    }
    if (head.type != EVZMQ__WIRE_TYPE_INTEGER) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TYPE, at);
    }
    if (!store_integer(kind, &head, member)) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_VALUE, at);
    }
    return next;
}

const unsigned char *evzmq__decode_bin(struct evzmq__reader *reader, const unsigned char *at,
                                       struct evzmq_bytes *out)
{
    if (at == reader->end || *at < 0xc4 || *at > 0xc6) {
        return evzmq__reader_fail_type(reader, at);
    }
    struct evzmq__wire_head head;
    const unsigned char *const payload = evzmq__wire_read_head(at, reader->end, &head);
    if (payload == NULL) {
        return evzmq__reader_fail(reader, EVZMQ_DECODE_TRUNCATED, at);
    }
    out->data = payload;
    out->size = head.size;
    return payload + head.size;
}
