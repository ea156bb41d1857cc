/**
 * @file test_link.c
 * Connection strings: what is written is read again, and nothing else is taken for one.
 */
#include "link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "support.h"

static char requests[] = "ipc:///tmp/a, b=%\"\x01\xff/0";
static char responses[] = "tcp://[::1]:5555";
static char ready[] = "tcp://host.example:1";

static struct evzmq__link example(void)
{
    return (struct evzmq__link){.identity = 3,
                                .n_workers = 8,
                                .start = UINT64_MAX,
                                .heartbeat_ms = 1000,
                                .connect_ms = 10000,
                                .request_hwm = 100,
                                .parent = 4711,
                                .requests = requests,
                                .responses = responses,
                                .ready = ready};
}

static void what_is_written_is_read_again(void **state)
{
    const struct evzmq__link link = example();
    struct evzmq__link read = {.identity = 99};
    char *const text = evzmq__link_format(&link);

    (void)state;
    assert_non_null(text);
    for (const char *at = text; *at != '\0'; at++) {
        assert_true(*at > ' ' && *at < 0x7f && strchr("'\"\\$`;&|<>()", *at) == NULL);
    }
    assert_ok(evzmq__link_parse(&read, text));
    assert_int_equal(read.identity, link.identity);
    assert_int_equal(read.n_workers, link.n_workers);
    assert_true(read.start == link.start);
    assert_int_equal(read.heartbeat_ms, link.heartbeat_ms);
    assert_int_equal(read.connect_ms, link.connect_ms);
    assert_int_equal(read.request_hwm, link.request_hwm);
    assert_int_equal(read.parent, link.parent);
    assert_string_equal(read.requests, requests);
    assert_string_equal(read.responses, responses);
    assert_string_equal(read.ready, ready);
    evzmq__link_clear(&read);
    evzmq__free(text);
}

static void cut_off_anywhere_it_is_refused_or_has_a_shorter_last_endpoint(void **state)
{
    const struct evzmq__link link = example();
    char *const text = evzmq__link_format(&link);
    const size_t size = strlen(text);
    const size_t last = (size_t)(strstr(text, "ready=") - text) + strlen("ready=");

    (void)state;
    for (size_t cut = 0; cut < size; cut++) {
        struct evzmq__link read = {.identity = 99};
        char *const shorter = strndup(text, cut);

        if (evzmq__link_parse(&read, shorter) == 0) {
            assert_true(cut >= last);
            evzmq__link_clear(&read);
        } else {
            assert_true(errno == EINVAL || errno == EPROTO);
            assert_int_equal(read.identity, 99);
        }
        free(shorter);
    }
    evzmq__free(text);
}

static void later_versions_are_told_from_rubbish(void **state)
{
    struct evzmq__link read;

    (void)state;
    assert_errno(evzmq__link_parse(&read, "evzmq-pool/2,worker=0"), EPROTO);
    assert_errno(evzmq__link_parse(&read, "evzmq-pool/,worker=0"), EPROTO);
    assert_errno(evzmq__link_parse(&read, "tcp://127.0.0.1:1"), EINVAL);
    assert_errno(evzmq__link_parse(&read, ""), EINVAL);
}

static void unknown_fields_are_skipped_and_bad_ones_refused(void **state)
{
#define FIELDS "workers=2,start=0,heartbeat=1,connect=1,hwm=1,parent=0,requests=a,responses=b"
    static const char good[] = "evzmq-pool/1,worker=1,new=1,ready=c," FIELDS;
    static const char *const bad[] = {
        "evzmq-pool/1,worker=2,ready=c," FIELDS,
        "evzmq-pool/1,worker=,ready=c," FIELDS,
        "evzmq-pool/1,worker=-1,ready=c," FIELDS,
        "evzmq-pool/1,worker=99999999999999999999,ready=c," FIELDS,
        "evzmq-pool/1,worker=1,ready=%4," FIELDS,
        "evzmq-pool/1,worker=1,ready=%00," FIELDS,
        "evzmq-pool/1,worker=1,ready=%zz," FIELDS,
        "evzmq-pool/1,worker=1,ready," FIELDS,
        "evzmq-pool/1,worker=1," FIELDS,
        "evzmq-pool/1,ready=c," FIELDS,
    };
    struct evzmq__link read;

    (void)state;
    assert_ok(evzmq__link_parse(&read, good));
    evzmq__link_clear(&read);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_errno(evzmq__link_parse(&read, bad[i]), EINVAL);
    }
#undef FIELDS
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(cut_off_anywhere_it_is_refused_or_has_a_shorter_last_endpoint),
        cmocka_unit_test(later_versions_are_told_from_rubbish),
        cmocka_unit_test(unknown_fields_are_skipped_and_bad_ones_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
