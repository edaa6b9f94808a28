// The clock of deadlines, pauses and measurements.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

LS_API_BACKENDS double ls_time_now(void);  // seconds, monotonic
void ls_time_sleep(double seconds);        // a signal ends it early
int64_t ls_time_wall_ns(void);             // since 1970
