// Explains wrong values: a factor, or rows or whole outputs in other places. These are guesses, and
// the texts say so: the values were judged before.
#pragma once

#include "runner/compare/stages.h"

// ---- Values as f64 ------------------------------------------------------------------------------
// [count] in `arena`; NULL: no memory.
double *ls_reason_widened(ls_arena *arena, const void *values, ls_dtype dtype, size_t count);
// The tolerance for equality up to rounding, relative to the largest value. 0 for integers.
double ls_reason_nearness(ls_dtype dtype);
double ls_reason_largest(const double *values, size_t count);
bool ls_reason_is_near(double a, double b);
size_t ls_reason_width(const ls_shape *shape);  // of a row; 0: there are none
// *factor: b is a multiple of a, up to rounding.
bool ls_reason_is_multiple(double *factor, const double *a, const double *b, size_t count,
                           double near);

// The wrong values, with a name for the expected ones ("the reference").
typedef struct ls_reason_values {
    const double *due, *got;  // [count]
    size_t count;
    size_t width;  // of a row; 0: there are none
    double near;
    int ranks;
    const char *of;
} ls_reason_values;

// Append a line to `out`; return whether they do. All of it is a multiple of the expected values:
bool ls_reason_factor(ls_text *out, const ls_reason_values *v);
// The first wrong row or column is at another place in the expected values:
bool ls_reason_moved(ls_text *out, const ls_reason_values *v);

// ---- Outputs of a stage -------------------------------------------------------------------------
typedef struct ls_reason_output {
    const ls_stages *stages;      // names and shapes of all outputs
    const ls_stage_entry *entry;  // the wrong output
    int rank;
    // *out [count of the array] in `arena`: the expected output; NULL: unknown.
    int (*due)(double **out, ls_arena *arena, const void *arg, const ls_stage_entry *entry,
               int rank);
    const void *arg;
    const void *got;  // of the entry's dtype and as many
    const char *of;   // the name of the expected values: "simulated", "expected"
} ls_reason_output;

// Appends a possible reason for a wrong output; returns whether it does. Without memory there is
// none.
bool ls_reason_tell(ls_text *out, const ls_reason_output *output);
