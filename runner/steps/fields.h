// Fields that several kinds of steps share, for the tables of runner/steps/. S is the struct with
// their members.
#pragma once

#include "runner/steps/step.h"

// clang-format off
#define S ls_scenario_step

#define LS_STEP_NAME_FIELD                                                                         \
    {"name", LS_FIELD_STRING, LS_MEMBER(name), .otherwise = "number and kind: 2_all_reduce",       \
     .doc = "The stage's name in reports.", .example = "name: sum of gradients"}
#define LS_STEP_INTO_FIELD                                                                         \
    {"into", LS_FIELD_STRING, LS_MEMBER(into), .otherwise = "replaces the operand",                \
     .doc = "The name of the result.", .example = "into: b"}
#define LS_STEP_TENSOR_FIELD(must)                                                                 \
    {"tensor", LS_FIELD_STRING, .flags = (must), LS_MEMBER(tensor),                                \
     .otherwise = "a buffer of count elements on each rank", .doc = "The tensor it acts on.",      \
     .example = "tensor: a"}
#define LS_STEP_DIM_FIELD(of)                                                                      \
    {"dim", LS_FIELD_INT32, LS_MEMBER(of), .min = -LS_DIMS_MAX, .max = LS_DIMS_MAX - 1,            \
     .fallback = "0", .doc = "Tensor dimension; negative: from the end.", .example = "dim: 1"}
#define LS_STEP_OTHER_FIELD                                                                        \
    {"other", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, LS_MEMBER(binary.other),                \
     .doc = "The second operand.", .example = "other: b"}
#define LS_STEP_EXCEPT_FIELD                                                                       \
    {"except", LS_FIELD_RECORDS, LS_MEMBER(excepts), LS_AUX(except_count),                         \
     .record = &ls_schema__except, .otherwise = "none",                                            \
     .doc = "Differences of some ranks: a defect.",                                                \
     .example = "except: [{ranks: [2], skip: true}]"}
#define LS_STEP_TENSOR_FIELDS                                                                      \
    LS_STEP_NAME_FIELD, LS_STEP_EXCEPT_FIELD, LS_STEP_INTO_FIELD,                                  \
        LS_STEP_TENSOR_FIELD(LS_FIELD_REQUIRED)
#define LS_STEP_COUNT_FIELD                                                                        \
    {"count", LS_FIELD_INT, LS_MEMBER(call.count), .min = 0, .max = LS_SCENARIO_COUNT_MAX,         \
     .fallback = "0", .otherwise = "required without tensor, counts or splits",                    \
     .doc = "Elements, as NCCL counts them for this collective.", .example = "count: 1024"}
#define LS_STEP_DTYPE_FIELD                                                                        \
    {"dtype", LS_FIELD_ENUM, LS_MEMBER(call.dtype), .names = &ls_schema__dtypes,                   \
     .fallback = "f32", .doc = "Element type.", .example = "dtype: bf16"}
#define LS_STEP_VALUES_FIELD                                                                       \
    {"values", LS_FIELD_RECORD, LS_MEMBER(call.values), .record = &ls_schema__numbers,             \
     .otherwise = "exact", .doc = "Each rank's data; drawn for each rank alone.",                  \
     .example = "values: normal"}
#define LS_STEP_ASYNC_FIELD                                                                        \
    {"async", LS_FIELD_BOOL, LS_MEMBER(call.asynchronous), .fallback = "false",                    \
     .doc = "The call returns at once; a wait step completes it.", .example = "async: true"}
#define LS_STEP_EARLIER_FIELDS                                                                     \
    LS_STEP_NAME_FIELD,                                                                            \
        {"step", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, LS_MEMBER(earlier.of),               \
         .doc = "The name of an earlier step.", .example = "step: gradients"},                     \
        {"ranks", LS_FIELD_INTS, .flags = LS_FIELD_SOME, LS_MEMBER(earlier.ranks), .min = 0,       \
         .max = LS_RANKS_MAX - 1, .otherwise = "all", .doc = "Which ranks do it.",                 \
         .example = "ranks: [0]"},                                                                 \
        LS_STEP_EXCEPT_FIELD
// clang-format on

// A descriptor's record.
#define LS_STEP_RECORD(name_, fields_, doc_)                                                       \
    .record = {.name = (name_),                                                                    \
               .doc = (doc_),                                                                      \
               .fields = (fields_),                                                                \
               .field_count = (int)(sizeof(fields_) / sizeof *(fields_)),                          \
               .has_node = true}
