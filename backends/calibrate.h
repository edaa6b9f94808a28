// Measures the summation order of a backend with FPRev's probes: two ranks send M and -M, the
// others 1, and the result counts the ones that were added after both cancelled. One probe for each
// pair of ranks gives the summation tree of every element at once. Works on any backend, including
// the simulator.
#pragma once

#include "formats/json.h"
#include "collectives/collectives.h"

typedef struct ls_calibrate_options {
    // [count_count] ascending: of all_reduce every one is measured; of the others the largest, and
    // the rest only where the tree of an element depends on its place
    const size_t *counts;
    int count_count;
    const ls_dtype *dtypes;  // [dtype_count] of f32, f16, bf16, f64
    int dtype_count;
    bool all_reduce_only;                                     // else reduce and reduce_scatter too
    void (*progress)(const char *what, int done, int total);  // NULL: none
} ls_calibrate_options;

// The result, as one member of the JSON object that is being written: "orders": [...], in the form
// that `measured:FILE` reads. `temporary_dir`: where candidate files for the probes of fused
// multiply-adds and accumulators go. LS_ERR_FINDING: the answers fit no fixed tree (as NVLS gives).
int ls_calibrate_orders(ls_json *json, ls_comm *comm, const ls_calibrate_options *options,
                        const char *temporary_dir);
