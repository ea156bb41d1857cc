/*
 * The command line of http_gateway.
 */
#ifndef GATEWAY_OPTIONS_H
#define GATEWAY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct options {
    const char *address;
    unsigned port; /* 0: the system chooses one */
    unsigned workers;
    unsigned long queue; /* requests that wait for a worker */
    unsigned long connections;
    unsigned long body_max; /* bytes of a request's body */
    unsigned long client_buffer; /* bytes that wait for a client that does not read */
    unsigned long timeout; /* seconds until a worker's answer */
    unsigned long idle_timeout; /* seconds */
    unsigned long grace; /* seconds */
    bool direct;
    const char *worker; /* the program of the workers; NULL: this one */
};

/* Returns -1 to go on, or an exit status: all was said then. */
int options_parse(int argc, char **argv, struct options *out);

/* Says something on standard error. Returns -1. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* GATEWAY_OPTIONS_H */
