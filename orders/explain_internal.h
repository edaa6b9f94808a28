// Shared by the files of the explanation search.
#pragma once

#include "orders/explain.h"
#include "orders/internal.h"

// One target's result under an order: elements [first, first + length) of the block or root.
int ls_explain__reduce(const ls_order *order, void *out, const ls_order_observation *observation,
                       int target, size_t first, size_t length);
// differs [count] = 1 where the bits of a and b differ (any NaN equals any NaN). Returns how many.
size_t ls_explain__compare(ls_dtype dtype, const void *a, const void *b, size_t count,
                           unsigned char *differs);
// The next permutation in lexicographic order; false after the last.
bool ls_explain__next_permutation(int *ranks, int count);
// Tries small changes to best->order: another fold of a whole chunk, a chunk boundary elsewhere, at
// most `changes_max` of them.
int ls_explain__local(ls_order_explanation *best, const ls_order_observation *observation,
                      int changes_max, uint64_t *budget);
// Takes the folding of `length` elements from a budget (NULL: without end); false: it is spent.
bool ls_explain__spend(uint64_t *budget, const ls_order_observation *observation, size_t length);
