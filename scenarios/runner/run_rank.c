// One rank of a real run: executes the scenario in a process that the runner started, and writes
// this process's part of the recording.
#include "scenarios/runner/execute.h"
#include "scenarios/runner/program.h"
#include "scenarios/runner/run.h"

int ls_run_rank(const ls_scenario *scenario, ls_backend *backend, const ls_recording_info *info,
                const char *dir, bool own_calls) {
    ls_recording_writer *writer = NULL;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena, NULL));
    int status = ls_recording_writer_create(&writer, dir, backend->world, info);
    if (status == LS_OK) {
        ls_stage_sink sink = ls_recording_writer_sink(writer);
        backend->observer = ls_recording_writer_observe;
        backend->observer_arg = writer;
        const ls_execution execution = {.scenario = scenario, .backend = backend, .sink = &sink};
        ls_finding finding = {0};
        bool found = false;
        status = own_calls || ls_scenario_plants(scenario)
                     ? ls_program_rank_real(scenario, backend, &sink, arena)
                     : ls_execute(&execution, arena, &finding, &found);
        backend->observer = NULL;
    }
    if (status == LS_OK) {
        status = ls_recording_writer_finish(writer);
    }
    ls_recording_writer_free(writer);
    ls_arena_free(arena);
    return status;
}
