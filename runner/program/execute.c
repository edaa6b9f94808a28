// Executes a scenario: makes the plan and the inputs, then the embedding collection's stages or the
// program's steps.
#include "runner/program/execute.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/element.h"
#include "ranks/hooks.h"
#include "runner/scenario/inputs.h"
#include "runner/plan/scenario_plan.h"

// The pieces of a scenario with tables that both the run and its oracle need.
struct collection {
    ls_table *tables;
    ls_plan plan;
    const ls_keyed_jagged **inputs;  // [input_count]
    int input_count;
};

static int make_tables(struct collection *collection, const ls_scenario *scenario,
                       ls_arena *arena) {
    collection->tables =
        ls_arena_alloc(arena, (size_t)scenario->table_count, sizeof *collection->tables);
    if (collection->tables == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < scenario->table_count; i++) {
        const ls_scenario_table *table = &scenario->tables[i];
        collection->tables[i] = (ls_table){
            .name = table->name,
            .rows = table->rows,
            .dim = table->dim,
            .dtype = table->dtype,
            .pooling = table->pooling,
            .features = table->features.at,
            .feature_count = table->features.count,
            .weighted = scenario->inputs.weighted &&
                        (table->pooling == LS_POOL_SUM || table->pooling == LS_POOL_MEAN),
            .has_padding_id = table->padding_id >= 0,
            .padding_id = table->padding_id,
            .mean_divisor = table->mean_divisor,
        };
    }
    return LS_OK;
}

static void free_inputs(struct collection *collection) {
    for (int i = 0; i < collection->input_count; i++) {
        ls_keyed_jagged_free((ls_keyed_jagged *)(uintptr_t)collection->inputs[i]);
    }
    collection->input_count = 0;
}

// The inputs of `ranks` [count].
static int make_inputs(struct collection *collection, const ls_scenario *scenario, const int *ranks,
                       int count, ls_arena *arena) {
    collection->inputs = ls_arena_alloc(arena, (size_t)count, sizeof *collection->inputs);
    if (collection->inputs == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < count; i++) {
        ls_keyed_jagged *input = NULL;
        int status = ls_inputs_jagged(&input, scenario, ranks != NULL ? ranks[i] : i);
        if (status != LS_OK) {
            free_inputs(collection);
            return status;
        }
        collection->inputs[i] = input;
        collection->input_count += 1;
    }
    return LS_OK;
}

static int fill_block(void *arg, int table, int rank, int64_t row, int64_t rows, int64_t column,
                      int64_t columns, void *out) {
    (void)rank;
    return ls_inputs_weights(out, arg, table, row, rows, column, columns);
}

static int note_bad_id(const ls_embedding *module, const ls_scenario *scenario, ls_arena *arena,
                       ls_finding *finding, bool *found) {
    const ls_bad_id *bad = ls_embedding_bad_id(module);
    if (bad == NULL) {
        return LS_ERR_FINDING;
    }
    int *ranks = ls_arena_alloc(arena, 1, sizeof *ranks);
    const char *where = "";
    for (int i = 0; i < scenario->inputs.feature_count; i++) {
        const ls_scenario_feature *feature = &scenario->inputs.features[i];
        if (strcmp(feature->name, bad->feature) == 0) {
            where = ls_scenario_where(scenario, &feature->node);
        }
    }
    const char *text = ls_arena_printf(
        arena,
        "table %s, feature %s: rank %d, sample %" PRId64 ", position %" PRId64 ": id %" PRId64
        " is not among the table's %" PRId64
        " rows (set inputs.ids_out_of_range to clamp or wrap to let such ids pass)",
        bad->table, bad->feature, bad->rank, bad->sample, bad->position, bad->id, bad->rows);
    if (ranks == NULL || text == NULL) {
        return LS_ERR_MEMORY;
    }
    ranks[0] = bad->rank;
    *finding = (ls_finding){.id = LS_FINDING_INPUT_ID_OUT_OF_RANGE,
                            .ranks = ranks,
                            .rank_count = 1,
                            .where = where,
                            .text = text};
    *found = true;
    ls_hooks__before_stop();
    ls_gdb_hook_finding(NULL, finding);
    return LS_ERR_FINDING;
}

int ls_execute__embedding(const ls_execution *execution, ls_arena *arena, ls_finding *finding,
                          bool *found) {
    const ls_scenario *scenario = execution->scenario;
    ls_world *world = execution->backend->world;
    struct collection collection = {0};
    LS_TRY(make_tables(&collection, scenario, arena));
    if (execution->plan != NULL) {
        collection.plan = *execution->plan;
    } else {
        LS_TRY(ls_scenario_plan(&collection.plan, scenario, arena));
    }
    LS_TRY(make_inputs(&collection, scenario, ls_world_held(world), ls_world_held_count(world),
                       arena));
    const ls_embedding_options options = {
        .tables = collection.tables,
        .table_count = scenario->table_count,
        .plan = &collection.plan,
        .id_policy = scenario->inputs.ids_out_of_range,
        .quirks = scenario->quirks,
        .fill = fill_block,
        .fill_arg = (void *)(uintptr_t)scenario,
        // What a broken plan does to the results is for the comparison to find.
        .allow_broken_plan = true,
    };
    ls_embedding *module = NULL;
    ls_embedding_pass *pass = NULL;
    int status = ls_embedding_create(&module, execution->backend, &options);
    if (status == LS_OK) {
        status = ls_embedding_forward(&pass, module, collection.inputs, execution->sink);
    }
    if (status == LS_ERR_FINDING) {
        status = note_bad_id(module, scenario, arena, finding, found);
    }
    ls_embedding_pass_free(pass);
    ls_embedding_free(module);
    free_inputs(&collection);
    return status;
}

int ls_execute(const ls_execution *execution, ls_arena *arena, ls_finding *finding, bool *found) {
    *found = false;
    if (execution->scenario->is_program) {
        return ls_execute__program(execution, arena);
    }
    return ls_execute__embedding(execution, arena, finding, found);
}

static int oracle_row(void *arg, int table, int64_t row, double *out) {
    const ls_scenario *scenario = arg;
    const ls_scenario_table *of = &scenario->tables[table];
    size_t bytes = ls_dtype_bytes(of->dtype);
    void *values = NULL;
    LS_TRY(ls_alloc(&values, NULL, (size_t)of->dim, bytes));
    int status = ls_inputs_weights(values, scenario, table, row, 1, 0, of->dim);
    for (int64_t i = 0; status == LS_OK && i < of->dim; i++) {
        out[i] = ls_element_to_f64((const char *)values + (size_t)i * bytes, of->dtype);
    }
    ls_free(NULL, values, (size_t)of->dim, bytes);
    return status;
}

int ls_execute_oracle(ls_scenario_oracle **out, const ls_scenario *scenario, ls_arena *arena) {
    *out = NULL;
    ls_scenario_oracle *made = ls_arena_alloc(arena, 1, sizeof *made);
    struct collection *collection = ls_arena_alloc(arena, 1, sizeof *collection);
    if (made == NULL || collection == NULL) {
        return LS_ERR_MEMORY;
    }
    made->collection = collection;
    LS_TRY(make_tables(collection, scenario, arena));
    LS_TRY(ls_scenario_plan(&collection->plan, scenario, arena));
    LS_TRY(make_inputs(collection, scenario, NULL, scenario->ranks, arena));
    const ls_oracle_options options = {
        .tables = collection->tables,
        .table_count = scenario->table_count,
        .plan = &collection->plan,
        .id_policy = scenario->inputs.ids_out_of_range,
        .quirks = scenario->quirks,
        .inputs = collection->inputs,
        .row = oracle_row,
        .row_arg = (void *)(uintptr_t)scenario,
    };
    int status = ls_oracle_create(&made->oracle, &options);
    if (status != LS_OK) {
        free_inputs(collection);
        return status;
    }
    *out = made;
    return LS_OK;
}

void ls_execute_oracle_free(ls_scenario_oracle *oracle) {
    if (oracle != NULL) {
        ls_oracle_free(oracle->oracle);
        free_inputs(oracle->collection);
    }
}
