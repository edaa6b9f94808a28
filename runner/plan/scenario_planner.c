// Measures a scenario's inputs and restates its tables for the planner.
#include "runner/plan/scenario_planner.h"

#include <math.h>
#include <string.h>

#include "base/time.h"
#include "runner/scenario/inputs.h"
#include "runner/scenario/scenario_layout.h"

// Ids of a feature of the first rank that are read even after the deadline.
#define IDS_ALWAYS 128

typedef struct measured {
    ls_id_list *tables;            // [tables] over the sampled ranks
    ls_id_list feature;            // of one rank
    double *pair_ids, *pair_bags;  // [pairs] over the sampled ranks
    int ranks;
} measured;

static int append(ls_id_list *list, const int64_t *values, size_t count) {
    if (list->count + count > list->capacity) {
        size_t capacity = 2 * (list->count + count);
        int64_t *grown;
        LS_TRY(ls_alloc((void **)&grown, capacity, sizeof(*grown)));
        if (list->count) {
            memcpy(grown, list->at, list->count * sizeof(*grown));
        }
        ls_free(list->at, list->capacity, sizeof(*grown));
        list->at = grown;
        list->capacity = capacity;
    }
    if (count) {
        memcpy(list->at + list->count, values, count * sizeof(*values));
    }
    list->count += count;
    return LS_OK;
}

// *cut: the deadline passed before all ids of a feature were read.
static int measure_rank(measured *m, bool *cut, const ls_scenario *scenario, int rank,
                        double deadline) {
    const ls_scenario_inputs *inputs = &scenario->inputs;
    for (int f = 0; f < inputs->feature_count; f++) {
        *cut = *cut || (!isinf(deadline) && ls_time_now() > deadline);
        LS_TRY(
            ls_inputs_list_ids(&m->feature, scenario, 0, rank, f, *cut ? IDS_ALWAYS : INT64_MAX));
        for (int p = 0; p < inputs->pair_count; p++) {
            if (inputs->pairs[p].feature == f) {
                m->pair_ids[p] += (double)m->feature.all;
                m->pair_bags[p] += (double)inputs->features[f].strides.at[rank];
                LS_TRY(append(&m->tables[inputs->pairs[p].table], m->feature.at, m->feature.count));
            }
        }
    }
    return LS_OK;
}

// The table's name in the planner.
static const char *optimizer_name(const ls_scenario *scenario, int table) {
    if (!ls_scenario_runs(scenario, LS_TABLES_UPDATE)) {
        return "none";
    }
    const ls_optimizer *optimizer = ls_scenario_optimizer_of(scenario, table);
    bool momentum = optimizer->kind == LS_OPTIMIZER_SGD && ls_optimizer_state_count(optimizer) > 0;
    return momentum ? "momentum_sgd" : ls_optimizer_about(optimizer->kind)->name;
}

static int copy_ranks(const int **out, int *count, const ls_int_list *from, ls_arena *arena) {
    int *ranks = ls_arena_alloc(arena, (size_t)from->count + 1, sizeof(*ranks));
    LS_TRY_MEMORY(ranks != NULL);
    for (int i = 0; i < from->count; i++) {
        ranks[i] = (int)from->at[i];
    }
    *out = ranks;
    *count = from->count;
    return LS_OK;
}

// Keeps the key's values: the blocks as given, or only the type and the kernel.
static int set_constraints(ls_planner_table *out, const ls_scenario *scenario,
                           const ls_scenario_table *table, ls_arena *arena) {
    const ls_scenario_sharding *sharding = &table->sharding;
    if (ls_scenario_layout_given(table)) {
        ls_plan_table *layout = ls_arena_alloc(arena, 1, sizeof(*layout));
        LS_TRY_MEMORY(layout != NULL);
        out->layout = layout;
        return ls_scenario_layout(layout, scenario, table, arena);
    }
    out->shardings = sharding->allowed;
    for (int i = 0; i < sharding->kernels.count; i++) {
        ls_planner_kernel kernel;
        LS_TRY(ls_planner_kernel_parse(&kernel, sharding->kernels.at[i]));
        out->kernels |= 1u << kernel;
    }
    out->columns_min = sharding->columns_min;
    out->together = sharding->together;
    out->apart = sharding->apart;
    LS_TRY(copy_ranks(&out->ranks, &out->rank_count, &sharding->only_ranks, arena));
    return copy_ranks(&out->forbidden, &out->forbidden_count, &sharding->not_ranks, arena);
}

static int make_table(ls_planner_table *out, const ls_scenario *scenario, int index,
                      const measured *m, ls_arena *arena) {
    const ls_scenario_table *table = &scenario->tables[index];
    ls_planner_profile *profile = ls_arena_alloc(arena, 1, sizeof(*profile));
    size_t most = (size_t)table->features.count;
    ls_planner_feature *features = ls_arena_alloc(arena, most ? most : 1, sizeof(*features));
    LS_TRY_MEMORY(profile != NULL && features != NULL);
    LS_TRY(
        ls_planner_profile_make(profile, m->tables[index].at, m->tables[index].count, table->rows));
    const ls_table config = ls_scenario_table_config(scenario, index);
    *out = (ls_planner_table){
        .name = table->name,
        .module = table->module,
        .rows = table->rows,
        .columns = table->dim,
        .element_bytes = (int)ls_dtype_bytes(table->dtype),
        .row_format = config.row_format,
        .output_bytes = (int)ls_dtype_bytes(ls_table_output_dtype(&config)),
        .sequence = table->pooling == LS_POOL_NONE,
        .weighted = config.weighted,
        .optimizer = optimizer_name(scenario, index),
        .features = features,
        .profile = profile,
    };
    for (int p = 0; p < scenario->inputs.pair_count; p++) {
        if (scenario->inputs.pairs[p].table == index) {
            double bags = m->pair_bags[p] > 0.0 ? m->pair_bags[p] : 1.0;
            LS_ASSERT((size_t)out->feature_count < most);
            features[out->feature_count++] = (ls_planner_feature){
                .pooling = m->pair_ids[p] / bags, .poolings = 1.0, .batch = bags / m->ranks};
        }
    }
    if (set_constraints(out, scenario, table, arena) != LS_OK) {
        return ls_error_wrap("%s: table %s", ls_scenario_where(scenario, &table->node),
                             table->name);
    }
    return out->layout != NULL ? ls_scenario_layout_check(out->layout, scenario, table) : LS_OK;
}

// The first rank always, and others while another one of the same duration fits.
static int measure(measured *m, bool *cut, const ls_scenario *scenario, double deadline) {
    int most =
        scenario->ranks < LS_PLANNER_SAMPLED_RANKS ? scenario->ranks : LS_PLANNER_SAMPLED_RANKS;
    double started = isinf(deadline) ? 0.0 : ls_time_now();
    *cut = false;
    while (m->ranks < most && !*cut) {
        LS_TRY(measure_rank(m, cut, scenario, m->ranks, m->ranks == 0 ? deadline : INFINITY));
        m->ranks++;
        if (!isinf(deadline) && !*cut) {
            double at = ls_time_now();
            *cut = m->ranks < most && at + (at - started) / m->ranks > deadline;
        }
    }
    return LS_OK;
}

static int make_tables(ls_planner_table **tables, const ls_scenario *scenario, measured *m,
                       ls_arena *arena) {
    size_t count = (size_t)scenario->table_count;
    *tables = ls_arena_alloc(arena, count, sizeof(**tables));
    LS_TRY_MEMORY(*tables != NULL);
    for (int i = 0; i < scenario->table_count; i++) {
        LS_TRY(make_table(&(*tables)[i], scenario, i, m, arena));
    }
    return LS_OK;
}

int ls_scenario_planner_tables(ls_planner_table **tables, bool *cut, const ls_scenario *scenario,
                               double deadline, ls_arena *arena) {
    LS_ASSERT(tables && cut && scenario && arena);
    if (scenario->table_count < 1) {
        return LS_FAIL(LS_ERR_INVALID, "%s: a scenario without tables has nothing to plan",
                       scenario->file);
    }
    size_t pairs = (size_t)scenario->inputs.pair_count;
    measured m = {0};
    m.tables = ls_arena_alloc(arena, (size_t)scenario->table_count, sizeof(*m.tables));
    m.pair_ids = ls_arena_alloc(arena, pairs ? pairs : 1, sizeof(double));
    m.pair_bags = ls_arena_alloc(arena, pairs ? pairs : 1, sizeof(double));
    LS_TRY_MEMORY(m.tables != NULL && m.pair_ids != NULL && m.pair_bags != NULL);
    int status = measure(&m, cut, scenario, deadline);
    status = status == LS_OK ? make_tables(tables, scenario, &m, arena) : status;
    for (int i = 0; i < scenario->table_count; i++) {
        ls_free(m.tables[i].at, m.tables[i].capacity, sizeof(int64_t));
    }
    ls_free(m.feature.at, m.feature.capacity, sizeof(int64_t));
    return status;
}
