// Facts about a run that trains tables, beside its stages: the norms of all gradients and weights
// of each step, and whether data parallel replicas are still equal.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "embedding/stages.h"
#include "kernels/element.h"
#include "runner/compare/case_run.h"

static bool is_stage(const ls_stage_entry *entry, int step, ls_stage stage, ls_stage_field field) {
    return entry->stage_of_tables == (int)stage && entry->field_of_tables == (int)field &&
           entry->step_of_tables == step;
}

// Whether every rank holds all of it: its gradients are reduced over the ranks.
static bool is_replica(const ls_stages *stages, int step, const ls_stage_entry *of) {
    for (int i = 0; i < ls_stages_count(stages); i++) {
        const ls_stage_entry *entry = ls_stages_at(stages, i);
        if (is_stage(entry, step, LS_STAGE_ALL_REDUCE, LS_STAGE_FIELD_GRADIENTS) &&
            strcmp(entry->table, of->table) == 0) {
            return true;
        }
    }
    return false;
}

// The sum of squares of an entry, of one rank or of all.
static double squares(const ls_stage_entry *entry, int ranks, bool one) {
    double sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const ls_stage_array *array = &entry->ranks[rank];
        size_t bytes = ls_dtype_bytes(entry->dtype);
        for (size_t i = 0; array->present && i < array->count; i++) {
            double value = ls_element_to_f64((const char *)array->data + i * bytes, entry->dtype);
            sum += value * value;
        }
        if (array->present && one) {
            break;
        }
    }
    return sum;
}

int ls_case__norms(ls_case_run *run) {
    const ls_scenario *scenario = run->scenario;
    const ls_stages *stages = run->simulated;
    if (scenario->draw > 0 || scenario->is_program || stages == NULL ||
        run->result.finding_count > 0 || !ls_scenario_runs(scenario, LS_TABLES_BACKWARD)) {
        return LS_OK;
    }
    int steps = scenario->train.steps, ranks = scenario->ranks;
    ls_step_norms *norms = ls_arena_alloc(run->arena, (size_t)steps, sizeof *norms);
    LS_TRY_MEMORY(norms != NULL);
    for (int step = 0; step < steps; step++) {
        double gradients = 0, weights = 0;
        for (int i = 0; i < ls_stages_count(stages); i++) {
            const ls_stage_entry *entry = ls_stages_at(stages, i);
            if (is_stage(entry, step, LS_STAGE_ALL_REDUCE, LS_STAGE_FIELD_GRADIENTS)) {
                gradients += squares(entry, ranks, true);
            } else if (is_stage(entry, step, LS_STAGE_LOOKUP_BACKWARD, LS_STAGE_FIELD_GRADIENTS)) {
                bool partial = is_replica(stages, step, entry);
                gradients += partial ? 0 : squares(entry, ranks, false);
            } else if (is_stage(entry, step, LS_STAGE_UPDATE, LS_STAGE_FIELD_WEIGHTS)) {
                weights += squares(entry, ranks, is_replica(stages, step, entry));
            }
        }
        norms[step] = (ls_step_norms){.gradients = sqrt(gradients), .weights = sqrt(weights)};
    }
    run->result.norms = norms;
    run->result.norm_count = steps;
    return LS_OK;
}

// ---- Replicas -----------------------------------------------------------------------------------
static bool same(const ls_stage_entry *entry, int a, int b) {
    const ls_stage_array *x = &entry->ranks[a], *y = &entry->ranks[b];
    return x->count == y->count &&
           memcmp(x->data, y->data, x->count * ls_dtype_bytes(entry->dtype)) == 0;
}

// The first rank with the values of the majority.
static int majority(const ls_stage_entry *entry, int ranks) {
    int best = 0, most = 0;
    for (int a = 0; a < ranks; a++) {
        int count = 0;
        for (int b = 0; b < ranks; b++) {
            count += same(entry, a, b);
        }
        best = count > most ? a : best;
        most = count > most ? count : most;
    }
    return best;
}

static const char *tell(const ls_case_run *run, const ls_stage_entry *entry, const char *who,
                        int right, int rank) {
    const ls_stage_array *a = &entry->ranks[right], *b = &entry->ranks[rank];
    size_t bytes = ls_dtype_bytes(entry->dtype), at = 0;
    size_t columns = a->shape.ndim == 2 ? (size_t)a->shape.dim[1] : 1;
    if (a->count != b->count) {
        return ls_arena_printf(run->arena, "%s: %s: ranks %d and %d hold %zu and %zu elements", who,
                               entry->key, right, rank, a->count, b->count);
    }
    while (memcmp((char *)a->data + at * bytes, (char *)b->data + at * bytes, bytes) == 0) {
        at++;
    }
    return ls_arena_printf(
        run->arena,
        "%s: %s: the replicas of ranks %d and %d differ, first in row %zu, column %zu: "
        "%.9g and %.9g",
        who, entry->key, right, rank, at / columns, at % columns,
        ls_element_to_f64((char *)a->data + at * bytes, entry->dtype),
        ls_element_to_f64((char *)b->data + at * bytes, entry->dtype));
}

static int check_replica(ls_finding *out, bool *found, const ls_case_run *run,
                         const ls_stage_entry *entry, const char *who) {
    int ranks = run->scenario->ranks, right = majority(entry, ranks);
    int *wrong = ls_arena_alloc(run->arena, (size_t)ranks, sizeof *wrong);
    *out = (ls_finding){.id = LS_FINDING_REPLICA_DIVERGED, .ranks = wrong, .where = ""};
    LS_TRY_MEMORY(wrong != NULL);
    for (int rank = 0; rank < ranks; rank++) {
        if (!same(entry, right, rank)) {
            wrong[out->rank_count++] = rank;
        }
    }
    *found = out->rank_count > 0;
    out->text = *found ? tell(run, entry, who, right, wrong[0]) : "";
    for (int t = 0; t < run->scenario->table_count && *found; t++) {
        const ls_scenario_table *table = &run->scenario->tables[t];
        if (strcmp(table->name, entry->table) == 0) {
            // The result outlives the scenario.
            out->where =
                ls_arena_strdup(run->arena, ls_scenario_where(run->scenario, &table->node));
        }
    }
    return out->text != NULL && out->where != NULL ? LS_OK : LS_ERR_MEMORY;
}

static bool on_all_ranks(const ls_stage_entry *entry, int ranks) {
    bool all = true;
    for (int rank = 0; rank < ranks; rank++) {
        all = all && entry->ranks[rank].present;
    }
    return all;
}

int ls_case__check_replicas(ls_finding *out, bool *found, const ls_case_run *run,
                            const ls_stages *stages, const char *who) {
    const ls_scenario *scenario = run->scenario;
    bool on = false;
    *found = false;
    LS_TRY(ls_spmd_check_on(&on, run->options->checks, LS_FINDING_REPLICA_DIVERGED));
    for (int step = 0; step < scenario->train.steps && on; step++) {
        for (int i = 0; i < ls_stages_count(stages) && !*found; i++) {
            const ls_stage_entry *entry = ls_stages_at(stages, i);
            if (is_stage(entry, step, LS_STAGE_UPDATE, LS_STAGE_FIELD_WEIGHTS) &&
                on_all_ranks(entry, scenario->ranks) && is_replica(stages, step, entry)) {
                LS_TRY(check_replica(out, found, run, entry, who));
            }
        }
    }
    return LS_OK;
}
