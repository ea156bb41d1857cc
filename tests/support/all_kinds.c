/*
 * A record with a field of every kind. The random spans are packed by msgpack-c, so that they are a
 * second opinion on what msgpack is.
 */
#include "all_kinds.h"

#include <stdlib.h>
#include <string.h>

#include <msgpack.h>

static const struct evzmq_field point_fields[] = {
    EVZMQ_FIELD(INT32, struct point, x, EVZMQ_REQUIRED),
    EVZMQ_FIELD(FLOAT64, struct point, y, 0),
};
const struct evzmq_schema point_schema = EVZMQ_SCHEMA(struct point, ARRAY, NULL, point_fields);

static const struct evzmq_field circle_fields[] = {
    EVZMQ_FIELD(STR, struct circle, name, 0),
    EVZMQ_FIELD(FLOAT64, struct circle, radius, EVZMQ_REQUIRED),
};
const struct evzmq_schema circle_schema =
    EVZMQ_SCHEMA(struct circle, ARRAY, "circle", circle_fields);

static const struct evzmq_field square_fields[] = {
    EVZMQ_FIELD(UINT16, struct square, side, 0),
};
const struct evzmq_schema square_schema =
    EVZMQ_SCHEMA_ABSENT(struct square, ARRAY, "square", square_fields, absent);

static const struct evzmq_schema *const shape_members[] = {&circle_schema, &square_schema};
const struct evzmq_schema shape_schema = EVZMQ_SCHEMA_UNION("shape", shape_members);

#define CHOICES                                                                                    \
    (EVZMQ_CHOICE_BIT(BOOL) | EVZMQ_CHOICE_BIT(INTEGER) | EVZMQ_CHOICE_BIT(FLOAT) |                \
     EVZMQ_CHOICE_BIT(STR) | EVZMQ_CHOICE_BIT(BIN) | EVZMQ_CHOICE_BIT(MAP))

static const int32_t default_int32 = -7;
static const struct evzmq_choice default_choice = {EVZMQ_CHOICE_STR, {.str = EVZMQ_STR("none")}};

static const struct evzmq_field all_kinds_fields[] = {
    EVZMQ_FIELD(BOOL, struct all_kinds, boolean, 0),
    EVZMQ_FIELD(INT8, struct all_kinds, int8, 0),
    EVZMQ_FIELD(INT16, struct all_kinds, int16, 0),
    EVZMQ_FIELD_DEFAULT(INT32, struct all_kinds, int32, 0, &default_int32),
    EVZMQ_FIELD(INT64, struct all_kinds, int64, EVZMQ_REQUIRED),
    EVZMQ_FIELD(UINT8, struct all_kinds, uint8, 0),
    EVZMQ_FIELD(UINT16, struct all_kinds, uint16, 0),
    EVZMQ_FIELD(UINT32, struct all_kinds, uint32, 0),
    EVZMQ_FIELD(UINT64, struct all_kinds, uint64, 0),
    EVZMQ_FIELD(INTEGER, struct all_kinds, integer, 0),
    EVZMQ_FIELD(FLOAT32, struct all_kinds, float32, 0),
    EVZMQ_FIELD(FLOAT64, struct all_kinds, float64, 0),
    EVZMQ_FIELD(STR, struct all_kinds, str, 0),
    EVZMQ_FIELD(BIN, struct all_kinds, bin, 0),
    EVZMQ_FIELD(ANY, struct all_kinds, any, 0),
    EVZMQ_FIELD(MAP, struct all_kinds, map, 0),
    EVZMQ_FIELD(STR_MAP, struct all_kinds, str_map, 0),
    EVZMQ_FIELD(LIST, struct all_kinds, list, 0),
    EVZMQ_FIELD(MAP_LIST, struct all_kinds, map_list, 0),
    EVZMQ_FIELD_NILABLE(BOOL, struct all_kinds, nilable_bool, 0),
    EVZMQ_FIELD_NILABLE(INT64, struct all_kinds, nilable_int64, 0),
    EVZMQ_FIELD_NILABLE(FLOAT32, struct all_kinds, nilable_float32, 0),
    EVZMQ_FIELD_NILABLE(STR, struct all_kinds, nilable_str, 0),
    EVZMQ_FIELD_NILABLE(BIN, struct all_kinds, nilable_bin, 0),
    EVZMQ_FIELD_NILABLE(MAP, struct all_kinds, nilable_map, 0),
    EVZMQ_FIELD_RECORD(struct point, &point_schema, struct all_kinds, point, EVZMQ_REQUIRED),
    EVZMQ_FIELD_RECORD(struct point, &point_schema, struct all_kinds, nilable_point, EVZMQ_NILABLE),
    EVZMQ_FIELD_RECORD_ARRAY(struct point, &point_schema, struct all_kinds, points, 0, 0),
    EVZMQ_FIELD_ARRAY(STR, struct all_kinds, strs, 0, 0),
    EVZMQ_FIELD_ARRAY(UINT8, struct all_kinds, numbers, 0, ALL_KINDS_NUMBERS_MAX),
    EVZMQ_FIELD_ARRAY(FLOAT64, struct all_kinds, nilable_reals, EVZMQ_NILABLE, 0),
    EVZMQ_FIELD_UNION(&shape_schema, struct all_kinds, shape, EVZMQ_REQUIRED),
    EVZMQ_FIELD_UNION(&shape_schema, struct all_kinds, nilable_shape, EVZMQ_NILABLE),
    EVZMQ_FIELD_CHOICE(struct all_kinds, choice, 0, CHOICES | EVZMQ_CHOICE_BIT(LIST),
                       &default_choice),
    EVZMQ_FIELD_CHOICE(struct all_kinds, nilable_choice, EVZMQ_NILABLE,
                       CHOICES | EVZMQ_CHOICE_BIT(STR_ARRAY), NULL),
};
const struct evzmq_schema all_kinds_array_schema =
    EVZMQ_SCHEMA_ABSENT(struct all_kinds, ARRAY, "all", all_kinds_fields, absent);
const struct evzmq_schema all_kinds_map_schema =
    EVZMQ_SCHEMA_ABSENT(struct all_kinds, MAP, NULL, all_kinds_fields, absent);

static uint64_t random_next(struct random *random)
{
    random->state = random->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t mixed = random->state;
    mixed = (mixed ^ (mixed >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ (mixed >> 29);
}

uint64_t random_below(struct random *random, uint64_t limit)
{
    return random_next(random) % limit;
}

/* Numbers of all magnitudes: the boundaries of the forms are not far from any of them. */
static uint64_t generate_bits(struct random *random)
{
    const uint64_t shift = random_below(random, 64);
    const uint64_t bits = random_next(random) >> shift;
    return random_below(random, 4) == 0 ? (UINT64_C(1) << shift) - random_below(random, 3) : bits;
}

static void *take(struct evzmq_arena *arena, size_t size)
{
    void *const memory = evzmq_arena_alloc(arena, size);
    if (memory == NULL) {
        abort();
    }
    memset(memory, 0, size);
    return memory;
}

static size_t generate_size(struct random *random)
{
    static const size_t boundaries[] = {0, 1, 31, 32, 33, 255, 256};
    return random_below(random, 8) == 0 ? boundaries[random_below(random, 7)]
                                        : (size_t)random_below(random, 20);
}

struct evzmq_str generate_str(struct random *random, struct evzmq_arena *arena)
{
    static const char *const pieces[] = {
        "a", "xyz", "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98\x80", "\x7f"};
    const size_t size = generate_size(random);
    char *const text = take(arena, size + 4);
    size_t used = 0;
    while (used < size) {
        const char *const piece = pieces[random_below(random, 6)];
        memcpy(text + used, piece, strlen(piece));
        used += strlen(piece);
    }
    const struct evzmq_str str = {text, used};
    return str;
}

static struct evzmq_bytes generate_bin(struct random *random, struct evzmq_arena *arena)
{
    const size_t size = generate_size(random);
    unsigned char *const bytes = take(arena, size);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (unsigned char)random_next(random);
    }
    const struct evzmq_bytes bin = {bytes, size};
    return bin;
}

static void pack_str(msgpack_packer *packer, struct evzmq_str str)
{
    (void)msgpack_pack_str(packer, str.size);
    (void)msgpack_pack_str_body(packer, str.data, str.size);
}

static void pack_any(msgpack_packer *packer, struct random *random, struct evzmq_arena *arena,
                     unsigned depth)
{
    const uint64_t bits = generate_bits(random);
    const size_t count = (size_t)random_below(random, depth < 4 ? 5 : 1);
    struct evzmq_bytes bin;
    double real = 0;
    switch (random_below(random, 10)) {
    case 0:
        (void)msgpack_pack_nil(packer);
        break;
    case 1:
        (void)msgpack_pack_true(packer);
        break;
    case 2:
        (void)msgpack_pack_uint64(packer, bits);
        break;
    case 3:
        (void)msgpack_pack_int64(packer, (int64_t)bits);
        break;
    case 4:
        memcpy(&real, &bits, sizeof(real));
        (void)msgpack_pack_double(packer, real);
        break;
    case 5:
        bin = generate_bin(random, arena);
        (void)msgpack_pack_bin(packer, bin.size);
        (void)msgpack_pack_bin_body(packer, bin.data, bin.size);
        break;
    case 6:
        bin = generate_bin(random, arena);
        (void)msgpack_pack_ext(packer, bin.size, (int8_t)random_below(random, 128));
        (void)msgpack_pack_ext_body(packer, bin.data, bin.size);
        break;
    case 7:
        (void)msgpack_pack_array(packer, count);
        for (size_t i = 0; i < count; i++) {
            pack_any(packer, random, arena, depth + 1);
        }
        break;
    case 8:
        (void)msgpack_pack_map(packer, count);
        for (size_t i = 0; i < count; i++) {
            (void)msgpack_pack_int64(packer, (int64_t)(bits + i));
            pack_any(packer, random, arena, depth + 1);
        }
        break;
    default:
        pack_str(packer, generate_str(random, arena));
        break;
    }
}

static void pack_map(msgpack_packer *packer, struct random *random, struct evzmq_arena *arena,
                     bool values_are_str)
{
    const size_t count = (size_t)random_below(random, 20);
    (void)msgpack_pack_map(packer, count);
    for (size_t i = 0; i < count; i++) {
        pack_str(packer, generate_str(random, arena));
        if (values_are_str) {
            pack_str(packer, generate_str(random, arena));
        } else {
            pack_any(packer, random, arena, 1);
        }
    }
}

struct evzmq_any generate_any(struct random *random, struct evzmq_arena *arena,
                              enum evzmq_kind kind)
{
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    const size_t count = (size_t)random_below(random, 18);
    switch (kind) {
    case EVZMQ_KIND_MAP:
    case EVZMQ_KIND_STR_MAP:
        pack_map(&packer, random, arena, kind == EVZMQ_KIND_STR_MAP);
        break;
    case EVZMQ_KIND_LIST:
    case EVZMQ_KIND_MAP_LIST:
        (void)msgpack_pack_array(&packer, count);
        for (size_t i = 0; i < count; i++) {
            if (kind == EVZMQ_KIND_LIST) {
                pack_any(&packer, random, arena, 1);
            } else {
                pack_map(&packer, random, arena, false);
            }
        }
        break;
    default:
        pack_any(&packer, random, arena, 0);
        break;
    }
    void *const bytes = take(arena, buffer.size);
    memcpy(bytes, buffer.data, buffer.size);
    const struct evzmq_any any = {bytes, buffer.size};
    msgpack_sbuffer_destroy(&buffer);
    return any;
}

static struct evzmq_integer generate_integer(struct random *random)
{
    const uint64_t bits = generate_bits(random);
    return random_below(random, 2) == 0 ? evzmq_integer_from_uint64(bits)
                                        : evzmq_integer_from_int64((int64_t)bits);
}

static struct evzmq_choice generate_choice(struct random *random, struct evzmq_arena *arena,
                                           bool is_nilable)
{
    struct evzmq_choice choice;
    memset(&choice, 0, sizeof(choice));
    const uint64_t kind = random_below(random, 8);
    struct evzmq_str *strs;
    switch (kind) {
    case 0:
        choice.kind = EVZMQ_CHOICE_BOOL;
        choice.as.boolean = random_below(random, 2) != 0;
        break;
    case 1:
        choice.kind = EVZMQ_CHOICE_INTEGER;
        choice.as.integer = generate_integer(random);
        break;
    case 2:
        choice.kind = EVZMQ_CHOICE_FLOAT;
        choice.as.real = (double)random_next(random) / 3;
        break;
    case 3:
        choice.kind = EVZMQ_CHOICE_BIN;
        choice.as.bin = generate_bin(random, arena);
        break;
    case 4:
        choice.kind = EVZMQ_CHOICE_MAP;
        choice.as.any = generate_any(random, arena, EVZMQ_KIND_MAP);
        break;
    case 5:
        if (!is_nilable) {
            choice.kind = EVZMQ_CHOICE_LIST;
            choice.as.any = generate_any(random, arena, EVZMQ_KIND_LIST);
            break;
        }
        choice.kind = EVZMQ_CHOICE_STR_ARRAY;
        choice.as.strs.count = (size_t)random_below(random, 20);
        strs = take(arena, (choice.as.strs.count + 1) * sizeof(*strs));
        for (size_t i = 0; i < choice.as.strs.count; i++) {
            strs[i] = generate_str(random, arena);
        }
        choice.as.strs.items = strs;
        break;
    case 6:
        if (is_nilable) {
            break;
        }
        /* fall through */
    default:
        choice.kind = EVZMQ_CHOICE_STR;
        choice.as.str = generate_str(random, arena);
        break;
    }
    return choice;
}

static struct point *generate_point(struct random *random, struct point *point)
{
    point->x = (int32_t)generate_bits(random);
    point->y = (double)generate_bits(random) / 7;
    return point;
}

static struct evzmq_union generate_shape(struct random *random, struct evzmq_arena *arena)
{
    struct evzmq_union shape;
    if (random_below(random, 2) == 0) {
        struct circle *const circle = take(arena, sizeof(*circle));
        circle->name = generate_str(random, arena);
        circle->radius = (double)generate_bits(random);
        shape.which = &circle_schema;
        shape.record = circle;
        return shape;
    }
    struct square *const square = take(arena, sizeof(*square));
    square->absent = random_below(random, 2);
    square->side = square->absent != 0 ? 0 : (uint16_t)random_next(random);
    shape.which = &square_schema;
    shape.record = square;
    return shape;
}

static void generate_scalars(struct all_kinds *record, struct random *random,
                             struct evzmq_arena *arena)
{
    record->boolean = random_below(random, 2) != 0;
    record->int8 = (int8_t)generate_bits(random);
    record->int16 = (int16_t)generate_bits(random);
    record->int32 = (int32_t)generate_bits(random);
    record->int64 = (int64_t)generate_bits(random);
    record->uint8 = (uint8_t)generate_bits(random);
    record->uint16 = (uint16_t)generate_bits(random);
    record->uint32 = (uint32_t)generate_bits(random);
    record->uint64 = generate_bits(random);
    record->integer = generate_integer(random);
    record->float32 = (float)random_below(random, 1000000) / 3;
    record->float64 = (double)generate_bits(random) / 3;
    record->str = generate_str(random, arena);
    record->bin = generate_bin(random, arena);
    if (random_below(random, 2) == 0) {
        bool *const boolean = take(arena, sizeof(*boolean));
        int64_t *const int64 = take(arena, sizeof(*int64));
        float *const float32 = take(arena, sizeof(*float32));
        *boolean = random_below(random, 2) != 0;
        *int64 = (int64_t)generate_bits(random);
        *float32 = (float)random_below(random, 1000000) / 7;
        record->nilable_bool = boolean;
        record->nilable_int64 = int64;
        record->nilable_float32 = float32;
    }
}

static void generate_spans(struct all_kinds *record, struct random *random,
                           struct evzmq_arena *arena)
{
    record->any = generate_any(random, arena, EVZMQ_KIND_ANY);
    record->map = generate_any(random, arena, EVZMQ_KIND_MAP);
    record->str_map = generate_any(random, arena, EVZMQ_KIND_STR_MAP);
    record->list = generate_any(random, arena, EVZMQ_KIND_LIST);
    record->map_list = generate_any(random, arena, EVZMQ_KIND_MAP_LIST);
    if (random_below(random, 2) == 0) {
        record->nilable_str = generate_str(random, arena);
        record->nilable_bin = generate_bin(random, arena);
        record->nilable_map = generate_any(random, arena, EVZMQ_KIND_MAP);
    }
}

static void generate_arrays(struct all_kinds *record, struct random *random,
                            struct evzmq_arena *arena)
{
    const size_t count = (size_t)random_below(random, 20);
    struct point *const points = take(arena, (count + 1) * sizeof(*points));
    struct evzmq_str *const strs = take(arena, (count + 1) * sizeof(*strs));
    uint8_t *const numbers = take(arena, ALL_KINDS_NUMBERS_MAX);
    double *const reals = take(arena, (count + 1) * sizeof(*reals));
    for (size_t i = 0; i < count; i++) {
        (void)generate_point(random, &points[i]);
        strs[i] = generate_str(random, arena);
        numbers[i] = (uint8_t)random_next(random);
        reals[i] = (double)random_next(random);
    }
    record->points.items = points;
    record->points.count = count;
    record->strs.items = strs;
    record->strs.count = count;
    record->numbers.items = numbers;
    record->numbers.count = count;
    if (random_below(random, 2) == 0) {
        record->nilable_reals.items = reals;
        record->nilable_reals.count = count;
    }
}

struct all_kinds *all_kinds_generate(struct random *random, struct evzmq_arena *arena)
{
    struct all_kinds *const record = take(arena, sizeof(*record));
    generate_scalars(record, random, arena);
    generate_spans(record, random, arena);
    generate_arrays(record, random, arena);
    record->point = generate_point(random, take(arena, sizeof(struct point)));
    record->shape = generate_shape(random, arena);
    if (random_below(random, 2) == 0) {
        record->nilable_point = generate_point(random, take(arena, sizeof(struct point)));
        record->nilable_shape = generate_shape(random, arena);
    }
    record->choice = generate_choice(random, arena, false);
    record->nilable_choice = generate_choice(random, arena, true);
    return record;
}

static bool bytes_equal(const void *left, size_t left_size, const void *right, size_t right_size)
{
    return (left == NULL) == (right == NULL) && left_size == right_size &&
           (left_size == 0 || memcmp(left, right, left_size) == 0);
}

#define SPANS_EQUAL(left, right) bytes_equal((left).data, (left).size, (right).data, (right).size)
#define POINTERS_EQUAL(left, right)                                                                \
    (((left) == NULL) == ((right) == NULL) && ((left) == NULL || *(left) == *(right)))

static bool points_equal(const struct point *left, const struct point *right)
{
    return (left == NULL) == (right == NULL) &&
           (left == NULL || (left->x == right->x && left->y == right->y));
}

static bool strs_equal(const struct evzmq_str *left, size_t left_count,
                       const struct evzmq_str *right, size_t right_count)
{
    bool equal = left_count == right_count;
    for (size_t i = 0; i < left_count && equal; i++) {
        equal = SPANS_EQUAL(left[i], right[i]);
    }
    return equal;
}

static bool shapes_equal(const struct evzmq_union *left, const struct evzmq_union *right)
{
    if (left->record == NULL || right->record == NULL) {
        return left->record == right->record;
    }
    if (left->which != right->which) {
        return false;
    }
    if (left->which == &circle_schema) {
        const struct circle *const a = left->record;
        const struct circle *const b = right->record;
        return SPANS_EQUAL(a->name, b->name) && a->radius == b->radius;
    }
    const struct square *const a = left->record;
    const struct square *const b = right->record;
    return a->side == b->side && a->absent == b->absent;
}

static bool choices_equal(const struct evzmq_choice *left, const struct evzmq_choice *right)
{
    if (left->kind != right->kind) {
        return false;
    }
    switch (left->kind) {
    case EVZMQ_CHOICE_BOOL:
        return left->as.boolean == right->as.boolean;
    case EVZMQ_CHOICE_INTEGER:
        return left->as.integer.bits == right->as.integer.bits &&
               left->as.integer.is_negative == right->as.integer.is_negative;
    case EVZMQ_CHOICE_FLOAT:
        return left->as.real == right->as.real;
    case EVZMQ_CHOICE_STR:
        return SPANS_EQUAL(left->as.str, right->as.str);
    case EVZMQ_CHOICE_BIN:
        return SPANS_EQUAL(left->as.bin, right->as.bin);
    case EVZMQ_CHOICE_STR_ARRAY:
        return strs_equal(left->as.strs.items, left->as.strs.count, right->as.strs.items,
                          right->as.strs.count);
    case EVZMQ_CHOICE_LIST:
    case EVZMQ_CHOICE_MAP:
        return SPANS_EQUAL(left->as.any, right->as.any);
    default:
        return true;
    }
}

static bool scalars_equal(const struct all_kinds *left, const struct all_kinds *right)
{
    return left->boolean == right->boolean && left->int8 == right->int8 &&
           left->int16 == right->int16 && left->int32 == right->int32 &&
           left->int64 == right->int64 && left->uint8 == right->uint8 &&
           left->uint16 == right->uint16 && left->uint32 == right->uint32 &&
           left->uint64 == right->uint64 && left->integer.bits == right->integer.bits &&
           left->integer.is_negative == right->integer.is_negative &&
           left->float32 == right->float32 && left->float64 == right->float64 &&
           POINTERS_EQUAL(left->nilable_bool, right->nilable_bool) &&
           POINTERS_EQUAL(left->nilable_int64, right->nilable_int64) &&
           POINTERS_EQUAL(left->nilable_float32, right->nilable_float32);
}

static bool arrays_equal(const struct all_kinds *left, const struct all_kinds *right)
{
    bool equal = left->points.count == right->points.count;
    for (size_t i = 0; i < left->points.count && equal; i++) {
        equal = points_equal(&left->points.items[i], &right->points.items[i]);
    }
    return equal &&
           strs_equal(left->strs.items, left->strs.count, right->strs.items, right->strs.count) &&
           bytes_equal(left->numbers.items, left->numbers.count, right->numbers.items,
                       right->numbers.count) &&
           bytes_equal(left->nilable_reals.items, left->nilable_reals.count * sizeof(double),
                       right->nilable_reals.items, right->nilable_reals.count * sizeof(double));
}

bool all_kinds_equal(const struct all_kinds *left, const struct all_kinds *right)
{
    return scalars_equal(left, right) && arrays_equal(left, right) &&
           SPANS_EQUAL(left->str, right->str) && SPANS_EQUAL(left->bin, right->bin) &&
           SPANS_EQUAL(left->any, right->any) && SPANS_EQUAL(left->map, right->map) &&
           SPANS_EQUAL(left->str_map, right->str_map) && SPANS_EQUAL(left->list, right->list) &&
           SPANS_EQUAL(left->map_list, right->map_list) &&
           SPANS_EQUAL(left->nilable_str, right->nilable_str) &&
           SPANS_EQUAL(left->nilable_bin, right->nilable_bin) &&
           SPANS_EQUAL(left->nilable_map, right->nilable_map) &&
           points_equal(left->point, right->point) &&
           points_equal(left->nilable_point, right->nilable_point) &&
           shapes_equal(&left->shape, &right->shape) &&
           shapes_equal(&left->nilable_shape, &right->nilable_shape) &&
           choices_equal(&left->choice, &right->choice) &&
           choices_equal(&left->nilable_choice, &right->nilable_choice) &&
           left->absent == right->absent && left->not_on_the_wire == right->not_on_the_wire;
}
