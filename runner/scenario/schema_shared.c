// Parts of the schema that several tables use: names of types, generators of numbers, exceptions.
#include <pthread.h>

#include "runner/scenario/scenario.h"
#include "runner/scenario/schema_rows.h"
#include "runner/steps/step.h"

#define DTYPE_NAME(name, value, text, ...) {#text, LS_##name},
static const ls_schema_name dtype_names[] = {LS_DTYPE_MAP(DTYPE_NAME)};
const ls_schema_names ls_schema__dtypes = {dtype_names, COUNT(dtype_names)};

#define OP_NAME(name, value, text) {text, name},

static const ls_schema_name op_names[] = {LS_OP_MAP(OP_NAME)};

const ls_schema_names ls_schema__ops = {op_names, COUNT(op_names)};

#define KIND_NAME(name, text) {#text, LS_##name},

static const ls_schema_name poke_names[] = {{"nan", 1}, {"inf", 2}};

static const ls_schema_name kind_names[] = {LS_KIND_MAP(KIND_NAME)};

// One line to a key: easier to read as a table than as clang-format has it.
// clang-format off

#define S ls_scenario_except
static const ls_schema_field except_fields[] = {
    {"ranks", LS_FIELD_INTS, .flags = LS_FIELD_REQUIRED | LS_FIELD_SINGLE | LS_FIELD_SOME,
     MEMBER(ranks), .min = 0, .max = LS_RANKS_MAX - 1, .doc = "Which ranks.",
     .example = "ranks: [2]"},
    {"skip", LS_FIELD_BOOL, MEMBER(skip), .fallback = "false", .doc = "They make no call.",
     .example = "skip: true"},
    {"repeat", LS_FIELD_BOOL, MEMBER(repeat), .fallback = "false",
     .doc = "They make the call twice.", .example = "repeat: true"},
    {"call", LS_FIELD_ENUM, MEMBER(kind), .names = NAMES(kind_names), .otherwise = "the same",
     .doc = "They call another collective.", .example = "call: all_gather"},
    {"count", LS_FIELD_INT, MEMBER(count), .min = 0, .max = LS_SCENARIO_COUNT_MAX,
     .otherwise = "the same", .doc = "Their count.", .example = "count: 1023"},
    {"dtype", LS_FIELD_ENUM, MEMBER(dtype), .names = &ls_schema__dtypes, .otherwise = "the same",
     .doc = "Their element type.", .example = "dtype: f16"},
    {"op", LS_FIELD_ENUM, MEMBER(op), .names = NAMES(op_names), .otherwise = "the same",
     .doc = "Their reduction.", .example = "op: max"},
    {"root", LS_FIELD_INT32, MEMBER(root), .min = 0, .max = LS_RANKS_MAX - 1,
     .otherwise = "the same", .doc = "Their root.", .example = "root: 1"},
    {"counts", LS_FIELD_INTS, MEMBER(counts), .min = 0, .max = LS_SCENARIO_COUNT_MAX,
     .otherwise = "the same",
     .doc = "Their counts. For all_to_all: the number of elements sent to each member.",
     .example = "counts: [1, 2, 3]"},
    {"exit", LS_FIELD_BOOL, MEMBER(exit), .fallback = "false", .doc = "Their program ends here.",
     .example = "exit: true"},
    {"swap", LS_FIELD_BOOL, MEMBER(swap), .fallback = "false",
     .doc = "They make the next step first, then this one.", .example = "swap: true"},
    {"reverse", LS_FIELD_BOOL, MEMBER(reverse), .fallback = "false",
     .doc = "send_recv: they post their messages in the opposite order.",
     .example = "reverse: true"},
    {"group", LS_FIELD_INTS, .flags = LS_FIELD_SOME, MEMBER(group), .min = 0,
     .max = LS_RANKS_MAX - 1, .otherwise = "the same",
     .doc = "The group as they name it, where the step gives ranks.", .example = "group: [0, 2]"},
    {"room", LS_FIELD_INT, MEMBER(room), .min = 1, .max = LS_SCENARIO_COUNT_MAX,
     .otherwise = "the size that the call needs", .doc = "Elements that their buffers have.",
     .example = "room: 8"},
    {"unwritten", LS_FIELD_BOOL, MEMBER(unwritten), .fallback = "false",
     .doc = "The last element that they send is never written.", .example = "unwritten: true"},
    {"overlap", LS_FIELD_INT, MEMBER(overlap), .min = 1, .max = LS_SCENARIO_COUNT_MAX,
     .otherwise = "apart",
     .doc = "Send and receive share one buffer, in which the result starts this many elements "
            "after the sent data.",
     .example = "overlap: 2"},
    {"poke", LS_FIELD_ENUM, MEMBER(poke), .names = NAMES(poke_names), .otherwise = "none",
     .doc = "The first element that they send.", .example = "poke: nan"},
};

const ls_schema_record ls_schema__except = {
    NODE_RECORD("except", "Differences of some ranks from this step.", except_fields),
    .partial = true};
#undef S

#define S ls_generator
#define INT_MAX_IDS (INT64_C(1) << 53)

static const ls_schema_field normal_fields[] = {
    {"std", LS_FIELD_REAL, MEMBER(b), .min = 0, .max = 1000000, .fallback = "1",
     .doc = "Standard deviation.", .example = "std: 0.1"},
    {"mean", LS_FIELD_REAL, MEMBER(a), .min = -1000000, .max = 1000000, .fallback = "0",
     .doc = "Mean.", .example = "mean: 0"},
};

static const ls_schema_record normal_record = {
    RECORD("normal", "Normally distributed numbers.", normal_fields)};

static const ls_schema_field arange_fields[] = {
    {"start", LS_FIELD_REAL, MEMBER(a), .min = -INT_MAX_IDS, .max = INT_MAX_IDS, .fallback = "0",
     .doc = "The first number.", .example = "start: 0"},
    {"step", LS_FIELD_REAL, MEMBER(b), .min = -INT_MAX_IDS, .max = INT_MAX_IDS, .fallback = "1",
     .doc = "The step from each number to the next.", .example = "step: 1"},
};

static const ls_schema_record arange_record = {
    RECORD("arange", "Numbers that count up, in row-major order.", arange_fields)};

static const ls_schema_field number_fields[] = {
    {"normal", LS_FIELD_INLINE, .flags = LS_FIELD_BARE, .tag = LS_GENERATOR_NORMAL,
     .record = &normal_record, .doc = "Normally distributed.", .example = "normal: {std: 0.1}"},
    {"uniform", LS_FIELD_RANGE, .flags = LS_FIELD_BARE, .tag = LS_GENERATOR_UNIFORM, MEMBER(a),
     AUX(b), .min = -INT_MAX_IDS, .max = INT_MAX_IDS,
     .doc = "Uniform from the first number up to, not including, the second. The word alone: for "
            "tables from -1/sqrt(rows) to 1/sqrt(rows), else from 0 to 1.",
     .example = "uniform: [-0.5, 0.5]"},
    {"arange", LS_FIELD_INLINE, .flags = LS_FIELD_BARE, .tag = LS_GENERATOR_ARANGE,
     .record = &arange_record, .doc = "Counts up in row-major order.",
     .example = "arange: {start: 0, step: 1}"},
    {"constant", LS_FIELD_REAL, .tag = LS_GENERATOR_CONSTANT, MEMBER(a), .min = -INT_MAX_IDS,
     .max = INT_MAX_IDS, .doc = "The same number everywhere.", .example = "constant: 1"},
    {"exact", LS_FIELD_FLAG, .flags = LS_FIELD_BARE, .tag = LS_GENERATOR_EXACT,
     .doc = "Multiples of 1/8 from -1 to 1 (integers: whole numbers). A sum of up to 2^21 of them "
            "in f32, 256 in f16 or 32 in bf16 is exact in any order.",
     .example = "exact"},
    {"splitmix", LS_FIELD_FLAG, .flags = LS_FIELD_BARE, .tag = LS_GENERATOR_SPLITMIX,
     .doc = "SplitMix64 of seed, rank and index: of many magnitudes, so that a sum shows its order "
            "(integers: from 0 to 999).",
     .example = "splitmix"},
    {"values", LS_FIELD_VALUES, .tag = LS_GENERATOR_VALUES, MEMBER(reals), .min = INT64_MIN,
     .max = INT64_MAX, .doc = "The numbers themselves, in row-major order.",
     .example = "values: [[1, 2], [3, 4]]"},
    LS_SCHEMA_FILE_FIELDS,
};

const ls_schema_record ls_schema__numbers = {
    NODE_RECORD("numbers", "Where the numbers of a table, tensor or buffer come from.",
                number_fields), .one_of = true, .tag_offset = offsetof(S, kind)};
