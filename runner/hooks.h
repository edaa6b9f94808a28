// Where debuggers stop when a run is judged or two are compared, beside ranks/hooks.h and
// collectives/hooks.h.
#ifndef LS_RUNNER_HOOKS_H
#define LS_RUNNER_HOOKS_H

#include "collectives/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

// The first element of a stage's output that is of the stage's class.
typedef struct ls_gdb_divergence {
    const char *stage;
    const char *key;  // the output: stage, table, feature, field
    int rank;
    ls_dtype dtype;
    size_t element;          // index in both arrays; not below count: no such element
    size_t count;            // elements
    const void *ours;        // [count] of dtype: the run; NULL: it gave none
    const void *theirs;      // [count]: what it is compared with; NULL: none
    ls_dtype their_dtype;    // an oracle's is f64 or i64
    const char *class_name;  // "wrong", or another that the scenario's checks do not let pass
    const char *text;        // explains it; "" where the class says all
} ls_gdb_divergence;

// A stage is wrong, or of a class that does not pass.
void ls_gdb_hook_divergence(const ls_gdb_divergence *divergence);

// A scenario's program or tables while they run: in a rank's thread, or in a process that holds
// ranks.
typedef struct ls_gdb_execution {
    const struct ls_scenario *scenario;
    const struct ls_rank *self;          // NULL: the process's
    const struct ls_program *program;    // NULL: it has tables
    struct ls_embedding *const *module;  // of tables; NULL: it is a program
    const int *step;                     // index of the step of the program, or of the training
    struct ls_gdb_execution *next;       // older
    struct ls_gdb_execution **link;      // to it
} ls_gdb_execution;
extern ls_gdb_execution *ls_gdb_executions;  // newest first
void ls_hooks__execution_open(ls_gdb_execution *execution);
void ls_hooks__execution_close(ls_gdb_execution *execution);

// The case that is run, with its stages' outputs; NULL: none.
extern const struct ls_case_run *ls_gdb_case;
// Set before a run: it keeps the outputs of ranks that run as threads, although it needs them not.
extern bool ls_gdb_keeps;

#ifdef __cplusplus
}
#endif
#endif
