// plan --measured: a plan's stages, predicted against measured times.
#include "cli/plan_times.h"

#include "base/file.h"
#include "cli/cli.h"
#ifdef LOCKSTEP_WITH_NCCL
#include "bench/gpu_stages.h"
#endif

#define FILE_BYTES_MAX ((size_t)64 << 20)

const ls_backend_kind *cli_plan_times_live(const char *measured) {
    const ls_backend_kind *kind = measured != NULL ? ls_backend_kind_named(measured) : NULL;
    return kind != NULL && kind->timed ? kind : NULL;
}

int cli_plan_times_read(ls_stage_times *out, const char *path, const ls_scenario *scenario,
                        ls_arena *arena) {
    char *text;
    size_t bytes;
    int status = ls_file_read(&text, &bytes, arena, path, FILE_BYTES_MAX);
    ls_text errors = {0};
    status = status == LS_OK ? ls_stage_times_read(out, arena, &errors, path, text, bytes) : status;
    if (errors.length > 0) {
        (void)fputs(ls_text_string(&errors), stderr);
        ls_text_free(&errors);
        return LS_EXIT_USAGE;
    }
    ls_text_free(&errors);
    if (status == LS_OK && (status = ls_stage_times_check(out, scenario)) != LS_OK) {
        cli_error("%s: %s", path, ls_error_last()->text);
        return LS_EXIT_USAGE;
    }
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
}

int cli_plan_times_measure(ls_stage_times *out, const ls_backend_kind *backend,
                           const ls_scenario *scenario, const ls_plan *plan, ls_arena *arena) {
    ls_work steps;
    int status = ls_work_capture(&steps, scenario, plan, arena);
    if (status == LS_OK && backend == &ls_backend_kind_sim) {
        status = ls_stage_times_simulate(out, &steps, plan, arena);
    } else if (status == LS_OK) {
#ifdef LOCKSTEP_WITH_NCCL
        status = ls_bench_gpu_stages(out, &steps, plan, arena, cli_progress);
        cli_progress_end();
#else
        LS_ASSERT(!"another program is measuring on NCCL");
#endif
    }
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
}

int cli_plan_times_report(const ls_stage_times *times, const ls_planner_problem *problem,
                          const ls_planner_result *result, const char *keep, ls_arena *arena) {
    const char *machine = ls_planner_topology(problem)->name;
    ls_planner_stages *predicted = ls_arena_alloc(arena, (size_t)times->ranks, sizeof *predicted);
    int status =
        predicted != NULL ? ls_planner_stage_times(predicted, problem, result) : LS_ERR_MEMORY;
    int code = status == LS_OK ? LS_EXIT_OK : cli_fail(status);
    ls_text text = {0};
    if (code == LS_EXIT_OK && !cli_stdout_taken() && !cli_options_common.quiet) {
        status = ls_stage_times_report_text(&text, times, predicted, machine);
        code = status == LS_OK ? cli_print(&text) : cli_fail(status);
    }
    ls_text_free(&text);
    if (code == LS_EXIT_OK && cli_options_common.json != NULL) {
        ls_text json = {0};
        status = ls_stage_times_report_json(&json, times, predicted, machine);
        code = status == LS_OK ? cli_output(cli_options_common.json, &json) : cli_fail(status);
        ls_text_free(&json);
    }
    if (code == LS_EXIT_OK && keep != NULL) {
        ls_text file = {0};
        status = ls_stage_times_write(&file, times);
        code = status == LS_OK ? cli_output(keep, &file) : cli_fail(status);
        ls_text_free(&file);
    }
    return code;
}
