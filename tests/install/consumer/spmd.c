// A user's program, in C and C++: every rank sums the ranks' numbers. Simulated, a rank that uses
// max must be found; with LOCKSTEP_WITH_MPI this process is the rank that mpiexec assigned.
#include <stdio.h>
#include <string.h>

#include <lockstep/lockstep.h>
#ifdef LOCKSTEP_WITH_MPI
#include <lockstep/backends/mpi/mpi.h>
#endif

static int program(ls_rank *self, void *arg) {
    const bool *bug = (const bool *)arg;
    ls_rank_comm *world = ls_rank_world(self);
    double mine = ls_rank_id(self) + 1.0;
    double sum = 0;
    ls_op op = *bug && ls_rank_id(self) == 1 ? LS_MAX : LS_SUM;
    if (ls_all_reduce(&mine, &sum, 1, LS_F64, op, world) != LS_OK) {
        return 1;
    }
    int ranks = ls_rank_count(self);
    return sum == ranks * (ranks + 1) / 2.0 ? 0 : 2;
}

#ifdef LOCKSTEP_WITH_MPI
int main(void) {
    int rank = 0;
    bool bug = false;
    ls_world_options options;
    memset(&options, 0, sizeof options);
    options.mesh.ndim = 1;
    options.held = &rank;
    options.held_count = 1;
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_spmd_result *result = NULL;
    int status = ls_mpi_init(&rank, &options.mesh.dim[0]);
    status = status != LS_OK ? status : ls_world_create(&world, &options);
    status = status != LS_OK ? status : ls_backend_mpi_create(&backend, world);
    status = status != LS_OK ? status : ls_spmd_run_backend(&result, program, &bug, backend, NULL);
    if (status != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_last()->text);
        ls_mpi_abort(1);
    }
    printf("rank %d of %d agrees\n", rank, options.mesh.dim[0]);
    ls_spmd_result_free(result);
    ls_backend_free(backend);
    ls_world_free(world);
    ls_mpi_finalize();
    return 0;
}
#else
int main(void) {
    ls_spmd_options options;
    memset(&options, 0, sizeof options);
    options.ranks = 3;
    for (int i = 0; i < 2; i++) {
        bool bug = i == 1;
        ls_spmd_result *result = NULL;
        int status = ls_spmd_run(&result, program, &bug, &options);
        if (status != (bug ? LS_ERR_FINDING : LS_OK) ||
            (ls_spmd_finding(result, 0) != NULL) != bug) {
            fprintf(stderr, "%d: %s\n", status, ls_error_last()->text);
            return 1;
        }
        if (bug) {
            puts(ls_finding_name(ls_spmd_finding(result, 0)->id));
        }
        ls_spmd_result_free(result);
    }
    return 0;
}
#endif
