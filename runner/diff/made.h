// What a tensor must be, given what the same run had for it to be computed of: exactly, and how far
// rounding can take it from that.
#ifndef LS_RUNNER_DIFF_MADE_H
#define LS_RUNNER_DIFF_MADE_H

#include "runner/diff/assemble.h"

// exact, bounds [tensor->count], in `arena`; NULL: nothing is derived, as the capture does not say
// how it was computed, lacks what of, or there is too much of it (LS_MADE_PRODUCTS_MAX). ref: whose
// tensors say what sizes the run's have together.
#define LS_MADE_PRODUCTS_MAX ((size_t)1 << 31)
int ls_made_expect(double **exact, double **bounds, ls_arena *arena, const ls_capture *run,
                   const ls_capture *ref, const ls_assembled *tensor);

#endif
