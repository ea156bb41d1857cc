#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <evzmq/pool.h>

#include "worker.h"

static const char usage[] =
    "usage: http_gateway [OPTION]...\n"
    "\n"
    "An HTTP server whose answers come from worker processes, which it starts itself. A worker\n"
    "completes a prompt by giving its words back in reverse order.\n"
    "\n"
    "  POST /v1/completions  {\"prompt\": \"some words\"}; with \"stream\": true the answer comes "
    "in\n"
    "                        pieces, as server-sent events\n"
    "  GET /                 a page to try it with\n"
    "  GET /healthz          200 while a worker is up, else 503\n"
    "  GET /metrics          counters, for Prometheus\n"
    "\n"
    "  --address A           the address to listen on; default 127.0.0.1\n"
    "  --port N              0: one that the system chooses, and that is printed; default 8080\n"
    "  --workers N           worker processes; default: one for each core\n"
    "  --queue N             requests that may wait for a worker, beyond those that workers have;\n"
    "                        more are refused with 503; default 4096\n"
    "  --connections N       do not start where the limit of open files leaves no room for so\n"
    "                        many; default 2048\n"
    "  --body-max BYTES      larger bodies are refused with 413; default 1048576\n"
    "  --client-buffer BYTES a client of a stream that lets more wait is dropped; default 1048576\n"
    "  --timeout S           a request without its answer after so many seconds gets 504, and a\n"
    "                        stream without its next piece an error; default 60\n"
    "  --idle-timeout S      an idle connection is closed after so many seconds; default 60\n"
    "  --grace S             how long clients may take to get their answers at the end; default "
    "10\n"
    "  --worker PROGRAM      what is started as a worker, with " WORKER_ARGUMENT
    " and a connection\n"
    "                        string; default: this program itself\n"
    "  --direct              no workers: answers in the process itself, to compare with\n"
    "  --help\n"
    "\n"
    "SIGTERM and Ctrl-C end it in order: no more is accepted, what is under way is answered. A\n"
    "second signal ends it at once. Status 0 after an end in order, 1 when something failed, 2 "
    "for\n"
    "a command line that cannot be done.\n";

int complain(const char *format, ...)
{
    va_list arguments;
    fputs("http_gateway: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\n", stderr);
    return -1;
}

/* An option that takes a number. */
struct number {
    const char *name;
    unsigned long min;
    unsigned long max;
};

static int parse_number(const struct number *number, const char *text, unsigned long *out)
{
    char *rest = NULL;
    errno = 0;
    const unsigned long value = strtoul(text, &rest, 10);
    if (!isdigit((unsigned char)*text) || *rest != '\0' || errno != 0 || value < number->min ||
        value > number->max) {
        return complain("--%s takes a number from %lu to %lu, not '%s'", number->name, number->min,
                        number->max, text);
    }
    *out = value;
    return 0;
}

static unsigned cores(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > 64 ? 64 : (unsigned)count;
}

/* The options with numbers; getopt_long() gives their place in this table. */
enum {
    PORT,
    WORKERS,
    QUEUE,
    CONNECTIONS,
    BODY_MAX,
    CLIENT_BUFFER,
    TIMEOUT,
    IDLE_TIMEOUT,
    GRACE,
    NUMBERS
};

#define BYTES_MAX (1ul << 30)
#define SECONDS_MAX 86400ul

static const struct number numbers[NUMBERS] = {
    [PORT] = {"port", 0, 65535},
    [WORKERS] = {"workers", 1, EVZMQ_POOL_WORKERS_MAX},
    [QUEUE] = {"queue", 0, 1000000},
    [CONNECTIONS] = {"connections", 1, 10000000},
    [BODY_MAX] = {"body-max", 1, BYTES_MAX},
    [CLIENT_BUFFER] = {"client-buffer", 1, BYTES_MAX},
    [TIMEOUT] = {"timeout", 1, SECONDS_MAX},
    [IDLE_TIMEOUT] = {"idle-timeout", 1, SECONDS_MAX},
    [GRACE] = {"grace", 0, SECONDS_MAX},
};

int options_parse(int argc, char **argv, struct options *out)
{
    enum { ADDRESS = NUMBERS, WORKER, DIRECT, HELP };
    static const struct option options[] = {
        {"port", required_argument, NULL, PORT},
        {"workers", required_argument, NULL, WORKERS},
        {"queue", required_argument, NULL, QUEUE},
        {"connections", required_argument, NULL, CONNECTIONS},
        {"body-max", required_argument, NULL, BODY_MAX},
        {"client-buffer", required_argument, NULL, CLIENT_BUFFER},
        {"timeout", required_argument, NULL, TIMEOUT},
        {"idle-timeout", required_argument, NULL, IDLE_TIMEOUT},
        {"grace", required_argument, NULL, GRACE},
        {"address", required_argument, NULL, ADDRESS},
        {"worker", required_argument, NULL, WORKER},
        {"direct", no_argument, NULL, DIRECT},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    unsigned long values[NUMBERS] = {8080, cores(), 4096, 2048, 1ul << 20, 1ul << 20, 60, 60, 10};
    *out = (struct options){.address = "127.0.0.1"};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option >= 0 && option < NUMBERS) {
            if (parse_number(&numbers[option], optarg, &values[option]) != 0) {
                return 2;
            }
        } else if (option == ADDRESS) {
            out->address = optarg;
        } else if (option == WORKER) {
            out->worker = optarg;
        } else if (option == DIRECT) {
            out->direct = true;
        } else if (option == HELP) {
            fputs(usage, stdout);
            return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
        } else {
            return 2; /* getopt_long() has said why. */
        }
    }
    if (optind < argc) {
        (void)complain("'%s' is no option", argv[optind]);
        return 2;
    }
    out->port = (unsigned)values[PORT];
    out->workers = (unsigned)values[WORKERS];
    out->queue = values[QUEUE];
    out->connections = values[CONNECTIONS];
    out->body_max = values[BODY_MAX];
    out->client_buffer = values[CLIENT_BUFFER];
    out->timeout = values[TIMEOUT];
    out->idle_timeout = values[IDLE_TIMEOUT];
    out->grace = values[GRACE];
    return -1;
}
