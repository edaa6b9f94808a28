// Estimates the memory of a simulated run from the scenario's sizes. An upper bound, so that a run
// that does not fit is refused before it exhausts the machine.
#pragma once

#include "runner/scenario/scenario.h"

// The minimum of every run: a process with its code and stacks.
#define LS_MEMORY_LEAST (UINT64_C(16) << 20)

// Bytes at the peak of a run of all ranks in one process, with its oracle. Equal on every machine.
double ls_memory_need(const ls_scenario *scenario);
// The same of a run without data (--shape-only).
double ls_memory_need_of_shape(const ls_scenario *scenario);
// LS_ERR_LIMIT, with both figures, when a run that needs `need` would need more than `limit` bytes.
int ls_memory_check(const ls_scenario *scenario, double need, uint64_t limit);

// A tensor by name: its shape, and the number of ranks that hold each element.
typedef struct ls_tensor_size {
    const char *name;
    ls_shape shape;
    double copies, element;  // element: its size in bytes
} ls_tensor_size;

// The number of ranks that hold each element under placements.
double ls_memory_copies(const ls_scenario *scenario, const ls_placements *placements);
