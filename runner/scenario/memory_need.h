// How much memory a simulated run of a scenario will take, from its sizes alone. An upper estimate,
// so that what cannot fit is refused before it starves the machine.
#ifndef LS_RUNNER_SCENARIO_MEMORY_NEED_H
#define LS_RUNNER_SCENARIO_MEMORY_NEED_H

#include "runner/scenario/scenario.h"

// Every run needs so much: a process with its code and stacks.
#define LS_MEMORY_LEAST (UINT64_C(16) << 20)

// Bytes at the peak of a run of all ranks in one process, judged by its oracle. The same for the
// same scenario on every machine.
double ls_memory_need(const ls_scenario *scenario);
// The same of a run without data (--shape-only).
double ls_memory_need_of_shape(const ls_scenario *scenario);
// LS_ERR_LIMIT, with both figures, when a run that needs `need` would need more than `limit` bytes.
int ls_memory_check(const ls_scenario *scenario, double need, uint64_t limit);

// A tensor by its name: its shape, and how many ranks hold each element.
typedef struct ls_tensor_size {
    const char *name;
    ls_shape shape;
    double copies, element;  // element: its bytes
} ls_tensor_size;

// How many ranks hold each element under placements.
double ls_memory_copies(const ls_scenario *scenario, const ls_placements *placements);

#endif
