// The resources of the machine: memory and threads, as far as they can be known beforehand.
#ifndef LS_BASE_MACHINE_H
#define LS_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Bytes that one run may take unless it is reported otherwise: half of what is available now, and
// no more than the control group's limit. UINT64_MAX where the machine does not tell.
uint64_t ls_machine_memory(void);
// Threads that a process can have: the least of the user's, the system's and the control group's
// limits and of what the mappings allow, of which each thread's stack takes two.
uint64_t ls_machine_threads(void);

#ifdef __cplusplus
}
#endif
#endif
