// Runs a program that was built by lockstep-cc for MPI: every process becomes a rank.
#pragma once

#include "ranks/ranks.h"

typedef enum ls_mpi_buffering {
    LS_MPI_BUFFERING_NONE,  // a standard send waits for its receive, as large messages do
    LS_MPI_BUFFERING_ALL,   // a standard send never waits
} ls_mpi_buffering;

typedef struct ls_mpi_options {
    ls_spmd_options spmd;
    const char *image;  // the program's file
    int argc;
    const char *const *argv;  // [argc] argv[0]: its name
    ls_mpi_buffering buffering;
    const char *printed;  // folder for the ranks' output, rank_00000.out; NULL: our stdout
    const char
        *images;  // folder where the ranks' images stay until the end, for a debugger; NULL: none
    // Which match is made where receives from any source could make several: choices[0], [1], ...
    // in turn, then the first.
    const int *choices;
    int choice_count;
    struct ls_mpi_trail *trail;  // of an exploration; NULL otherwise
} ls_mpi_options;

// The type of ls_mpi_run; parameters as in ls_spmd_run.
typedef int (*ls_mpi_run_function)(ls_spmd_result **out, const ls_mpi_options *options);
LS_API int ls_mpi_run(ls_spmd_result **out, const ls_mpi_options *options);

// The result of an exploration; choices lead to its finding (NULL: none).
typedef struct ls_mpi_explored {
    int runs, classes;  // classes: runs that were not cut short as duplicates
    bool exhaustive;
    uint64_t observed;  // see ls_spmd_observed_count
    int *choices;       // [choice_count] owned by the caller
    int choice_count;
} ls_mpi_explored;

// Tries every match of receives from any source, in at most `most` runs, until one has a finding.
// *out is that run's result, or the first run's if none has a finding.
typedef int (*ls_mpi_explore_function)(ls_spmd_result **out, const ls_mpi_options *options,
                                       int most, ls_mpi_explored *explored);
LS_API int ls_mpi_explore(ls_spmd_result **out, const ls_mpi_options *options, int most,
                          ls_mpi_explored *explored);
