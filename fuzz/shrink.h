// A scenario that fails made as small as it still fails in the same way.
#pragma once

#include <jansson.h>
#include <stdbool.h>

// Whether a smaller tree still fails in the same way; a status other than LS_OK ends the shrinking.
typedef int (*ls_fuzz_fails_fn)(void *arg, const json_t *scenario, bool *fails);

// Greedy and in a fixed order: lists lose their members, the mesh its ranks, mappings their keys,
// numbers their size, until nothing smaller fails or `fails` was asked so often. It may itself
// refuse what is no scenario, which counts for little: *asked is the number of its calls that it
// says ran (it adds to it).
int ls_fuzz_shrink(json_t **scenario, ls_fuzz_fails_fn fails, void *arg, const int *asked,
                   int asked_max);

// Makes one change of many to the tree; false: there are no so many.
bool ls_fuzz_shrink__change(json_t *scenario, int pass, long number);
#define LS_FUZZ_PASSES 6
// Of these changes one that leaves fewer ranks, each with what it had.
bool ls_fuzz_shrink__fewer_ranks(json_t *scenario, long number);
