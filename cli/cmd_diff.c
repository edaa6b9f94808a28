// lockstep diff REF RUN: the same model on one rank and on many, tensor by tensor.
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "runner/diff/diff.h"

static struct {
    double tolerance;
    bool has_tolerance, all;
} given;

static const cli_option options[] = {
    {.type = CLI_DOUBLE,
     .long_name = "tolerance",
     .double_max = 1,
     .value = &given.tolerance,
     .value_name = "X",
     .given = &given.has_tolerance,
     .help = "Let tensors of which no bound is derived differ by X of their largest value"},
    {.type = CLI_SWITCH,
     .long_name = "all",
     .value = &given.all,
     .help = "Go on after the first tensor that is wrong"},
    {.long_name = NULL},
};

static const char *reproduce(ls_arena *arena, const char *ref, const char *run) {
    ls_text text = {0};
    ls_text_puts(&text, "lockstep diff ");
    if (given.has_tolerance) {
        ls_text_printf(&text, "--tolerance %.17g ", given.tolerance);
    }
    ls_text_puts(&text, given.all ? "--all " : "");
    ls_text_shell(&text, ref);
    ls_text_puts(&text, " ");
    ls_text_shell(&text, run);
    const char *kept = ls_arena_strdup(arena, ls_text_string(&text));
    ls_text_free(&text);
    return kept;
}

static int diff(const ls_capture *ref, const ls_capture *run) {
    ls_results *results = NULL;
    ls_diff_left_out left_out;
    int status = ls_results_create(&results, "diff");
    if (status == LS_OK) {
        const ls_diff_options how = {given.all, given.has_tolerance, given.tolerance};
        const char *again = reproduce(results->arena, ref->path, run->path);
        status =
            again != NULL ? ls_diff_run(results, &left_out, ref, run, &how, again) : LS_ERR_MEMORY;
    }
    int code = status == LS_OK ? cli_report(results) : cli_fail(status);
    if (status == LS_OK && left_out.first != NULL) {
        cli_note("not compared: %zu tensors of the reference alone and %zu of the run alone, the "
                 "first '%s'",
                 left_out.ref, left_out.run, left_out.first);
    }
    if (status == LS_OK && left_out.after > 0) {
        cli_note("not compared: %zu tensors after the first that is wrong (--all)", left_out.after);
    }
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
    .summary = "Hold a model's tensors on many ranks against those on one",
    .details = "Reads what lockstep.capture() kept of two runs of a program, or checkpoints as "
               ".safetensors, puts each tensor together by its placements, and says of each, in "
               "program order, whether it is bit exact, within the bound that is derived of it, "
               "not judged, or wrong; of the first that is wrong also where, by how much, and what "
               "it looks like: a factor, a sum that was not taken, a shard left out.",
    .common = CLI_COMMON_REPORTS,
    .options = options,
    .run = run,
};
