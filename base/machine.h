// The resources of the machine: memory and threads, as far as they can be known beforehand.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

// The default limit of one run's memory in bytes: half of the available memory, and at most the
// control group's limit. UINT64_MAX if the machine reports none.
uint64_t ls_machine_memory(void);
// Threads that a process can have: the least of the user's, the system's and the control group's
// limits and of what the mappings allow, of which each thread's stack takes two.
uint64_t ls_machine_threads(void);
