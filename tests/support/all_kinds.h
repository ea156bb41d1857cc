/**
 * @file all_kinds.h
 * A record with a field of every kind, in both layouts, and random ones of it.
 */
#ifndef TESTS_SUPPORT_ALL_KINDS_H
#define TESTS_SUPPORT_ALL_KINDS_H

#include <evzmq/schema.h>

struct point {
    int32_t x;
    double y;
};

struct circle {
    struct evzmq_str name;
    double radius;
};

struct square {
    uint16_t side;
    uint64_t absent;
};

struct all_kinds {
    bool boolean;
    int8_t int8;
    int16_t int16;
    int32_t int32;
    int64_t int64;
    uint8_t uint8;
    uint16_t uint16;
    uint32_t uint32;
    uint64_t uint64;
    struct evzmq_integer integer;
    float float32;
    double float64;
    struct evzmq_str str;
    struct evzmq_bytes bin;
    struct evzmq_any any;
    struct evzmq_any map;
    struct evzmq_any str_map;
    struct evzmq_any list;
    struct evzmq_any map_list;
    const bool *nilable_bool;
    const int64_t *nilable_int64;
    const float *nilable_float32;
    struct evzmq_str nilable_str;
    struct evzmq_bytes nilable_bin;
    struct evzmq_any nilable_map;
    const struct point *point;
    const struct point *nilable_point;
    EVZMQ_ARRAY_OF(struct point) points;
    EVZMQ_ARRAY_OF(struct evzmq_str) strs;
    EVZMQ_ARRAY_OF(uint8_t) numbers;
    EVZMQ_ARRAY_OF(double) nilable_reals;
    struct evzmq_union shape;
    struct evzmq_union nilable_shape;
    struct evzmq_choice choice;
    struct evzmq_choice nilable_choice;
    uint64_t absent;
    int not_on_the_wire;
};

extern const struct evzmq_schema point_schema;
extern const struct evzmq_schema circle_schema;
extern const struct evzmq_schema square_schema;
extern const struct evzmq_schema shape_schema;
extern const struct evzmq_schema all_kinds_array_schema;
extern const struct evzmq_schema all_kinds_map_schema;

/** How many elements all_kinds::numbers may have. */
#define ALL_KINDS_NUMBERS_MAX 40

/** A generator of numbers; start it with any seed. */
struct random {
    uint64_t state;
};

/** A number below a limit, which is not 0. */
uint64_t random_below(struct random *random, uint64_t limit);

/** A record with random members, all of them valid. What it points to is in the arena. */
struct all_kinds *all_kinds_generate(struct random *random, struct evzmq_arena *arena);

/** Whether two records mean the same, member by member. */
bool all_kinds_equal(const struct all_kinds *left, const struct all_kinds *right);

/** Random packed values and strings; also for other records. In the arena. */
struct evzmq_str generate_str(struct random *random, struct evzmq_arena *arena);
struct evzmq_any generate_any(struct random *random, struct evzmq_arena *arena,
                              enum evzmq_kind kind);

#endif /* TESTS_SUPPORT_ALL_KINDS_H */
