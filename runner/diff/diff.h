// Compares two captures of the same model, on one rank and on many, tensor by tensor in the
// reference's order. docs/diff.md describes the judgement of each.
#pragma once

#include "runner/diff/capture.h"
#include "runner/result.h"

typedef struct ls_diff_options {
    bool all;    // continues after the first wrong tensor
    bool exact;  // every bit of every tensor counts
    bool has_tolerance;
    double tolerance;            // relative to a tensor's largest value, for tensors without a
                                 // derived bound
    const char *const *ignored;  // [ignored_count] name patterns of tensors to leave out
    size_t ignored_count;
    // Of the case; borrowed. NULL: the captures' paths, and no note.
    const char *name, *file, *note;
} ls_diff_options;

// Sets the name patterns of tensors to leave out, separated by commas, in `arena`. NULL: none.
int ls_diff_ignore(ls_diff_options *options, ls_arena *arena, const char *patterns);

// Adds a case whose stages are the tensors; `reproduce` is borrowed. The captures must outlive the
// report.
int ls_diff_run(ls_results *results, const ls_capture *ref, ls_capture *run,
                const ls_diff_options *options, const char *reproduce);
