// What the files that execute programs share: the state of a running program, its step buffers, and
// the emission of outputs. Private to the runner.
#ifndef LS_SCENARIOS_RUNNER_PROGRAM_H
#define LS_SCENARIOS_RUNNER_PROGRAM_H

#include "scenarios/runner/execute.h"

// A tensor by its name in the program. The newest of a name is the one that counts.
typedef struct ls_program_tensor {
    const char *name;
    ls_local_tensor *tensor;
    const void
        *known;  // the whole logical tensor, dense, while only its placement has changed since
                 // it was made; NULL: not known. In the program's arena.
    const ls_scenario_tensor *blocks;  // where its blocks are listed; NULL: it has placements
} ls_program_tensor;

typedef struct ls_program {
    const ls_execution *execution;
    const ls_scenario *scenario;
    ls_backend *backend;
    ls_world *world;
    ls_arena *arena;
    ls_program_tensor *tensors;  // [tensor_count]
    int tensor_count;
    ls_axis **axes;  // [mesh dimensions] communicators along each, NULL until first used
    ls_comm *all;    // every rank
} ls_program;

// One collective on raw per-rank buffers.
int ls_program__collective(ls_program *program, const ls_scenario_step *step);
// One operation on tensors, or a collective on one.
int ls_program__tensor_step(ls_program *program, const ls_scenario_step *step);
// Makes the scenario's tensors.
int ls_program__create_tensors(ls_program *program);

// fulls [held ranks]: the whole of a tensor made of blocks, on every held rank.
int ls_program__gather_blocks(void *const *fulls, ls_program *program, const ls_scenario_step *step,
                              const ls_scenario_tensor *tensor, const ls_local_tensor *in);

// The communicators along a mesh axis, made when first asked for.
int ls_program__axis(ls_axis **out, ls_program *program, int axis);

// Emits one array of a rank to `sink` (NULL: nothing happens).
int ls_program__emit(const ls_stage_sink *sink, const ls_scenario_step *step, const char *table,
                     const char *field, int rank, ls_dtype dtype, const ls_shape *shape,
                     const void *data, bool reduces, const double *bounds);

#endif
