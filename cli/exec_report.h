// The report of a run of `lockstep exec`: its name, its calls, and its findings with the stacks of
// their calls.
#pragma once

#include "exec/coordinator.h"

// The path of the preloaded library, which replaces NCCL's or, to observe, precedes it. If it is
// missing, reports so on stderr. Returns an exit code.
int cli_exec_find_front(char *out, size_t bytes, bool observe);
// The folder that Python's processes begin with: the backend of torch.distributed.
bool cli_exec_find_python(char *out, size_t bytes);
// Whether that can be started; says why not on stderr. Returns an exit code.
int cli_exec_check_program(const char *name);
// The end of a run without a finding; NULL: nothing. ranks: that were started; 0: a launcher.
const char *cli_exec_error(ls_arena *arena, const ls_exec_result *result, int ranks);

// How the ranks started; NULL: only exec was to be tried.
const char *cli_exec_start(ls_arena *arena, const ls_exec_result *result, int ranks);
// The program's name: of an interpreter that of its script or module.
const char *cli_exec_name(const char *const *argv);
ls_call_row *cli_exec_calls(ls_arena *arena, const ls_exec_result *result);
ls_finding *cli_exec_findings(int *count, ls_arena *arena, const ls_exec_result *result);
// Why a run without a finding has checked nothing; NULL: it has.
const char *cli_exec_unchecked(ls_arena *arena, const ls_exec_result *result);
