// Compares two runs of one program under `lockstep exec` by their recordings: whether every rank
// made the same calls with the same data in both.
#pragma once

#include "runner/result.h"

typedef struct ls_exec_runs {
    const char *first, *second;  // folders of recordings with hashes or payload
    const char *real;            // the second one's backend: "gloo"
    const char *name;            // of the case
    const char *file;            // the program
    const char *reproduce;
} ls_exec_runs;

// Adds a case to `results`, and to `summary` a line for each kind of call that was not compared.
// *compared: the number of a rank's calls whose data was. Invariant: a rank's sent data is compared
// only while it has received the same bytes in both runs. After a sum in another order it may send
// different data.
int ls_exec_runs_compare(ls_results *results, ls_text *summary, uint64_t *compared,
                         const ls_exec_runs *runs);
