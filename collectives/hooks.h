// Where debuggers and traces see collectives happen, whichever door they came through: functions
// that do nothing and are called at fixed points, and a few plain variables. Their names and
// parameters change only with LS_HOOKS_ABI.
#pragma once

#include "collectives/collectives.h"
#include "collectives/finding.h"

#define LS_HOOKS_ABI 2

extern const uint32_t ls_gdb_abi;  // LS_HOOKS_ABI

// How many sets of calls have met in this process so far: collectives, and messages that found
// their receive. A run without a parallel schedule repeats these numbers when it is run again.
extern uint64_t ls_gdb_met;
// A debugger writes a number here to have ls_gdb_hook_reached called for that set. UINT64_MAX:
// none.
extern volatile uint64_t ls_gdb_stop_at;

// Or it names the set that it wants: the first match from then on. It writes `on` last.
typedef struct ls_gdb_wish {
    int on;           // 0: no wish
    int kind;         // an ls_kind that one of its calls has; -1: any
    int rank;         // a rank that makes one of them; -1: any
    int comm_number;  // ls_comm.number of its communicator; -1: any
    char comm[48];    // the communicator's name; "": any
    uint64_t seq;     // a call belongs to it if it is its rank's call of this number on the
                      // communicator, or a later one, since some calls belong to no set;
                      // UINT64_MAX: any
} ls_gdb_wish;
extern volatile ls_gdb_wish ls_gdb_stop_for;

// The calls at which gdb stops: ls_gdb_hook_caught and ls_gdb_hook_group_caught are called for
// calls that match an entry, with one bit per entry, so that no other call hits a breakpoint.
#define LS_GDB_CATCHES 32
extern volatile ls_gdb_wish ls_gdb_catches[LS_GDB_CATCHES];
extern volatile int ls_gdb_catching;  // whether any is on
// The bits of those that one call of [count] fits.
uint32_t ls_hooks__caught(const ls_call *calls, int count);
// Called before anything of the library runs: a debugger can write its wishes.
void ls_gdb_hook_loaded(void);

// The communicators that there are, newest first; each leads to the next older one.
extern ls_comm *ls_gdb_comms;
void ls_hooks__comm_open(ls_comm *comm);
void ls_hooks__comm_close(ls_comm *comm);

// The group of calls that this thread, a controller, is making now (ls_backend_run); calls NULL:
// none.
typedef struct ls_gdb_group {
    const ls_backend *backend;
    const ls_call *calls;  // [count]
    int count;
} ls_gdb_group;
extern __thread ls_gdb_group ls_gdb_now;

// A controller makes a group of calls, before they are matched (caught: see above); and the group
// was refused: `failure` says which check found what.
void ls_gdb_hook_group(const ls_backend *backend, const ls_call *calls, int count);
void ls_gdb_hook_group_caught(const ls_backend *backend, const ls_call *calls, int count,
                              uint32_t caught);
void ls_gdb_hook_refused(const ls_backend *backend, const ls_call *calls, int count,
                         const ls_check_failure *failure);
// Calls [size] have matched, agree, and are set number `number` (from 0); the math comes next.
void ls_gdb_hook_met(const ls_backend *backend, const ls_call *const *calls, int size,
                     uint64_t number);
// The set of ls_gdb_stop_at or ls_gdb_stop_for has matched.
void ls_gdb_hook_reached(const ls_backend *backend, const ls_call *const *calls, int size,
                         uint64_t number);

// Called, where it is set, before the hooks that report something wrong: refused groups, findings,
// divergences. A program may wait for a debugger in it. Set it before anything runs.
extern void (*ls_gdb_before_stop)(void);
void ls_hooks__before_stop(void);

// For controllers: calls the hooks.
void ls_hooks__group(const ls_backend *backend, const ls_call *calls, int count);
// For matchers: counts the set and calls the hooks; and, where the backend moves its data, the
// backend's observer of sets.
void ls_hooks__matched(const ls_backend *backend, const ls_call *const *calls, int size);
void ls_hooks__met(ls_backend *backend, const ls_call *const *calls, int size);
