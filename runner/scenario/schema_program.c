// The schema of `program:`. See schema.h.
#include <pthread.h>

#include "runner/scenario/scenario.h"
#include "runner/scenario/schema_rows.h"
#include "runner/steps/step.h"

// One line to a key: easier to read as a table than as clang-format has it.
// clang-format off

// ---- Steps --------------------------------------------------------------------------------------
#define S ls_scenario_step
#define COLLECTIVE_STEP(name_, text_)                                                              \
    {#text_, LS_FIELD_INLINE, .tag = LS_STEP_##name_,                                              \
     .record = &ls_step__collective_records[LS_##name_], .doc = "See " #text_ " below.",           \
     .example = #text_ ": {...}"},
#define STEP(name_, text_)                                                                         \
    {#text_, LS_FIELD_INLINE, .tag = LS_STEP_##name_, .record = &ls_step__##text_.record,          \
     .doc = "See " #text_ " below.", .example = #text_ ": {...}"},
static ls_schema_field step_fields[] = {LS_COLLECTIVE_MAP(COLLECTIVE_STEP) LS_STEP_MAP(STEP)};
static const ls_schema_record step_record = {
    RECORD("step", "One operation: its name and what it takes.", step_fields), .size = sizeof(S),
    .one_of = true, .tag_offset = offsetof(S, kind)};
#undef S

// ---- Tensors ------------------------------------------------------------------------------------
#define S ls_scenario_block
static const ls_schema_field block_fields[] = {
    {"rank", LS_FIELD_INT32, .flags = LS_FIELD_REQUIRED, MEMBER(rank), .min = 0,
     .max = LS_RANKS_MAX - 1, .doc = "The rank that holds it.", .example = "rank: 2"},
    {"offset", LS_FIELD_INTS, .flags = LS_FIELD_REQUIRED, MEMBER(offset), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .doc = "Where it starts, per dimension.",
     .example = "offset: [0, 0]"},
    {"size", LS_FIELD_INTS, .flags = LS_FIELD_REQUIRED, MEMBER(size), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .doc = "Its size, per dimension.", .example = "size: [8, 16]"},
};
static const ls_schema_record block_record = {
    NODE_RECORD("block", "One block of a tensor on one rank.", block_fields)};
#undef S

static const ls_schema_name parts_names[] = {{"first", 0}, {"each", 1}};
#define S ls_scenario_tensor
static const ls_schema_field tensor_fields[] = {
    {"name", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, MEMBER(name),
     .doc = "Unique among the tensors.", .example = "name: a"},
    {"shape", LS_FIELD_SHAPE, .flags = LS_FIELD_REQUIRED, MEMBER(shape), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .doc = "Sizes of the whole.", .example = "shape: [8, 16]"},
    {"dtype", LS_FIELD_ENUM, MEMBER(dtype), .names = &ls_schema__dtypes, .fallback = "f32",
     .doc = "Element type.", .example = "dtype: i64"},
    {"values", LS_FIELD_RECORD, MEMBER(values), .record = &ls_schema__numbers,
     .otherwise = "arange", .doc = "The whole tensor's values.", .example = "values: normal"},
    {"placements", LS_FIELD_PLACEMENTS, MEMBER(placements), AUX(has_placements),
     .otherwise = "blocks",
     .doc = "For each mesh dimension S(dim), R or P(op); _S(dim, split): strided, as DTensor's; "
            "S(dim)[turn]: of those that shard one dim, lower turns cut first.",
     .example = "placements: \"S(0), R\""},
    {"sizes", LS_FIELD_INTS, MEMBER(sizes), .min = 0, .max = LS_SCENARIO_COUNT_MAX,
     .otherwise = "equal chunks, rounded up", .doc = "Sizes of the one S placement's parts.",
     .example = "sizes: [1, 3, 1, 3]"},
    {"blocks", LS_FIELD_RECORDS, MEMBER(blocks), AUX(block_count), .record = &block_record,
     .otherwise = "placements", .doc = "Blocks, one by one; a rank may hold several or none.",
     .example = "blocks: [{rank: 0, offset: [0, 0], size: [8, 16]}]"},
    {"parts", LS_FIELD_ENUM, MEMBER(parts), .names = NAMES(parts_names), .fallback = "first",
     .doc = "For partial placements: the first part has the values and the others have the "
            "operation's identity, or each part has its own values.",
     .example = "parts: each"},
    {"source", LS_FIELD_INT32, MEMBER(source), .min = 0, .max = LS_RANKS_MAX - 1, .fallback = "-1",
     .otherwise = "every rank cuts its own part",
     .doc = "The rank that holds all values and scatters them.", .example = "source: 0"},
};
static const ls_schema_record tensor_record = {
    NODE_RECORD("tensor", "One logical tensor, spread over the ranks.", tensor_fields)};
#undef S

#define S ls_scenario
static const ls_schema_field program_fields[] = {
    {"tensors", LS_FIELD_RECORDS, MEMBER(tensors), AUX(tensor_count), .record = &tensor_record,
     .otherwise = "none", .doc = "The tensors before the first step.",
     .example = "tensors: [{name: a, shape: [8, 16], placements: S(0)}]"},
    {"steps", LS_FIELD_RECORDS, .flags = LS_FIELD_REQUIRED, MEMBER(steps), AUX(step_count),
     .record = &step_record, .doc = "Operations, in order.",
     .example = "steps: [{full: {tensor: a}}]"},
};
const ls_schema_record ls_schema__program = {
    RECORD("program", "Tensors and operations on them.", program_fields)};
#undef S
// clang-format on

static void make(void) {
    ls_schema__make_training();
    ls_step__make_collectives();
    for (int kind = 0; kind < LS_COLLECTIVE_COUNT; kind++) {
        if (!ls_collective_has_data(ls_collective_of((ls_kind)kind))) {
            step_fields[kind].flags = LS_FIELD_BARE;  // no value is needed: the word is enough
            step_fields[kind].example = step_fields[kind].key;
        }
    }
}

void ls_schema__make(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make);
}
