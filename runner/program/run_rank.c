// The ranks that one process holds: executes the scenario, in a process that the runner started for
// a real run or in the simulator, and writes this process's part of the recording.
#include "runner/program/run_rank.h"

#include "base/file.h"
#include "runner/program/execute.h"
#include "runner/program/program.h"

static int run(const ls_scenario *scenario, ls_backend *backend, ls_recording_writer *writer,
               ls_arena *arena, bool own_calls) {
    ls_stage_sink sink = ls_recording_writer_sink(writer);
    const ls_execution execution = {.scenario = scenario, .backend = backend, .sink = &sink};
    ls_finding finding = {0};
    bool found = false;
    if (!own_calls && !ls_scenario_plants(scenario)) {
        return ls_execute(&execution, arena, &finding, &found);
    }
    return ls_program_rank_real(scenario, backend, &sink, arena);
}

int ls_run_rank(const ls_scenario *scenario, ls_backend *backend, const char *versions,
                const char *dir, bool own_calls) {
    ls_recording_writer *writer = NULL;
    ls_arena *arena = NULL;
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_arena_create(&arena));
    // For the manifest: a recording says what it was made from.
    int status = ls_file_read(&text, &bytes, arena, scenario->file, LS_SCENARIO_BYTES_MAX);
    const ls_recording_info info = {
        .name = scenario->name,
        .scenario = text,
        .backend = backend->ops->name,
        .ranks = scenario->ranks,
        .seed = scenario->seed,
        .versions = versions,
    };
    if (status == LS_OK) {
        status = ls_recording_writer_create(&writer, dir, backend->world, &info);
    }
    if (status == LS_OK) {
        backend->observer = ls_recording_writer_observe;
        backend->observer_arg = writer;
        status = run(scenario, backend, writer, arena, own_calls);
        backend->observer = NULL;
    }
    if (status == LS_OK) {
        status = ls_recording_writer_finish(writer);
    }
    ls_recording_writer_free(writer);
    ls_arena_free(arena);
    return status;
}
