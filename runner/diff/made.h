// A tensor's expected values: what its module gives for inputs that the same run had, exactly, and
// how far rounding can take the result from that.
#ifndef LS_RUNNER_DIFF_MADE_H
#define LS_RUNNER_DIFF_MADE_H

#include "runner/diff/assemble.h"

typedef struct ls_made {
    double *exact, *bounds;   // [count of the tensor]; NULL: nothing is derived
    unsigned char *overflow;  // [count], of ls_overflow
    bool firm;  // the arithmetic is known; else the bound allows for the coarsest there is
} ls_made;

// Expects `tensor`, computed as `how` says of inputs in `capture`, in `arena`. Derives nothing
// where `how` does not say how it was computed, the capture lacks the inputs, or there are too many
// products (LS_MADE_PRODUCTS_MAX). other: a capture whose tensors tell the sizes of wholes.
#define LS_MADE_PRODUCTS_MAX ((size_t)1 << 31)
int ls_made_expect(ls_made *out, ls_arena *arena, const ls_capture *capture,
                   const ls_capture *other, const ls_captured *how, const ls_assembled *tensor);

#endif
