// A campaign: many random scenarios (or some files), each tried in every applicable way, in a
// process that crashes do not end; and the failures, shrunk.
#pragma once

#include "runner/compare/run.h"

#define LS_FUZZ_FAILURES_MAX 20  // a campaign ends with so many

typedef struct ls_fuzz_options {
    uint64_t seed;
    uint32_t first, count;     // cases, by number
    double seconds;            // 0: no limit but `count`
    const char *const *files;  // [file_count] replace random ones; count is theirs
    int file_count;
    bool real;                  // also beside MPI
    int runs_max;               // of a failure's shrinking; 0: no shrinking
    const char *keep_dir;       // receives the failures, one file each; NULL: only the report has
                                // them
    const ls_run_options *run;  //
    void (*progress)(void *arg, int done, int total);  // or NULL
    void *progress_arg;
} ls_fuzz_options;

typedef struct ls_fuzz_counts {
    uint64_t cases;                              // tried
    uint64_t trials;                             // runs of them, in one way each
    uint64_t nothing;                            // without an element to judge
    uint64_t injected;                           // with a defect in them
    uint64_t found, harmless, rounding, missed;  // of those
    uint64_t memory_first, memory_last;  // bytes that the process had: early, and at the end
} ls_fuzz_counts;

// Adds a case for each failure, and counts the cases that passed. An error: the environment's.
int ls_fuzz_run(ls_results *results, ls_fuzz_counts *counts, const ls_fuzz_options *options);
// The text of random case `number`: its file. LS_ERR_MEMORY.
int ls_fuzz_case_text(ls_text *out, uint64_t seed, uint32_t number);
