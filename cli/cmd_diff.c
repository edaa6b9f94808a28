// lockstep diff REF RUN: the same model on one rank and on many, tensor by tensor.
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "runner/diff/diff.h"

static struct {
    double tolerance;
    const char *ignore;
    bool has_tolerance, all, exact;
} given;

static const cli_option options[] = {
    {CLI_DOUBLE, "tolerance", &given.tolerance, "X", .double_max = 1, .given = &given.has_tolerance,
     .help = "Tolerance for tensors without a derived bound, as a fraction of their largest value"},
    {CLI_SWITCH, "exact", &given.exact,
     .help =
         "Require every tensor to match bit for bit, for example after resharding a checkpoint"},
    {CLI_STRING, "ignore", &given.ignore, "PATTERNS",
     .help = "Do not compare tensors whose names match one of these patterns, separated by commas"},
    {CLI_SWITCH, "all", &given.all, .help = "Continue after the first tensor that is wrong"},
    {.long_name = NULL},
};

static const char *reproduce(ls_arena *arena, const char *ref, const char *run) {
    ls_text text = {0};
    ls_text_puts(&text, "lockstep diff ");
    if (given.has_tolerance) {
        ls_text_printf(&text, "--tolerance %.17g ", given.tolerance);
    }
    ls_text_puts(&text, given.exact ? "--exact " : "");
    if (given.ignore != NULL) {
        ls_text_puts(&text, "--ignore ");
        ls_text_shell(&text, given.ignore);
        ls_text_puts(&text, " ");
    }
    ls_text_puts(&text, given.all ? "--all " : "");
    ls_text_shell(&text, ref);
    ls_text_puts(&text, " ");
    ls_text_shell(&text, run);
    return ls_result_text(arena, &text);
}

static int diff(const ls_capture *ref, ls_capture *run) {
    ls_results *results = NULL;
    ls_diff_options how = {.all = given.all,
                           .exact = given.exact,
                           .has_tolerance = given.has_tolerance,
                           .tolerance = given.tolerance};
    int status = ls_results_create(&results, "diff");
    status = status == LS_OK ? ls_diff_ignore(&how, results->arena, given.ignore) : status;
    if (status == LS_OK) {
        const char *again = reproduce(results->arena, ref->path, run->path);
        status = again != NULL ? ls_diff_run(results, ref, run, &how, again) : LS_ERR_MEMORY;
    }
    int code = status == LS_OK ? cli_report(results) : cli_fail(status);
    ls_results_free(results);
    return code;
}

static int run(const cli_args *args) {
    ls_capture *captures[2] = {NULL};
    int status = ls_capture_open(&captures[0], args->values[0]);
    status = status == LS_OK ? ls_capture_open(&captures[1], args->values[1]) : status;
    int code = status == LS_OK ? diff(captures[0], captures[1]) : cli_fail(status);
    ls_capture_free(captures[0]);
    ls_capture_free(captures[1]);
    return code;
}

const cli_command cli_cmd_diff = {
    .name = "diff",
    .arguments = "REF RUN",
    .arguments_min = 2,
    .arguments_max = 2,
    .summary = "Compare a model's tensors from a multi-rank run with a single-rank run",
    .details = "Reads two runs kept by lockstep.capture(), or checkpoints as .safetensors, and "
               "assembles each tensor by its placements. In program order it reports whether a "
               "tensor is bit exact, within its derived bound, unjudged, or wrong. For the first "
               "wrong one it reports the element, the distance, and a likely reason: a factor, a "
               "missing sum, a shard left out. It lists the tensors that were not compared.",
    .example = "lockstep diff one many",
    .common = CLI_COMMON_REPORTS,
    .options = options,
    .run = run,
};
