/**
 * @file web.h
 * A web server under test, which is a program of its own, and blocking HTTP clients of it.
 *
 * Clients are plain sockets, so that a test says what goes over the wire, byte for byte, and sees
 * what comes. Every wait is bounded by the fixture's watchdog. A failed assertion leaves the server
 * running: the next web_start() ends it, or the end of the test program.
 */
#ifndef TESTS_SUPPORT_WEB_H
#define TESTS_SUPPORT_WEB_H

#include "support.h"

#include <stdbool.h>
#include <sys/types.h>

/** A server that runs. */
struct web_server {
    pid_t pid;
    unsigned port;
    int output; /* what it prints after its first line */
};

/** How a program that was to end by itself did. */
struct web_run {
    int status; /* exit status; 128 and the signal where one ended it */
    char output[8192];
    char errors[8192];
};

/** One answer; web_free() frees it. */
struct web_answer {
    int status;
    char *head; /* the status line and the headers, as text */
    char *body; /* without the chunks' frames; a 0 follows */
    size_t size; /* of the body */
    size_t used; /* bytes on the wire */
};

/** Starts a program with arguments that NULL ends, and reads the port from the end of the first
 * line that it prints, a URL. */
void web_start(struct web_server *server, const char *program, const char *const *arguments);

/** Sends a signal, unless it is 0, and waits for the end. Returns the exit status, or 128 and the
 * signal. */
int web_end(struct web_server *server, int signal_number);

/** Runs a program to its end; descriptors is its limit of open files, 0 for the caller's. */
void web_run(struct web_run *run, const char *program, const char *const *arguments,
             unsigned long descriptors);

/** One connection, and what came over it and was not taken yet. */
struct web_client {
    int fd;
    char *data;
    size_t size;
    size_t capacity;
};

/** Connects. A receive buffer of 0 bytes: the system's. */
void web_connect(struct web_client *client, const struct web_server *server);
void web_connect_with(struct web_client *client, const struct web_server *server,
                      int receive_buffer);
void web_close(struct web_client *client);
/** Whether a connection is refused. */
bool web_refuses(const struct web_server *server);

void web_send(struct web_client *client, const char *data, size_t size);
void web_send_text(struct web_client *client, const char *text);
/** Sends a request with a body. */
void web_post(struct web_client *client, const char *path, const char *body, size_t size);

/** Parses one whole answer at the begin of some bytes. Returns 1, 0 when there is not all of it
 * yet, -1 when it is none. Where neither a length nor chunks say so, the answer ends with the
 * connection. */
int web_parse(const char *data, size_t size, bool is_head, bool at_end, struct web_answer *out);
void web_free(struct web_answer *answer);

/** Receives one answer, that to a HEAD request, or so many bytes at least, which stay. */
void web_receive(struct web_client *client, struct web_answer *out);
void web_receive_head(struct web_client *client, struct web_answer *out);
void web_receive_some(struct web_client *client, size_t size);
/** Receives one answer, checks its status and frees it. */
void web_expect(struct web_client *client, int status);
/** Waits until the server has closed the connection; nothing more must come before. */
void web_expect_end(struct web_client *client);

/** Whether an answer has a header with a value. */
bool web_has_header(const struct web_answer *answer, const char *line);

/** A number of /metrics; 0 where it has no such line. */
unsigned long long web_metric(const struct web_server *server, const char *name);
/** Asks for it until it is at least so much. */
void web_await_metric(const struct web_server *server, const char *name, unsigned long long value);

/** Stops a process, and waits until it stands still. */
void web_stop_process(pid_t pid);

#endif /* TESTS_SUPPORT_WEB_H */
