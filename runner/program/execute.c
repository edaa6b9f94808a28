// Executes a scenario with tables: creates the plan and the module, and runs the training steps.
// Programs are in program.c.
#include "runner/program/execute.h"

#include <inttypes.h>
#include <string.h>

#include "embedding/checkpoint.h"
#include "ranks/hooks.h"
#include "ranks/injected.h"
#include "runner/hooks.h"
#include "runner/program/tables.h"
#include "runner/scenario/inputs.h"
#include "runner/scenario/scenario_layout.h"
#include "runner/scenario/stage_names.h"

typedef struct run {
    const ls_execution *execution;
    ls_tables tables;
    ls_embedding *module;
    int step;
    ls_arena *arena;  // of the finding
    ls_finding *finding;
    bool *found;
    int filled;  // the table whose weights were filled last; -1: none
} run;

static int fill_block(void *arg, int table, int rank, int64_t row, int64_t rows, int64_t column,
                      int64_t columns, void *out) {
    run *r = arg;
    (void)rank;
    r->filled = table;
    return ls_inputs_weights(out, r->execution->scenario, table, row, rows, column, columns);
}

// An error of quantisation concerns the table that was filled last.
static int tell_place(const run *r, int status) {
    const ls_scenario *scenario = r->execution->scenario;
    if (status != LS_ERR_INVALID || r->filled < 0) {
        return status;
    }
    const ls_node *quantise = &scenario->tables[r->filled].quantise.node;
    return quantise->mark.line > 0 ? ls_error_wrap("%s:%d:%d: quantise", scenario->file,
                                                   quantise->mark.line, quantise->mark.column)
                                   : status;
}

// Faults of training belong to ranks, which then run as threads of a program.
static bool is_injected(void *arg, ls_fault_type fault, int rank) {
    const run *r = arg;
    LS_ASSERT(rank == ls_rank_id(r->execution->self));
    return ls_rank_injected(r->execution->self, fault, r->step);
}

static int note_bad_id(run *r) {
    const ls_scenario *scenario = r->execution->scenario;
    const ls_bad_id *bad = ls_embedding_bad_id(r->module);
    if (bad == NULL) {
        return LS_ERR_FINDING;
    }
    int *ranks = ls_arena_alloc(r->arena, 1, sizeof *ranks);
    const char *where = "";
    for (int i = 0; i < scenario->inputs.feature_count; i++) {
        const ls_scenario_feature *feature = &scenario->inputs.features[i];
        if (strcmp(feature->name, bad->feature) == 0) {
            where = ls_arena_strdup(r->arena, ls_scenario_where(scenario, &feature->node));
        }
    }
    const char *text =
        ls_arena_printf(r->arena,
                        "table %s, feature %s: rank %d, %s %" PRId64 ", position %" PRId64
                        ": id %" PRId64 " is not among the table's %" PRId64
                        " rows (set inputs.ids_out_of_range to clamp or wrap to let such ids pass)",
                        bad->table, bad->feature, bad->rank, bad->is_bag ? "bag" : "sample",
                        bad->sample, bad->position, bad->id, bad->rows);
    LS_TRY_MEMORY(ranks != NULL && text != NULL && where != NULL);
    ranks[0] = bad->rank;
    *r->finding = (ls_finding){.id = LS_FINDING_INPUT_ID_OUT_OF_RANGE,
                               .ranks = ranks,
                               .rank_count = 1,
                               .where = where,
                               .text = text};
    *r->found = true;
    ls_hooks__before_stop();
    ls_gdb_hook_finding(NULL, r->finding);
    return LS_ERR_FINDING;
}

// ---- Replicas -----------------------------------------------------------------------------------
static bool is_replica(const run *r, int table) {
    const ls_plan *plan = &r->tables.plan;
    for (int i = 0; i < plan->table_count; i++) {
        if (strcmp(plan->tables[i].name, r->tables.tables[table].name) == 0) {
            return plan->tables[i].sharding == LS_DATA_PARALLEL;
        }
    }
    return false;
}

// Data parallel tables are replicas: every update must leave the same values on all ranks. Ranks
// that run as threads check each other; otherwise the values after the update are compared.
static int check_replicas(const run *r) {
    const ls_execution *execution = r->execution;
    const ls_scenario *scenario = execution->scenario;
    for (int t = 0; t < scenario->table_count && execution->self != NULL; t++) {
        if (is_replica(r, t)) {
            const ls_table *config = &r->tables.tables[t];
            const ls_shard *shard =
                ls_embedding_shard(r->module, t, ls_rank_id(execution->self), 0);
            LS_TRY(ls_check_replica_at(
                scenario->file, scenario->tables[t].node.mark.line, shard->data, shard->count,
                config->row_format ? LS_U8 : config->dtype, ls_rank_world(execution->self)));
        }
    }
    return LS_OK;
}

// ---- Steps --------------------------------------------------------------------------------------
// The prefix of a step's stages, if there are several steps.
static int emit_of_step(void *arg, const ls_stage_output *output) {
    const run *r = arg;
    char stage[LS_STAGE_KEY_MAX];
    ls_scenario_stage_name(stage, sizeof stage, r->execution->scenario, r->step, output->stage);
    ls_stage_output named = *output;
    named.stage = stage;
    named.step_of_tables = r->step;
    return r->execution->sink->emit(r->execution->sink->arg, &named);
}

static void *room_of_step(void *arg, size_t bytes) {
    const ls_stage_sink *sink = ((const run *)arg)->execution->sink;
    return sink->room != NULL ? sink->room(sink->arg, bytes) : NULL;
}

static int train(run *r, ls_embedding_pass *pass, const ls_tables_feed *feed,
                 const ls_stage_sink *sink) {
    LS_TRY(ls_embedding_backward(pass, feed->gradients, &r->tables.training, sink));
    if (!ls_scenario_runs(r->execution->scenario, LS_TABLES_UPDATE)) {
        return LS_OK;
    }
    LS_TRY(ls_embedding_update(pass, sink));
    return check_replicas(r);
}

static bool is_one_step(const ls_execution *execution) {
    return execution->one_step || execution->forward_only || execution->scenario->train.steps == 1;
}

// One step's inputs and gradients, and its pass through the module.
typedef struct batch {
    ls_tables_feed feed;
    ls_embedding_pass *pass;
} batch;

// Feeds step `step` and starts its input_dist.
static int begin(run *r, batch *out, int step) {
    const ls_world *world = r->execution->backend->world;
    LS_TRY(ls_tables__feed(&out->feed, &r->tables, step, ls_world_held(world),
                           ls_world_held_count(world)));
    int status = ls_embedding_input_dist_start(&out->pass, r->module, out->feed.inputs);
    return status == LS_ERR_FINDING ? note_bad_id(r) : status;
}

static void batch_free(batch *b) {
    ls_embedding_pass_free(b->pass);
    ls_tables__feed_free(&b->feed);
    *b = (batch){0};
}

// *next: the batch of this step if the previous step has started it; then receives the next step's.
static int run_step(run *r, batch *next, int steps) {
    const ls_execution *execution = r->execution;
    const ls_world *world = execution->backend->world;
    bool several = !is_one_step(execution) && execution->sink != NULL;
    bool pipelined = execution->scenario->pipeline && steps > 1;
    const ls_stage_sink named = {.arg = r, .emit = emit_of_step, .room = room_of_step};
    const ls_stage_sink *sink = several ? &named : execution->sink;
    batch now = *next;
    *next = (batch){0};
    int status = LS_OK;
    if (!pipelined) {
        status = ls_tables__feed(&now.feed, &r->tables, r->step, ls_world_held(world),
                                 ls_world_held_count(world));
        if (status == LS_OK) {
            status = ls_embedding_forward(&now.pass, r->module, now.feed.inputs, sink);
            status = status == LS_ERR_FINDING ? note_bad_id(r) : status;
        }
    } else {
        status = r->step == 0 ? begin(r, &now, 0) : LS_OK;
        status = status == LS_OK ? ls_embedding_input_dist_wait(now.pass, sink) : status;
        if (status == LS_OK && r->step + 1 < steps) {
            status = begin(r, next, r->step + 1);
        }
        status = status == LS_OK ? ls_embedding_lookup(now.pass, sink) : status;
        status = status == LS_OK ? ls_embedding_output_dist(now.pass, sink) : status;
    }
    if (status == LS_OK && now.feed.gradients != NULL && !execution->forward_only) {
        status = train(r, now.pass, &now.feed, sink);
    }
    batch_free(&now);
    return status;
}

// Tables and states start from the scenario's checkpoint. A forward pass that is only counted needs
// no values.
static int start_from_checkpoint(const run *r) {
    const ls_execution *execution = r->execution;
    const ls_scenario *scenario = execution->scenario;
    if (scenario->checkpoint == NULL || execution->forward_only) {
        return LS_OK;
    }
    if (ls_scenario_runs(scenario, LS_TABLES_UPDATE)) {
        LS_TRY(ls_embedding_prepare_training(r->module, &r->tables.training));
    }
    if (ls_embedding_load(r->module, scenario->checkpoint) != LS_OK) {
        ls_mark mark = ls_node_mark(&scenario->node, "checkpoint");
        return ls_error_wrap("%s:%d:%d: checkpoint", scenario->file, mark.line, mark.column);
    }
    return LS_OK;
}

int ls_execute__embedding(const ls_execution *execution, ls_arena *arena, ls_finding *finding,
                          bool *found) {
    const ls_scenario *scenario = execution->scenario;
    run r = {
        .execution = execution, .arena = arena, .finding = finding, .found = found, .filled = -1};
    LS_TRY(ls_tables__make(&r.tables, scenario, execution->plan, arena));
    for (int t = 0; t < scenario->table_count; t++) {
        LS_TRY(ls_scenario_layout_check(&r.tables.plan.tables[t], scenario, &scenario->tables[t]));
    }
    for (int t = 0; t < scenario->table_count && execution->forward_only; t++) {
        r.tables.tables[t].max_norm = 0;
    }
    const ls_embedding_options options = {
        .tables = r.tables.tables,
        .table_count = scenario->table_count,
        .plan = &r.tables.plan,
        .id_policy = scenario->inputs.ids_out_of_range,
        .quirks = scenario->quirks,
        .fill = fill_block,
        .fill_arg = &r,
        // The comparison finds the effect of a broken plan.
        .allow_broken_plan = true,
    };
    int steps = is_one_step(execution) ? 1 : scenario->train.steps;
    int status = tell_place(&r, ls_embedding_create(&r.module, execution->backend, &options));
    if (status == LS_OK && execution->self != NULL) {
        ls_embedding_inject(r.module, is_injected, &r);
    }
    status = status == LS_OK ? start_from_checkpoint(&r) : status;
    batch next = {0};
    ls_gdb_execution seen = {
        .scenario = scenario, .self = execution->self, .module = &r.module, .step = &r.step};
    ls_hooks__execution_open(&seen);
    for (; r.step < steps && status == LS_OK; r.step++) {
        status = run_step(&r, &next, steps);
        if (status != LS_OK && scenario->train.steps > 1) {
            status = ls_error_wrap("step %d", r.step);
        }
    }
    ls_hooks__execution_close(&seen);
    batch_free(&next);
    if (status == LS_OK && execution->checkpoint != NULL) {
        status = ls_embedding_save(r.module, execution->checkpoint);
    }
    ls_embedding_free(r.module);
    return status;
}

int ls_execute(const ls_execution *execution, ls_arena *arena, ls_finding *finding, bool *found) {
    *found = false;
    if (execution->scenario->is_program) {
        return ls_execute__program(execution, arena);
    }
    return ls_execute__embedding(execution, arena, finding, found);
}
