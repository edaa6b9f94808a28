// The dumps of a hung job, for the commands that explain it.
#pragma once

#include "cli/options.h"
#include "diagnose/history.h"

#define CLI_PYTHON_OPTION(python)                                                                  \
    CLI_OPTION(CLI_STRING, "python", &(python), "PROGRAM",                                         \
               .help = "Python 3.9 or newer that reads the dumps (default: python3)")

// Reads the dumps and matches their calls: *history and *found, which the caller frees. Returns an
// exit code.
int cli_dumps_explain(ls_history **history, ls_spmd_result **found, const cli_args *args,
                      const char *python, const char *checks);
