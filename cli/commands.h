// The commands, one cmd_NAME.c each. The order is the one that --help shows.
#pragma once

#include "cli/options.h"

#if defined(LOCKSTEP_WITH_MPI) || defined(LOCKSTEP_WITH_NCCL)
#define CLI_COMMAND_RANK(X) X(rank)  // in the programs that run ranks
#else
#define CLI_COMMAND_RANK(X)
#endif

#define CLI_COMMANDS(X)                                                                            \
    X(run)                                                                                         \
    X(compare)                                                                                     \
    X(record)                                                                                      \
    X(replay)                                                                                      \
    X(plan)                                                                                        \
    X(show)                                                                                        \
    X(traffic)                                                                                     \
    X(diff)                                                                                        \
    X(verify)                                                                                      \
    X(prove)                                                                                       \
    X(reshard)                                                                                     \
    X(calibrate)                                                                                   \
    X(fuzz)                                                                                        \
    X(mutate)                                                                                      \
    X(bench)                                                                                       \
    X(spmd)                                                                                        \
    X(exec)                                                                                        \
    X(mpi)                                                                                         \
    X(diagnose)                                                                                    \
    X(extract)                                                                                     \
    X(gdb)                                                                                         \
    X(dap)                                                                                         \
    X(explain)                                                                                     \
    X(doctor)                                                                                      \
    CLI_COMMAND_RANK(X)

#define COMMAND(name) extern const cli_command cli_cmd_##name;
CLI_COMMANDS(COMMAND)
#undef COMMAND
