// lockstep bench: how fast the simulator is, beside memcpy.
#include <stdlib.h>
#include <string.h>

#include "backends/kinds.h"
#include "bench/bench.h"
#ifdef LOCKSTEP_WITH_NCCL
#include "bench/gpu.h"
#endif
#include "cli/cli.h"
#include "cli/commands.h"

static int repetitions = 15;
static const char *only;
static bool check;
static bool planner;
static int backend;  // in ls_backend_names_timed
static bool lookup;
static int rows = 1000000, dim = 128, bags = 4096, length = 20, threads;
static int ranks, count;
static const char *dtype;

static const cli_option options[] = {
    {CLI_CHOICE, "backend", &backend, "NAME", .choices = ls_backend_names_timed,
     .help = "Backend to time: sim (default), or nccl: collectives and kernels on the GPUs"},
    {CLI_INT, "repetitions", &repetitions, "N", .int_min = 1, .int_max = 10000,
     .help = "Measure each row N times and report the median (default: 15)"},
    {CLI_STRING, "only", &only, "NAME", .help = "Measure one suite or one kind of row"},
    {CLI_INT, "ranks", &ranks, "N", .int_min = 1, .int_max = 65536,
     .help = "Measure collectives on N ranks"},
    {CLI_INT, "count", &count, "N", .int_min = 1, .int_max = 1 << 30,
     .help = "Elements in the larger of a rank's two buffers"},
    {CLI_STRING, "dtype", &dtype, "TYPE",
     .help = "Element type; with --lookup f32, f16, bf16 or int8 (default: f32 and int8)"},
    {CLI_SWITCH, "lookup", &lookup, .help = "Measure only pooled lookups, of the sizes below"},
    {CLI_INT, "rows", &rows, "N", .int_min = 1, .int_max = 1 << 30,
     .help = "Rows of the table (default: 1000000)"},
    {CLI_INT, "dim", &dim, "N", .int_min = 1, .int_max = 1 << 20,
     .help = "Columns of the table (default: 128)"},
    {CLI_INT, "bags", &bags, "N", .int_min = 1, .int_max = 1 << 24,
     .help = "Bags per lookup (default: 4096)"},
    {CLI_INT, "length", &length, "N", .int_min = 1, .int_max = 1 << 20,
     .help = "Ids per bag (default: 20)"},
    {CLI_INT, "threads", &threads, "N", .int_min = 1, .int_max = 64,
     .help = "Threads per lookup (default: 1 and 2)"},
    {CLI_SWITCH, "planner", &planner, .help = "Measure the planner only; takes minutes"},
    {CLI_SWITCH, "check", &check, .help = "Exit with code 1 if a row exceeds its limit"},
    {.long_name = NULL},
};

// A row over its limit fails only with --check: a busy machine is no finding.
static bool row_passes(const ls_bench_row *row) {
    return !check || ls_bench_row_holds(row);
}

static int write_pages(const ls_bench *bench) {
    ls_results *results = NULL;
    int status = ls_results_create(&results, "bench");
    for (int i = 0; i < bench->row_count && status == LS_OK; i++) {
        const ls_bench_row *row = &bench->rows[i];
        ls_text name = {0};
        ls_text_printf(&name, "%s, %d ranks, %llu elements", row->name, row->ranks,
                       (unsigned long long)row->elements);
        const char *kept = ls_arena_strdup(results->arena, ls_text_string(&name));
        ls_text_free(&name);
        bool pass = row_passes(row);
        status = LS_ERR_MEMORY;
        if (kept != NULL) {
            status =
                ls_results_add(results, &(ls_case_result){
                                            .name = kept,
                                            .file = row->suite,
                                            .pass = pass,
                                            .class_ = pass ? LS_CLASS_BIT_EXACT : LS_CLASS_FINDING,
                                            .error = pass ? NULL : "over the limit",
                                            .seconds = row->time_ms * 1e-3,
                                        });
        }
    }
    int code = status == LS_OK ? cli_report_pages(results) : cli_fail(status);
    ls_results_free(results);
    return code;
}

static int write_all(const ls_bench *bench) {
    int code = LS_EXIT_OK;
    if (!cli_stdout_taken() && !cli_options_common.quiet) {
        ls_text text = {0};
        ls_bench_write_text(&text, bench);
        code = cli_print(&text);
        ls_text_free(&text);
    }
    if (cli_options_common.json != NULL && code == LS_EXIT_OK) {
        ls_text text = {0};
        ls_bench_write_json(&text, bench);
        code = cli_output(cli_options_common.json, &text);
        ls_text_free(&text);
    }
    code = code == LS_EXIT_OK ? write_pages(bench) : code;
    for (int i = 0; i < bench->row_count && code == LS_EXIT_OK; i++) {
        if (!row_passes(&bench->rows[i])) {
            cli_error("%s, %d ranks: over the limit", bench->rows[i].name, bench->rows[i].ranks);
            code = LS_EXIT_FINDING;
        }
    }
    return code;
}

static int run(const cli_args *args) {
    (void)args;
    if (planner && only != NULL) {
        cli_error("--planner and --only exclude each other");
        return LS_EXIT_USAGE;
    }
    if (lookup && (planner || only != NULL || ranks != 0 || count != 0)) {
        cli_error("--lookup excludes --planner, --only, --ranks and --count");
        return LS_EXIT_USAGE;
    }
    ls_dtype parsed;
    bool quantised = lookup && dtype != NULL && strcmp(dtype, "int8") == 0;
    if (dtype != NULL && !quantised &&
        (ls_dtype_parse(&parsed, dtype) != LS_OK ||
         (lookup && parsed != LS_F32 && parsed != LS_F16 && parsed != LS_BF16))) {
        cli_error("--dtype: '%s' is not a type that bench measures", dtype);
        return LS_EXIT_USAGE;
    }
    const ls_backend_kind *kind = ls_backend_kind_named(ls_backend_names_timed[backend]);
#ifndef LOCKSTEP_WITH_NCCL
    if (kind->open == NULL) {
        return cli_become(kind->threads_program);
    }
#endif
    ls_bench *bench = calloc(1, sizeof *bench);
    if (bench == NULL) {
        cli_error("out of memory");
        return LS_EXIT_ENVIRONMENT;
    }
    bench->repetitions = repetitions;
    bench->only = lookup ? "lookup" : only;
    if (planner) {
        bench->only = "planner";
    }
    bench->sizes = (ls_bench_sizes){.rows = rows,
                                    .dim = dim,
                                    .bags = bags,
                                    .length = length,
                                    .threads = threads,
                                    .ranks = ranks,
                                    .count = count,
                                    .dtype = lookup ? NULL : dtype,
                                    .row_type = lookup ? dtype : NULL};
    bench->progress = cli_progress;
#ifdef LOCKSTEP_WITH_NCCL
    bench->suite = kind->open == NULL ? ls_bench_suite_gpu : NULL;
#endif
    if (!lookup && only == NULL && (ranks != 0 || count != 0 || dtype != NULL)) {
        bench->only = "collectives";
    }
    int status = ls_bench_run(bench);
    cli_progress_end();
    int code = status == LS_OK ? write_all(bench) : cli_fail(status);
    free(bench);
    return code;
}

const cli_command cli_cmd_bench = {
    .name = "bench",
    .arguments = "",
    .arguments_max = 0,
    .summary = "Time the simulator or GPUs against a yardstick measured in the same run",
    .details =
        "Times are medians. Ratios use the least times, which other processes disturb least. The "
        "column elements counts the larger of a rank's two buffers. The yardstick memcpy copies "
        "half of the bytes that the operation must read and write once. The row 'memory of shards' "
        "is the peak of the process divided by the ranks' buffers. The cost of checks, collectives "
        "and lookups is processor time of all threads. A 'cold' result is written to untouched "
        "pages, and so is its memcpy. In the planner's rows the elements are tables. The row "
        "'first plan' compares a time with that of TorchRec's whole search. The other rows compare "
        "the plan's cost with the lower bound or with TorchRec's cost.",
    .example = "lockstep bench --json bench.json",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
