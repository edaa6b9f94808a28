// Rows of captured tensors. A tensor is divided among the ranks along one dimension; a row is what
// it has at one index of that dimension.
#pragma once

#include "runner/diff/diff_internal.h"

typedef struct ls_diff_row {
    const char *at;
    size_t bytes, index;
} ls_diff_row;

// The rows of a tensor of both captures; ranks with the same part count once.
typedef struct ls_diff_rows {
    ls_dtype dtype;
    size_t count, parts, bytes;  // bytes of a row
    const char **at, **ref;      // [count] of the run, in the order of the ranks; of the reference
    size_t *place;               // [count] the rows of the whole that the run's are assembled as
    size_t *of_part;             // [parts] rows
    int *ranks;                  // [parts] the first that has it
} ls_diff_rows;

// *out [count]: the rows at [count] of `bytes` each, by their bytes and then by their index.
int ls_diff__sort_rows(ls_diff_row **out, ls_arena *arena, const char *const *at, size_t count,
                       size_t bytes);
// The only dimension that the parts cut, 0 if one rank has all elements; -1: they are no rows.
int ls_diff__cut_dim(const ls_diff_pair *pair);
// Everything in `arena`. dim: from ls_diff__cut_dim().
int ls_diff__rows(ls_diff_rows *out, ls_arena *arena, const ls_diff_pair *pair, int dim);
// Whether the rows of a tensor come from those of one earlier tensor of the step, bit for bit on
// both sides, as those of a gather. to [of->count]: the reference's row of each of the ranks' rows.
// *ascending: on no rank, and not in the reference, are they in another order there. (source.c)
int ls_diff__source(bool *found, bool *ascending, size_t *to, const ls_diff_sides *sides,
                    const ls_diff_pair *pair, const ls_diff_rows *of);
