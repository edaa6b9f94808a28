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

#ifdef __cplusplus
}
#endif
#endif
