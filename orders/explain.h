// The explanation search: which order gives exactly these bits. Tried are the orders that NCCL has
// or could have here, then small changes to the best of them: one hop, one chunk boundary.
#pragma once

#include <stdint.h>

#include "orders/order.h"

// A reduction that really happened.
typedef struct ls_order_observation {
    ls_order_call call;
    // reduce_scatter: in[k] is rank k's whole input [ranks * count]
    const ls_reduction *reduction;
    int root;            // of a reduce
    const void *actual;  // the result [count]; reduce_scatter: all blocks [ranks * count]
} ls_order_observation;

// Elements of an observation's result.
size_t ls_order_elements(const ls_order_observation *observation);

// Elements whose bits an order does not give (any NaN equals any NaN), counted up to `limit`;
// *first is the first of them. Errors as of ls_order_reduce.
int ls_order_differing(size_t *differing, size_t *first, const ls_order *order,
                       const ls_order_observation *observation, size_t limit);

typedef struct ls_order_explanation {
    bool found;
    ls_order *order;   // gives exactly these bits (found), or differs least; NULL: rank order
    size_t differing;  // elements that it does not give; 0 where found
    size_t first;      // the first of them
    bool proven;       // not found, but `order` it is: see ls_order_proven
    char text[512];    // found: how it differs from the stated order, one sentence
} ls_order_explanation;

// Searches for an order of `observation`, beginning with `stated`. *budget: elements of inputs that
// may be folded, less those that were when it returns; NULL: as many as it takes. The caller frees
// with ls_order_explanation_clear.
int ls_order_explain(ls_order_explanation *out, const ls_order *stated,
                     const ls_order_observation *observation, uint64_t *budget);
// The orders that most sums are made in: NCCL's rings and trees of one host, then rank order. NULL
// past the last.
const char *ls_order_common(int index);
// Whether the result was made in `order` and then damaged: at most one element in 32 differs, of
// those by which orders can be distinguished.
int ls_order_proven(bool *out, const ls_order *order, const ls_order_observation *observation);
void ls_order_explanation_clear(ls_order_explanation *explanation);
