// lockstep-mpi rank FILE: one rank of a real run, started by mpiexec on behalf of run, compare and
// record. Not a command for users: it is only in lockstep-mpi.
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/scenarios.h"
#include "collectives/backend/mpi.h"
#include "scenarios/runner/launch.h"

static const char *const backends[] = {"mpi", NULL};

static struct {
    cli_run_options run;
    int backend;
    const char *recording;
    const char *marks;
} given;

static const cli_option options[] = {
    {.type = CLI_CHOICE,
     .long_name = "backend",
     .value = &given.backend,
     .value_name = "NAME",
     .choices = backends,
     .help = "What moves the data"},
    {.type = CLI_STRING,
     .long_name = "recording",
     .value = &given.recording,
     .value_name = "DIR",
     .help = "Where this rank's part of the recording goes"},
    {.type = CLI_STRING,
     .long_name = "marks",
     .value = &given.marks,
     .value_name = "DIR",
     .help = "Where this rank says that it lives and that it is done"},
    CLI_RUN_OPTIONS(given.run),
    {.long_name = NULL},
};

// The scenario file's text, for the recording's manifest; NULL when it cannot be read again.
static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = file != NULL ? calloc(1, LS_SCENARIO_BYTES_MAX + 1) : NULL;
    if (text != NULL) {
        size_t length = fread(text, 1, LS_SCENARIO_BYTES_MAX, file);
        text[length] = 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

static int run_rank(const ls_scenario *scenario, int rank) {
    const ls_world_options world_options = {
        .mesh = scenario->mesh, .seed = scenario->seed, .held = &rank, .held_count = 1};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    LS_TRY(ls_world_create(&world, &world_options));
    int status = ls_backend_mpi_create(&backend, world);
    if (status == LS_OK) {
        char *text = read_text(scenario->file);
        const ls_recording_info info = {
            .name = scenario->name,
            .scenario = text,
            .backend = backends[given.backend],
            .ranks = scenario->ranks,
            .seed = scenario->seed,
            .versions = ls_mpi_version(),
        };
        status = ls_run_rank(scenario, backend, &info, given.recording);
        free(text);
    }
    ls_backend_free(backend);
    ls_world_free(world);
    return status;
}

static int run(const cli_args *args) {
    if (given.recording == NULL || given.marks == NULL) {
        cli_error("rank is started by run, compare and record");
        return LS_EXIT_USAGE;
    }
    int rank = 0;
    int size = 0;
    int status = ls_mpi_init(&rank, &size);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    cli_scenarios scenarios = {0};
    int code = cli_scenarios_load(&scenarios, args, true);
    if (code == LS_EXIT_OK && scenarios.at[0]->ranks != size) {
        cli_error("%s wants %d ranks, mpiexec started %d", scenarios.at[0]->file,
                  scenarios.at[0]->ranks, size);
        code = LS_EXIT_USAGE;
    }
    if (code == LS_EXIT_OK) {
        status = ls_launch_announce(given.marks, rank);
        status = status == LS_OK ? run_rank(scenarios.at[0], rank) : status;
        if (status == LS_OK) {
            status = ls_launch_done(given.marks, rank);
        }
        if (status != LS_OK) {
            (void)ls_error_wrap("rank %d", rank);
            code = cli_fail(status);
        }
    }
    cli_scenarios_free(&scenarios);
    if (code != LS_EXIT_OK) {
        // The other ranks may wait for this one: end them all.
        ls_mpi_abort(code);
    }
    ls_mpi_finalize();
    return code;
}

const cli_command cli_cmd_rank = {
    .name = "rank",
    .arguments = "FILE",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "One rank of a real run; started by run, compare and record",
    .details = "",
    .common = CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
