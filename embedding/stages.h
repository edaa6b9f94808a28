// The stages of an embedding module: parts of a step whose outputs are kept, compared and judged
// under one name.
#pragma once

// Name in code and in reports, and the step that it is a part of.
#define LS_STAGE_MAP(X)                                                                            \
    X(INPUT_DIST, "input_dist", FORWARD)                                                           \
    X(LOOKUP, "lookup", FORWARD)                                                                   \
    X(OUTPUT_DIST, "output_dist", FORWARD)                                                         \
    X(OUTPUT_GRAD, "output_grad", BACKWARD)                                                        \
    X(OUTPUT_DIST_BACKWARD, "output_dist_backward", BACKWARD)                                      \
    X(LOOKUP_BACKWARD, "lookup_backward", BACKWARD)                                                \
    X(INPUT_DIST_BACKWARD, "input_dist_backward", BACKWARD)                                        \
    X(ALL_REDUCE, "all_reduce", BACKWARD)                                                          \
    X(CLIP, "clip", UPDATE)                                                                        \
    X(UPDATE, "update", UPDATE)

typedef enum ls_stage {
    LS_STAGE_NONE,  // of a program
#define LS_STAGE_ENUM(name, text, step) LS_STAGE_##name,
    LS_STAGE_MAP(LS_STAGE_ENUM)
#undef LS_STAGE_ENUM
        LS_STAGE_COUNT
} ls_stage;

const char *ls_stage_name(ls_stage stage);

// The content of a stage's output.
#define LS_STAGE_FIELD_MAP(X)                                                                      \
    X(LENGTHS, "lengths")                                                                          \
    X(IDS, "ids")                                                                                  \
    X(WEIGHTS, "weights") /* of ids; of update: the table's */                                     \
    X(VALUES, "values")                                                                            \
    X(ROWS, "rows")                                                                                \
    X(GRADIENTS, "gradients")                                                                      \
    X(NORM, "norm")                                                                                \
    X(MOMENTUM1, "momentum1")                                                                      \
    X(MOMENTUM2, "momentum2")

typedef enum ls_stage_field {
    LS_STAGE_FIELD_NONE,  // of a program
#define LS_STAGE_FIELD_ENUM(name, text) LS_STAGE_FIELD_##name,
    LS_STAGE_FIELD_MAP(LS_STAGE_FIELD_ENUM)
#undef LS_STAGE_FIELD_ENUM
        LS_STAGE_FIELD_COUNT
} ls_stage_field;

const char *ls_stage_field_name(ls_stage_field field);
