// Judges real runs of scenarios that inject defects.
#include "runner/launch/injected.h"

#include <string.h>

#include "runner/program/program.h"

typedef struct outcome {
    bool found;  // a rank reported a finding, or died of the injected defect
    ls_finding finding;
    bool hung;  // every rank stays where the simulation stays
} outcome;

static bool are(const int *ranks, int count, const ls_finding *of) {
    return count == of->rank_count &&
           (count == 0 || memcmp(ranks, of->ranks, (size_t)count * sizeof *ranks) == 0);
}

// A real call checks only its members.
static bool same_ranks(const ls_finding *simulated, const ls_finding *real) {
    return are(simulated->ranks, simulated->rank_count, real) ||
           (simulated->others != NULL && are(simulated->others, simulated->other_count, real));
}

// Findings that a waiting rank cannot distinguish from a slow machine: the real run hangs.
static bool hangs(ls_finding_id id) {
    switch (id) {
    case LS_FINDING_DEADLOCK_CYCLE:
    case LS_FINDING_DEADLOCK_CROSS_COMMUNICATOR:
    case LS_FINDING_MISSING_RANK:
    case LS_FINDING_EXTRA_CALL:
    case LS_FINDING_ORDER_MISMATCH:
    case LS_FINDING_PURPOSE_MISMATCH:
    case LS_FINDING_P2P_UNMATCHED_SEND:
    case LS_FINDING_P2P_UNMATCHED_RECV:
    case LS_FINDING_P2P_ORDER_MISMATCH:
    case LS_FINDING_RANK_EXITED_EARLY:
        return true;
    default:
        return false;
    }
}

static bool disagreement(ls_finding_id id) {
    return id == LS_FINDING_KIND_MISMATCH || id == LS_FINDING_COUNT_MISMATCH ||
           id == LS_FINDING_DTYPE_MISMATCH || id == LS_FINDING_OP_MISMATCH ||
           id == LS_FINDING_ROOT_MISMATCH || id == LS_FINDING_SPLIT_MISMATCH ||
           id == LS_FINDING_P2P_COUNT_MISMATCH || id == LS_FINDING_P2P_DTYPE_MISMATCH;
}

// A real run ends at the first call that does not match. The simulation continues and finds that a
// call was skipped, repeated or moved.
static bool seen_from_first_call(ls_finding_id simulated, ls_finding_id real) {
    bool looked_ahead =
        simulated == LS_FINDING_MISSING_RANK || simulated == LS_FINDING_EXTRA_CALL ||
        simulated == LS_FINDING_ORDER_MISMATCH || simulated == LS_FINDING_PURPOSE_MISMATCH ||
        simulated == LS_FINDING_P2P_ORDER_MISMATCH;
    return looked_ahead && disagreement(real);
}

// A rank that waited until its deadline names the absent rank: one of those at fault, or, if some
// make an extra call, one of those that do not.
static bool seen_from_deadline(const ls_finding *simulated, const ls_finding *real) {
    bool waited = real->id == LS_FINDING_MISSING_RANK ||
                  real->id == LS_FINDING_P2P_UNMATCHED_SEND ||
                  real->id == LS_FINDING_P2P_UNMATCHED_RECV;
    bool others = simulated->id == LS_FINDING_EXTRA_CALL;
    for (int i = 0; i < real->rank_count; i++) {
        bool named = ls_ranks_find(simulated->ranks, simulated->rank_count, real->ranks[i]) >= 0;
        if (named == others) {
            return false;
        }
    }
    return waited && real->rank_count > 0 && hangs(simulated->id);
}

// A process that ends early reports only itself; several may.
static bool seen_by_itself(const ls_finding *simulated, const ls_finding *real) {
    bool among = simulated->id == LS_FINDING_RANK_EXITED_EARLY && real->id == simulated->id;
    for (int i = 0; i < real->rank_count; i++) {
        among =
            among && ls_ranks_find(simulated->ranks, simulated->rank_count, real->ranks[i]) >= 0;
    }
    return among && real->rank_count > 0;
}

bool ls_injected_agrees(const ls_finding *findings, int count, const ls_finding *real) {
    for (int i = 0; i < count; i++) {
        bool same = same_ranks(&findings[i], real) &&
                    (findings[i].id == real->id || seen_from_first_call(findings[i].id, real->id));
        if (same || seen_from_deadline(&findings[i], real) || seen_by_itself(&findings[i], real)) {
            return true;
        }
    }
    return false;
}

// The finding of simulated ranks that stay in a call; NULL: the simulation ends.
static const ls_finding *simulated_hang(const ls_finding *findings, int count) {
    for (int i = 0; i < count; i++) {
        if (findings[i].places != NULL) {
            return &findings[i];
        }
    }
    return NULL;
}

static int run(outcome *out, const ls_real_request *request, const ls_finding *findings, int count,
               ls_arena *arena) {
    const ls_finding *hang = simulated_hang(findings, count);
    ls_run_options options = *request->options;
    options.keep_dir = NULL;  // a defect leaves nothing to compare
    ls_real_request own = *request;
    own.options = &options;
    own.own_calls = true;
    if (hang != NULL) {
        LS_ASSERT(hang->place_count == request->scenario->ranks);
        own.hang = (ls_launch_hang){
            .places = hang->places,
            .quiet_seconds = request->source.backend->quiet_seconds,
            .cpu_seconds = request->source.backend->cpu_seconds,
        };
    }
    int status = ls_real_run(NULL, &own, arena, &out->finding, &out->found);
    if (status == LS_ERR_RANK_DIED) {
        return status;  // no defect of the scenario does that
    }
    out->hung = status == LS_ERR_DEADLOCK;
    return out->found || out->hung ? LS_OK : status;
}

static const char *name_of(const ls_finding *findings, int count) {
    return count > 0 ? ls_finding_name(findings[0].id) : "nothing";
}

// The real run ended without an error.
static void judge_quiet(ls_injected *out, const char *backend, const ls_finding *findings,
                        int count, ls_arena *arena) {
    const char *name = name_of(findings, count);
    bool must_show = false;
    for (int i = 0; i < count; i++) {
        must_show = must_show || disagreement(findings[i].id) ||
                    findings[i].id == LS_FINDING_RANK_DIED ||
                    findings[i].id == LS_FINDING_GROUP_MISMATCH;
    }
    if (must_show) {
        out->verdict = LS_INJECTED_DIFFERS;
        out->text = ls_arena_printf(arena, "the %s run ended without an error; simulated: %s",
                                    backend, name);
        return;
    }
    out->verdict = count > 0 ? LS_INJECTED_UNSEEN : LS_INJECTED_AGREES;
    out->text = ls_arena_printf(
        arena, "%s does not show %s: the run ends without it, and only the simulation detects it",
        backend, name);
}

static void judge(ls_injected *out, const outcome *real, const ls_real_request *request,
                  const ls_finding *findings, int count, ls_arena *arena) {
    const char *backend = request->source.backend->name;
    if (real->found && ls_injected_agrees(findings, count, &real->finding)) {
        out->verdict = LS_INJECTED_AGREES;
        out->text = ls_arena_printf(arena, "%s: as simulated, %s: %s", backend,
                                    ls_finding_name(real->finding.id), real->finding.text);
    } else if (real->found) {
        char ranks[128];
        ls_ranks_format(ranks, sizeof ranks, real->finding.ranks, real->finding.rank_count);
        out->verdict = LS_INJECTED_DIFFERS;
        out->text = ls_arena_printf(arena, "the %s run shows %s at ranks %s, the simulation %s: %s",
                                    backend, ls_finding_name(real->finding.id), ranks,
                                    name_of(findings, count), real->finding.text);
    } else if (real->hung) {
        out->verdict = LS_INJECTED_AGREES;
        out->text = ls_arena_printf(
            arena, "%s: the run hangs, every rank in the call where the simulated one waits",
            backend);
    } else {
        judge_quiet(out, backend, findings, count, arena);
    }
}

int ls_injected_run(ls_injected *out, const ls_real_request *request, ls_finding *findings,
                    int count, ls_arena *arena) {
    *out = (ls_injected){.verdict = LS_INJECTED_NONE};
    if (request->source.backend == NULL) {
        out->verdict = LS_INJECTED_UNSEEN;
        out->text = ls_arena_printf(
            arena,
            "%s was found in the simulation alone: a recording does not show the injected defect",
            name_of(findings, count));
        return out->text != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    if (ls_real_one_process(request)) {
        out->verdict = LS_INJECTED_UNSEEN;
        out->text = "injected defects need";
        return LS_OK;
    }
    outcome real = {0};
    int status = run(&real, request, findings, count, arena);
    out->death = real.finding;
    LS_TRY(status);
    judge(out, &real, request, findings, count, arena);
    LS_TRY_MEMORY(out->text != NULL);
    if (out->verdict == LS_INJECTED_AGREES && count > 0) {
        const char *text = ls_arena_printf(arena, "%s%s\n", findings[0].text, out->text);
        findings[0].text = text != NULL ? text : findings[0].text;
    }
    return LS_OK;
}

void ls_injected_conclude(const ls_injected *injected, ls_case_result *result) {
    if (injected->verdict == LS_INJECTED_UNSEEN && result->pass) {
        result->skipped = true;
        result->skip_reason = injected->text;
    } else if (injected->verdict == LS_INJECTED_DIFFERS) {
        result->pass = false;
        result->error = injected->text;
    }
}
