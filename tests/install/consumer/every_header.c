// Calls a function of every public header that declares functions, in C and C++: a user's build
// from outside of the project must have them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

static int failures;

static void check(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "does not hold: %s (%s)\n", what, ls_error_last()->text);
        failures++;
    }
}
#define CHECK(condition) check((condition), #condition)

static void try_base(const char *folder) {
    CHECK(strcmp(ls_version(), LS_VERSION) == 0 && LS_VERSION_NUMBER >= LS_VERSION_OF(0, 2, 0));
    CHECK(strcmp(ls_dtype_name(LS_BF16), "bf16") == 0 && ls_dtype_bytes(LS_BF16) == 2);
    CHECK(LS_FAIL(LS_ERR_IO, "%s is closed", folder) == LS_ERR_IO);
    CHECK(strstr(ls_error_last()->text, " is closed") != NULL);
    ls_text text;
    memset(&text, 0, sizeof text);
    CHECK(strlen(ls_text_string(&text)) == 0);
    ls_text_free(&text);
}

static void try_orders(void) {
    ls_order *order = NULL;
    CHECK(ls_order_parse(&order, "ring:proto=ll") == LS_OK);
    CHECK(strcmp(ls_order_text(order), "ring:proto=ll") == 0);
    ls_order_free(order);
}

static void try_tensors(void) {
    ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
    CHECK(optimizer.kind == LS_OPTIMIZER_SGD);
    ls_row_format format;
    memset(&format, 0, sizeof format);
    format.element = LS_ROW_INT4;
    ls_table quantised;
    memset(&quantised, 0, sizeof quantised);
    quantised.row_format = &format;
    ls_world_options options;
    memset(&options, 0, sizeof options);
    options.mesh.ndim = 1;
    options.mesh.dim[0] = 3;
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_local_tensor *tensor = NULL;
    ls_placements placements;
    ls_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.ndim = 1;
    shape.dim[0] = 7;
    CHECK(ls_world_create(&world, &options) == LS_OK);
    CHECK(ls_backend_sim_create(&backend, world) == LS_OK);
    CHECK(ls_placements_parse(&placements, "S(0)") == LS_OK);
    CHECK(ls_local_tensor_zeros(&tensor, world, &shape, LS_F32, &placements) == LS_OK);
    CHECK(tensor != NULL && ls_local_tensor_shard(tensor, 2, 0)->count == 1);
    ls_local_tensor_free(tensor);
    ls_backend_free(backend);
    ls_world_free(world);
}

static void try_planner(void) {
    CHECK(strcmp(ls_sharding_name(LS_ROW_WISE), "row_wise") == 0);
    ls_topology topology;
    CHECK(ls_topology_preset(&topology, "h100", 4, 0) == LS_OK);
    ls_planner_options options;
    memset(&options, 0, sizeof options);
    ls_planner_problem *problem = NULL;
    CHECK(ls_planner_problem_create(&problem, &topology, NULL, 0, &options) == LS_ERR_INVALID);
    ls_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.ranks = plan.ranks_per_host = 2;
    ls_text text;
    memset(&text, 0, sizeof text);
    CHECK(ls_plan_write(&text, &plan) == LS_OK && text.length > 0);
    ls_arena *arena = NULL;
    ls_text errors;
    memset(&errors, 0, sizeof errors);
    CHECK(ls_arena_create(&arena) == LS_OK);
    CHECK(ls_plan_read(&plan, arena, &errors, "a.plan", text.data, text.length) == LS_OK);
    CHECK(plan.ranks == 2);
    ls_arena_free(arena);
    ls_text_free(&errors);
    ls_text_free(&text);
}

static int no_block(void *arg, int table, int rank, int64_t row, int64_t rows, int64_t column,
                    int64_t columns, void *out) {
    (void)arg, (void)table, (void)rank, (void)row, (void)rows, (void)column, (void)columns;
    (void)out;
    return LS_OK;
}

static void try_embedding(void) {
    const char *keys[1] = {"f"};
    const int64_t lengths[2] = {1, 2}, ids[3] = {4, 5, 6};
    ls_keyed_jagged *jagged = NULL;
    CHECK(ls_keyed_jagged_create(&jagged, 0, keys, 1, 2, lengths, ids, 3, NULL) == LS_OK);
    ls_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.ranks = plan.ranks_per_host = 1;
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_embedding *module = NULL;
    ls_world_options ranks;
    ls_embedding_options made;
    ls_training training;
    memset(&ranks, 0, sizeof ranks);
    memset(&made, 0, sizeof made);
    memset(&training, 0, sizeof training);
    ranks.mesh.ndim = ranks.mesh.dim[0] = 1;
    made.plan = &plan;
    made.fill = no_block;
    CHECK(ls_world_create(&world, &ranks) == LS_OK);
    CHECK(ls_backend_sim_create(&backend, world) == LS_OK);
    CHECK(ls_embedding_create(&module, backend, &made) == LS_OK);
    CHECK(ls_embedding_prepare_training(module, &training) == LS_OK);
    CHECK(ls_embedding_bad_id(module) == NULL);
    ls_axis *axis = NULL;
    ls_local_tensor *out = NULL, *weight = NULL;
    ls_functional_options lookup;
    ls_placements rows;
    ls_shape shape;
    memset(&lookup, 0, sizeof lookup);
    memset(&shape, 0, sizeof shape);
    shape.ndim = 2;
    shape.dim[0] = shape.dim[1] = 2;
    CHECK(ls_placements_parse(&rows, "S(0)") == LS_OK);
    CHECK(ls_axis_create(&axis, backend, 0) == LS_OK);
    CHECK(ls_local_tensor_zeros(&weight, world, &shape, LS_F32, &rows) == LS_OK);
    CHECK(ls_tensor_embedding(&out, weight, weight, &lookup, axis) == LS_ERR_INVALID);
    ls_local_tensor_free(weight);
    ls_axis_free(axis);
    CHECK(ls_embedding_load(module, "/nonexistent") == LS_ERR_IO);
    ls_embedding_free(module);
    ls_backend_free(backend);
    ls_world_free(world);
    ls_keyed_jagged_free(jagged);
}

static const char scenario_text[] =
    "lockstep: 1\nname: sums\nmesh: {shape: [3]}\nprogram:\n  steps:\n"
    "    - all_reduce: {name: gradients, count: 5, op: sum}\n";

// A scenario: run, reported and kept.
static void try_runner(const char *folder) {
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    ls_results *results = NULL;
    ls_run_options options;
    memset(&options, 0, sizeof options);
    options.deadline_seconds = 60;
    options.keep_dir = folder;
    options.reproduce = "lockstep run";
    char path[512];
    snprintf(path, sizeof path, "%s/sums.yaml", folder);
    CHECK(ls_diagnostics_create(&diagnostics, path) == LS_OK);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(scenario_text, file) >= 0 && fclose(file) == 0);
    CHECK(ls_scenario_load(&scenario, diagnostics, path, NULL) == LS_OK);
    CHECK(ls_results_create(&results, "run") == LS_OK);
    if (scenario != NULL && results != NULL) {
        CHECK(ls_run_simulated(results, scenario, &options) == LS_OK);
        CHECK(ls_results_pass(results) && results->passed == 1);
        ls_text text;
        memset(&text, 0, sizeof text);
        CHECK(ls_report_json(&text, results) == LS_OK);
        CHECK(strstr(ls_text_string(&text), "\"verdict\": \"pass\"") != NULL);
        ls_text_free(&text);
        snprintf(path, sizeof path, "%s/sums/manifest.json", folder);
        FILE *manifest = fopen(path, "r");
        CHECK(manifest != NULL && fclose(manifest) == 0);
    }
    ls_results_free(results);
    ls_scenario_free(scenario);
    ls_diagnostics_free(diagnostics);
}

// Ranks run one at a time.
static int count_ranks(ls_rank *self, void *arg) {
    int *seen = (int *)arg;
    *seen += ls_rank_count(self);
    return LS_OK;
}

static void try_ranks(void) {
    CHECK(ls_backend_kind_named("sim") != NULL && ls_backend_kind_named("smi") == NULL);
    CHECK(strcmp(ls_finding_name(LS_FINDING_DEADLOCK_CYCLE), "deadlock.cycle") == 0);
    int seen = 0;
    ls_spmd_options options;
    memset(&options, 0, sizeof options);
    options.ranks = 2;
    ls_spmd_result *result = NULL;
    CHECK(ls_spmd_run(&result, count_ranks, &seen, &options) == LS_OK && seen == 4);
    ls_spmd_result_free(result);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    try_base(argv[1]);
    try_orders();
    try_tensors();
    try_planner();
    try_embedding();
    try_runner(argv[1]);
    try_ranks();
    return failures > 0;
}
