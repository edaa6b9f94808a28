// Executes the scenario for the ranks of one process, in a process of a real run or in the
// simulator, and writes this process's part of the recording.
#include "runner/program/run_rank.h"

#include "base/file.h"
#include "runner/program/execute.h"
#include "runner/program/program.h"

static int execute(const ls_rank_run *run, ls_recording_writer *writer, ls_arena *arena,
                   ls_finding *finding, bool *found) {
    ls_stage_sink sink = ls_recording_writer_sink(writer);
    const ls_execution execution = {
        .scenario = run->scenario, .backend = run->backend, .sink = &sink};
    if (!run->own_calls && !ls_scenario_injects(run->scenario)) {
        return ls_execute(&execution, arena, finding, found);
    }
    return ls_program_rank_real(run->scenario, run->backend, &sink, arena);
}

int ls_run_rank(const ls_rank_run *run, ls_arena *arena, ls_finding *finding, bool *found) {
    const ls_scenario *scenario = run->scenario;
    ls_recording_writer *writer = NULL;
    char *text = NULL;
    size_t bytes = 0;
    *found = false;
    // The manifest of a recording names its source.
    int status = ls_file_read(&text, &bytes, arena, scenario->file, LS_SCENARIO_BYTES_MAX);
    const ls_recording_info info = {
        .name = scenario->name,
        .scenario = text,
        .backend = run->backend->ops->name,
        .ranks = scenario->ranks,
        .seed = scenario->seed,
        .versions = run->versions,
    };
    ls_check_clear();
    if (status == LS_OK) {
        status = ls_recording_writer_create(&writer, run->dir, run->backend->world, &info);
    }
    if (status == LS_OK) {
        run->backend->observer = ls_recording_writer_observe;
        run->backend->observer_arg = writer;
        status = execute(run, writer, arena, finding, found);
        run->backend->observer = NULL;
    }
    if (status != LS_OK && !*found && ls_check_last()->found) {
        *found = ls_check_finding(finding, arena) == LS_OK;
    }
    status = status == LS_OK ? ls_recording_writer_finish(writer) : status;
    ls_recording_writer_free(writer);
    return status;
}
