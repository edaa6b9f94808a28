// A scenario's tables, their plan and training, and the inputs of each step. See tables.h.
#include "runner/program/tables.h"

#include <string.h>

#include "runner/plan/scenario_plan.h"
#include "runner/scenario/inputs.h"

int ls_tables__make(ls_tables *out, const ls_scenario *scenario, const ls_plan *plan,
                    ls_arena *arena) {
    size_t count = (size_t)scenario->table_count;
    ls_optimizer *optimizers = ls_arena_alloc(arena, count, sizeof *optimizers);
    *out = (ls_tables){.scenario = scenario};
    out->tables = ls_arena_alloc(arena, count, sizeof *out->tables);
    LS_TRY_MEMORY(out->tables != NULL && optimizers != NULL);
    bool updates = ls_scenario_runs(scenario, LS_TABLES_UPDATE);
    for (int t = 0; t < scenario->table_count; t++) {
        out->tables[t] = ls_scenario_table_config(scenario, t);
        // Without an update, an optimizer without a state is enough.
        optimizers[t] = updates ? *ls_scenario_optimizer_of(scenario, t)
                                : ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
    }
    out->training = (ls_training){.optimizers = optimizers,
                                  .division = scenario->train.gradient_division,
                                  .clip_norm = scenario->train.clip_norm};
    if (plan != NULL) {
        out->plan = *plan;
        return LS_OK;
    }
    return ls_scenario_plan(&out->plan, scenario, arena);
}

// ---- Input of a step ----------------------------------------------------------------------------
static int make_inputs(ls_tables_feed *out, const ls_scenario *scenario, int step, const int *ranks,
                       int count) {
    out->inputs = ls_arena_alloc(out->arena, (size_t)count, sizeof *out->inputs);
    LS_TRY_MEMORY(out->inputs != NULL);
    for (int i = 0; i < count; i++) {
        ls_keyed_jagged *input = NULL;
        LS_TRY(ls_inputs_jagged(&input, scenario, step, ranks != NULL ? ranks[i] : i));
        out->inputs[i] = input;
        out->rank_count += 1;
    }
    return LS_OK;
}

// The gradient of the output of a table and feature, of the output's shape and type.
static int make_gradient(const void **out, const ls_scenario *scenario, int step,
                         const ls_keyed_jagged *input, int pair, ls_arena *arena) {
    const ls_scenario_pair *of = &scenario->inputs.pairs[pair];
    const ls_table table = ls_scenario_table_config(scenario, of->table);
    bool sequence = table.pooling == LS_POOL_NONE;
    ls_dtype dtype = ls_table_output_dtype(&table);
    ls_jagged bags = ls_keyed_jagged_feature(input, of->feature);
    int64_t rows = sequence ? ls_jagged_sample_ids(&bags) : bags.samples;
    size_t elements = 0;
    LS_TRY(ls_size_mul(&elements, (size_t)rows, (size_t)table.dim));
    void *gradient = ls_arena_alloc(arena, elements > 0 ? elements : 1, ls_dtype_bytes(dtype));
    LS_TRY_MEMORY(gradient != NULL);
    *out = gradient;
    return ls_inputs_gradient(gradient, scenario, step, input->rank, pair, dtype, elements);
}

static int make_gradients(ls_tables_feed *out, const ls_scenario *scenario, int step) {
    size_t pairs = (size_t)scenario->inputs.pair_count;
    out->gradients = ls_arena_alloc(out->arena, (size_t)out->rank_count, sizeof *out->gradients);
    LS_TRY_MEMORY(out->gradients != NULL);
    for (int i = 0; i < out->rank_count; i++) {
        const void **of_rank = ls_arena_alloc(out->arena, pairs, sizeof *of_rank);
        LS_TRY_MEMORY(of_rank != NULL);
        out->gradients[i] = of_rank;
        for (int p = 0; p < (int)pairs; p++) {
            LS_TRY(make_gradient(&of_rank[p], scenario, step, out->inputs[i], p, out->arena));
        }
    }
    return LS_OK;
}

int ls_tables__feed(ls_tables_feed *out, const ls_tables *tables, int step, const int *ranks,
                    int count) {
    const ls_scenario *scenario = tables->scenario;
    *out = (ls_tables_feed){0};
    LS_TRY(ls_arena_create(&out->arena));
    LS_TRY(make_inputs(out, scenario, step, ranks, count));
    return ls_scenario_runs(scenario, LS_TABLES_BACKWARD) ? make_gradients(out, scenario, step)
                                                          : LS_OK;
}

void ls_tables__feed_free(ls_tables_feed *feed) {
    for (int i = 0; i < feed->rank_count; i++) {
        ls_keyed_jagged_free((ls_keyed_jagged *)(uintptr_t)feed->inputs[i]);
    }
    ls_arena_free(feed->arena);
    *feed = (ls_tables_feed){0};
}
