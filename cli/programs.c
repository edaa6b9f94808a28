// Shared by the commands that run a user's program.
#include "cli/programs.h"

#include "cli/cli.h"

int cli_program_settings(ls_spmd_options *out, ls_fault *faults,
                         const cli_program_options *program) {
    double deadline_seconds = program->deadline_seconds > 0 ? program->deadline_seconds : -1;
    if (!program->deadline_given) {
        deadline_seconds = 60;
    }
    *out = (ls_spmd_options){
        .ranks = program->ranks,
        .seed = cli_options_common.seed,
        .schedule = (ls_schedule_kind)program->schedule,
        .delayed_rank = program->delayed_rank,
        .checks = program->checks,
        .faults = faults,
        .stack_bytes = (size_t)program->stack_kib << 10,
        .history = program->history,
        .fixed = true,
        .deadline_seconds = deadline_seconds,
    };
    if (program->delayed_given && !program->schedule_given) {
        out->schedule = LS_SCHEDULE_DELAY;
    }
    bool on = false;
    int status = ls_spmd_check_on(&on, program->checks, LS_FINDING_KIND_MISMATCH);
    if (status == LS_OK && program->faults != NULL) {
        status = ls_spmd__parse_faults(faults, &out->fault_count, program->faults);
    }
    if (status != LS_OK) {
        cli_error("%s", ls_error_last()->text);
        return LS_EXIT_USAGE;
    }
    return LS_EXIT_OK;
}

// The findings of a run [*count], in the arena; NULL without memory. result: NULL has none.
static ls_finding *findings_of(int *count, ls_arena *arena, const ls_spmd_result *result) {
    *count = result != NULL ? ls_spmd_finding_count(result) : 0;
    ls_finding *findings = ls_arena_alloc(arena, (size_t)*count + 1, sizeof *findings);
    for (int i = 0; findings != NULL && i < *count; i++) {
        findings[i] = *ls_spmd_finding(result, i);
    }
    return findings;
}

void cli_program_notes(const ls_spmd_result *result, int fault_count) {
    for (int i = 0; result != NULL && i < ls_spmd_warning_count(result); i++) {
        const ls_finding *warning = ls_spmd_warning(result, i);
        cli_note("warning: %s: %s", ls_finding_name(warning->id), warning->text);
    }
    for (int i = 0; result != NULL && i < fault_count; i++) {
        const char *missed = ls_spmd_fault_missed(result, i);
        if (missed != NULL) {
            cli_note("fault %d was not injected: %s", i, missed);
        }
    }
}

const char *cli_program_checked(ls_arena *arena, uint64_t calls, int ranks) {
    return ls_arena_printf(arena, "%llu call%s of %d rank%s agree%s; no values compared",
                           (unsigned long long)calls, calls == 1 ? "" : "s", ranks,
                           ranks == 1 ? "" : "s", calls == 1 && ranks == 1 ? "s" : "");
}

ls_class cli_program_class(bool pass, int findings) {
    if (pass) {
        return LS_CLASS_CHECKED;
    }
    return findings > 0 ? LS_CLASS_FINDING : LS_CLASS_ERROR;
}

int cli_program_add(ls_results *results, const char *name, const ls_spmd_result *result, int status,
                    ls_text *reproduce) {
    int count = 0;
    const char *error =
        status != LS_OK ? ls_arena_strdup(results->arena, ls_error_last()->text) : NULL;
    ls_finding *findings = findings_of(&count, results->arena, result);
    ls_case_result row = {
        .name = name,
        .file = name,
        .backend = "sim",
        .pass = status == LS_OK,
        .class_ = cli_program_class(status == LS_OK, count),
        .findings = findings,
        .finding_count = count,
        .environment = count == 0 && status == LS_ERR_LIMIT,
        .error = count > 0 ? NULL : error,
        .reproduce = ls_result_text(results->arena, reproduce),
    };
    if (row.pass && result == NULL) {
        row.checked = "the calls of all ranks agree in every schedule; no values compared";
    } else if (row.pass) {
        uint64_t calls = ls_spmd_call_count(result);
        row.skipped = !ls_spmd_has_checked(result);
        row.skip_reason = row.skipped ? "it made no calls to compare between ranks" : NULL;
        row.checked = cli_program_checked(results->arena, calls, ls_spmd_rank_count(result));
    }
    return findings == NULL || row.reproduce == NULL ? LS_ERR_MEMORY
                                                     : ls_results_add(results, &row);
}

int cli_program_report(const char *command, const char *name, const ls_spmd_result *result,
                       int status, int fault_count, ls_text *reproduce) {
    ls_results *results = NULL;
    int made = ls_results_create(&results, command);
    if (made != LS_OK) {
        ls_text_free(reproduce);
        return cli_fail(made);
    }
    made = cli_program_add(results, name, result, status, reproduce);
    int code = made == LS_OK ? cli_report(results) : cli_fail(made);
    cli_program_notes(result, fault_count);
    ls_results_free(results);
    return code;
}
