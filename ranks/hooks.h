// Functions that debuggers stop at, beside collectives/hooks.h, which reports matched calls: empty
// functions that a run calls at its events. Set a breakpoint on one and read its arguments; state.h
// describes them. No other code may call them, and their names and parameters change only with
// LS_RANKS_ABI.
#pragma once

#include "collectives/hooks.h"
#include "ranks/state.h"

extern const uint32_t ls_gdb_hook_abi;  // LS_RANKS_ABI
extern ls_spmd *ls_gdb_runs;            // those that have begun and not ended, newest first
// Puts a run into that list and takes it out.
void ls_hooks__run_open(ls_spmd *run);
void ls_hooks__run_close(ls_spmd *run);

// A run begins (its ranks exist, none has run) and ends.
void ls_gdb_hook_run(const ls_spmd *run, int ended);
// A rank makes a call, before it is matched; and a call is complete, its data in place.
void ls_gdb_hook_enter(const ls_spmd *run, const ls_rank *rank, const ls_request *request);
// It is one that the debugger wants to see, by the bits of ls_gdb_catches.
void ls_gdb_hook_caught(const ls_spmd *run, const ls_rank *rank, const ls_request *request,
                        uint32_t caught);
// For the makers of calls: calls the two.
void ls_hooks__enter(const ls_spmd *run, const ls_rank *rank, const ls_request *request);
void ls_gdb_hook_complete(const ls_spmd *run, const ls_rank *rank, const ls_request *request);
// run NULL: found outside of an SPMD run.
void ls_gdb_hook_finding(const ls_spmd *run, const ls_finding *finding);
// The calls of a set do not fit together, and no rank has gone on. ls_gdb_hook_finding follows, and
// may name the defect better by the calls that come next.
void ls_gdb_hook_mismatch(const ls_spmd *run, const ls_finding *finding);
void ls_gdb_hook_deadlock(const ls_spmd *run, const char *text);
// A rank is about to wait: for the run token, or, its program over, for the end of the run.
void ls_gdb_hook_parked(const ls_spmd *run, const ls_rank *rank);
// For debuggers to call, on any thread while all are stopped: the rank that runs next, of those
// that can.
#define LS_GDB_CALLED __attribute__((noinline, used))
void ls_gdb_give_token(ls_rank *to);
// The run token goes from one rank to another (NULL: from none).
void ls_gdb_hook_switch(const ls_spmd *run, const ls_rank *from, const ls_rank *to);
