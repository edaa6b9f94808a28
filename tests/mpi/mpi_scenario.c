// A scenario's program on real MPI processes as it stands, without lockstep's checks of what the
// ranks say to each other: whether it hangs is MPI's affair. mpi_scenario FILE. A rank that dies
// by a fault is killed.
#include <signal.h>
#include <stdio.h>

#include "backends/mpi/mpi.h"
#include "formats/diagnostic.h"
#include "runner/program/program.h"

static int program(ls_rank *self, void *arg) {
    int status = ls_program__rank_main(self, arg);
    if (status == LS_ERR_RANK_DIED) {
        (void)raise(SIGKILL);
    }
    return status;
}

static int run(const ls_scenario *scenario, int rank, int size) {
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_arena *arena = NULL;
    ls_spmd_result *result = NULL;
    if (size != scenario->ranks) {
        return LS_FAIL(LS_ERR_INVALID, "%d processes, and the scenario has %d ranks", size,
                       scenario->ranks);
    }
    const ls_world_options options = {
        .mesh = scenario->mesh, .seed = scenario->seed, .held = &rank, .held_count = 1};
    LS_TRY(ls_arena_create(&arena));
    LS_TRY(ls_world_create(&world, &options));
    LS_TRY(ls_backend_mpi_create(&backend, world));
    ls_backend_mpi_trust(backend);
    const ls_spmd_options spmd = {.checks = "-*",
                                  .faults = ls_program__faults(scenario, arena),
                                  .fault_count = scenario->fault_count};
    ls_program_run shared = {.scenario = scenario, .arena = arena};
    int status = spmd.faults != NULL ? LS_OK : LS_ERR_MEMORY;
    if (status == LS_OK) {
        status = ls_spmd_run_backend(&result, program, &shared, backend, &spmd);
    }
    ls_spmd_result_free(result);
    ls_backend_free(backend);
    ls_world_free(world);
    ls_arena_free(arena);
    return status;
}

int main(int argc, char **argv) {
    int rank = 0, size = 0;
    ls_scenario *scenario = NULL;
    ls_diagnostics *diagnostics = NULL;
    if (argc != 2 || ls_diagnostics_create(&diagnostics, argv[1]) != LS_OK ||
        ls_scenario_load(&scenario, diagnostics, argv[1], NULL) != LS_OK) {
        (void)fprintf(stderr, "mpi_scenario FILE: %s\n", ls_error_last()->text);
        return 2;
    }
    if (ls_mpi_init(&rank, &size) != LS_OK || run(scenario, rank, size) != LS_OK) {
        (void)fprintf(stderr, "rank %d: %s\n", rank, ls_error_last()->text);
        ls_mpi_abort(1);
    }
    ls_scenario_free(scenario);
    ls_diagnostics_free(diagnostics);
    ls_mpi_finalize();
    return 0;
}
