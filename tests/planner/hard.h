// Planning problems that a search does not finish: many tables, and memory for little more than
// them. Random shapes pack badly, so most branches fail deep in the tree.
#pragma once

#include <criterion/criterion.h>

#include "planner/problem.h"

typedef struct hard {
    ls_arena *arena;
    ls_topology topology;
    ls_planner_table *tables;
    int count;
    ls_planner_options options;
} hard;

// hbm, ddr: all device and host memory, in multiples of the weights' size.
static inline void hard_make(hard *out, int tables, int ranks, double hbm, double ddr,
                             ls_planner_model model) {
    *out = (hard){.count = tables,
                  .options = {.model = model, .torchrec_options = model == LS_PLANNER_TORCHREC}};
    cr_assert(ls_arena_create(&out->arena) == LS_OK);
    cr_assert(ls_planner_instance(&out->tables, out->arena, LS_INSTANCE_RANDOM, tables, 1) ==
              LS_OK);
    cr_assert(ls_topology_preset(&out->topology, "h100", ranks, 0) == LS_OK);
    double bytes = 0.0;
    for (int i = 0; i < tables; i++) {
        bytes += (double)out->tables[i].rows * (double)out->tables[i].columns *
                 out->tables[i].element_bytes;
    }
    out->topology.hbm_bytes = (int64_t)(bytes * hbm / ranks);
    out->topology.ddr_bytes = (int64_t)(bytes * ddr / ranks);
}

// The caller frees the problem and the result in it. On a slow machine the clock cuts only the
// search.
static inline ls_planner_problem *hard_solve(ls_planner_result *result, const hard *of) {
    ls_planner_problem *problem;
    ls_planner_options options = of->options;
    options.seconds_max = 0.0;
    cr_assert(ls_planner_problem_create(&problem, &of->topology, of->tables, of->count, &options) ==
                  LS_OK,
              "%s", ls_error_last()->text);
    problem->options.seconds_max = of->options.seconds_max;
    cr_assert(ls_planner_solve(result, problem) == LS_OK, "%s", ls_error_last()->text);
    return problem;
}
