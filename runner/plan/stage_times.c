// Measures the steps of a plan and compares the times with the predicted ones. The file is in
// stage_times_file.c.
#include "runner/plan/stage_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "formats/json.h"

// ---- Measuring ----------------------------------------------------------------------------------
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The median of column `column` of seconds [LS_STAGE_TIMES_SAMPLES][columns].
static ls_stage_time summarise(const double *seconds, int columns, int column) {
    double own[LS_STAGE_TIMES_SAMPLES];
    for (int i = 0; i < LS_STAGE_TIMES_SAMPLES; i++) {
        own[i] = seconds[i * columns + column] * 1e3;
    }
    qsort(own, LS_STAGE_TIMES_SAMPLES, sizeof *own, ascending);
    return (ls_stage_time){.median_ms = own[LS_STAGE_TIMES_SAMPLES / 2], .least_ms = own[0]};
}

static void add_to_stage(ls_stage_times *times, int rank, ls_work_stage stage, ls_stage_time time) {
    ls_stage_time *sum = &times->stages[rank * LS_WORK_STAGE_COUNT + (int)stage];
    sum->median_ms += time.median_ms;
    sum->least_ms += time.least_ms;
}

static int measure_collective(ls_stage_times *out, const ls_work_collective *collective,
                              const ls_work_runner *runner, double *seconds, ls_arena *arena) {
    ls_work_time *step = &out->steps[out->step_count++];
    *step = (ls_work_time){.stage = collective->stage,
                           .what = collective->what,
                           .kind = ls_kind_name(collective->calls[0].kind)};
    step->sent_bytes = ls_arena_alloc(arena, (size_t)out->ranks, sizeof *step->sent_bytes);
    step->ranks = ls_arena_alloc(arena, (size_t)out->ranks, sizeof *step->ranks);
    LS_TRY_MEMORY(step->sent_bytes != NULL && step->ranks != NULL);
    LS_TRY(runner->collective(runner->arg, collective, seconds));
    for (int m = 0; m < collective->size; m++) {
        int rank = collective->calls[m].rank;
        step->sent_bytes[rank] = collective->send_bytes[m];
        step->ranks[rank] = summarise(seconds, collective->size, m);
        add_to_stage(out, rank, step->stage, step->ranks[rank]);
    }
    return LS_OK;
}

// The work of every rank.
static int measure_ranks(ls_stage_times *out, const ls_work *steps, const ls_work_runner *runner,
                         ls_work_stage stage, int (*work)(void *arg, double *samples),
                         double *seconds) {
    const char *name = ls_work_stage_name(stage);
    if (runner->progress != NULL) {
        runner->progress(name, steps->collective_count, steps->collective_count + 1);
    }
    if (work(runner->arg, seconds) != LS_OK) {
        return ls_error_wrap("timing %s", name);
    }
    for (int r = 0; r < out->ranks; r++) {
        add_to_stage(out, r, stage, summarise(seconds, out->ranks, r));
    }
    return LS_OK;
}

int ls_stage_times_measure(ls_stage_times *out, const ls_work *steps, const ls_plan *plan,
                           const ls_work_runner *runner, ls_arena *arena) {
    LS_ASSERT(out != NULL && steps != NULL && plan != NULL && runner != NULL);
    size_t ranks = (size_t)steps->ranks;
    *out = (ls_stage_times){.ranks = steps->ranks,
                            .seed = steps->scenario->seed,
                            .scenario = steps->scenario->name,
                            .backend = runner->backend,
                            .versions = runner->versions,
                            .plan = *plan,
                            .stage_count = steps->stage_count};
    out->stages = ls_arena_alloc(arena, ranks, LS_WORK_STAGE_COUNT * sizeof *out->stages);
    out->steps = ls_arena_alloc(arena, (size_t)steps->collective_count, sizeof *out->steps);
    double *seconds = ls_arena_alloc(arena, ranks, LS_STAGE_TIMES_SAMPLES * sizeof *seconds);
    LS_TRY_MEMORY(out->stages != NULL && out->steps != NULL && seconds != NULL);
    for (int i = 0; i < steps->collective_count; i++) {
        const ls_work_collective *collective = &steps->collectives[i];
        if (runner->progress != NULL) {
            runner->progress(collective->what, i, steps->collective_count + 1);
        }
        if (measure_collective(out, collective, runner, seconds, arena) != LS_OK) {
            return ls_error_wrap("timing %s %s", ls_work_stage_name(collective->stage),
                                 collective->what);
        }
    }
    if (steps->lookup_count > 0) {
        LS_TRY(measure_ranks(out, steps, runner, LS_WORK_LOOKUP, runner->lookups, seconds));
    }
    if (steps->update_count > 0) {
        LS_TRY(measure_ranks(out, steps, runner, LS_WORK_UPDATE, runner->updates, seconds));
    }
    return LS_OK;
}

int ls_stage_times_check(const ls_stage_times *times, const ls_scenario *scenario) {
    const ls_plan *plan = &times->plan;
    if (strcmp(times->scenario, scenario->name) != 0 || times->seed != scenario->seed) {
        return LS_FAIL(LS_ERR_INVALID,
                       "the times are of the scenario \"%s\" with seed %llu, not of \"%s\" with "
                       "seed %llu",
                       times->scenario, (unsigned long long)times->seed, scenario->name,
                       (unsigned long long)scenario->seed);
    }
    bool same = plan->ranks == scenario->ranks && plan->table_count == scenario->table_count &&
                plan->ranks_per_host == scenario->ranks_per_host;
    for (int t = 0; t < scenario->table_count && same; t++) {
        const ls_scenario_table *table = &scenario->tables[t];
        same = strcmp(plan->tables[t].name, table->name) == 0 &&
               plan->tables[t].rows == table->rows && plan->tables[t].columns == table->dim;
    }
    return same ? LS_OK
                : LS_FAIL(LS_ERR_INVALID,
                          "the times are of other tables or ranks than the scenario \"%s\" has",
                          scenario->name);
}

// ---- Reports ------------------------------------------------------------------------------------
static double predicted_ms(const ls_planner_stages *stages, int stage) {
    switch (stage) {
    case LS_WORK_INPUT_DIST:
        return stages->input_dist_ms;
    case LS_WORK_LOOKUP:
        return stages->lookup_ms;
    case LS_WORK_OUTPUT_DIST:
        return stages->output_dist_ms;
    case LS_WORK_GRADIENTS:
        return stages->gradients_ms;
    default:
        return stages->update_ms;
    }
}

typedef struct row {
    int rank;
    const char *stage;
    double predicted, median, least;
    bool known;    // there is a time to compare with
    double error;  // predicted / measured - 1
} row;

// Row stage_count of a rank is the sum of its stages.
static row row_of(const ls_stage_times *times, const ls_planner_stages *predicted, int rank,
                  int stage) {
    row out = {.rank = rank, .stage = "all stages"};
    bool all = stage == times->stage_count;
    if (!all) {
        out.stage = ls_work_stage_name((ls_work_stage)stage);
    }
    for (int s = all ? 0 : stage; s < (all ? times->stage_count : stage + 1); s++) {
        const ls_stage_time *time = &times->stages[rank * LS_WORK_STAGE_COUNT + s];
        out.predicted += predicted_ms(&predicted[rank], s);
        out.median += time->median_ms;
        out.least += time->least_ms;
    }
    out.known = out.median > 0;
    out.error = out.known ? out.predicted / out.median - 1 : 0;
    return out;
}

typedef struct summary {
    double mean, largest;  // of |error| over the rows of one stage
    int rows;
} summary;

static summary sum_up(const ls_stage_times *times, const ls_planner_stages *predicted, int stage) {
    summary out = {0};
    for (int r = 0; r < times->ranks; r++) {
        row one = row_of(times, predicted, r, stage);
        if (one.known) {
            out.mean += fabs(one.error);
            out.largest = fmax(out.largest, fabs(one.error));
            out.rows++;
        }
    }
    out.mean = out.rows > 0 ? out.mean / out.rows : 0;
    return out;
}

int ls_stage_times_report_text(ls_text *out, const ls_stage_times *times,
                               const ls_planner_stages *predicted, const char *machine) {
    LS_ASSERT(out != NULL && times != NULL && predicted != NULL);
    ls_text_printf(out, "%s: predicted for %s, measured on %s (median of %d)\n",
                   times->stage_count == LS_WORK_STAGE_COUNT ? "stages" : "forward stages", machine,
                   times->versions, LS_STAGE_TIMES_SAMPLES);
    ls_text_printf(out, "%6s  %-12s %14s %14s %14s %9s\n", "rank", "stage", "predicted ms",
                   "measured ms", "least ms", "error");
    for (int r = 0; r < times->ranks; r++) {
        for (int s = 0; s <= times->stage_count; s++) {
            row one = row_of(times, predicted, r, s);
            ls_text_printf(out, "%6d  %-12s %14.5f %14.5f %14.5f ", r, one.stage, one.predicted,
                           one.median, one.least);
            if (one.known) {
                ls_text_printf(out, "%+8.1f%%\n", 100 * one.error);
            } else {
                ls_text_printf(out, "%9s\n", "-");
            }
        }
    }
    for (int s = 0; s <= times->stage_count; s++) {
        summary all = sum_up(times, predicted, s);
        const char *name =
            s < times->stage_count ? ls_work_stage_name((ls_work_stage)s) : "all stages";
        ls_text_printf(out, "%-12s error: mean %.1f %%, largest %.1f %%\n", name, 100 * all.mean,
                       100 * all.largest);
    }
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the report") : LS_OK;
}

int ls_stage_times_report_json(ls_text *out, const ls_stage_times *times,
                               const ls_planner_stages *predicted, const char *machine) {
    LS_ASSERT(out != NULL && times != NULL && predicted != NULL);
    ls_json json;
    ls_json_report_begin(&json, out, 2, "plan");
    ls_json_member_string(&json, "verdict", "pass");
    ls_json_member_int(&json, "ranks", times->ranks);
    ls_json_member_string(&json, "topology", machine);
    ls_json_member_string(&json, "backend", times->backend);
    ls_json_member_string(&json, "versions", times->versions);
    ls_json_member_array(&json, "stages");
    for (int r = 0; r < times->ranks; r++) {
        for (int s = 0; s <= times->stage_count; s++) {
            row one = row_of(times, predicted, r, s);
            ls_json_object_open(&json);
            ls_json_member_int(&json, "rank", r);
            ls_json_member_string(&json, "stage", one.stage);
            ls_json_member_double(&json, "predicted_ms", one.predicted);
            ls_json_member_double(&json, "measured_ms", one.median);
            ls_json_member_double(&json, "least_ms", one.least);
            ls_json_key(&json, "error");
            if (one.known) {
                ls_json_double(&json, one.error);
            } else {
                ls_json_null(&json);
            }
            ls_json_object_close(&json);
        }
    }
    ls_json_array_close(&json);
    ls_json_report_end(&json);
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the report") : LS_OK;
}
