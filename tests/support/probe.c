/**
 * @file probe.c
 * Probes: adapters whose callbacks record, and check what must be true of every callback.
 */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include <msgpack.h>

static void enter(struct probe *p, const struct evzmq_socket *socket)
{
    assert_non_null(p->socket); /* Otherwise: a callback after the free. */
    assert_ptr_equal(p->socket, socket);
    assert_true(p->f->dispatching); /* Otherwise: a callback inside a public call. */
    assert_int_equal(p->f->depth, 0); /* Otherwise: a callback inside a callback. */
    p->f->depth++;
}

static void leave(struct fixture *f)
{
    f->depth--;
}

static void note(struct probe *p, const char *text)
{
    const size_t used = strlen(p->log);

    if (used + strlen(text) + 2 <= sizeof p->log) {
        (void)snprintf(p->log + used, sizeof p->log - used, "%s%s", used == 0 ? "" : " ", text);
    }
}

static void probe_read(struct evzmq_socket *socket, struct evzmq_message *message, void *arg)
{
    struct probe *const p = arg;
    struct fixture *const f = p->f;
    char text[64];

    enter(p, socket);
    assert_true(evzmq_socket_get_enabled(socket) & EV_READ);
    p->reads++;
    p->bytes += evzmq_message_get_size(message);
    note(p, message_text(message, text, sizeof text));
    if (p->on_read != NULL) {
        p->on_read(p, message);
    }
    leave(f);
}

static void probe_write(struct evzmq_socket *socket, void *arg)
{
    struct probe *const p = arg;
    struct fixture *const f = p->f;

    enter(p, socket);
    p->writes++;
    note(p, "[write]");
    if (p->on_write != NULL) {
        p->on_write(p);
    }
    leave(f);
}

static void probe_event(struct evzmq_socket *socket, const struct evzmq_event *event, void *arg)
{
    static const char *const names[] = {
        "[0]",    "[decode-error]", "[too-large]",    "[undeliverable]", "[terminated]",
        "[high]", "[drained]",      "[read-timeout]", "[write-timeout]", "[error]"};
    struct probe *const p = arg;
    struct fixture *const f = p->f;

    enter(p, socket);
    assert_true(event->size >= sizeof *event);
    assert_true((int)event->type >= EVZMQ_EVENT_DECODE_ERROR &&
                (int)event->type <= EVZMQ_EVENT_ERROR);
    p->events[event->type]++;
    p->events_all++;
    p->last = *event;
    p->last.message = NULL;
    note(p, names[event->type]);
    if (p->on_event != NULL) {
        p->on_event(p, event);
    }
    leave(f);
}

void probe_setcb(struct probe *p)
{
    evzmq_socket_setcb(p->socket, probe_read, probe_write, probe_event, p);
}

void probe_attach(struct fixture *f, struct probe *p, void *zmq_socket, unsigned options)
{
    p->f = f;
    p->socket = evzmq_socket_new(f->base, zmq_socket, options);
    assert_non_null(p->socket);
    f->attached++;
    if (options & EVZMQ_OPT_CLOSE_ON_FREE) {
        peer_forget(f, zmq_socket);
    }
    probe_setcb(p);
}

void probe_take_time(struct probe *p)
{
    const struct evzmq_budget budget = {
        .size = sizeof budget, .read_usec = 60000000, .write_usec = 60000000};

    assert_ok(evzmq_socket_set_budget(p->socket, &budget));
}

void probe_enable(struct probe *p, short events)
{
    assert_ok(evzmq_socket_enable(p->socket, events));
}

void probe_free(struct probe *p)
{
    struct evzmq_socket *const socket = p->socket;

    assert_non_null(socket);
    p->socket = NULL;
    p->f->attached--;
    evzmq_socket_free(socket);
}

struct evzmq_socket_stats probe_stats(const struct probe *p)
{
    struct evzmq_socket_stats stats = {.size = sizeof stats};

    assert_ok(evzmq_socket_get_stats(p->socket, &stats));
    return stats;
}

uint64_t probe_wakeups(const struct probe *p)
{
    return probe_stats(p).wakeups;
}

void read_sequence(struct probe *p, struct evzmq_message *message)
{
    const size_t last = evzmq_message_get_part_count(message) - 1;
    uint64_t number = 0;
    size_t size = 0;
    const void *const data = evzmq_message_get_part(message, last, &size);

    assert_true(size >= sizeof number);
    memcpy(&number, data, sizeof number);
    assert_int_equal(number, p->sequence);
    p->sequence++;
}

void read_free(struct probe *p, struct evzmq_message *message)
{
    (void)message;
    probe_free(p);
}

void read_disable(struct probe *p, struct evzmq_message *message)
{
    (void)message;
    assert_ok(evzmq_socket_disable(p->socket, EV_READ));
}

char *message_text(const struct evzmq_message *message, char *out, size_t room)
{
    size_t used = 0;

    for (size_t i = 0; i < evzmq_message_get_part_count(message); i++) {
        size_t size = 0;
        const char *const data = evzmq_message_get_part(message, i, &size);

        if (i > 0 && used + 1 < room) {
            out[used++] = '|';
        }
        for (size_t k = 0; k < size && used + 1 < room; k++) {
            out[used++] = data[k] >= ' ' && data[k] <= '~' ? data[k] : '.';
        }
    }
    out[used] = '\0';
    return out;
}

void assert_part(const struct evzmq_message *message, size_t part, const void *data, size_t size)
{
    size_t seen = 0;
    const void *const bytes = evzmq_message_get_part(message, part, &seen);

    assert_non_null(bytes);
    assert_int_equal(seen, size);
    if (size != 0) {
        assert_memory_equal(bytes, data, size);
    }
}

/* A pattern that repeats after a prime number of bytes: no block of libzmq's or of the library's is
 * a multiple of it. */
#define PERIOD ((size_t)251)

void fill_pattern(void *buffer, size_t size, unsigned seed)
{
    unsigned char *const bytes = buffer;

    for (size_t i = 0; i < size; i++) {
        bytes[i] = (unsigned char)(i % PERIOD * 31 + seed);
    }
}

void assert_pattern(const void *data, size_t size, unsigned seed)
{
    const unsigned char *const bytes = data;

    for (size_t i = 0; i < size && i < PERIOD; i++) {
        if (bytes[i] != (unsigned char)(i * 31 + seed)) {
            fail_msg("byte %zu of %zu differs", i, size);
        }
    }
    if (size > PERIOD) {
        assert_true(memcmp(bytes, bytes + PERIOD, size - PERIOD) == 0);
    }
}

size_t pack_record(unsigned number, const char *text, void *out, size_t room)
{
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    size_t size = 0;

    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    (void)msgpack_pack_array(&packer, 2);
    (void)msgpack_pack_unsigned_int(&packer, number);
    (void)msgpack_pack_str(&packer, strlen(text));
    (void)msgpack_pack_str_body(&packer, text, strlen(text));
    size = buffer.size;
    assert_true(size <= room);
    memcpy(out, buffer.data, size);
    msgpack_sbuffer_destroy(&buffer);
    return size;
}
