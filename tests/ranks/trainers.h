// Realistic training programs with real bugs, and the expected report of each bug under every
// schedule.
#pragma once

#include <string.h>

#include "ranks/ranks.h"

// A place of a program that a finding may name, known after execution has passed it.
#define TRAINER_SITES 16
typedef struct trainer_run {
    const char *bug;  // "" for none
    int lines[TRAINER_SITES];
} trainer_run;

#define AT(site, call) (run->lines[site] = __LINE__, (call))
#define BUG(name)      (strcmp(run->bug, name) == 0)

typedef struct injected_bug {
    const char *name;
    ls_finding_id finding;
    unsigned ranks;  // a bit each
    int site;
} injected_bug;

typedef struct trainer {
    const char *name;
    ls_spmd_program program;  // arg: a trainer_run
    ls_mesh mesh;
    const injected_bug *bugs;
    int bug_count;
} trainer;

// A data-parallel by tensor-parallel block whose activations are sharded along the sequence.
extern const trainer sequence_parallel_trainer;
// A sharded embedding before experts that receive tokens.
extern const trainer experts_trainer;
