// A small process that removes a directory when its owner lets go of it, or ends for any reason: by
// Ctrl-C, by kill -9. So an interrupted run leaves no files behind, without signal handlers.
#ifndef LS_SCENARIOS_RUNNER_KEEPER_H
#define LS_SCENARIOS_RUNNER_KEEPER_H

#include <sys/types.h>

#include "base/base.h"

typedef struct ls_keeper {
    pid_t pid;  // of the process that waits
    int pipe;   // it waits for this end to close
} ls_keeper;

// Keeps the existing directory `dir`. LS_ERR_BACKEND when no process can be started.
int ls_keeper_start(ls_keeper *out, const char *dir);
// Removes the directory and all below it, as far as it is still there; waits until that is done.
void ls_keeper_remove(ls_keeper *keeper);

#endif
