// A command's ranks in a process of their own: whatever ends it, the command reports.
#pragma once

#include "base/text.h"

typedef struct cli_supervised {
    const char *command, *name;
    int ranks;
    double deadline_seconds;  // at most 0: none
    int (*run)(void *arg);    // in that process: runs and reports; an exit code
    // The command that shows the run again; more: options that it was led by.
    ls_text (*reproduce)(void *arg, const char *more);
    void *arg;
} cli_supervised;

// Returns an exit code. In a debugger the ranks stay in this process.
int cli_supervise(const cli_supervised *what);
