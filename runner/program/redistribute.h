// The redistributions of a program: the collectives of each along each path, and their cost by
// PyTorch's model (planner/redistribute.h).
#pragma once

#include "planner/redistribute.h"
#include "runner/scenario/scenario.h"

typedef struct ls_redistribution {
    int line;                    // of the step in the scenario's file
    const char *tensor;          // its name in the program
    ls_shape shape;              // of the whole tensor
    ls_dtype dtype;              //
    ls_placements from, to;      //
    ls_redistribute_path taken;  //
    bool priced;  // false: a layout has listed blocks, sizes, strides or turns: no plans
    ls_reshard_plan plans[LS_PATH_COUNT];
    bool possible[LS_PATH_COUNT];  // DTensor makes no partial values of a shard
} ls_redistribution;

typedef struct ls_redistributions {
    ls_arena *arena;        // of `at`
    ls_redistribution *at;  // [count] in execution order
    int count, room;
} ls_redistributions;

struct ls_program;
// Redistributes `in`, named `tensor`, as the step says, and lists it if the execution requests it.
// The caller frees *out. Errors: as ls_tensor_redistribute; LS_ERR_UNSUPPORTED: the step's path is
// not possible.
int ls_program__redistribute(ls_local_tensor **out, struct ls_program *program,
                             const ls_scenario_step *step, const char *tensor,
                             const ls_local_tensor *in, const ls_placements *to);
