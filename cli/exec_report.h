// What `lockstep exec` reports of a run: its name, its calls, and its findings with the stacks of
// their calls.
#ifndef LS_CLI_EXEC_REPORT_H
#define LS_CLI_EXEC_REPORT_H

#include "exec/coordinator.h"

// The program's name: of an interpreter that of its script or module.
const char *cli_exec_name(const char *const *argv);
ls_call_row *cli_exec_calls(ls_arena *arena, const ls_exec_result *result);
ls_finding *cli_exec_findings(int *count, ls_arena *arena, const ls_exec_result *result);
// Why a run without a finding has checked nothing; NULL: it has.
const char *cli_exec_unchecked(ls_arena *arena, const ls_exec_result *result);

#endif
