// Tensors of integers modulo a prime, from exact arithmetic (`lockstep prove`).
#pragma once

#include "runner/compare/compare.h"
#include "runner/diff/diff_internal.h"
#include "runner/result.h"

// sum [tensor->count]: the sum of the terms in the field; for a mean, times the inverse of their
// number.
void ls_diff__field_sum(int64_t *sum, const void *const *terms, const ls_assembled *tensor);
// Makes a wrong stage unjudged if an earlier operation has no rule: its values may differ although
// the program is correct.
int ls_diff__field_leave(ls_stage_result *stage, ls_arena *arena, const char *opaque);
// The statement of a proved run; *out stays NULL if it is not proved.
int ls_diff__field_state(const char **out, const ls_comparison *comparison,
                         const ls_diff_sides *sides);

// Whether the copies of an activation add up to the reference's: each rank's gradient covers its
// samples, and its module output covers its rows or columns of the weights. (field_explain.c, as
// the next)
bool ls_diff__field_is_parts(const ls_diff_sides *sides, const ls_diff_pair *pair);
// Appends the reason for a difference, if one is found; as ls_diff_explain().
bool ls_diff__field_explain(ls_text *out, const ls_diff_sides *sides, const ls_diff_pair *pair,
                            int copy);
