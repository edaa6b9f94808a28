// Where a command's outputs go: options that name them are marked as such in its table.
#pragma once

#include "cli/options.h"

// Checks, before work starts, every output of the command: it is writable, no two are one file, and
// none is an input of the call, which are the arguments and the files of other options. A failure
// is reported on stderr; an exit code.
int cli_outputs_check(const cli_command *command, const cli_args *args);
