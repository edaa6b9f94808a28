// lockstep bench: how fast the simulator is, beside memcpy.
#include <stdlib.h>

#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/commands.h"

static int repetitions = 15;
static const char *only;
static bool check;

static const cli_option options[] = {
    {.type = CLI_INT,
     .long_name = "repetitions",
     .value = &repetitions,
     .value_name = "N",
     .help = "Measure each row N times and report the median (default: 15)",
     .int_min = 1,
     .int_max = 10000},
    {.type = CLI_STRING,
     .long_name = "only",
     .value = &only,
     .value_name = "NAME",
     .help = "Measure one suite or one kind of row"},
    {.type = CLI_SWITCH,
     .long_name = "check",
     .value = &check,
     .help = "Exit with 1 when a row is over its limit"},
    {.long_name = NULL},
};

static int write_all(const ls_bench *bench) {
    int code = LS_EXIT_OK;
    if (!cli_stdout_taken()) {
        ls_text text = {0};
        ls_bench_write_text(&text, bench);
        code = cli_output("-", &text);
        ls_text_free(&text);
    }
    if (cli_options_common.json != NULL && code == LS_EXIT_OK) {
        ls_text text = {0};
        ls_bench_write_json(&text, bench);
        code = cli_output(cli_options_common.json, &text);
        ls_text_free(&text);
    }
    for (int i = 0; i < bench->row_count && check && code == LS_EXIT_OK; i++) {
        code = ls_bench_row_holds(&bench->rows[i]) ? LS_EXIT_OK : LS_EXIT_FINDING;
    }
    return code;
}

static int run(const cli_args *args) {
    (void)args;
    int code = cli_outputs_check(NULL);
    if (code != LS_EXIT_OK) {
        return code;
    }
    ls_bench *bench = calloc(1, sizeof *bench);
    if (bench == NULL) {
        cli_error("out of memory");
        return LS_EXIT_ENVIRONMENT;
    }
    bench->repetitions = repetitions;
    bench->only = only;
    bench->progress = cli_progress;
    int status = ls_bench_run(bench);
    cli_progress_end();
    code = status == LS_OK ? write_all(bench) : cli_fail(status);
    free(bench);
    return code;
}

const cli_command cli_cmd_bench = {
    .name = "bench",
    .arguments = "",
    .arguments_max = 0,
    .summary = "Time the simulator against memcpy, in one run",
    .details = "Each row is a median. 'elements' is what each rank has in the larger of its two "
               "buffers. 'memcpy' is a memcpy with as much traffic: half of the bytes that the "
               "operation has to read once and write once. 'memory of shards' is the peak of the "
               "whole process over what the ranks' buffers take.",
    .common = CLI_COMMON_JSON,
    .options = options,
    .run = run,
};
