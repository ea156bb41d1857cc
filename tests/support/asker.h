/**
 * @file asker.h
 * A requester under test, what its callbacks saw, and plain servers for it.
 */
#ifndef TESTS_SUPPORT_ASKER_H
#define TESTS_SUPPORT_ASKER_H

#include "support.h"

#include <stdbool.h>

enum { HEARD_PARTS = 8, HEARD_SIZE = 64 };

/** A DEALER adapter with a requester. All fields may be looked at; the hooks may be set. Callbacks
 * are checked as a probe's are, and that no request ends twice. */
struct asker {
    struct fixture *f;
    struct evzmq_socket *socket; /* NULL once freed */
    struct evzmq_requester *requester; /* NULL once freed */
    size_t ended;
    size_t replied; /* of those, without an error */
    int64_t number; /* of the last that ended */
    int error;
    char text[256]; /* the server's parts of its reply, joined by '|' */
    char log[2048]; /* "1=reply 2!timeout", in order; full: the rest is not noted */
    size_t rooms; /* calls of the write callback */
    size_t events[EVZMQ_EVENT_ERROR + 1];
    void (*on_end)(struct asker *a, int64_t number, int error, struct evzmq_message *reply);
    void (*on_room)(struct asker *a);
    void (*on_event)(struct asker *a, const struct evzmq_event *event);
    void *arg; /* the test's own */
};

/** Makes a bound plain server and an asker that is connected to it. */
void asker_open(struct fixture *f, struct asker *a, enum transport transport, int server_type,
                void **out_server, const struct evzmq_requester_options *options);

/** Puts a requester on a DEALER of the test's. */
void asker_attach(struct fixture *f, struct asker *a, void *dealer,
                  const struct evzmq_requester_options *options);

/** Makes a socket that may be closed with messages of several parts under way. */
void *asker_peer(struct fixture *f, int type);

/** Frees what is left of it. */
void asker_close(struct asker *a);
void asker_free_requester(struct asker *a);
void asker_free_socket(struct asker *a);

/** Makes a request that must be accepted. Returns its number. */
int64_t ask(struct asker *a, const char *text, int deadline_ms);

/** The callback that ask() uses; its argument is the asker. */
void asker_note(struct evzmq_requester *requester, int64_t request, int error,
                struct evzmq_message *reply, void *arg);

/** The counters, which must add up. */
struct evzmq_requester_stats asker_stats(const struct asker *a);

/** A message that a plain server got. */
struct heard {
    size_t count;
    size_t size[HEARD_PARTS];
    unsigned char part[HEARD_PARTS][HEARD_SIZE];
};

/** Receives a request while the loop runs. */
void hear(struct fixture *f, void *server, struct heard *out);
bool try_hear(void *server, struct heard *out);

/** The last part, as text. */
const char *heard_text(const struct heard *heard);

/** Sends parts: those of a request up to and with its empty one, and a body. */
void answer(void *server, const struct heard *heard, const char *body);

/** Sends exactly these parts. */
void send_parts(void *server, const struct heard *parts);
void add_part(struct heard *parts, const void *data, size_t size);

#endif /* TESTS_SUPPORT_ASKER_H */
