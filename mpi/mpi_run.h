// Runs a program that was written for MPI, built by lockstep-cc: every process a rank.
#ifndef LS_MPI_MPI_RUN_H
#define LS_MPI_MPI_RUN_H

#include "ranks/ranks.h"

typedef enum ls_mpi_buffering {
    LS_MPI_BUFFERING_NONE,  // a standard send waits for its receive, as large messages do
    LS_MPI_BUFFERING_ALL,   // it never waits
} ls_mpi_buffering;

typedef struct ls_mpi_options {
    ls_spmd_options spmd;
    const char *image;  // the program's file
    int argc;
    const char *const *argv;  // [argc] argv[0]: its name
    ls_mpi_buffering buffering;
    const char *printed;  // a folder for what each rank prints, rank_00000.out; NULL: our stdout
    bool keep_images;     // the ranks' copies stay until the end, for a debugger
    // Which match is made where receives from any source could make several: choices[0], [1], ...
    // in turn, then the first.
    const int *choices;
    int choice_count;
    struct ls_mpi_trail *trail;  // of an exploration; NULL otherwise
} ls_mpi_options;

// The same as ls_spmd_run.
typedef int (*ls_mpi_run_function)(ls_spmd_result **out, const ls_mpi_options *options);
LS_API int ls_mpi_run(ls_spmd_result **out, const ls_mpi_options *options);

// What was tried, and the choices that led to a finding (NULL: none did).
typedef struct ls_mpi_explored {
    int runs, classes;  // runs that were not ended because others had been the same
    bool exhaustive;
    uint64_t observed;  // see ls_spmd_observed_count
    int *choices;       // [choice_count] the caller's
    int choice_count;
} ls_mpi_explored;

// Tries every match of receives from any source, in at most `most` runs, until one has a finding:
// its result is *out, else the first run's.
typedef int (*ls_mpi_explore_function)(ls_spmd_result **out, const ls_mpi_options *options,
                                       int most, ls_mpi_explored *explored);
LS_API int ls_mpi_explore(ls_spmd_result **out, const ls_mpi_options *options, int most,
                          ls_mpi_explored *explored);

#endif
