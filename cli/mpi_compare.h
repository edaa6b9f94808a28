// lockstep mpi --compare: the same program as real processes under MPICH, and what its ranks print
// and return there beside what they do here.
#pragma once

#include "ranks/ranks.h"
#include "process/reaper.h"
#include "runner/result.h"

// The files that ranks may write, as they are before the first run.
typedef struct cli_mpi_files cli_mpi_files;
// pattern: of glob(3); NULL: *out is NULL. The read bytes stay in the arena.
int cli_mpi_files_open(cli_mpi_files **out, ls_arena *arena, const char *pattern);

typedef struct cli_mpi_real {
    const char *program;         // as mpicc has built it
    const char *ignore;          // parts of lines that match are not compared; NULL: nothing
    const cli_mpi_files *files;  // NULL: none are compared
    int ranks, argc;
    const char *const *argv;  // [argc] argv[0] is not used
    double deadline_seconds;
} cli_mpi_real;

// Where the ranks of the simulated run print to, in the reaper's directory. Returns an exit code.
int cli_mpi_compare_open(ls_reaper *reaper, char *printed, size_t bytes, const cli_mpi_real *real);
// Runs the program for real, and adds the outcome. simulated: the printed output of the run, or
// NULL without a run. Returns an exit code.
int cli_mpi_compare(ls_results *results, const ls_reaper *reaper, const char *printed,
                    const ls_spmd_result *simulated, const cli_mpi_real *real);
