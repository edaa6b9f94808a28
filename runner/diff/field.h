// Tensors whose values are integers modulo a prime, which exact arithmetic gave (`lockstep prove`).
#ifndef LS_RUNNER_DIFF_FIELD_H
#define LS_RUNNER_DIFF_FIELD_H

#include "runner/compare/compare.h"
#include "runner/diff/diff_internal.h"
#include "runner/result.h"

// sum [tensor->count]: the terms added up in the field; their mean: times the inverse of their
// number.
void ls_diff__field_sum(int64_t *sum, const void *const *terms, const ls_assembled *tensor);
// Leaves a stage that is wrong unjudged: values that come of an operation without a rule may differ
// although the program's are the same.
int ls_diff__field_leave(ls_stage_result *stage, ls_arena *arena, const char *opaque);
// The statement of a run that is proved; *out stays NULL where it is not.
int ls_diff__field_state(const char **out, const ls_comparison *comparison,
                         const ls_diff_sides *sides);

// Whether the copies of an activation add up to the reference's: of a gradient each rank has the
// part of its own samples, of a module's output that of its rows or columns of the weights.
// (field_explain.c, as the next)
bool ls_diff__field_is_parts(const ls_diff_sides *sides, const ls_diff_pair *pair);
// Appends why a tensor differs, if that is found; as ls_diff_explain().
bool ls_diff__field_explain(ls_text *out, const ls_diff_sides *sides, const ls_diff_pair *pair,
                            int copy);

#endif
