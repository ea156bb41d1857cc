/*
 * schema.c: from the tables of a program to the state of a codec. Each schema is checked
 * (schema_check.c), then compiled into a struct evzmq__program; what it refers to comes first, so
 * that a program never points to a half-built one and a schema that refers to itself is noticed.
 */
#include "schema.h"

#include <errno.h>

#include <evzmq/message.h>

#include "base.h"
#include "codec.h"

/* A schema on its way to a state. */
struct builder {
    struct evzmq__schema_state *state;
    bool is_open[EVZMQ_SCHEMAS_MAX]; /* the program at that place is not complete yet */
    struct evzmq_schema_fault fault;
};

static bool compile_inner(struct builder *builder, struct evzmq__program *outer,
                          const struct evzmq_schema *schema, size_t nesting,
                          const struct evzmq__program **out);

/* Puts the default of a field into the image of its record. */
static void fill_default(struct evzmq__program *program, const struct evzmq_field *field)
{
    static const uint64_t nothing[1] = {0};
    unsigned char *const member = program->image + field->offset;
    const bool is_nilable = (field->flags & EVZMQ_NILABLE) != 0;
    if (field->default_value != NULL) {
        memcpy(member, field->default_value, field->size);
    } else if (evzmq__kind_is_span(field->kind) && !is_nilable) {
        const struct evzmq_any any = evzmq__span_default(field->kind);
        memcpy(member, &any, sizeof(any));
    } else if (!is_nilable && (field->kind == EVZMQ_KIND_STR || field->kind == EVZMQ_KIND_BIN ||
                               field->kind == EVZMQ_KIND_ARRAY)) {
        /* All three begin with the pointer, which only nil leaves NULL. */
        const void *const empty = nothing;
        memcpy(member, &empty, sizeof(empty));
    }
}

static enum evzmq__field_path choose_path(const struct evzmq_field *field)
{
    switch (field->kind) {
    case EVZMQ_KIND_STR:
        return EVZMQ__PATH_STR;
    case EVZMQ_KIND_CHOICE:
        return (field->alternatives & EVZMQ_CHOICE_BIT(STR)) != 0 ? EVZMQ__PATH_CHOICE
                                                                  : EVZMQ__PATH_OTHER;
    case EVZMQ_KIND_MAP:
        return EVZMQ__PATH_MAP;
    case EVZMQ_KIND_STR_MAP:
        return EVZMQ__PATH_STR_MAP;
    case EVZMQ_KIND_ANY:
    case EVZMQ_KIND_LIST:
    case EVZMQ_KIND_MAP_LIST:
        return EVZMQ__PATH_SPAN;
    case EVZMQ_KIND_RECORD:
        return EVZMQ__PATH_RECORD;
    case EVZMQ_KIND_FLOAT64:
        return (field->flags & EVZMQ_NILABLE) == 0 ? EVZMQ__PATH_FLOAT64 : EVZMQ__PATH_OTHER;
    case EVZMQ_KIND_INTEGER:
        return (field->flags & EVZMQ_NILABLE) == 0 ? EVZMQ__PATH_INTEGER : EVZMQ__PATH_OTHER;
    default:
        return EVZMQ__PATH_OTHER;
    }
}

static struct evzmq__field_step make_step(const struct evzmq_field *field)
{
    const size_t str_offset =
        field->kind == EVZMQ_KIND_CHOICE ? offsetof(struct evzmq_choice, as) : 0;
    return (struct evzmq__field_step){
        .path = (uint8_t)choose_path(field),
        .is_nilable = (field->flags & EVZMQ_NILABLE) != 0,
        .size = (uint8_t)field->size,
        .offset = (uint16_t)field->offset,
        .str_offset = (uint16_t)(field->offset + str_offset),
    };
}

static bool compile_field(struct builder *builder, struct evzmq__program *program, size_t index,
                          size_t nesting)
{
    const struct evzmq_field *const field = &program->schema->fields[index];
    struct evzmq__field_op *const op = &program->ops[index];
    const bool has_schema =
        field->kind == EVZMQ_KIND_RECORD || field->kind == EVZMQ_KIND_UNION ||
        (field->kind == EVZMQ_KIND_ARRAY && field->element_kind == EVZMQ_KIND_RECORD);
    if (has_schema && !compile_inner(builder, program, field->schema, nesting + 1, &op->program)) {
        return false;
    }
    program->steps[index] = make_step(field);
    if (field->kind == EVZMQ_KIND_RECORD) {
        program->steps[index].as.program = op->program;
    } else {
        program->steps[index].as.op = op;
    }
    op->kind = (uint8_t)field->kind;
    op->element_kind = (uint8_t)field->element_kind;
    op->flags = (uint8_t)field->flags;
    op->offset = (uint32_t)field->offset;
    op->size = (uint32_t)field->size;
    op->alternatives = field->alternatives;
    op->name = field->name;
    op->name_size = (uint32_t)strlen(field->name);
    op->count_max = field->count_max == 0 ? EVZMQ_ARRAY_COUNT_DEFAULT : field->count_max;
    if (field->kind == EVZMQ_KIND_CHOICE) {
        op->element_kind = EVZMQ_KIND_STR;
    }
    op->element_size = op->element_kind == EVZMQ_KIND_RECORD && op->program != NULL
                           ? (uint32_t)op->program->record_size
                           : (uint32_t)evzmq__kind_size(op->element_kind);
    if ((field->flags & EVZMQ_REQUIRED) != 0) {
        program->required |= UINT64_C(1) << index;
        program->required_count = (uint32_t)index + 1;
    }
    fill_default(program, field);
    return true;
}

/* What an array with all its fields begins with. */
static void compile_prefix(struct evzmq__program *program)
{
    const size_t count = program->op_count + (program->tag != NULL ? 1u : 0u);
    program->prefix_size = evzmq__wire_count_head_size(count) + program->tag_wire_size;
    if (program->layout != EVZMQ_LAYOUT_ARRAY || program->prefix_size > EVZMQ__PREFIX_WINDOW) {
        return;
    }
    unsigned char *const tag = evzmq__wire_put_array_head(program->prefix, count);
    if (program->tag != NULL) {
        memcpy(tag, program->tag_wire, program->tag_wire_size);
    }
    program->prefix_mask = UINT32_MAX >> (EVZMQ__PREFIX_WINDOW - program->prefix_size);
    program->usual_size_min = program->prefix_size + program->op_count;
    program->window_size_min = program->usual_size_min > EVZMQ__PREFIX_WINDOW
                                   ? program->usual_size_min
                                   : EVZMQ__PREFIX_WINDOW;
}

static bool compile_record(struct builder *builder, struct evzmq__program *program, size_t nesting)
{
    const struct evzmq_schema *const schema = program->schema;
    program->record_size = schema->record_size;
    program->record_cut = evzmq__arena_round(schema->record_size);
    program->absent_offset = schema->absent_offset;
    program->op_count = (uint32_t)schema->field_count;
    program->image = evzmq__calloc(1, schema->record_size);
    program->ops = evzmq__calloc(schema->field_count, sizeof(*program->ops));
    if (program->image == NULL || (program->ops == NULL && schema->field_count != 0)) {
        return false;
    }
    if (schema->tag != NULL) {
        program->tag = schema->tag;
        program->tag_size = strlen(schema->tag);
        program->tag_wire_size = evzmq__wire_str_head_size(program->tag_size) + program->tag_size;
        program->tag_wire = evzmq__malloc(program->tag_wire_size);
        if (program->tag_wire == NULL) {
            return false;
        }
        memcpy(evzmq__wire_put_str_head(program->tag_wire, program->tag_size), schema->tag,
               program->tag_size);
    }
    compile_prefix(program);
    size_t covered = schema->absent_offset == EVZMQ_ABSENT_NONE ? 0 : sizeof(uint64_t);
    for (size_t i = 0; i < schema->field_count; i++) {
        if (!compile_field(builder, program, i, nesting)) {
            return false;
        }
        covered += schema->fields[i].size;
    }
    program->steps[schema->field_count].path = EVZMQ__PATH_END;
    program->is_covered = covered == schema->record_size;
    program->whole_size_min = program->is_covered ? program->window_size_min : SIZE_MAX;
    return true;
}

static bool compile_union(struct builder *builder, struct evzmq__program *program, size_t nesting)
{
    const struct evzmq_schema *const schema = program->schema;
    program->record_size = sizeof(struct evzmq_union);
    program->member_count = schema->member_count;
    program->members = evzmq__calloc(schema->member_count, sizeof(struct evzmq__program *));
    if (program->members == NULL) {
        return false;
    }
    for (size_t i = 0; i < schema->member_count; i++) {
        if (!compile_inner(builder, program, schema->members[i], nesting + 1,
                           &program->members[i])) {
            return false;
        }
    }
    return true;
}

static bool compile(struct builder *builder, const struct evzmq_schema *schema, size_t nesting,
                    const struct evzmq__program **out);

/* A schema that was met before: it may still be open, and lie deeper here than it did there. */
static bool check_again(struct builder *builder, size_t index, size_t nesting)
{
    const struct evzmq__program *const program = builder->state->programs[index];
    if (builder->is_open[index]) {
        return evzmq__schema_fault(&builder->fault, program->schema, NULL,
                                   "the schema refers to itself");
    }
    if (nesting + program->nesting - 1 > EVZMQ_SCHEMA_NESTING_MAX) {
        return evzmq__schema_fault(&builder->fault, program->schema, NULL,
                                   "records are nested too deep");
    }
    return true;
}

/* Compiles a schema that `outer` refers to. */
static bool compile_inner(struct builder *builder, struct evzmq__program *outer,
                          const struct evzmq_schema *schema, size_t nesting,
                          const struct evzmq__program **out)
{
    if (!compile(builder, schema, nesting, out)) {
        return false;
    }
    if (outer->nesting <= (*out)->nesting) {
        outer->nesting = (*out)->nesting + 1;
    }
    return true;
}

/* Compiles a schema unless that was done before. */
static bool compile(struct builder *builder, const struct evzmq_schema *schema, size_t nesting,
                    const struct evzmq__program **out)
{
    struct evzmq__schema_state *const state = builder->state;
    for (size_t i = 0; i < state->program_count; i++) {
        if (state->programs[i]->schema == schema) {
            *out = state->programs[i];
            return check_again(builder, i, nesting);
        }
    }
    if (!evzmq__schema_check_one(&builder->fault, schema, nesting)) {
        return false;
    }
    if (state->program_count == EVZMQ_SCHEMAS_MAX) {
        return evzmq__schema_fault(&builder->fault, schema, NULL, "too many schemas");
    }
    const size_t step_count = schema->layout == EVZMQ_LAYOUT_UNION ? 0 : schema->field_count + 1;
    struct evzmq__program *const program =
        evzmq__calloc(1, sizeof(*program) + step_count * sizeof(program->steps[0]));
    if (program == NULL) {
        return false;
    }
    const size_t index = state->program_count++;
    state->programs[index] = program;
    builder->is_open[index] = true;
    program->schema = schema;
    program->layout = schema->layout;
    program->nesting = 1;
    program->usual_size_min = SIZE_MAX;
    program->window_size_min = SIZE_MAX;
    program->whole_size_min = SIZE_MAX;
    if (!(schema->layout == EVZMQ_LAYOUT_UNION ? compile_union(builder, program, nesting)
                                               : compile_record(builder, program, nesting))) {
        return false;
    }
    builder->is_open[index] = false;
    *out = program;
    return true;
}

static void destroy_state(void *argument)
{
    struct evzmq__schema_state *const state = argument;
    for (size_t i = 0; i < state->program_count; i++) {
        struct evzmq__program *const program = state->programs[i];
        evzmq__free(program->ops);
        evzmq__free(program->image);
        evzmq__free(program->tag_wire);
        evzmq__free(program->members);
        evzmq__free(program);
    }
    evzmq__free(state);
}

/* Compiles a schema into a new state. NULL with errno, and *out_fault set if that is EINVAL. */
static struct evzmq__schema_state *build_state(const struct evzmq_schema *schema,
                                               struct evzmq_schema_fault *out_fault)
{
    struct builder builder = {.state = evzmq__calloc(1, sizeof(*builder.state))};
    if (builder.state == NULL) {
        return NULL;
    }
    if (!compile(&builder, schema, 1, &builder.state->root)) {
        destroy_state(builder.state);
        *out_fault = builder.fault;
        return NULL;
    }
    return builder.state;
}

int evzmq_schema_check(const struct evzmq_schema *schema, struct evzmq_schema_fault *out_fault)
{
    struct evzmq_schema_fault found = {NULL, NULL, NULL};
    struct evzmq__schema_state *const state = build_state(schema, &found);
    if (state != NULL) {
        destroy_state(state);
        return 0;
    }
    if (errno == EINVAL && out_fault != NULL) {
        *out_fault = found;
    }
    return -1;
}

static const struct evzmq_codec_methods methods = {
    .size = sizeof(struct evzmq_codec_methods),
    .name = "record",
    .decode = evzmq__schema_decode,
    .encoded_size = evzmq__schema_encoded_size,
    .encode = evzmq__schema_encode,
    .destroy = destroy_state,
    .decode_prefix = evzmq__schema_decode_prefix,
};

struct evzmq_codec *evzmq_schema_codec_new(const struct evzmq_schema *schema,
                                           const struct evzmq_schema_options *options)
{
    if (options != NULL && (options->size != sizeof(struct evzmq_schema_options) ||
                            options->depth_max > EVZMQ_SCHEMA_DEPTH_MAX)) {
        errno = EINVAL;
        return NULL;
    }
    struct evzmq_schema_fault ignored;
    struct evzmq__schema_state *const state = build_state(schema, &ignored);
    if (state == NULL) {
        return NULL;
    }
    state->rules.depth_max = EVZMQ_SCHEMA_DEPTH_DEFAULT;
    state->memory_max = EVZMQ_SCHEMA_MEMORY_DEFAULT;
    state->rules.validate_utf8 = true;
    if (options != NULL) {
        state->rules.depth_max =
            options->depth_max != 0 ? options->depth_max : state->rules.depth_max;
        state->memory_max = options->memory_max != 0 ? options->memory_max : state->memory_max;
        state->rules.validate_utf8 = options->skip_utf8 == 0;
    }
    for (size_t i = 0; i < state->program_count; i++) {
        if (state->programs[i]->layout != EVZMQ_LAYOUT_UNION) {
            evzmq__link_steps(state->programs[i], state->rules.validate_utf8,
                              state->programs[i] == state->root);
        }
    }
    const struct evzmq__program *const root = state->root;
    const bool is_usual = root->is_covered && root->record_cut <= state->memory_max;
    state->memory_left = is_usual ? state->memory_max - root->record_cut : 0;
    state->window_size_min = is_usual ? root->window_size_min : SIZE_MAX;
    struct evzmq_codec *const codec = evzmq_codec_new(&methods, state);
    if (codec == NULL) {
        destroy_state(state);
        return NULL;
    }
    codec->decode_whole = evzmq__schema_decode_whole;
    return codec;
}

const void *evzmq_record_value(const struct evzmq_message *message,
                               const struct evzmq_schema **out_which)
{
    const struct evzmq_codec *const codec = evzmq_message_get_codec(message);
    const void *const value = evzmq_message_get_value(message);
    if (value == NULL || evzmq_codec_get_methods(codec) != &methods) {
        return NULL;
    }
    const struct evzmq__schema_state *const state = evzmq_codec_get_state(codec);
    const struct evzmq_schema *which = state->root->schema;
    const void *record = value;
    if (which->layout == EVZMQ_LAYOUT_UNION) {
        const struct evzmq_union *const chosen = value;
        which = chosen->which;
        record = chosen->record;
    }
    if (out_which != NULL) {
        *out_which = which;
    }
    return record;
}
