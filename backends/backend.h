// What backends share. Private to this folder.
#pragma once

#include "backends/match.h"

// Checks calls [call_count] of one group against each other: memory that one of them writes may not
// be accessed by another (only buffers of this process; each call must have passed ls_call_check).
LS_API_BACKENDS int ls_backend__check_overlap(const ls_call *calls, int call_count);
// The same of calls that stand where their ranks made them: many ranks' are not brought together.
int ls_backend__check_overlap_met(const ls_call *const *calls, int call_count);
// The math of the matched calls, on all members' buffers, in the order of the events.
LS_API_BACKENDS int ls_backend__compute(ls_backend *backend, const ls_match *match);
