// Where debuggers stop: empty functions that a run calls at its events. Set a breakpoint on one and
// read its arguments; state.h says what they point to. Nothing else may call them, and their names
// and parameters change only with LS_RANKS_ABI.
#ifndef LS_RANKS_HOOKS_H
#define LS_RANKS_HOOKS_H

#include "ranks/state.h"

extern const uint32_t ls_gdb_hook_abi;  // LS_RANKS_ABI

// A run begins (its ranks exist, none has run) and ends.
void ls_gdb_hook_run(const ls_run *run, int ended);
// A rank makes a call, before it is matched; and a call is complete, its data in place.
void ls_gdb_hook_enter(const ls_run *run, const ls_rank *rank, const ls_request *request);
void ls_gdb_hook_complete(const ls_run *run, const ls_rank *rank, const ls_request *request);
// All members' calls have met and agree; the math comes next.
void ls_gdb_hook_collective(const ls_run *run, const ls_comm *comm, const ls_call *const *calls,
                            int size);
void ls_gdb_hook_finding(const ls_run *run, const ls_finding *finding);
void ls_gdb_hook_deadlock(const ls_run *run, const char *text);
// The baton goes from one rank to another (NULL: from nobody).
void ls_gdb_hook_switch(const ls_run *run, const ls_rank *from, const ls_rank *to);

#endif
