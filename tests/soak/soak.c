/**
 * @file soak.c
 * evzmq_soak: does to some lines of adapters, for as long as it is told to, what programs do and
 * what happens to them, and keeps exact accounts of every message.
 *
 *     evzmq_soak [--seconds N] [--seed S]
 *
 * Pauses and resumptions of both directions, writes in bursts, looks at the raw socket, receive
 * calls, changed budgets, receive modes and packing, broken loops, and connections that are cut by
 * either end. What was under way at a cut may be lost, and is counted; anything else that is
 * missing, comes twice, out of order or broken is wrong. The seed decides what is done and when in
 * its own order; the system's scheduling decides the rest.
 *
 * Exits with 1 when an account is wrong, a call failed that should not have, or descriptors or
 * memory of the library are left at the end. Stalls and the growth of memory are reported, not
 * judged.
 */
#include "soak.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>
#include <zmq.h>

enum { TICK_MS = 5, ACTS_PER_TICK = 2, WRITES_PER_TICK = 3, SETTLE_S = 30, QUIET_MS = 700 };

/* A publisher drops what is above the high water mark, of which libzmq gives back only every other
 * half: hence the small window. */
static const struct plan plans[] = {
    {"push-tcp", {ZMQ_PULL, ZMQ_PUSH}, NULL, {false, true}, false, 1, WINDOW},
    {"pull-ipc", {ZMQ_PUSH, ZMQ_PULL}, "ipc://*", {true, false}, false, 1, WINDOW},
    {"dealers-ipc", {ZMQ_DEALER, ZMQ_DEALER}, "ipc://*", {true, true}, false, 1, WINDOW},
    {"router-tcp", {ZMQ_ROUTER, ZMQ_DEALER}, NULL, {true, true}, false, 1, WINDOW},
    {"packed-tcp", {ZMQ_PULL, ZMQ_PUSH}, NULL, {false, true}, true, 1, WINDOW},
    {"packed-ipc", {ZMQ_DEALER, ZMQ_DEALER}, "ipc://*", {true, true}, true, 1, WINDOW},
    {"pubsub-ipc", {ZMQ_XPUB, ZMQ_SUB}, "ipc://*", {true, false}, false, 1, 30},
    {"parts-ipc", {ZMQ_PULL, ZMQ_PUSH}, "ipc://*", {false, true}, false, 4, WINDOW},
    {"parts-pair", {ZMQ_PAIR, ZMQ_PAIR}, "inproc://pair", {true, true}, false, 4, WINDOW},
};
enum { LINES = sizeof plans / sizeof plans[0] };

/* The straight line through the samples of resident memory, by least squares. */
struct slope {
    double count;
    double seconds;
    double bytes;
    double seconds_squared;
    double product;
};

struct soak {
    struct event_base *base;
    void *zmq_context;
    struct evzmq_context *context;
    struct event *ticker;
    struct dice dice;
    struct line lines[LINES];
    uint64_t begin_ns;
    uint64_t end_ns; /* of the actions */
    uint64_t over_ns; /* when it ends whatever is missing */
    uint64_t complete_ns; /* since when nothing is missing; 0: something is */
    uint64_t sampled_ns;
    uint64_t breaks;
    bool ending;
    bool over;
    long resident_begin; /* after a third: buffers, pools and the heap have found their size */
    long resident_end;
    long blocks_begin;
    long blocks_end;
    int descriptors_least;
    int descriptors_most;
    struct slope slope;
};

static volatile sig_atomic_t interrupted;

/* What the library holds, in blocks. libzmq's threads free some of them. */
static atomic_long blocks;

static void *counting_malloc(size_t size)
{
    void *const memory = malloc(size);

    (void)atomic_fetch_add(&blocks, memory != NULL);
    return memory;
}

static void *counting_realloc(void *old, size_t size)
{
    void *const memory = realloc(old, size);

    (void)atomic_fetch_add(&blocks, memory != NULL && old == NULL);
    return memory;
}

static void counting_free(void *memory)
{
    (void)atomic_fetch_sub(&blocks, memory != NULL);
    free(memory);
}

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* In bytes; 0 where nobody can tell. */
static long resident(void)
{
    long pages = 0;
    FILE *const file = fopen("/proc/self/statm", "r");

    if (file != NULL) {
        if (fscanf(file, "%*d %ld", &pages) != 1) {
            pages = 0;
        }
        (void)fclose(file);
    }
    return pages * sysconf(_SC_PAGESIZE);
}

/* -1 where nobody can tell. */
static int descriptors(void)
{
    DIR *const directory = opendir("/proc/self/fd");
    int count = -1;

    if (directory == NULL) {
        return -1;
    }
    while (readdir(directory) != NULL) {
        count++;
    }
    (void)closedir(directory);
    return count;
}

static void sample(struct soak *soak, uint64_t now)
{
    const double seconds = (double)(now - soak->begin_ns) / 1e9;
    const int open = descriptors();

    soak->sampled_ns = now;
    soak->resident_end = resident();
    if (soak->descriptors_least == 0 || open < soak->descriptors_least) {
        soak->descriptors_least = open;
    }
    if (open > soak->descriptors_most) {
        soak->descriptors_most = open;
    }
    soak->blocks_end = atomic_load(&blocks);
    if ((now - soak->begin_ns) * 3 > soak->end_ns - soak->begin_ns && !soak->ending) {
        struct slope *const slope = &soak->slope;

        if (slope->count < 0.5) {
            soak->resident_begin = soak->resident_end;
            soak->blocks_begin = soak->blocks_end;
        }
        slope->count += 1;
        slope->seconds += seconds;
        slope->bytes += (double)soak->resident_end;
        slope->seconds_squared += seconds * seconds;
        slope->product += seconds * (double)soak->resident_end;
    }
}

/* Kibibytes a minute. */
static double slope_of(const struct slope *slope)
{
    const double below = slope->count * slope->seconds_squared - slope->seconds * slope->seconds;

    if (slope->count < 3 || below <= 0) {
        return 0;
    }
    return (slope->count * slope->product - slope->seconds * slope->bytes) / below * 60 / 1024;
}

static void end_tick(struct soak *soak, uint64_t now)
{
    bool complete = true;

    for (size_t i = 0; i < LINES; i++) {
        line_resume(&soak->lines[i]);
        complete = complete && line_is_complete(&soak->lines[i]);
    }
    if (!complete) {
        soak->complete_ns = 0;
    } else if (soak->complete_ns == 0) {
        soak->complete_ns = now;
    }
    /* What is left of cut connections may still come, or come twice. */
    soak->over = now >= soak->over_ns ||
                 (complete && now - soak->complete_ns >= UINT64_C(1000000) * QUIET_MS);
    if (soak->over) {
        (void)event_base_loopbreak(soak->base);
    }
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct soak *const soak = arg;
    const uint64_t now = clock_ns();

    (void)fd;
    (void)what;
    for (size_t i = 0; i < LINES; i++) {
        line_watch(&soak->lines[i]);
        line_tick(&soak->lines[i]);
    }
    if (now - soak->sampled_ns >= UINT64_C(1000000000)) {
        sample(soak, now);
    }
    if (!soak->ending && (now >= soak->end_ns || interrupted)) {
        soak->ending = true;
        soak->over_ns = now + UINT64_C(1000000000) * SETTLE_S;
    }
    if (soak->ending) {
        end_tick(soak, now);
        return;
    }
    for (int i = 0; i < ACTS_PER_TICK; i++) {
        line_act(&soak->lines[dice_below(&soak->dice, LINES)]);
    }
    for (int i = 0; i < WRITES_PER_TICK; i++) {
        line_write(&soak->lines[dice_below(&soak->dice, LINES)]);
    }
    if (dice_below(&soak->dice, 20) == 0) {
        (void)event_base_loopbreak(soak->base);
        soak->breaks++;
    }
}

static int soak_open(struct soak *soak)
{
    const struct evzmq_context_limits limits = {.size = sizeof limits,
                                                .linger_ms = 200,
                                                .send_high_water_mark = 200,
                                                .receive_high_water_mark = 200};
    const struct timeval tick = {0, TICK_MS * 1000};

    soak->base = event_base_new();
    soak->zmq_context = zmq_ctx_new();
    soak->context = evzmq_context_new_with(soak->zmq_context, NULL);
    if (soak->base == NULL || soak->context == NULL ||
        evzmq_context_set_limits(soak->context, &limits) != 0) {
        return -1;
    }
    for (size_t i = 0; i < LINES; i++) {
        if (line_open(&soak->lines[i], &plans[i], soak->base, soak->context, soak->zmq_context,
                      &soak->dice) != 0) {
            return -1;
        }
    }
    soak->ticker = event_new(soak->base, -1, EV_PERSIST, on_tick, soak);
    return soak->ticker == NULL ? -1 : event_add(soak->ticker, &tick);
}

/* Returns 0, or -1 when the context did not close. */
static int soak_close(struct soak *soak)
{
    int result = 0;

    for (size_t i = 0; i < LINES; i++) {
        line_close(&soak->lines[i]);
    }
    event_free(soak->ticker);
    result = evzmq_context_free(soak->context) | zmq_ctx_term(soak->zmq_context);
    event_base_free(soak->base);
    libevent_global_shutdown();
    return result;
}

/* Returns whether all is right. */
static bool report_lines(const struct soak *soak)
{
    bool right = true;

    (void)printf("\n%-12s %12s %12s %9s %7s %6s %7s %11s\n", "line", "written", "received", "lost",
                 "cuts", "wrong", "stalls", "longest ms");
    for (size_t i = 0; i < LINES; i++) {
        const struct line *const line = &soak->lines[i];
        const struct flow *const a = &line->flows[0];
        const struct flow *const b = &line->flows[1];
        const uint64_t longest = a->longest_ns > b->longest_ns ? a->longest_ns : b->longest_ns;
        const uint64_t written = a->written + b->written;
        const uint64_t received = a->received + b->received;
        const uint64_t lost = a->lost + b->lost;

        (void)printf("%-12s %12" PRIu64 " %12" PRIu64 " %9" PRIu64 " %7" PRIu64 " %6" PRIu64
                     " %7" PRIu64 " %11.0f\n",
                     line->plan->name, written, received, lost, line->cuts, a->wrong + b->wrong,
                     a->stalls + b->stalls, (double)longest / 1e6);
        right = right && a->wrong + b->wrong == 0 && line->errors == 0 &&
                written == received + lost && received > 0;
    }
    return right;
}

static void usage(void)
{
    (void)fprintf(stderr, "usage: evzmq_soak [--seconds N] [--seed S]\n");
    exit(2);
}

static uint64_t read_number(const char *text)
{
    char *end = NULL;
    const uint64_t number = text == NULL ? 0 : strtoull(text, &end, 10);

    if (number == 0 || *end != '\0') {
        usage();
    }
    return number;
}

int main(int argc, char **argv)
{
    static struct soak soak;
    const int descriptors_before = descriptors();
    uint64_t seconds = 5;
    int descriptors_after = 0;
    bool right = true;

    soak.dice.state = (clock_ns() ^ (uint64_t)getpid()) | 1;
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0) {
            seconds = read_number(argv[i + 1]);
        } else if (strcmp(argv[i], "--seed") == 0) {
            soak.dice.state = read_number(argv[i + 1]);
        } else {
            usage();
        }
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_interrupt);
    (void)signal(SIGTERM, on_interrupt);
    (void)printf("evzmq_soak --seconds %" PRIu64 " --seed %" PRIu64 "\n", seconds, soak.dice.state);
    (void)evzmq_set_mem_functions(counting_malloc, counting_realloc, counting_free);
    soak.begin_ns = clock_ns();
    soak.end_ns = soak.begin_ns + seconds * UINT64_C(1000000000);
    if (soak_open(&soak) != 0) {
        perror("evzmq_soak");
        return 1;
    }
    while (!soak.over) {
        if (event_base_loop(soak.base, 0) != 0) {
            (void)printf("the loop ended by itself\n");
            return 1;
        }
    }
    seconds = (clock_ns() - soak.begin_ns) / UINT64_C(1000000000);
    right = soak_close(&soak) == 0;
    descriptors_after = descriptors();
    right = report_lines(&soak) && right && descriptors_after == descriptors_before &&
            atomic_load(&blocks) == 0;
    (void)printf("\n%" PRIu64 " s; the loop was broken %" PRIu64 " times\n", seconds, soak.breaks);
    (void)printf("resident: %ld KiB after a third, %ld at the end; %+.1f KiB a minute\n",
                 soak.resident_begin / 1024, soak.resident_end / 1024, slope_of(&soak.slope));
    (void)printf("blocks of the library: %ld after a third, %ld at the end, %ld after\n",
                 soak.blocks_begin, soak.blocks_end, atomic_load(&blocks));
    (void)printf("descriptors: %d before, %d to %d meanwhile, %d after\n", descriptors_before,
                 soak.descriptors_least, soak.descriptors_most, descriptors_after);
    (void)printf("%s\n", right ? "all accounts are right" : "WRONG");
    return right ? 0 : 1;
}
