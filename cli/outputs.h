// Where a command's outputs go: options that name them are marked as such in its table.
#ifndef LS_CLI_OUTPUTS_H
#define LS_CLI_OUTPUTS_H

#include "cli/options.h"

// Checks, before work starts, every output that the command was asked for: that it can be written,
// that no two are one file, and that none is an input of the call, which are the arguments and what
// the other options name. On failure says why on stderr; an exit code, LS_EXIT_OK if all is well.
int cli_outputs_check(const cli_command *command, const cli_args *args);

#endif
