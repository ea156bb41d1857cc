/*
 * test_schema_declaration.c: tables that a program got wrong are refused when the codec is made,
 * with the schema, the field and the reason; and what becomes of members that none names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include <evzmq/records.h>

#include "all_kinds.h"
#include "allocator.h"

struct sample {
    int64_t first;
    struct evzmq_str second;
    const struct sample *nested;
    struct evzmq_choice choice;
    uint64_t absent;
};

/* A good table, whose copies the tests spoil. */
static const struct evzmq_field good_fields[] = {
    EVZMQ_FIELD(INT64, struct sample, first, 0),
    EVZMQ_FIELD(STR, struct sample, second, EVZMQ_REQUIRED),
};
static const struct evzmq_schema good_schema =
    EVZMQ_SCHEMA_ABSENT(struct sample, ARRAY, "sample", good_fields, absent);

static struct evzmq_field fields[2];
static struct evzmq_schema schema;

static int set_up(void **state)
{
    (void)state;
    memcpy(fields, good_fields, sizeof(fields));
    schema = good_schema;
    schema.fields = fields;
    return 0;
}

/* The schema is refused, and the fault names the field (NULL for none). */
static void assert_refused(const struct evzmq_field *field)
{
    struct evzmq_schema_fault fault = {NULL, NULL, NULL};
    errno = 0;
    assert_int_equal(evzmq_schema_check(&schema, &fault), -1);
    assert_int_equal(errno, EINVAL);
    assert_ptr_equal(fault.schema, &schema);
    assert_ptr_equal(fault.field, field);
    assert_non_null(fault.reason);
    errno = 0;
    assert_null(evzmq_schema_codec_new(&schema, NULL));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(set_up(NULL), 0);
}

static void a_good_schema_has_no_fault(void **state)
{
    (void)state;
    assert_int_equal(evzmq_schema_check(&schema, NULL), 0);
    assert_int_equal(evzmq_schema_check(&all_kinds_array_schema, NULL), 0);
    assert_int_equal(evzmq_schema_check(&all_kinds_map_schema, NULL), 0);
    assert_int_equal(evzmq_schema_check(&shape_schema, NULL), 0);
    assert_int_equal(evzmq_schema_check(&evzmq_record_response_schema, NULL), 0);
}

static void no_schema_is_a_fault(void **state)
{
    (void)state;
    struct evzmq_schema_fault fault;
    assert_int_equal(evzmq_schema_check(NULL, &fault), -1);
    assert_null(fault.schema);
    assert_non_null(fault.reason);
    assert_null(evzmq_schema_codec_new(NULL, NULL));
    assert_int_equal(errno, EINVAL);
}

static void a_schema_that_does_not_hold_together_is_refused(void **state)
{
    (void)state;
    schema.size = 1;
    assert_refused(NULL);
    schema.field_size = 1;
    assert_refused(NULL);
    schema.layout = (enum evzmq_layout)9;
    assert_refused(NULL);
    schema.record_size = 0;
    assert_refused(NULL);
    schema.record_size = EVZMQ_RECORD_SIZE_MAX + 1;
    assert_refused(NULL);
    schema.fields = NULL;
    assert_refused(NULL);
    schema.field_count = EVZMQ_FIELDS_MAX + 1;
    assert_refused(NULL);
    schema.layout = EVZMQ_LAYOUT_MAP; /* with a tag */
    assert_refused(NULL);
    schema.tag = NULL;
    schema.layout = EVZMQ_LAYOUT_BARE; /* with two fields */
    assert_refused(NULL);
    schema.absent_offset = sizeof(struct sample);
    assert_refused(NULL);
    schema.absent_offset = 4;
    assert_refused(NULL);
}

static void a_field_that_does_not_fit_its_struct_is_refused(void **state)
{
    (void)state;
    fields[1].name = NULL;
    assert_refused(&fields[1]);
    fields[1].name = fields[0].name;
    assert_refused(&fields[1]);
    fields[1].size = 8;
    assert_refused(&fields[1]);
    fields[1].offset = sizeof(struct sample);
    assert_refused(&fields[1]);
    fields[1].offset = SIZE_MAX - 3;
    assert_refused(&fields[1]);
    fields[1].offset = 12;
    assert_refused(&fields[1]);
    fields[1].offset = 0; /* where the first is */
    assert_refused(&fields[1]);
    fields[1].offset = offsetof(struct sample, absent) - 8;
    assert_refused(&fields[1]);
}

static void a_kind_and_what_it_needs_must_go_together(void **state)
{
    (void)state;
    fields[0].kind = (enum evzmq_kind)0;
    assert_refused(&fields[0]);
    fields[0].kind = (enum evzmq_kind)99;
    assert_refused(&fields[0]);
    fields[0].flags = 8;
    assert_refused(&fields[0]);
    fields[0].flags = EVZMQ_NILABLE; /* its member is no pointer */
    assert_refused(&fields[0]);
    fields[0].kind = EVZMQ_KIND_RECORD; /* without a schema */
    assert_refused(&fields[0]);
    fields[0].kind = EVZMQ_KIND_RECORD;
    fields[0].schema = &shape_schema;
    assert_refused(&fields[0]);
    fields[1].kind = EVZMQ_KIND_UNION;
    fields[1].schema = &point_schema;
    assert_refused(&fields[1]);
    fields[1].kind = EVZMQ_KIND_ARRAY;
    fields[1].element_kind = EVZMQ_KIND_ANY;
    assert_refused(&fields[1]);
    fields[1].kind = EVZMQ_KIND_ARRAY;
    fields[1].element_kind = EVZMQ_KIND_RECORD;
    assert_refused(&fields[1]);
}

static void a_choice_must_be_decidable(void **state)
{
    (void)state;
    static const struct evzmq_choice integer = {EVZMQ_CHOICE_INTEGER, {.boolean = false}};
    static const struct evzmq_field choice =
        EVZMQ_FIELD_CHOICE(struct sample, choice, 0, EVZMQ_CHOICE_BIT(STR), NULL);
    fields[1] = choice;
    assert_int_equal(evzmq_schema_check(&schema, NULL), 0);
    fields[1].alternatives = 0;
    assert_refused(&fields[1]);
    fields[1] = choice;
    fields[1].alternatives |= EVZMQ_CHOICE_BIT(NIL);
    assert_refused(&fields[1]);
    fields[1] = choice;
    fields[1].alternatives |= EVZMQ_CHOICE_BIT(KINDS);
    assert_refused(&fields[1]);
    fields[1] = choice;
    fields[1].alternatives |= EVZMQ_CHOICE_BIT(LIST) | EVZMQ_CHOICE_BIT(STR_ARRAY);
    assert_refused(&fields[1]);
    fields[1] = choice;
    fields[1].default_value = &integer;
    assert_refused(&fields[1]);
}

static void a_schema_that_refers_to_itself_is_refused(void **state)
{
    (void)state;
    static const struct evzmq_field nested =
        EVZMQ_FIELD_RECORD(struct sample, NULL, struct sample, nested, EVZMQ_NILABLE);
    fields[0] = nested;
    fields[0].schema = &schema;
    assert_refused(NULL);
}

static void records_nested_too_deep_are_refused(void **state)
{
    (void)state;
    enum { DEEP = EVZMQ_SCHEMA_NESTING_MAX + 1 };
    static const struct evzmq_field nested =
        EVZMQ_FIELD_RECORD(struct sample, NULL, struct sample, nested, EVZMQ_NILABLE);
    struct evzmq_field links[DEEP];
    struct evzmq_schema chain[DEEP];
    for (size_t i = 0; i < DEEP; i++) {
        links[i] = i + 1 < DEEP ? nested : good_fields[0];
        links[i].schema = i + 1 < DEEP ? &chain[i + 1] : NULL;
        chain[i] = good_schema;
        chain[i].fields = &links[i];
        chain[i].field_count = 1;
    }
    struct evzmq_schema_fault fault;
    assert_int_equal(evzmq_schema_check(&chain[0], &fault), -1);
    assert_ptr_equal(fault.schema, &chain[DEEP - 1]);
    assert_int_equal(evzmq_schema_check(&chain[1], NULL), 0);
}

/* One chain as deep as is allowed with the root, and a way around it that adds one more. */
static void nesting_too_deep_is_refused_in_whatever_order_it_is_found(void **state)
{
    (void)state;
    enum { DEEP = EVZMQ_SCHEMA_NESTING_MAX - 1 };
    struct pair {
        const void *first;
        const void *second;
    };
    struct evzmq_field links[DEEP + 1];
    struct evzmq_schema chain[DEEP + 1];
    for (size_t i = 0; i <= DEEP; i++) {
        links[i] = good_fields[0];
        chain[i] = good_schema;
        chain[i].fields = &links[i];
        chain[i].field_count = 1;
    }
    static const struct evzmq_field nested =
        EVZMQ_FIELD_RECORD(struct sample, NULL, struct sample, nested, EVZMQ_NILABLE);
    for (size_t i = 0; i < DEEP; i++) {
        /* The last of the array is the detour to the first. */
        const size_t from = i == 0 ? DEEP : i - 1;
        links[from] = nested;
        links[from].schema = &chain[i];
    }
    for (size_t detour = 0; detour < 2; detour++) {
        struct evzmq_field both[] = {nested, nested};
        both[0].name = "first";
        both[0].offset = offsetof(struct pair, first);
        both[0].schema = &chain[detour == 0 ? DEEP : 0];
        both[1].name = "second";
        both[1].offset = offsetof(struct pair, second);
        both[1].schema = &chain[detour == 0 ? 0 : DEEP];
        struct evzmq_schema root = good_schema;
        root.record_size = sizeof(struct pair);
        root.absent_offset = EVZMQ_ABSENT_NONE;
        root.fields = both;
        root.field_count = 1;
        assert_int_equal(evzmq_schema_check(&root, NULL), detour == 0 ? -1 : 0);
        root.field_count = 2;
        assert_int_equal(evzmq_schema_check(&root, NULL), -1);
    }
}

static void a_union_needs_tagged_arrays_with_different_tags(void **state)
{
    (void)state;
    const struct evzmq_schema *members[] = {&circle_schema, &schema};
    const struct evzmq_schema good = EVZMQ_SCHEMA_UNION("sample", members);
    struct evzmq_schema spoilt = good;
    assert_int_equal(evzmq_schema_check(&good, NULL), 0);
    schema.tag = circle_schema.tag;
    assert_int_equal(evzmq_schema_check(&good, NULL), -1);
    schema.tag = NULL;
    assert_int_equal(evzmq_schema_check(&good, NULL), -1);
    members[1] = NULL;
    assert_int_equal(evzmq_schema_check(&good, NULL), -1);
    members[1] = &good;
    assert_int_equal(evzmq_schema_check(&good, NULL), -1);
    spoilt.member_count = 0;
    assert_int_equal(evzmq_schema_check(&spoilt, NULL), -1);
    spoilt = good;
    spoilt.members = NULL;
    assert_int_equal(evzmq_schema_check(&spoilt, NULL), -1);
    spoilt.member_count = EVZMQ_SCHEMAS_MAX + 1;
    assert_int_equal(evzmq_schema_check(&spoilt, NULL), -1);
}

static void options_of_another_size_or_depth_are_refused(void **state)
{
    (void)state;
    struct evzmq_schema_options options = {1, 0, 0, 0};
    assert_null(evzmq_schema_codec_new(&good_schema, &options));
    assert_int_equal(errno, EINVAL);
    options.size = sizeof(options);
    options.depth_max = EVZMQ_SCHEMA_DEPTH_MAX + 1;
    assert_null(evzmq_schema_codec_new(&good_schema, &options));
    assert_int_equal(errno, EINVAL);
    options.depth_max = EVZMQ_SCHEMA_DEPTH_MAX;
    struct evzmq_codec *const codec = evzmq_schema_codec_new(&good_schema, &options);
    assert_non_null(codec);
    evzmq_codec_free(codec);
}

static void every_failing_allocation_of_a_codec_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    size_t failures = 0;
    allocator_install();
    for (;; failures++) {
        allocator_fail_at(failures + 1);
        struct evzmq_codec *const codec = evzmq_schema_codec_new(&all_kinds_array_schema, NULL);
        if (codec != NULL) {
            evzmq_codec_free(codec);
            break;
        }
        assert_int_equal(errno, ENOMEM);
        assert_int_equal(allocator_get_counts().blocks, 0);
    }
    assert_true(failures > 10);
    allocator_fail_at(1);
    assert_int_equal(evzmq_schema_check(&shape_schema, NULL), -1);
    assert_int_equal(errno, ENOMEM);
    allocator_fail_at(0);
    assert_int_equal(allocator_get_counts().blocks, 0);
    allocator_remove();
}

/* More than the tables name. */
struct roomy {
    uint32_t before;
    int64_t value;
    uint32_t between;
    struct evzmq_str text;
    uint64_t after[2];
};

static const struct evzmq_field roomy_fields[] = {
    EVZMQ_FIELD(INT64, struct roomy, value, 0),
    EVZMQ_FIELD(STR, struct roomy, text, 0),
};
static const struct evzmq_field roomy_field[] = {
    EVZMQ_FIELD(INT64, struct roomy, value, 0),
};
static const struct evzmq_schema roomy_array =
    EVZMQ_SCHEMA(struct roomy, ARRAY, NULL, roomy_fields);
static const struct evzmq_schema roomy_map = EVZMQ_SCHEMA(struct roomy, MAP, NULL, roomy_fields);
static const struct evzmq_schema roomy_bare = EVZMQ_SCHEMA(struct roomy, BARE, NULL, roomy_field);

static void members_that_no_field_names_are_zero(void **state)
{
    (void)state;
    static const struct {
        const struct evzmq_schema *schema;
        const char *bytes;
        size_t size;
    } rows[] = {
        {&roomy_array, "\x92\x07\xa1x", 4},
        {&roomy_array, "\x91\x07", 2},
        {&roomy_map, "\x82\xa5value\x07\xa4text\xa1x", 15},
        {&roomy_bare, "\x07", 1},
    };
    struct evzmq_arena *const arena = evzmq_arena_new();
    assert_non_null(arena);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct evzmq_codec *const codec = evzmq_schema_codec_new(rows[i].schema, NULL);
        assert_non_null(codec);
        void *const used_before = evzmq_arena_alloc(arena, 1024);
        assert_non_null(used_before);
        memset(used_before, 0xff, 1024);
        evzmq_arena_reset(arena);
        const void *value = NULL;
        assert_int_equal(
            evzmq_codec_decode(codec, rows[i].bytes, rows[i].size, arena, &value, NULL), 0);
        const struct roomy *const roomy = value;
        assert_int_equal(roomy->value, 7);
        assert_int_equal(roomy->before, 0);
        assert_int_equal(roomy->between, 0);
        assert_int_equal(roomy->after[0], 0);
        assert_int_equal(roomy->after[1], 0);
        if (rows[i].schema == &roomy_bare) {
            assert_null(roomy->text.data);
            assert_int_equal(roomy->text.size, 0);
        }
        evzmq_arena_reset(arena);
        evzmq_codec_free(codec);
    }
    evzmq_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_good_schema_has_no_fault, set_up),
        cmocka_unit_test_setup(no_schema_is_a_fault, set_up),
        cmocka_unit_test_setup(a_schema_that_does_not_hold_together_is_refused, set_up),
        cmocka_unit_test_setup(a_field_that_does_not_fit_its_struct_is_refused, set_up),
        cmocka_unit_test_setup(a_kind_and_what_it_needs_must_go_together, set_up),
        cmocka_unit_test_setup(a_choice_must_be_decidable, set_up),
        cmocka_unit_test_setup(a_schema_that_refers_to_itself_is_refused, set_up),
        cmocka_unit_test_setup(records_nested_too_deep_are_refused, set_up),
        cmocka_unit_test_setup(nesting_too_deep_is_refused_in_whatever_order_it_is_found, set_up),
        cmocka_unit_test_setup(a_union_needs_tagged_arrays_with_different_tags, set_up),
        cmocka_unit_test_setup(options_of_another_size_or_depth_are_refused, set_up),
        cmocka_unit_test_setup(every_failing_allocation_of_a_codec_is_reported_and_leaks_nothing,
                               set_up),
        cmocka_unit_test(members_that_no_field_names_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
