// The schema of the features' inputs. See schema.h; the members are in scenario.h.
#include "runner/scenario/schema_rows.h"

#include "runner/scenario/scenario.h"

#define INT_MAX_IDS (INT64_C(1) << 53)

static const ls_schema_name policy_names[] = {
    {"error", LS_ID_ERROR}, {"clamp", LS_ID_CLAMP}, {"wrap", LS_ID_WRAP}};

// One line to a key: easier to read as a table than as clang-format has it.
// clang-format off

// ---- Generators ---------------------------------------------------------------------------------
#define S ls_generator
static const ls_schema_field length_fields[] = {
    {"uniform", LS_FIELD_RANGE, .flags = LS_FIELD_INTEGERS, .tag = LS_GENERATOR_UNIFORM, MEMBER(a),
     AUX(b), .min = 0, .max = LS_SCENARIO_LENGTH_MAX,
     .doc = "Uniform from the first to the second, both included.", .example = "uniform: [0, 5]"},
    {"constant", LS_FIELD_REAL, .flags = LS_FIELD_INTEGERS, .tag = LS_GENERATOR_CONSTANT, MEMBER(a),
     .min = 0, .max = LS_SCENARIO_LENGTH_MAX, .doc = "The same for every bag.",
     .example = "constant: 1"},
    {"values", LS_FIELD_VALUES, .flags = LS_FIELD_INTEGERS, .tag = LS_GENERATOR_VALUES,
     MEMBER(ints), .min = 0, .max = LS_SCENARIO_LENGTH_MAX,
     .doc = "The lengths themselves: one list per rank, or one list in rank order.",
     .example = "values: [[3, 1], [2, 2]]"},
    LS_SCHEMA_FILE_FIELDS,
};
static const ls_schema_record length_record = {
    NODE_RECORD("lengths", "How many ids each bag of a feature has.", length_fields),
    .one_of = true, .tag_offset = offsetof(S, kind)};

static const ls_schema_field id_fields[] = {
    {"uniform", LS_FIELD_RANGE, .flags = LS_FIELD_INTEGERS | LS_FIELD_BARE,
     .tag = LS_GENERATOR_UNIFORM, MEMBER(a), AUX(b), .min = -INT_MAX_IDS, .max = INT_MAX_IDS,
     .doc = "Uniform from the first to the second, both included. The word alone: over all rows.",
     .example = "uniform: [0, 99]"},
    {"zipf", LS_FIELD_REAL, .tag = LS_GENERATOR_ZIPF, MEMBER(a), .min = 0, .max = 64,
     .doc = "Zipf: id k is drawn with probability proportional to 1 / (k + 1)^s.",
     .example = "zipf: 1.05"},
    {"reuse", LS_FIELD_FLAG, .flags = LS_FIELD_BARE, .tag = LS_GENERATOR_REUSE,
     .doc = "Rows are used as often as in production: most of them once in a step's batch, while "
            "most ids go to rows that are used hundreds of times.",
     .example = "reuse"},
    {"constant", LS_FIELD_REAL, .flags = LS_FIELD_INTEGERS, .tag = LS_GENERATOR_CONSTANT, MEMBER(a),
     .min = -INT_MAX_IDS, .max = INT_MAX_IDS, .doc = "The same id everywhere.",
     .example = "constant: 0"},
    {"values", LS_FIELD_VALUES, .flags = LS_FIELD_INTEGERS, .tag = LS_GENERATOR_VALUES,
     MEMBER(ints), .min = INT64_MIN, .max = INT64_MAX,
     .doc = "The ids themselves: one list per rank, or one list in rank order.",
     .example = "values: [[1, 2, 1, 5], [2, 3, 4, 1]]"},
    LS_SCHEMA_FILE_FIELDS,
};
static const ls_schema_record id_record = {
    NODE_RECORD("ids", "Which rows a feature looks up.", id_fields), .one_of = true,
    .tag_offset = offsetof(S, kind)};
#undef S

#define S ls_generator
static const ls_schema_field inverse_fields[] = {
    {"uniform", LS_FIELD_FLAG, .flags = LS_FIELD_BARE, .tag = LS_GENERATOR_UNIFORM,
     .doc = "Each sample takes any of the rank's bags.", .example = "uniform"},
    {"values", LS_FIELD_VALUES, .flags = LS_FIELD_INTEGERS, .tag = LS_GENERATOR_VALUES,
     MEMBER(ints), .min = 0, .max = LS_SCENARIO_BATCH_MAX,
     .doc = "The indices themselves, one for each sample: one list per rank, or one list in rank "
            "order.",
     .example = "values: [[0, 1, 0], [0, 0, 0]]"},
    LS_SCHEMA_FILE_FIELDS,
};
static const ls_schema_record inverse_record = {
    NODE_RECORD("inverse_indices", "Which bag of a feature each sample takes.", inverse_fields),
    .one_of = true, .tag_offset = offsetof(S, kind)};
#undef S

// ---- Features -----------------------------------------------------------------------------------
#define S ls_scenario_feature
static const ls_schema_field feature_fields[] = {
    {"stride_per_rank", LS_FIELD_INTS, .flags = LS_FIELD_SINGLE, MEMBER(strides), .min = 0,
     .max = LS_SCENARIO_BATCH_MAX, .otherwise = "the batch",
     .doc = "Bags of this feature, of which the samples take theirs by inverse_indices (a batch "
            "size per feature: TorchRec's stride_per_key_per_rank); a list: each rank's own.",
     .example = "stride_per_rank: 3"},
    {"inverse_indices", LS_FIELD_RECORD, MEMBER(inverse_indices), .record = &inverse_record,
     .otherwise = "uniform; without stride_per_rank sample b takes bag b",
     .doc = "The bag of each sample.",
     .example = "inverse_indices: {values: [[0, 1, 0], [0, 0, 0]]}"},
    {"lengths", LS_FIELD_RECORD, MEMBER(lengths), .record = &length_record,
     .otherwise = "1 id in each bag", .doc = "How many ids each bag has.",
     .example = "lengths: {uniform: [0, 5]}"},
    {"ids", LS_FIELD_RECORD, MEMBER(ids), .record = &id_record,
     .otherwise = "uniform over the table's rows",
     .doc = "Which rows are looked up; a feature of several tables is drawn over the smallest's.",
     .example = "ids: {zipf: 1.05}"},
    {"weights", LS_FIELD_RECORD, MEMBER(weights), .record = &ls_schema__numbers,
     .otherwise = "uniform from 0 to 1, where they count", .doc = "A factor for each id.",
     .example = "weights: {uniform: [0, 1]}"},
};
static const ls_schema_record feature_record = {
    NODE_RECORD("feature", "The lookups of one feature.", feature_fields),
    .name_offset = offsetof(S, name)};
#undef S

#define S ls_scenario_inputs
static const ls_schema_field input_fields[] = {
    {"batch", LS_FIELD_INTS, .flags = LS_FIELD_SINGLE | LS_FIELD_REQUIRED | LS_FIELD_SOME,
     MEMBER(batch), .min = 0, .max = LS_SCENARIO_BATCH_MAX,
     .doc = "Samples per rank; a list gives each rank its own.", .example = "batch: 8"},
    {"weighted", LS_FIELD_BOOL, MEMBER(weighted), .fallback = "false",
     .doc = "Whether every id has a factor, where a table does not say otherwise.",
     .example = "weighted: true"},
    {"ids_out_of_range", LS_FIELD_ENUM, MEMBER(ids_out_of_range), .names = NAMES(policy_names),
     .fallback = "error",
     .doc = "The treatment of an id outside of the table: an error, the nearest row, or modulo "
            "rows.",
     .example = "ids_out_of_range: wrap"},
    {"features", LS_FIELD_RECORD_MAP, MEMBER(features), AUX(feature_count),
     .record = &feature_record, .otherwise = "every feature with its defaults",
     .doc = "Inputs by the name of the feature.",
     .example = "features: {user: {ids: {zipf: 1.05}}}"},
};
const ls_schema_record ls_schema__inputs = {
    NODE_RECORD("inputs", "The lookups of the features on every rank.", input_fields)};
#undef S
// clang-format on
