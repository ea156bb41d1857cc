/*
 * The memory of packed frames: recycled, bounded, counted, and released by whoever is the last.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <unistd.h>

#include <zmq.h>

#include "allocator.h"
#include "frame.h"

static int set_up(void **state)
{
    (void)state;
    allocator_install();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    const size_t blocks = allocator_get_counts().blocks;
    allocator_remove();
    return blocks == 0 ? 0 : -1;
}

static struct evzmq__frame_pool *pool_new(size_t capacity, size_t kept_max, size_t in_flight_max)
{
    struct evzmq__frame_pool *pool = evzmq__frame_pool_new();
    assert_non_null(pool);
    evzmq__frame_pool_resize(pool, capacity, kept_max, in_flight_max);
    return pool;
}

static bool is_awake(struct evzmq__frame_pool *pool)
{
    struct pollfd fd = {.fd = pool->wake.read_fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void a_frame_that_came_back_is_used_again(void **state)
{
    (void)state;
    struct evzmq__frame_pool *pool = pool_new(1000, 2, 10000);
    struct evzmq__frame *first = evzmq__frame_take(pool);
    const size_t calls = allocator_get_counts().calls;
    for (int i = 0; i < 100; i++) {
        evzmq__frame_release(first->data, first);
        assert_ptr_equal(evzmq__frame_take(pool), first);
    }
    assert_int_equal(allocator_get_counts().calls, calls);
    evzmq__frame_release(first->data, first);
    evzmq__frame_pool_close(pool, false);
}

static void no_more_frames_are_kept_than_is_allowed(void **state)
{
    (void)state;
    struct evzmq__frame_pool *pool = pool_new(1000, 2, 10000);
    struct evzmq__frame *frames[5];
    const size_t before = allocator_get_counts().blocks;
    for (size_t i = 0; i < 5; i++) {
        frames[i] = evzmq__frame_take(pool);
    }
    for (size_t i = 0; i < 5; i++) {
        evzmq__frame_release(frames[i]->data, frames[i]);
    }
    assert_int_equal(allocator_get_counts().blocks, before + 2);
    evzmq__frame_pool_close(pool, false);
}

static void frames_of_another_size_are_not_kept(void **state)
{
    (void)state;
    struct evzmq__frame_pool *pool = pool_new(1000, 4, 10000);
    struct evzmq__frame *kept = evzmq__frame_take(pool);
    struct evzmq__frame *out = evzmq__frame_take(pool);
    struct evzmq__frame *large = evzmq__frame_make(pool, 5000);
    evzmq__frame_release(kept->data, kept);
    evzmq__frame_pool_resize(pool, 2000, 4, 10000);
    evzmq__frame_release(out->data, out);
    evzmq__frame_release(large->data, large);
    struct evzmq__frame *frame = evzmq__frame_take(pool);
    assert_int_equal(frame->capacity, 2000);
    evzmq__frame_release(frame->data, frame);
    assert_int_equal(allocator_get_counts().blocks, 2);
    evzmq__frame_pool_close(pool, false);
}

static void the_last_frame_frees_a_pool_that_was_closed(void **state)
{
    (void)state;
    struct evzmq__frame_pool *pool = pool_new(1000, 4, 10000);
    struct evzmq__frame *frames[3];
    for (size_t i = 0; i < 3; i++) {
        frames[i] = evzmq__frame_take(pool);
        assert_true(evzmq__frame_admit(frames[i]));
    }
    evzmq__frame_pool_close(pool, false);
    for (size_t i = 0; i < 3; i++) {
        assert_true(allocator_get_counts().blocks > 0);
        evzmq__frame_release(frames[i]->data, frames[i]);
    }
    assert_int_equal(allocator_get_counts().blocks, 0);
}

static void beyond_the_bound_a_frame_waits_until_half_of_it_is_free(void **state)
{
    (void)state;
    struct evzmq__frame_pool *pool = pool_new(1000, 4, 4000);
    struct evzmq__frame *frames[5];
    for (size_t i = 0; i < 5; i++) {
        frames[i] = evzmq__frame_take(pool);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_true(evzmq__frame_admit(frames[i]));
    }
    assert_false(evzmq__frame_admit(frames[4]));
    evzmq__frame_release(frames[0]->data, frames[0]);
    assert_false(is_awake(pool));
    evzmq__frame_release(frames[1]->data, frames[1]);
    assert_true(is_awake(pool));
    evzmq__wake_clear(&pool->wake);
    assert_true(evzmq__frame_admit(frames[4]));
    evzmq__frame_recall(frames[4]);
    assert_int_equal(atomic_load(&pool->in_flight), 2000);
    for (size_t i = 2; i < 5; i++) {
        evzmq__frame_release(frames[i]->data, frames[i]);
    }
    assert_false(is_awake(pool)); /* nobody waits */
    assert_int_equal(atomic_load(&pool->in_flight), 0);
    evzmq__frame_pool_close(pool, false);
}

/* An event that was abandoned has the descriptor until evzmq_after_fork() closes it; then its
 * number may be another file's. */
static void in_a_child_a_frame_that_comes_back_writes_to_no_descriptor(void **state)
{
    (void)state;
    struct evzmq__frame_pool *pool = pool_new(1000, 4, 1000);
    struct evzmq__frame *out = evzmq__frame_take(pool);
    struct evzmq__frame *next = evzmq__frame_take(pool);
    struct evzmq__wake wake = pool->wake;
    assert_true(evzmq__frame_admit(out));
    assert_false(evzmq__frame_admit(next));
    evzmq__frame_pool_close(pool, true);
    evzmq__frame_release(out->data, out);
    struct pollfd item = {.fd = wake.read_fd, .events = POLLIN};
    assert_int_equal(poll(&item, 1, 0), 0); /* open, and nothing is to be read */
    evzmq__frame_release(next->data, next);
    assert_int_equal(close(wake.read_fd), 0);
    assert_int_equal(allocator_get_counts().blocks, 0);
}

static void a_frame_larger_than_the_bound_may_go_alone(void **state)
{
    (void)state;
    struct evzmq__frame_pool *pool = pool_new(1000, 4, 4000);
    struct evzmq__frame *large = evzmq__frame_make(pool, 100000);
    struct evzmq__frame *next = evzmq__frame_take(pool);
    assert_true(evzmq__frame_admit(large));
    assert_false(evzmq__frame_admit(next));
    evzmq__frame_release(large->data, large);
    assert_true(is_awake(pool));
    assert_true(evzmq__frame_admit(next));
    evzmq__frame_release(next->data, next);
    evzmq__frame_pool_close(pool, false);
}

static void without_memory_there_is_no_frame_and_nothing_is_changed(void **state)
{
    (void)state;
    allocator_fail_at(1);
    assert_null(evzmq__frame_pool_new());
    struct evzmq__frame_pool *pool = pool_new(1000, 4, 4000);
    allocator_fail_at(1);
    assert_null(evzmq__frame_take(pool));
    assert_null(evzmq__frame_make(pool, SIZE_MAX - 8));
    struct evzmq__frame *frame = evzmq__frame_take(pool);
    assert_non_null(frame);
    evzmq__frame_release(frame->data, frame);
    evzmq__frame_pool_close(pool, false);
}

/* Threads that give frames back, as libzmq's I/O threads do, while the loop thread takes them. */

enum { THREADS = 3, ROUNDS = 20000, SLOTS = 16 };

static _Atomic(struct evzmq__frame *) slots[SLOTS];
static atomic_bool done;

static void *give_back(void *arg)
{
    (void)arg;
    while (!atomic_load(&done)) {
        for (size_t i = 0; i < SLOTS; i++) {
            struct evzmq__frame *frame = atomic_exchange(&slots[i], NULL);
            if (frame != NULL) {
                evzmq__frame_release(frame->data, frame);
            }
        }
    }
    return NULL;
}

static void frames_that_any_thread_gives_back_are_never_out_twice(void **state)
{
    (void)state;
    allocator_remove(); /* it is not for threads */
    struct evzmq__frame_pool *pool = pool_new(64, 4, 640);
    pthread_t threads[THREADS];
    atomic_store(&done, false);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, give_back, NULL), 0);
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        struct evzmq__frame *frame = evzmq__frame_take(pool);
        memset(frame->data, (int)i, frame->capacity);
        if (!evzmq__frame_admit(frame)) {
            struct pollfd fd = {.fd = pool->wake.read_fd, .events = POLLIN};
            assert_int_equal(poll(&fd, 1, 60000), 1);
            evzmq__wake_clear(&pool->wake);
            evzmq__frame_release(frame->data, frame);
            continue;
        }
        struct evzmq__frame *before = atomic_exchange(&slots[i % SLOTS], frame);
        if (before != NULL) {
            evzmq__frame_release(before->data, before);
        }
    }
    evzmq__frame_pool_close(pool, false);
    for (size_t i = 0; i < SLOTS; i++) {
        while (atomic_load(&slots[i]) != NULL) {
        }
    }
    atomic_store(&done, true);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    allocator_install();
}

/* libzmq itself, which releases on its I/O thread when the socket is closed and nobody has the pool
 * any more. */
static void libzmq_releases_frames_when_everything_else_is_gone(void **state)
{
    (void)state;
    allocator_remove();
    enum { FRAMES = 20, SIZE = 20000 };
    void *context = zmq_ctx_new();
    void *pull = zmq_socket(context, ZMQ_PULL);
    void *push = zmq_socket(context, ZMQ_PUSH);
    char endpoint[256];
    size_t endpoint_size = sizeof(endpoint);
    assert_int_equal(zmq_bind(pull, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(pull, ZMQ_LAST_ENDPOINT, endpoint, &endpoint_size), 0);
    assert_int_equal(zmq_connect(push, endpoint), 0);
    struct evzmq__frame_pool *pool = pool_new(SIZE, 4, (size_t)FRAMES * SIZE);
    for (int i = 0; i < FRAMES; i++) {
        struct evzmq__frame *frame = evzmq__frame_take(pool);
        zmq_msg_t msg;
        memset(frame->data, i, SIZE);
        assert_true(evzmq__frame_admit(frame));
        assert_int_equal(zmq_msg_init_data(&msg, frame->data, SIZE, evzmq__frame_release, frame),
                         0);
        assert_int_equal(zmq_msg_send(&msg, push, 0), SIZE);
    }
    evzmq__frame_pool_close(pool, false);
    assert_int_equal(zmq_close(push), 0);
    for (int i = 0; i < FRAMES; i++) {
        unsigned char bytes[SIZE];
        assert_int_equal(zmq_recv(pull, bytes, SIZE, 0), SIZE);
        assert_int_equal(bytes[SIZE - 1], i);
    }
    assert_int_equal(zmq_close(pull), 0);
    assert_int_equal(zmq_ctx_term(context), 0);
    allocator_install();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_frame_that_came_back_is_used_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_more_frames_are_kept_than_is_allowed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frames_of_another_size_are_not_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_frame_frees_a_pool_that_was_closed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(beyond_the_bound_a_frame_waits_until_half_of_it_is_free,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(in_a_child_a_frame_that_comes_back_writes_to_no_descriptor,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_frame_larger_than_the_bound_may_go_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_memory_there_is_no_frame_and_nothing_is_changed,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(frames_that_any_thread_gives_back_are_never_out_twice,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(libzmq_releases_frames_when_everything_else_is_gone, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
