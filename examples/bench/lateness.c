/* The 1 ms timer of mode fairness. */
#include "lateness.h"

#include <event2/event.h>

#include "numbers.h"

#define PERIOD_NS 1000000u

static int arm(struct lateness *lateness)
{
    const struct timeval period = {0, PERIOD_NS / 1000};
    /* libevent counts from its cached time, that of the loop's last wakeup; what ran since then
     * would make the timer come early and seem less late than it is. */
    (void)event_base_update_cache_time(event_get_base(lateness->timer));
    lateness->due_ns = numbers_now_ns() + PERIOD_NS;
    return event_add(lateness->timer, &period);
}

static void on_time(evutil_socket_t fd, short events, void *arg)
{
    struct lateness *lateness = arg;
    (void)fd;
    (void)events;
    const uint64_t now_ns = numbers_now_ns();
    if (lateness->count < lateness->count_max) {
        const uint64_t late_ns = now_ns > lateness->due_ns ? now_ns - lateness->due_ns : 0;
        lateness->late_us[lateness->count++] = (double)late_ns / 1e3;
    }
    (void)arm(lateness);
}

struct event_base *lateness_base_new(void)
{
    struct event_config *config = event_config_new();
    if (config == NULL) {
        return NULL;
    }
    (void)event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

int lateness_start(struct lateness *lateness, struct event_base *base)
{
    lateness->timer = event_new(base, -1, 0, on_time, lateness);
    return lateness->timer == NULL ? -1 : arm(lateness);
}

void lateness_stop(struct lateness *lateness)
{
    if (lateness->timer != NULL) {
        event_free(lateness->timer);
        lateness->timer = NULL;
    }
}
