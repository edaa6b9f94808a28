// Options of a run as words: of the command line, and of the environment.
#pragma once

#include "ranks/ranks.h"

#define LS_SPMD_FAULTS_MAX 64

extern const char *const ls_spmd__schedules[];  // by ls_schedule_kind, then NULL

// "2x4" or "host=2,gpu=4": the mesh and its number of ranks.
int ls_spmd__parse_mesh(ls_mesh *out, int *ranks, const char *text);
// "TYPE@RANK:CALL[:AMOUNT],...": out [LS_SPMD_FAULTS_MAX].
int ls_spmd__parse_faults(ls_fault *out, int *count, const char *text);
// Settings of LOCKSTEP_SEED and its kind in place of the options; *tries: of LOCKSTEP_EXPLORE, or
// 0.
int ls_spmd__environment(ls_spmd_options *options, ls_fault *faults, int *tries);
