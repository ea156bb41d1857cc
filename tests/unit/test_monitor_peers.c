/*
 * test_monitor_peers.c: which peers a monitored socket has, from the events of its connections
 * alone: in orders that no test can have libzmq send them in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "monitor.h"

enum { REASON = 7 };

static struct evzmq_monitor monitor;

static int set_up(void **state)
{
    (void)state;
    monitor = (struct evzmq_monitor){0};
    return 0;
}

static void see(unsigned type, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        evzmq__monitor_track(&monitor, type, REASON);
    }
}

static struct evzmq_blocked get_blocked(void)
{
    struct evzmq_blocked out = {.size = sizeof(out)};
    assert_int_equal(evzmq_monitor_get_blocked(&monitor, &out), 0);
    assert_int_equal(out.size, sizeof(out));
    return out;
}

static void a_connection_that_failed_takes_no_other_with_it(void **state)
{
    (void)state;
    see(EVZMQ_MONITOR_CONNECTED, 1);
    see(EVZMQ_MONITOR_ACCEPTED, 2);
    see(EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED, 2);
    see(EVZMQ_MONITOR_HANDSHAKE_FAILED_AUTH, 1);
    see(EVZMQ_MONITOR_DISCONNECTED, 1);
    assert_int_equal(get_blocked().peers, 2);
    see(EVZMQ_MONITOR_DISCONNECTED, 1);
    assert_int_equal(get_blocked().peers, 1);
    assert_int_equal(get_blocked().why, EVZMQ_BLOCKED_PEERS_FULL);
    see(EVZMQ_MONITOR_CONNECTED, 1);
    see(EVZMQ_MONITOR_DISCONNECTED, 1);
    assert_int_equal(get_blocked().peers, 0); /* No handshake failed: so this was the peer. */
}

static void what_is_told_twice_makes_no_more_of_them_than_there_are(void **state)
{
    (void)state;
    see(EVZMQ_MONITOR_ACCEPTED, 1);
    see(EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED, 2);
    assert_int_equal(get_blocked().peers, 1);
    see(EVZMQ_MONITOR_DISCONNECTED, 3);
    assert_int_equal(get_blocked().peers, 0);
    see(EVZMQ_MONITOR_ACCEPTED, 1);
    assert_int_equal(get_blocked().peers, 0);
    see(EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED, 2);
    assert_int_equal(get_blocked().peers, 1);
}

static void a_failure_that_is_told_twice_hides_no_end(void **state)
{
    (void)state;
    see(EVZMQ_MONITOR_CONNECTED, 3);
    see(EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED, 2);
    see(EVZMQ_MONITOR_HANDSHAKE_FAILED_PROTOCOL, 2);
    see(EVZMQ_MONITOR_CONNECTED, 1); /* Its handshake goes on. */
    see(EVZMQ_MONITOR_DISCONNECTED, 1);
    assert_int_equal(get_blocked().peers, 2);
    see(EVZMQ_MONITOR_DISCONNECTED, 1);
    assert_int_equal(get_blocked().peers, 1);
}

static void the_last_failure_is_told_until_a_handshake_succeeds(void **state)
{
    (void)state;
    assert_int_equal(get_blocked().why, EVZMQ_BLOCKED_NO_PEER);
    assert_int_equal(get_blocked().failure, 0);
    see(EVZMQ_MONITOR_CONNECTED, 1);
    assert_int_equal(get_blocked().why, EVZMQ_BLOCKED_NO_PEER);
    see(EVZMQ_MONITOR_HANDSHAKE_FAILED_PROTOCOL, 1);
    see(EVZMQ_MONITOR_DISCONNECTED, 1);
    assert_int_equal(get_blocked().why, EVZMQ_BLOCKED_HANDSHAKE);
    assert_int_equal(get_blocked().failure, EVZMQ_MONITOR_HANDSHAKE_FAILED_PROTOCOL);
    assert_int_equal(get_blocked().reason, REASON);
    see(EVZMQ_MONITOR_CONNECTED, 1);
    see(EVZMQ_MONITOR_HANDSHAKE_FAILED_NO_DETAIL, 1);
    see(EVZMQ_MONITOR_DISCONNECTED, 1);
    assert_int_equal(get_blocked().failure, EVZMQ_MONITOR_HANDSHAKE_FAILED_NO_DETAIL);
    assert_int_equal(get_blocked().reason, 0);
    see(EVZMQ_MONITOR_CONNECTED, 1);
    see(EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED, 1);
    assert_int_equal(get_blocked().why, EVZMQ_BLOCKED_PEERS_FULL);
    assert_int_equal(get_blocked().failure, 0);
    see(EVZMQ_MONITOR_DISCONNECTED, 1);
    assert_int_equal(get_blocked().why, EVZMQ_BLOCKED_NO_PEER);
    assert_int_equal(get_blocked().failure, 0);
    assert_int_equal(get_blocked().reason, 0);
}

static void other_events_change_nothing(void **state)
{
    (void)state;
    see(EVZMQ_MONITOR_ACCEPTED, 1);
    see(EVZMQ_MONITOR_HANDSHAKE_SUCCEEDED, 1);
    see(EVZMQ_MONITOR_LISTENING, 1);
    see(EVZMQ_MONITOR_CLOSED, 1);
    see(EVZMQ_MONITOR_CONNECT_RETRIED, 1);
    assert_int_equal(get_blocked().peers, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_connection_that_failed_takes_no_other_with_it, set_up),
        cmocka_unit_test_setup(what_is_told_twice_makes_no_more_of_them_than_there_are, set_up),
        cmocka_unit_test_setup(a_failure_that_is_told_twice_hides_no_end, set_up),
        cmocka_unit_test_setup(the_last_failure_is_told_until_a_handshake_succeeds, set_up),
        cmocka_unit_test_setup(other_events_change_nothing, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
