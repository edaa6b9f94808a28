// Two runs of one program under `lockstep exec`, by their recordings: whether every rank made the
// same calls in both, and gave them the same data.
#ifndef LS_RUNNER_REPLAY_EXEC_RUNS_H
#define LS_RUNNER_REPLAY_EXEC_RUNS_H

#include "runner/result.h"

typedef struct ls_exec_runs {
    const char *first, *second;  // folders of recordings with hashes or payload
    const char *real;            // what moved the second one's data: "gloo"
    const char *name;            // of the case
    const char *file;            // the program
    const char *reproduce;
} ls_exec_runs;

// Adds a case to `results`, and to `summary` a line for each kind of call that was not compared.
// *compared: calls of a rank whose data was. Invariant: what a rank sends is compared as long as it
// has received the same bytes in both runs; after a sum in another order it may send others.
int ls_exec_runs_compare(ls_results *results, ls_text *summary, uint64_t *compared,
                         const ls_exec_runs *runs);

#endif
