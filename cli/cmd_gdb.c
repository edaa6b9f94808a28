// lockstep gdb FILE [-- GDB OPTIONS], lockstep gdb -- PROGRAM [ARGUMENTS]: gdb with the extension
// loaded.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/debugger.h"

static int run(const cli_args *args) {
    if (args->before_dashes == 0) {
        if (args->count == 0) {
            cli_error("gdb needs a scenario file, or a program after '--'");
            return LS_EXIT_USAGE;
        }
        return cli_gdb_exec(NULL, 0, NULL, 0, args->values, args->count);
    }
    int files = args->before_dashes < 0 ? args->count : args->before_dashes;
    if (files != 1) {
        cli_error("gdb takes one scenario file, and options for gdb after '--'");
        return LS_EXIT_USAGE;
    }
    if (access(args->values[0], R_OK) != 0) {
        cli_error("%s: there is no such file, or it cannot be read", args->values[0]);
        return LS_EXIT_USAGE;
    }
    const char *const *options = args->values + files;
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length < 0) {
        cli_error("this program's own file is not known");
        return LS_EXIT_ENVIRONMENT;
    }
    own[length] = 0;
    const char *const program[] = {own, "run", args->values[0]};
    return cli_gdb_exec(NULL, 0, options, args->count - files, program, 3);
}

const cli_command cli_cmd_gdb = {
    .name = "gdb",
    .arguments = "FILE [-- GDB OPTIONS] | -- PROGRAM [ARGUMENTS]",
    .arguments_max = -1,
    .summary = "Debug a scenario, or a program of yours, rank by rank",
    .details = "Starts gdb on `lockstep run FILE`, or on a program linked with lockstep, with the "
               "commands ranks, rank, next-collective, goto-collective, catch finding, waitgraph, "
               "shard, diff-ranks and others loaded; docs/debugging.md shows them at work. "
               "The environment variable LOCKSTEP_GDB names another gdb.",
    .run = run,
};
