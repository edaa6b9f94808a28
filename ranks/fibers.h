// Ranks as fibers: all of them on one thread, each with a separate stack. The run token moves
// between them without the kernel. For programs that keep nothing of a rank in thread-local
// storage.
#pragma once

#include "ranks/state.h"

// Makes the fibers of a run, each of which begins with `main`; LS_OK: they wait for
// ls_fibers__run. stack_bytes: of each, a multiple of the page.
int ls_fibers__open(ls_spmd *run, void (*main)(ls_rank *rank), size_t stack_bytes);
void ls_fibers__close(ls_spmd *run);
// On the carrier thread: runs the rank with the run token, and returns when no rank is left.
void ls_fibers__run(ls_spmd *run);
// On a rank's fiber, which does not have the run token: returns when it has it again. At its end:
// does not return.
void ls_fibers__wait(ls_rank *rank);
void ls_fibers__leave(ls_rank *rank) LS_NORETURN;
