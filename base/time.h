// The clock of deadlines, pauses and measurements. Tests can replace it by a virtual one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

LS_API_BACKENDS double ls_time_now(void);  // seconds, monotonic
void ls_time_sleep(double seconds);        // a signal ends it early
int64_t ls_time_wall_ns(void);             // since 1970

// A virtual clock stands still, but ls_time_sleep moves it forward and returns at once.
// Invariant: only tests call this.
void ls_time_make_virtual(bool on);
