/*
 * worker_pool: counts the words of many prompts with a pool of worker processes.
 *
 * The main process reads prompts, one a line, and sends each to the next worker that is free;
 * answers are printed as they come, each with the number of its prompt. A worker is this program,
 * started again by the pool. When a worker is lost its unanswered prompts are reported; the pool
 * starts another in its place. SIGINT and SIGTERM end everything in order: no more is read, what
 * was sent is answered.
 *
 *     lines -> next_prompt -> evzmq_pool_send -> worker: count -> evzmq_worker_answer -> on_answer
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include <evzmq/evzmq.h>

/* How many prompts a worker may have at once: enough to be always busy, few to lose with it. */
#define PROMPTS_PER_WORKER 16
#define WORKERS_DEFAULT 4
#define RESTARTS_MAX 3
#define READY_SECONDS 10
#define SHUTDOWN_SECONDS 5
/* What makes this program a worker. */
#define WORKER_ARGUMENT "--be-a-worker"

static const char usage[] =
    "usage: worker_pool [OPTION]... [FILE]\n"
    "\n"
    "Counts lines' words with a pool of worker processes. Reads prompts, one a line, from FILE or\n"
    "from standard input and prints, in the order in which they are done, one line for each:\n"
    "number of the prompt, words, different words, bytes, the longest word. Ends with a table of\n"
    "what each worker did. Status 1 when a prompt was not answered; Ctrl-C ends it in order.\n"
    "\n"
    "  FILE            - or none: standard input\n"
    "  --workers N     how many worker processes; default 4\n"
    "  --tcp           tcp on 127.0.0.1 instead of ipc\n"
    "  --quiet         no line for each prompt, only the table\n"
    "  --help\n";

static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int complain(const char *format, ...)
{
    va_list arguments;
    fputs("worker_pool: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\n", stderr);
    return -1;
}

/* The worker's half. */

struct statistics {
    uint64_t words;
    uint64_t different;
    uint64_t bytes;
    const char *longest;
    size_t longest_size;
};

struct word {
    const char *text;
    size_t size;
};

static int compare_words(const void *a, const void *b)
{
    const struct word *one = a;
    const struct word *other = b;
    const size_t size = one->size < other->size ? one->size : other->size;
    const int order = memcmp(one->text, other->text, size);
    return order != 0 ? order : (one->size > other->size) - (one->size < other->size);
}

/* Finds the words of a text. Returns how many; `words` has room for half the bytes and one. */
static size_t split(const char *text, size_t size, struct word *words)
{
    size_t count = 0;
    for (size_t i = 0; i < size;) {
        size_t end = i;
        while (end < size && !isspace((unsigned char)text[end])) {
            end++;
        }
        if (end > i) {
            words[count++] = (struct word){.text = text + i, .size = end - i};
        }
        i = end + 1;
    }
    return count;
}

static int count_words(const char *text, size_t size, struct statistics *out)
{
    struct word *words = malloc((size / 2 + 1) * sizeof(*words));
    if (words == NULL) {
        return -1;
    }
    const size_t count = split(text, size, words);
    *out = (struct statistics){.words = count, .bytes = size, .longest = ""};
    qsort(words, count, sizeof(*words), compare_words);
    for (size_t i = 0; i < count; i++) {
        out->different += i == 0 || compare_words(&words[i - 1], &words[i]) != 0;
        if (words[i].size > out->longest_size) {
            out->longest = words[i].text;
            out->longest_size = words[i].size;
        }
    }
    free(words);
    return 0;
}

/* A request has two parts behind the header, the prompt's number and its text; so has the answer,
 * the number and one line. */
static void on_request(struct evzmq_worker *worker, struct evzmq_message *message, void *arg)
{
    size_t number_size = 0;
    size_t size = 0;
    const void *number = evzmq_message_get_part(message, 1, &number_size);
    const char *text = evzmq_message_get_part(message, 2, &size);
    struct statistics statistics;
    char line[256];
    (void)arg;
    if (text == NULL || count_words(text, size, &statistics) != 0) {
        (void)evzmq_worker_answer(worker, number, number_size, 0);
        return;
    }
    const int shown = statistics.longest_size < 100 ? (int)statistics.longest_size : 100;
    const int length =
        snprintf(line, sizeof(line), "%8llu %8llu %10llu  %.*s",
                 (unsigned long long)statistics.words, (unsigned long long)statistics.different,
                 (unsigned long long)statistics.bytes, shown, statistics.longest);
    const struct evzmq_bytes parts[] = {{number, number_size}, {line, (size_t)length}};
    (void)evzmq_worker_answer_parts(worker, parts, 2, 0);
}

static int be_a_worker(const char *connection)
{
    /* Ctrl-C at the terminal reaches this process too; the main process says when to end. */
    (void)signal(SIGINT, SIG_IGN);
    struct event_base *base = event_base_new();
    struct evzmq_worker *worker = base == NULL ? NULL : evzmq_worker_new(base, connection, NULL);
    if (worker == NULL) {
        if (errno != ESRCH) { /* The main process is gone: nobody asks. */
            (void)complain("cannot become a worker: %s", evzmq_strerror(errno));
        }
        return EXIT_FAILURE;
    }
    evzmq_worker_setcb(worker, on_request, NULL, NULL);
    (void)event_base_dispatch(base); /* until the worker has ended */
    evzmq_worker_free(worker);
    event_base_free(base);
    return EXIT_SUCCESS;
}

/* The main process's half. */

struct program {
    struct event_base *base;
    struct evzmq_context *context;
    struct evzmq_pool *pool;
    struct event *signals[2];
    struct evzmq_pool_options options;
    unsigned workers;
    const char *path;
    int input; /* -1: none, or at its end */
    struct event *readable; /* where the input is no file: more of it is there */
    struct evbuffer *text; /* read and not yet sent */
    uint64_t prompts;
    uint64_t answers;
    uint64_t lost;
    int ending;
    int quiet;
    int is_terminal; /* standard error: progress is shown */
    int failed;
};

/* One line that is written over by the next, when somebody looks. */
static void show_progress(const struct program *program, int final)
{
    if (program->is_terminal && (final || program->answers % 64 == 0)) {
        fprintf(stderr, "\r%llu of %llu prompts%s", (unsigned long long)program->answers,
                (unsigned long long)program->prompts, final ? "\n" : "");
    }
}

static void close_input(struct program *program)
{
    if (program->readable != NULL) {
        event_free(program->readable);
        program->readable = NULL;
    }
    if (program->input > STDIN_FILENO) {
        (void)close(program->input);
    }
    program->input = -1;
}

/* Reads some more. Returns -1 at the end. */
static int read_more(struct program *program)
{
    enum { PIECE = 65536 };
    const int size = evbuffer_read(program->text, program->input, PIECE);
    if (size < 0 && errno == EINTR) {
        return 0;
    }
    if (size < 0) {
        program->failed = 1;
        (void)complain("%s: %s", program->path, strerror(errno));
    }
    if (size <= 0) {
        close_input(program);
        return -1;
    }
    return 0;
}

/* The next prompt and its size; NULL when there is none, or none yet. It stays in the buffer. */
static const char *next_prompt(struct program *program, size_t *out_size, size_t *out_used)
{
    size_t end = 0;
    struct evbuffer_ptr at;
    while ((at = evbuffer_search_eol(program->text, NULL, &end, EVBUFFER_EOL_LF)).pos < 0) {
        const int waits = program->readable != NULL;
        if (program->input < 0 || waits || read_more(program) < 0) {
            break;
        }
    }
    const size_t size = at.pos >= 0 ? (size_t)at.pos : evbuffer_get_length(program->text);
    if (at.pos < 0 && (program->input >= 0 || size == 0)) {
        return NULL;
    }
    *out_size = size;
    *out_used = size + end;
    return (const char *)evbuffer_pullup(program->text, (ssize_t)*out_used);
}

static void on_end(struct evzmq_pool *pool, const struct evzmq_pool_report *report, void *arg)
{
    struct program *program = arg;
    (void)pool;
    program->lost += report->unanswered + report->undelivered;
    if (report->killed + report->left > 0) {
        (void)complain("%u workers had to be killed", report->killed + report->left);
    }
    (void)event_base_loopexit(program->base, NULL);
}

static void end(struct program *program)
{
    const struct timeval deadline = {SHUTDOWN_SECONDS, 0};
    close_input(program);
    if (!program->ending) {
        program->ending = 1;
        if (evzmq_pool_shutdown(program->pool, &deadline, on_end, program) != 0) {
            (void)event_base_loopexit(program->base, NULL);
        }
    }
}

/* Sends prompts for as long as some worker takes one. Answers and events bring it back here. */
static void feed(struct program *program)
{
    const char *text = NULL;
    size_t size = 0;
    size_t used = 0;
    char number[32];
    while (!program->ending && (text = next_prompt(program, &size, &used)) != NULL) {
        (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)program->prompts + 1);
        const struct evzmq_bytes parts[] = {{number, strlen(number)}, {text, size}};
        if (evzmq_pool_send_parts(program->pool, EVZMQ_POOL_NEXT, parts, 2) < 0) {
            if (errno != EAGAIN) {
                program->failed = 1;
                (void)complain("prompt %s: %s", number, evzmq_strerror(errno));
                end(program);
            }
            return; /* It stays in the buffer. */
        }
        (void)evbuffer_drain(program->text, used);
        program->prompts++;
    }
    if (program->input < 0 && program->answers + program->lost >= program->prompts) {
        end(program);
    }
}

/* Stops to read while so much is not sent. */
#define TEXT_MAX (1024u * 1024u)

static void on_readable(evutil_socket_t fd, short events, void *arg)
{
    struct program *program = arg;
    (void)fd;
    (void)events;
    (void)read_more(program);
    feed(program);
    if (program->readable != NULL && evbuffer_get_length(program->text) > TEXT_MAX) {
        (void)event_del(program->readable);
    }
}

static void on_answer(struct evzmq_pool *pool, unsigned worker, struct evzmq_message *message,
                      void *arg)
{
    struct program *program = arg;
    size_t number_size = 0;
    size_t size = 0;
    const char *number = evzmq_message_get_part(message, 1, &number_size);
    const char *text = evzmq_message_get_part(message, 2, &size);
    (void)pool;
    (void)worker;
    program->answers++;
    if (text == NULL) {
        program->failed = 1;
        (void)complain("prompt %.*s: no memory", (int)number_size, number);
    } else if (!program->quiet) {
        printf("%8.*s %.*s\n", (int)number_size, number, (int)size, text);
    }
    show_progress(program, 0);
    feed(program);
    if (program->readable != NULL && evbuffer_get_length(program->text) <= TEXT_MAX) {
        (void)event_add(program->readable, NULL);
    }
}

static void on_event(struct evzmq_pool *pool, const struct evzmq_pool_event *event, void *arg)
{
    struct program *program = arg;
    (void)pool;
    if (event->type == EVZMQ_POOL_EVENT_LOST) {
        /* What was queued goes to the worker's successor, if there is one. */
        program->lost += event->unanswered + (event->restarting ? 0 : event->queued);
        (void)complain("worker %u lost (%s, status %d): %llu prompts unanswered%s", event->worker,
                       evzmq_pool_loss_name(event->loss), event->status,
                       (unsigned long long)event->unanswered,
                       event->restarting ? "; starting another" : "");
    } else if (event->type == EVZMQ_POOL_EVENT_RECONNECTED) {
        program->lost += event->unanswered;
        (void)complain("worker %u lost its connection, and perhaps %llu prompts", event->worker,
                       (unsigned long long)event->unanswered);
    } else if (event->type == EVZMQ_POOL_EVENT_ERROR) {
        program->failed = 1;
        (void)complain("%s", evzmq_strerror(event->error));
    }
    feed(program);
}

/* Without one worker ready there is no use in going on; with some there is. */
static void on_ready(struct evzmq_pool *pool, unsigned ready, int error, void *arg)
{
    struct program *program = arg;
    (void)pool;
    if (error != 0 && error != ECANCELED) {
        (void)complain("%u of %u workers are ready: %s", ready, program->workers,
                       evzmq_strerror(error));
        if (ready == 0) {
            program->failed = 1;
            end(program);
        }
    }
}

static void on_signal(evutil_socket_t number, short events, void *arg)
{
    (void)number;
    (void)events;
    end(arg);
}

static int listen_to_signals(struct program *program)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        program->signals[i] = evsignal_new(program->base, numbers[i], on_signal, program);
        if (program->signals[i] == NULL || event_add(program->signals[i], NULL) != 0) {
            return complain("cannot watch signals");
        }
    }
    return 0;
}

/* A pipe, a socket or a terminal is read when it has something; whatever else when there is use for
 * more: it is always readable, and not every kind of event base can watch it. */
static int open_input(struct program *program)
{
    struct stat status;
    const int is_stdin = strcmp(program->path, "-") == 0;
    program->input = is_stdin ? STDIN_FILENO : open(program->path, O_RDONLY | O_CLOEXEC);
    if (program->input < 0 || fstat(program->input, &status) != 0) {
        return complain("%s: %s", program->path, strerror(errno));
    }
    if (S_ISDIR(status.st_mode)) {
        return complain("%s: %s", program->path, strerror(EISDIR));
    }
    program->text = evbuffer_new();
    if (program->text == NULL) {
        return complain("no memory");
    }
    if (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode) && !isatty(program->input)) {
        return 0;
    }
    program->readable =
        event_new(program->base, program->input, EV_READ | EV_PERSIST, on_readable, program);
    if (program->readable == NULL || event_add(program->readable, NULL) != 0) {
        return complain("cannot watch %s", program->path);
    }
    return 0;
}

static int start(struct program *program)
{
    const struct timeval timeout = {READY_SECONDS, 0};
    program->base = event_base_new();
    program->context = evzmq_context_new(1, NULL);
    if (program->base == NULL || program->context == NULL) {
        return complain("cannot make an event base and a ZeroMQ context");
    }
    if (open_input(program) != 0) {
        return -1;
    }
    program->pool =
        evzmq_pool_new(program->base, program->context, program->workers, &program->options);
    if (program->pool == NULL) {
        const int error = errno;
        const char *words = evzmq_context_get_error(program->context);
        return complain("cannot start %u workers: %s%s%s", program->workers, evzmq_strerror(error),
                        *words != '\0' ? ": " : "", words);
    }
    evzmq_pool_setcb(program->pool, on_answer, on_event, program);
    if (evzmq_pool_enable(program->pool) != 0 ||
        evzmq_pool_check_ready(program->pool, &timeout, on_ready, program) != 0) {
        return complain("%s", evzmq_strerror(errno));
    }
    return listen_to_signals(program);
}

static void print_table(const struct program *program)
{
    printf("\n%8s %10s %10s %10s %8s\n", "worker", "sent", "answered", "unanswered", "restarts");
    for (unsigned i = 0; i < program->workers; i++) {
        struct evzmq_pool_worker_stats stats = {.size = sizeof(stats)};
        if (evzmq_pool_get_worker_stats(program->pool, i, &stats) == 0) {
            printf("%8u %10llu %10llu %10llu %8llu\n", i, (unsigned long long)stats.sent,
                   (unsigned long long)stats.answered,
                   (unsigned long long)(stats.sent - stats.answered),
                   (unsigned long long)stats.restarts);
        }
    }
    printf("%llu prompts, %llu answered\n", (unsigned long long)program->prompts,
           (unsigned long long)program->answers);
}

static void finish(struct program *program)
{
    close_input(program);
    evzmq_pool_free(program->pool);
    for (size_t i = 0; i < 2; i++) {
        if (program->signals[i] != NULL) {
            event_free(program->signals[i]);
        }
    }
    (void)evzmq_context_free(program->context);
    if (program->base != NULL) {
        event_base_free(program->base);
    }
    if (program->text != NULL) {
        evbuffer_free(program->text);
    }
}

/* Returns -1 to go on, or an exit status. */
static int parse(int argc, char **argv, struct program *program)
{
    static const struct option options[] = {
        {"workers", required_argument, NULL, 'w'},
        {"tcp", no_argument, NULL, 't'},
        {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *rest = NULL;
        unsigned long number = 0;
        switch (option) {
        case 'w':
            number = strtoul(optarg, &rest, 10);
            if (!isdigit((unsigned char)*optarg) || *rest != '\0' || number == 0 ||
                number > EVZMQ_POOL_WORKERS_MAX) {
                (void)complain("--workers takes a number from 1 to %u, not %s",
                               EVZMQ_POOL_WORKERS_MAX, optarg);
                return 2;
            }
            program->workers = (unsigned)number;
            break;
        case 't':
            program->options.endpoint = "tcp://127.0.0.1:*";
            break;
        case 'q':
            program->quiet = 1;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            return 2;
        }
    }
    if (argc - optind > 1) {
        (void)complain("one file, not %d", argc - optind);
        return 2;
    }
    program->path = argc > optind ? argv[optind] : "-";
    return -1;
}

/* Whether all that was printed got out. */
static int print_well(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return 1;
    }
    (void)complain("cannot print: %s", strerror(errno));
    return 0;
}

/* The path of this program, which the pool starts as its workers. */
static const char *own_path(const char *argv0)
{
    static char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length <= 0) {
        return argv0;
    }
    path[length] = '\0';
    return path;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], WORKER_ARGUMENT) == 0) {
        return be_a_worker(argv[2]);
    }
    const char *worker_argv[] = {own_path(argv[0]), WORKER_ARGUMENT, NULL};
    struct program program = {
        .input = -1, .workers = WORKERS_DEFAULT, .is_terminal = isatty(STDERR_FILENO)};
    program.options = (struct evzmq_pool_options){.size = sizeof(program.options),
                                                  .worker_argv = worker_argv,
                                                  .restarts_max = RESTARTS_MAX,
                                                  .unanswered_max = PROMPTS_PER_WORKER};
    const int status = parse(argc, argv, &program);
    if (status >= 0) {
        return print_well() ? status : EXIT_FAILURE;
    }
    const int result = start(&program);
    if (result == 0) {
        (void)event_base_dispatch(program.base);
        show_progress(&program, 1);
        print_table(&program);
    }
    const int well = result == 0 && !program.failed && program.answers == program.prompts;
    finish(&program);
    return print_well() && well ? EXIT_SUCCESS : EXIT_FAILURE;
}
