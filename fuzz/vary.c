// See vary.h.
#include "fuzz/scenario_text.h"
#include "fuzz/vary.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "embedding/checkpoint.h"
#include "embedding/stages.h"
#include "fuzz/shrink.h"
#include "fuzz/trial.h"
#include "runner/compare/stages.h"
#include "runner/plan/scenario_plan.h"
#include "runner/program/execute.h"
#include "runner/scenario/scenario.h"

// ---- Other forms --------------------------------------------------------------------------------
static int shard(json_t *scenario, const char *const *types, size_t type_count, size_t first) {
    json_t *tables = json_object_get(scenario, "tables");
    bool failed = false;
    for (size_t t = 0; t < json_array_size(tables); t++) {
        json_t *sharding = json_pack("{s:s}", "type", types[(first + t) % type_count]);
        failed |= json_object_set_new(json_array_get(tables, t), "sharding", sharding) != 0;
    }
    return failed ? LS_FAIL(LS_ERR_MEMORY, "cannot change a scenario") : LS_OK;
}

static int reverse(json_t *scenario) {
    json_t *tables = json_object_get(scenario, "tables"), *reversed = json_array();
    bool failed = false;
    for (size_t t = json_array_size(tables); t > 0; t--) {
        failed |= json_array_append(reversed, json_array_get(tables, t - 1)) != 0;
    }
    failed |= json_object_set_new(scenario, "tables", reversed) != 0;
    return failed ? LS_FAIL(LS_ERR_MEMORY, "cannot change a scenario") : LS_OK;
}

// One of the smaller meshes; false: there is none.
static bool take_ranks(json_t *scenario, uint64_t seed) {
    for (long which = (long)(seed % 7); which >= 0; which--) {
        if (ls_fuzz_shrink__fewer_ranks(scenario, which)) {
            return true;
        }
    }
    return false;
}

// The scenario of a changed tree; NULL: it is none.
static int parse_varied(ls_scenario **out, const json_t *tree, const ls_scenario *of,
                        const ls_run_options *options) {
    int status = ls_fuzz_parse(out, tree, of->file, options->allow_outside, NULL);
    return status == LS_ERR_FORMAT ? LS_OK : status;
}

// ---- Invariants ---------------------------------------------------------------------------------
// Where the outputs are to differ by the sharding: meanings that are chosen by name.
static bool depends_on_plan(const ls_scenario *scenario) {
    bool depends = scenario->quirks.grid_mean_not_divided ||
                   scenario->quirks.row_wise_mean_divides_others || scenario->is_program;
    for (int t = 0; t < scenario->table_count; t++) {
        const ls_scenario_table *table = &scenario->tables[t];
        depends = depends || table->mean_divisor == LS_MEAN_TORCHREC ||
                  table->quantise.order == LS_SHARD_THEN_QUANTISE ||
                  table->has_output_dtype;  // to which each shard rounds
    }
    return depends;
}

// Values whose parts are as many times the whole as there are ranks, each rounded.
static bool averages(const ls_placements *placements) {
    bool averages = false;
    for (int d = 0; d < placements->count; d++) {
        averages = averages ||
                   (placements->at[d].kind == LS_PLACE_PARTIAL && placements->at[d].op == LS_AVG);
    }
    return averages;
}

// Values whose sign a sum of parts does not keep, but a single part does.
static bool has_negative_zero(const ls_generator *values) {
    bool has = false;
    for (int64_t i = 0; values->reals != NULL && i < values->value_count; i++) {
        has = has || (values->reals[i] == 0 && signbit(values->reals[i]));
    }
    return has;
}

// Scenarios in which a rank's input depends on the others: ids drawn over a whole batch, tables on
// as many separate ranks, steps that use each rank's data as more than a part of the whole or sum
// in rank order.
static bool depends_on_ranks(const ls_scenario *scenario) {
    static const ls_step_kind whole[] = {
        LS_STEP_REDISTRIBUTE, LS_STEP_FULL,      LS_STEP_ADD,           LS_STEP_SUB,
        LS_STEP_MUL,          LS_STEP_SCALE,     LS_STEP_TRANSPOSE,     LS_STEP_CAT,
        LS_STEP_CHANGE,       LS_STEP_EMBEDDING, LS_STEP_CROSS_ENTROPY, LS_STEP_CHECK_EQUAL};
    bool depends = false;
    for (int f = 0; f < scenario->inputs.feature_count; f++) {
        depends = depends || scenario->inputs.features[f].ids.kind == LS_GENERATOR_REUSE;
    }
    for (int t = 0; t < scenario->table_count; t++) {
        depends = depends || scenario->tables[t].sharding.apart != NULL;
    }
    for (int t = 0; t < scenario->tensor_count; t++) {
        const ls_scenario_tensor *tensor = &scenario->tensors[t];
        depends = depends || tensor->parts != 0 || averages(&tensor->placements) ||
                  has_negative_zero(&tensor->values);
    }
    for (int s = 0; s < scenario->step_count; s++) {
        const ls_scenario_step *step = &scenario->steps[s];
        bool among = false;
        for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
            among = among || step->kind == whole[i];
        }
        depends = depends || !among ||
                  (step->kind == LS_STEP_REDISTRIBUTE && averages(&step->to.placements));
    }
    return depends;
}

static bool fits_variation(const ls_scenario *scenario, ls_fuzz_variation variation) {
    bool plan = !depends_on_plan(scenario);
    // The gradients that come from above are drawn in the order of the tables.
    bool reverses = scenario->table_count > 1 && !ls_scenario_runs(scenario, LS_TABLES_UPDATE);
    return variation == LS_FUZZ_FEWER ? scenario->ranks > 1 && (plan || scenario->is_program) &&
                                            !depends_on_ranks(scenario)
                                      : plan && (variation == LS_FUZZ_SHARDED || reverses);
}

// ---- Beside another run -------------------------------------------------------------------------
typedef struct other_outputs {
    const ls_scenario *scenario;
    const ls_stages *stages;
    int ranks;  // that both runs have
} other_outputs;

// Every sample's result is the same under every plan; after the first step's update no longer: sums
// are taken in other orders, and column blocks may have states of their own.
static bool is_output(const ls_scenario *scenario, const ls_stage_entry *entry) {
    for (int s = 0; s < scenario->step_count; s++) {
        if (scenario->steps[s].kind == LS_STEP_FULL &&
            strcmp(scenario->steps[s].name, entry->stage) == 0) {
            return true;
        }
    }
    return !scenario->is_program && entry->stage_of_tables == LS_STAGE_OUTPUT_DIST &&
           entry->step_of_tables == 0;
}

static int read_outputs(void *arg, const ls_stage_sink *sink) {
    const other_outputs *other = arg;
    for (int i = 0; i < ls_stages_count(other->stages); i++) {
        const ls_stage_entry *entry = ls_stages_at(other->stages, i);
        bool wanted = is_output(other->scenario, entry);
        for (int rank = 0; wanted && rank < other->ranks; rank++) {
            const ls_stage_output output = ls_stage_entry_output(entry, rank);
            LS_TRY(entry->ranks[rank].present ? sink->emit(sink->arg, &output) : LS_OK);
        }
    }
    return LS_OK;
}

static int simulate(ls_stages *stages, const ls_scenario *scenario) {
    const ls_world_options options = {.mesh = scenario->mesh, .seed = scenario->seed};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_arena *arena = NULL;
    ls_finding finding = {0};
    bool found = false;
    int status = ls_arena_create(&arena);
    status = status == LS_OK ? ls_world_create(&world, &options) : status;
    status = status == LS_OK ? ls_backend_kind_sim.open(&backend, world, NULL) : status;
    if (status == LS_OK) {
        const ls_stage_sink sink = ls_stages_sink(stages);
        const ls_execution execution = {.scenario = scenario, .backend = backend, .sink = &sink};
        status = ls_execute(&execution, arena, &finding, &found);
    }
    ls_backend_free(backend);
    ls_world_free(world);
    ls_arena_free(arena);
    return status;
}

// Judges `other` by the outputs of `scenario`.
static int run_beside(ls_results *results, const ls_scenario *scenario, const ls_scenario *other,
                      const ls_run_options *options) {
    ls_stages *stages = NULL;
    LS_TRY(ls_stages_create(&stages, scenario->ranks));
    int status = simulate(stages, scenario);
    if (status == LS_OK) {
        other_outputs outputs = {scenario, stages, other->ranks};
        const ls_imported imported = {.arg = &outputs, .read = read_outputs};
        const ls_real_source source = {.imported = &imported};
        status = ls_run_compared(results, other, &source, options);
    }
    ls_stages_free(stages);
    return status;
}

int ls_fuzz_vary(json_t **out, const json_t *tree, const ls_scenario *scenario,
                 ls_fuzz_variation variation, const char *type) {
    *out = NULL;
    if (!fits_variation(scenario, variation)) {
        return LS_OK;
    }
    json_t *changed = json_deep_copy(tree);
    int status;
    if (changed == NULL) {
        status = LS_FAIL(LS_ERR_MEMORY, "cannot copy a scenario");
    } else if (variation == LS_FUZZ_SHARDED) {
        status = shard(changed, &type, 1, 0);
    } else {
        status = variation == LS_FUZZ_REVERSED ? reverse(changed) : LS_OK;
    }
    if (status != LS_OK || (variation == LS_FUZZ_FEWER && !take_ranks(changed, scenario->seed))) {
        json_decref(changed);
        return status;
    }
    *out = changed;
    return LS_OK;
}

int ls_fuzz_run_varied(ls_results *results, bool *fits, const json_t *tree,
                       const ls_scenario *scenario, ls_fuzz_variation variation, const char *type,
                       const ls_run_options *options) {
    json_t *changed = NULL;
    ls_scenario *other = NULL;
    int status = ls_fuzz_vary(&changed, tree, scenario, variation, type);
    status = changed != NULL ? parse_varied(&other, changed, scenario, options) : status;
    *fits = other != NULL;
    status = *fits ? run_beside(results, scenario, other, options) : status;
    ls_scenario_free(other);
    json_decref(changed);
    return status == LS_ERR_FORMAT ? LS_OK : status;
}

// ---- Checkpoints --------------------------------------------------------------------------------
static bool cuts_columns(const ls_plan_table *table) {
    bool cut = false;
    for (int s = 0; s < table->shard_count; s++) {
        cut = cut || table->shards[s].columns < table->columns;
    }
    return cut;
}

// A state of one number for each row may change: those of column blocks are merged, and a mean in
// f64 of equal f64 values may be rounded.
static bool loses_states(const ls_checkpoint *from, const ls_plan *plan) {
    const ls_plan *own = ls_checkpoint_plan(from);
    bool loses = false;
    for (int t = 0; t < own->table_count; t++) {
        const ls_checkpoint_table *table = &ls_checkpoint_tables(from)[t];
        for (int a = 0; a < table->array_count; a++) {
            bool wide = table->arrays[a].dtype == LS_F64 && cuts_columns(&plan->tables[t]);
            loses = loses || (table->arrays[a].per_row && (wide || cuts_columns(&own->tables[t])));
        }
    }
    return loses;
}

static int compare_files(bool *same, const char *a, const char *b, const char *name,
                         ls_arena *arena) {
    char path[2][512], *text[2];
    size_t bytes[2];
    (void)snprintf(path[0], sizeof path[0], "%s/%s", a, name);
    (void)snprintf(path[1], sizeof path[1], "%s/%s", b, name);
    for (int i = 0; i < 2; i++) {
        LS_TRY(ls_file_read(&text[i], &bytes[i], arena, path[i], (size_t)1 << 30));
    }
    *same = bytes[0] == bytes[1] && memcmp(text[0], text[1], bytes[0]) == 0;
    return LS_OK;
}

// *out: the first file that is not the same in both, NULL: there is none.
static int compare_folders(const char **out, const char *a, const char *b, ls_arena *arena) {
    DIR *dir = opendir(a);
    int status = dir != NULL ? LS_OK : LS_FAIL(LS_ERR_IO, "cannot read folder '%s'", a);
    for (struct dirent *entry; status == LS_OK && *out == NULL && (entry = readdir(dir)) != NULL;) {
        bool same = true;
        if (entry->d_name[0] != '.') {
            status = compare_files(&same, a, b, entry->d_name, arena);
            *out = same ? NULL : ls_arena_strdup(arena, entry->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return status;
}

// From -> by `plan` -> back, in folders NAME-1, NAME-2.
static int reshard_back(const char **differs, const char *name, const ls_plan *plan,
                        ls_arena *arena) {
    char there[256], back[256];
    ls_checkpoint *from = NULL, *cut = NULL;
    (void)snprintf(there, sizeof there, "%s-1", name);
    (void)snprintf(back, sizeof back, "%s-2", name);
    int status = ls_checkpoint_open(&from, name);
    if (status == LS_OK && !loses_states(from, plan)) {
        status = ls_checkpoint_reshard(there, from, plan);
        status = status == LS_OK ? ls_checkpoint_open(&cut, there) : status;
        status =
            status == LS_OK ? ls_checkpoint_reshard(back, cut, ls_checkpoint_plan(from)) : status;
        status = status == LS_OK ? compare_folders(differs, name, back, arena) : status;
    }
    ls_checkpoint_free(cut);
    ls_checkpoint_free(from);
    return status;
}

// Another plan of the same tables; *other: the scenario that it borrows from, NULL: there is none.
static int make_plan(ls_plan *out, ls_scenario **other, const json_t *tree,
                     const ls_scenario *scenario, ls_arena *arena, const ls_run_options *options) {
    static const char *const types[] = {"row_wise",   "column_wise",    "data_parallel",
                                        "table_wise", "table_row_wise", "grid"};
    int status = LS_OK;
    for (size_t first = 0; status == LS_OK && *other == NULL && first < 6; first++) {
        json_t *changed = json_deep_copy(tree);
        status = changed != NULL ? shard(changed, types, 6, (size_t)scenario->seed + first)
                                 : LS_FAIL(LS_ERR_MEMORY, "cannot copy a scenario");
        if (status == LS_OK && scenario->seed % 2 == 0) {
            (void)take_ranks(changed, scenario->seed);
        }
        status = status == LS_OK ? parse_varied(other, changed, scenario, options) : status;
        json_decref(changed);
    }
    return status == LS_OK && *other != NULL ? ls_scenario_plan(out, *other, arena) : status;
}

int ls_fuzz_run_resharded(ls_results *results, bool *fits, const json_t *tree,
                          const ls_scenario *scenario, const ls_run_options *options) {
    static const char *const folders[] = {"", "-1", "-2"};
    ls_scenario *other = NULL;
    ls_plan plan;
    const char *differs = NULL;
    *fits =
        !scenario->is_program && options->checkpoint != NULL && !ls_scenario_quantises(scenario);
    if (!*fits) {
        return LS_OK;
    }
    int status = make_plan(&plan, &other, tree, scenario, results->arena, options);
    *fits = status == LS_OK && other != NULL;
    status = *fits ? ls_run_simulated(results, scenario, options) : status;
    if (status == LS_OK && *fits && results->cases[0].class_ != LS_CLASS_ERROR) {
        status = reshard_back(&differs, options->checkpoint, &plan, results->arena);
        results->cases[0].pass = results->cases[0].pass && status == LS_OK && differs == NULL;
        if (status != LS_OK) {
            results->cases[0].error = ls_arena_strdup(results->arena, ls_error_last()->text);
        } else if (differs != NULL) {
            results->cases[0].error =
                ls_arena_printf(results->arena, "%s is another after it", differs);
        }
    }
    for (int i = 0; i < 3; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s%s", options->checkpoint, folders[i]);
        (void)ls_file_remove_tree(path);
    }
    ls_scenario_free(other);
    return status == LS_ERR_MEMORY ? status : LS_OK;
}

int ls_fuzz_parse(ls_scenario **out, const json_t *scenario, const char *file, bool outside,
                  ls_text *errors) {
    const ls_scenario_options options = {.allow_outside = outside};
    ls_diagnostics *diagnostics = NULL;
    ls_text text = {0};
    *out = NULL;
    ls_fuzz_write(&text, scenario);
    int status = text.failed ? LS_FAIL(LS_ERR_MEMORY, "cannot write a scenario")
                             : ls_diagnostics_create(&diagnostics, file);
    if (status == LS_OK) {
        status =
            ls_scenario_parse(out, diagnostics, file, ls_text_string(&text), text.length, &options);
        if (status != LS_OK && errors != NULL) {
            ls_diagnostics_format(errors, diagnostics);
        }
    }
    ls_diagnostics_free(diagnostics);
    ls_text_free(&text);
    return status;
}
