// --trace and what draws traffic: a trace for the run, and its file.
#pragma once

#include "cli/cli.h"
#include "runner/trace/trace.h"

#define CLI_MACHINE_OPTION(value_)                                                                 \
    CLI_OPTION(CLI_STRING, "machine", &(value_), "MACHINE",                                        \
               .help =                                                                             \
                   "Clock of --trace: v100_torchrec, a100, h100, h200 or a YAML file; default: "   \
                   "logical")

// The trace that --trace asks for; *out NULL when it was not given. machine: a name or a file;
// NULL: a logical clock. Returns an exit code.
int cli_trace_open(ls_trace **out, const char *machine);
// Writes it to --trace: text with a column for each rank if the name ends in .txt, else JSON;
// nothing if `code` is that of unusable input. Frees it. Returns the worse of `code` and its own
// exit code.
int cli_trace_close(ls_trace *trace, int code);
