// Functions that debuggers stop at during judgement and comparison, beside ranks/hooks.h and
// collectives/hooks.h.
#pragma once

#include "collectives/hooks.h"

// The first element of a stage's output that has the stage's class.
typedef struct ls_gdb_divergence {
    const char *stage;
    const char *key;  // the output: stage, table, feature, field
    int rank;
    ls_dtype dtype;
    size_t element;          // index in both arrays; count or more: no such element
    size_t count;            // elements
    const void *ours;        // [count] of dtype: the run; NULL: no output
    const void *theirs;      // [count]: the values it is compared with; NULL: none
    ls_dtype their_dtype;    // f64 or i64 for an oracle
    const char *class_name;  // "wrong", or another class that the scenario's checks do not allow
    const char *text;        // explanation; "" if the class says all
} ls_gdb_divergence;

// A stage is wrong, or of a class that fails the case.
void ls_gdb_hook_divergence(const ls_gdb_divergence *divergence);

// A scenario's program or tables during execution: in a rank's thread, or in a process that holds
// ranks.
typedef struct ls_gdb_execution {
    const struct ls_scenario *scenario;
    const struct ls_rank *self;          // NULL: the process's
    const struct ls_program *program;    // NULL: a scenario with tables
    struct ls_embedding *const *module;  // of tables; NULL: a program
    const int *step;                     // index of the program's step or the training step
    struct ls_gdb_execution *next;       // older
    struct ls_gdb_execution **link;      // to it
} ls_gdb_execution;
extern ls_gdb_execution *ls_gdb_executions;  // newest first
void ls_hooks__execution_open(ls_gdb_execution *execution);
void ls_hooks__execution_close(ls_gdb_execution *execution);

// The current case, with its stage outputs; NULL: none.
extern const struct ls_case_run *ls_gdb_case;
// Set before a run: keeps the outputs of ranks as threads, which the run does not need.
extern bool ls_gdb_keeps;
