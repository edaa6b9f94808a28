// Remains of a real run that are removed: its processes, its temporary directory, MPI's shared
// memory. A small process cleans up when its owner ends for any reason, by Ctrl-C, by kill -9; the
// owner itself does the same at the end, so that neither needs the other.
#pragma once

#include <limits.h>
#include <sys/types.h>
#include <time.h>

#include "base/base.h"

#define LS_REAPER_NAME "lockstep reaper"  // of that process; at most 15 bytes

typedef struct ls_reaper {
    char dir[PATH_MAX];
    char folder[PATH_MAX];  // its folder, if it was created for it; else ""
    time_t started;
    pid_t pid;  // of the process that waits
    int pipe;   // it waits for this end to close
} ls_reaper;

// Creates a directory in the temporary folder, or beside `beside` (NULL: not), as BESIDE.part-...,
// and keeps it and the processes launched with directories in it (launch.h). The folder of `beside`
// is created if it is missing, and removed again if it stays empty. LS_ERR_BACKEND: no process can
// be started.
int ls_reaper_make(ls_reaper *out, const char *beside);
// Ends those processes, removes the directory and all below it, and what of MPI's shared memory
// they left.
void ls_reaper_remove(ls_reaper *reaper);
