// A history as the steps of a scenario.
#pragma once

#include <jansson.h>

#include "diagnose/history.h"

// The ranks whose dump ends before the calls of others, and which are not known to have ended:
// they stall before the next call, return, or make it as the others do.
typedef enum ls_steps_rest {
    LS_STEPS_REST_STALLS,
    LS_STEPS_REST_RETURNS,
    LS_STEPS_REST_JOINS,
    LS_STEPS_REST_COUNT
} ls_steps_rest;

#define LS_STEPS_WHOLE UINT64_MAX  // a window of every call

// A scenario of the unmatched calls, and of the last `window` matched ones of each group, or pair
// of ranks in it. async: no call waits before the last one is made. *out is NULL if there are no
// calls, or too many; the caller drops it with json_decref. LS_ERR_MEMORY.
int ls_steps_make(json_t **out, const ls_history *history, ls_arena *arena, uint64_t window,
                  ls_steps_rest rest, bool async);
