// lockstep diagnose DUMP...: why a job hangs, from what its ranks have left.
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dumps.h"
#include "cli/programs.h"

static const char *python;
static cli_program_options given;

static const cli_option options[] = {
    CLI_CHECKS_OPTION(given),
    CLI_PYTHON_OPTION(python),
    {.long_name = NULL},
};

static const char *reproduce(ls_arena *arena, const cli_args *args) {
    ls_text text = {0};
    ls_text_puts(&text, "lockstep diagnose");
    if (given.checks != NULL) {
        ls_text_puts(&text, " --checks ");
        ls_text_shell(&text, given.checks);
    }
    for (int i = 0; i < args->count; i++) {
        ls_text_puts(&text, " ");
        ls_text_shell(&text, args->values[i]);
    }
    return ls_result_text(arena, &text);
}

static int ranks_told(const ls_history *history, uint64_t *calls) {
    int count = 0;
    for (int r = 0; r < history->rank_count; r++) {
        count += history->ranks[r].known ? 1 : 0;
        *calls += (uint64_t)history->ranks[r].call_count;
    }
    for (int g = 0; g < history->group_count; g++) {
        *calls += history->groups[g].agreed * (uint64_t)history->groups[g].size;
    }
    return count;
}

static int add_case(ls_results *results, const ls_history *history, const ls_spmd_result *found,
                    const cli_args *args) {
    ls_arena *arena = results->arena;
    const int count = ls_spmd_finding_count(found);
    ls_finding *findings = ls_arena_alloc(arena, (size_t)count + 1, sizeof *findings);
    LS_TRY_MEMORY(findings != NULL);
    for (int i = 0; i < count; i++) {
        findings[i] = *ls_spmd_finding(found, i);
    }
    uint64_t calls = 0;
    const int ranks = ranks_told(history, &calls);
    const bool pass = count == 0, empty = calls == 0;
    ls_case_result row = {.name = args->count == 1 ? args->values[0] : "dumps",
                          .file = args->values[0],
                          .backend = "dumps",
                          .pass = pass,
                          .class_ = pass ? LS_CLASS_CHECKED : LS_CLASS_FINDING,
                          .findings = findings,
                          .finding_count = count,
                          .skipped = pass && empty,
                          .skip_reason = pass && empty ? "the dumps contain no calls" : NULL,
                          .note = pass ? ls_history_unfinished(history) : NULL,
                          .checked =
                              pass && !empty ? cli_program_checked(arena, calls, ranks) : NULL,
                          .reproduce = reproduce(arena, args)};
    return ls_results_add(results, &row);
}

static int run(const cli_args *args) {
    ls_history *history = NULL;
    ls_spmd_result *found = NULL;
    ls_results *results = NULL;
    int code = cli_dumps_explain(&history, &found, args, python, given.checks);
    if (code == LS_EXIT_OK) {
        int status = ls_results_create(&results, "diagnose");
        status = status == LS_OK ? add_case(results, history, found, args) : status;
        code = status == LS_OK ? cli_report(results) : cli_fail(status);
    }
    ls_results_free(results);
    ls_spmd_result_free(found);
    ls_history_free(history);
    return code;
}

const cli_command cli_cmd_diagnose = {
    .name = "diagnose",
    .arguments = "DUMP...",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Explain why a job hangs, from dumps of PyTorch's flight recorder or NCCL's RAS",
    .details = "Reads the dumps of all ranks (files, or a folder of them) and matches their calls "
               "as exec does. Names the rank and the line of a call that differs, is missing or is "
               "in another order, and shows which ranks wait for which. Only dumps of lockstep "
               "exec --flight-recorder contain operations and roots. Dumps are pickles; reading "
               "them runs no code.",
    .example = "lockstep diagnose /tmp/nccl_trace_rank_*",
    .common = CLI_COMMON_REPORTS,
    .options = options,
    .run = run,
};
