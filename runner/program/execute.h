// Executes a scenario on a backend; a sink receives every stage's outputs. The same code runs in
// the simulator (all ranks held), under MPI and under NCCL; nothing here compares or reports.
#pragma once

#include "collectives/recording.h"
#include "embedding/embedding.h"
#include "oracle/oracle.h"
#include "ranks/ranks.h"
#include "runner/scenario/scenario.h"

typedef struct ls_execution {
    const ls_scenario *scenario;
    ls_backend *backend;        // its world has the scenario's mesh and seed
    const ls_stage_sink *sink;  // every stage output; with several training steps the stages'
                                // names begin with "step0.", ...
    const ls_plan *plan;        // scenarios with tables: replaces theirs; NULL: theirs
    const ls_stage_sink
        *expected;           // programs: receives the expected value of each stage, from plain
                             // code; NULL: not wanted. Needs a backend that holds every rank.
    const char *checkpoint;  // tables: saved there after the last step; NULL: not saved
    bool one_step;           // tables: only the first step, its stages without the step in their
                             // names
    bool forward_only;       // likewise, only its forward pass as plans count it: without max_norm
    ls_rank *self;  // the rank that runs it as a thread of an SPMD program, on a backend that
                    // holds this rank (NULL for programs without tensors); NULL: none
    struct ls_redistributions *redistributions;  // receives a list of them; NULL: not wanted
    bool shape_only;  // calls without data: buffers are only addresses, see ls_spmd_options
} ls_execution;

// Runs the scenario. LS_ERR_FINDING: a check found a defect (*finding says which; its texts live in
// `arena`); LS_ERR_MISMATCH: ranks disagree. finding->ranks NULL: none.
int ls_execute(const ls_execution *execution, ls_arena *arena, ls_finding *finding, bool *found);

// The oracles of a scenario with tables, one for each step, for all ranks, with the inputs that
// they use.
typedef struct ls_scenario_oracle ls_scenario_oracle;

// *out is in `arena`; free what it owns first.
int ls_execute_oracle(ls_scenario_oracle **out, const ls_scenario *scenario, ls_arena *arena);
void ls_execute_oracle_free(ls_scenario_oracle *oracle);  // NULL is allowed
const ls_scenario *ls_execute_oracle_scenario(const ls_scenario_oracle *oracle);
int ls_execute_oracle_steps(const ls_scenario_oracle *oracle);
const ls_oracle *ls_execute_oracle_step(const ls_scenario_oracle *oracle, int step);
// The oracle of the step of a run's output; replaces its stage by the oracle's name.
const ls_oracle *ls_execute_oracle_of(const ls_scenario_oracle *oracle, ls_stage_output *output);

// ---- Shared by the files that execute -----------------------------------------------------------
int ls_execute__embedding(const ls_execution *execution, ls_arena *arena, ls_finding *finding,
                          bool *found);
int ls_execute__program(const ls_execution *execution, ls_arena *arena);
