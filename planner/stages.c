// How long the stages of a plan should take, rank by rank: the cost model's parts combined as the
// stages run, so that they can be compared with measured times.
#include "planner/problem.h"

#include <math.h>

// Most that any rank has to do in the collectives of one sharding type.
typedef struct group_load {
    double input_ms, output_ms, gradients_ms;
} group_load;

static double output_comms_ms(const ls_planner_cost *cost) {
    return cost->forward_comms_ms - cost->input_comms_ms;
}

// scratch [ranks]: what each rank has to do for the tables of `sharding`.
static group_load load_of(const ls_planner_problem *problem, const ls_planner_result *result,
                          int sharding, group_load *scratch) {
    for (int r = 0; r < problem->ranks; r++) {
        scratch[r] = (group_load){0};
    }
    for (int t = 0; t < problem->table_count; t++) {
        const ls_planner_option *option = result->chosen[t];
        if ((int)option->sharding != sharding) {
            continue;
        }
        for (int k = 0; k < option->shard_count; k++) {
            const ls_planner_shard *shard = &result->shards[t][k];
            group_load *rank = &scratch[shard->block.rank];
            rank->input_ms += shard->cost.input_comms_ms;
            rank->output_ms += output_comms_ms(&shard->cost);
            rank->gradients_ms += shard->cost.backward_comms_ms;
        }
    }
    group_load most = {0};
    for (int r = 0; r < problem->ranks; r++) {
        most.input_ms = fmax(most.input_ms, scratch[r].input_ms);
        most.output_ms = fmax(most.output_ms, scratch[r].output_ms);
        most.gradients_ms = fmax(most.gradients_ms, scratch[r].gradients_ms);
    }
    return most;
}

int ls_planner_stage_times(ls_planner_stages *out, const ls_planner_problem *problem,
                           const ls_planner_result *result) {
    LS_ASSERT(out && problem && result);
    if (problem->options.model != LS_PLANNER_LOCKSTEP || !result->found) {
        return LS_FAIL(LS_ERR_INVALID, "plan: stages have times under the model lockstep, and only "
                                       "where there is a plan");
    }
    bool used[LS_SHARDING_COUNT] = {false};
    for (int t = 0; t < problem->table_count; t++) {
        used[result->chosen[t]->sharding] = true;
    }
    group_load *scratch;
    LS_TRY(ls_alloc((void **)&scratch, (size_t)problem->ranks, sizeof(*scratch)));
    group_load sum = {0};
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        if (used[s]) {
            group_load most = load_of(problem, result, s, scratch);
            sum.input_ms += most.input_ms + problem->startup_parts[s].input;
            sum.output_ms += most.output_ms + problem->startup_parts[s].output;
            sum.gradients_ms += most.gradients_ms + problem->startup_parts[s].gradient;
        }
    }
    ls_free(scratch, (size_t)problem->ranks, sizeof(*scratch));
    for (int r = 0; r < problem->ranks; r++) {
        out[r] = (ls_planner_stages){.input_dist_ms = sum.input_ms,
                                     .lookup_ms = result->ranks[r].cost.forward_compute_ms,
                                     .output_dist_ms = sum.output_ms,
                                     .gradients_ms = sum.gradients_ms,
                                     .update_ms = result->ranks[r].cost.backward_compute_ms};
    }
    return LS_OK;
}
