// A tensor's expected values: the exact result of its module for inputs of the same run, with the
// bound of its rounding.
#pragma once

#include "runner/diff/assemble.h"

typedef struct ls_made {
    double *exact, *bounds;   // [count of the tensor]; NULL: nothing is derived
    unsigned char *overflow;  // [count], of ls_overflow
    bool firm;                // the arithmetic is known; else the bound assumes the coarsest
} ls_made;

// Computes the expected values of `tensor` from inputs in `capture` by `how`, in `arena`. Derives
// nothing if `how` is unknown, inputs are missing, or there are too many products
// (LS_MADE_PRODUCTS_MAX). other: a capture with the sizes of wholes.
#define LS_MADE_PRODUCTS_MAX ((size_t)1 << 31)
int ls_made_expect(ls_made *out, ls_arena *arena, const ls_capture *capture,
                   const ls_capture *other, const ls_captured *how, const ls_assembled *tensor);
