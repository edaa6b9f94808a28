// The oracles of a scenario with tables: one for each training step. Each starts from the weights
// that the one before expects after its update. See execute.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embedding/checkpoint.h"
#include "oracle/oracle.h"
#include "embedding/stages.h"
#include "kernels/element.h"
#include "runner/program/tables.h"
#include "runner/scenario/inputs.h"

struct ls_scenario_oracle {
    ls_tables tables;
    int step_count;
    ls_tables_feed *feeds;        // [step_count]
    ls_oracle **steps;            // [step_count]
    ls_checkpoint *checkpoint;    // of the first step; NULL: none
    ls_checkpoint_place *places;  // [tables] in it
};

// The values of one row in the checkpoint.
static int checkpoint_row(const ls_scenario_oracle *made, int table, int array, ls_plan_shard block,
                          double *out) {
    const ls_checkpoint_place *place = &made->places[table];
    const ls_checkpoint_array *about =
        &ls_checkpoint_tables(made->checkpoint)[place->table].arrays[place->arrays[array]];
    size_t bytes = ls_dtype_bytes(about->dtype);
    void *values = NULL;
    LS_TRY(ls_alloc(&values, (size_t)block.columns, bytes));
    int status =
        ls_checkpoint_read(made->checkpoint, place->table, place->arrays[array], &block, values);
    for (int64_t i = 0; status == LS_OK && i < (about->per_row ? 1 : block.columns); i++) {
        out[i] = ls_element_to_f64((const char *)values + (size_t)i * bytes, about->dtype);
    }
    ls_free(values, (size_t)block.columns, bytes);
    return status;
}

static ls_plan_shard row_block(int64_t row, int64_t column, int64_t columns) {
    return (ls_plan_shard){
        .row_offset = row, .rows = 1, .column_offset = column, .columns = columns};
}

static int oracle_state(void *arg, int table, int state, int64_t row, int64_t column,
                        int64_t columns, double *out) {
    return checkpoint_row(arg, table, 1 + state, row_block(row, column, columns), out);
}

static int oracle_row(void *arg, int table, int64_t row, int64_t column, int64_t columns,
                      double *out) {
    const ls_scenario_oracle *made = arg;
    const ls_scenario *scenario = made->tables.scenario;
    if (made->checkpoint != NULL) {
        return checkpoint_row(made, table, 0, row_block(row, column, columns), out);
    }
    const ls_scenario_table *of = &scenario->tables[table];
    size_t bytes = ls_dtype_bytes(of->dtype);
    void *values = NULL;
    LS_TRY(ls_alloc(&values, (size_t)columns, bytes));
    int status = ls_inputs_weights(values, scenario, table, row, 1, column, columns);
    for (int64_t i = 0; status == LS_OK && i < columns; i++) {
        out[i] = ls_element_to_f64((const char *)values + (size_t)i * bytes, of->dtype);
    }
    ls_free(values, (size_t)columns, bytes);
    return status;
}

static int open_checkpoint(ls_scenario_oracle *made, ls_arena *arena) {
    const ls_scenario *scenario = made->tables.scenario;
    bool update = ls_scenario_runs(scenario, LS_TABLES_UPDATE);
    if (scenario->checkpoint == NULL) {
        return LS_OK;
    }
    made->places = ls_arena_alloc(arena, (size_t)scenario->table_count, sizeof *made->places);
    LS_TRY_MEMORY(made->places != NULL);
    LS_TRY(ls_checkpoint_open(&made->checkpoint, scenario->checkpoint));
    for (int t = 0; t < scenario->table_count; t++) {
        LS_TRY(ls_checkpoint_find(&made->places[t], made->checkpoint, &made->tables.tables[t],
                                  update ? &made->tables.training.optimizers[t] : NULL));
    }
    return LS_OK;
}

static int make_step(ls_scenario_oracle *made, int step, ls_oracle_options *options) {
    ls_tables_feed *feed = &made->feeds[step];
    LS_TRY(ls_tables__feed(feed, &made->tables, step, NULL, made->tables.scenario->ranks));
    options->inputs = feed->inputs;
    options->gradients = feed->gradients;
    options->training = feed->gradients != NULL ? &made->tables.training : NULL;
    options->backward_only = !ls_scenario_runs(made->tables.scenario, LS_TABLES_UPDATE);
    options->previous = step > 0 ? made->steps[step - 1] : NULL;
    return ls_oracle_create(&made->steps[step], options);
}

static int make(ls_scenario_oracle *made, ls_arena *arena) {
    const ls_scenario *scenario = made->tables.scenario;
    size_t steps = (size_t)scenario->train.steps;
    made->feeds = ls_arena_alloc(arena, steps, sizeof *made->feeds);
    made->steps = ls_arena_alloc(arena, steps, sizeof *made->steps);
    LS_TRY_MEMORY(made->feeds != NULL && made->steps != NULL);
    made->step_count = scenario->train.steps;
    LS_TRY(open_checkpoint(made, arena));
    ls_oracle_options options = {
        .tables = made->tables.tables,
        .table_count = scenario->table_count,
        .plan = &made->tables.plan,
        .id_policy = scenario->inputs.ids_out_of_range,
        .quirks = scenario->quirks,
        .row = oracle_row,
        .row_arg = made,
        .state = made->checkpoint != NULL ? oracle_state : NULL,
        .first_step = scenario->first_step,
    };
    for (int step = 0; step < made->step_count; step++) {
        LS_TRY(make_step(made, step, &options));
    }
    return LS_OK;
}

int ls_execute_oracle(ls_scenario_oracle **out, const ls_scenario *scenario, ls_arena *arena) {
    *out = NULL;
    ls_scenario_oracle *made = ls_arena_alloc(arena, 1, sizeof *made);
    LS_TRY_MEMORY(made != NULL);
    LS_TRY(ls_tables__make(&made->tables, scenario, NULL, arena));
    int status = make(made, arena);
    if (status != LS_OK) {
        ls_execute_oracle_free(made);
        return status;
    }
    *out = made;
    return LS_OK;
}

void ls_execute_oracle_free(ls_scenario_oracle *oracle) {
    for (int step = oracle != NULL ? oracle->step_count : 0; step-- > 0;) {  // the last one first
        ls_oracle_free(oracle->steps[step]);
        ls_tables__feed_free(&oracle->feeds[step]);
    }
    if (oracle != NULL) {
        ls_checkpoint_free(oracle->checkpoint);
    }
}

const ls_scenario *ls_execute_oracle_scenario(const ls_scenario_oracle *oracle) {
    return oracle->tables.scenario;
}

int ls_execute_oracle_steps(const ls_scenario_oracle *oracle) {
    return oracle->step_count;
}

const ls_oracle *ls_execute_oracle_step(const ls_scenario_oracle *oracle, int step) {
    LS_ASSERT(step >= 0 && step < oracle->step_count);
    return oracle->steps[step];
}

const ls_oracle *ls_execute_oracle_of(const ls_scenario_oracle *oracle, ls_stage_output *output) {
    if (output->stage_of_tables == LS_STAGE_NONE || output->step_of_tables >= oracle->step_count) {
        return oracle->steps[0];
    }
    output->stage = ls_stage_name((ls_stage)output->stage_of_tables);
    return oracle->steps[output->step_of_tables];
}
