// The pictures of a scenario: its tables under its plan, its tensors under their placements.
#pragma once

#include "runner/scenario/scenario.h"
#include "report/show.h"

// *out [*count] lives in `arena` and borrows from the scenario. `only` leaves out what has another
// name; NULL: nothing. Without any table or tensor *count is 0.
int ls_pictures_of_scenario(ls_picture **out, int *count, ls_arena *arena,
                            const ls_scenario *scenario, const char *only);
