// A child process: it ends with its parent, and its parent waits for it under a deadline.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

// Returns as fork does. The child receives signal `death` when the calling thread ends (0: none).
// If its parent has ended already, the child exits with 127.
LS_API_BACKENDS pid_t ls_child_fork(int death);
// Waits until the child has ended; *how (NULL: unused) is as waitpid reports.
LS_API_BACKENDS void ls_child_wait(pid_t child, int *how);
// The same for at most `seconds`, 0: looks once. Whether it has ended.
bool ls_child_wait_for(pid_t child, int *how, double seconds);
// Kills the child, and with `group` its process group, and waits for it.
void ls_child_end(pid_t child, bool group, int *how);
// A descriptor that polls readable once the process has ended; -1: no such process.
int ls_child_open(pid_t process);
