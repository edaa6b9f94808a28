// One capture held against another: the same model on one rank and on many, tensor by tensor in the
// order of the reference. docs/diff.md says by what each is judged.
#ifndef LS_RUNNER_DIFF_DIFF_H
#define LS_RUNNER_DIFF_DIFF_H

#include "runner/diff/capture.h"
#include "runner/result.h"

typedef struct ls_diff_options {
    bool all;  // goes on after the first tensor that is wrong
    bool has_tolerance;
    double tolerance;  // of a tensor's largest value: for what no bound is derived of
} ls_diff_options;

// What is not compared: as it stands in one of the two alone, or after the first that is wrong.
typedef struct ls_diff_left_out {
    size_t ref, run, after;
    const char *first;  // of the former; NULL: none
} ls_diff_left_out;

// Adds a case whose stages are the tensors; `reproduce` is borrowed. The captures must stay until
// the results were reported.
int ls_diff_run(ls_results *results, ls_diff_left_out *left_out, const ls_capture *ref,
                const ls_capture *run, const ls_diff_options *options, const char *reproduce);

#endif
