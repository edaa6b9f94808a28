// One capture compared with another: the same model on one rank and on many, tensor by tensor in
// the order of the reference. docs/diff.md says how each is judged.
#ifndef LS_RUNNER_DIFF_DIFF_H
#define LS_RUNNER_DIFF_DIFF_H

#include "runner/diff/capture.h"
#include "runner/result.h"

typedef struct ls_diff_options {
    bool all;    // continues after the first tensor that is wrong
    bool exact;  // every bit of every tensor counts
    bool has_tolerance;
    double tolerance;            // of a tensor's largest value, for tensors without a derived bound
    const char *const *ignored;  // [ignored_count] patterns of names that are not compared
    size_t ignored_count;
    // Of the case; borrowed. NULL: the captures' paths, and no note.
    const char *name, *file, *note;
} ls_diff_options;

// Sets the patterns of names that are not compared, separated by commas, in `arena`. NULL: none.
int ls_diff_ignore(ls_diff_options *options, ls_arena *arena, const char *patterns);

// Adds a case whose stages are the tensors; `reproduce` is borrowed. The captures must stay until
// the results were reported.
int ls_diff_run(ls_results *results, const ls_capture *ref, ls_capture *run,
                const ls_diff_options *options, const char *reproduce);

#endif
