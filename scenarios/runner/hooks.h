// Where debuggers stop when two runs are compared, beside ranks/hooks.h and collectives/hooks.h.
#ifndef LS_SCENARIOS_RUNNER_HOOKS_H
#define LS_SCENARIOS_RUNNER_HOOKS_H

#include "collectives/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

// The first element of an output that is wrong.
typedef struct ls_gdb_divergence {
    const char *stage;
    const char *key;  // the output: stage, table, feature, field
    int rank;
    ls_dtype dtype;
    size_t element;      // index in both arrays
    size_t count;        // elements
    const void *ours;    // [count] of dtype: the simulation
    const void *theirs;  // [count]: what it is compared with
} ls_gdb_divergence;

// A comparison found an output that is wrong.
void ls_gdb_hook_divergence(const ls_gdb_divergence *divergence);

#ifdef __cplusplus
}
#endif
#endif
