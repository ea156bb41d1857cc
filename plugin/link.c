/*
 * link.c (L6): see link.h.
 */
#include "link.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base.h"

static const char family[] = "evzmq-pool/";
static const char version[] = "1";

/* Bytes that stand for themselves. */
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("/:._-@[]", c) != NULL);
}

/* Writes `,name=` and an endpoint; returns where the next byte goes. */
static char *write_endpoint(char *at, const char *name, const char *endpoint)
{
    static const char digits[] = "0123456789abcdef";
    *at++ = ',';
    memcpy(at, name, strlen(name));
    at += strlen(name);
    *at++ = '=';
    for (; *endpoint != '\0'; endpoint++) {
        const unsigned char byte = (unsigned char)*endpoint;
        if (is_plain(*endpoint)) {
            *at++ = *endpoint;
        } else {
            *at++ = '%';
            *at++ = digits[byte >> 4];
            *at++ = digits[byte & 15];
        }
    }
    *at = '\0';
    return at;
}

char *evzmq__link_format(const struct evzmq__link *link)
{
    enum { NUMBERS_MAX = 256, NAMES_MAX = 64 };
    const size_t size =
        NUMBERS_MAX + NAMES_MAX +
        3 * (strlen(link->requests) + strlen(link->responses) + strlen(link->ready));
    char *text = evzmq__malloc(size);
    if (text == NULL) {
        return NULL;
    }
    const int length =
        snprintf(text, NUMBERS_MAX,
                 "%s%s,worker=%u,workers=%u,start=%llu,heartbeat=%u,connect=%u,hwm=%u,parent=%ld",
                 family, version, link->identity, link->n_workers, (unsigned long long)link->start,
                 link->heartbeat_ms, link->connect_ms, link->request_hwm, link->parent);
    char *at = write_endpoint(text + length, "requests", link->requests);
    at = write_endpoint(at, "responses", link->responses);
    (void)write_endpoint(at, "ready", link->ready);
    return text;
}

/* One field of a connection string: name=value. */
struct field {
    const char *name;
    size_t name_size;
    const char *value;
    size_t value_size;
};

/* Reads the field that begins here; returns where the next one begins, NULL when there is none. */
static const char *next_field(const char *at, struct field *out)
{
    const size_t size = strcspn(at, ",");
    const char *equals = memchr(at, '=', size);
    if (equals == NULL) {
        return NULL;
    }
    out->name = at;
    out->name_size = (size_t)(equals - at);
    out->value = equals + 1;
    out->value_size = size - out->name_size - 1;
    return at[size] == ',' ? at + size + 1 : at + size;
}

static bool is_named(const struct field *field, const char *name)
{
    return field->name_size == strlen(name) && memcmp(field->name, name, field->name_size) == 0;
}

static bool read_number(const struct field *field, uint64_t max, uint64_t *out)
{
    uint64_t number = 0;
    for (size_t i = 0; i < field->value_size; i++) {
        const char c = field->value[i];
        if (c < '0' || c > '9' || number > (max - (uint64_t)(c - '0')) / 10) {
            return false;
        }
        number = number * 10 + (uint64_t)(c - '0');
    }
    *out = number;
    return field->value_size > 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns 0, or -1 with EINVAL or ENOMEM. */
static int read_endpoint(const struct field *field, char **out)
{
    char *endpoint = evzmq__malloc(field->value_size + 1);
    if (endpoint == NULL) {
        return -1;
    }
    size_t size = 0;
    for (size_t i = 0; i < field->value_size; i++) {
        char c = field->value[i];
        if (c == '%') {
            const int high = i + 1 < field->value_size ? hex_digit(field->value[i + 1]) : -1;
            const int low = i + 2 < field->value_size ? hex_digit(field->value[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0) {
                evzmq__free(endpoint);
                errno = EINVAL;
                return -1;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        endpoint[size++] = c;
    }
    endpoint[size] = '\0';
    evzmq__free(*out);
    *out = endpoint;
    return 0;
}

/* The fields that are numbers, and which of them were there. */
enum { WORKER, WORKERS, START, HEARTBEAT, CONNECT, HWM, PARENT, NUMBERS };

static const struct {
    const char *name;
    uint64_t max;
} numbers[NUMBERS] = {
    [WORKER] = {"worker", UINT_MAX},          [WORKERS] = {"workers", UINT_MAX},
    [START] = {"start", UINT64_MAX},          [HEARTBEAT] = {"heartbeat", UINT_MAX},
    [CONNECT] = {"connect", UINT_MAX},        [HWM] = {"hwm", (uint64_t)INT_MAX},
    [PARENT] = {"parent", (uint64_t)INT_MAX},
};

static int read_field(struct evzmq__link *link, const struct field *field, uint64_t *values,
                      unsigned *seen)
{
    for (unsigned i = 0; i < NUMBERS; i++) {
        if (is_named(field, numbers[i].name)) {
            *seen |= 1u << i;
            if (!read_number(field, numbers[i].max, &values[i])) {
                errno = EINVAL;
                return -1;
            }
            return 0;
        }
    }
    if (is_named(field, "requests")) {
        return read_endpoint(field, &link->requests);
    }
    if (is_named(field, "responses")) {
        return read_endpoint(field, &link->responses);
    }
    if (is_named(field, "ready")) {
        return read_endpoint(field, &link->ready);
    }
    return 0;
}

static int read_fields(struct evzmq__link *link, const char *at)
{
    uint64_t values[NUMBERS] = {0};
    unsigned seen = 0;
    while (*at != '\0') {
        struct field field;
        at = next_field(at, &field);
        if (at == NULL) {
            errno = EINVAL;
            return -1;
        }
        if (read_field(link, &field, values, &seen) < 0) {
            return -1;
        }
    }
    if (seen != (1u << NUMBERS) - 1 || link->requests == NULL || link->responses == NULL ||
        link->ready == NULL || values[WORKER] >= values[WORKERS] || values[HEARTBEAT] == 0) {
        errno = EINVAL;
        return -1;
    }
    link->identity = (unsigned)values[WORKER];
    link->n_workers = (unsigned)values[WORKERS];
    link->start = values[START];
    link->heartbeat_ms = (unsigned)values[HEARTBEAT];
    link->connect_ms = (unsigned)values[CONNECT];
    link->request_hwm = (unsigned)values[HWM];
    link->parent = (long)values[PARENT];
    return 0;
}

int evzmq__link_parse(struct evzmq__link *link, const char *text)
{
    const size_t head = sizeof(family) - 1;
    if (strncmp(text, family, head) != 0) {
        errno = EINVAL;
        return -1;
    }
    const size_t version_size = strcspn(text + head, ",");
    if (version_size != sizeof(version) - 1 || memcmp(text + head, version, version_size) != 0) {
        errno = EPROTO;
        return -1;
    }
    const char *at = text + head + version_size;
    struct evzmq__link read = {.requests = NULL};
    if (read_fields(&read, *at == ',' ? at + 1 : at) < 0) {
        const int error = errno;
        evzmq__link_clear(&read);
        errno = error;
        return -1;
    }
    *link = read;
    return 0;
}

void evzmq__link_clear(struct evzmq__link *link)
{
    evzmq__free(link->requests);
    evzmq__free(link->responses);
    evzmq__free(link->ready);
    link->requests = NULL;
    link->responses = NULL;
    link->ready = NULL;
}
