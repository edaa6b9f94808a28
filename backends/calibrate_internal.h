// Shared by the files of the calibration. Private to them.
#pragma once

#include "backends/calibrate.h"
#include "formats/json.h"

#define LS_CALIBRATE_RANKS_MAX 16

// Elements [first, end) of target's result that are folded alike.
typedef struct ls_calibrate_class {
    int target;  // block or root; -1: every one
    size_t first, end;
    char tree[256];  // "0(1(2))"
} ls_calibrate_class;

typedef struct ls_calibrate_call {
    ls_kind kind;  // all_reduce, reduce, reduce_scatter
    ls_dtype dtype;
    size_t count;  // as in a call
    ls_calibrate_class *classes;
    int class_count, class_room;
    const char *fma;          // NULL: not probed
    const char *accumulator;  //
} ls_calibrate_call;

// One reduction of the communicator's ranks on the backend: in [size, input elements], out: what
// each target gives [targets, count].
int ls_calibrate__run(void *out, ls_comm *comm, const ls_calibrate_call *call, ls_op op,
                      const void *in);
double ls_calibrate__factor(int member);  // for premul_sum
size_t ls_calibrate__targets(const ls_calibrate_call *call, int size);
size_t ls_calibrate__inputs(const ls_calibrate_call *call, int size);  // elements a rank sends

// The tree of one element from sizes [size, size]: leaves of the smallest subtree with both ranks.
int ls_calibrate__tree(char *out, size_t out_bytes, const int *sizes, int size);

void ls_calibrate__write(ls_json *json, const ls_calibrate_call *call, bool counted);
// Finds the form of fused multiply-add and the accumulator with the backend's bits on numbers whose
// sums round; NULL: none. LS_ERR_FINDING: the trees do not give the sums.
int ls_calibrate__probe_rounding(ls_calibrate_call *call, ls_comm *comm, const char *temporary_dir);
