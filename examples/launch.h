// Starts an example: simulated, as the one rank that mpiexec gave this process, or on the GPUs of
// this machine. The example's code is the same; its backends depend on how it is compiled
// (LOCKSTEP_WITH_MPI, LOCKSTEP_WITH_NCCL).
//     data_parallel [--backend sim|mpi|nccl] [--ranks N] [--seed N] [--deadline SECONDS] [--bug]
#pragma once

#include <lockstep/ranks/ranks.h>

typedef struct example {
    bool bug;  // --bug: one line of the example goes wrong
    int ranks;
    uint64_t seed;
    const char *backend;
    double deadline_seconds;  // of a call on NCCL; 0: a minute
} example;

// Runs an SPMD program, whose arg is a const example *. Returns main's exit code: 1 for a finding,
// 2 for a wrong command line, 3 if the backend is missing or fails.
int example_spmd(int argc, char **argv, ls_spmd_program program, int ranks);
// Runs a controller, which makes the calls of all ranks that this process holds.
int example_controller(int argc, char **argv,
                       int (*controller)(ls_backend *backend, const example *given), int ranks);

// Passes on the error of a failed call.
#define CHECK(expression)                                                                          \
    do {                                                                                           \
        int check_status_ = (expression);                                                          \
        if (check_status_ != LS_OK) {                                                              \
            return check_status_;                                                                  \
        }                                                                                          \
    } while (0)
