// Trials: a scenario in one way, and how that ended.
#include "fuzz/trial.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/vary.h"
#include "runner/program/program.h"
#include "runner/scenario/scenario.h"

typedef enum way_kind { PLAIN, ORDER, SCHEDULE, VARIED, CHECKPOINT, PROOF, REAL } way_kind;

static const struct {
    way_kind kind;
    const char *name, *command;
    const char *what;           // the order, the sharding
    ls_schedule_kind schedule;  //
    ls_fuzz_variation variation;
} ways[] = {
    {PLAIN, "as it is", "lockstep run", "", 0, 0},
    {ORDER, "order ring", "lockstep run --order ring", "ring", 0, 0},
    {ORDER, "order tree", "lockstep run --order tree", "tree", 0, 0},
    {ORDER, "order ring, ll128", "lockstep run --order ring:proto=ll128", "ring:proto=ll128", 0, 0},
    {ORDER, "order tree, simple", "lockstep run --order tree:proto=simple", "tree:proto=simple", 0,
     0},
    {SCHEDULE, "random schedule", "lockstep run --schedule random", "", LS_SCHEDULE_RANDOM, 0},
    {SCHEDULE, "rank 0 last", "lockstep run --schedule delay", "", LS_SCHEDULE_DELAY, 0},
    {VARIED, "sharded data_parallel", "lockstep fuzz", "data_parallel", 0, LS_FUZZ_SHARDED},
    {VARIED, "sharded table_wise", "lockstep fuzz", "table_wise", 0, LS_FUZZ_SHARDED},
    {VARIED, "sharded row_wise", "lockstep fuzz", "row_wise", 0, LS_FUZZ_SHARDED},
    {VARIED, "sharded column_wise", "lockstep fuzz", "column_wise", 0, LS_FUZZ_SHARDED},
    {VARIED, "tables reversed", "lockstep fuzz", "", 0, LS_FUZZ_REVERSED},
    {VARIED, "on fewer ranks", "lockstep fuzz", "", 0, LS_FUZZ_FEWER},
    {CHECKPOINT, "resharded and back", "lockstep fuzz", "", 0, 0},
    {PROOF, "over a field", "lockstep prove", "", 0, 0},
    {REAL, "beside MPI", "lockstep compare --real mpi", "", 0, 0},
};

int ls_fuzz_way_count(void) {
    return (int)(sizeof ways / sizeof *ways);
}

const char *ls_fuzz_way_name(int way) {
    LS_ASSERT(way >= 0 && way < ls_fuzz_way_count());
    return ways[way].name;
}

const char *ls_fuzz_way_command(int way) {
    LS_ASSERT(way >= 0 && way < ls_fuzz_way_count());
    return ways[way].command;
}

bool ls_fuzz_way_real(int way) {
    LS_ASSERT(way >= 0 && way < ls_fuzz_way_count());
    return ways[way].kind == REAL;
}

bool ls_fuzz_way_turn(int way, uint32_t number) {
    uint32_t alike = 0, before = 0;
    LS_ASSERT(way >= 0 && way < ls_fuzz_way_count());
    if (ways[way].kind == SCHEDULE) {
        return true;
    }
    for (int i = 0; i < ls_fuzz_way_count(); i++) {
        bool is = ways[i].kind == ways[way].kind && ways[i].variation == ways[way].variation;
        alike += is;
        before += is && i < way;
    }
    return number % alike == before;
}

// ---- Results of a case --------------------------------------------------------------------------
// The text without what changes while a scenario shrinks: numbers and places.
static void sign(ls_fuzz_outcome *out, const char *kind, const char *text) {
    size_t at = 0;
    const char *colon = strstr(text, "error: ");
    text = colon != NULL ? colon : text;
    (void)snprintf(out->sign, sizeof out->sign, "%s: ", kind);
    at = strlen(out->sign);
    for (; *text != 0 && *text != '\n' && at + 1 < sizeof out->sign; text++) {
        if (!isdigit((unsigned char)*text)) {
            out->sign[at++] = *text;
        }
    }
    out->sign[at] = 0;
}

static const ls_stage_result *worst_stage(const ls_case_result *result) {
    const ls_stage_result *worst = NULL;
    for (int i = 0; i < result->stage_count; i++) {
        const ls_stage_result *stage = &result->stages[i];
        bool worse = worst == NULL || stage->class_ > worst->class_;
        worst = worse ? stage : worst;
    }
    return worst;
}

static uint64_t unjudged_of(const ls_case_result *result) {
    uint64_t count = 0;
    for (int i = 0; i < result->stage_count; i++) {
        count += result->stages[i].unjudged - result->stages[i].vacuous;
    }
    return count;
}

static void fail(ls_fuzz_outcome *out, const ls_case_result *result) {
    const ls_stage_result *stage = worst_stage(result);
    out->end = LS_FUZZ_FAILED;
    out->class_ = result->class_;
    if (result->finding_count > 0) {
        const ls_finding *finding = &result->findings[0];
        (void)snprintf(out->sign, sizeof out->sign, "finding %s", ls_finding_name(finding->id));
        (void)snprintf(out->text, sizeof out->text, "%s: %s", ls_finding_name(finding->id),
                       finding->text != NULL ? finding->text : "");
    } else if (result->error != NULL) {
        sign(out, ls_class_name(result->class_), result->error);
        (void)snprintf(out->text, sizeof out->text, "%s", result->error);
    } else if (stage != NULL && stage->class_ > LS_CLASS_BIT_EXACT) {
        (void)snprintf(out->sign, sizeof out->sign, "%s by %s", ls_class_name(stage->class_),
                       ls_judge_name(stage->judge));
        (void)snprintf(out->text, sizeof out->text, "%s is %s: %s", stage->name,
                       ls_class_name(stage->class_),
                       stage->divergence != NULL ? stage->divergence : "");
    } else {
        (void)snprintf(out->sign, sizeof out->sign, "unjudged");
        (void)snprintf(out->text, sizeof out->text, "%llu elements are judged by nothing",
                       (unsigned long long)unjudged_of(result));
    }
}

// An injected defect must be found, or the verdict must state its effect.
static void end_injected(ls_fuzz_outcome *out, const ls_case_result *result) {
    static const ls_fuzz_end ends[] = {
        [LS_UNNOTICED_MISSED] = LS_FUZZ_MISSED,
        [LS_UNNOTICED_HARMLESS] = LS_FUZZ_HARMLESS,
        [LS_UNNOTICED_ROUNDING] = LS_FUZZ_ROUNDING,
    };
    const ls_stage_result *stage = worst_stage(result);
    bool told = result->finding_count > 0 && result->findings[0].text != NULL;
    // Wrong, or worse than the scenario's checks let pass.
    bool judged = stage != NULL && !result->skipped && result->unnoticed == LS_UNNOTICED_NONE;
    if (result->class_ != LS_CLASS_ERROR && !result->pass && (told || judged)) {
        out->end = LS_FUZZ_FOUND;
        out->class_ = result->class_;
        (void)snprintf(out->sign, sizeof out->sign, "%s",
                       told ? ls_finding_name(result->findings[0].id)
                            : ls_judge_name(stage->judge));
    } else if (result->class_ != LS_CLASS_ERROR && !result->pass && !result->skipped &&
               result->unnoticed != LS_UNNOTICED_NONE) {
        out->end = ends[result->unnoticed];
    } else {
        fail(out, result);
        (void)snprintf(out->sign, sizeof out->sign, "injected, and %s",
                       result->pass ? "passes" : ls_class_name(result->class_));
    }
}

static void end_case(ls_fuzz_outcome *out, const ls_case_result *result,
                     const ls_scenario *scenario) {
    // Of tables there are elements of which nothing can be known.
    bool unjudged = scenario->is_program && unjudged_of(result) > 0;
    *out = (ls_fuzz_outcome){.end = LS_FUZZ_PASSED, .class_ = result->class_};
    if (result->environment) {
        fail(out, result);
        out->end = LS_FUZZ_ENVIRONMENT;
        out->injected = ls_scenario_injects(scenario);
    } else if (ls_scenario_injects(scenario)) {
        end_injected(out, result);
    } else if (result->skipped) {
        out->end = LS_FUZZ_NOTHING;
        (void)snprintf(out->text, sizeof out->text, "%s", result->skip_reason);
        if (unjudged) {
            fail(out, result);
        }
    } else if (!result->pass || unjudged) {
        fail(out, result);
    }
}

// ---- One trial ----------------------------------------------------------------------------------
static bool fits_way(const ls_scenario *scenario, int way) {
    bool injected = ls_scenario_injects(scenario);
    return ways[way].kind == PLAIN ||
           (!injected && (ways[way].kind != SCHEDULE || ls_program_has_ranks(scenario)));
}

static int run_way(ls_results *results, bool *fits, const json_t *tree, ls_scenario *scenario,
                   int way, const ls_run_options *options) {
    ls_run_options own = *options;
    own.checkpoint = NULL;
    *fits = fits_way(scenario, way);
    if (!*fits) {
        return LS_OK;
    }
    switch (ways[way].kind) {
    case ORDER:
        own.order = ways[way].what;
        return ls_run_simulated(results, scenario, &own);
    case SCHEDULE:
        own.schedule = ways[way].schedule;
        return ls_run_simulated(results, scenario, &own);
    case VARIED:
        return ls_fuzz_run_varied(results, fits, tree, scenario, ways[way].variation,
                                  ways[way].what, &own);
    case CHECKPOINT:
        return ls_fuzz_run_resharded(results, fits, tree, scenario, options);
    case REAL: {
        const ls_real_source source = {.backend = &ls_backend_kind_mpi};
        return ls_run_compared(results, scenario, &source, &own);
    }
    case PROOF:
        return ls_run_proved(results, scenario, &own);
    default:
        return ls_run_simulated(results, scenario, &own);
    }
}

// Runs it once: in a way, or, with way -1, over a field, with injected defects too.
static int try_once(ls_fuzz_outcome *out, const json_t *scenario, const char *file, int way,
                    const ls_run_options *options) {
    ls_scenario *parsed = NULL;
    ls_results *results = NULL;
    bool fits = way < 0;
    *out = (ls_fuzz_outcome){.end = LS_FUZZ_UNFIT};
    int status = ls_fuzz_parse(&parsed, scenario, file, options->allow_outside, NULL);
    if (status == LS_ERR_FORMAT || status == LS_ERR_IO) {
        return LS_OK;
    }
    status = status == LS_OK ? ls_results_create(&results, "fuzz") : status;
    if (status == LS_OK) {
        status = fits ? ls_run_proved(results, parsed, options)
                      : run_way(results, &fits, scenario, parsed, way, options);
    }
    if (status == LS_OK && fits && results->case_count == 1) {
        end_case(out, &results->cases[0], parsed);
    }
    ls_results_free(results);
    ls_scenario_free(parsed);
    return status;
}

int ls_fuzz_try(ls_fuzz_outcome *out, const json_t *scenario, const char *file, int way,
                const ls_run_options *options) {
    LS_ASSERT(way >= 0 && way < ls_fuzz_way_count());
    return try_once(out, scenario, file, way, options);
}

int ls_fuzz_prove(ls_fuzz_outcome *out, const json_t *scenario, const char *file,
                  const ls_run_options *options) {
    return try_once(out, scenario, file, -1, options);
}
